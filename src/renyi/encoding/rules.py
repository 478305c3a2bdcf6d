"""Column rules: every input path decides about a column by these functions.

missing
    None, NaN, pandas' NA, and the codes "?" and "" or those the user names instead. The
    text "NA" is a label unless it is named. Among numbers a code is compared by value,
    so that "2.0" is the number 2.
kind
    Floats are numbers to bin, and so are integers of more than `MAX_INTEGER_LABELS`
    values; strings, categoricals, booleans, moments are labels. Or the user says.
rare
    Labels of less weight than `min_count` become one; with `min_count=1` none does.
identifier
    A column that tells the rows apart is an error: labels that are nearly all
    different, and whole numbers that number the rows. These are nearly all different,
    none is missing, and there is hardly a gap between them. Other whole numbers that
    are nearly all different, such as amounts of money, are binned like any number. A
    note needs another sign: they only rise or only fall from row to row, or the name
    says "id", "key" or the like. If every amount had a note, readers would ignore all.
target
    At most half as many classes as rows; numbers of more than `MAX_INTEGER_LABELS`
    values, some of them fractions, are no classes. Rows without a target are dropped.
feature
    A column of one category tells no rows apart.
weight
    Finite and not negative. Their sum is from 1e-150 to 1e300; rows of weight zero do
    not count. Codes for missing cells are numbers like any other there.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from renyi.encoding.bins import (
    Cells,
    Sketch,
    bin_cells,
    bin_names,
    default_bins,
    single_values,
)
from renyi.encoding.columns import (
    RARE,
    Cell,
    Column,
    ColumnLike,
    Columns,
    Label,
    Levels,
    factorized,
    label_order,
    label_text,
    numbered_names,
)
from renyi.formatting import either
from renyi.validation import InputError, Option, ParameterError
from renyi.warnings import warn

Floats = NDArray[np.float64]

MISSING_CODES: tuple[Label, ...] = ("?", "")
"""Labels that mean a missing cell unless the user names others."""

MAX_INTEGER_LABELS = 20
"""An integer column with more values than this is a number, not a set of labels."""

IDENTIFIER_SHARE = 0.9
"""Share of rows above which different values are as many as those of an identifier."""

_IDENTIFIER_WORDS = frozenset(
    ["id", "ids", "identifier", "uuid", "guid", "ssn", "key", "code", "serial"]
    + ["nr", "no", "num", "number", "index", "idx"]
)

_EXACT = 2**53  # a float of this size may stand for two whole numbers

_NO_HEADER = ", or add a row of names if the first row is data"
NO_ROWS = "There are no rows to count."
NO_WEIGHT = "All weights are zero: at least one row must count."
_CLASS_SHARE = 0.5  # of the rows; more classes than that are none
LEAST_ROWS = 20  # of a table in which identifiers are looked for
_MOST_WEIGHT = 1e300  # of all rows, which leaves room for sums over columns
_LEAST_WEIGHT = 1e-150  # of all rows; the squares of smaller weights would be zero


# ---- names


def check_names(names: Iterable[str], table: object = "The table") -> None:
    """Raise an error that names a column which is there twice, or cannot be named."""
    first: dict[str, int] = {}
    for k, name in enumerate(names, 1):
        if first.setdefault(name, k) < k:
            raise ValueError(
                f"{table} has two columns named {name!r} (numbers {first[name]} and "
                f"{k}): rename one of them{'' if table == 'The table' else _NO_HEADER}."
            )
        if isinstance(name, str) and "\0" in name:  # where Arrow and SQL end a name
            raise ValueError(
                f"{table} has the column {name!r:.60}: rename it without \\x00."
            )


# ---- missing cells


def missing_texts(codes: Iterable[Label]) -> frozenset[str]:
    """Return the texts of the labels that mean "missing"."""
    return frozenset(label_text(code) for code in codes)


def missing_numbers(missing: frozenset[str]) -> set[float]:
    """Return the missing codes that are numbers."""
    numbers = set()
    for text in missing:
        with suppress(ValueError):
            numbers.add(float(text))
    return numbers


def without_missing(values: NDArray[Any], missing: frozenset[str]) -> Floats:
    """Return floats, with NaN for the user's missing codes, such as -9."""
    values = values.astype(np.float64, copy=False)
    for code in missing_numbers(missing):
        values = np.where(values == code, np.nan, values)
    return values


