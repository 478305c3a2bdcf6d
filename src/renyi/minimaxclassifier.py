"""MinimaxClassifier: the rule with the smallest provable worst error, as an estimator.

Trained on marginals, it minimises the worst error itself, over all distributions with
those marginals, where `RenyiClassifier` minimises a quadratic bound on it. The
marginals of a sample are not those of the population; with `margin` = η the rule is
trained, and its guarantee holds, for all marginals that are within η standard errors of
the sample's, which adds ``Σ η |coefficient|`` to what is minimised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from renyi import targets
from renyi.ambiguity import Ambiguity
from renyi.columns import Column, Levels
from renyi.encoding import Encoder
from renyi.factoring import as_table
from renyi.localprogram import solve_local
from renyi.marginals import Marginals
from renyi.saddle import MinimaxResult, MinimaxRule, answer_proba, minimax
from renyi.sources import rows as source

Floats = NDArray[np.float64]


class MinimaxClassifier(ClassifierMixin, BaseEstimator):
    """Classifier with the smallest worst error that the marginals allow to prove.

    Parameters
    ----------
    method : {"lp", "exact", "auto"}, default="lp"
        How the minimax problem is solved; see `minimax`. "lp" scales to hundreds of
        categories.
    margin : float, default=0.0
        Standard errors by which every marginal probability may be off. Regularises,
        and widens the guarantee to all those marginals; with method="lp" only.
    class_conditional : bool, default=False
        Use the pairs of features within each class: a stronger guarantee, from more
        counts.
    encoder : Encoder, optional
        How cells become categories.
    time_limit : float, optional
        Seconds for the solver.
    random_state : int or None, default=None
        Seed of the search for cuts of method="exact".

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    guarantee_ : float
        Proven worst error of `rule_proba` over all distributions with the marginals
        (and, with `margin`, all marginals near them). That of `predict` is at most
        twice as large.
    rule_ : MinimaxRule
        The rule.
    result_ : MinimaxResult or None
        The interval around the minimax error; None with a margin.
    marginals_ : Marginals
        The counts behind the model.
    encoder_ : Encoder
        The fitted encoder.
    n_features_in_, feature_names_in_
        Number and names of the features.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = MinimaxClassifier().fit(X, y)
    >>> round(clf.guarantee_, 5)
    0.04368
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    """

    def __init__(
        self,
        method: str = "lp",
        margin: float = 0.0,
        class_conditional: bool = False,
        encoder: Encoder | None = None,
        time_limit: float | None = None,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.margin = margin
        self.class_conditional = class_conditional
        self.encoder = encoder
        self.time_limit = time_limit
        self.random_state = random_state

    # ---- training

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MinimaxClassifier:
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
        if y is None:
            raise ValueError(
                "MinimaxClassifier requires y to be passed, but the target y is None."
            )
        table, labels, mass = self._checked(X, y, sample_weight)
        settings = Encoder() if self.encoder is None else self.encoder
        self.classes_, codes_y = targets.distinct(labels)
        targets.check_classes(self.classes_, settings.missing)
        encoder, codes = settings.fit_transform(table, mass)
        name = targets.target_name(y, encoder.columns.names)
        target = Column(name, Levels("label", tuple(self.classes_.tolist())))
        conditional = self.class_conditional
        self._train(
            source.from_codes(encoder, codes, target, codes_y, conditional, mass)
        )
        return self

    def _checked(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, NDArray[Any], Floats | None]:
        """Return table, labels and weights, without rows of weight zero."""
        table = as_table(X)
        validate_data(self, X, skip_check_array=True)
        labels = targets.checked_labels(y, table.shape[0])
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
        mass = source.checked_weights(sample_weight, len(labels))
        if mass is not None and not mass.all():
            kept = np.flatnonzero(mass)
            table = source.take_rows(table, kept)
            labels, mass = labels[kept], mass[kept]
        return table, labels, mass

    def fit_marginals(self, m: Marginals) -> MinimaxClassifier:
        """Train on marginals; the same answer as `fit` on their rows.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> m = renyi.Marginals.from_data(X, y)
        >>> clf = MinimaxClassifier().fit_marginals(m)
        >>> round(clf.guarantee_, 5)
        0.04368
        """
        targets.refuse_missing_class(m)
        if self.class_conditional and m.class_counts is None:
            raise ValueError(
                "class_conditional=True needs the pair counts within each class: build "
                "the marginals with class_conditional=True."
            )
        self.classes_ = np.asarray(m.classes)
        targets.need_two_classes(self.classes_)
        names = m.feature_names
        self.n_features_in_ = len(names)
        if names != tuple(f"x{j}" for j in range(len(names))):
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._train(m)
        return self

    def _train(self, m: Marginals) -> None:
        if not self.margin >= 0:
            raise ValueError(f"margin must not be negative; it is {self.margin!r}.")
        if m.encoder.columns.sizes.max(initial=0) < 2:
            raise ValueError(
                "No usable column is left: every column has the same value in all rows."
            )
        self.result_: MinimaxResult | None = None
        if self.margin:
            self.rule_ = self._regularised(m)
        else:
            self.result_ = minimax(
                m,
                self.method,
                time_limit=self.time_limit,
                class_conditional=self.class_conditional,
                random_state=self.random_state or 0,
            )
            self.rule_ = self.result_.rule
        self.marginals_ = m
        self.encoder_ = m.encoder

    def _regularised(self, m: Marginals) -> MinimaxRule:
        """Solve the polynomial program with room for noise."""
        if self.method != "lp":
            raise ValueError(
                f"margin needs method='lp', not {self.method!r}: set margin to 0."
            )
        ambiguity = Ambiguity.of(m, self.class_conditional)
        found = solve_local(ambiguity, self._room(ambiguity, m.n), self.time_limit)
        if not np.isfinite(found.value):
            raise ValueError(
                "No rule was found within the time limit: allow more of it, or use "
                "fewer columns."
            )
        return MinimaxRule(ambiguity, found.multiplier, found.value, m.encoder)

    def _room(self, ambiguity: Ambiguity, n: float) -> Floats:
        """How far each probability may be off; an empty cell as if it had one row."""
        b = ambiguity.b
        variance = np.maximum(b * (1 - b), 1 / n) / n
        return np.asarray(self.margin * np.sqrt(variance))

    # ---- prediction

    @property
    def guarantee_(self) -> float:
        """Proven worst error of `rule_proba`; that of `predict` is at most twice it."""
        check_is_fitted(self)
        return self.rule_.guarantee

    def _functions(self, X: Any) -> Floats:
        check_is_fitted(self)
        as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.rule_.functions(self.encoder_.transform(X))

    def rule_proba(self, X: Any) -> Floats:
        """Probability with which the rule answers each class at each row."""
        return answer_proba(self._functions(X))

    def predict_proba(self, X: Any) -> Floats:
        """Return `rule_proba`: how the rule answers, not how likely each class is."""
        return self.rule_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable answer of the rule at each row; nothing is drawn."""
        best = self._functions(X).argmin(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "rule_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
