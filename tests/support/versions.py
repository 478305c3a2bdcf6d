"""What an older engine cannot do: rows of tables of exceptions."""

from __future__ import annotations

import re
from types import ModuleType


def older(engine: ModuleType, than: str) -> bool:
    """Whether a package is of an earlier version."""
    return _numbers(engine.__version__) < _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
