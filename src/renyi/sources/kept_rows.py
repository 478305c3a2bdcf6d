"""Rows as codes: read once from a source, then trained on as often as needed.

A `RowCoder` gives codes to the cells of a stream and writes them to `KeptRows`: in
memory while they are few, in a temporary file beyond. Codes take a byte or two a cell.

A unit's codes are written before all labels are known. Each merge of coders says which
codes they become (`Piece.moved`), and the end of the pass what their last ones are
(`KeptRows.close`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from renyi.encoding.columns import Columns
from renyi.encoding.rules import (
    check_classes,
    check_target,
    counted_rows,
)
from renyi.sources.profile import code_encoders, final_columns, no_rows_error
from renyi.sources.spec import CountSpec, Slice, Summary, slices
from renyi.warnings import warn_dropped

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_IN_MEMORY = 2**26  # bytes of codes that need no temporary file


class Move(NamedTuple):
    """What codes become: those of all columns, one after the other, in few bytes."""

    codes: NDArray[Any]
    starts: NDArray[np.uint32]

    @classmethod
    def of(cls, places: Sequence[Places]) -> Move:
        """Put together what the codes of each column become; -1 is of no row."""
        codes = np.concatenate(places)
        ends = np.cumsum([len(p) for p in places])
        kind = np.min_scalar_type(-int(codes.max(initial=0)) - 1)
        return cls(codes.astype(kind), np.append(0, ends).astype(np.uint32))

    def column(self, j: int) -> NDArray[Any]:
        """Return what the codes of a column become."""
        return self.codes[self.starts[j] : self.starts[j + 1]]


class Piece(NamedTuple):
    """Some rows in the file: where they begin, and what became of their codes."""

    start: int
    rows: int
    kind: np.dtype[Any]
    weighted: bool
    moves: tuple[Move, ...] = ()

    def moved(self, move: Move) -> Piece:
        """Return the piece with other codes."""
        return self._replace(moves=(*self.moves, move))


class KeptRows:
    """Codes of all columns of the rows that count, the target last, and weights.

    `columns` are known when all rows have been read.
    """

    def __init__(self) -> None:
        self.columns = Columns.of([])
        self.weighted = False
        self._pieces: list[Piece] = []
        self._lock = Lock()
        self._end = 0
        # Closed by __exit__.
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115

    def __enter__(self) -> Self:
        """Return itself; its file ends with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the rows."""
        with suppress(OSError):  # of what no room was left for
            self._file.close()

    def write(self, codes: NDArray[Any], weights: Floats | None) -> Piece:
        """Store some rows: codes of shape (columns, rows)."""
        data = codes.tobytes() + (b"" if weights is None else weights.tobytes())
        with self._lock:
            start = self._end
            self._end += len(data)
            try:
                self._check_room()
                self._file.seek(start)
                self._file.write(data)
            except OSError as error:
                raise ValueError(
                    f"The codes of the rows ({self._end / 1e6:,.0f} MB so far) need "
                    "more room than there is for temporary files: name a folder with "
                    f"more in TMPDIR ({error.strerror or error})."
                ) from None
        return Piece(start, codes.shape[1], codes.dtype, weights is not None)

    def _check_room(self) -> None:
        """Raise OSError if the rows would fill the temporary folder."""
        if self._end <= _IN_MEMORY:
            return
        if self._end > shutil.disk_usage(tempfile.gettempdir()).free // 2:
            raise OSError("more than a third of it would be used")

    def close(
        self, columns: Columns, pieces: Sequence[Piece], places: Sequence[Places]
    ) -> None:
        """Say what the columns are, which rows count, and their last codes."""
        move = Move.of(places)
        self.columns = columns
        self._pieces = [piece.moved(move) for piece in pieces]
        self.weighted = any(piece.weighted for piece in pieces)

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self._pieces)

    @property
    def code_type(self) -> np.dtype[Any]:
        """The type of codes."""
        return np.min_scalar_type(int(self.columns.sizes.max()))

    def blocks(
        self, columns: Sequence[int]
    ) -> Iterator[tuple[NDArray[Any], Floats | None]]:
        """Yield codes of some columns, by number, and weights of all rows in order."""
        wanted = np.arange(len(self.columns))[list(columns)].tolist()
        kind = self.code_type
        for piece in self._pieces:
            self._file.seek(piece.start)
            cells = len(self.columns) * piece.rows
            before = self._read(cells, piece.kind).reshape(-1, piece.rows)
            weights = self._read(piece.rows, np.float64) if piece.weighted else None
            codes = np.empty((len(wanted), piece.rows), kind)
            for target, j in zip(codes, wanted, strict=True):
                last, *others = (move.column(j) for move in piece.moves)
                for after in others:
                    last = after[last]
                np.take(last.astype(kind), before[j], out=target)
            yield codes, weights

    def _read(self, count: int, kind: DTypeLike) -> NDArray[Any]:
        """Return the next numbers of the file."""
        data = self._file.read(count * np.dtype(kind).itemsize)
        return np.frombuffer(data, kind, count)


class RowCoder(Summary):
    """Codes of the rows of a spec, and the rows, or weight, of each code."""

    kind = "codes"
    step = "reading"

    def __init__(self, spec: CountSpec, store: KeptRows) -> None:
        super().__init__(spec)
        self.left_out = 0  # rows without a target
        self._store = store
        self._encoders = code_encoders(spec)
        self._totals = [np.zeros(0) for _ in self._encoders]
        self._pieces: list[Piece] = []

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Code the rows of a batch, and store them."""
        for piece in slices(self.spec, batch, self.spec.names, self.next_row):
            self._add(piece)
            self.seen += piece.rows

    def _add(self, piece: Slice) -> None:
        target = self._encoders[-1].encode(piece.columns[-1])
        known = target > 0
        chosen = counted_rows(known, piece.weights)
        weights = None if piece.weights is None else piece.weights[chosen]
        columns = [
            encoder.encode(cells)[chosen]
            for encoder, cells in zip(self._encoders, piece.columns[:-1], strict=False)
        ]
        columns.append(target[chosen])
        kind = np.min_scalar_type(max(encoder.size for encoder in self._encoders))
        codes = np.stack(columns, dtype=kind, casting="unsafe")
        self._totals = [
            _sum(total, np.bincount(row, weights, encoder.size))
            for total, row, encoder in zip(
                self._totals, codes, self._encoders, strict=True
            )
        ]
        if codes.shape[1]:
            self._pieces.append(self._store.write(codes, weights))
        self.n += codes.shape[1]
        self.left_out += piece.rows - int(known.sum())

    def merge(self, other: RowCoder) -> None:
        """Add the rows of another coder of the same spec, which come next."""
        super().merge(other)
        self.left_out += other.left_out
        pairs = zip(self._encoders, other._encoders, strict=True)
        places = [mine.merge(theirs) for mine, theirs in pairs]
        for j, place in enumerate(places):
            moved = np.bincount(place[: len(other._totals[j])], other._totals[j])
            self._totals[j] = _sum(self._totals[j], moved)
        if other._pieces:
            move = Move.of(places)
            self._pieces += [piece.moved(move) for piece in other._pieces]

    def finish(self) -> KeptRows:
        """Return the rows with their last codes."""
        if not self.n:
            raise no_rows_error(self.spec.target, self.left_out, self.seen)
        if self.left_out:
            warn_dropped(self.left_out, self.spec.target)
        sizes = [encoder.size for encoder in self._encoders]
        totals = [
            np.pad(total, (0, size - len(total)))
            for total, size in zip(self._totals, sizes, strict=True)
        ]
        columns, places = final_columns(self.spec, self._encoders, totals)
        target = columns[-1]
        check_target(target, self.n)
        check_classes(target.categories, target.name)
        self.spec.check_identifiers(columns[:-1], self.n)
        self._store.close(columns, self._pieces, places)
        return self._store


def _sum(first: Floats, second: NDArray[Any]) -> Floats:
    """Return the sum of two arrays, the shorter one followed by zeros."""
    if len(first) < len(second):
        first = np.pad(first, (0, len(second) - len(first)))
    total = first.astype(np.float64)
    total[: len(second)] += second
    return total
