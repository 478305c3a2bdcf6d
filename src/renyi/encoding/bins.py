"""Numbers to categories: quantile bins, and bins of their own for frequent values.

The bins of a column are the intervals ``[edges[k-1], edges[k])``: the code of a value
x is the number of edges that are at most x. A value that at least one row in `bins`
shares (capital-gain = 0) gets an interval that holds it alone; the other rows are cut
at their quantiles, weighted if the rows are. Weights count as repetition does. Edges
are finite, so that every file format can hold them: infinity shares the bin that
begins at the largest float.

Of more than 2**16 different values, neighbours share a cell (`renyi.encoding.sketch`),
and what is said of values here holds for cells: rows in memory and rows that streamed
by get the same bins.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.sketch import LARGEST, MOST, Cells, joined

Floats = NDArray[np.float64]


def bin_codes(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Code of each value; a missing value (NaN) gets ``len(edges) + 1``."""
    codes = np.searchsorted(edges, values, side="right")
    codes[np.isnan(values)] = len(edges) + 1
    return codes


def bin_column(
    values: Floats, weights: Floats | None, bins: int, integer: bool
) -> tuple[Floats, tuple[str, ...]]:
    """Edges of the bins of a column, and a readable name of each bin."""
    known = ~np.isnan(values)
    finite = np.clip(values[known], -LARGEST, LARGEST)
    points, inverse = np.unique(finite, return_inverse=True)
    weight = np.bincount(
        inverse, None if weights is None else weights[known], minlength=len(points)
    )
    return bin_cells(Cells(points, points, weight), bins, integer)


def bin_cells(cells: Cells, bins: int, integer: bool) -> tuple[Floats, tuple[str, ...]]:
    """Edges and names of the bins of a column, from its cells in ascending order."""
    if len(cells.low) > MOST:
        cells, _ = joined(cells, most=MOST)
    points, weight = cells.low, cells.weight
    frequent = weight * bins >= weight.sum()
    if len(points) <= bins or frequent.all():
        edges, own = points[1:], cells.high[:0]
    else:
        cuts = _quantile_cuts(points[~frequent], weight[~frequent], bins)
        own = cells.high[frequent]
        edges = _edges_around(points[frequent], own, cuts, points, integer)
    return edges, _texts(edges, own, integer)


def _quantile_cuts(points: Floats, weight: NDArray[np.floating], bins: int) -> Floats:
    """Smallest point above each quantile, since bins are closed on the left."""
    reached = np.cumsum(weight) * bins
    wanted = np.arange(1, bins) * reached[-1] / bins
    above = np.searchsorted(reached, wanted) + 1
    return np.unique(points[above[above < len(points)]])


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
    held = np.bincount(
        np.searchsorted(candidates, points, side="right"), minlength=len(candidates) + 1
    )
    edges: list[float] = []
    for edge, count in zip(candidates, held[:-1], strict=True):
        if count:
            edges.append(edge)
        elif edge in lower and edges:
            edges[-1] = edge  # nothing between two frequent values: one edge serves
    if not held[-1]:
        edges.pop()
    return np.array(edges)


def _texts(edges: Floats, own: Floats, integer: bool) -> tuple[str, ...]:
    if len(edges) == 0:
        return ("any number",)
    ends = [None, *edges.tolist(), None]
    steps = {} if integer else {_step(v, False): v for v in own.tolist()}
    describe = _integer_text if integer else _float_text
    return tuple(
        describe(low, high, steps)
        for low, high in zip(ends[:-1], ends[1:], strict=True)
    )


def _integer_text(low: float | None, high: float | None, _: dict[float, float]) -> str:
    if low is None:
        return f"up to {_number(high - 1)}" if high is not None else "any number"
    if high is None:
        return f"{_number(low)} and more"
    return _number(low) if high == low + 1 else f"{_number(low)} to {_number(high - 1)}"


def _float_text(
    low: float | None, high: float | None, steps: dict[float, float]
) -> str:
    """Name [low, high); an edge in `steps` is the next float after a frequent value."""
    if low is not None and high is not None and steps.get(high) == low:
        return _number(low)
    words = []
    if low is not None:
        word = (
            f"above {_number(steps[low])}" if low in steps else f"from {_number(low)}"
        )
        words.append(word)
    if high is not None:
        closed = high in steps
        value = steps[high] if closed else high
        words.append(f"{'up to' if closed else 'below'} {_number(value)}")
    return " ".join(words)


def _number(value: float) -> str:
    if abs(value) >= LARGEST:
        return "infinity" if value > 0 else "-infinity"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
