r"""Separability: whether additive scores lose nothing, γ = θ.

Let t be the estimates of the unregularised minimiser. Under any P in C

.. math:: 2\gamma = E_P\|t - e_Y\|^2
    = E_P\bigl[1 - \textstyle\sum_y P(y|X)^2\bigr] + E_P\|t(X) - P(\cdot|X)\|^2,

so γ = θ iff some member of C has the conditional t(X) almost surely. Then the rules
made of t err at worst at most twice as often as the minimax rule.

C is the set that `theta`, `minimax` and `worst_case` speak of: with class-conditional
pairs where the marginals have them. γ is the same for both sets, θ is not.

*Without class-conditional pairs* it is enough that some member has t(X) in the
probability simplex (for two classes: |s(X)| ≤ ½): drawing its classes by t anew leaves
the pairs as they are, and ``Q Z = F`` the rest.

*With them* the drawn classes must also have the given tables, which few marginals do.

Three tests:

* ``"scores"``: t(x) is in the simplex at every x, for some minimiser. Sufficient, not
  necessary; says nothing where C has class-conditional pairs. The least t_y is
  ``Σ_i min_k z_i(k, y)``. Where Q has a null space beyond the constants that features
  can exchange, a linear program finds the best minimiser.
* ``"rows"``: t is in the simplex at all rows, and the rows with classes drawn by t have
  the tables of C. They are a member, so that ``e* ≥ 1 − mean max_y t_y ≥ γ``.
* ``"outcomes"``: a linear program over all outcomes of a small table finds such a
  member of C or proves that there is none. This test alone can say no.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import dense, offsets
from renyi.encoding.column_rules import check_sample_weight
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity, contradiction, worst_member
from renyi.solvers.programs import Program, solve
from renyi.solvers.ridge import eigen

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MAX_CATEGORIES = 2_000
MAX_OUTCOMES = 10_000  # times classes, for the test by outcomes
_NULL = 1e-10  # eigenvalues of Q below count as 0
_SAME = 1e-9  # differences of probabilities that are rounding


@dataclass(frozen=True)
class Separability:
    """Whether marginals are separable, and which test said so.

    Parameters
    ----------
    answer : bool or None
        Whether γ = θ; None if no test decided.
    test : {"scores", "rows", "outcomes", "none"}
        The test that decided.
    lower : float or None
        Lower bound on the minimax error e* that the test by rows gives.
    class_conditional : bool, default=False
        Whether θ and e* are about the distributions that have the class-conditional
        pairs too.

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
        what = "marginals" + (
            " with their class-conditional pairs" if self.class_conditional else ""
        )
        if self.answer is None:
            return f"No test decided whether the {what} are separable."
        how = {
            "scores": "the estimates are probabilities at every outcome",
            "rows": "the estimates are probabilities at every row"
            + self.class_conditional * ", and classes drawn by them have these pairs",
            "outcomes": "a linear program over all outcomes decided",
        }
        word = "separable" if self.answer else "not separable"
        return f"The {what} are {word}: {how[self.test]}."


