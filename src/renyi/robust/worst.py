r"""Worst case of a given model: the largest error its rule can have over C.

For losses ℓ_y(x) = 1 − r_y(x) of a rule (`renyi.robust.losses`), linear programming
duality gives

.. math:: \max_{P \in C} E_P[\ell_Y(X)] = \min \{ b^T a : \lambda_y(x) \ge \ell_y(x)
    \text{ for all } x, y \},

λ_y being the functions of a multiplier a (`renyi.robust.ambiguity_set`). Any feasible
multiplier is an upper bound, and any member of C a lower one. From cheap to exact:

* the closed form, whose λ_y are quadratic in the score;
* a program of polynomial size (`renyi.robust.pairwise_worst`), linear or semidefinite;
* small tables: one linear program over all outcomes;
* larger ones: a search that adds outcomes one by one (`renyi.robust.worst_search`),
  from the best of the multipliers above.

Multipliers that a solver finds are mended before they count: λ_y is raised by what it
lacks at most, so that the bound is proven whatever the solver's tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates.closed_form import closed_form
from renyi.figures import at_least, at_most
from renyi.marginals.consistency import check_possible
from renyi.marginals.marginals import Marginals
from renyi.robust.cutting_planes import Progress
from renyi.robust.distribution import EQUAL, WorstDistribution
from renyi.robust.losses import Losses
from renyi.robust.pairwise_min import MAX_OUTCOMES
from renyi.robust.pairwise_worst import solve_worst
from renyi.robust.worst_search import EMPTY, State, search
from renyi.scorecard import scorecard_of
from renyi.solvers.programs import Program, solve

Floats = NDArray[np.float64]

METHODS = ("exact", "lp", "sdp")
# Outcomes times classes up to which one linear program takes them all.
MAX_DIRECT = 5_000
# Programs to solve, the next if one has no answer: whether semidefinite, and the share
# of a time limit by which it must be done.
_STEPS = {
    "exact": ((True, 0.3), (False, 0.7)),
    "sdp": ((True, 0.7), (False, 1.0)),
    "lp": ((False, 1.0),),
}
_BRIEF = 0.2  # seconds that are too few for them
_QUICK, _LONG = 20.0, 600.0  # and enough
_IMPOSSIBLE = -1e-6  # an upper bound below this shows that C is empty


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Largest error of a model over all distributions with some marginals.

    Parameters
    ----------
    lower, upper : float
        Proven bounds on the worst error; equal, but for the tolerance, unless the
        search was stopped early or `method` was not "exact".
    distribution : WorstDistribution or None
        A distribution with these marginals under which the rule errs `lower`: its
        ``frame()`` lists outcomes, classes and probabilities, ``sample(n)`` draws rows.
        None if none was found in time, or looked for; `lower` is 0 then.
    rule : str
        The rule whose error it is.
    closed_form : float
        The bound that needs no search; `upper` is never above it.
    seconds : float
        Time it took.
    multiplier : ndarray or None
        Proof of `upper`, unless that is the closed form: a number for every cell of the
        tables (`renyi.robust.ambiguity_set`), whose functions are above the losses.
    interrupted : bool
        Whether Ctrl-C ended it.

    Examples
    --------
    >>> print(WorstCase(0.0857, 0.0857, None, "map", 0.1216, 101.3))
    At worst, rule map errs 8.57 % of the time on a population with these marginals
    (closed form 12.16 %; 101.3 s).
    """

    lower: float
    upper: float
    distribution: WorstDistribution | None = field(repr=False)
    rule: str
    closed_form: float
    seconds: float
    multiplier: Floats | None = field(default=None, repr=False)
    interrupted: bool = False

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def __str__(self) -> str:
        """Return the interval in a sentence."""
        known = f"{100 * self.upper:.2f} %"
        if self.distribution is None and not self.lower:
            known = f"at most {at_most(self.upper)}"
        elif self.gap > 5e-5:
            known = f"between {at_least(self.lower)} and {at_most(self.upper)}"
        return (
            f"At worst, rule {self.rule} errs {known} of the time on a population with "
            f"these marginals (closed form {at_most(self.closed_form)}; "
            f"{self.seconds:.1f} s)."
        )


