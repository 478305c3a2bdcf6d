"""Parameters that are what they should be, and deadlines.

Comparisons of text or lists with numbers would end in errors of Python's own, which
name neither the parameter nor what to give instead.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Sequence
from typing import Any

CLOSED_GAP = 1.1e-6  # an interval no wider than the tolerance of searches is closed


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; truth values are none.

    >>> is_number(0.5), is_number("0.5"), is_number(True), is_number(float("inf"))
    (True, False, False, False)
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and math.isfinite(value)


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least `least`.

    >>> check_whole("n_folds", 2.5, 2)
    Traceback (most recent call last):
    ...
    ValueError: n_folds must be a whole number of at least 2, not 2.5.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}, not {value!r}."
        )


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is not one of some words.

    >>> check_choice("level", "best", ("lp", "exact"))
    Traceback (most recent call last):
    ...
    ValueError: level must be 'lp' or 'exact', not 'best'.
    """
    if not isinstance(value, str) or value not in choices:
        *most, last = map(repr, choices)
        known = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{name} must be {known}, not {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Refuse what does not lie between 0 and 1.

    >>> check_share("ratio", "a")
    Traceback (most recent call last):
    ...
    ValueError: ratio must lie between 0 and 1, not be 'a'.
    """
    if not is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not be {value!r}.")


def check_positive(name: str, value: Any, advice: str = "") -> None:
    """Refuse what is not a positive number.

    >>> check_positive("alpha", 0, ": 1e-6 is almost none")
    Traceback (most recent call last):
    ...
    ValueError: alpha must be positive, not 0: 1e-6 is almost none.
    """
    if not is_number(value) or not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}{advice}.")


def check_amount(name: str, value: Any, what: str) -> None:
    """Refuse what is not a number of something, zero or more.

    >>> check_amount("smoothing", -1, "a number of rows")
    Traceback (most recent call last):
    ...
    ValueError: smoothing must be a number of rows, zero or more; it is -1.
    """
    if not is_number(value) or not value >= 0:
        raise ValueError(f"{name} must be {what}, zero or more; it is {value!r}.")


def check_time_limit(value: Any) -> None:
    """Refuse a time limit that is not a positive number of seconds, or None.

    >>> check_time_limit(-1)
    Traceback (most recent call last):
    ...
    ValueError: time_limit must be positive, not -1: seconds, or None for no limit.
    """
    if value is not None:
        check_positive("time_limit", value, ": seconds, or None for no limit")


def has_few_rows(n: float, n_indicators: Any) -> Any:
    """Whether rows are too few for a bound to say much about their population.

    >>> has_few_rows(106, 228), has_few_rows(435, 48)
    (True, False)
    """
    return n <= 2 * n_indicators


class Deadline:
    """A moment by which work has to end, or none: the one clock of every search.

    Parameters
    ----------
    seconds : float, optional
        From now; None for no limit.

    Examples
    --------
    >>> Deadline(None).left
    inf
    >>> Deadline(100).part(0.5).left <= 50
    True
    >>> Deadline(0).passed
    True
    """

    def __init__(self, seconds: float | None) -> None:
        self.begun = time.monotonic()
        self._end = math.inf if seconds is None else self.begun + seconds

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds until the end, never negative; infinite without a limit."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self.left == 0

    @property
    def limit(self) -> float | None:
        """Seconds left as solvers want them: None without a limit."""
        return None if math.isinf(self._end) else self.left

    def part(self, share: float, most: float = math.inf) -> Deadline:
        """Return a deadline after a share of the time left, or some seconds."""
        seconds = min(share * self.left, most)
        return Deadline(None if math.isinf(seconds) else seconds)
