"""R² and prevalence, against scikit-learn and simulated liability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from renyi.genotypes import metrics as risk
from support.scorings import drawn_scores


@pytest.mark.parametrize("with_covariates", [False, True])
def test_nagelkerke_is_that_of_scikit_learns_regressions(with_covariates):
    scores, y, covariates = drawn_scores(300)
    n, share = len(y), y.mean()

    def r2(X):
        p = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
        value = -log_loss(y, p.predict_proba(X), normalize=False)
        none = n * (share * np.log(share) + (1 - share) * np.log(1 - share))
        return (1 - np.exp(2 / n * (none - value))) / (1 - np.exp(2 / n * none))

    if with_covariates:
        wanted = r2(np.column_stack([covariates, scores])) - r2(covariates)
        found = risk.nagelkerke_r2(scores, y, covariates)
    else:
        wanted, found = r2(scores[:, None]), risk.nagelkerke_r2(scores, y)
    assert found == pytest.approx(wanted, abs=1e-7)


def test_nagelkerke_of_perfect_separation_is_one():
    assert risk.nagelkerke_r2([1, 2, 3, 4], [0, 0, 1, 1]) == pytest.approx(1)


def test_observed_r2_adds_to_that_of_covariates():
    scores, y, covariates = drawn_scores(300)
    both = np.column_stack([covariates, scores])
    fits = [LinearRegression().fit(X, y).score(X, y) for X in (both, covariates)]
    found = risk.observed_r2(scores, y, covariates)
    assert found == pytest.approx(fits[0] - fits[1])


@pytest.mark.parametrize("ascertained", [False, True])
def test_liability_r2_is_that_of_the_simulated_liability(ascertained):
    """A liability of which the score explains 20 %; 5 % who have most are cases."""
    rng, K, n = np.random.default_rng(0), 0.05, 500_000
    score = rng.normal(size=n) * np.sqrt(0.2)
    y = (score + rng.normal(size=n) * np.sqrt(0.8) > norm.ppf(1 - K)).astype(int)
    if ascertained:  # as many controls as cases
        cases = np.flatnonzero(y)
        rows = np.concatenate([cases, np.flatnonzero(y == 0)[: len(cases)]])
        score, y = score[rows], y[rows]
    found = risk.risk_measures(score, y, prevalence=K)
    assert found.liability_r2 == pytest.approx(0.2, abs=0.01)


def test_at_its_own_share_of_cases_the_liability_has_the_textbook_factor():
    z = norm.pdf(norm.ppf(0.1))
    found = risk.liability_r2(0.03, 0.1, 0.1)
    assert found == pytest.approx(0.03 * 0.1 * 0.9 / z**2)


def test_the_intercept_moves_as_bayes_says():
    x, K, P = np.linspace(-3, 3, 7), 0.01, 0.5
    density = norm.pdf(x[:, None], [0, 1])
    at = [density[:, 1] * s / (density @ [1 - s, s]) for s in (P, K)]
    start = risk.intercept_at(0.0, P, K)
    np.testing.assert_allclose(expit(logit(at[0]) + start), at[1], rtol=1e-12)


def test_a_prevalence_is_a_share():
    with pytest.raises(ValueError, match="prevalence"):
        risk.risk_measures([1, 2], [0, 1], prevalence=2)


def test_a_score_that_goes_the_wrong_way_explains_nothing():
    rng = np.random.default_rng(1)
    y, C = rng.integers(0, 2, 200), rng.normal(size=(200, 2))
    scores = y + rng.normal(size=200)
    good = risk.risk_measures(scores, y, C, 0.1)
    assert good.nagelkerke_r2 > 0.1 and good.liability_r2 > 0.1
    bad = risk.risk_measures(-scores, y, C, 0.1)
    assert (bad.nagelkerke_r2, bad.liability_r2) == (0, 0)
