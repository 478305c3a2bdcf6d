"""Three engines with the same tables: SQLite, DuckDB and PostgreSQL.

`load` writes an Arrow table into an engine, in its own types; SQLite has no booleans,
decimals or dates, nor NaN, and gets what its users have instead.

The fixtures `connection` (to each of the engines), `postgres`, `lite` and `duck` are
for modules of tests, which take them by ``connection = warehouses.connection``.
"""

from __future__ import annotations

import datetime
import decimal
import math
import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.postgres import connected

ENGINES = ("sqlite", "duckdb", "postgres")
HOSTILE = 'x"; drop table t; --'

_POSTGRES = {
    pa.string(): "text",
    pa.large_string(): "text",
    pa.int64(): "bigint",
    pa.uint64(): "numeric(20)",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.time64("us"): "time",
    pa.binary(): "bytea",
    pa.null(): "text",
}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def engine_of(connection: Any) -> str:
    package = type(connection).__module__.partition(".")[0]
    return {"_duckdb": "duckdb", "psycopg": "postgres"}.get(package, "sqlite")


def load(connection: Any, name: str, table: pa.Table) -> None:
    """Write a table, replacing one of the same name."""
    engine, place = engine_of(connection), quoted(name)
    connection.execute(f"DROP TABLE IF EXISTS {place}")
    if engine == "duckdb":
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {place} AS SELECT * FROM given")
        connection.unregister("given")
        return
    columns = ", ".join(
        f"{quoted(field.name)} {_type(field.type) if engine == 'postgres' else ''}"
        for field in table.schema
    )
    connection.execute(f"CREATE TABLE {place} ({columns})")
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if engine == "postgres":
        with connection.cursor().copy(f"COPY {place} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    else:
        marks = ", ".join("?" for _ in table.schema)
        plain = [[_plain(cell) for cell in row] for row in rows]
        connection.executemany(f"INSERT INTO {place} VALUES ({marks})", plain)
    connection.commit()


def _type(kind: pa.DataType) -> str:
    if pa.types.is_duration(kind):
        return "interval"
    if pa.types.is_timestamp(kind) and kind.tz:
        return "timestamptz"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return _POSTGRES[kind]


def _plain(cell: Any) -> Any:
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if isinstance(cell, decimal.Decimal):
        return float(cell)
    if isinstance(cell, (datetime.date, datetime.time)):
        return str(cell)
    return cell


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    yield from connected()


@pytest.fixture
def lite() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    yield opened
    opened.close()


@pytest.fixture
def duck() -> Iterator[Any]:
    import duckdb

    with duckdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture(params=ENGINES)
def connection(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        yield server
        server.rollback()
    elif request.param == "sqlite":
        yield request.getfixturevalue("lite")
    else:  # not by its fixture, which a module may have under the same name
        import duckdb

        with duckdb.connect(":memory:") as opened:
            yield opened


def visits(n: int, seed: int = 0) -> pa.Table:
    """A table with a column of every common kind, missing cells among them."""
    rng = np.random.default_rng(seed)
    gone = rng.random((6, n)) < 0.1
    words = np.array(["n", "y", "?", "", 'it\'s "so"', "ünï\\cøde\n"], object)
    temperature = rng.choice([0.1, 36.6, 37.5, 41.25, np.inf, -np.inf, np.nan], n)
    temperature = np.where(gone[0], rng.normal(37, 1, n), temperature)
    return pa.table(
        {
            "ward": pa.array(rng.choice(words, n), mask=gone[1]),
            HOSTILE: pa.array(rng.choice(words[:2], n)),
            "kids": pa.array(rng.integers(-1, 5, n), mask=gone[2]),
            "age": pa.array(rng.integers(18, 90, n), mask=gone[3]),
            "temperature": pa.array(temperature, mask=gone[4]),
            "empty": pa.array([None] * n, pa.string()),
            "class": pa.array(rng.choice(["home", "stay"], n)),
        }
    )
