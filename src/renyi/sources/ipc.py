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

from renyi.sources.parquet import naming_errors, without_index
from renyi.streaming.run import Unit

_WHAT = "is not a valid Arrow file"
_MAGIC = b"ARROW1"
_PIECE = 2**20  # bytes that are worth a table of counts of their own


class IpcFile:
    """An Arrow file, whose schema is read once."""

    ENDINGS = (".arrow", ".feather", ".ipc")

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming_errors(path, _WHAT), _opened(path) as (reader, _):
            self._count = getattr(reader, "num_record_batches", None)
            self._names = reader.schema.names
            self.schema = without_index(reader.schema)

    def read_whole(self, columns: list[str]) -> pa.Table:
        """Read some columns at once."""
        parts = [batch for unit in self.units(0, columns) for batch in unit.read()]
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema).unify_dictionaries()

    def units(self, file: int, columns: Sequence[str]) -> Iterator[Unit]:
        """Yield the record batches, small ones several at a time."""
        columns, count = list(columns), self._count
        places = [self._names.index(name) for name in columns]
        if count is None:
            yield from self._stream(file, columns, places)
            return
        # Threads may not share a reader, but each keeps its own: whoever opens a file
        # reads all its dictionaries.
        own = threading.local()

        def read(numbers: range) -> Iterator[pa.RecordBatch]:
            with naming_errors(self.path, _WHAT):
                if not hasattr(own, "reader"):
                    own.stack = contextlib.ExitStack()
                    own.reader, _ = own.stack.enter_context(_opened(self.path, places))
            for number in numbers:
                with naming_errors(self.path, _WHAT):
                    batch = _checked(own.reader.get_batch(number), columns)
                yield batch

        step = max(1, count * _PIECE // max(self.path.stat().st_size, 1))
        for number, low in enumerate(range(0, count, step)):
            part = range(low, min(low + step, count))
            yield Unit(file, number, len(part) / count, partial(read, part))

    def _stream(
        self, file: int, columns: list[str], places: list[int]
    ) -> Iterator[Unit]:
        """Yield the batches of a stream; how many there are is not known."""
        size, before = max(self.path.stat().st_size, 1), 0
        with (
            naming_errors(self.path, _WHAT),
            _opened(self.path, places) as (reader, stream),
        ):
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
