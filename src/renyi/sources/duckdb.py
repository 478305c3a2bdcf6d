"""DuckDB (the extra ``duckdb``) for files: queries, and conditions on their rows.

Cells of a CSV file are read by renyi first: numbers are numbers, and what means missing
is NULL. A condition such as ``year = 2024`` is a query that answers with the numbers of
the rows to keep. It has NULL for what means missing in files of all formats.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.files import first_line
from renyi.validation import import_extra

_ROWS = 2**17  # of a batch of answers
_NAMELESS = ("STAR", "POSITIONAL_REFERENCE")  # parts of SQL that mean any column
_READING = ("SELECT", "MULTI")  # MULTI: PIVOT
_PREPARING = {"ATTACH", "SET", "VARIABLE_SET", "LOAD"}
_BLOCK = 16  # bits of a row's number within its block
_FILE = 40  # bits of a row's number within its file
VIEW = "data"  # what a query calls the files that were given with it


class _Relation(Protocol):
    """What is needed of a relation of DuckDB."""

    def limit(self, rows: int) -> _Relation: ...

    def to_arrow_table(self) -> pa.Table: ...

    def fetch_record_batch(self, rows: int) -> pa.RecordBatchReader: ...


def quoted(name: str) -> str:
    """Return a name in SQL, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def duckdb_module() -> Any:
    """Return the engine's module; an error says how to install it if it is absent."""
    need = "Filters and queries on files need DuckDB"
    return import_extra("duckdb", "duckdb", need)


def arrow_schema(relation: _Relation) -> pa.Schema:
    """Return the schema of a relation, of which no row is read."""
    return relation.limit(0).to_arrow_table().schema


