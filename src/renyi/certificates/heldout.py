r"""Held-out rows: what they prove of a model that was trained on others.

**Held-out rows**, independent of the model and of each other, bound the risk γ in the
population by the empirical Bernstein inequality (Maurer & Pontil 2009, Theorem 4): for
n values in [0, R] with mean v̄ and sample variance S,

.. math:: E v \le \bar v + \sqrt{2 S \ln(2/\delta) / n} + 7 R \ln(2/\delta) / (3(n-1))

with probability 1 − δ. γ is the same for all distributions with the population's
marginals, so the bound covers them all. Estimates must not be clipped: the mean of a
clipped error is not a function of the marginals. Clopper and Pearson's bound on the
share of errors covers the sampled population only, and is tighter there. The answers of
a randomised rule are drawn as `predict` draws them: given the seed, the errors at the
rows are as independent as the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike, NDArray

from renyi.checks import check_share
from renyi.counting.onehot import offsets
from renyi.encoding import column_rules
from renyi.scorecard import Scorecard, class_places

Floats = NDArray[np.float64]
Codes = NDArray[Any]

# Multiples of the scores, relative to the largest score possible, at which held-out
# rows bound the rule map. Neighbours lose at most 2 % of the gain between them.
_SCALES = 0.25 * 1.3 ** np.arange(17)


class HeldoutRows(NamedTuple):
    """Rows as a model sees them."""

    codes: Codes  # (features, n)
    t: Floats  # (n, K) estimates, neither clipped nor projected
    y: NDArray[np.intp]  # places of the classes among the model's


class HeldoutBounds(NamedTuple):
    """What held-out rows prove, each bound by itself with the confidence stated."""

    gamma: float  # upper bound on the risk in the population
    bounds: dict[str, float]  # on every population with the same marginals
    sampled_error: float  # on the sampled population (Clopper and Pearson)
    observed_error: float  # share of errors seen


def read_rows(card: Scorecard, X: Any, y: Any) -> HeldoutRows:
    """Return rows as a model sees them; an unknown class is an error."""
    codes = card.encoder.transform(X)
    labels, of_row = column_rules.distinct(column_rules.check_labels(y, codes.shape[1]))
    advice = (
        ": leave its rows out, and the certificate speaks of the other classes alone"
    )
    places = class_places(card, labels.tolist(), "y", advice)
    return HeldoutRows(codes, card.estimates(codes), places[of_row])


def heldout_bounds(
    t: Floats,
    y: Codes,
    answers: Codes,
    P: Floats,
    b: Floats,
    sizes: Codes,
    confidence: float = 0.95,
) -> HeldoutBounds:
    """Return the bounds from estimates, classes and answers; P and b are the points."""
    gamma = heldout_gamma(t, y, risk_range(P, b, sizes), confidence)
    robust, errors = min(1.0, 2 * gamma), int((answers != y).sum())
    mapped = heldout_map(t, y, P, b, sizes, confidence)
    bounds = {"map": mapped, "renyi": robust, "sharp": robust}
    sampled = clopper_pearson(errors, len(y), confidence)
    return HeldoutBounds(gamma, bounds, sampled, errors / len(y))


@np.errstate(over="ignore", invalid="ignore")
def heldout_gamma(t: Floats, y: Codes, upper: float, confidence: float) -> float:
    """Upper confidence bound on γ = ½E‖t − e_Y‖² in the population of the rows."""
    off = t.copy()
    off[np.arange(len(y)), y] -= 1
    return empirical_bernstein((off**2).sum(axis=1) / 2, upper, confidence)


def heldout_map(
    t: Floats, y: Codes, P: Floats, b: Floats, sizes: Codes, confidence: float
) -> float:
    """Worst error of the rule map, on every population with the rows' marginals.

    The rule stays the same when s − s̄ is multiplied by any τ > 0, so 4γ of every
    multiple bounds its error. Most of the probability of failure is spent on τ = 1, as
    a trained model is nearly of the best scale, the rest on a grid of others that does
    not depend on the rows.
    """
    P, b, K = P - P.mean(axis=1, keepdims=True), b - b.mean(), P.shape[1]
    off = t - t.mean(axis=1, keepdims=True)
    least, most = _extremes(P, sizes)
    reach = float(np.maximum(-(b + least), b + most).max())
    scales = [1.0, *(_SCALES / reach if reach > 0 else ())]
    found = []
    for j, scale in enumerate(scales):
        spent = (1 - confidence) * (0.8 if j == 0 else 0.2 / len(_SCALES))
        upper = risk_range(scale * P, scale * b, sizes)
        found.append(4 * heldout_gamma(1 / K + scale * off, y, upper, 1 - spent))
    return min(1.0, *found)


@np.errstate(over="ignore", invalid="ignore")
def risk_range(P: Floats, b: Floats, sizes: Codes) -> float:
    r"""Bound ``½‖t(x) − e_y‖²`` over all x and y, with ``t = 1/K + b + points``.

    Every t_k lies between l_k and h_k, which add up each feature's extremes, so
    ``‖t − e_y‖²`` is at most ``max((1 − l_y)², (h_y − 1)²) + Σ_{k≠y} max(l_k², h_k²)``.
    Also, by the triangle inequality, ``‖t − e_y‖ ≤ ‖c − e_y‖ + Σ_i max_k ‖z_ik − c_i‖``
    with the mean of the feature's points as c_i and c = 1/K + b + Σ c_i; that is
    smaller where each category speaks for one class. For two classes, with points −z
    and z, the first is exact: ``(½ + max(h(z), h(−z)))²``. Mean points, which labels
    unseen in training get, are within both.
    """
    K, starts = P.shape[1], offsets(sizes)[:-1]
    least, most = _extremes(P, sizes)
    low, high = 1 / K + b + least, 1 / K + b + most
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


def _extremes(P: Floats, sizes: Codes) -> tuple[Floats, Floats]:
    """Return the least and the most points that a row can have."""
    starts = offsets(sizes)[:-1]
    least = np.minimum.reduceat(P, starts, axis=0).sum(axis=0)
    return least, np.maximum.reduceat(P, starts, axis=0).sum(axis=0)


def empirical_bernstein(values: ArrayLike, upper: float, confidence: float) -> float:
    """Upper confidence bound on the mean of a variable that lies in [0, upper]."""
    v = np.asarray(values, np.float64)
    check_share("confidence", confidence)
    if v.ndim != 1 or len(v) < 2:
        raise ValueError("A bound from held-out rows needs at least two rows.")
    if upper == np.inf:  # points too large to square
        return np.inf
    if not np.isfinite(v).all() or v.min() < 0 or v.max() > upper * (1 + 1e-9) + 1e-12:
        raise ValueError(
            f"The values lie between {v.min():g} and {v.max():g}, and not in "
            f"[0, {upper:g}]: compute the range from the same points as the values."
        )
    log = np.log(2 / (1 - confidence))
    spread = np.sqrt(2 * v.var(ddof=1) * log / len(v))
    return float(min(upper, v.mean() + spread + 7 * upper * log / (3 * (len(v) - 1))))


def clopper_pearson(n_errors: int, n: int, confidence: float) -> float:
    """Upper confidence bound on a probability, from n independent trials."""
    check_share("confidence", confidence)
    if not 0 <= n_errors <= n or n < 1:
        raise ValueError(f"{n_errors} errors in {n} rows are not possible.")
    if n_errors == n:
        return 1.0
    return float(scipy.special.betaincinv(n_errors + 1, n - n_errors, confidence))
