r"""Solve the master program of cutting planes by interior points or by simplex.

A cut is the constraint ``Σ_{y∈S} λ_y(x) ≥ g`` of one outcome x and one set S of
classes. The restricted program has some cuts, and limits the multiplier to a box,

.. math:: \min_a \; b^T a \quad \text{with} \quad G a \ge g, \quad |a - c| \le r,

with a row of G for each cut. In the dual program w are the weights of the cuts: the
mass of x, spread evenly over S. The multipliers of the box around c are u and v:

.. math:: \max \; g^T w - (c + r)^T u + (c - r)^T v, \quad G^T w - u + v = b, \quad
    w, u, v \ge 0.

Weights of cuts with the given tables (u = v = 0) are thus a member of C.

Both programs have known interior points: slightly above a feasible multiplier, and any
w, since u and v provide the missing mass. Every step of the predictor–corrector method
(Mehrotra 1992) is therefore feasible in both programs, and the method may stop at any
gap. A point in the middle of the feasible set takes fewer steps than a corner, and the
next cuts are better there. A step factors the dense normal equations, R³/3 operations
for R cells. If that is too expensive, the simplex method solves the dual program. Its
answer is a corner; but cuts are columns, so it continues from the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from renyi.limits import Deadline
from renyi.robust.ambiguity_set import Ambiguity, Classes, Floats, Outcomes
from renyi.solvers import programs
from renyi.solvers.programs import TOLERANCE, Program

Member = tuple[Outcomes, Floats]  # outcomes, and their probabilities with each class

_MOST_STEPS = 60
_MOST_CORRECTIONS = 10
_BACK = 0.99  # share of the step at which a variable becomes 0
_AGAIN = 0.7  # share of the way from the inside to the last point, to restart at
_ROUNDING = 1e-13
_INSIDE = 0.2  # share of the radius by which functions are raised to be inside
_KEPT = 4  # cuts to keep for each cell
_LIGHT = 1e-8  # smaller weights are negligible
_STARTS = 1000  # outcomes of cuts from which others are searched
_MOST_CELLS = 4000  # with more, interior points take minutes, and simplex less


class Box(NamedTuple):
    """A box around a centre; `inside` is strictly within it and meets all cuts."""

    centre: Floats
    radius: float
    inside: Floats


class Point(NamedTuple):
    """A multiplier, the weights of the cuts and of the box, and the duality gap."""

    a: Floats
    w: Floats
    u: Floats
    v: Floats
    gap: float

    @property
    def off(self) -> float:
        """Distance of the weights of the cuts from b."""
        return float(self.u.sum() + self.v.sum())


class _State:
    """The current point: multiplier a, weights x of cuts and box, slacks s."""

    def __init__(self, G: sparse.csr_array, g: Floats, b: Floats, box: Box) -> None:
        self.G = G
        self.g = g
        self.b = b
        self.box = box
        self.size = len(g) + 2 * len(b)

    def place(self, a: Floats, w: Floats, least: float) -> None:
        """Start at a multiplier and weights; the box takes the missing mass."""
        rest = self.G.T @ w - self.b
        boxed = np.maximum(rest, 0) + least, np.maximum(-rest, 0) + least
        self.a = a
        self.x = np.concatenate([w, *boxed])
        self.s = self.slacks(a)

    def slacks(self, a: Floats) -> Floats:
        """Return the slacks of the cuts, and of the box above and below."""
        c = self.box.centre
        r = self.box.radius
        return np.concatenate([self.G @ a - self.g, c + r - a, a - c + r])

    def along(self, da: Floats) -> Floats:
        """Return the change of the slacks."""
        return np.concatenate([self.G @ da, -da, da])

    def parts(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        n = len(self.g)
        R = len(self.b)
        return x[:n], x[n : n + R], x[n + R :]

    @property
    def gap(self) -> float:
        return float(self.x @ self.s)

    def step(self) -> bool:
        """Take a step; return whether there was one."""
        w, u, v = self.parts(self.x / self.s)
        factor = _factored(self.G, w, u + v)
        if factor is None:
            return False
        mu = self.gap / self.size
        dx, ds, _ = self._direction(factor, -self.x)
        far = (self.x + _length(self.x, dx) * dx) @ (self.s + _length(self.s, ds) * ds)
        aim = mu * (far / self.gap) ** 3
        dx, ds, da = self._direction(factor, (aim - dx * ds) / self.s - self.x)
        primal, dual = (_BACK * _length(*p) for p in ((self.x, dx), (self.s, ds)))
        if not (np.isfinite(dx).all() and np.isfinite(ds).all()):
            return False
        self.x += primal * dx
        self.s += dual * ds
        self.a = self.a + dual * da
        return max(primal, dual) > 1e-6

    def _direction(
        self, factor: tuple[Floats, bool], aim: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Solve for the change of x, s and a that brings x·s to its target."""
        w, u, v = self.parts(aim)
        here, above, below = self.parts(self.x)
        missing = self.b - self.G.T @ here + above - below  # rounding only
        da = linalg.cho_solve(factor, self.G.T @ w - u + v - missing)
        ds = self.along(da)
        return aim - self.x / self.s * ds, ds, da


