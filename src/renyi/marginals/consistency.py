"""Check whether some distribution of rows could have given marginals.

These conditions are necessary. An error names the columns that violate one:

* no count is negative;
* every column has n rows, and the margins agree: a category has as many rows by itself
  as in its table with any other column;
* counts within the classes, where there are any, add up to those of all rows;
* the table of all pairs, ``E[W Wᵀ]`` with the target in W, is positive semidefinite.

They are not sufficient, since deciding whether a distribution exists is NP-hard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.counting.onehot import Sizes, offsets
from renyi.counting.pair_counts import check_table_size
from renyi.validation import InputError

if TYPE_CHECKING:
    from renyi.encoding.columns import Columns
    from renyi.marginals.marginals import Marginals
    from renyi.marginals.uncertainty import Intervals

# With at most this many categories, the check of `check_possible` costs little.
_CHECKED_SIZE = 2_000
TOLERANCE = 1e-6
"""Allowed disagreement of counts, as a share of all rows, for rounded sums."""
_CELLS = 2**23  # cells of margins that are checked at once


def check_possible(m: Marginals) -> None:
    """Raise an error for marginals that no rows can have, if the check costs little.

    The whole table of pairs must be positive semidefinite: shifted by the tolerance, it
    has a Cholesky factor.
    """
    if m.counts.shape[0] > _CHECKED_SIZE or sparse_counts.is_sparse(m.counts):
        return
    if not positive_definite(m.counts / m.n + TOLERANCE * np.eye(len(m.counts))):
        validate(m, TOLERANCE)


def validate(m: Marginals, tolerance: float) -> Marginals:
    """Return the marginals if they pass; see `Marginals.validate`."""
    check_counts(m, tolerance)
    names = _fully_known(m)
    places = m.columns.spans(names)
    sizes = m.columns.sizes[m.columns.places(names)]
    table = m.counts[np.ix_(places, places)] / m.n
    if sparse_counts.is_sparse(table):
        vector = _negative_direction(table, sizes, tolerance)
    else:
        vector = np.linalg.eigh(table)[1][:, 0]
    least = float(vector @ (table @ vector))
    if least >= -tolerance:
        return m
    share = np.add.reduceat(vector**2, offsets(sizes)[:-1])
    worst = [names[j] for j in np.argsort(-share)[:3].tolist()]
    raise ValueError(
        "No distribution has these pair counts: the table of all pairs, target "
        f"included, has an eigenvalue {least:.3g} or below, which cannot be negative. "
        f"The counts of {', '.join(map(repr, worst))} contradict each other most."
    )


def _negative_direction(
    table: sparse_counts.Table, sizes: Sizes, tolerance: float
) -> NDArray[np.float64]:
    """Return a unit vector v with ``vᵀTv < -tolerance``, or zeros if there is none.

    The largest column, L, is eliminated from T + tolerance·I, as its block is diagonal.
    ``S = T_SS − T_SL Δ T_LS`` is indefinite if and only if T is.
    """
    j = int(np.argmax(sizes))
    starts = offsets(sizes)
    large = np.arange(*starts[j:][:2])
    small = np.delete(np.arange(starts[-1]), large)
    out = np.zeros(starts[-1])
    check_table_size([len(small)], 1, 0)
    shift = max(tolerance, np.finfo(float).eps)
    B = table[np.ix_(small, large)]
    inverse = 1 / (table.diagonal()[large] + shift)
    S = sparse_counts.dense(table[np.ix_(small, small)] - (B * inverse) @ B.T)
    S.flat[:: len(S) + 1] += shift
    if len(S) and not positive_definite(S):
        least = np.linalg.eigh(S)[1][:, 0]
        out[small] = least
        out[large] = -inverse * (B.T @ least)
        out /= np.linalg.norm(out)
    return out


def positive_definite(S: NDArray[np.float64]) -> bool:
    """Return whether a matrix has a Cholesky factor."""
    from scipy.linalg import lapack  # takes a tenth of a second to import

    return not lapack.dpotrf(S, lower=1, clean=0)[1]


def _fully_known(m: Marginals) -> list[str]:
    """Return columns without absent pairs among them, including the target."""
    if not m.absent:
        return list(m.columns.names)
    known = [m.target]
    for name in m.feature_names:
        if all(frozenset((name, other)) not in m.absent for other in known):
            known.append(name)
    return known


def check_not_negative(m: Marginals, when: str) -> None:
    """Raise an error that names a negative count."""
    if m.counts.shape[0] and not m.counts.min() >= 0:
        a, b = np.unravel_index(int(m.counts.argmin()), m.counts.shape)
        raise ValueError(
            f"The count of {_name(m, int(a))} with {_name(m, int(b))} is "
            f"{m.counts[a, b]:g} {when}: counts cannot be negative."
        )
    inner = m.class_counts
    if inner is not None and inner.size and not inner.min() >= 0:  # nor is it NaN
        k = int(np.unravel_index(int(inner.argmin()), inner.shape)[0])
        label = m.columns.named(m.target).levels.texts[k]
        raise ValueError(
            f"A count within {m.target} = {label} is {inner.min():g} {when}: "
            "counts cannot be negative."
        )


def check_counted(m: Marginals, pairs: Iterable[tuple[str, str]]) -> None:
    """Raise an error that names a pair of columns without joint counts."""
    for first, second in pairs:
        if frozenset((first, second)) in m.absent:
            raise InputError(
                f"The joint counts of {first!r} and {second!r} are not among the "
                "tables: add a table of the two, or leave one out.",
                "drop",
                python="Marginals.select()",
            )


def check_intervals(m: Marginals, record: Intervals) -> None:
    """Raise an error that names intervals in which no tables agree with each other.

    In every table, the cells of a category must be able to add up to its own count, and
    all categories of a column to the number of rows.
    """
    starts = offsets(m.columns.sizes)[:-1]
    low = np.add.reduceat(record.low, starts, axis=1)
    high = np.add.reduceat(record.high, starts, axis=1)
    absent = absent_pairs(m)[np.repeat(np.arange(len(m.columns)), m.columns.sizes)]
    most = record.high.diagonal()[:, None]
    least = record.low.diagonal()[:, None]
    gaps = np.where(absent, 0, np.maximum(low - most, least - high))
    place, j = map(int, np.unravel_index(int(gaps.argmax()), gaps.shape))
    if gaps[place, j] > 0:
        raise ValueError(
            f"The intervals contradict each other: {_name(m, place)} has "
            f"{int(least[place, 0]):,} to {int(most[place, 0]):,} rows by itself, but "
            f"{low[place, j]:,} to {high[place, j]:,} in its table with "
            f"{m.columns.names[j]!r}."
        )
    low = np.add.reduceat(record.low.diagonal(), starts)
    high = np.add.reduceat(record.high.diagonal(), starts)
    j = int(np.maximum(low - record.n_high, record.n_low - high).argmax())
    if low[j] > record.n_high or high[j] < record.n_low:
        raise ValueError(
            f"The intervals contradict each other: the counts of "
            f"{m.columns.names[j]!r} add up to {low[j]:,} to {high[j]:,} rows, but "
            f"there are {record.n_low:,} to {record.n_high:,}."
        )


def check_exact(m: Marginals, what: str) -> None:
    """Raise an error that names what needs exact counts, if these are not."""
    if m.uncertainty is not None:
        kind = m.uncertainty.to_dict()["kind"]
        known = "have noise" if kind == "noise" else "are known to intervals only"
        raise ValueError(
            f"{what} needs exact counts, but these {known}: certify() bounds the error "
            "of a model from them."
        )


def absent_pairs(m: Marginals) -> NDArray[np.bool_]:
    """Return for every pair of columns whether its joint counts are absent."""
    absent = np.zeros((len(m.columns),) * 2, bool)
    for first, second in m.absent_places():
        absent[first, second] = True
    return absent


def _name(m: Marginals, place: int) -> str:
    """Return ``column = category`` for a place in `counts`."""
    starts = offsets(m.columns.sizes)
    j = int(np.searchsorted(starts, place, side="right")) - 1
    column = m.columns[j]
    return f"{column.name} = {column.levels.texts[place - starts[j]]}"


class _Margins(NamedTuple):
    """Tables of some columns, starting with `first`, with all columns."""

    first: int
    sums: NDArray[np.float64]  # rows of each category in its table with each of them
    gaps: NDArray[np.float64]  # errors of the sums
    absent: NDArray[np.bool_]  # whether a pair is absent


def _margins(m: Marginals) -> Iterator[_Margins]:
    """Yield the margins of some columns at a time, to limit memory."""
    sizes = m.columns.sizes
    alone = m.counts.diagonal()
    starts = offsets(sizes)
    step = max(1, _CELLS // max(1, len(alone)))
    places = np.array(m.absent_places(), np.intp).reshape(-1, 2)
    for low in range(0, len(sizes), step):
        own = sizes[low : low + step]
        lines = m.counts[starts[low] : starts[low + len(own)]]
        sums = sparse_counts.column_sums(lines, own)
        absent = np.zeros((len(own), len(sizes)), bool)
        there = (places[:, 0] >= low) & (places[:, 0] < low + len(own))
        absent[places[there, 0] - low, places[there, 1]] = True
        gaps = np.abs(sums - alone)
        gaps[absent.repeat(sizes, axis=1)] = 0
        yield _Margins(low, sums, gaps, absent)


def _totals(alone: NDArray[Any], columns: Columns) -> NDArray[np.float64]:
    """Return the number of rows of each column, summed over its categories."""
    # As floats: an overflow of integers might give the right sum.
    starts = offsets(columns.sizes)[:-1]
    return np.asarray(np.add.reduceat(alone, starts, dtype=np.float64))


def check_totals(
    alone: NDArray[Any], columns: Columns, n: float, tolerance: float
) -> None:
    """Raise an error that names a column whose categories do not add up to n rows."""
    totals = _totals(alone, columns)
    off = np.abs(totals - n)
    j = int(off.argmax())
    if not off[j] <= tolerance * n:
        raise ValueError(
            f"The counts of {columns.names[j]!r} add up to {totals[j]:g}, not to the "
            f"{n:g} rows of the pair counts."
        )


def disagreement(m: Marginals) -> float:
    """Return the largest disagreement of totals or margins, as a share of all rows."""
    totals = _totals(m.counts.diagonal(), m.columns)
    gaps = [float(margins.gaps.max()) for margins in _margins(m)]
    return max(float(np.abs(totals - m.n).max()), *gaps) / m.n


def check_counts(m: Marginals, tolerance: float) -> None:
    """Raise an error that names counts which are negative or do not add up."""
    check_not_negative(m, "in the pair counts")
    check_totals(m.counts.diagonal(), m.columns, m.n, tolerance)
    for margins in _margins(m):
        _check_margins(m, margins, tolerance)
    if m.class_counts is not None:
        _check_classes(m, m.class_counts, tolerance)


def _check_margins(m: Marginals, margins: _Margins, tolerance: float) -> None:
    """Raise an error that names margins that disagree, or should be absent."""
    first, sums, gaps, absent = margins
    names = m.columns.names
    blocks = np.add.reduceat(sums, offsets(m.columns.sizes)[:-1], axis=1)
    there = (blocks > 0) & absent
    if there.any():
        i, j = map(int, np.unravel_index(int(there.argmax()), there.shape))
        raise ValueError(
            f"The joint counts of {names[first + i]!r} and {names[j]!r} are declared "
            "absent, but they are present."
        )
    j, place = map(int, np.unravel_index(int(gaps.argmax()), gaps.shape))
    if gaps[j, place] > tolerance * m.n:
        raise ValueError(
            f"The margins disagree: {_name(m, place)} has {m.counts[place, place]:g} "
            f"rows by itself, but {sums[j, place]:g} in its table with "
            f"{names[first + j]!r} (off by {gaps[j, place]:g})."
        )


def _check_classes(m: Marginals, inner: NDArray[Any], tolerance: float) -> None:
    """Compare counts within classes with those of all rows, and with the target's."""
    names = m.feature_names
    places = m.columns.spans(names)
    pairs = sparse_counts.block(m.counts, places, places)
    off = np.abs(inner.sum(axis=0, dtype=np.float64) - pairs)
    own = np.diagonal(inner, axis1=1, axis2=2)
    classes = m.columns.spans([m.target])
    apart = np.abs(own - sparse_counts.block(m.counts, classes, places))
    for gap, what in ((off, "all rows"), (apart, "the target")):
        worst = gap.max(initial=0)
        if not worst <= tolerance * m.n:
            place = int(places[np.unravel_index(int(gap.argmax()), gap.shape)[1]])
            raise ValueError(
                f"The counts within the classes disagree with those of {what}: "
                f"{_name(m, place)} is off by {worst:g}."
            )


def class_pairs(m: Marginals, reason: str) -> NDArray[Any]:
    """Return the pair counts within each class, or raise an error with the reason."""
    if m.class_counts is None:
        raise InputError(
            f"{reason} needs the pair counts within each class: count again with "
            "{class_conditional}.",
            class_conditional=True,
        )
    return m.class_counts


def n_indicators(m: Marginals) -> int:
    """Return the number of categories of the features that have rows."""
    alone = m.counts.diagonal()[m.columns.spans(m.feature_names)]
    return int(np.count_nonzero(alone))
