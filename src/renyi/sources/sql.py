"""Marginals of a table in a database, over any DB-API 2 connection.

From a server (PostgreSQL and others) only counts leave: it is asked for the values of
each column with their counts, and for the counts of each pair of columns
(`renyi.sources.sql_counts`).

SQLite and DuckDB run inside this process, where reading rows is cheaper than counting
them in SQL: their tables are read as Arrow batches and counted as every other stream
is. DuckDB hands out Arrow batches with the types of its columns; intervals are
durations, with months of 30 days. SQLite has a type in every cell instead: which types
a column holds is asked first, and it gets

* the one type of its cells; integers and floats together are floats;
* the type of its numbers if its texts are all codes for a missing cell;
* otherwise no type. Rows are then put into batches in which such a column has one type
  each, and its labels and numbers are read from a dictionary, as in memory from a
  column of Python objects.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import (
    check_features,
    check_weight_column,
    missing_texts,
)
from renyi.files import first_line
from renyi.marginals.marginals import Marginals
from renyi.progress import ProgressCallback
from renyi.sources.databases import Database, Row
from renyi.sources.duckdb import invalid_filter
from renyi.sources.files import require
from renyi.sources.sql_counts import FilteredTable, Request, TableCounts
from renyi.streaming.run import Job, Source, Unit
from renyi.streaming.spec import CountSpec

_RUN_NOW = """\
-- Run now, since what follows depends on the answers: how many rows there are, and the
-- {} of each single column.
"""
_NOT_RUN = "-- Not run now, but when the table is counted: {}.\n"

# Texts and comments of SQL, and names in double quotes, which alone are a group.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|"((?:[^"]|"")*)\"""", re.DOTALL
)

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
_NUMBERS = frozenset({"integer", "real"})
_WORDS = frozenset({"text", "blob"})
# Types of cells in a column without a type: of two labels with the same text, the
# number gives its name.
_ORDER = (int, float, str, bytes, type(None))
_UNTYPED = pa.dictionary(pa.int32(), pa.binary())


def marginals(
    connection: Any,
    table: str | Sequence[str],
    target: str,
    columns: Sequence[str] | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    where: str | None = None,
    weight: str | None = None,
    progress: ProgressCallback | None = None,
) -> Marginals:
    """Count the pairs of columns of a table in a database; see `Marginals.from_sql`."""
    encoder = encoder or Encoder()
    requested = (table, target, columns, encoder, class_conditional, where, weight)
    database = Database(connection)
    with database.snapshot():
        return _opened(database, Request(*requested, progress)).count()


def statements(
    connection: Any,
    table: str | Sequence[str],
    target: str,
    columns: Sequence[str] | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    where: str | None = None,
    weight: str | None = None,
    explained: bool = False,
) -> list[str]:
    """Return every statement that `Marginals.from_sql` would send, in order.

    On servers, those about the number of rows and about single columns are run now,
    since bins and missing codes depend on the answers; those about pairs are not. Of
    SQLite and DuckDB, the types of the columns are asked for, and the statement that
    reads the rows is not run; where numbers must be binned, it is sent for these
    columns first, which is not listed. Left out is what is not about a table: in
    DuckDB, ``SELECT txid_current()``, sent twice to learn whether a transaction is
    under way.

    Parameters
    ----------
    connection, table, target, columns, encoder, class_conditional, where, weight
        As in `Marginals.from_sql`.
    explained : bool, default=False
        Say in comments of SQL which statements are run now, and which are not.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE t (a TEXT, y INTEGER)")
    >>> _ = connection.execute("INSERT INTO t VALUES ('n', 0), ('y', 1)")
    >>> connection.commit()
    >>> print(*statements(connection, "t", "y", where="y < 5")[-2:], sep="; ")
    SELECT +`a` AS `a`, +`y` AS `y` FROM `t` WHERE (y < 5); ROLLBACK
    >>> connection.close()
    """
    encoder = encoder or Encoder()
    requested = (table, target, columns, encoder, class_conditional, where, weight)
    database = Database(connection)
    with database.snapshot():
        counted = _opened(database, Request(*requested))
        later = counted.statements()
        if explained:
            database.sent[0] = _RUN_NOW.format(counted.run_now) + database.sent[0]
            later[0] = _NOT_RUN.format(counted.run_later) + later[0]
        database.sent += later
    return database.sent


