"""Counters: the pair counts of a stream of rows, batch by batch.

Each batch is read a few thousand rows at a time, becomes small codes
(`renyi.sources.profile`), and is counted with the sizes seen so far. The small table is
added to a growing one (`PairTable`), in which categories get their places as they turn
up. Counts are integers of 64 bits, so that counters of different rows can be merged in
any order, with the same result to the last count. Sums of weights are floats, and agree
to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.counting.pair_counts import check_table_size, class_pair_counts, pair_counts
from renyi.encoding.rules import (
    check_sum,
    check_target,
    counted_rows,
)
from renyi.marginals.marginals import Marginals
from renyi.sources.profile import code_encoders, final_columns, no_rows_error
from renyi.sources.spec import (
    ROWS,
    Arrays,
    CountSpec,
    Slice,
    Summary,
    slices,
)
from renyi.validation import InputError
from renyi.warnings import warn_dropped

# Rows are counted when so many wait, or so many cells of them.
_MOST_ROWS = 2**18
_LEAST_ROWS = 2**12
_FEW_CELLS = 2**23
_MANY_CELLS = 2**26
_LARGE_TABLE = 2**25  # bytes
_MANY_CODES = 256
_CELLS = 2**17  # of a table that are added at a time, within a cache

Places = NDArray[np.intp]


class PairCounter(Summary):
    """Pair counts of the rows seen so far."""

    kind = "counts"
    step = "counting"

    def __init__(self, spec: CountSpec) -> None:
        super().__init__(spec)
        if spec.undecided:
            raise ValueError(
                f"The spec has not decided about column {spec.undecided[0]!r}: make "
                "a ColumnProfile of the rows first."
            )
        self.left_out = 0  # rows without a target
        self._weight = 0.0
        self._encoders = code_encoders(spec)
        weighted = spec.weight is not None
        self._table = PairTable(spec.names, weighted, spec.class_conditional)
        self._sizes = [encoder.size for encoder in self._encoders]
        self._room = min(_MOST_ROWS, max(_LEAST_ROWS, _FEW_CELLS // len(spec.names)))
        self._codes = np.empty((len(spec.names), 0), np.uint8)
        self._weights = np.empty(0)
        self._waiting = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the rows of a batch.

        After an error in a batch, its first rows may have been counted: `seen` says
        how many rows in all.
        """
        rows = min(ROWS, self._room)
        for piece in slices(self.spec, batch, self.spec.names, self.next_row, rows):
            self._add(piece)
            self.seen += piece.rows

    def _add(self, piece: Slice) -> None:
        """Encode some rows; count those that wait when there are enough."""
        *features, last = self._encoders
        target = last.encode(piece.columns[-1])
        known = target > 0
        weights = piece.weights
        left_out = piece.rows - int(known.sum())
        keep = counted_rows(known, weights)
        count = int(keep.sum())
        rows: Any = slice(None) if count == piece.rows else np.flatnonzero(keep)
        self._make_room(count)
        for j, encoder in enumerate(features):
            self._put(j, encoder.encode(piece.columns[j])[rows])
        self._put(len(features), target[rows])
        if weights is not None:
            self._weights[self._waiting : self._waiting + count] = weights[rows]
            self._weight += float(weights[rows].sum())
        # Last, so that rows with a rejected cell have not been counted.
        self.n += count
        self.left_out += left_out
        self._waiting += count

    def _make_room(self, count: int) -> None:
        """See that so many more rows can wait, by counting those that do if need be."""
        while self._waiting + count > self._room:
            # Sums of weights, whose bits depend on it, widen as they always have.
            if self.spec.weight is not None or not self._widen():
                self._count()
                return

    def _widen(self) -> bool:
        """Let more rows wait for a large table, which then is added less often."""
        before = self._room
        columns = len(self._codes)
        if sum(self._sizes) ** 2 > 4 * before * columns:
            most = _MANY_CELLS // (self._codes.itemsize * columns)
            self._room = max(before, min(2 * before, most))
        return self._room > before

    def _put(self, j: int, codes: NDArray[Any]) -> None:
        """Let the codes of a column wait, in wider or longer arrays if needed."""
        size = self._encoders[j].size
        before = self._codes
        self._sizes[j] = size
        if before.shape[1] < self._room or size >= 256**before.itemsize:
            wide = np.promote_types(before.dtype, np.min_scalar_type(size))
            self._codes = np.empty((len(before), self._room), wide)
            self._codes[:, : before.shape[1]] = before
            if self.spec.weight is not None:
                more = np.empty(self._room - len(self._weights))
                self._weights = np.append(self._weights, more)
        self._codes[j, self._waiting : self._waiting + len(codes)] = codes

    def _count(self) -> None:
        """Count the rows that wait."""
        if not self._waiting:
            return
        weighted = self.spec.weight is not None
        rows = slice(self._waiting)
        weights = self._weights[rows] if weighted else None
        self._table.add(self._codes[:, rows], self._sizes, weights)
        self._waiting = 0
        if weighted:
            self._widen()

    @property
    def table_bytes(self) -> int:
        """Bytes of a table of all categories seen so far."""
        tables = 1 + self.spec.class_conditional * self._sizes[-1]
        if tables == 1 and sparse_counts.is_large(self._sizes):
            return self._table.table_bytes
        return 8 * tables * sum(self._sizes) ** 2

    def settle(self) -> None:
        """Count the rows that wait, so that a merge has less to do.

        If the table would be large, they continue to wait. A merge lets them wait in
        the other counter, without memory for a separate table.
        """
        if self.table_bytes <= _LARGE_TABLE:
            self._count()

    def merge(self, other: PairCounter) -> None:
        """Add the rows of another counter of the same spec."""
        super().merge(other)
        self.left_out += other.left_out
        self._weight += other._weight
        other.settle()
        if not other._waiting or self.spec.weight is not None:
            self._count()
        pairs = zip(self._encoders, other._encoders, strict=True)
        theirs = [mine.merge(encoder) for mine, encoder in pairs]
        self._sizes = [encoder.size for encoder in self._encoders]
        if other._table.size:
            self._table.merge(other._table, theirs, self._sizes)
        if other._waiting:
            self._take_waiting(other, theirs)

    def _take_waiting(self, other: PairCounter, theirs: list[Places]) -> None:
        """Take the rows that wait in another counter, whose codes have others here."""
        count = other._waiting
        self._make_room(count)
        waiting = other._codes[:, :count]
        codes = np.empty(waiting.shape, np.min_scalar_type(max(self._sizes)))
        for j, places in enumerate(theirs):
            codes[j] = places[waiting[j]]
        # Weights at once: sums are rounded, and do not depend on what waits.
        weights = None if self.spec.weight is None else other._weights[:count]
        if weights is not None or count > self._room:
            self._table.add(codes, self._sizes, weights)
        else:
            for j, own in enumerate(codes):
                self._put(j, own)
            self._waiting += count

    # ---- the end

    def finish(self) -> Marginals:
        """Return the marginals of all rows; the counter may continue afterwards."""
        spec = self.spec
        waiting = not self._table.size and spec.weight is None  # all rows do
        self._sizes = [encoder.size for encoder in self._encoders]
        if waiting:
            rows = self._codes[:, : self._waiting]
            self._table.check(self._sizes, rows.min(axis=1, initial=1))
        else:
            self._settle_all()
        if not self.n:
            raise no_rows_error(spec.target, self.left_out, self.seen)
        if self.left_out:
            warn_dropped(self.left_out, spec.target)
        margins = self._table.margins()
        if waiting:
            pairs = zip(self._codes[:, : self._waiting], self._sizes, strict=True)
            margins = [np.bincount(codes, minlength=size) for codes, size in pairs]
        columns, places = final_columns(spec, self._encoders, margins)
        spec.check_identifiers(columns[:-1], self.n)
        check_target(columns[-1], self.n)
        counts, inner = (self._count_waiting if waiting else self._counts)(
            places, columns.sizes
        )
        n = self.n if spec.weight is None else self._weight
        return Marginals(counts, n, columns, spec.target, spec.encoder, inner)

    def _settle_all(self) -> None:
        """Count the rows that wait, and make room for all categories."""
        self._count()
        sizes = [encoder.size for encoder in self._encoders]
        self._table.reserve(sizes, self._table.lows)

    def _count_waiting(
        self, places: list[Places], sizes: NDArray[Any]
    ) -> tuple[sparse_counts.Table, NDArray[Any] | None]:
        """Count the rows that wait, which are all, with their last codes at once."""
        kind = np.min_scalar_type(int(sizes.max()))
        codes = np.empty((len(sizes), self._waiting), kind)
        for j, place in enumerate(places):
            np.take(place.astype(kind), self._codes[j, : self._waiting], out=codes[j])
        counts = pair_counts(codes, sizes, threads=1)
        inner = None
        if self.spec.class_conditional:
            inner = class_pair_counts(codes, sizes, threads=1)
        return counts, inner

    def _counts(
        self, places: list[Places], sizes: NDArray[Any]
    ) -> tuple[sparse_counts.Table, NDArray[Any] | None]:
        """Return the counts in the order of the columns, and those of each class."""
        ends = np.cumsum(sizes)
        each = zip(places, self._table.lows, ends - sizes, strict=True)
        target = np.concatenate(
            [np.where(p[low:] < 0, -1, p[low:] + start) for p, low, start in each]
        )
        total, *tables = self._table.tables
        if sparse_counts.is_sparse(total):
            return sparse_counts.moved(total, target, int(ends[-1])), None
        counts = _moved([total], target, int(ends[-1]), [0])[0]
        if not self.spec.class_conditional:
            return counts, None
        features = np.where(target >= ends[-2], -1, target)
        return counts, _moved(tables, features, int(ends[-2]), places[-1])

    # ---- bytes

    def _parts(self) -> tuple[dict[str, Any], Arrays]:
        check_sum(self._weight)  # sums that overflow could not be read back
        self._settle_all()
        encoders = [encoder.to_dict() for encoder in self._encoders]
        facts = {"left_out": self.left_out, "weight": self._weight}
        return {**facts, "encoders": encoders}, self._table.to_arrays()

    def _fill(self, header: dict[str, Any], arrays: Arrays) -> None:
        self.left_out = header["left_out"]
        self._weight = header["weight"]
        for encoder, entry in zip(self._encoders, header["encoders"], strict=True):
            encoder.fill(entry)
        self._sizes = [encoder.size for encoder in self._encoders]
        self._table.fill(arrays, self._sizes)


