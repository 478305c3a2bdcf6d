r"""Slices of a margin: the worst outcome of a class as a mixed-integer program.

Where outcomes are too many to look at, the least of λ_y(x) − ℓ_y(x) is bounded by a
program over one-hot columns. The range of the margin g = t_y − t_other is cut into
slices, and on each the loss is replaced by a line above it. For map two slices are
exact; for the other rules a slice is split wherever it is what keeps the bounds apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.robust import pairwise_program
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.losses import KINK, Losses
from renyi.robust.pairwise_min import FORBIDDEN, Grid
from renyi.solvers import programs
from renyi.solvers.programs import Program

Floats = NDArray[np.float64]
Outcomes = NDArray[np.int64]


def first_edges(rule: str) -> Floats:
    """Return the ends of the slices to begin with; map has only one."""
    if rule == "map":
        return np.zeros(1)
    return np.unique([*np.linspace(-1, 1, 9), -KINK, KINK])


class Slice(NamedTuple):
    """On low ≤ g ≤ high the loss is at most height + slope·g."""

    low: float
    high: float
    height: float
    slope: float


def slices_of(
    losses: Losses, edges: Floats, g: Floats, constant: float, grid: Grid
) -> list[Slice]:
    """Slices of the margin's range with a line above the loss on each."""
    starts = grid.starts[:-1]
    low = float(np.minimum.reduceat(g, starts).sum() + constant) - 1e-6
    high = float(np.maximum.reduceat(g, starts).sum() + constant) + 1e-6
    if losses.rule == "map":
        tie = losses.tie
        return [
            Slice(min(low, tie), tie, 1.0, 0.0),
            Slice(tie, max(high, tie), 0.0, 0.0),
        ]
    if not losses.binary:
        return [Slice(low, high, 1.0, 0.0)]
    inner = edges[(edges > low) & (edges < high)]
    ends = np.concatenate([[low], inner, [high]])
    return [_above(losses, a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _above(losses: Losses, low: float, high: float) -> Slice:
    """Line above the loss: the chord, raised to what a fine grid calls for.

    The second derivative is at most 2 where the loss has one, and the slices end where
    it has none, so that between two neighbours of the grid, δ apart, the loss exceeds
    its values at both by at most 2δ²/8. Beyond ±1 the loss is a constant.
    """
    if low >= 1 or high <= -1:
        return Slice(low, high, float(losses.of_margin(np.array([low]))[0]), 0.0)
    fine = np.linspace(low, high, 2001)
    loss = losses.of_margin(fine.copy())
    slope = float(loss[-1] - loss[0]) / (high - low)
    height = float((loss - slope * fine).max()) + (fine[1] - fine[0]) ** 2 / 4
    return Slice(low, high, height, slope)


def sliced_program(
    ambiguity: Ambiguity,
    unary: Floats,
    pair: Floats,
    g: Floats,
    constant: float,
    slices: list[Slice],
) -> Program:
    """Write an energy less a function of the margin as a mixed-integer program.

    Variables: cells of pairs and of columns, then for each slice whether the margin is
    in it, and the margin if it is.
    """
    layout = pairwise_program.layout_of(ambiguity)
    d, W, J = len(layout.sizes), layout.width, len(slices)
    first = layout.single_starts
    single = np.concatenate([layout.single(i) for i in range(d)])
    cost = np.zeros(W + 2 * J)
    cost[single] = unary
    for q, (i, j) in enumerate(layout.pairs):
        block = pair[first[i] : first[i + 1], first[j] : first[j + 1]]
        cost[layout.pair(q)] = block
    closed = cost > FORBIDDEN / 2
    cost[closed] = 0.0
    low, high, height, slope = (np.array(part) for part in zip(*slices, strict=True))
    cost[W : W + J], cost[W + J :] = -height, -slope
    sums = sparse.lil_array((d + 2 + 2 * J, W + 2 * J))
    for i in range(d):
        sums[[i], layout.single(i)] = 1.0
    sums[[d], W : W + J] = 1.0
    sums[[d + 1], W + J :], sums[[d + 1], single] = 1.0, -g
    eye = sparse.eye_array(J)
    sums[d + 2 : d + 2 + J, W:] = sparse.hstack([-low * eye, eye])
    sums[d + 2 + J :, W:] = sparse.hstack([high * eye, -eye])
    consistency = pairwise_program.consistency_rows(layout, 1)
    consistency.resize((consistency.shape[0], W + 2 * J))
    equal = np.concatenate([np.zeros(consistency.shape[0]), np.ones(d + 1), [constant]])
    integer = np.zeros(W + 2 * J, bool)
    integer[single] = integer[W : W + J] = True
    reach = np.maximum(np.abs(low), np.abs(high))
    return Program(
        cost,
        sparse.csc_array(sparse.vstack([consistency, sums])),
        np.concatenate([equal, np.zeros(2 * J)]),
        np.concatenate([equal, np.full(2 * J, np.inf)]),
        np.concatenate([np.zeros(W + J), -reach]),
        np.concatenate([np.where(closed, 0.0, 1.0)[: W + J], reach]),
        integer,
    )


def chosen(
    program: Program, grid: Grid, time_limit: float | None
) -> tuple[Outcomes, float]:
    """Best outcome of a program, if any was found, and a proven bound on all."""
    answer = programs.solve(program, time_limit=time_limit, presolve=True)
    X = np.empty((0, len(grid.sizes)), np.int64)
    if answer.status == "infeasible" or not np.isfinite(answer.value):
        return X, answer.bound if answer.status == "stopped" else -np.inf
    assert program.integer is not None
    single = np.flatnonzero(program.integer)[: int(grid.starts[-1])]
    parts = np.split(answer.x[single], grid.starts[1:-1])
    return np.array([[part.argmax() for part in parts]], np.int64), answer.bound
