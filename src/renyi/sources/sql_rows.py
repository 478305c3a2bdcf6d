"""Rows of a table of SQLite or DuckDB, read in this process as Arrow batches.

DuckDB hands out Arrow batches with the types of its columns; intervals are durations,
with months of 30 days. SQLite has a type in every cell instead: which types a column
holds is asked first, and it gets

* the one type of its cells; integers and floats together are floats;
* the type of its numbers if its texts are all codes for a missing cell;
* otherwise no type. Rows are then put into batches in which such a column has one type
  each, and its labels and numbers are read from a dictionary, as in memory from a
  column of Python objects.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from renyi.sources.databases import Database, Row
from renyi.sources.pair_queries import FilteredTable
from renyi.streaming.run import Source, Unit

_UNIT_ROWS = 2**18  # that are counted before progress is reported
# SELECT DISTINCT of so many columns' types has few rows, missing cells or not.
_COLUMNS_AT_ONCE = 8
_TYPES = {
    frozenset[str](): pa.null(),
    frozenset({"integer"}): pa.int64(),
    frozenset({"real"}): pa.float64(),
    frozenset({"integer", "real"}): pa.float64(),
    frozenset({"text"}): pa.string(),
    frozenset({"blob"}): pa.binary(),
}
_NUMBERS, _WORDS = frozenset({"integer", "real"}), frozenset({"text", "blob"})
# Types of cells in a column without a type: of two labels with the same text, the
# number gives its name.
_ORDER = (int, float, str, bytes, type(None))
_UNTYPED = pa.dictionary(pa.int32(), pa.binary())


class _Column(NamedTuple):
    """A column of the batches: its name, what is selected, and its type if any."""

    name: str
    expression: str
    type: pa.DataType | None


class TableRows:
    """Some columns of a table, and its weights; each pass may read some of them.

    `total` is the number of rows, `missing` the texts that mean a missing cell.
    """

    def __init__(
        self,
        database: Database,
        table: FilteredTable,
        names: Sequence[str],
        weight: str | None,
        total: int,
        missing: Collection[str],
    ) -> None:
        self._database, self._table, self._total = database, table, total
        self._weight = weight
        self._open: Generator[Any] | None = None
        names = [*names] if weight is None else [*names, weight]
        if database.dialect.name == "duckdb":
            columns = [self._of_duckdb(name) for name in names]
        else:
            kinds = self._cell_types(names)
            columns = [self._typed(name, kinds[name], missing) for name in names]
        self._columns = {column.name: column for column in columns}

    def statement(self, names: Sequence[str] | None = None) -> str:
        """Return the statement that reads all or some of the columns."""
        chosen = self._columns if names is None else names
        return self._table.select({n: self._columns[n].expression for n in chosen})

    def source(self) -> Source:
        """Return the rows as the passes of a count read them."""
        if self._database.dialect.name == "duckdb":
            schema = self._database.arrow_schema(self.statement(), "the types")
            made = [self._columns[f.name].type or f.type for f in schema]
        else:
            made = [column.type or _UNTYPED for column in self._columns.values()]
        schema = pa.schema(list(zip(self._columns, made, strict=True)))
        return Source(schema, self._units)

    def _units(self, names: list[str]) -> Iterator[Unit]:
        """Yield the rows of one pass, many at a time."""
        batches, count = self._batches(names), math.ceil(self._total / _UNIT_ROWS)
        for number in range(count):
            most = _UNIT_ROWS if number < count - 1 else math.inf
            yield Unit(0, number, 1 / count, partial(_first_rows, batches, most))

    def close(self) -> None:
        """End the statement that is under way, if any."""
        if self._open is not None:
            self._open.close()

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        self.close()
        sql, columns = self.statement(names), [self._columns[name] for name in names]
        if self._database.dialect.name == "duckdb":
            self._open = self._database.fetch_arrow(sql, "the rows")
            for batch in self._open:
                yield _with_durations(columns, batch)
            return
        self._open = self._database.fetch_blocks(sql, "the rows")
        for block in self._open:
            for rows in _of_one_type(columns, block):
                yield self._batch(columns, rows)

    # ---- DuckDB

    def _of_duckdb(self, name: str) -> _Column:
        if not self._database.is_interval(name):
            return _Column(name, self._database.expression(name), None)
        return _Column(name, f"epoch_us({self._quoted(name)})", pa.duration("us"))

    # ---- SQLite

    def _cell_types(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return the types of the cells of each column, but for NULL."""
        found: dict[str, frozenset[str]] = {}
        for k in range(0, len(names), _COLUMNS_AT_ONCE):
            some = names[k : k + _COLUMNS_AT_ONCE]
            types = [f"typeof({self._quoted(name)})" for name in some]
            sql = f"SELECT DISTINCT {', '.join(types)} FROM {self._table.source()}"
            rows = self._database.fetch(sql, f"the types of {some[0]!r} and others")
            for name, kinds in zip(some, zip(*rows, strict=True), strict=True):
                found[name] = frozenset(kinds) - {"null"}
        return found

    def _quoted(self, name: str) -> str:
        return self._database.dialect.identifier(name)

    def _typed(
        self, name: str, kinds: frozenset[str], missing: Collection[str]
    ) -> _Column:
        column, dialect = self._quoted(name), self._database.dialect
        # A plus sign changes nothing, but keeps converters of the driver away.
        bare, real = f"+{column}", dialect.as_double(column)
        if kinds <= _NUMBERS or len(kinds) == 1:
            return _Column(name, real if len(kinds) == 2 else bare, _TYPES[kinds])
        if kinds <= _WORDS:
            return _Column(name, f"CAST({column} AS BLOB)", pa.binary())
        if self._has_words(name, missing):
            return _Column(name, bare, None)
        numbers = kinds & _NUMBERS
        value, is_text = real if "real" in numbers else column, self._is_text(name)
        made = f"CASE WHEN {is_text} THEN NULL ELSE {value} END"
        return _Column(name, made, _TYPES[numbers])

    def _is_text(self, name: str) -> str:
        return self._database.dialect.is_of(self._quoted(name), sorted(_WORDS))

    def _has_words(self, name: str, missing: Collection[str]) -> bool:
        """Whether some texts of a column do not mean a missing cell."""
        column, dialect = self._quoted(name), self._database.dialect
        codes = ", ".join(map(dialect.string, sorted(missing)))
        is_word = f"{dialect.as_text(column)} NOT IN ({codes})"
        words = self._table.where(self._is_text(name), is_word).source()
        return bool(self._database.fetch(f"SELECT 1 FROM {words} LIMIT 1", repr(name)))

    def _batch(self, columns: list[_Column], rows: list[Row]) -> pa.RecordBatch:
        arrays, cells = [], zip(*rows, strict=True)
        for column, values in zip(columns, cells, strict=True):
            array = pa.array(values, column.type)
            if column.type is None and column.name != self._weight:
                array = _dictionary(array)
            arrays.append(array)
        names = [column.name for column in columns]
        return pa.RecordBatch.from_arrays(arrays, names=names)


