"""Commands that get a signal to stop, and the time until they end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from support.commandline import HERE

LONGEST = 60.0  # seconds until a command that does not answer is given up


class Answer(NamedTuple):
    """How a command ended after a signal, if it came before the end."""

    signalled: bool
    seconds: float
    code: int
    out: str
    err: str

    @property
    def noise(self) -> list[str]:
        """Lines of stderr that are neither notes nor the one sentence."""
        known = ("note: ", "renyi: interrupted", "renyi: terminated", "Wrote ", "error")
        return [line for line in self.err.splitlines() if not line.startswith(known)]


def begin(*argv: str, cwd: Path, code: str = "") -> subprocess.Popen[str]:
    """Start a command, or Python code in its place; return once it hears signals."""
    program = ["-c", code] if code else ["-m", "renyi"]
    child = subprocess.Popen(
        [sys.executable, *program, *argv],
        cwd=cwd,
        env=HERE | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        process_group=0,
        # Shells start what is in the background deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while child.poll() is None and not _hears(child.pid):
        time.sleep(0.0005)
    return child


def _hears(pid: int) -> bool:
    """Whether the handlers of `renyi.__main__` are in place, not only Python's own."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if "SigCgt" in line), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def stop(
    child: subprocess.Popen[str], delay: float, how: int = signal.SIGINT
) -> Answer:
    """Send a signal after some seconds; return how the command ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(delay)
    signalled, begun = child.poll() is None, time.monotonic()
    if signalled and how == signal.SIGINT:  # as terminals do it
        os.killpg(child.pid, how)
    elif signalled:
        os.kill(child.pid, how)
    try:
        out, err = child.communicate(timeout=LONGEST)
    finally:
        child.kill()
    return Answer(signalled, time.monotonic() - begun, child.returncode, out, err)


def check(answer: Answer, folder: Path, how: int = signal.SIGINT) -> None:
    """A command that was told to stop did so in good manners."""
    assert answer.noise == [], answer
    # While Python itself ends, after all the work, a signal ends the process.
    assert answer.code in (0, 128 + how, -how), answer
    if answer.code > 0:
        word = "interrupted" if how == signal.SIGINT else "terminated"
        assert answer.err.splitlines()[-1] == f"renyi: {word}"
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []
