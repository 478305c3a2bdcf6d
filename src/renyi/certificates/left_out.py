"""Left-out rows: the error to expect of a model, with its interval, and details of it.

Each row of a sample is scored by the model that would have been trained without it
(`renyi.solvers.ridge.LeftOut`), and answered by the rule that the model uses. A rule
that answers at random loses the probability of the wrong classes. If a calibration
decides that was fitted to the same few rows, folds replace leave-one-out. A model of
nine of ten folds, with a separate calibration, then answers the rows of the tenth.

The interval is Clopper and Pearson's: quantiles of beta distributions at the number of
errors. That number need not be whole: a row may have a weight, or lose a fraction.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import label_text
from renyi.rules import Scorer, rule_proba
from renyi.solvers.metrics import log_losses
from renyi.solvers.ridge import LeftOut

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_HALVINGS = 45
_TERMS = 10_000
_TINY = 1e-300


class LeftOutError(NamedTuple):
    """The share of errors on left-out rows, and how many rows it rests on."""

    error: float
    n: float


def left_out_error(rows: LeftOut, card: Scorer, rule: str) -> LeftOutError | None:
    """Return the error of a rule on left-out rows.

    None without rows, or if the fit without one of the rows is not defined.
    """
    weights = rows.sample_weight
    if not rows.complete or not weights.sum() > 0:
        return None
    lost = losses(rows, card, rule)
    return LeftOutError(
        float(weights @ lost / weights.sum()), effective_number(weights)
    )


def left_out_details(rows: LeftOut, card: Scorer, rule: str) -> dict[str, Any]:
    """Return errors by class, AUC of two classes, and log loss, as plain values."""
    weights = rows.sample_weight
    lost = losses(rows, card, rule)
    by_class = []
    for k, label in enumerate(card.classes):
        own = rows.y == k
        share = weights[own]
        error = float(share @ lost[own] / share.sum()) if share.sum() > 0 else None
        by_class.append(
            {
                "class": label_text(label),
                "rows": effective_number(share) if error is not None else 0.0,
                "error": error,
            }
        )
    probabilities = card.probabilities_at(_estimates(rows, card, "map"))
    own_class = log_losses(probabilities[np.arange(len(rows.y)), rows.y])
    area = None
    if card.n_classes == 2:
        area = _area(rows.scores[:, 0], rows.y == 1, weights)
    return {
        "by_class": by_class,
        "auc": area,
        "log_loss": float(weights @ own_class / weights.sum()),
    }


def _estimates(rows: LeftOut, card: Scorer, rule: str) -> Floats:
    """Return the estimates by which a rule answers left-out rows."""
    scores = rows.scores
    calibration = card.calibration
    if rule == "map" and calibration is not None and calibration.moves_decisions:
        scores = calibration.of(scores) if rows.mapped is None else rows.mapped
    return card.per_class(scores) + 1 / card.n_classes


def losses(rows: LeftOut, card: Scorer, rule: str) -> Floats:
    """Return the probability of an error at each row."""
    answers = rule_proba(_estimates(rows, card, rule), rule)
    own = answers[np.arange(len(rows.y)), rows.y]
    return np.asarray(np.clip(1 - own, 0, 1))


def _area(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> float | None:
    """Return the weighted area under the ROC curve, ties half; None for one class."""
    _, place = np.unique(scores, return_inverse=True)
    ahead = np.bincount(place, weights * positive)
    behind = np.bincount(place, weights * ~positive)
    pairs = ahead.sum() * behind.sum()
    if not pairs > 0:
        return None
    below = np.cumsum(behind) - behind / 2
    return float(ahead @ below / pairs)


# ---- intervals


def effective_number(weights: Floats) -> float:
    """Return how many rows of equal weight contain as much information.

    A row of weight 2 counts as two rows. Weights below 1 are rows by themselves, and
    count by Kish's formula.
    """
    total = float(weights.sum())
    return total**2 / float(weights @ np.minimum(weights, 1))


def error_interval(error: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of an error that n rows showed.

    >>> low, high = error_interval(0.0, 100)
    >>> print(f"{low:.1%} to {high:.1%}")
    0.0% to 3.6%
    """
    count = error * n
    rest = max(0.0, n - count)
    tail = (1 - CONFIDENCE) / 2
    low = _beta_quantile(tail, count, rest + 1) if count > 0 else 0.0
    high = _beta_quantile(1 - tail, count + 1, rest) if rest > 0 else 1.0
    return low, high


def _beta_quantile(share: float, a: float, b: float) -> float:
    """Return the quantile of a beta distribution.

    As `scipy.special.betaincinv`, which takes a tenth of a small fit to be loaded.
    """
    low = 0.0
    high = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _beta_below(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_below(x: float, a: float, b: float) -> float:
    """Return the probability that a beta variable is below x, 0 < x < 1."""
    if x > (a + 1) / (a + b + 2):  # where the continued fraction is slow
        return 1 - _beta_below(1 - x, b, a)
    power = a * math.log(x) + b * math.log1p(-x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(power + scale) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, after Lentz."""
    value = 1.0
    above = 1.0
    below = 0.0
    for k in range(1, _TERMS):
        m = k // 2
        if k % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / ((1 + term * below) or _TINY)
        above = (1 + term / above) or _TINY
        value *= above * below
        if abs(above * below - 1) < 1e-14:
            break
    return value
