"""Conditions and queries on files, by DuckDB."""

from __future__ import annotations

import datetime
import gzip
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import renyi
from renyi.sources import csv, duckdb, files, run
from support import roads
from support.repeats import covering

Marginals = renyi.Marginals


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "PIECE", 40_000)
    monkeypatch.setattr(run, "_THREADS", 2)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    rows = 3_000
    y = rng.integers(0, 2, rows)
    return pa.table(
        {
            "year": rng.integers(2020, 2026, rows),
            "Region": np.array(["north", "south", 'it\'s "far"'])[
                (y + rng.integers(0, 2, rows)) % 3
            ],
            "code": np.array(["007", "010", "1"])[rng.integers(0, 3, rows)],
            'x"; drop table t; --': pa.array(
                rng.normal(y, 1, rows).round(2), mask=rng.random(rows) < 0.1
            ),
            "truth": np.array(["true", "false"])[rng.integers(0, 2, rows)],
            "y": np.array(["no", "yes"])[y],
        }
    )


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=500)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(table, path, chunksize=500)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


NAMES = ["Row Number", "row number", "rows", "ROWS_", "batch", "data", "rowid", "t"]
FORMS = [".csv", ".parquet"]
CONDITIONS = {
    "year = 2024": lambda t: t["year"] == 2024,
    "YEAR >= 2023 AND region <> 'north'": lambda t: (
        (t["year"] >= 2023) & (t["Region"] != "north")
    ),
    '"x""; drop table t; --" > 0.5': lambda t: t['x"; drop table t; --'] > 0.5,
    '"x""; drop table t; --" IS NULL OR year = 2021 -- a comment': lambda t: (
        t['x"; drop table t; --'].isna() | (t["year"] == 2021)
    ),
    "region = 'it''s \"far\"'": lambda t: t["Region"] == 'it\'s "far"',
    "code IN ('007', '1')": lambda t: t["code"].isin(["007", "1"]),
    "truth = 'true' OR y = 'yes'": lambda t: (t["truth"] == "true") | (t["y"] == "yes"),
}


@pytest.mark.parametrize(
    ("where", "ending"),
    [
        *product(CONDITIONS, [".csv"]),
        *covering([*CONDITIONS], [".parquet", ".arrow"], together=1),
    ],
)
def test_condition_keeps_the_rows_that_pandas_keeps(
    where: str, ending: str, table: pa.Table, tmp_path: Path
) -> None:
    path = write(table, tmp_path / f"it's{ending}")
    kept = table.filter(pa.array(CONDITIONS[where](table.to_pandas()).to_numpy()))
    assert 0 < kept.num_rows < table.num_rows
    m = Marginals.from_file(path, target="y", where=where)
    assert m == Marginals.from_data(kept, target="y")
    few = Marginals.from_file(path, target="y", where=where, columns=["truth"])
    assert few == Marginals.from_data(kept.select(["truth", "y"]), target="y")
    batches = files.batches(path, ["code", "y"], kinds={"code": "label"}, where=where)
    assert (
        pa.concat_tables(batches).to_pydict() == kept.select(["code", "y"]).to_pydict()
    )


