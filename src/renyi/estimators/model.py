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
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates import text
from renyi.certificates.closed_form import (
    ScoreMoments,
    bounds_of_moments,
    closed_form,
    moments_of_rows,
)
from renyi.certificates.record import Certificate
from renyi.certification import Warned, certificate
from renyi.checks import check_choice, check_whole
from renyi.counting import sparse_counts
from renyi.encoding import column_rules
from renyi.encoding.column_rules import check_classes, check_sample_weight
from renyi.encoding.columns import Column, Levels
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import as_table
from renyi.encoding.tuples import encoder_of_order
from renyi.estimators import model_file
from renyi.marginals.consistency import check_possible
from renyi.marginals.file import DataDigest, class_digest
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.solvers import ridge
from renyi.solvers.ridge import AlphaChoice, check_alpha
from renyi.solvers.ridge_dual import fit_dual
from renyi.solvers.ridge_sparse import fit_sparse
from renyi.sources.frames import CodeBlock, TrainingRows, from_codes, take_rows

if TYPE_CHECKING:
    import os

    import pandas as pd

Floats = NDArray[np.float64]


class CountsModel:
    """Base of the models that are trained from counts.

    A model writes `_train(m)`, which stores what it learned, and `predict`, which
    begins with ``self._codes(X)``. It may write `_check_parameters`, `_class_pairs_for`
    if it needs the pairs of features within each class, and `_train_on_rows` if it
    learns more from rows than from their counts.
    """

    encoder: Encoder | None = None
    order: int  # columns in a feature, where that can be chosen
    marginals_: Marginals | None

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
        """Train on counts whose rows can be read again, as `fit` does on the rows.

        `read` returns them, with their codes or without; what is returned are those
        with codes, if they were needed.
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
        self.classes_ = np.asarray(m.classes)
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
        self._check_columns(X, reset)
        labels = column_rules.check_labels(y, table.shape[0])
        weights = check_sample_weight(sample_weight, len(labels))
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            table = take_rows(table, kept)
            labels, weights = labels[kept], weights[kept]
        return table, labels, weights

    def _check_marginals(self, m: Marginals) -> None:
        """Check that this classifier can be trained on the marginals."""
        order = getattr(self, "order", None)
        if order not in (None, m.order):
            raise ValueError(
                f"The marginals are of order {m.order}, and {type(self).__name__} is "
                f"of order {order}: count with order={order}, as in "
                f"Marginals.from_data(X, y, order={order})."
            )
        check_classes(m.classes, m.target)
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
        rows = CodeBlock(block.codes, block.y, block.sample_weight)
        return from_codes(block.encoder, target, rows, inner)

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
        tags: Any = super().__sklearn_tags__()  # type: ignore[misc]
        for welcome in ("allow_nan", "categorical", "string"):
            setattr(tags.input_tags, welcome, True)
        return tags


class RenyiModel(CountsModel):
    """What `RenyiClassifier` learns, answers and keeps."""

    _kept: TrainingRows | None  # for the next block
    _notes: tuple[Warned, ...]
    _moments: Callable[[], ScoreMoments] | None  # where there are no marginals

    def __init__(
        self,
        order: int = 1,
        alpha: float | str = "auto",
        rule: str = "map",
        fit_intercept: bool = True,
        class_weight: Any = None,
        encoder: Encoder | None = None,
        random_state: Any = None,
    ) -> None:
        self.order = order
        self.alpha = alpha
        self.rule = rule
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.encoder = encoder
        self.random_state = random_state

    # ---- training

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on one more block of rows; the result is that of `fit` on all blocks.

        Labels may appear in any block; bins of numeric columns are those of the first
        block, or of a fitted `encoder`. Rows are kept (as codes) while leave-one-out
        makes use of them, afterwards only their counts.

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
            self.classes_ = np.unique(np.asarray(classes))
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
                "This model keeps no counts to add to, since it was read from a file "
                "or fit() met more categories than rows: begin with partial_fit()."
            )
        else:
            m = self.marginals_ + self._count(block)
            self._fit_counts(m, effective_n=self._effective_n + block.effective_n)
            return self
        self._train_on_rows(block)
        if self._uses_rows(len(block.y), block.effective_n, block.n_indicators):
            self._kept = block
        return self

    def _check_parameters(self) -> None:
        check_choice("rule", self.rule, rules.RULES)
        check_whole("order", self.order, 1)
        check_alpha(self.alpha)
        seed = self.random_state
        if isinstance(seed, numbers.Integral) and not 0 <= int(seed) < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}.")

    def _class_pairs_for(self) -> str | None:
        return None if self.class_weight is None else "class_weight"

    def _train(self, m: Marginals) -> None:
        self._fit_counts(m)
        self._kept, self._notes = None, ()

    def _train_on_rows(self, block: TrainingRows) -> None:
        """Fit by rows or by their counts, whichever are fewer."""
        rows = self._rows(block)
        if block.n_indicators > len(block.y):
            self._fit_dual(block, rows)
        else:
            self._fit_counts(self._count(block), rows, block.effective_n)
        self._kept, self._notes = None, _weight_notes(block)

    def _fit_counted(
        self, m: Marginals, read: Callable[[bool], TrainingRows]
    ) -> TrainingRows | None:
        """Train on counts, and on the rows where `fit` would make use of them."""
        self._begin(m)
        weighed = read(False) if m.weighted else None
        n = m.n if weighed is None else len(weighed.y)
        copies = m.n if weighed is None else weighed.effective_n
        if self._uses_rows(n, copies, int(m.encoder.columns.sizes.sum())):
            return super()._fit_counted(m, read)
        self._fit_counts(m, effective_n=copies)
        self._kept = None
        self._notes = () if weighed is None else _weight_notes(weighed)
        return None

    def _uses_rows(self, n: float, copies: float, D: int) -> bool:
        """Whether n rows of D categories tell more than their counts do."""
        K = len(self.classes_)
        return n < D or ridge.worthwhile(copies, D, K, self.alpha)

    def _rows(self, block: TrainingRows) -> ridge.Rows:
        """Rows with their weights: what each counts in the fit and in the report."""
        sizes, K = block.encoder.columns.sizes, len(self.classes_)
        factors = block.encoder.factors(block.codes)
        if self.class_weight is None and block.sample_weight is None:
            return ridge.Rows(block.codes, sizes, block.y, K, factors=factors)
        mass = block.weights
        counts = np.bincount(block.y, mass, minlength=K).astype(np.float64)
        factor = self._class_factors(counts)[block.y]
        # A weight below 1 is a row by itself, a larger one several copies of a row.
        unit = np.minimum(mass, 1.0) * factor
        return ridge.Rows(
            block.codes, sizes, block.y, K, mass * factor, mass, unit, factors
        )

    def _class_factors(self, counts: Floats) -> Floats:
        weights, classes = self.class_weight, self.classes_
        return column_rules.class_factors(weights, classes, counts)

    def _fit_block(self, block: TrainingRows, other: CountsModel) -> Self:
        """Train on rows that another classifier has checked and encoded."""
        self._check_parameters()
        self.classes_, self._target = other.classes_, other._target
        self._keep_names(block.encoder, hasattr(other, "feature_names_in_"))
        self._train_on_rows(block)
        return self

    def _fit_counts(
        self,
        m: Marginals,
        rows: ridge.Rows | None = None,
        effective_n: float | None = None,
    ) -> None:
        """Fit from marginals of `effective_n` rows, which `rows` serve to leave out."""
        # Weights that sum to 1 leave m.n = 1: rows are counted, where there are any.
        self._effective_n = float(m.n) if effective_n is None else effective_n
        counts, F, priors = m.feature_counts, m.F, m.class_probabilities
        Q = counts / m.n
        if self.class_weight is not None:
            factor = self._class_factors(priors * m.n)
            priors = priors * factor
            total = priors.sum()
            within = np.tensordot(factor, class_pairs(m, "class_weight"), 1)
            Q = sparse_counts.stored(within / (m.n * total), m.columns.sizes)
            F, priors = F * factor / total, priors / total
        equations = ridge.moments(Q, F, priors, self.fit_intercept)
        alpha, n = check_alpha(self.alpha), self._effective_n
        sizes = m.encoder.columns.sizes
        if sparse_counts.is_sparse(Q):
            fit = fit_sparse(equations, sizes, n, alpha, rows)
        else:
            fit = ridge.fit_primal(equations, n, len(sizes), alpha, rows)
        if self.class_weight is not None and fit.choice.error is None:
            # Cross-validated on the weighted classes: no estimate for real rows.
            fit = fit._replace(choice=replace(fit.choice, risk=None))
        self.marginals_ = m
        self._finish(m.encoder, fit, counts.diagonal())

    def _fit_dual(self, block: TrainingRows, rows: ridge.Rows) -> None:
        columns, alpha = block.encoder.columns, check_alpha(self.alpha)
        dual = fit_dual(rows, len(columns), alpha, self.fit_intercept)
        counts = dual.target_counts
        self.marginals_ = None
        totals = sum(counts.T, np.zeros((), counts.dtype))  # of short rows: 10 x faster
        self._finish(block.encoder, dual.fit, totals)
        t = self.scorecard_.per_class(dual.scores) + 1 / len(self.classes_)
        weights = None if block.sample_weight is None else block.weights.copy()
        # Computed when the certificate is asked for, which may be never.
        self._moments = partial(
            moments_of_rows, t, block.y, weights, counts, columns, dual.score_error
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave the classes and scores of single rows out of pickles."""
        state: dict[str, Any] = {**super().__getstate__()}  # type: ignore[dict-item]
        if state.get("_moments") is not None:
            state["_moments"] = partial(copy, state["_moments"]())
        return state

    def _finish(
        self, encoder: Encoder, fit: ridge.RidgeFit, counts: NDArray[Any]
    ) -> None:
        classes, z, b = tuple(self.classes_.tolist()), fit.z, fit.intercept
        if len(classes) == 2:
            z, b = z[:, 0], b[0]
        card = Scorecard(encoder, classes, z, np.asarray(b), counts, self._target)
        self._take(card, fit.choice)

    def _take(self, card: Scorecard, choice: AlphaChoice) -> None:
        """Set the fitted attributes that follow from the scorecard."""
        self._weighted = self.class_weight is not None
        self.scorecard_ = card
        self.encoder_ = card.encoder
        self.z_ = card.z
        self.intercept_ = float(card.intercept) if card.z.ndim == 1 else card.intercept
        self.alpha_choice_ = choice
        self.alpha_ = choice.alpha
        self._certificate: Certificate | None = None
        self._digest: DataDigest | None = None
        self._moments = None

    # ---- prediction

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row; the randomised rules draw it with `random_state`."""
        codes = self._codes(X)
        t = self.scorecard_.estimates(codes)
        best = rules.answers(t, codes, self.rule, self.random_state)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Floats:
        """Estimated class probabilities: the scores, projected on the simplex."""
        return rules.project(self._estimates(X))

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Probability with which the rule answers each class at each row."""
        t = self._estimates(X)
        return rules.rule_proba(t, self.rule if rule is None else rule)

    def _estimates(self, X: Any) -> Floats:
        codes = self._codes(X)  # first: it tells whether there is a model
        return self.scorecard_.estimates(codes)

    def decision_function(self, X: Any) -> Floats:
        """Scores: for two classes s(x), positive for the second; else one per class."""
        codes = self._codes(X)
        scores = self.scorecard_.scores(codes)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(self, X: Any) -> pd.DataFrame:
        """Points that each feature gives each row, and the intercept.

        For two classes the columns are the features and sum to `decision_function`;
        for more, there is such a set of columns for every class.
        """
        import pandas as pd

        codes = self._codes(X)
        points = self.scorecard_.points_of(codes)
        n, _, K = points.shape
        start = np.broadcast_to(self.scorecard_.intercept, (n, 1, K))
        flat = np.concatenate([points, start], axis=1).transpose(0, 2, 1).reshape(n, -1)
        names: Any = [*self.encoder_.feature_names, "intercept"]
        if K > 1:
            names = pd.MultiIndex.from_product([self.classes_.tolist(), names])
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(flat, index=index, columns=names)

    # ---- certificate and file

    @property
    def certificate_(self) -> Certificate:
        """Worst error of the model under every distribution with its marginals."""
        self._check_fitted()
        known = self._certificate
        if known is not None and known.rule != self.rule:  # set_params after fit
            # A model file keeps the bounds of all rules, the steps of one.
            known = known.of_rule(self.rule)
            from_file = self.marginals_ is None and self._moments is None
            self._certificate = known if from_file else None
        if self._certificate is not None:
            return self._certificate
        card, choice, notes = self.scorecard_, self.alpha_choice_, self._notes
        if self._moments is None:
            assert self.marginals_ is not None
            closed = closed_form(card, card.match(self.marginals_))
        else:
            closed = bounds_of_moments(self._moments(), card)
        if self._weighted:
            notes = (("class-weight", text.CLASS_WEIGHT), *notes)
        self._certificate = certificate(
            closed, card, self.rule, choice.risk, choice.error, notes
        )
        return self._certificate

    @property
    def data_digest_(self) -> DataDigest | None:
        """Digest of the training data; None if a model file does not tell."""
        self._check_fitted()
        if self._digest is None and self.marginals_ is not None:
            self._digest = self.marginals_.digest
        elif self._digest is None and self._moments is not None:
            moments = self._moments()
            columns, counts = moments.columns, moments.F
            n = float(counts[: columns.sizes[0]].sum())
            self._digest = class_digest(columns, self.scorecard_.classes, counts, n)
        return self._digest

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file that predicts the same to the last bit."""
        model_file.write(self, path)

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
        return model_file.read(path, cls)


def _weight_notes(block: TrainingRows) -> tuple[Warned, ...]:
    """Return what is to be said of weights that count as many more rows."""
    n, total = len(block.y), float(block.weights.sum())
    return (("sample-weight", text.sample_weight(n, total)),) if total > 2 * n else ()


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
