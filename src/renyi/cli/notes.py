"""Notes on rows and columns that need a look before the model is used.

They are about identifiers, dates, words for missing cells, strange classes, free text,
a header that looks like data, and a column that alone is nearly always right. None of
these stops a training.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.certificates.record import Certificate
from renyi.encoding.columns import Column, Label, label_text
from renyi.encoding.rules import LEAST_ROWS, lie_close, may_identify_rows
from renyi.formatting import listed, percent
from renyi.warnings import warn

if TYPE_CHECKING:
    from renyi.cli.streams import CodedRows

_MANY_DATES = 13  # more than the months of a year
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MISSING_WORDS = {"na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "missing"}
_FREE_TEXT = 0.5  # different labels, as a share of the rows
_NEARLY_RIGHT = 0.02  # error of a column that alone is suspiciously good
_ENOUGH_ROWS = 100  # fewer make a column look good by chance
_FAR_BELOW = 0.2  # the error of the most frequent class, times this
_MANY = 0.5  # header cells that look like data, as a share of the columns


# ---- columns


def warn_of_identifiers(X: pa.Table, which: str = "") -> None:
    """Warn of integers that may identify rows and will be binned as numbers."""
    n = X.num_rows
    counts: dict[str, str] = {}
    for name, column in zip(X.column_names, X.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        count = pc.count_distinct(column).as_py()
        if not column.null_count and _lie_close(column, n):
            # An error if they are nearly all different.
            continue
        if may_identify_rows(name, count, n, _in_order(column)):
            counts[name] = f"{name!r} ({count:,} different values)"
    if not counts:
        return
    names = list(counts)
    columns = "Column" if len(names) == 1 else "Columns"
    they = "it identifies" if len(names) == 1 else "they identify"
    warn(
        f"{columns} {', '.join(counts.values())} may identify rows, going by {which}"
        f"{n:,} rows: pass --id {shlex.join(names)} if {they} them."
    )


def _lie_close(column: pa.ChunkedArray, n: int) -> bool:
    """Whether the integers of a column may number n rows."""
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or lie_close(ends["min"], ends["max"], n)


def _in_order(column: pa.ChunkedArray) -> bool:
    """Whether the numbers of a column only rise, or only fall, from row to row."""
    values = column.drop_null().to_numpy()
    rise = values[1:] > values[:-1]
    fall = values[1:] < values[:-1]
    return bool(rise.all() or fall.all())


def warn_of_labels(columns: Iterable[Column]) -> None:
    """Warn of labels that often stand for missing cells, and of many dates."""
    words: dict[str, list[str]] = {}  # the columns of each
    for column in columns:
        labels = column.categories if column.kind == "label" else ()
        for label in labels:
            if isinstance(label, str) and means_missing(label):
                words.setdefault(label, []).append(column.name)
        if are_dates(labels):
            dates = len(labels) - (None in labels)
            warn(
                f"Column {column.name!r} has {dates:,} dates, each a separate "
                "label, so new dates carry no information: use their months or years, "
                f"or pass --drop {shlex.quote(column.name)}."
            )
    if words:
        names = list(dict.fromkeys(name for names in words.values() for name in names))
        warn(
            f"{', '.join(map(repr, words))} in {listed(names)} counts as a label like "
            "any other: pass "
            f"--missing {shlex.join(words)} if it means that the cell is missing."
        )


def means_missing(text: str) -> bool:
    """Whether a label is a word that often stands for a missing cell."""
    return text.strip().lower() in _MISSING_WORDS


def are_dates(labels: Sequence[Label]) -> bool:
    """Whether labels are dates, and more than the months of a year."""
    known = [label_text(label) for label in labels if label is not None]
    return len(known) >= _MANY_DATES and all(map(_DATE.match, known))


def warn_of_spaces(columns: Iterable[Column]) -> None:
    """Warn of labels of a model that no cell of a CSV file is taken for."""
    for column in columns:
        for label in (*column.categories, *column.levels.rare):
            if isinstance(label, str) and label != label.strip():
                warn(
                    f"The model has the label {label!r} in column {column.name!r}, but "
                    "spaces around the cells of a CSV file are stripped, so such rows "
                    "get another label. Parquet and Arrow files keep the spaces.",
                    "mixed-column",
                )
                return


# ---- rows to train on


def warn_of_rows(rows: CodedRows) -> list[str]:
    """Warn of strange classes, of free text, and of columns whose gaps are a leak.

    Return the names of the last.
    """
    columns = rows.encoder.columns
    gaps = [j for j, c in enumerate(columns) if None in c.categories]
    K = len(rows.target.categories)
    classes = np.zeros(K, np.int64)
    empty = np.zeros((len(gaps), 2, K), np.int64)
    for block in rows.blocks(codes=bool(gaps)):
        classes += np.bincount(block.y, minlength=K)
        for i, j in enumerate(gaps):
            missing = block.codes[j] == columns.sizes[j] - 1
            cells = np.bincount(K * missing + block.y, minlength=2 * K)
            empty[i] += cells.reshape(2, K)
    _warn_of_classes(rows.target.name, rows.target.categories, classes)
    _warn_of_free_text(rows)
    names = [columns.names[j] for j in gaps]
    return _warn_of_gaps(rows.target.name, names, empty)


def _warn_of_classes(
    target: str, labels: Sequence[Label], counts: NDArray[np.int64]
) -> None:
    texts = [label_text(label) for label in labels]
    words = [text for text in texts if means_missing(text)]
    if words:
        some = "a class" if len(words) == 1 else "classes"
        warn(
            f"The target {target!r} has {listed(words)} as {some}: pass --missing "
            f"{shlex.join(words)} if that means that the class is missing."
        )
    single = [text for text, n in zip(texts, counts, strict=True) if n == 1]
    if single:
        whose = "The class" if len(single) == 1 else "The classes"
        have = "has a single row" if len(single) == 1 else "have a single row each"
        warn(
            f"{whose} {listed(single)} of {target!r} {have}: check for typing errors "
            "and for a second header line."
        )


def _warn_of_free_text(rows: CodedRows) -> None:
    """Warn of labels that are too many to be learned, and that are not dates."""
    if rows.n < LEAST_ROWS:
        return
    many = [
        column
        for column in rows.encoder.columns
        if column.kind == "label" and len(column.categories) > _FREE_TEXT * rows.n
        if not are_dates(column.categories)
    ]
    if many:
        shown = [f"{c.name!r} ({len(c.categories):,} different labels)" for c in many]
        more = f" and {len(many) - 8:,} more" if len(many) > 8 else ""
        columns = "Column" if len(many) == 1 else "Columns"
        look = "looks" if len(many) == 1 else "look"
        warn(
            f"{columns} {', '.join(shown[:8])}{more} {look} like free text in "
            f"{rows.n:,} rows: labels on few rows say nothing about new rows. Merge "
            f"them (--min-count 5), or pass --drop {shlex.join(c.name for c in many)}."
        )


# ---- columns that alone are nearly always right


def warn_of_leak(c: Certificate, target: str, named: Collection[str]) -> None:
    """Warn of a single column that is nearly always right, by leave-one-out.

    Columns in `named` are left out.
    """
    if c.one_feature is None or c.majority is None:
        return
    name, error = c.one_feature
    if name not in named and is_leak(error, c.majority[1], c.n):
        _warn_of_leak(f"Column {name!r}", error, target, name)


def is_leak(error: float, baseline: float, n: float) -> bool:
    """Whether the error of a single column in n rows is too small to be believed.

    >>> is_leak(0.004, baseline=0.45, n=5000), is_leak(0.004, baseline=0.005, n=5000)
    (True, False)
    """
    small = error < _NEARLY_RIGHT and error < _FAR_BELOW * baseline
    return small and n >= _ENOUGH_ROWS


def _warn_of_gaps(
    target: str, names: Sequence[str], counts: NDArray[np.int64]
) -> list[str]:
    """Warn of columns whose gaps give the class away, by (gap or not, class) counts."""
    named = []
    for name, cells in zip(names, counts, strict=True):
        n = cells.sum()
        error = 1 - float(cells.max(axis=1).sum() / n)
        baseline = 1 - float(cells.sum(axis=0).max() / n)
        if is_leak(error, baseline, n):
            what = f"Whether column {name!r} is empty"
            _warn_of_leak(what, error, target, name)
            named.append(name)
    return named


def _warn_of_leak(what: str, error: float, target: str, name: str) -> None:
    warn(
        f"{what} alone predicts {target!r} with an error of {percent(error)}: if it is "
        f"only known after {target!r}, pass --drop {shlex.quote(name)}."
    )


# ---- a first row that is data


def check_header(path: object, first: pa.Table, has_names: bool = True) -> None:
    """Reject a header that is a row of data, and a row of data that is a header.

    A header cell looks like data if it is a number, or occurs in its own column. All
    cells that do, or most that occur, are proof enough; half of them are worth a note
    if some occur. Names such as 0, 1, 2 number the columns.
    """
    if not has_names:
        _check_first_row(path, first)
        return
    names = first.column_names
    numbers = [_is_number(name) for name in names]
    if len(names) < 2 or (all(numbers) and _rise(names)):
        return
    occurring = [_occurs(name, first[name]) for name in names]
    data = sum(a or b for a, b in zip(numbers, occurring, strict=True))
    if data < max(2, _MANY * len(names)) or not (all(numbers) or any(occurring)):
        return
    suspects = [n for n, a, b in zip(names, numbers, occurring, strict=True) if a or b]
    text = (
        f"{path}: the first row looks like data, not like names of columns "
        f"({listed(suspects)})"
    )
    if data == len(names) or sum(occurring) > _MANY * len(names):
        raise ValueError(
            f"{text}: pass --no-header, or add a row of names at the top of the file."
        )
    warn(f"{text}. It was taken for names: pass --no-header if it is data.")


def _check_first_row(path: object, rows: pa.Table) -> None:
    """Reject a first row without any number or label that occurs again."""
    if rows.num_rows < LEAST_ROWS:
        return
    cells = [str(column[0]) for column in rows.columns]
    pairs = zip(cells, rows.slice(1).columns, strict=True)
    if not any(_is_number(cell) or _occurs(cell, column) for cell, column in pairs):
        raise ValueError(
            f"{path}: the first row looks like names of columns, not like data "
            f"({listed(cells)}): leave --no-header and --names out."
        )


def _rise(names: Sequence[str]) -> bool:
    """Whether names are whole numbers in ascending order."""
    values = [float(name) for name in names]
    pairs = zip(values, values[1:], strict=False)
    return all(v.is_integer() for v in values) and all(a < b for a, b in pairs)


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return text.strip().lower() not in ("nan", "inf", "infinity")
    return False


def _occurs(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a column has a cell that reads as its name."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        if not _is_number(name):
            return False
        equal = pc.equal(column.cast(pa.float64(), safe=False), float(name))
    else:
        equal = pc.equal(column.cast(pa.string()), name.strip())
    return bool(pc.any(equal).as_py())
