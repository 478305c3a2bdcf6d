"""Chosen pairs of columns beside the single columns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from sklearn.base import clone

import renyi
from renyi import verify
from renyi.encoding.tuples import NEW, TupleEncoder, encoder_from_dict
from renyi.validation import InputError

PAIRS = [("c0", "c1"), ("c2", "c3")]


def table(n: int, d: int = 5, labels: str = "abc", seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    cells = random.choice(list(labels), (n, d))
    return pd.DataFrame(cells, columns=[f"c{j}" for j in range(d)])


def classes(X: pd.DataFrame, K: int = 2, seed: int = 1) -> np.ndarray:
    """The classes depend on whether c0 = c1, on c2 and c3 together, and on c4."""
    random = np.random.default_rng(seed)
    signal = 2 * (X["c0"] == X["c1"]) + 2 * (X["c2"] == "a") * (X["c3"] != "a")
    signal = signal + (X["c4"] == "b") + random.integers(0, 2, len(X))
    edges = [2, 3][: K - 1]
    return np.digitize(signal, edges)


def one_hot(X: pd.DataFrame, pairs: list[tuple[str, str]]) -> np.ndarray:
    """Indicators of columns and of pairs of them, by hand."""
    wide = X.copy()
    for first, second in pairs:
        wide[f"{first}+{second}"] = X[first] + X[second]
    return pd.get_dummies(wide, columns=list(wide.columns)).to_numpy(float)


def ridge_scores(W: np.ndarray, y: np.ndarray, K: int, alpha: float) -> np.ndarray:
    Y = np.eye(K)[y] - 1 / K
    centred = W - W.mean(axis=0)
    Q = centred.T @ centred / len(W)
    Z = np.linalg.solve(
        Q + alpha * np.eye(len(Q)), centred.T @ (Y - Y.mean(axis=0)) / len(W)
    )
    return centred @ Z + Y.mean(axis=0)


# ---- training


@pytest.mark.parametrize("n", [25, 400])  # more categories than rows, and fewer
@pytest.mark.parametrize("K", [2, 3])
def test_scores_are_those_of_ridge_on_explicit_columns_and_pairs(n, K):
    X = table(n)
    y = classes(X, K)
    clf = renyi.RenyiClassifier(interactions=PAIRS, alpha=0.02, calibration=None)
    found = clf.fit(X, y).decision_function(X)
    expected = ridge_scores(one_hot(X, PAIRS), y, K, 0.02)
    if K == 2:
        expected = expected[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert clf.marginals_ is None or clf.marginals_.interactions == tuple(PAIRS)
    assert clf.certificate_.interactions == 2


def test_the_left_out_risk_is_that_of_refits_without_each_row():
    X = table(40)
    y = classes(X)
    clf = renyi.RenyiClassifier(interactions=PAIRS[:1], alpha=0.05).fit(X, y)
    W = one_hot(X, PAIRS[:1])
    squares = []
    for i in range(40):  # the total penalty n·alpha stays
        rest = np.delete(np.arange(40), i)
        centred = W[rest] - W[rest].mean(axis=0)
        c = y[rest] - y[rest].mean()
        A = centred.T @ centred + 40 * 0.05 * np.eye(W.shape[1])
        z = np.linalg.solve(A, centred.T @ c)
        s = (W[i] - W[rest].mean(axis=0)) @ z + y[rest].mean()
        squares.append((y[i] - s) ** 2)
    assert clf.alpha_choice_.risk == pytest.approx(np.mean(squares))


def test_pairs_may_be_named_in_any_order_and_twice():
    X = table(200)
    y = classes(X)
    clf = renyi.RenyiClassifier(interactions=PAIRS, alpha=0.1).fit(X, y)
    turned = [("c3", "c2"), ("c1", "c0"), ("c0", "c1")]
    other = renyi.RenyiClassifier(interactions=turned, alpha=0.1).fit(X, y)
    np.testing.assert_allclose(
        other.decision_function(X), clf.decision_function(X), atol=1e-12
    )
    assert other.encoder_.interactions == (("c2", "c3"), ("c0", "c1"))


def test_unseen_labels_new_pairs_and_empty_cells_mean_what_they_do_at_order_2():
    X = pd.DataFrame({"a": ["n", "n", "y", "y"] * 5, "b": ["u", "v", "u", None] * 5})
    y = [0, 1, 1, 0] * 5
    clf = renyi.RenyiClassifier(interactions=[("a", "b")], alpha=0.1).fit(X, y)
    new = pd.DataFrame({"a": ["y", "?", "n"], "b": ["v", "u", "odd"]})
    points = clf.explain(new)
    assert points.columns.tolist() == ["a", "b", "a & b", "intercept"]
    np.testing.assert_allclose(points.sum(axis=1), clf.decision_function(new))
    card = clf.scorecard_
    frame = card.frame().set_index(["feature", "category"])
    both = points["a & b"].to_numpy()
    assert both[0] == 0  # never seen together
    of_pair = [feature == "a & b" for feature, _ in frame.index]
    share = frame["share"].to_numpy()[of_pair]
    z = frame.iloc[of_pair, -1].to_numpy()
    assert both[2] == pytest.approx(share @ z)  # the mean
    gap = frame.loc[("a & b", "y & (missing)")].iloc[-1]
    seen = clf.explain(pd.DataFrame({"a": ["y"], "b": [None]}))
    assert seen["a & b"].iloc[0] == pytest.approx(gap)
    alone = frame.loc[("b", "(missing)")].iloc[-1]
    assert seen["b"].iloc[0] == pytest.approx(alone)
    assert NEW not in clf.encoder_.categories["a"]


def test_names_and_labels_that_look_like_pairs_are_told_apart():
    X = pd.DataFrame(
        {
            "a": ["y & z", "x", "(new)", None, "y"] * 8,
            "b": ["z", "y & z", "z", "w", "(missing)"] * 8,
            "a & b": list("pqrst") * 8,
            "a \\& b": list("ppqqr") * 8,
        }
    )
    y = [0, 1, 1, 0, 1] * 8
    pairs = [("a", "b"), ("a", "a & b")]
    clf = renyi.RenyiClassifier(interactions=pairs, alpha=0.1).fit(X, y)
    encoder = clf.encoder_
    assert len(set(encoder.feature_names)) == 6
    again = encoder_from_dict(encoder.to_dict())
    np.testing.assert_array_equal(again.transform(X), encoder.transform(X))
    m = renyi.Marginals.from_data(X, y, interactions=pairs)
    assert renyi.certify(clf, m).gamma == pytest.approx(clf.certificate_.gamma)
    part = renyi.Marginals.from_data(X[:5], y[:5], encoder=encoder)
    rest = renyi.Marginals.from_data(X[5:], y[5:], encoder=encoder)
    assert part + rest == m
    assert (m - part) + part == m


@pytest.mark.parametrize("K", [2, 3])
def test_weights_are_repetition(K):
    X = table(90)
    y = classes(X, K)
    w = np.random.default_rng(3).integers(1, 4, 90)
    rows = np.repeat(np.arange(90), w)
    for interactions in (PAIRS, 2):
        clf = renyi.RenyiClassifier(interactions=interactions)
        weighted = clone(clf).fit(X, y, sample_weight=w)
        repeated = clone(clf).fit(X.iloc[rows], y[rows])
        np.testing.assert_allclose(
            weighted.decision_function(X), repeated.decision_function(X), atol=1e-7
        )
        pairs = weighted.encoder_.interactions
        assert pairs == repeated.encoder_.interactions
        errors = [each.certificate_.loo_error for each in (weighted, repeated)]
        assert errors[0] == pytest.approx(errors[1], abs=1e-9)


# ---- the choice


@pytest.mark.parametrize("K", [2, 3])
def test_the_pairs_that_matter_are_chosen(K):
    X = table(1500, d=7)
    y = classes(X, K)
    for wanted in (2, "auto"):
        clf = renyi.RenyiClassifier(interactions=wanted).fit(X, y)
        chosen = {frozenset(pair) for pair in clf.encoder_.interactions}
        assert chosen >= {frozenset(pair) for pair in PAIRS}
        if wanted == 2:
            assert len(chosen) == 2
    same = renyi.RenyiClassifier(interactions=2).fit(X, y)
    named = renyi.RenyiClassifier(interactions=same.encoder_.interactions).fit(X, y)
    np.testing.assert_array_equal(same.z_, named.z_)


def test_auto_keeps_single_columns_where_pairs_only_add_noise():
    X = table(400)
    y = ((X["c0"] == "a") + np.random.default_rng(5).random(400) > 0.9).to_numpy()
    plain = renyi.RenyiClassifier().fit(X, y)
    clf = renyi.RenyiClassifier(interactions="auto").fit(X, y)
    assert clf.alpha_choice_.risk <= plain.alpha_choice_.risk
    assert clf.encoder_.interactions is None
    np.testing.assert_array_equal(clf.z_, plain.z_)


def test_more_pairs_than_there_are_and_no_pair_at_all():
    X = table(200, d=5)
    y = classes(X)
    clf = renyi.RenyiClassifier(interactions=50).fit(X, y)
    assert len(clf.encoder_.interactions) == 10
    one = renyi.RenyiClassifier(interactions=3).fit(X[["c4"]], y)
    assert one.encoder_.interactions == ()
    plain = renyi.RenyiClassifier().fit(X[["c4"]], y)
    np.testing.assert_allclose(one.z_, plain.z_)


# ---- guarantees


def worst_error(card, codes_of, sizes, W_of, p0, K):
    """Largest error of rule map over all p with the moments of p0, ties as errors."""
    outcomes = np.array([*product(*map(range, sizes))])
    W = W_of(outcomes)
    estimates = card.estimates(codes_of(outcomes))
    best = estimates.max(axis=1, keepdims=True)
    alone = (estimates >= best - 1e-12).sum(axis=1) == 1
    right = (estimates >= best - 1e-12) & alone[:, None]
    pairs = [W[:, a] * W[:, b] for a in range(W.shape[1]) for b in range(a + 1)]
    rows = [np.repeat(v, K) for v in pairs]
    for y in range(K):
        rows += [(v[:, None] * np.eye(K)[y]).ravel() for v in W.T]
    A = np.array(rows)
    found = linprog(-(1 - right).ravel(), A_eq=A, b_eq=A @ p0, bounds=(0, None))
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("seed", range(6))
def test_guarantees_hold_for_all_populations_with_the_joint_tables(seed):
    rng = np.random.default_rng(seed)
    K = 2 + seed % 2
    X = pd.DataFrame(rng.integers(0, [2, 2, 3], (60, 3)), columns=list("abc"))
    y = (X["a"] ^ X["b"] ^ (rng.random(60) < 0.2)).to_numpy() + (K - 2) * (X["c"] == 2)
    y = np.asarray(y).astype(int)
    pairs = [("a", "b")] if seed < 4 else [("a", "b"), ("b", "c")]
    clf = renyi.RenyiClassifier(interactions=pairs, alpha=0.01, encoder=renyi.Encoder())
    clf.fit(X.astype(str), y)
    m = renyi.Marginals.from_data(X.astype(str), y, interactions=pairs)
    codes = clf.encoder_.transform(X.astype(str))

    def frame(outcomes):
        return pd.DataFrame(outcomes, columns=list("abc")).astype(str)

    def W_of(outcomes):
        wide = frame(outcomes)
        for first, second in pairs:
            wide[first + second] = wide[first] + wide[second]
        return pd.get_dummies(wide).to_numpy(float)

    p0 = np.zeros((12, K))
    place = X["a"] * 6 + X["b"] * 3 + X["c"]
    np.add.at(p0, (place, y), 1 / 60)
    exact = worst_error(
        clf.scorecard_.of_rule("map"),
        lambda outcomes: clf.encoder_.transform(frame(outcomes)),
        [2, 2, 3],
        W_of,
        p0.ravel(),
        K,
    )
    assert exact <= clf.certificate_.bounds["map"] + 1e-9
    worst = renyi.worst_case(clf, m)
    assert worst.upper == pytest.approx(exact, abs=1e-6)
    assert worst.distribution.error(clf) <= worst.upper + 1e-6
    shown = worst.distribution.frame()
    assert shown.columns.tolist() == ["a", "b", "c", "y", "probability"]
    program = renyi.certify(clf, m, level="lp")
    assert exact <= program.bounds["map"] + 1e-6
    assert (clf.predict(X.astype(str)) != y).mean() <= exact + 1e-9
    assert codes.shape[0] == 3 + len(pairs)


def test_a_pair_makes_the_set_of_populations_smaller():
    X = table(120, d=3, labels="ab")
    y = ((X["c0"] == X["c1"]) ^ (np.random.default_rng(0).random(120) < 0.1)).to_numpy()
    single = renyi.minimax(renyi.Marginals.from_data(X, y), method="exact")
    pairs = renyi.Marginals.from_data(X, y, interactions=[("c0", "c1")])
    assert renyi.minimax(pairs, method="exact").upper < single.lower - 0.2


def test_a_proof_of_pairs_is_checked_in_exact_arithmetic(tmp_path):
    X, y = renyi.datasets.load("credit")
    few = X[list(X.columns[:5])]
    pairs = [(few.columns[1], few.columns[3])]
    m = renyi.Marginals.from_data(few, y, interactions=pairs)
    clf = renyi.RenyiClassifier(interactions=pairs).fit_marginals(m)
    m.save(tmp_path / "m.renyi")
    clf.save(tmp_path / "m.json")
    answer = verify.answer(str(tmp_path / "m.renyi"), str(tmp_path / "m.json"))
    assert answer[0] == 0


# ---- counts and files


def test_marginals_of_pairs_train_the_same_model_and_add_up(tmp_path):
    X = table(300)
    X.loc[250:, "c1"] = "late"  # a label of the second part alone
    y = classes(X)
    whole = renyi.Marginals.from_data(X, y, interactions=PAIRS)
    first = renyi.Marginals.from_data(X[:200], y[:200], interactions=PAIRS)
    second = renyi.Marginals.from_data(X[200:], y[200:], interactions=PAIRS)
    assert first + second == whole
    assert whole - second == first
    clf = renyi.RenyiClassifier(interactions=PAIRS, alpha=0.03, calibration=None)
    rows = clone(clf).fit(X, y).decision_function(X)
    merged = clone(clf).fit_marginals(first + second)
    np.testing.assert_allclose(merged.decision_function(X), rows, atol=1e-10)
    whole.save(tmp_path / "pairs.renyi")
    loaded = renyi.Marginals.load(tmp_path / "pairs.renyi")
    assert loaded == whole
    assert loaded.interactions == tuple(PAIRS)
    assert "single columns and 2 pairs" in str(loaded)
    clf.fit_marginals(loaded)
    np.testing.assert_allclose(clf.decision_function(X), rows, atol=1e-10)
    less = clf.fit_marginals(whole - second)  # drops the late labels
    np.testing.assert_allclose(
        less.decision_function(X[:250]),
        clone(clf).fit(X[:200], y[:200]).decision_function(X[:250]),
        atol=1e-10,
    )


def test_other_features_are_refused_in_a_sentence():
    X = table(60)
    y = classes(X)
    m = renyi.Marginals.from_data(X, y, interactions=PAIRS)
    other = renyi.Marginals.from_data(X, y, interactions=PAIRS[:1])
    with pytest.raises(ValueError, match="different (tables|features)"):
        m + other
    with pytest.raises(ValueError, match="chooses pairs of columns by rows"):
        renyi.RenyiClassifier(interactions=3).fit_marginals(m)
    with pytest.raises(ValueError, match="single columns and 2 pairs, and not"):
        renyi.RenyiClassifier().fit_marginals(m)
    with pytest.raises(ValueError, match="single columns, and not the pairs"):
        plain = renyi.Marginals.from_data(X, y)
        renyi.RenyiClassifier(interactions=PAIRS).fit_marginals(plain)
    with pytest.raises(ValueError, match="count with the model's encoder"):
        clf = renyi.RenyiClassifier(interactions=PAIRS).fit(X, y)
        renyi.certify(clf, plain)
    with pytest.raises(ValueError, match="count again without pairs"):
        renyi.RenyiSelector().fit_marginals(m)
    with pytest.raises(ValueError, match="with interactions='auto', which would"):
        renyi.RenyiClassifier(interactions="auto").partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        (0, "at least 1"),
        (True, "at least 1"),
        (2.5, "at least 1"),
        ("some", "must be 'auto', a number or pairs"),
        (["c0"], "not 'c0'"),
        ([("c0", "c1", "c2")], "must be 'auto', a number or pairs"),
        ([("c0", 1)], "must be 'auto', a number or pairs"),
        ([("c0", "c0")], "pairs column 'c0' with itself"),
        ([("c0", "who")], "names 'who', which is not a column"),
    ],
)
def test_interactions_that_make_no_sense_are_named(interactions, message):
    X = table(30)
    with pytest.raises(ValueError, match=message):
        renyi.RenyiClassifier(interactions=interactions).fit(X, classes(X))


def test_interactions_do_not_go_with_an_order():
    X = table(30)
    with pytest.raises(InputError, match="order=2 has no single columns"):
        renyi.RenyiClassifier(interactions=PAIRS, order=2).fit(X, classes(X))
    with pytest.raises(InputError, match="order=2 has no single columns"):
        renyi.RenyiClassifier(interactions="auto", order=2).fit(X, classes(X))


@pytest.mark.parametrize("interactions", [PAIRS, 2, "auto"])
def test_a_model_comes_back_from_its_file(tmp_path, interactions):
    X = table(400)
    y = classes(X)
    clf = renyi.RenyiClassifier(interactions=interactions).fit(X, y)
    clf.save(tmp_path / "m.json")
    again = renyi.RenyiClassifier.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    assert again.encoder_.interactions == clf.encoder_.interactions
    assert again.certificate_ == clf.certificate_
    refitted = clone(again).fit(X, y)
    np.testing.assert_array_equal(refitted.z_, clf.z_)


def test_blocks_of_rows_with_named_pairs_are_the_whole():
    X = table(120)
    X.loc[100:, "c1"] = "late"
    y = classes(X)
    clf = renyi.RenyiClassifier(interactions=PAIRS, alpha=0.1)
    whole = clone(clf).fit(X, y)
    for part in (slice(0, 50), slice(50, 120)):
        clf.partial_fit(X[part], y[part], classes=[0, 1])
    np.testing.assert_allclose(
        clf.decision_function(X), whole.decision_function(X), atol=1e-9
    )


def test_halves_certify_each_other():
    X = table(400)
    y = classes(X)
    named = renyi.RenyiClassifier(interactions=PAIRS)
    cross = renyi.CrossFitClassifier(named).fit(X, y)
    assert cross.certificate_.sampled_error < 0.5
    chosen = renyi.RenyiClassifier(interactions=2)
    with pytest.raises(ValueError, match="interactions=2 chooses other pairs in each"):
        renyi.CrossFitClassifier(chosen).fit(X, y)
    mixture = renyi.CrossFitClassifier(chosen, method="mixture").fit(X, y)
    assert mixture.certificate_.sampled_error < 0.5


def test_whole_points_of_pairs():
    X = table(600)
    y = classes(X)
    clf = renyi.RenyiClassifier(interactions=PAIRS).fit(X, y)
    card = clf.scorecard_.rounded(8, marginals=clf.marginals_)
    answers = card.predict(X)
    assert (answers != y).mean() <= card.certificate.bounds["map"]
    assert "c0 & c1" in card.to_text("md").replace("\\", "")


def test_the_encoder_of_pairs_is_one_kind_of_the_encoder_of_tuples():
    X = table(50)
    every = TupleEncoder(order=2).fit(X)
    some = TupleEncoder(interactions=tuple(PAIRS)).fit(X)
    assert some.feature_names == (*X.columns, "c0 & c1", "c2 & c3")
    of_every = dict(zip(every.feature_names, every.transform(X), strict=True))
    of_some = dict(zip(some.feature_names, some.transform(X), strict=True))
    for name in ("c0 & c1", "c2 & c3"):
        np.testing.assert_array_equal(of_some[name], of_every[name])
    single = renyi.Encoder().fit_transform(X)[1]
    np.testing.assert_array_equal(some.transform(X)[:5], single)
