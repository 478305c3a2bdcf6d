r"""How well a score ranks and explains a disease: arrays to numbers, no model inside.

* **AUC** is the share of pairs (case, control) that the score ranks rightly, ties half.
  Its variance after DeLong et al. (1988): with V₁(i) the share of controls below case i
  and V₀(j) that of cases above control j, ``var = S²(V₁)/n₁ + S²(V₀)/n₀``. The interval
  is symmetric in log-odds. If no pair is misranked, that variance is 0 and no interval;
  then m = min(n₁, n₀) independent pairs were all right, which has the chance AUC^m, so
  ``AUC ≥ ((1 − confidence)/2)^(1/m)``.
* **AUC of left-out scores.** Sample i is scored by a fit that has seen sample j, and j
  by one that has seen i, so that scores are not independent. Let r be the share of
  signal in the squared length of the points. To first order the variance is DeLong's
  times ``r(2 − r)² + 2(1 − r)``: 2 without signal, at most 2.27, and 1 if the points
  are known. `left_out_auc` takes 1.5² = 2.25 for all r. In simulations it then covers
  both the AUC of this fit and the mean AUC of such fits. If samples come in groups,
  placements are added up within them, and Student's t has a degree of freedom less
  than there are groups with cases, or with controls.
* **Nagelkerke's R²** is ``(1 − (L₀/L₁)^(2/n)) / (1 − L₀^(2/n))`` of logistic
  regressions; what a score adds to covariates is the difference of theirs.
* **Liability-scale R²** (Lee et al. 2012, Genet. Epidemiol. 36:214). R²_o is that
  of the linear regression of the 0/1 phenotype, K the prevalence and P the share of
  cases in the sample, t = Φ⁻¹(1 − K), z = φ(t), m = z/K:
  ``C = (K(1−K))² / (z² P(1−P))``, ``θ = m(P−K)/(1−K) · (m(P−K)/(1−K) − t)``,
  ``R²_l = C·R²_o / (1 + C·θ·R²_o)``.
* **Another prevalence** adds ``log K/(1−K) − log P/(1−P)`` to the log-odds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log1p, ndtri, stdtrit

from renyi.validation import check_share

Floats = NDArray[np.float64]

_STEPS = 50
_LEFT_OUT_SPREAD = 1.5  # standard error of left-out scores, as a multiple of DeLong's


@dataclass(frozen=True)
class RiskMeasures:
    """What a score of a two-class phenotype is worth, on rows it was not fitted to."""

    cases: int
    controls: int
    auc: float
    auc_interval: tuple[float, float]
    confidence: float
    nagelkerke_r2: float
    liability_r2: float | None  # None without a stated prevalence
    prevalence: float | None


def risk_measures(
    scores: Floats,
    y: Any,
    covariates: Floats | None = None,
    prevalence: float | None = None,
    confidence: float = 0.95,
    added: Floats | None = None,
    cells: Any = None,
) -> RiskMeasures:
    """Measure a score; R² is what it adds to the covariates. `y` is 1 for cases.

    A score with covariates in it is measured by what it has `added`: if it is of
    left-out samples, their own classes would follow from it and the covariates. One
    that goes the wrong way explains nothing. Samples of one of the `cells` are ties.
    """
    scores, y = _two_classes(scores, y)
    area, low, high = auc(scores, y, confidence, cells)
    added = scores if added is None else added
    X = _with_start(y, covariates, added)
    wrong_way = np.linalg.lstsq(X, y, rcond=None)[0][1] < 0
    r2_l = None
    if prevalence is not None:
        r2 = 0.0 if wrong_way else observed_r2(added, y, covariates)
        r2_l = liability_r2(r2, float(y.mean()), prevalence)
    return RiskMeasures(
        cases=int(y.sum()),
        controls=int((1 - y).sum()),
        auc=area,
        auc_interval=(low, high),
        confidence=confidence,
        nagelkerke_r2=0.0 if wrong_way else nagelkerke_r2(added, y, covariates),
        liability_r2=r2_l,
        prevalence=prevalence,
    )


def _two_classes(scores: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return them as floats; refuse what has no cases or no controls."""
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
    """Return minus the logarithms of the probabilities that true classes got.

    None counts as less than the least step of floating point, as in scikit-learn.

    >>> log_losses([0.9, 0.5, 0.0]).round(2).tolist()
    [0.11, 0.69, 36.04]
    """
    return -np.log(np.clip(probabilities, np.finfo(np.float64).eps, 1.0))


