r"""Calibration: from scores to probabilities, by one map that is fitted once.

Scores s = t − 1/K are least squares. They are right for γ and the rules renyi and
sharp, but poor as probabilities. With K > 2 classes, a class between two others may
never have the largest score. A map ``p(y|x) ∝ exp(g_y(x))`` fixes both. It is fitted to
leave-one-out scores u_i, those of a model without the row. With t itself, it would be
overconfident.

* **temperature**: g = a·s, for two classes ``p(1|x) = 1/(1 + exp(−a·s))``. a > 0 has
  the largest likelihood for Platt's targets, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2) instead
  of 1 and 0, which make it finite. No decision changes, hence no certificate.
* **sigmoid**, of two classes: ``p(1|x) = 1/(1 + exp(−a·s − b))``, by the same targets.
  Least squares shrink the scores of a rare class, which a slope alone cannot undo.
  Decisions are those of the score s + b/a. "auto" prefers it to the temperature where
  the logarithm of the likelihood gains more than 2. Where each class has a third of the
  n rows or more, it must also gain ½ log n (Schwarz's criterion). An intercept helps
  little there, and the decisions of balanced tables should not change by chance.
* **affine**: g = sA + b, multinomial logistic regression of the class on u with a
  slight ridge: ``min Σ w (log Σ_k exp g_k − g_y) + ρ/2·(‖A‖² + ‖b‖²)``, u centred.
* **discriminant**, from pair counts alone: class means m_y and pooled covariance S of
  the scores follow from Q, F and the class probabilities. At the mean leverage c = df/n
  their leave-one-out values are (m_y − c·(e_y − 1/K))/(1 − c) and S/(1 − c)². Then
  ``g_y = log P(y) + m_yᵀS⁻s − ½m_yᵀS⁻m_y``, S⁻ the inverse of S + εI among vectors that
  add up to 0: a pseudo-inverse would drop the directions that separate perfectly.

The mapped points zA are again a scorecard, whose decisions are those of `map`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.files import NUMBER, check_fields, finite_numbers
from renyi.solvers.ridge import LeftOut, RidgeFit

Floats = NDArray[np.float64]

KINDS = ("temperature", "sigmoid", "affine", "discriminant")
TWO_CLASSES = ("temperature", "sigmoid")  # the kinds of two classes
# Of scores that are no estimates of probabilities: those of models made elsewhere.
SCALES = ("log-odds", "margin")
CALIBRATIONS = ("auto", *KINDS, None)
# With fewer rows for each of K² coefficients, pair counts alone are better.
ROWS_PER_COEFFICIENT = 10
_RIDGE = 0.1
_EPSILON = 0.003
_FLOOR = 1e-3  # of a temperature, by the root of the mean square of the scores
_STEPS = 100
_LONGEST = 8.0  # step of two coefficients, of scores of variance 1
_GAIN = 2.0  # of the logarithm of the likelihood, at least, for an intercept
_BALANCED = 1 / 3  # share of the smaller class, from which on it must gain more


@dataclass(frozen=True, eq=False)
class Calibration:
    """A map of scores: ``g = slope·s``, or ``g = s @ slope + intercept``."""

    kind: str
    slope: Floats  # of shape () or (K, K)
    intercept: Floats  # of shape () or (K,)

    def __post_init__(self) -> None:
        """Check the numbers: they may come from a file."""
        if self.kind not in (*KINDS, *SCALES):
            raise ValueError(f"its calibration {self.kind!r:.60} is unknown")
        shape = self.slope.shape
        if len(shape) != 2 * self.by_class or self.intercept.shape != shape[:1]:
            raise ValueError("its calibration's slope is not valid")
        for name, array in (("slope", self.slope), ("intercept", self.intercept)):
            if not np.isfinite(array).all():
                raise ValueError(f"its calibration's {name} is not finite")
            array.setflags(write=False)
        if self.by_class:
            return
        if not self.slope > 0:
            raise ValueError(f"its calibration's slope is {self.slope:g}, not positive")
        if self.kind == "temperature" and self.intercept != 0:
            raise ValueError("its calibration is a temperature, with an intercept")
        if not np.isfinite(self.shift):
            raise ValueError("its calibration's intercept is too large")

    @property
    def moves_decisions(self) -> bool:
        """Whether the map may change which score is the largest."""
        return self.kind not in ("temperature", *SCALES)

    @property
    def of_estimates(self) -> bool:
        """Whether the scores estimate class probabilities, less 1/K."""
        return self.kind not in SCALES

    @property
    def by_class(self) -> bool:
        """Whether the slope is a matrix, from each class's score to each class."""
        return self.kind in ("affine", "discriminant")

    @property
    def shift(self) -> float:
        """What one slope adds to the score that decides: b/a."""
        return float(self.intercept) / float(self.slope)

    def factor(self, n_classes: int) -> float:
        """Return c of ``p(y|x) ∝ exp(c·s_y)``; two classes have the scores −s, s."""
        slope = 1.0 if self.by_class else float(self.slope)
        return slope / 2 if n_classes == 2 else slope

    def of(self, scores: Floats) -> Floats:
        """Return the scores that decide: g, or s + b/a of the second of two classes."""
        if self.by_class:
            return np.asarray(scores @ self.slope + self.intercept)
        return scores + self.shift if self.moves_decisions else scores

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as plain values for JSON."""
        plain = {"slope": self.slope.tolist(), "intercept": self.intercept.tolist()}
        return {"kind": self.kind, **plain}

    @classmethod
    def from_dict(cls, data: Any, n_classes: int) -> Calibration:
        """Check plain values, which may be untrusted, and return their calibration."""
        types = (list, *NUMBER)
        fields = {"kind": (str,), "slope": types, "intercept": types}
        check_fields(data, fields, "calibration")
        kind = data["kind"]
        either = kind in ("temperature", *SCALES)
        if not either and (kind in TWO_CLASSES) != (n_classes == 2):
            raise ValueError(f"its calibration {kind!r:.60} does not fit its classes")
        shape = () if either or kind in TWO_CLASSES else (n_classes, n_classes)
        arrays = (
            finite_numbers(data[name], size, f"calibration's {name}")
            for name, size in (("slope", shape), ("intercept", shape[:1]))
        )
        slope, intercept = (array.astype(np.float64) for array in arrays)
        return cls(kind, slope, intercept)


def fitted(rows: LeftOut, n_classes: int, kind: str = "auto") -> Calibration | None:
    """Fit a calibration to left-out scores; None without rows.

    `kind` is "temperature", "sigmoid" or "affine". For "auto" it is affine, and of two
    classes a temperature, or a sigmoid where that is clearly likelier.
    """
    if kind == "affine" or (kind == "auto" and n_classes > 2):
        return affine(rows, n_classes)
    slope = temperature(rows, n_classes)
    if kind == "temperature" or slope is None:
        return slope
    both, gain = sigmoid(rows, slope)
    return both if kind == "sigmoid" or gain > _least_gain(rows) else slope


def _least_gain(rows: LeftOut) -> float:
    """Return what the likelihood must gain for an intercept of two classes."""
    counts = np.bincount(rows.y, rows.weights, minlength=2)
    n = float(counts.sum())
    if counts.min() < _BALANCED * n:
        return _GAIN
    return max(_GAIN, math.log(n) / 2)


# ---- temperature


def of_slope(slope: float) -> Calibration:
    """Return the calibration by one slope of all scores."""
    return Calibration("temperature", np.array(slope), np.array(0.0))


# For scores of unknown reliability: their order stays, and no probability is 0 or 1.
ANY = of_slope(4.0)
# Of a model made elsewhere: its scores are log-odds; or they only decide, and the
# logistic function keeps their order.
LOG_ODDS, MARGIN = (Calibration(kind, np.array(1.0), np.array(0.0)) for kind in SCALES)


def temperature(rows: LeftOut, n_classes: int) -> Calibration | None:
    """Fit one slope of all scores; None without rows."""
    if not len(rows.y):
        return None
    s = rows.scores
    w = rows.weights
    K = n_classes
    scale = float(np.sqrt(np.average((s**2).sum(axis=1), weights=w)))
    if scale == 0:  # nothing to tell classes apart: any will do
        return ANY
    s = s / scale
    if K == 2:  # one score stands for both, and is quicker
        s = s[:, 0]
        wanted = _targets(rows) * s
    else:
        total = np.bincount(rows.y, w, minlength=K)[rows.y] + K
        own = s[np.arange(len(s)), rows.y]
        wanted = (s.sum(axis=1) + (total - K) * own) / total

    def derivatives(a: float) -> tuple[float, float]:
        if K == 2:
            p = 1 / (1 + np.exp(np.minimum(-a * s, 700)))
            mean = p * s
            square = mean * s
        else:
            p = softmax(a * s)
            mean = (p * s).sum(axis=1)
            square = (p * s**2).sum(axis=1)
        return float(w @ (mean - wanted)), float(w @ (square - mean**2))

    # The likelihood is concave in a, and targets that are not 0 or 1 bound it.
    low = _FLOOR
    high = np.inf
    a = 3.0
    if derivatives(low)[0] >= 0:
        return of_slope(low / scale)
    for _ in range(_STEPS):
        first, second = derivatives(a)
        low, high = (a, high) if first < 0 else (low, a)
        after = a - first / second if second > 0 else np.inf
        if not low <= after <= min(high, 8 * a):
            after = 8 * a if high == np.inf else (low + high) / 2
        before = a
        a = after
        if abs(a - before) <= 1e-12 * a:
            break
    return of_slope(a / scale)


def softmax(g: Floats) -> Floats:
    """Return exp(g), each row divided by its sum."""
    p = np.exp(g - g.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return np.asarray(p)


# ---- sigmoid


def sigmoid(rows: LeftOut, instead: Calibration) -> tuple[Calibration, float]:
    """Fit slope and intercept of two classes; return what the log-likelihood gains.

    Newton's method, from `instead`, a slope alone. The likelihood is concave, and the
    targets bound it. A slope that is not positive would reverse the score: the result
    then is `instead`.
    """
    s = rows.scores[:, 0]
    w = rows.weights
    mean = float(np.average(s, weights=w))
    width = float(np.sqrt(np.average((s - mean) ** 2, weights=w)))
    if not width > 1e-9 * abs(mean):
        return instead, 0.0
    x = (s - mean) / width
    targets = _targets(rows)
    total = float(w.sum())
    beta = np.array([width, mean]) * instead.slope
    g = beta[0] * x + beta[1]
    before = _likelihood(g, targets, w)
    value = before
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(np.minimum(-g, 700)))
        slopes = w * (targets - p)
        gradient = np.array([slopes @ x, slopes.sum()])
        curves = w * p * (1 - p)
        cross = curves @ x
        curvature = np.array([[curves @ x**2, cross], [cross, curves.sum()]])
        curvature += 1e-12 * total * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        step *= _LONGEST / max(_LONGEST, float(np.linalg.norm(step)))
        gain = float(gradient @ step)
        if gain <= 1e-9 * (1 + total):  # the next one would be far smaller
            beta += step
            break
        length = 1.0
        g = (beta[0] + step[0]) * x + beta[1] + step[1]
        after = _likelihood(g, targets, w)
        while after < value + 0.1 * length * gain and length > 1e-6:
            length /= 2
            g = (beta[0] + length * step[0]) * x + beta[1] + length * step[1]
            after = _likelihood(g, targets, w)
        beta = beta + length * step
        value = after
    if not beta[0] > _FLOOR:
        return instead, 0.0
    slope = float(beta[0] / width)
    shift = np.array(beta[1] - slope * mean)
    return Calibration("sigmoid", np.array(slope), shift), value - before


def _targets(rows: LeftOut) -> Floats:
    """Return Platt's targets of the second of two classes."""
    total = np.bincount(rows.y, rows.weights, minlength=2)[rows.y] + 2
    return np.asarray(np.where(rows.y == 1, 1 - 1 / total, 1 / total))


