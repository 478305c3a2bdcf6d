"""Counting indicator by indicator: by bit planes, or by a product of matrices.

A bit plane holds one bit per row of a category. The count of two categories is the
number of bits that their planes share, 64 rows to a word and 512 to a vector
(:mod:`renyi.counting.plane_kernels`). Without compiled loops it is a product of one-hot
matrices. Either way the work grows with the square of the number of categories:
unrivalled for columns of few, hopeless for thousands.

The last indicator of a column is 1 minus the others, so its counts are differences of
margins: for binary columns a quarter of the work. Counts are integers throughout, so
that rows can be shared out among threads in any way.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.compiled import run_all
from renyi.counting.onehot import product

COPIES = 2**28
"""Bytes of counts that threads may have beside the first one's."""


def plane_table(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    columns: NDArray[np.int64],
    kernels: ModuleType | None,
    rows: NDArray[Any] | None = None,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Count all pairs of categories of some columns, of all rows or of some."""
    if kernels is not None:
        return _compiled_table(codes, sizes, columns, kernels, rows, threads)
    taken = codes[columns] if rows is None else codes[np.ix_(columns, rows)]
    counts = product(taken, sizes[columns] - 1)
    return with_last_categories(counts, sizes[columns], taken.shape[1])


def with_last_categories(
    counts: NDArray[np.int64], sizes: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """Complete the counts of all but the last category of each column."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    last = offsets[1:] - 1
    keep = np.setdiff1d(np.arange(offsets[-1]), last)
    owner = np.repeat(np.arange(sizes.size), sizes - 1)
    margins = np.diag(counts)
    sums = np.zeros((sizes.size, keep.size), np.int64)
    of_column = np.zeros((sizes.size, sizes.size), np.int64)
    several = np.flatnonzero(sizes > 1)  # reduceat cannot sum an empty range
    if several.size:
        begins = np.searchsorted(owner, several)
        sums[several] = np.add.reduceat(counts, begins, axis=0)
        of_column[:, several] = np.add.reduceat(sums, begins, axis=1)
    others = np.diag(of_column)  # rows of a column outside its last category
    out = np.empty((offsets[-1], offsets[-1]), np.int64)
    out[np.ix_(keep, keep)] = counts
    out[np.ix_(last, keep)] = margins - sums
    out[np.ix_(keep, last)] = (margins - sums).T
    out[np.ix_(last, last)] = n - others[:, None] - others + of_column
    return out


def _compiled_table(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    columns: NDArray[np.int64],
    kernels: ModuleType,
    rows: NDArray[Any] | None,
    threads: int,
) -> NDArray[np.int64]:
    """Do the same by :mod:`renyi.counting.plane_kernels`, in several threads."""
    n = codes.shape[1] if rows is None else rows.size
    kept = sizes[columns] - 1
    used = int(kept.sum())
    owner = np.full(-(-used // kernels.SIDE) * kernels.SIDE, columns.size)
    owner[:used] = np.repeat(np.arange(columns.size), kept)
    spans = _spans(n, min(threads, 1 + COPIES // (8 * owner.size**2 + 1)))
    margins = np.zeros((len(spans), owner.size), np.int64)
    pairs = [np.zeros((owner.size, owner.size), np.int64) for _ in spans]
    count = partial(kernels.plane_counts, codes, rows, columns, kept, owner)
    run_all(
        [
            partial(count, low, high, margins[t], pairs[t])
            for t, (low, high) in enumerate(spans)
        ]
    )
    for more in pairs[1:]:
        pairs[0] += more
    total = used + columns.size
    out = np.zeros((total, total), np.int64)
    kernels.complete(margins.sum(axis=0), pairs[0], kept, n, out)
    return out


def _spans(n: int, threads: int) -> list[tuple[int, int]]:
    """Cut n rows into parts of about the same length, a multiple of 512 rows."""
    length = max(512, -(-n // (512 * threads)) * 512)
    return [(low, min(n, low + length)) for low in range(0, max(n, 1), length)]
