"""RenyiClassifier, and the base of all classifiers that learn from pair counts.

An estimator validates its input, calls `renyi.fitting`, and stores one `Fit`.
"""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi.encoding import rules as column_rules
from renyi.encoding.arrays import as_table
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import (
    RowSample,
    TrainingRows,
    encoded_rows,
    has_names,
    merged_rows,
    take_rows,
    target_column,
)
from renyi.encoding.tuples import Interactions, encoder_of_order
from renyi.estimators import model_file
from renyi.estimators.trained import TableClassifier, TrainedClassifier, take_names
from renyi.fitting.record import Fit
from renyi.fitting.settings import AUTO, ClassWeight, Seed, Settings
from renyi.fitting.training import fit_counts, fit_rows, uses_rows
from renyi.marginals.arithmetic import merged_by_classes, to_be_merged
from renyi.marginals.consistency import class_pairs
from renyi.marginals.marginals import Marginals, count_rows
from renyi.rules import rule_proba
from renyi.scorecard import Scorecard
from renyi.validation import InputError

if TYPE_CHECKING:
    import os

    import pandas as pd

    from renyi.certificates.record import BoundReport
    from renyi.exports.integer_card import IntegerScorecard
    from renyi.report.page import Report
    from renyi.selection import PathResult

Floats = NDArray[np.float64]
Classifier = TypeVar("Classifier", bound="RenyiClassifier")


def checked_rows(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, reset: bool = True
) -> tuple[Any, NDArray[Any], Floats | None]:
    """Return table, labels and weights, without rows of weight zero.

    The estimator stores the column names, or with `reset=False` compares them with
    those of an earlier fit.
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
    """Return the encoder to fit, from `encoder`, `order` and `interactions`.

    An order or pairs that are still to be chosen are chosen in the training. Bins that
    are still to be merged are merged before there are tuples.
    """
    encoder = estimator.encoder
    if encoder is not None and encoder.fresh.is_fine:
        return encoder.fresh
    order = getattr(estimator, "order", 1)
    if order == AUTO:
        order = 1
    pairs = getattr(estimator, "interactions", None)
    if isinstance(pairs, (str, numbers.Integral)):
        pairs = None
    if order > 1 or pairs is not None:
        return encoder_of_order(estimator.encoder, order, pairs)
    return estimator.encoder or Encoder()


class CountsClassifier(TableClassifier):
    """Base class for the classifiers that are trained from pair counts.

    A subclass defines `_train(m)`, which stores the fitted attributes, and `predict`,
    which begins with ``self._codes(X)``. It can override `_check_parameters`, and
    `_class_pairs_reason` if it needs pair counts within each class.
    """

    _class_conditional = False  # whether it needs the pairs within each class

    def _check_parameters(self) -> None:
        """Check the parameters, before any data is read."""

    def _class_pairs_reason(self) -> str | None:
        """Name the setting that needs pair counts within each class, if there is one.

        The name appears in the error message for counts that lack them.
        """
        return type(self).__name__ if self._class_conditional else None

    def _train(self, m: Marginals) -> None:
        """Learn from the counts; `classes_` and the feature names are already set."""
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

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        self._train_on_rows(self._encoded_rows(X, y, sample_weight))
        return self

    def fit_marginals(self, m: Marginals) -> Self:
        """Train on pair counts, without any rows.

        At the same alpha, the model is the one that `fit` computes from the rows
        behind the counts. Use it for pair counts from several sites, from a published
        table, or from a file that does not fit into memory.

        Parameters
        ----------
        m : Marginals
            The pair counts; `m.n` is the number of rows.

        Returns
        -------
        self
            The fitted estimator.

        Notes
        -----
        Marginals compare labels by their text. Classes that are whole floats (0.0,
        1.0) are therefore integers in the model, where `fit` leaves them as floats.

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
        self._train_on_counts(to_be_merged(m, self.encoder))
        return self

    def _train_on_rows(self, rows: TrainingRows) -> None:
        """Learn from rows: by default from their pair counts alone."""
        rows = merged_rows(rows)
        self._learn(count_rows(rows, self._class_pairs_reason() is not None))

    def _train_on_counts(self, m: Marginals) -> None:
        column_rules.check_classes(m.classes, m.target)
        check_usable(m.encoder)
        reason = self._class_pairs_reason()
        if reason is not None:
            class_pairs(m, reason)
        self._take_columns(m)
        self._learn(merged_by_classes(m))

    def _learn(self, m: Marginals) -> None:
        self._train(m)
        self.marginals_: Marginals | None = m
        self.encoder_ = m.encoder

    def _take_columns(self, m: Marginals) -> None:
        """Store the marginals' classes and columns, with names if there are any."""
        self.classes_ = column_rules.class_array(m.classes)
        take_names(self, m.encoder, has_names(m.encoder))

    # ---- rows to codes

    def _encoded_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        """Check the rows, fit an encoder to them, and return them as codes."""
        table, labels, weights = checked_rows(self, X, y, sample_weight)
        rows = encoded_rows(table, labels, weights, chosen_encoder(self), y)
        self.classes_ = np.array(rows.target.categories, labels.dtype)
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted; scikit-learn calls this."""
        return hasattr(self, "encoder_")


class RenyiClassifier(TrainedClassifier, CountsClassifier):
    """Classify categorical data by a scorecard that is trained from pair counts.

    The model gives points to each category of each column. A row adds up its points for
    each class; the class with the largest total is the answer. Train it on rows
    (`fit`, `partial_fit`) or on pair counts alone (`fit_marginals`).

    Two figures come with the model. ``certificate_.loo_error`` estimates the error
    rate to expect on new rows. ``certificate_.bounds`` is a guarantee over every
    population with the same pair counts; it says nothing about other populations. For a
    bound to quote, call `certify` with rows that were not used in training.

    Parameters
    ----------
    order : int or "auto", default=1
        Number of columns in a feature. "auto" chooses 1, 2 or 3 by left-out risk, among
        those that take about a minute at most. Choosing needs rows.
    interactions : int, "auto" or list of pairs of names, optional
        Pairs of columns that are features, together with the single columns. A number
        chooses so many pairs, those that add most. "auto" chooses their number, perhaps
        none, by the left-out risk among those that add more than chance would. Choosing
        needs rows.
    alpha : float or {"auto", "loo"}, default="auto"
        Ridge penalty in mean form, the paper's lambda: ``(Q + alpha·I) z = dvec/2``.
        The alpha of scikit-learn's Ridge is n · alpha. "loo" minimises the
        leave-one-out risk. "auto" does so if rows are given and the computation is
        affordable; otherwise it uses generalised cross-validation. The two agree if
        the rows far outnumber the categories.
    rule : {"map", "renyi", "sharp"}, default="map"
        How scores become answers. "map" answers the class with the largest score.
        "renyi" and "sharp" answer at random, with a smaller guarantee in closed form.
    fit_intercept : bool, default=True
        Whether to fit an intercept without penalty; False is the paper's literal form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in training. Certificates still apply to the unweighted
        marginals, with the pair counts within each class.
    encoder : Encoder, optional
        How cells become categories.
    random_state : int, RandomState instance or None, default=None
        Seed of the randomised rules. With an integer, equal rows always get the same
        answer.
    calibration : {"auto", "temperature", "sigmoid", "affine", "discriminant"} or \
