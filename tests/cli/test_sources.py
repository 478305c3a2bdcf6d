"""What the command line says of sources that cannot be counted: one sentence."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import renyi
from renyi.cli.output import Meter
from support.commandline import Done, save, save_databases, table
from support.engines import duckdb

BUILD = ("--target", "y", "--id", "id", "--out", "x.renyi")
Bad = Callable[..., str]


@pytest.fixture
def shop() -> pd.DataFrame:
    """Rows in files and in databases."""
    frame = table()
    save(frame)
    save_databases(frame)
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("CREATE TABLE buyers AS FROM visits")
        connection.execute("CREATE VIEW seen AS FROM visits")
    return frame


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("no-*.csv",), "No file matches 'no-*.csv'"),
        (("t.csv", "t.csv"), "t.csv is named twice"),
        (("t.csv", "missing.csv"), "There is no file 'missing.csv'"),
        (("t.csv", "--where", "size >"), "Invalid filter 'size >'"),
        (("t.csv", "--where", "weight = 1"), "weight"),
        (("t.csv", "--where", "size > 9"), "'size > 9'"),
        (("--sql", "SELECT FROM"), "The query failed"),
        (("--sql", "SELECT * FROM nothing"), "nothing"),
        (("t.csv", "--sql", "FROM data", "--where", "size = 1"), "not both"),
        (("--sql", "SELECT 1 AS a, 2 AS id, 'n' AS y"), "only one class, 'n'"),
        (("t.csv", "--table", "visits"), "--table is a table of one database"),
        (("shop.db", "t.csv", "--table", "visits"), "no other"),
        (("shop.db",), "name one of its tables with --table ('visits')"),
        (("shop.duckdb",), "('buyers', 'seen', 'visits')"),
        (("shop.duckdb", "--table", "seen"), "--trust-views"),
        (("shop.db", "--table", "visit"), "did you mean 'visits'?"),
        (("shop.duckdb", "--table", "orders"), "There is no table 'orders'"),
        (("shop.db", "--table", "visits", "--sql", "FROM x"), "--sql is for files"),
        (
            ("shop.db", "--table", "visits", "--where", "size >"),
            "Invalid filter 'size >'",
        ),
        (("shop.db", "--table", "visits", "--drop", "age"), "no column 'age'"),
        (("--sql", "COPY (SELECT 1) TO 'made.csv'"), "must be one SELECT"),
        (("t.csv", "--sql", "COPY data TO 'made.csv'"), "must be one SELECT"),
        (("--sql", "CREATE TABLE t (a int); FROM t"), "must be one SELECT"),
        (("none", "--where", "size = 1"), "There is no file 'none'"),
        (("",), "The name of a file is empty"),
        (("t.csv", ""), "The name of a file is empty"),
    ],
)
def test_bad_sources(
    argv: tuple[str, ...], named: str, bad: Bad, shop: pd.DataFrame
) -> None:
    assert named in bad("marginals", "build", *argv, *BUILD)


def test_bad_fits(bad: Bad, good: Callable[..., Done], shop: pd.DataFrame) -> None:
    good("marginals", "build", "t.csv", *BUILD)
    assert "marginals merge" in bad("fit", "x.renyi", "x.renyi")
    assert "marginals merge" in bad("fit", "x.renyi", "--where", "size = 1")
    save(shop.assign(more=1), "wide.csv")
    given = ("--target", "y", "--id", "id")
    assert "t.csv has no column 'more'" in bad("fit", "wide.csv", "t.csv", *given)
    assert "--target is required" in bad("fit", "t.csv", "--where", "size = 1")
    assert "--target is required" in bad("fit", "shop.db", "--table", "visits")
    assert "--target is required" in bad("fit", "--sql", "FROM 't.csv'")
    assert "FILE (put it before" in bad("fit", "--target", "y")
    assert "--out" in bad("marginals", "build", "t.csv", "--target", "y")


@pytest.mark.parametrize("command", ["hgr", "minimax", "select"])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("shop.db", "shop.db"),
        ("postgresql://ann:secret@host/base", "postgresql://ann:***@host/base"),
    ],
)
def test_commands_without_table_say_what_to_name(
    command: str, name: str, shown: str, bad: Bad, shop: pd.DataFrame
) -> None:
    message = bad(command, name, "--target", "y")
    assert f"{shown} is a database, which {command} cannot read" in message
    assert "with --table" not in message and "secret" not in message
    build = f"renyi marginals build {shown} --table NAME"
    assert f"count it first with '{build} …'" in message


def test_missing_extra(
    bad: Bad, shop: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for argv in (
        ("t.csv", "--where", "size = 1"),
        ("--sql", "FROM 't.csv'"),
        ("shop.duckdb", "--table", "visits"),
    ):
        message = bad("marginals", "build", *argv, *BUILD)
        assert "pip install '.[duckdb]'" in message


def test_a_corrupt_file_among_good_ones(bad: Bad, good: Callable[..., Done]) -> None:
    for k in range(3):
        table(seed=k).to_parquet(f"p{k}.parquet")
    raw = Path("p1.parquet").read_bytes()
    Path("p1.parquet").write_bytes(raw[: len(raw) // 2])
    message = bad("marginals", "build", "p*.parquet", *BUILD)
    assert "p1.parquet is not a valid" in message
    table(seed=1).to_parquet("p1.parquet")
    good("marginals", "build", "p*.parquet", *BUILD)
    assert renyi.Marginals.load("x.renyi").n == 600


def test_files_that_differ(bad: Bad) -> None:
    save(table(), "a.csv")
    table().to_parquet("b.parquet")
    table().astype({"size": str}).to_parquet("c.parquet")
    assert "another format" in bad("marginals", "build", "a.csv", "b.parquet", *BUILD)
    message = bad("marginals", "build", "b.parquet", "c.parquet", *BUILD)
    assert "c.parquet has the column 'size' as" in message


def test_files_that_are_no_databases(bad: Bad) -> None:
    Path("shop.db").write_text("a,b\n1,2\n")
    given = ("--table", "visits", *BUILD)
    assert "shop.db is not a DuckDB or SQLite database" in bad(
        "marginals", "build", "shop.db", *given
    )
    Path("shop.db").write_bytes(b"SQLite format 3\x00" + b"\x01" * 5000)
    message = bad("marginals", "build", "shop.db", *given)
    assert "shop.db cannot be read" in message
    Path("shop.duckdb").write_bytes(b"\x00" * 8 + b"DUCK" + b"\x01" * 5000)
    message = bad("marginals", "build", "shop.duckdb", *given)
    assert "shop.duckdb cannot be opened" in message


def test_a_database_that_may_not_be_read(
    run: Callable[..., Done], shop: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(self: Path, *_: Any) -> Any:  # root may read everything
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", closed)
    done = run("marginals", "build", "shop.db", "--table", "visits", *BUILD)
    assert done.code == 2
    assert "shop.db cannot be read: permission denied" in done.err


@pytest.mark.parametrize("name", ["shop.db", "shop.duckdb"])
def test_progress_inside_a_database(
    name: str,
    good: Callable[..., Done],
    shop: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Meter, "__call__", lambda _, state: said.append(str(state)))
    good("marginals", "build", name, "--table", "visits", *BUILD)
    steps = [text.partition(":")[0] for text in said]
    assert steps == ["looking at numbers", "counting"]
    assert "200 rows" in said[-1]


def test_identifiers_of_a_database_are_all_named(bad: Bad, shop: pd.DataFrame) -> None:
    numbered = shop.assign(visit=range(7, 7 + len(shop)))
    with sqlite3.connect("numbered.db") as database:
        numbered.assign(id=range(len(shop))).to_sql("visits", database, index=False)
    database.close()
    given = ("--table", "visits", "--target", "y", "--out", "x.renyi")
    message = bad("marginals", "build", "numbered.db", *given)
    assert "'id' (200 different whole numbers), 'visit' (200 " in message
    assert "(--id id visit, --drop id visit, --numeric id visit)" in message
