r"""Sketches of numbers: their different values with counts, bounded and mergeable.

The bins of a numeric column follow from its different values and how many rows have
each. A stream may have more of them than memory should hold. A `Sketch` is exact while
there are at most `most` different values. Beyond, values share *cells*: the 64 bits of
a float, read as an integer in the order of the floats, lose their lowest bits, one more
whenever there are more than `most` cells. Each cell keeps its smallest and largest
value, so that bins begin at values which occur.

The number of bits lost is the smallest at which all values fit. It depends on the set
of values only: the sketch is the same whatever the order of the rows, the batches they
came in and the order of merging. A quantile read off the cells has a rank error of at
most the rows of one cell; with :math:`2^{16}` cells of a smooth distribution that is
about one row in ten thousand.

How many different values there were is then known by a sample: those whose hash begins
with so many zero bits are kept, one bit more whenever there are too many. The count is
off by one or two in a hundred, and does not depend on any order either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST = 2**16
"""Different values of a column that are told apart."""

LARGEST = float(np.finfo(np.float64).max)
"""What infinity counts as."""

EXACT = 2**53
"""The largest of the integers that floats tell apart."""

_PENDING = 2**17  # values that wait until they are sorted in
_SAMPLE = 2**14  # hashes kept
_LEAST_BITS = 2  # zeros at the beginning of a hash that is kept
_MAX_SHIFT = 63


class Cells(NamedTuple):
    """Cells of numbers in ascending order: smallest and largest value, and rows."""

    low: Floats
    high: Floats
    weight: NDArray[Any]


def keys(values: Floats) -> NDArray[np.int64]:
    """Return integers in the order of the floats; the two zeros are one."""
    bits = np.asarray(values + 0.0, np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def ascending(numbers: NDArray[np.int64]) -> bool:
    """Whether each number is larger than the one before."""
    return bool((numbers[:-1] < numbers[1:]).all())  # a difference might overflow


def joined(cells: Cells, shift: int = 0, most: int = MOST) -> tuple[Cells, int]:
    """Return at most `most` cells in order, and how many bits their keys lost."""
    if not len(cells.low):
        return cells, shift
    places = keys(cells.low)
    order = np.argsort(places, kind="stable")
    shift, first = fitting(places[order], shift, most)
    low = cells.low[order][first]
    high = low if not shift else np.maximum.reduceat(cells.high[order], first)
    return Cells(low, high, np.add.reduceat(cells.weight[order], first)), shift


def fitting(
    places: NDArray[np.int64], shift: int, most: int
) -> tuple[int, NDArray[np.intp]]:
    """Return how many bits keys in order must lose, and where their cells begin."""
    while True:
        shifted = places >> shift
        first = np.flatnonzero(np.diff(shifted, prepend=~shifted[:1]))
        if len(first) <= most or shift == _MAX_SHIFT:
            return shift, first
        shift += 1


class Sample:
    """A sample of different values, to estimate their number."""

    def __init__(self) -> None:
        self.bits = _LEAST_BITS
        self.hashes = np.empty(0, np.uint64)

    @property
    def count(self) -> int:
        """About how many different values there were."""
        return len(self.hashes) << self.bits

    def add(self, values: Floats) -> None:
        """Add values."""
        self._take(_hashed(keys(values)))

    def merge(self, other: Sample) -> None:
        """Add the values of another sample."""
        self.bits = max(self.bits, other.bits)
        self._take(other.hashes)

    def _take(self, hashes: NDArray[np.uint64]) -> None:
        fresh = self._kept(hashes)
        if len(fresh):
            self.hashes = self._kept(np.union1d(self.hashes, fresh))
        while len(self.hashes) > _SAMPLE:
            self.bits += 1
            self.hashes = self._kept(self.hashes)

    def _kept(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        kept: NDArray[np.uint64] = hashes[hashes >> np.uint64(64 - self.bits) == 0]
        return kept


def _hashed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Mix the bits of integers (the finaliser of SplitMix64), each to another one."""
    x = numbers.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


