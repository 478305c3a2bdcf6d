r"""Hidden and rounded counts: every cell, margin and total as an interval.

A count below the threshold t is hidden: it is known to lie from 0 to t − 1. Any other
count is rounded to the nearest multiple of a base, and known to be a count that rounds
to it. The same holds for margins and for the total. Still, a hidden cell would follow
from the other cells of its row and the margin of the row. So two kinds of counts are
not printed:

* **Small categories** have fewer rows than a limit of at least 2t. All their counts are
  known to be below the limit, and nothing more. The frequent category k* of such a
  column takes what they leave: its margin is known to be the largest of the column.
* **Free cells** are known to be at least t, and nothing more. In a table with hidden
  counts or small categories they are row k* and column l*, the frequent categories of
  both columns. If a row or column that needs one has a hidden count there, its cell
  with the next most frequent category is free as well.

So a hidden count may move by δ while no printed count moves:
``N_kl − δ, N_kl* + δ, N_k*l + δ, N_k*l* − δ``.

**A reader who knows this method cannot undo it.** The limit and the base are the same
for all counts. All else follows from what is printed: which counts are hidden, which
categories are small, and the printed margins. So all data within the published
intervals have the same release. A count that is not printed is `published` as the
interval that follows from the others by adding up, since the reader can compute it.

`renyi.releases.protection` checks by linear programs what remains possible. If a hidden
count is not protected, the next of the `levels` is tried, which is coarser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import Sizes, offsets
from renyi.validation import InputError, check_whole

Table = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROUNDING = 5  # unless a base is given
_LIMITS = (2, 3, 4)  # of small categories, as multiples of the threshold
_COARSER = (1, 2, 4, 8)  # multiples of the base
_SUMS = 20  # most rounds of adding up


class Rule(NamedTuple):
    """What is hidden, and how the rest is rounded."""

    threshold: int  # smaller counts are hidden
    rounding: int  # to multiples of this number

    def checked(self) -> Rule:
        """Return the rule if it is valid; raise an error otherwise."""
        check_whole("threshold", self.threshold, 2)
        check_whole("rounding", self.rounding, 1)
        if self.rounding == 1:
            raise InputError(
                "{rounding} would publish exact counts: use a base of at least 2.",
                rounding=1,
            )
        if self.rounding > self.threshold:
            raise InputError(
                f"{{rounding}} is above the threshold {self.threshold}, so that hidden "
                "counts would be known better than printed ones: use a smaller base.",
                rounding=self.rounding,
            )
        return self


RULES = {
    "opensafely": Rule(8, 5),  # 7 or fewer hidden, the rest rounded to 5
    "ons": Rule(10, 5),  # below 10 hidden, the rest rounded to 5
    "cms": Rule(11, ROUNDING),  # below 11 hidden; the rule names no base
}
"""Rules that people must follow, by name."""


class Level(NamedTuple):
    """How coarse a release is; the same for all of its counts."""

    base: int  # of rounding
    limit: int  # of small categories, in rows


def levels(rule: Rule) -> Iterator[Level]:
    """Yield the levels of a rule, the finest first."""
    for factor in _COARSER:
        for share in _LIMITS:
            yield Level(factor * rule.rounding, share * rule.threshold)


class HiddenCounts(NamedTuple):
    """Intervals of all counts, and which of them are hidden."""

    low: Table
    high: Table
    n_low: int
    n_high: int
    hidden: Flags  # (D, D)
    level: Level  # how coarse they are


def interval(count: int, rule: Rule) -> tuple[int, int]:
    """Return what a count is known to be, if it is printed.

    >>> interval(3, Rule(10, 5)), interval(11, Rule(10, 5)), interval(18, Rule(10, 5))
    ((0, 9), (10, 12), (18, 22))
    """
    low, high = _ends(np.array([count]), *rule)
    return int(low[0]), int(high[0])


def _ends(counts: Table, threshold: int, base: int) -> tuple[Table, Table]:
    below = base // 2
    printed = base * ((counts + below) // base)
    hidden = counts < threshold
    low = np.where(hidden, 0, np.maximum(printed - below, threshold))
    high = np.where(hidden, threshold - 1, printed - below + base - 1)
    return low, high


def hidden_counts(
    counts: Table,
    n: int,
    sizes: Sizes,
    rule: Rule,
    level: Level,
    occurs: Flags | None = None,
) -> HiddenCounts:
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
    level : Level
        How coarse the release is.
    occurs : ndarray of bool, shape (D,), optional
        Categories that are known to have a row, because they are listed.
    """
    column = np.repeat(np.arange(len(sizes)), sizes)
    apart = column[:, None] != column
    small = counts.diagonal() < level.limit
    either = small[:, None] | small
    hidden = counts < rule.threshold
    hidden &= apart | np.eye(len(column), dtype=bool)
    n_low, n_high = interval(n, Rule(rule.threshold, level.base))
    low, high = _ends(counts, rule.threshold, level.base)
    margins = _margins(counts.diagonal(), small, n_high, sizes, level)
    free = _free(hidden, small, margins[0], sizes)
    low[free] = rule.threshold
    high[free] = n_high
    low[either] = 0
    high[either] = level.limit - 1
    if occurs is not None:
        margins[0][small & occurs] = 1
    for table, margin in ((low, margins[0]), (high, margins[1])):
        table[~apart] = 0
        np.fill_diagonal(table, margin)
    return HiddenCounts(low, high, n_low, n_high, hidden, level)


