"""Values of options: read from text, and refused in one sentence if they cannot be."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads an option that is a whole number between two others.

    >>> whole_number(1, 9)("3")
    3
    """
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(
                f"it takes a whole number {limits}, not {text!r:.60}"
            )
        return value

    return read


def alpha(text: str) -> float | str:
    """Read the ridge penalty, or how to choose it.

    >>> alpha("auto"), alpha("0.5")
    ('auto', 0.5)
    """
    if text in ("auto", "loo"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"alpha is auto, loo or a number of at least 0, not {text!r}"
        )
    return value


def positive(limits: str, most: float = float("inf")) -> Callable[[str], float]:
    """Return what reads an option that is a number above 0 and below another.

    >>> positive("between 0 and 1", 1)("0.95")
    0.95
    """

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < most:
            raise argparse.ArgumentTypeError(
                f"it takes a number {limits}, not {text!r:.60}"
            )
        return value

    return read
