"""Rows in memory as codes: those to train on, and the sample that calibrates.

Codes are the narrow waist of every source of rows: small integers, one row of a block
per column of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from renyi.encoding.arrays import as_objects, column_names
from renyi.encoding.arrow import without_views
from renyi.encoding.columns import (
    Column,
    ColumnLike,
    Columns,
    Levels,
    TableLike,
    check_column,
    numbered_names,
)
from renyi.encoding.encoder import Encoder, check_usable, target_encoder
from renyi.encoding.merging import Tables, merged_encoder
from renyi.encoding.rules import (
    NO_ROWS,
    check_class_labels,
    check_features,
    check_names,
    check_sample_weight,
    check_target,
    counted_rows,
    distinct,
    no_counted_rows_error,
    no_target_error,
    target_name,
)
from renyi.encoding.tuples import Interactions, TupleEncoder, encoder_of_order
from renyi.warnings import warn_dropped

Floats = NDArray[np.float64]

SAMPLE = 2**14
"""Rows on which probabilities are calibrated, where there are more."""
_ROUNDING = 1e-9  # of sums of weights
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows as codes of their encoder, with the codes of their classes."""

    encoder: Encoder
    target: Column  # the classes
    codes: NDArray[Any]  # (d, n)
    y: NDArray[Any]  # codes of the classes
    sample_weight: Floats | None  # None means 1 throughout

    @property
    def n_indicators(self) -> int:
        """Number of categories of all columns."""
        return int(self.encoder.columns.sizes.sum())

    @property
    def weights(self) -> Floats:
        """Weight of each row."""
        ones = self.sample_weight is None
        return np.ones(len(self.y)) if ones else np.asarray(self.sample_weight)

    @property
    def effective_n(self) -> float:
        """Number of rows, a row of weight 2 counting twice."""
        return float(np.maximum(self.weights, 1).sum())

    def part(self, chosen: NDArray[Any]) -> TrainingRows:
        """Return some of the rows."""
        if chosen.all():
            return self
        places = np.flatnonzero(chosen)
        weights = None if self.sample_weight is None else self.sample_weight[places]
        codes = self.codes[:, places]
        return replace(self, codes=codes, y=self.y[places], sample_weight=weights)

    def dealt(self) -> tuple[TrainingRows, Pieces]:
        """Return copies of the rows, and how they are dealt to folds."""
        pieces = dealt(self.codes, self.y, self.sample_weight)
        weights = None
        if self.sample_weight is not None:
            weights = self.sample_weight[pieces.places] * pieces.share
        rows = replace(
            self,
            codes=self.codes[:, pieces.places],
            y=self.y[pieces.places],
            sample_weight=weights,
        )
        return rows, pieces

    def in_features(self, encoder: Encoder) -> TrainingRows:
        """Return rows of single columns as codes of an encoder made of these.

        It may make tuples of the columns, and have merged their bins.
        """
        codes = self.over(encoder.single.columns)
        if isinstance(encoder, TupleEncoder):
            codes = encoder.of_codes(codes)
        return replace(self, encoder=encoder, codes=codes)

    def joined(self, other: TrainingRows) -> TrainingRows:
        """Rows of both, over the categories of both."""
        pairs = zip(self.encoder.columns, other.encoder.columns, strict=True)
        columns = Columns.of(a.union(b) for a, b in pairs)
        weights = None
        if self.sample_weight is not None or other.sample_weight is not None:
            weights = np.concatenate([self.weights, other.weights])
        return TrainingRows(
            replace(self.encoder.joined(other.encoder), columns=columns),
            self.target,
            np.hstack([self.over(columns), other.over(columns)]),
            np.concatenate([self.y, other.y]),
            weights,
        )

    def class_tables(self) -> Tables:
        """Rows (or weight) of each bin and class, for each column of numbers."""
        K = len(self.target.categories)
        tables: Tables = []
        for column, codes in zip(self.encoder.columns, self.codes, strict=True):
            if column.kind == "label":
                tables.append(None)
                continue
            size = len(column.categories)
            both = codes.astype(np.intp) * K + self.y
            counts = np.bincount(both, self.sample_weight, minlength=size * K)
            tables.append(counts.reshape(size, K).astype(np.float64))
        return tables

    def over(self, columns: Columns) -> NDArray[Any]:
        """Codes of these rows in `columns`, which contain all their categories."""
        if self.encoder.columns == columns:
            return self.codes
        dtype = np.min_scalar_type(int(columns.sizes.max()))
        pairs = zip(self.encoder.columns, columns, self.codes, strict=True)
        return np.stack(
            [mine.places(wide).astype(dtype)[row] for mine, wide, row in pairs]
        )


