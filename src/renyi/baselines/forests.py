r"""The minimax program along a tree: small, and exact.

Given P(X_i, X_j, Y) on the edges of a tree (or of a forest) over the features, the
smallest worst error that any rule can promise is

.. math:: e^* = \max \sum_S (|S| - 1)\, \mathrm{mass}(w_S), \quad
    \sum_{S \ni y} w_S = P(\cdot, y), \quad w_S \ge 0,

S running over the nonempty sets of classes, w_S being a measure on the outcomes (see
`renyi.robust.direct_program`). Only its tables on the edges are asked for: tables along
a tree that agree on the features they share always belong to a measure. So the program
has a variable for each cell and set, not for each outcome. The w_S of single classes
are the slack of ``Σ w_S ≤ P``: for two classes what is left is the largest measure t
whose tables stay below ``min_y P(X_i, X_j, y)``.

The multipliers of the cells are functions w_i^y(x_i, x_π(i)) ≥ 0, and those of
agreement are the messages of a dynamic program; together they prove, along the tree,

.. math:: \sum_{y \in S} \lambda_y(x) \ge |S| - 1 \quad \text{for all } x, S, \quad
    \lambda_y(x) = \sum_i w_i^y(x_i, x_{\pi(i)}).

This is the dual that Eban, Mezuman and Globerson (Discrete Chebyshev classifiers,
ICML 2014) reach from the worst hinge loss. The minimum over x of such sums is found
again here without the solver, by messages; what may be lacking is added, so that the
value is proven whatever the solver's tolerance.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.baselines.trees import rooted
from renyi.counting.onehot import offsets
from renyi.robust.ambiguity_set import Ambiguity
from renyi.solvers.programs import Program, Solution, solve, solve_interior

Floats = NDArray[np.float64]
Sets = list[tuple[int, ...]]

# Every set of two classes or more has its own variables.
_MAX_CLASSES = 8


class ForestSolution(NamedTuple):
    """The proven bound, its multiplier, and where the worst distribution errs.

    `multiplier` has a number for every cell of every table. `errors` has an array for
    each table: the mass of the errors by the categories of its features.
    """

    value: float
    multiplier: Floats
    errors: list[Floats]


def solve_forest(ambiguity: Ambiguity, *, interior: bool = True) -> ForestSolution:
    """Smallest worst error given tables along a forest, and functions that prove it.

    Parameters
    ----------
    ambiguity : Ambiguity
        Tables of one or two features and the target; the pairs form a forest.
    interior : bool, default=True
        Whether to take a solution in the middle of the optimal ones, which uses all
        features alike, rather than a corner, which is found sooner.

    Examples
    --------
    >>> import renyi
    >>> from dataclasses import replace
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
    >>> few = Ambiguity.of(m.select(["crime", "immigration", "physician-fee-freeze"]))
    >>> chain = [t for t in few.tables if t.features in {(0, 1), (1, 2)}]
    >>> round(solve_forest(replace(few, tables=tuple(chain))).value, 4)
    0.0414
    """
    refuse_many_classes(ambiguity.n_classes)
    sets = _sets(ambiguity.n_classes, 2)
    frame = _frame(ambiguity)
    kept = _possible(ambiguity, sets, frame)
    answer = _solved(_program(ambiguity, sets, frame, kept), interior)
    b = ambiguity.b
    # Of cells without mass the program knows nothing: see Ambiguity.completed.
    multiplier = np.where(b > 0, np.maximum(-answer.duals[: len(b)], 0.0), 0.0)
    multiplier = ambiguity.shifted(multiplier, _lack(ambiguity, multiplier))
    x = np.zeros(len(kept))
    x[kept] = np.maximum(answer.x, 0.0)
    mass = x.reshape(frame.width, -1) @ _gains(sets)
    errors = [
        mass[low:high].reshape(table.probabilities.shape[:-1])
        for table, low, high in zip(
            ambiguity.tables, frame.cells[:-1], frame.cells[1:], strict=True
        )
    ]
    value = float(b @ multiplier)
    return ForestSolution(value, ambiguity.completed(multiplier), errors)


def refuse_many_classes(n_classes: int) -> None:
    """Refuse more classes than the program can list sets of.

    >>> refuse_many_classes(3)
    """
    if n_classes > _MAX_CLASSES:
        raise ValueError(
            f"There are {n_classes} classes, and the program along a tree takes at "
            f"most {_MAX_CLASSES}: merge some, or use MinimaxClassifier with "
            "class_conditional=True."
        )


def _sets(n_classes: int, least: int) -> Sets:
    sizes = range(least, n_classes + 1)
    return [S for k in sizes for S in combinations(range(n_classes), k)]


def _gains(sets: Sets) -> Floats:
    return np.array([len(S) - 1.0 for S in sets])


def _members(sets: Sets, n_classes: int) -> Floats:
    """Which class is in which set: (K, sets)."""
    return np.array([[float(y in S) for S in sets] for y in range(n_classes)])


# ---- the program


class _Frame(NamedTuple):
    """Places of the tables' cells, then of shared features' categories, then mass.

    Every place stands for one variable of each set of classes.
    """

    cells: NDArray[np.int64]
    shared: dict[int, int]
    width: int


def _frame(ambiguity: Ambiguity) -> _Frame:
    K = ambiguity.n_classes
    cells = offsets([t.probabilities.size // K for t in ambiguity.tables])
    held = np.zeros(len(ambiguity.sizes), np.intp)
    for table in ambiguity.tables:
        held[list(table.features)] += 1
    shared, place = {}, int(cells[-1])
    for i in np.flatnonzero(held > 1).tolist():
        shared[i] = place
        place += int(ambiguity.sizes[i])
    return _Frame(cells, shared, place + 1)


def _possible(ambiguity: Ambiguity, sets: Sets, frame: _Frame) -> NDArray[np.bool_]:
    """Which variables there are: none where a class of the set has no mass."""
    K = ambiguity.n_classes
    kept = np.ones(frame.width * len(sets), bool)
    empty = (ambiguity.b <= 0).reshape(-1, K) @ _members(sets, K)
    kept[: empty.size] = empty.ravel() == 0
    return kept


class _Entries(NamedTuple):
    """Some rows of the program's matrix, by the entries that are not zero."""

    height: int
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    values: Floats


