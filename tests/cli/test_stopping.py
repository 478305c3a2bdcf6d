"""Ctrl-C and SIGTERM at any moment, streams that are closed."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.certification import bound_report
from renyi.cli import main
from support.commandline import HERE, Run
from support.stopping import LONGEST, Answer, begin, check, stop

pytestmark = pytest.mark.xdist_group("stopping")  # one folder of large files

BUILD = ("marginals", "build")
COMMANDS = [
    ("fit", "large.csv", "--target", "y", "--out", "new"),
    ("fit", "kr-vs-kp", "--order", "2"),
    ("fit", "part-*.csv", "--target", "y", "--out", "new"),
    ("fit", "--sql", "FROM 'large.csv'", "--target", "y"),
    ("predict", "m.json", "large.csv", "--proba", "--out", "answers.csv"),
    ("predict", "m.json", "large.csv", "--out", "answers.parquet"),
    ("predict", "m.json", "large.csv", "--json"),
    ("certify", "kr.json", "kr.renyi"),
    ("certify", "kr.json", "kr.renyi", "--level", "lp"),
    ("certify", "kr.json", "kr.renyi", "--exact"),
    ("certify", "m.json", "--rows", "large.csv"),
    ("minimax", "adult", "--level", "exact"),
    ("minimax", "kr-vs-kp", "--level", "lp"),
    ("hgr", "kr-vs-kp"),
    ("select", "kr-vs-kp"),
    (*BUILD, "large.csv", "--target", "y", "--out", "new.renyi"),
    (*BUILD, "shop.db", "--table", "visits", "--target", "y", "--out", "new.renyi"),
    (*BUILD, "shop.duckdb", "--table", "visits", "--target", "y", "--out", "n.renyi"),
    ("marginals", "merge", "kr.renyi", "also.renyi", "--out", "new.renyi"),
    ("marginals", "subtract", "two.renyi", "kr.renyi", "--out", "new.renyi"),
    ("marginals", "show", "kr.renyi"),
    ("export", "kr.json", "--sql", "duckdb"),
    ("datasets",),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read."""
    import duckdb

    place = tmp_path_factory.mktemp("stopping")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 9, (100_000, 8))).astype(str).add_prefix("x")
    X["z"], X["y"] = rng.random(len(X)).round(4), rng.integers(0, 3, len(X))
    X.to_csv(place / "large.csv", index=False)
    for k in range(3):
        X.to_csv(place / f"part-{k}.csv", index=False)
    with duckdb.connect(str(place / "shop.duckdb")) as connection:
        connection.register("X", X)
        connection.execute("CREATE TABLE visits AS FROM X")
    import sqlite3

    with sqlite3.connect(place / "shop.db") as database:
        X.to_sql("visits", database, index=False)
    database.close()
    large, kr = str(place / "large.csv"), str(place / "kr")
    for argv in (
        ("fit", "kr-vs-kp", "--out", kr),
        ("fit", large, "--target", "y", "--out", str(place / "m")),
    ):
        assert main(argv) == 0
    shutil.copy(place / "kr.renyi", place / "also.renyi")
    m = renyi.Marginals.load(place / "kr.renyi")
    (m + m).save(place / "two.renyi")
    return place


def tidy(folder: Path) -> None:
    """Take away what commands wrote, but for what they read."""
    for pattern in ("new*", "n.renyi", "answers*", "job*"):
        for path in folder.glob(pattern):
            path.unlink()


@pytest.mark.long
@pytest.mark.parametrize("k", range(8))
def test_control_c_at_a_random_moment(folder: Path, k: int) -> None:
    draw = random.Random(k)
    argv, delay = COMMANDS[k * 3 % len(COMMANDS)], draw.uniform(0, 1.5)
    how = signal.SIGTERM if k % 3 == 0 else signal.SIGINT
    answer = stop(begin(*argv, cwd=folder), delay, how)
    check(answer, folder, how)
    tidy(folder)


@pytest.mark.long  # where a signal arrives is a matter of time
def test_control_c_while_modules_are_loaded(tmp_path: Path) -> None:
    for delay in (0.0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15):
        answer = stop(begin("fit", "votes", cwd=tmp_path), delay)
        assert (answer.code, answer.out) == (130, "")
        assert answer.err == "renyi: interrupted\n"