# ---- kinds


def is_binned(whole: bool, distinct: int) -> bool:
    """Whether a column of so many different numbers is binned, not a set of labels."""
    return not whole or distinct > MAX_INTEGER_LABELS


def beyond_exact(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Which numbers, were they floats, might stand for several whole numbers.

    Whether a column is binned depends on how many values it has, and every input path
    counts these as the integers they are.
    """
    return np.asarray((numbers >= _EXACT) | (numbers <= -_EXACT))


def are_whole(values: Floats) -> bool:
    """Whether all values are whole numbers, NaN left out."""
    known = values[~np.isnan(values)]
    return bool((np.isfinite(known) & (np.floor(known) == known)).all())


def not_numeric_error(name: str, cell: object) -> ValueError:
    """Return the error of a cell that is not a number in a numeric column."""
    return InputError(
        f"Column {name!r} is numeric but holds {cell!r:.60}: correct the cell, or "
        "train with it as a missing code, or with the column as categorical.",
        "missing",
        "categorical",
    )


def label_numbers(
    name: str, labels: Sequence[Label], codes: NDArray[Any], missing: frozenset[str]
) -> tuple[Floats, bool]:
    """Return labels as floats, NaN if missing (the last code), and if all are whole."""
    values = np.full(len(labels) + 1, np.nan)
    whole = True
    for k in np.unique(codes[codes < len(labels)]):
        label = labels[k]
        whole &= not isinstance(label, float)
        if label_text(label) not in missing:
            try:
                values[k] = np.nan if label is None else float(label)
            except (ValueError, OverflowError):
                raise not_numeric_error(name, label) from None
    values = without_missing(values, missing)
    whole &= are_whole(values[np.unique(codes)])
    return values[codes], whole


def bin_levels(
    cells: Cells,
    bins: int | str | tuple[float, ...],
    whole: bool,
    missing: bool = False,
) -> Levels:
    """Return the levels of a column of numbers; "auto" bins depend on its rows.

    A tuple of bins has their edges.
    """
    if isinstance(bins, tuple):
        whole = whole and all(edge.is_integer() for edge in bins)
        names = bin_names(np.array(bins), whole, single_values(bins))
        return Levels("number", names, bins).with_missing(missing)
    if isinstance(bins, str):
        bins = default_bins(float(cells.weight.sum()))
    edges, names = bin_cells(cells, bins, whole)
    return Levels("number", names, tuple(edges.tolist())).with_missing(missing)


def has_whole_bins(levels: Levels) -> bool:
    """Whether the bins are named as those of whole numbers."""
    names = bin_names(np.array(levels.edges), True, ())
    return levels.with_missing(False).categories == names


def merged_levels(column: Column, edges: Sequence[float]) -> Levels:
    """Return the levels of a column of numbers with neighbouring bins merged.

    `edges` are those that stay.
    """
    levels = column.levels
    if column.kind != "number":
        raise ValueError(
            f"Column {column.name!r} has labels, not bins of numbers: only "
            "neighbouring bins can be merged."
        )
    absent = sorted({*edges}.difference(levels.edges))
    if absent:
        raise ValueError(
            f"Column {column.name!r} has no edge at {absent[0]!r}: bins can be merged, "
            f"not cut. Its edges are {', '.join(map(repr, levels.edges[:12]))}"
            + (", …" if len(levels.edges) > 12 else ".")
        )
    kept = np.array([edge for edge in levels.edges if edge in {*edges}])
    own = single_values(levels.edges)
    names = bin_names(kept, has_whole_bins(levels), own)
    merged = levels._replace(categories=names, edges=tuple(kept.tolist()))
    return merged.with_missing(None in levels.categories)


# ---- labels and rare labels


def label_levels(
    labels: Sequence[Label],
    counts: NDArray[Any],
    missing: frozenset[str],
    min_count: float,
    known_rare: tuple[Label, ...] | None = None,
) -> Levels:
    """Return the levels of a column of labels."""
    present = [(v, c) for v, c in zip(labels, counts[:-1], strict=True) if c > 0]
    real = [(v, c) for v, c in present if label_text(v) not in missing]
    rare = known_rare
    if rare is None:
        rare = tuple(v for v, c in real if c < min_count) if min_count > 1 else ()
    if rare and RARE not in rare and any(v == RARE for v, _ in real):
        rare = tuple(sorted([*rare, RARE], key=label_order))  # merged with them
    merged = {label_text(v) for v in rare}
    categories: list[Label] = [_tidy(v) for v, _ in real if label_text(v) not in merged]
    if len(categories) < len(real) and RARE not in categories:
        categories = sorted([*categories, RARE], key=label_order)
    if counts[-1] > 0 or len(real) < len(present):
        categories.append(None)
    return Levels("label", tuple(categories), (), tuple(_tidy(v) for v in rare))


def _tidy(label: Label) -> Label:
    """Return a label of the same text that JSON can hold, whole numbers as int."""
    if not isinstance(label, float):
        return label
    if label.is_integer():
        return int(label)
    return label if math.isfinite(label) else str(label)


def label_codes(
    levels: Levels, labels: Sequence[Label], missing: frozenset[str]
) -> NDArray[Any]:
    """Return the code of each label, and last that of a missing cell."""
    size = len(levels.categories)
    absent = size - 1 if None in levels.categories else size
    known = enumerate(levels.categories)
    codes = {label_text(v): k for k, v in known if v is not None}
    for label in levels.rare:
        codes[label_text(label)] = codes.get(RARE, size)
    codes.update(dict.fromkeys(missing, absent))
    return np.array([*(codes.get(label_text(v), size) for v in labels), absent])


# ---- rows, targets and features


def counted_rows(known: NDArray[np.bool_], weights: Floats | None) -> NDArray[np.bool_]:
    """Return which rows count: those whose target is known, and that have a weight."""
    return known if weights is None else known & (weights > 0)


def no_counted_rows_error(target: str) -> ValueError:
    """Return the error of rows of which none counts."""
    return ValueError(
        f"No row can be counted: in every row the target {target!r} is missing or "
        "the weight is zero."
    )


def check_features(
    features: Collection[str], target: str, table: object = "The table"
) -> None:
    """Raise an error if a table has no column but the target."""
    if not features:
        raise ValueError(f"{table} has no column but the target {target!r}.")


def check_target(column: Column, n: int) -> None:
    """Raise an error if the labels of a target in n rows are too many for classes."""
    count = len(column.categories)
    fractions = any(isinstance(label, float) for label in column.categories)
    if fractions and count > MAX_INTEGER_LABELS:
        raise ValueError(
            f"The target {column.name!r} is a number with {count:,} values, not a "
            "class: cut it into classes first."
        )
    if count > MAX_INTEGER_LABELS and all(type(c) is int for c in column.categories):
        warn(
            f"The target {column.name!r} has {count:,} different integers, each taken "
            "as a class: cut it into a few classes if it is a number."
        )
    if n >= LEAST_ROWS and count > _CLASS_SHARE * n:
        raise InputError(
            f"The target {column.name!r} has {count:,} different labels in {n:,} rows, "
            "like an identifier: choose a column of classes.",
            "target",
        )


def no_target_error(name: str) -> ValueError:
    """Return the error of a target without a single value."""
    return ValueError(f"The target {name!r} is missing in every row.")


def check_classes(classes: Iterable[Label], target: str = "y") -> None:
    """Raise an error if there is one class, or some are missing, mixed or too large."""
    labels = list(classes)
    if None in labels:
        raise ValueError(
            f"The target {target!r} is missing in some of the rows behind the "
            "marginals, and a missing value is not a class. Build marginals without "
            "these rows, or choose another target (Marginals.with_target())."
        )
    if len(labels) < 2:
        raise ValueError(
            f"The target {target!r} has only one class, {labels[0]!r}: a classifier "
            "needs rows of at least two."
        )
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError(
            f"The target {target!r} has some classes that are text and some that are "
            "not: convert all to text."
        )
    if not _fit_64_bits(labels):
        raise ValueError(
            f"The target {target!r} has integer classes that do not fit together into "
            "64 bits: convert them to text."
        )


def _fit_64_bits(labels: Iterable[Any]) -> bool:
    """Whether all whole numbers among labels do, with a sign or all without."""
    whole = [label for label in labels if isinstance(label, int)]
    least = min(whole, default=0)
    most = max(whole, default=0)
    return least >= -(2**63) and most < (2**63 if least < 0 else 2**64)


def constant_columns(columns: Iterable[Column]) -> tuple[list[str], list[str]]:
    """Return the columns of one category, and those without a single value."""
    alone = [column for column in columns if len(column.categories) == 1]
    constant = [c.name for c in alone if c.categories[0] is not None]
    return constant, [c.name for c in alone if c.categories[0] is None]


# ---- identifiers


class Identifier(NamedTuple):
    """A column that tells the rows apart."""

    name: str
    kind: str  # "label" or "number"
    values: str  # how many different ones it has


def label_identifiers(columns: Columns, n: int) -> list[Identifier]:
    """Return the columns of labels that tell n rows apart."""
    limit = IDENTIFIER_SHARE * n
    large = [v.kind == "label" and len(v.categories) > limit for v in columns.levels]
    if n < LEAST_ROWS or not any(large):  # asked of levels, which columns share
        return []
    many = [columns[k] for k in np.flatnonzero(np.array(large)[columns.which]).tolist()]
    return [Identifier(c.name, "label", f"{len(c.categories):,}") for c in many]


def row_numbers(values: Sketch, n: int) -> str:
    """Return how many integers, none of n missing, number the rows; "" if they do not.

    See `lie_close`.
    """
    low, high, _ = values.cells
    if not len(low) or n < LEAST_ROWS or not lie_close(low[0], high[-1], n):
        return ""
    if values.distinct <= IDENTIFIER_SHARE * n:
        return ""
    return f"{'' if values.exact else 'about '}{min(values.distinct, n):,}"


def lie_close(least: float, largest: float, n: int) -> bool:
    """Whether integers lie as close to each other as numbers of n rows do.

    Row numbers lie within 3n of each other; measurements are spread wider.
    """
    return largest - least <= 3 * n


def check_identifiers(identifiers: Sequence[Identifier], n: int) -> None:
    """Raise an error that names all identifiers among the columns of n rows."""
    if not identifiers:
        return
    names = [each.name for each in identifiers]
    numbers = [each.name for each in identifiers if each.kind == "number"]
    values = {"label": "different labels", "number": "different whole numbers"}
    shown = [f"{v.name!r} ({v.values} {values[v.kind]})" for v in identifiers[:8]]
    more = f" and {len(identifiers) - 8:,} more" if len(identifiers) > 8 else ""
    one = len(identifiers) == 1
    head = f"{'Column' if one else 'Columns'} {', '.join(shown)}{more}"
    like = "looks like an identifier" if one else "look like identifiers"
    advice = ["leave it out" if one else "leave them out"]
    options: list[Option] = [("id", names), ("drop", names)]
    python = []
    if numbers:
        advice.append("say that it is a number" if one else "say which are numbers")
        options.append(("numeric", numbers))
        python.append("numeric=")
    if len(numbers) < len(names):
        advice.append("merge rare labels")
        options.append("min_count")
        python.append("min_count=")
    raise InputError(
        f"{head} {like} of the {n:,} rows: {either(advice)}.",
        *options,
        python=", ".join(python),
    )


def may_identify_rows(name: str, distinct: int, n: int, in_order: bool) -> bool:
    """Whether different whole numbers in n rows are worth a note.

    They are if nearly all differ, and if besides they only rise or only fall from row
    to row (`in_order`), or if the column's name is that of an identifier.

    >>> may_identify_rows("patientId", 980, 1000, in_order=False)
    True
    >>> may_identify_rows("amount", 921, 1000, in_order=False)
    False
    """
    if distinct <= max(MAX_INTEGER_LABELS, IDENTIFIER_SHARE * n):
        return False
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return in_order or any(word.lower() in _IDENTIFIER_WORDS for word in words)


# ---- weights


def check_weights(
    values: Floats, name: str | None = None, start: int | None = 0
) -> None:
    """Raise an error that names the first row whose weight cannot be one.

    `start` is how many rows come before these, None if that is not known.
    """
    wrong = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if len(wrong):
        at = int(wrong[0])
        row = None if start is None else start + at
        raise weight_error(row, float(values[at]), name)


def weight_error(row: int | None, cell: Cell, name: str | None = None) -> ValueError:
    """Return the error of a cell that cannot be a weight; its row may be unknown."""
    what = "A weight" if row is None else f"The weight of row {row} (counted from 0)"
    where = "" if name is None else f" in column {name!r}"
    shown = f"{cell:g}" if isinstance(cell, float) else f"{cell!r:.60}"
    if pd.api.types.is_scalar(cell) and pd.isna(cell) or not str(cell).strip():
        shown = "missing"
    return ValueError(
        f"{what}{where} is {shown}: weights must be finite numbers and not negative. "
        "Correct it, or leave the row out."
    )


def check_weight_column(weight: str | None, target: str) -> None:
    """Raise an error if the target is also named as the weight."""
    if weight == target:
        raise ValueError(
            f"{target!r} is the target: it cannot be the weight too. Name another "
            "column of weights."
        )


def check_sample_weight(weights: ArrayLike | None, n: int) -> Floats | None:
    """Return the weights of n rows as floats; what cannot be a weight is an error."""
    if weights is None:
        return None
    try:
        values = np.asarray(weights, np.float64)
    except (TypeError, ValueError, OverflowError):
        for row, cell in enumerate(np.asarray(weights, object).ravel()):
            try:
                value = float(cell)
            except (TypeError, ValueError, OverflowError):
                raise weight_error(row, cell) from None
            check_weights(np.array([value]), start=row)
        raise
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape != (n,):
        raise ValueError(
            f"sample_weight has the shape {values.shape}, expected ({n},): give one "
            "weight a row."
        )
    check_weights(values)
    if not values.any():
        raise ValueError(NO_WEIGHT)
    with np.errstate(over="ignore"):
        check_total(float(values.sum()))
    return values


def check_total(n: float) -> None:
    """Raise an error at a total weight too large or too small to compute with."""
    check_sum(n)
    if 0 < n < _LEAST_WEIGHT:
        raise ValueError(
            f"The weights add up to {n:g}, less than {_LEAST_WEIGHT:g}: scale them up."
        )


def check_sum(n: float) -> None:
    """Raise an error at a weight so large that sums of counts may overflow."""
    if not n <= _MOST_WEIGHT:
        raise ValueError(
            f"The weights add up to {n:g}, more than {_MOST_WEIGHT:g}: scale them down."
        )


# ---- classes of rows


def check_labels(y: ColumnLike, n: int) -> NDArray[Any]:
    """Return the labels as a one-dimensional array without missing values."""
    if hasattr(y, "__arrow_c_stream__") and not hasattr(y, "iloc"):
        y = np.asarray(y)
    # Nullable columns would become floats: 0 and 1 are to stay integers.
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if kind is not None and not y.isna().any():
        y = np.asarray(y, kind)
    dtype = getattr(y, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufUO" or y.ndim != 1:
        from sklearn.utils import column_or_1d  # which counting can spare

        plain = isinstance(y, (list, tuple))
        flat = plain and all(isinstance(v, (str, int)) for v in y)
        y = class_array(y) if flat else column_or_1d(y, warn=True)
    labels = np.asarray(y)
    if labels.dtype.kind not in "biufUO":
        raise ValueError(
            f"y holds values of the type {labels.dtype}, which are not labels: convert "
            "them to text first."
        )
    if len(labels) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n} "
            f"rows, y has {len(labels)}."
        )
    if labels.dtype.kind in "fO":
        missing = int(pd.isna(labels).sum())
        if missing:
            raise ValueError(f"y is missing in {missing} rows: leave these rows out.")
        if labels.dtype.kind == "O":
            labels = pd.Series(labels, dtype=object).infer_objects().to_numpy()
        if labels.dtype.kind == "f":
            if np.isinf(labels).any():
                raise ValueError(
                    "y contains infinity, which is not a class: correct it."
                )
            from sklearn.utils.multiclass import check_classification_targets

            check_classification_targets(labels)
    return labels


def distinct(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted classes and the code of each row's."""
    try:
        codes, classes = factorized(labels, sort=True)
    except TypeError as error:
        raise ValueError(
            f"Unknown label type: the classes cannot be sorted ({error}). Make them "
            "all strings or all numbers."
        ) from None
    return classes, codes


def codes_among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the code of each row's class among the sorted classes."""
    kinds = {classes.dtype.kind, labels.dtype.kind}
    if kinds == {"i", "u"}:  # which numpy would compare as floats
        classes = classes.astype(object)
        labels = labels.astype(object)
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"y has the class {unknown[0]!r}, which is not among the classes "
            f"{classes.tolist()} of the first call."
        )
    return np.searchsorted(classes, labels)


