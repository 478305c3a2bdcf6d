r"""All pairwise contingency tables of a block of integer codes.

With :math:`W` the one-hot matrix of `n` rows (`D` indicators, `d` columns), everything
the method learns from the rows is

.. math:: W^T W, \quad \text{or with weights} \quad W^T \mathrm{diag}(w)\, W,

whose block `(i, j)` is the contingency table of columns `i` and `j`: n times `Q`.
Three engines compute it, with the same exact integers.

``"histogram"``
    Columns are packed into super-columns of at most `limit` joint values. One
    ``np.bincount`` of the joint code of two super-columns then serves every pair of
    columns inside and across them: 20 columns of 10 categories make 10 super-columns of
    100 values, 45 histograms of 10,000 cells instead of 190 of 100. The joint table
    :math:`H_{ab}` is folded by the one-hot matrices of the super-columns' values,
    :math:`E_a^T H_{ab} E_b`. Rows are taken in blocks which stay in cache.
``"numba"``
    The same histograms in compiled loops (extra ``fast``).
``"product"``
    The matrix product in float32, exact because no count of a block reaches
    :math:`2^{24}`. One indicator of each column is left out and recovered from the
    margins: for binary columns a quarter of the work. With weights the product is done
    in float64 with all indicators, since subtraction would lose digits.

Cost model, from measurements on one core of a 2.6 GHz x86-64 server: a histogram costs
`HISTOGRAM_SECONDS` per row and pair of super-columns (1.1 ns ``bincount``, 0.3 ns to
form the joint code; compiled 0.6 ns). Cells cost `CELL_SECONDS` each to clear and fold,
and random access to more than some 30,000 of them leaves the nearest cache: `limit` is
between 100 and 200, the best range on eight shapes from 1,000 x 60 to 1,000,000 x 150
(256 binary values instead of 128 took half as long again). The product costs
`PRODUCT_SECONDS` per row and squared indicator. Many rows of columns with several
categories call for histograms, few rows of many binary columns for the product.
:mod:`renyi.compiled` says when numba is loaded.

A million rows of 20 columns of 10 categories and one of 2: ``"histogram"`` 0.08 s,
``"numba"`` 0.03 s, ``"product"`` 0.6 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi import compiled
from renyi.histograms import ROWS, histograms, joint_values

Engine = Literal["histogram", "product", "numba"]

MAX_TABLE_BYTES = 8 * 10**9
"""The largest table of counts that is begun at all."""

HISTOGRAM_SECONDS = 1.5e-9
COMPILED_SECONDS = 0.6e-9
PAIR_SECONDS = 30e-6
CELL_SECONDS = 3e-9
PRODUCT_SECONDS = 1.4e-11
ONE_HOT_SECONDS = 0.4e-9


def pair_counts(
    codes: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    weights: ArrayLike | None = None,
    *,
    engine: Engine | None = None,
) -> NDArray[Any]:
    """Count all pairs of categories of all pairs of columns.

    Parameters
    ----------
    codes : array of shape (d, n)
        One row per column of the table, integers ``0 .. sizes[j] - 1``.
    sizes : sequence of d ints
        Number of categories of each column; their sum is `D`.
    weights : array of n floats, optional
        One weight per row.
    engine : {"histogram", "product", "numba"}, optional
        Forces one way of counting; by default the shape decides.

    Returns
    -------
    ndarray of shape (D, D)
        Symmetric, int64 and exact, or float64 when there are weights. The diagonal
        blocks are diagonal and hold the margins.

    Examples
    --------
    >>> from renyi.counting import pair_counts
    >>> pair_counts([[0, 0, 1], [2, 2, 0]], [2, 3])
    array([[2, 0, 0, 0, 2],
           [0, 1, 1, 0, 0],
           [0, 1, 1, 0, 0],
           [0, 0, 0, 0, 0],
           [2, 0, 0, 0, 2]])
    """
    table, sizes = _check_codes(codes, sizes)
    refuse_large_table(int(sizes.sum()), 1)
    row_weights = _check_weights(weights, table.shape[1])
    return _count(table, sizes, row_weights, engine)


def class_pair_counts(
    codes: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    y: ArrayLike,
    n_classes: int,
    weights: ArrayLike | None = None,
    *,
    engine: Engine | None = None,
) -> NDArray[Any]:
    """Count all pairs of categories within each class.

    Parameters
    ----------
    codes, sizes, weights, engine
        As for :func:`pair_counts`.
    y : array of n ints
        Class of each row, ``0 .. n_classes - 1``.
    n_classes : int
        Number of classes `K`.

    Returns
    -------
    ndarray of shape (K, D, D)
        Entry `k` is :func:`pair_counts` of the rows of class `k`.

    Examples
    --------
    >>> from renyi.counting import class_pair_counts
    >>> class_pair_counts([[0, 1, 1]], [2], [0, 1, 1], 2)
    array([[[1, 0],
            [0, 0]],
    <BLANKLINE>
           [[0, 0],
            [0, 2]]])
    """
    table, sizes = _check_codes(codes, sizes)
    total = int(sizes.sum())
    refuse_large_table(total, n_classes)
    row_weights = _check_weights(weights, table.shape[1])
    classes = _check_codes(np.asarray(y)[None], [n_classes], "y")[0][0]
    if classes.size != table.shape[1]:
        raise ValueError(
            f"y has {classes.size} rows but codes have {table.shape[1]}: "
            "give one class per row."
        )
    dtype = np.int64 if row_weights is None else np.float64
    out = np.empty((n_classes, total, total), dtype)
    for k in range(n_classes):
        rows = np.flatnonzero(classes == k)
        part = None if row_weights is None else row_weights[rows]
        out[k] = _count(table.take(rows, axis=1), sizes, part, engine)
    return out


def _check_codes(
    codes: ArrayLike, sizes: Sequence[int] | NDArray[Any], name: str = ""
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return codes as a contiguous unsigned (d, n) array, and sizes as an int64 array.

    Every code is compared with its column's size: a code out of range would be counted
    in another column's table, or written outside of it.
    """
    table = np.asarray(codes)
    lengths = np.asarray(sizes, dtype=np.int64)
    if table.ndim != 2 or lengths.shape != table.shape[:1]:
        raise ValueError(
            f"codes of shape {table.shape} do not match {lengths.size} sizes: "
            "give codes as (columns, rows)."
        )
    if table.size and table.dtype.kind not in "iu":
        raise ValueError(
            f"codes have the type {table.dtype}: encode the columns as integers."
        )
    if table.size:
        _check_range(table, lengths, name)
    if table.dtype.kind != "u" or table.dtype.itemsize > 4:
        table = table.astype(np.min_scalar_type(int(lengths.max(initial=0))))
    return np.ascontiguousarray(table), lengths


