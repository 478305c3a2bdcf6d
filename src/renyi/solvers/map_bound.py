r"""The guarantee of the rule map in closed form, from moments of the scores.

At a row of class y the rule is wrong only if some other score is at least as large. Let
T be the scores less their mean over the classes, ``V = E‖T‖²``,
``μ_y = E[T_y | Y = y]`` and κ = 1 − 1/K. Then ``βT`` is at least σ/√2 from
``σ(e_y − 1/K)``, for any β ≥ 0 and σ. So twice the square of that distance is 1 or more
for σ ≥ 1, and so is ``2β²‖T‖² + 1``. Of these, ``σ = max(1, βμ_y/κ)`` or the second has
the smallest mean within the class, which gives

.. math:: P(error) \le \min_{β ≥ 0} 2β²V + \sum_y P(y) φ(βμ_y),

where φ(u) is −2u²/κ for u ≥ κ, and otherwise the smaller of 1 and 2κ − 4u. It needs the
moments of pairs only. With σ = 1 throughout, the best β gives ``2(κ − E[T_Y]₊²/V)``.
For two classes it is the largest sum of Cantelli's bounds for any variances within the
classes that agree with V.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class MapBound(NamedTuple):
    """The least bound, and the quadratic functions that prove it."""

    bound: float
    beta: float
    sigma: Floats  # of each class; 0 where its function is 2β²‖T‖² + 1


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def map_bound(spread: float, leads: Floats, priors: Floats) -> MapBound:
    """Return the least bound over β, rounded up; 1 if the moments are not finite.

    Parameters
    ----------
    spread : float
        V.
    leads : ndarray of shape (K,)
        ``P(y)·μ_y``.
    priors : ndarray of shape (K,)
        ``P(y)``; classes without rows count as rivals only.
    """
    nothing = MapBound(1.0, 0.0, np.zeros(len(priors)))
    kappa = 1 - 1 / len(priors)
    least = (2 * kappa - 1) / 4  # φ is 1 up to there
    used = priors > 0
    P = priors[used]
    leads = leads[used]
    mu = leads / P
    ahead = mu > 0
    if not np.isfinite([spread, *mu]).all() or not ahead.any():
        return nothing
    # Between these, no φ changes its form, and the bound is a quadratic in β.
    turns = np.outer([0, least, kappa], 1 / mu[ahead])
    ends = np.unique(turns[np.isfinite(turns)])
    if not len(ends):  # leads so small that no β up to the largest number counts them
        return nothing
    inside = np.append((ends[:-1] + ends[1:]) / 2, 2 * ends[-1] + 1)
    u = np.outer(inside, mu)
    slopes = ((u > least) & (u < kappa)) @ leads
    widths = spread - (u >= kappa) @ (leads * mu) / kappa
    lowest = np.where(widths > 0, slopes / widths, 0)
    # Every β proves a bound.
    beta = np.concatenate([ends, lowest[np.isfinite(lowest)]])
    u = np.outer(beta, mu)
    phi = np.where(u < kappa, np.minimum(1, 2 * kappa - 4 * u), -2 * u * u / kappa)
    terms = np.column_stack([2 * beta**2 * spread, phi * P])
    rounding = 2 * _EPS * (len(P) + 4) * np.abs(terms).sum(axis=1)
    bounds = terms.sum(axis=1) + rounding
    best = np.argmin(np.where(np.isfinite(bounds), bounds, np.inf))
    sigma = np.ones(len(priors))
    sigma[used] = np.where(u[best] > least, np.maximum(1, u[best] / kappa), 0)
    return MapBound(float(np.clip(bounds[best], 0, 1)), float(beta[best]), sigma)
