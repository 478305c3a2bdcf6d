"""The methods that `renyi compare` trains: ours, baselines, and some of scikit-learn.

Those of scikit-learn see the categories that our encoder makes of the same training
rows, so that what differs is the classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from renyi import baselines
from renyi.encoding.encoder import Encoder
from renyi.estimators.classifier import RenyiClassifier
from renyi.estimators.kernel import KernelRenyiClassifier
from renyi.estimators.minimax import MinimaxClassifier

Rows: TypeAlias = pa.Table | pd.DataFrame | NDArray[Any]

ORDER2 = "order2"
EVERY_ORDER = "every-order"
MAJORITY = "majority"
DEFAULT = (
    *("map", "sharp", "uncalibrated", ORDER2, EVERY_ORDER, "tan"),
    *("logistic", "naive-bayes", MAJORITY),
)


class Classifier(Protocol):
    """A model to train and evaluate; some also have a certificate or a guarantee."""

    classes_: NDArray[Any]

    def fit(self, X: Rows, y: ArrayLike) -> object:
        """Learn the classes."""

    def predict(self, X: Rows) -> NDArray[Any]:
        """Class of each row."""

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """Class probabilities of each row."""


class Settings(NamedTuple):
    """What all methods are given."""

    encoder: Encoder
    seed: int


class Method(NamedTuple):
    """Something to compare: trained on some of the rows, or trained already."""

    name: str
    about: str
    estimator: Classifier
    probabilities: bool = True  # whether predict_proba says how likely classes are
    trained: bool = False
    X: Rows | None = None  # the rows as a trained model takes them


class OnCategories(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn on the codes that an encoder learns."""

    def __init__(
        self, encoder: Encoder, make: Callable[[NDArray[np.int64]], BaseEstimator]
    ) -> None:
        self.encoder = encoder
        self.make = make

    def fit(self, X: Rows, y: ArrayLike) -> Self:
        """Learn the categories, then the classes."""
        self._encoder, codes = self.encoder.fit_transform(X)
        sizes = self._encoder.columns.sizes
        self._inner = self.make(sizes).fit(codes.T.astype(np.intp), y)
        self.classes_ = self._inner.classes_
        return self

    def _codes(self, X: Rows) -> NDArray[np.intp]:
        return self._encoder.transform(X).T.astype(np.intp)

    def predict(self, X: Rows) -> NDArray[Any]:
        """Class of each row."""
        return np.asarray(self._inner.predict(self._codes(X)))

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """Class probabilities of each row."""
        return np.asarray(self._inner.predict_proba(self._codes(X)))


def _logistic(sizes: NDArray[np.int64]) -> BaseEstimator:
    known = [np.arange(k) for k in sizes]
    onehot = OneHotEncoder(categories=known, handle_unknown="ignore")
    return make_pipeline(onehot, LogisticRegression(max_iter=1000))


def _naive_bayes(sizes: NDArray[np.int64]) -> BaseEstimator:
    return CategoricalNB(min_categories=sizes + 1)  # one for unseen labels


def _majority(sizes: NDArray[np.int64]) -> BaseEstimator:
    return DummyClassifier()


def every_method(how: Settings) -> dict[str, Method]:
    """Return all methods by their names."""
    encoder = how.encoder
    seed = how.seed
    points = partial(RenyiClassifier, encoder=encoder, random_state=seed)
    every = KernelRenyiClassifier(encoder=encoder, random_state=seed)
    minimax = MinimaxClassifier(encoder=encoder, random_state=seed)
    dcc = baselines.DiscreteChebyshevClassifier(encoder=encoder)
    mpm = baselines.MinimaxProbabilityMachine(encoder=encoder)
    tan = baselines.TreeAugmentedNaiveBayes(encoder=encoder)
    logistic = OnCategories(encoder, _logistic)
    bayes = OnCategories(encoder, _naive_bayes)
    majority = OnCategories(encoder, _majority)
    drawn = "points; answers drawn by the rule"
    methods = [
        Method("map", "points (order 1); the likelier class", points()),
        Method("renyi", f"{drawn} renyi", points(rule="renyi")),
        Method("sharp", f"{drawn} sharp", points(rule="sharp")),
        Method(
            "uncalibrated", "points as the paper has them", points(calibration=None)
        ),
        Method(ORDER2, "points of pairs of columns", points(order=2)),
        Method(EVERY_ORDER, "columns, pairs, triples and more at once", every),
        Method("minimax", "smallest guarantee of any rule", minimax, False),
        Method("dcc", "discrete Chebyshev classifier", dcc, False),
        Method("mpm", "minimax probability machine", mpm, False),
        Method("tan", "tree-augmented Bayes", tan),
        Method("logistic", "logistic regression, C = 1 (scikit-learn)", logistic),
        Method("naive-bayes", "categorical naive Bayes (scikit-learn)", bayes),
        Method(MAJORITY, "always the most frequent class", majority),
    ]
    return {method.name: method for method in methods}


def named_methods(names: Iterable[str], known: Mapping[str, Method]) -> list[Method]:
    """Return the methods of these names; an unknown one is an error."""
    for name in names:
        if name not in known:
            raise ValueError(f"Unknown method {name!r}: choose from {[*known]}.")
    return [known[name] for name in dict.fromkeys(names)]
