r"""The polynomial program: a bound on e* and a rule that attains it, from pairs.

Let t(x) = min_y p_y(x) for two classes. The minimax error is the largest mass of t over
all members of C. The tables of t, p_0 − t and p_1 − t are nonnegative, agree on single
columns, and add up to the given ones; asking no more than that of them,

.. math:: \max \mathrm{mass}(M_t), \quad M_t, M_0, M_1 \ge 0 \text{ consistent}, \quad
    M_t + M_y = P(\cdot, y),

is a linear program of size O(D²), whose value is at least e*. Its multipliers are
functions λ_y ≥ 0 with λ_0 + λ_1 ≥ 1 at every x and E[λ_Y] equal to the value: a rule
with that guarantee. For K classes v = max_y p_y takes the place of t: minimise
mass(M_v) with ``p_y = M_v − S_y``, all nonnegative and consistent; the value is one
minus that.

At an outcome, the reduced costs of the cells it falls in sum to λ_y, or to
λ_0 + λ_1 − 1: the multipliers of the consistency constraints cancel. Where the solver
left some of them negative, the functions are raised by what they could lack in all. So
the value is proven whatever the solver's tolerance, and even if it was stopped early.

Many multipliers may attain the value. Where a class was never seen with a category, its
function may be raised there at no cost: that class is never right there. A corner of
the set of optimal multipliers may leave it low and answer that class, and so may a
solver whose presolve takes such cells away. Clarabel's interior points raise it (how
far, the program does not say). On 20 splits of kr-vs-kp the class of the smallest
function then erred on 7.7 % of the held-out rows, and on 9.5 % at a corner; on votes
and credit the difference was within the noise. The guarantee is the same. So Clarabel
comes first, whatever the size.

Allowing every probability to move by η (noise in the marginals) adds ``Σ η |a|`` to the
objective of the multipliers: a regularised rule, with a guarantee for all those
marginals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.checks import Deadline
from renyi.counting.onehot import offsets
from renyi.robust.ambiguity_set import Ambiguity
from renyi.solvers.programs import (
    TOLERANCE,
    Program,
    Solution,
    Status,
    solve,
    solve_interior,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Pair = tuple[int, int]

# Variables beyond which a factorisation of the whole program pays.
_LARGE = 12_000
# What a proven value may exceed the solver's own by, before another solver is asked.
_PRECISE = 1e-7


class LocalSolution(NamedTuple):
    """A proven bound, infinite if there is none, and the multiplier that proves it."""

    value: float
    multiplier: Floats
    status: Status


class Layout(NamedTuple):
    """Places of the variables: components × (cells of pairs, cells of columns)."""

    pairs: list[Pair]
    pair_starts: NDArray[np.int64]
    single_starts: NDArray[np.int64]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, pairs: list[Pair], sizes: NDArray[np.intp]) -> Layout:
        """Places of the cells of some pairs and of all columns."""
        cells = [int(sizes[i] * sizes[j]) for i, j in pairs]
        return cls(pairs, offsets(cells), offsets(sizes), sizes)

    @property
    def width(self) -> int:
        """Variables of one component."""
        return int(self.pair_starts[-1] + self.single_starts[-1])

    @property
    def blocks(self) -> NDArray[np.int64]:
        """First place of every pair and of every column: an outcome has one in each."""
        pairs, singles = self.pair_starts, self.single_starts
        return np.append(pairs[:-1], pairs[-1] + singles[:-1])

    def pair(self, k: int) -> NDArray[np.int64]:
        """Places of the cells of a pair, as a matrix."""
        i, j = self.pairs[k]
        places = np.arange(self.pair_starts[k], self.pair_starts[k + 1])
        return places.reshape(self.sizes[i], self.sizes[j])

    def single(self, i: int) -> NDArray[np.int64]:
        """Places of the cells of a column."""
        own = np.arange(self.single_starts[i], self.single_starts[i + 1])
        return np.asarray(self.pair_starts[-1] + own)

    def table(self, features: tuple[int, ...]) -> NDArray[np.int64]:
        """Places of the cells of a table; of Y alone, those of the first column."""
        if len(features) < 2:
            return self.single(features[0] if features else 0)
        return self.pair(self.pairs.index((features[0], features[1])))


def layout_of(ambiguity: Ambiguity) -> Layout:
    """Places of the variables for the tables of an ambiguity."""
    known = {table.features for table in ambiguity.tables}
    if any(len(features) > 2 for features in known):
        raise ValueError(
            "method='lp' takes tables of at most two features: use method='exact'."
        )
    pairs = sorted((f[0], f[1]) for f in known if len(f) == 2)
    return Layout.of(pairs, ambiguity.sizes)


def solve_local(
    ambiguity: Ambiguity, margin: Floats | float = 0.0, time_limit: float | None = None
) -> LocalSolution:
    """Solve the polynomial program; `margin` is η, a number or one per cell."""
    layout, K = layout_of(ambiguity), ambiguity.n_classes
    program, deadline = _program(ambiguity, layout, margin), Deadline(time_limit)
    answer = solve_interior(program, time_limit=deadline.limit)
    found = _read(answer, program, ambiguity, layout)
    claimed = -answer.value if K == 2 else 1 - answer.value
    if answer.status == "optimal" and found.value <= claimed + _PRECISE:
        return found
    again = _read(_persistent(program, deadline), program, ambiguity, layout)
    if again.status == "infeasible" or not found.value <= again.value:
        return again
    return found._replace(status=again.status)


def first_bound(ambiguity: Ambiguity, deadline: Deadline) -> tuple[Promise, Status]:
    """Best rule known at once, of one table, least squares or the program; its status.

    Simple rules may promise less than the polynomial program where hundreds of pairs
    are nearly independent, or rows are few. If Ctrl-C ends the program, they count.
    """
    best = Promise(*table_rule(ambiguity), "one table")
    if not len(ambiguity.sizes):  # the classes alone
        return best, "optimal"
    try:
        squares = Promise(*quadratic_rule(ambiguity), "least squares")
        best = min(best, squares, key=lambda rule: rule.upper)
        found = solve_local(ambiguity, time_limit=deadline.limit)
    except KeyboardInterrupt:
        return best, "interrupted"
    if found.value <= best.upper + TOLERANCE:  # never more, but for rounding
        best = Promise(found.value, found.multiplier, "linear program")
    return best, found.status


def _program(ambiguity: Ambiguity, layout: Layout, margin: Floats | float) -> Program:
    K = ambiguity.n_classes
    components = 3 if K == 2 else K + 1
    consistency = consistency_rows(layout, components)
    blocks = [
        consistency,
        tie_rows(ambiguity, layout, _shares(K)),
        _mass(layout, _shares(K)),
        _nonnegative(layout, K),
    ]
    b, zeros = ambiguity.b, np.zeros(consistency.shape[0])
    free = np.full(blocks[3].shape[0], np.inf)
    cost = np.zeros(components * layout.width)
    cost[layout.single(0)] = -1.0 if K == 2 else 1.0
    low = np.concatenate([zeros, b - margin, [1.0], np.zeros(len(free))])
    high = np.concatenate([zeros, b + margin, [1.0], free])
    return Program.of(cost, sparse.vstack(blocks), low, high)


def solved(program: Program, deadline: Deadline) -> Solution:
    """Solve by interior points; they and presolve may fail by rounding."""
    if len(program.cost) > _LARGE:
        answer = solve_interior(program, time_limit=deadline.limit)
        if answer.status == "optimal":
            return answer
    return _persistent(program, deadline)


def _persistent(program: Program, deadline: Deadline) -> Solution:
    """Solve by HiGHS, in one way after another."""
    for method, presolve in (("ipm", True), ("ipm", False), ("simplex", False)):
        answer = solve(
            program, time_limit=deadline.limit, presolve=presolve, method=method
        )
        if answer.status == "optimal" or deadline.passed:
            break
    return answer


def _read(
    answer: Solution, program: Program, ambiguity: Ambiguity, layout: Layout
) -> LocalSolution:
    cells, K = len(ambiguity.b), ambiguity.n_classes
    u = answer.duals
    if answer.status == "infeasible" or len(u) != len(program.low):
        return LocalSolution(np.inf, np.zeros(cells), answer.status)
    signs = int(layout.pair_starts[-1]) * (K if K > 2 else 0)
    first = len(u) - signs - 1 - cells
    lack = _lack(u, program, layout, K)
    u = np.append(u[: len(u) - signs], np.maximum(u[len(u) - signs :], 0))
    ends = np.where(u > 0, program.low, program.high)
    value = lack - float(u[u != 0] @ ends[u != 0])
    constant = lack - u[first + cells]
    if K > 2:
        value, constant = value + 1.0, constant + 1.0
    multiplier = ambiguity.shifted(-u[first : first + cells], constant)
    return LocalSolution(value, multiplier, answer.status)


def _lack(u: Floats, program: Program, layout: Layout, K: int) -> float:
    """Return what the functions could lack at worst, by the reduced costs."""
    reduced = (program.cost - program.A.T @ u).reshape(-1, layout.width)
    least = np.minimum.reduceat(reduced, layout.blocks, axis=1).sum(axis=1)
    if K == 2 or not layout.pairs:
        return float(np.maximum(-least, 0).sum())
    pairs = layout.pair_starts
    signs = u[len(u) - K * int(pairs[-1]) :].reshape(K, -1)
    slack = np.minimum.reduceat(signs, pairs[:-1], axis=1)
    return float(np.maximum(-least, 0).sum() + np.maximum(-slack, 0).sum())


def _shares(K: int) -> Floats:
    """How the class tables are made of the components: (classes, components)."""
    if K == 2:
        return np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    return np.hstack([np.ones((K, 1)), -np.eye(K)])


# ---- simple rules


class Promise(NamedTuple):
    """A rule by its multiplier, the worst error it promises, and where it is from."""

    upper: float
    multiplier: Floats
    origin: str


def table_rule(ambiguity: Ambiguity) -> tuple[float, Floats]:
    """Error and multiplier of the best rule that looks at one table only.

    With Y and one feature, it is the one-feature rule: exact, and no worse than always
    answering the most frequent class.
    """
    best, where = np.inf, -1
    for t, table in enumerate(ambiguity.tables):
        if table.with_target:
            error = 1 - float(table.probabilities.max(axis=-1).sum())
            best, where = min((best, where), (error, t))
    cells = ambiguity.tables[where].probabilities
    answers = np.eye(ambiguity.n_classes)[cells.argmax(axis=-1)]
    multiplier = np.zeros(len(ambiguity.b))
    span = slice(int(ambiguity.starts[where]), int(ambiguity.starts[where + 1]))
    multiplier[span] = 1 - answers.ravel()
    return float(ambiguity.b @ multiplier), multiplier


def quadratic_rule(ambiguity: Ambiguity) -> tuple[float, Floats]:
    r"""Error and multiplier of the rule of least squares, where all pairs are known.

    For any additive estimates ``t = Z^T W`` the functions ``λ_y = ‖t − e_y‖²`` will do,
    and the least of their expectations, ``B = E‖t − e_Y‖²``, is 2γ of the classifier
    without penalty. Where pairs are missing it is inf.
    """
    sizes, K, starts = ambiguity.sizes, ambiguity.n_classes, offsets(ambiguity.sizes)
    spans = [slice(*starts[i : i + 2]) for i in range(len(sizes))]
    Q, F = np.full((starts[-1], starts[-1]), np.nan), np.zeros((starts[-1], K))
    for table in ambiguity.tables:
        p = table.probabilities
        if table.with_target and len(table.features) == 1:
            (i,) = table.features
            F[spans[i]], Q[spans[i], spans[i]] = p, np.diag(p.sum(axis=1))
        elif len(table.features) == 2:
            i, j = table.features
            Q[spans[i], spans[j]] = p.sum(axis=-1) if table.with_target else p
            Q[spans[j], spans[i]] = Q[spans[i], spans[j]].T
    if not np.isfinite(Q).all():
        return np.inf, np.zeros(len(ambiguity.b))
    Z = np.linalg.lstsq(Q, F, rcond=1e-12)[0]
    square, lead = ambiguity.quadratics(Z, np.zeros(K), np.arange(K))
    multiplier = ambiguity.shifted(square - 2 * lead, 1.0)
    return float(ambiguity.b @ multiplier), multiplier


# ---- parts of programs whose variables are tables


def consistency_rows(layout: Layout, components: int) -> sparse.csr_array:
    """Rows: the margins of every pair's table are those of its columns.

    Where pairs do not link some columns to the first, their masses are equal.
    """
    entries, count = _Entries(), 0
    part = np.arange(len(layout.sizes))
    for i, j in layout.pairs:
        part[part == part[j]] = part[i]
    for j in np.unique(part, return_index=True)[1].tolist():
        if part[j] != part[0]:
            for cells, sign in ((layout.single(0), 1.0), (layout.single(j), -1.0)):
                entries.add(np.full(len(cells), count), cells, sign)
            count += 1
    for k, (i, j) in enumerate(layout.pairs):
        cells = layout.pair(k)
        for matrix, column in ((cells, i), (cells.T, j)):
            rows = np.arange(count, count + len(matrix))
            entries.add(np.repeat(rows, matrix.shape[1]), matrix.ravel(), 1.0)
            entries.add(rows, layout.single(column), -1.0)
            count += len(matrix)
    one = entries.matrix(count, layout.width)
    return sparse.csr_array(sparse.block_diag([one] * components))


class _Entries:
    """Entries of a sparse matrix, gathered part by part."""

    def __init__(self) -> None:
        self.rows, self.columns = [np.empty(0, int)], [np.empty(0, int)]
        self.values = [np.empty(0)]

    def add(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: Floats | float,
    ) -> None:
        self.rows.append(rows)
        self.columns.append(columns)
        self.values.append(np.broadcast_to(values, rows.shape))

    def matrix(self, height: int, width: int) -> sparse.csr_array:
        where = (np.concatenate(self.rows), np.concatenate(self.columns))
        entries = (np.concatenate(self.values), where)
        return sparse.csr_array(entries, shape=(height, width))


def tie_rows(ambiguity: Ambiguity, layout: Layout, shares: Floats) -> sparse.csr_array:
    """Rows: the components, by their shares, add up to the given tables.

    `shares` is (classes, components).
    """
    entries = _Entries()
    for table, start in zip(ambiguity.tables, ambiguity.starts, strict=False):
        cells = layout.table(table.features).ravel()
        classes = shares if table.with_target else shares.sum(axis=0, keepdims=True)
        number = np.arange(len(cells)) * bool(table.features)
        y, c = np.nonzero(classes)
        places = int(start) + number[:, None] * len(classes) + y
        columns = cells[:, None] + c * layout.width
        entries.add(places.ravel(), columns.ravel(), np.tile(classes[y, c], len(cells)))
    return entries.matrix(len(ambiguity.b), shares.shape[1] * layout.width)


def open_cells(ambiguity: Ambiguity, layout: Layout) -> Flags:
    """Cells that the tables leave open to each class: (classes, width)."""
    found = np.ones((ambiguity.n_classes, layout.width), bool)
    for table in ambiguity.tables:
        some = table.probabilities > 0
        each = np.moveaxis(some, -1, 0) if table.with_target else some[None]
        if table.features:
            found[:, layout.table(table.features)] &= each
    plain = {table.features for table in ambiguity.tables if not table.with_target}
    for k, (i, j) in enumerate(layout.pairs):
        if (i, j) in plain:
            first, second = found[:, layout.single(i)], found[:, layout.single(j)]
            found[:, layout.pair(k)] &= first[:, :, None] & second[:, None, :]
    return found


def without(program: Program, kept: Flags) -> tuple[Program, NDArray[np.intp]]:
    """Return the program with some of its variables, and the rows that they are in."""
    A = sparse.csr_array(program.A[:, kept])
    rows = np.flatnonzero(np.diff(A.indptr))
    low, high = program.low[rows], program.high[rows]
    lower, upper = program.lower[kept], program.upper[kept]
    return Program.of(program.cost[kept], A[rows], low, high, lower, upper), rows


def _mass(layout: Layout, shares: Floats) -> sparse.csr_array:
    """Row: all classes together have the mass 1."""
    weights = np.zeros((shares.shape[1], layout.width))
    weights[:, layout.single(0)] = shares.sum(axis=0)[:, None]
    return sparse.csr_array(weights.reshape(1, -1))


def _nonnegative(layout: Layout, K: int) -> sparse.csr_array:
    """Rows: the pair tables of every class, M_v − S_y, are not negative."""
    cells = int(layout.pair_starts[-1])
    if K == 2 or not cells:
        return sparse.csr_array((0, (3 if K == 2 else K + 1) * layout.width))
    eye = sparse.eye_array(cells, layout.width)
    blocks = [[eye, *((-eye if c == y else None) for c in range(K))] for y in range(K)]
    return sparse.csr_array(sparse.block_array(blocks))
