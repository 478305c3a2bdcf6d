"""The three figures that come first wherever the error of a model is described.

1. **Error to expect**: an estimate, with its 95 % interval, next to the baseline.
2. **Error at most, on this population**: only from rows that the model has not seen.
3. **Guarantee**: a figure only if it is below the baseline, else the reason why not.

Commands and `str(certificate)` print these lines; all other figures are details.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from renyi.certificates.error_table import (
    CLOSED,
    CONDITIONAL,
    EXACT,
    HALVES,
    HELDOUT,
    LEAVE_ONE_OUT,
    ErrorRow,
    ErrorTable,
    counts_text,
    pairs_text,
)
from renyi.formatting import (
    at_least,
    at_most,
    chosen_percent,
    cut,
    number_of,
    number_of_rows,
    printable,
    wrapped,
)

if TYPE_CHECKING:
    from renyi.certificates.record import Certificate

EXPECTED = "Error to expect on new rows"
OBSERVED = "Observed error"
AT_MOST = "Error at most, on this population"
UNKNOWN = "unknown: pair counts do not contain it"
UNDEFINED = "unknown: not defined at this penalty"
QUOTE = "<- quote this"
NONE_USEFUL = "Guarantee: none useful."
NO_GUARANTEE = "Guarantee: none follows from pair counts for a model of every order."
TIES = "Ties of the largest scores count as errors."

_WIDTH = 36  # of the labels before the figures
_NAME = 24  # characters of a label or of a column
_MOST_CATEGORIES = 1000  # for which the search for an exact worst case is advised
_FEW_CATEGORIES = 20  # so that at most 1,500 rows can differ: a search of seconds
_VERIFIED = {CLOSED, CONDITIONAL}  # steps that 'renyi verify' checks
# Warnings that the sentences next to the figures already contain.
_INVALID = "training-rows"
_DETAILS = {
    "few-rows",
    "optimistic",
    "scale-free",
    "class-conditional",
    "selected-features",
    "folds",
}


class Advice(NamedTuple):
    """What to do for smaller guarantees and for a bound, in the reader's language."""

    sharp: str = 'rule="sharp"'
    exact: str = 'certify(model, marginals, level="exact")'
    quote: str = "certify(model, X_test, y_test)"
    verify: str = "Proved."


# ---- estimate, bound and baseline


def figure_lines(table: ErrorTable, order: int = 1, quote: str = QUOTE) -> list[str]:
    """Return the error to expect and the bound, next to the baselines.

    The bound is marked as the one to quote only if it is below the baseline.
    """
    entries: list[tuple[str, str, str]] = []
    estimate = table.estimate
    observed = table.observed
    if estimate is None and table.bound is None:
        entries.append((EXPECTED, UNDEFINED if table.undefined else UNKNOWN, ""))
    elif estimate is not None and estimate.name == HELDOUT:
        entries.append((OBSERVED, estimate.shown, ""))
    elif estimate is not None:
        entries.append((EXPECTED, estimate.shown, f"({estimate.interval})"))
    if observed is not None and observed is not estimate:
        rows = number_of(observed.n or 0, "held-out row")
        entries.append((f"Observed on {rows}", observed.shown, ""))
    if table.bound is not None:
        assert table.bound.high is not None
        mark = quote if table.is_below_baseline(table.bound.high) else ""
        entries.append((AT_MOST, at_most(table.bound.high, 1), mark))
    entries += _baselines(table, order)
    width = max(len(label) for label, _, _ in entries)
    figures = max([7, *(len(value) for _, value, _ in entries if "%" in value)])
    return [
        f"  {label:<{width}} {value:>{figures}}   {rest}".rstrip()
        for label, value, rest in entries
    ]


def _baselines(table: ErrorTable, order: int) -> Iterable[tuple[str, str, str]]:
    if table.always is not None:
        yield _baseline("  always answering", table.always)
    if table.single is not None:
        what = "feature" if order > 1 else "column"
        yield _baseline(f"  best single {what},", table.single)


def _baseline(what: str, row: ErrorRow) -> tuple[str, str, str]:
    """Return the line of a baseline; a long name comes after the figure."""
    name = quoted(row.about)
    label = f"{what} {name}"
    if len(label) <= _WIDTH:
        return label, row.shown, ""
    return what.rstrip(","), row.shown, name


def quoted(name: str) -> str:
    """Return a name or label in quotation marks, on one line and cut if long."""
    return f"'{cut(printable(' '.join(name.split())), _NAME)}'"


