r"""Energies: minimise a sum of functions of pairs of columns over all outcomes.

``E(x) = Σ_i u_i(x_i) + Σ_{i<j} c_ij(x_i, x_j)``. The exact minimum is found by meeting
in the middle: with the columns in two halves,

.. math:: E(x_A, x_B) = E_A(x_A) + E_B(x_B) + W_A C_{AB} W_B^T

is one matrix product over the outcomes of each half, so that 10⁸ outcomes take a
fraction of a second; where some categories never meet, each half has fewer. Beyond
that, coordinate descent from many starts finds low energies, and a mixed-integer
program proves how low they can get.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import offsets
from renyi.solvers.programs import Program, solve

Floats = NDArray[np.float64]

# Pairs of outcomes of the two halves that meeting in the middle may look at.
MAX_OUTCOMES = 2e9
# Outcomes of one half that may be listed.
_MAX_HALF = 300_000
# Energies looked at together: they stay in cache.
_BLOCK = 200_000
# Energy of what is forbidden; far above any that matters.
FORBIDDEN = 1e6


class Low(NamedTuple):
    """Outcomes of low energy, lowest first, and a proven lower bound on all."""

    outcomes: NDArray[np.int64]
    values: Floats
    bound: float


@dataclass(frozen=True, eq=False)
class Grid:
    """The outcomes of columns with the given sizes, halved for exact search.

    `possible` tells which categories may occur together: (categories, categories).
    Where few may, many more columns can be searched.
    """

    sizes: NDArray[np.intp]
    possible: NDArray[np.bool_] | None = None

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Place of each column's first category."""
        return offsets(self.sizes)

    @property
    def n_outcomes(self) -> float:
        """Number of outcomes, possible or not."""
        return float(np.prod(self.sizes.astype(float)))

    @property
    def n_sweep(self) -> float:
        """Number of energies an exact search looks at; inf if the halves are large."""
        first, second = self._sides
        if first is None or second is None:
            return np.inf
        return float(len(first.W)) * len(second.W)

    @property
    def exact(self) -> bool:
        """Whether all outcomes can be looked at."""
        return self.n_sweep <= MAX_OUTCOMES

    @cached_property
    def halves(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Two sets of columns with about as many outcomes each."""
        logs = np.log(self.sizes)
        order = np.argsort(-logs, kind="stable")
        total = [0.0, 0.0]
        chosen: tuple[list[int], list[int]] = ([], [])
        for i in order.tolist():
            side = int(total[1] < total[0])
            total[side] += float(logs[i])
            chosen[side].append(i)
        return np.sort(np.array(chosen[0], int)), np.sort(np.array(chosen[1], int))

    @cached_property
    def _sides(self) -> tuple[_Side | None, _Side | None]:
        first, second = self.halves
        return _Side.of(first, self), _Side.of(second, self)

    @property
    def sides(self) -> tuple[_Side, _Side]:
        """The possible outcomes of both halves, if they are few enough to list."""
        first, second = self._sides
        assert first is not None
        assert second is not None
        return first, second

    def places(self, X: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of the categories of outcomes: (outcomes, columns)."""
        return X + self.starts[:-1]


class _Side(NamedTuple):
    columns: NDArray[np.intp]
    outcomes: NDArray[np.int64]
    W: Floats
    places: NDArray[np.int64]

    @classmethod
    def of(cls, columns: NDArray[np.intp], grid: Grid) -> _Side | None:
        outcomes = _possible(columns, grid)
        if outcomes is None:
            return None
        starts = offsets(grid.sizes[columns])
        W = np.zeros((len(outcomes), int(starts[-1])))
        rows = np.arange(len(outcomes))[:, None]
        W[rows, outcomes + starts[:-1]] = 1
        spans = [np.arange(grid.starts[i], grid.starts[i + 1]) for i in columns]
        places = np.concatenate(spans) if spans else np.empty(0, np.int64)
        return cls(columns, outcomes, W, places)

    def energy(self, unary: Floats, pair: Floats) -> Floats:
        inner = pair[np.ix_(self.places, self.places)]
        return np.asarray(
            self.W @ unary[self.places] + 0.5 * ((self.W @ inner) * self.W).sum(axis=1)
        )


def _possible(columns: NDArray[np.intp], grid: Grid) -> NDArray[np.int64] | None:
    """Outcomes of some columns, forbidden beginnings never being extended."""
    known = np.zeros((1, 0), np.int64)
    for k, i in enumerate(columns.tolist()):
        size = int(grid.sizes[i])
        last = np.tile(np.arange(size), len(known))
        known = np.column_stack([np.repeat(known, size, axis=0), last])
        if grid.possible is not None:
            place = grid.starts[i] + last
            good = np.ones(len(known), bool)
            for j in range(k + 1):
                good &= grid.possible[grid.starts[columns[j]] + known[:, j], place]
            known = known[good]
        if len(known) > _MAX_HALF:
            return None
    return known


def energy(grid: Grid, unary: Floats, pair: Floats, X: NDArray[np.int64]) -> Floats:
    """Energies of outcomes; `pair` is symmetric with zero diagonal blocks."""
    places = grid.places(X)
    inner = pair[places[:, :, None], places[:, None, :]].sum(axis=(1, 2))
    return np.asarray(unary[places].sum(axis=1) + 0.5 * inner)


def minimise(
    grid: Grid,
    unary: Floats,
    pair: Floats,
    keep: int = 100,
    deadline: float = np.inf,
) -> Low:
    """Lowest energies over all outcomes, at most one for each outcome of a half.

    Nothing is proven if it is still at work when the clock (`time.monotonic`) has
    reached the deadline.
    """
    a, b = grid.sides
    own_a, own_b = a.energy(unary, pair), b.energy(unary, pair)
    rows, columns = own_a < FORBIDDEN / 2, own_b < FORBIDDEN / 2
    W, own_a, own_b = a.W[rows], own_a[rows], own_b[columns]
    if not (len(own_a) and len(own_b)):
        return _nothing(grid, FORBIDDEN)
    cross = pair[np.ix_(a.places, b.places)] @ b.W[columns].T
    best, where = np.empty(len(W)), np.empty(len(W), np.int64)
    step = max(1, _BLOCK // len(own_b))
    for s in range(0, len(W), step):
        if time.monotonic() > deadline:
            return _nothing(grid, -np.inf)
        block = W[s : s + step] @ cross
        block += own_b
        where[s : s + step] = block.argmin(axis=1)
        best[s : s + step] = block[np.arange(len(block)), where[s : s + step]]
    best += own_a
    order = np.argsort(best, kind="stable")[:keep]
    X = np.empty((len(order), len(grid.sizes)), np.int64)
    X[:, a.columns] = a.outcomes[rows][order]
    X[:, b.columns] = b.outcomes[columns][where[order]]
    return Low(X, best[order], float(best[order[0]]))


def _nothing(grid: Grid, bound: float) -> Low:
    return Low(np.empty((0, len(grid.sizes)), np.int64), np.empty(0), bound)


def descend(
    grid: Grid,
    unary: Floats,
    pair: Floats,
    starts: NDArray[np.int64],
    keep: int = 100,
) -> Low:
    """Coordinate descent from many starts; proves nothing."""
    X = starts.copy()
    rows = np.arange(len(X))
    field = pair[grid.places(X)].sum(axis=1) + unary
    for _ in range(50):
        moved = False
        for i in range(len(grid.sizes)):
            first, last = grid.starts[i], grid.starts[i + 1]
            here = field[:, first:last]
            new = here.argmin(axis=1)
            better = here[rows, new] < here[rows, X[:, i]] - 1e-12
            if better.any():
                moved = True
                old = X[better, i]
                field[better] += pair[first + new[better]] - pair[first + old]
                X[better, i] = new[better]
        if not moved:
            break
    X = np.unique(X, axis=0)
    values = energy(grid, unary, pair, X)
    order = np.argsort(values, kind="stable")[:keep]
    return Low(X[order], values[order], -np.inf)


def prove(
    grid: Grid, unary: Floats, pair: Floats, time_limit: float | None = None
) -> Low:
    """Minimise by a mixed-integer program, whose bound is proven at any moment."""
    D, starts = int(grid.starts[-1]), grid.starts
    owner = np.repeat(np.arange(len(grid.sizes)), grid.sizes)
    first, second = np.nonzero(np.triu(owner[:, None] != owner))
    P = len(first)
    rows = [
        sparse.csr_array(
            (np.ones(D), (owner, np.arange(D))), shape=(len(grid.sizes), D + P)
        )
    ]
    low, high = [np.ones(len(grid.sizes))], [np.ones(len(grid.sizes))]
    for near, far in ((first, second), (second, first)):
        # For category k of one column and all categories of another: Σ z_kl = w_k.
        group = near * len(grid.sizes) + owner[far]
        used, row = np.unique(group, return_inverse=True)
        k = used // len(grid.sizes)
        entries = np.concatenate([np.ones(P), -np.ones(len(used))])
        places = (
            np.concatenate([row, np.arange(len(used))]),
            np.concatenate([D + np.arange(P), k]),
        )
        rows.append(sparse.csr_array((entries, places), shape=(len(used), D + P)))
        low.append(np.zeros(len(used)))
        high.append(np.zeros(len(used)))
    integer = np.zeros(D + P, bool)
    integer[:D] = True
    cost = np.concatenate([unary, pair[first, second]])
    closed = cost >= FORBIDDEN / 2
    program = Program(
        np.where(closed, 0.0, cost),  # no large numbers, which cost precision
        sparse.csc_array(sparse.vstack(rows)),
        np.concatenate(low),
        np.concatenate(high),
        np.zeros(D + P),
        np.where(closed, 0.0, 1.0),
        integer,
    )
    answer = solve(program, time_limit=time_limit, presolve=True)
    if answer.status == "infeasible":  # everything is forbidden
        return _nothing(grid, FORBIDDEN)
    if len(answer.x) != D + P or not np.isfinite(answer.value):
        return _nothing(grid, answer.bound)
    chosen = [
        answer.x[starts[i] : starts[i + 1]].argmax() for i in range(len(grid.sizes))
    ]
    X = np.array([chosen], np.int64)
    return Low(X, energy(grid, unary, pair, X), answer.bound)
