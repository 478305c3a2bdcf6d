"""The methods that `renyi compare` trains: ours, baselines, and some of scikit-learn.

Those of scikit-learn see the categories that our encoder makes of the same training
rows, so that what differs is the classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from renyi.encoding.encoder import Encoder

DEFAULT = (
    *("map", "sharp", "uncalibrated", "average", "mixture", "tan"),
    *("logistic", "naive-bayes", "majority"),
)


class Settings(NamedTuple):
    """What all methods are given."""

    encoder: Encoder
    seed: int
    confidence: float


class Learner(NamedTuple):
    """What a method is, what makes it, and whether it gives probabilities."""

    about: str
    make: Callable[[Settings], Any]
    probabilities: bool = True  # whether predict_proba says how likely classes are


class OnCategories(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn on the codes that an encoder learns."""

    def __init__(self, encoder: Encoder, make: Callable[[NDArray[Any]], Any]) -> None:
        self.encoder = encoder
        self.make = make

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn the categories, then the classes."""
        self._encoder, codes = self.encoder.fit_transform(X)
        sizes = self._encoder.columns.sizes
        self._inner = self.make(sizes).fit(codes.T.astype(np.intp), y)
        self.classes_ = self._inner.classes_
        return self

    def _codes(self, X: Any) -> NDArray[np.intp]:
        return self._encoder.transform(X).T.astype(np.intp)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row."""
        return np.asarray(self._inner.predict(self._codes(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of each row."""
        return np.asarray(self._inner.predict_proba(self._codes(X)))


def _renyi(**settings: Any) -> Callable[[Settings], Any]:
    def make(how: Settings) -> Any:
        from renyi.estimators.classifier import RenyiClassifier

        return RenyiClassifier(encoder=how.encoder, random_state=how.seed, **settings)

    return make


def _crossfit(method: str) -> Callable[[Settings], Any]:
    def make(how: Settings) -> Any:
        from renyi.estimators.crossfit import CrossFitClassifier

        return CrossFitClassifier(
            _renyi()(how),
            method=method,
            confidence=how.confidence,
            random_state=how.seed,
        )

    return make


def _minimax(how: Settings) -> Any:
    from renyi.estimators.minimax import MinimaxClassifier

    return MinimaxClassifier(encoder=how.encoder, random_state=how.seed)


def _baseline(name: str) -> Callable[[Settings], Any]:
    def make(how: Settings) -> Any:
        from renyi import baselines

        return getattr(baselines, name)(encoder=how.encoder)

    return make


def _on_categories(make: Callable[[NDArray[Any]], Any]) -> Callable[[Settings], Any]:
    return lambda how: OnCategories(how.encoder, make)


@_on_categories
def _logistic(sizes: NDArray[Any]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    known = [np.arange(k) for k in sizes]
    onehot = OneHotEncoder(categories=known, handle_unknown="ignore")
    return make_pipeline(onehot, LogisticRegression(max_iter=1000))


@_on_categories
def _naive_bayes(sizes: NDArray[Any]) -> Any:
    from sklearn.naive_bayes import CategoricalNB

    return CategoricalNB(min_categories=sizes + 1)  # one for unseen labels


@_on_categories
def _majority(sizes: NDArray[Any]) -> Any:
    from sklearn.dummy import DummyClassifier

    return DummyClassifier()


LEARNERS: dict[str, Learner] = {
    "map": Learner("points; the likelier class", _renyi()),
    "renyi": Learner("points; answers drawn by the rule renyi", _renyi(rule="renyi")),
    "sharp": Learner("points; answers drawn by the rule sharp", _renyi(rule="sharp")),
    "uncalibrated": Learner("points as the paper has them", _renyi(calibration=None)),
    "order2": Learner("points of pairs of columns", _renyi(order=2)),
    "average": Learner("mean of two halves' points, certified", _crossfit("average")),
    "mixture": Learner("one of two halves' models, drawn", _crossfit("mixture")),
    "minimax": Learner("smallest worst error", _minimax, False),
    "dcc": Learner(
        "discrete Chebyshev classifier", _baseline("DiscreteChebyshevClassifier"), False
    ),
    "mpm": Learner(
        "minimax probability machine", _baseline("MinimaxProbabilityMachine"), False
    ),
    "tan": Learner("tree-augmented Bayes", _baseline("TreeAugmentedNaiveBayes")),
    "logistic": Learner("logistic regression, C = 1 (scikit-learn)", _logistic),
    "naive-bayes": Learner("categorical naive Bayes (scikit-learn)", _naive_bayes),
    "majority": Learner("always the most frequent class", _majority),
}
