r"""Worst case of a given model: the largest error its rule can have over C.

For losses ℓ_y(x) = 1 − r_y(x) of a rule, linear programming duality gives

.. math:: \max_{P \in C} E_P[\ell_Y(X)] = \min \{ b^T a : \lambda_y(x) \ge \ell_y(x)
    \text{ for all } x, y \},

λ_y being the functions of a multiplier a (`renyi.ambiguity`). The closed forms are
feasible choices, since they are quadratic in the score: ``λ_y = ‖t − e_y‖²`` for the
rules renyi and sharp, ``2‖τ(t − t̄) − (e_y − 1/K)‖²`` with the best τ for map.

*Small tables* are one linear program over all outcomes. *Larger ones* are solved by
cutting planes that start from the closed form: which constraint is violated most is the
minimum over x of ``λ_y(x) − ℓ_y(x)``, an energy less a function of the score, found by
meeting in the middle. If v_y is a proven lower bound on that minimum, λ_y − v_y is
feasible, hence ``b^T a − Σ_y P(y) v_y`` is an upper bound at any moment; the
multipliers of the cuts are a member of C, whose exact error is the lower bound.

*Where outcomes are too many to look at*, a mixed-integer program with one linear
constraint takes over. The range of the margin g = t_y − t_other is cut into slices, and
on each the loss is replaced by its largest value there. For map two slices are exact;
for the other rules a slice is split wherever it is what keeps the bounds apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi import (
    certificates,
    cuttingplanes,
    energies,
    evidence,
    localprogram,
    programs,
    rules,
)
from renyi.ambiguity import Ambiguity, describe_outcomes
from renyi.cuttingplanes import Progress
from renyi.directprogram import worst_member
from renyi.energies import FORBIDDEN, Grid, Low
from renyi.factoring import label_text
from renyi.indicators import offsets
from renyi.marginals import Marginals
from renyi.programs import Program
from renyi.scorecard import Scorecard

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Outcomes = NDArray[np.int64]

# Outcomes times classes up to which one linear program takes them all.
MAX_DIRECT = 5_000
EMPTY = (
    "No distribution has all of these marginals, so there is no worst case: call "
    "validate() on them, or leave columns out with select()."
)
_VIOLATION = 1e-9
_FEASIBLE = 1e-9  # what the marginals of a member of C may be off by
_BLOCK = 200_000  # energies looked at together: they stay in cache
_CUTS = 200  # added for each class and round
_RADIUS = 0.5  # of the box around the best multiplier
_SHARE = 0.5  # of the way from there to the master's at which cuts are looked for
_TIE = 1e-12
_SLACK = 1e-7  # of a majorant at an outcome, before its slice is split
_NARROW = 1e-4  # slices that are not split further


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Largest error of a model over all distributions with some marginals.

    Parameters
    ----------
    lower, upper : float
        Proven bounds on the worst error; equal, but for the tolerance, unless the
        search was stopped early.
    distribution : DataFrame or None
        A distribution with these marginals that attains `lower`: outcome of the
        features, class, and probability. None if none was found in time.
    rule : str
        The rule whose error it is.
    closed_form : float
        The bound that needs no search; `upper` is never above it.
    seconds : float
        Time it took.

    Examples
    --------
    >>> print(WorstCase(0.0857, 0.0857, None, "map", 0.1216, 101.3))
    At worst, rule map errs 8.57 % of the time on a population with these marginals
    (closed form 12.16 %; 101.3 s).
    """

    lower: float
    upper: float
    distribution: pd.DataFrame | None
    rule: str
    closed_form: float
    seconds: float

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def __str__(self) -> str:
        """Return the interval in a sentence."""
        known = f"{100 * self.upper:.2f} %"
        if self.gap > 5e-5:
            known = f"between {100 * self.lower:.2f} % and {known}"
        return (
            f"At worst, rule {self.rule} errs {known} of the time on a population with "
            f"these marginals (closed form {100 * self.closed_form:.2f} %; "
            f"{self.seconds:.1f} s)."
        )


