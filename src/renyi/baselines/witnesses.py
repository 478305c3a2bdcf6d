r"""Witnesses: distributions of errors that prove that an edge would lower no bound.

For two classes the bound of a tree is the mass of the largest measure t whose tables
stay below ``min_y P(X_i, X_j, y)`` along its edges (`renyi.baselines.forests`). Every
such measure, largest or not, is a witness: with an edge (i, j) more, the bound is still

.. math:: \mathrm{mass}(t) - \sum_k (t_i(k) - G_{ij}(k))_+ , \quad
    G_{ij}(k) = \sum_l \min_y P(k, l, y),

at the least, t_i being its margin. Every program that was solved leaves one. Along 56
edges of the promoters they replaced five of six programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.baselines.trees import Edge
from renyi.counting.onehot import offsets

Floats = NDArray[np.float64]

# What a margin may exceed its limit by: the rounding of a sum.
_ROUNDING = 1e-12


def margins(edges: list[Edge], tables: list[Floats], sizes: NDArray[Any]) -> Floats:
    """Margins of a measure on all features of a tree, from its tables on the edges.

    >>> margins([(0, 2)], [np.array([[1.0, 2.0], [3.0, 4.0]])], np.array([2, 1, 2]))
    array([3., 7., 0., 4., 6.])
    """
    starts = offsets(sizes)
    found = np.zeros(int(starts[-1]))
    for (i, j), cells in zip(edges, tables, strict=True):
        found[starts[i] : starts[i + 1]] = cells.sum(axis=1)
        found[starts[j] : starts[j + 1]] = cells.sum(axis=0)
    return found


class Witnesses:
    """Measures of errors that the tables of a growing tree allow.

    Parameters
    ----------
    loss : ndarray of shape (D, D)
        ``min_y P(X_i, X_j, y)`` of all pairs of features.
    sizes : ndarray of shape (d,)
        Number of categories of each feature.

    Examples
    --------
    >>> loss = np.array([[0.2, 0, 0.1, 0], [0, 0.1, 0, 0.1],
    ...                  [0.1, 0, 0.1, 0], [0, 0.1, 0, 0.2]])
    >>> seen = Witnesses(loss, np.array([2, 2]))
    >>> seen.add(np.array([0.1, 0.1, 0, 0]), 0.2)
    >>> seen.prove((0, 1), 0.2)  # the pair allows 0.1 of each category
    True
    >>> seen.add(np.array([0.2, 0.1, 0, 0]), 0.3)
    >>> seen.prove((0, 1), 0.25)
    False
    """

    def __init__(self, loss: Floats, sizes: NDArray[Any]) -> None:
        self._loss = loss
        starts = offsets(sizes)
        self._spans = [slice(*ends) for ends in zip(starts, starts[1:], strict=False)]
        self._errors = np.zeros((0, len(loss)))
        self._masses = np.zeros(0)

    def add(self, errors: Floats, mass: float) -> None:
        """Remember a measure along the tree by its margins and its mass."""
        self._errors = np.vstack([self._errors, errors])
        self._masses = np.append(self._masses, mass)

    def prove(self, edge: Edge, least: float) -> bool:
        """Whether the bound is known to be `least` or more with one edge more."""
        left = self._masses - self._excess(edge).sum(axis=1)
        return bool((left >= least).any())

    def extend(self, edge: Edge) -> None:
        """Go on along an edge to a new feature, with the measures that it allows.

        Each category's errors are shared out as the pair allows them.
        """
        kept = self._excess(edge).max(axis=1, initial=0.0) <= _ROUNDING
        self._errors, self._masses = self._errors[kept], self._masses[kept]
        block, limits = self._block(edge)
        share = block / np.where(limits > 0, limits, 1.0)[:, None]
        old, new = (self._spans[i] for i in edge)
        self._errors[:, new] = self._errors[:, old] @ share

    def _block(self, edge: Edge) -> tuple[Floats, Floats]:
        block = self._loss[self._spans[edge[0]], self._spans[edge[1]]]
        return block, block.sum(axis=1)

    def _excess(self, edge: Edge) -> Floats:
        _, limits = self._block(edge)
        own = self._errors[:, self._spans[edge[0]]]
        return np.asarray(np.maximum(own - limits, 0.0))
