"""Tables of points: a scorecard that someone wrote, as a frame or a CSV file.

A table has the columns feature, category and points, and with several classes also
class; or a column of points for each class. A category is a label, "(missing)", or
"(any other)" for labels that are not listed. In a column of numbers it is an interval
such as "[18, 25)" or "[65, inf)", or the name of a bin, such as "up to 17". The
category "(start)" has the points of every row, and no feature. A total above the
threshold answers the second class, or the only one that is named.

The scorecards of optbinning have the columns Variable, Bin and Points. A bin there may
list several labels, and labels that are not listed have the points of the last row.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi.additive_models import PointColumns
from renyi.encoded_columns import Coded, accepted, with_missing
from renyi.encoding.bins import bin_names, starts_of_names
from renyi.encoding.columns import (
    MISSING_TEXT,
    OTHER,
    START,
    Label,
    Levels,
    label_text,
    plain_label,
)
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import MISSING_CODES, label_levels
from renyi.files import text_cells
from renyi.solvers.calibration import MARGIN
from renyi.validation import InputError, is_number

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

Floats = NDArray[np.float64]

_NEEDED = ("feature", "category", "points")
_COUNTED = ("count", "share")  # of the rows, in tables that renyi exports
_BINNED = {"variable": "feature", "bin": "category"}  # the names of optbinning
_SPECIAL = "Special"  # codes that its tables do not name
_LARGEST = 2**25  # bytes of a file
_BOUND = r"([-+]?(?:inf|[\d.]+(?:e[-+]?\d+)?))"
_INTERVAL = re.compile(rf"[\[(]\s*{_BOUND}\s*,\s*{_BOUND}\s*[)\]]", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_LIST = re.compile(r"(?:<\w+>\s*)?\[(.*)\](?:\s*Length: .*)?", re.DOTALL)  # as printed


class _Row(NamedTuple):
    feature: str
    category: str  # as text; of a label its text
    points: float
    of_class: str


def as_table(model: object) -> pd.DataFrame | None:
    """Return a table of points as a frame, or None if it is not one.

    It is a frame of pandas or of another package, or the path of a CSV file.
    """
    if isinstance(model, (str, os.PathLike)):
        return read_points(model)
    if isinstance(model, pd.DataFrame):
        return model
    frame = model.to_pandas() if hasattr(model, "to_pandas") else None
    return frame if isinstance(frame, pd.DataFrame) else None


def read_points(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table of points from a CSV file, which may be untrusted."""
    if os.stat(path).st_size > _LARGEST:
        raise ValueError(
            f"{path} is larger than {_LARGEST:,} bytes: a table of points has one "
            "row for each category."
        )
    return text_cells(path)


def read_table(
    table: pd.DataFrame, m: Marginals | None, both: Sequence[Label] | None
) -> PointColumns:
    """Return the points of a table of points; see `Scorecard.from_model`."""
    rows, binned = _read(table)
    if both is None and m is not None:
        both = m.classes
    classes, named = _classes(rows, both or ())
    return _columns(rows, binned, named, m)._replace(classes=classes)


def encoder_of(table: pd.DataFrame) -> Encoder:
    """Return the encoder of a table's columns, whatever its classes are."""
    rows, binned = _read(table)
    named = list(dict.fromkeys(row.of_class for row in rows))
    return _columns(rows, binned, named, None).encoder(None)


def _read(table: pd.DataFrame) -> tuple[list[_Row], bool]:
    """Return the rows of a table, and whether it is one of optbinning."""
    names = [str(name).strip().lower() for name in table.columns]
    binned = not {*_NEEDED} <= {*names} and {*_BINNED} <= {*names}
    names = [_BINNED.get(name, name) if binned else name for name in names]
    if not binned:
        table, names = _by_rows(table, names)
    for name in _NEEDED:
        if names.count(name) != 1:
            present = ", ".join(repr(str(column)) for column in table.columns)
            raise ValueError(
                f"A table of points needs one column {name!r}; "
                f"its columns are {present or 'none'}."
            )
    rows = [*_rows(table.set_axis(names, axis=1), binned)]
    if not rows:
        raise ValueError("The table of points has no rows.")
    return rows, binned


