"""The theory's inequalities as properties of random joint tables, two to four classes.

Every side is computed from the table by the formulas themselves, with the linear
programs of `joints` as a check. The library's figures for the same table must agree.
Tables have many empty cells, or are drawn without structure, with additive or with
logistic conditionals.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from renyi import (
    RenyiClassifier,
    certify,
    hgr_lower_bound,
    hgr_table,
    minimax,
    rules,
    separable,
    theta,
)
from renyi.datasets import random_joint, sample_joint
from renyi.robust.brier_risk import brier_risk
from support.counted import marginals_of
from support.joints import (
    error,
    marginal_constraints,
    minimax_error,
    moments,
    one_hot_outcomes,
    outcomes,
    second_singular_value,
    worst_case,
    worst_distribution,
)
from support.repeats import in_full
from support.scorings import map_bound

pytest.importorskip("clarabel")
pytest.importorskip("highspy")

SLACK = 1e-7  # of the linear programs
CONE = 1e-6  # of the cone program
SIZES = st.sampled_from([(3,), (2, 2), (4, 2), (3, 3), (2, 2, 2), (2, 3, 2)])
KINDS = st.sampled_from(["dirichlet", "additive", "logistic"])
few = settings(max_examples=2 * settings().max_examples // 3)


@st.composite
def joint_tables(draw, classes):
    """A table of small counts, many of them 0, or one of the library's kinds."""
    sizes, K = draw(SIZES), draw(classes)
    if draw(st.booleans()):
        seed = draw(st.integers(0, 10**6))
        return random_joint(sizes, K, kind=draw(KINDS), random_state=seed)
    counts = draw(arrays(np.int64, (*sizes, K), elements=st.integers(0, 6)))
    axes = range(counts.ndim)
    margins = [counts.sum(axis=tuple(set(axes) - {i})) for i in axes]
    assume(min(margin.min() for margin in margins) > 0)
    return counts / counts.sum()


TWO = joint_tables(st.just(2))
ANY = joint_tables(st.integers(2, 4))


def minimiser(table):
    """Estimates t = Z'W of the least squares fit at all outcomes, and B of them."""
    Q, F = moments(table)
    t = one_hot_outcomes(table.shape[:-1]) @ np.linalg.pinv(Q, rcond=1e-10) @ F
    return t, risk(t, table)


def squares(t):
    """Losses ‖t(x) − e_y‖² at every outcome and class."""
    return ((t[:, None, :] - np.eye(t.shape[1])) ** 2).sum(axis=2)


def risk(t, table):
    """B = E‖t − e_Y‖², summed over the table."""
    return float((squares(t) * table.reshape(len(t), -1)).sum())


def worst_loss(loss, A, b):
    """Largest expectation of a loss (N, K) over C."""
    return worst_case(1 - loss, A, b)


# ---- theta, e* and the rules made of p-tilde


@given(arrays(float, (7, 3), elements=st.floats(0, 1e3, allow_subnormal=False)))
def test_harmonic_inequality(p):
    """p₀p₁/(p₀+p₁) ≤ min(p₀, p₁) ≤ twice that; so for the Gini index of K classes."""
    near = 1e-9 * (1 + p.sum())
    total, largest = p.sum(axis=1), p.max(axis=1)
    gini = total - (p**2).sum(axis=1) / np.where(total > 0, total, 1)
    bayes = total - largest
    assert (bayes <= gini + near).all()
    assert (gini <= 2 * bayes + near).all()
    assert brier_risk(p) == pytest.approx(gini.sum() / 2, abs=near)
    p0, p1 = p[:, 0], p[:, 1]
    half = p0 * p1 / np.where(p0 + p1 > 0, p0 + p1, 1)
    assert (half <= np.minimum(p0, p1) + near).all()
    assert (np.minimum(p0, p1) <= 2 * half + near).all()
    assert brier_risk(p[:, :2]) == pytest.approx(half.sum(), abs=near)


@few
@given(ANY)
def test_theta_from_both_sides(table):
    """The risk of p-tilde, a member of C, is the worst Brier risk of its estimates."""
    found, (A, b) = theta(marginals_of(table)), marginal_constraints(table)
    p = np.zeros(table.shape)
    codes = found.p_tilde.drop(columns="probability").astype(int).to_numpy()
    np.add.at(p, tuple(codes.T), found.p_tilde["probability"].to_numpy())
    assert np.abs(A @ p.ravel() - b).max() < CONE
    p = p.reshape(-1, table.shape[-1])
    gini = p.sum() - ((p**2).sum(axis=1) / np.maximum(p.sum(axis=1), 1e-300)).sum()
    assert gini / 2 == pytest.approx(found.theta, abs=CONE)
    t = found.rule.estimates(outcomes(table.shape[:-1]))
    assert worst_loss(squares(t) / 2, A, b) == pytest.approx(found.theta, abs=CONE)