def _likelihood(g: Floats, targets: Floats, weights: Floats) -> float:
    """Return the logarithm of the likelihood of targets at the log-odds g."""
    losses = np.log1p(np.exp(-np.abs(g))) + np.maximum(g, 0)
    return float(weights @ (targets * g - losses))


# ---- affine


def _own(y: NDArray[Any], n_classes: int) -> Floats:
    return np.asarray(y[:, None] == np.arange(n_classes), np.float64)


def affine(rows: LeftOut, n_classes: int) -> Calibration | None:
    """Fit a slope from each class's score to each class; None without rows."""
    if not len(rows.y):
        return None
    w = rows.weights
    centre = w @ rows.scores / w.sum()
    X = np.column_stack([rows.scores - centre, np.ones(len(w))])
    penalty = np.full(X.shape[1], _RIDGE)
    own = w[:, None] * _own(rows.y, n_classes)
    start = np.zeros((X.shape[1], n_classes))
    B = multinomial(X, own, penalty, lambda each: X.T @ (each[:, None] * X), start)
    A = B[:-1] - B[:-1].mean(axis=1, keepdims=True)
    b = B[-1] - B[-1].mean() - centre @ A
    return Calibration("affine", A, b)


def multinomial(
    X: Any,
    counts: Floats,
    penalty: Floats,
    moments: Callable[[Floats], Floats],
    start: Floats,
) -> Floats:
    r"""Return the coefficients B (p, K) of a multinomial logistic regression.

    .. math:: \min_B \sum_{ak} N_{ak} \Bigl(\log \sum_l e^{g_{al}} - g_{ak}\Bigr)
       + \frac12 \sum_j \rho_j \|B_j\|^2, \qquad g = X B

    Row a of X (n, p), which may be sparse, has the `counts` N_a of the K classes, w_a
    in all; ρ is the `penalty` of each column. Newton's method, a step of which is found
    by conjugate gradients. They are conditioned by Xᵀ diag(v) X with v the mean
    curvature of each row, which for two classes is the Hessian itself. `moments`
    returns it for given v, or only its diagonal.
    """
    w = counts.sum(axis=1)
    K = counts.shape[1]
    ridge = penalty[:, None]
    B = start

    def objective(B: Floats) -> float:
        g = X @ B
        top = g.max(axis=1)
        logs = np.log(np.exp(g - top[:, None]).sum(axis=1)) + top
        losses = counts * (logs[:, None] - g)
        return float(losses.sum() + (ridge * B**2).sum() / 2)

    value = objective(B)
    for _ in range(_STEPS):
        p = softmax(X @ B)
        gradient = X.T @ (w[:, None] * p - counts) + ridge * B

        def curvature(V: Floats, p: Floats = p) -> Floats:
            Z = p * (X @ V)
            Z -= p * Z.sum(axis=1, keepdims=True)
            return np.asarray(X.T @ (w[:, None] * Z) + ridge * V)

        mean = w * (p * (1 - p)).sum(axis=1) / (K - 1)
        solve = _solver(moments(mean), penalty + 1e-9 * penalty.max())
        step = _conjugate_gradients(curvature, gradient, solve)
        gain = float((gradient * step).sum())
        if gain <= 1e-13 * (1 + w.sum()):
            return B - step
        length = 1.0
        after = objective(B - step)
        while after > value - 0.1 * length * gain and length > 1e-6:
            length /= 2
            after = objective(B - length * step)
        B = B - length * step
        value = after
    return B


