"""Encoders of the columns of a stream: codes are given as categories turn up.

Labels may appear in any batch, so that categories are numbered as they come: 0 is the
missing cell, then the labels. When all rows have been seen, labels are sorted, those of
too few rows merged, and numbers binned, by the rules of memory
(`renyi.encoding.column_rules`, `renyi.encoding.bins`): `FinalLevels` say where each
code goes.

A `LabelEncoder` knows the labels met so far, a `BinEncoder` the edges of numbers. Where
rows pass by only once there are no edges yet: a `OnePassBinner` gives every value a
code, and neighbours share a cell when there are too many (`renyi.encoding.bins`),
which renumbers the codes. Which values share a cell depends on the set of values only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding import column_rules
from renyi.encoding.arrow_cells import TextKind, coded, labels
from renyi.encoding.bins import (
    EXACT,
    LARGEST,
    Cells,
    Sketch,
    are_bounds,
    ascending,
    bin_cells,
    bin_codes,
    fitting,
    keys,
)
from renyi.encoding.columns import Label, Levels, label_text, ranked
from renyi.encoding.encoder import Encoder
from renyi.storage import LABEL
from renyi.streaming.spec import ColumnSpec

Places = NDArray[np.intp]
Floats = NDArray[np.float64]

_FEW_BINS = 32


class FinalLevels(NamedTuple):
    """What becomes of the codes: the levels of the column, and each code's new one.

    A code that no row has becomes -1. Whatever is given per code begins with that of
    missing cells.
    """

    levels: Levels
    places: Places


def _close_labels(
    found: Sequence[Label],
    weight: NDArray[Any],
    encoder: Encoder,
    rare: tuple[Label, ...] | None,
) -> FinalLevels:
    """Sort labels, which may repeat or be None, and merge rare ones."""
    ordered, places = ranked(found)
    codes = [len(ordered), *places]
    held = np.bincount(codes, weight, len(ordered) + 1)
    missing = column_rules.missing_texts(encoder.missing)
    levels = column_rules.label_levels(ordered, held, missing, encoder.min_count, rare)
    moved = column_rules.label_codes(levels, ordered, missing)[codes]
    return FinalLevels(levels, np.where(weight > 0, moved, -1))


def _close_numbers(
    low: Floats, high: Floats, weight: NDArray[Any], bins: int, whole: bool
) -> FinalLevels:
    """Bin cells of numbers."""
    held = (weight[1:] > 0) & ~np.isnan(low)
    order = np.flatnonzero(held)[np.argsort(low[held])]
    # Texts such as 2 and 2.0 are one value.
    first = np.flatnonzero(np.diff(low[order], prepend=np.nan) != 0)
    most, total = high[order], weight[1:][order]
    if len(first) < len(order):
        most = np.maximum.reduceat(most, first)
        total = np.add.reduceat(total, first)
    edges, texts = bin_cells(Cells(low[order][first], most, total), bins, whole)
    codes = np.append(len(edges) + 1, bin_codes(low, edges))
    codes[weight <= 0] = -1
    missing = (None,) if len(edges) + 1 in codes else ()
    levels = Levels("number", (*texts, *missing), tuple(edges.tolist()))
    return FinalLevels(levels, codes)


class LabelEncoder:
    """Codes of labels."""

    def __init__(self, name: str, spec: ColumnSpec, missing: frozenset[str]) -> None:
        self.name, self.spec, self.missing = name, spec, missing
        self.labels: list[Label] = []
        self._codes: dict[str, int] = {}
        self._dictionary: Any = None
        self._lookup = np.zeros(1, np.uint8)  # code of each entry, and of null
        self._known = np.zeros(0, np.bool_)  # which entries have occurred
        self._complete = False

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.labels) + 1

    def encode(self, column: Any) -> NDArray[Any]:
        """Return the code of each cell."""
        indices, dictionary = coded(column)
        if not _same(dictionary, self._dictionary):
            self._dictionary = dictionary
            self._lookup = np.zeros(len(dictionary) + 1, np.uint8)
            self._known = np.zeros(len(dictionary), np.bool_)
            self._complete = False
        if indices.null_count:
            if indices.type != pa.int32():  # a byte may not hold one more
                indices = indices.cast(pa.int64())
            indices = pc.fill_null(indices, len(dictionary))
        places: NDArray[Any] = indices.to_numpy(zero_copy_only=False)
        if not self._complete:
            self._learn(places)
        return np.take(self._lookup, places, mode="clip")

    def _learn(self, places: NDArray[Any]) -> None:
        """Give codes to entries of the dictionary that occur for the first time."""
        count = len(self._known)
        used = np.bincount(places, minlength=count)[:count] > 0
        fresh = np.flatnonzero(used & ~self._known)
        if len(fresh):
            entries = self._dictionary.take(pa.array(fresh))
            codes = self.admit(labels(entries, self.spec.text, self.missing))
            kind = np.min_scalar_type(max(int(codes.max()), int(self._lookup.max())))
            self._lookup = self._lookup.astype(kind, copy=False)
            self._lookup[fresh] = codes
            self._known |= used
        self._complete = bool(self._known.all())

    def admit(self, found: Sequence[Label]) -> Places:
        """Return the codes of labels, new or known; 0 for a missing one."""
        codes = np.zeros(len(found), np.intp)
        for k, label in enumerate(found):
            if label is None:
                continue
            text = label_text(label)
            code = self._codes.get(text)
            if code is None:
                self.labels.append(label)
                code = self._codes[text] = len(self.labels)
            codes[k] = code
        return codes

    def merge(self, other: Any) -> tuple[Places | None, Places]:
        """Return the own code of each code of another encoder; None did not change."""
        return None, np.append(0, self.admit(other.labels))

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column, given the rows (or weight) of each code.

        The labels in `rare` are merged; by default those of too few rows.
        """
        if self.spec.text not in ("guess", "figures"):
            return _close_labels(self.labels, weight, encoder, rare)
        texts = pa.array(self.labels, pa.string())
        kind = TextKind()
        kind.add(texts, weight[1:])
        if self.spec.text == "guess":  # figures are known to be labels
            kind.warn(self.name)
        spec = self.spec._replace(text=kind.name)
        if spec.kind == "number" or (spec.kind == "auto" and spec.text != "words"):
            values, whole = spec.numbers(self.name, texts, self.missing)
            distinct = column_rules.distinct_count(values[weight[1:] > 0])
            if spec.kind == "number" or column_rules.is_number(whole, distinct):
                return _close_numbers(values, values, weight, encoder.bins, whole)
        found = labels(texts, spec.text, self.missing)
        return _close_labels(found, weight, encoder, rare)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON, which knows no infinity: a list holds its text."""
        odd = (np.inf, -np.inf)
        return {"labels": [[str(v)] if v in odd else v for v in self.labels]}

    def fill(self, data: Any) -> None:
        """Take the labels of a plain form, checked."""
        found = [_label(entry) for entry in data["labels"]]
        codes = np.arange(1, len(found) + 1)
        good = isinstance(data["labels"], list)
        if not good or not np.array_equal(self.admit(found), codes):
            raise ValueError("the labels are not valid")


class BinEncoder:
    """Codes of bins."""

    def __init__(self, name: str, spec: ColumnSpec, missing: frozenset[str]) -> None:
        assert spec.levels is not None
        self.name, self.spec, self.missing = name, spec, missing
        self._levels, self._edges = spec.levels, np.array(spec.levels.edges)
        self.size = len(self._edges) + 2

    def encode(self, column: Any) -> NDArray[Any]:
        """Return the code of each cell."""
        values, _ = self.spec.numbers(self.name, column, self.missing)
        if self.size > _FEW_BINS:
            return (bin_codes(values, self._edges) + 1) % self.size
        # A few comparisons are far faster than a search in sorted edges.
        codes: NDArray[np.uint8] = (values == values).view(np.uint8)
        for edge in self._edges:
            codes += (values >= edge).view(np.uint8)
        return codes

    def merge(self, other: Any) -> tuple[Places | None, Places]:
        """Return the own code of each code of another encoder: the same."""
        return None, np.arange(self.size)

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column: its bins, and missing if there is any."""
        texts: tuple[Label, ...] = self._levels.categories[: self.size - 1]
        places = np.arange(self.size) - 1
        if weight[0] > 0:
            texts, places[0] = (*texts, None), self.size - 1
        return FinalLevels(self._levels._replace(categories=texts), places)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {}

    def fill(self, data: Any) -> None:
        """Take the plain form, which holds nothing."""
        if data != {}:
            raise ValueError("the bins are not valid")


