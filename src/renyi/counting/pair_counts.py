r"""Count all pairwise contingency tables of a block of integer codes.

With :math:`W` the one-hot matrix of `n` rows (`D` indicators, `d` columns), everything
the method learns from the rows is

.. math:: W^T W, \quad \text{or with weights} \quad W^T \mathrm{diag}(w)\, W,

whose block `(i, j)` is the contingency table of columns `i` and `j`: n times `Q`.
There are two methods, in numpy or compiled (extra ``fast``), with the same integers:

*bit planes* (`plane_table`)
    One bit per row and category. Two categories occur together in as many rows as their
    planes share bits, 64 rows to a word and 512 to a vector. The last indicator of a
    column is 1 minus the others, so its counts are differences of margins. Best for
    columns of few categories, up to about 20 if the processor counts the bits of
    vectors (AVX-512). In numpy it is a product of one-hot matrices, for few rows.
*histograms* (:mod:`renyi.counting.histograms`)
    Columns are packed into super-columns of at most 200 joint values. One histogram of
    two of these gives every pair of columns inside and across them.

The columns with the fewest categories are counted by planes, the others by histograms.
`plane_columns` chooses how many by the cost of each method. Sums of weights use
histograms, or for few rows a product with all indicators, since differences of margins
would lose digits.

The constants are seconds on one core of a 2.6 GHz x86-64 server
(``benchmarks/bench_kernel.py``).
"""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting import compiled, sparse_counts
from renyi.counting.histograms import histograms, super_columns
from renyi.counting.onehot import (
    KERNELS,
    MAX_TABLE_BYTES,
    WORTH_SECONDS,
    Sizes,
    check_shape,
    has_outside,
    kernels_for,
    offsets,
    product,
)
from renyi.limits import check_memory

Lengths = NDArray[np.int64]

HISTOGRAM_SECONDS = 1.5e-9  # per row and pair of super-columns
COMPILED_SECONDS = 0.6e-9
PAIR_SECONDS = 30e-6  # per pair of super-columns
CELL_SECONDS = 3e-9  # per cell of a histogram, to clear and fold it
PRODUCT_SECONDS = 1.4e-11  # per row and squared indicator
ONE_HOT_SECONDS = 0.4e-9  # per row and indicator
PLANE_SECONDS = {"avx512vpopcntdq": 0.9e-12, "avx2": 3e-12, "": 9e-12}
"""Per row and pair of planes, by the first instruction that is available."""
MAKING_SECONDS = 1.5e-11  # per row and plane
COMPLETING_SECONDS = 2e-9  # per cell of the table
CALL_SECONDS = 50e-6
THREAD_SECONDS = 0.004  # less work is not given to a separate thread
COPIES = 2**28  # bytes of counts of all threads but the first


def pair_counts(
    codes: ArrayLike,
    sizes: Sizes,
    weights: ArrayLike | None = None,
    *,
    threads: int | None = None,
) -> sparse_counts.Table:
    """Count all pairs of categories of all pairs of columns, or sum their weights.

    `codes`, shape (d, n), has one row per column of the table, integers ``0 ..
    sizes[j] - 1``. By default compiled loops use as many `threads` as there are cores,
    if the job is large enough. `renyi.counting.sparse_counts` decides whether the table
    is sparse.
    """
    checked = _checked(codes, sizes, weights, threads)
    if sparse_counts.is_large(checked[1]):
        return _sparse(*checked)
    return _count(*checked, None)


def class_pair_counts(
    codes: ArrayLike,
    sizes: Sizes,
    weights: ArrayLike | None = None,
    *,
    threads: int | None = None,
) -> NDArray[Any]:
    """Return `pair_counts` of the rows of each class, shape (K, D, D).

    The last column is that of the classes, and is not counted itself.
    """
    table, lengths, array, threads = _checked(codes, sizes, weights, threads, True)
    *features, n_classes = lengths.tolist()
    total = sum(features)
    n = table.shape[1]
    out = np.empty((n_classes, total, total), np.int64 if array is None else float)
    place = np.uint32 if n < 2**32 else np.uint64  # read faster than signed
    for k in range(n_classes):
        rows = np.flatnonzero(table[-1] == k).astype(place)
        out[k] = _count(table[:-1], lengths[:-1], array, threads, rows)
    return out


# ---- checks


