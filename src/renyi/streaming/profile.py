"""Profiles: the first pass over a stream, which decides what its columns are.

Bins need the quantiles of all rows, integers are labels if there are few of them, and a
column of a CSV file is of numbers only if all its cells are. A `ColumnProfile` looks at
the undecided columns of a spec, batch by batch, and keeps a bounded summary of each:
sketches of numbers (`renyi.encoding.bins`) and what text looked like
(`renyi.encoding.arrow_cells`). Summaries of different rows can be merged, in any order.
What is decided is what `Encoder.fit` decides with all rows in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.arrow_cells import TextKind
from renyi.encoding.bins import EXACT, MOST, Cells, Sketch, bin_cells
from renyi.encoding.column_rules import (
    MAX_INTEGER_LABELS,
    are_whole,
    check_row_numbers,
    is_number,
)
from renyi.encoding.columns import Levels
from renyi.streaming import wire
from renyi.streaming.column_encoders import LabelEncoder
from renyi.streaming.spec import ColumnSpec, CountSpec, slices

_KIND = "profile"


class ColumnProfile:
    """What a first pass finds out about the undecided columns of a spec."""

    table_bytes = 0  # as of a counter: there is no table of pairs

    def __init__(self, spec: CountSpec) -> None:
        self._spec = spec
        self.n = 0  # rows with a target
        self.seen = 0
        self._columns = {
            name: _Undecided(name, spec.column(name), spec.missing)
            for name in spec.undecided
        }
        column_spec = spec.column(spec.target)
        self._target = LabelEncoder(spec.target, column_spec, spec.missing)

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Look at the rows of a batch."""
        names, columns = [*self._columns, self._spec.target], self._columns.values()
        for piece in slices(self._spec, batch, names, self.seen):
            self.seen += piece.rows
            keep = self._target.encode(piece.columns[-1]) > 0
            if piece.weights is not None:
                keep &= piece.weights > 0
            count = int(keep.sum())
            self.n += count
            rows = None if count == piece.rows else keep
            weights = piece.weights if rows is None else _only(piece.weights, keep)
            for column, cells in zip(columns, piece.columns, strict=False):
                column.add(cells, rows, weights)

    def settle(self) -> None:
        """Do what is left to do, as a counter does: nothing waits in a profile."""

    def merge(self, other: ColumnProfile) -> None:
        """Add what another profile of the same spec found."""
        if other._spec != self._spec:
            raise ValueError("The two profiles are of different specs: use one spec.")
        self.n += other.n
        self.seen += other.seen
        for name, column in self._columns.items():
            column.merge(other._columns[name])

    def spec(self) -> CountSpec:
        """Return the spec with every column decided."""
        auto = self._spec.encoder.numeric == "auto" and not self._spec.fitted
        bins, columns, errors = self._spec.encoder.bins, {}, []
        for name, column in self._columns.items():
            try:
                columns[name] = column.decided(bins, self.n if auto else 0)
            except ValueError as error:  # all identifiers are named at once
                errors.append(str(error))
        if errors:
            raise ValueError(" ".join(errors))
        return self._spec.decided(columns)

    def to_bytes(self) -> bytes:
        """Return the profile as bytes."""
        header = {
            "spec": self._spec.to_dict(),
            "n": self.n,
            "seen": self.seen,
            "columns": [column.to_dict() for column in self._columns.values()],
        }
        arrays = {
            f"{key} {j}": array
            for j, column in enumerate(self._columns.values())
            for key, array in column.sketch.to_parts()[1].items()
        }
        return wire.pack(_KIND, header, arrays)

    @classmethod
    def from_bytes(cls, spec: CountSpec, data: bytes) -> ColumnProfile:
        """Return the profile of bytes, checked: they may come from a damaged file."""
        made = cls(spec)
        wire.fill(_KIND, made, spec.to_dict(), data)
        return made

    def fill(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take what bytes hold, checked."""
        self.n, self.seen = wire.row_count(header, "n"), wire.row_count(header, "seen")
        entries = wire.one_each(header["columns"], self._columns)
        for j, column in enumerate(self._columns.values()):
            names = (*Cells._fields, "hashes")
            column.fill(entries[j], {name: arrays[f"{name} {j}"] for name in names})


class _Undecided:
    """What is known of an undecided column."""

    def __init__(
        self, name: str, column_spec: ColumnSpec, missing: frozenset[str]
    ) -> None:
        self.name, self._column_spec, self._missing = name, column_spec, missing
        self.sketch = Sketch(MOST)
        self.whole = True  # are all numbers integers
        self.gaps = False  # are some missing
        self.large: set[int] = set()  # some of the integers that floats merge
        self.text = TextKind() if column_spec.text == "guess" else None

    def add(self, cells: Any, rows: NDArray[np.bool_] | None, weights: Any) -> None:
        column_spec = self._column_spec
        if self.text is not None:
            self.text.look_at(cells, self._missing)
            if column_spec.kind == "label" or not (
                self.text.may_be_number or column_spec.kind == "number"
            ):
                return
            column_spec = column_spec._replace(
                text="numbers" if self.text.may_be_number else "words"
            )
        values, whole = column_spec.numbers(self.name, cells, self._missing)
        if rows is not None:
            values = values[rows]
        # How text was read so far may differ from batch to batch: its values count.
        self.whole &= whole if self.text is None else are_whole(values)
        self.gaps = self.gaps or bool(np.isnan(values).any())
        self._note_large(cells, rows, values)
        self.sketch.add(values, weights)

    def _note_large(
        self, cells: Any, rows: NDArray[np.bool_] | None, values: NDArray[np.float64]
    ) -> None:
        """Remember some integers that floats cannot tell apart."""
        if self._column_spec.kind != "auto" or len(self.large) > MAX_INTEGER_LABELS:
            return
        if not (np.abs(values) > EXACT).any():
            return
        if rows is not None:
            cells = cells.filter(pa.array(rows))
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if self._column_spec.family != "integer":
            return
        found = (int(v) for v in pc.unique(cells).drop_null().to_pylist())
        room = MAX_INTEGER_LABELS + 1
        self.large |= set(sorted(v for v in found if abs(v) > EXACT)[:room])

    def merge(self, other: _Undecided) -> None:
        self.sketch.merge(other.sketch)
        self.whole &= other.whole
        self.gaps |= other.gaps
        both = sorted(self.large | other.large)
        self.large = set(both[: MAX_INTEGER_LABELS + 1])
        if self.text is not None and other.text is not None:
            self.text.merge(other.text)

    def decided(self, bins: int, n: int) -> ColumnSpec:
        """Return what the column is; n is the number of rows if identifiers matter."""
        column_spec = self._column_spec
        if self.text is not None:
            column_spec = column_spec._replace(text=self.text.name)
            self.text.warn(self.name)
        if column_spec.kind == "label" or (
            column_spec.kind == "auto" and column_spec.text == "words"
        ):
            return column_spec._replace(kind="label")
        whole = self._is_whole(column_spec)
        if column_spec.kind == "auto" and not is_number(whole, self._distinct()):
            return column_spec._replace(kind="label")
        if whole and not self.gaps:
            check_row_numbers(self.name, self.sketch, n)
        edges, texts = bin_cells(self.sketch.cells, bins, whole)
        levels = Levels("number", texts, tuple(edges.tolist()))
        return column_spec._replace(kind="number", levels=levels)

    def _is_whole(self, column_spec: ColumnSpec) -> bool:
        if column_spec.text in ("integers", "numbers"):
            return column_spec.text == "integers"
        return self.whole

    def _distinct(self) -> int:
        """Return the number of different values, as far as a rule asks for it."""
        low = self.sketch.cells.low
        count = int((np.abs(low) <= EXACT).sum()) + len(self.large)
        return max(self.sketch.distinct, len(low), count)

    def to_dict(self) -> dict[str, Any]:
        return {
            "sketch": self.sketch.to_parts()[0],
            "whole": self.whole,
            "gaps": self.gaps,
            "large": sorted(self.large),
            "text": None if self.text is None else self.text.to_dict(),
        }

    def fill(self, data: Any, arrays: dict[str, NDArray[Any]]) -> None:
        good = (
            isinstance(data, dict)
            and set(data) == {"sketch", "whole", "gaps", "large", "text"}
            and type(data["whole"]) is bool
            and type(data["gaps"]) is bool
            and isinstance(data["large"], list)
            and all(type(value) is int for value in data["large"])
            and (data["text"] is None) == (self.text is None)
        )
        if not good:
            raise ValueError("what is known of a column is not valid")
        self.sketch = Sketch.from_parts(data["sketch"], arrays, MOST)
        self.whole, self.gaps = data["whole"], data["gaps"]
        self.large = set(data["large"])
        if self.text is not None:
            self.text = TextKind.from_dict(data["text"])


def _only(weights: Any, keep: NDArray[np.bool_]) -> Any:
    return None if weights is None else weights[keep]
