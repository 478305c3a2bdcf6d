"""Pieces of work for processes of their own, which import this module and no test."""

from __future__ import annotations

import os
import time
from pathlib import Path


def square(key, settings):
    """Note who works, and with how many threads."""
    with open(settings["log"], "a", encoding="utf-8") as log:
        log.write(f"{key} {os.environ.get('OMP_NUM_THREADS')}\n")
    return int(key) ** 2 + settings["shift"]


def dying(key, settings):
    """Be ended from outside at one key."""
    if key == settings["stop"]:
        while not Path(settings["place"]).stat().st_size:  # the other piece is kept
            time.sleep(0.01)
        os._exit(9)
    return key


def endless(key, settings):
    """Tell that it began, and never end."""
    Path(settings["folder"], key).touch()
    time.sleep(3600)
