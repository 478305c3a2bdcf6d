"""Ridge: every solver against plain least squares on the one-hot rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from renyi import Marginals, RenyiClassifier
from renyi.datasets import load, random_joint
from renyi.solvers import ridge
from renyi.solvers.ridge import (
    FLOOR_ROWS,
    GRID_SIZE,
    AlphaChoice,
    HeldOut,
    alpha_floor,
    alpha_grid,
    check_alpha,
    choose,
)
from renyi.solvers.ridge_dual import fit_dual
from support.joints import moments as table_moments
from support.joints import one_hot

SIZES = (3, 2, 4, 2)
CASES = [
    (K, intercept, weighted)
    for K in (2, 3)
    for intercept in (True, False)
    for weighted in (False, True)
]


def make_rows(n, K, weighted=False, seed=0, sizes=SIZES):
    """Rows in which every category and class occurs, with labels that depend on x."""
    rng = np.random.default_rng([seed, n, K])
    X = np.stack([rng.integers(0, m, n) for m in sizes], axis=1)
    for i, m in enumerate(sizes):
        X[:m, i] = np.arange(m)
    y = (X.sum(axis=1) + rng.integers(0, 2, n)) % K
    y[-K:] = np.arange(K)
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    return ridge.Rows(X.T.astype(np.uint8), np.array(sizes), y, K, weights, weights)


def weights_of(rows):
    return np.ones(rows.n) if rows.weights is None else rows.weights


def least_squares(rows, penalty, fit_intercept, weights=None):
    """Minimise sum w |r|^2 + penalty |z|^2 by one call of lstsq: (z, intercept)."""
    weights = weights_of(rows) if weights is None else weights
    W = one_hot(rows.codes.T, rows.sizes)
    Y = (rows.y[:, None] == np.arange(rows.n_classes)) - 1 / rows.n_classes
    if rows.n_classes == 2:
        Y = Y[:, 1:]
    last = np.full((len(W), 1), float(fit_intercept))
    root = np.sqrt(weights)[:, None]
    D = W.shape[1]
    A = np.vstack([root * np.hstack([W, last]), np.sqrt(penalty) * np.eye(D + 1)[:D]])
    solution = np.linalg.lstsq(A, np.vstack([root * Y, np.zeros((D, Y.shape[1]))]))[0]
    return solution[:D], solution[D] * fit_intercept


def equations_of(rows, fit_intercept):
    """The moments of the rows, by matrix products."""
    share = weights_of(rows) / weights_of(rows).sum()
    W = one_hot(rows.codes.T, rows.sizes)
    Y = (rows.y[:, None] == np.arange(rows.n_classes)).astype(float)
    Q, F = W.T @ (share[:, None] * W), W.T @ (share[:, None] * Y)
    return ridge.moments(Q, F, share @ Y, fit_intercept)


def primal(rows, alpha, fit_intercept, with_rows=True):
    n = weights_of(rows).sum()
    equations = equations_of(rows, fit_intercept)
    given = rows if with_rows else None
    return ridge.fit_primal(equations, n, len(rows.codes), alpha, given)


def dual(rows, alpha, fit_intercept):
    return fit_dual(rows, len(rows.codes), alpha, fit_intercept).fit


def left_out(rows, alpha, fit_intercept):
    """Leave-one-out by refitting without one copy, at a fixed total penalty.

    Returns the risk by the weights of the fit, the risk by sample_weight, and the error
    of the rule map by sample_weight.
    """
    weights, K, n = weights_of(rows), rows.n_classes, rows.n
    unit = np.ones(n) if rows.unit is None else rows.unit
    sample_weight = np.ones(n) if rows.sample_weight is None else rows.sample_weight
    W = one_hot(rows.codes.T, rows.sizes)
    sums = np.zeros(3)
    for i in range(n):
        rest = weights - unit[i] * np.eye(n)[i]
        z, b = least_squares(rows, weights.sum() * alpha, fit_intercept, rest)
        s = W[i] @ z + b
        t = np.array([0.5 - s[0], 0.5 + s[0]]) if K == 2 else s + 1 / K
        square = ((t - np.eye(K)[rows.y[i]]) ** 2).sum() / 2
        wrong = t.argmax() != rows.y[i]
        sums += [
            weights[i] * square,
            sample_weight[i] * square,
            sample_weight[i] * wrong,
        ]
    return sums / [weights.sum(), sample_weight.sum(), sample_weight.sum()]


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
@pytest.mark.parametrize("n", [9, 40])
def test_all_roads_lead_to_least_squares(K, intercept, weighted, n):
    rows = make_rows(n, K, weighted)
    alpha = float(alpha_grid(len(SIZES))[30])
    z, b = least_squares(rows, weights_of(rows).sum() * alpha, intercept)
    for road in (primal, dual):
        fit = road(rows, alpha, intercept)
        np.testing.assert_allclose(fit.z, z, atol=1e-10)
        np.testing.assert_allclose(fit.intercept, b, atol=1e-10)
        assert fit.choice.method == "given"
        assert fit.choice.alpha == alpha


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_path_equals_single_fits(K, intercept, weighted):
    rows = make_rows(12, K, weighted)
    for road in (primal, dual):
        fit = road(rows, "loo", intercept)
        alone = road(rows, fit.choice.alpha, intercept)
        np.testing.assert_allclose(fit.z, alone.z, atol=1e-8)
        np.testing.assert_allclose(fit.intercept, alone.intercept, atol=1e-8)
        assert alone.choice.risk == pytest.approx(fit.choice.risk, rel=1e-6)
        assert alone.choice.error == fit.choice.error


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_primal_and_dual_choose_alike(K, intercept, weighted):
    rows = make_rows(30, K, weighted)
    first, second = primal(rows, "loo", intercept), dual(rows, "loo", intercept)
    assert first.choice.alpha == second.choice.alpha
    assert first.choice.error == pytest.approx(second.choice.error, abs=1e-12)
    np.testing.assert_allclose(first.choice.risks, second.choice.risks, rtol=1e-6)
    np.testing.assert_allclose(first.z, second.z, atol=1e-8)


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
@pytest.mark.parametrize("n", [9, 25])
def test_leave_one_out_equals_refits(K, intercept, weighted, n):
    rows = make_rows(n, K, weighted)
    for road in (primal, dual):
        choice = road(rows, "loo", intercept).choice
        assert choice.method == "loo"
        for place in (10, 25, 33, 45):
            alpha = choice.alphas[place]
            _, risk, error = left_out(rows, alpha, intercept)
            assert choice.risks[place] == pytest.approx(risk, rel=1e-6)
            given = road(rows, alpha, intercept).choice
            assert given.risk == pytest.approx(risk, rel=1e-6)
            assert given.error == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_with_weighted_classes(K, intercept):
    """A copy weighs what its class weighs; the report counts it as one row."""
    plain = make_rows(16, K, weighted=True)
    factor = np.array([0.4, 2.5, 1.0])[plain.y]
    weights = plain.sample_weight * factor
    rows = ridge.Rows(
        plain.codes, plain.sizes, plain.y, K, weights, plain.sample_weight, factor
    )
    for road in (primal, dual):
        choice = road(rows, "loo", intercept).choice
        for place in (20, 35):
            alpha = choice.alphas[place]
            weighted, risk, error = left_out(rows, alpha, intercept)
            assert choice.risks[place] == pytest.approx(weighted, rel=1e-6)
            given = road(rows, alpha, intercept).choice
            assert given.risk == pytest.approx(risk, rel=1e-6)
            assert given.error == pytest.approx(error, abs=1e-12)


def test_leave_one_out_keeps_its_digits_at_a_tiny_alpha():
    """Two roads without a common formula for the leverage, near interpolation."""
    rows = make_rows(14, 3, sizes=(3,) * 9)
    first, second = primal(rows, "loo", True).choice, dual(rows, "loo", True).choice
    np.testing.assert_allclose(first.risks, second.risks, rtol=1e-5)


def test_choice_takes_the_smallest_risk():
    choice = primal(make_rows(40, 2), "loo", True).choice
    assert choice.risk == min(choice.risks)
    assert choice.alpha == choice.alphas[int(np.argmin(choice.risks))]
    assert len(choice.alphas) == len(choice.risks) == GRID_SIZE


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_generalised_cross_validation(K, intercept, weighted):
    """Risk/(1 - df/n)^2 with df the trace of the explicit hat matrix."""
    rows = make_rows(40, K, weighted)
    weights = weights_of(rows)
    n = weights.sum()
    choice = primal(rows, "auto", intercept, with_rows=False).choice
    assert choice.method == "gcv"
    assert choice.error is None
    W = one_hot(rows.codes.T, rows.sizes)
    X = np.hstack([W, np.ones((len(W), int(intercept)))])
    for place in (15, 30, 40):
        alpha = choice.alphas[place]
        P = n * alpha * np.diag([1.0] * W.shape[1] + [0.0] * int(intercept))
        hat = X @ np.linalg.solve(X.T @ (weights[:, None] * X) + P, X.T * weights)
        z, b = least_squares(rows, n * alpha, intercept)
        t = (W @ z + b) + 1 / K
        if K == 2:
            t = np.hstack([1 - t, t])
        squares = ((t - np.eye(K)[rows.y]) ** 2).sum(axis=1) / 2
        expected = (weights @ squares / n) / (1 - np.trace(hat) / n) ** 2
        assert choice.risks[place] == pytest.approx(expected, rel=1e-8)
        given = primal(rows, alpha, intercept, with_rows=False).choice
        assert given.risk == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_alpha_zero_has_the_least_norm(K, intercept, weighted):
    rows = make_rows(40, K, weighted)
    W = one_hot(rows.codes.T, rows.sizes)
    Y = (rows.y[:, None] == np.arange(K)) - 1 / K
    Y = Y[:, 1:] if K == 2 else Y
    share = weights_of(rows)[:, None] / weights_of(rows).sum()
    if intercept:  # centring first: the intercept is no part of the norm
        W, Y = W - (share * W).sum(axis=0), Y - (share * Y).sum(axis=0)
    expected = np.linalg.lstsq(np.sqrt(share) * W, np.sqrt(share) * Y, rcond=1e-10)[0]
    for road in (primal, dual):
        np.testing.assert_allclose(road(rows, 0.0, intercept).z, expected, atol=1e-9)


def test_alpha_zero_is_the_limit_of_small_alpha():
    rows = make_rows(8, 2, sizes=(3,) * 6)
    limit = dual(rows, 0.0, True)
    np.testing.assert_allclose(limit.z, dual(rows, 1e-9, True).z, atol=1e-7)
    W = one_hot(rows.codes.T, rows.sizes)
    assert abs(W @ limit.z[:, 0] + limit.intercept - (rows.y - 0.5)).max() < 1e-9


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.2])
def test_paper_literal_form(alpha):
    """Without intercept and with two classes: (Q + alpha I) z = dvec/2."""
    table = random_joint([2, 3, 2], random_state=3)
    Q, F = table_moments(table)
    priors = table.sum(axis=(0, 1, 2))
    equations = ridge.moments(Q, F, priors, False)
    fit = ridge.fit_primal(equations, 100, 3, alpha)
    dvec = F[:, 1] - F[:, 0]
    np.testing.assert_allclose(Q @ fit.z[:, 0] + alpha * fit.z[:, 0], dvec / 2)
    assert fit.intercept == 0


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_equals_scikit_learn(K, intercept):
    rows = make_rows(50, K, weighted=True)
    weights = rows.weights
    alpha = 0.03
    W = one_hot(rows.codes.T, rows.sizes)
    Y = (rows.y[:, None] == np.arange(K)) - 1 / K
    Y = Y[:, 1:] if K == 2 else Y
    peer = Ridge(alpha=weights.sum() * alpha, fit_intercept=intercept)
    peer.fit(W, Y, sample_weight=weights)
    fit = primal(rows, alpha, intercept)
    np.testing.assert_allclose(fit.z, np.atleast_2d(peer.coef_).T, atol=1e-10)
    np.testing.assert_allclose(fit.intercept, peer.intercept_, atol=1e-10)


@pytest.mark.parametrize("road", [primal, dual])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_weights_are_repetition(road, K, intercept):
    rows = make_rows(15, K, weighted=True)
    times = rows.weights.astype(int)
    again = ridge.Rows(
        np.repeat(rows.codes, times, axis=1), rows.sizes, np.repeat(rows.y, times), K
    )
    for alpha in ("loo", 0.01, 0.0):
        first, second = road(rows, alpha, intercept), road(again, alpha, intercept)
        np.testing.assert_allclose(first.z, second.z, atol=1e-9)
        assert first.choice.alpha == second.choice.alpha
        if second.choice.risk is None:
            assert first.choice.risk is None
        else:
            assert first.choice.risk == pytest.approx(second.choice.risk, rel=1e-8)
        assert first.choice.error == pytest.approx(second.choice.error, abs=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("K", [2, 3])
def test_dual_hands_over_scores_and_counts(K, fit_intercept):
    rows = make_rows(11, K, weighted=True)
    dual_fit = fit_dual(rows, len(SIZES), 0.01, fit_intercept)
    W = one_hot(rows.codes.T, rows.sizes)
    scores = W @ dual_fit.fit.z + dual_fit.fit.intercept
    np.testing.assert_allclose(dual_fit.scores, scores, atol=1e-12)
    Y = (rows.y[:, None] == np.arange(K)) * rows.weights[:, None]
    np.testing.assert_array_equal(dual_fit.target_counts, W.T @ Y)


@pytest.mark.parametrize("alpha", [0.0, 1e-15, 1e-13, 1e-10, 1e-6, 1.0, "loo"])
def test_scores_of_the_dual_road_are_those_of_its_points(alpha):
    """Also where alpha is so small that the points are made of rounding errors."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (60, 20)).astype(np.uint8)
    codes[:, 10:] = codes[:, :10]  # rows of the same features in other classes
    y = rng.integers(0, 2, 20)
    rows = ridge.Rows(codes, np.full(60, 2), y, 2)
    dual_fit = fit_dual(rows, 60, alpha, True)
    W = one_hot(codes.T, rows.sizes)
    scores = W @ dual_fit.fit.z + dual_fit.fit.intercept
    np.testing.assert_allclose(dual_fit.scores, scores, atol=1e-8)


