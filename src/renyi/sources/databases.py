"""Database: a DB-API connection that runs one statement after the other.

All answers should be about the same rows. Where an engine can hold a snapshot and no
transaction is under way, one is begun, read only where that can be said, and rolled
back at the end; otherwise counts are compared with one another, which notices rows that
come or go. Every statement that is sent is kept, for whoever has to approve it.
"""

from __future__ import annotations

import datetime
import decimal
import sqlite3
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from renyi import endings
from renyi.encoding.columns import decimal_number
from renyi.files import first_line, unreadable
from renyi.sources.dialects import dialect_of
from renyi.sources.duckdb import arrow_batches, arrow_schema, duckdb_module

_ROWS_AT_ONCE = 10_000
_CURSOR = '"renyi_values"'
_IDLE = 0  # of libpq's states of a transaction
# PostgreSQL's numbers of some types; the reals are real, double and numeric.
_BOOLEAN = 16
_SINGLE = 700
_REALS = (_SINGLE, 701, 1700)
_TEXTS = (25, 1043)
_PADDED = 1042
_ZONED = 1184
# With 4 MB, PostgreSQL sorts the rows for each of many tables instead of hashing them
# once: 12 s where 3 s are enough. The setting ends with the transaction.
_MORE_MEMORY = (
    "SELECT set_config('work_mem', '64MB', true) "
    "WHERE pg_size_bytes(current_setting('work_mem')) < 67108864"
)
_TIMES = (datetime.date, datetime.time, datetime.timedelta)
_PLAIN = (str, int, float, bytes, *_TIMES)
# A stranger's database may hold views that read any file of this machine.
_CLOSED = {
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_persistent_secrets": False,
    "lock_configuration": True,
}
_CLOSED_LITE = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON")
_MAX_CELL = 2**24  # bytes of a cell of SQLite
_STEPS = 10**6  # of SQLite between two looks for Ctrl-C

Row = Sequence[Any]


class QueryError(ValueError):
    """A statement that failed."""


class OutsideError(QueryError):
    """A view asked for what is outside its database (`opened`)."""


