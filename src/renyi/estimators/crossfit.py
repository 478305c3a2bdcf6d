"""CrossFitClassifier: a certificate for the population, from the training rows.

Two classifiers are trained, each on a random half of the rows, its bins, rare labels
and penalty included, and judged on the other half. What is deployed is the scorecard of
their mean scores, or a fair coin that says which of the two answers
(`renyi.certificates.heldout` has the proofs).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from renyi import rules
from renyi.certificates import text
from renyi.certificates.heldout import (
    METHODS,
    HeldoutBounds,
    JudgedHalf,
    average,
    average_of_rows,
    bounds_of_marginals,
    crossfit_bounds,
    largest_residual,
)
from renyi.certificates.record import Certificate
from renyi.certification import Warned, of_unseen_rows
from renyi.counting.sparse_counts import is_sparse
from renyi.encoding import rules as column_rules
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import TrainingRows, take_rows
from renyi.estimators.classifier import (
    RenyiClassifier,
    checked_rows,
    chosen_encoder,
    classifier_of,
    settings_of,
    with_welcome_input,
)
from renyi.fitting import Seed, Settings, fit_rows, restored, target_column
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.solvers.ridge import AlphaChoice
from renyi.validation import check_choice, check_share

if TYPE_CHECKING:
    import os

    import pandas as pd

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Method = TypeVar("Method", bound=Callable[..., Any])

_WEIGHTED = (
    "Halves that certify each other have no weights (in Python, sample_weight): the "
    "certificate is proven for rows that were drawn independently and have equal "
    "weights. Leave the weights out, or train one model on all rows, which certifies "
    "the weighted marginals (in Python, RenyiClassifier)."
)
_LEAST_ROWS = 4  # two to train each model, two to judge it


class Half(NamedTuple):
    """Half of the rows: the table, and the places of the classes."""

    table: Any
    y: Places


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
            raise ValueError(_WEIGHTED)
        if weights:
            raise TypeError(f"fit() got an unexpected argument {next(iter(weights))!r}")
        whole = self._checked_estimator()
        table, labels, _ = checked_rows(self, X, y, None)
        encoder = chosen_encoder(whole)
        classes, codes = column_rules.distinct(labels)
        column_rules.check_class_labels(classes, encoder.missing)
        settings = settings_of(whole)
        if self.method == "average":
            settings = _with_decisions_unmoved(settings, len(classes), "temperature")
        if len(codes) < _LEAST_ROWS:
            raise ValueError(
                f"Two halves that certify each other need at least {_LEAST_ROWS} rows, "
                f"but there are only {len(codes)} (in Python, n_samples={len(codes)})."
            )
        parts = split_rows(table, codes, self.random_state)
        encoded = _encoded(encoder, table, parts)
        if all(encoder.single.columns.sizes.max() < 2 for encoder, _ in encoded):
            check_usable(encoded[0][0])
        target = target_column(y, encoded[0][0], classes)
        named = hasattr(self, "feature_names_in_")
        halves = []
        for (encoder, half_codes), part in zip(encoded, parts, strict=True):
            rows = TrainingRows(encoder, target, half_codes, part.y, None)
            fit = dataclasses.replace(fit_rows(rows, settings), named=named)
            halves.append(classifier_of(fit, clone(whole), classes))
        self.halves_ = tuple(halves)
        judged = [
            judged_half(clf, part)
            for clf, part in zip(self.halves_, reversed(parts), strict=True)
        ]
        bounds = crossfit_bounds(judged, settings.rule, self.method, self.confidence)
        self.classes_ = classes
        self._finish(bounds, len(codes), self._card(table))
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
        if self.method != "average":
            raise ValueError(
                "method='mixture' needs rows to count errors on: use method='average', "
                "or fit()."
            )
        halves = (first, second)
        for m in halves:
            if not isinstance(m, Marginals):
                raise TypeError(
                    f"fit_halves takes Marginals, not a {type(m).__name__}."
                )
            if m.weighted:
                raise ValueError(_WEIGHTED)
            if (times := _repetitions(m)) > 1:
                raise ValueError(
                    f"All counts of a half are multiples of {times:,}, as if rows were "
                    "counted several times: such counts prove nothing. Give the "
                    "marginals as they were counted, not scaled and not added twice."
                )
        first.settings.joined(second.settings)
        if first.digest.matches(second.digest):
            raise ValueError(
                "The two halves are the same marginals: give those of two disjoint "
                "halves of the rows."
            )
        if list(first.classes) != list(second.classes):
            raise ValueError(
                f"The halves have different classes, {list(first.classes)} and "
                f"{list(second.classes)}: nothing can be proven about a class that "
                "only one half has. Leave its rows out of both."
            )
        settings = _with_decisions_unmoved(settings_of(whole), len(first.classes), None)
        whole.set_params(order=first.order, calibration=settings.calibration)
        self.halves_ = tuple(clone(whole).fit_marginals(m) for m in halves)
        cards = (self.halves_[0].scorecard_, self.halves_[1].scorecard_)
        bounds = bounds_of_marginals(
            cards, [second, first], whole.rule, self.confidence
        )
        names = first.encoder.single.columns.numeric_names
        notes: tuple[Warned, ...] = tuple(
            ("shared-bins", text.shared_bins(name)) for name in sorted(names)[:1]
        )
        if _may_contain(*sorted(halves, key=lambda m: m.n)):
            notes = (("training-rows", text.CONTAINED), *notes)
        one = self.halves_[0]
        self.classes_ = one.classes_
        self.n_features_in_ = one.n_features_in_
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if hasattr(one, "feature_names_in_"):
            self.feature_names_in_ = one.feature_names_in_
        self._finish(bounds, first.n + second.n, average(*cards), notes)
        return self

    def _checked_estimator(self) -> RenyiClassifier:
        """Return an estimator to train, after a look at all parameters."""
        check_choice("method", self.method, METHODS)
        check_share("confidence", self.confidence)
        given = RenyiClassifier() if self.estimator is None else self.estimator
        if not isinstance(given, RenyiClassifier):
            raise TypeError(
                "estimator must be a RenyiClassifier, whose scores the certificate is "
                f"about, not a {type(given).__name__}."
            )
        estimator: RenyiClassifier = clone(given)
        settings_of(estimator)
        return estimator

    def _card(self, table: Any) -> Scorecard | None:
        """Return the average of the halves' scorecards, with the counts of all rows."""
        if self.method != "average":
            return None
        first, second = (clf.scorecard_ for clf in self.halves_)
        return average_of_rows(first, second, table)

    def _finish(
        self,
        bounds: HeldoutBounds,
        n: float,
        card: Scorecard | None,
        notes: tuple[Warned, ...] = (),
    ) -> None:
        """Store the certificate, and with a card the classifier that is deployed."""
        first = self.halves_[0]
        if first.class_weight is not None:
            notes = (("class-weight", text.CLASS_WEIGHT), *notes)
        shown = first.scorecard_ if card is None else card
        self._certificate = of_unseen_rows(
            bounds, shown, first.rule, n, "crossfit", self.confidence, notes
        )
        self.__dict__.pop("classifier_", None)  # of an earlier fit
        if card is None:
            return
        choices = [clf.alpha_choice_ for clf in self.halves_]
        alpha = float(np.mean([choice.alpha for choice in choices]))
        choice = AlphaChoice(choices[0].method, alpha, None)
        named = hasattr(self, "feature_names_in_")
        fit = restored(
            first.fit_.settings, card, choice, self._certificate, None, named
        )
        self.classifier_ = classifier_of(fit, clone(first))

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
        codes = np.concatenate([clf.encoder_.transform(X) for clf in self.halves_])
        shares = np.full((codes.shape[1], 2), 0.5)
        coins = rules.draw(shares, rules.row_keys(codes), self.random_state)
        first = (coins == 0).reshape(-1, *[1] * (answers[0].ndim - 1))
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


