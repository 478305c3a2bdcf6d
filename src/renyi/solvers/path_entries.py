r"""In which order features enter a path of penalties: the walks behind `selection`.

Penalties are few, so that several features may enter between two of them. A first,
coarse walk finds these steps, and the walk that counts takes smaller ones there.

Near the largest penalty little is explained yet, and a gap that is small beside the
objective is large beside what the features are worth: one that hardly differs from
another, such as a pair of columns that shares a column with it, may hold points of the
other's. So the upper part of the path is walked again with a gap close to rounding, and
with ever smaller steps where several features enter at once. It is cheap there, since
few features have points.

What still enters together within a thousandth of a penalty is ordered by its largest
point, and in the order of the table if these are about equal as well. Such ties are
real. A feature enters when :math:`\sum_k |E[W_{ik}(T - s)]|` reaches the penalty, and
for a pair of columns this is the same as for one of the two columns alone, as long as
the other one turns no sign.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from renyi.counting.onehot import offsets
from renyi.solvers.l1inf import MAX_PASSES, LassoPath
from renyi.solvers.path_data import Material, columns_of
from renyi.solvers.ridge import Moments

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_SCOUT = 1e-2  # relative gap of the first walk
_EXTRA = 30  # penalties added where several features enter at once
_LEAST_RATIO = 1e-3  # how far down to look for more features
_ROUNDING = 1e-12  # of a probability

_UPPER = 0.2  # of the largest penalty: above it the path is walked again
_EXACTLY = 1e-8  # relative gap there
_PASSES = 10_000  # for each penalty there
_ROUNDS = 5  # of smaller steps there
_APART = 1e-3  # penalties that differ by less, relatively, are not told apart
_EQUAL = 0.05  # nor are points just after an entry


# ---- which penalties


def penalties(material: Material, n_lambdas: int, ratio: float) -> Floats:
    """Return the penalties of a path, falling from the largest that matters."""
    one = material.path(n_lambdas=1, ratio=ratio, tol=1.0)
    return np.asarray(one.lambdas[0] * np.geomspace(1, ratio, n_lambdas))


def down_to(grid: Floats, least: float) -> Floats:
    """Return the penalties of a path above some penalty, and this one.

    The path goes on as far as needed, in steps as before down to a thousandth of the
    largest penalty.

    >>> down_to(np.array([1.0, 0.1]), 0.05)
    array([1.  , 0.1 , 0.05])
    >>> down_to(np.array([1.0, 0.1]), 1e-5)
    array([1.e+00, 1.e-01, 1.e-02, 1.e-03, 1.e-05])
    """
    if least < grid[-1]:
        grid = _longer(grid)
    above = grid[grid > least * (1 + 1e-9)]
    if least >= grid[-1]:
        return np.append(above, least)
    further = np.geomspace(grid[-1], least, max(len(grid) // 2, 2))
    return np.concatenate([above, further[1:]])


def refined(material: Material, grid: Floats, at_least: int) -> Floats:
    """Add penalties where a first walk sees several features enter at once.

    Parameters
    ----------
    material : Material
        Counts or rows.
    grid : ndarray of shape (L,)
        The penalties, falling.
    at_least : int
        Number of features after which to end; 0 for all penalties.
    """
    first_walk = material.path(grid, tol=_SCOUT)
    if first_walk.active.any(axis=0).sum() < at_least:
        grid = _longer(grid)
        first_walk = material.path(grid, tol=_SCOUT)
    entering = _counts_of_entries(first_walk)
    return _split(grid[: _enough(entering, at_least)], entering)


def _longer(grid: Floats) -> Floats:
    """Go on to smaller penalties, in steps as before.

    >>> _longer(np.array([1.0, 0.1]))
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    step, least = grid[1] / grid[0], _LEAST_RATIO * grid[0]
    count = max(int(np.ceil(np.log(least / grid[-1]) / np.log(step) - 1e-9)), 0)
    return np.concatenate([grid, grid[-1] * step ** np.arange(1, count + 1)])


def _enough(entering: Places, at_least: int) -> int | None:
    """Return after how many penalties enough features have entered; None for all."""
    if not at_least:
        return None
    reached = np.flatnonzero(np.cumsum(entering) >= at_least)
    # A step more, since the first walk is a coarse one.
    return int(reached[0]) + 2 if reached.size else None


def _counts_of_entries(found: LassoPath) -> Places:
    """Return how many features have points for the first time, at each penalty."""
    seen = np.logical_or.accumulate(found.active, axis=0).sum(axis=1)
    return np.asarray(np.diff(seen, prepend=0), np.int64)


def _split(grid: Floats, entering: Places) -> Floats:
    """Split the steps in which several features enter, the largest penalties first.

    >>> _split(np.array([8.0, 4.0, 2.0]), np.array([0, 2, 1]))
    array([8.        , 5.65685425, 4.        , 2.        ])
    """
    pieces, left = [grid[:1]], _EXTRA
    for k in range(1, len(grid)):
        extra = min(max(int(entering[k]) - 1, 0), left)
        left -= extra
        pieces.append(np.geomspace(grid[k - 1], grid[k], extra + 2)[1:])
    return np.concatenate(pieces)


