r"""Tree-augmented naive Bayes: each feature depends on the class and on one other.

.. math:: P(x, y) = P(y) \prod_i P(x_i | x_{\pi(i)}, y)

along the tree of largest conditional mutual information (Chow and Liu 1968; Friedman,
Geiger and Goldszmidt, Machine Learning 29, 1997). It has the largest likelihood of all
trees. From the pair counts within each class,

.. math:: I(X_i; X_j | Y) = \sum_{k, l, y} P(k, l, y)
    \log \frac{P(k, l | y)}{P(k | y)\, P(l | y)}.

As in that paper, every conditional distribution is smoothed by s rows with the
feature's overall distribution,

.. math:: \hat P(x_i | x_\pi, y) = \frac{N(x_i, x_\pi, y) + s\, P(x_i)}
    {N(x_\pi, y) + s}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets, spans
from renyi.encoding.encoder import Encoder
from renyi.estimators.classifier import CountsClassifier
from renyi.marginals.consistency import class_pairs
from renyi.marginals.marginals import Marginals
from renyi.solvers.calibration import softmax
from renyi.validation import check_amount

Floats = NDArray[np.float64]
Edge = tuple[int, int]


# ---- the tree


def block_sums(values: Floats, sizes: NDArray[Any]) -> Floats:
    """Sum each block of a D × D array: one number for each pair of features."""
    starts = offsets(sizes)[:-1]
    return np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)


def conditional_information(class_counts: NDArray[Any], sizes: NDArray[Any]) -> Floats:
    """Return the information of each pair of features given the class."""
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
    information = block_sums(total, sizes) / max(mass, 1e-300)
    np.fill_diagonal(information, 0.0)
    return np.asarray(np.maximum(information, 0.0))


def spanning_tree(weights: Floats, begun: Iterable[Edge] = ()) -> list[Edge]:
    """Return the edges (parent, child) of the tree of largest weight, by Prim.

    `begun` is a given part of the tree. The root is the first feature of its first
    edge, or feature 0.
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


# ---- the probabilities along it


class BayesTree(NamedTuple):
    """Logarithms of the probabilities of a tree-shaped Bayes network.

    `root` is (categories, classes), each table of `children` is (categories of the
    parent, of the child, classes). The last place of an axis is for an unseen label.
    """

    priors: Floats
    root: Floats
    edges: list[Edge]
    children: list[Floats]

    def log_joint(self, codes: NDArray[Any]) -> Floats:
        """Return log P(x, y) of rows given as codes (d, n): an array (n, K)."""
        root = self.edges[0][0] if self.edges else 0
        total = self.priors + self.root[codes[root]]
        for (parent, child), table in zip(self.edges, self.children, strict=True):
            total += table[codes[parent], codes[child]]
        return np.asarray(total)


def fit_bayes_tree(
    class_counts: NDArray[Any], sizes: NDArray[Any], edges: list[Edge], smoothing: float
) -> BayesTree:
    """Return the probabilities of a tree from pair counts (K, D, D) in each class."""
    places = spans(sizes)
    single = np.einsum("ykk->ky", class_counts).astype(np.float64)
    rows = single[places[0]].sum(axis=0)
    own = single.sum(axis=1) / max(float(rows.sum()), 1e-300)

    def alone(i: int) -> Floats:
        return _conditional(single[places[i]], rows, own[places[i], None], smoothing)

    def given(parent: int, child: int) -> Floats:
        counts = class_counts[:, places[parent], places[child]].transpose(1, 2, 0)
        before = single[places[parent]][:, None, :]
        shrunk = own[places[child]][:, None]
        known = _conditional(counts, before, shrunk, smoothing)
        return np.concatenate([known, alone(child)[None]])

    # The last place is for unseen labels, whose factor is 1: log 1.
    root = alone(edges[0][0] if edges else 0)
    first = np.pad(root, ((0, 1), (0, 0)), constant_values=1.0)
    wide = ((0, 0), (0, 1), (0, 0))
    children = [_log(np.pad(given(*e), wide, constant_values=1.0)) for e in edges]
    priors = rows / max(float(rows.sum()), 1e-300)
    return BayesTree(_log(priors), _log(first), edges, children)


def _conditional(
    counts: NDArray[Any], before: NDArray[Any], own: Floats, smoothing: float
) -> Floats:
    """Return conditional probabilities; the overall ones if there are no rows."""
    total = np.broadcast_to(before + smoothing, counts.shape)
    start = np.broadcast_to(own, counts.shape).astype(np.float64)
    return np.divide(counts + smoothing * own, total, out=start, where=total > 0)


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


class TreeAugmentedNaiveBayes(CountsClassifier):
    """Bayes' rule with a tree of dependences between the features (TAN).

    Use it as a baseline without a guarantee. It needs the pair counts within each
    class.

    Parameters
    ----------
    smoothing : float, default=5.0
        Rows by which every conditional distribution is smoothed with the feature's
        overall distribution; 5 in the paper of Friedman, Geiger and Goldszmidt.
    encoder : Encoder, optional
        How cells become categories.

    Attributes
    ----------
    guarantee_ : None
        There is none: Bayes' rule is optimal if the tree describes the dependences,
        and nothing is guaranteed if it does not.
    edges_ : list of pairs of names
        The tree, each edge as (parent, child).
    tree_ : BayesTree
        The probabilities.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As in every classifier trained from counts.

    Notes
    -----
    For a label unseen in training, its factor is left out, and the children of its
    feature are taken given the class only.

    See Also
    --------
    RenyiClassifier : Train a scorecard with a guarantee.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.baselines.TreeAugmentedNaiveBayes().fit(X, y)
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    >>> clf.predict_proba(X[:1]).round(3)
    array([[0., 1.]])
    """

    guarantee_ = None
    _class_conditional = True

    def __init__(self, smoothing: float = 5.0, encoder: Encoder | None = None) -> None:
        self.smoothing = smoothing
        self.encoder = encoder

    def _check_parameters(self) -> None:
        check_amount("smoothing", self.smoothing, "a number of rows")

    def _train(self, m: Marginals) -> None:
        counts = class_pairs(m, type(self).__name__)
        sizes = m.encoder.columns.sizes
        edges = spanning_tree(conditional_information(counts, sizes))
        self.tree_ = fit_bayes_tree(counts, sizes, edges, float(self.smoothing))
        names = m.feature_names
        self.edges_ = [(names[i], names[j]) for i, j in edges]

    def predict_proba(self, X: object) -> Floats:
        """Return the probability of each class at each row, by Bayes' rule.

        If every class excludes the row, return the class probabilities.
        """
        codes = self._codes(X)  # first, as it checks that the model is fitted
        joint = self.tree_.log_joint(codes)
        nowhere = np.isneginf(joint).all(axis=1, keepdims=True)
        return softmax(np.where(nowhere, self.tree_.priors, joint))

    def predict_log_proba(self, X: object) -> Floats:
        """Return the logarithm of `predict_proba`."""
        return _log(self.predict_proba(X))

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])
