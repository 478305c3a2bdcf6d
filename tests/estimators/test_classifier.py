"""RenyiClassifier: one answer by every input path, and clear error messages."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from renyi import Encoder, Marginals, RenyiClassifier, certify
from renyi.certificates.text import detail_lines
from renyi.datasets import load
from support.models import (
    assert_same_certificate,
    assert_same_choice,
    assert_same_model,
    make_frame,
)

# ---- rows and marginals


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "d"), [(200, 4), (12, 10)])
def test_fit_equals_fit_marginals(K, fit_intercept, n, d):
    X, y = make_frame(n, K, d)
    settings = {"alpha": 0.02, "fit_intercept": fit_intercept}
    settings["calibration"] = None if K == 2 else "discriminant"
    clf = RenyiClassifier(**settings).fit(X, y)
    m = Marginals.from_data(X, y)
    other = RenyiClassifier(**settings).fit_marginals(m)
    assert (clf.marginals_ is None) == (d == 10)
    assert_same_model(clf, other, 1e-10)
    assert_same_certificate(clf, other)
    np.testing.assert_array_equal(clf.predict(X), other.predict(X))
    proba = other.predict_proba(X)
    np.testing.assert_allclose(clf.predict_proba(X), proba, rtol=1e-6, atol=1e-9)
    again = certify(clf, m)
    assert again.gamma == pytest.approx(clf.certificate_.gamma, abs=1e-12)


@pytest.mark.parametrize("K", [2, 3])
def test_class_order_is_the_same_by_both_roads(K):
    X, _ = make_frame(60, K)
    which = np.arange(60) % K
    for y in (which * 9 - 9, which == 1, which * 5.0, np.array(list("bca"))[which]):
        clf = RenyiClassifier(alpha=0.1).fit(X, y)
        other = RenyiClassifier(alpha=0.1).fit_marginals(Marginals.from_data(X, y))
        np.testing.assert_array_equal(clf.classes_, other.classes_)
        assert_same_model(clf, other)


def test_literal_paper_form():
    X, y = make_frame(100)
    m = Marginals.from_data(X, y)
    clf = RenyiClassifier(alpha=0.05, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(
        (m.Q + 0.05 * np.eye(len(m.Q))) @ clf.z_, m.dvec / 2, atol=1e-12
    )
    assert clf.intercept_ == 0


def test_choice_of_alpha_is_recorded():
    X, y = make_frame(100)
    assert RenyiClassifier().fit(X, y).alpha_choice_.method == "loo"
    given = RenyiClassifier(alpha=0.5).fit(X, y)
    assert given.alpha_choice_.method == "given"
    assert given.alpha_ == 0.5
    assert given.alpha_choice_.error is not None
    by_counts = RenyiClassifier().fit_marginals(Marginals.from_data(X, y))
    assert by_counts.alpha_choice_.method == "gcv"
    assert by_counts.alpha_choice_.error is None
    many = make_frame(1300)
    assert RenyiClassifier().fit(*many).alpha_choice_.method == "gcv"
    assert RenyiClassifier(alpha="loo").fit(*many).alpha_choice_.method == "loo"


def test_marginals_with_a_missing_class_are_refused():
    m = Marginals.from_data(*load("votes")).with_target("crime")
    assert None in m.classes
    clf = RenyiClassifier()
    with pytest.raises(ValueError, match=r"'crime' is missing .* another target"):
        clf.fit_marginals(m)
    assert not hasattr(clf, "classes_")  # nothing half done
    X, y = load("votes")
    known = (X["crime"].notna() & (X["crime"] != "?")).to_numpy()
    without = Marginals.from_data(X[known], y[known]).with_target("crime")
    assert clf.fit_marginals(without).classes_.tolist() == ["n", "y"]


def test_loo_from_marginals_is_an_error():
    m = Marginals.from_data(*make_frame(100))
    with pytest.raises(ValueError, match="alpha='loo' needs the rows"):
        RenyiClassifier(alpha="loo").fit_marginals(m)


# ---- weights


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "d"), [(60, 3), (14, 12)])
@pytest.mark.parametrize("alpha", ["auto", 0.01, 0.0])
def test_sample_weight_is_repetition(K, fit_intercept, n, d, alpha):
    X, y = make_frame(n, K, d)
    times = np.random.default_rng(1).integers(0, 4, n)
    clf = RenyiClassifier(alpha=alpha, fit_intercept=fit_intercept)
    weighted = clf.fit(X, y, sample_weight=times)
    places = np.repeat(np.arange(n), times)
    clf = RenyiClassifier(alpha=alpha, fit_intercept=fit_intercept)
    repeated = clf.fit(X.iloc[places], y.iloc[places])
    assert_same_model(weighted, repeated)
    assert_same_choice(weighted, repeated)
    assert_same_certificate(weighted, repeated)
    proba = repeated.predict_proba(X)
    np.testing.assert_allclose(weighted.predict_proba(X), proba, rtol=1e-6, atol=1e-9)


def test_weights_below_one_are_rows_by_themselves():
    X, y = make_frame(80)
    half = RenyiClassifier().fit(X, y, sample_weight=np.full(80, 0.5))
    assert_same_model(half, RenyiClassifier().fit(X, y))
    assert_same_choice(half, RenyiClassifier().fit(X, y))


def test_weights_that_sum_to_one_choose_the_same_alpha():
    """By generalised cross-validation, in which rows count and not their weight."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (20_000, 4))
    y = ((X[:, 0] == 1) | (X[:, 1] == 2)) ^ (rng.random(20_000) < 0.2)
    plain = RenyiClassifier().fit(X, y)
    shared = RenyiClassifier().fit(X, y, sample_weight=np.full(20_000, 1 / 20_000))
    assert shared.alpha_choice_.method == "gcv"
    assert shared.alpha_ == plain.alpha_
    assert_same_model(shared, plain)
    assert_same_choice(shared, plain)
    blocks = RenyiClassifier()
    for s in np.split(np.arange(20_000), 4):
        weights = np.full(5000, 1 / 20_000)
        blocks.partial_fit(X[s], y[s], classes=[False, True], sample_weight=weights)
    assert len(blocks._blocks.rows.y) < 20_000  # a sample
    assert_same_model(blocks, plain)
    m = Marginals.from_data(X, y)
    assert RenyiClassifier().fit_marginals(m).alpha_ == plain.alpha_
    with pytest.raises(ValueError, match="total weight, 1, is too small"):
        RenyiClassifier().fit_marginals(m * (1 / m.n))
    assert RenyiClassifier(alpha=0.1).fit_marginals(m * (1 / m.n)).alpha_ == 0.1


