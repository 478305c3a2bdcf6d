"""Checkpoints: what a long job has counted, and of which pieces, to go on from.

A checkpoint holds the counts, the list of units they are of, what was asked for and
what each file looked like from outside: its size, its time and both its ends. It is
written under another name and renamed, so that after a kill there is the old one or the
new one. A job that goes on checks that it is asked for the same and that the files it
has read look as they did: else rows would be counted twice, or never. While a job runs,
it holds a lock: a second one with the same checkpoint is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from renyi.storage import checked_fields, replacing, to_text
from renyi.streaming.requests import difference
from renyi.streaming.run import WHOLE, Key
from renyi.streaming.wire import packed, unpacked

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_KIND = "checkpoint"
_EDGE = 2**16  # bytes at either end of a file that are looked at
_MOST_BYTES, _MOST_UNITS = 2**34, 2**24
_FIELDS: dict[str, tuple[type, ...]] = {
    "request": (dict,),
    "files": (list,),
    "spec": (dict,),
    "profiled": (bool,),
    "notes": (list,),
    "done": (list,),
    "rows": (list,),
    "failed": (list,),
    "seen": (int, type(None)),
}
_FILE: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "size": (int,),
    "time": (int,),
    "edges": (str,),
}


@dataclass
class State:
    """What is kept.

    `profiled` says whether a first pass made the spec; `notes` are its warnings and
    `seen` the rows it saw. `replaced` are files that could not be read and have been
    replaced since. The other fields are those of `renyi.streaming.run.Record`, counts
    being bytes.
    """

    spec: dict[str, Any] = field(default_factory=dict)
    profiled: bool = False
    notes: list[str] = field(default_factory=list)
    parts: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    done: set[Key] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    seen: int | None = None
    replaced: set[int] = field(default_factory=set)

    def may_replace(self, file: int) -> bool:
        """Whether a file may be another: it failed, and its counts are kept apart."""
        counted = any(key[0] == file for key in self.done)
        return file in self.failed and (file in self.parts or not counted)

    def replace(self, file: int) -> None:
        """Leave out what was counted of a file: it is another one now."""
        self.parts.pop(file, None)
        self.done = {key for key in self.done if key[0] != file}
        self.failed.discard(file)
        self.replaced.add(file)


def fingerprint(path: Path) -> dict[str, Any]:
    """Return what a file looks like: size, time, and a checksum of both its ends.

    The last bytes of a Parquet file are its footer, which describes all of it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("a,b")
    >>> look = fingerprint(path)
    >>> look["size"], fingerprint(path) == look
    (3, True)
    """
    with path.open("rb") as stream:
        told = os.fstat(stream.fileno())
        edges = hashlib.sha256(stream.read(_EDGE))
        stream.seek(max(0, told.st_size - _EDGE))
        edges.update(stream.read(_EDGE))
    return {
        "path": str(path),
        "size": told.st_size,
        "time": told.st_mtime_ns,
        "edges": edges.hexdigest(),
    }


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say what of a file is not as it was; None if all is.

    >>> look = {"size": 3, "time": 1, "edges": ""}
    >>> changed(look, {**look, "size": 4})
    'its size was 3 bytes and is 4'
    """
    if before["size"] != now["size"]:
        return f"its size was {before['size']:,} bytes and is {now['size']:,}"
    if before["edges"] != now["edges"]:
        return "its contents are others"
    if before["time"] != now["time"]:
        return (
            "its size and both its ends are the same, but its time was "
            f"{_moment(before['time'])} and is {_moment(now['time'])}"
        )
    return None


def _moment(nanoseconds: int) -> str:
    """Return the time of a file as `touch -d` takes it.

    >>> _moment(1_500_000_000)
    '1970-01-01T00:00:01.500000000Z'
    """
    return f"{np.datetime64(nanoseconds, 'ns')}Z"