class Database:
    """A DB-API connection of any driver, its dialect, and the statements sent to it."""

    def __init__(self, connection: Any) -> None:
        if not callable(getattr(connection, "cursor", None)):
            raise TypeError(
                "The connection must be a DB-API one, with a method cursor(), not a "
                f"{type(connection).__name__}: for SQLAlchemy, pass "
                "engine.raw_connection()."
            )
        self.connection = connection
        self.dialect = dialect_of(connection)
        self.sent: list[str] = []
        self.reals: frozenset[str] = frozenset()  # columns that are floats by type
        self.kinds: dict[str, Any] = {}  # of columns, as the driver calls them
        self._own = False  # whether the transaction under way is ours
        self._table = ""  # whose columns were asked for

    def fetch(self, sql: str, what: str) -> list[Row]:
        """Return the rows of a statement; `what` says in words what it is for."""
        self.sent.append(sql)
        return list(chain.from_iterable(self._blocks(sql, what)))

    def fetch_blocks(self, sql: str, what: str) -> Generator[list[Row]]:
        """Yield the rows of a statement in blocks, none of which is kept."""
        if self.dialect.name != "postgres":
            self.sent.append(sql)
            yield from self._blocks(sql, what)
            return
        # Its drivers fetch a whole answer at once, unless a cursor of the server holds
        # it: WITH HOLD, for a connection that is in no transaction.
        self.fetch(f"DECLARE {_CURSOR} NO SCROLL CURSOR WITH HOLD FOR\n{sql}", what)
        fetch = f"FETCH {_ROWS_AT_ONCE} FROM {_CURSOR}"
        close = f"CLOSE {_CURSOR}"
        self.sent += [fetch, close]  # as often as there are rows, and once
        own = self._own
        try:
            while block := list(chain.from_iterable(self._blocks(fetch, what))):
                yield block
        finally:
            # A cursor ends with its transaction: to close it then would begin a new
            # one, in which it fails.
            if self._own == own:
                with suppress(Exception), self._executed(close):
                    pass

    def fetch_arrow(self, sql: str, what: str) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement of DuckDB's as Arrow batches."""
        self.sent.append(sql)
        with self._reporting(what):
            yield from arrow_batches(self.connection.sql(sql))

    def arrow_schema(self, sql: str, what: str) -> pa.Schema:
        """Return the schema of a statement of DuckDB's, of which no row is read."""
        with self._reporting(what):
            return arrow_schema(self.connection.sql(sql))

    def columns(self, table: str | Sequence[str]) -> list[str]:
        """Return the names of a table's columns."""
        text = table.strip().lower() if isinstance(table, str) else ""
        if text.startswith(("(", "select ", "with ")):
            raise ValueError(
                f"The table must be the name of a table or a view, not a query "
                f"({table!s:.60}): make a view of it, or give a condition "
                "(in Python, where=; on the command line, --where)."
            )
        if not table or not all(table):
            raise ValueError("The name of the table is empty.")
        sql = f"SELECT * FROM {self.dialect.table(table)} WHERE 1 = 0"
        self._table = shown = table if isinstance(table, str) else ".".join(table)
        self.sent.append(sql)
        try:
            what = f"the columns of {shown!r}"
            with self._reporting(what), self._executed(sql) as cursor:
                description = cursor.description
                cursor.fetchall()  # there are none, which some drivers must be told
        except ValueError as error:
            if _is_aborted(error) or isinstance(error, OutsideError):
                raise
            reason = first_line(error.__cause__ or error)
            raise ValueError(
                f"There is no table {shown!r} to read ({reason}): {self._hint(shown)}"
            ) from error.__cause__
        self.kinds = {str(entry[0]): entry[1] for entry in description}
        if self.dialect.name == "postgres":
            reals = [entry for entry in description if entry[1] in _REALS]
            self.reals = frozenset(entry[0] for entry in reals if entry[5] != 0)
        return [str(entry[0]) for entry in description]

    def expression(self, name: str) -> str:
        """Return a column in a form that neither drivers nor Arrow would change."""
        dialect = self.dialect
        kind = self.kinds.get(name)
        column = dialect.identifier(name)
        if dialect.name == "postgres":
            forms = {
                _SINGLE: dialect.as_double,
                _PADDED: dialect.as_text,  # without the spaces that fill it up
                _ZONED: dialect.in_utc,
                **dict.fromkeys(_TEXTS, dialect.by_letters),
            }
            return forms[kind](column) if kind in forms else column
        if dialect.name == "duckdb":
            if str(kind) == dialect.zoned:
                return dialect.in_utc(column)
            if str(kind) in (dialect.date, *dialect.moments):
                # Some have no place in Arrow, such as infinity.
                return dialect.by_letters(dialect.moment_text(column))
            if str(kind) == "TIME WITH TIME ZONE":
                return dialect.as_text(column)
            if str(kind) == "INTERVAL":
                return f"epoch_us({column})"
        return column

    def number(self, name: str) -> str:
        """Return a column in a form that a float can be made of: truths as 1 and 0."""
        column = self.dialect.identifier(name)
        truth = self.dialect.name == "postgres" and self.kinds.get(name) == _BOOLEAN
        return f"CAST({column} AS INTEGER)" if truth else column

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all statements inside be about the same rows, if the engine can."""
        try:
            self._begin()
        except (ValueError, ConnectionError):
            raise
        except Exception as error:
            raise self._failure(error, "a snapshot") from error
        try:
            yield
        finally:
            self._end()

    # ---- statements

    def _blocks(self, sql: str, what: str) -> Iterator[list[Row]]:
        """Yield the rows of a statement as tuples, in blocks."""
        with self._reporting(what), self._executed(sql) as cursor:
            if not cursor.description:
                return
            while block := cursor.fetchmany(_ROWS_AT_ONCE):
                if isinstance(block[0], Mapping):
                    block = [tuple(row.values()) for row in block]
                yield block

    @contextmanager
    def _executed(self, sql: str) -> Iterator[Any]:
        """Give the cursor of a statement, whose rows are tuples where that can be."""
        if self.dialect.name == "duckdb":
            # Its cursor() is a second connection, which sees no temporary table.
            self.connection.execute(sql)
            yield self.connection
            return
        with closing(self.connection.cursor()) as cursor:
            if self.dialect.name == "sqlite":
                cursor.row_factory = None
            elif type(cursor).__module__.partition(".")[0] == "psycopg":
                cursor.row_factory = sys.modules["psycopg"].rows.tuple_row
            cursor.execute(sql)
            yield cursor

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """Let an error be one sentence; drivers share no class of errors."""
        try:
            yield
        except Exception as error:
            if isinstance(error, sqlite3.Error) and str(error) == "interrupted":
                raise KeyboardInterrupt from None
            raise self._failure(error, what) from error

    # ---- transactions

    def _begin(self) -> None:
        name = self.dialect.name
        connection = self.connection
        begin = ""
        if name == "duckdb":
            number = "SELECT txid_current()"  # which does not change in a transaction
            first, second = (self.fetch(number, "a snapshot") for _ in range(2))
            del self.sent[-2:]  # they are not about the table
            begin = "BEGIN TRANSACTION" if first != second else ""
        elif name == "sqlite":
            begin = "" if getattr(connection, "in_transaction", True) else "BEGIN"
        elif name == "postgres":
            state = getattr(connection, "info", None)
            if getattr(state, "transaction_status", None) == _IDLE:
                # Without autocommit the driver has sent its own BEGIN just before.
                start = "BEGIN" if connection.autocommit else "SET TRANSACTION"
                begin = f"{start} ISOLATION LEVEL REPEATABLE READ READ ONLY"
        if begin:
            self._own = True
            self.fetch(begin, "a snapshot")
            if name == "postgres":
                self.fetch(_MORE_MEMORY, "a snapshot")

    def _end(self) -> None:
        own = self._own
        self._own = False
        if not own:
            return
        with suppress(Exception):  # a connection that is gone has nothing left to end
            if self.dialect.name == "postgres" and not self.connection.autocommit:
                self.connection.rollback()
            else:
                with self._executed("ROLLBACK"):
                    pass
            self.sent.append("ROLLBACK")

    # ---- errors

    def _failure(self, error: Exception, what: str) -> Exception:
        reason = first_line(error)
        if not self._alive():
            return ConnectionError(
                f"The connection to the database is closed or was lost during the "
                f"query for {what} ({reason}): connect and start again; nothing was "
                "changed there."
            )
        # DuckDB's class of errors, and the words of SQLite
        if type(error).__name__ == "PermissionException" or "unsafe use of" in reason:
            return OutsideError(
                f"The view {self._table!r} reads more than its database ({reason}), "
                "which a database file may not: make a table of it if you trust it, "
                "or, in DuckDB, ask for its rows yourself: "
                f"--sql \"ATTACH 'FILE' AS d; FROM d.{self._table}\"."
            )
        advice = "check the names and your permissions."
        if _is_aborted(error):
            advice = "roll back your transaction, in which a statement failed before."
        if isinstance(error, sqlite3.DataError):  # the only one that reading raises
            size = f"{_MAX_CELL:,} bytes"
            advice = f"leave out the column whose cells take more than {size}."
        return QueryError(f"The query for {what} failed ({reason}): {advice}")

    def _alive(self) -> bool:
        self._end()
        if hasattr(self.connection, "closed"):
            return not self.connection.closed
        try:
            with self._executed("SELECT 1") as cursor:
                cursor.fetchall()
        except Exception as error:
            return "transaction" in str(error).lower()  # the caller's, and aborted
        return True

    def _hint(self, table: str) -> str:
        try:
            with self.snapshot():
                names = {name.rpartition(".")[2]: name for name in self.tables()}
        except (ValueError, ConnectionError):
            names = {}
        close = get_close_matches(table.rpartition(".")[2], names, n=1, cutoff=0.65)
        if close and names[close[0]] != table:
            return f"did you mean {names[close[0]]!r}?"
        return "check the name; a schema is given as 'schema.table'."

    def tables(self) -> list[str]:
        """Return the names of all tables and views, as users write them."""
        listing = "SELECT table_schema, table_name FROM information_schema.tables"
        if self.dialect.name == "sqlite":
            listing = "SELECT '', name FROM sqlite_master"
            listing += " WHERE type IN ('table', 'view')"
        return sorted(
            # The schema that is looked in needs no name.
            str(name) if schema in ("", "main", "public") else f"{schema}.{name}"
            for schema, name in self.fetch(listing, "the names of the tables")
        )


def _is_aborted(error: Exception) -> bool:
    """Whether a transaction of the caller's must be rolled back first."""
    return "transaction is aborted" in str(error).lower()


