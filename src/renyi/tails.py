r"""Tail inequalities: certificates from class-conditional pairs and from held-out rows.

**Class-conditional pairs** P(X_i, X_j, Y) give the means and covariances of the scores
within each class. At a row of class y the rule map errs only if some difference
``u_k = t_y − t_k`` is not positive. Let m > 0 and V be mean and covariance of u within
the class, R any positive definite matrix with unit diagonal, a ≥ 0, and v the vector
with entries ``a_k u_k − 1``. If u_k ≤ 0 then ``vᵀR⁻¹v ≥ v_k² / R_kk ≥ 1`` (Cauchy and
Schwarz), so by Markov's inequality ``P(error | y) ≤ E[vᵀR⁻¹v | y]``. At the best
multiple of a this is, with ``a_k = x_k / m_k`` and ``N_kl = V_kl / (m_k m_l)``,

.. math::
   1^T R^{-1} 1 - \frac{(1^T R^{-1} x)^2}{x^T (R^{-1} \circ (N + 1 1^T)) x},
   \qquad x \ge 0.

Two classes leave R = 1: Cantelli's ``V / (V + m²)``. R = I gives the sum of Cantelli's
bounds over the other classes. R = (I + 11ᵀ)/2 and a = 1 give the scaled bound of the
closed form within the class; since ``Σ P(y) c_y² / d_y ≥ (Σ P(y) c_y)² / Σ P(y) d_y``,
the sum over the classes is never worse than the closed form. R = N^½, brought to unit
diagonal, is nearly the best where errors are rare. The least of the three counts.

**Held-out rows**, independent of the model and of each other, bound the risk γ in the
population by the empirical Bernstein inequality (Maurer & Pontil 2009, Theorem 4): for
n values in [0, R] with mean v̄ and sample variance S,

.. math:: E v \le \bar v + \sqrt{2 S \ln(2/\delta) / n} + 7 R \ln(2/\delta) / (3(n-1))

with probability 1 − δ. γ is the same for all distributions with the population's
marginals, so the bound covers them all. Estimates must not be clipped: the mean of a
clipped error is not a function of the marginals. Clopper and Pearson's bound on the
share of errors covers the sampled population only, and is tighter there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from renyi.indicators import offsets

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)

# Multiples of the scores, relative to the largest score possible, at which held-out
# rows bound the rule map. Neighbours lose at most 2 % of the gain between them.
_SCALES = 0.25 * 1.3 ** np.arange(17)


class ClassMoments(NamedTuple):
    """Means and covariances of the scores within each class."""

    priors: Floats  # (classes,)
    means: Floats  # (classes, K)
    covariances: Floats  # (classes, K, K)
    score_error: float  # what rounding may do to a score
    square_error: float  # and to a covariance


@np.errstate(over="ignore", invalid="ignore")
def class_moments(
    P: Floats, b: Floats, inner: NDArray[Any], sizes: NDArray[Any]
) -> ClassMoments:
    """Return the moments of additive scores from class-conditional pairs.

    Parameters
    ----------
    P : ndarray of shape (D, K)
        Points of every category for each of the K classes of the model.
    b : ndarray of shape (K,)
        Intercepts.
    inner : ndarray of shape (classes, D, D)
        P(X_i, X_j, Y), or counts, of the classes that occur.
    sizes : ndarray of d ints
        Number of categories of each feature.

    Examples
    --------
    >>> inner = np.array([np.diag([3, 1]), np.diag([1, 3])])
    >>> P = np.array([[0.5, -0.5], [-0.5, 0.5]])
    >>> moments = class_moments(P, np.zeros(2), inner, np.array([2]))
    >>> moments.priors, moments.means
    (array([0.5, 0.5]), array([[ 0.25, -0.25],
           [-0.25,  0.25]]))
    """
    starts = offsets(sizes)[:-1]
    totals = np.array([np.diag(block)[: sizes[0]].sum() for block in inner], float)
    means = np.tile(np.asarray(b, np.float64), (len(inner), 1))
    covariances = np.zeros((len(inner), P.shape[1], P.shape[1]))
    for y in np.flatnonzero(totals):
        share = np.diag(inner[y])[:, None] / totals[y]
        by_feature = np.add.reduceat(share * P, starts, axis=0)
        # Points centred in every feature: the mean is not subtracted from a square.
        centred = P - np.repeat(by_feature, sizes, axis=0)
        means[y] += by_feature.sum(axis=0)
        covariances[y] = centred.T @ (inner[y] / totals[y]) @ centred
    largest = np.maximum.reduceat(np.abs(P).max(axis=1), starts).sum()
    total = float(largest + np.abs(b).max())
    score_error = _EPS * (len(sizes) + int(sizes.max()) + 4) * (total + 1)
    square_error = _EPS * len(P) * total * total
    priors = totals / totals.sum()
    return ClassMoments(priors, means, covariances, score_error, square_error)


@np.errstate(over="ignore", invalid="ignore")
def cantelli(moments: ClassMoments, own: ArrayLike | None = None) -> float:
    r"""Worst error of the rule map given P(X_i, X_j, Y).

    For two classes ``Σ_y P(y) var_y / (var_y + mean_y²)``, a class whose mean score has
    the wrong sign counting 1; the module describes more classes. Ties count as errors.

    Parameters
    ----------
    moments : ClassMoments
        Of the scores, which may have any scale.
    own : sequence of int, optional
        Place among the K scores of each class that occurs; 0, 1, … by default.

    Examples
    --------
    >>> inner = np.array([np.diag([3, 1]), np.diag([1, 3])])
    >>> P = np.array([[0.5, -0.5], [-0.5, 0.5]])
    >>> moments = class_moments(P, np.zeros(2), inner, np.array([2]))
    >>> round(cantelli(moments), 6)
    0.75
    """
    places = np.arange(len(moments.priors)) if own is None else np.asarray(own)
    K = moments.means.shape[1]
    bound = 0.0
    for y in np.flatnonzero(moments.priors):
        others = np.arange(K) != places[y]
        contrast = np.eye(K)[places[y]] - np.eye(K)[others]
        mean = contrast @ moments.means[y]
        covariance = contrast @ moments.covariances[y] @ contrast.T
        # Rounded down and up: scores that are all equal must not look certain. Two
        # scores may be off here, and when the rule compares them.
        mean -= 4 * moments.score_error
        covariance += 4 * moments.square_error * np.eye(K - 1)
        bound += float(moments.priors[y]) * _missed(mean, covariance)
    return min(1.0, bound)


def _missed(mean: Floats, covariance: Floats) -> float:
    """Bound the probability that some variable is not positive, from two moments."""
    if not np.isfinite(covariance).all() or mean.min() <= 0:
        return 1.0
    noise = covariance / np.outer(mean, mean)
    found = [1.0]
    for R in _correlations(noise):
        inverse = np.linalg.inv(R)
        g, H = inverse.sum(axis=1), inverse * (noise + 1)
        # Every x ≥ 0 is a proof. `mean` is a = 1, which the closed form takes.
        for x in (np.maximum(np.linalg.solve(H, g), 0), mean / mean.max()):
            gain = max(0.0, float(g @ x))
            if gain > 0:
                found.append(float(g.sum() - gain**2 / (x @ H @ x)))
    return max(0.0, min(found))


def _correlations(noise: Floats) -> Iterator[Floats]:
    """Yield matrices R of the lemma: unit diagonal, safely positive definite."""
    eye = np.eye(len(noise))
    yield eye
    if len(noise) == 1:
        return
    yield (eye + 1) / 2
    values, vectors = np.linalg.eigh(noise)
    root = (vectors * np.sqrt(np.maximum(values, 1e-8 * values[-1]))) @ vectors.T
    width = np.sqrt(np.diag(root))
    R = (1 - 1e-6) * root / np.outer(width, width)
    np.fill_diagonal(R, 1.0)
    yield R


# ---- held-out rows


def empirical_bernstein(values: ArrayLike, upper: float, confidence: float) -> float:
    """Upper confidence bound on the mean of a variable that lies in [0, upper].

    Parameters
    ----------
    values : sequence of float
        Independent observations, two or more.
    upper : float
        The largest value possible, known beforehand.
    confidence : float
        Probability with which the bound holds at least.

    Examples
    --------
    >>> round(empirical_bernstein(np.tile([0.1, 0.3], 500), 1.0, 0.95), 4)
    0.2172
    """
    v = np.asarray(values, np.float64)
    _check_confidence(confidence)
    if upper == np.inf:  # points too large to square
        return np.inf
    if v.ndim != 1 or len(v) < 2:
        raise ValueError("A bound from held-out rows needs at least two rows.")
    if not np.isfinite(v).all() or v.min() < 0 or v.max() > upper * (1 + 1e-9) + 1e-12:
        raise ValueError(
            f"The values lie between {v.min():g} and {v.max():g}, and not in "
            f"[0, {upper:g}]: compute the range from the same points as the values."
        )
    log = np.log(2 / (1 - confidence))
    spread = np.sqrt(2 * v.var(ddof=1) * log / len(v))
    return float(min(upper, v.mean() + spread + 7 * upper * log / (3 * (len(v) - 1))))


def clopper_pearson(n_errors: int, n: int, confidence: float) -> float:
    """Upper confidence bound on a probability, from n independent trials.

    Examples
    --------
    >>> round(clopper_pearson(0, 100, 0.95), 4)  # 1 − 0.05^(1/100)
    0.0295
    """
    _check_confidence(confidence)
    if not 0 <= n_errors <= n or n < 1:
        raise ValueError(f"{n_errors} errors in {n} rows are not possible.")
    if n_errors == n:
        return 1.0
    return float(betaincinv(n_errors + 1, n - n_errors, confidence))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence!r}.")


@np.errstate(over="ignore", invalid="ignore")
def risk_range(P: Floats, b: Floats, sizes: NDArray[Any]) -> float:
    r"""Bound ``½‖t(x) − e_y‖²`` over all x and y, with ``t = 1/K + b + points``.

    Every t_k lies between l_k and h_k, which add up each feature's extremes, so
    ``‖t − e_y‖²`` is at most ``max((1 − l_y)², (h_y − 1)²) + Σ_{k≠y} max(l_k², h_k²)``.
    Also, by the triangle inequality, ``‖t − e_y‖ ≤ ‖c − e_y‖ + Σ_i max_k ‖z_ik − c_i‖``
    with the mean of the feature's points as c_i and c = 1/K + b + Σ c_i; that is
    smaller where each category speaks for one class. For two classes, with points −z
    and z, the first is exact: ``(½ + max(h(z), h(−z)))²``. Mean points, which labels
    unseen in training get, are within both.

    Examples
    --------
    >>> z = np.array([[-0.2], [0.3], [-0.1], [0.4]])
    >>> round(risk_range(np.hstack([-z, z]), np.zeros(2), np.array([2, 2])), 6)
    1.44
    """
    K, starts = P.shape[1], offsets(sizes)[:-1]
    least = np.minimum.reduceat(P, starts, axis=0)
    most = np.maximum.reduceat(P, starts, axis=0)
    low, high = 1 / K + b + least.sum(axis=0), 1 / K + b + most.sum(axis=0)
    other = np.maximum(low**2, high**2)
    own = np.maximum((1 - low) ** 2, (high - 1) ** 2)
    boxes = other.sum() - other + own
    centres = np.add.reduceat(P, starts, axis=0) / np.asarray(sizes)[:, None]
    off = np.linalg.norm(P - np.repeat(centres, sizes, axis=0), axis=1)
    radius = np.maximum.reduceat(off, starts).sum()
    middle = 1 / K + b + centres.sum(axis=0)
    balls = (np.linalg.norm(middle - np.eye(K), axis=1) + radius) ** 2
    found = float(np.minimum(boxes, balls).max()) / 2
    return found if np.isfinite(found) else np.inf


@np.errstate(over="ignore", invalid="ignore")
def heldout_gamma(
    t: Floats, y: NDArray[Any], upper_range: float, confidence: float
) -> float:
    """Upper confidence bound on γ = ½E‖t − e_Y‖² in the population of the rows.

    With the confidence stated, the rules renyi and sharp err at most twice this, and
    map at most four times, on *every* population with the same marginals.

    Parameters
    ----------
    t : ndarray of shape (n, K)
        Estimates of a model trained on other rows, neither clipped nor projected.
    y : ndarray of n ints
        Places of the classes.
    upper_range : float
        From `risk_range`.
    confidence : float
        Probability with which the bound holds at least.

    Examples
    --------
    >>> t, y = np.tile([[0.9, 0.1], [0.2, 0.8]], (500, 1)), np.tile([0, 1], 500)
    >>> round(heldout_gamma(t, y, 1.0, 0.95), 4)
    0.0349
    """
    off = t.copy()
    off[np.arange(len(y)), y] -= 1
    return empirical_bernstein((off**2).sum(axis=1) / 2, upper_range, confidence)


def heldout_map(
    t: Floats,
    y: NDArray[Any],
    P: Floats,
    b: Floats,
    sizes: NDArray[Any],
    confidence: float,
) -> float:
    """Worst error of the rule map, on every population with the rows' marginals.

    The rule stays the same when s − s̄ is multiplied by any τ > 0, so 4γ of every
    multiple bounds its error. Half of the probability of failure is spent on τ = 1, the
    rest on a grid of others that does not depend on the rows.

    Examples
    --------
    >>> z = np.array([[-30.0], [30.0]])  # far too large for estimates
    >>> P, b, x = np.hstack([-z, z]), np.zeros(2), np.tile([0, 1], 5000)
    >>> round(heldout_map(0.5 + P[x], x, P, b, np.array([2]), 0.95), 3)
    0.017
    """
    K, starts = P.shape[1], offsets(sizes)[:-1]
    P, b = P - P.mean(axis=1, keepdims=True), b - b.mean()
    off = t - t.mean(axis=1, keepdims=True)
    least = b + np.minimum.reduceat(P, starts, axis=0).sum(axis=0)
    most = b + np.maximum.reduceat(P, starts, axis=0).sum(axis=0)
    reach = float(np.maximum(-least, most).max())
    scales = [1.0, *(_SCALES / reach if reach > 0 else ())]
    found = []
    for j, scale in enumerate(scales):
        spent = (1 - confidence) / (2 if j == 0 else 2 * len(_SCALES))
        upper = risk_range(scale * P, scale * b, sizes)
        found.append(4 * heldout_gamma(1 / K + scale * off, y, upper, 1 - spent))
    return min(1.0, *found)


@dataclass(frozen=True)
class HeldoutBounds:
    """What held-out rows prove, each bound with the confidence stated.

    Parameters
    ----------
    gamma : float
        Upper bound on the risk γ in the population.
    bounds : dict
        Worst error of each rule on every population with the same marginals.
    sampled_error : float
        Upper bound on the error of the model's answers on the population the rows were
        drawn from, and on no other (Clopper and Pearson).
    observed_error : float
        Share of errors seen.
    n : int
        Held-out rows.
    confidence : float
        Probability with which each bound holds at least.
    """

    gamma: float
    bounds: dict[str, float]
    sampled_error: float
    observed_error: float
    n: int
    confidence: float


def heldout_bounds(
    t: Floats,
    y: NDArray[Any],
    answers: NDArray[Any],
    P: Floats,
    b: Floats,
    sizes: NDArray[Any],
    confidence: float = 0.95,
) -> HeldoutBounds:
    """Return all bounds that held-out rows give for a model trained on others.

    Parameters
    ----------
    t : ndarray of shape (n, K)
        Estimates, neither clipped nor projected.
    y, answers : ndarray of n ints
        Places of the classes, and of the model's answers.
    P, b, sizes
        The model's points, intercepts and numbers of categories.
    confidence : float, default=0.95
        Of each bound by itself; all three hold with 1 − 3(1 − confidence).

    Examples
    --------
    >>> z = np.array([[-0.4], [0.4]])
    >>> P, b, x = np.hstack([-z, z]), np.zeros(2), np.tile([0, 1], 5000)
    >>> found = heldout_bounds(0.5 + P[x], x, x, P, b, np.array([2]))
    >>> round(found.gamma, 4), round(found.sampled_error, 4)
    (0.0107, 0.0003)
    """
    gamma = heldout_gamma(t, y, risk_range(P, b, sizes), confidence)
    errors = int((answers != y).sum())
    robust = min(1.0, 2 * gamma)
    mapped = heldout_map(t, y, P, b, sizes, confidence)
    return HeldoutBounds(
        gamma,
        {"map": mapped, "renyi": robust, "sharp": robust},
        clopper_pearson(errors, len(y), confidence),
        errors / len(y),
        len(y),
        confidence,
    )