def _first_rows(
    batches: Iterator[pa.RecordBatch], most: float
) -> Iterator[pa.RecordBatch]:
    """Yield batches until there are so many rows."""
    for batch in batches:
        yield batch
        most -= batch.num_rows
        if most <= 0:
            return


def _with_durations(columns: list[_Column], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return microseconds as the durations they are."""
    for k, column in enumerate(columns):
        if column.type is not None:
            cells = batch.column(k).cast(column.type)
            batch = batch.set_column(k, column.name, cells)
    return batch


def _of_one_type(columns: list[_Column], block: list[Row]) -> Iterator[list[Row]]:
    """Yield rows in which each column without a type holds cells of one type."""
    mixed = [j for j, column in enumerate(columns) if column.type is None]
    if not mixed:
        yield block
        return
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in block:
        key = tuple(_ORDER.index(type(row[j])) for j in mixed)
        groups.setdefault(key, []).append(row)
    yield from (groups[key] for key in sorted(groups))


def _dictionary(array: Any) -> Any:
    """Return cells of a column without a type so that batches of any type go together.

    A dictionary of numbers or bytes is one of labels, whatever its values.
    """
    if pa.types.is_null(array.type) or pa.types.is_string(array.type):
        array = array.cast(pa.binary())
    return array.dictionary_encode()
