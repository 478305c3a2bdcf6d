"""Where the categories of columns are in the counts of marginals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.counting.onehot import offsets
from renyi.encoding.columns import Column
from renyi.limits import check_memory

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals


def column_of(m: Marginals, name: str) -> Column:
    """Return a column by its name."""
    return m.columns[m.columns.places([name])[0]]


def target_of(m: Marginals) -> Column:
    """Return the column to predict."""
    return column_of(m, m.target)


def spans(m: Marginals, names: Iterable[str]) -> NDArray[np.intp]:
    """Return the places in `counts` of the categories of some columns."""
    starts = offsets(m.columns.sizes)
    where = m.columns.places(names)
    places = [np.arange(starts[j], starts[j + 1]) for j in where]
    return np.concatenate(places) if places else np.empty(0, np.intp)


def block_counts(
    m: Marginals, first: Iterable[str], second: Iterable[str]
) -> NDArray[Any]:
    """Return the counts of the categories of some columns with those of others."""
    rows = spans(m, first)
    columns = spans(m, second)
    what = f"A table of {len(rows):,} by {len(columns):,} categories"
    check_memory(m.counts.dtype.itemsize * len(rows) * len(columns), what)
    return sparse_counts.dense(m.counts[np.ix_(rows, columns)])


def n_indicators(m: Marginals) -> int:
    """Return the number of categories of the features that have rows."""
    alone = m.counts.diagonal()[spans(m, m.feature_names)]
    return int(np.count_nonzero(alone))
