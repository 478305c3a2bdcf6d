"""The error table: what is known of a model's error, put together once.

One row is one figure: its name, what kind of knowledge it is, the figure itself or
between which it lies, whom it covers and how certain it is. Commands, the report, the
comparison and the plots read these rows and choose the words around them.

=========  ===========================================================================
estimate   leave-one-out, or the share of errors on rows that were not used in training
bound      from such rows, with its confidence
guarantee  holds for every population with the same pair counts
baseline   always the most frequent class, or the best single column
=========  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from renyi.encoding.columns import label_text
from renyi.formatting import at_least, at_most, chosen_percent, percent
from renyi.rules import RULES

if TYPE_CHECKING:
    from renyi.certificates.record import BoundReport, Certificate, Step

Kind = Literal["estimate", "bound", "guarantee", "baseline"]

# Names of rows; a guarantee has the name of the step that proved it.
LEAVE_ONE_OUT = "leave-one-out"
HELDOUT = "held-out rows"
HALVES = "halves"
ALWAYS = "always"
SINGLE = "best single column"

ANY_RULE = "any rule"  # whom a row is about, if not one of `RULES`

PROVED = "proved"
ESTIMATED = "an estimate"
COUNTED = "known exactly"

NEW_ROWS = "new rows like those in training"
SAMPLED = "the population that the rows come from"
TRAINING_ROWS = "the rows counted"


@dataclass(frozen=True)
class ErrorRow:
    """One figure about the error of a model, or of what it is compared with.

    Either `value` is the error, or `high` bounds it from above. `low` is an error that
    some covered population attains, where one was found.
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

    @property
    def shown(self) -> str:
        """The figures as text; bounds are rounded outwards."""
        if self.value is not None:
            return percent(self.value)
        assert self.high is not None
        upper = at_most(self.high, 1)
        if self.low is None:
            return f"at most {upper}"
        return f"{at_least(self.low, 1)} to {upper}"


@dataclass(frozen=True)
class ErrorTable:
    """All rows, from the estimates to the baselines, and those to name first."""

    rows: tuple[ErrorRow, ...]

    def of_kind(self, kind: Kind) -> list[ErrorRow]:
        """Return the rows of one kind."""
        return [row for row in self.rows if row.kind == kind]

    def named(self, name: str) -> ErrorRow | None:
        """Return the row of a name, or None."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def estimate(self) -> ErrorRow | None:
        """The error to expect, from held-out rows if there are any."""
        estimates = self.of_kind("estimate")
        return estimates[-1] if estimates else None

    @property
    def bound(self) -> ErrorRow | None:
        """The error at most on the population sampled, likewise."""
        bounds = self.of_kind("bound")
        return bounds[-1] if bounds else None

    @property
    def always(self) -> ErrorRow | None:
        """The error of always answering the most frequent class."""
        return self.named(ALWAYS)


def pairs_text(c: Certificate, single: str = "pairs") -> str:
    """Return which pair counts a certificate is about.

    Bounds of two orders must not look alike. Bounds that use pairs within each class
    hold for fewer populations than those of pairs alone.
    """
    counted = single if c.order == 1 else f"pairs of features of {c.order} columns"
    if "class-conditional" not in c.warning_codes:
        return counted
    return f"{counted or 'pairs'} within each class"


def confidence_text(c: Certificate) -> str:
    """Return how certain the bounds of a certificate are."""
    return f"confidence {chosen_percent(c.confidence or 0)}"


def error_table(
    own: Certificate,
    *,
    counted: Certificate | None = None,
    unseen: Certificate | None = None,
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
        Of rows that the model has not seen.
    bounds : BoundReport, optional
        What a search found of this model and of any rule; `counted` is then its own.
    """
    if bounds is not None:
        counted = bounds.certificate
    elif counted is None and own.basis == "marginals":
        counted = own
    rows = [*_estimates(own)]
    for c in (own, unseen):
        if c is not None:
            rows += _unseen_rows(c)
    if counted is not None:
        rows += _guarantees(counted, bounds)
        rows += baselines(counted)
    return ErrorTable(tuple(rows))


def _estimates(c: Certificate) -> Iterator[ErrorRow]:
    """Yield the leave-one-out estimate, which is that of the rule map."""
    if c.loo_error is not None:
        yield ErrorRow(
            LEAVE_ONE_OUT,
            "estimate",
            NEW_ROWS,
            ESTIMATED,
            value=c.loo_error,
            about="map",
        )


def _unseen_rows(c: Certificate) -> Iterator[ErrorRow]:
    """Yield what rows show that the model was not trained on."""
    if c.sampled_error is None:
        return
    name = HALVES if c.basis == "crossfit" else HELDOUT
    certainty = confidence_text(c)
    if c.observed_error is not None:
        yield ErrorRow(
            name,
            "estimate",
            SAMPLED,
            ESTIMATED,
            value=c.observed_error,
            about=c.rule,
            n=c.n,
        )
    yield ErrorRow(
        name, "bound", SAMPLED, certainty, high=c.sampled_error, about=c.rule
    )
    covers = f"every population with its {pairs_text(c)}"
    for rule in _own_rule_first(c):
        high = c.bounds[rule]
        yield ErrorRow(name, "guarantee", covers, certainty, high=high, about=rule)


def _own_rule_first(c: Certificate) -> list[str]:
    return [c.rule, *(rule for rule in RULES if rule != c.rule)]


def _guarantees(c: Certificate, bounds: BoundReport | None) -> Iterator[ErrorRow]:
    """Yield what is proved for every population with the pair counts."""
    covers = f"every population with the same {pairs_text(c)}"
    steps = c.steps if bounds is None else bounds.model
    for step in steps:
        yield _guarantee(step, covers, c.rule, c.doubtful)
    own, *others = _own_rule_first(c)
    if not steps:
        yield ErrorRow(
            "closed form",
            "guarantee",
            covers,
            PROVED,
            high=c.bounds[own],
            about=own,
            doubtful=c.doubtful,
        )
    for rule in others:
        yield ErrorRow(
            f"rule {rule}",
            "guarantee",
            covers,
            PROVED,
            high=c.bounds[rule],
            about=rule,
            doubtful=c.doubtful,
        )
    if bounds is not None:
        for step in bounds.any_rule[2:]:  # the first two are the baselines
            yield _guarantee(step, covers, ANY_RULE, c.doubtful)


def _guarantee(step: Step, covers: str, about: str, doubtful: bool) -> ErrorRow:
    """Return the row of one step of a search."""
    return ErrorRow(
        step.name,
        "guarantee",
        covers,
        PROVED,
        low=step.lower,
        high=step.upper,
        about=about,
        stopped=not step.finished,
        doubtful=doubtful,
    )


def baselines(c: Certificate) -> Iterator[ErrorRow]:
    """Yield the errors of rules that look at one column or none."""
    if c.majority is None or c.one_feature is None:
        return
    for name, (about, error) in ((ALWAYS, c.majority), (SINGLE, c.one_feature)):
        yield baseline(name, label_text(about), error)


def baseline(name: str, about: str, error: float) -> ErrorRow:
    """Return the row of a rule to compare a model with."""
    return ErrorRow(name, "baseline", TRAINING_ROWS, COUNTED, value=error, about=about)
