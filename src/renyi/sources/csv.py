"""CSV files, read by Arrow; header, delimiter and error messages are ours.

`renyi.sources.layouts` says how a file begins and what separates its cells. Arrow reads
the records after the header in blocks of whole records and reports no line numbers, so
after a failure Python's reader looks for the wrong line.

Cells stay text: whether a column is numeric depends on the whole column and is
decided elsewhere (`renyi.encoding.arrow`).
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
import threading
import zlib
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, partial
from itertools import count, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, AnyStr, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from renyi.files import unreadable
from renyi.sources import layouts, suffixes
from renyi.sources.layouts import PLAIN, Header, Layout, Lines
from renyi.sources.run import Unit

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 2**20  # bytes that Arrow reads at once
_AHEAD = 2**26  # bytes that Arrow may read ahead; its own limit is 36 blocks
_BUFFER = 2**16  # bytes of rows that are rewritten as CSV
PIECE = 16 * BLOCK  # bytes that are counted together
LONGEST_RECORD = 2**25  # bytes
_LONGEST_HEADER = 2**24  # characters up to the end of the header
_MOST_NAME_LINES = 20  # in the header; more are rows after an unclosed quote
_TOO_LONG = (
    f"a record of more than {LONGEST_RECORD // 2**20} MB; close the quote in it, or "
    "shorten its cells"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The first bytes of other formats, and the suffixes of their files.
_OTHER_FORMATS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x1f\x8b": ".csv.gz"}
_BROKEN = (OSError, EOFError, zlib.error)  # errors of reading, packed or not

TEXT = pa.dictionary(pa.int32(), pa.string())


class LongLineError(ValueError):
    """A line that is longer than a record may be."""


class _LongRecordError(ValueError):
    """A record that does not fit into a block."""


# ---- headers


def read_header(path: Path, layout: Layout = PLAIN) -> Header:
    """Read the lines before the rows, which say what the columns are."""
    try:
        with _decoded(path) as text:
            start = cast(io.BufferedReader, text.buffer).peek(len(_BYTE_ORDER_MARK))
            lines = Lines(_lines(text, _LONGEST_HEADER))
            header = layouts.recognise(path, lines, layout)
    except UnicodeDecodeError:
        raise _not_utf8_error(path) from None
    except (*_BROKEN, csv.Error, LongLineError) as error:
        raise _unreadable_error(path, error) from None
    if max(name.count("\n") for name in header.names) > _MOST_NAME_LINES:
        raise ValueError(
            f"{path}: a name in the header spans many lines, so a quote in it is not "
            "closed: correct the header."
        )
    before = lines.kept[: header.lines]
    size = sum(len(line.encode()) for line in before)
    if start.startswith(_BYTE_ORDER_MARK):
        size += len(_BYTE_ORDER_MARK)
    is_all = bool(before) and not before[-1].endswith(("\r", "\n"))
    return header._replace(size=size, is_all=is_all)


# ---- bytes and lines


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if _is_packed(path) else path.open("rb")


def _decoded(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened(path), "utf-8-sig", newline="")


def _lines(
    stream: IO[AnyStr], most: int, is_each_limited: bool = False
) -> Iterator[AnyStr]:
    """Yield lines of at most `most` characters together, or each.

    A megabyte of gzip may contain a line of a gigabyte.
    """
    left = most
    while line := stream.readline(left + 1):
        left = most if is_each_limited else left - len(line)
        if len(line) > most or left < 0:
            raise LongLineError(f"the header does not end within {most:,} characters")
        yield line


class _Pieces(io.RawIOBase):
    """A stream of the bytes that an iterator yields."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def readable(self) -> bool:
        """Whether the stream can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer with some of the bytes; none are left if it stays empty."""
        room = memoryview(buffer)
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = piece
        size = min(len(room), len(self._left))
        room[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


class _ReadAhead:
    """A stream of which only some blocks are read before their rows are taken.

    Arrow drops a line feed that begins a block after a carriage return, even in a
    quoted cell. So no block of two bytes or more ends in a carriage return.
    """

    closed = False

    def __init__(self, stream: IO[bytes], blocks: int) -> None:
        self._stream = stream
        self._room = threading.Semaphore(blocks)
        self._is_over = False
        self._return = b""  # a carriage return for the next block

    def read(self, size: int = -1) -> bytes:
        """Wait until a block may be read, and read it."""
        self._room.acquire()
        if self._is_over:
            return b""
        data = self._return + self._stream.read(size - len(self._return))
        self._return = b""
        if len(data) == size > 1 and data.endswith(b"\r"):
            self._return = b"\r"
            data = data[:-1]
        return data

    def take(self) -> None:
        """Let one more block be read."""
        self._room.release()

    def close(self) -> None:
        """Let nobody wait any more: nothing is left to read."""
        self._is_over = True
        self._room.release()


# ---- files


class Block(NamedTuple):
    """Rows of a block of `size` bytes, and the share of the file read by then."""

    batch: pa.RecordBatch
    share: float
    size: int


class CsvFile:
    """A CSV file, whose header is read once."""

    ENDINGS = suffixes.CSV

    def __init__(self, path: Path, layout: Layout = PLAIN) -> None:
        self.path = path
        self.header = read_header(path, layout)
        aside = self.header.aside
        self.schema = _schema([n for n in self.header.names if n not in aside])

    def units(
        self, file: int, columns: Sequence[str], verbatim: Collection[str] = ()
    ) -> Iterator[Unit]:
        """Yield the rows of the file, which is number `file` of several, in pieces.

        Spaces around cells are dropped, except in `verbatim` columns.
        """
        blocks = self._blocks(_schema(columns))
        rows = 0
        before = 0.0
        for number in count():
            piece = _piece(blocks)
            if not piece:
                return
            parts = [block.batch for block in piece]
            share = piece[-1].share
            read = partial(_combined, parts, verbatim)
            yield Unit(file, number, share - before, read, rows)
            rows += sum(part.num_rows for part in parts)
            before = share

    def sample(self, columns: list[str]) -> pa.RecordBatch | None:
        """Return some columns of the first records, which are read once."""
        first = [batch.select(columns) for batch in self._first_rows[:1]]
        return next(_combined(first), None) if first else None

    @property
    def sampled_whole(self) -> bool:
        """Whether the first records are all."""
        return len(self._first_rows) < 2

    # ---- blocks of records

    @property
    def _block(self) -> int:
        """Number of bytes of a block, the first of which contains the header."""
        return min(BLOCK, PIECE) + self.header.size

    def _blocks(self, schema: pa.Schema) -> Iterator[Block]:
        """Yield all rows. If a record is longer than a block, take longer blocks."""
        size = self._block
        done = 0
        while True:
            known = done
            try:
                for block in self._blocks_of(schema, size):
                    batch = block.batch
                    fresh = batch.slice(min(known, batch.num_rows))
                    known -= batch.num_rows - fresh.num_rows
                    done += fresh.num_rows
                    yield block._replace(batch=fresh)
                return
            except _LongRecordError:
                self._check_lines(until=size)
                size = min(4 * size, LONGEST_RECORD)

    def _blocks_of(self, schema: pa.Schema, size: int) -> Iterator[Block]:
        """Yield the batches that Arrow makes of blocks of this size."""
        total = max(self.path.stat().st_size, 1)
        try:
            with self._opened() as (stream, rows):
                file = getattr(stream, "fileobj", stream)
                for number, batch in enumerate(self._read(rows, schema, size), 1):
                    place = min(file.tell(), number * size)  # Arrow reads ahead
                    yield Block(batch, min(place / total, 1.0), size)
        except pa.ArrowException as error:
            is_long = "straddling" in str(error)
            if is_long and size < LONGEST_RECORD:
                raise _LongRecordError from None
            self._check_lines()
            what = _TOO_LONG if is_long else "its records differ from the header"
            raise _unreadable_error(self.path, ValueError(what)) from None
        except _BROKEN as error:
            raise _unreadable_error(self.path, error) from None

    def _read(
        self, stream: IO[bytes], schema: pa.Schema, size: int
    ) -> Iterator[pa.RecordBatch]:
        if self.header.is_all:
            return
        ahead = _ReadAhead(stream, max(_AHEAD // size, 3))
        reader = pa.csv.open_csv(
            ahead,
            pa.csv.ReadOptions(
                column_names=self.header.names,
                skip_rows=self.header.lines,
                block_size=size,
            ),
            pa.csv.ParseOptions(
                delimiter=self.header.delimiter,
                newlines_in_values=True,
                # In a single column of CSV, a blank line is an empty cell.
                ignore_empty_lines=len(self.header.names) > 1 or self._is_rewritten,
            ),
            pa.csv.ConvertOptions(
                column_types=schema,
                include_columns=schema.names,
                strings_can_be_null=False,
            ),
        )
        try:
            for batch in reader:
                ahead.take()
                yield batch
        finally:
            ahead.close()

    @property
    def _is_rewritten(self) -> bool:
        return self.header.form != "CSV"

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """Yield the file, and its contents as CSV with the same lines."""
        with _opened(self.path) as stream:
            if not self._is_rewritten:
                yield stream, stream
                return
            with io.TextIOWrapper(
                stream, "utf-8-sig", "surrogateescape", newline=""
            ) as text:
                yield stream, io.BufferedReader(_Pieces(self._rewritten(text)), _BUFFER)

    def _rewritten(self, text: IO[str]) -> Iterator[bytes]:
        """Yield the lines of a file as CSV; those of the header are blank."""
        number = 0
        try:
            for line in _lines(text, LONGEST_RECORD, is_each_limited=True):
                number += 1
                is_row = number > self.header.lines
                record = layouts.as_csv(line, self.header) if is_row else ""
                yield f"{record}\n".encode("utf-8", "surrogateescape")
        except LongLineError:
            raise ValueError(f"{self.path}, line {number + 1}: {_TOO_LONG}.") from None
        except ValueError as error:
            raise ValueError(f"{self.path}, line {number}: {error}.") from None

    def _check_lines(self, until: float = math.inf) -> None:
        """Raise an error that names the first wrong line, if Python finds one.

        Stop after a record of more than `until` characters.
        """
        width = len(self.header.names)
        line = 1
        limit = csv.field_size_limit(LONGEST_RECORD)
        try:
            with (
                self._opened() as (_, rows),
                io.TextIOWrapper(rows, "utf-8-sig", newline="") as text,
            ):
                lines = _lines(text, LONGEST_RECORD, is_each_limited=True)
                reader = csv.reader(lines, delimiter=self.header.delimiter)
                for cells in reader:
                    if len(cells) not in (0, width) and line > self.header.lines:
                        raise self._width_error(line, len(cells))
                    if sum(map(len, cells)) > until:
                        return
                    line = reader.line_num + 1
        except UnicodeDecodeError:
            raise _not_utf8_error(self.path) from None
        except (csv.Error, LongLineError):
            raise ValueError(f"{self.path}, line {line}: {_TOO_LONG}.") from None
        except _BROKEN as error:
            raise _unreadable_error(self.path, error) from None
        finally:
            csv.field_size_limit(limit)

    def _width_error(self, line: int, width: int) -> ValueError:
        cells = f"{width} cell{'s' * (width > 1)}"
        first = "header" if self.header.has_names else "first row"
        separator = self.header.delimiter
        if self.header.form == "blanks":
            separator = layouts.BLANK
        return ValueError(
            f"{self.path}, line {line}: {cells} where the {first} has "
            f"{len(self.header.names)}; correct the line, or quote cells that contain "
            f"{separator!r}."
        )

    # ---- the first rows

    @cached_property
    def _first_rows(self) -> list[pa.RecordBatch]:
        """The first two blocks of records."""
        return [block.batch for block in islice(self._blocks(self.schema), 2)]


# ---- columns


def _piece(blocks: Iterator[Block]) -> list[Block]:
    """Return the next blocks, as many as are counted together."""
    piece = []
    room = PIECE
    for block in blocks:
        piece.append(block)
        room -= block.size
        if room < block.size:
            break
    return piece


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, TEXT) for name in columns])


