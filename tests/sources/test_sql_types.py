"""Types of values in a database: their labels and numbers are those of memory."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources import sql
from renyi.warnings import DataWarning
from support import warehouses
from support.warehouses import load

connection = warehouses.connection
lite = warehouses.lite
postgres = warehouses.postgres


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_every_type_of_value(engine: str, request: pytest.FixtureRequest) -> None:
    connection = (
        duckdb.connect() if engine == "duckdb" else request.getfixturevalue("postgres")
    )
    rng = np.random.default_rng(1)
    n = 300
    days = [datetime.date(2024, 1, k) for k in range(1, 6)]
    moments = [datetime.datetime(2024, 1, 1, 12, k, 0, 500_000 * k) for k in range(2)]
    prices = [decimal.Decimal(k) / 100 for k in range(37)]
    values = {
        "day": (days, pa.date32()),
        "moment": (moments, pa.timestamp("us")),
        "hour": ([datetime.time(k) for k in range(3)], pa.time64("us")),
        "price": (prices, pa.decimal128(8, 2)),
        "paid": ([True, False], pa.bool_()),
        "raw": ([b"a", b"\xff\x00"], pa.binary()),
        "single": ([0.1, 0.7, 2.5, 1e-3, 7.0, 8.0, 9.25], pa.float32()),
    }
    made = {
        name: pa.array([each[k] for k in rng.integers(0, len(each), n)], kind)
        for name, (each, kind) in values.items()
    }
    made["y"] = pa.array(rng.integers(0, 3, n))
    table = pa.table(made)
    load(connection, "typed", table)
    assert Marginals.from_sql(connection, "typed", "y") == Marginals.from_data(
        table, target="y"
    )
    labels = Encoder(numeric=("price",), bins=3)
    names = [name for name in made if name not in ("single", "y")]
    m = Marginals.from_sql(connection, "typed", "y", columns=names, encoder=labels)
    part = table.select([*names, "y"])
    assert m == Marginals.from_data(part, target="y", encoder=labels)


def test_uuids_and_intervals_are_labels_by_their_text(postgres: Any) -> None:
    postgres.execute(
        "CREATE TEMP TABLE odd AS SELECT k % 2 AS y, make_interval(days => k % 3) AS t,"
        " ('00000000-0000-0000-0000-00000000000' || k % 4)::uuid AS u"
        " FROM generate_series(1, 60) k"
    )
    m = Marginals.from_sql(postgres, "odd", "y")
    assert m.categories["u"][3] == "00000000-0000-0000-0000-000000000003"
    assert m.categories["t"] == ("0", "172800", "86400")
    assert m.block("u", "y").to_numpy().tolist() == [[15, 0], [0, 15], [15, 0], [0, 15]]


def test_sqlite_mixes_types_in_a_column(lite: sqlite3.Connection) -> None:
    rows = [
        (cell, number, k % 2)
        for k, (cell, number) in enumerate(
            [(1, 0.5), ("a", "?"), (2, 7), ("b", None), (2, ""), (None, 3)] * 20
        )
    ]
    lite.execute("CREATE TABLE mixed (cell, number, y)")
    lite.executemany("INSERT INTO mixed VALUES (?, ?, ?)", rows)
    frame = pd.DataFrame(rows, columns=["cell", "number", "y"], dtype=object)
    m = Marginals.from_sql(lite, "mixed", "y")
    assert m == Marginals.from_data(frame, target="y")
    assert m.columns[1].kind == "number"
    fitted = Marginals.from_sql(lite, "mixed", "y", encoder=m.encoder)
    assert fitted == m


def test_sqlite_takes_whole_floats_for_integers(lite: sqlite3.Connection) -> None:
    rows = [(cell, "uvw"[k % 3], k % 2) for k, cell in enumerate([1, 1.0, 2.0, 2] * 20)]
    lite.execute("CREATE TABLE mixed (cell, word, y)")
    lite.executemany("INSERT INTO mixed VALUES (?, ?, ?)", rows)
    frame = pd.DataFrame(rows, columns=["cell", "word", "y"], dtype=object)
    encoder = Encoder(numeric=())
    m = Marginals.from_sql(lite, "mixed", "y", encoder=encoder)
    assert m == Marginals.from_data(frame, target="y", encoder=encoder)
    assert m.block("cell", "word").to_numpy().sum() == 80


@pytest.mark.parametrize("made", [sqlite3, duckdb])
def test_columns_blind_to_capital_letters(made: Any) -> None:
    rows = [("AabB"[k % 4], "uvw"[k % 3], "pPq?"[k * k % 7 % 4]) for k in range(60)]
    with contextlib.closing(made.connect(":memory:")) as connection:
        kind = "VARCHAR COLLATE NOCASE"
        connection.execute(f"CREATE TABLE t (x {kind}, z VARCHAR, y {kind})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.commit()
        frame = pd.DataFrame(rows, columns=["x", "z", "y"])
        encoder = Encoder(missing=("a",))
        m = Marginals.from_sql(connection, "t", "y", encoder=encoder)
    assert m == Marginals.from_data(frame, target="y", encoder=encoder)
    assert m.categories["x"] == ("A", "B", "b", None)


def test_postgres_labels_of_single_precision(postgres: Any) -> None:
    cells = pa.array([0.1, 0.2, 0.7, None] * 15, pa.float32())
    table = pa.table({"x": cells, "z": ["A", "a", "b"] * 20, "y": ["p", "q", "q"] * 20})
    load(postgres, "t", table)
    encoder = Encoder(numeric=())
    m = Marginals.from_sql(postgres, "t", "y", encoder=encoder)
    assert m == Marginals.from_data(table, target="y", encoder=encoder)
    # Its server may know collations that take "A" for "a"; these do not count.
    assert '"z" COLLATE "C" AS "z"' in sql.statements(postgres, "t", "y")[-2]


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_times_with_a_zone(engine: str, request: pytest.FixtureRequest) -> None:
    connection = (
        duckdb.connect() if engine == "duckdb" else request.getfixturevalue("postgres")
    )
    connection.execute("SET TIME ZONE 'America/New_York'")
    texts = ["2024-11-03 05:30:00.0006Z", "2024-11-03 06:30:00.0006Z", None]
    clock = pa.array(texts * 20).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"t": clock, "y": ["n", "p", "p", "n"] * 15})
    load(connection, "clock", table)
    m = Marginals.from_sql(connection, "clock", "y")
    assert m == Marginals.from_data(table, target="y")
    assert m.categories["t"] == tuple(texts)
    assert m == Marginals.from_arrow(table, target="y")


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_whole_decimals_are_integers(
    engine: str, request: pytest.FixtureRequest
) -> None:
    connection = (
        duckdb.connect() if engine == "duckdb" else request.getfixturevalue("postgres")
    )
    wide = pa.decimal128(38, 0)
    values = {
        "few": [0, 1, 2, 7, None],
        "many": [*range(-20, 30), None],
        "huge": [2**100, 2**100 + 1, 5, None],
        "none": [None],
    }
    made = {
        name: pa.array([each[k % len(each)] for k in range(240)], wide)
        for name, each in values.items()
    }
    table = pa.table({**made, "y": pa.array([1, 2, 3] * 80, wide)})
    load(connection, "whole", table)
    m = Marginals.from_sql(connection, "whole", "y")
    assert m == Marginals.from_data(table, target="y")
    assert m == Marginals.from_arrow(table, target="y")
    assert m.categories["few"] == (0, 1, 2, 7, None)
    assert [column.kind for column in m.columns[:2]] == ["label", "number"]
    for encoder in (m.encoder, Encoder(numeric=("few", "huge"))):
        m = Marginals.from_sql(connection, "whole", "y", encoder=encoder)
        assert m == Marginals.from_data(table, target="y", encoder=encoder)
        assert m == Marginals.from_arrow(table, target="y", encoder=encoder)


def test_sums_of_integers_are_integers() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT SUM(k % 3) AS s, SUM(k % 50) AS many, k % 2 AS y"
            " FROM range(200) r(k) GROUP BY k"
        )
        m = Marginals.from_sql(connection, "t", "y")
        assert m == Marginals.from_arrow(connection.sql("FROM t"), target="y")
        assert m.categories["s"] == (0, 1, 2)
        assert m.columns[1].kind == "number"


def test_postgres_texts_of_a_fixed_length(postgres: Any) -> None:
    postgres.execute("CREATE TEMP TABLE padded (x char(4), y char(3))")
    rows = [("ab?"[k % 3], "pq?"[k * k % 7 % 3]) for k in range(60)]
    postgres.cursor().executemany("INSERT INTO padded VALUES (%s, %s)", rows)
    frame = pd.DataFrame(rows, columns=["x", "y"])
    with pytest.warns(DataWarning, match="Dropped .*'y'"):
        m = Marginals.from_sql(postgres, "padded", "y")
    with pytest.warns(DataWarning, match="Dropped .*'y'"):
        expected = Marginals.from_arrow(frame, target="y")
    assert m == expected
    postgres.rollback()


def test_texts_of_numbers(connection: Any) -> None:
    texts = ["1", "2.5", "30", "?", "-4", "1e3"] * 10
    table = pa.table({"size": texts, "y": ["a", "b", "b"] * 20})
    load(connection, "texts", table)
    encoder = Encoder(numeric=("size",), bins=3)
    m = Marginals.from_sql(connection, "texts", "y", encoder=encoder)
    assert m == Marginals.from_data(table, target="y", encoder=encoder)
    assert m.columns[0].kind == "number"


def test_a_text_that_is_no_number(connection: Any) -> None:
    load(connection, "texts", pa.table({"size": ["1", "2", "big"], "y": [0, 1, 1]}))
    with pytest.raises(ValueError, match="'size' is numeric but holds 'big'"):
        Marginals.from_sql(connection, "texts", "y", encoder=Encoder(numeric=("size",)))


def test_sqlite_texts_are_the_numbers_of_python(lite: sqlite3.Connection) -> None:
    # CAST('1_000' AS REAL) is 1 there, and 1000 in Python.
    table = pa.table({"size": ["1", "2", "1_000"], "y": [0, 1, 1]})
    load(lite, "texts", table)
    fitted = Encoder().fit(pa.table({"size": [0.5, 1.5, 2.5]}))
    for encoder in (Encoder(numeric=("size",)), fitted):
        m = Marginals.from_sql(lite, "texts", "y", encoder=encoder)
        assert m == Marginals.from_data(table, target="y", encoder=encoder)


def test_a_text_that_a_server_reads_as_another_number(lite: Any) -> None:
    # As an unknown driver, SQLite reads '1_000' as 1.
    cells = [f"{k}" for k in range(1, 9)] + ["1_000"]
    load(lite, "texts", pa.table({"size": cells, "y": [0, 1, 1] * 3}))
    encoder = Encoder(numeric=("size",), bins=3)
    with pytest.raises(ValueError, match="'texts'.*another number"):
        Marginals.from_sql(Unknown(lite), "texts", "y", encoder=encoder)


class Unknown:
    """A connection of a driver that nobody knows."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def cursor(self) -> Any:
        return self.inner.cursor()


