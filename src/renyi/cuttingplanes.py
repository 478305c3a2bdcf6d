r"""Cutting planes: e* exactly where the joint outcomes are too many to list.

The dual of the minimax problem asks for the functions λ of least expectation ``bᵀa``
with

.. math:: \sum_{y \in S} \lambda_y(x) \ge |S| - 1 \quad
    \text{for every outcome } x \text{ and nonempty } S.

The master program knows a few of these constraints (cuts), hence its value is a lower
bound; its multipliers on the cuts are a member of C that exhibits it. Which constraint
is violated most is the minimum of an energy over all outcomes (`renyi.energies`).

*Stabilised.* A master with few cuts jumps about, so it is kept in a box around a
feasible multiplier (the polynomial program gives one). Once it violates nothing, the
box is taken away. A value counts as a lower bound only where no box is felt.

*Upper bound at any moment.* If ``min_x Σ_S λ_y ≥ v_S`` is proven for every S, then
``wλ_y + c_y`` is feasible for any w ≥ 0 and c with ``Σ_S c_y + w v_S ≥ |S| − 1``; the
best of these is a linear program of K + 1 variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi import energies, programs
from renyi.ambiguity import Ambiguity
from renyi.energies import FORBIDDEN, Grid, Low

Floats = NDArray[np.float64]

_VIOLATION = 1e-9
_RADIUS = 10.0  # of the first box around an unbounded program; then ten times that …
_MAX_RADIUS = 1e5
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


class Oracle:
    """Finds violated constraints of a multiplier."""

    def __init__(self, ambiguity: Ambiguity, seed: int = 0) -> None:
        self.ambiguity = ambiguity
        self.grid = Grid(ambiguity.sizes)
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
        drawn = self.random.integers(0, sizes, (500, len(sizes)))
        starts = np.concatenate([seeds, drawn]) if len(seeds) else drawn
        return energies.descend(self.grid, *self.energy(multiplier, S), starts)

    def exact(
        self, multiplier: Floats, S: tuple[int, ...], time_limit: float | None = None
    ) -> Low:
        """Minimum with a proof."""
        if self.grid.exact:
            return energies.minimise(self.grid, *self.energy(multiplier, S))
        return energies.prove(self.grid, *self.energy(multiplier, S), time_limit)


class Master:
    """The restricted dual program, warm-started as cuts come in."""

    def __init__(self, ambiguity: Ambiguity) -> None:
        self.ambiguity = ambiguity
        self.module = programs.highspy()
        self.highs = programs.solver(presolve="off", solver="simplex")
        self.free = ~_gauge(ambiguity)
        infinity = self.module.kHighsInf
        for cost, free in zip(ambiguity.b, self.free, strict=True):
            bound = infinity if free else 0.0
            self.highs.addVar(-bound, bound)
            self.highs.changeColCost(self.highs.getNumCol() - 1, float(cost))
        self.rows: list[tuple[bytes, tuple[int, ...]]] = []
        self.outcomes: list[NDArray[np.int64]] = []
        self.known: set[tuple[bytes, tuple[int, ...]]] = set()

    def add(self, X: NDArray[np.int64], S: tuple[int, ...]) -> int:
        """Add the constraints of outcomes for a set of classes; return how many."""
        cells = self.ambiguity.cells(X)
        with_target = self.ambiguity._with_target
        added = 0
        for x, row in zip(X, cells, strict=True):
            key = (x.tobytes(), S)
            if key in self.known:
                continue
            self.known.add(key)
            places = np.concatenate([row + y * with_target for y in S])
            used, counts = np.unique(places, return_counts=True)
            self.highs.addRow(
                len(S) - 1.0,
                self.module.kHighsInf,
                len(used),
                used.astype(np.int32),
                counts.astype(np.float64),
            )
            self.rows.append(key)
            self.outcomes.append(x)
            added += 1
        return added

    def box(self, centre: Floats | None, radius: float) -> None:
        """Keep the multiplier near a centre; None frees it."""
        places = np.flatnonzero(self.free).astype(np.int32)
        if centre is None:
            low = np.full(len(places), -self.module.kHighsInf)
            high = -low
        else:
            low, high = centre[places] - radius, centre[places] + radius
        self.highs.changeColsBounds(len(places), places, low, high)

    def solve(self, time_limit: float) -> tuple[str, float, Floats, Floats]:
        """Return status, value, multiplier, and the multipliers of the cuts."""
        self.highs.setOptionValue(
            "time_limit", float(self.highs.getRunTime() + max(time_limit, 0.05))
        )
        programs.run(self.highs)
        optimal = self.highs.getModelStatus() == self.module.HighsModelStatus.kOptimal
        found = self.highs.getSolution()
        value = float(self.highs.getInfo().objective_function_value)
        return (
            "optimal" if optimal else "other",
            value,
            np.array(found.col_value),
            np.array(found.row_dual),
        )

    def distribution(self, duals: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Return the member of C that the multipliers of the cuts describe."""
        K = self.ambiguity.n_classes
        places: dict[bytes, int] = {}
        X: list[NDArray[np.int64]] = []
        p: list[Floats] = []
        for (key, S), x, weight in zip(self.rows, self.outcomes, duals, strict=True):
            if weight <= 0:
                continue
            if key not in places:
                places[key] = len(X)
                X.append(x)
                p.append(np.zeros(K))
            p[places[key]][list(S)] += weight
        if not X:
            return np.empty((0, len(self.ambiguity.sizes)), np.int64), np.empty((0, K))
        return np.array(X), np.array(p)


