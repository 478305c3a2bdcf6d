"""Products with the one-hot matrix against the matrix itself."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from renyi.counting import compiled, onehot
from renyi.counting.onehot import (
    agreement,
    class_label_counts,
    dense,
    label_sums,
    lookup_sum,
    offsets,
)


def random_codes(rng, sizes, n, unseen=False, dtype=np.uint8):
    columns = [rng.integers(0, size + unseen, n) for size in sizes]
    return np.array(columns, dtype=dtype).reshape(len(sizes), n)


def one_hot(codes, sizes):
    columns = [
        [float(code == category) for code in codes[j]]
        for j, size in enumerate(sizes)
        for category in range(size)
    ]
    return np.array(columns).reshape(sum(sizes), codes.shape[1]).T


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
columns = st.lists(st.integers(1, 20), min_size=0, max_size=8)
binary = st.lists(st.just(2), min_size=1, max_size=12)
some_rows = st.integers(0, 12)


@pytest.fixture(params=["numpy", "numba"])
def engine(request, monkeypatch):
    """Both ways of looking up, whatever the size of the job."""
    kernels = None if request.param == "numpy" else compiled.load(onehot.KERNELS)
    assert kernels is not None or request.param == "numpy"
    monkeypatch.setattr(onehot, "kernels_for", lambda seconds: kernels)
    monkeypatch.setattr(compiled, "load", lambda module: kernels)
    monkeypatch.setattr(onehot, "COMPILED_CELLS", 0)


@given(rng=seeds, sizes=columns, n=some_rows)
def test_dense_is_the_one_hot_matrix(rng, sizes, n):
    codes = random_codes(rng, sizes, n)
    assert_array_equal(dense(codes, sizes), one_hot(codes, sizes))
    assert offsets(sizes).tolist() == [sum(sizes[:j]) for j in range(len(sizes) + 1)]


@given(rng=seeds, sizes=columns, n=some_rows, k=st.integers(1, 3))
def test_lookup_sum_is_a_product(rng, sizes, n, k):
    codes = random_codes(rng, sizes, n)
    Z = rng.normal(size=(sum(sizes), k))
    scores = lookup_sum(codes, Z, offsets(sizes)[:-1])
    assert_allclose(scores, one_hot(codes, sizes) @ Z, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(7, 20_000), (3_000, 41), (300, 1)])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.usefixtures("engine")
def test_a_score_has_the_same_bits_in_any_batch(shape, k):
    rng = np.random.default_rng(0)
    d, n = shape
    codes = rng.integers(0, 4, (d, n)).astype(np.uint8)
    tables = rng.normal(size=(5 * d, k)) * 10.0 ** rng.integers(-8, 8, (5 * d, 1))
    starts = 5 * np.arange(d)  # one row to spare per column
    scores = lookup_sum(codes, tables, starts)
    order = rng.permutation(n)
    assert_array_equal(lookup_sum(codes[:, order], tables, starts), scores[order])
    for r in range(0, n, max(1, n // 7)):
        in_order = [
            sum((tables[starts[j] + codes[j, r], c] for j in range(d)), np.float64(0))
            for c in range(k)
        ]
        assert scores[r].tolist() == in_order
        for size in (1, 2, 3, 17):
            part = lookup_sum(codes[:, r : r + size], tables, starts)
            assert_array_equal(part, scores[r : r + size])


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i2", "i8"])
@pytest.mark.usefixtures("engine")
def test_lookup_sum_takes_any_integer_type(dtype):
    codes = np.array([[0, 1], [1, 0]], dtype)
    scores = lookup_sum(codes, [[1.0], [2.0], [10.0], [20.0]], [0, 2])
    assert scores.tolist() == [[21.0], [12.0]]


def test_lookup_sum_names_codes_outside_of_the_tables():
    with pytest.raises(ValueError, match="column 1 has a code outside"):
        lookup_sum([[0], [2]], np.zeros((4, 1)), [0, 2])
    with pytest.raises(ValueError, match="column 0 has a code outside"):
        lookup_sum([[-1], [0]], np.zeros((4, 1)), [0, 2])
    with pytest.raises(ValueError, match="do not match 2 starts"):
        lookup_sum([[0]], np.zeros((4, 1)), [0, 2])


@given(
    rng=seeds,
    sizes=columns | binary,
    n=some_rows,
    k=st.integers(1, 3),
    unseen=st.booleans(),
)
def test_label_sums_are_a_product(rng, sizes, n, k, unseen):
    codes = random_codes(rng, sizes, n, unseen)
    V = rng.normal(size=(n, k))
    expected = one_hot(codes, sizes).T @ V
    assert_allclose(label_sums(codes, sizes, V), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("sizes", [[2] * 40, [2, 3, 1, 4] * 10])
@pytest.mark.parametrize("n", [8, 13, 30])
@pytest.mark.usefixtures("engine")
def test_sums_and_counts_of_wide_tables(sizes, n):
    rng = np.random.default_rng(n)
    codes = np.ascontiguousarray(random_codes(rng, sizes, n).T).T  # row after row
    V = rng.normal(size=(n, 2))
    y = rng.integers(0, 3, n)
    W = one_hot(codes, sizes)
    assert_allclose(label_sums(codes, sizes, V), W.T @ V, rtol=1e-13, atol=1e-14)
    counts = class_label_counts(codes, np.array(sizes), y, 3)
    assert counts.dtype == np.int64
    assert_array_equal(counts, W.T @ (y[:, None] == np.arange(3)))


def test_label_sums_of_many_rows():
    rng = np.random.default_rng(1)
    sizes = [2, 30, 5]
    codes = random_codes(rng, sizes, 100_000, unseen=True)
    V = rng.normal(size=(100_000, 2))
    sums = label_sums(codes, sizes, V)
    for j, size in enumerate(sizes):
        for category in range(size):
            rows = V[codes[j] == category]
            exact = [math.fsum(rows[:, c]) for c in range(2)]
            assert_allclose(sums[offsets(sizes)[j] + category], exact, atol=1e-11)


def test_a_small_sum_beside_a_large_one_keeps_its_digits():
    codes = np.array([[0, 1, 1]], np.uint8)
    sums = label_sums(codes, [2], np.array([[1e16], [0.1], [0.2]]))
    assert sums[0, 0] == 1e16
    assert sums[1, 0] == 0.1 + 0.2


@given(rng=seeds, sizes=columns | binary, n=some_rows)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.usefixtures("engine")
def test_agreement_is_the_gram_matrix(rng, sizes, n):
    codes = random_codes(rng, sizes, n)
    W = one_hot(codes, sizes)
    assert_array_equal(agreement(codes, max(sizes, default=1)), W @ W.T)


@pytest.mark.parametrize("size", [1, 2, 3, 900])
@pytest.mark.parametrize("d", [64, 5_000, 20_000])
@pytest.mark.usefixtures("engine")
def test_agreement_over_many_columns(size, d):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, size, (d, 40)).astype(np.uint16)
    expected = (codes.T[:, None] == codes.T).sum(axis=2)
    assert_array_equal(agreement(codes, size), expected)


def test_too_many_rows_to_compare_are_refused_before_memory_is_taken():
    with pytest.raises(ValueError, match=r"40000 rows needs 12.8 GB"):
        agreement(np.broadcast_to(np.uint8(0), (3, 40_000)), 1)


LOADED_AT_ONCE = """
import sys, threading
from renyi.counting import compiled
sys.setswitchinterval(1e-6)
names = ["renyi.solvers.l1inf_kernels", "renyi.counting.kernels"]
both, modules = threading.Barrier(2), []
def load(name):
    both.wait()
    modules.append(compiled.load(name))
threads = [threading.Thread(target=load, args=(name,)) for name in names]
for each in threads: each.start()
for each in threads: each.join()
sys.exit(len(modules) != 2 or None in modules)
"""


def test_two_threads_may_load_loops_at_once() -> None:
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", LOADED_AT_ONCE], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
