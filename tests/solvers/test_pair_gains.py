"""The gain of a pair of columns: against a computation row by row."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renyi.solvers.pair_gains import PairGain, beyond_chance, pair_gains


def by_hand(codes, residuals, weights, i, j):
    """Leave each row out in turn, and predict it by the others of its cell."""
    gain = 0.0
    for a, r in enumerate(residuals):
        same = [
            b
            for b in range(len(residuals))
            if codes[i, b] == codes[i, a] and codes[j, b] == codes[j, a]
        ]
        left = np.array([weights[b] - min(weights[a], 1) * (a == b) for b in same])
        mean = left @ residuals[same] / (left.sum() + 2)
        gain += weights[a] * ((r**2).sum() - ((r - mean) ** 2).sum())
    return gain


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 3]), st.sampled_from([0.5, 1, 3]))
def test_the_gain_is_that_of_predicting_each_row_by_the_others(seed, K, heaviest):
    rng = np.random.default_rng(seed)
    n, sizes = 15, np.array([2, 3, 1, 4])
    codes = (rng.random((4, n)) * sizes[:, None]).astype(np.uint8)
    residuals = rng.normal(size=(n, K))
    weights = rng.random(n) * heaviest if heaviest != 1 else np.ones(n)
    gains = pair_gains(codes, sizes, residuals, weights)
    assert set(gains) == {(0, 1), (0, 3), (1, 3)}  # column 2 is constant
    for pair, gain in gains.items():
        expected = by_hand(codes, residuals, weights, *pair)
        assert gain.gain == pytest.approx(expected, abs=1e-10)


def test_weights_are_repetition_and_wide_pairs_are_left_out():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (3, 40))
    residuals = rng.normal(size=(40, 2))
    times = rng.integers(1, 4, 40)
    sizes = np.array([3, 3, 5])
    weighted = pair_gains(codes, sizes, residuals, times.astype(float))
    rows = np.repeat(np.arange(40), times)
    ones = np.ones(len(rows))
    repeated = pair_gains(codes[:, rows], sizes, residuals[rows], ones)
    for pair, gain in weighted.items():
        assert gain == pytest.approx(repeated[pair])
    assert set(weighted) == {*combinations(range(3), 2)}
    few = pair_gains(codes, sizes, residuals, times.astype(float), most_cells=9)
    assert set(few) == {(0, 1)}


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_p_values_are_shares_of_random_signs_with_more(K, weighted):
    rng = np.random.default_rng(K)
    n = 80
    codes = rng.integers(0, 3, (2, n))
    residuals = rng.normal(size=(n, K)) * rng.uniform(0.3, 2, (n, 1))
    if K > 1:
        residuals -= residuals.mean(axis=1, keepdims=True)  # as of classes
    weights = rng.uniform(0.2, 1, n) if weighted else np.ones(n)
    cells = np.eye(9)[3 * codes[0] + codes[1]]
    signs = rng.choice([-1.0, 1.0], (4000, n))
    sums = np.einsum("si,ic,ik->sck", signs * weights, cells, residuals, optimize=True)
    # What the rows of a cell have in common: the sum of ‖S_c‖²/(N_c + 1).
    lengths = ((sums**2).sum(axis=2) / (weights @ cells + 1)).sum(axis=1)
    for quantile in (0.5, 0.9, 0.98):
        at = int(abs(lengths - np.quantile(lengths, quantile)).argmin())
        drawn = residuals * signs[at][:, None]
        (gain,) = pair_gains(codes, np.array([3, 3]), drawn, weights).values()
        assert gain.p == pytest.approx(1 - quantile, abs=0.03)


def test_few_pairs_of_noise_are_beyond_chance():
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(60):
        codes = rng.integers(0, 3, (6, 150))
        residuals = rng.choice([-0.5, 0.5], (150, 1))
        gains = pair_gains(codes, np.full(6, 3), residuals, np.ones(150))
        seen += bool(beyond_chance(gains, 0.1))
    assert seen <= 14  # 6 are expected
    residuals += 0.5 * (codes[1] == codes[4])[:, None] - 1 / 6
    gains = pair_gains(codes, np.full(6, 3), residuals, np.ones(150))
    assert beyond_chance(gains, 0.1) == [(1, 4)]


def test_the_step_up_rule():
    p = [0.001, 0.3, 0.045, 0.04, 0.9]
    gains = {(0, k): PairGain(0.0, each) for k, each in enumerate(p)}
    assert beyond_chance(gains, 0.1) == [(0, 0), (0, 3), (0, 2)]
    assert beyond_chance(gains, 0.05) == [(0, 0)]
    assert beyond_chance({}, 0.1) == []
