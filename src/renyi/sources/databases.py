"""Tables of databases as streams: DuckDB and SQLite files, and PostgreSQL by ADBC.

A `DatabaseTable` is read like a file: it has a schema, and units of record batches. All
passes over it see the same rows: PostgreSQL and SQLite keep a snapshot in a
transaction, and DuckDB lets nobody write to a file that is open.

A database file may be untrusted. It can only be read, and reaches neither other
files nor the network. A view computes its cells, which may take any amount of memory,
so it is read only if the user trusts it.

SQLite has a type in every cell instead of every column. A column gets the one type of
its cells; floats if they are integers and floats; numbers if its texts all mean
missing; and text otherwise.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import pyarrow as pa

from renyi.files import first_line, unreadable
from renyi.sources import suffixes
from renyi.sources.duckdb import (
    arrow_batches,
    arrow_schema,
    duckdb_module,
    invalid_filter,
    quoted,
)
from renyi.sources.run import Unit, check_unchanged, file_state
from renyi.validation import import_extra

_ROWS = 2**14  # of a batch of SQLite
_UNIT_ROWS = 2**18  # that are counted before progress is reported
_ADDRESS = re.compile(r"([a-z][a-z0-9+]*)://", re.IGNORECASE)
_POSTGRES = ("postgres", "postgresql")
# An untrusted database may have views that read any file of this machine.
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
_WAL = 2  # the format of a SQLite file that is written by way of a log
_COLUMNS_AT_ONCE = 8  # whose types of cells one statement asks for
# Texts and comments of SQL, and names in double quotes, which alone are a group.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|"((?:[^"]|"")*)\"""", re.DOTALL
)


# ---- names and addresses


def is_address(name: str) -> bool:
    """Whether a name is the address of a server, such as postgresql://host/base."""
    return _ADDRESS.match(name) is not None


def is_database(name: str) -> bool:
    """Whether a name is that of a database file or the address of a server."""
    return is_address(name) or name.lower().endswith(suffixes.DATABASE)


def shown_address(name: str) -> str:
    """Return an address without its password.

    >>> shown_address("postgresql://ann:secret@host/base?password=other")
    'postgresql://ann:***@host/base?password=***'
    """
    if not is_address(name):
        return name
    scheme, rest = name.split("://", 1)
    user, at, place = rest.rpartition("@")
    if at:
        first, colon, _ = user.partition(":")
        user = f"{first}:***" if colon else first
    place = re.sub(r"(password=)[^&]*", r"\1***", place, flags=re.IGNORECASE)
    return f"{scheme}://{user}{at}{place}"


def _secrets(address: str) -> list[str]:
    """Return the texts of an address that no message may contain."""
    _, _, rest = address.partition("://")
    user, _, place = rest.rpartition("@")
    _, _, password = user.partition(":")
    others = re.findall(r"password=([^&]*)", place, flags=re.IGNORECASE)
    return sorted(filter(None, [password, *others]), key=len, reverse=True)


# ---- tables


class Relation(NamedTuple):
    """A table or a view, by its schema and name; `computed` if reading it computes."""

    schema: str
    name: str
    computed: bool

    @property
    def sql(self) -> str:
        """The name in SQL."""
        return ".".join(map(quoted, filter(None, (self.schema, self.name))))


