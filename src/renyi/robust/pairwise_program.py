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

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import offsets
from renyi.robust.ambiguity_set import Ambiguity
from renyi.solvers.programs import Program, Solution, solve, solve_interior

Floats = NDArray[np.float64]


# Variables beyond which a factorisation of the whole program pays.
_LARGE = 12_000
# What a proven value may exceed the solver's own by, before another solver is asked.
_PRECISE = 1e-7


class LocalSolution(NamedTuple):
    """A proven bound on e*, and the multiplier on the cells of the tables."""

    value: float
    multiplier: Floats
    status: str


class Layout(NamedTuple):
    """Places of the variables: components × (cells of pairs, cells of columns)."""

    pairs: list[tuple[int, int]]
    pair_starts: NDArray[np.int64]
    single_starts: NDArray[np.int64]
    sizes: NDArray[np.intp]

    @property
    def width(self) -> int:
        """Variables of one component."""
        return int(self.pair_starts[-1] + self.single_starts[-1])

    def pair(self, k: int) -> NDArray[np.int64]:
        """Places of the cells of a pair, as a matrix."""
        i, j = self.pairs[k]
        shape = (self.sizes[i], self.sizes[j])
        places = np.arange(self.pair_starts[k], self.pair_starts[k + 1])
        return np.asarray(places.reshape(shape))

    def single(self, i: int) -> NDArray[np.int64]:
        """Places of the cells of a column."""
        first = self.pair_starts[-1]
        own = np.arange(self.single_starts[i], self.single_starts[i + 1])
        return np.asarray(first + own)


def layout_of(ambiguity: Ambiguity) -> Layout:
    """Places of the variables for the tables of an ambiguity."""
    pairs = sorted({t.features for t in ambiguity.tables if len(t.features) == 2})
    known = {t.features for t in ambiguity.tables}
    if any(len(features) > 2 for features in known):
        raise ValueError(
            "method='lp' takes tables of at most two features: use method='exact'."
        )
    sizes = ambiguity.sizes
    cells = [int(sizes[i] * sizes[j]) for i, j in pairs]
    return Layout(list(pairs), offsets(cells), offsets(sizes), sizes)


def solve_local(
    ambiguity: Ambiguity, margin: Floats | float = 0.0, time_limit: float | None = None
) -> LocalSolution:
    """Solve the polynomial program; `margin` is η, a number or one per cell."""
    layout, K = layout_of(ambiguity), ambiguity.n_classes
    program = _program(ambiguity, layout, margin)
    begun = time.monotonic()
    answer = solve_interior(program, time_limit=time_limit)
    found = _read(answer, program, ambiguity, layout)
    claimed = -answer.value if K == 2 else 1 - answer.value
    if answer.status == "optimal" and found.value <= claimed + _PRECISE:
        return found
    left = None if time_limit is None else time_limit + begun - time.monotonic()
    again = _read(_persistent(program, left), program, ambiguity, layout)
    if again.status == "infeasible" or not found.value <= again.value:
        return again
    return found._replace(status=again.status)


def _program(ambiguity: Ambiguity, layout: Layout, margin: Floats | float) -> Program:
    K = ambiguity.n_classes
    components = 3 if K == 2 else K + 1
    consistency = consistency_rows(layout, components)
    blocks = [
        consistency,
        tie_rows(ambiguity, layout, _shares(K), components),
        _mass(layout, _shares(K)),
        _nonnegative(layout, K),
    ]
    b, zeros = ambiguity.b, np.zeros(consistency.shape[0])
    free = np.full(blocks[3].shape[0], np.inf)
    size = components * layout.width
    cost = np.zeros(size)
    cost[layout.single(0)] = -1.0 if K == 2 else 1.0
    return Program(
        cost,
        sparse.csc_array(sparse.vstack(blocks)),
        np.concatenate([zeros, b - margin, [1.0], np.zeros(len(free))]),
        np.concatenate([zeros, b + margin, [1.0], free]),
        np.zeros(size),
        np.full(size, np.inf),
    )


