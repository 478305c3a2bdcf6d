"""The path of Algorithm 1 over packed genotypes: few of very many variants.

The problem of `renyi.solvers.l1inf`, each variant a feature of four categories. It is
solved over some thousand variants, those with the largest ‖G_i‖₁ at the beginning. Then
products of the packed genotypes with the residuals of every penalty give the norms of
*all* variants, and with the largest of them the duality gap over all: where that is too
large, the variants whose norm is above the penalty join, and the path is solved again.
What is returned thus is as near to the optimum over all variants as was asked for, and
only some of them were ever unpacked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.packed import CODES, PackedGenotypes, packed_of, sums
from renyi.solvers.l1inf import RowsProblem, StepCounter
from renyi.solvers.l1inf_path import (
    MAX_PASSES,
    TOL,
    LassoPath,
    duality_gap,
    entries,
    solve_path,
)
from renyi.validation import check_positive, check_share, check_whole
from renyi.warnings import warn

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

START = 2_000
"""Variants to begin with, and at most so many join at a time."""
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class GenotypePath:
    """Variants in order of entry, and the solutions along falling penalties.

    Parameters
    ----------
    variants : ndarray of shape (k,)
        The variants that get points, in order of entry.
    entered : ndarray of shape (k,)
        The penalty at which each has points for the first time.
    lambdas, gaps, objectives : ndarray of shape (L,)
        The penalties; how far each solution is at most above the optimum over all
        variants; its value γ(z) + λ Σ max|z_i|.
    points : ndarray of shape (L, k, 4)
        Points by code of these variants at every penalty.
    intercepts : ndarray of shape (L,)
        Scores before any points; positive scores are for the second class.
    looked_at : int
        Variants that were unpacked at all.
    """

    variants: Places
    entered: Floats
    lambdas: Floats
    gaps: Floats
    objectives: Floats
    points: Floats
    intercepts: Floats
    looked_at: int


def genotype_path(
    G: Any,
    y: ArrayLike,
    *,
    n_lambdas: int = 20,
    ratio: float = 0.3,
    tol: float = TOL,
    max_passes: int = MAX_PASSES,
) -> GenotypePath:
    """Choose variants by the l1,∞ path, exactly, out of millions.

    Parameters
    ----------
    G : PackedGenotypes, or an object that has them as ``packed``
        The genotypes; missing is a category.
    y : array-like of shape (n,)
        The class of every sample, of two.
    n_lambdas : int, default=20
        Number of penalties.
    ratio : float, default=0.3
        The smallest as a share of the largest that matters. With more variants than
        samples small penalties choose about as many variants as there are samples.
    tol : float, default=1e-4
        Duality gap over all variants to be reached, relative to the objective.
    max_passes : int, default=30,000
        Passes after which a penalty is given up, with a warning.

    Returns
    -------
    GenotypePath

    Notes
    -----
    An error of a model that is fitted to the chosen variants is honest only on samples
    that took no part in choosing them.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.packed import PackedGenotypes
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 80)
    >>> codes = np.array([3, 2, 0])[rng.binomial(2, 0.4, (500, 80))]
    >>> codes[7] = np.where(rng.random(80) < 0.9, 3 * y, 2)
    >>> path = genotype_path(PackedGenotypes.from_codes(codes), y)
    >>> int(path.variants[0]), bool((path.gaps <= 1e-4).all())
    (7, True)
    """
    genotypes = packed_of(G)
    check_whole("n_lambdas", n_lambdas, 2)
    check_share("ratio", ratio)
    check_positive("tol", tol)
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) != 2 or len(labels) != genotypes.n:
        raise ValueError(
            f"y must hold two classes, one value for each of {genotypes.n} samples."
        )
    target = (labels - labels.mean()) / genotypes.n
    norms = _norms(genotypes, target)
    lambdas = 2 * norms.max() * np.geomspace(1, ratio, n_lambdas)
    steps = StepCounter()
    chosen = np.sort(np.argsort(-norms, kind="stable")[:START])
    for _ in range(_ROUNDS):
        solved = chosen
        codes = genotypes.take(variants=chosen).codes()
        sizes = np.full(len(chosen), CODES)
        problem = RowsProblem(codes, sizes, labels, 2, steps=steps)
        found = solve_path(problem, lambdas, tol / 2, max_passes)
        gaps, more = _check(genotypes, problem, found, tol, chosen)
        if not more.size:
            break
        chosen = np.union1d(chosen, more)
    else:
        warn(
            f"After {_ROUNDS} rounds some variants were still to be added: at some "
            "penalties the gap over all variants is larger than requested. See `gaps`; "
            "a larger `ratio` converges sooner.",
            "not-converged",
        )
    order, first = entries(found, sizes)
    return GenotypePath(
        variants=solved[order],
        entered=lambdas[first],
        lambdas=lambdas,
        gaps=gaps,
        objectives=found.objectives,
        points=found.z.reshape(n_lambdas, len(solved), CODES)[:, order],
        intercepts=found.intercepts,
        looked_at=len(solved),
    )


def _norms(G: PackedGenotypes, state: Floats) -> Floats:
    """Return ‖G_i‖₁ of every variant."""
    return np.asarray(np.abs(sums(G, state)).sum(axis=1))


def _check(
    G: PackedGenotypes,
    problem: RowsProblem,
    found: LassoPath,
    tol: float,
    chosen: Places,
) -> tuple[Floats, Places]:
    """Return gaps over all variants, and those that must join."""
    gaps = np.zeros(len(found.lambdas))
    excess = np.zeros(G.d)
    for k, (z, _) in enumerate(found.solutions()):
        penalty = found.lambdas[k] / 2
        problem.move_to(z.T)
        norms = _norms(G, problem.state[0])
        points = float(problem.largest_points().sum())
        value, gap = duality_gap(problem, penalty, points, float(norms.max()))
        gaps[k] = 2 * gap
        if gap > tol * value:
            np.maximum(excess, norms / penalty - 1, out=excess)
    excess[chosen] = 0
    order = np.argsort(-excess, kind="stable")[:START]
    return gaps, order[excess[order] > 0]
