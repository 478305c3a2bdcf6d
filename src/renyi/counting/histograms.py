"""Joint histograms of super-columns: many contingency tables at a time.

A super-column is a few columns whose joint value is one number. One histogram of the
joint code of two super-columns serves every pair of columns inside and across them;
`renyi.counting.pair_counts` decides when to use it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting import compiled
from renyi.counting.onehot import offsets

ROWS = 61_440  # rows of a block: half a MB of int64 codes; counts fit in 16 bits
CELLS = 2**23  # cells of all tables of a tile: 64 MB
TILE = 16  # super-columns along one side of a tile

Pairs = list[tuple[int, int]]
Places = NDArray[np.int64] | slice


@dataclass(frozen=True)
class SuperColumn:
    """A few columns whose joint value is one number: the sum of ``stride * code``."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """Number of joint values."""
        return math.prod(self.sizes)

    @property
    def strides(self) -> list[int]:
        """Increase of the joint value per code of each column."""
        return [math.prod(self.sizes[:c]) for c in range(len(self.sizes))]

    @cached_property
    def indicators(self) -> NDArray[np.float64]:
        """The one-hot matrix of each joint value, shape (size, sum of sizes)."""
        rows = np.arange(self.size)
        out = np.zeros((self.size, sum(self.sizes)))
        firsts = offsets(self.sizes)[:-1]
        for first, stride, size in zip(firsts, self.strides, self.sizes, strict=True):
            out[rows, first + rows // stride % size] = 1
        return out

    def fold(self, table: NDArray[Any]) -> NDArray[Any]:
        """Sum the first axis of a table over the joint values of each category."""
        return table if len(self.columns) == 1 else self.indicators.T @ table

    def inside(self, histogram: NDArray[Any]) -> NDArray[Any]:
        """Return the tables of all pairs of its columns from their joint histogram."""
        block = self.fold(histogram[:, None] * self.indicators)
        # A product may sum weights in different orders above and below the diagonal.
        symmetric: NDArray[Any] = (block + block.T) / 2
        return symmetric

    def positions(self, starts: NDArray[np.int64]) -> Places:
        """Return the places of the categories among all indicators.

        Writing a block is much faster if one side of it is a slice.
        """
        if len(self.columns) == 1:
            return slice(*starts[self.columns[0] :][:2])
        ranges = [np.arange(starts[c], starts[c + 1]) for c in self.columns]
        return np.concatenate([np.empty(0, np.int64), *ranges])

    def codes(self, codes: NDArray[Any], rows: slice) -> NDArray[np.int64]:
        """Return the joint values of some rows."""
        # Short words halve the memory traffic.
        word: Any = np.uint16 if self.size <= 2**16 else np.uint32
        value = np.zeros(rows.stop - rows.start, word)
        for column, stride in zip(self.columns, self.strides, strict=True):
            part = codes[column, rows].astype(word, copy=False)
            value += part if stride == 1 else part * word(stride)
        return value.astype(np.int64)


def _groups(
    sizes: NDArray[np.int64], columns: NDArray[np.int64], limit: int
) -> list[SuperColumn]:
    """Pack columns into super-columns, each time the largest columns that still fit."""
    lengths = sizes[columns]
    left = Counter(lengths.tolist())
    where = {size: columns[lengths == size].tolist() for size in left}
    groups = []
    while left:
        chosen: list[int] = []
        value = 1
        for size in sorted(left, reverse=True):
            while left[size] and (value * size <= limit or not chosen):
                chosen.append(where[size].pop())
                left[size] -= 1
                value *= size
        left = +left
        groups.append(SuperColumn(tuple(chosen), tuple(sizes[chosen].tolist())))
    return groups


def super_columns(
    sizes: NDArray[np.int64], limit: int, wanted: NDArray[np.bool_] | None
) -> tuple[list[SuperColumn], int]:
    """Return the super-columns, those of wanted columns first, and their number.

    There are at least two, since pairs inside one come from a histogram of two.
    """
    if wanted is None:
        wanted = np.ones(sizes.size, np.bool_)
    groups = _groups(sizes, np.flatnonzero(wanted), limit)
    first = len(groups)
    groups += _groups(sizes, np.flatnonzero(~wanted), limit)
    return (groups if len(groups) > 1 else [*groups, SuperColumn((), ())]), first


def _tiles(groups: list[SuperColumn], first: int) -> Iterator[Pairs]:
    """Yield pairs with one of the `first` groups, in lists that fit in memory."""
    count = len(groups)
    tiles = [(a, b) for a in range(0, count, TILE) for b in range(a, count, TILE)]
    for low_a, low_b in tiles:
        pairs: Pairs = []
        cells = 0
        for a in range(low_a, min(low_a + TILE, first)):
            for b in range(max(a + 1, low_b), min(low_b + TILE, count)):
                new = groups[a].size * groups[b].size
                if pairs and cells + new > CELLS:
                    yield pairs
                    pairs = []
                    cells = 0
                pairs.append((a, b))
                cells += new
        if pairs:
            yield pairs


def histograms(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    limit: int,
    weights: NDArray[np.float64] | None,
    kernels: ModuleType | None,
    threads: int = 1,
    wanted: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Count by joint histograms of pairs of super-columns.

    A super-column has at most `limit` joint values, or is a single column. `kernels` is
    :mod:`renyi.counting.kernels`, numpy's ``bincount`` without it; with `wanted`, only
    pairs with at least one of these columns are counted.
    """
    groups, first = super_columns(sizes, limit, wanted)
    starts = offsets(sizes)
    places = [group.positions(starts) for group in groups]
    dtype = np.int64 if weights is None else np.float64
    out = np.zeros((starts[-1], starts[-1]), dtype)
    missing = set(range(first))  # diagonal blocks still to be filled
    for pairs in _tiles(groups, first):
        shapes = [(groups[a].size, groups[b].size) for a, b in pairs]
        begins = offsets([a * b for a, b in shapes])
        flat = np.zeros(begins[-1], dtype)
        step = -(-len(pairs) // (1 if kernels is None else threads))
        fill = partial(_fill, kernels, codes, weights, groups, flat)
        spans = [slice(p, p + step) for p in range(0, len(pairs), step)]
        compiled.run_all([partial(fill, pairs[s], begins[s.start :]) for s in spans])
        for p, (a, b) in enumerate(pairs):
            table = flat[begins[p] : begins[p + 1]].reshape(shapes[p])
            block = groups[b].fold(groups[a].fold(table).T)
            out[_cells(places[b], places[a])] = block
            out[_cells(places[a], places[b])] = block.T
            for g, axis in ((a, 1), (b, 0)):
                if g in missing:
                    missing.remove(g)
                    own = table.sum(axis=axis)
                    place = places[g]
                    if isinstance(place, slice):
                        np.fill_diagonal(out[place, place], own)
                    else:
                        out[np.ix_(place, place)] = groups[g].inside(own)
    return out


def _cells(rows: Places, columns: Places) -> tuple[Any, ...]:
    """Return the index of a block of the table."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return rows, columns
    return np.ix_(rows, columns)


def _fill(
    kernels: ModuleType | None,
    codes: NDArray[Any],
    weights: NDArray[np.float64] | None,
    groups: list[SuperColumn],
    flat: NDArray[Any],
    pairs: Pairs,
    begins: NDArray[np.int64],
) -> None:
    """Add up histograms of the joint codes, block of rows by block of rows."""
    if kernels is not None:
        used = sorted(set(chain(*pairs)))
        columns = [column for g in used for column in groups[g].columns]
        strides = [stride for g in used for stride in groups[g].strides]
        starts = offsets([len(groups[g].columns) for g in used])
        plan = np.array(columns, np.int64), np.array(strides, np.int64), starts
        ends = np.searchsorted(used, np.array(pairs, np.int64))
        widths = np.array([groups[b].size for _, b in pairs], np.int64)
        tables = ends, widths, begins, flat
        kernels.joint_histograms(codes, weights, *plan, *tables, ROWS)
        return
    n = codes.shape[1]
    for low in range(0, n, ROWS):
        rows = slice(low, min(low + ROWS, n))
        part = None if weights is None else weights[rows]
        packed = {g: groups[g].codes(codes, rows) for g in set(chain(*pairs))}
        scaled, joint = np.empty((2, rows.stop - low), np.int64)
        scaled_as = (-1, -1)
        for p, (a, b) in enumerate(pairs):
            if scaled_as != (a, groups[b].size):
                scaled_as = (a, groups[b].size)
                np.multiply(packed[a], groups[b].size, out=scaled)
            np.add(scaled, packed[b], out=joint)
            cells = begins[p + 1] - begins[p]
            flat[begins[p] : begins[p + 1]] += np.bincount(joint, part, cells)