def basis_sentences(table: ErrorTable, c: Certificate) -> list[str]:
    """Say where the figures come from, and how the model compares."""
    texts = []
    estimate = table.estimate
    bound = table.bound
    if estimate is not None and estimate.name == LEAVE_ONE_OUT:
        texts.append(_leave_one_out(estimate, c))
    if estimate is not None and estimate.name == HALVES:
        texts.append("An estimate: the model of each half answered the other half.")
    if bound is not None:
        own = estimate is not None and estimate.name == LEAVE_ONE_OUT
        learned = number_of_rows(c.n) if own else ""
        texts.append(_bound_sentence(bound, learned, estimate is not None))
    if "selected-features" in c.warning_codes:
        texts.append(
            "The columns were selected on the same rows: expect more errors than this."
        )
    always = table.always
    if always is not None and table.verdict in ("barely", "no better"):
        how = "Barely better" if table.verdict == "barely" else "No better"
        texts.append(f"{how} than always answering {quoted(always.about)}.")
    return texts


def _leave_one_out(row: ErrorRow, c: Certificate) -> str:
    rows = ""
    if row.n is not None and row.n < 0.99 * c.n:
        rows = f" of {round(row.n):,} rows"
    how = "leave-one-out"
    if "folds" in c.warning_codes:
        how = "ten-fold cross-validation"
    return f"An estimate by {how}{rows}. It assumes new rows from the same source."


def _bound_sentence(row: ErrorRow, learned: str, observed: bool) -> str:
    """Say what a bound rests on: halves, rows that were held out, or other rows.

    `learned` are the rows that training used, if it held out the others.
    """
    sure = chosen_percent(row.confidence or 0)
    rows = number_of(row.n or 0, "row")
    if row.name == HALVES:
        drawn = "and split at random" if observed else "and drawn from one population"
        return (
            f"The bound has {sure} confidence. It is from {rows} in two halves, each "
            "of which tested the model of the other. The rows must be independent, "
            f"{drawn}."
        )
    if learned:
        return (
            f"The bound has {sure} confidence. It is from {rows} held out at random; "
            f"the model learned from the other {learned}."
        )
    return (
        f"The bound has {sure} confidence. It is valid if the {rows} behind it are "
        "independent and were not used in training."
    )


# ---- guarantee


def guarantee_lines(
    table: ErrorTable, c: Certificate, advice: Advice | None = None
) -> list[str]:
    """Return the guarantee, or why there is none that is useful."""
    advice = Advice() if advice is None else advice
    text = guarantee_text(table, c)
    if c.from_rows:
        lines = [wrapped(text, "", "  ")]
        if c.basis == "rows" and table.bound is None and advice.quote:
            lines.append(f"  For a bound to quote: {advice.quote}")
        return lines
    if table.guarantee is not None:
        verified = table.guarantee.name in _VERIFIED
        if c.confidence is None:
            text += f" {advice.verify if verified else 'Proved.'}"
    lines = [wrapped(text, "", "  ")]
    smaller = [*_smaller(table, c, advice)]
    if smaller:
        lines.append("  Smaller guarantees for the same scorecard:")
        lines += smaller
    if table.guarantee is None and table.bound is None and advice.quote:
        lines.append(f"  For a bound to quote: {advice.quote}")
    return lines


def guarantee_text(table: ErrorTable, c: Certificate) -> str:
    """Return the guarantee, or why there is none that is useful, in one line."""
    if not c.bounds:
        return NO_GUARANTEE
    if c.from_rows:
        return _changed_population(table, c)
    if table.guarantee is None:
        return f"{NONE_USEFUL} {no_guarantee_reason(table, c)}"
    text = f"Guarantee: {_guarantee_sentence(table.guarantee, c)}"
    if c.confidence is not None:
        text += f" This has {chosen_percent(c.confidence)} confidence."
    if _is_below_test(table, table.guarantee):
        text += " New rows have other pair counts: do not quote this for them."
    return text


def _is_below_test(table: ErrorTable, guarantee: ErrorRow) -> bool:
    """Whether a guarantee could be mistaken for a better bound on new rows."""
    tested = table.bound or table.estimate
    if tested is None or tested.high is None or guarantee.high is None:
        return False
    return guarantee.high < tested.high


def _guarantee_sentence(row: ErrorRow, c: Certificate) -> str:
    assert row.high is not None
    counts = counts_text(c)
    beyond = pairs_text(c) if c.interactions is None else "these counts"
    text = (
        f"wrong on at most {at_most(row.high, 1)} of any population with {counts}, "
        f"however the columns interact beyond {beyond}."
    )
    if row.low is not None:
        text += f" One such population has an error of at least {at_least(row.low, 1)}."
        text += f" {TIES}" * (row.about == "map")
    return text


