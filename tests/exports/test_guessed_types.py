"""Scores where engines guessed the types of columns, or columns are not there."""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.scorecard import Scorecard
from renyi.sources import files
from support import warehouses
from support.engines import duckdb
from support.sqlcards import card_of
from support.warehouses import engine_of, load

connection = warehouses.connection
lite = warehouses.lite
postgres = warehouses.postgres

# Cells of CSV files that DuckDB, PostgreSQL or pandas take for other than text.
CELLS = {
    "t or f": ["t", "f"],
    "capital t": ["T", "F"],
    "yes or no": ["yes", "no"],
    "small": ["true", "false"],
    "title": ["True", "False"],
    "capitals": ["TRUE", "FALSE", ""],
    "0 or 1": ["0", "1"],
    "integers": ["1", "2", "30", ""],
    "signed": ["+1", "-2", "+3"],
    "codes": ["007", "012", "100"],
    "floats": ["1.5", "2", "-0.0", "1e3"],
    "prices": ["1.50", "2.00", ".5", "1e3", ""],
    "dates": ["2024-01-02", "2024-02-03", "0999-12-31"],
    "moments": ["2024-01-02T03:04:05", "2024-01-02T03:04:05.120", ""],
    "seconds": ["2024-01-02 03:04:05", "2024-01-02 00:00:00"],
    "times": ["03:04:00", "13:04:00", "03:04:05.5"],
    "words": ["a", "it's", "?", "None"],
}
LABELS = ["prices", "floats"]  # that are not to be binned


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guessed") / "cells.csv"
    rng = np.random.default_rng(0)
    cells = {name: rng.choice(each, 60) for name, each in CELLS.items()}
    pd.DataFrame({"k": range(60), **cells}).to_csv(path, index=False)
    return path


def rows_of(path: Path) -> pa.Table:
    """The rows as the command line reads them."""
    kinds = dict.fromkeys(LABELS, "label")
    return files.read_table(path, list(CELLS), kinds=kinds)


def guessed(connection: Any, path: Path) -> dict[str, str]:
    """Load a file with the types that are guessed of its cells; return them."""
    engine, types = engine_of(connection), {}
    if engine == "sqlite":
        frame = pd.read_csv(path, na_values=["?"], keep_default_na=False)
        frame.to_sql("cells", connection, index=False, if_exists="replace")
        return types
    with duckdb.connect() as duck:
        read = f"FROM read_csv('{path}', nullstr = ['?', ''])"
        types = {n: str(t) for n, t, *_ in duck.execute(f"DESCRIBE {read}").fetchall()}
    if engine == "duckdb":
        connection.execute(f"CREATE OR REPLACE TABLE cells AS {read}")
        return types
    double = {"DOUBLE": "double precision", "VARCHAR": "text"}
    columns = ", ".join(f'"{n}" {double.get(t, t)}' for n, t in types.items())
    connection.execute("DROP TABLE IF EXISTS cells")
    connection.execute(f"CREATE TABLE cells ({columns})")
    frame = pd.read_csv(path, dtype=str, na_values=["?", ""], keep_default_na=False)
    with connection.cursor().copy("COPY cells FROM STDIN") as copy:
        for row in frame.astype(object).where(frame.notna(), None).itertuples():
            copy.write_row(row[1:])
    connection.commit()
    return types


# Columns whose scores are right under every guess; those of the others may be NULL.
RIGHT = ["t or f", "capital t", "yes or no", "0 or 1", "integers", "dates", "seconds"]
RIGHT += ["times", "words"]


def scores(connection: Any, card: Scorecard) -> np.ndarray:
    """The scores of the loaded cells; NaN where they are NULL."""
    sql = f"SELECT {card.to_sql(engine_of(connection))} FROM cells ORDER BY k"
    return np.array(connection.execute(sql).fetchall(), np.float64)[:, 0]


def test_guessed_types_have_the_scores_of_predict(connection: Any, table: Path) -> None:
    types = guessed(connection, table)
    if types:
        assert {"BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIME"} <= set(types.values())
        connection.execute("SET TIME ZONE 'America/New_York'")
    if engine_of(connection) == "postgres":
        connection.execute("SET DateStyle = 'German'")
    for name in CELLS:
        rows = rows_of(table).select([name])
        card = card_of(rows, Encoder(numeric=()))
        expected = card.scores(card.encoder.transform(rows))[:, 0]
        found = scores(connection, card)
        told = ~np.isnan(found)
        assert told.all() or name not in RIGHT
        np.testing.assert_allclose(found[told], expected[told], rtol=0, atol=1e-12)
    if engine_of(connection) == "postgres":
        connection.rollback()


def test_guessed_types_of_pairs_of_columns(connection: Any, table: Path) -> None:
    rows = rows_of(table).select(["t or f", "integers", "dates", "times"])
    card = card_of(rows, TupleEncoder(order=2, numeric=()))
    expected = card.scores(card.encoder.transform(rows))[:, 0]
    guessed(connection, table)
    found = scores(connection, card)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


