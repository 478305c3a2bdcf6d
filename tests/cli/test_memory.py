"""Commands on files that are larger than they look: what memory they take."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.commandline import HERE, Run, save, table

# Each line of stdin is a command; its exit code, its peak in MB so far, its last words.
MEASURE = """
import contextlib, io, json, resource, sys
from renyi.cli import main
import renyi.cli.certify, renyi.cli.fit, renyi.cli.marginals, renyi.cli.select
main(["fit", "votes"])
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), open("out", "w") as out:
        with contextlib.redirect_stdout(out):
            code = main(json.loads(line))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
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
        assert sum("prediction" in line for line in stream) == 40 * 2**17
