"""Separability: gamma equals theta exactly when the condition says so."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from renyi import Marginals, RenyiClassifier, certify
from renyi.datasets import load, random_joint, sample_joint
from renyi.robust import brier_risk
from renyi.robust.brier_risk import Separability, separable, theta
from support.counted import marginals_of
from support.joints import marginal_constraints, minimax_error, outcomes

pytest.importorskip("clarabel")
pytest.importorskip("highspy")


def tight_of(table):
    """Marginals with class-conditional pairs."""
    codes = outcomes(table.shape)
    return Marginals.from_data(
        codes[:, :-1],
        codes[:, -1],
        sample_weight=table.ravel(),
        class_conditional=True,
    )


def joint_of(X, y, w):
    """Joint table of rows, and the tables that all members of C share."""
    levels = [np.unique(c, return_inverse=True)[1] for c in np.column_stack([X, y]).T]
    joint = np.zeros([int(c.max()) + 1 for c in levels])
    np.add.at(joint, tuple(levels), w / w.sum())
    return joint


def gap(m):
    gamma = RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma
    return gamma - theta(m).theta


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("kind", ["dirichlet", "additive", "logistic"])
def test_answer_is_whether_gamma_equals_theta(K, kind):
    answers = set()
    for seed in range(12):
        sizes = ((2, 2, 2), (2, 3, 2), (3, 3))[seed % 3]
        table = random_joint(
            sizes, K, kind=kind, concentration=1, random_state=[K, seed]
        )
        m = marginals_of(table)
        found = separable(m)
        answers.add(found.answer)
        if found.answer:
            assert gap(m) < 1e-8, (seed, found)
            continue
        assert found.test == "outcomes"
        # The gap is about mass · excess²: below a solver's precision if both are small.
        if separable(m, tolerance=1e-3).answer is False:
            assert gap(m) > 5e-10, (seed, found)
    assert answers == ({True} if kind == "additive" else answers | {False})
    assert True in answers or kind == "logistic"


def test_scores_beyond_one_half_do_not_preclude_separability():
    """The paper's condition max |s| <= 1/2 is sufficient, not necessary."""
    table = 0.936 * random_joint((2, 2, 2), concentration=1, random_state=364) + 0.004
    m = marginals_of(table)
    assert table.min() >= 0.004
    assert separable(m) == Separability(True, "outcomes")
    Z, null = brier_risk.minimisers(m)
    assert brier_risk.lowest_estimate(Z, null, np.array([2, 2, 2])) < -0.15
    assert gap(m) < 1e-8


def test_lowest_estimate_over_all_outcomes():
    for seed in range(6):
        table = random_joint((3, 2, 3), 3, kind="logistic", random_state=seed)
        m = marginals_of(table)
        Z, null = brier_risk.minimisers(m)
        W = np.hstack(
            [np.eye(k)[outcomes((3, 2, 3))[:, i]] for i, k in enumerate((3, 2, 3))]
        )
        sizes = np.array([3, 2, 3])
        assert null.shape[1] == 0
        assert np.allclose(m.Q @ Z, m.F, atol=1e-9)
        low = brier_risk.lowest_estimate(Z, null, sizes)
        assert low == pytest.approx((W @ Z).min())