class OnePassBinner:
    """Codes of numbers: of each value, or of cells when there are too many."""

    def __init__(
        self, name: str, spec: ColumnSpec, missing: frozenset[str], most: int
    ) -> None:
        self.name, self.spec, self.missing, self.most = name, spec, missing, most
        self.whole = True
        self.rows = 0
        self.shift = 0
        self._low, self._high = np.empty(0), np.empty(0)
        self._sort()

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self._low) + 1

    def read(self, column: Any) -> Floats:
        """Return the cells of a column as floats."""
        values, whole = self.spec.numbers(self.name, column, self.missing)
        values = np.clip(values, -LARGEST, LARGEST)
        if self.spec.kind == "auto" and bool((np.abs(values) > EXACT).any()):
            raise ValueError(
                f"Column {self.name!r} holds integers of more than 2**53, which one "
                "pass cannot tell apart: make it a column of text, or give a source "
                "that can be read twice."
            )
        self.whole &= whole
        return values

    def admit(self, values: Floats) -> tuple[NDArray[Any], Places | None]:
        """Return the code of each value; and if that renumbers, each code's new one."""
        self.rows += len(values)
        gone = np.isnan(values)
        if gone.all():
            return np.zeros(len(values), np.intp), None
        moved = None
        places, known = self._find(values)
        known |= gone
        if not known.all():
            fresh = np.unique(values[~known])
            moved, _ = self._join(fresh, fresh, self.shift)
            places, _ = self._find(values)
        codes = self._order[places] + 1
        codes[gone] = 0
        if self.shift:
            rest = ~gone
            np.minimum.at(self._low, codes[rest] - 1, values[rest])
            np.maximum.at(self._high, codes[rest] - 1, values[rest])
        return codes, moved

    def _find(self, values: Floats) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the place of each value's cell in their order, and if it is there."""
        shifted = keys(values) >> self.shift
        places = np.searchsorted(self._keys, shifted)
        places[places == len(self._keys)] = 0
        if not len(self._keys):
            return places, np.zeros(len(values), np.bool_)
        return places, self._keys[places] == shifted

    def _join(
        self, low: Floats, high: Floats, shift: int
    ) -> tuple[Places | None, Places]:
        """Add cells; return the new codes of the own ones, if changed, and of these."""
        own = len(self._low)
        low = np.concatenate([self._low, low])
        high = np.concatenate([self._high, high])
        places = keys(low)
        shift, _ = fitting(np.sort(places), shift, self.most)
        found, first, inverse = np.unique(
            places >> shift, return_index=True, return_inverse=True
        )
        renumbered = shift != self.shift
        if not renumbered:  # own cells come first, in their order
            inverse = np.argsort(np.argsort(first))[inverse]
        self.shift = shift
        self._low = np.full(len(found), np.inf)
        self._high = np.full(len(found), -np.inf)
        np.minimum.at(self._low, inverse, low)
        np.maximum.at(self._high, inverse, high)
        self._sort()
        moved = np.append(0, inverse[:own] + 1) if renumbered else None
        return moved, np.append(0, inverse[own:] + 1)

    def _sort(self) -> None:
        shifted = keys(self._low) >> self.shift
        self._order = np.argsort(shifted)
        self._keys = shifted[self._order]

    def merge(self, other: Any) -> tuple[Places | None, Places]:
        """Return the new code of each own code, if changed, and of the other's."""
        self.whole &= other.whole
        self.rows += other.rows
        shift = max(self.shift, other.shift)
        return self._join(other._low, other._high, shift)

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column, given the rows of each code."""
        low, high, whole = self._low, self._high, self.whole
        held = low[weight[1:] > 0]
        if self.spec.kind == "auto":
            many = self.shift > 0 or column_rules.is_number(whole, len(held))
            if not many:
                return _close_labels([int(v) for v in low], weight, encoder, rare)
            if self.shift == 0 and weight[0] <= 0:
                sketch = Sketch()
                sketch.add(held)
                column_rules.check_row_numbers(self.name, sketch, self.rows)
        return _close_numbers(low, high, weight, encoder.bins, whole)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        low, high = self._low.tolist(), self._high.tolist()
        counts = {"shift": self.shift, "rows": self.rows}
        return {**counts, "whole": self.whole, "low": low, "high": high}

    def fill(self, data: Any) -> None:
        """Take the cells of a plain form, checked."""
        good = (
            set(data) == set(self.to_dict())
            and type(data["shift"]) is type(data["rows"]) is int
            and type(data["whole"]) is bool
            and all(type(value) is float for value in (*data["low"], *data["high"]))
        )
        if good:
            self.shift, self.rows = data["shift"], data["rows"]
            self.whole = data["whole"]
            self._low, self._high = np.array(data["low"]), np.array(data["high"])
            good = are_bounds(self._low, self._high, self.shift, self.most)
        if good:
            self._sort()
        if not good or not ascending(self._keys):
            raise ValueError("the cells of a column are not valid")


def _same(dictionary: Any, before: Any) -> bool:
    """Whether a dictionary is the one before, by its memory or by its contents."""
    if before is None or len(dictionary) != len(before):
        return False
    mine = [b and b.address for b in dictionary.buffers()]
    theirs = [b and b.address for b in before.buffers()]
    if mine == theirs and dictionary.offset == before.offset:
        return True
    return bool(dictionary.equals(before))


def _label(entry: Any) -> Label:
    """Return the label that a plain form holds."""
    if entry in (["inf"], ["-inf"]):
        return float(entry[0])
    if type(entry) not in LABEL:
        raise ValueError("a label is not valid")
    return entry  # type: ignore[no-any-return]
