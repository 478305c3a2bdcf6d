"""Models trained from counts of pairs: how they learn, answer and are kept.

`CountsModel` is what such models do alike: rows are checked, encoded and counted,
marginals are checked and their names kept. Both roads end in `_train`, which a model
writes for itself: it sees nothing but the `Marginals`.

The command line works with these. `renyi.estimators.classifier` makes estimators of
them; scikit-learn, which takes longer to load than a small job lasts, is not needed.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates import text
from renyi.certification import Warned
from renyi.counting import sparse_counts
from renyi.counting.onehot import lookup_sum, offsets
from renyi.counting.sparse_counts import Table
from renyi.encoding import rules as column_rules
from renyi.encoding.arrays import as_table
from renyi.encoding.columns import Column, Levels
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import (
    RowSample,
    TrainingRows,
    take_rows,
)
from renyi.encoding.tuples import encoder_of_order
from renyi.estimators import predictions
from renyi.marginals.consistency import check_possible, class_pairs
from renyi.marginals.marginals import Marginals, count_rows
from renyi.scorecard import Scorecard
from renyi.solvers import ridge
from renyi.solvers.calibration import (
    CALIBRATIONS,
    PairMoments,
    label_map,
    moments_of_pairs,
    moments_of_scores,
    rescaled,
)
from renyi.solvers.ridge import AlphaChoice, LeftOut, check_alpha
from renyi.solvers.ridge_dual import fit_dual
from renyi.solvers.ridge_sparse import beats_dual, fit_sparse
from renyi.validation import check_choice, check_whole

Floats = NDArray[np.float64]

OBJECTIVES = ("error", "ranking")
_EPS = float(np.finfo(np.float64).eps)


class CountsModel:
    """Base of the models that are trained from counts.

    A model writes `_train(m)`, which stores what it learned, and `predict`, which
    begins with ``self._codes(X)``. It may write `_check_parameters`, `_class_pairs_for`
    if it needs the pairs of features within each class, and `_train_on_rows` if it
    learns more from rows than from their counts.
    """

    _class_conditional = False  # whether it needs the pairs within each class
    encoder: Encoder | None = None
    order: int  # columns in a feature, where that can be chosen
    marginals_: Marginals | None

    def _check_parameters(self) -> None:
        """Check the parameters, before anything is looked at."""

    def _class_pairs_for(self) -> str | None:
        """Say what needs the pairs within each class; None if nothing does."""
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
        table, labels, weights = self._checked(X, y, sample_weight)
        settings = self._settings()
        self.classes_, codes_y = column_rules.distinct(labels)
        column_rules.check_class_labels(self.classes_, settings.missing)
        encoder, codes = settings.fit_transform(table, weights)
        check_usable(encoder)
        self._target = column_rules.target_name(y, encoder.input_names)
        self._train_on_rows(TrainingRows(encoder, codes, codes_y, weights))
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
        self._begin(m)
        self._learn(m)
        return self

    def _fit_counted(
        self, m: Marginals, read: Callable[[bool], TrainingRows]
    ) -> TrainingRows | None:
        """Train as `fit` does on rows that `read` returns, with codes or without.

        Return those with codes, if they were needed.
        """
        self._begin(m)
        block = read(True)
        self._train_on_rows(block)
        return block

    def _begin(self, m: Marginals) -> None:
        """Check marginals, and take from them what the columns and classes are."""
        if not isinstance(m, Marginals):
            raise TypeError(
                f"fit_marginals takes Marginals, not a {type(m).__name__}: count rows "
                "with Marginals.from_data, or use fit."
            )
        self._check_parameters()
        self._check_marginals(m)
        self.classes_ = column_rules.class_array(m.classes)
        self._target = m.target
        numbered = [f"x{j}" for j in range(len(m.encoder.input_names))]
        self._keep_names(m.encoder, list(m.encoder.input_names) != numbered)

    def _keep_names(self, encoder: Encoder, named: bool) -> None:
        """Keep the number of the table's columns, and their names if it has any."""
        self.n_features_in_ = len(encoder.input_names)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if named:
            self.feature_names_in_ = np.array(encoder.input_names, object)

    def _train_on_rows(self, block: TrainingRows) -> None:
        """Learn from rows: by default from their counts alone."""
        self._learn(self._count(block))

    def _learn(self, m: Marginals) -> None:
        self._train(m)
        self.marginals_ = m
        self.encoder_ = m.encoder

    # ---- rows to codes to counts

    def _settings(self) -> Encoder:
        order = getattr(self, "order", 1)
        if order > 1:
            return encoder_of_order(self.encoder, order)
        return self.encoder or Encoder()

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
        self._check_columns(X, reset=reset)
        labels = column_rules.check_labels(y, table.shape[0])
        weights = column_rules.check_sample_weight(sample_weight, len(labels))
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            table = take_rows(table, kept)
            labels = labels[kept]
            weights = weights[kept]
        return table, labels, weights

    def _check_marginals(self, m: Marginals) -> None:
        """Check that this classifier can be trained on the marginals."""
        order = getattr(self, "order", None)
        if order not in (None, m.order):
            raise ValueError(
                f"The marginals have order {m.order}, but {type(self).__name__} has "
                f"order {order}: count with order={order}, as in "
                f"Marginals.from_data(X, y, order={order})."
            )
        column_rules.check_classes(m.classes, m.target)
        check_usable(m.encoder)
        reason = self._class_pairs_for()
        if reason is not None:
            class_pairs(m, reason)
        if order is not None:
            check_possible(m)

    def _count(self, block: TrainingRows) -> Marginals:
        """Return the marginals of encoded rows."""
        labels = tuple(self.classes_.tolist())
        target = Column(self._target, Levels("label", labels))
        inner = self._class_pairs_for() is not None
        return count_rows(block, target, inner)

    def _codes(self, X: Any) -> NDArray[Any]:
        """Return rows to predict as codes (d, n); unseen labels are one beyond."""
        self._check_fitted()
        as_table(X)
        self._check_columns(X, reset=False)
        return self.encoder_.transform(X)

    def _check_columns(self, X: Any, reset: bool) -> None:
        """Keep the columns of an Arrow table; estimators compare them, too."""
        if reset:
            self.n_features_in_ = X.num_columns
            self.feature_names_in_ = np.array(X.column_names, object)

    def _check_fitted(self) -> None:
        """Refuse to go on without a model, by scikit-learn's own error."""
        if not self.__sklearn_is_fitted__():
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "encoder_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what input is welcome."""
        return with_welcome_input(super().__sklearn_tags__())  # type: ignore[misc]