def test_sqlite_converters_are_not_called(tmp_path: Path) -> None:
    path = tmp_path / "days.db"
    rows = [("2024-01-01", "u"), ("2024-01-02", "v"), (None, "v")] * 9
    with contextlib.closing(
        sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES)
    ) as connection:
        connection.execute("CREATE TABLE t (day date, y text)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        m = Marginals.from_sql(connection, "t", "y")
    assert m == Marginals.from_data(
        pd.DataFrame(rows, columns=["day", "y"]), target="y"
    )


def test_duckdb_intervals_and_enumerations() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT to_days(k::INTEGER % 3) AS span, k % 2 AS y,"
            " (['a', 'b'][k % 2 + 1])::ENUM ('c', 'b', 'a') AS word,"
            " TIMETZ '12:00:00+02' AS clock FROM range(60) r(k)"
        )
        m = Marginals.from_sql(connection, "t", "y")
    assert m.categories["span"] == ("0", "172800", "86400")
    assert m.categories["word"] == ("a", "b")
    assert m.categories["clock"] == ("12:00:00+02",)


def test_bins_of_a_first_table_count_the_texts_of_a_second(connection: Any) -> None:
    encoder = Encoder(numeric=("size",), bins=3)
    texts = ["1.5", "2.5", "30", "?", "-4", "1e3"]
    table = pa.table({"size": texts * 10, "y": ["a", "b", "b"] * 20})
    fitted = Marginals.from_data(table, target="y", encoder=encoder).encoder
    second = pa.table({"size": ["7", "2.5", "?", "-9.25"] * 5, "y": ["a", "b"] * 10})
    load(connection, "texts", second)
    m = Marginals.from_sql(connection, "texts", "y", encoder=fitted)
    assert m == Marginals.from_data(second, target="y", encoder=fitted)
    assert m.columns[0].levels.edges == fitted.columns[0].levels.edges


