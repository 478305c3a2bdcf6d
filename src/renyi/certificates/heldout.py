r"""Held-out rows, and halves of rows: what they prove of models trained on others.

**Held-out rows**, independent of the model and of each other, bound the risk γ in the
population by bets (Waudby-Smith & Ramdas 2024). Against the hypothesis that values in
[0, R] have a mean of m or more, the capital

.. math:: C_n(m) = \prod_i (1 + \lambda_i (m - v_i)), \qquad
   0 \le \lambda_i \le c / (R - m), \quad c < 1,

in which λ_i may depend on the values before v_i, does not grow on average. With
probability 1 − δ it never reaches 1/δ (Ville); if it does, m is rejected. Bets are
``λ_i = (2 ln(1/δ) / (n S_{i−1}))^½``, S the variance so far, or the most that m allows:
each factor, and hence the capital, increases with m. So the means above a rejected one
are also rejected, and the smallest rejected one, found by bisection, is the bound.
Values come in random order. Where only their mean v̄ is known, Chernoff's inequality
``n·kl(v̄/R, m/R) ≥ ln(1/δ)`` rejects m.

γ is the same for all distributions with the population's marginals, so the bound covers
them all. Estimates must not be clipped: the mean of a clipped error is not a function
of the marginals. Clopper and Pearson's bound on the share of errors covers the sampled
population only, and is tighter there. The answers of a randomised rule are drawn as
`predict` draws them: given the seed, the errors at the rows are as independent as the
rows.

A row may have a **class that the model does not know**: every answer to it is wrong.
All such classes count as one, o, with the squared error

.. math:: v(x, o) = \tfrac12 \|t(x) - \tfrac1K \mathbf 1\|^2 + r.

Its mean is also a function of the marginals: the squares of t need pairs of features,
the rest pairs of a feature and the class. With r = ½, 2v is at least 1, the error of
every rule; for the rule map r = ¼ is enough, as 4v is at least 1. The mean of
``½‖t − e_y‖²`` over the K classes is ``½‖t − 1/K‖² + ½(1 − 1/K)``. So no v(x, o) with
r = ¼ exceeds the largest of them, and the range of map is that of the known classes.

**Cross-fitting**: rows are split at random. Model 1 is trained on one half and
evaluated on the other, model 2 the other way round: each on rows that it has never
seen. Each bound has confidence 1 − δ/2, so that both hold at confidence 1 − δ.

* **average**: the scorecard of the mean scores. As the risk γ(z) is convex in z, it has
  ``γ((z₁ + z₂)/2) ≤ ½γ(z₁) + ½γ(z₂)``. The risk needs the pairs of the population only:
  2γ (for map 4γ) bounds the error on every population with these pairs. On the
  population itself map is wrong only where one of the models is. If both have their
  largest score at the class, so has the mean. Its error is at most the sum of theirs.
  Where a calibration moves the decisions of map, the calibrated scores are averaged,
  each half's at a fixed scale. They are scores like any others. With a rare class the
  weights are the slopes from scores to log-odds. All weights w₁ + w₂ = 1 have
  ``γ(w₁z₁ + w₂z₂) ≤ w₁γ(z₁) + w₂γ(z₂)``, and even if they depend on the rows, both
  bounds hold together. The sum of the errors does not depend on them.
  The rules renyi and sharp clip t. For two classes, ``max(0, 1 − t_y)²``, also convex,
  may replace ``(1 − t_y)²``: their error is at most twice its mean. (For three classes
  the inequality is false.)
* **mixture**: a fair coin per query says which of the models answers. Its error is the
  mean of the two, on every population. On the sampled one it is bounded by the mean of
  two bounds from the errors seen: Clopper and Pearson's for map, by bets for rules that
  answer at random. Where a calibration moves the decisions of map, its 4γ is that of
  the calibrated scores.

From **marginals** of the two halves alone, γ̂ of each model under the other's is known
exactly, and nothing but this mean of squared residuals: Chernoff's inequality bounds γ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import offsets
from renyi.encoding import recoding
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import label_text
from renyi.formatting import either
from renyi.rules import Scorer
from renyi.scorecard import Scorecard, class_points
from renyi.solvers.calibration import of_slope
from renyi.validation import InputError, check_share

Floats = NDArray[np.float64]
Codes = NDArray[Any]

METHODS = ("average", "mixture")  # of making one model of two
EQUAL = (0.5, 0.5)  # weights of two models

UNKNOWN = -1  # place of a class that the model does not know
_ANY_RULE = 0.5  # r, where an unknown class counts as an error of every rule
_RULE_MAP = 0.25  # r of the rule map
_MOST = 0.9  # of the largest bet: c
_HALVINGS = 24  # of the interval in which a bound is searched

# Multiples of the scores, relative to the largest score possible, at which held-out
# rows bound the rule map. Neighbours lose at most 2 % of the gain between them.
_SCALES = 0.25 * 1.3 ** np.arange(17)


class HeldoutRows(NamedTuple):
    """Rows as a model sees them."""

    codes: Codes  # (features, n)
    t: Floats  # (n, K) estimates, neither clipped nor projected
    y: NDArray[np.intp]  # places of the classes among the model's, or UNKNOWN
    unknown: tuple[str, ...] = ()  # classes that the model does not know


class HeldoutBounds(NamedTuple):
    """What unseen rows prove, each bound by itself with the confidence stated."""

    gamma: float | None  # upper bound on the risk in the population
    bounds: dict[str, float]  # on every population with the same marginals
    sampled_error: float  # on the sampled population
    observed_error: float | None  # share of errors seen; None without rows


def read_rows(card: Scorer, X: object, y: object) -> HeldoutRows:
    """Return rows as a model sees them; an error if no class is one of the model's."""
    codes = card.encoder.transform(X)
    labels, of_row = column_rules.distinct(column_rules.check_labels(y, codes.shape[1]))
    texts = [label_text(label) for label in labels.tolist()]
    known = {label_text(label): k for k, label in enumerate(card.classes)}
    places = np.array([known.get(text, UNKNOWN) for text in texts], np.intp)
    if (places == UNKNOWN).all():
        first = ", ".join(map(repr, texts[:3]))
        raise ValueError(
            f"No row has a class that the model knows ({either(list(known))}): y holds "
            f"{first}. Pass the classes of the model's target {card.target!r}."
        )
    unknown = tuple(text for text in texts if text not in known)
    return shuffled_rows(card, codes, places[of_row], unknown)