def _with_decisions_unmoved(
    settings: Settings, n_classes: int, instead: str | None
) -> Settings:
    """Return settings whose calibration moves no decision of an average.

    The bounds of an average are about scores as they were fitted.
    """
    if settings.calibration in ("affine", "discriminant"):
        raise ValueError(
            f"calibration={settings.calibration!r} changes decisions, and nothing is "
            "proven about the decisions of an average: use 'auto', 'temperature' or "
            "None, or method='mixture'."
        )
    if n_classes > 2 and settings.calibration == "auto":
        return dataclasses.replace(settings, calibration=instead)
    return settings


def _repetitions(m: Marginals) -> int:
    """Return the largest number that divides all counts."""
    pairs = m.feature_counts
    values = pairs.data if is_sparse(pairs) else np.asarray(pairs).ravel()
    both = [values.astype(np.int64), m.target_counts.ravel().astype(np.int64)]
    return int(np.gcd.reduce(np.concatenate(both)))


def _may_contain(part: Marginals, whole: Marginals) -> bool:
    """Whether the rows of one may be among those of the other, by their counts."""
    try:
        return (whole - part).n > 0
    except ValueError:
        return False


def split_rows(table: Any, y: Places, random_state: Any) -> list[Half]:
    """Return two halves of the rows, drawn at random and in random order."""
    order = rules.random_of(random_state).permutation(len(y))
    parts = np.split(order, [len(y) // 2])
    return [Half(take_rows(table, places), y[places]) for places in parts]


def _encoded(
    settings: Encoder, table: Any, halves: list[Half]
) -> list[tuple[Encoder, NDArray[Any]]]:
    """Return the encoder and the codes of each half, learned from it alone."""
    try:
        return [settings.fit_transform(half.table) for half in halves]
    except ValueError:
        settings.fit_transform(table)  # an identifier may be one of the half by chance
        how: Any = {"refuse_identifiers": False}
        return [settings.fit_transform(half.table, **how) for half in halves]


def judged_half(clf: RenyiClassifier, rows: Half) -> JudgedHalf:
    """Return a classifier on rows that it has not seen."""
    card = clf.scorecard_
    # An unseen label has a value even where answers are refused.
    encoder = dataclasses.replace(card.encoder, unseen="mean")
    codes = encoder.transform(rows.table)
    n = len(rows.y)
    t = card.estimates(codes)
    deciding = card.of_rule(clf.rule)
    moved = t if deciding is card else deciding.estimates(codes)
    right = rules.rule_proba(moved, clf.rule)[np.arange(n), rows.y]
    largest = largest_residual(card)
    mapped = card.mapped is not card
    return JudgedHalf(t, rows.y, 1 - right, largest, card.score_error, mapped)
