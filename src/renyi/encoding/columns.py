"""Labels and columns: what is known of each column of a table.

Labels are compared by their text: 1, 1.0 and "1" are one label, whatever file or frame
they came from. A moment is one label, whether its column counts seconds or nanoseconds:
its text is that of Arrow without the zeros that end a fraction of a second. Durations,
times with a zone, bytes and nested values are rejected: users cast them.

Ten thousand columns usually have a handful of different descriptions between them
(genotypes, yes/no questions), so `Columns` stores each description once. Building,
comparing and saving a wide model then costs little more than a narrow one.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.formatting import cut

Label = str | int | float | bool | None
TableLike: TypeAlias = Any
"""Rows: a frame of any library, an Arrow table, an array or nested lists."""
ColumnLike: TypeAlias = Any
"""One column: a series of any library, an Arrow array, an array or a list."""
Cell: TypeAlias = Any
"""A cell of such a column, before it is known whether it can be a label."""
PlainData: TypeAlias = Any
"""What JSON can hold, not yet checked."""

RARE = "(rare)"
MISSING_TEXT = "(missing)"
OTHER = "(any other)"  # unseen labels, where points are listed
START = "(start)"  # what every row has before any points
AND = " & "  # between the names, and the labels, of a tuple of columns

DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second in each unit of time
# The zeros that end a fraction, and what is left of it.
_ONE_ENCODER = (
    "build both with one encoder ('renyi marginals build --encoder FIRST.renyi', in "
    "Python encoder=)"
)
_ZEROS = r"(?:\.0+|(\.\d*[1-9])0+)$"
_REST = r"\1"
_TIMES = (datetime.date, datetime.time, np.datetime64)
_REJECTED = (
    *(bytes, datetime.timedelta, np.timedelta64, pa.MonthDayNano),
    *(dict, list, set, tuple, np.ndarray),
)


# ---- labels


def plain_label(value: Cell) -> Label:
    """Return a cell as str, int, float or bool; None if it is missing."""
    if isinstance(value, str):
        return str(value)
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return None
    if isinstance(value, _REJECTED) or getattr(value, "tzinfo", None) is not None:
        raise TypeError(f"{value!r:.60} is neither text nor a number: cast it")
    if isinstance(value, _TIMES):
        if isinstance(value, pd.Timestamp):
            return str(time_texts(pa.array(pd.Series([value])))[0])  # nanoseconds too
        return str(time_texts(pa.array([value]))[0])
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal):
        return decimal_number(value)
    if isinstance(value, (bool, int, float)):
        return value
    return str(value)


def decimal_number(value: Decimal) -> int | float:
    """Return a decimal as a number: a whole one is an integer, as sums of these are."""
    return int(value) if value.as_tuple().exponent == 0 else float(value)


def time_texts(times: pa.Array) -> pa.Array:
    """Return the texts of an array of dates or times."""
    return pc.replace_substring_regex(times.cast(pa.string()), _ZEROS, _REST)


# Before version 3 pandas takes texts for one that differ behind a null character.
_CUT_AT_NULL = len(pd.factorize(np.array(["a", "a\0"], object))[1]) < 2


def factorized(
    values: NDArray[Any], sort: bool = False
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the code of each value, -1 if missing, and the different values."""
    if (
        not _CUT_AT_NULL
        or values.dtype.kind != "O"
        or not any(isinstance(v, str) and "\0" in v for v in values)
    ):
        codes, uniques = pd.factorize(values, sort=sort)
        return codes, np.asarray(uniques)
    missing = pd.isna(values)
    known = dict.fromkeys(values[~missing])
    different = sorted(known) if sort else list(known)
    places = {value: place for place, value in enumerate(different)}
    codes = np.full(len(values), -1, np.intp)
    codes[~missing] = [places[value] for value in values[~missing]]
    array = np.empty(len(different), object)
    array[:] = different
    return codes, array


