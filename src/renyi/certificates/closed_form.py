r"""The closed form: bounds on a model's error that need its moments alone.

For any scores, let t_y = 1/K + s_y be the estimates and B = E‖t − e_Y‖². Every
distribution with the given marginals has the same B. Over all of them, the error is

* for the rules renyi and sharp at most ``B = 2γ``;
* for map at most ``2[1 − 1/K − (E[t_Y − t̄])₊² / E‖t − t̄·1‖²] ≤ 4γ``, t̄ the mean of
  the t_y, since the decision does not depend on the scale of t − t̄·1. Means for each
  class give a smaller bound (`renyi.solvers.map_bound`). Where a calibration moves
  decisions, the moments are those of the mapped scores.

*Rounding.* Adding g to all points of one feature and −g to another's changes no score,
but a large g would drown the moments. So each feature's mean is first moved to the
intercept. Sums of d points in floating point are still off by up to ε, a few d units in
the last place of Σ_i max|points_i|, in `predict` as here. The bounds therefore hold for
every t' with |t' − t| ≤ ε at each class: (E‖t' − e_Y‖²)^½ ≤ B^½ + K^½ε, and so on.

**Pairs within each class** P(X_i, X_j, Y) give the means and covariances of the scores
within each class. At a row of class y the rule map is wrong only if some difference
``u_k = t_y − t_k`` is not positive. Let m > 0 and V be mean and covariance of u within
the class, R any positive definite matrix with unit diagonal, a ≥ 0, and v the vector
with entries ``a_k u_k − 1``. If u_k ≤ 0 then ``vᵀR⁻¹v ≥ v_k² / R_kk ≥ 1`` (Cauchy and
Schwarz), so by Markov's inequality ``P(error | y) ≤ E[vᵀR⁻¹v | y]``. At the best
multiple of a this is, with ``a_k = x_k / m_k`` and ``N_kl = V_kl / (m_k m_l)``,

.. math::
   1^T R^{-1} 1 - \frac{(1^T R^{-1} x)^2}{x^T (R^{-1} \circ (N + 1 1^T)) x},
   \qquad x \ge 0.

Two classes leave R = 1: Cantelli's ``V / (V + m²)``. R = I gives the sum of Cantelli's
bounds over the other classes. R = (I + 11ᵀ)/2 and a = 1 give the closed form within the
class. Each class then has its own β, so the sum is never worse than the closed form.
R = N^½, brought to unit
diagonal, is nearly the best where errors are rare. The least of the three counts.

**Ranking, and other shares of two classes.** Let μ_y and σ_y² be mean and variance of
the score s within class y, Δ = μ_1 − μ_0. By Cantelli's inequality for the difference
of two independent rows, whatever the shares of the classes,

.. math:: AUC \ge \Delta_+^2 / (\Delta_+^2 + \sigma_0^2 + \sigma_1^2),

and with threshold c class 1 is missed at most ``σ_1² / (σ_1² + (μ_1 − c)₊²)``, class 0
likewise; 0/0 counts as 1, of the AUC as 0. Pairs that were not counted within classes
give μ_y and ``T = E[s²] − Σ P(y) μ_y² = Σ P(y) σ_y²``: each variance is at most
``T / P(y)``, and their sum at most ``T / min P(y)``. The error of both classes together
is the largest over all ways to share T out (`Certificate.error_at`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import centred, offsets, score_error
from renyi.counting.sparse_counts import Table
from renyi.encoding.columns import Columns
from renyi.scorecard import Match, Scorecard
from renyi.solvers.map_bound import map_bound

Floats = NDArray[np.float64]
Array = NDArray[Any]

_EPS = float(np.finfo(np.float64).eps)
# What rounded counts may be off by, as in Marginals.validate.
_TOLERANCE = 1e-6


class ScoreMoments(NamedTuple):
    """All that the closed form needs to know of a model under some marginals."""

    n: float
    n_indicators: int  # categories that have rows
    priors: Floats
    risk: float  # B = E‖t − e_Y‖²
    rounding: float  # what it may be off by
    spread: float  # E‖t − t̄·1‖²
    leads: Floats  # P(y)·E[t_y − t̄ | Y = y]
    off_rounding: float  # what each of these may be off by
    F: NDArray[Any]  # P(category, class), or its counts
    columns: Columns
    by_class: ClassScores | None = None  # of two classes
    conditional: float | None = None  # guarantee of map, by the pairs within each


class ClassScores(NamedTuple):
    """The score s within each of two classes."""

    means: Floats
    variances: Floats  # at most, each by itself
    together: float  # at most, their sum
    error: float  # what rounding may do to a mean


# What holds of two classes whatever their shares: the least AUC, and mean and variance
# of the score in the first class and the second. None where nothing is known.
Ranking = tuple[float | None, tuple[float, ...] | None]


class ClosedForm(NamedTuple):
    """The risk γ of a model, and the guarantee of each rule."""

    moments: ScoreMoments
    gamma: float
    bounds: dict[str, float]  # by the moments alone
    conditional: float | None = None  # of map, by the pairs within each class
    ranking: Ranking = (None, None)
    seconds: tuple[float, float] = (0.0, 0.0)  # for the two

    @property
    def best(self) -> dict[str, float]:
        """The least of the bounds of each rule."""
        least = 1.0 if self.conditional is None else self.conditional
        return {**self.bounds, "map": min(self.bounds["map"], least)}


def closed_form(card: Scorecard, match: Match) -> ClosedForm:
    """Return γ and the bounds on a model's error under marginals that it matches."""
    begun = time.perf_counter()
    moments = moments_of_marginals(match)
    mapped = None
    if card.mapped is not card:
        match = card.mapped.match(match.marginals)
        mapped = moments_of_marginals(match)
    bounds = bounds_of_moments(moments, card, mapped)
    then = time.perf_counter()
    within = _class_conditional(match)
    if within is not None:
        by_class = _class_scores(within, match.classes)
        ranking = _ranking(by_class, within.score_error)
        least = cantelli(within, match.classes)
        bounds = bounds._replace(conditional=least, ranking=ranking)
    return bounds._replace(seconds=(then - begun, time.perf_counter() - then))