def test_with_intercept_estimates_sum_to_one():
    rows = make_rows(30, 3)
    fit = primal(rows, 0.05, True)
    t = one_hot(rows.codes.T, rows.sizes) @ fit.z + fit.intercept + 1 / 3
    np.testing.assert_allclose(t.sum(axis=1), 1, atol=1e-12)


def test_rows_without_redundancy_have_no_estimate_at_alpha_zero():
    """A row with a category of its own has leverage 1: leaving it out is undefined."""
    rows = make_rows(30, 2)
    codes = rows.codes.copy()
    codes[2][codes[2] == 3] = 0
    codes[2, 5] = 3
    rows = ridge.Rows(codes, rows.sizes, rows.y, 2)
    assert primal(rows, 0.0, True).choice.risk is None
    assert primal(rows, 0.01, True).choice.risk > 0


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
@pytest.mark.parametrize("n", [14, 25])
def test_leave_one_out_at_alpha_zero(K, intercept, weighted, n):
    """From projectors; refits of least norm agree wherever they are defined."""
    rows = make_rows(n, K, weighted, sizes=(2, 2, 3))
    hot = one_hot(rows.codes.T, rows.sizes)
    X = np.hstack([hot, np.ones((n, int(intercept)))])
    alone = [
        weights_of(rows)[i] == 1
        and np.linalg.matrix_rank(np.delete(X, i, 0)) < np.linalg.matrix_rank(X)
        for i in range(n)
    ]
    for road in (primal, dual):
        choice = road(rows, 0.0, intercept).choice
        if any(alone):
            assert (choice.risk, choice.error) == (None, None)
        else:
            _, risk, error = left_out(rows, 0.0, intercept)
            assert choice.risk == pytest.approx(risk, rel=1e-6)
            assert choice.error == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_interpolated_rows_are_left_out_where_another_copy_stays(intercept):
    """More categories than rows: the fit is exact, and copies keep it so."""
    rows = make_rows(8, 2, sizes=(3,) * 6)
    assert dual(rows, 0.0, intercept).choice.risk is None
    twice = np.full(8, 2.0)
    weighted = ridge.Rows(rows.codes, rows.sizes, rows.y, 2, twice, twice)
    choice = dual(weighted, 0.0, intercept).choice
    assert choice.risk == pytest.approx(0, abs=1e-20)
    assert choice.error == 0


