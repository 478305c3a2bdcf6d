"""Ridge from counts and a panel, against dense algebra and known populations."""

from __future__ import annotations

import numpy as np
import pytest

from renyi.solvers.summary_ridge import (
    ALPHAS,
    Summary,
    certify_summary,
    fit_summary,
)


def panel_of(n=40, D=15, seed=0):
    """A panel's indicators, those of its kernel, and a covariance with the class."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) / 3
    W -= W.mean(axis=0)
    f = 0.05 * rng.normal(size=D)
    return W, f


def points(W, f, alpha):
    n, D = W.shape
    return np.linalg.solve(W.T @ W / n + alpha * np.eye(D), f)


def test_the_points_solve_the_equation():
    W, f = panel_of()
    study = Summary(0.5, 300, 300, float(f @ f))
    fit = fit_summary(W @ W.T, W @ f, study, alpha=0.3)
    z = (f - W.T @ fit.beta) / fit.alpha
    np.testing.assert_allclose(z, points(W, f, 0.3), rtol=1e-9)


def test_the_risk_is_that_of_the_other_half_of_the_panel():
    W, f = panel_of()
    study, alpha = Summary(0.4, 200, 300, float(f @ f)), 0.3
    found = fit_summary(W @ W.T, W @ f, study, alpha=alpha).risk
    order = np.random.default_rng(0).permutation(40)
    risks = []
    for a, b in ((order[:20], order[20:]), (order[20:], order[:20])):
        A, B = (W[rows] - W[a].mean(axis=0) for rows in (a, b))
        z = points(A, f, alpha)
        inverse = np.linalg.inv(A.T @ A / 20 + alpha * np.eye(15))
        noise = (0.4 * 0.6) ** 2 * (1 / 200 + 1 / 300)
        gain = f @ z - noise * np.trace(B.T @ B / 20 @ inverse)
        risks.append(((B @ z) ** 2).mean() - 2 * gain + 0.24)
    assert found == pytest.approx(np.mean(risks), rel=1e-9)


def simulated(rng, n, cases, d, effect):
    """Indicators of binary columns in blocks that go together, and their classes."""
    y = np.repeat([0, 1], (n - cases, cases))
    block = rng.random((n, d // 5)) < 0.5 + effect * (y[:, None] - 0.5)
    W = np.repeat(block, 5, axis=1) ^ (rng.random((n, d)) < 0.1)
    return np.hstack([W, ~W]).astype(float), y


def test_the_risk_estimate_is_that_of_new_people():
    rng = np.random.default_rng(1)
    d = 100
    estimates, true = [], []
    for _ in range(20):
        X, y = simulated(rng, 400, 200, d, 0.1)
        panel, _ = simulated(rng, 60, 30, d, 0.1)
        new, labels = simulated(rng, 1000, 500, d, 0.1)
        p1, p0 = X[y == 1].mean(axis=0), X[y == 0].mean(axis=0)
        f, centre = (p1 - p0) / 4, panel.mean(axis=0)
        W = panel - centre
        study = Summary(0.5, 200, 200, float(f @ f))
        fit = fit_summary(W @ W.T, W @ f, study)
        z = (f - W.T @ fit.beta) / fit.alpha
        s = (new - (p1 + p0) / 2) @ z
        estimates.append(fit.risk)
        true.append(((s - (labels - 0.5)) ** 2).mean())
    assert np.mean(true) < 0.245  # it has learned something
    assert np.mean(estimates) == pytest.approx(np.mean(true), abs=0.01)


def test_what_the_panel_does_not_span_makes_no_scores_without_end():
    """Counts of which the panel knows nothing: a large penalty, and small points."""
    rng = np.random.default_rng(2)
    W = rng.normal(size=(30, 500))
    W[:, 250:] = 0  # columns that do not vary in the panel
    W -= W.mean(axis=0)
    f = np.zeros(500)
    f[250:] = 0.1
    study = Summary(0.5, 100, 100, float(f @ f))
    fit = fit_summary(W @ W.T, W @ f, study)
    assert np.isfinite(fit.risk)
    unit = np.trace(W @ W.T) / 30
    assert ALPHAS[0] * unit <= fit.alpha <= ALPHAS[-1] * unit * (1 + 1e-9)


def test_the_certificate_holds_at_its_confidence():
    """Of two dependent columns whose population is known, and of other points too."""
    rng = np.random.default_rng(3)
    z = np.array([0.1, 0.2, -0.1, 0.15, -0.05])  # intercept, two indicators each
    square = float(z @ z)

    def people(n, y):
        a = rng.random(n) < 0.4 + 0.2 * y
        b = np.where(rng.random(n) < 0.7, a, rng.random(n) < 0.5)
        return np.column_stack([np.ones(n), a, ~a, b, ~b]).astype(float)

    big = [people(400_000, k) @ z for k in (0, 1)]
    gamma = ((big[0] + 0.5) ** 2).mean() / 2 + ((big[1] - 0.5) ** 2).mean() / 2
    held = 0
    for _ in range(200):
        panel = np.concatenate([people(50, 0), people(50, 1)]) @ z
        means = (people(80, 1) @ z).mean(), (people(80, 0) @ z).mean()
        found = certify_summary(panel, means, square, 2, Summary(0.5, 80, 80, 0.0))
        held += found.gamma >= gamma
        assert found.estimate == pytest.approx(gamma, abs=0.1)
    assert held >= 190
