"""What a target is; the formats themselves are in `fuzz.targets`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random, list[bytes]], bytes]


class FalsehoodError(Exception):
    """A file was accepted that says what cannot be."""


def hold(condition: Any, what: str) -> None:
    """Raise if something does not hold of what was read."""
    if not condition:
        raise FalsehoodError(what)


@dataclass(frozen=True)
class Target:
    """A format: names of files, seeds, mutations, and how a file is tried."""

    ending: str
    seeds: Callable[[], list[bytes]]
    mutations: tuple[Mutation, ...]
    attempt: Callable[[Path], Any]
    named: bool = True  # whether a refusal names the file
    share: int = 1  # of the cases: what is read quickly is tried more often
