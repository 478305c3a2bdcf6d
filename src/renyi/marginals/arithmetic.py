"""Merging of marginals: their sums, differences and multiples, and parts of them.

Counts of disjoint rows add up. Two sets of marginals may know different labels of the
same columns. Each is first *spread* over the categories of both, zero where it has
none; then the tables are added or subtracted entry by entry. After a subtraction,
labels that no row has any more are dropped: the rest is what counting the remaining
rows would have given.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.column_rules import check_names
from renyi.encoding.columns import Columns
from renyi.encoding.tuples import NEW
from renyi.marginals.consistency import absent_pairs, check_not_negative

if TYPE_CHECKING:
    from renyi.encoding.encoder import Encoder
    from renyi.marginals.marginals import Marginals

# Weights that cancel leave this share of the total behind, at most.
_DUST = 1e-12


def added(first: Marginals, second: Marginals) -> Marginals:
    """Return the marginals of the rows of both."""
    columns, settings = _union(first, second)
    total = _combined(_spread(first, columns), _spread(second, columns), 1)
    return dataclasses.replace(total, settings=settings)


def subtracted(first: Marginals, second: Marginals) -> Marginals:
    """Return the marginals of `first` without the rows of `second`."""
    columns, _ = _union(first, second)
    rest = _combined(_spread(first, columns), _spread(second, columns), -1)
    if rest.weighted:
        rest = _without_dust(rest, _DUST * first.n)
    check_not_negative(rest, "after the subtraction")
    if rest.n <= 0:
        raise ValueError(
            f"Nothing is left after the subtraction: {first.n:g} rows less "
            f"{second.n:g}."
        )
    return occurring(rest)


def scaled(m: Marginals, factor: float) -> Marginals:
    """Return the marginals with every count times a factor."""
    if not 0 < factor < np.inf:
        raise ValueError(f"the factor must be positive and finite, not {factor!r}")
    if isinstance(factor, int) and m.n * factor > np.iinfo(np.int64).max:
        raise ValueError(
            f"{m.n:g} rows times {factor:g} is more than integers of 64 bits "
            f"hold: use the factor {float(factor)!r}."
        )
    inner = None if m.class_counts is None else m.class_counts * factor
    return dataclasses.replace(
        m, counts=m.counts * factor, n=m.n * factor, class_counts=inner
    )


def selected(m: Marginals, features: list[str]) -> Marginals:
    """Return the marginals of some of the features and the target."""
    check_names(features)
    if m.target in features:
        raise ValueError(f"{m.target!r} is the target: it cannot be a feature.")
    names = [*features, m.target]
    places = m._spans(names)
    kept = set(names)
    class_counts = m.class_counts
    if class_counts is not None:  # which leaves the target out
        inner = np.searchsorted(m._spans(m.feature_names), m._spans(features))
        class_counts = class_counts[:, inner[:, None], inner]
    return dataclasses.replace(
        m,
        counts=m.counts[np.ix_(places, places)],
        columns=m.columns.take(m.columns.places(names)),
        class_counts=class_counts,
        absent=frozenset(pair for pair in m.absent if pair <= kept),
    )


def occurring(m: Marginals) -> Marginals:
    """Drop the labels that no row has; bins of numbers stay."""
    totals = np.diag(m.counts)
    starts = offsets(m.columns.sizes)
    keep = np.ones(len(totals), bool)
    columns = []
    for j, column in enumerate(m.columns):
        held = totals[starts[j] : starts[j + 1]] > 0
        if column.kind == "number":
            held[: len(column.levels.edges) + 1] = True
        elif m.order > 1 and NEW in column.categories:
            held[column.categories.index(NEW)] = True
        keep[starts[j] : starts[j + 1]] = held
        kept = tuple(c for c, h in zip(column.categories, held, strict=True) if h)
        columns.append(column._replace(levels=column.levels._replace(categories=kept)))
    if keep.all():
        return m
    inner = m.class_counts
    if inner is not None:
        features = keep[m._spans(m.feature_names)]
        classes = keep[m._spans([m.target])]
        inner = inner[np.ix_(classes, features, features)]
    return dataclasses.replace(
        m,
        counts=m.counts[np.ix_(keep, keep)],
        columns=Columns.of(columns),
        class_counts=inner,
    )


def _union(first: Marginals, second: Marginals) -> tuple[Columns, Encoder]:
    """Columns and settings of both; what does not fit together is named."""
    mine, theirs = set(first.columns.names), set(second.columns.names)
    if mine != theirs:
        name = min(mine ^ theirs)
        raise ValueError(
            f"The marginals are of different tables: column {name!r} is in "
            f"{'the first' if name in mine else 'the second'} only."
        )
    if first.target != second.target:
        raise ValueError(
            f"The marginals have different targets, {first.target!r} and "
            f"{second.target!r}: use with_target() first."
        )
    settings = first.settings.joined(second.settings)
    where = second.columns.places(first.columns.names)
    columns = Columns.of(
        column.union(second.columns[j])
        for column, j in zip(first.columns, where, strict=True)
    )
    return columns, settings


def _spread(m: Marginals, columns: Columns) -> Marginals:
    """Return the same counts over the larger `columns`."""
    if m.columns == columns:
        return m
    places = _places_in(m.columns, columns)
    size = int(columns.sizes.sum())
    counts = np.zeros((size, size), m.counts.dtype)
    counts[np.ix_(places, places)] = m.counts
    inner = None
    if m.class_counts is not None:
        inner = _spread_classes(m, m.class_counts, columns)
    return dataclasses.replace(m, counts=counts, columns=columns, class_counts=inner)


def _places_in(columns: Columns, wide: Columns) -> NDArray[np.intp]:
    """Places of all categories of `columns` among those of `wide`."""
    starts = offsets(wide.sizes)
    where = wide.places(columns.names)
    return np.concatenate(
        [
            starts[j] + column.places(wide[j])
            for column, j in zip(columns, where, strict=True)
        ]
    )


def _spread_classes(
    m: Marginals, class_counts: NDArray[Any], columns: Columns
) -> NDArray[Any]:
    (j,) = columns.places([m.target])
    classes = m._column(m.target).places(columns[j])
    wide = columns.take([k for k in range(len(columns)) if k != j])
    mine = m.columns.take(m.columns.places(m.feature_names))
    places = _places_in(mine, wide)
    size = int(wide.sizes.sum())
    inner = np.zeros((len(columns[j].categories), size, size), class_counts.dtype)
    inner[np.ix_(classes, places, places)] = class_counts
    return inner


def _combined(first: Marginals, second: Marginals, sign: int) -> Marginals:
    inner = None
    if first.class_counts is not None and second.class_counts is not None:
        inner = first.class_counts + sign * second.class_counts
    total = dataclasses.replace(
        first,
        counts=first.counts + sign * second.counts,
        n=first.n + sign * second.n,
        class_counts=inner,
        absent=first.absent | second.absent,
    )
    if first.absent != second.absent:
        sizes = total.columns.sizes  # pairs known of some of the rows only are absent
        gone = absent_pairs(total).repeat(sizes, axis=0).repeat(sizes, axis=1)
        total.counts[gone] = 0
    return total


def _without_dust(m: Marginals, dust: float) -> Marginals:
    """Set to zero what the subtraction of floats left of equal weights."""
    inner = m.class_counts
    return dataclasses.replace(
        m,
        counts=np.where(np.abs(m.counts) <= dust, 0, m.counts),
        n=0.0 if abs(m.n) <= dust else m.n,
        class_counts=None
        if inner is None
        else np.where(np.abs(inner) <= dust, 0, inner),
    )
