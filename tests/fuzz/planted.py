"""Targets that fail in every way there is, to show that the fuzzer catches them."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np

from fuzz.target import Target, hold


def _warm(path: Path) -> bool:
    return path.name.startswith("warm")


def _crash(path: Path) -> None:
    if not _warm(path):
        ctypes.string_at(0)


def _hang(path: Path) -> None:
    if not _warm(path):
        time.sleep(60)


def _hoard(path: Path) -> None:
    if not _warm(path):
        np.ones(2**28)  # 2 GB


def _leak(path: Path) -> None:
    path.read_bytes().decode("ascii")


def _mumble(path: Path) -> None:
    raise ValueError("The file is not valid.")


def _refuse(path: Path) -> None:
    raise ValueError(f"{path} is not valid.")


def _target(attempt) -> Target:
    return Target(".bin", lambda: [b"\xff" * 9], (lambda raw, *_: raw,), attempt)


TARGETS = {
    "crash": _target(_crash),
    "hang": _target(_hang),
    "hoard": _target(_hoard),
    "leak": _target(_leak),
    "mumble": _target(_mumble),
    "false": _target(lambda path: hold(False, "counts do not add up")),
    "refused": _target(_refuse),
    "accepted": _target(lambda path: None),
}
