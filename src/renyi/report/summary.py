"""What the report says of errors: a summary, headline figures, and all rows.

Three certificates may be at hand: the model's `own` (of its training counts, or of two
halves that certified each other), the one of pair counts (`counted`), and the one of
rows that the model has not seen (`unseen`).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from renyi.certificates.error_table import (
    ALWAYS,
    ANY_RULE,
    HALVES,
    HELDOUT,
    LEAVE_ONE_OUT,
    SINGLE,
    ErrorRow,
    ErrorTable,
    baseline,
    confidence_text,
    pairs_text,
)
from renyi.certificates.record import CLOSED, CONDITIONAL, EXACT, PROGRAM, Certificate
from renyi.certification import MINIMAX
from renyi.encoding.columns import Label, label_text
from renyi.formatting import (
    at_most,
    capitalised,
    number_of,
    number_of_rows,
    percent,
    printable,
)

Entry = dict[str, Any]  # plain values, as in report.json

_GUESSING = "guessing without a model"
_THESE_ROWS_ONLY = ", for these rows only"
_LONGEST = 80  # characters of a name that are shown
_MEANING = {
    CLOSED: "follows from the counts by a formula",
    CONDITIONAL: "uses pairs counted within each class, too",
    PROGRAM: "the best of a family of bounds",
    EXACT: "the worst population there is, found by search; ties count as errors",
}


def name(value: object) -> str:
    """Return a name as it is shown: of one that is very long its two ends.

    >>> name("party"), name(" "), name("x" * 10_000)[-30:]
    ('party', "' '", 'xxxxxxxxxx (10,000 characters)')
    """
    whole = str(value)
    if not whole.strip():  # a control needs a name that can be seen
        whole = f"'{whole}'"
    if len(whole) <= _LONGEST:
        return printable(whole)
    return printable(f"{whole[:50]} … {whole[-10:]} ({len(whole):,} characters)")


def quoted(label: Label) -> str:
    """Return a name in quotation marks, as it is shown."""
    return f"'{name(label_text(label))}'"


# ---- in a sentence


def summary(
    target: str | None,
    own: Certificate,
    counted: Certificate | None,
    unseen: Certificate | None,
    whose: str,
) -> str:
    """Say in a sentence how often the model is wrong, what is proved, and for whom."""
    c = counted or own
    model = f"this model of {quoted(target)}"
    guarantee = _guarantee_sentence(c, whose)
    if unseen is not None:
        observed = _unseen_sentence(unseen, model)
        return f"{observed}." if c.doubtful else f"{observed}; {guarantee}."
    if own.basis == "crossfit":
        return _halves_sentence(own, model)
    expected = _expected_sentence(own, model)
    if c.doubtful:
        known = expected or "It is not known how often this model errs on new rows"
        return (
            f"{known}; what is proven holds only for the {number_of_rows(c.n)} "
            f"{whose}, and says nothing about other rows."
        )
    if not expected:
        untried = (
            "was not tested on new rows (give the report such rows to see its errors)"
        )
        return f"{capitalised(model)} {untried}, but {guarantee}."
    return f"{expected}; {guarantee}."


def _guarantee_sentence(c: Certificate, whose: str) -> str:
    upper = at_most(c.bounds[c.rule], 1)
    if c.basis == "crossfit":
        return (
            f"with {confidence_text(c)}, by halves of the rows it learned from, it is "
            f"wrong on at most {upper} of any population with their {pairs_text(c)}"
        )
    return (
        f"on every population with exactly the counts of {pairs_text(c)} {whose}, it "
        f"is proven to be wrong on at most {upper}"
    )


def _unseen_sentence(c: Certificate, model: str) -> str:
    assert c.observed_error is not None
    assert c.sampled_error is not None
    return (
        f"On {number_of(c.n, 'row')} not used in training, {model} was wrong on "
        f"{percent(c.observed_error)}: with {confidence_text(c)} it is wrong on at "
        f"most {at_most(c.sampled_error, 1)} of the population they come from"
    )


def _expected_sentence(c: Certificate, model: str) -> str:
    if c.loo_error is None:
        return ""
    more = "more than" if "selected-features" in c.warning_codes else "about"
    by = "" if c.rule == "map" else "by the likelier class "
    size = number_of_rows(c.n).removesuffix(" rows")
    return (
        f"Expect {model} to be wrong {by}on {more} {percent(c.loo_error)} of new rows "
        f"like the {size} it learned from"
    )


def _halves_sentence(c: Certificate, model: str) -> str:
    """Say what halves that certified each other show of the population."""
    assert c.sampled_error is not None
    observed = ""
    if c.observed_error is not None:
        observed = (
            f"Evaluated on rows that trained only the other half, {model} was wrong on "
            f"{percent(c.observed_error)}: "
        )
    subject = "it" if observed else model
    text = (
        f"{observed}with {confidence_text(c)} {subject} is wrong on at most "
        f"{at_most(c.sampled_error, 1)} of the population they come from"
    )
    if c.bounds[c.rule] > c.sampled_error:
        text += (
            f", and on at most {at_most(c.bounds[c.rule], 1)} of any population with "
            f"their {pairs_text(c)}"
        )
    return f"{capitalised(text)}."


# ---- in a few figures


def headline(
    own: Certificate,
    counted: Certificate | None,
    unseen: Certificate | None,
    table: ErrorTable,
    shares: dict[str, float] | None,
    whose: str,
) -> list[Entry]:
    """Return the figures that the page begins with."""
    source = unseen or own
    figures = []
    estimate = table.estimate
    if estimate is not None:
        note = _estimate_note(estimate, source)
        figures.append(_figure(estimate.shown, "wrong on new rows", note))
    if table.bound is not None:
        figures.append(_bound_figure(table.bound))
    c = own if own.basis == "crossfit" else counted or own
    if not c.doubtful:
        upper = at_most(c.bounds[c.rule], 1)
        figures.append(_figure(upper, "wrong at worst", _guarantee_note(c, whose)))
    return figures + baseline_figures(shares)


def _figure(value: str, label: str, note: str) -> Entry:
    return {"value": value, "label": label, "note": note}


def _bound_figure(row: ErrorRow) -> Entry:
    assert row.high is not None
    note = f"of the population, with {row.certainty}"
    return _figure(at_most(row.high, 1), "wrong at most", note)


def _guarantee_note(c: Certificate, whose: str) -> str:
    pairs = pairs_text(c)
    if c.confidence is None:
        return f"on any population with exactly the counts of {pairs} {whose}"
    return f"on any population with their {pairs}, with {confidence_text(c)}"


def _estimate_note(row: ErrorRow, c: Certificate) -> str:
    """Say how the error to expect was estimated."""
    if row.name != LEAVE_ONE_OUT:
        return _observed_note(row)
    rule = "" if c.rule == "map" else " of the likelier class"
    more = ": expect more" if "selected-features" in c.warning_codes else ""
    return f"leave-one-out estimate{rule}{more}"


def _observed_note(row: ErrorRow) -> str:
    """Say which rows errors were observed on."""
    if row.name == HALVES:
        return "each half by the model of the other"
    return f"observed on {number_of(row.n or 0, 'row')} not used in training"


def baseline_figures(shares: dict[str, float] | None) -> list[Entry]:
    """Return the figure of always answering the most frequent class, if known."""
    if not shares:
        return []
    label, share = max(shares.items(), key=lambda pair: pair[1])
    note = f"for comparison: {_GUESSING}"
    return [_figure(percent(1 - share), f"wrong if always {quoted(label)}", note)]


def warnings(
    own: Certificate, counted: Certificate | None, unseen: Certificate | None
) -> list[str]:
    """Return what to know before the figures are used."""
    certificates = [c for c in (own, counted, unseen) if c is not None]
    texts = [text for c in certificates for text in c.warnings]
    c = counted or own
    if not c.doubtful and c.majority and c.bounds[c.rule] >= c.majority[1]:
        text = (
            f"what is proven of every population with these counts of {pairs_text(c)} "
            f"is no better than always answering {quoted(c.majority[0])}, which is "
            f"wrong on {percent(c.majority[1])}."
        )
        if c.order == 1 and len(c.steps) < 3:
            text += " The exact worst case may be far lower: ask for an exact report."
        texts.append(text)
    return [*map(capitalised, dict.fromkeys(texts))]


# ---- all rows


def error_entries(table: ErrorTable, c: Certificate) -> list[Entry]:
    """Return the rows of the table with titles and meanings; `c` tells the rule."""
    bounds = {(row.name, row.high) for row in table.of_kind("bound")}
    entries = []
    for row in table.rows:
        if row.kind == "guarantee" and row.about not in (c.rule, ANY_RULE):
            continue  # other rules have a list of their own
        if row.kind == "guarantee" and (row.name, row.high) in bounds:
            continue  # no more than the bound itself
        entries.append(error_entry(row, _title(row), _meaning(row, c)))
    return entries


def error_entry(row: ErrorRow, title: str, meaning: str) -> Entry:
    """Return the plain values of a row, as the page and report.json have them."""
    return {**asdict(row), "title": title, "meaning": meaning, "shown": row.shown}


def always_entry(label: str, error: float) -> Entry:
    """Return the row of always answering one class."""
    row = baseline(ALWAYS, label, error)
    return error_entry(row, _title(row), _GUESSING)


def _title(row: ErrorRow) -> str:
    if row.name == ALWAYS:
        return f"Always {quoted(row.about)}"
    if row.name == SINGLE:
        return f"By {quoted(row.about)} alone"
    if row.about == ANY_RULE:
        return _any_rule_title(row)
    if row.name not in (HALVES, HELDOUT):
        return capitalised(row.name)
    if row.kind == "estimate":
        return f"Observed on {row.name}"
    where = "Population" if row.kind == "bound" else "Any population with its pairs"
    return f"{where}, on {row.name}"


def _any_rule_title(row: ErrorRow) -> str:
    if row.name == MINIMAX:
        return "e*, the best promise of any rule"
    return "Promise of another rule"


def _meaning(row: ErrorRow, c: Certificate) -> str:
    """Say what a row means, in a few words."""
    if row.name in (HALVES, HELDOUT):
        return _unseen_meaning(row)
    meaning = _MEANING.get(row.name, "")
    if row.name == LEAVE_ONE_OUT:
        meaning = "an estimate for new rows like those in training"
        meaning += "" if c.rule == "map" else ", of the likelier class"
    elif row.name == ALWAYS:
        meaning = _GUESSING
    elif row.name == SINGLE:
        meaning = "the best single feature"
    elif row.about == ANY_RULE:
        meaning = "some rule keeps it; whether any does better is not known"
        if row.low is not None:
            meaning = "no model of these counts can promise less"
    if row.name == EXACT and row.about == "map":
        meaning += "; ties count as errors"
    if row.kind == "guarantee" and row.doubtful:
        meaning += _THESE_ROWS_ONLY
    return meaning + "; stopped before the end" * row.stopped


def _unseen_meaning(row: ErrorRow) -> str:
    if row.kind == "estimate":
        return _observed_note(row)
    if row.kind == "bound":
        return f"with {row.certainty}, in the population sampled"
    return f"with {row.certainty}"
