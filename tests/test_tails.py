"""Class-conditional and held-out bounds against linear programs and simulations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.stats import binom

from joints import marginal_constraints, moments, one_hot_outcomes, outcomes, worst_case
from renyi import Marginals, RenyiClassifier, certify, rules, tails
from renyi.datasets import random_joint

SLACK = 1e-7  # of the linear programs
CASES = [(K, seed) for K in (2, 3, 4) for seed in range(4)]
SIZES = ((2, 3, 2), (3, 3, 2), (2, 2, 2, 2), (4, 2))


def make_table(K, seed):
    kind = ("logistic", "dirichlet", "additive", "logistic")[seed]
    table = random_joint(SIZES[seed], K, kind=kind, random_state=[K, seed])
    if seed == 1:  # empty and nearly empty cells
        table[0, 0] = 0
        table[1, 1] *= 1e-9
    return table / table.sum()


def inner_of(table):
    """P(X_i, X_j, Y) by brute force over the outcomes."""
    W = one_hot_outcomes(table.shape[:-1])
    P = table.reshape(len(W), -1)
    return np.stack([W.T @ (column[:, None] * W) for column in P.T])


def make_points(table, model, seed=0):
    """Points (D, K) and intercepts: least squares, or anything at all."""
    *sizes, K = table.shape
    Q, F = moments(table)
    rng = np.random.default_rng(seed)
    if model == "random":
        return rng.normal(size=F.shape), rng.normal(size=K)
    P = np.linalg.pinv(Q, rcond=1e-10) @ F - 1 / (K * len(sizes))
    factor = {"huge": 1e6, "wrong": -1.0, "zero": 0.0}.get(model, 1.0)
    return factor * P.round(1 if model == "rounded" else 12), np.zeros(K)


MODELS = ("minimiser", "rounded", "random", "huge", "wrong", "zero")


def estimates(table, P, b):
    return 1 / len(b) + one_hot_outcomes(table.shape[:-1]) @ P + b


def bound(table, P, b):
    sizes = np.array(table.shape[:-1])
    return tails.cantelli(tails.class_moments(P, b, inner_of(table), sizes))


def scaled_bound(table, P, b):
    """The closed form of map, by brute force over the table."""
    t = estimates(table, P, b)
    K = len(b)
    off, p = t - t.mean(axis=1, keepdims=True), table.reshape(-1, K)
    spread = (p.sum(axis=1) * (off**2).sum(axis=1)).sum()
    gain = max(0, (p * off).sum()) ** 2 / spread if spread > 1e-20 else 0
    return min(1, 2 * (1 - 1 / K - gain))


def losing_ties(t):
    """Loss of the map rule at (x, y), where equal estimates are lost."""
    others = np.where(np.eye(t.shape[1], dtype=bool), -np.inf, t[:, None, :])
    return (others.max(axis=2) >= t - 1e-12 * np.abs(t).max()).astype(float)


def worst_given_classes(table, loss):
    """Worst expected loss over the distributions with the same P(X_i, X_j, Y)."""
    codes = outcomes(table.shape)
    rows = []
    for i, j in combinations(range(table.ndim - 1), 2):
        cells = codes[:, [i, j, -1]]
        _, cell = np.unique(cells, axis=0, return_inverse=True)
        rows.append(sp.csr_array((np.ones(len(codes)), (cell, np.arange(len(codes))))))
    A = sp.vstack(rows, format="csr")
    options = {
        "presolve": False,
        "primal_feasibility_tolerance": 1e-9,
        "dual_feasibility_tolerance": 1e-9,
    }
    result = linprog(-loss.ravel(), A_eq=A, b_eq=A @ table.ravel(), options=options)
    assert result.status == 0, result.message
    return -result.fun


# ---- Cantelli


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_no_distribution_breaks_the_class_conditional_bound(K, seed):
    table = make_table(K, seed)
    for model in MODELS:
        P, b = make_points(table, model, seed)
        worst = worst_given_classes(table, losing_ties(estimates(table, P, b)))
        assert worst <= bound(table, P, b) + SLACK, model


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_never_worse_than_the_closed_form(K, seed):
    table = make_table(K, seed)
    for model in MODELS:
        P, b = make_points(table, model, seed)
        found = bound(table, P, b)
        assert found <= scaled_bound(table, P, b) + 1e-9, model


@pytest.mark.parametrize("seed", range(4))
def test_two_classes_give_cantelli(seed):
    table = make_table(2, seed)
    P, b = make_points(table, "minimiser")
    s = estimates(table, P, b)[:, 1] - 0.5
    expected = 0
    for p, sign in zip(table.reshape(-1, 2).T, (-1, 1), strict=True):
        mean = sign * (p @ s) / p.sum()
        variance = p @ (s - p @ s / p.sum()) ** 2 / p.sum()
        share = variance / (variance + mean**2) if mean > 0 else 1
        expected += p.sum() * share
    assert bound(table, P, b) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("K", "seed"), [(K, seed) for K in (3, 4) for seed in (0, 2)])
def test_more_classes_are_never_worse_than_a_union_of_cantelli(K, seed):
    table = make_table(K, seed)
    P, b = make_points(table, "minimiser")
    t, total = estimates(table, P, b), 0.0
    for y, p in enumerate(table.reshape(-1, K).T):
        u = t[:, [y]] - np.delete(t, y, axis=1)
        mean = p @ u / p.sum()
        variance = p @ (u - mean) ** 2 / p.sum()
        missed = np.where(mean > 0, variance / (variance + mean**2), 1).sum()
        total += p.sum() * min(1, missed)
    assert bound(table, P, b) <= total + 1e-9


def test_one_class_is_never_worse_than_the_closed_form_of_it():
    """Moments of all sorts; the closed form of a class is the module's R and a = 1."""
    rng = np.random.default_rng(0)
    informative = 0
    for _ in range(300):
        K = int(rng.integers(3, 7))
        root = rng.uniform(0.05, 0.5) * rng.normal(size=(K, K))
        mean, cov = np.append(1, rng.uniform(0, 0.4, K - 1)), root @ root.T
        off, centre = mean - mean.mean(), np.eye(K) - 1 / K
        closed = off[0] ** 2 / (off @ off + np.trace(centre @ cov @ centre))
        contrast = np.eye(K)[0] - np.eye(K)[1:]
        found = tails._missed(contrast @ mean, contrast @ cov @ contrast.T)
        assert found <= min(1, 2 * (1 - 1 / K - closed)) + 1e-12
        informative += found < 1
    assert informative > 50


