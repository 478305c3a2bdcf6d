"""Marginals of a table in a database equal those of its rows in memory."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import re
import sqlite3
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import warehouses
from renyi.encoding import Encoder
from renyi.marginals import Marginals
from renyi.sources import dialects, sql
from renyi.sources.cells import DataWarning
from warehouses import HOSTILE, engine_of, load, quoted, visits

connection = warehouses.connection
lite = warehouses.lite
postgres = warehouses.postgres


# ---- the same counts


@pytest.mark.parametrize("inner", [False, True])
def test_counts_are_those_of_the_rows(connection: Any, inner: bool) -> None:
    table = visits(700)
    load(connection, "visits", table)
    encoder = Encoder(missing=("?", "", -1), min_count=3)
    m = Marginals.from_sql(
        connection, "visits", "class", encoder=encoder, class_conditional=inner
    )
    assert m == Marginals.from_data(
        table, target="class", encoder=encoder, class_conditional=inner
    )
    assert m.settings == encoder
    assert m.validate() is m


def test_two_hundred_thousand_rows_with_and_without_grouping_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with duckdb.connect() as connection:
        table = visits(200_000)
        load(connection, "visits", table)
        expected = Marginals.from_data(table, target="class")
        assert Marginals.from_sql(connection, "visits", "class") == expected
        assert "GROUPING SETS" in sql.statements(connection, "visits", "class")[-2]
        monkeypatch.setitem(dialects.DIALECTS, "duckdb", dialects.PORTABLE)
        sent = sql.statements(connection, "visits", "class")
        assert not any("GROUPING" in each for each in sent)
        assert Marginals.from_sql(connection, "visits", "class") == expected


cells = {
    "word": st.sampled_from(["a", "b", "B", "?", "", "1", "it's", "\\", "é\n", None]),
    "few": st.sampled_from([-9, 0, 1, 2, None]),
    "many": st.one_of(st.none(), st.integers(-60, 60)),
    "large": st.sampled_from([2**53, 2**53 + 1, 2**62, -(2**60), None]),
    "real": st.one_of(
        st.none(),
        st.sampled_from([0.0, -9.0, 0.1, 0.30000000000000004, 1e22, 5e-324]),
        st.floats(width=64),
    ),
}
kinds = {"word": pa.string(), "real": pa.float64()}


@st.composite
def small_tables(draw: st.DrawFn) -> pa.Table:
    n = draw(st.integers(1, 60))
    names = draw(st.lists(st.sampled_from(sorted(cells)), min_size=1, max_size=4))
    made = {
        f"{name} {k}": pa.array(
            draw(st.lists(cells[name], min_size=n, max_size=n)),
            kinds.get(name, pa.int64()),
        )
        for k, name in enumerate(names)
    }
    made["y"] = pa.array(draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n)))
    return pa.table(made)


def untyped_where_empty(table: pa.Table) -> pa.Table:
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        empty = pa.compute.all(pa.compute.is_null(column, nan_is_null=True)).as_py()
        columns[name] = pa.nulls(len(column)) if empty else column
    return pa.table(columns)


encoders = st.builds(
    Encoder,
    missing=st.sampled_from([(), ("?", ""), ("?", -9), ("B", "0.1")]),
    min_count=st.sampled_from([1, 2, 5]),
    bins=st.integers(2, 6),
)


def outcome(made: Any) -> Marginals | None:
    """Marginals, or None where a column is refused as an identifier."""
    try:
        found: Marginals = made()
    except ValueError as error:
        assert re.search("like an identifier|numbers the rows", str(error))
        return None
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=small_tables(), encoder=encoders, inner=st.booleans())
def test_any_small_table(
    connection: Any, table: pa.Table, encoder: Encoder, inner: bool
) -> None:
    load(connection, "small", table)
    if engine_of(connection) == "sqlite":  # whose columns have no type
        table = untyped_where_empty(table)
    options = {"target": "y", "encoder": encoder, "class_conditional": inner}
    m = outcome(lambda: Marginals.from_sql(connection, "small", **options))
    assert m == outcome(lambda: Marginals.from_data(table, **options))


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
    assert m.categories["t"] == ("0:00:00", "1 day, 0:00:00", "2 days, 0:00:00")
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
    with pytest.warns(DataWarning, match="left out: their target 'y' is missing"):
        m = Marginals.from_sql(postgres, "padded", "y")
    with pytest.warns(DataWarning, match="left out: their target 'y' is missing"):
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
    with pytest.raises(ValueError, match="'size' is to be numeric but holds 'big'"):
        Marginals.from_sql(connection, "texts", "y", encoder=Encoder(numeric=("size",)))


def test_sqlite_reads_no_text_as_zero(lite: sqlite3.Connection) -> None:
    # CAST('1_000' AS REAL) is 1 there, and 1000 in Python.
    load(lite, "texts", pa.table({"size": ["1", "2", "1_000"], "y": [0, 1, 1]}))
    with pytest.raises(ValueError, match="'1_000', which the database reads as"):
        Marginals.from_sql(lite, "texts", "y", encoder=Encoder(numeric=("size",)))
    fitted = Encoder().fit(pa.table({"size": [0.5, 1.5, 2.5]}))
    with pytest.raises(ValueError, match="'size' is to be numeric but holds text"):
        Marginals.from_sql(lite, "texts", "y", encoder=fitted)


# ---- options


def test_weights_count_as_repetition(connection: Any) -> None:
    table = visits(400)
    weight = np.random.default_rng(5).integers(0, 9, 400) / 4
    load(connection, "visits", table.append_column("w", pa.array(weight)))
    encoder = Encoder(min_count=4)
    m = Marginals.from_sql(
        connection,
        "visits",
        "class",
        encoder=encoder,
        weight="w",
        class_conditional=True,
    )
    assert m.weighted
    assert m == Marginals.from_data(
        table,
        target="class",
        encoder=encoder,
        sample_weight=weight,
        class_conditional=True,
    )


def test_where_and_columns(connection: Any) -> None:
    table = visits(500)
    load(connection, "visits", table)
    names = ["age", HOSTILE]
    m = Marginals.from_sql(
        connection, "visits", "class", columns=names, where="kids > 1 -- or 5"
    )
    kept = table.filter(pa.compute.greater(table["kids"], 1))
    assert m == Marginals.from_data(kept.select([*names, "class"]), target="class")


def test_fitted_encoder_keeps_bins_and_learns_labels(connection: Any) -> None:
    first, second = visits(300, 1), visits(500, 2)
    fitted = Marginals.from_data(first, target="class").encoder
    load(connection, "visits", second)
    m = Marginals.from_sql(connection, "visits", "class", encoder=fitted)
    assert m == Marginals.from_data(second, target="class", encoder=fitted)
    names = ["temperature", "ward"]
    part = Marginals.from_sql(
        connection, "visits", "class", encoder=fitted, columns=names
    )
    chosen = second.select([*names, "class"])
    assert part == Marginals.from_data(
        chosen, target="class", encoder=fitted.select(names)
    )


def test_rows_without_a_target_are_left_out(connection: Any) -> None:
    labels = ["a", "b", None, "?", "", "b"] * 10
    table = pa.table({"x": ["n", "y", "y"] * 20, "y": labels})
    load(connection, "gaps", table)
    with pytest.warns(DataWarning, match="30 rows were left out: their target 'y'"):
        m = Marginals.from_sql(connection, "gaps", "y")
    known = pa.compute.is_in(table["y"], pa.array(["a", "b"]))
    assert m == Marginals.from_data(table.filter(known), target="y")


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_missing_codes_of_a_numeric_target(connection: Any, kind: Any) -> None:
    labels = pa.array([0, 1, -9, None, 1, 0] * 10).cast(kind)
    if kind == pa.float64():
        labels = pa.array([*labels.to_pylist()[:-1], float("nan")], kind)
    table = pa.table({"x": ["n", "y", "y"] * 20, "y": labels})
    load(connection, "gaps", table)
    encoder = Encoder(missing=(-9,))
    with pytest.warns(DataWarning, match="rows were left out"):
        m = Marginals.from_sql(connection, "gaps", "y", encoder=encoder)
    known = pa.compute.is_in(table["y"], pa.array([0, 1], kind))
    kept = table.filter(known)
    assert m == Marginals.from_data(kept, target="y", encoder=encoder)


# ---- names


def test_names_are_quoted(connection: Any) -> None:
    table = pa.table({HOSTILE: ["a", "b"], "100%": [1, 2], "y": ["n", "y"]})
    load(connection, HOSTILE, table)
    m = Marginals.from_sql(connection, (HOSTILE,), "y")
    assert m == Marginals.from_data(table, target="y")
    assert Marginals.from_sql(connection, (HOSTILE,), HOSTILE).target == HOSTILE
    count = connection.execute(f"SELECT COUNT(*) FROM {quoted(HOSTILE)}").fetchone()
    assert count == (2,)


def test_schemas(connection: Any) -> None:
    schema = {"sqlite": "main", "duckdb": "main", "postgres": "public"}
    place = schema[engine_of(connection)]
    load(connection, "v.2024", pa.table({"x": [1, 2], "y": [1, 2]}))
    load(connection, "v", pa.table({"x": [1, 2, 2], "y": [1, 2, 2]}))
    assert Marginals.from_sql(connection, f"{place}.v", "y").n == 3
    assert Marginals.from_sql(connection, (place, "v.2024"), "y").n == 2


def test_more_columns_than_grouping_takes(postgres: Any) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({f"c{j}": rng.integers(0, 3, 90) for j in range(40)})
    load(postgres, "wide", table)
    assert Marginals.from_sql(postgres, "wide", "c39") == Marginals.from_data(
        table, target="c39"
    )
    sent = sql.statements(postgres, "wide", "c39", class_conditional=True)
    sizes = [each.partition(")")[0].count(",") for each in sent if "GROUPING(" in each]
    assert sizes
    assert max(sizes) < 31


# ---- audit


def test_statements_are_what_is_sent(lite: sqlite3.Connection) -> None:
    load(lite, "visits", visits(200))
    seen: list[str] = []
    lite.set_trace_callback(seen.append)
    Marginals.from_sql(lite, "visits", "class", where="age > 20")
    lite.set_trace_callback(None)
    told = sql.statements(lite, "visits", "class", where="age > 20")
    assert [" ".join(each.split()) for each in seen] == [
        " ".join(each.split()) for each in told
    ]


def test_statements_send_none_about_pairs(lite: sqlite3.Connection) -> None:
    load(lite, "visits", visits(200))
    seen: list[str] = []
    lite.set_trace_callback(seen.append)
    told = sql.statements(lite, "visits", "class")
    assert sum(each.count("SUM(") for each in told) == 21
    assert not any("," in each.partition("GROUP BY")[2] for each in seen)


def test_statements_say_which_of_them_are_asked(connection: Any) -> None:
    load(connection, "visits", visits(200))
    told = sql.statements(connection, "visits", "class", explained=True)
    bare = sql.statements(connection, "visits", "class")
    marked = [k for k, each in enumerate(told) if each.startswith("--")]
    assert marked[0] == 0
    assert "Asked now" in told[0]
    assert "Printed only" in told[marked[1]]
    uncommented = [
        "\n".join(line for line in each.splitlines() if not line.startswith("--"))
        for each in told
    ]
    assert uncommented == bare
    # The first about pairs is the one marked, and there is none before.
    assert not any("class" in each and "age" in each for each in told[: marked[1]])
    assert "class" in told[marked[1]]
