"""The guarantee of map from class means: linear programs, and the bound it replaces."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from renyi import Marginals, certify, verify
from renyi.datasets import random_joint
from renyi.scorecard import Scorecard
from renyi.solvers import map_bound as closed_form
from support import scorings
from support.counted import marginals_of
from support.joints import marginal_constraints, worst_case

SLACK = 1e-7  # of the linear programs
KINDS = ("logistic", "dirichlet", "additive")


def map_bound(*moments):
    """The bound alone."""
    return closed_form.map_bound(*moments).bound


def drawn(seed):
    """A table, and points of one of five kinds: fitted, noisy, any, log ratios."""
    rng = np.random.default_rng(seed)
    K = 2 + seed % 4
    sizes = scorings.SIZES[rng.integers(len(scorings.SIZES))]
    table = random_joint(sizes, K, kind=KINDS[seed % 3], random_state=seed)
    if seed % 7 == 0:  # nearly empty cells
        table[0] *= 1e-9
        table /= table.sum()
    m = marginals_of(table)
    kind = seed // 4 % 5
    P, b = scorings.make_points(table, "minimiser" if kind < 3 else "random", seed)
    if kind in (1, 2):
        P = P + (0.05, 0.3)[kind - 1] * rng.normal(size=P.shape)
        b = 0.1 * rng.normal(size=K)
    elif kind == 3:
        P = P * 10.0 ** rng.integers(-3, 4)
    elif kind == 4:  # as of a naive Bayes classifier
        P = np.log(m.F / m.class_probabilities + 1e-3)
        b = np.log(m.class_probabilities + 1e-3)
    if K == 2:  # scores −s, s
        P = (P[:, [1]] - P[:, [0]]) / 2 * [-1, 1]
        b = (b[1] - b[0]) / 2 * np.array([-1, 1])
    return table, P, b


def card_of(m, P, b):
    """A scorecard of any points."""
    one = len(b) == 2
    z, start = (P[:, 1], b[1]) if one else (P, b)
    return Scorecard(m.encoder, m.classes, z, np.asarray(start), np.ones(len(P)))


def check(seed):
    table, P, b = drawn(seed)
    m = marginals_of(table)
    found = certify(card_of(m, P, b), m).bounds["map"]
    t = scorings.estimates(table, P, b)
    losses = scorings.losing_ties(t)
    worst = worst_case(1 - losses, *marginal_constraints(table))
    assert worst <= found + SLACK
    old = scorings.scaled_bound(table, P, b)
    expected = scorings.map_bound(t, table.reshape(-1, len(b)))
    assert expected - 1e-9 <= found <= min(old, expected + 1e-7) + 1e-9
    return found < old - 1e-6


def test_no_distribution_breaks_it_and_it_is_never_above_the_old_one():
    smaller = [check(seed) for seed in range(60)]
    assert sum(smaller) > 12


@pytest.mark.long
def test_a_thousand_tables():
    smaller = [check(seed) for seed in range(60, 1060)]
    assert sum(smaller) > 300


@st.composite
def moments(draw):
    """Class shares, leads and spread that some scores have."""
    K = draw(st.integers(2, 6))
    share = st.floats(0.001, 1)
    P = np.array(draw(st.lists(share, min_size=K, max_size=K)))
    P /= P.sum()
    mu = np.array(draw(st.lists(st.floats(-2, 2), min_size=K, max_size=K)))
    least = (P * mu * mu).sum() / (1 - 1 / K)
    return least + draw(st.floats(0, 3)), P * mu, P


@example((0.0, np.array([0.0, 1e-313]), np.array([0.5, 0.5])), 1.0)
@given(moments(), st.floats(1e-3, 50))
def test_every_multiple_is_above_it(numbers, beta):
    V, leads, P = numbers
    kappa = 1 - 1 / len(P)
    found = map_bound(V, leads, P)
    assert 0 <= found <= 1
    old = 2 * (kappa - max(0, leads.sum()) ** 2 / V) if V > 0 else 1.0
    assert found <= min(1, old) + 1e-12
    u = beta * leads / P
    phi = np.where(u < kappa, np.minimum(1, 2 * kappa - 4 * u), -2 * u * u / kappa)
    assert found <= 2 * beta * beta * V + P @ phi + 1e-9
    assert map_bound(V * 4, leads * 2, P) == pytest.approx(found, abs=1e-12)
    assert map_bound(V * 1.01 + 1e-9, leads, P) >= found - 1e-12


@given(st.floats(0.01, 0.99), st.floats(0.01, 3), st.floats(0.01, 3), st.floats(0, 5))
def test_two_classes_share_their_variance_in_the_worst_way(p, first, second, T):
    """The dual: the largest sum of Cantelli's bounds with variances of the mean T."""
    P = np.array([1 - p, p])
    mu = np.array([first, second])

    def loss(x):
        widths = np.array([x, 1 - x]) * T / P
        return -float(P @ (widths / (widths + mu**2)))

    best = minimize_scalar(loss, bounds=(0, 1), options={"xatol": 1e-10}).fun
    largest = -min(best, loss(0.0), loss(1.0))
    found = map_bound(2 * (T + P @ mu**2), P * mu, P)
    assert found == pytest.approx(largest, abs=1e-8)


