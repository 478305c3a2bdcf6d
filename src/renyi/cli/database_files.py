"""Database files: DuckDB's and SQLite's, opened so that nothing in them can change."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from renyi.sources.complaints import first_line, unreadable
from renyi.sources.duckdb import duckdb

ENDINGS = (".duckdb", ".db", ".sqlite", ".sqlite3")
_SQLITE, _DUCKDB = b"SQLite format 3\x00", b"DUCK"
_DUCKDB_PLACE = 8  # after a checksum


def is_database(name: str) -> bool:
    """Whether a file is named as databases are.

    >>> is_database("shop.duckdb"), is_database("shop.csv")
    (True, False)
    """
    return name.lower().endswith(ENDINGS)


@contextlib.contextmanager
def connected(path: Path) -> Iterator[Any]:
    """Yield a connection to a database that can only be read.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "shop.db"
    >>> with sqlite3.connect(path) as connection:
    ...     _ = connection.execute("CREATE TABLE visits (age INTEGER)")
    >>> connection.close()
    >>> with connected(path) as connection:
    ...     tables(connection)
    ['visits']
    """
    with contextlib.closing(_opened(path)) as connection:
        yield connection


def _opened(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            start = stream.read(len(_SQLITE))
    except OSError as error:
        raise ValueError(unreadable(path, error, "cannot be opened")) from None
    if start == _SQLITE:
        place = quote(str(path.absolute()))
        return sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    if start[_DUCKDB_PLACE:].startswith(_DUCKDB):
        module = duckdb()
        try:
            return module.connect(str(path), read_only=True)
        except module.Error as error:
            raise ValueError(f"{path} cannot be opened: {first_line(error)}.") from None
    raise ValueError(f"{path} is no DuckDB or SQLite database: check the file.")


def tables(connection: Any) -> list[str]:
    """Return the names of the tables and views of a database."""
    if isinstance(connection, sqlite3.Connection):
        sql = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    else:
        sql = (
            "SELECT CASE WHEN table_schema = 'main' THEN table_name "
            "ELSE table_schema || '.' || table_name END FROM information_schema.tables"
        )
    try:
        return sorted(str(row[0]) for row in connection.execute(sql).fetchall())
    except sqlite3.DatabaseError as error:
        raise ValueError(f"The database is damaged ({error}).") from None
