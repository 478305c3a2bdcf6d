r"""What arithmetic leaves of hidden counts: the values that remain possible.

A reader of interval tables knows that row sums are margins, and that margins add up to
the total. The values of one cell under these equations form an interval, whose ends are
two linear programs. A hidden count keeps its protection if as many whole values remain
possible as the threshold says.

One feasible point proves the low ends of all cells that are at zero in it, and another
the high ends of all that are at theirs. So the programs first move many cells together;
a program for one cell alone is needed only where no such point is met.

This is *arithmetic protection* and nothing more. It allows fractional counts, and
tables that no rows have: a reader who goes through all possible data sets may learn
more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import Sizes
from renyi.releases.suppression import HiddenCounts
from renyi.solvers.programs import Program, solve

_NEAR = 1e-6  # of a count to a whole number

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


def narrow(counts: HiddenCounts, sizes: Sizes, threshold: int) -> list[Width]:
    """Return the hidden counts for which some value below the threshold is impossible.

    Sorted by the number of values that remain.
    """
    system = _System.of(counts, sizes)
    cells = np.flatnonzero(system.hidden)
    low = system.ends(cells, 0)
    high = system.ends(cells, threshold - 1)
    widths = []
    for cell, least, most in zip(cells.tolist(), low, high, strict=True):
        first, second = system.categories[cell].tolist()
        width = Width(first, second, int(least), int(most))
        if width.values < threshold:
            widths.append(width)
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

    def ends(self, cells: Places, goal: int) -> Floats:
        """Return for each cell the whole value nearest to a goal that is possible.

        The goal is an end of the values below the threshold: the least, or the largest.
        """
        sign = 1.0 if goal == 0 else -1.0
        ends: dict[int, float] = {}
        left = cells
        while len(left):
            together = self._compatible(left)
            x = self._optimum(together, sign)
            reached = left[sign * (x[left] - goal) <= _NEAR]
            ends |= dict.fromkeys(reached.tolist(), float(goal))
            if not len(reached):
                cell = int(together[0])
                end = self._optimum(together[:1], sign)[cell]
                nearest = np.ceil(end - _NEAR) if sign > 0 else np.floor(end + _NEAR)
                ends[cell] = float(goal if sign * (end - goal) <= _NEAR else nearest)
                reached = together[:1]
            left = np.setdiff1d(left, reached)
        return np.array([ends[cell] for cell in cells.tolist()])

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