def _solver(moments: Floats, penalty: Floats) -> Callable[[Floats], Floats]:
    """Return what multiplies by the inverse of moments, or a diagonal, plus penalty."""
    if moments.ndim == 1:
        diagonal = moments + penalty
        return lambda V: V / diagonal[:, None]
    factor = scipy.linalg.cho_factor(moments + np.diag(penalty), overwrite_a=True)
    return lambda V: np.asarray(scipy.linalg.cho_solve(factor, V))


def _conjugate_gradients(
    multiply: Callable[[Floats], Floats],
    right: Floats,
    solve: Callable[[Floats], Floats],
) -> Floats:
    """Solve ``multiply(V) = right``; `solve` nearly does so."""
    V = np.zeros_like(right)
    residual = right.copy()
    z = solve(residual)
    direction = z
    size = float((residual * z).sum())
    goal = 1e-8 * size
    for _ in range(right.size):
        if size <= goal:
            break
        product = multiply(direction)
        length = size / float((direction * product).sum())
        V = V + length * direction
        residual = residual - length * product
        z = solve(residual)
        size, before = float((residual * z).sum()), size
        direction = z + size / before * direction
    return V


# ---- discriminant


class PairMoments(NamedTuple):
    """Scores by class: probabilities P(y), means (K, K), their pooled covariance."""

    priors: Floats
    means: Floats
    covariance: Floats


