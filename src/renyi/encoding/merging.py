r"""Bins that follow the outcome: neighbouring bins are merged by the classes of rows.

Numbers are first cut into at most `FINE_BINS` quantile bins, without a look at the
classes. All that the merge needs is how many rows of each class are in each fine bin,
so that it is the same from rows and from pair counts.

A bin with n rows, n_c of them of class c, has the squared error
:math:`n - \sum_c n_c^2 / n` of the indicators of the classes around their means. So the
merge of least squared error maximises

.. math:: \sum_{\text{bins}} \sum_c n_c^2 / n .

It has at most k bins, each with a smallest share of the rows. It is found exactly, by
dynamic programming over the last bin, and of equally good ones it has the fewest bins.
The share of the second of two classes may have to rise from bin to bin. A last bin then
only follows bins of at most its share; if the share has to fall, of at least its share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.bins import default_bins
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import MERGED, Encoder
from renyi.encoding.rules import merged_levels
from renyi.validation import ParameterError

Floats = NDArray[np.float64]
Tables = list[NDArray[np.float64] | None]

LEAST_ROWS = 20
LEAST_SHARE = 0.05
"""Rows in a merged bin at least, if they are no larger share of all rows than that."""

_DIGITS = 12  # of the gain of one bin, so that it is the same on every input path
_TIE = 1e-10  # gains of whole merges that differ by less are equal


class Merge(NamedTuple):
    """Where merged bins begin, among the fine ones, and what they are worth."""

    starts: tuple[int, ...]
    gain: float


def best_merge(counts: Floats, most: int, least: float, trend: int = 0) -> Merge:
    """Return the merge of least squared error.

    Parameters
    ----------
    counts : ndarray of shape (bins, classes)
        Rows (or weight) of each class in each fine bin.
    most : int
        Most merged bins.
    least : float
        Smallest weight of a merged bin.
    trend : {-1, 0, 1}, default=0
        With 1 the share of the second class rises from bin to bin, with -1 it falls.
    """
    size = len(counts)
    sums = np.vstack([np.zeros(counts.shape[1]), np.cumsum(counts, axis=0)])
    within = sums[None, :, :] - sums[:, None, :]  # of the fine bins from i to j - 1
    rows = within.sum(axis=2)
    divisor = np.where(rows > 0, rows, 1.0)
    total = float(sums[-1].sum())
    gain = np.round((within**2).sum(axis=2) / divisor / max(total, 1e-300), _DIGITS)
    possible = np.triu(np.ones(rows.shape, bool), 1) & (rows >= least)
    gain[~possible] = -np.inf
    shares = None
    if trend:
        shares = np.round(trend * within[:, :, 1] / divisor, _DIGITS)
    value = np.full(gain.shape, -np.inf)
    value[0] = gain[0]
    values = [value]
    before = []
    for _ in range(1, min(most, size)):
        best, start = _one_before(values[-1], shares)
        values.append(gain + best)
        before.append(start)
    gains = np.array([value[:, size].max() for value in values])
    if not np.isfinite(gains).any():  # no weight at all
        return Merge((0,), 0.0)
    best_gain = float(gains.max())
    last = int(np.flatnonzero(gains >= best_gain - _TIE)[0])
    starts = [int(values[last][:, size].argmax())]
    end = size
    for start in before[:last][::-1]:
        begin = starts[-1]
        starts.append(int(start[begin, end]))
        end = begin
    return Merge(tuple(starts[::-1]), best_gain)


def _one_before(
    value: Floats, shares: Floats | None
) -> tuple[Floats, NDArray[np.intp]]:
    """Return the best value of the bins before each last bin, and where their last is.

    `value` is that of the bins up to a last one, from i to j - 1.
    """
    if shares is None:
        start = value.argmax(axis=0)
        best = value[start, np.arange(len(value))]
        shape = value.shape
        return np.broadcast_to(best[:, None], shape), np.broadcast_to(
            start[:, None], shape
        )
    best = np.full(value.shape, -np.inf)
    start = np.zeros(value.shape, np.intp)
    for i in range(1, len(value) - 1):
        order = np.argsort(shares[:i, i], kind="stable")
        ranked = value[order, i]
        largest = np.maximum.accumulate(ranked)
        fresh = np.append(True, largest[1:] > largest[:-1])
        place = np.maximum.accumulate(np.where(fresh, np.arange(i), 0))
        allowed = np.searchsorted(shares[order, i], shares[i, i + 1 :], side="right")
        some = np.flatnonzero(allowed)
        best[i, i + 1 + some] = largest[allowed[some] - 1]
        start[i, i + 1 + some] = order[place[allowed[some] - 1]]
    return best, start


# ---- columns


def merged_encoder(encoder: Encoder, tables: Tables) -> Encoder:
    """Return the encoder with its bins merged by the classes.

    Parameters
    ----------
    encoder : Encoder
        The fitted encoder, whose bins are fine.
    tables : list of ndarray or None
        Rows (or weight) of each category and class, for each column of numbers.
    """
    trends = dict(encoder.monotone)
    names = encoder.columns.names
    for name in trends:
        if name in names and encoder.columns.named(name).kind != "number":
            raise ParameterError(
                "monotone",
                f"names {name!r}, which is a column of labels: leave it out, or say "
                "that it is a number.",
            )
    columns = []
    for column, table in zip(encoder.columns, tables, strict=True):
        if table is not None:
            column = _merged(encoder, column, table, trends.get(column.name))
        columns.append(column)
    return encoder.with_columns(Columns.of(columns), MERGED)


def _merged(
    encoder: Encoder, column: Column, table: Floats, direction: str | None
) -> Column:
    """Return a column of numbers with its bins merged."""
    edges = np.array(column.levels.edges)
    wanted = encoder.wanted_bins(column.name)
    if isinstance(wanted, tuple):
        return Column(column.name, merged_levels(column, wanted))
    counts = table[: len(edges) + 1]
    total = float(counts.sum())
    most = default_bins(total) if isinstance(wanted, str) else wanted
    least = min(LEAST_ROWS, LEAST_SHARE * total, total / (2 * most))
    if direction is not None and counts.shape[1] != 2:
        raise ParameterError(
            "monotone",
            f"is for two classes, but there are {counts.shape[1]}: leave it out.",
        )
    trends = {None: [0], "increasing": [1], "decreasing": [-1], "auto": [1, -1]}
    merges = [best_merge(counts, most, least, trend) for trend in trends[direction]]
    best = max(merges, key=lambda merge: merge.gain)
    kept = edges[[start - 1 for start in best.starts[1:]]]
    return Column(column.name, merged_levels(column, kept.tolist()))
