r"""Repair tables that disagree: noisy ones, or the middles of intervals.

Pair tables T_ij of the same rows have equal totals n and equal margins a_i. Tables with
errors do not. The nearest tables that do, in least squares, have a closed form. A table
is a total, two main effects and a rest. The rest stays. The total and each column's
effect become weighted means of what all its tables say,

.. math:: n = \frac{\sum_{i<j} w_i w_j t_{ij}}{\sum_{i<j} w_i w_j}, \qquad
    a_i - \frac n{m_i} = \frac{\sum_j w_j (r_{ij} - t_{ij}/m_i)}{\sum_j w_j},
    \qquad w_i = \frac 1 {m_i},

where r_ij are the row sums of T_ij and t_ij is its total. Of intervals, the counts of a
column alone are known far better than sums over a table, so these are its margins.

The result may have negative cells, and E[W Wᵀ] may be indefinite, so that no rows have
it and the ridge solution need not be a minimum. Both are corrected in turns: the
nearest semidefinite table, then cells between their ends, then each table scaled to
its margins (iterative proportional fitting), which keeps cells positive. What is left
after `_ROUNDS` is removed by mixing in the table of independent columns with the same
margins, which is always possible, with the smallest share that is enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import Sizes, offsets
from renyi.marginals.consistency import positive_definite

Floats = NDArray[np.float64]

_ROUNDS = 25  # of corrections in turns
_SCALINGS = 40  # of rows and columns in turns
_FLOOR = 1e-6  # share of independence that keeps cells positive
_LEAST = 1e-7  # smallest margin, as a share of all rows
_NEAR = 1e-9  # largest negative eigenvalue that is left, as a share of all rows
_FIRST_SHARE = 1e-8  # of independence that is tried first
_FACTOR = 2.0  # by which the share grows


class Repaired(NamedTuple):
    """Tables that agree with each other, and their number of rows, a whole one."""

    counts: Floats
    n: float


class _Blocks:
    """Sums over the blocks of a table, for all pairs of columns at once."""

    def __init__(self, sizes: Sizes, known: NDArray[np.bool_]) -> None:
        self.sizes = np.asarray(sizes)
        self.starts = offsets(self.sizes)[:-1]
        self.which = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.known = known & ~np.eye(len(known), dtype=bool)
        own = self.which[:, None] == self.which
        self.pairs = self.known[np.ix_(self.which, self.which)]
        self.apart = ~own & ~self.pairs  # cells of pairs without a table

    def row_sums(self, T: Floats) -> Floats:
        """Return the sums of each category's row in each table: (D, columns)."""
        return np.add.reduceat(T, self.starts, axis=1)

    def totals(self, rows: Floats) -> Floats:
        """Return the totals of tables from their row sums: (columns, columns)."""
        return np.add.reduceat(rows, self.starts, axis=0)

    def margins(self, T: Floats, n: float | None = None) -> tuple[Floats, float]:
        """Return margins and total, which may be known, of the nearest tables."""
        sizes = self.sizes
        rows = self.row_sums(T)
        totals = self.totals(rows)
        w = 1.0 / sizes
        of_totals = np.where(self.known, np.outer(w, w), 0.0)
        if n is None:
            n = float((of_totals * totals).sum() / of_totals.sum())
        weights = np.where(self.known, w, 0.0)[self.which]
        effects = rows - (totals / sizes[:, None])[self.which]
        effect = (weights * effects).sum(axis=1) / weights.sum(axis=1)
        return effect + (n / sizes)[self.which], n

    def with_margins(self, T: Floats, a: Floats, n: float) -> Floats:
        """Return the nearest tables with margins a."""
        sizes = self.sizes.astype(np.float64)
        rows = self.row_sums(T)
        off = (a[:, None] - rows)[:, self.which] / sizes[self.which]
        short = (n - self.totals(rows)) / np.outer(sizes, sizes)
        moved = T + off + off.T - short[np.ix_(self.which, self.which)]
        return self.independent(a, n, moved)

    def fitted(self, T: Floats, a: Floats, n: float) -> Floats:
        """Return the tables scaled to margins a, without negative cells."""
        independent = self.independent(a, n)
        T = np.maximum(T, 0.0) + _FLOOR * independent
        for _ in range(_SCALINGS):
            # Below the diagonal, the transposes are scaled by columns.
            T *= (a[:, None] / self.row_sums(T))[:, self.which]
            T = T.T
        T = np.where(self.which[:, None] < self.which, T, 0.0)
        return self.with_margins(T + T.T, a, n)

    def independent(self, a: Floats, n: float, T: Floats | None = None) -> Floats:
        """Return independent columns with margins a, at all pairs or those absent."""
        moved = np.outer(a, a) / n if T is None else T.copy()
        if T is not None and self.apart.any():
            moved = np.where(self.apart, np.outer(a, a) / n, T)
        moved[self.which[:, None] == self.which] = 0.0
        np.fill_diagonal(moved, a)
        return moved