def scale_free(
    gamma: float, bounds: dict[str, float], card: Scorecard
) -> dict[str, Any]:
    """Return gamma and the bounds that apply to the scores of a card.

    If they do not estimate probabilities, these are the bounds of rule map alone.
    """
    if card.of_estimates:
        return {"gamma": gamma, "bounds": bounds}
    return {"gamma": None, "bounds": {"map": bounds["map"]}}


def bounds_of_moments(
    moments: ScoreMoments, card: Scorecard, mapped: ScoreMoments | None = None
) -> ClosedForm:
    """Return γ and the bounds that follow from a model's moments.

    Those of its mapped scores, where they decide, bound the rule map.
    """
    if mapped is not None:
        decisions = bounds_of_moments(mapped, card.mapped)
        own = bounds_of_moments(moments, card)
        bounds = {**own.bounds, "map": decisions.bounds["map"]}
        return decisions._replace(moments=moments, gamma=own.gamma, bounds=bounds)
    B = _risk(moments, card)
    bounds = {
        "map": min(_map_bound(moments, card), 2 * B),
        "renyi": min(1.0, B),
        "sharp": min(1.0, B),
    }
    ranking = _ranking(moments.by_class, card.score_error)
    return ClosedForm(moments, B / 2, bounds, moments.conditional, ranking)


def _risk(moments: ScoreMoments, card: Scorecard) -> float:
    """Return B, rounded up; infinite where points are too large to square."""
    if not math.isfinite(moments.risk + moments.rounding):
        return math.inf
    if moments.risk < -(1e-7 + moments.rounding):
        raise ValueError(
            f"The model's risk under these marginals is {moments.risk / 2:.3g}, which "
            "cannot be negative: no rows have these marginals; count again "
            "(Marginals.validate() names the counts that disagree)."
        )
    error = card.score_error * math.sqrt(card.n_classes)
    root = math.sqrt(max(0.0, moments.risk)) + error
    return root * root + moments.rounding  # which may be infinite; ** 2 would raise