def in_tuples(
    rows: TrainingRows, order: int, interactions: Interactions | None = None
) -> TrainingRows:
    """Return rows of single columns as codes of tuples of columns.

    Bins that are to be merged by the classes are merged first.
    """
    rows = merged_rows(rows)
    encoder = encoder_of_order(rows.encoder.settings(), order, interactions)
    assert isinstance(encoder, TupleEncoder)
    fitted = encoder.learned(rows.encoder.columns, rows.codes)
    return rows.in_features(fitted)


def merged_rows(rows: TrainingRows) -> TrainingRows:
    """Return rows with bins merged by their classes, if the encoder asks for it."""
    if not rows.encoder.is_fine:
        return rows
    return rows.in_features(merged_encoder(rows.encoder, rows.class_tables()))


def in_sample(places: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """Return which of n rows are in the sample, by their places.

    If n is small, all are. Else rows are chosen by their places alone, spread evenly by
    the golden ratio, `SAMPLE` of them but for a few. Every input path takes the same.
    A larger n keeps a subset of the rows that a smaller n keeps, so that blocks can be
    added.
    """
    if n <= SAMPLE:
        return np.ones(len(places), bool)
    keys = places.astype(np.uint64) * _GOLDEN
    return np.asarray(keys < np.uint64(2**64 * SAMPLE // n))


FOLDS = 10


class Pieces(NamedTuple):
    """Rows dealt to folds; a row of weight 2 is two copies, perhaps in two folds."""

    places: NDArray[np.intp]  # of the row behind each piece
    share: Floats  # of the weight of that row
    fold: NDArray[np.intp]


def dealt(codes: NDArray[Any], y: NDArray[Any], weights: Floats | None) -> Pieces:
    """Deal copies of rows to folds at random.

    How many copies of equal rows a fold has does not depend on the order of the rows,
    nor on whether these are one row of a larger weight. (If one fold had all copies,
    every kind of row would be new to the others.) A row of weight 2.5 is two copies, a
    row of a weight below 1 is one.
    """
    n = len(y)
    mass = np.ones(n) if weights is None else weights
    copies = np.maximum(np.floor(mass * (1 + _ROUNDING)), 1).astype(np.intp)
    order = np.lexsort((mass / copies, y, different_rows(codes)[1]))
    row = np.repeat(order, copies[order])
    fold = np.random.default_rng(0).permutation(len(row)) % FOLDS
    held = np.bincount(row * FOLDS + fold, minlength=n * FOLDS).reshape(n, FOLDS)
    places, folds = np.nonzero(held)
    return Pieces(places, held[places, folds] / copies[places], folds)


def different_rows(
    codes: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the place of one of each kind of rows, and which kind each row is.

    The kinds are in an order that only their codes decide.
    """
    rows = codes.T
    if rows.dtype.itemsize > 1:  # bytes in the order of the numbers
        rows = rows.astype(rows.dtype.newbyteorder(">"))
    rows = np.ascontiguousarray(rows)
    width = rows.dtype.itemsize * rows.shape[1]
    keys = rows.view(np.dtype((np.void, width))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return first, kind


class RowSample(NamedTuple):
    """The sample of the first n rows, and the places of its rows among them."""

    rows: TrainingRows
    places: NDArray[np.int64]
    n: int

    @classmethod
    def of(cls, block: TrainingRows, start: int = 0, n: int | None = None) -> RowSample:
        """Sample a block of n rows in all, the first of them at the place `start`."""
        places = np.arange(start, start + len(block.y))
        n = len(places) if n is None else n
        sampled = in_sample(places, n)
        return cls(block.part(sampled), places[sampled], n)

    def joined(self, block: TrainingRows) -> RowSample:
        """Sample these rows and the next ones."""
        n = self.n + len(block.y)
        sampled = in_sample(self.places, n)
        new = RowSample.of(block, self.n, n)
        places = np.concatenate([self.places[sampled], new.places])
        return RowSample(self.rows.part(sampled).joined(new.rows), places, n)


# ---- tables


def coded_rows(
    X: TableLike,
    y: ColumnLike = None,
    target: str | None = None,
    encoder: Encoder | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    refuse_identifiers: bool = True,
) -> TrainingRows:
    """Return the rows of a table that count, as codes of an encoder fitted to them.

    Parameters are those of `Marginals.from_data`.
    """
    encoder = encoder or Encoder()
    X, y, target = _split(X, y, target)
    if not len(y):
        raise ValueError(NO_ROWS)
    weights = check_sample_weight(sample_weight, len(y))
    answer, classes, counts = counted_target(y, target, encoder, weights)
    if not counts.all():
        rows = np.flatnonzero(counts)
        X = take_rows(X, rows)
        weights = None if weights is None else weights[rows]
    fitted, codes = encoder.fit_transform(
        X, weights, refuse_identifiers=refuse_identifiers
    )
    if refuse_identifiers:
        check_target(answer, len(classes))
    return TrainingRows(fitted, answer, codes, classes, weights)


def counted_target(
    y: ColumnLike, name: str, encoder: Encoder, weights: Floats | None
) -> tuple[Column, NDArray[np.intp], NDArray[np.bool_]]:
    """Return the classes of the rows that count, their codes, and which these are."""
    answer, codes = encoded_target(y, name, encoder)
    counts = counted_rows(codes >= 0, weights)
    if not counts.all():  # classes that no row has are none
        if not counts.any():
            raise no_counted_rows_error(name)
        used, codes = np.unique(codes[counts], return_inverse=True)
        labels = tuple(answer.categories[k] for k in used)
        answer = Column(name, Levels("label", labels))
    return answer, codes, counts


def encoded_target(
    y: ColumnLike, name: str, encoder: Encoder
) -> tuple[Column, NDArray[np.intp]]:
    """Return the classes of a target and each row's code; -1 where it is missing."""
    fitted, (codes,) = target_encoder(encoder).fit_transform(
        _as_column(y, name), refuse_identifiers=False
    )
    labels = fitted.columns[0].categories
    codes = codes.astype(np.intp)
    if None in labels:
        labels = labels[:-1]
        codes[codes == len(labels)] = -1
        if not labels:
            raise no_target_error(name)
        warn_dropped(int((codes < 0).sum()), name)
    return Column(name, Levels("label", labels)), codes


def _as_column(y: ColumnLike, name: str) -> TableLike:
    """Return the classes as a frame of one column."""
    if hasattr(y, "columns"):
        raise ValueError("y must be one column of classes; it is a whole table.")
    if isinstance(y, pd.Series):
        return y.to_frame(name)
    if isinstance(y, (pa.Array, pa.ChunkedArray)):
        return pa.table([y], names=[name])
    if hasattr(y, "__arrow_c_stream__"):
        return pa.table([pa.chunked_array(y)], names=[name])
    array = as_objects(y)
    if array.ndim != 1:
        raise ValueError(f"y must be one column of classes; it has {array.ndim} axes.")
    return pd.DataFrame({name: array})


def _split(
    X: TableLike, y: ColumnLike, target: str | None
) -> tuple[TableLike, ColumnLike, str]:
    """Return features, classes and the target's name."""
    names = column_names(X)
    if y is not None:
        name = str(target or getattr(y, "name", None) or "y")
        if names is not None and name in names:
            raise ValueError(
                f"The target is named {name!r} like a column of X: give it another "
                "name with target=, or drop that column."
            )
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(y)}.")
        if names is None:
            X = as_objects(X) if isinstance(X, (list, tuple)) else X
            if getattr(X, "shape", ())[1:] == (0,):
                names = []
        if names is not None:
            check_features(names, name)
        return X, y, name
    if target is None:
        raise ValueError("Give the classes y, or the name of their column as target=.")
    if names is None:
        raise ValueError("With an array, give the classes y: columns have no names.")
    check_column(names, target, "to predict")
    check_names(names)
    rest = [name for name in names if name != target]
    check_features(rest, target)
    if hasattr(X, "iloc"):
        where = names.index(target)
        keep = [j for j in range(len(names)) if j != where]
        return X.iloc[:, keep], X.iloc[:, where], target
    return X.select(rest), X[target], target


def take_rows(X: TableLike, rows: NDArray[Any]) -> TableLike:
    """Return some rows of a frame, an array or a sequence."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, pa.Table):
        return without_views(X).take(rows)
    if hasattr(X, "take") and not isinstance(X, np.ndarray):
        return X.take(rows)
    return X[rows] if hasattr(X, "__arrow_c_stream__") else as_objects(X)[rows]


@overload
def has_few_rows(n: float, n_indicators: float) -> bool: ...
@overload
def has_few_rows(n: float, n_indicators: NDArray[Any]) -> NDArray[np.bool_]: ...
def has_few_rows(
    n: float, n_indicators: float | NDArray[Any]
) -> bool | NDArray[np.bool_]:
    """Return whether rows are too few for a bound to say much about new ones."""
    return n <= 2 * n_indicators


# ---- rows with classes as an array


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
    classes, y_codes = distinct(labels)
    check_class_labels(classes, encoder.missing)
    encoder, codes = encoder.fit_transform(table, weights)
    check_usable(encoder)
    target = target_column(y, encoder, classes)
    return TrainingRows(encoder, target, codes, y_codes, weights)


def target_column(y: object, encoder: Encoder, classes: NDArray[Any]) -> Column:
    """Return the target as a column, with a name that no feature has."""
    name = target_name(y, encoder.input_names)
    return Column(name, Levels("label", tuple(classes.tolist())))


def has_names(encoder: Encoder) -> bool:
    """Whether the columns have names, and not the numbers of an array's columns."""
    names = tuple(encoder.input_names)
    return names != numbered_names(len(names))
