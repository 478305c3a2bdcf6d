"""Counting by bit planes: one bit per row and category.

The count of two categories is the number of bits that their planes share, 64 rows to a
word and 512 to a vector; :mod:`renyi.counting.plane_kernels` has the loops. The work
grows with the square of the number of categories, not with the number of columns alone:
unrivalled for columns of few categories, hopeless for thousands. The last category of a
column follows from the others. Counts are integers throughout, so that rows can be
shared out among threads in any way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.workers import run_all

COPIES = 2**28
"""Bytes of counts that threads may have beside the first one's."""


def plane_table(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    columns: NDArray[np.int64],
    rows: NDArray[Any] | None = None,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Return the counts of all pairs of categories of some columns.

    Parameters
    ----------
    codes : array of shape (d, n)
        Unsigned codes, checked, contiguous.
    sizes : array of d ints
        Number of categories of each column.
    columns : array of ints
        The columns to count, in the order of the table that is returned.
    rows : array of unsigned ints, optional
        The rows to count; all by default.
    threads : int
        How many threads share the rows.
    """
    from renyi.counting import plane_kernels as kernels

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
