"""Base of the classifiers that store one record of a trained model, `fit_`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi.certificates.record import Certificate
from renyi.encoding.arrays import as_table
from renyi.encoding.encoder import Encoder
from renyi.estimators import model_file
from renyi.marginals.file import DataDigest
from renyi.solvers.ridge import AlphaChoice

if TYPE_CHECKING:
    import os

    import pandas as pd

Floats = NDArray[np.float64]
Tags = TypeVar("Tags")


def with_accepted_input(tags: Tags) -> Tags:
    """Return scikit-learn's tags after declaring which kinds of cells are accepted."""
    for kind in ("allow_nan", "categorical", "string"):
        setattr(tags.input_tags, kind, True)  # type: ignore[attr-defined]
    return tags


def take_names(estimator: BaseEstimator, encoder: Encoder, named: bool) -> None:
    """Store the number of columns, and their names if the table had any."""
    estimator.n_features_in_ = len(encoder.input_names)
    estimator.__dict__.pop("feature_names_in_", None)  # from an earlier fit
    if named:
        estimator.feature_names_in_ = np.array(encoder.input_names, object)


class WithEncoder(BaseEstimator):
    """An estimator with the parameters of its encoder, such as ``encoder__bins``.

    An encoder cannot change. So `set_params` puts another one in its place, which
    learns the columns anew if they depend on what changed.
    """

    encoder: Encoder | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` those of the encoder as well."""
        params: dict[str, Any] = super().get_params(deep)
        encoder = Encoder() if self.encoder is None else self.encoder
        if deep and isinstance(encoder, Encoder):
            for name in _ENCODER_SETTINGS:
                params[f"{_OF_ENCODER}{name}"] = getattr(encoder, name)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the encoder are ``encoder__bins`` and the like."""
        changes = {
            name.removeprefix(_OF_ENCODER): params.pop(name)
            for name in [*params]
            if name.startswith(_OF_ENCODER)
        }
        super().set_params(**params)
        if changes:
            self.encoder = _with_settings(self.encoder, changes)
        return self


_OF_ENCODER = "encoder__"
_ENCODER_SETTINGS = [name for name in Encoder.__dataclass_fields__ if name != "columns"]


def _with_settings(encoder: Encoder | None, changes: dict[str, Any]) -> Encoder | None:
    """Return the encoder with other settings."""
    for name in changes:
        if name not in _ENCODER_SETTINGS:
            raise ValueError(
                f"Invalid parameter {name!r} for the encoder. Valid parameters are: "
                f"{_ENCODER_SETTINGS!r}."
            )
    before = Encoder() if encoder is None else encoder
    if not isinstance(before, Encoder):
        raise TypeError(f"encoder must be an Encoder, not a {type(before).__name__}.")
    after = replace(before, **changes)
    if after == before:
        return encoder
    if replace(after, unseen=before.unseen) != before:
        after = after.unfitted
    return after


class TableClassifier(ClassifierMixin, WithEncoder):
    """Base of the classifiers of tables: their cells are coded by `encoder_`."""

    encoder_: Encoder

    def _codes(self, X: Any) -> NDArray[Any]:
        """Return rows to predict as codes (d, n).

        An unseen label gets the code after the feature's last category.
        """
        check_is_fitted(self)
        as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.encoder_.transform(X)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, with the kinds of cells that are accepted."""
        return with_accepted_input(super().__sklearn_tags__())


class TrainedClassifier(TableClassifier):
    """Base of the classifiers that store one trained model, `fit_`."""

    fit_: model_file.AnyFit

    def _current(self) -> model_file.AnyFit:
        """Return the model, as the parameters are set now."""
        check_is_fitted(self)
        return self.fit_

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted; scikit-learn calls this."""
        return hasattr(self, "fit_")

    # ---- fitted attributes

    @property
    def encoder_(self) -> Encoder:  # type: ignore[override]
        """The fitted encoder."""
        check_is_fitted(self)
        return self.fit_.encoder_

    @property
    def alpha_choice_(self) -> AlphaChoice:
        """How alpha was chosen."""
        check_is_fitted(self)
        return self.fit_.alpha_choice_

    @property
    def certificate_(self) -> Certificate:
        """The error to expect, the baselines, and the guarantee if there is one."""
        return self._current().certificate_

    @property
    def data_digest_(self) -> DataDigest | None:
        """Digest of the training data; None if it is unknown."""
        check_is_fitted(self)
        return self.fit_.data_digest_

    # ---- prediction

    def predict(self, X: Any, prevalence: float | None = None) -> NDArray[Any]:
        """Return the class of each row.

        A randomised rule draws the class with `random_state`.

        Parameters
        ----------
        X : frame or array of shape (n, d)
            The rows, with the columns of the training table.
        prevalence : float, optional
            Share of the second of two classes among these rows, if it differs from
            the training rows. The answer is then the likelier class at that share.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> clf.predict(X[:2]).tolist()
        ['republican', 'republican']
        >>> clf.predict(X[:2], prevalence=0.01).tolist()
        ['democrat', 'democrat']
        """
        codes = self._codes(X)
        return np.asarray(self.classes_[self._current().answers(codes, prevalence)])

    def predict_proba(self, X: Any, prevalence: float | None = None) -> Floats:
        """Return the class probabilities of each row.

        They are the calibrated scores. Without calibration, they are the probabilities
        nearest to the scores. The most probable class is the answer of the rule map.

        Parameters
        ----------
        X : frame or array of shape (n, d)
            The rows, with the columns of the training table.
        prevalence : float, optional
            Share of the second of two classes among these rows, if it differs from
            the training rows. The odds are multiplied by the ratio of the two odds.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> clf.predict_proba(X[:1]).round(2)
        array([[0.02, 0.98]])
        >>> clf.predict_proba(X[:1], prevalence=0.01).round(2)
        array([[0.61, 0.39]])
        """
        codes = self._codes(X)
        return self.fit_.probabilities(codes, prevalence)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores of each row.

        For two classes there is one score, positive for the second class. For more
        there is one per class, the largest for the most probable class.
        """
        codes = self._codes(X)
        return self.fit_.scores(codes)

    def _explanation(self, X: Any) -> pd.DataFrame:
        """Return the points of each row as a table, with the index of a frame."""
        codes = self._codes(X)
        return self.fit_.explanation(codes, X.index if hasattr(X, "iloc") else None)

    # ---- file

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file that predicts the same to the last bit.

        The file of a `KernelRenyiClassifier` contains the categories of its training
        rows.

        See Also
        --------
        load : Read the file again; it runs no code from the file.
        """
        model_file.write(self._current(), path)