class Sketch:
    """The different values of a numeric column with their counts."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._shift = 0
        self._cells = _empty()
        self._waiting: list[Cells] = []
        self._pending = 0
        self._sample: Sample | None = None  # while not exact

    def add(self, values: Floats, weights: Floats | None = None) -> None:
        """Add values; NaN is left out, infinity counts as the largest float."""
        known = ~np.isnan(values)
        if not known.all():
            values = values[known]
            weights = None if weights is None else weights[known]
        values = np.clip(values, -LARGEST, LARGEST)
        if weights is None:
            points, weight = np.unique(values, return_counts=True)
        else:
            points, inverse = np.unique(values, return_inverse=True)
            weight = np.bincount(inverse, weights, len(points))
        if self._sample is not None:
            self._sample.add(points)
        self._wait(Cells(points, points, weight))

    def merge(self, other: Sketch) -> None:
        """Add the values of another sketch."""
        if other.most != self.most:
            raise ValueError(
                f"The sketches keep {self.most} and {other.most} cells: use one "
                "number for both."
            )
        theirs, mine = other.cells, self.cells
        if not (self.exact and other.exact):
            sample = self._sample or _sampled(mine)
            sample.merge(other._sample or _sampled(theirs))
            self._sample = sample
        self._shift = max(self._shift, other._shift)
        self._wait(theirs)

    @property
    def cells(self) -> Cells:
        """The cells, in ascending order."""
        if self._waiting:
            pieces = [self._cells, *self._waiting]
            together = Cells(*map(np.concatenate, zip(*pieces, strict=True)))
            self._cells, self._shift = joined(together, self._shift, self.most)
            if self._shift and self._sample is None:
                self._sample = _sampled(together)
            self._waiting, self._pending = [], 0
        return self._cells

    @property
    def shift(self) -> int:
        """The number of bits that were lost."""
        _ = self.cells
        return self._shift

    @property
    def exact(self) -> bool:
        """Whether every different value has a cell of its own."""
        return self.shift == 0

    @property
    def distinct(self) -> int:
        """The number of different values; about, if the sketch is not exact."""
        count = len(self.cells.low)
        return count if self._sample is None else max(count, self._sample.count)

    def _wait(self, cells: Cells) -> None:
        if not len(cells.low):
            return
        self._waiting.append(cells)
        self._pending += len(cells.low)
        if self._pending > max(_PENDING, len(self._cells.low) // 2):
            _ = self.cells

    def to_parts(self) -> tuple[dict[str, int], dict[str, NDArray[Any]]]:
        """Return the numbers and the arrays that `from_parts` takes."""
        arrays: dict[str, NDArray[Any]] = self.cells._asdict()
        sample = self._sample or Sample()
        numbers = {"shift": self._shift, "bits": sample.bits}
        return numbers, {**arrays, "hashes": sample.hashes}

    @classmethod
    def from_parts(
        cls, numbers: Any, arrays: dict[str, NDArray[Any]], most: int = MOST
    ) -> Sketch:
        """Return the sketch of its parts, checked: they may be of a damaged file."""
        try:
            shift, bits = int(numbers["shift"]), int(numbers["bits"])
            cells = Cells(*(arrays[name] for name in Cells._fields))
            hashes = arrays["hashes"]
        except (KeyError, TypeError, ValueError):
            raise ValueError("the sketch is not valid") from None
        if not (_are_valid(cells, shift, most) and _is_sample(hashes, bits)):
            raise ValueError("the sketch is not valid")
        found = cls(most)
        found._cells, found._shift = cells, shift
        if shift:
            found._sample = Sample()
            found._sample.hashes, found._sample.bits = hashes, bits
        return found


def are_bounds(low: NDArray[Any], high: NDArray[Any], shift: int, most: int) -> bool:
    """Whether these can be the bounds of cells, in any order."""
    return (
        0 <= shift <= _MAX_SHIFT
        and low.dtype == high.dtype == np.float64
        and low.shape == high.shape
        and low.ndim == 1
        and len(low) <= most
        and bool((np.abs(low) <= LARGEST).all())
        and bool((np.abs(high) <= LARGEST).all())
        and bool((low <= high).all())
    )


def _are_valid(cells: Cells, shift: int, most: int) -> bool:
    return (
        are_bounds(cells.low, cells.high, shift, most)
        and cells.weight.dtype in (np.int64, np.float64)
        and cells.weight.shape == cells.low.shape
        and bool((cells.weight > 0).all())
        and ascending(keys(cells.low) >> shift)
    )


def _is_sample(hashes: NDArray[Any], bits: int) -> bool:
    return (
        _LEAST_BITS <= bits < 64
        and hashes.dtype == np.uint64
        and hashes.ndim == 1
        and len(hashes) <= _SAMPLE
        and bool((hashes[:-1] < hashes[1:]).all())
        and bool((hashes >> np.uint64(64 - bits) == 0).all())
    )


def _sampled(cells: Cells) -> Sample:
    """Return a sample of exact cells."""
    sample = Sample()
    sample.add(cells.low)
    return sample


def _empty() -> Cells:
    return Cells(np.empty(0), np.empty(0), np.empty(0, np.int64))
