"""A comparison as one page: a chart of all figures, the table, how to read it."""

from __future__ import annotations

from functools import partial

from renyi import __version__
from renyi.comparison.judging import SEEN, Compared, Comparison, Estimate
from renyi.formatting import at_most, capitalised, chosen_percent, number_of, percent
from renyi.report.charts import Mark, Panel, panels
from renyi.report.page import (
    Head,
    Html,
    Section,
    cell,
    join,
    name,
    page,
    table,
    tag,
)

_FEW = ", of few rows"
_number_cell = partial(cell, class_="number")
# What the two certificates are called: their kind, then the populations they are for.
WORST = ("worst error,", "same pairs")
POPULATION = ("error in the", "population")
_WORST, _POPULATION = (capitalised(" ".join(head)) for head in (WORST, POPULATION))
_POPULATION_WORST = "Worst error, pairs of the population"
_READING = (
    "A dot is the share of wrong answers, or the mean log loss, with its interval. An "
    "arrow ends at what the error is proven to be at most.",
    "Each interval holds by itself. May be the best: no other method is proven to be "
    "better when all are compared at once, at the same confidence.",
    "Worst error, same pairs: the largest error of the same model on any population "
    "with the counts of pairs of its training rows. It promises nothing about a "
    "population with others, and where the rows are few beside the categories it says "
    "little.",
    "Error in the population: an upper confidence bound on the error on the population "
    "that the rows were drawn from, by rows that the model was not trained on.",
)


def how_judged(found: Comparison) -> str:
    """Say which rows were judged, and what the intervals are."""
    sure = chosen_percent(found.confidence)
    rows = number_of(found.rows, "row")
    fixed = any(e.error is not None and e.seconds is None for e in found.entries)
    models = " Models were evaluated as they are." if fixed else ""
    if found.folds is not None:
        return (
            f"Each of {rows} was predicted by a model trained on the other folds of "
            f"{found.folds}. Intervals of {sure}: corrected resampled t, approximate, "
            "about the method rather than one model; of errors never narrower than "
            f"Clopper and Pearson's.{models}"
        )
    trained = ""
    if found.trained is not None:
        trained = f"; methods were trained on {number_of(found.trained, 'other row')}"
    return (
        f"Evaluated on {rows}{trained}. Intervals of {sure}: of errors Clopper and "
        "Pearson's, of the log loss by the t distribution, approximate."
    )


def verdict(found: Comparison) -> str:
    """Say which is best, and which may be."""
    done = found.judged
    best = done[0]
    assert best.error is not None
    text = (
        f"{name(best.name)} has the lowest observed error, {percent(best.error.value)}."
    )
    if best.note == SEEN:
        return f"{text} But {SEEN}."
    may = [entry for entry in done if entry.may_be_best]
    if len(done) == 1:
        return text
    if may == [best]:
        sure = chosen_percent(found.confidence)
        return f"{text} With confidence {sure} it is the best of these {len(done)}."
    others = f"{len(may)} of {len(done)} may be the best"
    return f"{text} These rows do not decide which is best: {others}."


def comparison_page(found: Comparison, title: str, command: str) -> str:
    """Return the page."""
    sections = [
        Section("chart", "At a glance", _chart(found)),
        Section("table", "All figures", _table(found)),
        Section("reading", "How to read this", join(tag("p", t) for t in _READING)),
        Section("made", "How it was made", _made(found, command)),
    ]
    lead = [tag("p", verdict(found), class_="verdict"), tag("p", how_judged(found))]
    footer = tag("p", f"renyi {__version__}")
    return page(title, sections, lead=lead, footer=footer)


def _label(entry: Compared) -> Html:
    star = " ★" if entry.may_be_best else ""
    return join([f"{name(entry.name)}{star}", tag("br"), tag("small", entry.about)])


