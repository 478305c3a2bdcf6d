"""Fitting: from encoded rows, or from pair counts, to a `Fit`, the trained model.

``fit_rows(rows, settings)`` and ``fit_counts(m, settings)`` solve the ridge problem
from moments, or from rows where categories outnumber them. Both return a frozen `Fit`.
The estimators, the command line and the model file work with it. It needs no
scikit-learn, and its attributes have the names of a fitted classifier's, so that
`renyi.certify` and the report take either.

Probabilities are calibrated, and the certificate is computed, on first use: a pickle
stores the results and no scores of single rows, as the model file does.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates import text
from renyi.certificates.closed_form import (
    ClosedForm,
    ScoreMoments,
    bounds_of_moments,
    closed_form,
    moments_of_rows,
)
from renyi.certificates.left_out import (
    LeftOutError,
    left_out_details,
    left_out_error,
)
from renyi.certificates.record import Certificate
from renyi.certification import Warned, certificate
from renyi.counting import sparse_counts
from renyi.counting.onehot import lookup_sum, offsets
from renyi.counting.sparse_counts import Table
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import Column, Label, Levels, numbered_names
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import SAMPLE, RowSample, TrainingRows
from renyi.marginals.consistency import check_possible, class_pairs
from renyi.marginals.file import DataDigest, class_digest
from renyi.marginals.marginals import Marginals, count_rows
from renyi.scorecard import Scorecard, moved_to, threshold_at
from renyi.solvers import calibration as maps
from renyi.solvers import ridge
from renyi.solvers.calibration import Calibration, PairMoments
from renyi.solvers.ridge import AlphaChoice, LeftOut
from renyi.solvers.ridge_dual import DualFit, fit_dual
from renyi.solvers.ridge_sparse import beats_dual, fit_sparse
from renyi.validation import InputError, check_choice, check_share, check_whole

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Codes = NDArray[Any]
ClassWeight: TypeAlias = Mapping[Label, float] | str | None
Seed: TypeAlias = int | np.random.RandomState | None
_WEIGHING = "Weighing the classes"

OBJECTIVES = ("error", "ranking")
_FOLDS = 10
_FOLD_ROWS = 400  # by K² coefficients of a calibration: with more, no folds
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Settings:
    """The parameters of a fit; see `RenyiClassifier` for their meaning.

    With `class_conditional`, pairs within each class are counted and certified, even if
    no other setting needs them.
    """

    order: int = 1
    alpha: float | str = "auto"
    rule: str = "map"
    fit_intercept: bool = True
    class_weight: ClassWeight = None
    random_state: Seed = None
    calibration: str | None = "auto"
    objective: str = "error"
    class_conditional: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_choice("rule", self.rule, rules.RULES)
        check_whole("order", self.order, 1)
        ridge.check_alpha(self.alpha)
        check_choice("objective", self.objective, OBJECTIVES)
        plain = self.class_weight is None and self.fit_intercept
        if self.objective == "ranking" and not plain:
            name = "fit_intercept" if self.class_weight is None else "class_weight"
            raise InputError(
                f"{{objective}} cannot be used with {{{name}}}: a ranking depends "
                "neither on the classes' shares nor on an intercept.",
                objective="ranking",
                **{name: getattr(self, name)},
            )
        check_choice("calibration", self.calibration, maps.CALIBRATIONS)
        seed = self.random_state
        if isinstance(seed, numbers.Integral) and not 0 <= int(seed) < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}.")

    @property
    def class_pairs_reason(self) -> str | None:
        """Name what needs the pairs within each class; None if nothing does."""
        if self.objective == "ranking":
            return "The objective 'ranking'"
        if self.class_weight is not None:
            return _WEIGHING
        return "Counting by class" if self.class_conditional else None

    @property
    def weighting(self) -> ClassWeight:
        """Weights of the classes in the fit; equal ones give the best ranking."""
        return "balanced" if self.objective == "ranking" else self.class_weight

    def class_factors(self, classes: NDArray[Any], counts: Floats) -> Floats:
        """Return the weight of each class, given the rows of each."""
        return column_rules.class_factors(self.weighting, classes, counts)


class ScoredRows(NamedTuple):
    """Scores of training rows, for a certificate where pairs were not counted."""

    scores: Floats
    y: NDArray[Any]
    sample_weight: Floats | None
    counts: NDArray[Any]  # of category and class
    score_error: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained model: its scorecard, how alpha was chosen, and what certifies it.

    Parameters
    ----------
    settings : Settings
        The parameters.
    target : str
        Name of the column that it predicts.
    points : Scorecard
        The scorecard before calibration.
    choice : AlphaChoice
        How alpha was chosen, before calibration.
    marginals_ : Marginals or None
        The pair counts; None if there were more categories than rows, or if the model
        was read from a file.
    effective_n : float
        Number of rows; a row of weight 2 counts twice.
    named : bool
        Whether the columns of the training table had names.
    notes : tuple of (code, sentence)
        Warnings that the certificate contains.
    left_out : LeftOut or None
        Rows as a model sees them that was trained without each.
    leverage : float
        Mean leverage of the rows.
    pairs : PairMoments or None
        Moments of the scores, if they calibrate.
    rows : ScoredRows or None
        What certifies the model where there are no marginals.
    stored_certificate, stored_digest, stored_details
        Those of a model file, or of two halves of the rows.
    heldout : Certificate or None
        What rows prove that were held out of the training.
    fold_rows : TrainingRows or None
        The rows, if folds evaluate a calibration that decides.
    """

    settings: Settings
    target: str
    points: Scorecard
    choice: AlphaChoice
    marginals_: Marginals | None = None
    effective_n: float = 0.0
    named: bool = True
    notes: tuple[Warned, ...] = ()
    left_out: LeftOut | None = None
    leverage: float = 0.0
    pairs: PairMoments | None = None
    rows: ScoredRows | None = None
    stored_certificate: Certificate | None = None
    stored_digest: DataDigest | None = None
    stored_details: dict[str, Any] | None = None
    heldout: Certificate | None = None
    fold_rows: TrainingRows | None = None

    def __reduce__(self) -> tuple[Callable[..., Fit], tuple[Any, ...]]:
        """Pickle what the model file contains."""
        return restored, (
            self.settings,
            self.scorecard_,
            self.alpha_choice_,
            self.certificate_,
            self.data_digest_,
            self.named,
            self.heldout,
            self.left_out_details,
        )

    def __deepcopy__(self, memo: object) -> Fit:
        """Return the record itself: it cannot change."""
        return self

    # ---- what was learned

    @property
    def rule(self) -> str:
        """How an answer follows from the scores."""
        return self.settings.rule

    @property
    def random_state(self) -> Seed:
        """Seed of the randomised rules."""
        return self.settings.random_state

    @property
    def encoder_(self) -> Encoder:
        """The fitted encoder."""
        return self.points.encoder

    @cached_property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return column_rules.class_array(self.points.classes)

    @cached_property
    def scorecard_(self) -> Scorecard:
        """The model as a table of points, calibrated."""
        calibration = self._calibration()
        if calibration is None:
            return self.points
        return replace(self.points, calibration=calibration)

    @cached_property
    def alpha_choice_(self) -> AlphaChoice:
        """How alpha was chosen, with the left-out error of the calibrated answers."""
        choice = self.choice
        rows = self.left_out
        calibration = self.scorecard_.calibration
        moved = calibration is not None and calibration.moves_decisions
        if not moved or rows is None or choice.error is None:
            return choice
        assert calibration is not None
        answers = rules.decide(calibration.of(rows.scores))
        error = rows.sample_weight @ (answers != rows.y) / rows.sample_weight.sum()
        return replace(choice, error=float(error))

    @cached_property
    def _answered(self) -> LeftOut | None:
        """The left-out rows, with the scores of folds where a calibration decides.

        The calibration was fitted to the left-out scores, each of which depends on the
        class of its row. So with few rows, answers by it would look too good.
        """
        rows = self.left_out
        calibration = self.scorecard_.calibration
        if (
            self.fold_rows is None
            or rows is None
            or calibration is None
            or not calibration.moves_decisions
        ):
            return rows
        return rows._replace(
            mapped=_fold_scores(self.fold_rows, self.settings, self.choice.alpha)
        )

    def _calibration(self) -> Calibration | None:
        rows = self.left_out
        K = self.points.n_classes
        kind = _calibration_kind(self.settings.calibration, K, rows)
        if kind == "discriminant":
            if self.pairs is None:  # read from a file
                return self.points.calibration
            chosen = self.settings.calibration == "discriminant"  # as from counts
            leverage = self.leverage if rows is None or chosen else rows.leverage
            calibration = maps.discriminant(self.pairs, leverage)
            if calibration is None and rows is not None:  # fitted alone, one by one
                calibration = maps.temperature(rows, K)
            return calibration or maps.ANY
        if kind is None or rows is None:
            return self.points.calibration
        return (maps.temperature if kind == "temperature" else maps.affine)(rows, K)

    # ---- answers to rows, as codes of the encoder

    def answers(self, codes: Codes, prevalence: float | None = None) -> NDArray[Any]:
        """Return the place of each row's class; see `RenyiClassifier.predict`."""
        card = self.scorecard_.of_rule(self.rule)
        if prevalence is not None:
            if self.rule != "map":
                raise InputError(
                    "{prevalence} moves the threshold of rule 'map', but this model "
                    f"has rule {self.rule!r}: leave it out, or train with rule 'map'.",
                    prevalence=prevalence,
                )
            card = moved_to(card, self.odds(prevalence))
        return rules.answers(card.estimates(codes), codes, self.rule, self.random_state)

    def probabilities(self, codes: Codes, prevalence: float | None = None) -> Floats:
        """Return class probabilities; see `RenyiClassifier.predict_proba`."""
        card = self.scorecard_
        if prevalence is None:
            return card.probabilities(codes)
        odds = self.odds(prevalence)
        moved = moved_to(card, odds)
        if card.calibration is not None:
            return moved.probabilities(codes)
        best = rules.decide(moved.estimates(codes))
        return rules.reweighted(card.probabilities(codes), odds, best)

    def scores(self, codes: Codes) -> Floats:
        """Return the score of the second of two classes, or one score per class."""
        scores = self.scorecard_.mapped.scores(codes)
        return scores[:, 0] if self.points.n_classes == 2 else scores

    def explanation(
        self, codes: Codes, index: pd.Index[Any] | None = None
    ) -> pd.DataFrame:
        """Return the points of each feature; see `RenyiClassifier.explain`."""
        import pandas as pd

        card = self.scorecard_.mapped
        points = card.points_of(codes)
        n, _, K = points.shape
        start = np.broadcast_to(card.intercept, (n, 1, K))
        flat = np.concatenate([points, start], axis=1).transpose(0, 2, 1).reshape(n, -1)
        names: Any = [*self.encoder_.feature_names, "intercept"]
        if K > 1:
            names = pd.MultiIndex.from_product([self.classes_.tolist(), names])
        return pd.DataFrame(flat, index=index, columns=names)

    def threshold(self, prevalence: float) -> float:
        """Return the score above which the second class is answered."""
        return threshold_at(self.scorecard_, self.odds(prevalence))

    def odds(self, prevalence: float) -> float:
        """Return the odds of the second class at a prevalence by those in training."""
        check_share("prevalence", prevalence)
        labels = self.classes_.tolist()
        majority = self.certificate_.majority
        if len(labels) != 2:
            raise InputError(
                f"{{prevalence}} is for two classes, but there are {len(labels)}: "
                "leave it out.",
                prevalence=prevalence,
            )
        if majority is None or majority[0] not in labels or not 0 < majority[1] < 1:
            raise InputError(
                "{prevalence} cannot be applied: this model does not store the shares "
                "of the classes in training. The mean of two halves never does: train "
                "one model on all rows.",
                prevalence=prevalence,
            )
        label, others = majority
        shares = np.array([others, others])
        shares[labels.index(label)] = 1 - others
        if self.settings.class_weight is not None:
            shares *= self.settings.class_factors(self.classes_, shares)
        odds = float(prevalence / (1 - prevalence) * shares[0] / shares[1])
        return max(odds, sys.float_info.min)

    # ---- certificate

    @cached_property
    def certificate_(self) -> Certificate:
        """Guarantee of the model, on every population with its pair counts."""
        if self.stored_certificate is not None:
            # A model file has the bounds of all rules, the steps of one.
            return self.stored_certificate.of_rule(self.rule)
        choice = self.alpha_choice_
        notes = self.notes
        if self.settings.class_weight is not None:
            notes = (("class-weight", text.CLASS_WEIGHT), *notes)
        rows = self._answered
        if rows is not None and not rows.complete:
            notes = (*notes, ("no-left-out", text.NO_LEFT_OUT))
        elif rows is not None and rows.mapped is not None and self.rule == "map":
            notes = (*notes, ("folds", text.FOLDS))
        return certificate(
            self._closed_form(),
            self.scorecard_,
            self.rule,
            choice.risk,
            self.left_out_error,
            notes,
            effective_n=self.effective_n,
        )

    @property
    def left_out_error(self) -> LeftOutError | None:
        """Error of the model's rule on left-out rows; None without rows."""
        if self._answered is None:
            return None
        return left_out_error(self._answered, self.scorecard_, self.rule)

    @property
    def left_out_details(self) -> dict[str, Any] | None:
        """Errors by class, AUC and log loss on left-out rows; None without rows."""
        if self._answered is None or self.left_out_error is None:
            return self.stored_details
        return left_out_details(self._answered, self.scorecard_, self.rule)

    def _closed_form(self) -> ClosedForm:
        card = self.scorecard_
        if self.marginals_ is not None:
            return closed_form(card, card.match(self.marginals_))
        moments, mapped = self._row_moments
        return bounds_of_moments(moments, card, mapped)

    @cached_property
    def _row_moments(self) -> tuple[ScoreMoments, ScoreMoments | None]:
        """Moments of rows' estimates, and of mapped ones where these decide."""
        rows = self.rows
        assert rows is not None
        card = self.scorecard_
        K = card.n_classes

        def moments(t: Floats, error: float) -> ScoreMoments:
            return moments_of_rows(
                t,
                rows.y,
                rows.sample_weight,
                rows.counts,
                card.encoder.columns,
                error,
                self.settings.class_pairs_reason is not None,
            )

        error = rows.score_error + card.score_error
        own = moments(card.per_class(rows.scores) + 1 / K, error)
        calibration = card.calibration
        if calibration is None or not calibration.moves_decisions:
            return own, None
        # What rounding does to a score, and to points that are multiplied by the slope.
        error = error + K * card.score_error
        error *= float(np.abs(calibration.slope).sum(axis=0).max())
        return own, moments(calibration.of(rows.scores) + 1 / K, error)

    @cached_property
    def data_digest_(self) -> DataDigest | None:
        """Digest of the training data; None if it is not known."""
        if self.stored_digest is not None:
            return self.stored_digest
        if self.marginals_ is not None:
            return self.marginals_.digest
        if self.rows is None:
            return None
        moments, _ = self._row_moments
        columns = moments.columns
        counts = moments.F
        n = float(counts[: columns.sizes[0]].sum())
        return class_digest(columns, self.points.classes, counts, n)