def separable(
    m: Marginals,
    X: Any = None,
    *,
    sample_weight: Any = None,
    class_conditional: bool = True,
    tolerance: float = 1e-7,
) -> Separability:
    """Whether additive scores reach the minimax Brier risk of the marginals.

    Parameters
    ----------
    m : Marginals
        At most 2,000 categories are looked into.
    X : frame or array, optional
        The rows that the marginals were counted from.
    sample_weight : sequence of float, optional
        The weights they were counted with.
    class_conditional : bool, default=True
        Ask about the distributions that have the class-conditional pairs too, where m
        has them, as `theta` does.
    tolerance : float, default=1e-7
        What an estimate may be below 0, or a probability be off, by rounding.

    Returns
    -------
    Separability

    Examples
    --------
    >>> import renyi
    >>> from renyi.robust.separability import separable
    >>> X, y = renyi.datasets.load("votes")
    >>> print(separable(renyi.Marginals.from_data(X[["crime", "immigration"]], y)))
    The marginals are separable: the estimates are probabilities at every outcome.
    >>> separable(renyi.Marginals.from_data(X, y)).answer is None
    True
    """
    sizes = m.encoder.columns.sizes
    tight = class_conditional and m.class_counts is not None and len(sizes) > 1
    if sizes.sum() > MAX_CATEGORIES:
        return Separability(None, "none", None, tight)
    rows = None if X is None else _rows(m, X, sample_weight)
    Z, null = minimisers(m)
    if not tight and lowest_estimate(Z, null, sizes) >= -tolerance:
        return Separability(True, "scores")
    if rows is not None:
        W, p = rows
        t = np.asarray(W @ Z)
        if t.min() >= -tolerance and _drawn_fit(m, W, p, t, tight) <= tolerance:
            return Separability(True, "rows", float(1 - p @ t.max(axis=1)), tight)
    ambiguity = Ambiguity.of(m, tight)
    if ambiguity.n_table <= MAX_OUTCOMES:
        test = _drawn_by_estimates if tight else _within_simplex
        return Separability(test(ambiguity, Z, tolerance), "outcomes", None, tight)
    return Separability(None, "none", None, tight)


def minimisers(m: Marginals) -> tuple[Floats, Floats]:
    """Return Z with ``Q Z = F``, so that t(x) = Zᵀ W, and what can be added to it.

    That is the null space of Q but for constants that features exchange, which change
    no score.
    """
    values, vectors = eigen(m.Q)
    positive = values > _NULL * max(1.0, float(values[-1]))
    kept = vectors[:, positive]
    Z = kept @ ((kept.T @ m.F) / values[positive, None])
    return np.asarray(Z), _beyond_constants(vectors[:, ~positive], m)


def _beyond_constants(null: Floats, m: Marginals) -> Floats:
    """Return a basis of the part of a space at right angles to the constants."""
    sizes = m.encoder.columns.sizes
    constants = np.repeat(np.eye(len(sizes)) / np.sqrt(sizes), sizes, axis=0)
    # Exchanges are the constants of zero sum: those at right angles to all ones.
    direction = np.sqrt(sizes / sizes.sum())
    exchanged = constants - np.outer(constants @ direction, direction)
    rest = null - exchanged @ (exchanged.T @ null)
    U, singular, _ = np.linalg.svd(rest, full_matrices=False)
    return np.asarray(U[:, singular > 0.5])


def lowest_estimate(Z: Floats, null: Floats, sizes: NDArray[np.intp]) -> float:
    """Lowest t_y(x) over all outcomes and classes, for the best of the minimisers."""
    starts = offsets(sizes)[:-1]
    low = float(np.minimum.reduceat(Z, starts, axis=0).sum(axis=0).min())
    if null.shape[1] == 0 or low >= 0:
        return low
    return _best_minimiser(Z, null, sizes)


def _best_minimiser(Z: Floats, null: Floats, sizes: NDArray[np.intp]) -> float:
    """Maximise τ ≤ Σ_i l_i(y) with ``l_i(y) ≤ (Z + null C)(k, y)`` and C 1 = 0."""
    (D, r), d, K = null.shape, len(sizes), Z.shape[1]
    owner = sparse.csr_array(
        (np.ones(D), (np.arange(D), np.repeat(np.arange(d), sizes))), shape=(D, d)
    )
    eye, column = sparse.eye_array(K), np.ones((K, 1))
    rows = [
        [sparse.kron(eye, null), sparse.kron(eye, -owner), None],
        [None, sparse.kron(eye, np.ones((1, d))), -column],
        [sparse.kron(np.ones((1, K)), sparse.eye_array(r)), None, None],
    ]
    cost = np.append(np.zeros(K * (r + d)), -1.0)
    low = np.concatenate([-Z.T.ravel(), np.zeros(K + r)])
    high = np.concatenate([np.full(K * D + K, np.inf), np.zeros(r)])
    answer = solve(Program(cost, sparse.block_array(rows), low, high, -np.inf))
    return -answer.value if answer.status == "optimal" else -np.inf


