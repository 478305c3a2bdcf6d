r"""Worst case of a given model: the largest error its rule can have over C.

For losses ℓ_y(x) = 1 − r_y(x) of a rule (`renyi.losses`), linear programming duality
gives

.. math:: \max_{P \in C} E_P[\ell_Y(X)] = \min \{ b^T a : \lambda_y(x) \ge \ell_y(x)
    \text{ for all } x, y \},

λ_y being the functions of a multiplier a (`renyi.ambiguity`). Any feasible multiplier
is an upper bound, and any member of C a lower one. From cheap to exact:

* the closed form, whose λ_y are quadratic in the score;
* a program of polynomial size (`renyi.localworst`), linear or semidefinite;
* small tables: one linear program over all outcomes;
* larger ones: a search that adds outcomes one by one (`renyi.worstsearch`), from the
  best of the multipliers above.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import certificates, rules
from renyi.cuttingplanes import Progress
from renyi.directprogram import worst_member
from renyi.distributions import EQUAL, WorstDistribution
from renyi.energies import MAX_OUTCOMES
from renyi.localworst import solve_worst
from renyi.losses import Losses
from renyi.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.worstsearch import EMPTY, State, search

Floats = NDArray[np.float64]

METHODS = ("exact", "lp", "sdp")
# Outcomes times classes up to which one linear program takes them all.
MAX_DIRECT = 5_000
# Programs to solve, the next if one has no answer: whether semidefinite, and the share
# of a time limit it may take.
_STEPS = {
    "exact": ((True, 0.3), (False, 0.1)),
    "sdp": ((True, 0.7), (False, 0.3)),
    "lp": ((False, 1.0),),
}
_BRIEF = 0.2  # seconds that are too few for them
_QUICK, _LONG = 20.0, 600.0  # and enough


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

    Examples
    --------
    >>> print(WorstCase(0.0857, 0.0857, None, "map", 0.1216, 101.3))
    At worst, rule map errs 8.57 % of the time on a population with these marginals
    (closed form 12.16 %; 101.3 s).
    """

    lower: float
    upper: float
    distribution: WorstDistribution | None
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
    method: str = "exact",
    time_limit: float | None = None,
    tolerance: float = 1e-6,
    progress: Callable[[Progress], None] | None = None,
) -> WorstCase:
    """Worst error of a model over every distribution with the marginals m.

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
    method : {"exact", "lp", "sdp"}, default="exact"
        "lp" gives an upper bound by a linear program of polynomial size, and "sdp" a
        much tighter one by the same program with matrices that must be semidefinite,
        where these are not too large. Both exhibit no distribution. "exact" begins with
        them.
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
    if method not in METHODS:
        raise ValueError(f"method must be 'exact', 'lp' or 'sdp', not {method!r}.")
    closed = certificates.certify(model, m).bounds[name]
    card: Scorecard = getattr(model, "scorecard_", model)
    losses = Losses.of(card, m, name)
    size = losses.ambiguity.n_outcomes * losses.ambiguity.n_classes
    if method == "exact" and size <= MAX_DIRECT:
        state = _direct(losses)
    else:
        state = _searched(losses, method, tolerance, time_limit, progress)
    lower, shown = _exhibited(state, losses)
    upper = min(state.upper, closed)
    seconds = time.monotonic() - begun
    return WorstCase(min(lower, upper), upper, shown, name, closed, seconds)


def _exhibited(state: State, losses: Losses) -> tuple[float, WorstDistribution | None]:
    """Return the member of C that was found, if its marginals are right."""
    if not len(state.outcomes):
        return 0.0, None
    shown = WorstDistribution.of(losses.ambiguity, state.outcomes, state.p)
    if shown.marginal_error > EQUAL:
        return 0.0, None
    return float((shown.p * losses.at(shown.outcomes)).sum()), shown


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


def _searched(
    losses: Losses,
    method: str,
    tolerance: float,
    time_limit: float | None,
    progress: Callable[[Progress], None] | None,
) -> State:
    """Take the best multiplier that the programs find, and search from there."""
    begun, b = time.monotonic(), losses.ambiguity.b
    limit = np.inf if time_limit is None else time_limit
    start = losses.closed_form()
    try:
        start = _improved(losses, start, method, limit)
    except KeyboardInterrupt:
        return State(float(b @ start))
    if method != "exact":
        return State(float(b @ start))
    left = max(0.0, limit + begun - time.monotonic())
    return search(
        losses,
        start=start,
        tolerance=tolerance,
        time_limit=left if np.isfinite(left) else None,
        progress=progress,
    )


def _improved(losses: Losses, start: Floats, method: str, time_limit: float) -> Floats:
    """Return the best of a multiplier and what the programs find in time."""
    few = losses.ambiguity.n_outcomes <= MAX_OUTCOMES
    for semidefinite, share in _STEPS[method]:
        seconds = min(share * time_limit, _LONG)
        if method == "exact" and few:  # a search needs no long beginning
            seconds = min(seconds, _QUICK)
        if method == "exact" and not semidefinite and losses.rule != "map":
            break  # seldom better than the closed form
        if seconds < _BRIEF:
            continue
        found = solve_worst(losses, semidefinite=semidefinite, time_limit=seconds)
        if found.value < losses.ambiguity.b @ start:
            start = found.multiplier
        if found.status == "optimal":
            break
    return start
