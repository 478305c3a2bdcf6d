"""Write a scorecard as plain lists and numbers, and as a function in one file.

The answer of a model takes four steps, each a table or a formula:

1. every cell gets a code: a label by its text, a number by the edges of its bins;
2. every feature has points at its code; at orders above one, the codes of its columns
   are the digits of a place in a table of codes;
3. points add up to the score s, which gives the estimates t = 1/K + s; the answer is
   the class with the largest one;
4. a slope turns these into probabilities ∝ exp(slope·t); without one, they are the
   nearest ones to t.

The rules are those of `Encoder.transform`, `Scorecard` and `renyi.rules`.

The code of the functions is in `standalone.py` and `standalone.js` next to this module.
One of their lines is replaced by the model. Its numbers are written to the last bit,
and its texts are ASCII without anything that could end a script.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from renyi import __version__
from renyi.encoding.columns import Column, Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import missing_numbers, missing_texts
from renyi.encoding.tuples import TupleEncoder
from renyi.rules import moved_to, threshold_at
from renyi.scorecard import Scorecard
from renyi.validation import InputError

_LARGEST = 2**53  # largest integer that is exact in JavaScript


class PlainColumn(NamedTuple):
    """How the cells of a column become codes."""

    name: str
    kind: str  # "label" or "number"
    codes: dict[str, int]  # of texts; of numbers, those that mean missing
    edges: list[float]  # the code of a number counts the edges up to it
    gaps: list[float]  # numbers that mean missing
    missing: int
    unseen: int  # the code of a text that is not listed, above all others


class PlainFeature(NamedTuple):
    """What a feature adds to the score."""

    members: list[int]  # its columns
    places: list[int]  # code at each place, if it has several columns
    points: list[list[float]]  # at each code, of one class or of K


class PlainModel(NamedTuple):
    """All numbers and texts of a model."""

    target: str
    classes: list[Label]
    columns: list[PlainColumn]
    features: list[PlainFeature]
    start: list[float]
    slope: float  # 0: probabilities are the nearest ones
    threshold: float  # of the second of two classes, without a slope
    odds: float  # factor on the odds of the second class
    strict: bool  # whether an unseen label is an error


def check_odds(card: Scorecard, odds: float) -> None:
    """Raise an error for odds that are not positive, or for more than two classes."""
    if not 0 < odds < np.inf:
        raise ValueError(f"odds must be positive and finite, not {odds!r}.")
    if odds != 1 and card.n_classes != 2:
        raise InputError(
            f"Other odds, here {odds:g}, are for two classes, but there are "
            f"{card.n_classes}: leave them out.",
            "prevalence",
        )


def has_text(text: str) -> bool:
    """Return whether UTF-8 can encode a text: not with lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def plain_model(card: Scorecard, odds: float) -> PlainModel:
    """Return a scorecard as a plain model, with other odds of the second class."""
    check_odds(card, odds)
    calibration = card.calibration
    threshold = 0.0
    slope = 0.0
    if calibration is not None:
        card = card if odds == 1 else moved_to(card, odds)
        odds = 1.0
        slope = calibration.factor(card.n_classes)
    elif odds != 1:
        threshold = threshold_at(card, odds)
    single = card.encoder.single
    card = card.mapped
    return PlainModel(
        str(card.target or "y"),
        list(card.classes),
        [_column(single, column) for column in single.columns],
        _features(card),
        np.atleast_1d(card.intercept).tolist(),
        slope,
        threshold,
        odds,
        card.encoder.unseen == "error",
    )


def _column(encoder: Encoder, column: Column) -> PlainColumn:
    levels = column.levels
    missing = sorted(missing_texts(encoder.missing))
    labels = [*levels.categories, *levels.rare] * (levels.kind == "label")
    texts = [label_text(label) for label in labels if label is not None]
    texts = list(dict.fromkeys([*texts, *missing]))
    *codes, absent = encoder.code_table(levels, texts).tolist()
    gaps = missing_numbers(frozenset(missing)) if levels.kind == "number" else ()
    return PlainColumn(
        column.name,
        levels.kind,
        dict(zip(texts, codes, strict=True)),
        list(map(float, levels.edges)),
        sorted(gap for gap in gaps if gap == gap),
        absent,
        len(levels.categories),
    )


def _features(card: Scorecard) -> list[PlainFeature]:
    """Return members and points of every feature; the last are for unseen labels."""
    tables, starts = card.tables
    points = [each.tolist() for each in np.split(tables, starts[1:])]
    encoder = card.encoder
    if not isinstance(encoder, TupleEncoder):
        return [PlainFeature([j], [], each) for j, each in enumerate(points)]
    features = zip(encoder.members, encoder.tables, points, strict=True)
    return [PlainFeature([*S], t.ravel().tolist(), each) for S, t, each in features]


# ---- as a function


def python(card: Scorecard, odds: float) -> str:
    """Return the model as a module with predict and predict_proba."""
    literal = _literal(plain_model(card, odds), ascii)
    head = "MODEL: dict[str, Any] = {}  # the model\n"
    return _code("standalone.py").replace(head, f"MODEL: dict[str, Any] = {literal}\n")


def javascript(card: Scorecard, odds: float) -> str:
    """Return the model as a script that defines renyiModel."""
    model = plain_model(card, odds)
    for label in model.classes:
        if isinstance(label, int) and abs(label) > _LARGEST:
            raise ValueError(f"JavaScript cannot represent the class {label}.")
    head = "const MODEL = {}; // the model\n"
    return _code("standalone.js").replace(
        head, f"const MODEL = {_literal(model, _script)};\n"
    )


def _code(name: str) -> str:
    return files("renyi.exports").joinpath(name).read_text("utf-8")


def _literal(model: PlainModel, written: Callable[[Any], str]) -> str:
    """Return the model as nested lists, a line for each column and each feature."""
    lines = [f'"renyi": {written(__version__)},']
    for name, value in model._asdict().items():
        if name in ("columns", "features"):
            rows = [f"  {written(list(each))}," for each in value]
            lines += [f'"{name}": [', *rows, "],"]
        else:
            lines.append(f'"{name}": {written(value)},')
    return "\n".join(["{", *lines, "}"])


def _script(value: object) -> str:
    """Return ASCII that is also safe in a page, as no tag starts or ends in it.

    Dicts become lists of pairs, since the key __proto__ is special in an object.
    """
    if isinstance(value, list):
        value = [[*each.items()] if isinstance(each, dict) else each for each in value]
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