def test_weight_too_small_to_choose_alpha():
    equations = equations_of(make_rows(40, 2), True)
    with pytest.raises(ValueError, match="total weight, 1, is too small .* Scale"):
        ridge.fit_primal(equations, 1.0, 4, "auto")
    assert ridge.fit_primal(equations, 1.0, 4, 0.1).choice.risk is None


def test_auto_uses_rows_only_where_they_matter():
    few = make_rows(40, 2)
    assert primal(few, "auto", True).choice.method == "loo"
    many = make_rows(100 * sum(SIZES) + 1, 2)
    assert primal(many, "auto", True).choice.method == "gcv"
    assert primal(many, "loo", True).choice.method == "loo"


def test_gcv_of_a_given_alpha_is_that_of_the_path():
    """Two ways to the degrees of freedom: eigenvalues, and the trace of an inverse."""
    m = Marginals.from_data(*load("votes"))
    chosen = RenyiClassifier().fit_marginals(m)
    given = RenyiClassifier(alpha=chosen.alpha_).fit_marginals(m)
    assert chosen.certificate_.loo_risk == pytest.approx(
        given.certificate_.loo_risk, rel=1e-10
    )
    assert given.certificate_.loo_risk > given.certificate_.gamma


def test_loo_and_gcv_agree_when_rows_are_many():
    rows = make_rows(1200, 2)
    by_rows = primal(rows, "loo", True).choice
    without = primal(rows, "auto", True, with_rows=False).choice
    assert without.risk == pytest.approx(by_rows.risk, rel=2e-3)


