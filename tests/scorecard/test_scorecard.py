"""Scorecard and model file: a readable table, exact after loading, safe to open."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi import Encoder, RenyiClassifier, Scorecard
from renyi.datasets import load
from renyi.exports import points
from renyi.files import read_json, write_json


@pytest.fixture(scope="module")
def votes():
    X, y = load("votes")
    return X, y, RenyiClassifier().fit(X, y)


def three_classes(n=120, seed=0):
    """Labels, numbers with missing cells, and a constant column; three classes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "<b>", "a & b"], n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 12, n)),
            "planet": "earth",
            "size": rng.choice([1, 2, 3], n),
        }
    )
    y = (X["size"] + (X["age"] > 45) + rng.integers(0, 2, n)) % 3
    return X, y.map({0: "low", 1: "mid", 2: "<i>high</i>"}).rename("risk")


# ---- the table


def test_frame_is_sorted_by_importance(votes):
    X, y, clf = votes
    card = clf.scorecard_
    frame = card.frame()
    why = clf.explain(X).drop(columns="intercept")
    spread = why.std(ddof=0)
    shown = list(dict.fromkeys(frame["feature"]))
    assert shown == spread.sort_values(ascending=False).index.tolist()
    np.testing.assert_allclose(card.importance, spread[list(X.columns)])


def test_frame_holds_counts_shares_and_points(votes):
    X, _, clf = votes
    frame = clf.scorecard_.frame()
    assert list(frame.columns) == [
        "feature", "category", "count", "share", "democrat", "republican"
    ]  # fmt: skip
    crime = frame[frame["feature"] == "crime"].set_index("category")
    counts = X["crime"].fillna("(missing)").value_counts()
    assert crime["count"].to_dict() == counts.to_dict()
    np.testing.assert_allclose(crime["share"], crime["count"] / len(X))
    np.testing.assert_array_equal(crime["democrat"], -crime["republican"])
    where = clf.encoder_.feature_names.index("crime")
    start = int(clf.encoder_.columns.sizes[:where].sum())
    np.testing.assert_array_equal(crime["republican"], clf.z_[start : start + 3])


def test_points_of_three_classes_and_constants_left_out():
    X, y = three_classes()
    frame = RenyiClassifier().fit(X, y).scorecard_.frame()
    assert {"low", "mid", "<i>high</i>"} < set(frame.columns)
    assert "planet" not in set(frame["feature"])
    assert "(missing)" in set(frame["category"])
    np.testing.assert_allclose(
        frame[["low", "mid", "<i>high</i>"]].sum(axis=1), 0, atol=1e-9
    )


def test_html_escapes_labels():
    html = RenyiClassifier().fit(*three_classes()).scorecard_._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert "a &amp; b" in html


def test_text_is_readable(votes):
    text = str(votes[2].scorecard_)
    lines = text.splitlines()
    assert "feature" in lines[0]
    assert "physician-fee-freeze" in lines[1]
    assert "%" in lines[1]
    assert lines[-2] == "… and 8 more rows"
    assert lines[-1].startswith("A row starts from democrat")


def test_classes_named_like_the_columns_of_the_table():
    X = pd.DataFrame({"a": list("xy") * 20})
    clf = RenyiClassifier(alpha=0.1).fit(X, ["count", "share"] * 20)
    frame = clf.scorecard_.frame()
    assert frame["count"].tolist() == [20, 20]
    assert (frame["count (points)"] == -frame["share (points)"]).all()
    clf = RenyiClassifier(alpha=0.1).fit(X, ["count", "count (points)"] * 20)
    names = ["count (points) (points)", "count (points)"]
    for frame in (clf.scorecard_.frame(), points.table(clf.scorecard_)):
        assert frame.columns[-2:].tolist() == names
        assert (frame[names[0]] == -frame[names[1]]).all()


def test_a_rounded_card_stays_a_model(votes):
    X, _, clf = votes
    card = clf.scorecard_
    whole = replace(card, z=card.z.round(1), intercept=card.intercept.round(1))
    codes = clf.encoder_.transform(X)
    points = whole.points_of(codes)[:, :, 0].sum(axis=1) + whole.intercept
    np.testing.assert_allclose(whole.scores(codes)[:, 0], points, atol=1e-12)
    assert abs(points * 10 - (points * 10).round()).max() < 1e-9


def test_points_cannot_be_changed(votes):
    _, _, clf = votes
    for model in (clf, pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):
        card = model.scorecard_
        for array in (card.z, card.counts, card.mean_points, card.importance, model.z_):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7
        with pytest.raises(ValueError, match="read-only"):
            card.intercept[...] = 7
        np.testing.assert_array_equal(card.z, clf.z_)


def test_a_card_keeps_copies_of_what_it_is_given(votes):
    z = np.array(votes[2].z_)
    card = replace(votes[2].scorecard_, z=z)
    z[0] = 7  # which stays the caller's, to write to
    assert card.z[0] == votes[2].z_[0]