FORMS = [
    ["t", "f", "T", "F", "yes", "no", "y", "n", "true", "false", "True", "TRUE"],
    ["1", "1.0", "01", "1.50", "1.5", "1e3", "1000", "+1", "-0", "0", ".5", "5."],
    ["007", "7", "0x10", "16", "9007199254740993", "9007199254740992"],
    ["2024-01-02", "2024-1-2", "2024/01/02", "01/02/2024", "2024-01-02 00:00:00"],
    ["2024-01-02T03:04:05", "2024-01-02 03:04:05.120", "2024-01-02T03:04:05Z"]
    + ["2024-01-02 03:04:05+02", "2024-01-02 01:04:05Z", "9999-12-31", "epoch"],
    ["3:04", "03:04", "03:04:00", "03:04:05.5", "03:04:05.50", "13:04:05", "3:4"],
]
forms = st.sampled_from(FORMS).flatmap(
    lambda pool: st.lists(st.sampled_from([*pool, ""]), min_size=2, max_size=8)
)


@pytest.fixture(scope="module")
def duck() -> Any:
    with duckdb.connect() as connection:
        yield connection


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=forms, seed=st.integers(0, 9))
def test_any_guess_is_right_or_refused(
    duck: Any, tmp_path: Path, cells: list[str], seed: int
) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("k,w\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    rows = files.read_table(path, ["w"], kinds={"w": "label"})
    card = card_of(rows, Encoder(), seed=seed)
    expected = card.scores(card.encoder.transform(rows))[:, 0]
    try:
        duck.execute(f"CREATE OR REPLACE TABLE cells AS FROM '{path}'")
    except duckdb.ConversionException:  # its guess of a date does not fit its own file
        reject()
    sql = f"SELECT {card.to_sql()} FROM cells ORDER BY k"
    found = np.array(duck.execute(sql).fetchall(), np.float64)[:, 0]
    told = ~np.isnan(found)
    np.testing.assert_allclose(found[told], expected[told], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "cells", "scored"),
    [
        (["1.50", "1.5", "2"], [1.5, 2.0, 3.0], [False] * 3),
        (["007", "8"], [7, 8, 9], [False] * 3),
        (["7", "0x8"], [7, 8, 9], [False] * 3),
        (["1", "inf", "nan"], [1.0, math.inf, 2.5], [True] * 3),
    ],
)
def test_no_score_where_labels_cannot_be_told(
    connection: Any, labels: list[str], cells: list[Any], scored: list[bool]
) -> None:
    card = card_of(pa.table({"w": labels}), Encoder())
    load(connection, "cells", pa.table({"w": cells}))
    sql = f"SELECT {card.to_sql(engine_of(connection))} IS NOT NULL FROM cells"
    assert [bool(x) for (x,) in connection.execute(sql).fetchall()] == scored


@pytest.mark.parametrize(
    ("labels", "scored"),
    [
        (["t", "T", "f"], [False, True, True]),
        (["True", "t", "f"], [False, True, True]),
        (["True", "no", "maybe"], [True, True, True]),
        (["a", "b"], [False, False, True]),
    ],
)
def test_no_score_where_truths_cannot_be_told(
    labels: list[str], scored: list[bool], postgres: Any
) -> None:
    with duckdb.connect() as duck:
        for connection in (duck, postgres):
            cells = [True, False, None]
            test_no_score_where_labels_cannot_be_told(connection, labels, cells, scored)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIME", "TIMESTAMPTZ"])
def test_days_of_another_form_have_no_score(kind: str, postgres: Any) -> None:
    labels = ["01/02/2024", "2024-01-02", "2024-01-02 03:04:05.1234567", "3:4"]
    card = card_of(pa.table({"w": [*labels, "03:04", "2024-1-2"]}), Encoder())
    cell = "03:04:05" if kind == "TIME" else "2024-01-02"
    with duckdb.connect() as duck:
        for each, connection in (("duckdb", duck), ("postgres", postgres)):
            cells = f"(SELECT CAST('{cell}' AS {kind}) AS w) AS q"
            sql = f"SELECT {card.to_sql(each)} FROM {cells}"
            assert connection.execute(sql).fetchall() == [(None,)]


# ---- names


def card_with(*names: str) -> Scorecard:
    return card_of(pa.table({name: ["u", "v"] for name in names}), Encoder())


@pytest.mark.parametrize(
    "name", ["gone", "given", "row", "fresh", "scored", "oid", "true"]
)
def test_a_missing_column_is_an_error(connection: Any, name: str) -> None:
    engine = engine_of(connection)
    load(connection, "cells", pa.table({"w": ["u", "v"]}))
    card = card_with("w", name)
    errors = (duckdb.Error, sqlite3.Error, ValueError, Exception)[
        : 3 + (engine[0] == "p")
    ]
    with pytest.raises(errors, match=name):
        connection.execute(card.to_sql(engine, table="cells")).fetchall()
    if engine == "postgres":
        connection.rollback()
    with pytest.raises(errors, match=name):
        connection.execute(f"SELECT {card.to_sql(engine)} FROM cells").fetchall()
    if engine == "postgres":
        connection.rollback()


