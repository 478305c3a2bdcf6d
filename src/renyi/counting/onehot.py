r"""Compute products with the one-hot matrix `W`, without building all of it.

The rows of a table are codes of shape (d, n); their one-hot matrix `W` has n rows and
:math:`D = \sum_j m_j` columns. Scoring needs :math:`W Z`, the dual form of ridge
regression :math:`W W^T` and :math:`W^T V`.

:func:`lookup_sum` guarantees more than its value: the bits of a row's score do not
depend on the other rows of the batch. Floating-point sums depend on their order, which
``np.sum`` chooses by shape. So whole columns are added one after the other by explicit
additions, which treat all rows alike. The compiled loop adds in the same order, and so
gives the same bits.

:func:`label_sums` adds the rows of each category separately. For a column of two
categories "total minus the other" would be cheaper. But that difference has the
rounding errors of the total, which may be far larger than the wanted sum.

:func:`agreement` compares 64 columns at a time: bit p of all codes of a row makes a
plane of bits, and two rows differ where any plane does. For 170 rows of 10,000 binary
columns that takes 2.7 ms, compiled 0.3 ms, where a product in float32 takes 4.8 ms.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting import compiled
from renyi.limits import check_memory

Sizes = Sequence[int] | NDArray[Any]
Floats = NDArray[np.float64]

MAX_TABLE_BYTES = 8 * 10**9
"""The largest allowed table of counts."""

KERNELS = "renyi.counting.kernels"
WORTH_SECONDS = 0.05
"""Total work of numpy in this process after which numba is loaded."""
_requested = [0.0]

ROWS = 8_192  # rows of a tile of lookups
PRODUCT_ROWS = 61_440  # rows of a block of a product
ELEMENTS = 2**16  # elements of a tile of lookups: half a MB, which stays in cache
BLOCK = 2**18  # elements of a one-hot block
LOOKUP_SECONDS = 3e-9  # per row, column and output, with numpy
COMPARE_SECONDS = 1e-11  # per pair of rows and column, with numpy
SUM_SECONDS = 5e-10  # per row, column and output, with numpy
COMPILED_CELLS = 1_000_000  # cells from which sums of wide tables are compiled
_SQUARE = 512  # rows of a square that is copied at once
BLOCK_COLUMNS = 1_024  # columns of a compiled loop over wide rows
FEW_CATEGORIES = 16  # with more, a product is slower than other methods


def kernels_for(seconds: float, module: str = KERNELS) -> ModuleType | None:
    """Return a module of compiled loops if the work of numpy so far is worth it."""
    _requested[0] += seconds
    if _requested[0] < WORTH_SECONDS and sys.modules.get("numba") is None:
        return None
    return compiled.load(module)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that loops are compiled only once."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view


def offsets(sizes: Sizes) -> NDArray[np.int64]:
    """Return the place of each column's first indicator, and the total at the end."""
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def spans(sizes: Sizes) -> list[slice]:
    """Return the places of each column's indicators."""
    return [slice(*ends) for ends in pairwise(offsets(sizes).tolist())]


def dense(codes: ArrayLike, sizes: Sizes) -> NDArray[np.float64]:
    """Return the one-hot matrix W, shape (n, D)."""
    places = offsets(sizes)[:-1, None] + np.asarray(codes)
    W = np.zeros((places.shape[1], int(np.sum(sizes))))
    W[np.arange(len(W)), places] = 1
    return W


# ---- W Z


def lookup_sum(
    codes: ArrayLike, tables: ArrayLike, starts: Sizes
) -> NDArray[np.float64]:
    """Add up one row of `tables` per column: the scores `W Z`, shape (n, K).

    Column `j` with code `c` contributes row ``starts[j] + c`` of the tables, of shape
    (T, K). The result for a row has the same bits whatever the other rows are: scored
    alone or among millions.
    """
    table = np.asarray(codes)
    values = np.ascontiguousarray(np.asarray(tables, dtype=np.float64).T)
    first = np.asarray(starts, dtype=np.int64)
    _check_lookup(table, values.shape[1], first)
    sums = np.zeros((values.shape[0], table.shape[1]))
    if table.dtype.kind != "u" or table.dtype.itemsize > 4:
        table = table.astype(np.uint32)
    kernels = kernels_for(LOOKUP_SECONDS * table.size * len(values))
    if kernels is None:
        _add_lookups(table, values, first, sums)
    else:
        kernels.lookup_sum(*map(read_only, (table, values, first)), ROWS, sums)
    return np.ascontiguousarray(sums.T)


