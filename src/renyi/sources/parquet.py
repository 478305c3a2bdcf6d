"""Parquet files: their row groups are read one by one, with only the columns needed.

Columns of text come as dictionaries, as most files hold them: the labels of a row group
are then looked at once, not in every row. A large row group is read batch by batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from renyi.sources.complaints import unreadable
from renyi.streaming.run import Unit

ENDINGS = (".parquet", ".pq")
_ROWS = 2**18  # of a batch


def read_schema(path: Path) -> pa.Schema:
    """Return names and types of the columns, without the index that pandas stores."""
    try:
        schema = pa.parquet.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_damaged(path, error)) from None
    return without_index(schema)


def without_index(schema: pa.Schema) -> pa.Schema:
    """Return a schema without unnamed indices, which are no data of the user's.

    >>> without_index(pa.schema({"a": pa.int8(), "__index_level_0__": pa.int64()}))
    a: int8
    """
    fields = [f for f in schema if not re.fullmatch(r"__index_level_\d+__", f.name)]
    return pa.schema(fields)


def read_whole(path: Path, columns: list[str]) -> pa.Table:
    """Read some columns of a file at once."""
    try:
        table = pa.parquet.read_table(
            path, columns=columns, page_checksum_verification=True
        )
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_damaged(path, error)) from None
    if not table.num_rows:
        raise ValueError(f"{path} has no rows: there is nothing to read.")
    return table.select(columns).replace_schema_metadata(None)


def units(file: int, path: Path, columns: Sequence[str]) -> Iterator[Unit]:
    """Yield the row groups of a file."""
    try:
        metadata = pa.parquet.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_damaged(path, error)) from None
    texts = _texts(metadata.schema.to_arrow_schema(), columns)
    total = max(metadata.num_rows, 1)

    def read(group: int) -> Iterator[pa.RecordBatch]:
        try:
            # Threads may not share a reader.
            with pa.parquet.ParquetFile(
                path,
                metadata=metadata,
                read_dictionary=texts,
                page_checksum_verification=True,
            ) as reader:
                for batch in reader.iter_batches(
                    _ROWS, [group], list(columns), use_threads=False
                ):
                    # A damaged page may hold indices beyond its dictionary.
                    batch.validate(full=True)
                    yield batch.select(list(columns))
        except (pa.ArrowException, OSError) as error:
            raise ValueError(_damaged(path, error)) from None

    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        yield Unit(file, group, rows / total, partial(read, group))


def _texts(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Return the columns that are read as dictionaries."""

    def is_text(kind: Any) -> bool:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    return [name for name in columns if is_text(schema.field(name).type)]


def _damaged(path: Path, error: Exception) -> str:
    what = "is damaged or no Parquet file"
    return unreadable(path, error, what, "take a fresh copy")
