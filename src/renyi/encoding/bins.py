r"""Numbers to categories: quantile bins, and separate bins for frequent values.

The bins of a column are the intervals ``[edges[k-1], edges[k])``: the code of a value
x is the number of edges that are at most x. A value that at least one row in `bins`
shares (capital-gain = 0) gets a separate interval. The other rows are cut at their
quantiles, weighted if the rows are. Weights count as repetition does. Edges are finite,
so that every file format can contain them: infinity shares the bin that begins at the
largest float.

Bins follow from the different values and how many rows have each. A stream may have
more of them than memory should hold. A `Sketch` is exact while there are at most `MOST`
different values. Beyond, values share *cells*. The 64 bits of a float are read as an
integer in the order of the floats. They lose their lowest bits, one more whenever there
are more than `MOST` cells. Each cell keeps its smallest and largest value, so that bins
begin at values which occur.

The number of bits lost is the smallest at which all values fit. It depends on the set
of values only: the sketch is the same whatever the order of the rows, the batches they
came in and the order of merging. Rows in memory get the same bins. A quantile read off
the cells has a rank error of at most the rows of one cell. With :math:`2^{16}` cells of
a smooth distribution, that is about one row in ten thousand.

The number of different values is then estimated from a sample. It keeps the values
whose hash begins with so many zero bits, one bit more whenever there are too many. The
count is off by one or two in a hundred, and does not depend on any order either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.validation import ParameterError

Floats = NDArray[np.float64]

MOST = 2**16
"""Different values of a column that are told apart."""

LARGEST = float(np.finfo(np.float64).max)
"""What infinity counts as."""

FEW_BINS = 5
MANY_BINS = 8
MANY_ROWS = 2_000
"""Rows from which a column has `MANY_BINS` bins by default, and below `FEW_BINS`."""

FINE_BINS = 64
"""Quantile bins of a column before neighbours are merged by the classes."""

_MOST_WHOLE = 2.0**64  # of the integers whose names show all digits
_PENDING = 2**17  # values that wait until they are sorted in
_SAMPLE = 2**14  # hashes kept
# Names of bins: of the first one, and of those that begin at a number.
_LOWEST = re.compile(r"(?:up to|below) .*|any number")
_START = re.compile(r"(above |from )?(-?(?:infinity|[\d.]+(?:e[-+]?\d+)?))(?: .*)?")
_LEAST_BITS = 2  # zeros at the beginning of a hash that is kept
_MAX_SHIFT = 63


# ---- cells


class Cells(NamedTuple):
    """Cells of numbers in ascending order: smallest and largest value, and rows."""

    low: Floats
    high: Floats
    weight: NDArray[Any]

    @classmethod
    def of(cls, values: Floats, weights: Floats | None = None) -> Cells:
        """Return a cell for each value; NaN is left out, infinity the largest float."""
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
        return cls(points, points, weight)


def keys(values: Floats) -> NDArray[np.int64]:
    """Return integers in the order of the floats; the two zeros are one."""
    bits = np.asarray(values + 0.0, np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def joined(cells: Cells, shift: int = 0) -> tuple[Cells, int]:
    """Return at most `MOST` cells in order, and how many bits their keys lost."""
    if not len(cells.low):
        return cells, shift
    places = keys(cells.low)
    order = np.argsort(places, kind="stable")
    while True:
        shifted = places[order] >> shift
        first = np.flatnonzero(np.diff(shifted, prepend=~shifted[:1]))
        if len(first) <= MOST or shift == _MAX_SHIFT:
            break
        shift += 1
    low = cells.low[order][first]
    high = low if not shift else np.maximum.reduceat(cells.high[order], first)
    return Cells(low, high, np.add.reduceat(cells.weight[order], first)), shift


# ---- sketches


class Sample:
    """A sample of different values, to estimate their number."""

    def __init__(self) -> None:
        self.bits = _LEAST_BITS
        self.hashes = np.empty(0, np.uint64)

    @property
    def count(self) -> int:
        """About how many different values there were."""
        return len(self.hashes) << self.bits

    def add(self, values: Floats) -> Sample:
        """Add values, by hashes of their keys (the finaliser of SplitMix64)."""
        x = keys(values).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        return self._take(x ^ (x >> np.uint64(31)))

    def merge(self, other: Sample) -> None:
        """Add the values of another sample."""
        self.bits = max(self.bits, other.bits)
        self._take(other.hashes)

    def _take(self, hashes: NDArray[np.uint64]) -> Sample:
        fresh = self._kept(hashes)
        if len(fresh):
            self.hashes = self._kept(np.union1d(self.hashes, fresh))
        while len(self.hashes) > _SAMPLE:
            self.bits += 1
            self.hashes = self._kept(self.hashes)
        return self

    def _kept(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        few: NDArray[np.uint64] = hashes[hashes >> np.uint64(64 - self.bits) == 0]
        return few


class Sketch:
    """The different values of a numeric column with their counts."""

    def __init__(self) -> None:
        self._shift = 0
        self._cells = Cells.of(np.empty(0))
        self._waiting: list[Cells] = []
        self._pending = 0
        self._sample: Sample | None = None  # while not exact

    def add(self, values: Floats, weights: Floats | None = None) -> None:
        """Add values; NaN is left out, infinity counts as the largest float."""
        self.add_cells(Cells.of(values, weights))

    def add_cells(self, cells: Cells) -> None:
        """Add cells, each of a single value."""
        if self._sample is not None:
            self._sample.add(cells.low)
        self._wait(cells)

    def merge(self, other: Sketch) -> None:
        """Add the values of another sketch."""
        theirs = other.cells
        mine = self.cells
        if not (self.exact and other.exact):
            self._sample = self._sample or Sample().add(mine.low)
            self._sample.merge(other._sample or Sample().add(theirs.low))
        self._shift = max(self._shift, other._shift)
        self._wait(theirs)

    def _wait(self, cells: Cells) -> None:
        if len(cells.low):
            self._waiting.append(cells)
            self._pending += len(cells.low)
        if self._pending > max(_PENDING, len(self._cells.low) // 2):
            _ = self.cells

    @property
    def cells(self) -> Cells:
        """The cells, in ascending order."""
        if self._waiting:
            pieces = [self._cells, *self._waiting]
            together = Cells(*map(np.concatenate, zip(*pieces, strict=True)))
            self._cells, self._shift = joined(together, self._shift)
            if self._shift and self._sample is None:
                self._sample = Sample().add(together.low)
            self._waiting = []
            self._pending = 0
        return self._cells

    @property
    def exact(self) -> bool:
        """Whether every different value has a separate cell."""
        _ = self.cells
        return self._shift == 0

    @property
    def distinct(self) -> int:
        """The number of different values; about, if the sketch is not exact."""
        count = len(self.cells.low)
        return count if self._sample is None else max(count, self._sample.count)

    def to_parts(self) -> tuple[dict[str, int], dict[str, NDArray[Any]]]:
        """Return the numbers and the arrays that `from_parts` takes."""
        arrays: dict[str, NDArray[Any]] = self.cells._asdict()
        sample = self._sample or Sample()
        numbers = {"shift": self._shift, "bits": sample.bits}
        return numbers, {**arrays, "hashes": sample.hashes}

    @classmethod
    def from_parts(
        cls, numbers: Mapping[str, int], arrays: Mapping[str, NDArray[Any]]
    ) -> Sketch:
        """Return the sketch of its parts; shapes are checked."""
        sketch = cls()
        sketch._shift = numbers["shift"]
        sketch._cells = Cells(*(arrays[name] for name in Cells._fields))
        low, high, weight = sketch._cells
        if not low.shape == high.shape == weight.shape == (low.size,):
            raise ValueError("the sketch is not valid")
        if sketch._shift:
            sketch._sample = Sample()
            sketch._sample.bits = numbers["bits"]
            sketch._sample.hashes = arrays["hashes"]
        return sketch


# ---- bins


def default_bins(rows: float) -> int:
    """Return how many bins a column has by default, given its rows or their weight."""
    return MANY_BINS if rows * (1 + 1e-9) >= MANY_ROWS else FEW_BINS


def bin_codes(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Code of each value; a missing value (NaN) gets ``len(edges) + 1``."""
    codes = np.searchsorted(edges, values, side="right")
    codes[np.isnan(values)] = len(edges) + 1
    return codes


