"""RenyiClassifier: the façade over encoder, marginals, ridge, rule and certificate."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from renyi import rules
from renyi.certificates import text
from renyi.certificates.closed_form import bounds_of_moments, closed_form
from renyi.certificates.record import Certificate
from renyi.certificates.score_moments import ScoreMoments, moments_of_rows
from renyi.certification import Warned, certificate
from renyi.encoding import targets
from renyi.encoding.encoder import Encoder
from renyi.estimators.counts_classifier import (
    TrainingRows,
    TupleClassifier,
    class_pairs,
)
from renyi.marginals.digest import DataDigest, class_digest
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.solvers import ridge
from renyi.solvers.alpha import AlphaChoice, check_alpha
from renyi.solvers.ridge_dual import fit_dual

if TYPE_CHECKING:
    import os

    import pandas as pd

Floats = NDArray[np.float64]


class RenyiClassifier(TupleClassifier):
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
        marginals.
    encoder : Encoder, optional
        How cells become categories.
    random_state : int, RandomState instance or None, default=None
        Seed of the randomised rules. With an integer a row gets the same answer
        whenever it is asked for.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    z_ : ndarray of shape (D,), or (D, K) for K > 2 classes
        Points of every category; for two classes those of the second one.
    intercept_ : float, or ndarray of shape (K,)
        Score before any points.
    alpha_ : float
        The penalty used.
    alpha_choice_ : AlphaChoice
        How it was chosen.
    scorecard_ : Scorecard
        The model as a table of points.
    certificate_ : Certificate
        The worst error of the model; computed when first asked for.
    encoder_ : Encoder
        The fitted encoder.
    marginals_ : Marginals or None
        The counts behind the model; None if there were more categories than rows.
    data_digest_ : DataDigest or None
        Digest of the training data, as in ``m.digest``; None if a model file of before
        digests does not tell.
    n_features_in_, feature_names_in_
        Number and names of the features.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    >>> round(clf.certificate_.gamma, 4)
    0.0305
    """

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

    def _train_on_rows(self, block: TrainingRows) -> None:
        self._kept: TrainingRows | None = None
        self._fit_rows(block)

    def _fit_block(
        self,
        block: TrainingRows,
        classes: NDArray[Any],
        target: str,
        names: NDArray[Any] | None,
    ) -> Self:
        """Train on rows that another estimator has checked and encoded.

        `names` are those of the columns of the table, if they have any.
        """
        self._check_parameters()
        self.classes_, self._target = classes, target
        self.n_features_in_ = len(block.encoder.input_names)
        if names is not None:
            self.feature_names_in_ = names
        self._train_on_rows(block)
        return self

    def _train(self, m: Marginals) -> None:
        self._notes: tuple[Warned, ...] = ()
        self._kept = None
        self._fit_counts(m)

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
            targets.check_class_labels(self.classes_, self._settings().missing)
        settings = self._settings() if first else self.encoder_
        encoder, codes = settings.fit_transform(X, weights, refuse_identifiers=False)
        codes_y = targets.codes_among(self.classes_, labels)
        block = TrainingRows(encoder, codes.copy(), codes_y, weights)
        if first:
            self._target = targets.target_name(y, encoder.input_names)
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
        self._fit_rows(block)
        used = self._on_rows(block) or len(block.y) < block.n_indicators
        self._kept = block if used else None
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_alpha(self.alpha)
        seed = self.random_state
        if isinstance(seed, numbers.Integral) and not 0 <= int(seed) < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}.")

    def _class_pairs_for(self) -> str | None:
        return None if self.class_weight is None else "class_weight"

    def _on_rows(self, block: TrainingRows) -> bool:
        rows = self._rows(block)
        return ridge.worthwhile(rows, block.n_indicators, self.alpha)

    def _fit_rows(self, block: TrainingRows) -> None:
        self._notes = block.weight_warning
        if block.n_indicators > len(block.y):
            self._fit_dual(block)
        else:
            m = self._count(block)
            self._fit_counts(m, self._rows(block), block.effective_n)

    def _rows(self, block: TrainingRows) -> ridge.Rows:
        return block.ridge_rows(self.classes_, self.class_weight)

    def _fit_counts(
        self,
        m: Marginals,
        rows: ridge.Rows | None = None,
        effective_n: float | None = None,
    ) -> None:
        """Fit from marginals of `effective_n` rows, which `rows` serve to leave out."""
        # Weights that sum to 1 leave m.n = 1: rows are counted, where there are any.
        self._effective_n = float(m.n) if effective_n is None else effective_n
        Q, F, priors = self._training_moments(m)
        equations = ridge.moments(Q, F, priors, self.fit_intercept)
        alpha = check_alpha(self.alpha)
        d = len(m.feature_names)
        fit = ridge.fit_primal(equations, self._effective_n, d, alpha, rows)
        if self.class_weight is not None and fit.choice.error is None:
            # Cross-validated on the weighted classes: no estimate for real rows.
            fit = fit._replace(choice=replace(fit.choice, risk=None))
        self.marginals_: Marginals | None = m
        self._class_counts: NDArray[Any] | None = None
        self._digest: DataDigest | None = None
        self._finish(m.encoder, fit, np.diag(m.feature_counts))

    def _training_moments(self, m: Marginals) -> tuple[Floats, Floats, Floats]:
        """Q, F and class probabilities, with the classes weighted if asked."""
        if self.class_weight is None:
            return m.Q, m.F, m.class_probabilities
        inner = class_pairs(m, "class_weight")
        counts = m.class_probabilities * m.n
        factor = targets.class_factors(self.class_weight, self.classes_, counts)
        priors = m.class_probabilities * factor
        total = priors.sum()
        Q = np.tensordot(factor, inner, 1) / (m.n * total)
        return Q, m.F * factor / total, priors / total

    def _fit_dual(self, block: TrainingRows) -> None:
        rows = self._rows(block)
        columns = block.encoder.columns
        alpha = check_alpha(self.alpha)
        dual = fit_dual(rows, len(columns), alpha, self.fit_intercept)
        counts = dual.target_counts
        self.marginals_, self._class_counts, self._digest = None, counts, None
        totals = sum(counts.T, np.zeros((), counts.dtype))  # of short rows: 10 x faster
        self._finish(block.encoder, dual.fit, totals)
        t = self.scorecard_.per_class(dual.scores) + 1 / len(self.classes_)
        self._moments: ScoreMoments | None = moments_of_rows(
            t, block.y, block.sample_weight, counts, columns, dual.score_error
        )

    def _finish(
        self, encoder: Encoder, fit: ridge.RidgeFit, counts: NDArray[Any]
    ) -> None:
        binary = len(self.classes_) == 2
        z = fit.z[:, 0] if binary else fit.z
        intercept = fit.intercept[0] if binary else fit.intercept
        classes = tuple(self.classes_.tolist())
        card = Scorecard(
            encoder, classes, z, np.asarray(intercept), counts, self._target
        )
        self._take(card, fit.choice)

    def _take(self, card: Scorecard, choice: AlphaChoice) -> None:
        """Set the fitted attributes that follow from the scorecard."""
        # Before a model file is believed; a fit did so before.
        targets.class_factors(self.class_weight, self.classes_, np.ones(card.n_classes))
        self._weighted = self.class_weight is not None
        self.scorecard_ = card
        self.encoder_ = card.encoder
        self.z_ = card.z
        self.intercept_ = float(card.intercept) if card.z.ndim == 1 else card.intercept
        self.alpha_choice_ = choice
        self.alpha_ = choice.alpha
        self._certificate: Certificate | None = None
        self._moments = None

    # ---- prediction

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row; the randomised rules draw it with `random_state`."""
        codes = self._codes(X)
        t = self.scorecard_.estimates(codes)
        if rules.check_rule(self.rule) == "map":
            return np.asarray(self.classes_[rules.decide(t)])
        proba = rules.rule_proba(t, self.rule)
        drawn = rules.draw(proba, rules.row_keys(codes), self.random_state)
        return np.asarray(self.classes_[drawn])

    def predict_proba(self, X: Any) -> Floats:
        """Estimated class probabilities: the scores, projected on the simplex."""
        codes = self._codes(X)
        return rules.project(self.scorecard_.estimates(codes))

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Probability with which the rule answers each class at each row."""
        codes = self._codes(X)
        t = self.scorecard_.estimates(codes)
        return rules.rule_proba(t, self.rule if rule is None else rule)

    def decision_function(self, X: Any) -> Floats:
        """Scores: for two classes s(x), positive for the second; else one per class."""
        codes = self._codes(X)
        scores = self.scorecard_.scores(codes)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(self, X: Any) -> pd.DataFrame:
        """Points that each feature gives each row, and the intercept.

        For two classes the columns are the features and sum to `decision_function`;
        for more, there is such a set of columns for every class.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> why = clf.explain(X[:2])
        >>> np.allclose(why.sum(axis=1), clf.decision_function(X[:2]))
        True
        """
        import pandas as pd

        codes = self._codes(X)
        points = self.scorecard_.points_of(codes)
        names = [*self.encoder_.feature_names, "intercept"]
        start = np.broadcast_to(
            np.atleast_1d(self.intercept_), (len(points), 1, points.shape[2])
        )
        table = np.concatenate([points, start], axis=1)
        index = X.index if isinstance(X, pd.DataFrame) else None
        if points.shape[2] == 1:
            return pd.DataFrame(table[:, :, 0], index=index, columns=names)
        labels = pd.MultiIndex.from_product([self.classes_.tolist(), names])
        flat = table.transpose(0, 2, 1).reshape(len(table), -1)
        return pd.DataFrame(flat, index=index, columns=labels)

    # ---- certificate and file

    @property
    def certificate_(self) -> Certificate:
        """Worst error of the model under every distribution with its marginals."""
        check_is_fitted(self)
        known = self._certificate
        if known is not None and known.rule != self.rule:  # set_params after fit
            # A model file keeps the bounds of all rules, the steps of one.
            known = replace(known, rule=self.rule, steps=())
            from_file = self.marginals_ is None and self._moments is None
            self._certificate = known if from_file else None
        if self._certificate is None:
            self._certificate = self._certified()
        return self._certificate

    def _certified(self) -> Certificate:
        card, choice = self.scorecard_, self.alpha_choice_
        if self._moments is None:
            assert self.marginals_ is not None
            closed = closed_form(card, card.match(self.marginals_))
        else:
            closed = bounds_of_moments(self._moments, card)
        notes = self._notes
        if self._weighted:
            notes = (("class-weight", text.CLASS_WEIGHT), *notes)
        return certificate(closed, card, self.rule, choice.risk, choice.error, notes)

    @property
    def data_digest_(self) -> DataDigest | None:
        """Digest of the training data; None if a model file does not tell."""
        check_is_fitted(self)
        if self._digest is None and self.marginals_ is not None:
            self._digest = self.marginals_.digest
        elif self._digest is None and self._class_counts is not None:
            columns, classes = self.encoder_.columns, tuple(self.classes_.tolist())
            counts = self._class_counts
            n = float(counts[: columns.sizes[0]].sum())
            self._digest = class_digest(columns, classes, counts, n)
        return self._digest

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file that predicts the same to the last bit."""
        from renyi.estimators import model_file

        model_file.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RenyiClassifier:
        """Read a model that `save` wrote; the file may come from a stranger.

        >>> import os, tempfile
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> place = os.path.join(tempfile.mkdtemp(), "votes.json")
        >>> clf.save(place)
        >>> again = renyi.RenyiClassifier.load(place)
        >>> bool((again.decision_function(X) == clf.decision_function(X)).all())
        True
        """
        from renyi.estimators import model_file

        return model_file.read(path, cls)
