"""The wrapper of the solvers, against scipy's and by hand."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import LinearConstraint, linprog, milp

from renyi.solvers import programs
from renyi.solvers.programs import Program, solve, solve_interior


def random_program(seed: int, integer: bool = False) -> Program:
    """A program with a known feasible point, ranges, equalities and bounds."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (6, 9)).astype(float)
    inside = rng.integers(0, 3, 9).astype(float)
    level = A @ inside
    low = level - rng.integers(0, 3, 6)
    high = np.where(rng.random(6) < 0.3, np.inf, level + rng.integers(0, 3, 6))
    low, high = np.minimum(low, high), np.maximum(low, high)
    return Program(
        rng.normal(size=9),
        sparse.csc_array(A),
        low,
        high,
        np.zeros(9),
        np.full(9, 4.0),
        np.ones(9, bool) if integer else None,
    )


def reference(program: Program) -> float:
    return milp(
        program.cost,
        integrality=None if program.integer is None else program.integer.astype(int),
        bounds=(program.lower, program.upper),
        constraints=LinearConstraint(program.A, program.low, program.high),
    ).fun


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("way", ["simplex", "ipm", "presolve", "clarabel"])
def test_value_point_and_multipliers(seed: int, way: str) -> None:
    program = random_program(seed)
    if way == "clarabel":
        answer = solve_interior(program)
    elif way == "presolve":
        answer = solve(program, presolve=True)
    else:
        answer = solve(program, method=way)
    assert answer.status == "optimal"
    assert answer.value == pytest.approx(reference(program), abs=1e-7)
    assert program.cost @ answer.x == pytest.approx(answer.value, abs=1e-7)
    level = program.A @ answer.x
    assert (level >= program.low - 1e-7).all()
    assert (level <= program.high + 1e-7).all()
    # Multipliers: positive at a lower end, and the dual value is the value.
    y = np.where(np.abs(answer.duals) < 1e-7, 0, answer.duals)
    rest = program.cost - program.A.T @ y
    ends = np.where(y > 0, program.low, np.where(y < 0, program.high, 0))
    bounds = np.where(rest > 0, program.lower, program.upper)
    assert y @ ends + rest @ bounds == pytest.approx(answer.value, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_whole_numbers(seed: int) -> None:
    program = random_program(seed, integer=True)
    answer = solve(program, presolve=True)
    assert answer.value == pytest.approx(reference(program), abs=1e-6)
    assert answer.bound == pytest.approx(answer.value, abs=1e-6)
    np.testing.assert_allclose(answer.x, answer.x.round(), atol=1e-6)


def line(low: float, high: float, cost: float) -> Program:
    one = sparse.csc_array(np.array([[1.0]]))
    ends = np.array([low]), np.array([high])
    return Program(np.array([cost]), one, *ends, np.array([0.0]), np.array([np.inf]))


def test_statuses() -> None:
    assert solve(line(1, 2, 1)).status == "optimal"
    assert solve(line(-2, -1, 1)).status == "infeasible"
    assert solve(line(1, np.inf, -1)).status == "unbounded"
    assert solve_interior(line(-2, -1, 1)).status == "stopped"


def test_nearly_empty_cells_are_no_contradiction() -> None:
    """Without presolve, a margin of 1e-14 is not called infeasible."""
    A = sparse.csc_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    b = np.array([1e-14, 1.0])
    program = Program(np.ones(3), A, b, b, np.zeros(3), np.full(3, np.inf))
    assert solve(program).status == "optimal"
    assert linprog(np.ones(3), A_eq=A, b_eq=b).status == 0


def test_a_time_limit_stops() -> None:
    rng = np.random.default_rng(0)
    n = 60
    A = sparse.csc_array(rng.integers(1, 99, (30, n)).astype(float))
    half = A.sum(axis=1) // 2
    program = Program(
        np.zeros(n), A, half, half, np.zeros(n), np.ones(n), np.ones(n, bool)
    )
    answer = solve(program, time_limit=0.2)
    assert answer.status in ("stopped", "infeasible")


def test_control_c_stops_the_solver() -> None:
    rng = np.random.default_rng(0)
    A = sparse.csc_array(rng.random((700, 2500)))
    b = A @ rng.random(2500)
    program = Program(rng.random(2500), A, b, b, np.zeros(2500), np.full(2500, np.inf))
    highs = programs.solver(presolve="off", solver="simplex")
    highs.passModel(programs.model(program))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        programs.run(highs)
        timer.join()
        highs.wait()
    assert highs.wait(60)[0]  # told to stop, if left behind


def test_control_c_leaves_interior_points_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One step of the solver may take a minute, and its set-up asks nobody."""
    begun, ended, asked = threading.Event(), threading.Event(), []

    class Solver:
        def __init__(self, *problem):
            assert len(problem) == 3

        def set_termination_callback(self, given_up):
            self.given_up = given_up

        def solve(self):
            begun.set()
            ended.wait(20)
            asked.append(self.given_up(None))

    module = SimpleNamespace(DefaultSolver=Solver)
    monkeypatch.setattr(programs, "clarabel", lambda: module)

    def press() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        programs.interior_points(np.ones(1), np.ones((1, 1)))
    presser.join()
    assert not asked  # it is still at work
    problem = np.ones(1), np.ones((1, 1))
    assert programs.interior_points(*problem, patience=0.01) is None
    ended.set()


def test_control_c_stops_a_program_by_interior_points() -> None:
    """With the solver itself, which has many steps of a second before it."""
    rng = np.random.default_rng(0)
    A = sparse.csc_array(rng.random((600, 1200)))
    b = A @ rng.random(1200)
    program = Program(rng.random(1200), A, b, b, np.zeros(1200), np.full(1200, np.inf))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        solve_interior(program)
        timer.join()


def test_programs_run_in_other_threads() -> None:
    found = []
    other = threading.Thread(target=lambda: found.append(solve(line(1, 2, 1)).value))
    other.start()
    other.join()
    assert found == [1.0]


def test_a_missing_solver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ImportError, match=r"\.\[exact\]"):
        solve(line(1, 2, 1))


def test_without_clarabel_highs_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    assert solve_interior(line(1, 2, 1)).value == pytest.approx(1.0)