def check_class_labels(classes: NDArray[Any], missing: Iterable[Label]) -> None:
    """Raise an error if there is a single class, or one that means missing."""
    check_classes(classes.tolist())
    gone = missing_texts(missing)
    for label in classes.tolist():
        if label_text(label) in gone:
            raise ValueError(
                f"y holds {label!r}, which means missing: leave these rows out, or "
                "give an encoder with other codes for missing cells."
            )


def class_factors(
    weights: Mapping[Label, float] | str | None, classes: NDArray[Any], counts: Floats
) -> Floats:
    """Return the weight of each class, given the rows of each."""
    K = len(classes)
    if weights is None:
        return np.ones(K)
    if isinstance(weights, str):
        if weights != "balanced":
            raise ParameterError(
                "class_weight", f"must be a dict, 'balanced' or None, not {weights!r}."
            )
        return np.asarray(counts.sum() / (K * np.maximum(counts, 1e-300)))
    known = classes.tolist()
    for label, weight in weights.items():
        if label not in known:
            raise ParameterError(
                "class_weight", f"names {label!r}, which is not a class."
            )
        if not 0 < weight <= sys.float_info.max:  # an integer may be larger
            raise ParameterError(
                "class_weight",
                f"gives {label!r} the weight {weight!r}: weights of classes must be "
                "positive and finite.",
            )
    return np.array([float(weights.get(c, 1)) for c in known])


