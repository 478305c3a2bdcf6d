"""Encoders of the columns of a stream: codes are given as categories turn up.

Labels may appear in any batch, so that categories are numbered as they come: 0 is the
missing cell, then the labels. When all rows have been seen, labels are sorted, those of
too few rows merged, by the rules of memory (`renyi.encoding.column_rules`):
`FinalLevels` say where each code goes.

A `LabelEncoder` knows the labels met so far, a `BinEncoder` the edges of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding import column_rules
from renyi.encoding.arrow_cells import TextKind, check_moments, coded, labels
from renyi.encoding.bins import bin_codes
from renyi.encoding.columns import Label, Levels, label_text, ranked
from renyi.encoding.encoder import Encoder
from renyi.storage import LABEL
from renyi.streaming.spec import ColumnSpec

Places = NDArray[np.intp]

_FEW_BINS = 32
_BYTE = 256  # codes


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

    def merge(self, other: Any) -> Places:
        """Return the own code of each code of another encoder."""
        return np.append(0, self.admit(other.labels))

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column, given the rows (or weight) of each code.

        The labels in `rare` are merged; by default those of too few rows.
        """
        found = self.labels
        if self.spec.text == "figures":
            texts, kind = pa.array(found, pa.string()), TextKind()
            kind.add(texts, weight[1:])
            found = labels(texts, kind.name, self.missing)
        ordered, places = ranked(found)
        codes = [len(ordered), *places]
        held = np.bincount(codes, weight, len(ordered) + 1)
        missing = column_rules.missing_texts(encoder.missing)
        levels = column_rules.label_levels(
            ordered, held, missing, encoder.min_count, rare
        )
        moved = column_rules.label_codes(levels, ordered, missing)[codes]
        return FinalLevels(levels, np.where(weight > 0, moved, -1))

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

    def merge(self, other: Any) -> Places:
        """Return the own code of each code of another encoder: the same."""
        return np.arange(self.size)

    def close(
        self, weight: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column: its bins, and missing if there is any."""
        places, gaps = np.arange(self.size) - 1, bool(weight[0] > 0)
        if gaps:
            places[0] = self.size - 1
        return FinalLevels(self._levels.with_missing(gaps), places)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {}

    def fill(self, data: Any) -> None:
        """Take the plain form, which holds nothing."""
        if data != {}:
            raise ValueError("the bins are not valid")


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
