r"""Which pairs of columns would add to a model of single columns, and which by chance.

Let r_i be the left-out residual of row i, target minus left-out score. In the cell c of
a pair of columns, the other rows predict it by their mean, shrunk towards zero::

    m_i = (S_c − u_i r_i) / (N_c − u_i + 2),      S_c = Σ w r,  N_c = Σ w over the cell,

where w are the weights and u_i = min(w_i, 1) is one copy of the row. The gain of the
pair is how much the squared residuals fall by it,

.. math:: \sum_i w_i \left( \|r_i\|^2 - \|r_i - m_i\|^2 \right).

*Chance.* The best of many pairs has a gain even where none matters. If the sign of each
row's residual were drawn anew, ``A = Σ_c ‖S_c‖²/(N_c + 1)`` would have the mean and the
variance

.. math:: \mu = \sum_c \frac{T_c}{N_c + 1}, \qquad
    v = \sum_c \frac{2 \kappa (T_c^2 - U_c)}{(N_c + 1)^2},

T_c adds up the squared lengths of the copies in the cell, U_c their fourth powers.
With M = Σ r rᵀ over all rows, κ is ‖M‖²/(tr M)²: 1 for two classes. The p-value is
that of a gamma distribution with these moments. Where single columns matter, it is too
large: the residuals add up to nearly zero in each category.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pair = tuple[int, int]

SHRINKAGE = 2.0
"""Rows without a residual that are added to each cell."""


class PairGain(NamedTuple):
    """How much a pair adds, and how often chance alone would add as much."""

    gain: float
    p: float


class _Rows(NamedTuple):
    """Residuals (K, n), weights and units of rows, and what follows from them."""

    residuals: Floats
    weights: Floats
    unit: Floats
    squares: Floats  # ‖r‖² times the squared unit, of all copies
    fourths: Floats  # ‖r‖⁴ likewise
    share: float  # κ


def pair_gains(
    codes: NDArray[Any],
    sizes: NDArray[Any],
    residuals: Floats,
    weights: Floats,
    most_cells: float = np.inf,
) -> dict[Pair, PairGain]:
    """Return the gain of every pair of columns that has one to compute.

    Parameters
    ----------
    codes : ndarray of shape (d, n)
        Codes of the columns.
    sizes : ndarray of shape (d,)
        Number of categories of each column.
    residuals : ndarray of shape (n, K)
        Left-out residuals of each row.
    weights : ndarray of shape (n,)
        Weights of the rows.
    most_cells : float
        Pairs with more cells, and columns of one category, are left out.
    """
    unit = np.minimum(weights, 1.0)
    squares = (residuals**2).sum(axis=1)
    M = (residuals * (weights * unit)[:, None]).T @ residuals
    share = (M**2).sum() / max(np.trace(M) ** 2, np.finfo(float).tiny)
    rows = _Rows(
        residuals.T,
        weights,
        unit,
        weights * unit * squares,
        weights * unit**3 * squares**2,
        float(share),
    )
    varying = np.flatnonzero(sizes > 1).tolist()
    places = codes.astype(np.int64)
    return {
        (i, j): _gain(places[i] * sizes[j] + places[j], rows)
        for i, j in combinations(varying, 2)
        if float(sizes[i]) * float(sizes[j]) <= most_cells
    }


def _gain(cells: NDArray[np.int64], rows: _Rows) -> PairGain:
    """Return the gain of one pair from the cell of each row."""
    counts = np.bincount(cells, rows.weights)
    others = counts[cells] - rows.unit + SHRINKAGE
    gain = 0.0
    lengths = np.zeros(len(counts))
    for r in rows.residuals:
        sums = np.bincount(cells, rows.weights * r)
        mean = (sums[cells] - rows.unit * r) / others
        gain += float(rows.weights @ (mean * (2 * r - mean)))
        lengths += sums**2
    T = np.bincount(cells, rows.squares)
    U = np.bincount(cells, rows.fourths)
    variances = 2 * rows.share * np.maximum(T**2 - U, 0)
    mean_length = float((T / (counts + 1)).sum())
    variance = float((variances / (counts + 1) ** 2).sum())
    if variance <= 0:
        return PairGain(gain, 1.0)
    length = float((lengths / (counts + 1)).sum())
    scale = variance / mean_length
    p = scipy.special.gammaincc(mean_length / scale, length / scale)
    return PairGain(gain, float(p))


def beyond_chance(gains: dict[Pair, PairGain], share: float) -> list[Pair]:
    """Return the pairs that matter, of which about this `share` only seem to.

    Benjamini and Hochberg: the k smallest p-values, for the largest k at which the
    k-th is at most ``share·k`` divided by the number of pairs.
    """
    ranked = sorted(gains, key=lambda pair: gains[pair].p)
    limits = share * np.arange(1, len(ranked) + 1) / max(len(ranked), 1)
    p = np.array([gains[pair].p for pair in ranked])
    below = np.flatnonzero(p <= limits)
    return ranked[: int(below[-1]) + 1] if len(below) else []
