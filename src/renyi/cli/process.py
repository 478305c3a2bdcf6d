"""Manage the process of a command: its streams, its messages and its signals.

Names and labels come from untrusted files. A terminal would execute escape sequences in
them, and bidirectional control characters would reorder the text. All text is therefore
made `printable`, with visible escapes for such characters. Tables, SQL and JSON are for
other programs and keep their characters: see `renyi.cli.output`.

Errors and notes of the library name Python parameters; `with_options` names the command
line options that set them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any, TextIO

from renyi.cli.parser import option
from renyi.formatting import printable
from renyi.limits import SIGNALS
from renyi.validation import InputError, ParameterError, with_advice


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
    if value is True:
        return option(name)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{option(name)} {shlex.quote(text)}"


class PrintableStream:
    """A stream that writes text in its printable form."""

    def __init__(self, stream: TextIO, needed: bool) -> None:
        self.stream = stream
        self._needed = needed
        # A terminal may not know every letter of a column name.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write text; ignore failures if the stream is not needed."""
        self.send(printable(text))
        return len(text)

    def send(self, text: str) -> None:
        """Write text unchanged."""
        self._try(self.stream.write, text)

    def flush(self) -> None:
        """Flush; ignore failures if the stream is not needed."""
        self._try(self.stream.flush)

    def _try(self, act: Callable[..., object], *given: str) -> None:
        try:
            act(*given)
        except (OSError, ValueError):
            if self._needed:
                raise

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self.stream, name)


@contextlib.contextmanager
def printable_streams() -> Iterator[None]:
    """Make stdout and stderr printable; discard their text if they are closed."""
    with contextlib.ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None or stream.closed:
                nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
                stream = stack.enter_context(nowhere)
            redirect = getattr(contextlib, f"redirect_{name}")
            stack.enter_context(redirect(PrintableStream(stream, name == "stdout")))
            stack.callback(_discard_rest, stream)
        yield


def _discard_rest(stream: TextIO) -> None:
    """Flush; discard what cannot be written, so that Python can exit quietly."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def stoppable() -> Iterator[list[int]]:
    """Let signals raise `KeyboardInterrupt`; yield the numbers of those received.

    A library may turn the interrupt into another error; the list still shows it.
    """
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt(number)

    former = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            # None: a handler that was not installed from Python.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                former[number] = signal.signal(number, stop)
    try:
        yield came
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
