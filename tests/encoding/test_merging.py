"""The merge of bins by the classes, against all merges that there are."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from renyi.encoding.merging import best_merge

small_tables = st.tuples(st.integers(1, 7), st.integers(2, 3)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 6))
)


def squared_error(part):
    """Squared error of the indicators of the classes around their means."""
    n = int(part.sum())
    if n == 0:
        return Fraction(0)
    shares = [Fraction(int(c), n) for c in part]
    return sum(
        count * sum(((k == c) - share) ** 2 for k, share in enumerate(shares))
        for c, count in enumerate(part.tolist())
    )


def merges(counts, most, least, trend):
    """Yield the starts and the squared error of every merge that is allowed."""
    size = len(counts)
    for bins in range(1, min(most, size) + 1):
        for cuts in combinations(range(1, size), bins - 1):
            starts = (0, *cuts)
            parts = [counts[a:b].sum(axis=0) for a, b in pairwise((*starts, size))]
            if any(part.sum() < least or part.sum() == 0 for part in parts):
                continue
            shares = [Fraction(int(p[1]), int(p.sum())) * trend for p in parts]
            if all(a <= b for a, b in pairwise(shares)):
                yield starts, sum(map(squared_error, parts))


@given(
    small_tables,
    st.integers(1, 5),
    st.sampled_from([0.01, 0.1, 0.3, 0.6]),
    st.sampled_from([-1, 0, 1]),
)
def test_the_merge_has_the_least_squared_error_of_all(counts, most, share, trend):
    total = int(counts.sum())
    least = share * total
    chosen = best_merge(counts.astype(float), most, least, trend)
    if total == 0:
        assert chosen.starts == (0,)
        return
    allowed = dict(merges(counts, most, least, trend))
    smallest = min(allowed.values())
    assert allowed[chosen.starts] == smallest  # and the merge itself is allowed
    fewest = min(len(starts) for starts, e in allowed.items() if e == smallest)
    assert len(chosen.starts) == fewest
    # n − Σ n_c²/n is the squared error.
    assert chosen.gain * total == pytest.approx(total - float(smallest), abs=1e-9)


@given(small_tables, st.integers(1, 5), st.sampled_from([-1, 0, 1]))
def test_merging_again_changes_nothing(counts, most, trend):
    least = 0.1 * counts.sum()
    starts = best_merge(counts.astype(float), most, least, trend).starts
    merged = np.add.reduceat(counts, starts, axis=0)
    again = best_merge(merged.astype(float), most, least, trend)
    assert again.starts == (*range(len(starts)),)


@pytest.mark.parametrize("trend", [0, 1])
def test_many_bins_are_merged_in_time(trend):
    rows = np.random.default_rng(0).integers(0, 50, (128, 2)).astype(float)
    starts = best_merge(rows, 20, 0.02 * rows.sum(), trend).starts
    parts = np.add.reduceat(rows, starts, axis=0)
    assert 1 < len(starts) <= 20
    assert parts.sum(axis=1).min() >= 0.02 * rows.sum()
    if trend:
        assert (np.diff(parts[:, 1] / parts.sum(axis=1)) >= 0).all()