class Engine(Protocol):
    """What a `DatabaseTable` needs of a database."""

    errors: tuple[type[Exception], ...]

    def relations(self) -> dict[str, Relation]:
        """Return all tables and views, by the names that users write."""

    def select(
        self, relation: Relation, where: str, missing: frozenset[str]
    ) -> dict[str, str]:
        """Return the expression in SQL of each column."""

    def fetch(self, sql: str) -> list[Any]:
        """Return the rows of a statement."""

    def schema(self, sql: str) -> pa.Schema:
        """Return the schema of a statement."""

    def batches(self, sql: str, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement."""


class DatabaseTable:
    """A table of a database, or the rows of it that meet a condition."""

    def __init__(
        self,
        engine: Engine,
        path: str,
        relation: Relation,
        where: str | None,
        missing: frozenset[str],
    ) -> None:
        self.path = path  # what messages call it
        self._engine = engine
        self._relation = relation
        self._under_way: Generator[pa.RecordBatch] | None = None
        self.where = where
        self._where = "" if where is None else f" WHERE ({where}\n)"
        try:
            sql = f"SELECT COUNT(*) FROM {relation.sql}{self._where}"
            ((self.rows,),) = engine.fetch(sql)
        except engine.errors as error:
            if where is None or is_outside(error):
                raise self._error(error) from None
            raise invalid_filter(where, f"{first_line(error)}.") from None
        with self._reporting():
            self._columns = engine.select(relation, self._where, missing)
            self.schema = engine.schema(self._statement(list(self._columns)))

    def units(self, file: int, columns: list[str]) -> Iterator[Unit]:
        """Yield the rows of one pass, many at a time."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        self.close()
        batches = self._under_way = self._batches(schema)
        count = max(1, math.ceil(self.rows / _UNIT_ROWS))
        for number in range(count):
            most = _UNIT_ROWS if number < count - 1 else math.inf
            yield Unit(file, number, 1 / count, partial(_first_rows, batches, most))

    def close(self) -> None:
        """End a statement whose rows were not all read."""
        if self._under_way is not None:
            self._under_way.close()
            self._under_way = None

    def _batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        with self._reporting():
            yield from self._engine.batches(self._statement(schema.names), schema)

    def _statement(self, names: list[str]) -> str:
        columns = [f"{self._columns[name]} AS {quoted(name)}" for name in names]
        return f"SELECT {', '.join(columns)} FROM {self._relation.sql}{self._where}"

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except self._engine.errors as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> BaseException:
        """Return the sentence for an error of the engine."""
        reason = first_line(error)
        name = self._relation.name
        if isinstance(error, sqlite3.Error) and reason == "interrupted":
            return KeyboardInterrupt()
        if is_outside(error):
            return ValueError(
                f"The view {name!r} reads more than its database ({reason}), which a "
                "database file may not: make a table of it if you trust it. Or, in "
                "DuckDB, ask for its rows yourself: "
                f"--sql \"ATTACH 'FILE' AS d (READ_ONLY); FROM d.{name}\"."
            )
        advice = "check the names and your permissions"
        if isinstance(error, sqlite3.DataError):  # the only one that reading raises
            most = f"{_MAX_CELL:,} bytes"
            advice = f"leave out the column whose cells take more than {most}"
        return ValueError(
            f"Reading {name!r} of {self.path} failed ({reason}): {advice}."
        )


def is_outside(error: Exception) -> bool:
    """Whether a view asked for something outside its database."""
    name = type(error).__name__  # DuckDB's class of errors, and the words of SQLite
    return name == "PermissionException" or "unsafe use of" in str(error)


def _first_rows(
    batches: Iterator[pa.RecordBatch], most: float
) -> Iterator[pa.RecordBatch]:
    """Yield batches until there are so many rows."""
    for batch in batches:
        yield batch
        most -= batch.num_rows
        if most <= 0:
            return


@contextmanager
def open_table(
    name: str,
    table: str | None,
    where: str | None = None,
    missing: frozenset[str] = frozenset(),
    trust_views: bool = False,
) -> Iterator[DatabaseTable]:
    """Open a table of a database file or of a server, by its address.

    `where` is a condition in the SQL of the database. The texts in `missing` do not
    make labels of a column of numbers in SQLite.
    """
    address = is_address(name)
    opening = _postgres(name) if address else _opened_file(Path(name))
    path = shown_address(name)
    with opening as engine:
        relations = engine.relations()
        if table is None:
            names = ", ".join(map(repr, sorted(relations)[:8])) or "it has none"
            raise ValueError(
                f"{path} is a database: name one of its tables with --table ({names})."
            )
        relation = _relation(path, relations, table)
        if relation.computed and not trust_views and not address:
            raise ValueError(
                f"{table!r} of {path} is a view, or has computed columns: it may take "
                "any amount of memory. Pass --trust-views if you trust the file, or "
                "make a table of it."
            )
        if where is not None and isinstance(engine, _Sqlite):
            _check_quoted(where, [*engine.column_names(relation), table, "rowid"])
        opened = DatabaseTable(engine, path, relation, where, missing)
        with closing(opened):
            yield opened


def _relation(path: str, relations: dict[str, Relation], table: str) -> Relation:
    """Return the table or view of a name."""
    if table in relations:
        return relations[table]
    for each in relations.values():
        if f"{each.schema}.{each.name}" == table:
            return each
    close = get_close_matches(table, relations, n=1, cutoff=0.65)
    hint = f"did you mean {close[0]!r}?" if close else "check the name."
    raise ValueError(f"There is no table {table!r} in {path}: {hint}")


# ---- DuckDB


def engine_name(path: Path) -> str | None:
    """Return the engine whose database a file is, by its first bytes."""
    with path.open("rb") as stream:
        start = stream.read(16)
    if start == b"SQLite format 3\x00":
        return "sqlite"
    return "duckdb" if start[8:].startswith(b"DUCK") else None  # after a checksum


@contextmanager
def _opened_file(path: Path) -> Iterator[Engine]:
    """Open a database file, closed to all outside it."""
    try:
        name = engine_name(path)
    except OSError as error:
        raise ValueError(unreadable(path, error, "cannot be opened")) from None
    if name is None:
        raise ValueError(f"{path} is not a DuckDB or SQLite database.")
    with connected(path) as connection:
        if name == "sqlite":
            yield _Sqlite(connection)
        else:
            yield _Duckdb(connection)


@contextmanager
def connected(path: Path) -> Iterator[Any]:
    """Connect to a database file, which can only be read, and reach nothing else."""
    if engine_name(path) == "sqlite":
        with _lite(path) as connection:
            yield connection
        return
    module = duckdb_module()
    try:
        connection = module.connect(str(path), read_only=True, config=_CLOSED)
    except module.Error as error:
        raise ValueError(f"{path} cannot be opened: {first_line(error)}.") from None
    with closing(connection):
        yield connection


class _Duckdb:
    """A connection to a DuckDB file."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.errors: tuple[type[Exception], ...] = (duckdb_module().Error,)

    def relations(self) -> dict[str, Relation]:
        """Return all tables and views; a generated column computes as a view does.

        Only the statement that DuckDB writes for a table shows such a column in every
        release: before 2.0, ``is_generated`` was null.
        """
        generated = {
            (schema, name)
            for schema, name in self.fetch(
                "SELECT schema_name, table_name FROM duckdb_tables() "
                "WHERE sql LIKE '% GENERATED ALWAYS AS%'"
            )
        }
        sql = (
            "SELECT table_schema, table_name, table_type "
            "FROM information_schema.tables WHERE table_catalog = current_database()"
        )
        relations = {}
        for schema, name, kind in self.fetch(sql):
            computed = kind != "BASE TABLE" or (schema, name) in generated
            shown = name if schema == "main" else f"{schema}.{name}"
            relations[shown] = Relation(schema, name, computed)
        return relations

    def select(
        self, relation: Relation, where: str, missing: frozenset[str]
    ) -> dict[str, str]:
        """Return each column by its own name."""
        columns = self._connection.sql(f"FROM {relation.sql}").columns
        return {name: quoted(name) for name in columns}

    def fetch(self, sql: str) -> list[Any]:
        """Return the rows of a statement."""
        return list(self._connection.execute(sql).fetchall())

    def schema(self, sql: str) -> pa.Schema:
        """Return the schema of a statement, of which no row is read."""
        return arrow_schema(self._connection.sql(sql))

    def batches(self, sql: str, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement."""
        yield from arrow_batches(self._connection.sql(sql))


# ---- SQLite


@contextmanager
def _lite(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a SQLite file; leave no log that was not there.

    A file that is written by way of a log is opened as one that nobody writes to if
    there is no log: else SQLite would make one. A program that opens it meanwhile makes
    a log, which stays. If there is a log, it is also read, and SQLite makes its index.
    """
    log, index = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
    with path.open("rb") as stream:
        by_log = _WAL in stream.read(20)[18:]
    unlocked = by_log and not log.exists()
    makes_index = by_log and not unlocked and not index.exists()
    before = file_state(path)
    place = quote(str(path.absolute()))
    mode = "immutable=1" if unlocked else "mode=ro"
    try:
        with closing(sqlite3.connect(f"file:{place}?{mode}", uri=True)) as lite:
            for setting in _CLOSED_LITE:
                lite.execute(f"PRAGMA {setting}")
            lite.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            lite.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL)
            lite.set_progress_handler(lambda: 0, _STEPS)
            lite.execute("BEGIN")
            yield lite
            if unlocked:
                check_unchanged(path, before)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # of damaged statements
        raise ValueError(f"{path} cannot be read: {first_line(error)}.") from None
    finally:
        if makes_index:
            with suppress(OSError):
                index.unlink()


class _Sqlite:
    """A connection to a SQLite file."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    _TYPES = {
        frozenset[str](): pa.null(),
        frozenset({"integer"}): pa.int64(),
        frozenset({"real"}): pa.float64(),
        frozenset({"integer", "real"}): pa.float64(),
        frozenset({"text"}): pa.string(),
    }
    _NUMBERS = frozenset({"integer", "real"})

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._types: dict[str, pa.DataType] = {}

    def relations(self) -> dict[str, Relation]:
        """Return all tables and views; generated and virtual ones compute as views do.

        SQLite keeps the statement by which a table was made.
        """
        sql = (
            "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view')"
        )
        relations = {}
        for name, kind, made in self.fetch(sql):
            virtual = str(made).lstrip().upper().startswith("CREATE VIRTUAL")
            relation = Relation("", name, kind == "view" or virtual)
            if not relation.computed:
                relation = relation._replace(computed=self._is_generated(relation))
            relations[name] = relation
        return relations

    def _is_generated(self, relation: Relation) -> bool:
        columns = self.fetch(f"PRAGMA table_xinfo({relation.sql})")
        return any(hidden == 2 for *_, hidden in columns)

    def column_names(self, relation: Relation) -> list[str]:
        """Return the names of the columns."""
        cursor = self._connection.execute(f"SELECT * FROM {relation.sql} LIMIT 0")
        return [entry[0] for entry in cursor.description]

    def select(
        self, relation: Relation, where: str, missing: frozenset[str]
    ) -> dict[str, str]:
        """Return each column as the type that its cells have."""
        source = f"{relation.sql}{where}"
        expressions = {}
        for name, kinds in self._cell_types(self.column_names(relation), source):
            column = quoted(name)
            if "blob" in kinds:
                raise ValueError(
                    f"Column {name!r} has binary cells: make text of them in a table "
                    f"of your own, by CAST({column} AS TEXT), or leave it out."
                )
            mixed = "text" in kinds and len(kinds) > 1
            words = mixed and self._has_words(column, relation, where, missing)
            expressions[name] = column
            if words:
                kinds = frozenset({"text"})
                expressions[name] = _as_text(column)
            elif mixed:  # texts that mean missing, among numbers
                kinds &= self._NUMBERS
                column = (
                    f"CASE typeof({column}) WHEN 'text' THEN NULL ELSE {column} END"
                )
                expressions[name] = column
            if kinds == self._NUMBERS:
                expressions[name] = f"CAST({column} AS REAL)"
            self._types[name] = self._TYPES[kinds]
        return expressions

    def _cell_types(
        self, names: list[str], source: str
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the types of the cells of each column, but for NULL."""
        for k in range(0, len(names), _COLUMNS_AT_ONCE):
            some = names[k : k + _COLUMNS_AT_ONCE]
            types = ", ".join(f"typeof({quoted(name)})" for name in some)
            rows = self.fetch(f"SELECT DISTINCT {types} FROM {source}")
            for j, name in enumerate(some):
                yield name, frozenset(row[j] for row in rows) - {"null"}

    def _has_words(
        self, column: str, relation: Relation, where: str, missing: frozenset[str]
    ) -> bool:
        """Whether some texts of a column do not mean a missing cell."""
        codes = ", ".join("?" for _ in missing)
        tests = f"typeof({column}) = 'text' AND {column} NOT IN ({codes})"
        rows = f"(SELECT * FROM {relation.sql}{where})"
        sql = f"SELECT 1 FROM {rows} WHERE {tests} LIMIT 1"
        return bool(self._connection.execute(sql, sorted(missing)).fetchall())

    def fetch(self, sql: str) -> list[Any]:
        """Return the rows of a statement."""
        return self._connection.execute(sql).fetchall()

    def schema(self, sql: str) -> pa.Schema:
        """Return the types that `select` found."""
        return pa.schema(list(self._types.items()))

    def batches(self, sql: str, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement."""
        with closing(self._connection.execute(sql)) as cursor:
            while block := cursor.fetchmany(_ROWS):
                columns = zip(*block, strict=True)
                arrays = [
                    pa.array(cells, kind)
                    for cells, kind in zip(columns, schema.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_text(column: str) -> str:
    """Return cells of several types as text, whole numbers without a fraction."""
    whole = f"typeof({column}) = 'real' AND {column} = CAST({column} AS INTEGER)"
    integer = f"CAST(CAST({column} AS INTEGER) AS TEXT)"
    return f"CASE WHEN {whole} THEN {integer} ELSE CAST({column} AS TEXT) END"


def _check_quoted(where: str, names: list[str]) -> None:
    """Reject a name in double quotes that is not a column: SQLite takes it as text.

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


# ---- PostgreSQL


@contextmanager
def _postgres(address: str) -> Iterator[Engine]:
    """Connect to a PostgreSQL server, with one snapshot for all statements."""
    match = _ADDRESS.match(address)
    scheme = match[1].lower() if match else ""
    if scheme not in _POSTGRES:
        raise ValueError(
            f"renyi reads addresses that begin with postgresql://, not {scheme}://. In "
            "Python, pass any Arrow cursor: Marginals.from_arrow("
            "cursor.fetch_record_batch(), target=…)."
        )
    need = "Databases on servers need ADBC drivers"
    driver = import_extra("adbc_driver_postgresql.dbapi", "databases", need)
    try:
        connection = driver.connect(address, autocommit=True)
    except driver.Error as error:
        reason = first_line(error)
        for secret in _secrets(address):
            reason = reason.replace(secret, "***")
        raise ValueError(
            f"{shown_address(address)} cannot be reached ({reason}): check the "
            "address, the user and the password."
        ) from None
    with closing(connection):
        engine = _Postgres(connection, driver.Error)
        engine.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield engine
        finally:
            with suppress(driver.Error):  # the server may be gone
                engine.run("ROLLBACK")


class _Postgres:
    """A connection to PostgreSQL by ADBC."""

    _PLAIN = ("bool", "int2", "int4", "int8", "float8", "text", "varchar", "name")
    _MOMENTS = ("date", "time", "timestamp")
    _INTEGER_DIGITS = 18

    _RELATIONS = """\
SELECT n.nspname, c.relname, n.nspname = ANY (current_schemas(false))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg_toast%'"""
    _COLUMNS = """\
WITH RECURSIVE base(attnum, name, oid, modifier) AS (
  SELECT attnum, attname, atttypid, atttypmod FROM pg_attribute
  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT attnum, name, typbasetype, greatest(modifier, typtypmod)
  FROM base JOIN pg_type ON pg_type.oid = base.oid WHERE typtype = 'd'
)
SELECT name, typname, typtype, modifier
FROM base JOIN pg_type ON pg_type.oid = base.oid
WHERE typtype <> 'd' ORDER BY attnum"""

    def __init__(self, connection: Any, error: type[Exception]) -> None:
        self._connection = connection
        # Where batches are read, Arrow hands errors on as its own.
        errors: tuple[type[Exception], ...] = (error, pa.ArrowException, OSError)
        self.errors = errors

    def run(self, sql: str) -> None:
        """Run a statement that gives no rows."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)

    def relations(self) -> dict[str, Relation]:
        """Return all tables and views; the server computes them, not this machine."""
        relations = {}
        for schema, name, near in self.fetch(self._RELATIONS):
            shown = name if near else f"{schema}.{name}"
            relations[shown] = Relation(schema, name, False)
        return relations

    def select(
        self, relation: Relation, where: str, missing: frozenset[str]
    ) -> dict[str, str]:
        """Return each column as a type that arrives as it is meant."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(self._COLUMNS, (relation.sql,))
            rows = cursor.fetchall()
        return {row[0]: self._expression(*row) for row in rows}

    def _expression(self, name: str, kind: str, form: str, modifier: int) -> str:
        """Return a column by its type; reject types that are not labels or numbers."""
        column = quoted(name)
        if kind in self._PLAIN or kind in self._MOMENTS:
            return column
        if kind == "bpchar" or form == "e":  # padded text, or one of a list of labels
            return f"{column}::text"
        if kind == "float4":
            return f"{column}::float8"
        if kind == "numeric":  # which would arrive as text
            digits = (modifier - 4) >> 16
            whole = modifier > 3 and (modifier - 4) & 0xFFFF == 0
            short = whole and digits <= self._INTEGER_DIGITS
            return f"{column}::{'int8' if short else 'float8'}"
        raise ValueError(
            f"Column {name!r} has the type {kind.removeprefix('_')}"
            f"{'[]' * kind.startswith('_')}, which is not a label or a number: make a "
            f"view with CAST({column} AS text), or leave the column out of it."
        )

    def fetch(self, sql: str) -> list[Any]:
        """Return the rows of a statement."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def schema(self, sql: str) -> pa.Schema:
        """Return the schema of a statement, of which no row is read."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f"{sql} LIMIT 0")
            return cursor.fetch_record_batch().schema.remove_metadata()

    def batches(self, sql: str, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)
            for batch in cursor.fetch_record_batch():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
