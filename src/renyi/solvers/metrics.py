r"""Metrics of scores: AUC and log loss, from arrays.

* **AUC** is the share of pairs (case, control) in the right order; ties count half.
  Its variance is that of DeLong et al. (1988): ``var = S²(V₁)/n₁ + S²(V₀)/n₀``, where
  V₁(i) is the share of controls below case i, and V₀(j) that of cases above control j.
  The interval is symmetric in log-odds. If all pairs are in the right order, that
  variance is 0 and gives no interval. Then m = min(n₁, n₀) independent pairs are right,
  which has the probability AUC^m, so ``AUC ≥ ((1 − confidence)/2)^(1/m)``.
* **AUC of left-out scores.** Sample i is scored by a fit that contains sample j, and j
  by one that contains i, so the scores are not independent. Let r be the share of
  signal in the squared length of the points. To first order the variance is DeLong's
  times ``r(2 − r)² + 2(1 − r)``: 2 without signal, at most 2.27, and 1 if the points
  are known. `left_out_auc` uses 1.5² = 2.25 for all r. In simulations it then covers
  both the AUC of this fit and the mean AUC of such fits. If samples come in groups,
  placements are summed within groups. Student's t then has one degree of freedom less
  than the number of groups with cases, or with controls if these are fewer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike, NDArray

from renyi.validation import check_share

Floats = NDArray[np.float64]

_LEFT_OUT_SPREAD = 1.5  # standard error of left-out scores, as a multiple of DeLong's


def check_two_classes(scores: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return scores and classes as floats; raise ValueError unless both are valid."""
    scores = np.asarray(scores, np.float64)
    y = np.asarray(y, np.float64)
    if scores.shape != y.shape or y.ndim != 1:
        raise ValueError(
            f"Scores and phenotype must be two vectors of one length, not of the "
            f"shapes {scores.shape} and {y.shape}."
        )
    if not np.isfinite(scores).all():
        raise ValueError("A score is missing or infinite: leave these rows out.")
    if not np.isin(y, (0, 1)).all() or y.min(initial=1) == y.max(initial=0):
        raise ValueError("The phenotype must have cases (1) and controls (0).")
    return scores, y


# ---- ranking


def log_losses(probabilities: Any) -> Any:
    """Return minus the logarithm of the probability of each true class.

    A probability of 0 counts as the machine epsilon, as in scikit-learn.

    >>> log_losses([0.9, 0.5, 0.0]).round(2).tolist()
    [0.11, 0.69, 36.04]
    """
    return -np.log(np.clip(probabilities, np.finfo(np.float64).eps, 1.0))


def auc(
    scores: Any, y: Any, confidence: float = 0.95, cells: Any = None
) -> tuple[float, float, float]:
    """Return the area under the ROC curve and its interval (DeLong).

    Samples in the same cell of `cells` count as ties, whatever their scores.
    """
    scores, y = check_two_classes(scores, y)
    return _area(_placements(scores, y, cells), y, confidence)


def left_out_auc(
    scores: ArrayLike,
    y: ArrayLike,
    cells: NDArray[np.intp] | None = None,
    groups: NDArray[np.int64] | None = None,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """Return AUC and interval of leave-one-out scores.

    The fits share most samples, so the interval is wider than that of `auc`. Samples in
    the same group of `groups` need not be independent.
    """
    values, classes = check_two_classes(scores, y)
    placements = _placements(values, classes, cells)
    return _area(placements, classes, confidence, _LEFT_OUT_SPREAD, groups)


def _area(
    placements: tuple[Floats, Floats],
    y: Floats,
    confidence: float,
    factor: float = 1.0,
    groups: NDArray[np.int64] | None = None,
) -> tuple[float, float, float]:
    """Return the mean of placements and its interval, symmetric in log-odds.

    The standard error is multiplied by `factor`.
    """
    check_share("confidence", confidence)
    right, wrong = placements
    smaller = min(len(right), len(wrong))
    area = float(right.mean())
    independent = smaller if groups is None else _fewer_groups(y, groups)
    # Is the AUC 0 or 1, that is, are all pairs in the same order?
    if min(area, 1 - area) * len(right) * len(wrong) < 0.25:
        least = _least_share(independent / factor**2, confidence)
        return (area, least, 1.0) if area > 0.5 else (area, 0.0, 1 - least)
    variance = _area_variance(right, wrong)
    quantile = float(scipy.special.ndtri((1 + confidence) / 2))
    if groups is not None:
        variance = max(variance, _grouped_variance(right, wrong, y, groups))
        df = max(independent - 1, 1)
        quantile = float(scipy.special.stdtrit(df, (1 + confidence) / 2))
    width = factor * quantile * math.sqrt(variance)
    centre = math.log(area / (1 - area))
    half = width / (area * (1 - area))
    low, high = scipy.special.expit([centre - half, centre + half])
    return area, float(low), float(high)


def _area_variance(right: Floats, wrong: Floats) -> float:
    parts = [v.var(ddof=1) / len(v) if len(v) > 1 else 0.25 for v in (right, wrong)]
    return float(sum(parts))


def _fewer_groups(y: Floats, groups: NDArray[np.int64]) -> int:
    """Return the number of groups with cases, or with controls if these are fewer."""
    return min(len(np.unique(groups[y == kind])) for kind in (0, 1))


def _grouped_variance(
    right: Floats, wrong: Floats, y: Floats, groups: NDArray[np.int64]
) -> float:
    """Return the variance of the AUC if groups are independent, not samples."""
    parts = np.empty(len(y))
    parts[y == 1] = (right - right.mean()) / len(right)
    parts[y == 0] = (wrong - wrong.mean()) / len(wrong)
    sums = np.bincount(groups, parts)
    count = int(np.count_nonzero(np.bincount(groups)))
    return float(sums @ sums) * count / max(count - 1, 1)


def _placements(scores: Floats, y: Floats, cells: Any = None) -> tuple[Floats, Floats]:
    """Return the share of controls below each case, and of cases above each control."""
    case = scores[y == 1]
    control = scores[y == 0]
    m = len(case)
    n = len(control)
    ranks = _midranks(np.concatenate([case, control]))
    below = (ranks[:m] - _midranks(case)) / n
    above = 1 - (ranks[m:] - _midranks(control)) / m
    if cells is None:
        return below, above
    # Replace the order within each cell by ties.
    places = np.where(y == 1, np.cumsum(y), np.cumsum(1 - y))
    for rows in _shared_cells(cells):
        cell_y = y[rows]
        cell_places = places[rows].astype(np.intp) - 1
        cases = int(cell_y.sum())
        controls = len(rows) - cases
        if cases and controls:
            inner_below, inner_above = _placements(scores[rows], cell_y)
            below[cell_places[cell_y == 1]] += (0.5 - inner_below) * controls / n
            above[cell_places[cell_y == 0]] += (0.5 - inner_above) * cases / m
    return below, above


def _shared_cells(cells: Any) -> list[NDArray[np.intp]]:
    """Return the samples of each cell that has more than one."""
    numbers = np.unique(cells, return_inverse=True)[1]
    shared = np.flatnonzero(np.bincount(numbers)[numbers] > 1)
    order = shared[np.argsort(numbers[shared], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def _least_share(pairs: float, confidence: float) -> float:
    """Return the lower bound on a share that all of so many disjoint pairs have."""
    return float(((1 - confidence) / 2) ** (1 / pairs))


def _midranks(x: Floats) -> Floats:
    """Return ranks from 1; ties get their mean rank."""
    _, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[places])