def moments_of_pairs(
    Q: Any, F: Floats, priors: Floats, z: Floats, intercept: Floats
) -> PairMoments:
    """Return the class moments from pair probabilities and points (D, K)."""
    mean = Q.diagonal() @ z
    means = F.T @ z / np.where(priors > 0, priors, 1)[:, None]
    off = np.where(priors[:, None] > 0, means - mean, 0)
    total = z.T @ (Q @ z) - np.outer(mean, mean)
    within = total - off.T @ (priors[:, None] * off)
    return PairMoments(priors, mean + off + intercept, within)


def moments_of_scores(s: Floats, y: NDArray[Any], weights: Floats) -> PairMoments:
    """Return the class moments from the scores of rows (n, K)."""
    own = _own(y, s.shape[1])
    w = weights / weights.sum()
    priors = w @ own
    sums = own.T @ (w[:, None] * s)
    means = np.where(priors[:, None] > 0, sums, w @ s)
    means /= np.where(priors > 0, priors, 1)[:, None]
    off = s - means[y]
    return PairMoments(priors, means, off.T @ (w[:, None] * off))


def discriminant(moments: PairMoments, leverage: float) -> Calibration | None:
    """Return the linear discriminant of scores; None if all rows are fitted alone."""
    priors, means, covariance = moments
    K = len(priors)
    left = 1 - leverage
    if not left > 1e-6:
        return None
    means = (means - leverage * (np.eye(K) - 1 / K)) / left
    off = np.eye(K) - 1 / K
    S = off @ covariance @ off / left**2 + _EPSILON * np.eye(K) + 1 / K
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    inverse = (vectors / np.maximum(values, _EPSILON)) @ vectors.T
    slope = off @ inverse @ off @ means.T
    least = priors[priors > 0].min() / 2  # of a class that has no rows yet
    b = np.log(np.maximum(priors, least)) - (means * slope.T).sum(axis=1) / 2
    slope -= slope.mean(axis=1, keepdims=True)
    return Calibration("discriminant", slope, b - b.mean())