def auc(
    scores: Any, y: Any, confidence: float = 0.95, cells: Any = None
) -> tuple[float, float, float]:
    """Return the area under the ROC curve and its interval (DeLong).

    Samples of one of the `cells` are ties, whatever their scores.
    """
    scores, y = _two_classes(scores, y)
    return _area(_placements(scores, y, cells), y, confidence)


def left_out_auc(
    scores: ArrayLike,
    y: ArrayLike,
    cells: NDArray[np.intp] | None = None,
    groups: NDArray[np.int64] | None = None,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """Return AUC and interval of scores by fits that left out each sample.

    Every other sample was in the fit, so the interval is wider than that of `auc`.
    Samples of one of the `groups` do not vary independently.
    """
    values, classes = _two_classes(scores, y)
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
    if min(area, 1 - area) * len(right) * len(wrong) < 0.25:  # all pairs are alike
        least = _never_seen(independent / factor**2, confidence)
        return (area, least, 1.0) if area > 0.5 else (area, 0.0, 1 - least)
    variance = _area_variance(right, wrong)
    quantile = float(ndtri((1 + confidence) / 2))
    if groups is not None:
        variance = max(variance, _grouped_variance(right, wrong, y, groups))
        quantile = float(stdtrit(max(independent - 1, 1), (1 + confidence) / 2))
    width = factor * quantile * math.sqrt(variance)
    centre = math.log(area / (1 - area))
    half = width / (area * (1 - area))
    return area, float(expit(centre - half)), float(expit(centre + half))


def _area_variance(right: Floats, wrong: Floats) -> float:
    parts = [v.var(ddof=1) / len(v) if len(v) > 1 else 0.25 for v in (right, wrong)]
    return float(sum(parts))


def _fewer_groups(y: Floats, groups: NDArray[np.int64]) -> int:
    """Return the number of groups that have cases or controls, the smaller of both."""
    return min(len(np.unique(groups[y == kind])) for kind in (0, 1))


def _grouped_variance(
    right: Floats, wrong: Floats, y: Floats, groups: NDArray[np.int64]
) -> float:
    """Return the variance of the AUC if whole groups are drawn, not samples."""
    parts = np.empty(len(y))
    parts[y == 1] = (right - right.mean()) / len(right)
    parts[y == 0] = (wrong - wrong.mean()) / len(wrong)
    sums = np.bincount(groups, parts)
    count = int(np.count_nonzero(np.bincount(groups)))
    return float(sums @ sums) * count / max(count - 1, 1)


def _placements(scores: Floats, y: Floats, cells: Any = None) -> tuple[Floats, Floats]:
    """Return of each case the share of controls below, of controls the cases above."""
    case = scores[y == 1]
    control = scores[y == 0]
    m = len(case)
    n = len(control)
    ranks = _midranks(np.concatenate([case, control]))
    below = (ranks[:m] - _midranks(case)) / n
    above = 1 - (ranks[m:] - _midranks(control)) / m
    if cells is None:
        return below, above
    places = np.where(y == 1, np.cumsum(y), np.cumsum(1 - y))
    cells = np.unique(cells, return_inverse=True)[1]
    several = np.flatnonzero(np.bincount(cells)[cells] > 1)
    order = several[np.argsort(cells[several], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
        own = y[rows]
        ours = places[rows].astype(np.intp) - 1
        cases = int(own.sum())
        if 0 < cases < len(rows):  # what they are ranked among themselves is undone
            inner = _placements(scores[rows], own)
            below[ours[own == 1]] += (0.5 - inner[0]) * (len(rows) - cases) / n
            above[ours[own == 0]] += (0.5 - inner[1]) * cases / m
    return below, above


def _never_seen(pairs: float, confidence: float) -> float:
    """Return the least share of what each of so many disjoint pairs showed."""
    return float(((1 - confidence) / 2) ** (1 / pairs))


def _midranks(x: Floats) -> Floats:
    """Return ranks from 1 on; ties share the middle of theirs."""
    _, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[places])


# ---- explained variation


def _with_start(y: Floats, covariates: Any, *more: Floats) -> Floats:
    """Return columns of a regression: the intercept, covariates, and more."""
    columns = [np.ones(len(y)), *more]
    if covariates is not None:
        columns += list(np.asarray(covariates, np.float64).reshape(len(y), -1).T)
    X = np.column_stack(columns)
    scale = X[:, 1:].std(axis=0)
    X[:, 1:] = (X[:, 1:] - X[:, 1:].mean(axis=0)) / np.where(scale > 0, scale, 1)
    return X


def log_likelihood(X: Floats, y: Floats) -> float:
    """Return the largest one of a logistic regression; 0 where classes separate.

    Newton's method with halved steps; a ridge far below rounding of the result keeps
    directions without variation, and perfect separation, finite.
    """
    beta = np.zeros(X.shape[1])
    value = -len(y) * math.log(2)
    ridge = 1e-10 * len(y) * np.eye(X.shape[1])
    for _ in range(_STEPS):
        p = expit(X @ beta)
        H = X.T @ ((p * (1 - p))[:, None] * X) + ridge
        step = np.linalg.solve(H, X.T @ (y - p))
        length = 1.0
        while True:
            g = X @ (beta + length * step)
            after = float(y @ g - np.logaddexp(0, g).sum())
            if after >= value or length < 1e-9:
                break
            length /= 2
        gain = after - value
        beta = beta + length * step
        value = max(after, value)
        if gain <= 1e-12 * max(1.0, -value):
            break
    return value


def nagelkerke_r2(scores: Any, y: Any, covariates: Any = None) -> float:
    """Return Nagelkerke's R² of a score, or what it adds to that of covariates."""
    scores, y = _two_classes(scores, y)
    n = len(y)
    share = y.mean()
    none = n * (share * math.log(share) + (1 - share) * log1p(-share))

    def r2(value: float) -> float:
        return float(np.expm1(2 / n * (none - value)) / np.expm1(2 / n * none))

    full = r2(log_likelihood(_with_start(y, covariates, scores), y))
    if covariates is None:
        return full
    return full - r2(log_likelihood(_with_start(y, covariates), y))


def observed_r2(scores: Any, y: Any, covariates: Any = None) -> float:
    """Return R² of linear regression on a score, or what it adds to covariates."""
    scores, y = _two_classes(scores, y)

    def r2(X: Floats) -> float:
        rest = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        return 1 - float(rest @ rest) / float(((y - y.mean()) ** 2).sum())

    full = r2(_with_start(y, covariates, scores))
    return full if covariates is None else full - r2(_with_start(y, covariates))


def liability_r2(r2: float, share: float, prevalence: float) -> float:
    """Return R² on the liability scale of one observed at a share of cases."""
    check_share("prevalence", prevalence)
    check_share("share", share)
    K = prevalence
    P = share
    t = -float(ndtri(K))
    z = math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    C = (K / z * (1 - K)) ** 2 / (P * (1 - P))
    excess = z / K * (P - K) / (1 - K)
    return C * r2 / (1 + C * excess * (excess - t) * r2)


# ---- prevalence


def intercept_at(intercept: float, share: float, prevalence: float) -> float:
    """Return the intercept of log-odds at another prevalence than cases had a share."""
    check_share("prevalence", prevalence)
    check_share("share", share)
    moved = math.log(prevalence / (1 - prevalence)) - math.log(share / (1 - share))
    return intercept + moved
