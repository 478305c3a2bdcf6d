"""Additive models: what others trained, as columns with points.

A model is additive if its score is a sum of numbers, one for each column's cell. Then
the numbers are points, and `renyi.certify` proves its guarantee from pair counts. Such
are pipelines of scikit-learn that encode each column alone and end in a linear model or
`CategoricalNB`, explainable boosting machines without interactions, and tables of
points (`renyi.point_tables`).

A pipeline is followed step by step. A column is first its cells, which an encoder turns
into `Coded`: categories, and the numbers that each sends to the next step. Scalers and
selectors change these numbers. A linear model multiplies them by its coefficients, and
the products are the points. Steps are known by the names of their classes, so that no
package is imported. In the end, the points are compared with the scores that the model
itself gives to rows with all its categories.

The scores are log-odds or margins rather than estimates of probabilities. So only the
rule map uses them, and only bounds that hold at any scale of the scores apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.bins import bin_names
from renyi.encoding.columns import (
    MISSING_TEXT,
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
from renyi.encoding.rules import check_class_list, label_levels
from renyi.rules import Scorer
from renyi.solvers.calibration import LOG_ODDS, MARGIN, Calibration

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

Floats = NDArray[np.float64]
Model = Any  # an estimator of another package, known by its attributes

_TOLERANCE = 1e-9
_ADVICE = (
    "renyi certifies linear models and CategoricalNB on encoded columns, explainable "
    "boosting machines without interactions, and tables of points."
)
_SOFTMAX = ("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis")


class Cells(NamedTuple):
    """A column before it is encoded; `fill` replaces its missing cells."""

    name: str
    fill: Any = None


class Coded(NamedTuple):
    """A column as categories, and the numbers that each sends to the next step.

    `cells` has a cell of each category, as the model takes it. `values` are NaN where
    the model rejects the cell; `unseen` are those of any other label.
    """

    name: str
    levels: Levels
    cells: Any
    values: Floats  # (categories, numbers)
    unseen: Floats  # (numbers,)

    @property
    def rejects_unseen(self) -> bool:
        """Whether the model rejects a label that is not in the levels."""
        return bool(np.isnan(self.unseen).any())


Stage = Sequence[Cells | Coded]


class PointColumns(NamedTuple):
    """What a scorecard is made of: columns whose values are points, and a start.

    No column has a category that the model rejects.
    """

    columns: list[Coded]
    classes: Sequence[Label]
    intercept: Floats
    kind: Calibration
    missing: Sequence[Label] = ()  # codes of missing cells, where marginals have none
    model: Model = None  # whose scores they must add up to

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
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    classes = _classes(model)
    if hasattr(model, "term_scores_"):
        columns, intercept, kind = _boosting_machine(model)
    else:
        steps = [step for _, step in getattr(model, "steps", [("", model)])]
        stage = _encoded(steps[:-1], _inputs(model))
        columns, intercept, kind = _points(steps[-1], stage, len(classes))
    _check_finite(model, columns)
    return PointColumns(accepted(columns), classes, intercept, kind, model=model)


def _name(model: Model) -> str:
    return type(model).__name__


def _not_additive(what: str) -> ValueError:
    return ValueError(f"{what}: {_ADVICE}")


def _classes(model: Model) -> list[Label]:
    """Return the classes of a fitted classifier."""
    if not hasattr(model, "predict"):
        raise TypeError(
            "The first argument must be a fitted classifier, a Scorecard or a table of "
            f"points, the second the marginals or rows; the first is a {_name(model)}."
        )
    labels = getattr(model, "classes_", None)
    if labels is None or isinstance(labels, list):
        raise ValueError(
            f"This {_name(model)} is not a fitted classifier with one target: fit it."
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


# ---- steps of a pipeline


def _encoded(steps: Iterable[Model], stage: Stage) -> Stage:
    """Return the columns after some steps."""
    for step in steps:
        if step is None or isinstance(step, str) and step == "passthrough":
            continue
        if hasattr(step, "steps"):
            stage = _encoded([each for _, each in step.steps], stage)
            continue
        known = [cls.__name__ for cls in type(step).__mro__ if cls.__name__ in _STEPS]
        if known:
            stage = _STEPS[known[0]](step, stage)
        elif hasattr(step, "get_support"):
            stage = _selected(step, stage)
        else:
            raise _not_additive(f"{_name(step)} is not a step that keeps columns apart")
    return stage


def _transformed(step: Model, stage: Stage) -> Stage:
    """Return the columns after a ColumnTransformer, side by side."""
    names: Any = pd.Series(range(len(stage)), index=[each.name for each in stage])
    after: list[Cells | Coded] = []
    for name, part, chosen in step.transformers_:
        one = [chosen] if isinstance(chosen, (str, int, np.integer)) else chosen
        by_name = _are_names(one)
        places = (names.loc[one] if by_name else names.iloc[one]).tolist()
        if isinstance(part, str) and part == "drop" or not places:
            continue
        weight = (step.transformer_weights or {}).get(name, 1.0)
        own = _encoded([part], [stage[place] for place in places])
        after += _scaled(step, own, weight, 0.0) if weight != 1 else own
    return after


def _are_names(chosen: Any) -> bool:
    """Whether columns are chosen by their names rather than by their places."""
    if isinstance(chosen, slice):
        return isinstance(chosen.start or chosen.stop, str)
    return len(chosen) > 0 and isinstance(list(chosen)[0], str)


def _cells_of(step: Model, stage: Stage) -> list[Cells]:
    """Return the columns that an encoder takes; what is encoded already is an error."""
    for each in stage:
        if isinstance(each, Coded):
            raise _not_additive(f"{_name(step)} encodes {each.name!r} a second time")
    return [each for each in stage if isinstance(each, Cells)]


def _imputed(step: Model, stage: Stage) -> Stage:
    """Return the columns after a SimpleImputer, which fills missing cells."""
    if step.add_indicator or not pd.isna(step.missing_values):
        raise _not_additive(
            f"{_name(step)} with add_indicator or other missing values than NaN is not "
            "a step that keeps columns apart"
        )
    fills = zip(_cells_of(step, stage), step.statistics_, strict=True)
    return [replaced._replace(fill=fill) for replaced, fill in fills]


def _one_hot(step: Model, stage: Stage) -> Stage:
    """Return the columns after a OneHotEncoder: numbers of 0 and 1."""
    dropped = step.drop_idx_
    rare = getattr(step, "infrequent_categories_", None)
    takes_unknown = step.handle_unknown != "error"
    coded = []
    for j, column in enumerate(_cells_of(step, stage)):
        labels = step.categories_[j]
        few = set() if rare is None or rare[j] is None else {*_keys(rare[j])}
        frequent = [k for k, key in enumerate(_keys(labels)) if key not in few]
        place = np.full(len(labels), len(frequent))  # of infrequent ones: the last
        place[frequent] = np.arange(len(frequent))
        units = np.eye(len(frequent) + bool(few))
        unseen = np.zeros(len(units))
        if few and step.handle_unknown in ("infrequent_if_exist", "warn"):
            unseen = units[-1]
        if dropped is not None and dropped[j] is not None:
            units = np.delete(units, place[dropped[j]], axis=1)
            unseen = np.delete(unseen, place[dropped[j]])
        unseen = unseen if takes_unknown else np.full(len(unseen), np.nan)
        coded.append(_coded(column, labels, units[place], unseen))
    return coded


def _ordinal(step: Model, stage: Stage) -> Stage:
    """Return the columns after an OrdinalEncoder: a whole number each."""
    rare = getattr(step, "infrequent_categories_", None)
    coded = []
    for j, column in enumerate(_cells_of(step, stage)):
        labels = step.categories_[j]
        few = set() if rare is None or rare[j] is None else {*_keys(rare[j])}
        frequent = [k for k, key in enumerate(_keys(labels)) if key not in few]
        values = np.full(len(labels), float(len(frequent)))
        values[frequent] = np.arange(len(frequent))
        values[[pd.isna(label) for label in labels]] = step.encoded_missing_value
        takes_unknown = step.handle_unknown == "use_encoded_value"
        unseen = np.array([step.unknown_value if takes_unknown else np.nan], float)
        coded.append(_coded(column, labels, values[:, None], unseen))
    return coded


def _binned(step: Model, stage: Stage) -> Stage:
    """Return the columns after a KBinsDiscretizer."""
    coded = []
    for j, column in enumerate(_cells_of(step, stage)):
        edges = np.asarray(step.bin_edges_[j][1:-1], np.float64)
        size = len(edges) + 1
        numbers = np.arange(size)
        values = numbers[:, None] if step.encode == "ordinal" else np.eye(size)
        cells = np.append(step.bin_edges_[j][:1], edges)
        levels = Levels("number", bin_names(edges, False, ()), tuple(edges.tolist()))
        unseen = np.full(values.shape[1], np.nan)
        whole = Coded(column.name, levels, cells, values.astype(float), unseen)
        if column.fill is not None:
            place = int(np.searchsorted(edges, column.fill, side="right"))
            whole = with_missing(whole, whole.values[place])
        coded.append(whole)
    return coded


def _keys(labels: Iterable[Any]) -> list[str | None]:
    """Return what tells labels apart; all missing ones are one label."""
    plain = map(plain_label, labels)
    return [None if label is None else label_text(label) for label in plain]


def _coded(column: Cells, labels: Any, values: Floats, unseen: Floats) -> Coded:
    """Return a column of labels, a missing one last."""
    keys = _keys(labels)
    for k, key in enumerate(keys):
        if key in keys[:k]:
            shown = MISSING_TEXT if key is None else repr(key)
            raise ValueError(
                f"The model tells apart two labels of column {column.name!r} that are "
                f"both {shown} to renyi: make them one before training."
            )
    missing = [key is None for key in keys]
    order = np.argsort(missing, kind="stable")
    known = [plain_label(labels[k]) for k in order if not missing[k]]
    counts = np.append(np.ones(len(known)), float(any(missing)))
    levels = label_levels(known, counts, frozenset(), 1)
    cells = [labels[k] for k in order]
    coded = Coded(column.name, levels, cells, values[order], unseen)
    fill = _keys([column.fill])[0]
    if fill is None:
        return coded
    place = keys.index(fill) if fill in keys else None
    return with_missing(coded, unseen if place is None else values[place])


def with_missing(column: Coded, values: Floats) -> Coded:
    """Return a column whose missing cells have some values."""
    if None in column.levels.categories:
        return column
    return column._replace(
        levels=column.levels.with_missing(True),
        cells=[*column.cells, np.nan],
        values=np.vstack([column.values, values]),
    )


# ---- numbers of encoded columns


def _widths(columns: Sequence[Coded]) -> NDArray[np.int64]:
    """Return how many numbers each column sends to the next step."""
    return np.array([each.values.shape[1] for each in columns], np.int64)


def _all_coded(stage: Stage, step: Model) -> list[Coded]:
    """Return the columns that a step takes, all of which must be encoded."""
    for each in stage:
        if isinstance(each, Cells):
            raise ValueError(
                f"Column {each.name!r} reaches {_name(step)} as it is: encode it "
                "before, by OneHotEncoder, OrdinalEncoder or KBinsDiscretizer."
            )
    return [each for each in stage if isinstance(each, Coded)]


def _scaled(step: Model, stage: Stage, factor: Any, shift: Any) -> Stage:
    """Return the columns after ``factor · number + shift``, number by number."""
    columns = _all_coded(stage, step)
    starts = offsets(_widths(columns))
    a, b = (np.broadcast_to(each, starts[-1]) for each in (factor, shift))
    scaled = []
    for column, low, high in zip(columns, starts[:-1], starts[1:], strict=True):
        values = a[low:high] * column.values + b[low:high]
        unseen = a[low:high] * column.unseen + b[low:high]
        scaled.append(column._replace(values=values, unseen=unseen))
    return scaled


def _selected(step: Model, stage: Stage) -> Stage:
    """Return the columns with some of their numbers."""
    columns = _all_coded(stage, step)
    ends = offsets(_widths(columns))[1:-1]
    parts = zip(columns, np.split(step.get_support(), ends), strict=True)
    return [
        column._replace(values=column.values[:, own], unseen=column.unseen[own])
        for column, own in parts
    ]


def _standard(step: Model, stage: Stage) -> Stage:
    factor = 1 / step.scale_ if step.with_std else 1.0
    shift = -step.mean_ * factor if step.with_mean else 0.0
    return _scaled(step, stage, factor, shift)


def _robust(step: Model, stage: Stage) -> Stage:
    factor = 1 / step.scale_ if step.with_scaling else 1.0
    shift = -step.center_ * factor if step.with_centering else 0.0
    return _scaled(step, stage, factor, shift)


def _min_max(step: Model, stage: Stage) -> Stage:
    if step.clip:
        raise _not_additive(f"{_name(step)} with clip=True is not linear")
    return _scaled(step, stage, step.scale_, step.min_)


def _largest(step: Model, stage: Stage) -> Stage:
    return _scaled(step, stage, 1 / step.scale_, 0.0)


def _unchanged(step: Model, stage: Stage) -> Stage:
    if step.func is not None:
        raise _not_additive(f"{_name(step)} is not a step that keeps columns apart")
    return stage


_STEPS: dict[str, Callable[[Model, Stage], Stage]] = {
    "ColumnTransformer": _transformed,
    "SimpleImputer": _imputed,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "KBinsDiscretizer": _binned,
    "StandardScaler": _standard,
    "RobustScaler": _robust,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _largest,
    "FunctionTransformer": _unchanged,
}


# ---- the model itself

Scored = tuple[list[Coded], Floats, Calibration]  # points per class, start, their kind


def _points(model: Model, stage: Stage, K: int) -> Scored:
    """Return the points of encoded columns: one number per class, one for two."""
    if hasattr(model, "feature_log_prob_") and hasattr(model, "category_count_"):
        return _naive_bayes(model, stage)
    parts = getattr(model, "estimators_", None)
    one_for_each = hasattr(model, "multilabel_") and parts is not None
    models = list(parts or ()) if one_for_each else [model]
    if not all(hasattr(each, "coef_") for each in models):
        raise _not_additive(f"{_name(model)} is not a sum of points per category")
    coef = np.vstack([np.atleast_2d(each.coef_) for each in models]).astype(float)
    intercept = np.concatenate([np.atleast_1d(each.intercept_) for each in models])
    columns = _all_coded(stage, model)
    starts = offsets(_widths(columns))
    k = 1 if K == 2 else K
    if coef.shape != (k, starts[-1]):
        raise _not_additive(f"{_name(model)} is not a sum of points per category")
    parts = np.split(coef, starts[1:-1], axis=1)
    pointed = [
        column._replace(values=column.values @ own.T, unseen=column.unseen @ own.T)
        for column, own in zip(columns, parts, strict=True)
    ]
    intercept = np.broadcast_to(intercept, k).astype(np.float64)
    one_vs_rest = getattr(model, "multi_class", None) == "ovr" and K > 2
    odds = _name(model) in _SOFTMAX and not one_vs_rest
    odds |= _name(model) == "SGDClassifier" and model.loss == "log_loss" and K == 2
    return pointed, intercept, LOG_ODDS if odds else MARGIN


def _naive_bayes(model: Model, stage: Stage) -> Scored:
    """Return the points of a CategoricalNB: logarithms of probabilities."""
    pointed = []
    for column, logs in zip(stage, model.feature_log_prob_, strict=True):
        size = logs.shape[1]
        if isinstance(column, Cells):  # its cells are codes already
            codes = np.arange(size)
            nothing = np.array([np.nan])
            column = _coded(column, codes, codes[:, None].astype(float), nothing)
        both = np.vstack([column.values, column.unseen])
        if both.shape[1] != 1:
            raise _not_additive(f"{_name(model)} takes whole numbers, not indicators")
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
    pointed = []
    for term, scores in zip(model.term_features_, model.term_scores_, strict=True):
        names = [str(model.feature_names_in_[j]) for j in term]
        if len(term) > 1:
            raise _not_additive(
                f"This {_name(model)} has the interaction {' & '.join(names)!r}: train "
                "it with interactions=0"
            )
        bins = model.bins_[term[0]][0]
        scores = np.asarray(scores, np.float64).reshape(len(scores), -1)
        missing = scores[0]
        if isinstance(bins, dict):
            keys = {**bins}
            if {*keys} == {"0", "1"}:  # a column of truths may have these labels
                keys |= {"False": keys["0"], "True": keys["1"]}
            points = scores[[*keys.values()]]
            column = _coded(Cells(names[0]), [*keys], points, scores[-1])
            column = column._replace(cells=[*bins])
        else:
            edges = np.asarray(bins, np.float64)
            texts = bin_names(edges, False, ())
            levels = Levels("number", texts, tuple(edges.tolist()))
            cells = np.append(edges[:1] - 1 if len(edges) else 0.0, edges)
            column = Coded(names[0], levels, cells, scores[1:-1], scores[-1])
        pointed.append(with_missing(column, missing))
    intercept = np.atleast_1d(np.asarray(model.intercept_, np.float64))
    kind = LOG_ODDS if getattr(model, "link_", "logit") in ("logit", "mlogit") else None
    return pointed, intercept, kind or MARGIN


def _check_finite(model: Model, columns: Iterable[Coded]) -> None:
    for column in columns:
        if np.isinf(column.values).any() or np.isinf(column.unseen).any():
            raise ValueError(
                f"{_name(model)} gives a category of {column.name!r} infinite points: "
                "train it with smoothing (alpha above 0)."
            )


def accepted(columns: Iterable[Coded]) -> list[Coded]:
    """Return the columns of a model without the categories that it rejects."""
    kept = [_accepted(column) for column in columns]
    names = [column.name for column in kept]
    for name in names:
        if names.count(name) > 1:
            raise _not_additive(f"Column {name!r} is encoded twice")
    if not kept:
        raise _not_additive("The model uses no column")
    return kept


def _accepted(column: Coded) -> Coded:
    """Return a column without the categories that the model rejects."""
    keep = np.flatnonzero(~np.isnan(column.values).any(axis=1)).tolist()
    if len(keep) == len(column.values):
        return column
    kept = tuple(column.levels.categories[k] for k in keep)
    return column._replace(
        levels=column.levels._replace(categories=kept),
        cells=[column.cells[k] for k in keep],
        values=column.values[keep],
    )


# ---- the same scores


def _check_scores(model: Model, card: Scorer, columns: Sequence[Coded]) -> None:
    """Raise ValueError unless the model's scores of rows are the sums of the points.

    The rows have all categories that the points know.
    """
    n = max(len(column.cells) for column in columns)
    used = {c.name: c.cells for c in columns}
    rows = {
        name: [cells[r % len(cells)] for r in range(n)] for name, cells in used.items()
    }
    names = [each.name for each in _inputs(model)]
    table = pd.DataFrame({name: rows.get(name, [None] * n) for name in names})
    named = getattr(model, "feature_names_in_", None) is not None
    theirs = _scores(model, table if named else table.to_numpy())
    own = card.scores(card.encoder.transform(table[list(card.encoder.columns.names)]))
    if own.shape[1] > 1:  # a part common to all classes decides nothing
        own = own - own.mean(axis=1, keepdims=True)
        theirs = theirs - theirs.mean(axis=1, keepdims=True)
    off = np.abs(own - theirs).max() / (1 + np.abs(theirs).max())
    if not off <= _TOLERANCE:
        raise _not_additive(
            f"The scores of this {_name(model)} are not the sums of its points"
        )


def _scores(model: Model, X: Any) -> Floats:
    """Return the scores that a model gives to rows: one, or one for each class."""
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), np.float64)
        return scores.reshape(len(X), -1)
    logs = np.asarray(model.predict_log_proba(X), np.float64)
    return np.diff(logs) if logs.shape[1] == 2 else logs
