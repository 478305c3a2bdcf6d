r"""The l1,∞ problem of Algorithm 1, from pair counts or from rows.

.. math:: \min_z \; \gamma(z) + \lambda \sum_i \max_k |z_i(k)|,
          \qquad \gamma(z) = z^T Q z - d^T z + \tfrac14 .

*Mean form.* Two classes are coded ±½ in one column, which stands for both. K classes
are coded ``e_Y − 1/K`` in K columns. Let T be either code, w = 1 for one column and ½
for K. With an intercept b that is not penalised, ``γ = w·E‖T − b − WᵀZ‖²``. So the
penalty here is ``λ/(2w)``, and objectives are multiplied by ``2w``::

    min_Z  ½ E‖T − WᵀZ‖²  +  penalty · Σ_i max |Z_i|

*Step.* With the residual r = T − WᵀZ and the gradient ``G = E[W r]``, feature i alone
is the problem of `block_step` with ``b = G_i + q Z_i``, q its probabilities. With an
intercept, T and W are centred, and the change of r is centred after every step. The
step is exact for the feature, then the intercept is exact.

*Bounds on norms.* At a penalty, features with ``‖G_i‖₁ < penalty`` have no points. The
categories of a feature exclude each other, so for any two residuals r, r', summed over
the columns of the target::

    | ‖G_i‖₁ − ‖G'_i‖₁ |  ≤  Σ_k |E[W_k (r − r')]|  ≤  E|r − r'|

From rows, a norm costs a pass over a column. With this bound most norms are known to be
too small without that pass. This is exact: it never misses a feature.

`CountsProblem` stores G and updates it by columns of Q. `RowsProblem` stores the
residuals of the rows and never forms Q. Both give the same solutions. For D categories
and n rows of d features, a pass over all features costs D² from counts, and n·d slower
steps from rows; `cheaper_form` chooses. Arrays of points, gradients and residuals have
one row per column of the target.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from renyi.counting.compiled import load
from renyi.counting.onehot import label_sums, offsets
from renyi.counting.pair_counts import check_table_size, pair_counts
from renyi.counting.sparse_counts import dense
from renyi.solvers.ridge import weight_of

if TYPE_CHECKING:
    from renyi.solvers.l1inf_path import LassoPath

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# numpy takes 0.4 s for so many steps; loading the compiled passes takes 0.6 s.
FEW_STEPS = 10_000
# Expected steps for each feature and penalty. With fewer rows than categories, points
# of many features can have the same sum, and descent is slow.
_STEPS = 10
_STEPS_WIDE = 50
_STEP_ROWS = 4_000  # rows that take as long as the fixed part of a step
# Entries of Q that are read in the time of one cell of a row. Measured: adult (D =
# 7,587, d = 91, n = 34,189) takes 25 s from rows and 104 s from counts; kr-vs-kp
# (3,066, 630, 2,237) takes 1.0 s and 0.3 s.
_ROW_STEP = 12
_ROUNDING = 1e-9  # rounding error of a probability in a category without rows
_DIFFERENCE_ROUNDING = 1e-12  # rounding error of a difference of probabilities

INDEFINITE = (
    "The marginals are not positive semidefinite, so no rows can have them: count "
    "again (Marginals.validate() names the counts that disagree)."
)


def block_step(b: Floats, q: Floats, penalty: float) -> Floats:
    """Return the minimiser of ``Σ ½ q_k z_k² − b_k z_k + penalty·max|z_k|``.

    The indicators of a feature exclude each other, so only the largest point t couples
    the categories. Each z_k is ``b_k/q_k`` clipped to [−t, t]. Either t is 0, or the
    clipped parts add up to the penalty: ``Σ (|b_k| − q_k t)₊ = penalty``. That sum is
    convex and piecewise linear, with corners at ``|b_k|/q_k``. If the j largest corners
    are beyond t, then t solves ``Σ|b| − t·Σq = penalty`` over these. The right j gives
    the largest t. Where q is 0, b must be 0.
    """
    size = np.abs(b)
    t = 0.0
    if size.sum() > penalty:
        used = np.flatnonzero(q > 0)
        used = used[np.argsort(-size[used] / q[used], kind="stable")]
        t = float(((np.cumsum(size[used]) - penalty) / np.cumsum(q[used])).max())
    free = np.divide(b, q, out=np.zeros_like(b), where=q > 0)
    return np.clip(free, -t, t)


class StepCounter:
    """Count the steps of problems that are solved together; many steps are compiled.

    Steps of earlier problems do not count. The compiled passes add in another order,
    and a result must not depend on what was solved before.
    """

    def __init__(self) -> None:
        self.expected = self.taken = 0.0

    def kernels(self, more: float = 0) -> ModuleType | None:
        """Return the compiled passes, or None if numpy is fast enough for the steps."""
        self.taken += more
        few = max(self.expected, self.taken) <= FEW_STEPS
        return None if few else load("renyi.solvers.l1inf_kernels")


def places_of(features: Places, sizes: Places) -> Places:
    """Return the positions of the categories of some features."""
    own_sizes = sizes[features]
    shift = np.repeat(offsets(sizes)[features] - offsets(own_sizes)[:-1], own_sizes)
    return np.asarray(np.arange(own_sizes.sum()) + shift, np.int64)


def _feature_norms(G: Floats, starts: Places) -> Floats:
    """Return ‖G_i‖₁ of every feature, over categories and columns."""
    return np.add.reduceat(np.abs(G).sum(axis=0), starts[:-1])


class _Points:
    """Training data, and the current points of their features.

    `restricted` returns the problem over some features, with the points of all others
    fixed. Descent runs on this smaller problem, and `absorb` copies its points back.
    """

    q: Floats  # probabilities of the categories
    centre: Floats  # equal to q with an intercept, otherwise 0
    mean: Floats  # of the target; 0 without intercept
    z: Floats  # points, (C, D)
    state: Floats  # linear in the points: the gradient, or the residuals
    past: tuple[Floats, Floats]  # points and state that `remember` stored
    places: Places  # positions of a restricted problem's categories in the whole one
    step_length = 1.0  # time of a step; 1 is a step from counts

    def __init__(
        self,
        sizes: NDArray[Any],
        n_classes: int,
        n: float,
        fit_intercept: bool,
        steps: StepCounter | None,
    ) -> None:
        self.sizes = np.asarray(sizes, np.int64)
        self.starts = offsets(self.sizes)
        self.n_classes = n_classes
        self.n = n
        self.fit_intercept = fit_intercept
        self.weight = weight_of(n_classes)
        self.steps = steps or StepCounter()

    def remember(self) -> None:
        """Store a copy of points and state."""
        self.past = self.z.copy(), self.state.copy()

    def intercept(self) -> Floats:
        """Return the intercept of every column."""
        return np.asarray(self.mean - self.z @ self.centre)

    def largest_points(self, z: Floats | None = None) -> Floats:
        """Return max|Z_i| of every feature, by default of the current points."""
        size = np.abs(self.z if z is None else z).max(axis=0)
        return np.maximum.reduceat(size, self.starts[:-1])

    def _part(self, features: Places) -> Self:
        """Return a copy with some of the features only."""
        part = copy(self)
        part.sizes = self.sizes[features]
        part.starts = offsets(part.sizes)
        part.places = places_of(features, self.sizes)
        part.q = self.q[part.places]
        part.centre = self.centre[part.places]
        part.z = self.z[:, part.places]
        return part


class CountsProblem(_Points):
    """The problem from pair counts: the state is the gradient ``G = R − zA``.

    ``R = E[T W]`` and ``A = Q − centre centreᵀ`` are centred if there is an intercept.
    Q (D, D) has the probabilities of pairs of categories, F (D, K) those of category
    and class. Without intercept this is the paper's problem. `steps` is shared by the
    problems that are solved together.
    """

    def __init__(
        self,
        Q: Floats,
        F: Floats,
        priors: Floats,
        sizes: NDArray[Any],
        n: float,
        fit_intercept: bool = True,
        steps: StepCounter | None = None,
    ) -> None:
        super().__init__(sizes, F.shape[1], n, fit_intercept, steps)
        self.Q = Q
        self.F = F
        self.priors = priors
        self.q = np.diag(Q).copy()
        K = self.n_classes
        self.plain_R = (F[:, 1] - F[:, 0])[None] / 2 if K == 2 else F.T - self.q / K
        self.plain_mean = self.plain_R.sum(axis=1) / len(self.sizes)
        self.plain_variance = 0.25 if K == 2 else 1 - 1 / K
        without_rows = np.abs(self.plain_R[:, self.q <= 0])
        if (self.q < 0).any() or without_rows.max(initial=0) > _ROUNDING:
            raise ValueError(INDEFINITE)
        self.centre = self.q * fit_intercept
        self.mean = self.plain_mean * fit_intercept
        self.R = self.plain_R - np.outer(self.mean, self.centre)
        self.variance = self.plain_variance - float(self.mean @ self.mean)

    def without(self, other: CountsProblem) -> CountsProblem:
        """Return the problem of the rows that are not in `other`, by subtraction."""
        left = self.n - other.n
        Q = (self.n * self.Q - other.n * other.Q) / left
        F = (self.n * self.F - other.n * other.F) / left
        priors = (self.n * self.priors - other.n * other.priors) / left
        # A category without rows is left with a rounding error.
        Q[np.abs(Q) < _DIFFERENCE_ROUNDING] = 0
        return CountsProblem(
            Q, F, priors, self.sizes, left, self.fit_intercept, self.steps
        )

    def counted(self, features: Places) -> CountsProblem:
        """Return the problem of some features, in this order."""
        if np.array_equal(features, np.arange(len(self.sizes))):
            return self
        own = places_of(features, self.sizes)
        Q = self.Q[np.ix_(own, own)]
        F = self.F[own]
        sizes = self.sizes[features]
        return CountsProblem(
            Q, F, self.priors, sizes, self.n, self.fit_intercept, self.steps
        )

    def move_to(self, z: Floats) -> None:
        """Set the points, and compute the state."""
        nonzero = np.flatnonzero(z.any(axis=0))
        points = z[:, nonzero]
        centring = np.outer(points @ self.centre[nonzero], self.centre)
        self.state = np.asarray(self.R - points @ self.Q[nonzero] + centring)
        self.z = z

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁ of every feature."""
        return _feature_norms(self.state, self.starts)

    def residual_moments(self, z: Floats, state: Floats) -> tuple[float, float]:
        """Return E[r²] and E[rT], by ``zA = R − G``."""
        fit = self.variance - float(np.vdot(self.R, z))
        return fit - float(np.vdot(state, z)), fit

    def restricted(self, features: Places) -> Self:
        """Return the problem over some features, all others fixed; its Q is centred."""
        part = self._part(features)
        own = part.places
        part.Q = self.Q[np.ix_(own, own)] - np.outer(part.centre, part.centre)
        part.centre = np.zeros_like(part.centre)
        part.R = self.R[:, own]
        part.state = self.state[:, own]
        part.past = self.past[0][:, own], self.past[1][:, own]
        return part

    def absorb(self, part: _Points) -> None:
        """Copy the points of a restricted problem, and recompute the gradient."""
        self.z[:, part.places] = part.z
        self.move_to(self.z)

    def _compiled_passes(
        self, kernels: Any, active: Places, penalty: float, *out: Floats
    ) -> None:
        own = self.Q, self.q, self.starts
        kernels.gram_passes(*own, active, penalty, self.z, self.state, *out)

    def _gradient(self, i: int, own: slice) -> Floats:
        return self.state[:, own]

    def _move(self, i: int, own: slice, change: Floats) -> None:
        np.subtract(self.state, change @ self.Q[own], out=self.state)

    def probabilities(self) -> Floats:
        """Return the probability of every category, 0 for those without rows."""
        return self.q

    def risks(self, path: LassoPath) -> Floats:
        """Return γ of every solution of a path, which may be from other rows."""
        squares = []
        for z, b in path.solutions():
            nonzero = np.flatnonzero(z.any(axis=1))
            z = z[nonzero]
            Q = self.Q[np.ix_(nonzero, nonzero)]
            R = self.plain_R[:, nonzero]
            score_square = np.vdot(z, Q @ z) + 2 * b @ (self.q[nonzero] @ z) + b @ b
            cross = np.vdot(R.T, z) + b @ self.plain_mean
            squares.append(self.plain_variance - 2 * cross + score_square)
        return self.weight * np.array(squares)


