"""Files that are counted as they are read: the marginals of all rows in memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import renyi
from renyi.cli import main
from renyi.progress import Progress
from renyi.sources import arrow, csv, files, run

Marginals = renyi.Marginals


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_THREADS", 2)


def table_of(rows: int, seed: int = 0) -> pa.Table:
    """Strings with nulls, integers few and many, floats; a target that depends."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    colour = np.array(["red", "green", "blue, dark", 'sea "deep"'])
    city = np.array([f"town {k}" for k in range(40)])
    return pa.table(
        {
            "colour": pa.array(
                colour[(y + rng.integers(0, 2, rows)) % 4], mask=rng.random(rows) < 0.1
            ),
            "city": city[rng.integers(0, 40, rows)],
            "children": rng.integers(0, 4, rows),
            "age": pa.array(rng.integers(18, 99, rows), mask=rng.random(rows) < 0.05),
            "income": rng.lognormal(8, 1, rows).round(2),
            "score": pa.array(rng.normal(y, 1, rows), mask=rng.random(rows) < 0.02),
            "member": np.array(["n", "y"])[rng.integers(0, 2, rows)],
            "y": np.array(["low", "high", "none"])[y],
        }
    )


def write(table: pa.Table, path: Path, batch: int = 30_000) -> Path:
    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=batch)
    elif name.endswith(".feather"):
        pyarrow.feather.write_feather(table, path, chunksize=batch)
    elif name.endswith((".arrow", ".ipc")):
        opening = pa.ipc.new_stream if ".stream." in name else pa.ipc.new_file
        with opening(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=batch)
    else:
        delimiter = "\t" if ".tsv" in name else ","
        options = pyarrow.csv.WriteOptions(delimiter=delimiter)
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(table, sink, options)
        raw = sink.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(raw, 1) if name.endswith(".gz") else raw)
    return path


def in_memory(paths: list[Path], **options: Any) -> Marginals:
    """The marginals by the other road: all rows in one table."""
    tables = [files.read_table(path) for path in paths]
    names = tables[0].column_names
    table = pa.concat_tables([each.select(names) for each in tables])
    return Marginals.from_data(table, target="y", **options)


@pytest.fixture(scope="module")
def large() -> pa.Table:
    return table_of(60_000)


ENDINGS = [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".stream.arrow", ".feather"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_the_counts_of_all_rows(
    ending: str, large: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "PIECE", 2**18)
    monkeypatch.setattr(arrow, "_ROWS", 7_000)
    path = write(large, tmp_path / f"rows{ending}")
    m = Marginals.from_file(path, target="y", class_conditional=True)
    assert m == Marginals.from_data(large, target="y", class_conditional=True)
    assert m == in_memory([path], class_conditional=True)
    assert m.n == 60_000


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_in_another_order(ending: str, tmp_path: Path) -> None:
    first, second = table_of(700, 1), table_of(900, 2)
    second = second.select(second.column_names[::-1])
    one = write(first, tmp_path / f"part-1{ending}", 100)
    two = write(second, tmp_path / f"part-2{ending}", 100)
    m = Marginals.from_file([one, str(two)], target="y")
    assert m == in_memory([one, two])
    assert m == Marginals.from_file(f"{tmp_path}/part-*", target="y")
    assert m.feature_names == tuple(first.column_names[:-1])


def test_folder_of_parquet_files(tmp_path: Path) -> None:
    parts = [write(table_of(300, k), tmp_path / f"p{k}.parquet") for k in range(3)]
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".p0.parquet.crc").write_text("checksum")
    assert Marginals.from_file(tmp_path, target="y") == in_memory(parts)


def test_kinds_that_were_asked_for(tmp_path: Path) -> None:
    table = table_of(1_000)
    kinds = {"age": "label", "children": "number"}
    for ending in (".csv", ".parquet"):
        path = write(table, tmp_path / f"rows{ending}", 300)
        m = files.marginals(path, "y", kinds=kinds)
        kept = {column.name: column.kind for column in m.columns}
        assert kept["age"] == "label"
        assert kept["children"] == "number"
        assert m.block("age", "y").to_numpy().sum() == 1_000


