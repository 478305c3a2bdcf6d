"""Products of packed genotypes against their one-hot matrix, written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from renyi.counting import compiled
from renyi.genotypes import packed
from renyi.genotypes.packed import PackedGenotypes
from renyi.limits import MemoryBudgetError, memory_limit

SIZES = [(1, 1), (3, 7), (5, 65), (67, 130), (130, 515), (64, 1_025), (9, 0)]


def selections(rng, n, d):
    """Everything; some samples; some variants; some of both, twice."""
    samples = np.flatnonzero(rng.random(n) < 0.6)
    variants = np.flatnonzero(rng.random(d) < 0.7)
    yield {}
    yield {"samples": samples}
    yield {"variants": variants}
    yield {"samples": samples, "variants": variants}


@pytest.fixture(params=["numpy", "numba"])
def engine(request, monkeypatch):
    """Both ways, whatever the size of the job; on three threads."""
    kernels = None if request.param == "numpy" else compiled.load(packed.KERNELS)
    assert kernels is not None or request.param == "numpy"
    monkeypatch.setattr(packed, "kernels_for", lambda seconds, module: kernels)
    monkeypatch.setattr(packed, "cores", lambda: 3)


@pytest.fixture(params=SIZES, ids=str)
def cases(request, monkeypatch, engine):
    """Packed genotypes, their codes and the one-hot matrix (n, 4 d)."""
    monkeypatch.setattr(packed, "BLOCK", 3_000)
    monkeypatch.setattr(packed, "CHUNK", 112)
    n, d = request.param
    rng = np.random.default_rng(n * d)
    codes = rng.choice(4, (d, n), p=[0.2, 0.1, 0.4, 0.3]).astype(np.uint8)
    G = PackedGenotypes.from_codes(codes)
    found = []
    for kept in selections(rng, n, d):
        part = codes[kept.get("variants", slice(None))]
        part = part[:, kept.get("samples", slice(None))]
        W = (part.T[:, :, None] == np.arange(4)).astype(float)
        found.append((G.take(**kept), part, W.reshape(len(W), 4 * len(part))))
    return rng, found


def test_codes_and_selections(cases):
    for G, codes, _ in cases[1]:
        assert (G.d, G.n) == codes.shape
        assert_array_equal(G.codes(), codes)
        assert_array_equal(G.codes(2, 5), codes[2:5])
        odd = G.take(samples=np.arange(G.n) % 2 == 1, variants=np.arange(0, G.d, 3))
        assert_array_equal(odd.codes(), codes[::3, 1::2])


def test_counts(cases):
    rng, found = cases
    for G, codes, W in found:
        assert_array_equal(packed.code_counts(G), W.sum(axis=0).reshape(G.d, 4))
        assert_array_equal(packed.missing_per_sample(G), (codes == 1).sum(axis=0))


def test_agreement_and_products_of_copies_are_exact(cases):
    for G, codes, W in cases[1]:
        copies = np.array([0, 0, 1, 2.0])[codes]
        assert_array_equal(packed.agreement(G), W @ W.T)
        assert_array_equal(packed.copy_products(G), copies.T @ copies)


def test_missing_products(cases):
    rng, found = cases
    for G, codes, _ in found:
        table = rng.normal(size=(G.d, 4))
        M = (codes == 1).T @ np.take_along_axis(table, codes.astype(np.intp), 1)
        assert_allclose(packed.missing_products(G, table), M + M.T, atol=1e-12)


@pytest.mark.parametrize("k", [(), (1,), (3,)], ids=str)
def test_scores_and_sums(cases, k):
    rng, found = cases
    for G, _, W in found:
        points, V = rng.normal(size=(G.d, 4, *k)), rng.normal(size=(G.n, *k))
        expected = W @ points.reshape(4 * G.d, *k)
        assert_allclose(packed.scores(G, points), expected, rtol=1e-12, atol=1e-12)
        expected = (W.T @ V).reshape(G.d, 4, *k)
        assert_allclose(packed.sums(G, V), expected, rtol=1e-12, atol=1e-12)


def test_the_score_of_a_sample_does_not_depend_on_the_others(cases):
    rng, found = cases
    G = found[0][0]
    points = rng.normal(size=(G.d, 4)) * 10.0 ** rng.integers(-8, 8, (G.d, 1))
    for other, _, _ in found[:2]:
        chosen = slice(None) if other.samples is None else other.samples
        assert_array_equal(
            packed.scores(other, points), packed.scores(G, points)[chosen]
        )


@pytest.mark.parametrize("n, d", [(203, 9_001), (1_030, 700)])
def test_compiled_or_not_the_bits_are_the_same(monkeypatch, n, d):
    rng = np.random.default_rng(1)
    codes = rng.choice(4, (d, n), p=[0.2, 0.1, 0.4, 0.3])
    G = PackedGenotypes.from_codes(codes).take(samples=np.arange(n) % 7 != 3)
    points, V = rng.normal(size=(G.d, 4, 2)), rng.normal(size=(G.n, 2))
    found = []
    for kernels, threads in ((None, 1), (compiled.load(packed.KERNELS), 3)):
        monkeypatch.setattr(packed, "kernels_for", lambda *_, use=kernels: use)
        monkeypatch.setattr(packed, "cores", lambda threads=threads: threads)
        answers = packed.scores(G, points), packed.sums(G, V)
        found.append((*answers, packed.missing_products(G, points[:, :, 0].copy())))
    for plain, fast in zip(*found, strict=True):
        assert_array_equal(plain, fast)


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="bytes per variant"):
        PackedGenotypes(np.zeros((3, 2), np.uint8), 9)
    with pytest.raises(ValueError, match="shape"):
        PackedGenotypes(np.zeros(3, np.uint8), 9)
    G = PackedGenotypes.from_codes(np.zeros((3, 5)))
    for wrong in ([2, 1], [5], [-1], [1, 1]):
        with pytest.raises(ValueError, match="below 5"):
            G.take(samples=wrong)
    with pytest.raises(ValueError, match="truth values"):
        G.take(variants=[True, False])
    with pytest.raises(ValueError, match="0 to 3"):
        PackedGenotypes.from_codes([[4]])
    with pytest.raises(ValueError, match="points"):
        packed.scores(G, np.zeros((2, 4)))
    with pytest.raises(ValueError, match="samples"):
        packed.sums(G, np.zeros(4))


def test_memory_is_checked_before_it_is_taken():
    G = PackedGenotypes(np.zeros((1, 25_000), np.uint8), 100_000)
    with memory_limit(2**30), pytest.raises(MemoryBudgetError, match="100,000 samples"):
        packed.agreement(G)