# ---- the model file

CELLS = {
    "word": st.sampled_from(["a", "b", "ü", "<c>", None]),
    "small": st.sampled_from([0, 1, 2]),
    "real": st.one_of(st.just(float("nan")), st.floats(-1e6, 1e6)),
    "flag": st.booleans(),
}
ROW = st.tuples(*CELLS.values(), st.sampled_from(["no", "yes", "perhaps"]))


@given(
    st.lists(ROW, min_size=6, max_size=40),
    st.sampled_from(["map", "renyi", "sharp"]),
    st.sampled_from(["auto", 0.01]),
    st.booleans(),
)
def test_loaded_model_predicts_the_same_to_the_last_bit(
    tmp_path_factory, rows, rule, alpha, fit_intercept
):
    first = [("a", 0, 1.5, True, "no"), ("b", 1, 2.5, False, "yes")]
    table = pd.DataFrame([*first, *rows], columns=[*CELLS, "answer"])
    X, y = table.drop(columns="answer"), table["answer"]
    clf = RenyiClassifier(
        alpha=alpha, rule=rule, fit_intercept=fit_intercept, random_state=3
    )
    clf.fit(X, y)
    place = tmp_path_factory.mktemp("models") / "model.json"
    clf.save(place)
    again = RenyiClassifier.load(place)
    odd = pd.concat([X, X[:2].assign(word="never seen", real=9e9)])
    for method in ("decision_function", "predict_proba", "rule_proba", "predict"):
        expected = getattr(clf, method)(odd)
        np.testing.assert_array_equal(getattr(again, method)(odd), expected)
    assert again.certificate_ == clf.certificate_
    assert again.alpha_ == clf.alpha_
    assert again.get_params(deep=False).keys() == clf.get_params(deep=False).keys()


@pytest.mark.parametrize(
    "labels", [[0, 1], [False, True], [1.0, 2.0], ["a", "b"], [-1, 1, 10]]
)
def test_classes_keep_their_type(tmp_path, labels):
    X = np.random.default_rng(0).integers(0, 3, (60, 3))
    y = np.array(labels)[(X[:, 0] + X[:, 1]) % len(labels)]
    clf = RenyiClassifier(class_weight={labels[0]: 2.0}).fit(X, y)
    clf.save(tmp_path / "m.json")
    again = RenyiClassifier.load(tmp_path / "m.json")
    assert again.predict(X).tolist() == clf.predict(X).tolist()
    assert type(again.predict(X).tolist()[0]) is type(labels[0])
    assert again.class_weight == clf.class_weight
    assert not hasattr(again, "feature_names_in_")


def test_settings_come_back(tmp_path):
    X, y = three_classes()
    encoder = Encoder(bins=3, min_count=2, missing=("?", "none"), unseen="error")
    clf = RenyiClassifier(
        encoder=encoder,
        class_weight="balanced",
        alpha=np.float64(0.02),
        random_state=np.int64(5),
    )
    clf.fit(X, y).save(tmp_path / "m.json")
    again = RenyiClassifier.load(tmp_path / "m.json")
    assert again.encoder == encoder
    assert (again.class_weight, again.alpha, again.random_state) == (
        "balanced",
        0.02,
        5,
    )
    assert again.feature_names_in_.tolist() == list(X.columns)
    assert again.n_features_in_ == 4
    refitted = again.fit(X, y)
    np.testing.assert_array_equal(refitted.z_, clf.z_)


def test_scorecard_has_a_file_of_its_own(votes, tmp_path):
    X, _, clf = votes
    card, codes = clf.scorecard_, clf.encoder_.transform(X)
    card.save(tmp_path / "card.json")
    clf.save(tmp_path / "model.json")
    for name in ("card.json", "model.json"):
        again = Scorecard.load(tmp_path / name)
        np.testing.assert_array_equal(again.scores(codes), card.scores(codes))
        assert (again.classes, again.target) == (card.classes, "party")
    with pytest.raises(
        ValueError, match=r"card\.json is a scorecard alone, not a classifier"
    ):
        RenyiClassifier.load(tmp_path / "card.json")