None, default="auto"
        How scores become probabilities. "temperature" fits one slope and changes no
        decision; "sigmoid", for two classes, fits slope and intercept; "affine", for
        more, is a logistic regression on the scores. They are fitted to leave-one-out
        scores of rows. "discriminant" needs pair counts only. "auto" chooses
        "temperature" for two classes, "sigmoid" if that is clearly likelier (rare
        classes), or None if only marginals are given. For more classes it chooses
        "affine", or "discriminant" from marginals or fewer than 10·K² rows. All but
        "temperature" and None may move decisions: the rule map answers by the
        calibrated scores. None is the paper's form: the probabilities nearest to the
        scores.
    objective : {"error", "ranking", "logistic"}, default="error"
        What the points optimise: the squared error, for two classes the certified AUC,
        or the likelihood. "ranking" solves ``(Σ_0 + Σ_1 + 2·alpha·I) z ∝ μ_1 − μ_0``
        and needs rows, or pair counts within each class. Least squares then scale and
        centre the score, so that rules, threshold and probabilities keep their meaning.
        "logistic" is (multinomial) logistic regression on the categories and needs
        rows. scikit-learn's C is 1/(n · alpha); "auto" and "loo" choose alpha by the
        log loss of left-out rows. The scores are log-odds, which are the probabilities
        as well; only the rule map has a guarantee.

    Attributes
    ----------
    z_ : ndarray of shape (D,), or (D, K) for K > 2 classes
        Points of every category before any calibration; for two classes those of the
        second class.
    intercept_ : float, or ndarray of shape (K,)
        Score before any points, and before any calibration.
    order_ : int
        Number of columns in a feature, as given or chosen.
    alpha_ : float
        The penalty used.
    alpha_choice_ : AlphaChoice
        How alpha was chosen, with the error to expect on new rows.
    scorecard_ : Scorecard
        The model as a table of points.
    feature_importances_ : ndarray of shape (d,)
        Standard deviation of each column's points over the training rows, as a share
        of their sum; of several classes the root of the summed variances. Columns of
        a pair share its importance equally.
    certificate_ : Certificate
        The guarantee of the model; computed at the first access.
    marginals_ : Marginals or None
        The pair counts behind the model. None if there were more categories than rows,
        and in a model that was loaded or unpickled.
    data_digest_ : DataDigest or None
        Digest of the training data, as in ``m.digest``; None for a mean of two halves.
    fit_ : Fit
        All of these in one frozen record, as `renyi.fitting` returns it.
    classes_, encoder_, n_features_in_, feature_names_in_
        The classes, the fitted encoder, number and names of the columns.

    See Also
    --------
    certify : Compute a certificate for other counts, or a bound from unseen rows.
    RenyiSelector : Choose a few columns, and train on them.
    CrossFitClassifier : Get a bound from the training rows themselves.
    MinimaxClassifier : Minimise the worst-case error itself.

    Notes
    -----
    Guides: :doc:`/quickstart`; :doc:`/which-number`; :doc:`/probabilities`.

    Examples
    --------
    >>> import numpy as np
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']

    The error rate to expect on new rows, by leave-one-out:

    >>> round(clf.certificate_.loo_error, 3)
    0.046

    The guarantee over every population with the same pair counts, for two rules:

    >>> bounds = clf.certificate_.bounds
    >>> round(bounds["map"], 3), round(bounds["sharp"], 3)
    (0.122, 0.061)

    The points of each row add up to its score:

    >>> points = clf.explain(X[:2])
    >>> np.allclose(points.sum(axis=1), clf.decision_function(X[:2]))
    True
    """

    fit_: Fit

    def __init__(
        self,
        order: int | str = 1,
        interactions: int | str | Interactions | None = None,
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
        self.interactions = interactions
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
        """Store a model, and the rows to which `partial_fit` adds later blocks."""
        self.fit_ = replace(fit, named=hasattr(self, "feature_names_in_"))
        self._blocks = blocks

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on one more block of rows.

        The model is the one that `fit` computes from all blocks together. New labels
        may appear in any block. The bins of numeric columns come from the first block,
        or from a fitted `encoder`.

        The estimator stores all rows (as codes) while leave-one-out needs them. Later
        it stores pair counts and about 16,000 rows, to calibrate probabilities. A
        pickle contains neither.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : sequence of labels
            All classes; required at the first call.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier()
        >>> for part in (slice(0, 200), slice(200, 435)):
        ...     clf = clf.partial_fit(X[part], y[part], classes=y.unique())
        >>> whole = renyi.RenyiClassifier().fit(X, y)
        >>> np.allclose(clf.decision_function(X), whole.decision_function(X))
        True
        """
        settings = settings_of(self)
        first = not hasattr(self, "fit_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if settings.chooses_order:
            raise InputError(
                "Blocks of rows cannot be added with {order}, which might choose "
                "another for each: give the order.",
                order=settings.order,
            )
        if settings.chooses_pairs:
            raise InputError(
                "Blocks of rows cannot be added with {interactions}, which would "
                "choose other pairs for each: name the pairs.",
                interactions=settings.interactions,
            )
        rows = self._encoded_block(X, y, classes, sample_weight, first)
        if rows.encoder.is_fine:
            raise InputError(
                "Blocks of rows cannot be added with {binning}, which would merge "
                "other bins for each: fit all rows, or give a trained encoder.",
                binning="supervised",
            )
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
        """Return one block of rows as codes; the first block sets the classes."""
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
        """Train on the counts of the earlier blocks plus those of one more block."""
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

    # ---- fitted attributes

    def _current(self) -> Fit:
        """Return the model, with the rule and seed as they are set now."""
        check_is_fitted(self)
        settings = self.fit_.settings
        if self.rule != settings.rule or self.random_state != settings.random_state:
            settings = replace(settings, rule=self.rule, random_state=self.random_state)
            self.fit_ = replace(self.fit_, settings=settings)
        return self.fit_

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
    def order_(self) -> int:
        """Number of columns in a feature, as given or chosen."""
        check_is_fitted(self)
        return self.fit_.settings.tuple_order

    @property
    def alpha_(self) -> float:
        """The penalty used."""
        check_is_fitted(self)
        return self.fit_.choice.alpha

    @property
    def scorecard_(self) -> Scorecard:
        """The model as a table of points."""
        check_is_fitted(self)
        return self.fit_.scorecard_

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each column: how far its points spread, as a share."""
        return self.scorecard_.mapped.column_importances

    @property
    def marginals_(self) -> Marginals | None:  # type: ignore[override]
        """The pair counts behind the model, if it has any."""
        check_is_fitted(self)
        return self.fit_.marginals_

    # ---- prediction

    def threshold(self, prevalence: float) -> float:
        """Return the score above which `predict` answers the second class.

        The error rate at that prevalence is at most
        ``certificate.error_at(prevalence, threshold)``.

        Parameters
        ----------
        prevalence : float
            Share of the second of two classes.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> round(clf.threshold(0.01), 3)
        0.489
        >>> round(renyi.certify(clf, m).error_at(0.01, clf.threshold(0.01)), 3)
        0.044
        """
        check_is_fitted(self)
        return self.fit_.threshold(prevalence)

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Return the probability with which the rule answers each class, by row."""
        name = self.rule if rule is None else rule
        codes = self._codes(X)
        return rule_proba(self.scorecard_.of_rule(name).estimates(codes), name)

    def explain(self, X: Any) -> pd.DataFrame:
        """Return the points that each feature gives each row, and the intercept.

        For two classes the columns are the features, and sum to `decision_function`.
        For more classes there is such a set of columns for every class.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> points = clf.explain(X[:1])
        >>> points["physician-fee-freeze"].round(3).tolist()
        [0.332]
        """
        return self._explanation(X)

    # ---- report and file

    def report(
        self,
        marginals: Marginals | None = None,
        *,
        title: str | None = None,
        X: Any = None,
        y: Any = None,
        path: PathResult | None = None,
        bounds: BoundReport | None = None,
        card: IntegerScorecard | None = None,
    ) -> Report:
        """Return a report page about this model, which notebooks display.

        The page is made from the model and its pair counts; it contains no row of the
        data. :doc:`/report` explains its parts.

        Parameters
        ----------
        marginals : Marginals, optional
            Counts for the certificate; by default those of the training rows.
        title : str, optional
            The question that the model answers, such as "Will White win?".
        X, y : rows and their classes, optional
            Rows that were not used in training. They add an error rate, a calibration
            curve and a table of classes. The page contains none of these rows.
        path : PathResult, optional
            The result of `renyi.selection_path`.
        bounds : BoundReport, optional
            The result of `renyi.certification.bound_report`: exact worst cases.
        card : IntegerScorecard, optional
            The result of ``scorecard_.rounded``; by default one of at most 10 points.

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
            raise ValueError("X and y go together: give both or neither.")
        heldout = None if X is None else (X, y)
        return build.report(
            fit,
            marginals,
            title=title,
            heldout=heldout,
            path=path,
            bounds=bounds,
            card=card,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; the file may be untrusted.

        Examples
        --------
        >>> import renyi, tempfile
        >>> clf = renyi.RenyiClassifier().fit([["a"], ["b"]] * 9, [0, 1] * 9)
        >>> path = tempfile.mkdtemp() + "/model.json"
        >>> clf.save(path)
        >>> renyi.RenyiClassifier.load(path).predict([["b"], ["a"]]).tolist()
        [1, 0]
        """
        return classifier_of(model_file.read_scorecard(path), cls())


# The parameters of a classifier that its Fit records as settings.
_SETTINGS = [
    name for name in Settings.__dataclass_fields__ if name != "class_conditional"
]


def settings_of(clf: RenyiClassifier) -> Settings:
    """Check the parameters of a classifier, and return them as a record."""
    return Settings(**{name: getattr(clf, name) for name in _SETTINGS})


def classifier_of(
    fit: Fit, clf: Classifier, classes: NDArray[Any] | None = None
) -> Classifier:
    """Store a trained model, and its settings, in a classifier; return the classifier.

    Parameters
    ----------
    fit : Fit
        The model.
    clf : RenyiClassifier
        The classifier to change. If it has an `encoder`, that one stays.
    classes : ndarray, optional
        The classes as an array of the user's type, which the model does not store.
    """
    clf.set_params(**{name: getattr(fit.settings, name) for name in _SETTINGS})
    if clf.encoder is None:
        clf.encoder = fit.encoder_.single.unfitted
    clf.classes_ = fit.classes_ if classes is None else classes
    take_names(clf, fit.encoder_, fit.named)
    clf._store(fit)
    return clf
