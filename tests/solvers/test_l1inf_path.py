"""The order in which features enter a path, whatever the penalties on the way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi import selection
from renyi.datasets import load
from renyi.selection import counts_problem
from renyi.solvers.l1inf_path import (
    entries,
    grid_down_to,
    penalty_grid,
    sharpened,
    solve_path,
)

FIRST = "physician-fee-freeze & mx-missile"


@pytest.fixture(scope="module")
def pairs():
    return renyi.Marginals.from_data(*load("votes"), order=2)


def upper(path):
    """The features that enter above a fifth of the largest penalty."""
    return [
        name
        for name, lam in zip(path.entries, path.lambdas, strict=True)
        if lam >= 0.2 * path.lasso.lambdas[0]
    ]


@pytest.mark.parametrize(("name", "value"), [("N_LAMBDAS", 17), ("RATIO", 0.05)])
def test_order_does_not_depend_on_the_penalties(pairs, name, value, monkeypatch):
    one = upper(renyi.selection_path(pairs))
    monkeypatch.setattr(selection, name, value)
    other = upper(renyi.selection_path(pairs))
    assert one == other
    assert one[0] == FIRST and len(one) > 4


def test_no_feature_enters_by_the_solver_s_tolerance(pairs):
    """Compared with solutions to the last digits, on the same penalties."""
    path = renyi.selection_path(pairs)
    lambdas = path.lasso.lambdas
    few = lambdas[lambdas >= 0.2 * lambdas[0]]
    problem = counts_problem(pairs)
    exact = solve_path(problem, few, tol=1e-11)
    np.testing.assert_array_equal(path.lasso.active[: len(few)], exact.active)
    # Without the second walk there are features whose points belong to others.
    plain = solve_path(problem, few)
    assert (plain.active & ~exact.active).any()


def test_a_number_of_features_is_the_beginning_of_every_path(pairs):
    whole = renyi.RenyiSelector(order=2, method="path", n_features=20).fit_marginals(
        pairs
    )
    for k in (1, 2, 3, 4, 7):
        fewer = renyi.RenyiSelector(order=2, method="path", n_features=k).fit_marginals(
            pairs
        )
        assert fewer.features_.tolist() == whole.features_.tolist()[:k]
        ahead = min(k, len(upper(whole.path_)))
        np.testing.assert_array_equal(
            fewer.path_.lambdas[:ahead], whole.path_.lambdas[:ahead]
        )


def test_a_penalty_has_the_path_of_a_number_of_features(pairs):
    by_number = renyi.RenyiSelector(order=2, method="path", n_features=5).fit_marginals(
        pairs
    )
    by_penalty = renyi.RenyiSelector(order=2, method="path", penalty=0.3).fit_marginals(
        pairs
    )
    assert by_penalty.features_.tolist() == by_number.features_.tolist()
    np.testing.assert_array_equal(
        by_penalty.path_.lambdas[:5], by_number.path_.lambdas[:5]
    )
    assert by_penalty.path_.lasso.lambdas[-1] == 0.3


def test_rows_and_counts_agree(pairs):
    by_rows = renyi.RenyiSelector(order=2, method="path", n_features=6).fit(
        *load("votes")
    )
    by_counts = renyi.RenyiSelector(order=2, method="path", n_features=6).fit_marginals(
        pairs
    )
    assert by_rows.features_.tolist() == by_counts.features_.tolist()


def test_penalties_stay_and_gaps_are_reached(pairs):
    problem = counts_problem(pairs)
    grid = penalty_grid(problem, 12, 0.05)
    found = solve_path(problem, grid)
    better = sharpened(problem, found)
    assert set(grid) <= set(better.lambdas)
    assert (np.diff(better.lambdas) < 0).all()
    assert better.converged and better.tol == found.tol
    top = better.lambdas >= 0.2 * grid[0]
    assert (better.gaps[top] <= 2e-8 * better.objectives[top]).all()


def test_ties_come_in_the_order_of_the_table():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    a, b = np.where(rng.random((2, 400)) < 0.3, 1 - y, y)
    # As good as each other to the last row: the second is the first of other rows.
    X = pd.DataFrame(
        {"later": np.concatenate([a, b]), "sooner": np.concatenate([b, a])}
    )
    labels = np.concatenate([y, y])
    for columns in (["later", "sooner"], ["sooner", "later"]):
        m = renyi.Marginals.from_data(X[columns], labels)
        path = renyi.selection_path(m)
        assert path.entries == tuple(columns)
        assert path.lambdas[0] == path.lambdas[1]
    problem = counts_problem(m)
    found = solve_path(problem, penalty_grid(problem, 5, 0.1))
    order, first = entries(found, np.array([2, 2]))
    assert order.tolist() == [0, 1] and first[0] == first[1]


@pytest.mark.parametrize("least", [0.9, 0.5, 0.1, 0.004, 1e-4, 1e-30])
def test_penalties_down_to_one(least):
    grid = np.geomspace(1, 0.01, 10)
    found = grid_down_to(grid, least)
    assert found[-1] == pytest.approx(least) and found[0] == 1
    assert (np.diff(found) < 0).all()
    assert len(found) < 40
    above = grid[grid > least * 1.001]
    np.testing.assert_array_equal(found[: len(above)], above)
