"""The master program of the search for a worst case: some outcomes, a boxed multiplier.

The worst member of C on a few outcomes of each class is a linear program with one
column for each of them. Its multipliers are functions λ that are feasible there;
outcomes at which they are not are the columns to add.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.reference_cells import gauge
from renyi.solvers import programs

Floats = NDArray[np.float64]
Outcomes = NDArray[np.int64]


class Answer(NamedTuple):
    """Multiplier, distribution, and how far its marginals are off."""

    multiplier: Floats
    outcomes: Outcomes
    p: Floats
    off: float


class Master:
    """Worst member of C on some outcomes; its multipliers are kept in a box.

    ``max ℓᵀp − (c + r)ᵀu + (c − r)ᵀv`` with ``A p − u + v = b`` is the dual of the
    program for a multiplier within r of c; p is a member of C if u = v = 0.
    """

    def __init__(self, ambiguity: Ambiguity) -> None:
        self.ambiguity = ambiguity
        self.module = programs.highspy()
        # Columns come and go, so the last basis stays feasible for the primal method.
        self.highs = programs.solver(
            presolve="off", solver="simplex", simplex_strategy=4
        )
        free = ~gauge(ambiguity)
        self.cells = np.flatnonzero(free)
        self.row_of = np.where(free, np.cumsum(free) - 1, -1).astype(np.int32)
        for b in ambiguity.b[self.cells]:
            self.highs.addRow(b, b, 0, np.empty(0, np.int32), np.empty(0))
        for sign in (-1.0, 1.0):
            for row in range(len(self.cells)):
                self._column(0.0, np.array([row], np.int32), sign)
        self.slacks = 2 * len(self.cells)
        self.known: dict[tuple[bytes, int], Outcomes] = {}  # in the columns' order

    def _column(self, cost: float, rows: NDArray[np.int32], value: float) -> None:
        infinity, values = self.module.kHighsInf, np.full(len(rows), value)
        self.highs.addCol(cost, 0.0, infinity, len(rows), rows, values)

    def box(self, centre: Floats, radius: float) -> None:
        """Keep the multiplier within a radius of a centre."""
        c = centre[self.cells]
        cost = np.concatenate([c + radius, radius - c])
        places = np.arange(self.slacks, dtype=np.int32)
        self.highs.changeColsCost(self.slacks, places, cost)

    def require(self, X: Outcomes, y: int, loss: Floats) -> int:
        """Add outcomes of a class; return how many are new."""
        cells = self.ambiguity.cells(X) + y * self.ambiguity.with_target
        before = len(self.known)
        for x, rows, value in zip(X, self.row_of[cells], loss, strict=True):
            if (x.tobytes(), y) not in self.known:
                self.known[x.tobytes(), y] = x
                self._column(-float(value), rows[rows >= 0], 1.0)
        return len(self.known) - before

    def solve(self, time_limit: float, forget: bool = True) -> Answer | None:
        """Solve to optimality; None if that failed. Drop columns of no use, if many."""
        limit = self.highs.getRunTime() + max(time_limit, 0.05)
        self.highs.setOptionValue("time_limit", float(limit))
        programs.run(self.highs)
        if self.highs.getModelStatus() != self.module.HighsModelStatus.kOptimal:
            return None
        found = self.highs.getSolution()
        values, reduced = np.array(found.col_value), np.array(found.col_dual)
        a = np.zeros(len(self.ambiguity.b))
        a[self.cells] = -np.array(found.row_dual)
        X, p = self._distribution(values[self.slacks :])
        if forget:
            self._forget(reduced[self.slacks :])
        return Answer(a, X, p, float(values[: self.slacks].max(initial=0)))

    def _distribution(self, weights: Floats) -> tuple[Outcomes, Floats]:
        keys = list(self.known)
        used = np.flatnonzero(weights > 0)
        X = np.array([self.known[keys[k]] for k in used], np.int64)
        X = X.reshape(len(used), len(self.ambiguity.sizes))
        y = np.array([keys[k][1] for k in used], np.intp)
        X, where = np.unique(X, axis=0, return_inverse=True)
        p = np.zeros((len(X), self.ambiguity.n_classes))
        np.add.at(p, (where.ravel(), y), weights[used])
        return X, p

    def _forget(self, reduced: Floats) -> None:
        """Drop the columns furthest from being used, once they are many."""
        keep = 3 * len(self.cells)
        if len(reduced) < 1.5 * keep:
            return
        drop = np.sort(np.argsort(reduced, kind="stable")[keep:])
        self.highs.deleteCols(len(drop), (drop + self.slacks).astype(np.int32))
        keys = list(self.known)
        for k in drop.tolist():
            del self.known[keys[k]]
