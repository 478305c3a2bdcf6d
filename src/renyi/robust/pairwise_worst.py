r"""Worst case of a given rule, bounded by a program of polynomial size.

Cut the outcomes of every class y into regions (`renyi.robust.piecewise_loss`), on each
of which some additive functions h are not negative and some quadratics lie above the
loss. A member of C is a sum of parts, one for each region. The tables M of a part are
nonnegative and agree on single columns, and with E_M the expectation that they give to
functions of pairs,

.. math:: E_M[h\, 1(X_i = k)] \ge 0, \quad E_M[h h'] \ge 0, \quad E_M[f^2] \ge 0.

Asking no more than that, and that the parts add up to the given tables, the largest sum
of the majorants' expectations is a bound on the worst case. As a *linear* program it
takes a few squares f² of the margin; as a *semidefinite* one those of all additive
functions, which is the matrix of E_M[w w'] for w = (1, indicators), and much tighter.

The multipliers a of the tables prove the bound: ``λ_y`` is a majorant plus nonnegative
multiples of the functions above on every region, hence ``λ_y ≥ ℓ_y`` at every outcome.
At an outcome, the reduced costs of the cells it falls in sum to what λ_y has left over.
So λ_y less the sum of the least of each table is feasible whatever the solver's
tolerance, and even if it was stopped early.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.checks import Deadline
from renyi.robust.pairwise_program import (
    Layout,
    LocalSolution,
    consistency_rows,
    layout_of,
    open_cells,
    solved,
    tie_rows,
    without,
)
from renyi.robust.piecewise_loss import Losses, Moments, Region, regions
from renyi.solvers.programs import Cone, Program, nearest, solve_semidefinite

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Order of a matrix up to which it may be semidefinite: its triangle is a dense block of
# the solver's equations.
MAX_ORDER = 80
# Seconds for the square of the entries of all triangles, as measured.
_PACE = 1.6e-6


def solve_worst(
    losses: Losses, *, semidefinite: bool = False, time_limit: float | None = None
) -> LocalSolution:
    """Bound the worst case of a rule; infinite if nothing was proven in time.

    The functions are above the losses at all outcomes that no empty cell forbids;
    `Ambiguity.completed` makes them so at the others. A semidefinite program that is
    too large, or for which there is no solver, is declined.
    """
    relaxation = _Relaxation.of(losses, semidefinite)
    whole = relaxation.program
    cones = relaxation.cones if semidefinite else []
    kept = np.append(relaxation.open.ravel(), np.ones(len(relaxation.parts), bool))
    program, rows = without(whole, kept)
    nothing = np.zeros(len(losses.ambiguity.b))
    if semidefinite and _too_large(cones, time_limit):
        return LocalSolution(np.inf, nothing, "declined")
    squares: list[Floats] = []
    if semidefinite:
        small = [Cone(cone.order, cone.entries[:, kept]) for cone in cones]
        status, duals, squares = solve_semidefinite(program, small, time_limit)
    else:
        answer = solved(program, Deadline(time_limit))
        status, duals = answer.status, answer.duals
    if len(duals) != len(program.low) or not np.isfinite(duals).all():
        return LocalSolution(np.inf, nothing, status)
    u = np.zeros(len(whole.low))
    u[rows] = duals
    value, multiplier = relaxation.proven(u, squares)
    return LocalSolution(value, multiplier, status)


def _too_large(cones: list[Cone], time_limit: float | None) -> bool:
    """Whether the semidefinite program is likely to end without an answer.

    Interior points prove little before they are near the end.
    """
    triangles = sum(cone.entries.shape[0] for cone in cones)
    late = time_limit is not None and _PACE * triangles**2 > time_limit
    return late or max(cone.order for cone in cones) > MAX_ORDER


@dataclass(frozen=True, eq=False)
class _Relaxation:
    """The program, and what its multipliers prove.

    Variables: the cells of each part, then a number below each of its majorants. Rows:
    consistency, tables, what is not negative, majorants.
    """

    losses: Losses
    layout: Layout
    moments: Moments
    parts: list[Region]
    semidefinite: bool

    @classmethod
    def of(cls, losses: Losses, semidefinite: bool) -> _Relaxation:
        layout = layout_of(losses.ambiguity)
        moments = Moments.of(layout)
        return cls(losses, layout, moments, regions(losses, moments), semidefinite)

    @property
    def classes(self) -> list[int]:
        return [part.y for part in self.parts]

    @cached_property
    def program(self) -> Program:
        ambiguity, layout, R = self.losses.ambiguity, self.layout, len(self.parts)
        shares = np.zeros((ambiguity.n_classes, R))
        shares[self.classes, np.arange(R)] = 1.0
        consistent = consistency_rows(layout, R)
        ties = tie_rows(ambiguity, layout, shares)
        positive = sparse.block_diag([self._positive(part) for part in self.parts])
        above = sparse.block_diag([np.array(part.majorants) for part in self.parts])
        below = [np.ones((len(part.majorants), 1)) for part in self.parts]
        cells = sparse.vstack([consistent, ties, positive])
        A = sparse.block_array([[cells, None], [above, -sparse.block_diag(below)]])
        equal = np.concatenate([np.zeros(consistent.shape[0]), ambiguity.b])
        more, size = A.shape[0] - len(equal), R * layout.width
        return Program.of(
            np.concatenate([np.zeros(size), -np.ones(R)]),
            A,
            np.concatenate([equal, np.zeros(more)]),
            np.concatenate([equal, np.full(more, np.inf)]),
            np.concatenate([np.zeros(size), np.full(R, -np.inf)]),
        )

    def _positive(self, part: Region) -> sparse.csr_array:
        """Rows of a part that are not negative, none of them with large numbers."""
        rows = [self.moments.with_indicators(h) for h in part.inequalities]
        more = part.products if self.semidefinite else part.products + part.squares
        rows += [sparse.csr_array(row[None]) for row in more]
        rows.append(sparse.csr_array((0, self.layout.width)))  # at least one block
        found = sparse.csr_array(sparse.vstack(rows))
        largest = np.maximum(abs(found).max(axis=1).toarray().ravel(), 1e-12)
        return sparse.csr_array(sparse.diags_array(1 / largest) @ found)

    @cached_property
    def open(self) -> Flags:
        """Cells of each part that the tables leave open: (parts, width)."""
        return open_cells(self.losses.ambiguity, self.layout)[self.classes]

    @cached_property
    def cones(self) -> list[Cone]:
        """Matrices of E[w w'] of the parts."""
        return [self._matrix(c) for c in range(len(self.parts))]

    def _matrix(self, c: int) -> Cone:
        """Matrix of 1 and the open categories, less the likeliest of each column."""
        layout, P = self.layout, len(self.moments.first)
        opened, y = self.open[c], self.parts[c].y
        chosen = opened[P:].copy()
        for table in self.losses.ambiguity.tables:
            if len(table.features) == 1:
                start = layout.single_starts[table.features[0]]
                chosen[start + table.probabilities[:, y].argmax()] = False
        rank = np.cumsum(chosen) * chosen  # from 1; the constant comes first
        pair = opened[:P] & chosen[self.moments.first] & chosen[self.moments.second]
        a, b = rank[self.moments.first[pair]], rank[self.moments.second[pair]]
        one = np.flatnonzero(chosen)
        mass = np.flatnonzero(opened[P : P + layout.sizes[0]])
        rows = [np.zeros_like(mass), 0 * one, rank[one], a]
        columns = [np.zeros_like(mass), rank[one], rank[one], b]
        places = np.concatenate([P + mass, P + one, P + one, np.flatnonzero(pair)])
        return Cone.of(
            int(chosen.sum()) + 1,
            np.concatenate(rows),
            np.concatenate(columns),
            c * layout.width + places,
            len(self.program.cost),
        )

    def proven(self, u: Floats, squares: list[Floats]) -> tuple[float, Floats]:
        """Bound and multiplier that any multipliers of the rows prove."""
        ambiguity, R = self.losses.ambiguity, len(self.parts)
        ends = np.cumsum([len(part.majorants) for part in self.parts])
        top = len(u) - int(ends[-1])
        weights = np.split(np.maximum(u[top:], 0), ends[:-1])
        weights = [w / w.sum() if w.sum() > 0 else np.eye(len(w))[0] for w in weights]
        first = consistency_rows(self.layout, R).shape[0]
        last = first + len(ambiguity.b)
        u = np.concatenate([u[:last], np.maximum(u[last:top], 0), *weights])
        reduced = self.program.cost - self.program.A.T @ u
        for cone, z in zip(self.cones if squares else [], squares, strict=True):
            reduced -= cone.entries.T @ nearest(z, cone.order)
        lows = self._lows(reduced[: R * self.layout.width].reshape(R, -1))
        multiplier = ambiguity.shifted(-u[first:last], -lows)
        return float(ambiguity.b @ multiplier), multiplier

    def _lows(self, reduced: Floats) -> Floats:
        """Return what λ_y has left over at least, by class."""
        known = np.where(self.open, reduced, np.inf)
        least = np.minimum.reduceat(known, self.layout.blocks, axis=1).sum(axis=1)
        lows = np.full(self.losses.ambiguity.n_classes, np.inf)
        np.minimum.at(lows, self.classes, least)
        return np.where(np.isfinite(lows), lows, 0.0)  # a class without outcomes