def _check_range(codes: NDArray[Any], sizes: NDArray[np.int64], name: str) -> None:
    """Refuse the first column with a code below zero or not below its size."""
    wrong = codes.max(axis=1).astype(np.int64) >= sizes
    if codes.dtype.kind == "i":
        wrong |= codes.min(axis=1) < 0
    if wrong.any():
        j = int(np.argmax(wrong))
        low, high = int(codes[j].min()), int(codes[j].max())
        raise ValueError(
            f"{name or f'column {j}'} holds code {low if low < 0 else high} but has "
            f"{sizes[j]} categories: encode the rows anew."
        )


def _check_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """Return one float64 weight per row, or None."""
    if weights is None:
        return None
    array = np.ascontiguousarray(weights, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(
            f"weights have the shape {array.shape} but there are {n} rows: "
            "give one weight per row."
        )
    return array


def refuse_large_table(total: int, n_tables: int) -> None:
    """Raise ValueError when a table of counts would exceed `MAX_TABLE_BYTES`.

    Parameters
    ----------
    total : int
        Number of indicators `D`.
    n_tables : int
        Number of `D` x `D` tables of 8-byte numbers.

    Examples
    --------
    >>> from renyi.counting import refuse_large_table
    >>> refuse_large_table(20_000, 1)
    >>> refuse_large_table(40_000, 1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: counts of 40000 categories would take 12.8 GB and the limit is 8.0 GB...
    """
    needed = 8 * n_tables * total * total
    if needed > MAX_TABLE_BYTES:
        raise ValueError(
            f"counts of {total} categories would take {needed / 1e9:.1f} GB and the "
            f"limit is {MAX_TABLE_BYTES / 1e9:.1f} GB: merge rare categories or drop "
            "columns."
        )


def _count(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    engine: Engine | None,
) -> NDArray[Any]:
    """Dispatch checked codes to an engine."""
    seconds, engine = _choose(codes.shape[1], sizes, weights is not None, engine)
    if codes.size == 0:
        total = int(sizes.sum())
        return np.zeros((total, total), np.int64 if weights is None else np.float64)
    if engine == "product":
        return _product(codes, sizes, weights)
    if engine == "histogram":
        return histograms(codes, sizes, weights, None)
    kernels = compiled.load() if engine == "numba" else compiled.kernels(seconds)
    if engine == "numba" and kernels is None:
        raise ImportError("engine 'numba' needs numba: install the extra, renyi[fast].")
    return histograms(codes, sizes, weights, kernels)


def _choose(
    n: int, sizes: NDArray[np.int64], weighted: bool, engine: Engine | None
) -> tuple[float, Engine | None]:
    """Return numpy's time for the histograms, and the engine ("product" or as given).

    None stands for histograms, compiled or not: these agree in every bit. The product
    sums weights in another order, so the choice depends on the shape and on what is
    installed, never on what happens to be loaded.
    """
    if engine not in (None, "histogram", "product", "numba"):
        raise ValueError(
            f"engine {engine!r} is unknown: use 'histogram', 'product' or 'numba'."
        )
    seconds = _histogram_seconds(n, sizes, HISTOGRAM_SECONDS)
    if engine is not None:
        return seconds, engine
    by_product = _product_seconds(n, sizes, weighted)
    by_histogram = seconds
    if min(seconds, by_product) >= compiled.WORTH_SECONDS and compiled.load():
        by_histogram = _histogram_seconds(n, sizes, COMPILED_SECONDS)
    return seconds, "product" if by_product < by_histogram else None


def _histogram_seconds(n: int, sizes: NDArray[np.int64], per_row: float) -> float:
    """Estimate the time of counting by histograms which cost `per_row` per row."""
    limit = joint_values(n)
    large = sizes > limit  # a super-column each
    logs = np.log(np.maximum(sizes[~large], 1))
    packed = math.ceil(float(logs.sum()) / math.log(limit))
    groups = max(2, int(large.sum()) + packed)
    values = float(sizes[large].sum()) + packed * limit
    pairs = groups * (groups - 1) / 2
    return pairs * (PAIR_SECONDS + n * per_row) + CELL_SECONDS * values**2 / 2


def _product_seconds(n: int, sizes: NDArray[np.int64], weighted: bool) -> float:
    """Estimate the time of counting by a matrix product."""
    total = float(sizes.sum())
    kept = total if weighted else total - sizes.size
    # In float64 an operation takes twice as long, and symmetry is not made use of.
    per_cell = 4 * PRODUCT_SECONDS if weighted else PRODUCT_SECONDS
    return n * kept * (kept * per_cell + ONE_HOT_SECONDS) + CELL_SECONDS * total**2


def _product(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
) -> NDArray[Any]:
    """Count by products of one-hot matrices, block of rows by block of rows."""
    n = codes.shape[1]
    kept = sizes - 1 if weights is None else sizes
    rows = int(min(ROWS, max(256, 2**22 // max(1, kept.sum()))))  # 16 MB of one-hot
    total = np.zeros((kept.sum(), kept.sum()), np.int64 if weights is None else float)
    for low in range(0, n, rows):
        block = codes[:, low : low + rows]
        if weights is None:
            Z = _one_hot(block, kept, np.float32)
            total += (Z @ Z.T).astype(np.int64)
        else:
            Z = _one_hot(block, kept, np.float64)
            total += Z @ (Z * weights[low : low + rows]).T
    if weights is None:
        return _with_last_categories(total, sizes, n)
    return (total + total.T) / 2  # the two halves are summed in different orders


def _one_hot(
    codes: NDArray[Any], kept: NDArray[np.int64], dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """Return the indicators of the first `kept[j]` categories, shape (sum, n)."""
    Z = np.empty((int(kept.sum()), codes.shape[1]), dtype)
    first = np.cumsum(kept) - kept
    for category in range(int(kept.max(initial=0))):
        columns = np.flatnonzero(kept > category)
        Z[first[columns] + category] = codes[columns] == category
    return Z


def _with_last_categories(
    counts: NDArray[np.int64], sizes: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """Complete counts of all but the last category of each column.

    The last indicator of a column is 1 minus the others, so its counts are differences
    of margins, exact in integers.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    last = offsets[1:] - 1
    keep = np.setdiff1d(np.arange(offsets[-1]), last)
    owner = np.repeat(np.arange(sizes.size), sizes - 1)
    margins = np.diag(counts)
    sums = np.zeros((sizes.size, keep.size), np.int64)
    several = np.flatnonzero(sizes > 1)  # reduceat cannot sum an empty range
    if several.size:
        sums[several] = np.add.reduceat(counts, np.searchsorted(owner, several), axis=0)
    of_column = np.zeros((sizes.size, sizes.size), np.int64)
    if several.size:
        of_column[:, several] = np.add.reduceat(
            sums, np.searchsorted(owner, several), axis=1
        )
    others = np.diag(of_column)  # rows of a column outside its last category
    out = np.empty((offsets[-1], offsets[-1]), np.int64)
    out[np.ix_(keep, keep)] = counts
    out[np.ix_(last, keep)] = margins - sums
    out[np.ix_(keep, last)] = (margins - sums).T
    out[np.ix_(last, last)] = n - others[:, None] - others + of_column
    return out
