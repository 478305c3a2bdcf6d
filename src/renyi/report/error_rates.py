"""How often a model errs, in a sentence, in a few figures and as a ladder of bounds.

Three certificates may be at hand: the model's `own` (of its training marginals, or of
halves that judged each other), that of marginals (`counted`), and that of held-out rows
(`seen`).
"""

from __future__ import annotations

from typing import Any

from renyi.certificates.record import (
    CLOSED,
    CONDITIONAL,
    EXACT,
    PROGRAM,
    BoundReport,
    Certificate,
    Step,
)
from renyi.certificates.text import pairs_text
from renyi.certification import MINIMAX
from renyi.encoding.columns import Label
from renyi.formatting import (
    at_most,
    capitalised,
    chosen_percent,
    number_of,
    number_of_rows,
    percent,
)
from renyi.report.page import quoted
from renyi.report.record import THESE_ROWS_ONLY, Rung, Tile

_GUESSING = "guessing without a model"
_MEANING = {
    CLOSED: "follows from the counts by a formula",
    CONDITIONAL: "uses pairs counted within each class, too",
    PROGRAM: "the best of a family of bounds",
    EXACT: "the worst population there is, found by search",
}


def verdict(
    target: str | None,
    own: Certificate,
    counted: Certificate | None,
    seen: Certificate | None,
    whose: str,
) -> str:
    """Say in a sentence how often the model errs, what is proven, and of whom."""
    c = counted or own
    error = _error(own)
    model = f"this model of {quoted(target)}"
    upper = at_most(c.bounds[c.rule], 1)
    bound = (
        f"on every population with exactly the counts of {pairs_text(c)} {whose}, it "
        f"is proven to be wrong on at most {upper}"
    )
    if c.basis == "crossfit":
        bound = (
            f"with confidence {_sure(c)}, by halves of the rows it learned from, it is "
            f"wrong on at most {upper} of any population with their {pairs_text(c)}"
        )
    if seen is not None:
        assert seen.observed_error is not None and seen.sampled_error is not None
        told = (
            f"On {number_of(seen.n, 'row')} not used in training, {model} was wrong on "
            f"{percent(seen.observed_error)}: with confidence {_sure(seen)} it is "
            f"wrong on at most {at_most(seen.sampled_error, 1)} of the population they "
            "come from"
        )
        return f"{told}." if c.doubtful else f"{told}; {bound}."
    if own.basis == "crossfit":
        return _of_halves(own, model)
    expected = ""
    if error is not None:
        more = "more than" if "selected-features" in own.warning_codes else "about"
        by = "" if own.rule == "map" else "by the likelier class "
        size = number_of_rows(own.n).removesuffix(" rows")
        expected = (
            f"Expect {model} to be wrong {by}on {more} {percent(error)} of new rows "
            f"like the {size} it learned from"
        )
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
        return f"{capitalised(model)} {untried}, but {bound}."
    return f"{expected}; {bound}."


def _of_halves(c: Certificate, model: str) -> str:
    """Say what halves that judged each other prove of all who are like them."""
    assert c.sampled_error is not None
    tried = ""
    if c.observed_error is not None:
        tried = (
            f"Evaluated on rows that trained only the other half, {model} was wrong on "
            f"{percent(c.observed_error)}: "
        )
    subject = "it" if tried else model
    told = (
        f"{tried}with confidence {_sure(c)} {subject} is wrong on at most "
        f"{at_most(c.sampled_error, 1)} of the population they come from"
    )
    if c.bounds[c.rule] > c.sampled_error:
        told += (
            f", and on at most {at_most(c.bounds[c.rule], 1)} of any population with "
            f"their {pairs_text(c)}"
        )
    return f"{capitalised(told)}."


def _error(c: Certificate) -> float | None:
    """Return the estimate for new rows, if there is one."""
    return c.loo_error if c.observed_error is None else c.observed_error


def _tried(c: Certificate) -> str:
    """Say which rows errors were seen on."""
    if c.basis == "crossfit":
        return "each half by the model of the other"
    return f"observed on {number_of(c.n, 'row')} not used in training"


def _sure(c: Certificate) -> str:
    return chosen_percent(c.confidence or 0)


