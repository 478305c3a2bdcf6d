"""Arrow: streams of batches, and the columnar files that Arrow reads.

Nearly every library of tables can hand its rows to another one as a stream of Arrow
batches (``__arrow_c_stream__``): pyarrow, polars, pandas, DuckDB relations, DataFusion,
Spark. Where a column needs a first pass, what passes by only once is written to a
temporary file meanwhile, which has no name: it is gone with the process, however that
ends.

Of Parquet files one row group after the other is read, of Arrow's own (IPC, Feather)
the record batches, and only the columns needed. Text of Parquet comes as dictionaries,
as most files hold it: the labels of a row group are then looked at once, not in every
row. Nothing is believed before it is checked: indices and offsets that point nowhere
would be read all the same.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from os import PathLike
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from renyi.encoding.arrays import check_frame_names
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import NO_ROWS
from renyi.files import first_line, unreadable
from renyi.marginals.marginals import Marginals
from renyi.sources import suffixes
from renyi.sources.run import Job, Source, Unit
from renyi.sources.spec import CountSpec

_ROWS_AHEAD = 2**18  # of a stream that are kept while a column has shown no value
_ROWS = 2**18  # of a batch of a row group
_PIECE = 2**20  # bytes of record batches that are worth a table of their own
_MAGIC = b"ARROW1"


# ---- streams


def marginals(
    stream: Any,
    target: str,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    weight: str | None = None,
) -> Marginals:
    """Count the pairs of a stream; see `Marginals.from_arrow`."""
    schema, first = opened(stream)
    spec = CountSpec.of(schema, target, encoder, class_conditional, weight)
    once = spec.undecided and isinstance(stream, (pa.RecordBatchReader, Iterator))
    passes = [first]
    with tempfile.TemporaryFile() if once else contextlib.nullcontext() as file:
        if file is not None:
            whole = _read(first, list(spec.read_columns))
            passes = [_read_back(file), _kept(whole, file)]

        def units(columns: list[str]) -> Iterator[Unit]:
            batches = passes.pop() if passes else _again(stream)
            some = None if {*columns} == {*spec.read_columns} else columns
            yield Unit(0, 0, 1.0, partial(_read, batches, some), 0)

        return Job(Source(schema, units), spec).count().finish()


def _kept(batches: Iterator[Any], file: IO[bytes]) -> Iterator[Any]:
    """Yield batches, and write them to a file: those of one schema as one stream."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    try:
        for schema, run in groupby(batches, lambda batch: batch.schema):
            sink = pa.PythonFile(file, "w")
            writer = pa.ipc.new_stream(sink, schema, options=options)
            for batch in run:
                writer.write(batch)
                yield batch
            writer.close()
        file.flush()
    except OSError as error:
        with contextlib.suppress(OSError):  # what waits to be written
            file.close()
        raise ValueError(
            "The rows, which can be read only once, do not fit into the temporary "
            f"folder {tempfile.gettempdir()!r} ({first_line(error)}): name another one "
            "in TMPDIR, write the rows to a file, or give a fitted encoder."
        ) from None


def _read_back(file: IO[bytes]) -> Iterator[Any]:
    """Yield the batches of all streams in a file."""
    end = file.tell()
    file.seek(0)
    while file.tell() < end:
        yield from pa.ipc.open_stream(pa.PythonFile(file, "r"))


def _read(batches: Iterator[Any], columns: list[str] | None) -> Iterator[Any]:
    """Yield all or some columns of every batch; tell where a stream breaks off."""
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
        counts = Counter(batch.schema.names)
        if columns is None or any(counts[name] != 1 for name in columns):
            yield batch  # what is odd about it is said where it is counted
        else:
            yield batch.select(columns)
        rows += batch.num_rows


def _again(stream: Any) -> Iterator[Any]:
    """Open a stream for the second time."""
    try:
        return opened(stream)[1]
    except (pa.ArrowException, RuntimeError, ValueError) as error:
        raise ValueError(
            f"The source can be read only once ({first_line(error)}): make a "
            "pyarrow.RecordBatchReader of it with from_stream."
        ) from None


def opened(stream: Any) -> tuple[pa.Schema, Iterator[Any]]:
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

    A column without a single value may be of no type: the next batches tell it.
    """
    checked = _read((_batch(item) for item in batches), None)
    first = next(checked, None)
    if first is None:
        raise ValueError(NO_ROWS)
    schema = first.schema
    held = [first]
    rows = first.num_rows
    while pa.null() in schema.types and rows < _ROWS_AHEAD:
        batch = next(checked, None)
        if batch is None:
            break
        held.append(batch)
        rows += batch.num_rows
        for k, field in enumerate(schema):
            once = batch.schema.names.count(field.name) == 1
            if pa.types.is_null(field.type) and once:
                schema = schema.set(k, batch.schema.field(field.name))
    return schema, chain(held, checked)


def _batch(item: Any) -> Any:
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


def _width(kind: pa.DataType) -> float:
    """Return the bytes of a cell in memory, of text those of its place."""
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 4


class ParquetFile:
    """A Parquet file, whose footer is read once."""

    ENDINGS = suffixes.PARQUET

    def __init__(self, path: Path) -> None:
        self.path = path
        with _naming_errors(path, "Parquet"):
            self._metadata = pa.parquet.read_metadata(path)
            self.schema = _without_index(self._metadata.schema.to_arrow_schema())

    def extent(self, most: float) -> tuple[float, float, float]:
        """Return the bytes, cells and rows there are; see `files.memory`.

        A run of a text takes a few bytes in the file. Where texts may be many bytes in
        memory they are looked at, as dictionaries.
        """
        metadata = self._metadata
        rows = metadata.num_rows
        numbers = range(metadata.num_row_groups)
        groups = [metadata.row_group(k).total_byte_size for k in numbers]
        texts = self._texts(self.schema.names)
        size = rows * sum(map(_width, self.schema.types)) + sum(groups)
        if size <= most < rows * len(texts) * max(groups, default=0):
            for batch in (b for unit in self.units(0, texts) for b in unit.read()):
                for column in batch.columns:
                    lengths = pc.binary_length(column.dictionary).take(column.indices)
                    size += pc.sum(lengths).as_py() or 0
                if size > most:
                    break
        return size, rows * len(self.schema), rows

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

    def extent(self, most: float) -> tuple[float, float, float]:
        """Return the bytes, cells and rows there are; see `files.memory`."""
        size = 0
        rows = 0
        names = self.schema.names
        for batch in (b for unit in self.units(0, names) for b in unit.read()):
            size = size + batch.nbytes
            rows = rows + batch.num_rows
            if size > most:
                break
        return size, rows * len(names), rows

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
                for number in numbers:
                    yield _checked(own.reader.get_batch(number), columns)

        step = max(1, count * _PIECE // size)
        for number, low in enumerate(range(0, count, step)):
            part = range(low, min(low + step, count))
            first = None if number else 0  # what batches before hold is not known
            yield Unit(file, number, len(part) / count, partial(read, part), first)


def _opened_ipc(path: Path, places: list[int] | None = None) -> tuple[Any, Any]:
    """Return the reader of some columns, in either format, and the stream it reads."""
    with path.open("rb") as stream:
        magic = stream.read(len(_MAGIC))
    opening = pa.ipc.open_file if magic == _MAGIC else pa.ipc.open_stream
    file = pa.OSFile(str(path))
    return opening(file, options=pa.ipc.IpcReadOptions(included_fields=places)), file
