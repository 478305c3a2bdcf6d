r"""θ: the minimax Brier risk over C, and the distribution p̃ that attains it.

For two classes (the paper's θ; γ is the same with t additive, hence θ ≤ γ)

.. math:: \theta = \max_{p \in C} \sum_x \frac{p_0 p_1}{p_0 + p_1}
    = \max_{p \in C} \min_t E\bigl[\tfrac12 \|t(X) - e_Y\|^2\bigr],

and for K classes half of ``θ_K = max E[1 − Σ_y p(y|X)²]``, as γ is half of B. Always
θ ≤ e* ≤ 2θ. Over all outcomes of a small table it is a second-order cone program:

.. math:: \min \sum_x v(x), \quad \|p(x)\|^2 \le v(x) \textstyle\sum_y p(x, y), \quad
    A p = b, \; p \ge 0, \qquad 2\theta = 1 - \min.

The multipliers of ``A p = b`` give functions λ_y with ``‖t(x) − e_y‖² ≤ λ_y(x)`` for
some t(x) in the simplex, at every x, and E[λ_Y] = 2θ. The best such t is the projection
of −λ(x)/2 on the simplex: with the classes weighted by w, the least value over t of
``Σ w_y(‖t − e_y‖² − λ_y)`` is ``1 − ‖w‖² − wᵀλ``, attained at t = w and largest at that
projection. Where p̃(x) > 0 it is p̃(y|x); where p̃(x) = 0, and the conditional says
nothing, it is a choice for which δ̃ and δ̃map keep the guarantees of Theorems 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi import rules
from renyi.checks import Deadline, check_time_limit
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity, contradiction
from renyi.robust.distribution import exhibited
from renyi.robust.minimax_problem import solve_minimax
from renyi.robust.pairwise_program import quadratic_rule
from renyi.solvers.programs import clarabel, clarabel_settings, interruptible

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Outcomes = NDArray[np.int64]

# Outcomes times classes up to which the cone program is solved.
MAX_CONE = 70_000
_NOTHING = 1e-9  # mass of all outcomes that only an interior point method needs
_FORBIDDEN = 1e6


@dataclass(frozen=True, eq=False)
class ThetaRule:
    """Estimates t(x) of the class probabilities under p̃, and the rules made of them.

    Parameters
    ----------
    ambiguity : Ambiguity
        The set C.
    encoder : Encoder
        The encoder of the features.
    multiplier : ndarray
        One number per cell of the tables: the functions λ_y.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "crime"]]
    >>> rule = theta(renyi.Marginals.from_data(few, y)).rule
    >>> rule.rule_proba(few[:1], "sharp").round(2)
    array([[0., 1.]])
    """

    ambiguity: Ambiguity = field(repr=False)
    encoder: Encoder = field(repr=False)
    multiplier: Floats = field(repr=False)

    def estimates(self, X: Any) -> Floats:
        """Estimates at the rows of a table, or of an integer array of codes."""
        codes = self._codes(X)
        values = self.ambiguity.functions(self.multiplier, codes)
        values[~self.ambiguity.possible(codes)] = _FORBIDDEN
        return rules.project(-values / 2)

    def rule_proba(self, X: Any, rule: str = "renyi") -> Floats:
        """Probability with which a rule answers each class at each row."""
        return rules.rule_proba(self.estimates(X), rule)

    def _codes(self, X: Any) -> Outcomes:
        if isinstance(X, np.ndarray) and X.dtype.kind in "iu":
            codes = X.astype(np.int64)
        else:
            codes = self.encoder.transform(X).T.astype(np.int64)
        unknown = (codes < 0) | (codes >= self.ambiguity.sizes)
        if unknown.any():
            name = self.ambiguity.columns.names[int(unknown.any(axis=0).argmax())]
            raise ValueError(
                f"Column {name!r} has a label that the marginals do not know: leave "
                "such rows out."
            )
        return codes


@dataclass(frozen=True, eq=False)
class ThetaResult:
    """Minimax Brier risk over all distributions with some marginals.

    Parameters
    ----------
    theta : float or None
        The value; None where only an interval is known.
    lower, upper : float
        Proven bounds on it. ``lower ≤ e* ≤ 2·upper``.
    p_tilde : DataFrame or None
        A distribution with these marginals, to 1e-9, whose risk is `lower`: outcome of
        the features, class, probability. None where none was found (`lower` is 0
        then). It has the least maximal correlation of all if there are two classes and
        `theta` is known.
    rule : ThetaRule or None
        The estimates under p̃ and the rules made of them; None without `theta`.

    Examples
    --------
    >>> print(ThetaResult(None, 0.0218, 0.0297, None, None))
    The minimax Brier risk theta lies between 0.02180 and 0.02970: no rule can promise
    an error below 0.0218, and some rule promises 0.0594.
    """

    theta: float | None
    lower: float
    upper: float
    p_tilde: pd.DataFrame | None = field(repr=False)
    rule: ThetaRule | None = field(repr=False)

    def __str__(self) -> str:
        """Return the value or the interval in a sentence."""
        known = f"theta is {self.theta:.5f}" if self.theta is not None else None
        between = f"theta lies between {self.lower:.5f} and {self.upper:.5f}"
        return (
            f"The minimax Brier risk {known or between}: no rule can promise an error "
            f"below {self.lower:.4f}, and some rule promises {2 * self.upper:.4f}."
        )


def theta(
    m: Marginals, *, class_conditional: bool = True, time_limit: float | None = 60.0
) -> ThetaResult:
    """Minimax Brier risk θ, the distribution p̃ that attains it, and its rules.

    Parameters
    ----------
    m : Marginals
        The marginals.
    class_conditional : bool, default=True
        Use the pairs within each class where m has them: fewer distributions.
    time_limit : float, optional
        Seconds to look for a lower bound where the outcomes are too many for the cone
        program; then γ, or a bound on e*, is the upper bound. Ctrl-C ends it too.

    Returns
    -------
    ThetaResult

    Examples
    --------
    >>> import renyi
    >>> from renyi.robust.brier_risk import theta
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "immigration", "crime"]]
    >>> m = renyi.Marginals.from_data(few, y)
    >>> found = theta(m)
    >>> gamma = renyi.RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma
    >>> round(found.theta, 4), round(gamma, 4)
    (0.0376, 0.0381)
    """
    check_time_limit(time_limit)
    deadline = Deadline(time_limit)
    ambiguity = Ambiguity.of(m, class_conditional)
    if ambiguity.n_table > MAX_CONE:
        return _interval(m, ambiguity, deadline)
    solution = solve_cone(ambiguity)
    rule = ThetaRule(ambiguity, m.encoder, solution.multiplier)
    upper = _dual_value(rule, solution)
    p = _without_traces(solution.p)
    shown = exhibited(ambiguity, solution.outcomes, p)
    if shown is None:
        return ThetaResult(None, 0.0, upper, None, None)
    lower = brier_risk(shown.p)
    upper = max(lower, upper)
    return ThetaResult((lower + upper) / 2, lower, upper, shown.frame(), rule)


def _without_traces(p: Floats) -> Floats:
    """Leave out the least probable cells, as many as have next to no mass together."""
    order = np.argsort(p, axis=None)
    traces = order[np.cumsum(p.ravel()[order]) <= _NOTHING]
    kept = p.copy()
    kept.ravel()[traces] = 0
    return kept


def brier_risk(p: Floats) -> float:
    """Half of E[1 − Σ_y p(y|X)²] of a distribution (outcomes × classes).

    >>> brier_risk(np.array([[0.25, 0.25], [0.5, 0.0]]))
    0.125
    """
    total = p.sum(axis=1)
    used = total > 0
    return float((total[used] - (p[used] ** 2).sum(axis=1) / total[used]).sum() / 2)


def _dual_value(rule: ThetaRule, solution: ConeSolution) -> float:
    """Upper bound on θ that the multiplier proves: all outcomes are looked at."""
    X, ambiguity = solution.outcomes, rule.ambiguity
    t, values = rule.estimates(X), ambiguity.functions(rule.multiplier, X)
    square = (t**2).sum(axis=1, keepdims=True) - 2 * t + 1
    excess = np.where(ambiguity.possible(X), square - values, -np.inf).max()
    return float(ambiguity.b @ rule.multiplier + excess) / 2


def _interval(m: Marginals, ambiguity: Ambiguity, deadline: Deadline) -> ThetaResult:
    """θ ≤ γ and θ ≤ e*; θ is at least the risk of the distribution worst for e*.

    γ is that of the scores without penalty, whose bound on e* is 2γ.
    """
    gamma = quadratic_rule(ambiguity)[0] / 2
    found = solve_minimax(ambiguity, m.encoder, deadline=deadline)
    upper, shown = min(gamma, found.upper), found.worst_distribution
    if shown is None:
        return ThetaResult(None, 0.0, upper, None, None)
    lower = brier_risk(shown.p)
    return ThetaResult(None, min(lower, upper), upper, shown.frame(), None)


class ConeSolution(NamedTuple):
    """The distribution p̃ on its outcomes, and the multiplier of the tables."""

    outcomes: Outcomes
    p: Floats
    multiplier: Floats


def solve_cone(ambiguity: Ambiguity) -> ConeSolution:
    """Solve the cone program over all outcomes."""
    module = clarabel()
    X = ambiguity.outcomes()
    if not len(X):
        raise ValueError(contradiction(ambiguity))
    N, K = len(X), ambiguity.n_classes
    where = np.flatnonzero(ambiguity.possible(X).ravel())
    # Cells that follow from others would make the equations dependent.
    rows = np.flatnonzero(~ambiguity.reference_cells & (ambiguity.b > 0))
    equations = ambiguity.constraint_matrix(X).tocsr()[rows][:, where]
    n = len(where)
    matrix = sparse.vstack(
        [
            sparse.hstack([equations, sparse.csr_array((len(rows), N))]),
            sparse.hstack([-sparse.eye_array(n), sparse.csr_array((n, N))]),
            -_cone_rows(N, K)[:, np.concatenate([where, N * K + np.arange(N)])],
        ],
        format="csc",
    )
    right = np.zeros(matrix.shape[0])
    right[: len(rows)] = ambiguity.b[rows]
    cones = [module.ZeroConeT(len(rows)), module.NonnegativeConeT(n)]
    cones += [module.SecondOrderConeT(K + 2)] * N
    cost = np.concatenate([np.zeros(n), np.ones(N)])
    zero = sparse.csc_matrix((n + N, n + N))
    solver = module.DefaultSolver(
        zero, cost, sparse.csc_matrix(matrix), right, cones, clarabel_settings()
    )
    answer = interruptible(solver)
    if "Infeasible" in str(answer.status):
        raise ValueError(contradiction(ambiguity))
    if str(answer.status) not in ("Solved", "AlmostSolved"):
        raise ValueError(
            f"The cone solver says {answer.status}, and found no distribution: call "
            "validate() on the marginals, or leave columns out with select()."
        )
    p = np.zeros(N * K)
    p[where] = np.maximum(np.array(answer.x[:n]), 0)
    return ConeSolution(X, p.reshape(N, K), _multiplier(ambiguity, rows, answer))


def _cone_rows(N: int, K: int) -> sparse.csc_array:
    """Rows (v + s, 2p, v − s) of each outcome over the variables (p, v); s = Σ p.

    ‖(2p, v − s)‖ ≤ v + s says that ‖p‖² ≤ v s.
    """
    ends = sparse.csr_array(([1.0, -1.0], ([0, K + 1], [0, 0])), shape=(K + 2, 1))
    own = ends @ np.ones((1, K)) + 2 * sparse.eye_array(K + 2, K, k=-1)
    both = abs(ends)
    eye = sparse.eye_array(N)
    blocks = [sparse.kron(eye, own), sparse.kron(eye, both)]
    return sparse.csc_array(sparse.hstack(blocks))


def _multiplier(ambiguity: Ambiguity, rows: Outcomes, answer: Any) -> Floats:
    """Read λ off the dual, whose value is −bᵀz: 2θ = 1 + bᵀz, so λ = 1 + z."""
    multiplier = np.zeros(len(ambiguity.b))
    multiplier[rows] = np.array(answer.z[: len(rows)])
    multiplier[: int(ambiguity.starts[1])] += 1.0
    return multiplier
