"""Additive models: what others trained, as columns with points.

A model is additive if its score is a sum of numbers, one for each column's cell. Then
the numbers are points, and `renyi.certify` proves its guarantee from pair counts. Such
are pipelines of scikit-learn that encode each column alone and end in a linear model or
`CategoricalNB`, explainable boosting machines without interactions, and tables of
points (`renyi.point_tables`).

A pipeline is followed step by step (`renyi.encoded_columns`). A linear model multiplies
the numbers of each category by its coefficients, and the products are the points. In
the end, the points are compared with the scores and answers of the model itself, at
rows with all its categories and at the rows that certify it.

The scores are log-odds or margins rather than estimates of probabilities. So only the
rule map uses them, and only bounds that hold at any scale of the scores apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoded_columns import (
    Cells,
    Coded,
    Floats,
    Model,
    Stage,
    accepted,
    all_coded,
    coded_column,
    encoded,
    name_of,
    not_additive,
    spelled_as,
    widths,
    with_missing,
)
from renyi.encoding.bins import bin_names
from renyi.encoding.columns import (
    Column,
    Columns,
    Label,
    Levels,
    label_text,
    numbered_names,
    plain_label,
)
from renyi.encoding.encoder import Encoder
from renyi.encoding.recoding import codes_in
from renyi.encoding.rules import check_class_list
from renyi.formatting import number_of
from renyi.rules import Scorer, decide
from renyi.solvers.calibration import LOG_ODDS, MARGIN, Calibration

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

_TOLERANCE = 1e-9
_INTERPRET = [0, 7, 7]  # before, the label of 1.0 was the text "1.0"
_SOFTMAX = ("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis")


class PointColumns(NamedTuple):
    """What a scorecard is made of: columns whose values are points, and a start.

    No column has a category that the model rejects.
    """

    columns: list[Coded]
    classes: Sequence[Label]
    intercept: Floats
    kind: Calibration
    # Codes of missing cells where there are no marginals: an empty cell of a file.
    missing: Sequence[Label] = ("",)
    model: Model = None  # whose scores they must add up to

    def spelled_as(self, m: Marginals) -> PointColumns:
        """Return the columns with the categories of marginals, where these are theirs.

        Truth values are spelled as in the rows, and only numbers that may be missing
        have a missing level.
        """
        known = {*m.feature_names}  # others are an error later on
        columns = [
            spelled_as(column, m) if column.name in known else column
            for column in self.columns
        ]
        return self._replace(columns=columns)

    def fields(self, m: Marginals | None) -> dict[str, Any]:
        """Return the fields of a scorecard with these points, without counts."""
        two = len(self.classes) == 2
        z = np.vstack([column.values for column in self.columns])
        return {
            "encoder": self.encoder(m),
            "classes": tuple(self.classes),
            "z": z[:, 0] if two else z,
            "intercept": self.intercept[0] if two else self.intercept,
            "counts": np.zeros(len(z), np.int64),
            "unseen": self.unseen(),
            "calibration": self.kind,
        }

    def encoder(self, m: Marginals | None) -> Encoder:
        """Return the encoder of the columns; marginals say which labels are missing."""
        known = {key for c in self.columns for key in c.levels.texts}
        codes = self.missing if m is None else m.settings.missing
        labels = [c for c in self.columns if c.levels.kind == "label"]
        strict = bool(labels) and all(c.rejects_unseen for c in labels)
        return Encoder(
            missing=tuple(code for code in codes if label_text(code) not in known),
            unseen="error" if strict else "mean",
            columns=Columns.of(Column(c.name, c.levels) for c in self.columns),
        )

    def unseen(self) -> Floats:
        """Return the points of unseen labels: (columns, numbers)."""
        points = [
            c.values.mean(axis=0) if c.rejects_unseen else c.unseen
            for c in self.columns
        ]
        return np.stack(points)

    def counts(self, encoder: Encoder, m: Marginals) -> NDArray[Any]:
        """Return the counts of the encoder's categories in marginals of its features.

        A label of the marginals that the model rejects is an error.
        """
        rows = m.feature_counts.diagonal()
        theirs = m.encoder.columns
        own_rows = np.split(rows, offsets(theirs.sizes)[1:-1])
        codes_of = codes_in(encoder, m)
        sizes = encoder.columns.sizes
        counts = []
        for j, coded in enumerate(self.columns):
            lost = (codes_of[j] == sizes[j]) & (own_rows[j] > 0)
            if coded.rejects_unseen and lost.any():
                text = theirs[j].levels.texts[int(lost.argmax())]
                raise ValueError(
                    f"The model has no points for the label {text!r} of column "
                    f"{coded.name!r}, which rows of the marginals have."
                )
            own = np.bincount(codes_of[j], own_rows[j], sizes[j] + 1)
            counts.append(own[: sizes[j]])
        whole = np.concatenate(counts)
        return whole.astype(whole.dtype if m.weighted else np.int64)

    def check_scores(self, card: Scorer) -> None:
        """Raise ValueError unless the scores of a model are the sums of its points."""
        if self.model is not None:
            _check_scores(self.model, card, self.columns)


def read_model(model: Model) -> PointColumns:
    """Return the points of a fitted model; see `Scorecard.from_model`."""
    classes = _classes(model)
    parts = _taken_apart(model)
    if hasattr(parts.last, "term_scores_"):
        columns, intercept, kind = _boosting_machine(parts.last)
    else:
        stage = encoded(parts.steps, _inputs(parts.whole))
        columns, intercept, kind = _points(parts.last, stage, len(classes))
    _check_finite(parts.last, columns)
    return PointColumns(accepted(columns), classes, intercept, kind, model=model)


class _Parts(NamedTuple):
    """A model, taken apart."""

    whole: Model  # without what chose its parameters
    steps: list[Model]  # before the last one
    last: Model


def _taken_apart(model: Model) -> _Parts:
    """Return the steps and the last model of pipelines and searches."""
    if name_of(model) == "FrozenEstimator":  # has all attributes of what it contains
        raise not_additive("FrozenEstimator is not a model that renyi follows")
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    if not hasattr(model, "steps"):
        return _Parts(model, [], model)
    *before, (_, last) = model.steps
    inner = _taken_apart(last)
    return _Parts(model, [*(step for _, step in before), *inner.steps], inner.last)


def _classes(model: Model) -> list[Label]:
    """Return the classes of a fitted classifier."""
    if not hasattr(model, "predict"):
        raise TypeError(
            "The first argument must be a fitted classifier, a Scorecard or a table of "
            "points, the second the marginals or rows; the first is a "
            f"{name_of(model)}."
        )
    labels = getattr(model, "classes_", None)
    if labels is None or isinstance(labels, list):
        raise ValueError(
            f"This {name_of(model)} is not a fitted classifier with one target: fit it."
        )
    classes = [plain_label(label) for label in labels]
    check_class_list(classes)
    return classes


def _inputs(model: Model) -> list[Cells]:
    """Return the columns of the table that a model was fitted to."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = numbered_names(int(getattr(model, "n_features_in_", 0)))
    return [Cells(str(name)) for name in names]


