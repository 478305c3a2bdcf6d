"""Models made elsewhere: their scores to 1e-9, and bounds that no population exceeds.

The models are trained by their own packages. Scores are compared with what these give
to rows that training had not seen, with unknown labels and missing cells among them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import (
    ColumnTransformer,
    make_column_selector,
    make_column_transformer,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from renyi import (
    Certificate,
    Encoder,
    Marginals,
    Scorecard,
    certify,
    write_proof,
)
from renyi.datasets import load, random_joint
from renyi.robust import worst as exact
from renyi.verify import answer
from support.joints import (
    marginal_constraints,
    outcomes,
    within_class_constraints,
    worst_case,
)
from support.repeats import few
from support.scorings import SLACK

IGNORE = OneHotEncoder(handle_unknown="ignore")
SPREAD = StandardScaler(with_mean=False)
RARE = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=12)


def table(K, n=240, seed=0, gaps=True, unknown=False):
    """Labels of several types, some of them missing, and numbers."""
    rng = np.random.default_rng([seed, K])
    colours = ["red", "blue", "green", "grey"] + ["pink"] * unknown
    X = pd.DataFrame(
        {
            "colour": rng.choice(colours, n, p=None),
            "size": rng.integers(0, 4 + 2 * unknown, n),
            "owner": rng.random(n) < 0.4,
            "grade": rng.choice([0.5, 1.0, 2.5], n),
            "many": rng.choice([*"abcdefghijk"], n, p=np.arange(1, 12) / 66),
        }
    )
    if gaps:
        X["colour"] = X["colour"].where(rng.random(n) > 0.1, np.nan)
    signs = [X["colour"] == "red", X["size"] > 1, X["owner"], X["many"] > "f"]
    y = sum(sign.astype(int) for sign in signs) + (rng.random(n) < 0.3)
    y = y.to_numpy() % K
    return X, pd.Series(np.array(["no", "yes", "maybe", "never"])[y], name="answer")


def owned_scores(model, X):
    """One score of two classes, or one for each; logarithms without their mean."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X)).reshape(len(X), -1)
    logs = model.predict_log_proba(X)
    if logs.shape[1] == 2:
        return np.diff(logs)
    return logs - logs.mean(axis=1, keepdims=True)


def check_same(model, X, y, Z, card=None):
    """Scores, answers and probabilities of any rows are the model's own."""
    card = Scorecard.from_model(model) if card is None else card
    codes = card.encoder.transform(Z)
    scores = card.scores(codes)
    theirs = owned_scores(model, Z)
    if not hasattr(model, "decision_function") and scores.shape[1] > 1:
        scores = scores - scores.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(
        scores, theirs, rtol=0, atol=1e-9 * (1 + abs(theirs).max())
    )
    np.testing.assert_array_equal(
        np.array(card.classes)[card.estimates(codes).argmax(axis=1)], model.predict(Z)
    )
    if card.calibration.kind == "log-odds":
        p = card.probabilities(codes)
        np.testing.assert_allclose(p, model.predict_proba(Z), atol=1e-9)
    m = Marginals.from_data(X, y, encoder=card.encoder)
    c = certify(model, m)
    assert list(c.bounds) == ["map"]
    assert c.gamma is None
    assert "scale-free" in c.warning_codes
    assert c.bounds["map"] >= np.mean(model.predict(X) != y) - 1e-12
    assert certify(card, m).bounds == pytest.approx(c.bounds, abs=1e-12)
    return card


# ---- the same scores


LINEAR = {
    "logistic": LogisticRegression(),
    "ridge": RidgeClassifier(),
    "svm": LinearSVC(),
    "hinge": SGDClassifier(random_state=0),
    "sgd": SGDClassifier(loss="log_loss", random_state=0),
    "huber": SGDClassifier(loss="modified_huber", random_state=0),
    "perceptron": Perceptron(random_state=0),
    "discriminant": LinearDiscriminantAnalysis(),
}