def _columns(
    rows: Sequence[_Row], binned: bool, named: list[str], m: Marginals | None
) -> PointColumns:
    """Return the columns of a table's rows, with points of the classes named."""
    points = _points(rows, named)
    start = points.pop("").get(START, np.zeros(len(named)))
    columns = [_column(name, own, binned, m) for name, own in points.items()]
    if len(named) == 2:  # their difference decides
        start = np.diff(start)
        columns = [
            column._replace(
                values=np.diff(column.values), unseen=np.diff(column.unseen)
            )
            for column in columns
        ]
    return PointColumns(accepted(columns), named, start, MARGIN, MISSING_CODES)


def _points(rows: Sequence[_Row], named: list[str]) -> dict[str, dict[str, Floats]]:
    """Return the points of each class, by feature and category; "" has the start."""
    points: dict[str, dict[str, Floats]] = {"": {}}
    for row in rows:
        own = points.setdefault(row.feature, {})
        values = own.setdefault(row.category, np.full(len(named), np.nan))
        place = named.index(row.of_class)
        if not np.isnan(values[place]):
            raise ValueError(
                f"The table has two rows for {_place(row)}: leave one out."
            )
        values[place] = row.points
    for feature, own in points.items():
        for category, values in own.items():
            if np.isnan(values).any():
                lacking = named[int(np.isnan(values).argmax())]
                raise ValueError(
                    f"The table has no points of class {lacking!r} for {category!r} of "
                    f"{feature!r}: add the row."
                )
    return points