def test_only_the_ratio_of_weights_matters_at_one_alpha():
    X, y = make_frame(80, 3)
    weights = np.random.default_rng(0).random(80) + 0.1
    clf = RenyiClassifier(alpha=0.03).fit(X, y, sample_weight=weights)
    other = RenyiClassifier(alpha=0.03).fit(X, y, sample_weight=700 * weights)
    assert_same_model(clf, other)
    m = Marginals.from_data(X, y, sample_weight=weights)
    assert_same_model(clf, RenyiClassifier(alpha=0.03).fit_marginals(m))


@pytest.mark.parametrize("alpha", ["auto", 0.01])
@pytest.mark.parametrize(("n", "d"), [(60, 3), (14, 12)])
def test_class_weight_is_sample_weight_by_class(alpha, n, d):
    X, y = make_frame(n, 3, d)
    by_class = {"no": 2.0, "zero": 0.5}
    clf = RenyiClassifier(alpha=alpha, class_weight=by_class).fit(X, y)
    weights = y.map(by_class).fillna(1.0)
    plain = RenyiClassifier(alpha=clf.alpha_).fit(X, y, sample_weight=weights)
    assert_same_model(clf, plain)
    # The certificate is of the rows as they are, and says so.
    unweighted = Marginals.from_data(X, y)
    expected = certify(clf.scorecard_, unweighted)
    assert clf.certificate_.gamma == pytest.approx(expected.gamma)
    assert clf.certificate_.n == n
    assert any("unweighted marginals" in text for text in clf.certificate_.warnings)
    assert "unweighted marginals" in str(clf.certificate_)


@pytest.mark.parametrize(
    "setting", [{"class_weight": "balanced"}, {"objective": "ranking"}]
)
def test_bounds_by_pairs_within_classes_say_so(votes, setting):
    """Other populations with the same plain pairs may have larger errors."""
    X, y = votes
    for rows in (X, X[:40]):  # from counts, and with more categories than rows
        clf = RenyiClassifier(alpha=0.1, rule="renyi", **setting)
        c = clf.fit(rows, y[: len(rows)]).certificate_
        assert "class-conditional" in c.warning_codes
        assert "within each class" in " ".join(detail_lines(c))
        shown = " ".join(str(c).split())
        assert ("pair counts within each class" in shown) == (not c.doubtful)
        plain = certify(clf, Marginals.from_data(rows, y[: len(rows)]))
        assert "class-conditional" not in plain.warning_codes
        assert plain.error_at(0.9) >= c.error_at(0.9)


