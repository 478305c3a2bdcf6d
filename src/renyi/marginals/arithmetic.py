"""Add, subtract, scale and select marginals.

Counts of disjoint rows add up. Two sets of marginals may have different labels of the
same columns. Each is first *spread* over the categories of both, with zeros for new
ones. Then the tables are added or subtracted entry by entry. After a subtraction,
labels without rows are dropped. The result is the same as counting the remaining rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import check_table_size
from renyi.encoding.bins import checked_edges
from renyi.encoding.columns import AND, Column, Columns
from renyi.encoding.encoder import MERGED, Encoder
from renyi.encoding.merging import Tables, merged_encoder
from renyi.encoding.rules import check_names, merged_levels
from renyi.encoding.tuples import NEW
from renyi.marginals.consistency import (
    absent_pairs,
    check_intervals,
    check_not_negative,
)
from renyi.marginals.repair import repaired
from renyi.marginals.uncertainty import Intervals, Noise, Uncertainty, check_joined
from renyi.validation import InputError

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

# Weights that cancel leave at most this share of the total.
_DUST = 1e-12
_VANISHING = 1e-8  # a smaller rest consists of rounding errors


def added(first: Marginals, second: Marginals, allow_mixed: bool = False) -> Marginals:
    """Return the marginals of the rows of both.

    A private release is added to exact counts with `allow_mixed` only.
    """
    return _combined(first, second, 1, allow_mixed)


def with_uncertainty(m: Marginals, record: Uncertainty) -> Marginals:
    """Return marginals of the same columns that are known by a record alone.

    Nothing else of the counts of m is kept: `counts` and `n` are estimated from the
    record. Counts within classes, which have no record, are dropped.
    """
    if sparse_counts.is_large(m.columns.sizes):
        raise ValueError(
            "Counts of columns with thousands of categories cannot be known to "
            "intervals or with noise: merge rare categories before counting."
        )
    check_record(m.columns, record)
    if isinstance(record, Intervals):
        check_intervals(m, record)
    counts, n = _estimated(m, record)
    return dataclasses.replace(
        m, counts=counts, n=n, class_counts=None, uncertainty=record
    )


def _estimated(m: Marginals, record: Uncertainty) -> tuple[NDArray[Any], float]:
    """Return counts and a number of rows from what is known of them."""
    sizes = m.columns.sizes
    known = ~absent_pairs(m)
    if isinstance(record, Noise):
        rows = None if record.n is None else (record.n, record.n)
        return repaired(record.noisy.astype(np.float64), sizes, known, rows)
    ends = (record.low.astype(np.float64), record.high.astype(np.float64))
    return repaired(record.middles, sizes, known, (record.n_low, record.n_high), ends)


def check_record(columns: Columns, record: Uncertainty) -> None:
    """Raise an error if the tables of a record do not fit the columns."""
    size = int(columns.sizes.sum())
    if any(table.shape != (size, size) for table in record.arrays.values()):
        raise ValueError(
            f"The uncertainty must have tables of {size} by {size} categories."
        )


def subtracted(first: Marginals, second: Marginals) -> Marginals:
    """Return the marginals of `first` without the rows of `second`."""
    for m in (first, second):
        if isinstance(m.uncertainty, Noise):
            raise ValueError(
                "Counts with noise cannot be subtracted, or subtracted from: add the "
                "releases of the other rows instead."
            )
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
    if m.uncertainty is not None:
        raise ValueError(
            "Only exact counts can be scaled: intervals and noise are those of the "
            "rows that were counted."
        )
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


def coarsened(m: Marginals, edges: Mapping[str, Sequence[float]]) -> Marginals:
    """Return the marginals with neighbouring bins merged; see `Marginals.coarsen`."""
    if m.target in edges:
        raise ValueError(f"{m.target!r} is the target: its classes cannot be merged.")
    columns = {column.name: column for column in m.columns}
    for name, kept in edges.items():
        stay = checked_edges(name, kept) if len(kept) else ()
        columns[name] = Column(name, merged_levels(m.columns.named(name), stay))
    return in_bins(m, Columns.of(columns.values()))


def in_bins(m: Marginals, columns: Columns) -> Marginals:
    """Return the marginals over columns of which some have merged bins."""
    if m.columns == columns:
        return m
    if m.order > 1:
        raise ValueError(
            "The marginals count tuples of columns, whose bins cannot be merged: count "
            "the rows again with an encoder of these bins."
        )
    if isinstance(m.uncertainty, Noise):
        raise ValueError(
            "Bins of a private release cannot be merged: the noise of a sum is not "
            "that of a count. Declare fewer bins before the release."
        )
    place = _places_in(m, columns)
    first = np.flatnonzero(np.diff(place, prepend=-1))

    def merged(table: NDArray[Any]) -> NDArray[Any]:
        lines = np.add.reduceat(table, first, axis=-2)
        return np.add.reduceat(lines, first, axis=-1)

    if m.uncertainty is not None:
        return _with_columns(m, columns, m.uncertainty.mapped(merged))
    size = int(columns.sizes.sum())
    if sparse_counts.is_sparse(m.counts):
        counts = sparse_counts.moved(m.counts, place, size)
    else:
        counts = merged(m.counts)
    inner = m.class_counts
    if inner is not None:
        own = place[m.columns.spans(m.feature_names)]
        first = np.flatnonzero(np.diff(own, prepend=-1))
        inner = merged(inner)
    return dataclasses.replace(m, counts=counts, columns=columns, class_counts=inner)


def merged_by_classes(m: Marginals) -> Marginals:
    """Return marginals whose bins are merged by the classes, if they ask for it."""
    if not m.settings.is_fine:
        return m
    counts = m.target_counts
    starts = offsets(m.encoder.columns.sizes)
    tables: Tables = [
        np.asarray(counts[starts[j] : starts[j + 1]], np.float64)
        if column.kind == "number"
        else None
        for j, column in enumerate(m.encoder.columns)
    ]
    encoder = merged_encoder(m.encoder, tables)
    features = {column.name: column for column in encoder.columns}
    columns = Columns.of(features.get(c.name, c) for c in m.columns)
    settings = dataclasses.replace(m.settings, binning=MERGED)
    return dataclasses.replace(in_bins(m, columns), settings=settings)


def to_be_merged(m: Marginals, encoder: Encoder | None) -> Marginals:
    """Return marginals that ask for merged bins, if an unfitted encoder does."""
    if encoder is None or encoder.columns or not encoder.fresh.is_fine:
        return m
    if m.order > 1:
        raise InputError(
            "{binning} merges bins of single columns, but the marginals count tuples "
            "of columns: count them with this setting.",
            binning="supervised",
        )
    settings = dataclasses.replace(
        m.settings,
        binning=encoder.fresh.binning,
        bins=encoder.bins,
        monotone=encoder.monotone,
    )
    return dataclasses.replace(m, settings=settings)


def occurring(m: Marginals) -> Marginals:
    """Drop the labels without rows; keep the bins of numbers."""
    if isinstance(m.uncertainty, Noise):  # its categories are declared, not counted
        return m
    starts = offsets(m.columns.sizes)
    keep = largest_totals(m) > 0
    columns = []
    for j, column in enumerate(m.columns):
        held = keep[starts[j] : starts[j + 1]]
        if column.kind == "number":
            held[: len(column.levels.edges) + 1] = True
        elif m.order > 1 and AND in column.name and NEW in column.categories:
            held[column.categories.index(NEW)] = True
        kept = tuple(c for c, h in zip(column.categories, held, strict=True) if h)
        columns.append(column._replace(levels=column.levels._replace(categories=kept)))
    if keep.all():
        return m
    return _taken(m, Columns.of(columns), np.flatnonzero(keep))


def largest_totals(m: Marginals) -> NDArray[Any]:
    """Return the most rows that each category may have."""
    if isinstance(m.uncertainty, Intervals):
        return m.uncertainty.high.diagonal()
    return np.asarray(m.counts.diagonal())


def _changed(
    m: Marginals, n: float, change: Callable[[NDArray[Any]], NDArray[Any]]
) -> Marginals:
    """Return marginals whose tables are changed entry by entry."""
    inner = None if m.class_counts is None else change(m.class_counts)
    counts = sparse_counts.changed(m.counts, change)
    return dataclasses.replace(m, n=n, counts=counts, class_counts=inner)


def _taken(m: Marginals, columns: Columns, places: NDArray[np.intp]) -> Marginals:
    """Return the counts at some places, which are the categories of `columns`."""
    if m.uncertainty is not None:
        record = m.uncertainty.mapped(lambda table: table[np.ix_(places, places)])
        return _with_columns(m, columns, record)
    inner = m.class_counts
    if inner is not None:
        inner = inner[_inner_places(m, places)]
    counts = m.counts[np.ix_(places, places)]
    return dataclasses.replace(m, counts=counts, columns=columns, class_counts=inner)


def _with_columns(m: Marginals, columns: Columns, record: Uncertainty) -> Marginals:
    """Return marginals of other columns that are known by a record alone."""
    names = set(columns.names)
    absent = frozenset(pair for pair in m.absent if pair <= names)
    size = int(columns.sizes.sum())
    empty = dataclasses.replace(
        m,
        columns=columns,
        counts=np.zeros((size, size)),
        class_counts=None,
        absent=absent,
        uncertainty=None,
    )
    return with_uncertainty(empty, record)


def spread(m: Marginals, columns: Columns) -> Marginals:
    """Return the same counts over the larger `columns`."""
    if m.columns == columns:
        return m
    starts = offsets(columns.sizes)
    places = _places_in(m, columns)
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


def _places_in(m: Marginals, columns: Columns) -> NDArray[np.intp]:
    """Return the places of the categories of m among those of larger columns."""
    starts = offsets(columns.sizes)
    where = columns.places(m.columns.names)
    pairs = zip(m.columns, where, strict=True)
    return np.concatenate([starts[j] + c.places(columns[j]) for c, j in pairs])


def _inner_places(m: Marginals, places: NDArray[np.intp]) -> tuple[Any, ...]:
    """Return the index into `class_counts` of some places in `counts`."""
    classes = m.columns.spans([m.target])
    features = m.columns.spans(m.feature_names)
    own = np.isin(places, classes)
    inner = np.searchsorted(features, places[~own])
    return np.ix_(np.searchsorted(classes, places[own]), inner, inner)


def _combined(
    first: Marginals, second: Marginals, sign: int, allow_mixed: bool = False
) -> Marginals:
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
    check_joined(first.uncertainty, second.uncertainty, allow_mixed)
    if first.uncertainty is not None or second.uncertainty is not None:
        first = dataclasses.replace(first, settings=settings)
        return _combined_records(first, second, columns, sign)
    first = spread(first, columns)
    second = spread(second, columns)
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


def _combined_records(
    first: Marginals, second: Marginals, columns: Columns, sign: int
) -> Marginals:
    """Return the sum or difference of marginals that are not both exact."""
    absent = first.absent | second.absent
    total = dataclasses.replace(first, absent=absent)
    if isinstance(first.uncertainty, Noise) or isinstance(second.uncertainty, Noise):
        return _with_columns(total, columns, _noise_sum(first, second, columns))
    known = [_intervals_in(m, columns) for m in (first, second)]
    record = known[0] + known[1] if sign > 0 else known[0] - known[1]
    if first.absent != second.absent:
        gone = _absent_cells(absent, columns)
        record = record.mapped(lambda table: np.where(gone, 0, table))
    return _with_columns(total, columns, record)


def _intervals_in(m: Marginals, columns: Columns) -> Intervals:
    """Return what is known of counts over larger columns, exact ones included."""
    record = m.uncertainty
    if record is None:
        _check_whole(m)
        record = Intervals.exact(m.counts, m.n)
    assert isinstance(record, Intervals)
    return record.mapped(lambda table: _placed(m, columns, table))


def _noise_sum(first: Marginals, second: Marginals, columns: Columns) -> Noise:
    """Return the sum of private releases, or of one and exact counts."""
    size = int(columns.sizes.sum())
    if any(m.columns.sizes.sum() < size for m in (first, second)):
        raise ValueError(
            "The categories of a private release are declared before counting, so "
            "those of counts to add to it must be the same: use one encoder."
        )
    records: list[Noise] = []
    exact: Marginals | None = None
    for m in (first, second):
        if isinstance(m.uncertainty, Noise):
            record = m.uncertainty
            records.append(record.mapped(partial(_placed, m, columns)))
        else:
            exact = m
    if exact is None:
        return records[0] + records[1]
    _check_whole(exact)
    counts = _placed(exact, columns, sparse_counts.dense(exact.counts))
    which = np.repeat(np.arange(len(columns)), columns.sizes)
    counts[which[:, None] == which] = 0
    return records[0].with_exact(counts, exact.n)


def _check_whole(m: Marginals) -> None:
    """Raise an error if counts are sums of weights."""
    if m.weighted:
        raise ValueError(
            "Weighted counts cannot be added to intervals or noise: count the rows "
            "without weights."
        )


def _placed(
    m: Marginals, columns: Columns, table: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a table over larger columns; no row has their other categories."""
    size = int(columns.sizes.sum())
    places = _places_in(m, columns)
    wide = np.zeros((size, size), np.int64)
    wide[np.ix_(places, places)] = table
    return wide


def _absent_cells(absent: frozenset[frozenset[str]], columns: Columns) -> Any:
    """Return which cells belong to absent pairs."""
    pairs = np.zeros((len(columns),) * 2, bool)
    for pair in absent:
        a, b = columns.places(sorted(pair))
        pairs[[a, b], [b, a]] = True
    which = np.repeat(np.arange(len(columns)), columns.sizes)
    return pairs[np.ix_(which, which)]
