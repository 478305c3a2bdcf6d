"""Linear, mixed-integer and semidefinite programs (the extra ``exact``).

``minimise cᵀx  subject to  low ≤ A x ≤ high,  lower ≤ x ≤ upper``, by HiGHS. Presolve
is off by default: on marginals with nearly empty cells it may call a feasible program
infeasible.

Ctrl-C ends a program at once: the solver works in a thread of its own while the main
one listens. Small linear programs are over before anyone could wait for them, and
thousands of threads take longer than they do.

Large linear programs and all semidefinite ones are left to Clarabel, whose interior
points took 3 s for the polynomial program of 228 categories where those of HiGHS took
15 s.
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

# How a program ended: by itself, by the clock, by Ctrl-C, or before a solver was asked.
Status = Literal[
    "optimal", "infeasible", "unbounded", "stopped", "interrupted", "declined"
]

# What a solver may leave of a row, a constraint or a probability: all else is an error.
TOLERANCE = 1e-9
# An upper bound on an error below this is no rounding: no distribution has the tables.
IMPOSSIBLE = -1e-7
_INTERIOR = 1e-10  # of the gap and the rows of Clarabel
_IPM = 1e-11  # of the gap of HiGHS' interior points: without a corner it is felt
_WHOLE = 1e-7  # of the bound of a mixed-integer program

# Entries up to which a linear program is a matter of moments.
_SMALL = 20_000


@dataclass(frozen=True)
class Program:
    """A linear program; `integer` marks the variables that must be whole."""

    cost: Floats
    A: sparse.csc_array
    low: Floats
    high: Floats
    lower: Floats
    upper: Floats
    integer: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        cost: Floats,
        A: Any,
        low: Floats | float,
        high: Floats | float,
        lower: Floats | float = 0.0,
        upper: Floats | float = np.inf,
        integer: NDArray[np.bool_] | None = None,
    ) -> Program:
        """Program of any sparse matrix; a number stands for as many as are needed."""
        A = sparse.csc_array(A)
        low, high = (np.broadcast_to(each, A.shape[0]) for each in (low, high))
        lower, upper = (np.broadcast_to(each, A.shape[1]) for each in (lower, upper))
        return cls(cost, A, low, high, lower, upper, integer)


@dataclass(frozen=True)
class Solution:
    """What the solver found.

    `bound` is a proven lower bound on the minimum; `duals` are the multipliers of the
    rows, positive for a row at its lower end.
    """

    status: Status
    value: float
    x: Floats
    duals: Floats
    bound: float


def highspy() -> Any:
    """Return the solver's module; a sentence says how to install it if it is absent."""
    try:
        import highspy as module
    except ImportError:
        raise ImportError(
            "The exact worst case needs HiGHS: install the extra with "
            "pip install 'renyi[exact]'."
        ) from None
    return module


def clarabel() -> Any:
    """Return the solver's module; a sentence says how to install it if it is absent."""
    try:
        import clarabel as module
    except ImportError:
        raise ImportError(
            "Cone programs need the solver Clarabel: install the extra with "
            "pip install 'renyi[exact]'."
        ) from None
    return module


def clarabel_settings(
    tolerance: float = _INTERIOR,
    time_limit: float | None = None,
    *,
    dependent: bool = False,
) -> Any:
    """Return settings of a silent Clarabel.

    Where the rows are far from independent, more regularisation, and more refinement of
    what it blurs, gain five digits.
    """
    settings = clarabel().DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    if dependent:
        settings.static_regularization_constant = 1e-7
        settings.iterative_refinement_max_iter = 50
        settings.iterative_refinement_reltol = 1e-14
        settings.iterative_refinement_abstol = 1e-14
    if time_limit is not None:
        settings.time_limit = float(max(time_limit, 0.01))
    return settings


def model(program: Program) -> Any:
    """Return the program as HiGHS takes it."""
    highs = highspy()
    A = sparse.csc_array(program.A)
    lp = highs.HighsLp()
    lp.num_col_, lp.num_row_ = A.shape[1], A.shape[0]
    lp.col_cost_ = program.cost
    lp.col_lower_, lp.col_upper_ = program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.low, program.high
    lp.a_matrix_.format_ = highs.MatrixFormat.kColwise
    lp.a_matrix_.start_ = A.indptr.astype(np.int32)
    lp.a_matrix_.index_ = A.indices.astype(np.int32)
    lp.a_matrix_.value_ = A.data.astype(np.float64)
    if program.integer is not None:
        kinds = (highs.HighsVarType.kContinuous, highs.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(flag)] for flag in program.integer]
    return lp