def bin_cells(cells: Cells, bins: int, integer: bool) -> tuple[Floats, tuple[str, ...]]:
    """Edges of the bins of a column, and a readable name of each bin."""
    if len(cells.low) > MOST:
        cells, _ = joined(cells)
    points = cells.low
    weight = cells.weight
    frequent = weight * bins >= weight.sum()
    if len(points) <= bins or frequent.all():
        edges = points[1:]
        own = cells.high[:0]
    else:
        # The smallest point above each quantile, since bins are closed on the left.
        others = points[~frequent]
        reached = np.cumsum(weight[~frequent]) * bins
        wanted = np.arange(1, bins) * reached[-1] / bins
        above = np.searchsorted(reached, wanted) + 1
        cuts = others[above[above < len(others)]]
        own = cells.high[frequent]
        edges = _edges_around(points[frequent], own, cuts, points, integer)
    return edges, bin_names(edges, integer, own.tolist())


def checked_edges(name: str, edges: Sequence[object]) -> tuple[float, ...]:
    """Return the edges that a user gives; raise ParameterError unless they rise."""
    try:
        values = tuple(float(edge) for edge in edges)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        values = (math.nan,)
    if not values or not all(map(math.isfinite, values)):
        raise ParameterError(
            "bins",
            f"gives column {name!r} the edges {[*edges]!r:.60}: each must be a finite "
            "number, and there must be at least one.",
        )
    if any(a >= b for a, b in pairwise(values)):
        raise ParameterError(
            "bins",
            f"gives column {name!r} the edges {[*edges]!r:.60}, which do not rise: "
            "sort them, each once.",
        )
    return tuple(value + 0.0 for value in values)


