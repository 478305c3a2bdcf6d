"""What is counted in a stream of rows, what is known of each column, and how rows come.

Rows in memory are looked at as often as needed; of a stream, each pass over the rows is
expensive. A `CountSpec` says what is known of every column before the next pass:

* a column of *labels* needs nothing: labels may appear in any batch;
* a column of *numbers* needs the edges of its bins;
* a column of integers may turn out to be either, and so may a column of text in a CSV
  file, which has no types.

What is still undecided is found by a first pass
(`renyi.sources.profile.ColumnProfile`), which returns the decided spec.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.encoding.arrow import check_type, plain_array, weight_floats
from renyi.encoding.columns import RARE, Columns, Levels, check_column
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import (
    Identifier,
    check_features,
    check_identifiers,
    check_names,
    check_weight_column,
    label_identifiers,
    missing_texts,
)
from renyi.files import read_archive, write_archive

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

ROWS = 61_440
"""Rows that are read at a time: what they become stays in cache."""

TYPES = ("|u1", "<u2", "<u4", "<u8", "<i8", "<f8")
"""Of the arrays that are sent as bytes."""

_VERSION = 3


class ColumnSpec(NamedTuple):
    """What is known of a column before it is counted.

    `family` is of its type. `kind` is "label", "number", or "auto": the number of
    different integers decides. `text` says how text is read. "" is unchanged, "guess"
    is still to be decided by the cells. "words", "integers" and "numbers" are trimmed.
    "figures" are labels that are numbers, each cell for itself. `levels`
    are those of a fitted encoder, or the bins of a number. `row_numbers` is how many
    different numbers number the rows, "" if they do not.
    """

    family: str
    kind: str
    text: str = ""
    levels: Levels | None = None
    row_numbers: str = ""

    @property
    def decided(self) -> bool:
        """Whether a row can be counted at once."""
        binned = self.kind == "number" and self.levels is not None
        return self.text != "guess" and (self.kind == "label" or binned)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        levels = None if self.levels is None else self.levels.to_dict()
        return {**self._asdict(), "levels": levels}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ColumnSpec:
        """Return the column spec of a plain form."""
        levels = data["levels"]
        known = None if levels is None else Levels.from_dict(levels)
        return cls(**{**data, "levels": known})


@dataclass(frozen=True)
class CountSpec:
    """What is counted: the columns, the target, and how cells become categories."""

    names: tuple[str, ...]
    columns: tuple[ColumnSpec, ...]
    encoder: Encoder
    fitted: bool = False
    class_conditional: bool = False
    weight: str | None = None
    ignored: frozenset[str] = frozenset()

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
        check_weight_column(weight, target)
        features = [name for name in names if name not in (target, weight)]
        check_features(features, target)
        known = {column.name: column.levels for column in encoder.columns}
        settings = encoder.fresh.settings()
        if known:
            there = {*features}
            features = list(known)
            for name in features:
                if name not in there:
                    raise ValueError(f"Column {name!r} is missing from the table.")
        numeric = encoder.numeric_names(features)
        types = dict(zip(names, schema.types, strict=True))
        columns = []
        for name in (*features, target):
            family_name = family(name, types[name])
            levels = known.get(name)
            text = "guess" if name in texts else ""
            kind = "number" if family_name == "float" else "label"
            if name == target:
                kind = "label"
            elif levels is not None:
                kind = levels.kind
                text = fitted_text(levels) if text else ""
            elif name in encoder.binned_names:
                kind = "number"
            elif numeric is not None:
                kind = "number" if name in numeric else "label"
            elif text or family_name == "integer":
                kind = "auto"
            columns.append(ColumnSpec(family_name, kind, text, levels))
        return cls(
            (*features, target),
            tuple(columns),
            settings,
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
        return missing_texts(self.encoder.missing)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Names of all columns that are read, the weight included."""
        return self.names if self.weight is None else (*self.names, self.weight)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Names of the columns that a first pass must look at."""
        known = self.by_name.items()
        return tuple(name for name, column in known if not column.decided)

    @property
    def by_name(self) -> dict[str, ColumnSpec]:
        """What is known of each column."""
        return dict(zip(self.names, self.columns, strict=True))

    def check_identifiers(self, columns: Columns, n: int) -> None:
        """Raise an error that names all identifiers among the counted columns."""
        if self.fitted:
            return
        identifiers = label_identifiers(columns, n)
        identifiers += [
            Identifier(name, "number", column.row_numbers)
            for name, column in self.by_name.items()
            if column.row_numbers
        ]
        check_identifiers(
            sorted(identifiers, key=lambda v: self.names.index(v.name)), n
        )

    def decided(self, columns: Mapping[str, ColumnSpec]) -> CountSpec:
        """Return the spec with some columns replaced."""
        made = {**self.by_name, **columns}
        return dataclasses.replace(self, columns=tuple(made.values()))

    def only(self, features: Collection[str]) -> CountSpec:
        """Return the spec of some of the features and the target."""
        read = {*features, self.target}
        chosen = [pair for pair in self.by_name.items() if pair[0] in read]
        names, columns = zip(*chosen, strict=True)
        return dataclasses.replace(self, names=names, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {
            **vars(self),
            "names": list(self.names),
            "columns": [column.to_dict() for column in self.columns],
            "encoder": self.encoder.to_dict(),
            "ignored": sorted(self.ignored),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CountSpec:
        """Return the spec of a plain form."""
        made = {
            "names": tuple(data["names"]),
            "columns": tuple(map(ColumnSpec.from_dict, data["columns"])),
            "encoder": Encoder.from_dict(data["encoder"]),
            "ignored": frozenset(data["ignored"]),
        }
        return cls(**{**data, **made})


def family(name: str, kind: pa.DataType) -> str:
    """Return what a type holds; batches of one family are read alike."""
    types = pa.types
    check_type(name, kind)
    if types.is_dictionary(kind):
        inner = family(name, kind.value_type)
        # A dictionary of numbers is of labels, whatever its values.
        return "text" if inner == "text" else "other"
    if types.is_decimal(kind):  # sums of integers are decimals without a fraction
        return "float" if kind.scale else "integer"
    for holds, family_name in (
        (types.is_string, "text"),
        (types.is_string_view, "text"),
        (types.is_large_string, "text"),
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (types.is_floating, "float"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_timestamp, "timestamp"),
        (types.is_null, "null"),
    ):
        if holds(kind):
            return family_name
    return "other"


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
    start: int | None = None,
    most: int = ROWS,
) -> Iterator[Slice]:
    """Yield some columns of a batch, a few thousand rows at a time.

    `start` rows come before the batch; None if that is not known.
    """
    _check_schema(spec, batch.schema)
    if isinstance(batch, pa.Table):
        for piece in batch.to_batches():
            yield from slices(spec, piece, names, start, most)
            start = None if start is None else start + piece.num_rows
        return
    columns = [plain_array(batch.column(name)) for name in names]
    for low in range(0, batch.num_rows, most):
        rows = min(most, batch.num_rows - low)
        weights = None
        if spec.weight is not None:
            cells = batch.column(spec.weight).slice(low, rows)
            before = None if start is None else start + low
            weights = weight_floats(spec.weight, cells, before)
        yield Slice([column.slice(low, rows) for column in columns], weights, rows)


def _check_schema(spec: CountSpec, schema: pa.Schema) -> None:
    """Raise ValueError if the columns of a batch are not those of the spec."""
    types = dict(zip(schema.names, schema.types, strict=True))
    check_names(schema.names)
    for name in spec.read_columns:
        if name not in types:
            raise ValueError(
                f"Column {name!r} is missing from some of the rows: give every batch "
                "the same columns."
            )
    families = dict[pa.DataType, str]()
    for name, wanted in spec.by_name.items():
        actual = families.get(types[name]) or family(name, types[name])
        families[types[name]] = actual
        if actual not in (wanted.family, "null"):
            raise ValueError(
                f"Column {name!r} holds {wanted.family} in the first rows and {actual} "
                f"({types[name]}) later: give it one type throughout."
            )
    for name in types.keys() - spec.ignored - set(spec.read_columns):
        raise ValueError(
            f"Column {name!r} is in some of the rows only: give every batch the same "
            "columns."
        )


# ---- what a pass keeps of them


def pack(kind: str, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return a header and arrays of numbers as an archive that is not compressed."""
    stream = io.BytesIO()
    named = {**header, "format": f"renyi-{kind}", "version": _VERSION}
    write_archive(stream, named, arrays)
    return stream.getvalue()


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays that `pack` put together, checked."""
    header, arrays = read_archive(
        io.BytesIO(data), "What was received", f"renyi-{kind}", _VERSION, TYPES
    )
    for field in ("format", "version", "checksum"):
        del header[field]
    return header, arrays


class Summary:
    """What a pass keeps of the rows of a spec.

    Summaries of different rows can be merged, in any order. As bytes they are sent
    to another process.
    """

    kind: str  # of its bytes
    step: str  # what the pass does, in the user's words

    def __init__(self, spec: CountSpec) -> None:
        self.spec = spec
        self.n = 0  # rows that count: with a target, and a weight
        self.seen = 0  # rows looked at
        self.start: int | None = None  # rows before these, where that is known

    @property
    def next_row(self) -> int | None:
        """The number of the row that comes next, where it is known."""
        return None if self.start is None else self.start + self.seen

    @property
    def table_bytes(self) -> int:
        """Bytes of a table of all pairs."""
        return 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Look at the rows of a batch."""
        raise NotImplementedError

    def settle(self) -> None:
        """Do what is left to do, so that a merge has less."""

    def merge(self, other: Self) -> None:
        """Add what another one of the same spec found."""
        if other.spec != self.spec:
            name = type(self).__name__
            raise ValueError(f"The two {name}s are of different specs: use one spec.")
        self.n += other.n
        self.seen += other.seen

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        header, arrays = self._parts()
        facts = {"spec": self.spec.to_dict(), "n": self.n, "seen": self.seen}
        return pack(self.kind, {**facts, **header}, arrays)

    @classmethod
    def from_bytes(cls, spec: CountSpec, data: bytes) -> Self:
        """Return what bytes hold; version and checksum are checked."""
        made = cls(spec)
        header, arrays = unpack(cls.kind, data)
        if header["spec"] != spec.to_dict():
            raise ValueError(f"The bytes of the {cls.kind} are of another spec.")
        made.n = header["n"]
        made.seen = header["seen"]
        made._fill(header, arrays)
        return made

    def _parts(self) -> tuple[dict[str, Any], Arrays]:
        """Return what else there is, as a header and arrays."""
        raise NotImplementedError

    def _fill(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Take what else there is."""
        raise NotImplementedError
