"""Classify a row by a model of renyi; needs only Python 3.10.

``predict(row)`` returns the likelier class of a dict from columns to cells, and
``predict_proba(row)`` the probabilities of MODEL["classes"]. A cell is a str, a number,
a bool, or None (or NaN) if it is missing.
"""

import bisect
import math
from itertools import accumulate
from math import inf  # noqa: F401, the model may name it
from typing import Any

MODEL: dict[str, Any] = {}  # the model


def predict(row: dict[str, Any]) -> object:
    """Return the class with the largest estimate, the first of equals."""
    shift = MODEL["threshold"]
    t = _estimates([score - shift for score in _scores(row)])
    return MODEL["classes"][t.index(max(t))]


def predict_proba(row: dict[str, Any]) -> list[float]:
    """Return the probability of every class."""
    t = _estimates(_scores(row))
    top = max(t)
    if MODEL["slope"]:
        grown = [math.exp(MODEL["slope"] * (each - top)) for each in t]
        return [max(each / sum(grown), 2.0**-1022) for each in grown]
    # The nearest probabilities: t − shift where that is positive.
    ordered = sorted((each - top for each in t), reverse=True)
    shift = max((total - 1) / (k + 1) for k, total in enumerate(accumulate(ordered)))
    p = [max(each - top - shift, 0.0) for each in t]
    odds = MODEL["odds"]
    if odds != 1:
        p = [p[0] * min(1.0, 1 / odds), p[1] * min(1.0, odds)]
        p = [each / sum(p) for each in p]
    return p


def _scores(row: dict[str, Any]) -> list[float]:
    """Return the total points of a row; those of the second class, if there are two."""
    columns = MODEL["columns"]
    codes = [_code(row, *column) for column in columns]
    totals = [0.0] * len(MODEL["start"])
    for members, places, points in MODEL["features"]:
        place = 0
        for j in members:
            place = place * (columns[j][-1] + 1) + codes[j]
        added = points[places[place] if places else place]
        totals = [total + each for total, each in zip(totals, added, strict=True)]
    return [total + each for total, each in zip(totals, MODEL["start"], strict=True)]


def _estimates(scores: list[float]) -> list[float]:
    """Return t = 1/K + s of every class."""
    both = [-scores[0], scores[0]] if len(scores) == 1 else scores
    return [score + 1 / len(both) for score in both]


def _code(
    row: dict[str, Any],
    name: str,
    kind: str,
    codes: dict[str, int],
    edges: list[float],
    gaps: list[float],
    missing: int,
    unseen: int,
) -> int:
    """Return the code of a cell: of its text, or of the bin of its number."""
    if name not in row:
        raise ValueError(f"Column {name!r} is missing from the row.")
    cell = row[name]
    cell = cell.item() if hasattr(cell, "item") else cell
    if cell is None or cell != cell:
        code = missing
    elif not isinstance(cell, (str, bool, int, float)):
        raise TypeError(f"Column {name!r} holds {cell!r:.60}: give a text or a number.")
    else:
        whole = isinstance(cell, float) and cell.is_integer()
        text = str(int(cell) if whole else cell)
        code = codes.get(text, unseen)
        if kind == "number" and text not in codes:
            try:
                value = float(cell)
            except (ValueError, OverflowError):
                raise ValueError(
                    f"Column {name!r} is numeric but holds {cell!r:.60}."
                ) from None
            code = bisect.bisect_right(edges, value)
            if value != value or value in gaps:
                code = missing
    if code == unseen and MODEL["strict"]:
        raise ValueError(f"Column {name!r} holds {cell!r:.60}, unseen in training.")
    return code
