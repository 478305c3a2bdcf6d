"""The trained model, as a frozen record.

It needs no scikit-learn, and its attributes have the names of a fitted classifier's, so
that `renyi.certify` and the report take either.

Probabilities are calibrated, and the certificate is computed, on first use: a pickle
stores the results and no scores of single rows, as the model file does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

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
    losses,
)
from renyi.certificates.record import Certificate
from renyi.certification import (
    Warned,
    certificate,
    certify,
    uncertain_certificate,
)
from renyi.encoding import recoding
from renyi.encoding import rules as column_rules
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import Pieces
from renyi.fitting.settings import Settings
from renyi.marginals.file import DataDigest, class_digest
from renyi.marginals.marginals import Marginals
from renyi.rules import Scorer, moved_to, threshold_at
from renyi.scorecard import Scorecard
from renyi.solvers import calibration as maps
from renyi.solvers import ridge
from renyi.solvers.calibration import Calibration, PairMoments
from renyi.solvers.ridge import AlphaChoice, LeftOut
from renyi.validation import InputError, check_share

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Codes = NDArray[Any]
FoldScores: TypeAlias = Callable[[Settings], tuple[Pieces, Floats, Floats]]


class ScoredRows(NamedTuple):
    """Scores of training rows, for a certificate where pairs were not counted."""

    scores: Floats
    y: NDArray[Any]
    sample_weight: Floats | None
    counts: NDArray[Any]  # of category and class
    score_error: float


class Trained:
    """A trained model: its answers to rows, as codes of its encoder.

    The records of a scorecard and of a model of every order share them.
    """

    settings: Settings
    certificate_: Certificate
    made_elsewhere: bool = False

    def __deepcopy__(self, memo: object) -> Self:
        """Return the record itself: it cannot change."""
        return self

    @property
    def card(self) -> Scorer:
        """The model, calibrated."""
        raise NotImplementedError

    @property
    def encoder_(self) -> Encoder:
        """The fitted encoder."""
        return self.card.encoder

    @cached_property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return column_rules.class_array(self.card.classes)

    @property
    def rule(self) -> str:
        """How an answer follows from the scores."""
        return self.settings.rule

    def answers(self, codes: Codes, prevalence: float | None = None) -> NDArray[Any]:
        """Return the place of each row's class; see `RenyiClassifier.predict`."""
        card = self.card.of_rule(self.rule)
        if prevalence is not None:
            if self.rule != "map":
                raise InputError(
                    "{prevalence} moves the threshold of rule 'map', but this model "
                    f"has rule {self.rule!r}: leave it out, or train with rule 'map'.",
                    prevalence=prevalence,
                )
            card = moved_to(card, self.odds(prevalence))
        seed = self.settings.random_state
        return rules.answers(card.estimates(codes), codes, self.rule, seed)

    def probabilities(self, codes: Codes, prevalence: float | None = None) -> Floats:
        """Return class probabilities; see `RenyiClassifier.predict_proba`."""
        if prevalence is None:
            return self.card.probabilities(codes)
        return rules.moved_probabilities(self.card, codes, self.odds(prevalence))

    def scores(self, codes: Codes) -> Floats:
        """Return the score of the second of two classes, or one score per class."""
        scores = self.card.mapped.scores(codes)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def threshold(self, prevalence: float) -> float:
        """Return the score above which the second class is answered."""
        return threshold_at(self.card, self.odds(prevalence))

    @property
    def part_names(self) -> list[str]:
        """What the parts of a score are called."""
        return [*self.encoder_.feature_names, "intercept"]

    def parts(self, codes: Codes) -> Floats:
        """Return what each part gives the scores of rows: (n, parts, 1 or K)."""
        raise NotImplementedError

    def explanation(
        self, codes: Codes, index: pd.Index[Any] | None = None
    ) -> pd.DataFrame:
        """Return the points of each part of the scores; see `explain`."""
        import pandas as pd

        parts = self.parts(codes)
        n, _, K = parts.shape
        flat = parts.transpose(0, 2, 1).reshape(n, -1)
        names: Any = self.part_names
        if K > 1:
            names = pd.MultiIndex.from_product([self.classes_.tolist(), names])
        return pd.DataFrame(flat, index=index, columns=names)

    def odds(self, prevalence: float) -> float:
        """Return the odds of the second class at a prevalence by those in training."""
        majority = self.certificate_.majority
        return odds_at(prevalence, self.classes_, majority, self.settings)