def _chart(found: Comparison) -> Html:
    sure = chosen_percent(found.confidence)
    done = found.judged
    columns = [Panel("Error", [_interval(e.error, 1, 100, " %") for e in done])]
    losses = [_interval(e.log_loss, 3) for e in done]
    bounds = [_bound(e.worst_case, e.doubtful) for e in done]
    if any(bounds):
        columns.append(Panel(_WORST, bounds))
    known = [_bound(entry.population) for entry in done]
    if any(known):
        columns.append(Panel(f"{_POPULATION} at most, confidence {sure}", known))
    if any(losses):
        columns.append(Panel("Log loss", losses, "{:.2g}".format))
    caption = "Errors, certificates and log loss of all that were compared."
    labels = [_label(entry) for entry in done]
    note = tag("p", "★ may be the best: see how to read this.", class_="note")
    return join([panels("What", labels, columns, caption), note])


def _shown(found: Estimate, digits: int, unit: float, end: str) -> str:
    value, interval = found.texts(digits, unit)
    return f"{value}{end} ({interval})"


def _interval(
    found: Estimate | None, digits: int, unit: float = 1, end: str = ""
) -> Mark | None:
    if found is None:
        return None
    return Mark("", *found, "interval", _shown(found, digits, unit, end))


def _bound(upper: float | None, doubtful: bool = False) -> Mark | None:
    if upper is None:
        return None
    shown = f"≤ {at_most(upper, 1)}{_FEW * doubtful}"
    return Mark("", None, None, upper, "bound", shown)


def _table(found: Comparison) -> Html:
    heads = [
        Head("What"),
        *(Head(text, True) for text in ("Error", "Error above the least")),
        Head("May be the best"),
        *(Head(text, True) for text in ("Log loss", "Log loss above the least")),
        *(Head(text, True) for text in (_WORST, _POPULATION)),
        *(Head(text, True) for text in (_POPULATION_WORST, "Seconds")),
    ]
    rows = [
        [
            name(e.name),
            _number(e.error, 2, 100, " %"),
            _number(e.difference, 2, 100, " %"),
            "yes" if e.may_be_best else "no",
            _number(e.log_loss, 4),
            _number(e.log_loss_difference, 4),
            _limit(e.worst_case, e.doubtful),
            *(_limit(x) for x in (e.population, e.population_worst)),
            _number_cell("–" if e.seconds is None else f"{e.seconds:.2f}", e.seconds),
        ]
        for e in found.judged
    ]
    caption = "All figures. Click a column header to sort."
    body = [table(heads, rows, caption, id="figures", sortable=True)]
    told = [(e.name, e.note) for e in found.judged if e.note]
    told += [(e.name, f"not compared: {e.failure}") for e in found.entries if e.failure]
    texts = [tag("li", tag("b", name(each)), f": {text}") for each, text in told]
    return join([*body, tag("ul", texts)] if texts else body)


def _number(
    found: Estimate | None, digits: int, unit: float = 1, end: str = ""
) -> Html:
    """Return a cell with an estimate and its interval."""
    if found is None:
        return _number_cell("–")
    return _number_cell(_shown(found, digits, unit, end), found.value)


def _limit(upper: float | None, doubtful: bool = False) -> Html:
    """Return a cell with a bound from above."""
    shown = "–" if upper is None else f"{at_most(upper)}{_FEW * doubtful}"
    return _number_cell(shown, upper)


def _made(found: Comparison, command: str) -> Html:
    facts = [
        ("Command", command),
        ("Version", __version__),
        ("Target", found.target),
        ("Classes", ", ".join(map(name, found.classes[:20]))),
        ("Rows judged", f"{found.rows:,}"),
        ("Folds", "–" if found.folds is None else str(found.folds)),
        ("Seed", str(found.seed)),
        ("Confidence", f"{found.confidence:g}"),
    ]
    rows = [(key, name(value)) for key, value in facts]
    caption = "How this comparison was made."
    return table([Head("What"), Head("Value")], rows, caption)
