"""From any table to small integers: each block of columns with a dictionary of labels.

A *part* is one or more columns of the caller's table in one of two plain forms:

* `LabelBlock`: integer codes of shape (columns, rows) into one list of labels shared by
  all columns of the part; the code ``len(labels)`` stands for a missing cell.
* `NumberColumn`: the float values of one column, NaN where missing.

Columns of one type are taken together, because a Python loop over 10,000 columns costs
more than the work itself. `split_by_kind` then makes each column a number or labels by
`renyi.encoding.rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.arrow import (
    Array,
    Floats,
    check_moments,
    check_type,
    coded,
    entries,
    filled,
    from_decimals,
    plain_array,
)
from renyi.encoding.columns import (
    Label,
    TableLike,
    factorized,
    label_text,
    plain_label,
    ranked,
)
from renyi.encoding.rules import (
    MAX_INTEGER_LABELS,
    beyond_exact,
    check_names,
    is_binned,
    label_numbers,
    missing_numbers,
    without_missing,
)

# Integer columns whose values span at most this range are coded by subtraction.
_SMALL_RANGE = 256
# A table with this many columns keeps its rows contiguous.
_WIDE = 256
# Neighbouring columns of one type share a dictionary up to this many cells, and each
# has a separate one from this many rows on.
_AT_ONCE = 10_000_000
_LONG = 4096
# Entries of a shared dictionary, times columns, that are always worth their while.
_SHARED = 4096
_LABEL_CELLS = 2**21  # columns times labels that are looked at at a time


class LabelBlock(NamedTuple):
    """Columns as codes into one shared, sorted list of labels.

    A `categorical` column is of labels by its type, even if they are numbers.
    """

    names: Sequence[str]
    codes: NDArray[Any]
    labels: list[Label]
    categorical: bool = False


class NumberColumn(NamedTuple):
    """One numeric column; `integer` if every value is a whole number by type.

    Integers stay integers until `split_by_kind`: as floats, labels above 2**53 would
    merge.
    """

    name: str
    values: NDArray[Any]
    integer: bool

    @property
    def names(self) -> list[str]:
        """The name, as of many columns."""
        return [self.name]


Block = LabelBlock | NumberColumn


def column_names(X: TableLike) -> list[str] | None:
    """Names of the columns of a frame as strings; None for what has no names."""
    if isinstance(X, (pa.Table, pa.RecordBatch)):
        return [str(c) for c in X.schema.names]
    if hasattr(X, "__arrow_c_stream__") and hasattr(X, "columns"):
        return [str(c) for c in X.columns]
    return None


def check_frame_names(X: TableLike) -> None:
    """Check the names of a frame before it is asked for Arrow's form of it.

    At a null character in a name polars ends the process.
    """
    check_names(column_names(X) or ())


def as_table(X: TableLike) -> TableLike:
    """Return X as a pandas frame, an Arrow table or a two-dimensional numpy array."""
    if isinstance(X, (pd.DataFrame, pa.Table)):
        table: Any = X
    elif hasattr(X, "__arrow_c_stream__") and len(getattr(X, "shape", "rc")) == 2:
        check_frame_names(X)
        table = pa.table(X)
    elif hasattr(X, "collect") and hasattr(X, "lazy"):
        raise TypeError("A lazy frame has no rows yet: pass frame.collect().")
    elif hasattr(X, "tocsr") or hasattr(X, "tocoo"):
        raise TypeError(
            "Sparse input is not supported: renyi counts categories, zeros included. "
            "Pass a dense table, for example X.toarray()."
        )
    else:
        table = as_objects(X)
        if table.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: the dtype is {table.dtype}.")
        if table.ndim == 1:
            raise ValueError(
                "Expected 2D array, got 1D array instead. Reshape your data: "
                "X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one "
                "row."
            )
        if table.ndim != 2:
            raise ValueError(
                f"Expected a two-dimensional table, got {table.ndim} axes."
            )
    for size, what in zip(table.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(table.shape)}) while a "
                "minimum of 1 is required."
            )
    return table


def as_objects(values: TableLike) -> NDArray[Any]:
    """Return an array; a list keeps the types of its cells.

    ``np.asarray`` would turn ["a", nan] into ["a", "nan"] and [True, 2] into [1, 2].
    """
    kind = object if isinstance(values, (list, tuple)) else None
    return np.asarray(values, kind)


def parts(table: TableLike, names: Sequence[str]) -> Iterator[Block]:
    """Yield the columns of a table made by `as_table` as parts, in any order."""
    if isinstance(table, pa.Table):
        yield from _from_arrow_columns(names, table.columns)
    elif isinstance(table, pd.DataFrame):
        for kind, places in _runs(table.dtypes.tolist()):
            run = slice(places[0], places[-1] + 1)
            some = run if len(places) == run.stop - run.start else places
            own = [names[j] for j in places]
            yield from _from_frame(own, table.iloc[:, some], kind)
    else:
        yield from _from_array(names, table)


# ---- columns of frames and Arrow tables


def _runs(kinds: list[Any]) -> Iterator[tuple[Any, list[int]]]:
    """Yield each type with its columns: neighbours, or in wide frames all of them.

    A frame is cut in a time that grows with all its columns.
    """
    if len(kinds) < _WIDE:
        for kind, run in groupby(range(len(kinds)), kinds.__getitem__):
            yield kind, list(run)
        return
    groups: dict[Any, list[int]] = {}
    for j, kind in enumerate(kinds):
        # Other types are slow to compare, and taken column by column.
        key = kind if isinstance(kind, np.dtype) else type(kind)
        groups.setdefault(key, []).append(j)
    for places in groups.values():
        yield kinds[places[0]], places


def _from_frame(
    names: Sequence[str], frame: pd.DataFrame, kind: object
) -> Iterator[Block]:
    """Take columns of one type."""
    if isinstance(kind, np.dtype) and kind.kind in "biufO":
        yield from _from_array(names, frame.to_numpy())
    elif isinstance(kind, (pd.PeriodDtype, pd.IntervalDtype)):
        yield from _from_array(names, frame.astype(object).to_numpy())
    elif isinstance(kind, pd.SparseDtype):
        raise TypeError(
            f"Column {names[0]!r} is sparse, which is not supported: make it dense "
            "with frame[column].sparse.to_dense()."
        )
    elif isinstance(kind, pd.CategoricalDtype):
        yield from _from_categoricals(names, [c.array for _, c in frame.items()])
    else:
        columns = (pa.array(c, from_pandas=True) for _, c in frame.items())
        yield from _from_arrow_columns(names, columns)


def _from_categoricals(names: Sequence[str], columns: list[Any]) -> Iterator[Block]:
    """Take neighbours together that have the same categories in the same order."""
    low = 0
    labels = columns[0].categories
    for j in range(1, len(columns) + 1):
        last = j == len(columns)
        other = None if last else columns[j].categories
        if other is not None and (other is labels or other.identical(labels)):
            continue
        codes = np.stack([column.codes for column in columns[low:j]])
        yield as_labels(names[low:j], codes, labels.tolist(), True)
        low = j
        labels = other


def _from_arrow_columns(
    names: Sequence[str], columns: Iterable[Any]
) -> Iterator[Block]:
    """Take neighbours of one type together while that is a small array."""
    waiting: list[Any] = []
    for j, column in enumerate(columns):
        column = _one_array(column)
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        full = (len(waiting) + 1) * len(column) > _AT_ONCE
        if waiting and (full or column.type != waiting[0].type):
            yield from _together(names[j - len(waiting) : j], waiting)
            waiting = []
        if _is_plain(column):
            waiting.append(column)
        else:
            yield _from_arrow(names[j], column)
    if waiting:
        yield from _together(names[len(names) - len(waiting) :], waiting)


def _is_plain(column: Array) -> bool:
    """Whether a column may share a dictionary with its neighbours."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True
    small = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return small and len(column) < _LONG


