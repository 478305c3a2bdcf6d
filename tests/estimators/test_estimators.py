"""CountsClassifier: a small classifier built on it, rows and marginals alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import OrdinalEncoder

from renyi import Encoder, Marginals
from renyi.estimators.classifier import CountsClassifier
from renyi.marginals.consistency import class_pairs
from support.manners import all_checks


class NaiveBayes(CountsClassifier):
    """Naive Bayes from the counts of each feature and the class."""

    def __init__(self, smoothing: float = 1.0, inner: bool = False) -> None:
        self.smoothing = smoothing
        self.inner = inner

    def _check_parameters(self) -> None:
        if self.smoothing <= 0:
            raise ValueError("smoothing must be positive.")

    def _class_pairs_reason(self) -> str | None:
        return "inner=True" if self.inner else None

    def _train(self, m: Marginals) -> None:
        self.tables_ = []
        for name in m.feature_names:
            counts = m.block(name, m.target).to_numpy() + self.smoothing
            logs = np.log(counts / counts.sum(axis=0))
            self.tables_.append(np.vstack([logs, 0 * logs[:1]]))  # unseen: no evidence
        self.priors_ = np.log(m.class_probabilities)

    def predict(self, X: Any) -> np.ndarray:
        codes = self._codes(X)
        parts = zip(self.tables_, codes, strict=True)
        return self.classes_[(self.priors_ + sum(t[r] for t, r in parts)).argmax(1)]


@pytest.mark.parametrize(("estimator", "check"), all_checks([NaiveBayes()]))
def test_a_classifier_of_few_lines_passes_the_checks(estimator, check) -> None:
    check(estimator)


def test_it_learns_what_a_peer_learns(votes) -> None:
    X, y = votes
    clf = NaiveBayes().fit(X, y)
    codes = OrdinalEncoder().fit_transform(X.fillna("?"))
    np.testing.assert_array_equal(
        clf.predict(X), CategoricalNB().fit(codes, y).predict(codes)
    )


def test_rows_and_marginals_take_the_same_road(votes) -> None:
    X, y = votes
    clf, other = NaiveBayes().fit(X, y), NaiveBayes()
    other.fit_marginals(Marginals.from_data(X, y))
    assert clf.marginals_ == other.marginals_
    assert clf.encoder_ == other.encoder_
    assert other.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(clf.predict(X), other.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        other.predict(X[X.columns[::-1]])
    # Columns of an array have no names, and those of before are forgotten.
    other.fit_marginals(Marginals.from_data(X.to_numpy(), y.to_numpy()))
    assert not hasattr(other, "feature_names_in_")
    assert other.n_features_in_ == X.shape[1]


def test_pairs_within_classes_are_counted_when_needed(votes) -> None:
    X, y = votes
    clf = NaiveBayes(inner=True).fit(X, y)
    assert clf.marginals_.class_counts is not None
    assert NaiveBayes().fit(X, y).marginals_.class_counts is None
    with pytest.raises(ValueError, match="^inner=True needs .* within each class"):
        clone(clf).fit_marginals(Marginals.from_data(X, y))
    m = Marginals.from_data(X, y, class_conditional=True)
    assert class_pairs(m, "A tree") is m.class_counts
    assert clone(clf).fit_marginals(m).marginals_ is m


def test_a_failed_fit_leaves_no_model(votes) -> None:
    X, y = votes
    clf = NaiveBayes(smoothing=0)
    with pytest.raises(ValueError, match="smoothing must be positive"):
        clf.fit(X, y)
    with pytest.raises(NotFittedError):
        clf.predict(X)
    with pytest.raises(ValueError, match="NaiveBayes requires y"):
        NaiveBayes().fit(X, None)
    with pytest.raises(ValueError, match="No usable column"):
        NaiveBayes().fit(X.assign(**dict.fromkeys(X, "n")), y)
    with pytest.raises(ValueError, match="only one class"):
        NaiveBayes().fit(X, ["a"] * len(y))


def test_marginals_without_classes_are_refused(votes) -> None:
    X, y = votes
    m = Marginals.from_data(X, y).with_target("crime")  # missing in some rows
    with pytest.raises(ValueError, match="'crime' is missing"):
        NaiveBayes().fit_marginals(m)


def test_rows_of_weight_zero_do_not_exist(votes) -> None:
    X, y = votes
    weights = np.arange(len(y)) % 3
    clf = NaiveBayes().fit(X, y, sample_weight=weights)
    kept = weights > 0
    same = NaiveBayes().fit(X[kept], y[kept], sample_weight=weights[kept])
    assert clf.marginals_ == same.marginals_
    assert clf.encoder_.columns == Encoder().fit(X[kept]).columns
