"""Arrow: streams of batches, and the columnar files that Arrow reads.

Nearly every library of tables can hand its rows to another one as a stream of Arrow
batches (``__arrow_c_stream__``): pyarrow, polars, pandas, DuckDB relations, DataFusion,
Spark. A stream can be read only once. Where a column needs a first pass, its rows are
written to a temporary file meanwhile. This file has no name: it is gone with the
process, however that ends.

Of Parquet files one row group after the other is read, of Arrow's own (IPC, Feather)
the record batches, and only the columns needed. Text of Parquet comes as dictionaries,
as most files hold it: the labels of a row group are then looked at once, not in every
row. Nothing is believed before it is checked: indices and offsets that point nowhere
would be read all the same.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from renyi.encoding.arrays import check_frame_names
from renyi.encoding.columns import TableLike
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import NO_ROWS
from renyi.files import first_line, unreadable
from renyi.marginals.marginals import Marginals
from renyi.sources import suffixes
from renyi.sources.run import Job, Source, Unit, chosen_columns
from renyi.sources.spec import CountSpec

_ROWS_AHEAD = 2**18  # of a stream that are kept while a column has shown no value
_ROWS = 2**18  # of a batch of a row group
_PIECE = 2**20  # bytes of record batches that are worth a separate table
_MAGIC = b"ARROW1"


# ---- streams


def marginals(
    stream: TableLike,
    target: str,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    weight: str | None = None,
) -> Marginals:
    """Count the pairs of a stream; see `Marginals.from_arrow`."""
    schema, first = opened(stream)
    spec = CountSpec.of(schema, target, encoder, class_conditional, weight)
    passes = [first]

    def units(columns: list[str]) -> Iterator[Unit]:
        batches = passes.pop() if passes else _again(stream)
        some = None if {*columns} == {*spec.read_columns} else columns
        yield Unit(0, 0, 1.0, partial(_read, batches, some), 0)

    is_repeatable = not isinstance(stream, (pa.RecordBatchReader, Iterator))
    source = Source(schema, units, is_repeatable=is_repeatable)
    return Job(source, spec).count().finish()


def _read(batches: Iterator[Any], columns: list[str] | None) -> Iterator[Any]:
    """Yield all or some columns of every batch; say where a stream breaks off."""
    rows = 0
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"The stream ended early, after {rows:,} rows ({first_line(error)})."
            ) from None
        if batch is None:
            return
        yield batch if columns is None else chosen_columns(batch, columns)
        rows += batch.num_rows


def _again(stream: TableLike) -> Iterator[Any]:
    """Open a stream for the second time."""
    try:
        return opened(stream)[1]
    except (pa.ArrowException, RuntimeError, ValueError) as error:
        raise ValueError(
            f"The source can be read only once ({first_line(error)}): make a "
            "pyarrow.RecordBatchReader of it with from_stream."
        ) from None


def opened(stream: TableLike) -> tuple[pa.Schema, Iterator[Any]]:
    """Return the schema of a stream, and its batches."""
    if isinstance(stream, pd.DataFrame):
        stream = _from_pandas(stream)
    elif hasattr(stream, "scanner"):  # a dataset of pyarrow
        stream = stream.scanner().to_reader()
    if hasattr(stream, "__arrow_c_stream__"):
        if not isinstance(stream, pa.RecordBatchReader):
            check_frame_names(stream)
            stream = pa.RecordBatchReader.from_stream(stream)
        return stream.schema, iter(stream)
    if hasattr(stream, "collect") and hasattr(stream, "lazy"):
        raise TypeError(
            "A lazy frame has no rows yet: pass frame.collect_batches(), or "
            "frame.collect() if they fit in memory."
        )
    if isinstance(stream, (str, bytes, PathLike)):
        raise TypeError(f"{stream!r:.80} is a name, not a stream: use from_file.")
    if isinstance(stream, Iterable):
        return _first(iter(stream))
    raise TypeError(
        f"{type(stream).__name__} is not a stream of Arrow batches: give a table, a "
        "reader, or an iterable of record batches."
    )


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    """Return a frame as a table, without its index."""
    frame = frame.rename(columns=str)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"The frame cannot be converted to Arrow ({first_line(error)}): use "
            "from_data, or give each column one type."
        ) from None


def _first(batches: Iterator[Any]) -> tuple[pa.Schema, Iterator[Any]]:
    """Look at the first batch for the schema, and further where it has no type yet.

    A column without a single value may be of no type: the next batches decide it.
    """
    checked = _read((_batch(item) for item in batches), None)
    first = next(checked, None)
    if first is None:
        raise ValueError(NO_ROWS)
    schema = first.schema
    waiting = [first]
    rows = first.num_rows
    while pa.null() in schema.types and rows < _ROWS_AHEAD:
        batch = next(checked, None)
        if batch is None:
            break
        waiting.append(batch)
        rows += batch.num_rows
        for k, field in enumerate(schema):
            once = batch.schema.names.count(field.name) == 1
            if pa.types.is_null(field.type) and once:
                schema = schema.set(k, batch.schema.field(field.name))
    return schema, chain(waiting, checked)


def _batch(item: TableLike) -> Any:
    if isinstance(item, (pa.RecordBatch, pa.Table)):
        return item
    if isinstance(item, pd.DataFrame):
        return _from_pandas(item)
    if hasattr(item, "__arrow_c_stream__"):
        check_frame_names(item)
        return pa.table(item)
    if hasattr(item, "__arrow_c_array__"):
        return pa.record_batch(item)
    raise TypeError(
        f"The stream yields {type(item).__name__}, which is not an Arrow batch: yield "
        "record batches or tables."
    )


# ---- files


@contextlib.contextmanager
def _naming_errors(path: Path, kind: str) -> Iterator[None]:
    """Let an error of Arrow's or of the system name the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
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

    ENDINGS = suffixes.PARQUET

    def __init__(self, path: Path) -> None:
        self.path = path
        with _naming_errors(path, "Parquet"):
            self._metadata = pa.parquet.read_metadata(path)
            self.schema = _without_index(self._metadata.schema.to_arrow_schema())

    def _texts(self, columns: Sequence[str]) -> list[str]:
        """Return which of some columns are of text, read as dictionaries."""
        texts = (pa.string(), pa.large_string())
        return [name for name in columns if self.schema.field(name).type in texts]

    def units(self, file: int, columns: Sequence[str]) -> Iterator[Unit]:
        """Yield the row groups; the file is number `file` of several."""
        columns = list(columns)
        texts = self._texts(columns)
        total = max(self._metadata.num_rows, 1)

        def read(group: int, rows: int) -> Iterator[pa.RecordBatch]:
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
                    rows -= batch.num_rows
                if rows:  # else a column without pages would end a group unnoticed
                    raise pa.ArrowInvalid(f"row group {group} lacks {rows:,} rows")

        start = 0
        for group in range(self._metadata.num_row_groups):
            rows = self._metadata.row_group(group).num_rows
            yield Unit(file, group, rows / total, partial(read, group, rows), start)
            start += rows