def restored(
    settings: Settings,
    card: Scorecard,
    choice: AlphaChoice,
    certificate: Certificate | None,
    digest: DataDigest | None,
    named: bool,
    heldout: Certificate | None = None,
    details: dict[str, Any] | None = None,
) -> Fit:
    """Return the `Fit` of a calibrated scorecard whose rows are not at hand."""
    assert card.target is not None
    return Fit(
        settings,
        card.target,
        card,
        choice,
        named=named,
        stored_certificate=certificate,
        stored_digest=digest,
        stored_details=details,
        heldout=heldout,
    )


# ---- training


def encoded_rows(
    table: object,
    labels: NDArray[Any],
    weights: Floats | None,
    encoder: Encoder,
    y: object,
) -> TrainingRows:
    """Return a table as codes of an encoder that learned from it.

    `labels` are the classes as an array, of which `y` may know the name.
    """
    classes, y_codes = column_rules.distinct(labels)
    column_rules.check_class_labels(classes, encoder.missing)
    encoder, codes = encoder.fit_transform(table, weights)
    check_usable(encoder)
    target = target_column(y, encoder, classes)
    return TrainingRows(encoder, target, codes, y_codes, weights)


def target_column(y: object, encoder: Encoder, classes: NDArray[Any]) -> Column:
    """Return the target as a column, with a name that no feature has."""
    name = column_rules.target_name(y, encoder.input_names)
    return Column(name, Levels("label", tuple(classes.tolist())))