def test_text_among_numbers_fulfils_no_condition(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age,a,y\n" + "30,u,n\n?,u,n\n 50,v,p\n,v,p\n" * 20)
    assert (
        Marginals.from_file(path, target="y", where="age < 40", columns=["a"]).n == 20
    )
    assert Marginals.from_file(path, target="y", where="age IS NULL").n == 40


@pytest.mark.parametrize(("name", "ending"), covering(NAMES, FORMS, together=1))
def test_no_name_of_ours_shadows_a_column(
    name: str, ending: str, tmp_path: Path
) -> None:
    numbers = np.arange(5, 305)
    rows = pa.table({name: numbers, "a": numbers % 7, "y": numbers % 2})
    path = write(rows, tmp_path / f"rows{ending}")
    for where in (f'"{name}" < 60 AND a > 1', f'"{name.swapcase()}" < 60 AND A > 1'):
        kept = rows.filter(pa.array((numbers < 60) & (numbers % 7 > 1)))
        found = pa.concat_tables(files.batches(path, where=where))
        assert found.to_pydict() == kept.to_pydict()


@pytest.mark.parametrize(
    "where",
    ["COLUMNS(*) > 1", "greatest(*COLUMNS(*)) > 1", "#1 > 1", "A = 1"]
    + ['"row number" = 1', "rows = 1", "a1 = (SELECT max(a1) FROM rows)"]
    + ["a1 = (SELECT max(a1) FROM batch)"],
)
def test_a_condition_names_columns_that_are_there(where: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,A,a1,y\n" + "1,2,3,n\n2,1,3,p\n" * 20)
    with pytest.raises(ValueError, match="Invalid filter") as error:
        Marginals.from_file(path, target="y", where=where)
    assert where in str(error.value)
    assert Marginals.from_file(path, target="y", where="a1 IN (VALUES (3))").n == 40


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_query_over_files(ending: str, table: pa.Table, tmp_path: Path) -> None:
    path = write(table, tmp_path / f"it's{ending}")
    columns = ["Region", "year", "y"]
    late = table.filter(pa.array(table["year"].to_numpy() > 2022)).select(columns)
    expected = Marginals.from_data(late, target="y")
    query = "SELECT Region, year, y FROM data WHERE year > 2022"
    assert Marginals.from_file(path, target="y", sql=query) == expected
    quoted = str(path).replace("'", "''")
    if ending == ".parquet":  # of which DuckDB finds the same types
        alone = query.replace("data", f"'{quoted}'")
        assert Marginals.from_file(target="y", sql=alone) == expected
    halves = [table[:1_000], table[1_000:]]
    parts = [write(half, tmp_path / f"p{k}{ending}") for k, half in enumerate(halves)]
    assert Marginals.from_file(parts, target="y", sql=query) == expected


ODD_CELLS = {
    "single quotes": ["'a'", "b", "'c'"],
    "open single quotes": ["'a", "b'", "'c", "d'", "e"],
    "comments": ["#a", "b", "#c", "b"],
    "spaces": [" a", "a", "b "],
    "double quotes": ['"a,b"', '"c""d"', '"e\nf"', "x"],
    "inches": ['5" a', '6" b'],
    "backslashes": ['"a\\"', "b"],
    "words of SQL": ["NULL", "yes", "no", "true", "?", ""],
    "codes": ["007", "08", "1"],
    "dates": ["2024-01-01", "2024-01-02"],
    "integers": ["1", " 2", "3", "?"],
    "numbers": ["1.5", "+2.5", "nan", ""],
    "large integers": [str(2**63), "1"],
}


@pytest.mark.parametrize(
    ("name", "ends"), covering([*ODD_CELLS], ["\n", "\r\n"], together=1)
)
def test_query_reads_csv_as_it_is_read_without(
    name: str, ends: str, tmp_path: Path
) -> None:
    cells = ODD_CELLS[name]
    paths = [tmp_path / "1.csv", tmp_path / "2.csv.gz"]
    rows = [f"{x},{'npp'[k % 3]}{ends}" for k, x in enumerate(cells * 12)]
    paths[0].write_bytes(f"{ends}x, y{ends}{''.join(rows)}".encode())
    paths[1].write_bytes(gzip.compress(f"x,y{ends}{rows[0]}".encode()))
    expected = Marginals.from_file(paths, target="y")
    assert expected.n == 12 * len(cells) + 1
    assert Marginals.from_file(paths, target="y", sql="FROM data") == expected
    twice = "FROM data UNION ALL FROM data WHERE y = 'no such'"
    assert Marginals.from_file(paths, target="y", sql=twice) == expected


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("abc,n", "Column 'x' begins as numbers .* but holds 'abc' later: correct"),
        ("1,2,n", r"rows\.csv, line 10002: 3 cells where the header has 2"),
    ],
)
def test_query_over_a_csv_file_that_goes_wrong(
    late: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "BLOCK", 1000)
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "1,n\n2,p\n" * 5_000 + late + "\n")
    with pytest.raises(ValueError, match=message) as raised:
        Marginals.from_file(path, target="y", sql="FROM data")
    assert "\n" not in str(raised.value)


