"""The guarantees themselves, checked by linear programs on random joint tables.

For every z, good or bad, no distribution with the table's pairwise marginals may make a
rule err more often than its certificate says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from renyi import Marginals, RenyiClassifier, certify, rules
from renyi.certificates.closed_form import best_feature
from renyi.datasets import load, random_joint, sample_joint
from support.counted import MODELS, make_card, marginals_of
from support.joints import (
    error,
    marginal_constraints,
    minimax_error,
    outcomes,
    worst_case,
    worst_distribution,
)
from support.repeats import covering
from support.scorings import map_bound

SLACK = 1e-7  # of the linear programs
KINDS = ("dirichlet", "additive", "logistic")
CASES = covering((2, 3, 4), KINDS, range(3))


def make_table(K, kind, seed):
    sizes = ((2, 3, 2), (3, 3, 2), (2, 2, 2, 2))[seed % 3]
    return random_joint(sizes, K, kind=kind, random_state=[K, seed, len(kind)])


def estimates_at_all_outcomes(card, table):
    return card.estimates(outcomes(table.shape[:-1]).T)


def map_losing_ties(t):
    """The map rule, wrong whatever the class where two estimates are equal."""
    r = rules.rule_proba(t, "map")
    ties = (t >= t.max(axis=1, keepdims=True) - 1e-12).sum(axis=1) > 1
    r[ties] = 0
    return r


@pytest.mark.parametrize(("K", "kind", "seed"), CASES)
def test_no_distribution_breaks_a_bound(K, kind, seed):
    table = make_table(K, kind, seed)
    m = marginals_of(table)
    A, b = marginal_constraints(table)
    for model in MODELS:
        card = make_card(m, model, seed)
        c = certify(card, m)
        t = estimates_at_all_outcomes(card, table)
        for rule in ("renyi", "sharp"):
            worst = worst_case(rules.rule_proba(t, rule), A, b)
            assert worst <= c.bounds[rule] + SLACK, (model, rule)
            assert c.bounds[rule] == pytest.approx(min(1, 2 * c.gamma))
        assert worst_case(map_losing_ties(t), A, b) <= c.bounds["map"] + SLACK, model
        assert c.bounds["map"] <= min(1, 4 * c.gamma) + 1e-12


@pytest.mark.parametrize(("K", "kind", "seed"), CASES)
def test_certificate_is_the_expectation_over_the_table(K, kind, seed):
    table = make_table(K, kind, seed)
    m = marginals_of(table)
    P = table.reshape(-1, K)
    for model in MODELS:
        card = make_card(m, model, seed)
        t = estimates_at_all_outcomes(card, table)
        squares = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2)
        c = certify(card, m)
        assert c.gamma == pytest.approx((P * squares).sum() / 2, rel=1e-9, abs=1e-12)
        expected = min(map_bound(t, P), 4 * c.gamma)
        assert c.bounds["map"] == pytest.approx(expected, rel=1e-8, abs=1e-10)
        assert certify(card, m * 1000).gamma == pytest.approx(c.gamma, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_two_classes_are_the_paper(kind):
    """Gamma and the scaled bound of map in the paper's letters: Q, dvec, z."""
    m = marginals_of(make_table(2, kind, 1))
    clf = RenyiClassifier(alpha=0.02, fit_intercept=False).fit_marginals(m)
    z, c = clf.z_, clf.certificate_
    assert c.gamma == pytest.approx(z @ m.Q @ z - m.dvec @ z + 0.25)
    assert c.bounds["map"] == pytest.approx(1 - (m.dvec @ z) ** 2 / (z @ m.Q @ z))


@pytest.mark.parametrize(("K", "kind", "seed"), CASES)
def test_exact_comparisons_and_the_minimax_error(K, kind, seed):
    table = make_table(K, kind, seed)
    m = marginals_of(table)
    c = certify(make_card(m, "minimiser"), m)
    label, always = c.majority
    found = best_feature(m.F, m.encoder.columns)
    priors = table.reshape(-1, K).sum(axis=0)
    assert label == priors.argmax()
    assert always == pytest.approx(1 - priors.max())
    alone = {}
    for i in range(table.ndim - 1):
        axes = tuple(j for j in range(table.ndim - 1) if j != i)
        alone[f"x{i}"] = 1 - table.sum(axis=axes).max(axis=1).sum()
    least = min(alone.values())
    assert found[1] == pytest.approx(least)
    assert alone[found[0]] == pytest.approx(least)
    e_star = minimax_error(*marginal_constraints(table), K)
    assert e_star <= min(always, least, c.bounds["sharp"]) + SLACK
    assert c.bounds["map"] >= e_star - SLACK
    if kind == "additive":  # separable: within a factor of two of what is possible
        assert c.gamma <= e_star + SLACK


