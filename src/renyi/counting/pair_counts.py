r"""All pairwise contingency tables of a block of integer codes.

With :math:`W` the one-hot matrix of `n` rows (`D` indicators, `d` columns), everything
the method learns from the rows is

.. math:: W^T W, \quad \text{or with weights} \quad W^T \mathrm{diag}(w)\, W,

whose block `(i, j)` is the contingency table of columns `i` and `j`: n times `Q`.
Four engines compute it, with the same exact integers.

``"histogram"``
    Columns are packed into super-columns of at most 200 joint values. One
    ``np.bincount`` of the joint code of two super-columns then serves every pair of
    columns inside and across them: 20 columns of 10 categories make 10 super-columns of
    100 values, 45 histograms of 10,000 cells instead of 190 of 100
    (:mod:`renyi.counting.histograms`).
``"numba"``
    The same histograms in compiled loops (extra ``fast``).
``"planes"``
    One bit per row and category; the bits that two categories share are counted by
    vector instructions (extra ``fast``, no weights; :mod:`renyi.counting.bitplanes`).
``"product"``
    The matrix product in float32, exact because no count of a block reaches
    :math:`2^{24}` (:mod:`renyi.counting.products`). With weights the product is done
    in float64 with all indicators, since differences of margins would lose digits.

By default the shape decides (:mod:`renyi.counting.costs`): planes for columns of up
to some 20 categories where the processor counts the bits of vectors (AVX-512), of up to
some 5 elsewhere; histograms for all pairs with larger ones. Without the extra ``fast``,
or for jobs too small to load it (:mod:`renyi.compiled`), few rows of many binary
columns are left to the product, all else to histograms. Large jobs are shared out among
threads by rows (planes) or by pairs of super-columns (histograms), so that sums of
weights keep their order.

A million rows of 20 columns of 10 categories and one of 2, one thread:
``"planes"`` 0.018 s, ``"numba"`` 0.028 s, ``"histogram"`` 0.10 s, ``"product"`` 0.6 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi import compiled
from renyi.counting.bitplanes import plane_table
from renyi.counting.costs import (
    COMPILED_SECONDS,
    Engine,
    histogram_seconds,
    numpy_seconds,
    plane_columns,
    plane_seconds,
    weighted_engine,
)
from renyi.counting.histograms import histograms
from renyi.counting.products import products
from renyi.counting.workers import thread_count

MAX_TABLE_BYTES = 8 * 10**9
"""The largest table of counts that is begun at all."""


def pair_counts(
    codes: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    weights: ArrayLike | None = None,
    *,
    engine: Engine | None = None,
    threads: int | None = None,
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
    engine : {"histogram", "product", "numba", "planes"}, optional
        Forces one way of counting; by default the shape decides.
    threads : int, optional
        How many threads compiled loops may use. By default one for small jobs, and for
        large ones as many as there are cores (:func:`renyi.counting.workers.cores`).

    Returns
    -------
    ndarray of shape (D, D)
        Symmetric, int64 and exact, or float64 when there are weights. The diagonal
        blocks are diagonal and hold the margins.

    Examples
    --------
    >>> from renyi.counting.pair_counts import pair_counts
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
    return _count(table, sizes, row_weights, engine, threads)


def class_pair_counts(
    codes: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    y: ArrayLike,
    n_classes: int,
    weights: ArrayLike | None = None,
    *,
    engine: Engine | None = None,
    threads: int | None = None,
) -> NDArray[Any]:
    """Count all pairs of categories within each class.

    Parameters
    ----------
    codes, sizes, weights, engine, threads
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
    >>> from renyi.counting.pair_counts import class_pair_counts
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
    place = np.uint32 if classes.size < 2**32 else np.uint64  # read faster than signed
    for k in range(n_classes):
        rows = np.flatnonzero(classes == k).astype(place)
        out[k] = _count(table, sizes, row_weights, engine, threads, rows)
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
    >>> from renyi.counting.pair_counts import refuse_large_table
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
    threads: int | None,
    rows: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Count checked codes, of all rows or of some, by the engine given or the best."""
    _check_engine(engine, weights is not None)
    n = codes.shape[1] if rows is None else rows.size
    if codes.size == 0 or n == 0:
        total = int(sizes.sum())
        return np.zeros((total, total), np.int64 if weights is None else np.float64)
    if weights is None and engine is None:
        seconds, engine = numpy_seconds(n, sizes)
        if compiled.kernels(seconds) is not None:
            seconds, few = plane_columns(n, tuple(sizes.tolist()))
            return _mixed(codes, sizes, np.array(few), rows, seconds, threads)
    if engine == "planes":
        every = np.ones(sizes.size, np.bool_)
        return _mixed(codes, sizes, every, rows, plane_seconds(n, sizes), threads)
    if rows is not None:
        codes = codes.take(rows, axis=1)
        weights = None if weights is None else weights[rows]
    return _by_rows(codes, sizes, weights, engine, threads)


def _check_engine(engine: Engine | None, weighted: bool) -> None:
    """Refuse an engine that is unknown, not installed, or cannot do the job."""
    if engine not in (None, "histogram", "product", "numba", "planes"):
        raise ValueError(
            f"engine {engine!r} is unknown: use 'histogram', 'product', 'numba' or "
            "'planes'."
        )
    if engine == "planes" and weighted:
        raise ValueError("engine 'planes' cannot sum weights: use engine=None.")
    if engine in ("numba", "planes") and compiled.load() is None:
        raise ImportError(
            f"engine {engine!r} needs numba: install the extra, renyi[fast]."
        )


def _mixed(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    few: NDArray[np.bool_],
    rows: NDArray[Any] | None,
    seconds: float,
    threads: int | None,
) -> NDArray[np.int64]:
    """Count the columns of `few` categories by planes, what is left by histograms."""
    shared = thread_count(seconds, threads)
    columns = np.flatnonzero(few)
    if few.all():
        return plane_table(codes, sizes, columns, rows, shared)
    taken = codes if rows is None else codes.take(rows, axis=1)
    out = histograms(taken, sizes, None, compiled.load(), shared, ~few)
    if few.any():
        places = np.flatnonzero(np.repeat(few, sizes))
        table = plane_table(codes, sizes, columns, rows, shared)
        out[np.ix_(places, places)] = table
    return out


def _by_rows(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    engine: Engine | None,
    threads: int | None,
) -> NDArray[Any]:
    """Count by histograms or a product; only with weights they are still to choose."""
    n = codes.shape[1]
    kernels = compiled.load() if engine == "numba" else None
    if engine is None:
        seconds, engine = weighted_engine(n, sizes)
        kernels = compiled.kernels(seconds) if engine == "histogram" else None
    if engine == "product":
        return products(codes, sizes, weights)
    seconds = histogram_seconds(n, sizes, COMPILED_SECONDS)
    return histograms(codes, sizes, weights, kernels, thread_count(seconds, threads))