def arrow_batches(relation: _Relation) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a relation."""
    # Releases before 2.0 have but the older name.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    yield from read(_ROWS)


def invalid_filter(where: str, reason: str) -> ValueError:
    """Return the error of a filter that the engine does not take."""
    return ValueError(f"Invalid filter {where!r:.160}: {reason}")


def mentioned_columns(where: str, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition mentions; all if that cannot be found out.

    >>> mentioned_columns("Year = 2024 AND lower(sex) = 'f'", ["age", "sex", "year"])
    ['sex', 'year']
    """
    statement = _literal(f"SELECT 1 FROM t WHERE ({where}\n)")
    module = duckdb_module()
    with module.connect() as connection:
        try:
            answer = connection.sql(f"SELECT json_serialize_sql({statement})")
            tree = json.loads(answer.fetchall()[0][0])
        except module.Error:  # built without JSON
            return list(names)
    if tree.get("error"):
        return list(names)
    nodes = list(_nodes(tree))
    if any(node.get("class") in _NAMELESS for node in nodes):
        reason = "it must name each column, without *, COLUMNS() or #."
        raise invalid_filter(where, reason)
    meant = {n.lower() for node in nodes for n in node.get("column_names", ())}
    columns: dict[str, str] = {}
    for name in names:
        if name.lower() in meant and columns.setdefault(name.lower(), name) != name:
            both = f"{columns[name.lower()]!r} and {name!r}"
            reason = f"SQL cannot tell the columns {both} apart: rename one of them."
            raise invalid_filter(where, reason)
    return list(columns.values())


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield the parts of a statement that was parsed, without SELECT *."""
    if isinstance(tree, dict):
        if tree.get("type") == "SELECT_NODE":
            tree = {
                **tree,
                "select_list": [
                    node
                    for node in tree["select_list"]
                    if node.get("class") != "STAR" or node.get("columns")
                ],
            }
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _nodes(each)


class Stream:
    """Batches of some schema that DuckDB reads, as often as a query needs them."""

    def __init__(
        self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]
    ) -> None:
        self._schema = schema
        self._batches = batches
        self.error: ValueError | None = None  # DuckDB would show it as a traceback

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the batches from the first, as Arrow hands them over."""
        reader = pa.RecordBatchReader.from_batches(self._schema, self._read())
        return reader.__arrow_c_stream__(requested_schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except ValueError as error:
            self.error = ValueError(str(error))
            raise


class Query:
    """A SELECT statement, and the table function, `Stream` or data set it may name."""

    _settings: tuple[str, ...] = ()

    def __init__(self, sql: str, data: object = None) -> None:
        self._sql = sql
        self._data = data
        with self._answer() as answer:
            self.schema = arrow_schema(answer)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query, and yield its rows."""
        with self._answer() as answer:
            yield from arrow_batches(answer)

    @contextlib.contextmanager
    def _answer(self) -> Iterator[Any]:
        """Yield the answer, not computed yet; an error is one sentence."""
        module = duckdb_module()
        with module.connect() as connection:
            try:
                if isinstance(self._data, str):
                    connection.execute(f"CREATE VIEW {VIEW} AS FROM {self._data}")
                elif self._data is not None:
                    connection.register(VIEW, self._data)
                for setting in self._settings:
                    connection.execute(f"SET {setting}")
                _check_select(module, self._sql)
                answer = connection.sql(self._sql)
                if answer is None or not hasattr(answer, "columns"):
                    raise ValueError("The query returns no rows: give a SELECT.")
                yield answer
            except (module.Error, pa.ArrowException, OSError) as error:
                # While batches are read, Arrow hands errors on as one of the system.
                if isinstance(self._data, Stream) and self._data.error is not None:
                    raise self._data.error from None
                raise self._error(f"{first_line(error)}.") from None

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"The query failed: {reason}")


class Condition(Query):
    """A condition in SQL on the rows of a `Stream`, whose column `number` counts them.

    It needs no files: the rows are handed to it.
    """

    _settings = ("enable_external_access = false",)

    def __init__(self, where: str, stream: Stream, number: str) -> None:
        self._where = where
        sql = f"SELECT {quoted(number)} FROM {VIEW} WHERE ({where}\n)"
        super().__init__(sql, stream)

    def rows(self) -> RowSet:
        """Return the rows for which the condition is true."""
        chosen = RowSet()
        for batch in self.batches():
            chosen.add(batch.column(0).to_numpy())
        return chosen

    def _error(self, reason: str) -> ValueError:
        return invalid_filter(self._where, reason)


class RowSet:
    """Some rows of several files, which take a bit each."""

    def __init__(self) -> None:
        self._blocks: dict[int, NDArray[np.uint8]] = {}

    def add(self, numbers: NDArray[np.int64]) -> None:
        """Add rows by their numbers, see `row_numbers`."""
        for block in np.unique(numbers >> _BLOCK).tolist():
            places = numbers[numbers >> _BLOCK == block] & (2**_BLOCK - 1)
            bits = np.zeros(2**_BLOCK, bool)
            bits[places] = True
            packed = np.packbits(bits)
            self._blocks[block] = self._blocks.get(block, packed) | packed

    def chosen(self, file: int, start: int, rows: int) -> NDArray[np.bool_]:
        """Return which rows of a file are in the set, from the row `start` on."""
        first = row_numbers(file, start, 1)[0]
        last = first + rows
        low = first >> _BLOCK
        high = (last >> _BLOCK) + 1
        none = np.zeros(2**_BLOCK // 8, np.uint8)
        packed = [self._blocks.get(block, none) for block in range(low, high)]
        bits = np.unpackbits(np.concatenate(packed)).view(bool)
        offset = first - (low << _BLOCK)
        return bits[offset : offset + rows]


def row_numbers(file: int, start: int, rows: int) -> NDArray[np.int64]:
    """Return numbers that no other rows of any file have."""
    first = (file << _FILE) + start
    return np.arange(first, first + rows)


def _check_select(module: Any, sql: str) -> None:
    """Raise ValueError unless a query ends in a SELECT and nothing in it writes."""
    *before, last = [s.type.name for s in module.extract_statements(sql)] or [""]
    if last not in _READING or not {*before} <= _PREPARING:
        raise ValueError(
            "The query must be one SELECT statement, which only reads rows. ATTACH, "
            "SET and LOAD may come before it."
        )


def parquet_scan(paths: Sequence[str]) -> str:
    """Return the table function by which DuckDB reads Parquet files."""
    return f"read_parquet([{', '.join(map(_literal, paths))}], union_by_name = true)"