def fit_rows(rows: TrainingRows, settings: Settings) -> Fit:
    """Train on encoded rows, directly or by their counts, whichever costs less."""
    classes = column_rules.class_array(rows.target.categories)
    weighed = _weighed_rows(rows, settings, classes)
    dual = rows.n_indicators > weighed.n
    if dual and settings.weighting is None:
        dual = not beats_dual(rows.encoder.columns.sizes, weighed.n, settings.alpha)
    notes = weight_notes(rows)
    if dual:
        return _fit_dual(rows, weighed, settings, notes)
    sample = RowSample.of(rows).rows
    m = count_rows(rows, settings.class_pairs_reason is not None)
    return _fit_primal(m, settings, weighed, rows.effective_n, sample, notes)


def fit_counts(
    m: Marginals,
    settings: Settings,
    *,
    effective_n: float | None = None,
    sample: TrainingRows | None = None,
    notes: tuple[Warned, ...] = (),
) -> Fit:
    """Train on pair counts.

    Parameters
    ----------
    m : Marginals
        The pair counts.
    settings : Settings
        The parameters.
    effective_n : float, optional
        Number of rows, if it is known; `m.n` by default. Weights may sum to 1.
    sample : TrainingRows, optional
        A sample of the rows that were counted. It calibrates probabilities, and each
        of its rows is left out to estimate the error.
    notes : tuple of (code, sentence)
        Warnings for the certificate.
    """
    check_counts(m, settings)
    fit = _fit_primal(m, settings, None, effective_n, sample, notes)
    return replace(fit, named=has_names(m.encoder))


