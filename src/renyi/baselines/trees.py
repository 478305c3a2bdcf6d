r"""Trees over the features: by information, or greedily by the bound they allow.

*Information.* From the pair counts within each class,

.. math:: I(X_i; X_j | Y) = \sum_{k, l, y} P(k, l, y)
    \log \frac{P(k, l | y)}{P(k | y)\, P(l | y)},

and the tree of largest total weight (Chow and Liu 1968; Friedman, Geiger and
Goldszmidt 1997), grown feature by feature.

*The program of a tree.* Given P(X_i, X_j, Y) on the edges of a tree, the smallest worst
error that any rule can promise is

.. math:: e^* = \max \sum_S (|S| - 1)\, \mathrm{mass}(w_S), \quad
    \sum_{S \ni y} w_S \le P(\cdot, y), \quad w_S \ge 0,

S running over the sets of two classes or more, w_S being a measure on the outcomes (see
`renyi.robust.minimax_problem`). Only its tables on the edges are asked for: tables
along a tree that agree on the features they share always belong to a measure. So it is
the program of pairs (`renyi.robust.pairwise_program`) on the tree's tables, exact and
small. For two classes it asks for the largest measure t whose tables stay below
``min_y P(X_i, X_j, y)``. The multipliers of the cells give the functions λ_y; the
minimum over x of their sums is found again here without the solver, by messages along
the tree, and what may be lacking is added, so that the value is proven whatever the
solver's tolerance. This is the dual that Eban, Mezuman and Globerson (Discrete
Chebyshev classifiers, ICML 2014) reach from the worst hinge loss.

*Greedily.* The bound of a tree never rises with an edge: one more table leaves fewer
distributions. To hang a feature j from a feature i of the tree is to ask that the
errors with X_i = k be no more than the table of the pair allows,

.. math:: r_i(k) \le G_{ij}(k) = \sum_l \Big[\sum_y P(k, l, y)
    - \max_y P(k, l, y)\Big],

r_i being the errors of the worst distribution by the categories of X_i. For two classes
nothing else is asked, so the bound falls by at most ``Σ_k (r_i(k) − G_ij(k))₊``: thin
the worst distribution out until the new table holds. Every other measure t that the
tables allow is a witness as well: with the edge, the bound is still at least
``mass(t) − Σ_k (t_i(k) − G_ij(k))₊``. Candidates are tried from the largest fall on,
until no other can do better, or a few have been: by a program, unless a witness, which
every program solved before has left, proves that this edge would not help. (Along 56
edges of the promoters they replaced five of six programs.) For more classes the same
number ranks the candidates, though more may be asked, and every trial is a program.

*Smoothing* by s rows: each class is mixed with s rows of itself in which the features
are independent. The counts of single features stay, so that tables still agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import offsets
from renyi.encoding.columns import Column, Columns
from renyi.robust.ambiguity_set import Ambiguity, Table
from renyi.robust.pairwise_program import (
    consistency_rows,
    open_cells,
    tie_rows,
    without,
)
from renyi.solvers.programs import (
    TOLERANCE,
    Program,
    Solution,
    solve,
    solve_interior,
)

Floats = NDArray[np.float64]
Edge = tuple[int, int]

# Every set of two classes or more has its own variables.
_MAX_CLASSES = 8
# Candidates for one edge at most.
_CANDIDATES = 6
# A fall of the bound that is no rounding.
_FALL = 1e-9
# What a margin may exceed its limit by: the rounding of a sum.
_ROUNDING = 1e-12

_NO_DISTRIBUTION = (
    "No distribution has these class-conditional tables: look for what is wrong with "
    "validate() of the marginals."
)


def block_sums(values: Floats, sizes: NDArray[Any]) -> Floats:
    """Sum each block of a D × D array: one number for each pair of features."""
    starts = offsets(sizes)[:-1]
    return np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)


def conditional_information(class_counts: NDArray[Any], sizes: NDArray[Any]) -> Floats:
    """Information of every pair of features given the class, in nats: (d, d).

    `class_counts` are the pair counts of the features within each class: (K, D, D).
    """
    total = np.zeros(class_counts.shape[1:])
    mass = 0.0
    for counts in class_counts:
        single = np.diag(counts)
        rows = float(single[: sizes[0]].sum())
        expected = np.outer(single, single) / max(rows, 1e-300)
        seen = counts > 0
        ratio = np.divide(counts, expected, out=np.ones(counts.shape), where=seen)
        total += np.where(seen, counts, 0) * np.log(ratio)
        mass += rows
    found = block_sums(total, sizes) / max(mass, 1e-300)
    np.fill_diagonal(found, 0.0)
    return np.asarray(np.maximum(found, 0.0))


def spanning_tree(weights: Floats, begun: Iterable[Edge] = ()) -> list[Edge]:
    """Edges (parent, child) of the tree of largest weight, from the root on (Prim).

    `begun` is a part that is already decided; the first feature of its first edge is
    the root, else feature 0.
    """
    edges = list(begun)
    root = edges[0][0] if edges else 0
    inside = np.zeros(len(weights), bool)
    inside[[root, *(child for _, child in edges)]] = True
    while not inside.all():
        ranked = np.where(inside[:, None] & ~inside, weights, -np.inf)
        parent, child = divmod(int(ranked.argmax()), len(weights))
        edges.append((parent, child))
        inside[child] = True
    return edges


# ---- the tables


class ClassTables(NamedTuple):
    """Probabilities of the pairs of features with each class, (K, D, D)."""

    pairs: Floats
    columns: Columns
    target: Column

    def table(self, *features: int) -> Table:
        """Probabilities of one or two features and the class."""
        starts = offsets(self.columns.sizes)
        first, last = features[0], features[-1]
        rows = slice(starts[first], starts[first + 1])
        block = self.pairs[:, rows, starts[last] : starts[last + 1]]
        if len(features) == 1:
            return Table(features, True, np.einsum("ykk->ky", block))
        return Table(features, True, block.transpose(1, 2, 0))

    def ambiguity(self, edges: list[Edge], *, alone: bool = True) -> Ambiguity:
        """Set of all distributions with the tables of some edges.

        A feature without an edge has a table with the class, if `alone` says so.
        """
        tables = [self.table(i, j) for i, j in edges]
        if alone:
            hung = {i for edge in edges for i in edge}
            others = (i for i in range(len(self.columns)) if i not in hung)
            tables += [self.table(i) for i in others]
        return Ambiguity(self.columns, self.target, tuple(tables))


def smoothed(pairs: Floats, sizes: NDArray[Any], share: NDArray[Any]) -> Floats:
    """Mix each class with independent features, `share` being how much of them."""
    single = np.einsum("ykk->yk", pairs)
    mass = np.maximum(single[:, : sizes[0]].sum(axis=1), 1e-300)[:, None, None]
    independent = single[:, :, None] * single[:, None, :] / mass
    mixed = pairs + share[:, None, None] * (independent - pairs)
    starts = offsets(sizes)
    for low, high in zip(starts[:-1], starts[1:], strict=True):
        mixed[:, low:high, low:high] = pairs[:, low:high, low:high]
    return np.asarray(mixed)


# ---- the program of a tree


class TreeSolution(NamedTuple):
    """The proven bound, its multiplier, and where the worst distribution errs.

    `errors` has an array for each table: the mass of the errors by the categories of
    its features.
    """

    value: float
    multiplier: Floats
    errors: list[Floats]


def solve_tree(ambiguity: Ambiguity, *, interior: bool = True) -> TreeSolution:
    """Smallest worst error given tables along a tree, and functions that prove it.

    The tables are of one or two features and the target, each pair's first feature in
    the tree before it. With `interior`, the solution is in the middle of the optimal
    ones, which uses all features alike, rather than a corner, which is found sooner.
    """
    check_few_classes(ambiguity.n_classes)
    if ambiguity.b.min(initial=0.0) < -TOLERANCE:
        raise ValueError(_NO_DISTRIBUTION)
    used = sorted({i for table in ambiguity.tables for i in table.features})
    ambiguity = ambiguity.restricted(used)
    layout, K, b = ambiguity.layout, ambiguity.n_classes, ambiguity.b
    sets = [S for k in range(K, 1, -1) for S in combinations(range(K), k)]
    members, gains = _members(sets, K), np.array([len(S) - 1.0 for S in sets])
    agree = consistency_rows(layout, len(sets))
    cost = np.zeros((len(sets), layout.width))
    cost[:, layout.cells(0)] = -gains[:, None]
    zeros = np.zeros(agree.shape[0])
    A = sparse.vstack([agree, tie_rows(ambiguity, members)])
    least, most = np.append(zeros, np.full(len(b), -np.inf)), np.append(zeros, b)
    whole = Program(cost.ravel(), A, least, most)
    closed = members.T @ ~open_cells(ambiguity)
    kept = closed.ravel() == 0  # no class of the set is without mass there
    program, rows = without(whole, kept)
    answer = _solved(program, interior)
    duals, x = np.zeros(len(whole.low)), np.zeros(cost.size)
    duals[rows], x[kept] = answer.duals, np.maximum(answer.x, 0.0)
    # Of cells without mass the program knows nothing: see Ambiguity.completed.
    multiplier = np.where(b > 0, np.maximum(-duals[len(zeros) :], 0.0), 0.0)
    multiplier = ambiguity.shifted(multiplier, _lack(ambiguity, multiplier))
    mass = gains @ x.reshape(cost.shape)
    errors = [mass[layout.cells(*table.features)] for table in ambiguity.tables]
    return TreeSolution(float(b @ multiplier), ambiguity.completed(multiplier), errors)


def check_few_classes(n_classes: int) -> None:
    """Raise an error at more classes than the program can list sets of."""
    if n_classes > _MAX_CLASSES:
        raise ValueError(
            f"There are {n_classes} classes, and the program along a tree takes at "
            f"most {_MAX_CLASSES}: merge some, or use MinimaxClassifier with "
            "class_conditional=True."
        )


def _members(sets: list[tuple[int, ...]], n_classes: int) -> Floats:
    """Which class is in which set: (K, sets)."""
    return np.array([[float(y in S) for S in sets] for y in range(n_classes)])


def _solved(program: Program, interior: bool) -> Solution:
    """Solve; no measure at all is feasible, so that presolve can do no harm."""
    if interior:
        answer = solve_interior(program)
        if answer.status == "optimal":
            return answer
    answer = solve(program, presolve=True, method="simplex")
    if answer.status != "optimal":
        raise ValueError(_NO_DISTRIBUTION)
    return answer


def _lack(ambiguity: Ambiguity, multiplier: Floats) -> float:
    """Return what all λ_y lack at worst; 0 if they keep what they promise."""
    K = ambiguity.n_classes
    sets = [S for k in range(1, K + 1) for S in combinations(range(K), k)]
    sizes = np.array([float(len(S)) for S in sets])
    least = least_sums(ambiguity, multiplier, sets)
    return max(0.0, float(((sizes - 1 - least) / sizes).max()))


def least_sums(
    ambiguity: Ambiguity, multiplier: Floats, sets: list[tuple[int, ...]]
) -> Floats:
    """Minimum over the possible x of Σ_{y∈S} λ_y(x), for each set S, by messages."""
    members = _members(sets, ambiguity.n_classes)
    nodes = [np.zeros((size, len(sets))) for size in ambiguity.sizes.tolist()]
    roots = set(range(len(nodes)))
    for table, cells in reversed(list(ambiguity.split(multiplier))):
        empty = (table.probabilities <= 0) @ members > 0
        sums = np.where(empty, np.inf, cells @ members)
        if len(table.features) == 1:
            nodes[table.features[0]] += sums
        else:
            parent, child = table.features
            nodes[parent] += (sums + nodes[child]).min(axis=1)
            roots.discard(child)
    return np.asarray(sum(nodes[root].min(axis=0) for root in roots))


# ---- the trees


class Structure(NamedTuple):
    """Edges in the order they were added, and the bound after each."""

    edges: list[Edge]
    bounds: list[float]


def information_tree(tables: ClassTables) -> Structure:
    """Tree of largest conditional mutual information; no bound is looked at."""
    information = conditional_information(tables.pairs, tables.columns.sizes)
    return Structure(spanning_tree(information), [])


def greedy_tree(tables: ClassTables) -> Structure:
    """Tree grown from the best pair, each edge by the fall of the bound.

    Where no edge lowers the bound, the one of most information is taken. The bounds
    are those of the features in the tree; once they are zero, none follows.
    """
    information = conditional_information(tables.pairs, tables.columns.sizes)
    if len(information) < 2:
        return Structure([], [])
    loss = tables.pairs.sum(axis=0) - tables.pairs.max(axis=0)
    first = _best_pair(loss, tables.columns.sizes, information)
    growth = _Growth(tables, loss, information, [first])
    while len(growth.edges) < len(information) - 1 and growth.found.value > _FALL:
        growth.grow()
    return Structure(spanning_tree(information, growth.edges), growth.bounds)


def _best_pair(loss: Floats, sizes: NDArray[Any], information: Floats) -> Edge:
    """Pair of features whose own rule errs least; among such, of most information."""
    errors = block_sums(loss, sizes)
    np.fill_diagonal(errors, np.inf)
    equal = errors <= errors.min() + _FALL
    i, j = divmod(int(np.where(equal, information, -1.0).argmax()), len(errors))
    return i, j


@dataclass
class _Growth:
    """A tree that grows, and the worst distribution along it."""

    tables: ClassTables
    loss: Floats
    information: Floats
    edges: list[Edge]

    def __post_init__(self) -> None:
        sizes = self.tables.columns.sizes
        self.allowed = np.add.reduceat(self.loss, offsets(sizes)[:-1], axis=1)
        self.witnesses = Witnesses(self.loss, sizes)
        self.found = self._solve(self.edges)
        self.errors = self._noted(self.edges, self.found)
        self.bounds = [self.found.value]

    def _solve(self, edges: list[Edge]) -> TreeSolution:
        return solve_tree(self.tables.ambiguity(edges, alone=False), interior=False)

    def grow(self) -> None:
        """Add one edge."""
        trials = self._trials()
        edge = min(trials, key=lambda e: trials[e].value, default=(0, 0))
        if not trials or trials[edge].value >= self.found.value - _FALL:
            edge = self._informative()  # no bound falls
        self.edges.append(edge)
        self.witnesses.extend(edge)
        self.found = trials[edge] if edge in trials else self._solve(self.edges)
        self.errors = self._noted(self.edges, self.found)
        self.bounds.append(min(self.found.value, self.bounds[-1]))  # but for rounding

    def _trials(self) -> dict[Edge, TreeSolution]:
        """Solve the programs of the edges that may have the largest fall."""
        falls = np.where(self._open(), self._falls(), -np.inf)
        found: dict[Edge, TreeSolution] = {}
        least = self.found.value - _FALL
        for place in np.argsort(-falls, axis=None, kind="stable")[:_CANDIDATES]:
            edge = divmod(int(place), len(falls))
            if self.found.value - falls[edge] >= least:
                break
            if not self.witnesses.prove(edge, least):
                found[edge] = self._solve([*self.edges, edge])
                self._noted([*self.edges, edge], found[edge])
                least = min(least, found[edge].value)
        return found

    def _noted(self, edges: list[Edge], solution: TreeSolution) -> Floats:
        """Errors by category; of two classes they are a witness for later."""
        errors = margins(edges, solution.errors, self.tables.columns.sizes)
        if len(self.tables.pairs) == 2:
            self.witnesses.add(errors, float(solution.errors[0].sum()))
        return errors

    def _open(self) -> NDArray[np.bool_]:
        """Which pairs hang a new feature from the tree: (d, d)."""
        inside = np.zeros(len(self.information), bool)
        inside[[i for edge in self.edges for i in edge]] = True
        return np.asarray(inside[:, None] & ~inside)

    def _informative(self) -> Edge:
        """Edge of most information."""
        open_scores = np.where(self._open(), self.information, -np.inf)
        i, j = divmod(int(open_scores.argmax()), len(open_scores))
        return i, j

    def _falls(self) -> Floats:
        """How far the bound can fall with each pair, the first being in the tree."""
        starts = offsets(self.tables.columns.sizes)
        excess = np.maximum(self.errors[:, None] - self.allowed, 0.0)
        return np.asarray(np.add.reduceat(excess, starts[:-1], axis=0))


def margins(edges: list[Edge], tables: list[Floats], sizes: NDArray[Any]) -> Floats:
    """Margins of a measure on all features of a tree, from its tables on the edges."""
    starts = offsets(sizes)
    found = np.zeros(int(starts[-1]))
    for (i, j), cells in zip(edges, tables, strict=True):
        found[starts[i] : starts[i + 1]] = cells.sum(axis=1)
        found[starts[j] : starts[j + 1]] = cells.sum(axis=0)
    return found


class Witnesses:
    """Measures of errors that the tables of a growing tree allow.

    `loss` is ``min_y P(X_i, X_j, y)`` of all pairs of features, (D, D).
    """

    def __init__(self, loss: Floats, sizes: NDArray[Any]) -> None:
        self._loss = loss
        starts = offsets(sizes)
        self._spans = [slice(*ends) for ends in zip(starts, starts[1:], strict=False)]
        self._errors = np.zeros((0, len(loss)))
        self._masses = np.zeros(0)

    def add(self, errors: Floats, mass: float) -> None:
        """Remember a measure along the tree by its margins and its mass."""
        self._errors = np.vstack([self._errors, errors])
        self._masses = np.append(self._masses, mass)

    def prove(self, edge: Edge, least: float) -> bool:
        """Whether the bound is known to be `least` or more with one edge more."""
        left = self._masses - self._excess(edge).sum(axis=1)
        return bool((left >= least).any())

    def extend(self, edge: Edge) -> None:
        """Go on along an edge to a new feature, with the measures that it allows.

        Each category's errors are shared out as the pair allows them.
        """
        kept = self._excess(edge).max(axis=1, initial=0.0) <= _ROUNDING
        self._errors, self._masses = self._errors[kept], self._masses[kept]
        block, limits = self._block(edge)
        share = block / np.where(limits > 0, limits, 1.0)[:, None]
        old, new = (self._spans[i] for i in edge)
        self._errors[:, new] = self._errors[:, old] @ share

    def _block(self, edge: Edge) -> tuple[Floats, Floats]:
        block = self._loss[self._spans[edge[0]], self._spans[edge[1]]]
        return block, block.sum(axis=1)

    def _excess(self, edge: Edge) -> Floats:
        _, limits = self._block(edge)
        own = self._errors[:, self._spans[edge[0]]]
        return np.asarray(np.maximum(own - limits, 0.0))
