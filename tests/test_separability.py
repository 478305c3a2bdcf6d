"""Separability: gamma equals theta exactly when the condition says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from joints import marginal_constraints, minimax_error, outcomes
from renyi import Marginals, RenyiClassifier, separability
from renyi.brier import theta
from renyi.datasets import load, random_joint, sample_joint
from renyi.separability import Separability, separable

pytest.importorskip("clarabel")
pytest.importorskip("highspy")


def marginals_of(table):
    names = [f"x{i}" for i in range(table.ndim - 1)]
    frame = pd.DataFrame(outcomes(table.shape), columns=[*names, "y"])
    return Marginals.from_tables([frame.assign(count=table.ravel())], target="y")


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
    Z, null = separability.minimisers(m)
    assert separability.lowest_estimate(Z, null, np.array([2, 2, 2])) < -0.15
    assert gap(m) < 1e-8


def test_lowest_estimate_over_all_outcomes():
    for seed in range(6):
        table = random_joint((3, 2, 3), 3, kind="logistic", random_state=seed)
        m = marginals_of(table)
        Z, null = separability.minimisers(m)
        W = np.hstack(
            [np.eye(k)[outcomes((3, 2, 3))[:, i]] for i, k in enumerate((3, 2, 3))]
        )
        sizes = np.array([3, 2, 3])
        assert null.shape[1] == 0
        assert np.allclose(m.Q @ Z, m.F, atol=1e-9)
        low = separability.lowest_estimate(Z, null, sizes)
        assert low == pytest.approx((W @ Z).min())


def test_the_best_minimiser_is_looked_for():
    """Two equal columns: points may be shared out between them at will."""
    rng = np.random.default_rng(0)
    x, z = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    y = (rng.random(600) < 0.1 + 0.4 * (x == 1) + 0.45 * z).astype(int)
    m = Marginals.from_data(np.column_stack([x, x, z]), y)
    Z, null = separability.minimisers(m)
    sizes = np.array([3, 3, 2])
    assert null.shape[1] == 2
    assert np.allclose(m.Q @ null, 0, atol=1e-9)
    uneven = Z + null @ np.array([[1.0, -1.0], [0.5, -0.5]])
    assert np.allclose(m.Q @ uneven, m.F, atol=1e-9)
    low = separability.lowest_estimate(uneven, null, sizes)
    plain = separability.lowest_estimate(uneven, null[:, :0], sizes)
    once = Marginals.from_data(np.column_stack([x, z]), y)
    Z1, null1 = separability.minimisers(once)
    alone = separability.lowest_estimate(Z1, null1, np.array([3, 2]))
    assert plain < alone - 0.1
    assert low >= alone - 1e-7
    assert separable(m).answer == separable(once).answer


def test_rows_decide_and_bound_the_minimax_error(monkeypatch):
    monkeypatch.setattr(separability, "MAX_OUTCOMES", 0)
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
            with pytest.raises(ValueError, match="not those"):
                separable(m, shuffled)
            assert found.answer is True
            assert gap(m) < 1e-7
            joint = np.zeros((*(len(c) for c in m.categories.values()),))
            codes = np.column_stack([X, y])
            levels = [np.unique(c, return_inverse=True)[1] for c in codes.T]
            np.add.at(joint, tuple(levels), 1 / len(y))
            A, b = marginal_constraints(joint)
            gamma = RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma
            e = minimax_error(A, b, joint.shape[-1])
            assert gamma - 1e-7 <= found.lower <= e + 1e-7
    assert decided >= 3


def test_wide_tables_are_not_looked_into(monkeypatch):
    X, y = load("votes")
    m = Marginals.from_data(X, y)
    assert separable(m) == Separability(None, "none")
    monkeypatch.setattr(separability, "MAX_CATEGORIES", 3)
    small = Marginals.from_data(X[["crime", "immigration"]], y)
    assert separable(small) == Separability(None, "none")


def test_texts():
    assert "No test decided" in str(Separability(None, "none"))
    assert "not separable" in str(Separability(False, "outcomes"))
    assert "every row" in str(Separability(True, "rows", 0.1))
