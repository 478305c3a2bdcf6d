r"""A path of penalties: solutions of the l1,∞ problem, and the order of entry.

*From penalty to penalty.* Above ``λ_max = max_i ‖dvec_i‖₁`` all points are 0. Each λ
starts from the solution before it. The solution is a piecewise linear function of the
penalty. So the line through the last two solutions predicts the next one well, as long
as no feature enters or leaves. Descent moves only features that had points, and those
with ``‖G_i‖₁ ≥ penalty`` (`renyi.solvers.l1inf`). Afterwards the norms of all features
are checked, and any above the penalty join. (The sequential strong rule lowers the
threshold to 2·penalty − previous. Fewer features then join late, but it admits several
times as many.) Descent stops by the duality gap over *all* features.

*Gap.* ``a·r`` is feasible for the dual if ``|a| ≤ penalty/max_i ‖G_i‖₁``, and best at
``a = E[rT]/E[r²]`` within these limits; its value is ``a E[rT] − ½a² E[r²]``.

*Extrapolation.* Passes converge linearly. After every few passes, the combination of
the last points with the smallest combined change (Anderson) is tried. It replaces the
points if its objective is smaller.

*Order of entry.* There are few penalties, so several features may enter between two of
them. A first, coarse path finds such intervals, and the final path takes smaller steps
there. Near the largest penalty little is explained yet. A gap that is small compared
with the objective is then large compared with the gain of a feature. A feature may even
have points that belong to a similar one, such as a pair of columns that shares a column
with it. So the upper part of the path is solved again, with a gap close to rounding and
with smaller steps where several features enter at once. Few features have points there,
so this takes little time.

Features that still enter together, within a thousandth of a penalty, are ordered by
their largest point. If these are about equal, the order is that of the table. Such ties
are real. A feature enters when :math:`\sum_k |E[W_{ik}(T - s)]|` reaches the penalty.
For a pair of columns this sum is that of one of its columns alone, as long as the other
column changes no sign.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.solvers.l1inf import INDEFINITE, Problem, begin, passes

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

N_LAMBDAS = 30
RATIO = 0.01
TOL = 1e-4
MAX_PASSES = 30_000

_PASSES = 5  # between two checks of the gap
_GAP_ROUNDING = 1e-14  # error of a gap; targets have variance 1 at most
# A mean square below this is not a rounding error: no rows have these marginals.
_NEGATIVE = -1e-9
_ZERO_PENALTY = 1e-9  # a largest penalty below this is rounding

_COARSE = 1e-2  # relative gap of the first path
_EXTRA = 30  # penalties added where several features enter at once
_LEAST_RATIO = 1e-3  # smallest penalty, relative to the largest
_ROUNDING = 1e-12  # rounding error of a probability

_UPPER = 0.2  # share of the largest penalty above which the path is solved again
_EXACTLY = 1e-8  # relative gap of the upper part
_UPPER_PASSES = 10_000  # for each penalty of the upper part
_ROUNDS = 5  # how often the upper part is refined
_APART = 1e-3  # a smaller relative difference of penalties counts as a tie
_EQUAL = 0.05  # a smaller relative difference of points at entry counts as a tie


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Solutions for a decreasing sequence of L penalties; one column for two classes.

    `objectives` are γ(z) + λ Σ max|z_i|, and `gaps` bound their distance from the
    optimum. `tol` is the requested gap, relative to the objective.
    """

    lambdas: Floats
    z: Floats  # points of all categories, (L, D) or (L, D, K)
    intercepts: Floats  # (L,) or (L, K); 0 without fit_intercept
    objectives: Floats
    gaps: Floats
    active: NDArray[np.bool_]  # which features have points, (L, d)
    iterations: Places  # passes over the active features
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


# ---- descent on some features


def duality_gap(
    problem: Problem, penalty: float, points: float, steepest: float
) -> tuple[float, float]:
    """Return the objective, and an upper bound on its distance from the optimum.

    `points` is the sum of the features' largest points, `steepest` an upper bound on
    the largest ‖G_i‖₁.
    """
    residual, fit = problem.residual_moments(problem.z, problem.state)
    if residual < _NEGATIVE:
        raise ValueError(INDEFINITE)
    objective = residual / 2 + penalty * points
    limit = penalty / steepest if steepest > 0 else np.inf
    best = fit / residual if residual > 0 else 0.0
    a = min(max(best, -limit), limit)
    return objective, objective - (a * fit - a * a * residual / 2)


