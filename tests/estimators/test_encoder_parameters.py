"""The encoder's parameters in scikit-learn's tools, and the importance of columns."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from renyi import (
    CrossFitClassifier,
    Encoder,
    KernelRenyiClassifier,
    Marginals,
    MinimaxClassifier,
    RenyiClassifier,
    RenyiSelector,
)

ESTIMATORS = [
    RenyiClassifier(),
    KernelRenyiClassifier(),
    RenyiSelector(),
    MinimaxClassifier(),
]


def table(n=240):
    r = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": r.normal(50, 10, n), "sex": r.choice(["f", "m"], n), "one": "x"}
    )
    y = np.where(np.abs(X["age"] - 50) < 7, "p", "n")
    y[r.random(n) < 0.1] = "p"
    return X, y


# ---- parameters


@pytest.mark.parametrize("clf", ESTIMATORS)
def test_the_encoder_is_replaced(clf):
    clf = clone(clf)
    assert clf.get_params()["encoder__bins"] == "auto"
    assert "encoder__columns" not in clf.get_params()
    assert "encoder__bins" not in clf.get_params(deep=False)
    assert clf.set_params(encoder__bins=4, encoder__min_count=2) is clf
    assert clf.encoder == Encoder(bins=4, min_count=2)
    before = clf.encoder
    clf.set_params(encoder__bins={"age": [30]})
    assert before.bins == 4 and clf.encoder == Encoder(min_count=2, bins={"age": [30]})
    clf.set_params(encoder=Encoder(unseen="error"), encoder__bins=7)
    assert clf.encoder == Encoder(unseen="error", bins=7)
    clf.set_params(encoder=None, encoder__bins="auto")
    assert clf.encoder is None
    clf.set_params(**clf.get_params())
    assert clf.encoder is None
    with pytest.raises(ValueError, match="Invalid parameter 'binz' for the encoder"):
        clf.set_params(encoder__binz=3)
    with pytest.raises(ValueError, match="bins must be"):
        clf.set_params(encoder__bins=0)
    with pytest.raises(TypeError, match="encoder must be an Encoder, not a str"):
        clf.set_params(encoder="x", encoder__bins=3)


def test_columns_stay_until_they_would_be_learned_otherwise():
    X, y = table()
    fitted = Encoder(bins=3).fit(X)
    clf = clone(RenyiClassifier(encoder=fitted))
    assert clf.encoder == fitted and clf.encoder.columns == fitted.columns
    clf.set_params(encoder__unseen="error", encoder__bins=3)
    assert clf.encoder.columns == fitted.columns
    other = X.assign(age=X["age"] * 2)
    edges = clf.fit(other, y).encoder_.columns.named("age").levels.edges
    assert edges == fitted.columns.named("age").levels.edges
    clf.set_params(encoder__bins=4)
    assert not clf.encoder.columns
    assert len(clf.fit(other, y).encoder_.columns.named("age").categories) == 4


def test_a_grid_search_chooses_the_bins():
    X, y = table()
    pipe = make_pipeline(FunctionTransformer(), RenyiClassifier(alpha=0.01))
    grid = {
        "renyiclassifier__encoder__bins": [2, 6, {"age": [43, 57]}],
        "renyiclassifier__encoder__binning": ["quantile", "supervised"],
    }
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(X, y)
    results = pd.DataFrame(search.cv_results_)
    assert results["mean_test_score"].nunique() > 2
    best = search.best_params_["renyiclassifier__encoder__bins"]
    assert best == {"age": [43, 57]}
    assert search.best_estimator_[-1].encoder.bins == (("age", (43.0, 57.0)),)
    assert pipe[-1].encoder is None
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    nested = CrossFitClassifier(RenyiClassifier())
    nested.set_params(estimator__encoder__bins=3)
    assert nested.fit(X, y).halves_[0].encoder_.bins == 3


# ---- importance of columns


def spread(card, codes, weights=None):
    """Standard deviation of each column's points over the rows."""
    points = card.points_of(codes)
    mean = np.average(points, axis=0, weights=weights)
    squares = np.average((points - mean) ** 2, axis=0, weights=weights)
    own = np.sqrt(squares.sum(axis=1))
    return own / own.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_importance_is_the_spread_of_the_points(classes, weighted):
    X, y = table()
    if classes == 3:
        y = np.where(X["age"] > 65, "q", y)
    weights = np.random.default_rng(1).integers(1, 4, len(y)) if weighted else None
    clf = RenyiClassifier().fit(X, y, weights)
    own = clf.feature_importances_
    codes = clf.encoder_.transform(X)
    expected = spread(clf.scorecard_.mapped, codes, weights)
    np.testing.assert_allclose(own, expected, atol=1e-9)
    assert own.shape == (clf.n_features_in_,) and own[2] == 0
    assert own.sum() == pytest.approx(1)
    kernel = KernelRenyiClassifier(random_state=0).fit(X, y, weights)
    expected = spread(kernel.kernel_.main_effects.mapped, codes, weights)
    np.testing.assert_allclose(kernel.feature_importances_, expected, atol=1e-9)