def single_values(edges: Sequence[float]) -> list[float]:
    """Return the values that have a bin alone: the next float closes it."""
    return [a for a, b in pairwise(edges) if b == math.nextafter(a, LARGEST)]


def bin_names(edges: Floats, integer: bool, own: Sequence[float]) -> tuple[str, ...]:
    """Readable names of bins; of floats, `own` are values with a separate bin."""
    if not len(edges):
        return ("any number",)
    ends = [-math.inf, *edges.tolist(), math.inf]
    pairs = zip(ends[:-1], ends[1:], strict=True)
    if integer:
        return tuple(_integer_text(low, high) for low, high in pairs)
    steps = {_step(value, False): value for value in own}
    return tuple(_float_text(low, high, steps) for low, high in pairs)


def starts_of_names(names: Sequence[str]) -> dict[str, float] | None:
    """Return where each named bin begins, in order; None unless all names are bins'.

    Names have all digits of their numbers: they are those of `bin_names` or of none.
    """
    starts: dict[str, float] = {}
    own: list[float] = []
    for name in names:
        start = _START.fullmatch(name)
        if _LOWEST.fullmatch(name):
            starts[name] = -math.inf
            continue
        if start is None:
            return None
        try:
            value = min(max(float(start[2]), -LARGEST), LARGEST)
        except ValueError:  # such as 1.2.3
            return None
        starts[name] = value
        if start[1] == "above ":
            own.append(value)
            starts[name] = _step(value, False)
    ordered = sorted(starts, key=starts.__getitem__)
    edges = np.array([starts[name] for name in ordered[1:]])
    for integer in (True, False):
        if bin_names(edges, integer, own) == tuple(ordered):
            return {name: starts[name] for name in ordered}
    return None


def _step(value: float, integer: bool) -> float:
    """Return the edge that closes the bin of a single value."""
    following = math.nextafter(value, LARGEST)
    return max(value + 1, following) if integer else following


def _edges_around(
    low: Floats, high: Floats, cuts: Floats, points: Floats, integer: bool
) -> Floats:
    """Put each cell from `low` to `high` between two edges; leave no bin empty."""
    lower = set(low.tolist())
    upper = {_step(value, integer) for value in high.tolist()}
    candidates = sorted({*cuts.tolist(), *lower, *upper})
    rows_of_bins = np.bincount(
        np.searchsorted(candidates, points, side="right"), minlength=len(candidates) + 1
    )
    edges: list[float] = []
    for edge, count in zip(candidates, rows_of_bins[:-1], strict=True):
        if count:
            edges.append(edge)
        elif edge in lower and edges:
            edges[-1] = edge  # nothing between two frequent values: one edge serves
    if not rows_of_bins[-1]:
        edges.pop()
    return np.array(edges)


def _integer_text(low: float, high: float) -> str:
    # Beyond 2**53 the float before an edge is more than 1 below it.
    last = _number(min(high - 1, math.nextafter(high, -LARGEST)), _MOST_WHOLE)
    if low == -math.inf:
        return f"up to {last}"
    first = _number(low, _MOST_WHOLE)
    if high == math.inf:
        return f"{first} and more"
    return first if high == _step(low, True) else f"{first} to {last}"


def _float_text(low: float, high: float, steps: dict[float, float]) -> str:
    """Name [low, high); an edge in `steps` is the next float after a frequent value."""
    if steps.get(high) == low:
        return _number(low)
    words = []
    if low > -math.inf:
        words += ["above" if low in steps else "from", _number(steps.get(low, low))]
    if high < math.inf:
        words += ["up to" if high in steps else "below", _number(steps.get(high, high))]
    return " ".join(words)


def _number(value: float, most: float = 1e15) -> str:
    """Return the text of a number; whole ones have all their digits up to `most`."""
    if abs(value) >= LARGEST:
        return "infinity" if value > 0 else "-infinity"
    return str(int(value)) if value.is_integer() and abs(value) <= most else repr(value)
