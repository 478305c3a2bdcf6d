"""CrossFitClassifier: a certificate for the population, from the training rows.

Two classifiers are trained, each on a random half of the rows, its bins, rare labels
and penalty included, and judged on the other half. What is deployed is the scorecard of
their mean scores, or a fair coin that says which of the two answers
(`renyi.certificates.heldout` has the proofs).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from renyi.certificates.record import Certificate
from renyi.crossfitting import (
    WEIGHTED,
    CrossFit,
    CrossFitSettings,
    coins,
    cross_fit_counts,
    cross_fit_table,
)
from renyi.estimators.classifier import (
    RenyiClassifier,
    checked_rows,
    chosen_encoder,
    classifier_of,
    settings_of,
    with_welcome_input,
)
from renyi.fitting import Fit, Seed
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard

if TYPE_CHECKING:
    import os

    import pandas as pd

Floats = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])


def _is_one(model: CrossFitClassifier) -> bool:
    """Whether the model is one scorecard; else an error says so."""
    if not model._one:
        raise AttributeError(
            "A mixture of two scorecards is not a scorecard: use method='average', or "
            "the two classifiers in halves_."
        )
    return True


_of_one: Callable[[Method], Method] = available_if(_is_one)


class CrossFitClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier whose error on the population is certified by its training rows.

    The rows are split at random; a classifier is trained on each half, all that is
    learned from rows included, and judged on the other half.

    Parameters
    ----------
    estimator : RenyiClassifier, optional
        What is trained on each half; ``RenyiClassifier()`` by default.
    method : {"average", "mixture"}, default="average"
        "average" deploys one scorecard, of the mean scores of the two. "mixture"
        answers by one of the two, drawn by a fair coin per row: the bound on the
        sampled population is half as large for the rule map, and the answer is random
        where the two disagree, on a few rows in a hundred. The bounds on every
        population with the pairs of the one sampled are the same.
    confidence : float, default=0.95
        Confidence of each bound.
    random_state : int, RandomState instance or None, default=0
        Seed of the split, and of the coins of a mixture. It has to be fixed beforehand:
        the best of several seeds is no certificate. With an integer the coin of a row
        is the same whenever it is asked for, and the bound is on the error averaged
        over the coins. Otherwise every call tosses them anew, so that `predict` and
        `predict_proba` of a mixture may speak of different classifiers. The draws of
        the rules renyi and sharp are those of the estimator's own `random_state`.

    Attributes
    ----------
    certificate_ : Certificate
        Its `bounds` hold on every population with the pairs of the one that the rows
        were drawn from, its `sampled_error` on that one; see `Certificate`.
    halves_ : tuple of two RenyiClassifier
        The classifiers of the halves.
    classifier_ : RenyiClassifier
        With "average", the deployed classifier, with the certificate.
    scorecard_ : Scorecard
        With "average", its points.
    classes_, n_features_in_, feature_names_in_
        The classes, number and names of the columns.

    Notes
    -----
    The rows must be independent of each other, and come without weights.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> safe = renyi.CrossFitClassifier(method="mixture").fit(X, y)
    >>> print(f"{safe.certificate_.sampled_error:.3f}")
    0.089
    """

    halves_: tuple[RenyiClassifier, ...]
    classifier_: RenyiClassifier

    def __init__(
        self,
        estimator: RenyiClassifier | None = None,
        method: str = "average",
        confidence: float = 0.95,
        random_state: Seed = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.confidence = confidence
        self.random_state = random_state

    # ---- training

    def fit(self, X: Any, y: Any, **weights: Any) -> Self:
        """Train on rows, and certify by them.

        Parameters
        ----------
        X : frame or array of shape (n, d)
            Strings, integers, booleans, categoricals; floats are binned.
        y : sequence of n labels
            The classes.
        **weights
            A `sample_weight` is refused: nothing is proven of weighted rows.
        """
        if weights.pop("sample_weight", None) is not None:
            raise ValueError(WEIGHTED)
        if weights:
            raise TypeError(f"fit() got an unexpected argument {next(iter(weights))!r}")
        whole = self._checked_estimator()
        how = self._settings()
        table, labels, _ = checked_rows(self, X, y, None)
        encoder = chosen_encoder(whole)
        result = cross_fit_table(table, labels, y, encoder, settings_of(whole), how)
        self.classes_ = np.array(result.halves[0].points.classes, labels.dtype)
        self._store(result, whole)
        return self

    def fit_halves(self, first: Marginals, second: Marginals) -> Self:
        """Train on the marginals of two halves, and certify by them.

        Parameters
        ----------
        first, second : Marginals
            Of disjoint random halves of some rows, or of two samples of one population.
            Numeric columns have the same bins, which must not come from these rows.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> order = np.random.default_rng(0).permutation(len(y))
        >>> halves = [
        ...     renyi.Marginals.from_data(X.iloc[part], y.iloc[part])
        ...     for part in np.array_split(order, 2)
        ... ]
        >>> safe = renyi.CrossFitClassifier().fit_halves(*halves)
        >>> print(f"{safe.certificate_.bounds['sharp']:.3f}")
        0.241
        """
        whole = self._checked_estimator()
        how = self._settings()
        result = cross_fit_counts(first, second, settings_of(whole), how)
        one = result.halves[0]
        self.classes_ = one.classes_
        self.n_features_in_ = len(one.encoder_.input_names)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if one.named:
            self.feature_names_in_ = np.array(one.encoder_.input_names, object)
        self._store(result, whole)
        return self

    def _settings(self) -> CrossFitSettings:
        """Return the parameters as a record, checked."""
        return CrossFitSettings(self.method, self.confidence, self.random_state)

    def _checked_estimator(self) -> RenyiClassifier:
        """Return an estimator to train, after a look at all parameters."""
        self._settings()
        given = RenyiClassifier() if self.estimator is None else self.estimator
        if not isinstance(given, RenyiClassifier):
            raise TypeError(
                "estimator must be a RenyiClassifier, whose scores the certificate is "
                f"about, not a {type(given).__name__}."
            )
        estimator: RenyiClassifier = clone(given)
        settings_of(estimator)
        return estimator

    def _store(self, result: CrossFit, whole: RenyiClassifier) -> None:
        """Store two classifiers like `whole`, and the one of their mean scores."""
        named = hasattr(self, "feature_names_in_")

        def classifier(fit: Fit) -> RenyiClassifier:
            fit = dataclasses.replace(fit, named=named)
            clf: RenyiClassifier = clone(whole)
            return classifier_of(fit, clf, self.classes_)

        self.halves_ = tuple(classifier(fit) for fit in result.halves)
        self._certificate = result.certificate
        self.__dict__.pop("classifier_", None)  # of an earlier fit
        if result.average is not None:
            self.classifier_ = classifier(result.average)

    # ---- prediction

    @property
    def _one(self) -> bool:
        """Whether it is one scorecard: a fitted model stays what was certified."""
        if hasattr(self, "halves_"):
            return hasattr(self, "classifier_")
        return self.method == "average"

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row; of a mixture, as one of the two classifiers answers it."""
        return self._answers("predict", X)

    def predict_proba(self, X: Any) -> Floats:
        """Estimated class probabilities; of a mixture, of the one that answers."""
        return self._answers("predict_proba", X)

    def _answers(self, method: str, X: Any) -> NDArray[Any]:
        """Ask the one classifier, or for each row the one that its coin says."""
        check_is_fitted(self)
        if self._one:
            return np.asarray(getattr(self.classifier_, method)(X))
        answers = [getattr(clf, method)(X) for clf in self.halves_]
        codes = [clf.encoder_.transform(X) for clf in self.halves_]
        first = coins(codes, self.random_state)
        first = first.reshape(-1, *[1] * (answers[0].ndim - 1))
        return np.asarray(np.where(first, *answers))

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Probability with which each class is answered at each row."""
        check_is_fitted(self)
        if self._one:
            return self.classifier_.rule_proba(X, rule)
        shares = [clf.rule_proba(X, rule) for clf in self.halves_]
        return np.asarray(np.mean(shares, axis=0))

    @_of_one
    def decision_function(self, X: Any) -> Floats:
        """Scores: for two classes s(x), positive for the second; else one per class."""
        check_is_fitted(self)
        return self.classifier_.decision_function(X)

    @_of_one
    def explain(self, X: Any) -> pd.DataFrame:
        """Points that each feature gives each row; see `RenyiClassifier.explain`."""
        check_is_fitted(self)
        return self.classifier_.explain(X)

    # ---- certificate and file

    @property
    def certificate_(self) -> Certificate:
        """What is proven of the error, with the confidence."""
        check_is_fitted(self)
        return self._certificate

    @property
    def scorecard_(self) -> Scorecard:
        """The points of an average."""
        check_is_fitted(self)
        _is_one(self)
        return self.classifier_.scorecard_

    @property
    def rule(self) -> str:
        """The rule of the halves."""
        if hasattr(self, "halves_"):  # whatever was set since
            return self.halves_[0].rule
        return "map" if self.estimator is None else self.estimator.rule

    @_of_one
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the average to a JSON file, for `RenyiClassifier.load`."""
        check_is_fitted(self)
        self.classifier_.save(path)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "halves_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what input is welcome."""
        return with_welcome_input(super().__sklearn_tags__())