def label_text(label: Label) -> str:
    """Text by which labels are compared: 1, 1.0 and "1" are the same label."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def label_order(label: Label) -> tuple[int, float, str]:
    """Sort key: numbers by value, texts, then the missing level.

    Truths are sorted as the texts that they are in a CSV file.
    """
    if label is None:
        return (2, 0.0, "")
    if isinstance(label, (str, bool)):
        return (1, 0.0, str(label))
    return (0, label, label_text(label))  # an integer may be too large for a float


def ranked(cells: Sequence[Label]) -> tuple[list[Label], list[int]]:
    """Return the labels of different texts in order, and the place of each cell.

    A missing one has the place after the last.
    """
    first: dict[str, Label] = {}
    for label in cells:
        if label is not None:
            first.setdefault(label_text(label), label)
    labels = sorted(first.values(), key=label_order)
    rank = {label_text(label): k for k, label in enumerate(labels)}
    places = [len(labels) if v is None else rank[label_text(v)] for v in cells]
    return labels, places


# ---- names


@lru_cache(maxsize=4)
def numbered_names(width: int) -> tuple[str, ...]:
    """Names x0, x1, … of the columns of an array, made once for all fits."""
    return tuple(f"x{j}" for j in range(width))


def check_column(names: Sequence[str], name: str, purpose: str = "") -> None:
    """Raise an error unless a table has a column, named with what it is for."""
    if name not in names:
        raise ValueError(
            f"There is no column {name!r}{purpose and ' ' + purpose}; the columns are "
            + ", ".join(map(repr, names[:12]))
            + (", …" if len(names) > 12 else ".")
        )


# ---- columns


class Levels(NamedTuple):
    """Description of a column without its name; many columns may share one.

    `kind` is "label" or "number". A number's bins are the intervals between `edges`.
    None among the categories is the missing level and comes last. `rare` lists the
    labels that were merged into the category "(rare)", a label of that name included.
    """

    kind: str
    categories: tuple[Label, ...]
    edges: tuple[float, ...] = ()
    rare: tuple[Label, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Levels) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other  # a tuple would not ask `__eq__`

    def __hash__(self) -> int:
        return hash((self.kind, self.categories))

    def _key(self) -> tuple[Any, ...]:
        """Return what makes levels equal; True is not 1 here, as its text is not."""
        labels = (*self.categories, None, *self.rare)
        return (*self, tuple(isinstance(label, bool) for label in labels))

    def as_read(self) -> tuple[Any, ...]:
        """Return what is the same in levels whose labels have the same texts."""
        labels = (*self.categories, *self.rare)
        texts = [label if label is None else label_text(label) for label in labels]
        return self.kind, self.edges, texts, len(self.rare)

    @property
    def texts(self) -> tuple[str, ...]:
        """The categories as they are shown."""
        return tuple(
            MISSING_TEXT if c is None else label_text(c) for c in self.categories
        )

    def with_missing(self, missing: bool) -> Levels:
        """Return the levels with the missing level, or without it."""
        known = tuple(c for c in self.categories if c is not None)
        return self._replace(categories=(*known, None) if missing else known)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in self._asdict().items()
            if value != ()
        }

    @classmethod
    def from_dict(cls, data: PlainData) -> Levels:
        """Return the levels of a plain form, checked: its file may be untrusted."""
        lists = ("categories", "edges", "rare")
        if (
            not isinstance(data, dict)
            or set(data) - set(cls._fields)
            or not all(isinstance(data.get(key, []), list) for key in lists)
        ):
            raise ValueError("the description of a column is not valid")
        kind = data.get("kind", "")
        categories, edges, rare = (tuple(data.get(key, ())) for key in lists)
        known = [c for c in categories if c is not None]
        largest = sys.float_info.max  # an integer may be larger than any float
        good = (
            kind in ("label", "number")
            and all(isinstance(c, (str, int, float, bool)) for c in (*known, *rare))
            and len(categories) > 0
            and None not in categories[:-1]
            and len({label_text(c) for c in known}) == len(known)
            and all(type(e) in (int, float) and abs(e) <= largest for e in edges)
            and all(a < b for a, b in zip(edges[:-1], edges[1:], strict=True))
            and (len(known) == len(edges) + 1 if kind == "number" else not edges)
        )
        if not good:
            raise ValueError("the categories of a column are not valid")
        return cls(kind, categories, edges, rare)


class Column(NamedTuple):
    """A column: its name and its levels."""

    name: str
    levels: Levels

    @property
    def categories(self) -> tuple[Label, ...]:
        """The categories, None being the missing level."""
        return self.levels.categories

    @property
    def kind(self) -> str:
        """Either "label" or "number"."""
        return self.levels.kind

    def check_bins(self, other: Column) -> None:
        """Raise an error if the column of other marginals has other bins."""
        mine = self.levels
        theirs = other.levels
        if mine.kind != theirs.kind or mine.edges != theirs.edges:
            raise ValueError(
                f"Column {self.name!r} is binned differently in the two marginals: "
                f"{_ONE_ENCODER}."
            )

    def union(self, other: Column) -> Column:
        """Return the column that contains the categories of both."""
        mine = self.levels
        theirs = other.levels
        if mine == theirs:
            return self
        self.check_bins(other)
        clash = _texts(mine.rare) & _texts(theirs.categories)
        clash |= _texts(theirs.rare) & _texts(mine.categories)
        clash.discard(RARE)  # what is called so is merged in both
        if clash:
            raise ValueError(
                f"Column {self.name!r} merges the rare label {min(clash)!r} in one of "
                f"the marginals and keeps it in the other: {_ONE_ENCODER}."
            )
        if mine.kind == "number":
            longest = max(mine.categories, theirs.categories, key=len)
            return Column(self.name, mine._replace(categories=longest))
        both = (*mine.categories, *theirs.categories)
        rare = (*mine.rare, *theirs.rare)
        if rare and any(RARE in v.categories and not v.rare for v in (mine, theirs)):
            rare = (*rare, RARE)  # a label of one, and where rare ones go
        missing = [None] if None in both else []
        categories = (*ranked(both)[0], *missing)
        levels = Levels("label", categories, (), tuple(ranked(rare)[0]))
        return Column(self.name, levels)

    def bins_in(self, other: Column) -> NDArray[np.intp]:
        """Return the bin of `other` that contains each bin of this column."""
        if not set(other.levels.edges) <= set(self.levels.edges):
            self.check_bins(other)
        starts = [-math.inf, *self.levels.edges]
        return np.searchsorted(other.levels.edges, starts, side="right")

    def places(self, other: Column) -> NDArray[np.intp]:
        """Code in `other` of each category of this column; its size where absent.

        Bins may be merged in `other`.
        """
        absent = len(other.categories)
        if self.kind == other.kind == "number":
            missing = absent - 1 if None in other.categories else absent
            places = self.bins_in(other)
            return np.append(places, missing) if None in self.categories else places
        codes = {(c is None, label_text(c)): k for k, c in enumerate(other.categories)}
        keys = [(c is None, label_text(c)) for c in self.categories]
        return np.array([codes.get(key, absent) for key in keys], np.intp)


def _texts(labels: Iterable[Label]) -> set[str]:
    return {label_text(label) for label in labels if label is not None}


class Columns(Sequence[Column]):
    """An immutable sequence of `Column`, in which equal levels are stored once."""

    def __init__(
        self, names: Sequence[str], levels: Sequence[Levels], which: NDArray[Any]
    ) -> None:
        self.names = tuple(names)
        self.levels = tuple(levels)
        self.which = which

    @classmethod
    def of(cls, columns: Iterable[Column]) -> Columns:
        """Sequence of the given columns."""
        if isinstance(columns, Columns):
            return columns
        places: dict[Levels, int] = {}
        names = []
        which = []
        for column in columns:
            names.append(column.name)
            which.append(places.setdefault(column.levels, len(places)))
        return cls(names, list(places), np.array(which, np.intp))

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, place: int) -> Column: ...
    @overload
    def __getitem__(self, place: slice) -> Columns: ...
    def __getitem__(self, place: int | slice) -> Column | Columns:
        if isinstance(place, slice):
            return self.take(range(len(self))[place])
        return Column(self.names[place], self.levels[self.which[place]])

    def __iter__(self) -> Iterator[Column]:
        for name, k in zip(self.names, self.which.tolist(), strict=True):
            yield Column(name, self.levels[k])

    def __eq__(self, other: object) -> bool:
        """Whether names and levels read the same, in the same order."""
        if not isinstance(other, Columns):
            return NotImplemented
        if self.names != other.names:
            return False
        pairs = {*zip(self.which.tolist(), other.which.tolist(), strict=True)}
        return all(
            self.levels[a].as_read() == other.levels[b].as_read() for a, b in pairs
        )

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{c.name} ({len(c.categories)})" for c in self[:6])
        more = f", … {len(self) - 6} more" if len(self) > 6 else ""
        return f"<{len(self)} columns: {shown}{more}>"

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """Number of categories of each column."""
        each = np.array([len(v.categories) for v in self.levels], np.intp)
        sizes: NDArray[np.intp] = each[self.which]
        return sizes

    @property
    def numeric_names(self) -> frozenset[str]:
        """Names of the columns of numbers."""
        number = np.array([v.kind == "number" for v in self.levels], bool)
        places = np.flatnonzero(number[self.which]).tolist()
        return frozenset(self.names[j] for j in places)

    def take(self, places: Iterable[int]) -> Columns:
        """Return the columns at these places."""
        places = list(places)
        used, which = np.unique(self.which[places], return_inverse=True)
        levels = [self.levels[k] for k in used.tolist()]
        return Columns([self.names[j] for j in places], levels, which)

    def places(self, names: Iterable[str]) -> list[int]:
        """Positions of the named columns; a name that is not there is an error."""
        names = list(names)
        for name in names:
            if name not in self._where:
                check_column(self.names, name)
        return [self._where[name] for name in names]

    def named(self, name: str) -> Column:
        """Return a column by its name."""
        return self[self.places([name])[0]]

    def spans(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Return the places of the categories of some columns among those of all."""
        ends = np.cumsum(self.sizes)
        where = self.places(names)
        places = [np.arange(ends[j] - self.sizes[j], ends[j]) for j in where]
        return np.concatenate(places) if places else np.empty(0, np.intp)

    @cached_property
    def _where(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        used, which = np.unique(self.which, return_inverse=True)
        return {
            "names": list(self.names),
            "levels": [self.levels[k].to_dict() for k in used],
            "which": which.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Columns:
        """Return the columns of a plain form, checked: its file may be untrusted."""
        if not isinstance(data, Mapping) or set(data) != {"names", "levels", "which"}:
            raise ValueError("the description of the columns is not valid")
        names = data["names"]
        levels = data["levels"]
        which = data["which"]
        good = (
            all(isinstance(part, list) for part in (names, levels, which))
            and all(isinstance(name, str) for name in names)
            and len(set(names)) == len(names) == len(which)
            and all(type(k) is int and 0 <= k < len(levels) for k in which)
        )
        if not good:
            raise ValueError("the list of columns is not valid")
        described = [Levels.from_dict(entry) for entry in levels]
        return cls(names, described, np.array(which, np.intp))


def short(name: str, width: int) -> str:
    """Return a name that fits; of a tuple of columns, something of each."""
    parts = name.split(AND)
    left = width - len(AND) * (len(parts) - 1)
    if len(name) <= width or len(parts) == 1 or left < 2 * len(parts):
        return cut(name, width)
    room: dict[int, int] = {}
    # The short ones first: what they do not need is left to the others.
    for place in sorted(range(len(parts)), key=lambda i: len(parts[i])):
        room[place] = min(len(parts[place]), left // (len(parts) - len(room)))
        left -= room[place]
    return AND.join(short(part, room[i]) for i, part in enumerate(parts))
