"""The process around a command: what leaves it as text, and the signals that end it.

Names and labels come from strangers' files. A terminal would obey the escape sequences
among them, and the bidirectional controls of Unicode show a text in another order than
it has. So all text becomes `printable`, with visible escapes for such characters.
Tables, SQL and JSON are for other programs: see `renyi.cli.output`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from renyi.checks import SIGNALS
from renyi.figures import printable

_ONCE = 2.0  # seconds: a signal that is sent to a group comes twice
_AGAIN = 0.01  # seconds after which an interrupt that was swallowed is raised anew


class PrintableStream:
    """A stream to which text goes in its printable form, and nothing else."""

    def __init__(self, stream: Any, needed: bool) -> None:
        self.stream, self._needed = stream, needed
        # A terminal that lacks a letter of somebody's column name must not stop us.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write text; of a stream that is not needed, failures do not matter."""
        self.send(printable(text))
        return len(text)

    def send(self, text: str) -> None:
        """Write text as it is."""
        self._try(self.stream.write, text)

    def flush(self) -> None:
        """Flush; of a stream that is not needed, failures do not matter."""
        self._try(self.stream.flush)

    def _try(self, act: Callable[..., object], *given: str) -> None:
        try:
            act(*given)
        except (OSError, ValueError):
            if self._needed:
                raise

    def __getattr__(self, name: str) -> Any:
        """Return all else from the stream itself."""
        return getattr(self.stream, name)


@contextlib.contextmanager
def printable_streams() -> Iterator[None]:
    """Let stdout and stderr be printable, and nowhere if they are closed."""
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


def _discard_rest(stream: Any) -> None:
    """Flush; what cannot be written now could not when Python ends, either."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def stoppable() -> Iterator[list[int]]:
    """Let signals raise `KeyboardInterrupt`; yield the numbers of those that came."""
    came: list[int] = []
    ignored_until = 0.0

    def stop(number: int, frame: object) -> None:
        nonlocal ignored_until
        came.append(number)
        if time.monotonic() >= ignored_until:
            ignored_until = time.monotonic() + _ONCE
            raise KeyboardInterrupt(number)

    usual: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        ignored = (signal.SIG_IGN, None)  # None: of a host that is no Python
        handled = [each for each in SIGNALS if signal.getsignal(each) not in ignored]
        usual = {each: signal.signal(each, stop) for each in handled}
    unraisable = sys.unraisablehook

    def swallowed(told: Any) -> None:
        """Raise it anew, of an interrupt that came where nothing can be raised."""
        nonlocal ignored_until
        if not came:
            unraisable(told)
        elif isinstance(told.exc_value, KeyboardInterrupt):
            ignored_until = 0.0
            # To this thread, since a call of the system ends by nothing else.
            again = (threading.main_thread().ident, came.pop())
            threading.Timer(_AGAIN, signal.pthread_kill, again).start()

    sys.unraisablehook = swallowed
    try:
        yield came
    finally:
        sys.unraisablehook = unraisable
        for each, handler in usual.items():
            signal.signal(each, handler)
