r"""Trees over the features, by conditional mutual information.

From the pair counts within each class,

.. math:: I(X_i; X_j | Y) = \sum_{k, l, y} P(k, l, y)
    \log \frac{P(k, l | y)}{P(k | y)\, P(l | y)},

and the tree of largest total weight (Chow and Liu 1968; Friedman, Geiger and
Goldszmidt 1997), grown feature by feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets

Floats = NDArray[np.float64]
Edge = tuple[int, int]


def block_sums(values: Floats, sizes: NDArray[Any]) -> Floats:
    """Sum each block of a D × D array: one number for each pair of features.

    >>> block_sums(np.ones((3, 3)), np.array([1, 2]))
    array([[1., 2.],
           [2., 4.]])
    """
    starts = offsets(sizes)[:-1]
    return np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)


def conditional_information(class_counts: NDArray[Any], sizes: NDArray[Any]) -> Floats:
    """Information of every pair of features given the class, in nats: (d, d).

    Parameters
    ----------
    class_counts : ndarray of shape (K, D, D)
        Pair counts of the features within each class.
    sizes : ndarray of shape (d,)
        Number of categories of each feature.

    Examples
    --------
    >>> same = np.eye(2) * 5  # within the class both columns are the same coin
    >>> counts = np.block([[same, same], [same, same]])
    >>> conditional_information(np.stack([counts, counts]), np.array([2, 2])).round(4)
    array([[0.    , 0.6931],
           [0.6931, 0.    ]])
    """
    total = np.zeros(class_counts.shape[1:])
    mass = 0.0
    for counts in class_counts:
        single = np.diag(counts)
        rows = float(single[: sizes[0]].sum())
        expected = np.outer(single, single) / max(rows, 1e-300)
        seen = counts > 0
        ratio = np.divide(counts, expected, out=np.ones(counts.shape), where=seen)
        total += np.where(seen, counts, 0) * np.log(ratio)
        mass += rows
    found = block_sums(total, sizes) / max(mass, 1e-300)
    np.fill_diagonal(found, 0.0)
    return np.asarray(np.maximum(found, 0.0))


def spanning_tree(weights: Floats, begun: Iterable[Edge] = ()) -> list[Edge]:
    """Edges (parent, child) of the tree of largest weight, from the root on (Prim).

    Parameters
    ----------
    weights : ndarray of shape (d, d)
        Symmetric weights.
    begun : edges, optional
        A part of the tree that is already decided; the first feature of the first
        edge is the root, else feature 0.

    Examples
    --------
    >>> weights = np.array([[0, 1, 5], [1, 0, 3], [5, 3, 0.0]])
    >>> spanning_tree(weights)
    [(0, 2), (2, 1)]
    """
    edges = list(begun)
    root = edges[0][0] if edges else 0
    inside = np.zeros(len(weights), bool)
    inside[[root, *(child for _, child in edges)]] = True
    while not inside.all():
        ranked = np.where(inside[:, None] & ~inside, weights, -np.inf)
        parent, child = divmod(int(ranked.argmax()), len(weights))
        edges.append((parent, child))
        inside[child] = True
    return edges


class Rooted(NamedTuple):
    """A forest from its roots on: `steps` are (parent, child, number of the edge)."""

    roots: list[int]
    steps: list[tuple[int, int, int]]


def rooted(edges: Sequence[Edge], n_nodes: int) -> Rooted:
    """Direct the edges of a forest away from the first node of each part.

    >>> rooted([(1, 2), (1, 0)], 4)
    Rooted(roots=[0, 3], steps=[(0, 1, 1), (1, 2, 0)])
    """
    beside: list[list[tuple[int, int]]] = [[] for _ in range(n_nodes)]
    for number, (i, j) in enumerate(edges):
        beside[i].append((j, number))
        beside[j].append((i, number))
    seen = [False] * n_nodes
    roots, steps = [], []
    for root in range(n_nodes):
        if not seen[root]:
            roots.append(root)
            seen[root] = True
            queue = [root]
            for node in queue:  # grows while it is read
                for other, number in beside[node]:
                    if not seen[other]:
                        seen[other] = True
                        steps.append((node, other, number))
                        queue.append(other)
    if len(steps) < len(edges):
        raise ValueError("The pairs of features close a circle: give those of a tree.")
    return Rooted(roots, steps)
