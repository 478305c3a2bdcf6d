r"""Minimise a sum of functions of pairs of columns, less a loss, over all outcomes.

.. math:: E(x) = \sum_i u_i(x_i) + \sum_{i<j} c_{ij}(x_i, x_j) - \ell(s(x)),

where the scores s are additive; without a loss the last term is absent. The exact
minimum is found by meeting in the middle. With the columns in two halves,

.. math:: E(x_A, x_B) = E_A(x_A) + E_B(x_B) + W_A C_{AB} W_B^T - \ell(s_A + s_B)

is one matrix product over the outcomes of each half, so that 10⁸ outcomes take a
fraction of a second. If some categories never occur together, each half has fewer
outcomes. With more outcomes, coordinate descent from many starts finds low energies,
and a mixed-integer program over one-hot columns proves a lower bound. There the range
of a score g is cut into slices, with a line above the loss on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import dense, offsets
from renyi.limits import Deadline
from renyi.robust.ambiguity_set import Flags, Floats, Layout, Outcomes, listed
from renyi.robust.pairwise_program import consistency_rows
from renyi.robust.piecewise_loss import ScoreLoss, SlicedScore
from renyi.solvers.programs import Program, solve

MAX_OUTCOMES = 2e9  # pairs of outcomes that meeting in the middle may evaluate
_MAX_HALF = 300_000  # outcomes of one half that may be listed
_MAX_CELLS = 1e8  # cells of their indicators
_BLOCK = 200_000  # energies computed at once, so that they stay in cache
FORBIDDEN = 1e6  # energy of a forbidden pair, far above all others
_MOST_SWEEPS = 50  # sweeps of a descent


class Low(NamedTuple):
    """Outcomes of low energy, lowest first, and a proven lower bound for all."""

    outcomes: Outcomes
    values: Floats
    bound: float


@dataclass(frozen=True, eq=False)
class Grid:
    """The outcomes of columns with the given sizes, halved for exact search.

    `possible` (D, D) says which categories may occur together. The fewer do, the more
    columns can be searched.
    """

    sizes: NDArray[np.intp]
    possible: Flags | None = None

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Place of each column's first category."""
        return offsets(self.sizes)

    @property
    def n_sweep(self) -> float:
        """Number of energies that an exact search computes; inf if halves are large."""
        sizes = [float(len(side.W)) for side in self.sides]
        return sizes[0] * sizes[1] if len(sizes) == 2 else np.inf

    @property
    def exact(self) -> bool:
        """Whether an exact search is possible."""
        return self.n_sweep <= MAX_OUTCOMES

    @cached_property
    def halves(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Two sets of columns with similar numbers of outcomes."""
        logs = np.log(self.sizes)
        total = [0.0, 0.0]
        chosen: tuple[list[int], list[int]] = ([], [])
        for i in np.argsort(-logs, kind="stable").tolist():
            side = int(total[1] < total[0])
            total[side] += float(logs[i])
            chosen[side].append(i)
        return np.sort(np.array(chosen[0], int)), np.sort(np.array(chosen[1], int))

    @cached_property
    def sides(self) -> list[_Side]:
        """The possible outcomes of each half, if they are few enough to list."""
        owner = np.repeat(np.arange(len(self.sizes)), self.sizes)
        halves = []
        for columns in self.halves:
            sizes = self.sizes[columns]
            most = min(_MAX_HALF, _MAX_CELLS / max(1, sizes.sum()))
            outcomes = listed(sizes, partial(self._allowed, columns), most)
            if outcomes is not None:
                W = dense(outcomes.T, sizes)
                own = np.isin(owner, columns)
                halves.append(_Side(columns, outcomes, W, np.flatnonzero(own)))
        return halves

    def _allowed(self, columns: NDArray[np.intp], X: Outcomes) -> Flags:
        """Return whether the last categories may occur with all before them."""
        if self.possible is None:
            return np.ones(len(X), bool)
        places = X + self.starts[columns[: X.shape[1]]]
        return np.asarray(self.possible[places, places[:, -1:]].all(axis=1))

    def places(self, X: Outcomes) -> Outcomes:
        """Return the places of the categories of outcomes: (outcomes, columns)."""
        return X + self.starts[:-1]


class _Side(NamedTuple):
    """The possible outcomes of half of the columns, and their indicators."""

    columns: NDArray[np.intp]
    outcomes: Outcomes
    W: Floats
    places: Outcomes


class Energy(NamedTuple):
    """Functions of columns and of pairs; the latter symmetric, with zero diagonal."""

    grid: Grid
    unary: Floats
    pair: Floats
    loss: ScoreLoss | None = None

    def at(self, X: Outcomes) -> Floats:
        """Return the energies of outcomes."""
        places = self.grid.places(X)
        inner = self.pair[places[:, :, None], places[:, None, :]].sum(axis=(1, 2))
        values = self.unary[places].sum(axis=1) + 0.5 * inner
        if self.loss is not None:
            scores = self.loss.base + self.loss.points[places].sum(axis=1)
            values -= self.loss.value(scores)
        return np.asarray(values)


def minimise(energy: Energy, keep: int, deadline: Deadline) -> Low:
    """Find the lowest energies, one for each outcome of a half, until the deadline."""
    grid = energy.grid
    pair = energy.pair
    loss = energy.loss
    sides = grid.sides
    own = [
        side.W @ energy.unary[side.places]
        + 0.5 * ((side.W @ pair[np.ix_(side.places, side.places)]) * side.W).sum(axis=1)
        for side in sides
    ]
    good = [values < FORBIDDEN / 2 for values in own]
    own_a, own_b = (values[rows] for values, rows in zip(own, good, strict=True))
    if not (len(own_a) and len(own_b)):
        return _nothing(grid, FORBIDDEN)
    W, V = (side.W[rows] for side, rows in zip(sides, good, strict=True))
    cross = pair[np.ix_(sides[0].places, sides[1].places)] @ V.T
    if loss is not None:
        scores_a = (W @ loss.points[sides[0].places])[:, None]
        scores_b = loss.base + V @ loss.points[sides[1].places]
    best = np.empty(len(W))
    where = np.empty(len(W), np.int64)
    step = max(1, _BLOCK // len(own_b))
    for s in range(0, len(W), step):
        if deadline.passed:
            return _nothing(grid, -np.inf)
        block = W[s : s + step] @ cross
        block += own_b
        if loss is not None:
            block -= loss.value(scores_a[s : s + step] + scores_b)
        where[s : s + step] = block.argmin(axis=1)
        best[s : s + step] = block[np.arange(len(block)), where[s : s + step]]
    best += own_a
    order = np.argsort(best, kind="stable")[:keep]
    X = np.empty((len(order), len(grid.sizes)), np.int64)
    X[:, sides[0].columns] = sides[0].outcomes[good[0]][order]
    X[:, sides[1].columns] = sides[1].outcomes[good[1]][where[order]]
    return Low(X, best[order], float(best[order[0]]))


def _nothing(grid: Grid, bound: float) -> Low:
    return Low(np.empty((0, len(grid.sizes)), np.int64), np.empty(0), bound)


def descend(energy: Energy, starts: Outcomes, keep: int) -> Low:
    """Search by coordinate descent from many starts; prove no bound."""
    grid = energy.grid
    pair = energy.pair
    loss = energy.loss
    X = np.unique(starts, axis=0)
    rows = np.arange(len(X))
    places = grid.places(X)
    field = pair[places].sum(axis=1) + energy.unary
    if loss is not None:
        scores = loss.base + loss.points[places].sum(axis=1)
    for _ in range(_MOST_SWEEPS):
        moved = False
        for i in range(len(grid.sizes)):
            first = int(grid.starts[i])
            last = int(grid.starts[i + 1])
            here = field[:, first:last]
            if loss is not None:
                others = scores - loss.points[first + X[:, i]]
                tried = others[:, None] + loss.points[first:last]
                here = here - loss.value(tried.copy())
            new = here.argmin(axis=1)
            better = here[rows, new] < here[rows, X[:, i]] - 1e-12
            if better.any():
                moved = True
                old = X[better, i]
                field[better] += pair[first + new[better]] - pair[first + old]
                X[better, i] = new[better]
                if loss is not None:
                    scores[better] = tried[better, new[better]]
        if not moved:
            break
    X = np.unique(X, axis=0)
    values = energy.at(X)
    order = np.argsort(values, kind="stable")[:keep]
    return Low(X[order], values[order], -np.inf)


# ---- proofs by mixed-integer programs


def prove(
    energy: Energy, scores: Sequence[SlicedScore] = (), time_limit: float | None = None
) -> Low:
    """Minimise by mixed-integer programs, one for each score, with proven bounds."""
    grid = energy.grid
    lowest = np.inf
    outcomes = []
    for score in scores or (None,):
        program, single = _integer_program(energy, score)
        answer = solve(program, time_limit=time_limit, presolve=True)
        bound = answer.bound
        if answer.status == "infeasible":  # all outcomes are forbidden
            bound = FORBIDDEN if score is None else -np.inf
        elif len(answer.x) == len(program.cost) and np.isfinite(answer.value):
            parts = np.split(answer.x[single], grid.starts[1:-1])
            outcomes.append([part.argmax() for part in parts])
        lowest = min(lowest, bound)
    X = np.array(outcomes, np.int64).reshape(-1, len(grid.sizes))
    return Low(X, energy.at(X), lowest)


def _integer_program(
    energy: Energy, sliced: SlicedScore | None
) -> tuple[Program, NDArray[np.int64]]:
    """Write the energy as a mixed-integer program; return it and the one-hot places.

    Variables: cells of pairs and of columns, then for each slice whether the score is
    in it, and the score if it is.
    """
    starts = energy.grid.starts
    used = np.add.reduceat(energy.pair != 0, starts[:-1], axis=0)
    some = np.triu(np.add.reduceat(used, starts[:-1], axis=1) > 0, 1)
    pairs = [(int(i), int(j)) for i, j in np.argwhere(some)]
    layout = Layout(pairs, energy.grid.sizes)  # of the pairs that have an energy
    d = len(layout.sizes)
    W = layout.width
    single = np.arange(layout.n_pair_cells, W)
    cost = np.zeros(W)
    cost[single] = energy.unary
    for i, j in layout.pairs:
        block = energy.pair[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]
        cost[layout.cells(i, j)] = block
    closed = cost >= FORBIDDEN / 2
    cost[closed] = 0.0  # large numbers would cost precision
    owner = np.repeat(np.arange(d), layout.sizes)
    one = sparse.csr_array((np.ones(len(owner)), (owner, single)), shape=(d, W))
    consistency = consistency_rows(layout, 1)
    A: sparse.csr_array = sparse.vstack([consistency, one])
    equal = np.append(np.zeros(consistency.shape[0]), np.ones(d))
    lower = np.zeros(W)
    upper = np.where(closed, 0.0, 1.0)
    integer = np.arange(W) >= single[0]
    if sliced is None:
        return Program(cost, A, equal, equal, lower, upper, integer), single
    score, slices = sliced
    low, high, height, slope = (np.array(part) for part in zip(*slices, strict=True))
    J = len(slices)
    reach = np.maximum(np.abs(low), np.abs(high))
    eye = sparse.eye_array(J)
    ones = np.ones((1, J))
    g = np.zeros((1, W))
    g[0, single] = -score[:-1]
    rows = [
        [A, None, None],
        [None, ones, None],
        [g, None, ones],
        [None, -low * eye, eye],
        [None, high * eye, -eye],
    ]
    right = np.concatenate([equal, [1.0, score[-1]]])
    program = Program(
        np.concatenate([cost, -height, -slope]),
        sparse.block_array(rows),
        np.append(right, np.zeros(2 * J)),
        np.append(right, np.full(2 * J, np.inf)),
        np.concatenate([lower, np.zeros(J), -reach]),
        np.concatenate([upper, np.ones(J), reach]),
        np.concatenate([integer, np.ones(J, bool), np.zeros(J, bool)]),
    )
    return program, single