@pytest.mark.parametrize("K", [2, 3])
def test_bound_is_the_same_for_every_member(K):
    """The risk, unlike the error, is the same number under the worst distribution."""
    table = make_table(K, "dirichlet", 2)
    m = marginals_of(table)
    A, b = marginal_constraints(table)
    card = make_card(m, "ridge")
    t = estimates_at_all_outcomes(card, table)
    r = rules.rule_proba(t, "sharp")
    worst = worst_distribution(r, A, b)
    squares = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2)
    gamma = certify(card, m).gamma
    assert (worst * squares).sum() / 2 == pytest.approx(gamma, abs=1e-7)
    assert error(r, worst) > error(r, table) - SLACK
    other = marginals_of(worst.clip(0).reshape(table.shape))
    assert certify(card, other).gamma == pytest.approx(gamma, abs=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_minimiser_has_the_least_gamma(K):
    m = marginals_of(make_table(K, "logistic", 0))
    least = certify(make_card(m, "minimiser"), m).gamma
    for model in ("ridge", "random", "rounded", "zero"):
        assert least <= certify(make_card(m, model), m).gamma + 1e-12


@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_any_gauge_gives_the_same_model(K, seed):
    """What moves from the points of a feature to the intercept changes nothing."""
    table = make_table(K, "dirichlet", seed)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    sizes = card.encoder.columns.sizes
    width = card.z.shape[1:]
    shift = np.random.default_rng(seed).normal(size=(len(sizes), *width))
    moved = replace(
        card,
        z=card.z + np.repeat(shift, sizes, axis=0),
        intercept=np.asarray(card.intercept - shift.sum(axis=0)),
    )
    unseen = sizes[:, None]  # the mean effect moves along
    for codes in (outcomes(table.shape[:-1]).T, unseen):
        np.testing.assert_allclose(moved.scores(codes), card.scores(codes), atol=1e-12)
    first, second = certify(card, m), certify(moved, m)
    assert second.gamma == pytest.approx(first.gamma, abs=1e-12)
    assert second.bounds == pytest.approx(first.bounds, abs=1e-10)
    np.testing.assert_allclose(moved.importance, card.importance, atol=1e-12)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e7, 1e9])
def test_no_gauge_drowns_the_certificate(K, size):
    """The truth of the points as they are stored, never less, and hardly more."""
    table = make_table(K, "dirichlet", 2)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    sizes = card.encoder.columns.sizes
    shift = np.repeat([size, -size, *np.zeros(len(sizes) - 2)], sizes)
    z = card.z + shift.reshape(-1, *[1] * (card.z.ndim - 1))
    moved = replace(card, z=z)
    t = estimates_at_all_outcomes(moved, table)
    P = table.reshape(-1, K)
    squares = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2)
    truth = (P * squares).sum() / 2
    first, c = certify(card, m), certify(moved, m)
    assert truth <= c.gamma <= truth + 1e-13 * size + 1e-12
    assert c.gamma == pytest.approx(first.gamma, abs=1e-12 + 1e-13 * size)
    expected = min(map_bound(t, P), 4 * truth)
    assert expected - 1e-12 <= c.bounds["map"] <= expected + 1e-12 + 1e-12 * size


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_points_that_all_classes_share_leave_map_alone(size):
    """The largest score stays the largest: map keeps its bound, the others do not."""
    table = make_table(3, "logistic", 1)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    rng = np.random.default_rng(0)
    common = replace(card, z=card.z + size * rng.normal(size=(len(card.z), 1)))
    first, c = certify(card, m), certify(common, m)
    assert c.bounds["sharp"] == 1.0
    assert c.bounds["map"] == pytest.approx(first.bounds["map"], abs=1e-12 * size)
    t = estimates_at_all_outcomes(common, table)
    worst = worst_case(map_losing_ties(t), *marginal_constraints(table))
    assert worst <= c.bounds["map"] + SLACK


@pytest.mark.parametrize("K", [2, 3])
def test_merging_is_the_union_and_subtracting_is_never_having_seen(K):
    X, y = sample_joint(make_table(K, "logistic", 1), 400, random_state=5)
    parts = [Marginals.from_data(X[s], y[s]) for s in np.split(np.arange(400), 4)]
    everything = Marginals.from_data(X, y)
    clf = RenyiClassifier()
    whole = clf.fit_marginals(everything).scorecard_
    merged = clf.fit_marginals(sum(parts[1:], parts[0])).scorecard_
    np.testing.assert_array_equal(merged.z, whole.z)
    rest = clf.fit_marginals(everything - parts[3]).scorecard_
    never = clf.fit_marginals(Marginals.from_data(X[:300], y[:300])).scorecard_
    np.testing.assert_array_equal(rest.z, never.z)


@pytest.mark.parametrize("large", [1e154, 1e200, 1e300])
def test_points_too_large_to_square_leave_bounds_of_one(large: float) -> None:
    X, y = load("votes")
    m = Marginals.from_data(X, y, class_conditional=True)
    card = RenyiClassifier().fit(X, y).scorecard_
    z = card.z.copy()
    z[:3] += large  # two columns whose offsets cancel
    z[3:6] -= large
    found = certify(replace(card, z=z), m)
    assert found.bounds == {"map": 1.0, "renyi": 1.0, "sharp": 1.0}
