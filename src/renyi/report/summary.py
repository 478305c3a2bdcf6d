"""The first screen of a report: figures, the guarantee, and whether to use the model.

All figures come from the error table (`renyi.certificates.error_table`), with these
words: error to expect, at most, always answering; further down, a title and a meaning
for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

from renyi.certificates.error_table import (
    ALWAYS,
    ANY_RULE,
    CLOSED,
    CONDITIONAL,
    EXACT,
    HALVES,
    HELDOUT,
    PROGRAM,
    SINGLE,
    ErrorRow,
    ErrorTable,
    baseline,
)
from renyi.certificates.left_out import error_interval
from renyi.certificates.record import Certificate
from renyi.certificates.three_lines import figure_lines, guarantee_text
from renyi.certification import MINIMAX
from renyi.encoding.columns import Label, label_text
from renyi.formatting import (
    at_most,
    capitalised,
    chosen_percent,
    number_of,
    percent,
    printable,
    wrapped,
)

Entry = dict[str, Any]  # plain values, as in report.json

_LONGEST = 80  # characters of a name that are shown
_MEANING = {
    CLOSED: "follows from the counts by a formula",
    CONDITIONAL: "uses pairs counted within each class, too",
    PROGRAM: "the best of a family of bounds",
    EXACT: "the worst population that exists, found by search",
}
_VERDICTS = {
    "better": "Clearly better than",
    "barely": "Barely better than",
    "no better": "No better than",
}
# Reasons why a guarantee says little; the line on the guarantee gives them.
_DOUBTS = ("few-rows", "optimistic")


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


def always_text(row: ErrorRow) -> str:
    """Return what the baseline does."""
    return f"always answering {quoted(row.about)}"


# ---- figures


def headline(table: ErrorTable, unknown: str) -> list[Entry]:
    """Return the figures that the page begins with; `unknown` says why one is not."""
    figures = [_figure("estimate", "unknown", "error to expect", unknown)]
    if table.estimate is not None:
        figures = [_estimate_figure(table.estimate)]
    if table.bound is not None:
        useful = table.is_below_baseline(table.bound.high)
        figures.append(_bound_figure(table.bound, useful))
    if table.always is not None:
        row = table.always
        label = always_text(row)
        figures.append(_figure("baseline", row.shown, label, "baseline: no model", row))
    return figures


def _figure(
    kind: str, value: str, label: str, note: str, row: ErrorRow | None = None
) -> Entry:
    figure: Entry = {"kind": kind, "value": value, "label": label, "note": note}
    if row is None:
        return {**figure, "place": None, "low": None, "high": None}
    if row.value is None:
        return {**figure, "place": row.high, "low": None, "high": None}
    return {**figure, "place": row.value, "low": row.low, "high": row.high}


def _estimate_figure(row: ErrorRow) -> Entry:
    note = _how_estimated(row)
    return _figure("estimate", row.shown, "error to expect", note, row)


def _how_estimated(row: ErrorRow) -> str:
    """Return the interval of an estimate, and where it comes from."""
    how = f"estimate by {row.name}"
    if row.name == HALVES:
        how = "each half tested by the other half's model"
    if row.name == HELDOUT:
        how = f"observed on {number_of(row.n or 0, 'row')} not used in training"
    return f"{row.interval}, {how}" if row.interval else how


def _bound_figure(row: ErrorRow, useful: bool) -> Entry:
    assert row.high is not None
    share = chosen_percent(row.confidence or 0)
    where = "from two halves of the rows"
    if row.name == HELDOUT and row.n is not None:
        where = f"from {number_of(row.n, 'row')} not used in training"
    label = f"at most, with {share} confidence"
    note = f"on this population, {where}" + ": quote this one" * useful
    return _figure("bound", at_most(row.high, 1), label, note, row)


def guarantee(table: ErrorTable, c: Certificate) -> Entry:
    """Return the line on the guarantee, and its figure where it is a useful one."""
    line = guarantee_text(table, c).removeprefix("Guarantee: ")
    row = table.guarantee
    return {"text": line, "place": None if row is None else row.high}


# ---- whether to use the model


def _finding(good: bool, text: str) -> Entry:
    return {"good": good, "text": text}


def findings(
    table: ErrorTable, tested: Certificate | None, by_class: Sequence[Entry]
) -> list[Entry]:
    """Return reasons for and against using the model, computed from its figures."""
    texts = []
    if table.verdict is not None and table.always is not None:
        text = f"{_VERDICTS[table.verdict]} {always_text(table.always)}."
        texts.append(_finding(table.verdict == "better", text))
    texts.append(_tested(table, tested))
    if difference := _by_class(by_class):
        texts.append(difference)
    return texts


def _tested(table: ErrorTable, tested: Certificate | None) -> Entry:
    if tested is not None and "training-rows" in tested.warning_codes:
        return _finding(False, "Not tested: the rows given may be its training rows.")
    if table.bound is not None and table.bound.name == HELDOUT:
        rows = number_of(table.bound.n or 0, "row")
        return _finding(True, f"Tested on {rows} not used in training.")
    if table.bound is not None:
        return _finding(True, "Tested on two halves, each by the other half's model.")
    text = "The estimate assumes that new data come from the same source."
    if table.estimate is None:
        text = "Test it on rows whose classes are known."
    return _finding(False, f"Not tested on data it has not seen. {text}")


def _by_class(by_class: Sequence[Entry]) -> Entry | None:
    """Say whether some class is missed more often than another, surely so."""
    rows = [each for each in by_class if each["rows"]]
    if len(rows) < 2:
        return None
    least = min(rows, key=itemgetter("error"))
    most = max(rows, key=itemgetter("error"))
    low, _ = error_interval(most["error"], most["rows"])
    _, high = error_interval(least["error"], least["rows"])
    missed = (
        f"{quoted(most['class'])} is missed on {percent(most['error'])} of its rows"
    )
    if low <= high:
        return _finding(True, f"Errors do not clearly differ by class: {missed}.")
    other = f"{quoted(least['class'])} on {percent(least['error'])}"
    return _finding(False, f"Errors differ by class: {missed}, {other}.")


def notes(*certificates: Certificate | None) -> list[str]:
    """Return what to know before the figures are used, each note once."""
    texts = [
        text
        for c in certificates
        if c is not None
        for code, text in zip(c.warning_codes, c.warnings, strict=True)
        if code not in _DOUBTS
    ]
    return [*map(capitalised, dict.fromkeys(texts))]


def summary(table: ErrorTable, sentences: Sequence[str], order: int = 1) -> str:
    """Return the first screen as text: the figures, and sentences about them."""
    return "\n".join([*figure_lines(table, order), *map(wrapped, sentences)])


# ---- all rows


def error_entries(table: ErrorTable, c: Certificate) -> list[Entry]:
    """Return the rows of the table with titles and meanings; `c` has the rule."""
    bounds = {(row.name, row.high) for row in table.of_kind("bound")}
    entries = []
    for row in table.rows:
        if row.kind == "guarantee" and row.about not in (c.rule, ANY_RULE):
            continue  # other rules have a separate list
        if row.kind == "guarantee" and (row.name, row.high) in bounds:
            continue  # no more than the bound itself
        entries.append(error_entry(row))
    return entries


def error_entry(row: ErrorRow) -> Entry:
    """Return the plain values of a row, as the page and report.json have them."""
    texts = {"title": _title(row), "meaning": _meaning(row), "shown": row.shown}
    return {**asdict(row), **texts}


def always_row(shares: dict[str, float]) -> ErrorRow:
    """Return the row of always answering the most frequent class."""
    label, share = max(shares.items(), key=lambda pair: pair[1])
    return baseline(ALWAYS, label, 1 - share)


def _title(row: ErrorRow) -> str:
    if row.name == ALWAYS:
        return capitalised(always_text(row))
    if row.name == SINGLE:
        return f"Best single column, {quoted(row.about)}"
    if row.kind == "estimate":
        return "Error to expect"
    if row.kind == "bound":
        return "Error at most, on this population"
    if row.about == ANY_RULE:
        if row.name == MINIMAX:
            return "Smallest guarantee of any rule, e*"
        return "Guarantee of another rule"
    return "Guarantee"


def _meaning(row: ErrorRow) -> str:
    """Say what a row means, in a few words."""
    if row.kind == "estimate":
        return _how_estimated(row)
    if row.kind == "bound":
        return f"with {row.certainty}, from {row.name}"
    if row.name == ALWAYS:
        return "without a model"
    if row.name == SINGLE:
        return f"that column alone, {row.certainty}"
    if row.name in (HALVES, HELDOUT):
        return f"with {row.certainty}, from {row.name}"
    meaning = f"{row.name}: {_MEANING[row.name]}" if row.name in _MEANING else row.name
    if row.about == ANY_RULE:
        meaning = "some rule has it; whether any does better is not known"
        if row.low is not None:
            meaning = "no model of these counts can have a smaller one"
    elif row.name == EXACT and row.about == "map":
        meaning += "; ties count as errors"
    if row.doubtful:
        meaning += ", for these rows only"
    return meaning + "; stopped before the end" * row.stopped
