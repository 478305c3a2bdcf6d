"""Marginals of Arrow streams: frames, query results, readers and batches.

Nearly every library of tables can hand its rows to another one as a stream of Arrow
batches (``__arrow_c_stream__``): pyarrow, polars, pandas, DuckDB relations, DataFusion,
Spark. What can be read twice gets a first pass if a column needs one; what passes by
only once is counted in one pass (`CountSpec.one_pass`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from os import PathLike
from typing import Any

import pandas as pd
import pyarrow as pa

from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.storage import first_line
from renyi.streaming.run import Job, Source, Unit
from renyi.streaming.spec import CountSpec

# Rows of a stream that are kept while a column has shown no value.
_ROWS_AHEAD = 2**18


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
    if spec.undecided and _is_spent(stream):
        spec = spec.one_pass()
    open_streams = [first]

    def units(columns: list[str]) -> Iterator[Unit]:
        batches = open_streams.pop() if open_streams else _again(stream)
        some = None if {*columns} == {*spec.read_columns} else columns
        yield Unit(0, 0, 1.0, partial(_read, batches, some))

    return Job(Source(schema, units), spec).count().finish()


def _read(batches: Iterator[Any], columns: list[str] | None) -> Iterator[Any]:
    """Yield all or some columns of every batch; tell where a stream breaks off."""
    rows = 0
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"The stream broke off after {rows:,} rows ({first_line(error)})."
            ) from None
        if batch is None:
            return
        names = batch.schema.names
        if columns is None or any(names.count(name) != 1 for name in columns):
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
    elif isinstance(stream, pa.RecordBatch):
        stream = [stream]
    if isinstance(stream, pa.Table):
        return stream.schema, iter(stream.to_batches())
    if isinstance(stream, pa.RecordBatchReader):
        return stream.schema, iter(stream)
    if hasattr(stream, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(stream)
        return reader.schema, iter(reader)
    if hasattr(stream, "scanner"):  # a dataset of pyarrow
        reader = stream.scanner().to_reader()
        return reader.schema, iter(reader)
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
        f"{type(stream).__name__} is no stream of Arrow batches: give a table, a "
        "reader, or an iterable of record batches."
    )


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    """Return a frame as a table, without its index."""
    frame = frame.rename(columns=str)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"The frame cannot be given to Arrow ({first_line(error)}): use "
            "from_data, or give each column one type."
        ) from None


def _first(batches: Iterator[Any]) -> tuple[pa.Schema, Iterator[Any]]:
    """Look at the first batch for the schema, and further where it has no type yet.

    A column without a single value may be of no type: the next batches tell it.
    """
    checked: Iterator[Any] = (_batch(item) for item in batches)
    first = next(checked, None)
    if first is None:
        raise ValueError("There are no rows to count.")
    schema, held, rows = first.schema, [first], first.num_rows
    while pa.null() in schema.types and rows < _ROWS_AHEAD:
        try:
            batch = next(checked, None)
        except (pa.ArrowException, OSError) as error:
            checked = _broken_off(error)  # it is told where the rows are counted
            break
        if batch is None:
            break
        held.append(batch)
        rows += batch.num_rows
        schema = _completed(schema, batch.schema)
    return schema, chain(held, checked)


def _broken_off(error: Exception) -> Iterator[Any]:
    """Return the rest of a stream that broke off."""
    raise error
    yield  # this line makes it an iterator, which raises when it is asked


def _completed(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return a schema with the types that another one knows."""
    for k, field in enumerate(schema):
        if pa.types.is_null(field.type) and other.names.count(field.name) == 1:
            schema = schema.set(k, field.with_type(other.field(field.name).type))
    return schema


def _batch(item: Any) -> Any:
    if isinstance(item, (pa.RecordBatch, pa.Table)):
        return item
    if isinstance(item, pd.DataFrame):
        return _from_pandas(item)
    if hasattr(item, "__arrow_c_stream__"):
        return pa.table(item)
    if hasattr(item, "__arrow_c_array__"):
        return pa.record_batch(item)
    raise TypeError(
        f"The stream yields {type(item).__name__}, which is no Arrow batch: yield "
        "record batches or tables."
    )


def _is_spent(stream: Any) -> bool:
    """Whether a stream can be read but once."""
    return isinstance(stream, (pa.RecordBatchReader, Iterator))
