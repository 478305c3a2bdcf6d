"""Merge categories until no count is small.

No published count is small, but what was merged or left out depends on the rows: that
a declared category is gone says that a count was small.

A count from 1 to below the limit is small. While one is left, the rarer of its two
categories is merged into "(rare)"; the first time, the next rarest label goes with it.
Missing cells and bins of numbers are not merged, and a column needs two categories, so
a column may have to be left out. The target keeps its classes. Counts of 0 stay: they
say that nobody has both values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.columns import RARE, Column, Columns, Levels, ranked
from renyi.warnings import warn

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals


def merged_below(m: Marginals, limit: int) -> Marginals:
    """Return the counts with categories merged until none is from 1 to below a limit.

    A warning names the columns that had to be left out.
    """
    left_out = []
    while (place := _smallest(m, limit)) is not None:
        name, category = place
        fewer = _with_merged(m, name, category)
        if fewer is not None:
            m = fewer
            continue
        left_out.append(name)
        features = [each for each in m.feature_names if each != name]
        if not features:
            raise ValueError(
                f"No column is left whose counts are all 0 or at least {limit}: use a "
                "smaller limit, or hide counts with a threshold."
            )
        m = m.select(features)
    if left_out:
        names = ", ".join(map(repr, left_out))
        warn(
            f"Left out {names}: no merging of categories leaves every count 0 or at "
            f"least {limit}.",
            "ignored-column",
        )
    return m


def _smallest(m: Marginals, limit: int) -> tuple[str, int] | None:
    """Return column and category to merge for the smallest count; None if it is large.

    Of the two categories of the count it is the rarer, unless that is a class.
    """
    counts = np.asarray(m.counts)
    small = (counts > 0) & (counts < limit)
    if not small.any():
        return None
    both = np.unravel_index(int(np.where(small, counts, limit).argmin()), counts.shape)
    column = np.repeat(np.arange(len(m.columns)), m.columns.sizes)
    totals = counts.diagonal()
    features = [int(k) for k in both if m.columns.names[column[k]] != m.target]
    if not features:
        start = int(np.argmax(column == column[both[0]]))
        label = m.columns.named(m.target).levels.texts[int(both[0]) - start]
        raise ValueError(
            f"The class {label!r} has fewer than {limit} rows, and classes are not "
            "merged: leave its rows out before counting, or use a smaller limit."
        )
    rarer = min(features, key=lambda k: int(totals[k]))
    start = int(np.argmax(column == column[rarer]))
    return m.columns.names[column[rarer]], rarer - start


def _with_merged(m: Marginals, name: str, category: int) -> Marginals | None:
    """Return the counts with a category merged; None if it cannot be."""
    column = m.columns.named(name)
    totals = m.counts.diagonal()[m.columns.spans([name])]
    known = [k for k, label in enumerate(column.categories) if label is not None]
    if column.kind == "number" or category not in known or len(known) < 3:
        return None
    others = sorted((k for k in known if k != category), key=lambda k: int(totals[k]))
    rare = [k for k in others if column.categories[k] == RARE]
    return _as_rare(m, column, {category, (rare or others)[0]})


def _as_rare(m: Marginals, column: Column, gone: set[int]) -> Marginals:
    """Return the counts with some labels of a column merged into "(rare)"."""
    old = column.categories
    kept = [c for k, c in enumerate(old) if k not in gone and c is not None]
    missing = [None] if None in old else []
    categories = (*ranked([*kept, RARE])[0], *missing)
    fewer = Column(column.name, Levels("label", categories))
    places = column.places(fewer)
    places[sorted(gone)] = fewer.categories.index(RARE)
    columns = Columns.of(fewer if c.name == column.name else c for c in m.columns)
    return recoded(m, columns, {column.name: places})


def recoded(
    m: Marginals, columns: Columns, places: Mapping[str, NDArray[np.intp]]
) -> Marginals:
    """Return the counts over other categories of the same columns, in any order.

    Parameters
    ----------
    m : Marginals
        The counts.
    columns : Columns
        The columns of the result.
    places : mapping of names to ndarrays of int
        Where each category of a column goes; several may go to one. Columns that are
        not in it keep their categories.
    """
    starts = offsets(columns.sizes)
    where = columns.places(m.columns.names)
    kept = {c.name: np.arange(len(c.categories)) for c in m.columns} | {**places}
    moved = [starts[j] + kept[c.name] for c, j in zip(m.columns, where, strict=True)]
    place = np.concatenate(moved)
    counts = np.zeros((starts[-1], starts[-1]), np.int64)
    np.add.at(counts, np.ix_(place, place), m.counts)
    return dataclasses.replace(m, columns=columns, counts=counts, class_counts=None)
