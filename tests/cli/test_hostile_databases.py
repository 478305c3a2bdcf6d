"""Untrusted database files reach nothing outside of themselves."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from renyi.marginals.marginals import Marginals
from renyi.sources import databases
from support.commandline import HERE, Done, contents
from support.engines import duckdb

Bad = Callable[..., str]
SECRET = "the secret of this machine"

# Views of DuckDB that read what is outside their file.
OUTSIDE = {
    "text": "SELECT content AS a, 1 AS y FROM read_text('{0}/secret.txt')",
    "bytes": "SELECT content AS a, 1 AS y FROM read_blob('{0}/secret.txt')",
    "csv": "SELECT * FROM read_csv('{0}/secret.csv')",
    "name": "SELECT * FROM '{0}/secret.csv'",
    "glob": "SELECT file AS a, 1 AS y FROM glob('{0}/*')",
    "sniff": "SELECT Columns AS a, 1 AS y FROM sniff_csv('{0}/secret.csv')",
    "cell": "SELECT (SELECT content FROM read_text('{0}/secret.txt')) AS a, y FROM t",
    "macro": "SELECT inside('{0}/secret.txt') AS a, y FROM t",
    "query": "FROM query('SELECT content AS a FROM read_text(''{0}/secret.txt'')')",
    "spaced": "SELECT content AS a, 1 AS y FROM read_text('{0}/secret.txt') -- \x1b[2J",
}

# Views of SQLite that call what a stranger may not, and what an error names.
UNSAFE = {
    "extension": (
        "SELECT load_extension('/tmp/x.so') AS a, y FROM t",
        "load_extension",
    ),
    "tokenizer": ("SELECT fts3_tokenizer('simple') AS a, y FROM t", "fts3_tokenizer"),
    "path": ("SELECT file AS a, 1 AS y FROM pragma_database_list", "pragma_"),
    "pages": ("SELECT name AS a, pageno AS y FROM dbstat", "dbstat"),
    "large": ("SELECT hex(zeroblob(9000000)) AS a, y FROM t", "leave out the column"),
}


@pytest.fixture
def duck(tmp_path: Path) -> Path:
    """A DuckDB file with hostile views, beside files it must not read."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.csv").write_text(f"a,y\n{SECRET},1\nb,2\n")
    with duckdb.connect(tmp_path / "x.duckdb") as connection:
        connection.execute("CREATE TABLE t (a TEXT, y INT)")
        connection.execute("INSERT INTO t VALUES ('u', 0), ('u', 1), ('v', 1)")
        inside = "CREATE MACRO inside(x) AS (SELECT content FROM read_text(x))"
        connection.execute(inside)
        for name, view in OUTSIDE.items():
            connection.execute(f'CREATE VIEW "{name}" AS {view.format(tmp_path)}')
        connection.execute("CREATE VIEW fine AS SELECT upper(a) AS a, y FROM t")
    return tmp_path / "x.duckdb"


