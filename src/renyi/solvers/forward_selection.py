r"""Forward selection: evaluate a set of features, and grow a set one by one.

.. math:: \gamma_S = \min \{\gamma(z) + w\,\alpha \lVert z \rVert^2 :
          z_i = 0 \text{ for } i \notin S\}

The moments are those of `renyi.solvers.ridge`; w = 1 for two classes, ½ for more. A
small alpha makes every system solvable, even with duplicated columns. For the moments
A, R::

    γ_S = w (variance − tr R_Sᵀ (A_S + alpha)⁻¹ R_S)

Forward selection adds the feature that lowers γ_S most. `experiments.branch_and_bound`
compares it with the best set of k features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import spans
from renyi.solvers.l1inf import places_of
from renyi.solvers.ridge import Moments, weight_of
from renyi.validation import check_positive

Floats = NDArray[np.float64]

ALPHA = 1e-6
ALMOST_NONE = f": {ALPHA:g} is almost none"


@dataclass(frozen=True)
class Subset:
    """A set of features and its value."""

    features: tuple[int, ...]  # in order of entry
    value: float  # γ_S, the ridge term included


class SubsetSolution(NamedTuple):
    """The solved system of a set: ``M = (A_S + alpha)⁻¹``, ``Z = M R_S`` and γ_S."""

    M: Floats
    Z: Floats
    value: float


def subset_value(
    equations: Moments, sizes: ArrayLike, features: ArrayLike, alpha: float = ALPHA
) -> float:
    """Return γ_S of a set of features."""
    return solve_subset(equations, sizes, features, alpha).value


def solve_subset(
    equations: Moments, sizes: ArrayLike, features: ArrayLike, alpha: float
) -> SubsetSolution:
    """Solve the system of a set of features."""
    features = np.asarray(features, np.int64)
    places = places_of(features, np.asarray(sizes, np.int64))
    A = equations.A[np.ix_(places, places)]
    R = equations.R[places]
    M = np.linalg.inv(A + alpha * np.eye(len(places)))
    M = (M + M.T) / 2
    Z = M @ R
    value = weight_of(equations.n_classes) * (equations.variance - float(np.vdot(R, Z)))
    return SubsetSolution(M, Z, value)


def forward(
    equations: Moments,
    sizes: ArrayLike,
    k: int | None = None,
    alpha: float = ALPHA,
) -> list[Subset]:
    """Return sets of 0, 1, …, k features; each adds the one that lowers γ most.

    `equations` is the result of `renyi.solvers.ridge.moments`, `sizes` the number of
    categories of each feature. By default k is the number of features.
    """
    sizes = np.asarray(sizes, np.int64)
    d = len(sizes)
    D = len(equations.A)
    own_places = spans(sizes)
    k = d if k is None else k
    if sizes.sum() != D:
        raise ValueError(
            f"sizes add up to {sizes.sum()}, but the moments have {D} categories."
        )
    if not 0 <= k <= d:
        raise ValueError(f"k={k} is not between 0 and {d}, the number of features.")
    check_positive("alpha", alpha, ALMOST_NONE)
    weight = weight_of(equations.n_classes)
    chosen = list[int]()
    subsets = [Subset((), weight * equations.variance)]
    # Moments of the residuals after regression on the chosen features.
    A = equations.A + alpha * np.eye(D)
    R = equations.R.copy()
    for _ in range(k):
        gains = [
            -1.0 if i in chosen else explained_risk(A[own, own], R[own])
            for i, own in enumerate(own_places)
        ]
        best = int(np.argmax(gains))
        own = own_places[best]
        solved = np.linalg.solve(A[own, own], np.hstack([A[own], R[own]]))
        R = R - A[:, own] @ solved[:, D:]
        A = A - A[:, own] @ solved[:, :D]
        chosen.append(best)
        subsets.append(Subset(tuple(chosen), subsets[-1].value - weight * gains[best]))
    return subsets


def explained_risk(A: Floats, R: Floats) -> float:
    """Return ``tr Rᵀ A⁻¹ R``."""
    return float(np.vdot(R, np.linalg.solve(A, R)))
