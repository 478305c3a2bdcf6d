"""Logistic regression on codes: scikit-learn's points, and rows really left out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from renyi.counting.onehot import dense, lookup_sum, offsets
from renyi.solvers import logistic
from renyi.solvers.logistic import fit_logistic
from renyi.solvers.ridge import Rows


def table(n, d, m, K, seed=0):
    """Codes and classes with log-odds that add up over the columns."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, m, (d, n)).astype(np.uint8)
    g = sum(rng.normal(size=(m, K))[codes[j]] for j in range(d))
    y = (g + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return codes, np.full(d, m), y


def peer(rows, C, intercept=True, weights=None):
    """Scikit-learn's points and intercept; those of many classes add up to 0."""
    model = LogisticRegression(
        C=C, tol=1e-11, max_iter=10_000, fit_intercept=intercept, solver="newton-cg"
    )
    model.fit(dense(rows.codes, rows.sizes), rows.y, weights)
    z = model.coef_.T
    b = np.broadcast_to(model.intercept_, z.shape[1])
    if rows.n_classes == 2:
        return z, b
    return z - z.mean(axis=1, keepdims=True), b - b.mean()


SHAPES = [
    (300, 5, 3, 2),
    (300, 5, 3, 3),
    (200, 4, 5, 6),
    (40, 8, 7, 2),  # fewer rows than categories
    (60, 8, 9, 4),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
def test_points_are_those_of_the_peer(shape, intercept):
    codes, sizes, y = table(*shape)
    rows = Rows(codes, sizes, y, shape[3])
    for penalty in (0.3, 5.0):
        fit = fit_logistic(rows, penalty / rows.n, intercept).fit
        z, b = peer(rows, 1 / penalty, intercept)
        np.testing.assert_allclose(fit.z, z, atol=1e-6)
        np.testing.assert_allclose(fit.intercept, b, atol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("limit", ["_GRAM", "_DENSE"])
def test_sparse_rows_have_the_same_points(K, limit, monkeypatch):
    codes, sizes, y = table(300, 5, 3, K)
    rows = Rows(codes, sizes, y, K)
    before = fit_logistic(rows, "auto", True)
    monkeypatch.setattr(logistic, limit, 10)
    after = fit_logistic(rows, "auto", True)
    np.testing.assert_allclose(after.fit.z, before.fit.z, atol=1e-7)
    np.testing.assert_allclose(after.left_out.scores, before.left_out.scores, atol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("columns", [4, 12])
def test_weights_are_repetition(K, columns):
    """So are the chosen penalty and the left-out scores."""
    codes, sizes, y = table(30, columns, 4, K)
    times = np.random.default_rng(1).integers(1, 5, 30)
    weighted = fit_logistic(Rows(codes, sizes, y, K, 1.0 * times), "auto", True)
    repeated = Rows(np.repeat(codes, times, axis=1), sizes, np.repeat(y, times), K)
    other = fit_logistic(repeated, "auto", True)
    np.testing.assert_allclose(weighted.fit.z, other.fit.z, atol=1e-8)
    assert weighted.fit.choice.alpha == pytest.approx(other.fit.choice.alpha)
    assert weighted.fit.choice.risk == pytest.approx(other.fit.choice.risk)
    scores = np.repeat(weighted.left_out.scores, times, axis=0)
    np.testing.assert_allclose(scores, other.left_out.scores, atol=1e-7)


@pytest.mark.parametrize("K", [2, 3])
def test_weights_of_classes_are_those_of_the_peer(K):
    codes, sizes, y = table(200, 4, 3, K)
    factor = np.array([0.5, 2.0, 1.5])[y]
    rows = Rows(codes, sizes, y, K, factor, np.ones(200), factor)
    fit = fit_logistic(rows, 2 / factor.sum(), True).fit
    z, b = peer(rows, 1 / 2, weights=factor)
    np.testing.assert_allclose(fit.z, z, atol=1e-6)
    np.testing.assert_allclose(fit.intercept, b, atol=1e-6)


@pytest.mark.parametrize(("n", "K"), [(80, 2), (90, 3)])
def test_left_out_scores_are_nearly_those_of_models_without_the_row(n, K):
    codes, sizes, y = table(n, 4, 3, K)
    rows = Rows(codes, sizes, y, K)
    fit = fit_logistic(rows, 1 / n, True)
    starts = offsets(sizes)[:-1]
    scores = []
    for i in range(n):
        rest = np.arange(n) != i
        z, b = peer(rows.part(rest), 1.0)
        scores.append(lookup_sum(codes[:, [i]], z, starts)[0] + b)
    whole = lookup_sum(codes, fit.fit.z, starts) + fit.fit.intercept
    moved = np.abs(np.array(scores) - whole)
    off = np.abs(np.array(scores) - fit.left_out.scores)
    assert off.mean() < 0.05 * moved.mean()
    per_class = np.array(scores)
    if K == 2:
        per_class = np.hstack([np.zeros((n, 1)), per_class])
    losses = np.log(np.exp(per_class).sum(axis=1)) - per_class[np.arange(n), y]
    assert fit.fit.choice.risk == pytest.approx(losses.mean(), rel=0.02)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("columns", [3, 10])
def test_left_out_scores_are_one_step_of_newton_away(K, columns):
    """By the Hessian of the other rows, in coefficients of all classes."""
    n = 40
    codes, sizes, y = table(n, columns, 4, K)
    weights = np.random.default_rng(2).choice([0.5, 1.0, 3.0], n)
    unit = np.minimum(weights, 1)
    rows = Rows(codes, sizes, y, K, weights, weights, unit)
    fit = fit_logistic(rows, 1 / weights.sum(), True)
    X = np.hstack([dense(codes, sizes), np.ones((n, 1))])
    z = np.vstack([fit.fit.z, fit.fit.intercept])
    B = np.hstack([-z, z]) / 2 if K == 2 else z
    p = np.exp(X @ B)
    p /= p.sum(axis=1, keepdims=True)
    penalty = np.append(np.full(X.shape[1] - 1, 2.0 if K == 2 else 1.0), 0)
    slopes = p - np.eye(K)[y]
    curves = [
        np.kron(np.outer(x, x), np.diag(q) - np.outer(q, q))
        for x, q in zip(X, p, strict=True)
    ]
    whole = np.einsum("r,rij->ij", weights, curves) + np.kron(
        np.diag(penalty), np.eye(K)
    )
    for i in range(n):
        without = np.linalg.pinv(whole - unit[i] * curves[i], hermitian=True)
        step = without @ (unit[i] * np.kron(X[i], slopes[i]))
        score = X[i] @ (B + step.reshape(B.shape))
        score = score[1:] - score[:1] if K == 2 else score - score.mean()
        np.testing.assert_allclose(fit.left_out.scores[i], score, atol=1e-7)


@pytest.mark.parametrize("K", [2, 4])
def test_the_penalty_has_the_least_left_out_log_loss(K):
    codes, sizes, y = table(400, 5, 3, K)
    rows = Rows(codes, sizes, y, K)
    choice = fit_logistic(rows, "auto", True).fit.choice
    assert choice.method == "loo"
    risks = []
    for penalty in logistic.PENALTIES:
        each = fit_logistic(rows, penalty / 400, True)
        risks.append(each.fit.choice.risk)
    assert choice.risk == pytest.approx(min(risks), rel=1e-6)
    best = logistic.PENALTIES[int(np.argmin(risks))]
    assert choice.alpha == pytest.approx(best / 400)
    assert choice.risks == pytest.approx(risks[: len(choice.risks)], rel=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_folds_leave_out_rows_where_the_hessian_is_too_large(K, monkeypatch):
    codes, sizes, y = table(300, 5, 3, K)
    rows = Rows(codes, sizes, y, K)
    one_by_one = fit_logistic(rows, "auto", True)
    monkeypatch.setattr(logistic, "_LARGEST", 5)
    fit = fit_logistic(rows, "auto", True)
    assert fit.by_folds and not one_by_one.by_folds
    assert fit.fit.choice.method == "folds"
    assert fit.fit.choice.risk == pytest.approx(one_by_one.fit.choice.risk, rel=0.05)
    fold = np.random.default_rng(0).permutation(300) % logistic.FOLDS
    own = fold == 3
    share = (~own).mean()
    z, b = peer(rows.part(~own), 1 / (share * fit.fit.choice.alpha * 300))
    scores = lookup_sum(codes[:, own], z, offsets(sizes)[:-1]) + b
    np.testing.assert_allclose(fit.left_out.scores[own], scores, atol=1e-6)
    monkeypatch.setattr(logistic, "SEARCHED", 150)
    searched = fit_logistic(rows, "auto", True)
    assert len(searched.fit.choice.risks) == 1
    assert 0.1 < searched.fit.choice.alpha / fit.fit.choice.alpha < 12
    assert fit_logistic(rows, "loo", True).fit.choice.method == "loo"


def test_points_that_separate_the_classes_stay_finite():
    codes = np.repeat(np.array([[0, 1], [1, 0]], np.uint8), 10, axis=1)
    y = np.repeat([0, 1], 10)
    fit = fit_logistic(Rows(codes, np.array([2, 2]), y, 2), "auto", True)
    assert np.isfinite(fit.fit.z).all()
    assert fit.left_out.complete
    assert fit.fit.choice.error == 0
    assert ((fit.left_out.scores[:, 0] > 0) == y).all()
