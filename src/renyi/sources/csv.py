"""CSV files: their headers, where records end, and how pieces become columns of text.

A file begins with the first record that is not blank. What separates its cells is a
comma, unless there is none and there are semicolons or tabs.

A file of any size is read in pieces of whole records. A record ends at a newline that
is not within quotes; quotes open a cell only at its beginning, and two of them within a
quoted cell stand for one. Most pieces hold no quote at all, or only ones in pairs, and
then a count of quotes tells which newlines are within; else the quoted cells are looked
for one by one.

Cells stay text: whether a column is of numbers is a matter of the whole column, and
decided elsewhere (`renyi.encoding.arrow`).
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice, tee
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from renyi import endings
from renyi.compiled import in_threads
from renyi.counting.onehot import kernels_for
from renyi.files import unreadable
from renyi.streaming.run import Unit

PIECE = 16 * 2**20  # bytes
_LONGEST = 2**25  # bytes of a record, which may take
_MOST_PIECES = 16
_LONGEST_HEADER = 2**24  # characters up to the end of the header
_START = 2**18  # bytes by which columns of many labels are known
_SAMPLE = 2**20  # bytes of a file that are looked at before it is counted
# What the compiled loop saves, in seconds: it is loaded for large files.
_SAVED = 1e-9  # a byte
_SMALL = 2**15  # bytes, of which it saves nothing
_WORTH = 8  # rows of a label that make a dictionary worth its while
_FEWEST = 10  # labels that are many
_QUOTE = ord('"')
_MARK = b"\xef\xbb\xbf"
_MOST_NAME_LINES = 20  # in the header; more are rows behind a quote
# How files of other formats begin, and how their names should end.
_MARKS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x1f\x8b": ".csv.gz"}
_BROKEN = (OSError, EOFError, zlib.error)  # what reading may raise, packed or not

Bytes = bytes | bytearray

TEXT = pa.dictionary(pa.int32(), pa.string())


# ---- headers


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if _is_packed(path) else path.open("rb")


def _decoded(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened(path), "utf-8-sig", newline="")


class LongLineError(ValueError):
    """A line that is longer than any of a table."""


def _lines(stream: IO[Any], most: int, ever: bool = False) -> Iterator[Any]:
    """Yield lines; none is longer than `most`, nor are all of them if not for `ever`.

    A megabyte of gzip may hold a line of a gigabyte.
    """
    left = most
    while line := stream.readline(left + 1):
        left = most if ever else left - len(line)
        if len(line) > most or left < 0:
            raise LongLineError(f"no line ends within {most:,} characters")
        yield line


class Header(NamedTuple):
    """How a CSV file begins: its delimiter and names, and the byte after them."""

    delimiter: str
    names: list[str]
    start: int


def read_header(path: Path) -> Header:
    """Read the first record that is not blank."""
    try:
        with _decoded(path) as text:
            begin = cast(io.BufferedReader, text.buffer).peek(len(_MARK))
            first, second, third = tee(_lines(text, _LONGEST_HEADER), 3)
            delimiter = _delimiter(path, first)
            reader = csv.reader(second, delimiter=delimiter)
            named = ((k, c) for k, c in enumerate(reader, 1) if "".join(c).strip())
            skip, cells = next(named, (0, []))
            start = len(_MARK) if begin.startswith(_MARK) else 0
            start += sum(len(line.encode()) for line in islice(third, reader.line_num))
    except UnicodeDecodeError:
        raise ValueError(_not_utf8(path)) from None
    except (*_BROKEN, csv.Error, LongLineError) as error:
        raise ValueError(_cannot(path, error)) from None
    if not cells:
        raise ValueError(f"{path} is empty: it needs a header and rows.")
    if max(name.count("\n") for name in cells) > _MOST_NAME_LINES:
        raise ValueError(
            f"{path}: a name in the header spans many lines, so a quote in it is not "
            "closed: correct the header."
        )
    names = [name.strip() or f"column {k}" for k, name in enumerate(cells, 1)]
    return Header(delimiter, names, start)


def _delimiter(path: Path, lines: Iterator[str]) -> str:
    """Return what separates the cells; a header without commas may have another."""
    record = ""  # the first line that is not blank, and those its quotes go on to
    for line in lines:
        if record or line.strip():
            record += line
        closed = record.count('"') % 2 == 0  # some never are
        if record and (closed or len(record) > _LONGEST_HEADER):
            break
    if ".tsv" in path.name.lower():
        return "\t"
    bare = re.sub(r'"[^"]*("|$)', "", record)  # names may hold what separates others
    others = [c for c in ";\t" if c in bare]
    return others[0] if others and "," not in bare else ","


# ---- records


class Piece(NamedTuple):
    """Whole records of a file; `end` is the share of the file read by then."""

    data: bytearray
    end: float


def pieces(path: Path, header: Header, size: int = 0) -> Iterator[Piece]:
    """Cut a file into pieces of about `size` bytes, at the ends of records."""
    size = size or PIECE
    total = max(path.stat().st_size, 1)
    delimiter = header.delimiter.encode()
    rest = b""
    try:
        with _opened(path) as stream:
            stream.seek(header.start)
            while True:
                data, more = _filled(stream, rest, size)
                cut = record_end(data, delimiter) if more else len(data)
                if not cut and len(data) >= min(_LONGEST, _MOST_PIECES * size):
                    raise ValueError(
                        f"{path} has a record of {len(data) / 2**20:,.0f} MB or more, "
                        f"which begins with {data[:40].decode(errors='replace')!r}:"
                        " close the quote in it, or shorten its cells."
                    )
                rest = bytes(memoryview(data)[cut:])
                del data[cut:]
                if cut:  # of a packed file, what counts is how much of it was read
                    place = getattr(stream, "fileobj", stream).tell()
                    yield Piece(data, place / total)
                if not more:
                    return
    except _BROKEN as error:
        raise ValueError(_cannot(path, error)) from None


def _filled(stream: Any, rest: bytes, size: int) -> tuple[bytearray, bool]:
    """Return what was left over and the bytes that follow; and whether any did."""
    data = bytearray(len(rest) + size)
    filled = len(rest)
    data[:filled] = rest
    with memoryview(data) as view:
        while filled < len(data) and (count := stream.readinto(view[filled:])):
            filled += count
    del data[filled:]
    return data, filled > len(rest)


def record_end(data: Bytes, delimiter: bytes = b",") -> int:
    """Return where the last whole record ends; 0 if none does."""
    opens = closes = np.zeros(0, np.intp)
    if b'"' in data:
        opens, closes = _quoted(data, delimiter)
    for newline, stop in ((b"\n", len(data)), (b"\r", len(data) - 1)):
        # A carriage return at the very end may go on with a newline.
        while (place := data.rfind(newline, 0, stop)) >= 0:
            k = int(np.searchsorted(opens, place)) - 1
            if k < 0 or place > closes[k]:
                return place + 1
            stop = int(opens[k])
    return 0


def _quoted(data: Bytes, delimiter: bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return where quoted cells begin and end, the last perhaps beyond the data.

    Where every other quote follows a delimiter, a line end, or the quote before it
    (two for one), cells are quoted between the even quotes and the odd ones.
    """
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    before = text[quotes[0::2] - 1]  # of the very first byte, the last: see below
    plain = np.isin(before, np.frombuffer(delimiter + b"\r\n", np.uint8))
    plain[1:] |= quotes[2::2] - 1 == quotes[1 : len(quotes) - 1 : 2]
    plain[0] |= quotes[0] == 0
    if plain.all():
        opens = quotes[0::2]
        closes = quotes[1::2]
        if len(closes) < len(opens):
            closes = np.append(closes, len(data))
        return opens, closes
    cell = rb'"(?:(?<=[%s\r\n]")|(?<=\A"))(?:[^"]++|"")*+(?:"|\Z)'
    spans = [m.span() for m in re.finditer(cell % re.escape(delimiter), data)]
    both = np.array(spans, np.intp).reshape(-1, 2)
    # An end within the data is one after the quote; one at its end may be anywhere.
    return both[:, 0], both[:, 1] - 1


