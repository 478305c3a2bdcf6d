"""Check parameters, and import the packages that an extra brings.

Comparing text or lists with numbers would end in errors of Python's own, which name
neither the parameter nor what to give instead.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from importlib import import_module
from typing import Any


class MissingExtraError(ImportError):
    """A package is not installed that an extra brings."""


def install_advice(*extras: str) -> str:
    """Return how to get extras: there is no package index to ask for them.

    >>> print(install_advice("plot", "exact"))
    install the extras with pip install '.[plot,exact]' in a checkout of renyi
    """
    many = "s" * (len(extras) > 1)
    names = ",".join(extras)
    return (
        f"install the extra{many} with pip install '.[{names}]' in a checkout of renyi"
    )


def import_extra(name: str, extra: str, need: str, otherwise: str = "") -> Any:
    """Return a module that an extra brings; an error says how to get it, and why."""
    try:
        return import_module(name)
    except ImportError:
        text = f"{need}: {install_advice(extra)}{otherwise}."
        raise MissingExtraError(text) from None


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; truth values are none."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        return real and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}, not {value!r}."
        )


def check_choice(name: str, value: Any, choices: Sequence[str | None]) -> None:
    """Refuse what is not one of some words, of which None may be one."""
    if not isinstance(value, str | None) or value not in choices:
        *most, last = map(repr, choices)
        known = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{name} must be {known}, not {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Refuse what does not lie between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not be {value!r}.")


def check_positive(name: str, value: Any, advice: str = "") -> None:
    """Refuse what is not a positive number."""
    if not is_number(value) or not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}{advice}.")


def check_amount(name: str, value: Any, what: str) -> None:
    """Refuse what is not a number of something, zero or more."""
    if not is_number(value) or not value >= 0:
        raise ValueError(f"{name} must be {what}, zero or more; it is {value!r}.")


def check_time_limit(value: Any) -> None:
    """Refuse a time limit that is not a positive number of seconds, or None."""
    if value is not None:
        check_positive("time_limit", value, ": seconds, or None for no limit")