def _factored(
    G: sparse.csr_array, w: Floats, more: Floats | float = 0.0
) -> tuple[Floats, bool] | None:
    """Factor ``Gᵀ diag(w) G`` + diag(more), with the least ridge that is needed."""
    K = np.asarray((G.T @ (sparse.diags_array(w) @ G)).toarray())
    K[np.diag_indices(len(K))] += more
    size = float(np.diagonal(K).max(initial=0.0))
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        K[np.diag_indices(len(K))] += ridge * size
        try:
            factor: tuple[Floats, bool] = linalg.cho_factor(K, check_finite=False)
            return factor
        except linalg.LinAlgError:
            continue
    return None


def _length(x: Floats, dx: Floats) -> float:
    """Return the longest step, at most 1, that keeps x nonnegative."""
    down = dx < 0
    return min(1.0, float((x[down] / -dx[down]).min(initial=1.0)))


def solve(
    G: sparse.csr_array,
    g: Floats,
    b: Floats,
    box: Box,
    target: float,
    last: Point | None = None,
    deadline: Deadline | None = None,
) -> Point:
    """Solve to a gap; `last` is the point before the last rows of G were added."""
    state = _State(G, g, b, box)
    deadline = deadline or Deadline(None)
    if last is None:
        w = np.full(len(g), 1.0 / max(len(g), 1))
        rest = np.abs(G.T @ w - b)
        state.place(box.inside, w, 0.1 * float(rest.mean()) + 1e-3 / len(b))
    else:  # between the inside and the last point; new cuts get small weights
        way = last.a - box.inside
        room = _length(state.slacks(box.inside), state.along(way))
        a = box.inside + _AGAIN * room * way
        mu = max(30 * target, last.gap) / state.size
        w = np.append(last.w, np.zeros(len(g) - len(last.w)))
        w = np.maximum(w, np.minimum(mu / (G @ a - g), 10 * mu))
        state.place(a, w, mu / box.radius)
    for _ in range(_MOST_STEPS):
        if state.gap <= target or deadline.passed or not state.step():
            break
    w, u, v = state.parts(state.x)
    return Point(state.a, w, u, v, state.gap)


def corrected(G: sparse.csr_array, b: Floats, w: Floats) -> Floats | None:
    """Return weights near w with ``Gᵀw = b`` to rounding, or None.

    Least squares are weighted by w, so that small weights change little.
    """
    for _ in range(_MOST_CORRECTIONS):
        rest = b - G.T @ w
        if np.abs(rest).max(initial=0.0) <= _ROUNDING:
            return w
        factor = _factored(G, w)
        if factor is None:
            return None
        w = np.maximum(w + w * (G @ linalg.cho_solve(factor, rest)), 0)
        if not np.isfinite(w).all():
            return None
    return w if np.abs(b - G.T @ w).max(initial=0.0) <= 10 * _ROUNDING else None


