r"""Compute θ, the minimax Brier risk over C, p̃ that attains it, and whether γ = θ.

For two classes (the paper's θ; γ is the same with t additive, hence θ ≤ γ)

.. math:: \theta = \max_{p \in C} \sum_x \frac{p_0 p_1}{p_0 + p_1}
    = \max_{p \in C} \min_t E\bigl[\tfrac12 \|t(X) - e_Y\|^2\bigr],

and for K classes half of ``θ_K = max E[1 − Σ_y p(y|X)²]``, as γ is half of B. Always
θ ≤ e* ≤ 2θ. Over all outcomes of a small table it is a second-order cone program:

.. math:: \min \sum_x v(x), \quad \|p(x)\|^2 \le v(x) \textstyle\sum_y p(x, y), \quad
    A p = b, \; p \ge 0, \qquad 2\theta = 1 - \min.

The multipliers of ``A p = b`` give functions λ_y with ``‖t(x) − e_y‖² ≤ λ_y(x)`` for
some t(x) in the simplex, at every x, and E[λ_Y] = 2θ. The best such t is the projection
of −λ(x)/2 on the simplex. Proof: weight the classes by w. The least value over t of
``Σ w_y(‖t − e_y‖² − λ_y)`` is ``1 − ‖w‖² − wᵀλ``, attained at t = w. It is largest at
that projection. Where p̃(x) > 0, t is p̃(y|x). Where p̃(x) = 0 there is no conditional,
and this t keeps the guarantees of Theorems 1 and 2 for δ̃ and δ̃map.

**Separability.** Let t be the estimates of the minimiser without penalty. Under P in C

.. math:: 2\gamma = E_P\|t - e_Y\|^2
    = E_P\bigl[1 - \textstyle\sum_y P(y|X)^2\bigr] + E_P\|t(X) - P(\cdot|X)\|^2,

so γ = θ iff some member of C has the conditional t(X) almost surely. Then the
guarantees of the rules made of t are at most twice that of the minimax rule. Without
class-conditional pairs it is enough that some member has t(X) in the simplex (for two
classes: |s(X)| ≤ ½). Drawing its classes again by t does not change the pairs, nor, by
``Q Z = F``, the other tables. With class-conditional pairs the drawn classes must also
have the given tables, which is rare. There are three tests:

* ``"scores"``: t(x) is in the simplex at every x, for some minimiser. This is
  sufficient, not necessary, and does not apply to class-conditional pairs. The least
  t_y is ``Σ_i min_k z_i(k, y)``. If the null space of Q contains more than constants
  that features exchange, a linear program finds the best minimiser.
* ``"rows"``: t is in the simplex at all rows, and the rows with classes drawn by t have
  the tables of C. They are a member of C, so ``e* ≥ 1 − mean max_y t_y ≥ γ``.
* ``"outcomes"``: a linear program over all outcomes of a small table finds such a
  member of C or proves that there is none. Only this test can answer no.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from renyi import rules
from renyi.counting.onehot import dense, offsets
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import check_sample_weight
from renyi.formatting import rounded_down, rounded_up
from renyi.limits import Deadline
from renyi.marginals.consistency import check_exact
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import (
    Ambiguity,
    Floats,
    Outcomes,
    contradiction_error,
    worst_member,
)
from renyi.robust.distribution import exhibited
from renyi.robust.minimax_problem import solve_minimax
from renyi.robust.pairwise_program import quadratic_rule
from renyi.solvers.programs import (
    SOLVED,
    Program,
    clarabel,
    clarabel_settings,
    interior_points,
    solve,
)
from renyi.solvers.ridge import eigen
from renyi.validation import check_time_limit

if TYPE_CHECKING:
    import pandas as pd

MAX_CONE = 70_000  # outcomes times classes that the cone program can have
_CONE = 0.8  # share of the time for the cone program
_NOTHING = 1e-9  # mass of outcomes that only the interior point method adds
_FORBIDDEN = 1e6
MAX_CATEGORIES = 2_000  # for any test of separability
MAX_OUTCOMES = 10_000  # times classes, for the test by outcomes
_NULL = 1e-10  # smaller eigenvalues of Q count as 0
_SAME = 1e-9  # smaller differences of probabilities are rounding


@dataclass(frozen=True, eq=False)
class ThetaRule:
    """Estimates t(x) of the class probabilities under p̃, and the rules made of them.

    `multiplier`, one number per cell of the tables, gives the functions λ_y.
    """

    ambiguity: Ambiguity = field(repr=False)
    encoder: Encoder = field(repr=False)
    multiplier: Floats = field(repr=False)

    def rule_proba(self, X: object, rule: str = "renyi") -> Floats:
        """Return the probability with which a rule answers each class at each row."""
        return rules.rule_proba(self.estimates(X), rule)

    def estimates(self, X: object) -> Floats:
        """Return the estimates at the rows of a table, or of an array of codes."""
        if isinstance(X, np.ndarray) and X.dtype.kind in "iu":
            codes = X.astype(np.int64)
        else:
            codes = self.encoder.transform(X).T.astype(np.int64)
        unknown = (codes < 0) | (codes >= self.ambiguity.sizes)
        if unknown.any():
            name = self.ambiguity.columns.names[int(unknown.any(axis=0).argmax())]
            raise ValueError(
                f"Column {name!r} has a label that the pair counts do not have: leave "
                "such rows out."
            )
        values = self.ambiguity.functions(self.multiplier, codes)
        values[~self.ambiguity.possible(codes)] = _FORBIDDEN
        return rules.project(-values / 2)


@dataclass(frozen=True, eq=False)
class ThetaResult:
    """Minimax Brier risk over all distributions with some marginals.

    `theta` returns it. The smallest possible guarantee e* is between `lower` and twice
    `upper`.

    Parameters
    ----------
    theta : float or None
        The value; None where only an interval is known.
    lower, upper : float
        Proven bounds on it. ``lower ≤ e* ≤ 2·upper``.
    p_tilde : DataFrame or None
        A distribution with these marginals, to 1e-9, whose risk is `lower`: outcome of
        the features, class, probability. None if none was found (`lower` is 0). For
        two classes and a known `theta`, its maximal correlation is the least of all.
    rule : ThetaRule or None
        The estimates under p̃ and the rules made of them; None without `theta`.

    See Also
    --------
    theta : Compute it.

    Examples
    --------
    >>> print(ThetaResult(None, 0.0218, 0.0297, None, None))
    The minimax Brier risk theta lies between 0.02180 and 0.02970: no rule can
    guarantee an error below 0.0218, and some rule guarantees 0.0594.
    """

    theta: float | None
    lower: float
    upper: float
    p_tilde: pd.DataFrame | None = field(repr=False)
    rule: ThetaRule | None = field(repr=False)

    def __str__(self) -> str:
        """Return the value or the interval in a sentence."""
        low = rounded_down(self.lower, 5)
        high = rounded_up(self.upper, 5)
        known = f"lies between {low:.5f} and {high:.5f}"
        if self.theta is not None:
            known = f"is {self.theta:.5f}"
        return (
            f"The minimax Brier risk theta {known}: no rule can guarantee an error "
            f"below {rounded_down(self.lower):.4f}, and some rule guarantees "
            f"{rounded_up(2 * self.upper):.4f}."
        )


def theta(
    m: Marginals, *, class_conditional: bool = True, time_limit: float | None = 60.0
) -> ThetaResult:
    """Compute the minimax Brier risk θ, p̃ that attains it, and its rules.

    It is the smallest squared error that estimates of class probabilities can
    guarantee, over every population with these pair counts. Use it to see what additive
    scores lose.

    Parameters
    ----------
    m : Marginals
        The marginals.
    class_conditional : bool, default=True
        Use the pairs within each class if m has them, which allows fewer distributions.
    time_limit : float, optional
        Seconds for the cone program. If it does not end in time, or the outcomes are
        too many for it, a search finds a lower bound. The upper bound is then γ or a
        bound on e*. Ctrl-C also ends the search.

    See Also
    --------
    separable : Test whether additive scores reach it.
    minimax : Compute the smallest guarantee on the error rate.

    Notes
    -----
    Guide: :doc:`/theory`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "immigration", "crime"]]
    >>> m = renyi.Marginals.from_data(few, y)
    >>> result = renyi.theta(m)
    >>> gamma = renyi.RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma
    >>> round(result.theta, 4), round(gamma, 4)
    (0.0376, 0.0381)
    >>> result.rule.rule_proba(few[:1], "sharp").round(2)
    array([[0., 1.]])
    """
    check_time_limit(time_limit)
    deadline = Deadline(time_limit)
    ambiguity = Ambiguity.of(m, class_conditional)
    if ambiguity.n_table > MAX_CONE:
        return _interval(m, ambiguity, deadline)
    try:
        solution = solve_cone(ambiguity, deadline.part(_CONE).limit)
    except KeyboardInterrupt:
        return ThetaResult(None, 0.0, quadratic_rule(ambiguity)[0] / 2, None, None)
    if solution is None:
        return _interval(m, ambiguity, deadline)
    X, p, multiplier = solution
    rule = ThetaRule(ambiguity, m.encoder, multiplier)
    upper = _dual_value(rule, X)
    order = np.argsort(p, axis=None)  # the least probable cells are left out
    p.ravel()[order[np.cumsum(p.ravel()[order]) <= _NOTHING]] = 0
    shown = exhibited(ambiguity, X, p)
    if shown is None:
        return ThetaResult(None, 0.0, upper, None, None)
    lower = brier_risk(shown.p)
    upper = max(lower, upper)
    return ThetaResult((lower + upper) / 2, lower, upper, shown.frame(), rule)


def brier_risk(p: Floats) -> float:
    """Return half of E[1 − Σ_y p(y|X)²] of a distribution (outcomes × classes).

    >>> brier_risk(np.array([[0.25, 0.25], [0.5, 0.0]]))
    0.125
    """
    total = p.sum(axis=1)
    used = total > 0
    return float((total[used] - (p[used] ** 2).sum(axis=1) / total[used]).sum() / 2)


def _dual_value(rule: ThetaRule, X: Outcomes) -> float:
    """Return the upper bound on θ that the multiplier proves at all outcomes."""
    ambiguity = rule.ambiguity
    t = rule.estimates(X)
    values = ambiguity.functions(rule.multiplier, X)
    square = (t**2).sum(axis=1, keepdims=True) - 2 * t + 1
    excess = np.where(ambiguity.possible(X), square - values, -np.inf).max()
    return float(ambiguity.b @ rule.multiplier + excess) / 2


def _interval(m: Marginals, ambiguity: Ambiguity, deadline: Deadline) -> ThetaResult:
    """Bound θ by γ and e* from above, and by the worst distribution for e* from below.

    γ belongs to the scores without penalty, whose bound on e* is 2γ.
    """
    gamma = quadratic_rule(ambiguity, deadline.part(_CONE).limit)[0] / 2
    result = solve_minimax(ambiguity, m.encoder, deadline=deadline)
    upper = min(gamma, result.upper)
    shown = result.worst_distribution
    if shown is None:
        return ThetaResult(None, 0.0, upper, None, None)
    lower = brier_risk(shown.p)
    return ThetaResult(None, min(lower, upper), upper, shown.frame(), None)


def solve_cone(
    ambiguity: Ambiguity, time_limit: float | None = None
) -> tuple[Outcomes, Floats, Floats] | None:
    """Return all outcomes, p̃ on them, and the multiplier; None if time runs out."""
    module = clarabel()
    X = ambiguity.outcomes()
    if not len(X):
        raise contradiction_error(ambiguity)
    N = len(X)
    K = ambiguity.n_classes
    where = np.flatnonzero(ambiguity.possible(X).ravel())
    # Redundant cells would make the equations dependent.
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
    problem = (cost, matrix, right, cones, clarabel_settings(time_limit=time_limit))
    answer = interior_points(*problem, patience=time_limit)
    if answer is None or str(answer.status) == "MaxTime":
        return None
    if "Infeasible" in str(answer.status):
        raise contradiction_error(ambiguity)
    if str(answer.status) not in SOLVED:
        raise ValueError(
            f"The cone solver returned {answer.status} and found no distribution: "
            "count again, or leave columns out (Marginals.validate() names the "
            "counts that disagree, Marginals.select() leaves columns out)."
        )
    p = np.zeros(N * K)
    p[where] = np.maximum(np.array(answer.x[:n]), 0)
    # The dual has the value −bᵀz: 2θ = 1 + bᵀz, so λ = 1 + z.
    multiplier = np.zeros(len(ambiguity.b))
    multiplier[rows] = np.array(answer.z[: len(rows)])
    multiplier[: int(ambiguity.starts[1])] += 1.0
    return X, p.reshape(N, K), multiplier


def _cone_rows(N: int, K: int) -> sparse.csc_array:
    """Return the rows (v + s, 2p, v − s) of each outcome over (p, v), where s = Σ p.

    ‖(2p, v − s)‖ ≤ v + s means that ‖p‖² ≤ v s.
    """
    ends = sparse.csr_array(([1.0, -1.0], ([0, K + 1], [0, 0])), shape=(K + 2, 1))
    own = ends @ np.ones((1, K)) + 2 * sparse.eye_array(K + 2, K, k=-1)
    blocks = [sparse.kron(sparse.eye_array(N), each) for each in (own, abs(ends))]
    return sparse.csc_array(sparse.hstack(blocks))


# ---- separability


@dataclass(frozen=True)
class Separability:
    """Whether marginals are separable, and which test decided it.

    `separable` returns it. For separable marginals, additive scores lose nothing
    against any other function of the columns.

    Parameters
    ----------
    answer : bool or None
        Whether γ = θ; None if no test decided.
    test : {"scores", "rows", "outcomes", "none"}
        The test that decided.
    lower : float or None
        Lower bound on the minimax error e* that the test by rows gives.
    class_conditional : bool, default=False
        Whether the distributions also have the class-conditional pairs.

    See Also
    --------
    separable : Run the tests.

    Examples
    --------
    >>> print(Separability(False, "outcomes"))
    The marginals are not separable: a linear program over all outcomes decided.
    """

    answer: bool | None
    test: str
    lower: float | None = None
    class_conditional: bool = False

    def __str__(self) -> str:
        """Return the answer in a sentence."""
        tight = self.class_conditional
        what = "marginals" + tight * " with their class-conditional pairs"
        if self.answer is None:
            return f"No test decided whether the {what} are separable."
        how = {
            "scores": "the estimates are probabilities at every outcome",
            "rows": "the estimates are probabilities at every row"
            + tight * ", and classes drawn by them have these pairs",
            "outcomes": "a linear program over all outcomes decided",
        }
        word = "separable" if self.answer else "not separable"
        return f"The {what} are {word}: {how[self.test]}."


def separable(
    m: Marginals,
    X: object = None,
    *,
    sample_weight: ArrayLike | None = None,
    class_conditional: bool = True,
    tolerance: float = 1e-7,
    time_limit: float | None = 60.0,
) -> Separability:
    """Return whether additive scores reach the minimax Brier risk of the marginals.

    If they do, no function of the columns has a smaller worst-case Brier risk than a
    scorecard. The tests go from fast to slow, and the first to decide ends the search.

    Parameters
    ----------
    m : Marginals
        The pair counts, of at most 2,000 categories.
    X, sample_weight : optional
        The rows that the marginals were counted from, and their weights.
    class_conditional : bool, default=True
        Use the pairs within each class where m has them, as `theta` does.
    tolerance : float, default=1e-7
        How far rounding may move an estimate below 0, or a probability.
    time_limit : float, optional
        Seconds for the linear programs; a test that does not end in time decides
        nothing.

    See Also
    --------
    theta : Compute the minimax Brier risk itself.

    Notes
    -----
    Guide: :doc:`/theory`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["crime", "immigration"]]
    >>> print(renyi.separable(renyi.Marginals.from_data(few, y)))
    The marginals are separable: the estimates are probabilities at every outcome.
    >>> renyi.separable(renyi.Marginals.from_data(X, y)).answer is None
    True
    """
    check_time_limit(time_limit)
    deadline = Deadline(time_limit)
    sizes = m.encoder.columns.sizes
    tight = class_conditional and m.class_counts is not None and len(sizes) > 1
    if sizes.sum() > MAX_CATEGORIES:
        return Separability(None, "none", None, tight)
    check_exact(m, "Separability")
    rows = None if X is None else _rows(m, X, sample_weight)
    Z, null = minimisers(m)
    if not tight and lowest_estimate(Z, null, sizes, deadline.limit) >= -tolerance:
        return Separability(True, "scores")
    if rows is not None:
        W, p = rows
        t = np.asarray(W @ Z)
        if t.min() >= -tolerance and _drawn_fit(m, W, p, t, tight) <= tolerance:
            return Separability(True, "rows", float(1 - p @ t.max(axis=1)), tight)
    ambiguity = Ambiguity.of(m, tight)
    if ambiguity.n_table <= MAX_OUTCOMES:
        answer = _by_outcomes(ambiguity, Z, tolerance, deadline, tight)
        if answer is not None:
            return Separability(answer, "outcomes", None, tight)
    return Separability(None, "none", None, tight)


def minimisers(m: Marginals) -> tuple[Floats, Floats]:
    """Return Z with ``Q Z = F``, so that t(x) = Zᵀ W, and what can be added to it.

    This is the null space of Q without the constants that features exchange.
    """
    values, vectors = eigen(m.Q)
    positive = values > _NULL * max(1.0, float(values[-1]))
    kept = vectors[:, positive]
    Z = kept @ ((kept.T @ m.F) / values[positive, None])
    null = vectors[:, ~positive]
    sizes = m.encoder.columns.sizes
    constants = np.repeat(np.eye(len(sizes)) / np.sqrt(sizes), sizes, axis=0)
    # Exchanges are the constants c_i of zero sum; here they are multiples of 1/√size.
    direction = 1 / np.sqrt(sizes * (1 / sizes).sum())
    exchanged = constants - np.outer(constants @ direction, direction)
    rest = null - exchanged @ (exchanged.T @ null)
    U, singular, _ = np.linalg.svd(rest, full_matrices=False)
    return np.asarray(Z), np.asarray(U[:, singular > 0.5])


def lowest_estimate(
    Z: Floats, null: Floats, sizes: NDArray[np.intp], time_limit: float | None = None
) -> float:
    """Return the lowest t_y(x) over outcomes and classes, for the best minimiser."""
    starts = offsets(sizes)[:-1]
    plain = float(np.minimum.reduceat(Z, starts, axis=0).sum(axis=0).min())
    if null.shape[1] == 0 or plain >= 0:
        return plain
    # Maximise τ ≤ Σ_i l_i(y) with l_i(y) ≤ (Z + null C)(k, y) and C 1 = 0.
    D, r = null.shape
    d = len(sizes)
    K = Z.shape[1]
    owner = sparse.csr_array(np.repeat(np.eye(d), sizes, axis=0))
    eye = sparse.eye_array(K)
    column = np.ones((K, 1))
    rows = [
        [sparse.kron(eye, null), sparse.kron(eye, -owner), None],
        [None, sparse.kron(eye, np.ones((1, d))), -column],
        [sparse.kron(np.ones((1, K)), sparse.eye_array(r)), None, None],
    ]
    cost = np.append(np.zeros(K * (r + d)), -1.0)
    low = np.concatenate([-Z.T.ravel(), np.zeros(K + r)])
    high = np.concatenate([np.full(K * D + K, np.inf), np.zeros(r)])
    program = Program(cost, sparse.block_array(rows), low, high, -np.inf)
    answer = solve(program, time_limit=time_limit)
    return -answer.value if answer.status == "optimal" else -np.inf


# ---- the test by rows


def _rows(
    m: Marginals, X: object, sample_weight: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Return indicators and probabilities of rows; check that their pairs are m's."""
    codes = m.encoder.transform(X)
    weights = check_sample_weight(sample_weight, codes.shape[1])
    p = np.ones(codes.shape[1]) if weights is None else weights
    W = dense(codes[:, p > 0], m.encoder.columns.sizes)
    p = p[p > 0] / p.sum()
    if not len(p) or np.abs(W.T @ (p[:, None] * W) - m.Q).max() > _SAME:
        give = "the rows that were counted, or none"
        if m.weighted and sample_weight is None:
            give = "their weights as sample_weight"
        raise ValueError(f"The rows X do not have these pair counts: give {give}.")
    return W, p


