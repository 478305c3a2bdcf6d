"""The error table: what is known of a model's error, put together once.

One row is one figure: its name, what kind of knowledge it is, the figure itself or
between which it lies, whom it covers and how certain it is. Commands, the report, the
comparison and the plots read these rows and choose the words around them.

=========  ===========================================================================
estimate   leave-one-out, or the share of errors on rows that were not used in training,
           of the rule that the model uses, with a 95 % interval
bound      from such rows, with its confidence
guarantee  holds for every population with the same pair counts
baseline   always the most frequent class, or the best single column by leave-one-out
=========  ===========================================================================

Three of them come first everywhere: `ErrorTable.estimate`, `ErrorTable.bound` and
`ErrorTable.guarantee`, the last only if it is below `ErrorTable.always`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from renyi.certificates.left_out import error_interval
from renyi.encoding.columns import label_text
from renyi.formatting import (
    at_least,
    at_most,
    chosen_percent,
    interval_text,
    number_of,
    percent,
)
from renyi.rules import RULES

if TYPE_CHECKING:
    from renyi.certificates.record import BoundReport, Certificate, Step

Kind = Literal["estimate", "bound", "guarantee", "baseline"]
Verdict = Literal["better", "barely", "no better"]

# Names of rows.
LEAVE_ONE_OUT = "leave-one-out"
HELDOUT = "held-out rows"
HALVES = "halves"
ALWAYS = "always"
SINGLE = "best single column"

# Steps of a search: a guarantee has the name of the step that proved it.
CLOSED = "closed form"
CONDITIONAL: Final = "class-conditional"
PROGRAM = "linear program"
EXACT = "exact worst case"
BOX = "box of the intervals"
NOISE = "bound of the noise"

ANY_RULE = "any rule"  # whom a row is about, if not one of `RULES`

PROVED = "proved"
ESTIMATED = "an estimate"
ROUGHLY = "an estimate, from counts that are not exact"
COUNTED = "known exactly"

NEW_ROWS = "new rows like those in training"
SAMPLED = "the population that the rows come from"
TRAINING_ROWS = "the rows counted"


@dataclass(frozen=True)
class ErrorRow:
    """One figure about the error of a model, or of what it is compared with.

    Either `value` is the error, or `high` bounds it from above. Of an estimate, `low`
    and `high` are its 95 % interval. Of a guarantee, `low` is an error that some
    covered population attains, where one was found.
    """

    name: str
    kind: Kind
    covers: str
    certainty: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    about: str = ""  # the rule; of a baseline the class or column
    stopped: bool = False  # by a time limit, before all was said
    doubtful: bool = False  # says little about new rows
    n: float | None = None  # rows that it was observed on
    confidence: float | None = None  # of a bound from rows

    @property
    def shown(self) -> str:
        """The figures as text; bounds are rounded outwards."""
        if self.value is not None:
            text = "0 %" if self.value == 0 else percent(self.value)
            return f"about {text}" if self.certainty == ROUGHLY else text
        assert self.high is not None
        upper = at_most(self.high, 1)
        if self.low is None:
            return f"at most {upper}"
        return f"{at_least(self.low, 1)} to {upper}"

    @property
    def interval(self) -> str:
        """The 95 % interval of an estimate as text; empty without one."""
        if self.kind != "estimate" or self.low is None or self.high is None:
            return ""
        return f"95 % interval {interval_text(self.low, self.high)}"


def _high(row: ErrorRow) -> float:
    return 1.0 if row.high is None else row.high


@dataclass(frozen=True)
class ErrorTable:
    """All rows, from the estimates to the baselines, and those to name first."""

    rows: tuple[ErrorRow, ...]
    rule: str = "map"  # that the model uses
    undefined: bool = False  # the error of left-out rows, at this penalty

    def of_kind(self, kind: Kind) -> list[ErrorRow]:
        """Return the rows of one kind."""
        return [row for row in self.rows if row.kind == kind]

    def named(self, name: str) -> ErrorRow | None:
        """Return the row of a name, or None."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def estimate(self) -> ErrorRow | None:
        """The error to expect: observed on unseen rows, or by leave-one-out."""
        estimates = self.of_kind("estimate")
        return estimates[-1] if estimates else None

    @property
    def observed(self) -> ErrorRow | None:
        """The error on rows that training held out or that were given for a test."""
        rows = [row for row in self.of_kind("estimate") if row.name == HELDOUT]
        return rows[-1] if rows else None

    @property
    def bound(self) -> ErrorRow | None:
        """The error at most on the population sampled, from unseen rows."""
        bounds = self.of_kind("bound")
        return bounds[-1] if bounds else None

    @property
    def always(self) -> ErrorRow | None:
        """The error of always answering the most frequent class."""
        return self.named(ALWAYS)

    @property
    def single(self) -> ErrorRow | None:
        """The best single column, if it is better than always the same answer."""
        single = self.named(SINGLE)
        if single is None or self.always is None:
            return None
        assert single.value is not None
        assert self.always.value is not None
        return single if single.value < self.always.value else None

    @property
    def least_guarantee(self) -> ErrorRow | None:
        """The smallest guarantee of the model's own rule, useful or not."""
        own = [row for row in self.of_kind("guarantee") if row.about == self.rule]
        return min(own, key=_high, default=None)

    @property
    def guarantee(self) -> ErrorRow | None:
        """The guarantee to show: None unless it is below the baseline."""
        least = self.least_guarantee
        if least is None or least.doubtful or not self.is_below_baseline(least.high):
            return None
        return least

    def is_below_baseline(self, error: float | None) -> bool:
        """Whether an error is known, and below always answering the same class."""
        if error is None:
            return False
        most = 1.0
        if self.always is not None and self.always.value is not None:
            most = self.always.value
        return error < most

    @property
    def verdict(self) -> Verdict | None:
        """How the estimate compares with the baseline; None if one is missing."""
        estimate = self.estimate
        always = self.always
        if estimate is None or always is None or estimate.high is None:
            return None
        assert always.value is not None
        if not self.is_below_baseline(estimate.value):
            return "no better"
        # An interval that ends within a tenth of a per cent touches the baseline.
        return "barely" if estimate.high >= always.value - 0.001 else "better"