@pytest.fixture
def lite(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE t (a TEXT, y INT)")
        connection.execute("INSERT INTO t VALUES ('u', 0), ('u', 1), ('v', 1)")
        for name, (view, _) in UNSAFE.items():
            connection.execute(f"CREATE VIEW {name} AS {view}")
        connection.execute("CREATE VIEW fine AS SELECT upper(a) AS a, y FROM t")
        connection.execute(
            "CREATE VIEW endless AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL "
            "SELECT i + 1 FROM r) SELECT i % 3 AS a, i % 2 AS y FROM r"
        )
        connection.commit()
    return tmp_path / "x.db"


@pytest.mark.parametrize("view", OUTSIDE)
def test_views_of_duckdb_read_no_file(view: str, duck: Path, bad: Bad) -> None:
    before = contents(duck.parent)
    given = ("--table", view, "--trust-views", "--target", "y", "--out", "m.renyi")
    message = bad("marginals", "build", str(duck), *given)
    assert f"The view {view!r}" in message
    assert "--sql" in message
    assert SECRET not in message
    assert "\x1b" not in message
    assert contents(duck.parent) == before


@pytest.mark.parametrize("view", UNSAFE)
def test_views_of_sqlite_call_nothing_unsafe(view: str, lite: Path, bad: Bad) -> None:
    given = ("--table", view, "--trust-views", "--target", "y", "--out", "m.renyi")
    message = bad("marginals", "build", str(lite), *given)
    assert UNSAFE[view][1] in message
    if view != "large":
        assert f"The view {view!r}" in message
    assert not Path("m.renyi").exists()


@pytest.mark.parametrize("file", ["duck", "lite"])
def test_what_is_inside_is_counted(
    file: str, good: Callable[..., Done], request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(file)
    given = ("--trust-views", "--target", "y", "--out", "m.renyi")
    for table in ("t", "fine"):
        good("marginals", "build", str(path), "--table", table, *given)
        assert Marginals.load("m.renyi").n == 3


def test_a_query_of_the_user_reads_the_users_files(
    duck: Path, good: Callable[..., Done]
) -> None:
    Path("mine.csv").write_text("a,z\nu,1\nv,2\n")
    join = f"ATTACH '{duck}' AS d (READ_ONLY); FROM d.t JOIN 'mine.csv' USING (a)"
    good("marginals", "build", "--sql", join, "--target", "y", "--out", "m.renyi")
    assert Marginals.load("m.renyi").feature_names == ("a", "z")


STATEMENTS = {
    "duck": [
        "ATTACH '{0}/other.duckdb'",
        "COPY t TO '{0}/out.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "FROM 'https://127.0.0.1/x.csv'",
        "FROM read_csv('s3://x/y.csv')",
        "INSERT INTO t VALUES ('w', 1)",
        "EXPORT DATABASE '{0}/out'",
    ],
    "lite": [
        "ATTACH '{0}/other.db' AS other",
        "VACUUM INTO '{0}/other.db'",
        "INSERT INTO t VALUES ('w', 1)",
        "CREATE TEMP TABLE z (a)",
        "SELECT load_extension('{0}/x.so')",
    ],
}


@pytest.mark.parametrize("file", STATEMENTS)
def test_the_connection_itself_is_closed(
    file: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(file)
    before = contents(path.parent)
    with databases.connected(path) as connection:
        for statement in STATEMENTS[file]:
            with pytest.raises((duckdb.Error, sqlite3.Error)):
                connection.execute(statement.format(path.parent)).fetchall()
    assert contents(path.parent) == before


def is_open(job: subprocess.Popen[str], path: Path) -> bool:
    """Whether a process has a file open."""
    for link in Path(f"/proc/{job.pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            if link.readlink() == path:
                return True
    return False


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_an_endless_view_is_stopped_by_ctrl_c(lite: Path) -> None:
    command = [sys.executable, "-m", "renyi", "fit", str(lite), "--table", "endless"]
    command += ["--trust-views", "--target", "y", "--out", "m.json"]
    with subprocess.Popen(
        command, env=os.environ | HERE, stderr=subprocess.PIPE, text=True
    ) as job:
        while not is_open(job, lite):
            assert job.poll() is None
            time.sleep(0.05)
        time.sleep(0.2)  # a busy machine may still be before the endless statement
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=300)
    assert job.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in err


# ---- views compute, and are not read unless they are trusted

COMPUTED = {
    "duckdb": [
        "CREATE TABLE t AS SELECT 1 AS y FROM range(100)",
        "CREATE VIEW seen AS SELECT repeat('x', 4000000000) AS a, y FROM t",
        "CREATE TABLE made (y INT, a TEXT AS (repeat('x', 4 * y)))",
    ],
    "sqlite": [
        "CREATE TABLE t AS SELECT 1 AS y",
        "CREATE VIEW seen AS SELECT hex(zeroblob(8000000)) AS a, y FROM t",
        "CREATE TABLE made (y INT, a TEXT AS (hex(zeroblob(8))))",
        "CREATE VIRTUAL TABLE words USING fts5(y, a)",
    ],
}


@pytest.mark.parametrize("engine", COMPUTED)
@pytest.mark.parametrize("command", ["fit", "marginals", "predict", "certify"])
def test_what_computes_is_not_read_unless_it_is_trusted(
    engine: str, command: str, bad: Bad, good: Callable[..., Done]
) -> None:
    good("fit", "votes", "--out", "m")
    connect = duckdb.connect if engine == "duckdb" else sqlite3.connect
    path = "x.duckdb" if engine == "duckdb" else "x.db"
    with closing(connect(path)) as connection:
        for statement in COMPUTED[engine]:
            connection.execute(statement)
        connection.execute("INSERT INTO made (y) SELECT y FROM t")
        connection.commit()
    words = {
        "fit": ("fit", path, "--target", "y"),
        "marginals": ("marginals", "build", path, "--target", "y", "--out", "n.renyi"),
        "predict": ("predict", "m.json", path),
        "certify": ("certify", "m.json", "--rows", path),
    }
    names = ["seen", "made", *(["words"] if engine == "sqlite" else [])]
    for name in names:
        message = bad(*words[command], "--table", name)
        assert f"'{name}' of {path} is a view, or has computed columns" in message
        assert "--trust-views" in message


# ---- files of SQLite that are written by way of a log


@pytest.mark.parametrize("copied", [False, True])
def test_nothing_is_left_beside_a_file_with_a_log(
    copied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are still in a log count; files that were not there are removed."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("x.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a TEXT, y INT)")
        connection.execute("INSERT INTO t VALUES ('u', 0), ('u', 1), ('v', 1)")
        connection.commit()
        if copied:  # as a backup of a database in use is
            for name in ("x.db", "x.db-wal"):
                Path(f"copy-{name}").write_bytes(Path(name).read_bytes())
    for name in ("x.db-wal", "x.db-shm"):
        assert not Path(name).exists()
    path = Path("copy-x.db" if copied else "x.db")
    before = contents(tmp_path)
    m = Marginals.from_file(path, table="t", target="y")
    assert m.n == 3
    assert contents(tmp_path) == before


def test_the_log_of_another_writer_stays(tmp_path: Path) -> None:
    """A program that opens the file while it is read loses nothing."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a TEXT, y INT)")
        connection.execute("INSERT INTO t VALUES ('u', 0), ('u', 1), ('v', 1)")
        connection.commit()
    with databases.open_table(str(path), "t") as table:
        writer = sqlite3.connect(path)
        writer.execute("INSERT INTO t VALUES ('v', 0)")
        writer.commit()
        assert table.rows == 3
    with closing(writer), closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT COUNT(*) FROM t").fetchone() == (4,)


def test_a_damaged_statement_is_named_with_its_file(tmp_path: Path) -> None:
    """SQLite quotes the statement in its error, in bytes that are not UTF-8."""
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE "t" (a TEXT, y INT)')
        connection.execute("INSERT INTO t VALUES ('u', 0), ('v', 1)")
        connection.commit()
    data = path.read_bytes()
    assert b' "t" (' in data
    path.write_bytes(data.replace(b' "t" (', b'\xff\xfft" ('))
    with pytest.raises(ValueError, match=r"x\.sqlite cannot be read") as raised:
        Marginals.from_file(path, target="y", table="t")
    assert not isinstance(raised.value, UnicodeError)
