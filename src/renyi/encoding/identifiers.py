"""Identifiers: columns that tell every row apart, and so tell nothing of the others.

A column of labels is one if nearly all its labels differ; a column of integers, if they
also lie close together, as row numbers do. Both are refused, by the same rule in memory
and in a stream.
"""

from __future__ import annotations

import numpy as np

from renyi.encoding.columns import Columns
from renyi.encoding.sketch import Sketch

IDENTIFIER_SHARE = 0.9
"""Share of rows above which different values are as many as those of an identifier."""

_LEAST_ROWS = 20


def refuse_labels(columns: Columns, n: int) -> None:
    """Refuse columns of labels that look like identifiers of n rows.

    >>> from renyi.encoding.columns import Column, Levels
    >>> names = Levels("label", tuple(f"p{k}" for k in range(30)))
    >>> refuse_labels(Columns.of([Column("patient", names)]), 30)
    Traceback (most recent call last):
    ValueError: Column 'patient' has 30 different labels in 30 rows, like an ...
    """
    many = np.flatnonzero(columns.sizes > IDENTIFIER_SHARE * n)
    if n >= _LEAST_ROWS and len(many):
        column = columns[int(many[0])]
        raise ValueError(
            f"Column {column.name!r} has {len(column.categories)} different labels in "
            f"{n} rows, like an identifier: drop it (on the command line, --id or "
            "--drop), or set min_count to merge rare labels."
        )


def may_number(lowest: float, highest: float, n: int) -> bool:
    """Whether integers between these bounds may be the numbers of n rows.

    >>> may_number(1, 30, 30), may_number(1, 3_000, 30)
    (True, False)
    """
    return n >= _LEAST_ROWS and highest - lowest <= 3 * n  # else measurements


def refuse_row_numbers(name: str, values: Sketch, n: int) -> None:
    """Refuse a column of integers, none of n missing, if it numbers the rows.

    >>> values = Sketch()
    >>> values.add(np.arange(30.0))
    >>> refuse_row_numbers("k", values, 30)
    Traceback (most recent call last):
    ValueError: Column 'k' numbers the rows: 30 different values in 30 rows. Drop it ...
    """
    low, high, _ = values.cells
    if not len(low) or not may_number(low[0], high[-1], n):
        return
    if values.distinct > IDENTIFIER_SHARE * n:
        count = f"{'' if values.exact else 'about '}{min(values.distinct, n)}"
        raise ValueError(
            f"Column {name!r} numbers the rows: {count} different values in {n} rows. "
            "Drop it (on the command line, --id or --drop), or name it in `numeric` to "
            "use it as a number."
        )
