"""CountsClassifier: what classifiers trained from counts do alike with their input.

Rows are checked, encoded and counted; marginals are checked and their names kept. Both
roads end in one method, `_train`, which a classifier writes for itself: it sees nothing
but the `Marginals`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi.certificates import text
from renyi.certification import Warned
from renyi.checks import check_choice, check_whole
from renyi.encoding import targets
from renyi.encoding.column_rules import check_classes, check_sample_weight
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import as_table
from renyi.encoding.tuples import encoder_of_order
from renyi.marginals.consistency import check_possible
from renyi.marginals.marginals import Marginals
from renyi.rules import RULES
from renyi.solvers.ridge import Rows
from renyi.sources import frames as source
from renyi.sources.code_blocks import CodeBlock, from_codes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows as codes of the encoder."""

    encoder: Encoder
    codes: NDArray[Any]  # (d, n)
    y: NDArray[Any]  # codes of the classes
    sample_weight: Floats | None  # None means 1 throughout

    @property
    def n_indicators(self) -> int:
        """Number of categories of all columns."""
        return int(self.encoder.columns.sizes.sum())

    @property
    def effective_n(self) -> float:
        """Number of rows, a row of weight 2 counting twice."""
        return float(np.maximum(self._weights(), 1).sum())

    @property
    def weight_warning(self) -> tuple[Warned, ...]:
        """A warning where weights stand for many more rows than there are."""
        n, total = len(self.y), float(self._weights().sum())
        if total <= 2 * n:
            return ()
        return (("sample-weight", text.sample_weight(n, total)),)

    def ridge_rows(self, classes: NDArray[Any], class_weight: Any) -> Rows:
        """Rows with their weights: what each counts in the fit and in the report."""
        sizes, K = self.encoder.columns.sizes, len(classes)
        factors = self.encoder.factors(self.codes)
        if class_weight is None and self.sample_weight is None:
            return Rows(self.codes, sizes, self.y, K, factors=factors)
        weights = self._weights()
        counts = np.bincount(self.y, weights, minlength=K).astype(np.float64)
        factor = targets.class_factors(class_weight, classes, counts)[self.y]
        # A weight below 1 is a row by itself, a larger one several copies of a row.
        unit = np.minimum(weights, 1.0) * factor
        return Rows(
            self.codes, sizes, self.y, K, weights * factor, weights, unit, factors
        )

    def joined(self, other: TrainingRows) -> TrainingRows:
        """Rows of both, over the categories of both."""
        pairs = zip(self.encoder.columns, other.encoder.columns, strict=True)
        columns = Columns.of(a.union(b) for a, b in pairs)
        weights = None
        if self.sample_weight is not None or other.sample_weight is not None:
            weights = np.concatenate([self._weights(), other._weights()])
        return TrainingRows(
            replace(self.encoder.joined(other.encoder), columns=columns),
            np.hstack([self._over(columns), other._over(columns)]),
            np.concatenate([self.y, other.y]),
            weights,
        )

    def _weights(self) -> Floats:
        ones = self.sample_weight is None
        return np.ones(len(self.y)) if ones else np.asarray(self.sample_weight)

    def _over(self, columns: Columns) -> NDArray[Any]:
        """Codes of these rows in `columns`, which hold all their categories."""
        if self.encoder.columns == columns:
            return self.codes
        dtype = np.min_scalar_type(int(columns.sizes.max()))
        pairs = zip(self.encoder.columns, columns, self.codes, strict=True)
        return np.stack(
            [mine.places(wide).astype(dtype)[row] for mine, wide, row in pairs]
        )


class CountsClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers that are trained from counts.

    A classifier writes `_train(m)`, which stores what it learned, and `predict`, which
    begins with ``self._codes(X)``. It may write `_check_parameters`, `_class_pairs_for`
    if it needs the pairs of features within each class, and `_train_on_rows` if it
    learns more from rows than from their counts.
    """

    encoder: Encoder | None = None
    marginals_: Marginals | None

    # ---- what a classifier writes

    def _check_parameters(self) -> None:
        """Check the parameters, before anything is looked at."""

    def _class_pairs_for(self) -> str | None:
        """Say what needs the pairs within each class; None if nothing does."""
        return None

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
        self._train_on_rows(self._encoded(X, y, sample_weight))
        return self

    def fit_marginals(self, m: Marginals) -> Self:
        """Train on marginals; the same answer as `fit` on their rows at the same alpha.

        Marginals compare labels by their text, so that whole floats among the classes
        (0.0, 1.0) come back as integers, where `fit` keeps the floats of y.

        Parameters
        ----------
        m : Marginals
            Of the training rows; `m.n` counts as their number.

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
        self._check_marginals(m)
        self.classes_ = np.asarray(m.classes)
        self._target = m.target
        names = m.encoder.input_names
        self.n_features_in_ = len(names)
        if list(names) != [f"x{j}" for j in range(len(names))]:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self._trained(m)

    def _train_on_rows(self, block: TrainingRows) -> None:
        self._trained(self._count(block))

    def _trained(self, m: Marginals) -> Self:
        self._train(m)
        self.marginals_ = m
        self.encoder_ = m.encoder
        return self

    # ---- checks

    def _settings(self) -> Encoder:
        return Encoder() if self.encoder is None else self.encoder

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[Any, NDArray[Any], Floats | None]:
        """Return table, labels and weights, without rows of weight zero."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None."
            )
        table = as_table(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        labels = targets.check_labels(y, table.shape[0])
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
        weights = check_sample_weight(sample_weight, len(labels))
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            table = source.take_rows(table, kept)
            labels, weights = labels[kept], weights[kept]
        return table, labels, weights

    def _check_marginals(self, m: Marginals) -> None:
        """Check that this classifier can be trained on the marginals."""
        check_classes(m.classes, m.target)
        check_usable(m.encoder)
        reason = self._class_pairs_for()
        if reason is not None:
            class_pairs(m, reason)

    # ---- rows to codes to counts

    def _encoded(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        """Return the rows as codes; `classes_` and the target's name are set."""
        table, labels, weights = self._checked(X, y, sample_weight)
        settings = self._settings()
        self.classes_, codes_y = targets.distinct(labels)
        targets.check_class_labels(self.classes_, settings.missing)
        encoder, codes = settings.fit_transform(table, weights)
        check_usable(encoder)
        self._target = targets.target_name(y, encoder.input_names)
        return TrainingRows(encoder, codes, codes_y, weights)

    def _count(self, block: TrainingRows) -> Marginals:
        """Return the marginals of encoded rows."""
        labels = tuple(self.classes_.tolist())
        target = Column(self._target, Levels("label", labels))
        inner = self._class_pairs_for() is not None
        rows = CodeBlock(block.codes, block.y, block.sample_weight)
        return from_codes(block.encoder, target, rows, inner)

    def _codes(self, X: Any) -> NDArray[Any]:
        """Return rows to predict as codes (d, n); unseen labels are one beyond."""
        check_is_fitted(self)
        as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.encoder_.transform(X)

    # ---- manners

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "encoder_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class TupleClassifier(CountsClassifier):
    """Base of the classifiers whose features are of `order` columns each.

    Its answers follow from scores by a `rule`.
    """

    order: int
    rule: str

    def _check_parameters(self) -> None:
        check_choice("rule", self.rule, RULES)
        check_whole("order", self.order, 1)

    def _settings(self) -> Encoder:
        if self.order == 1:
            return super()._settings()
        return encoder_of_order(self.encoder, self.order)

    def _check_marginals(self, m: Marginals) -> None:
        if m.order != self.order:
            raise ValueError(
                f"The marginals are of order {m.order}, and {type(self).__name__} is "
                f"of order {self.order}: count with order={self.order}, as in "
                f"Marginals.from_data(X, y, order={self.order})."
            )
        super()._check_marginals(m)
        check_possible(m)


def check_usable(encoder: Encoder) -> None:
    """Raise an error for a table whose columns are all constant."""
    if encoder.single.columns.sizes.max(initial=0) < 2:
        raise ValueError(
            "No usable column is left: every column has the same value in all rows."
        )


def class_pairs(m: Marginals, reason: str) -> NDArray[Any]:
    """Return the pair counts within each class; without them, say what needs them."""
    if m.class_counts is None:
        raise ValueError(
            f"{reason} needs the pair counts within each class: build the marginals "
            "with class_conditional=True."
        )
    return m.class_counts
