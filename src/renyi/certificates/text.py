"""Certificates in sentences, and the warnings that they contain.

The three figures of `renyi.certificates.three_lines` come first, details follow. Bounds
that say little about new rows are printed only where nothing else was asked for
(``minimax``, ``certify --level``, ``--prevalence``), after `ALONE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from renyi.certificates.error_table import (
    counted_text,
    counts_text,
    error_table,
    pairs_text,
)
from renyi.certificates.three_lines import EXPECTED, TIES, Advice, three_lines
from renyi.formatting import (
    at_least,
    at_most,
    capitalised,
    chosen_percent,
    cut,
    number_of_rows,
    printable,
    rounded_down,
    wrapped,
)
from renyi.limits import CLOSED_GAP
from renyi.rules import RULES

if TYPE_CHECKING:
    from renyi.certificates.record import BoundReport, Certificate, Step, WarningCode
    from renyi.encoding.columns import Columns

_LEAST = 1e-4  # a lower bound that is shown as 0.01 %

# Of the risk of half the landmarks: with less, more of them would help.
_BETTER = 0.99

ALONE = "For these rows only:"

# ---- warnings

CLASS_WEIGHT = (
    "the classes were weighted in training; the certificate is for the unweighted "
    "marginals."
)
FOLDS = (
    "the error to expect is by ten-fold cross-validation: the calibration, which "
    "decides, was fitted to left-out scores."
)
FOLDS_OF_PAIRS = (
    "the error to expect is by ten-fold cross-validation, with as many pairs of "
    "columns chosen anew in each fold: the same rows chose the pairs."
)
FOLDS_OF_BINS = (
    "the error to expect is by ten-fold cross-validation, with bins merged anew in "
    "each fold: the classes of the same rows merged the bins."
)
MERGED = "the classes of the same rows merged the bins"
OF_MERGED = "The guarantee is for the pair counts of the merged bins."
SLIGHTLY_MORE = (
    "which the estimate for new rows does not account for: expect slightly more errors."
)
MERGED_BINS = f"{MERGED}, {SLIGHTLY_MORE} {OF_MERGED}"
FOLDS_OF_ROWS = (
    "the error to expect is by ten-fold cross-validation: without each row by itself, "
    "the training would take too long."
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
NO_LEFT_OUT = (
    "without some of the rows the fit is not defined at this penalty, so there is no "
    "leave-one-out error: choose a larger alpha."
)
SCALE_FREE = (
    "the scores are on another scale, such as log-odds, and only decide: rule map has "
    "a bound, but gamma and the random rules need estimates of probabilities."
)
TRAINING_ROWS = (
    "the rows have the same counts as the training rows: if they are the same rows, "
    "these bounds are not valid."
)


def landmarks(count: int, rows: int, half_risk: float, risk: float) -> str:
    """Say that some rows stand for all, and what more of them would bring."""
    half = f"{count // 2:,} of them"
    text = (
        f"{count:,} rows stand for the {rows:,} different ones: the risk of left-out "
        f"rows is {risk:.4g}, and with {half} {half_risk:.4g}"
    )
    if risk < _BETTER * half_risk:
        return (
            f"{text}. More of them would lower the error: raise max_rows, or use a "
            "GPU (device='cuda')."
        )
    return f"{text}, so more of them would hardly lower the error."


def merged_bins(
    before: Columns,
    after: Columns,
    has_estimate: bool = True,
    has_guarantee: bool = True,
) -> tuple[tuple[WarningCode, str], ...]:
    """Return the warning that the classes merged bins, if any bin changed."""
    if before == after:
        return ()
    sentence = f"{MERGED}, {SLIGHTLY_MORE}" if has_estimate else f"{MERGED}."
    if has_guarantee:
        sentence += f" {OF_MERGED}"
    return (("merged-bins", sentence),)


def order_skipped(order: int, reason: str) -> str:
    """Say that an order was not among those to choose from."""
    return f"order {order} was not tried: {reason}."


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
    """Say that bins must not come from the rows that evaluate."""
    return (
        f"both halves bin {name!r} at the same edges: if these were computed from the "
        "rows of either half, the bounds do not hold. Edges from a third file are "
        "safe: count both halves with its encoder."
    )


def few_rows(n: float, n_indicators: int) -> str:
    """Say that there are so few rows that a bound says little of the population."""
    return (
        f"there are {n_indicators} categories and only {number_of_rows(n)}: the "
        "bound holds for the pair counts of these rows and says little about the "
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
    """Return the three figures of a certificate that come first."""
    return "\n".join(three_lines(error_table(c), c))


def detail_lines(c: Certificate) -> list[str]:
    """Return all that a certificate contains beyond these, as lines of a list."""
    lines = []
    if c.bounds:
        lines = [f"guarantees by rule, on {_covered(c)}", *rule_lines(c)]
    if len(c.steps) > 1:
        lines.append(f"bounds of rule {c.rule}, from the cheap to the exact")
        lines += map(_step_line, c.steps)
        lines += [f"  {line}" for line in ties_lines(c.rule, c.steps)]
    lines += ranking_lines(c)
    if c.separable is not None:
        lines.append(
            f"These marginals are {'' if c.separable else 'not '}separable: additive "
            f"scores {'reach' if c.separable else 'miss'} the minimax Brier risk."
        )
    if c.gamma is not None:
        risk = f"risk gamma {c.gamma:.4f} (half the squared error of the scores)"
        if c.loo_risk is not None:
            risk += f"; estimate for new rows {c.loo_risk:.4f}"
        lines.append(risk)
    return [*lines, *(f"Note: {each}" for each in c.warnings)]


def _covered(c: Certificate) -> str:
    """Say which populations the bounds of all rules are for."""
    pairs = pairs_text(c, "pair counts")
    if c.basis in ("intervals", "noisy"):
        return f"every population with {counts_text(c)}"
    if c.confidence is None:
        return f"every population with these {pairs}"
    sure = chosen_percent(c.confidence)
    return f"every population with the {pairs} of this one ({sure} confidence)"


def rule_lines(c: Certificate) -> list[str]:
    """Return a line for the bound of each rule."""
    return [
        f"  {rule:<6} wrong on at most {at_most(c.bounds[rule], 1):>6}"
        + ("  (the rule of this model)" if rule == c.rule else "")
        for rule in RULES
        if rule in c.bounds
    ]


def ranking_lines(c: Certificate) -> list[str]:
    """Return what holds whatever the shares of two classes, where that says much."""
    if c.auc is None or c.any_prevalence is None or c.auc <= 0.5:
        return []
    area = f"{rounded_down(c.auc, 3):.3f}"
    error = at_most(c.any_prevalence, 1)
    return [
        f"At any prevalence: AUC at least {area}, rule map wrong on at most {error}."
    ]


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


# ---- a model next to what any rule could guarantee


def report_text(report: BoundReport, advice: Advice | None = None) -> str:
    """Return the three figures, all bounds as tables, and what these come to."""
    c = report.certificate
    if c.doubtful:
        reasons = (wrapped(text, "  - ", "    ") for text in c.warnings)
        head = [wrapped(doubts(c)), *reasons, "", ALONE, ""]
    else:
        head = [*three_lines(error_table(c, bounds=report), c, advice), ""]
    return "\n".join([*head, *report_tables(report), "", wrapped(report.sentence)])


def report_tables(report: BoundReport) -> list[str]:
    """Return the bounds of a model, and those of any rule, as tables."""
    rule = report.certificate.rule
    return [
        *table(f"Guarantee of this model (rule {rule})", report.model),
        *(f"  {line}" for line in ties_lines(rule, report.model)),
        "",
        *table("What any rule could guarantee", report.any_rule),
    ]


def doubts(c: Certificate) -> str:
    """Return the estimate that counts where bounds say little; reasons follow."""
    reason = "The bounds below are about these rows only, because"
    row = error_table(c).estimate
    if row is None:
        return reason
    return f"{EXPECTED}: {row.shown} ({row.interval}). {reason}"


def report_sentence(report: BoundReport) -> str:
    """Return what a report comes to, in a sentence."""
    c = report.certificate
    where = f"these {counted_text(c)}"
    if c.doubtful:
        where = f"exactly the {counted_text(c)} of these {number_of_rows(c.n)}"
    whose = "no model" if report.all_columns else "no model of the same columns"
    return bound_sentence(
        "this model", where, report.upper, report.lower, report.best_guarantee, whose
    )


def bound_sentence(
    subject: str,
    where: str,
    upper: float,
    lower: float,
    best: float,
    whose: str = "no model",
) -> str:
    """Return what bounds come to: what is guaranteed, and what cannot be.

    `upper` bounds the error of the subject, no rule can guarantee less than `lower`,
    and some rule is known to guarantee `best`; `whose` names the rules that cannot.
    """
    text = (
        f"{capitalised(subject)} is wrong on at most {at_most(upper)} of any "
        f"population with {where}."
    )
    if lower >= _LEAST:
        text += f" {capitalised(whose)} can guarantee less than {at_least(lower)}."
        if best - lower <= CLOSED_GAP < upper - best:
            text += f" The best possible guarantee is at most {at_most(best)}."
        return text
    if best <= CLOSED_GAP:
        return f"{text} Some rule can guarantee an error close to zero."
    if best < upper - CLOSED_GAP:
        text += f" Another rule guarantees {at_most(best)}."
    return f"{text} The smallest guarantee of any rule is not known yet."


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
