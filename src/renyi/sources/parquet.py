"""Parquet files: their row groups are read one by one, with only the columns needed.

Columns of text come as dictionaries, as most files hold them: the labels of a row group
are then looked at once, not in every row. A large row group is read batch by batch.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from renyi.storage import unreadable
from renyi.streaming.run import Unit

_ROWS = 2**18  # of a batch
_WHAT = "is not a valid Parquet file"


@contextlib.contextmanager
def naming_errors(path: Path, what: str) -> Iterator[None]:
    """Let an error of Arrow's or of the system name the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise ValueError(unreadable(path, error, what, "take a fresh copy")) from None


class ParquetFile:
    """A Parquet file, whose footer is read once."""

    ENDINGS = (".parquet", ".pq")

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming_errors(path, _WHAT):
            self._metadata = pa.parquet.read_metadata(path)
            self._types = self._metadata.schema.to_arrow_schema()
            self.schema = without_index(self._types)

    def read_whole(self, columns: list[str]) -> pa.Table:
        """Read some columns at once."""
        with naming_errors(self.path, _WHAT):
            table = pa.parquet.read_table(
                self.path, columns=columns, page_checksum_verification=True
            )
            table.validate(full=True)
        return table.select(columns).replace_schema_metadata(None)

    def units(self, file: int, columns: Sequence[str]) -> Iterator[Unit]:
        """Yield the row groups; the file is number `file` of several."""
        columns = list(columns)
        texts = [name for name in columns if _is_text(self._types.field(name).type)]
        total = max(self._metadata.num_rows, 1)

        def read(group: int) -> Iterator[pa.RecordBatch]:
            # Threads may not share a reader.
            with (
                naming_errors(self.path, _WHAT),
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
                    batch.validate(full=True)
                    yield batch.select(columns)

        for group in range(self._metadata.num_row_groups):
            rows = self._metadata.row_group(group).num_rows
            yield Unit(file, group, rows / total, partial(read, group))


def without_index(schema: pa.Schema) -> pa.Schema:
    """Return a schema without unnamed indices of pandas, which are no data."""
    fields = [f for f in schema if not re.fullmatch(r"__index_level_\d+__", f.name)]
    return pa.schema(fields)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