class RowsProblem(_Points):
    """The problem from rows: the state is their weighted residuals; Q is never formed.

    `codes` (d, n) must be smaller than the features' sizes, and weights positive.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        sizes: NDArray[Any],
        y: NDArray[Any],
        n_classes: int,
        sample_weight: Floats | None = None,
        fit_intercept: bool = True,
        steps: StepCounter | None = None,
    ) -> None:
        n = len(y) if sample_weight is None else sample_weight.sum()
        super().__init__(sizes, n_classes, float(n), fit_intercept, steps)
        dtype = np.uint8 if self.sizes.max() <= 256 else np.uint32
        self.codes = np.ascontiguousarray(codes, dtype)
        self.y = y
        self.sample_weight = sample_weight
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.shares = weight / self.n

    @cached_property
    def target(self) -> Floats:
        """The coded classes T of every row, not centred: (C, n)."""
        if self.n_classes == 2:
            return np.asarray(self.y[None] - 0.5, np.float64)
        indicators = np.asarray(self.y == np.arange(self.n_classes)[:, None], float)
        return indicators - 1 / self.n_classes

    def part(self, sample_weight: Floats) -> RowsProblem:
        """Return the rows whose weight is not zero, with these weights."""
        chosen = np.flatnonzero(sample_weight)
        positive = sample_weight[chosen]
        weights = None if (positive == 1).all() else positive
        return RowsProblem(
            self.codes[:, chosen], self.sizes, self.y[chosen], self.n_classes, weights,
            self.fit_intercept, self.steps,
        )  # fmt: skip

    def counted(self, features: Places | None = None) -> CountsProblem:
        """Count pairs; return the problem of some features, by default of all."""
        own = slice(None) if features is None else features
        codes = self.codes[own]
        sizes = self.sizes[own]
        check_table_size(sizes, 1, 0)
        Q = dense(pair_counts(codes, sizes, self.sample_weight)) / self.n
        indicators = self.y[:, None] == np.arange(self.n_classes)
        classes = indicators * self.shares[:, None]
        F = label_sums(codes, sizes, classes)
        priors = classes.sum(axis=0)
        return CountsProblem(
            Q, F, priors, sizes, self.n, self.fit_intercept, self.steps
        )

    def _prepare(self) -> None:
        """Compute the attributes that only paths need."""
        self.step_length = 1 + self.target.size / _STEP_ROWS
        compiled = self.steps.kernels()
        if compiled is None:
            self.q = self.probabilities()
        else:
            self.q = np.empty(int(self.starts[-1]))
            compiled.row_sums(self.codes, self.starts, self.shares, self.q)
        self.centre = self.q * self.fit_intercept
        self.mean = (self.target @ self.shares) * self.fit_intercept
        self.centred_target = self.target - self.mean[:, None]
        d = len(self.sizes)
        self.features = np.arange(d)
        self.exact = np.zeros(d, bool)
        self.bounds = np.full(d, np.inf)
        self.bounded_state = np.zeros_like(self.target)

    def move_to(self, z: Floats) -> None:
        """Set the points, and compute the state."""
        self.z = z
        self.state = self.shares * (self.target - self._scores(z, self.intercept()))

    def _scores(self, z: Floats, intercept: Floats) -> Floats:
        """Return b + zW at every row: (C, n)."""
        scores = np.tile(intercept[:, None], len(self.y))
        with_points = np.logical_or.reduceat(z.any(axis=0), self.starts[:-1])
        for i in np.flatnonzero(with_points).tolist():
            scores += z[:, self.starts[i] : self.starts[i + 1]][:, self.codes[i]]
        return scores

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁; below the threshold, an upper bound below the threshold."""
        self._loosen()
        own = self.features
        stale = np.flatnonzero((self.bounds[own] >= threshold) & ~self.exact[own])
        if stale.size:
            self.bounds[own[stale]] = self._exact_norms(stale)
            self.exact[own[stale]] = True
        return self.bounds[own]

    def _loosen(self) -> None:
        """Turn norms at earlier residuals into bounds at the current residuals."""
        earlier = self.bounded_state
        size = float(np.vdot(earlier, earlier))
        # The size is 0 if the fit is perfect, or if all rows have one class.
        scale = float(np.vdot(self.state, earlier)) / size if size > 0 else 1.0
        change = float(np.abs(self.state - scale * earlier).sum())
        if change > 0 or scale != 1:
            self.bounds *= abs(scale)
            self.bounds += change
            self.exact[:] = False
            earlier[...] = self.state

    def _exact_norms(self, features: Places) -> Floats:
        compiled = self.steps.kernels()
        if compiled is None:
            codes = self.codes[features]
            sizes = self.sizes[features]
            sums = label_sums(codes, sizes, self.state.T)
            return _feature_norms(sums.T, offsets(sizes))
        out = np.empty(len(features))
        compiled.row_norms(self.codes, self.sizes, features, self.state, out)
        return out

    def residual_moments(self, z: Floats, state: Floats) -> tuple[float, float]:
        """Return E[r²] and E[rT]."""
        residual = float(np.vdot(state, state / self.shares))
        return residual, float(np.vdot(state, self.centred_target))

    def restricted(self, features: Places) -> Self:
        """Return the problem over some features, all others fixed."""
        # The two share residuals and norms: a step of one is a step of the other.
        part = self._part(features)
        part.codes = self.codes[features]
        part.features = self.features[features]
        part.past = self.past[0][:, part.places], self.past[1]
        return part

    def absorb(self, part: _Points) -> None:
        """Copy the points of a restricted problem."""
        self.z[:, part.places] = part.z

    def _compiled_passes(
        self, kernels: Any, active: Places, penalty: float, *out: Floats
    ) -> None:
        # Pass equal weights as one number, so that the compiled loop reads one array
        # less.
        equal = bool((self.shares == self.shares[0]).all())
        shares = self.shares[:1] if equal else self.shares
        own = self.codes, shares, self.q, self.starts
        state = self.fit_intercept, self.z, self.state
        kernels.row_passes(*own, active, penalty, *state, *out)

    def _gradient(self, i: int, own: slice) -> Floats:
        count = own.stop - own.start
        sums = [np.bincount(self.codes[i], row, count) for row in self.state]
        return np.stack(sums).astype(np.float64)

    def _move(self, i: int, own: slice, change: Floats) -> None:
        if self.fit_intercept:
            # Adjust the intercept in the same step.
            change = change - (change @ self.q[own])[:, None]
        moved = self.shares * change[:, self.codes[i]]
        np.subtract(self.state, moved, out=self.state)

    def probabilities(self) -> Floats:
        """Return the probability of every category, 0 for those without rows."""
        return label_sums(self.codes, self.sizes, self.shares[:, None])[:, 0]

    def risks(self, path: LassoPath) -> Floats:
        """Return γ of every solution of a path, which may be from other rows."""
        squares = [
            self.shares @ ((self.target - self._scores(z.T, b)) ** 2).sum(axis=0)
            for z, b in path.solutions()
        ]
        return self.weight * np.array(squares)

    def errors(self, path: LassoPath) -> Floats:
        """Return the error rate of the rule map, by penalty."""
        wrong = []
        for z, b in path.solutions():
            scores = self._scores(z.T, b)
            binary = self.n_classes == 2
            answer = scores[0] > 0 if binary else scores.argmax(axis=0)
            wrong.append(self.shares @ (answer != self.y))
        return np.array(wrong)


