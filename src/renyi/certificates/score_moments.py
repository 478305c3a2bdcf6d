"""ScoreMoments: the moments of a model's estimates that the closed form needs.

They come from marginals, by the points that `predict` gives their categories, or from
the model's own estimates at all training rows. Each feature's mean is moved to the
intercept first, so that points of any size keep their digits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.columns import Columns
from renyi.scorecard import Match, centred

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class ScoreMoments(NamedTuple):
    """All that the closed form needs to know of a model under some marginals."""

    n: float
    n_indicators: int  # categories that have rows
    priors: Floats
    risk: float  # B = E‖t − e_Y‖²
    rounding: float  # what it may be off by
    spread: float  # E‖t − t̄·1‖²
    lead: float  # E[t_Y − t̄]
    off_rounding: float  # what these two may be off by
    F: NDArray[Any]  # P(category, class), or its counts
    columns: Columns


@np.errstate(over="ignore", invalid="ignore")
def moments_of_marginals(match: Match) -> ScoreMoments:
    """Return the moments of a scorecard's estimates under the marginals it matches."""
    m, K = match.marginals, len(match.intercept)
    Q, columns = m.Q, m.encoder.columns
    F, priors = np.zeros((len(Q), K)), np.zeros(K)
    F[:, match.classes], priors[match.classes] = m.F, m.class_probabilities
    mu = np.diag(Q)
    P, b = centred(match.points, match.intercept, mu, columns.sizes)
    off, shift = P - P.mean(axis=1, keepdims=True), b - b.mean()
    lead = float((F * off).sum() + priors @ shift)  # E[s_Y − s̄]
    square = float(_squares(Q, mu, P, b).sum())  # E‖s‖²
    return ScoreMoments(
        m.n,
        int((mu > 0).sum()),
        priors,
        square - 2 * lead + 1 - 1 / K,
        len(mu) * _EPS * _magnitude(mu, P, b, columns),
        max(0.0, float(_squares(Q, mu, off, shift).sum())),
        lead,
        len(mu) * _EPS * _magnitude(mu, off, shift, columns),
        F,
        columns,
    )


def _squares(Q: Floats, mu: Floats, P: Floats, b: Floats) -> Floats:
    """Return E s² of the scores s = b + PᵀW, class by class."""
    return np.asarray((P * (Q @ P)).sum(axis=0) + 2 * b * (mu @ P) + b**2)


def _magnitude(mu: Floats, P: Floats, b: Floats, columns: Columns) -> float:
    """Bound the second moment of the sums of absolute values behind the moments."""
    starts = offsets(columns.sizes)[:-1]
    norms = np.sqrt(np.add.reduceat(mu[:, None] * P**2, starts)).sum(axis=0)
    return float(((norms + np.abs(b) + 1) ** 2).sum())


def moments_of_rows(
    t: Floats,
    y: NDArray[Any],
    sample_weight: Floats | None,
    F: NDArray[Any],
    columns: Columns,
    error: float = 0.0,
) -> ScoreMoments:
    """Return the same from the rows, where the pairs would be too many to count.

    Estimates t may be off by `error` at each class.
    """
    n, K = t.shape
    share = np.full(n, 1 / n)
    if sample_weight is not None:
        share = sample_weight / sample_weight.sum()
    own, middle = t[np.arange(n), y], t.mean(axis=1)
    risk = float(share @ ((t - np.eye(K)[y]) ** 2).sum(axis=1))
    spread = float(share @ ((t - middle[:, None]) ** 2).sum(axis=1))
    rounding = n * _EPS * (1 + float(share @ (t**2).sum(axis=1))) + K * error**2
    return ScoreMoments(
        float(n if sample_weight is None else sample_weight.sum()),
        int(np.count_nonzero(F @ np.ones(K, F.dtype))),
        np.bincount(y, share, minlength=K).astype(np.float64),
        risk,
        rounding + 2 * math.sqrt(K * risk) * error,
        spread,
        float(share @ (own - middle)),
        rounding + 2 * (1 + math.sqrt(K * spread)) * error,
        F,
        columns,
    )


def best_feature(F: NDArray[Any], columns: Columns) -> tuple[str, float]:
    """Return the feature that errs least when it answers alone, and its error."""
    starts = offsets(columns.sizes)
    total = F[: starts[1]].sum()  # 1, or the number of rows
    errors = (total - np.add.reduceat(F.max(axis=1), starts[:-1])) / total
    best = int(errors.argmin())
    return columns.names[best], max(0.0, float(errors[best]))
