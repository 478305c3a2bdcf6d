"""RenyiSelector: choose features, then refit a classifier on them by ridge.

How they are chosen is explained in `renyi.selecting`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi.encoding.arrays import as_table
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import TrainingRows
from renyi.estimators.classifier import (
    CountsClassifier,
    RenyiClassifier,
    classifier_of,
)
from renyi.fitting import Seed
from renyi.marginals.marginals import Marginals
from renyi.selecting import Selection, SelectionSettings, select_counts, select_rows
from renyi.solvers.l1inf_path import MAX_PASSES, N_LAMBDAS, RATIO, TOL

Floats = NDArray[np.float64]


class RenyiSelector(SelectorMixin, CountsClassifier):
    """Select features, and refit a classifier on them by ridge.

    Forward selection adds, one at a time, the feature that lowers γ most. It needs pair
    counts alone and finds the best set of its size nearly always. The paper's
    Algorithm 1 (``method="path"``) penalises the largest point of each feature, and
    takes many more features or categories.

    Parameters
    ----------
    n_features : int, optional
        Select exactly so many: the first in order of entry. On a path of penalties
        those that never enter come later, copies and functions of others last.
    method : {"forward", "path"}, default="forward"
        Forward selection, or the path of penalties of Algorithm 1.
    penalty : {"cv", "cv-1se"} or float, default="cv"
        What decides if neither `n_features` nor `max_error` is given. "cv" takes the
        number of features, or the penalty of Algorithm 1, of least held-out risk γ.
        "cv-1se" takes the fewest features, or the largest penalty, within one standard
        error of it. Pair counts alone have no rows to hold out: there "cv" takes the
        number of features of least generalised cross-validation after the refit. A
        number is the λ of Algorithm 1, and needs ``method="path"``.
    fit_intercept : bool, default=True
        Whether scores have an intercept without a penalty, in Algorithm 1 and in the
        refit. The paper has none: ``method="path", fit_intercept=False`` is its
        Algorithm 1 to the letter.
    refit_alpha : float or {"auto", "loo"}, default="auto"
        Ridge penalty of the refit, see `RenyiClassifier`.
    max_error : float, optional
        Select the fewest features, in order of entry, whose refitted model has a
        certified worst error of at most this, under the rule. Those that enter come
        first, as for `n_features`; if they do not suffice, all others follow. For more
        than two classes the refitted model is then not calibrated, which would raise
        what can be certified of the rule map.
    order : int, default=1
        Number of columns in a feature. At order 2 pairs of columns are selected, from
        rows or from marginals of order 2; `transform` returns the columns that occur
        in a selected pair, `features_` names the pairs.
    rule : {"map", "renyi", "sharp"}, default="map"
        How the refitted model answers.
    n_folds : int, default=5
        Number of folds. Their solutions are computed to a relative duality gap of 1e-3
        at least, since only their risk matters.
    n_lambdas, ratio, tol : default=30, 0.01, 1e-4
        Penalties to try, the smallest as a share of the largest, and the relative
        duality gap to be reached; see `selection_path`.
    max_passes : int, default=30,000
        Passes over the features after which a penalty is given up, with a
        `sklearn.exceptions.ConvergenceWarning`.
    encoder : Encoder, optional
        How cells become categories.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds and of the randomised rules.

    Attributes
    ----------
    features_ : ndarray of str
        The selected features, in order of entry.
    penalty_ : float
        The penalty at which they were selected; with a number of features, where the
        last of them entered (NaN, if it needs no points at any penalty). If held-out
        rows are answered best without any feature, the first to enter is kept, and
        this is where it did. NaN for a forward selection.
    path_ : PathResult
        The features in order of entry, with what the first k of them are worth.
    cv_ : CrossValidation or None
        Held-out risks and mistakes by number of features or by penalty, if these
        decided. Features are
        selected anew in each fold: an honest estimate, where leave-one-out of
        `classifier_` is not.
    classifier_ : RenyiClassifier
        The refitted model; takes what `transform` returns. Its certificate is
        ``classifier_.certificate_``, and ``classifier_.save(file)`` keeps it for
        `RenyiClassifier.load` and ``renyi predict``.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As for `RenyiClassifier`, of all columns; `marginals_` is None after `fit`.

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
        n_folds: int = 5,
        n_lambdas: int = N_LAMBDAS,
        ratio: float = RATIO,
        tol: float = TOL,
        max_passes: int = MAX_PASSES,
        encoder: Encoder | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.n_features = n_features
        self.method = method
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.refit_alpha = refit_alpha
        self.max_error = max_error
        self.order = order
        self.rule = rule
        self.n_folds = n_folds
        self.n_lambdas = n_lambdas
        self.ratio = ratio
        self.tol = tol
        self.max_passes = max_passes
        self.encoder = encoder
        self.random_state = random_state

    # ---- training

    def _settings(self) -> SelectionSettings:
        """Return the parameters as a record, checked."""
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

    # ---- answers

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self._support

    def _reduced(self, X: Any) -> Any:
        """Return the selected columns of a table, as it came, if there is a model."""
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
        """Answer of the refitted model at each row; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.predict(table)

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities by the refitted model; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.predict_proba(table)

    def decision_function(self, X: Any) -> Floats:
        """Scores of the refitted model; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.decision_function(table)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Put selected columns back in their places; the others are missing.

        Parameters
        ----------
        X : frame or array of shape (n, k)
            As `transform` returns it; cells may be missing.

        Returns
        -------
        ndarray of shape (n, d)
            Of floats if X is of numbers, else of objects; NaN in the other columns.
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