Problem = CountsProblem | RowsProblem


def cheaper_form(rows: RowsProblem) -> Problem:
    """Return the form of the problem, from counts or rows, that makes paths faster."""
    D = int(rows.sizes.sum())
    (d, n) = rows.codes.shape
    counts_are_faster = n >= D and _ROW_STEP * n * d >= D**2
    return rows.counted() if counts_are_faster else rows


def begin(problem: Problem, n_penalties: int = 1) -> None:
    """Set all points to 0, before solving for `n_penalties` penalties."""
    wide = isinstance(problem, RowsProblem) and problem.starts[-1] > len(problem.y)
    steps = (_STEPS_WIDE if wide else _STEPS) * n_penalties * len(problem.sizes)
    problem.steps.expected = max(problem.steps.expected, float(steps))
    if isinstance(problem, RowsProblem):
        problem._prepare()
    columns = 1 if problem.n_classes == 2 else problem.n_classes
    problem.move_to(np.zeros((columns, int(problem.starts[-1]))))
    problem.remember()


def passes(
    part: Problem, active: Places, penalty: float, points: Floats, states: Floats
) -> None:
    """Pass over the active features; write points and state after each pass."""
    kernels = part.steps.kernels(len(points) * len(active) * part.step_length)
    if kernels is not None:
        part._compiled_passes(kernels, active, penalty, points, states)
        return
    for p in range(len(points)):
        for i in active.tolist():
            _step(part, i, penalty)
        points[p] = part.z
        states[p] = part.state


def _step(part: Problem, i: int, penalty: float) -> None:
    own = slice(part.starts[i], part.starts[i + 1])
    q = part.q[own]
    z = part.z[:, own]
    b = part._gradient(i, own) + q * z
    new = block_step(b.ravel(), np.tile(q, len(z)), penalty).reshape(b.shape)
    change = new - z
    if change.any():
        z[...] = new
        part._move(i, own, change)