class IpcFile:
    """An Arrow file, whose schema is read once."""

    ENDINGS = suffixes.ARROW

    def __init__(self, path: Path) -> None:
        self.path = path
        with _naming_errors(path, "Arrow"):
            reader, _ = _opened_ipc(path)
            # Of a stream, how many batches there are is not known.
            self._count = getattr(reader, "num_record_batches", None)
            self._names = reader.schema.names
            self.schema = _without_index(reader.schema)

    def units(self, file: int, columns: Sequence[str]) -> Iterator[Unit]:
        """Yield the record batches, small ones several at a time."""
        columns = list(columns)
        count = self._count
        where = {name: j for j, name in enumerate(self._names)}
        places = [where[name] for name in columns]
        size = max(self.path.stat().st_size, 1)
        if count is None:
            before = start = 0
            with _naming_errors(self.path, "Arrow"):
                reader, stream = _opened_ipc(self.path, places)
                for number, batch in enumerate(reader):
                    checked = _checked(batch, columns)
                    place = stream.tell()
                    share = (place - before) / size
                    before = place
                    yield Unit(file, number, share, partial(iter, [checked]), start)
                    start += checked.num_rows
            return
        # Threads may not share a reader, but each keeps its own: whoever opens a file
        # reads all its dictionaries.
        own = threading.local()

        def read(numbers: range) -> Iterator[pa.RecordBatch]:
            with _naming_errors(self.path, "Arrow"):
                if not hasattr(own, "reader"):
                    own.reader, _ = _opened_ipc(self.path, places)
                reader = own.reader  # another thread may continue with the next
                for number in numbers:
                    yield _checked(reader.get_batch(number), columns)

        step = max(1, count * _PIECE // size)
        for number, low in enumerate(range(0, count, step)):
            part = range(low, min(low + step, count))
            share = len(part) / count
            yield Unit(file, number, share, partial(read, part), self._starts[low])

    @cached_property
    def _starts(self) -> list[int]:
        """The number of rows before each record batch."""
        assert self._count is not None
        with _naming_errors(self.path, "Arrow"):
            reader, _ = _opened_ipc(self.path, [0])
            sizes = [reader.get_batch(k).num_rows for k in range(self._count)]
        return [0, *accumulate(sizes)]


def _opened_ipc(path: Path, places: list[int] | None = None) -> tuple[Any, Any]:
    """Return the reader of some columns, in either format, and the stream it reads."""
    with path.open("rb") as stream:
        magic = stream.read(len(_MAGIC))
    opening = pa.ipc.open_file if magic == _MAGIC else pa.ipc.open_stream
    file = pa.OSFile(str(path))
    return opening(file, options=pa.ipc.IpcReadOptions(included_fields=places)), file