def _check_lookup(codes: NDArray[Any], length: int, starts: NDArray[np.int64]) -> None:
    """Raise an error if codes would be looked up outside of the tables."""
    check_shape(codes, starts, "starts")
    wrong = has_outside(codes, -starts, length - starts)
    if wrong.any():
        raise ValueError(
            f"column {int(np.argmax(wrong))} has a code outside its table of "
            "contributions: encode the rows again."
        )


def check_shape(codes: NDArray[Any], each: NDArray[np.int64], what: str) -> None:
    """Raise an error unless the codes have one column for each number in `each`."""
    if codes.ndim != 2 or each.shape != codes.shape[:1]:
        raise ValueError(
            f"codes of shape {codes.shape} do not match {each.size} {what}: "
            "give codes as (columns, rows)."
        )


def has_outside(codes: NDArray[Any], low: Any, high: Any) -> NDArray[np.bool_]:
    """Return which columns have a code below `low`, or not below `high`."""
    if not codes.size:
        return np.zeros(len(codes), bool)
    wrong: NDArray[np.bool_] = codes.max(axis=1).astype(np.int64) >= high
    if codes.dtype.kind == "i":
        wrong |= codes.min(axis=1) < low
    return wrong


def _add_lookups(
    codes: NDArray[Any],
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> None:
    """Add the looked-up values to `sums`, shape (K, n), column after column.

    Values are gathered for many columns at once, then added by one explicit addition
    per column: the order of a reduction is not defined.
    """
    d, n = codes.shape
    for low in range(0, n, ROWS):
        rows = slice(low, min(low + ROWS, n))
        width = max(1, ELEMENTS // (rows.stop - low))
        for j in range(0, d, width):
            places = codes[j : j + width, rows] + starts[j : j + width, None]
            for target, table in zip(sums[:, rows], values, strict=True):
                for column in table.take(places):
                    target += column


# ---- Wᵀ V


def label_sums(codes: ArrayLike, sizes: Sizes, V: ArrayLike) -> NDArray[np.float64]:
    """Sum the rows of `V` over each category of each column: `W.T @ V`, shape (D, k).

    A code equal to the column's size stands for an unseen label, which is left out of
    that column's sums.
    """
    table = np.asarray(codes)
    lengths = np.asarray(sizes, dtype=np.int64)
    values = np.asarray(V, dtype=np.float64)
    # Compiled sums have another order, so only the shape decides.
    if _is_wide(table, lengths) and table.size >= COMPILED_CELLS:
        kernels = compiled.load(KERNELS)
        if kernels is not None:
            # The sums are contiguous, so that the loop is compiled only once.
            sums = np.zeros((values.shape[1], len(table), int(lengths.max())))
            for value, target in zip(values.T, sums, strict=True):
                value = np.ascontiguousarray(value)
                kernels.level_sums(table.T, value, BLOCK_COLUMNS, target)
            return _without_padding(np.moveaxis(sums, 0, 2), lengths)
    starts = offsets(lengths)
    out = np.zeros((starts[-1], values.shape[1]))
    # A scattered sum has an overhead per column, which is small for many rows.
    by_product = lengths <= (FEW_CATEGORIES if table.shape[1] < ROWS else -1)
    small = np.flatnonzero(by_product)
    width = max(1, BLOCK // max(1, table.shape[1]))
    for low in range(0, small.size, width):
        columns = small[low : low + width]
        _add_by_product(table, lengths, starts, columns, values, out)
    for j in np.flatnonzero(~by_product):
        target = out[starts[j] : starts[j + 1]]
        for low in range(0, table.shape[1], BLOCK // 4):
            rows = slice(low, low + BLOCK // 4)
            places = table[j, rows].astype(np.int64)
            for k in range(values.shape[1]):
                added = np.bincount(places, values[rows, k], len(target))
                target[:, k] += added[: len(target)]
    return out


def _add_by_product(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add indicators times values, one category of all the columns at a time."""
    if columns[-1] - columns[0] == columns.size - 1:  # a view is enough
        block = codes[columns[0] : columns[-1] + 1]
    else:
        block = codes[columns]
    for category in range(int(sizes[columns].max())):
        has = sizes[columns] > category
        part = block if has.all() else block[has]
        indicators = (part == category).astype(np.float64)
        out[starts[columns[has]] + category] += indicators @ values


def class_label_counts(
    codes: NDArray[Any], sizes: NDArray[Any], y: NDArray[Any], n_classes: int
) -> NDArray[np.int64]:
    """Count the rows of each category and class: `W.T @ E`, E the class indicators.

    For tables of few rows and many columns; all codes must be of known categories.
    """
    levels = int(np.max(sizes))
    d = codes.shape[0]
    counts = np.zeros((d, levels, n_classes), np.int64)
    wide = _is_wide(codes, sizes)
    kernels = kernels_for(SUM_SECONDS * codes.size) if wide else None
    if kernels is not None:
        kernels.class_level_counts(codes.T, y, BLOCK_COLUMNS, counts)
        return _without_padding(counts, sizes)
    for label in range(n_classes):
        rows = codes.T[y == label]
        for low in range(0, len(rows), 255):  # bytes suffice, and are faster
            for level in range(levels):
                same = (rows[low : low + 255] == level).view(np.uint8)
                counts[:, level, label] += np.add.reduce(same, axis=0, dtype=np.uint8)
    return _without_padding(counts, sizes)


def _without_padding(table: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """Concatenate the levels of the columns: (d, levels, k) to (D, k)."""
    d, levels, k = table.shape
    if (np.asarray(sizes) == levels).all():
        return table.reshape(d * levels, k)
    entries: NDArray[Any] = table[np.arange(levels) < np.asarray(sizes)[:, None]]
    return entries


def _is_wide(codes: NDArray[Any], sizes: NDArray[np.int64]) -> bool:
    """Return whether rows of bytes are contiguous, with few categories per column."""
    return (
        codes.dtype == np.uint8
        and codes.flags.f_contiguous
        and codes.shape[0] > codes.shape[1]
        and int(sizes.max()) <= FEW_CATEGORIES // 2
    )


# ---- W Wᵀ and Wᵀ W


def agreement(codes: NDArray[Any], levels: int) -> NDArray[np.float64]:
    """Count the columns on which two rows agree: `W @ W.T`, exact, as floats.

    No column has more than so many `levels`.
    """
    d, n = codes.shape
    if 8 * n * n > MAX_TABLE_BYTES:  # before memory is allocated
        raise ValueError(
            f"The agreement of every two of {n} rows needs {8 * n * n / 1e9:.1f} GB, "
            f"and the limit is {MAX_TABLE_BYTES / 1e9:.1f} GB: use fewer rows, merge "
            "rare categories or drop columns."
        )
    check_memory(8 * n * n, f"The agreement of every two of {n:,} rows")
    out = np.full((n, n), float(d))
    if not codes.size:
        return out
    planes = max(1, (levels - 1).bit_length())
    rows = np.ascontiguousarray(codes.T)
    kernels = kernels_for(COMPARE_SECONDS * codes.size * n)
    if kernels is None:
        subtract_differences(bit_planes(rows, planes), out)
        mirror(out)
    elif planes == 1:
        kernels.bit_agreements(rows.astype(np.uint8, copy=False), out)
    else:
        kernels.agreements(bit_planes(rows, planes), out)
    return out


def bit_planes(rows: NDArray[Any], planes: int) -> NDArray[np.uint64]:
    """Return the bits of the codes: (rows, planes, words of 64 columns)."""
    n, d = rows.shape
    one = rows.dtype.type(1)
    packed = np.zeros((n, planes, 8 * -(-d // 64)), np.uint8)
    for p in range(planes):
        bits = rows if planes == 1 else (rows >> rows.dtype.type(p)) & one
        packed[:, p, : -(-d // 8)] = np.packbits(bits, axis=1)
    return packed.view(np.uint64)


def subtract_differences(
    planes: NDArray[np.uint64],
    out: NDArray[np.float64],
    join: Any = np.bitwise_or,
    times: int = 1,
) -> None:
    """Subtract the columns on which two rows differ, from `out` above its diagonal.

    They differ where any plane does, or where every plane does, according to `join`.
    """
    words = planes.shape[2]
    step = max(1, ELEMENTS // words)
    dtype: Any = np.uint16 if 64 * words < 2**16 else np.uint32
    for a, row in enumerate(planes):
        for low in range(a, len(out), step):
            block = planes[low : low + step]
            differ = row[0] ^ block[:, 0]
            for p in range(1, planes.shape[1]):
                join(differ, row[p] ^ block[:, p], out=differ)
            bits = np.bitwise_count(differ)
            counts = np.add.reduce(bits, axis=1, dtype=dtype)
            out[a, low : low + step] -= float(times) * counts


def mirror(out: NDArray[np.float64]) -> None:
    """Copy the upper triangle to the lower one."""
    for low in range(0, len(out), _SQUARE):
        high = min(low + _SQUARE, len(out))
        out[high:, low:high] = out[low:high, high:].T
        square = out[low:high, low:high]
        below = np.tril_indices(high - low, -1)
        square[below] = square.T[below]


def product(
    codes: NDArray[Any],
    planes_of: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
) -> NDArray[Any]:
    """Return `W.T @ W` or `W.T @ diag(weights) @ W` of each column's first categories.

    In float32 without weights, exact because no count of a block reaches 2**24; in
    float64 with weights.
    """
    D = int(planes_of.sum())
    n = codes.shape[1]
    rows = min(PRODUCT_ROWS, max(256, 2**22 // max(1, D)))  # 16 MB of float32
    first = np.cumsum(planes_of) - planes_of
    total: NDArray[Any] = np.zeros((D, D), np.int64 if weights is None else np.float64)
    for low in range(0, n, rows):
        block = codes[:, low : low + rows]
        Z = np.empty((D, block.shape[1]), np.float32 if weights is None else np.float64)
        for category in range(int(planes_of.max(initial=0))):
            columns = np.flatnonzero(planes_of > category)
            Z[first[columns] + category] = block[columns] == category
        other = Z if weights is None else Z * weights[low : low + rows]
        total += (Z @ other.T).astype(total.dtype)
    # The two halves of weighted sums are added up in different orders.
    return total if weights is None else (total + total.T) / 2


# ---- how large sums of points are, and how much is rounded


def score_error(points: Floats, intercept: Floats, sizes: NDArray[Any]) -> float:
    """Bound the rounding error of a sum of points, whatever the order of adding."""
    total = largest_sum(points, intercept, sizes) + 1
    return float(np.finfo(np.float64).eps) * (len(sizes) + int(sizes.max()) + 4) * total


def largest_sum(points: Floats, intercept: Floats, sizes: NDArray[Any]) -> float:
    """Return the largest sum of absolute points of any row."""
    sizes_of = np.abs(points.astype(np.float64))  # integers could overflow
    largest = np.maximum.reduceat(sizes_of, offsets(sizes)[:-1]).sum(axis=0)
    return float((largest + np.abs(intercept.astype(np.float64))).max())


def centred(
    points: Floats, intercept: Floats, weights: Floats, sizes: NDArray[Any]
) -> tuple[Floats, Floats]:
    """Move each feature's mean to the intercept, which changes no score.

    A large number added to all points of one feature and subtracted from another's
    would hide the small differences. Sums are therefore rounded once.
    """
    means = feature_means(points, weights, sizes)
    pairs = zip(intercept.tolist(), means.T.tolist(), strict=True)
    moved = [_sum_of([b, *each]) for b, each in pairs]
    return points - np.repeat(means, sizes, axis=0), np.array(moved)


def feature_means(points: Floats, weights: Floats, sizes: NDArray[Any]) -> Floats:
    """Return the mean points of each feature."""
    starts = offsets(sizes)[:-1]
    totals = np.add.reduceat(weights, starts)[:, None]
    return np.asarray(np.add.reduceat(weights[:, None] * points, starts) / totals)


def _sum_of(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # the points are too large to add up
        return math.inf