# ---- cells


def _read_by_loop(
    header: Header, data: bytearray, columns: list[str]
) -> list[Any] | None:
    """Read cells by the compiled loop; None if they are not plain, or too few."""
    if len(header.names) == 1 or sys.byteorder != "little" or b"\r" in data:
        return None
    kernels = kernels_for(len(data) * _SAVED, "renyi.sources.csv_kernels")
    if kernels is None:
        return None
    cells: list[Any] | None = kernels.read_cells(
        data, header.delimiter, header.names, columns
    )
    return cells


def _read_by_arrow(
    header: Header, data: bytearray, columns: list[str], plain: Collection[str] = ()
) -> list[Any]:
    quotes = b'"' in data  # not to look for any is a tenth faster
    table = pa.csv.read_csv(
        pa.BufferReader(pa.py_buffer(data)),
        pa.csv.ReadOptions(
            column_names=header.names,
            use_threads=False,
            block_size=min(len(data) + 1, 2**31 - 1),
        ),
        pa.csv.ParseOptions(
            delimiter=header.delimiter,
            quote_char='"' if quotes else False,
            newlines_in_values=quotes,
            # Of a single column, a blank line is an empty cell.
            ignore_empty_lines=len(header.names) > 1,
        ),
        pa.csv.ConvertOptions(
            column_types={
                name: pa.string() if name in plain else TEXT for name in columns
            },
            include_columns=columns,
            strings_can_be_null=False,
            check_utf8=not data.isascii(),
        ),
    )
    return [column.chunk(0) for column in table.columns]


