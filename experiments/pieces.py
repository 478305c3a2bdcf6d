"""Pieces of an experiment: run on several cores, kept when finished, never run twice.

A folder holds ``settings.json``, what was asked for, and ``pieces.jsonl``, one line for
each finished piece. A line is written whole and flushed to disk; the last one may have
been cut by a kill, and is then done again. A folder of other settings is refused, but
for a run of more splits, samples or data sets. Every line holds a digest of the sources
that made it: a report tells if its pieces were made by more than one state of them.

Processes that work on pieces end with the one that began, whatever ended that.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TextIO

import renyi
from renyi.counting.compiled import processors
from renyi.files import replacing
from renyi.progress import Progress

Work = Callable[[str, Mapping[str, Any]], Any]
Cost = Callable[[str], float]

# Settings that say which pieces there are, and nothing about any of them: a run of 5
# splits goes on to 100.
EXTENT = {"splits", "datasets", "samples", "slow", "command"}
SETTINGS = "settings.json"
PIECES = "pieces.jsonl"
CODE = "code"
# Each process is one thread: more would only fight over the cores.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(
    folder: Path,
    settings: Mapping[str, Any],
    keys: Sequence[str],
    work: Work,
    *,
    workers: int | None = None,
    stream: TextIO | None = None,
    cost: Cost | None = None,
) -> dict[str, Any]:
    """Run the pieces that are not finished yet; return the results of all.

    Parameters
    ----------
    folder : Path
        Where finished pieces are kept.
    settings : dict
        What the experiment was asked for, in plain values; passed to `work`.
    keys : sequence of str
        Names of the pieces.
    work : callable
        ``work(key, settings)`` returns the result of a piece in plain values. A
        function of a module, so that another process can find it.
    workers : int, optional
        Processes; by default as many as there are cores. 1 runs the pieces here.
    stream : file, optional
        Where progress is told; by default stderr if it is a terminal.
    cost : callable, optional
        ``cost(key)`` returns how long a piece takes beside the others, so that the
        time left is foretold well; by default all take as long.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> run(place, {"seed": 0}, ["a", "b"], lambda key, _: key * 2, workers=1)
    {'a': 'aa', 'b': 'bb'}
    >>> run(place, {"seed": 0}, ["a", "b"], lambda key, _: None, workers=1)
    {'a': 'aa', 'b': 'bb'}
    """
    done = begin(folder, settings)
    left = [key for key in keys if key not in done]
    costs = {key: 1.0 if cost is None else cost(key) for key in left}
    progress = _Progress(len(keys), costs, stream)
    workers = min(processors() if workers is None else workers, max(1, len(left)))
    try:
        with open(folder / PIECES, "a", encoding="utf-8") as out:
            for key, result in _results(left, settings, work, workers):
                line = {"key": key, CODE: digest(), "result": result}
                out.write(json.dumps(line) + "\n")
                out.flush()
                os.fsync(out.fileno())
                done[key] = result
                progress.tell(key)
    finally:
        progress.end()
    return {key: done[key] for key in keys}


def begin(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Make a folder for these settings, or return the pieces it has already."""
    told = {**settings, "renyi": renyi.__version__}
    place = folder / SETTINGS
    folder.mkdir(parents=True, exist_ok=True)
    held = _read(place) if place.exists() else told
    for name in sorted({*told, *held} - EXTENT):
        if told.get(name) != held.get(name):
            raise ValueError(
                f"{folder} holds a run with {name} = {held.get(name)!r}, and "
                f"{told.get(name)!r} is asked for: give another --out, or delete it."
            )
    with replacing(place) as stream:
        stream.write((json.dumps(told, indent=2) + "\n").encode())
    return _finished(folder / PIECES)


@cache
def digest() -> str:
    """Return what tells the sources of package and experiments from others.

    >>> len(digest())
    16
    """
    found = hashlib.sha256()
    for root in (Path(renyi.__file__).parent, Path(__file__).parent):
        names = sorted(place.relative_to(root).parts for place in root.rglob("*.py"))
        for name in names:
            data = root.joinpath(*name).read_bytes()
            found.update(f"{'/'.join(name)} {len(data)}\n".encode() + data)
    return found.hexdigest()[:16]


def sources(folder: Path, keys: Collection[str]) -> set[str]:
    """Return the digests of the code that made some pieces; "" where it is not told.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> results = run(place, {}, ["a"], lambda key, _: 1, workers=1)
    >>> sources(place, ["a"]) == {digest()}
    True
    """
    lines = (folder / PIECES).read_text(encoding="utf-8").splitlines()
    made = {piece["key"]: piece.get(CODE, "") for piece in map(json.loads, lines)}
    return {made[key] for key in keys}


def _read(place: Path) -> dict[str, Any]:
    try:
        held = json.loads(place.read_text(encoding="utf-8"))
    except ValueError:
        held = None
    if not isinstance(held, dict):
        raise ValueError(f"{place} is not the settings of a run: delete it.")
    return held


def _finished(place: Path) -> dict[str, Any]:
    """Return the pieces in a file, and cut off a line that was not finished."""
    if not place.exists():
        return {}
    data = place.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(place, whole)
    done = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            piece = json.loads(line)
            done[str(piece["key"])] = piece["result"]
        except (ValueError, TypeError, LookupError):
            raise ValueError(
                f"Line {number} of {place} is not a finished piece: delete this line, "
                "or the whole file."
            ) from None
    return done


def _results(
    keys: Sequence[str], settings: Mapping[str, Any], work: Work, workers: int
) -> Iterator[tuple[str, Any]]:
    if workers <= 1:
        for key in keys:
            yield key, work(key, settings)
        return
    before = set(active_children())
    context = get_context("spawn")
    with (
        _one_thread(),
        ProcessPoolExecutor(workers, context, initializer=_undisturbed) as pool,
    ):
        try:
            waiting = {pool.submit(work, key, settings): key for key in keys}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "A process was ended from outside, perhaps for lack of memory: run the "
                "same command again, with --workers 1; what was finished is kept."
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - before:
                child.terminate()
            raise


def _undisturbed() -> None:
    """Leave Ctrl-C, which a terminal sends to all, to the process that began.

    If that one is ended by anything else, it cannot tell: so its end is watched.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    began = parent_process()
    if began is not None:
        began.join()
        os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let the processes that are started here use one thread each."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Progress:
    """One line that is rewritten: how many pieces are finished, and time left."""

    def __init__(
        self, total: int, costs: Mapping[str, float], stream: TextIO | None
    ) -> None:
        if stream is None and sys.stderr is not None and sys.stderr.isatty():
            stream = sys.stderr
        self.stream, self.total, self.costs = stream, total, costs
        self.first = self.done = total - len(costs)
        self.paid, self.begun = 0.0, time.monotonic()

    def tell(self, key: str) -> None:
        self.done += 1
        self.paid += self.costs[key]
        if self.stream is None:
            return
        spent = time.monotonic() - self.begun
        share = min(1.0, self.paid / sum(self.costs.values()))
        state = Progress(f"{self.done} of {self.total} ({key})", spent, share)
        self.stream.write(f"\r{state!s:<78}")
        self.stream.flush()

    def end(self) -> None:
        if self.stream is not None and self.done > self.first:
            self.stream.write(f"\r{'':<78}\r")
            self.stream.flush()
