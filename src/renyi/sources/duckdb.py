"""DuckDB (the extra ``duckdb``) as embedded engine: conditions on rows, and queries.

A condition such as ``year = 2024`` is asked of each batch that was read: DuckDB says
which rows to keep, and their cells stay as they were read. All is as if the other rows
were not in the file: a word in one of them does not make labels of a CSV column of
numbers. A column of a CSV file that begins as numbers is compared as numbers.

A query may be anything that DuckDB can answer; its rows come in batches. Cells of CSV
files are read by renyi for it, so that they are the same as without a query.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from renyi.sources.complaints import first_line

_ROWS = 2**17  # of a batch of answers
_PLACE = "row number"  # added to the rows that a condition sees
VIEW = "data"
"""The name by which a query knows the files that were given with it."""


def duckdb() -> Any:
    """Return the engine's module; a sentence says how to install it if it is absent."""
    try:
        import duckdb as module
    except ImportError:
        raise ImportError(
            "Conditions and queries on files need DuckDB: install the extra with "
            "pip install 'renyi[duckdb]'."
        ) from None
    return module


def quoted(name: str) -> str:
    """Return a name as SQL writes it.

    >>> quoted('x"; drop table t; --')
    '"x""; drop table t; --"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL writes it.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


class Condition:
    """A condition on rows in SQL, asked of batch after batch.

    Parameters
    ----------
    where : str
        The condition, as it would stand after WHERE.
    schema : pyarrow.Schema
        Names and types of the columns it may speak of.
    types : mapping of name to str
        Columns of text that are compared as a type of SQL's; a text that is none of it
        is NULL.

    Examples
    --------
    >>> batch = pa.record_batch({"year": [2023, 2024], "y": ["a", "b"]})
    >>> Condition("Year = 2024", batch.schema).kept(batch).to_pylist()
    [{'year': 2024, 'y': 'b'}]
    """

    def __init__(
        self, where: str, schema: pa.Schema, types: Mapping[str, str] | None = None
    ) -> None:
        self._own = threading.local()
        self._connection = duckdb().connect()
        # A condition needs no files; the rows are handed to it.
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET threads = 1")
        self.columns = spoken_of(where, schema.names)
        cells = [_cell(name, (types or {}).get(name)) for name in self.columns]
        self._query = (
            f"SELECT {quoted(_PLACE)} FROM (SELECT "
            f"{', '.join([*cells, quoted(_PLACE)])} FROM batch) WHERE ({where}\n)"
        )
        empty = schema.empty_table().select(self.columns)
        self._where = where
        self.kept(pa.RecordBatch.from_arrays(_arrays(empty), names=self.columns))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        places = pa.array(np.arange(batch.num_rows, dtype=np.int32))
        seen = pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in self.columns), places],
            names=[*self.columns, _PLACE],
        )
        connection = self._cursor()
        try:
            connection.register("batch", pa.Table.from_batches([seen]))
            found = connection.sql(self._query).to_arrow_table()
        except duckdb().Error as error:
            raise ValueError(
                f"The condition {self._where!r:.160} cannot be asked: "
                f"{first_line(error)}."
            ) from None
        mask = np.zeros(batch.num_rows, bool)
        mask[found.column(0).to_numpy()] = True
        return batch if mask.all() else batch.filter(pa.array(mask))

    def _cursor(self) -> Any:
        """Return a connection of this thread's own."""
        if not hasattr(self._own, "cursor"):
            self._own.cursor = self._connection.cursor()
        return self._own.cursor


def spoken_of(where: str, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition speaks of; all if that cannot be found out.

    >>> spoken_of("Year = 2024 AND lower(sex) = 'f'", ["age", "sex", "year"])
    ['sex', 'year']
    """
    statement = literal(f"SELECT 1 FROM batch WHERE ({where}\n)")
    with duckdb().connect() as connection:
        try:
            answer = connection.sql(f"SELECT json_serialize_sql({statement})")
            tree = json.loads(answer.fetchall()[0][0])
        except duckdb().Error:  # built without JSON
            return list(names)
    if tree.get("error"):
        return list(names)
    spoken = {name.lower() for name in _references(tree)}
    return [name for name in names if name.lower() in spoken]


def _cell(name: str, kind: str | None) -> str:
    if kind is None:
        return quoted(name)
    return f"TRY_CAST({quoted(name)} AS {kind}) AS {quoted(name)}"


def _arrays(table: pa.Table) -> list[Any]:
    return [pa.array([], column.type) for column in table.columns]


def _references(tree: Any) -> Iterator[str]:
    """Yield the names of the columns in a statement that was parsed."""
    if isinstance(tree, dict):
        if tree.get("class") == "COLUMN_REF":
            yield from tree["column_names"]
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _references(each)


class Stream:
    """Batches that DuckDB reads, as often as a query needs them.

    Parameters
    ----------
    schema : pyarrow.Schema
        Names and types of their columns.
    batches : callable
        Returns an iterator over all of them, from the first.

    Examples
    --------
    >>> batch = pa.record_batch({"a": [1, 2]})
    >>> twice = "SELECT d.a FROM data d JOIN data e ON d.a = e.a"
    >>> query = Query(twice, Stream(batch.schema, lambda: iter([batch])))
    >>> [batch.num_rows for batch in query.batches()]
    [2]
    """

    def __init__(
        self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]
    ) -> None:
        self._schema, self._batches = schema, batches
        self.error: ValueError | None = None  # DuckDB would tell it as a traceback

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
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
    """A query whose answer is read in batches, as often as needed.

    Parameters
    ----------
    sql : str
        One SELECT statement.
    data : str, Stream or pyarrow.dataset.Dataset, optional
        What it may name as the table `data`; a str is a table function of DuckDB's.

    Examples
    --------
    >>> query = Query("SELECT 1 AS a, 'x' AS y")
    >>> query.schema.names, [batch.num_rows for batch in query.batches()]
    (['a', 'y'], [1])
    """

    def __init__(self, sql: str, data: Any = None) -> None:
        self._sql, self._data = sql, data
        with self._answer() as answer:
            self.schema: pa.Schema = answer.limit(0).to_arrow_table().schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query, and yield its rows."""
        with self._answer() as answer:
            # Releases before 2.0 have but the older name.
            read = getattr(answer, "to_arrow_reader", None)
            yield from (read or answer.fetch_record_batch)(_ROWS)

    @contextlib.contextmanager
    def _answer(self) -> Iterator[Any]:
        """Yield the answer, not computed yet; errors are told in a sentence."""
        module = duckdb()
        with module.connect() as connection:
            try:
                if isinstance(self._data, str):
                    connection.execute(f"CREATE VIEW {VIEW} AS FROM {self._data}")
                elif self._data is not None:
                    connection.register(VIEW, self._data)
                answer = connection.sql(self._sql)
                if answer is None or not hasattr(answer, "columns"):
                    raise ValueError("The query returns no rows: give a SELECT.")
                yield answer
            except (module.Error, pa.ArrowException, OSError) as error:
                # While batches are read, Arrow hands errors on as one of the system.
                if isinstance(self._data, Stream) and self._data.error is not None:
                    raise self._data.error from None
                raise ValueError(
                    f"The query cannot be run: {first_line(error)}."
                ) from None


def scan(reader: str, files: Sequence[Path]) -> str:
    """Return the table function by which DuckDB reads some files.

    >>> scan("read_parquet", [Path("it's.parquet")])
    "read_parquet(['it''s.parquet'], union_by_name = true)"
    """
    names = ", ".join(literal(str(path)) for path in files)
    return f"{reader}([{names}], union_by_name = true)"