def solver(**options: Any) -> Any:
    """Return a silent HiGHS with some options set."""
    highs = highspy().Highs()
    settings = {
        "output_flag": False,
        "threads": 1,
        "primal_feasibility_tolerance": TOLERANCE,
        "dual_feasibility_tolerance": TOLERANCE,
        **options,
    }
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    return highs


def _listens(highs: Any) -> bool:
    """Whether this release of the solver can be stopped."""
    return hasattr(type(highs), "HandleUserInterrupt")


def run(highs: Any) -> None:
    """Run the solver until it is done, or until Ctrl-C."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and _listens(highs)):
        highs.run()
        return
    if not highs.HandleUserInterrupt:
        highs.HandleUserInterrupt = True
    highs.startSolve()
    try:
        while not highs.wait(0.1)[0]:
            pass
    except KeyboardInterrupt:
        highs.cancelSolve()
        highs.wait()
        raise


def solve(
    program: Program,
    *,
    time_limit: float | None = None,
    presolve: bool = False,
    method: str = "choose",
) -> Solution:
    """Minimise; the answer says how far it got if time ran out.

    `method` is "simplex", "ipm" (interior points: the answer is no corner of the set of
    optimal ones, but in its middle) or "choose".
    """
    options: dict[str, Any] = {
        "presolve": "on" if presolve else "off",
        "solver": method,
    }
    if method == "ipm":
        options |= {"run_crossover": "off", "ipm_optimality_tolerance": _IPM}
    if program.integer is not None:  # the bound is what counts, not the point
        options |= {"mip_rel_gap": 0.0, "mip_abs_gap": _WHOLE}
    if time_limit is not None:
        options["time_limit"] = float(max(time_limit, 0.01))
    highs = solver(**options)
    highs.passModel(model(program))
    small = program.integer is None and program.A.nnz <= _SMALL
    if small:
        highs.run()
    else:
        run(highs)
    return _read(highs, program)


def _read(highs: Any, program: Program) -> Solution:
    module = highspy()
    names: dict[Any, Status] = {
        module.HighsModelStatus.kOptimal: "optimal",
        module.HighsModelStatus.kInfeasible: "infeasible",
        module.HighsModelStatus.kUnbounded: "unbounded",
        module.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",
    }
    info, found = highs.getInfo(), highs.getSolution()
    status = names.get(highs.getModelStatus(), "stopped")
    value = float(info.objective_function_value)
    bound = value
    if program.integer is not None:
        bound = float(info.mip_dual_bound)
    elif status != "optimal":
        bound = -np.inf
    return Solution(
        status, value, np.array(found.col_value), np.array(found.row_dual), bound
    )


def solve_interior(program: Program, *, time_limit: float | None = None) -> Solution:
    """Minimise a linear program by the interior points of Clarabel."""
    try:
        module = clarabel()
    except ImportError:
        return solve(program, time_limit=time_limit, presolve=True, method="ipm")
    settings = clarabel_settings(time_limit=time_limit, dependent=True)
    size, (A, b, equal, rows) = len(program.cost), _cone(program)
    cones = [module.ZeroConeT(equal), module.NonnegativeConeT(len(b) - equal)]
    nothing = sparse.csc_matrix((size, size))
    found = interruptible(
        module.DefaultSolver(nothing, program.cost, A, b, cones, settings)
    )
    duals = np.zeros(len(program.low))
    np.subtract.at(duals, np.abs(rows) - 1, np.sign(rows) * found.z[: len(rows)])
    value = float(found.obj_val)
    return Solution(_clarabel_status(found), value, np.array(found.x), duals, -np.inf)


def _clarabel_status(found: Any) -> Status:
    solved = str(found.status) in ("Solved", "AlmostSolved")
    return "optimal" if solved else "stopped"


def interruptible(solver: Any) -> Any:
    """Solve by Clarabel, and stop after the step under way if Ctrl-C is pressed.

    The solver would let Python hear of it only at the end. Here a handler makes a note,
    for the solver to ask after each step, and what was there before has its turn then.
    """
    usual = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not (main and callable(usual) and hasattr(solver, "set_termination_callback")):
        return solver.solve()
    pressed: list[Any] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(frame))
    try:
        solver.set_termination_callback(lambda _: bool(pressed))
        found = solver.solve()
    finally:
        signal.signal(signal.SIGINT, usual)
    if pressed:
        usual(signal.SIGINT, pressed[0])
    return found


def _cone(program: Program) -> tuple[Any, Floats, int, NDArray[np.int64]]:
    """Return (A, b, n, rows): ``A x + s = b`` with s zero in the first n places.

    `rows` tells of each place the row of the program, from 1, with the sign it has.
    """
    M = sparse.csr_array(program.A)
    same = program.low == program.high
    top, bottom = ~same & np.isfinite(program.high), ~same & np.isfinite(program.low)
    eye = sparse.eye_array(len(program.cost), format="csr")
    above, below = np.isfinite(program.upper), np.isfinite(program.lower)
    blocks = [M[same], M[top], -M[bottom], eye[above], -eye[below]]
    ends = [
        program.low[same],
        program.high[top],
        -program.low[bottom],
        program.upper[above],
        -program.lower[below],
    ]
    places = [np.flatnonzero(kept) + 1 for kept in (same, top, bottom)]
    rows = np.concatenate([places[0], places[1], -places[2]])
    A = sparse.csc_matrix(sparse.vstack(blocks))
    return A, np.concatenate(ends), int(same.sum()), rows


# ---- semidefinite programs
#
# A linear program whose variables also fill some symmetric matrices S ⪰ 0. Matrices
# travel as their upper triangles, column by column, entries off the diagonal times √2,
# so that products of matrices are products of vectors.


class Cone(NamedTuple):
    """A matrix that must be semidefinite: its triangle is ``entries @ x``."""

    order: int
    entries: sparse.csc_array

    @classmethod
    def of(
        cls, order: int, rows: Places, columns: Places, places: Places, size: int
    ) -> Cone:
        """Matrix in which x[places] are added to the entries (rows, columns).

        Rows are never beyond columns; `size` is the number of variables.
        """
        triangle = columns * (columns + 1) // 2 + rows
        values = np.where(rows == columns, 1.0, np.sqrt(2))
        shape = (order * (order + 1) // 2, size)
        return cls(order, sparse.csc_array((values, (triangle, places)), shape=shape))


def nearest(triangle: Floats, order: int) -> Floats:
    """Triangle of the nearest semidefinite matrix."""
    b, a = np.tril_indices(order)  # the upper triangle, column by column
    factor = np.where(a == b, 1.0, np.sqrt(2))
    matrix = np.zeros((order, order))
    matrix[a, b] = matrix[b, a] = triangle / factor
    values, vectors = np.linalg.eigh(matrix)
    found = (vectors * np.maximum(values, 0)) @ vectors.T
    return np.asarray(found[a, b] * factor)


def solve_semidefinite(
    program: Program, cones: list[Cone], time_limit: float | None = None
) -> tuple[Status, Floats, list[Floats]]:
    """Return status, multipliers of the rows, and the matrices' multipliers.

    The program has rows of equality and rows that are at least 0; its variables are
    free or not negative. Without Clarabel it is declined.
    """
    try:
        module = clarabel()
    except ImportError:
        return "declined", np.empty(0), []
    settings = clarabel_settings(TOLERANCE, time_limit, dependent=True)
    settings.max_threads = 1
    same = program.low == program.high
    rows = sparse.csr_array(program.A)
    signs = -sparse.eye_array(len(program.cost), format="csr")[program.lower == 0]
    triangles = [-cone.entries for cone in cones]
    A = sparse.csc_matrix(sparse.vstack([rows[same], -rows[~same], signs, *triangles]))
    b = np.zeros(A.shape[0])
    b[: same.sum()] = program.low[same]
    kinds = [
        module.ZeroConeT(int(same.sum())),
        module.NonnegativeConeT(int((~same).sum()) + signs.shape[0]),
        *(module.PSDTriangleConeT(cone.order) for cone in cones),
    ]
    nothing = sparse.csc_matrix((len(program.cost), len(program.cost)))
    found = interruptible(
        module.DefaultSolver(nothing, program.cost, A, b, kinds, settings)
    )
    z = np.array(found.z)
    duals = np.zeros(len(program.low))
    duals[same] = -z[: same.sum()]
    duals[~same] = z[same.sum() : len(same)]
    first = len(same) + signs.shape[0]
    sizes = np.cumsum([part.shape[0] for part in triangles])
    return _clarabel_status(found), duals, np.split(z[first:], sizes[:-1])
