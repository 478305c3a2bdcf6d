"""Plans: what is counted in a stream of rows, and what is decided about each column.

Rows in memory are looked at as often as needed; of a stream, each pass over the rows is
dear. A `CountSpec` says what is known of every column before the next pass:

* a column of *labels* needs nothing: labels may appear in any batch;
* a column of *numbers* needs the edges of its bins;
* a column of integers may turn out to be either, and so may a column of text in a CSV
  file, which has no types.

What is still undecided is found by a first pass
(`renyi.streaming.profile.ColumnProfile`), which returns the decided spec; or, where
rows pass by only once, by `CountSpec.one_pass`: undecided columns are then
counted in fine cells, and binned at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.encoding.arrow_cells import (
    as_floats,
    check_type,
    numbers,
    storage,
    trimmed,
)
from renyi.encoding.column_rules import check_column, check_names, check_weights
from renyi.encoding.columns import RARE, Levels, label_text
from renyi.encoding.encoder import Encoder
from renyi.storage import first_line

Floats = NDArray[np.float64]

ROWS = 61_440
"""Rows that are read at a time: what they become stays in cache."""

_KINDS = ("label", "number", "auto")
_TEXTS = ("", "guess", "words", "integers", "numbers", "figures")
_FAMILIES = (
    *("text", "boolean", "integer", "float", "null", "other"),
    *("date", "time", "timestamp", "zoned timestamp", "duration"),
)
# Cells of all undecided columns of a single pass, and of each column.
_ALL_CELLS = 4096
_LEAST_CELLS, _MOST_CELLS = 64, 512


class ColumnSpec(NamedTuple):
    """What is known of a column before it is counted.

    `family` is of its type. `kind` is "label", "number", or "auto": the number of
    different integers decides. `text` says how text is read: as it stands (""), by its
    looks, still to be found out ("guess"), or as trimmed "words", "integers" or
    "numbers", or as "figures": labels that are numbers, each cell for itself. `levels`
    are those of a fitted encoder, or the bins of a number.
    """

    family: str
    kind: str
    text: str = ""
    levels: Levels | None = None

    @property
    def decided(self) -> bool:
        """Whether a row can be counted at once."""
        known = self.kind == "label" or (
            self.kind == "number" and self.levels is not None
        )
        return known and self.text != "guess"

    def numbers(
        self, name: str, column: Any, missing: frozenset[str]
    ) -> tuple[Floats, bool]:
        """Return cells as floats, NaN if missing, and whether they are whole."""
        return numbers(name, column, self.family, self.text, missing)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        levels = None if self.levels is None else self.levels.to_dict()
        return {**self._asdict(), "levels": levels}

    @classmethod
    def from_dict(cls, data: Any) -> ColumnSpec:
        """Return the column spec of a plain form, checked."""
        if not isinstance(data, dict) or set(data) != set(cls._fields):
            raise ValueError("the description of a column is not valid")
        levels = None if data["levels"] is None else Levels.from_dict(data["levels"])
        column = cls(data["family"], data["kind"], data["text"], levels)
        good = (
            column.family in _FAMILIES
            and column.kind in _KINDS
            and column.text in _TEXTS
        )
        if not good or (levels and levels.kind != column.kind):
            raise ValueError("the description of a column is not valid")
        return column


@dataclass(frozen=True)
class CountSpec:
    """What is counted: the columns, the target, and how cells become categories.

    Made by `CountSpec.of`.
    """

    names: tuple[str, ...]
    columns: tuple[ColumnSpec, ...]
    encoder: Encoder
    fitted: bool = False
    class_conditional: bool = False
    weight: str | None = None
    ignored: frozenset[str] = frozenset()
    cells: int = 0

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        target: str,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        weight: str | None = None,
        texts: Collection[str] = (),
    ) -> CountSpec:
        """Return the spec for a table of this schema."""
        encoder = encoder or Encoder()
        if encoder.order > 1:
            raise ValueError(
                f"Features of {encoder.order} columns cannot be counted in a stream: "
                "read the table into memory, and use from_data with its order."
            )
        names = [str(name) for name in schema.names]
        check_names(names)
        check_column(names, target, "to predict")
        if weight is not None:
            check_column(names, weight, "of weights")
        if weight == target:
            raise ValueError(f"{target!r} is the target: it cannot be the weight too.")
        features = _features(names, target, weight, encoder)
        types = dict(zip(names, schema.types, strict=True))
        known = {column.name: column.levels for column in encoder.columns}
        numeric = encoder.numeric_names(features)
        columns = [
            _column_spec(name, types[name], numeric, known.get(name), name in texts)
            for name in features
        ]
        columns.append(
            ColumnSpec(
                family(target, types[target]), "label", _guessed(target in texts)
            )
        )
        return cls(
            (*features, target),
            tuple(columns),
            encoder.settings(),
            bool(encoder.columns),
            class_conditional,
            weight,
            frozenset(names) - {*features, target, weight},
        )

    @property
    def target(self) -> str:
        """The column to predict."""
        return self.names[-1]

    @property
    def missing(self) -> frozenset[str]:
        """Texts of the labels that mean "missing"."""
        return frozenset(label_text(label) for label in self.encoder.missing)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Names of all columns that are read, the weight included."""
        return self.names if self.weight is None else (*self.names, self.weight)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Names of the columns that a first pass must look at."""
        if self.cells:
            return ()
        pairs = zip(self.names, self.columns, strict=True)
        return tuple(name for name, column in pairs if not column.decided)

    def column(self, name: str) -> ColumnSpec:
        """Return what is known of a column."""
        return self.columns[self.names.index(name)]

    def decided(self, columns: dict[str, ColumnSpec]) -> CountSpec:
        """Return the spec with some columns replaced."""
        pairs = zip(self.names, self.columns, strict=True)
        made = tuple(columns.get(name, column) for name, column in pairs)
        return dataclasses.replace(self, columns=made)

    def one_pass(self) -> CountSpec:
        """Return the spec that counts in one pass, whatever is undecided.

        An undecided column of numbers is counted in cells, up to 512 of them (fewer if
        there are more than eight such columns), and binned at the end. That is exact
        while it has at most so many different values; beyond, a bin may hold the rows
        of one cell more or fewer than its share. An undecided column of text is counted
        by its texts.
        """
        count = sum(not column.decided and not column.text for column in self.columns)
        share = _ALL_CELLS // max(count, 1)
        cells = min(_MOST_CELLS, max(_LEAST_CELLS, share))
        return dataclasses.replace(self, cells=cells)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {
            "names": list(self.names),
            "columns": [column.to_dict() for column in self.columns],
            "encoder": self.encoder.to_dict(),
            "fitted": self.fitted,
            "class_conditional": self.class_conditional,
            "weight": self.weight,
            "ignored": sorted(self.ignored),
            "cells": self.cells,
        }

    @classmethod
    def from_dict(cls, data: Any) -> CountSpec:
        """Return the spec of a plain form, checked: it may be of a damaged file."""
        known = {each.name for each in dataclasses.fields(cls)}
        if not isinstance(data, dict) or set(data) != known:
            raise ValueError("the description of the spec is not valid")
        names, columns, ignored = data["names"], data["columns"], data["ignored"]
        good = (
            all(isinstance(part, list) for part in (names, columns, ignored))
            and all(isinstance(name, str) for name in (*names, *ignored))
            and len(set(names)) == len(names) == len(columns) >= 2
            and all(type(data[key]) is bool for key in ("fitted", "class_conditional"))
            and (data["weight"] is None or isinstance(data["weight"], str))
            and type(data["cells"]) is int
            and 0 <= data["cells"] <= _MOST_CELLS
        )
        if not good:
            raise ValueError("the description of the spec is not valid")
        described = tuple(ColumnSpec.from_dict(column) for column in columns)
        if described[-1].kind != "label":
            raise ValueError("the target of the spec is not valid")
        made = {
            "names": tuple(names),
            "columns": described,
            "encoder": Encoder.from_dict(data["encoder"]),
            "ignored": frozenset(ignored),
        }
        return cls(**{**data, **made})


def family(name: str, kind: pa.DataType) -> str:
    """Return what a type holds; batches of one family are read alike."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if types.is_dictionary(kind):
        inner = family(name, kind.value_type)
        # A dictionary of numbers is of labels, whatever its values.
        return "text" if inner == "text" else "other"
    check_type(name, kind)
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_string_view(kind):
        return "text"
    if types.is_decimal(kind):  # sums of integers are decimals without a fraction
        return "float" if kind.scale else "integer"
    if types.is_timestamp(kind):
        return "zoned timestamp" if kind.tz else "timestamp"
    for holds, found in (
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (types.is_floating, "float"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_duration, "duration"),
        (types.is_null, "null"),
    ):
        if holds(kind):
            return found
    return "other"