# ---- tables that grow


class PairTable:
    """Counts of all pairs of categories, of any number of columns.

    `tables` are those of all rows, then of the rows of each class if wanted. The codes
    of a column are adjacent, `sizes` of each column, in the order of the columns.
    The first is that of `lows`: missing cells get a place when one occurs, or with
    weights. Without classes the table is stored sparse once it should be.
    """

    def __init__(self, names: Iterable[str], weighted: bool, by_class: bool) -> None:
        self._names = tuple(names)
        self._by_class = by_class
        self.sizes = np.zeros(len(self._names), np.intp)
        self.lows = np.full(len(self._names), 0 if weighted else 1)
        dtype: Any = np.float64 if weighted else np.int64
        self.tables: list[sparse_counts.Table] = [np.zeros((0, 0), dtype)]

    @property
    def size(self) -> int:
        """Number of categories of all columns."""
        return int(self.sizes.sum())

    @property
    def table_bytes(self) -> int:
        """Bytes of a table while another is added to it."""
        return 2 * sum(map(sparse_counts.counts_bytes, self.tables))

    def add(
        self, codes: NDArray[Any], sizes: list[int], weights: NDArray[np.float64] | None
    ) -> None:
        """Count a block of codes of shape (columns, rows)."""
        lows = codes.min(axis=1)
        self.reserve(sizes, lows)
        codes, used = self._compact(codes, lows * codes.dtype.type(weights is None))
        lengths = [len(each) for each in used]
        # One thread: blocks are small, and callers count several at a time.
        table = pair_counts(codes, lengths, weights, threads=1)
        self._add_table(0, table, self._places(used))
        if self._by_class:
            within = class_pair_counts(codes, lengths, weights, threads=1)
            features = self._places(used[:-1])
            for code, table in zip(used[-1], within, strict=True):
                self._add_table(1 + code, table, features)

    def _add_table(self, k: int, table: sparse_counts.Table, target: Places) -> None:
        """Add a table whose categories go to other places."""
        if sparse_counts.is_sparse(self.tables[k]):
            self.tables[k] += sparse_counts.moved(table, target, self.size)
        else:
            _add_to(self.tables[k], sparse_counts.dense(table), target)

    def _compact(
        self, codes: NDArray[Any], lows: NDArray[Any]
    ) -> tuple[NDArray[Any], list[Places]]:
        """Renumber columns, most of whose many codes do not occur; say which do.

        So are those whose first codes, below the `lows`, do not: planes and cells of
        nothing are the most of wide tables.
        """
        ends = (self.lows + self.sizes).tolist()
        pairs = zip(lows.tolist(), ends, strict=True)
        occurring = [np.arange(*pair) for pair in pairs]
        compact = codes - lows[:, None]
        for j, size in enumerate(ends):
            if size < _MANY_CODES:
                continue
            used = np.bincount(codes[j], minlength=size) > 0
            if 2 * np.count_nonzero(used) <= size:
                rank = np.cumsum(used, dtype=codes.dtype) - 1
                occurring[j] = np.flatnonzero(used)
                compact[j] = rank[codes[j]]
        return compact, occurring

    def _places(self, codes: list[Places]) -> Places:
        """Return the places of some codes of the first columns."""
        starts = np.cumsum(self.sizes) - self.sizes - self.lows
        pairs = zip(starts, codes, strict=False)
        return np.concatenate([start + each for start, each in pairs])

    def _codes(self) -> list[Places]:
        """Return the codes that have a place, of each column."""
        pairs = zip(self.lows, self.lows + self.sizes, strict=True)
        return [np.arange(*pair) for pair in pairs]

    def check(self, sizes: Sequence[int], lows: NDArray[Any]) -> NDArray[Any]:
        """Return the places of so many codes; reject a table that is too large."""
        lengths: NDArray[Any] = np.array(sizes, np.intp) - np.minimum(self.lows, lows)
        sparse = sparse_counts.is_sparse(self.tables[0])
        classes = self._by_class
        try:
            entries = self.tables[0].nnz if sparse else 0
            check_table_size(lengths, classes * sizes[-1], entries)
        except ValueError as error:
            j = int(np.argmax(lengths))
            raise InputError(
                f"{error} Column {self._names[j]!r} alone has {lengths[j]:,}: drop it, "
                "or say that it is a number.",
                "drop",
                "numeric",
                python="numeric=",
            ) from None
        return lengths

    def reserve(self, sizes: list[int], lows: NDArray[Any]) -> None:
        """Make room for so many codes of each column, the first ones from `lows` on."""
        lows = np.minimum(self.lows, lows)
        if np.array_equal(self.sizes + lows, sizes):
            return
        lengths = self.check(sizes, lows)
        before = self.tables
        known = self._codes()
        total = int(lengths.sum())
        self.sizes = lengths
        self.lows = lows
        target = self._places(known)
        sparse = sparse_counts.is_sparse(before[0])
        if sparse or (not self._by_class and sparse_counts.is_large(lengths)):
            self.tables = [sparse_counts.moved(before[0], target, total)]
            return
        classes = self._by_class * sizes[-1]
        self.tables = [*np.zeros((1 + classes, total, total), before[0].dtype)]
        for k, table in enumerate(before):
            self._add_table(k, table, target)

    def margins(self) -> list[NDArray[Any]]:
        """Return the rows of each code of each column."""
        totals = np.split(self.tables[0].diagonal(), np.cumsum(self.sizes)[:-1])
        pairs = zip(totals, self.lows, strict=True)
        return [np.pad(each, (low, 0)) if low else each for each, low in pairs]

    def merge(self, other: PairTable, theirs: list[Places], sizes: list[int]) -> None:
        """Add another table; `theirs` gives the own code of each of its codes."""
        self.reserve(sizes, other.lows)
        pairs = zip(theirs, other._codes(), strict=True)
        target = self._places([mine[codes] for mine, codes in pairs])
        mine = [0, *(1 + theirs[-1])]  # the table of each of its tables
        for k, table in zip(mine, other.tables, strict=False):
            self._add_table(k, table, target)

    def to_arrays(self) -> Arrays:
        """Return the counts above zero of one half of each table, and their places."""
        arrays: Arrays = {"lows": self.lows.astype(np.uint8)}
        place: Any = np.uint16 if self.size <= 2**16 else np.uint32
        for ending, table in zip(self._endings(), self.tables, strict=True):
            rows, columns, values = sparse_counts.entries(table)
            arrays[f"rows{ending}"] = rows.astype(place)
            arrays[f"columns{ending}"] = columns.astype(place)
            arrays[f"counts{ending}"] = values.astype(_smallest(values))
        return arrays

    def fill(self, arrays: Arrays, sizes: list[int]) -> None:
        """Take the counts of arrays; their shapes are checked."""
        self.reserve(sizes, arrays["lows"])
        for ending, table in zip(self._endings(), self.tables, strict=True):
            rows = arrays[f"rows{ending}"].astype(np.int64)
            columns = arrays[f"columns{ending}"].astype(np.int64)
            values = arrays[f"counts{ending}"]
            if not rows.shape == columns.shape == values.shape == (rows.size,):
                raise ValueError("The counts that were received are not valid.")
            if sparse_counts.is_sparse(table):
                entries = [(rows, columns, values)]
                made = sparse_counts.from_entries(entries, self.size, table.dtype)
                self.tables = [made]
            else:
                table[rows, columns] = table[columns, rows] = values

    def _endings(self) -> list[str]:
        """Return how the names of the arrays of each table end."""
        return ["", *(f" of {code}" for code in range(len(self.tables) - 1))]


