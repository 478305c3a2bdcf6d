r"""Compute e* and worst cases exactly by cutting planes, for many outcomes.

Both are the same program: find the functions λ of least expectation ``bᵀa`` with

.. math:: \sum_{y \in S} \lambda_y(x) \ge g_S(x) \quad
    \text{for every outcome } x \text{ and some sets } S \text{ of classes},

The problem gives the right-hand sides. For e* they are ``|S| − 1`` for every nonempty S
(`AnyRule`). For the worst case of a given rule they are the losses ``ℓ_y(x)`` of each
class (`renyi.robust.piecewise_loss.Losses`).

The master program (`renyi.robust.master_program`) has a few of these constraints, the
cuts. If the weights of the cuts have the given tables, they are a member of C; the
error under it is the lower bound. The most violated constraint is the minimum of an
energy over all outcomes (`renyi.robust.pairwise_min`). Once
``min_x Σ_S λ_y − g_S ≥ v_S`` is proven for every S, the problem corrects λ to feasible
functions. So there is an upper bound at any time.

*Stabilisation.* The solutions of a master with few cuts are far apart. A box around the
best feasible multiplier therefore limits them. A simple rule, a closed form or a
polynomial program gives the first such multiplier. The master returns a point in the
middle of the feasible set, not a corner. Cuts are first searched halfway to it. A cut
violated there is also violated by the point itself, and a feasible point there is the
new best. The box grows if it is binding. The first cuts come from outcomes sampled from
a tree of the given pairs, which nearly support a member of C.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from renyi.counting.onehot import spans
from renyi.counting.sparse_counts import dense
from renyi.limits import Deadline, check_memory
from renyi.progress import Progress, ProgressCallback
from renyi.robust import pairwise_min
from renyi.robust.ambiguity_set import (
    Ambiguity,
    Classes,
    Floats,
    Outcomes,
    class_sets,
    members,
)
from renyi.robust.master_program import Master, Member
from renyi.robust.pairwise_min import FORBIDDEN, Energy, Grid, Low
from renyi.robust.piecewise_loss import Losses, SlicedScore
from renyi.solvers.programs import IMPOSSIBLE, TOLERANCE, Program, Status, solve

_RADIUS = 1.0  # radius of the box around the best multiplier
_FIRST_TARGET = 0.1  # first gap of the master program
_SHORT = 0.5  # share of the way to the master's multiplier, to search for cuts
_SHARE = 0.1  # later gap of the master, as a share of the interval
_FINEST = 0.05  # least gap of the master, as a share of the tolerance
_WORTH = 0.05  # share of the gap that a proof must be able to gain
_NEAR = 0.01  # mass in the box below which a member of C is searched for
_CUTS = 200  # cuts to add for each set of classes in a round
_DRAWS = 8  # first cuts for each cell; fewer for simplex
_FEW_DRAWS = 1
_STARTS = 300  # outcomes from which descent starts
_SWEEP = 20  # most steps of the master that a sweep of all outcomes may cost
_MOST_IDLE = 20  # rounds without a cut; more indicate rounding errors
_KEPT = 0.1  # share of the time limit to find a member of C
_PART = 0.1  # share of the remaining time for a mixed-integer program
_NOTHING = 1e-14  # rounding of functions up to 1
_DRAWN = 4_000_000  # cells that are compared with samples at once
# Tables of all pairs of categories for each class. Seconds for a cell of one: to set it
# up, and to read it once for every set of classes.
_TABLES = 6
_CELL = 2e-8
_SLACK = 1e-7  # most that a line may exceed a loss before its slice is split


@dataclass(frozen=True, eq=False)
class AnyRule:
    """The smallest error that a rule can guarantee: ``Σ_{y∈S} λ_y ≥ |S| − 1``."""

    ambiguity: Ambiguity

    @property
    def sets(self) -> list[Classes]:
        """Sets of classes that have constraints: the nonempty ones, by size."""
        return class_sets(self.ambiguity.n_classes)

    def right(self, X: Outcomes, S: Classes) -> Floats:
        """Return the right-hand sides g_S(x) at outcomes."""
        return np.full(len(X), len(S) - 1.0)

    def score_loss(self, S: Classes) -> None:
        """Return None: the right-hand side |S| − 1 does not depend on scores."""

    def sliced_scores(self, S: Classes) -> list[SlicedScore]:
        """Return the lines above the right-hand side, for a mixed-integer program."""
        return []

    def refine(self, X: Outcomes, S: Classes) -> bool:
        """Lower these lines where they are too high; return whether any was."""
        return False

    def mended(
        self, multiplier: Floats, bounds: dict[Classes, float]
    ) -> tuple[float, Floats]:
        """Return the best feasible multiplier of the form wλ_y + c_y, and its value.

        With bounds v_S on ``Σ_S λ_y`` (less the loss, if there is one), w ≥ 0 and
        ``Σ_S c_y + w v_S ≥ |S| − 1``: a linear program of K + 1 variables.
        """
        ambiguity = self.ambiguity
        K = self.ambiguity.n_classes
        sets = list(bounds)
        rows = np.column_stack([members(sets, K).T, [*bounds.values()]])
        if not np.isfinite(rows).all():
            return np.inf, multiplier
        need = np.array([len(S) - 1.0 for S in sets])
        expectation = float(ambiguity.b @ multiplier)
        cost = np.append(ambiguity.priors, expectation)
        least = np.full(K + 1, -np.inf)
        least[K] = 0.0
        answer = solve(Program(cost, rows, need, np.inf, least))
        if answer.status != "optimal":  # unbounded: the bounds leave no distribution
            return (-np.inf if answer.status == "unbounded" else np.inf), multiplier
        c = answer.x[:K]
        w = max(float(answer.x[K]), 0.0)
        # The solver may violate the constraints by its tolerance.
        c = c + max(0.0, float((need - rows @ np.append(c, w)).max()))
        value = w * expectation + float(ambiguity.priors @ c)
        return value, ambiguity.shifted(w * multiplier, c)

    def error(self, p: Floats, X: Outcomes) -> float:
        """Return the error of the best rule under p (outcomes, classes)."""
        return float(p.sum() - p.max(axis=1, initial=0.0).sum())


Problem = AnyRule | Losses


class Oracle:
    """Find violated constraints of a multiplier."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem = problem
        self.ambiguity = problem.ambiguity
        self.random = np.random.default_rng(seed)
        self._closed = self._tables(np.where(self.ambiguity.b <= 0, FORBIDDEN, 0.0))
        some, meet = ((values == 0).any(axis=0) for values in self._closed)
        self.grid = Grid(self.ambiguity.sizes, meet & some[:, None] & some)

    def _tables(self, multiplier: Floats) -> tuple[Floats, Floats]:
        """Return unary and pair energies of a multiplier's functions, by class."""
        places = spans(self.ambiguity.sizes)
        K = self.ambiguity.n_classes
        D = places[-1].stop
        unary = np.zeros((K, D))
        pair = np.zeros((K, D, D))
        for table, cells in self.ambiguity.split(multiplier):
            own = [places[i] for i in table.features]
            block = np.moveaxis(cells, -1, 0) if table.with_target else cells
            if len(own) == 1:
                unary[:, own[0]] += block
            else:
                pair[:, own[0], own[1]] += block
                pair[:, own[1], own[0]] += block.swapaxes(-1, -2)
        return unary, pair

    def energy(self, multiplier: Floats, S: Classes) -> Energy:
        """Return ``Σ_{y∈S} λ_y`` less the loss, empty cells forbidden."""
        own = list(S)
        tables = zip(self._tables(multiplier), self._closed, strict=True)
        unary, pair = (np.sum(v[own] + closed[own], axis=0) for v, closed in tables)
        return Energy(self.grid, unary, pair, self.problem.score_loss(S))

    def quick(self, multiplier: Floats, S: Classes, seeds: Outcomes) -> Low:
        """Return the low values by descent from known outcomes and random ones."""
        sizes = self.grid.sizes
        drawn = self.random.integers(0, sizes, (_STARTS, len(sizes)))
        starts = np.concatenate([seeds, drawn])
        return pairwise_min.descend(self.energy(multiplier, S), starts, _CUTS)

    def exact(self, multiplier: Floats, S: Classes, deadline: Deadline) -> Low:
        """Return the proven minimum; a mixed-integer program needs the deadline."""
        energy = self.energy(multiplier, S)
        if self.grid.exact:
            return pairwise_min.minimise(energy, _CUTS, deadline)
        scores = self.problem.sliced_scores(S)
        limit = deadline.part(_PART).limit
        return pairwise_min.prove(energy, scores, limit)


