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
import time
from typing import NamedTuple

import numpy as np

from renyi.certificates.cantelli import ClassMoments, cantelli, class_moments
from renyi.certificates.score_moments import ScoreMoments, moments_of_marginals
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Match, Scorecard

# What rounded counts may be off by, as in Marginals.validate.
_TOLERANCE = 1e-6


class ClosedForm(NamedTuple):
    """The risk γ of a model and the worst error of each rule."""

    moments: ScoreMoments
    gamma: float
    bounds: dict[str, float]  # by the moments alone
    conditional: float | None = None  # of map, by the pairs within each class
    seconds: tuple[float, float] = (0.0, 0.0)  # for the two

    @property
    def best(self) -> dict[str, float]:
        """The least of the bounds of each rule."""
        least = 1.0 if self.conditional is None else self.conditional
        return {**self.bounds, "map": min(self.bounds["map"], least)}


def closed_form(card: Scorecard, match: Match) -> ClosedForm:
    """Return γ and the bounds on a model's error under marginals that it matches."""
    begun = time.perf_counter()
    found = bounds_of_moments(moments_of_marginals(match), card)
    then = time.perf_counter()
    conditional = _class_conditional(match)
    seconds = (then - begun, time.perf_counter() - then)
    return found._replace(conditional=conditional, seconds=seconds)


def bounds_of_moments(moments: ScoreMoments, card: Scorecard) -> ClosedForm:
    """Return γ and the bounds that follow from a model's moments."""
    K = len(moments.priors)
    B, scaled = _risk(moments, card), _gain(moments, card)
    bounds = {
        "map": min(1.0, max(0.0, 2 * (1 - 1 / K - scaled)), 2 * B),
        "renyi": min(1.0, B),
        "sharp": min(1.0, B),
    }
    return ClosedForm(moments, B / 2, bounds)


def _risk(moments: ScoreMoments, card: Scorecard) -> float:
    """Return B, rounded up; infinite where points are too large to square."""
    if not math.isfinite(moments.risk + moments.rounding):
        return math.inf
    if moments.risk < -(1e-7 + moments.rounding):
        raise ValueError(
            f"The model's risk under these marginals is {moments.risk / 2:.3g}, which "
            "cannot be negative: no rows have these marginals; call validate() on them."
        )
    error = card.score_error * math.sqrt(card.n_classes)
    return (math.sqrt(max(0.0, moments.risk)) + error) ** 2 + moments.rounding


def _gain(moments: ScoreMoments, card: Scorecard) -> float:
    """Return (E[t_Y − t̄])₊² / E‖t − t̄·1‖², rounded down."""
    error, rounding = card.score_error, moments.off_rounding
    if not math.isfinite(moments.spread + error + rounding):
        return 0.0
    lead = max(0.0, moments.lead - 2 * error - rounding)
    spread = math.sqrt(moments.spread) + error * math.sqrt(card.n_classes)
    return lead**2 / (spread**2 + rounding)


def _class_conditional(match: Match) -> float | None:
    """Worst error of the rule map by the pairs within each class; None without them."""
    m = match.marginals
    if m.class_counts is None:
        return None
    sizes = m.encoder.columns.sizes
    moments = class_moments(match.points, match.intercept, m.class_counts, sizes)
    _check_variances(moments, m)
    return cantelli(moments, match.classes)


def _check_variances(moments: ClassMoments, m: Marginals) -> None:
    """Raise an error at counts in a class that no rows can have."""
    for label, V in zip(m.classes, moments.covariances, strict=True):
        if (
            np.isfinite(V).all()
            and np.linalg.eigvalsh(V)[0] < -_TOLERANCE * moments.largest**2
        ):
            raise ValueError(
                f"The variance of the scores within {m.target} = {label} is negative, "
                "which no rows can have: count the pairs within the classes anew."
            )