@few
@given(ANY)
def test_order_of_theta_the_minimax_error_and_the_rules_of_p_tilde(table):
    """θ ≤ e* ≤ ẽ ≤ 2θ ≤ 2e*, ẽ the worst case of δ̃ from p̃; that of δ̃map is ≤ 4e*."""
    A, b = marginal_constraints(table)
    found, e = theta(marginals_of(table)), minimax_error(A, b, table.shape[-1])
    X = outcomes(table.shape[:-1])
    t = found.rule.estimates(X)
    own = t**2 / (t**2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.rule.rule_proba(X, "renyi"), own, atol=1e-9)
    for rule in (own, found.rule.rule_proba(X, "sharp")):
        worst = worst_case(rule, A, b)
        assert found.theta - CONE <= e <= worst + SLACK
        assert worst <= 2 * found.theta + CONE
        assert 2 * found.theta <= 2 * e + CONE
    assert worst_case(losing_ties(t), A, b) <= 4 * e + CONE


@few
@given(ANY, st.integers(0, 10**6))
def test_theta_is_the_largest_harmonic_sum(table, seed):
    """No member of C has more of it; additive scores cannot promise less than γ."""
    A, b = marginal_constraints(table)
    value = theta(marginals_of(table)).theta
    K = table.shape[-1]
    costs = np.random.default_rng(seed).normal(size=(2, table.size // K, K))
    members = [table.reshape(-1, K), *(worst_distribution(c, A, b) for c in costs)]
    for p in [*members, np.mean(members, axis=0)]:
        assert brier_risk(p.clip(0)) <= value + CONE
    assert value <= minimiser(table)[1] / 2 + CONE


# ---- any scores at all


def losing_ties(t):
    """Map, wrong whatever the class where the largest estimates are equal."""
    near = 1e-9 * (1 + np.abs(t).max())
    return ((t >= t.max(axis=1, keepdims=True) - near).sum(axis=1) == 1)[:, None] * (
        np.eye(t.shape[1])[t.argmax(axis=1)]
    )


def any_points(table):
    D, K = sum(table.shape[:-1]), table.shape[-1]
    return arrays(float, (D, K), elements=st.floats(-2, 2, width=16))


@few
@given(st.data(), TWO)
def test_two_classes_any_z(data, table):
    """The paper's letters: s = Wᵀz, γ(z) = zᵀQz − dvecᵀz + 1/4, rules by their text."""
    Q, F = moments(table)
    dvec = F[:, 1] - F[:, 0]
    z = data.draw(any_points(table))[:, 0]
    gamma = z @ Q @ z - dvec @ z + 0.25
    s = one_hot_outcomes(table.shape[:-1]) @ z
    A, b = marginal_constraints(table)
    p1 = 0.5 + np.clip(s, -0.5, 0.5)
    renyi = p1**2 / (p1**2 + (1 - p1) ** 2)
    rarer = np.maximum(0, 0.5 - 2 * np.abs(s) - 2 * s**2)
    sharp = np.where(s > 0, 1 - rarer, rarer)
    for one in (renyi, sharp):
        assert worst_case(np.stack([1 - one, one], 1), A, b) <= 2 * gamma + SLACK
    t = np.stack([0.5 - s, 0.5 + s], axis=1)
    power = z @ Q @ z
    scaled = 1 - max(0, dvec @ z) ** 2 / power if power > 1e-12 * (z @ z) else 1.0
    assert worst_case(losing_ties(t), A, b) <= scaled + SLACK
    assert scaled <= 4 * gamma + SLACK
    check_library(table, z, t, gamma, scaled)


@few
@given(st.data(), joint_tables(st.integers(3, 4)))
def test_more_classes_any_z(data, table):
    """Neither Σt = 1 nor t ≥ 0 is needed: the rules are not projected here."""
    K = table.shape[-1]
    Z = data.draw(any_points(table))
    t = 1 / K + one_hot_outcomes(table.shape[:-1]) @ Z
    B, (A, b) = risk(t, table), marginal_constraints(table)
    q = (t**2).sum(axis=1, keepdims=True)
    sharp = np.maximum(0, 2 * t - q)
    assert sharp.sum(axis=1).max() <= 1 + 1e-9
    renyi = t**2 / np.where(q > 0, q, 1)
    for rule in (sharp, renyi):  # what is left over may go to nobody
        assert worst_case(rule, A, b) <= B + SLACK
    p, off = table.reshape(-1, K), t - t.mean(axis=1, keepdims=True)
    power = (p.sum(axis=1) * (off**2).sum(axis=1)).sum()
    least = 1e-12 * (off**2).max()  # below it, power is rounding
    gain = max(0, (p * off).sum()) ** 2 / power if power > least else 0
    scaled = 2 * (1 - 1 / K - gain)
    assert worst_case(losing_ties(t), A, b) <= scaled + SLACK
    assert scaled <= 2 * B + SLACK
    check_library(table, Z, t, B / 2, scaled)


def check_library(table, z, t, gamma, scaled):
    """Hold the library's certificate of the points z against γ and map's bound."""
    m = marginals_of(table)
    card = RenyiClassifier(alpha=0.1).fit_marginals(m).scorecard_
    card = replace(card, z=z, intercept=np.zeros_like(card.intercept))
    found = card.estimates(outcomes(table.shape[:-1]).T)
    np.testing.assert_allclose(found, t, atol=1e-12)
    c = certify(card, m)
    assert c.gamma == pytest.approx(gamma, rel=1e-9, abs=1e-9)
    assert c.bounds["sharp"] == pytest.approx(min(1, 2 * gamma), abs=1e-9)
    # Rounded up by what floating point may do to scores, which counts if they are tiny.
    power = ((t - t.mean(axis=1, keepdims=True)) ** 2).max()
    room = 1e-8 + 1e-14 / max(power, 1e-14)
    expected = min(map_bound(t, table.reshape(len(t), -1)), 4 * gamma)
    assert expected - 1e-9 <= c.bounds["map"] <= expected + room
    assert c.bounds["map"] <= scaled + room
    A, b = marginal_constraints(table)
    for rule in ("renyi", "sharp"):
        assert worst_case(rules.rule_proba(t, rule), A, b) <= c.bounds[rule] + SLACK


# ---- separability


def outside(t):
    """Half the squared distance of t from the simplex: (|s| − ½)₊² for two classes."""
    return ((t - rules.project(t)) ** 2).sum(axis=1) / 2


@few
@given(ANY)
def test_gamma_is_theta_exactly_if_some_member_has_scores_in_the_simplex(table):
    """γ − θ is at least the least E[dist²/2] over C, and 0 where that is 0."""
    t, B = minimiser(table)
    A, b = marginal_constraints(table)
    m, K = marginals_of(table), table.shape[-1]
    gap = B / 2 - theta(m).theta
    far = np.repeat(outside(t)[:, None], K, axis=1)
    least = -worst_loss(-far, A, b)
    assert gap >= least - CONE
    mass = worst_loss((far < 1e-14).astype(float), A, b)
    if mass > 1 - 1e-9:
        assert gap <= CONE
        assert separable(m).answer is True
    if least > CONE:
        assert mass < 1
        assert separable(m).answer is False


@few
@given(SIZES, st.integers(2, 4), st.integers(0, 10**6))
def test_additive_conditionals_are_separable(sizes, K, seed):
    table = random_joint(sizes, K, kind="additive", random_state=seed)
    t, B = minimiser(table)
    assert outside(t).max() < 1e-12
    m = marginals_of(table)
    assert separable(m).answer is True
    assert theta(m).theta == pytest.approx(B / 2, abs=CONE)
    e = minimax_error(*marginal_constraints(table), K)
    assert B / 2 - SLACK <= e <= B + SLACK


# ---- maximal correlation


@given(TWO)
def test_binary_lemma(table):
    p = table.reshape(-1, 2)
    q = p[:, 0].sum()
    harmonic = (p[:, 0] * p[:, 1] / np.maximum(p.sum(axis=1), 1e-300)).sum()
    squared = 1 - harmonic / (q * (1 - q))
    assert second_singular_value(p) ** 2 == pytest.approx(squared, abs=1e-9)
    assert hgr_table(p).rho ** 2 == pytest.approx(squared, abs=1e-9)


@few
@given(ANY, st.integers(0, 10**6))
def test_no_member_correlates_less_than_the_bound(table, seed):
    A, b = marginal_constraints(table)
    m, K = marginals_of(table), table.shape[-1]
    bound = hgr_lower_bound(m)
    costs = np.random.default_rng(seed).normal(size=(3, table.size // K, K))
    members = [table.reshape(-1, K), *(worst_distribution(c, A, b) for c in costs)]
    for p in [*members, np.mean(members, axis=0)]:
        assert second_singular_value(p.clip(0)) >= bound - CONE
    if K == 2:
        q = table[..., 0].sum()
        expected = 1 - minimiser(table)[1] / 2 / (q * (1 - q))
        assert bound**2 == pytest.approx(expected, abs=1e-8)


# ---- the minimax problem


@few
@given(ANY)
def test_minimax_interval_rule_and_distribution(table):
    A, b = marginal_constraints(table)
    m, K = marginals_of(table), table.shape[-1]
    e, X = minimax_error(A, b, K), outcomes(table.shape[:-1]).T
    first, found = minimax(m, method="lp"), minimax(m, method="exact")
    assert e <= first.upper + SLACK
    assert worst_case(first.rule.of_codes(X), A, b) <= first.upper + CONE
    assert found.lower - SLACK <= e <= found.upper + SLACK
    assert found.gap <= CONE
    worst = worst_case(found.rule.of_codes(X), A, b)
    assert worst == pytest.approx(e, abs=CONE)
    shown = found.worst_distribution
    if shown is None:  # the polynomial program has shown that nothing can go wrong
        assert e < CONE
        return
    p = np.zeros(table.shape)
    p[tuple(shown.outcomes.T)] = shown.p
    assert p.min() >= 0
    assert np.abs(A @ p.ravel() - b).max() < 1e-9
    assert error(found.rule.of_codes(X), p) == pytest.approx(e, abs=CONE)


@few
@given(ANY, st.integers(0, 10**6))
def test_no_rule_at_all_promises_less_than_the_minimax_error(table, seed):
    """e* ≤ the worst case of every rule: random ones, and those that know the table."""
    A, b = marginal_constraints(table)
    K = table.shape[-1]
    e, p = minimax_error(A, b, K), table.reshape(-1, K)
    drawn = np.random.default_rng(seed).dirichlet(np.full(K, 0.3), len(p))
    for rule in (drawn, np.eye(K)[p.argmax(axis=1)], np.eye(K)[p.argmin(axis=1)]):
        assert e <= worst_case(rule, A, b) + SLACK
    assert 1 - p.max(axis=1).sum() <= e + SLACK
    for i in range(table.ndim - 1):
        rest = tuple(j for j in range(table.ndim - 1) if j != i)
        assert e <= 1 - table.sum(axis=rest).max(axis=1).sum() + SLACK


# ---- marginals that are known with noise only, or by rows


@few
@given(st.data(), st.floats(1e-3, 1.0))
def test_ridge_objective_certifies_under_noisy_marginals(data, alpha):
    """γ(z) ≤ γ̂(z) + λ‖z‖² + ε‖z‖, λ and ε the noise of Q and of dvec."""
    noisy = data.draw(TWO)
    true = random_joint(noisy.shape[:-1], random_state=data.draw(st.integers(0, 999)))
    (Q, F), (Q_hat, F_hat) = moments(true), moments(noisy)
    off = (F - F_hat) @ [-1, 1]
    m, m_hat = marginals_of(true), marginals_of(noisy)
    card = (
        RenyiClassifier(alpha=alpha, fit_intercept=False)
        .fit_marginals(m_hat)
        .scorecard_
    )
    size = np.linalg.norm(card.z)
    extra = np.linalg.norm(Q - Q_hat, 2) * size**2 + np.linalg.norm(off) * size
    assert certify(card, m).gamma <= certify(card, m_hat).gamma + extra + 1e-9


@pytest.mark.parametrize(
    ("n", "simulations"),
    in_full([(50, 40), (2000, 40)], product([50, 200, 2000], [500])),
)
def test_heldout_certificates_cover_the_exact_worst_case(
    n, simulations, confidence=0.9
):
    """Trained on some rows, certified by others, judged on all of C."""
    rng = np.random.default_rng(n)
    missed, judged = dict.fromkeys(rules.RULES, 0), 0
    while judged < simulations:
        K = int(rng.integers(2, 4))
        table = random_joint((2, 3, 2), K, kind="logistic", random_state=rng)
        X, y = sample_joint(table, 60 + n, random_state=rng)
        if len(set(y[:60])) < K:  # a class too rare to be trained on
            continue
        clf = RenyiClassifier(alpha=0.02).fit(X[:60], y[:60])
        c = certify(clf, X[60:], y[60:], confidence=confidence)
        A, b = marginal_constraints(table)
        every = outcomes(table.shape[:-1])
        for rule in rules.RULES:
            worst = worst_case(clf.rule_proba(every, rule), A, b)
            missed[rule] += worst > c.bounds[rule] + SLACK
        judged += 1
    assert max(missed.values()) <= (1 - confidence) * simulations