def test_columns_that_an_engine_takes_for_one_are_refused() -> None:
    for engine in ("duckdb", "sqlite", "spark"):
        for table in (None, "t"):
            with pytest.raises(ValueError, match="'a' and 'A'"):
                card_with("a", "A").to_sql(engine, table=table)
    assert card_with("a", "A").to_sql("postgres")
    assert card_with("ä", "Ä").to_sql("duckdb")
    long = "x" * 63
    with pytest.raises(ValueError, match="are the same name in postgres"):
        card_with(long + "1", long + "2").to_sql("postgres")
    assert card_with(long + "1", long + "2").to_sql("duckdb")


@pytest.mark.parametrize(
    ("engine", "name"),
    [("duckdb", "rowid"), ("sqlite", "ROWID"), ("sqlite", "oid"), ("postgres", "xmin")],
)
def test_columns_that_every_table_has_are_refused(engine: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        card_with(name).to_sql(engine)
    if engine == "sqlite":
        with pytest.raises(ValueError, match=f"'{name}'"):
            card_with(name).to_sql(engine, table="t")


def test_a_column_named_rowid_is_scored_by_a_query() -> None:
    card = card_with("rowid")
    with duckdb.connect() as connection:
        load(connection, "cells", pa.table({"rowid": ["v", "u"]}))
        sql = card.to_sql("duckdb", table="cells")
        found = connection.execute(f"SELECT renyi_score FROM ({sql})").fetchall()
    expected = card.scores(np.array([[1, 0]]))
    np.testing.assert_allclose(np.array(found), expected, atol=1e-12)


STRANGE = [
    *(
        '"',
        '""',
        "`",
        "``",
        "'",
        "\\",
        "\n",
        "--",
        "; drop table cells; --",
        "/*",
        "*/",
    ),
    *(
        "$1",
        "$$",
        "${x}",
        "%s",
        "?",
        ":x",
        "{0}",
        "[a]",
        "a.b",
        "select",
        "given",
        "row",
    ),
    *("cells", "scored", " ", "\t", "é", "e\u0301", "ß", "\u202e", "\u200b", "\ufeff"),
    *(
        "\u2028",
        "😀",
        "\x01",
        "\x1b[2J",
        "E'\\''",
        "#1",
        "1",
        "THEN NULL",
        "x" * 10_000,
    ),
]


def test_strange_names_and_labels(connection: Any) -> None:
    rng = np.random.default_rng(0)
    cells = {name: rng.choice(STRANGE, 50) for name in STRANGE}
    rows = pa.table(cells)
    card = card_of(rows[:30], Encoder(min_count=2))
    card = dataclasses.replace(card, classes=(STRANGE[8], STRANGE[-1]))
    load(connection, "cells", rows.append_column("k", pa.array(range(50))))
    sql = card.to_sql(engine_of(connection), table="cells")
    answers = connection.execute(f"SELECT * FROM ({sql}) AS q ORDER BY k").fetchall()
    expected = card.scores(card.encoder.transform(rows))[:, 0]
    found = np.array([row[-2] for row in answers])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert [row[-1] for row in answers] == [card.classes[int(s > 0)] for s in expected]


def test_a_name_with_nul_is_refused() -> None:
    card = card_of(pd.DataFrame({"a": ["u", "v"]}), Encoder())
    columns = Columns.of([Column("a\0b", card.encoder.columns[0].levels)])
    encoder = dataclasses.replace(card.encoder, columns=columns)
    card = dataclasses.replace(card, encoder=encoder)  # no table has such a name
    for engine in ("duckdb", "sqlite", "postgres", "spark"):
        with pytest.raises(ValueError, match="cannot be named in SQL"):
            card.to_sql(engine)


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres"])
def test_labels_that_no_text_can_be(engine: str) -> None:
    card = card_of(pa.table({"w": ["a", "b", "c"]}), Encoder())
    levels = card.encoder.columns[0].levels._replace(categories=("a", "\ud800", "c\0"))
    column = card.encoder.columns[0]._replace(levels=levels)
    encoder = dataclasses.replace(card.encoder, columns=Columns.of([column]))
    strange = dataclasses.replace(card, encoder=encoder)
    assert strange.to_sql(engine, table="t").encode()
    strange = dataclasses.replace(card, classes=("a", "\ud800"))
    with pytest.raises(ValueError, match="class '.ud800'"):
        strange.to_sql(engine, table="t")
    if engine == "postgres":
        strange = dataclasses.replace(card, classes=("a\0", "b"))
        with pytest.raises(ValueError, match="class 'a.x00'"):
            strange.to_sql(engine, table="t")


def test_a_query_of_sqlite_would_rename_true() -> None:
    with pytest.raises(ValueError, match="'True'"):
        card_with("True").to_sql("sqlite", table="t")
    assert card_with("True").to_sql("sqlite")


def test_sqlite_reads_no_name_as_a_text() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        load(connection, "cells", pa.table({"w": ["u", "v"]}))
        sql = f"SELECT {card_with('u').to_sql('sqlite')} FROM cells"
        with pytest.raises(sqlite3.OperationalError, match="no such column: u"):
            connection.execute(sql)
