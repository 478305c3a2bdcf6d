r"""Train on tables that are known to intervals: the points of the smallest guarantee.

The risk γ(z; T) is linear in the tables T and, where Q(T) + λI is positive definite,
convex in z with the ridge penalty. So minimising the largest penalised risk,

.. math:: \min_z \max_T γ(z; T) + λ \|z\|^2,

is a saddle point, and Frank and Wolfe's method finds it from two solvers that exist. In
each round, z is the ridge solution at T. The linear program over the intervals finds
the tables T' of the largest risk of z, and proves a guarantee of z. Then T moves
towards T' by the step that maximises the smallest penalised risk. The smallest
guarantee counts, whatever z it comes from.

λ falls from `_FIRST` by the factor `_FACTOR`, and each λ starts from the tables of the
last, as long as the guarantees fall.

Where no ridge solution at the estimated tables has a guarantee below the error of
always answering the same class, the rounds would not help. Of these solutions, that
counts which has the smallest risk at the estimated tables, with a guarantee at most
`_NEAR` above the smallest. The share was chosen on adult at five sites: there the
points of the smallest guarantee were wrong on 15.7 % of new rows, those of exact counts
on 14.3 %.

Tables with noise have λ = `_OF_NOISE` times the operator norm to expect of the noise.
The λ of the smallest guarantee is much larger, and less accurate: the guarantee holds
for all scores at once. (Errors on new rows, votes and kr-vs-kp, ρ = .5: 5.3 and 8.8
against 7.4 and 9.7 %; guarantees of rule sharp 41 and 46 against 31 and 38 %.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.intervals import (
    Functional,
    KnownTables,
    Tables,
    box_bound,
    folded,
    independent_within,
    squared_error,
)
from renyi.certificates.noise import NoisyTables
from renyi.robust.interval_bounds import program_of
from renyi.robust.interval_program import n_cells
from renyi.solvers import ridge

Floats = NDArray[np.float64]
# Returns a bound on a function of the tables, and tables that nearly attain it.
_Largest = Callable[[Functional], tuple[float, Tables | None]]

_FIRST = 0.3
_OF_NOISE = 0.3
_FACTOR = 0.75
_LEAST = 1e-5
_PATIENCE = 4  # penalties that are tried after the best one
_NEAR = 0.25  # how far a useless guarantee may be above the smallest, as a share
_ROUNDS = 6  # for each penalty
_GAIN = 1e-5  # of the smallest penalised risk; with less, the rounds of a penalty end
_MIXED = 0.02  # share of independent columns that is tried first
_FEW_CELLS = 40_000  # of a program that is solved dozens of times
_STEPS = 14  # of a golden section
_GOLDEN = (5**0.5 - 1) / 2


class Points(NamedTuple):
    """A ridge solution: points, intercept, penalty, and its guarantee 2γ."""

    solution: ridge.RidgeFit
    bound: float


def ridge_at(
    tables: Tables, alpha: float, n: float, fit_intercept: bool
) -> ridge.RidgeFit:
    """Return the ridge solution at some tables."""
    equations = ridge.moments(*tables, fit_intercept)
    return ridge.fit_primal(equations, n, 1, alpha)


def scores_of(solution: ridge.RidgeFit) -> tuple[Floats, Floats]:
    """Return points and intercept of all classes."""
    z = solution.z
    b = solution.intercept
    if z.shape[1] == 1:
        return np.hstack([-z, z]), np.append(-b, b)
    return z, b


def penalties(factor: float = _FACTOR) -> Iterator[float]:
    """Yield the penalties, from the largest."""
    alpha = _FIRST
    while alpha > _LEAST:
        yield alpha
        alpha *= factor


def without_guarantee(
    known: KnownTables, largest: _Largest, fit_intercept: bool
) -> Points | None:
    """Return points where no guarantee is useful; None where one may be."""
    d = len(known.sizes)
    always = 1 - float(known.start.priors.max())
    every: list[tuple[Points, float]] = []  # with the risk at the estimated tables
    smallest = np.inf
    for alpha in penalties(_FACTOR**2):
        tables = definite(known.start, known.sizes, alpha, fit_intercept)
        solution = ridge_at(tables, alpha, known.n[1], fit_intercept)
        points, intercept = scores_of(solution)
        error = squared_error(points + intercept / d)
        bound, _ = largest(error)
        if bound < always:
            return None
        every.append((Points(solution, bound), error.at(known.start, known.sizes)))
        smallest = min(smallest, bound)
        if bound > (1 + _NEAR) * smallest:
            break
    near = [each for each in every if each[0].bound <= (1 + _NEAR) * smallest]
    return min(near, key=lambda each: each[1])[0]


def smallest_guarantee(
    known: KnownTables,
    largest: _Largest,
    fit_intercept: bool = True,
) -> Points:
    """Return the points with the smallest guarantee that the rounds find.

    Parameters
    ----------
    known : KnownTables
        Intervals of the counts.
    largest : callable
        Returns a bound on a function of the tables, and tables that nearly attain it,
        or None. Without tables, each penalty has one round.
    fit_intercept : bool
        Whether the scores have an intercept without penalty.
    """
    n = known.n[1]
    d = len(known.sizes)
    tables = known.start
    best: Points | None = None
    waited = 0
    for alpha in penalties():
        tables = definite(tables, known.sizes, alpha, fit_intercept)
        least = np.inf
        for _ in range(_ROUNDS):
            solution = ridge_at(tables, alpha, n, fit_intercept)
            points, intercept = scores_of(solution)
            bound, worst = largest(squared_error(points + intercept / d))
            if bound < least:
                least = bound
                nearest = Points(solution, bound)
            if worst is None:
                break
            moved, gain = _step(tables, worst, alpha, fit_intercept)
            tables = moved
            if gain < _GAIN:
                break
        if best is None or least < best.bound:
            best = nearest
            waited = 0
        else:
            waited += 1
            if waited == _PATIENCE:
                break
    assert best is not None
    return best


def certified_points(
    known: KnownTables | NoisyTables, fit_intercept: bool
) -> ridge.RidgeFit:
    """Return the points of the smallest guarantee, with the penalty that led to them.

    Programs of many cells, and a solver that is not installed, leave the box to choose
    the penalty. Tables with noise have one in proportion to the noise.
    """
    if isinstance(known, NoisyTables):
        alpha = _OF_NOISE * known.spread / known.n
        start = definite(known.start, known.sizes, alpha, fit_intercept)
        solution = ridge_at(start, alpha, known.n, fit_intercept)
        return solution._replace(choice=replace(solution.choice, method="noise"))
    largest = _largest_of(known)
    best = without_guarantee(known, largest, fit_intercept)
    if best is None:
        best = smallest_guarantee(known, largest, fit_intercept)
    choice = replace(best.solution.choice, method="certificate")
    return best.solution._replace(choice=choice)


def _largest_of(known: KnownTables) -> _Largest:
    """Return how to bound a function of the tables."""
    program = program_of(known) if n_cells(known) <= _FEW_CELLS else None
    if program is not None:
        return program.largest

    def by_box(function: Functional) -> tuple[float, Tables | None]:
        nothing = np.zeros(function.U.shape[1])
        gauges = folded(function.U, nothing, known)
        return min(box_bound(squared_error(U), known) for U in gauges), None

    return by_box


def _step(
    tables: Tables, worst: Tables, alpha: float, fit_intercept: bool
) -> tuple[Tables, float]:
    """Return tables nearer to the worst ones, and by how much the least risk grew."""

    def at(share: float) -> Tables:
        mixed = [a + share * (b - a) for a, b in zip(tables, worst, strict=True)]
        return Tables(*mixed)

    def value(share: float) -> float:
        return _least_risk(at(share), alpha, fit_intercept)

    low = 0.0
    high = 1.0
    left = high - _GOLDEN * (high - low)
    right = low + _GOLDEN * (high - low)
    at_left = value(left)
    at_right = value(right)
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    share = (low + high) / 2
    gain = value(share) - value(0.0)
    return (at(share), gain) if gain > 0 else (tables, 0.0)


def _least_risk(tables: Tables, alpha: float, fit_intercept: bool) -> float:
    """Return ``min_z γ(z) + alpha‖z‖²``; −inf where Q + alpha is not definite."""
    equations = ridge.moments(*tables, fit_intercept)
    try:
        inverse = ridge.inverse_factor(equations.A, alpha)
    except ValueError:
        return -np.inf
    return equations.variance - float(((inverse @ equations.R) ** 2).sum())


def definite(
    tables: Tables, sizes: NDArray[np.intp], alpha: float, fit_intercept: bool
) -> Tables:
    """Mix independent columns within each class in until Q + alpha is definite."""
    independent = independent_within(tables.F, tables.priors, sizes)
    share = 0.0
    while share < 1.0:
        Q = (1 - share) * tables.Q + share * independent
        mixed = tables._replace(Q=Q)
        if np.isfinite(_least_risk(mixed, alpha, fit_intercept)):
            return mixed
        share = max(_MIXED, 1.5 * share)
    return tables._replace(Q=independent)
