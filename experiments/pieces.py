"""Run the pieces of an experiment on several cores, each exactly once.

A folder contains ``settings.json`` and ``pieces.jsonl``, one line for each finished
piece. A line is flushed to the disk. If a kill cut the last line, its piece runs again.
A folder with other settings is rejected, except for a run of more splits, samples or
data sets. Every line contains a digest of the sources that made it, and the CPU seconds
it took. The settings contain the date, the machine and the code of the first run. A
report says all this, and if its pieces come from more than one state of the sources.

Worker processes end with the main process, whatever ended it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TextIO

import renyi
from renyi.counting.compiled import processors
from renyi.files import replacing
from renyi.progress import Progress

Work = Callable[[str, Mapping[str, Any]], Any]
Cost = Callable[[str], float]

# Settings that only choose the pieces, and do not change any of them: a run of 5 splits
# can continue to 100.
ORIGIN = ("begun", "processor", "software", "code")
EXTENT = {"splits", "large", "datasets", "samples", "slow", "command", *ORIGIN}
SETTINGS = "settings.json"
PIECES = "pieces.jsonl"
CODE = "code"
SECONDS = "seconds"
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
        Where to show progress; by default stderr if it is a terminal.
    cost : callable, optional
        ``cost(key)`` returns the relative time of a piece, to estimate the time left;
        by default all pieces are equal.

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
            timed = partial(_timed, work)
            for key, (result, seconds) in _results(left, settings, timed, workers):
                spent = round(seconds, 3)
                line = {"key": key, CODE: digest(), SECONDS: spent, "result": result}
                out.write(json.dumps(line) + "\n")
                out.flush()
                os.fsync(out.fileno())
                done[key] = result
                progress.show(key)
    finally:
        progress.end()
    return {key: done[key] for key in keys}


def begin(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Make a folder for these settings, or return its finished pieces."""
    requested = {**settings, "renyi": renyi.__version__}
    place = folder / SETTINGS
    folder.mkdir(parents=True, exist_ok=True)
    earlier = _read(place) if place.exists() else requested
    for name in sorted({*requested, *earlier} - EXTENT):
        if requested.get(name) != earlier.get(name):
            raise ValueError(
                f"{folder} contains a run with {name} = {earlier.get(name)!r}, not "
                f"{requested.get(name)!r}: give another --out, or delete the folder."
            )
    known = {name: earlier[name] for name in ORIGIN if name in earlier}
    if earlier is requested:
        known = origin()
    with replacing(place) as stream:
        stream.write((json.dumps({**requested, **known}, indent=2) + "\n").encode())
    return _finished(folder / PIECES)


def processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return f"{names[0] if names else platform.machine()}, {len(names) or '?'} cores"


def software() -> str:
    """Return the versions in use.

    >>> software().split()[0]
    'renyi'
    """
    packages = ("numpy", "scipy", "scikit-learn")
    used = [f"renyi {renyi.__version__}", f"Python {platform.python_version()}"]
    used += [f"{name} {version(name)}" for name in packages]
    return f"{', '.join(used)} on {platform.system()} {platform.machine()}"


def origin() -> dict[str, str]:
    """Return when, where and by which code a run is made that begins now."""
    return {
        "begun": date.today().isoformat(),
        "processor": processor(),
        "software": software(),
        "code": digest(),
    }


def made(folder: Path, keys: Collection[str]) -> list[str]:
    """Return notes on when, where and by which code the pieces of a folder were made.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> results = run(place, {"seed": 7}, ["a"], lambda key, _: 1, workers=1)
    >>> begun, code = made(place, ["a"])
    >>> "seed: 7" in begun, code == f"Digest of the code: {digest()}."
    (True, True)
    """
    settings = _read(folder / SETTINGS)
    known = {name: settings.get(name, "not recorded") for name in (*ORIGIN, "seed")}
    note = (
        f"Begun: {known['begun']}; seed: {known['seed']}; processor: "
        f"{known['processor']}; versions: {known['software']}."
    )
    lines = _pieces(folder, keys)
    if all(SECONDS in line for line in lines):
        total = sum(line[SECONDS] for line in lines)
        note += f" One thread in each process, {total:,.0f} CPU seconds in all."
    codes = sources(folder, keys)
    if len(codes) == 1:
        return [note, f"Digest of the code: {min(codes) or 'not recorded'}."]
    return [
        note,
        f"The pieces were made by {len(codes)} states of the code; pieces.jsonl has "
        "the digest of each, if it is known.",
    ]


@cache
def digest() -> str:
    """Return a digest of the sources of package and experiments.

    >>> len(digest())
    16
    """
    total = hashlib.sha256()
    for root in (Path(renyi.__file__).parent, Path(__file__).parent):
        names = sorted(place.relative_to(root).parts for place in root.rglob("*.py"))
        for name in names:
            data = root.joinpath(*name).read_bytes()
            total.update(f"{'/'.join(name)} {len(data)}\n".encode() + data)
    return total.hexdigest()[:16]


def sources(folder: Path, keys: Collection[str] | None = None) -> set[str]:
    """Return the digests of the code that made pieces; "" if it is unknown.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> results = run(place, {}, ["a"], lambda key, _: 1, workers=1)
    >>> sources(place, ["a"]) == sources(place) == {digest()}
    True
    """
    return {piece.get(CODE, "") for piece in _pieces(folder, keys)}


def _pieces(folder: Path, keys: Collection[str] | None) -> list[dict[str, Any]]:
    """Return the lines of some pieces, or of all."""
    lines = (folder / PIECES).read_text(encoding="utf-8").splitlines()
    held = {piece["key"]: piece for piece in map(json.loads, lines)}
    return [*held.values()] if keys is None else [held[key] for key in keys]


def _read(place: Path) -> dict[str, Any]:
    try:
        held = json.loads(place.read_text(encoding="utf-8"))
    except ValueError:
        held = None
    if not isinstance(held, dict):
        raise ValueError(f"{place} is not the settings of a run: delete it.")
    return held


def _finished(place: Path) -> dict[str, Any]:
    """Return the pieces in a file, and cut off an incomplete last line."""
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


def _timed(work: Work, key: str, settings: Mapping[str, Any]) -> tuple[Any, float]:
    """Return the result of a piece, and the CPU seconds that it took."""
    began = time.process_time()
    result = work(key, settings)
    return result, time.process_time() - began


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
    """Leave Ctrl-C, which a terminal sends to all processes, to the main process.

    If the main process ends in another way it cannot signal, so a thread watches it.
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
    """Limit the processes that start in this block to one thread each."""
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
    """A line that is rewritten: the number of finished pieces, and the time left."""

    def __init__(
        self, total: int, costs: Mapping[str, float], stream: TextIO | None
    ) -> None:
        if stream is None and sys.stderr is not None and sys.stderr.isatty():
            stream = sys.stderr
        self.stream, self.total, self.costs = stream, total, costs
        self.first = self.done = total - len(costs)
        self.paid, self.begun = 0.0, time.monotonic()

    def show(self, key: str) -> None:
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