@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_on_indicators(name, K):
    X, y = table(K)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(encoder, LINEAR[name]).fit(X, y)
    card = check_same(model, X, y, table(K, seed=1, unknown=True)[0])
    odds = name in ("logistic", "discriminant") or (name == "sgd" and K == 2)
    assert card.calibration.kind == ("log-odds" if odds else "margin")


ENCODERS = {
    "ignored": IGNORE,
    "rare": RARE,
    "rare, at most": OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=4
    ),
    "first": OneHotEncoder(handle_unknown="ignore", drop="first"),
    "binary": OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
    "rare and first": OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=12, drop="first"
    ),
    "rare and binary": OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=60, drop="if_binary"
    ),
    "ordinal": OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    ),
    "rare ordinal": OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=-1,
        encoded_missing_value=-2,
        min_frequency=12,
    ),
}


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name, K):
    X, y = table(K)
    model = make_pipeline(ENCODERS[name], LogisticRegression(max_iter=2000)).fit(X, y)
    check_same(model, X, y, table(K, seed=1, unknown=True)[0])


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_labels_that_an_encoder_rejects(drop):
    X, y = table(2)
    model = make_pipeline(OneHotEncoder(drop=drop), LogisticRegression()).fit(X, y)
    card = check_same(model, X, y, table(2, seed=1)[0])
    assert card.encoder.unseen == "error"
    Z, _ = table(2, seed=1, unknown=True)
    with pytest.raises(ValueError, match="'pink', unseen in training"):
        card.encoder.transform(Z)
    with pytest.raises(
        ValueError, match="no points for the label 'pink' of .*'colour'"
    ):
        certify(model, Marginals.from_data(Z, y, encoder=Encoder(numeric=())))


STEPS = {
    "scaled": [IGNORE, SPREAD],
    "standard": [
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        StandardScaler(),
        "passthrough",
    ],
    "nested": [make_pipeline(IGNORE, SPREAD), None],
    "filled": [SimpleImputer(strategy="most_frequent"), IGNORE],
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_between_are_folded_in(name):
    X, y = table(3)
    if name == "filled":  # cells of one type
        X = X[["colour", "many"]]
    model = make_pipeline(*STEPS[name], LogisticRegression()).fit(X, y)
    Z = table(3, seed=1, unknown=True)[0][list(X)]
    check_same(model, X, y, Z)


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_columns_with_an_encoder_each():
    X, y = table(3)
    X["age"] = np.random.default_rng(0).normal(40, 12, len(X))
    bins = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    chosen = make_column_transformer(
        (make_pipeline(RARE, SPREAD), ["colour", "many"]),
        (bins, ["age"]),
        ("drop", ["grade"]),
        (OrdinalEncoder(), make_column_selector("owner")),
        remainder=OneHotEncoder(handle_unknown="ignore", drop="first"),
        sparse_threshold=0,
    )
    model = make_pipeline(chosen, LogisticRegression(max_iter=1000)).fit(X, y)
    Z, _ = table(3, seed=1, unknown=True)
    edges = model[0].transformers_[1][1].bin_edges_[0]
    Z["age"] = np.resize([*edges, -1e9, 1e9, np.nextafter(edges[2], 0)], len(Z))
    card = check_same(model, X, y, Z)
    assert card.encoder.feature_names == ("colour", "many", "age", "owner", "size")
    placed = make_column_transformer((IGNORE, [0, 4]), (IGNORE, slice(1, 3)))
    check_same(make_pipeline(placed, LogisticRegression()).fit(X, y), X, y, Z)


@pytest.mark.parametrize("encode", ["onehot", "ordinal"])
def test_numbers_in_bins(encode):
    X, y = load("credit")
    X = X[["a2", "a8"]]
    bins = KBinsDiscretizer(
        5, encode=encode, quantile_method="averaged_inverted_cdf", strategy="quantile"
    )
    steps = [SimpleImputer(strategy="median"), bins, LogisticRegression()]
    model = make_pipeline(*steps).fit(X, y)
    check_same(model, X, y, X)
    with pytest.raises(ValueError, match=r"binned differently.*encoder=card\.encoder"):
        certify(model, Marginals.from_data(X, y))


def test_arrays_and_other_wrappers():
    X, y = table(2, gaps=False)
    array = X[["size", "colour"]].to_numpy()
    model = make_pipeline(IGNORE, LogisticRegression()).fit(array, y)
    card = check_same(model, array, y, array[::-1])
    assert card.encoder.feature_names == ("x0", "x1")
    search = GridSearchCV(
        make_pipeline(IGNORE, LinearSVC()), {"linearsvc__C": [0.1, 1]}
    )
    check_same(search.fit(X, y), X, y, table(2, seed=2, unknown=True)[0])


@pytest.mark.parametrize("K", [2, 3, 4])
def test_naive_bayes(K):
    X, y = table(K, gaps=False)
    sizes = X.nunique().to_numpy()
    unknown = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=11)
    for steps in (
        [OrdinalEncoder(), CategoricalNB()],
        [unknown, CategoricalNB(min_categories=12)],
    ):
        model = make_pipeline(*steps).fit(X, y)
        seen = steps[0].handle_unknown == "error"
        Z, _ = table(K, seed=1, gaps=not seen, unknown=not seen)
        card = check_same(model, X, y, Z)
        assert (card.encoder.unseen == "error") == seen
    codes = OrdinalEncoder().fit_transform(X).astype(int)
    model = CategoricalNB(min_categories=sizes + 1).fit(codes, y)
    check_same(model, codes, y, codes[::-1])


