"""What follows from a fitted scorecard: answers, probabilities, reasons, certificate.

Probabilities are calibrated when the scorecard is first asked for: `Deferred` keeps
what that takes, at most a few thousand rows' scores, and none of it in a pickle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

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
from renyi.encoding.encoder import Encoder
from renyi.estimators import model_file
from renyi.marginals.file import DataDigest, class_digest
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard, moved_to, threshold_at
from renyi.solvers.calibration import (
    ANY,
    ROWS_PER_COEFFICIENT,
    Calibration,
    PairMoments,
    affine,
    discriminant,
    temperature,
)
from renyi.solvers.ridge import AlphaChoice, LeftOut
from renyi.validation import check_share

if TYPE_CHECKING:
    import os

    import pandas as pd

    from renyi.certificates.record import BoundReport
    from renyi.estimators.model import RenyiModel
    from renyi.exports.integer_card import IntegerScorecard
    from renyi.report.page import Report
    from renyi.selection import PathResult

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Deferred:
    """A scorecard and how its alpha was chosen, to be calibrated when asked for."""

    card: Scorecard
    choice: AlphaChoice
    kind: str | None = None
    rows: LeftOut | None = None
    leverage: float = 0.0  # the mean, where there are no rows
    pairs: Callable[[], PairMoments] | None = None

    @cached_property
    def calibrated(self) -> tuple[Scorecard, AlphaChoice]:
        """The scorecard with its calibration, and the left-out error of its answers."""
        found = self._calibration()
        if found is None:
            return self.card, self.choice
        choice = self.choice
        rows = self.rows
        if found.moves_decisions and rows is not None and choice.error is not None:
            answers = rules.decide(found.of(rows.scores))
            error = rows.sample_weight @ (answers != rows.y) / rows.sample_weight.sum()
            choice = replace(choice, error=float(error))
        return replace(self.card, calibration=found), choice

    def left_out(self) -> tuple[Floats, NDArray[Any], Floats] | None:
        """Return left-out probabilities of rows, their classes and their weights."""
        rows = self.rows
        (card, _) = self.calibrated
        if rows is None:
            return None
        t = card.per_class(rows.scores) + 1 / card.n_classes
        c = card.calibration
        if c is not None and c.moves_decisions:
            t = c.of(rows.scores) + 1 / card.n_classes
        return card.probabilities_at(t), rows.y, rows.weights

    def _calibration(self) -> Calibration | None:
        kind = self.kind
        rows = self.rows
        K = self.card.n_classes
        if kind == "auto" and K == 2:
            kind = "temperature"  # from pairs alone it would be overconfident
        elif kind == "auto":
            few = rows is None or rows.weights.sum() < ROWS_PER_COEFFICIENT * K * K
            kind = "discriminant" if few else "affine"
        if kind == "discriminant":
            assert self.pairs is not None
            leverage = self.leverage if rows is None else rows.leverage
            found = discriminant(self.pairs(), leverage)
            if found is None and rows is not None:  # fitted alone, one by one
                found = temperature(rows, K)
            return found or ANY
        if kind is None or rows is None:
            return None
        return (temperature if kind == "temperature" else affine)(rows, K)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the scores of single rows out of pickles."""
        card, choice = self.calibrated
        return {"card": card, "choice": choice}


Moments = tuple[ScoreMoments, ScoreMoments | None]


@dataclass(frozen=True, eq=False)
class KnownMoments:
    """Moments that are known, in place of a function that computes them."""

    moments: Moments

    def __call__(self) -> Moments:
        """Return them."""
        return self.moments


def moments_of_dual(
    model: Deferred,
    scores: Floats,
    y: NDArray[Any],
    weights: Floats | None,
    counts: NDArray[Any],
    error: float,
    within: bool,
) -> Moments:
    """Return the moments of rows' estimates, and of mapped ones where they decide."""
    columns = model.card.encoder.columns
    (card, _) = model.calibrated
    c = card.calibration
    t = card.per_class(scores) + 1 / card.n_classes
    error = error + card.score_error
    found = moments_of_rows(t, y, weights, counts, columns, error, within)
    if c is None or not c.moves_decisions:
        return found, None
    # What rounding does to a score, and to points that are multiplied by the slope.
    error = error + card.n_classes * card.score_error
    error *= float(np.abs(c.slope).sum(axis=0).max())
    t = c.of(scores) + 1 / card.n_classes
    return found, moments_of_rows(t, y, weights, counts, columns, error, within)


