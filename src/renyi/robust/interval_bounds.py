"""Guarantees of a scorecard from counts that are known to intervals.

The box comes first, in closed form; then the linear program over the tables that agree,
if the solver is installed and the program is not too large. Scores may be off by
rounding, as in `renyi.certificates.closed_form`. Each bound is a mean of squares. So
its root grows by at most the root of the mean of the squared change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.closed_form import best_feature
from renyi.certificates.error_table import BOX, PROGRAM
from renyi.certificates.intervals import (
    Functional,
    KnownTables,
    Proved,
    Scores,
    best_scale,
    box_bound,
    folded,
    rule_bounds,
)
from renyi.certificates.record import Status, Step
from renyi.encoding.columns import label_text
from renyi.limits import Deadline
from renyi.marginals.marginals import Marginals
from renyi.robust.interval_program import MOST_CELLS, IntervalProgram, n_cells
from renyi.scorecard import Match, Scorecard

Floats = NDArray[np.float64]
_SMALLER = 0.95  # the worst tables often want a smaller scale than the estimate


def program_of(known: KnownTables) -> IntervalProgram | None:
    """Return the program over tables, or None without solver or if it is too large."""
    if find_spec("highspy") is None or n_cells(known) > MOST_CELLS:
        return None
    return IntervalProgram(known)


def interval_bounds(
    card: Scorecard, match: Match, rule: str, time_limit: float | None = None
) -> Proved:
    """Return what is proved of a scorecard under marginals that it matches.

    Raises
    ------
    ValueError
        If no tables agree with each other within the intervals.
    """
    known = KnownTables.of(match.marginals, match.classes, card.n_classes)
    scores = Scores.of(card, match)
    beta = best_scale(next(folded(*scores.deciding, known)), known)
    scales = (beta, _SMALLER * beta)
    begun = time.perf_counter()
    least = rule_bounds(scores, scales, partial(_least_box, known))
    steps = [Step(BOX, least[rule], seconds=time.perf_counter() - begun)]
    program = program_of(known)
    if program is not None:
        deadline = Deadline(time_limit)
        begun = time.perf_counter()
        better = rule_bounds(scores, scales, partial(_proved, program, deadline))
        least = {name: min(least[name], better[name]) for name in least}
        status: Status = "stopped" if better["gamma"] == np.inf else "bounded"
        seconds = time.perf_counter() - begun
        steps.append(Step(PROGRAM, least[rule], seconds=seconds, status=status))
    gamma = least.pop("gamma")
    D = int(np.count_nonzero(known.singles[1]))
    return Proved(gamma, least, tuple(steps), known.start, D)


def _least_box(
    known: KnownTables, make: Callable[[Floats], Functional], P: Floats, b: Floats
) -> float:
    return min(box_bound(make(U), known) for U in folded(P, b, known))


def _proved(
    program: IntervalProgram,
    deadline: Deadline,
    make: Callable[[Floats], Functional],
    P: Floats,
    b: Floats,
) -> float:
    U = next(folded(P, b, program.known))
    return program.largest(make(U), deadline.limit).bound


def interval_rules(m: Marginals) -> list[Step]:
    """Return upper bounds on the errors of rules that look at one column or none."""
    known = KnownTables.of(m)
    start = known.start
    top = int(start.priors.argmax())
    name, _ = best_feature(start.F, m.encoder.columns)
    cells = known.which == m.feature_names.index(name)
    answers = start.F[cells].argmax(axis=1)
    alone = _most_errors(known.classes[0][cells], known.classes[1][cells], answers)
    always = _most_errors(known.priors[0][None], known.priors[1][None], np.array([top]))
    return [
        Step(f"always {label_text(m.classes[top])!r}", always, seconds=0.0),
        Step(f"by {label_text(name)!r} alone", alone, seconds=0.0),
    ]


def _most_errors(low: Floats, high: Floats, answers: NDArray[np.intp]) -> float:
    """Return the largest error of a rule, from intervals of right and wrong rows."""
    right = np.zeros(low.shape, bool)
    right[np.arange(len(answers)), answers] = True
    wrong = float(high[~right].sum())
    return min(1.0, wrong / (wrong + float(low[right].sum())) + 1e-12) if wrong else 0.0