# ---- the walk


def walked(
    material: Material,
    grid: Floats,
    tol: float,
    at_least: int,
    max_passes: int = MAX_PASSES,
) -> LassoPath:
    """Return the path over some penalties, and over more where features enter together.

    Parameters
    ----------
    material : Material
        Counts or rows.
    grid : ndarray of shape (L,)
        The penalties, falling.
    tol : float
        Duality gap to be reached, relative to the objective.
    at_least : int
        Number of features after which to end, and for which to go on to smaller
        penalties; 0 for the penalties of the grid.
    max_passes : int
        Passes after which a penalty is given up.

    Examples
    --------
    >>> import renyi
    >>> from renyi.solvers.path_data import FromCounts
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> found = walked(FromCounts.of(m), np.array([0.8, 0.1]), 1e-4, 0)
    >>> found.active.sum(axis=1)[[0, -1]]
    array([1, 4])
    """
    end, asked = _longer(grid)[-1], at_least
    while True:
        lambdas = refined(material, grid, asked)
        found = material.path(lambdas, tol=tol, max_passes=max_passes)
        found = sharpened(material, found)
        entered = int(found.active.any(axis=0).sum())
        if entered >= at_least or found.lambdas[-1] <= end * (1 + 1e-9):
            return found
        # The coarse walk ended too soon: it saw features enter that do not.
        asked *= 2


def sharpened(material: Material, found: LassoPath) -> LassoPath:
    """Return a path whose upper part is solved exactly, in smaller steps if need be.

    Parameters
    ----------
    material : Material
        What the path was computed from.
    found : LassoPath
        The path. All its penalties stay.
    """
    upper = found.lambdas[found.lambdas >= _UPPER * found.lambdas[0]]
    for _ in range(_ROUNDS):
        with warnings.catch_warnings():
            # It is enough that the gap asked for is reached, see below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            sure = material.path(upper, tol=_EXACTLY, max_passes=_PASSES)
        closer = _between(upper, _counts_of_entries(sure))
        if not closer.size:
            break
        upper = np.sort(np.concatenate([upper, closer]))[::-1]
    sure = replace(sure, tol=found.tol)
    return _joined(sure, found) if sure.converged else found


def _between(lambdas: Floats, entering: Places) -> Floats:
    """Return penalties within the steps in which several features enter.

    >>> _between(np.array([16.0, 1.0]), np.array([0, 2]))
    array([8., 4., 2.])
    """
    above, below = lambdas[:-1], lambdas[1:]
    crowded = (entering[1:] > 1) & (above > (1 + _APART) * below)
    parts = np.array([0.25, 0.5, 0.75])[:, None]
    return np.ravel(above[crowded] ** (1 - parts) * below[crowded] ** parts)


def _joined(upper: LassoPath, found: LassoPath) -> LassoPath:
    """Return a path that begins with another one."""
    rest = found.lambdas < upper.lambdas[-1]
    names = ("lambdas", "z", "intercepts", "objectives", "gaps", "active", "iterations")
    pairs = {name: (getattr(upper, name), getattr(found, name)) for name in names}
    return LassoPath(
        **{name: np.concatenate([a, b[rest]]) for name, (a, b) in pairs.items()},
        tol=found.tol,
    )


# ---- the order


def entries(found: LassoPath, sizes: Places) -> tuple[Places, Places]:
    """Return the features that enter, in order, and at which penalty each does."""
    ever = np.flatnonzero(found.active.any(axis=0))
    first = found.active[:, ever].argmax(axis=0)
    z, _ = columns_of(found)
    largest = np.maximum.reduceat(np.abs(z).max(axis=2), offsets(sizes)[:-1], axis=1)
    order = np.lexsort((ever, _steps_of(first, largest[first, ever])))
    return ever[order].astype(np.int64), first[order].astype(np.int64)


def _steps_of(first: Places, points: Floats) -> Places:
    """Return ranks by entry and size of points; what is about equal has the same.

    >>> _steps_of(np.array([1, 1, 0, 1]), np.array([0.2, 0.201, 0.1, 0.9]))
    array([2, 2, 0, 1])
    """
    order = np.lexsort((-points, first))
    first, points = first[order], points[order]
    later = first[1:] > first[:-1]
    smaller = points[1:] < (1 - _EQUAL) * points[:-1]
    steps = np.zeros(len(order), np.int64)
    steps[order[1:]] = np.cumsum(later | smaller)
    return steps


def latecomers(
    material: Material, found: LassoPath, order: Places, at_least: int
) -> Places:
    """Return features without points that may be needed to make up the number."""
    if at_least <= 0 and len(order):
        return np.empty(0, np.int64)
    z, b = columns_of(found)
    norms = material.norms(z[-1], b[-1])
    norms[order] = -1
    # Equal but for rounding is equal: duplicated columns come in their order.
    places, sizes = np.arange(len(norms)), material.sizes
    ranked = np.lexsort((places, sizes == 1, -norms.round(12)))
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
