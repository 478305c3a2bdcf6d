"""Rows that were counted, as codes in a temporary file, for whoever needs them again.

Training may need the rows when they are counted: to leave each out, to calibrate, to
know the errors. Codes take a byte or two a cell, far less time to read than the source,
and are the same that were counted.

A unit's codes are written as they are counted, and so before all labels are known: each
merge of counters says which codes they become (`Piece.moved`), the end of the counting
what their last ones are (`CountedRows.close`).
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import Columns

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


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


class CountedRows:
    """Codes of all columns of the rows that count, the target last, and weights.

    They take at most half of what the temporary folder has left; `lost` says that there
    was no room. `columns` are known when all is counted.
    """

    def __init__(self) -> None:
        self.lost = False
        self.columns = Columns.of([])
        self._pieces: list[Piece] = []
        self._lock = Lock()
        self._end = 0
        self._room = 0
        self._file: IO[bytes] = io.BytesIO()
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115, see __exit__
            self._room = shutil.disk_usage(tempfile.gettempdir()).free // 2
        except OSError:  # there is no folder that can be written
            self.lost = True

    def __enter__(self) -> Self:
        """Return itself; its file ends with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the rows."""
        with suppress(OSError):  # of what no room was left for
            self._file.close()

    def write(self, codes: NDArray[Any], weights: Floats | None) -> Piece:
        """Keep some rows: codes of shape (columns, rows)."""
        data = codes.tobytes() + (b"" if weights is None else weights.tobytes())
        with self._lock:
            start = self._end
            self._end = self._end + len(data)
            self.lost = self.lost or self._end > self._room
            if not self.lost:
                try:
                    self._file.seek(start)
                    self._file.write(data)
                except OSError:
                    self.lost = True
        return Piece(start, codes.shape[1], codes.dtype, weights is not None)

    def close(
        self, columns: Columns, pieces: Sequence[Piece], places: Sequence[Places]
    ) -> None:
        """Say what the columns are, which rows were counted, and their last codes."""
        move = Move.of(places)
        self.columns = columns
        self._pieces = [piece.moved(move) for piece in pieces]
        try:
            self._file.flush()
        except OSError:
            self.lost = True

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self._pieces)

    def blocks(
        self, columns: Sequence[int]
    ) -> Iterator[tuple[NDArray[Any], Floats | None]]:
        """Yield codes of some columns, by number, and weights of all rows in order."""
        wanted = np.arange(len(self.columns))[list(columns)].tolist()
        kind = np.min_scalar_type(int(self.columns.sizes.max()))
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

    def _read(self, count: int, kind: Any) -> NDArray[Any]:
        """Return the next numbers of the file."""
        data = self._file.read(count * np.dtype(kind).itemsize)
        return np.frombuffer(data, kind, count)