def test_save_before_fit_is_an_error(tmp_path):
    with pytest.raises(Exception, match="not fitted"):
        RenyiClassifier().save(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


# ---- strangers' files


def changed(document, path, value):
    """The document with one place changed; path "a.b.0" goes down to it."""
    document = json.loads(json.dumps(document))
    *down, last = path.split(".")
    here = document
    for step in down:
        here = here[int(step)] if isinstance(here, list) else here[step]
    if isinstance(here, list):
        here[int(last)] = value
    elif value is KeyError:
        del here[last]
    else:
        here[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("more", 1),
        ("target", 3),
        ("renyi", KeyError),
        ("classifier", []),
        ("classifier.rule", "bayes"),
        ("classifier.alpha", -1),
        ("classifier.order", 7),
        ("classifier.fit_intercept", "no"),
        ("classifier.class_weight", "heavy"),
        ("classifier.class_weight", [["green", 1]]),
        ("classifier.class_weight", [["democrat", 0]]),
        ("classifier.random_state", -1),
        ("classifier.random_state", 2**32),
        ("classifier.encoder", {}),
        ("alpha_choice.alpha", "x"),
        ("alpha_choice.error", 2),
        ("alpha_choice.method", "oracle"),
        ("certificate", None),
        ("certificate.gamma", "x"),
        ("certificate.bounds.map", 1.5),
        ("scorecard", 5),
        ("scorecard.z", [0.5]),
        ("scorecard.z.0", "x"),
        ("scorecard.z.0", 10**400),
        ("scorecard.z.0", 1e200),
        ("scorecard.z", [2**62] * 48),
        ("scorecard.intercept", -2e9),
        ("scorecard.intercept", [0.1, 0.2]),
        ("scorecard.counts.3", -1),
        ("scorecard.counts", [1e308] * 48),
        ("scorecard.classes", ["democrat"]),
        ("scorecard.classes", ["democrat", "democrat"]),
        ("scorecard.classes", ["democrat", 1]),
        ("scorecard.classes", [1, 10**30]),
        ("scorecard.classes", ["a", "b", "c"]),
        ("scorecard.calibration.slope", -1.0),
        ("scorecard.calibration.slope", 1e300),
        ("scorecard.calibration.kind", "affine"),
        ("classifier.calibration", "isotonic"),
        ("scorecard.encoder", []),
        ("scorecard.encoder.columns.names.0", "crime"),
        ("scorecard.encoder.columns.which.0", 99),
        ("scorecard.encoder.columns.levels.0.categories", []),
        ("scorecard.encoder.columns.levels.0.kind", "number"),
    ],
)
def test_strange_files_are_refused_with_a_sentence(votes, tmp_path, path, value):
    place = tmp_path / "strange.json"
    votes[2].save(place)
    write_json(place, changed(read_json(place, "renyi-model", 3), path, value))
    with pytest.raises(ValueError, match=r"strange\.json is not valid: .*[^.]\.$"):
        RenyiClassifier.load(place)
    if path.startswith("scorecard"):
        with pytest.raises(ValueError, match=r"strange\.json is not valid: "):
            Scorecard.load(place)


def test_what_cannot_be_read_again_is_not_written(votes, tmp_path):
    card = votes[2].scorecard_
    for factor in (1e7, 1e17):
        large = replace(card, z=factor * card.z)
        if factor > 1e9:
            with pytest.raises(ValueError, match="too large"):
                large.save(tmp_path / "card.json")
        else:
            large.save(tmp_path / "card.json")
    again = Scorecard.load(tmp_path / "card.json")
    np.testing.assert_array_equal(again.z, 1e7 * card.z)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("0.", "1.", 1), "checksum"),
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda text: text.replace('"risk": ', '"risk": NaN, "old": '), "NaN"),
        (lambda text: "", "truncated or not JSON"),
        (lambda text: "[1, 2]", "not contain a JSON object"),
        (lambda text: "[" * 100_000, "nested too deeply"),
        (
            lambda text: text.replace('"renyi-model"', '"other"'),
            "its format is 'other'",
        ),
        (lambda text: text.replace('"version": 1', '"version": 4'), "version 4"),
    ],
)
def test_damaged_files_are_refused(votes, tmp_path, spoil, message):
    place = tmp_path / "model.json"
    votes[2].save(place)
    place.write_text(spoil(place.read_text()))
    with pytest.raises(ValueError, match=message):
        RenyiClassifier.load(place)


def test_the_text_is_enough_to_score_a_row_by_hand():
    X, y = load("votes")
    X = X.assign(constant="same")
    card = RenyiClassifier(alpha=0.01).fit(X, y).scorecard_.mapped
    frame = card.frame().set_index(["feature", "category"])["republican"]
    row = X.iloc[0].fillna("(missing)")
    points = sum(frame[name, row[name]] for name in X if name != "constant")
    start = float(str(card).split("republican ")[-1].split(";")[0])
    score = card.scores(card.encoder.transform(X[:1]))[0, 0]
    assert abs(start + points - score) < 1e-4


def test_a_lone_surrogate_in_labels_is_shown():
    X = np.array([["\ud800"], ["b"], ["b"]] * 4, object)
    card = RenyiClassifier().fit(X, ["\udfff", "n", "n"] * 4).scorecard_
    frame = card.frame()
    assert set(frame["category"]) == {"\ud800", "b"}
    assert {"\udfff", "n"} <= set(frame.columns)
    assert frame["count"].sum() == 12
    assert str(card)
