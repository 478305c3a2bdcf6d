r"""Trees for a Chebyshev classifier: by information, or greedily by the bound.

The bound of a tree never rises with an edge: one more table leaves fewer distributions.
To hang a feature j from a feature i of the tree is to ask that the errors with X_i = k
be no more than the table of the pair allows,

.. math:: r_i(k) \le G_{ij}(k) = \sum_l \Big[\sum_y P(k, l, y)
    - \max_y P(k, l, y)\Big],

r_i being the errors of the worst distribution by the categories of X_i. For two classes
nothing else is asked, so the bound falls by at most ``Σ_k (r_i(k) − G_ij(k))₊``: thin
the worst distribution out until the new table holds. Candidates are tried from the
largest such fall on, until no other can do better, or a few have been: by a program,
unless one solved before has proven that this edge would not help
(`renyi.baselines.witnesses`). For more classes the same number ranks the candidates,
though more may be asked, and every trial is a program.

Smoothing by s rows: each class is mixed with s rows of itself in which the features are
independent. The counts of single features stay, so that tables still agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.baselines.forests import ForestSolution, solve_forest
from renyi.baselines.trees import (
    Edge,
    block_sums,
    conditional_information,
    spanning_tree,
)
from renyi.baselines.witnesses import Witnesses, margins
from renyi.counting.onehot import offsets
from renyi.encoding.columns import Column, Columns
from renyi.robust.ambiguity_set import Ambiguity, Table

Floats = NDArray[np.float64]

# Candidates for one edge at most.
_CANDIDATES = 6
# A fall of the bound that is no rounding.
_FALL = 1e-9


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
    """Mix each class with independent features, `share` being how much of them.

    >>> pairs = np.array([[[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5],
    ...                    [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]]])
    >>> smoothed(pairs, np.array([2, 2]), np.array([0.2]))[0, :2]
    array([[0.5 , 0.  , 0.45, 0.05],
           [0.  , 0.5 , 0.05, 0.45]])
    """
    single = np.einsum("ykk->yk", pairs)
    mass = np.maximum(single[:, : sizes[0]].sum(axis=1), 1e-300)[:, None, None]
    independent = single[:, :, None] * single[:, None, :] / mass
    mixed = pairs + share[:, None, None] * (independent - pairs)
    starts = offsets(sizes)
    for low, high in zip(starts[:-1], starts[1:], strict=True):
        mixed[:, low:high, low:high] = pairs[:, low:high, low:high]
    return np.asarray(mixed)


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

    def _solve(self, edges: list[Edge]) -> ForestSolution:
        return solve_forest(self.tables.ambiguity(edges, alone=False), interior=False)

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

    def _trials(self) -> dict[Edge, ForestSolution]:
        """Solve the programs of the edges that may have the largest fall."""
        falls = np.where(self._open(), self._falls(), -np.inf)
        found: dict[Edge, ForestSolution] = {}
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

    def _noted(self, edges: list[Edge], solution: ForestSolution) -> Floats:
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
