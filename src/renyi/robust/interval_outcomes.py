r"""Exact worst cases of counts that are known to intervals, on small tables.

A linear program over all outcomes x and classes y: with probabilities q(x, y) and
τ = 1/n,

.. math:: \max \sum \ell_y(x)\, q(x, y) \quad \text{where} \quad q \ge 0 \text{ adds up
    to } 1, \qquad l τ \le A q \le h τ, \qquad 1/n_{high} \le τ \le 1/n_{low},

A q being the cells of all known tables. The program of `interval_program` knows tables
only, so its value may be larger. The smallest guarantee of any rule maximises
``1 − Σ_x max_y q(x, y)`` instead; the multipliers of the maxima are the rule.

*Proof of a value.* Let u be any multipliers of the rows, at most 0 for a lower end and
at least 0 for an upper one. Then ``Σ ℓ q ≤ max(ℓ − Aᵀu) + max_τ τ u·h`` for every
feasible q, where h are the ends. The bounds are computed from the solver's multipliers
and hold whatever its tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.certificates.intervals import KnownTables
from renyi.counting.onehot import offsets
from renyi.robust.ambiguity_set import Flags, Floats, Outcomes, listed
from renyi.robust.interval_program import CONTRADICTION
from renyi.solvers.programs import Program, Solution, solve

_UP = 1e-12  # added to a proven value, for rounding
_LOWER = 1e-7  # taken from the value of a distribution, for the tolerance


@dataclass(frozen=True, eq=False)
class OutcomeProgram:
    """The rows of the program, which both questions share."""

    outcomes: Outcomes
    A: sparse.csr_array  # cells of all tables × (outcomes, classes)
    low: Floats
    high: Floats
    n: tuple[float, float]
    n_classes: int

    @classmethod
    def of(cls, known: KnownTables, most: int) -> OutcomeProgram | None:
        """Write the rows; None if there are more outcomes and classes than `most`."""
        K = len(known.priors[0])
        starts = offsets(known.sizes)[:-1]
        pair_high = known.pairs[1]

        def allowed(X: Outcomes) -> Flags:
            places = X + starts[: X.shape[1]]
            last = places[:, -1]
            good = known.singles[1][last] > 0
            for place in places.T[:-1]:
                good &= pair_high[place, last] > 0
            return np.asarray(good)

        X = listed(known.sizes, allowed, most // K)
        if X is None:
            return None
        if not len(X):
            raise ValueError(CONTRADICTION)
        places = X + starts
        D = int(known.sizes.sum())
        N = len(X)
        single = _indicators(places, D)
        columns = np.repeat(np.arange(len(starts)), known.sizes)
        first, second = np.nonzero(columns[:, None] < columns[None])
        pairs = single[first].multiply(single[second]).tocsr()
        by_class = sparse.kron(single, sparse.eye_array(K))
        classes = sparse.kron(np.ones((1, N)), sparse.eye_array(K))
        every = np.ones((1, K))
        A = sparse.vstack(
            [sparse.kron(pairs, every), sparse.kron(single, every), by_class, classes]
        )
        low, high = (
            np.concatenate(
                [
                    known.pairs[end][first, second],
                    known.singles[end],
                    known.classes[end].ravel(),
                    known.priors[end],
                ]
            )
            for end in (0, 1)
        )
        return cls(X, sparse.csr_array(A), low, high, known.n, K)

    def largest(self, loss: Floats, time_limit: float | None = None) -> float:
        """Return a proven bound on the mean of a loss (outcomes × classes).

        It is infinite if the time does not suffice; so is `least_guarantee`.
        """
        answer = self._solved(-loss.ravel(), [], time_limit)
        return self._proven(loss, answer)

    def least_guarantee(self, time_limit: float | None = None) -> tuple[float, float]:
        """Return ends of the smallest guarantee of any rule; the upper one is proven.

        The lower one is the least error of all rules under the distribution that was
        found, whose counts are in the intervals up to the solver's tolerance.
        """
        N = len(self.outcomes)
        K = self.n_classes
        size = N * K
        each = sparse.eye_array(size)
        largest = sparse.kron(sparse.eye_array(N), np.ones((K, 1)))
        rows = sparse.hstack([each, sparse.coo_array((size, 1)), -largest])
        cost = np.concatenate([-np.ones(size), np.ones(N)])
        answer = self._solved(cost, [rows], time_limit)
        if answer.status != "optimal":
            return 0.0, np.inf
        weights = np.maximum(-answer.duals[-size:].reshape(N, K), 0.0)
        total = weights.sum(axis=1, keepdims=True)
        rule = np.where(total > 0, weights / np.where(total > 0, total, 1), 1 / K)
        upper = self._proven(1 - rule, answer)
        return min(max(0.0, -answer.value - _LOWER), upper), upper

    def _solved(
        self, cost: Floats, more: Sequence[sparse.sparray], time_limit: float | None
    ) -> Solution:
        """Solve for q, τ and further variables; `more` rows are at most 0."""
        size = self.A.shape[1]
        further = len(cost) - size
        above = self.low > 0
        total = sparse.csr_array(np.append(np.ones(size), 0.0)[None])
        upper = sparse.hstack([self.A, sparse.coo_array(-self.high[:, None])])
        lower = sparse.hstack([self.A[above], sparse.coo_array(-self.low[above, None])])
        rows = sparse.vstack([total, upper, lower])
        rows = sparse.hstack([rows, sparse.coo_array((rows.shape[0], further))])
        rows = sparse.vstack([rows, *more])
        count = rows.shape[0]
        least = np.full(count, -np.inf)
        least[0] = 1.0
        least[1 + len(above) : 1 + len(above) + int(above.sum())] = 0.0
        most = np.zeros(count)
        most[0] = 1.0
        most[1 + len(above) : 1 + len(above) + int(above.sum())] = np.inf
        lowest = np.zeros(rows.shape[1])
        highest = np.full(rows.shape[1], 1.0)
        lowest[size] = 1 / self.n[1]
        highest[size] = 1 / self.n[0]
        cost = np.concatenate([cost[:size], [0.0], cost[size:]])
        program = Program(cost, rows, least, most, lowest, highest)
        answer = solve(program, time_limit=time_limit)
        if answer.status == "infeasible":
            raise ValueError(CONTRADICTION)
        return answer

    def _proven(self, loss: Floats, answer: Solution) -> float:
        """Return the bound on a loss that the multipliers of a solution prove."""
        if answer.status != "optimal":
            return np.inf
        above = self.low > 0
        size = len(self.low)
        upper = np.maximum(-answer.duals[1 : 1 + size], 0.0)
        lower = np.zeros(size)
        ends = 1 + size, 1 + size + int(above.sum())
        lower[above] = np.minimum(-answer.duals[slice(*ends)], 0.0)
        reduced = loss.ravel() - self.A.T @ (upper + lower)
        slope = float(upper @ self.high + lower @ self.low)
        tau = max(slope / self.n[0], slope / self.n[1])
        return float(reduced.max()) + tau + _UP


def _indicators(places: NDArray[np.int64], size: int) -> sparse.csr_array:
    """Return which outcomes have which category: (categories, outcomes)."""
    N, d = places.shape
    columns = np.repeat(np.arange(N), d)
    entries = np.ones(N * d), (places.ravel(), columns)
    return sparse.csr_array(entries, shape=(size, N))
