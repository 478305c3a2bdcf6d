r"""Coded classes: the numbers that scores are fitted to by least squares.

Two classes are ±½ in one column, which stands for both; K classes are ``e_Y − 1/K`` in
K columns. With T for either, the risk of scores s is

.. math:: \gamma = w \, E \lVert T - s \rVert^2

with w = 1 for one column and ½ for K (`weight_of`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.solvers.ridge import weight_of

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


class Coding(NamedTuple):
    """E[T W], E[T] and E‖T‖² of the coded classes, and the weight w of γ."""

    R: Floats
    mean: Floats
    variance: float
    weight: float


def coded_moments(q: Floats, target: Floats, sizes: Places) -> Coding:
    """Code two classes as ±½, K classes as e_Y − 1/K.

    Parameters
    ----------
    q : ndarray of shape (D,)
        Probabilities of the categories.
    target : ndarray of shape (D,) or (D, K)
        The vector d for two classes, or F for K. Every feature's block of it, coded,
        sums to E[T].
    sizes : ndarray of d ints
        Number of categories of each feature.

    Examples
    --------
    >>> coded_moments(np.array([0.5, 0.5]), np.array([0.4, 0.0]), np.array([2]))
    Coding(R=array([[0.2, 0. ]]), mean=array([0.2]), variance=0.25, weight=1.0)
    """
    d = len(sizes)
    if target.ndim == 1:
        R = target[None] / 2
        return Coding(R, R.sum(axis=1) / d, 0.25, weight_of(2))
    K = target.shape[1]
    R = target.T - q / K
    # Not by `weight_of`: two classes may be given as two columns, too.
    return Coding(R, R.sum(axis=1) / d, 1 - 1 / K, 0.5)


def coded_rows(labels: NDArray[Any], n_classes: int) -> Floats:
    """Return T at every row, coded likewise: shape (1, n) for two classes, else (K, n).

    >>> coded_rows(np.array([0, 1]), 2)
    array([[-0.5,  0.5]])
    """
    if n_classes == 2:
        return np.asarray(labels[None] - 0.5, np.float64)
    indicators = np.asarray(labels == np.arange(n_classes)[:, None], np.float64)
    return indicators - 1 / n_classes