def tiles(
    own: Certificate,
    counted: Certificate | None,
    seen: Certificate | None,
    shares: dict[str, float] | None,
    whose: str,
) -> list[Tile]:
    """Return the figures that the page begins with."""
    found = []
    tried = seen or own
    error = _error(tried)
    if error is not None:
        how = "leave-one-out estimate"
        how += "" if tried.rule == "map" else " of the likelier class"
        how += ": expect more" if "selected-features" in tried.warning_codes else ""
        if tried.observed_error is not None:
            how = _tried(tried)
        found.append(Tile(percent(error), "wrong on new rows", how))
    if tried.sampled_error is not None:
        note = f"of the population, with confidence {_sure(tried)}"
        found.append(Tile(at_most(tried.sampled_error, 1), "wrong at most", note))
    c = own if own.basis == "crossfit" else counted or own
    if not c.doubtful:
        note = f"on any population with exactly the counts of {pairs_text(c)} {whose}"
        if c.confidence is not None:
            note = f"on any population with their {pairs_text(c)}, "
            note += f"with confidence {_sure(c)}"
        found.append(Tile(at_most(c.bounds[c.rule], 1), "wrong at worst", note))
    return found + guessing(shares)[0]


def guessing(shares: dict[str, float] | None) -> tuple[list[Tile], list[Rung]]:
    """Return what always answering the most frequent class comes to."""
    if not shares:
        return [], []
    label, share = max(shares.items(), key=lambda pair: pair[1])
    note = f"for comparison: {_GUESSING}"
    tile = Tile(percent(1 - share), f"wrong if always {quoted(label)}", note)
    return [tile], [_always(label, 1 - share)]


def _always(label: Label, error: float) -> Rung:
    return Rung(f"Always {quoted(label)}", "reference", error, meaning=_GUESSING)


def warnings(
    own: Certificate, counted: Certificate | None, seen: Certificate | None
) -> tuple[str, ...]:
    """Return what speaks against the figures."""
    known = [c for c in (own, counted, seen) if c is not None]
    found = [text for c in known for text in c.warnings]
    c = counted or own
    if not c.doubtful and c.majority and c.bounds[c.rule] >= c.majority[1]:
        text = (
            "what is proven of every population with these counts of pairs is no "
            f"better than always answering {quoted(c.majority[0])}, which is wrong on "
            f"{percent(c.majority[1])}."
        )
        if c.order == 1 and len(c.steps) < 3:
            text += " The exact worst case may be far lower: report with --exact."
        found.append(text)
    return tuple(map(capitalised, dict.fromkeys(found)))


def ladder(
    own: Certificate,
    counted: Certificate | None,
    seen: Certificate | None,
    bounds: BoundReport | None,
) -> list[Rung]:
    """Return what is known of errors, from the estimate to what any rule could do."""
    found = []
    if own.loo_error is not None:
        meaning = "an estimate for new rows like those in training"
        meaning += "" if own.rule == "map" else ", of the likelier class"
        found.append(Rung("Leave-one-out", "estimate", own.loo_error, meaning=meaning))
    found += _of_unseen(own, "on halves")
    found += [] if seen is None else _of_unseen(seen, "on held-out rows")
    alone = counted is not None and counted.doubtful
    for step in bounds.model if bounds else counted.steps if counted else ():
        meaning = _MEANING.get(step.name, "")
        found.append(_rung(capitalised(step.name), step, meaning, alone))
    if bounds is not None and len(bounds.any_rule) > 2:
        found.append(_best_promise(bounds.any_rule[-1], alone))
    if counted is not None and counted.majority and counted.one_feature:
        best = "the best single feature"
        (feature, error) = counted.one_feature
        title = f"By {quoted(feature)} alone"
        found.append(_always(*counted.majority))
        found.append(Rung(title, "reference", error, meaning=best))
    return found


def _of_unseen(c: Certificate, whose: str) -> list[Rung]:
    """Return what rows show that a model was not trained on."""
    if c.sampled_error is None:
        return []
    found = []
    sure = f"with confidence {_sure(c)}"
    if c.observed_error is not None:
        title = f"Observed {whose}"
        found.append(Rung(title, "estimate", c.observed_error, meaning=_tried(c)))
    title = f"Population, {whose}"
    meaning = f"{sure}, in the population sampled"
    found.append(Rung(title, "bound", high=c.sampled_error, meaning=meaning))
    if c.bounds[c.rule] > c.sampled_error:
        title = f"Any population with its pairs, {whose}"
        found.append(Rung(title, "bound", high=c.bounds[c.rule], meaning=sure))
    return found


def _best_promise(step: Step, alone: bool) -> Rung:
    """Return what any rule could promise."""
    title = "Promise of another rule"
    if step.name == MINIMAX:
        title = "e*, the best promise of any rule"
    meaning = "some rule keeps it; whether any does better is not known"
    if step.lower is not None:
        meaning = "no model of these counts can promise less"
    return _rung(title, step, meaning, alone)


def _rung(title: str, step: Step, meaning: str, alone: bool) -> Rung:
    kind: Any = "bound" if step.lower is None else "interval"
    low = step.lower
    stopped = not step.finished
    meaning += THESE_ROWS_ONLY if alone else ""
    return Rung(title, kind, None, low, step.upper, meaning, stopped, alone)
