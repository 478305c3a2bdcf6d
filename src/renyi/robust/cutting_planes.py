r"""Cutting planes: e* exactly where the joint outcomes are too many to list.

The dual of the minimax problem asks for the functions λ of least expectation ``bᵀa``
with

.. math:: \sum_{y \in S} \lambda_y(x) \ge |S| - 1 \quad
    \text{for every outcome } x \text{ and nonempty } S.

The master program (`renyi.robust.cuts`) knows a few of these constraints. The weights
of its cuts, where their tables are the given ones, are a member of C: the lower bound
is the error of the best rule under it, and nothing else. Which constraint is violated
most is the minimum of an energy over all outcomes (`renyi.robust.pairwise_min`).

*Stabilised.* A master with few cuts jumps about, so it is kept in a box around the best
feasible multiplier (a simple rule or the polynomial program gives the first), and its
answer is in the middle of what the cuts leave open, not in a corner. Cuts are looked
for halfway to it first: what is violated there is violated by it too, and what is
feasible there is the new best. The box grows where it is felt. The first cuts are of
outcomes drawn from a tree of the given pairs.

*Upper bound at any moment.* If ``min_x Σ_S λ_y ≥ v_S`` is proven for every S, then
``wλ_y + c_y`` is feasible for any w ≥ 0 and c with ``Σ_S c_y + w v_S ≥ |S| − 1``; the
best of these is a linear program of K + 1 variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import offsets
from renyi.robust import pairwise_min
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.cuts import Master, tree_draws
from renyi.robust.pairwise_min import FORBIDDEN, Grid, Low
from renyi.robust.reference_cells import normalised
from renyi.solvers import programs

Floats = NDArray[np.float64]
Member = tuple[NDArray[np.int64], Floats]

_VIOLATION = 1e-9
_RADIUS = 1.0  # of the box around the best multiplier
_FIRST_TARGET = 0.1  # for the gap of the master program
_SHORT = 0.5  # of the way to the master's multiplier, where cuts are looked for
_SHARE = 0.1  # of the distance of the bounds, for its gap later
_FINEST = 0.05  # of the tolerance, for its least gap
_WORTH = 0.05  # of the gap, which a proof must promise to gain
_NEAR = 0.01  # mass that the box may take up where a member of C is looked for
_CUTS = 200  # added for each set of classes and round
_DRAWS = 8  # cuts for each cell to begin with
_SWEEP = 20  # steps of the master that a look at all outcomes may cost
_MOST_IDLE = 20  # rounds without a cut, after which numbers are the trouble
_MOST_CELLS = 4000  # beyond which the master program takes minutes
_ROUNDING = 1e-9
_IMPOSSIBLE = -1e-7  # an upper bound below this shows that C is empty


class Progress(NamedTuple):
    """How far a search has got."""

    lower: float
    upper: float
    cuts: int
    rounds: int
    seconds: float


@dataclass
class Search:
    """State of the search; at any moment lower ≤ e* ≤ upper."""

    ambiguity: Ambiguity
    best: Floats  # the best feasible multiplier
    upper: float
    lower: float = 0.0
    outcomes: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), int))
    p: Floats = field(default_factory=lambda: np.empty((0, 0)))
    rounds: int = 0
    cuts: int = 0
    interrupted: bool = False
    out_of_time: bool = False

    @property
    def exhibited(self) -> bool:
        """Whether a member of C has been found: without one, C may be empty."""
        return len(self.outcomes) > 0

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower


def subsets(n_classes: int) -> list[tuple[int, ...]]:
    """Return the nonempty sets of classes, small ones first."""
    return [
        chosen
        for size in range(1, n_classes + 1)
        for chosen in combinations(range(n_classes), size)
    ]


def _meeting(ambiguity: Ambiguity) -> NDArray[np.bool_]:
    """Which categories of the columns occur together in some table."""
    starts = offsets(ambiguity.sizes)
    found = np.ones((int(starts[-1]), int(starts[-1])), bool)
    for table in ambiguity.tables:
        p = (
            table.probabilities.sum(axis=-1)
            if table.with_target
            else (table.probabilities)
        )
        i, j = table.features[0], table.features[-1]
        rows, columns = slice(*starts[i : i + 2]), slice(*starts[j : j + 2])
        if len(table.features) == 1:
            found[rows] &= p[:, None] > 0
            found[:, rows] &= p > 0
        else:
            found[rows, columns] &= p > 0
            found[columns, rows] &= p.T > 0
    return found


class Oracle:
    """Finds violated constraints of a multiplier."""

    def __init__(self, ambiguity: Ambiguity, seed: int = 0) -> None:
        self.ambiguity = ambiguity
        self.grid = Grid(ambiguity.sizes, _meeting(ambiguity))
        self.random = np.random.default_rng(seed)
        self.subsets = subsets(ambiguity.n_classes)
        self._closed = self._tables(np.where(ambiguity.b <= 0, FORBIDDEN, 0.0))

    def _tables(self, multiplier: Floats) -> list[tuple[Floats, Floats]]:
        """Unary and pair energies of the functions of a multiplier, class by class."""
        amb, starts = self.ambiguity, self.grid.starts
        K, D = amb.n_classes, int(starts[-1])
        unary, pair = np.zeros((K, D)), np.zeros((K, D, D))
        for table, low, high in zip(
            amb.tables, amb.starts[:-1], amb.starts[1:], strict=True
        ):
            cells = multiplier[low:high].reshape(table.probabilities.shape)
            if not table.with_target:
                cells = np.repeat(cells[..., None], K, axis=-1)
            spans = [slice(starts[i], starts[i + 1]) for i in table.features]
            if len(spans) == 1:
                unary[:, spans[0]] += cells.T
            else:
                block = np.moveaxis(cells, -1, 0)
                pair[:, spans[0], spans[1]] += block
                pair[:, spans[1], spans[0]] += block.transpose(0, 2, 1)
        return list(zip(unary, pair, strict=True))

    def energy(self, multiplier: Floats, S: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Unary and pair energies of Σ_{y∈S} λ_y, empty cells forbidden."""
        tables = self._tables(multiplier)
        unary = np.sum([tables[y][0] + self._closed[y][0] for y in S], axis=0)
        pair = np.sum([tables[y][1] + self._closed[y][1] for y in S], axis=0)
        return unary, pair

    def quick(
        self, multiplier: Floats, S: tuple[int, ...], seeds: NDArray[np.int64]
    ) -> Low:
        """Low values by descent from known outcomes and random ones."""
        sizes = self.grid.sizes
        drawn = self.random.integers(0, sizes, (300, len(sizes)))
        starts = np.concatenate([seeds, drawn]) if len(seeds) else drawn
        return pairwise_min.descend(
            self.grid, *self.energy(multiplier, S), starts, _CUTS
        )

    def exact(
        self, multiplier: Floats, S: tuple[int, ...], time_limit: float | None = None
    ) -> Low:
        """Minimum with a proof."""
        if self.grid.exact:
            limit = np.inf if time_limit is None else time.monotonic() + time_limit
            energy = self.energy(multiplier, S)
            return pairwise_min.minimise(self.grid, *energy, _CUTS, limit)
        return pairwise_min.prove(self.grid, *self.energy(multiplier, S), time_limit)


