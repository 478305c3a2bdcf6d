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

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from renyi.robust.minimax_problem import MinimaxRule

Floats = NDArray[np.float64]


def swings(rule: MinimaxRule) -> pd.Series:
    """Swing of every feature of a minimax rule, the largest first.

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
        means = [_main_effect(rest, each, axis) for axis in range(len(each))]
        for i, mean in zip(table.features, means, strict=True):
            effects[i] += mean
        if len(each) > 1:  # what no feature has alone belongs to all of them
            flat, joint = rest.reshape(-1, rest.shape[-1]), reduce(np.outer, each)
            alone = sum(_variance(e, w) for e, w in zip(means, each, strict=True))
            part = max(0.0, _variance(flat, joint.ravel()) - alone) / len(each)
            shared[list(table.features)] += part
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


def _variance(values: Floats, weights: Floats) -> float:
    """Variance over the categories, averaged over the classes."""
    return float(weights @ ((values - weights @ values) ** 2).mean(axis=1))