@pytest.mark.parametrize("kind", [{"order": 2}, {"interactions": [("age", "sex")]}])
def test_columns_of_a_pair_share_its_importance(kind):
    X, y = table()
    clf = RenyiClassifier(**kind).fit(X, y)
    own = dict(zip(clf.encoder_.feature_names, clf.scorecard_.importance, strict=True))
    age = own.get("age", 0) + (own["age & sex"] + own.get("age & one", 0)) / 2
    total = sum(own.values())
    assert clf.feature_importances_[0] == pytest.approx(age / total)
    assert clf.feature_importances_.sum() == pytest.approx(1)


def test_importance_of_halves_and_of_selected_columns():
    X, y = table()
    mixture = CrossFitClassifier(method="mixture").fit(X, y)
    both = [half.feature_importances_ for half in mixture.halves_]
    np.testing.assert_allclose(mixture.feature_importances_, np.mean(both, axis=0))
    average = CrossFitClassifier().fit(X, y)
    card = average.scorecard_
    np.testing.assert_allclose(
        average.feature_importances_,
        card.mapped.importance / card.mapped.importance.sum(),
    )
    selector = RenyiSelector(n_features=1).fit(X, y)
    assert selector.feature_importances_.tolist() == [1, 0, 0]
    chosen = SelectFromModel(RenyiClassifier(), max_features=1).fit(X, y)
    assert chosen.get_support().tolist() == [True, False, False]


def test_no_points_no_importance():
    clf = RenyiClassifier(alpha=1e12).fit(
        [["a", 1], ["b", 1]] * 9, [0, 1, 1, 0] + [0, 1] * 7
    )
    assert np.isfinite(clf.feature_importances_).all()
    flat = RenyiClassifier(alpha=1.0).fit([["a", 1], ["b", 1]] * 8, [0, 0, 1, 1] * 4)
    assert flat.feature_importances_.tolist() == [0, 0]


@pytest.mark.parametrize("clf", [*ESTIMATORS, CrossFitClassifier()])
def test_names_of_the_columns_are_kept(clf):
    X, y = table()
    assert clone(clf).fit(X, y).feature_names_in_.tolist() == ["age", "sex", "one"]


# ---- weights of the classes in a selection


def rare(n=900):
    r = np.random.default_rng(4)
    y = (r.random(n) < 0.1).astype(int)
    X = pd.DataFrame({f"v{k}": r.integers(0, 3, n).astype(str) for k in range(5)})
    X["v3"] = np.where(r.random(n) < 0.5, y, r.integers(0, 2, n)).astype(str)
    X["v1"] = np.where(r.random(n) < 0.2, y, r.integers(0, 2, n)).astype(str)
    return X, y


@pytest.mark.parametrize("method", ["forward", "path"])
def test_weighted_classes_are_repeated_rows(method):
    X, y = rare()
    how = {"n_features": 2, "method": method, "refit_alpha": 0.01, "calibration": None}
    weighted = RenyiSelector(class_weight={1: 3}, **how).fit(X, y)
    times = np.where(y == 1, 3, 1)
    repeated = RenyiSelector(**how).fit(
        X.loc[X.index.repeat(times)], np.repeat(y, times)
    )
    assert [*weighted.features_] == [*repeated.features_]
    np.testing.assert_allclose(
        weighted.classifier_.z_, repeated.classifier_.z_, atol=1e-9
    )
    bounds = [each.path_.bounds["sharp"] for each in (weighted, repeated)]
    np.testing.assert_allclose(*bounds, atol=1e-6)
    m = Marginals.from_data(X, pd.Series(y, name="y"), class_conditional=True)
    counts = RenyiSelector(class_weight={1: 3}, **how).fit_marginals(m)
    np.testing.assert_allclose(
        weighted.classifier_.z_, counts.classifier_.z_, atol=1e-9
    )


def test_balanced_classes_are_found_by_folds():
    X, y = rare()
    plain = RenyiSelector().fit(X, y)
    balanced = RenyiSelector(class_weight="balanced").fit(X, y)
    assert (balanced.predict(X) == 1)[y == 1].mean() > (plain.predict(X) == 1)[
        y == 1
    ].mean()
    assert {"v3", "v1"} <= {*balanced.features_}
    twice = RenyiSelector(class_weight="balanced").fit(X, y, np.full(len(y), 2.0))
    np.testing.assert_allclose(twice.predict_proba(X).sum(axis=1), 1)
    with pytest.raises(ValueError, match="needs the pair counts within each class"):
        twice.fit_marginals(Marginals.from_data(X, y))
    with pytest.raises(ValueError, match="selects for others: leave one of them out"):
        RenyiSelector(class_weight="balanced", max_error=0.1).fit(X, y)