def has_names(encoder: Encoder) -> bool:
    """Whether the columns have names, and not the numbers of an array's columns."""
    names = tuple(encoder.input_names)
    return names != numbered_names(len(names))


def check_counts(m: Marginals, settings: Settings) -> None:
    """Raise an error unless a model with these settings can learn from the counts."""
    if not isinstance(m, Marginals):
        raise TypeError(
            f"fit_marginals takes Marginals, not a {type(m).__name__}: count rows "
            "with Marginals.from_data, or use fit."
        )
    order = settings.order
    if order != m.order:
        raise ValueError(
            f"The marginals have order {m.order}, but the model has order {order}: "
            f"count with order={order}, as in Marginals.from_data(X, y, order={order})."
        )
    column_rules.check_classes(m.classes, m.target)
    check_usable(m.encoder)
    reason = settings.class_pairs_reason
    if reason is not None:
        class_pairs(m, reason)
    check_possible(m)


def uses_rows(
    n: float, effective_n: float, n_indicators: int, n_classes: int, settings: Settings
) -> bool:
    """Whether n rows contain more than their counts do, for this training."""
    few = n < n_indicators
    return few or ridge.worthwhile(effective_n, n_indicators, n_classes, settings.alpha)


def weight_notes(rows: TrainingRows) -> tuple[Warned, ...]:
    """Return the warning about weights that count as many more rows, if they do."""
    n = len(rows.y)
    total = float(rows.weights.sum())
    return (("sample-weight", text.sample_weight(n, total)),) if total > 2 * n else ()


