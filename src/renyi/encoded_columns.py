"""Encoded columns: what the steps of a pipeline make of each column of a table.

A column is first its cells (`Cells`), which an encoder turns into categories and the
numbers that each sends to the next step (`Coded`). A scaler changes these numbers.
Steps are known by the names of their classes, so that no package is imported.

Packages disagree about how truth values are written: to scikit-learn, a column of the
type `boolean` of pandas holds 0.0 and 1.0; in a table it holds False and True. To a
model these are the same. So a column of truth values has the labels of both spellings,
or those that the rows of some marginals have.
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
    Levels,
    label_text,
    plain_label,
)
from renyi.encoding.rules import label_levels

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

Floats = NDArray[np.float64]
Model = Any  # an estimator of another package, known by its attributes

_ADVICE = (
    "renyi certifies linear models and CategoricalNB on encoded columns, explainable "
    "boosting machines without interactions, and tables of points."
)


class Cells(NamedTuple):
    """A column before it is encoded; `fill` replaces its missing cells."""

    name: str
    fill: Any = None
    missing: Any = np.nan  # what the model takes for a missing cell


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
    truths: bool = False  # whether 0 and 1 are also False and True

    @property
    def rejects_unseen(self) -> bool:
        """Whether the model rejects a label that is not in the levels."""
        return bool(np.isnan(self.unseen).any())


Stage = Sequence[Cells | Coded]


def name_of(model: Model) -> str:
    """Return the name of a model's class."""
    return type(model).__name__


def not_additive(what: str) -> ValueError:
    """Return the error for what is not additive, with what is."""
    return ValueError(f"{what}: {_ADVICE}")


# ---- steps of a pipeline


def encoded(steps: Iterable[Model], stage: Stage) -> Stage:
    """Return the columns after some steps."""
    for step in steps:
        if step is None or isinstance(step, str) and step == "passthrough":
            continue
        if hasattr(step, "steps"):
            stage = encoded([each for _, each in step.steps], stage)
            continue
        known = [cls.__name__ for cls in type(step).__mro__ if cls.__name__ in _STEPS]
        if not known:
            raise not_additive(f"{name_of(step)} is not a step that renyi follows")
        stage = _STEPS[known[0]](step, stage)
    return stage


def _transformed(step: Model, stage: Stage) -> Stage:
    """Return the columns after a ColumnTransformer, side by side."""
    names: Any = pd.Series(range(len(stage)), index=[each.name for each in stage])
    after: list[Cells | Coded] = []
    if step.transformer_weights:
        raise not_additive(f"{name_of(step)} has transformer_weights")
    for _, part, chosen in step.transformers_:
        one = [chosen] if isinstance(chosen, (str, int, np.integer)) else chosen
        by_name = _are_names(one)
        places = (names.loc[one] if by_name else names.iloc[one]).tolist()
        if isinstance(part, str) and part == "drop" or not places:
            continue
        after += encoded([part], [stage[place] for place in places])
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
            raise not_additive(f"{name_of(step)} encodes {each.name!r} a second time")
    return [each for each in stage if isinstance(each, Cells)]


def _imputed(step: Model, stage: Stage) -> Stage:
    """Return the columns after a SimpleImputer, which fills missing cells."""
    missing = step.missing_values
    if step.add_indicator or not pd.isna(missing):
        raise not_additive(
            f"{name_of(step)} with add_indicator or other missing values than NaN is "
            "not a step that keeps columns apart"
        )
    fills = zip(_cells_of(step, stage), step.statistics_, strict=True)
    return [column._replace(fill=fill, missing=missing) for column, fill in fills]


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
        coded.append(coded_column(column, labels, units[place], unseen))
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
        coded.append(coded_column(column, labels, values[:, None], unseen))
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
            whole = with_missing(whole, whole.values[place], column.missing)
        coded.append(whole)
    return coded


def _keys(labels: Iterable[Any]) -> list[str | None]:
    """Return what tells labels apart; all missing ones are one label."""
    plain = map(plain_label, labels)
    return [None if label is None else label_text(label) for label in plain]


def coded_column(column: Cells, labels: Any, values: Floats, unseen: Floats) -> Coded:
    """Return a column of labels, a missing one last."""
    places, others = _other_spellings(labels)
    labels = [*labels, *others]
    values = np.vstack([values, values[places]])
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
    coded = Coded(column.name, levels, cells, values[order], unseen, bool(others))
    fill = _keys([column.fill])[0]
    if fill is None:
        return coded
    place = keys.index(fill) if fill in keys else None
    filled = unseen if place is None else values[place]
    return with_missing(coded, filled, column.missing)