def _are_trimmed(columns: list[Any]) -> bool:
    """Whether columns are dictionaries without spaces around any label."""
    if not columns or not all(pa.types.is_dictionary(c.type) for c in columns):
        return not columns
    labels = pa.concat_arrays([column.dictionary for column in columns])
    return bool(pc.utf8_trim_whitespace(labels).equals(labels))


def _trimmed(column: Any) -> Any:
    """Drop spaces around the cells; labels may then be twice in the dictionary."""
    if not pa.types.is_dictionary(column.type):
        return pc.utf8_trim_whitespace(column)
    bare = pc.utf8_trim_whitespace(column.dictionary)
    return pa.DictionaryArray.from_arrays(column.indices, bare)


# ---- files


class CsvFile:
    """A CSV file, whose header is read once."""

    ENDINGS = endings.CSV

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = read_header(path)
        self.schema = pa.schema([(name, TEXT) for name in self.header.names])

    def parse(
        self,
        data: bytearray,
        columns: list[str],
        verbatim: Collection[str] = (),
        plain: Collection[str] = (),
    ) -> pa.RecordBatch | None:
        """Return some columns of whole records as text; None if there are no records.

        Spaces around cells are dropped but in columns that are taken `verbatim`.
        Columns are dictionaries, except the `plain` ones.
        """
        if len(self.header.names) > 1 and re.match(rb"[\r\n]*+\Z", data):
            return None
        found = None
        if not plain and len(data) > _SMALL:
            found = _read_by_loop(self.header, data, columns)
        if found is None:
            try:
                found = _read_by_arrow(self.header, data, columns, plain)
            except pa.ArrowException as error:
                raise ValueError(self._trouble(error)) from None
        if not _are_trimmed(found):
            found = [
                column if name in verbatim else _trimmed(column)
                for name, column in zip(columns, found, strict=True)
            ]
        return pa.RecordBatch.from_arrays(found, names=columns)

    def units(
        self, file: int, columns: Sequence[str], verbatim: Collection[str] = ()
    ) -> Iterator[Unit]:
        """Yield the pieces of the file; it is number `file` of several."""
        before = 0.0
        plain = frozenset[str]()

        def read(data: bytearray) -> Iterator[pa.RecordBatch]:
            batch = self.parse(data, list(columns), verbatim, plain)
            if batch is not None:
                yield batch

        for number, (data, end) in enumerate(pieces(self.path, self.header)):
            if number == 0:
                plain = self._of_many_labels(data[:_START], list(columns))
            first = None if number else 0  # what pieces before hold is not known
            yield Unit(file, number, end - before, partial(read, data), first)
            before = end

    def _of_many_labels(self, start: bytearray, columns: list[str]) -> frozenset[str]:
        """Return the columns for which a dictionary is no gain, as measurements."""
        del start[record_end(start, self.header.delimiter.encode()) :]
        few = start.count(b"\n") < _WORTH * _FEWEST
        batch = None if few else self.parse(start, columns)
        if batch is None:
            return frozenset()
        many = batch.num_rows // _WORTH
        found = zip(columns, batch.columns, strict=True)
        return frozenset(n for n, c in found if len(c.dictionary) > many > _FEWEST)

    @cached_property
    def _first_piece(self) -> Piece:
        found = pieces(self.path, self.header, _SAMPLE)
        return next(found, Piece(bytearray(), 1.0))

    def sample(self, columns: list[str]) -> pa.RecordBatch | None:
        """Return some columns of the first records, which are read once."""
        data = self._first_piece.data
        return self.parse(data, columns) if data else None

    @property
    def sampled_whole(self) -> bool:
        """Whether the first records are all."""
        return self._first_piece.end == 1

    def extent(self, most: float) -> tuple[float, float, float]:
        """Return the bytes, cells and rows there are at most; see `files.memory`.

        A record has no fewer bytes than cells. Packed bytes are unpacked and counted.
        """
        size: float = self.path.stat().st_size
        if _is_packed(self.path):
            size = 0
            with contextlib.suppress(*_BROKEN), _opened(self.path) as stream:
                while size <= most and (piece := len(stream.read(_SAMPLE))):
                    size += piece
        return size, size, size / len(self.header.names)

    def read_whole(self, columns: list[str]) -> pa.Table:
        """Read some columns at once, as text with its spaces."""
        read = (piece.data for piece in pieces(self.path, self.header))
        every = frozenset(columns)
        found = in_threads(lambda d: self.parse(d, columns, every, every), read)
        schema = pa.schema([(name, pa.string()) for name in columns])
        return pa.Table.from_batches([b for b in found if b is not None], schema)

    def _trouble(self, error: Exception) -> str:
        """Say where the file is wrong, by reading it once more, line by line."""
        delimiter = self.header.delimiter
        width = len(self.header.names)
        try:
            with _decoded(self.path) as stream:
                lines = _lines(stream, _LONGEST, ever=True)
                reader = csv.reader(lines, delimiter=delimiter)
                before = 0
                for cells in reader:
                    if cells and len(cells) != width:
                        count = f"{len(cells)} cell{'s' * (len(cells) > 1)}"
                        return (
                            f"{self.path}, line {before + 1}: {count} where the header "
                            f"has {width}; correct the line, or quote cells that hold "
                            f"{delimiter!r}."
                        )
                    before = reader.line_num
        except UnicodeDecodeError:
            return _not_utf8(self.path)
        except (*_BROKEN, csv.Error, LongLineError) as other:
            error = other
        return _cannot(self.path, error)


# ---- what is wrong with a file


def _cannot(path: Path, error: Exception) -> str:
    """Say that a file cannot be read at all."""
    remedy = "take a fresh copy" if _is_packed(path) else ""
    return unreadable(path, error, "cannot be read as CSV", remedy)


def _not_utf8(path: Path) -> str:
    with _opened(path) as stream, contextlib.suppress(LongLineError, *_BROKEN):
        for number, line in enumerate(_lines(stream, _LONGEST, ever=True), 1):
            for mark, ending in _MARKS.items() if number == 1 else ():
                if line.startswith(mark):
                    return f"{path} is not a CSV file: its name should end in {ending}."
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return (
                    f"{path}, line {number}: byte {error.start + 1} "
                    f"(0x{line[error.start]:02x}) is not UTF-8; save the file as UTF-8."
                )
    return f"{path} is not UTF-8: save the file as UTF-8."
