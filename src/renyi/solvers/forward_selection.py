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
    functions: NDArray[np.bool_] | None = None,
) -> list[Subset]:
    """Return sets of 0, 1, …, k features; each adds the one that lowers γ most.

    `equations` is the result of `renyi.solvers.ridge.moments`, `sizes` the number of
    categories of each feature. By default k is the number of features.
    ``functions[i, j]`` says whether feature j is a function of feature i. Such features
    come last: they add nothing to i, except that the penalty on both is smaller.
    """
    sizes = np.asarray(sizes, np.int64)
    d = len(sizes)
    D = len(equations.A)
    k = d if k is None else k
    if sizes.sum() != D:
        raise ValueError(
            f"sizes add up to {sizes.sum()}, but the moments have {D} categories."
        )
    if not 0 <= k <= d:
        raise ValueError(f"k={k} is not between 0 and {d}, the number of features.")
    check_positive("alpha", alpha, ALMOST_NONE)
    weight = weight_of(equations.n_classes)
    rest = _Unexplained(equations, sizes, alpha)
    chosen = list[int]()
    subsets = [Subset((), weight * equations.variance)]
    for _ in range(k):
        gains = rest.gains()
        if functions is not None:
            gains[functions[chosen].any(axis=0)] = -0.25
        gains[sizes == 1] = -0.5  # constants come last
        gains[chosen] = -1.0
        # Equal but for rounding is equal: copies of a column come in their order.
        best = int(np.argmax(gains.round(12)))
        rest.explain(best)
        chosen.append(best)
        value = subsets[-1].value - weight * max(float(gains[best]), 0.0)
        subsets.append(Subset(tuple(chosen), value))
    return subsets


class _Unexplained:
    """What the chosen features leave unexplained: ``A + alpha − B Bᵀ`` and R.

    Gains need the blocks on the diagonal alone. So these are updated, and the other
    entries are computed from B for one feature at a time.
    """

    def __init__(
        self, equations: Moments, sizes: NDArray[np.int64], alpha: float
    ) -> None:
        self.A = equations.A
        self.alpha = alpha
        self.R = equations.R.copy()
        self.B = np.empty((len(self.A), 0))
        self.places = spans(sizes)
        self.blocks = [
            self.A[own, own] + alpha * np.eye(own.stop - own.start)
            for own in self.places
        ]
        self.of_size = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]

    def gains(self) -> Floats:
        """Return by how much each feature would lower the squared error."""
        gains = np.empty(len(self.places))
        for features in self.of_size:
            blocks = np.stack([self.blocks[i] for i in features])
            R = np.stack([self.R[self.places[i]] for i in features])
            gains[features] = (R * np.linalg.solve(blocks, R)).sum(axis=(1, 2))
        return gains

    def explain(self, feature: int) -> None:
        """Take out what a feature explains."""
        own = self.places[feature]
        columns = self.A[:, own] - self.B @ self.B[own].T
        columns[own] = self.blocks[feature]
        factor = np.linalg.cholesky(self.blocks[feature])
        new = np.linalg.solve(factor, columns.T).T
        self.R = self.R - new @ np.linalg.solve(factor, self.R[own])
        self.B = np.hstack([self.B, new])
        for place, block in zip(self.places, self.blocks, strict=True):
            block -= new[place] @ new[place].T
        self.blocks[feature] = np.eye(len(factor))  # nothing is left of it
