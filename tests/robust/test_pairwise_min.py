"""Minima of pairwise energies, against looking at all outcomes."""

from __future__ import annotations

import numpy as np
import pytest

from renyi.limits import Deadline
from renyi.robust.pairwise_min import (
    FORBIDDEN,
    Energy,
    Grid,
    Low,
    descend,
    minimise,
    prove,
)
from renyi.robust.piecewise_loss import ScoreLoss, Slice
from support.joints import one_hot, outcomes

SIZES = [(2, 3, 2, 4), (3,), (2, 2), (4, 3, 3), (1, 3, 2), (2,) * 7]


def draw(sizes: tuple[int, ...], seed: int) -> Energy:
    rng = np.random.default_rng(seed)
    D = sum(sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    pair = rng.normal(size=(D, D))
    pair = (pair + pair.T) * (owner[:, None] != owner)
    return Energy(Grid(np.array(sizes)), rng.normal(size=D), pair)


def lowest(energy: Energy) -> Low:
    return minimise(energy, 100, Deadline(None))


def brute(sizes: tuple[int, ...], energy: Energy) -> np.ndarray:
    W = one_hot(outcomes(sizes), sizes)
    return W @ energy.unary + 0.5 * ((W @ energy.pair) * W).sum(axis=1)


@pytest.mark.parametrize("sizes", SIZES)
def test_minimum_by_halves_and_by_proof(sizes: tuple[int, ...]) -> None:
    energy = draw(sizes, 1)
    everything = brute(sizes, energy)
    np.testing.assert_allclose(energy.at(outcomes(sizes)), everything, atol=1e-12)
    low = lowest(energy)
    assert low.bound == pytest.approx(everything.min())
    assert (np.diff(low.values) >= 0).all()
    np.testing.assert_allclose(energy.at(low.outcomes), low.values)
    proof = prove(energy)
    assert proof.values[0] == pytest.approx(everything.min())
    assert everything.min() - 1e-5 <= proof.bound <= everything.min() + 1e-9
    np.testing.assert_array_equal(proof.outcomes[0], low.outcomes[0])


@pytest.mark.parametrize("sizes", SIZES)
def test_descent_ends_where_no_single_change_helps(sizes: tuple[int, ...]) -> None:
    energy = draw(sizes, 2)
    rng = np.random.default_rng(0)
    starts = rng.integers(0, sizes, (20, len(sizes)))
    low = descend(energy, starts, 100)
    assert low.bound == -np.inf
    assert low.values[0] <= energy.at(starts).min() + 1e-12
    for x, value in zip(low.outcomes, low.values, strict=True):
        for i, size in enumerate(sizes):
            near = np.repeat(x[None], size, axis=0)
            near[:, i] = np.arange(size)
            assert energy.at(near).min() >= value - 1e-9


def test_forbidden_categories_are_avoided() -> None:
    sizes = (3, 2, 3)
    energy = draw(sizes, 3)
    unary, pair = energy.unary, energy.pair
    unary[0] += FORBIDDEN
    pair[1, 3] += FORBIDDEN
    pair[3, 1] += FORBIDDEN
    everything = brute(sizes, energy)
    low, proof = lowest(energy), prove(energy)
    assert low.bound == pytest.approx(everything.min()) == proof.values[0]
    assert low.outcomes[0, 0] != 0
    unary[:3] = FORBIDDEN
    assert prove(energy).bound >= FORBIDDEN
    assert lowest(energy).bound > FORBIDDEN / 2


def test_halves_have_about_as_many_outcomes() -> None:
    grid = Grid(np.array([2] * 10 + [3] * 4))
    first, second = grid.halves
    assert sorted([*first, *second]) == list(range(14))
    sizes = grid.sizes[first].prod(), grid.sizes[second].prod()
    assert max(sizes) / min(sizes) <= 3
    assert grid.n_sweep == 2**10 * 3**4
    assert grid.exact
    assert not Grid(np.array([2] * 40)).exact


def test_a_proof_that_is_cut_short_still_bounds() -> None:
    energy = draw((3,) * 14, 5)
    short = prove(energy, time_limit=0.05)
    exact = lowest(energy).bound
    assert short.bound <= exact + 1e-6
    if len(short.values):
        assert short.values[0] >= exact - 1e-6


def test_columns_that_seldom_meet_are_searched_exactly() -> None:
    """Forty columns of which each is 1 only if the one before it is."""
    d = 40
    possible = np.ones((2 * d, 2 * d), bool)
    for i in range(d):
        for j in range(i + 1, d):
            possible[2 * i, 2 * j + 1] = possible[2 * j + 1, 2 * i] = False
    stairs = (np.arange(d) < np.arange(d + 1)[:, None]).astype(np.int64)
    energy = draw((2,) * d, 4)
    pair = np.where(possible, energy.pair, energy.pair + FORBIDDEN)
    grid = Grid(np.full(d, 2), possible)
    energy = Energy(grid, energy.unary, pair)
    assert grid.exact
    assert grid.n_sweep == 21**2
    low = lowest(energy)
    expected = energy.at(stairs)
    assert low.bound == pytest.approx(expected.min())
    np.testing.assert_array_equal(low.outcomes[0], stairs[expected.argmin()])


def test_nothing_is_proven_after_the_deadline() -> None:
    energy = draw((2,) * 7, 0)
    low = minimise(energy, 100, Deadline(0))
    assert low.bound == -np.inf
    assert len(low.outcomes) == 0


@pytest.mark.parametrize("scores", [1, 3])
@pytest.mark.parametrize("sizes", SIZES)
def test_losses_are_taken_off_whatever_the_way(
    sizes: tuple[int, ...], scores: int
) -> None:
    """A loss of additive scores: by halves, by descent, and by lines above it."""
    rng = np.random.default_rng(7)
    plain = draw(sizes, 6)
    points, base = rng.normal(size=(sum(sizes), scores)), rng.normal(size=scores)

    def value(s: np.ndarray) -> np.ndarray:
        return 2.0 * (s[..., 0] <= 0.0) + np.tanh(s[..., -1]) * (scores > 1)

    energy = plain._replace(loss=ScoreLoss(points, base, value))
    X = outcomes(sizes)
    s = one_hot(X, sizes) @ points + base
    everything = brute(sizes, plain) - value(s)
    np.testing.assert_allclose(energy.at(X), everything, atol=1e-12)
    assert lowest(energy).bound == pytest.approx(everything.min())
    assert descend(energy, X, 5).values[0] == pytest.approx(everything.min())
    if scores == 1:
        low, high = float(s.min()) - 1, float(s.max()) + 1
        slices = [Slice(low, 0.0, 2.0, 0.0), Slice(0.0, high, 0.0, 0.0)]
        proof = prove(energy, [(np.append(points[:, 0], base), slices)])
        assert proof.values[0] == pytest.approx(everything.min())
        assert everything.min() - 1e-5 <= proof.bound <= everything.min() + 1e-6
