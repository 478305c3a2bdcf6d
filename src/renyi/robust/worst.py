r"""Compute the worst case of a model: the largest error of its rule over C.

For losses ℓ_y(x) = 1 − r_y(x) of a rule (`renyi.robust.piecewise_loss`), linear
programming duality gives

.. math:: \max_{P \in C} E_P[\ell_Y(X)] = \min \{ b^T a : \lambda_y(x) \ge \ell_y(x)
    \text{ for all } x, y \},

where λ_y are the functions of a multiplier a (`renyi.robust.ambiguity_set`). Any
feasible multiplier gives an upper bound, and any member of C a lower one. The methods,
from cheap to exact:

* the closed form, whose λ_y are quadratic in the score;
* a program of polynomial size, linear or semidefinite
  (`renyi.robust.pairwise_program`);
* for small tables one linear program over all outcomes, for larger ones cutting planes
  (`renyi.robust.cutting_planes`) from the best multiplier so far.

A solver's λ_y is raised by the most that it may lack, so that the bound is proven
whatever the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from renyi import rules
from renyi.certificates.closed_form import closed_form
from renyi.certificates.intervals import KnownTables, is_interval
from renyi.certificates.text import SCALE_FREE
from renyi.formatting import at_least, at_most
from renyi.limits import Deadline, MemoryBudgetError
from renyi.marginals.consistency import check_exact, check_possible
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Noise
from renyi.progress import ProgressCallback
from renyi.robust.ambiguity_set import Floats, worst_member
from renyi.robust.cutting_planes import Search, search
from renyi.robust.distribution import WorstDistribution, exhibited
from renyi.robust.interval_bounds import interval_bounds
from renyi.robust.interval_outcomes import OutcomeProgram
from renyi.robust.pairwise_min import MAX_OUTCOMES
from renyi.robust.pairwise_program import solve_worst, warn_too_large
from renyi.robust.piecewise_loss import Losses
from renyi.scorecard import Match, scorecard_of
from renyi.solvers.programs import IMPOSSIBLE
from renyi.validation import (
    ParameterError,
    check_choice,
    check_positive,
    check_time_limit,
)

METHODS = ("exact", "lp", "sdp")
MAX_DIRECT = 5_000  # outcomes times classes of one linear program
# Programs to solve until one has an answer: whether it is semidefinite, and the share
# of the time limit by which it must end.
_STEPS = {
    "exact": ((True, 0.3), (False, 0.7)),
    "sdp": ((True, 0.7), (False, 1.0)),
    "lp": ((False, 1.0),),
}
_BRIEF = 0.2  # seconds; with fewer, no program is tried
_QUICK = 20.0  # seconds that are enough for the programs before a search
_LONG = 600.0
_EMPTY = (
    "No distribution has all of these pair counts, so there is no worst case: count "
    "again, or leave columns out (Marginals.validate() names the counts that "
    "disagree, Marginals.select() leaves columns out)."
)
_TOO_MANY = (
    f"Some pairs of columns {{}}, and {MAX_DIRECT:,} outcomes and classes or more are "
    "too many for their exact worst case: leave columns out (Marginals.select()), or "
    'use method="lp".'
)
_OTHER = (
    "start is not a result of worst_case() for this model, rule and counts: leave "
    "it out."
)


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Largest error of a model over all distributions with some marginals.

    `worst_case` returns it. Quote `upper`: it is a guarantee, even if the search was
    stopped early.

    Parameters
    ----------
    lower, upper : float
        Proven bounds on the worst-case error. They agree to the tolerance, unless the
        search was stopped early or `method` was not "exact".
    distribution : WorstDistribution or None
        A distribution with these marginals under which the rule has the error `lower`,
        if ties of the largest estimates count as errors. None if none was found in
        time, or `method` does not search for one (`lower` is 0 then).
    rule : str
        The rule of the model.
    closed_form : float
        The closed-form bound; `upper` is never above it.
    seconds : float
        Time taken.
    multiplier : ndarray or None
        Proof of `upper`, unless that is the closed form: a number for every cell of the
        tables. The functions that they define are above the losses.
    interrupted : bool
        Whether Ctrl-C ended the search.
    stopped : bool
        Whether Ctrl-C, the time limit or a lack of memory ended the search early.

    See Also
    --------
    worst_case : Compute it.

    Examples
    --------
    >>> print(WorstCase(0.0857, 0.0857, None, "map", 0.1216, 101.3))
    In the worst case, rule map is wrong on at most 8.57 % of a population with these
    counts (closed form 12.16 %; 101.3 s).
    """

    lower: float
    upper: float
    distribution: WorstDistribution | None = field(repr=False)
    rule: str
    closed_form: float
    seconds: float
    multiplier: Floats | None = field(default=None, repr=False)
    interrupted: bool = False
    stopped: bool = False

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def __str__(self) -> str:
        """Return the interval in a sentence."""
        known = f"at most {at_most(self.upper)}"
        ties = ""
        if (self.lower or self.distribution is not None) and self.gap > 5e-5:
            known = f"between {at_least(self.lower)} and {at_most(self.upper)}"
            if self.rule == "map":
                ties = "ties of the largest scores count as errors; "
        return (
            f"In the worst case, rule {self.rule} is wrong on {known} of a population "
            f"with these counts ({ties}closed form {at_most(self.closed_form)}; "
            f"{self.seconds:.1f} s)."
        )


