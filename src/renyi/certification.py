r"""Certification: the guarantee of a model, from the cheap to the exact.

Resting on **marginals**, the bound holds for *every* distribution that has them. It is
found in steps, each computed once: the closed form, the pairs within each class where
they were counted (`renyi.certificates.closed_form`), a linear program and the exact
worst case (`renyi.robust.worst`). Of the marginals a model was trained on it is exact
*for those*; about the population it says little when rows are few.

Resting on **held-out rows**, it holds with a stated confidence for every distribution
with the marginals of the population that they were drawn from
(`renyi.certificates.heldout`). So it does for a model made of two, each of which was
trained on one half of the rows and evaluated on the other.

Resting on **intervals** of the counts, it holds for every population with counts within
them, with certainty (`renyi.robust.interval_bounds`). Resting on counts with **noise**,
it holds with a confidence for the counts before the noise (`renyi.certificates.noise`).

`bound_report` compares a model with the guarantees of *any* rule: always the most
frequent class, the best single feature, the rule of the polynomial program, and the
minimax error e*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates import heldout, text
from renyi.certificates.closed_form import (
    ClosedForm,
    best_feature,
    best_left_out_feature,
    closed_form,
    scale_free,
)
from renyi.certificates.error_table import CLOSED, CONDITIONAL, EXACT, PROGRAM
from renyi.certificates.intervals import is_interval
from renyi.certificates.left_out import LeftOutError
from renyi.certificates.noise import CONFIDENCE, noise_bounds
from renyi.certificates.record import (
    Basis,
    BoundReport,
    Certificate,
    Status,
    Step,
    WarningCode,
    exact_status,
    is_optimistic,
)
from renyi.counting.onehot import class_label_counts
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import AND, ColumnLike, label_text
from renyi.encoding.rows import has_few_rows
from renyi.limits import Deadline
from renyi.marginals.consistency import check_possible
from renyi.marginals.file import DataDigest, class_digest
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Noise
from renyi.rules import Scorer
from renyi.scorecard import Match, Scorecard, scorecard_of, scorer_of
from renyi.validation import InputError, check_choice, check_time_limit

if TYPE_CHECKING:
    from renyi.robust.minimax_problem import MinimaxResult
    from renyi.robust.worst import WorstCase

LEVELS = ("closed", "lp", "exact")
MINIMAX = "minimax error e*"
# Of the time for programs that the linear one may take before the exact one.
_SHARE = 0.5
_SHORTEST = 0.1  # seconds, when there is no time left

Warned = tuple[WarningCode, str]
Report = Callable[[str, Any], None]


def certificate(
    closed: ClosedForm,
    card: Scorecard,
    rule: str,
    loo_risk: float | None = None,
    left_out: LeftOutError | None = None,
    notes: tuple[Warned, ...] = (),
    timed: bool = False,
    effective_n: float | None = None,
) -> Certificate:
    """Certificate of a model from its closed form.

    `effective_n` is the number of rows, where they weigh less than one each.
    """
    moments = closed.moments
    took = closed.seconds if timed else (None, None)
    steps = [Step(CLOSED, closed.bounds[rule], seconds=took[0])]
    if closed.conditional is not None and rule == "map":
        steps.append(Step(CONDITIONAL, closed.conditional, seconds=took[1]))
    n = moments.n
    D = moments.n_indicators
    warned: list[Warned] = []
    if has_few_rows(n, D):
        warned.append(("few-rows", text.few_rows(n, D)))
    if loo_risk is not None and is_optimistic(closed.gamma, loo_risk):
        warned.append(("optimistic", text.optimistic(closed.gamma, loo_risk)))
    warned += notes
    if closed.conditional is not None:
        warned.append((CONDITIONAL, text.CLASS_PAIRS))
    auc, scores = closed.ranking
    if not card.of_estimates:
        warned.append(("scale-free", text.SCALE_FREE))
    return Certificate(
        **scale_free(closed.gamma, closed.best, card),
        majority=majority_of(card.classes, moments.priors),
        one_feature=best_left_out_feature(
            moments.F, moments.columns, n, _row_unit(n, effective_n)
        ),
        loo_risk=loo_risk,
        loo_error=None if left_out is None else left_out.error,
        loo_rows=None if left_out is None else left_out.n,
        rule=rule,
        n=n,
        n_indicators=D,
        order=card.encoder.order,
        interactions=_pair_count(card),
        steps=tuple(steps),
        auc=auc,
        class_scores=scores,
        **warning_fields(warned),
    )


def uncertain_certificate(
    card: Scorecard,
    match: Match,
    rule: str,
    notes: tuple[Warned, ...] = (),
    time_limit: float | None = None,
    confidence: float | None = None,
    whole: Marginals | None = None,
) -> Certificate:
    """Certificate of a model from counts that are not exact.

    `whole` are the marginals before the model's columns were taken.
    """
    m = match.marginals
    if is_interval(m):
        from renyi.robust.interval_bounds import interval_bounds  # with scipy.sparse

        proved = interval_bounds(card, match, rule, time_limit)
    else:
        level = CONFIDENCE if confidence is None else confidence
        proved = noise_bounds(card, match, whole or m, rule, level)
    F = proved.start.F
    warned: list[Warned] = []
    if few := text.few_rows(m.n, proved.n_indicators):
        warned.append(("few-rows", few))
    unit = _row_unit(m.n, None)
    return Certificate(
        **scale_free(proved.gamma, proved.bounds, card),
        majority=majority_of(card.classes, proved.start.priors),
        one_feature=best_left_out_feature(F, m.encoder.columns, m.n, unit),
        loo_risk=None,
        loo_error=None,
        rule=rule,
        n=m.n,
        n_indicators=proved.n_indicators,
        basis="intervals" if proved.confidence is None else "noisy",
        confidence=proved.confidence,
        order=card.encoder.order,
        interactions=_pair_count(card),
        steps=proved.steps,
        **warning_fields([*warned, *notes]),
    )


def _pair_count(card: Scorer) -> int | None:
    """Return how many features are chosen pairs; None if none are by themselves."""
    encoder = card.encoder
    if encoder.interactions is None:
        return None
    return sum(AND in name for name in encoder.feature_names)


def _row_unit(n: float, effective_n: float | None) -> float:
    """Return what one row counts in counts of the total n; 0 in probabilities."""
    if effective_n is not None:
        return min(1.0, n / effective_n)
    return float(n > 1)


def _warned(c: Certificate) -> list[Warned]:
    return list(zip(c.warning_codes, c.warnings, strict=True))


def warning_fields(warned: Sequence[Warned]) -> dict[str, Any]:
    """Return the sentences and the codes of warnings."""
    codes, sentences = zip(*warned, strict=True) if warned else ((), ())
    return {"warnings": sentences, "warning_codes": codes}


def majority_of(
    classes: Sequence[Any], priors: NDArray[np.float64]
) -> tuple[Any, float]:
    """Return the most frequent class, and the error of always answering it."""
    top = int(priors.argmax())
    return classes[top], float(1 - priors[top])


def certify(
    model: object,
    m: object,
    y: object = None,
    *,
    level: str = "closed",
    confidence: float | None = None,
    time_limit: float | None = None,
    separable: bool = False,
    progress: Callable[[Any], None] | None = None,
    threshold: float = 0.0,
) -> Certificate:
    """Bound the error of a model, from pair counts or from rows it has not seen.

    From `Marginals`, the bound is a guarantee: it covers every population with these
    pair counts, however the columns interact beyond pairs. From rows and their classes,
    it has a confidence, and covers the population that the rows come from. A second,
    larger figure covers every population with the same pair frequencies. If you have
    rows that were not used in training, quote the bound from these.

    Parameters
    ----------
    model : RenyiClassifier, Scorecard, or another additive model
        Any scorecard will do: trained, rounded or written by hand. A classifier made
        elsewhere, or a table of points (a frame, or a CSV file), goes through
        `Scorecard.from_model`.
    m : Marginals, or frame or array of rows
        Marginals of the training rows or of any others. Features are matched by name,
        labels as `predict` takes them; merged labels that the model tells apart are an
        error. Rows must be independent of each other and not used in training. A
        warning says if their counts are those of the training rows.
    y : sequence of labels, optional
        Classes of the rows. A row whose class the model does not know counts as an
        error, and a note of the certificate says how many there are.
    level : {"closed", "lp", "exact"}
        How far to go for the model's own rule: the closed form, a linear program, or
        the exact worst case. The closed form uses pairs within the classes where m has
        them. The last two need the extra ``exact``.
    confidence : float, optional
        Confidence of each bound from rows; 0.95 by default.
    time_limit : float, optional
        Seconds for the programs together; what they have proven by then counts, and
        so it does if Ctrl-C ends them.
    separable : bool, default=False
        Whether to look into γ = θ, see `renyi.separable`.
    progress : callable, optional
        Called during the search for the exact worst case, see `renyi.worst_case`.
    threshold : float, default=0.0
        Of a model made elsewhere, or a table of points: the score or total above which
        it answers the second of two classes.

    Returns
    -------
    Certificate

    See Also
    --------
    Certificate : The figures, and how to read them.
    worst_case : The population with the largest error of a model.
    minimax : The smallest guarantee of any rule.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    >>> later = renyi.Marginals.from_data(X[300:], y[300:])
    >>> round(renyi.certify(clf, later).bounds["sharp"], 3)
    0.11

    >>> print(renyi.certify(clf, X[300:], y[300:], confidence=0.9))
      Observed error                      6.7 %
      Error at most, on this population  10.4 %   <- quote this
        always answering 'democrat'      40.7 %
      The bound has 90 % confidence. It is valid if the 135 rows behind it are
      independent and were not used in training.
    <BLANKLINE>
    Guarantee: if the population changes but keeps its pair counts, at most 40.0 %
      (90 % confidence).
    """
    check_choice("level", level, LEVELS)
    if not isinstance(m, Marginals):
        if y is None:
            if isinstance(model, Marginals):
                scorer_of(model)  # an error that names the first argument
            raise ValueError(
                "The second argument of certify must be marginals, or rows with their "
                f"classes y: it is a {type(m).__name__}, and y is missing."
            )
        scorer, model = _scorer_of_rows(model, m, y, threshold)
        programs = "" if level == "closed" else f"level={level!r}"
        not_of_rows = "separable=True" if separable else programs
        return _certify_rows(model, scorer, m, y, confidence, not_of_rows)
    card, model = _of_any(model, m, threshold)
    private = isinstance(m.uncertainty, Noise)
    if y is not None or (confidence is not None and not private):
        raise ValueError(
            f"{'confidence' if y is None else 'y'} is for held-out rows, but marginals "
            "were given: leave it out, or pass the rows instead of marginals."
        )
    check_time_limit(time_limit)
    _check_level(m, level)
    current, m = _closed(model, card, m, time_limit, confidence)
    deadline = Deadline(time_limit)
    if is_interval(m) and level == "exact":
        return _with_worst_of_intervals(current, model, m, deadline.limit)
    if not m.is_exact:  # all other levels are one
        return current
    if level != "closed":
        share = 1.0 if level == "lp" else _SHARE
        try:
            current, worst = _with_worst(current, model, m, _part(deadline, share))
            if level == "exact" and not worst.interrupted:
                limit = _part(deadline, 1.0)
                current, _ = _with_worst(current, model, m, limit, worst, progress)
        except KeyboardInterrupt:  # what was known before counts
            current = replace(current, steps=_with_last(current, level))
    if separable:
        from renyi.robust.brier_risk import separable as test

        limit = _part(deadline, 1.0)
        current = replace(current, separable=test(m, time_limit=limit).answer)
    return current


def bound_report(
    model: object,
    m: Marginals,
    *,
    level: str = "exact",
    time_limit: float | None = None,
    progress: Report | None = None,
) -> BoundReport:
    """Bound the error of a model up to a level, and the guarantees of any rule.

    Half of the time that the cheap bounds leave is for e*; the worst case of the model
    gets the rest, and what e* did not need. Ctrl-C ends the search under way and keeps
    what was reached. `progress` is called with the name of a step, and None when it
    begins or a `Progress` after each round.
    """
    check_choice("level", level, LEVELS[1:])
    check_time_limit(time_limit)
    deadline = Deadline(time_limit)
    _check_level(m, level)
    notify = progress or (lambda name, state: None)
    card, model = _of_any(model, m)
    current, part = _closed(model, card, m, time_limit)
    any_rule = simple_rules(part)
    every = len(part.feature_names) == len(m.feature_names)
    if is_interval(part):
        if level == "exact":
            current = _with_worst_of_intervals(current, model, part, deadline.limit)
            any_rule.append(_least_guarantee(part, deadline.limit))
        return BoundReport(current, current.steps, tuple(any_rule), every, None)
    best = None
    expected = [PROGRAM] if level == "lp" else [PROGRAM, MINIMAX]
    try:
        notify(PROGRAM, None)
        best = _add_minimax(any_rule, part, "lp", _part(deadline, 1 / 3), None)
        current, worst = _with_worst(current, model, part, _part(deadline, 1 / 3))
        if level == "exact" and not worst.interrupted:  # e* first, often the quicker
            notify(MINIMAX, None)
            on_round = partial(notify, MINIMAX)
            best = _add_minimax(
                any_rule, part, "exact", _part(deadline, 1 / 2), on_round
            )
            notify(EXACT, None)
            limit = _part(deadline, 1.0)
            on_round = partial(notify, EXACT)
            current, _ = _with_worst(current, model, part, limit, worst, on_round)
    except KeyboardInterrupt:
        pass
    alone = any_rule[1].upper
    for name in expected[len(any_rule) - 2 :]:
        any_rule.append(Step(name, alone, status="stopped"))
    steps = _with_last(current, level)
    return BoundReport(current, steps, tuple(any_rule), every, best)


def _check_level(m: Marginals, level: str) -> None:
    """Raise an error if a level needs exact counts, and these are not."""
    if level != "closed" and isinstance(m.uncertainty, Noise):
        raise InputError(
            "Counts with noise have no program to solve, only a closed form: leave "
            "{level} out.",
            level=level,
        )


def _with_last(known: Certificate, level: str) -> tuple[Step, ...]:
    """Return the steps up to that of a level, as stopped if it was not reached."""
    steps = known.steps
    last = PROGRAM if level == "lp" else EXACT
    if steps[-1].name == last:
        return steps
    return (*steps, Step(last, known.bounds[known.rule], status="stopped"))


def _part(deadline: Deadline, share: float) -> float | None:
    """Return a share of the seconds that are left, some at least; None for no limit."""
    limit = deadline.limit
    return None if limit is None else share * max(_SHORTEST, limit)


def _of_any(
    model: object, m: Marginals, threshold: float = 0.0
) -> tuple[Scorecard, object]:
    """Return the scorecard of a model, which replaces one that is made elsewhere."""
    card = scorecard_of(model, m, threshold=threshold)
    own = hasattr(model, "scorecard_") or isinstance(model, Scorecard)
    return card, model if own else card


# ---- steps of a model


def _closed(
    model: object,
    card: Scorecard,
    m: Marginals,
    time_limit: float | None = None,
    confidence: float | None = None,
) -> tuple[Certificate, Marginals]:
    """Return what needs no search, and the marginals of the model's features."""
    match = card.match(m)
    whole = m
    m = match.marginals
    check_possible(m)
    rule = getattr(model, "rule", "map")
    if not m.is_exact:
        limits = (time_limit, confidence)
        return uncertain_certificate(card, match, rule, (), *limits, whole), m
    own: Certificate | None = getattr(model, "certificate_", None)
    trained = getattr(model, "data_digest_", None)
    notes: tuple[Warned, ...] = ()
    if own is not None and "class-weight" in own.warning_codes:
        notes = (("class-weight", text.CLASS_WEIGHT),)
    current = certificate(closed_form(card, match), card, rule, notes=notes, timed=True)
    if own is not None and trained is not None and trained.matches(m.digest):
        # These marginals decide whether bounds use pairs within the classes.
        warned = [each for each in _warned(own) if each[0] != CONDITIONAL]
        warned += [each for each in _warned(current) if each[0] == CONDITIONAL]
        current = replace(
            current,
            loo_risk=own.loo_risk,
            loo_error=own.loo_error,
            loo_rows=own.loo_rows,
            one_feature=own.one_feature,
            **warning_fields(warned),
        )
    return current, m


