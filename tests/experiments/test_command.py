"""``python -m experiments.table1``: each experiment small, resumed, and rejected."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from experiments import (
    best_subset,
    command,
    cycles,
    diagnose,
    genome,
    guarantees,
    information,
    pieces,
    runtime,
    selection,
    table1,
    theorems,
)
from support.commandline import HERE, Done

FILES = {"table.csv", "table.md", "figure.svg", "settings.json", "pieces.jsonl"}
SMALL = {
    "table1": ("--splits", 1, "--datasets", "votes"),
    "runtime": ("--repetitions", 1, "--columns", 50, 100, "--rows", 60),
    "genome": ("--repetitions", 1, "--samples", 60, "--variants", 200),
    "theorems": ("--tables", 3),
    "information": ("--tables", 3),
    "cycles": ("--tables", 3),
    "selection": ("--splits", 1, "--datasets", "votes"),
    "guarantees": ("--samples", 1, "--rows", 100),
    "best_subset": ("--most", 2, "--datasets", "votes"),
    "diagnose": ("--splits", 1, "--datasets", "votes"),
}
ONE = ("--tables", 1, "--workers", 1)
MODULES = {
    "table1": table1,
    "runtime": runtime,
    "genome": genome,
    "theorems": theorems,
    "information": information,
    "cycles": cycles,
    "selection": selection,
    "guarantees": guarantees,
    "best_subset": best_subset,
    "diagnose": diagnose,
}
WITHOUT_FIGURE = {"best_subset"}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an experiment in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def experiment(name, *argv):
        capsys.readouterr()
        try:
            code = command.main(name, [str(word) for word in argv])
        except SystemExit as stop:  # argparse's way out
            code = int(stop.code or 0)
        return Done(code, *capsys.readouterr())

    return experiment


@pytest.fixture
def bad(run):
    """Run an experiment that must be refused before any work is done."""

    def experiment(*argv):
        done = run(*argv)
        assert (done.code, done.out) == (2, "")
        return done.err

    return experiment


def lines(folder: str | Path) -> list[str]:
    place = Path(folder, pieces.PIECES)
    return place.read_text(encoding="utf-8").splitlines() if place.exists() else []


@pytest.mark.parametrize("name", SMALL)
def test_small_run_then_nothing_is_left_to_do(good, monkeypatch, name):
    # All columns are asked elsewhere, and nothing is timed here.
    monkeypatch.setattr(table1, "COLUMNS", ("δ̃map", "MPM", "SVM", "majority"))
    monkeypatch.setattr(runtime, "_warm", lambda: None)
    monkeypatch.setattr(runtime, "_DRAWS", 1)
    monkeypatch.setattr(guarantees, "NAMES", ("additive", "votes"))
    monkeypatch.setattr(genome, "_PEOPLE", 12)
    monkeypatch.setattr(genome, "folder", lambda: None)
    monkeypatch.setattr(diagnose, "LAMBDAS", diagnose.LAMBDAS[12:16])
    monkeypatch.setattr(diagnose, "NUMBERS", diagnose.NUMBERS[:2])
    small = (name, *SMALL[name], "--workers", 1)
    first = good(*small)
    folder = Path("results", name)
    files = FILES - ({"figure.svg"} if name in WITHOUT_FIGURE else set())
    assert {place.name for place in folder.iterdir()} == files
    table = pd.read_csv(folder / "table.csv")
    assert len(table) > 0
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert text.strip() in first.out
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["seed"] == 0
    assert settings["command"][:3] == ["python", "-m", f"experiments.{name}"]
    assert " ".join(settings["command"]) in text
    assert f"Begun: {settings['begun']}; seed: 0; " in text
    assert f"processor: {settings['processor']}; " in text
    assert f"versions: {settings['software']}." in text
    assert "CPU seconds in all" in text
    assert settings["code"] == pieces.digest()
    assert f"Digest of the code: {pieces.digest()}." in text
    held = lines(folder)
    monkeypatch.setattr(MODULES[name], "work", None)  # must not be called again
    again = good(*small, "--json").json
    assert lines(folder) == held
    written = ("table.csv", "table.md", "figure.svg", "settings.json")
    assert again["written"] == [str(folder / each) for each in written if each in files]
    assert again["tables"]
    assert (folder / "table.md").read_text(encoding="utf-8") == text


@pytest.mark.long
def test_a_killed_run_goes_on_where_it_was(good):
    options = ["--tables", "11", "--workers", "1"]
    begun = [sys.executable, "-m", "experiments.theorems", *options, "--out", "killed"]
    process = subprocess.Popen(begun, env=HERE, stdout=subprocess.DEVNULL)
    patience = time.monotonic() + 120
    while not lines("killed") and process.poll() is None:
        assert time.monotonic() < patience
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = lines("killed")
    keys = theorems.keys({"tables": 11})
    assert 1 <= len(kept) < len(keys)
    assert not Path("killed", "table.csv").exists()
    good("theorems", *options, "--out", "killed")
    assert lines("killed")[: len(kept)] == kept
    assert sorted(json.loads(line)["key"] for line in lines("killed")) == sorted(keys)
    whole = pd.read_csv("killed/table.csv")
    good("theorems", *options, "--out", "whole")
    pd.testing.assert_frame_equal(whole, pd.read_csv("whole/table.csv"))


def test_two_processes_give_the_same_table(good):
    small = ("theorems", "--tables", 2)
    good(*small, "--workers", 2, "--out", "two")
    good(*small, "--workers", 1, "--out", "one")
    assert Path("two/table.csv").read_text() == Path("one/table.csv").read_text()


def test_seed_and_default_folder_are_told(good):
    told = good("theorems", *ONE, "--seed", 7, "--json").json
    assert told["seed"] == 7
    assert told["tables"].keys() == {"Inequalities", "Separable tables"}
    assert str(Path("results", "theorems", "table.csv")) in told["written"]
    assert told["command"][-2:] == ["--seed", "7"]


def test_unknown_data_set(bad):
    message = bad("table1", "--datasets", "vote")
    assert "Unknown dataset 'vote'" in message
    assert "did you mean 'votes'?" in message


def test_another_run_in_the_folder(good, bad):
    good("theorems", *ONE, "--out", "here")
    message = bad("theorems", "--tables", 2, "--out", "here")
    assert "here contains a run with" in message
    assert "give another --out" in message
    message = bad("selection", "--out", "here", "--datasets", "votes")
    assert "experiment" in message or "command" in message


def test_a_file_where_the_folder_should_be(bad):
    Path("taken").write_text("a file")
    message = bad("theorems", "--out", "taken")
    assert "taken is a file, not a folder" in message


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("table1", "--splits"),
        ("selection", "--splits"),
        ("runtime", "--repetitions"),
        ("theorems", "--tables"),
        ("table1", "--workers"),
    ],
)
@pytest.mark.parametrize("value", ["0", "-3", "many"])
def test_numbers_below_one(bad, name, option, value):
    message = bad(name, f"{option}={value}")
    assert option in message
    assert "a whole number" in message


def test_a_missing_extra_is_told_before_the_work(bad, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = bad("theorems", "--tables", 1)
    assert "pip install '.[plot]'" in message


def test_all_missing_extras_are_told_at_once(bad, monkeypatch):
    for name in ("matplotlib", "highspy", "clarabel"):
        monkeypatch.setitem(sys.modules, name, None)
    message = bad("theorems", "--tables", 1)
    assert "needs matplotlib and highspy and clarabel" in message
    assert "pip install '.[plot,exact]'" in message


def test_an_interruption_tells_what_is_kept(run, good, monkeypatch):
    """Ctrl-C after two pieces; then the same command, which tells what it found."""
    done = theorems.work

    def twice(key, settings):
        if len(lines("results/theorems")) == 2:
            raise KeyboardInterrupt
        return done(key, settings)

    small = ("theorems", *ONE)
    monkeypatch.setattr(theorems, "work", twice)
    stopped = run(*small)
    assert stopped.code == 130
    kept = (
        "2 of 3 pieces are saved in results/theorems; run the same command to continue."
    )
    assert kept in stopped.err
    monkeypatch.setattr(theorems, "work", done)
    again = good(*small)
    assert "2 of 3 pieces were found in results/theorems" in again.err
    assert len(lines("results/theorems")) == 3


def test_help_tells_what_is_needed_and_what_is_long(good):
    text = " ".join(good("runtime", "--help").out.split())
    assert "pip install '.[plot]'" in text
    assert "(default: 7 from 1,000 to 1,000,000)" in text


def test_committed_results_are_read_as_they_are(good, monkeypatch):
    """The folders of `experiments/results`, made by the former command."""
    results = Path(command.__file__).parent / "results"
    for name, module in MODULES.items():
        monkeypatch.setattr(module, "work", None)  # nothing is left to do
        shutil.copytree(results / name, name)
        before = pd.read_csv(Path(name, "table.csv"))
        settings = json.loads(Path(name, "settings.json").read_text())
        good(name, *settings["command"][3:], "--out", name)
        after = pd.read_csv(Path(name, "table.csv"))
        pd.testing.assert_frame_equal(after, before)


def test_the_short_version_is_understood(run, monkeypatch):
    """Every command of ``make paper SPLITS=3``, as far as the work."""

    def stop(folder, *_, **__):
        raise ValueError(f"as far as the work in {folder}")

    monkeypatch.setattr(pieces, "run", stop)
    checkout = Path(command.__file__).parents[1]
    make = ["make", "-n", "paper", "SPLITS=3"]
    printed = subprocess.run(make, cwd=checkout, capture_output=True, check=True).stdout
    lines_of_shell = printed.decode().replace("\\\n", " ").splitlines()
    parts = [line.partition("-m experiments.")[2] for line in lines_of_shell]
    commands = [part.split() for part in parts if part]
    assert {name for name, *_ in commands} == {*MODULES} - {"guarantees"}
    for name, *argv in commands:
        seeded = name in {"table1", "selection", "diagnose"}
        assert ("--seed 1" in " ".join(argv)) == seeded
        done = run(name, *argv)
        assert done.code == 2
        assert f"as far as the work in results/short/{name}" in done.err
