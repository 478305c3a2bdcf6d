r"""A path of penalties: solutions of the l1,∞ problem, and the order of entry.

*From penalty to penalty.* Above ``λ_max = max_i ‖dvec_i‖₁`` all points are 0. Each λ
starts from the solution before it. The solution is a piecewise linear function of the
penalty, so that the line through the last two solutions foretells the next one well, as
long as no feature enters or leaves. Only those features are moved that had points, and
those with ``‖G_i‖₁ ≥ penalty`` (`renyi.solvers.l1inf`); afterwards the norms of all
features are checked, and any above the penalty join. (The sequential strong rule lowers
the threshold to 2·penalty − previous, so that fewer come late; but it lets in several
times as many.) The duality gap over *all* features says when to stop.

*Gap.* ``a·r`` is feasible for the dual if ``|a| ≤ penalty/max_i ‖G_i‖₁``, and best at
``a = E[rT]/E[r²]`` within these limits; its value is ``a E[rT] − ½a² E[r²]``.

*Extrapolation.* Passes converge linearly. Every few of them the combination of the last
points whose combined change is smallest (Anderson) is tried, and kept if its objective
is smaller.

*Order of entry.* Penalties are few, so that several features may enter between two of
them. A first, coarse path finds these steps, and the path that counts takes smaller
ones there. Near the largest penalty little is explained yet, and a gap that is small
beside the objective is large beside what the features are worth: one that hardly
differs from another, such as a pair of columns that shares a column with it, may hold
points of the other's. So the upper part of the path is solved again with a gap close to
rounding, and with ever smaller steps where several features enter at once. It is cheap
there, since few features have points.

What still enters together within a thousandth of a penalty is ordered by its largest
point, and in the order of the table if these are about equal as well. Such ties are
real. A feature enters when :math:`\sum_k |E[W_{ik}(T - s)]|` reaches the penalty, and
for a pair of columns this is the same as for one of the two columns alone, as long as
the other one turns no sign.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from renyi.counting.onehot import offsets
from renyi.solvers.l1inf import INDEFINITE, Problem
from renyi.solvers.ridge import Moments

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

N_LAMBDAS = 30
RATIO = 0.01
TOL = 1e-4
MAX_PASSES = 30_000

_PASSES = 5  # between two looks at the gap
_GAP_ROUNDING = 1e-14  # error of a gap; targets have variance 1 at most
# A mean square below this is no rounding: no rows have these marginals.
_NEGATIVE = -1e-9
_NOTHING = 1e-9  # a largest penalty below this is rounding

_COARSE = 1e-2  # relative gap of the first path
_EXTRA = 30  # penalties added where several features enter at once
_LEAST_RATIO = 1e-3  # how far down to look for more features
_ROUNDING = 1e-12  # of a probability

_UPPER = 0.2  # of the largest penalty: above it the path is solved again
_EXACTLY = 1e-8  # relative gap there
_UPPER_PASSES = 10_000  # for each penalty there
_ROUNDS = 5  # of smaller steps there
_APART = 1e-3  # penalties that differ by less, relatively, are not told apart
_EQUAL = 0.05  # nor are points just after an entry


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Solutions for a decreasing sequence of penalties.

    Parameters
    ----------
    lambdas : ndarray of shape (L,)
        The penalties.
    z : ndarray of shape (L, D) or (L, D, K)
        Points of all categories; one column stands for two classes.
    intercepts : ndarray of shape (L,) or (L, K)
        Intercepts; 0 if none was asked for.
    objectives : ndarray of shape (L,)
        γ(z) + λ Σ max|z_i|.
    gaps : ndarray of shape (L,)
        How far the objective is from the optimum at most.
    active : ndarray of shape (L, d)
        Whether a feature has points.
    iterations : ndarray of shape (L,)
        Passes over the active features.
    tol : float
        The gap asked for, relative to the objective.
    """

    lambdas: Floats
    z: Floats
    intercepts: Floats
    objectives: Floats
    gaps: Floats
    active: NDArray[np.bool_]
    iterations: Places
    tol: float

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Whether the gap was reached, for every penalty."""
        return np.asarray(self.gaps <= self.tol * self.objectives + 2 * _GAP_ROUNDING)

    @property
    def converged(self) -> bool:
        """Whether the gap was reached at every penalty."""
        return bool(self.reached.all())

    def solutions(self) -> list[tuple[Floats, Floats]]:
        """Return points (D, C) and intercept (C,) of each penalty."""
        L, D = self.z.shape[:2]
        columns = self.z.reshape(L, D, -1), self.intercepts.reshape(L, -1)
        return list(zip(*columns, strict=True))

    def __str__(self) -> str:
        """Return one line per penalty."""
        head = f"{'lambda':>12} {'features':>8} {'objective':>11} {'gap':>8} passes"
        columns = zip(
            self.lambdas, self.active.sum(axis=1), self.objectives, self.gaps,
            self.iterations, strict=True,
        )  # fmt: skip
        lines = [
            f"{lam:12.6g} {count:8d} {value:11.6f} {gap:8.1e} {passes:6d}"
            for lam, count, value, gap, passes in columns
        ]
        return "\n".join([head, *lines])


# ---- descent on some features


class Gap(NamedTuple):
    """Value of the problem, and how far at most it is above the optimum."""

    objective: float
    gap: float

    def within(self, tol: float) -> bool:
        """Whether the gap is at most `tol` times the objective, but for rounding."""
        return self.gap <= tol * self.objective + _GAP_ROUNDING


def duality_gap(
    residual_moments: tuple[float, float],
    penalty: float,
    points: float,
    steepest: float,
) -> Gap:
    """Return objective and gap.

    `points` is the sum of the features' largest points, `steepest` the largest ‖G_i‖₁
    or something larger.
    """
    residual, fit = residual_moments
    objective = residual / 2 + penalty * points
    limit = penalty / steepest if steepest > 0 else np.inf
    best = fit / residual if residual > 0 else 0.0
    a = min(max(best, -limit), limit)
    return Gap(objective, objective - (a * fit - a * a * residual / 2))


def descend(part: Problem, penalty: float, tol: float, max_passes: int) -> int:
    """Descend until the gap is at most `tol` times the objective; return the passes."""
    used = 0
    points = np.empty((_PASSES + 1, *part.z.shape))
    states = np.empty((_PASSES + 1, *part.state.shape))
    while True:
        norms, largest = part.norms(penalty), part.largest_points()
        values = part.residual_moments(part.z, part.state)
        now = duality_gap(values, penalty, float(largest.sum()), float(norms.max()))
        if now.within(tol) or used >= max_passes:
            return used
        if used:
            # Not after the last pass: a combination may revive features at rest.
            _extrapolate(part, penalty, points, states)
            largest = part.largest_points()
        active = np.flatnonzero((largest > 0) | (norms > penalty))
        points[0], states[0] = part.z, part.state
        part.passes(active, penalty, points[1:], states[1:])
        used += _PASSES


def _extrapolate(part: Problem, penalty: float, points: Floats, states: Floats) -> None:
    """Replace the points by a combination of the last ones if that is better."""
    changes = np.diff(points.reshape(len(points), -1), axis=0)
    products = changes @ changes.T
    # A little of the identity keeps the system solvable once changes are parallel.
    products.flat[:: len(products) + 1] += 1e-12 * products.trace() + 1e-300
    weights = np.linalg.solve(products, np.ones(len(products)))
    weights /= weights.sum()
    z = (weights @ points[1:].reshape(len(weights), -1)).reshape(part.z.shape)
    state = weights @ states[1:].reshape(len(weights), -1)
    _adopt(part, penalty, z, state.reshape(part.state.shape))


def _adopt(part: Problem, penalty: float, z: Floats, state: Floats) -> None:
    """Take over other points, with their state, if their objective is smaller."""
    now = _objective(part, penalty, part.z, part.state)
    if _objective(part, penalty, z, state) < now:
        part.z[...] = z
        part.state[...] = state


def _objective(part: Problem, penalty: float, z: Floats, state: Floats) -> float:
    residual, _ = part.residual_moments(z, state)
    return residual / 2 + penalty * float(part.largest_points(z).sum())


# ---- from penalty to penalty


class Solution(NamedTuple):
    """Solution for one penalty; its points are good until the next one."""

    z: Floats
    intercept: Floats
    held: Places
    objective: float
    gap: float
    passes: int


def penalty_grid(problem: Problem, n_lambdas: int, ratio: float) -> Floats:
    """Return penalties, falling from the largest that matters to `ratio` times that."""
    top = problem.largest_penalty()
    # Where no feature says anything, any penalty will do.
    top = top if top > _NOTHING else 1.0
    return np.asarray(top * np.geomspace(1, ratio, n_lambdas))


def solve_path(
    problem: Problem, lambdas: Floats, tol: float = TOL, max_passes: int = MAX_PASSES
) -> LassoPath:
    """Solve the l1,∞ problem for a sequence of penalties.

    Parameters
    ----------
    problem : Problem
        From counts or from rows.
    lambdas : ndarray of shape (L,)
        The penalties, positive and falling.
    tol : float, default=1e-4
        Duality gap to be reached, relative to the objective.
    max_passes : int, default=30,000
        Passes over the active features after which a penalty is given up, with a
        `sklearn.exceptions.ConvergenceWarning`.
    """
    problem.begin(len(lambdas))
    L, (columns, D), scale = len(lambdas), problem.z.shape, 2 * problem.weight
    z, intercepts = np.zeros((L, D, columns)), np.zeros((L, columns))
    active = np.zeros((L, len(problem.sizes)), bool)
    values, passes = np.zeros((L, 2)), np.zeros(L, np.int64)
    solved = _solutions(problem, lambdas / scale, tol, max_passes)
    for place, step in enumerate(solved):
        z[place], intercepts[place] = step.z.T, step.intercept
        active[place, step.held] = True
        values[place], passes[place] = (step.objective, step.gap), step.passes
    objectives, gaps = scale * values.T
    if columns == 1:
        z, intercepts = z[:, :, 0], intercepts[:, 0]
    found = LassoPath(lambdas, z, intercepts, objectives, gaps, active, passes, tol)
    _warn(found, max_passes)
    return found


def _warn(found: LassoPath, max_passes: int) -> None:
    """Warn of penalties whose gap was not reached."""
    missed = ~found.reached
    if missed.any():
        worst = float((found.gaps / found.objectives)[missed].max())
        warnings.warn(
            f"The path did not converge: {int(missed.sum())} of {len(missed)} "
            f"penalties missed the relative gap {found.tol:g} within {max_passes} "
            f"passes (worst: {worst:.1e}). Increase max_passes, tol or ratio.",
            ConvergenceWarning,
            stacklevel=3,
        )


def _solutions(
    problem: Problem, penalties: Floats, tol: float, max_passes: int
) -> Iterator[Solution]:
    """Solve for each of the penalties in mean form, which fall."""
    # Where the path starts, all norms are below this.
    before = last = max(float(problem.norms(0.0).max()), float(penalties[0]))
    held = past = np.empty(0, np.int64)
    for penalty in penalties.tolist():
        working = screened(problem, penalty, held, past)
        step = (last - penalty) / (before - last) if before > last else 0.0
        one = _solve_one(problem, working, penalty, step, tol, max_passes)
        yield one
        before, last, held, past = last, penalty, one.held, held


def screened(
    problem: Problem, penalty: float, held: Places, past: Places
) -> NDArray[np.bool_]:
    """Choose features by their norms; those of the last two solutions stay."""
    working = np.asarray(problem.norms(penalty) >= penalty)
    working[held] = working[past] = True
    return working


def _solve_one(
    problem: Problem,
    working: NDArray[np.bool_],
    penalty: float,
    step: float,
    tol: float,
    max_passes: int,
) -> Solution:
    """Solve for one penalty; `working` grows by the features that turn out to matter.

    `step` is how far to follow the line through the last two solutions.
    """
    used, inner, ahead = 0, tol, step
    points, held = 0.0, np.empty(0, np.int64)
    while True:
        chosen = np.flatnonzero(working)
        if chosen.size:
            part = problem.restricted(chosen)
            if ahead > 0:
                problem.remember()
                then_z, then = part.past
                z = part.z + ahead * (part.z - then_z)
                _adopt(part, penalty, z, part.state + ahead * (part.state - then))
            ahead = 0.0
            used += descend(part, penalty, inner, max_passes - used)
            problem.absorb(part, chosen)
            largest = part.largest_points()
            points, held = float(largest.sum()), chosen[largest > 0]
        norms = problem.norms(penalty)
        values = problem.residual_moments(problem.z, problem.state)
        if values[0] < _NEGATIVE:
            raise ValueError(INDEFINITE)
        now = duality_gap(values, penalty, points, float(norms.max()))
        if now.within(tol) or used >= max_passes:
            return Solution(problem.z, problem.intercept(), held, *now, used)
        late = (norms > penalty) & ~working
        working |= late
        if not late.any():
            inner /= 10


# ---- which penalties


def grid_down_to(grid: Floats, least: float) -> Floats:
    """Return the penalties of a path above some penalty, and this one.

    The path goes on as far as needed, in steps as before down to a thousandth of the
    largest penalty.
    """
    if least < grid[-1]:
        grid = _longer(grid)
    above = grid[grid > least * (1 + 1e-9)]
    if least >= grid[-1]:
        return np.append(above, least)
    further = np.geomspace(grid[-1], least, max(len(grid) // 2, 2))
    return np.concatenate([above, further[1:]])


def _longer(grid: Floats) -> Floats:
    """Go on to smaller penalties, in steps as before."""
    step, least = grid[1] / grid[0], _LEAST_RATIO * grid[0]
    count = max(int(np.ceil(np.log(least / grid[-1]) / np.log(step) - 1e-9)), 0)
    return np.concatenate([grid, grid[-1] * step ** np.arange(1, count + 1)])


def _refined(problem: Problem, grid: Floats, at_least: int) -> Floats:
    """Add penalties where a coarse path sees several features enter at once.

    It ends after `at_least` features; 0 for all penalties.
    """
    coarse = solve_path(problem, grid, _COARSE)
    if coarse.active.any(axis=0).sum() < at_least:
        grid = _longer(grid)
        coarse = solve_path(problem, grid, _COARSE)
    entering = _counts_of_entries(coarse)
    if at_least:
        reached = np.flatnonzero(np.cumsum(entering) >= at_least)
        # A step more, since the path is a coarse one.
        grid = grid[: int(reached[0]) + 2 if reached.size else None]
    return _split(grid, entering)


def _counts_of_entries(found: LassoPath) -> Places:
    """Return how many features have points for the first time, at each penalty."""
    seen = np.logical_or.accumulate(found.active, axis=0).sum(axis=1)
    return np.asarray(np.diff(seen, prepend=0), np.int64)


def _split(grid: Floats, entering: Places) -> Floats:
    """Split the steps in which several features enter, the largest penalties first."""
    pieces, left = [grid[:1]], _EXTRA
    for k in range(1, len(grid)):
        extra = min(max(int(entering[k]) - 1, 0), left)
        left -= extra
        pieces.append(np.geomspace(grid[k - 1], grid[k], extra + 2)[1:])
    return np.concatenate(pieces)


def solve_entries(
    problem: Problem,
    grid: Floats,
    tol: float = TOL,
    at_least: int = 0,
    max_passes: int = MAX_PASSES,
) -> LassoPath:
    """Return the path over some penalties, and over more where features enter together.

    With `at_least`, it ends after so many features, and goes on to smaller penalties
    for them.
    """
    end, requested = _longer(grid)[-1], at_least
    while True:
        lambdas = _refined(problem, grid, requested)
        found = solve_path(problem, lambdas, tol, max_passes)
        found = sharpened(problem, found)
        entered = int(found.active.any(axis=0).sum())
        if entered >= at_least or found.lambdas[-1] <= end * (1 + 1e-9):
            return found
        # The coarse path ended too soon: it saw features enter that do not.
        requested *= 2


def sharpened(problem: Problem, found: LassoPath) -> LassoPath:
    """Return the path with its upper part solved exactly, in smaller steps if needed.

    All its penalties stay.
    """
    upper = found.lambdas[found.lambdas >= _UPPER * found.lambdas[0]]
    for _ in range(_ROUNDS):
        with warnings.catch_warnings():
            # It is enough that the gap asked for is reached, see below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            sure = solve_path(problem, upper, _EXACTLY, _UPPER_PASSES)
        closer = _between(upper, _counts_of_entries(sure))
        if not closer.size:
            break
        upper = np.sort(np.concatenate([upper, closer]))[::-1]
    sure = replace(sure, tol=found.tol)
    return _joined(sure, found) if sure.converged else found


def _between(lambdas: Floats, entering: Places) -> Floats:
    """Return penalties within the steps in which several features enter."""
    above, below = lambdas[:-1], lambdas[1:]
    crowded = (entering[1:] > 1) & (above > (1 + _APART) * below)
    parts = np.array([0.25, 0.5, 0.75])[:, None]
    return np.ravel(above[crowded] ** (1 - parts) * below[crowded] ** parts)


def _joined(upper: LassoPath, found: LassoPath) -> LassoPath:
    """Return a path that begins with another one."""
    rest = found.lambdas < upper.lambdas[-1]
    names = ("lambdas", "z", "intercepts", "objectives", "gaps", "active", "iterations")
    pairs = {name: (getattr(upper, name), getattr(found, name)) for name in names}
    joined = {name: np.concatenate([a, b[rest]]) for name, (a, b) in pairs.items()}
    return LassoPath(**joined, tol=found.tol)


# ---- the order of entry


def entries(found: LassoPath, sizes: Places) -> tuple[Places, Places]:
    """Return the features that enter, in order, and at which penalty each does."""
    ever = np.flatnonzero(found.active.any(axis=0))
    first = found.active[:, ever].argmax(axis=0)
    size = np.abs(found.z.reshape(*found.z.shape[:2], -1)).max(axis=2)
    largest = np.maximum.reduceat(size, offsets(sizes)[:-1], axis=1)
    order = np.lexsort((ever, _ranks(first, largest[first, ever])))
    return ever[order].astype(np.int64), first[order].astype(np.int64)


def _ranks(first: Places, points: Floats) -> Places:
    """Return ranks by entry and size of points; what is about equal has the same."""
    order = np.lexsort((-points, first))
    first, points = first[order], points[order]
    later = first[1:] > first[:-1]
    smaller = points[1:] < (1 - _EQUAL) * points[:-1]
    ranks = np.zeros(len(order), np.int64)
    ranks[order[1:]] = np.cumsum(later | smaller)
    return ranks


def unentered(
    problem: Problem, found: LassoPath, order: Places, at_least: int
) -> Places:
    """Return features without points that may be needed to make up the number."""
    if at_least <= 0 and len(order):
        return np.empty(0, np.int64)
    problem.move_to(np.ascontiguousarray(found.solutions()[-1][0].T))
    norms = problem.norms(0.0)
    norms[order] = -1
    # Equal but for rounding is equal: duplicated columns come in their order.
    places = np.arange(len(norms))
    ranked = np.lexsort((places, problem.sizes == 1, -norms.round(12)))
    # As many as are asked for, should all that entered be copies of one feature.
    count = min(max(at_least, 1), len(norms) - len(order))
    return np.asarray(ranked[:count], np.int64)


def functions_of_earlier(equations: Moments, sizes: Places) -> NDArray[np.bool_]:
    """Return which features are functions of one before them.

    Each category of the one before occurs with a single category of such a feature.
    """
    centre, starts = equations.centre, offsets(sizes)[:-1]
    there = (equations.A + np.outer(centre, centre) > _ROUNDING).astype(np.int32)
    cells = np.add.reduceat(np.add.reduceat(there, starts, axis=0), starts, axis=1)
    functions = cells == np.diag(cells)[:, None]
    return np.asarray(np.triu(functions, 1).any(axis=0))