def test_correlated_competitors_beat_the_union():
    """Two other classes that always score alike are one competitor, not two."""
    mean, covariance = np.ones(2), 0.1 * (np.ones((2, 2)) + 1e-3 * np.eye(2))
    assert tails._missed(mean, covariance) < 0.7 * (0.2 / 1.1)
    assert tails._missed(mean, covariance) >= 0.1 / 1.1  # either of the two alone


@pytest.mark.parametrize("seed", range(5))
def test_lemma_holds_for_the_worst_points(seed):
    """The bound exceeds the share of any cloud of points that is not all positive."""
    rng = np.random.default_rng(seed)
    u = 1 + rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) * 0.3
    covariance = np.cov(u.T, bias=True)
    share = (u <= 0).any(axis=1).mean()
    assert share <= tails._missed(u.mean(axis=0), covariance)


def test_bound_is_attained():
    """A score of two values, one of them 0, is the worst case of Cantelli."""
    table = np.array([[0.1, 0.1], [0.4, 0.0], [0.0, 0.4]])
    z = np.array([0.0, -0.7, 0.7])
    P = np.stack([-z, z], axis=1)
    assert losing_ties(P + 0.5).tolist() == [[1, 1], [0, 1], [1, 0]]
    assert bound(table, P, np.zeros(2)) == pytest.approx(0.2, abs=1e-9)


