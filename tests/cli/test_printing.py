"""What leaves the commands as text: controls, encodings, formulas, numbers of JSON."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from renyi.certificates.text import few_rows
from renyi.cli import main, output
from renyi.cli.parser import WRITTEN
from renyi.formatting import HIDDEN, csv_text, either, printable
from renyi.sources import suffixes
from support.commandline import Done, Run, process, save

# Clears the screen, sets the title, is a C1 control, and shows what follows backwards.
HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b31m\u202egpj\u2066\x7f"
ARGV = [
    ("fit", "t.csv", "--target", "y"),
    ("fit", "t.csv"),
    ("fit", "t.csv", "--target", "y\x1b[0m"),
    ("fit", "t.csv", "--target", "y", f"--{HOSTILE}"),
    ("fit", "t.csv", "--target", "y", "--rule", HOSTILE),
    ("fit", f"{HOSTILE}.csv", "--target", "y"),
    ("fit", "t.csv", "--target", "y", "--out", f"m{HOSTILE}"),
    ("predict", "m.json", "new.csv", "--proba"),
    ("predict", "m.json", "new.csv", "--json"),
    ("predict", "m.json", "new.csv", "--id", f"x{HOSTILE}"),
    ("predict", "m.json", "other.csv"),
    ("certify", "m.json", "m.renyi"),
    ("certify", "m.json", "m.renyi", "--level", "lp"),
    ("minimax", "t.csv", "--target", "y"),
    ("hgr", "t.csv", "--target", "y"),
    ("select", "t.csv", "--target", "y"),
    ("marginals", "build", "t.csv", "--target", "y", "--out", f"{HOSTILE}.renyi"),
    ("marginals", "show", "m.renyi"),
    ("marginals", "show", "m.renyi", "--json"),
    ("marginals", "show", "m.renyi", "--pair", f"x{HOSTILE}", "y"),
    ("marginals", "merge", "m.renyi", "t.csv", "--out", "n.renyi"),
    ("export", "m.json", "--sql", "duckdb", "--table", f"t{HOSTILE}"),
    ("export", "m.json", "--sql", "duckdb", "--label", HOSTILE),
]


def hostile(n: int = 60) -> pd.DataFrame:
    """Rows whose names, labels and classes would take over a terminal."""
    labels = np.array([f"a{HOSTILE}", "b"])
    y = np.arange(n) % 2
    return pd.DataFrame(
        {
            f"x{HOSTILE}": labels[(y + (np.arange(n) % 7 == 0)) % 2],
            f"one{HOSTILE}": HOSTILE,
            "z": np.arange(n) % 3,
            "y": np.array([f"no{HOSTILE}", "yes"])[y],
        }
    )


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, str]]:
    """Run a command on a terminal; return what that got on stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    save(hostile())
    save(hostile().drop(columns="y"), "new.csv")
    save(hostile()[["z"]], "other.csv")
    for command in (
        ("fit", "t.csv", "--target", "y", "--out", "m"),
        ("marginals", "build", "t.csv", "--target", "y", "--out", "m.renyi"),
    ):
        assert main(command) == 0

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    def command(*argv: str) -> tuple[str, str]:
        raw = {name: io.BytesIO() for name in ("stdout", "stderr")}
        for name, stream in raw.items():
            monkeypatch.setattr(sys, name, Terminal(stream, encoding="utf-8"))
        with contextlib.suppress(SystemExit):
            main(argv)
        out, err = (stream.getvalue().decode() for stream in raw.values())
        return out, err

    return command


@pytest.mark.parametrize("argv", ARGV, ids=lambda argv: " ".join(argv[:2]))
def test_no_control_reaches_a_terminal(
    argv: tuple[str, ...], terminal: Callable[..., tuple[str, str]]
) -> None:
    out, err = terminal(*argv)
    assert out + err
    # The line of progress goes back to its beginning.
    assert HIDDEN.findall(out + err.replace("\r", "")) == []
    if argv[-1] == "--json":
        assert json.loads(out)


