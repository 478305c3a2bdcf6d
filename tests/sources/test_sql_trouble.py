"""Marginals of a database when things change, go wrong or go away."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest

import renyi
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources import dialects, sql
from renyi.sources.databases import Database
from support import warehouses
from support.warehouses import engine_of, load, visits

connection = warehouses.connection
lite = warehouses.lite
postgres = warehouses.postgres


# ---- one snapshot, and manners


class Meddler:
    """A connection during whose k-th question something happens."""

    def __init__(self, inner: Any, k: int, happen: Any) -> None:
        self.inner, self.left, self.happen = inner, k, happen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def cursor(self) -> Any:
        self.tick()
        return self.inner.cursor()

    def execute(self, *words: Any) -> Any:
        self.tick()
        return self.inner.execute(*words)

    def sql(self, statement: str) -> Any:
        self.tick()
        return self.inner.sql(statement)

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.happen()


def meddled(module: str) -> type[Meddler]:
    """Class of meddlers which look like a driver's connection."""
    return type("Connection", (Meddler,), {"__module__": module})


def test_postgres_answers_from_one_snapshot(postgres: Any) -> None:
    table = visits(100)
    load(postgres, "visits", table)
    with psycopg.connect(postgres.info.dsn) as other:

        def add() -> None:
            other.execute("INSERT INTO visits SELECT * FROM visits")
            other.commit()

        watched = meddled("psycopg")(postgres, 9, add)
        m = Marginals.from_sql(watched, "visits", "class")
        assert watched.left < 0
        assert m == Marginals.from_data(table, target="class")
        assert postgres.info.transaction_status == 0
        # In a transaction of the caller's that keeps no snapshot, it is noticed.
        postgres.execute("SELECT 1")
        watched = meddled("psycopg")(postgres, 9, add)
        with pytest.raises(ValueError, match="'visits' changed while it was counted"):
            Marginals.from_sql(watched, "visits", "class")
    postgres.rollback()


def test_postgres_keeps_its_memory_setting(postgres: Any) -> None:
    load(postgres, "visits", visits(50))
    before = postgres.execute("SHOW work_mem").fetchall()
    postgres.rollback()
    Marginals.from_sql(postgres, "visits", "class")
    assert postgres.execute("SHOW work_mem").fetchall() == before
    postgres.rollback()


def test_postgres_in_autocommit_is_left_idle(postgres: Any) -> None:
    load(postgres, "visits", visits(50))
    postgres.autocommit = True
    try:
        sent = sql.statements(postgres, "visits", "class")
        assert sent[0] == "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        assert sent[-1] == "ROLLBACK"
        assert postgres.info.transaction_status == 0
    finally:
        postgres.autocommit = False


@pytest.mark.parametrize("autocommit", [False, True])
def test_postgres_is_left_idle_by_an_answer_that_fails(
    postgres: Any, autocommit: bool
) -> None:
    postgres.execute(
        "CREATE TABLE far AS SELECT k % 2 AS y, CASE WHEN k % 3 = 0 THEN"
        " date 'infinity' ELSE date '2020-01-01' END AS day FROM generate_series(1, 9)"
        " AS k"
    )
    postgres.commit()
    postgres.autocommit = autocommit
    try:
        with pytest.raises(ValueError, match="the values of 'day'"):
            Marginals.from_sql(postgres, "far", "y")
        assert postgres.info.transaction_status == 0
        assert postgres.execute("SELECT name FROM pg_cursors").fetchall() == []
    finally:
        postgres.rollback()
        postgres.autocommit = False
        postgres.execute("DROP TABLE far")
        postgres.commit()


def test_cursors_are_closed_when_an_answer_fails(lite: sqlite3.Connection) -> None:
    made: list[sqlite3.Cursor] = []

    class Kept(Meddler):
        def cursor(self) -> Any:
            made.append(super().cursor())
            return made[-1]

    for statement in ("SELECT nothing", "SELECT abs(-9223372036854775808)"):
        with pytest.raises(ValueError, match="a test"):
            Database(Kept(lite, 0, None)).fetch(statement, "a test")
    for cursor in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed cursor"):
            cursor.fetchall()
    assert len(made) == 4  # with those that ask whether anybody is there