def target_name(y: ColumnLike, taken: Collection[str]) -> str:
    """Return the name of y, made different from the names that are taken."""
    name = str(getattr(y, "name", None) or "y")
    if taken is numbered_names(len(taken)) and not name.startswith("x"):
        return name  # without a look at 10,000 names
    while name in taken:
        name += "_"
    return name


def class_array(classes: ColumnLike) -> NDArray[Any]:
    """Return labels as an array that holds what they are, of objects if need be.

    numpy would make floats of some whole numbers, and cut texts at nulls at their end.
    """
    if not isinstance(classes, (list, tuple)):
        return np.asarray(classes)
    whole = all(type(label) is int for label in classes)
    large = whole and min(classes, default=0) >= 0 and max(classes, default=0) >= 2**63
    array = np.array(classes, np.uint64 if large and max(classes) < 2**64 else None)
    if array.tolist() != list(classes) or (whole and array.dtype.kind == "f"):
        array = np.empty(len(classes), object)
        array[:] = classes
    return array


def check_class_list(classes: list[Any]) -> None:
    """Check that classes are the same again as an array of labels."""
    if not _fit_64_bits(classes) or not all(
        isinstance(label, (str, int, float, bool)) for label in classes
    ):
        raise ValueError("its classes are not labels")
    if len(classes) < 2 or len(set(map(label_text, classes))) < len(classes):
        raise ValueError("its classes are not two or more different ones")
    array = class_array(classes)
    booleans = sum(isinstance(label, bool) for label in classes)
    alike = any(all(type(label) is kind for label in classes) for kind in (str, int))
    if (
        (array.dtype.kind not in "biufU" and not alike)
        or booleans not in (0, len(classes))
        or (array.dtype.kind == "f" and not np.isfinite(array).all())
    ):
        raise ValueError("its classes are neither all strings nor all finite numbers")
