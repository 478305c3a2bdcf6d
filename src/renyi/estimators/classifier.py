"""RenyiClassifier, and the base of all classifiers that learn from pair counts.

An estimator validates its input, calls `renyi.fitting`, and stores one `Fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi.certificates.record import Certificate
from renyi.encoding import rules as column_rules
from renyi.encoding.arrays import as_table
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import RowSample, TrainingRows, take_rows
from renyi.encoding.tuples import encoder_of_order
from renyi.estimators import model_file
from renyi.fitting import (
    ClassWeight,
    Fit,
    Seed,
    Settings,
    encoded_rows,
    fit_counts,
    fit_rows,
    has_names,
    target_column,
    uses_rows,
)
from renyi.marginals.consistency import class_pairs
from renyi.marginals.file import DataDigest
from renyi.marginals.marginals import Marginals, count_rows
from renyi.rules import rule_proba
from renyi.scorecard import Scorecard
from renyi.solvers.ridge import AlphaChoice

if TYPE_CHECKING:
    import os

    import pandas as pd

    from renyi.certificates.record import BoundReport
    from renyi.exports.integer_card import IntegerScorecard
    from renyi.report.page import Report
    from renyi.selection import PathResult

Floats = NDArray[np.float64]
Tags = TypeVar("Tags")
Classifier = TypeVar("Classifier", bound="RenyiClassifier")


def with_welcome_input(tags: Tags) -> Tags:
    """Return scikit-learn's tags, which then say which cells are welcome."""
    for welcome in ("allow_nan", "categorical", "string"):
        setattr(tags.input_tags, welcome, True)  # type: ignore[attr-defined]
    return tags


def checked_rows(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, reset: bool = True
) -> tuple[Any, NDArray[Any], Floats | None]:
    """Return table, labels and weights, without rows of weight zero.

    The estimator learns the names of the columns, or compares them (`reset=False`).
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None."
        )
    table = as_table(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    labels = column_rules.check_labels(y, table.shape[0])
    weights = column_rules.check_sample_weight(sample_weight, len(labels))
    if weights is not None and not weights.all():
        positive = np.flatnonzero(weights)
        table = take_rows(table, positive)
        labels = labels[positive]
        weights = weights[positive]
    return table, labels, weights


def chosen_encoder(estimator: CountsClassifier) -> Encoder:
    """Return how cells become categories, by the parameters of an estimator."""
    order = getattr(estimator, "order", 1)
    if order > 1:
        return encoder_of_order(estimator.encoder, order)
    return estimator.encoder or Encoder()


class CountsClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers that are trained from pair counts.

    A classifier writes `_train(m)`, which stores what it learned, and `predict`, which
    begins with ``self._codes(X)``. It may write `_check_parameters`, and
    `_class_pairs_reason` if it needs the pairs of features within each class.
    """

    _class_conditional = False  # whether it needs the pairs within each class
    encoder: Encoder | None = None

    def _check_parameters(self) -> None:
        """Check the parameters, before anything is looked at."""

    def _class_pairs_reason(self) -> str | None:
        """Name what needs the pairs within each class; None if nothing does."""
        return type(self).__name__ if self._class_conditional else None

    def _train(self, m: Marginals) -> None:
        """Learn from the counts; `classes_` and the names of features are set."""
        raise NotImplementedError

    # ---- training

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows.

        Parameters
        ----------
        X : frame or array of shape (n, d)
            Strings, integers, booleans, categoricals; floats are binned.
        y : sequence of n labels
            The classes.
        sample_weight : sequence of n floats, optional
            Weights; a row of weight 2 counts as two rows.
        """
        self._check_parameters()
        self._train_on_rows(self._encoded_rows(X, y, sample_weight))
        return self

    def fit_marginals(self, m: Marginals) -> Self:
        """Train on marginals; the same answer as `fit` on their rows at the same alpha.

        `m.n` counts as the number of rows. Marginals compare labels by their text, so
        that whole floats among the classes (0.0, 1.0) come back as integers, where
        `fit` keeps the floats of y.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> m = renyi.Marginals.from_data(X, y)
        >>> clf = renyi.RenyiClassifier(alpha=0.01)
        >>> np.allclose(clf.fit_marginals(m).z_, clf.fit(X, y).z_, atol=1e-12)
        True
        """
        if not isinstance(m, Marginals):
            raise TypeError(
                f"fit_marginals takes Marginals, not a {type(m).__name__}: count rows "
                "with Marginals.from_data, or use fit."
            )
        self._check_parameters()
        self._train_on_counts(m)
        return self

    def _train_on_rows(self, rows: TrainingRows) -> None:
        """Learn from rows: by default from their counts alone."""
        self._learn(count_rows(rows, self._class_pairs_reason() is not None))

    def _train_on_counts(self, m: Marginals) -> None:
        column_rules.check_classes(m.classes, m.target)
        check_usable(m.encoder)
        reason = self._class_pairs_reason()
        if reason is not None:
            class_pairs(m, reason)
        self._take_columns(m)
        self._learn(m)

    def _learn(self, m: Marginals) -> None:
        self._train(m)
        self.marginals_: Marginals | None = m
        self.encoder_ = m.encoder

    def _take_columns(self, m: Marginals) -> None:
        """Take classes and columns of marginals, with their names if they have any."""
        self.classes_ = column_rules.class_array(m.classes)
        self._take_names(m.encoder.input_names, has_names(m.encoder))

    def _take_names(self, names: Sequence[str], named: bool) -> None:
        """Keep the number of the table's columns, and their names if it has any."""
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_

    # ---- rows to codes

    def _encoded_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        """Return checked rows as codes of an encoder that learned from them."""
        table, labels, weights = checked_rows(self, X, y, sample_weight)
        rows = encoded_rows(table, labels, weights, chosen_encoder(self), y)
        self.classes_ = np.array(rows.target.categories, labels.dtype)
        return rows

    def _codes(self, X: Any) -> NDArray[Any]:
        """Return rows to predict as codes (d, n); unseen labels are one beyond."""
        check_is_fitted(self)
        as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.encoder_.transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "encoder_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what input is welcome."""
        return with_welcome_input(super().__sklearn_tags__())