def test_equal_scores_promise_nothing():
    """Rounding must not make certainty of scores that are all the same."""
    table = random_joint((3, 3), 2, random_state=0)
    third = np.full((6, 2), 1 / 3)
    assert bound(table, third, np.array([-2 / 3, -2 / 3])) == 1
    tiny = 1e-18 * np.array([[-1.0, 1.0]] * 6)  # lost when 1/K is added
    assert bound(table, tiny, np.zeros(2)) == 1
    assert bound(table, np.full((6, 2), 1e200), np.zeros(2)) == 1


def test_perfect_scores_promise_everything():
    table = np.array([[0.5, 0.0], [0.0, 0.5]])
    P = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert bound(table, P, np.zeros(2)) < 1e-12


def test_class_that_does_not_occur_still_competes():
    """Marginals without one of the model's classes: `own` says which are there."""
    table = make_table(3, 0)
    P, b = make_points(table, "minimiser")
    inner, sizes = inner_of(table), np.array(table.shape[:-1])
    inner[1] = 0
    full = tails.cantelli(tails.class_moments(P, b, inner, sizes))
    some = tails.class_moments(P, b, inner[[0, 2]], sizes)
    assert tails.cantelli(some, own=[0, 2]) == pytest.approx(full, abs=1e-12)


