"""Writing files: whole or not at all, and with the permissions of others."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from renyi import Marginals, RenyiClassifier, files
from renyi.scorecard import Scorecard
from support.forgeries import MARGINALS


def test_nothing_is_half_written(tmp_path, monkeypatch):
    place = tmp_path / "m.renyi"
    place.write_bytes(b"old")
    m = Marginals.load(MARGINALS)
    real = np.lib.format.write_array
    calls = []

    def fail_later(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise OSError("No space left on device")
        real(*arguments, **options)

    monkeypatch.setattr(np.lib.format, "write_array", fail_later)
    with pytest.raises(OSError, match="No space left"):
        m.save(place)
    assert len(calls) == 2
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.renyi"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_at_any_step_leaves_the_old_file(tmp_path, monkeypatch, step):
    place = tmp_path / "m.json"
    place.write_bytes(b"old")

    def fail(*_):
        raise OSError("failed")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="failed"):
        files.write_json(place, {"a": 1})
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.json"]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    place = tmp_path / "m"
    place.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), files.replacing(place) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path):
    place = tmp_path / "m"
    place.write_bytes(b"old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(place, {"a": float("nan")})
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_places_that_are_no_files_are_named(tmp_path):
    m = Marginals.load(MARGINALS)
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        m.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder .*nowhere"):
        m.save(tmp_path / "nowhere" / "m.renyi")
    with pytest.raises(TypeError, match="NoneType"):
        m.save(None)
    for load in (Marginals.load, RenyiClassifier.load, Scorecard.load):
        with pytest.raises(FileNotFoundError, match="absent"):
            load(tmp_path / "absent")
        with pytest.raises(IsADirectoryError):
            load(tmp_path)


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    files.write_json(tmp_path / "m", {"a": 1})
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "m")}
    assert len(modes) == 1


def test_permissions_of_an_old_file_are_kept(tmp_path):
    place = tmp_path / "m"
    for mode in (0o600, 0o664):
        place.write_bytes(b"old")
        place.chmod(mode)
        files.write_json(place, {"a": 1})
        assert place.stat().st_mode & 0o777 == mode


def test_the_process_keeps_its_umask(tmp_path, monkeypatch):
    # Between two calls, other threads would make files that anyone may write to.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("umask was changed"))
    files.write_json(tmp_path / "m", {"a": 1})
    assert (tmp_path / "m").exists()


def test_errors_of_the_system_name_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left .*m\.json'") as caught:
        files.write_json(tmp_path / "m.json", {"a": 1})
    assert caught.value.filename == str(tmp_path / "m.json")


# ---- links, and what killed writers leave


def test_links_are_followed(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub/m")
    for number in (1, 2):  # the file is not there at first
        files.write_json(tmp_path / "link", {"a": number})
        assert (tmp_path / "link").is_symlink()
        assert f'"a": {number}' in (tmp_path / "sub" / "m").read_text()
    assert os.listdir(tmp_path / "sub") == ["m"]


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "ring").symlink_to("ring")
    for place in (tmp_path / "pipe", tmp_path / "ring", "/dev/full", "/dev/null"):
        with pytest.raises(OSError, match=os.path.basename(place)):
            files.write_json(place, {"a": 1})


def test_names_may_be_as_long_as_the_system_allows(tmp_path):
    place = tmp_path / ("ä" * 127)
    files.write_json(place, {"a": 1})
    assert list(tmp_path.iterdir()) == [place]


def test_what_a_killed_writer_left_is_deleted_by_the_next(tmp_path):
    place, other = tmp_path / "m", tmp_path / "other"
    with files.replacing(place) as stream:
        (name,) = os.listdir(tmp_path)
        stream.write(b"one")
        for path in (place, other):  # writers of this and another file live meanwhile
            with files.replacing(path):
                assert name in os.listdir(tmp_path)
    dead, live = (tmp_path / f"{name[:-12]}{k:012x}" for k in range(2))
    dead.write_bytes(b"half")
    (tmp_path / f"{name[:-12]}link").symlink_to(place)
    with live.open("xb") as stream:
        assert files.hold(stream, live)
        files.write_json(other, {"a": 1})
        assert dead.exists()
        files.write_json(place, {"a": 1})
        assert not dead.exists() and live.exists()
    assert place.is_file()


def test_a_file_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    place, hold = tmp_path / "m", files.hold
    lost = []

    def late(stream, path):
        if len(lost) < 3:
            lost.append(path)
            files.sweep(place)  # of another process, just then
            assert not path.exists()
        return hold(stream, path)

    monkeypatch.setattr(files, "hold", late)
    files.write_json(place, {"a": 1})
    assert len(set(lost)) == 3 and os.listdir(tmp_path) == ["m"]


def test_files_of_two_writers_are_not_mixed(tmp_path, monkeypatch):
    move, names = os.replace, ("m.json", "m.log", "m.renyi")

    def slow(source, place):
        time.sleep(0.01)
        move(source, place)

    monkeypatch.setattr(os, "replace", slow)

    def write(mark):
        for _ in range(5):
            writers = {tmp_path / n: lambda stream: stream.write(mark) for n in names}
            files.replace_together(writers)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [b"a", b"b", b"c", b"d"]))
    assert len({(tmp_path / name).read_bytes() for name in names}) == 1
    assert {*os.listdir(tmp_path)} == {*names}


@pytest.mark.parametrize("links", [True, False])
def test_old_files_are_not_taken_for_those_of_killed_writers(
    tmp_path, monkeypatch, links
):
    link, place, seen = os.link, tmp_path / "m", []
    place.write_bytes(b"old")

    def swept(source, name):
        if not links:
            raise OSError("no links here")
        link(source, name)
        files.sweep(place)
        seen.append(os.path.exists(name))

    monkeypatch.setattr(os, "link", swept)
    files.replace_together({place: lambda stream: stream.write(b"new")})
    assert all(seen) and len(seen) == links
    assert os.listdir(tmp_path) == ["m"] and place.read_bytes() == b"new"


def test_a_lock_of_the_users_own_on_the_folder_does_no_harm(tmp_path):
    number = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)  # as in flock . renyi fit …
    files.replace_together({tmp_path / "m": lambda stream: stream.write(b"new")})
    os.close(number)
    assert os.listdir(tmp_path) == ["m"]


def check_killed(folder, kills, seed):
    """Kill two writers of one file at random moments; see the driver."""
    driver = Path(__file__).parents[1] / "support" / "killed_writers.py"
    command = [sys.executable, str(driver), str(folder), str(kills), str(seed)]
    subprocess.run(command, check=True, timeout=500)
    assert sorted(os.listdir(folder)) == ["m.json", "pair.json", "pair.renyi"]


def test_writers_that_are_killed(tmp_path):
    check_killed(tmp_path, kills=10, seed=1)


@pytest.mark.long
def test_writers_that_are_killed_at_many_moments(tmp_path):
    check_killed(tmp_path, kills=100, seed=2)
