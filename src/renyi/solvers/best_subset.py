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

from renyi.checks import check_positive
from renyi.counting.onehot import offsets
from renyi.solvers.l1inf import places_of
from renyi.solvers.ridge import Moments, weight_of

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
    chosen = np.asarray(features, np.int64)
    if not chosen.size:
        return weight_of(equations.n_classes) * equations.variance
    return _node(equations, sizes, chosen, alpha).value


def _node(
    equations: Moments, sizes: NDArray[Any], features: NDArray[np.int64], alpha: float
) -> _Node:
    """Return a set, all of whose features may go."""
    places = places_of(features, np.asarray(sizes, np.int64))
    A, R = equations.A[np.ix_(places, places)], equations.R[places]
    M = np.linalg.inv(A + alpha * np.eye(len(places)))
    M = (M + M.T) / 2
    Z = M @ R
    value = weight_of(equations.n_classes) * (equations.variance - float(np.vdot(R, Z)))
    return _Node(features, np.ones(len(features), bool), M, Z, value)


def _check(equations: Moments, sizes: NDArray[Any], k: int, alpha: float) -> None:
    d = len(sizes)
    if int(np.sum(sizes)) != len(equations.A):
        raise ValueError(
            f"sizes add up to {int(np.sum(sizes))}, but the moments have "
            f"{len(equations.A)} categories."
        )
    if not 0 <= k <= d:
        raise ValueError(f"k={k} is not between 0 and {d}, the number of features.")
    check_positive("alpha", alpha, ALMOST_NONE)


def forward(
    equations: Moments,
    sizes: NDArray[Any],
    k: int | None = None,
    alpha: float = ALPHA,
) -> list[Subset]:
    """Return sets of 0, 1, …, k features, each with the one more that lowers γ most.

    Parameters
    ----------
    equations : Moments
        What `renyi.solvers.ridge.moments` returns.
    sizes : ndarray of d ints
        Number of categories of each feature.
    k : int, optional
        Number of features to stop at; by default all.
    alpha : float, default=1e-6
        Ridge, to make every system solvable.
    """
    lengths = np.asarray(sizes, np.int64)
    k = len(lengths) if k is None else k
    _check(equations, lengths, k, alpha)
    chosen: list[int] = []
    # Moments of what the chosen features leave unexplained.
    A = equations.A + alpha * np.eye(len(equations.A))
    R, starts = equations.R.copy(), offsets(lengths)
    weight = weight_of(equations.n_classes)
    found = [Subset((), weight * equations.variance)]
    for _ in range(k):
        gains = [
            -1.0 if i in chosen else _gain(A, R, slice(starts[i], starts[i + 1]))
            for i in range(len(lengths))
        ]
        best = int(np.argmax(gains))
        own = slice(starts[best], starts[best + 1])
        solved = np.linalg.solve(A[own, own], np.hstack([A[own], R[own]]))
        R = R - A[:, own] @ solved[:, len(A) :]
        A = A - A[:, own] @ solved[:, : len(A)]
        chosen.append(best)
        found.append(Subset(tuple(chosen), found[-1].value - weight * gains[best]))
    return found


def _gain(A: Floats, R: Floats, own: slice) -> float:
    """Return how much a feature explains of what is left."""
    return float(np.vdot(R[own], np.linalg.solve(A[own, own], R[own])))


def best_subset(
    equations: Moments, sizes: NDArray[Any], k: int, alpha: float = ALPHA
) -> Subset:
    """Return the set of k features with the smallest γ_S, proven; of 20 at most.

    The other parameters are those of `forward`.
    """
    lengths = np.asarray(sizes, np.int64)
    _check(equations, lengths, k, alpha)
    if len(lengths) > MOST_FEATURES:
        raise ValueError(
            f"best_subset takes at most {MOST_FEATURES} features, not {len(lengths)}. "
            "Use forward selection or a path of penalties."
        )
    start = forward(equations, lengths, k, alpha)[-1]
    if k in (0, len(lengths)):
        return Subset(tuple(sorted(start.features)), start.value)
    search = _Search(lengths, k, weight_of(equations.n_classes), start)
    search.explore(_node(equations, lengths, np.arange(len(lengths)), alpha))
    best = tuple(sorted(search.best))
    value = subset_value(equations, lengths, best, alpha)
    return Subset(best, value, search.nodes)


class _Search:
    """Depth first through the sets, from all features down to k."""

    def __init__(
        self, sizes: NDArray[np.int64], k: int, weight: float, start: Subset
    ) -> None:
        self.sizes, self.k, self.weight = sizes, k, weight
        self.best, self.value = start.features, start.value
        self.nodes = 0

    def explore(self, node: _Node) -> None:
        """Look at the sets below one; those that cannot be better are left out."""
        self.nodes += 1
        surplus = len(node.features) - self.k
        free = np.flatnonzero(node.free)
        costs = np.array([self._cost(node, j) for j in free.tolist()])
        if surplus == 1:
            gone = int(free[costs.argmin()])
            self._finish(node, gone, node.value + float(costs.min()))
            return
        # The dearest to lose goes first, and stays in all the sets that follow.
        order = np.argsort(-costs)
        free, costs = free[order], costs[order]
        for first in range(len(free) - surplus, -1, -1):
            # Features free[first:] are left to choose from, free[first] goes.
            bound = max(costs[first], costs[len(free) - surplus])
            if node.value + bound < self.value - _EQUAL:
                gone, rest = int(free[first]), free[first + 1 :]
                self.explore(self._without(node, gone, rest))

    def _finish(self, node: _Node, gone: int, value: float) -> None:
        if value < self.value - _EQUAL:
            self.value = value
            self.best = tuple(np.delete(node.features, gone).tolist())

    def _places(self, node: _Node, j: int) -> slice:
        starts = offsets(self.sizes[node.features])
        return slice(starts[j], starts[j + 1])

    def _cost(self, node: _Node, j: int) -> float:
        """Return the rise of γ when the j-th feature is taken away."""
        own = self._places(node, j)
        Z = node.Z[own]
        return self.weight * float(np.vdot(Z, np.linalg.solve(node.M[own, own], Z)))

    def _without(self, node: _Node, j: int, free: NDArray[np.int64]) -> _Node:
        """Take the j-th feature away; only those in `free` may go after it."""
        own = self._places(node, j)
        kept = np.ones(len(node.M), bool)
        kept[own] = False
        across = np.linalg.solve(node.M[own, own], node.M[own][:, kept])
        M = node.M[np.ix_(kept, kept)] - node.M[kept, own] @ across
        Z = node.Z[kept] - across.T @ node.Z[own]
        may_go = np.zeros(len(node.features), bool)
        may_go[free] = True
        value = node.value + self._cost(node, j)
        return _Node(np.delete(node.features, j), np.delete(may_go, j), M, Z, value)
