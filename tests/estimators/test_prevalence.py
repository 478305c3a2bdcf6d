"""Answers at another share of the second class, and models that are kept to rank."""

from __future__ import annotations

import json

import numpy as np
import pytest

from renyi import CrossFitClassifier, Marginals, RenyiClassifier
from renyi.datasets import load
from support.forgeries import signed


@pytest.fixture(scope="module")
def votes():
    X, y = load("votes")
    return X, y, float((y == "republican").mean())


def logit(p):
    return np.log(p) - np.log1p(-p)


@pytest.mark.parametrize("calibration", ["auto", "sigmoid", None])
@pytest.mark.parametrize("objective", ["error", "ranking"])
def test_odds_are_moved_by_their_ratio(votes, calibration, objective):
    X, y, share = votes
    clf = RenyiClassifier(calibration=calibration, objective=objective).fit(X, y)
    before, after = clf.predict_proba(X), clf.predict_proba(X, prevalence=0.01)
    inside = (before[:, 1] > 1e-9) & (before[:, 1] < 1 - 1e-9)
    moved = logit(after[inside, 1]) - logit(before[inside, 1])
    assert np.allclose(moved, logit(0.01) - logit(share))
    assert np.allclose(after.sum(axis=1), 1)
    assert np.allclose(clf.predict_proba(X, prevalence=share), before)


@pytest.mark.parametrize("calibration", ["auto", "sigmoid", None])
@pytest.mark.parametrize("share", [5e-324, 1e-6, 0.01, 0.7, 1 - 1e-9])
def test_answers_are_the_likelier_class_above_the_threshold(votes, calibration, share):
    X, y, _ = votes
    clf = RenyiClassifier(calibration=calibration).fit(X, y)
    answers = clf.predict(X, prevalence=share)
    proba = clf.predict_proba(X, prevalence=share)
    assert (answers == clf.classes_[proba.argmax(axis=1)]).all()
    above = clf.decision_function(X) - clf.threshold(share)
    clear = np.abs(above) > 1e-12
    assert (answers == clf.classes_[(above > 0).astype(int)])[clear].all()
    assert (clf.predict(X) == clf.classes_[(clf.decision_function(X) > 0) * 1]).all()


def test_rows_of_another_prevalence_are_answered_better(votes):
    """Resampled rows: the moved probabilities have the smaller log loss."""
    X, y, _ = votes
    clf = RenyiClassifier().fit(X[:300], y[:300])
    rest, truth = X[300:], (y[300:] == "republican").to_numpy()
    weights = np.where(truth, 0.02 / truth.mean(), 0.98 / (1 - truth.mean()))
    place = truth.astype(int)
    loss = [
        -np.average(
            np.log(clf.predict_proba(rest, p)[np.arange(len(rest)), place]),
            weights=weights,
        )
        for p in (None, 0.02)
    ]
    assert loss[1] < loss[0]


def test_weights_of_classes_are_what_training_saw(votes):
    """Balanced classes were trained at a half, wherever the rows come from."""
    X, y, _ = votes
    clf = RenyiClassifier(class_weight="balanced").fit(X, y)
    assert clf.threshold(0.5) == pytest.approx(0, abs=1e-12)
    assert np.allclose(clf.predict_proba(X, 0.5), clf.predict_proba(X))


def test_a_kept_model_answers_the_same(votes, tmp_path):
    X, y, _ = votes
    clf = RenyiClassifier(objective="ranking", random_state=0).fit(X, y)
    clf.save(tmp_path / "m.json")
    again = RenyiClassifier.load(tmp_path / "m.json")
    assert again.objective == "ranking"
    assert again.certificate_ == clf.certificate_
    assert (again.predict_proba(X, 0.01) == clf.predict_proba(X, 0.01)).all()
    assert again.threshold(0.01) == clf.threshold(0.01)


@pytest.mark.parametrize("objective", ["rank", 3, None, ["ranking"]])
def test_a_forged_objective_is_refused(objective, tmp_path):
    data = signed(lambda d: d["classifier"].update(objective=objective))
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match="objective"):
        RenyiClassifier.load(tmp_path / "m.json")


def test_prevalence_needs_two_classes_known_shares_and_map(votes):
    X, y, _ = votes
    three = RenyiClassifier().fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="two classes"):
        three.predict_proba(X, 0.1)
    drawn = RenyiClassifier(rule="sharp").fit(X, y)
    with pytest.raises(ValueError, match="prevalence.*sharp"):
        drawn.predict(X, 0.1)
    assert drawn.predict_proba(X, 0.1).shape == (len(y), 2)
    halves = CrossFitClassifier(RenyiClassifier(objective="ranking")).fit(X, y)
    assert halves.certificate_.auc is None
    second = halves.classes_[1]
    few = halves.classifier_.predict(X, 0.1) == second  # shares of both halves
    assert few.sum() < (halves.classifier_.predict(X, 0.5) == second).sum()


def test_blocks_rank_as_all_rows(votes):
    X, y, _ = votes
    how = {"objective": "ranking", "alpha": 0.01, "calibration": "temperature"}
    whole = RenyiClassifier(**how).fit(X, y)
    parts = RenyiClassifier(**how)
    for k in range(0, len(y), 200):
        parts.partial_fit(X[k : k + 200], y[k : k + 200], classes=whole.classes_)
    assert np.allclose(parts.decision_function(X), whole.decision_function(X))
    m = Marginals.from_data(X, y, class_conditional=True)
    counted = RenyiClassifier(objective="ranking", alpha=0.01).fit_marginals(m)
    assert np.allclose(counted.decision_function(X), whole.decision_function(X))