def _by_rows(table: pd.DataFrame, names: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with a row for each class, if it has a column for each."""
    known = ("feature", "category")
    classes = [k for k, name in enumerate(names) if name not in (*known, *_COUNTED)]
    both = all(names.count(name) == 1 for name in known)
    if {"points", "class"} & {*names} or len(classes) < 2 or not both:
        return table, names
    parts = []
    for k in classes:
        part = table.iloc[:, [*map(names.index, known), k]]
        part = part.set_axis([*known, "points"], axis=1)
        parts.append(part.assign(**{"class": str(table.columns[k])}))
    return pd.concat(parts), [*known, "points", "class"]


def _rows(table: pd.DataFrame, binned: bool) -> Iterator[_Row]:
    """Yield the rows of a table, one for each label."""
    classes = table["class"] if "class" in table else [""] * len(table)
    parts = (table["feature"], table["category"], table["points"], classes)
    for feature, cell, number, of_class in zip(*parts, strict=True):
        name = "" if plain_label(feature) is None else str(feature)
        for category in _categories(cell, binned):
            row = _Row(name, category, _number(number), _text(of_class))
            if (name == "") != (category == START):
                raise ValueError(
                    f"The table has {_place(row)}: only the category {START!r} has no "
                    "feature."
                )
            if not math.isfinite(row.points):
                raise ValueError(
                    f"The points of {_place(row)} are {number!r:.40}: write a finite "
                    "number."
                )
            if binned and category == _SPECIAL:
                continue
            yield row


def _categories(cell: Any, binned: bool) -> list[str]:
    """Return the texts of the labels that a cell lists."""
    if not isinstance(cell, str) and np.ndim(cell):
        return [_text(label) for label in cell]
    text = _text(cell)
    listed = _LIST.fullmatch(text) if binned else None
    if listed is not None:
        quoted = [a or b for a, b in _QUOTED.findall(listed[1])]
        if not quoted or _QUOTED.sub("", listed[1]).strip(" ,\n"):
            raise ValueError(f"The bin {text!r:.60} is not a list of labels in quotes.")
        return quoted
    if not text or (binned and text == "Missing"):
        return [MISSING_TEXT]
    return [text]


def _text(cell: Any) -> str:
    label = plain_label(cell)
    return "" if label is None else label_text(label).strip()


def _number(cell: Any) -> float:
    """Return points as a number; NaN if they are not one."""
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            return math.nan
    return float(cell) if is_number(cell) else math.nan


def _place(row: _Row) -> str:
    """Name a row of the table."""
    of_class = f" for class {row.of_class!r}" if row.of_class else ""
    return f"{row.category!r} of {row.feature!r}{of_class}"


def _classes(
    rows: Sequence[_Row], both: Sequence[Label]
) -> tuple[tuple[Label, ...], list[str]]:
    """Return the classes of a table, and the texts of those that have points."""
    named = list(dict.fromkeys(row.of_class for row in rows))
    known = {label_text(label): label for label in both}
    if len(named) > 1:
        if "" in named:
            raise ValueError("Some rows of the table have a class and others do not.")
        return tuple(known.get(text, text) for text in named), named
    if named[0] not in ("", *known) or len(known) != 2:
        of_class = f" {named[0]!r}" if named[0] else ""
        others = ", ".join(map(repr, known)) or "unknown"
        raise InputError(
            f"The table has points of one class{of_class}, and must be about two, but "
            f"the classes are {others}: add a column 'class'.",
            python="or give classes= or marginals=",
        )
    first, second = known
    if named[0] == first:
        first, second = second, first
    return (known[first], known[second]), named


def _column(
    name: str, points: dict[str, Floats], binned: bool, m: Marginals | None
) -> Coded:
    """Return a column with its points."""
    width = len(next(iter(points.values())))
    missing = points.get(MISSING_TEXT)
    nothing = np.full(width, np.nan) if missing is None or not binned else missing
    unseen = points.get(OTHER, nothing)
    known = {k: v for k, v in points.items() if k not in (MISSING_TEXT, OTHER)}
    if not known:
        raise ValueError(f"The table has no category of {name!r}.")
    levels, texts = _levels(name, [*known], m)
    values = np.stack([known[text] for text in texts])
    column = Coded(name, levels, texts, values, unseen)
    return column if missing is None else with_missing(column, missing)


def _levels(
    name: str, texts: list[str], m: Marginals | None
) -> tuple[Levels, list[str]]:
    """Return the levels of a column, and its texts in their order."""
    theirs = None
    if m is not None and name in m.feature_names:
        theirs = m.columns.named(name).levels.with_missing(False)
    if theirs is not None and {*theirs.texts} == {*texts}:
        return theirs, [*theirs.texts]
    named = starts_of_names(texts)
    if named is not None:
        starts = [*named.values()]
        return Levels("number", tuple(named), tuple(starts[1:])), [*named]
    bounds = [_INTERVAL.fullmatch(text) for text in texts]
    if not all(bounds):
        texts = sorted(texts)  # as counts have them
        counts = np.append(np.ones(len(texts)), 0.0)
        return label_levels(texts, counts, frozenset(), 1), texts
    intervals = [tuple(map(float, each.groups())) for each in bounds if each]
    order = sorted(range(len(texts)), key=intervals.__getitem__)
    ends = [intervals[k] for k in order]
    lows = [low for low, _ in ends]
    highs = [high for _, high in ends]
    closed = all(texts[k].startswith("[") for k in order[1:])
    rising = all(low < high for low, high in ends)
    whole = lows[0] == -math.inf and highs[-1] == math.inf and lows[1:] == highs[:-1]
    if not (closed and rising and whole and all(t.endswith(")") for t in texts)):
        raise ValueError(
            f"The intervals of {name!r} must cover all numbers from -inf to inf, each "
            "closed on the left and open on the right, as in '[18, 25)'."
        )
    edges = np.array(lows[1:])
    levels = Levels("number", bin_names(edges, False, ()), tuple(lows[1:]))
    return levels, [texts[k] for k in order]
