"""Codebooks: the code of each category of a column, first come first served.

In a stream, labels may appear in any batch, so that categories are numbered as they
come: 0 is the missing cell, then the labels. When all rows have been seen, labels are
sorted, those of too few rows merged, and numbers binned, by the rules of
`renyi.encoding.encoder` and `renyi.encoding.bins`: a `FinalLevels` says where each code
goes.

A `LabelEncoder` knows the labels met so far, a `BinEncoder` the edges of numbers.
Numbers without edges are in `renyi.streaming.one_pass_bins`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.bins import bin_cells, bin_codes
from renyi.encoding.column_rules import are_many
from renyi.encoding.columns import Levels
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import Label, label_text, ranked
from renyi.encoding.sketch import Cells
from renyi.encoding.text_cells import TextKind
from renyi.streaming.arrow_values import coded, labels, numbers
from renyi.streaming.spec import ColumnSpec

Places = NDArray[np.intp]
Floats = NDArray[np.float64]

_UNUSED = -1
_FEW_BINS = 32


class FinalLevels(NamedTuple):
    """What becomes of the codes: the levels of the column, and each code's new one.

    A code that no row has becomes -1.
    """

    levels: Levels
    places: Places


def close_labels(
    found: Sequence[Label],
    mass: NDArray[Any],
    encoder: Encoder,
    rare: tuple[Label, ...] | None,
) -> FinalLevels:
    """Sort labels and merge rare ones, as `Encoder.fit` does.

    The first entry of `mass` is of missing cells. Labels may repeat, or be None.

    >>> close_labels(["b", "a"], np.array([0, 2, 3]), Encoder(), None).places
    array([-1,  1,  0])
    """
    ordered, places = ranked(found)
    codes = [len(ordered), *places]
    held = np.bincount(codes, mass, len(ordered) + 1)
    levels = encoder._levels(ordered, held, rare)
    moved = encoder.code_table(levels, ordered)[codes]
    moved[mass <= 0] = _UNUSED
    return FinalLevels(levels, moved)


def close_numbers(
    low: Floats, high: Floats, mass: NDArray[Any], bins: int, whole: bool
) -> FinalLevels:
    """Bin cells of numbers; the first entry of `mass` is of missing cells.

    >>> values = np.array([3.0, 1.0, np.nan])
    >>> close_numbers(values, values, np.array([0, 5, 5, 1]), 2, True).places
    array([-1,  1,  0,  2])
    """
    held = (mass[1:] > 0) & ~np.isnan(low)
    order = np.flatnonzero(held)[np.argsort(low[held])]
    # Texts such as 2 and 2.0 are one value.
    first = np.flatnonzero(np.diff(low[order], prepend=np.nan) != 0)
    most, total = high[order], mass[1:][order]
    if len(first) < len(order):
        most = np.maximum.reduceat(most, first)
        total = np.add.reduceat(total, first)
    edges, texts = bin_cells(Cells(low[order][first], most, total), bins, whole)
    codes = np.append(len(edges) + 1, bin_codes(low, edges))
    codes[mass <= 0] = _UNUSED
    missing = (None,) if len(edges) + 1 in codes else ()
    levels = Levels("number", (*texts, *missing), tuple(edges.tolist()))
    return FinalLevels(levels, codes)


class LabelEncoder:
    """Codes of labels.

    Examples
    --------
    >>> book = LabelEncoder("party", ColumnSpec("text", "label"), frozenset("?"))
    >>> book.encode(pa.array(["b", None, "a", "?"])).tolist(), book.labels
    ([1, 0, 2, 0], ['b', 'a'])
    """

    def __init__(self, name: str, role: ColumnSpec, missing: frozenset[str]) -> None:
        self.name, self.role, self.missing = name, role, missing
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
        places = _filled(indices, len(dictionary))
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
            codes = self.admit(labels(entries, self.role, self.missing))
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
        """Return the own code of each code of another book; None did not change."""
        return None, np.append(0, self.admit(other.labels))

    def close(
        self, mass: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column, given the rows (or weight) of each code.

        The labels in `rare` are merged; by default those of too few rows.
        """
        if self.role.text not in ("guess", "figures"):
            return close_labels(self.labels, mass, encoder, rare)
        texts = pa.array(self.labels, pa.string())
        kind = TextKind()
        kind.add(texts, mass[1:])
        if self.role.text == "guess":  # figures are known to be labels
            kind.warn(self.name)
        role = self.role._replace(text=kind.name)
        if role.kind == "number" or (role.kind == "auto" and role.text != "words"):
            values, whole = numbers(self.name, texts, role, self.missing)
            if role.kind == "number" or not whole or are_many(values[mass[1:] > 0]):
                return close_numbers(values, values, mass, encoder.bins, whole)
        return close_labels(labels(texts, role, self.missing), mass, encoder, rare)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {"labels": [_plain(label) for label in self.labels]}

    def fill(self, data: Any) -> None:
        """Take the labels of a plain form, checked."""
        if not isinstance(data, dict) or not isinstance(data.get("labels"), list):
            raise ValueError("the labels are not valid")
        found = [_label(entry) for entry in data["labels"]]
        if not np.array_equal(self.admit(found), np.arange(1, len(found) + 1)):
            raise ValueError("the labels are not valid")


