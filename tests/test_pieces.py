"""Pieces of an experiment: resumed, never run twice, never half-written."""

from __future__ import annotations

import io
import json
import os

import pytest

from renyi.reproduce import pieces


def square(key, settings):
    """Piece of work that other processes can find."""
    with open(settings["log"], "a", encoding="utf-8") as log:
        log.write(f"{key} {os.environ.get('OMP_NUM_THREADS')}\n")
    return int(key) ** 2 + settings["shift"]


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
    with pytest.raises(ValueError, match="seed = 0, and 1 is asked for"):
        pieces.run(tmp_path, {"seed": 1}, ["a"], lambda key, _: key, workers=1)


def test_a_run_goes_on_to_more_splits(tmp_path):
    work = lambda key, _: key + "!"  # noqa: E731
    pieces.run(tmp_path, {"seed": 0, "splits": 1}, ["a"], work, workers=1)
    again = lambda key, _: "new"  # noqa: E731
    found = pieces.run(tmp_path, {"seed": 0, "splits": 2}, ["a", "b"], again, workers=1)
    assert found == {"a": "a!", "b": "new"}
    assert json.loads((tmp_path / pieces.SETTINGS).read_text())["splits"] == 2


def test_progress_tells_how_many_and_how_long(tmp_path):
    out = io.StringIO()
    keys = list("abc")
    pieces.run(tmp_path, {}, keys, lambda key, _: key, workers=1, stream=out)
    assert "3 of 3 (c), 0:00:00 left" in out.getvalue()
