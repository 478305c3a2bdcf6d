"""Codes of numbers without edges: every value, or cells of neighbouring values.

Where rows pass by only once, bins cannot be known before all rows were seen. Every
different value is then a category of its own. When there are too many, neighbours are
merged into cells as in `renyi.encoding.sketch`, which renumbers the codes; bins are
made of the cells in the end. Which values share a cell depends on the set of values
only, not on their order or on how they came in batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.column_rules import are_many
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import Label
from renyi.encoding.sketch import EXACT, LARGEST, are_bounds, ascending, fitting, keys
from renyi.streaming.arrow_values import numbers
from renyi.streaming.column_encoders import (
    FinalLevels,
    Floats,
    Places,
    close_labels,
    close_numbers,
)
from renyi.streaming.spec import ColumnSpec


class OnePassBinner:
    """Codes of numbers: of each value, or of cells when there are too many.

    Examples
    --------
    >>> book = OnePassBinner("age", ColumnSpec("float", "number"), frozenset(), 2)
    >>> book.admit(np.array([8.0, np.nan, 1.0]))
    (array([2, 0, 1]), None)
    >>> book.admit(np.array([1.5]))
    (array([1]), array([0, 1, 2]))
    """

    def __init__(
        self, name: str, role: ColumnSpec, missing: frozenset[str], most: int
    ) -> None:
        self.name, self.role, self.missing, self.most = name, role, missing, most
        self.whole = True
        self.shift = 0
        self._low, self._high = np.empty(0), np.empty(0)
        self._sort()

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self._low) + 1

    def read(self, column: Any) -> Floats:
        """Return the cells of a column as floats."""
        values, whole = numbers(self.name, column, self.role, self.missing)
        values = np.clip(values, -LARGEST, LARGEST)
        if self.role.kind == "auto" and bool((np.abs(values) > EXACT).any()):
            raise ValueError(
                f"Column {self.name!r} holds integers of more than 2**53, which one "
                "pass cannot tell apart: make it a column of text, or give a source "
                "that can be read twice."
            )
        self.whole &= whole
        return values

    def admit(self, values: Floats) -> tuple[NDArray[Any], Places | None]:
        """Return the code of each value; and if that renumbers, each code's new one."""
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
        shift = max(self.shift, other.shift)
        return self._join(other._low, other._high, shift)

    def close(
        self, mass: NDArray[Any], encoder: Encoder, rare: tuple[Label, ...] | None
    ) -> FinalLevels:
        """Return the levels of the column, given the rows of each code."""
        low, high, whole = self._low, self._high, self.whole
        few = self.shift == 0 and not are_many(low[mass[1:] > 0])
        if self.role.kind == "auto" and few:
            return close_labels([int(v) for v in low], mass, encoder, rare)
        return close_numbers(low, high, mass, encoder.bins, whole)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        low, high = self._low.tolist(), self._high.tolist()
        return {"shift": self.shift, "whole": self.whole, "low": low, "high": high}

    def fill(self, data: Any) -> None:
        """Take the cells of a plain form, checked."""
        good = (
            isinstance(data, dict)
            and set(data) == set(self.to_dict())
            and type(data["shift"]) is int
            and type(data["whole"]) is bool
            and _are_floats(data["low"])
            and _are_floats(data["high"])
        )
        if good:
            self.shift, self.whole = data["shift"], data["whole"]
            self._low, self._high = np.array(data["low"]), np.array(data["high"])
            good = are_bounds(self._low, self._high, self.shift, self.most)
        if good:
            self._sort()
        if not good or not ascending(self._keys):
            raise ValueError("the cells of a column are not valid")


def _are_floats(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is float for value in values)
