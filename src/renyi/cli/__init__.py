"""The command line: how a command is run, and how errors are told.

What can be asked for is in `renyi.cli.parser`. Nothing heavy is imported here, so that
``renyi --help`` answers at once: the module of a command is loaded when it is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from renyi.cli.parser import parser

_EXTRA = "renyi["  # what a sentence on an extra that is missing tells to install
# Errors of the system by which a name was wrong; others are faults of the machine.
_OF_THE_USER = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code.

    That is 2 for bad input, 1 for a fault of ours or of the machine (a full disk).

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Examples
    --------
    >>> main(["fit", "votes", "--json"])  # doctest: +ELLIPSIS
    {...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["reproduce"]:  # named for one release
        names = ("table1", "runtime", "theorems", "selection")
        name = next((word for word in arguments if word in names), "table1")
        return _fail(
            f"'renyi reproduce {name}' is now 'python -m experiments.{name}', run in a "
            "checkout of the repository, with the same options"
        )
    args = parser().parse_args(arguments)
    args.argv = arguments
    # A terminal that lacks a letter of somebody's column name must not stop the work.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = _run(args)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Nor can what is buffered be written later, when Python ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            return code or _fail(f"The output cannot be written: {error.strerror}", 1)
    return code


def _run(args: argparse.Namespace) -> int:
    """Run a command; report what went wrong in one sentence."""
    try:
        _command(args)
    except BrokenPipeError:  # the reader has gone, as `head` does
        return 0
    except KeyboardInterrupt:
        print("renyi: interrupted", file=sys.stderr)
        return 130
    except MemoryError as error:
        reason = str(error) or "the table is too large for this machine"
        return _fail(f"Out of memory: {reason}")
    except OSError as error:
        if error.strerror is None:
            return _fail(str(error))
        advice = ""
        if isinstance(error, PermissionError):
            advice = ": ask its owner for the permission, or choose another"
        code = 2 if isinstance(error, _OF_THE_USER) else 1
        name = "input or output" if error.filename is None else error.filename
        return _fail(f"{name}: {error.strerror.lower()}{advice}", code)
    except (ValueError, TypeError, NotImplementedError) as error:  # pyarrow's too
        return _fail(str(error))
    except Exception as error:
        if isinstance(error, ImportError) and _EXTRA in str(error):
            return _fail(str(error))
        if os.environ.get("RENYI_DEBUG"):
            raise
        reason = f" ({error})" if str(error) else ""
        return _fail(
            f"Unexpected {type(error).__name__}{reason}. This is a bug in renyi: "
            "please report it, with what the same command prints when RENYI_DEBUG=1 "
            "is set in the environment",
            1,
        )
    return 0


def _command(args: argparse.Namespace) -> None:
    """Run the function of the command; its notes go to stderr if it fails.

    What a reader did with a table is a `DataWarning`; here it becomes a note.
    """
    from renyi.cli.output import notes_of, print_notes

    if "files" in args:
        args.file = args.files[0] if args.files else ""
    module, _, function = args.run.partition(".")
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        try:
            # At the end, when all is written and printed, a checkpoint is deleted.
            with (
                contextlib.ExitStack() as args.until,
                contextlib.suppress(BrokenPipeError),  # nobody listens any more
            ):
                run = getattr(import_module(f"renyi.cli.{module}"), function)
                run(args, recorded)
                sys.stdout.flush()
        except Exception:
            print_notes(notes_of(recorded))
            raise


def _fail(message: str, code: int = 2) -> int:
    text = " ".join(message.split())
    text += "" if text.endswith((".", "?", "!")) else "."
    print(f"renyi: error: {text}", file=sys.stderr)
    return code