# ---- the model itself

Scored = tuple[list[Coded], Floats, Calibration]  # points per class, start, their kind


def _points(model: Model, stage: Stage, K: int) -> Scored:
    """Return the points of encoded columns: one number per class, one for two."""
    if hasattr(model, "feature_log_prob_") and hasattr(model, "category_count_"):
        return _naive_bayes(model, stage)
    if not hasattr(model, "coef_"):
        raise not_additive(f"{name_of(model)} is not a sum of points per category")
    if hasattr(model, "support_vectors_") and K > 2:
        raise not_additive(f"{name_of(model)} of {K} classes lets pairs of them vote")
    coef = _coefficients(model).astype(float)
    columns = all_coded(stage, model)
    starts = offsets(widths(columns))
    k = 1 if K == 2 else K
    if coef.shape != (k, starts[-1]):
        raise not_additive(f"{name_of(model)} is not a sum of points per category")
    parts = np.split(coef, starts[1:-1], axis=1)
    pointed = [
        column._replace(values=column.values @ own.T, unseen=column.unseen @ own.T)
        for column, own in zip(columns, parts, strict=True)
    ]
    intercept = np.broadcast_to(model.intercept_, k).astype(np.float64)
    one_vs_rest = getattr(model, "multi_class", None) == "ovr" and K > 2
    odds = name_of(model) in _SOFTMAX and not one_vs_rest
    odds |= name_of(model) == "SGDClassifier" and model.loss == "log_loss" and K == 2
    return pointed, intercept, LOG_ODDS if odds else MARGIN