@pytest.mark.parametrize(("n", "d"), [(60, 3), (14, 12)])
def test_class_weight_with_sample_weight_is_repetition(n, d):
    X, y = make_frame(n, 2, d)
    times = np.random.default_rng(2).integers(0, 4, n)
    places = np.repeat(np.arange(n), times)
    for class_weight in ("balanced", {"no": 0.25}, {"no": 3}):
        clf = RenyiClassifier(class_weight=class_weight)
        repeated = clf.fit(X.iloc[places], y.iloc[places])
        clf = RenyiClassifier(class_weight=class_weight)
        weighted = clf.fit(X, y, sample_weight=times)
        assert_same_model(weighted, repeated)
        assert_same_choice(weighted, repeated)


def test_balanced_weights_balance():
    X, y = make_frame(90)
    y[:60] = "no"
    counts = y.value_counts()
    by_class = {label: 90 / (2 * counts[label]) for label in counts.index}
    first = RenyiClassifier(alpha=0.01, class_weight="balanced").fit(X, y)
    assert_same_model(
        first, RenyiClassifier(alpha=0.01, class_weight=by_class).fit(X, y)
    )
    m = Marginals.from_data(X, y, class_conditional=True)
    clf = RenyiClassifier(alpha=0.01, class_weight="balanced").fit_marginals(m)
    assert_same_model(first, clf)
    # Generalised cross-validation of the weighted classes is no estimate for rows.
    assert clf.certificate_.loo_risk is None


def test_class_weight_without_class_conditional_counts_is_an_error():
    m = Marginals.from_data(*make_frame(50))
    with pytest.raises(ValueError, match="class_conditional=True"):
        RenyiClassifier(class_weight="balanced").fit_marginals(m)


# ---- prediction


@pytest.mark.parametrize("K", [2, 3])
def test_scores_probabilities_and_explanations_agree(K):
    X, y = make_frame(100, K)
    clf = RenyiClassifier().fit(X, y)
    scores, proba = clf.decision_function(X), clf.predict_proba(X)
    why = clf.explain(X)
    assert (why.index == X.index).all()
    if K == 2:
        np.testing.assert_allclose(why.sum(axis=1), scores, atol=1e-12)
        a = clf.scorecard_.calibration.slope
        np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-a * scores)))
        plain = clf.set_params(calibration=None).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(plain[:, 1], np.clip(0.5 + scores, 0, 1))
        best = clf.classes_[(scores > 0).astype(int)]
    else:
        total = np.stack([why[label].sum(axis=1) for label in clf.classes_], axis=1)
        np.testing.assert_allclose(total, scores, atol=1e-12)
        best = clf.classes_[scores.argmax(axis=1)]
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.predict(X), best)
    first = clf.scorecard_.mapped.z[clf.encoder_.categories["q0"].index(X["q0"][5])]
    labels = ["q0"] if K == 2 else [(label, "q0") for label in clf.classes_]
    np.testing.assert_allclose(why.loc[5, labels].astype(float), first)


def test_unseen_labels_count_as_the_mean_effect():
    X, y = make_frame(100)
    clf = RenyiClassifier().fit(X, y)
    odd = X[:1].assign(q0="never seen")
    points = X["q0"].map(dict(zip("abc", clf.z_[:3], strict=True)))
    rest = clf.explain(X[:1]).drop(columns="q0").sum(axis=1)
    expected = rest.iloc[0] + points.mean()
    assert clf.decision_function(odd)[0] == pytest.approx(expected)
    strict = RenyiClassifier(encoder=Encoder(unseen="error")).fit(X, y)
    with pytest.raises(ValueError, match="'never seen'"):
        strict.predict(odd)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (pd.Series([0, 1] * 20, dtype="Int64"), [0, 1]),
        (pd.Series([False, True] * 20, dtype="boolean"), [False, True]),
        (np.array([3, 1] * 20, object), [1, 3]),
        (pd.Series(["b", "a"] * 20, dtype="string"), ["a", "b"]),
        (pd.Series(pd.Categorical(["b", "a"] * 20, ["c", "b", "a"])), ["a", "b"]),
        (["b", "a"] * 20, ["a", "b"]),
    ],
)
def test_classes_are_the_labels_given(y, expected):
    X, _ = make_frame(40)
    classes = RenyiClassifier(alpha=0.1).fit(X, y).classes_.tolist()
    assert classes == expected
    assert [type(c) for c in classes] == [type(c) for c in expected]