def test_loo_without_rows_is_an_error():
    with pytest.raises(ValueError, match="alpha='loo' needs the rows"):
        primal(make_rows(20, 2), "loo", True, with_rows=False)


def test_impossible_marginals_are_refused():
    """Three binary features that all differ from each other: an indefinite Q."""
    differ = np.array([[0.0, 0.5], [0.5, 0.0]])
    Q = np.kron(1 - np.eye(3), differ) + np.eye(6) / 2
    equations = ridge.moments(Q, np.full((6, 2), 0.25), np.array([0.5, 0.5]), True)
    for alpha in (0.0, 1e-3, "auto"):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            ridge.fit_primal(equations, 100, 3, alpha)


# ---- the choice of alpha


def test_choice_takes_the_largest_alpha_among_equals():
    """Equal but for rounding: the choice must be the same on every machine."""
    risks = np.array([3.0, 1.0, 1.0 + 1e-13, 2.0])
    held_out = HeldOut(risks, risks)
    choice = choose("gcv", np.array([0.1, 0.2, 0.3, 0.4]), held_out, 10.0, 2)
    assert choice.alpha == 0.3
    assert choice.risk == pytest.approx(1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "guess"},
        {"alpha": -1.0},
        {"alpha": float("inf")},
        {"alpha": 10**400},
        {"risk": -0.1},
        {"risk": float("nan")},
        {"risk": 10**400},
        {"error": 1.5},
        {"error": -0.5},
    ],
)
def test_choices_that_no_fit_makes_are_refused(change):
    good = {"method": "loo", "alpha": 0.1, "risk": 0.2, "error": 0.3}
    assert AlphaChoice(**good).risk == 0.2
    with pytest.raises(ValueError, match="alpha|estimated"):
        AlphaChoice(**{**good, **change})


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, True, "big"])
def test_bad_alpha_is_named(alpha):
    with pytest.raises(ValueError, match=str(alpha)):
        check_alpha(alpha)