class RenyiClassifier(CountsClassifier):
    """Classifier for categorical data, trained from counts of pairs alone.

    Parameters
    ----------
    order : int, default=1
        Number of columns in a feature.
    alpha : float or {"auto", "loo"}, default="auto"
        Ridge penalty in mean form, the paper's lambda: ``(Q + alpha·I) z = dvec/2``;
        scikit-learn's Ridge calls n · alpha its alpha. "loo" minimises the
        leave-one-out risk; "auto" does so where rows are at hand and it is affordable,
        and takes generalised cross-validation where only marginals are given or rows
        far outnumber the categories, when the two agree.
    rule : {"map", "renyi", "sharp"}, default="map"
        How an answer follows from the scores. "renyi" and "sharp" answer at random,
        with a smaller bound in closed form.
    fit_intercept : bool, default=True
        Whether to fit an intercept without penalty; False is the paper's literal form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in training. Certificates still speak of the unweighted
        marginals, with the pairs within each class.
    encoder : Encoder, optional
        How cells become categories.
    random_state : int, RandomState instance or None, default=None
        Seed of the randomised rules. With an integer a row gets the same answer
        whenever it is asked for.
    calibration : {"auto", "temperature", "affine", "discriminant"} or None, \
default="auto"
        How scores become probabilities, and with K > 2 classes decisions of map: by
        one slope ("temperature", moves no decision), logistic regression on the scores
        ("affine"), both fitted to leave-one-out scores of rows, or a "discriminant",
        from pairs alone. "auto" is a temperature for two classes (from marginals None),
        else affine, from marginals or fewer than 10·K² rows the discriminant. None is
        the paper's: the probabilities nearest to the scores.
    objective : {"error", "ranking"}, default="error"
        What the points are best at: the squared error, or for two classes the certified
        AUC of `Certificate`: ``(Σ_0 + Σ_1 + 2·alpha·I) z ∝ μ_1 − μ_0``, from rows or
        pairs counted within the classes. Least squares then scale and centre the score,
        so that rules, threshold and probabilities mean what they mean otherwise.

    Attributes
    ----------
    z_ : ndarray of shape (D,), or (D, K) for K > 2 classes
        Points of every category before any calibration; for two classes those of the
        second one.
    intercept_ : float, or ndarray of shape (K,)
        Score before any points, and before any calibration.
    alpha_ : float
        The penalty used.
    alpha_choice_ : AlphaChoice
        How it was chosen.
    scorecard_ : Scorecard
        The model as a table of points.
    certificate_ : Certificate
        The worst error of the model; computed when first asked for.
    marginals_ : Marginals or None
        The counts behind the model; None if there were more categories than rows, and
        in a model that was loaded or unpickled.
    data_digest_ : DataDigest or None
        Digest of the training data, as in ``m.digest``; None for a mean of two halves.
    fit_ : Fit
        All of these in one frozen record, as `renyi.fitting` returns it.
    classes_, encoder_, n_features_in_, feature_names_in_
        The classes, the fitted encoder, number and names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    >>> round(clf.certificate_.gamma, 4)
    0.0305
    >>> why = clf.explain(X[:2])
    >>> np.allclose(why.sum(axis=1), clf.decision_function(X[:2]))
    True
    """

    fit_: Fit

    def __init__(
        self,
        order: int = 1,
        alpha: float | str = "auto",
        rule: str = "map",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        encoder: Encoder | None = None,
        random_state: Seed = None,
        calibration: str | None = "auto",
        objective: str = "error",
    ) -> None:
        self.order = order
        self.alpha = alpha
        self.rule = rule
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.encoder = encoder
        self.random_state = random_state
        self.calibration = calibration
        self.objective = objective

    # ---- training

    def _check_parameters(self) -> None:
        settings_of(self)

    def _train_on_rows(self, rows: TrainingRows) -> None:
        self._store(fit_rows(rows, settings_of(self)))

    def _train_on_counts(self, m: Marginals) -> None:
        fit = fit_counts(m, settings_of(self))
        self._take_columns(m)
        self._store(fit)

    def _store(self, fit: Fit, blocks: TrainingRows | RowSample | None = None) -> None:
        """Store a model, and the rows that `partial_fit` adds others to."""
        self.fit_ = replace(fit, named=hasattr(self, "feature_names_in_"))
        self._blocks = blocks

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on one more block of rows; the result is that of `fit` on all blocks.

        Labels may appear in any block; bins of numeric columns are those of the first
        block, or of a fitted `encoder`. Rows are kept (as codes) while leave-one-out
        makes use of them, afterwards their counts and some 16,000 rows, on which
        probabilities are calibrated. A pickle has neither.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : sequence of labels
            All classes; needed at the first call.
        """
        settings = settings_of(self)
        first = not hasattr(self, "fit_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        rows = self._encoded_block(X, y, classes, sample_weight, first)
        if not first:
            earlier = self._blocks
            if not isinstance(earlier, TrainingRows):
                self._add_counts(rows, earlier, settings)
                return self
            rows = earlier.joined(rows)
        fit = fit_rows(rows, settings)
        n = rows.effective_n
        K = len(self.classes_)
        needed = uses_rows(len(rows.y), n, rows.n_indicators, K, settings)
        self._store(fit, rows if needed else RowSample.of(rows))
        return self

    def _encoded_block(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, first: bool
    ) -> TrainingRows:
        """Return one block of rows as codes."""
        table, labels, weights = checked_rows(self, X, y, sample_weight, reset=first)
        encoder = chosen_encoder(self) if first else self.encoder_
        if first:
            self.classes_ = np.unique(column_rules.class_array(classes))
            column_rules.check_class_labels(self.classes_, encoder.missing)
        encoder, codes = encoder.fit_transform(table, weights, refuse_identifiers=False)
        y_codes = column_rules.codes_among(self.classes_, labels)
        target = target_column(y, encoder, self.classes_)
        if not first:
            target = target._replace(name=self.fit_.target)
        return TrainingRows(encoder, target, codes.copy(), y_codes, weights)

    def _add_counts(
        self, rows: TrainingRows, sample: RowSample | None, settings: Settings
    ) -> None:
        """Train on the counts of before and those of one more block."""
        before = self.fit_
        if before.marginals_ is None:
            raise ValueError(
                "This model keeps no counts to add to, because it was read from a file "
                "or fit() had more categories than rows: start with partial_fit()."
            )
        m = before.marginals_ + count_rows(
            rows, settings.class_pairs_reason is not None
        )
        if sample is not None:
            sample = sample.joined(rows)
        fit = fit_counts(
            m,
            settings,
            effective_n=before.effective_n + rows.effective_n,
            sample=None if sample is None else sample.rows,
            notes=before.notes,
        )
        self._store(fit, sample)

    def __getstate__(self) -> dict[str, Any]:
        """Leave rows out of pickles."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_blocks" in state:
            state["_blocks"] = None
        return state

    # ---- what was learned

    def _current(self) -> Fit:
        """Return the model, with a rule or seed that was set since the fit."""
        check_is_fitted(self)
        settings = self.fit_.settings
        if self.rule != settings.rule or self.random_state != settings.random_state:
            settings = replace(settings, rule=self.rule, random_state=self.random_state)
            self.fit_ = replace(self.fit_, settings=settings)
        return self.fit_

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "fit_")

    # Of the Fit, where the base class stores attributes.

    @property
    def encoder_(self) -> Encoder:  # type: ignore[override]
        """The fitted encoder."""
        check_is_fitted(self)
        return self.fit_.encoder_

    @property
    def z_(self) -> Floats:
        """Points of every category, before any calibration."""
        check_is_fitted(self)
        return self.fit_.points.z

    @property
    def intercept_(self) -> Floats | float:
        """Score before any points, and before any calibration."""
        check_is_fitted(self)
        card = self.fit_.points
        return float(card.intercept) if card.z.ndim == 1 else card.intercept

    @property
    def alpha_(self) -> float:
        """The penalty used."""
        check_is_fitted(self)
        return self.fit_.choice.alpha

    @property
    def alpha_choice_(self) -> AlphaChoice:
        """How alpha was chosen."""
        check_is_fitted(self)
        return self.fit_.alpha_choice_

    @property
    def scorecard_(self) -> Scorecard:
        """The model as a table of points."""
        check_is_fitted(self)
        return self.fit_.scorecard_

    @property
    def certificate_(self) -> Certificate:
        """Worst error of the model on every population with its pair counts."""
        return self._current().certificate_

    @property
    def marginals_(self) -> Marginals | None:  # type: ignore[override]
        """The counts behind the model, if it has any."""
        check_is_fitted(self)
        return self.fit_.marginals_

    @property
    def data_digest_(self) -> DataDigest | None:
        """Digest of the training data; None if it is not known."""
        check_is_fitted(self)
        return self.fit_.data_digest_

    # ---- prediction

    def predict(self, X: Any, prevalence: float | None = None) -> NDArray[Any]:
        """Class of each row; the randomised rules draw it with `random_state`.

        With the share of the second of two classes among these rows, if it is another
        than in training: the likelier class there, by the rule map.
        """
        codes = self._codes(X)
        return np.asarray(self.classes_[self._current().answers(codes, prevalence)])

    def predict_proba(self, X: Any, prevalence: float | None = None) -> Floats:
        """Class probabilities: the calibrated scores, or the nearest to them if none.

        The most probable class is what `predict` answers by the rule map. With the
        share of the second of two classes among these rows, if it is another than in
        training: the odds are moved by the ratio of the two odds.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> clf.predict_proba(X[:1], prevalence=0.01).round(2)
        array([[0.61, 0.39]])
        """
        codes = self._codes(X)
        return self.fit_.probabilities(codes, prevalence)

    def threshold(self, prevalence: float) -> float:
        """Score above which `predict` answers the second class at a prevalence.

        What it errs there at most is ``certificate.error_at(prevalence, threshold)``.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> renyi.certify(clf, m).error_at(0.01, clf.threshold(0.01)) < 0.05
        True
        """
        check_is_fitted(self)
        return self.fit_.threshold(prevalence)

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Probability with which the rule answers each class at each row."""
        name = self.rule if rule is None else rule
        codes = self._codes(X)
        return rule_proba(self.scorecard_.of_rule(name).estimates(codes), name)

    def decision_function(self, X: Any) -> Floats:
        """Scores: for two classes s(x), positive for the second; else one per class.

        The largest is that of the most probable class.
        """
        codes = self._codes(X)
        return self.fit_.scores(codes)

    def explain(self, X: Any) -> pd.DataFrame:
        """Points that each feature gives each row, and the intercept.

        For two classes the columns are the features and sum to `decision_function`;
        for more, there is such a set of columns for every class.
        """
        codes = self._codes(X)
        return self.fit_.explanation(codes, X.index if hasattr(X, "iloc") else None)

    # ---- report and file

    def report(
        self,
        marginals: Marginals | None = None,
        *,
        X: Any = None,
        y: Any = None,
        path: PathResult | None = None,
        bounds: BoundReport | None = None,
        card: IntegerScorecard | None = None,
    ) -> Report:
        """Return everything there is to see of this model: a page, shown in notebooks.

        It is made from the model and counts of pairs; no row of the data is in it.

        Parameters
        ----------
        marginals : Marginals, optional
            Counts that the certificate is of; by default those of the training.
        X, y : rows and their classes, optional
            Rows that were not used in training: they give an error, a calibration
            curve and a table of classes, and none of them is kept.
        path : PathResult, optional
            What `renyi.selection_path` found.
        bounds : BoundReport, optional
            What `renyi.certification.bound_report` found: exact worst cases.
        card : IntegerScorecard, optional
            Of ``scorecard_.rounded``; by default one of at most 10 points.

        Examples
        --------
        >>> import renyi, tempfile
        >>> X, y = renyi.datasets.load("votes")
        >>> report = renyi.RenyiClassifier().fit(X[:300], y[:300]).report(
        ...     X=X[300:], y=y[300:])
        >>> report.to_dict()["heldout"]["confusion"]
        [[72, 8], [1, 54]]
        >>> report.save(tempfile.mkdtemp() + "/report.html")
        """
        from renyi.report import build

        fit = self._current()
        if (X is None) != (y is None):
            raise ValueError("X and y go together: give both or none.")
        heldout = None if X is None else (X, y)
        return build.report(
            fit, marginals, heldout=heldout, path=path, bounds=bounds, card=card
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file that predicts the same to the last bit."""
        model_file.write(self._current(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; the file may come from a stranger.

        >>> import renyi, tempfile
        >>> clf = renyi.RenyiClassifier().fit([["a"], ["b"]] * 9, [0, 1] * 9)
        >>> place = tempfile.mkdtemp() + "/model.json"
        >>> clf.save(place)
        >>> bool((renyi.RenyiClassifier.load(place).z_ == clf.z_).all())
        True
        """
        return classifier_of(model_file.read(path), cls())


# The parameters of a classifier that are settings of its fit.
_SETTINGS = [
    name for name in Settings.__dataclass_fields__ if name != "class_conditional"
]


def settings_of(clf: RenyiClassifier) -> Settings:
    """Return the parameters of a classifier as a record, checked."""
    return Settings(**{name: getattr(clf, name) for name in _SETTINGS})


def classifier_of(
    fit: Fit, clf: Classifier, classes: NDArray[Any] | None = None
) -> Classifier:
    """Make a classifier that of a trained model, whose settings it takes.

    Parameters
    ----------
    fit : Fit
        The model.
    clf : RenyiClassifier
        The classifier, which is changed. It keeps its `encoder`, if it has one.
    classes : ndarray, optional
        The classes as an array, whose type the model does not know.
    """
    clf.set_params(**{name: getattr(fit.settings, name) for name in _SETTINGS})
    if clf.encoder is None:
        clf.encoder = fit.encoder_.single.settings()
    clf.classes_ = fit.classes_ if classes is None else classes
    clf._take_names(fit.encoder_.input_names, fit.named)
    clf._store(fit)
    return clf
