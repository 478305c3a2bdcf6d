"""Rules: the formulas, the guarantee at each x, and honest drawing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from renyi import RenyiClassifier, rules
from renyi.datasets import load

ESTIMATES = st.integers(2, 5).flatmap(
    lambda K: arrays(
        float, (3, K), elements=st.floats(-3, 3, allow_subnormal=False, width=32)
    )
)


@given(ESTIMATES)
def test_projection_satisfies_its_optimality_conditions(t):
    """In the simplex, and t - p makes no acute angle with any way into it."""
    p = rules.project(t)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    slack = np.einsum("nk,nyk->ny", t - p, np.eye(t.shape[1])[None] - p[:, None, :])
    assert slack.max() <= 1e-9


@pytest.mark.parametrize("K", [2, 3, 5])
def test_probabilities_are_some_whatever_the_points(K):
    rng = np.random.default_rng(K)
    for scale in 10.0 ** np.arange(-3, 301, 3):
        t = scale * rng.normal(size=(40, K))
        for p in (rules.project(t), *(rules.rule_proba(t, r) for r in rules.RULES)):
            assert p.min() >= 0 and p.max() <= 1 + 1e-9
            np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
        assert (rules.project(t).argmax(axis=1) == t.argmax(axis=1)).all()
    near = 1e12 + rng.dirichlet(np.ones(K), 40)  # the same as without what all share
    np.testing.assert_allclose(rules.project(near), rules.project(near - 1e12))
    for odd in (np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match="not finite"):
            rules.project(np.array([[0.5] * (K - 1) + [odd]]))


def test_projection_equals_a_quadratic_program():
    for t in np.random.default_rng(0).normal(size=(6, 4)):
        result = minimize(
            lambda p, t=t: ((p - t) ** 2).sum(),
            np.full(4, 0.25),
            jac=lambda p, t=t: 2 * (p - t),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(rules.project(t[None])[0], result.x, atol=1e-6)


@given(ESTIMATES)
def test_projection_never_moves_away_from_a_class(t):
    p, classes = rules.project(t), np.eye(t.shape[1])
    before = ((t[:, None] - classes) ** 2).sum(axis=2)
    after = ((p[:, None] - classes) ** 2).sum(axis=2)
    assert (after <= before + 1e-9).all()


@given(ESTIMATES)
def test_rules_are_probabilities_with_their_majorant(t):
    """1 - r_y <= |t - e_y|^2 at every x: the whole proof of the bounds."""
    squares = ((t[:, None] - np.eye(t.shape[1])) ** 2).sum(axis=2)
    for rule in rules.RULES:
        r = rules.rule_proba(t, rule)
        assert r.min() >= 0
        assert r.max() <= 1 + 1e-12
        np.testing.assert_allclose(r.sum(axis=1), 1, atol=1e-12)
        factor = 2 if rule == "map" else 1
        assert (1 - r <= factor * squares + 1e-9).all()


@given(ESTIMATES)
def test_sharp_is_less_random_than_renyi(t):
    sharp, renyi = rules.rule_proba(t, "sharp"), rules.rule_proba(t, "renyi")
    assert (sharp.max(axis=1) >= renyi.max(axis=1) - 1e-12).all()
    assert ((sharp**2).sum(axis=1) >= (renyi**2).sum(axis=1) - 1e-12).all()


@pytest.mark.parametrize("s", [-0.7, -0.5, -0.2, -0.05, 0.0, 0.1, 0.2071, 0.3, 0.9])
def test_two_classes_follow_the_paper(s):
    t = np.array([[0.5 - s, 0.5 + s]])
    p1 = np.clip(0.5 + s, 0, 1)
    expected = p1**2 / ((1 - p1) ** 2 + p1**2)
    assert rules.rule_proba(t, "renyi")[0, 1] == pytest.approx(expected)
    a = min(abs(s), 0.5)
    less_likely = max(0, 0.5 - 2 * a - 2 * a**2)
    assert rules.rule_proba(t, "sharp")[0].min() == pytest.approx(less_likely)
    assert rules.rule_proba(t, "sharp")[0, int(s > 0)] >= 0.5
    assert rules.rule_proba(t, "map")[0, int(s > 0)] == 1


def test_sharp_is_deterministic_from_one_over_root_two():
    edge = 1 / np.sqrt(2)
    t = np.array([[1 - edge - 1e-9, edge + 1e-9], [1 - edge + 1e-3, edge - 1e-3]])
    r = rules.rule_proba(t, "sharp")
    assert r[0, 1] == 1
    assert 0 < r[1, 0] < 0.01


def test_unknown_rule_is_named():
    with pytest.raises(ValueError, match="'bayes'"):
        rules.rule_proba(np.array([[0.5, 0.5]]), "bayes")


def test_draws_have_their_probabilities():
    """Chi-square of 60,000 rows against each of three distributions."""
    n = 60_000
    codes = np.stack([np.arange(n) % 251, np.arange(n) // 251])
    keys = rules.row_keys(codes)
    assert len(np.unique(keys)) == n
    for proba in ([0.2, 0.3, 0.5], [0.01, 0.99, 0.0], [1 / 3] * 3):
        p = np.array(proba)
        for seed in (0, 1):
            drawn = rules.draw(np.tile(p, (n, 1)), keys, seed)
            counts = np.bincount(drawn, minlength=3)
            assert counts[p == 0].sum() == 0
            kept = p > 0
            statistic = ((counts - n * p)[kept] ** 2 / (n * p)[kept]).sum()
            assert statistic < 18.4  # the 99.99 % point for two degrees of freedom


def test_draws_of_two_seeds_are_independent():
    n = 40_000
    keys = rules.row_keys(np.stack([np.arange(n) % 200, np.arange(n) // 200]))
    half = np.full((n, 2), 0.5)
    same = (rules.draw(half, keys, 1) == rules.draw(half, keys, 2)).mean()
    assert abs(same - 0.5) < 4 * 0.5 / np.sqrt(n)


def test_row_keys_tell_rows_apart():
    """Order of columns, small codes, and the type of the codes."""
    rows = np.array([[0, 0, 1, 1, 2], [0, 1, 0, 1, 0]])
    keys = rules.row_keys(rows)
    assert len(set(keys.tolist())) == 5
    np.testing.assert_array_equal(rules.row_keys(rows.astype(np.uint8)), keys)
    np.testing.assert_array_equal(rules.row_keys(rows[:, 3:]), keys[3:])


@pytest.mark.parametrize("rule", ["renyi", "sharp"])
def test_a_row_gets_the_same_answer_in_any_batch(rule):
    X, y = load("kr-vs-kp")
    clf = RenyiClassifier(rule=rule, alpha=0.01, random_state=7).fit(X, y)
    whole = clf.predict(X)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(clf.predict(X.iloc[order]), whole[order])
    np.testing.assert_array_equal(clf.predict(X[100:103]), whole[100:103])
    np.testing.assert_array_equal(clf.predict(X), whole)
    error = (whole != y.to_numpy()).mean()
    own = clf.rule_proba(X)[np.arange(len(y)), np.searchsorted(clf.classes_, y)]
    # Drawing adds the noise of 3196 coins to the expected error, no more.
    assert abs(error - (1 - own).mean()) < 4 * np.sqrt((own * (1 - own)).sum()) / len(y)


def test_random_state_decides():
    X, y = load("kr-vs-kp")
    clf = RenyiClassifier(rule="renyi", alpha=0.01, random_state=1).fit(X, y)
    first = clf.predict(X)
    assert (clf.set_params(random_state=2).predict(X) != first).any()
    assert (clf.set_params(random_state=1).predict(X) == first).all()
    clf.set_params(random_state=None)
    assert (clf.predict(X) != clf.predict(X)).any()
    generators = [np.random.RandomState(1) for _ in range(2)]
    answers = [clf.set_params(random_state=g).predict(X) for g in generators]
    assert (answers[0] == answers[1]).all()


def test_equal_rows_are_drawn_independently_without_a_seed():
    proba, keys = np.full((20_000, 2), 0.5), np.zeros(20_000, np.uint64)
    drawn = rules.draw(proba, keys, np.random.RandomState(0))
    assert abs(drawn.mean() - 0.5) < 5 * 0.5 / np.sqrt(20_000)
    assert len(set(rules.draw(proba, keys, 3).tolist())) == 1


def test_the_expected_error_over_seeds_is_the_rule_s():
    keys = rules.row_keys(np.zeros((1, 1), np.uint8))
    proba = np.array([[0.3, 0.7]])
    drawn = [rules.draw(proba, keys, seed)[0] for seed in range(4000)]
    assert abs(np.mean(drawn) - 0.7) < 5 * np.sqrt(0.21 / 4000)
