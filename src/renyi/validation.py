"""Check parameters, and import packages of extras.

Without these checks, Python's own errors (such as comparing a text with a number)
would name neither the parameter nor a valid value.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeGuard

Option = str | tuple[str, Sequence[str]]


class InputError(ValueError):
    """Bad input, with advice for Python, and options for the command line.

    Parameters
    ----------
    message : str
        The sentence, with ``{name}`` in place of the parameter ``name``.
    *options : str, or str and names
        Options that would help, such as ``"drop"``, ``"unseen=mean"`` or ``("id",
        ["a", "b"])``. The command line adds those that the command has.
    python : str, default=""
        Advice for Python, in a few words.
    **parameters : object
        The parameters in the sentence, with their values.

    Examples
    --------
    >>> print(InputError("{order} is too many: there are 2 columns.", order=3))
    order=3 is too many: there are 2 columns.
    >>> print(InputError("Leave one out.", "drop", python="Marginals.select()"))
    Leave one out (Marginals.select()).
    """

    def __init__(
        self, message: str, *options: Option, python: str = "", **parameters: object
    ) -> None:
        self.message = message
        self.options = options
        self.parameters = parameters
        text = message
        for name, value in parameters.items():
            text = text.replace(f"{{{name}}}", f"{name}={value!r}")
        super().__init__(with_advice(text, python))


class ParameterError(InputError):
    """A parameter has an invalid value.

    >>> print(ParameterError("order", "must be positive, not 0."))
    order must be positive, not 0.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name
        self.problem = problem

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, str]]:
        return type(self), (self.name, self.problem)


def with_advice(sentence: str, *advice: str) -> str:
    """Return a sentence with advice in parentheses at its end.

    >>> with_advice("Drop it.", "--id", "--drop")
    'Drop it (--id, --drop).'
    """
    words = ", ".join(filter(None, advice))
    return f"{sentence.removesuffix('.')} ({words})." if words else sentence


def prefixed(prefix: str, error: ValueError) -> ValueError:
    """Return the same error with a prefix, such as the name of a file."""
    if not isinstance(error, InputError):
        return ValueError(f"{prefix}{error}")
    copy = InputError(prefix + error.message, *error.options)
    copy.parameters = error.parameters
    copy.args = (f"{prefix}{error}",)
    return copy


class MissingExtraError(ImportError):
    """A package of an extra is not installed."""


def install_advice(*extras: str) -> str:
    """Return the advice to install extras, from a checkout of the repository.

    >>> print(install_advice("plot", "exact"))
    install the extras with pip install '.[plot,exact]' in a checkout of renyi
    """
    many = "s" * (len(extras) > 1)
    names = ",".join(extras)
    return (
        f"install the extra{many} with pip install '.[{names}]' in a checkout of renyi"
    )


def import_extra(name: str, extra: str, need: str, otherwise: str = "") -> Any:
    """Return a module of an extra; if it is missing, say how to install it."""
    try:
        return import_module(name)
    except ImportError:
        text = f"{need}: {install_advice(extra)}{otherwise}."
        raise MissingExtraError(text) from None


def import_cupy() -> Any:
    """Return CuPy, if there is a GPU; the error says what is missing."""
    need = "The GPU needs CuPy, which is not installed"
    cupy = import_extra("cupy", "gpu", need, ", or use the CPU")
    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        devices = 0
    if not devices:
        raise InputError(
            "There is no NVIDIA GPU here, or it has no driver: use {device}.",
            device="cpu",
        )
    return cupy


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite real number, and not a truth value."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_whole(name: str, value: object, least: int) -> None:
    """Raise ParameterError unless `value` is a whole number of at least `least`."""
    if (
        not isinstance(value, numbers.Integral)
        or isinstance(value, bool)
        or int(value) < least
    ):
        raise ParameterError(
            name, f"must be a whole number of at least {least}, not {value!r}."
        )


def check_choice(name: str, value: object, choices: Sequence[str | None]) -> None:
    """Raise ParameterError unless `value` is in `choices`."""
    if not isinstance(value, str | None) or value not in choices:
        *most, last = map(repr, choices)
        known = f"{', '.join(most)} or {last}" if most else last
        raise ParameterError(name, f"must be {known}, not {value!r}.")


def check_share(name: str, value: object) -> None:
    """Raise ParameterError unless `value` lies between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise ParameterError(name, f"must lie between 0 and 1, not be {value!r}.")


def check_positive(name: str, value: object, advice: str = "") -> None:
    """Raise ParameterError unless `value` is a positive number."""
    if not is_number(value) or not value > 0:
        raise ParameterError(name, f"must be positive, not {value!r}{advice}.")


def check_amount(name: str, value: object, what: str) -> None:
    """Raise ParameterError unless `value` is a number of zero or more."""
    if not is_number(value) or not value >= 0:
        raise ParameterError(name, f"must be {what}, zero or more; it is {value!r}.")


def check_time_limit(value: object) -> None:
    """Raise ParameterError unless a time limit is a positive number, or None."""
    if value is not None:
        check_positive("time_limit", value, ": seconds, or None for no limit")
