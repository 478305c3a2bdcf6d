"""Warnings about data, such as dropped rows or ignored columns.

Each kind of warning has a code, so that programs need not parse the sentence.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Literal

_PACKAGE = os.path.dirname(__file__) + os.sep

DataCode = Literal[
    "dropped-rows",
    "ignored-column",
    "mixed-column",
    "rare-labels",
    "too-large",
    "not-converged",
    "note",
]


class DataWarning(UserWarning):
    """Warn about what was done with a table, such as dropping rows.

    Filter these warnings by their `code`; the sentences may change.

    Parameters
    ----------
    message : str
        The sentence.
    code : str, default="note"
        The kind of warning.
    options : sequence of str, default=()
        Options of the command line that would help.

    Examples
    --------
    >>> DataWarning("Dropped 1 row with a missing target 'y'.", "dropped-rows").code
    'dropped-rows'
    """

    def __init__(
        self, message: str, code: DataCode = "note", options: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.options = tuple(options)


def warn(message: str, code: DataCode = "note", *options: str) -> None:
    """Issue a `DataWarning` that points to the caller of the package."""
    warnings.warn(DataWarning(message, code, options), stacklevel=_outside())


def warn_dropped(count: int, target: str) -> None:
    """Warn about rows without a target, which are not counted."""
    rows = "row" if count == 1 else "rows"
    warn(f"Dropped {count:,} {rows} with a missing target {target!r}.", "dropped-rows")


def _outside() -> int:
    """Return the stack level, seen from `warn`, of the first frame outside renyi."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        level = level + 1
        frame = frame.f_back
    return level
