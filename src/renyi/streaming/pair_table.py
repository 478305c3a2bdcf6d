"""Tables of pair counts that grow: categories get their places as they turn up.

`places[j][code]` is the row, and the column, of a code of column j. A block of codes is
counted by itself, then added at the places of its codes; the table is enlarged when it
is full. Tables of the pairs within each class are kept on request.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.pair_counts import (
    check_table_size,
    class_pair_counts,
    pair_counts,
)

MOST_CATEGORIES = 20_000
"""Categories of all columns together that are begun to be counted."""

_FIRST_SIZE = 64
_MANY_CODES = 256
_CELLS = 2**21  # of a table that are added at a time

Places = NDArray[np.intp]


class PairTable:
    """Counts of all pairs of categories, of any number of columns.

    Parameters
    ----------
    names : sequence of str
        The columns; the last is the target.
    weighted : bool
        Whether counts are sums of weights.
    by_class : bool
        Whether pairs are counted within each class too.

    Examples
    --------
    >>> table = PairTable(["a", "y"], False, False)
    >>> table.add(np.array([[0, 1, 1], [0, 0, 1]]), [2, 2], None)
    >>> table.add(np.array([[2], [1]]), [3, 2], None)
    >>> table.mass(0), table.mass(1)
    (array([1, 2, 1]), array([2, 2]))
    """

    def __init__(self, names: Any, weighted: bool, by_class: bool) -> None:
        self.names = tuple(names)
        self.dtype: Any = np.float64 if weighted else np.int64
        self.places: list[Places] = [np.empty(0, np.intp) for _ in self.names]
        self.size = 0
        self.counts = np.zeros((0, 0), self.dtype)
        self.inner = np.zeros((0, 0, 0), self.dtype) if by_class else None

    def add(
        self,
        codes: NDArray[Any],
        sizes: list[int],
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Count a block of codes of shape (columns, rows)."""
        self.reserve(sizes)
        codes, places = self._compact(codes, sizes)
        lengths = [len(place) for place in places]
        # One thread: blocks are small, and callers count several at a time.
        table = pair_counts(codes, lengths, weights, threads=1)
        _add_at(self.counts, table, places)
        if self.inner is not None:
            within = class_pair_counts(
                codes[:-1], lengths[:-1], codes[-1], lengths[-1], weights, threads=1
            )
            classes = np.searchsorted(self.places[-1], places[-1])
            for code, table in zip(classes, within, strict=True):
                _add_at(self.inner[code], table, places[:-1])

    def _compact(
        self, codes: NDArray[Any], sizes: list[int]
    ) -> tuple[NDArray[Any], list[Places]]:
        """Renumber columns of which but a few of many codes occur."""
        places = list(self.places)
        copied = False
        for j, size in enumerate(sizes):
            if size < _MANY_CODES:
                continue
            used = np.flatnonzero(np.bincount(codes[j], minlength=size))
            if 2 * len(used) > size:
                continue
            codes = codes if copied else codes.copy()
            copied = True
            rank = np.zeros(size, codes.dtype)
            rank[used] = np.arange(len(used))
            codes[j] = rank[codes[j]]
            places[j] = places[j][used]
        return codes, places

    def reserve(self, sizes: list[int]) -> None:
        """Make room for so many codes of each column."""
        for j, size in enumerate(sizes):
            fresh = size - len(self.places[j])
            if fresh > 0:
                added = np.arange(self.size, self.size + fresh)
                self.places[j] = np.concatenate([self.places[j], added])
                self.size += fresh
        if self.size > MOST_CATEGORIES:
            j = int(np.argmax([len(place) for place in self.places]))
            raise ValueError(
                f"There are more than {MOST_CATEGORIES:,} categories in all, and "
                f"column {self.names[j]!r} alone has {len(self.places[j]):,}: drop it, "
                "or name it in `numeric` if it is a number."
            )
        self._enlarge()

    def _enlarge(self) -> None:
        room, classes = len(self.counts), len(self.places[-1])
        if self.inner is not None:
            check_table_size(self.size, classes + 1)
        if self.size > room:
            more = room if room < _MANY_CODES else min(room // 4, 1024)
            room = max(_FIRST_SIZE, self.size, room + more)
            self.counts = _enlarged(self.counts, (room, room))
        if self.inner is not None and self.inner.shape != (classes, room, room):
            self.inner = _enlarged(self.inner, (classes, room, room))

    def mass(self, j: int) -> NDArray[Any]:
        """Return the rows of each code of a column."""
        return self.counts[self.places[j], self.places[j]]

    def folded(self, target: Places, size: int) -> NDArray[Any]:
        """Return the counts with each place moved to another; -1 drops it."""
        return _spread(folded(self._used, target), target, size)

    def folded_classes(
        self, target: Places, size: int, classes: Places
    ) -> NDArray[Any]:
        """Return the counts within each class, places and classes moved."""
        assert self.inner is not None
        out = np.zeros((int(classes.max()) + 1, size, size), self.dtype)
        for code, table in zip(classes, self.inner, strict=True):
            if code >= 0:
                own = folded(table[: self.size, : self.size], target)
                out[code] += _spread(own, target, size)
        return out

    @property
    def _used(self) -> NDArray[Any]:
        return self.counts[: self.size, : self.size]

    def merge(self, other: PairTable, theirs: list[Places], sizes: list[int]) -> None:
        """Add another table; `theirs` gives the own code of each of its codes."""
        self.reserve(sizes)
        target = np.full(other.size, -1)
        for own, place, codes in zip(self.places, other.places, theirs, strict=True):
            target[place] = own[codes[: len(place)]]
        _add_folded(self.counts, other._used, target)
        if self.inner is not None:
            assert other.inner is not None
            for code, table in enumerate(other.inner):
                found = table[: other.size, : other.size]
                _add_folded(self.inner[theirs[-1][code]], found, target)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the non-zero counts as arrays, with their places."""
        order = np.concatenate(self.places)
        arrays = _sparse(self.counts[np.ix_(order, order)])
        if self.inner is not None:
            for code, table in enumerate(self.inner):
                inner = _sparse(table[np.ix_(order, order)])
                arrays.update({f"{key} of {code}": v for key, v in inner.items()})
        return arrays

    def fill(self, arrays: dict[str, NDArray[Any]], sizes: list[int]) -> None:
        """Take the counts of arrays, checked."""
        self.reserve(sizes)
        _fill(self.counts, arrays, "", self.size)
        if self.inner is not None:
            for code, table in enumerate(self.inner):
                _fill(table, arrays, f" of {code}", self.size)

    def fold(self, j: int, moved: Places) -> None:
        """Renumber the codes of a column; codes that become one are added up.

        Codes that none becomes are new, and get places of their own.
        """
        target = np.arange(self.size)
        kept = np.full(int(moved.max()) + 1, -1)
        for code, place in zip(moved, self.places[j], strict=False):
            if kept[code] < 0:
                kept[code] = place
            target[place] = kept[code]
        used, target = np.unique(target, return_inverse=True)
        self.counts = folded(self.counts[: self.size, : self.size], target)
        if self.inner is not None:
            inner = np.zeros((len(self.inner), len(used), len(used)), self.dtype)
            for code, table in enumerate(self.inner):
                inner[code] = folded(table[: self.size, : self.size], target)
            self.inner = inner
        self.places = [target[place] for place in self.places]
        fresh = kept < 0
        self.places[j] = np.searchsorted(used, kept)
        self.places[j][fresh] = len(used) + np.arange(fresh.sum())
        self.size = len(used) + int(fresh.sum())
        self._enlarge()


def _add_at(counts: NDArray[Any], own: NDArray[Any], places: list[Places]) -> None:
    """Add a table at the places of its rows and columns."""
    where = np.concatenate(places)
    if np.array_equal(where, np.arange(len(where))):
        counts[: len(where), : len(where)] += own
        return
    step = max(1, _CELLS // max(len(where), 1))  # lines, copied by the addition
    for low in range(0, len(where), step):
        lines = where[low : low + step]
        counts[np.ix_(lines, where)] += own[low : low + step]


def _add_folded(counts: NDArray[Any], own: NDArray[Any], target: Places) -> None:
    """Add a table whose rows and columns go to other places, perhaps several to one.

    Only what becomes one is copied: tables may be a good part of the memory.
    """
    used = np.unique(target[target >= 0])
    if len(used) == len(target):
        _add_at(counts, own, [target])
    else:
        _add_at(counts, folded(own, target), [used])


def _enlarged(table: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a table with zeros beyond the old entries."""
    out = np.zeros(shape, table.dtype)
    out[tuple(slice(0, size) for size in table.shape)] = table
    return out


def folded(counts: NDArray[Any], target: Places) -> NDArray[Any]:
    """Add up the rows, and the columns, that go to the same place.

    Places are numbered from 0 without gaps; -1 drops a row and column.

    >>> folded(np.array([[1, 2, 3], [2, 4, 5], [3, 5, 6]]), np.array([1, 0, 1]))
    array([[ 4,  7],
           [ 7, 13]])
    """
    order = np.argsort(target, kind="stable")
    order = order[int((target < 0).sum()) :]
    if not len(order):
        return np.zeros((0, 0), counts.dtype)
    places = target[order]
    counts = counts[np.ix_(order, order)]
    first = np.flatnonzero(np.diff(places, prepend=-1))
    if len(first) == len(order):
        return counts
    total: NDArray[Any] = np.add.reduceat(
        np.add.reduceat(counts, first, axis=0), first, axis=1
    )
    return total


def _spread(counts: NDArray[Any], target: Places, size: int) -> NDArray[Any]:
    """Return a folded table with zeros at the places where nothing went."""
    used = np.unique(target[target >= 0])
    if len(used) == size:
        return counts
    out = np.zeros((size, size), counts.dtype)
    out[np.ix_(used, used)] = counts
    return out


def _sparse(counts: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the upper half of a symmetric table where it is not zero."""
    rows, columns = np.nonzero(np.triu(counts))
    values = counts[rows, columns]
    if values.dtype.kind == "i":
        values = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    return {
        "rows": rows.astype(np.uint16),
        "columns": columns.astype(np.uint16),
        "counts": values,
    }


def _fill(
    counts: NDArray[Any], arrays: dict[str, NDArray[Any]], ending: str, size: int
) -> None:
    names = (f"rows{ending}", f"columns{ending}", f"counts{ending}")
    rows, columns, values = (arrays[name] for name in names)
    good = (
        rows.dtype == columns.dtype == np.uint16
        and rows.shape == columns.shape == values.shape
        and rows.ndim == 1
        and bool((rows <= columns).all())
        and int(columns.max(initial=0)) < max(size, 1)
        and (values.dtype.kind == "u") == (counts.dtype.kind == "i")
        and bool(np.isfinite(values).all() and (values > 0).all())
    )
    if not good or int(values.max(initial=0)) > np.iinfo(np.int64).max:
        raise ValueError("the counts are not valid")
    counts[rows, columns] = values
    counts[columns, rows] = values
