"""Linear, mixed-integer and semidefinite programs (the extra ``exact``).

``minimise cᵀx  subject to  low ≤ A x ≤ high,  lower ≤ x ≤ upper``, by HiGHS. Presolve
is off by default: on marginals with nearly empty cells it may call a feasible program
infeasible.

Ctrl-C ends a program at once: the solver runs in a separate thread while the main
thread waits for signals. A thread that does not end is abandoned. Small linear programs
run in the main thread, because they take less time than starting a thread.

Clarabel solves large linear programs and all semidefinite ones. On the polynomial
program of 228 categories its interior points took 3 s, those of HiGHS 15 s. But while
Clarabel sets up a program, Python notices neither Ctrl-C nor a time limit. The set-up
time grows with the square of long rows, which come from columns of many categories. So
HiGHS also solves the linear programs with a long set-up.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.validation import import_extra

Result = TypeVar("Result")
Floats = NDArray[np.float64]
Places = NDArray[np.intp]

# How a program ended: solved, by its time limit, by Ctrl-C, or without a solver.
Status = Literal[
    "optimal", "infeasible", "unbounded", "stopped", "interrupted", "declined"
]

# Largest violation that a solver may leave of a row, a constraint or a probability.
TOLERANCE = 1e-9
# An upper bound on an error rate below this is not a rounding error: no distribution
# has the tables.
IMPOSSIBLE = -1e-7
_INTERIOR = 1e-10  # tolerance of Clarabel for the gap and the rows
SOLVED = ("Solved", "AlmostSolved")  # Clarabel's names of success
# Tolerance of HiGHS' interior points for the gap. Without crossover to a corner, a
# larger one changes results.
_IPM = 1e-11
_WHOLE = 1e-7  # tolerance for the bound of a mixed-integer program

_LEAST = 0.01  # shortest time limit in seconds
_POLL = 0.2  # seconds between two checks for signals
_GRACE = 0.3  # seconds that a solver has to end after Ctrl-C or its time limit
_OVERTIME = 1.1  # multiple of the time limit after which a solver is abandoned
_SILENT = 1.5  # longest set-up of Clarabel in seconds, during which signals wait
# Measured set-up time in seconds: for each entry, and for the squared number of entries
# of a long row. The ordering of Clarabel leaves very long (dense) rows out.
_ENTRY = 1.15e-6
_LONG_ROW = 3.2e-8
_LONG = 300
_DENSE = 10.0
_SMALL = 20_000  # most entries of a linear program that needs no thread


class Program:
    """A linear program; a single number applies to all rows or variables.

    `integer` marks the variables that must be whole numbers.
    """

    def __init__(
        self,
        cost: Floats,
        A: Any,
        low: Floats | float,
        high: Floats | float,
        lower: Floats | float = 0.0,
        upper: Floats | float = np.inf,
        integer: NDArray[np.bool_] | None = None,
    ) -> None:
        self.cost = cost
        self.A = sparse.csc_array(A)
        self.integer = integer
        rows, variables = self.A.shape
        self.low = np.broadcast_to(low, rows)
        self.high = np.broadcast_to(high, rows)
        self.lower = np.broadcast_to(lower, variables)
        self.upper = np.broadcast_to(upper, variables)


class Cone(NamedTuple):
    """A symmetric matrix that must be semidefinite: its triangle is ``entries @ x``.

    The triangle is the upper one, column by column. Off-diagonal entries are multiplied
    by √2, so that the products of matrices and of triangles are equal.
    """

    order: int
    entries: sparse.csc_array

    @classmethod
    def of(
        cls, order: int, rows: Places, columns: Places, places: Places, size: int
    ) -> Cone:
        """Return the matrix with x[places] at the entries (rows ≤ columns)."""
        triangle = columns * (columns + 1) // 2 + rows
        values = np.where(rows == columns, 1.0, np.sqrt(2))
        shape = (order * (order + 1) // 2, size)
        return cls(order, sparse.csc_array((values, (triangle, places)), shape=shape))


@dataclass(frozen=True)
class Solution:
    """The answer of a solver.

    `bound` is a lower bound on the minimum. `duals` are the multipliers of the rows,
    positive for a row at its lower end; `matrices` are those of the cones.
    """

    status: Status
    value: float
    x: Floats
    duals: Floats
    bound: float = -np.inf
    matrices: list[Floats] = field(default_factory=list)


STOPPED = Solution("stopped", np.inf, np.empty(0), np.empty(0))


def highspy() -> Any:
    """Return the module of HiGHS."""
    return import_extra("highspy", "exact", "The exact worst case needs HiGHS")


def clarabel() -> Any:
    """Return the module of Clarabel."""
    return import_extra("clarabel", "exact", "Cone programs need the solver Clarabel")


def clarabel_settings(
    tolerance: float = _INTERIOR,
    time_limit: float | None = None,
    *,
    dependent: bool = False,
) -> Any:
    """Return settings of a silent Clarabel."""
    settings = clarabel().DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    if dependent:  # nearly dependent rows: these settings gain five digits
        settings.static_regularization_constant = 1e-7
        settings.iterative_refinement_max_iter = 50
        settings.iterative_refinement_reltol = 1e-14
        settings.iterative_refinement_abstol = 1e-14
    if time_limit is not None:
        settings.time_limit = float(max(time_limit, _LEAST))
    return settings


def model(program: Program) -> Any:
    """Return the program as a model for HiGHS."""
    highs = highspy()
    lp = highs.HighsLp()
    A = program.A
    lp.num_row_, lp.num_col_ = A.shape
    lp.col_cost_ = program.cost
    lp.col_lower_ = program.lower
    lp.col_upper_ = program.upper
    lp.row_lower_ = program.low
    lp.row_upper_ = program.high
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
    settings = {"output_flag": False, "threads": 1, **options}
    for kind in ("primal", "dual"):
        settings.setdefault(f"{kind}_feasibility_tolerance", TOLERANCE)
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    return highs


def run(highs: Any, time_limit: float | None = None, entries: float = np.inf) -> bool:
    """Run the solver; return whether it ended, or raise KeyboardInterrupt on Ctrl-C.

    It has not ended if it was abandoned some time after its limit. A linear program of
    few `entries` needs no thread.
    """
    if entries <= _SMALL:
        highs.run()
        return True
    main = threading.current_thread() is threading.main_thread()
    # Only the published package of HiGHS can be interrupted.
    if not (main and hasattr(type(highs), "HandleUserInterrupt")):
        highs.run()
        return True
    if not highs.HandleUserInterrupt:
        highs.HandleUserInterrupt = True

    def work(_: threading.Event) -> bool:
        highs.run()
        # Otherwise another solver may wait for the thread of this one.
        type(highs).resetGlobalScheduler(False)
        return True

    done = None
    try:
        done = in_thread(work, _patience(time_limit))
    finally:
        if done is None:  # the solver then ends by itself, in its thread
            highs.cancelSolve()
    return done is not None


def _patience(time_limit: float | None) -> float | None:
    """Return the seconds after which a solver that does not end is abandoned."""
    return None if time_limit is None else _OVERTIME * time_limit + _GRACE


def solve(
    program: Program,
    *,
    time_limit: float | None = None,
    presolve: bool = False,
    method: str = "choose",
) -> Solution:
    """Minimise by HiGHS; `status` is "stopped" if time ran out.

    `method` is "simplex", "ipm" or "choose". With "ipm" (interior points) the answer is
    in the middle of the set of optimal ones, not at a corner.
    """
    options: dict[str, Any] = {"presolve": "on" if presolve else "off"}
    options["solver"] = method
    if method == "ipm":
        options |= {"run_crossover": "off", "ipm_optimality_tolerance": _IPM}
    if program.integer is not None:  # the bound matters, not the point
        options |= {"mip_rel_gap": 0.0, "mip_abs_gap": _WHOLE}
    if time_limit is not None:
        options["time_limit"] = float(max(time_limit, _LEAST))
    highs = solver(**options)
    highs.passModel(model(program))
    entries = np.inf if program.integer is not None else program.A.nnz
    if not run(highs, time_limit, entries):
        return STOPPED
    endings = highspy().HighsModelStatus
    names: dict[Any, Status] = {
        endings.kOptimal: "optimal",
        endings.kInfeasible: "infeasible",
        endings.kUnbounded: "unbounded",
        endings.kUnboundedOrInfeasible: "infeasible",
    }
    info = highs.getInfo()
    solution = highs.getSolution()
    status = names.get(highs.getModelStatus(), "stopped")
    value = float(info.objective_function_value)
    bound = value if status == "optimal" else -np.inf
    if program.integer is not None:
        bound = float(info.mip_dual_bound)
    x = np.array(solution.col_value)
    duals = np.array(solution.row_dual)
    return Solution(status, value, x, duals, bound)


def in_thread(
    work: Callable[[threading.Event], Result], patience: float | None
) -> Result | None:
    """Run a function in a thread; return None if it takes longer than `patience`.

    A call of a compiled library may take long, and Python handles no signal meanwhile.
    The event is set when the thread is abandoned, for example by Ctrl-C.
    """
    outcome: Future[Result] = Future()
    given_up = threading.Event()
    context = contextvars.copy_context()

    def run_work() -> None:
        try:
            outcome.set_result(context.run(work, given_up))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run_work, daemon=True).start()
    end = np.inf if patience is None else time.monotonic() + patience
    try:
        # Each wait is short, because a signal just before a wait does not end it.
        while not outcome.done() and time.monotonic() < end:
            wait([outcome], min(_POLL, max(end - time.monotonic(), 0)))
        return outcome.result() if outcome.done() else None
    finally:
        given_up.set()


def interior_points(
    cost: Floats, A: Any, *problem: Any, patience: float | None = None
) -> Any:
    """Solve by Clarabel in a thread, which ends at its next step if abandoned."""
    squares = sparse.csc_matrix((len(cost),) * 2)  # no quadratic terms
    problem = (squares, cost, sparse.csc_matrix(A), *problem)

    def work(given_up: threading.Event) -> Any:
        solver = clarabel().DefaultSolver(*problem)
        # Only the published package of Clarabel can be interrupted.
        if hasattr(solver, "set_termination_callback"):
            solver.set_termination_callback(lambda _: given_up.is_set())
        return solver.solve()

    return in_thread(work, patience)


def setup_seconds(rows: Places, columns: int) -> float:
    """Estimate the set-up time of Clarabel from the number of entries of each row."""
    long = rows[(rows > _LONG) & (rows <= _DENSE * np.sqrt(len(rows) + columns))]
    return float(_ENTRY * rows.sum() + _LONG_ROW * (long.astype(float) ** 2).sum())


def solve_interior(
    program: Program, cones: Sequence[Cone] = (), *, time_limit: float | None = None
) -> Solution:
    """Minimise by the interior points of Clarabel, with or without semidefinite cones.

    Clarabel solves ``A x + s = b``. First come the rows where s is zero, then those
    where it is not negative, then those where it is semidefinite. Without Clarabel,
    HiGHS solves the programs without cones.
    """
    if not _suits_clarabel(program, time_limit):
        if cones:
            return replace(STOPPED, status="declined")
        return solve(program, time_limit=time_limit, presolve=True, method="ipm")
    tolerance = TOLERANCE if cones else _INTERIOR
    settings = clarabel_settings(tolerance, time_limit, dependent=True)
    if cones:
        settings.max_threads = 1
    form = _StandardForm.of(program, cones)
    module = clarabel()
    kinds = [module.ZeroConeT(form.sizes[0])]
    kinds += [module.NonnegativeConeT(sum(form.sizes[1:_LINEAR_PARTS]))]
    kinds += [module.PSDTriangleConeT(cone.order) for cone in cones]
    problem = (program.cost, form.A, form.b, kinds, settings)
    solution = interior_points(*problem, patience=_patience(time_limit))
    if solution is None:
        return STOPPED
    status: Status = "optimal" if str(solution.status) in SOLVED else "stopped"
    z = np.split(np.array(solution.z), np.cumsum(form.sizes[:-1]))
    duals = np.zeros(len(program.low))
    duals[form.equal] -= z[0]
    duals[form.with_high] -= z[1]
    duals[form.with_low] += z[2]
    value = float(solution.obj_val)
    x = np.array(solution.x)
    return Solution(status, value, x, duals, matrices=z[_LINEAR_PARTS:])


def _suits_clarabel(program: Program, time_limit: float | None) -> bool:
    """Return whether Clarabel is installed and sets the program up fast enough."""
    try:
        clarabel()
    except ImportError:
        return False
    row_entries = np.diff(sparse.csr_array(program.A).indptr)
    setup = setup_seconds(row_entries, len(program.cost))
    return setup <= _SILENT and (time_limit is None or setup <= time_limit)


_LINEAR_PARTS = 5  # parts of a standard form before the cones


class _StandardForm(NamedTuple):
    """A program as ``A x + s = b``: equal rows, upper and lower ends, then cones."""

    A: sparse.sparray
    b: Floats
    sizes: list[int]  # rows of each part
    equal: NDArray[np.bool_]  # rows of the program with low = high
    with_high: NDArray[np.bool_]  # other rows with an upper end
    with_low: NDArray[np.bool_]  # other rows with a lower end

    @classmethod
    def of(cls, program: Program, cones: Sequence[Cone]) -> _StandardForm:
        """Collect the rows; bounds on variables are rows of the identity."""
        M = sparse.csr_array(program.A)
        eye = sparse.eye_array(len(program.cost), format="csr")
        equal = program.low == program.high
        with_high = ~equal & np.isfinite(program.high)
        with_low = ~equal & np.isfinite(program.low)
        with_upper = np.isfinite(program.upper)
        with_lower = np.isfinite(program.lower)
        parts = [
            (M[equal], program.low[equal]),
            (M[with_high], program.high[with_high]),
            (-M[with_low], -program.low[with_low]),
            (eye[with_upper], program.upper[with_upper]),
            (-eye[with_lower], -program.lower[with_lower]),
        ]
        for cone in cones:
            parts.append((-cone.entries, np.zeros(cone.entries.shape[0])))
        A = sparse.vstack([rows for rows, _ in parts])
        b = np.concatenate([ends for _, ends in parts])
        sizes = [len(ends) for _, ends in parts]
        return cls(A, b, sizes, equal, with_high, with_low)


def nearest(triangle: Floats, order: int) -> Floats:
    """Return the triangle of the nearest semidefinite matrix."""
    b, a = np.tril_indices(order)  # the upper triangle, column by column
    factor = np.where(a == b, 1.0, np.sqrt(2))
    matrix = np.zeros((order, order))
    matrix[a, b] = matrix[b, a] = triangle / factor
    values, vectors = np.linalg.eigh(matrix)
    projected = (vectors * np.maximum(values, 0)) @ vectors.T
    return np.asarray(projected[a, b] * factor)