def _drawn_fit(m: Marginals, W: Floats, p: Floats, t: Floats, tight: bool) -> float:
    """Return the largest difference of the given tables and those with classes by t."""
    mass = p[:, None] * t
    off = float(np.abs(W.T @ mass - m.F).max())
    if tight and m.class_counts is not None:
        for counts, each in zip(m.class_counts, mass.T, strict=True):
            pairs = W.T @ (each[:, None] * W)
            off = max(off, float(np.abs(pairs - counts / m.n).max()))
    return off


# ---- the test by outcomes


def _by_outcomes(
    ambiguity: Ambiguity, Z: Floats, tolerance: float, deadline: Deadline, tight: bool
) -> bool | None:
    """Return whether a member of C has all its mass where t is in the simplex.

    If C is `tight`, return whether a member has classes drawn by the estimates:
    minimise the largest difference of the given tables and those of ``u(x) t_y(x)``,
    u ≥ 0.
    """
    X = ambiguity.outcomes()
    t = Z[ambiguity.places(X)].sum(axis=1)
    good = t.min(axis=1) >= -tolerance
    K = t.shape[1]
    values = np.outer(good, np.full(K, float(not tight)))
    _, answer = worst_member(ambiguity, values, X, deadline.limit)
    if answer.status not in ("stopped", "optimal"):
        raise contradiction_error(ambiguity)
    if answer.status == "stopped":
        return None  # C may even be empty
    if not tight:
        return bool(-answer.value >= 1 - tolerance)
    X = X[good]
    t = t[good]
    N = int(good.sum())
    draw = sparse.csc_array(
        (t.ravel(), np.arange(N * K), np.arange(0, N * K + 1, K)), shape=(N * K, N)
    )
    tables = ambiguity.constraint_matrix(X) @ draw
    b = ambiguity.b
    off = np.ones((len(b), 1))
    infinite = np.full(len(b), np.inf)
    both = sparse.block_array([[tables, off], [tables, -off]])
    low = np.append(b, -infinite)
    high = np.append(infinite, b)
    program = Program(np.append(np.zeros(N), 1.0), both, low, high)
    answer = solve(program, time_limit=deadline.limit)
    if answer.status == "stopped":
        return None
    return answer.status == "optimal" and answer.value <= tolerance
