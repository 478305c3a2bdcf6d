"""Predict with rows that come batch by batch: the same answers, in flat memory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import renyi
from renyi.cli import predict
from renyi.cli.predict import RowsToAnswer
from renyi.sources import csv, files
from support.commandline import HERE, Done, process, save, table

Good = Callable[..., Done]
FIT = ("--target", "y", "--id", "id", "--out", "m")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even small files come in many batches."""
    monkeypatch.setattr(predict, "_ROWS", 7)
    monkeypatch.setattr(csv, "PIECE", 500)


def rows(n: int = 200) -> pd.DataFrame:
    frame = table(n, seed=3)
    frame.loc[::9, "colour"] = "green"  # which training never saw
    frame.loc[::11, "length"] = np.nan
    frame.loc[5:8, "y"] = ["?", "perhaps", "", "no"]
    frame["number"] = pd.array([None, *range(1, n)], "Int64")
    return frame


def write(frame: pd.DataFrame, name: str) -> str:
    if name.endswith("parquet"):
        frame.to_parquet(name, row_group_size=30)
    elif name.endswith("arrow"):
        with (
            pa.OSFile(name, "wb") as sink,
            pa.ipc.new_file(
                sink, pa.Schema.from_pandas(frame, preserve_index=False)
            ) as writer,
        ):
            writer.write_table(
                pa.Table.from_pandas(frame, preserve_index=False), max_chunksize=40
            )
    else:
        frame.to_csv(name, index=False, sep="\t" if "tsv" in name else ",")
    return name


@pytest.mark.parametrize(
    ("ending", "out"),
    [
        ("csv", "csv"),
        ("tsv", "csv.gz"),
        ("csv.gz", "parquet"),
        ("parquet", "csv"),
        ("parquet", "parquet"),
        ("arrow", "parquet"),
    ],
)
def test_batches_change_no_answer(
    ending: str, out: str, good: Good, request: pytest.FixtureRequest
) -> None:
    good("fit", save(table()), *FIT)
    name = write(rows(), f"n.{ending}")
    common = ("predict", "m.json", name, "--id", "id", "number", "--proba", "--score")
    whole = good(*common, "--out", f"whole.{out}")
    printed = good(*common).out
    request.getfixturevalue("small_batches")
    parts = good(*common, "--out", f"parts.{out}")
    assert parts.err == whole.err.replace("whole", "parts")
    assert "cells have labels unseen in training, in" in parts.err
    assert "1 of these has a class unknown to the model; 2 more have no" in parts.err
    assert good(*common).out == printed
    if out != "parquet":
        unpack = gzip.open if out == "csv.gz" else open
        for sheet in ("parts", "whole"):
            with unpack(f"{sheet}.{out}", "rt", encoding="utf-8") as stream:
                assert stream.read() == printed
    clf = renyi.RenyiClassifier.load("m.json")
    read = pd.read_parquet if out == "parquet" else pd.read_csv
    got = read(f"parts.{out}")
    X = rows()[["colour", "size", "length"]]
    assert got["prediction"].tolist() == clf.predict(X).tolist()
    assert got["score"].to_numpy() == pytest.approx(clf.decision_function(X), abs=1e-12)
    assert got["id"].tolist() == rows()["id"].tolist()
    if out == "parquet" and ending in ("parquet", "arrow"):
        assert got["number"].equals(rows()["number"])


