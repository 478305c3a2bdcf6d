r"""Discrete Chebyshev classifier: the minimax rule given pairs along a tree.

Eban, Mezuman and Globerson (ICML 2014) minimise the worst hinge loss over all
distributions that have given marginals P(X_i, X_j, Y). With the pairs on one tree the
problem is a small linear program (`renyi.baselines.trees`), solved here for the worst
error itself, to which it is equivalent. "tree" takes the pairs of largest
conditional mutual information, "greedy" (gDCC) adds them by the fall of the bound.

Many rules have the same bound, and where all λ_y(x) are equal none of them prefers a
class. There Bayes' rule along the tree (`renyi.baselines.tan`) decides: its surprise
``−log P(x, y)``, which is not negative, is added to λ_y with a weight so small that the
bound rises by 1e-7 at most. So no tie is left to the solver's rounding.

This is a reconstruction: the authors' program, which is not at hand, may break such
ties, choose trees and smooth tables in other ways.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from renyi.baselines.tan import fit_bayes_tree
from renyi.baselines.trees import (
    ClassTables,
    Edge,
    Structure,
    check_few_classes,
    greedy_tree,
    information_tree,
    smoothed,
    solve_tree,
)
from renyi.checks import check_amount
from renyi.encoding.encoder import Encoder
from renyi.estimators.classifier import class_pairs
from renyi.estimators.minimax_classifier import RuleClassifier
from renyi.marginals.marginals import Marginals
from renyi.robust.minimax_problem import MinimaxRule

Floats = NDArray[np.float64]

# What the second opinion may add to the bound.
_PRICE = 1e-7
# Rows by which the second opinion is smoothed, and the largest surprise it may have.
_ROWS, _SURPRISE = 5.0, 50.0

_STRUCTURES = {"tree": information_tree, "greedy": greedy_tree}


class DiscreteChebyshevClassifier(RuleClassifier):
    """Smallest worst error given the pairs of features on a tree within each class.

    Parameters
    ----------
    structure : {"tree", "greedy"}, default="tree"
        The tree of largest conditional mutual information, or one grown edge by edge
        by the fall of the bound (gDCC).
    smoothing : float, default=0.0
        Rows of independent features that each class is mixed with before training.
        With few rows a little of it (1 to 5) helps on new ones. The guarantee is that
        of the rule under the tables as they were counted; without smoothing it is the
        smallest there is.
    encoder : Encoder, optional
        How cells become categories.

    Attributes
    ----------
    guarantee_ : float
        Proven worst error of `rule_proba` over all distributions with the class
        tables of the tree's edges. That of `predict` is at most twice as large.
    edges_ : list of pairs of names
        The tree, in the order its edges were added.
    bounds_ : list of float
        With structure="greedy", the bound after each edge, until it was zero; it never
        rises. It is that of the tables the tree was grown by: with smoothing, of the
        smoothed ones, and then no guarantee.
    rule_ : MinimaxRule
        The rule.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As in every classifier trained from counts.

    Notes
    -----
    A reconstruction of the classifier of Eban, Mezuman and Globerson (2014) from its
    description. Where the rule prefers no class, Bayes' rule along the same tree
    decides. Two to eight classes. Needs the extra ``exact``.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.baselines.DiscreteChebyshevClassifier().fit(X, y)
    >>> round(clf.guarantee_, 4)
    0.0414
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    """

    def __init__(
        self,
        structure: str = "tree",
        smoothing: float = 0.0,
        encoder: Encoder | None = None,
    ) -> None:
        self.structure = structure
        self.smoothing = smoothing
        self.encoder = encoder

    def _check_parameters(self) -> None:
        if self.structure not in list(_STRUCTURES):  # a list, which need not hash it
            raise ValueError(
                f"structure must be 'tree' or 'greedy', not {self.structure!r}."
            )
        check_amount("smoothing", self.smoothing, "a number of rows")

    def _class_pairs_for(self) -> str | None:
        return type(self).__name__

    def _train(self, m: Marginals) -> None:
        check_few_classes(len(self.classes_))
        pairs = class_pairs(m, type(self).__name__) / m.n
        columns = m.encoder.columns
        own = ClassTables(pairs, columns, m._column(m.target))
        used = own
        if self.smoothing:
            rows = m.class_probabilities * m.n
            share = self.smoothing / (self.smoothing + rows)
            used = own._replace(pairs=smoothed(pairs, columns.sizes, share))
        found: Structure = _STRUCTURES[self.structure](used)
        multiplier = solve_tree(used.ambiguity(found.edges)).multiplier
        ambiguity = own.ambiguity(found.edges)
        surprise = second_opinion(m, found.edges)
        price = max(1.0, float(ambiguity.b @ surprise))
        multiplier = multiplier + _PRICE / price * surprise
        # The functions are good whatever tables they were made from: their expectation
        # under the counted ones is the guarantee.
        guarantee = float(ambiguity.b @ multiplier)
        self.rule_ = MinimaxRule(ambiguity, multiplier, guarantee, m.encoder)
        names = m.feature_names
        self.edges_ = [(names[i], names[j]) for i, j in found.edges]
        self.bounds_ = found.bounds


def second_opinion(m: Marginals, edges: list[Edge]) -> Floats:
    """Surprise −log P(x, y) of Bayes' rule along a tree, by the cells of its tables."""
    sizes = m.encoder.columns.sizes
    tree = fit_bayes_tree(class_pairs(m, "A tree"), sizes, edges, _ROWS)
    root = tree.priors + tree.root[:-1]
    tables = [table[:-1, :-1] for table in tree.children] or [root]
    if edges:
        tables[0] = tables[0] + root[:, None]
    surprise = -np.concatenate([table.ravel() for table in tables])
    return np.asarray(np.minimum(surprise, _SURPRISE))
