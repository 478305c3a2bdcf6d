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
    """Solutions for a decreasing sequence of L penalties; one column for two classes.

    `objectives` are γ(z) + λ Σ max|z_i|, `gaps` how far above the optimum they are at
    most; the gap asked for, relative to the objective, is `tol`.
    """

    lambdas: Floats
    z: Floats  # points of all categories, (L, D) or (L, D, K)
    intercepts: Floats  # (L,) or (L, K); 0 if none was asked for
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


def duality_gap(
    problem: Problem, penalty: float, points: float, steepest: float
) -> tuple[float, float]:
    """Return the objective, and how far above the optimum it is at most.

    `points` is the sum of the features' largest points, `steepest` the largest ‖G_i‖₁
    or something larger.
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
            # Not after the last pass: a combination may revive features at rest.
            _extrapolate(part, penalty, points, states)
            largest = part.largest_points()
        active = np.flatnonzero((largest > 0) | (norms > penalty))
        points[0] = part.z
        states[0] = part.state
        passes(part, active, penalty, points[1:], states[1:])
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
    now, then = (
        part.residual_moments(points, s)[0] / 2
        + penalty * float(part.largest_points(points).sum())
        for points, s in ((part.z, part.state), (z, state))
    )
    if then < now:
        part.z[...] = z
        part.state[...] = state


# ---- from penalty to penalty


def penalty_grid(problem: Problem, n_lambdas: int, ratio: float) -> Floats:
    """Return penalties, from the smallest that leaves no feature to `ratio` of that."""
    begin(problem)
    top = 2 * problem.weight * float(problem.norms(0.0).max())
    # Where no feature says anything, any penalty will do.
    top = top if top > _NOTHING else 1.0
    return np.asarray(top * np.geomspace(1, ratio, n_lambdas))


def solve_path(
    problem: Problem,
    lambdas: Floats,
    tol: float = TOL,
    max_passes: int = MAX_PASSES,
    quiet: bool = False,
) -> LassoPath:
    """Solve the l1,∞ problem for penalties that are positive and fall.

    Each until the duality gap is at most `tol` times the objective; after `max_passes`
    over the active features it is given up, with a `ConvergenceWarning` unless `quiet`.
    """
    begin(problem, len(lambdas))
    L, (columns, D), scale = len(lambdas), problem.z.shape, 2 * problem.weight
    z = np.zeros((L, D, columns))
    intercepts = np.zeros((L, columns))
    active = np.zeros((L, len(problem.sizes)), bool)
    values = np.zeros((L, 2))
    used = np.zeros(L, np.int64)
    penalties = (lambdas / scale).tolist()
    # Where the path starts, all norms are below this.
    before = last = max(float(problem.norms(0.0).max()), penalties[0])
    held = past = np.empty(0, np.int64)
    for k, penalty in enumerate(penalties):
        working = screened(problem, penalty, held, past)
        ahead = (last - penalty) / (before - last) if before > last else 0.0
        past = held
        held, values[k], used[k] = _solve_one(
            problem, working, penalty, ahead, tol, max_passes
        )
        z[k] = problem.z.T
        intercepts[k] = problem.intercept()
        active[k, held] = True
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
            f"{worst:.1e}). Increase max_passes, tol or ratio.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return path


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
    ahead: float,
    tol: float,
    max_passes: int,
) -> tuple[Places, tuple[float, float], int]:
    """Solve for one penalty: features with points, objective and gap, passes.

    `working` grows by the features that turn out to matter. `ahead` is how far to
    follow the line through the last two solutions.
    """
    used = 0
    inner = tol
    points = 0.0
    held = np.empty(0, np.int64)
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
            problem.absorb(part)
            largest = part.largest_points()
            points = float(largest.sum())
            held = chosen[largest > 0]
        norms = problem.norms(penalty)
        value, gap = duality_gap(problem, penalty, points, float(norms.max()))
        if gap <= tol * value + _GAP_ROUNDING or used >= max_passes:
            return held, (value, gap), used
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
    step = grid[1] / grid[0]
    least = _LEAST_RATIO * grid[0]
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
    pieces = [grid[:1]]
    left = _EXTRA
    for k in range(1, len(grid)):  # the largest penalties first
        extra = min(max(int(entering[k]) - 1, 0), left)
        left -= extra
        pieces.append(np.geomspace(grid[k - 1], grid[k], extra + 2)[1:])
    return np.concatenate(pieces)


def _counts_of_entries(path: LassoPath) -> Places:
    """Return how many features have points for the first time, at each penalty."""
    seen = np.logical_or.accumulate(path.active, axis=0).sum(axis=1)
    return np.asarray(np.diff(seen, prepend=0), np.int64)


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
    end = _longer(grid)[-1]
    requested = at_least
    while True:
        lambdas = _refined(problem, grid, requested)
        path = solve_path(problem, lambdas, tol, max_passes)
        path = sharpened(problem, path)
        entered = int(path.active.any(axis=0).sum())
        if entered >= at_least or path.lambdas[-1] <= end * (1 + 1e-9):
            return path
        # The coarse path ended too soon: it saw features enter that do not.
        requested *= 2


def sharpened(problem: Problem, path: LassoPath) -> LassoPath:
    """Return the path, its upper part solved exactly, in smaller steps if needed."""
    upper = path.lambdas[path.lambdas >= _UPPER * path.lambdas[0]]
    for _ in range(_ROUNDS):
        # It is enough that the gap asked for is reached, see below.
        sure = solve_path(problem, upper, _EXACTLY, _UPPER_PASSES, quiet=True)
        above = upper[:-1]
        below = upper[1:]
        entering = _counts_of_entries(sure)[1:]
        crowded = (entering > 1) & (above > (1 + _APART) * below)
        if not crowded.any():
            break
        parts = np.array([0.25, 0.5, 0.75])[:, None]
        closer = above[crowded] ** (1 - parts) * below[crowded] ** parts
        upper = np.sort(np.append(upper, closer))[::-1]
    sure = replace(sure, tol=path.tol)
    if not sure.converged:
        return path
    rest = path.lambdas < sure.lambdas[-1]
    both = {name: (vars(sure)[name], values) for name, values in vars(path).items()}
    tol = both.pop("tol")[0]
    joined = {name: np.concatenate([a, b[rest]]) for name, (a, b) in both.items()}
    return LassoPath(**joined, tol=tol)


# ---- the order of entry


def entries(path: LassoPath, sizes: Places) -> tuple[Places, Places]:
    """Return the features that enter, in order, and at which penalty each does.

    By entry, then by size of points, what is about equal in the order of the table.
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
    """Return features without points that may be needed to make up the number."""
    if at_least <= 0 and len(order):
        return np.empty(0, np.int64)
    problem.move_to(np.ascontiguousarray(path.solutions()[-1][0].T))
    norms = problem.norms(0.0)
    norms[order] = -1
    # Equal but for rounding is equal: duplicated columns come in their order.
    places = np.arange(len(norms))
    ranked = np.lexsort((places, problem.sizes == 1, -norms.round(12)))
    # As many as are asked for, should all that entered be copies of one feature.
    count = min(max(at_least, 1), len(norms) - len(order))
    return np.asarray(ranked[:count], np.int64)


def functions_of_earlier(Q: Floats, sizes: Places) -> NDArray[np.bool_]:
    """Return which features are functions of one before them.

    Each category of the one before occurs with a single category of such a feature.
    """
    there = (Q > _ROUNDING).astype(np.int32)
    starts = offsets(sizes)[:-1]
    cells = np.add.reduceat(np.add.reduceat(there, starts, axis=0), starts, axis=1)
    functions = cells == np.diag(cells)[:, None]
    return np.asarray(np.triu(functions, 1).any(axis=0))