@dataclass(frozen=True, eq=False)
class Fit(Trained):
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
    fold_scores : callable or None
        Scores of each row by a model of the other folds, plain and calibrated, if
        folds evaluate chosen pairs or a calibration that decides.
    made_elsewhere : bool
        Whether it is a scorecard alone, of which no training is known. Then settings
        and choice say nothing.
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
    fold_scores: FoldScores | None = None
    made_elsewhere: bool = False

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
            self.made_elsewhere,
        )

    # ---- what was learned

    @property
    def card(self) -> Scorecard:
        """The model, calibrated."""
        return self.scorecard_

    # These two need no calibration.

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
        scores = self.points.per_class(calibration.of(rows.scores))
        answers = rules.decide(scores)
        error = rows.sample_weight @ (answers != rows.y) / rows.sample_weight.sum()
        return replace(choice, error=float(error))

    @cached_property
    def _answered(self) -> LeftOut | None:
        """The left-out rows, with the scores of folds where those would look too good.

        A calibration that decides was fitted to the left-out scores, each of which
        depends on the class of its row. Chosen pairs of columns, and bins merged by the
        classes, depend on all rows.
        """
        rows = self.left_out
        calibration = self.scorecard_.calibration
        moved = calibration is not None and calibration.moves_decisions
        if rows is None or not (moved or self._chose_by_classes):
            return rows
        if self.fold_scores is None:
            return rows
        pairs = self.encoder_.interactions
        settings = replace(self.settings, alpha=self.choice.alpha)
        if settings.chooses_pairs:  # as many are chosen anew in each fold
            settings = replace(settings, interactions=pairs and len(pairs))
        pieces, plain, mapped = self.fold_scores(settings)
        return rows.of_folds(pieces, plain if self._chose_by_classes else None, mapped)

    @property
    def left_out_losses(self) -> Floats | None:
        """Which left-out rows are answered wrongly; None if that is not defined."""
        rows = self._answered
        if rows is None or not rows.complete:
            return None
        return losses(rows, self.scorecard_, self.rule)

    @property
    def left_out_risk(self) -> float:
        """Risk on left-out rows, as weighted in the fit; infinite if not defined."""
        rows = self.left_out
        if rows is None or not rows.complete:
            return math.inf
        if not self.points.of_estimates:  # the log loss
            return math.inf if self.choice.risk is None else self.choice.risk
        squares = (rows.residuals**2).sum(axis=1) @ rows.weights
        scale = ridge.weight_of(self.points.n_classes) / rows.weights.sum()
        return float(scale * squares)

    @property
    def _has_chosen_pairs(self) -> bool:
        """Whether the same rows chose pairs of columns."""
        return self.settings.chooses_pairs and bool(self.encoder_.interactions)

    @property
    def _chose_by_classes(self) -> bool:
        """Whether the same rows chose pairs of columns, or bins that folds merge."""
        merged = ("folds", text.FOLDS_OF_BINS) in self.notes
        return merged or self._has_chosen_pairs

    @property
    def _left_out_risk(self) -> float | None:
        """Risk on left-out rows; by folds where these rows chose pairs, or bins."""
        if not self.points.of_estimates:
            return None
        rows = self._answered
        if rows is None or self.fold_scores is None or not self._chose_by_classes:
            return self.choice.risk
        squares = (rows.residuals**2).sum(axis=1) @ rows.sample_weight
        scale = ridge.weight_of(self.points.n_classes) / rows.sample_weight.sum()
        return float(scale * squares)

    def _calibration(self) -> Calibration | None:
        rows = self.left_out
        K = self.points.n_classes
        kind = self.settings.calibration_for(K, rows)
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
        return maps.fitted(rows, K, kind)

    # ---- answers to rows, as codes of the encoder

    def parts(self, codes: Codes) -> Floats:
        """Return the points of each feature, and the intercept: (n, parts, 1 or K)."""
        card = self.scorecard_.mapped
        points = card.points_of(codes)
        n, _, K = points.shape
        start = np.broadcast_to(card.intercept, (n, 1, K))
        return np.concatenate([points, start], axis=1)

    # ---- certificate

    @cached_property
    def certificate_(self) -> Certificate:  # type: ignore[override]
        """Guarantee of the model, on every population with its pair counts."""
        if self.stored_certificate is not None:
            # A model file has the bounds of all rules, the steps of one.
            return self.stored_certificate.of_rule(self.rule)
        notes = self.notes
        m = self.marginals_
        if m is not None and not m.is_exact:
            card = self.scorecard_
            return uncertain_certificate(card, card.match(m), self.rule, notes)
        if self.settings.class_weight is not None:
            notes = (("class-weight", text.CLASS_WEIGHT), *notes)
        rows = self._answered
        if rows is not None and not rows.complete:
            notes = (*notes, ("no-left-out", text.NO_LEFT_OUT))
        elif self._has_chosen_pairs and self.fold_scores is not None:
            notes = (*notes, ("folds", text.FOLDS_OF_PAIRS))
        elif self._chose_by_classes:
            pass  # said already
        elif rows is not None and rows.mapped is not None and self.rule == "map":
            notes = (*notes, ("folds", text.FOLDS))
        return certificate(
            self._closed_form(),
            self.scorecard_,
            self.rule,
            self._left_out_risk,
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
        if calibration.by_class:
            # What rounding does to a score, and to points times the slope.
            error = error + K * card.score_error
            error *= float(np.abs(calibration.slope).sum(axis=0).max())
        else:
            error = error + card.mapped.score_error
        deciding = card.per_class(calibration.of(rows.scores))
        return own, moments(deciding + 1 / K, error)

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
    made_elsewhere: bool = False,
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
        made_elsewhere=made_elsewhere,
    )


