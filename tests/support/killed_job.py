"""A job that is killed again and again, and started again with the same checkpoint.

``killed_job.py FOLDER KILLS SEED`` counts the files in a folder by the command line, in
a process of its own, which is ended (SIGKILL or SIGTERM) at random moments: half of
them at any time, half while a file is being written. What is there after each must be
whole.
The last run is undisturbed; the number of pieces that were counted in all is saved.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import renyi.cli.marginals  # noqa: F401, so that each run begins with its work
from renyi import Marginals
from renyi.cli import main
from renyi.progress import Progress
from renyi.sources import csv, files
from renyi.streaming import run as jobs


def job(folder: Path, fatal: int) -> None:
    """Count; the writing of a checkpoint number `fatal` is the last act."""
    written, fsync = 0, os.fsync

    def slow_fsync(number: int) -> None:
        nonlocal written
        written += 1
        if written == fatal:
            size = os.fstat(number).st_size
            os.ftruncate(number, size // 2)  # as if not all had reached the disk
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        fsync(number)

    os.fsync = slow_fsync  # type: ignore[assignment]
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def progress(pace: Progress) -> None:
        os.write(log, pace.step[:1].encode())

    count = files.marginals
    how = {"progress": progress, "interval": 0.0}
    files.marginals = lambda *given, **asked: count(*given, **asked | how)  # type: ignore
    paths = map(str, sorted(folder.glob("part-*")))
    given = ("--checkpoint", folder / "job.ckpt", "--out", folder / "counted.renyi")
    code = main(["marginals", "build", *paths, "--target", "y", *map(str, given)])
    if code == 128 + signal.SIGTERM:
        os._exit(code)
    if code:
        raise RuntimeError(f"exit code {code}")


def run(folder: Path, fatal: int, seconds: float | None) -> bool:
    """Run the job in a process of its own; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            job(folder, fatal)
        except KeyboardInterrupt:  # so early that the command did not listen yet
            os._exit(1)
        except BaseException:
            (folder / "error").write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, random.choice([signal.SIGKILL, signal.SIGTERM]))
    ended = os.waitpid(child, 0)[1] == 0
    if (folder / "counted.renyi").exists():
        Marginals.load(folder / "counted.renyi")  # as a whole
    return ended


def kill() -> None:
    csv.PIECE = 2_000
    jobs._THREADS = 2
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    random.seed(seed)
    killed = 0
    for _ in range(10 * kills):
        within = killed % 2 == 0
        fatal = rng.randint(1, 6) if within else 0
        ended = run(folder, fatal, None if within else rng.uniform(0.01, 0.25))
        if ended:  # it was faster than the signal: once more from the beginning
            (folder / "counted.renyi").unlink()
            (folder / "log").unlink()
        killed += not ended
        if killed == kills:
            break
    if not (folder / "counted.renyi").exists():
        run(folder, 0, None)
    (folder / "killed").write_text(str(killed))


if __name__ == "__main__":
    kill()
