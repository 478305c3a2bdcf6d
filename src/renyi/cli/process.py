"""Run a command of the command line: its errors, its streams and its signals.

The commands and options are defined in `renyi.cli.parser`. The module of a command is
imported only when the command runs, so that ``renyi --help`` is fast.

Names and labels come from untrusted files. A terminal would execute escape sequences in
them, and bidirectional control characters would reorder the text. All text is therefore
made `printable`, with visible escapes for such characters. Tables, SQL and JSON are for
other programs and keep their characters: see `renyi.cli.output`.

Errors and notes of the library name Python parameters; `renyi.cli.messages` names the
command line options that set them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from typing import Any, TextIO

from renyi.cli.messages import notes_of, print_notes, with_options
from renyi.cli.parser import Args, parser
from renyi.formatting import printable
from renyi.limits import SIGNALS, MemoryBudgetError, memory_limit, signal_message
from renyi.validation import (
    MissingExtraError,
)

# System errors caused by a wrong name; others are failures of the machine.
_USER_ERRORS = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
# Errors whose message says what to do; those of pyarrow do so as well.
_OUR_ERRORS = (
    *(ValueError, TypeError, NotImplementedError),
    *(MemoryBudgetError, MissingExtraError),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code.

    It is 2 for bad input, and 1 for a bug or a failure of the machine (a full disk).

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments (default: those of the process).

    Examples
    --------
    >>> main(["fit", "votes", "--json"])  # doctest: +ELLIPSIS
    {...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    with printable_streams():
        try:
            with stoppable() as came:
                code = _exit_code(arguments, came)
        except Stopped as late:  # the work was done, its handlers were still in place
            code = 128 + late.number
        sys.stderr.write(signal_message(code))
    return code


def _exit_code(arguments: list[str], came: list[int]) -> int:
    """Run the command, report its error, if any, and return the exit code."""
    args = Args(arguments)
    try:
        whole = parser(arguments[:1] == ["genotypes"])
        whole.parse_args(arguments, args)
        if args.command is None:
            whole.print_help()
            return 0
        code = _command(args)
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        return 0
    except BaseException as error:
        if came or isinstance(error, KeyboardInterrupt):
            # A library may have turned the interrupt into another error.
            return 128 + (came[0] if came else signal.SIGINT)
        if not isinstance(error, Exception):  # argparse exits
            raise
        return _report_error(error, vars(args))
    # An interrupted search has printed its result so far.
    return 128 + came[0] if came and came[0] != signal.SIGINT else code


def _report_error(error: Exception, options: Collection[str]) -> int:
    """Report an error in one sentence; return the exit code."""
    if isinstance(error, _OUR_ERRORS):
        return _fail(with_options(error, options))
    if isinstance(error, MemoryError):
        reason = str(error) or "the table is too large for this machine"
        return _fail(f"Out of memory: {reason}")
    if isinstance(error, OSError):
        if error.strerror is None:
            return _fail(str(error))
        advice = ""
        if isinstance(error, PermissionError):
            advice = ": ask its owner for permission, or choose another path"
        code = 2 if isinstance(error, _USER_ERRORS) else 1
        name = "input or output" if error.filename is None else error.filename
        return _fail(f"{name}: {error.strerror.lower()}{advice}", code)
    if os.environ.get("RENYI_DEBUG"):
        raise error
    reason = f" ({error})" if str(error) else ""
    return _fail(
        f"Unexpected {type(error).__name__}{reason}. This is a bug in renyi: please "
        "report it, with the output of the same command when RENYI_DEBUG=1 is set in "
        "the environment",
        1,
    )


def _command(args: Args) -> int:
    """Run the function of the command; print its notes to stderr if it fails."""
    _hide_passwords(args)
    if "files" in args:
        args.file = args.files[0] if args.files else ""
    elif "file" in args:
        args.files = [args.file]
    module, _, function = args.run.rpartition(".")
    code = None
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        try:
            with (
                memory_limit(getattr(args, "memory", None)),
                contextlib.suppress(BrokenPipeError),  # the reader has closed the pipe
            ):
                run = getattr(import_module(module), function)
                code = run(args, recorded)
                sys.stdout.flush()
        except Exception:
            print_notes(notes_of(recorded))
            raise
    return code or 0


def _hide_passwords(args: Args) -> None:
    """Remove passwords from the arguments; keep the full addresses separately.

    Logs, JSON, provenance and messages may repeat any argument.
    """
    if not any("://" in text for text in args.argv):
        return
    from renyi.sources.databases import shown_address

    def shown(text: str) -> str:
        start = text.index("=") + 1 if text.startswith("--") else 0
        address = text[start:]
        safe = shown_address(address)
        args.addresses[safe] = address
        return text[:start] + safe

    args.argv = [shown(text) if "://" in text else text for text in args.argv]
    if "files" in args:
        args.files = [shown_address(name) for name in args.files]
    if getattr(args, "rows", None) is not None:
        args.rows = shown_address(args.rows)


def _fail(message: str, code: int = 2) -> int:
    text = " ".join(message.split())
    text += "" if text.endswith((".", "?", "!")) else "."
    print(f"renyi: error: {text}", file=sys.stderr)
    return code


# ---- streams and signals


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


class Stopped(KeyboardInterrupt):
    """A signal came.

    If `KeyboardInterrupt` itself leaves code that `exec` makes of a text, as a
    dataclass is made, Python remembers that. It then ends the process by SIGINT,
    whoever caught the exception, and the exit code is lost. A subclass has no such
    effect.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def stoppable() -> Iterator[list[int]]:
    """Let signals raise `Stopped`; yield the numbers of those received.

    A library may turn the interrupt into another error; the list still shows it.
    """
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        raise Stopped(number)

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
