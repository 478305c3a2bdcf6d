"""Bounds from held-out rows against linear programs and simulations."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import rel_entr
from scipy.stats import binom

from renyi import Certificate, Marginals, RenyiClassifier, certify, rules
from renyi.certificates import heldout
from renyi.datasets import load, random_joint
from renyi.formatting import at_most, percent
from support.joints import (
    marginal_constraints,
    outcomes,
    worst_case,
    worst_distribution,
)
from support.repeats import in_full
from support.scorings import (
    CASES,
    MODELS,
    SLACK,
    estimates,
    make_points,
    make_table,
    scaled_bound,
)

# ---- held-out rows: the range


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_range_covers_every_outcome(K, seed):
    table = make_table(K, seed)
    for model in MODELS:
        P, b = make_points(table, model, seed)
        t = estimates(table, P, b)
        values = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2) / 2
        found = heldout.risk_range(P, b, np.array(table.shape[:-1]))
        assert values.max() <= found * (1 + 1e-12)
        if K == 2 and model != "random":  # exact where the scores are s and −s
            assert found == pytest.approx(values.max())


def test_range_of_two_classes_is_the_formula():
    z, b = np.array([-0.3, 0.2, 0.6, 0.1, -0.5]), 0.05
    h, minus = 0.2 + 0.6 + b, 0.3 + 0.5 - b
    P = np.stack([-z, z], axis=1)
    found = heldout.risk_range(P, np.array([-b, b]), np.array([2, 3]))
    assert found == pytest.approx((0.5 + max(h, minus)) ** 2)


def test_categories_that_speak_for_one_class_have_a_smaller_range():
    K = d = 8
    P = np.tile(np.eye(K), (d, 1))
    found = heldout.risk_range(P, np.zeros(K), np.full(d, K))
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


@pytest.mark.parametrize(
    ("n", "simulations", "confidence"),
    in_full(
        [(50, 200, 0.9), (2000, 200, 0.9)],
        product([50, 200, 2000], [2000], [0.8, 0.95]),
    ),
)
def test_coverage(n, simulations, confidence):
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
        found = heldout.heldout_bounds(t[x], y, answers[x], P, b, sizes, confidence)
        gamma = gamma_of(table, t)
        failures["gamma"] += found.gamma < gamma
        failures["map"] += found.bounds["map"] < scaled_bound(table, P, b)
        failures["sampled"] += found.sampled_error < error
    # Ville's inequality is no identity: it fails less often than it may.
    assert failures["gamma"] <= (1 - confidence) * simulations
    # Of the bounds of multiples of s, the least is held against their infimum.
    assert failures["map"] <= (1 - confidence) * simulations
    assert not_too_many(failures["sampled"], simulations, confidence)


@pytest.mark.parametrize(
    ("n", "simulations"),
    in_full(product([50, 200, 2000], [200]), product([50, 200, 2000], [2000])),
)
def test_coverage_of_rare_events(n, simulations, confidence=0.9):
    """Rare large values are the hardest: the sample often holds none of them."""
    rng = np.random.default_rng(n)
    for p in (0.3 / n, 1 / n, 3 / n, 0.5):
        rows = rng.random((simulations, n)) < p
        bounds = [heldout.betting_bound(2.5 * v, 2.5, confidence) for v in rows]
        assert np.mean(np.array(bounds) < 2.5 * p) <= 1 - confidence
        known = [heldout.kl_bound(v.mean(), n, 1.0, confidence) for v in rows]
        assert np.mean(np.array(known) < p) <= 1 - confidence
        errors = rows.sum(axis=1)
        upper = [heldout.clopper_pearson(int(k), n, confidence) for k in errors]
        failures = np.sum(np.array(upper) < p)
        assert not_too_many(failures, simulations, confidence)


@pytest.mark.parametrize(("K", "seed"), [(2, 0), (2, 1), (3, 0), (3, 2)])
def test_heldout_rows_bound_the_worst_case_over_all_joints(K, seed):
    """Not only the sampled population: every one with its marginals."""
    table = make_table(K, seed)
    P, b = make_points(table, "rounded")
    t, sizes = estimates(table, P, b), np.array(table.shape[:-1])
    x, y = sample(table, 20_000, np.random.default_rng(seed))
    answers = rules.decide(t)[x]
    found = heldout.heldout_bounds(t[x], y, answers, P, b, sizes, 0.99)
    A, target = marginal_constraints(table)
    for rule in rules.RULES:
        worst = worst_case(rules.rule_proba(t, rule), A, target)
        assert worst <= found.bounds[rule] + SLACK, rule
    assert found.bounds["sharp"] == found.bounds["renyi"] == min(1, 2 * found.gamma)


# ---- held-out rows: classes that the model does not know


def with_unknown(K, seed):
    """A table whose last class the model does not know, and what the model is."""
    table = make_table(K + 1, seed)
    known = table[..., :-1] / table[..., :-1].sum()
    P, b = make_points(known, "rounded")
    return table, P, b, estimates(known, P, b)


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_ranges_cover_unknown_classes(K, seed):
    for model in MODELS:
        table = make_table(K, seed)
        P, b = make_points(table, model, seed)
        t, sizes = estimates(table, P, b), np.array(table.shape[:-1])
        y = np.full(len(t), heldout.UNKNOWN)
        of_any_rule = heldout.squared_residuals(t, y)
        squares = ((t - 1 / K) ** 2).sum(axis=1) / 2
        assert of_any_rule == pytest.approx(squares + 0.5)
        most = heldout.unknown_range(P, b, sizes)
        assert of_any_rule.max() <= most * (1 + 1e-12)
        of_map = heldout.squared_residuals(t, y, 0.25)
        assert of_map.max() <= heldout.risk_range(P, b, sizes) * (1 + 1e-12)


@pytest.mark.parametrize(("K", "seed"), [(2, 0), (2, 1), (3, 0), (3, 2)])
def test_unknown_classes_are_errors_on_every_population_with_the_marginals(K, seed):
    """Every answer is wrong where the class is unknown, by a linear program."""
    table, P, b, t = with_unknown(K, seed)
    x, y = sample(table, 20_000, np.random.default_rng(seed))
    y = np.where(y == K, heldout.UNKNOWN, y)
    sizes = np.array(table.shape[:-1])
    found = heldout.heldout_bounds(t[x], y, rules.decide(t)[x], P, b, sizes, 0.99)
    A, target = marginal_constraints(table)
    for rule in rules.RULES:
        answers = np.pad(rules.rule_proba(t, rule), ((0, 0), (0, 1)))
        assert worst_case(answers, A, target) <= found.bounds[rule] + SLACK, rule
    right = table.reshape(-1, K + 1)[np.arange(len(t)), rules.decide(t)].sum()
    assert found.observed_error == pytest.approx(1 - right, abs=0.02)
    assert found.sampled_error >= 1 - right


def test_gamma_with_unknown_classes_depends_on_the_marginals_alone():
    """Two populations with the same pairs, and very different triples."""
    table, _, _, t = with_unknown(2, 2)
    A, target = marginal_constraints(table)
    answers = np.pad(rules.rule_proba(t, "map"), ((0, 0), (0, 1)))
    other = worst_distribution(answers, A, target).reshape(table.shape)
    assert np.abs(other - table).max() > 0.01
    labels = np.array([0, 1, heldout.UNKNOWN])
    rows, classes = np.divmod(np.arange(table.size), 3)
    for r in (0.25, 0.5):
        values = heldout.squared_residuals(t[rows], labels[classes], r)
        assert values @ table.ravel() == pytest.approx(values @ other.ravel())


@pytest.mark.parametrize("n", [50, 400])
def test_coverage_with_unknown_classes(n):
    rng = np.random.default_rng(n)
    failures = dict.fromkeys(("gamma", "sampled"), 0)
    for seed in range(200):
        table, P, b, t = with_unknown(2 + seed % 2, 0)
        K = t.shape[1]
        x, y = sample(table, n, rng)
        y = np.where(y == K, heldout.UNKNOWN, y)
        answers, sizes = rules.decide(t), np.array(table.shape[:-1])
        found = heldout.heldout_bounds(t[x], y, answers[x], P, b, sizes, 0.9)
        labels = np.append(np.arange(K), heldout.UNKNOWN)
        rows, classes = np.divmod(np.arange(table.size), K + 1)
        values = heldout.squared_residuals(t[rows], labels[classes])
        right = table.reshape(-1, K + 1)[np.arange(len(t)), answers].sum()
        failures["gamma"] += found.gamma < values @ table.ravel()
        failures["sampled"] += found.sampled_error < 1 - right
    assert failures["gamma"] <= 20
    assert not_too_many(failures["sampled"], 200, 0.9)


def test_certify_counts_rows_of_unknown_classes_as_errors(votes):
    X, y = votes
    clf = RenyiClassifier().fit(X[:300], y[:300])
    other = y[300:].astype(object)
    other.iloc[:20] = "independent"
    found = certify(clf, X[300:], other)
    wrong = int((clf.predict(X[300:]) != other.to_numpy()).sum())
    assert wrong > 20
    assert found.observed_error == wrong / 135
    assert found.sampled_error == heldout.clopper_pearson(wrong, 135, 0.95)
    assert found.warning_codes == ("unknown-class",)
    told = "20 of the 135 rows have a class that the model does not know"
    assert f"{told} ('independent'): they count as errors." in " ".join(
        str(found).split()
    )
    assert Certificate.from_dict(found.to_dict()) == found
    other.iloc[:] = "independent"
    with pytest.raises(ValueError, match="No row has a class that the model knows"):
        certify(clf, X[300:], other)


def test_bounds_close_in_on_the_truth():
    table = make_table(2, 0)
    P, b = make_points(table, "minimiser")
    t, sizes = estimates(table, P, b), np.array(table.shape[:-1])
    x, y = sample(table, 200_000, np.random.default_rng(0))
    found = heldout.heldout_bounds(t[x], y, rules.decide(t)[x], P, b, sizes)
    assert found.gamma == pytest.approx(gamma_of(table, t), rel=0.05)
    exact = scaled_bound(table, P, b)
    assert found.bounds["map"] == pytest.approx(exact, rel=0.05)
    assert found.sampled_error - found.observed_error < 0.002


@pytest.mark.parametrize("factor", [1e-3, 30.0, 1e4])
def test_scale_of_points_does_not_matter_to_map(factor):
    """Points 0 to 100 of a card written by hand: 4γ promises nothing, map much."""
    table = make_table(3, 0)
    P, b = make_points(table, "minimiser")
    P, sizes = factor * P, np.array(table.shape[:-1])
    t = estimates(table, P, b)
    x, y = sample(table, 100_000, np.random.default_rng(0))
    found = heldout.heldout_map(t[x], y, P, b, sizes, 0.95)
    exact = scaled_bound(table, P, b)
    assert exact <= found <= exact + 0.06
    assert 4 * heldout.heldout_gamma(t[x], y, heldout.risk_range(P, b, sizes), 0.95) > 1


def test_clopper_pearson_is_the_binomial_tail():
    for k, n in ((0, 10), (3, 50), (49, 50)):
        p = heldout.clopper_pearson(k, n, 0.9)
        assert binom.cdf(k, n, p) == pytest.approx(0.1)
    assert heldout.clopper_pearson(7, 7, 0.9) == 1


def capital(values, m, confidence, upper):
    """The largest capital of a gambler who bets on a mean below m, step by step."""
    n, log = len(values), np.log(1 / (1 - confidence))
    money = largest = 1.0
    seen, squares = 0.5, 0.25
    for i, v in enumerate(values / upper, start=1):
        bet = min(np.sqrt(2 * log * i / (n * squares)), 0.9 / (1 - m / upper))
        money *= 1 + bet * (m / upper - v)
        largest = max(largest, money)
        seen += v
        squares += (v - seen / (i + 1)) ** 2
    return largest


@pytest.mark.parametrize("shape", [(0.4, 3), (3, 0.4), (1, 1)])
def test_betting_bound_is_the_least_rejected_mean(shape):
    values = 2.5 * np.random.default_rng(0).beta(*shape, 80)
    bound = heldout.betting_bound(values, 2.5, 0.9)
    assert values.mean() < bound < 2.5
    grid = np.linspace(0.01, 2.49, 60)
    rejected = [capital(values, m, 0.9, 2.5) >= 10 for m in grid]
    assert rejected == (grid >= bound).tolist()
    assert capital(values, bound - 1e-6, 0.9, 2.5) < 10
    assert capital(values, bound, 0.9, 2.5) >= 10
    for below in (bound * 0.99, bound * 1.01, 2.4):
        found = heldout.betting_bound(values, 2.5, 0.9, below)
        assert found == (2.5 if below < bound else pytest.approx(bound))


def test_values_next_to_their_range_promise_the_range():
    near = np.full(6, np.nextafter(0.56, 0))
    assert heldout.betting_bound(near, 0.56, 0.975) == pytest.approx(0.56, abs=1e-12)


def test_bets_beat_the_bernstein_inequality():
    """On real residuals by far; the choice was made beforehand, and not by the rows."""
    X, y = load("credit")
    clf = RenyiClassifier().fit(X[:400], y[:400])
    card = clf.scorecard_
    t, upper = heldout.read_rows(card, X[400:], y[400:]), heldout.row_points(card)
    v, R = heldout.squared_residuals(t.t, t.y), heldout.risk_range(*upper)
    log, n = np.log(2 / 0.05), len(v)
    bernstein = v.mean() + np.sqrt(2 * v.var(ddof=1) * log / n) + 7 * R * log / 3 / n
    kl = heldout.kl_bound(v.mean(), n, R, 0.95)
    width = heldout.betting_bound(v, R, 0.95) - v.mean()
    assert width < 0.7 * (bernstein - v.mean())
    assert width < 0.7 * (kl - v.mean())


def test_chernoff_bound_inverts_the_divergence():
    for mean, n in ((0.0, 30), (0.1, 100), (0.9, 20)):
        q = heldout.kl_bound(2 * mean, n, 2.0, 0.95) / 2
        assert n * (rel_entr(mean, q) + rel_entr(1 - mean, 1 - q)) == pytest.approx(
            np.log(20), abs=1e-5
        )
    assert heldout.kl_bound(2.0, 10, 2.0, 0.95) == 2


def test_sorted_rows_are_shuffled():
    X, y = load("votes")
    clf = RenyiClassifier().fit(X[:200], y[:200])
    X, y = X[200:], y[200:]
    clear = np.argsort(clf.decision_function(X))
    mixed, ordered = certify(clf, X, y), certify(clf, X.iloc[clear], y.iloc[clear])
    assert ordered.gamma == pytest.approx(mixed.gamma, rel=0.1)


def test_points_too_large_to_square_promise_nothing():
    P = 1e200 * np.array([[-1.0, 1.0], [1.0, -1.0]])
    x = y = np.tile([0, 1], 50)
    found = heldout.heldout_bounds(0.5 + P[x], y, y, P, np.zeros(2), np.array([2]))
    assert found.gamma == np.inf
    assert found.bounds["sharp"] == 1


# ---- bad input


@pytest.mark.parametrize("confidence", [0, 1, 95, float("nan")])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, not"):
        heldout.betting_bound([0.1, 0.2], 1.0, confidence)
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, not"):
        heldout.clopper_pearson(0, 5, confidence)


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="at least two rows"):
        heldout.betting_bound([0.1], 1.0, 0.95)


def test_values_outside_the_range_are_refused():
    with pytest.raises(ValueError, match=r"between 0.1 and 1.2, outside \[0, 1\]"):
        heldout.betting_bound([0.1, 1.2], 1.0, 0.95)


def test_impossible_number_of_errors():
    with pytest.raises(ValueError, match="6 errors in 5 rows are not possible"):
        heldout.clopper_pearson(6, 5, 0.95)


# ---- through certify()


def rows_of(table, n, rng):
    """Rows drawn from a table, as a frame of labels and a series of classes."""
    x, y = sample(table, n, rng)
    codes = outcomes(table.shape[:-1])[x]
    names = [f"f{j}" for j in range(codes.shape[1])]
    X = pd.DataFrame(codes, columns=names).astype(str)
    return X, pd.Series(y, name="answer").map("class {}".format)


def all_outcomes(table):
    codes = outcomes(table.shape[:-1])
    return pd.DataFrame(codes, columns=[f"f{j}" for j in range(codes.shape[1])])


def population_estimates(clf, table):
    """Estimates of a model at every outcome, from its public scores."""
    scores = clf.decision_function(all_outcomes(table).astype(str))
    K = table.shape[-1]
    t = np.stack([-scores, scores], axis=1) if K == 2 else scores
    return t + 1 / K


def scaled_of(table, t):
    off, p = t - t.mean(axis=1, keepdims=True), table.reshape(-1, t.shape[1])
    spread = (p.sum(axis=1) * (off**2).sum(axis=1)).sum()
    return min(1, 2 * (1 - 1 / t.shape[1] - max(0, (p * off).sum()) ** 2 / spread))


def fitted(K, rng, rule="map"):
    """A table and a classifier trained on few rows of it, with every class in them."""
    while True:
        table = random_joint((2, 3, 2), K, kind="logistic", random_state=rng)
        X, y = rows_of(table, 60, rng)
        if y.nunique() == K:
            seed = {"random_state": int(K), "calibration": None}
            clf = RenyiClassifier(rule=rule, alpha=0.01, **seed)
            return table, clf.fit(X, y)


@pytest.mark.parametrize(
    ("n", "simulations", "confidence"),
    in_full(
        [(50, 100, 0.9), (2000, 100, 0.9)], product([50, 200, 2000], [2000], [0.95])
    ),
)
def test_coverage_of_certify(n, simulations, confidence):
    """Real classifiers, and the truth of the populations the rows come from."""
    rng = np.random.default_rng(n + 1)
    failures = dict.fromkeys(("gamma", "map", "sharp", "sampled"), 0)
    for k in range(simulations):
        if k % 10 == 0:
            K, rule = int(rng.integers(2, 4)), rules.RULES[k // 10 % 3]
            table, clf = fitted(K, rng, rule)
            t = population_estimates(clf, table)
            gamma, scaled = gamma_of(table, t), scaled_of(table, t)
            answers = clf.predict(all_outcomes(table).astype(str))
            wrong = answers[:, None] != clf.classes_
            error = float((wrong * table.reshape(-1, K)).sum())
        c = certify(clf, *rows_of(table, n, rng), confidence=confidence)
        failures["gamma"] += c.gamma < gamma
        failures["map"] += c.bounds["map"] < min(scaled, 4 * gamma)
        failures["sharp"] += c.bounds["sharp"] < min(1, 2 * gamma)
        failures["sampled"] += c.sampled_error < error
    for name in ("gamma", "map", "sharp"):
        assert failures[name] <= (1 - confidence) * simulations, name
    assert not_too_many(failures["sampled"], simulations, confidence)


@pytest.mark.parametrize("K", [2, 3])
def test_no_joint_breaks_the_certificate(K):
    """The linear program over all outcomes, for every rule."""
    rng = np.random.default_rng(K)
    table, clf = fitted(K, rng)
    c = certify(clf, *rows_of(table, 20_000, rng), confidence=0.99)
    A, target = marginal_constraints(table)
    t = population_estimates(clf, table)
    for rule in rules.RULES:
        worst = worst_case(rules.rule_proba(t, rule), A, target)
        assert worst <= c.bounds[rule] + SLACK, rule
        assert c.bounds[rule] < 1, rule


@pytest.mark.parametrize("rule", rules.RULES)
@pytest.mark.parametrize("K", [2, 3])
def test_certificate_is_that_of_the_rows(K, rule):
    """By hand from public scores and predictions; labels never seen are in them."""
    rng = np.random.default_rng(K)
    table, clf = fitted(K, rng, rule)
    X, y = rows_of(table, 300, rng)
    X.loc[:5, "f1"] = "never seen"
    c = certify(clf, X, y, confidence=0.8)
    scores = clf.decision_function(X)
    t = (np.stack([-scores, scores], axis=1) if K == 2 else scores) + 1 / K
    own = clf.classes_.searchsorted(y)
    values = ((t - np.eye(K)[own]) ** 2).sum(axis=1) / 2
    sizes = np.array([len(column.categories) for column in clf.encoder_.columns])
    upper = heldout.risk_range(*heldout.row_points(clf.scorecard_))
    order = np.random.default_rng(0).permutation(300)
    assert c.gamma == pytest.approx(heldout.betting_bound(values[order], upper, 0.8))
    assert c.bounds["sharp"] == c.bounds["renyi"] == min(1, 2 * c.gamma)
    wrong = int((clf.predict(X) != y).sum())
    assert c.observed_error == wrong / 300
    assert c.sampled_error == heldout.clopper_pearson(wrong, 300, 0.8)
    assert (c.basis, c.confidence, c.n, c.rule) == ("heldout", 0.8, 300, rule)
    assert (c.one_feature, c.loo_risk, c.steps) == (None, None, ())
    shares = y.value_counts(normalize=True)
    assert c.majority == (shares.index[0], pytest.approx(1 - shares.iloc[0]))
    assert c.n_indicators == sizes.sum()


def test_scorecards_and_labels_by_their_text():
    table, clf = fitted(3, np.random.default_rng(0))
    X, y = rows_of(table, 200, np.random.default_rng(1))
    numbers = y.str[-1].astype(int)
    whole = RenyiClassifier(alpha=0.01).fit(X[:100], numbers[:100])
    card = whole.scorecard_
    expected = certify(whole, X[100:], numbers[100:])
    assert certify(card, X[100:], numbers[100:].astype(float)) == expected
    assert certify(card, X[100:], numbers[100:].astype(str)) == expected
    mixed = X[100:].iloc[:, ::-1].assign(more="x")  # columns go by their names
    assert certify(card, mixed, numbers[100:]) == expected
    assert certify(clf.scorecard_, X, y).rule == "map"
    assert expected.confidence == 0.95


def test_text_says_what_is_covered():
    table, clf = fitted(2, np.random.default_rng(5))
    X, y = rows_of(table, 200, np.random.default_rng(6))
    c = certify(clf, X, y)
    lines = str(c).splitlines()
    assert lines[0].split() == ["Observed", "error", *percent(c.observed_error).split()]
    bound = at_most(c.sampled_error, 1)
    assert lines[1].startswith("  Error at most, on this population ")
    assert lines[1].endswith(f" {bound}   <- quote this")
    assert "always answering" in lines[2]
    flat = " ".join(" ".join(lines).split())
    assert "The bound has 95 % confidence. It is valid if the 200 rows" in flat
    assert "were not used in training." in flat
    worst = at_most(c.bounds["map"], 1)
    assert f"keeps its pair counts, at most {worst} (95 % confidence)." in flat
    assert not c.doubtful  # 200 rows are not few here: the confidence says so
    assert "99.9 %" in str(certify(clf, X, y, confidence=0.999))


def test_rows_with_the_counts_of_the_training_are_told(tmp_path):
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    clf.save(tmp_path / "votes.json")
    loaded = RenyiClassifier.load(tmp_path / "votes.json")
    shuffled = np.random.default_rng(0).permutation(len(X))
    for model in (clf, loaded, clf.scorecard_):
        c = certify(model, X.iloc[shuffled], y.iloc[shuffled])
        assert c.warning_codes == ("training-rows",)
        assert str(c).startswith("Warning: ")
    # As many of each category, but other rows.
    other = y.iloc[shuffled].set_axis(y.index)
    assert certify(clf, X, other).warning_codes == ()
    assert certify(clf, X[:-1], y[:-1]).warning_codes == ()


def test_no_honest_sample_is_refused():
    """Rows of another sample may have the counts of the training by chance."""
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(150):
        X = (rng.random((2, 20, 1)) < 0.2).astype(int)
        y = (rng.random((2, 20)) < 0.2).astype(int)
        if X[0].any() and y[0].any():
            c = certify(RenyiClassifier().fit(X[0], y[0]), X[1], y[1])
            told += c.warning_codes == ("training-rows",)
    assert told > 0


def test_plain_form_of_heldout_certificates():
    table, clf = fitted(2, np.random.default_rng(7))
    c = certify(clf, *rows_of(table, 100, np.random.default_rng(8)))
    plain = json.loads(json.dumps(c.to_dict(), allow_nan=False))
    assert Certificate.from_dict(plain) == c
    for change in (
        {"confidence": None},
        {"sampled_error": None},
        {"basis": "marginals"},
    ):
        with pytest.raises(ValueError, match="its certificate is not valid"):
            Certificate.from_dict({**plain, **change})


def test_what_does_not_go_together_is_refused():
    table, clf = fitted(2, np.random.default_rng(9))
    X, y = rows_of(table, 50, np.random.default_rng(10))
    m = Marginals.from_data(X, y)
    with pytest.raises(ValueError, match="confidence is for held-out rows"):
        certify(clf, m, confidence=0.9)
    with pytest.raises(ValueError, match="y is for held-out rows"):
        certify(clf, m, y)
    with pytest.raises(ValueError, match="it is a DataFrame, and y is missing"):
        certify(clf, X)
    with pytest.raises(ValueError, match="level='lp' needs marginals"):
        certify(clf, X, y, level="lp")
    with pytest.raises(ValueError, match="separable=True needs marginals"):
        certify(clf, X, y, separable=True)
    with pytest.raises(ValueError, match="confidence"):
        certify(clf, X, y, confidence=95)
    with pytest.raises(ValueError, match="at least two rows"):
        certify(clf, X[:1], y[:1])
    with pytest.raises(ValueError, match="X has 50 rows, y has 49"):
        certify(clf, X, y[:-1])
    with pytest.raises(ValueError, match="Column 'f1' is missing"):
        certify(clf, X.drop(columns="f1"), y)
    with pytest.raises(ValueError, match="y is missing in 1 rows"):
        certify(clf, X, y.where(y.index > 0))