def test_a_transaction_of_the_caller_goes_on(connection: Any) -> None:
    load(connection, "visits", visits(50))
    if engine_of(connection) == "duckdb":
        connection.begin()
    connection.execute("DELETE FROM visits WHERE age < 40")
    inside = Marginals.from_sql(connection, "visits", "class")
    assert inside.n < 50
    connection.rollback()
    assert Marginals.from_sql(connection, "visits", "class").n == 50


def test_duckdb_answers_from_one_snapshot() -> None:
    table = visits(80)
    with duckdb.connect() as connection, connection.cursor() as other:
        load(connection, "visits", table)
        watched = meddled("duckdb")(
            connection,
            7,
            lambda: other.execute("INSERT INTO visits SELECT * FROM visits"),
        )
        m = Marginals.from_sql(watched, "visits", "class")
        assert watched.left < 0
        assert m == Marginals.from_data(table, target="class")
        assert Marginals.from_sql(connection, "visits", "class").n == 160


def test_duckdb_counts_temporary_tables() -> None:
    with duckdb.connect() as connection:
        load(connection, "base", visits(80))
        connection.execute("CREATE TEMP VIEW visits AS SELECT * FROM base")
        assert Marginals.from_sql(connection, "visits", "class").n == 80


def test_sqlite_answers_from_one_snapshot(tmp_path: Path) -> None:
    table = visits(80)
    first, second = (sqlite3.connect(tmp_path / "visits.db") for _ in range(2))
    with closing(first), closing(second):
        first.execute("PRAGMA journal_mode = WAL")
        load(first, "visits", table)

        def add() -> None:
            second.execute("INSERT INTO visits SELECT * FROM visits")
            second.commit()

        watched = meddled("sqlite3")(first, 6, add)
        assert Marginals.from_sql(watched, "visits", "class") == Marginals.from_data(
            table, target="class"
        )
        assert watched.left < 0
        assert Marginals.from_sql(first, "visits", "class").n == 160


def test_rows_may_be_dicts(postgres: Any, lite: sqlite3.Connection) -> None:
    table = visits(60)
    expected = Marginals.from_data(table, target="class")
    load(lite, "visits", table)
    lite.row_factory = lambda cursor, row: {"all": row}
    assert Marginals.from_sql(lite, "visits", "class") == expected
    load(postgres, "visits", table)
    with psycopg.connect(
        postgres.info.dsn, row_factory=psycopg.rows.dict_row
    ) as connection:
        assert Marginals.from_sql(connection, "visits", "class") == expected


# ---- bad input


def test_no_such_table(connection: Any) -> None:
    load(connection, "visits", visits(30))
    with pytest.raises(ValueError, match="no table 'visit' .*did you mean 'visits'"):
        Marginals.from_sql(connection, "visit", "class")
    with pytest.raises(ValueError, match="a schema is given as 'schema.table'"):
        Marginals.from_sql(connection, "nowhere.at_all_like_it", "class")
    assert Marginals.from_sql(connection, "visits", "class").n == 30


def test_no_such_column(connection: Any) -> None:
    load(connection, "visits", visits(30))
    with pytest.raises(ValueError, match="has no column 'clas': did you mean 'class'"):
        Marginals.from_sql(connection, "visits", "clas")
    with pytest.raises(ValueError, match="has no column 'shoe': it has 'ward', "):
        Marginals.from_sql(connection, "visits", "class", columns=["shoe"])
    with pytest.raises(ValueError, match="'class' is named twice"):
        Marginals.from_sql(connection, "visits", "class", columns=["age", "class"])
    with pytest.raises(ValueError, match="'class' is the target: .* the weight too"):
        Marginals.from_sql(connection, "visits", "class", weight="class")
    with pytest.raises(ValueError, match="numeric names 'shoe'"):
        Marginals.from_sql(
            connection, "visits", "class", encoder=Encoder(numeric=["shoe"])
        )


@pytest.mark.parametrize("query", ["(SELECT 1)", "select * from visits", " WITH a"])
def test_a_query_is_no_table(lite: sqlite3.Connection, query: str) -> None:
    with pytest.raises(ValueError, match="not a query"):
        Marginals.from_sql(lite, query, "class")