def worst_case(
    model: Any,
    m: Marginals,
    *,
    rule: str | None = None,
    time_limit: float | None = None,
    tolerance: float = 1e-6,
    progress: Callable[[Progress], None] | None = None,
) -> WorstCase:
    """Exact worst error of a model over every distribution with the marginals m.

    Class-conditional pairs are taken into account where m has them. Where the largest
    estimates tie, the answer hangs on rounding, so a tie counts as an error whatever
    the class.

    Parameters
    ----------
    model : RenyiClassifier or Scorecard
        Any scorecard will do: trained, rounded or written by hand.
    m : Marginals
        Features and labels are matched by name.
    rule : {"map", "renyi", "sharp"}, optional
        By default the model's own; map for a scorecard.
    time_limit : float, optional
        Seconds after which the interval reached so far is returned; Ctrl-C returns it
        too.
    tolerance : float, default=1e-6
        Width of the interval that is good enough.
    progress : callable, optional
        Called after every round with a `Progress` (lower, upper, cuts, rounds,
        seconds).

    Returns
    -------
    WorstCase

    Examples
    --------
    >>> import renyi
    >>> from renyi.worst import worst_case
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "immigration", "crime"]]
    >>> clf = renyi.RenyiClassifier(rule="sharp").fit(few, y)
    >>> found = worst_case(clf, clf.marginals_)
    >>> round(found.upper, 3), round(found.closed_form, 3)
    (0.046, 0.077)
    """
    begun = time.monotonic()
    own: str = getattr(model, "rule", "map")
    name = rules.check_rule(own if rule is None else rule)
    closed = certificates.certify(model, m).bounds[name]
    card: Scorecard = getattr(model, "scorecard_", model)
    losses = Losses.of(card, m, name)
    if losses.ambiguity.n_outcomes * losses.ambiguity.n_classes <= MAX_DIRECT:
        state = _direct(losses)
    else:
        state = search(
            losses, tolerance=tolerance, time_limit=time_limit, progress=progress
        )
    upper = min(state.upper, closed)
    return WorstCase(
        min(state.lower, upper),
        upper,
        distribution_frame(losses.ambiguity, state.outcomes, state.p),
        name,
        closed,
        time.monotonic() - begun,
    )