def separable_table(n):
    """Rows whose class one column tells, beside a coarser copy of it and noise."""
    rng = np.random.default_rng(n)
    noise = {f"noise{j}": rng.choice(list("abcd"), n) for j in range(18)}
    key = rng.choice(list("uvxy"), n)
    X = pd.DataFrame({**noise, "key": key, "side": np.where(key < "x", "l", "r")})
    return X, np.where(key < "x", "no", "yes")


@pytest.mark.parametrize("road", ["rows", "marginals", "loo"])
def test_alpha_does_not_fall_to_the_rounding_errors_of_a_separable_table(road):
    n = 2_400
    X, y = separable_table(n)
    clf = RenyiClassifier(alpha="loo" if road == "loo" else "auto")
    if road == "marginals":
        clf.fit_marginals(Marginals.from_data(X, y))
    else:
        clf.fit(X, y)
    assert clf.alpha_ >= FLOOR_ROWS / n
    assert not (clf.predict(X) != y).any()
    # The estimate for new rows is one, not rounding: it agrees with the risk seen.
    assert clf.alpha_choice_.risk == pytest.approx(clf.certificate_.gamma, rel=0.2)
    card = clf.scorecard_.frame()
    side = card[card.feature == "side"].set_index("category")["yes"]
    assert side["l"] < 0 < side["r"]