def _checked(
    codes: ArrayLike,
    sizes: Sizes,
    weights: ArrayLike | None,
    threads: int | None,
    by_class: bool = False,
) -> tuple[NDArray[Any], Lengths, NDArray[np.float64] | None, int | None]:
    table, lengths = _check_codes(codes, sizes)
    classes = int(lengths[-1]) if by_class else 0
    counted = lengths[:-1] if by_class else lengths
    check_table_size(counted, classes, table.shape[1] * len(counted) ** 2)
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: use 1 or more, or None.")
    if weights is None:
        return table, lengths, None, threads
    array = np.ascontiguousarray(weights, dtype=np.float64)
    if array.shape != table.shape[1:]:
        raise ValueError(
            f"weights have the shape {array.shape} but there are {table.shape[1]} "
            "rows: give one weight per row."
        )
    return table, lengths, array, threads


def _check_codes(codes: ArrayLike, sizes: Sizes) -> tuple[NDArray[Any], Lengths]:
    """Return codes as a contiguous unsigned (d, n) array, and sizes as an int64 array.

    Every code is compared with its column's size: a code out of range would be counted
    in another column's table, or written outside of it.
    """
    table = np.asarray(codes)
    lengths = np.asarray(sizes, dtype=np.int64)
    check_shape(table, lengths, "sizes")
    if table.size and table.dtype.kind not in "iu":
        raise ValueError(
            f"codes have the type {table.dtype}: encode the columns as integers."
        )
    wrong = has_outside(table, 0, lengths)
    if wrong.any():
        j = int(np.argmax(wrong))
        low = int(table[j].min())
        high = int(table[j].max())
        raise ValueError(
            f"column {j} has code {low if low < 0 else high} but only {lengths[j]} "
            "categories: encode the rows again."
        )
    if table.dtype.kind != "u" or table.dtype.itemsize > 4:
        table = table.astype(np.min_scalar_type(int(lengths.max(initial=0))))
    return np.ascontiguousarray(table), lengths


def table_bytes(sizes: Sizes, n_classes: int = 0, entries: float = np.inf) -> int:
    """Return the most bytes that counts, or those of each class, take.

    `entries` bounds the counts above zero, which a sparse table stores.
    """
    lengths = np.asarray(sizes, np.float64)
    total = int(lengths.sum())
    if n_classes or not sparse_counts.is_large(sizes):
        return 8 * max(1, n_classes) * total * total
    stored = min(entries, total * total - float(lengths @ lengths)) + total
    return sparse_counts.ENTRY_BYTES * int(stored)


def check_table_size(sizes: Sizes, n_classes: int, entries: float) -> None:
    """Raise an error if counts would exceed `MAX_TABLE_BYTES`; see `table_bytes`."""
    total = int(np.sum(sizes))
    needed = table_bytes(sizes, n_classes, entries)
    if needed > MAX_TABLE_BYTES:
        raise ValueError(
            f"counts of {total} categories would take {needed / 1e9:.1f} GB and the "
            f"limit is {MAX_TABLE_BYTES / 1e9:.1f} GB: merge rare categories or drop "
            "columns."
        )
    check_memory(needed, f"Counting the pairs of {total:,} categories")


# ---- counting


def _count(
    codes: NDArray[Any],
    sizes: Lengths,
    weights: NDArray[np.float64] | None,
    threads: int | None,
    rows: NDArray[Any] | None,
) -> NDArray[Any]:
    """Count checked codes, of all rows or of some."""
    n = codes.shape[1] if rows is None else rows.size
    if codes.size == 0 or n == 0:
        total = int(sizes.sum())
        return np.zeros((total, total), np.int64 if weights is None else np.float64)
    if weights is None:
        return _exact(codes, sizes, n, threads, rows)
    if rows is not None:
        codes = codes.take(rows, axis=1)
        weights = weights[rows]
    return _weighted(codes, sizes, weights, threads)


def _sparse(
    codes: NDArray[Any],
    sizes: Lengths,
    weights: NDArray[np.float64] | None,
    threads: int | None,
) -> sparse_counts.Table:
    """Count two columns at a time if one has many categories."""
    long = sizes > sparse_counts.FEW // 8
    dtype = np.int64 if weights is None else np.float64
    starts = offsets(sizes)
    few = np.flatnonzero(np.repeat(~long, sizes))
    table = _count(codes[~long], sizes[~long], weights, threads, None)
    rows, columns, counts = sparse_counts.entries(table)
    entries = [(few[rows], few[columns], counts)]
    for j in np.flatnonzero(long).tolist():
        alone = np.bincount(codes[j], weights, sizes[j])
        entries.append((*2 * (np.arange(starts[j], starts[j + 1]),), alone))
        for i in np.flatnonzero(~long | (np.arange(len(sizes)) < j)).tolist():
            a = min(i, j)
            b = max(i, j)
            both = (codes[a], codes[b]), (int(sizes[a]), int(sizes[b]))
            rows, columns, counts = sparse_counts.two_columns(*both, weights)
            entries.append((starts[a] + rows, starts[b] + columns, counts))
    return sparse_counts.from_entries(entries, int(starts[-1]), dtype)