def search(
    ambiguity: Ambiguity,
    start: Floats,
    upper: float,
    *,
    tolerance: float = 1e-6,
    time_limit: float | None = None,
    seeds: NDArray[np.int64] | None = None,
    progress: Callable[[Progress], None] | None = None,
    random_state: int = 0,
) -> Search:
    """Close the interval around e* from a feasible multiplier.

    However narrow the interval is, it goes on until a member of C is exhibited, or the
    upper bound shows by its sign that there is none. `seeds` are outcomes to begin
    with, drawn from a tree by default. Ctrl-C ends the search with what it has.
    """
    state = Search(ambiguity, normalised(ambiguity, start), upper)
    planes = _Planes(state, tolerance, _Clock(time_limit), random_state)
    if len(planes.master.cells) > _MOST_CELLS:
        return state
    try:
        planes.begin(seeds)
        planes.run(progress)
        planes.finish()
    except KeyboardInterrupt:
        state.interrupted = True
    return state


class _Clock:
    def __init__(self, limit: float | None) -> None:
        self.begun = time.monotonic()
        self.limit = np.inf if limit is None else limit

    @property
    def spent(self) -> float:
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        return self.limit - self.spent


class _Planes:
    """The search: a master program, and an oracle for what its multiplier violates."""

    def __init__(
        self, state: Search, tolerance: float, clock: _Clock, seed: int
    ) -> None:
        self.state, self.tolerance, self.clock = state, tolerance, clock
        self.master = Master(state.ambiguity)
        self.oracle = Oracle(state.ambiguity, seed)
        self.radius = _RADIUS
        self.target = _FIRST_TARGET
        self.idle = 0
        self.pool = np.empty((0, len(state.ambiguity.sizes)), np.int64)

    def begin(self, seeds: NDArray[np.int64] | None) -> None:
        """Take the first cuts, from outcomes that could occur."""
        ambiguity, sets = self.state.ambiguity, self.oracle.subsets
        if seeds is None:
            n = _DRAWS * len(self.master.cells) // len(sets)
            seeds = tree_draws(ambiguity, n, self.oracle.random)
        possible = ambiguity.possible(seeds)
        self.pool = seeds[possible.any(axis=1)]
        for S in sets:
            good = possible[:, list(S)].all(axis=1)
            self.state.cuts += self.master.add(seeds[good], S)

    def run(self, progress: Callable[[Progress], None] | None) -> None:
        """Solve the master and add cuts until the interval is narrow enough."""
        state, clock = self.state, self.clock
        while state.gap > self.tolerance or not state.exhibited:
            state.out_of_time = clock.left <= self._reserve
            if state.out_of_time:
                break
            state.rounds += 1
            more = self._round()
            state.cuts += more
            if progress is not None:
                told = (state.lower, state.upper, state.cuts, state.rounds)
                progress(Progress(*told, clock.spent))
            if state.upper < _IMPOSSIBLE or not (more or self._finer()):
                break

    def _round(self) -> int:
        """Solve the master, take both bounds, and return how many cuts were added."""
        state, master = self.state, self.master
        deadline = time.monotonic() + self.clock.left
        target = max(self.target, _FINEST * self.tolerance)
        found = master.solve(state.best, self.radius, target, deadline)
        assert master.last is not None
        if master.last.off < _NEAR:
            self._take_lower(master.member())
        master.forget()
        below = float(state.ambiguity.b @ found) - master.last.gap
        self.target = _SHARE * (state.upper - max(below, state.lower))
        for share in (_SHORT, 1.0):
            added = self._separate(state.best + share * (found - state.best))
            if added:
                return added
        self.idle += 1
        self.target = min(self.target, _SHARE * master.last.gap)
        return 0

    def _separate(self, trial: Floats) -> int:
        """Add cuts that a multiplier violates; take it as the best if it is."""
        state = self.state
        found = {S: self.oracle.quick(trial, S, self._starts()) for S in self._sets}
        added = self._add(found)
        hope = {S: float(low.values[0]) for S, low in found.items()}
        value, _ = mended(state.ambiguity, trial, hope)
        worth = value < state.upper - _WORTH * state.gap and self.oracle.grid.exact
        if self._cheap or not added or worth:
            added += self._prove(trial)
        return added

    @property
    def _cheap(self) -> bool:
        """Whether looking at all outcomes takes no longer than solving the master."""
        grid, (N, R) = self.oracle.grid, self.master.G.shape
        sweep = grid.n_sweep * int(grid.starts[-1]) * len(self._sets)
        return grid.exact and sweep < _SWEEP * N * R**2

    def _starts(self) -> NDArray[np.int64]:
        """Outcomes to look for others from: of heavy cuts, and possible ones."""
        some = self.oracle.random.permutation(len(self.pool))[:300]
        return np.concatenate([self.master.support(), self.pool[some]])

    @property
    def _sets(self) -> list[tuple[int, ...]]:
        return self.oracle.subsets

    def _add(self, found: dict[tuple[int, ...], Low]) -> int:
        return sum(
            self.master.add(low.outcomes[low.values < len(S) - 1 - _VIOLATION], S)
            for S, low in found.items()
        )

    @property
    def _patience(self) -> float | None:
        """Seconds that one proof may take; a mixed-integer program has no end."""
        left = max(self.clock.left, 0.1)
        if not np.isfinite(left):
            return None
        return left if self.oracle.grid.exact else left / 10

    def _prove(self, trial: Floats) -> int:
        """Bound what local search could not; a feasible multiplier may be the best."""
        found = {S: self.oracle.exact(trial, S, self._patience) for S in self._sets}
        bounds = {S: low.bound for S, low in found.items()}
        if np.isfinite(list(bounds.values())).all():
            value, multiplier = mended(self.state.ambiguity, trial, bounds)
            if value < self.state.upper:
                self.state.best, self.state.upper = multiplier, value
                assert self.master.last is not None
                if self.master.last.off > _NEAR:
                    self.radius *= 2
        return self._add(found)

    def finish(self) -> None:
        """Carry the distribution by few outcomes; find one if there is none yet."""
        patience = min(max(self.clock.left, self._reserve), 1.0 + self.clock.spent)
        if patience > 0 and self.master.last is not None:
            heavy = self.state.exhibited
            self._take_lower(self.master.sparse_member(patience, heavy), _ROUNDING)

    @property
    def _reserve(self) -> float:
        """Seconds to keep for finding a member of C."""
        endless = not np.isfinite(self.clock.limit)
        return 0.0 if self.state.exhibited or endless else 0.1 * self.clock.limit

    def _take_lower(self, found: Member | None, slack: float = 0.0) -> None:
        """Take a member of C if it errs more than the last, but for the slack.

        Should it err more than the upper bound by more than rounding, that is for the
        reader of the distribution to tell: `lower` is never above `upper`.
        """
        if found is None:
            return
        X, p = found
        error = float(p.sum() - p.max(axis=1, initial=0.0).sum())
        if error > self.state.lower - slack or not self.state.exhibited:
            self.state.outcomes, self.state.p = X, p
            self.state.lower = max(0.0, min(error, self.state.upper))

    def _finer(self) -> bool:
        """Widen the box if it is felt when the master is solved as well as can be."""
        last = self.master.last
        if last is None or self.idle > _MOST_IDLE:
            return False
        if last.gap > 2 * _FINEST * self.tolerance:
            return True
        self.radius *= 4
        return last.off > _FINEST * self.tolerance