CELLS = st.sampled_from(
    ["1", "2", " 3", "-4", "2.5", "1e3", "007", "nan", "?", "", "x", "NA", "w ", "12a"]
)


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=2, max_size=60),
    st.lists(st.integers(1, 40), max_size=2),
    st.sampled_from([8, 20, 1000]),
)
def test_types_of_text_are_those_of_the_whole_column(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    cuts: list[int],
    piece: int,
) -> None:
    """Cut anywhere: into files, into pieces, with any columns left to a first pass."""
    folder = tmp_path_factory.mktemp("types")
    lines = [",".join(row) + "," + "uv"[k % 2] for k, row in enumerate([*rows, *rows])]
    whole = folder / "whole.csv"
    whole.write_text("a,b,c,y\n" + "\n".join(lines))
    ends = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    paths = []
    for k, (low, high) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        paths.append(folder / f"part{k}.csv")
        paths[-1].write_text("a,b,c,y\n" + "\n".join(lines[low:high]))

    def asked(function: Any, *args: Any) -> tuple[Any, set[str]]:
        with warnings.catch_warnings(record=True, action="always") as seen:
            try:
                answer = function(*args)
            except ValueError as error:
                answer = str(error).partition(": ")[2] or str(error)
        # Two words are named in the order of the file by one road, sorted by the other.
        return answer, {str(w.message).partition(" except for ")[0] for w in seen}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "PIECE", piece)
        patch.setattr(csv, "BLOCK", piece)
        found, notes = asked(lambda: Marginals.from_file(paths, target="y"))
    expected, told = asked(in_memory, [whole])
    if isinstance(expected, Marginals):
        assert found == expected
    else:
        assert isinstance(found, str)
    assert notes <= told


def test_first_pass_only_where_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    units = arrow.ParquetFile.units

    def watched(table: Any, file: int, columns: list[str]) -> Any:
        asked.append(tuple(columns))
        return units(table, file, columns)

    monkeypatch.setattr(arrow.ParquetFile, "units", watched)
    path = write(table_of(500), tmp_path / "rows.parquet")
    Marginals.from_file(path, target="y")
    assert asked[0] == ("children", "age", "income", "score", "y")
    assert len(asked) == 2
    asked.clear()
    Marginals.from_file(path, target="y", columns=["colour", "city"])
    assert asked == [("colour", "city", "y")]


def test_progress_tells_of_every_piece(tmp_path: Path) -> None:
    path = write(table_of(1_000), tmp_path / "rows.parquet", 100)
    seen: list[Progress] = []
    Marginals.from_file(path, target="y", progress=seen.append)
    steps = list(dict.fromkeys(pace.step for pace in seen))
    assert steps == ["looking at numbers", "counting"]
    for step in steps:
        rows = [pace.rows for pace in seen if pace.step == step]
        assert rows == list(range(100, 1_001, 100))
        shares = [pace.share for pace in seen if pace.step == step]
        np.testing.assert_allclose(shares, np.arange(1, 11) / 10)
    assert all("rows a second" in pace.facts for pace in seen)
    assert seen[-1].seconds_left == pytest.approx(0, abs=1e-9)


def test_pace_of_a_job() -> None:
    pace = Progress("counting", 18.0, 0.9, "9,000 rows")
    assert pace.seconds_left == pytest.approx(2.0)
    assert str(pace) == "counting: 90 %, 9,000 rows, 2 s left"
    slow = Progress("counting", 600.0, 0.01)
    assert str(slow).endswith("16 h 30 min left")
    assert Progress("counting", 1.0, 0.0).seconds_left is None


def test_batches_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "PIECE", 5_000)
    table = table_of(1_000)
    for ending in (".csv", ".parquet", ".arrow"):
        path = write(table, tmp_path / f"rows{ending}", 90)
        parts = list(files.batches(path, ["age", "city"]))
        assert len(parts) > 5
        whole = pa.concat_tables(parts).to_pydict()
        assert whole == table.select(["age", "city"]).to_pydict()
    (tmp_path / "spaces.csv").write_text("id,a\n 7 ,x\n8, z\n")
    (part,) = files.batches(tmp_path / "spaces.csv", kinds={"id": "verbatim"})
    assert part.to_pydict() == {"id": [" 7 ", "8"], "a": ["x", "z"]}


