"""Counting by bit planes, alone and beside histograms, in one thread and in several."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from renyi import compiled
from renyi.counting import bitplanes, plane_kernels
from renyi.counting import pair_counts as costs
from renyi.counting.bitplanes import plane_table
from renyi.counting.histograms import histograms
from renyi.counting.pair_counts import KERNELS, class_pair_counts, pair_counts


def random_codes(seed, sizes, n):
    """Codes whose last categories are as rare or as frequent as any other."""
    rng = np.random.default_rng(seed)
    dtype = np.min_scalar_type(max(sizes))
    return np.array([rng.integers(0, size, n) for size in sizes], dtype)


def reference(codes, sizes, rows=None):
    """The numpy reference: one histogram per pair of super-columns."""
    taken = codes if rows is None else codes[:, rows]
    return histograms(taken, np.array(sizes), None, None)


def by_planes(codes, sizes, threads=1):
    """Count all columns by compiled planes."""
    every = np.arange(len(sizes))
    return plane_table(codes, np.array(sizes), every, plane_kernels, None, threads)


@pytest.fixture(params=costs.PLANE_SECONDS)
def processor(request, monkeypatch):
    """One kind of processor after the other, whichever this is."""
    per_pair = costs.PLANE_SECONDS[request.param]
    monkeypatch.setattr(costs, "_per_pair", lambda: per_pair)
    costs.plane_columns.cache_clear()
    yield request.param
    costs.plane_columns.cache_clear()


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    n=st.integers(1, 3000),
    threads=st.integers(1, 4),
)
@example(seed=0, sizes=[1], n=1, threads=2)
@example(seed=1, sizes=[1, 1, 1], n=512, threads=1)
@example(seed=2, sizes=[2, 1, 4], n=513, threads=2)
@example(seed=3, sizes=[5] * 20, n=64, threads=4)
@settings(max_examples=60, deadline=None)
def test_planes_count_what_histograms_count(seed, sizes, n, threads):
    codes = random_codes(seed, sizes, n)
    counts = by_planes(codes, sizes, threads)
    assert counts.dtype == np.int64
    assert_array_equal(counts, reference(codes, sizes))


@pytest.mark.parametrize("n", [1, 511, 16_383, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("sizes", [[2, 3, 1, 9], [255, 256, 257, 2], [700, 3]])
def test_blocks_of_rows_and_bytes_of_codes_end_anywhere(n, sizes):
    assert plane_kernels.BLOCK == 16_384
    codes = random_codes(n, sizes, n)
    counts = by_planes(codes, sizes)
    assert_array_equal(counts, reference(codes, sizes))


@pytest.mark.parametrize(
    ("dtype", "place"), [(np.uint8, np.uint32), (np.uint16, np.uint64)]
)
@pytest.mark.parametrize("kernels", [None, plane_kernels])
def test_rows_may_be_chosen_and_columns_too(dtype, place, kernels):
    sizes = np.array([4, 200, 2, 6, 3])
    codes = random_codes(5, sizes, 3000).astype(dtype)
    rows = np.random.default_rng(5).permutation(3000)[:1700]
    columns = np.array([3, 0, 2])
    table = plane_table(codes, sizes, columns, kernels, rows.astype(place), 2)
    assert_array_equal(table, reference(codes[columns], sizes[columns], rows))


def test_more_planes_than_a_panel_holds():
    sizes = [3] * 70 + [2] * 21
    assert sum(sizes) - len(sizes) > 2 * plane_kernels.PANEL
    codes = random_codes(6, sizes, 700)
    counts = by_planes(codes, sizes)
    assert_array_equal(counts, reference(codes, sizes))


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(
        st.one_of(st.integers(1, 6), st.integers(90, 300)), min_size=1, max_size=7
    ),
    limit=st.integers(0, 300),
    threads=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_histograms_and_planes_may_share_the_columns(seed, sizes, limit, threads):
    lengths = np.array(sizes)
    codes = random_codes(seed, sizes, 400)
    wanted = lengths > limit
    table = histograms(codes, lengths, None, compiled.load(KERNELS), threads, wanted)
    asked = np.repeat(wanted, lengths)
    asked = asked[:, None] | asked
    assert_array_equal(table, np.where(asked, reference(codes, sizes), 0))


@pytest.mark.parametrize("n", [3_000, 70_000])
def test_mixed_tables_are_counted_exactly(processor, n):
    sizes = [8] * 6 + [1200, 2, 40, 300]
    few = costs.plane_columns(n, tuple(sizes), True)[1]
    assert not all(few)
    assert any(few) or processor != "avx512vpopcntdq"
    codes = random_codes(8, sizes, n)
    y = np.random.default_rng(9).integers(0, 3, n)
    expected = reference(codes, sizes)
    for threads in (None, 1, 2):
        assert_array_equal(pair_counts(codes, sizes, threads=threads), expected)
    by_class = class_pair_counts(codes, sizes, y, 3)
    for k in range(3):
        assert_array_equal(by_class[k], reference(codes, sizes, y == k))


def test_several_python_threads_may_count_at_once():
    sizes = [7, 2, 10, 4] * 4
    tables = [random_codes(seed, sizes, 20_000) for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        counts = list(pool.map(lambda codes: pair_counts(codes, sizes), tables))
    for codes, found in zip(tables, counts, strict=True):
        assert_array_equal(found, reference(codes, sizes))


def test_the_shape_decides_with_numpy_alone():
    def by_product(n, sizes):
        return costs.plane_columns(n, tuple(sizes), False)[1]

    assert not any(by_product(1_000_000, [10] * 20))
    assert not any(by_product(50_000, [2, 5, 40, 9, 16, 7] * 2))
    assert all(by_product(2_000, [2] * 500))


@pytest.mark.parametrize("with_numba", [False, True])
def test_the_shape_decides_about_weighted_sums(monkeypatch, with_numba):
    kernels = compiled.load(KERNELS) if with_numba else None
    monkeypatch.setattr(compiled, "load", lambda module: kernels)
    ways = []
    monkeypatch.setattr(costs, "product", lambda *_: ways.append("product"))
    monkeypatch.setattr(costs, "histograms", lambda *_: ways.append("histograms"))
    for n, sizes in [(100_000, [10] * 20), (2_000, [2] * 500)]:
        pair_counts(random_codes(0, sizes, n), sizes, np.ones(n))
    assert ways == ["histograms", "product"]


def test_columns_of_few_categories_get_planes(processor):
    assert all(costs.plane_columns(1_000_000, (2,) * 60, True)[1])
    assert all(costs.plane_columns(100_000, (3,) * 200, True)[1])
    assert not any(costs.plane_columns(1_000_000, (100,) * 20, True)[1])
    few = costs.plane_columns(1_000_000, (2, 3) * 30 + (500,), True)[1]
    # Where planes are slow, histograms pack the small columns beside the large one.
    assert few == ((processor != "",) * 60 + (False,))


def test_processor_that_llvm_does_not_know(monkeypatch):
    import llvmlite.binding

    def unknown():
        raise RuntimeError("LLVM does not know this processor")

    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", unknown)
    costs._per_pair.cache_clear()
    assert costs._per_pair() == costs.PLANE_SECONDS[""]
    costs._per_pair.cache_clear()


def test_threads_where_they_pay(monkeypatch):
    monkeypatch.setattr(compiled, "cores", lambda: 4)
    assert compiled.thread_count(0.001) == 1
    assert compiled.thread_count(2.5 * compiled.THREAD_SECONDS) == 2
    assert compiled.thread_count(1.0) == 4
    assert compiled.thread_count(1.0, 2) == 2


def test_cores_follow_the_environment(monkeypatch):
    monkeypatch.setattr(compiled.os, "sched_getaffinity", lambda _: {0, 1, 2})
    for wanted, cores in [("", 3), ("2", 2), ("8", 3), ("0", 1), ("many", 3)]:
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
        assert compiled.cores() == cores
    monkeypatch.delattr(compiled.os, "sched_getaffinity")
    monkeypatch.setattr(compiled.os, "cpu_count", lambda: None)
    assert compiled.cores() == 1


def test_errors_in_a_thread_are_raised():
    def fail():
        raise ValueError("no memory for this block")

    done = []
    with pytest.raises(ValueError, match="no memory for this block"):
        compiled.run_all([lambda: done.append(1), fail, lambda: done.append(2)])
    assert sorted(done) == [1, 2]


def test_threads_are_few_when_their_tables_are_large(monkeypatch):
    monkeypatch.setattr(bitplanes, "COPIES", 8 * 12**2 + 1)
    spans = []
    real = bitplanes._spans
    monkeypatch.setattr(bitplanes, "_spans", lambda n, t: spans.append(t) or real(n, t))
    codes = random_codes(11, [4] * 4, 5000)  # 12 planes
    counts = by_planes(codes, [4] * 4, 8)
    assert spans == [2]
    assert_array_equal(counts, reference(codes, [4] * 4))
