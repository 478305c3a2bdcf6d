"""Run mutated files through every reader, in child processes, and keep what they break.

    PYTHONPATH=tests python -m fuzz --inputs 1000000 --jobs 2
    PYTHONPATH=tests python -m fuzz --replay fuzz-found/csv-123.csv

A child tries one case after the other; a case is made from its format and number alone.
An error without a clear message, an accepted falsehood, a crash, more than 10
seconds or more than 1 GB is a finding: its file and what happened are written to
``fuzz-found``, with the command that tries it again.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import importlib
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

CHUNK = 50
COUNTS = ("tried", "refused", "accepted", "found")


# ---- one case


def make(target: Any, name: str, number: int) -> bytes:
    """Return the mutated file of a number."""
    rng, seeds = Random(f"{name} {number}"), _seeds(target)
    return rng.choice(target.mutations)(rng.choice(seeds), rng, seeds)


@functools.cache
def _seeds(target: Any) -> list[bytes]:
    return target.seeds()


def attempt(target: Any, path: Path) -> tuple[str, str]:
    """Try a file: refused, accepted or found, and in the last case what."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            target.attempt(path)
    except (ValueError, TypeError, OSError) as error:
        problem = _unclean(error, path, target.named)
        if problem:
            return "found", f"{problem}\n{traceback.format_exc()}"
        return "refused", ""
    except Exception:
        return "found", traceback.format_exc()
    odd = [w for w in caught if type(w.message).__name__ != "DataWarning"]
    return ("found", f"warned: {odd[0].message!r}") if odd else ("accepted", "")


def _unclean(error: Exception, path: Path, named: bool) -> str:
    """Say what an error lacks of a refusal in words."""
    kind, text = type(error), str(error)
    if kind.__module__.split(".")[0] not in ("builtins", "renyi"):
        return f"an error of {kind.__module__} came through"
    if issubclass(kind, UnicodeError):
        return "an error of the codec came through"
    if isinstance(error, OSError):
        return ""
    if len(text) < 12 or (named and path.name not in text):
        return "the error does not say which file it is about"
    return ""


# ---- the child


def child(module: str, seconds: float, gigabytes: float) -> None:
    """Try the cases that standard input names; say how they went."""
    targets = importlib.import_module(module).TARGETS
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, target in targets.items():  # imports, loops, threads: no limit yet
            place = Path(folder, f"warm-{name}{target.ending}")
            for seed in _seeds(target):
                place.write_bytes(seed)
                attempt(target, place)
        _limit(gigabytes)
        for line in sys.stdin:
            name, first, last = json.loads(line)
            counts, found = Counter(dict.fromkeys(COUNTS, 0)), []
            for number in range(first, last):
                raw = make(targets[name], name, number)
                place = Path(folder, f"case{targets[name].ending}")
                place.write_bytes(raw)
                _say(["at", number])
                faulthandler.dump_traceback_later(seconds, exit=True)
                verdict, what = attempt(targets[name], place)
                faulthandler.cancel_dump_traceback_later()
                counts.update(["tried", verdict])
                if what:
                    found.append([number, what])
            _say(["done", counts, found])


