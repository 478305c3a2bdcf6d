"""Counting: every way of counting against the explicit one-hot matrix."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from renyi.counting import compiled, histograms, onehot
from renyi.counting import pair_counts as costs
from renyi.counting.pair_counts import (
    class_pair_counts,
    joint_values,
    pair_counts,
    plane_table,
)
from support.engines import Engine

kernels = Engine("renyi.counting.kernels")  # brings numba
WEIGHTED = ["histogram", "compiled histogram", "product"]
EXACT = ["histogram", "compiled histogram", "planes", "compiled planes"]


def counted(codes, sizes, way, weights=None, threads=1):
    """Count in one way, or as the shape has it."""
    sizes = np.array(sizes, np.int64)
    if way is None:
        return pair_counts(codes, sizes, weights, threads=threads)
    if way == "product":
        return onehot.product(codes, sizes, weights)
    loops = kernels if way.startswith("compiled") else None
    if way.endswith("planes"):
        every = np.arange(sizes.size)
        return plane_table(codes, sizes, every, loops, None, threads)
    limit = joint_values(codes.shape[1])
    return histograms.histograms(codes, sizes, limit, weights, loops, threads)


def random_codes(seed, sizes, n):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n) for size in sizes]
    dtype = np.min_scalar_type(max(sizes))
    return np.array(columns, dtype).reshape(len(sizes), n)


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
    inner = class_pair_counts(np.zeros((2, 0), np.uint8), [2, 2])
    assert_array_equal(inner, np.zeros((2, 2, 2)))


@pytest.mark.parametrize("way", [*EXACT, None])
@given(shape=shapes)
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
def test_class_counts_equal_counts_of_each_class(shape, n_classes, weighted):
    seed, sizes, n = shape
    codes = random_codes(seed, sizes, n)
    y = np.random.default_rng(seed + 1).integers(0, n_classes, n)
    weights = np.arange(n) % 5 if weighted else None
    counts = class_pair_counts([*codes, y], [*sizes, n_classes], weights)
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
    codes = random_codes(1, sizes, 400)
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
    assert onehot.kernels_for(1e9) is None
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
    with pytest.raises(ValueError, match=r"24000.0 GB.*limit is 8.0 GB"):
        pair_counts(codes, [10**12, 1000])
    with pytest.raises(ValueError, match=r"40000 categories would take 12.8 GB"):
        class_pair_counts([*codes, [0, 0, 0]], [20_000, 20_000, 1])
    with pytest.raises(ValueError, match=r"would take 9.6 GB"):
        class_pair_counts([*codes, [0, 1, 0]], [10_000, 10_000, 3])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("codes", "sizes", "message"),
    [
        ([[0, 1], [0, 3]], [2, 3], "column 1 has code 3 but only 3 categories"),
        ([[0, -1]], [2], "column 0 has code -1 "),
        ([[0.0, 1.0]], [2], "type float64"),
        ([[0, 1]], [2, 2], r"shape \(1, 2\) do not match 2 sizes"),
        ([0, 1], [2, 2], r"shape \(2,\)"),
    ],
)
def test_bad_codes_are_named(codes, sizes, message):
    with pytest.raises(ValueError, match=message):
        pair_counts(codes, sizes)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="column 1 has code 2 but only 2 categories"):
        class_pair_counts([[0, 1], [0, 2]], [2, 2])
    with pytest.raises(ValueError, match=r"weights have the shape \(3,\)"):
        pair_counts([[0, 1]], [2], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="threads is 0"):
        pair_counts([[0, 1]], [2], threads=0)


# ---- bit planes, alone and beside histograms, in one thread and in several


def reference(codes, sizes, rows=None):
    """The numpy reference: one histogram per pair of super-columns."""
    taken = codes if rows is None else codes[:, rows]
    return counted(taken, sizes, "histogram")


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
def test_planes_count_what_histograms_count(seed, sizes, n, threads):
    codes = random_codes(seed, sizes, n)
    counts = counted(codes, sizes, "compiled planes", threads=threads)
    assert counts.dtype == np.int64
    assert_array_equal(counts, reference(codes, sizes))


@pytest.mark.parametrize("n", [1, 511, 16_383, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("sizes", [[2, 3, 1, 9], [255, 256, 257, 2], [700, 3]])
def test_blocks_of_rows_and_bytes_of_codes_end_anywhere(n, sizes):
    assert kernels.BLOCK == 16_384
    codes = random_codes(n, sizes, n)
    counts = counted(codes, sizes, "compiled planes")
    assert_array_equal(counts, reference(codes, sizes))


@pytest.mark.parametrize(
    ("dtype", "place"), [(np.uint8, np.uint32), (np.uint16, np.uint64)]
)
@pytest.mark.parametrize("loops", [None, kernels])
def test_rows_may_be_chosen_and_columns_too(dtype, place, loops):
    sizes = np.array([4, 200, 2, 6, 3])
    codes = random_codes(5, sizes, 3000).astype(dtype)
    rows = np.random.default_rng(5).permutation(3000)[:1700]
    columns = np.array([3, 0, 2])
    table = plane_table(codes, sizes, columns, loops, rows.astype(place), 2)
    assert_array_equal(table, reference(codes[columns], sizes[columns], rows))


def test_more_planes_than_a_panel_holds():
    sizes = [3] * 70 + [2] * 21
    assert sum(sizes) - len(sizes) > 2 * kernels.PANEL
    codes = random_codes(6, sizes, 700)
    counts = counted(codes, sizes, "compiled planes")
    assert_array_equal(counts, reference(codes, sizes))


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(
        st.one_of(st.integers(1, 6), st.integers(90, 300)), min_size=1, max_size=7
    ),
    limit=st.integers(0, 300),
    threads=st.integers(1, 3),
)
def test_histograms_and_planes_may_share_the_columns(seed, sizes, limit, threads):
    lengths = np.array(sizes)
    codes = random_codes(seed, sizes, 400)
    wanted = lengths > limit
    values = joint_values(400)
    table = histograms.histograms(
        codes, lengths, values, None, kernels, threads, wanted
    )
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
    by_class = class_pair_counts([*codes, y], [*sizes, 3])
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
    loops = kernels if with_numba else None
    monkeypatch.setattr(compiled, "load", lambda module: loops)
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
    assert costs._thread_count(0.001, None) == 1
    assert costs._thread_count(2.5 * costs.THREAD_SECONDS, None) == 2
    assert costs._thread_count(1.0, None) == 4
    assert costs._thread_count(1.0, 2) == 2


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
    monkeypatch.setattr(costs, "COPIES", 8 * 12**2 + 1)
    tasks = []
    real = compiled.run_all
    monkeypatch.setattr(
        compiled, "run_all", lambda some: tasks.append(len(some)) or real(some)
    )
    codes = random_codes(11, [4] * 4, 5000)  # 12 planes
    counts = counted(codes, [4] * 4, "compiled planes", threads=8)
    assert tasks == [2]
    assert_array_equal(counts, reference(codes, [4] * 4))
