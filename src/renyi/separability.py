r"""Separability: whether additive scores lose nothing, γ = θ.

γ = θ iff some member of C has t(X) in the probability simplex almost surely, t being
the estimates of the unregularised minimiser (for two classes: |s(X)| ≤ ½). Then the
rules made of t err at worst at most twice as often as the minimax rule. Three tests:

* ``"scores"``: t(x) is in the simplex at every x, for some minimiser. Sufficient, not
  necessary. The least t_y is ``Σ_i min_k z_i(k, y)``. Where Q has a null space beyond
  the constants that features can exchange, a linear program finds the best minimiser.
* ``"rows"``: t is in the simplex at all rows: their distribution is the member of C
  sought. The distribution of the rows with classes drawn by t is in C too, so that
  then ``e* ≥ 1 − mean max_y t_y ≥ γ``.
* ``"outcomes"``: a linear program over all outcomes of a small table finds such a
  member of C or proves that there is none. This test alone can say no.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi import directprogram, programs
from renyi.ambiguity import Ambiguity
from renyi.indicators import dense, offsets
from renyi.marginals import Marginals
from renyi.ridge import eigen

Floats = NDArray[np.float64]

MAX_CATEGORIES = 2_000
MAX_OUTCOMES = 10_000  # times classes, for the test by outcomes
_NULL = 1e-10  # eigenvalues of Q below count as 0


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

    Examples
    --------
    >>> print(Separability(False, "outcomes"))
    The marginals are not separable: a linear program over all outcomes decided.
    """

    answer: bool | None
    test: str
    lower: float | None = None

    def __str__(self) -> str:
        """Return the answer in a sentence."""
        if self.answer is None:
            return "No test decided whether the marginals are separable."
        how = {
            "scores": "the estimates are probabilities at every outcome",
            "rows": "the estimates are probabilities at every row",
            "outcomes": "a linear program over all outcomes decided",
        }
        word = "separable" if self.answer else "not separable"
        return f"The marginals are {word}: {how[self.test]}."


def separable(m: Marginals, X: Any = None, *, tolerance: float = 1e-7) -> Separability:
    """Whether additive scores reach the minimax Brier risk of the marginals.

    Parameters
    ----------
    m : Marginals
        At most 2,000 categories are looked into.
    X : frame or array, optional
        The rows that the marginals were counted from.
    tolerance : float, default=1e-7
        What an estimate may be below 0, or a probability above it, by rounding.

    Returns
    -------
    Separability

    Examples
    --------
    >>> import renyi
    >>> from renyi.separability import separable
    >>> X, y = renyi.datasets.load("votes")
    >>> print(separable(renyi.Marginals.from_data(X[["crime", "immigration"]], y)))
    The marginals are separable: the estimates are probabilities at every outcome.
    >>> separable(renyi.Marginals.from_data(X, y)).answer is None
    True
    """
    sizes = m.encoder.columns.sizes
    if sizes.sum() > MAX_CATEGORIES:
        return Separability(None, "none")
    Z, null = minimisers(m)
    if lowest_estimate(Z, null, sizes) >= -tolerance:
        return Separability(True, "scores")
    if X is not None:
        t = _at_rows(m, X, Z)
        if t.min() >= -tolerance:
            return Separability(True, "rows", float(1 - t.max(axis=1).mean()))
    ambiguity = Ambiguity.of(m, class_conditional=False)
    if ambiguity.n_outcomes * ambiguity.n_classes <= MAX_OUTCOMES:
        return Separability(_by_outcomes(ambiguity, Z, tolerance), "outcomes")
    return Separability(None, "none")


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
    size = K * r + K * d + 1
    infinite = np.full(size, np.inf)
    program = programs.Program(
        np.concatenate([np.zeros(size - 1), [-1.0]]),
        sparse.csc_array(sparse.block_array(rows)),
        np.concatenate([-Z.T.ravel(), np.zeros(K + r)]),
        np.concatenate([np.full(K * D + K, np.inf), np.zeros(r)]),
        -infinite,
        infinite,
    )
    answer = programs.solve(program)
    return -answer.value if answer.status == "optimal" else -np.inf


def _at_rows(m: Marginals, X: Any, Z: Floats) -> Floats:
    """Estimates at the rows, which must be those of the marginals."""
    codes = m.encoder.transform(X)
    W = dense(codes, m.encoder.columns.sizes)
    if not m.weighted and not np.array_equal(W.T @ W, m.feature_counts):
        raise ValueError(
            "The rows X are not those that the marginals were counted from: give "
            "exactly these, or none."
        )
    return np.asarray(W @ Z)


def _by_outcomes(ambiguity: Ambiguity, Z: Floats, tolerance: float) -> bool:
    """Whether a member of C lives where the estimates are probabilities."""
    X = ambiguity.outcomes()
    t = Z[X + offsets(ambiguity.sizes)[:-1]].sum(axis=1)
    good = np.repeat((t.min(axis=1, keepdims=True) >= -tolerance), t.shape[1], axis=1)
    mass, _, answer = directprogram.worst_member(ambiguity, good.astype(float), X)
    if answer.status != "optimal":
        raise ValueError(
            "No distribution has all of these marginals: call validate() on them, or "
            "leave columns out with select()."
        )
    return bool(mass >= 1 - tolerance)
