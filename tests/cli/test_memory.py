"""Commands on files that are larger than they look: what memory they take."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import renyi
from renyi import limits
from support.commandline import HERE, Run, save, table, votes

# Each line of stdin is a command; its exit code, its peak in MB so far, its last words.
MEASURE = """
import contextlib, io, json, sys
from renyi.cli import main
import renyi.cli.certify, renyi.cli.fit, renyi.cli.marginals, renyi.cli.select
main(["fit", "votes"])
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), open("out", "w") as out:
        with contextlib.redirect_stdout(out):
            code = main(json.loads(line))
    # Not ru_maxrss, which begins with that of the parent process.
    peaks = [line.split() for line in open("/proc/self/status") if "VmHWM" in line]
    peak = int(peaks[0][1]) // 1024
    print(json.dumps(["done", code, peak, said.getvalue()[-500:]]), flush=True)
"""


def measured(folder: Path, *commands: list[str]) -> list[tuple[int, int, str]]:
    """Return exit code, further megabytes and stderr of commands run in a process."""
    lines = [["fit", "votes"], *commands]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        input="\n".join(map(json.dumps, lines)),
        capture_output=True,
        check=True,
        cwd=folder,
        encoding="utf-8",
        env=HERE,
    )
    texts = [line for line in done.stdout.splitlines() if line.startswith('["done"')]
    found = [json.loads(text)[1:] for text in texts]
    pairs = zip(found[1:], found, strict=False)
    return [(code, peak - before[1], said) for (code, peak, said), before in pairs]


def packed(place: Path, head: bytes, body: bytes, times: int) -> None:
    with gzip.open(place, "wb", 5) as stream:
        stream.write(head)
        for _ in range(times):
            stream.write(body)


@pytest.mark.long
def test_lines_without_an_end_take_little_memory(tmp_path: Path) -> None:
    packed(tmp_path / "header.csv.gz", b"", b"a" * 2**20, 150)
    packed(tmp_path / "record.csv.gz", b"x,y\na,b\n\xff", b"a" * 2**20, 150)
    names = ["header.csv.gz", "record.csv.gz"]
    commands = [["fit", name, "--target", "y"] for name in names]
    for (code, more, said), name in zip(
        measured(tmp_path, *commands), names, strict=True
    ):
        assert code == 2 and name in said
        assert more < 200, said


def test_answers_as_json_come_in_pieces(run: Run) -> None:
    save(table(3))
    save(table(), "many.csv")
    run("fit", "many.csv", "--target", "y", "--id", "id", "--out", "m")
    found = run("predict", "m.json", "t.csv", "--json", "--id", "id", "--score").json
    assert list(found) == ["rows", "error", "notes", "answers"]
    assert [list(row) for row in found["answers"]] == [
        ["id", "prediction", "score"]
    ] * 3
    assert [row["id"] for row in found["answers"]] == ["p0000", "p0001", "p0002"]


@pytest.mark.long
def test_five_million_answers_as_json_take_little_memory(tmp_path: Path) -> None:
    packed(tmp_path / "t.csv.gz", b"x,y\n", b"a,0\nb,1\n" * 2**16, 40)
    (tmp_path / "few.csv").write_text("x,y\n" + "a,0\nb,1\n" * 50)
    fit = ["fit", "few.csv", "--target", "y", "--out", "m"]
    predict = ["predict", "m.json", "t.csv.gz", "--json"]
    _, (code, more, _) = measured(tmp_path, fit, predict)
    assert code == 0 and more < 300
    with (tmp_path / "out").open() as stream:
        assert sum(line.count("prediction") for line in stream) == 40 * 2**17


# ---- what does not fit


def test_counts_beyond_the_memory_of_a_job_are_refused(run: Run) -> None:
    labels = [f"k{k}" for k in range(400)] * 4
    save(pd.DataFrame({"x": labels, "y": [0, 1] * 800}))
    fit = ("fit", "t.csv", "--target", "y", "--memory")
    assert run(*fit, "10M").code == 0
    for memory in ("1M", "100K"):
        done = run(*fit, memory)
        assert done.code == 2
        assert "402 categories would take about 1.29 MB" in done.err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (
            "marginals build votes.csv --target party --order 2 --out x.renyi",
            "categories",
        ),
        ("certify m.json --rows votes.csv", "votes.csv"),
        ("marginals show big.renyi", "big.renyi"),
    ],
)
def test_what_cannot_be_streamed_is_refused_with_its_size(
    run: Run, command: str, name: str
) -> None:
    save(votes(), "votes.csv")
    run("fit", "votes.csv", "--target", "party", "--out", "m")
    labels = np.arange(800).repeat(2).astype(str)
    renyi.Marginals.from_data(labels[:, None], [0, 1] * 800).save("big.renyi")
    done = run(*command.split(), "--memory", "100K")
    assert done.code == 2
    told = rf"{name} would take about \S+ [kM]B of memory, more than"
    assert re.search(told, done.err)
    assert not Path("x.renyi").exists()


@pytest.mark.parametrize("text", ["2", "M", "-1G", "2X", "nan", "1e99G"])
def test_sizes_of_memory_make_sense(run: Run, text: str) -> None:
    assert run("hgr", "votes", f"--memory={text}").code == 2


@pytest.mark.long
def test_files_that_unfold_are_streamed(tmp_path: Path) -> None:
    scale = 20
    packed(tmp_path / "t.csv.gz", b"x,y\n", b"a,0\nb,1\n" * 2**16, 20 * scale)
    code = pa.array(np.repeat(np.arange(2, dtype=np.int32), 2 * 10**6))
    cells = pa.DictionaryArray.from_arrays(code, pa.array(["aaaa" * 50, "bbbb" * 50]))
    rows = pa.table({"x": cells, "y": code})
    with pq.ParquetWriter(tmp_path / "t.parquet", rows.schema) as writer:
        for _ in range(scale):
            writer.write_table(rows)
    assert (tmp_path / "t.csv.gz").stat().st_size < 200_000 * scale
    assert (tmp_path / "t.parquet").stat().st_size < 600_000 * scale
    memory = ["--memory", "500M"]
    names = ("t.csv.gz", "t.parquet")
    commands = [["fit", name, "--target", "y", *memory] for name in names]
    for code, more, said in measured(tmp_path, *commands):
        assert code == 0, said
        assert more < 400


def test_the_limit_of_a_container_of_either_kind_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes")
    monkeypatch.setattr(limits, "_CONTAINER", places)

    def budget() -> int:
        limits._container_memory.cache_clear()
        return limits.memory_budget()

    whole = budget()
    for place in places:
        place.write_text("max\n")
        assert budget() == whole
        place.write_text("1000000\n")
        assert budget() == 500_000
        place.unlink()