def _other_spellings(labels: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """Return the other labels of truth values, and the places of those they mean.

    A column has truth values if it has no other labels than 0, 1, False and True.
    """
    places = []
    others = []
    for k, label in enumerate(map(plain_label, labels)):
        if label is None:
            continue
        if isinstance(label, str) or label not in (0, 1):
            return [], []
        places.append(k)
        others.append(int(label) if isinstance(label, bool) else bool(label))
    return places, others


def spelled_as(column: Coded, m: Marginals) -> Coded:
    """Return a column with the categories that it has in marginals.

    Of truth values, the spelling that no row has is left out. So is the missing level
    of numbers if the marginals have none. It is then what a missing cell has that
    training did not: the points of unseen labels, which numbers do not have.
    """
    columns = m.encoder.columns
    place = columns.places([column.name])[0]
    theirs = columns[place].levels
    if column.levels.kind == "number":
        own = [label is not None for label in column.levels.categories]
        if all(own) or None in theirs.categories:
            return column
        return _kept(column, own)._replace(unseen=column.values[own.index(False)])
    if not column.truths:
        return column
    rows = np.split(m.feature_counts.diagonal(), offsets(columns.sizes)[1:-1])[place]
    labels = {text for text, n in zip(theirs.texts, rows, strict=True) if n > 0}
    numbers = bool(labels & {"0", "1"})
    words = bool(labels & {"False", "True"})
    if numbers == words:
        return column
    unused = {"False", "True"} if numbers else {"0", "1"}
    return _kept(column, [text not in unused for text in column.levels.texts])


def with_missing(column: Coded, values: Floats, cell: Any = np.nan) -> Coded:
    """Return a column whose missing cells have some values."""
    if None in column.levels.categories:
        return column
    return column._replace(
        levels=column.levels.with_missing(True),
        cells=[*column.cells, cell],
        values=np.vstack([column.values, values]),
    )


# ---- numbers of encoded columns


def widths(columns: Sequence[Coded]) -> NDArray[np.int64]:
    """Return how many numbers each column sends to the next step."""
    return np.array([each.values.shape[1] for each in columns], np.int64)


def all_coded(stage: Stage, step: Model) -> list[Coded]:
    """Return the columns that a step takes, all of which must be encoded."""
    for each in stage:
        if isinstance(each, Cells):
            raise ValueError(
                f"Column {each.name!r} reaches {name_of(step)} as it is: encode it "
                "before, by OneHotEncoder, OrdinalEncoder or KBinsDiscretizer."
            )
    return [each for each in stage if isinstance(each, Coded)]


def _standard(step: Model, stage: Stage) -> Stage:
    """Return the columns after a StandardScaler: ``a · number + b``, one by one."""
    columns = all_coded(stage, step)
    starts = offsets(widths(columns))
    factor = 1 / step.scale_ if step.with_std else 1.0
    shift = -step.mean_ * factor if step.with_mean else 0.0
    a, b = (np.broadcast_to(each, starts[-1]) for each in (factor, shift))
    scaled = []
    for column, low, high in zip(columns, starts[:-1], starts[1:], strict=True):
        values = a[low:high] * column.values + b[low:high]
        unseen = a[low:high] * column.unseen + b[low:high]
        scaled.append(column._replace(values=values, unseen=unseen))
    return scaled


def _unchanged(step: Model, stage: Stage) -> Stage:
    """Return the columns that a ColumnTransformer passes through."""
    if step.func is not None:
        raise not_additive(f"{name_of(step)} is not a step that renyi follows")
    return stage


_STEPS: dict[str, Callable[[Model, Stage], Stage]] = {
    "ColumnTransformer": _transformed,
    "SimpleImputer": _imputed,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "KBinsDiscretizer": _binned,
    "StandardScaler": _standard,
    "FunctionTransformer": _unchanged,
}


# ---- what a model accepts


def accepted(columns: Iterable[Coded]) -> list[Coded]:
    """Return the columns of a model without the categories that it rejects."""
    kept = [_accepted(column) for column in columns]
    names = [column.name for column in kept]
    for name in names:
        if names.count(name) > 1:
            raise not_additive(f"Column {name!r} is encoded twice")
    if not kept:
        raise not_additive("The model uses no column")
    return kept


def _accepted(column: Coded) -> Coded:
    """Return a column without the categories that the model rejects."""
    return _kept(column, [not np.isnan(points).any() for points in column.values])


def _kept(column: Coded, kept: Sequence[bool]) -> Coded:
    """Return a column with some of its categories."""
    keep = np.flatnonzero(kept).tolist()
    if len(keep) == len(column.values):
        return column
    categories = tuple(column.levels.categories[k] for k in keep)
    return column._replace(
        levels=column.levels._replace(categories=categories),
        cells=[column.cells[k] for k in keep],
        values=column.values[keep],
    )
