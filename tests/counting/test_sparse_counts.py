"""Sparse tables hold the counts of the dense ones, and no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi.counting import sparse_counts
from renyi.counting.onehot import dense as one_hot
from renyi.counting.pair_counts import pair_counts


@given(
    seed=st.integers(0, 10**6),
    few=st.sampled_from([0, 16, 80]),
    n=st.integers(0, 80),
    weighted=st.booleans(),
)
def test_counts_are_those_of_one_hot_rows(seed, few, n, weighted) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, size=rng.integers(1, 6))
    codes = np.array([rng.integers(size, size=n) for size in sizes])
    weights = rng.choice([0.25, 1.0, 3.0], n) if weighted else None
    W = one_hot(codes, sizes)
    want = W.T @ (W if weights is None else weights[:, None] * W)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_counts, "FEW", few)
        patch.setattr(sparse_counts, "OWN_SHARE", 0.0)
        table = pair_counts(codes, sizes, weights)
        assert sparse_counts.is_sparse(table) == (sizes.sum() > few)
        stored = sparse_counts.stored(want.astype(table.dtype), sizes)
        assert sparse_counts.equal(stored, table)
    assert table.dtype == (np.int64 if weights is None else np.float64)
    np.testing.assert_array_equal(sparse_counts.dense(table), want)
    sums = sparse_counts.column_sums(table, sizes)
    np.testing.assert_allclose(sums, np.broadcast_to(want.diagonal(), sums.shape))


@given(seed=st.integers(0, 10**6))
def test_places_are_moved_added_up_or_dropped(seed) -> None:
    rng = np.random.default_rng(seed)
    sizes, n = [4, 3, 5], 30
    codes = np.array([rng.integers(size, size=n) for size in sizes])
    merged = [rng.integers(-1, 3, size=size) for size in sizes]
    starts = [0, 3, 6]
    target = np.concatenate(
        [np.where(m < 0, -1, m + s) for m, s in zip(merged, starts, strict=True)]
    )
    moved = sparse_counts.moved(pair_counts(codes, sizes), target, 9).toarray()
    W = np.zeros((n, 10))
    for m, s, row in zip(merged, starts, codes, strict=True):
        W[np.arange(n), np.where(m[row] < 0, 9, m[row] + s)] = 1
    np.testing.assert_array_equal(moved, (W.T @ W)[:9, :9])


def test_a_table_is_stored_by_its_numbers_of_categories_alone() -> None:
    assert sparse_counts.is_large([9_000, 8, 8, 2])
    assert sparse_counts.is_large([5_000, 5_000, 8, 2])
    assert not sparse_counts.is_large([1_900, 8, 2])
    assert not sparse_counts.is_large([3] * 2_000)
    codes = np.zeros((2, 3), np.uint32)
    assert pair_counts(codes, [10**6, 5]).nnz == 4


@pytest.mark.parametrize("few", [0, 2_000])
def test_a_table_is_put_together_block_by_block(monkeypatch, few) -> None:
    monkeypatch.setattr(sparse_counts, "FEW", few)
    rng = np.random.default_rng(0)
    sizes = [4, 30, 3]
    codes = np.array([rng.integers(size, size=50) for size in sizes])
    want = pair_counts(codes, sizes)
    starts = [0, 4, 34, 37]
    spans = [slice(*starts[i:][:2]) for i in range(3)]
    blocks = sparse_counts.Blocks(sizes, np.int64)
    whole = sparse_counts.dense(want)
    for i in range(3):
        blocks.put(i, i, whole.diagonal()[spans[i]])
        for j in range(i + 1, 3):
            blocks.put(i, j, whole[spans[i], spans[j]])
    assert sparse_counts.is_sparse(want) == (few == 0)
    assert sparse_counts.equal(blocks.table(), want)
