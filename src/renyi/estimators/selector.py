"""RenyiSelector: choose features, then refit a classifier on them by ridge.

The module `renyi.selecting` explains the choice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi.correlation import hgr_lower_bound
from renyi.encoding.arrays import as_table
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import TrainingRows
from renyi.estimators.classifier import (
    CountsClassifier,
    RenyiClassifier,
    classifier_of,
)
from renyi.fitting.settings import WEIGHING, ClassWeight, Seed
from renyi.marginals.marginals import Marginals
from renyi.selecting import Selection, SelectionSettings, select_counts, select_rows

Floats = NDArray[np.float64]


class RenyiSelector(SelectorMixin, CountsClassifier):
    """Select a few features, and train a scorecard on them.

    Use it to get a short scorecard, or to rank columns. As a transformer it returns the
    selected columns; as a classifier it answers by the refitted model. For the error
    to expect, read `cv_`, which selects anew in each fold. The leave-one-out error of
    `classifier_` is too small, because it ignores the selection.

    Forward selection adds one feature at a time, the one that lowers γ most, with a
    ridge penalty of five rows for each category. It needs pair counts alone. It found
    the best set of its size in 23 of 30 cases, without that penalty in 29, the paper's
    Algorithm 1 in 3. Algorithm 1 (``method="path"``) penalises the largest point of
    each feature, and copes with more categories.

    Parameters
    ----------
    n_features : int, optional
        Number of features to select: the first in order of entry. On the path of
        Algorithm 1, features that never enter follow; copies and functions of others
        are last.
    method : {"forward", "path"}, default="forward"
        Forward selection, or the path of penalties of Algorithm 1.
    penalty : "cv" or float, default="cv"
        Used if neither `n_features` nor `max_error` is given. "cv" minimises the risk γ
        held out by five folds, over numbers of features or over penalties. From
        marginals alone no rows can be left out, so "cv" minimises generalised
        cross-validation after the refit instead. A number is the λ of Algorithm 1, and
        needs ``method="path"``.
    fit_intercept : bool, default=True
        Whether scores have an intercept without a penalty, in Algorithm 1 and in the
        refit. The paper has none: ``method="path", fit_intercept=False`` is its
        Algorithm 1 to the letter.
    refit_alpha : float or {"auto", "loo"}, default="auto"
        Ridge penalty of the refit, see `RenyiClassifier`.
    max_error : float, optional
        Select the fewest features, in order of entry, for which the guarantee of the
        refitted model is at most this, under the rule. If the features that enter do
        not suffice, all others follow. With more than two classes the refitted model
        is then not calibrated, because that would raise the guarantee of the rule map.
    order : int, default=1
        Number of columns in a feature. At order 2 it selects pairs of columns, from
        rows or from marginals of order 2. Then `features_` names the pairs, and
        `transform` returns all columns that occur in one of them.
    rule : {"map", "renyi", "sharp"}, default="map"
        How the refitted model answers.
    calibration : str or None, default="auto"
        How its scores become probabilities, see `RenyiClassifier`; None is the paper's
        form.
    encoder : Encoder, optional
        How cells become categories.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds and of the randomised rules.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, in the selection and in the refit. Marginals then need
        the pair counts within each class.

    Attributes
    ----------
    features_ : ndarray of str
        The selected features, in order of entry.
    penalty_ : float
        The penalty at which they were selected; NaN for a forward selection. With
        `n_features`, the penalty at which the last of them entered; NaN if it never
        has points. If held-out rows are answered best without any feature, the first
        to enter is selected, and this is where it entered.
    path_ : PathResult
        The features in order of entry, with what the first k of them are worth.
    cv_ : CrossValidation or None
        Held-out risk and error rate by number of features, or by penalty; None if no
        folds were needed.
    correlation_bound_ : float
        Lower bound on the maximal correlation of the selected features and the target,
        ``√(1 − γ_S/(q(1−q)))``, in every population with their pair counts. NaN if
        their pairs were not counted, because categories outnumber the rows.
    classifier_ : RenyiClassifier
        The refitted model, for tables that `transform` returns. Its guarantee is
        ``classifier_.certificate_``. Save it with ``classifier_.save(file)``, for
        `RenyiClassifier.load` and ``renyi predict``.
    feature_importances_ : ndarray of shape (d,)
        Importance of each column in the refitted model, 0 if it was not selected; see
        `RenyiClassifier`.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As for `RenyiClassifier`, of all columns; `marginals_` is None after `fit`.

    See Also
    --------
    selection_path : Compute the order of entry alone.
    PathDisplay : Plot guarantee and correlation against the number of features.

    Notes
    -----
    Guide: :doc:`/selection`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> selector = renyi.RenyiSelector(n_features=3).fit(X, y)
    >>> selector.features_.tolist()[:2]
    ['physician-fee-freeze', 'adoption-of-the-budget-resolution']
    >>> selector.transform(X).shape
    (435, 3)
    >>> round(selector.score(X, y), 3)
    0.956
    """

    classifier_: RenyiClassifier

    def __init__(
        self,
        n_features: int | None = None,
        method: str = "forward",
        penalty: float | str = "cv",
        fit_intercept: bool = True,
        refit_alpha: float | str = "auto",
        max_error: float | None = None,
        order: int = 1,
        rule: str = "map",
        calibration: str | None = "auto",
        encoder: Encoder | None = None,
        random_state: Seed = 0,
        class_weight: ClassWeight = None,
    ) -> None:
        self.n_features = n_features
        self.method = method
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.refit_alpha = refit_alpha
        self.max_error = max_error
        self.order = order
        self.rule = rule
        self.calibration = calibration
        self.encoder = encoder
        self.random_state = random_state
        self.class_weight = class_weight

    # ---- training

    def _settings(self) -> SelectionSettings:
        """Check the parameters, and return them as a record."""
        names = SelectionSettings.__dataclass_fields__
        return SelectionSettings(**{name: getattr(self, name) for name in names})

    def _check_parameters(self) -> None:
        self._settings()

    def _train_on_rows(self, rows: TrainingRows) -> None:
        self._store(select_rows(rows, self._settings()))
        self.marginals_: Marginals | None = None

    def _train_on_counts(self, m: Marginals) -> None:
        selection = select_counts(m, self._settings())
        self._take_columns(m)
        self._store(selection)
        self.marginals_ = m

    def _store(self, selection: Selection) -> None:
        named = hasattr(self, "feature_names_in_")
        fit = replace(selection.fit, named=named)
        self.classifier_ = classifier_of(fit, RenyiClassifier(), self.classes_)
        self.features_ = np.array(selection.features, object)
        self.penalty_ = selection.penalty
        self.path_ = selection.path
        self.cv_ = selection.cv
        self.encoder_ = selection.encoder
        count = len(selection.encoder.input_names)
        self._support = np.isin(np.arange(count), selection.columns)

    @property
    def correlation_bound_(self) -> float:
        """Lower bound on the maximal correlation of selected features and target."""
        check_is_fitted(self)
        m = self.classifier_.marginals_
        return float("nan") if m is None else hgr_lower_bound(m)

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each column in the refitted model, 0 if it was not selected."""
        check_is_fitted(self)
        shares = np.zeros(len(self._support))
        shares[self._support] = self.classifier_.feature_importances_
        return shares

    def _class_pairs_reason(self) -> str | None:
        return None if self.class_weight is None else WEIGHING

    # ---- prediction

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self._support

    def _reduced(self, X: Any) -> Any:
        """Return the selected columns of a table of any accepted type."""
        check_is_fitted(self)
        table = as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        places = np.flatnonzero(self._support)
        if hasattr(table, "iloc"):
            return table.iloc[:, places]
        if hasattr(table, "select"):
            return table.select(places.tolist())
        return table[:, places]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the refitted model's class of each row; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.predict(table)

    def predict_proba(self, X: Any) -> Floats:
        """Return the refitted model's class probabilities; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.predict_proba(table)

    def decision_function(self, X: Any) -> Floats:
        """Return the refitted model's scores; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.decision_function(table)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return a table of all columns, with missing cells where none was selected.

        Parameters
        ----------
        X : frame or array of shape (n, k)
            As `transform` returns it; cells may be missing.

        Returns
        -------
        ndarray of shape (n, d)
            Floats if X is numeric, otherwise objects; NaN in the other columns.
        """
        chosen = self.get_support()
        table = np.asarray(X)
        if table.ndim != 2 or table.shape[1] != chosen.sum():
            raise ValueError(
                f"X must have the {chosen.sum()} columns that transform returns, but "
                f"its shape is {table.shape}."
            )
        dtype = np.float64 if table.dtype.kind in "biuf" else object
        whole = np.full((len(table), len(chosen)), np.nan, dtype)
        whole[:, chosen] = table
        return whole
