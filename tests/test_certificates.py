"""Certificates: honest texts, any model on any marginals, plain and safe forms."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from renyi import Certificate, Encoder, Marginals, RenyiClassifier, certify
from renyi import classifier as classifier_module
from renyi.datasets import load


@pytest.fixture(scope="module")
def votes():
    X, y = load("votes")
    return X, y, RenyiClassifier().fit(X, y)


@pytest.fixture(scope="module")
def promoters():
    X, y = load("promoters")
    return X, y, RenyiClassifier().fit(X, y)


def over_rows(clf, X, y):
    """Gamma and the scaled bound of map, row by row."""
    scores = clf.decision_function(X)
    K = len(clf.classes_)
    t = np.stack([-scores, scores], axis=1) if K == 2 else scores
    t = t + 1 / K
    own = np.eye(K)[[clf.classes_.tolist().index(label) for label in y]]
    gamma = ((t - own) ** 2).sum(axis=1).mean() / 2
    off = t - t.mean(axis=1, keepdims=True)
    lead, spread = (off * own).sum(axis=1).mean(), (off**2).sum(axis=1).mean()
    return gamma, 2 * (1 - 1 / K - max(0, lead) ** 2 / spread)


# ---- honesty


def test_promoters_lead_with_leave_one_out(promoters):
    """More categories than rows: the bound alone would be a false promise."""
    c = promoters[2].certificate_
    assert c.warnings
    assert c.doubtful
    assert "categories and only 106 rows" in c.warnings[0]
    text = str(c)
    assert text.startswith("Leave-one-out estimate for new rows: ")
    assert f"{100 * c.loo_error:.1f} % errors" in text.splitlines()[0]
    assert text.index("Warning: ") < text.index("errs at most")
    assert c.loo_risk > c.gamma


def test_votes_need_no_warning(votes):
    c = votes[2].certificate_
    assert c.warnings == ()
    assert not c.doubtful
    assert str(c).startswith("On every population with these marginals (435 rows")
    assert "Leave-one-out estimate" in str(c)


def test_optimism_alone_is_a_reason_to_warn(votes):
    """A risk on new rows of 1.5 gamma and more, however many rows there are."""
    X, y, _ = votes
    noise = np.random.default_rng(0).integers(0, 9, (435, 16)).astype(str)
    wide = pd.concat(
        [X, pd.DataFrame(noise, columns=[f"n{j}" for j in range(16)])], axis=1
    )
    c = RenyiClassifier(alpha=1e-6).fit(wide, y).certificate_
    assert c.n > 2 * c.n_indicators
    assert c.loo_risk > 1.5 * c.gamma
    assert "times gamma" in c.warnings[0]
    assert str(c).startswith("Leave-one-out estimate")


def test_marginals_alone_with_more_categories_than_rows(promoters):
    X, y, clf = promoters
    m = Marginals.from_data(X, y)
    c = RenyiClassifier(alpha=clf.alpha_).fit_marginals(m).certificate_
    assert c.warnings
    assert c.loo_error is None
    assert c.gamma == pytest.approx(clf.certificate_.gamma, abs=1e-10)
    assert not str(c).startswith("On every population")
    assert "errs at most" not in str(c).splitlines()[0]


def test_no_degree_of_freedom_left_means_no_estimate():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (12, 30)), np.arange(12) % 2
    m = Marginals.from_data(X, y)
    c = RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_
    assert c.gamma < 1e-9
    assert c.loo_risk is None
    assert str(c).startswith("No estimate for new rows")


def test_random_labels_promise_nothing():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 3, (3000, 3)), rng.integers(0, 3, 3000)
    clf = RenyiClassifier().fit(X, y)
    c = clf.certificate_
    assert c.bounds["map"] == 1.0
    assert 0.6 < c.bounds["sharp"] < 2 / 3 + 1e-9
    huge = replace(clf.scorecard_, z=100 * clf.scorecard_.z + 7)
    assert set(certify(huge, clf.marginals_).bounds.values()) == {1.0}


# ---- lazy and frozen


def test_certificate_is_computed_when_asked_for(votes, monkeypatch):
    X, y, _ = votes
    calls = []
    real = classifier_module.certificate

    def counted(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(classifier_module, "certificate", counted)
    clf = RenyiClassifier(alpha=0.1).fit(X, y)
    clf.predict(X)
    assert calls == []
    first = clf.certificate_
    assert clf.certificate_ is first
    assert len(calls) == 1
    clf.fit(X[:100], y[:100])
    assert clf.certificate_.n == 100


def test_certificate_is_frozen(votes):
    c = votes[2].certificate_
    with pytest.raises(FrozenInstanceError):
        c.gamma = 0.0
    assert (c.basis, c.confidence, c.order, c.separable) == ("marginals", None, 1, None)


# ---- any model on any marginals


def test_certificate_of_the_training_rows(votes, promoters):
    for X, y, clf in (votes, promoters):
        gamma, scaled = over_rows(clf, X, y)
        c = clf.certificate_
        assert c.gamma == pytest.approx(gamma, abs=1e-12)
        assert c.bounds["map"] == pytest.approx(min(scaled, 4 * gamma), abs=1e-10)
        by_counts = certify(clf, Marginals.from_data(X, y))
        assert by_counts.gamma == pytest.approx(gamma, abs=1e-12)
        assert by_counts.bounds == pytest.approx(c.bounds, abs=1e-10)


@pytest.mark.parametrize("K", [2, 3])
def test_other_rows_with_labels_the_model_never_saw(K):
    rng = np.random.default_rng(K)
    X = pd.DataFrame(rng.choice(list("abcde"), (300, 3)), columns=["p", "q", "r"])
    y = (X["p"].map(ord) + rng.integers(0, 2, 300)).rename("answer") % K
    known = ~X.isin(["e"]).any(axis=1)
    clf = RenyiClassifier().fit(X[known], y[known])
    m = Marginals.from_data(X, y)
    c = certify(clf, m)
    gamma, scaled = over_rows(clf, X, y)
    assert c.gamma == pytest.approx(gamma, abs=1e-12)
    assert c.bounds["map"] == pytest.approx(min(1, scaled, 4 * gamma), abs=1e-10)
    assert c.n == 300
    assert certify(clf.scorecard_, m).gamma == pytest.approx(gamma, abs=1e-12)


def test_rows_of_fewer_classes_and_columns_in_another_order():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.choice(list("abc"), (200, 3)), columns=["p", "q", "r"])
    y = (X["p"].map(ord) + rng.integers(0, 2, 200)).rename("answer") % 3
    clf = RenyiClassifier().fit(X, y)
    some = y != 0
    m = Marginals.from_data(X.loc[some, ["r", "p", "q"]].assign(extra="1"), y[some])
    gamma, _ = over_rows(clf, X[some], y[some])
    assert certify(clf, m).gamma == pytest.approx(gamma, abs=1e-12)


def test_numbers_need_the_same_bins():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 10, 200), "sex": list("mf") * 100})
    y = (X["age"] > 45).rename("ill")
    clf = RenyiClassifier().fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="'age' is binned differently"):
        certify(clf, Marginals.from_data(X[100:], y[100:]))
    m = Marginals.from_data(X[100:], y[100:], encoder=clf.encoder_)
    assert certify(clf, m).gamma == pytest.approx(over_rows(clf, X[100:], y[100:])[0])
    words = X.assign(age="young")
    words.loc[::2, "age"] = "old"
    with pytest.raises(ValueError, match="'age' is binned differently"):
        certify(clf, Marginals.from_data(words, y, encoder=Encoder()))


def test_what_does_not_fit_is_named(votes):
    X, y, clf = votes
    with pytest.raises(ValueError, match="no column 'crime'"):
        certify(clf, Marginals.from_data(X.drop(columns="crime"), y))
    with pytest.raises(
        ValueError, match="class 'green', which the model does not know"
    ):
        certify(clf, Marginals.from_data(X, y.where(y.index > 3, "green")))
    with pytest.raises(TypeError, match="the first is a Marginals"):
        certify(Marginals.from_data(X, y), clf)
    with pytest.raises(ValueError, match="'magic'"):
        certify(clf, Marginals.from_data(X, y), level="magic")


def test_absent_pairs_are_named():
    X, y = load("votes")
    tables = [pd.crosstab(X[name].fillna("?"), y) for name in ("crime", "immigration")]
    m = Marginals.from_tables(tables, target="party")
    clf = RenyiClassifier().fit(X[["crime", "immigration"]], y)
    with pytest.raises(ValueError, match="'crime' and 'immigration'"):
        certify(clf, m)


# ---- copies and plain forms


def test_pickle_joblib_and_clone(votes, tmp_path):
    X, _, clf = votes
    again = pickle.loads(pickle.dumps(clf))
    assert again.certificate_ == clf.certificate_
    joblib.dump(clf, tmp_path / "clf.joblib")
    other = joblib.load(tmp_path / "clf.joblib")
    np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))
    fresh = clone(clf)
    assert not hasattr(fresh, "scorecard_")
    assert fresh.get_params() == clf.get_params()


def test_plain_form_comes_back(votes, promoters):
    for c in (votes[2].certificate_, promoters[2].certificate_):
        text = json.dumps(c.to_dict(), allow_nan=False)
        assert Certificate.from_dict(json.loads(text)) == c


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": "0.1"},
        {"gamma": True},
        {"bounds": {"map": 0.1}},
        {"bounds": [0.1, 0.1, 0.1]},
        {"bounds": {"map": "x", "renyi": 0.1, "sharp": 0.1}},
        {"majority": ["democrat"]},
        {"majority": [["democrat"], 0.4]},
        {"one_feature": ["crime", None]},
        {"one_feature": [7, 0.1]},
        {"loo_risk": "low"},
        {"rule": "bayes"},
        {"n_indicators": 4.5},
        {"warnings": "none"},
        {"warnings": [3]},
        {"separable": 1},
        {"more": 1},
    ],
)
def test_strange_plain_forms_are_refused(votes, change):
    plain = json.loads(json.dumps(votes[2].certificate_.to_dict()))
    with pytest.raises(ValueError, match="its certificate"):
        Certificate.from_dict({**plain, **change})


def test_incomplete_plain_forms_are_refused(votes):
    plain = votes[2].certificate_.to_dict()
    del plain["gamma"]
    with pytest.raises(ValueError, match="lacks the field 'gamma'"):
        Certificate.from_dict(plain)
    with pytest.raises(ValueError, match="is not an object"):
        Certificate.from_dict([1, 2])
