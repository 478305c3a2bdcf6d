"""Checkpoints: what a long job has counted, and of which pieces, to go on from.

A checkpoint holds the counts, the list of units they are of, what was requested and
what each file looked like from outside: its size, its time and both its ends. It is
written under another name and renamed, so that after a kill there is the old one or the
new one. A job that goes on checks that the same is requested and that the files it has
read look as they did: else rows would be counted twice, or never. While a job runs, it
holds a lock: a second one with the same checkpoint is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from renyi.storage import check_fields, replacing, to_text
from renyi.streaming.run import WHOLE, Key, Record, changed, fingerprint, time_text
from renyi.streaming.wire import pack, unpack

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_KIND = "checkpoint"
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
# What differs between two requests is told in this order, then all else.
_FIRST = ("target", "weight", "where", "class_conditional")
_PLURAL = ("bins",)
_KINDS = {
    "label": "labels",
    "number": "numbers",
    "auto": "labels or numbers by its values",
}


# ---- the file


class Checkpoint:
    """The checkpoint of one job.

    Parameters
    ----------
    path : path
        Where it is kept.
    request : dict
        What is requested, in plain values.
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
            self.save(Record())
        except OSError as error:
            raise self._unwritable(error.strerror or type(error).__name__) from None

    def load(self) -> Record | None:
        """Return what an earlier run has done; None if there was none.

        Another request, or a file that has changed since it was read, is an error.
        """
        if not self.path.exists():
            return None
        header, record = self._read()
        self._compare(header["request"])
        self._compare_files(header["files"], record)
        return record

    def _read(self) -> tuple[dict[str, Any], Record]:
        try:
            if self.path.stat().st_size > _MOST_BYTES:
                raise ValueError("it is larger than any checkpoint")
            header, arrays = unpack(_KIND, self.path.read_bytes())
            check_fields(header, _FIELDS, "description")
            for each in header["files"]:
                check_fields(each, _FILE, "list of files")
                if abs(each["time"]) >= 2**63:
                    raise ValueError("the time of a file is not valid")
            return header, _record(header, arrays)
        except ValueError as error:
            raise self.invalid(error) from None

    def invalid(self, error: Exception) -> ValueError:
        """Return the error that says what is wrong with the checkpoint."""
        reason = str(error).rstrip(".")
        return ValueError(
            f"{self.path} is not a valid checkpoint ({reason}): delete it to count "
            "from the beginning."
        )

    def _compare(self, before: dict[str, Any]) -> None:
        what = difference(before, self._request)
        if what:
            raise ValueError(
                f"The checkpoint {self.path} is of another job: {what}; delete it to "
                "count from the beginning."
            )

    def _compare_files(self, before: list[dict[str, Any]], record: Record) -> None:
        """Refuse files that are others; those not read yet may have changed.

        So may one that could not be read: it is counted from its beginning.
        """
        names = [each["path"] for each in before]
        now = [each["path"] for each in self.files]
        if names != now:
            odd = sorted(set(names) ^ set(now))
            odd_one = f"only one has {odd[0]}" if odd else "in another order"
            raise ValueError(
                f"The checkpoint {self.path} is of other files ({odd_one}): delete "
                "it to count from the beginning."
            )
        read = {file for file, _ in record.done}
        if record.profiled:
            read = set(range(len(before)))
        for file in sorted(read):
            what = changed(before[file], self.files[file])
            if what and record.may_replace(file):
                record.replace(file)
            elif what:
                raise ValueError(
                    f"{now[file]} has changed since the checkpoint {self.path} was "
                    f"written: {what}; {_remedy(before[file], self.files[file])}, or "
                    "delete the checkpoint to count from the beginning."
                )

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._last + self._interval

    def save(self, record: Record) -> None:
        """Write what has been done so far."""
        header = {
            "request": self._request,
            "files": self.files,
            "spec": record.spec,
            "profiled": record.profiled,
            "notes": record.notes,
            "done": _ranges(record.done),
            "rows": [[file, rows] for file, (_, rows) in record.parts.items()],
            "failed": sorted(record.failed),
            "seen": record.seen,
        }
        arrays = {
            str(file): np.frombuffer(counts.to_bytes(), np.uint8)
            for file, (counts, _) in record.parts.items()
        }
        try:
            with replacing(self.path) as stream:
                stream.write(pack(_KIND, header, arrays))
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
        f"{time_text(before['time'])})"
    )