def test_no_rows_and_no_features(connection: Any) -> None:
    load(connection, "visits", visits(30))
    with pytest.raises(ValueError, match="'visits' has no rows.*'1 = 0'"):
        Marginals.from_sql(connection, "visits", "class", where="1 = 0")
    load(connection, "empty", visits(30)[:0])
    with pytest.raises(ValueError, match="'empty' has no rows"):
        Marginals.from_sql(connection, "empty", "class")
    load(connection, "alone", pa.table({"y": ["a", "b"]}))
    with pytest.raises(ValueError, match="no column beside the target 'y'"):
        Marginals.from_sql(connection, "alone", "y")
    load(connection, "gone", pa.table({"x": ["a"], "y": pa.array([None], pa.string())}))
    with pytest.raises(ValueError, match="'y' is missing in every row"):
        Marginals.from_sql(connection, "gone", "y")


def test_a_quoted_name_that_is_no_column_is_no_text(connection: Any) -> None:
    load(connection, "visits", visits(50))
    for where in ('"agee" > 5', "ward <> 'b' AND \"Wards\" = 'a'"):
        with pytest.raises(ValueError, match="Invalid filter .*(agee|Wards)"):
            Marginals.from_sql(connection, "visits", "class", where=where)
        if engine_of(connection) == "postgres":
            connection.rollback()
    where = '"visits"."age" > 0 /* "x" */ AND ward <> \'"x"\' -- "x"'
    assert Marginals.from_sql(connection, "visits", "class", where=where).n


def test_a_condition_that_is_no_sql(connection: Any) -> None:
    load(connection, "visits", visits(30))
    for where, about in [("age = = 20", "syntax error|=|near"), ("shoe > 4", "shoe")]:
        told = f"^Invalid filter '{where}': [^\n]*({about})"
        with pytest.raises(ValueError, match=told) as caught:
            Marginals.from_sql(connection, "visits", "class", where=where)
        assert "\n" not in str(caught.value)
    assert Marginals.from_sql(connection, "visits", "class").n == 30


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, None], "'w' is (missing|nan)"),
        ([1.0, -2.0], "'w' is -2"),
        ([0.0, 0.0], "weights are zero"),
        ([1.0, float("inf")], "'w' is inf"),
    ],
)
def test_bad_weights(connection: Any, weights: list[Any], message: str) -> None:
    load(connection, "v", pa.table({"x": [1, 2], "y": [1, 2], "w": weights}))
    with pytest.raises(ValueError, match=message):
        Marginals.from_sql(connection, "v", "y", weight="w")


def test_weights_that_are_no_numbers(postgres: Any) -> None:
    table = pa.table({"x": [1, 2], "y": [1, 2], "w": [1.0, float("nan")]})
    load(postgres, "v", table)
    with pytest.raises(ValueError, match="'w' is nan"):
        Marginals.from_sql(postgres, "v", "y", weight="w")