def _one_array(column: Array) -> Array:
    if isinstance(column, pa.ChunkedArray):
        # Arrow may fail on chunks without rows ("buffer slice would exceed …").
        some = [chunk for chunk in column.chunks if len(chunk)]
        if len(some) == 1:
            return some[0]
        column = pa.chunked_array(some, column.type).combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # more than one array can hold
            column = pa.concat_arrays(column.chunks)
    return column


def _too_many(labels: int, d: int, n: int) -> bool:
    """Whether so many labels are too many for d columns of n rows to share."""
    return d > 1 and labels * d > max(_SHARED, d * n)


def _halves(d: int, n: int) -> Iterator[slice]:
    """Yield the columns in two halves; long ones each for itself."""
    step = 1 if n >= _LONG else (d + 1) // 2
    for low in range(0, d, step):
        yield slice(low, low + step)


def _together(names: Sequence[str], columns: list[Any]) -> Iterator[Block]:
    """Take columns of one type by a shared dictionary, if most of it is in each.

    What is done for each column grows with the dictionary: where columns have
    different labels, fewer share one.
    """
    d = len(columns)
    n = len(columns[0])
    if d == 1:
        yield _from_arrow(names[0], columns[0])
        return
    encoded = pa.concat_arrays(columns).dictionary_encode()
    if _too_many(len(encoded.dictionary), d, n):
        for some in _halves(d, n):
            yield from _together(names[some], columns[some])
        return
    codes = pc.fill_null(encoded.indices, -1).to_numpy().reshape(d, n)
    yield as_labels(names, codes, encoded.dictionary.to_pylist())