# ---- the test by rows


def _rows(m: Marginals, X: Any, sample_weight: Any) -> tuple[Floats, Floats]:
    """Return indicators and probabilities of the rows, which must have the pairs of m.

    Rows without weight are left out.
    """
    codes = m.encoder.transform(X)
    weights = check_sample_weight(sample_weight, codes.shape[1])
    p = np.ones(codes.shape[1]) if weights is None else weights
    W = dense(codes[:, p > 0], m.encoder.columns.sizes)
    p = p[p > 0] / p.sum()
    if not len(p) or np.abs(W.T @ (p[:, None] * W) - m.Q).max() > _SAME:
        forgotten = m.weighted and sample_weight is None
        raise ValueError(
            "The rows X do not have the pairs of the marginals, so they are not those "
            "that were counted: give "
            + ("their weights as sample_weight." if forgotten else "these, or none.")
        )
    return W, p


def _drawn_fit(m: Marginals, W: Floats, p: Floats, t: Floats, tight: bool) -> float:
    """Largest difference between the given tables and those of classes drawn by t."""
    mass = p[:, None] * t
    off = float(np.abs(W.T @ mass - m.F).max())
    if tight and m.class_counts is not None:
        for counts, each in zip(m.class_counts, mass.T, strict=True):
            pairs = W.T @ (each[:, None] * W)
            off = max(off, float(np.abs(pairs - counts / m.n).max()))
    return off


def _estimates(ambiguity: Ambiguity, X: Codes, Z: Floats) -> Floats:
    return np.asarray(Z[X + offsets(ambiguity.sizes)[:-1]].sum(axis=1))


# ---- the test by outcomes


def _within_simplex(ambiguity: Ambiguity, Z: Floats, tolerance: float) -> bool:
    """Whether a member of C lives where the estimates are probabilities."""
    X = ambiguity.outcomes()
    t = _estimates(ambiguity, X, Z)
    good = np.repeat(t.min(axis=1, keepdims=True) >= -tolerance, t.shape[1], axis=1)
    _, answer = worst_member(ambiguity, good.astype(float), X)
    if answer.status != "optimal":
        raise ValueError(contradiction(ambiguity))
    return bool(-answer.value >= 1 - tolerance)


def _drawn_by_estimates(ambiguity: Ambiguity, Z: Floats, tolerance: float) -> bool:
    """Whether a member of C has classes drawn by the estimates.

    Minimise the largest difference between the tables of ``u(x) t_y(x)``, u ≥ 0, and
    the given ones.
    """
    X = ambiguity.outcomes()
    _refuse_empty(ambiguity, X)
    t = _estimates(ambiguity, X, Z)
    good = t.min(axis=1) >= -tolerance
    X, t = X[good], t[good]
    N, K = t.shape
    draw = sparse.csc_array(
        (t.ravel(), np.arange(N * K), np.arange(0, N * K + 1, K)), shape=(N * K, N)
    )
    tables, b = ambiguity.constraint_matrix(X) @ draw, ambiguity.b
    off, infinite = np.ones((len(b), 1)), np.full(len(b), np.inf)
    both = sparse.block_array([[tables, off], [tables, -off]])
    low, high = np.append(b, -infinite), np.append(infinite, b)
    answer = solve(Program(np.append(np.zeros(N), 1.0), both, low, high))
    return answer.status == "optimal" and answer.value <= tolerance


def _refuse_empty(ambiguity: Ambiguity, X: Codes) -> None:
    """Refuse tables that no distribution has: θ is about none."""
    anything = np.zeros((len(X), ambiguity.n_classes))
    if worst_member(ambiguity, anything, X)[1].status != "optimal":
        raise ValueError(contradiction(ambiguity))
