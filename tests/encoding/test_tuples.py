"""Orders above one: tuples of columns as features."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_fit2d_1feature

import renyi
from renyi.counting.onehot import agreement, dense
from renyi.encoding.tuples import NEW, TupleEncoder


def table(n: int, d: int = 5, labels: str = "abc", seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    cells = random.choice(list(labels), (n, d))
    return pd.DataFrame(cells, columns=[f"c{j}" for j in range(d)])


def classes(X: pd.DataFrame, K: int = 2, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    signal = (X["c0"] == X["c1"]).astype(int) + (X["c2"] == "a")
    return (signal + random.integers(0, 2, len(X))).to_numpy() % K


def explicit(X: pd.DataFrame, order: int) -> pd.DataFrame:
    """Frame of one column for every tuple, by hand."""
    return pd.DataFrame(
        {
            "+".join(S): [*map("".join, X[list(S)].to_numpy())]
            for S in combinations(X.columns, order)
        }
    )


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("n", [25, 400])  # more categories than rows, and fewer
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("alpha", [0.05, "loo"])
def test_an_order_is_a_fit_on_explicit_tuples(order, n, K, alpha):
    X = table(n, labels="ab")
    y = classes(X, K)
    clf = renyi.RenyiClassifier(order=order, alpha=alpha).fit(X, y)
    by_hand = renyi.RenyiClassifier(alpha=alpha).fit(explicit(X, order), y)
    wide = explicit(X, order)
    np.testing.assert_allclose(
        clf.decision_function(X), by_hand.decision_function(wide), atol=1e-9
    )
    assert clf.alpha_ == by_hand.alpha_
    assert clf.alpha_choice_.risk == pytest.approx(by_hand.alpha_choice_.risk)
    gamma = by_hand.certificate_.gamma
    assert clf.certificate_.gamma == pytest.approx(gamma, abs=1e-9)
    assert clf.certificate_.order == order


@pytest.mark.parametrize("order", [2, 3, 4])
def test_agreements_of_tuples_are_binomial(order):
    X = table(30)
    encoder, codes = TupleEncoder(order=order).fit_transform(X)
    singles = TupleEncoder.factors(encoder, codes).codes
    same = agreement(singles, int(singles.max()) + 1)
    W = dense(codes, encoder.columns.sizes)
    ways = np.vectorize(lambda a: math.comb(int(a), order))(same)
    np.testing.assert_array_equal(W @ W.T, ways)


@pytest.mark.parametrize("n", [20, 300])
def test_scores_are_those_of_the_binomial_kernel(n):
    X, later, order, alpha = table(n), table(50, seed=5), 2, 0.02
    y = classes(X)
    clf = renyi.RenyiClassifier(order=order, alpha=alpha).fit(X, y)
    codes = renyi.Encoder().fit(X).transform

    def kernel(A: pd.DataFrame, B: pd.DataFrame) -> np.ndarray:
        same = (codes(A)[:, :, None] == codes(B)[:, None, :]).sum(axis=0)
        return np.vectorize(lambda a: math.comb(int(a), order))(same).astype(float)

    # theory: alpha = (HAH + n lambda)^-1 (c - mean), scores from row means
    A, c = kernel(X, X), y - 0.5
    H = np.eye(n) - 1 / n
    weights = np.linalg.solve(H @ A @ H + n * alpha * np.eye(n), c - c.mean())
    start = c.mean() - weights @ A.mean(axis=1)
    expected = start + kernel(later, X) @ weights
    np.testing.assert_allclose(clf.decision_function(later), expected, atol=1e-9)


def test_new_tuples_of_known_labels_get_no_points_and_unseen_labels_the_mean():
    X = pd.DataFrame({"a": ["n", "n", "y", "y"] * 5, "b": ["u", "v", "u", "u"] * 5})
    y = [0, 1, 1, 0] * 5
    clf = renyi.RenyiClassifier(order=2, alpha=0.1).fit(X, y)
    new = pd.DataFrame({"a": ["y", "?"], "b": ["v", "u"]})
    points = clf.explain(new)["a & b"].to_numpy()
    assert points[0] == 0
    shares = clf.scorecard_.counts / 20
    assert points[1] == pytest.approx(shares @ clf.z_)


def test_labels_that_look_like_tuples_are_told_apart():
    X = pd.DataFrame(
        {
            "a & b": ["x & y", "x", "x \\& y", None, "(missing)"] * 4,
            "a": ["z", "y & z", "z", "z", "z"] * 4,
            "b & a": list("pqrst") * 4,
        }
    )
    encoder, codes = TupleEncoder(order=2).fit_transform(X)
    assert len(encoder.columns) == 3
    assert len(np.unique(codes[0])) == 5
    again = renyi.encoding.tuples.encoder_from_dict(encoder.to_dict())
    np.testing.assert_array_equal(again.transform(X), codes)


def test_marginals_of_order_two_train_the_same_model(tmp_path):
    X = table(300)
    y = classes(X)
    m = renyi.Marginals.from_data(X, y, order=2)
    assert m.order == 2
    clf = renyi.RenyiClassifier(order=2, alpha=0.03)
    rows = clf.fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        clf.fit_marginals(m).decision_function(X), rows, atol=1e-10
    )
    assert list(clf.feature_names_in_) == list(X.columns)
    m.save(tmp_path / "two.renyi")
    loaded = renyi.Marginals.load(tmp_path / "two.renyi")
    assert loaded == m
    again = renyi.RenyiClassifier(order=2, alpha=0.03).fit_marginals(loaded)
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))


def test_marginals_of_order_two_add_up():
    X = table(300)
    X.loc[250:, "c1"] = "late"  # a label of the second part alone
    y = classes(X)
    whole = renyi.Marginals.from_data(X, y, order=2)
    first = renyi.Marginals.from_data(X[:200], y[:200], order=2)
    second = renyi.Marginals.from_data(X[200:], y[200:], order=2)
    assert first + second == whole
    assert (whole - second) == first
    merged = renyi.RenyiClassifier(order=2, alpha=0.1).fit_marginals(first + second)
    direct = renyi.RenyiClassifier(order=2, alpha=0.1).fit(X, y)
    np.testing.assert_allclose(
        merged.decision_function(X), direct.decision_function(X), atol=1e-10
    )


def test_blocks_of_order_two_are_the_whole():
    X = table(120)
    X.loc[100:, "c1"] = "late"
    y = classes(X)
    clf = renyi.RenyiClassifier(order=2, alpha=0.1)
    for part in (slice(0, 50), slice(50, 120)):
        clf.partial_fit(X[part], y[part], classes=[0, 1])
    whole = renyi.RenyiClassifier(order=2, alpha=0.1).fit(X, y)
    np.testing.assert_allclose(
        clf.decision_function(X), whole.decision_function(X), atol=1e-9
    )


def test_a_model_of_order_two_comes_back_from_its_file(tmp_path):
    X, y = renyi.datasets.load("votes")
    clf = renyi.RenyiClassifier(order=2).fit(X, y)
    clf.save(tmp_path / "m.json")
    again = renyi.RenyiClassifier.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    assert again.order == 2
    assert again.n_features_in_ == 16
    assert again.certificate_ == clf.certificate_


def test_a_certificate_of_order_two_from_marginals():
    X, y = renyi.datasets.load("votes")
    X = X.iloc[:, :6]
    clf = renyi.RenyiClassifier(order=2, alpha=0.01).fit(X, y)
    m = renyi.Marginals.from_data(X, y, order=2)
    found = renyi.certify(clf, m)
    assert found.gamma == pytest.approx(clf.certificate_.gamma, abs=1e-12)
    t = clf.predict_proba(X)  # the bound holds on the rows themselves
    wrong = (clf.predict(X) != y).mean()
    assert wrong <= found.bounds["map"]
    assert t.shape == (len(X), 2)


def test_weights_are_repetition_at_order_two():
    X = table(60)
    y, w = classes(X), np.random.default_rng(3).integers(1, 4, 60)
    clf = renyi.RenyiClassifier(order=2)
    weighted = clf.fit(X, y, sample_weight=w).decision_function(X)
    rows = np.repeat(np.arange(60), w)
    repeated = clf.fit(X.iloc[rows], y[rows]).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "two", None])
def test_an_order_that_makes_no_sense_is_named(order):
    X = table(20)
    with pytest.raises(ValueError, match="order must be a whole number"):
        renyi.RenyiClassifier(order=order).fit(X, classes(X))


def test_too_few_columns_and_too_many_tuples_are_told():
    X = table(20, d=2)
    X["c2"] = "a"
    with pytest.raises(ValueError, match="order=4 needs at least 4 columns"):
        renyi.RenyiClassifier(order=4).fit(X, classes(X))
    wide = pd.DataFrame(np.zeros((30, 700), int))
    wide[0] = [0, 1] * 15
    with pytest.raises(ValueError, match="features of 700 columns, too many"):
        renyi.RenyiClassifier(order=2).fit(wide, [0, 1] * 15)


def test_marginals_of_another_order_are_refused():
    X = table(40)
    m = renyi.Marginals.from_data(X, classes(X))
    with pytest.raises(ValueError, match="order 1"):
        renyi.RenyiClassifier(order=2).fit_marginals(m)
    two = renyi.Marginals.from_data(X, classes(X), order=2)
    with pytest.raises(ValueError, match="count at order 1"):
        two.with_target("c0 & c1")
    with pytest.raises(ValueError, match="different"):
        m + two
    assert NEW in two.categories["c0 & c1"]


def test_certificates_count_the_tuples_that_occur():
    """The category of new tuples has no rows, so it is no reason for doubt."""
    X = table(120)
    y = np.random.default_rng(0).integers(0, 2, len(X))
    clf = renyi.RenyiClassifier(order=2, alpha=0.1).fit(X, y)
    seen = sum(len(explicit(X, 2)[name].unique()) for name in explicit(X, 2))
    assert clf.certificate_.n_indicators == seen
    assert int(clf.encoder_.columns.sizes.sum()) == seen + len(explicit(X, 2).columns)
    wide = renyi.RenyiClassifier(order=2, alpha=0.1).fit(X[:20], y[:20])
    some = explicit(X[:20], 2)
    assert wide.marginals_ is None  # by the dual road
    held = sum(len(some[name].unique()) for name in some)
    assert wide.certificate_.n_indicators == held
    assert f"there are {held} categories" in wide.certificate_.warnings[0]


def test_one_column_has_no_pairs():
    with pytest.raises(ValueError, match=r"at least 2 columns, .* has 1 feature\(s\)"):
        renyi.RenyiSelector(order=2).fit([["a"], ["b"]], [0, 1])
    check_fit2d_1feature("RenyiSelector", renyi.RenyiSelector(order=2))
    check_fit2d_1feature("RenyiClassifier", renyi.RenyiClassifier(order=2))
