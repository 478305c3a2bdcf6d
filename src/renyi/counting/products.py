"""Counting by products of one-hot matrices, and what the last categories follow from.

The last indicator of a column is 1 minus the others, so its counts are differences of
margins, exact in integers. Ways of counting that cost something per indicator leave it
out: for binary columns a quarter of the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.histograms import ROWS


def products(
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
        return with_last_categories(total, sizes, n)
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


def with_last_categories(
    counts: NDArray[np.int64], sizes: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """Complete counts of all but the last category of each column.

    Parameters
    ----------
    counts : int64 array
        Counts of all pairs of the other categories.
    sizes : int64 array
        Number of categories of each column.
    n : int
        Number of rows.
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
