r"""Tail inequalities: the class-conditional certificate of the rule map.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import offsets
from renyi.scorecard import score_error

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class ClassMoments(NamedTuple):
    """Means and covariances of the scores within each class."""

    priors: Floats  # (classes,)
    means: Floats  # (classes, K)
    covariances: Floats  # (classes, K, K)
    score_error: float  # what rounding may do to a score
    square_error: float  # and to a covariance
    largest: float  # absolute score


@np.errstate(over="ignore", invalid="ignore")
def class_moments(
    P: Floats, b: Floats, inner: NDArray[Any], sizes: NDArray[Any]
) -> ClassMoments:
    """Return the moments of additive scores from class-conditional pairs.

    P and b are points (D, K) and intercepts (K,), `inner` the probabilities or counts
    P(X_i, X_j, Y) of the classes that occur, and `sizes` the categories of each
    feature.
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
    reach = np.maximum.reduceat(np.abs(P).max(axis=1), starts).sum()
    largest = float(reach + np.abs(b).max())
    return ClassMoments(
        totals / totals.sum(),
        means,
        covariances,
        score_error(P, np.asarray(b), sizes),
        _EPS * len(P) * largest * largest,
        largest,
    )


@np.errstate(over="ignore", invalid="ignore")
def cantelli(moments: ClassMoments, own: ArrayLike | None = None) -> float:
    r"""Worst error of the rule map given P(X_i, X_j, Y); ties count as errors.

    For two classes ``Σ_y P(y) var_y / (var_y + mean_y²)``, a class whose mean score has
    the wrong sign counting 1; the module describes more classes. `own` is the place
    among the K scores of each class that occurs; 0, 1, … by default.
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