def _limit(gigabytes: float) -> None:
    """Allow so much address space more than what is taken now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _say(message: Any) -> None:
    print(json.dumps(message), flush=True)


# ---- the parent


class Campaign:
    """Counts of what was tried by format, and what was found."""

    def __init__(
        self, module: str, folder: Path, seconds: float = 10, memory: float = 1
    ) -> None:
        self.module, self.folder = module, folder
        self.limits = [str(seconds), str(memory)]
        self.targets = importlib.import_module(module).TARGETS
        self.counts = {name: Counter(dict.fromkeys(COUNTS, 0)) for name in self.targets}
        self.found: list[Path] = []
        self._lock = threading.Lock()

    def run(self, inputs: int, jobs: int, first: int = 0, until: float = 0) -> None:
        """Try so many inputs, by the shares of the formats, in some child processes."""
        whole = sum(target.share for target in self.targets.values())
        each = -(-inputs // whole)
        chunks: queue.SimpleQueue[tuple[str, int, int]] = queue.SimpleQueue()
        for start in range(first, first + each, CHUNK):
            stop = min(start + CHUNK, first + each)
            for name, target in self.targets.items():
                chunks.put((name, target.share * start, target.share * stop))
        work = [
            threading.Thread(target=self._work, args=(chunks, until))
            for _ in range(jobs)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()

    def _work(self, chunks: queue.SimpleQueue[Any], until: float) -> None:
        process = None
        with tempfile.TemporaryFile() as errors:
            with contextlib.suppress(queue.Empty):
                while not until or time.time() < until:
                    name, start, stop = chunks.get_nowait()
                    while start < stop:
                        if process is None:
                            process = self._started(errors)
                        at = self._chunk(process, name, start, stop)
                        if at is None:
                            break
                        process.communicate()
                        what = f"the process ended with status {process.returncode}\n"
                        process = None
                        self._keep(name, at, what + _tail(errors))
                        self._count(name, {"tried": at + 1 - start, "found": 1})
                        start = at + 1
            if process is not None:
                process.communicate()

    def _started(self, errors: Any) -> Any:
        command = [sys.executable, "-m", "fuzz", "--child", self.module, *self.limits]
        path = os.pathsep.join(p for p in sys.path if p)
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )

    def _chunk(self, process: Any, name: str, start: int, stop: int) -> int | None:
        """Have some cases tried; return the one that ended the process, if any."""
        at = start
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps([name, start, stop]) + "\n")
            process.stdin.flush()
        for message in _messages(process):
            if message[0] == "at":
                at = message[1]
            else:
                for number, what in message[2]:
                    self._keep(name, number, what)
                self._count(name, message[1])
                return None
        return at

    def _count(self, name: str, counts: dict[str, int]) -> None:
        with self._lock:
            self.counts[name].update(counts)

    def _keep(self, name: str, number: int, what: str) -> None:
        """Write a finding: the file, what happened and how to see it again."""
        target = self.targets[name]
        self.folder.mkdir(exist_ok=True)
        place = self.folder / f"{name}-{number}{target.ending}"
        place.write_bytes(make(target, name, number))
        again = f"PYTHONPATH=tests python -m fuzz --replay {place}"
        note = self.folder / f"{name}-{number}.txt"
        note.write_text(f"{again}\n\n{what}", "utf-8", "backslashreplace")
        with self._lock:
            self.found.append(note)


def _messages(process: Any) -> Iterator[Any]:
    for line in process.stdout:
        yield json.loads(line)


def _tail(errors: Any) -> str:
    errors.seek(0)
    return errors.read()[-20_000:].decode("utf-8", "replace")


def table(counts: dict[str, Counter[str]]) -> str:
    """Return counts as a table of text, with a last line of sums."""
    total: Counter[str] = Counter()
    for each in counts.values():
        total.update(each)
    rows = {**counts, "all": total}
    lines = ["".join([f"{'format':12}", *(f"{head:>12}" for head in COUNTS)])]
    lines += [
        "".join([f"{name:12}", *(f"{each[head]:12,}" for head in COUNTS)])
        for name, each in rows.items()
    ]
    return "\n".join(lines)


def replay(module: str, place: Path) -> int:
    """Try the file of a finding, in this process."""
    targets = importlib.import_module(module).TARGETS
    target = targets[place.name.split("-")[0]]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"case{target.ending}")
        copy.write_bytes(place.read_bytes())
        verdict, what = attempt(target, copy)
    print(verdict, what)
    return int(verdict == "found")


def main() -> int:
    """Run a campaign, or try one file again."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"))
    parser.add_argument("--targets", default="fuzz.targets")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], *map(float, given.child[1:]))
        return 0
    if given.replay:
        return replay(given.targets, given.replay)
    campaign = Campaign(given.targets, given.found)
    until = time.time() + 60 * given.minutes if given.minutes else 0
    campaign.run(given.inputs, given.jobs, given.first, until)
    print(table(campaign.counts))
    for note in campaign.found:
        print(note)
    return int(bool(campaign.found))


if __name__ == "__main__":
    sys.exit(main())