def pairs_text(c: Certificate, single: str = "pairs") -> str:
    """Return which pair counts a certificate is about.

    Bounds of two orders must not look alike. Bounds that use pairs within each class
    hold for fewer populations than those of pairs alone.
    """
    counted = single
    if c.interactions is not None:
        chosen = number_of(c.interactions, "pair")
        counted = f"pairs of features (columns and {chosen} of columns)"
    elif c.order > 1:
        counted = f"pairs of features of {c.order} columns"
    if "class-conditional" not in c.warning_codes:
        return counted
    return f"{counted or 'pairs'} within each class"


def counted_text(c: Certificate) -> str:
    """Return what a certificate is from, such as pair counts within each class."""
    if c.order == 1:
        return pairs_text(c, "pair counts")
    return f"counts of {pairs_text(c)}"


def counts_text(c: Certificate) -> str:
    """Return which counts a population must have for the guarantee of counts."""
    counted = counted_text(c)
    if c.basis == "intervals":
        return f"{counted} within the known intervals"
    if c.basis == "noisy":
        return f"the {counted} that were released with noise"
    return f"the same {counted}"


def confidence_text(c: Certificate) -> str:
    """Return how certain the bounds of a certificate are."""
    return f"confidence {chosen_percent(c.confidence or 0)}"


def error_table(
    own: Certificate,
    *,
    counted: Certificate | None = None,
    unseen: Certificate | None = None,
    heldout: Certificate | None = None,
    bounds: BoundReport | None = None,
) -> ErrorTable:
    """Return the error table of a model.

    Parameters
    ----------
    own : Certificate
        The model's own, of its training counts or of two halves of its rows.
    counted : Certificate, optional
        Of pair counts, if not `own`.
    unseen : Certificate, optional
        Of rows that the model has not seen: their share of errors is the estimate.
    heldout : Certificate, optional
        Of rows that training held out. Leave-one-out, which rests on more rows of the
        same source, is still the estimate.
    bounds : BoundReport, optional
        What a search found of this model and of any rule; `counted` is then its own.
    """
    if bounds is not None:
        counted = bounds.certificate
    elif counted is None and not own.from_rows:
        counted = own
    rows = [] if heldout is None else [*_unseen_rows(heldout)]
    rows += _estimates(own)
    for c in (own, unseen):
        if c is not None:
            rows += _unseen_rows(c)
    if counted is not None:
        rows += _guarantees(counted, bounds)
    rows += baselines(unseen or counted or own)  # of the rows behind the estimate
    return ErrorTable(tuple(rows), own.rule, "no-left-out" in own.warning_codes)


