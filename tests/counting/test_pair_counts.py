"""Counting: every way of counting against the explicit one-hot matrix."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from renyi import compiled
from renyi.counting import histograms, onehot
from renyi.counting.bitplanes import plane_table
from renyi.counting.pair_counts import (
    KERNELS,
    PLANE_KERNELS,
    class_pair_counts,
    pair_counts,
)

WEIGHTED = ["histogram", "compiled histogram", "product"]
EXACT = ["histogram", "compiled histogram", "planes", "compiled planes"]


def counted(codes, sizes, way, weights=None, threads=1):
    """Count in one way, or as the shape has it."""
    sizes = np.array(sizes, np.int64)
    if way is None:
        return pair_counts(codes, sizes, weights, threads=threads)
    if way == "product":
        return onehot.product(codes, sizes, weights)
    fast = way.startswith("compiled")
    if way.endswith("planes"):
        kernels = compiled.load(PLANE_KERNELS) if fast else None
        every = np.arange(sizes.size)
        return plane_table(codes, sizes, every, kernels, None, threads)
    kernels = compiled.load(KERNELS) if fast else None
    return histograms.histograms(codes, sizes, weights, kernels, threads)


def random_codes(seed, sizes, n, dtype=np.uint8):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n) for size in sizes]
    return np.array(columns, dtype=dtype).reshape(len(sizes), n)


def one_hot(codes, sizes):
    """The matrix W, one comparison per entry."""
    columns = [
        [int(code == category) for code in codes[j]]
        for j, size in enumerate(sizes)
        for category in range(size)
    ]
    return np.array(columns, dtype=np.int64).reshape(sum(sizes), codes.shape[1]).T


shapes = st.tuples(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 7), min_size=1, max_size=7),
    st.integers(1, 30),
)


def test_nothing_to_count():
    assert pair_counts(np.zeros((0, 5), np.uint8), []).shape == (0, 0)
    counts = pair_counts(np.zeros((2, 0), np.uint8), [2, 1], [])
    assert_array_equal(counts, np.zeros((3, 3)))
    inner = class_pair_counts(np.zeros((1, 0), np.uint8), [2], [], 2)
    assert_array_equal(inner, np.zeros((2, 2, 2)))


@pytest.mark.parametrize("way", [*EXACT, None])
@given(shape=shapes)
@settings(max_examples=40, deadline=None)
def test_counts_equal_the_explicit_product(way, shape):
    seed, sizes, n = shape
    codes = random_codes(seed, sizes, n)
    W = one_hot(codes, sizes)
    counts = counted(codes, sizes, way)
    assert counts.dtype == np.int64
    assert_array_equal(counts, W.T @ W)


@pytest.mark.parametrize("way", [*WEIGHTED, None])
@given(shape=shapes)
@settings(max_examples=25, deadline=None)
def test_weighted_counts_equal_the_explicit_product(way, shape):
    seed, sizes, n = shape
    codes = random_codes(seed, sizes, n)
    weights = np.random.default_rng(seed).random(n)
    W = one_hot(codes, sizes)
    counts = counted(codes, sizes, way, weights)
    assert counts.dtype == np.float64
    assert_allclose(counts, W.T @ (weights[:, None] * W), rtol=1e-13, atol=1e-14)
    assert_array_equal(counts, counts.T)


@given(shape=shapes, n_classes=st.integers(1, 4), weighted=st.booleans())
@settings(max_examples=50, deadline=None)
def test_class_counts_equal_counts_of_each_class(shape, n_classes, weighted):
    seed, sizes, n = shape
    codes = random_codes(seed, sizes, n)
    y = np.random.default_rng(seed + 1).integers(0, n_classes, n)
    weights = np.arange(n) % 5 if weighted else None
    counts = class_pair_counts(codes, sizes, y, n_classes, weights)
    W = one_hot(codes, sizes)
    for k in range(n_classes):
        w = (y == k) * (1 if weights is None else weights)
        assert_array_equal(counts[k], W.T @ (w[:, None] * W))
    assert_array_equal(counts.sum(0), pair_counts(codes, sizes, weights))


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i4", "i8"])
def test_any_integer_type_and_layout(dtype):
    sizes = [3, 4, 2, 10]
    codes = random_codes(0, sizes, 50)
    expected = one_hot(codes, sizes).T @ one_hot(codes, sizes)
    table = np.asfortranarray(codes.astype(dtype))
    assert_array_equal(pair_counts(table, sizes), expected)


@pytest.mark.parametrize("way", [*EXACT, None])
def test_columns_of_thousands_of_categories(way):
    sizes = [1500, 2, 400, 1, 5]
    codes = random_codes(1, sizes, 400, np.uint16)
    W = np.zeros((400, sum(sizes)))
    first = np.cumsum([0, *sizes[:-1]])
    W[np.arange(400), codes + first[:, None]] = 1
    assert_array_equal(counted(codes, sizes, way), W.T @ W)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_blocks_of_rows_and_tiles_of_columns(monkeypatch, weighted):
    monkeypatch.setattr(onehot, "PRODUCT_ROWS", 100)
    monkeypatch.setattr(histograms, "ROWS", 100)
    monkeypatch.setattr(histograms, "TILE", 3)
    monkeypatch.setattr(histograms, "CELLS", 2_000)
    sizes = [int(size) for size in np.random.default_rng(3).integers(1, 9, 40)]
    codes = random_codes(2, sizes, 1234)
    weights = np.arange(1234) % 7 if weighted else None
    W = one_hot(codes, sizes)
    w = np.ones(1234, np.int64) if weights is None else weights
    for way in [*(WEIGHTED if weighted else EXACT), None]:
        for threads in (1, 3):
            counts = counted(codes, sizes, way, weights, threads)
            assert_array_equal(counts, W.T @ (w[:, None] * W))


def test_both_histogram_engines_give_the_same_bits_of_weighted_sums():
    sizes = [10, 3, 7, 12, 2]
    n = histograms.ROWS + 1000
    codes = random_codes(4, sizes, n)
    weights = np.random.default_rng(4).random(n)
    plain = counted(codes, sizes, "histogram", weights)
    for threads in (1, 2, 7):
        fast = counted(codes, sizes, "compiled histogram", weights, threads)
        assert_array_equal(plain, fast)
    assert_array_equal(plain, plain.T)
    for low, high in [(0, 10), (10, 13), (13, 20), (20, 32), (32, 34)]:
        block = plain[low:high, low:high]
        assert_array_equal(block, np.diag(np.diag(block)))


def test_without_numba_the_counts_are_the_same(monkeypatch):
    sizes = [10] * 8
    codes = random_codes(5, sizes, 5_000)
    with_numba = counted(codes, sizes, "compiled histogram")
    monkeypatch.setattr(compiled, "load", lambda module: None)
    assert compiled.load_for(KERNELS, 1e9) is None
    assert_array_equal(pair_counts(codes, sizes), with_numba)


def test_small_jobs_do_not_load_numba():
    script = (
        "import sys; from renyi.counting.pair_counts import pair_counts;"
        "pair_counts([[0, 1]], [2]); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_loops_compile_where_no_cache_can_be_written(monkeypatch):
    numba = pytest.importorskip("numba")
    real = numba.njit

    def njit(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled.compile_loop(lambda x: x + 1)(1) == 2


def test_too_large_a_table_is_refused_before_memory_is_taken():
    codes = np.zeros((2, 3), np.uint32)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"8000000016000000.0 GB.*limit is 8.0 GB"):
        pair_counts(codes, [10**12, 1000])
    with pytest.raises(ValueError, match=r"40000 categories would take 12.8 GB"):
        class_pair_counts(codes, [20_000, 20_000], [0, 1, 0], 1)
    with pytest.raises(ValueError, match=r"would take 9.6 GB"):
        class_pair_counts(codes, [10_000, 10_000], [0, 1, 0], 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("codes", "sizes", "message"),
    [
        ([[0, 1], [0, 3]], [2, 3], "column 1 holds code 3 but has 3 categories"),
        ([[0, -1]], [2], "column 0 holds code -1 "),
        ([[0.0, 1.0]], [2], "type float64"),
        ([[0, 1]], [2, 2], r"shape \(1, 2\) do not match 2 sizes"),
        ([0, 1], [2, 2], r"shape \(2,\)"),
    ],
)
def test_bad_codes_are_named(codes, sizes, message):
    with pytest.raises(ValueError, match=message):
        pair_counts(codes, sizes)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="y holds code 2 but has 2 categories"):
        class_pair_counts([[0, 1]], [2], [0, 2], 2)
    with pytest.raises(ValueError, match="y has 3 rows but codes have 2"):
        class_pair_counts([[0, 1]], [2], [0, 1, 1], 2)
    with pytest.raises(ValueError, match=r"weights have the shape \(3,\)"):
        pair_counts([[0, 1]], [2], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="threads is 0"):
        pair_counts([[0, 1]], [2], threads=0)