def _from_arrow(name: str, column: Array) -> Block:
    check_type(name, column.type)
    column = plain_array(_one_array(column))
    if pa.types.is_decimal(column.type):
        column = from_decimals(column)
    kind = column.type
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return NumberColumn(name, values, False)
    indices, dictionary = coded(column)
    check_moments(name, dictionary)
    many = pa.types.is_integer(kind) and is_binned(True, len(dictionary))
    if many and column.null_count:  # what becomes floats, may lose digits
        extremes = pc.min_max(column).as_py()
        many = not beyond_exact(np.array([*extremes.values()])).any()
    if many:
        return NumberColumn(name, column.to_numpy(zero_copy_only=False), True)
    categorical = pa.types.is_dictionary(kind)
    return as_labels([name], filled(indices)[None, :], entries(dictionary), categorical)


# ---- columns of arrays


def _from_array(names: Sequence[str], X: NDArray[Any]) -> Iterator[Block]:
    kind = X.dtype.kind
    if kind == "b":
        yield LabelBlock(names, np.ascontiguousarray(X.T).view(np.uint8), [False, True])
    elif kind in "iu":
        yield from _from_integers(names, X)
    elif kind == "f":
        for j, name in enumerate(names):
            yield NumberColumn(name, X[:, j].astype(np.float64), False)
    elif kind in "OUST":
        yield from _from_objects(names, X)
    elif kind == "V":
        raise TypeError("Structured arrays are not supported: pass a data frame.")
    else:  # dates and times
        for j, name in enumerate(names):
            yield _from_arrow(name, pa.array(X[:, j], from_pandas=True))