def _exact(
    codes: NDArray[Any],
    sizes: Lengths,
    n: int,
    threads: int | None,
    rows: NDArray[Any] | None,
) -> NDArray[np.int64]:
    """Count the columns of few categories by planes, the others by histograms."""
    by_product = product_seconds(n, sizes, weighted=False)
    by_histogram = histogram_seconds(n, sizes, HISTOGRAM_SECONDS)
    kernels = kernels_for(min(by_product, by_histogram))
    seconds, chosen = plane_columns(n, tuple(sizes.tolist()), kernels is not None)
    shared = _thread_count(seconds, threads)
    few = np.array(chosen)
    if not few.all():
        taken = codes if rows is None else codes.take(rows, axis=1)
        out = histograms(taken, sizes, joint_values(n), None, kernels, shared, ~few)
    if few.any():
        columns = np.flatnonzero(few)
        table = plane_table(codes, sizes, columns, kernels, rows, shared)
        if few.all():
            return table
        places = np.flatnonzero(np.repeat(few, sizes))
        out[np.ix_(places, places)] = table
    return out


def _thread_count(seconds: float, threads: int | None) -> int:
    """Return the threads for work of some seconds, or those the user asked for."""
    if threads is not None:
        return threads
    wanted = int(seconds / THREAD_SECONDS)
    return 1 if wanted < 2 else min(compiled.cores(), wanted)


def _weighted(
    codes: NDArray[Any],
    sizes: Lengths,
    weights: NDArray[np.float64],
    threads: int | None,
) -> NDArray[np.float64]:
    """Sum weights by histograms or by a product.

    Histograms agree in every bit, compiled or not. The product sums in another order.
    So the choice depends on the shape and on what is installed, never on what is
    loaded.
    """
    n = codes.shape[1]
    seconds = histogram_seconds(n, sizes, HISTOGRAM_SECONDS)
    by_product = product_seconds(n, sizes, weighted=True)
    fast = by_histogram = histogram_seconds(n, sizes, COMPILED_SECONDS)
    if min(seconds, by_product) < WORTH_SECONDS or not compiled.load(KERNELS):
        by_histogram = seconds
    if by_product < by_histogram:
        return product(codes, sizes, weights)
    shared = _thread_count(fast, threads)
    kernels = kernels_for(seconds)
    return histograms(codes, sizes, joint_values(n), weights, kernels, shared)


# ---- bit planes