def _map_bound(moments: ScoreMoments, card: Scorecard) -> float:
    """Return the guarantee of the rule map, rounded up."""
    error = card.score_error
    rounding = moments.off_rounding
    leads = moments.leads - 2 * error * moments.priors - rounding
    root = math.sqrt(moments.spread) + error * math.sqrt(card.n_classes)
    return map_bound(root * root + rounding, leads, moments.priors).bound


# ---- moments of the scores


@np.errstate(over="ignore", invalid="ignore")
def moments_of_marginals(match: Match) -> ScoreMoments:
    """Return the moments of a scorecard's estimates under the marginals it matches."""
    m = match.marginals
    K = len(match.intercept)
    Q = m.feature_counts / m.n
    columns = m.encoder.columns
    F = np.zeros((Q.shape[0], K))
    priors = np.zeros(K)
    F[:, match.classes] = m.F
    priors[match.classes] = m.class_probabilities
    mu = Q.diagonal()
    P, b = centred(match.points, match.intercept, mu, columns.sizes)
    off = P - P.mean(axis=1, keepdims=True)
    shift = b - b.mean()
    leads = (F * off).sum(axis=0) + priors * shift
    square = float(_squares(Q, mu, P, b).sum())  # E‖s‖²
    risk = square - 2 * float(leads.sum()) + 1 - 1 / K
    spread = max(0.0, float(_squares(Q, mu, off, shift).sum()))
    rounding = len(mu) * _EPS * _magnitude(mu, P, b, columns)
    off_rounding = len(mu) * _EPS * _magnitude(mu, off, shift, columns)
    used = int((mu > 0).sum())
    by_class = None
    if K == 2 and priors.min() > 0:
        means = shift[1] + off[:, 1] @ F / priors
        pooled = max(0.0, spread / 2 - float(priors @ means**2)) + 3 * off_rounding
        error = float(score_error(P, b, columns.sizes) + off_rounding / priors.min())
        most = float(pooled / priors.min())  # of one variance, if the other is 0
        by_class = ClassScores(means, pooled / priors, most, error)
    return ScoreMoments(
        n=m.n,
        n_indicators=used,
        priors=priors,
        risk=risk,
        rounding=rounding,
        spread=spread,
        leads=leads,
        off_rounding=off_rounding,
        F=F,
        columns=columns,
        by_class=by_class,
    )


def _squares(Q: Table, mu: Floats, P: Floats, b: Floats) -> Floats:
    """Return E s² of the scores s = b + PᵀW, class by class."""
    return np.asarray((P * (Q @ P)).sum(axis=0) + 2 * b * (mu @ P) + b**2)


def _magnitude(mu: Floats, P: Floats, b: Floats, columns: Columns) -> float:
    """Bound the second moment of the sums of absolute values behind the moments."""
    starts = offsets(columns.sizes)[:-1]
    norms = np.sqrt(np.add.reduceat(mu[:, None] * P**2, starts)).sum(axis=0)
    return float(((norms + np.abs(b) + 1) ** 2).sum())


def moments_of_rows(
    t: Floats,
    y: Array,
    weights: Floats | None,
    F: Array,
    columns: Columns,
    error: float,
    within: bool,
) -> ScoreMoments:
    """Return the same from the rows, where the pairs would be too many to count.

    Estimates t may be off by `error` at each class. The moments of the rows of one
    class are used only if pairs `within` classes are certified. Pairs alone fix only
    the sum of both variances, weighted by the classes' shares.
    """
    n, K = t.shape
    total = float(n if weights is None else weights.sum())
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    priors = np.bincount(y, share, minlength=K).astype(np.float64)
    own = t[np.arange(n), y]
    middle = t.mean(axis=1)
    leads = np.bincount(y, share * (own - middle), minlength=K).astype(np.float64)
    risk = float(share @ ((t - np.eye(K)[y]) ** 2).sum(axis=1))
    spread = float(share @ ((t - middle[:, None]) ** 2).sum(axis=1))
    near = n * _EPS * (1 + float(share @ (t**2).sum(axis=1))) + K * error**2
    rounding = near + 2 * math.sqrt(K * risk) * error
    off_rounding = near + 2 * (1 + math.sqrt(K * spread)) * error
    used = int(np.count_nonzero(sum(F.T)))  # of short rows: 10 x faster
    by_class = conditional = None
    if within:
        inner = _moments_within(t - 1 / K, y, share, error, near)
        by_class = _class_scores(inner, np.arange(K))
        conditional = cantelli(inner)
    elif K == 2 and priors.min() > 0:
        s = t[:, 1] - 0.5
        means = np.bincount(y, share * s, 2) / priors
        squares = np.bincount(y, share * (s - means[y]) ** 2, 2) / priors
        pooled = (math.sqrt(priors @ squares) + error) ** 2 + near
        most = float(pooled / priors.min())
        by_class = ClassScores(means, pooled / priors, most, error + near)
    return ScoreMoments(
        n=total,
        n_indicators=used,
        priors=priors,
        risk=risk,
        rounding=rounding,
        spread=spread,
        leads=leads,
        off_rounding=off_rounding,
        F=F,
        columns=columns,
        by_class=by_class,
        conditional=conditional,
    )


