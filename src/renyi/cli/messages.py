"""Errors and notes of the library in the words of the command line.

They name parameters of Python; `with_options` names the options that set them.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence

from renyi.cli.parser import option
from renyi.validation import InputError, ParameterError, with_advice
from renyi.warnings import DataWarning


def with_options(problem: Exception | str, known: Collection[str] = ()) -> str:
    """Return the text of an error or a warning, with the options that would help.

    A parameter is replaced by its option if the command has that option.

    >>> from renyi.validation import InputError
    >>> error = InputError("{order} needs more columns.", "drop", order=3)
    >>> with_options(error)
    '--order 3 needs more columns (--drop).'
    """
    text = str(problem)
    if isinstance(problem, ParameterError):
        if problem.name in known:
            text = f"{option(problem.name)} {problem.problem}"
    elif isinstance(problem, InputError):
        text = problem.message
        for name, value in problem.parameters.items():
            text = text.replace(f"{{{name}}}", _shown(name, value))
    options = []
    for advice in getattr(problem, "options", ()):
        if isinstance(advice, tuple):
            options.append(f"{option(advice[0])} {shlex.join(advice[1])}")
            continue
        name, _, value = advice.partition("=")
        options.append(_shown(name, value or True))
    return with_advice(text, *options)


def _shown(name: str, value: object) -> str:
    """Return an option with its value."""
    if name == "fit_intercept":
        return "--no-intercept"
    if name == "interactions" and isinstance(value, tuple):
        value = ",".join(map(":".join, value))
    if value is True:
        return option(name)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{option(name)} {shlex.quote(text)}"


def notes_of(recorded: Sequence[warnings.WarningMessage]) -> list[str]:
    """Return what the readers said of the data, each sentence once."""
    kept = [w for w in recorded if issubclass(w.category, DataWarning)]
    return list(dict.fromkeys(with_options(w.message) for w in kept))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes to stderr."""
    for text in notes:
        print(f"note: {text}", file=sys.stderr)