# ---- cells that packages write in another way


def truths(n=400, seed=1, of_class=True):
    """Rows whose owner is the class, or is not related to it, and a second column."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    side = np.where(rng.random(n) < 0.97, y, 1 - y)
    owner = y == 1 if of_class else rng.random(n) < 0.5
    X = pd.DataFrame({"side": np.where(side == 1, "p", "q"), "owner": owner})
    return X, np.where(y == 1, "yes", "no")


WRITTEN = {
    "bool": lambda X: X,
    "nullable": lambda X: X.astype({"owner": "boolean"}),
    "category": lambda X: X.astype({"owner": "category"}),
    "whole": lambda X: X.astype({"owner": int}),
}


@pytest.mark.parametrize("counted", WRITTEN)
@pytest.mark.parametrize("trained", [*WRITTEN, "float"])
def test_truth_values_are_0_and_1(trained, counted):
    X, y = truths()
    Z, w = truths(of_class=False, seed=2)
    model = make_pipeline(IGNORE, LogisticRegression(C=100))
    as_floats = X.astype({"owner": float})
    model.fit(as_floats if trained == "float" else WRITTEN[trained](X), y)
    rows = WRITTEN[counted](Z)
    wrong = np.mean(model.predict(rows) != w)
    assert wrong > 0.4
    m = Marginals.from_data(rows, w)
    assert certify(model, m).bounds["map"] >= wrong
    assert certify(model, rows, w).observed_error == wrong
    card = Scorecard.from_model(model, m)
    codes = card.encoder.transform(rows)
    np.testing.assert_allclose(
        card.scores(codes)[:, 0], model.decision_function(rows), atol=1e-9
    )
    alone = Scorecard.from_model(model)
    for way in WRITTEN.values():  # whatever the rows to come are
        codes = alone.encoder.transform(way(Z))
        theirs = model.decision_function(way(Z))
        np.testing.assert_allclose(alone.scores(codes)[:, 0], theirs, atol=1e-9)
    shown = card.encoder.categories["owner"]
    words = counted in ("bool", "nullable", "category")
    assert sorted(shown) == [0, 1]
    assert all(isinstance(label, bool) == words for label in shown)


def test_truth_values_behind_an_imputer():
    X, y = truths()
    X = X.assign(number=np.arange(len(X)) % 3)[["owner", "number"]]
    steps = [SimpleImputer(strategy="most_frequent"), IGNORE, LogisticRegression()]
    model = make_pipeline(*steps).fit(X, y)
    check_same(model, X, y, X[::-1])
    m = Marginals.from_data(X, y)
    assert certify(model, m).bounds["map"] >= np.mean(model.predict(X) != y)
    X["owner"] = X["owner"].astype("boolean").where(X["number"] > 0)
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    check_same(model, X, y, X[::-1])


def test_counts_with_other_labels_than_the_model():
    X, y = truths()
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    other = X.assign(side=X["side"].map({"p": "left", "q": "right"}))
    m = Marginals.from_data(other, y)
    with pytest.raises(ValueError, match=r"no label of column 'side'.*'left'.*'p'"):
        certify(model, m)
    card = Scorecard.from_model(model)
    with pytest.raises(ValueError, match="no label of column 'side'"):
        certify(card, m)
    one = other.assign(side=np.where(np.arange(len(X)) < 9, X["side"], other["side"]))
    assert certify(model, Marginals.from_data(one, y)).bounds["map"] > 0


def test_missing_cells_that_are_none():
    X, y = load("votes")
    plain = X.astype(object).where(X.notna(), None)
    bounds = []
    for rows in (X, plain, plain.to_numpy()):
        model = make_pipeline(IGNORE, LogisticRegression()).fit(rows, y)
        m = Marginals.from_data(rows, y)
        bounds.append(certify(model, m).bounds["map"])
        error = np.mean(model.predict(rows) != y)
        assert certify(model, rows, y).observed_error == error
    assert bounds == pytest.approx([bounds[0]] * 3, abs=1e-6)
    apart = make_column_transformer((IGNORE, list(X)))
    model = make_pipeline(apart, LogisticRegression()).fit(plain, y)
    check_same(model, plain, y, plain[::-1])
    fill = SimpleImputer(missing_values=None, strategy="constant", fill_value="none")
    model = make_pipeline(fill, IGNORE, LogisticRegression()).fit(plain, y)
    check_same(model, plain, y, plain[::-1])


def test_frames_of_polars():
    pl = pytest.importorskip("polars")
    X, y = load("votes")
    rows = pl.from_pandas(X.astype(object).where(X.notna(), None))
    model = make_pipeline(IGNORE, LogisticRegression()).fit(rows, list(y))
    m = Marginals.from_data(rows, pl.Series("party", list(y)))
    error = np.mean(model.predict(rows) != y)
    assert certify(model, m).bounds["map"] >= error
    assert certify(model, rows, list(y)).observed_error == error
    table = pl.DataFrame(
        {
            "feature": ["physician-fee-freeze"] * 3,
            "category": ["y", "n", "(missing)"],
            "points": [10, 0, 5],
        }
    )
    c = certify(table, m, threshold=6)
    assert c == certify(table.to_pandas(), m, threshold=6)


def test_rows_that_a_model_scores_otherwise():
    X, y = load("votes")
    plain = X.astype(object).where(X.notna(), None)
    model = make_pipeline(IGNORE, LogisticRegression()).fit(plain, y)
    gaps = plain.astype(object).where(plain.notna(), np.nan)  # unknown to this model
    with pytest.raises(ValueError, match="not the sums of the points .* these rows"):
        certify(model, gaps, y)
    strict = make_column_transformer((OneHotEncoder(), ["crime"]), remainder=IGNORE)
    model = make_pipeline(strict, LogisticRegression()).fit(plain, y)
    odd = plain.assign(crime="maybe")
    card = Scorecard.from_model(model)
    assert card.encoder.unseen == "mean"
    with pytest.raises(ValueError, match="This Pipeline rejects the rows: Found unkn"):
        certify(model, odd, y)
    with pytest.raises(
        ValueError, match="no points for the label 'maybe' of .*'crime'"
    ):
        odd.loc[50:, "crime"] = plain["crime"]
        certify(model, Marginals.from_data(odd, y))


# ---- models in models


def test_sparse_coefficients():
    X, y = table(2)
    for final in (SVC(kernel="linear"), SGDClassifier(penalty="l1", random_state=0)):
        model = make_pipeline(IGNORE, final).fit(X, y)
        if isinstance(final, SGDClassifier):
            final.sparsify()
        check_same(model, X, y, table(2, seed=1, unknown=True)[0])


def test_searches_within_pipelines():
    X, y = table(3)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2)
    for final in (search, make_pipeline(SPREAD, search)):
        model = make_pipeline(IGNORE, final).fit(X, y)
        check_same(model, X, y, table(3, seed=1, unknown=True)[0])


def test_models_around_models_are_rejected_by_name():
    X, y = table(2)
    inner = make_pipeline(IGNORE, LogisticRegression())
    frozen = FrozenEstimator(inner.fit(X, y))
    moved = FixedThresholdClassifier(inner, threshold=0.3).fit(X, y)
    for model in (frozen, moved):
        with pytest.raises(ValueError, match=f"{type(model).__name__} is not") as error:
            Scorecard.from_model(model)
        assert str(error.value).count(". ") == 0  # one sentence


def test_votes_of_pairs_are_rejected():
    X, y = table(3)
    model = make_pipeline(IGNORE, SVC(kernel="linear")).fit(X, y)
    with pytest.raises(ValueError, match="SVC of 3 classes lets pairs of them vote"):
        Scorecard.from_model(model)


@pytest.mark.parametrize("threshold", ["a", np.inf, np.nan, None, True])
def test_thresholds_are_finite_numbers(threshold):
    X, y = table(2)
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="threshold must be a finite number, not"):
        Scorecard.from_model(model, threshold=threshold)


def test_certificates_at_a_threshold():
    X, y = load("votes")
    m = Marginals.from_data(X, y)
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    card = Scorecard.from_model(model, m, threshold=0.8)
    assert certify(model, m, threshold=0.8) == certify(card, m)
    wrong = np.mean((model.decision_function(X) > 0.8) != (y == "republican"))
    assert certify(model, X, y, threshold=0.8).observed_error == wrong
    with pytest.raises(
        ValueError, match=r"threshold=0\.8 is for models made elsewhere"
    ):
        certify(card, m, threshold=0.8)
    with pytest.raises(
        ValueError, match=r"threshold=0\.8 is for models made elsewhere"
    ):
        certify(card, X, y, threshold=0.8)


def test_class_order_and_types():
    X, y = table(2)
    numbers = y.map({"no": 1, "yes": 0})
    for labels in (numbers, y == "no", numbers.astype(float)):
        model = make_pipeline(IGNORE, LogisticRegression()).fit(X, labels)
        card = check_same(model, X, labels, X)
        assert list(card.classes) == model.classes_.tolist()


def test_a_threshold_moves_the_score():
    X, y = load("votes")
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    card = Scorecard.from_model(model, threshold=np.log(0.3 / 0.7))
    codes = card.encoder.transform(X)
    answers = card.estimates(codes).argmax(axis=1) == 1
    np.testing.assert_array_equal(answers, model.predict_proba(X)[:, 1] > 0.3)


def test_old_boosting_machines_are_rejected(monkeypatch):
    glassbox = pytest.importorskip("interpret.glassbox")
    X, y = table(2)
    quick = {"max_rounds": 2, "outer_bags": 1, "n_jobs": 1, "interactions": 0}
    model = glassbox.ExplainableBoostingClassifier(**quick).fit(X[["size"]], y)
    monkeypatch.setattr("renyi.additive_models.version", lambda name: "0.7.6")
    with pytest.raises(ValueError, match="0.7.7 or newer: version 0.7.6 reads"):
        Scorecard.from_model(model)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.filterwarnings("ignore:Missing values detected")
@pytest.mark.filterwarnings("ignore:For multiclass we cannot currently visualize")
def test_boosting_machines(K):
    glassbox = pytest.importorskip("interpret.glassbox")
    X, y = table(K)
    X["age"] = np.random.default_rng(0).normal(40, 12, len(X)).round()
    X.loc[::9, "age"] = np.nan
    types = ["nominal"] * 5 + ["continuous"]
    quick = {"max_rounds": 20, "outer_bags": 1, "n_jobs": 1, "feature_types": types}
    model = glassbox.ExplainableBoostingClassifier(interactions=0, **quick).fit(X, y)
    Z, _ = table(K, seed=1, unknown=True)
    edges = model.bins_[5][0]
    Z["age"] = np.resize([*edges, np.nan, -1e9, 1e9, np.nextafter(edges[2], 0)], len(Z))
    card = check_same(model, X, y, Z)
    assert card.calibration.kind == "log-odds"
    with pytest.raises(ValueError, match=r"'age' is binned differently"):
        certify(model, Marginals.from_data(X, y, encoder=Encoder(numeric=["age"])))
    model = glassbox.ExplainableBoostingClassifier(interactions=1, **quick).fit(X, y)
    with pytest.raises(ValueError, match="has the interaction .*interactions=0"):
        Scorecard.from_model(model)


# ---- what is rejected


REJECTED = {
    "RandomForestClassifier": [IGNORE, RandomForestClassifier(2)],
    "DecisionTreeClassifier": [IGNORE, DecisionTreeClassifier()],
    "KNeighborsClassifier": [IGNORE, KNeighborsClassifier()],
    "SVC is not": [IGNORE, SVC()],
    "PolynomialFeatures": [IGNORE, PolynomialFeatures(), LogisticRegression()],
    "Nystroem": [IGNORE, Nystroem(n_components=5), LogisticRegression()],
    "FunctionTransformer": [IGNORE, FunctionTransformer(np.sqrt), LogisticRegression()],
    "RobustScaler": [IGNORE, RobustScaler(with_centering=False), LogisticRegression()],
    "SelectKBest": [IGNORE, SelectKBest(k=2), LogisticRegression()],
    "transformer_weights": [
        ColumnTransformer([("a", IGNORE, ["size"])], transformer_weights={"a": 0.5}),
        LogisticRegression(),
    ],
    "OneVsRestClassifier": [IGNORE, OneVsRestClassifier(LogisticRegression())],
    "OneVsOneClassifier": [IGNORE, OneVsOneClassifier(LogisticRegression())],
    "BernoulliNB": [IGNORE, BernoulliNB()],
    "a second time": [OrdinalEncoder(), IGNORE, LogisticRegression()],
    "takes whole numbers": [
        OneHotEncoder(sparse_output=False),
        CategoricalNB(min_categories=2),
    ],
    "add_indicator": [SimpleImputer(strategy="constant", add_indicator=True), IGNORE],
    "'size' reaches": [
        make_column_transformer((IGNORE, ["colour"]), remainder="passthrough"),
        LogisticRegression(),
    ],
    "'size' reaches StandardScaler": [
        make_column_transformer((IGNORE, ["colour"]), (StandardScaler(), ["size"])),
        LogisticRegression(),
    ],
    "encoded twice": [
        make_column_transformer((IGNORE, ["colour"]), (IGNORE, ["colour", "size"])),
        LogisticRegression(),
    ],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("reason", REJECTED)
def test_other_models_are_rejected_by_name(reason):
    X, y = table(3, gaps=False)
    steps = REJECTED[reason]
    X = X[["colour", "size"]].assign(colour=X["colour"].astype(object))
    if steps[-1] is IGNORE:
        steps = [*steps, LogisticRegression()]
    model = make_pipeline(*steps).fit(X, y)
    with pytest.raises(ValueError, match=reason.replace("'", ".")) as error:
        Scorecard.from_model(model)
    assert str(error.value).count(". ") == 0  # one sentence
    with pytest.raises(ValueError, match=reason.replace("'", ".")):
        certify(model, Marginals.from_data(X, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinite_points_are_rejected():
    X, y = table(2, gaps=False)
    X["leak"] = y
    model = make_pipeline(OrdinalEncoder(), CategoricalNB(alpha=0)).fit(X, y)
    with pytest.raises(
        ValueError, match="'leak' infinite points: train it with smooth"
    ):
        Scorecard.from_model(model)


def test_what_is_not_a_model():
    X, y = table(2)
    with pytest.raises(TypeError, match="the first is a dict"):
        Scorecard.from_model({})
    with pytest.raises(ValueError, match="not a fitted classifier"):
        Scorecard.from_model(make_pipeline(IGNORE, LogisticRegression()))
    with pytest.raises(ValueError, match=r"'size' reaches LogisticRegression as it is"):
        Scorecard.from_model(LogisticRegression().fit(X[["size"]], y))
    both = pd.DataFrame({"grade": [None, np.nan, "a"] * 9}, dtype=object)
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(both, y[:27])
    with pytest.raises(ValueError, match=r"two labels of column 'grade' .*missing"):
        Scorecard.from_model(model)


class Louder(OneHotEncoder):
    """An encoder that does something else."""

    def transform(self, X):
        return 2 * super().transform(X)


def test_points_are_compared_with_the_scores():
    X, y = table(2)
    model = make_pipeline(Louder(handle_unknown="ignore"), LogisticRegression())
    with pytest.raises(ValueError, match="are not the sums of its points"):
        Scorecard.from_model(model.fit(X, y))


# ---- counts that were made otherwise


def test_missing_cells_of_the_counts_are_missing_to_the_model():
    X, y = load("votes")
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    bounds = certify(model, Marginals.from_data(X, y)).bounds
    exact = Scorecard.from_model(model)
    own = Marginals.from_data(X, y, encoder=exact.encoder)
    assert bounds["map"] == pytest.approx(certify(exact, own).bounds["map"], abs=1e-12)
    filled = make_pipeline(IGNORE, LogisticRegression()).fit(X.fillna("?"), y)
    with pytest.raises(ValueError, match="merges .* but the model distinguishes them"):
        certify(filled, Marginals.from_data(X.fillna("?"), y))
    card = Scorecard.from_model(filled)
    m = Marginals.from_data(X.fillna("?"), y, encoder=card.encoder)
    assert certify(filled, m).bounds["map"] == pytest.approx(bounds["map"], abs=1e-9)


def test_the_card_has_the_counts_of_the_marginals():
    X, y = load("votes")
    m = Marginals.from_data(X, y)
    model = make_pipeline(IGNORE, RidgeClassifier()).fit(X, y)
    card = Scorecard.from_model(model, m)
    assert card.target == "party"
    assert card.frame()["count"].sum() == X.size
    assert "count" not in Scorecard.from_model(model).frame()
    whole = card.rounded(5, marginals=m)
    assert whole.certificate.bounds["map"] < 0.2
    # Its own scale is that of the least risk: all rules have a bound, proved as always.
    assert list(whole.certificate.bounds) == list(certify(whole.scorecard, m).bounds)
    assert whole.certificate.gamma == pytest.approx(certify(whole.scorecard, m).gamma)
    assert any("as if its scores were log-odds" in each for each in whole.sentences())
    assert Scorecard.from_dict(card.to_dict()).scores(
        card.encoder.transform(X)
    ) == pytest.approx(card.scores(card.encoder.transform(X)))


# ---- guarantees


def drawn_model(rng, K, X, y):
    """A model of another package, drawn at random and trained."""
    penalty = 10.0 ** rng.integers(-2, 3)
    unknown = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    seeded = {"random_state": 0}
    steps = [
        [OneHotEncoder(), LogisticRegression(C=penalty)],
        [OneHotEncoder(drop="first"), LogisticRegression(C=penalty)],
        [OneHotEncoder(), RidgeClassifier(alpha=penalty)],
        [OneHotEncoder(), LinearSVC()],
        [OneHotEncoder(), SGDClassifier(alpha=penalty / 100, **seeded)],
        [OneHotEncoder(), SGDClassifier("log_loss", alpha=penalty / 100, **seeded)],
        [OrdinalEncoder(), CategoricalNB(alpha=penalty)],
        [unknown, LogisticRegression()],
        None,
    ][rng.integers(9)]
    if steps is not None:
        return make_pipeline(*steps).fit(X, y)
    glassbox = pytest.importorskip("interpret.glassbox")
    types = ["nominal"] * X.shape[1]
    quick = {"max_rounds": 20, "outer_bags": 1, "n_jobs": 1, "feature_types": types}
    model = glassbox.ExplainableBoostingClassifier(interactions=0, **quick)
    return model.fit(X, y)


@pytest.mark.filterwarnings("ignore:For multiclass we cannot currently visualize")
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("seed", few(17, range(167)))
def test_no_population_exceeds_the_bound(K, seed):
    """The worst distribution with the pairs of a random table, by linear program.

    The pairs are those of all columns, or those within each class.
    """
    rng = np.random.default_rng([seed, K])
    sizes = ((2, 3, 2), (3, 3), (2, 2, 2, 2), (4, 2, 2))[seed % 4]
    kind = ("logistic", "dirichlet", "additive")[seed % 3]
    joint = random_joint(sizes, K, kind=kind, random_state=[K, seed])
    counts = rng.multinomial(400, joint.ravel() / joint.sum()) + (seed % 2)
    counts[-K:] += 1  # of every class
    cells = outcomes((*sizes, K))
    rows = np.repeat(cells, counts, axis=0)
    names = [f"c{j}" for j in range(len(sizes))]
    X = pd.DataFrame(rows[:, :-1], columns=names)
    y = rows[:, -1]
    model = drawn_model(rng, K, X, y)
    within = bool(rng.integers(2))
    card = Scorecard.from_model(model)
    m = Marginals.from_data(X, y, encoder=card.encoder, class_conditional=within)
    c = certify(model, m)
    every = pd.DataFrame(outcomes(sizes), columns=names)
    s = owned_scores(model, every)
    if K == 2:
        s = np.hstack([-s, s])
    table = np.bincount(np.ravel_multi_index(rows.T, (*sizes, K)), minlength=joint.size)
    table = table.reshape(*sizes, K) / len(rows)
    top = s >= s.max(axis=1, keepdims=True) - 1e-9
    # Ties count as errors.
    right = 1.0 * (top & (top.sum(axis=1, keepdims=True) == 1))
    worst = worst_case(right, *marginal_constraints(table))
    fewer = worst_case(right, *within_class_constraints(table))
    seen = ((1 - right).reshape(table.shape) * table).sum()
    assert seen - SLACK <= fewer <= worst + SLACK
    assert (fewer if within else worst) <= c.bounds["map"] + SLACK
    pairs = Marginals.from_data(X, y, encoder=card.encoder)
    assert worst <= certify(model, pairs).bounds["map"] + SLACK


@pytest.mark.parametrize("K", [2, 3])
def test_proofs_and_worst_cases(K, tmp_path):
    pytest.importorskip("highspy")
    X, y = table(K, gaps=False)
    X = X[["colour", "size", "owner"]]
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X, y)
    m = Marginals.from_data(X, y, encoder=Scorecard.from_model(model).encoder)
    m.save(tmp_path / "m.renyi")
    proved = write_proof(tmp_path / "proof.json", m, model)
    assert list(proved) == ["map"]
    card = Scorecard.from_model(model, m)
    card.save(tmp_path / "card.json")
    places = [str(tmp_path / name) for name in ("m.renyi", "card.json", "proof.json")]
    assert answer(*places)[0] == 0
    worst = exact.worst_case(model, m)
    assert worst.lower <= worst.upper <= certify(model, m).bounds["map"] + 1e-9
    assert worst.upper - worst.lower < 1e-5
    assert worst.upper >= np.mean(model.predict(X) != y) - 1e-9
    with pytest.raises(ValueError, match="must be 'map', not 'sharp'"):
        exact.worst_case(model, m, rule="sharp")


def test_held_out_rows():
    X, y = load("votes")
    model = make_pipeline(IGNORE, LogisticRegression()).fit(X[:300], y[:300])
    c = certify(model, X[300:], y[300:])
    assert c.observed_error == pytest.approx(np.mean(model.predict(X[300:]) != y[300:]))
    assert c.gamma is None
    assert list(c.bounds) == ["map"]
    assert Certificate.from_dict(c.to_dict()) == c
    with pytest.raises(ValueError, match="no bound of rule 'sharp'"):
        c.of_rule("sharp")


def test_rows_that_only_rounding_decides_are_refused():
    X = pd.DataFrame({"a": ["x", "y"] * 20})
    y = np.array([0, 1] * 20)
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X, y)
    model[-1].coef_ = np.zeros((1, 2))
    model[-1].intercept_ = np.array([1e-18])  # which ½ + 1e-18 hides
    with pytest.raises(ValueError, match="40 rows of these have scores within round"):
        certify(model, X, y)
