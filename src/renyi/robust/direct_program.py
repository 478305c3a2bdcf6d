r"""The direct program: e* of a small table, over all its joint outcomes.

.. math:: e^* = \max \sum_{x, S} (|S| - 1)\, w_S(x), \quad
    p(x, y) = \sum_{S \ni y} w_S(x), \quad A p = b, \; w \ge 0,

S running over the nonempty sets of classes: w spreads p(x, ·) over sets of equally
likely classes, of which all but one are errors. It has one row for each cell of the
tables, hence is solved some twenty times sooner than the same with ``v(x) ≥ p(x, y)``,
which is used beyond four classes. The multipliers of ``A p = b`` give the functions
λ_y, and p is the worst distribution.

If C is empty, some weighted sum of cells shows it: whatever the outcome, it is at most
some number, and yet the tables say more (Farkas). The shortest one is sought,

.. math:: \min \|u\|_1, \quad b^T u \ge c + 1, \quad A^T u \le c,

by its dual program, ``max s`` with ``|A p − s b| ≤ 1``, p ≥ 0 of mass s.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.checks import Deadline
from renyi.robust.ambiguity_set import Ambiguity, Table, shortfall
from renyi.solvers.programs import Program, Solution, Status, solve

Floats = NDArray[np.float64]

# Beyond so many classes their sets are too many to be variables.
_MAX_CLASSES = 4
# Outcomes that an explanation may look at.
_MAX_EXPLAINED = 20_000
_PATIENCE = 20.0  # seconds to look for a few columns that explain it
_AGREED = "No distribution has these tables, although their margins agree"


class DirectSolution(NamedTuple):
    """e*, a multiplier feasible at all outcomes, and the worst distribution.

    `value` is the expectation of the multiplier's functions, which is proven to be at
    least e* even if the program was stopped early.
    """

    value: float
    multiplier: Floats
    outcomes: NDArray[np.int64]
    p: Floats  # (outcomes, classes)
    status: Status


def solve_direct(
    ambiguity: Ambiguity,
    time_limit: float | None = None,
    outcomes: NDArray[np.int64] | None = None,
) -> DirectSolution:
    """Minimax error over all members of C."""
    X = ambiguity.outcomes() if outcomes is None else outcomes
    shape = (len(X), ambiguity.n_classes)
    if not len(X):
        nothing = np.zeros(len(ambiguity.b))
        return DirectSolution(np.nan, nothing, X, np.zeros(shape), "infeasible")
    few = ambiguity.n_classes <= _MAX_CLASSES
    found = (_by_sets if few else _by_largest)(ambiguity, X, time_limit)
    status, multiplier, p = found
    if len(multiplier) != len(ambiguity.b) or not np.isfinite(multiplier).all():
        multiplier = np.zeros(len(ambiguity.b))  # stopped before there was one
    values = np.where(ambiguity.possible(X), ambiguity.functions(multiplier, X), np.inf)
    multiplier = ambiguity.shifted(multiplier, shortfall(values))
    value = float(ambiguity.b @ multiplier)
    return DirectSolution(value, ambiguity.completed(multiplier), X, p, status)


def _by_sets(
    ambiguity: Ambiguity, X: NDArray[np.int64], time_limit: float | None
) -> tuple[Status, Floats, Floats]:
    """Return status, multiplier and p of the program over sets of classes."""
    N, K = len(X), ambiguity.n_classes
    sets = [S for k in range(1, K + 1) for S in combinations(range(K), k)]
    member = np.array([[float(y in S) for S in sets] for y in range(K)])
    forbidden = (~ambiguity.possible(X)).astype(np.float64) @ member
    open_sets = np.flatnonzero(forbidden.ravel() == 0)
    spread = sparse.kron(sparse.eye_array(N), member, format="csc")[:, open_sets]
    gain = np.tile(member.sum(axis=0) - 1, N)[open_sets]
    A, b = ambiguity.constraint_matrix(X) @ spread, ambiguity.b
    program = Program.of(-gain, A, b, b)
    answer = solve(program, time_limit=time_limit)
    p = np.zeros(N * K)
    if len(answer.x) == len(gain):
        p = spread @ np.maximum(answer.x, 0)
    return answer.status, -answer.duals, p.reshape(N, K)


def _by_largest(
    ambiguity: Ambiguity, X: NDArray[np.int64], time_limit: float | None
) -> tuple[Status, Floats, Floats]:
    """Return status, multiplier and p of the program with v(x) ≥ p(x, y)."""
    N, K, b = len(X), ambiguity.n_classes, ambiguity.b
    above = sparse.kron(sparse.eye_array(N), np.ones((K, 1)))
    matrix = sparse.block_array(
        [
            [ambiguity.constraint_matrix(X), None],
            [-sparse.eye_array(N * K), above],
        ],
        format="csc",
    )
    program = Program.of(
        np.concatenate([np.zeros(N * K), np.ones(N)]),
        matrix,
        np.concatenate([b, np.zeros(N * K)]),
        np.concatenate([b, np.full(N * K, np.inf)]),
        upper=np.concatenate([_upper(ambiguity, X), np.full(N, np.inf)]),
    )
    answer = solve(program, time_limit=time_limit)
    p = np.zeros(N * K)
    if len(answer.x) == len(program.cost):
        p = np.maximum(answer.x[: N * K], 0)
    multiplier = -answer.duals[: len(b)]
    if len(multiplier) == len(b):
        multiplier = ambiguity.shifted(multiplier, 1.0)
    return answer.status, multiplier, p.reshape(N, K)


def _upper(ambiguity: Ambiguity, X: NDArray[np.int64]) -> Floats:
    """Outcomes in empty cells have no mass."""
    return np.where(ambiguity.possible(X), np.inf, 0.0).ravel()


def worst_member(
    ambiguity: Ambiguity,
    loss: Floats,
    X: NDArray[np.int64],
    time_limit: float | None = None,
) -> tuple[Floats, Solution]:
    """Return the member of C with the largest expected loss (outcomes × classes)."""
    A, b = ambiguity.constraint_matrix(X), ambiguity.b
    program = Program.of(-loss.ravel(), A, b, b, upper=_upper(ambiguity, X))
    answer = solve(program, time_limit=time_limit)
    p = np.zeros(loss.size)
    if len(answer.x) == len(p):
        p = np.maximum(answer.x, 0)
    return p.reshape(loss.shape), answer


# ---- why C is empty


def contradiction(ambiguity: Ambiguity) -> str:
    """Return a sentence that says why no distribution has the tables."""
    return disagreement(ambiguity) or _farkas(ambiguity)


def disagreement(ambiguity: Ambiguity, tolerance: float = 1e-9) -> str:
    """Name two tables whose common margin is not the same, if there are such."""
    label = len(ambiguity.sizes)  # the target's place among the columns
    known: dict[tuple[int, ...], tuple[tuple[int, ...], Floats]] = {}
    for table in ambiguity.tables:
        mine = (*table.features, label) if table.with_target else table.features
        for size in range(len(mine) + 1):
            for common in combinations(mine, size):
                margin = _margin(table, mine, common)
                theirs, other = known.setdefault(common, (mine, margin))
                off = np.abs(margin - other)
                if off.max() > tolerance:
                    return _odds(ambiguity, common, off, theirs, mine)
    return ""


def _odds(
    ambiguity: Ambiguity,
    common: tuple[int, ...],
    off: Floats,
    first: tuple[int, ...],
    second: tuple[int, ...],
) -> str:
    cell = np.unravel_index(int(off.argmax()), off.shape)
    where = _cell(ambiguity, common, cell) or "everything together"
    return (
        f"The margins disagree: {where} has another probability in the table of "
        f"{_title(ambiguity, first)} than in that of {_title(ambiguity, second)} "
        f"(off by {off.max():.3g})."
    )


def _margin(table: Table, columns: tuple[int, ...], kept: tuple[int, ...]) -> Floats:
    gone = tuple(axis for axis, i in enumerate(columns) if i not in kept)
    return np.asarray(table.probabilities.sum(axis=gone))


def _title(ambiguity: Ambiguity, places: tuple[int, ...]) -> str:
    columns = (*ambiguity.columns, ambiguity.target)
    return " × ".join(repr(columns[i].name) for i in places)


def _cell(
    ambiguity: Ambiguity, places: tuple[int, ...], codes: tuple[np.intp, ...]
) -> str:
    columns = (*ambiguity.columns, ambiguity.target)
    return ", ".join(
        f"{columns[i].name} = {columns[i].levels.texts[int(k)]}"
        for i, k in zip(places, codes, strict=True)
    )


def _farkas(ambiguity: Ambiguity) -> str:
    """Say which sum of a few cells is impossible."""
    if ambiguity.n_table <= _MAX_EXPLAINED:
        return _impossible(ambiguity) or (
            f"{_AGREED} to within the solver's tolerance: round them less."
        )
    deadline = Deadline(_PATIENCE)
    for size in (2, 3, 4):  # columns that contradict each other are few, as a rule
        for chosen in combinations(range(len(ambiguity.sizes)), size):
            part = ambiguity.restricted(chosen)
            if part.n_table > _MAX_EXPLAINED:
                continue
            text = _impossible(part)
            if text:
                return text
            if deadline.passed:
                break
    return f"{_AGREED}: leave out columns until minimax() finds one."


def _impossible(ambiguity: Ambiguity) -> str:
    """Return a sum of cells that is too large; nothing if some distribution has it."""
    everything = (
        np.indices(tuple(ambiguity.sizes.tolist())).reshape(len(ambiguity.sizes), -1).T
    )
    A, b = ambiguity.constraint_matrix(everything), ambiguity.b
    rows = sparse.block_array(
        [[A, -b[:, None]], [np.ones((1, A.shape[1])), -np.ones((1, 1))]], format="csc"
    )
    limit = np.append(np.ones(len(b)), 0.0)
    cost = np.append(np.zeros(A.shape[1]), -1.0)
    answer = solve(Program.of(cost, rows, -limit, limit))
    u = answer.duals[: len(b)]
    if answer.status != "optimal" or not np.abs(u).max(initial=0.0):
        return ""
    u = u / np.abs(u).max()
    u[np.abs(u) < 1e-6] = 0
    most, told = float((A.T @ u).max()), float(b @ u)
    if told <= most + 1e-9:
        return ""
    return f"{_AGREED}: {_sum_text(ambiguity, u)} is at most {most:.6g} under any " + (
        f"distribution, yet the tables say {told:.6g}."
    )


def _sum_text(ambiguity: Ambiguity, u: Floats) -> str:
    """Return a weighted sum of cells in words."""
    terms = []
    for cell in np.flatnonzero(u).tolist():
        sign = "− " if u[cell] < 0 else "+ "
        size = "" if abs(abs(u[cell]) - 1) < 1e-6 else f"{abs(u[cell]):.3g} "
        terms.append(f"{sign}{size}P({ambiguity.name(cell)})")
    return " ".join(terms).removeprefix("+ ")