def _references(ambiguity: Ambiguity) -> NDArray[np.intp]:
    """Most probable category of each feature: the zero of its functions."""
    found = np.zeros(len(ambiguity.sizes), np.intp)
    for table in ambiguity.tables:
        if len(table.features) == 1 and table.with_target:
            found[table.features[0]] = table.probabilities.sum(axis=1).argmax()
    return found


def _gauge(ambiguity: Ambiguity) -> NDArray[np.bool_]:
    """Mark the cells whose multiplier is 0 by convention.

    Functions of a pair contain functions of one column, and these constants; taking a
    reference category as their zero leaves one multiplier for each set of functions.
    """
    zero = _references(ambiguity)
    marks = []
    for table in ambiguity.tables:
        mark = np.zeros(table.probabilities.shape, bool)
        if len(table.features) == 1 and table.features[0] > 0:
            mark[zero[table.features[0]]] = True
        elif len(table.features) == 2:
            mark[zero[table.features[0]]] = True
            mark[:, zero[table.features[1]]] = True
        marks.append(mark.ravel())
    return np.concatenate(marks)


def normalised(ambiguity: Ambiguity, multiplier: Floats) -> Floats:
    """Return the multiplier of the same functions that obeys the gauge."""
    zero, K = _references(ambiguity), ambiguity.n_classes
    unary: dict[int, Floats] = {}
    pieces: list[Floats] = []
    for table, low, high in zip(
        ambiguity.tables, ambiguity.starts[:-1], ambiguity.starts[1:], strict=True
    ):
        cells = multiplier[low:high].reshape(table.probabilities.shape).copy()
        if len(table.features) == 1:
            i = table.features[0]
            unary[i] = unary.get(i, 0) + cells
        else:
            i, j = table.features
            along_i, along_j = cells[:, zero[j]].copy(), cells[zero[i]].copy()
            corner = cells[zero[i], zero[j]].copy()
            cells -= along_i[:, None] + along_j[None] - corner
            along_j = along_j - corner
            if not table.with_target:
                along_i, along_j = along_i[:, None], along_j[:, None]
            unary[i] = unary.get(i, 0) + along_i
            unary[j] = unary.get(j, 0) + along_j
        pieces.append(cells)
    constant = np.zeros(K)
    for i in unary:
        if i > 0:
            constant = constant + unary[i][zero[i]]
            unary[i] = unary[i] - unary[i][zero[i]]
    unary[0] = unary[0] + constant
    for t, table in enumerate(ambiguity.tables):
        if len(table.features) == 1:
            pieces[t] = np.broadcast_to(unary[table.features[0]], pieces[t].shape)
    return np.concatenate([piece.ravel() for piece in pieces])


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

    `seeds` are outcomes to begin with. Ctrl-C ends the search with what it has.
    """
    state = Search(ambiguity, normalised(ambiguity, start), upper)
    master, oracle = Master(ambiguity), Oracle(ambiguity, random_state)
    clock = _Clock(time_limit)
    if seeds is not None:
        _add_seeds(master, oracle, seeds)
    try:
        _run(state, master, oracle, clock, tolerance, progress)
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


def _add_seeds(master: Master, oracle: Oracle, X: NDArray[np.int64]) -> None:
    possible = oracle.ambiguity.possible(X)
    for S in oracle.subsets:
        master.add(X[possible[:, list(S)].all(axis=1)], S)


def _run(
    state: Search,
    master: Master,
    oracle: Oracle,
    clock: _Clock,
    tolerance: float,
    progress: Callable[[Progress], None] | None,
) -> None:
    centre, radius, wide = state.best, 1.0, _RADIUS
    master.box(centre, radius)
    while state.gap > tolerance and clock.left > 0:
        state.rounds += 1
        status, value, a, duals = master.solve(clock.left)
        if status != "optimal":
            if np.isfinite(radius) or clock.left <= 0 or wide > _MAX_RADIUS:
                break
            radius, wide = wide, 10 * wide  # was unbounded
            master.box(centre, radius)
            continue
        felt = np.isfinite(radius) and bool(
            (master.free & (np.abs(a - centre) > radius * (1 - 1e-9))).any()
        )
        if not felt:
            _take_lower(state, master, value, duals)
        added, bounds = _separate(master, oracle, a, clock)
        if bounds:
            _take_upper(state, a, bounds)
        state.cuts = len(master.rows)
        if progress is not None:
            told = (state.lower, state.upper, state.cuts, state.rounds, clock.spent)
            progress(Progress(*told))
        if state.upper < _IMPOSSIBLE:
            break
        if not added:
            if not felt:
                break
            radius = np.inf
            master.box(None, radius)


def _take_upper(
    state: Search, trial: Floats, bounds: dict[tuple[int, ...], float]
) -> None:
    value, multiplier = mended(state.ambiguity, trial, bounds)
    if value < state.upper:
        state.best, state.upper = multiplier, value


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


def _take_lower(state: Search, master: Master, value: float, duals: Floats) -> None:
    if value > state.lower or not len(state.outcomes):
        state.lower = max(state.lower, min(value, state.upper))
        state.outcomes, state.p = master.distribution(duals)


def _separate(
    master: Master, oracle: Oracle, trial: Floats, clock: _Clock
) -> tuple[int, dict[tuple[int, ...], float]]:
    """Add violated cuts; by quick search first, by an exact one if that finds none.

    Returns how many, and what the exact search proved of every set of classes.
    """
    seeds = np.empty((0, len(oracle.grid.sizes)), np.int64)
    if master.outcomes:
        seeds = np.unique(np.array(master.outcomes[-2000:]), axis=0)
    bounds: dict[tuple[int, ...], float] = {}
    for find in _finders(oracle, trial, seeds, clock):
        added, bounds = 0, {}
        for S in oracle.subsets:
            low = find(S)
            violated = low.values < len(S) - 1 - _VIOLATION
            added += master.add(low.outcomes[violated], S)
            bounds[S] = low.bound
        if added:
            break
    return added, bounds if np.isfinite(list(bounds.values())).all() else {}


def _finders(
    oracle: Oracle, trial: Floats, seeds: NDArray[np.int64], clock: _Clock
) -> Iterable[Callable[[tuple[int, ...]], Low]]:
    yield lambda S: oracle.quick(trial, S, seeds)
    yield lambda S: oracle.exact(trial, S, max(clock.left, 1.0))
