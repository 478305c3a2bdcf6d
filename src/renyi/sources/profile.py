"""Columns of a stream: what a first pass finds out about them, and their codes.

Bins need the quantiles of all rows. Integers are labels if there are few of them. A
column of a CSV file is numeric only if all its cells are. A `ColumnProfile` looks at
the undecided columns of a spec, batch by batch, and keeps a bounded summary of each:
sketches of numbers (`renyi.encoding.bins`) and what text looked like
(`renyi.encoding.arrow`). What is decided is what `Encoder.fit` decides with all
rows in memory.

The second pass gives codes. Labels may appear in any batch, so that categories are
numbered as they come: 0 is the missing cell, then the labels. When all rows have been
seen, labels are sorted, those of too few rows merged, by the rules of memory
(`renyi.encoding.rules`): `FinalLevels` say where each code goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.arrow import (
    TextKind,
    check_moments,
    coded,
    labels,
    numbers,
    occurring,
)
from renyi.encoding.bins import Cells, Sketch, bin_codes
from renyi.encoding.columns import Column, Columns, Label, Levels, label_text, ranked
from renyi.encoding.encoder import Bins, Encoder, target_encoder
from renyi.encoding.rules import (
    MAX_INTEGER_LABELS,
    NO_ROWS,
    NO_WEIGHT,
    are_whole,
    beyond_exact,
    bin_levels,
    counted_rows,
    is_binned,
    label_codes,
    label_levels,
    no_counted_rows_error,
    no_target_error,
    row_numbers,
)
from renyi.sources.spec import Arrays, ColumnSpec, CountSpec, Summary, slices

Places = NDArray[np.intp]

_ARRAYS = (*Cells._fields, "hashes")  # of a sketch
_FEW_BINS = 32
_BYTE = 256  # codes


# ---- codes


class FinalLevels(NamedTuple):
    """What becomes of the codes: the levels of the column, and each code's new one.

    A code that no row has becomes -1. Whatever is given per code begins with that of
    missing cells.
    """

    levels: Levels
    places: Places


class LabelEncoder:
    """Codes of labels."""

    def __init__(self, name: str, spec: ColumnSpec, missing: frozenset[str]) -> None:
        self.name = name
        self.spec = spec
        self.missing = missing
        self.labels: list[Label] = []
        self._codes: dict[str, int] = {}
        self._dictionary: Any = None
        self._lookup = np.zeros(1, np.uint8)  # code of each entry, and of null
        self._known = np.zeros(0, np.bool_)  # which entries have occurred

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.labels) + 1

    def encode(self, column: pa.Array) -> NDArray[Any]:
        """Return the code of each cell."""
        indices, dictionary = coded(column)
        if self._dictionary is None or not dictionary.equals(self._dictionary):
            self._dictionary = dictionary
            self._lookup = np.zeros(len(dictionary) + 1, np.uint8)
            self._known = np.zeros(len(dictionary), np.bool_)
        if indices.null_count:
            if indices.type != pa.int32():  # a byte may have no room for one more
                indices = indices.cast(pa.int64())
            indices = pc.fill_null(indices, len(dictionary))
        places: NDArray[Any] = indices.to_numpy(zero_copy_only=False)
        if not self._known.all():
            self._learn(places)
        return np.take(self._lookup, places, mode="clip")

    def _learn(self, places: NDArray[Any]) -> None:
        """Give codes to entries of the dictionary that occur for the first time."""
        count = len(self._known)
        used = np.bincount(places, minlength=count)[:count] > 0
        fresh = np.flatnonzero(used & ~self._known)
        if len(fresh):
            entries = self._dictionary
            if len(fresh) < count:
                entries = entries.take(pa.array(fresh))
            check_moments(self.name, entries)
            codes = self.admit(labels(entries, self.spec.text, self.missing))
            if self.size > _BYTE:
                most = max(int(codes.max()), int(self._lookup.max()))
                self._lookup = self._lookup.astype(np.min_scalar_type(most), copy=False)
            self._lookup[fresh] = codes
            self._known |= used

    def admit(self, names: Sequence[Label]) -> Places:
        """Return the codes of labels, new or known; 0 for a missing one."""
        codes = np.zeros(len(names), np.intp)
        for k, label in enumerate(names):
            if label is None:
                continue
            code = self._codes.setdefault(label_text(label), len(self.labels) + 1)
            if code > len(self.labels):
                self.labels.append(label)
            codes[k] = code
        return codes

    def merge(self, other: Any) -> Places:
        """Return the own code of each code of another encoder."""
        return np.append(0, self.admit(other.labels))

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column, given the rows (or weight) of each code.

        The labels in `rare` are merged; by default those of too few rows.
        """
        names = self.labels
        if self.spec.text == "figures":
            texts = pa.array(names, pa.string())
            kind = TextKind()
            kind.add(texts, weight[1:])
            names = labels(texts, kind.name, self.missing)
        ordered, places = ranked(names)
        codes = [len(ordered), *places]
        totals = np.bincount(codes, weight, len(ordered) + 1)
        levels = label_levels(ordered, totals, self.missing, encoder.min_count, rare)
        moved = label_codes(levels, ordered, self.missing)[codes]
        return FinalLevels(levels, np.where(weight > 0, moved, -1))

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON, where infinity is written as a list with its text."""
        odd = (np.inf, -np.inf)
        return {"labels": [[str(v)] if v in odd else v for v in self.labels]}

    def fill(self, data: Mapping[str, Any]) -> None:
        """Take the labels of a plain form."""
        names = data["labels"]
        self.admit([float(v[0]) if isinstance(v, list) else v for v in names])


class BinEncoder:
    """Codes of bins."""

    def __init__(self, name: str, spec: ColumnSpec, missing: frozenset[str]) -> None:
        assert spec.levels is not None
        self.name = name
        self.spec = spec
        self.missing = missing
        self._levels = spec.levels
        self._edges = np.array(spec.levels.edges)
        self.size = len(self._edges) + 2

    def encode(self, column: pa.Array) -> NDArray[Any]:
        """Return the code of each cell."""
        spec = self.spec
        values, _ = numbers(self.name, column, spec.family, spec.text, self.missing)
        if self.size > _FEW_BINS:
            return (bin_codes(values, self._edges) + 1) % self.size
        # A few comparisons are far faster than a search in sorted edges.
        codes: NDArray[np.uint8] = (values == values).view(np.uint8)
        for edge in self._edges:
            codes += (values >= edge).view(np.uint8)
        return codes

    def merge(self, other: Any) -> Places:
        """Return the own code of each code of another encoder: the same."""
        return np.arange(self.size)

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column: its bins, and missing if there is any."""
        places = np.arange(self.size) - 1
        gaps = bool(weight[0] > 0)
        if gaps:
            places[0] = self.size - 1
        return FinalLevels(self._levels.with_missing(gaps), places)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {}

    def fill(self, data: Mapping[str, Any]) -> None:
        """Take the plain form, which has nothing in it."""


