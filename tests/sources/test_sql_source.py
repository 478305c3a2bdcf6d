"""Marginals of a table in a database equal those of its rows in memory."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources import dialects, sql
from renyi.warnings import DataWarning
from support import warehouses
from support.warehouses import HOSTILE, engine_of, load, quoted, visits

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


def test_forty_thousand_rows(postgres: Any) -> None:
    table = visits(40_000)
    expected = Marginals.from_data(table, target="class")
    with duckdb.connect() as connection:
        load(connection, "visits", table)
        assert Marginals.from_sql(connection, "visits", "class") == expected
    load(postgres, "visits", table)
    assert Marginals.from_sql(postgres, "visits", "class") == expected


def test_with_and_without_grouping_sets(
    postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = visits(2000)
    load(postgres, "visits", table)
    expected = Marginals.from_data(table, target="class", class_conditional=True)
    assert "GROUPING SETS" in sql.statements(postgres, "visits", "class")[-2]
    plain = dataclasses.replace(dialects.DIALECTS["postgres"], grouping=0)
    monkeypatch.setitem(dialects.DIALECTS, "postgres", plain)
    sent = sql.statements(postgres, "visits", "class")
    assert not any("GROUPING" in each for each in sent)
    m = Marginals.from_sql(postgres, "visits", "class", class_conditional=True)
    assert m == expected


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize("inner", [False, True])
def test_weights_may_be_texts_of_numbers(connection: Any, inner: bool) -> None:
    weights = ["1", "0", "0.5", "2", "0.25", "0"] * 4
    table = pa.table({"x": ["p", "r", "q", "q"] * 6, "y": ["u", "w", "v"] * 8})
    load(connection, "v", table.append_column("w", pa.array(weights)))
    m = Marginals.from_sql(connection, "v", "y", weight="w", class_conditional=inner)
    assert m == Marginals.from_data(
        table,
        target="y",
        sample_weight=[float(each) for each in weights],
        class_conditional=inner,
    )
    assert m.n == 15


def test_a_word_is_no_weight(lite: sqlite3.Connection) -> None:
    lite.execute("CREATE TABLE v (x, y, w)")
    rows = [("p", "u", "abc"), ("q", "v", 1), ("p", "v", 2.5)]
    lite.executemany("INSERT INTO v VALUES (?, ?, ?)", rows)
    with pytest.raises(ValueError, match="weight.* in column 'w' is 'abc'"):
        Marginals.from_sql(lite, "v", "y", weight="w")


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
    with pytest.warns(DataWarning, match="Dropped 30 rows .*'y'"):
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
    with pytest.warns(DataWarning, match="Dropped"):
        m = Marginals.from_sql(connection, "gaps", "y", encoder=encoder)
    known = pa.compute.is_in(table["y"], pa.array([0, 1], kind))
    kept = table.filter(known)
    assert m == Marginals.from_data(kept, target="y", encoder=encoder)


def test_missing_codes_of_a_target_of_bytes(connection: Any) -> None:
    labels = [b"u", b"?", b"v", None, b"u", b""] * 10
    table = pa.table({"x": ["n", "y", "y"] * 20, "y": pa.array(labels, pa.binary())})
    load(connection, "gaps", table)
    with pytest.warns(DataWarning, match="Dropped 30 rows .*'y'"):
        m = Marginals.from_sql(connection, "gaps", "y")
    with pytest.warns(DataWarning, match="Dropped 30 row"):
        assert m == Marginals.from_arrow(table, target="y")
    assert m.categories["y"] == ("u", "v")
    assert m.n == 30


def test_a_code_that_cannot_be_left_out(
    postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(postgres, "gaps", pa.table({"x": ["n", "y", "y"], "y": ["u", "?", None]}))
    monkeypatch.setattr(dialects.Dialect, "literal", lambda *_: "'nothing of the kind'")
    with (
        pytest.warns(DataWarning, match="Dropped 1 row"),
        pytest.raises(ValueError, match="'y' holds missing codes"),
    ):
        Marginals.from_sql(postgres, "gaps", "y")


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


class Recorder:
    """A connection of psycopg whose statements are kept."""

    __module__ = "psycopg"

    def __init__(self, inner: Any) -> None:
        self.inner, self.sent = inner, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def cursor(self) -> Any:
        return RecordingCursor(self.inner.cursor(), self.sent)


class RecordingCursor:
    def __init__(self, inner: Any, sent: list[str]) -> None:
        self.inner, self.sent = inner, sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def execute(self, statement: str) -> Any:
        self.sent.append(statement)
        return self.inner.execute(statement)


def test_statements_are_what_is_sent(lite: sqlite3.Connection) -> None:
    load(lite, "visits", visits(200))
    names, sent = ["ward", "kids"], []
    given: dict[str, Any] = {"columns": names, "where": "age > 20"}
    listed = sql.statements(lite, "visits", "class", **given)
    lite.set_trace_callback(sent.append)
    Marginals.from_sql(lite, "visits", "class", **given)
    # A first pass reads what may be numbers.
    first = "SELECT +`kids` AS `kids`, +`class` AS `class` FROM `visits` "
    assert sent == [*listed[:-2], first + "WHERE (age > 20)", *listed[-2:]]
    sent.clear()
    sql.statements(lite, "visits", "class", **given)
    assert sent == [*listed[:-2], "ROLLBACK"]


def test_statements_of_a_server(postgres: Any) -> None:
    load(postgres, "visits", visits(200))
    recorder = Recorder(postgres)
    listed = sql.statements(recorder, "visits", "class")
    pairs = [each for each in listed if "GROUPING SETS" in each]
    assert sum(each.partition("SETS (")[2].count("), (") + 1 for each in pairs) == 21
    assert not any("," in each.partition("GROUP BY")[2] for each in recorder.sent)
    now = [each for each in listed if each not in (*pairs, "ROLLBACK")]
    assert [*dict.fromkeys(recorder.sent)] == [*dict.fromkeys(now)]
    recorder.sent.clear()
    Marginals.from_sql(recorder, "visits", "class")
    assert [*dict.fromkeys(recorder.sent)] == [*dict.fromkeys(listed[:-1])]


def test_statements_say_which_of_them_are_run(connection: Any) -> None:
    load(connection, "visits", visits(200))
    told = sql.statements(connection, "visits", "class", explained=True)
    bare = sql.statements(connection, "visits", "class")
    marked = [k for k, each in enumerate(told) if each.startswith("--")]
    assert marked[0] == 0
    assert "Run now" in told[0]
    assert "Not run" in told[marked[1]]
    uncommented = [
        "\n".join(line for line in each.splitlines() if not line.startswith("--"))
        for each in told
    ]
    assert uncommented == bare
    # The first about several columns is the one marked.
    held = [each for each in told[: marked[1]] if "typeof" not in each]
    assert not any("class" in each and "age" in each for each in held)
    assert "class" in told[marked[1]]
