r"""Discrete Chebyshev classifier: the minimax rule given pairs along a tree.

Eban, Mezuman and Globerson (Discrete Chebyshev classifiers, ICML 2014) minimise the
worst-case hinge loss over all distributions with given marginals P(X_i, X_j, Y). With
the pairs on one tree the problem is a small linear program. It is solved here for the
equivalent problem of the worst-case error. "tree" uses the pairs of largest conditional
mutual information (`renyi.baselines.tan`). "greedy" (gDCC) adds the pairs that reduce
the bound most. This is a reconstruction: the authors' program is not available, and may
break ties, choose trees and smooth tables in other ways.

*The program of a tree.* Given P(X_i, X_j, Y) on the edges of a tree, the smallest error
that any rule can guarantee is

.. math:: e^* = \max \sum_S (|S| - 1)\, \mathrm{mass}(w_S), \quad
    \sum_{S \ni y} w_S \le P(\cdot, y), \quad w_S \ge 0,

over all sets S of two classes or more, where w_S is a measure on the outcomes (see
`renyi.robust.minimax_problem`). Only its tables on the edges matter: tables along a
tree that agree on shared features always belong to a measure. So it is the program of
pairs (`renyi.robust.pairwise_program`) on the tree's tables, exact and small. For two
classes its solution is the largest measure t whose tables are below
``min_y P(X_i, X_j, y)``. The multipliers of the cells give the functions λ_y. The
minimum over x of their sums is computed here without the solver, by messages along the
tree. What may be lacking is added, so the value is proven whatever the solver's
tolerance.

*Ties.* Many rules have the same bound, and if all λ_y(x) are equal, none of them
prefers a class. Bayes' rule along the tree then decides. Its surprise
``−log P(x, y)``, which is not negative, is added to λ_y with a tiny weight, so that the
bound rises by at most 1e-7. So no tie depends on the solver's rounding.

*Greedy growth.* An edge never raises the bound of a tree: one more table leaves fewer
distributions. An edge from a feature i of the tree to a new feature j limits the errors
with X_i = k,

.. math:: r_i(k) \le G_{ij}(k) = \sum_l \Big[\sum_y P(k, l, y)
    - \max_y P(k, l, y)\Big],

where r_i are the errors of the worst distribution by the categories of X_i. For two
classes this is the only requirement, so the bound falls by at most
``Σ_k (r_i(k) − G_ij(k))₊``: reduce the worst distribution until the new table fits.
Every other measure t that the tables allow is a witness: with the edge, the bound is
still at least ``mass(t) − Σ_k (t_i(k) − G_ij(k))₊``. Candidates are tried in the order
of this fall, until no other can do better, or a few were tried. Each trial is a
program, unless a witness of an earlier program proves that the edge would not help.
(Along 56 edges of the promoters they replaced five of six programs.) For more classes
the same number ranks the candidates, but is not a bound, and every trial is a program.

*Smoothing* by s rows: each class is mixed with s rows in which the features are
independent. The shares of single categories do not change, so tables still agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.baselines.tan import (
    Edge,
    block_sums,
    conditional_information,
    fit_bayes_tree,
    spanning_tree,
)
from renyi.counting.onehot import spans
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.estimators.minimax import RuleClassifier
from renyi.marginals.consistency import class_pairs
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import (
    Ambiguity,
    Classes,
    Table,
    class_sets,
    members,
)
from renyi.robust.minimax_problem import MinimaxRule
from renyi.robust.pairwise_program import consistency_rows, tie_rows
from renyi.solvers.programs import (
    TOLERANCE,
    Program,
    Solution,
    solve,
    solve_interior,
)
from renyi.validation import check_amount, check_choice

Floats = NDArray[np.float64]

# The most that the tie-break may add to the bound.
_PRICE = 1e-7
# Rows by which the tie-break is smoothed, and its largest surprise.
_ROWS = 5.0
_SURPRISE = 50.0
_MAX_CLASSES = 8  # every set of two classes or more has variables
_CANDIDATES = 6  # most candidates for an edge
_FALL = 1e-9  # smaller falls of the bound are rounding
_ROUNDING = 1e-12  # most that rounding lifts a margin above its limit

_NO_DISTRIBUTION = (
    "No distribution has these class-conditional tables: count again "
    "(Marginals.validate() names the counts that disagree)."
)


# ---- the tables


@dataclass(frozen=True, eq=False)
class ClassTables:
    """Probabilities of the pairs of features with each class, (K, D, D)."""

    pairs: Floats
    columns: Columns
    target: Column

    @cached_property
    def spans(self) -> list[slice]:
        """Places of the categories of each feature."""
        return spans(self.columns.sizes)

    def table(self, *features: int) -> Table:
        """Return the probabilities of one or two features and the class."""
        block = self.pairs[:, self.spans[features[0]], self.spans[features[-1]]]
        if len(features) == 1:
            return Table(features, True, np.einsum("ykk->ky", block))
        return Table(features, True, block.transpose(1, 2, 0))

    def ambiguity(self, edges: list[Edge], *, alone: bool = True) -> Ambiguity:
        """Return the set with the tables of the edges, and of single features."""
        groups: list[tuple[int, ...]] = list(edges)
        if alone:
            hung = {i for edge in edges for i in edge}
            groups += [(i,) for i in range(len(self.columns)) if i not in hung]
        tables = tuple(self.table(*group) for group in groups)
        return Ambiguity(self.columns, self.target, tables)

    def smoothed(self, share: NDArray[Any]) -> ClassTables:
        """Mix each class with a `share` of independent features."""
        single = np.einsum("ykk->yk", self.pairs)
        mass = np.maximum(single[:, self.spans[0]].sum(axis=1), 1e-300)[:, None, None]
        independent = single[:, :, None] * single[:, None, :] / mass
        mixed = self.pairs + share[:, None, None] * (independent - self.pairs)
        for own in self.spans:
            mixed[:, own, own] = self.pairs[:, own, own]
        return replace(self, pairs=mixed)


# ---- the program of a tree


class TreeSolution(NamedTuple):
    """The proven bound, its multiplier, and the errors of the worst distribution."""

    value: float
    multiplier: Floats
    errors: list[Floats]  # of each table, by the categories of its features


def solve_tree(ambiguity: Ambiguity, *, interior: bool = True) -> TreeSolution:
    """Return the smallest guarantee for tables along a tree, and its proof.

    The tables are of one or two features and the target; the first feature of each pair
    is in an earlier table. With `interior`, the solution is in the middle of the
    optimal ones, which uses all features. A corner is faster.
    """
    if ambiguity.b.min(initial=0.0) < -TOLERANCE:
        raise ValueError(_NO_DISTRIBUTION)
    used = sorted({i for table in ambiguity.tables for i in table.features})
    ambiguity = ambiguity.restricted(used)
    layout = ambiguity.layout
    K = ambiguity.n_classes
    b = ambiguity.b
    sets = sorted(class_sets(K)[K:], key=len, reverse=True)
    gains = np.array([len(S) - 1.0 for S in sets])
    agree = consistency_rows(layout, len(sets))
    ties = tie_rows(ambiguity, members(sets, K))
    zeros = np.zeros(agree.shape[0])
    cost = np.zeros((len(sets), layout.width))
    cost[:, layout.cells(0)] = -gains[:, None]
    least = np.append(zeros, np.full(len(b), -np.inf))
    most = np.append(zeros, b)
    kept = np.ones(cost.size, bool)
    kept[ties.col[b[ties.row] <= 0]] = False  # a class of the set has no mass there
    row = np.append(agree.row, len(zeros) + ties.row)
    column = np.append(agree.col, ties.col)
    value = np.append(agree.data, ties.data)
    there = kept[column]
    if K == 2 and not interior:  # one end of each variable is enough
        lower = np.repeat(b.reshape(-1, 2).argmin(axis=1), 2) == np.arange(len(b)) % 2
        there[len(agree.row) :] &= lower[ties.row]
    row = row[there]
    column = column[there]
    rows = np.zeros(len(least), bool)
    rows[row] = True
    where = (np.cumsum(rows)[row] - 1, np.cumsum(kept)[column] - 1)
    shape = (int(rows.sum()), int(kept.sum()))
    A = sparse.csc_array((value[there], where), shape=shape)
    answer = _solved(Program(cost.ravel()[kept], A, least[rows], most[rows]), interior)
    duals = np.zeros(len(least))
    x = np.zeros(cost.size)
    duals[rows] = answer.duals
    x[kept] = np.maximum(answer.x, 0.0)
    # The program leaves out cells without mass: see Ambiguity.completed.
    multiplier = np.where(b > 0, np.maximum(-duals[len(zeros) :], 0.0), 0.0)
    multiplier = ambiguity.shifted(multiplier, _lack(ambiguity, multiplier))
    mass = gains @ x.reshape(cost.shape)
    errors = [mass[layout.cells(*table.features)] for table in ambiguity.tables]
    return TreeSolution(float(b @ multiplier), ambiguity.completed(multiplier), errors)


def _solved(program: Program, interior: bool) -> Solution:
    """Solve; the zero measure is feasible, so presolve is safe."""
    if interior:
        answer = solve_interior(program)
        if answer.status == "optimal":
            return answer
    answer = solve(program, presolve=True, method="simplex")
    if answer.status != "optimal":
        raise ValueError(_NO_DISTRIBUTION)
    return answer


def _lack(ambiguity: Ambiguity, multiplier: Floats) -> float:
    """Return the most that the λ_y lack; 0 if they are feasible."""
    sets = class_sets(ambiguity.n_classes)
    sizes = np.array([float(len(S)) for S in sets])
    least = least_sums(ambiguity, multiplier, sets)
    return max(0.0, float(((sizes - 1 - least) / sizes).max()))


def least_sums(ambiguity: Ambiguity, multiplier: Floats, sets: list[Classes]) -> Floats:
    """Return the minimum over possible x of Σ_{y∈S} λ_y(x), for each set S."""
    K = ambiguity.n_classes
    inside = members(sets, ambiguity.n_classes)
    empty = (ambiguity.b <= 0).reshape(-1, K) @ inside > 0
    sums = np.where(empty, np.inf, multiplier.reshape(-1, K) @ inside)
    nodes = [np.zeros((size, len(sets))) for size in ambiguity.sizes.tolist()]
    roots = set(range(len(nodes)))
    parts = np.split(sums, ambiguity.starts[1:-1] // K)
    for table, cells in reversed([*zip(ambiguity.tables, parts, strict=True)]):
        if len(table.features) == 1:
            nodes[table.features[0]] += cells
        else:
            parent, child = table.features
            pairs = cells.reshape(len(nodes[parent]), len(nodes[child]), -1)
            nodes[parent] += (pairs + nodes[child]).min(axis=1)
            roots.discard(child)
    return np.asarray(sum(nodes[root].min(axis=0) for root in roots))


# ---- a tree by its bound


def greedy_tree(tables: ClassTables) -> tuple[list[Edge], list[float]]:
    """Grow a tree from the best pair; return its edges, and the bound after each.

    If no edge lowers the bound, add the one with the most information. The bounds use
    the features in the tree; after a bound of zero there are no more.
    """
    sizes = tables.columns.sizes
    information = conditional_information(tables.pairs, sizes)
    if len(information) < 2:
        return [], []
    loss = tables.pairs.sum(axis=0) - tables.pairs.max(axis=0)
    # The pair whose rule has the least error, then the most information.
    errors = block_sums(loss, sizes)
    np.fill_diagonal(errors, np.inf)
    equal = errors <= errors.min() + _FALL
    first = divmod(int(np.where(equal, information, -1.0).argmax()), len(sizes))
    growth = _Growth(tables, loss, information, [first])
    while len(growth.edges) < len(information) - 1 and growth.solution.value > _FALL:
        growth.grow()
    return spanning_tree(information, growth.edges), growth.bounds


@dataclass
class _Growth:
    """A tree that grows, and the worst distribution along it."""

    tables: ClassTables
    loss: Floats
    information: Floats
    edges: list[Edge]

    def __post_init__(self) -> None:
        self.starts = [own.start for own in self.tables.spans]
        self.allowed = np.add.reduceat(self.loss, self.starts, axis=1)
        self.witnesses = Witnesses(self.loss, self.tables.spans)
        self.bounds: list[float] = []
        self._take(self._solve(self.edges))

    def _take(self, solution: TreeSolution) -> None:
        """Continue with the solution along the tree; its bound never rises."""
        self.errors = self._noted(self.edges, solution)
        self.solution = solution
        self.bounds.append(min([solution.value, *self.bounds[-1:]]))  # or rounding

    def _solve(self, edges: list[Edge]) -> TreeSolution:
        return solve_tree(self.tables.ambiguity(edges, alone=False), interior=False)

    def _noted(self, edges: list[Edge], solution: TreeSolution) -> Floats:
        """Return the errors by category; for two classes, keep them as a witness."""
        errors = margins(edges, solution.errors, self.tables.spans)
        if len(self.tables.pairs) == 2:
            self.witnesses.add(errors, float(solution.errors[0].sum()))
        return errors

    def grow(self) -> None:
        """Add one edge."""
        inside = np.zeros(len(self.information), bool)
        inside[[i for edge in self.edges for i in edge]] = True
        hangs = inside[:, None] & ~inside  # from a feature of the tree to a new one
        trials = self._trials(hangs)
        edge = min(trials, key=lambda e: trials[e].value, default=None)
        if edge is None or trials[edge].value >= self.solution.value - _FALL:
            informative = np.where(hangs, self.information, -np.inf)
            edge = divmod(int(informative.argmax()), len(informative))  # no fall
        self.edges.append(edge)
        self.witnesses.extend(edge)
        self._take(trials[edge] if edge in trials else self._solve(self.edges))

    def _trials(self, hangs: NDArray[np.bool_]) -> dict[Edge, TreeSolution]:
        """Solve the programs of the edges that may have the largest fall."""
        excess = np.maximum(self.errors[:, None] - self.allowed, 0.0)
        falls = np.add.reduceat(excess, self.starts, axis=0)
        falls = np.where(hangs, falls, -np.inf)
        solutions: dict[Edge, TreeSolution] = {}
        least = self.solution.value - _FALL
        for place in np.argsort(-falls, axis=None, kind="stable")[:_CANDIDATES]:
            edge = divmod(int(place), len(falls))
            if self.solution.value - falls[edge] >= least:
                break
            if not self.witnesses.prove(edge, least):
                solutions[edge] = self._solve([*self.edges, edge])
                self._noted([*self.edges, edge], solutions[edge])
                least = min(least, solutions[edge].value)
        return solutions


def margins(edges: list[Edge], tables: list[Floats], spans: list[slice]) -> Floats:
    """Return the margins of a measure on a tree, from its tables on the edges."""
    sums = np.zeros(spans[-1].stop)
    for (i, j), cells in zip(edges, tables, strict=True):
        sums[spans[i]] = cells.sum(axis=1)
        sums[spans[j]] = cells.sum(axis=0)
    return sums


class Witnesses:
    """Measures of errors that the tables of a growing tree allow.

    `loss` is ``min_y P(X_i, X_j, y)`` of all pairs of features, (D, D).
    """

    def __init__(self, loss: Floats, spans: list[slice]) -> None:
        self._loss = loss
        self._spans = spans
        self._errors = np.zeros((0, len(loss)))
        self._masses = np.zeros(0)

    def add(self, errors: Floats, mass: float) -> None:
        """Keep a measure along the tree, by its margins and its mass."""
        self._errors = np.vstack([self._errors, errors])
        self._masses = np.append(self._masses, mass)

    def prove(self, edge: Edge, least: float) -> bool:
        """Return whether the bound is at least `least` with one more edge."""
        left = self._masses - self._excess(edge).sum(axis=1)
        return bool((left >= least).any())

    def extend(self, edge: Edge) -> None:
        """Extend the measures along an edge, reduced to what it allows."""
        kept = self._excess(edge).max(axis=1, initial=0.0) <= _ROUNDING
        self._errors = self._errors[kept]
        self._masses = self._masses[kept]
        old, new = (self._spans[i] for i in edge)
        block = self._loss[old, new]
        limits = block.sum(axis=1)
        share = block / np.where(limits > 0, limits, 1.0)[:, None]
        self._errors[:, new] = self._errors[:, old] @ share

    def _excess(self, edge: Edge) -> Floats:
        """Return how much each measure exceeds what the pair allows, by category."""
        old, new = (self._spans[i] for i in edge)
        limits = self._loss[old, new].sum(axis=1)
        return np.asarray(np.maximum(self._errors[:, old] - limits, 0.0))


# ---- the classifier


class DiscreteChebyshevClassifier(RuleClassifier):
    """Minimax classifier for the pairs of features on a tree, within each class.

    Use it to compare with `RenyiClassifier`. It needs the pair counts within each
    class, and uses only the pairs on the tree.

    Parameters
    ----------
    structure : {"tree", "greedy"}, default="tree"
        The tree of largest conditional mutual information, or a tree grown by the edges
        that reduce the bound most (gDCC).
    smoothing : float, default=0.0
        Rows of independent features that are added to each class before training. With
        few rows a little smoothing (1 to 5) helps on new rows. The guarantee holds for
        the rule under the original tables; without smoothing it is the smallest one.
    encoder : Encoder, optional
        How cells become categories.

    Attributes
    ----------
    guarantee_ : float
        Proven bound on the error of `rule_proba` over all distributions with the class
        tables of the tree's edges. That of `predict` is at most twice as large.
    edges_ : list of pairs of names
        The tree, in the order its edges were added.
    bounds_ : list of float
        With structure="greedy", the bound after each edge, until it is zero; it never
        rises. With smoothing it belongs to the smoothed tables, and is not a
        guarantee.
    rule_ : MinimaxRule
        The rule.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As in every classifier trained from counts.

    Notes
    -----
    This reconstructs the classifier of Eban, Mezuman and Globerson (2014) from its
    description. If the rule prefers no class, Bayes' rule along the same tree
    decides. It takes two to eight classes, and needs the extra ``exact``.

    See Also
    --------
    MinimaxClassifier : Use all pairs.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.baselines.DiscreteChebyshevClassifier().fit(X, y)
    >>> round(clf.guarantee_, 4)
    0.0414
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    """

    _class_conditional = True

    def __init__(
        self,
        structure: str = "tree",
        smoothing: float = 0.0,
        encoder: Encoder | None = None,
    ) -> None:
        self.structure = structure
        self.smoothing = smoothing
        self.encoder = encoder

    def _check_parameters(self) -> None:
        check_choice("structure", self.structure, ("tree", "greedy"))
        check_amount("smoothing", self.smoothing, "a number of rows")

    def _train(self, m: Marginals) -> None:
        K = len(self.classes_)
        if K > _MAX_CLASSES:
            raise ValueError(
                f"There are {K} classes, and the program along a tree takes at most "
                f"{_MAX_CLASSES}: merge some, or use a minimax rule of pairs within "
                "classes (MinimaxClassifier with class_conditional=True)."
            )
        counts = class_pairs(m, type(self).__name__)
        own = ClassTables(counts / m.n, m.encoder.columns, m.columns.named(m.target))
        used = own
        if self.smoothing:
            rows = m.class_probabilities * m.n
            used = own.smoothed(self.smoothing / (self.smoothing + rows))
        self.bounds_: list[float] = []
        if self.structure == "greedy":
            edges, self.bounds_ = greedy_tree(used)
        else:
            sizes = m.encoder.columns.sizes
            edges = spanning_tree(conditional_information(used.pairs, sizes))
        multiplier = solve_tree(used.ambiguity(edges)).multiplier
        ambiguity = own.ambiguity(edges)
        surprise = second_opinion(m, edges)
        price = max(1.0, float(ambiguity.b @ surprise))
        multiplier = multiplier + _PRICE / price * surprise
        # The functions are good whatever tables they were made from: their expectation
        # under the counted ones is the guarantee.
        guarantee = float(ambiguity.b @ multiplier)
        self.rule_ = MinimaxRule(ambiguity, multiplier, guarantee, m.encoder)
        names = m.feature_names
        self.edges_ = [(names[i], names[j]) for i, j in edges]


def second_opinion(m: Marginals, edges: list[Edge]) -> Floats:
    """Return the surprise −log P(x, y) along a tree, by the cells of its tables."""
    sizes = m.encoder.columns.sizes
    tree = fit_bayes_tree(class_pairs(m, "A tree"), sizes, edges, _ROWS)
    root = tree.priors + tree.root[:-1]
    tables = [table[:-1, :-1] for table in tree.children] or [root]
    if edges:
        tables[0] = tables[0] + root[:, None]
    surprise = -np.concatenate([table.ravel() for table in tables])
    return np.asarray(np.minimum(surprise, _SURPRISE))