def test_rule_proba_of_any_rule():
    X, y = make_frame(50)
    clf = RenyiClassifier(rule="sharp").fit(X, y)
    np.testing.assert_array_equal(clf.rule_proba(X), clf.rule_proba(X, "sharp"))
    assert set(clf.rule_proba(X, "map").ravel()) == {0.0, 1.0}
    assert clf.set_params(rule="renyi").certificate_.rule == "renyi"


def test_columns_are_found_by_name():
    X, y = make_frame(50)
    clf = RenyiClassifier().fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X[["q1", "q0", "q2", "q3"]])
    with pytest.raises(ValueError, match="q3"):
        clf.predict(X.drop(columns="q3"))


# ---- what cannot be done


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, "-1"),
        ({"alpha": "best"}, "'best'"),
        ({"rule": "bayes"}, "'bayes'"),
        ({"order": 0}, "order must be a whole number"),
        ({"random_state": -1}, "random_state must be from 0 .*, not -1"),
        ({"random_state": 2**32}, "random_state must be from 0"),
        ({"class_weight": {"no": 10**400}}, "'no' the weight"),
        ({"class_weight": "even"}, "'even'"),
        ({"class_weight": {"perhaps": 2}}, "'perhaps'"),
        ({"class_weight": {"no": -2}}, "'no' the weight -2"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        RenyiClassifier(**settings).fit(*make_frame(30))


def test_bad_rows_are_named():
    X, y = make_frame(30)
    clf = RenyiClassifier()
    with pytest.raises(ValueError, match="only one class, 'no'"):
        clf.fit(X, ["no"] * 30)
    with pytest.raises(ValueError, match="No usable column is left"):
        clf.fit(X[["q0"]].assign(q0="a"), y)
    with pytest.raises(ValueError, match="X has 30 rows, y has 29"):
        clf.fit(X, y[:29])
    with pytest.raises(ValueError, match="missing in 1 rows"):
        clf.fit(X, y.where(y.index != 3))
    with pytest.raises(ValueError, match="y contains infinity"):
        clf.fit(X, np.where(np.arange(30) == 2, np.inf, np.arange(30) % 2))
    with pytest.raises(ValueError, match="y holds '\\?', which means missing"):
        clf.fit(X, y.replace("no", "?"))
    with pytest.raises(ValueError, match="datetime64.*which are not labels"):
        clf.fit(X, pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(30) % 2, "D"))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        clf.fit(csr_array(np.eye(30)), y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.r_[-1.0, np.ones(29)], "row 0 .*is -1"),
        (np.r_[np.ones(29), np.inf], "row 29 .*is inf"),
        (np.zeros(30), "All weights are zero"),
        (np.ones(29), r"expected \(30,\)"),
    ],
)
def test_bad_weights_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        RenyiClassifier().fit(*make_frame(30), sample_weight=wrong)


def test_marginals_of_constant_columns_are_refused():
    X, y = make_frame(30)
    m = Marginals.from_data(X[["q0"]].assign(q0="a"), y)
    with pytest.raises(ValueError, match="No usable column is left"):
        RenyiClassifier().fit_marginals(m)


# ---- accuracy: mean error of random 70/30 splits, default settings


def split_errors(name, n_splits):
    """Errors in percent of map, sharp and renyi at each split, the draws averaged."""
    X, y = load(name)
    errors = []
    for seed in range(n_splits):
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=seed
        )
        clf = RenyiClassifier().fit(X.iloc[train], y.iloc[train])
        codes = np.searchsorted(clf.classes_, y.iloc[test])
        errors.append(
            [
                1
                - clf.rule_proba(X.iloc[test], rule)[np.arange(len(test)), codes].mean()
                for rule in ("map", "sharp", "renyi")
            ]
        )
    return 100 * np.array(errors)


@pytest.mark.parametrize(
    ("name", "limit", "n_splits"),
    [
        ("votes", 4.5, 20),
        ("credit", 13.5, 20),
        ("promoters", 12.0, 20),
        ("adult", 15.5, 5),
        pytest.param("adult", 15.5, 20, marks=pytest.mark.long),
        # Not 5.5: least squares on all 3196 rows still errs on 5.6 % of these very
        # rows whatever alpha is; the test below holds it against a peer instead.
        ("kr-vs-kp", 6.2, 20),
    ],
)
def test_error_on_new_rows(name, limit, n_splits):
    errors = split_errors(name, n_splits)
    assert errors[:, 0].mean() <= limit
    # map errs least in expectation, then sharp: the splits agree within their spread.
    more = np.diff(errors, axis=1)
    spread = more.std(axis=0, ddof=1) / np.sqrt(n_splits)
    assert (more.mean(axis=0) >= -2 * spread).all()