def worst_case(
    model: object,
    m: Marginals,
    *,
    rule: str | None = None,
    method: str = "exact",
    time_limit: float | None = None,
    tolerance: float = 1e-6,
    progress: ProgressCallback | None = None,
    start: WorstCase | None = None,
) -> WorstCase:
    """Compute the worst-case error of a model over all distributions with marginals m.

    Class-conditional pairs are used if m has them. If the largest estimates tie, the
    answer depends on rounding, so a tie counts as an error whatever the class. Two
    estimates tie if rounding in `predict` may exceed their difference; it grows with
    the points.

    Parameters
    ----------
    model : RenyiClassifier or Scorecard
        Any scorecard: trained, rounded or written by hand.
    m : Marginals
        Features and labels are matched by name.
    rule : {"map", "renyi", "sharp"}, optional
        The model's rule by default; map for a scorecard.
    method : {"exact", "lp", "sdp"}, default="exact"
        "lp" gives an upper bound by a linear program of polynomial size. "sdp" gives a
        much tighter one by a semidefinite program, if that is not too large. Neither
        finds a distribution. "exact" starts with them.
    time_limit : float, optional
        Seconds after which the interval so far is returned, as after Ctrl-C; it is at
        least as good as the closed form. A tenth is reserved for finding a
        distribution. A program that cannot be written in time is left out, and so is
        one that does not fit into memory, with a `DataWarning` ("too-large").
    tolerance : float, default=1e-6
        Width of the interval that is good enough.
    progress : callable, optional
        Called after every round with a `renyi.progress.Progress`.
    start : WorstCase, optional
        An earlier result for the same model, marginals and rule, by the linear program
        or a stopped search. "exact" continues from it.

    Returns
    -------
    WorstCase

    See Also
    --------
    certify : Compute the closed-form guarantee, or a bound from unseen rows.
    minimax : Compute the smallest guarantee of any rule.

    Examples
    --------
    >>> import renyi
    >>> from renyi.robust.worst import worst_case
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "immigration", "crime"]]
    >>> clf = renyi.RenyiClassifier(rule="sharp").fit(few, y)
    >>> worst = worst_case(clf, clf.marginals_)
    >>> round(worst.upper, 3), round(worst.closed_form, 3)
    (0.046, 0.077)
    """
    own: str = getattr(model, "rule", "map")
    name = rules.check_rule(own if rule is None else rule)
    check_choice("method", method, METHODS)
    check_time_limit(time_limit)
    check_positive("tolerance", tolerance)
    deadline = Deadline(time_limit)
    card = scorecard_of(model, m)
    if name != "map" and not card.of_estimates:
        raise ParameterError("rule", f"must be 'map', not {name!r}: {SCALE_FREE}")
    match = card.match(m)
    check_possible(match.marginals)
    counted = match.marginals
    if isinstance(counted.uncertainty, Noise):
        check_exact(counted, "A worst case")
    absent = bool(counted.absent)
    if is_interval(counted):
        closed = interval_bounds(card, match, name, time_limit).bounds[name]
    else:
        closed = closed_form(card, match).best[name]
    known = closed if start is None else min(closed, start.upper)
    worst = WorstCase(0.0, known, None, name, closed, 0.0)
    if start is not None and (start.rule, start.closed_form) != (name, closed):
        raise ValueError(_OTHER)
    try:
        losses = Losses.of(card, replace(counted, uncertainty=None), name)
        if counted.uncertainty is not None:
            worst = _of_intervals(worst, losses, match, method, deadline)
            return replace(worst, seconds=deadline.spent)
        if absent:
            worst = _of_absent_pairs(worst, losses, method, deadline)
            return replace(worst, seconds=deadline.spent)
        first = losses.closed_form()
        state = Search(first, float(losses.ambiguity.b @ first))
        how: Any = {"tolerance": tolerance, "progress": progress}
        state = _searched(state, losses, method, deadline, start, **how)
        worst = _reached(worst, state, losses)
    except KeyboardInterrupt:  # before there was more than the closed form
        worst = replace(worst, interrupted=True, stopped=True)
    except MemoryBudgetError as error:
        warn_too_large(error)
        worst = replace(worst, stopped=True)
    return replace(worst, seconds=deadline.spent)


def _of_intervals(
    known: WorstCase, losses: Losses, match: Match, method: str, deadline: Deadline
) -> WorstCase:
    """Solve one program over all outcomes and all counts in the intervals."""
    if method != "exact":
        return known
    program = OutcomeProgram.of(KnownTables.of(match.marginals), MAX_DIRECT)
    if program is None:
        raise ValueError(_TOO_MANY.format("are known to intervals only"))
    upper = program.largest(losses.at(program.outcomes), deadline.limit)
    least = max(0.0, min(upper + losses.drift, known.upper))
    return replace(known, upper=least, stopped=upper == np.inf)


