"""Store pair counts with a column of thousands of categories as sparse tables.

A row has one category of each column. So the block of a column with itself is diagonal,
and a block with another column has at most as many counts as there are rows. The D x D
table of a column of 9,000 labels is nearly empty. Such tables are stored as scipy's
`csr_array`, all others as numpy arrays. `is_large` decides by the numbers of categories
alone, so that every input path stores the same data alike. Both have ``shape``,
``dtype``, ``diagonal()``, ``@``, ``+``, and ``[np.ix_(rows, columns)]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from renyi.counting.onehot import Sizes, offsets
from renyi.limits import check_memory

Table = Any  # a numpy array, or scipy's csr_array where `is_large`
Places = NDArray[np.intp]
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # rows, columns, counts

FEW = 2_000  # categories; their table takes 32 MB
OWN_SHARE = 1 / 8  # share of the table in blocks of columns with themselves
ENTRY_BYTES = 24  # bytes of a count while a table is built
BLOCK_CELLS = 4  # cells per row; with more, sorting is faster than a histogram
_CELLS = 2**17  # cells of a table that are read at a time


def is_large(sizes: Sizes) -> bool:
    """Return whether the table of columns of these sizes is stored sparse."""
    lengths = np.asarray(sizes, np.float64)
    total = float(lengths.sum())
    return total > FEW and float(lengths @ lengths) >= OWN_SHARE * total**2


def is_sparse(table: Table) -> bool:
    """Return whether a table is stored sparse."""
    return hasattr(table, "indptr")


def stored(table: Table, sizes: Sizes) -> Table:
    """Return a table in the form in which tables of these columns are stored."""
    if not is_large(sizes):
        return dense(table)
    from scipy.sparse import csr_array

    table = csr_array(table)
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def counts_bytes(table: Table) -> int:
    """Return the bytes that a table takes."""
    if not is_sparse(table):
        return int(table.nbytes)
    return int(table.data.nbytes + table.indices.nbytes + table.indptr.nbytes)


def dense(table: Table) -> NDArray[Any]:
    """Return a table, or a block of it, as an array."""
    return table.toarray() if is_sparse(table) else np.asarray(table)


def block(table: Table, rows: Places, columns: Places) -> NDArray[Any]:
    """Return some rows and columns of a table, if an array of them fits in memory."""
    what = f"A table of {len(rows):,} by {len(columns):,} categories"
    check_memory(table.dtype.itemsize * len(rows) * len(columns), what)
    return dense(table[np.ix_(rows, columns)])


def from_entries(entries: list[Entries], size: int, dtype: DTypeLike) -> Table:
    """Return the sparse table of entries above and on the diagonal; equal ones add."""
    from scipy.sparse import csr_array

    place: Any = np.int32 if size < 2**31 else np.int64
    rows, columns, counts = map(np.concatenate, zip(*entries, strict=True))
    off = rows != columns
    both = (
        np.concatenate([rows, columns[off]], dtype=place),
        np.concatenate([columns, rows[off]], dtype=place),
    )
    values = np.concatenate([counts, counts[off]], dtype=dtype, casting="unsafe")
    table = csr_array((values, both), shape=(size, size))
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def entries(table: Table) -> Entries:
    """Return the counts on and above the diagonal that are not zero, row by row."""
    if is_sparse(table):
        rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        upper = np.flatnonzero(rows <= table.indices)
        return rows[upper], table.indices[upper].astype(np.int64), table.data[upper]
    entries = []
    size = max(len(table), 1)
    step = max(1, _CELLS // size)  # some lines at a time: the table may be large
    for low in range(0, size, step):
        lines = table[low : low + step, low:]
        rows, columns = np.nonzero(np.triu(lines))
        entries.append((low + rows, low + columns, lines[rows, columns]))
    rows, columns, counts = map(np.concatenate, zip(*entries, strict=True))
    return rows, columns, counts


def moved(table: Table, target: Places, size: int) -> Table:
    """Return a sparse table whose rows and columns are at other places, or gone (-1).

    Counts that move to the same place are added up.
    """
    rows, columns, counts = entries(table)
    rows = target[rows]
    columns = target[columns]
    kept = np.flatnonzero((rows >= 0) & (columns >= 0))
    rows = rows[kept]
    columns = columns[kept]
    counts = counts[kept]
    # Two categories of a column never share a row, so none moves to the diagonal.
    ends = np.minimum(rows, columns), np.maximum(rows, columns)
    return from_entries([(*ends, counts)], size, counts.dtype)


def changed(table: Table, change: Callable[[Any], Any]) -> Table:
    """Return a table changed entry by entry; zeros stay zeros."""
    if not is_sparse(table):
        return change(table)
    out = table.copy()
    out.data = change(out.data)
    out.eliminate_zeros()
    return out


def equal(first: Table, second: Table) -> bool:
    """Return whether two tables are equal, or both absent."""
    if not is_sparse(first) or not is_sparse(second):
        return bool(np.array_equal(first, second))
    return first.shape == second.shape and all(
        np.array_equal(getattr(first, part), getattr(second, part))
        for part in ("indptr", "indices", "data")
    )


def column_sums(table: Table, sizes: Sizes) -> NDArray[np.float64]:
    """Return the sums of lines of a table over the categories of each of d columns."""
    starts = offsets(sizes)
    if not is_sparse(table):
        return np.add.reduceat(table, starts[:-1], axis=0, dtype=np.float64)
    from scipy.sparse import csr_array

    ones = np.ones(starts[-1])
    places = np.arange(starts[-1])
    owners = csr_array((ones, places, starts), shape=(len(starts) - 1, starts[-1]))
    return np.asarray((owners @ table).toarray())


class Blocks:
    """A table that is built block by block, in the form in which it is stored."""

    def __init__(self, sizes: Sizes, dtype: DTypeLike) -> None:
        self._starts = offsets(sizes)
        self._dtype = dtype
        self._entries: list[Entries] | None = [] if is_large(sizes) else None
        if self._entries is None:
            self._table = np.zeros((self._starts[-1], self._starts[-1]), dtype)

    def put(self, i: int, j: int, counts: NDArray[Any]) -> None:
        """Put the table of columns i < j, or the counts of column i = j."""
        first = self._starts[i]
        second = self._starts[j]
        rows, columns = np.nonzero(counts) if i < j else 2 * (np.arange(len(counts)),)
        places = first + rows, second + columns
        upper = counts[rows, columns] if i < j else counts
        if self._entries is None:
            self._table[places] = self._table[places[::-1]] = upper
        else:
            self._entries.append((*places, upper))

    def table(self) -> Table:
        """Return the whole table."""
        if self._entries is None:
            return self._table
        return from_entries(self._entries, int(self._starts[-1]), self._dtype)


def two_columns(
    codes: tuple[NDArray[Any], NDArray[Any]],
    sizes: tuple[int, int],
    weights: NDArray[np.float64] | None,
) -> Entries:
    """Count the pairs of categories that occur in two columns."""
    joint = codes[0].astype(np.int64) * sizes[1] + codes[1]
    cells = sizes[0] * sizes[1]
    if cells <= BLOCK_CELLS * joint.size:
        table = np.bincount(joint, weights, cells)
        pairs = np.flatnonzero(table)
        counts = table[pairs]
    elif weights is None:
        pairs, counts = np.unique(joint, return_counts=True)
    else:
        pairs, place = np.unique(joint, return_inverse=True)
        counts = np.bincount(place, weights)
    return pairs // sizes[1], pairs % sizes[1], counts