def _with_worst(
    known: Certificate,
    model: object,
    m: Marginals,
    time_limit: float | None,
    start: WorstCase | None = None,
    progress: Callable[[Any], None] | None = None,
) -> tuple[Certificate, WorstCase]:
    """Add the linear program as a step, or with its start the exact worst case."""
    from renyi.robust.worst import worst_case

    if start is None:
        worst = worst_case(model, m, method="lp", time_limit=time_limit)
        name = PROGRAM
        lower = None
        status: Status = "stopped" if worst.stopped else "bounded"
    else:
        worst = worst_case(
            model, m, time_limit=time_limit, progress=progress, start=start
        )
        name = EXACT
        lower = None if worst.distribution is None else worst.lower
        status = exact_status(worst.upper, lower)
    step = Step(name, worst.upper, lower, worst.seconds, status)
    bounds = {**known.bounds, known.rule: min(known.bounds[known.rule], step.upper)}
    return replace(known, steps=(*known.steps, step), bounds=bounds), worst


def _with_worst_of_intervals(
    known: Certificate, model: object, m: Marginals, time_limit: float | None
) -> Certificate:
    """Add the exact worst case over all counts in the intervals as a step."""
    from renyi.robust.worst import worst_case

    worst = worst_case(model, m, time_limit=time_limit)
    status: Status = "stopped" if worst.stopped else "bounded"
    step = Step(EXACT, worst.upper, None, worst.seconds, status)
    bounds = {**known.bounds, known.rule: min(known.bounds[known.rule], step.upper)}
    return replace(known, steps=(*known.steps, step), bounds=bounds)


