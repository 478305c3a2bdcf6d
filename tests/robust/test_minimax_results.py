"""Rules, distributions and texts that a minimax problem leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import renyi.robust.minimax_problem
from renyi import Marginals
from renyi.datasets import load, random_joint
from renyi.figures import at_most
from renyi.robust.ambiguity_set import Ambiguity, of_tables, shortfall
from renyi.robust.distribution import WorstDistribution, polished
from renyi.robust.minimax_problem import answer_proba, minimax
from renyi.robust.pairwise_program import quadratic_rule, table_rule
from support.counted import draw, grid, marginals
from support.joints import error, marginal_constraints, worst_case

TOL = 1e-6


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
    fixed = polished(ambiguity, grid(table), p)
    worst = WorstDistribution(ambiguity, grid(table), fixed)
    assert worst.marginal_error < 1e-9


def test_result_as_text() -> None:
    table = draw(3)
    exact, bound = minimax(marginals(table)), minimax(marginals(table), method="lp")
    assert "no rule can promise less than" in str(exact)
    assert f"errs at most {at_most(exact.upper)} on" in str(exact)
    told = replace(bound, upper=0.04362, lower=0.04358)
    assert "between 0.043580 and 0.043620" in str(told)
    assert "errs at most 4.37 %" in str(told)  # 4.36 % would be too little
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