def distribution_frame(
    ambiguity: Ambiguity, X: Outcomes, p: Floats
) -> pd.DataFrame | None:
    """Return outcomes, classes and their positive probabilities as a frame."""
    import pandas as pd

    rows, classes = np.nonzero(p)
    if not len(rows):
        return None
    order = np.argsort(-p[rows, classes], kind="stable")
    rows, classes = rows[order], classes[order]
    frame = pd.DataFrame(describe_outcomes(ambiguity, X[rows]))
    texts = np.array(ambiguity.target.levels.texts, object)
    frame[ambiguity.target.name] = texts[classes].tolist()
    frame["probability"] = p[rows, classes]
    return frame


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses ℓ_y(x) = 1 − r_y(x) of a scorecard's rule, and the set C."""

    ambiguity: Ambiguity
    points: Floats  # (categories, the model's classes)
    base: Floats  # estimates before any points
    own: NDArray[np.intp]  # place of each class of C among the model's
    rule: str

    @classmethod
    def of(cls, card: Scorecard, m: Marginals, rule: str) -> Losses:
        """Match the scorecard with the marginals, by names and labels."""
        m = evidence.aligned(card, m)
        points = card.per_class(card.tables[0][evidence.places(card, m)])
        base = card.per_class(np.atleast_2d(card.intercept))[0] + 1 / card.n_classes
        known = [label_text(label) for label in card.classes]
        own = np.array([known.index(label_text(label)) for label in m.classes])
        return cls(Ambiguity.of(m), points, base, own, rule)

    @property
    def binary(self) -> bool:
        """Whether the model has two classes, so that one margin says it all."""
        return len(self.base) == 2

    @property
    def tie(self) -> float:
        """Margin that counts as a tie: rounding may have made it of 0."""
        return _TIE * float(1 + np.abs(self.points).max(initial=0) * len(self.points))

    def margin(self, y: int, rival: int) -> tuple[Floats, float]:
        """Points and constant of the margin t_y − t_rival, the model's classes."""
        return (
            self.points[:, y] - self.points[:, rival],
            float(self.base[y] - self.base[rival]),
        )

    def of_margin(self, g: Floats) -> Floats:
        """Losses of a class that leads the only other one by g; g is overwritten."""
        if self.rule == "map":
            return np.asarray(g <= self.tie, np.float64)
        np.clip(g, -1, 1, out=g)  # t on the simplex: t_y = (1 + g)/2
        if self.rule == "renyi":
            return (1 - g) ** 2 / (2 + 2 * g * g)
        rarer = np.maximum(0, 0.5 - np.abs(g) - g * g / 2)
        return np.where(g > 0, rarer, 1 - rarer)

    def of_estimates(self, t: Floats, y: int) -> Floats:
        """Losses of class y of C at estimates t: (outcomes, the model's classes)."""
        k = self.own[y]
        if self.binary:
            return self.of_margin(t[:, k] - t[:, 1 - k])
        rivals = np.delete(t, k, axis=1).max(axis=1)
        leads = t[:, k] - rivals > self.tie
        if self.rule == "map":
            return np.asarray(~leads, np.float64)
        t = rules.project(t)
        q = (t**2).sum(axis=1)
        if self.rule == "renyi":
            return np.asarray(1 - t[:, k] ** 2 / q)
        sure = np.maximum(0, 2 * t - q[:, None])
        # What sharp leaves over goes to the largest, hence to nobody in a tie.
        return np.asarray(1 - sure[:, k] - leads * (1 - sure.sum(axis=1)))

    def at(self, X: Outcomes) -> Floats:
        """Losses at outcomes: (outcomes, classes of C)."""
        t = self.base + self.points[X + offsets(self.ambiguity.sizes)[:-1]].sum(axis=1)
        classes = range(self.ambiguity.n_classes)
        return np.stack([self.of_estimates(t, y) for y in classes], axis=1)

    def closed_form(self) -> Floats:
        """Multiplier of the quadratic functions behind the closed form, or of 1.

        ``c(τ²‖u‖² − 2τ u_y + k)`` with u = t, c = τ = k = 1 for renyi and sharp; with
        u = t − t̄, c = 2, k = 1 − 1/K and the best τ for map.
        """
        U, beta, c, tau, k = self.points, self.base, 1.0, 1.0, 1.0
        if self.rule == "map":
            U, beta = U - U.mean(axis=1, keepdims=True), beta - beta.mean()
            c, k = 2.0, 1 - 1 / len(beta)
        square, lead, one = self._moments(U, beta)
        b = self.ambiguity.b
        if self.rule == "map":
            spread = float(b @ square)
            tau = max(0.0, float(b @ lead)) / spread if spread > 0 else 0.0
        found = c * (tau**2 * square - 2 * tau * lead + k * one)
        return found if b @ found < 1 else one

    def _moments(self, U: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
        """Multipliers of ‖u‖², u_y and 1 for u = beta + Σ_i U_i(x_i)."""
        amb, starts = self.ambiguity, offsets(self.ambiguity.sizes)
        spans = [U[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
        square, lead, one = (np.zeros(len(amb.b)) for _ in range(3))
        for t, table in enumerate(amb.tables):
            cells = slice(int(amb.starts[t]), int(amb.starts[t + 1]))
            parts = [spans[i] for i in table.features]
            if len(parts) == 2:
                value = 2 * parts[0] @ parts[1].T
                shown = value[..., None] if table.with_target else value
                square[cells] = np.broadcast_to(
                    shown, table.probabilities.shape
                ).ravel()
                continue
            first = float(t == 0)  # the constants go to the first table
            value = (parts[0] ** 2).sum(axis=1) + 2 * parts[0] @ beta
            value = np.repeat(value + first * (beta @ beta), amb.n_classes)
            square[cells], one[cells] = value, first
            lead[cells] = (parts[0] + first * beta)[:, self.own].ravel()
        return square, lead, one


@dataclass
class State:
    """What is known so far; at any moment lower ≤ worst case ≤ upper."""

    upper: float
    lower: float = 0.0
    outcomes: Outcomes = field(default_factory=lambda: np.empty((0, 0), np.int64))
    p: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def exhibit(self, X: Outcomes, p: Floats, losses: Losses) -> None:
        """Take a member of C for the lower bound, if it errs more than the last."""
        error = float((p * losses.at(X)).sum()) if len(X) else 0.0
        if error > self.lower or (len(X) and not len(self.outcomes)):
            self.lower, self.outcomes, self.p = min(error, self.upper), X, p


def _direct(losses: Losses) -> State:
    """Solve one program over all outcomes."""
    ambiguity = losses.ambiguity
    X = ambiguity.outcomes()
    value, p, answer = worst_member(ambiguity, losses.at(X), X)
    if answer.status != "optimal":
        raise ValueError(EMPTY)
    state = State(value)
    state.exhibit(X, p, losses)
    return state


class _Master:
    """Worst member of C on some outcomes; its multipliers are kept in a box.

    ``max ℓᵀp − (c + r)ᵀu + (c − r)ᵀv`` with ``A p − u + v = b`` is the dual of the
    program for a multiplier within r of c; p is a member of C if u = v = 0.
    """

    def __init__(self, ambiguity: Ambiguity) -> None:
        self.ambiguity = ambiguity
        self.module = programs.highspy()
        # Columns come and go, so the last basis stays feasible for the primal method.
        self.highs = programs.solver(
            presolve="off", solver="simplex", simplex_strategy=4
        )
        free = ~cuttingplanes._gauge(ambiguity)
        self.cells = np.flatnonzero(free)
        self.row_of = np.where(free, np.cumsum(free) - 1, -1).astype(np.int32)
        for b in ambiguity.b[self.cells]:
            self.highs.addRow(b, b, 0, np.empty(0, np.int32), np.empty(0))
        for sign in (-1.0, 1.0):
            for row in range(len(self.cells)):
                self._column(0.0, np.array([row], np.int32), sign)
        self.slacks = 2 * len(self.cells)
        self.known: dict[tuple[bytes, int], Outcomes] = {}  # in the columns' order

    def _column(self, cost: float, rows: NDArray[np.int32], value: float) -> None:
        infinity, values = self.module.kHighsInf, np.full(len(rows), value)
        self.highs.addCol(cost, 0.0, infinity, len(rows), rows, values)

    def box(self, centre: Floats, radius: float) -> None:
        """Keep the multiplier within a radius of a centre."""
        c = centre[self.cells]
        cost = np.concatenate([c + radius, radius - c])
        places = np.arange(self.slacks, dtype=np.int32)
        self.highs.changeColsCost(self.slacks, places, cost)

    def require(self, X: Outcomes, y: int, loss: Floats) -> int:
        """Add outcomes of a class; return how many are new."""
        cells = self.ambiguity.cells(X) + y * self.ambiguity._with_target
        before = len(self.known)
        for x, rows, value in zip(X, self.row_of[cells], loss, strict=True):
            if (x.tobytes(), y) not in self.known:
                self.known[x.tobytes(), y] = x
                self._column(-float(value), rows[rows >= 0], 1.0)
        return len(self.known) - before

    def solve(self, time_limit: float) -> _Answer | None:
        """Solve to optimality; None if that failed."""
        limit = self.highs.getRunTime() + max(time_limit, 0.05)
        self.highs.setOptionValue("time_limit", float(limit))
        self.highs.run()
        if self.highs.getModelStatus() != self.module.HighsModelStatus.kOptimal:
            return None
        found = self.highs.getSolution()
        values, reduced = np.array(found.col_value), np.array(found.col_dual)
        a = np.zeros(len(self.ambiguity.b))
        a[self.cells] = -np.array(found.row_dual)
        X, p = self._distribution(values[self.slacks :])
        self._forget(reduced[self.slacks :])
        return _Answer(a, X, p, float(values[: self.slacks].max(initial=0)))

    def _distribution(self, weights: Floats) -> tuple[Outcomes, Floats]:
        keys = list(self.known)
        used = np.flatnonzero(weights > 0)
        X = np.array([self.known[keys[k]] for k in used], np.int64)
        X = X.reshape(len(used), len(self.ambiguity.sizes))
        y = np.array([keys[k][1] for k in used], np.intp)
        X, where = np.unique(X, axis=0, return_inverse=True)
        p = np.zeros((len(X), self.ambiguity.n_classes))
        np.add.at(p, (where.ravel(), y), weights[used])
        return X, p

    def _forget(self, reduced: Floats) -> None:
        """Drop the columns furthest from being used, once they are many."""
        keep = 3 * len(self.cells)
        if len(reduced) < 1.5 * keep:
            return
        drop = np.sort(np.argsort(reduced, kind="stable")[keep:])
        self.highs.deleteCols(len(drop), (drop + self.slacks).astype(np.int32))
        keys = list(self.known)
        for k in drop.tolist():
            del self.known[keys[k]]

    def member(self, time_limit: float) -> _Answer | None:
        """Worst member of C on these outcomes, without a box; None if there is none."""
        places = np.arange(self.slacks, dtype=np.int32)
        zero = np.zeros(self.slacks)
        self.highs.changeColsBounds(self.slacks, places, zero, zero)
        return self.solve(time_limit)


class _Answer(NamedTuple):
    """Multiplier, distribution, and how far its marginals are off."""

    multiplier: Floats
    outcomes: Outcomes
    p: Floats
    off: float


def search(
    losses: Losses,
    *,
    tolerance: float = 1e-6,
    time_limit: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> State:
    """Close the interval around the worst case, starting from the closed form."""
    start = losses.closed_form()
    state = State(float(losses.ambiguity.b @ start))
    begun = time.monotonic()
    planes = _Planes(losses, state, np.inf if time_limit is None else time_limit)
    try:
        for rounds, _ in enumerate(planes.rounds(start, tolerance), 1):
            if progress is not None:
                spent, cuts = time.monotonic() - begun, len(planes.master.known)
                progress(Progress(state.lower, state.upper, cuts, rounds, spent))
    except KeyboardInterrupt:
        pass
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
        self.master = _Master(losses.ambiguity)
        self.oracle = cuttingplanes.Oracle(losses.ambiguity)
        self.grid = self.oracle.grid
        self.classes = range(losses.ambiguity.n_classes)
        self.edges = dict.fromkeys(self.classes, _edges(losses.rule))
        self.best = np.zeros(0)

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def rounds(self, start: Floats, tolerance: float) -> Iterator[None]:
        """Solve the master and add outcomes, until the interval is narrow enough."""
        self.best = cuttingplanes.normalised(self.losses.ambiguity, start)
        radius, share = _RADIUS, _SHARE
        while self.state.gap > tolerance and self.left > 0:
            self.master.box(self.best, radius)
            answer = self.master.solve(self.left)
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
        if not len(self.state.outcomes):
            answer = self.master.member(0.1 * min(self.limit, 600.0))
            if answer is not None:
                self.state.exhibit(answer.outcomes, answer.p, self.losses)

    def _separate(self, a: Floats, support: Outcomes) -> int:
        """Add what a violates; a feasible one may become the best."""
        shape = (300, len(self.grid.sizes))
        drawn = self.oracle.random.integers(0, self.grid.sizes, shape)
        seeds = [np.concatenate([support, drawn])] * len(self.classes)
        if self.grid.exact:
            found = [self._sweep(a, y) for y in self.classes]
            self._take(a, np.array([low.bound for low in found]))
            seeds = [
                np.concatenate([s, low.outcomes])
                for s, low in zip(seeds, found, strict=True)
            ]
        return sum(
            self._add(self._descend(a, y, starts), y) for y, starts in enumerate(seeds)
        )

    def _take(self, a: Floats, lows: Floats) -> None:
        """Take λ_y less its lowest excess as the best, if its value is the lowest."""
        amb = self.losses.ambiguity
        upper = float(amb.b @ a - amb.priors @ lows)
        if upper < -1e-7:
            raise ValueError(EMPTY)
        if upper < self.state.upper:
            self.state.upper = max(upper, self.state.lower)
            self.best = a.copy()
            first = int(amb.starts[1])
            self.best[:first] -= np.tile(lows, first // len(lows))

    def _add(self, low: Low, y: int) -> int:
        X = low.outcomes[low.values < -_VIOLATION]
        return self.master.require(X, y, self.losses.at(X)[:, y])

    def _sweep(self, a: Floats, y: int) -> Low:
        """Lowest λ_y − ℓ_y over all outcomes, by meeting in the middle."""
        unary, pair = self.oracle.energy(a, (y,))
        first, second = (_Half.of(s, unary, pair, self.losses) for s in self.grid.sides)
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

    def _descend(self, a: Floats, y: int, starts: Outcomes) -> Low:
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
        values = energies.energy(grid, unary, pair, X) - self.losses.at(X)[:, y]
        order = np.argsort(values, kind="stable")[:_CUTS]
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
            slices = _slices(losses, self.edges[y], g, constant, self.grid)
            program = _sliced(losses.ambiguity, unary, pair, g, constant, slices)
            found.append(_chosen(program, self.grid, limit))
        X = np.concatenate([X for X, _ in found])
        values = energies.energy(self.grid, unary, pair, X) - losses.at(X)[:, y]
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


def _edges(rule: str) -> Floats:
    """Return the ends of the slices to begin with; map has only one."""
    if rule == "map":
        return np.zeros(1)
    kink = np.sqrt(2) - 1  # where sharp turns deterministic
    return np.unique([*np.linspace(-1, 1, 9), -kink, kink])


class _Slice(NamedTuple):
    """On low ≤ g ≤ high the loss is at most height + slope·g."""

    low: float
    high: float
    height: float
    slope: float


def _slices(
    losses: Losses, edges: Floats, g: Floats, constant: float, grid: Grid
) -> list[_Slice]:
    """Slices of the margin's range with a line above the loss on each."""
    starts = grid.starts[:-1]
    low = float(np.minimum.reduceat(g, starts).sum() + constant) - 1e-6
    high = float(np.maximum.reduceat(g, starts).sum() + constant) + 1e-6
    if losses.rule == "map":
        tie = losses.tie
        return [
            _Slice(min(low, tie), tie, 1.0, 0.0),
            _Slice(tie, max(high, tie), 0.0, 0.0),
        ]
    if not losses.binary:
        return [_Slice(low, high, 1.0, 0.0)]
    inner = edges[(edges > low) & (edges < high)]
    ends = np.concatenate([[low], inner, [high]])
    return [_above(losses, a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _above(losses: Losses, low: float, high: float) -> _Slice:
    """Line above the loss: the chord, raised to what a fine grid calls for.

    The second derivative is at most 2 where the loss has one, and the slices end where
    it has none, so that between two neighbours of the grid, δ apart, the loss exceeds
    its values at both by at most 2δ²/8.
    """
    fine = np.linspace(low, high, 2001)
    loss = losses.of_margin(fine.copy())
    slope = float(loss[-1] - loss[0]) / (high - low)
    height = float((loss - slope * fine).max()) + (fine[1] - fine[0]) ** 2 / 4
    return _Slice(low, high, height, slope)


def _sliced(
    ambiguity: Ambiguity,
    unary: Floats,
    pair: Floats,
    g: Floats,
    constant: float,
    slices: list[_Slice],
) -> Program:
    """Write an energy less a function of the margin as a mixed-integer program.

    Variables: cells of pairs and of columns, then for each slice whether the margin is
    in it, and the margin if it is.
    """
    layout = localprogram._layout(ambiguity)
    d, W, J = len(layout.sizes), layout.width, len(slices)
    first = layout.single_starts
    single = np.concatenate([layout.single(i) for i in range(d)])
    cost = np.zeros(W + 2 * J)
    cost[single] = unary
    for q, (i, j) in enumerate(layout.pairs):
        block = pair[first[i] : first[i + 1], first[j] : first[j + 1]]
        cost[layout.pair(q)] = block
    closed = cost > FORBIDDEN / 2
    cost[closed] = 0.0
    low, high, height, slope = (np.array(part) for part in zip(*slices, strict=True))
    cost[W : W + J], cost[W + J :] = -height, -slope
    sums = sparse.lil_array((d + 2 + 2 * J, W + 2 * J))
    for i in range(d):
        sums[[i], layout.single(i)] = 1.0
    sums[[d], W : W + J] = 1.0
    sums[[d + 1], W + J :], sums[[d + 1], single] = 1.0, -g
    eye = sparse.eye_array(J)
    sums[d + 2 : d + 2 + J, W:] = sparse.hstack([-low * eye, eye])
    sums[d + 2 + J :, W:] = sparse.hstack([high * eye, -eye])
    consistency = localprogram._consistency(layout, 1)
    consistency.resize((consistency.shape[0], W + 2 * J))
    equal = np.concatenate([np.zeros(consistency.shape[0]), np.ones(d + 1), [constant]])
    integer = np.zeros(W + 2 * J, bool)
    integer[single] = integer[W : W + J] = True
    reach = np.maximum(np.abs(low), np.abs(high))
    return Program(
        cost,
        sparse.csc_array(sparse.vstack([consistency, sums])),
        np.concatenate([equal, np.zeros(2 * J)]),
        np.concatenate([equal, np.full(2 * J, np.inf)]),
        np.concatenate([np.zeros(W + J), -reach]),
        np.concatenate([np.where(closed, 0.0, 1.0)[: W + J], reach]),
        integer,
    )


def _chosen(
    program: Program, grid: Grid, time_limit: float | None
) -> tuple[Outcomes, float]:
    """Best outcome of a program, if any was found, and a proven bound on all."""
    answer = programs.solve(program, time_limit=time_limit, presolve=True)
    X = np.empty((0, len(grid.sizes)), np.int64)
    if answer.status == "infeasible" or not np.isfinite(answer.value):
        return X, answer.bound if answer.status == "stopped" else -np.inf
    assert program.integer is not None
    single = np.flatnonzero(program.integer)[: int(grid.starts[-1])]
    chosen = np.split(answer.x[single], grid.starts[1:-1])
    return np.array([[part.argmax() for part in chosen]], np.int64), answer.bound