def least_guarantee(
    m: Marginals, time_limit: float | None = None
) -> tuple[float, float]:
    """Return ends of the smallest guarantee, for counts known to intervals."""
    program = OutcomeProgram.of(KnownTables.of(m), MAX_DIRECT)
    if program is None:
        raise ValueError(_TOO_MANY.format("are known to intervals only"))
    return program.least_guarantee(time_limit)


def _of_absent_pairs(
    known: WorstCase, losses: Losses, method: str, deadline: Deadline
) -> WorstCase:
    """Solve one program over all outcomes; the other methods need every pair."""
    ambiguity = losses.ambiguity
    if method != "exact":
        return known
    if ambiguity.n_table > MAX_DIRECT:
        raise ValueError(_TOO_MANY.format("have no counts"))
    first = ambiguity.shifted(np.zeros(len(ambiguity.b)), 1.0)  # λ = 1
    state = Search(first, 1.0)
    _direct(state, losses, deadline)
    return _reached(known, state, losses)


def _searched(
    state: Search,
    losses: Losses,
    method: str,
    deadline: Deadline,
    start: WorstCase | None,
    **how: Any,
) -> Search:
    """Continue from the closed form, or from a start, until solved or out of time."""
    ambiguity = losses.ambiguity
    direct = method == "exact" and ambiguity.n_table <= MAX_DIRECT
    a = None if start is None else start.multiplier
    if a is not None and len(a) != len(ambiguity.b):
        raise ValueError(_OTHER)
    if a is not None and not direct:
        state.take(float(ambiguity.b @ a), a)
    try:
        if direct:
            _direct(state, losses, deadline)
            return state
        _bound(state, losses, method, deadline, again=start is not None)
        if method == "exact":
            best = state.best, state.upper
            limit = deadline.limit
            step = "exact worst case"
            return search(losses, *best, time_limit=limit, step=step, **how)
    except KeyboardInterrupt:
        state.status = "interrupted"
    except MemoryBudgetError as error:
        warn_too_large(error)
        state.status = "declined"
    return state


def _reached(known: WorstCase, state: Search, losses: Losses) -> WorstCase:
    """Return the interval of a search, with a distribution if there is one."""
    if state.upper < IMPOSSIBLE:
        raise ValueError(_EMPTY)
    interrupted = state.status == "interrupted"
    shown = None
    try:
        shown = exhibited(losses.ambiguity, state.outcomes, state.p)
    except KeyboardInterrupt:
        interrupted = True
    lower = 0.0 if shown is None else losses.error(shown.p, shown.outcomes)
    upper = max(0.0, min(state.upper + losses.drift, known.upper))
    return replace(
        known,
        lower=max(0.0, min(lower - losses.drift, upper)),
        upper=upper,
        distribution=shown,
        multiplier=state.best,
        interrupted=interrupted,
        stopped=interrupted or state.status != "optimal",
    )


def _direct(state: Search, losses: Losses, deadline: Deadline) -> None:
    """Solve one program over all outcomes."""
    ambiguity = losses.ambiguity
    X = ambiguity.outcomes()
    loss = losses.at(X)
    possible = ambiguity.possible(X)
    p, answer = worst_member(ambiguity, loss, X, deadline.limit)
    if answer.status == "infeasible":
        raise ValueError(_EMPTY)
    a = -answer.duals
    if len(a) == len(ambiguity.b) and np.isfinite(a).all():
        excess = np.where(possible, ambiguity.functions(a, X) - loss, np.inf)
        lows = excess.min(axis=0)
        lows[~np.isfinite(lows)] = 0.0  # a class without outcomes
        a = ambiguity.completed(ambiguity.shifted(a, -lows))
        state.take(float(ambiguity.b @ a), a)
    if p.any():
        state.outcomes = X
        state.p = p


def _bound(
    state: Search, losses: Losses, method: str, deadline: Deadline, *, again: bool
) -> None:
    """Return the best bound that the programs prove in time."""
    ambiguity = losses.ambiguity
    begun = deadline.limit
    few = ambiguity.n_table <= MAX_OUTCOMES * ambiguity.n_classes
    for semidefinite, share in _STEPS[method]:
        if again and not semidefinite:
            continue
        seconds = _LONG
        if begun is not None:
            seconds = min(deadline.left - (1 - share) * begun, _LONG)
        if method == "exact" and semidefinite and few:
            seconds = min(seconds, _QUICK)  # a search needs no long beginning
        state.status = "stopped"
        if seconds < _BRIEF:
            continue
        bound = solve_worst(losses, semidefinite=semidefinite, time_limit=seconds)
        state.take(bound.value, bound.multiplier)
        state.status = bound.status
        if bound.status == "optimal":
            break
