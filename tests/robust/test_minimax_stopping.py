"""The minimax problem stopped early: the interval reached is true."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest

import renyi.robust.minimax_problem
from renyi import Marginals
from renyi.robust.minimax_problem import MinimaxResult, minimax
from renyi.solvers import programs
from support.repeats import few

TOL = 1e-6


@pytest.fixture(scope="module")
def wide() -> tuple[Marginals, float]:
    """Twelve binary columns, and e* of their pairs by the direct program."""
    rng = np.random.default_rng(1)
    hidden, y = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    p = rng.dirichlet(np.ones(2), (12, 3, 2))[:, hidden, y, 0]
    X = pd.DataFrame((rng.random(p.shape) < p).T.astype(int).astype(str)).add_prefix(
        "c"
    )
    m = Marginals.from_data(X, pd.Series(y.astype(str), name="y"))
    return m, minimax(m).upper


@pytest.mark.parametrize("limit", few(3, [1e-6, 0.05, 0.3, 0.6]))
def test_the_interval_holds_whenever_it_stops(
    wide: tuple[Marginals, float], limit: float
) -> None:
    m, e_star = wide
    for method in ("lp", "exact", "auto"):
        result = minimax(m, method=method, time_limit=limit)
        assert result.lower <= e_star + TOL
        assert result.upper >= e_star - TOL
        assert 0 <= result.lower <= result.upper <= 0.5 + TOL
        X = m.encoder.transform(pd.DataFrame([["0"] * 12], columns=m.feature_names))
        assert result.rule.of_codes(X).sum() == pytest.approx(1)


def test_cutting_planes_tell_their_progress(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    seen = []
    result = minimax(m, method="exact", progress=seen.append)
    assert result.status == "solved"
    assert result.upper == pytest.approx(e_star, abs=TOL)
    assert len(seen) > 2
    for before, after in zip(seen[:-1], seen[1:], strict=True):
        assert before.lower <= after.lower <= e_star + TOL
        assert before.upper >= after.upper >= e_star - TOL
        assert before.cuts <= after.cuts


def test_interrupt_returns_the_interval_reached(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    seen = []

    def interrupt(progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    result = minimax(m, method="exact", progress=interrupt)
    assert len(seen) == 3
    assert result.status == "stopped"
    assert result.lower <= e_star + TOL <= result.upper + 2 * TOL


@pytest.mark.parametrize("limit", [1e-6, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4])
def test_cutting_planes_stopped_at_any_moment(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    check_interval(minimax(m, method="exact", time_limit=limit), e_star)


def check_interval(result: MinimaxResult, e_star: float) -> None:
    """Both ends are proven, the lower by a distribution with these marginals."""
    assert 0 <= result.lower <= result.upper
    assert result.lower <= e_star + TOL
    assert result.upper >= e_star - TOL
    worst = result.worst_distribution
    if worst is None:
        assert result.lower == 0
    else:
        assert worst.marginal_error <= 1e-9
        assert worst.p.min() >= 0
        assert 1 - worst.p.max(axis=1).sum() >= result.lower - 1e-12


@pytest.mark.parametrize("rounds", [1, 2, 4, 6])
def test_interrupt_in_any_round(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)

    def interrupt(progress) -> None:
        if progress.rounds == rounds:
            raise KeyboardInterrupt

    result = minimax(m, method="exact", progress=interrupt, tolerance=1e-12)
    assert result.status == "stopped"
    check_interval(result, e_star)


def test_control_c_during_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.integers(0, 2, (400, 13)).astype(str)).add_prefix("c")
    m = Marginals.from_data(X, pd.Series(rng.integers(0, 3, 400).astype(str), name="y"))
    pairs = [(a, b) for i, a in enumerate(m.columns.names) for b in m.columns.names[:i]]
    tables = [m.block(a, b) for a, b in pairs]
    tables.append(X.value_counts(["c0", "c1", "c2"]))  # for the direct program
    run = programs.run

    def interrupted(highs, time_limit, entries) -> bool:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        return run(highs, time_limit, entries)

    monkeypatch.setattr(programs, "run", interrupted)
    result = minimax(m, tables=tables, method="exact", time_limit=100)
    assert result.seconds < 30
    assert result.status == "stopped"
    assert result.lower <= result.upper <= 1 - m.class_probabilities.max() + TOL