class Projection:
    """The nearest tables of all pairs that agree, whatever their signs."""

    def __init__(self, sizes: Sizes) -> None:
        self._blocks = _Blocks(sizes, np.ones((len(sizes), len(sizes)), bool))

    def of(self, table: Floats, n: float | None = None) -> Repaired:
        """Return them; this is linear in the table if n is not given, or is zero."""
        a, total = self._blocks.margins(table, n)
        return Repaired(self._blocks.with_margins(table, a, total), total)


def repaired(
    table: Floats,
    sizes: Sizes,
    known: NDArray[np.bool_],
    rows: tuple[float, float] | None = None,
    ends: tuple[Floats, Floats] | None = None,
) -> Repaired:
    """Return nearby tables that agree, without negative cells or eigenvalues.

    Parameters
    ----------
    table : ndarray of shape (D, D)
        Symmetric. Its diagonal is used with `ends` only, and is then the margins.
    sizes : sequence of int
        Categories of each column.
    known : ndarray of bool, shape (columns, columns)
        Pairs that have a table. The result has zeros for the others.
    rows : tuple of two floats, optional
        Ends of the interval of the number of rows, which is estimated.
    ends : tuple of two ndarrays, optional
        Low and high ends of all cells, between which a first estimate is moved.
    """
    blocks = _Blocks(sizes, known)
    T = np.asarray(table, np.float64)
    least, most = (1.0, np.inf) if rows is None else rows
    low: Floats | float = 0.0
    high: Floats | float = np.inf
    if ends is None:
        a, n = blocks.margins(T)
    else:
        low, high = ends
        a = T.diagonal()
        n = float(np.median(np.add.reduceat(a, blocks.starts)))
    n = float(np.rint(np.clip(n, max(least, 1.0), most)))
    a = _with_total(a, n, blocks)
    T = blocks.with_margins(T, a, n)
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(T)
        if min(float(values[0]), float(T.min())) >= -_NEAR * n:
            break
        T = (vectors * np.maximum(values, 0.0)) @ vectors.T
        T = blocks.fitted(np.clip((T + T.T) / 2, low, high), a, n)
    T = _mixed(T, blocks.independent(a, n), n)
    return Repaired(np.where(blocks.apart, 0.0, T), n)


def _with_total(a: Floats, n: float, blocks: _Blocks) -> Floats:
    """Return the margins, positive if by little, scaled to add up to n."""
    a = np.maximum(a, _LEAST * n)
    totals = np.add.reduceat(a, blocks.starts)
    return np.asarray(a * (n / totals)[blocks.which])


def _mixed(T: Floats, independent: Floats, n: float) -> Floats:
    """Mix independence in until no cell or eigenvalue is negative."""
    shift = _NEAR * np.eye(len(T))
    share = 0.0
    while share < 1.0:
        mixed = (1 - share) * T + share * independent
        if mixed.min() >= 0 and positive_definite(mixed / n + shift):
            return np.asarray((mixed + mixed.T) / 2)
        share = max(_FIRST_SHARE, _FACTOR * share)
    return independent
