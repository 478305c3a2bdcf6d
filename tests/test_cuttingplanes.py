"""Cutting planes: the interval, its evidence, and the parts of the search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from joints import marginal_constraints, minimax_error, outcomes
from renyi import Marginals, energies
from renyi.ambiguity import Ambiguity, shortfall
from renyi.cuttingplanes import (
    Master,
    Oracle,
    _gauge,
    mended,
    normalised,
    search,
    subsets,
)
from renyi.datasets import random_joint
from renyi.localprogram import solve_local

TOL = 1e-6


def make(sizes: tuple[int, ...], K: int, seed: int, conditional: bool = False):
    """A table, and the set of the distributions with its marginals."""
    table = random_joint(sizes, K, concentration=0.3, random_state=seed)
    codes = outcomes(table.shape).astype(str)
    m = Marginals.from_data(
        pd.DataFrame(codes[:, :-1]).add_prefix("c"),
        codes[:, -1],
        sample_weight=table.ravel(),
        class_conditional=conditional,
    )
    return table, Ambiguity.of(m)


def test_subsets() -> None:
    assert subsets(3) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert len(subsets(5)) == 31


@pytest.mark.parametrize(("K", "conditional"), [(2, False), (3, False), (3, True)])
def test_normalised_multipliers_have_the_same_functions(K, conditional) -> None:
    _, amb = make((2, 3, 3), K, 0, conditional)
    a = np.random.default_rng(1).normal(size=len(amb.b))
    found = normalised(amb, a)
    X = outcomes(amb.sizes)
    np.testing.assert_allclose(amb.functions(found, X), amb.functions(a, X), atol=1e-12)
    np.testing.assert_allclose(found[_gauge(amb)], 0, atol=1e-12)
    assert amb.b @ found == pytest.approx(amb.b @ a)


@pytest.mark.parametrize("conditional", [False, True])
def test_the_oracle_minimises_the_functions(conditional: bool) -> None:
    _, amb = make((2, 3, 4), 3, 2, conditional)
    a = np.random.default_rng(3).normal(size=len(amb.b))
    oracle = Oracle(amb)
    values = amb.functions(a, outcomes(amb.sizes))
    for S in oracle.subsets:
        least = values[:, list(S)].sum(axis=1).min()
        assert oracle.exact(a, S).bound == pytest.approx(least)
        quick = oracle.quick(a, S, np.empty((0, 3), np.int64))
        assert quick.values[0] == pytest.approx(least)  # 500 starts for 24 outcomes


@pytest.mark.parametrize("seed", range(6))
def test_mended_functions_are_feasible(seed: int) -> None:
    K = 2 + seed % 3
    table, amb = make((2, 3, 2), K, seed)
    rng = np.random.default_rng(seed)
    a = solve_local(amb).multiplier + 0.05 * rng.normal(size=len(amb.b))
    X = outcomes(amb.sizes)
    values = amb.functions(a, X)
    bounds = {S: float(values[:, list(S)].sum(axis=1).min()) for S in subsets(K)}
    value, multiplier = mended(amb, a, bounds)
    assert shortfall(amb.functions(multiplier, X)) < 1e-9
    assert amb.b @ multiplier == pytest.approx(value)
    A, b = marginal_constraints(table)
    assert value >= minimax_error(A, b, K) - TOL
    assert value <= 1 - amb.priors.max() + TOL  # w = 0 is always open
    shift = shortfall(values)
    assert value <= amb.b @ a + shift + TOL  # better than the plain shift
    wild = dict.fromkeys(bounds, -np.inf)
    assert mended(amb, a, wild)[0] == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_search_with_proofs_by_whole_numbers(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where outcomes are too many to list, the mixed-integer program takes over."""
    K = 2 + seed % 2
    table, amb = make((2, 3, 2, 2), K, seed)
    A, b = marginal_constraints(table)
    e_star = minimax_error(A, b, K)
    first = solve_local(amb)
    monkeypatch.setattr(energies, "MAX_OUTCOMES", 0)
    found = search(amb, first.multiplier, first.value)
    assert found.lower == pytest.approx(e_star, abs=2e-6)
    assert found.upper == pytest.approx(e_star, abs=2e-6)
    assert found.lower <= e_star + 1e-8
    assert found.upper >= e_star - 1e-8
    assert not found.interrupted


def test_seeds_are_cuts_to_begin_with() -> None:
    table, amb = make((3, 3, 3), 2, 4)
    first = solve_local(amb)
    X = outcomes(amb.sizes)
    found = search(amb, first.multiplier, first.value, seeds=X)
    A, b = marginal_constraints(table)
    assert found.upper == pytest.approx(minimax_error(A, b, 2), abs=TOL)
    assert found.cuts >= 3 * len(X)
    assert found.rounds <= 3
    # The evidence: a distribution with these marginals and that error.
    p = np.zeros((len(X), 2))
    codes = {tuple(x): k for k, x in enumerate(X.tolist())}
    for x, mass in zip(found.outcomes.tolist(), found.p, strict=True):
        p[codes[tuple(x)]] += mass
    assert np.abs(A @ p.ravel() - b).max() < 1e-8
    assert 1 - p.max(axis=1).sum() == pytest.approx(found.lower, abs=TOL)


def test_the_master_knows_a_cut_once() -> None:
    _, amb = make((2, 2), 2, 0)
    master = Master(amb)
    X = outcomes(amb.sizes)
    assert master.add(X, (0,)) == 4
    assert master.add(X, (0,)) == 0
    assert master.add(X[:2], (0, 1)) == 2
    assert len(master.rows) == 6


def test_no_time_leaves_the_start() -> None:
    _, amb = make((3, 3, 3), 2, 4)
    first = solve_local(amb)
    found = search(amb, first.multiplier, first.value, time_limit=0.0)
    assert (found.lower, found.upper) == (0.0, first.value)
    X = outcomes(amb.sizes)
    values = amb.functions(found.best, X)
    np.testing.assert_allclose(values, amb.functions(first.multiplier, X), atol=1e-9)
