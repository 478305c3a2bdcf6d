"""Columnar files, read by Arrow: Parquet, and Arrow's own (IPC, Feather).

Only the columns needed are read: of Parquet one row group after the other, of an Arrow
file its record batches. A file in Arrow's stream format is read from its beginning.
Text of Parquet comes as dictionaries, as most files hold it: the labels of a row group
are then looked at once, not in every row.

Nothing is believed before it is checked: indices and offsets that point nowhere would
be read all the same.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from renyi.storage import unreadable
from renyi.streaming.run import Unit

_ROWS = 2**18  # of a batch of a row group
_PIECE = 2**20  # bytes of record batches that are worth a table of their own
_MAGIC = b"ARROW1"


@contextlib.contextmanager
def _naming_errors(path: Path, kind: str) -> Iterator[None]:
    """Let an error of Arrow's or of the system name the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        what = f"is not a valid {kind} file"
        raise ValueError(unreadable(path, error, what, "take a fresh copy")) from None


def _without_index(schema: pa.Schema) -> pa.Schema:
    """Return a schema without unnamed indices of pandas, which are no data."""
    fields = [f for f in schema if not re.fullmatch(r"__index_level_\d+__", f.name)]
    return pa.schema(fields)


def _checked(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    batch = batch.select(columns)
    batch.validate(full=True)
    return batch


class ParquetFile:
    """A Parquet file, whose footer is read once."""

    ENDINGS = (".parquet", ".pq")

    def __init__(self, path: Path) -> None:
        self.path = path
        with _naming_errors(path, "Parquet"):
            self._metadata = pa.parquet.read_metadata(path)
            self.schema = _without_index(self._metadata.schema.to_arrow_schema())

    def read_whole(self, columns: list[str]) -> pa.Table:
        """Read some columns at once."""
        with _naming_errors(self.path, "Parquet"):
            table = pa.parquet.read_table(
                self.path, columns=columns, page_checksum_verification=True
            )
            table.validate(full=True)
        return table.select(columns).replace_schema_metadata(None)

    def units(self, file: int, columns: Sequence[str]) -> Iterator[Unit]:
        """Yield the row groups; the file is number `file` of several."""
        columns = list(columns)
        texts = [
            name
            for name in columns
            if self.schema.field(name).type in (pa.string(), pa.large_string())
        ]
        total = max(self._metadata.num_rows, 1)

        def read(group: int) -> Iterator[pa.RecordBatch]:
            # Threads may not share a reader.
            with (
                _naming_errors(self.path, "Parquet"),
                pa.parquet.ParquetFile(
                    self.path,
                    metadata=self._metadata,
                    read_dictionary=texts,
                    page_checksum_verification=True,
                ) as reader,
            ):
                for batch in reader.iter_batches(
                    _ROWS, [group], columns, use_threads=False
                ):
                    # A damaged page may hold indices beyond its dictionary.
                    yield _checked(batch, columns)

        for group in range(self._metadata.num_row_groups):
            rows = self._metadata.row_group(group).num_rows
            yield Unit(file, group, rows / total, partial(read, group))


class IpcFile:
    """An Arrow file, whose schema is read once."""

    ENDINGS = (".arrow", ".feather", ".ipc")

    def __init__(self, path: Path) -> None:
        self.path = path
        with _naming_errors(path, "Arrow"), _opened_ipc(path) as (reader, _):
            # Of a stream, how many batches there are is not known.
            self._count = getattr(reader, "num_record_batches", None)
            self._names = reader.schema.names
            self.schema = _without_index(reader.schema)

    def read_whole(self, columns: list[str]) -> pa.Table:
        """Read some columns at once."""
        parts = [batch for unit in self.units(0, columns) for batch in unit.read()]
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema).unify_dictionaries()

    def units(self, file: int, columns: Sequence[str]) -> Iterator[Unit]:
        """Yield the record batches, small ones several at a time."""
        columns, count = list(columns), self._count
        places = [self._names.index(name) for name in columns]
        size = max(self.path.stat().st_size, 1)
        if count is None:
            before = 0
            with (
                _naming_errors(self.path, "Arrow"),
                _opened_ipc(self.path, places) as (reader, stream),
            ):
                for number, batch in enumerate(reader):
                    checked, place = _checked(batch, columns), stream.tell()
                    share, before = (place - before) / size, place
                    yield Unit(file, number, share, partial(iter, [checked]))
            return
        # Threads may not share a reader, but each keeps its own: whoever opens a file
        # reads all its dictionaries.
        own = threading.local()

        def read(numbers: range) -> Iterator[pa.RecordBatch]:
            with _naming_errors(self.path, "Arrow"):
                if not hasattr(own, "reader"):
                    own.stack = contextlib.ExitStack()
                    opened = _opened_ipc(self.path, places)
                    own.reader, _ = own.stack.enter_context(opened)
                for number in numbers:
                    yield _checked(own.reader.get_batch(number), columns)

        step = max(1, count * _PIECE // size)
        for number, low in enumerate(range(0, count, step)):
            part = range(low, min(low + step, count))
            yield Unit(file, number, len(part) / count, partial(read, part))


@contextlib.contextmanager
def _opened_ipc(
    path: Path, places: list[int] | None = None
) -> Iterator[tuple[Any, Any]]:
    """Yield the reader of some columns, in either format, and the stream it reads."""
    with path.open("rb") as stream:
        magic = stream.read(len(_MAGIC))
    opening = pa.ipc.open_file if magic == _MAGIC else pa.ipc.open_stream
    options = pa.ipc.IpcReadOptions(included_fields=places)
    with pa.OSFile(str(path)) as file, opening(file, options=options) as reader:
        yield reader, file
