r"""The best features, k in number: the combinatorial problem behind Algorithm 1.

.. math:: \min_{|S| = k} \gamma_S, \qquad
          \gamma_S = \min \{\gamma(z) + w\,\alpha \lVert z \rVert^2 :
          z_i = 0 \text{ for } i \notin S\}

with the moments of `renyi.solvers.ridge` (w = 1 for two classes, ½ for more); a small
alpha makes every system solvable, also with duplicated columns. For the moments A, R::

    γ_S = w (variance − tr R_Sᵀ (A_S + alpha)⁻¹ R_S)

*Forward selection* adds the feature that lowers γ_S most. *Branch and bound* starts
from all features and takes some away. With ``M = (A_S + alpha)⁻¹`` and Z = M R_S,
taking feature i away raises γ by ``cost_i = w tr Z_iᵀ (M_ii)⁻¹ Z_i``. Taking r features
away raises it by at least the largest of their costs, hence by at least the r-th
smallest of all costs: where that is not below the best set known, the branch is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import spans
from renyi.solvers.l1inf import places_of
from renyi.solvers.ridge import Moments, weight_of
from renyi.validation import check_positive

Floats = NDArray[np.float64]

ALPHA = 1e-6
ALMOST_NONE = f": {ALPHA:g} is almost none"
MOST_FEATURES = 20
# Rounding of values: systems have condition numbers up to 1/ALPHA. A set is proven to
# be the best up to this.
_EQUAL = 1e-10


@dataclass(frozen=True)
class Subset:
    """A set of features and its value."""

    features: tuple[int, ...]  # in order of entry by forward selection, else ascending
    value: float  # γ_S, the ridge term included
    nodes: int = 0  # sets of which all ways to take one feature away were looked at


class _Node(NamedTuple):
    """A set: its features, which of them may go, the inverse, points and value."""

    features: NDArray[np.int64]
    free: NDArray[np.bool_]
    M: Floats
    Z: Floats
    value: float


def subset_value(
    equations: Moments, sizes: NDArray[Any], features: Any, alpha: float = ALPHA
) -> float:
    """Return γ_S of a set of features."""
    return _node(equations, sizes, np.asarray(features, np.int64), alpha).value


def _node(
    equations: Moments, sizes: NDArray[Any], features: NDArray[np.int64], alpha: float
) -> _Node:
    """Return a set, all of whose features may go."""
    places = places_of(features, np.asarray(sizes, np.int64))
    A = equations.A[np.ix_(places, places)]
    R = equations.R[places]
    M = np.linalg.inv(A + alpha * np.eye(len(places)))
    M = (M + M.T) / 2
    Z = M @ R
    value = weight_of(equations.n_classes) * (equations.variance - float(np.vdot(R, Z)))
    return _Node(features, np.ones(len(features), bool), M, Z, value)


def forward(
    equations: Moments,
    sizes: NDArray[Any],
    k: int | None = None,
    alpha: float = ALPHA,
) -> list[Subset]:
    """Return sets of 0, 1, …, k features, each with the one more that lowers γ most.

    `equations` is what `renyi.solvers.ridge.moments` returns, `sizes` the numbers of
    the features' categories; by default k is the number of features.
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
    found = [Subset((), weight * equations.variance)]
    # Moments of what the chosen features leave unexplained.
    A = equations.A + alpha * np.eye(D)
    R = equations.R.copy()
    for _ in range(k):
        gains = [
            -1.0 if i in chosen else _explained(A[own, own], R[own])
            for i, own in enumerate(own_places)
        ]
        best = int(np.argmax(gains))
        own = own_places[best]
        solved = np.linalg.solve(A[own, own], np.hstack([A[own], R[own]]))
        R = R - A[:, own] @ solved[:, D:]
        A = A - A[:, own] @ solved[:, :D]
        chosen.append(best)
        found.append(Subset(tuple(chosen), found[-1].value - weight * gains[best]))
    return found


def _explained(A: Floats, R: Floats) -> float:
    """Return ``tr Rᵀ A⁻¹ R``."""
    return float(np.vdot(R, np.linalg.solve(A, R)))


def best_subset(
    equations: Moments, sizes: NDArray[Any], k: int, alpha: float = ALPHA
) -> Subset:
    """Return the set of k features with the smallest γ_S, proven; of 20 at most."""
    sizes = np.asarray(sizes, np.int64)
    d = len(sizes)
    weight = weight_of(equations.n_classes)
    if d > MOST_FEATURES:
        raise ValueError(
            f"best_subset takes at most {MOST_FEATURES} features, not {d}. "
            "Use forward selection or a path of penalties."
        )
    start = forward(equations, sizes, k, alpha)[-1]
    if k in (0, d):
        return Subset(tuple(sorted(start.features)), start.value)
    search = _Search(sizes, k, weight, start.features, start.value)
    search.explore(_node(equations, sizes, np.arange(d), alpha))
    best = tuple(sorted(search.best))
    return Subset(best, subset_value(equations, sizes, best, alpha), search.nodes)


@dataclass
class _Search:
    """Depth first through the sets, from all features down to k."""

    sizes: NDArray[np.int64]
    k: int
    weight: float
    best: tuple[int, ...]
    value: float
    nodes: int = 0

    def explore(self, node: _Node) -> None:
        """Look at the sets below one; those that cannot be better are left out."""
        self.nodes += 1
        surplus = len(node.features) - self.k
        free = np.flatnonzero(node.free)
        places = spans(self.sizes[node.features])
        costs = self.weight * np.array(
            [_explained(node.M[places[j], places[j]], node.Z[places[j]]) for j in free]
        )
        if surplus == 1:
            value = node.value + float(costs.min())
            if value < self.value - _EQUAL:
                left = np.delete(node.features, free[costs.argmin()])
                self.value = value
                self.best = tuple(left.tolist())
            return
        # The dearest to lose goes first, and stays in all the sets that follow.
        order = np.argsort(-costs)
        free = free[order]
        costs = costs[order]
        for first in range(len(free) - surplus, -1, -1):
            # Features free[first:] are left to choose from, free[first] goes.
            bound = max(costs[first], costs[len(free) - surplus])
            if node.value + bound < self.value - _EQUAL:
                gone = int(free[first])
                rise = float(costs[first])
                self.explore(
                    _without(node, gone, places[gone], free[first + 1 :], rise)
                )


def _without(
    node: _Node, gone: int, own: slice, free: NDArray[np.int64], rise: float
) -> _Node:
    """Take a feature away; only those in `free` may go after it."""
    kept = np.ones(len(node.M), bool)
    kept[own] = False
    across = np.linalg.solve(node.M[own, own], node.M[own][:, kept])
    M = node.M[np.ix_(kept, kept)] - node.M[kept, own] @ across
    Z = node.Z[kept] - across.T @ node.Z[own]
    may_go = np.isin(np.arange(len(node.features)), free)
    left = np.delete(node.features, gone), np.delete(may_go, gone)
    return _Node(*left, M, Z, node.value + rise)