def solved(program: Program, time_limit: float | None) -> Solution:
    """Solve by interior points; they and presolve may fail by rounding."""
    begun = time.monotonic()
    if len(program.cost) > _LARGE:
        answer = solve_interior(program, time_limit=time_limit)
        if answer.status == "optimal":
            return answer
    left = None if time_limit is None else time_limit + begun - time.monotonic()
    return _persistent(program, left)


def _persistent(program: Program, time_limit: float | None) -> Solution:
    """Solve by HiGHS, in one way after another."""
    begun = time.monotonic()
    for method, presolve in (("ipm", True), ("ipm", False), ("simplex", False)):
        left = None if time_limit is None else time_limit + begun - time.monotonic()
        answer = solve(program, time_limit=left, presolve=presolve, method=method)
        if answer.status == "optimal" or (left is not None and left <= 0):
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
    pairs, singles = layout.pair_starts, layout.single_starts
    starts = np.append(pairs[:-1], pairs[-1] + singles[:-1])
    least = np.minimum.reduceat(reduced, starts, axis=1).sum(axis=1)
    if K == 2 or not len(layout.pairs):
        return float(np.maximum(-least, 0).sum())
    signs = u[len(u) - K * int(pairs[-1]) :].reshape(K, -1)
    slack = np.minimum.reduceat(signs, pairs[:-1], axis=1)
    return float(np.maximum(-least, 0).sum() + np.maximum(-slack, 0).sum())


def _shares(K: int) -> Floats:
    """How the class tables are made of the components: (classes, components)."""
    if K == 2:
        return np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    return np.hstack([np.ones((K, 1)), -np.eye(K)])


def consistency_rows(layout: Layout, components: int) -> sparse.csr_array:
    """Rows: the margins of every pair's table are those of its columns.

    Where there is no table of the first column and another, their masses are equal.
    """
    rows, columns, values = [], [], []
    count = 0
    for i in range(1, len(layout.sizes)):
        if (0, i) not in layout.pairs:
            for sign, column in ((-1.0, 0), (1.0, i)):
                cells = layout.single(column)
                rows.append(np.full(len(cells), count))
                columns.append(cells)
                values.append(np.full(len(cells), sign))
            count += 1
    for k, (i, j) in enumerate(layout.pairs):
        cells = layout.pair(k)
        for matrix, column in ((cells, i), (cells.T, j)):
            m = len(matrix)
            rows.append(np.repeat(np.arange(count, count + m), matrix.shape[1]))
            columns.append(matrix.ravel())
            values.append(np.ones(matrix.size))
            rows.append(np.arange(count, count + m))
            columns.append(layout.single(column))
            values.append(-np.ones(m))
            count += m
    if not rows:
        return sparse.csr_array((0, components * layout.width))
    one = sparse.csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(count, layout.width),
    )
    return sparse.csr_array(sparse.block_diag([one] * components))


def tie_rows(
    ambiguity: Ambiguity, layout: Layout, shares: Floats, components: int
) -> sparse.csr_array:
    """Rows: the components add up to the given tables, cell by cell."""
    where = {pair: k for k, pair in enumerate(layout.pairs)}
    rows, columns, values = [], [], []
    for table, start in zip(ambiguity.tables, ambiguity.starts, strict=False):
        if len(table.features) < 2:  # of Y alone: the mass, by the first column
            cells = layout.single(table.features[0] if table.features else 0)
        else:
            a, b = table.features
            cells = layout.pair(where[a, b]).ravel()
        classes = shares if table.with_target else shares.sum(axis=0, keepdims=True)
        for y, share in enumerate(classes):
            number = np.arange(len(cells)) if table.features else np.zeros(len(cells))
            place = start + number.astype(np.int64) * len(classes) + y
            for c in np.flatnonzero(share):
                rows.append(place)
                columns.append(c * layout.width + cells)
                values.append(np.full(len(cells), share[c]))
    shape = (len(ambiguity.b), components * layout.width)
    entries = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array((np.concatenate(values), entries), shape=shape)


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