def of_scorecard(card: Scorecard, m: Marginals | None = None) -> Fit:
    """Return a scorecard as a `Fit`, of which no training is known.

    Its certificate is that of the marginals. Without them it proves nothing: a bound of
    1. A target that is not known has the name that labels without one have.
    """
    encoder = card.encoder
    pairs = encoder.interactions
    settings = Settings(order=1 if pairs else encoder.order, interactions=pairs)
    target = card.target or (None if m is None else m.target) or _unnamed(encoder)
    card = replace(card, target=target)
    sizes = encoder.columns.sizes
    own = Certificate(
        gamma=None,
        bounds={"map": 1.0},
        majority=None,
        one_feature=None,
        loo_risk=None,
        loo_error=None,
        rule="map",
        n=float(card.counts[: sizes[0]].sum()),
        n_indicators=int(sizes.sum()),
        order=encoder.order,
    )
    digest = None
    if m is not None:
        own = certify(card, m)
        digest = m.digest
    choice = AlphaChoice("given", 0.0, None, None)
    return restored(settings, card, choice, own, digest, True, made_elsewhere=True)


def _unnamed(encoder: Encoder) -> str:
    """Return a name for a target without one, which is not that of a column."""
    name = recoding.UNNAMED
    while name in encoder.input_names:
        name += "_"
    return name


def odds_at(
    prevalence: float,
    classes: NDArray[Any],
    majority: tuple[Any, float] | None,
    settings: Settings,
) -> float:
    """Return the odds of the second class at a prevalence by those in training.

    `majority` is the most frequent class in training, and the share of the others.
    """
    check_share("prevalence", prevalence)
    labels = classes.tolist()
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
    if settings.class_weight is not None:
        shares *= settings.class_factors(classes, shares)
    odds = float(prevalence / (1 - prevalence) * shares[0] / shares[1])
    return max(odds, sys.float_info.min)
