"""Time, memory and Ctrl-C where a column has thousands of labels."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi import Marginals, RenyiClassifier
from renyi.counting import sparse_counts
from renyi.limits import MemoryBudgetError, memory_limit
from renyi.robust import pairwise_program, worst
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.minimax_problem import minimax
from renyi.robust.pairwise_program import quadratic_rule
from renyi.solvers import programs
from renyi.solvers.programs import Program, solve, solve_interior
from renyi.warnings import DataWarning


def table(labels: int, n: int = 20_000) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    a, p, u = rng.integers(0, labels, n), rng.integers(0, 5, n), rng.integers(0, 6, n)
    y = (a % 7) / 7 + (p == 0) * 0.3 + rng.random(n) * 0.8 > 0.9
    X = pd.DataFrame({"a": a, "p": p, "u": u}).astype(str)
    return X, pd.Series(np.where(y, "yes", "no"), name="y")


@pytest.fixture(scope="module")
def large() -> RenyiClassifier:
    return RenyiClassifier(alpha=1e-3).fit(*table(5_000))


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_5000_labels_end_in_time(large: RenyiClassifier, seconds: float) -> None:
    m, closed = large.marginals_, large.certificate_.bounds["map"]
    assert m is not None
    for ask in (
        lambda: renyi.certify(large, m, level="exact", time_limit=seconds).bounds,
        lambda: renyi.minimax(m, time_limit=seconds),
        lambda: renyi.minimax(m, "exact", time_limit=seconds),
        lambda: renyi.theta(m, time_limit=seconds),
    ):
        wall, cpu = time.monotonic(), time.process_time()
        found = ask()
        spent = time.process_time() - cpu
        assert spent < seconds + 2
        assert time.monotonic() - wall < 10 * (seconds + 2)  # others may be at work
        if isinstance(found, dict):
            assert found["map"] <= closed
        else:
            assert 0 < found.upper < 0.2


def test_least_squares_of_many_categories_are_those_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = table(400, 3_000)
    for classes in (y, y + X["p"].isin(["1", "2"]).astype(str)):
        ambiguity = Ambiguity.of(Marginals.from_data(X, classes))
        usual = quadratic_rule(ambiguity)
        monkeypatch.setattr(pairwise_program, "FEW", 300)
        monkeypatch.setattr(sparse_counts, "FEW", 300)
        for share in (0.0, 2.0):  # stored sparse, and dense
            monkeypatch.setattr(sparse_counts, "OWN_SHARE", share)
            found = quadratic_rule(ambiguity)
            assert found.value == pytest.approx(usual.value, abs=1e-6)
            assert found.value >= usual.value - 1e-9
        monkeypatch.undo()


def test_what_does_not_fit_is_told_and_left_out() -> None:
    clf = RenyiClassifier(alpha=1e-3).fit(*table(300, 3_000))
    m = clf.marginals_
    assert m is not None
    closed = clf.certificate_.bounds["map"]
    cells = 300 * 11 + 30
    with memory_limit(80 * cells), pytest.warns(DataWarning, match="linear") as told:
        found = worst.worst_case(clf, m, method="lp")
        best = minimax(m, "lp")
    assert {w.message.code for w in told} == {"too-large"}
    assert found.stopped and found.upper <= found.closed_form == closed
    assert found.upper == pytest.approx(closed, abs=1e-9)
    assert best.status == "stopped" and best.upper < 0.5
    with memory_limit(10 * cells), pytest.warns(DataWarning, match="311 categories"):
        found = worst.worst_case(clf, m)
    assert found.stopped and found.upper == closed
    with memory_limit(10 * cells), pytest.raises(MemoryBudgetError, match="311"):
        minimax(m)
    with memory_limit(10 * cells), pytest.warns(DataWarning):
        steps = renyi.certify(clf, m, level="exact").steps
    assert [step.status for step in steps[1:]] == ["stopped", "stopped"]


@pytest.mark.parametrize("level", ["lp", "exact"])
def test_interrupted_anywhere_the_closed_form_is_kept(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clf = RenyiClassifier().fit(*table(5, 300))
    m = clf.marginals_

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name in ("closed_form", "check_possible", "exhibited"):
        monkeypatch.setattr(worst, name, interrupt)
        found = renyi.certify(clf, m, level=level)
        assert found.bounds["map"] <= clf.certificate_.bounds["map"]
        assert found.steps[-1].status == "stopped"
        monkeypatch.undo()


# ---- solvers that do not listen


def program() -> Program:
    rng = np.random.default_rng(0)
    A = rng.random((20, 40))
    b = A @ rng.random(40)
    return Program(rng.random(40), A, b, b)


def test_what_takes_long_to_set_up_is_left_to_highs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = solve_interior(program())
    monkeypatch.setattr(programs, "_SILENT", 0.0)
    monkeypatch.setattr(programs, "interior_points", None)  # it is not asked
    assert solve_interior(program()).value == pytest.approx(usual.value, abs=1e-8)


def test_a_solver_that_misses_its_limit_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, asked = threading.Event(), []

    class Deaf(SimpleNamespace):
        HandleUserInterrupt = True

        def run(self) -> None:
            ended.wait(20)

        def cancelSolve(self) -> None:
            asked.append("cancel")

        @staticmethod
        def resetGlobalScheduler(blocking: bool) -> None:
            pass

    deaf = Deaf(setOptionValue=lambda *_: None, passModel=lambda _: None)
    monkeypatch.setattr(programs, "solver", lambda **_: deaf)
    monkeypatch.setattr(programs, "_SMALL", 0)
    assert solve(program(), time_limit=0.01).status == "stopped"
    assert asked == ["cancel"]
    monkeypatch.undo()
    monkeypatch.setattr(programs, "_SMALL", 0)
    assert solve(program()).status == "optimal"  # while the other is at work
    ended.set()