def test_moments_that_prove_nothing():
    half = np.array([0.5, 0.5])
    for leads in ([-0.1, -0.2], [0.0, 0.0], [np.nan, 0.1], [np.inf, 0.1]):
        assert map_bound(1.0, np.array(leads), half) == 1
    assert map_bound(math.inf, np.array([0.1, 0.1]), half) == 1
    assert map_bound(1e300, np.array([1e-300, 0.1]), half) == pytest.approx(1)
    # One class is always answered: its rows are right, however scores are scaled.
    assert map_bound(0.5, np.array([-0.25, 0.25]), half) == pytest.approx(0.75)
    certain = map_bound(2.0, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert certain == pytest.approx(0, abs=1e-13)


def whole_counts(seed, within):
    """Marginals of 60 rows, and points that suit them."""
    rng = np.random.default_rng(seed)
    K = 2 + seed % 4
    X = rng.integers(0, 3, (60, 3)).astype(str)
    y = (X.astype(int).sum(axis=1) + (rng.random(60) < 0.2)) % K
    m = Marginals.from_data(X, y, class_conditional=within)
    P = np.linalg.lstsq(m.Q, m.F)[0] + 0.05 * rng.normal(size=m.F.shape)
    b = 0.1 * rng.normal(size=K)
    return m, P, b


@pytest.mark.parametrize("within", [False, True])
def test_the_checker_proves_the_same_number(tmp_path, within):
    for seed in range(12):
        m, P, b = whole_counts(seed, within)
        card = card_of(m, P, b)
        card = replace(card, counts=m.feature_counts.diagonal())
        m.save(tmp_path / "m.renyi")
        exact = verify.Counts(str(tmp_path / "m.renyi")).bounds(card.to_dict())
        c = certify(card, m)
        assert float(exact["gamma"]) <= c.gamma
        if not within:  # with pairs within classes, certify may know more
            assert float(exact["map"]) <= c.bounds["map"] + 1e-15
            assert c.bounds["map"] <= float(exact["map"]) + 1e-9


def test_the_error_at_the_prevalence_of_training_is_that_bound():
    """From pairs alone both classes share one variance, at any prevalence."""
    equal = 0
    for seed in range(0, 80, 4):
        table, P, b = drawn(seed)
        m = marginals_of(table)
        c = certify(card_of(m, P, b), m)
        first, width, second, other = c.class_scores
        p = float(m.class_probabilities[1])
        if first < 0 < second:
            assert c.error_at(p) == pytest.approx(c.bounds["map"], abs=1e-6)
            equal += 1
        x = np.linspace(0, 1, 2001)
        for share in (0.01, p, 0.9):
            for threshold in (-0.1, 0.0, 0.1):
                found = c.error_at(share, threshold)
                low = max(threshold - first, 0) ** 2
                high = max(second - threshold, 0) ** 2
                missed = x * width / (x * width + low) if low else 1
                other_missed = (1 - x) * other / ((1 - x) * other + high) if high else 1
                sums = (1 - share) * missed + share * other_missed
                assert found == pytest.approx(np.max(sums), abs=1e-5)
                assert found >= np.max(sums) - 1e-12
    assert equal > 3