class BinEncoder:
    """Codes of bins.

    Examples
    --------
    >>> from renyi.encoding.columns import Levels
    >>> levels = Levels("number", ("below 5", "from 5"), (5.0,))
    >>> book = BinEncoder("age", ColumnSpec("float", "number", "", levels), frozenset())
    >>> book.encode(pa.array([7.0, None, 3.0])).tolist()
    [2, 0, 1]
    """

    def __init__(self, name: str, role: ColumnSpec, missing: frozenset[str]) -> None:
        assert role.levels is not None
        self.name, self.role, self.missing = name, role, missing
        self.levels = role.levels
        self.edges = np.array(role.levels.edges)
        self.size = len(self.edges) + 2

    def encode(self, column: Any) -> NDArray[Any]:
        """Return the code of each cell."""
        values, _ = numbers(self.name, column, self.role, self.missing)
        if self.size > _FEW_BINS:
            return (bin_codes(values, self.edges) + 1) % self.size
        # A few comparisons are far faster than a search in sorted edges.
        codes: NDArray[np.uint8] = (values == values).view(np.uint8)
        for edge in self.edges:
            codes += (values >= edge).view(np.uint8)
        return codes

    def merge(self, other: Any) -> tuple[Places | None, Places]:
        """Return the own code of each code of another book: the same."""
        return None, np.arange(self.size)

    def close(
        self, mass: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column: its bins, and missing if there is any."""
        known = (c for c in self.levels.categories if c is not None)
        texts: tuple[Label, ...] = tuple(known)
        places = np.arange(self.size) - 1
        if mass[0] > 0:
            texts, places[0] = (*texts, None), self.size - 1
        return FinalLevels(self.levels._replace(categories=texts), places)

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


def _filled(indices: Any, absent: int) -> NDArray[Any]:
    """Return indices as an array, nulls as `absent`."""
    if indices.null_count:
        if indices.type != pa.int32():  # a byte may not hold one more
            indices = indices.cast(pa.int64())
        indices = pc.fill_null(indices, absent)
    found: NDArray[Any] = indices.to_numpy(zero_copy_only=False)
    return found


def _plain(label: Label) -> Any:
    """Return a label that JSON can hold; infinity is put into a list."""
    if isinstance(label, float) and not np.isfinite(label):
        return [str(label)]
    return label


def _label(entry: Any) -> Label:
    if entry in (["inf"], ["-inf"]):
        return float(entry[0])
    if type(entry) not in (str, int, float, bool):
        raise ValueError("a label is not valid")
    return entry  # type: ignore[no-any-return]