def _margins(
    totals: Table, small: Flags, n_high: int, sizes: Sizes, level: Level
) -> tuple[Table, Table]:
    """Return the ends of the margins; those of small categories are 0 and the limit."""
    low, high = _ends(totals, level.limit, level.base)
    for span in _spans(sizes):
        own = small[span]
        if own.all() or not own.any():
            continue
        first = int(low[span].argmax())
        others = ~own
        others[first] = False
        # No other is larger, and those before it in the order are smaller.
        before = (high[span] + 1)[:first][others[:first]]
        after = low[span][first:][others[first:]]
        low[span.start + first] = max([level.limit, *before, *after])
        high[span.start + first] = n_high
    return low, high


def _free(hidden: Flags, small: Flags, margins: Table, sizes: Sizes) -> Flags:
    """Return which cells are free; `margins` are the low ends that are published."""
    spans = _spans(sizes)
    frequent = [span.start + int(margins[span].argmax()) for span in spans]
    known = ~small[:, None] & ~small
    printed = known & ~hidden
    free = np.zeros_like(hidden)
    for i, rows in enumerate(spans):
        for j, columns in enumerate(spans):
            own = (known & hidden)[rows, columns]
            crossed = small[columns].any()
            if i == j or not (own.any() or crossed or small[rows].any()):
                continue
            free[frequent[i], columns] = True
            free[rows, frequent[j]] = True
            next_best = np.where(printed[rows, columns], margins[columns], -1)
            needed = np.flatnonzero(own.any(axis=1) | crossed)
            places = next_best.argmax(axis=1)[needed]
            free[rows.start + needed, columns.start + places] = True
    return (free | free.T) & printed


def _spans(sizes: Sizes) -> list[slice]:
    starts = offsets(sizes)
    return [slice(*starts[j : j + 2]) for j in range(len(sizes))]


def published(counts: HiddenCounts, sizes: Sizes) -> HiddenCounts:
    """Narrow what is not printed to what follows from the rest, and not below the base.

    No interval becomes narrower than that of a rounded count, although arithmetic often
    gives large counts exactly: their sum over the rows of every table is the same.
    """
    narrower = counts
    for _ in range(_SUMS):
        before = narrower
        narrower = _added_up(before, sizes)
        widths = (narrower.high - narrower.low, before.high - before.low)
        if np.array_equal(*widths):
            break
    base = counts.level.base
    wide = counts.high - counts.low >= base
    low = np.maximum(_ends(narrower.low, 0, base)[0], counts.low)
    high = np.minimum(_ends(narrower.high, 0, base)[1], counts.high)
    return counts._replace(
        low=np.where(wide, low, counts.low), high=np.where(wide, high, counts.high)
    )


def _added_up(counts: HiddenCounts, sizes: Sizes) -> HiddenCounts:
    """Return the intervals that follow by adding up once."""
    low = counts.low
    high = counts.high
    starts = offsets(sizes)[:-1]
    column = np.repeat(np.arange(len(sizes)), sizes)
    apart = column[:, None] != column
    rows_low = np.add.reduceat(np.where(apart, low, 0), starts, axis=1)
    rows_high = np.add.reduceat(np.where(apart, high, 0), starts, axis=1)
    rows_high[np.arange(len(column)), column] = counts.n_high  # not a table
    least = np.maximum(low.diagonal(), rows_low.max(axis=1))
    most = np.minimum(high.diagonal(), rows_high.min(axis=1))
    totals_low = np.add.reduceat(least, starts)
    totals_high = np.add.reduceat(most, starts)
    n_low = max(counts.n_low, int(totals_low.max()))
    n_high = min(counts.n_high, int(totals_high.min()))
    # A margin is the total without the others; a cell is its margin without the others.
    margin_low = np.maximum(least, n_low - (totals_high[column] - most))
    margin_high = np.minimum(most, n_high - (totals_low[column] - least))
    cell_low = margin_low[:, None] - (rows_high[:, column] - high)
    cell_high = margin_high[:, None] - (rows_low[:, column] - low)
    low = np.maximum(low, np.maximum(cell_low, cell_low.T))
    high = np.minimum(high, np.minimum(cell_high, cell_high.T))
    for table, margin in ((low, margin_low), (high, margin_high)):
        table[~apart] = 0
        np.fill_diagonal(table, margin)
    return counts._replace(low=low, high=high, n_low=n_low, n_high=n_high)