def _opened(database: Database, request: Request) -> TableRows | TableCounts:
    """Return the rows that are asked for, checked, ready to be counted."""
    table, target, columns, encoder, _, where, weight, _ = request
    if encoder.order > 1:
        raise ValueError(
            f"A database is counted by single columns, not by {encoder.order}: give "
            "an encoder of order 1."
        )
    there = database.columns(table)
    if columns is None and encoder.columns:
        columns = encoder.feature_names
    elif columns is None:
        columns = [name for name in there if name not in (target, weight)]
    elif encoder.columns:
        encoder = encoder.select(columns)
    request = request._replace(columns=columns, encoder=encoder)
    parts = table.split(".") if isinstance(table, str) else table
    require(f"The table {'.'.join(parts)!r}", there, request.names)
    check_weight_column(weight, target)
    for name, count in Counter(request.names).items():
        if count > 1:
            raise ValueError(f"Column {name!r} is named twice: name it once.")
    check_features(columns, target)
    if not encoder.columns:
        encoder.numeric_names(columns)
    rows = FilteredTable(database.dialect, database.dialect.table(table))
    if where:
        if database.dialect.name == "sqlite":
            _check_quoted(where, [*there, *parts, "rowid"])
        end = "\n" if "--" in where else ""  # a comment would swallow the bracket
        rows = rows.where(f"({where}{end})")
    try:
        sql = f"SELECT COUNT(*) FROM {rows.source()}"
        ((total,),) = database.fetch(sql, "the number of rows")
    except ValueError as error:
        if not where:
            raise
        reason = first_line(error.__cause__ or error)
        raise invalid_filter(where, f"{reason}.") from None
    if not total:
        which = "no rows" if not where else f"no rows where {where!r:.160}"
        raise ValueError(f"The table {table!r} has {which}: nothing to count.")
    if database.dialect.embedded:
        return TableRows(database, request, rows, total)
    return TableCounts(database, request, rows)


def _check_quoted(where: str, names: Sequence[str]) -> None:
    """Refuse a name in double quotes that is no column: SQLite would take it as text.

    Of a condition with a SELECT, names may be those of another table.
    """
    if re.search(r"\bselect\b", where, re.IGNORECASE):
        return
    known = {name.lower() for name in names}
    for text in _QUOTED.findall(where):
        name = text.replace('""', '"')
        if name and name.lower() not in known:
            reason = f"there is no column {name!r:.60}; put text in single quotes."
            raise invalid_filter(where, reason)


# ---- DuckDB and SQLite


class _Column(NamedTuple):
    """A column of the batches: its name, what is selected, and its type if any."""

    name: str
    expression: str
    type: pa.DataType | None