def _program(
    ambiguity: Ambiguity, sets: Sets, frame: _Frame, kept: NDArray[np.bool_]
) -> Program:
    """Return the program, without the variables that are not kept."""
    ties, agree = _ties(ambiguity, sets, frame), _agreement(ambiguity, frame, len(sets))
    rows = np.concatenate([ties.rows, ties.height + agree.rows])
    places = np.concatenate([ties.places, agree.places])
    values = np.concatenate([ties.values, agree.values])
    there, number = kept[places], np.cumsum(kept) - 1
    where = (rows[there], number[places[there]])
    shape = (ties.height + agree.height, int(kept.sum()))
    A = sparse.csc_array((values[there], where), shape=shape)
    A.sort_indices()
    cost = np.zeros(len(kept))
    cost[-len(sets) :] = -_gains(sets)
    zeros = np.zeros(agree.height)
    return Program(
        cost[kept],
        A,
        np.concatenate([np.full(ties.height, -np.inf), zeros]),
        np.concatenate([ambiguity.b, zeros]),
        np.zeros(shape[1]),
        np.full(shape[1], np.inf),
    )


def _ties(ambiguity: Ambiguity, sets: Sets, frame: _Frame) -> _Entries:
    """Rows of each cell and class: the sets with the class have no more than b."""
    K = ambiguity.n_classes
    y, s = np.nonzero(_members(sets, K))
    cells = np.arange(frame.cells[-1])[:, None]
    rows, places = (cells * K + y).ravel(), (cells * len(sets) + s).ravel()
    return _Entries(len(ambiguity.b), rows, places, np.ones(len(rows)))


def _agreement(ambiguity: Ambiguity, frame: _Frame, n_sets: int) -> _Entries:
    """Rows that make tables agree on shared features, and all parts on the mass.

    A row says that cells of a table add up to a variable of the frame. All tables are
    taken at once: a matrix for each of them takes longer than the solver.
    """
    to, kinds = _sums(ambiguity, frame)
    counts = np.where(to < 0, 0, kinds)
    begin = offsets(counts.ravel())
    cells = np.arange(frame.cells[-1])
    table = np.repeat(np.arange(len(to)), np.diff(frame.cells))
    first, second = np.divmod(cells - frame.cells[table], kinds[table, 1])
    kind = np.column_stack([first, second, np.zeros_like(first)])
    asked, own = np.nonzero(to[table].T >= 0)
    summed = begin[3 * table[own] + asked] + kind[own, asked]
    totals = np.arange(begin[-1])
    group = np.repeat(np.arange(to.size), counts.ravel())
    shared = to.ravel()[group] + totals - begin[group]
    rows = np.concatenate([summed, totals])[:, None] * n_sets + np.arange(n_sets)
    places = np.concatenate([own, shared])[:, None] * n_sets + np.arange(n_sets)
    values = np.repeat([1.0, -1.0], [len(own) * n_sets, len(totals) * n_sets])
    return _Entries(int(begin[-1]) * n_sets, rows.ravel(), places.ravel(), values)