def test_column_without_values_in_one_file(tmp_path: Path) -> None:
    empty = pa.table({"a": pa.nulls(3), "y": ["u", "v", "u"]})
    full = pa.table({"a": ["x", "z", None], "y": ["u", "v", "v"]})
    paths = [tmp_path / "empty.parquet", tmp_path / "full.parquet"]
    for table, path in zip((empty, full), paths, strict=True):
        pq.write_table(table, path)
    m = Marginals.from_file(paths, target="y")
    assert m.categories["a"] == ("x", "z", None)
    assert m.block("a", "y").to_numpy().tolist() == [[1, 0], [0, 1], [2, 2]]


def labels_of(rows: int) -> pa.Table:
    """Two columns of two labels, so few that leave-one-out makes no use of rows."""
    rng = np.random.default_rng(0)
    a, b, noise = rng.integers(0, 2, (3, rows))
    words = np.array(["no", "yes"])
    return pa.table({"a": words[a], "b": words[b], "y": words[(a + b + noise) // 2]})


def with_numbers(rows: int) -> pa.Table:
    return labels_of(rows).append_column("x", [np.arange(rows) / 7])


def with_classes(rows: int) -> pa.Table:
    three = pa.array(np.arange(rows) % 3).cast(pa.string())
    return with_numbers(rows).set_column(2, "y", three)


def with_weights(rows: int) -> pa.Table:
    return with_numbers(rows).append_column("w", [np.arange(rows) % 3 + 0.5])


# Bins take a reading, counts another.
READINGS: dict[str, tuple[Callable[[int], pa.Table], tuple[str, ...], int]] = {
    "rows for leave-one-out": (table_of, (), 2),
    "labels": (labels_of, (), 1),
    "numbers": (with_numbers, (), 2),
    "ranking": (with_numbers, ("--objective", "ranking"), 2),
    "weights": (with_weights, ("--weight", "w"), 2),
    "three classes": (with_classes, (), 2),
}


@pytest.mark.parametrize("kind", READINGS)
def test_a_streamed_fit_reads_the_header_once_and_the_data_at_most_twice(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (table, more, readings) = tmp_path / "rows.csv", READINGS[kind]
    pa.csv.write_csv(table(5_000), path)
    size = path.stat().st_size
    monkeypatch.setattr(csv, "PIECE", size // 7)
    monkeypatch.setattr(csv, "BLOCK", size // 50)
    opened, headers, read = [], [], []
    opening, header, reading = Path.open, csv.read_header, csv.CsvFile._read

    def counted_open(self: Path, *given: Any, **named: Any) -> Any:
        opened.extend([self] if self == path else [])
        return opening(self, *given, **named)

    def counted_rows(*given: Any) -> Any:
        for batch in reading(*given):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(Path, "open", counted_open)
    monkeypatch.setattr(csv.CsvFile, "_read", counted_rows)
    monkeypatch.setattr(csv, "read_header", lambda p, _: headers.append(p) or header(p))
    command = ["fit", str(path), "--target", "y", "--out", str(tmp_path / "model.json")]
    # Leave-one-out needs the codes of all rows, and weights are held in memory.
    memory = {"rows for leave-one-out": "1M", "weights": "100K"}.get(kind, "10K")
    command += ["--memory", memory]
    assert main([*command, *more]) == 0
    assert len(headers) == 1
    assert readings - 0.1 < sum(read) / 5_000 < readings + 0.1  # and the first rows
    assert len(opened) <= 7  # these, the header, and twice both its ends


def test_counting_a_file_does_not_load_scipy(tmp_path: Path) -> None:
    path = write(table_of(500), tmp_path / "t.parquet")
    code = (
        f"import sys, renyi; renyi.Marginals.from_file({str(path)!r}, target='y');"
        "sys.exit('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
