"""The command line as a whole: arguments, surprises, processes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import renyi
from renyi import rules
from renyi.certification import LEVELS
from renyi.cli import compare, main
from renyi.cli.methods import Settings, every_method
from renyi.cli.parser import parser
from renyi.exports import formats, integer_card
from renyi.exports.dialects import DIALECTS
from renyi.fitting.settings import OBJECTIVES
from renyi.fitting.training import fit_rows
from renyi.robust import minimax_problem
from renyi.solvers.calibration import CALIBRATIONS
from support.commandline import (
    HERE,
    Done,
    Run,
    process,
    save,
    save_databases,
    table,
)


def test_datasets(good: Callable[..., Done]) -> None:
    text = good("datasets").out
    told = good("datasets", "--json").json
    assert [entry["name"] for entry in told] == list(renyi.datasets.names())
    assert all(name in text for name in renyi.datasets.names())
    assert max(map(len, text.splitlines())) <= 80


def command(name: str) -> Any:
    (commands,) = (a for a in parser()._actions if a.dest == "command")
    return commands.choices[name]


@pytest.mark.parametrize(
    ("name", "option", "known"),
    [
        ("fit", "--rule", rules.RULES),
        ("fit", "--objective", OBJECTIVES),
        ("fit", "--calibration", (*CALIBRATIONS[:-1], "none")),
        ("certify", "--level", LEVELS),
        ("minimax", "--level", minimax_problem.METHODS),
        ("export", "--sql", DIALECTS),
        (
            "export",
            "--format",
            {*integer_card.FORMATS, *formats.TEXTS, *formats.BINARY},
        ),
    ],
)
def test_choices_are_those_of_the_library(name: str, option: str, known: Any) -> None:
    # The parser has them once more, so that --help need not load what computes.
    assert {*command(name)._option_string_actions[option].choices} == {*known}


def test_help_names_the_methods_and_the_defaults() -> None:
    found = command("compare")
    words = {word.strip(",;:()") for word in found.epilog.split()}
    assert {*every_method(Settings(renyi.Encoder(), 0))} <= words
    said = {a.dest: a.help for a in found._actions}
    assert f"(default {compare._FOLDS})" in said["folds"]
    assert f"(default {renyi.Encoder().bins})" in said["bins"]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("fit",), "FILE"),
        (("fit", "--drop", "a", "votes"), "put it before options"),
        (("fly",), "fly"),
        (("fit", "votes", "--alpha", "-1"), "'-1'"),
        (("fit", "votes", "--alpha", "much"), "'much'"),
        (("fit", "votes", "--rule", "best"), "best"),
        (("fit", "votes", "--bins", "1"), "--bins: '1' is not a whole number from 2"),
        (("fit", "votes", "--bins", "10000000000"), "--bins"),
        (("fit", "votes", "--bins", "2.5"), "'2.5'"),
        (("fit", "votes", "--min-count", "0"), "--min-count"),
        (("fit", "votes", "--seed", "-1"), "--seed: '-1' is not a whole number from 0"),
        (("fit", "votes", "--seed", "4294967296"), "--seed"),
        (("marginals", "build", "votes", "--out", "v.renyi", "--bins", "0"), "--bins"),
    ],
)
def test_wrong_arguments(
    argv: tuple[str, ...], named: str, bad: Callable[..., str]
) -> None:
    assert named in bad(*argv)


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (("fit", "t.csv", "--target", "y"), "--drop"),
        (("fit", "t.csv", "--target", "y", "--memory", "1K"), "--id"),
        (("fit", "t.renyi"), "--drop"),
        (("marginals", "build", "t.csv", "--target", "y", "--out", "o.renyi"), "--id"),
        (("marginals", "build", "shop.db", "--table", "visits", "--target",
          "y", "--out", "o.renyi"), "--id"),
        (("hgr", "t.csv", "--target", "y"), "--numeric"),
        (("predict", "t.json", "t.csv"), "--id"),
    ],
)  # fmt: skip
def test_names_with_a_comma_between_them_are_told_apart(
    argv: tuple[str, ...],
    option: str,
    good: Callable[..., Done],
    bad: Callable[..., str],
) -> None:
    frame = table().drop(columns="id").assign(**{"my age": ["u", "v"] * 100})
    good("fit", save(frame), "--target", "y", "--out", "t")
    save_databases(frame)
    message = bad(*argv, option, "size,my age")
    assert f"did you mean {option} size 'my age'?" in message
    assert "has no column 'size,what'" in bad(*argv, option, "size,what")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("fit", "numbered.csv", "--target", "y"), "(--id k, --drop k, --numeric k)"),
        (("predict", "m.json", "new.csv"), "(--unseen mean)"),
        (("export", "m.json", "--format", "onnx", "--out", "m.onnx"), "--unseen mean"),
        (("predict", "s.json", "t.csv", "--prevalence", "0.3"), "rule 'map'"),
        (("certify", "m.json", "two.renyi"), "(--order 1)"),
        (("marginals", "merge", "m.renyi", "o.renyi", "--out", "x.renyi"), "targets"),
        (("certify", "--halves", "w.renyi", "w.renyi"), "equal weights"),
        (("fit", "t.csv", "--target", "y", "--objective", "ranking", "--no-intercept"),
         "--no-intercept"),
        (("fit", "m.renyi", "--calibration", "temperature"), "use 'auto'"),
        (("fit", "t.csv", "--target", "y", "--where", "a=1", "--sql", "FROM 't.csv'"),
         "not both (--where, --sql)"),
    ],
)  # fmt: skip
def test_errors_speak_of_options_rather_than_of_python(
    argv: tuple[str, ...],
    named: str,
    good: Callable[..., Done],
    bad: Callable[..., str],
) -> None:
    frame, fit = table().drop(columns="id"), ("fit", "t.csv", "--target")
    save(frame)
    save(frame.assign(k=range(len(frame))), "numbered.csv")
    save(frame.iloc[[0, 1, 4]].assign(y=["no", "yes", "no"]), "few.csv")
    save(frame.assign(colour="mauve"), "new.csv")
    good(*fit, "y", "--unseen", "error", "--out", "m")
    good(*fit, "y", "--rule", "sharp", "--out", "s")
    good(*fit, "colour", "--out", "o")
    build = ("marginals", "build", "t.csv", "--target", "y", "--out")
    good(*build, "two.renyi", "--order", "2")
    good(*build, "w.renyi", "--weight", "size")
    message = bad(*argv)
    assert named in message
    assert not re.search(r"`|\w\(\)|[a-z]=|in Python|Classifier", message)


def test_a_name_may_hold_a_comma(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id").assign(**{"size,length": ["u", "v"] * 100})
    asked = ("fit", save(frame), "--target", "y", "--drop", "size,length", "--json")
    assert good(*asked).json["features"] == 3


def test_warnings_of_libraries_stay_out_of_sight(
    good: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    def noisy(*args: Any) -> Any:
        warnings.warn("something deep inside", RuntimeWarning, stacklevel=1)
        return fit_rows(*args)

    monkeypatch.setattr("renyi.cli.fit.fit_rows", noisy)
    done = good("fit", "votes", "--out", "m")
    assert "deep inside" not in done.out + done.err
    assert "something deep inside" in Path("m.log").read_text()


def test_wrong_numbers_are_told_before_any_work(
    bad: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "renyi.cli.process._command", lambda _: pytest.fail("work was done")
    )
    assert "--seed" in bad("fit", "votes", "--seed", "-1", "--rule", "sharp")
    assert "--bins" in bad("fit", "votes", "--bins", "1")


@pytest.mark.parametrize(
    "error", [StopIteration(), RecursionError("deep"), AssertionError(), KeyError("k")]
)
def test_surprises_are_told_in_a_sentence(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("renyi.cli.process._command", fail)
    done = run("datasets")
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert line.startswith("renyi: error: Unexpected ")
    assert type(error).__name__ in line
    assert "RENYI_DEBUG=1" in line
    monkeypatch.setenv("RENYI_DEBUG", "1")
    with pytest.raises(type(error)):
        main(["datasets"])


def test_interruption_and_lack_of_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr("renyi.cli.process._command", stop)
    error: BaseException = KeyboardInterrupt()
    assert run("datasets").code == 130
    error = MemoryError("Unable to allocate 3 TiB")
    done = run("datasets")
    assert done.code == 2
    assert "Out of memory: Unable to allocate 3 TiB." in done.err


def test_no_permission_is_told_with_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "shop.duckdb")

    monkeypatch.setattr("renyi.cli.process._command", refuse)
    done = run("datasets")
    assert done.code == 2
    assert "shop.duckdb: permission denied: ask its owner" in done.err


# ---- in a process of its own


def test_as_a_module_on_a_terminal_without_the_letters(tmp_path: Path) -> None:
    frame = pd.DataFrame({"größe": ["ä", "ö"] * 30, "y": ["é", "o"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    argv = ("fit", "t.csv", "--target", "y", "--out", "m")
    done = process(*argv, cwd=tmp_path, **ascii_only)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Guarantee" in done.stdout
    assert "gr\\xf6\\xdfe" in done.stdout
    done = process("predict", "m.json", "t.csv", cwd=tmp_path, **ascii_only)
    assert done.stdout.splitlines()[:3] == ["prediction", "é", "o"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux alone")
def test_output_that_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "renyi", "datasets"],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=HERE,
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("renyi: error: ")
    assert "no space left on device" in line.lower()


def test_names_and_files_stay_as_they_are_in_errors(bad: Callable[..., str]) -> None:
    names = ["Age (numeric)", "x (in Python, y)", "z `where` (sql)", "b or None"]
    for name in names:
        frame = pd.DataFrame({name: [f"id {k}" for k in range(200)]})
        frame.assign(y=["n", "p"] * 100).to_csv("data (sql).csv", index=False)
        assert repr(name) in bad("fit", "data (sql).csv", "--target", "y")
        message = bad("fit", "data (sql).csv", "--target", "q")
        assert f"data (sql).csv has no column 'q': it has {name!r}" in message
    for wrong in ("", ","):
        message = bad("fit", "data (sql).csv", "--target", "y", "--drop", wrong)
        assert f"no column {wrong!r}" in message