def worst_case(
    model: Any,
    m: Marginals,
    *,
    rule: str | None = None,
    method: str = "exact",
    time_limit: float | None = None,
    tolerance: float = 1e-6,
    progress: Callable[[Progress], None] | None = None,
    start: WorstCase | None = None,
) -> WorstCase:
    """Worst error of a model over every distribution with the marginals m.

    Class-conditional pairs are taken into account where m has them. Where the largest
    estimates tie, the answer hangs on rounding, so a tie counts as an error whatever
    the class. Estimates tie if they differ by no more than what rounding may do to them
    in `predict`, which is the more, the larger the points; how these are spread over
    the features makes no other difference.

    Parameters
    ----------
    model : RenyiClassifier or Scorecard
        Any scorecard will do: trained, rounded or written by hand.
    m : Marginals
        Features and labels are matched by name.
    rule : {"map", "renyi", "sharp"}, optional
        By default the model's own; map for a scorecard.
    method : {"exact", "lp", "sdp"}, default="exact"
        "lp" gives an upper bound by a linear program of polynomial size, and "sdp" a
        much tighter one by the same program with matrices that must be semidefinite,
        where these are not too large. Both exhibit no distribution. "exact" begins with
        them.
    time_limit : float, optional
        Seconds after which the interval reached so far is returned; Ctrl-C returns it
        too. The last of them, a tenth or more, are for finding a distribution, if none
        was met by then.
    tolerance : float, default=1e-6
        Width of the interval that is good enough.
    progress : callable, optional
        Called after every round with a `Progress` (lower, upper, cuts, rounds,
        seconds).
    start : WorstCase, optional
        What was found before of the same model, marginals and rule, by the linear
        program or a search that was stopped: "exact" goes on from there.

    Returns
    -------
    WorstCase

    Examples
    --------
    >>> import renyi
    >>> from renyi.robust.worst import worst_case
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
    if method not in METHODS:
        raise ValueError(f"method must be 'exact', 'lp' or 'sdp', not {method!r}.")
    _check_positive(time_limit=time_limit, tolerance=tolerance)
    card = scorecard_of(model)
    match = card.match(m)
    check_possible(match.marginals)
    closed = closed_form(card, match).best[name]
    losses = Losses.of(card, m, name)
    _check_start(start, losses, closed)
    size = losses.ambiguity.n_outcomes * losses.ambiguity.n_classes
    if method == "exact" and size <= MAX_DIRECT:
        state = _direct(losses, time_limit)
    else:
        state = _searched(losses, method, tolerance, time_limit, progress, start)
    if state.upper < _IMPOSSIBLE:
        raise ValueError(EMPTY)
    lower, shown = _exhibited(state, losses)
    known = 1.0 if start is None else start.upper
    upper = max(0.0, min(state.upper, closed, known))
    return WorstCase(
        max(0.0, min(lower, upper)),
        upper,
        shown,
        name,
        closed,
        time.monotonic() - begun,
        state.multiplier,
        state.interrupted,
    )


def _check_positive(**numbers: Any) -> None:
    for name, value in numbers.items():
        if value is None and name == "time_limit":
            continue
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not (number and float(value) > 0):
            unit = " of seconds" if name == "time_limit" else ""
            raise ValueError(f"{name} must be a positive number{unit}, not {value!r}.")


def _check_start(start: WorstCase | None, losses: Losses, closed: float) -> None:
    """Refuse what was found of another model, as far as it can be told."""
    if start is None:
        return
    a = start.multiplier
    same = (start.rule, start.closed_form) == (losses.rule, closed)
    if not same or a is None or len(a) != len(losses.ambiguity.b):
        raise ValueError(
            "start is not what worst_case() found of this model, rule and marginals: "
            "leave it out."
        )


def _exhibited(state: State, losses: Losses) -> tuple[float, WorstDistribution | None]:
    """Return the member of C that was found, if its marginals are right."""
    if not len(state.outcomes):
        return 0.0, None
    shown = WorstDistribution.of(losses.ambiguity, state.outcomes, state.p)
    if shown.marginal_error > EQUAL:
        return 0.0, None
    return float((shown.p * losses.at(shown.outcomes)).sum()), shown


def _closed(losses: Losses) -> State:
    """Return what the closed form knows."""
    found = losses.closed_form()
    return State(float(losses.ambiguity.b @ found), multiplier=found)


def _direct(losses: Losses, time_limit: float | None) -> State:
    """Solve one program over all outcomes."""
    ambiguity, state = losses.ambiguity, _closed(losses)
    X = ambiguity.outcomes()
    loss, possible = losses.at(X), ambiguity.possible(X)
    program = Program(
        -loss.ravel(),
        ambiguity.constraint_matrix(X),
        ambiguity.b,
        ambiguity.b,
        np.zeros(loss.size),
        np.where(possible, np.inf, 0.0).ravel(),
    )
    try:
        answer = solve(program, time_limit=time_limit)
    except KeyboardInterrupt:
        state.interrupted = True
        return state
    if answer.status == "infeasible":
        raise ValueError(EMPTY)
    a = -answer.duals
    if len(a) == len(ambiguity.b) and np.isfinite(a).all():
        excess = np.where(possible, ambiguity.functions(a, X) - loss, np.inf)
        lows = excess.min(axis=0)
        lows[~np.isfinite(lows)] = 0.0  # a class without outcomes
        state.take(ambiguity.b, ambiguity.completed(ambiguity.shifted(a, -lows)))
    if len(answer.x) == loss.size:
        state.exhibit(X, np.maximum(answer.x, 0).reshape(loss.shape), losses)
    return state


def _searched(
    losses: Losses,
    method: str,
    tolerance: float,
    time_limit: float | None,
    progress: Callable[[Progress], None] | None,
    start: WorstCase | None,
) -> State:
    """Take the best multiplier that the programs find, and search from there."""
    begun = time.monotonic()
    limit = np.inf if time_limit is None else time_limit
    state = _closed(losses)
    if start is not None and start.multiplier is not None:
        state.take(losses.ambiguity.b, start.multiplier)
    try:
        _improve(state, losses, method, limit, start is not None)
    except KeyboardInterrupt:
        state.interrupted = True
    if method != "exact" or state.interrupted:
        return state
    left = max(0.0, limit + begun - time.monotonic())
    return search(
        losses,
        start=state.multiplier,
        tolerance=tolerance,
        time_limit=left if np.isfinite(left) else None,
        progress=progress,
    )


def _improve(
    state: State, losses: Losses, method: str, limit: float, begun_before: bool
) -> None:
    """Take the bounds that the programs prove in time; a linear one only once."""
    begun = time.monotonic()
    few = losses.ambiguity.n_outcomes <= MAX_OUTCOMES
    for semidefinite, share in _STEPS[method]:
        if begun_before and not semidefinite:
            continue
        seconds = min(share * limit + begun - time.monotonic(), _LONG)
        if method == "exact" and semidefinite and few:
            seconds = min(seconds, _QUICK)  # a search needs no long beginning
        if seconds < _BRIEF:
            continue
        found = solve_worst(losses, semidefinite=semidefinite, time_limit=seconds)
        state.take(losses.ambiguity.b, found.multiplier, found.value)
        if found.status == "optimal":
            break
