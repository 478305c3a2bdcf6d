"""Tallies: the pair counts of a stream of rows, batch by batch.

Each batch is read a few thousand rows at a time, becomes small codes
(`renyi.streaming.column_encoders`), and is counted with the sizes seen so far; the
small table is added to a growing one (`renyi.streaming.pair_table`). Counts are
integers of 64 bits, so that tallies of different rows can be merged in any order, with
the same result to the last count; sums of weights are floats, and agree to rounding. A
tally can be sent to another process as bytes, or kept in a checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.column_rules import (
    check_identifiers,
    check_target,
    no_target,
    no_weight,
)
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import target_encoder
from renyi.streaming.arrow_values import ROWS, Slice, slices
from renyi.streaming.column_encoders import (
    BinEncoder,
    FinalLevels,
    LabelEncoder,
    OnePassBinner,
)
from renyi.streaming.pair_table import PairTable
from renyi.streaming.spec import CountSpec
from renyi.streaming.wire import filled, one_each, packed, row_count
from renyi.warnings import warn_dropped

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

_KIND = "tally"
# Rows are counted when so many wait, or so many cells of them.
_MOST_ROWS, _LEAST_ROWS = 2**18, 2**12
_FEW_CELLS, _MANY_CELLS = 2**23, 2**26
_LARGE_TABLE = 2**25  # bytes


Book = LabelEncoder | BinEncoder | OnePassBinner


class Tally:
    """Pair counts of the rows seen so far.

    Parameters
    ----------
    spec : CountSpec
        What to count; nothing in it may be undecided.

    Examples
    --------
    >>> batch = pa.record_batch({"a": ["x", "z", "x"], "y": ["n", "p", "p"]})
    >>> spec = CountSpec.of(batch.schema, "y")
    >>> first, second = Tally(spec), Tally(spec)
    >>> first.add(batch[:2])
    >>> second.add(batch[2:])
    >>> first.merge(Tally.from_bytes(spec, second.to_bytes()))
    >>> first.finish().block("a", "y")
    y  n  p
    a
    x  1  1
    z  0  1
    """

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
        features = [_book(spec, name) for name in spec.names[:-1]]
        self._books: list[Book] = [*features, self._target]
        self._table = PairTable(
            spec.names, spec.weight is not None, spec.class_conditional
        )
        self._sizes = [book.size for book in self._books]
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
        for j, book in enumerate(self._books[:-1]):
            if isinstance(book, OnePassBinner):
                self._put(j, cells[j])
            else:
                self._put(j, book.encode(piece.columns[j])[rows])
        self._put(len(self._books) - 1, target[rows])
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
        for j, book in enumerate(self._books):
            if isinstance(book, OnePassBinner):
                found[j], moved = book.admit(book.read(piece.columns[j])[rows])
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
        size = self._books[j].size
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
        other tally, and no memory is needed for a table of their own.
        """
        if self.table_bytes <= _LARGE_TABLE:
            self._count()

    def merge(self, other: Tally) -> None:
        """Add the rows of another tally of the same spec."""
        if other.spec != self.spec:
            raise ValueError("The two tallies are of different specs: use one spec.")
        other.settle()
        if not other._waiting or self.spec.weight is not None:
            self._count()
        theirs = []
        for j, (mine, book) in enumerate(zip(self._books, other._books, strict=True)):
            moved, places = mine.merge(book)
            self._renumber(j, moved)
            theirs.append(places)
        self._sizes = [book.size for book in self._books]
        if other._table.size:
            self._table.merge(other._table, theirs, self._sizes)
        if other._waiting:
            self._take_waiting(other, theirs)
        self.n += other.n
        self.seen += other.seen
        self.left_out += other.left_out
        self._weight += other._weight

    def _take_waiting(self, other: Tally, theirs: list[NDArray[np.intp]]) -> None:
        """Take the rows that wait in another tally, whose codes have others here."""
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
        """Return the marginals of all rows; the tally may go on afterwards."""
        from renyi.marginals.marginals import Marginals

        self._count()
        self._refuse_nothing()
        if self.left_out:
            warn_dropped(self.left_out, self.spec.target)
        self._table.reserve([book.size for book in self._books])
        closings = [self._close(j, book) for j, book in enumerate(self._books)]
        columns = Columns.of(
            Column(name, closing.levels)
            for name, closing in zip(self.spec.names, closings, strict=True)
        )
        if not self.spec.fitted:
            kinds = np.array([column.kind == "label" for column in columns])
            kinds[-1] = False
            check_identifiers(columns.take(np.flatnonzero(kinds).tolist()), self.n)
        check_target(columns[-1], self.n)
        counts, inner = self._counts(closings, columns)
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

    def _close(self, j: int, book: Book) -> FinalLevels:
        encoder, levels = self.spec.encoder, book.spec.levels
        if j == len(self._books) - 1:
            return book.close(self._table.mass(j), target_encoder(encoder), None)
        rare = (levels.rare if levels else ()) if self.spec.fitted else None
        return book.close(self._table.mass(j), encoder, rare)

    def _counts(
        self, closings: list[FinalLevels], columns: Columns
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the counts in the order of the columns, and those of each class."""
        starts = offsets(columns.sizes)
        target = np.full(self._table.size, -1)
        for j, closing in enumerate(closings):
            places = closing.places
            target[self._table.places[j]] = np.where(places < 0, -1, places + starts[j])
        counts = self._table.folded(target, int(starts[-1]))
        if not self.spec.class_conditional:
            return counts, None
        features = np.where(target >= starts[-2], -1, target)
        classes = closings[-1].places
        inner = self._table.folded_classes(features, int(starts[-2]), classes)
        return counts, inner

    # ---- bytes

    def to_bytes(self) -> bytes:
        """Return the tally as bytes: a header, and counts where there are any."""
        self._count()
        self._table.reserve([book.size for book in self._books])
        header = {
            "spec": self.spec.to_dict(),
            "n": self.n,
            "seen": self.seen,
            "left_out": self.left_out,
            "weight": self._weight,
            "books": [book.to_dict() for book in self._books],
        }
        return packed(_KIND, header, self._table.to_arrays())

    @classmethod
    def from_bytes(cls, spec: CountSpec, data: bytes) -> Tally:
        """Return the tally of bytes, checked: they may come from a damaged file."""
        made = cls(spec)
        filled(_KIND, made, spec.to_dict(), data)
        return made

    def fill(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take what bytes hold, checked."""
        self.n, self.seen = row_count(header, "n"), row_count(header, "seen")
        self.left_out, self._weight = row_count(header, "left_out"), header["weight"]
        if type(self._weight) is not float or not 0 <= self._weight < np.inf:
            raise ValueError("the weight is not valid")
        told = one_each(header["books"], self._books)
        for book, entry in zip(self._books, told, strict=True):
            book.fill(entry)
        self._sizes = [book.size for book in self._books]
        self._table.fill(arrays, self._sizes)


def _book(spec: CountSpec, name: str) -> Book:
    """Return the empty codebook of a column."""
    role = spec.column(name)
    if role.kind == "label" or role.text == "guess":
        return LabelEncoder(name, role, spec.missing)
    if role.levels is not None:
        return BinEncoder(name, role, spec.missing)
    return OnePassBinner(name, role, spec.missing, spec.cells)
