r"""What arithmetic leaves of hidden counts: the values that remain possible.

A reader of interval tables knows that row sums are margins, and that margins add up to
the total. The values of one cell under these equations form an interval, whose ends are
two linear programs. A hidden count is protected if each whole number below the
threshold remains possible. The first of the levels of `renyi.releases.suppression` at
which all hidden counts are protected is released.

One feasible point proves the low ends of all cells that are at zero in it, and another
the high ends of all that are at theirs. So the programs first move many cells together;
a program for one cell alone is needed only where no such point is met.

This is *arithmetic protection* and nothing more. It allows fractional counts, and
tables that no rows have: a reader who goes through all possible data sets may learn
more. A reader also learns that no finer level protected all hidden counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import Sizes
from renyi.releases.suppression import (
    Flags,
    HiddenCounts,
    Rule,
    Table,
    hidden_counts,
    levels,
)
from renyi.solvers.programs import Program, solve

_NEAR = 1e-6  # of a count to a whole number
_NAMED = 5  # narrow counts after which the search for more ends

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Width(NamedTuple):
    """The values that remain possible for a hidden count."""

    first: int  # place of a category in the tables
    second: int  # that of another; the same for a margin
    low: int
    high: int

    @property
    def values(self) -> int:
        """Number of whole values."""
        return self.high - self.low + 1


def protected(
    counts: Table, n: int, sizes: Sizes, rule: Rule, occurs: Flags | None = None
) -> tuple[HiddenCounts, list[Width]]:
    """Return the finest release that protects its hidden counts.

    If there is none, it is the coarsest, with counts that are not protected. The
    parameters are those of `hidden_counts`.
    """
    for level in levels(rule):
        release = hidden_counts(counts, n, sizes, rule, level, occurs)
        widths = narrow(release, sizes, rule.threshold)
        if not widths:
            break
    return release, widths


def narrow(
    counts: HiddenCounts, sizes: Sizes, threshold: int, most: int = _NAMED
) -> list[Width]:
    """Return hidden counts for which some value below the threshold is impossible.

    Sorted by the number of values that remain. The search ends after about `most`. A
    margin that is known to be at least 1 need not be able to be 0.
    """
    system = _System.of(counts, sizes)
    cells = np.flatnonzero(system.hidden)
    highest = np.full(len(system.hidden), threshold - 1.0)
    stuck = {
        *system.stuck(cells, system.program.lower, 1.0, most),
        *system.stuck(cells, highest, -1.0, most),
    }
    widths = []
    for cell in sorted(stuck):
        low = np.ceil(system.end(cell, 1.0) - _NEAR)
        high = np.floor(system.end(cell, -1.0) + _NEAR)
        first, second = system.categories[cell].tolist()
        widths.append(Width(first, second, int(low), min(int(high), threshold - 1)))
    return sorted(widths, key=lambda width: width.values)


class _System(NamedTuple):
    """The equations between cells, margins and the total, which are the variables."""

    program: Program
    categories: NDArray[np.intp]  # (variables, 2): of each cell and margin
    column: NDArray[np.intp]  # of each category
    hidden: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: HiddenCounts, sizes: Sizes) -> _System:
        column = np.repeat(np.arange(len(sizes)), sizes)
        D = len(column)
        a, b = np.nonzero(column[:, None] < column)
        pairs = np.column_stack([np.append(a, range(D)), np.append(b, range(D))])
        total = len(pairs)
        margin = len(a) + np.arange(D)
        cell = np.arange(len(a))
        # One equation for each category and each other column, in one numbering.
        d = len(sizes)
        equation = np.concatenate([a * d + column[b], b * d + column[a]])
        category = np.repeat(np.arange(D), d)
        other = np.tile(np.arange(d), D)
        kept = column[category] != other
        rows = [
            equation,
            (category * d + other)[kept],
            D * d + column,
            D * d + np.arange(d),
        ]
        places = [np.tile(cell, 2), margin[category[kept]], margin, np.full(d, total)]
        values = [np.ones(2 * len(a)), -np.ones(kept.sum()), np.ones(D), -np.ones(d)]
        A = sparse.csc_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(places))),
            shape=(D * d + d, total + 1),
        )
        low = np.append(counts.low[pairs[:, 0], pairs[:, 1]], counts.n_low)
        high = np.append(counts.high[pairs[:, 0], pairs[:, 1]], counts.n_high)
        program = Program(np.zeros(total + 1), A, 0.0, 0.0, low, high)
        hidden = counts.hidden[pairs[:, 0], pairs[:, 1]]
        return cls(program, pairs, column, hidden)

    def stuck(self, cells: Places, goal: Floats, sign: float, most: int) -> list[int]:
        """Return cells that cannot reach their goal; not many more than `most`.

        They have to fall to it if the sign is 1, and to rise to it if it is -1.
        """
        stuck: list[int] = []
        left = cells
        while len(left) and len(stuck) < most:
            together = self._compatible(left)
            x = self._optimum(together, sign)
            reached = left[sign * (x[left] - goal[left]) <= _NEAR]
            if not len(reached):
                reached = together[:1]
                cell = int(reached[0])
                if sign * (self.end(cell, sign) - goal[cell]) > _NEAR:
                    stuck.append(cell)
            left = np.setdiff1d(left, reached)
        return stuck

    def end(self, cell: int, sign: float) -> float:
        """Return the least possible value of a cell, or for -1 the largest."""
        return float(self._optimum(np.array([cell]), sign)[cell])

    def _compatible(self, cells: Places) -> Places:
        """Return cells of which no two are in one row or one column of a table."""
        for one, other in ((0, 1), (1, 0)):
            category = self.categories[cells]
            line = category[:, one] * len(self.column) + self.column[category[:, other]]
            cells = cells[np.unique(line, return_index=True)[1]]
        return np.sort(cells)

    def _optimum(self, cells: Places, sign: float) -> Floats:
        """Return a point at which the sum of some cells is least, or largest."""
        cost = np.zeros(len(self.program.cost))
        cost[cells] = sign
        p = self.program
        solution = solve(
            Program(cost, p.A, p.low, p.high, p.lower, p.upper), presolve=True
        )
        if solution.status != "optimal":
            raise ValueError(
                "No counts fit the intervals: the counts to release contradict each "
                "other (Marginals.validate() names those that disagree)."
            )
        return solution.x