def test_several_files_and_conditions(good: Good, small_batches: None) -> None:
    good("fit", save(table()), *FIT)
    frame = rows()
    write(frame[:120], "n-1.csv")
    write(frame[120:], "n-2.csv")
    Path("n").mkdir()
    write(frame[:50], "n/1.parquet")
    write(frame[50:], "n/2.parquet")
    write(frame, "all.csv")
    want = good("predict", "m.json", "all.csv", "--id", "id").out
    for source in (("n-1.csv", "n-2.csv"), ("n-?.csv",), ("n",)):
        assert good("predict", "m.json", *source, "--id", "id").out == want
    where = ("--where", "size >= 4")
    kept = [f",{k}" for k in frame["id"][frame["size"] >= 4]]
    for source in ("n-?.csv", "n"):
        got = good("predict", "m.json", source, "--id", "id", *where).out
        lines = got.splitlines()
        assert [f",{line.split(',')[0]}" for line in lines[1:]] == kept
        assert set(lines) <= set(want.splitlines())
    # Without the target in every file, there is no error to tell.
    write(frame[120:].drop(columns="y"), "n-2.csv")
    done = good("predict", "m.json", "n-1.csv", "n-2.csv", "--id", "id")
    assert done.out == want
    assert "error rate" not in done.err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(
        st.sampled_from(["1", "2", "1.0", "02", "x", "?", "nan", "+2"]), min_size=2
    )
)
def test_each_row_is_read_for_itself(cells: list[str], tmp_path: Path) -> None:
    X = pd.DataFrame({"a": [1, 2, 3] * 5})
    clf = renyi.RenyiClassifier(alpha=0.1).fit(X, np.arange(15) % 2)
    path = tmp_path / "n.csv"
    pd.DataFrame({"a": cells, "b": "b"}).to_csv(path, index=False)
    kinds = files.column_kinds(clf.encoder_)
    whole = clf.decision_function(files.read_table(path, ["a"], kinds=kinds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "PIECE", 8)
        found = list(RowsToAnswer(clf, [path], ["a"]).batches())
    got = [score for batch in found for score in clf.decision_function(batch[0])]
    assert got == whole.tolist()
    meant = {"1": 1, "2": 2, "1.0": 1, "+2": 2, "?": None, "nan": None}
    alone = [pd.DataFrame({"a": [meant.get(cell, cell)]}) for cell in cells]
    assert got == [clf.decision_function(row)[0] for row in alone]
    assert [v for _, ids, _ in found for v in ids["a"].to_pylist()] == cells


def test_classes_that_are_integers(good: Good, small_batches: None) -> None:
    frame = table().assign(y=lambda t: (t["y"] == "yes").astype(int))
    good("fit", save(frame), *FIT)
    cells = (
        frame["y"].astype(str).where(frame.index % 3 > 0, frame["y"].map("{}.0".format))
    )
    cells[5], cells[6] = "x", "?"
    save(frame.assign(y=cells), "n.csv")
    told = good("predict", "m.json", "n.csv", "--json").json["error"]
    clf = renyi.RenyiClassifier.load("m.json")
    said = clf.predict(frame[["colour", "size", "length"]])
    wrong = (said != frame["y"]).to_numpy()[~np.isin(np.arange(200), [5, 6])]
    assert told["wrong"] == 1 + int(wrong.sum())
    assert (told["unknown"], told["unjudged"]) == (1, 1)


def test_times_are_written_each_for_itself(good: Good, small_batches: None) -> None:
    good("fit", save(table()), *FIT)
    frame = table(20)
    days = pd.date_range("2024-01-01", periods=20)
    frame["time"] = days + pd.to_timedelta([0] * 19 + [90], "s")
    frame.loc[3, "time"] = pd.NaT
    write(frame, "n.parquet")
    lines = good("predict", "m.json", "n.parquet", "--id", "time").out.splitlines()
    times = [line.split(",")[0] for line in lines]
    assert times[1] == "2024-01-01 00:00:00"
    assert times[4] == ""
    assert times[20] == "2024-01-20 00:01:30"


def test_a_late_error_leaves_no_file(
    bad: Callable[..., str], good: Good, small_batches: None
) -> None:
    good("fit", save(table()), *FIT)
    frame = table().astype({"length": object})
    frame.loc[199, "length"] = "long"
    save(frame, "n.csv")
    message = bad("predict", "m.json", "n.csv", "--out", "a.csv")
    assert "'length' is numeric but holds 'long'" in message
    assert not Path("a.csv").exists()
    Path("none.csv").write_text("colour,size,length\n")
    assert "none.csv has a header but no rows" in bad("predict", "m.json", "none.csv")
    where = ("--where", "size > 9")
    assert "No row of t.csv meets" in bad("predict", "m.json", "t.csv", *where)


def test_a_reader_that_goes_is_no_error(good: Good, tmp_path: Path) -> None:
    good("fit", save(table()), *FIT)
    frame = pd.concat([rows()] * 500)
    write(frame.drop(columns="number"), "n.parquet")
    command = f"{sys.executable} -m renyi predict m.json n.parquet | head -2"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        encoding="utf-8",
        env=HERE,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "prediction"
    assert lines[2] == "0"
    assert done.stderr == ""


# ---- memory

_CHILD = """
import sys
sys.modules["numba"] = None  # it takes 100 MB, once there was work that is worth it
from renyi.cli import main
assert main(sys.argv[1:]) == 0
# Not ru_maxrss, which begins with what the process took that started this one.
print(*[line for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""


def peak(*argv: str) -> int:
    """Return the most memory that a command took, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *argv],
        capture_output=True,
        encoding="utf-8",
        env=HERE | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-2]) * 1024


def generate(n: int, name: str) -> pd.DataFrame:
    """Write n rows, made a few at a time."""
    writer: Any = None
    block = pa.Table.from_pandas(table(50_000, seed=1), preserve_index=False)
    for start in range(0, n, 50_000):
        rows = block.slice(0, min(50_000, n - start))
        if writer is None and name.endswith("parquet"):
            writer = pa.parquet.ParquetWriter(name, rows.schema)
        elif writer is None:
            writer = pa.csv.CSVWriter(name, rows.schema)
        writer.write_table(rows)
    writer.close()
    return block.to_pandas()


@pytest.mark.long
@pytest.mark.parametrize(
    ("ending", "few", "many"),
    [("parquet", 200_000, 2_000_000), ("csv", 1_000_000, 5_000_000)],
)
def test_memory_is_flat(ending: str, few: int, many: int, good: Good) -> None:
    good("fit", save(table(2000)), *FIT)
    peaks = []
    for n in (few, many):
        block = generate(n, f"n.{ending}")
        given = ("--id", "id", "--out", "answers.csv")
        peaks.append(peak("predict", "m.json", f"n.{ending}", *given))
    # The answers alone, an id and a class each, would take more than this.
    assert peaks[1] < peaks[0] + 16 * (many - few)
    got = pd.read_csv("answers.csv", usecols=["prediction"])["prediction"]
    assert len(got) == many
    clf = renyi.RenyiClassifier.load("m.json")
    want = clf.predict(block[["colour", "size", "length"]])
    assert (got.to_numpy().reshape(-1, len(want)) == want).all()
    assert os.listdir().count("answers.csv") == 1


def test_the_process_ends_well(good: Good) -> None:
    good("fit", save(table()), *FIT)
    done = process("predict", "m.json", "t.csv", "--out", "a.parquet")
    assert done.returncode == 0
    assert done.stderr.endswith("Wrote a.parquet (200 rows)\n")
