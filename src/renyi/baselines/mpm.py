r"""Minimax probability machine: the best half space given means and covariances.

Consider all distributions with class means μ_y and covariances Σ_y. The half space
``aᵀw > b`` with the smallest error of the worse class has (Lanckriet, El Ghaoui,
Bhattacharyya and Jordan, JMLR 3, 2003)

.. math:: \frac1\kappa = \min_a \sqrt{a^T \Sigma_0 a} + \sqrt{a^T \Sigma_1 a},
    \quad a^T(\mu_1 - \mu_0) = 1, \qquad b = a^T\mu_1 - \kappa\sqrt{a^T\Sigma_1 a},

and the error of each class is at most 1/(1 + κ²) (Chebyshev, one-sided). Here w is the
one-hot vector of a row, so that pair counts within each class give Σ_y.

No cone program is needed. Since ``(√A + √B)² = min_s A/s + B/(1 − s)`` over 0 < s < 1,

.. math:: \kappa^2 = \max_s \delta^T \Big(\frac{\Sigma_0}{s}
    + \frac{\Sigma_1}{1 - s}\Big)^{-1} \delta, \qquad \delta = \mu_1 - \mu_0,

a concave function of one number, and cheap once Σ_0 and Σ_1 are diagonalised together.
The one-hot covariances are singular. If both vanish along δ, the classes are separated
without error and κ is infinite. If the best s is 0 or 1, one class does not vary along
a: all its rows have the score of the threshold. The threshold is then moved away from
them by more than the rounding error.

The guarantee holds for the scorecard as computed, with its rounding and its answers to
ties: Cantelli's inequality in each class (`renyi.certificates.closed_form`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from sklearn.utils.validation import check_is_fitted

from renyi.certificates.closed_form import cantelli, class_moments
from renyi.counting.onehot import offsets
from renyi.encoding.encoder import Encoder
from renyi.estimators.classifier import CountsClassifier
from renyi.marginals.consistency import class_pairs
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.validation import check_amount

Floats = NDArray[np.float64]

_RANK = 1e-11  # variances below this share of the largest are rounding
_DIFFERENCE = 1e-8  # smaller differences of means are rounding
# Distance between a class that does not vary and the threshold, in standard deviations
# of the rounding: Cantelli's bound of the class is then 1e-5.
_ROOM = 300


class HalfSpace(NamedTuple):
    """Answer class 1 if ``aᵀw > b``, else class 0."""

    a: Floats
    b: float
    kappa: float


def fit_half_space(
    means: Floats, covariances: Floats, sizes: NDArray[Any]
) -> HalfSpace:
    """Return the half space with the smallest error of the worse class."""
    delta = means[1] - means[0]
    first, second = covariances
    values, vectors = eigh(first + second)
    real = values > _RANK * max(float(values[-1]), 0.0)
    sure = vectors[:, ~real].T @ delta
    if np.linalg.norm(sure) > _DIFFERENCE:  # no variance in either class
        a = vectors[:, ~real] @ sure / (sure @ sure)
        return HalfSpace(a, float(a @ means.sum(axis=0)) / 2, np.inf)
    if np.linalg.norm(delta) <= _DIFFERENCE or not real.any():
        return HalfSpace(np.zeros(len(delta)), 0.0, 0.0)
    scaled = vectors[:, real] / np.sqrt(values[real])
    share, turn = eigh(scaled.T @ first @ scaled)
    share = np.where(share < _RANK, 0.0, np.where(share > 1 - _RANK, 1.0, share))
    basis = scaled @ turn
    kappa2, s = _largest(share, (basis.T @ delta) ** 2)
    a = basis @ (_inverse(share, s) * (basis.T @ delta)) / kappa2
    kappa = float(np.sqrt(kappa2))
    if s in (0, 1):  # the first class does not vary along a, or the second
        toward = 1 - 2 * s
        centre = float(a @ means[int(s)])
        # Distance from rows that all have one score: the classes' means are 1 apart,
        # and a variance may be off by the square of the deviation.
        reach = np.maximum.reduceat(np.abs(a), offsets(sizes)[:-1]).sum() + abs(centre)
        deviation = 2 * np.sqrt(np.finfo(np.float64).eps * len(a)) * (reach + 1)
        room = min(max(_ROOM, kappa) * float(deviation), 0.5)
        return HalfSpace(a, centre + toward * room, kappa)
    # Both ends give the same threshold; their middle halves the rounding error.
    low = a @ means[0] + kappa * np.sqrt(max(a @ first @ a, 0.0))
    high = a @ means[1] - kappa * np.sqrt(max(a @ second @ a, 0.0))
    return HalfSpace(a, float(low + high) / 2, kappa)


def _inverse(share: Floats, s: float) -> Floats:
    """Return the diagonal of (Σ_0/s + Σ_1/(1 − s))⁻¹ where Σ_0 and Σ_1 are diagonal."""
    if s in (0, 1):
        return np.asarray(share == s, np.float64)
    return s * (1 - s) / (share * (1 - s) + (1 - share) * s)


def _largest(share: Floats, weights: Floats) -> tuple[float, float]:
    """Maximise the concave function Σ weights · inverse over s; return both."""

    def slope(s: float) -> float:
        bend = share / s**2 - (1 - share) / (1 - s) ** 2
        return float(weights @ (bend * _inverse(share, s) ** 2))

    low = 1e-12
    high = 1 - 1e-12
    s = 0.0 if slope(low) <= 0 else 1.0
    if slope(low) > 0 > slope(high):
        s = float(brentq(slope, low, high, xtol=1e-15))
    return float(weights @ _inverse(share, s)), s


def indicator_moments(
    class_counts: NDArray[Any], sizes: NDArray[Any]
) -> tuple[Floats, Floats, Floats]:
    """Return class probabilities, means (K, D) and covariances (K, D, D)."""
    single = np.einsum("ykk->yk", class_counts).astype(np.float64)
    rows = single[:, : sizes[0]].sum(axis=1)
    means = single / rows[:, None]
    squares = class_counts / rows[:, None, None]
    return rows / rows.sum(), means, squares - means[:, :, None] * means[:, None, :]


class MinimaxProbabilityMachine(CountsClassifier):
    """Half space with the smallest guarantee given class means and covariances.

    For two classes. For more, wrap it in scikit-learn's OneVsRestClassifier; the
    guarantee is then one for each class.

    Parameters
    ----------
    regularisation : float, default=0.01
        Added to the variance of every indicator, to allow for noise in the covariances.
        Zero gives the plain machine, which may separate few rows without error (κ is
        infinite) and fail on new ones.
    encoder : Encoder, optional
        How cells become categories.

    Attributes
    ----------
    guarantee_ : float
        Bound on the error over all distributions with the class means and covariances:
        ``Σ_y P(y) v_y / (v_y + m_y²)``, rounded up. Here v_y is the variance of the
        score in class y and m_y the distance of its mean from the threshold. Without
        regularisation it is 1/(1 + κ²), with it at most that, except by rounding.
    kappa_ : float
        The machine's κ; may be infinite.
    scorecard_ : Scorecard
        The half space as a table of points.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As in every classifier trained from counts.

    See Also
    --------
    RenyiClassifier : Train a scorecard with a guarantee.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.baselines.MinimaxProbabilityMachine().fit(X, y)
    >>> round(clf.kappa_, 2), round(clf.guarantee_, 3)
    (2.73, 0.106)
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    """

    _class_conditional = True

    def __init__(
        self, regularisation: float = 0.01, encoder: Encoder | None = None
    ) -> None:
        self.regularisation = regularisation
        self.encoder = encoder

    def _check_parameters(self) -> None:
        check_amount("regularisation", self.regularisation, "a variance")

    def _train(self, m: Marginals) -> None:
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass: there are {len(self.classes_)} classes. Wrap the machine "
                "in sklearn.multiclass.OneVsRestClassifier."
            )
        counts = class_pairs(m, type(self).__name__)
        sizes = m.encoder.columns.sizes
        priors, means, plain = indicator_moments(counts, sizes)
        noise = float(self.regularisation) * np.eye(plain.shape[1])
        space = fit_half_space(means, plain + noise, sizes)
        if space.kappa == 0:  # the means are equal: answer the larger class
            space = space._replace(b=0.5 - float(priors[1] >= priors[0]))
        self.kappa_ = space.kappa
        classes = tuple(self.classes_.tolist())
        b = np.asarray(-space.b)
        weights = m.feature_counts.diagonal()
        self.scorecard_ = Scorecard(m.encoder, classes, space.a, b, weights)
        match = self.scorecard_.match(m)
        moments = class_moments(match.points, match.intercept, counts, sizes)
        self._guarantee = cantelli(moments, match.classes)

    @property
    def guarantee_(self) -> float:
        """Bound on the error for these class means and covariances."""
        check_is_fitted(self)
        return self._guarantee

    def decision_function(self, X: object) -> Floats:
        """Return ``aᵀw − b`` of each row: positive for the second class."""
        codes = self._codes(X)
        return np.asarray(self.scorecard_.scores(codes)[:, 0])

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row: its side of the half space."""
        side = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[side])

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
