"""The minimax problem: its value, and the rules, distributions and texts it leaves.

The linear programs of joints.py check the results.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import renyi.robust.minimax_problem
from renyi import Marginals
from renyi.datasets import load, random_joint
from renyi.formatting import at_most
from renyi.robust.ambiguity_set import Ambiguity, of_tables, shortfall
from renyi.robust.distribution import WorstDistribution, polished
from renyi.robust.minimax_problem import (
    MinimaxResult,
    answer_proba,
    minimax,
)
from renyi.robust.pairwise_program import quadratic_rule, table_rule
from support.counted import draw, grid, marginals
from support.joints import (
    error,
    marginal_constraints,
    minimax_error,
    worst_case,
)
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


# ---- rules, distributions and texts


def test_one_table_rule() -> None:
    table = draw(7)
    m = marginals(table)
    value, multiplier = table_rule(Ambiguity.of(m))[:2]
    best = min(1 - m.block(f, "y").max(axis=1).sum() / m.n for f in m.feature_names)
    assert value == pytest.approx(best)
    assert shortfall(Ambiguity.of(m).functions(multiplier, grid(table))) == 0


@pytest.mark.parametrize(("seed", "conditional"), [(0, False), (5, False), (6, True)])
def test_rule_of_least_squares(seed: int, conditional: bool) -> None:
    table = draw(seed)
    m = marginals(table, class_conditional=conditional)
    value, multiplier = quadratic_rule(Ambiguity.of(m))[:2]
    clf = renyi.RenyiClassifier(alpha=0.0).fit_marginals(m)
    assert value == pytest.approx(2 * clf.certificate_.gamma, abs=1e-9)
    functions = Ambiguity.of(m).functions(multiplier, grid(table))
    assert shortfall(functions) < 1e-9
    A, b = marginal_constraints(table)
    assert worst_case(answer_proba(functions), A, b) <= value + TOL
    assert minimax(m, method="lp").upper <= value + 1e-9


def test_least_squares_needs_all_pairs() -> None:
    X, y = load("votes")
    m = Marginals.from_data(X[["crime", "immigration"]], y)
    tables = [m.block("crime", "party"), m.block("immigration", "party")]
    assert quadratic_rule(of_tables(tables, m))[0] == np.inf


def test_unseen_labels_count_as_the_mean() -> None:
    table = random_joint((3, 2, 4), 3, random_state=8)
    rule = minimax(marginals(table)).rule
    shares = [table.sum(axis=tuple(set(range(4)) - {i})) for i in range(3)]
    one = rule.functions(np.array([[3], [1], [2]]))
    known = [rule.functions(np.array([[k], [1], [2]])) for k in range(3)]
    np.testing.assert_allclose(
        one, sum(s * v for s, v in zip(shares[0], known, strict=True))
    )
    both = rule.functions(np.array([[3], [2], [2]]))
    mean = sum(
        shares[0][k] * shares[1][j] * rule.functions(np.array([[k], [j], [2]]))
        for k in range(3)
        for j in range(2)
    )
    np.testing.assert_allclose(both, mean)
    frame = pd.DataFrame([["new", "1", "2"]], columns=["x0", "x1", "x2"])
    np.testing.assert_allclose(rule.rule_proba(frame), answer_proba(one))


def test_distribution_as_frame_and_sample() -> None:
    X, y = load("votes")
    few = X[["crime", "immigration", "education-spending"]]
    m = Marginals.from_data(few, y)
    worst = minimax(m).worst_distribution
    frame = worst.frame()
    assert frame["probability"].sum() == pytest.approx(1, abs=1e-12)
    assert frame["probability"].is_monotonic_decreasing
    assert len(frame) == len(worst)
    again = Marginals.from_data(
        frame.drop(columns="probability"),
        target="party",
        sample_weight=frame["probability"],
    )
    np.testing.assert_allclose(again.Q, m.Q, atol=1e-9)
    np.testing.assert_allclose(again.F, m.F, atol=1e-9)
    drawn = worst.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, 4)
    shares = Marginals.from_data(drawn, target="party")
    np.testing.assert_allclose(shares.Q, m.Q, atol=0.02)
    pd.testing.assert_frame_equal(drawn, worst.sample(20_000, random_state=0))
    assert "distribution on" in str(worst)


def test_error_of_a_fitted_model_under_a_distribution() -> None:
    X, y = load("votes")
    few = X[["crime", "immigration", "education-spending"]]
    worst = minimax(Marginals.from_data(few, y)).worst_distribution
    clf = renyi.RenyiClassifier(rule="sharp").fit(few, y)
    frame = worst.frame()
    proba = clf.rule_proba(frame[few.columns])
    right = proba[np.arange(len(frame)), (frame["party"] == "republican").astype(int)]
    expected = (frame["probability"] * (1 - right)).sum()
    assert worst.error(clf) == pytest.approx(expected)
    assert expected >= worst.bayes_error - 1e-12
    table = np.full((len(worst.outcomes), 2), 0.5)
    assert worst.error(table) == pytest.approx(error(table, worst.p))


@pytest.mark.parametrize("seed", range(6))
def test_polishing_restores_what_noise_took(seed: int) -> None:
    table = draw(seed)
    rng = np.random.default_rng(seed)
    ambiguity = Ambiguity.of(marginals(table))
    p = table.reshape(-1, table.shape[-1])
    noisy = np.maximum(p + 1e-7 * (p > 0) * rng.normal(size=p.shape), 0)
    fixed = polished(ambiguity, grid(table), noisy)
    A, b = marginal_constraints(table)
    assert np.abs(A @ fixed.ravel() - b).max() < 1e-10
    assert fixed.min() >= 0
    assert np.abs(fixed - p).max() < 1e-4


def test_polishing_may_need_outcomes_that_were_dropped() -> None:
    table = random_joint((3, 3), 2, random_state=0)
    ambiguity = Ambiguity.of(marginals(table))
    p = table.reshape(-1, 2).copy()
    p[3:6] = 0  # a whole category
    p += 1e-9
    p[3:6] = 0
    worst = WorstDistribution.of(ambiguity, grid(table), p)
    assert worst.marginal_error < 1e-9


def test_result_as_text() -> None:
    table = draw(3)
    exact, bound = minimax(marginals(table)), minimax(marginals(table), method="lp")
    assert "no rule can guarantee less than" in str(exact)
    assert f"wrong on at most {at_most(exact.upper)} of" in str(exact)
    told = replace(bound, upper=0.04362, lower=0.04358)
    assert "between 0.043580 and 0.043620" in str(told)
    assert "wrong on at most 4.37 %" in str(told)  # 4.36 % would be too little
    assert "no rule" not in str(bound)
    assert bound.gap == bound.upper


def test_a_column_named_probability_is_kept() -> None:
    X = pd.DataFrame({"probability": list("ppqq") * 5, "b": list("uvuv") * 5})
    y = pd.Series(list("nnpp") * 5, name="probability_")
    shown = minimax(Marginals.from_data(X, y)).worst_distribution
    assert shown is not None
    frame = shown.frame()
    assert list(frame.columns) == ["probability", "b", "probability_", "probability__"]
    assert set(frame["probability"]) == {"p", "q"}
    assert frame["probability__"].sum() == pytest.approx(1)
    assert (frame["probability__"].diff().dropna() <= 0).all()
