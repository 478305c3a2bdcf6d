r"""Integer points: small whole numbers whose sum separates two classes.

Let k be whole points, T = Wᵀk their total, and s = τ(T − θ) a score. Over all scales τ
and thresholds θ, with c = ±½ the class, and with d and Q centred, the least risk is::

    min γ = var(c) − cov(T, c)² / var(T),    cov(T, c) = kᵀd/2,    var(T) = kᵀQk

The rules renyi and sharp have the guarantee 2γ, and map has 4γ at the best scale. Both
are smallest where ``(kᵀd)₊² / kᵀQk`` is largest. A number added to all points of a
feature changes neither: only the span of the points is limited.

*Search.* The points of a model are rounded at several scales. From each start, the
best step of ±1 is taken until none improves, in O(D) per step. The best result is then
improved by steps of two points at once. With few rows, such steps would fit the sample
and undo the ridge penalty of the model. Then the best rounding is the answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.counting.sparse_counts import Table, is_sparse

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_GAIN = 1e-12  # a smaller relative gain is rounding
_FEW = 600  # most categories for which all starts and steps of two points are tried
_STARTS = 4  # with more categories, only the best starts are improved
# Multiples of (span of the largest feature) / (most points). Below 1 the points are
# coarser; above 1 the largest are cut off.
_SCALES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0)


class Pairs(NamedTuple):
    """Moments of the categories, from which the risk of points is computed."""

    Q: Table  # not centred
    mean: Floats
    dvec: Floats  # centred: twice the covariance with c = ±½
    sizes: NDArray[Any]

    def product(self, k: NDArray[Any]) -> Floats:
        """Return the centred Q times k."""
        return np.asarray(self.Q @ k - self.mean * (self.mean @ k))

    def column(self, j: int) -> Floats:
        """Return a column of the centred Q."""
        column = self.Q[[j]].toarray()[0] if is_sparse(self.Q) else self.Q[j]
        return np.asarray(column - self.mean[j] * self.mean)

    def value(self, k: NDArray[Any]) -> float:
        """Return (kᵀd)₊² / kᵀQk: the larger, the smaller is every bound."""
        return float(_value(self.dvec @ k, k @ self.product(k)))


def nearest(z: Floats, sizes: NDArray[Any], scale: float, most: int) -> Whole:
    """Return the whole points nearest to z/scale, each feature from 0 to `most`."""
    low, _ = _ends(z, sizes)
    return np.asarray(np.minimum(np.rint((z - low) / scale), most), np.int64)


def scales(z: Floats, sizes: NDArray[Any], most: int) -> Floats:
    """Return the scales to search; none if no feature has two different points."""
    low, high = _ends(z, sizes)
    widest = (high - low).max()
    return widest / (most * np.array(_SCALES)) if widest > 0 else np.empty(0)


def search(z: Floats, pairs: Pairs, most: int, improve: bool = True) -> Whole:
    """Return the best whole points, each feature from 0 to `most`.

    Without `improve`, the result is the best rounding of z.
    """
    sizes = pairs.sizes
    means = np.add.reduceat(z * pairs.mean, offsets(sizes)[:-1])
    middle = np.repeat(means, sizes)
    starts = [np.zeros(len(z), np.int64)]
    for scale in scales(z, sizes, most):
        around = from_zero(np.rint((z - middle) / scale).astype(np.int64), sizes)
        starts += [nearest(z, sizes, scale, most), np.minimum(around, most)]
    starts.sort(key=pairs.value, reverse=True)
    if not improve or len(starts) == 1:
        return starts[0]
    few = len(z) <= _FEW
    ends = [_improved(k, pairs, most) for k in starts[: -1 if few else _STARTS]]
    best = max(ends, key=pairs.value)
    better: Whole | None = best if few else None
    while better is not None:
        best = _improved(better, pairs, most)
        better = _two_at_once(best, pairs, most)
    return from_zero(best, sizes)


def from_zero(k: Whole, sizes: NDArray[Any]) -> Whole:
    """Shift the points so that the smallest of each feature is 0."""
    low, _ = _ends(k, sizes)
    return np.asarray(k - low, np.int64)


def _ends(values: NDArray[Any], sizes: NDArray[Any]) -> list[NDArray[Any]]:
    """Return each feature's smallest and largest value, repeated for its categories."""
    starts = offsets(sizes)[:-1]
    low = np.minimum.reduceat(values, starts)
    high = np.maximum.reduceat(values, starts)
    return [np.repeat(low, sizes), np.repeat(high, sizes)]


def _value(lead: Any, spread: Any) -> Floats:
    ratio = np.zeros(np.broadcast_shapes(np.shape(lead), np.shape(spread)))
    good = (lead > 0) & (spread > _GAIN)
    np.divide(lead * lead, spread, out=ratio, where=good)
    return ratio


def _best(after: Floats, lead: float, spread: float) -> tuple[int, int] | None:
    """Return the place of the best of some values; None if it gains nothing."""
    place = divmod(int(after.argmax()), after.shape[1])
    now = float(_value(lead, spread))
    return place if after[place] > now * (1 + _GAIN) + _GAIN else None


def _allowed(k: Whole, sizes: NDArray[Any], most: int) -> NDArray[np.bool_]:
    """Return whether each point may grow, and may shrink, by 1: (2, D)."""
    low, high = _ends(k, sizes)
    return np.array([k + 1 - low <= most, high - k + 1 <= most])


def _improved(k: Whole, pairs: Pairs, most: int) -> Whole:
    """Take the best step of ±1 until none improves the value."""
    k = k.copy()
    step = np.array([[1], [-1]])
    own = pairs.Q.diagonal() - pairs.mean**2
    product = pairs.product(k)
    lead = float(pairs.dvec @ k)
    spread = float(k @ product)
    while True:
        after = _value(lead + step * pairs.dvec, spread + 2 * step * product + own)
        after[~_allowed(k, pairs.sizes, most)] = 0
        best = _best(after, lead, spread)
        if best is None:
            return k
        sign = 1 - 2 * best[0]
        j = best[1]
        k[j] += sign
        product = product + sign * pairs.column(j)
        lead = float(pairs.dvec @ k)
        spread = float(k @ product)


def _two_at_once(k: Whole, pairs: Pairs, most: int) -> Whole | None:
    """Return the points after the best two steps at once; None if none improves."""
    Q = pairs.Q.toarray() if is_sparse(pairs.Q) else pairs.Q
    Q = Q - np.outer(pairs.mean, pairs.mean)
    product = Q @ k
    own = Q.diagonal()
    lead = float(pairs.dvec @ k)
    spread = float(k @ product)
    down, place = np.nonzero(_allowed(k, pairs.sizes, most))
    if not place.size:
        return None
    sign = 1 - 2 * down
    d = sign * pairs.dvec[place]
    g = 2 * sign * product[place] + own[place]
    both = 2 * np.outer(sign, sign) * Q[np.ix_(place, place)]
    after = _value(lead + d[:, None] + d, spread + g[:, None] + g + both)
    # Two steps within a feature could together exceed the most points.
    feature = np.repeat(np.arange(len(pairs.sizes)), pairs.sizes)[place]
    after[feature[:, None] == feature] = 0
    best = _best(after, lead, spread)
    if best is None:
        return None
    k = k.copy()
    both_steps = list(best)
    np.add.at(k, place[both_steps], sign[both_steps])
    return k