def test_least_squares_can_do_no_better_on_chess():
    """RidgeClassifier on the same one-hot columns and splits is not better by 0.2 %."""
    X, y = load("kr-vs-kp")
    mine, peers = [], []
    for seed in range(5):
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=seed
        )
        clf = RenyiClassifier().fit(X.iloc[train], y.iloc[train])
        hot = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), X.columns)
        )
        peer = make_pipeline(hot, RidgeClassifier(alpha=1.0))
        peer.fit(X.iloc[train], y.iloc[train])
        mine.append(1 - clf.score(X.iloc[test], y.iloc[test]))
        peers.append(1 - peer.score(X.iloc[test], y.iloc[test]))
    assert 100 * np.mean(mine) <= 100 * np.mean(peers) + 0.2


def test_weights_that_stand_for_many_rows_are_noted():
    X, y = load("promoters")
    heavy = RenyiClassifier().fit(X, y, sample_weight=np.full(106, 1000.0))
    assert any("by their mean" in text for text in heavy.certificate_.warnings)
    light = RenyiClassifier().fit(X, y, sample_weight=np.full(106, 1.5))
    assert not any("by their mean" in text for text in light.certificate_.warnings)


def test_a_pickle_contains_what_a_model_file_does(tmp_path) -> None:
    X, y = load("votes")
    clf = RenyiClassifier(rule="sharp").fit(X, y)
    clf.save(tmp_path / "m.json")
    unpickled = pickle.loads(pickle.dumps(clf))
    unpickled.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "m.json").read_text()
    assert clf.marginals_ is not None and unpickled.marginals_ is None
    assert copy.deepcopy(clf).marginals_ is clf.marginals_
    with pytest.raises(ValueError, match="keeps no counts"):
        unpickled.partial_fit(X, y)


def test_a_pickle_holds_no_rows_where_categories_are_more() -> None:
    X = np.random.default_rng(0).integers(0, 9, (30, 9)).astype(str)
    y = np.arange(30) % 2
    clf = RenyiClassifier().fit(X, y)
    assert clf.marginals_ is None
    other = pickle.loads(pickle.dumps(clf))
    assert other.fit_.rows is None and other.fit_.left_out is None
    assert other.certificate_ == clf.certificate_
    assert other.data_digest_ == clf.data_digest_


@pytest.mark.parametrize("least", [-(2**63), 2**63 - 1, 2**63, 2**64 - 3])
def test_classes_at_the_ends_of_64_bits(least, tmp_path):
    kind = np.int64 if least < 0 else np.uint64
    classes = np.array([least, least + 1, least + 2], kind)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 90)
    X = pd.DataFrame({"a": codes.astype(str), "b": rng.integers(0, 2, 90).astype(str)})
    clf = RenyiClassifier().fit(X, classes[codes])
    assert clf.predict(X).tolist() == classes[codes].tolist()
    clf.save(tmp_path / "model.json")
    again = RenyiClassifier.load(tmp_path / "model.json")
    assert again.classes_.tolist() == classes.tolist()
    assert again.predict(X).tolist() == classes[codes].tolist()
    m = Marginals.from_data(X, classes[codes])
    labels = classes[codes].tolist()
    others = (
        RenyiClassifier().fit_marginals(m),
        RenyiClassifier().fit(X, labels),
        RenyiClassifier().partial_fit(X, labels, classes=classes.tolist()),
    )
    for other in others:
        assert other.predict(X).tolist() == labels
    if least >= 2**63 - 1:
        with pytest.raises(ValueError, match="SQLite"):
            clf.scorecard_.to_sql(dialect="sqlite", table="t")


@pytest.mark.parametrize("classes", [(-1, 2**63), (5, 2**64), (-(2**63) - 1, 0)])
def test_classes_beyond_64_bits_are_refused(classes):
    X, y = pd.DataFrame({"a": ["u", "v"] * 9}), list(classes) * 9
    with pytest.raises(ValueError, match="64 bits"):
        RenyiClassifier().fit(X, y)
    with pytest.raises(ValueError, match="64 bits"):
        RenyiClassifier().fit_marginals(Marginals.from_data(X, y))


@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, object)])
def test_texts_and_numbers_are_no_classes_together(kind):
    """A model file of such classes could not be read."""
    X, y = pd.DataFrame({"a": ["u", "v"] * 9}), kind(["one", 2] * 9)
    with pytest.raises(ValueError, match="some classes that are text"):
        RenyiClassifier().fit(X, y)
    with pytest.raises(ValueError, match="some classes that are text"):
        RenyiClassifier().fit_marginals(Marginals.from_data(X, y))