class _Simplex:
    """The dual program, solved to optimality: columns of the box, then of the cuts."""

    def __init__(self, b: Floats) -> None:
        self.R = len(b)
        self.module = programs.highspy()
        # New columns leave the last basis feasible for the primal method.
        self.highs = programs.solver(
            presolve="off", solver="simplex", simplex_strategy=4
        )
        eye = sparse.eye_array(self.R)
        box = Program(np.zeros(2 * self.R), sparse.hstack([-eye, eye]), b, b)
        self.highs.passModel(programs.model(box))

    def add(self, G: sparse.csr_array, g: Floats) -> None:
        n = len(g)
        most = np.full(len(g), self.module.kHighsInf)
        starts, cells = (each.astype(np.int32) for each in (G.indptr[:-1], G.indices))
        self.highs.addCols(n, -g, np.zeros(n), most, G.nnz, starts, cells, G.data)

    def drop(self, cuts: NDArray[np.intp]) -> None:
        columns = (cuts + 2 * self.R).astype(np.int32)
        self.highs.deleteCols(len(columns), columns)

    def solve(self, box: Box, deadline: Deadline) -> Point | None:
        """Return the corner, or None if time ran out."""
        highs = self.highs
        R = self.R
        cost = np.concatenate([box.radius + box.centre, box.radius - box.centre])
        highs.changeColsCost(2 * R, np.arange(2 * R, dtype=np.int32), cost)
        highs.setOptionValue("time_limit", float(highs.getRunTime() + deadline.left))
        if not programs.run(highs, deadline.limit):
            return None
        if highs.getModelStatus() != self.module.HighsModelStatus.kOptimal:
            return None
        solution = highs.getSolution()
        u, v, w = np.split(np.array(solution.col_value), [R, 2 * R])
        return Point(-np.array(solution.row_dual), w, u, v, 0.0)


