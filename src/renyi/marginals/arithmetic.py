"""Add, subtract, scale and select marginals.

Counts of disjoint rows add up. Two sets of marginals may have different labels of the
same columns. Each is first *spread* over the categories of both, with zeros for new
ones. Then the tables are added or subtracted entry by entry. After a subtraction,
labels without rows are dropped. The result is the same as counting the remaining rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import check_table_size
from renyi.encoding.columns import Columns
from renyi.encoding.rules import check_names
from renyi.encoding.tuples import NEW
from renyi.marginals.consistency import absent_pairs, check_not_negative
from renyi.validation import InputError

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

# Weights that cancel leave at most this share of the total.
_DUST = 1e-12
_VANISHING = 1e-8  # a smaller rest consists of rounding errors


def added(first: Marginals, second: Marginals) -> Marginals:
    """Return the marginals of the rows of both."""
    return _combined(first, second, 1)


def subtracted(first: Marginals, second: Marginals) -> Marginals:
    """Return the marginals of `first` without the rows of `second`."""
    rest = dataclasses.replace(_combined(first, second, -1), settings=first.settings)
    if rest.weighted:  # the difference of equal weights may be a rounding error
        dust = _DUST * first.n
        n = 0.0 if abs(rest.n) <= dust else rest.n
        if 0 < n < _VANISHING * first.n:
            raise ValueError(
                f"What is left after the subtraction, {n:g} of {first.n:g}, is too "
                "small compared with what was subtracted to be distinguished from "
                "rounding errors: count these rows separately."
            )
        rest = _changed(rest, n, lambda x: np.where(np.abs(x) <= dust, 0, x))
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
            f"{m.n:g} rows times {factor:g} is too large for integers of 64 bits: use "
            f"the factor {float(factor)!r}."
        )
    return _changed(m, m.n * factor, lambda counts: counts * factor)


def selected(m: Marginals, features: list[str]) -> Marginals:
    """Return the marginals of some of the features and the target."""
    check_names(features, "The selection")
    if m.target in features:
        raise ValueError(f"{m.target!r} is the target: it cannot be a feature.")
    names = [*features, m.target]
    part = _taken(m, m.columns.take(m.columns.places(names)), m.columns.spans(names))
    absent = frozenset(pair for pair in m.absent if pair <= set(names))
    return dataclasses.replace(part, absent=absent)


def occurring(m: Marginals) -> Marginals:
    """Drop the labels without rows; keep the bins of numbers."""
    totals = m.counts.diagonal()
    starts = offsets(m.columns.sizes)
    keep = totals > 0
    columns = []
    for j, column in enumerate(m.columns):
        held = keep[starts[j] : starts[j + 1]]
        if column.kind == "number":
            held[: len(column.levels.edges) + 1] = True
        elif m.order > 1 and NEW in column.categories:
            held[column.categories.index(NEW)] = True
        kept = tuple(c for c, h in zip(column.categories, held, strict=True) if h)
        columns.append(column._replace(levels=column.levels._replace(categories=kept)))
    if keep.all():
        return m
    return _taken(m, Columns.of(columns), np.flatnonzero(keep))


def _changed(
    m: Marginals, n: float, change: Callable[[NDArray[Any]], NDArray[Any]]
) -> Marginals:
    """Return marginals whose tables are changed entry by entry."""
    inner = None if m.class_counts is None else change(m.class_counts)
    counts = sparse_counts.changed(m.counts, change)
    return dataclasses.replace(m, n=n, counts=counts, class_counts=inner)


def _taken(m: Marginals, columns: Columns, places: NDArray[np.intp]) -> Marginals:
    """Return the counts at some places, which are the categories of `columns`."""
    inner = m.class_counts
    if inner is not None:
        inner = inner[_inner_places(m, places)]
    counts = m.counts[np.ix_(places, places)]
    return dataclasses.replace(m, counts=counts, columns=columns, class_counts=inner)


def _spread(m: Marginals, columns: Columns) -> Marginals:
    """Return the same counts over the larger `columns`."""
    if m.columns == columns:
        return m
    starts = offsets(columns.sizes)
    where = columns.places(m.columns.names)
    pairs = zip(m.columns, where, strict=True)
    places = np.concatenate([starts[j] + c.places(columns[j]) for c, j in pairs])
    inside = 0 if m.class_counts is None else len(m.class_counts)
    check_table_size(columns.sizes, inside, sparse_counts.counts_bytes(m.counts) / 8)
    if sparse_counts.is_large(columns.sizes):
        counts = sparse_counts.moved(m.counts, places, int(starts[-1]))
    else:
        counts = np.zeros((starts[-1], starts[-1]), m.counts.dtype)
        counts[np.ix_(places, places)] = sparse_counts.dense(m.counts)
    wide = dataclasses.replace(m, counts=counts, columns=columns)
    if m.class_counts is None:
        return wide
    K = len(wide.classes)
    D = counts.shape[0] - K
    inner = np.zeros((K, D, D), m.class_counts.dtype)
    inner[_inner_places(wide, places)] = m.class_counts
    return dataclasses.replace(wide, class_counts=inner)


def _inner_places(m: Marginals, places: NDArray[np.intp]) -> tuple[Any, ...]:
    """Return the index into `class_counts` of some places in `counts`."""
    classes = m.columns.spans([m.target])
    features = m.columns.spans(m.feature_names)
    own = np.isin(places, classes)
    inner = np.searchsorted(features, places[~own])
    return np.ix_(np.searchsorted(classes, places[own]), inner, inner)


def _combined(first: Marginals, second: Marginals, sign: int) -> Marginals:
    """Return the sum or the difference over the categories of both."""
    mine = set(first.columns.names)
    theirs = set(second.columns.names)
    if mine != theirs:
        name = min(mine ^ theirs)
        raise ValueError(
            f"The pair counts come from different tables: column {name!r} is in "
            f"{'the first' if name in mine else 'the second'} only."
        )
    if first.target != second.target:
        raise InputError(
            f"The pair counts have different targets, {first.target!r} and "
            f"{second.target!r}: give both the same target.",
            python="Marginals.with_target()",
        )
    settings = first.settings.joined(second.settings)
    where = second.columns.places(first.columns.names)
    pairs = zip(first.columns, where, strict=True)
    columns = Columns.of(column.union(second.columns[j]) for column, j in pairs)
    first = _spread(first, columns)
    second = _spread(second, columns)
    inner = None
    if first.class_counts is not None and second.class_counts is not None:
        inner = first.class_counts + sign * second.class_counts
    total = dataclasses.replace(
        first,
        counts=first.counts + sign * second.counts,
        n=first.n + sign * second.n,
        settings=settings,
        class_counts=inner,
        absent=first.absent | second.absent,
    )
    if first.absent != second.absent:
        # Pairs that are known for some rows only are absent.
        places = total.counts.nonzero()
        column = np.repeat(np.arange(len(columns)), columns.sizes)
        gone = absent_pairs(total)[column[places[0]], column[places[1]]]
        total.counts[places[0][gone], places[1][gone]] = 0
        return dataclasses.replace(total)  # stored again, without these zeros
    return total
