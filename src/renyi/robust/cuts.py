"""Cuts: the master program of cutting planes, and what it begins with.

A cut is the constraint ``Σ_{y∈S} λ_y(x) ≥ |S| − 1`` of one outcome x and one set S of
classes; in the dual program it is the mass that x has, spread evenly over S. Weights of
cuts whose tables are the given ones are thus a member of C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.robust import interior_points
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.interior_points import Box, Point
from renyi.robust.reference_cells import gauge
from renyi.solvers import programs

Floats = NDArray[np.float64]

_INSIDE = 0.2  # of the radius by which the functions are raised to be inside
_KEPT = 4  # cuts for each cell that are remembered
_LIGHT = 1e-8  # weights that hardly count
_STARTS = 1000  # outcomes of cuts from which others are looked for


class Master:
    """The restricted program: some cuts, in a box around a feasible multiplier.

    Only cells with mass have a multiplier, and only one of each gauge.
    """

    def __init__(self, ambiguity: Ambiguity) -> None:
        self.ambiguity = ambiguity
        used = ~gauge(ambiguity) & (ambiguity.b > 0)
        self.cells = np.flatnonzero(used)
        self.place = np.where(used, np.cumsum(used) - 1, len(self.cells))
        self.b = ambiguity.b[self.cells]
        self.one = ambiguity.shifted(np.zeros(len(ambiguity.b)), 1.0)[self.cells]
        self.keys: list[tuple[bytes, tuple[int, ...]]] = []
        self.outcomes = np.empty((0, len(ambiguity.sizes)), np.int64)
        self.G = np.empty((0, len(self.cells)))
        self.g = np.empty(0)
        self.kept = _KEPT * len(self.cells)
        self.last: Point | None = None

    def add(self, X: NDArray[np.int64], S: tuple[int, ...]) -> int:
        """Add the constraints of outcomes for a set of classes; return how many."""
        known, fresh = set(self.keys), []
        for k, x in enumerate(X):
            key = (x.tobytes(), S)
            if key not in known:
                known.add(key)
                fresh.append(k)
                self.keys.append(key)
        X = X[fresh]
        cells = self.ambiguity.cells(X)
        rows = np.zeros((len(X), len(self.cells) + 1))
        for y in S:
            places = self.place[cells + y * self.ambiguity.with_target]
            np.add.at(rows, (np.arange(len(X))[:, None], places), 1.0)
        self.outcomes = np.concatenate([self.outcomes, X])
        self.G = np.concatenate([self.G, rows[:, :-1]])
        self.g = np.append(self.g, np.full(len(X), len(S) - 1.0))
        return len(X)

    def solve(
        self, centre: Floats, radius: float, target: float, deadline: float
    ) -> Floats:
        """Return the multiplier of a point in the middle, with a gap of the target."""
        c = centre[self.cells]
        box = Box(c, radius, c + _INSIDE * radius * self.one)
        self.last = interior_points.solve(
            self.G, self.g, self.b, box, target, self.last, deadline
        )
        found = np.zeros(len(self.ambiguity.b))
        found[self.cells] = self.last.a
        return found

    def forget(self) -> None:
        """Drop the cuts furthest from being felt, once they are many."""
        if self.last is None or len(self.g) < 1.5 * self.kept:
            return
        felt = self.last.w / (self.G @ self.last.a - self.g)
        kept = np.sort(np.argsort(-felt, kind="stable")[: self.kept])
        self.kept += self.kept // 8  # or the same ones may come and go for ever
        self.last = self.last._replace(w=self.last.w[kept])
        self.keys = [self.keys[k] for k in kept.tolist()]
        self.outcomes = self.outcomes[kept]
        self.G, self.g = self.G[kept], self.g[kept]

    def support(self) -> NDArray[np.int64]:
        """Return the outcomes of the cuts that weigh most."""
        if self.last is None:
            return self.outcomes
        order = np.argsort(-self.last.w, kind="stable")[:_STARTS]
        return np.asarray(np.unique(self.outcomes[order], axis=0))

    def member(self) -> tuple[NDArray[np.int64], Floats] | None:
        """Return the member of C that the weights of the cuts are near to, if any."""
        if self.last is None:
            return None
        w = interior_points.corrected(self.G[: len(self.last.w)], self.b, self.last.w)
        return None if w is None else self._distribution(w)

    def sparse_member(
        self, time_limit: float, heavy: bool = False
    ) -> tuple[NDArray[np.int64], Floats] | None:
        """Return the worst member of C that the cuts can carry, on few outcomes.

        With `heavy`, only the cuts that weigh something are looked at.
        """
        use = np.ones(len(self.g), bool)
        if heavy and self.last is not None:
            use[:] = False
            use[: len(self.last.w)] = self.last.w > _LIGHT
        n = int(use.sum())
        A, b = sparse.csc_array(self.G[use].T), self.b
        free = np.full(n, np.inf)
        program = programs.Program(-self.g[use], A, b, b, np.zeros(n), free)
        answer = programs.solve(program, time_limit=time_limit, method="simplex")
        if answer.status != "optimal":
            return None
        w = np.zeros(len(use))
        w[use] = np.maximum(answer.x, 0)
        return self._distribution(w)

    def _distribution(self, w: Floats) -> tuple[NDArray[np.int64], Floats]:
        used = np.flatnonzero(w > 0)
        X, where = np.unique(self.outcomes[used], axis=0, return_inverse=True)
        p = np.zeros((len(X), self.ambiguity.n_classes))
        for row, k in zip(where.ravel(), used, strict=True):
            p[row, list(self.keys[k][1])] += w[k]
        return X, p


def tree_draws(
    ambiguity: Ambiguity, n: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Draw outcomes from the tree of pairs that tells most (Chow and Liu, 1968).

    It has many of the given pairs, and others nearly, so that these outcomes come close
    to carrying a member of C.
    """
    label = len(ambiguity.sizes)
    pairs: dict[tuple[int, int], Floats] = {}
    for table in ambiguity.tables:
        p = table.probabilities
        if len(table.features) == 1:
            pairs[table.features[0], label] = p
        else:
            i, j = table.features
            pairs[i, j] = p.sum(axis=-1) if table.with_target else p
    told = np.full((label + 1, label + 1), -np.inf)
    for (i, j), p in pairs.items():
        told[i, j] = told[j, i] = _information(p)
    priors = ambiguity.priors / ambiguity.priors.sum()
    X = np.zeros((n, label + 1), np.int64)
    X[:, label] = random.choice(len(priors), n, p=priors)
    known, new = [label], list(range(label))
    while new:
        best = told[np.ix_(new, known)]
        row, column = np.unravel_index(int(best.argmax()), best.shape)
        i, j = new.pop(int(row)), known[int(column)]
        p = pairs[i, j] if (i, j) in pairs else pairs[j, i].T
        sums = np.cumsum(p, axis=0)[:, X[:, j]]
        X[:, i] = (random.random(n) * sums[-1] >= sums[:-1]).sum(axis=0)
        known.append(i)
    return np.asarray(np.unique(X[:, :label], axis=0))


def _information(p: Floats) -> float:
    """Mutual information of a table of two columns."""
    apart = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
    full = p > 0
    return float((p[full] * np.log(p[full] / apart[full])).sum())