class Master:
    """Some cuts in a box; variables are the cells with mass, references excepted."""

    def __init__(self, ambiguity: Ambiguity) -> None:
        self.ambiguity = ambiguity
        used = ~ambiguity.reference_cells & (ambiguity.b > 0)
        self.cells = np.flatnonzero(used)
        self.place = np.where(used, np.cumsum(used) - 1, len(self.cells))
        self.b = ambiguity.b[self.cells]
        self.one = ambiguity.shifted(np.zeros(len(ambiguity.b)), 1.0)[self.cells]
        self.keys: list[tuple[bytes, Classes]] = []
        self.outcomes = np.empty((0, len(ambiguity.sizes)), np.int64)
        self.G = sparse.csr_array((0, len(self.cells)))
        self.g = np.empty(0)
        self.kept = _KEPT * len(self.cells)
        self.last: Point | None = None
        many = len(self.cells) > _MOST_CELLS
        self.simplex = _Simplex(self.b) if many else None

    def add(self, X: Outcomes, S: Classes, right: Floats) -> int:
        """Add constraints of a set of classes; return how many are new."""
        first: dict[tuple[bytes, Classes], int] = {}
        for k, x in enumerate(X):
            first.setdefault((x.tobytes(), S), k)
        for key in first.keys() & self.keys:
            del first[key]
        fresh = list(first.values())
        self.keys += first
        X = X[fresh]
        places = self.place[self.ambiguity.cells(X)[:, list(S)]]
        places = places.reshape(len(X), len(S) * len(self.ambiguity.tables))
        rows = np.repeat(np.arange(len(X)), places.shape[1])
        entries = np.ones(places.size), (rows, places.ravel())
        new = sparse.csr_array(entries, shape=(len(X), len(self.cells) + 1))[:, :-1]
        self.outcomes = np.concatenate([self.outcomes, X])
        self.G = sparse.vstack([self.G, new], format="csr")
        self.g = np.append(self.g, right[fresh])
        if self.simplex is not None:
            self.simplex.add(new, right[fresh])
        return len(X)

    def solve(
        self, centre: Floats, radius: float, target: float, deadline: Deadline
    ) -> Floats | None:
        """Return the multiplier of a point with the target gap, or None if too late."""
        c = centre[self.cells]
        box = Box(c, radius, c + _INSIDE * radius * self.one)
        if self.simplex is None:
            self.last = solve(self.G, self.g, self.b, box, target, self.last, deadline)
        else:
            self.last = self.simplex.solve(box, deadline)
        if self.last is None:
            return None
        multiplier = np.zeros(len(self.ambiguity.b))
        multiplier[self.cells] = self.last.a
        return multiplier

    def forget(self) -> None:
        """Drop the cuts that are furthest from binding, if there are too many."""
        if self.last is None or len(self.g) < 1.5 * self.kept:
            return
        slack = self.G @ self.last.a - self.g
        felt = self.last.w / slack if self.simplex is None else -slack
        kept = np.sort(np.argsort(-felt, kind="stable")[: self.kept])
        if self.simplex is not None:
            self.simplex.drop(np.setdiff1d(np.arange(len(self.g)), kept))
        self.kept += self.kept // 8  # so that the same cuts do not return for ever
        self.last = self.last._replace(w=self.last.w[kept])
        self.keys = [self.keys[k] for k in kept.tolist()]
        self.outcomes = self.outcomes[kept]
        self.G = self.G[kept]
        self.g = self.g[kept]

    def support(self) -> Outcomes:
        """Return the outcomes of the cuts with the largest weights."""
        if self.last is None:
            return self.outcomes
        order = np.argsort(-self.last.w, kind="stable")[:_STARTS]
        return np.asarray(np.unique(self.outcomes[order], axis=0))

    def member(self) -> Member | None:
        """Return the member of C near the weights of the cuts, if there is one."""
        if self.last is None or (self.simplex and self.last.off > TOLERANCE):
            return None
        w: Floats | None = self.last.w
        if self.simplex is None:
            w = corrected(self.G[: len(self.last.w)], self.b, self.last.w)
        return None if w is None else self._distribution(w)

    def sparse_member(self, time_limit: float, heavy: bool = False) -> Member | None:
        """Return the worst member of C on the cuts, or only on the `heavy` ones."""
        use = np.ones(len(self.g), bool)
        if heavy and self.last is not None:
            use[:] = False
            use[: len(self.last.w)] = self.last.w > _LIGHT
        A, b = self._relative(self.G[use])
        deadline = Deadline(time_limit)
        for slack in (0.0, TOLERANCE):  # equations may fail by rounding alone
            program = Program(-self.g[use], A, b - slack, b + slack)
            limit = deadline.limit
            answer = programs.solve(program, time_limit=limit, method="simplex")
            if answer.status != "infeasible":
                break
        if answer.status != "optimal":
            return None
        w = np.zeros(len(use))
        w[use] = np.maximum(answer.x, 0)
        return self._distribution(w)

    def _relative(self, G: sparse.csr_array) -> tuple[sparse.csc_array, Floats]:
        """Return ``Gᵀw = b`` in units of b, so that small cells are exact, also."""
        scale = np.maximum(self.b, _ROUNDING)
        return sparse.csc_array(sparse.diags_array(1 / scale) @ G.T), self.b / scale

    def missing(self, time_limit: float | None) -> tuple[float, Floats] | None:
        """Return how far the cuts are from supporting a member of C, and a direction.

        The distance is the least ``Σ |Gᵀw − b| / b`` over w ≥ 0. The direction is a
        multiplier, scaled to 1: outcomes where its functions are negative reduce the
        distance. None if time ran out.
        """
        A, b = self._relative(self.G)
        n = len(self.g)
        R = len(b)
        eye = sparse.eye_array(R)
        cost = np.concatenate([np.zeros(n), np.ones(2 * R)])
        program = Program(cost, sparse.hstack([A, -eye, eye]), b, b)
        answer = programs.solve(program, time_limit=time_limit, method="simplex")
        if answer.status != "optimal":
            return None
        away = np.zeros(len(self.ambiguity.b))
        away[self.cells] = -answer.duals / np.maximum(self.b, _ROUNDING)
        return answer.value, away / max(float(np.abs(away).max()), 1e-300)

    def _distribution(self, w: Floats) -> Member:
        used = np.flatnonzero(w > 0)
        X, where = np.unique(self.outcomes[used], axis=0, return_inverse=True)
        p = np.zeros((len(X), self.ambiguity.n_classes))
        for row, k in zip(where.ravel(), used, strict=True):
            p[row, list(self.keys[k][1])] += w[k]
        return X, p