def test_identifiers_and_very_many_values(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 100
    table = pa.table(
        {
            "number": range(n),
            "name": [f"p{k}" for k in range(n)],
            "x": np.random.default_rng(0).normal(size=n),
            "y": ["a", "b"] * (n // 2),
        }
    )
    load(connection, "people", table)
    for name, message in [("number", "numbers the rows"), ("name", "an identifier")]:
        with pytest.raises(ValueError, match=f"Column '{name}'.*{message}"):
            Marginals.from_sql(connection, "people", "y", columns=[name])
    with pytest.raises(ValueError, match="'number'"):
        Marginals.from_sql(connection, "people", "y")
    if engine_of(connection) == "postgres":
        monkeypatch.setattr("renyi.sources.sql_counts.MAX_LABELS", 99)
        with pytest.raises(ValueError, match="'name' has more than 99"):
            Marginals.from_sql(connection, "people", "y", columns=["x", "name"])
    m = Marginals.from_sql(connection, "people", "y", columns=["x"])
    assert m == Marginals.from_data(table.select(["x", "y"]), target="y")


def test_nested_values(postgres: Any) -> None:
    postgres.execute("CREATE TEMP TABLE nested AS SELECT ARRAY[1, 2] AS a, 1 AS y")
    with pytest.raises(TypeError, match="Column 'a' holds nested values"):
        Marginals.from_sql(postgres, "nested", "y")


def test_what_is_no_connection(lite: sqlite3.Connection) -> None:
    with pytest.raises(TypeError, match="must be a DB-API one"):
        Marginals.from_sql("people.db", "people", "y")
    tuples = renyi.encoding.tuples.TupleEncoder()
    lite.execute("CREATE TABLE t (a, y)")
    with pytest.raises(ValueError, match="give an encoder of order 1"):
        Marginals.from_sql(lite, "t", "y", encoder=tuples)


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_a_transaction_that_failed_before(
    engine: str, request: pytest.FixtureRequest
) -> None:
    connection = (
        duckdb.connect() if engine == "duckdb" else request.getfixturevalue("postgres")
    )
    load(connection, "visits", visits(30))
    connection.execute("BEGIN TRANSACTION" if engine == "duckdb" else "SELECT 1")
    with pytest.raises((duckdb.Error, psycopg.Error)):
        connection.execute("SELECT CAST('a' AS INTEGER) FROM visits")
    with pytest.raises(ValueError, match="aborted.*: .*roll back your transaction"):
        Marginals.from_sql(connection, "visits", "class")
    connection.rollback()
    assert Marginals.from_sql(connection, "visits", "class").n == 30


def test_statements_leave_out_what_asks_nothing() -> None:
    class Watched:
        def __init__(self, inner: Any) -> None:
            self.inner, self.seen = inner, []

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def execute(self, statement: str) -> Any:
            self.seen.append(statement)
            return self.inner.execute(statement)

    with duckdb.connect() as connection:
        load(connection, "visits", visits(30))
        made = type("Connection", (Watched,), {"__module__": "duckdb"})(connection)
        told = sql.statements(made, "visits", "class")
        seen: list[str] = made.seen
        assert seen[:2] == ["SELECT txid_current()"] * 2
        assert [each for each in told if each in seen] == seen[2:]
        assert not any("txid" in each for each in told)


# ---- connections that go


def test_a_closed_connection() -> None:
    for made in (sqlite3, duckdb):
        closed = made.connect(":memory:")
        closed.close()
        with pytest.raises(ConnectionError, match="is closed or was lost"):
            Marginals.from_sql(closed, "visits", "class")


def test_a_connection_that_drops_in_mid_job(lite: sqlite3.Connection) -> None:
    load(lite, "visits", visits(60))

    class Dropping(Meddler):
        def cursor(self) -> Any:
            if self.left <= 1:
                raise OSError("connection reset by peer\nmore about it")
            return super().cursor()

    with pytest.raises(
        ConnectionError, match=r"'ward' and 'age' \(connection reset by peer\)"
    ):
        Marginals.from_sql(Dropping(lite, 13, None), "visits", "class")


def test_an_unknown_driver_gets_plain_sql(lite: sqlite3.Connection) -> None:
    table = visits(60)
    load(lite, "visits", table)
    watched = Meddler(lite, 0, None)
    assert dialects.dialect_of(watched) is dialects.PORTABLE
    assert Marginals.from_sql(watched, "visits", "class") == Marginals.from_data(
        table, target="class"
    )


def test_a_backend_that_is_killed(postgres: Any) -> None:
    load(postgres, "visits", visits(60))
    with psycopg.connect(postgres.info.dsn) as victim:
        pid = victim.info.backend_pid

        def kill() -> None:
            postgres.execute("SELECT pg_terminate_backend(%s)", [pid])
            postgres.commit()

        watched = meddled("psycopg")(victim, 9, kill)
        with pytest.raises(ConnectionError, match="was lost"):
            Marginals.from_sql(watched, "visits", "class")
    assert Marginals.from_sql(postgres, "visits", "class").n == 60


def test_warnings_point_to_the_caller(lite: sqlite3.Connection) -> None:
    load(lite, "gaps", pa.table({"x": ["a", "b", "b"], "y": ["n", "y", None]}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Marginals.from_sql(lite, "gaps", "y")
    assert caught[0].filename == __file__


def test_a_table_of_another_schema_is_suggested_with_it():
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA clinic")
    connection.execute("CREATE TABLE clinic.visits AS SELECT 1 AS a, 2 AS y")
    with pytest.raises(ValueError, match=r"did you mean 'clinic\.visits'\?"):
        renyi.Marginals.from_sql(connection, "visits", "y")