def refuse_changed(files: Iterable[Mapping[str, Any]]) -> None:
    """Refuse files that do not look as they did when their job began.

    >>> import renyi
    >>> look = fingerprint(renyi.datasets.path("votes"))
    >>> refuse_changed([look])
    >>> refuse_changed([{**look, "time": 0}])
    Traceback (most recent call last):
    ValueError: ...votes.csv has changed while it was counted: its size and both ...
    """
    for before in files:
        what = changed(before, fingerprint(Path(before["path"])))
        if what:
            raise ValueError(
                f"{before['path']} has changed while it was counted: {what}; "
                "count again."
            )


class Checkpoint:
    """The checkpoint of one job.

    Parameters
    ----------
    path : path
        Where it is kept.
    request : dict
        What was asked for, in plain values.
    paths : sequence of Path
        The files to be read.
    interval : float, default=3
        Seconds between two writings, at least.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        request: Mapping[str, Any],
        paths: Iterable[Path],
        interval: float = 3.0,
    ) -> None:
        self.path, self._interval = Path(path), interval
        if self.path.is_symlink():
            self.path = self.path.resolve()  # else the link would be replaced
        # As it will come back from a file, in the order given.
        self._request = {
            name: json.loads(to_text({name: value}))[name]
            for name, value in request.items()
        }
        if self.path.exists() and not self.path.is_file():
            raise self._unwritable("it is no file")
        if any(self.path.exists() and self.path.samefile(each) for each in paths):
            raise self._unwritable("it is one of the files to be read")
        self.files = [fingerprint(each) for each in paths]
        self._last = time.monotonic()

    def _unwritable(self, reason: str) -> ValueError:
        return ValueError(
            f"The checkpoint {str(self.path)!r} cannot be written ({reason}): name a "
            "file of its own, in a folder in which you may write."
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs from using the checkpoint meanwhile."""
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            stream = _locked(lock)
        except BlockingIOError:
            raise ValueError(
                f"The checkpoint {str(self.path)!r} is in use by another job: wait for "
                "it, or name another file."
            ) from None
        except OSError as error:
            raise self._unwritable(error.strerror or type(error).__name__) from None
        with stream:
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    lock.unlink()

    def begin(self) -> None:
        """Write that nothing is done yet, to see whether the checkpoint can be."""
        try:
            self.save(State())
        except OSError as error:
            raise self._unwritable(error.strerror or type(error).__name__) from None

    def load(self) -> State | None:
        """Return what an earlier run has done; None if there was none.

        Another request, or a file that has changed since it was read, is an error.
        """
        if not self.path.exists():
            return None
        header, state = self._read()
        self._compare(header["request"])
        self._compare_files(header["files"], state)
        return state

    def _read(self) -> tuple[dict[str, Any], State]:
        try:
            if self.path.stat().st_size > _MOST_BYTES:
                raise ValueError("it is larger than any checkpoint")
            header, arrays = unpacked(_KIND, self.path.read_bytes())
            checked_fields(header, _FIELDS, "description")
            for each in header["files"]:
                checked_fields(each, _FILE, "list of files")
                if abs(each["time"]) >= 2**63:
                    raise ValueError("the time of a file is not valid")
            return header, _state(header, arrays)
        except ValueError as error:
            raise self.damaged(error) from None

    def damaged(self, error: Exception) -> ValueError:
        """Return the error that says what is wrong with the checkpoint."""
        reason = str(error).rstrip(".")
        return ValueError(
            f"The checkpoint {self.path} is damaged or none ({reason}): delete it to "
            "count from the beginning."
        )

    def _compare(self, before: dict[str, Any]) -> None:
        what = difference(before, self._request)
        if what:
            raise ValueError(
                f"The checkpoint {self.path} is of another job: {what}; delete it to "
                "count from the beginning."
            )

    def _compare_files(self, before: list[dict[str, Any]], state: State) -> None:
        """Refuse files that are others; those not read yet may have changed.

        So may one that could not be read: it is counted from its beginning.
        """
        names = [each["path"] for each in before]
        now = [each["path"] for each in self.files]
        if names != now:
            odd = sorted(set(names) ^ set(now))
            told = f"{odd[0]} is among one of them only" if odd else "in another order"
            raise ValueError(
                f"The checkpoint {self.path} is of other files ({told}): delete it to "
                "count from the beginning."
            )
        read = {file for file, _ in state.done}
        if state.profiled:
            read = set(range(len(before)))
        for file in sorted(read):
            what = changed(before[file], self.files[file])
            if what and state.may_replace(file):
                state.replace(file)
            elif what:
                raise ValueError(
                    f"{now[file]} has changed since the checkpoint {self.path} was "
                    f"written: {what}; {_remedy(before[file], self.files[file])}, or "
                    "delete the checkpoint to count from the beginning."
                )

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._last + self._interval

    def save(self, state: State) -> None:
        """Write what has been done so far."""
        header = {
            "request": self._request,
            "files": self.files,
            "spec": state.spec,
            "profiled": state.profiled,
            "notes": state.notes,
            "done": _ranges(state.done),
            "rows": [[file, rows] for file, (_, rows) in state.parts.items()],
            "failed": sorted(state.failed),
            "seen": state.seen,
        }
        arrays = {
            str(file): np.frombuffer(counts, np.uint8)
            for file, (counts, _) in state.parts.items()
        }
        try:
            with replacing(self.path) as stream:
                stream.write(packed(_KIND, header, arrays))
        finally:
            self._last = time.monotonic()

    def remove(self) -> None:
        """Delete the checkpoint, and what a killed run left half-written.

        Nobody else is writing if the checkpoint is `held`.
        """
        half = re.compile(re.escape(f".{self.path.name}.") + "[0-9a-f]{12}")
        for each in [*self.path.parent.iterdir()]:
            if each == self.path or half.fullmatch(each.name):
                with contextlib.suppress(FileNotFoundError):
                    each.unlink()