def test_columns_of_unlike_sizes_exchange_constants_only():
    """What else is added to a minimiser must be in the null space of Q."""
    answers = []
    for seed in range(12):
        sizes = ((2, 9), (12, 2, 2), (2, 3, 7))[seed % 3]
        kind = ("logistic", "additive")[seed // 6]
        m = marginals_of(
            random_joint(sizes, 2 + seed % 2, kind=kind, random_state=seed)
        )
        assert brier_risk.minimisers(m)[1].shape[1] == 0
        answers.append(separable(m).answer)
        assert gap(m) < 1e-8 if answers[-1] else gap(m) > 1e-8, (seed, answers)
    assert {*answers} == {True, False}


def test_the_best_minimiser_is_looked_for():
    """Two equal columns: points may be shared out between them at will."""
    rng = np.random.default_rng(0)
    x, z = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    y = (rng.random(600) < 0.1 + 0.4 * (x == 1) + 0.45 * z).astype(int)
    m = Marginals.from_data(np.column_stack([x, x, z]), y)
    Z, null = brier_risk.minimisers(m)
    sizes = np.array([3, 3, 2])
    assert null.shape[1] == 2
    assert np.allclose(m.Q @ null, 0, atol=1e-9)
    uneven = Z + null @ np.array([[1.0, -1.0], [0.5, -0.5]])
    assert np.allclose(m.Q @ uneven, m.F, atol=1e-9)
    low = brier_risk.lowest_estimate(uneven, null, sizes)
    plain = brier_risk.lowest_estimate(uneven, null[:, :0], sizes)
    once = Marginals.from_data(np.column_stack([x, z]), y)
    Z1, null1 = brier_risk.minimisers(once)
    alone = brier_risk.lowest_estimate(Z1, null1, np.array([3, 2]))
    assert plain < alone - 0.1
    assert low >= alone - 1e-7
    assert separable(m).answer == separable(once).answer


def test_rows_decide_and_bound_the_minimax_error(monkeypatch):
    monkeypatch.setattr(brier_risk, "MAX_OUTCOMES", 0)
    decided = 0
    for seed in range(80):
        table = random_joint((2, 2, 3), concentration=0.5, random_state=seed)
        X, y = sample_joint(table, 60, random_state=seed)
        m = Marginals.from_data(X, y)
        if separable(m).answer is not None:
            continue
        found = separable(m, X)
        if found.test == "rows":
            decided += 1
            shuffled = np.column_stack([X[:, 0], np.roll(X[:, 1], 1), X[:, 2]])
            with pytest.raises(ValueError, match="rows X"):
                separable(m, shuffled)
            assert found.answer is True
            assert gap(m) < 1e-7
            joint = joint_of(X, y, np.ones(len(y)))
            A, b = marginal_constraints(joint)
            gamma = RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma
            e = minimax_error(A, b, joint.shape[-1])
            assert gamma - 1e-7 <= found.lower <= e + 1e-7
    assert decided >= 3


def test_weights_count_in_the_test_by_rows():
    decided = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = random_joint((2, 2, 2, 2), concentration=0.5, random_state=rng)
        X, y = sample_joint(table, 60, random_state=rng)
        w = rng.exponential(size=60) ** 3 * (rng.random(60) < 0.9)
        m = Marginals.from_data(X, y, sample_weight=w)
        with pytest.raises(ValueError, match="sample_weight"):
            separable(m, X)
        found = separable(m, X, sample_weight=w)
        if found.test == "rows":
            decided += 1
            tripled = separable(m, X, sample_weight=3 * w)
            assert tripled.lower == pytest.approx(found.lower)
            joint = joint_of(X, y, w)
            A, b = marginal_constraints(joint)
            gamma = RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma
            assert gap(m) < 1e-7
            assert gamma - 1e-7 <= found.lower
            assert found.lower <= minimax_error(A, b, joint.shape[-1]) + 1e-7
    assert decided >= 1


def test_rows_that_are_not_those_of_weighted_marginals_are_refused():
    table = random_joint((2, 2, 2), concentration=0.3, random_state=3)
    X, y = sample_joint(table, 100, random_state=3)
    w = np.random.default_rng(0).exponential(size=100)
    m = Marginals.from_data(X, y, sample_weight=w)
    for row in outcomes((2, 2, 2)):
        with pytest.raises(ValueError, match="rows X"):
            separable(m, row[None, :], sample_weight=[m.n])


# ---- class-conditional pairs


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("kind", ["dirichlet", "additive"])
def test_answer_is_about_the_set_that_theta_is_about(K, kind):
    """With class-conditional pairs, probabilities at every outcome are not enough."""
    loose = set()
    for seed in range(8):
        sizes = ((2, 2, 2), (2, 3, 2), (3, 3))[seed % 3]
        m = tight_of(random_joint(sizes, K, kind=kind, random_state=[K, seed]))
        found = separable(m)
        assert found.class_conditional
        assert found.test == "outcomes"
        assert found.answer is (kind == "additive"), seed
        assert (gap(m) < 1e-8) is (kind == "additive"), seed
        both = separable(m, class_conditional=False)
        gamma = gap(m) + theta(m).theta
        wide = theta(m, class_conditional=False).theta
        loose.add(both.answer)
        assert not both.class_conditional
        if both.answer:
            assert wide == pytest.approx(gamma, abs=1e-8)
        assert "with their class-conditional pairs" in str(found)
        assert "class-conditional" not in str(both)
    assert True in loose


def test_some_member_of_class_conditional_pairs_not_the_true_one():
    """The rows need not have the conditional t: some other member may."""
    answers = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table = random_joint((2, 2, 2), kind="additive", random_state=rng)
        # A threefold product of signs: in no pair, with or without the class.
        sign = np.prod(1 - 2 * np.indices(table.shape), axis=0)
        other = table + 0.9 * table.min() * sign
        m = tight_of(other)
        answers.append(separable(m))
        conditional = other / other.sum(axis=-1, keepdims=True)
        assert not np.allclose(
            conditional, table / table.sum(axis=-1, keepdims=True), atol=1e-4
        )
        assert gap(m) < 1e-8
    assert answers == [Separability(True, "outcomes", None, True)] * 3


def test_rows_with_class_conditional_pairs(monkeypatch):
    """Rows whose conditional is additive decide; others do not."""
    monkeypatch.setattr(brier_risk, "MAX_OUTCOMES", 0)
    counts = np.array([[1, 1], [2, 2]])[..., None] * 20
    share = np.array([[0.25, 0.5], [0.5, 0.75]])[..., None]
    table = np.concatenate([counts * share, counts * (1 - share)], axis=-1)
    codes = np.repeat(outcomes(table.shape), table.ravel().astype(int), axis=0)
    X, y = codes[:, :2], codes[:, 2]
    m = Marginals.from_data(X, y, class_conditional=True)
    assert separable(m) == Separability(None, "none", None, True)
    found = separable(m, X)
    assert found.test == "rows"
    assert found.lower == pytest.approx(1 - table.max(axis=-1).sum() / table.sum())
    assert "classes drawn by them" in str(found)
    assert gap(m) < 1e-8
    y = np.where(np.arange(len(y)) == 0, 1 - y, y)
    other = Marginals.from_data(X, y, class_conditional=True)
    assert separable(other, class_conditional=False).answer is True
    assert separable(other, X) == Separability(None, "none", None, True)
    assert gap(other) > 1e-6


def test_impossible_class_conditional_pairs_are_refused():
    m = tight_of(np.full((2, 2, 2, 2), 1 / 16))
    pair = np.array([[0.14, 0.36], [0.36, 0.14]])
    counts, inner = m.counts.copy(), m.class_counts.copy()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for a, b in ((i, j), (j, i)):
            block = np.ix_([2 * a, 2 * a + 1], [2 * b, 2 * b + 1])
            counts[block] = pair
            for part in inner:
                part[block] = pair / 2
    impossible = replace(m, counts=counts, class_counts=inner)
    with pytest.raises(ValueError, match="No distribution"):
        separable(impossible)


def test_wide_tables_are_not_looked_into(monkeypatch):
    X, y = load("votes")
    m = Marginals.from_data(X, y)
    assert separable(m) == Separability(None, "none")
    monkeypatch.setattr(brier_risk, "MAX_CATEGORIES", 3)
    small = Marginals.from_data(X[["crime", "immigration"]], y)
    assert separable(small) == Separability(None, "none")


@pytest.mark.parametrize(
    "shape, n_labels, tight",
    [((80, 12), 2, False), ((80, 12), 2, True), ((80, 30), 20, False)],
)
def test_a_time_limit_ends_the_programs(shape, n_labels, tight):
    """Without it they take 0.3 s, 6 s and more than a minute."""
    X = np.random.default_rng(0).integers(0, n_labels, shape)
    m = Marginals.from_data(X, X[:, :3].sum(axis=1) % 2, class_conditional=tight)
    begun = time.process_time()
    assert separable(m, time_limit=0.05) == Separability(None, "none", None, tight)
    assert time.process_time() - begun < 4
    if tight:
        clf = RenyiClassifier().fit_marginals(m)
        assert certify(clf, m, separable=True, time_limit=0.05).separable is None
    with pytest.raises(ValueError, match="time_limit"):
        separable(m, time_limit=0)


def test_texts():
    assert "No test decided" in str(Separability(None, "none"))
    assert "not separable" in str(Separability(False, "outcomes"))
    assert "every row" in str(Separability(True, "rows", 0.1))