def _ranges(done: set[Key]) -> list[list[int]]:
    """Return units as ranges [file, first, after the last]."""
    ranges: list[list[int]] = []
    for file, number in sorted(done):
        if ranges and ranges[-1][0] == file and ranges[-1][2] == number:
            ranges[-1][2] += 1
        else:
            ranges.append([file, number, number + 1])
    return ranges


def _record(header: dict[str, Any], arrays: dict[str, Any]) -> Record:
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
    kept = {name: header[name] for name in ("spec", "profiled", "notes", "seen")}
    return Record(parts=parts, done=done, failed={*header["failed"]}, **kept)


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


# ---- what differs between two requests


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say what differs between two requests; None if nothing does."""
    return next(_differences(before, now), None)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before.get("version") != now.get("version"):
        yield f"renyi was {before.get('version')} and is {now.get('version')}"
    yield from _of_values(before, now, _FIRST)
    old, new = _part(before, "encoder", dict), _part(now, "encoder", dict)
    yield from _of_values(old, new, new)
    if before.get("fitted") != now.get("fitted"):
        was, is_now = ("" if each.get("fitted") else "not " for each in (before, now))
        yield f"the encoder was {was}fitted and is {is_now}fitted"
    names = _part(now, "names", list)
    yield from _of_columns(_part(before, "names", list), names)
    columns = zip(
        _part(before, "columns", list), _part(now, "columns", list), strict=False
    )
    for name, (first, second) in zip(names, columns, strict=False):
        if first != second:
            yield _of_roles(name, first, second)
    yield from _of_values(before, now, {**now, **before})


def _part(request: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a part of a request; an empty one if it is not what it should be."""
    part = request.get(name)
    return part if isinstance(part, kind) else kind()


def _of_values(
    before: Mapping[str, Any], now: Mapping[str, Any], names: Any
) -> Iterator[str]:
    for name in names:
        first, second = before.get(name), now.get(name)
        if first != second:
            was, is_now = ("were", "are") if name in _PLURAL else ("was", "is")
            yield f"{name} {was} {_shown(first)} and {is_now} {_shown(second)}"


def _shown(value: Any) -> str:
    """Return a value as the user gave it, cut if it is long."""
    if value is None or value == []:
        return "not given" if value is None else "empty"
    text = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _of_columns(before: list[str], now: list[str]) -> Iterator[str]:
    for some, others, what in (
        (before, now, "is left out now"),
        (now, before, "was left out before"),
    ):
        names = [name for name in some if name not in others]
        more = f" (and {len(names) - 1} more)" if names[1:] else ""
        if names:
            yield f"column {names[0]!r}{more} {what}"
    if before != now:
        yield "the columns are in another order"


def _of_roles(name: str, before: Any, now: Any) -> str:
    """Say in which way a column is taken otherwise."""
    if isinstance(before, dict) and before.keys() == now.keys():
        if before["family"] != now["family"]:
            return f"column {name!r} held {before['family']} and holds {now['family']}"
        if before["kind"] != now["kind"]:
            was, is_now = (_KINDS.get(str(each["kind"])) for each in (before, now))
            return f"column {name!r} was taken as {was} and is taken as {is_now}"
        if before["levels"] != now["levels"]:
            return f"the encoder has other categories or bins of column {name!r}"
    return f"the text of column {name!r} is read in another way"
