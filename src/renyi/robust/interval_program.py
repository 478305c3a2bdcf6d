r"""The largest value of a function of tables that are known to intervals.

A linear program over tables that agree with each other: with proportions ``q = N/n`` of
every pair cell and class, their margins, and ``τ = 1/n``,

.. math:: \max\; L(q) \quad \text{where} \quad q \ge 0 \text{ have equal margins and
    total } 1, \qquad l τ \le \textstyle\sum_y q \le h τ, \qquad 1/n_{high} \le τ \le
    1/n_{low}.

Pair cells are split by class, so a pair without a table is limited by what is known of
both columns within each class. The tables of every population with counts in the
intervals are feasible: the value bounds L with probability 1.

*Proof of the value.* Any multipliers of the rows, with signs that fit, bound L: by the
rows' ends times the multipliers, plus the largest reduced costs. Of each table's cells
only the largest counts, since its proportions add up to 1. The bound is computed from
the solver's multipliers, and holds whatever its tolerance.

Another function changes only the objective. The tables of the last solution are then
still feasible, and the simplex method continues from them.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.certificates.intervals import Functional, KnownTables, Tables
from renyi.counting.onehot import spans
from renyi.limits import check_memory
from renyi.robust.ambiguity_set import Layout
from renyi.robust.pairwise_program import consistency_rows
from renyi.solvers.programs import Program, highspy, model, run, solver

Floats = NDArray[np.float64]

MOST_CELLS = 100_000  # with more, a program takes minutes
_BYTES = 250  # of an entry of a program while it is written
_UP = 1e-12  # added to a proven value, for rounding
CONTRADICTION = (
    "No tables agree with each other within these intervals, so no rows have these "
    "counts: check the rounding and the threshold that were stated."
)


class Largest(NamedTuple):
    """A proven upper bound, and the tables where the solver found it."""

    bound: float
    tables: Tables | None = None  # None if the solver did not end


def n_cells(known: KnownTables) -> int:
    """Return the number of pair cells, by class, of the program."""
    sizes = known.sizes.astype(np.float64)
    return int((sizes.sum() ** 2 - sizes @ sizes) / 2) * len(known.priors[0])


class IntervalProgram:
    """The program of some known tables, for one function after another."""

    def __init__(self, known: KnownTables) -> None:
        check_memory(_BYTES * 6.0 * n_cells(known), "A program over intervals")
        self.known = known
        self.K = len(known.priors[0])
        d = len(known.sizes)
        self.layout = Layout([*combinations(range(d), 2)], known.sizes)
        own = [np.arange(span.start, span.stop) for span in spans(known.sizes)]
        grids = [
            np.meshgrid(own[i], own[j], indexing="ij") for i, j in self.layout.pairs
        ]
        empty = np.zeros(0, np.intp)
        self._first = np.concatenate([empty, *(grid[0].ravel() for grid in grids)])
        self._second = np.concatenate([empty, *(grid[1].ravel() for grid in grids)])
        self._program = self._written()
        self._highs = solver(presolve="off", solver="simplex")
        self._highs.passModel(model(self._program))
        self._solved = False

    def _written(self) -> Program:
        """Write the rows: margins, intervals, and the total; variables by class, τ."""
        layout = self.layout
        K = self.K
        width = layout.width
        P = layout.n_pair_cells
        D = width - P
        agree = consistency_rows(layout, K)
        pairs = sparse.hstack([sparse.eye_array(P, width)] * K)
        cell = sparse.eye_array(D, width, k=P)
        in_class = sparse.coo_array(
            (
                np.ones(int(self.known.sizes[0])),
                (np.zeros(int(self.known.sizes[0]), np.intp), layout.cells(0)),
            ),
            shape=(1, width),
        )
        priors = sparse.block_diag([in_class] * K)
        limited = sparse.vstack(
            [pairs, sparse.block_diag([cell] * K), sparse.hstack([cell] * K), priors]
        )
        known = self.known
        low = np.concatenate(
            [
                known.pairs[0][self._first, self._second],
                known.classes[0].T.ravel(),
                known.singles[0],
                known.priors[0],
            ]
        )
        high = np.concatenate(
            [
                known.pairs[1][self._first, self._second],
                known.classes[1].T.ravel(),
                known.singles[1],
                known.priors[1],
            ]
        )
        total = sparse.coo_array(priors.sum(axis=0)[None])
        fixed = sparse.vstack([agree, total])
        ends = np.append(np.zeros(agree.shape[0]), 1.0)
        fewest, most = known.n
        limited = sparse.csr_array(limited)
        if fewest == most:  # τ is a number
            A = sparse.vstack([fixed, limited])
            A = sparse.hstack([A, sparse.coo_array((A.shape[0], 1))])
            lows = np.concatenate([ends, low / most])
            highs = np.concatenate([ends, high / most])
        else:
            above = low > 0
            fixed = sparse.hstack([fixed, sparse.coo_array((fixed.shape[0], 1))])
            upper = sparse.hstack([limited, sparse.coo_array(-high[:, None])])
            lower = sparse.hstack([limited[above], sparse.coo_array(-low[above, None])])
            A = sparse.vstack([fixed, upper, lower])
            none = np.full(len(low), np.inf)
            lows = np.concatenate([ends, -none, np.zeros(int(above.sum()))])
            highs = np.concatenate([ends, 0 * low, none[above]])
        least = np.zeros(A.shape[1])
        largest = np.ones(A.shape[1])
        least[-1] = 1 / most
        largest[-1] = 1 / fewest
        return Program(np.zeros(A.shape[1]), A, lows, highs, least, largest)

    def _objective(self, function: Functional) -> Floats:
        """Return the coefficients of all variables."""
        layout = self.layout
        P = layout.n_pair_cells
        out = np.zeros((self.K, layout.width))
        U = function.U
        out[:, :P] = 2 * (U[self._first] * U[self._second]).sum(axis=1)
        out[:, P:] = function.cells.T
        out[:, layout.cells(0)] += function.priors[:, None]
        return np.append(out.ravel(), 0.0)

    def largest(self, function: Functional, time_limit: float | None = None) -> Largest:
        """Return a proven bound on a function of the tables.

        Raises
        ------
        ValueError
            If no tables agree with each other within the intervals.
        """
        objective = self._objective(function)
        highs = self._highs
        places = np.arange(len(objective), dtype=np.int32)
        highs.changeColsCost(len(places), places, -objective)
        # The tables of the last function are feasible: the primal method continues.
        highs.setOptionValue("simplex_strategy", 4 if self._solved else 1)
        limit = np.inf if time_limit is None else time_limit + highs.getRunTime()
        highs.setOptionValue("time_limit", float(limit))
        ended = run(highs, time_limit, self._program.A.nnz)
        statuses = highspy().HighsModelStatus
        status = highs.getModelStatus()
        if ended and status == statuses.kInfeasible:
            raise ValueError(CONTRADICTION)
        if not ended or status != statuses.kOptimal:
            return Largest(np.inf)
        self._solved = True
        solution = highs.getSolution()
        u = -np.array(solution.row_dual)
        bound = self._proven(objective, u) + function.constant + _UP
        return Largest(bound, self._tables(np.array(solution.col_value)))

    def _proven(self, objective: Floats, u: Floats) -> float:
        """Return the bound that multipliers of the rows prove."""
        program = self._program
        u = np.where(np.isfinite(program.high), u, np.minimum(u, 0.0))
        u = np.where(np.isfinite(program.low), u, np.maximum(u, 0.0))
        ends = np.where(u > 0, program.high, program.low)
        used = u != 0
        reduced = objective - program.A.T @ u
        cells = reduced[:-1].reshape(self.K, -1).max(axis=0)
        tables = np.maximum.reduceat(cells, self.layout.blocks)
        tau = reduced[-1] * np.array([program.lower[-1], program.upper[-1]])
        return float(u[used] @ ends[used]) + float(tables.sum()) + float(tau.max())

    def _tables(self, values: Floats) -> Tables:
        """Return the tables of a solution."""
        layout = self.layout
        P = layout.n_pair_cells
        cells = np.maximum(values[:-1], 0.0).reshape(self.K, -1)
        F = cells[:, P:].T.copy()
        Q = np.zeros((len(F), len(F)))
        Q[self._first, self._second] = cells[:, :P].sum(axis=0)
        Q += Q.T
        np.fill_diagonal(Q, F.sum(axis=1))
        priors = F[: int(self.known.sizes[0])].sum(axis=0)
        return Tables(Q, F, priors)
