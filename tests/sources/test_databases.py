"""Tables of databases: types that engines hand over otherwise, snapshots, secrets."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from renyi import Encoder, Marginals
from renyi.sources import databases
from support import warehouses
from support.commandline import Done, Run
from support.postgres import address_of

postgres = warehouses.postgres
TARGET = ("--target", "y")


def test_types_that_arrive_otherwise(postgres: Any) -> None:
    """NUMERIC would arrive as text, char(n) padded, enumerations as bytes."""
    for statement in (
        "DROP TABLE IF EXISTS odd",
        "DROP DOMAIN IF EXISTS positive",
        "DROP TYPE IF EXISTS mood",
        "CREATE DOMAIN positive AS numeric(8, 2) CHECK (value > 0)",
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE odd AS SELECT (i / 8.0)::numeric AS price, "
        "(i % 3)::numeric(9, 0) AS count, (1 + i / 4.0)::positive AS size, "
        "CASE i % 2 WHEN 0 THEN 'a' ELSE 'bc' END::char(5) AS code, "
        "CASE i % 4 WHEN 0 THEN 'sad' ELSE 'glad' END::mood AS mood, "
        "(i / 3.0)::real AS short, i % 2 = 0 AS y FROM generate_series(1, 400) AS i",
    ):
        postgres.execute(statement)
    postgres.commit()
    m = Marginals.from_file(address_of(postgres), table="odd", target="y")
    columns = {column.name: column for column in m.columns}
    assert columns["price"].kind == columns["size"].kind == "number"
    assert columns["count"].categories == (0, 1, 2)
    assert columns["code"].categories == ("a", "bc")
    assert columns["mood"].categories == ("glad", "sad")
    numbers = range(1, 401)
    table = pa.table(
        {
            "price": [i / 8 for i in numbers],
            "count": [i % 3 for i in numbers],
            "size": [round(1 + i / 4, 2) for i in numbers],
            "code": ["a" if i % 2 == 0 else "bc" for i in numbers],
            "mood": ["sad" if i % 4 == 0 else "glad" for i in numbers],
            "short": pa.array([i / 3 for i in numbers], pa.float32()),
            "y": [i % 2 == 0 for i in numbers],
        }
    )
    assert m == Marginals.from_data(table, target="y")


@pytest.mark.parametrize(
    "kind", ["'10.0.0.1'::inet", "'{1,2}'::int[]", "'{}'::jsonb", "'\\x00'::bytea"]
)
def test_types_that_are_not_cells_are_rejected(kind: str, postgres: Any) -> None:
    postgres.execute("DROP TABLE IF EXISTS nets")
    postgres.execute(f"CREATE TABLE nets AS SELECT {kind} AS net, 1 AS y")
    postgres.commit()
    name = kind.rpartition("::")[2]
    with pytest.raises(ValueError, match="Column 'net' has the type ") as raised:
        Marginals.from_file(address_of(postgres), table="nets", target="y")
    assert name.replace("int[]", "int4[]") in str(raised.value)
    assert 'CAST("net" AS text)' in str(raised.value)


def test_both_passes_see_one_snapshot(postgres: Any) -> None:
    """Rows that are written between two passes count in neither."""
    warehouses.load(postgres, "t", warehouses.visits(500))

    def write(state: Any) -> None:
        if state.step != "counting":
            postgres.execute("UPDATE t SET \"class\" = 'none', age = age + 1000")
            postgres.commit()

    m = Marginals.from_file(
        address_of(postgres), table="t", target="class", progress=write
    )
    assert m.classes == ("home", "stay")
    assert m == Marginals.from_data(warehouses.visits(500), target="class")


def test_a_condition_is_that_of_the_server(postgres: Any) -> None:
    warehouses.load(postgres, "t", warehouses.visits(300))
    given: dict[str, Any] = {"table": "t", "target": "class"}
    address = address_of(postgres)
    m = Marginals.from_file(address, where="age > 40 -- comment", **given)
    table = warehouses.visits(300)
    older = table.filter([(age or 0) > 40 for age in table["age"].to_pylist()])
    assert m == Marginals.from_data(older, target="class")
    with pytest.raises(ValueError, match="Invalid filter 'age >'"):
        Marginals.from_file(address, where="age >", **given)
    with pytest.raises(ValueError, match="meets the condition 'age > 999'"):
        Marginals.from_file(address, where="age > 999", **given)
    with pytest.raises(ValueError, match="There is no table 'tt' .* mean 't'"):
        Marginals.from_file(address, table="tt", target="y")


def test_an_arrow_cursor_is_a_stream(postgres: Any) -> None:
    from adbc_driver_postgresql import dbapi

    table = warehouses.visits(300)
    warehouses.load(postgres, "t", table)
    with (
        dbapi.connect(address_of(postgres)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT * FROM t")
        m = Marginals.from_arrow(cursor.fetch_record_batch(), target="class")
    assert m == Marginals.from_data(table, target="class")


# ---- secrets


def test_a_password_reaches_no_output(
    postgres: Any, run: Run, good: Callable[..., Done], tmp_path: Path
) -> None:
    table = warehouses.visits(400).rename_columns([*"abcdef", "y"])
    warehouses.load(postgres, "t", table)
    address = address_of(postgres).replace("postgres:@", "postgres:hunter2@")
    address += "&sslpassword=hunter3"
    rows = (address, "--table", "t", *TARGET)
    said = [
        good("fit", *rows, "--out", "m"),
        good("fit", *rows, "--json"),
        good("marginals", "build", *rows, "--out", "n.renyi", "--json"),
        good("predict", "m.json", address, "--table", "t", "--out", "answers.csv"),
        good("certify", "m.json", f"--rows={address}", "--table", "t"),
        good("report", "m.json", "-o", "m.html"),
        run("fit", *rows, "--order", "2"),
        run("fit", address, "--table", "nothing", *TARGET),
        run("fit", "postgresql://u:hunter2@127.0.0.1:1/x", "--table", "t", *TARGET),
        run("fit", "postgresql://u:hun%%ter2@[", "--table", "t", *TARGET),
    ]
    assert [done.code for done in said[-3:]] == [2, 2, 2]
    for done in said:
        assert "hunter" not in done.out + done.err
        assert "hun%%ter2" not in done.err
    written = [path for path in Path().iterdir() if path.is_file()]
    assert len(written) >= 5
    assert not [path for path in written if b"hunter" in path.read_bytes()]
    assert "postgres:***@" in Path("m.log").read_text()


def test_rows_of_a_server_are_held_out(
    postgres: Any, good: Callable[..., Done]
) -> None:
    """The ? of an address is no pattern of file names."""
    postgres.execute(
        "CREATE TABLE halved AS SELECT i % 5 AS a, i % 10 < 5 AS y "
        "FROM generate_series(1, 200) AS i"
    )
    postgres.commit()
    assert "?" in address_of(postgres)
    rows = (address_of(postgres), "--table", "halved", *TARGET)
    told = good("fit", *rows, "--confidence", "0.9", "--json").json
    assert (told["rows"], told["heldout"]["n"]) == (140, 60)


def test_addresses_without_their_driver(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("fit", "snowflake://u:p@x/y", "--table", "t", *TARGET)
    assert done.code == 2
    assert "from_arrow(cursor.fetch_record_batch()" in done.err
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    done = run("fit", "postgresql://x/y", "--table", "t", *TARGET)
    assert done.code == 2
    assert "pip install '.[databases]'" in done.err


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://a:b@c/d", "postgresql://a:***@c/d"),
        ("postgresql://a:b@b@c/d", "postgresql://a:***@c/d"),
        ("postgresql://a@c/d", "postgresql://a@c/d"),
        ("postgresql://c/d?password=b&user=a", "postgresql://c/d?password=***&user=a"),
        ("visits.db", "visits.db"),
    ],
)
def test_shown_addresses(address: str, shown: str) -> None:
    assert databases.shown_address(address) == shown


# ---- cells of SQLite


def lite(path: Path, cells: list[Any]) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x, y)")
        rows = [(cell, k % 2) for k, cell in enumerate(cells)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        connection.commit()
    return path


@pytest.mark.parametrize(
    ("cells", "kind", "categories"),
    [
        (["a", "b", None, "?"], "label", ("a", "b", None)),
        ([1, 2, "?", ""], "label", (1, 2, None)),
        ([1, 2, 3.5, "NA"], "label", ("1", "2", "3.5", "NA")),
        ([1, 2.0, "x", "2"], "label", ("1", "2", "x")),
        ([0.5, 1, 2, "?"], "number", None),
        ([None, None, None, None], "label", (None,)),
    ],
)
def test_types_of_cells(
    cells: list[Any], kind: str, categories: Any, tmp_path: Path
) -> None:
    path = lite(tmp_path / "x.db", cells * 20)
    column = Marginals.from_file(path, table="t", target="y").columns[0]
    assert column.kind == kind
    if categories is not None:
        assert column.categories == categories


def test_missing_codes_are_those_of_the_encoder(tmp_path: Path) -> None:
    path = lite(tmp_path / "x.db", [1, 2, 3, "NA"] * 20)
    encoder = Encoder(missing=("NA",))
    m = Marginals.from_file(path, table="t", target="y", encoder=encoder)
    assert m.columns[0].categories == (1, 2, 3, None)


def test_binary_cells_are_rejected(tmp_path: Path) -> None:
    path = lite(tmp_path / "x.db", [b"a", b"b"])
    with pytest.raises(ValueError, match="Column 'x' has binary cells.*CAST"):
        Marginals.from_file(path, table="t", target="y")


@pytest.mark.parametrize("where", ['"z" = 1', 'x = "a"'])
def test_a_quoted_name_that_is_not_a_column(where: str, tmp_path: Path) -> None:
    path = lite(tmp_path / "x.db", ["a", "b"] * 9)
    with pytest.raises(ValueError, match="put text in single quotes"):
        Marginals.from_file(path, table="t", target="y", where=where)
    m = Marginals.from_file(path, table="t", target="y", where="\"x\" = 'a' OR 1")
    assert m.n == 18


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = lite(tmp_path / "x.db", [k / 7 for k in range(90)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")

    def write(_: object) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO t VALUES (1.5, 1)")
            connection.commit()

    with pytest.raises(ValueError, match=r"x\.db changed while it was read"):
        Marginals.from_file(path, table="t", target="y", progress=write)
