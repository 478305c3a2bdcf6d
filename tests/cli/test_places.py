"""Where the commands write: never over what they read, and nothing is lost."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commandline import Done, Run, contents, save, table
from support.repeats import covering

Good = Callable[..., Done]
Bad = Callable[..., str]
SPELLINGS: dict[str, Callable[[str], object]] = {
    "same": lambda name: name,
    "dot": lambda name: f"./{name}",
    "round": lambda name: f"sub/../{name}",
    "absolute": os.path.abspath,
    "symbolic": lambda name: linked(os.symlink, name),
    "hard": lambda name: linked(os.link, name),
}


def linked(link: Callable[[str, str], None], name: str) -> str:
    link(os.path.abspath(name), f"sub/link-{name}")
    return f"sub/link-{name}"


@pytest.fixture
def made(good: Good) -> None:
    """A table, another as Parquet, a model and marginals."""
    Path("sub").mkdir()
    save(table())
    table().to_parquet("t.parquet", index=False)
    good("fit", "t.csv", "--target", "y", "--id", "id", "--out", "m")
    shutil.copy("m.renyi", "n.renyi")


# Every option that names a file to write, with every kind of file that is read.
COMMANDS = [
    ("t.csv", ("predict", "m.json", "t.csv", "--out")),
    ("t.csv", ("predict", "m.json", "t*.csv", "--out")),
    ("t.parquet", ("predict", "m.json", ".", "--out")),
    ("m.json", ("export", "m.json", "--sql", "duckdb", "--out")),
    ("m.json", ("predict", "m.json", "t.csv", "--out")),
    ("m.renyi", ("marginals", "merge", "m.renyi", "n.renyi", "--out")),
    ("n.renyi", ("marginals", "merge", "m.renyi", "n.renyi", "--out")),
    ("m.renyi", ("marginals", "subtract", "m.renyi", "n.renyi", "--out")),
    ("n.renyi", ("marginals", "subtract", "m.renyi", "n.renyi", "--out")),
    (
        "m.renyi",
        ("marginals", "build", "t.csv", "--target", "y", "--encoder", "m.renyi")
        + ("--out",),
    ),
    ("m.renyi", ("fit", "m.renyi", "--marginals", "--out")),
    ("m.renyi", ("select", "m.renyi", "--n-features", "2", "--out")),
    (
        "t.csv",
        ("marginals", "build", "--sql", "SELECT * FROM 't.csv'", "--target", "y")
        + ("--out",),
    ),
]


@pytest.mark.parametrize(
    ("command", "spelling"), covering(COMMANDS, [*SPELLINGS], together=1)
)
def test_no_command_writes_over_what_it_reads(
    command: tuple[str, tuple[str, ...]], spelling: str, made: None, bad: Bad
) -> None:
    name, argv = command
    place = str(SPELLINGS[spelling](name))
    # Endings that the option does not take are no way round.
    ending = {"export": ".sql", "predict": ".csv", "marginals": ".renyi"}.get(argv[0])
    if ending and not place.endswith((ending, ".parquet")):
        os.symlink(os.path.abspath(place), f"odd{ending}")
        place = f"odd{ending}"
    if argv[0] in ("fit", "select"):
        place = place.removesuffix(".renyi")
    assert "would overwrite" in bad(*argv, place)


def test_a_model_may_stand_beside_the_marginals_it_is_of(
    made: None, good: Good
) -> None:
    before = Path("m.renyi").read_bytes()
    good("fit", "m.renyi", "--out", "m")
    assert Path("m.renyi").read_bytes() == before


def test_places_of_one_command_are_different(made: None, bad: Bad) -> None:
    fit = ("fit", "t.csv", "--target", "y", "--out")
    os.symlink("b.log", "b.json")
    os.symlink("c.json", "p.svg")
    assert "b.log and b.json are the same file" in bad(*fit, "b")
    select = ("select", "m.renyi", "--n-features", "2", "--out", "c", "--plot")
    assert "p.svg and c.json are the same file" in bad(*select, "p.svg")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_where_the_shell_sends_output_is_no_place(stream: str, bad: Bad) -> None:
    number = {"stdout": 1, "stderr": 2}[stream]
    kept = os.dup(number)
    with open("m.log", "wb") as log:
        os.dup2(log.fileno(), number)
    try:
        message = bad("fit", "votes", "--out", "m")
    finally:
        os.dup2(kept, number)
        os.close(kept)
    assert f"m.log is already used for {stream}" in message


# ---- links, pipes and devices


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null", "/dev/stdout", "pipe"])
def test_what_is_no_file_is_refused(device: str, made: None, bad: Bad) -> None:
    if device == "pipe":
        os.mkfifo("pipe")
    os.symlink(device, "out.csv")
    os.symlink(device, "out.json")
    assert "out.csv is a pipe or a device" in bad(
        "predict", "m.json", "t.csv", "--out", "out.csv"
    )
    assert "out.json is a pipe or a device" in bad("fit", "votes", "--out", "out")
    assert os.readlink("out.csv") == device


def test_write_protected_files_stay(
    made: None, bad: Bad, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("old.csv").write_text("old")
    access = os.access  # may everything, if the tests are run by root
    monkeypatch.setattr(os, "access", lambda p, k: "old" not in str(p) and access(p, k))
    predict = ("predict", "m.json", "t.csv", "--out", "old.csv")
    assert "old.csv is write-protected" in bad(*predict)


ROWS = ("t.csv", "--target", "y", "--id", "id", "--out")
BUILD, TRAIN = ("marginals", "build", *ROWS, "b.renyi"), ("fit", *ROWS, "b")


# ---- a full disk


@pytest.mark.parametrize(
    ("argv", "place"),
    [
        (("predict", "m.json", "t.csv", "--id", "id", "--out", "a.csv"), "a.csv"),
        (("predict", "m.json", "t.csv", "--id", "id", "--out", "a.csv.gz"), "a.csv.gz"),
        (("predict", "m.json", "t.csv", "--out", "a.parquet"), "a.parquet"),
        (("fit", *ROWS, "a"), "a.json"),
        (("marginals", "merge", "m.renyi", "n.renyi", "--out", "a.renyi"), "a.renyi"),
        (("export", "m.json", "--sql", "sqlite", "--out", "a.sql"), "a.sql"),
        (("select", "m.renyi", "--n-features", "2", "--plot", "a.svg"), "a.svg"),
    ],
)
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_full_disk_leaves_the_old_file(
    argv: tuple[str, ...], place: str, old: bytes | None, made: None, run: Run
) -> None:
    if old is not None:
        Path(place).write_bytes(old)
    before = contents(Path.cwd())
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        done = run(*argv)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert done.code == 1
    assert done.err.splitlines()[-1] == f"renyi: error: {place}: file too large."
    assert contents(Path.cwd()) == before