def _moments_within(
    s: Floats, y: Array, share: Floats, error: float, near: float
) -> ClassMoments:
    """Return the moments of rows' scores within each class."""
    K = s.shape[1]
    priors = np.bincount(y, share, minlength=K).astype(np.float64)
    means = np.zeros((K, K))
    covariances = np.zeros((K, K, K))
    square_error = 0.0
    for k in np.flatnonzero(priors):
        own = s[y == k]
        w = share[y == k] / priors[k]
        means[k] = w @ own
        off = own - means[k]
        covariances[k] = off.T @ (w[:, None] * off)
        most = math.sqrt(covariances[k].diagonal().max())
        square_error = max(square_error, (2 * most + error) * error + near / priors[k])
    largest = float(np.abs(s).max())
    return ClassMoments(priors, means, covariances, error + near, square_error, largest)


def best_feature(F: NDArray[Any], columns: Columns) -> tuple[str, float]:
    """Return the feature with the smallest error when it answers alone, and that error.

    Every population with these counts of feature and class has that error.
    """
    starts = offsets(columns.sizes)
    total = F[: starts[1]].sum()  # 1, or the number of rows
    return _least(columns, total - np.add.reduceat(F.max(axis=1), starts[:-1]), total)


def best_left_out_feature(
    F: NDArray[Any], columns: Columns, n: float, unit: float = 1.0
) -> tuple[str, float]:
    """Return the best feature alone, and its leave-one-out error, from the counts.

    A row is answered by the most frequent class among the other rows of its category,
    or among all others if its category has no other. If another class is as frequent
    as the row's own, and none is more frequent, the answer counts as half wrong.

    Parameters
    ----------
    F : ndarray of shape (D, K)
        Counts of category and class, or probabilities.
    columns : Columns
        The features.
    n : float
        Total of the counts.
    unit : float, default=1.0
        What one row counts; 0 where no row can be left out, as of probabilities.
    """
    starts = offsets(columns.sizes)
    counts = np.asarray(F * (n / F[: starts[1]].sum()), np.float64)
    totals = counts[: starts[1]].sum(axis=0)
    near = 1e-9 * n
    losses = _left_out_losses(counts, unit, near)
    alone = counts.sum(axis=1) - unit <= near
    losses[alone] = _left_out_losses(totals[None], unit, near)
    wrong = np.add.reduceat((counts * losses).sum(axis=1), starts[:-1])
    return _least(columns, wrong, n)


def _left_out_losses(counts: Floats, unit: float, near: float) -> Floats:
    """Return how often a row of each cell and class is answered wrongly.

    The answer is the most frequent class of the cell without the row.
    """
    ordered = np.sort(counts, axis=1)
    largest = ordered[:, -1:]
    others = np.where(counts < largest, largest, ordered[:, -2:-1])
    own = np.maximum(counts - unit, 0)
    return np.where(own > others + near, 0.0, np.where(own < others - near, 1.0, 0.5))


def _least(columns: Columns, wrong: NDArray[Any], total: float) -> tuple[str, float]:
    best = int(wrong.argmin())
    return columns.names[best], max(0.0, float(wrong[best] / total))


# ---- pairs within each class


