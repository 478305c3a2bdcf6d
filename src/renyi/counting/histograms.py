"""Joint histograms of super-columns: many contingency tables at a time.

A super-column is a few columns whose joint value is one number. One histogram of the
joint code of two super-columns serves every pair of columns inside and across them;
`renyi.counting.pair_counts` says when that pays.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.compiled import run_all

ROWS = 61_440  # of a block: half a MB of int64 codes, and 16 bits hold its counts
CELLS = 2**23  # of all tables of a tile: 64 MB
TILE = 16  # super-columns along one side of a tile


@dataclass(frozen=True)
class SuperColumn:
    """A super-column: a few columns whose joint value is one number.

    The value of a row is the sum over its columns of ``stride * code``.
    """

    columns: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of joint values."""
        return math.prod(self.sizes)

    @property
    def strides(self) -> list[int]:
        """What a step of each column adds to the joint value."""
        return [math.prod(self.sizes[:c]) for c in range(len(self.sizes))]

    @cached_property
    def indicators(self) -> NDArray[np.float64]:
        """The one-hot matrix of each joint value, shape (size, sum of sizes)."""
        rows = np.arange(self.size)
        out = np.zeros((self.size, sum(self.sizes)))
        first = 0
        for stride, size in zip(self.strides, self.sizes, strict=True):
            out[rows, first + rows // stride % size] = 1
            first += size
        return out

    def fold(self, table: NDArray[Any]) -> NDArray[Any]:
        """Sum the first axis of a table over the joint values of each category."""
        return table if len(self.columns) == 1 else self.indicators.T @ table

    def inside(self, histogram: NDArray[Any]) -> NDArray[Any]:
        """Return the tables of all pairs of own columns from their joint histogram."""
        block = self.fold(histogram[:, None] * self.indicators)
        # A product may sum weights in one order above the diagonal, another below.
        symmetric: NDArray[Any] = (block + block.T) / 2
        return symmetric

    def positions(self, offsets: NDArray[np.int64]) -> NDArray[np.int64] | slice:
        """Return the places of the categories among all indicators.

        A block is written much faster if one side of it is a slice.
        """
        if len(self.columns) == 1:
            return slice(*offsets[self.columns[0] :][:2])
        ranges = [
            offsets[c] + np.arange(offsets[c + 1] - offsets[c]) for c in self.columns
        ]
        return np.concatenate([np.empty(0, np.int64), *ranges])

    def codes(self, codes: NDArray[Any], low: int, high: int) -> NDArray[np.int64]:
        """Return the joint values of some rows."""
        # Short words halve the memory traffic.
        word: Any = np.uint16 if self.size <= 2**16 else np.uint32
        value = np.zeros(high - low, word)
        for column, stride in zip(self.columns, self.strides, strict=True):
            part = codes[column, low:high].astype(word, copy=False)
            value += part if stride == 1 else part * word(stride)
        return value.astype(np.int64)


def joint_values(n: int) -> int:
    """Return how many joint values a super-column may have."""
    return min(200, max(100, math.isqrt(n)))


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
    """Return the super-columns, those of wanted columns first, and how many these are.

    There are at least two, since pairs inside one are read off a pair.
    """
    if wanted is None:
        wanted = np.ones(sizes.size, np.bool_)
    groups = _groups(sizes, np.flatnonzero(wanted), limit)
    first = len(groups)
    groups += _groups(sizes, np.flatnonzero(~wanted), limit)
    return (groups if len(groups) > 1 else [*groups, SuperColumn((), ())]), first


def _tiles(groups: list[SuperColumn], first: int) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of pairs of groups whose codes and tables fit in memory.

    Each pair has one of the `first` groups.
    """
    count = len(groups)
    tiles = [(a, b) for a in range(0, count, TILE) for b in range(a, count, TILE)]
    for low_a, low_b in tiles:
        pairs: list[tuple[int, int]] = []
        cells = 0
        for a in range(low_a, min(low_a + TILE, first)):
            for b in range(max(a + 1, low_b), min(low_b + TILE, count)):
                new = groups[a].size * groups[b].size
                if pairs and cells + new > CELLS:
                    yield pairs
                    pairs, cells = [], 0
                pairs.append((a, b))
                cells += new
        if pairs:
            yield pairs


def histograms(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    kernels: ModuleType | None,
    threads: int = 1,
    wanted: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Count by joint histograms of pairs of super-columns.

    `kernels` is :mod:`renyi.counting.kernels`, numpy's ``bincount`` without it; with
    `wanted`, only pairs with at least one of these columns are counted.
    """
    groups, first = super_columns(sizes, joint_values(codes.shape[1]), wanted)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = [group.positions(offsets) for group in groups]
    dtype = np.int64 if weights is None else np.float64
    out = np.zeros((offsets[-1], offsets[-1]), dtype)
    missing = set(range(first))  # diagonal blocks still to be filled
    for pairs in _tiles(groups, first):
        for (a, b), table in _tables(codes, weights, groups, pairs, kernels, threads):
            block = groups[b].fold(groups[a].fold(table).T)
            out[_cells(places[b], places[a])] = block
            out[_cells(places[a], places[b])] = block.T
            for g, axis in ((a, 1), (b, 0)):
                if g in missing:
                    missing.remove(g)
                    _put_inside(out, groups[g], places[g], table.sum(axis=axis))
    return out


def _put_inside(
    out: NDArray[Any],
    group: SuperColumn,
    places: NDArray[np.int64] | slice,
    histogram: NDArray[Any],
) -> None:
    """Write the tables of the pairs of a super-column's own columns."""
    if isinstance(places, slice):
        np.fill_diagonal(out[places, places], histogram)
    else:
        out[np.ix_(places, places)] = group.inside(histogram)


def _cells(
    rows: NDArray[np.int64] | slice, columns: NDArray[np.int64] | slice
) -> tuple[Any, ...]:
    """Return the index of a block of the table."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return rows, columns
    return np.ix_(rows, columns)


def _tables(
    codes: NDArray[Any],
    weights: NDArray[np.float64] | None,
    groups: list[SuperColumn],
    pairs: list[tuple[int, int]],
    kernels: ModuleType | None,
    threads: int,
) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """Yield the joint table of each pair of super-columns."""
    shapes = [(groups[a].size, groups[b].size) for a, b in pairs]
    begins = np.concatenate([[0], np.cumsum([a * b for a, b in shapes])])
    flat = np.zeros(begins[-1], np.int64 if weights is None else np.float64)
    if kernels is None:
        _fill(codes, weights, groups, pairs, begins, flat)
    else:
        step = -(-len(pairs) // threads)
        fill = partial(_fill_compiled, codes, weights, groups, flat, kernels)
        run_all(
            [
                partial(fill, pairs[p : p + step], begins[p : p + step + 1])
                for p in range(0, len(pairs), step)
            ]
        )
    for pair, shape, low, high in zip(
        pairs, shapes, begins[:-1], begins[1:], strict=True
    ):
        yield pair, flat[low:high].reshape(shape)


def _used(pairs: list[tuple[int, int]]) -> list[int]:
    """Return the groups which occur in some pairs."""
    return sorted({group for pair in pairs for group in pair})


def _fill(
    codes: NDArray[Any],
    weights: NDArray[np.float64] | None,
    groups: list[SuperColumn],
    pairs: list[tuple[int, int]],
    begins: NDArray[np.int64],
    flat: NDArray[Any],
) -> None:
    """Add up ``bincount`` of the joint codes, block of rows by block of rows."""
    n = codes.shape[1]
    for low in range(0, n, ROWS):
        high = min(low + ROWS, n)
        part = None if weights is None else weights[low:high]
        packed = {g: groups[g].codes(codes, low, high) for g in _used(pairs)}
        scaled, joint = np.empty((2, high - low), np.int64)
        scaled_as = (-1, -1)
        for p, (a, b) in enumerate(pairs):
            if scaled_as != (a, groups[b].size):
                scaled_as = (a, groups[b].size)
                np.multiply(packed[a], groups[b].size, out=scaled)
            np.add(scaled, packed[b], out=joint)
            cells = begins[p + 1] - begins[p]
            flat[begins[p] : begins[p + 1]] += np.bincount(joint, part, cells)


def _fill_compiled(
    codes: NDArray[Any],
    weights: NDArray[np.float64] | None,
    groups: list[SuperColumn],
    flat: NDArray[Any],
    kernels: ModuleType,
    pairs: list[tuple[int, int]],
    begins: NDArray[np.int64],
) -> None:
    """Call the compiled histograms with the flattened plan of the groups in use."""
    used = _used(pairs)
    columns = [column for g in used for column in groups[g].columns]
    strides = [stride for g in used for stride in groups[g].strides]
    starts = np.cumsum([0] + [len(groups[g].columns) for g in used])
    ends = np.searchsorted(used, np.array(pairs, np.int64))
    kernels.joint_histograms(
        codes,
        weights,
        np.array(columns, np.int64),
        np.array(strides, np.int64),
        starts,
        np.ascontiguousarray(ends[:, 0]),
        np.ascontiguousarray(ends[:, 1]),
        np.array([groups[b].size for _, b in pairs], np.int64),
        begins,
        flat,
        ROWS,
    )