def _combined(
    batches: Sequence[pa.RecordBatch], verbatim: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches as one, without spaces around cells."""
    table = pa.Table.from_batches(batches).combine_chunks()
    for batch in table.to_batches():
        columns = [
            column if name in verbatim else _trimmed(column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _trimmed(column: pa.Array) -> pa.Array:
    """Drop spaces around cells; labels may then be twice in a dictionary."""
    labels = pc.utf8_trim_whitespace(column.dictionary)
    if labels.equals(column.dictionary):
        return column
    return pa.DictionaryArray.from_arrays(column.indices, labels)


# ---- errors


def _unreadable_error(path: Path, error: Exception) -> ValueError:
    """Return the error for a file that cannot be read at all."""
    remedy = "take a fresh copy" if _is_packed(path) else ""
    return ValueError(unreadable(path, error, "cannot be read as CSV", remedy))


def _not_utf8_error(path: Path) -> ValueError:
    """Return an error that names the first byte that is not UTF-8."""
    with contextlib.suppress(LongLineError, *_BROKEN), _opened(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="")
        lines = _lines(text, LONGEST_RECORD, is_each_limited=True)
        for number, line in enumerate(lines, 1):
            content = line.encode("utf-8", "surrogateescape")
            for mark, suffix in _OTHER_FORMATS.items():
                if number == 1 and content.startswith(mark):
                    return ValueError(
                        f"{path} is not a CSV file: its name should end in {suffix}."
                    )
            try:
                content.decode()
            except UnicodeDecodeError as error:
                return ValueError(
                    f"{path}, line {number}: byte {error.start + 1} "
                    f"(0x{content[error.start]:02x}) is not UTF-8; save the file as "
                    "UTF-8."
                )
    return ValueError(f"{path} is not UTF-8: save the file as UTF-8.")