def _sums(
    ambiguity: Ambiguity, frame: _Frame
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First variable that three sums of each table are, or -1, and their numbers.

    The sums by the categories of the first feature, by those of the second, of all.
    """
    tables = ambiguity.tables
    kinds = np.array([(*t.probabilities.shape[:-1], 1, 1)[:3] for t in tables])
    kinds[:, 2] = 1
    to = np.full(kinds.shape, -1)
    for t, table in enumerate(tables):
        to[t, : len(table.features)] = [frame.shared.get(i, -1) for i in table.features]
    to[list(_first_tables(ambiguity)), 2] = frame.width - 1
    return to, kinds


def _edges(ambiguity: Ambiguity) -> dict[tuple[int, int], int]:
    """Pairs of features and the numbers of their tables."""
    found = {}
    for t, table in enumerate(ambiguity.tables):
        if not table.with_target or len(table.features) not in (1, 2):
            raise ValueError(
                "The program along a tree takes tables of one or two features and the "
                f"target: leave out table {t}, which is of another kind."
            )
        if len(table.features) == 2:
            found[table.features[0], table.features[1]] = t
    return found


def _first_tables(ambiguity: Ambiguity) -> set[int]:
    """Return one table of each part of the forest."""
    forest = rooted(list(_edges(ambiguity)), len(ambiguity.sizes))
    part = {root: root for root in forest.roots}
    for parent, child, _ in forest.steps:
        part[child] = part[parent]
    found: dict[int, int] = {}
    for t, table in enumerate(ambiguity.tables):
        found.setdefault(part[table.features[0]], t)
    return set(found.values())


def _solved(program: Program, interior: bool) -> Solution:
    """Solve; no measure at all is feasible, so that presolve can do no harm."""
    if interior:
        answer = solve_interior(program)
        if answer.status == "optimal":
            return answer
    answer = solve(program, presolve=True, method="simplex")
    if answer.status != "optimal":
        raise ValueError(
            "No distribution has these class-conditional tables: look for what is "
            "wrong with validate() of the marginals."
        )
    return answer


# ---- the proof


def _lack(ambiguity: Ambiguity, multiplier: Floats) -> float:
    """Return what all λ_y lack at worst; 0 if they keep what they promise."""
    sets = _sets(ambiguity.n_classes, 1)
    least = least_sums(ambiguity, multiplier, sets)
    lack = (_gains(sets) - least) / (_gains(sets) + 1)
    return max(0.0, float(lack.max()))


def least_sums(ambiguity: Ambiguity, multiplier: Floats, sets: Sets) -> Floats:
    """Minimum over the possible x of Σ_{y∈S} λ_y(x), for each set S, by messages.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X[["crime"]], y, class_conditional=True)
    >>> least_sums(Ambiguity.of(m), np.arange(6.0), [(0,), (0, 1)])
    array([0., 1.])
    """
    edges = _edges(ambiguity)
    members = _members(sets, ambiguity.n_classes)
    nodes = [np.zeros((size, len(sets))) for size in ambiguity.sizes.tolist()]
    sums = []
    for table, low, high in zip(
        ambiguity.tables, ambiguity.starts[:-1], ambiguity.starts[1:], strict=True
    ):
        each = multiplier[low:high].reshape(table.probabilities.shape) @ members
        empty = (table.probabilities <= 0) @ members > 0
        sums.append(np.where(empty, np.inf, each))
        if len(table.features) == 1:
            nodes[table.features[0]] += sums[-1]
    pairs = list(edges)
    forest = rooted(pairs, len(nodes))
    for parent, child, number in reversed(forest.steps):
        cells = sums[edges[pairs[number]]]
        if pairs[number][0] == child:
            cells = cells.transpose(1, 0, 2)
        nodes[parent] += (cells + nodes[child]).min(axis=1)
    return np.asarray(sum(nodes[root].min(axis=0) for root in forest.roots))
