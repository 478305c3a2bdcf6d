"""The minimax problem, with the linear programs of joints.py as judge."""

from __future__ import annotations

import numpy as np
import pytest

import renyi.robust.minimax_problem
from renyi import Marginals
from renyi.datasets import load, random_joint
from renyi.robust.ambiguity_set import shortfall
from renyi.robust.minimax_problem import MinimaxResult, minimax
from support.counted import draw, grid, marginals
from support.joints import marginal_constraints, minimax_error, worst_case
from support.repeats import few

TOL = 1e-6


def check_saddle(table: np.ndarray, result: MinimaxResult) -> None:
    """Both sides of the saddle point, and the evidence for each."""
    A, b = marginal_constraints(table)
    e_star = minimax_error(A, b, table.shape[-1])
    assert result.lower <= result.upper
    assert result.upper == pytest.approx(e_star, abs=TOL)
    assert result.lower == pytest.approx(e_star, abs=TOL)
    assert result.status == "solved"
    # The functions are feasible at all outcomes, and the rule attains its guarantee.
    rule, X = result.rule, grid(table)
    assert shortfall(rule.functions(X.T)) < 1e-7
    proba = rule.of_codes(X.T)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.min() >= 0
    assert worst_case(proba, A, b) == pytest.approx(e_star, abs=TOL)
    # The distribution has the marginals, and no rule does better under it.
    worst = result.worst_distribution
    assert worst is not None
    assert worst.p.min() >= 0
    assert worst.marginal_error <= 1e-9
    assert worst.error(rule) == pytest.approx(e_star, abs=TOL)
    assert 1 - worst.p.max(axis=1).sum() == pytest.approx(e_star, abs=TOL)
    # The rule answers only what is most likely under the worst distribution.
    loss = worst.p.max(axis=1, keepdims=True) - worst.p
    assert (rule.of_codes(worst.outcomes.T) * loss).max() < TOL
    # The deterministic rule is within twice the guarantee.
    best = np.eye(table.shape[-1])[rule.functions(X.T).argmin(axis=1)]
    assert worst_case(best, A, b) <= 2 * e_star + TOL


@pytest.mark.parametrize("seed", few(14, range(40)))
def test_direct_program(seed: int) -> None:
    table = draw(seed)
    result = minimax(marginals(table))
    assert result.method == "direct"
    check_saddle(table, result)


@pytest.mark.parametrize("seed", few(8, range(100, 118)))
def test_cutting_planes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    table = draw(seed, largest=120)
    result = minimax(marginals(table), method="exact", tolerance=1e-7)
    assert result.method == "cutting planes"
    check_saddle(table, result)


def test_equations_that_fail_by_rounding_alone(monkeypatch) -> None:
    """Cells of 1e-11 beside large ones: a member was found infeasible, lower was 0."""
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    table = draw(1070, largest=1500)
    assert 0 < table.min() < 1e-12
    check_saddle(table, minimax(marginals(table), "exact", tolerance=1e-7))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_three_hundred_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = draw(seed, largest=1500)
    check_saddle(table, minimax(marginals(table)))
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    check_saddle(table, minimax(marginals(table), "exact", tolerance=1e-7))


@pytest.mark.parametrize("seed", range(20))
def test_polynomial_program_is_an_upper_bound_that_its_rule_keeps(seed: int) -> None:
    table = draw(seed)
    A, b = marginal_constraints(table)
    K = table.shape[-1]
    m = marginals(table)
    result = minimax(m, method="lp")
    assert result.lower == 0
    assert result.worst_distribution is None
    assert result.upper >= minimax_error(A, b, K) - TOL
    X = grid(table)
    assert shortfall(result.rule.functions(X.T)) < 1e-9
    assert worst_case(result.rule.of_codes(X.T), A, b) <= result.upper + TOL
    # Never worse than looking at one feature, or at none.
    ones = [1 - m.block(f, "y").max(axis=1).sum() / m.n for f in m.feature_names]
    assert result.upper <= min([*ones, 1 - m.class_probabilities.max()]) + 1e-8


def test_polynomial_program_on_real_tables() -> None:
    for name, value in (("votes", 0.04368), ("kr-vs-kp", 0.13204), ("credit", 0.13623)):
        result = minimax(Marginals.from_data(*load(name)), method="lp")
        assert result.upper == pytest.approx(value, abs=1e-5)
        assert result.status == "bounded"


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_class_conditional_pairs_leave_fewer_distributions(seed: int) -> None:
    table = draw(seed)
    m = marginals(table, class_conditional=True)
    wide = minimax(m, class_conditional=False)
    narrow = minimax(m)
    assert narrow.upper <= wide.upper + TOL
    assert narrow.gap <= TOL
    assert narrow.worst_distribution is not None
    # Its pairs within each class are those of the table.
    worst = narrow.worst_distribution
    for i in range(table.ndim - 1):
        for j in range(i):
            found = np.zeros((table.shape[j], table.shape[i], table.shape[-1]))
            np.add.at(found, (worst.outcomes[:, j], worst.outcomes[:, i]), worst.p)
            rest = tuple(set(range(table.ndim - 1)) - {i, j})
            np.testing.assert_allclose(found, table.sum(axis=rest), atol=1e-9)


def test_two_columns_with_class_conditional_pairs_are_known_exactly() -> None:
    table = random_joint((3, 4), 3, random_state=5)
    result = minimax(marginals(table, class_conditional=True))
    bayes = 1 - table.max(axis=-1).sum()
    assert result.lower == pytest.approx(bayes, abs=1e-9)
    assert result.upper == pytest.approx(bayes, abs=1e-9)