# ---- what any rule could guarantee


def simple_rules(m: Marginals) -> list[Step]:
    """Return the rules of one column or none, whose errors are known exactly."""
    if is_interval(m):
        from renyi.robust.interval_bounds import interval_rules

        return interval_rules(m)
    always = majority_of(m.classes, m.class_probabilities)
    alone = best_feature(m.F, m.encoder.columns)
    return [
        Step(f"always {label_text(always[0])!r}", always[1], seconds=0.0),
        Step(f"by {alone[0]!r} alone", alone[1], seconds=0.0),
    ]


def _least_guarantee(m: Marginals, time_limit: float | None) -> Step:
    """Return the smallest guarantee of any rule over all counts in the intervals."""
    from renyi.robust.worst import least_guarantee

    deadline = Deadline(time_limit)
    lower, upper = least_guarantee(m, time_limit)
    status = exact_status(upper, lower)
    return Step(MINIMAX, min(1.0, upper), lower, deadline.spent, status)


def _add_minimax(
    known: list[Step],
    m: Marginals,
    method: str,
    time_limit: float | None,
    progress: Callable[[Any], None] | None,
) -> MinimaxResult:
    """Add the guarantee of a minimax program's rule; raise an interrupt again."""
    from renyi.robust.minimax_problem import minimax

    result = minimax(m, method=method, time_limit=time_limit, progress=progress)
    lower = result.lower if result.worst_distribution is not None else None
    name = result.origin if method == "lp" else MINIMAX
    known.append(Step(name, result.upper, lower, result.seconds, result.status))
    if result.interrupted:
        raise KeyboardInterrupt
    return result