class TableRows:
    """The rows of a table, `total` in number; each pass may read some columns."""

    run_now = "types"
    run_later = "reading the rows"

    def __init__(
        self,
        database: Database,
        request: Request,
        table: FilteredTable,
        total: int,
    ) -> None:
        self._database = database
        self._request = request
        self._table = table
        self._total = total
        self._under_way = ExitStack()  # the statement whose rows are read
        self._columns: dict[str, _Column] = {}
        if database.dialect.name == "sqlite":
            for name, kinds in self._cell_types(request.names):
                self._columns[name] = self._typed(name, kinds)
            return
        for name in request.names:
            span = str(database.kinds[name]) == "INTERVAL"
            kind = pa.duration("us") if span else None
            self._columns[name] = _Column(name, database.expression(name), kind)

    def statements(self) -> list[str]:
        """Return the statement that reads all columns."""
        return [self._statement(self._columns)]

    def count(self) -> Marginals:
        """Count the rows, as every other stream is counted."""
        _, target, _, encoder, class_conditional, _, weight, progress = self._request
        given = [_UNTYPED] * len(self._columns)
        if self._database.dialect.name == "duckdb":
            sql = self._statement(self._columns)
            given = self._database.arrow_schema(sql, "the types").types
        columns = zip(self._columns.values(), given, strict=True)
        schema = pa.schema([(c.name, c.type or kind) for c, kind in columns])
        spec = CountSpec.of(schema, target, encoder, class_conditional, weight)
        with self._under_way:
            job = Job(Source(schema, self._units), spec, progress=progress)
            return job.count().finish()

    def _statement(self, names: Iterable[str]) -> str:
        return self._table.select({n: self._columns[n].expression for n in names})

    def _units(self, names: list[str]) -> Iterator[Unit]:
        """Yield the rows of one pass, many at a time."""
        batches = self._batches(names)
        count = math.ceil(self._total / _UNIT_ROWS)
        for number in range(count):
            most = _UNIT_ROWS if number < count - 1 else math.inf
            yield Unit(0, number, 1 / count, partial(_first_rows, batches, most))

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        self._under_way.close()
        sql = self._statement(names)
        columns = [self._columns[name] for name in names]
        if self._database.dialect.name == "duckdb":
            found = closing(self._database.fetch_arrow(sql, "the rows"))
            for batch in self._under_way.enter_context(found):
                arrays = [  # microseconds are the durations they are
                    cells if column.type is None else cells.cast(column.type)
                    for column, cells in zip(columns, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
            return
        read = closing(self._database.fetch_blocks(sql, "the rows"))
        for block in self._under_way.enter_context(read):
            for rows in _of_one_type(columns, block):
                yield self._batch(columns, rows)

    def _cell_types(self, names: list[str]) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the types of the cells of each column of SQLite, but for NULL."""
        for k in range(0, len(names), _COLUMNS_AT_ONCE):
            some = names[k : k + _COLUMNS_AT_ONCE]
            quoted = map(self._database.dialect.identifier, some)
            types = ", ".join(f"typeof({column})" for column in quoted)
            sql = f"SELECT DISTINCT {types} FROM {self._table.source()}"
            rows = self._database.fetch(sql, f"the types of {some[0]!r} and others")
            for name, kinds in zip(some, zip(*rows, strict=True), strict=True):
                yield name, frozenset(kinds) - {"null"}

    def _typed(self, name: str, kinds: frozenset[str]) -> _Column:
        dialect = self._database.dialect
        column = dialect.identifier(name)
        # A plus sign changes nothing, but keeps converters of the driver away.
        bare = f"+{column}"
        real = dialect.as_double(column)
        if kinds <= _NUMBERS or len(kinds) == 1:
            return _Column(name, real if len(kinds) == 2 else bare, _TYPES[kinds])
        if kinds <= _WORDS:
            return _Column(name, f"CAST({column} AS BLOB)", pa.binary())
        # Whether some texts do not mean a missing cell.
        is_text = dialect.is_of(column, sorted(_WORDS))
        missing = sorted(missing_texts(self._request.encoder.missing))
        codes = ", ".join(map(dialect.string, missing))
        is_word = f"{dialect.as_text(column)} NOT IN ({codes})"
        words = self._table.where(is_text, is_word).source()
        if self._database.fetch(f"SELECT 1 FROM {words} LIMIT 1", repr(name)):
            return _Column(name, bare, None)
        numbers = kinds & _NUMBERS
        value = real if "real" in numbers else column
        made = f"CASE WHEN {is_text} THEN NULL ELSE {value} END"
        return _Column(name, made, _TYPES[numbers])

    def _batch(self, columns: list[_Column], rows: list[Row]) -> pa.RecordBatch:
        """Return rows of SQLite; a column without a type is a dictionary of labels."""
        arrays = {}
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            array = pa.array(values, column.type)
            if column.type is None and column.name != self._request.weight:
                if pa.types.is_null(array.type) or pa.types.is_string(array.type):
                    array = array.cast(pa.binary())
                array = array.dictionary_encode()
            arrays[column.name] = array
        return pa.RecordBatch.from_pydict(arrays)


def _first_rows(
    batches: Iterator[pa.RecordBatch], most: float
) -> Iterator[pa.RecordBatch]:
    """Yield batches until there are so many rows."""
    for batch in batches:
        yield batch
        most -= batch.num_rows
        if most <= 0:
            return


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
