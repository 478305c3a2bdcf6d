r"""Cross-fitting: what two halves of the rows prove of models trained on each other's.

Rows are split at random. Model 1 is trained on one half and judged on the other, model
2 the other way round: each on rows that it has never seen, each bound at confidence
1 − δ/2, so that both hold at confidence 1 − δ.

* **average**: γ(z) is convex in z, hence ``γ((z₁ + z₂)/2) ≤ ½γ(z₁) + ½γ(z₂)`` for the
  scorecard of the mean scores. γ needs the pairs of the population only: 2γ (for map
  4γ) bounds the error on every population with these pairs. On the population itself
  map errs only where one of the models does: if both have their largest score at the
  class, so has the mean. Its error is at most the sum of theirs. For the rules renyi
  and sharp, which clip t, and two classes, ``max(0, 1 − t_y)²`` may stand for
  ``(1 − t_y)²``: it is convex, too, and they err at most twice its mean. (For three
  classes the inequality is false.)
* **mixture**: a fair coin per query says which of the models answers. Its error is the
  mean of the two, on every population; on the sampled one, the mean of two bounds from
  the errors seen: Clopper and Pearson's of map, by bets of rules that answer at random.
  They are those of its answers, also where a calibration moves the decisions of map.

From **marginals** of the two halves alone, γ̂ of each model under the other's is known
exactly, and nothing but this mean of squared residuals: Chernoff's inequality bounds γ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.closed_form import closed_form
from renyi.certificates.heldout import (
    HeldoutBounds,
    betting_bound,
    clopper_pearson,
    each_of_two,
    gamma_bounds,
    heldout_gamma,
    kl_bound,
    risk_range,
    row_points,
)
from renyi.counting.onehot import offsets
from renyi.encoding import recoding
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.solvers.calibration import of_slope

Floats = NDArray[np.float64]

METHODS = ("average", "mixture")


class JudgedHalf(NamedTuple):
    """One model on the rows of the half that it has not seen, in random order."""

    t: Floats  # (n, K) estimates, neither clipped nor projected
    y: NDArray[np.intp]  # places of the classes
    wrong: Floats  # probability that the model's answer is wrong
    upper: float  # the largest squared residual that the points allow
    rounding: float = 0.0  # what an estimate may be off by
    mapped: bool = False  # whether the rule map goes by other scores


def largest_residual(card: Scorecard) -> float:
    """Return the largest ½‖t − e_y‖² that the points of any row allow."""
    return risk_range(*row_points(card))


def crossfit_bounds(
    halves: Sequence[JudgedHalf], rule: str, method: str, confidence: float
) -> HeldoutBounds:
    """Return the bounds of the average or mixture of two models."""
    each = each_of_two(confidence)
    gammas = [heldout_gamma(h.t, h.y, h.upper, each) for h in halves]
    gamma = float(np.mean(gammas))
    bounds = gamma_bounds(gamma)
    if any(h.mapped for h in halves):  # 4γ is not about its answers
        bounds["map"] = 1.0
    seen = float(np.mean([h.wrong.mean() for h in halves]))
    sampled = bounds[rule]  # which covers the population, too
    # Which bound it is must not depend on the rows, or the confidence would be less.
    if method == "mixture":
        sampled = float(np.mean([_error(h.wrong, rule, each) for h in halves]))
    elif rule == "map":
        sampled = min(1.0, sum(_error(_in_doubt(h), rule, each) for h in halves))
    elif halves[0].t.shape[1] == 2:
        sampled = min(1.0, sum(_one_sided(h, each) for h in halves))
    return HeldoutBounds(gamma, bounds, sampled, seen)


def bounds_of_marginals(
    cards: Sequence[Scorecard],
    judges: Sequence[Marginals],
    rule: str,
    confidence: float,
) -> HeldoutBounds:
    """Return the bounds from the marginals of the half that each model has not seen."""
    each, gammas = each_of_two(confidence), []
    for card, m in zip(cards, judges, strict=True):
        seen = closed_form(card, card.match(m)).gamma
        gammas.append(kl_bound(seen, m.n, largest_residual(card), each))
    gamma = float(np.mean(gammas))
    bounds = gamma_bounds(gamma)
    return HeldoutBounds(gamma, bounds, bounds[rule], None)


def _error(wrong: Floats, rule: str, confidence: float) -> float:
    """Upper confidence bound on the error of one model in the sampled population."""
    if rule == "map":
        return clopper_pearson(int(wrong.sum()), len(wrong), confidence)
    return betting_bound(wrong, 1.0, confidence)


def _in_doubt(half: JudgedHalf) -> Floats:
    """Return 1 where another class has the largest estimate, or may by rounding."""
    places = np.arange(len(half.y))
    others = half.t.copy()
    others[places, half.y] = -np.inf
    lead = half.t[places, half.y] - others.max(axis=1)
    return np.asarray(lead <= 4 * half.rounding, np.float64)


def _one_sided(half: JudgedHalf, confidence: float) -> float:
    """Upper confidence bound on E max(0, 1 − t_Y)², for two classes."""
    own = half.t[np.arange(len(half.y)), half.y]
    with np.errstate(over="ignore"):
        values = np.maximum(0, 1 - own) ** 2
    return betting_bound(values, half.upper, confidence)


# ---- the average of two scorecards


def average(
    first: Scorecard, second: Scorecard, counts: NDArray[Any] | None = None
) -> Scorecard:
    """Return the scorecard whose scores are the mean of those of two, at every row.

    Bins are those between the edges of both; a label that one of them never saw has
    its points for unseen labels. `counts` are those of rows, by the same encoder; by
    default each category's rows are shared out evenly among what it is cut into. Of two
    temperatures the mean calibrates; maps that move decisions are left out.
    """
    if first.classes != second.classes:
        raise ValueError(
            f"The scorecards have different classes, {list(first.classes)} and "
            f"{list(second.classes)}: train both on the same classes."
        )
    encoder, *recoded = recoding.union(first.encoder, second.encoder)
    points, unseen, shared = [], [], []
    for card, codes in zip((first, second), recoded, strict=True):
        tables, starts = card.tables
        places = [start + own for start, own in zip(starts, codes, strict=True)]
        points.append(tables[np.concatenate(places)])
        unseen.append(tables[starts + card.encoder.columns.sizes])
        if counts is None:
            shared.append(np.concatenate([*_shared_counts(card, codes)]))
    maps = [card.calibration for card in (first, second)]
    kept = [c.slope for c in maps if c is not None and not c.moves_decisions]
    return Scorecard(
        encoder,
        first.classes,
        ((points[0] + points[1]) / 2).reshape(-1, *first.z.shape[1:]),
        (first.intercept + second.intercept) / 2,
        np.sum(shared, axis=0) if counts is None else counts,
        first.target,
        (unseen[0] + unseen[1]) / 2,
        of_slope(float(np.mean(kept))) if len(kept) == 2 else None,
    )


def _shared_counts(
    card: Scorecard, codes: Sequence[NDArray[np.intp]]
) -> Iterator[Floats]:
    """Yield the rows of each feature's categories, evenly among what these became."""
    sizes = card.encoder.columns.sizes
    for own, new in zip(
        np.split(card.counts, offsets(sizes)[1:-1]), codes, strict=True
    ):
        shares = np.bincount(new, minlength=len(own) + 1)
        yield np.append(own, 0)[new] / shares[new]