def _features(
    names: list[str], target: str, weight: str | None, encoder: Encoder
) -> list[str]:
    """Return the names of the features, in order."""
    features = [name for name in names if name not in (target, weight)]
    if encoder.columns:
        for name in encoder.feature_names:
            if name not in features:
                raise ValueError(f"Column {name!r} is missing from the table.")
        return list(encoder.feature_names)
    if not features:
        raise ValueError(f"The table has no column beside the target {target!r}.")
    return features


def _guessed(text: bool) -> str:
    return "guess" if text else ""


def _column_spec(
    name: str,
    dtype: pa.DataType,
    numeric: frozenset[str] | None,
    levels: Levels | None,
    text: bool,
) -> ColumnSpec:
    """Return what is known of a feature."""
    found = family(name, dtype)
    if levels is not None:
        return ColumnSpec(
            found, levels.kind, fitted_text(levels) if text else "", levels
        )
    if numeric is not None:
        return ColumnSpec(
            found, "number" if name in numeric else "label", _guessed(text)
        )
    if text or found == "integer":
        return ColumnSpec(found, "auto", _guessed(text))
    return ColumnSpec(found, "number" if found == "float" else "label")


def fitted_text(levels: Levels) -> str:
    """Return how text is read for a column of a fitted encoder.

    Labels that are numbers are figures: "1.0" in a file is the label 1.
    """
    if levels.kind == "number":
        return "numbers"
    labels = {*levels.categories, *levels.rare} - {RARE}
    return "words" if any(isinstance(label, str) for label in labels) else "figures"


