"""Writing files: whole or not at all, and with the permissions of others."""

from __future__ import annotations

import os

import numpy as np
import pytest

from renyi import Marginals, RenyiClassifier, storage
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
        storage.write_json(place, {"a": 1})
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.json"]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    place = tmp_path / "m"
    place.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), storage.replacing(place) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path):
    place = tmp_path / "m"
    place.write_bytes(b"old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.write_json(place, {"a": float("nan")})
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_places_that_are_no_files_are_named(tmp_path):
    m = Marginals.load(MARGINALS)
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        m.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder .*nowhere"):
        m.save(tmp_path / "nowhere" / "m.renyi")
    for load in (Marginals.load, RenyiClassifier.load, Scorecard.load):
        with pytest.raises(FileNotFoundError, match="absent"):
            load(tmp_path / "absent")
        with pytest.raises(IsADirectoryError):
            load(tmp_path)


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    storage.write_json(tmp_path / "m", {"a": 1})
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "m")}
    assert len(modes) == 1


def test_permissions_of_an_old_file_are_kept(tmp_path):
    place = tmp_path / "m"
    for mode in (0o600, 0o664):
        place.write_bytes(b"old")
        place.chmod(mode)
        storage.write_json(place, {"a": 1})
        assert place.stat().st_mode & 0o777 == mode


def test_the_process_keeps_its_umask(tmp_path, monkeypatch):
    # Between two calls, other threads would make files that anyone may write to.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("umask was changed"))
    storage.write_json(tmp_path / "m", {"a": 1})
    assert (tmp_path / "m").exists()


def test_errors_of_the_system_name_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left .*m\.json'") as caught:
        storage.write_json(tmp_path / "m.json", {"a": 1})
    assert caught.value.filename == str(tmp_path / "m.json")