def _estimates(c: Certificate) -> Iterator[ErrorRow]:
    """Yield the leave-one-out estimate of the model's rule."""
    if c.loo_error is not None:
        n = c.n if c.loo_rows is None else c.loo_rows
        yield estimate(LEAVE_ONE_OUT, NEW_ROWS, c.loo_error, n, c.rule)


def estimate(
    name: str, covers: str, error: float, n: float | None, rule: str = ""
) -> ErrorRow:
    """Return the row of an error that n rows showed, perhaps with its interval."""
    low, high = (None, None) if n is None else error_interval(error, n)
    return ErrorRow(
        name,
        "estimate",
        covers,
        ESTIMATED,
        value=error,
        low=low,
        high=high,
        about=rule,
        n=n,
    )


def _unseen_rows(c: Certificate) -> Iterator[ErrorRow]:
    """Yield what rows show that the model was not trained on."""
    if c.sampled_error is None:
        return
    name = HALVES if c.basis == "crossfit" else HELDOUT
    certainty = confidence_text(c)
    if c.observed_error is not None:
        yield estimate(name, SAMPLED, c.observed_error, c.n, c.rule)
    yield ErrorRow(
        name,
        "bound",
        SAMPLED,
        certainty,
        high=c.sampled_error,
        about=c.rule,
        n=c.n,
        confidence=c.confidence,
    )
    covers = f"every population with its {pairs_text(c)}"
    for rule in _own_rule_first(c) if c.bounds else ():
        high = c.bounds[rule]
        yield ErrorRow(name, "guarantee", covers, certainty, high=high, about=rule)


def _own_rule_first(c: Certificate) -> list[str]:
    others = [rule for rule in RULES if rule in c.bounds]
    return [c.rule, *(rule for rule in others if rule != c.rule)]


def _guarantees(c: Certificate, bounds: BoundReport | None) -> Iterator[ErrorRow]:
    """Yield what is proved for every population with the pair counts."""
    covers = f"every population with the same {pairs_text(c)}"
    if c.basis != "marginals":
        covers = f"every population with {counts_text(c)}"
    certainty = PROVED if c.confidence is None else confidence_text(c)
    steps = c.steps if bounds is None else bounds.model
    for step in steps:
        yield _guarantee(step, covers, certainty, c.rule, c.doubtful)
    own, *others = _own_rule_first(c)
    if not steps:
        yield ErrorRow(
            CLOSED,
            "guarantee",
            covers,
            certainty,
            high=c.bounds[own],
            about=own,
            doubtful=c.doubtful,
        )
    for rule in others:
        yield ErrorRow(
            f"rule {rule}",
            "guarantee",
            covers,
            certainty,
            high=c.bounds[rule],
            about=rule,
            doubtful=c.doubtful,
        )
    if bounds is not None:
        for step in bounds.any_rule[2:]:  # the first two are the baselines
            yield _guarantee(step, covers, certainty, ANY_RULE, c.doubtful)


def _guarantee(
    step: Step, covers: str, certainty: str, about: str, doubtful: bool
) -> ErrorRow:
    """Return the row of one step of a search."""
    return ErrorRow(
        step.name,
        "guarantee",
        covers,
        certainty,
        low=step.lower,
        high=step.upper,
        about=about,
        stopped=not step.finished,
        doubtful=doubtful,
    )


def baselines(c: Certificate) -> Iterator[ErrorRow]:
    """Yield the errors of rules that look at one column or none."""
    exact = c.basis not in ("intervals", "noisy")
    if c.majority is not None:
        label, error = c.majority
        row = baseline(ALWAYS, label_text(label), error)
        yield row if exact else replace(row, certainty=ROUGHLY)
    if c.one_feature is not None:
        name, error = c.one_feature
        certainty = ESTIMATED if exact else ROUGHLY
        yield ErrorRow(
            SINGLE, "baseline", NEW_ROWS, certainty, value=error, about=label_text(name)
        )


def baseline(name: str, about: str, error: float) -> ErrorRow:
    """Return the row of a rule to compare a model with, by a share of the rows."""
    return ErrorRow(name, "baseline", TRAINING_ROWS, COUNTED, value=error, about=about)