def shuffled_rows(
    card: Scorer, codes: Codes, y: NDArray[np.intp], unknown: tuple[str, ...]
) -> HeldoutRows:
    """Return rows of codes in random order, the same every time: they may be sorted."""
    order = np.random.default_rng(0).permutation(len(y))
    codes = codes[:, order]
    return HeldoutRows(codes, card.estimates(codes), y[order], unknown)


def row_points(card: Scorecard) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return points, intercepts and sizes of all that a row may hold.

    Each feature has one category more, for labels that training never saw.
    """
    sizes = card.encoder.columns.sizes + 1
    return card.per_class(card.tables[0]), class_points(card)[1], sizes


def heldout_bounds(
    t: Floats,
    y: Codes,
    answers: Codes,
    P: Floats,
    b: Floats,
    sizes: Codes,
    confidence: float = 0.95,
) -> HeldoutBounds:
    """Return the bounds from estimates, classes and answers of rows in random order."""
    # The range must not depend on whether the rows have an unknown class.
    upper = max(risk_range(P, b, sizes), unknown_range(P, b, sizes))
    gamma = heldout_gamma(t, y, upper, confidence)
    mapped = heldout_map(t, y, P, b, sizes, confidence)
    bounds = {**gamma_bounds(gamma), "map": mapped}
    sampled = sampled_bounds(y, answers, confidence)
    return sampled._replace(gamma=gamma, bounds=bounds)


def sampled_bounds(y: Codes, answers: Codes, confidence: float) -> HeldoutBounds:
    """Return what the errors of answers prove of the population that rows come from."""
    errors = int((answers != y).sum())
    sampled = clopper_pearson(errors, len(y), confidence)
    return HeldoutBounds(None, {}, sampled, errors / len(y))


def gamma_bounds(gamma: float) -> dict[str, float]:
    """Return the guarantees of the rules on every population with this γ."""
    twice = min(1.0, 2 * gamma)
    return {"map": min(1.0, 4 * gamma), "renyi": twice, "sharp": twice}


def heldout_gamma(
    t: Floats,
    y: Codes,
    upper: float,
    confidence: float,
    below: float = math.inf,
    unknown: float = _ANY_RULE,
) -> float:
    """Upper confidence bound on γ = ½E‖t − e_Y‖² in the population of the rows."""
    values = squared_residuals(t, y, unknown)
    return betting_bound(values, upper, confidence, below)


@np.errstate(over="ignore", invalid="ignore")
def squared_residuals(t: Floats, y: Codes, unknown: float = _ANY_RULE) -> Floats:
    """Return ½‖t − e_y‖² of each row; of an unknown class ½‖t − 1/K‖² + `unknown`."""
    off = t.copy()
    known = np.flatnonzero(y != UNKNOWN)
    others = np.flatnonzero(y == UNKNOWN)
    off[known, y[known]] -= 1
    off[others] -= 1 / t.shape[1]
    values = np.asarray((off**2).sum(axis=1) / 2)
    values[others] += unknown
    return values


def heldout_map(
    t: Floats, y: Codes, P: Floats, b: Floats, sizes: Codes, confidence: float
) -> float:
    """Return the guarantee of the rule map on populations with the rows' marginals.

    The rule stays the same when s − s̄ is multiplied by any τ > 0, so 4γ of every
    multiple bounds its error. Most of the probability of failure is spent on τ = 1, as
    a trained model is nearly of the best scale. The rest is spent on a grid of others
    that does not depend on the rows.
    """
    K = P.shape[1]
    P = P - P.mean(axis=1, keepdims=True)
    b = b - b.mean()
    off = t - t.mean(axis=1, keepdims=True)
    low, high = _extremes(P, sizes)
    reach = float(np.maximum(-(b + low), b + high).max())
    scales = [1.0, *(_SCALES / reach if reach > 0 else ())]
    least = 0.25
    for j, scale in enumerate(scales):
        spent = (1 - confidence) * (0.8 if j == 0 else 0.2 / len(_SCALES))
        upper = risk_range(scale * P, scale * b, sizes)
        t = 1 / K + scale * off
        bound = heldout_gamma(t, y, upper, 1 - spent, least, _RULE_MAP)
        least = min(least, bound)
    return 4 * least


@np.errstate(over="ignore", invalid="ignore")
def risk_range(P: Floats, b: Floats, sizes: Codes) -> float:
    r"""Bound ``½‖t(x) − e_y‖²`` over all x and y, with ``t = 1/K + b + points``.

    Every t_k lies between l_k and h_k, which add up each feature's extremes, so
    ``‖t − e_y‖²`` is at most ``max((1 − l_y)², (h_y − 1)²) + Σ_{k≠y} max(l_k², h_k²)``.
    Also, by the triangle inequality, ``‖t − e_y‖ ≤ ‖c − e_y‖ + Σ_i max_k ‖z_ik − c_i‖``
    with the mean of the feature's points as c_i and c = 1/K + b + Σ c_i. This is
    smaller where each category has points for one class only. For two classes, with
    points −z and z, the first is exact: ``(½ + max(h(z), h(−z)))²``.
    """
    K = P.shape[1]
    starts = offsets(sizes)[:-1]
    least, most = _extremes(P, sizes)
    low = 1 / K + b + least
    high = 1 / K + b + most
    other = np.maximum(low**2, high**2)
    own = np.maximum((1 - low) ** 2, (high - 1) ** 2)
    boxes = other.sum() - other + own
    centres = np.add.reduceat(P, starts, axis=0) / np.asarray(sizes)[:, None]
    off = np.linalg.norm(P - np.repeat(centres, sizes, axis=0), axis=1)
    radius = np.maximum.reduceat(off, starts).sum()
    middle = 1 / K + b + centres.sum(axis=0)
    balls = (np.linalg.norm(middle - np.eye(K), axis=1) + radius) ** 2
    largest = float(np.minimum(boxes, balls).max()) / 2
    return largest if np.isfinite(largest) else np.inf


@np.errstate(over="ignore", invalid="ignore")
def unknown_range(P: Floats, b: Floats, sizes: Codes) -> float:
    """Bound ½‖t(x) − 1/K‖² + ½ over all x: the squared error of an unknown class."""
    least, most = _extremes(P, sizes)
    largest = float(np.maximum((b + least) ** 2, (b + most) ** 2).sum()) / 2
    return largest + _ANY_RULE if np.isfinite(largest) else np.inf


def _extremes(P: Floats, sizes: Codes) -> tuple[Floats, Floats]:
    """Return the least and the most points that a row can have."""
    starts = offsets(sizes)[:-1]
    least = np.minimum.reduceat(P, starts, axis=0).sum(axis=0)
    return least, np.maximum.reduceat(P, starts, axis=0).sum(axis=0)


# ---- upper confidence bounds on a mean


def each_of_two(confidence: float) -> float:
    """Return the confidence of a bound of which two are to hold together."""
    return 1 - (1 - confidence) / 2


def betting_bound(
    values: ArrayLike, upper: float, confidence: float, below: float = math.inf
) -> float:
    """Upper confidence bound on the mean of a variable that lies in [0, upper].

    The values come in random order. A bound that is not below `below` is not looked
    for; `upper` is returned.
    """
    v = np.asarray(values, np.float64)
    check_share("confidence", confidence)
    if v.ndim != 1 or len(v) < 2:
        raise ValueError("A bound from held-out rows needs at least two rows.")
    if upper == np.inf:  # points too large to square
        return np.inf
    if not np.isfinite(v).all() or v.min() < 0 or v.max() > upper * (1 + 1e-9) + 1e-12:
        raise ValueError(
            f"The values lie between {v.min():g} and {v.max():g}, outside [0, "
            f"{upper:g}]: compute the range from the same points as the values."
        )
    if v.mean() >= min(below, upper):
        return float(upper)
    v = np.minimum(v / upper, 1.0)
    n = len(v)
    log = -math.log1p(-confidence)
    steps = np.arange(2, len(v) + 2)
    # As if there had been one more value of mean ½ and variance ¼ before.
    off = v - (0.5 + np.cumsum(v)) / steps
    spread = np.concatenate([[0.25], (0.25 + np.cumsum(off**2))[:-1] / steps[:-1]])
    bets = np.sqrt(2 * log / (n * spread))

    def rejected(m: float) -> bool:
        if m >= 1:  # which no mean exceeds
            return True
        gains = np.log1p(np.minimum(bets, _MOST / (1 - m)) * (m - v))
        return bool(np.cumsum(gains).max() >= log + 1e-9)

    if below < upper and not rejected(below / upper):
        return float(upper)
    return upper * _least(rejected, float(v.mean()), min(1.0, below / upper))


def kl_bound(mean: float, n: float, upper: float, confidence: float) -> float:
    """Upper confidence bound on a mean in [0, upper] from n values of a known mean."""
    check_share("confidence", confidence)
    if upper == np.inf or mean >= upper:
        return float(upper)
    p = max(0.0, mean / upper)
    log = -math.log1p(-confidence)

    def rejected(m: float) -> bool:
        entropy = scipy.special.rel_entr
        return bool(n * (entropy(p, m) + entropy(1 - p, 1 - m)) >= log)

    return upper * _least(rejected, p, 1.0)


def _least(rejected: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least rejected number between two, to 2⁻²⁴ of their distance."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return high


def clopper_pearson(n_errors: int, n: int, confidence: float) -> float:
    """Upper confidence bound on a probability, from n independent trials."""
    check_share("confidence", confidence)
    if not 0 <= n_errors <= n or n < 1:
        raise ValueError(f"{n_errors} errors in {n} rows are not possible.")
    if n_errors == n:
        return 1.0
    return float(scipy.special.betaincinv(n_errors + 1, n - n_errors, confidence))


def share_interval(count: int, n: int, confidence: float) -> tuple[float, float]:
    """Two-sided confidence interval of a probability, by Clopper and Pearson."""
    each = each_of_two(confidence)
    low = 1 - clopper_pearson(n - count, n, each)
    return max(0.0, low), clopper_pearson(count, n, each)


# ---- halves that evaluate each other's models


class Residuals(NamedTuple):
    """What bounds the risk of a model on rows that it has not seen."""

    t: Floats  # (n, K) estimates
    upper: float  # the largest squared residual that the points allow
    rounding: float  # what an estimate may be off by


class JudgedHalf(NamedTuple):
    """One model on the rows of the half that it has not seen, in random order."""

    t: Floats  # (n, K) estimates, neither clipped nor projected
    y: NDArray[np.intp]  # places of the classes
    wrong: Floats  # probability that the model's answer is wrong
    upper: float  # the largest squared residual that the points allow
    rounding: float = 0.0  # what an estimate may be off by
    decisions: Residuals | None = None  # of the scores of map, if they are others

    @property
    def deciding(self) -> JudgedHalf:
        """The same rows, with the estimates that decide."""
        if self.decisions is None:
            return self
        return self._replace(**self.decisions._asdict(), decisions=None)


def largest_residual(card: Scorecard) -> float:
    """Return the largest ½‖t − e_y‖² that the points of any row allow."""
    return risk_range(*row_points(card))


def crossfit_bounds(
    halves: Sequence[JudgedHalf],
    rule: str,
    method: str,
    confidence: float,
    weights: Sequence[float] = EQUAL,
) -> HeldoutBounds:
    """Return the bounds of the average or mixture of two models.

    `weights` are those of the scores in an average.
    """
    each = each_of_two(confidence)
    deciding = [h.deciding for h in halves]
    if method == "average":  # of the scores that decide
        halves = deciding
    gamma = _mean_gamma(halves, each, weights)
    bounds = gamma_bounds(gamma)
    if any(h.decisions is not None for h in halves):
        bounds["map"] = gamma_bounds(_mean_gamma(deciding, each, weights))["map"]
    seen = float(np.mean([h.wrong.mean() for h in halves]))
    sampled = bounds[rule]  # which covers the population, too
    # Which bound it is must not depend on the rows, or the confidence would be less.
    if method == "mixture":
        sampled = float(np.mean([_error(h.wrong, rule, each) for h in halves]))
    elif rule == "map":
        sampled = min(1.0, sum(_error(_in_doubt(h), rule, each) for h in halves))
    elif halves[0].t.shape[1] == 2:
        squares = [_one_sided(h, each) for h in halves]
        sampled = min(1.0, 2 * float(np.average(squares, weights=weights)))
    return HeldoutBounds(gamma, bounds, sampled, seen)


def _mean_gamma(
    halves: Sequence[JudgedHalf], confidence: float, weights: Sequence[float]
) -> float:
    """Return the mean of the upper confidence bounds on the risks of two models."""
    gammas = [heldout_gamma(h.t, h.y, h.upper, confidence) for h in halves]
    return float(np.average(gammas, weights=weights))


def bounds_of_marginals(
    cards: Sequence[Scorecard],
    judges: Sequence[tuple[float, float]],
    rule: str,
    confidence: float,
    weights: Sequence[float] = EQUAL,
) -> HeldoutBounds:
    """Return the bounds from the half that each model has not seen.

    `judges` are the risk γ of each model on that half, and its number of rows;
    `weights` are those of their scores in the average.
    """
    each = each_of_two(confidence)
    gammas = []
    for card, (seen, n) in zip(cards, judges, strict=True):
        gammas.append(kl_bound(seen, n, largest_residual(card), each))
    gamma = float(np.average(gammas, weights=weights))
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
    first: Scorecard,
    second: Scorecard,
    counts: NDArray[Any] | None = None,
    weights: Sequence[float] = EQUAL,
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
    points = []
    unseen = []
    shared = []
    for card, codes in zip((first, second), recoded, strict=True):
        tables, starts = card.tables
        places = [start + own for start, own in zip(starts, codes, strict=True)]
        points.append(tables[np.concatenate(places)])
        unseen.append(tables[starts + card.encoder.columns.sizes])
        if counts is None:
            shared.append(np.concatenate([*_shared_counts(card, codes)]))
    maps = [card.calibration for card in (first, second)]
    slopes = [c.slope for c in maps if c is not None and not c.moves_decisions]
    mine, other = weights
    return Scorecard(
        encoder,
        first.classes,
        (mine * points[0] + other * points[1]).reshape(-1, *first.z.shape[1:]),
        mine * first.intercept + other * second.intercept,
        np.sum(shared, axis=0) if counts is None else counts,
        first.target,
        mine * unseen[0] + other * unseen[1],
        of_slope(float(np.mean(slopes))) if len(slopes) == 2 else None,
    )


def average_of_rows(
    first: Scorecard,
    second: Scorecard,
    table: object,
    weights: Sequence[float] = EQUAL,
) -> Scorecard:
    """Return the average of two scorecards, with the counts of the rows of a table.

    The bounds of an average are proved for mean scores. So the scores of the average
    are compared with these at every row.
    """
    encoder, *_ = recoding.union(first.encoder, second.encoder)
    codes = encoder.transform(table)
    sizes = encoder.columns.sizes
    counts = [np.bincount(c, minlength=k) for c, k in zip(codes, sizes, strict=True)]
    card = average(first, second, np.concatenate(counts), weights)
    _check_mean_scores(card, codes, (first, second), table, weights)
    return card


def _check_mean_scores(
    card: Scorecard,
    codes: Codes,
    halves: tuple[Scorecard, Scorecard],
    table: object,
    weights: Sequence[float],
) -> None:
    """Raise ValueError unless a card's scores are the mean of two others' at each row.

    The error names the first column whose points are not the mean.
    """
    # An unseen label has a value even where the model rejects such rows.
    encoders = [replace(half.encoder, unseen="mean") for half in halves]
    halves_codes = [encoder.transform(table) for encoder in encoders]
    means = np.average(
        [half.estimates(own) for half, own in zip(halves, halves_codes, strict=True)],
        axis=0,
        weights=weights,
    )
    rounding = 2 * (card.score_error + sum(half.score_error for half in halves))
    if np.abs(card.estimates(codes) - means).max(initial=0.0) <= rounding:
        return
    for k, name in enumerate(card.encoder.columns.names):
        parts = [
            _feature_points(half, k, own[k])
            for half, own in zip(halves, halves_codes, strict=True)
        ]
        mean = np.average(parts, axis=0, weights=weights)
        off = _feature_points(card, k, codes[k]) - mean
        if np.abs(off).max(initial=0.0) > rounding:
            raise InputError(
                f"Column {name!r} cannot be averaged: its cells have other points in "
                "the average of the two halves than in their mean, and nothing would "
                "be proven. Convert the column to text, or use {method}.",
                method="mixture",
            )
    raise AssertionError("scores of an average differ from the mean of two scores")


def _feature_points(card: Scorecard, feature: int, codes: Codes) -> Floats:
    """Return the points that one feature gives each row."""
    tables, starts = card.tables
    return np.asarray(tables[starts[feature] + codes])


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