@pytest.mark.long
def test_control_c_at_200_random_moments(
    folder: Path, record_property: pytest.RecordProperty
) -> None:
    """Over all commands, at 200 random moments."""
    draw, answers, lasts = random.Random(0), [], {}
    for argv in COMMANDS:  # how long each of them takes, at most
        begun = time.monotonic()
        stop(begin(*argv, cwd=folder), 15.0)
        lasts[argv], _ = min(15.0, time.monotonic() - begun), tidy(folder)
    for k, argv in zip(range(200), itertools.cycle(COMMANDS), strict=False):
        how = signal.SIGTERM if k % 5 == 4 else signal.SIGINT
        answer = stop(begin(*argv, cwd=folder), draw.uniform(0, lasts[argv]), how)
        check(answer, folder, how)
        answers.append((answer.seconds if answer.signalled else 0.0, argv))
        tidy(folder)
    heard = sum(seconds > 0 for seconds, _ in answers)
    record_property("signals", heard)
    record_property("slowest", max(answers))
    print(f"{heard} signals, the slowest answers: {sorted(answers)[-5:]}")
    assert heard > 120


@pytest.mark.parametrize(
    ("how", "ended"),
    [("SIGINT", (0, "")), ("SIGTERM", (143, "renyi: terminated\n"))],
)
def test_the_exact_search_tells_what_it_has_when_it_is_stopped(
    how: str, ended: tuple[int, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(clf: Any, m: Any, progress: Any, **limits: Any) -> Any:
        def told(name: str, state: Any = None) -> None:
            if state is not None:
                os.kill(os.getpid(), getattr(signal, how))

        return bound_report(clf, m, progress=told, **limits)

    monkeypatch.setattr("renyi.cli.certify.bound_report", stopped)
    assert run("fit", "votes", "--out", "m").code == 0
    usual = signal.getsignal(signal.SIGINT)
    done = run("certify", "m.json", "m.renyi", "--exact", "--json")
    assert (done.code, done.err) == ended
    assert done.json["model"][-1]["status"] == "stopped"
    assert signal.getsignal(signal.SIGINT) is usual


def test_the_closed_form_is_told_while_large_programs_are_set_up(
    tmp_path: Path,
) -> None:
    """Of a column of 5,000 labels, at which a solver heard of nothing for minutes."""
    rng, n = np.random.default_rng(0), 20_000
    a, p = rng.integers(0, 5_000, n), rng.integers(0, 5, n)
    X = pd.DataFrame({"a": a, "p": p, "u": rng.integers(0, 6, n)}).astype(str)
    y = ((a % 7) / 7 + rng.random(n) > 0.9).astype(str)
    clf = renyi.RenyiClassifier(alpha=1e-3).fit(X, y)
    clf.save(tmp_path / "m.json")
    clf.marginals_.save(tmp_path / "m.renyi")
    code = (
        "import renyi.__main__, renyi.robust.pairwise_program as program\n"
        "ask = program.solve_local\n"
        "def begun(*_, **__):\n"
        "    print(flush=True)\n"
        "    return ask(*_, **__)\n"
        "program.solve_local = begun\n"
        "raise SystemExit(renyi.__main__.main())"
    )
    argv = ("certify", "m.json", "m.renyi", "--exact", "--details")
    child = begin(*argv, cwd=tmp_path, code=code)
    assert child.stdout is not None
    child.stdout.readline()
    answer = stop(child, 0.5)
    assert (answer.code, answer.err) == (0, "")
    assert "Guarantee" in answer.out
    assert "any rule is not known" in answer.out
    assert answer.seconds < LONGEST / 2


def test_whatever_a_library_makes_of_control_c(tmp_path: Path) -> None:
    code = (
        "import os, signal, renyi.__main__, renyi.cli.process\n"
        "def fail(*_):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        raise RuntimeError('Query interrupted') from None\n"
        "renyi.cli.process._command = fail\n"
        "raise SystemExit(renyi.__main__.main())"
    )
    answer = stop(begin("datasets", cwd=tmp_path, code=code), 30.0)
    assert (answer.code, answer.err) == (130, "renyi: interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_code_is_made_of_a_text(name: str, tmp_path: Path) -> None:
    """As while a dataclass or a named tuple is made, when modules are loaded."""
    number = getattr(signal, name)
    (tmp_path / "work.py").write_text(
        "import renyi.__main__, renyi.cli.process\n"
        "def load(*_):\n"
        f"    exec('import os; os.kill(os.getpid(), {number:d})')\n"
        "renyi.cli.process._command = load\n"
        "raise SystemExit(renyi.__main__.main())"
    )
    command = [sys.executable, "-m", "work", "datasets"]
    done = subprocess.run(command, cwd=tmp_path, env=HERE, capture_output=True)
    word = b"interrupted" if name == "SIGINT" else b"terminated"
    expected = (128 + number, b"", b"renyi: %s\n" % word)
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_a_signal_when_the_work_is_done(tmp_path: Path) -> None:
    """The answer is there; a signal before the old handlers are back is no error."""
    code = (
        "import os, signal, renyi.__main__, renyi.cli.process as process\n"
        "usual = signal.signal\n"
        "ran = []\n"
        "def restored(number, handler):\n"
        "    if ran:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return usual(number, handler)\n"
        "process._command = lambda args: ran.append(args) or 0\n"
        "signal.signal = restored\n"
        "raise SystemExit(renyi.__main__.main())"
    )
    answer = stop(begin("datasets", cwd=tmp_path, code=code), 30.0)
    assert (answer.code, answer.out, answer.err) == (143, "", "renyi: terminated\n")


def test_a_solver_that_is_left_behind_cannot_abort_the_process(tmp_path: Path) -> None:
    """Python does not shut down while its thread may return: that aborts C++ code."""
    code = (
        "import atexit, time, renyi.__main__, renyi.cli.process\n"
        "from renyi.solvers.programs import in_thread\n"
        "atexit.register(print, 'shutting down')\n"
        "def leave(*_):\n"
        "    print('answer', in_thread(lambda _: time.sleep(60), 0.01))\n"
        "    return 3\n"
        "renyi.cli.process._command = leave\n"
        "raise SystemExit(renyi.__main__.main())"
    )
    answer = stop(begin("datasets", cwd=tmp_path, code=code), 30.0)
    assert (answer.code, answer.out, answer.err) == (3, "answer None\n", "")


def test_handlers_of_a_host_that_is_no_python_stay(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    assert run("datasets").code == 0
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGTERM) is usual


# ---- streams that are closed


def shell(command: str, cwd: Path) -> Answer:
    """Run a command line of a shell in which `renyi` is ours."""
    done = subprocess.run(
        ["bash", "-c", f"renyi() {{ '{sys.executable}' -m renyi \"$@\"; }}; {command}"],
        cwd=cwd,
        env=HERE,
        capture_output=True,
        encoding="utf-8",
    )
    return Answer(False, 0.0, done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("renyi datasets >&- 2>&-", 0, "", ""),
        ("renyi datasets | head -c 0; exit ${PIPESTATUS[0]}", 0, "", ""),
        ("renyi fit nothing.csv 2>&-", 2, "", ""),
        ("renyi fit nothing.csv >&-", 2, "", "renyi: error: There is no file"),
        ("renyi fit nothing.csv 2>&1 | head -c 0; exit ${PIPESTATUS[0]}", 2, "", ""),
        ("renyi --bad >&-", 2, "", "renyi: error: "),
        ("renyi --bad 2>&-", 2, "", ""),
        ("renyi --bad 2>/dev/full", 2, "", ""),
        ("renyi --help >&-", 0, "", ""),
        ("renyi --help <&- | head -n 1", 0, "usage", ""),
    ],
)
def test_closed_streams(
    command: str, code: int, out: str, err: str, tmp_path: Path
) -> None:
    answer = shell(command, tmp_path)
    assert answer.code == code, answer
    for text, expected in ((answer.out, out), (answer.err, err)):
        assert text.startswith(expected), answer
        assert expected or not text, answer


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """A library that writes to stderr would write into the model."""
    code = (
        "import os, renyi.__main__, renyi.cli.process\n"
        "def write(*_):\n"
        "    with open('model', 'wb') as stream:\n"
        "        os.write(2, b'noise')\n"
        "    return 0\n"
        "renyi.cli.process._command = write\n"
        "raise SystemExit(renyi.__main__.main())"
    )
    (tmp_path / "code.py").write_text(code)
    ours = f"'{sys.executable}' code.py datasets"
    assert shell(f"{ours} >&- 2>&- <&-", tmp_path).code == 0
    assert (tmp_path / "model").read_bytes() == b""
