"""TreeAugmentedNaiveBayes: a Bayes network by brute force, the tree, manners."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.metrics import mutual_info_score

from renyi import Encoder, Marginals
from renyi.baselines import TreeAugmentedNaiveBayes
from renyi.baselines.tan import (
    conditional_information,
    fit_bayes_tree,
    spanning_tree,
)
from support.manners import all_checks, by_any_road, refuses


def small(seed: int = 0, n: int = 80) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    a = (y + (rng.random(n) < 0.4)) % 3
    b = (a + (rng.random(n) < 0.3)) % 2
    c = (b + y + (rng.random(n) < 0.3)) % 3
    d = rng.integers(0, 2, n)
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "d": d})
    return frame.astype(str), y


def brute_force(frame, y, edges, smoothing, row) -> np.ndarray:
    """P(x, y) of one row for each class, by counting rows."""
    found = []
    parent = {child: above for above, child in edges}
    for label in np.unique(y):
        p = (y == label).mean()
        for name in frame:
            before = y == label
            if name in parent:
                before = before & (frame[parent[name]] == row[parent[name]]).to_numpy()
            here = (frame[name] == row[name]).to_numpy()
            own = here.mean()
            total = before.sum() + smoothing
            both = (before & here).sum() + smoothing * own
            p *= both / total if total else own
        found.append(p)
    return np.array(found)


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 5.0])
def test_agrees_with_a_bayes_network_by_brute_force(smoothing: float) -> None:
    X, y = small()
    clf = TreeAugmentedNaiveBayes(smoothing).fit(X, y)
    labels = [sorted(X[name].unique()) for name in X]
    everything = pd.DataFrame(list(product(*labels)), columns=X.columns)
    joint = np.array(
        [
            brute_force(X, y, clf.edges_, smoothing, row)
            for _, row in everything.iterrows()
        ]
    )
    assert joint.sum() == pytest.approx(1.0)
    possible = joint.sum(axis=1) > 0
    assert possible.mean() > (0.99 if smoothing else 0.3)
    expected = joint[possible] / joint[possible].sum(axis=1, keepdims=True)
    proba = clf.predict_proba(everything)
    np.testing.assert_allclose(proba[possible], expected, atol=1e-12)
    shares = np.bincount(y) / len(y)
    nowhere = proba[~possible]
    np.testing.assert_allclose(nowhere, np.tile(shares, (len(nowhere), 1)))
    best = clf.classes_[expected.argmax(axis=1)]
    np.testing.assert_array_equal(clf.predict(everything[possible]), best)


# ---- the tree


def test_information_is_that_of_the_classes() -> None:
    X, y = small(1)
    m = Marginals.from_data(X, y, class_conditional=True)
    found = conditional_information(m.class_counts, m.encoder.columns.sizes)
    names = list(X)
    for i, j in combinations(range(4), 2):
        truth = sum(
            (y == label).mean()
            * mutual_info_score(X[names[i]][y == label], X[names[j]][y == label])
            for label in np.unique(y)
        )
        assert found[i, j] == pytest.approx(truth, abs=1e-12)
        assert found[j, i] == found[i, j]
    assert (np.diag(found) == 0).all()


@pytest.mark.parametrize("d", [1, 2, 3, 8, 20])
def test_spanning_tree_has_the_largest_weight(d: int) -> None:
    weights = np.random.default_rng(d).random((d, d)) + 0.1
    weights = weights + weights.T
    edges = spanning_tree(weights)
    assert len(edges) == d - 1
    seen = {0}
    for parent, child in edges:  # from the root on
        assert parent in seen
        seen.add(child)
    truth = -minimum_spanning_tree(-np.triu(weights, 1)).sum()
    assert sum(weights[edge] for edge in edges) == pytest.approx(truth)


def test_spanning_tree_goes_on_from_what_is_decided() -> None:
    weights = np.ones((5, 5))
    weights[2, 4] = weights[4, 2] = 2.0
    edges = spanning_tree(weights, [(3, 2), (2, 0)])
    assert edges[:3] == [(3, 2), (2, 0), (2, 4)]
    assert {child for _, child in edges} == {0, 1, 2, 4}


def test_no_other_tree_makes_the_rows_likelier() -> None:
    X, y = small(2)
    m = Marginals.from_data(X, y, class_conditional=True)
    sizes = m.encoder.columns.sizes
    codes = m.encoder.transform(X)

    def likelihood(edges) -> float:
        tree = fit_bayes_tree(m.class_counts, sizes, edges, 0.0)
        return float(tree.log_joint(codes)[np.arange(len(y)), y].sum())

    best = likelihood(
        spanning_tree(conditional_information(m.class_counts, sizes))
    )  # fmt: skip
    others = []
    for chosen in combinations(list(combinations(range(4), 2)), 3):
        weights = np.zeros((4, 4))
        for i, j in chosen:
            weights[i, j] = weights[j, i] = 1
        tree = spanning_tree(weights)
        if all(weights[edge] for edge in tree):  # no circle
            others.append(likelihood(tree))
    assert len(others) == 16  # Cayley
    assert best == pytest.approx(max(others), abs=1e-9)
    assert min(others) < best - 1e-3


# ---- the estimator


@pytest.mark.parametrize(
    ("estimator", "check"),
    all_checks(
        [
            TreeAugmentedNaiveBayes(),
            TreeAugmentedNaiveBayes(smoothing=0.0, encoder=Encoder(bins=3)),
        ]
    ),
)
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def test_any_road_to_the_same_model(votes) -> None:
    X, y = votes

    def same(a, b) -> None:
        assert a.edges_ == b.edges_
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-10)

    a, b = by_any_road(TreeAugmentedNaiveBayes(), X, y, same)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(np.exp(a.predict_log_proba(X)), a.predict_proba(X))
    assert a.guarantee_ is None


def test_an_unseen_label_says_nothing() -> None:
    X, y = small(3)
    clf = TreeAugmentedNaiveBayes(1.0).fit(X, y)
    parent, child = clf.edges_[-1]
    leaf = child  # nothing hangs from the last feature
    row = X[:1].copy()
    row[leaf] = "never seen"
    rest = [edge for edge in clf.edges_ if edge[1] != leaf]
    without = brute_force(X.drop(columns=leaf), y, rest, 1.0, row.iloc[0])
    np.testing.assert_allclose(
        clf.predict_proba(row)[0], without / without.sum(), atol=1e-12
    )
    root = clf.edges_[0][0]
    other = X[:1].copy()
    other[root] = "never seen"
    free = [edge for edge in clf.edges_ if edge[0] != root]
    without = brute_force(X.drop(columns=root), y, free, 1.0, other.iloc[0])
    np.testing.assert_allclose(
        clf.predict_proba(other)[0], without / without.sum(), atol=1e-12
    )


def test_one_feature_is_naive_bayes(votes) -> None:
    X, y = votes
    clf = TreeAugmentedNaiveBayes(0.0).fit(X[["crime"]], y)
    assert clf.edges_ == []
    crime = X["crime"].fillna("?")
    for label, proba in zip(
        crime[:9], clf.predict_proba(X[["crime"]][:9]), strict=True
    ):
        truth = (y[crime == label] == "democrat").mean()
        assert proba[0] == pytest.approx(truth)


def test_bad_input_is_refused_in_a_sentence(votes) -> None:
    X, y = votes
    with pytest.raises(ValueError, match="smoothing must be a number of rows"):
        TreeAugmentedNaiveBayes(smoothing=-0.5).fit(X, y)
    with pytest.raises(ValueError, match="zero or more; it is 'a'"):
        TreeAugmentedNaiveBayes("a").fit(X, y)
    refuses(TreeAugmentedNaiveBayes(), X, y)
