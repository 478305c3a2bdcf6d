"""Minimum information and pairs along cycles, against programs of their own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from experiments import cycles, information
from experiments.theorems import marginals_of
from renyi.datasets import random_joint
from renyi.robust.ambiguity_set import Ambiguity
from support.joints import largest_brier_risk, marginal_constraints


def pair_equations(shape):
    """Return the equations of P(X_i, X_j) and P(X_i, Y), built cell by cell."""
    d = len(shape) - 1
    groups = [*itertools.combinations(range(d), 2), *((i, d) for i in range(d))]
    return equations(shape, groups)


def equations(shape, groups):
    """Return a 0/1 matrix: one row for each cell of the tables over `groups`."""
    cells = list(itertools.product(*map(range, shape)))
    rows = []
    for group in groups:
        for values in itertools.product(*(range(shape[i]) for i in group)):
            rows.append([tuple(cell[i] for i in group) == values for cell in cells])
    return np.array(rows, float)


def largest_loss(joint, loss):
    """Return the largest expected loss over all distributions with the pairs."""
    A = pair_equations(joint.shape)
    answer = linprog(-loss.ravel(), A_eq=A, b_eq=A @ joint.ravel(), bounds=(0, None))
    assert answer.status == 0
    return -answer.fun


def smallest_worst_error(joint, groups):
    """Return e* given tables: the largest Σ_x (p(x) − max_y p(x, y))."""
    K = joint.shape[-1]
    N = joint.size // K
    A = equations(joint.shape, groups)
    A_eq = np.hstack([A, np.zeros((len(A), N))])
    cell = np.arange(N * K)
    A_ub = np.zeros((N * K, N * K + N))
    A_ub[cell, cell] = 1
    A_ub[cell, N * K + cell // K] = -1
    cost = np.concatenate([-np.ones(N * K), np.ones(N)])
    answer = linprog(cost, A_ub, np.zeros(N * K), A_eq, A @ joint.ravel())
    assert answer.status == 0
    return -answer.fun


def tables(number, n_classes=2):
    for k in range(number):
        random = np.random.default_rng([7, k, n_classes])
        kind = ("dirichlet", "additive", "logistic")[k % 3]
        sizes = random.integers(2, 4, random.integers(2, 4)).tolist()
        yield random_joint(
            sizes, n_classes, kind=kind, concentration=1.0, random_state=random
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_least_information_is_a_saddle_point_of_log_loss(n_classes):
    # No rule has a smaller worst log loss than the largest entropy of a member: where
    # the two are equal, both the member and the rule are optimal.
    for joint in tables(9, n_classes):
        result = information.least_informed(Ambiguity.of(marginals_of(joint)))
        A = pair_equations(joint.shape)
        assert A @ result.p.ravel() == pytest.approx(A @ joint.ravel(), abs=1e-7)
        loss = -np.log(np.maximum(result.rule, 1e-300))
        assert result.rule.sum(axis=1) == pytest.approx(np.ones(len(result.rule)))
        assert largest_loss(joint, loss) == pytest.approx(result.entropy, abs=1e-5)
        assert (
            result.entropy >= information.entropy(joint.reshape(-1, n_classes)) - 1e-7
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_largest_entropy_bounds_the_error(n_classes):
    for joint in tables(9, n_classes):
        result = information.least_informed(Ambiguity.of(marginals_of(joint)))
        answers = information.likeliest(result.rule)
        assert largest_loss(joint, 1 - answers) <= result.entropy / np.log(2) + 1e-6
        assert largest_loss(joint, 1 - result.rule) <= result.entropy + 1e-6


def test_bounds_of_a_ring():
    # One or two of three columns are 1, and the class says which: the sum of the
    # columns tells it, so that γ = 0. No tree fixes that sum.
    joint = cycles.ring(3, 1, 0.0, np.random.default_rng(3))
    result = cycles.compared(joint)
    assert result["renyi"] == pytest.approx(0, abs=1e-9)
    assert result["tree"] > 0.05
    assert result["separable"]


def some_tables():
    """Return tables of all kinds, rings of three and four columns the most often."""
    for k in range(16):
        yield cycles.drawn("ring" if k % 2 else cycles.KINDS[1 + k // 2 % 3], k, 5)
    for d, k in ((3, 1), (4, 1), (4, 2)):
        yield cycles.ring(d, k, 0.15, np.random.default_rng(d + k))
    yield cycles.drawn("dirichlet", 7, 0)  # not separable, 2γ below all trees
    yield cycles.drawn("logistic", 179, 0)


def trees(d):
    """Return the sets of d - 1 edges that connect d columns."""
    for edges in itertools.combinations(itertools.combinations(range(d), 2), d - 1):
        reached = {0}
        for _ in edges:
            reached.update(i for e in edges if reached & {*e} for i in e)
        if len(reached) == d:
            yield edges


def test_bounds_of_trees_against_a_program_over_all_outcomes():
    flags = []
    for joint in some_tables():
        d = joint.ndim - 1
        bounds = [
            smallest_worst_error(joint, [(*edge, d) for edge in edges])
            for edges in trees(d)
        ]
        assert len(bounds) == d ** (d - 2)  # Cayley
        result = cycles.compared(joint)
        assert result["columns"] == d
        assert result["tree"] == pytest.approx(min(bounds), abs=1e-7)
        gamma = least_risk(joint)
        assert result["renyi"] == pytest.approx(2 * gamma, abs=1e-9)
        assert result["separable"] == (
            gamma - largest_brier_risk(*marginal_constraints(joint)) < 3e-6
        )
        flags.append((result["separable"], result["renyi"] < result["tree"]))
    assert {*flags} == {*itertools.product((True, False), repeat=2)}


def test_tables_that_are_not_separable_are_counted():
    some = {"columns": 3, "renyi": 0.1, "tree": 0.3, "separable": False}
    more = [{**some, "renyi": 0.4}, {**some, "separable": True, "renyi": 0.5}]
    report = cycles.report({"dirichlet 0": [some, *more]}, {})
    (table,) = report.tables.values()
    rows = table.set_index("separable")
    assert rows["tables"].to_dict() == {"no": 2, "yes": 1}
    assert rows["2γ below"].to_dict() == {"no": 1, "yes": 0}
    assert rows.loc["no", "share"] == "50.0 %"
    assert rows.loc["no", "largest gain, points"] == pytest.approx(20)
    assert rows.loc["no", "mean 2γ %"] == pytest.approx(25)


@pytest.mark.parametrize("kind", information.KINDS)
def test_both_principles_against_programs(kind):
    for k in range(4):
        joint = information.drawn(kind, k, 3)
        d = joint.ndim - 1
        pairs = [*itertools.combinations(range(d + 1), 2)]
        result = information.compared(joint)
        least = smallest_worst_error(joint, pairs)
        assert result["minimax"] == pytest.approx(least, abs=1e-6)
        assert result["theta"] == pytest.approx(
            largest_brier_risk(*marginal_constraints(joint)), abs=3e-6
        )
        chances = information.least_informed(Ambiguity.of(marginals_of(joint))).rule
        likelier = (chances > 0.5) * 1.0
        by_squares = chances**2 / (chances**2).sum(axis=1, keepdims=True)
        rules = {"drawn": chances, "squares": by_squares, "information": likelier}
        for name, rule in rules.items():
            worst = largest_loss(joint, 1 - rule)
            assert result[name] == pytest.approx(worst, abs=1e-6)
        for name, factor in (("renyi", 2), ("map", 4)):
            assert least - 1e-6 <= result[name] <= factor * result["theta"] + 1e-6


def least_risk(joint):
    """Return γ by least squares on one-hot rows, weighted by their probabilities."""
    cells = list(itertools.product(*map(range, joint.shape)))
    W = [[x[i] == k for i in range(len(x) - 1) for k in (0, 1)] for x in cells]
    c = np.array([x[-1] - 0.5 for x in cells])
    root = np.sqrt(joint.ravel())
    z, *_ = np.linalg.lstsq(np.array(W, float) * root[:, None], c * root)
    return float(((np.array(W) @ z - c) ** 2 * joint.ravel()).sum())
