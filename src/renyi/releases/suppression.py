r"""Hidden and rounded counts: every cell, margin and total as an interval.

A count below the threshold t is hidden: it is known to lie from 0 to t − 1. Any other
count is rounded to the nearest multiple of a base, and known to be a count that rounds
to it. The same holds for margins and for the total, because a lone hidden cell next to
exact margins follows by subtraction.

**Some counts are wider.** The tables of one column with all others fix its margin
nearly, however wide the margin's own interval is. So a hidden cell next to one printed
cell would still follow. Let k* and l* be the most frequent categories of two columns
that have a hidden cell in their table. In this table, the intervals of all cells of row
k* and column l* get t − 1 wider at both ends. So do those of the largest cell of each
row and column with a hidden cell. Then a hidden count may move by δ while no margin
moves:

* where it falls, by ``N_kl − δ, N_kl* + δ, N_k*l + δ, N_k*l* − δ``;
* where it rises, the largest cells of its row and column give way, and row k* and
  column l* take what the margins of these need.

A hidden margin moves together with the one of k*, whose row is wider in all tables of
the column. Which counts are wider follows from published ends alone, and says nothing
more. `renyi.releases.protection` checks by linear programs what remains possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import Sizes, offsets
from renyi.validation import InputError

Table = NDArray[np.int64]


class Rule(NamedTuple):
    """What is hidden, and how the rest is rounded."""

    threshold: int  # smaller counts are hidden
    rounding: int  # to multiples of this number; 1 rounds nothing

    def checked(self) -> Rule:
        """Return the rule if it is valid; raise an error otherwise."""
        for name, least in (("threshold", 2), ("rounding", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or int(value) != value or value < least:
                raise InputError(
                    f"{{{name}}} must be a whole number of at least {least}.",
                    **{name: value},
                )
        if self.rounding > 2 * self.threshold:
            raise InputError(
                f"{{rounding}} does not fit the threshold {self.threshold}: counts "
                "that are not hidden would be rounded to 0. Use a smaller base.",
                rounding=self.rounding,
            )
        return self


RULES = {
    "opensafely": Rule(8, 5),  # 7 or fewer hidden, the rest rounded to 5
    "ons": Rule(10, 5),  # below 10 hidden, the rest rounded to 5
    "cms": Rule(11, 1),  # below 11 hidden
}
"""Rules that people must follow, by name."""


class HiddenCounts(NamedTuple):
    """Intervals of all counts, and which of them are hidden."""

    low: Table
    high: Table
    n_low: int
    n_high: int
    hidden: NDArray[np.bool_]  # (D, D)


def interval(count: int, rule: Rule) -> tuple[int, int]:
    """Return what a count is known to be.

    >>> interval(3, Rule(10, 5)), interval(11, Rule(10, 5)), interval(18, Rule(10, 5))
    ((0, 9), (10, 12), (18, 22))
    """
    low, high = _ends(np.array([count]), rule)
    return int(low[0]), int(high[0])


def _ends(counts: Table, rule: Rule) -> tuple[Table, Table]:
    base = rule.rounding
    below = base // 2
    printed = base * ((counts + below) // base)
    hidden = counts < rule.threshold
    low = np.where(hidden, 0, np.maximum(printed - below, rule.threshold))
    high = np.where(hidden, rule.threshold - 1, printed - below + base - 1)
    return low, high


def hidden_counts(counts: Table, n: int, sizes: Sizes, rule: Rule) -> HiddenCounts:
    """Return every count as an interval.

    Parameters
    ----------
    counts : ndarray of int64, shape (D, D)
        Pair counts of all columns, the target included.
    n : int
        Number of rows.
    sizes : sequence of int
        Number of categories of each column.
    rule : Rule
        What to hide and how to round.
    """
    low, high = _ends(counts, rule)
    hidden = counts < rule.threshold
    column = np.repeat(np.arange(len(sizes)), sizes)
    never = column[:, None] == column
    np.fill_diagonal(never, False)
    for table in (low, high, hidden):
        table[never] = 0
    n_low, n_high = interval(n, rule)
    plain = HiddenCounts(low, high, n_low, n_high, hidden)
    return _widened(plain, _wider(low, high, hidden, sizes), rule)


def wider_at(
    counts: HiddenCounts, cells: Iterable[tuple[int, int]], sizes: Sizes, rule: Rule
) -> HiddenCounts:
    """Widen all counts of the rows and columns of some cells, in their tables."""
    starts = offsets(sizes)
    column = np.repeat(np.arange(len(sizes)), sizes)
    wide = np.zeros_like(counts.hidden)
    for a, b in cells:
        rows = slice(*starts[column[a] : column[a] + 2])
        columns = slice(*starts[column[b] : column[b] + 2])
        if column[a] == column[b]:  # a margin
            wide[a] = column != column[a]
            wide.flat[:: len(wide) + 1][rows] = True
        else:
            wide[a, columns] = True
            wide[rows, b] = True
    return _widened(counts, wide | wide.T, rule)


def _widened(counts: HiddenCounts, wide: NDArray[np.bool_], rule: Rule) -> HiddenCounts:
    slack = np.where(wide, rule.threshold - 1, 0)
    low = np.maximum(counts.low - slack, 0)
    return counts._replace(low=low, high=counts.high + slack)


def _wider(
    low: Table, high: Table, hidden: NDArray[np.bool_], sizes: Sizes
) -> NDArray[np.bool_]:
    """Return which counts need wider intervals; see above."""
    starts = offsets(sizes)
    spans = [slice(*starts[j : j + 2]) for j in range(len(sizes))]
    margins = high.diagonal()
    frequent = [span.start + int(margins[span].argmax()) for span in spans]
    wide = np.zeros_like(hidden)
    for i, rows in enumerate(spans):
        if hidden.diagonal()[rows].any():
            wide[frequent[i]] = True
            wide[:, frequent[i]] = True
            wide[rows, rows] = False
            wide[frequent[i], frequent[i]] = True
    for i, rows in enumerate(spans):
        for j in range(i):
            _widen_table(
                wide, high, hidden, (rows, spans[j]), (frequent[i], frequent[j])
            )
    return wide | wide.T


def _widen_table(
    wide: NDArray[np.bool_],
    high: Table,
    hidden: NDArray[np.bool_],
    place: tuple[slice, slice],
    frequent: tuple[int, int],
) -> None:
    """Mark the cells of a table with hidden cells that need wider intervals."""
    rows, columns = place
    own = hidden[place]
    if not own.any():
        return
    wide[frequent[0], columns] = True
    wide[rows, frequent[1]] = True
    cells = high[place]
    some = np.flatnonzero(own.any(axis=1))
    wide[rows.start + some, columns.start + cells[some].argmax(axis=1)] = True
    some = np.flatnonzero(own.any(axis=0))
    wide[rows.start + cells[:, some].argmax(axis=0), columns.start + some] = True