def with_welcome_input(tags: Any) -> Any:
    """Return tags of scikit-learn that say which cells are welcome."""
    for welcome in ("allow_nan", "categorical", "string"):
        setattr(tags.input_tags, welcome, True)
    return tags


class RenyiModel(predictions.ScorecardPredictions, CountsModel):
    """What `RenyiClassifier` learns, answers and keeps."""

    _kept: TrainingRows | None  # for the next block
    _sample: RowSample | None  # of the blocks that are not kept

    def __init__(
        self,
        order: int = 1,
        alpha: float | str = "auto",
        rule: str = "map",
        fit_intercept: bool = True,
        class_weight: Any = None,
        encoder: Encoder | None = None,
        random_state: Any = None,
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

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on one more block of rows; the result is that of `fit` on all blocks.

        Labels may appear in any block; bins of numeric columns are those of the first
        block, or of a fitted `encoder`. Rows are kept (as codes) while leave-one-out
        makes use of them, afterwards their counts and some 16,000 rows, on which
        probabilities are calibrated.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : sequence of labels
            All classes; needed at the first call.
        """
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X, labels, weights = self._checked(X, y, sample_weight, reset=first)
        if first:
            self.classes_ = np.unique(column_rules.class_array(classes))
            column_rules.check_class_labels(self.classes_, self._settings().missing)
        settings = self._settings() if first else self.encoder_
        encoder, codes = settings.fit_transform(X, weights, refuse_identifiers=False)
        codes_y = column_rules.codes_among(self.classes_, labels)
        block = TrainingRows(encoder, codes.copy(), codes_y, weights)
        if first:
            self._target = column_rules.target_name(y, encoder.input_names)
        elif self._kept is not None:
            block = self._kept.joined(block)
        elif self.marginals_ is None:
            raise ValueError(
                "This model keeps no counts to add to, because it was read from a file "
                "or fit() had more categories than rows: start with partial_fit()."
            )
        else:
            m = self.marginals_ + self._count(block)
            n = block.effective_n
            if self._sample is not None:
                self._sample = self._sample.joined(block)
            rows = None if self._sample is None else self._sample.rows
            self._fit_counts(m, effective_n=self._effective_n + n, sample=rows)
            return self
        self._train_on_rows(block)
        if self._uses_rows(len(block.y), block.effective_n, block.n_indicators):
            self._kept = block
        elif self._reads_sample:
            self._sample = RowSample.of(block)
        return self

    def _check_parameters(self) -> None:
        check_choice("rule", self.rule, rules.RULES)
        check_whole("order", self.order, 1)
        check_alpha(self.alpha)
        check_choice("objective", self.objective, OBJECTIVES)
        plain = self.class_weight is None and self.fit_intercept
        if self.objective == "ranking" and not plain:
            name = "fit_intercept" if self.class_weight is None else "class_weight"
            raise ValueError(
                "objective='ranking' cannot be used with "
                f"{name}={getattr(self, name)!r}: a ranking depends neither on the "
                "classes' shares nor on an intercept."
            )
        check_choice("calibration", self.calibration, CALIBRATIONS)
        seed = self.random_state
        if isinstance(seed, numbers.Integral) and not 0 <= int(seed) < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}.")

    def _class_pairs_for(self) -> str | None:
        if self.objective == "ranking":
            return "objective='ranking'"
        if self.class_weight is not None:
            return "class_weight"
        return "class_conditional" if self._class_conditional else None

    @property
    def _weighting(self) -> Any:
        """Weights of the classes in the fit; equal ones give the best ranking."""
        return "balanced" if self.objective == "ranking" else self.class_weight

    def _train(self, m: Marginals) -> None:
        self._fit_counts(m)
        self._kept = None
        self._sample = None
        self._notes = ()

    def _train_on_rows(self, block: TrainingRows) -> None:
        """Fit by rows or by their counts, whichever cost less."""
        rows = self._rows(block)
        sizes = block.encoder.columns.sizes
        dual = block.n_indicators > rows.n
        if dual and self._weighting is None:
            dual = not beats_dual(sizes, rows.n, self.alpha)
        if dual:
            self._fit_dual(block, rows)
        else:
            unused = self.calibration is None and self.objective == "error"
            sample = None if unused else RowSample.of(block).rows
            m = self._count(block)
            n = block.effective_n
            self._fit_counts(m, rows, n, sample)
        self._kept = None
        self._sample = None
        self._notes = _weight_notes(block)

    def _fit_counted(
        self, m: Marginals, read: Callable[..., TrainingRows]
    ) -> TrainingRows | None:
        """Train on counts, and on the rows where `fit` would make use of them.

        Else a sample of them, which `read` takes of n rows, calibrates as in `fit`.
        """
        self._begin(m)
        weighed = read(False) if m.weighted else None
        n = m.n if weighed is None else len(weighed.y)
        effective_n = m.n if weighed is None else weighed.effective_n
        if self._uses_rows(n, effective_n, int(m.encoder.columns.sizes.sum())):
            return super()._fit_counted(m, read)
        sample = read(True, int(n)) if self._reads_sample else None
        self._fit_counts(m, effective_n=effective_n, sample=sample)
        self._kept = None
        self._sample = None
        self._notes = () if weighed is None else _weight_notes(weighed)
        return None

    def _uses_rows(self, n: float, effective_n: float, D: int) -> bool:
        """Whether n rows of D categories tell more than their counts do."""
        K = len(self.classes_)
        return n < D or ridge.worthwhile(effective_n, D, K, self.alpha)

    @property
    def _reads_sample(self) -> bool:
        """Whether counts are not enough to calibrate."""
        return self.calibration not in (None, "discriminant")

    def _check_calibration(self, has_rows: bool) -> None:
        """Check that there is what objective and calibration need."""
        kind = self.calibration
        K = len(self.classes_)
        if self.objective == "ranking" and K > 2:
            raise ValueError(
                f"objective='ranking' is for two classes, but there are {K}: use "
                "'error', or one class against the rest."
            )
        if K == 2 and kind in ("affine", "discriminant"):
            raise ValueError(
                f"calibration={kind!r} is for three classes or more, but there are "
                "two: use 'temperature', which changes no decision."
            )
        if not has_rows and kind in ("temperature", "affine"):
            raise ValueError(
                f"calibration={kind!r} needs the rows, but only marginals are given: "
                "use 'auto' or None, or for three classes or more 'discriminant'."
            )

    def _rows(self, block: TrainingRows, m: Marginals | None = None) -> ridge.Rows:
        """Rows, or a sample of those with the marginals m, with their weights."""
        sizes = block.encoder.columns.sizes
        K = len(self.classes_)
        factors = block.encoder.factors(block.codes) if m is None else None
        if self._weighting is None and block.sample_weight is None:
            return ridge.Rows(block.codes, sizes, block.y, K, factors=factors)
        mass = block.weights
        counts = np.bincount(block.y, mass, minlength=K).astype(np.float64)
        if m is not None:
            counts = m.class_probabilities * m.n
        factor = self._class_factors(counts)[block.y]
        # A weight below 1 is a row by itself, a larger one several copies of a row.
        unit = np.minimum(mass, 1.0) * factor
        return ridge.Rows(
            block.codes, sizes, block.y, K, mass * factor, mass, unit, factors
        )

    def _class_factors(self, counts: Floats) -> Floats:
        return column_rules.class_factors(self._weighting, self.classes_, counts)

    def _fit_block(self, block: TrainingRows, other: CountsModel) -> Self:
        """Train on rows that another classifier has checked and encoded."""
        self._check_parameters()
        self.classes_ = other.classes_
        self._target = other._target
        self._keep_names(block.encoder, hasattr(other, "feature_names_in_"))
        self._train_on_rows(block)
        return self

    def _fit_counts(
        self,
        m: Marginals,
        rows: ridge.Rows | None = None,
        effective_n: float | None = None,
        sample: TrainingRows | None = None,
    ) -> None:
        """Fit from marginals; `rows` serve to leave out, a sample to calibrate."""
        self._check_calibration(sample is not None)
        # Weights that sum to 1 leave m.n = 1: rows are counted, where there are any.
        self._effective_n = float(m.n) if effective_n is None else effective_n
        factor = None
        if self._weighting is not None:
            factor = self._class_factors(m.class_probabilities * m.n)
        Q, F, priors = _pairs(m, factor)
        equations = ridge.moments(Q, F, priors, self.fit_intercept)
        alpha = check_alpha(self.alpha)
        n = self._effective_n
        sizes = m.encoder.columns.sizes
        if sparse_counts.is_sparse(Q):
            fit = fit_sparse(equations, sizes, n, alpha, rows)
        else:
            fit = ridge.fit_primal(equations, n, len(sizes), alpha, rows)
        if self.class_weight is not None and fit.choice.error is None:
            # Cross-validated on the weighted classes: no estimate for real rows.
            fit = fit._replace(choice=replace(fit.choice, risk=None))
        self.marginals_ = m
        left_out = None
        if sample is not None:
            codes = sample.over(m.encoder.columns)
            sample = replace(sample, encoder=m.encoder, codes=codes)
            chosen = self._rows(sample, m)
            s = lookup_sum(chosen.codes, fit.z, offsets(sizes)[:-1]) + fit.intercept
            left_out = ridge.leave_out(chosen, s, fit.leverage)
        pairs = partial(_pair_moments, m, factor, fit)
        if self.objective == "ranking":
            fit, left_out = rescaled(
                fit, left_out, *label_map(_pair_moments(m, None, fit))
            )
        self._finish(m.encoder, fit, m.feature_counts.diagonal(), left_out, pairs)

    def _fit_dual(self, block: TrainingRows, rows: ridge.Rows) -> None:
        self._check_calibration(has_rows=True)
        columns = block.encoder.columns
        alpha = check_alpha(self.alpha)
        dual = fit_dual(rows, len(columns), alpha, self.fit_intercept)
        counts = dual.target_counts
        self.marginals_ = None
        totals = sum(counts.T, np.zeros((), counts.dtype))  # of short rows: 10 x faster
        left_out = None
        kept = rows.sampled
        if self.calibration is not None or self.objective == "ranking":
            sample = rows.part(kept)
            h = dual.fit.leverage
            left_out = ridge.leave_out(sample, dual.scores[kept], h)
        share = np.ones(rows.n) if rows.weights is None else rows.weights
        pairs = partial(moments_of_scores, dual.scores, block.y, share)
        if self.objective == "ranking":
            both = np.hstack([-dual.scores, dual.scores])
            a, b = label_map(moments_of_scores(both, block.y, block.weights))
            fit, left_out = rescaled(dual.fit, left_out, a, b)
            scores = a * dual.scores + b
            error = a * dual.score_error + 4 * _EPS * float(np.abs(scores).max() + 1)
            dual = dual._replace(fit=fit, scores=scores, score_error=error)
        self._finish(block.encoder, dual.fit, totals, left_out, pairs)
        weights = None if block.sample_weight is None else block.weights.copy()
        # Computed when the certificate is asked for, which may be never.
        within = self._class_pairs_for() is not None
        facts = (dual.scores, block.y, weights, counts, dual.score_error, within)
        self._moments = partial(predictions.moments_of_dual, self._model, *facts)

    def _finish(
        self,
        encoder: Encoder,
        fit: ridge.RidgeFit,
        counts: NDArray[Any],
        rows: LeftOut | None,
        pairs: Callable[[], PairMoments],
    ) -> None:
        classes = tuple(self.classes_.tolist())
        z = fit.z
        b = fit.intercept
        if len(classes) == 2:
            z = z[:, 0]
            b = b[0]
        card = Scorecard(encoder, classes, z, np.asarray(b), counts, self._target)
        leverage = float(np.mean(fit.leverage))
        self._take(card, fit.choice, self.calibration, rows, leverage, pairs)

    def _take(self, card: Scorecard, choice: AlphaChoice, *calibration: Any) -> None:
        """Set the fitted attributes that follow from the scorecard."""
        self._weighted = self.class_weight is not None
        self._model = predictions.Deferred(card, choice, *calibration)
        self.encoder_ = card.encoder
        self.z_ = card.z
        self.intercept_ = float(card.intercept) if card.z.ndim == 1 else card.intercept
        self.alpha_ = choice.alpha
        self._certificate = None
        self._digest = None
        self._moments = None


def _pairs(m: Marginals, factor: Floats | None) -> tuple[Table, Floats, Floats]:
    """Return Q, F and the probabilities of classes, each weighted by a factor."""
    F = m.F
    priors = m.class_probabilities
    if factor is None:
        return m.feature_counts / m.n, F, priors
    priors = priors * factor
    total = priors.sum()
    within = np.tensordot(factor, class_pairs(m, "class_weight"), 1)
    Q = sparse_counts.stored(within / (m.n * total), m.columns.sizes)
    return Q, F * factor / total, priors / total


def _pair_moments(
    m: Marginals, factor: Floats | None, fit: ridge.RidgeFit
) -> PairMoments:
    return moments_of_pairs(*_pairs(m, factor), fit.z, fit.intercept)


def _weight_notes(block: TrainingRows) -> tuple[Warned, ...]:
    """Return what is to be said of weights that count as many more rows."""
    n = len(block.y)
    total = float(block.weights.sum())
    return (("sample-weight", text.sample_weight(n, total)),) if total > 2 * n else ()