def test_no_floor_with_more_categories_than_rows():
    assert alpha_floor(100, 99) == FLOOR_ROWS / 100
    assert alpha_floor(100, 100) == 0.0


def test_choice_keeps_to_the_floor():
    alphas, risks = np.array([0.1, 0.2, 0.3]), np.array([1.0, 3.0, 2.0])
    choice = choose("loo", alphas, HeldOut(risks, risks), FLOOR_ROWS / 0.15, 0)
    assert choice.alpha == 0.3
    assert choice.risks == (1.0, 3.0, 2.0)


# ---- decompositions


@pytest.mark.parametrize("sizes", [(2,), (2, 2, 2), (1, 3, 2), (5, 1, 1, 4)])
def test_all_of_a_covariance_is_in_the_contrasts(sizes):
    rng = np.random.default_rng(sum(sizes))
    codes = np.stack([rng.integers(0, m, 50) for m in sizes], axis=1)
    A = np.cov(one_hot(codes, sizes).T, aweights=rng.random(50), ddof=0)
    values, vectors = ridge.contrast_eigen(A, np.array(sizes))
    assert vectors.shape == (sum(sizes), sum(sizes) - len(sizes))
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-14)
    np.testing.assert_allclose(vectors * values @ vectors.T, A, atol=1e-14)
    idle = np.repeat(np.eye(len(sizes)), sizes, axis=0)  # ones of each feature
    np.testing.assert_allclose(idle.T @ vectors, 0, atol=1e-14)
    plain = np.linalg.eigvalsh(A)[len(sizes) :]
    np.testing.assert_allclose(values, plain, atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_tridiagonal_systems_are_those_of_the_matrix(size):
    rng = np.random.default_rng(size)
    half, R = rng.normal(size=(size, size)), rng.normal(size=(size, 2))
    A = half @ half.T
    reduced = ridge.Tridiagonal.of(A)
    u = reduced.solve(reduced.rotate(R, "T"), 0.1)
    Z = reduced.rotate(u, "N")
    np.testing.assert_allclose(A @ Z + 0.1 * Z, R, atol=1e-11)
    np.testing.assert_allclose(reduced @ u, reduced.rotate(A @ Z, "T"), atol=1e-11)
    values = np.linalg.eigvalsh(A)
    np.testing.assert_allclose(reduced.eigenvalues(), values, atol=1e-11)