def code_encoders(spec: CountSpec) -> list[LabelEncoder | BinEncoder]:
    """Return an encoder for each column of a decided spec."""
    missing = spec.missing
    return [
        (BinEncoder if column.kind == "number" else LabelEncoder)(name, column, missing)
        for name, column in spec.by_name.items()
    ]


def final_columns(
    spec: CountSpec,
    encoders: Sequence[LabelEncoder | BinEncoder],
    totals: Sequence[NDArray[Any]],
) -> tuple[Columns, list[Places]]:
    """Return the columns, and what each code becomes in them.

    `totals` are the rows, or the weight, of each code of a column.
    """
    finals = []
    triples = zip(encoders, spec.columns, totals, strict=True)
    for j, (encoder, column, weight) in enumerate(triples):
        settings = spec.encoder
        rare = None
        if j == len(encoders) - 1:
            settings = target_encoder(settings)
        elif spec.fitted:
            rare = column.levels.rare if column.levels else ()
        finals.append(encoder.close(weight, settings, rare))
    columns = Columns.of(map(Column, spec.names, (each.levels for each in finals)))
    return columns, [each.places for each in finals]


def no_rows_error(target: str, left_out: int, seen: int) -> ValueError:
    """Return the error for a stream without countable rows."""
    if left_out and left_out == seen:
        return no_target_error(target)
    if left_out:
        return no_counted_rows_error(target)
    return ValueError(NO_WEIGHT if seen else NO_ROWS)


# ---- the first pass


