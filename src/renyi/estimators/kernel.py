"""KernelRenyiClassifier: single columns, pairs, triples and so on, all at once.

The estimator validates its input, calls `renyi.fitting.kernel`, and stores one
`KernelFit`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import encoded_rows
from renyi.encoding.tuples import features_text
from renyi.estimators import model_file
from renyi.estimators.classifier import checked_rows
from renyi.estimators.trained import TrainedClassifier, take_names
from renyi.fitting.kernel import KernelCard, KernelFit, KernelSettings, fit_kernel
from renyi.fitting.settings import ClassWeight, Seed

if TYPE_CHECKING:
    import os

    import pandas as pd


Floats = NDArray[np.float64]


class KernelRenyiClassifier(TrainedClassifier):
    r"""Classify categorical data by single columns, pairs, triples and so on at once.

    Use it where columns interact: it is often as accurate as boosted trees. It is ridge
    regression on the indicators of every tuple of every set S of columns, with penalty
    ``alpha·rho^(−|S|)``, by the kernel ``(1 + rho)^(equal cells)``.

    The model compares a row with the training rows. So it contains their categories,
    and a file of it does too. It has no guarantee from pair counts. For a bound to
    quote, call `certify` with rows that were not used in training.

    Parameters
    ----------
    rho : float or "auto", default="auto"
        How much tuples of more columns count; 0 for single columns only. "auto" chooses
        by left-out risk.
    alpha : float or "auto", default="auto"
        Ridge penalty in mean form, of the centred kernel divided by its mean diagonal.
        "auto" chooses by left-out risk.
    calibration : {"auto", "temperature", "sigmoid", "affine"} or None, default="auto"
        How scores become probabilities, as in `RenyiClassifier`.
    encoder : Encoder, optional
        How cells become categories.
    device : {"cpu", "cuda"}, default="cpu"
        Where to compute. "cuda" is an NVIDIA GPU, and needs the extra ``gpu``.
    max_rows : int, default=12_000
        Most different rows of an exact solution, whose time grows with their cube. If
        there are more, 2,000 rows stand for all. A GPU has no such limit.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample of different rows, 1,000 at most, on which the kernel is
        chosen, and of the rows that stand for all.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in training.

    Attributes
    ----------
    loo_error_ : float
        Error rate to expect on new rows, by leave-one-out. With three classes or more
        it is by ten folds if rows are few, because the calibration then decides.
    rho_, alpha_, form_
        The kernel and the penalty. The form "plain" counts agreements; "signed" also
        lets disagreements count against a class, as functions like parity need.
    order_shares_ : dict
        Share of the score's variance by single columns, pairs, triples and more. It is
        that of independent columns.
    main_effects_ : DataFrame
        What single columns contribute: a table of points.
    feature_importances_ : ndarray of shape (d,)
        Standard deviation of the points of `main_effects_` over the training rows, as
        a share of their sum. What columns do together is not in it.
    certificate_ : Certificate
        The error to expect and the baselines; without a guarantee.
    alpha_choice_ : AlphaChoice
        How alpha was chosen.
    kernel_ : KernelCard
        The model: rows to compare with, and their weights.
    data_digest_ : DataDigest or None
        Digest of the training data.
    fit_ : KernelFit
        All of these in one frozen record.
    classes_, encoder_, n_features_in_, feature_names_in_
        The classes, the fitted encoder, number and names of the columns.

    See Also
    --------
    RenyiClassifier : A scorecard, with a guarantee from pair counts.
    certify : Get a bound from unseen rows.

    Notes
    -----
    Guide: :doc:`/orders`.

    Examples
    --------
    A chess endgame, by rows that the models have not seen:

    >>> import renyi
    >>> X, y = renyi.datasets.load("kr-vs-kp")
    >>> train, test = X.index % 4 == 0, X.index % 4 == 1
    >>> scorecard = renyi.RenyiClassifier().fit(X[train], y[train])
    >>> round(1 - scorecard.score(X[test], y[test]), 3)
    0.06
    >>> clf = renyi.KernelRenyiClassifier(random_state=0).fit(X[train], y[train])
    >>> round(1 - clf.score(X[test], y[test]), 3)
    0.014
    >>> {name: round(share, 2) for name, share in clf.order_shares_.items()}
    {'single columns': 0.74, 'pairs': 0.24, 'triples': 0.02, 'more': 0.0}
    """

    fit_: KernelFit

    def __init__(
        self,
        rho: float | str = "auto",
        alpha: float | str = "auto",
        calibration: str | None = "auto",
        encoder: Encoder | None = None,
        device: str = "cpu",
        max_rows: int = 12_000,
        random_state: Seed = None,
        class_weight: ClassWeight = None,
    ) -> None:
        self.rho = rho
        self.alpha = alpha
        self.calibration = calibration
        self.encoder = encoder
        self.device = device
        self.max_rows = max_rows
        self.random_state = random_state
        self.class_weight = class_weight

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
        settings = KernelSettings(**{name: getattr(self, name) for name in _SETTINGS})
        if self.encoder is not None and self.encoder.order > 1:
            raise ValueError(
                f"encoder makes {features_text(self.encoder)}, but the kernel forms "
                "all tuples by itself: give an encoder of single columns."
            )
        table, labels, weights = checked_rows(self, X, y, sample_weight)
        rows = encoded_rows(table, labels, weights, self.encoder or Encoder(), y)
        self.classes_ = np.array(rows.target.categories, labels.dtype)
        fit = fit_kernel(rows, settings)
        self.fit_ = replace(fit, named=hasattr(self, "feature_names_in_"))
        return self

    # ---- fitted attributes

    @property
    def kernel_(self) -> KernelCard:
        """The model: rows to compare with, and their weights."""
        check_is_fitted(self)
        return self.fit_.kernel_

    @property
    def alpha_(self) -> float:
        """The penalty used."""
        return self.alpha_choice_.alpha

    @property
    def rho_(self) -> float:
        """How much tuples of more columns count."""
        return self.kernel_.kernel.rho

    @property
    def form_(self) -> str:
        """Whether disagreements count against a class: "plain" or "signed"."""
        return self.kernel_.kernel.form

    @property
    def loo_error_(self) -> float | None:
        """Error rate to expect on new rows."""
        return self.certificate_.loo_error

    @property
    def order_shares_(self) -> dict[str, float]:
        """Share of the score's variance by single columns, pairs, triples and more."""
        check_is_fitted(self)
        return self.fit_.order_shares

    @property
    def main_effects_(self) -> pd.DataFrame:
        """What single columns contribute, as a table of points."""
        return self.kernel_.main_effects.frame()

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each column alone: how far its points spread, as a share."""
        return self.kernel_.main_effects.mapped.column_importances

    # ---- what it looks at

    def explain(self, X: Any) -> pd.DataFrame:
        """Return what each column, and all interactions together, give each row.

        For two classes the columns are the table's, "interactions" and "intercept", and
        sum to `decision_function`. For more classes there is such a set for each class.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.KernelRenyiClassifier(random_state=0).fit(X, y)
        >>> points = clf.explain(X[:2])
        >>> np.allclose(points.sum(axis=1), clf.decision_function(X[:2]))
        True
        """
        return self._explanation(X)

    def interaction(self, a: str, b: str) -> pd.DataFrame:
        """Return what two columns add to the score beyond what each adds alone.

        Parameters
        ----------
        a, b : str
            The columns: of rows and columns of the table.

        Returns
        -------
        DataFrame
            Points of every combination of categories; for more than two classes a set
            of columns for every class.

        Examples
        --------
        >>> import renyi
        >>> X = [["a", "b"], ["a", "c"], ["d", "b"], ["d", "c"]] * 9
        >>> clf = renyi.KernelRenyiClassifier().fit(X, [0, 1, 1, 0] * 9)
        >>> clf.interaction("x0", "x1").round(2)
        x1    b    c
        x0
        a  -0.5  0.5
        d   0.5 -0.5
        """
        check_is_fitted(self)
        return self.fit_.interaction(a, b)

    # ---- file

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; the file may be untrusted.

        Examples
        --------
        >>> import renyi, tempfile
        >>> clf = renyi.KernelRenyiClassifier().fit([["a"], ["b"]] * 9, [0, 1] * 9)
        >>> path = tempfile.mkdtemp() + "/model.json"
        >>> clf.save(path)
        >>> renyi.KernelRenyiClassifier.load(path).predict([["b"], ["a"]]).tolist()
        [1, 0]
        """
        fit = model_file.read(path)
        if not isinstance(fit, KernelFit):
            raise ValueError(
                f"{path} is a scorecard, not a model of every order: load it with "
                "RenyiClassifier.load."
            )
        return kernel_classifier_of(fit, cls())


# The parameters of a classifier that its KernelFit records as settings.
_SETTINGS = [
    *("rho", "alpha", "calibration", "device", "max_rows", "random_state"),
    "class_weight",
]


def kernel_classifier_of(
    fit: KernelFit, clf: KernelRenyiClassifier
) -> KernelRenyiClassifier:
    """Store a trained model and its settings in a classifier, and return that."""
    clf.set_params(**{name: getattr(fit.settings, name) for name in _SETTINGS})
    clf.encoder = fit.encoder_.unfitted
    clf.classes_ = fit.classes_
    take_names(clf, fit.encoder_, fit.named)
    clf.fit_ = fit
    return clf
