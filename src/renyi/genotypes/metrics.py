r"""Measure what a score explains of a disease, from arrays.

* **Nagelkerke's R²** is ``(1 − (L₀/L₁)^(2/n)) / (1 − L₀^(2/n))`` of logistic
  regressions. What a score adds to covariates is the difference of two such values.
* **Liability-scale R²** (Lee et al. 2012, Genet. Epidemiol. 36:214). R²_o is that
  of the linear regression of the 0/1 phenotype. K is the prevalence, and P the share of
  cases in the sample. With t = Φ⁻¹(1 − K), z = φ(t), m = z/K:
  ``C = (K(1−K))² / (z² P(1−P))``, ``θ = m(P−K)/(1−K) · (m(P−K)/(1−K) − t)``,
  ``R²_l = C·R²_o / (1 + C·θ·R²_o)``.
* **Another prevalence** adds ``log K/(1−K) − log P/(1−P)`` to the log-odds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log1p, ndtri

from renyi.solvers.metrics import auc, check_two_classes
from renyi.validation import check_share

Floats = NDArray[np.float64]

_STEPS = 50


@dataclass(frozen=True)
class RiskMeasures:
    """Figures of a score of a two-class phenotype, on rows it was not fitted to."""

    auc: float
    auc_interval: tuple[float, float]  # of 95 %
    nagelkerke_r2: float
    liability_r2: float | None  # None without a stated prevalence
    prevalence: float | None


def risk_measures(
    scores: Floats,
    y: ArrayLike,
    covariates: Floats | None = None,
    prevalence: float | None = None,
    added: Floats | None = None,
    cells: NDArray[np.intp] | None = None,
) -> RiskMeasures:
    """Measure a score; R² is what it adds to the covariates. `y` is 1 for cases.

    A score that includes covariates is measured by what it has `added`. (For left-out
    samples, their classes would follow from the score and the covariates.) A score of
    the wrong sign explains nothing. Samples with the same number in `cells` are ties.
    """
    scores, y = check_two_classes(scores, y)
    area, low, high = auc(scores, y, cells=cells)
    added = scores if added is None else added
    X = _with_start(y, covariates, added)
    wrong_way = np.linalg.lstsq(X, y, rcond=None)[0][1] < 0
    r2_l = None
    if prevalence is not None:
        r2 = 0.0 if wrong_way else observed_r2(added, y, covariates)
        r2_l = liability_r2(r2, float(y.mean()), prevalence)
    return RiskMeasures(
        auc=area,
        auc_interval=(low, high),
        nagelkerke_r2=0.0 if wrong_way else nagelkerke_r2(added, y, covariates),
        liability_r2=r2_l,
        prevalence=prevalence,
    )


# ---- explained variation


def _with_start(y: Floats, covariates: ArrayLike | None, *more: Floats) -> Floats:
    """Return columns of a regression: the intercept, covariates, and more."""
    columns = [np.ones(len(y)), *more]
    if covariates is not None:
        columns += list(np.asarray(covariates, np.float64).reshape(len(y), -1).T)
    X = np.column_stack(columns)
    scale = X[:, 1:].std(axis=0)
    X[:, 1:] = (X[:, 1:] - X[:, 1:].mean(axis=0)) / np.where(scale > 0, scale, 1)
    return X


def log_likelihood(X: Floats, y: Floats) -> float:
    """Return the log-likelihood of a logistic regression; 0 if classes separate.

    It uses Newton's method with halved steps. A ridge far below the rounding of the
    result keeps constant directions and perfect separation finite.
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


def nagelkerke_r2(
    scores: ArrayLike, y: ArrayLike, covariates: ArrayLike | None = None
) -> float:
    """Return Nagelkerke's R² of a score, or what it adds to that of covariates."""
    scores, y = check_two_classes(scores, y)
    n = len(y)
    share = y.mean()
    none = n * (share * math.log(share) + (1 - share) * log1p(-share))

    def r2(value: float) -> float:
        return float(np.expm1(2 / n * (none - value)) / np.expm1(2 / n * none))

    full = r2(log_likelihood(_with_start(y, covariates, scores), y))
    if covariates is None:
        return full
    return full - r2(log_likelihood(_with_start(y, covariates), y))


def observed_r2(
    scores: ArrayLike, y: ArrayLike, covariates: ArrayLike | None = None
) -> float:
    """Return R² of linear regression on a score, or what it adds to covariates."""
    scores, y = check_two_classes(scores, y)

    def r2(X: Floats) -> float:
        rest = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        return 1 - float(rest @ rest) / float(((y - y.mean()) ** 2).sum())

    full = r2(_with_start(y, covariates, scores))
    return full if covariates is None else full - r2(_with_start(y, covariates))


def liability_r2(r2: float, share: float, prevalence: float) -> float:
    """Return R² on the liability scale from R² observed at a share of cases."""
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
    """Return the intercept of log-odds at another prevalence."""
    check_share("prevalence", prevalence)
    check_share("share", share)
    moved = math.log(prevalence / (1 - prevalence)) - math.log(share / (1 - share))
    return intercept + moved
