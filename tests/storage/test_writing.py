"""Writing files: whole or not at all, and with the permissions of others."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
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


# ---- links, several files, killed writers


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


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    place = tmp_path / "m"
    with files.replacing(place) as first:
        first.write(b"first")
        with files.replacing(place) as second:
            second.write(b"second")
        assert place.read_bytes() == b"second"
    assert place.read_bytes() == b"first" and os.listdir(tmp_path) == ["m"]


def test_nothing_is_renamed_before_every_file_is_written(tmp_path):
    old = {tmp_path / name: name.encode() for name in ("m.json", "m.log", "m.renyi")}
    for path, data in old.items():
        path.write_bytes(data)

    def fail(stream):
        raise OSError("No space left on device")

    writers = {path: lambda stream: stream.write(b"new") for path in old}
    with pytest.raises(OSError, match="No space left"):
        files.replace_together({**writers, tmp_path / "m.renyi": fail})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == old
    files.replace_together(writers)
    contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert contents == dict.fromkeys(old, b"new")


def test_an_interruption_leaves_no_mixture_of_old_and_new_files(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("m.json", "m.log", "m.renyi")]
    for path in paths:
        path.write_bytes(b"old")

    def interrupted(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_sync_folder", interrupted)
    writers = {path: lambda stream: stream.write(b"new") for path in paths}
    with pytest.raises(KeyboardInterrupt):
        files.replace_together(writers)
    contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert contents == dict.fromkeys(paths, b"new")


def test_the_file_is_on_the_disk_before_its_name_and_the_name_at_the_end(
    tmp_path, monkeypatch
):
    steps = []
    sync = os.fsync
    move = os.replace

    def synced(number):
        steps.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        sync(number)

    def moved(source, place):
        steps.append("rename")
        move(source, place)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    files.write_json(tmp_path / "m", {"a": 1})
    assert steps == ["file", "rename", "folder"]
    steps.clear()
    writers = {tmp_path / n: lambda stream: stream.write(b"new") for n in ("a", "b")}
    files.replace_together(writers)
    assert steps == ["file", "file", "rename", "rename", "folder"]


def check_killed(folder, kills, seed):
    """Kill two writers of one file at random moments; see the driver."""
    driver = Path(__file__).parents[1] / "support" / "killed_writers.py"
    command = [sys.executable, str(driver), str(folder), str(kills), str(seed)]
    subprocess.run(command, check=True, timeout=500)
    names = [name for name in os.listdir(folder) if not name.startswith(".renyi-")]
    assert sorted(names) == ["m.json", "pair.json", "pair.renyi"]


@pytest.mark.long
def test_writers_that_are_killed_at_many_moments(tmp_path):
    check_killed(tmp_path, kills=100, seed=2)
