r"""Marginals of tables as offices print them: hidden and rounded cells, and totals.

A printed number stands for all whole numbers that round to it, so with rounding to 5
the cell 35 has 33 to 37 rows. A mark (``*``, ``..``, ``c``, ``x``, ``<10`` or an empty
cell) stands for 0 to one below the threshold. Many offices also hide larger cells, so
that no hidden one follows from the totals (secondary suppression): a mark then stands
for any count that the totals allow. Noise of a known maximum, such as that of
a cell-key method, moves both ends. A row or column "Total" is an interval of a column's
own count. Totals need not be the sums of their cells, only within rounding. What two
tables say of the same count is intersected; an empty intersection is an error. Tables
without anything hidden, rounded or perturbed give exact counts.

A table is a cross table, whose index and columns are named, or is long: a column of
counts next to columns of categories. In a CSV file the first cell of a cross table
names both columns, as in ``age \ income``, ``age x income`` or ``age by income``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi.encoding.columns import Columns
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.files import text_cells
from renyi.marginals.arithmetic import occurring, with_uncertainty
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Intervals
from renyi.sources.tables import (
    check_no_total,
    check_target,
    columns_of,
    framed,
    long_format,
)
from renyi.validation import InputError, check_whole

Table = NDArray[np.int64]

MARKS = frozenset(
    {
        *("", "*", "**", "..", "...", ".", "c", "x", "s", "na", "n/a", "nan"),
        *("[c]", "[x]", "[redacted]", "redacted", "suppressed"),
    }
)
TOTALS = frozenset({"total", "totals", "all", "sum"})
_BELOW = re.compile(r"(?:<|≤|<=|under|below)\s*(\d+)")
_NUMBER = re.compile(r"-?\d{1,3}(?:[,\s]\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?")
_BETWEEN = re.compile(r"[,\s]")  # thousands
_NAMES = re.compile(r"\s*(?:\\|×|/|\bx\b|\bby\b)\s*")
_LOW = "low"
_HIGH = "high"
_MOST = 2**52  # more than any count
_ANY = 2**40  # where a mark may stand for any count


class Rules(NamedTuple):
    """How an office hides, rounds and perturbs."""

    rounding: int = 1
    suppressed_below: int = 0
    perturbed_by: int = 0  # at most
    secondary: bool = False  # whether a mark may stand for any count
    total: str | None = None  # a further label of totals

    @classmethod
    def of(
        cls, *, secondary: bool = False, total: str | None = None, **given: int | None
    ) -> Rules:
        """Return the rules that are given, checked."""
        known = {name: value for name, value in given.items() if value is not None}
        for name, value in known.items():
            check_whole(name, value, 1)
        return cls(**known, secondary=secondary, total=total)

    def is_total(self, texts: pd.DataFrame) -> pd.DataFrame:
        """Return which categories are totals."""
        own = set() if self.total is None else {self.total.strip().lower()}
        return texts.isin(TOTALS | own)

    def ends(self, cell: object, where: str) -> tuple[int, int]:
        """Return the interval that a printed cell stands for."""
        text = "" if cell is None else str(cell).strip().lower()
        below = _BELOW.fullmatch(text)
        if self.secondary and (below is not None or text in MARKS):
            return 0, _ANY
        if below is not None:
            least = int(below[1]) + ("≤" in text or "<=" in text)
            return 0, max(least - 1, 0) + self.perturbed_by
        if text in MARKS:
            if not self.suppressed_below:
                raise InputError(
                    f"{where} is hidden ({text or 'empty'}): state below which count "
                    "cells are hidden.",
                    "suppressed_below",
                    python="suppressed_below=10",
                )
            return 0, self.suppressed_below - 1 + self.perturbed_by
        if _NUMBER.fullmatch(text) is None:
            raise ValueError(
                f"{where} is {text!r:.40}, neither a count nor a mark of a hidden cell "
                "(*, .., c, x, [c], <10)."
            )
        value = float(_BETWEEN.sub("", text))
        if value < 0 or value != int(value):
            raise ValueError(
                f"{where} is {text}: counts must be whole numbers, and not negative."
            )
        count = int(value)
        if count % self.rounding:
            raise ValueError(
                f"{where} is {count:,}, which is not a multiple of {self.rounding}: "
                "the rounding that was stated does not fit."
            )
        off = self.rounding // 2 + self.perturbed_by
        if count and count + off < self.suppressed_below:
            raise ValueError(
                f"{where} is {count:,}, but cells below {self.suppressed_below} were "
                "stated to be hidden."
            )
        return max(count - off, 0), count + off


class _Known(NamedTuple):
    """Intervals of one table: cells in long format, and totals."""

    names: list[str]
    cells: pd.DataFrame  # categories, low, high
    singles: list[pd.DataFrame]  # one column each
    total: tuple[int, int] | None


def marginals(
    tables: Iterable[Any] | Mapping[Any, Any],
    target: str,
    rules: Rules,
    count: str = "count",
    encoder: Encoder | None = None,
) -> Marginals:
    """Assemble published tables; see `Marginals.from_tables`."""
    settings = (encoder or Encoder()).settings()
    frames = [long_format(table, count) for table in framed(tables)]
    if not frames:
        raise ValueError("There are no tables to assemble: give at least one.")
    known = [_known(frame, count, rules) for frame in frames]
    longs = [
        part.cells.rename(columns={_HIGH: count}).drop(columns=_LOW) for part in known
    ]
    columns = columns_of(longs, settings, count)
    check_target(columns, target)
    ends = _Ends(columns, settings, rules)
    for part in known:
        ends.add(part)
    if rules.secondary:
        ends.close()
    record = ends.record
    if np.array_equal(record.low, record.high) and record.n_low == record.n_high:
        exact = record.low, record.n_low, columns, target, settings, None, ends.absent
        return occurring(Marginals(*exact)).validate()
    empty = np.zeros_like(record.low)
    m = Marginals(empty, 1, columns, target, settings, None, ends.absent)
    return occurring(with_uncertainty(m, record))


def read_csv(path: str | Path) -> pd.DataFrame:
    """Return a table of a CSV file, its cells as texts."""
    frame = text_cells(path, skip_spaces=True)
    frame.columns = [str(name).strip() for name in frame.columns]
    names = _NAMES.split(frame.columns[0].strip())
    if len(names) == 2 and all(names):
        frame = frame.set_index(frame.columns[0])
        return frame.rename_axis(index=names[0], columns=names[1])
    return frame


def _known(frame: pd.DataFrame, count: str, rules: Rules) -> _Known:
    """Return the intervals of a table, its totals apart from its cells."""
    names = [name for name in frame.columns if name != count]
    texts = frame[names].astype(str).apply(lambda c: c.str.strip().str.lower())
    is_total = rules.is_total(texts)
    ends = [
        rules.ends(cell, "The count of " + _place(frame, names, row))
        for row, cell in enumerate(frame[count])
    ]
    known = frame[names].assign(
        **{_LOW: [low for low, _ in ends], _HIGH: [high for _, high in ends]}
    )
    number = is_total.sum(axis=1)
    if rules.total is None:
        check_no_total(known[number == 0], names, _LOW, _HIGH)
    singles = []
    for name in names:
        own = (number == len(names) - 1) & ~is_total[name]
        if len(names) > 1 and own.any():
            singles.append(known.loc[own, [name, _LOW, _HIGH]])
    whole = known[number == len(names)]
    total = None
    if len(whole):
        total = int(whole[_LOW].max()), int(whole[_HIGH].min())
    return _Known(names, known[number == 0], singles, total)


def _place(frame: pd.DataFrame, names: Sequence[str], row: int) -> str:
    return ", ".join(f"{name} = {frame[name].iloc[row]}" for name in names)


class _Ends:
    """What the tables say of each count, narrowed table by table."""

    def __init__(self, columns: Columns, settings: Encoder, rules: Rules) -> None:
        self.columns = columns
        self.settings = settings
        self.rules = rules
        size = int(columns.sizes.sum())
        self.low = np.zeros((size, size), np.int64)
        self.high = np.full((size, size), _MOST, np.int64)
        self.rows = (0, _MOST)
        self.pairs: set[frozenset[str]] = set()

    def add(self, part: _Known) -> None:
        """Take what one table says of its pairs, its columns and the total."""
        # A category without any row has no code.
        part = part._replace(
            cells=part.cells[part.cells[_HIGH] > 0],
            singles=[single[single[_HIGH] > 0] for single in part.singles],
        )
        codes = self._codes(part.cells, part.names)
        shape = self.columns.take(self.columns.places(part.names)).sizes
        low = np.zeros(shape, np.int64)
        high = np.zeros(shape, np.int64)
        np.add.at(low, tuple(codes), part.cells[_LOW].to_numpy(np.int64))
        np.add.at(high, tuple(codes), part.cells[_HIGH].to_numpy(np.int64))
        axes = set(range(len(part.names)))
        for a, b in combinations(sorted(axes), 2):
            rest = tuple(axes - {a, b})
            pair = part.names[a], part.names[b]
            self._narrow_pair(pair, low.sum(rest), high.sum(rest))
        for a in axes:
            rest = tuple(axes - {a})
            places = self.columns.spans([part.names[a]])
            ends = low.sum(rest), high.sum(rest)
            self._narrow((places, places), ends, repr(part.names[a]))
        for single in part.singles:
            name = str(single.columns[0])
            places = self.columns.spans([name])[self._codes(single, [name])[0]]
            self._narrow((places, places), (single[_LOW], single[_HIGH]), repr(name))
        self._narrow_total(int(low.sum()), int(high.sum()))
        if part.total is not None:
            self._narrow_total(*part.total)

    def _narrow_pair(self, pair: tuple[str, str], low: Table, high: Table) -> None:
        first, second = (self.columns.spans([name]) for name in pair)
        where = f"{pair[0]!r} and {pair[1]!r}"
        self._narrow(np.ix_(first, second), (low, high), where)
        self._narrow(np.ix_(second, first), (low.T, high.T), where)
        self.pairs.add(frozenset(pair))

    def _narrow(self, places: Any, ends: tuple[Any, Any], where: str) -> None:
        """Intersect intervals with others; raise an error if one becomes empty."""
        self.low[places] = np.maximum(self.low[places], ends[0])
        self.high[places] = np.minimum(self.high[places], ends[1])
        if (self.low[places] > self.high[places]).any():
            may_hide = self.rules.suppressed_below and not self.rules.secondary
            raise InputError(
                f"The tables contradict each other in the counts of {where}: no number "
                "of rows is within the rounding of all of them"
                + (
                    ", unless marks also hide larger counts: {secondary}"
                    * bool(may_hide)
                )
                + ".",
                secondary=True,
            )

    def _narrow_total(self, low: int, high: int) -> None:
        self.rows = max(self.rows[0], low), min(self.rows[1], high)
        if self.rows[0] > self.rows[1]:
            raise ValueError(
                "The totals of the tables differ by more than rounding: all tables "
                "must be of the same rows."
            )

    def close(self) -> None:
        """Limit marks that may be any count by the totals, and by the other cells."""
        for name in self.columns.names:
            places = self.columns.spans([name])
            most = self.high[places, places].clip(max=_ANY).sum()
            self._narrow_total(0, int(most))
        if self.rows[1] >= _ANY:
            raise ValueError(
                "No table prints a total, so a mark of a hidden cell could be any "
                "number: add the totals, or leave out that marks hide larger counts."
            )
        for name in self.columns.names:
            places = self.columns.spans([name])
            low = self.low[places, places]
            most = self.rows[1] - (low.sum() - low)
            self.high[places, places] = np.minimum(self.high[places, places], most)
        for one, other in map(sorted, self.pairs):
            first = self.columns.spans([one])
            second = self.columns.spans([other])
            low = self.low[np.ix_(first, second)]
            rows = self.high[first, first] - low.sum(axis=1)
            columns = self.high[second, second] - low.sum(axis=0)
            most = low + np.minimum(rows[:, None], columns[None])
            self._narrow_pair((one, other), low, most)

    def _codes(self, frame: pd.DataFrame, names: Sequence[str]) -> NDArray[np.intp]:
        """Return the categories of the rows of a long table as codes."""
        own = self.columns.take(self.columns.places(names))
        encoder = replace(target_encoder(self.settings), columns=own)
        return encoder.transform(frame[list(names)].astype(object)).astype(np.intp)

    @property
    def absent(self) -> frozenset[frozenset[str]]:
        """Pairs of columns without a table."""
        pairs = {frozenset(pair) for pair in combinations(self.columns.names, 2)}
        return frozenset(pairs - self.pairs)

    @property
    def record(self) -> Intervals:
        """The intervals; cells of which no table says anything have zeros."""
        high = np.where(self.high == _MOST, 0, self.high)
        return Intervals(self.low, high, self.rows[0], max(self.rows[1], 1))
