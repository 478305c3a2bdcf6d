"""RenyiClassifier among scikit-learn's tools and other libraries' frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from renyi import RenyiClassifier, baselines
from support.engines import polars as pl
from support.manners import all_checks, passes_separately

# The one check that a rule which answers at random cannot pass.
TRAIN = "check_classifiers_train"
RANDOM = "predict draws its answer, so it is not always the argmax of predict_proba"

ESTIMATORS = [
    RenyiClassifier(),
    RenyiClassifier(rule="sharp", random_state=0),
    RenyiClassifier(rule="renyi", random_state=0),
    RenyiClassifier(alpha=0.1, fit_intercept=False),
    RenyiClassifier(class_weight="balanced"),
]


def draws(clf, name):
    return RANDOM if name == TRAIN and clf.rule != "map" else None


@pytest.mark.parametrize(("estimator", "check"), all_checks(ESTIMATORS, draws))
def test_estimator_checks(estimator, check):
    check(estimator)


def test_array_api_input():
    # In one process for all, which takes seconds to start.
    names = [f"renyi.baselines.{name}" for name in baselines.__all__]
    assert passes_separately("renyi.RenyiClassifier", "renyi.MinimaxClassifier", *names)


# ---- tools


def test_pipeline_passes_weights_on(votes):
    X, y = votes
    weights = np.arange(len(y)) % 3
    pipe = make_pipeline(FunctionTransformer(), RenyiClassifier(alpha=0.1))
    pipe.fit(X, y, renyiclassifier__sample_weight=weights)
    alone = RenyiClassifier(alpha=0.1).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(pipe[-1].z_, alone.z_)
    np.testing.assert_array_equal(pipe.predict(X), alone.predict(X))


def test_metadata_routing(votes):
    X, y = votes
    weights = np.arange(len(y)) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        clf = RenyiClassifier(alpha=0.1).set_fit_request(sample_weight=True)
        pipe = Pipeline([("same", FunctionTransformer()), ("clf", clf)])
        pipe.fit(X, y, sample_weight=weights)
    alone = RenyiClassifier(alpha=0.1).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(pipe[-1].z_, alone.z_)


def test_pipeline_of_codes(votes):
    X, y = votes
    codes = make_pipeline(
        OrdinalEncoder(), SelectKBest(k=5), RenyiClassifier()
    ).fit(X.fillna("?"), y)  # fmt: skip
    assert codes.score(X.fillna("?"), y) > 0.9
    assert codes[-1].n_features_in_ == 5


def test_grid_search_over_alpha_and_rule(votes):
    X, y = votes
    grid = {"alpha": [1e-3, 0.1, "auto"], "rule": ["map", "sharp"], "order": [1]}
    search = GridSearchCV(RenyiClassifier(random_state=0), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.93
    assert len(search.cv_results_["params"]) == 6
    again = RenyiClassifier(random_state=0, **search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.best_estimator_.z_, again.z_)


def test_cross_validation_and_scorers(votes):
    X, y = votes
    scores = cross_val_score(RenyiClassifier(), X, y, cv=5)
    assert scores.mean() > 0.93
    auc = cross_val_score(RenyiClassifier(), X, y, cv=3, scoring="roc_auc")
    assert auc.min() > 0.97
    side = (y == "republican").astype(int)
    brier = cross_val_score(RenyiClassifier(), X, side, cv=3, scoring="neg_brier_score")
    assert brier.min() > -0.06
    held_out = cross_val_predict(RenyiClassifier(), X, y, cv=3)
    assert (held_out == y).mean() > 0.93


def test_parallel_fits_are_the_same(votes):
    X, y = votes
    clf = RenyiClassifier(rule="renyi", random_state=0)
    one = clf.fit(X, y).predict(X)
    tasks = (delayed(fit_and_predict)(clone(clf), X, y) for _ in range(2))
    for answer in Parallel(n_jobs=2, prefer="threads")(tasks):
        np.testing.assert_array_equal(answer, one)


def fit_and_predict(clf, X, y):
    return clf.fit(X, y).predict(X)


# ---- frames


def test_pandas_polars_arrow_and_arrays_agree(votes):
    X, y = votes
    clf = RenyiClassifier().fit(X, y)
    assert clf.feature_names_in_.tolist() == list(X.columns)
    table = pl.from_pandas(X)
    other = RenyiClassifier().fit(table, pl.Series("party", y.tolist()))
    assert other.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(other.z_, clf.z_)
    np.testing.assert_array_equal(other.predict(table), clf.predict(X))
    np.testing.assert_array_equal(clf.predict_proba(table), clf.predict_proba(X))
    array = RenyiClassifier().fit(X.to_numpy(), y.to_numpy())
    assert not hasattr(array, "feature_names_in_")
    np.testing.assert_array_equal(array.z_, clf.z_)
    categorical = RenyiClassifier().fit(X.astype("category"), y.astype("category"))
    np.testing.assert_array_equal(categorical.z_, clf.z_)
    np.testing.assert_array_equal(categorical.predict(X), clf.predict(X))


def test_polars_numbers_and_weights():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.integers(0, 3, 90)})
    y = (frame["a"] + frame["b"] > 1).to_numpy()
    weights = rng.integers(0, 3, 90)
    clf = RenyiClassifier().fit(frame, y, sample_weight=weights)
    table = pl.DataFrame({name: frame[name].to_numpy() for name in frame})
    other = RenyiClassifier().fit(table, y, sample_weight=pl.Series(weights))
    np.testing.assert_array_equal(other.z_, clf.z_)
    np.testing.assert_array_equal(other.predict(table), clf.predict(frame))
    why = other.explain(table[:4])
    np.testing.assert_allclose(why.sum(axis=1), clf.decision_function(frame[:4]))


def test_set_output_is_of_no_concern(votes):
    """A classifier has no transform, hence nothing for set_output to set."""
    X, y = votes
    with sklearn.config_context(transform_output="pandas"):
        proba = RenyiClassifier().fit(X, y).predict_proba(X)
    assert isinstance(proba, np.ndarray)
