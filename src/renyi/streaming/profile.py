"""Profiles: the first pass over a stream, which decides what its columns are.

Bins need the quantiles of all rows, integers are labels if there are few of them, and a
column of a CSV file is of numbers only if all its cells are. A `ColumnProfile` looks at
the undecided columns of a spec, batch by batch, and keeps a bounded summary of each:
sketches of numbers (`renyi.encoding.bins`) and what text looked like
(`renyi.encoding.arrow_cells`). What is decided is what `Encoder.fit` decides with all
rows in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.arrow_cells import TextKind
from renyi.encoding.bins import EXACT, Cells, Sketch
from renyi.encoding.column_rules import (
    MAX_INTEGER_LABELS,
    are_whole,
    bin_levels,
    check_row_numbers,
    counted_rows,
    is_binned,
)
from renyi.streaming.column_encoders import LabelEncoder
from renyi.streaming.spec import Arrays, ColumnSpec, CountSpec, Summary, slices

_ARRAYS = (*Cells._fields, "hashes")  # of a sketch


class ColumnProfile(Summary):
    """What a first pass finds out about the undecided columns of a spec."""

    kind, step = "profile", "looking at numbers"

    def __init__(self, spec: CountSpec) -> None:
        super().__init__(spec)
        missing, known = spec.missing, spec.by_name
        self._columns = [
            _Undecided(name, known[name], missing) for name in spec.undecided
        ]
        self._target = LabelEncoder(spec.target, spec.columns[-1], missing)

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Look at the rows of a batch."""
        names = [*self.spec.undecided, self.spec.target]
        for piece in slices(self.spec, batch, names, self.seen):
            self.seen += piece.rows
            known, weights = self._target.encode(piece.columns[-1]) > 0, piece.weights
            keep = counted_rows(known, weights)
            weights = None if weights is None else weights[keep]
            count = int(keep.sum())
            self.n += count
            rows = None if count == piece.rows else keep
            for column, cells in zip(self._columns, piece.columns, strict=False):
                column.add(cells, rows, weights)

    def merge(self, other: ColumnProfile) -> None:
        """Add what another profile of the same spec found."""
        super().merge(other)
        for column, theirs in zip(self._columns, other._columns, strict=True):
            column.merge(theirs)

    @classmethod
    def of_columns(cls, spec: CountSpec, parts: Sequence[Self]) -> Self:
        """Return the profile of the undecided columns, each of which has its own."""
        made = cls(spec.only(spec.undecided))
        made.n, made.seen = parts[0].n, parts[0].seen
        made._columns = [column for part in parts for column in part._columns]
        return made

    def decided(self, spec: CountSpec) -> CountSpec:
        """Return a spec, whose undecided columns these are, with all decided."""
        auto = self.spec.encoder.numeric == "auto" and not self.spec.fitted
        bins, columns, errors = self.spec.encoder.bins, {}, []
        for column in self._columns:
            try:
                columns[column.name] = column.decided(bins, self.n if auto else 0)
            except ValueError as error:  # all identifiers are named at once
                errors.append(str(error))
        if errors:
            raise ValueError(" ".join(errors))
        return spec.decided(columns)

    def _parts(self) -> tuple[dict[str, Any], Arrays]:
        arrays = {
            f"{key} {j}": array
            for j, column in enumerate(self._columns)
            for key, array in column.sketch.to_parts()[1].items()
        }
        return {"columns": [column.to_dict() for column in self._columns]}, arrays

    def _fill(self, header: dict[str, Any], arrays: Arrays) -> None:
        pairs = zip(self._columns, header["columns"], strict=True)
        for j, (column, entry) in enumerate(pairs):
            column.fill(entry, {name: arrays[f"{name} {j}"] for name in _ARRAYS})


class _Undecided:
    """What is known of an undecided column."""

    def __init__(self, name: str, spec: ColumnSpec, missing: frozenset[str]) -> None:
        self.name, self._spec, self._missing = name, spec, missing
        self.sketch = Sketch()
        self.whole = True  # are all numbers integers
        self.gaps = False  # are some missing
        self.large: set[int] = set()  # some of the integers that floats merge
        self.text = TextKind() if spec.text == "guess" else None

    def add(self, cells: Any, rows: NDArray[np.bool_] | None, weights: Any) -> None:
        spec = self._spec
        if self.text is not None:
            self.text.look_at(cells, self._missing)
            number = self.text.may_be_number
            if spec.kind == "label" or not (number or spec.kind == "number"):
                return
            spec = spec._replace(text="numbers" if number else "words")
        values, whole = spec.numbers(self.name, cells, self._missing)
        if rows is not None:
            values = values[rows]
        # How text was read so far may differ from batch to batch: its values count.
        self.whole &= whole if self.text is None else are_whole(values)
        self.gaps |= bool(np.isnan(values).any())
        few = len(self.large) <= MAX_INTEGER_LABELS
        if few and spec[:2] == ("integer", "auto") and (np.abs(values) > EXACT).any():
            kept = cells if rows is None else cells.filter(pa.array(rows))
            found = (int(v) for v in pc.unique(kept).drop_null().to_pylist())
            self._note({v for v in found if abs(v) > EXACT})
        self.sketch.add(values, weights)

    def _note(self, large: set[int]) -> None:
        """Remember some integers that floats cannot tell apart."""
        self.large = set(sorted(self.large | large)[: MAX_INTEGER_LABELS + 1])

    def merge(self, other: _Undecided) -> None:
        self.sketch.merge(other.sketch)
        self.whole &= other.whole
        self.gaps |= other.gaps
        self._note(other.large)
        if self.text is not None and other.text is not None:
            self.text.merge(other.text)

    def decided(self, bins: int, n: int) -> ColumnSpec:
        """Return what the column is; n is the number of rows if identifiers matter."""
        spec, whole = self._spec, self.whole
        if self.text is not None:
            spec = spec._replace(text=self.text.name)
            self.text.warn(self.name)
        if spec.text in ("integers", "numbers"):
            whole = spec.text == "integers"
        if spec.kind == "auto" and (
            spec.text == "words" or not is_binned(whole, self._distinct())
        ):
            spec = spec._replace(kind="label")
        if spec.kind == "label":
            return spec
        if whole and not self.gaps:
            check_row_numbers(self.name, self.sketch, n)
        levels = bin_levels(self.sketch.cells, bins, whole)
        return spec._replace(kind="number", levels=levels)

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

    def fill(self, data: Any, arrays: Arrays) -> None:
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
        self.sketch = Sketch.from_parts(data["sketch"], arrays)
        self.whole, self.gaps = data["whole"], data["gaps"]
        self.large = set(data["large"])
        if self.text is not None:
            self.text = TextKind.from_dict(data["text"])