def tree_draws(ambiguity: Ambiguity, n: int, random: np.random.Generator) -> Outcomes:
    """Sample from the most informative tree of pairs (Chow and Liu, 1968)."""
    Q, F = ambiguity.moments()
    label = len(ambiguity.sizes)
    P = np.block([[dense(Q), F], [F.T, np.zeros((F.shape[1], F.shape[1]))]])
    known_pairs = {table.features for table in ambiguity.tables}
    places = [*spans(ambiguity.sizes), slice(len(F), None)]
    weights = np.full((label + 1, label + 1), -np.inf)
    for i, j in combinations(range(label + 1), 2):
        p = P[places[i], places[j]]
        apart = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
        full = p > 0
        if j == label or (i, j) in known_pairs:
            information = (p[full] * np.log(p[full] / apart[full])).sum()
            weights[i, j] = weights[j, i] = information
    priors = ambiguity.priors / ambiguity.priors.sum()
    X = np.zeros((n, label + 1), np.int64)
    X[:, label] = random.choice(len(priors), n, p=priors)
    known = [label]
    new = list(range(label))
    while new:
        best = weights[np.ix_(new, known)]
        row, column = np.unravel_index(int(best.argmax()), best.shape)
        i = new.pop(int(row))
        j = known[int(column)]
        sums = np.cumsum(P[places[i], places[j]], axis=0)
        drawn = random.random(n)
        step = max(1, _DRAWN // len(sums))
        for part in (slice(s, s + step) for s in range(0, n, step)):
            own = sums[:, X[part, j]]
            X[part, i] = (drawn[part] * own[-1] >= own[:-1]).sum(axis=0)
        known.append(i)
    return np.asarray(np.unique(X[:, :label], axis=0))


@dataclass
class Search:
    """State of the search; at any moment lower ≤ value ≤ upper."""

    best: Floats  # the best feasible multiplier
    upper: float
    lower: float = 0.0
    outcomes: Outcomes = field(default_factory=lambda: np.empty((0, 0), np.int64))
    p: Floats = field(default_factory=lambda: np.empty((0, 0)))
    rounds: int = 0
    cuts: int = 0
    status: Status = "optimal"  # until it is stopped

    @property
    def exhibited(self) -> bool:
        """Whether a member of C has been found: without one, C may be empty."""
        return len(self.outcomes) > 0

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def take(self, value: float, multiplier: Floats) -> bool:
        """Keep a feasible multiplier if it improves the bound; return whether so."""
        if value < self.upper:
            self.upper = value
            self.best = multiplier
            return True
        return False


def search(
    problem: Problem,
    start: Floats,
    upper: float,
    *,
    tolerance: float = 1e-6,
    time_limit: float | None = None,
    progress: ProgressCallback | None = None,
    step: str = "cutting planes",
    random_state: int = 0,
) -> Search:
    """Close the interval from a feasible multiplier, whose value is `upper`.

    However narrow the interval is, the search continues until it has found a member of
    C, or a negative upper bound shows that there is none. Ctrl-C ends it with the
    result so far. It does not start if the time is too short for a round.
    """
    state = Search(problem.ambiguity.normalised(start), upper)
    K = problem.ambiguity.n_classes
    D = int(problem.ambiguity.sizes.sum())
    check_memory(8 * _TABLES * K * D**2, f"Cutting planes on {D:,} categories")
    cells = (_TABLES + 2 * len(problem.sets)) * K * D**2
    if time_limit is not None and _CELL * cells > time_limit:
        state.status = "stopped"
        return state
    try:
        planes = _Planes(problem, state, tolerance, time_limit, random_state)
        while planes.go_on():
            more = planes.round()
            if progress is not None:
                spent = planes.deadline.spent
                reached = state.lower, state.upper, state.rounds, state.cuts
                progress(Progress(step, spent, None, "", *reached))
            if not more:
                break
        planes.finish()
    except KeyboardInterrupt:
        state.status = "interrupted"
    return state


class _Planes:
    """The search: a master program, and an oracle for violated constraints."""

    def __init__(
        self,
        problem: Problem,
        state: Search,
        tolerance: float,
        time_limit: float | None,
        seed: int,
    ) -> None:
        self.problem = problem
        self.state = state
        self.tolerance = tolerance
        self.deadline = Deadline(time_limit)
        self.kept = 0.0 if time_limit is None else _KEPT * time_limit
        ambiguity = problem.ambiguity
        sets = problem.sets
        self.master = Master(ambiguity)
        self.oracle = Oracle(problem, seed)
        self.radius = _RADIUS
        self.target = _FIRST_TARGET
        self.idle = 0
        # The first cuts come from possible outcomes.
        draws = _DRAWS if self.master.simplex is None else _FEW_DRAWS
        n = draws * len(self.master.cells) // len(sets)
        seeds = tree_draws(ambiguity, n, self.oracle.random)
        possible = ambiguity.possible(seeds)
        self.pool = seeds[possible.any(axis=1)]
        for S in sets:
            self._require(seeds[possible[:, list(S)].all(axis=1)], S)

    def _require(self, X: Outcomes, S: Classes) -> int:
        added = self.master.add(X, S, self.problem.right(X, S))
        self.state.cuts += added
        return added

    def go_on(self) -> bool:
        """Return whether another round is needed and there is time for it."""
        state = self.state
        solved = state.gap <= self.tolerance and state.exhibited
        if solved or state.upper < IMPOSSIBLE:
            return False
        if self.deadline.left <= self._reserve:
            state.status = "stopped"
            return False
        return True

    @property
    def _reserve(self) -> float:
        """Seconds reserved for finding a member of C."""
        return 0.0 if self.state.exhibited else self.kept

    def round(self) -> bool:
        """Solve the master, update the bounds, add cuts; return whether to continue."""
        state = self.state
        master = self.master
        state.rounds += 1
        target = max(self.target, _FINEST * self.tolerance)
        until = Deadline(self.deadline.left - self._reserve)
        multiplier = master.solve(state.best, self.radius, target, until)
        if multiplier is None or master.last is None:
            state.status = "stopped"
            return False
        if master.last.off < _NEAR:
            self._take_lower(master.member())
        master.forget()
        below = float(self.problem.ambiguity.b @ multiplier) - master.last.gap
        self.target = _SHARE * (state.upper - max(below, state.lower))
        for share in (_SHORT, 1.0):
            if self._separate(state.best + share * (multiplier - state.best)):
                return True
            if self.deadline.passed:
                state.status = "stopped"
                return False
        self.idle += 1
        self.target = min(self.target, _SHARE * master.last.gap)
        if self.idle > _MOST_IDLE:
            return False
        if master.last.gap > 2 * _FINEST * self.tolerance:
            return True
        self.radius *= 4  # the master is solved exactly: the box may be binding
        return master.last.off > _FINEST * self.tolerance

    def _separate(self, trial: Floats) -> int:
        """Add cuts that a multiplier violates; keep it if it is the best."""
        state = self.state
        oracle = self.oracle
        starts = self._starts()
        lows = {}
        for S in self.problem.sets:
            if self.deadline.passed:
                return 0
            lows[S] = oracle.quick(trial, S, starts)
        added = self._add(lows)
        hope = {S: float(low.values[0]) for S, low in lows.items()}
        value, _ = self.problem.mended(trial, hope)
        grid = oracle.grid
        (N, R) = self.master.G.shape
        sweep = grid.n_sweep * int(grid.starts[-1]) * len(self.problem.sets)
        cheap = sweep < _SWEEP * N * R**2  # a sweep of all outcomes costs little
        worth = value < state.upper - _WORTH * state.gap
        if not added or (grid.exact and (cheap or worth)):
            added += self._prove(trial)
        return added

    def _starts(self) -> Outcomes:
        """Return outcomes to start from: those of heavy cuts, and possible ones."""
        some = self.oracle.random.permutation(len(self.pool))[:_STARTS]
        return np.concatenate([self.master.support(), self.pool[some]])

    def _add(self, lows: dict[Classes, Low]) -> int:
        """Add the outcomes that violate a constraint."""
        added = 0
        for S, low in lows.items():
            need = len(S) - 1.0  # 0 for a loss, which the values include
            added += self._require(low.outcomes[low.values < need - TOLERANCE], S)
        return added

    def _prove(self, trial: Floats) -> int:
        """Prove bounds where local search found no cut; keep the best multiplier."""
        oracle = self.oracle
        problem = self.problem
        deadline = Deadline(max(self.deadline.left, 0.1))
        lows = {S: oracle.exact(trial, S, deadline) for S in problem.sets}
        bounds = {S: low.bound for S, low in lows.items()}
        better = self.state.take(*problem.mended(trial, bounds))
        last = self.master.last
        if better and last is not None and last.off > _NEAR:
            self.radius *= 2
        added = self._add(lows)
        for S, low in lows.items():
            slack = low.outcomes[low.values > low.bound + _SLACK]
            added += problem.refine(slack, S)
        return added

    def finish(self) -> None:
        """Reduce the distribution to few outcomes; find one if there is none yet."""
        patience = min(max(self.deadline.left, self.kept), 1.0 + self.deadline.spent)
        if patience > 0 and self.state.rounds:
            heavy = self.state.exhibited
            deadline = Deadline(patience)
            seconds = patience if heavy else patience / 3
            self._take_lower(self.master.sparse_member(seconds, heavy), TOLERANCE)
            if not self.state.exhibited and self.state.upper >= IMPOSSIBLE:
                self._complete(deadline)

    def _complete(self, deadline: Deadline) -> None:
        """Add outcomes until the cuts support a member of C, if there is one.

        Cells of tiny probability hardly change the bounds, so their cuts may be absent.
        """
        problem = self.problem
        oracle = Oracle(AnyRule(self.problem.ambiguity))
        while not deadline.passed:
            missing = self.master.missing(deadline.limit)
            if missing is None:
                return
            if missing[0] <= TOLERANCE:
                break
            added = 0
            for y in range(problem.ambiguity.n_classes):
                low = oracle.quick(missing[1], (y,), self._starts())
                if low.values[0] >= -_NOTHING and oracle.grid.exact:
                    low = oracle.exact(missing[1], (y,), deadline)
                X = low.outcomes[low.values < -_NOTHING]
                possible = problem.ambiguity.possible(X)
                for S in (S for S in problem.sets if y in S):
                    added += self._require(X[possible[:, list(S)].all(axis=1)], S)
            if not added:
                return
        self._take_lower(self.master.sparse_member(max(deadline.left, 1.0)))

    def _take_lower(self, member: Member | None, slack: float = 0.0) -> None:
        """Keep a member of C if its error exceeds the last one's, up to the slack."""
        if member is None:
            return
        X, p = member
        error = self.problem.error(p, X)
        if error > self.state.lower - slack or not self.state.exhibited:
            self.state.outcomes = X
            self.state.p = p
            self.state.lower = max(0.0, min(error, self.state.upper))
