"""Sums of points, one category of each feature: how large, and how much is rounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


def score_error(points: Floats, intercept: Floats, sizes: NDArray[Any]) -> float:
    """Bound the rounding error of a sum of points, whatever the order of adding."""
    total = largest_sum(points, intercept, sizes) + 1
    return _EPS * (len(sizes) + int(sizes.max()) + 4) * total


def largest_sum(points: Floats, intercept: Floats, sizes: NDArray[Any]) -> float:
    """Return what the sizes of a row's points add up to at most."""
    sizes_of = np.abs(points.astype(np.float64))  # whole ones could overflow
    largest = np.maximum.reduceat(sizes_of, offsets(sizes)[:-1]).sum(axis=0)
    return float((largest + np.abs(intercept.astype(np.float64))).max())


def centred(
    points: Floats, intercept: Floats, weights: Floats, sizes: NDArray[Any]
) -> tuple[Floats, Floats]:
    """Move each feature's mean to the intercept, which changes no score.

    A number that is added to all points of one feature and taken from another's would
    else drown what the points say; hence sums that are rounded once.
    """
    means = feature_means(points, weights, sizes)
    pairs = zip(intercept.tolist(), means.T.tolist(), strict=True)
    moved = [_sum_of([b, *each]) for b, each in pairs]
    return points - np.repeat(means, sizes, axis=0), np.array(moved)


def feature_means(points: Floats, weights: Floats, sizes: NDArray[Any]) -> Floats:
    """Return the mean points of each feature."""
    starts = offsets(sizes)[:-1]
    totals = np.add.reduceat(weights, starts)[:, None]
    return np.asarray(np.add.reduceat(weights[:, None] * points, starts) / totals)


def _sum_of(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # points too large to add up promise nothing
        return math.inf
