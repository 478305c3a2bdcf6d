"""CrossFitClassifier: a bound on the population's error, from the training rows.

Each of two classifiers is trained on a random half of the rows, and evaluated on the
other half. Bins, rare labels and penalty are learned within the half. The deployed
model is the scorecard of the two mean scores, or a fair coin that chooses which of the
two answers. The proofs are in `renyi.certificates.heldout`.
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
)
from renyi.estimators.trained import take_names, with_accepted_input
from renyi.fitting.record import Fit
from renyi.fitting.settings import Seed
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard

if TYPE_CHECKING:
    import os

    import pandas as pd

Floats = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])


def _is_one(model: CrossFitClassifier) -> bool:
    """Return True if the model is one scorecard; otherwise raise AttributeError."""
    if not model._one:
        raise AttributeError(
            "A mixture of two scorecards is not a scorecard: use method='average', or "
            "the two classifiers in halves_."
        )
    return True


_of_one: Callable[[Method], Method] = available_if(_is_one)


class CrossFitClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Train on all rows, and bound the error on their population by the same rows.

    The rows are split at random. A classifier is trained on each half, bins and penalty
    included, and evaluated on the other half. Quote ``certificate_.sampled_error``: the
    error rate on the population of the rows is at most that, with the confidence.

    Use it when rows are too few to hold some out. With enough rows, a plain
    `RenyiClassifier` and `certify` on held-out rows is simpler, and its bound is
    usually smaller than that of "average".

    Parameters
    ----------
    estimator : RenyiClassifier, optional
        The classifier to train on each half; ``RenyiClassifier()`` by default.
    method : {"average", "mixture"}, default="average"
        "average" deploys one scorecard, with the mean scores of the two; where a class
        is so rare that a calibration decides, with their mean log-odds. "mixture"
        chooses one of the two by a fair coin for each row. For the rule map its bound
        on the sampled population is half as large. Its answer is random where the two
        disagree, on a few rows in a hundred. The guarantees over every population with
        the same pair frequencies are equal.
    confidence : float, default=0.95
        Confidence of each bound.
    random_state : int, RandomState instance or None, default=0
        Seed of the split, and of the coins of a mixture. Fix it in advance: the bound
        is not valid for the best of several seeds. With an integer, equal rows always
        get the same coin, and the bound is on the error averaged over the coins.
        Otherwise each call tosses new coins, so that `predict` and `predict_proba` of a
        mixture may use different classifiers. The rules renyi and sharp draw with the
        estimator's own `random_state`.

    Attributes
    ----------
    certificate_ : Certificate
        Its `sampled_error` bounds the error on the population of the rows. Its
        `bounds` are guarantees over every population with the same pair frequencies.
    halves_ : tuple of two RenyiClassifier
        The classifiers of the halves.
    classifier_ : RenyiClassifier
        With "average", the deployed classifier, with the certificate.
    scorecard_ : Scorecard
        With "average", its points.
    feature_importances_ : ndarray of shape (d,)
        Importance of each column, as in `RenyiClassifier`; of a mixture the mean of
        its two classifiers'.
    classes_, n_features_in_, feature_names_in_
        The classes, number and names of the columns.

    See Also
    --------
    RenyiClassifier : Train one scorecard, and estimate its error by leave-one-out.
    certify : Bound the error of a trained model by rows that it has not seen.

    Notes
    -----
    The rows must be independent of each other, and without weights.

    Guide: :doc:`/kinds`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.CrossFitClassifier(method="mixture").fit(X, y)

    With 95 % confidence, at most this share of the population is answered wrongly:

    >>> round(clf.certificate_.sampled_error, 3)
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
        """Train on rows, and bound the error by the same rows.

        Parameters
        ----------
        X : frame or array of shape (n, d)
            Strings, integers, booleans, categoricals; floats are binned.
        y : sequence of n labels
            The classes.
        **weights
            A `sample_weight` raises ValueError: the bounds are not proved for weighted
            rows.

        Returns
        -------
        self
            The fitted estimator.
        """
        if weights.pop("sample_weight", None) is not None:
            raise ValueError(WEIGHTED)
        if weights:
            raise TypeError(f"fit() got an unexpected argument {next(iter(weights))!r}")
        whole = self._checked_estimator()
        split = self._settings()
        table, labels, _ = checked_rows(self, X, y, None)
        encoder = chosen_encoder(whole)
        result = cross_fit_table(table, labels, y, encoder, settings_of(whole), split)
        self.classes_ = np.array(result.halves[0].points.classes, labels.dtype)
        self._store(result, whole)
        return self

    def fit_halves(self, first: Marginals, second: Marginals) -> Self:
        """Train on the marginals of two halves, and bound the error by them.

        Use it when two sites, or two samples, only share their pair counts.

        Parameters
        ----------
        first, second : Marginals
            Pair counts of two disjoint random halves, or of two samples of one
            population. Numeric columns must have the same bins, which must not be
            learned from these rows.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> order = np.random.default_rng(0).permutation(len(y))
        >>> halves = [
        ...     renyi.Marginals.from_data(X.iloc[part], y.iloc[part])
        ...     for part in np.array_split(order, 2)
        ... ]
        >>> clf = renyi.CrossFitClassifier().fit_halves(*halves)
        >>> round(clf.certificate_.bounds["sharp"], 3)
        0.241
        """
        whole = self._checked_estimator()
        split = self._settings()
        result = cross_fit_counts(first, second, settings_of(whole), split)
        half = result.halves[0]
        self.classes_ = half.classes_
        take_names(self, half.encoder_, half.named)
        self._store(result, whole)
        return self

    def _settings(self) -> CrossFitSettings:
        """Check the parameters, and return them as a record."""
        return CrossFitSettings(self.method, self.confidence, self.random_state)

    def _checked_estimator(self) -> RenyiClassifier:
        """Check all parameters, and return a copy of the estimator to train."""
        self._settings()
        given = RenyiClassifier() if self.estimator is None else self.estimator
        if not isinstance(given, RenyiClassifier):
            raise TypeError(
                "estimator must be a RenyiClassifier, because the certificate is about "
                f"its scores, not a {type(given).__name__}."
            )
        estimator: RenyiClassifier = clone(given)
        settings_of(estimator)
        return estimator

    def _store(self, result: CrossFit, whole: RenyiClassifier) -> None:
        """Store a classifier like `whole` for each half, and one for their mean."""
        named = hasattr(self, "feature_names_in_")

        def classifier(fit: Fit) -> RenyiClassifier:
            fit = dataclasses.replace(fit, named=named)
            clf: RenyiClassifier = clone(whole)
            return classifier_of(fit, clf, self.classes_)

        self.halves_ = tuple(classifier(fit) for fit in result.halves)
        self._certificate = result.certificate
        self.__dict__.pop("classifier_", None)  # from an earlier fit
        if result.average is not None:
            self.classifier_ = classifier(result.average)

    # ---- prediction

    @property
    def _one(self) -> bool:
        """Whether the model is one scorecard.

        A fitted model does not change with `method`: its certificate covers one form.
        """
        if hasattr(self, "halves_"):
            return hasattr(self, "classifier_")
        return self.method == "average"

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row; a mixture first tosses a coin for each row."""
        return self._answers("predict", X)

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities, in a mixture those of the chosen classifier."""
        return self._answers("predict_proba", X)

    def _answers(self, method: str, X: Any) -> NDArray[Any]:
        """Call a method of the one classifier, or of the one that each coin chooses."""
        check_is_fitted(self)
        if self._one:
            return np.asarray(getattr(self.classifier_, method)(X))
        answers = [getattr(clf, method)(X) for clf in self.halves_]
        codes = [clf.encoder_.transform(X) for clf in self.halves_]
        first = coins(codes, self.random_state)
        first = first.reshape(-1, *[1] * (answers[0].ndim - 1))
        return np.asarray(np.where(first, *answers))

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Return the probability with which each class is the answer, by row."""
        check_is_fitted(self)
        if self._one:
            return self.classifier_.rule_proba(X, rule)
        shares = [clf.rule_proba(X, rule) for clf in self.halves_]
        return np.asarray(np.mean(shares, axis=0))

    @_of_one
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of each row; see `RenyiClassifier.decision_function`."""
        check_is_fitted(self)
        return self.classifier_.decision_function(X)

    @_of_one
    def explain(self, X: Any) -> pd.DataFrame:
        """Return each feature's points, by row; see `RenyiClassifier.explain`."""
        check_is_fitted(self)
        return self.classifier_.explain(X)

    # ---- certificate and file

    @property
    def certificate_(self) -> Certificate:
        """The bounds on the error, with their confidence."""
        check_is_fitted(self)
        return self._certificate

    @property
    def scorecard_(self) -> Scorecard:
        """The points of an average."""
        check_is_fitted(self)
        _is_one(self)
        return self.classifier_.scorecard_

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each column; of a mixture the mean of its two classifiers'."""
        check_is_fitted(self)
        models = (self.classifier_,) if self._one else self.halves_
        shares = [clf.feature_importances_ for clf in models]
        return np.asarray(np.mean(shares, axis=0))

    @property
    def rule(self) -> str:
        """The rule of the halves."""
        if hasattr(self, "halves_"):  # the rule that was certified
            return self.halves_[0].rule
        return "map" if self.estimator is None else self.estimator.rule

    @_of_one
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the average to a JSON file, for `RenyiClassifier.load`."""
        check_is_fitted(self)
        self.classifier_.save(path)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted; scikit-learn calls this."""
        return hasattr(self, "halves_")

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, with the kinds of cells that are accepted."""
        return with_accepted_input(super().__sklearn_tags__())
