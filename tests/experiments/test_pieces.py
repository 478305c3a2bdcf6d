"""Pieces of an experiment: resumed, never run twice, never half-written."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import __main__, pieces
from renyi.counting import compiled
from support.commandline import HERE
from support.work import dying, square


def failing(key, settings):
    """Piece of work that stops at one key."""
    if key == settings["stop"]:
        raise KeyboardInterrupt
    return key


@pytest.mark.parametrize("workers", [1, 2])
def test_all_pieces_are_run_once(tmp_path, workers):
    log = tmp_path / "log"
    settings = {"shift": 1, "log": str(log)}
    keys = [str(k) for k in range(6)]
    for _ in range(2):
        found = pieces.run(tmp_path / "run", settings, keys, square, workers=workers)
        assert found == {key: int(key) ** 2 + 1 for key in keys}
        assert list(found) == keys
    lines = log.read_text().splitlines()
    assert sorted(line.split()[0] for line in lines) == keys
    if workers == 2:
        assert {line.split()[1] for line in lines} == {"1"}


def test_what_was_finished_before_an_interruption_is_kept(tmp_path):
    keys = list("abcdef")
    with pytest.raises(KeyboardInterrupt):
        pieces.run(tmp_path, {"stop": "d"}, keys, failing, workers=1)
    held = [json.loads(s) for s in (tmp_path / pieces.PIECES).read_text().splitlines()]
    assert [piece["key"] for piece in held] == list("abc")
    seen = []
    found = pieces.run(
        tmp_path,
        {"stop": "d"},
        keys,
        lambda key, _: seen.append(key) or key,
        workers=1,
    )
    assert seen == list("def")
    assert found == {key: key for key in keys}


def test_a_process_that_was_ended_is_told(tmp_path):
    settings = {"stop": "b", "place": str(tmp_path / pieces.PIECES)}
    with pytest.raises(ChildProcessError, match="ended from outside"):
        pieces.run(tmp_path, settings, ["a", "b"], dying, workers=2)
    found = pieces.run(
        tmp_path, settings, ["a", "b"], lambda key, _: key + "!", workers=1
    )
    assert found == {"a": "a", "b": "b!"}


def test_a_line_cut_by_a_kill_is_done_again(tmp_path):
    work = lambda key, _: key + "!"  # noqa: E731
    pieces.run(tmp_path, {}, ["a", "b"], work, workers=1)
    place = tmp_path / pieces.PIECES
    place.write_bytes(place.read_bytes()[:-4])
    assert pieces.run(tmp_path, {}, ["a", "b", "c"], work, workers=1) == {
        "a": "a!",
        "b": "b!",
        "c": "c!",
    }
    assert len(place.read_text().splitlines()) == 3


def test_a_folder_of_other_settings_is_refused(tmp_path):
    pieces.run(tmp_path, {"seed": 0}, ["a"], lambda key, _: key, workers=1)
    with pytest.raises(ValueError, match="seed = 0, not 1"):
        pieces.run(tmp_path, {"seed": 1}, ["a"], lambda key, _: key, workers=1)


def test_a_run_goes_on_to_more_splits(tmp_path):
    work = lambda key, _: key + "!"  # noqa: E731
    pieces.run(tmp_path, {"seed": 0, "splits": 1}, ["a"], work, workers=1)
    again = lambda key, _: "new"  # noqa: E731
    found = pieces.run(tmp_path, {"seed": 0, "splits": 2}, ["a", "b"], again, workers=1)
    assert found == {"a": "a!", "b": "new"}
    assert json.loads((tmp_path / pieces.SETTINGS).read_text())["splits"] == 2


def test_every_piece_tells_the_code_that_made_it(tmp_path, monkeypatch):
    work = lambda key, _: key  # noqa: E731
    pieces.run(tmp_path, {"seed": 0}, ["a"], work, workers=1)
    first = pieces.digest()
    monkeypatch.setattr(pieces, "digest", lambda: "other")
    found = pieces.run(tmp_path, {"seed": 0}, ["a", "b"], work, workers=1)
    assert found == {"a": "a", "b": "b"}
    assert pieces.sources(tmp_path, ["a"]) == {first}
    assert pieces.sources(tmp_path, ["b"]) == {"other"}
    assert pieces.sources(tmp_path, ["a", "b"]) == {first, "other"}
    assert pieces.sources(tmp_path) == {first, "other"}
    begun, note = pieces.made(tmp_path, ["a", "b"])
    assert "seed: 0" in begun and "2 states of the code" in note
    assert pieces.made(tmp_path, ["b"])[1] == "Digest of the code: other."


def test_date_machine_and_code_are_those_of_the_first_run(tmp_path, monkeypatch):
    work = lambda key, _: key  # noqa: E731
    pieces.run(tmp_path, {"seed": 3}, ["a"], work, workers=1)
    settings = json.loads((tmp_path / pieces.SETTINGS).read_text())
    assert {name: settings[name] for name in pieces.ORIGIN} == pieces.origin()
    monkeypatch.setattr(pieces, "processor", lambda: "another machine")
    monkeypatch.setattr(pieces, "digest", lambda: "other")
    pieces.run(tmp_path, {"seed": 3}, ["a", "b"], work, workers=1)
    again = json.loads((tmp_path / pieces.SETTINGS).read_text())
    assert again == settings


def test_seconds_of_pieces_are_added(tmp_path):
    work = lambda key, _: sum(range(10**6))  # noqa: E731
    pieces.run(tmp_path, {}, ["a", "b"], work, workers=1)
    lines = map(json.loads, (tmp_path / pieces.PIECES).read_text().splitlines())
    assert all(0 < line[pieces.SECONDS] < 10 for line in lines)
    assert "CPU seconds in all." in pieces.made(tmp_path, ["a", "b"])[0]


def test_what_was_not_recorded_is_said(tmp_path):
    pieces.run(tmp_path, {}, ["a"], lambda key, _: key, workers=1)
    (tmp_path / pieces.SETTINGS).write_text("{}")
    (tmp_path / pieces.PIECES).write_text('{"key": "a", "result": 2}\n')
    begun, code = pieces.made(tmp_path, ["a"])
    assert begun.count("not recorded") == 4 and "CPU" not in begun
    assert code == "Digest of the code: not recorded."


def test_results_of_other_code_are_named(tmp_path, monkeypatch, capsys):
    work = lambda key, _: key  # noqa: E731
    pieces.run(tmp_path / "new", {}, ["a"], work, workers=1)
    monkeypatch.setattr(pieces, "digest", lambda: "before")
    pieces.run(tmp_path / "old", {}, ["a"], work, workers=1)
    monkeypatch.undo()
    __main__.main(tmp_path)
    first, new, old = capsys.readouterr().out.splitlines()
    assert pieces.digest() in first
    assert "this code" in new and pieces.digest() in new
    assert "other code" in old and "before" in old
    __main__.main()  # the committed ones
    assert len(capsys.readouterr().out.splitlines()) > 8


def test_pieces_of_untold_code_are_read(tmp_path):
    work = lambda key, _: key  # noqa: E731
    pieces.run(tmp_path, {"seed": 0}, ["a"], work, workers=1)
    with open(tmp_path / pieces.PIECES, "a") as out:
        out.write('{"key": "b", "result": 2}\n')
    found = pieces.run(tmp_path, {"seed": 0}, ["a", "b"], work, workers=1)
    assert found == {"a": "a", "b": 2}
    assert pieces.sources(tmp_path, ["b"]) == {""}


def test_the_digest_is_that_of_the_sources(tmp_path, monkeypatch):
    (tmp_path / "part").mkdir()
    inner = tmp_path / "part" / "a.py"
    inner.write_text("1")
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "note.txt").write_text("no source")
    monkeypatch.setattr(pieces.renyi, "__file__", str(tmp_path / "__init__.py"))
    seen = [pieces.digest.__wrapped__()]
    (tmp_path / "note.txt").write_text("another note")
    assert pieces.digest.__wrapped__() == seen[0]
    inner.write_text("2")
    seen.append(pieces.digest.__wrapped__())
    inner.rename(tmp_path / "part" / "b.py")
    seen.append(pieces.digest.__wrapped__())
    assert len(set(seen)) == 3


@pytest.mark.parametrize("line", ["garbage", '{"key": "b"}', "[1]", "7", "\xff"])
def test_a_damaged_line_is_named(tmp_path, line):
    work = lambda key, _: key  # noqa: E731
    pieces.run(tmp_path, {}, ["a"], work, workers=1)
    place = tmp_path / pieces.PIECES
    with open(place, "ab") as out:
        out.write(line.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match=r"Line 2 of .*pieces\.jsonl is not a fin"):
        pieces.run(tmp_path, {}, ["a"], work, workers=1)


def test_one_process_for_each_core(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert compiled.processors() == 7
    asked = []

    def results(keys, settings, work, count):
        asked.append(count)
        return ((key, work(key, settings)) for key in keys)

    monkeypatch.setattr(pieces, "_results", results)
    keys = [str(k) for k in range(9)]
    pieces.run(tmp_path, {}, keys, lambda key, _: key)
    assert asked == [7]


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_the_one_that_began(tmp_path, how):
    script = (
        "import sys; from pathlib import Path; from support.work import endless;"
        "from experiments import pieces;"
        "pieces.run(Path(sys.argv[1], 'run'), {'folder': sys.argv[1]}, ['a', 'b'], "
        "endless, workers=2)"
    )
    paths = os.pathsep.join([str(Path(__file__).parents[1]), HERE["PYTHONPATH"]])
    begun = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env=HERE | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    patience = time.monotonic() + 120
    while not all((tmp_path / key).exists() for key in "ab"):
        assert begun.poll() is None and time.monotonic() < patience
        time.sleep(0.02)
    begun.send_signal(how)
    # The pipe is closed only when the last process that holds it has ended.
    assert begun.communicate(timeout=60)[0] == b""
    assert begun.returncode != 0


def test_progress_tells_how_many_and_how_long(tmp_path):
    out = io.StringIO()
    keys = list("abc")
    pieces.run(tmp_path, {}, keys, lambda key, _: key, workers=1, stream=out)
    assert "3 of 3 (c): 100 %" in out.getvalue()