def _remedy(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say how to make a file again what it was."""
    if changed({**before, "time": now["time"]}, now):
        return "put the file back"
    return (
        "if it is a copy, give it the old time (copy it with cp -p, or use touch -d "
        f"{_moment(before['time'])})"
    )


def _ranges(done: set[Key]) -> list[list[int]]:
    """Return units as ranges [file, first, after the last].

    >>> _ranges({(0, 0), (0, 1), (0, 3), (1, 0)})
    [[0, 0, 2], [0, 3, 4], [1, 0, 1]]
    """
    ranges: list[list[int]] = []
    for file, number in sorted(done):
        if ranges and ranges[-1][0] == file and ranges[-1][2] == number:
            ranges[-1][2] += 1
        else:
            ranges.append([file, number, number + 1])
    return ranges


def _state(header: dict[str, Any], arrays: dict[str, Any]) -> State:
    """Return what a checkpoint holds, checked."""
    count = len(header["files"])
    _check_integers(header["done"], 3)
    _check_integers(header["rows"], 2)
    parts = {}
    for file, rows in header["rows"]:
        if str(file) not in arrays or not (WHOLE <= file < count and rows >= 0):
            raise ValueError("its counts are not valid")
        parts[file] = (arrays[str(file)].tobytes(), rows)
    ranges = header["done"]
    good = all(0 <= file < count and 0 <= a < b for file, a, b in ranges)
    if not good or sum(b - a for _, a, b in ranges) > _MOST_UNITS:
        raise ValueError("its list of units is not valid")
    done = {(file, k) for file, a, b in ranges for k in range(a, b)}
    if not all(type(file) is int and 0 <= file < count for file in header["failed"]):
        raise ValueError("its list of failures is not valid")
    told = {name: header[name] for name in ("spec", "profiled", "notes", "seen")}
    return State(parts=parts, done=done, failed={*header["failed"]}, **told)


def _check_integers(entries: list[Any], width: int) -> None:
    for each in entries:
        good = isinstance(each, list) and len(each) == width
        if not good or not all(type(k) is int for k in each):
            raise ValueError("one of its lists is not valid")


def _locked(path: Path) -> IO[bytes]:
    """Return a file that is open and locked, until it is closed or the process ends.

    Where the system knows no such locks, none is taken.
    """
    while True:
        stream = path.open("ab")
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            raise
        except OSError:  # some network drives have no locks
            return stream
        # Between opening and locking, the job before may have deleted the file.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                return stream
        stream.close()
