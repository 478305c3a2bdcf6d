"""Run the command line as ``renyi`` or ``python -m renyi``, and end it when asked to.

Python tells of Ctrl-C only between two of its own steps, and one call of a compiled
library may last for minutes. So the work is done in a child process, which hears of a
signal as usual and tidies up; should it still be there after `PATIENCE` seconds, its
parent ends it, and says that it was stopped, once. Nothing but a few modules, most of
the system, is imported before the fork.
"""

import atexit
import os
import signal
import sys

from renyi.limits import SIGNALS, signal_message

PATIENCE = 1.5  # seconds
_PR_SET_PDEATHSIG = 1  # of Linux: what a child gets when its parent dies


def main() -> int:
    """Run the command of this process; return its exit code."""
    _open_streams()
    listened = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    for number in listened:
        signal.signal(number, _leave)
    if not hasattr(os, "fork") or os.environ.get("RENYI_DEBUG"):
        return _reported(_work())  # for debuggers, all in one process
    parent = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else its exit code may be lost
    signal.pthread_sigmask(signal.SIG_BLOCK, listened)  # until it is known who answers
    try:
        child = os.fork()
    except OSError:  # there may be no more processes
        signal.pthread_sigmask(signal.SIG_UNBLOCK, listened)
        return _reported(_work())
    if child == 0:
        for number in listened:
            signal.signal(number, lambda number, _: os._exit(128 + number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, listened)
        _die_with(parent)
        os._exit(_work())  # what called us is for the parent to go on with
    return _watch(child, listened)


def _open_streams() -> None:
    """Open what was closed of the first three, or the next file would take its place.

    What a library writes to its terminal would then go into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


def _reported(code: int) -> int:
    """Say so if it is the exit code of what a signal ended."""
    _write(signal_message(code))
    return code


def _write(text: str) -> None:
    try:
        os.write(2, text.encode())
    except OSError:
        return  # nobody listens


def _ignore(number: int, frame: object) -> None:
    """Do nothing; unlike SIG_IGN, it takes the signals that are under way, too."""


def _leave(number: int, frame: object) -> None:
    """End at once: while modules are loaded there is nothing to tidy up."""
    for each in SIGNALS:  # which may come twice
        signal.signal(each, _ignore)
    os._exit(_reported(128 + number))


def _die_with(parent: int) -> None:
    """Let the child not outlive its parent, where the system can do that."""
    if sys.platform == "linux":
        try:
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        except (ImportError, OSError, AttributeError):
            pass  # not every Python is made with it
    if os.getppid() != parent:
        os._exit(1)


def _work() -> int:
    """Run the command; return its exit code."""
    from renyi.cli import run
    from renyi.cli.process import printable_streams

    try:
        code, stopped = run(sys.argv[1:])
    except SystemExit as end:  # argparse's way out
        code = int(end.code or 0)
        stopped = False
    except KeyboardInterrupt as signalled:  # before the command began, or after its end
        number = signalled.args[0] if signalled.args else signal.SIGINT
        code = 128 + number
        stopped = True
    except BaseException:  # shown to those who asked for it
        with printable_streams():
            sys.excepthook(*sys.exc_info())
        code = 1
        stopped = False
    if not stopped:  # threads of libraries may go on for long
        atexit._run_exitfuncs()
    return code


def _watch(child: int, listened: list[signal.Signals]) -> int:
    """Wait for the child, pass signals on to it, and end it if it does not answer."""
    asked: list[int] = []

    def send(number: int) -> None:
        try:
            os.kill(child, number)
        except ProcessLookupError:
            return  # it has just ended

    def end(number: int, frame: object) -> None:
        send(signal.SIGKILL)

    def ask(number: int, frame: object) -> None:
        if not asked:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        asked.append(number)
        send(number)

    signal.signal(signal.SIGALRM, end)
    for number in listened:
        signal.signal(number, ask)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, listened)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for number in (signal.SIGALRM, *listened):
        signal.signal(number, signal.SIG_IGN)
    if code >= 0:
        return _reported(code)
    if asked:
        return _reported(128 + asked[0])
    name = signal.Signals(-code).name
    text = f"renyi: error: The system killed the process ({name})"
    if code == -signal.SIGKILL:
        text += ", most likely because memory ran out"
    _write(f"{text}.\n")
    return 128 - code


if __name__ == "__main__":
    raise SystemExit(main())
