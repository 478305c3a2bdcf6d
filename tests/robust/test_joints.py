"""The ground-truth programs of joints.py, against hand computation and duality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from renyi.datasets import random_joint
from support.joints import (
    constraint_matrix,
    error,
    marginal_constraints,
    minimax_error,
    moments,
    one_hot_outcomes,
    outcomes,
    worst_case,
    worst_distribution,
)

SHAPES = [((2, 2, 2), 2), ((2, 3, 2), 3), ((3, 3), 2), ((2, 2, 2, 2), 4)]
TOL = 1e-8


def coin_table(a: float) -> np.ndarray:
    """Two fair coins x, P(1|x) = 1/2 + a (s_1 + s_2) with s_i = +-1."""
    p1 = 0.25 * (0.5 + a * np.array([[-2.0, 0.0], [0.0, 2.0]]))
    return np.stack([0.25 - p1, p1], axis=-1)


def random_rule(rng: np.random.Generator, table: np.ndarray) -> np.ndarray:
    n_classes = table.shape[-1]
    return rng.dirichlet(np.full(n_classes, 0.3), size=table.size // n_classes)


def test_outcomes_follow_the_order_of_ravel() -> None:
    sizes = (2, 3, 2)
    expected = list(itertools.product(*map(range, sizes)))
    assert outcomes(sizes).tolist() == [list(x) for x in expected]
    W = one_hot_outcomes(sizes)
    assert W.shape == (12, 7)
    assert W[5].tolist() == [1, 0, 0, 0, 1, 0, 1]  # outcome (0, 2, 1)


@pytest.mark.parametrize(("sizes", "n_classes"), SHAPES)
def test_moments_and_constraints_are_the_marginals(sizes, n_classes) -> None:
    table = random_joint(sizes, n_classes, random_state=1)
    Q, F = moments(table)
    A, b = marginal_constraints(table)
    start = np.concatenate([[0], np.cumsum(sizes)])
    axes = range(len(sizes))

    def marginal(*keep: int) -> np.ndarray:
        return table.sum(axis=tuple(set(range(table.ndim)) - set(keep)))

    pairs, labels = [], []
    for i in axes:
        rows = slice(start[i], start[i + 1])
        np.testing.assert_allclose(Q[rows, rows], np.diag(marginal(i)))
        np.testing.assert_allclose(F[rows], marginal(i, len(sizes)))
        labels.append(marginal(i, len(sizes)).ravel())
        for j in axes[i + 1 :]:
            cols = slice(start[j], start[j + 1])
            np.testing.assert_allclose(Q[rows, cols], marginal(i, j))
            pairs.append(marginal(i, j).ravel())
    np.testing.assert_allclose(b, np.concatenate(pairs + labels))
    assert A.shape == (len(b), table.size)


def test_fair_coins_by_hand() -> None:
    # q(11) = .3125 - t, q(10) = q(01) = t, q(00) = .1875 - t are all the P(x, 1) in
    # the class; the Bayes error .125 + 2 min(t, .25 - t) is largest at t = 1/8.
    A, b = marginal_constraints(coin_table(1 / 8))
    assert minimax_error(A, b, 2) == pytest.approx(0.375, abs=TOL)
    # At a = 1/4 only t = 1/8 is left, and two outcomes are certain.
    A, b = marginal_constraints(coin_table(1 / 4))
    assert minimax_error(A, b, 2) == pytest.approx(0.25, abs=TOL)


def test_exclusive_or_cannot_be_learned_from_pairs() -> None:
    table = np.zeros((2, 2, 2))
    for x in itertools.product((0, 1), repeat=2):
        table[(*x, x[0] ^ x[1])] = 0.25
    A, b = marginal_constraints(table)
    perfect = np.eye(2)[[0, 1, 1, 0]]
    assert error(perfect, table) == 0
    assert minimax_error(A, b, 2) == pytest.approx(0.5, abs=TOL)
    assert worst_case(perfect, A, b) == pytest.approx(1.0, abs=TOL)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_single_feature_leaves_nothing_open(n_classes: int) -> None:
    table = random_joint([6], n_classes, random_state=n_classes)
    A, b = marginal_constraints(table)
    expected = 1 - table.max(axis=1).sum()
    assert minimax_error(A, b, n_classes) == pytest.approx(expected, abs=TOL)
    rule = random_rule(np.random.default_rng(0), table)
    assert worst_case(rule, A, b) == pytest.approx(error(rule, table), abs=TOL)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_label_independent_of_the_features_costs_the_minority(n_classes) -> None:
    rng = np.random.default_rng(3)
    label = rng.dirichlet(np.ones(n_classes))
    table = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)[..., None] * label
    A, b = marginal_constraints(table)
    expected = 1 - label.max()
    assert minimax_error(A, b, n_classes) == pytest.approx(expected, abs=TOL)


@pytest.mark.parametrize("kind", ["dirichlet", "additive", "logistic"])
@pytest.mark.parametrize(("sizes", "n_classes"), SHAPES)
def test_order_of_error_minimax_and_worst_case(sizes, n_classes, kind) -> None:
    rng = np.random.default_rng(7)
    table = random_joint(sizes, n_classes, kind=kind, random_state=rng)
    A, b = marginal_constraints(table)
    e_star = minimax_error(A, b, n_classes)
    P = table.reshape(-1, n_classes)
    assert 1 - P.max(axis=1).sum() - TOL <= e_star
    assert e_star <= 1 - P.sum(axis=0).max() + TOL
    for rule in (random_rule(rng, table), np.eye(n_classes)[P.argmax(axis=1)]):
        worst = worst_case(rule, A, b)
        assert e_star - TOL <= worst
        assert error(rule, table) - TOL <= worst
        p = worst_distribution(rule, A, b)
        assert p.min() >= -TOL
        np.testing.assert_allclose(A @ p.ravel(), b, atol=TOL)


@pytest.mark.parametrize(("sizes", "n_classes"), SHAPES)
def test_strong_duality_and_the_rule_that_attains_it(sizes, n_classes) -> None:
    # Dual: lambda = A' u, sum_{y in S} lambda_y(x) >= |S| - 1 for every nonempty S.
    table = random_joint(sizes, n_classes, random_state=11)
    A, b = marginal_constraints(table)
    cells = A.toarray().T.reshape(-1, n_classes, len(b))
    subsets = [
        list(S)
        for size in range(1, n_classes + 1)
        for S in itertools.combinations(range(n_classes), size)
    ]
    G = np.concatenate([cells[:, S].sum(axis=1) for S in subsets])
    h = np.repeat([len(S) - 1.0 for S in subsets], len(cells))
    dual = linprog(b, A_ub=-G, b_ub=-h, bounds=(None, None), method="highs")
    assert dual.fun == pytest.approx(minimax_error(A, b, n_classes), abs=TOL)

    floor = np.clip(1 - cells @ dual.x, 0, None)  # 1 - r_y <= lambda_y
    rule = floor.copy()
    rule[:, 0] += 1 - floor.sum(axis=1)
    assert rule.min() >= -TOL
    assert worst_case(rule, A, b) == pytest.approx(dual.fun, abs=10 * TOL)


def test_constraint_matrix_counts_every_pair_once() -> None:
    A = constraint_matrix((2, 3, 4), 5)
    assert A.shape == (6 + 8 + 12 + 5 * (2 + 3 + 4), 120)
    # Every (x, y) lies in one cell of each of the six tables.
    assert np.array_equal(A.sum(axis=0), np.full(120, 6))


def test_nearly_empty_tables_stay_feasible() -> None:
    # With presolve, seven of these sixty programs are called infeasible.
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = random_joint(
            (2, 3, 3), 3, kind="logistic", concentration=0.03, random_state=rng
        )
        A, b = marginal_constraints(table)
        worst = worst_case(random_rule(rng, table), A, b)
        assert minimax_error(A, b, 3) <= worst + TOL


def test_tables_of_250_outcomes() -> None:
    table = random_joint((3,) * 5, 3, random_state=0)
    A, b = marginal_constraints(table)
    rule = random_rule(np.random.default_rng(0), table)
    worst, e_star = worst_case(rule, A, b), minimax_error(A, b, 3)
    assert e_star <= worst + TOL