def _smallest(values: NDArray[Any]) -> np.dtype[Any]:
    """Return the smallest type that holds counts, or that of sums of weights."""
    if values.dtype.kind == "f":
        return values.dtype
    return np.min_scalar_type(int(values.max(initial=0)))


def _moved(
    tables: list[NDArray[Any]], target: Places, size: int, codes: Iterable[int]
) -> NDArray[Any]:
    """Return tables with their places, and they themselves, moved; -1 drops one."""
    codes = list(codes)
    out = np.zeros((int(np.max(codes)) + 1, size, size), tables[0].dtype)
    for code, table in zip(codes, tables, strict=True):
        if code >= 0:
            _add_to(out[code], table, target)
    return out


def _add_to(counts: NDArray[Any], own: NDArray[Any], target: Places) -> None:
    """Add a table whose rows and columns go to other places, or nowhere (-1).

    Copied are some lines at a time: tables may be a good part of the memory.
    """
    places = np.flatnonzero(target >= 0)
    used = np.unique(target[places])
    if len(used) < len(places):  # several go to one place
        own = _folded(own, target)
        target = used
        places = np.arange(len(used))
    where = target[places]
    if len(places) == len(own) and np.array_equal(where, np.arange(len(where))):
        counts[: len(where), : len(where)] += own
        return
    # Whole lines are added far faster than cells here and there.
    dense = 2 * len(where) > len(counts)
    width = len(own)
    step = max(1, _CELLS // max(len(counts) if dense else len(where), 1))
    source = np.full(len(counts), width)  # of each place; the last is of zeros
    source[where] = places
    if dense:
        for low in range(0, len(counts), step):
            lines = source[low : low + step]
            padded = np.zeros((len(lines), width + 1), own.dtype)
            padded[lines < width, :width] = own[lines[lines < width]]
            counts[low : low + step] += padded.take(source, axis=1, mode="clip")
        return
    for low in range(0, len(where), step):
        some = slice(low, low + step)
        counts[np.ix_(where[some], where)] += own[np.ix_(places[some], places)]


def _folded(counts: NDArray[Any], target: Places) -> NDArray[Any]:
    """Add up the rows, and the columns, that go to the same place; -1 drops one."""
    order = np.argsort(target, kind="stable")[int((target < 0).sum()) :]
    first = np.flatnonzero(np.diff(target[order], prepend=-1))
    counts = counts[np.ix_(order, order)]
    total: NDArray[Any] = np.add.reduceat(
        np.add.reduceat(counts, first, axis=0), first, axis=1
    )
    return total
