"""Logistic regression as the objective: a scorecard of log-odds, with its guarantee."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi
from renyi import CrossFitClassifier, Marginals, RenyiClassifier, certify, verify
from renyi.robust.worst import worst_case

PLAIN = {"handle_unknown": "ignore"}


def table(n, K, d=5, m=3, seed=0):
    """Rows whose classes have logits that add up over the columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, m, (n, d))
    g = sum(1.5 * rng.normal(size=(m, K))[X[:, j]] for j in range(d))
    y = (g + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    frame = pd.DataFrame(X.astype(str), columns=[f"q{j}" for j in range(d)])
    return frame, pd.Series(np.array([*"abcdef"])[y], name="class")


def peer(X, y, C, weights=None, class_weight=None):
    """One-hot logistic regression."""
    model = LogisticRegression(
        C=C, tol=1e-11, max_iter=10_000, solver="newton-cg", class_weight=class_weight
    )
    chain = make_pipeline(OneHotEncoder(**PLAIN), model)
    return chain.fit(X, y, logisticregression__sample_weight=weights)


def logistic(**settings):
    """A classifier of log-odds."""
    return RenyiClassifier(objective="logistic", **settings)


@pytest.mark.parametrize(("K", "n"), [(2, 300), (3, 300), (5, 400), (2, 30), (4, 40)])
def test_probabilities_and_guarantee_are_those_of_logistic_regression(K, n):
    X, y = table(n, K, 4 if n > 100 else 9, 3 if n > 100 else 8)
    clf = logistic().fit(X, y)
    assert (clf.marginals_ is None) == (n < 100)
    model = peer(X, y, 1 / (n * clf.alpha_))
    np.testing.assert_allclose(clf.predict_proba(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(clf.predict(X), model.predict(X))
    theirs = renyi.Scorecard.from_model(model)
    m = Marginals.from_data(X, y, encoder=theirs.encoder)
    c = clf.certificate_
    bound = certify(theirs, m).bounds
    assert c.bounds == pytest.approx(bound, abs=1e-5)
    assert c.gamma is None
    assert "scale-free" in c.warning_codes
    assert 0 <= c.loo_error <= 1
    assert clf.explain(X).shape[0] == n


@pytest.mark.parametrize("K", [2, 3])
def test_weights_and_class_weights(K):
    X, y = table(120, K, 4, 3)
    times = np.random.default_rng(0).integers(1, 4, 120)
    clf = logistic().fit(X, y, times)
    index = np.repeat(np.arange(120), times)
    repeated = logistic().fit(X.iloc[index], y.iloc[index])
    np.testing.assert_allclose(clf.z_, repeated.z_, atol=1e-7)
    assert clf.certificate_.loo_error == pytest.approx(repeated.certificate_.loo_error)
    balanced = logistic(alpha=0.01, class_weight="balanced").fit(X, y)
    model = peer(X, y, 1 / (120 * 0.01), class_weight="balanced")
    np.testing.assert_allclose(
        balanced.predict_proba(X), model.predict_proba(X), atol=1e-6
    )
    assert "class-weight" in balanced.certificate_.warning_codes


def test_pairs_of_columns():
    """A class that is whether two columns are equal: pairs know it, columns do not."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (800, 4)), columns=[*"abcd"]).astype(str)
    y = pd.Series(np.where(X["a"] == X["b"], "same", "other"), name="y")
    test = slice(400, 800)
    errors = {}
    for name, settings in (
        ("columns", {}),
        ("order 2", {"order": 2}),
        ("named", {"interactions": [("a", "b")]}),
        ("one", {"interactions": 1}),
        ("auto", {"interactions": "auto"}),
    ):
        clf = logistic(**settings).fit(X[:400], y[:400])
        errors[name] = (clf.predict(X[test]) != y[test]).mean()
        assert clf.scorecard_.calibration.kind == "log-odds"
        assert clf.certificate_.loo_error == pytest.approx(errors[name], abs=0.07)
    assert errors["columns"] > 0.2
    assert max(error for name, error in errors.items() if name != "columns") == 0
    assert clf.encoder_.interactions == (("a", "b"),)
    assert "folds" in clf.certificate_.warning_codes


@pytest.mark.parametrize("K", [2, 3])
def test_the_error_to_expect_is_that_of_other_rows(K):
    gaps = []
    for seed in range(8):
        X, y = table(6000, K, 6, 4, seed)
        clf = logistic().fit(X[:200], y[:200])
        true = (clf.predict(X[200:]) != y[200:]).mean()
        loss = log_loss(y[200:], clf.predict_proba(X[200:]))
        left = clf.fit_.left_out_details["log_loss"]
        gaps.append((clf.certificate_.loo_error - true, left / loss - 1))
    error, loss = np.abs(np.mean(gaps, axis=0))
    assert error < 0.015
    assert loss < 0.1


@pytest.mark.parametrize("K", [2, 3])
def test_files_blocks_and_cards_are_those_of_any_model(K, tmp_path):
    X, y = table(300, K)
    clf = logistic().fit(X, y)
    clf.save(tmp_path / "m.json")
    odd = pd.concat([X, X[:2].assign(q0="never seen")])
    for other in (
        pickle.loads(pickle.dumps(clf)),
        RenyiClassifier.load(tmp_path / "m.json"),
    ):
        np.testing.assert_array_equal(other.predict_proba(odd), clf.predict_proba(odd))
        assert other.objective == "logistic"
        assert other.certificate_.bounds == clf.certificate_.bounds
        assert other.certificate_.loo_error == clf.certificate_.loo_error
    clf.marginals_.save(tmp_path / "m.renyi")
    code, why, _ = verify.answer(str(tmp_path / "m.renyi"), str(tmp_path / "m.json"))
    assert (code, why) == (0, "")
    blocks = logistic()
    for part in (slice(0, 100), slice(100, 300)):
        blocks.partial_fit(X[part], y[part], [*"abc"[:K]])
    np.testing.assert_allclose(blocks.predict_proba(X), clf.predict_proba(X), atol=1e-9)
    if K == 2:
        card = clf.scorecard_.rounded(30, marginals=clf.marginals_)
        assert (card.predict(X) == clf.predict(X)).mean() > 0.97
    page = clf.report(X=X, y=y)
    assert page.to_dict()["heldout"]["confusion"]
    worst = worst_case(clf, clf.marginals_, method="lp")
    assert worst.upper <= clf.certificate_.bounds["map"] + 1e-9
    assert (clf.predict(X) != y).mean() <= worst.upper + 1e-9


@pytest.mark.parametrize("K", [2, 3])
def test_halves_certify_each_other(K):
    X, y = table(2000, K)
    test = slice(1000, 2000)
    whole = logistic().fit(X[:1000], y[:1000])
    error = (whole.predict(X[test]) != y[test]).mean()
    for method in ("average", "mixture"):
        safe = CrossFitClassifier(logistic(), method=method).fit(X[:1000], y[:1000])
        own = (safe.predict(X[test]) != y[test]).mean()
        assert own < error + 0.03
        c = safe.certificate_
        assert own < c.sampled_error <= 1
        assert error <= c.bounds["map"] < 1
        p = safe.predict_proba(X[test])
        loss = log_loss(y[test], whole.predict_proba(X[test]))
        assert log_loss(y[test], p) < 1.08 * loss


def test_what_log_odds_cannot_do_is_said():
    X, y = table(60, 2)
    for settings, words in (
        ({"rule": "sharp"}, "rule='sharp' needs scores that estimate probabilities"),
        ({"calibration": "sigmoid"}, "leave calibration='sigmoid' out"),
        ({"calibration": None}, "leave calibration='none' out"),
        ({"alpha": 0}, "no solution with alpha=0"),
    ):
        with pytest.raises(ValueError, match=words):
            logistic(**settings).fit(X, y)
    m = Marginals.from_data(X, y)
    with pytest.raises(ValueError, match=r"objective='logistic' needs the rows"):
        logistic().fit_marginals(m)
    halves = [Marginals.from_data(X[k::2], y[k::2]) for k in (0, 1)]
    with pytest.raises(ValueError, match="needs the rows"):
        CrossFitClassifier(logistic()).fit_halves(*halves)
