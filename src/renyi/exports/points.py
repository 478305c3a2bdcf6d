"""Write a scorecard as a table to read, print or import: CSV and Markdown.

The table has the points of every category, the points that every row starts from, and
the points of unseen labels. Adding up points gives the model's scores.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT, OTHER, RARE, START, label_text
from renyi.exports.functions import check_odds
from renyi.formatting import csv_text, percent, point_digits, printable
from renyi.rules import Scorer, moved_to
from renyi.scorecard import by_importance, class_points

if TYPE_CHECKING:
    import pandas as pd

    from renyi.encoding.columns import Column, Label
    from renyi.encoding.encoder import Encoder
    from renyi.scorecard import Scorecard

_NAMED = 12  # rare labels to name in one sentence
# An underscore within a word is a letter.
_MARKS = re.compile(r"[\\`*|<>&\[\]#~]|(?<!\w)_|_(?!\w)")


def frame(card: Scorecard) -> pd.DataFrame:
    """Return the points of all categories; see `Scorecard.frame`."""
    import pandas as pd

    if card.mapped is not card:
        return frame(card.mapped)
    columns = card.encoder.columns
    sizes = card.encoder.columns.sizes
    starts = offsets(sizes)
    order = by_importance(card)
    order = order[sizes[order] > 1]
    places = [np.arange(starts[j], starts[j + 1]) for j in order]
    rows = np.concatenate([np.empty(0, np.intp), *places])
    totals = np.add.reduceat(card.weights, starts[:-1])[order]
    categories: list[str] = []
    for j in order.tolist():
        categories += columns[j].levels.texts
    table = {
        "feature": np.repeat([columns.names[j] for j in order], sizes[order]),
        "category": categories,
    }
    if card.counts.any():
        table["count"] = card.counts[rows]
        table["share"] = card.counts[rows] / np.repeat(totals, sizes[order])
    names = point_names(card.classes, [*table])
    for name, points in zip(names, class_points(card)[0].T, strict=True):
        table[name] = points[rows]
    try:
        return pd.DataFrame(table)
    except UnicodeEncodeError:  # pandas stores a lone surrogate as an object only
        parts = [
            pd.Series(values, dtype=object if k < 2 else None)
            for k, values in enumerate(table.values())
        ]
        whole = pd.concat(parts, axis=1)
        return whole.set_axis(pd.Index(list(table), dtype=object), axis=1)


def plain_text(card: Scorecard) -> str:
    """Return the table as text, at most forty rows of it, and how to use it."""
    if card.mapped is not card:
        return plain_text(card.mapped)
    points_of = frame(card)
    points, intercept = class_points(card)
    signed = f"{{:+.{point_digits(np.abs(points).max(initial=0.0))}f}}".format
    style: Any = {"formatters": {"share": "{:.1%}".format}, "float_format": signed}
    text: str = points_of[:40].to_string(index=False, **style)
    more = len(points_of) - 40
    rest = [f"… and {more} more rows"] if more > 0 else []
    # Features with a single category add the same to every row.
    sizes = card.encoder.columns.sizes
    single = np.repeat(sizes == 1, sizes)
    starts = intercept + points[single].sum(axis=0)
    pairs = zip(map(label_text, card.classes), starts, strict=True)
    shown = ", ".join(f"{label} {signed(start)}" for label, start in pairs)
    use = f"A row starts from {shown}; it adds its points; the highest score wins."
    return "\n".join([text, *rest, use])


def point_names(classes: Sequence[Label], own: Sequence[str]) -> list[str]:
    """Return a unique column name for the points of every class."""
    texts = [label_text(label) for label in classes]
    names = []
    for text in texts:
        name = text
        while name in own or (name != text and name in texts):
            name += " (points)"
        names.append(name)
    return names


def table(card: Scorecard, odds: float = 1.0, merged: bool = True) -> pd.DataFrame:
    """Return all points: the start, then the features that matter most.

    Labels that were `merged` as rare have separate rows, but no counts.
    """
    import pandas as pd

    check_odds(card, odds)
    card = (card if odds == 1 else moved_to(card, odds)).mapped
    columns = card.encoder.columns
    tables, starts = card.tables
    own = ["feature", "category", "count", "share"]
    shown = [*own, *point_names(card.classes, own)]
    points = [*np.split(card.per_class(tables), starts[1:])]
    counts = np.split(card.counts, np.cumsum(columns.sizes)[:-1])
    first = card.per_class(np.atleast_2d(card.intercept))[0]
    rows: list[tuple[Any, ...]] = [("", START, None, None, *first)]
    for j in by_importance(card).tolist():
        column = columns[j]
        sizes = [*counts[j].tolist(), 0]
        total = counts[j].sum()
        before = None
        for text, place in category_places(column, merged):
            n = sizes[place] if place != before else None  # once for all rare
            share = None if n is None else n / total
            rows.append((column.name, text, n, share, *points[j][place]))
            before = place
    kinds = {2: "Float64" if has_weights(card) else "Int64", 3: "Float64"}
    points_of = dict.fromkeys(range(4, len(shown)), np.float64)
    # As objects: other types of pandas cannot store a lone surrogate.
    frame = pd.DataFrame(rows, dtype=object).astype({**points_of, **kinds})
    frame.columns = pd.Index(shown, dtype=object)
    return frame


def csv(card: Scorecard, odds: float) -> str:
    """Return the table as CSV, to the last bit."""
    return csv_text(table(card, odds))


def text(card: Scorecard, odds: float) -> str:
    """Return the table in Markdown, and how to use it."""
    import pandas as pd

    frame = table(card, odds, merged=False)
    digits = point_digits(frame.iloc[1:, 4:].abs().to_numpy().max(initial=0.0))
    signed = f"{{:+.{digits}f}}".format
    rows = [
        (name, text, "" if pd.isna(share) else percent(share), *map(signed, p))
        for name, text, _, share, *p in frame.itertuples(index=False)
    ]
    head = ["feature", "category", "share", *frame.columns[4:]]
    target = "" if card.target is None else f" for {card.target}"
    parts = [
        f"# {markdown_text(f'Scorecard{target}')}",
        markdown_table(head, rows, 2),
        f"A row starts from the points of {START} and adds those of its categories; "
        f"{OTHER} is a label unseen in training. The answer is the class with the most "
        "points, the first one if several tie.",
        *map(markdown_text, merged_labels(card.encoder, card.encoder.feature_names)),
        *([_probability(card)] if odds == 1 or card.calibration is not None else []),
    ]
    return "\n\n".join(parts) + "\n"


def _probability(card: Scorecard) -> str:
    """Return how points become probabilities."""
    c = card.calibration
    if c is None:
        return (
            "Probabilities are the nearest ones to the points, each increased by "
            f"1/{card.n_classes}."
        )
    factor = c.factor(card.n_classes)
    return (
        f"Probabilities are in proportion to exp({factor:.6g} × points of the class)."
    )


# ---- rows of tables of points


def has_weights(card: Scorer) -> bool:
    """Return whether the counts of a model are of weights rather than of rows."""
    return bool(np.mod(card.counts, 1).any())


def category_places(column: Column, merged: bool) -> list[tuple[str, int]]:
    """Return the categories as they are shown, and which of the points each has.

    With `merged`, labels that were merged as rare follow "(rare)". Unseen labels come
    last, if there can be any.
    """
    levels = column.levels
    places = [(text, place) for place, text in enumerate(levels.texts)]
    if merged and RARE in levels.categories:
        place = levels.categories.index(RARE)
        labels = [label_text(label) for label in levels.rare if label != RARE]
        places[place + 1 : place + 1] = [(text, place) for text in labels]
    other = unseen_text(column)
    return places if other is None else [*places, (other, len(levels.categories))]


def unseen_text(column: Column) -> str | None:
    """Return the name of an unseen label in a column, if there can be one."""
    if column.kind != "number":
        return OTHER
    # Every number is in a bin, and other cells are missing.
    return None if None in column.categories else MISSING_TEXT


def merged_labels(encoder: Encoder, listed: Collection[str]) -> list[str]:
    """Return a sentence for each column with labels that were merged as rare.

    `listed` are the features that are shown. CSV names the labels of single columns.
    """
    sentences = []
    tuples = encoder.order > 1
    for column in encoder.single.columns:
        merged = [label_text(label) for label in column.levels.rare if label != RARE]
        shown = tuples or column.name in listed
        if merged and shown and RARE in column.levels.categories:
            few = merged if tuples else merged[:_NAMED]
            texts = ", ".join(map(repr, few))
            more = len(merged) - len(few)
            texts += f" and {more} more, which the CSV names" * (more > 0)
            sentences.append(f"{RARE} of {column.name!r} is any of {texts}.")
    return sentences


# ---- Markdown


def markdown_text(text: str) -> str:
    r"""Return a text on one line, with all special characters of Markdown escaped.

    >>> print(markdown_text("a|b\n<i>"))
    a\|b \<i\>
    """
    return _MARKS.sub(r"\\\g<0>", " ".join(printable(text).split()))


def markdown_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: int
) -> str:
    """Return a table; columns after the first `left` ones are of numbers."""
    rule = ["---" if k < left else "---:" for k in range(len(head))]
    lines = [[markdown_text(cell) for cell in head], rule]
    lines += [[markdown_text(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