def test_a_fraction_late_in_a_file_is_a_number_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "BLOCK", 1000)
    path = tmp_path / "rows.csv"
    path.write_text("x,a,y\n" + "1,u,n\n2,v,p\n" * 5_000 + "2.5,u,n\n")
    m = Marginals.from_file(path, target="y", sql="SELECT a, y FROM data WHERE x >= 2")
    assert m.n == 5_001


@pytest.mark.parametrize("place", [5, 250])
def test_rows_left_out_have_no_say(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "BLOCK", 500)
    monkeypatch.setattr(csv, "PIECE", 500)
    rows = [f"{k % 40}.5,{'pq'[k % 2]},1" for k in range(300)]
    words = [f"{word},p,9" for word in ("abc", "def", "ghi")]
    paths = [tmp_path / "kept.csv", tmp_path / "all.csv"]
    paths[0].write_text("\n".join(["x,y,g", *rows]) + "\n")
    rows[place:place] = words
    paths[1].write_text("\n".join(["x,y,g", *rows]) + "\n")
    expected = Marginals.from_file(paths[0], target="y", columns=["x"])
    assert expected.columns[0].kind == "number"
    found = Marginals.from_file(paths[1], target="y", columns=["x"], where="g < 9")
    assert found == expected
    with_words = Marginals.from_file(paths[1], target="y", columns=["x"], where="g > 0")
    assert with_words.columns[0].kind == "label"


