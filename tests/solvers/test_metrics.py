"""AUC, R² and prevalence, against brute force, scikit-learn and simulated liability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from renyi.solvers import metrics as risk


def drawn(n, seed=0, ties=True):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    scores = rng.normal(size=n) + y
    covariates = rng.normal(size=(n, 2)) + 0.5 * y[:, None]
    return (scores.round(1) if ties else scores), y.astype(int), covariates


def test_auc_and_delongs_interval_are_those_of_all_pairs():
    scores, y, _ = drawn(150)
    area, low, high = risk.auc(scores, y, 0.9)
    case, control = scores[y == 1], scores[y == 0]
    kernel = (case[:, None] > control) + 0.5 * (case[:, None] == control)
    variance = kernel.mean(1).var(ddof=1) / len(case)
    variance += kernel.mean(0).var(ddof=1) / len(control)
    assert area == pytest.approx(roc_auc_score(y, scores), abs=1e-14)
    half = norm.ppf(0.95) * np.sqrt(variance) / (area * (1 - area))
    wanted = expit(logit(area) + np.array([-half, half]))
    np.testing.assert_allclose((low, high), wanted, rtol=1e-12)


def test_the_interval_covers_the_auc_as_often_as_it_says():
    rng, true = np.random.default_rng(3), norm.cdf(1 / np.sqrt(2))
    hits = 0
    for _ in range(400):
        y = np.repeat([0, 1], 40)
        _, low, high = risk.auc(rng.normal(size=80) + y, y)
        hits += low <= true <= high
    assert 0.92 <= hits / 400 <= 0.98


def test_perfect_ranking_still_has_an_interval():
    area, low, high = risk.auc([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1])
    assert (area, high) == (1, 1)
    assert low == pytest.approx(0.025 ** (1 / 3))  # three disjoint pairs
    assert risk.auc([4, 5, 1, 2], [0, 0, 1, 1])[:2] == (0, 0)


@pytest.mark.parametrize("with_covariates", [False, True])
def test_nagelkerke_is_that_of_scikit_learns_regressions(with_covariates):
    scores, y, covariates = drawn(300)
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
    scores, y, covariates = drawn(300)
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


@pytest.mark.parametrize(
    ("scores", "y", "word"),
    [
        ([1, 2], [1, 1], "controls"),
        ([1, np.nan], [0, 1], "missing"),
        ([1, 2, 3], [0, 1], "length"),
        ([1, 2], [1, 2], "cases"),
    ],
)
def test_what_cannot_be_measured_is_refused(scores, y, word):
    with pytest.raises(ValueError, match=word):
        risk.auc(scores, y)
    with pytest.raises(ValueError, match="prevalence"):
        risk.risk_measures([1, 2], [0, 1], prevalence=2)


def test_pairs_of_one_cell_are_ties_whatever_their_scores():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(4, 30))
        y, cells = rng.integers(0, 2, n), rng.integers(0, n // 2, n)
        y[:2] = 0, 1
        scores = rng.integers(0, 5, n) / 2
        case, control = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        apart = np.sign(scores[case][:, None] - scores[control])
        apart[cells[case][:, None] == cells[control]] = 0
        found = risk.auc(scores, y, cells=cells)
        assert found[0] == pytest.approx((apart.mean() + 1) / 2)
        none = risk.auc(scores, y, cells=np.arange(n))
        assert none == risk.auc(scores, y)


def test_a_score_that_goes_the_wrong_way_explains_nothing():
    rng = np.random.default_rng(1)
    y, C = rng.integers(0, 2, 200), rng.normal(size=(200, 2))
    scores = y + rng.normal(size=200)
    good = risk.risk_measures(scores, y, C, 0.1)
    assert good.nagelkerke_r2 > 0.1 and good.liability_r2 > 0.1
    bad = risk.risk_measures(-scores, y, C, 0.1)
    assert (bad.nagelkerke_r2, bad.liability_r2) == (0, 0)