# ---- batches of rows


class Slice(NamedTuple):
    """Some rows: one array per column asked for, and their weights."""

    columns: list[Any]
    weights: Floats | None
    rows: int


def slices(
    spec: CountSpec,
    batch: pa.RecordBatch,
    names: Sequence[str],
    start: int = 0,
    most: int = ROWS,
) -> Iterator[Slice]:
    """Yield some columns of a batch, a few thousand rows at a time."""
    check_schema(spec, batch.schema)
    if isinstance(batch, pa.Table):
        for piece in batch.to_batches():
            yield from slices(spec, piece, names, start, most)
            start += piece.num_rows
        return
    columns = [storage(batch.column(name)) for name in names]
    for low in range(0, batch.num_rows, most):
        rows = min(most, batch.num_rows - low)
        weights = None
        if spec.weight is not None:
            cells = storage(batch.column(spec.weight)).slice(low, rows)
            weights = _weights(spec.weight, cells, start + low)
        yield Slice([column.slice(low, rows) for column in columns], weights, rows)


def check_schema(spec: CountSpec, schema: pa.Schema) -> None:
    """Refuse a batch whose columns are not those of the spec."""
    types = dict(zip(schema.names, schema.types, strict=True))
    check_names(schema.names)
    for name in spec.read_columns:
        if name not in types:
            raise ValueError(
                f"Column {name!r} is missing from some of the rows: give every batch "
                "the same columns."
            )
    for name, column_spec in zip(spec.names, spec.columns, strict=True):
        found = family(name, types[name])
        if found not in (column_spec.family, "null"):
            raise ValueError(
                f"Column {name!r} holds {column_spec.family} in the first rows and "
                f"{found} ({types[name]}) later: give it one type throughout."
            )
    for name in types.keys() - spec.ignored - set(spec.read_columns):
        raise ValueError(
            f"Column {name!r} is in some of the rows only: give every batch the same "
            "columns."
        )


def _weights(name: str, column: Any, start: int) -> Floats:
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if family(name, column.type) == "text":
            column = trimmed(column)
        values = as_floats(column).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"The column of weights {name!r} is not of numbers ({first_line(error)}): "
            "correct it, or name another one."
        ) from None
    check_weights(values, name, start)
    return np.asarray(values, np.float64)