def descend(part: Problem, penalty: float, tol: float, max_passes: int) -> int:
    """Descend until the gap is at most `tol` times the objective; return the passes."""
    used = 0
    points = np.empty((_PASSES + 1, *part.z.shape))
    states = np.empty((_PASSES + 1, *part.state.shape))
    while True:
        norms = part.norms(penalty)
        largest = part.largest_points()
        points_now = float(largest.sum())
        steepest = float(norms.max())
        value, gap = duality_gap(part, penalty, points_now, steepest)
        if gap <= tol * value + _GAP_ROUNDING or used >= max_passes:
            return used
        if used:
            # Not after the last pass: a combination can give points to a feature that
            # has none.
            _extrapolate(part, penalty, points, states)
            largest = part.largest_points()
        active = np.flatnonzero((largest > 0) | (norms > penalty))
        points[0] = part.z
        states[0] = part.state
        passes(part, active, penalty, points[1:], states[1:])
        used += _PASSES


def _extrapolate(part: Problem, penalty: float, points: Floats, states: Floats) -> None:
    """Replace the points by a combination of the last ones if it is better."""
    changes = np.diff(points.reshape(len(points), -1), axis=0)
    products = changes @ changes.T
    # With a little of the identity, the system stays solvable if changes are parallel.
    products.flat[:: len(products) + 1] += 1e-12 * products.trace() + 1e-300
    weights = np.linalg.solve(products, np.ones(len(products)))
    weights /= weights.sum()
    z = (weights @ points[1:].reshape(len(weights), -1)).reshape(part.z.shape)
    state = weights @ states[1:].reshape(len(weights), -1)
    _adopt(part, penalty, z, state.reshape(part.state.shape))


def _adopt(part: Problem, penalty: float, z: Floats, state: Floats) -> None:
    """Replace points and state by others if their objective is smaller."""
    current = _objective(part, penalty, part.z, part.state)
    if _objective(part, penalty, z, state) < current:
        part.z[...] = z
        part.state[...] = state


def _objective(part: Problem, penalty: float, z: Floats, state: Floats) -> float:
    residual, _ = part.residual_moments(z, state)
    return residual / 2 + penalty * float(part.largest_points(z).sum())


# ---- from penalty to penalty


def penalty_grid(problem: Problem, n_lambdas: int, ratio: float) -> Floats:
    """Return penalties, from the smallest without any feature down to `ratio` of it."""
    begin(problem)
    top = 2 * problem.weight * float(problem.norms(0.0).max())
    # If no feature is informative, the penalties do not matter.
    top = top if top > _ZERO_PENALTY else 1.0
    return np.asarray(top * np.geomspace(1, ratio, n_lambdas))


