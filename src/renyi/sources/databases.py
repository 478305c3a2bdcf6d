"""Database: a DB-API connection that is asked one statement after the other.

All answers should be about the same rows. Where an engine can hold a snapshot and no
transaction is under way, one is begun, read only where that can be said, and rolled
back at the end; otherwise the counts are compared with one another, which notices rows
that come or go.

What goes wrong is told in one sentence, and a connection that is gone is told apart
from a statement that the engine did not like. Every statement that is sent is kept,
for whoever has to approve it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import chain
from typing import Any

from renyi.sources.complaints import first_line
from renyi.sources.dialects import dialect_of

_ROWS_AT_ONCE = 10_000
_CURSOR = '"renyi_values"'
_IDLE = 0  # of libpq's states of a transaction
# PostgreSQL's numbers of the types real, double and numeric, and of some others.
_SINGLE = 700
_REALS = (_SINGLE, 701, 1700)
_TEXTS = (25, 1043)
_PADDED = 1042
_ZONED = 1184
# Types of DuckDB of which its driver drops nanoseconds, or makes infinity a day.
_TIMES = (
    "DATE",
    "TIME_NS",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
)
# With 4 MB, PostgreSQL sorts the rows for each of many tables instead of hashing them
# once: 12 s where 3 s are enough. The setting ends with the transaction.
_MORE_MEMORY = (
    "SELECT set_config('work_mem', '64MB', true) "
    "WHERE pg_size_bytes(current_setting('work_mem')) < 67108864"
)

Row = Sequence[Any]


class Database:
    """A connection, its dialect, and the statements that were sent.

    Parameters
    ----------
    connection : DB-API 2 connection
        Of any driver; it stays open.

    Examples
    --------
    >>> import sqlite3
    >>> database = Database(sqlite3.connect(":memory:"))
    >>> database.ask("SELECT 1, 'a'", "a test")
    [(1, 'a')]
    >>> database.sent
    ["SELECT 1, 'a'"]
    """

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
        self._kinds: dict[str, Any] = {}  # what the driver calls the types
        self._own = False  # whether the transaction under way is ours

    def ask(self, sql: str, what: str) -> list[Row]:
        """Return the answer to a statement; `what` says in words what it is for."""
        return self._answer(sql, what)[0]

    def stream(self, sql: str, what: str) -> Generator[list[Row]]:
        """Yield the answer to a statement in blocks, none of which is kept.

        Drivers of PostgreSQL fetch a whole answer at once, unless a cursor of the
        server holds it.

        >>> import sqlite3
        >>> database = Database(sqlite3.connect(":memory:"))
        >>> list(database.stream("SELECT 1 UNION SELECT 2", "a test"))
        [[(1,), (2,)]]
        """
        if self.dialect.name != "postgres":
            self.sent.append(sql)
            yield from self._blocks(sql, what)
            return
        # WITH HOLD, for a connection that is in no transaction.
        self.ask(f"DECLARE {_CURSOR} NO SCROLL CURSOR WITH HOLD FOR\n{sql}", what)
        fetch, close = f"FETCH {_ROWS_AT_ONCE} FROM {_CURSOR}", f"CLOSE {_CURSOR}"
        self.sent += [fetch, close]  # as often as there are rows, and once
        own = self._own
        try:
            while block := list(chain.from_iterable(self._blocks(fetch, what))):
                yield block
        finally:
            # A cursor ends with its transaction: to close it then would begin a new
            # one, in which it fails.
            if self._own == own:
                with suppress(Exception), self._asked(close):
                    pass

    def columns(self, table: str | Sequence[str]) -> list[str]:
        """Return the names of a table's columns."""
        _refuse_query(table)
        sql = f"SELECT * FROM {self.dialect.table(table)} WHERE 1 = 0"
        shown = table if isinstance(table, str) else ".".join(table)
        try:
            _, description = self._answer(sql, f"the columns of {shown!r}")
        except ValueError as error:
            if _is_aborted(error):
                raise
            reason = first_line(error.__cause__ or error)
            raise ValueError(
                f"There is no table {shown!r} to read ({reason}): {self._hint(shown)}"
            ) from error.__cause__
        self._kinds = {str(entry[0]): entry[1] for entry in description}
        self.reals = frozenset(
            str(name)
            for name, kind, _, _, _, scale, *_ in description
            if self._is_real(kind) and not (scale == 0 or str(kind).endswith(",0)"))
        )
        return [str(entry[0]) for entry in description]

    def grouped(self, name: str) -> str:
        """Return a column as rows are grouped by it, its values as in memory.

        Texts differ in any letter, even where a column is declared to be blind to
        capital letters. What drivers would change is sent in another form: floats of
        single precision as doubles, times with a zone as their labels, times of DuckDB
        as texts, and texts of a fixed length without the spaces that fill them up.

        >>> import sqlite3
        >>> Database(sqlite3.connect(":memory:")).grouped("a")
        '"a" COLLATE BINARY'
        """
        dialect, kind = self.dialect, self._kinds.get(name)
        column = dialect.identifier(name)
        if dialect.name == "sqlite":  # whose columns may hold anything
            return dialect.lettered(column)
        if dialect.name == "postgres":
            forms = {
                _SINGLE: dialect.as_double,
                _PADDED: dialect.as_text,
                _ZONED: dialect.in_utc,
                **dict.fromkeys(_TEXTS, dialect.lettered),
            }
            return forms[kind](column) if kind in forms else column
        if dialect.zoned and str(kind) == dialect.zoned:
            return dialect.in_utc(column)
        if dialect.name == "duckdb" and str(kind) in _TIMES:
            return dialect.as_text(column)
        return dialect.lettered(column) if str(kind) in dialect.texts else column

    def _is_real(self, kind: Any) -> bool:
        """Whether a driver calls a type one of floats, where that can be told."""
        if self.dialect.name == "postgres":
            return kind in _REALS
        return str(kind).partition("(")[0] in self.dialect.reals

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all questions inside be about the same rows, if the engine can."""
        try:
            self._begin()
        except (ValueError, ConnectionError):
            raise
        except Exception as error:
            raise self._trouble(error, "a snapshot") from error
        try:
            yield
        finally:
            self._end()

    # ---- asking

    def _answer(self, sql: str, what: str) -> tuple[list[Row], Any]:
        self.sent.append(sql)
        with self._telling(what), self._asked(sql) as cursor:
            description = cursor.description
            return list(chain.from_iterable(_fetched(cursor))), description

    def _blocks(self, sql: str, what: str) -> Iterator[list[Row]]:
        with self._telling(what), self._asked(sql) as cursor:
            yield from _fetched(cursor)

    @contextmanager
    def _asked(self, sql: str) -> Iterator[Any]:
        """Give the cursor of an answer, and close it whatever happens."""
        cursor = self._cursor()
        try:
            cursor.execute(sql)
            yield cursor
        finally:
            if cursor is not self.connection:
                cursor.close()

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Let an error be one sentence; drivers share no class of errors."""
        try:
            yield
        except Exception as error:
            raise self._trouble(error, what) from error

    def _cursor(self) -> Any:
        """Return a cursor whose rows are tuples, whatever the connection makes."""
        if self.dialect.name == "duckdb":
            # Its cursor() is a second connection, which sees no temporary table.
            return self.connection
        cursor = self.connection.cursor()
        if self.dialect.name == "sqlite":
            cursor.row_factory = None
        elif type(cursor).__module__.partition(".")[0] == "psycopg":
            cursor.row_factory = sys.modules["psycopg"].rows.tuple_row
        return cursor

    # ---- transactions

    def _begin(self) -> None:
        name, connection = self.dialect.name, self.connection
        if name == "duckdb":
            if self._in_transaction_of_duckdb():
                return
            begin = "BEGIN TRANSACTION"
        elif name == "sqlite":
            if getattr(connection, "in_transaction", True):
                return
            begin = "BEGIN"
        elif name == "postgres":
            state = getattr(connection, "info", None)
            if getattr(state, "transaction_status", None) != _IDLE:
                return
            # Without autocommit the driver has sent its own BEGIN just before.
            start = "BEGIN" if connection.autocommit else "SET TRANSACTION"
            begin = f"{start} ISOLATION LEVEL REPEATABLE READ READ ONLY"
        else:
            return
        self._own = True
        self.ask(begin, "a snapshot")
        if name == "postgres":
            self.ask(_MORE_MEMORY, "a snapshot")

    def _in_transaction_of_duckdb(self) -> bool:
        """Whether two statements are of the same transaction."""
        number = "SELECT txid_current()"
        first, second = (self._answer(number, "a snapshot")[0] for _ in range(2))
        del self.sent[-2:]  # they ask nothing about the table
        return first == second

    def _end(self) -> None:
        if not self._own:
            return
        self._own = False
        try:
            if self.dialect.name == "postgres" and not self.connection.autocommit:
                self.connection.rollback()
            else:
                with self._asked("ROLLBACK"):
                    pass
            self.sent.append("ROLLBACK")
        except Exception:  # a connection that is gone has nothing left to end
            return

    # ---- what went wrong

    def _trouble(self, error: Exception, what: str) -> Exception:
        if self._alive():
            advice = (
                "roll back your transaction, in which a statement failed before."
                if _is_aborted(error)
                else "check the names and your permissions."
            )
            return ValueError(
                f"The database could not answer the question for {what} "
                f"({first_line(error)}): {advice}"
            )
        return ConnectionError(
            f"The connection to the database is closed or was lost in the question "
            f"for {what} ({first_line(error)}): connect and start again; nothing was "
            "changed there."
        )

    def _alive(self) -> bool:
        self._end()
        if hasattr(self.connection, "closed"):
            return not self.connection.closed
        try:
            with self._asked("SELECT 1") as cursor:
                cursor.fetchall()
        except Exception as error:
            return "transaction" in str(error).lower()  # the caller's, and aborted
        return True

    def _hint(self, table: str) -> str:
        listing = (
            "SELECT '', name FROM sqlite_master"
            if self.dialect.name == "sqlite"
            else "SELECT table_schema, table_name FROM information_schema.tables"
        )
        try:
            with self.snapshot():
                found = self.ask(listing, "the tables")
        except (ValueError, ConnectionError):
            found = []
        names = {
            str(name): _qualified(str(schema), str(name)) for schema, name in found
        }
        close = get_close_matches(table.rpartition(".")[2], names, n=1, cutoff=0.65)
        if close and names[close[0]] != table:
            return f"did you mean {names[close[0]]!r}?"
        return "check the name; a schema is given as 'schema.table'."


def _is_aborted(error: Exception) -> bool:
    """Whether a transaction of the caller's must be rolled back first."""
    return "transaction is aborted" in str(error).lower()


def _qualified(schema: str, name: str) -> str:
    """Return a table as users write it: the schema that is looked in needs no name."""
    return name if schema in ("", "main", "public") else f"{schema}.{name}"


def _refuse_query(table: str | Sequence[str]) -> None:
    text = table.strip().lower() if isinstance(table, str) else ""
    if text.startswith(("(", "select ", "with ")):
        raise ValueError(
            f"The table must be the name of a table or a view, not a query "
            f"({table!s:.60}): make a view of it, or give `where`."
        )
    if not table or not all(table):
        raise ValueError("The name of the table is empty.")


def _fetched(cursor: Any) -> Iterator[list[Row]]:
    """Yield the rows of a cursor as tuples, in blocks."""
    if not cursor.description:
        return
    while block := cursor.fetchmany(_ROWS_AT_ONCE):
        if isinstance(block[0], Mapping):
            block = [tuple(row.values()) for row in block]
        yield block