# ---- scores that rank


def label_map(moments: PairMoments) -> tuple[float, float]:
    """Return slope and intercept by which a score estimates the class, coded ±½.

    Least squares under the classes' own shares: rules and γ keep their meaning.
    """
    p = moments.priors
    means = moments.means[:, -1]
    within = moments.covariance[-1, -1]
    between = p[0] * p[1] * (means[1] - means[0])
    width = max(0.0, within) + between * (means[1] - means[0])
    slope = float(between / width) if between > 0 else 1.0  # which scores nothing
    return slope, float((p[1] - p[0]) / 2 - slope * (p @ means))


def rescaled(
    fit: RidgeFit, rows: LeftOut | None, slope: float, start: float
) -> tuple[RidgeFit, LeftOut | None]:
    """Return a fit, and rows left out of it, whose scores are mapped."""
    choice = replace(fit.choice, risk=None, error=None)
    if rows is not None:
        share = rows.sample_weight / rows.sample_weight.sum()
        s = slope * rows.scores + start
        if fit.choice.error is not None:
            risk = share @ (s[:, 0] - (rows.y - 0.5)) ** 2
            error = share @ ((s[:, 0] > 0) != rows.y)
            choice = replace(choice, risk=float(risk), error=float(error))
        rows = rows._replace(scores=s, weights=share * rows.weights.sum())
    z = slope * fit.z
    intercept = slope * fit.intercept + start
    return fit._replace(z=z, intercept=intercept, choice=choice), rows
