"""Run a command of the command line, and report its errors.

The commands and options are defined in `renyi.cli.parser`. The module of a command is
imported only when the command runs, so that ``renyi --help`` is fast.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module

from renyi.cli.parser import Args, parser
from renyi.cli.process import printable_streams, stoppable, with_options
from renyi.limits import MemoryBudgetError, memory_limit, signal_message
from renyi.validation import MissingExtraError

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
        with stoppable() as came:
            code = _exit_code(arguments, came)
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
    from renyi.cli.output import notes_of, print_notes

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