def solve_path(
    problem: Problem,
    lambdas: Floats,
    tol: float = TOL,
    max_passes: int = MAX_PASSES,
    quiet: bool = False,
) -> LassoPath:
    """Solve the l1,∞ problem for positive, decreasing penalties.

    Each is solved until the duality gap is at most `tol` times the objective. After
    `max_passes` over the active features the solver gives up, with a
    `ConvergenceWarning` unless `quiet`.
    """
    begin(problem, len(lambdas))
    L = len(lambdas)
    columns, D = problem.z.shape
    scale = 2 * problem.weight
    z = np.zeros((L, D, columns))
    intercepts = np.zeros((L, columns))
    active = np.zeros((L, len(problem.sizes)), bool)
    values = np.zeros((L, 2))
    used = np.zeros(L, np.int64)
    penalties = (lambdas / scale).tolist()
    # The smallest penalty at which all points are 0.
    before = last = max(float(problem.norms(0.0).max()), penalties[0])
    with_points = earlier = np.empty(0, np.int64)
    for k, penalty in enumerate(penalties):
        working = screened(problem, penalty, with_points, earlier)
        ahead = (last - penalty) / (before - last) if before > last else 0.0
        earlier = with_points
        with_points, values[k], used[k] = _solve_one(
            problem, working, penalty, ahead, tol, max_passes
        )
        z[k] = problem.z.T
        intercepts[k] = problem.intercept()
        active[k, with_points] = True
        before = last
        last = penalty
    objectives, gaps = scale * values.T
    if columns == 1:
        z = z[:, :, 0]
        intercepts = intercepts[:, 0]
    path = LassoPath(lambdas, z, intercepts, objectives, gaps, active, used, tol)
    missed = ~path.reached
    if missed.any() and not quiet:
        from sklearn.exceptions import ConvergenceWarning  # a second to load

        worst = float((gaps / objectives)[missed].max())
        warnings.warn(
            f"The path did not converge: {int(missed.sum())} of {L} penalties missed "
            f"the relative gap {tol:g} within {max_passes} passes (worst: "
            f"{worst:.1e}). Merge or leave out columns with many rare labels.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return path


def screened(
    problem: Problem, penalty: float, last: Places, earlier: Places
) -> NDArray[np.bool_]:
    """Choose features by their norms, and the features of the last two solutions."""
    working = np.asarray(problem.norms(penalty) >= penalty)
    working[last] = True
    working[earlier] = True
    return working


def _solve_one(
    problem: Problem,
    working: NDArray[np.bool_],
    penalty: float,
    ahead: float,
    tol: float,
    max_passes: int,
) -> tuple[Places, tuple[float, float], int]:
    """Solve for one penalty; return features with points, (objective, gap), passes.

    Features that turn out to matter are added to `working`. `ahead` is how far to
    follow the line through the last two solutions.
    """
    used = 0
    inner = tol
    points = 0.0
    with_points = np.empty(0, np.int64)
    while True:
        chosen = np.flatnonzero(working)
        if chosen.size:
            part = problem.restricted(chosen)
            if ahead > 0:
                problem.remember()
                past_z, past_state = part.past
                z = part.z + ahead * (part.z - past_z)
                state = part.state + ahead * (part.state - past_state)
                _adopt(part, penalty, z, state)
            ahead = 0.0
            used += descend(part, penalty, inner, max_passes - used)
            problem.absorb(part)
            largest = part.largest_points()
            points = float(largest.sum())
            with_points = chosen[largest > 0]
        norms = problem.norms(penalty)
        value, gap = duality_gap(problem, penalty, points, float(norms.max()))
        if gap <= tol * value + _GAP_ROUNDING or used >= max_passes:
            return with_points, (value, gap), used
        late = (norms > penalty) & ~working
        working |= late
        if not late.any():
            inner /= 10


# ---- which penalties


def grid_down_to(grid: Floats, least: float) -> Floats:
    """Return the penalties of a path above `least`, and `least` itself.

    The path continues as far as needed, in equal steps down to a thousandth of the
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
    """Continue a grid to smaller penalties, in equal steps."""
    step = grid[1] / grid[0]
    least = _LEAST_RATIO * grid[0]
    count = max(int(np.ceil(np.log(least / grid[-1]) / np.log(step) - 1e-9)), 0)
    return np.concatenate([grid, grid[-1] * step ** np.arange(1, count + 1)])


def _refined(problem: Problem, grid: Floats, at_least: int) -> Floats:
    """Add penalties where several features enter a coarse path at once.

    The grid ends after `at_least` features; with 0 it covers all penalties.
    """
    coarse = solve_path(problem, grid, _COARSE)
    if coarse.active.any(axis=0).sum() < at_least:
        grid = _longer(grid)
        coarse = solve_path(problem, grid, _COARSE)
    entering = _counts_of_entries(coarse)
    if at_least:
        reached = np.flatnonzero(np.cumsum(entering) >= at_least)
        # One step more, because the path is coarse.
        grid = grid[: int(reached[0]) + 2 if reached.size else None]
    pieces = [grid[:1]]
    left = _EXTRA
    for k in range(1, len(grid)):  # the largest penalties first
        extra = min(max(int(entering[k]) - 1, 0), left)
        left -= extra
        pieces.append(np.geomspace(grid[k - 1], grid[k], extra + 2)[1:])
    return np.concatenate(pieces)


def _counts_of_entries(path: LassoPath) -> Places:
    """Return the number of features that first have points, at each penalty."""
    entered = np.logical_or.accumulate(path.active, axis=0).sum(axis=1)
    return np.asarray(np.diff(entered, prepend=0), np.int64)


def solve_entries(
    problem: Problem,
    grid: Floats,
    tol: float = TOL,
    at_least: int = 0,
    max_passes: int = MAX_PASSES,
) -> LassoPath:
    """Return the path over a grid, with more penalties where features enter together.

    With `at_least`, the path ends after so many features; it continues to smaller
    penalties if necessary.
    """
    end = _longer(grid)[-1]
    requested = at_least
    while True:
        lambdas = _refined(problem, grid, requested)
        path = solve_path(problem, lambdas, tol, max_passes)
        path = sharpened(problem, path)
        entered = int(path.active.any(axis=0).sum())
        if entered >= at_least or path.lambdas[-1] <= end * (1 + 1e-9):
            return path
        # The coarse path ended too soon: some features entered only there.
        requested *= 2


def sharpened(problem: Problem, path: LassoPath) -> LassoPath:
    """Solve the upper part of a path again, exactly and in smaller steps if needed."""
    upper = path.lambdas[path.lambdas >= _UPPER * path.lambdas[0]]
    for _ in range(_ROUNDS):
        # Quiet, because reaching the gap of the path is enough; see below.
        exact = solve_path(problem, upper, _EXACTLY, _UPPER_PASSES, quiet=True)
        above = upper[:-1]
        below = upper[1:]
        entering = _counts_of_entries(exact)[1:]
        crowded = (entering > 1) & (above > (1 + _APART) * below)
        if not crowded.any():
            break
        parts = np.array([0.25, 0.5, 0.75])[:, None]
        closer = above[crowded] ** (1 - parts) * below[crowded] ** parts
        upper = np.sort(np.append(upper, closer))[::-1]
    exact = replace(exact, tol=path.tol)
    if not exact.converged:
        return path
    rest = path.lambdas < exact.lambdas[-1]
    names = [name for name in vars(path) if name != "tol"]
    joined = {
        name: np.concatenate([getattr(exact, name), getattr(path, name)[rest]])
        for name in names
    }
    return LassoPath(**joined, tol=path.tol)


# ---- the order of entry


def entries(path: LassoPath, sizes: Places) -> tuple[Places, Places]:
    """Return the features that enter, in order, and the index of each one's penalty.

    The order is by entry, then by size of points, then that of the table.
    """
    ever = np.flatnonzero(path.active.any(axis=0))
    first = path.active[:, ever].argmax(axis=0)
    size = np.abs(path.z.reshape(*path.z.shape[:2], -1)).max(axis=2)
    points = np.maximum.reduceat(size, offsets(sizes)[:-1], axis=1)[first, ever]
    order = np.lexsort((-points, first))
    later = np.diff(first[order]) > 0
    smaller = points[order[1:]] < (1 - _EQUAL) * points[order[:-1]]
    ranks = np.zeros(len(order), np.int64)
    ranks[order[1:]] = np.cumsum(later | smaller)
    order = np.lexsort((ever, ranks))
    return ever[order].astype(np.int64), first[order].astype(np.int64)


def unentered(
    problem: Problem, path: LassoPath, order: Places, at_least: int
) -> Places:
    """Return features without points that may be needed to reach `at_least`."""
    if at_least <= 0 and len(order):
        return np.empty(0, np.int64)
    problem.move_to(np.ascontiguousarray(path.solutions()[-1][0].T))
    norms = problem.norms(0.0)
    norms[order] = -1
    # Rounding makes duplicated columns equal, so that they stay in their order.
    places = np.arange(len(norms))
    ranked = np.lexsort((places, problem.sizes == 1, -norms.round(12)))
    # All that entered may be copies of one feature, so return as many as requested.
    count = min(max(at_least, 1), len(norms) - len(order))
    return np.asarray(ranked[:count], np.int64)


def functions_of_earlier(Q: Floats, sizes: Places) -> NDArray[np.bool_]:
    """Return which features are functions of one before them."""
    return np.asarray(np.triu(functions(Q, sizes), 1).any(axis=0))


def functions(Q: Floats, sizes: Places) -> NDArray[np.bool_]:
    """Return a matrix that says whether feature j is a function of feature i.

    Then each category of i occurs with a single category of j.
    """
    present = (Q > _ROUNDING).astype(np.int32)
    starts = offsets(sizes)[:-1]
    cells = np.add.reduceat(np.add.reduceat(present, starts, axis=0), starts, axis=1)
    return np.asarray(cells == np.diag(cells)[:, None])