def test_marginals_give_the_moments_of_the_rows():
    """Counts of `class_conditional=True`, as certify() will use them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (300, 4)), columns=list("abcd")).astype(str)
    y = (X["a"].astype(int) + rng.integers(0, 2, 300)).astype(str).rename("y")
    m = Marginals.from_data(X, y, class_conditional=True)
    card = RenyiClassifier(alpha=0.01).fit_marginals(m).scorecard_
    t = card.estimates(card.encoder.transform(X))
    found = tails.class_moments(
        card.z, card.intercept, m.class_counts, m.encoder.columns.sizes
    )
    for k, label in enumerate(m.classes):
        inside = t[(y == label).to_numpy()]
        assert found.priors[k] == pytest.approx(len(inside) / 300)
        assert found.means[k] + 1 / 4 == pytest.approx(inside.mean(axis=0))
        expected = np.cov(inside.T, bias=True)
        assert found.covariances[k] == pytest.approx(expected, abs=1e-12)
    assert tails.cantelli(found) <= certify(card, m).bounds["map"] + 1e-9
    errors = np.array(m.classes)[t.argmax(axis=1)] != y.to_numpy()
    assert errors.mean() <= tails.cantelli(found)


# ---- held-out rows: the range


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_range_covers_every_outcome(K, seed):
    table = make_table(K, seed)
    for model in MODELS:
        P, b = make_points(table, model, seed)
        t = estimates(table, P, b)
        values = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2) / 2
        found = tails.risk_range(P, b, np.array(table.shape[:-1]))
        assert values.max() <= found * (1 + 1e-12)
        if K == 2 and model != "random":  # exact where the scores are s and −s
            assert found == pytest.approx(values.max())


def test_range_of_two_classes_is_the_formula():
    z, b = np.array([-0.3, 0.2, 0.6, 0.1, -0.5]), 0.05
    h, minus = 0.2 + 0.6 + b, 0.3 + 0.5 - b
    P = np.stack([-z, z], axis=1)
    found = tails.risk_range(P, np.array([-b, b]), np.array([2, 3]))
    assert found == pytest.approx((0.5 + max(h, minus)) ** 2)


def test_categories_that_speak_for_one_class_have_a_smaller_range():
    K = d = 8
    P = np.tile(np.eye(K), (d, 1))
    found = tails.risk_range(P, np.zeros(K), np.full(d, K))
    assert found < (K - 1) * (d + 1 / K) ** 2 / 2  # class by class
    t = 1 / K + d * np.eye(K)[0]
    assert found >= ((t - np.eye(K)[1]) ** 2).sum() / 2


# ---- held-out rows: the bounds


def sample(table, n, rng):
    """Rows of outcome numbers and classes."""
    cell = rng.choice(table.size, n, p=table.ravel())
    return np.divmod(cell, table.shape[-1])


def gamma_of(table, t):
    K = table.shape[-1]
    squares = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2)
    return float((table.reshape(-1, K) * squares).sum() / 2)


def not_too_many(failures, simulations, confidence):
    """Whether so many failures are no evidence against the stated confidence."""
    return failures <= binom.ppf(0.9999, simulations, 1 - confidence)


def check_coverage(n, simulations, confidence):
    rng = np.random.default_rng(n)
    failures = dict.fromkeys(("gamma", "map", "sampled"), 0)
    for _ in range(simulations):
        K = int(rng.integers(2, 4))
        table = random_joint((2, 3, 2), K, kind="logistic", random_state=rng)
        P, b = make_points(table, "rounded")
        t, sizes = estimates(table, P, b), np.array((2, 3, 2))
        answers = rules.decide(t)
        error = 1 - table.reshape(-1, K)[np.arange(len(t)), answers].sum()
        x, y = sample(table, n, rng)
        found = tails.heldout_bounds(t[x], y, answers[x], P, b, sizes, confidence)
        gamma = gamma_of(table, t)
        failures["gamma"] += found.gamma < gamma
        failures["map"] += found.bounds["map"] < scaled_bound(table, P, b)
        failures["sampled"] += found.sampled_error < error
    # Bernstein's inequality is no identity: it fails far less often than it may.
    assert failures["gamma"] <= (1 - confidence) * simulations
    # Of the bounds of multiples of s, the least is held against their infimum.
    assert failures["map"] <= (1 - confidence) * simulations
    assert not_too_many(failures["sampled"], simulations, confidence)


@pytest.mark.parametrize("n", [50, 200, 2000])
def test_coverage(n):
    check_coverage(n, 200, 0.9)


@pytest.mark.long
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("n", [50, 200, 2000])
def test_coverage_in_full(n, confidence):
    check_coverage(n, 2000, confidence)


def check_bernstein(n, simulations, confidence):
    """Rare large values are the hardest: the sample often holds none of them."""
    rng = np.random.default_rng(n)
    for p in (0.3 / n, 1 / n, 3 / n, 0.5):
        rows = rng.random((simulations, n)) < p
        bounds = [tails.empirical_bernstein(2.5 * v, 2.5, confidence) for v in rows]
        assert np.mean(np.array(bounds) < 2.5 * p) <= 1 - confidence
        errors = rows.sum(axis=1)
        upper = [tails.clopper_pearson(int(k), n, confidence) for k in errors]
        failures = np.sum(np.array(upper) < p)
        assert not_too_many(failures, simulations, confidence)


@pytest.mark.parametrize("n", [50, 200, 2000])
def test_coverage_of_rare_events(n):
    check_bernstein(n, 200, 0.9)


@pytest.mark.long
@pytest.mark.parametrize("n", [50, 200, 2000])
def test_coverage_of_rare_events_in_full(n):
    check_bernstein(n, 2000, 0.9)


@pytest.mark.parametrize(("K", "seed"), [(2, 0), (2, 1), (3, 0), (3, 2)])
def test_heldout_rows_bound_the_worst_case_over_all_joints(K, seed):
    """Not only the sampled population: every one with its marginals."""
    table = make_table(K, seed)
    P, b = make_points(table, "rounded")
    t, sizes = estimates(table, P, b), np.array(table.shape[:-1])
    x, y = sample(table, 20_000, np.random.default_rng(seed))
    answers = rules.decide(t)[x]
    found = tails.heldout_bounds(t[x], y, answers, P, b, sizes, 0.99)
    A, target = marginal_constraints(table)
    for rule in rules.RULES:
        worst = worst_case(rules.rule_proba(t, rule), A, target)
        assert worst <= found.bounds[rule] + SLACK, rule
    assert found.bounds["sharp"] == found.bounds["renyi"] == min(1, 2 * found.gamma)


def test_bounds_close_in_on_the_truth():
    table = make_table(2, 0)
    P, b = make_points(table, "minimiser")
    t, sizes = estimates(table, P, b), np.array(table.shape[:-1])
    x, y = sample(table, 200_000, np.random.default_rng(0))
    found = tails.heldout_bounds(t[x], y, rules.decide(t)[x], P, b, sizes)
    assert found.gamma == pytest.approx(gamma_of(table, t), rel=0.05)
    exact = scaled_bound(table, P, b)
    assert found.bounds["map"] == pytest.approx(exact, rel=0.05)
    assert found.sampled_error - found.observed_error < 0.002
    assert (found.n, found.confidence) == (200_000, 0.95)


@pytest.mark.parametrize("factor", [1e-3, 30.0, 1e4])
def test_scale_of_points_does_not_matter_to_map(factor):
    """Points 0 to 100 of a card written by hand: 4γ promises nothing, map much."""
    table = make_table(3, 0)
    P, b = make_points(table, "minimiser")
    P, sizes = factor * P, np.array(table.shape[:-1])
    t = estimates(table, P, b)
    x, y = sample(table, 100_000, np.random.default_rng(0))
    found = tails.heldout_map(t[x], y, P, b, sizes, 0.95)
    exact = scaled_bound(table, P, b)
    assert exact <= found <= exact + 0.06
    assert 4 * tails.heldout_gamma(t[x], y, tails.risk_range(P, b, sizes), 0.95) > 1


def test_clopper_pearson_is_the_binomial_tail():
    for k, n in ((0, 10), (3, 50), (49, 50)):
        p = tails.clopper_pearson(k, n, 0.9)
        assert binom.cdf(k, n, p) == pytest.approx(0.1)
    assert tails.clopper_pearson(7, 7, 0.9) == 1


def test_bernstein_is_the_formula_and_at_most_the_range():
    v, log = np.array([0.0, 0.5, 1.0, 0.5]), np.log(2 / 0.05)
    assert tails.empirical_bernstein(v, 1.0, 0.95) == 1
    v = np.tile(v, 100)
    width = np.sqrt(2 * v.var(ddof=1) * log / 400) + 7 * 2 * log / (3 * 399)
    assert tails.empirical_bernstein(v, 2.0, 0.95) == pytest.approx(0.5 + width)


def test_points_too_large_to_square_promise_nothing():
    P = 1e200 * np.array([[-1.0, 1.0], [1.0, -1.0]])
    x = y = np.tile([0, 1], 50)
    found = tails.heldout_bounds(0.5 + P[x], y, y, P, np.zeros(2), np.array([2]))
    assert found.gamma == np.inf
    assert found.bounds["sharp"] == 1


# ---- bad input


@pytest.mark.parametrize("confidence", [0, 1, 95, float("nan")])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, not"):
        tails.empirical_bernstein([0.1, 0.2], 1.0, confidence)
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, not"):
        tails.clopper_pearson(0, 5, confidence)


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="at least two rows"):
        tails.empirical_bernstein([0.1], 1.0, 0.95)


def test_values_outside_the_range_are_refused():
    with pytest.raises(ValueError, match=r"between 0.1 and 1.2, and not in \[0, 1\]"):
        tails.empirical_bernstein([0.1, 1.2], 1.0, 0.95)


def test_impossible_number_of_errors():
    with pytest.raises(ValueError, match="6 errors in 5 rows are not possible"):
        tails.clopper_pearson(6, 5, 0.95)