class ClassMoments(NamedTuple):
    """Means and covariances of the scores within each class."""

    priors: Floats  # (classes,)
    means: Floats  # (classes, K)
    covariances: Floats  # (classes, K, K)
    score_error: float  # what rounding may do to a score
    square_error: float  # and to a covariance
    largest: float  # absolute score


def _class_conditional(match: Match) -> ClassMoments | None:
    """Return the moments by the pairs within each class; None without them."""
    m = match.marginals
    if m.class_counts is None:
        return None
    sizes = m.encoder.columns.sizes
    moments = class_moments(match.points, match.intercept, m.class_counts, sizes)
    least = -_TOLERANCE * moments.largest * moments.largest
    for label, V in zip(m.classes, moments.covariances, strict=True):
        if np.isfinite(V).all() and np.linalg.eigvalsh(V)[0] < least:
            raise ValueError(
                f"The variance of the scores within {m.target} = {label} is negative, "
                "which no rows can have: count the pairs within the classes again."
            )
    return moments


def _class_scores(moments: ClassMoments, own: Array) -> ClassScores | None:
    """Return the score of the second of two classes within each, if both occur."""
    if moments.means.shape[1] != 2 or np.count_nonzero(moments.priors) < 2:
        return None
    order = np.argsort(own)
    means = moments.means[order, 1]
    variances = np.maximum(0, moments.covariances[order, 1, 1]) + moments.square_error
    return ClassScores(means, variances, float(variances.sum()), moments.score_error)


def _ranking(of: ClassScores | None, score_error: float) -> Ranking:
    """Return what holds whatever the classes' shares, rounded outwards."""
    if of is None or not np.isfinite([*of.means, *of.variances, of.together]).all():
        return None, None
    # A mean may be off here, and a score when rows are compared.
    low, high = of.means + (of.error + score_error) * np.array([1, -1])
    missed = _missed(np.array([high - low]), np.array([[of.together]]))
    numbers = (low, of.variances[0], high, of.variances[1])
    return 1 - missed, tuple(float(number) for number in numbers)


@np.errstate(over="ignore", invalid="ignore")
def class_moments(P: Floats, b: Floats, inner: Array, sizes: Array) -> ClassMoments:
    """Return the moments of additive scores from class-conditional pairs.

    P and b are points (D, K) and intercepts (K,), `inner` the probabilities or counts
    P(X_i, X_j, Y) of the classes that occur.
    """
    starts = offsets(sizes)[:-1]
    totals = np.array([np.diag(block)[: sizes[0]].sum() for block in inner], float)
    means = np.tile(np.asarray(b, np.float64), (len(inner), 1))
    covariances = np.zeros((len(inner), P.shape[1], P.shape[1]))
    for y in np.flatnonzero(totals):
        share = np.diag(inner[y])[:, None] / totals[y]
        by_feature = np.add.reduceat(share * P, starts, axis=0)
        # Points centred in every feature: the mean is not subtracted from a square.
        off = P - np.repeat(by_feature, sizes, axis=0)
        means[y] += by_feature.sum(axis=0)
        covariances[y] = off.T @ (inner[y] / totals[y]) @ off
    reach = np.maximum.reduceat(np.abs(P).max(axis=1), starts).sum()
    largest = float(reach + np.abs(b).max())
    error = score_error(P, b, sizes)
    square_error = _EPS * len(P) * largest * largest
    priors = totals / totals.sum()
    return ClassMoments(priors, means, covariances, error, square_error, largest)


@np.errstate(over="ignore", invalid="ignore")
def cantelli(moments: ClassMoments, own: ArrayLike | None = None) -> float:
    r"""Return the guarantee of the rule map given P(X_i, X_j, Y), ties as errors.

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
    shares = [1.0]
    for R in _correlations(noise):
        inverse = np.linalg.inv(R)
        g = inverse.sum(axis=1)
        H = inverse * (noise + 1)
        # Every x ≥ 0 is a proof. `mean` is a = 1, which the closed form takes.
        for x in (np.maximum(np.linalg.solve(H, g), 0), mean / mean.max()):
            gain = max(0.0, float(g @ x))
            if gain > 0:
                shares.append(float(g.sum() - gain**2 / (x @ H @ x)))
    return max(0.0, min(shares))


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
