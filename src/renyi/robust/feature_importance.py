r"""Swings: which features a minimax rule looks at most.

The rule answers by the smallest of the functions

.. math:: \lambda_y(x) = \sum_t a_t(x_{S_t} [, y]),

so only what differs between the classes matters: tables without the target drop out,
and of the others the mean over the classes. The multiplier can be shifted between
tables without changing λ. Taking the columns as independent, each with its own
frequencies, settles what belongs to whom: the effect of a feature is the mean over the
other one, and what is left of a pair is shared by the two. The *swing* of a feature is
the root of its part of the variance: how far it moves the choice, up and down.

At a cell of probability 0 a multiplier may be anything large. A class that cannot occur
there counts as 1 above the smallest, which is enough never to be answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from renyi.robust.minimax_problem import MinimaxRule

Floats = NDArray[np.float64]


def swings(rule: MinimaxRule) -> pd.Series:
    """Swing of every feature of a minimax rule, the largest first.

    Examples
    --------
    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> swings(renyi.minimax(m, method="lp").rule).index[0]
    'physician-fee-freeze'
    """
    import pandas as pd

    ambiguity = rule.ambiguity
    weights = _frequencies(rule)
    effects = [np.zeros((len(w), ambiguity.n_classes)) for w in weights]
    shared = np.zeros(len(weights))
    for table, cells in ambiguity.split(rule.multiplier):
        if not table.with_target:
            continue
        rest = _differences(cells, table.probabilities)
        each = [weights[i] for i in table.features]
        for axis, i in enumerate(table.features):
            effects[i] += _main_effect(rest, each, axis)
        for i, part in zip(table.features, _interaction(rest, each), strict=True):
            shared[i] += part
    parts = [_variance(e, w) for e, w in zip(effects, weights, strict=True)]
    values = np.sqrt(np.array(parts) + shared)
    found = pd.Series(values, list(ambiguity.columns.names), name="swing")
    return found.sort_values(ascending=False, kind="stable")


def _frequencies(rule: MinimaxRule) -> list[Floats]:
    """Return the probabilities of the categories of each feature."""
    found: dict[int, Floats] = {}
    for table in rule.ambiguity.tables:
        for axis, i in enumerate(table.features):
            others = tuple(k for k in range(table.probabilities.ndim) if k != axis)
            found.setdefault(i, table.probabilities.sum(axis=others))
    return [found[i] for i in range(len(found))]


def _differences(a: Floats, p: Floats) -> Floats:
    """Return a less its mean over the classes, the last axis; 0 at impossible cells."""
    possible = p > 0
    least = np.where(possible, a, np.inf).min(axis=-1, keepdims=True)
    some = np.isfinite(least)
    least = np.where(some, least, 0.0)
    a = np.where(possible, a, np.minimum(a, least + 1))
    return np.asarray(np.where(some, a - a.mean(axis=-1, keepdims=True), 0.0))


def _main_effect(rest: Floats, weights: list[Floats], axis: int) -> Floats:
    """Return the mean over the other features of a table: (categories, classes)."""
    for k in range(len(weights) - 1, -1, -1):
        if k != axis:
            rest = np.tensordot(weights[k], rest, (0, k))
    return rest


def _interaction(rest: Floats, weights: list[Floats]) -> list[float]:
    """Return each feature's share of the variance that no feature has alone."""
    if len(weights) == 1:
        return [0.0]
    total = _variance(rest.reshape(-1, rest.shape[-1]), _product(weights))
    alone = [
        _variance(_main_effect(rest, weights, axis), weights[axis])
        for axis in range(len(weights))
    ]
    return [max(0.0, total - sum(alone)) / len(weights)] * len(weights)


def _product(weights: list[Floats]) -> Floats:
    found = np.ones(1)
    for w in weights:
        found = np.outer(found, w).ravel()
    return found


def _variance(values: Floats, weights: Floats) -> float:
    """Variance over the categories, averaged over the classes."""
    return float(weights @ ((values - weights @ values) ** 2).mean(axis=1))