# ---- from held-out rows


def _scorer_of_rows(
    model: object, X: object, y: ColumnLike, threshold: float
) -> tuple[Scorer, object]:
    """Return what scores rows, which replaces a model that is made elsewhere.

    The scores that such a model gives to the rows must be those of its scorecard.
    """
    if isinstance(model, Scorer) or hasattr(model, "kernel_"):
        return scorer_of(model, threshold), model
    if hasattr(model, "scorecard_"):
        return scorecard_of(model, threshold=threshold), model
    from renyi.additive_models import check_rows
    from renyi.point_tables import as_table

    table = as_table(model)
    if table is None:
        card = scorecard_of(model, threshold=threshold)
        check_rows(model, card, X, threshold)
        return card, card
    labels = column_rules.class_array(y)
    classes = column_rules.distinct(labels)[0].tolist()
    card = scorecard_of(table, threshold=threshold, classes=classes)
    return card, card


def _certify_rows(
    model: object,
    card: Scorer,
    X: object,
    y: object,
    confidence: float | None,
    not_of_rows: str,
) -> Certificate:
    """Return what rows prove that the model has not seen."""
    if not_of_rows:
        raise ValueError(
            f"{not_of_rows} needs marginals, but rows were given: build marginals with "
            "Marginals.from_data(X, y)."
        )
    return certify_heldout(model, heldout.read_rows(card, X, y), confidence)