def mended(
    ambiguity: Ambiguity, multiplier: Floats, bounds: dict[tuple[int, ...], float]
) -> tuple[float, Floats]:
    """Return the best feasible multiplier of the form wλ_y + c_y, and its value.

    `bounds` are proven lower bounds on Σ_{y∈S} λ_y(x) for every nonempty S.
    """
    K, sets = ambiguity.n_classes, list(bounds)
    rows = np.array([[float(y in S) for y in range(K)] + [bounds[S]] for S in sets])
    need = np.array([len(S) - 1.0 for S in sets])
    if not np.isfinite(rows).all():
        return np.inf, multiplier
    free, top = np.full(K, np.inf), np.full(len(sets), np.inf)
    expectation = float(ambiguity.b @ multiplier)
    program = programs.Program(
        np.append(ambiguity.priors, expectation),
        sparse.csc_array(rows),
        need,
        top,
        np.append(-free, 0.0),
        np.append(free, np.inf),
    )
    answer = programs.solve(program)
    if answer.status != "optimal":  # unbounded: the bounds leave no distribution
        return (-np.inf if answer.status == "unbounded" else np.inf), multiplier
    c, w = answer.x[:K], max(float(answer.x[K]), 0.0)
    # What the solver's tolerance left open.
    c = c + max(0.0, float((need - rows @ np.append(c, w)).max()))
    value = w * expectation + float(ambiguity.priors @ c)
    return value, ambiguity.shifted(w * multiplier, c)