def test_query_of_many_rows_with_numbers() -> None:
    sql = (
        "SELECT range % 7 AS a, sin(range) AS b, range % 1000 AS c, "
        "CASE WHEN range % 3 = 0 THEN 'u' ELSE 'v' END AS y FROM range(300000)"
    )
    m = Marginals.from_file(target="y", sql=sql)
    k = np.arange(300_000)
    frame = pa.table(
        {"a": k % 7, "b": np.sin(k), "c": k % 1000, "y": np.where(k % 3, "v", "u")}
    )
    assert m.n == 300_000
    assert m.categories["c"] == Marginals.from_data(frame, target="y").categories["c"]
    assert (
        m.block("a", "y").to_numpy()
        == np.array(
            [
                [(k[k % 7 == j] % 3 == 0).sum(), (k[k % 7 == j] % 3 > 0).sum()]
                for j in range(7)
            ]
        )
    ).all()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"where": "yeer = 2024"}, 'filter .* "yeer" not found'),
        ({"where": "year ="}, r"Invalid filter 'year =': .*syntax error"),
        ({"where": "sum(year) > 3"}, "WHERE clause cannot contain aggregates"),
        ({"where": "year > 'abc'"}, "Could not convert"),
        ({"where": "year = 1900"}, "No row of .*'year = 1900'"),
        ({"where": "year = 2024", "sql": "SELECT 1"}, "not both"),
        ({"sql": "SELECT FROM"}, "query failed: .*yntax error"),
        ({"sql": "SELECT * FROM nosuch"}, "query failed: .*nosuch"),
        ({"sql": "SELECT 1 AS a, 2 AS b"}, "The query has no column 'y'"),
        (
            {"sql": "SELECT CAST(Region AS INT) AS a, y FROM data"},
            "query failed: .*Could not convert",
        ),
        ({"sql": "SELECT * FROM data WHERE year = 1900"}, "returns no rows"),
        ({"sql": "CREATE TABLE t (a INT)"}, "one SELECT|no column"),
        ({"where": "year = 2024 AND ?"}, "Invalid filter"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_sentence(
    asked: dict[str, Any], message: str, table: pa.Table, tmp_path: Path
) -> None:
    path = write(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=message) as raised:
        Marginals.from_file(path, target="y", **asked)
    assert "\n" not in str(raised.value)


def test_neither_file_nor_query() -> None:
    with pytest.raises(ValueError, match="Give the files to read, or a query"):
        Marginals.from_file(target="y")


def test_condition_reads_no_files(table: pa.Table, tmp_path: Path) -> None:
    path = write(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="Invalid filter"):
        Marginals.from_file(
            path, target="y", where=f"year IN (SELECT year FROM '{path}')"
        )


def test_missing_extra_is_named(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(table, tmp_path / "rows.parquet")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for asked in ({"where": "year = 2024"}, {"sql": "SELECT * FROM data"}):
        with pytest.raises(ImportError, match=r"pip install '\.\[duckdb\]'"):
            Marginals.from_file(path, target="y", **asked)
    assert Marginals.from_file(path, target="y").n == 3_000


def test_only_columns_in_a_condition_are_handed_over(table: pa.Table) -> None:
    where = "Year > 3 AND lower(region) = 'north'"
    names = duckdb.mentioned_columns(where, table.schema.names)
    assert names == ["year", "Region"]


@pytest.mark.parametrize("name", ["integers above 2**63", "integers above 2**64"])
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_long_integers_are_the_same_by_each_way_of_reading(
    name: str, ending: str, tmp_path: Path
) -> None:
    table = roads.CASES[name].table
    path = roads.write(table, tmp_path / f"t{ending}")
    expected = Marginals.from_data(table, target="y")
    assert Marginals.from_data(files.read_table(path), target="y") == expected
    for asked in ({"where": f"many >= {2**63}"}, {"sql": "FROM data"}):
        assert Marginals.from_file(path, target="y", **asked) == expected


# ---- conditions on cells of CSV files, as renyi reads them


def wide_rows(x: list[str], path: Path) -> Path:
    """Write numbers beside so much text that the first of them are a megabyte."""
    rows = [f"{cell},{'ab'[k % 2]},{'pq'[k % 3 % 2]}" for k, cell in enumerate(x)]
    padding = "z" * 4_000
    lines = [f"{row},{padding}" for row in rows]
    path.write_text("\n".join(["x,a,y,z", *lines]) + "\n")
    return path


def test_a_number_that_has_a_fraction_late_is_compared_as_a_number(
    tmp_path: Path,
) -> None:
    x = [str(k % 3 + 2) for k in range(500)] + ["2.4"] * 100
    path = wide_rows(x, tmp_path / "t.csv")
    m = Marginals.from_file(path, target="y", columns=["a"], where="x > 2")
    assert m.n == sum(float(cell) > 2 for cell in x) == 433
    batches = files.batches(path, ["x"], where="x > 2")
    assert sum(batch.num_rows for batch in batches) == 433


def test_what_means_missing_is_null(tmp_path: Path) -> None:
    cells = ["red", "blue"] * 149 + ["?", "", " ?"] * 100 + ["?", ""]
    rows = [f"{cell},{'pq'[k % 3 % 2]}" for k, cell in enumerate(cells)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,y", *rows]) + "\n")
    m = Marginals.from_file(path, target="y", where="a IS NOT NULL")
    assert (m.n, len(rows)) == (298, 600)
    encoder = renyi.Encoder(missing=("red",))
    m = Marginals.from_file(path, target="y", where="a IS NULL", encoder=encoder)
    assert m.n == 149


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize(
    ("where", "count"),
    [
        *(("k < 2", 200), ("k IS NULL", 100), ("real IS NULL", 200), ("real > 1", 100)),
        *(("long = 7", 100), ("long IS NULL", 100), ("word IS NULL", 200)),
        *(("flag IS NULL", 200), ("day IS NULL", 100), ("large IS NULL", 200)),
        *(("coded IS NULL", 100), ("code IS NULL", 100)),
        *(("view IS NULL", 200), ("view = 'a'", 100)),
    ],
)
def test_what_means_missing_is_null_in_files_of_each_format(
    where: str, count: int, ending: str, tmp_path: Path
) -> None:
    rows = 400
    days = [datetime.date(2020, 1, 1 + k) for k in range(4)]
    cells = {
        "k": [-9, 0, 1, 5],
        "real": [-9.0, 0.5, None, 2.5],
        "long": pa.array([-9, 7, 2**53, 1], pa.int64()),
        "word": ["?", "a", "-9", "b"],
        "large": pa.array(["?", "a", None, "b"], pa.large_string()),
        "view": pa.array(["?", "a", None, "b"], pa.string_view()),
        "coded": pa.array([-9, 3, 4, 5]).dictionary_encode(),
        "code": pa.array(["?", "a", "b", "c"]).dictionary_encode(),
        "flag": [True, None, False, True],
        "day": days,
    }
    table = pa.table({name: pa.array(column) for name, column in cells.items()})
    table = pa.concat_tables([table] * (rows // 4)).unify_dictionaries()
    table = table.append_column("y", pa.array(["p", "q", "q", "p"] * (rows // 4)))
    path = roads.write(table, tmp_path / f"t{ending}")
    encoder = renyi.Encoder(missing=("?", "", -9, "2020-01-02", "False"))
    m = Marginals.from_file(path, target="y", where=where, encoder=encoder)
    assert m.n == count


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_conditions_on_columns_that_are_empty_or_not_read(
    ending: str, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "a": ["u", "v"] * 100,
            "none": pa.nulls(200),
            "raw": pa.array([b"xy", None] * 100, pa.binary(2)),
            "y": ["p", "q"] * 100,
        }
    )
    path = roads.write(table, tmp_path / f"t{ending}")
    read = {"target": "y", "columns": ["a"]}
    assert Marginals.from_file(path, where="none IS NULL", **read).n == 200
    assert Marginals.from_file(path, where="raw IS NULL OR y = 'p'", **read).n == 200


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_not_a_number_is_null(ending: str, tmp_path: Path) -> None:
    table = pa.table({"a": [np.nan, 1.5, 2.5, None] * 50, "y": ["p", "q"] * 100})
    path = roads.write(table, tmp_path / f"t{ending}")
    assert Marginals.from_file(path, target="y", where="a > 2").n == 50
    assert Marginals.from_file(path, target="y", where="a IS NULL").n == 100


def test_a_column_that_stops_being_numeric_is_an_error_that_names_the_cell(
    tmp_path: Path,
) -> None:
    x = [str(k % 4) for k in range(500)] + ["unknown"]
    path = wide_rows(x, tmp_path / "t.csv")
    with pytest.raises(ValueError, match="Column 'x' .* holds 'unknown' later"):
        Marginals.from_file(path, target="y", columns=["a"], where="x > 2")
    # Columns that the condition does not mention are read as without it.
    assert Marginals.from_file(path, target="y", where="a = 'a'").n == 251


@pytest.mark.parametrize(
    ("first", "late"),
    [
        *(("", "0x5"), ("", "007"), ("", "9" * 39)),
        *((".5", "0x5"), (".5", "007"), (".5", "inf")),
    ],
)
def test_what_is_not_a_number_to_renyi_is_none_in_a_condition(
    first: str, late: str, tmp_path: Path
) -> None:
    x = [str(k % 4) + first for k in range(500)] + [late]
    path = wide_rows(x, tmp_path / "t.csv")
    with pytest.raises(ValueError, match=f"Column 'x' .* holds '{late}' later"):
        Marginals.from_file(path, target="y", columns=["a"], where="x > 2")
