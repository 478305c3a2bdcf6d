"""Certificates in sentences: what is covered first, then the bounds.

A bound that says little about new rows does not open the text: the leave-one-out
estimate does, and the reasons follow. Commands show it only where it is all that was
asked for (``minimax``, ``certify --level``, ``--prevalence``), after `ALONE`; where it
would stand beside other results (``fit``, ``certify``, ``select``, ``hgr``) they say
why it is not shown, and ``--json`` has it with ``doubtful``.

A bound from unseen rows opens with its confidence and with the populations it covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from renyi.certificates.error_table import (
    SINGLE,
    ErrorRow,
    error_table,
    pairs_text,
)
from renyi.encoding.rows import has_few_rows
from renyi.formatting import (
    at_least,
    at_most,
    capitalised,
    chosen_percent,
    cut,
    number_of,
    number_of_rows,
    percent,
    printable,
    rounded_down,
    wrapped,
)
from renyi.limits import CLOSED_GAP
from renyi.rules import RULES

if TYPE_CHECKING:
    from renyi.certificates.record import BoundReport, Certificate, Step

_LEAST = 1e-4  # a lower bound that is shown as 0.01 %

ALONE = "For these rows only:"
TIES = "An exact worst case counts ties of the largest scores as errors."

# ---- warnings

CLASS_WEIGHT = (
    "the classes were weighted in training; the certificate is for the unweighted "
    "marginals."
)
CLASS_PAIRS = (
    "the bounds are for populations that also have these pairs of columns within each "
    "class."
)
SELECTED = (
    "the features were selected on the same rows, which the estimate for new rows does "
    "not account for: expect more errors, especially if there were many features to "
    "choose from."
)
TRAINING_ROWS = (
    "the rows have the same counts as the training rows: if they are the same rows, "
    "these bounds are not valid."
)

CONTAINED = (
    "no count of one half is larger than that of the other: if the rows of one half "
    "are also in the other, the bounds are not valid."
)


def unknown_classes(count: int, n: int, labels: Sequence[str]) -> str:
    """Say how many of n rows have classes that the model does not know."""
    first = ", ".join(repr(cut(label, 24)) for label in labels[:3])
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    rows = "row has" if count == 1 else "rows have"
    count_as = "it counts as an error" if count == 1 else "they count as errors"
    return (
        f"{count:,} of the {n:,} {rows} a class that the model does not know "
        f"({first}{more}): {count_as}."
    )


def shared_bins(name: str) -> str:
    """Say that bins must not come from rows that judge."""
    return (
        f"both halves bin {name!r} at the same edges: if these were computed from the "
        "rows of either half, the bounds do not hold. Edges from a third file are "
        "safe: count both halves with its encoder."
    )


def few_rows(n: float, n_indicators: int) -> str:
    """Say that a bound says little about the population, if so; else nothing."""
    if not has_few_rows(n, n_indicators):
        return ""
    return (
        f"there are {n_indicators} categories and only {number_of_rows(n)}: the "
        "bound holds for the marginals of these rows and says little about the "
        "population they come from."
    )


def optimistic(gamma: float, loo_risk: float) -> str:
    """Say that new rows will have more errors than the bound makes believe."""
    times = f"{loo_risk / gamma:.1f} times" if gamma > 1e-6 else "far above"
    return (
        f"the risk estimated for new rows, {loo_risk:.4f}, is {times} gamma: expect "
        "the estimate, not the bound."
    )


def sample_weight(n_rows: int, total: float) -> str:
    """Say that weights stand for many more rows than there are."""
    return (
        f"the {n_rows:,} rows weigh {total:,.0f} and count as that many: divide survey "
        "weights by their mean first, otherwise the estimate and the bound look better "
        "than they are."
    )


# ---- a certificate


def certificate_text(c: Certificate) -> str:
    """Return a certificate in sentences."""
    if c.basis == "heldout":
        return "\n".join(_of_heldout_rows(c))
    if c.basis == "crossfit":
        return "\n".join(_of_halves(c))
    if c.doubtful:
        head = [_estimate(c), *(f"Warning: {each}" for each in c.warnings), ""]
        return "\n".join([*head, ALONE, *_of_marginals(c)])
    lines = [_covered(c), *_of_marginals(c), _estimate(c)]
    return "\n".join([*lines, *(f"Note: {each}" for each in c.warnings)])


def _covered(c: Certificate) -> str:
    """Say which populations the bounds of marginals are for."""
    counted = pairs_text(c, "")
    which = f", {counted}" if counted else ""
    size = f"({number_of_rows(c.n)}, {c.n_indicators:,} categories{which})"
    return wrapped(f"On every population with these marginals {size}:")


def _of_marginals(c: Certificate) -> list[str]:
    lines = rule_lines(c)
    if len(c.steps) > 1:
        lines.append(f"Bounds for rule {c.rule}, from the cheap to the exact:")
        lines += map(_step_line, c.steps)
        lines += ties_lines(c.rule, c.steps)
    lines += ranking_lines(c)
    if c.separable is not None:
        lines.append(
            f"These marginals are {'' if c.separable else 'not '}separable: additive "
            f"scores {'reach' if c.separable else 'miss'} the minimax Brier risk."
        )
    baselines = error_table(c).of_kind("baseline")
    if baselines:
        lines.append("For comparison, errors known exactly:")
        lines += map(_baseline_line, baselines)
    return lines


def _baseline_line(row: ErrorRow) -> str:
    name = f"always {row.about!r}"
    if row.name == SINGLE:
        name = f"by {cut(row.about, 29)!r} alone"
    return f"  {name:<40} {row.shown:>6}"


def rule_lines(c: Certificate) -> list[str]:
    """Return a line for the bound of each rule."""
    return [
        f"  rule {rule:<6} errs at most {at_most(c.bounds[rule], 1):>6}"
        + ("  <- this model" if rule == c.rule else "")
        for rule in RULES
    ]


def ranking_lines(c: Certificate) -> list[str]:
    """Return what holds whatever the shares of two classes, where that says much."""
    if c.auc is None or c.any_prevalence is None or c.auc <= 0.5:
        return []
    area = f"{rounded_down(c.auc, 3):.3f}"
    error = at_most(c.any_prevalence, 1)
    return [f"At any prevalence: AUC at least {area}, rule map errs at most {error}."]


def ties_lines(rule: str, steps: Iterable[Step]) -> list[str]:
    """Say what the lower end of a worst case counts, where one is shown."""
    shown = rule == "map" and any(step.lower is not None for step in steps)
    return [TIES] if shown else []


def _step_line(step: Step) -> str:
    known = "" if step.lower is None else f"at least {at_least(step.lower):>8}"
    seconds = "" if step.seconds is None else f"{step.seconds:8.1f} s"
    mark = "" if step.finished else "  stopped"
    line = f"  {step.name:<18} at most {at_most(step.upper):>8}  {known:<17}"
    return f"{line}{seconds}{mark}".rstrip()


def _estimate(c: Certificate) -> str:
    if c.loo_risk is None:
        return "No estimate for new rows: test the model on unseen rows."
    numbers = f"risk {c.loo_risk:.4f}, gamma {c.gamma:.4f}"
    if c.loo_error is None:
        return f"Estimate for new rows, by generalised cross-validation: {numbers}."
    return f"{_leave_one_out(c.loo_error)} ({numbers})."


def _leave_one_out(error: float) -> str:
    return f"Leave-one-out estimate for new rows: {percent(error)} errors"


def _of_heldout_rows(c: Certificate) -> list[str]:
    assert c.confidence is not None
    lines = [
        f"With confidence {chosen_percent(c.confidence)}, on every population with the "
        "marginals of the one",
        f"these {c.n:,.10g} rows were drawn from:",
        *rule_lines(c),
    ]
    if c.sampled_error is not None and c.observed_error is not None:
        lines.append(
            f"On the sampled population: at most {at_most(c.sampled_error, 1)} "
            f"(Clopper–Pearson; {percent(c.observed_error)} observed)."
        )
    lines.append(
        "Each bound holds by itself; the rows must not have been used in training."
    )
    if "training-rows" in c.warning_codes:
        return [*(f"Warning: {each}" for each in c.warnings), "", *lines]
    return [*lines, *(f"Note: {each}" for each in c.warnings)]


def _of_halves(c: Certificate) -> list[str]:
    rows = f"these {number_of(c.n, 'row')} were drawn from"
    if c.observed_error is not None:
        rows += f" ({percent(c.observed_error)} errors on rows not used in training)"
    head = f"On every population with the pairs of the one {rows}:"
    end = "The rows must be independent of each other, and split once, at random."
    if c.observed_error is None:  # of counts
        end = (
            "The rows must be independent of each other and drawn from one population."
        )
    notes = (f"Note: {each}" for each in c.warnings)
    lines = [*rule_lines(c), end, *map(wrapped, notes)]
    return [wrapped(population_sentence(c)), wrapped(head), *lines]


def population_sentence(c: Certificate) -> str:
    """Say what holds of the model on the population of its rows, and how surely."""
    assert c.confidence is not None
    assert c.sampled_error is not None
    sure = f"With confidence {chosen_percent(c.confidence)}"
    bound = c.bounds[c.rule]
    pairs = pairs_text(c, "pairs of columns")
    here = "on the population that the rows were drawn from"
    if c.sampled_error == bound:
        where = f"{here}, and on every population with its {pairs}"
        return f"{sure}, this model errs at most {at_most(bound, 1)} {where}."
    return (
        f"{sure} in each of two bounds, this model errs at most "
        f"{at_most(c.sampled_error, 1)} {here}, and at most {at_most(bound, 1)} on "
        f"every population with its {pairs}."
    )


# ---- a model beside what any rule could promise


def report_text(report: BoundReport) -> str:
    """Return a report as tables, with what it rests on and comes to."""
    c = report.certificate
    if c.doubtful:
        reasons = (wrapped(text, "  - ", "    ") for text in c.warnings)
        head = [wrapped(doubts(c)), *reasons, "", ALONE]
    else:
        head = [_covered(c)]
    notes = () if c.doubtful else c.warnings
    return "\n".join(
        [
            *head,
            "",
            *table(f"Worst error of this model (rule {c.rule})", report.model),
            *(f"  {line}" for line in ties_lines(c.rule, report.model)),
            "",
            *table("What any rule could promise", report.any_rule),
            "",
            wrapped(report.sentence),
            *(wrapped(f"Note: {text}") for text in notes),
        ]
    )


def doubts(c: Certificate) -> str:
    """Return the estimate that counts where bounds say little; reasons follow."""
    reason = "The bounds below are about these rows only, because"
    if c.loo_error is None:
        return reason
    return f"{_leave_one_out(c.loo_error)}. {c.trust} {reason}"


def report_sentence(report: BoundReport) -> str:
    """Return what a report comes to, in a sentence."""
    where = "these marginals"
    if report.certificate.doubtful:
        where = f"exactly the marginals of these {number_of_rows(report.certificate.n)}"
    whose = "no model" if report.all_columns else "no model of the same columns"
    return bound_sentence(
        "this model", where, report.upper, report.lower, report.promise, whose
    )


def bound_sentence(
    subject: str,
    where: str,
    upper: float,
    lower: float,
    promise: float,
    whose: str = "no model",
) -> str:
    """Return what bounds come to: what is promised, and what cannot be.

    `upper` bounds the error of the subject, no rule can promise less than `lower`, and
    some rule is known to promise `promise`; `whose` names the rules that cannot.
    """
    text = (
        f"{capitalised(subject)} errs at most {at_most(upper)} on any "
        f"population with {where}"
    )
    if lower >= _LEAST:
        text = f"{text}; {whose} can promise less than {at_least(lower)}."
        if promise - lower <= CLOSED_GAP < upper - promise:
            text += f" The best possible promise is at most {at_most(promise)}."
        return text
    if promise <= CLOSED_GAP:
        return f"{text}; some rule can promise an error close to zero."
    if promise < upper - CLOSED_GAP:
        text += f"; another rule promises {at_most(promise)}"
    return f"{text}. The least that any rule can promise is not known yet."


def table(title: str, steps: Iterable[Step]) -> list[str]:
    """Return bounds as lines of a table."""
    lines = [f"{title:<39} {'at most':>8} {'at least':>10} {'time':>11}"]
    for step in steps:
        name = cut(printable(step.name), 37)
        lower = "" if step.lower is None else at_least(step.lower)
        mark = "" if step.finished else "  stopped"
        line = f"  {name:<37} {at_most(step.upper):>8} {lower:>10} "
        lines.append(f"{line}{step.seconds or 0.0:>9.1f} s{mark}")
    return lines