def test_a_log_is_printable(terminal: Callable[..., tuple[str, str]]) -> None:
    assert HIDDEN.findall(Path("m.log").read_text()) == []


def test_tables_for_other_programs_keep_every_character(
    good: Callable[..., Done],
) -> None:
    good("fit", save(hostile()), "--target", "y", "--out", "m")
    table = io.StringIO(good("predict", "m.json", "t.csv").out)
    answers = pd.read_csv(table, keep_default_na=False)["prediction"]
    assert set(answers) == {f"no{HOSTILE}", "yes"}


def test_printable_keeps_what_people_write() -> None:
    text = "größe\t值\nשלום 👩‍💻 é"
    assert printable(text) == text


# ---- JSON


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16", "utf-8"])
def test_json_is_valid_in_every_encoding(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"größe": ["值", "👩", "\ud800", HOSTILE, 1.5], "n": np.float64(2)}
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    output.print_json(value)
    stream.flush()
    text = raw.getvalue().decode(encoding)
    assert json.loads(text) == {"größe": value["größe"], "n": 2.0}
    assert HIDDEN.findall(text) == []


def test_json_of_a_command_where_the_language_is_c(tmp_path: Path) -> None:
    frame = pd.DataFrame({"größe": ["ä", "值"] * 30, "y": ["é", "o"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    c = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    argv = ("hgr", "t.csv", "--target", "y", "--json")
    done = process(*argv, cwd=tmp_path, **c, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["columns"][0]["name"] == "größe"


def test_json_has_no_word_for_what_is_not_finite(
    capsys: pytest.CaptureFixture[str],
) -> None:
    some: dict[str, Any] = {"a": [np.nan, (1.0, np.inf)], "b": np.float32("-inf")}
    output.print_json(some)
    assert json.loads(capsys.readouterr().out) == {"a": [None, [1.0, None]], "b": None}


# ---- spreadsheets


@pytest.fixture
def formulas(good: Callable[..., Done]) -> pd.DataFrame:
    """Rows with labels that a spreadsheet would compute, and a model of them."""
    n = np.arange(60)
    labels = np.array(["=cmd()", "@sum", "-2+3", "-5", "+1e3", "-", "plain"])
    frame = pd.DataFrame(
        {"=id": labels[n % 7], "x": n % 3, "y": np.array(["=1+1", "no"])[n % 2]}
    )
    good("fit", save(frame), "--target", "y", "--id", "=id", "--out", "m")
    return frame


@pytest.mark.parametrize("out", [None, "answers.csv", "answers.csv.gz"])
def test_formulas_are_labels_unless_told_otherwise(
    out: str | None, formulas: pd.DataFrame, good: Callable[..., Done]
) -> None:
    argv = ["predict", "m.json", "t.csv", "--id", "=id"]
    argv += [] if out is None else ["--out", out]

    def answers(*more: str) -> pd.DataFrame:
        done = good(*argv, *more)
        source = io.StringIO(done.out) if out is None else out
        return pd.read_csv(source, dtype=str)

    plain = answers()
    assert plain["=id"].tolist() == formulas["=id"].tolist()
    assert set(plain["prediction"]) <= {"=1+1", "no"}
    inert = answers("--spreadsheet")
    assert list(inert.columns) == ["'=id", "prediction"]
    known = ["'=cmd()", "'@sum", "'-2+3", "-5", "+1e3", "-", "plain"]
    assert inert["'=id"].tolist()[:7] == known
    assert set(inert["prediction"]) <= {"'=1+1", "no"}


@pytest.mark.parametrize(
    "blank", ["", " ", "  ", "\t", "\r", "\n", "\xa0", "\u3000", "\ufeff", "\u200b"]
)
def test_formulas_behind_blanks_are_formulas(blank: str) -> None:
    formulas = [
        "=1+1",
        "@sum",
        "-2+3",
        "\uff1d1+1",
        "\uff20sum",
        "\uff0b1+1",
        "\uff0dA1",
    ]
    others = ["plain", "1=1", "a -2+3", "-5", "+1e3", "="]
    frame = pd.DataFrame({"x": [blank + cell for cell in formulas + others]})
    text = csv_text(frame, inert=True)
    _, *records = csv.reader(io.StringIO(text, newline=""))
    quoted = [cell.startswith("'") for (cell,) in records]
    after = blank in ("\t", "\r")  # a cell that begins so is one in any case
    assert quoted == [True] * len(formulas) + [after] * len(others)


@pytest.mark.parametrize("more", [(), ("--spreadsheet",)])
@pytest.mark.parametrize("out", [None, "answers.csv", "answers.csv.gz"])
def test_a_lone_carriage_return_does_not_end_a_row(
    out: str | None, more: tuple[str, ...], good: Callable[..., Done]
) -> None:
    n = np.arange(60)
    cells = np.array(["plain", "a\r=1+1", "\r", "b\r\nc", "d\ne", "f,g", 'h"i'])
    frame = pd.DataFrame(
        {"id": cells[n % 7], "x": n % 3, "y": np.array(["a\rb", "no"])[n % 2]}
    )
    frame.to_parquet("t.parquet")
    good("fit", "t.parquet", "--target", "y", "--id", "id", "--out", "m")
    argv = ["predict", "m.json", "t.parquet", "--id", "id", *more]
    argv += [] if out is None else ["--out", out]
    printed = good(*argv).out
    if out is None:
        text = printed
    elif out.endswith(".gz"):
        text = gzip.decompress(Path(out).read_bytes()).decode()
    else:
        text = Path(out).read_bytes().decode()
    _, *records = csv.reader(io.StringIO(text, newline=""))
    assert [cell for cell, _ in records] == frame["id"].tolist()
    assert {answer for _, answer in records} <= {"a\rb", "no"}


# ---- streams that fail


class Broken(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_broken_stderr_does_not_stop_the_work(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(hostile())
    monkeypatch.setattr(sys, "stderr", Broken())
    assert run("fit", "t.csv", "--target", "y").code == 0
    assert run("fit", "nothing").code == 2


# ---- words


def test_labels_and_counts_stand_apart(good: Callable[..., Done]) -> None:
    frame = pd.DataFrame({"age": np.arange(60) % 31, "y": ["no", "yes"] * 30})
    argv = ("--target", "y", "--out", "m.renyi", "--numeric", "age")
    good("marginals", "build", save(frame), *argv)
    shown = good("marginals", "show", "m.renyi").out
    assert "(no: 30; yes: 30)" in shown
    assert "  age  below 6: 12; " in shown


def test_bounds_of_a_selection_are_percentages(good: Callable[..., Done]) -> None:
    (line,) = (
        line
        for line in good("select", "votes", "--details").out.splitlines()
        if " 1* " in line
    )
    assert line.endswith(" 15.69 %  7.85 %")


def test_one_row_is_no_rows(good: Callable[..., Done]) -> None:
    frame = hostile()
    good("fit", save(frame), "--target", "y", "--out", "m")
    save(frame[:1], "one.csv")
    assert "(1 row)" in good("predict", "m.json", "one.csv", "--out", "a.csv").err
    assert few_rows(1, 4).startswith("there are 4 categories and only 1 row: ")


def test_endings_are_named_in_one_list(run: Run) -> None:
    Path("t.xls").write_text("a")
    refused = run("fit", "t.xls", "--target", "y").err
    shown = " ".join(run("select", "--help").out.split())
    assert suffixes.TABLES in refused
    assert suffixes.TABLES in shown
    written = either(WRITTEN)
    for each in ("predict", "explain"):
        assert written in " ".join(run(each, "--help").out.split())
    for ending in (*suffixes.CSV, *suffixes.PARQUET, *suffixes.ARROW):
        save(pd.DataFrame({"a": [1]}), f"t{ending}")
        told = run("fit", f"t{ending}", "--target", "y").err
        assert "format is unknown" not in told
