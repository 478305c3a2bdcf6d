"""Run the command line as ``renyi`` or ``python -m renyi``."""

import contextlib
import os
import signal
import sys
import threading

from renyi.limits import SIGNALS, signal_message


def main() -> int:
    """Run the command line of this process; return its exit code."""
    _open_streams()
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    from renyi.cli import main as run

    code = run(sys.argv[1:])
    if any(thread.daemon for thread in threading.enumerate()):
        # A solver was left behind. If it returned while Python shuts down, its thread
        # would be ended inside C++ code, which aborts the process.
        os._exit(code)
    return code


def _open_streams() -> None:
    """Open any of the three standard streams that is closed.

    Otherwise the next file would get its number, and the messages of libraries.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


def _leave(number: int, frame: object) -> None:
    """Exit at once: while modules are loading there is nothing to clean up.

    Python's own exception would look like a failed import to the user.
    """
    with contextlib.suppress(OSError):  # standard error is closed
        os.write(2, signal_message(128 + number).encode())
    os._exit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