class ScorecardPredictions:
    """What a classifier does with its scorecard, once there is one."""

    rule: str
    random_state: Any
    classes_: NDArray[Any]
    encoder_: Encoder
    marginals_: Marginals | None
    _model: Deferred
    _notes: tuple[Warned, ...]
    _weighted: bool
    _certificate: Certificate | None
    _digest: DataDigest | None
    _moments: Callable[[], Moments] | None  # where there are no marginals

    if TYPE_CHECKING:

        def _codes(self, X: Any) -> NDArray[Any]: ...

        def _check_fitted(self) -> None: ...

        def _class_factors(self, counts: Floats) -> Floats: ...

    @property
    def scorecard_(self) -> Scorecard:
        """The model as a table of points."""
        self._check_fitted()
        # The bound speaks of unweighted classes: by it, weights would not be kept.
        known = None if self._weighted else self.marginals_
        return self._model.calibrated[0]._beside(known)

    @property
    def alpha_choice_(self) -> AlphaChoice:
        """How alpha was chosen."""
        self._check_fitted()
        return self._model.calibrated[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the classes and scores of single rows out of pickles."""
        state: dict[str, Any] = dict(cast(Any, super().__getstate__()))
        if state.get("_moments") is not None:
            state["_moments"] = KnownMoments(state["_moments"]())
        return state

    # ---- prediction

    def predict(self, X: Any, prevalence: float | None = None) -> NDArray[Any]:
        """Class of each row; the randomised rules draw it with `random_state`.

        With the share of the second of two classes among these rows, if it is another
        than in training: the likelier class there, by the rule map.
        """
        codes = self._codes(X)
        card = self.scorecard_.of_rule(self.rule)
        if prevalence is not None:
            if self.rule != "map":
                raise ValueError(
                    f"prevalence={prevalence} moves the threshold of rule 'map', but "
                    f"this model has rule {self.rule!r}: leave it out, or "
                    "train with rule 'map'."
                )
            card = moved_to(card, self._odds(prevalence))
        t = card.estimates(codes)
        best = rules.answers(t, codes, self.rule, self.random_state)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any, prevalence: float | None = None) -> Floats:
        """Class probabilities: the calibrated scores, or the nearest to them if none.

        The most probable class is what `predict` answers by the rule map. With the
        share of the second of two classes among these rows, if it is another than in
        training: the odds are moved by the ratio of the two odds.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> clf.predict_proba(X[:1], prevalence=0.01).round(2)
        array([[0.61, 0.39]])
        """
        codes = self._codes(X)
        card = self.scorecard_
        if prevalence is None:
            return card.probabilities(codes)
        odds = self._odds(prevalence)
        moved = moved_to(card, odds)
        if card.calibration is not None:
            return moved.probabilities(codes)
        best = rules.decide(moved.estimates(codes))
        return rules.reweighted(card.probabilities(codes), odds, best)

    def threshold(self, prevalence: float) -> float:
        """Score above which `predict` answers the second class at a prevalence.

        What it errs there at most is ``certificate.error_at(prevalence, threshold)``.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> renyi.certify(clf, m).error_at(0.01, clf.threshold(0.01)) < 0.05
        True
        """
        return threshold_at(self.scorecard_, self._odds(prevalence))

    def _odds(self, prevalence: float) -> float:
        """Return the odds of the second class at a prevalence by those in training."""
        check_share("prevalence", prevalence)
        self._check_fitted()
        labels = self.classes_.tolist()
        known = self.certificate_.majority
        if len(labels) != 2:
            raise ValueError(
                f"prevalence={prevalence} is for two classes, but there are "
                f"{len(labels)}: leave it out."
            )
        if known is None or known[0] not in labels or not 0 < known[1] < 1:
            raise ValueError(
                f"prevalence={prevalence} cannot be applied: this model does not store "
                "the shares of the classes in training, as is the case for models "
                "trained with a confidence: train one without."
            )
        shares = np.array([known[1], known[1]])
        shares[labels.index(known[0])] = 1 - known[1]
        if self._weighted:
            shares *= self._class_factors(shares)
        odds = float(prevalence / (1 - prevalence) * shares[0] / shares[1])
        return max(odds, sys.float_info.min)

    def rule_proba(self, X: Any, rule: str | None = None) -> Floats:
        """Probability with which the rule answers each class at each row."""
        name = self.rule if rule is None else rule
        codes = self._codes(X)
        return rules.rule_proba(self.scorecard_.of_rule(name).estimates(codes), name)

    def decision_function(self, X: Any) -> Floats:
        """Scores: for two classes s(x), positive for the second; else one per class.

        The largest is that of the most probable class.
        """
        scores = self.scorecard_.mapped.scores(self._codes(X))
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(self, X: Any) -> pd.DataFrame:
        """Points that each feature gives each row, and the intercept.

        For two classes the columns are the features and sum to `decision_function`;
        for more, there is such a set of columns for every class.
        """
        import pandas as pd

        codes = self._codes(X)
        card = self.scorecard_.mapped
        points = card.points_of(codes)
        n, _, K = points.shape
        start = np.broadcast_to(card.intercept, (n, 1, K))
        flat = np.concatenate([points, start], axis=1).transpose(0, 2, 1).reshape(n, -1)
        names: Any = [*self.encoder_.feature_names, "intercept"]
        if K > 1:
            names = pd.MultiIndex.from_product([self.classes_.tolist(), names])
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(flat, index=index, columns=names)

    # ---- certificate

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
        card = self.scorecard_
        choice = self.alpha_choice_
        notes = self._notes
        if self._moments is None:
            assert self.marginals_ is not None
            closed = closed_form(card, card.match(self.marginals_))
        else:
            moments, mapped = self._moments()
            closed = bounds_of_moments(moments, card, mapped)
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
            moments, _ = self._moments()
            columns = moments.columns
            counts = moments.F
            n = float(counts[: columns.sizes[0]].sum())
            self._digest = class_digest(columns, self.scorecard_.classes, counts, n)
        return self._digest

    def report(
        self,
        marginals: Marginals | None = None,
        *,
        X: Any = None,
        y: Any = None,
        path: PathResult | None = None,
        bounds: BoundReport | None = None,
        card: IntegerScorecard | None = None,
    ) -> Report:
        """Return everything there is to see of this model: a page, shown in notebooks.

        It is made from the model and counts of pairs; no row of the data is in it.

        Parameters
        ----------
        marginals : Marginals, optional
            Counts that the certificate is of; by default those of the training.
        X, y : rows and their classes, optional
            Rows that were not used in training: they give an error, a calibration
            curve and a table of classes, and none of them is kept.
        path : PathResult, optional
            What `renyi.selection_path` found.
        bounds : BoundReport, optional
            What `renyi.certification.bound_report` found: exact worst cases.
        card : IntegerScorecard, optional
            Of ``scorecard_.rounded``; by default one of at most 10 points.

        Examples
        --------
        >>> import renyi, tempfile
        >>> X, y = renyi.datasets.load("votes")
        >>> report = renyi.RenyiClassifier().fit(X[:300], y[:300]).report(
        ...     X=X[300:], y=y[300:])
        >>> report.to_dict()["heldout"]["confusion"]
        [[72, 8], [1, 54]]
        >>> report.save(tempfile.mkdtemp() + "/report.html")
        """
        from renyi.report import build

        self._check_fitted()
        if (X is None) != (y is None):
            raise ValueError("X and y go together: give both or none.")
        held = None if X is None else (X, y)
        how: Any = {"path": path, "bounds": bounds, "card": card}
        return build.report(self, marginals, heldout=held, **how)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file that predicts the same to the last bit."""
        model_file.write(cast("RenyiModel", self), path)

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
        return cast("Self", model_file.read(path, cast(Any, cls)))
