"""Counters: the pair counts of a stream of rows, batch by batch.

Each batch is read a few thousand rows at a time, becomes small codes
(`renyi.streaming.column_encoders`), and is counted with the sizes seen so far; the
small table is added to a growing one (`PairTable`), in which categories get their
places as they turn up. Counts are integers of 64 bits, so that counters of different
rows can be merged in any order, with the same result to the last count; sums of weights
are floats, and agree to rounding. A counter can be sent to another process as bytes, or
kept in a checkpoint.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import (
    check_table_size,
    class_pair_counts,
    pair_counts,
)
from renyi.encoding.column_rules import (
    check_identifiers,
    check_target,
    no_target,
    no_weight,
)
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import target_encoder
from renyi.marginals.marginals import Marginals
from renyi.streaming import wire
from renyi.streaming.column_encoders import (
    BinEncoder,
    FinalLevels,
    LabelEncoder,
    OnePassBinner,
)
from renyi.streaming.spec import ROWS, CountSpec, Slice, slices
from renyi.warnings import warn_dropped

_KIND = "counts"
# Rows are counted when so many wait, or so many cells of them.
_MOST_ROWS, _LEAST_ROWS = 2**18, 2**12
_FEW_CELLS, _MANY_CELLS = 2**23, 2**26
_LARGE_TABLE = 2**25  # bytes
_FIRST_SIZE = 64
_MANY_CODES = 256
_CELLS = 2**21  # of a table that are added at a time

ColumnEncoder = LabelEncoder | BinEncoder | OnePassBinner
Places = NDArray[np.intp]


class PairCounter:
    """Pair counts of the rows seen so far."""

    def __init__(self, spec: CountSpec) -> None:
        if spec.undecided:
            raise ValueError(
                f"The spec has not decided about column {spec.undecided[0]!r}: make "
                "a ColumnProfile of the rows first, or use spec.one_pass()."
            )
        self.spec = spec
        self.n = 0  # rows counted
        self.seen = 0  # rows looked at
        self.left_out = 0  # rows without a target
        self._weight = 0.0
        self._target = LabelEncoder(spec.target, spec.columns[-1], spec.missing)
        features = [_column_encoder(spec, name) for name in spec.names[:-1]]
        self._encoders: list[ColumnEncoder] = [*features, self._target]
        self._table = PairTable(
            spec.names, spec.weight is not None, spec.class_conditional
        )
        self._sizes = [encoder.size for encoder in self._encoders]
        rows = _FEW_CELLS // len(spec.names)
        self._room = min(_MOST_ROWS, max(_LEAST_ROWS, rows))
        self._codes = np.empty((len(spec.names), 0), np.uint8)
        self._weights = np.empty(0)
        self._waiting = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the rows of a batch.

        After an error in a batch, its first rows may have been counted: `seen` says
        how many rows in all.
        """
        rows = min(ROWS, self._room)
        for piece in slices(self.spec, batch, self.spec.names, self.seen, rows):
            self._add(piece)
            self.seen += piece.rows

    def _add(self, piece: Slice) -> None:
        """Encode some rows; count those that wait when there are enough."""
        target = self._target.encode(piece.columns[-1])
        keep, weights = target > 0, piece.weights
        left_out = piece.rows - int(keep.sum())
        if weights is not None:
            keep &= weights > 0
        count = int(keep.sum())
        rows: Any = slice(None) if count == piece.rows else np.flatnonzero(keep)
        cells = self._cells(piece, rows)
        if self._waiting + count > self._room:
            self._count()
        for j, encoder in enumerate(self._encoders[:-1]):
            if isinstance(encoder, OnePassBinner):
                self._put(j, cells[j])
            else:
                self._put(j, encoder.encode(piece.columns[j])[rows])
        self._put(len(self._encoders) - 1, target[rows])
        if weights is not None:
            self._weights[self._waiting : self._waiting + count] = weights[rows]
            self._weight += float(weights[rows].sum())
        # Last, so that rows with a cell that is refused have not been counted.
        self.n += count
        self.left_out += left_out
        self._waiting += count

    def _cells(self, piece: Slice, rows: Any) -> dict[int, NDArray[Any]]:
        """Return the codes of numbers in cells; these may renumber what waits."""
        found = {}
        for j, encoder in enumerate(self._encoders):
            if isinstance(encoder, OnePassBinner):
                found[j], moved = encoder.admit(encoder.read(piece.columns[j])[rows])
                self._renumber(j, moved)
        return found

    def _renumber(self, j: int, moved: NDArray[np.intp] | None) -> None:
        """Follow a codebook that has merged cells."""
        if moved is not None:
            self._count()  # what waits has the old codes
            self._table.reserve([0] * j + [len(moved)])
            self._table.fold(j, moved)

    def _put(self, j: int, codes: NDArray[Any]) -> None:
        """Let the codes of a column wait."""
        size = self._encoders[j].size
        self._sizes[j] = size
        if self._codes.shape[1] < self._room or size > np.iinfo(self._codes.dtype).max:
            self._make_room(np.min_scalar_type(size))
        self._codes[j, self._waiting : self._waiting + len(codes)] = codes

    def _make_room(self, dtype: np.dtype[Any]) -> None:
        """Let rows wait in wider or longer arrays."""
        before, weights = self._codes, self._weights
        wide = np.promote_types(before.dtype, dtype)
        self._codes = np.empty((len(before), self._room), wide)
        self._codes[:, : before.shape[1]] = before
        if self.spec.weight is not None:
            self._weights = np.empty(self._room)
            self._weights[: len(weights)] = weights

    def _count(self) -> None:
        """Count the rows that wait."""
        if not self._waiting:
            return
        codes = self._codes[:, : self._waiting]
        weights = None
        if self.spec.weight is not None:
            weights = self._weights[: self._waiting]
        self._table.add(codes, self._sizes, weights)
        self._waiting = 0
        # A large table is added less often.
        if self._table.size**2 > 4 * self._room * len(codes):
            most = _MANY_CELLS // (self._codes.itemsize * len(codes))
            self._room = max(self._room, min(2 * self._room, most))

    @property
    def table_bytes(self) -> int:
        """Bytes of a table of all categories seen so far."""
        tables = 1 + self.spec.class_conditional * self._sizes[-1]
        return 8 * tables * sum(self._sizes) ** 2

    def settle(self) -> None:
        """Count the rows that wait, so that a merge has less to do.

        If the table would be large, they go on waiting: a merge lets them wait in the
        other counter, and no memory is needed for a table of their own.
        """
        if self.table_bytes <= _LARGE_TABLE:
            self._count()

    def merge(self, other: PairCounter) -> None:
        """Add the rows of another counter of the same spec."""
        if other.spec != self.spec:
            raise ValueError("The two counters are of different specs: use one spec.")
        other.settle()
        if not other._waiting or self.spec.weight is not None:
            self._count()
        theirs = []
        for j, (mine, encoder) in enumerate(
            zip(self._encoders, other._encoders, strict=True)
        ):
            moved, places = mine.merge(encoder)
            self._renumber(j, moved)
            theirs.append(places)
        self._sizes = [encoder.size for encoder in self._encoders]
        if other._table.size:
            self._table.merge(other._table, theirs, self._sizes)
        if other._waiting:
            self._take_waiting(other, theirs)
        self.n += other.n
        self.seen += other.seen
        self.left_out += other.left_out
        self._weight += other._weight

    def _take_waiting(self, other: PairCounter, theirs: list[NDArray[np.intp]]) -> None:
        """Take the rows that wait in another counter, whose codes have others here."""
        count = other._waiting
        if self._waiting + count > self._room:
            self._count()
        waiting = other._codes[:, :count]
        codes = np.empty(waiting.shape, np.min_scalar_type(max(self._sizes)))
        for j, places in enumerate(theirs):
            codes[j] = places[waiting[j]]
        if self.spec.weight is not None:
            # At once: sums are rounded, and a checkpoint, before which all that waits
            # is counted, may not change them.
            self._table.add(codes, self._sizes, other._weights[:count])
        elif count > self._room:
            self._table.add(codes, self._sizes, None)
        else:
            for j, own in enumerate(codes):
                self._put(j, own)
            self._waiting += count

    # ---- the end

    def finish(self) -> Marginals:
        """Return the marginals of all rows; the counter may go on afterwards."""
        self._count()
        self._refuse_nothing()
        if self.left_out:
            warn_dropped(self.left_out, self.spec.target)
        self._table.reserve([encoder.size for encoder in self._encoders])
        finals = [self._final(j, encoder) for j, encoder in enumerate(self._encoders)]
        columns = Columns.of(
            Column(name, final.levels)
            for name, final in zip(self.spec.names, finals, strict=True)
        )
        if not self.spec.fitted:
            kinds = np.array([column.kind == "label" for column in columns])
            kinds[-1] = False
            check_identifiers(columns.take(np.flatnonzero(kinds).tolist()), self.n)
        check_target(columns[-1], self.n)
        counts, inner = self._counts(finals, columns)
        n = self.n if self.spec.weight is None else self._weight
        return Marginals(counts, n, columns, self.spec.target, self.spec.encoder, inner)

    def _refuse_nothing(self) -> None:
        if self.n:
            return
        target = self.spec.target
        if self.left_out and self.left_out == self.seen:
            raise no_target(target)
        if self.left_out:
            raise ValueError(
                f"No row counts: the target {target!r} is missing, or the weight zero."
            )
        if self.seen:
            raise no_weight()
        raise ValueError("There are no rows to count.")

    def _final(self, j: int, encoder: ColumnEncoder) -> FinalLevels:
        settings, levels = self.spec.encoder, encoder.spec.levels
        if j == len(self._encoders) - 1:
            plain = target_encoder(settings)
            return encoder.close(self._table.mass(j), plain, None)
        rare = (levels.rare if levels else ()) if self.spec.fitted else None
        return encoder.close(self._table.mass(j), settings, rare)

    def _counts(
        self, finals: list[FinalLevels], columns: Columns
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the counts in the order of the columns, and those of each class."""
        starts = offsets(columns.sizes)
        target = np.full(self._table.size, -1)
        for j, final in enumerate(finals):
            places = final.places
            target[self._table.places[j]] = np.where(places < 0, -1, places + starts[j])
        counts = self._table.folded(target, int(starts[-1]))
        if not self.spec.class_conditional:
            return counts, None
        features = np.where(target >= starts[-2], -1, target)
        classes = finals[-1].places
        inner = self._table.folded_classes(features, int(starts[-2]), classes)
        return counts, inner

    # ---- bytes

    def to_bytes(self) -> bytes:
        """Return the counter as bytes: a header, and counts where there are any."""
        self._count()
        self._table.reserve([encoder.size for encoder in self._encoders])
        header = {
            "spec": self.spec.to_dict(),
            "n": self.n,
            "seen": self.seen,
            "left_out": self.left_out,
            "weight": self._weight,
            "encoders": [encoder.to_dict() for encoder in self._encoders],
        }
        return wire.pack(_KIND, header, self._table.to_arrays())

    @classmethod
    def from_bytes(cls, spec: CountSpec, data: bytes) -> PairCounter:
        """Return the counter of bytes, checked: they may come from a damaged file."""
        made = cls(spec)
        wire.fill(_KIND, made, spec.to_dict(), data)
        return made

    def fill(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take what bytes hold, checked."""
        self.n, self.seen = wire.row_count(header, "n"), wire.row_count(header, "seen")
        self.left_out, self._weight = (
            wire.row_count(header, "left_out"),
            header["weight"],
        )
        if type(self._weight) is not float or not 0 <= self._weight < np.inf:
            raise ValueError("the weight is not valid")
        entries = wire.one_each(header["encoders"], self._encoders)
        for encoder, entry in zip(self._encoders, entries, strict=True):
            encoder.fill(entry)
        self._sizes = [encoder.size for encoder in self._encoders]
        self._table.fill(arrays, self._sizes)


def _column_encoder(spec: CountSpec, name: str) -> ColumnEncoder:
    """Return the empty codebook of a column."""
    role = spec.column(name)
    if role.kind == "label" or role.text == "guess":
        return LabelEncoder(name, role, spec.missing)
    if role.levels is not None:
        return BinEncoder(name, role, spec.missing)
    return OnePassBinner(name, role, spec.missing, spec.cells)


# ---- tables that grow


class PairTable:
    """Counts of all pairs of categories, of any number of columns."""

    def __init__(self, names: Any, weighted: bool, by_class: bool) -> None:
        self.names = tuple(names)
        self.dtype: Any = np.float64 if weighted else np.int64
        self.places: list[Places] = [np.empty(0, np.intp) for _ in self.names]
        self.size = 0
        self.counts = np.zeros((0, 0), self.dtype)
        self.inner = np.zeros((0, 0, 0), self.dtype) if by_class else None

    def add(
        self,
        codes: NDArray[Any],
        sizes: list[int],
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Count a block of codes of shape (columns, rows)."""
        self.reserve(sizes)
        codes, places = self._compact(codes, sizes)
        lengths = [len(place) for place in places]
        # One thread: blocks are small, and callers count several at a time.
        table = pair_counts(codes, lengths, weights, threads=1)
        _add_at(self.counts, table, places)
        if self.inner is not None:
            within = class_pair_counts(
                codes[:-1], lengths[:-1], codes[-1], lengths[-1], weights, threads=1
            )
            classes = np.searchsorted(self.places[-1], places[-1])
            for code, table in zip(classes, within, strict=True):
                _add_at(self.inner[code], table, places[:-1])

    def _compact(
        self, codes: NDArray[Any], sizes: list[int]
    ) -> tuple[NDArray[Any], list[Places]]:
        """Renumber columns of which but a few of many codes occur."""
        places = list(self.places)
        copied = False
        for j, size in enumerate(sizes):
            if size < _MANY_CODES:
                continue
            used = np.flatnonzero(np.bincount(codes[j], minlength=size))
            if 2 * len(used) > size:
                continue
            codes = codes if copied else codes.copy()
            copied = True
            rank = np.zeros(size, codes.dtype)
            rank[used] = np.arange(len(used))
            codes[j] = rank[codes[j]]
            places[j] = places[j][used]
        return codes, places

    def reserve(self, sizes: list[int]) -> None:
        """Make room for so many codes of each column."""
        for j, size in enumerate(sizes):
            fresh = size - len(self.places[j])
            if fresh > 0:
                added = np.arange(self.size, self.size + fresh)
                self.places[j] = np.concatenate([self.places[j], added])
                self.size += fresh
        try:
            check_table_size(self.size, 1)
        except ValueError as error:
            j = int(np.argmax([len(place) for place in self.places]))
            raise ValueError(
                f"{error} Column {self.names[j]!r} alone has {len(self.places[j]):,}: "
                "drop it, or name it in `numeric` if it is a number."
            ) from None
        self._enlarge()

    def _enlarge(self) -> None:
        room, classes = len(self.counts), len(self.places[-1])
        if self.inner is not None:
            check_table_size(self.size, classes + 1)
        if self.size > room:
            more = room if room < _MANY_CODES else min(room // 4, 1024)
            room = max(_FIRST_SIZE, self.size, room + more)
            self.counts = _enlarged(self.counts, (room, room))
        if self.inner is not None and self.inner.shape != (classes, room, room):
            self.inner = _enlarged(self.inner, (classes, room, room))

    def mass(self, j: int) -> NDArray[Any]:
        """Return the rows of each code of a column."""
        return self.counts[self.places[j], self.places[j]]

    def folded(self, target: Places, size: int) -> NDArray[Any]:
        """Return the counts with each place moved to another; -1 drops it."""
        return _spread(folded(self._used, target), target, size)

    def folded_classes(
        self, target: Places, size: int, classes: Places
    ) -> NDArray[Any]:
        """Return the counts within each class, places and classes moved."""
        assert self.inner is not None
        out = np.zeros((int(classes.max()) + 1, size, size), self.dtype)
        for code, table in zip(classes, self.inner, strict=True):
            if code >= 0:
                own = folded(table[: self.size, : self.size], target)
                out[code] += _spread(own, target, size)
        return out

    @property
    def _used(self) -> NDArray[Any]:
        return self.counts[: self.size, : self.size]

    def merge(self, other: PairTable, theirs: list[Places], sizes: list[int]) -> None:
        """Add another table; `theirs` gives the own code of each of its codes."""
        self.reserve(sizes)
        target = np.full(other.size, -1)
        for own, place, codes in zip(self.places, other.places, theirs, strict=True):
            target[place] = own[codes[: len(place)]]
        _add_folded(self.counts, other._used, target)
        if self.inner is not None:
            assert other.inner is not None
            for code, table in enumerate(other.inner):
                found = table[: other.size, : other.size]
                _add_folded(self.inner[theirs[-1][code]], found, target)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the non-zero counts as arrays, with their places."""
        order = np.concatenate(self.places)
        arrays = _sparse(self.counts[np.ix_(order, order)])
        if self.inner is not None:
            for code, table in enumerate(self.inner):
                inner = _sparse(table[np.ix_(order, order)])
                arrays.update({f"{key} of {code}": v for key, v in inner.items()})
        return arrays

    def fill(self, arrays: dict[str, NDArray[Any]], sizes: list[int]) -> None:
        """Take the counts of arrays, checked."""
        self.reserve(sizes)
        _fill(self.counts, arrays, "", self.size)
        if self.inner is not None:
            for code, table in enumerate(self.inner):
                _fill(table, arrays, f" of {code}", self.size)

    def fold(self, j: int, moved: Places) -> None:
        """Renumber the codes of a column; codes that become one are added up.

        Codes that none becomes are new, and get places of their own.
        """
        target = np.arange(self.size)
        kept = np.full(int(moved.max()) + 1, -1)
        for code, place in zip(moved, self.places[j], strict=False):
            if kept[code] < 0:
                kept[code] = place
            target[place] = kept[code]
        used, target = np.unique(target, return_inverse=True)
        self.counts = folded(self.counts[: self.size, : self.size], target)
        if self.inner is not None:
            inner = np.zeros((len(self.inner), len(used), len(used)), self.dtype)
            for code, table in enumerate(self.inner):
                inner[code] = folded(table[: self.size, : self.size], target)
            self.inner = inner
        self.places = [target[place] for place in self.places]
        fresh = kept < 0
        self.places[j] = np.searchsorted(used, kept)
        self.places[j][fresh] = len(used) + np.arange(fresh.sum())
        self.size = len(used) + int(fresh.sum())
        self._enlarge()


def _add_at(counts: NDArray[Any], own: NDArray[Any], places: list[Places]) -> None:
    """Add a table at the places of its rows and columns."""
    where = np.concatenate(places)
    if np.array_equal(where, np.arange(len(where))):
        counts[: len(where), : len(where)] += own
        return
    step = max(1, _CELLS // max(len(where), 1))  # lines, copied by the addition
    for low in range(0, len(where), step):
        lines = where[low : low + step]
        counts[np.ix_(lines, where)] += own[low : low + step]


def _add_folded(counts: NDArray[Any], own: NDArray[Any], target: Places) -> None:
    """Add a table whose rows and columns go to other places, perhaps several to one.

    Only what becomes one is copied: tables may be a good part of the memory.
    """
    used = np.unique(target[target >= 0])
    if len(used) == len(target):
        _add_at(counts, own, [target])
    else:
        _add_at(counts, folded(own, target), [used])


def _enlarged(table: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a table with zeros beyond the old entries."""
    out = np.zeros(shape, table.dtype)
    out[tuple(slice(0, size) for size in table.shape)] = table
    return out


def folded(counts: NDArray[Any], target: Places) -> NDArray[Any]:
    """Add up the rows, and the columns, that go to the same place.

    Places are numbered from 0 without gaps; -1 drops a row and column.
    """
    order = np.argsort(target, kind="stable")
    order = order[int((target < 0).sum()) :]
    if not len(order):
        return np.zeros((0, 0), counts.dtype)
    places = target[order]
    counts = counts[np.ix_(order, order)]
    first = np.flatnonzero(np.diff(places, prepend=-1))
    if len(first) == len(order):
        return counts
    total: NDArray[Any] = np.add.reduceat(
        np.add.reduceat(counts, first, axis=0), first, axis=1
    )
    return total


def _spread(counts: NDArray[Any], target: Places, size: int) -> NDArray[Any]:
    """Return a folded table with zeros at the places where nothing went."""
    used = np.unique(target[target >= 0])
    if len(used) == size:
        return counts
    out = np.zeros((size, size), counts.dtype)
    out[np.ix_(used, used)] = counts
    return out


def _sparse(counts: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the upper half of a symmetric table where it is not zero."""
    rows, columns = np.nonzero(np.triu(counts))
    values = counts[rows, columns]
    if values.dtype.kind == "i":
        values = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    return {
        "rows": rows.astype(np.uint16),
        "columns": columns.astype(np.uint16),
        "counts": values,
    }


def _fill(
    counts: NDArray[Any], arrays: dict[str, NDArray[Any]], ending: str, size: int
) -> None:
    names = (f"rows{ending}", f"columns{ending}", f"counts{ending}")
    rows, columns, values = (arrays[name] for name in names)
    good = (
        rows.dtype == columns.dtype == np.uint16
        and rows.shape == columns.shape == values.shape
        and rows.ndim == 1
        and bool((rows <= columns).all())
        and int(columns.max(initial=0)) < max(size, 1)
        and (values.dtype.kind == "u") == (counts.dtype.kind == "i")
        and bool(np.isfinite(values).all() and (values > 0).all())
    )
    if not good or int(values.max(initial=0)) > np.iinfo(np.int64).max:
        raise ValueError("the counts are not valid")
    counts[rows, columns] = values
    counts[columns, rows] = values
