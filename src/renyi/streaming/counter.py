"""Counters: the pair counts of a stream of rows, batch by batch.

Each batch is read a few thousand rows at a time, becomes small codes
(`renyi.streaming.column_encoders`), and is counted with the sizes seen so far; the
small table is added to a growing one (`renyi.streaming.pair_table`). Counts are
integers of 64 bits, so that counters of different rows can be merged in any order, with
the same result to the last count; sums of weights are floats, and agree to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.counting.pair_counts import class_pair_counts, pair_counts
from renyi.encoding.column_rules import (
    check_identifiers,
    check_target,
    no_target,
    no_weight,
)
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import target_encoder
from renyi.marginals.marginals import Marginals
from renyi.streaming.column_encoders import BinEncoder, LabelEncoder
from renyi.streaming.pair_table import PairTable, Places, moved
from renyi.streaming.spec import (
    ROWS,
    Arrays,
    CountSpec,
    Slice,
    Summary,
    row_count,
    slices,
)
from renyi.warnings import warn_dropped

# Rows are counted when so many wait, or so many cells of them.
_MOST_ROWS, _LEAST_ROWS = 2**18, 2**12
_FEW_CELLS, _MANY_CELLS = 2**23, 2**26
_LARGE_TABLE = 2**25  # bytes


class PairCounter(Summary):
    """Pair counts of the rows seen so far."""

    kind, step = "counts", "counting"

    def __init__(self, spec: CountSpec) -> None:
        super().__init__(spec)
        if spec.undecided:
            raise ValueError(
                f"The spec has not decided about column {spec.undecided[0]!r}: make "
                "a ColumnProfile of the rows first."
            )
        self.left_out = 0  # rows without a target
        self._weight = 0.0
        missing = spec.missing
        self._encoders = [
            (BinEncoder if column.kind == "number" else LabelEncoder)(
                name, column, missing
            )
            for name, column in zip(spec.names, spec.columns, strict=True)
        ]
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
        *features, last = self._encoders
        target = last.encode(piece.columns[-1])
        keep, weights = target > 0, piece.weights
        left_out = piece.rows - int(keep.sum())
        if weights is not None:
            keep &= weights > 0
        count = int(keep.sum())
        rows: Any = slice(None) if count == piece.rows else np.flatnonzero(keep)
        self._make_room(count)
        for j, encoder in enumerate(features):
            self._put(j, encoder.encode(piece.columns[j])[rows])
        self._put(len(features), target[rows])
        if weights is not None:
            self._weights[self._waiting : self._waiting + count] = weights[rows]
            self._weight += float(weights[rows].sum())
        # Last, so that rows with a cell that is refused have not been counted.
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
        before, columns = self._room, len(self._codes)
        if sum(self._sizes) ** 2 > 4 * before * columns:
            most = _MANY_CELLS // (self._codes.itemsize * columns)
            self._room = max(before, min(2 * before, most))
        return self._room > before

    def _put(self, j: int, codes: NDArray[Any]) -> None:
        """Let the codes of a column wait, in wider or longer arrays if needed."""
        size, before = self._encoders[j].size, self._codes
        self._sizes[j] = size
        if before.shape[1] < self._room or size >= 256**before.itemsize:
            wide = np.promote_types(before.dtype, np.min_scalar_type(size))
            self._codes = np.empty((len(before), self._room), wide)
            self._codes[:, : before.shape[1]] = before
            if self.spec.weight is not None:
                self._weights = np.append(
                    self._weights, np.empty(self._room - len(self._weights))
                )
        self._codes[j, self._waiting : self._waiting + len(codes)] = codes

    def _count(self) -> None:
        """Count the rows that wait."""
        if not self._waiting:
            return
        codes, weights = self._codes[:, : self._waiting], None
        if self.spec.weight is not None:
            weights = self._weights[: self._waiting]
        self._table.add(codes, self._sizes, weights)
        self._waiting = 0
        if self.spec.weight is not None:
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

        If the table would be large, they go on waiting: a merge lets them wait in the
        other counter, and no memory is needed for a table of their own.
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
        spec = self.spec
        waiting = not self._table.size and spec.weight is None  # all rows do
        self._sizes = [encoder.size for encoder in self._encoders]
        if waiting:
            rows = self._codes[:, : self._waiting]
            self._table.check(self._sizes, rows.min(axis=1, initial=1))
        else:
            self._settle_all()
        if not self.n:
            raise self._nothing()
        if self.left_out:
            warn_dropped(self.left_out, spec.target)
        finals = []
        masses = self._waiting_mass() if waiting else self._table.mass()
        each = zip(self._encoders, spec.columns, masses, strict=True)
        for j, (encoder, column, mass) in enumerate(each):
            settings, rare = spec.encoder, None
            if j == len(self._encoders) - 1:
                settings = target_encoder(settings)
            elif spec.fitted:
                rare = column.levels.rare if column.levels else ()
            finals.append(encoder.close(mass, settings, rare))
        columns = Columns.of(
            Column(name, final.levels)
            for name, final in zip(spec.names, finals, strict=True)
        )
        if not spec.fitted:
            kinds = np.array([column.kind == "label" for column in columns])
            kinds[-1] = False
            check_identifiers(columns.take(np.flatnonzero(kinds).tolist()), self.n)
        check_target(columns[-1], self.n)
        places = [final.places for final in finals]
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

    def _nothing(self) -> ValueError:
        """Return what is said if no row counts."""
        if self.left_out and self.left_out == self.seen:
            return no_target(self.spec.target)
        if self.left_out:
            return ValueError(
                f"No row counts: the target {self.spec.target!r} is missing, or the "
                "weight zero."
            )
        return no_weight() if self.seen else ValueError("There are no rows to count.")

    def _waiting_mass(self) -> list[NDArray[Any]]:
        """Return the rows of each code of each column, of the rows that wait."""
        pairs = zip(self._codes[:, : self._waiting], self._sizes, strict=True)
        return [np.bincount(codes, minlength=size) for codes, size in pairs]

    def _count_waiting(
        self, places: list[Places], sizes: NDArray[Any]
    ) -> tuple[sparse_counts.Table, NDArray[Any] | None]:
        """Count the rows that wait, which are all, with their last codes at once."""
        kind = np.min_scalar_type(int(sizes.max()))
        codes = np.empty((len(sizes), self._waiting), kind)
        for j, place in enumerate(places):
            np.take(place.astype(kind), self._codes[j, : self._waiting], out=codes[j])
        counts, inner = pair_counts(codes, sizes, threads=1), None
        if self.spec.class_conditional:
            classes = int(sizes[-1])
            inner = class_pair_counts(
                codes[:-1], sizes[:-1], codes[-1], classes, threads=1
            )
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
        counts = moved([total], target, int(ends[-1]), [0])[0]
        if not self.spec.class_conditional:
            return counts, None
        features = np.where(target >= ends[-2], -1, target)
        return counts, moved(tables, features, int(ends[-2]), places[-1])

    # ---- bytes

    def _parts(self) -> tuple[dict[str, Any], Arrays]:
        self._settle_all()
        encoders = [encoder.to_dict() for encoder in self._encoders]
        told = {"left_out": self.left_out, "weight": self._weight}
        return {**told, "encoders": encoders}, self._table.to_arrays()

    def _fill(self, header: dict[str, Any], arrays: Arrays) -> None:
        self.left_out = row_count(header, "left_out")
        self._weight = header["weight"]
        if type(self._weight) is not float or not 0 <= self._weight < np.inf:
            raise ValueError("the weight is not valid")
        for encoder, entry in zip(self._encoders, header["encoders"], strict=True):
            encoder.fill(entry)
        self._sizes = [encoder.size for encoder in self._encoders]
        self._table.fill(arrays, self._sizes)
