r"""The closed form: bounds on a model's error that need its moments alone.

For any scores, with t_y = 1/K + s_y the estimates and B = E‖t − e_Y‖² (the same number
for every distribution with the given marginals), the worst case over all of them is

* for the rules renyi and sharp at most ``B = 2γ``;
* for map at most ``2[1 − 1/K − (E[t_Y − t̄])₊² / E‖t − t̄·1‖²] ≤ 4γ``, t̄ the mean of
  the t_y: the decision does not depend on the scale of s − s̄, so the best scale counts;
* for map, where pairs were counted within each class, at most what
  `renyi.certificates.cantelli` makes of the means and covariances in the classes, which
  is never worse.

*Rounding.* Adding g to all points of one feature and −g to another's changes no score,
but a large g would drown the moments: each feature's mean is first moved to the
intercept. Sums of d points in floating point are still off by up to ε, a few d units in
the last place of Σ_i max|points_i|, in `predict` as here. The bounds therefore speak of
every t' with |t' − t| ≤ ε at each class: (E‖t' − e_Y‖²)^½ ≤ B^½ + K^½ε, and so on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from renyi.certificates.cantelli import ClassMoments, cantelli, class_moments
from renyi.certificates.score_moments import Evidence, aligned, places
from renyi.counting.onehot import offsets
from renyi.encoding.frame_columns import label_text
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard

_EPS = float(np.finfo(np.float64).eps)
# What rounded counts may be off by, as in Marginals.validate.
_TOLERANCE = 1e-6


class ClosedForm(NamedTuple):
    """The risk γ of a model and the worst error of each rule."""

    gamma: float
    bounds: dict[str, float]


def closed_form(evidence: Evidence, card: Scorecard) -> ClosedForm:
    """Return γ and the bounds that follow from a model's moments.

    >>> import renyi
    >>> from renyi.certificates.score_moments import evidence_of_marginals
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> card = renyi.RenyiClassifier().fit_marginals(m).scorecard_
    >>> found = closed_form(evidence_of_marginals(card, m), card)
    >>> round(found.bounds["map"], 3), round(found.bounds["sharp"], 3)
    (0.12, 0.06)
    """
    K = len(evidence.priors)
    B, scaled = _risk(evidence, card), _gain(evidence, card)
    bounds = {
        "map": min(1.0, max(0.0, 2 * (1 - 1 / K - scaled)), 2 * B),
        "renyi": min(1.0, B),
        "sharp": min(1.0, B),
    }
    return ClosedForm(B / 2, bounds)


def _risk(evidence: Evidence, card: Scorecard) -> float:
    """Return B, rounded up; infinite where points are too large to square."""
    if not math.isfinite(evidence.risk + evidence.rounding):
        return math.inf
    if evidence.risk < -(1e-7 + evidence.rounding):
        raise ValueError(
            f"The model's risk under these marginals is {evidence.risk / 2:.3g}, which "
            "cannot be negative: no rows have these marginals; call validate() on them."
        )
    error = _score_error(card) * math.sqrt(card.n_classes)
    return (math.sqrt(max(0.0, evidence.risk)) + error) ** 2 + evidence.rounding


def _gain(evidence: Evidence, card: Scorecard) -> float:
    """Return (E[t_Y − t̄])₊² / E‖t − t̄·1‖², rounded down."""
    error, rounding = _score_error(card), evidence.off_rounding
    if not math.isfinite(evidence.spread + error + rounding):
        return 0.0
    lead = max(0.0, evidence.lead - 2 * error - rounding)
    spread = math.sqrt(evidence.spread) + error * math.sqrt(card.n_classes)
    return lead**2 / (spread**2 + rounding)


def _score_error(card: Scorecard) -> float:
    """Bound the rounding error of a score, in `predict` or in its moments here."""
    sizes = card.encoder.columns.sizes
    points = np.abs(card.z.reshape(len(card.z), -1))
    largest = np.maximum.reduceat(points, offsets(sizes)[:-1]).sum(axis=0)
    total = float((largest + np.abs(card.intercept)).max()) + 1
    return _EPS * (len(sizes) + int(sizes.max()) + 4) * total


def class_conditional(card: Scorecard, m: Marginals) -> float | None:
    """Worst error of the rule map by the pairs within each class; None without them.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
    >>> card = renyi.RenyiClassifier().fit_marginals(m).scorecard_
    >>> round(class_conditional(card, m), 3)
    0.117
    """
    m = aligned(card, m)
    if m.class_counts is None:
        return None
    P = card.per_class(card.tables[0][places(card, m)])
    b = card.per_class(np.atleast_2d(card.intercept))[0]
    moments = class_moments(P, b, m.class_counts, m.encoder.columns.sizes)
    _refuse_negative_variance(moments, m, len(P))
    known = [label_text(label) for label in card.classes]
    own = [known.index(label_text(label)) for label in m.classes]
    return cantelli(moments, own)


def _refuse_negative_variance(moments: ClassMoments, m: Marginals, D: int) -> None:
    """Refuse counts in a class that no rows can have."""
    largest = moments.square_error / (_EPS * D)  # square of the largest score
    for label, V in zip(m.classes, moments.covariances, strict=True):
        if np.isfinite(V).all() and np.linalg.eigvalsh(V)[0] < -_TOLERANCE * largest:
            raise ValueError(
                f"The variance of the scores within {m.target} = {label} is negative, "
                "which no rows can have: count the pairs within the classes anew."
            )
