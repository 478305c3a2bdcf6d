"""What a minimax rule looks at: how far each feature moves its choice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.datasets import random_joint
from renyi.robust.minimax_problem import feature_importance
from support import counted
from support.joints import outcomes

pytest.importorskip("highspy")


marginals = partial(counted.marginals, n=1000)


@pytest.mark.parametrize("class_conditional", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_importances_split_the_variance_of_the_choice(
    K: int, class_conditional: bool
) -> None:
    table = random_joint((2, 3, 2), K, random_state=K)
    m = marginals(table, class_conditional=class_conditional)
    rule = renyi.minimax(m, method="lp").rule
    found = feature_importance(rule)
    # All outcomes, as if the columns were independent.
    X = outcomes(table.shape[:-1])
    single = [table.sum(axis=tuple(k for k in range(4) if k != i)) for i in range(3)]
    weight = np.prod([p[X[:, i]] for i, p in enumerate(single)], axis=0)
    values = rule.functions(X.T)
    values = values - values.mean(axis=1, keepdims=True)
    spread = weight @ ((values - weight @ values) ** 2).mean(axis=1)
    assert (found**2).sum() == pytest.approx(spread, rel=1e-9)
    assert found.is_monotonic_decreasing


def test_importances_do_not_depend_on_how_the_functions_are_split() -> None:
    table = random_joint((2, 3, 2), 3, random_state=0)
    m = marginals(table, class_conditional=True)
    rule = renyi.minimax(m, method="lp").rule
    tables, starts = rule.ambiguity.tables, rule.ambiguity.starts
    one = next(t for t, table in enumerate(tables) if table.features == (1,))
    two = next(t for t, table in enumerate(tables) if table.features == (0, 1))
    moved = rule.multiplier.copy()
    shift = np.random.default_rng(0).normal(size=(3, 3))  # of x1 and the class
    moved[starts[one] : starts[one + 1]] += shift.ravel()
    moved[starts[two] : starts[two + 1]] -= np.tile(shift.ravel(), 2)
    X = outcomes(table.shape[:-1])
    other = replace(rule, multiplier=moved)
    np.testing.assert_allclose(other.functions(X.T), rule.functions(X.T), atol=1e-12)
    assert not np.allclose(moved, rule.multiplier)
    pd.testing.assert_series_equal(
        feature_importance(other), feature_importance(rule), atol=1e-9
    )


def test_empty_cells_weigh_no_more_than_an_answer() -> None:
    table = np.array([[[0.4, 0.0], [0.1, 0.1]], [[0.0, 0.2], [0.1, 0.1]]])
    m = marginals(table)
    rule = renyi.minimax(m, method="exact").rule
    completed = rule.ambiguity.completed(rule.multiplier)
    wild = np.where(rule.ambiguity.b <= 0, 1e6, completed)
    found = feature_importance(replace(rule, multiplier=wild))
    assert found.max() < 5
