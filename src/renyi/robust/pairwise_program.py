r"""Bound e* and the worst case of a rule by programs of polynomial size.

Let t(x) = min_y p_y(x) for two classes. The minimax error is the largest mass of t over
all members of C. The tables of t, p_0 − t and p_1 − t are nonnegative, agree on single
columns, and add up to the given ones. With only these constraints,

.. math:: \max \mathrm{mass}(M_t), \quad M_t, M_0, M_1 \ge 0 \text{ consistent}, \quad
    M_t + M_y = P(\cdot, y),

is a linear program of size O(D²), whose value is at least e*. Its multipliers are
functions λ_y ≥ 0 with λ_0 + λ_1 ≥ 1 at every x and E[λ_Y] equal to the value: a rule
with that guarantee. For K classes v = max_y p_y replaces t: minimise mass(M_v) with
``p_y = M_v − S_y``, all nonnegative and consistent; the value is one minus that. If
every probability may move by η (noise in the marginals), ``Σ η |a|`` is added to the
objective of the multipliers: a regularised rule, with a guarantee for all those
marginals.

At an outcome, the reduced costs of the cells it falls in sum to λ_y, or to
λ_0 + λ_1 − 1: the multipliers of the consistency constraints cancel. If the solver
leaves some of them negative, the functions are raised by the most that they may lack.
The value is thus proven whatever the tolerance, even if the solver was stopped early.

Many multipliers may attain the value. If a class was never seen with a category, its
function may be raised there at no cost, since that class is never right there.
Clarabel's interior points raise it. A corner of the optimal multipliers, or a presolve,
may leave it low, and the rule then answers that class. The guarantee is the same, but
the error is not. On 20 splits of kr-vs-kp the class of the smallest function is wrong
on 7.7 % of the held-out rows, and on 9.5 % at a corner. So Clarabel comes first,
whatever the size.

The *worst case of a given rule*: cut the outcomes of every class y into regions
(`renyi.robust.piecewise_loss`). On each, some additive functions h are not negative and
some quadratics are above the loss. A member of C is a sum of parts, one for each
region. The tables M of a part are nonnegative and agree on single columns. With E_M,
the expectation that they give to functions of pairs,

.. math:: E_M[h\, 1(X_i = k)] \ge 0, \quad E_M[h h'] \ge 0, \quad E_M[f^2] \ge 0.

With only these constraints, and parts that add up to the given tables, the largest sum
of the majorants' expectations is a bound. A *linear* program has a few squares f² of
the margin. A *semidefinite* one has the squares of all additive functions, as the
matrix of E_M[w w'] for w = (1, indicators), and is much tighter. On every region λ_y is
a majorant plus nonnegative multiples of the functions above, hence ``λ_y ≥ ℓ_y``. The
difference is again a sum of reduced costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from renyi.counting.onehot import offsets
from renyi.counting.sparse_counts import FEW, is_large, is_sparse
from renyi.limits import Deadline, MemoryBudgetError, check_memory
from renyi.robust.ambiguity_set import Ambiguity, Flags, Floats, Layout
from renyi.robust.piecewise_loss import Losses, Moments, Region, cell_entries, regions
from renyi.solvers.programs import (
    STOPPED,
    TOLERANCE,
    Cone,
    Places,
    Program,
    Solution,
    Status,
    in_thread,
    nearest,
    solve,
    solve_interior,
)
from renyi.solvers.ridge import moments
from renyi.solvers.ridge_sparse import solve_sparse
from renyi.warnings import warn

_Entries = tuple[Places, Places, Floats | float]  # rows, columns, values

_LARGE = 12_000  # with more variables, factor the whole program
_PRECISE = 1e-7  # if a proven value exceeds the solver's by more, try another solver
MAX_ORDER = 80  # order of a semidefinite matrix, whose triangle is a dense block
_PACE = 1.6e-6  # seconds for the square of the entries of all triangles, as measured
# Bytes and seconds for an entry of a program that is written and set up, as measured.
_BYTES = 250
_WRITTEN = 3e-7
_QUICK = 300  # with at most these categories, least squares are fast
_LITTLE = 1e-9  # penalty of least squares for many categories
_SHARE = 0.5  # share of the time for least squares
_SQUARES = "The rule of least squares on {:,} categories"


class Bound(NamedTuple):
    """A proven bound, infinite if there is none, and the multiplier that proves it."""

    value: float
    multiplier: Floats
    status: Status = "optimal"
    origin: str = "linear program"
    messages: Floats | None = None  # (components, margins of pairs): proof


def warn_too_large(error: MemoryBudgetError) -> None:
    """Warn that a program would not fit into memory."""
    warn(f"{error} The bounds that need no program are used instead.", "too-large")


def solve_local(
    ambiguity: Ambiguity, margin: Floats | float = 0.0, time_limit: float | None = None
) -> Bound:
    """Solve the polynomial program; `margin` is η, a number or one per cell."""
    deadline = Deadline(time_limit)
    K = ambiguity.n_classes
    layout = ambiguity.layout
    entries = 3 * (K + 1) * layout.width + 2 * K * layout.n_pair_cells * (K > 2)
    if not _affordable(entries, deadline):
        return Bound(np.inf, np.zeros(len(ambiguity.b)), "stopped")
    program = _program(ambiguity, margin)
    answer = solve_interior(program, time_limit=deadline.limit)
    bound = _read(answer, program, ambiguity)
    claimed = -answer.value if ambiguity.n_classes == 2 else 1 - answer.value
    solved = answer.status == "optimal" and bound.value <= claimed + _PRECISE
    if solved or deadline.passed:
        return bound
    again = _read(_persistent(program, deadline), program, ambiguity)
    if again.status == "infeasible" or not bound.value <= again.value:
        return again
    return bound._replace(status=again.status)


def _affordable(entries: float, deadline: Deadline) -> bool:
    """Return whether a program can be written in time; check that it fits memory."""
    check_memory(_BYTES * entries, f"A linear program of {entries:,.0f} entries")
    return _WRITTEN * entries <= deadline.left


def _program(ambiguity: Ambiguity, margin: Floats | float) -> Program:
    """Write the program over the components, whose sums are the class tables."""
    layout = ambiguity.layout
    b = ambiguity.b
    K = ambiguity.n_classes
    shares = np.hstack([np.ones((K, 1)), np.eye(K) if K == 2 else -np.eye(K)])
    mass = np.zeros((K + 1, layout.width))  # all classes together have the mass 1
    mass[:, layout.cells(0)] = shares.sum(axis=0)[:, None]
    consistent = consistency_rows(layout, K + 1)
    blocks = [consistent, tie_rows(ambiguity, shares), mass.reshape(1, -1)]
    if K > 2 and layout.pairs:  # M_v − S_y ≥ 0, the pair tables of every class
        pairs = sparse.eye_array(layout.n_pair_cells, layout.width)
        blocks.append(sparse.kron(shares, pairs))
    cost = np.zeros(mass.size)
    cost[layout.cells(0)] = -1.0 if K == 2 else 1.0
    A = sparse.vstack(blocks)
    zeros = np.zeros(consistent.shape[0])
    more = np.zeros(A.shape[0] - len(zeros) - len(b) - 1)
    low = np.concatenate([zeros, b - margin, [1.0], more])
    high = np.concatenate([zeros, b + margin, [1.0], more + np.inf])
    return Program(cost, A, low, high)


def _read(answer: Solution, program: Program, ambiguity: Ambiguity) -> Bound:
    """Return the bound that the multipliers prove, raised by the most they may lack."""
    layout = ambiguity.layout
    K = ambiguity.n_classes
    cells = len(ambiguity.b)
    u = answer.duals
    pairs = len(layout.pairs)
    if answer.status == "infeasible" or len(u) != len(program.low):
        return Bound(np.inf, np.zeros(cells), answer.status)
    reduced = (program.cost - program.A.T @ u).reshape(-1, layout.width)
    least = np.minimum.reduceat(reduced, layout.blocks, axis=1).sum(axis=1)
    lack = np.maximum(-least, 0).sum()
    end = len(u)
    if K > 2 and pairs:  # the last multipliers belong to signs
        end -= K * layout.n_pair_cells
        signs = u[end:].reshape(K, -1)
        slack = np.minimum.reduceat(signs, layout.blocks[:pairs], axis=1)
        lack += np.maximum(-slack, 0).sum()
        u = np.append(u[:end], np.maximum(u[end:], 0))
    ends = np.where(u > 0, program.low, program.high)
    value = float(lack) - float(u[u != 0] @ ends[u != 0])
    constant = float(lack) - u[end - 1]
    if K > 2:
        value = value + 1.0
        constant = constant + 1.0
    multiplier = ambiguity.shifted(-u[end - 1 - cells : end - 1], constant)
    sent = sum(int(layout.sizes[i] + layout.sizes[j]) for i, j in layout.pairs)
    messages = answer.duals[: end - 1 - cells].reshape(K + 1, -1)
    messages = messages[:, messages.shape[1] - sent :]
    return Bound(value, multiplier, answer.status, messages=messages)


def _persistent(program: Program, deadline: Deadline) -> Solution:
    """Solve by HiGHS, with several methods, as each may fail by rounding."""
    answer = STOPPED
    for method, presolve in (("ipm", True), ("ipm", False), ("simplex", False)):
        answer = solve(
            program, time_limit=deadline.limit, presolve=presolve, method=method
        )
        if answer.status == "optimal" or deadline.passed:
            break
    return answer


# ---- simple rules


def table_rule(ambiguity: Ambiguity) -> Bound:
    """Return the best rule of a single table, such as one feature with Y."""
    tables = [t for t, table in enumerate(ambiguity.tables) if table.with_target]
    right = [ambiguity.tables[t].probabilities.max(axis=-1).sum() for t in tables]
    where = tables[int(np.argmin(1 - np.array(right)))]
    cells = ambiguity.tables[where].probabilities
    answers = np.eye(ambiguity.n_classes)[cells.argmax(axis=-1)]
    multiplier = np.zeros(len(ambiguity.b))
    low, high = ambiguity.starts[where : where + 2]
    multiplier[low:high] = 1 - answers.ravel()
    return Bound(float(ambiguity.b @ multiplier), multiplier, origin="one table")


def quadratic_rule(ambiguity: Ambiguity, time_limit: float | None = None) -> Bound:
    """Return the rule of least squares; its bound is inf unless all pairs are known.

    ``λ_y = ‖t − e_y‖²`` is valid for any additive t; the least ``E‖t − e_Y‖²`` is 2γ.
    """
    nothing = Bound(np.inf, np.zeros(len(ambiguity.b)), "stopped")
    if not ambiguity.knows_all_pairs:
        return nothing._replace(status="optimal")
    if ambiguity.sizes.sum() <= _QUICK:
        points: tuple[Floats, Floats] | None = _least_squares(ambiguity)
    else:
        points = in_thread(lambda _: _least_squares(ambiguity), time_limit)
    if points is None:
        return nothing
    Z, base = points
    classes = np.arange(ambiguity.n_classes)
    square, lead, one = ambiguity.quadratics(Z, base, classes)
    multiplier = square - 2 * lead + one
    return Bound(float(ambiguity.b @ multiplier), multiplier, origin="least squares")


def _least_squares(ambiguity: Ambiguity) -> tuple[Floats, Floats]:
    """Return points and base of t; with a tiny penalty for many categories."""
    K = ambiguity.n_classes
    D = int(ambiguity.sizes.sum())
    if D > FEW:
        check_memory(24.0 * D**2 * (not is_large(ambiguity.sizes)), _SQUARES.format(D))
    Q, F = ambiguity.moments()
    if D <= FEW:
        return np.asarray(np.linalg.lstsq(Q, F, rcond=1e-12)[0]), np.zeros(K)
    if not is_sparse(Q):
        return np.linalg.solve(Q + _LITTLE * np.eye(D), F), np.zeros(K)
    equations = moments(Q, F, ambiguity.priors, True)
    Z = solve_sparse(equations, ambiguity.sizes, _LITTLE)
    base = equations.base - equations.centre @ Z
    if K == 2:  # one column of points is enough
        Z = np.hstack([-Z, Z])
        base = np.append(1 - base, base)
    return Z, base


def first_bound(ambiguity: Ambiguity, deadline: Deadline) -> Bound:
    """Return the best of the quick rules: one table, least squares, the program.

    Simple rules may have a smaller guarantee than the polynomial program if hundreds of
    pairs are nearly independent, or rows are few. They are used if Ctrl-C ends it.
    """
    best = table_rule(ambiguity)
    if not len(ambiguity.sizes):  # the classes alone
        return best
    try:
        simple = quadratic_rule(ambiguity, deadline.part(_SHARE).limit)
        best = min(best, simple, key=lambda bound: bound.value)
        local = solve_local(ambiguity, time_limit=deadline.limit)
    except KeyboardInterrupt:
        return best._replace(status="interrupted")
    except MemoryBudgetError as error:
        warn_too_large(error)
        return best._replace(status="declined")
    if local.value <= best.value + TOLERANCE:  # never more, except by rounding
        return local
    return best._replace(status=local.status)


# ---- parts of programs whose variables are tables


def consistency_rows(layout: Layout, components: int) -> sparse.coo_array:
    """Write the rows that make margins of pair tables agree with the columns.

    If no pairs link some columns to the first, their masses are equal.
    """
    sizes = layout.sizes
    part = np.arange(len(layout.sizes))
    for i, j in layout.pairs:
        part[part == part[j]] = part[i]
    heads = np.unique(part, return_index=True)[1]
    apart = heads[part[heads] != part[0]].tolist()
    entries: list[_Entries] = []
    for row, j in enumerate(apart):
        for own, sign in ((layout.cells(0), 1.0), (layout.cells(j), -1.0)):
            entries.append((np.full(len(own), row), own, sign))
    # All pairs at once: each has a row for every category of its two columns.
    pairs = np.array(layout.pairs, np.intp).reshape(-1, 2)
    first = len(apart) + offsets(sizes[pairs].ravel())
    k = np.repeat(np.arange(len(pairs)), sizes[pairs].prod(axis=1))
    cells = np.arange(len(k))
    codes = np.divmod(cells - layout.blocks[k], sizes[pairs[k, 1]])
    for side, code in enumerate(codes):
        entries.append((first[2 * k + side] + code, cells, 1.0))
    rows = np.arange(first[0], first[-1])
    shift = layout.blocks[len(pairs) + pairs.ravel()] - first[:-1]
    entries.append((rows, rows + np.repeat(shift, sizes[pairs].ravel()), -1.0))
    one = _matrix(entries)
    each = np.arange(components)[:, None]
    height = int(first[-1])
    width = layout.width
    where = (each * height + one[0]).ravel(), (each * width + one[1]).ravel()
    shape = (components * height, components * width)
    return sparse.coo_array((np.tile(one[2], components), where), shape=shape)


def _matrix(entries: list[_Entries]) -> tuple[Places, Places, Floats]:
    """Join rows, columns and values."""
    rows, columns, values = zip(*entries, strict=True)
    each = [np.full(len(r), v) for r, v in zip(rows, values, strict=True)]
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(each)


def tie_rows(ambiguity: Ambiguity, shares: Floats) -> sparse.coo_array:
    """Write the rows by which components, with `shares`, add up to the tables."""
    places, cells, classed = _table_cells(ambiguity)
    width = ambiguity.layout.width
    together = shares.sum(axis=0, keepdims=True)
    entries: list[_Entries] = []
    for own, classes in ((classed, shares), (~classed, together)):
        y, c = np.nonzero(classes)
        rows = (cells[own][:, None] + y).ravel()
        columns = (places[own][:, None] + c * width).ravel()
        entries.append((rows, columns, np.tile(classes[y, c], int(own.sum()))))
    rows, columns, values = _matrix(entries)
    shape = (len(ambiguity.b), shares.shape[1] * width)
    return sparse.coo_array((values, (rows, columns)), shape=shape)


def _table_cells(ambiguity: Ambiguity) -> tuple[Places, Places, Flags]:
    """Return the variables of the cells, their places at class 0, and which have Y."""
    places = []
    cells = []
    for table, low in zip(ambiguity.tables, ambiguity.starts, strict=False):
        own = ambiguity.layout.cells(*table.features).ravel()
        step = ambiguity.n_classes if table.with_target else 1
        places.append(own)
        cells.append(low + np.arange(len(own)) * step * bool(table.features))
    classed = [table.with_target for table in ambiguity.tables]
    each = np.repeat(classed, [len(own) for own in places])
    return np.concatenate(places), np.concatenate(cells), each


def open_cells(ambiguity: Ambiguity) -> Flags:
    """Return the cells that the tables leave open to each class: (classes, width)."""
    layout = ambiguity.layout
    (places, cells, classed) = _table_cells(ambiguity)
    is_open = np.ones((ambiguity.n_classes, layout.width), bool)
    for y in range(ambiguity.n_classes):
        is_open[y, places[ambiguity.b[cells + y * classed] <= 0]] = False
    plain = {table.features for table in ambiguity.tables if not table.with_target}
    for i, j in layout.pairs:
        if (i, j) in plain:
            first = is_open[:, layout.cells(i)]
            second = is_open[:, layout.cells(j)]
            is_open[:, layout.cells(i, j)] &= first[:, :, None] & second[:, None, :]
    return is_open


# ---- the worst case of a rule


def solve_worst(
    losses: Losses, *, semidefinite: bool = False, time_limit: float | None = None
) -> Bound:
    """Bound the worst case of a rule; infinite if nothing was proven in time.

    The functions are above the losses at all outcomes that no empty cell forbids. No
    semidefinite program is solved without a solver, or if it is likely to run out of
    time: interior points prove little before they are near the end.
    """
    deadline = Deadline(time_limit)
    nothing = np.zeros(len(losses.ambiguity.b))
    entries = cell_entries(losses) * losses.ambiguity.layout.width
    if not _affordable(entries, deadline):
        return Bound(np.inf, nothing, "stopped")
    relaxation = _Relaxation(losses, semidefinite)
    whole = relaxation.program
    cones = relaxation.cones
    if semidefinite:
        slow = _PACE * sum(cone.entries.shape[0] for cone in cones) ** 2
        late = time_limit is not None and slow > time_limit
        if late or max(cone.order for cone in cones) > MAX_ORDER:
            return Bound(np.inf, nothing, "declined")
    kept = np.append(relaxation.open.ravel(), np.ones(len(relaxation.parts), bool))
    A = sparse.csr_array(whole.A[:, kept])
    rows = np.flatnonzero(np.diff(A.indptr))
    ends = whole.low[rows], whole.high[rows], whole.lower[kept]
    program = Program(whole.cost[kept], A[rows], *ends)
    small = [Cone(cone.order, cone.entries[:, kept]) for cone in cones]
    interior = semidefinite or len(program.cost) > _LARGE
    answer = STOPPED
    if interior:
        answer = solve_interior(program, small, time_limit=deadline.limit)
    if not (semidefinite or answer.status == "optimal" or deadline.passed):
        answer = _persistent(program, deadline)
    if len(answer.duals) != len(program.low) or not np.isfinite(answer.duals).all():
        return Bound(np.inf, nothing, answer.status)
    u = np.zeros(len(whole.low))
    u[rows] = answer.duals
    return Bound(*relaxation.proven(u, answer.matrices), answer.status)


class _Relaxation:
    """The program, and the bound that its multipliers prove.

    Variables: the cells of each part, then a number below each of its majorants. Rows:
    consistency, tables, nonnegative expectations, majorants.
    """

    def __init__(self, losses: Losses, semidefinite: bool) -> None:
        self.layout = losses.ambiguity.layout
        self.ambiguity = losses.ambiguity
        self.moments = Moments(self.layout)
        self.parts = regions(losses, self.moments)
        self.classes = [part.y for part in self.parts]
        self.open = open_cells(self.ambiguity)[self.classes]  # (parts, width)
        R = len(self.parts)
        b = self.ambiguity.b
        size = self.open.size
        shares = np.zeros((self.ambiguity.n_classes, R))
        shares[self.classes, np.arange(R)] = 1.0
        consistent = consistency_rows(self.layout, R)
        positive = [self._positive(part, semidefinite) for part in self.parts]
        tops = [sparse.coo_array(np.array(part.majorants)) for part in self.parts]
        above = sparse.block_diag(tops)
        below = [sparse.coo_array(np.ones((top.shape[0], 1))) for top in tops]
        ties = tie_rows(self.ambiguity, shares)
        cells = sparse.vstack([consistent, ties, sparse.block_diag(positive)])
        A = sparse.block_array([[cells, None], [above, -sparse.block_diag(below)]])
        self.first = consistent.shape[0]  # row of the tables
        equal = np.concatenate([np.zeros(self.first), b])
        more = np.zeros(A.shape[0] - len(equal))
        cost = np.zeros(size + R)
        lower = np.zeros(size + R)
        cost[size:] = -1.0
        lower[size:] = -np.inf
        low = np.append(equal, more)
        high = np.append(equal, more + np.inf)
        self.program = Program(cost, A, low, high, lower)
        self.cones = [self._cone(c) for c in range(R)] if semidefinite else []

    def _positive(self, part: Region, semidefinite: bool) -> sparse.csr_array:
        """Return the nonnegative rows of a part, scaled to avoid large numbers."""
        rows = [self.moments.with_indicators(h) for h in part.inequalities]
        more = part.products if semidefinite else part.products + part.squares
        rows += [sparse.csr_array(row[None]) for row in more]
        rows.append(sparse.csr_array((0, self.layout.width)))  # at least one block
        stacked = sparse.csr_array(sparse.vstack(rows))
        largest = np.maximum(abs(stacked).max(axis=1).toarray().ravel(), 1e-12)
        return sparse.csr_array(sparse.diags_array(1 / largest) @ stacked)

    def _cone(self, c: int) -> Cone:
        """Return E[w w'] of a part; w is 1 and open categories but the likeliest."""
        layout = self.layout
        P = len(self.moments.first)
        opened = self.open[c]
        y = self.classes[c]
        chosen = opened[P:].copy()
        for table in self.ambiguity.tables:
            if len(table.features) == 1:
                own = layout.cells(*table.features) - P
                chosen[own[table.probabilities[:, y].argmax()]] = False
        rank = np.cumsum(chosen) * chosen  # from 1; the constant comes first
        pair = opened[:P] & chosen[self.moments.first] & chosen[self.moments.second]
        a = rank[self.moments.first[pair]]
        b = rank[self.moments.second[pair]]
        one = np.flatnonzero(chosen)
        mass = np.flatnonzero(opened[P : P + layout.sizes[0]])
        places = np.concatenate([P + mass, P + one, P + one, np.flatnonzero(pair)])
        return Cone.of(
            len(one) + 1,
            np.concatenate([0 * mass, 0 * one, rank[one], a]),
            np.concatenate([0 * mass, rank[one], rank[one], b]),
            c * layout.width + places,
            len(self.program.cost),
        )

    def proven(self, u: Floats, squares: list[Floats]) -> tuple[float, Floats]:
        """Bound and multiplier that any multipliers of the rows prove."""
        ambiguity = self.ambiguity
        first = self.first
        last = first + len(ambiguity.b)
        ends = np.cumsum([len(part.majorants) for part in self.parts])
        top = len(u) - int(ends[-1])
        weights = np.split(np.maximum(u[top:], 0), ends[:-1])
        weights = [w / w.sum() if w.sum() > 0 else np.eye(len(w))[0] for w in weights]
        u = np.concatenate([u[:last], np.maximum(u[last:top], 0), *weights])
        reduced = self.program.cost - self.program.A.T @ u
        for cone, z in zip(self.cones, squares, strict=True):
            reduced -= cone.entries.T @ nearest(z, cone.order)
        reduced = reduced[: self.open.size].reshape(self.open.shape)
        known = np.where(self.open, reduced, np.inf)
        least = np.minimum.reduceat(known, self.layout.blocks, axis=1).sum(axis=1)
        lows = np.full(ambiguity.n_classes, np.inf)  # least excess of λ_y
        np.minimum.at(lows, self.classes, least)
        lows[~np.isfinite(lows)] = 0.0  # a class without outcomes
        multiplier = ambiguity.shifted(-u[first:last], -lows)
        return float(ambiguity.b @ multiplier), multiplier
