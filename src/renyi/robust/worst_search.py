r"""The search for the worst case of a rule, where outcomes are too many to list.

It begins with a multiplier whose functions λ_y are above the losses ℓ_y, and narrows
the interval from both sides. Which constraint another multiplier violates most is the
minimum over x of ``λ_y(x) − ℓ_y(x)``, an energy less a function of the score, found by
meeting in the middle. If v_y is a proven lower bound on that minimum, λ_y − v_y is
feasible, hence ``bᵀa − Σ_y P(y) v_y`` is an upper bound at any moment. The multipliers
of the master's outcomes (`renyi.robust.worst_master`) are a member of C, whose exact
error is the lower bound. Where outcomes cannot even be looked at, coordinate descent
finds them and mixed-integer programs (`renyi.robust.slices`) prove the bounds.

The master's multiplier is kept in a box, which costs its outcomes the right marginals
at first. A tenth of a time limit, more of a short one, is therefore kept for finding a
member of C, in a box so large that it is no longer felt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.robust import cutting_planes, pairwise_min, slices
from renyi.robust.cuts import tree_draws
from renyi.robust.cutting_planes import Progress
from renyi.robust.losses import Losses
from renyi.robust.pairwise_min import FORBIDDEN, Low
from renyi.robust.reference_cells import normalised
from renyi.robust.worst_master import Master

Floats = NDArray[np.float64]
Outcomes = NDArray[np.int64]

EMPTY = (
    "No distribution has all of these marginals, so there is no worst case: call "
    "validate() on them, or leave columns out with select()."
)
_VIOLATION = 1e-9
_FEASIBLE = 1e-9  # what the marginals of a member of C may be off by
_BLOCK = 200_000  # energies looked at together: they stay in cache
_CUTS = 200  # added for each class and round
_SEEDS = 500  # for each class, to begin with
_STARTS = 300  # outcomes from which descent begins
_FEW = 50  # cuts by descent, below which all outcomes are looked at
_RADIUS = 0.1  # of the box around the best multiplier
_FAR, _FARTHEST = 100.0, 1e6  # of those where a member of C is looked for
_KEPT = 0.1  # of the time limit, for that
_MOST_KEPT, _LEAST = 0.3, 10.0  # of a short limit; or so many seconds
_PATIENCE = 60.0  # seconds for it if there is no limit
_DRAWS = 2  # outcomes for each cell to begin it with
_MANY = 1000  # added for each class and round of it
_SHARE = 0.5  # of the way from there to the master's at which cuts are looked for
_SLACK = 1e-7  # of a majorant at an outcome, before its slice is split
_NARROW = 1e-4  # slices that are not split further


@dataclass
class State:
    """What is known so far; at any moment lower ≤ worst case ≤ upper."""

    upper: float
    lower: float = 0.0
    outcomes: Outcomes = field(default_factory=lambda: np.empty((0, 0), np.int64))
    p: Floats = field(default_factory=lambda: np.empty((0, 0)))
    multiplier: Floats | None = None  # its functions prove `upper`
    interrupted: bool = False  # by Ctrl-C

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def take(self, b: Floats, multiplier: Floats, value: float | None = None) -> None:
        """Take a multiplier that proves less than is known."""
        value = float(b @ multiplier) if value is None else value
        if value < self.upper:
            self.upper, self.multiplier = value, multiplier

    def exhibit(self, X: Outcomes, p: Floats, losses: Losses) -> None:
        """Take a member of C for the lower bound, if it errs more than the last."""
        error = float((p * losses.at(X)).sum()) if len(X) else 0.0
        if error > self.lower or (len(X) and not len(self.outcomes)):
            self.lower, self.outcomes, self.p = min(error, self.upper), X, p


def search(
    losses: Losses,
    *,
    start: Floats | None = None,
    tolerance: float = 1e-6,
    time_limit: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> State:
    """Close the interval around the worst case.

    `start` is a multiplier whose functions are above the losses, by default that of the
    closed form. Ctrl-C ends the search with what it has.
    """
    if start is None:
        start = losses.closed_form()
    state = State(float(losses.ambiguity.b @ start), multiplier=start)
    begun = time.monotonic()
    planes = _Planes(losses, state, np.inf if time_limit is None else time_limit)
    try:
        for rounds, _ in enumerate(planes.rounds(start, tolerance), 1):
            if progress is not None:
                spent, cuts = time.monotonic() - begun, len(planes.master.known)
                progress(Progress(state.lower, state.upper, cuts, rounds, spent))
        planes.finish()
    except KeyboardInterrupt:
        state.interrupted = True
    return state


class _Planes:
    """The search: a master program, and finders of what its multiplier violates.

    Constraints are looked for between the best feasible multiplier and the master's:
    what is violated there is violated by the master too, and what is feasible there is
    the new best.
    """

    def __init__(self, losses: Losses, state: State, limit: float) -> None:
        self.losses, self.state = losses, state
        self.deadline = time.monotonic() + limit
        self.limit = limit
        self.master = Master(losses.ambiguity)
        self.oracle = cutting_planes.Oracle(losses.ambiguity)
        self.grid = self.oracle.grid
        self.classes = range(losses.ambiguity.n_classes)
        self.edges = dict.fromkeys(self.classes, slices.first_edges(losses.rule))
        self.best = np.zeros(0)

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def rounds(self, start: Floats, tolerance: float) -> Iterator[None]:
        """Solve the master and add outcomes, until the interval is narrow enough."""
        self.best = normalised(self.losses.ambiguity, start)
        self._seed()
        radius, share = _RADIUS, _SHARE
        while self.state.gap > tolerance and self.left > self._reserve:
            self.master.box(self.best, radius)
            answer = self.master.solve(self.left - self._reserve)
            if answer is None:
                break
            if answer.off < _FEASIBLE:
                self.state.exhibit(answer.outcomes, answer.p, self.losses)
            trial = self.best + share * (answer.multiplier - self.best)
            added = self._separate(trial, answer.outcomes)
            if not added and share == 1.0:
                if answer.off >= _FEASIBLE:
                    radius *= 4
                elif not self._prove(trial):
                    break
            share = _SHARE if added else 1.0
            yield

    @property
    def _reserve(self) -> float:
        """Seconds to keep for finding a member of C."""
        if len(self.state.outcomes) or not np.isfinite(self.limit):
            return 0.0
        return max(_KEPT * self.limit, min(_MOST_KEPT * self.limit, _LEAST))

    def finish(self) -> None:
        """Find a member of C if none was met: the box grows until it is not felt."""
        if len(self.state.outcomes):
            return
        self.deadline = time.monotonic() + min(
            max(self.left, self._reserve / 2), max(self._reserve, _PATIENCE)
        )
        n = _DRAWS * len(self.master.cells)
        drawn = tree_draws(self.losses.ambiguity, n, self.oracle.random)
        possible = self.losses.ambiguity.possible(drawn)
        for y in self.classes:
            X = drawn[possible[:, y]]
            self.master.require(X, y, self.losses.at(X)[:, y])
        radius = _FAR
        while self.left > 0 and radius < _FARTHEST:
            self.master.box(self.best, radius)
            answer = self.master.solve(self.left, forget=False)
            if answer is None:
                return
            if answer.off < _FEASIBLE:
                self.state.exhibit(answer.outcomes, answer.p, self.losses)
                return
            a, seeds = answer.multiplier, np.concatenate([answer.outcomes, drawn])
            if not sum(self._add(self._around(a, y, seeds), y) for y in self.classes):
                radius *= 4

    def _around(self, a: Floats, y: int, X: Outcomes) -> Low:
        """Low λ_y − ℓ_y at outcomes that differ in one column from X or from minima.

        A descent ends at few outcomes; a member of C needs many.
        """
        some = self.oracle.random.permutation(len(X))[:_STARTS]
        X = np.concatenate([X, self._descend(a, y, X[some]).outcomes])
        found = [X]
        for i, size in enumerate(self.grid.sizes.tolist()):
            moved = np.repeat(X, size, axis=0)
            moved[:, i] = np.tile(np.arange(size), len(X))
            found.append(moved)
        X = np.unique(np.concatenate(found), axis=0)
        unary, pair = self.oracle.energy(a, (y,))
        values = (
            pairwise_min.energy(self.grid, unary, pair, X) - self.losses.at(X)[:, y]
        )
        order = np.argsort(values, kind="stable")[:_MANY]
        return Low(X[order], values[order], -np.inf)

    def _seed(self) -> None:
        """Begin with outcomes where the best multiplier is nearly tight.

        Those where it is tight hold the worst distribution, were it the very best.
        """
        shape = (10 * _STARTS, len(self.grid.sizes))
        drawn = self.oracle.random.integers(0, self.grid.sizes, shape)
        for y in self.classes:
            low = self._descend(self.best, y, drawn, keep=_SEEDS)
            X = low.outcomes[low.values < 1.0]  # else a cell forbids them
            self.master.require(X, y, self.losses.at(X)[:, y])

    def _separate(self, a: Floats, support: Outcomes) -> int:
        """Add what a violates; a feasible one may become the best.

        All outcomes are looked at only once descent finds few: before, that proves
        nothing of use.
        """
        shape = (_STARTS, len(self.grid.sizes))
        drawn = self.oracle.random.integers(0, self.grid.sizes, shape)
        seeds = np.concatenate([support, drawn])
        added = sum(self._add(self._descend(a, y, seeds), y) for y in self.classes)
        if added >= _FEW or not self.grid.exact:
            return added
        found = [self._sweep(a, y) for y in self.classes]
        self._take(a, np.array([low.bound for low in found]))
        for y, low in enumerate(found):
            added += self._add(low, y) + self._add(self._descend(a, y, low.outcomes), y)
        return added

    def _take(self, a: Floats, lows: Floats) -> None:
        """Take λ_y less its lowest excess as the best, if its value is the lowest."""
        amb = self.losses.ambiguity
        upper = float(amb.b @ a - amb.priors @ lows)
        if upper < -1e-7:
            raise ValueError(EMPTY)
        if upper < self.state.upper:
            self.state.upper = max(upper, self.state.lower)
            self.best = self.state.multiplier = amb.shifted(a, -lows)

    def _add(self, low: Low, y: int) -> int:
        X = low.outcomes[low.values < -_VIOLATION]
        return self.master.require(X, y, self.losses.at(X)[:, y])

    def _sweep(self, a: Floats, y: int) -> Low:
        """Lowest λ_y − ℓ_y over all outcomes, by meeting in the middle."""
        unary, pair = self.oracle.energy(a, (y,))
        first, second = (_Half.of(s, unary, pair, self.losses) for s in self.grid.sides)
        if not (len(first.W) and len(second.W)):  # then the class cannot occur
            bound = np.inf if self.losses.ambiguity.priors[y] > 0 else 0.0
            nothing = np.empty((0, len(self.grid.sizes)), np.int64)
            return Low(nothing, np.empty(0), bound)
        cross = pair[np.ix_(first.places, second.places)] @ second.W.T
        best, where = np.empty(len(first.W)), np.empty(len(first.W), np.int64)
        step = max(1, _BLOCK // len(second.W))
        for s in range(0, len(first.W), step):
            rows = slice(s, s + step)
            block = first.W[rows] @ cross
            block += second.energies
            block -= self._losses_of(first.scores[rows], second.scores, y)
            where[rows] = block.argmin(axis=1)
            best[rows] = np.take_along_axis(block, where[rows, None], axis=1)[:, 0]
        best += first.energies
        order = np.argsort(best, kind="stable")[:_CUTS]
        X = np.empty((len(order), len(self.grid.sizes)), np.int64)
        X[:, first.columns] = first.outcomes[order]
        X[:, second.columns] = second.outcomes[where[order]]
        return Low(X, best[order], float(best[order[0]]))

    def _losses_of(self, first: Floats, second: Floats, y: int) -> Floats:
        losses, k = self.losses, self.losses.own[y]
        if losses.binary:
            g, h = (s[:, k] - s[:, 1 - k] for s in (first, second))
            g += losses.base[k] - losses.base[1 - k]
            return losses.of_margin(g[:, None] + h)
        t = (first[:, None] + second + losses.base).reshape(-1, len(losses.base))
        return losses.of_estimates(t, y).reshape(len(first), len(second))

    def _descend(self, a: Floats, y: int, starts: Outcomes, keep: int = _CUTS) -> Low:
        """Low λ_y − ℓ_y by coordinate descent; proves nothing."""
        unary, pair = self.oracle.energy(a, (y,))
        X, grid, points = np.unique(starts, axis=0), self.grid, self.losses.points
        rows = np.arange(len(X))
        field = pair[grid.places(X)].sum(axis=1) + unary
        t = self.losses.base + points[grid.places(X)].sum(axis=1)
        for i in [*range(len(grid.sizes))] * 20:
            first, last = int(grid.starts[i]), int(grid.starts[i + 1])
            tried = (t - points[first + X[:, i]])[:, None] + points[first:last]
            loss = self.losses.of_estimates(tried.reshape(-1, t.shape[1]), y)
            here = field[:, first:last] - loss.reshape(len(X), -1)
            new, old = here.argmin(axis=1), X[:, i].copy()
            move = here[rows, new] < here[rows, old] - 1e-12
            field[move] += pair[first + new[move]] - pair[first + old[move]]
            t[move] = tried[move, new[move]]
            X[move, i] = new[move]
        X = np.unique(X, axis=0)
        values = pairwise_min.energy(grid, unary, pair, X) - self.losses.at(X)[:, y]
        order = np.argsort(values, kind="stable")[:keep]
        return Low(X[order], values[order], -np.inf)

    def _prove(self, a: Floats) -> bool:
        """Bound what local search could not; return whether another round may help."""
        if self.grid.exact:
            return False
        found = [self._integer_program(a, y) for y in self.classes]
        lows = np.array([low.bound for low in found])
        if np.isfinite(lows).all():
            self._take(a, lows)
        added = sum(self._add(low, y) for y, low in enumerate(found))
        refined = [self._refine(low, y) for y, low in enumerate(found)]
        return added > 0 or any(refined)

    def _refine(self, low: Low, y: int) -> bool:
        """Split the slices whose majorant is what the bound suffers from."""
        slack = low.outcomes[low.values > low.bound + _SLACK]
        if self.losses.rule == "map" or not self.losses.binary or not len(slack):
            return False
        k = int(self.losses.own[y])
        g, constant = self.losses.margin(k, 1 - k)
        at = np.clip(g[self.grid.places(slack)].sum(axis=1) + constant, -1, 1)
        middles = (self.edges[y][1:] + self.edges[y][:-1]) / 2
        halves = np.diff(self.edges[y]) / 2
        inside = np.abs(at[:, None] - middles) <= halves + _NARROW
        split = inside.any(axis=0) & (halves > _NARROW)
        self.edges[y] = np.union1d(self.edges[y], middles[split])
        return bool(split.any())

    def _integer_program(self, a: Floats, y: int) -> Low:
        """Minimise λ_y less a majorant of ℓ_y; the bound is proven."""
        losses, k = self.losses, int(self.losses.own[y])
        unary, pair = self.oracle.energy(a, (y,))
        limit = max(self.left / 4, 1.0) if np.isfinite(self.left) else None
        found = []
        for rival in np.delete(np.arange(len(losses.base)), k).tolist():
            g, constant = losses.margin(k, rival)
            parts = slices.slices_of(losses, self.edges[y], g, constant, self.grid)
            program = slices.sliced_program(
                losses.ambiguity, unary, pair, g, constant, parts
            )
            found.append(slices.chosen(program, self.grid, limit))
        X = np.concatenate([X for X, _ in found])
        values = pairwise_min.energy(self.grid, unary, pair, X) - losses.at(X)[:, y]
        return Low(X, values, min(bound for _, bound in found))


class _Half(NamedTuple):
    """Outcomes of half of the columns that no empty cell forbids."""

    columns: NDArray[np.intp]
    outcomes: Outcomes
    W: Floats
    places: Outcomes
    energies: Floats
    scores: Floats

    @classmethod
    def of(cls, side: Any, unary: Floats, pair: Floats, losses: Losses) -> _Half:
        found = side.energy(unary, pair)
        good = found < FORBIDDEN / 2
        W = side.W[good]
        scores = W @ losses.points[side.places]
        return cls(
            side.columns, side.outcomes[good], W, side.places, found[good], scores
        )
