"""Theta and the rules made of p-tilde (Theorems 1 and 2), checked by programs."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals, RenyiClassifier
from renyi.correlation import hgr_table
from renyi.datasets import load, random_joint
from renyi.robust import brier_risk, minimax_problem, pairwise_program
from renyi.solvers import programs
from support.counted import marginals_of
from support.joints import (
    cells_of,
    marginal_constraints,
    minimax_error,
    outcomes,
    worst_case,
)

pytest.importorskip("clarabel")
pytest.importorskip("highspy")

SLACK = 1e-6
KINDS = ("dirichlet", "additive", "logistic")
CASES = [(K, kind, seed) for K in (2, 3) for kind in KINDS for seed in range(4)]


def make_table(K, kind, seed):
    """Return a random joint table; every other one has empty and near-empty cells."""
    sizes = ((2, 3, 2), (3, 3, 2), (2, 2, 2, 2), (4, 3))[seed]
    rng = np.random.default_rng([K, seed, len(kind)])
    table = random_joint(sizes, K, kind=kind, random_state=rng)
    if seed % 2 and kind != "additive":
        drawn = rng.random(table.shape)
        table[drawn < 0.25] = 0
        table[drawn > 0.95] = 1e-9
    return table / table.sum()


def gamma_of(m):
    return RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_.gamma


@pytest.mark.parametrize(("K", "kind", "seed"), CASES)
def test_guarantees_of_the_rules_made_of_p_tilde(K, kind, seed):
    """theta <= worst(renyi) <= 2 theta <= 2 e*, worst(map) <= 4 e*, e* <= 2 theta."""
    table = make_table(K, kind, seed)
    m, (A, b) = marginals_of(table), marginal_constraints(table)
    found = brier_risk.theta(m)
    theta, X = found.theta, outcomes(table.shape[:-1])
    e = minimax_error(A, b, K)
    assert theta - SLACK <= e <= 2 * theta + SLACK
    assert theta <= gamma_of(m) + SLACK
    for rule in ("renyi", "sharp"):
        worst = worst_case(found.rule.rule_proba(X, rule), A, b)
        assert theta - SLACK <= worst <= 2 * theta + SLACK, rule
        assert e - SLACK <= worst <= 2 * e + SLACK, rule
    assert worst_case(found.rule.rule_proba(X, "map"), A, b) <= 4 * e + SLACK


@pytest.mark.parametrize(("K", "kind", "seed"), CASES)
def test_value_is_proven_from_both_sides(K, kind, seed):
    """p-tilde is in C and has the risk; the functions are feasible and cost as much."""
    table = make_table(K, kind, seed)
    m, (A, b) = marginals_of(table), marginal_constraints(table)
    found = brier_risk.theta(m)
    assert found.upper - found.lower <= 1e-8
    assert found.lower <= found.theta <= found.upper
    p = cells_of(found.p_tilde, table)
    assert np.abs(A @ p.ravel() - b).max() < 1e-12
    conditional = p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300)
    risk = (p.sum(axis=-1) - (p * conditional).sum(axis=-1)).sum() / 2
    assert risk == pytest.approx(found.lower, abs=1e-13)
    X, ambiguity = outcomes(table.shape[:-1]), found.rule.ambiguity
    t = found.rule.estimates(X)
    cost = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2)
    above = ambiguity.functions(found.rule.multiplier, X) >= cost - SLACK
    assert (above | ~ambiguity.possible(X)).all()
    expectation = ambiguity.b @ found.rule.multiplier
    assert expectation == pytest.approx(2 * found.theta, abs=SLACK)
    assert t.min() >= 0
    assert t.sum(axis=1) == pytest.approx(1)
    heavy = p.sum(axis=-1).ravel() > 1e-3
    assert np.allclose(t[heavy], conditional.reshape(len(t), -1)[heavy], atol=1e-4)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_additive_conditionals_lose_nothing(K):
    for seed in range(4):
        m = marginals_of(make_table(K, "additive", seed))
        assert brier_risk.theta(m).theta == pytest.approx(gamma_of(m), abs=1e-7)


def test_p_tilde_has_the_least_maximal_correlation():
    table = make_table(2, "logistic", 2)
    found = brier_risk.theta(marginals_of(table))
    p = cells_of(found.p_tilde, table).reshape(-1, 2)
    q = p.sum(axis=0)
    rho = float(hgr_table(p[p.sum(axis=1) > 0]))
    assert rho**2 == pytest.approx(1 - found.theta / (q[0] * q[1]), abs=1e-5)
    assert rho < float(hgr_table(table.reshape(-1, 2)))


def test_p_tilde_holds_the_labels():
    X, y = load("votes")
    few = X[["crime", "immigration", "physician-fee-freeze", "education-spending"]]
    few = few.assign(crime=few["crime"].map({"y": 1, "n": 0}).astype("Int64"))
    m = Marginals.from_data(few, y, class_conditional=True)
    frame = brier_risk.theta(m).p_tilde
    assert set(frame["crime"]) == set(m.categories["crime"])
    assert {0, 1} <= set(frame["crime"])
    assert set(frame["party"]) == {"democrat", "republican"}
    assert frame["probability"].sum() == pytest.approx(1, abs=1e-12)


# ---- tables that are large


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_interval_where_the_table_is_large(monkeypatch, K, kind):
    table = make_table(K, kind, 2)
    m, (A, b) = marginals_of(table), marginal_constraints(table)
    exact = brier_risk.theta(m).theta
    monkeypatch.setattr(brier_risk, "MAX_CONE", 0)
    monkeypatch.setattr(minimax_problem, "_QUICK", 0)
    found = brier_risk.theta(m)
    assert found.theta is None
    assert found.rule is None
    assert 0 < found.lower <= exact + SLACK
    assert exact - SLACK <= found.upper
    least = min(gamma_of(m), minimax_error(A, b, K))
    assert found.upper == pytest.approx(least, abs=2e-6)
    assert "lies between" in str(found)
    p = cells_of(found.p_tilde, table)
    assert np.abs(A @ p.ravel() - b).max() < 1e-9
    risk = brier_risk.brier_risk(p.reshape(-1, K))
    assert risk == pytest.approx(found.lower, abs=1e-13)


def test_interval_keeps_the_time_limit_and_does_not_need_the_program(monkeypatch):
    limits = []

    def stopped(ambiguity, time_limit=None):
        limits.append(time_limit)
        nothing = np.zeros(len(ambiguity.b))
        return pairwise_program.Bound(np.inf, nothing, "stopped")

    m = marginals_of(make_table(2, "logistic", 2))
    exact = brier_risk.theta(m).theta
    monkeypatch.setattr(brier_risk, "MAX_CONE", 0)
    monkeypatch.setattr(minimax_problem, "_QUICK", 0)
    monkeypatch.setattr(pairwise_program, "solve_local", stopped)
    found = brier_risk.theta(m, time_limit=20)
    assert 19 < limits[0] <= 20
    assert 0 < found.lower <= exact + SLACK
    assert exact - SLACK <= found.upper <= gamma_of(m) + SLACK


def test_ctrl_c_leaves_the_upper_bound(monkeypatch):
    def interrupted(ambiguity, time_limit=None):
        raise KeyboardInterrupt

    m = marginals_of(make_table(2, "logistic", 2))
    monkeypatch.setattr(brier_risk, "MAX_CONE", 0)
    monkeypatch.setattr(minimax_problem, "_QUICK", 0)
    monkeypatch.setattr(pairwise_program, "solve_local", interrupted)
    found = brier_risk.theta(m)
    assert (found.theta, found.lower, found.p_tilde) == (None, 0.0, None)
    assert found.upper == pytest.approx(gamma_of(m))


def test_the_cone_program_ends_in_time(monkeypatch):
    """Its solver looks at the clock between its steps, and not while it sets up."""
    m = marginals_of(make_table(2, "logistic", 2))
    exact, begun = brier_risk.theta(m, time_limit=None).theta, threading.Event()

    class Slow:
        def solve(self):
            begun.wait(20)

    module = brier_risk.clarabel()
    monkeypatch.setattr(module, "DefaultSolver", lambda *_: Slow())
    found = brier_risk.theta(m, time_limit=0.5)
    begun.set()
    assert found.theta is None
    assert found.lower - SLACK <= exact <= found.upper + SLACK


def test_ctrl_c_in_the_cone_program_leaves_the_upper_bound(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    m = marginals_of(make_table(2, "logistic", 2))
    monkeypatch.setattr(brier_risk, "interior_points", interrupted)
    found = brier_risk.theta(m)
    assert (found.theta, found.lower) == (None, 0.0)
    assert found.upper == pytest.approx(gamma_of(m))


def test_class_conditional_pairs_shrink_the_set():
    X, y = load("votes")
    few = X[["crime", "immigration", "physician-fee-freeze"]]
    loose = brier_risk.theta(Marginals.from_data(few, y))
    m = Marginals.from_data(few, y, class_conditional=True)
    assert brier_risk.theta(m).theta < loose.theta - 1e-4
    both = brier_risk.theta(m, class_conditional=False)
    assert both.theta == pytest.approx(loose.theta, abs=1e-8)


def test_rule_reads_frames_and_refuses_unknown_labels():
    X, y = load("votes")
    few = X[["crime", "immigration"]]
    found = brier_risk.theta(Marginals.from_data(few, y))
    r = found.rule.rule_proba(few, "map")
    assert r.shape == (435, 2)
    assert (r.sum(axis=1) == 1).all()
    codes = found.rule.encoder.transform(few).T.astype(np.int64)
    assert np.array_equal(r, found.rule.rule_proba(codes, "map"))
    assert "theta is" in str(found)
    odd = few.assign(crime="maybe")
    with pytest.raises(ValueError, match="crime"):
        found.rule.estimates(odd)


@pytest.mark.parametrize("most", [70_000, 0])
def test_impossible_marginals(monkeypatch, most):
    monkeypatch.setattr(brier_risk, "MAX_CONE", most)
    names = [("x0", "x1"), ("x0", "x2"), ("x1", "x2"), *((f"x{i}", "y") for i in "012")]
    cells = [[0.14, 0.36, 0.36, 0.14]] * 3 + [[0.25] * 4] * 3
    tables = [
        pd.DataFrame({a: [0, 0, 1, 1], b: [0, 1, 0, 1], "count": c})
        for (a, b), c in zip(names, cells, strict=True)
    ]
    with pytest.raises(ValueError, match="No distribution"):
        brier_risk.theta(Marginals.from_tables(tables, target="y"))


def test_a_missing_solver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"Clarabel: .*\.\[exact\]"):
        brier_risk.theta(marginals_of(make_table(2, "additive", 0)))
    with pytest.raises(ImportError, match=r"Clarabel: .*\.\[exact\]"):
        programs.clarabel_settings()