def certify_heldout(
    model: object, rows: heldout.HeldoutRows, confidence: float | None = None
) -> Certificate:
    """Return what held-out rows, as a model sees them, prove of it."""
    card = scorer_of(model)
    mapped = card.mapped
    own = getattr(model, "classifier_", model)  # by which it answers
    rule = getattr(own, "rule", "map")
    seed = getattr(own, "random_state", None)
    confidence = 0.95 if confidence is None else confidence
    moved = rows.t
    if mapped is not card:
        moved = mapped.estimates(rows.codes)
    t = moved if rule == "map" else rows.t
    answers = rules.answers(t, rows.codes, rule, seed)
    if isinstance(card, Scorecard):
        bounds = heldout.heldout_bounds(
            rows.t, rows.y, answers, *heldout.row_points(card), confidence
        )
    else:
        bounds = heldout.sampled_bounds(rows.y, answers, confidence)
    if isinstance(mapped, Scorecard) and mapped is not card:
        points = heldout.row_points(mapped)
        bound = heldout.heldout_map(moved, rows.y, *points, confidence)
        bounds = bounds._replace(bounds={**bounds.bounds, "map": bound})
    suspect = _has_training_counts(model, card, rows)
    notes: tuple[Warned, ...] = (("training-rows", text.TRAINING_ROWS),) * suspect
    if rows.unknown:
        count = int((rows.y == heldout.UNKNOWN).sum())
        sentence = text.unknown_classes(count, len(rows.y), rows.unknown)
        notes = (*notes, ("unknown-class", sentence))
    known = rows.y[rows.y != heldout.UNKNOWN]
    counts = np.bincount(known, minlength=card.n_classes)
    majority = majority_of(card.classes, counts / len(rows.y))
    return of_unseen_rows(
        bounds, card, rule, len(rows.y), "heldout", confidence, majority, notes
    )


