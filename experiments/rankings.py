r"""Rankings of features by mutual information, with or without redundancy.

.. math:: I(X; Y) = \sum_{k, l} P(k, l) \log \frac{P(k, l)}{P(k) P(l)}

is computed from the pair counts alone. The ranking by I(X_i; Y) looks at one feature at
a time. At each step mRMR (Peng, Long and Ding, 2005) adds the feature of largest
``I(X_i; Y) − mean of I(X_i; X_j)`` over the features j chosen so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.marginals.marginals import Marginals

Floats = NDArray[np.float64]


def information(table: Floats) -> float:
    """Mutual information of a table of counts, in nats.

    >>> round(information(np.array([[1.0, 0.0], [0.0, 1.0]])), 4)
    0.6931
    >>> information(np.ones((2, 3)))
    0.0
    """
    P = table / table.sum()
    product = P.sum(axis=1, keepdims=True) * P.sum(axis=0)
    seen = P > 0
    return max(0.0, float((P[seen] * np.log(P[seen] / product[seen])).sum()))


def relevance(m: Marginals) -> Floats:
    """Return the mutual information of every feature with the target."""
    starts = offsets(m.encoder.columns.sizes)
    counts = m.target_counts.astype(np.float64)
    return np.array([information(part) for part in np.split(counts, starts[1:-1])])


def redundancy(m: Marginals) -> Floats:
    """Return the mutual information of every pair of features."""
    starts = offsets(m.encoder.columns.sizes)
    counts, d = m.feature_counts, len(starts) - 1
    out = np.zeros((d, d))
    for i in range(d):
        rows = counts[starts[i] : starts[i + 1]]
        for j in range(i):
            out[i, j] = out[j, i] = information(rows[:, starts[j] : starts[j + 1]])
    return out


def joint_information(codes: NDArray[Any], y: NDArray[Any]) -> float:
    """Mutual information of several features together with the classes, from rows.

    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    >>> y = np.array([0, 1, 1, 0])  # no single feature tells the class
    >>> round(joint_information(codes, y), 4), joint_information(codes[:1], y)
    (0.6931, 0.0)
    """
    _, outcome = np.unique(codes, axis=1, return_inverse=True)
    _, label = np.unique(np.asarray(y), return_inverse=True)
    table = np.zeros((outcome.max() + 1, label.max() + 1))
    np.add.at(table, (outcome.ravel(), label), 1.0)
    return information(table)


def by_information(m: Marginals) -> list[str]:
    """Names of the features, that of largest mutual information first.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> by_information(Marginals.from_data(X, y))[:2]
    ['physician-fee-freeze', 'adoption-of-the-budget-resolution']
    """
    order = np.argsort(-relevance(m), kind="stable")
    return [m.feature_names[i] for i in order]


def by_mrmr(m: Marginals) -> list[str]:
    """Names of the features in the order in which mRMR takes them.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> by_mrmr(Marginals.from_data(X, y))[0]
    'physician-fee-freeze'
    """
    gain, shared = relevance(m), redundancy(m)
    order = [int(gain.argmax())]
    left = [i for i in range(len(gain)) if i != order[0]]
    while left:
        values = gain[left] - shared[np.ix_(left, order)].mean(axis=1)
        order.append(left.pop(int(values.argmax())))
    return [m.feature_names[i] for i in order]