def _check_calibration(settings: Settings, K: int, has_rows: bool) -> None:
    """Raise an error if objective or calibration need other classes, or rows."""
    kind = settings.calibration
    if settings.objective == "ranking" and K > 2:
        raise InputError(
            f"{{objective}} is for two classes, but there are {K}: use 'error', or "
            "one class against the rest.",
            objective="ranking",
        )
    if K == 2 and kind in ("affine", "discriminant"):
        raise InputError(
            "{calibration} is for three classes or more, but there are two: use "
            "'temperature', which changes no decision.",
            calibration=kind,
        )
    if not has_rows and kind in ("temperature", "affine"):
        raise InputError(
            "{calibration} needs the rows, but only marginals are given: use 'auto', "
            "or for three classes or more 'discriminant'.",
            calibration=kind,
        )


def _calibration_kind(kind: str | None, K: int, rows: LeftOut | None) -> str | None:
    """Return the calibration that "auto" stands for, or the one requested."""
    if kind != "auto":
        return kind
    if K == 2:
        return "temperature"  # from pairs alone it would be overconfident
    few = rows is None or rows.weights.sum() < maps.ROWS_PER_COEFFICIENT * K * K
    return "discriminant" if few else "affine"


def _weighed_rows(
    rows: TrainingRows,
    settings: Settings,
    classes: NDArray[Any],
    m: Marginals | None = None,
) -> ridge.Rows:
    """Return rows, or a sample of those with the marginals m, with their weights."""
    sizes = rows.encoder.columns.sizes
    K = len(classes)
    factors = rows.encoder.factors(rows.codes) if m is None else None
    if settings.weighting is None and rows.sample_weight is None:
        return ridge.Rows(rows.codes, sizes, rows.y, K, factors=factors)
    mass = rows.weights
    if m is None:
        counts = np.bincount(rows.y, mass, minlength=K).astype(np.float64)
    else:
        counts = m.class_probabilities * m.n
    factor = settings.class_factors(classes, counts)[rows.y]
    # A weight below 1 is a row by itself, a larger one several copies of a row.
    unit = np.minimum(mass, 1.0) * factor
    return ridge.Rows(rows.codes, sizes, rows.y, K, mass * factor, mass, unit, factors)