def _coefficients(model: Model) -> Floats:
    """Return the coefficients of a linear model, which may be sparse."""
    coef = model.coef_
    return np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)


def _naive_bayes(model: Model, stage: Stage) -> Scored:
    """Return the points of a CategoricalNB: logarithms of probabilities."""
    pointed = []
    for column, logs in zip(stage, model.feature_log_prob_, strict=True):
        size = logs.shape[1]
        if isinstance(column, Cells):  # its cells are codes already
            codes = np.arange(size)
            nothing = np.array([np.nan])
            column = coded_column(column, codes, codes[:, None].astype(float), nothing)
        both = np.vstack([column.values, column.unseen])
        if both.shape[1] != 1:
            raise not_additive(f"{name_of(model)} takes whole numbers, not indicators")
        known = (both[:, 0] >= 0) & (both[:, 0] < size)
        points = np.full((len(both), len(logs)), np.nan)
        points[known] = logs.T[both[known, 0].astype(int)]
        pointed.append(column._replace(values=points[:-1], unseen=points[-1]))
    start = np.asarray(model.class_log_prior_, np.float64)
    if len(start) == 2:
        pointed = [
            c._replace(values=np.diff(c.values), unseen=np.diff(c.unseen))
            for c in pointed
        ]
        start = np.diff(start)
    return pointed, start, LOG_ODDS


def _boosting_machine(model: Model) -> Scored:
    """Return the points of an explainable boosting machine, one term per column."""
    installed = version("interpret-core")
    if [int(part) for part in re.findall(r"\d+", installed)[:3]] < _INTERPRET:
        raise ValueError(
            f"This {name_of(model)} needs interpret-core 0.7.7 or newer: version "
            f"{installed} reads whole numbers in another way. Train it again with a "
            "newer version."
        )
    pointed = []
    for term, scores in zip(model.term_features_, model.term_scores_, strict=True):
        names = [str(model.feature_names_in_[j]) for j in term]
        if len(term) > 1:
            raise not_additive(
                f"This {name_of(model)} has the interaction {' & '.join(names)!r}: "
                "train it with interactions=0"
            )
        bins = model.bins_[term[0]][0]
        scores = np.asarray(scores, np.float64).reshape(len(scores), -1)
        missing = scores[0]
        if isinstance(bins, dict):
            texts = [*bins]
            # Numbers and truth values are texts to it, but not text such as "True".
            cells = [int(text) for text in texts] if {*texts} <= {"0", "1"} else texts
            points = scores[[*bins.values()]]
            column = coded_column(Cells(names[0]), cells, points, scores[-1])
        else:
            edges = np.asarray(bins, np.float64)
            bounds = bin_names(edges, False, ())
            levels = Levels("number", bounds, tuple(edges.tolist()))
            starts = np.append(edges[:1] - 1 if len(edges) else 0.0, edges)
            column = Coded(names[0], levels, starts, scores[1:-1], scores[-1])
        pointed.append(with_missing(column, missing))
    intercept = np.atleast_1d(np.asarray(model.intercept_, np.float64))
    kind = LOG_ODDS if getattr(model, "link_", "logit") in ("logit", "mlogit") else None
    return pointed, intercept, kind or MARGIN


def _check_finite(model: Model, columns: Iterable[Coded]) -> None:
    for column in columns:
        if np.isinf(column.values).any() or np.isinf(column.unseen).any():
            raise ValueError(
                f"{name_of(model)} gives a category of {column.name!r} infinite "
                "points: train it with smoothing (alpha above 0)."
            )


# ---- the same scores