def test_a_word_is_not_put_into_a_bin(lite: sqlite3.Connection) -> None:
    fitted = Encoder().fit(pa.table({"size": [0.5, 1.5, 2.5]}))
    lite.execute("CREATE TABLE t (size, y)")
    rows = [(0.7, 0), (b"?", 1), ("?", 1), (b"2.5", 0), (None, 1)]
    lite.executemany("INSERT INTO t VALUES (?, ?)", rows)
    m = Marginals.from_sql(lite, "t", "y", encoder=fitted)
    assert m.block("size", "y").to_numpy().sum(axis=1)[-1] == 3  # missing
    lite.execute("INSERT INTO t VALUES ('big', 0)")
    with pytest.raises(ValueError, match="'size' .*'big'"):
        Marginals.from_sql(lite, "t", "y", encoder=fitted)


@pytest.mark.parametrize("kind", ["TIMESTAMP_NS", "TIMESTAMP", "DATE"])
def test_duckdb_times_that_its_driver_changes(kind: str) -> None:
    texts = [f"2024-01-01 10:00:00{end}" for end in ("", ".1", ".100001", ".120")]
    texts += ["2024-01-02", "2024-01-01 10:00:00.123456788"]
    texts += ["2024-01-01 10:00:00.123456789", "9999-12-31"][: 1 + (kind == "DATE")]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (a {kind}, y {kind}, z VARCHAR)")
        rows = [(text, text, "uv"[k % 2]) for k, text in enumerate(texts * 4)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        m = Marginals.from_sql(connection, "t", "y")
        stored = connection.sql("FROM t").to_arrow_table()
        assert m == Marginals.from_arrow(stored, target="y")
        connection.execute("INSERT INTO t VALUES ('infinity', '2024-01-02', 'u')")
        m = Marginals.from_sql(connection, "t", "y", columns=["a"])
    assert m.categories["a"][-1] == "infinity"
    assert len(m.categories["a"]) == len(m.categories["y"]) + 1


def test_postgres_times_without_an_end(postgres: Any) -> None:
    postgres.execute(
        "CREATE TEMP TABLE ends AS SELECT k % 2 AS y, CASE k % 3 WHEN 0 THEN 'infinity'"
        " WHEN 1 THEN '2024-01-01 10:00:00.5Z' END::timestamptz AS t"
        " FROM generate_series(1, 60) AS k"
    )
    m = Marginals.from_sql(postgres, "ends", "y")
    assert m.categories["t"] == ("2024-01-01 10:00:00.5Z", "infinity", None)
    assert m.block("t", "y").to_numpy().sum(axis=1).tolist() == [20, 20, 20]