def _fit_primal(
    m: Marginals,
    settings: Settings,
    rows: ridge.Rows | None,
    effective_n: float | None,
    sample: TrainingRows | None,
    notes: tuple[Warned, ...],
) -> Fit:
    """Fit from marginals; `rows` serve to leave out, a sample to calibrate."""
    K = len(m.classes)
    _check_calibration(settings, K, sample is not None)
    classes = column_rules.class_array(m.classes)
    # Weights that sum to 1 leave m.n = 1: rows are counted, where there are any.
    n = float(m.n) if effective_n is None else effective_n
    factor = None
    if settings.weighting is not None:
        factor = settings.class_factors(classes, m.class_probabilities * m.n)
    Q, F, priors = _weighed_pairs(m, factor)
    equations = ridge.moments(Q, F, priors, settings.fit_intercept)
    alpha = ridge.check_alpha(settings.alpha)
    sizes = m.encoder.columns.sizes
    if sparse_counts.is_sparse(Q):
        solution = fit_sparse(equations, sizes, n, alpha, rows)
    else:
        solution = ridge.fit_primal(equations, n, len(sizes), alpha, rows)
    if settings.class_weight is not None and solution.choice.error is None:
        # Cross-validated on the weighted classes: no estimate for real rows.
        choice = replace(solution.choice, risk=None)
        solution = solution._replace(choice=choice)
    left_out = None
    if sample is not None:
        codes = sample.over(m.encoder.columns)
        sample = replace(sample, encoder=m.encoder, codes=codes)
        chosen = _weighed_rows(sample, settings, classes, m)
        starts = offsets(sizes)[:-1]
        s = lookup_sum(chosen.codes, solution.z, starts) + solution.intercept
        leverage = solution.leverage
        if not leverage.ndim:  # the mean of all rows
            total = float(
                m.n if factor is None else m.n * m.class_probabilities @ factor
            )
            own = ridge.row_leverages(chosen, equations, solution.choice.alpha, total)
            leverage = leverage if own is None else own
        left_out = ridge.leave_out(chosen, s, leverage)
    pairs = None
    if _calibration_kind(settings.calibration, K, left_out) == "discriminant":
        pairs = maps.moments_of_pairs(Q, F, priors, solution.z, solution.intercept)
    if settings.objective == "ranking":
        plain = _weighed_pairs(m, None)
        moments = maps.moments_of_pairs(*plain, solution.z, solution.intercept)
        slope, start = maps.label_map(moments)
        solution, left_out = maps.rescaled(solution, left_out, slope, start)
    totals = m.feature_counts.diagonal()
    return Fit(
        settings,
        m.target,
        _scorecard(solution, m.encoder, m.classes, m.target, totals),
        solution.choice,
        m,
        n,
        notes=notes,
        left_out=left_out,
        leverage=float(np.mean(solution.leverage)),
        pairs=pairs,
        fold_rows=None if sample is None else _rows_for_folds(sample, n),
    )


def _weighed_pairs(m: Marginals, factor: Floats | None) -> tuple[Table, Floats, Floats]:
    """Return Q, F and the probabilities of classes, each weighted by a factor."""
    F = m.F
    priors = m.class_probabilities
    if factor is None:
        return m.feature_counts / m.n, F, priors
    priors = priors * factor
    total = priors.sum()
    within = np.tensordot(factor, class_pairs(m, _WEIGHING), 1)
    Q = sparse_counts.stored(within / (m.n * total), m.columns.sizes)
    return Q, F * factor / total, priors / total