def _check_scores(model: Model, card: Scorer, columns: Sequence[Coded]) -> None:
    """Raise ValueError unless the model's scores of rows are the sums of the points.

    The rows have all categories that the points know.
    """
    named = getattr(model, "feature_names_in_", None) is not None
    names = list(card.encoder.columns.names)
    spellings = {False, any(column.truths for column in columns)}
    for words in spellings:  # one at a time: a package may not take them mixed
        cells = {column.name: _cells(column, words) for column in columns}
        n = max(map(len, cells.values()))
        table = pd.DataFrame({c.name: [None] * n for c in _inputs(model)}, dtype=object)
        for column in columns:
            own = cells[column.name]
            # Labels as they are: a column of another type may have no None, or True.
            kind = object if column.levels.kind == "label" else None
            table[column.name] = pd.Series(
                [own[r % len(own)] for r in range(n)], dtype=kind
            )
        scores = card.scores(card.encoder.transform(table[names]))
        X = table if named else table.to_numpy()
        _compare(model, card, scores, X, "its points")


def _cells(column: Coded, words: bool) -> list[Any]:
    """Return a cell of each category, with truth values as words or as numbers."""
    cells = list(column.cells)
    if not column.truths:
        return cells
    chosen = [
        cell
        for cell in cells
        if plain_label(cell) is None or isinstance(plain_label(cell), bool) == words
    ]
    return chosen or cells


def check_rows(model: Model, card: Scorer, X: Any, threshold: float) -> None:
    """Raise ValueError unless a model's scores of rows are those of its scorecard.

    The threshold is what was subtracted from the model's scores.
    """
    table = X.to_pandas() if isinstance(X, pa.Table) else X
    names = {*getattr(model, "feature_names_in_", ())}
    if names and names <= {*getattr(table, "columns", ())}:
        table = table[list(model.feature_names_in_)]
    codes = card.encoder.transform(X)
    own = card.scores(codes) + threshold
    _compare(model, card, own, table, "the points of its cells in these rows")
    if not threshold:  # else the model itself answers by another one
        _check_ties(model, card, codes, table)


def _check_ties(model: Model, card: Scorer, codes: NDArray[Any], X: Any) -> None:
    """Raise ValueError if rounding decides rows, and the model answers otherwise."""
    labels = [label_text(label) for label in card.classes]
    ours = [labels[k] for k in decide(card.mapped.estimates(codes))]
    theirs = [label_text(plain_label(each)) for each in model.predict(X)]
    count = sum(a != b for a, b in zip(ours, theirs, strict=True))
    if count:
        raise ValueError(
            f"{number_of(count, 'row')} of these have scores within rounding of the "
            f"threshold, where this {name_of(model)} answers otherwise than its points "
            "do: move its intercept a little, and give that model."
        )


def _compare(model: Model, card: Scorer, own: Floats, X: Any, sums: str) -> None:
    """Raise ValueError unless scores and answers of rows are those of the model."""
    try:
        theirs = _scores(model, X)
    except ValueError as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"This {name_of(model)} rejects the rows: {why}.") from None
    if own.shape == theirs.shape and own.shape[1] > 1:
        # A part common to all classes decides nothing.
        own = own - own.mean(axis=1, keepdims=True)
        theirs = theirs - theirs.mean(axis=1, keepdims=True)
    most = _TOLERANCE * (1 + np.abs(theirs).max())
    if own.shape != theirs.shape or not np.abs(own - theirs).max() <= most:
        raise not_additive(
            f"The scores of this {name_of(model)} are not the sums of {sums}"
        )
    t = card.per_class(own)
    first, second = np.sort(t, axis=1)[:, :-3:-1].T
    clear = np.flatnonzero(first - second > 2 * most)
    labels = np.array([label_text(label) for label in card.classes], object)
    answers = np.asarray(model.predict(X))[clear].tolist()
    known = [label_text(plain_label(answer)) for answer in answers]
    if (labels[t.argmax(axis=1)[clear]] != np.array(known, object)).any():
        raise not_additive(
            f"The answers of this {name_of(model)} are not its largest scores"
        )


def _scores(model: Model, X: Any) -> Floats:
    """Return the scores that a model gives to rows: one, or one for each class.

    It answers the second of two classes where the score is above 0.
    """
    if hasattr(model, "decision_function"):
        own = np.asarray(model.decision_function(X), np.float64)
        return own.reshape(len(own), -1)
    logs = np.asarray(model.predict_log_proba(X), np.float64)
    return np.diff(logs) if logs.shape[1] == 2 else logs