def no_guarantee_reason(table: ErrorTable, c: Certificate) -> str:
    """Say in a sentence why no guarantee of the model is useful."""
    least = table.least_guarantee
    always = table.always
    if c.doubtful and "few-rows" in c.warning_codes:
        return (
            f"There are {c.n_indicators:,} categories and only {number_of_rows(c.n)}: "
            "their pair counts say little about other rows."
        )
    if c.doubtful:
        return (
            "The model fits these rows far better than new ones: their pair counts say "
            "little about other rows."
        )
    assert least is not None
    assert least.high is not None
    if least.high >= 0.9995:
        return "Pair counts prove no error rate below 100 % for this model."
    text = f"Pair counts prove at most {at_most(least.high, 1)} for this model"
    if always is not None:
        answer = quoted(always.about)
        text += f", and always answering {answer} is wrong on {always.shown}"
    return f"{text}. That is common when the target is hard to predict."


def _smaller(table: ErrorTable, c: Certificate, advice: Advice) -> Iterable[str]:
    """Yield the lines of smaller guarantees: the figure, and how to reach it."""
    if c.doubtful:
        return
    sharp = c.bounds.get("sharp", 1.0)
    if sharp < c.bounds[c.rule] and table.is_below_baseline(sharp):
        how = (
            f"with {advice.sharp}, which answers at random where unsure (more errors "
            "to expect)"
        )
        yield wrapped(how, f"    {at_most(sharp, 1):<8} ", " " * 13)
    if advice.exact and has_room(table, c):
        few = c.n_indicators <= _FEW_CATEGORIES
        yield f"    exact    {'see' if few else 'takes minutes:'} {advice.exact}"


def has_room(table: ErrorTable, c: Certificate) -> bool:
    """Whether to advise the search for the exact worst case.

    The closed form of some rule must be below the baseline: only then is it known that
    pair counts can prove something useful. (The polynomial program would prove more,
    but takes as long as a small fit.) Exact worst cases are known of single columns,
    and need an extra.
    """
    searched = any(step.name == EXACT for step in c.steps)
    return (
        c.basis == "marginals"
        and c.order == 1
        and not c.doubtful
        and not searched
        and c.n_indicators <= _MOST_CATEGORIES
        and table.is_below_baseline(min(c.bounds.values()))
        and find_spec("highspy") is not None
    )


def _changed_population(table: ErrorTable, c: Certificate) -> str:
    """Say what unseen rows prove if the population changes but keeps its pairs."""
    least = table.least_guarantee
    assert c.confidence is not None
    if least is None or least.high is None or not table.is_below_baseline(least.high):
        return _nothing_useful(table, c)
    bound = at_most(least.high, 1)
    sure = chosen_percent(c.confidence)
    return (
        f"Guarantee: if the population changes but keeps its pair counts, at most "
        f"{bound} ({sure} confidence)."
    )


def _nothing_useful(table: ErrorTable, c: Certificate) -> str:
    """Say that unseen rows prove no useful guarantee, and which guarantee remains."""
    least = table.least_guarantee
    always = table.always
    text = (
        "If the population changes but keeps its pair counts, these "
        f"{number_of_rows(c.n)} prove nothing useful"
    )
    high = 1.0 if least is None or least.high is None else least.high
    if always is not None and high < 0.9995:
        bound = at_most(high, 1)
        text += f" (at most {bound}, not below always answering {quoted(always.about)})"
    if c.basis == "heldout":
        text += ". The guarantee of fit is about the pair counts of the training rows"
    return f"{text}."


# ---- together


def note_lines(c: Certificate) -> list[str]:
    """Return the warnings that concern the figures shown."""
    pairs = zip(c.warning_codes, c.warnings, strict=True)
    hidden = {*_DETAILS, _INVALID}
    return [f"Note: {text}" for code, text in pairs if code not in hidden]


def _invalid_lines(c: Certificate) -> list[str]:
    """Return the warning that the rows may be those of the training."""
    if _INVALID not in c.warning_codes:
        return []
    text = c.warnings[c.warning_codes.index(_INVALID)]
    return [wrapped(f"Warning: {text}"), ""]


def three_lines(
    table: ErrorTable,
    c: Certificate,
    advice: Advice | None = None,
    remarks: Sequence[str] = (),
) -> list[str]:
    """Return the three figures of a model, with where they come from.

    `remarks` are lines about the estimate, which follow it.
    """
    indented = [wrapped(text, "  ", "  ") for text in basis_sentences(table, c)]
    invalid = _invalid_lines(c)
    return [
        *invalid,
        *figure_lines(table, c.order, "" if invalid else QUOTE),
        *indented,
        *remarks,
        "",
        *guarantee_lines(table, c, advice),
        *(wrapped(text, "  ", "  ") for text in note_lines(c)),
    ]
