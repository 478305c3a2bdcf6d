r"""Find the best k features by branch and bound, and prove it.

.. math:: \min_{|S| = k} \gamma_S

with γ_S as in `renyi.solvers.forward_selection`. The search starts from all features
and removes some. With ``M = (A_S + alpha)⁻¹`` and Z = M R_S, removing feature i raises
γ by ``cost_i = w tr Z_iᵀ (M_ii)⁻¹ Z_i``. Removing r features raises it by at least the
largest of their costs, hence by at least the r-th smallest of all costs. If the result
is not below the best set so far, the branch is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import spans
from renyi.solvers.forward_selection import (
    ALPHA,
    forward,
    solve_subset,
    subset_value,
)
from renyi.solvers.ridge import Moments, weight_of

Floats = NDArray[np.float64]

MOST_FEATURES = 20
# Rounding of values: systems have condition numbers up to 1/ALPHA. A set is proven to
# be the best up to this.
_EQUAL = 1e-10


@dataclass(frozen=True)
class BestSubset:
    """The best set of features, and the number of sets that the search visited."""

    features: tuple[int, ...]  # ascending
    value: float  # γ_S, the ridge term included
    nodes: int = 0  # sets of which all ways to take one feature away were looked at


class _Node(NamedTuple):
    """A set: its features, those that may be removed, inverse, points and value."""

    features: NDArray[np.int64]
    free: NDArray[np.bool_]
    M: Floats
    Z: Floats
    value: float


def best_subset(
    equations: Moments, sizes: ArrayLike, k: int, alpha: float = ALPHA
) -> BestSubset:
    """Return the set of k of at most 20 features with the smallest γ_S, proved."""
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
        return BestSubset(tuple(sorted(start.features)), start.value)
    search = _Search(sizes, k, weight, start.features, start.value)
    whole = solve_subset(equations, sizes, np.arange(d), alpha)
    everything = np.ones(d, bool)
    search.explore(_Node(np.arange(d), everything, whole.M, whole.Z, whole.value))
    best = tuple(sorted(search.best))
    return BestSubset(best, subset_value(equations, sizes, best, alpha), search.nodes)


@dataclass
class _Search:
    """Search the sets depth first, from all features down to k."""

    sizes: NDArray[np.int64]
    k: int
    weight: float
    best: tuple[int, ...]
    value: float
    nodes: int = 0

    def explore(self, node: _Node) -> None:
        """Visit the subsets of a set, except those that cannot be better."""
        self.nodes += 1
        surplus = len(node.features) - self.k
        free = np.flatnonzero(node.free)
        places = spans(self.sizes[node.features])
        costs = self.weight * np.array(
            [
                _explained_risk(node.M[places[j], places[j]], node.Z[places[j]])
                for j in free
            ]
        )
        if surplus == 1:
            value = node.value + float(costs.min())
            if value < self.value - _EQUAL:
                left = np.delete(node.features, free[costs.argmin()])
                self.value = value
                self.best = tuple(left.tolist())
            return
        # Remove the feature of largest cost first; all later sets contain it.
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
    """Remove a feature; only those in `free` may be removed after it."""
    rest = np.ones(len(node.M), bool)
    rest[own] = False
    across = np.linalg.solve(node.M[own, own], node.M[own][:, rest])
    M = node.M[np.ix_(rest, rest)] - node.M[rest, own] @ across
    Z = node.Z[rest] - across.T @ node.Z[own]
    may_go = np.isin(np.arange(len(node.features)), free)
    return _Node(
        features=np.delete(node.features, gone),
        free=np.delete(may_go, gone),
        M=M,
        Z=Z,
        value=node.value + rise,
    )


def _explained_risk(A: Floats, R: Floats) -> float:
    """Return ``tr Rᵀ A⁻¹ R``."""
    return float(np.vdot(R, np.linalg.solve(A, R)))
