"""Arrow files (IPC, Feather): their record batches are read one after the other.

A file in the file format knows where its batches are; one in the stream format is read
from its beginning. Nothing is believed before it is checked: indices and offsets that
point nowhere would be read all the same.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from renyi.sources.complaints import unreadable
from renyi.sources.parquet import without_index
from renyi.streaming.run import Unit

ENDINGS = (".arrow", ".feather", ".ipc")
_MAGIC = b"ARROW1"
_PIECE = 2**20  # bytes that are worth a table of counts of their own


def read_schema(path: Path) -> pa.Schema:
    """Return names and types of the columns, without the index that pandas stores."""
    with _complaining(path), _opened(path) as (reader, _):
        return without_index(reader.schema)


def read_whole(path: Path, columns: list[str]) -> pa.Table:
    """Read some columns of a file at once."""
    parts = [batch for unit in units(0, path, columns) for batch in unit.read()]
    if not sum(batch.num_rows for batch in parts):
        raise ValueError(f"{path} has no rows: there is nothing to read.")
    table = pa.Table.from_batches(parts).unify_dictionaries()
    return table.replace_schema_metadata(None)


def units(file: int, path: Path, columns: Sequence[str]) -> Iterator[Unit]:
    """Yield the record batches of a file, small ones several at a time."""
    columns = list(columns)
    with _complaining(path), _opened(path) as (reader, _):
        count = getattr(reader, "num_record_batches", None)
        names = reader.schema.names
    places = [names.index(name) for name in columns]
    if count is None:
        yield from _stream(file, path, columns, places)
        return
    # Threads may not share a reader, but each keeps its own: whoever opens a file reads
    # all its dictionaries.
    own = threading.local()

    def read(numbers: range) -> Iterator[pa.RecordBatch]:
        with _complaining(path):
            if not hasattr(own, "reader"):
                own.stack = contextlib.ExitStack()
                own.reader, _ = own.stack.enter_context(_opened(path, places))
        for number in numbers:
            with _complaining(path):
                batch = _checked(own.reader.get_batch(number), columns)
            yield batch

    step = max(1, count * _PIECE // max(path.stat().st_size, 1))
    for number, low in enumerate(range(0, count, step)):
        part = range(low, min(low + step, count))
        yield Unit(file, number, len(part) / count, partial(read, part))


def _stream(
    file: int, path: Path, columns: list[str], places: list[int]
) -> Iterator[Unit]:
    """Yield the batches of a stream; how many there are is not known."""
    size, before = max(path.stat().st_size, 1), 0
    with _complaining(path), _opened(path, places) as (reader, stream):
        for number, batch in enumerate(reader):
            checked, place = _checked(batch, columns), stream.tell()
            share, before = (place - before) / size, place
            yield Unit(file, number, share, partial(iter, [checked]))


def _checked(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    batch = batch.select(columns)
    batch.validate(full=True)
    return batch


@contextlib.contextmanager
def _opened(path: Path, places: list[int] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield the reader of some columns, in either format, and the stream it reads."""
    with path.open("rb") as stream:
        magic = stream.read(len(_MAGIC))
    opening = pa.ipc.open_file if magic == _MAGIC else pa.ipc.open_stream
    options = None
    if places is not None:
        options = pa.ipc.IpcReadOptions(included_fields=places)
    with pa.OSFile(str(path)) as file, opening(file, options=options) as reader:
        yield reader, file


@contextlib.contextmanager
def _complaining(path: Path) -> Iterator[None]:
    """Let an error of Arrow's or of the system name the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        what = "is damaged or no Arrow file"
        raise ValueError(unreadable(path, error, what, "take a fresh copy")) from None