def plane_table(
    codes: NDArray[Any],
    sizes: Lengths,
    columns: NDArray[np.int64],
    kernels: ModuleType | None,
    rows: NDArray[Any] | None = None,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Count all pairs of categories of some columns, of all rows or of some.

    Counts are integers, so rows can be split among threads in any way.
    """
    lengths = sizes[columns]
    if kernels is None:
        taken = codes[columns] if rows is None else codes[np.ix_(columns, rows)]
        return _completed(product(taken, lengths - 1), lengths, taken.shape[1])
    n = codes.shape[1] if rows is None else rows.size
    used = int((lengths - 1).sum())
    owner = np.full(-(-used // kernels.SIDE) * kernels.SIDE, columns.size)
    owner[:used] = np.repeat(np.arange(columns.size), lengths - 1)
    threads = min(threads, 1 + COPIES // (8 * owner.size**2 + 1))
    length = max(512, -(-n // (512 * threads)) * 512)
    spans = [(low, min(n, low + length)) for low in range(0, n, length)]
    margins = np.zeros((len(spans), owner.size), np.int64)
    pairs = [np.zeros((owner.size, owner.size), np.int64) for _ in spans]
    count = partial(kernels.plane_counts, codes, rows, columns, lengths - 1, owner)
    compiled.run_all(
        [partial(count, *span, margins[t], pairs[t]) for t, span in enumerate(spans)]
    )
    for more in pairs[1:]:
        pairs[0] += more
    out = np.zeros((lengths.sum(), lengths.sum()), np.int64)
    kernels.complete(margins.sum(axis=0), pairs[0], lengths - 1, n, out)
    return out


def _completed(counts: NDArray[np.int64], sizes: Lengths, n: int) -> NDArray[np.int64]:
    """Complete the counts of all but the last category of each column.

    The counts of a column add up to n, and with a category to its margin.
    """
    ends = offsets(sizes - 1)

    def with_last(table: NDArray[np.int64], total: Any) -> NDArray[np.int64]:
        sums = np.zeros((len(table) + 1, *table.shape[1:]), np.int64)
        np.cumsum(table, axis=0, out=sums[1:])
        return np.insert(table, ends[1:], total - np.diff(sums[ends], axis=0), axis=0)

    margins = counts.diagonal()
    half = with_last(counts, margins).T
    return with_last(half, with_last(margins, n)).T  # symmetric, with contiguous rows


# ---- what each way costs


def joint_values(n: int) -> int:
    """Return the most joint values of a super-column."""
    return min(200, max(100, math.isqrt(n)))


def histogram_seconds(n: int, sizes: Lengths, per_row: float) -> float:
    """Estimate the time of histograms of all columns, without packing them.

    It chooses how weights are summed, so changing it changes their last bits.
    """
    limit = joint_values(n)
    large = sizes > limit  # a super-column each
    logs = np.log(np.maximum(sizes[~large], 1))
    packed = math.ceil(float(logs.sum()) / math.log(limit))
    groups = max(2, int(large.sum()) + packed)
    values = float(sizes[large].sum()) + packed * limit
    pairs = groups * (groups - 1) / 2
    return pairs * (PAIR_SECONDS + n * per_row) + CELL_SECONDS * values**2 / 2


def product_seconds(n: int, sizes: Lengths, weighted: bool) -> float:
    """Estimate the time of a product; it also chooses how weights are summed."""
    total = float(sizes.sum())
    planes = total if weighted else total - sizes.size
    # In float64 an operation takes twice as long, and symmetry is not used.
    per_cell = 4 * PRODUCT_SECONDS if weighted else PRODUCT_SECONDS
    return n * planes * (planes * per_cell + ONE_HOT_SECONDS) + CELL_SECONDS * total**2


@lru_cache(256)
def plane_columns(
    n: int, sizes: tuple[int, ...], compiled_loops: bool
) -> tuple[float, tuple[bool, ...]]:
    """Return the least time, and which columns get planes: those of few categories."""
    lengths = np.array(sizes, np.int64)
    best = (math.inf, (False,) * len(sizes))
    for limit in [0, *np.unique(lengths).tolist()]:
        few = lengths <= limit
        seconds = 0.0
        if few.any():
            seconds += _plane_seconds(n, lengths[few], compiled_loops)
        if not few.all():
            seconds += _packed_seconds(n, lengths, ~few, compiled_loops)
        best = min(best, (seconds, tuple(few.tolist())))
    return best


def _plane_seconds(n: int, sizes: Lengths, compiled_loops: bool) -> float:
    """Estimate the time of counting by bit planes, or by numpy's form of it."""
    if not compiled_loops:
        return product_seconds(n, sizes, weighted=False)
    kept = (sizes - 1).astype(float)
    total = float(kept.sum())
    pairs = (total**2 - float(kept @ kept)) / 2
    making = n * (total + 3 * sizes.size) * MAKING_SECONDS
    completing = COMPLETING_SECONDS * float(sizes.sum()) ** 2
    # Adding up the lanes of a sum takes as long as 1,000 rows, in every block.
    rows = n + 1000 * math.ceil(n / 16_384)
    return CALL_SECONDS + rows * pairs * _per_pair() + making + completing


@cache
def _per_pair() -> float:
    """Return the seconds that this processor takes for a row of two planes."""
    import llvmlite.binding

    try:
        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know the processor
        features = {}
    known = [name for name in PLANE_SECONDS if not name or features.get(name)]
    return PLANE_SECONDS[known[0]]


def _packed_seconds(
    n: int, sizes: Lengths, wanted: NDArray[np.bool_], compiled_loops: bool
) -> float:
    """Estimate the time of histograms of the wanted columns with all."""
    groups, first = super_columns(sizes, joint_values(n), wanted)
    pairs = first * (first - 1) / 2 + first * (len(groups) - first)
    inner = sum(group.size for group in groups[:first])
    cells = inner * (inner / 2 + sum(group.size for group in groups[first:]))
    per_row = COMPILED_SECONDS if compiled_loops else HISTOGRAM_SECONDS
    return pairs * (PAIR_SECONDS + n * per_row) + CELL_SECONDS * cells