class ColumnProfile(Summary):
    """What a first pass finds out about the undecided columns of a spec."""

    kind = "profile"
    step = "looking at numbers"

    def __init__(self, spec: CountSpec) -> None:
        super().__init__(spec)
        known = spec.by_name
        codes = spec.missing
        self._columns = [
            _Undecided(name, known[name], codes) for name in spec.undecided
        ]
        self._target = LabelEncoder(spec.target, spec.columns[-1], codes)

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Look at the rows of a batch."""
        names = [*self.spec.undecided, self.spec.target]
        for piece in slices(self.spec, batch, names, self.next_row):
            known = self._target.encode(piece.columns[-1]) > 0
            keep = counted_rows(known, piece.weights)
            weights = None if piece.weights is None else piece.weights[keep]
            self.seen += piece.rows
            self.n += int(keep.sum())
            rows = None if keep.all() else keep
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
        made.n = parts[0].n
        made.seen = parts[0].seen
        made._columns = [column for part in parts for column in part._columns]
        return made

    def decided(self, spec: CountSpec) -> CountSpec:
        """Return a spec, whose undecided columns these are, with all decided."""
        auto = self.spec.encoder.numeric == "auto" and not self.spec.fitted
        bins = self.spec.encoder.first_bins
        n = self.n if auto else 0
        return spec.decided({c.name: c.decided(bins(c.name), n) for c in self._columns})

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
        self.name = name
        self._spec = spec
        self._missing = missing
        self.sketch = Sketch()
        self.whole = True  # are all numbers integers
        self.gaps = False  # are some missing
        self.large: set[int] = set()  # some of the integers that floats merge
        self.text = TextKind() if spec.text == "guess" else None

    def add(
        self,
        cells: pa.Array,
        rows: NDArray[np.bool_] | None,
        weights: NDArray[np.float64] | None,
    ) -> None:
        spec = self._spec
        if self.text is not None:
            self.text.look_at(cells, self._missing)
            number = self.text.may_be_number
            if spec.kind == "label" or not (number or spec.kind == "number"):
                return
            spec = spec._replace(text="numbers" if number else "words")
        values, whole = numbers(self.name, cells, spec.family, spec.text, self._missing)
        if rows is not None:
            values = values[rows]
        # How text was read so far may differ from batch to batch: its values count.
        self.whole &= whole if self.text is None else are_whole(values)
        self.gaps |= bool(np.isnan(values).any())
        few = len(self.large) <= MAX_INTEGER_LABELS
        whole = self.text is None or self.text.integers
        if few and whole and spec.kind == "auto" and beyond_exact(values).any():
            counted = cells if rows is None else cells.filter(pa.array(rows))
            if pa.types.is_dictionary(counted.type):
                counted = occurring(counted)
            how_read = "" if self.text is None else "integers"
            whole_labels = labels(coded(counted)[1], how_read, self._missing)
            integers = np.array([int(v) for v in whole_labels if v is not None], object)
            self._note({*integers[beyond_exact(integers)].tolist()})
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

    def decided(self, bins: Bins, n: int) -> ColumnSpec:
        """Return what the column is; n is the number of rows if identifiers matter."""
        spec = self._spec
        whole = self.whole
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
        count = row_numbers(self.sketch, n) if whole and not self.gaps else ""
        levels = bin_levels(self.sketch.cells, bins, whole)
        return spec._replace(kind="number", levels=levels, row_numbers=count)

    def _distinct(self) -> int:
        """Return the number of different values, as far as a rule asks for it."""
        low = self.sketch.cells.low
        count = int((~beyond_exact(low)).sum()) + len(self.large)
        return max(self.sketch.distinct, len(low), count)

    def to_dict(self) -> dict[str, Any]:
        return {
            "sketch": self.sketch.to_parts()[0],
            "whole": self.whole,
            "gaps": self.gaps,
            "large": sorted(self.large),
            "text": None if self.text is None else self.text.to_dict(),
        }

    def fill(self, data: Mapping[str, Any], arrays: Arrays) -> None:
        self.sketch = Sketch.from_parts(data["sketch"], arrays)
        self.whole = data["whole"]
        self.gaps = data["gaps"]
        self.large = set(data["large"])
        if self.text is not None:
            self.text = TextKind.from_dict(data["text"])