# ---- values


def cell_of(value: Any, name: str) -> Any:
    """Return a value of a driver as encoders take it; NaN is a missing value."""
    if isinstance(value, (memoryview, bytearray)):
        value = bytes(value)
    elif isinstance(value, decimal.Decimal):
        value = decimal_number(value)
    if isinstance(value, (list, dict, set, tuple)):
        raise TypeError(
            f"Column {name!r} holds nested values ({value!r:.60}): give it one value "
            "a row, for example in a view."
        )
    if value is None or value != value:
        return None
    return value if isinstance(value, _PLAIN) else str(value)


def key_of(cell: Any) -> tuple[type, Any]:
    """Return what tells cells apart: 1 from True, not from 1.0, as engines may mix."""
    return (float if type(cell) is int else type(cell)), cell


# ---- files of SQLite and DuckDB


def is_database(name: str) -> bool:
    """Whether a file is named as databases are."""
    return name.lower().endswith(endings.DATABASE)


def engine(path: Path) -> str | None:
    """Return the engine whose database a file is, by its first bytes."""
    with path.open("rb") as stream:
        start = stream.read(16)
    if start == b"SQLite format 3\x00":
        return "sqlite"
    return "duckdb" if start[8:].startswith(b"DUCK") else None  # after a checksum


def opened(path: Path) -> closing[Any]:
    """Return a connection to the database in a file, closed to all outside it.

    The file may come from a stranger: it can only be read, its views and functions
    reach neither other files nor the network, and nothing can be loaded.
    """
    try:
        kind = engine(path)
    except OSError as error:
        raise ValueError(unreadable(path, error, "cannot be opened")) from None
    if kind == "sqlite":
        place = quote(str(path.absolute()))
        lite = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
        for setting in _CLOSED_LITE:
            lite.execute(f"PRAGMA {setting}")
        lite.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        lite.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL)
        lite.set_progress_handler(lambda: 0, _STEPS)
        return closing(lite)
    if kind == "duckdb":
        module = duckdb_module()
        try:
            return closing(module.connect(str(path), read_only=True, config=_CLOSED))
        except module.Error as error:
            raise ValueError(f"{path} cannot be opened: {first_line(error)}.") from None
    raise ValueError(f"{path} is not a DuckDB or SQLite database.")
