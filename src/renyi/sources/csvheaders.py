"""Headers of CSV files: names and delimiter; and where a file is wrong, line by line.

A file begins with the first record that is not blank. What separates its cells is a
comma, unless there is none and there are semicolons or tabs.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, cast

from renyi.sources.complaints import unreadable

BROKEN = (OSError, EOFError, zlib.error)
"""What reading a file may raise, packed or not."""

_MARK = b"\xef\xbb\xbf"
_LONGEST = 2**24  # characters of a header


def opened(path: Path) -> IO[bytes]:
    """Open a file, unpacking it if it is gzipped.

    >>> import renyi
    >>> with opened(renyi.datasets.path("votes")) as stream:
    ...     stream.read(8)
    b'handicap'
    """
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return path.open("rb")


class Header(NamedTuple):
    """How a CSV file begins: its delimiter and names; `start` is the byte after them.

    `skip` counts the records up to there, blank lines included.
    """

    delimiter: str
    names: list[str]
    skip: int
    start: int


def read_header(path: Path) -> Header:
    """Read the first record that is not blank.

    >>> import renyi
    >>> read_header(renyi.datasets.path("votes"))[2:]
    (1, 359)
    """
    try:
        with _decoded(path) as stream:
            line = _first_record(stream)
        delimiter = _delimiter(path, line)
        with _decoded(path) as stream:
            reader = csv.reader(stream, delimiter=delimiter)
            named = ((k, c) for k, c in enumerate(reader, 1) if "".join(c).strip())
            skip, cells = next(named, (0, []))
        start = _bytes_of_lines(path, reader.line_num)
    except UnicodeDecodeError:
        raise ValueError(_not_utf8(path)) from None
    except (*BROKEN, csv.Error) as error:
        raise ValueError(cannot(path, error)) from None
    if not cells:
        raise ValueError(f"{path} is empty: it needs a header and rows.")
    names = [name.strip() or f"column {k}" for k, name in enumerate(cells, 1)]
    return Header(delimiter, names, skip, start)


def _decoded(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(opened(path), "utf-8-sig", newline="")


def _first_record(stream: Iterable[str]) -> str:
    """Return the first line that is not blank, and those that its quotes go on to."""
    record = ""
    for text in stream:
        if record or text.strip():
            record += text
        if record and record.count('"') % 2 == 0:
            break
        if len(record) > _LONGEST:  # a quote that is never closed
            break
    return record


def _delimiter(path: Path, record: str) -> str:
    """Return what separates the cells; a header without commas may have another."""
    if ".tsv" in path.name.lower():
        return "\t"
    bare = re.sub(r'"[^"]*("|$)', "", record)  # names may hold what separates others
    others = [c for c in ";\t" if c in bare]
    return others[0] if others and "," not in bare else ","


def _bytes_of_lines(path: Path, count: int) -> int:
    """Return how many bytes the first lines take."""
    with opened(path) as raw:
        mark = len(_MARK) if raw.read(len(_MARK)) == _MARK else 0
    with _decoded(path) as stream:
        return mark + sum(len(line.encode()) for line in islice(stream, count))


# ---- what is wrong with a file


def trouble(path: Path, header: Header, error: Exception) -> str:
    """Say where a CSV file is wrong, by reading it once more, line by line."""
    width = len(header.names)
    try:
        with _decoded(path) as stream:
            reader = csv.reader(stream, delimiter=header.delimiter)
            before = 0
            for cells in reader:
                if cells and len(cells) != width:
                    count = f"{len(cells)} cell{'s' * (len(cells) > 1)}"
                    return (
                        f"{path}, line {before + 1}: {count} where the header has "
                        f"{width}; correct the line, or quote cells that hold "
                        f"{header.delimiter!r}."
                    )
                before = reader.line_num
    except UnicodeDecodeError:
        return _not_utf8(path)
    except (*BROKEN, csv.Error) as other:
        error = other
    return cannot(path, error)


def cannot(path: Path, error: Exception) -> str:
    """Say that a file cannot be read at all."""
    return unreadable(path, error, "cannot be read as CSV")


def _not_utf8(path: Path) -> str:
    with opened(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return (
                    f"{path}, line {number}: byte {error.start + 1} "
                    f"(0x{line[error.start]:02x}) is not UTF-8; save the file as UTF-8."
                )
    return f"{path} is not UTF-8: save the file as UTF-8."