def _from_integers(names: Sequence[str], X: NDArray[Any]) -> Iterator[Block]:
    if X.shape[1] < _WIDE and X.dtype.itemsize > 1 and X.flags.c_contiguous:
        small = _transposed(X, 0, checked=False)
        if small is not None:
            yield LabelBlock(names, small, list(range(int(small.max()) + 1)))
            return
    low = int(X.min())
    high = int(X.max())
    if high - low < _SMALL_RANGE:
        step = max(1, _LABEL_CELLS // (high - low + 1))
        for j in range(0, X.shape[1], step):
            small = _shifted(X[:, j : j + step], low)
            yield LabelBlock(names[j : j + step], small, list(range(low, high + 1)))
        return
    for j, name in enumerate(names):
        column = X[:, j : j + 1]
        low = int(column.min())
        high = int(column.max())
        if high - low < _SMALL_RANGE:
            yield LabelBlock([name], _shifted(column, low), list(range(low, high + 1)))
            continue
        codes, values = pd.factorize(column[:, 0])
        if is_binned(True, len(values)):
            yield NumberColumn(name, column[:, 0], True)
        else:
            yield as_labels([name], codes[None, :], values.tolist())


def _shifted(X: NDArray[Any], low: int) -> NDArray[np.uint8]:
    """Return the codes X - low, one row per column.

    A wide table keeps its rows contiguous, and is not copied if it need not be; a
    narrow one is transposed, block by block, since columns are what is counted.
    """
    if X.dtype.kind == "u" and low:
        X = X - X.dtype.type(low)  # int64 need not hold it
        low = 0
    if X.shape[1] >= _WIDE or X.flags.f_contiguous:
        if low == 0 and X.dtype.itemsize == 1:
            return X.view(np.uint8).T
        return (X if low == 0 else X.astype(np.int64) - low).astype(np.uint8).T
    codes = _transposed(X, low, checked=True)
    assert codes is not None
    return codes


def _transposed(X: NDArray[Any], low: int, checked: bool) -> NDArray[np.uint8] | None:
    """Return the codes X - low; None if one is out of range, checked in one pass."""
    n, d = X.shape
    out = np.empty((d, n), np.uint8)
    step = max(1, 80_000 // d)
    for s in range(0, n, step):
        rows = X[s : s + step]
        if not checked and (rows.min() < low or rows.max() >= low + _SMALL_RANGE):
            return None
        shifted = rows if low == 0 else rows.astype(np.int64) - low
        out[:, s : s + step] = shifted.astype(np.uint8).T
    return out


def _from_objects(names: Sequence[str], X: NDArray[Any]) -> Iterator[LabelBlock]:
    """Take many columns together, few or such that differ in type each for itself."""
    cells = X.T
    if X.dtype.kind == "S":
        cells = np.char.decode(cells, "utf-8")
    cells = cells.astype(object, copy=False)
    try:
        yield from _labels_of_objects(names, cells, len(names) >= _WIDE)
    except TypeError as error:
        pairs = zip(names, cells, strict=True)
        name = next((name for name, column in pairs if not _readable(column)), None)
        where = "A cell" if name is None else f"A cell of column {name!r}"
        raise TypeError(
            f"{where} is not something that renyi reads ({error}): argument must be a "
            "string or a number in every cell."
        ) from None


def _readable(cells: NDArray[Any]) -> bool:
    """Whether every cell can be a label."""
    try:
        for cell in dict.fromkeys(cells):
            plain_label(cell)
    except TypeError:
        return False
    return True


def _labels_of_objects(
    names: Sequence[str], cells: NDArray[Any], together: bool
) -> Iterator[LabelBlock]:
    """Take columns together if they share labels, and if hashing tells these apart.

    It takes True, 1 and 1.0 for one.
    """
    d, n = cells.shape
    groups: Iterable[slice] = (slice(j, j + 1) for j in range(d))
    if together or d == 1:
        flat = cells.reshape(-1)
        codes, values = factorized(flat)
        kinds = ("boolean", "integer", "floating", "string")
        alike = (
            all(isinstance(value, str) for value in values)
            or pd.api.types.infer_dtype(flat, skipna=True) in kinds
        )
        if alike and not _too_many(len(values), d, n):
            yield as_labels(names, codes.reshape(d, n), values.tolist())
            return
        if d == 1:
            yield _mixed(names[0], cells[0])
            return
        groups = _halves(d, n) if alike else groups
        together = alike
    for some in groups:
        yield from _labels_of_objects(names[some], cells[some], together)


def _mixed(name: str, cells: NDArray[Any]) -> LabelBlock:
    places: dict[tuple[type, Any], int] = {}
    codes = [places.setdefault((type(v), v), len(places)) for v in cells.tolist()]
    return as_labels([name], np.array([codes]), [value for _, value in places])


def as_labels(
    names: Sequence[str],
    codes: NDArray[Any],
    values: list[Any],
    categorical: bool = False,
) -> LabelBlock:
    """Sort the labels, merge those of the same text, give missing cells a code."""
    try:
        labels, places = ranked([plain_label(v) for v in values])
    except TypeError as error:
        where = f"Column {names[0]!r}" if len(names) == 1 else "A column"
        raise TypeError(
            f"{where} has a cell that renyi does not read: {error}."
        ) from None
    dtype = np.min_scalar_type(len(labels))
    table = np.array([*places, len(labels)], dtype)  # the last entry serves code -1
    return LabelBlock(names, table[codes], labels, categorical)


# ---- numbers or labels


def split_by_kind(
    part: Block,
    numeric: frozenset[str] | None,
    missing: frozenset[str],
    numbers: Collection[str] = (),
) -> list[Block]:
    """Make each column a number or labels, as `numeric` names them; None by type.

    Those in `numbers` are numbers in any case.
    """
    named = [name for name in part.names if name in numbers] if numbers else []
    if numeric is None and named:
        others = [name for name in part.names if name not in numbers]
        pieces = split_by_kind(_some(part, named), frozenset(named), missing)
        if others:
            pieces += split_by_kind(_some(part, others), None, missing)
        return pieces
    if isinstance(part, NumberColumn):
        if numeric is None or part.name in numeric:
            values = without_missing(part.values, missing)
            if (
                numeric is not None
                or not part.integer
                or np.isnan(values).sum() == np.isnan(part.values).sum()
                or is_binned(True, len(np.unique(part.values[~np.isnan(values)])))
            ):  # there are many integers; are there, without missing codes?
                return [part._replace(values=values)]
        codes, values = pd.factorize(part.values)
        return [as_labels([part.name], codes[None, :], values.tolist())]
    if numeric is not None:
        chosen = np.array([name in numeric for name in part.names])
    elif part.categorical:
        return [part]
    else:
        chosen = _looks_numeric(part, missing)
    if not chosen.any():
        return [part]
    split: list[Block] = []
    for j in np.flatnonzero(chosen).tolist():
        cells = (part.names[j], part.labels, part.codes[j])
        split.append(NumberColumn(cells[0], *label_numbers(*cells, missing)))
    if not chosen.all():
        rest = np.flatnonzero(~chosen).tolist()
        names = [part.names[j] for j in rest]
        split.append(part._replace(names=names, codes=part.codes[rest]))
    return split


def _some(part: Block, names: Sequence[str]) -> Block:
    """Return some of the columns of a part."""
    if isinstance(part, NumberColumn):
        return part
    where = [part.names.index(name) for name in names]
    return part._replace(names=names, codes=part.codes[where])


def _looks_numeric(part: LabelBlock, missing: frozenset[str]) -> NDArray[np.bool_]:
    """Which columns of a part hold numbers only, and enough of them to be binned."""
    fraction = np.array([isinstance(v, float) for v in part.labels], np.bool_)
    number = np.array(
        [isinstance(v, int | float) and not isinstance(v, bool) for v in part.labels],
        np.bool_,
    )
    if not is_binned(not fraction.any(), int(number.sum())):
        return np.zeros(len(part.names), np.bool_)
    codes = missing_numbers(missing)
    real = [
        label_text(v) not in missing and (isinstance(v, bool) or v not in codes)
        for v in part.labels
    ]
    present = label_counts(part)[:, :-1].astype(bool) & np.array(real, np.bool_)
    many = present.sum(axis=1) > MAX_INTEGER_LABELS
    numeric: NDArray[np.bool_] = (present & fraction).any(axis=1) | many
    return numeric & ~(present & ~number).any(axis=1)


def label_counts(part: LabelBlock, weights: Floats | None = None) -> NDArray[Any]:
    """Rows (or weight) of each label in each column; the last column counts missing.

    Without weights and with few labels, only whether a label occurs: a comparison per
    label is far cheaper than a histogram.
    """
    codes = part.codes
    width = len(part.labels) + 1
    d, n = codes.shape
    if weights is None and width <= 12:
        occurs = np.zeros((width, d), bool)
        if n > 4096:  # most tables show all their labels early
            for k in range(width):
                occurs[k] = (codes[:, :2048] == k).any(axis=1)
            if occurs[:-1].all() and int(codes.max()) < width - 1:
                return occurs.T
        lowest = codes.min(axis=1)
        highest = codes.max(axis=1)
        for k in range(int(lowest.min()), int(highest.max()) + 1):
            # Only labels between the extremes need a look at all cells.
            between = (lowest < k) & (k < highest)
            occurs[k] |= (lowest == k) | (highest == k)
            if (between & ~occurs[k]).any():
                occurs[k] |= (codes == k).any(axis=1)
        return occurs.T
    return np.array([np.bincount(row, weights, width) for row in codes])