def of_unseen_rows(
    bounds: heldout.HeldoutBounds,
    card: Scorer,
    rule: str,
    n: float,
    basis: Basis,
    confidence: float,
    majority: tuple[Any, float] | None,
    notes: tuple[Warned, ...] = (),
) -> Certificate:
    """Certificate of a model from n rows that were not used to train it.

    `majority` is the most frequent class of these rows, and the share of the others.
    """
    known = bounds._asdict()
    if isinstance(card, Scorecard) and bounds.gamma is not None:
        if not card.of_estimates:
            notes = (*notes, ("scale-free", text.SCALE_FREE))
        known |= scale_free(bounds.gamma, bounds.bounds, card)
    return Certificate(
        **known,
        majority=majority,
        one_feature=None,
        loo_risk=None,
        loo_error=None,
        rule=rule,
        n=n,
        n_indicators=len(card.counts),
        order=card.order,
        interactions=_pair_count(card),
        basis=basis,
        confidence=confidence,
        **warning_fields(notes),
    )


def _has_training_counts(
    model: object, card: Scorer, rows: heldout.HeldoutRows
) -> bool:
    """Whether the rows have the counts of the training rows.

    Few rows of another sample may have them by chance, so this is not a proof. Without
    a digest of the training data, the counts of each category are all there is.
    """
    columns = card.encoder.columns
    if rows.unknown or (rows.codes >= columns.sizes[:, None]).any():
        return False
    counts = class_label_counts(rows.codes, columns.sizes, rows.y, card.n_classes)
    trained = getattr(model, "data_digest_", None)
    if trained is None:
        return bool(np.array_equal(counts.sum(axis=1), card.counts))
    return are_counts_of(trained, card, counts, len(rows.y))


def are_counts_of(
    trained: DataDigest, card: Scorer, counts: NDArray[np.int64], n: int
) -> bool:
    """Whether n rows with these counts by class have the digest of the training."""
    columns = card.encoder.columns
    return trained.matches(class_digest(columns, card.classes, counts, float(n)))