def _fit_dual(
    rows: TrainingRows,
    weighed: ridge.Rows,
    settings: Settings,
    notes: tuple[Warned, ...],
) -> Fit:
    """Fit from rows where categories outnumber them."""
    classes = rows.target.categories
    K = len(classes)
    _check_calibration(settings, K, has_rows=True)
    alpha = ridge.check_alpha(settings.alpha)
    columns = rows.encoder.columns
    dual = fit_dual(weighed, len(columns), alpha, settings.fit_intercept)
    counts = dual.target_counts
    chosen = weighed.sampled
    scores = dual.scores[chosen]
    left_out: LeftOut | None = ridge.leave_out(
        weighed.part(chosen), scores, dual.fit.leverage
    )
    pairs = None
    if _calibration_kind(settings.calibration, K, left_out) == "discriminant":
        share = np.ones(weighed.n) if weighed.weights is None else weighed.weights
        pairs = maps.moments_of_scores(dual.scores, rows.y, share)
    if settings.objective == "ranking":
        dual, left_out = _ranking_dual(dual, left_out, rows)
    totals = sum(counts.T, np.zeros((), counts.dtype))  # of short rows: 10 x faster
    target = rows.target.name
    weights = None if rows.sample_weight is None else rows.weights.copy()
    return Fit(
        settings,
        target,
        _scorecard(dual.fit, rows.encoder, classes, target, totals),
        dual.fit.choice,
        effective_n=rows.effective_n,
        notes=notes,
        left_out=left_out,
        leverage=float(np.mean(dual.fit.leverage)),
        pairs=pairs,
        rows=ScoredRows(dual.scores, rows.y, weights, counts, dual.score_error),
        fold_rows=_rows_for_folds(rows, rows.effective_n),
    )


def _rows_for_folds(rows: TrainingRows, n: float) -> TrainingRows | None:
    """Return the rows to split in folds; None for a sample, two classes, many rows.

    Many rows fit the few coefficients of a calibration nearly without optimism.
    """
    K = len(rows.target.categories)
    whole = rows.effective_n >= (1 - 1e-9) * n
    few = len(rows.y) <= min(SAMPLE, _FOLD_ROWS * K * K)
    return rows if K > 2 and whole and few else None


def _fold_scores(rows: TrainingRows, settings: Settings, alpha: float) -> Floats:
    """Return the calibrated scores of each row by a model of the other folds."""
    n = len(rows.y)
    K = len(rows.target.categories)
    fold = np.random.default_rng(0).permutation(n) % _FOLDS
    scores = np.zeros((n, K))
    for k in range(min(_FOLDS, n)):
        own = fold == k
        card = fit_rows(rows.part(~own), replace(settings, alpha=alpha)).scorecard_
        calibration = card.calibration
        slope = 1.0
        if calibration is not None and not calibration.moves_decisions:
            slope = float(calibration.slope)
        scores[own] = slope * card.mapped.scores(rows.part(own).codes)
    return scores


def _ranking_dual(
    dual: DualFit, left_out: LeftOut | None, rows: TrainingRows
) -> tuple[DualFit, LeftOut | None]:
    """Scale and centre scores that rank, so that they estimate the class."""
    both = np.hstack([-dual.scores, dual.scores])
    moments = maps.moments_of_scores(both, rows.y, rows.weights)
    slope, start = maps.label_map(moments)
    solution, left_out = maps.rescaled(dual.fit, left_out, slope, start)
    scores = slope * dual.scores + start
    rounding = 4 * _EPS * float(np.abs(scores).max() + 1)
    error = slope * dual.score_error + rounding
    return dual._replace(fit=solution, scores=scores, score_error=error), left_out


def _scorecard(
    solution: ridge.RidgeFit,
    encoder: Encoder,
    classes: tuple[Label, ...],
    target: str,
    counts: NDArray[Any],
) -> Scorecard:
    z = solution.z
    intercept = solution.intercept
    if len(classes) == 2:
        z = z[:, 0]
        intercept = intercept[0]
    return Scorecard(encoder, classes, z, np.asarray(intercept), counts, target)
