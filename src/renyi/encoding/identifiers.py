"""Identifiers: columns that tell the rows apart, and nothing else.

Labels
    A column of labels that are nearly all different is an error.
Row numbers
    So is a column of whole numbers that number the rows: nearly all different, none
    missing, and hardly a gap between them. One error names all such columns.
Measurements
    Other whole numbers that are nearly all different, such as amounts of money, are
    binned like any number. A note needs another sign of an identifier: the numbers
    only rise or only fall from row to row, or the column's name says "id", "key",
    "number" or the like. If every amount had a note, readers would
    ignore all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from renyi.encoding.bins import Sketch
from renyi.encoding.columns import Columns
from renyi.encoding.rules import LEAST_ROWS, MAX_INTEGER_LABELS
from renyi.formatting import either
from renyi.validation import InputError, Option

IDENTIFIER_SHARE = 0.9
"""Share of rows above which different values are as many as those of an identifier."""

_WORDS = frozenset(
    ["id", "ids", "identifier", "uuid", "guid", "ssn", "key", "code", "serial"]
    + ["nr", "no", "num", "number", "index", "idx"]
)


class Identifier(NamedTuple):
    """A column that tells the rows apart."""

    name: str
    kind: str  # "label" or "number"
    values: str  # how many different ones it has


def label_identifiers(columns: Columns, n: int) -> list[Identifier]:
    """Return the columns of labels that tell n rows apart."""
    limit = IDENTIFIER_SHARE * n
    large = [v.kind == "label" and len(v.categories) > limit for v in columns.levels]
    if n < LEAST_ROWS or not any(large):  # asked of levels, which columns share
        return []
    many = [columns[k] for k in np.flatnonzero(np.array(large)[columns.which]).tolist()]
    return [Identifier(c.name, "label", f"{len(c.categories):,}") for c in many]


def row_numbers(values: Sketch, n: int) -> str:
    """Return how many integers, none of n missing, number the rows; "" if they do not.

    See `lie_close`.
    """
    low, high, _ = values.cells
    if not len(low) or n < LEAST_ROWS or not lie_close(low[0], high[-1], n):
        return ""
    if values.distinct <= IDENTIFIER_SHARE * n:
        return ""
    return f"{'' if values.exact else 'about '}{min(values.distinct, n):,}"


def lie_close(least: float, largest: float, n: int) -> bool:
    """Whether integers lie as close to each other as numbers of n rows do.

    Row numbers lie within 3n of each other; measurements are spread wider.
    """
    return largest - least <= 3 * n


def check_identifiers(identifiers: Sequence[Identifier], n: int) -> None:
    """Raise an error that names all identifiers among the columns of n rows."""
    if not identifiers:
        return
    names = [each.name for each in identifiers]
    numbers = [each.name for each in identifiers if each.kind == "number"]
    values = {"label": "different labels", "number": "different whole numbers"}
    shown = [f"{v.name!r} ({v.values} {values[v.kind]})" for v in identifiers[:8]]
    more = f" and {len(identifiers) - 8:,} more" if len(identifiers) > 8 else ""
    one = len(identifiers) == 1
    head = f"{'Column' if one else 'Columns'} {', '.join(shown)}{more}"
    like = "looks like an identifier" if one else "look like identifiers"
    advice = ["leave it out" if one else "leave them out"]
    options: list[Option] = [("id", names), ("drop", names)]
    python = []
    if numbers:
        advice.append("say that it is a number" if one else "say which are numbers")
        options.append(("numeric", numbers))
        python.append("numeric=")
    if len(numbers) < len(names):
        advice.append("merge rare labels")
        options.append("min_count")
        python.append("min_count=")
    raise InputError(
        f"{head} {like} of the {n:,} rows: {either(advice)}.",
        *options,
        python=", ".join(python),
    )


def may_identify_rows(name: str, distinct: int, n: int, in_order: bool) -> bool:
    """Whether different whole numbers in n rows are worth a note.

    They are if nearly all differ, and if besides they only rise or only fall from row
    to row (`in_order`), or if the column's name is that of an identifier.

    >>> may_identify_rows("patientId", 980, 1000, in_order=False)
    True
    >>> may_identify_rows("amount", 921, 1000, in_order=False)
    False
    """
    if distinct <= max(MAX_INTEGER_LABELS, IDENTIFIER_SHARE * n):
        return False
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return in_order or any(word.lower() in _WORDS for word in words)
