"""Checkpoints: what a long job has counted, and of which pieces, to go on from.

A checkpoint holds the counts, the list of units they are of, what was requested and
what each file looked like from outside: its size, its time and both its ends. It is
written under another name and renamed, so that after a kill there is the old one or the
new one. A job that goes on checks that the same is requested and that the files it has
read look as they did: else rows would be counted twice, or never. While a job runs, it
holds a lock: a second one with the same checkpoint is refused.

What version 1 wrote (a list of arrays in JSON, and their bytes) is still read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from renyi.files import (
    check_fields,
    hold,
    parse,
    replacing,
    same_file,
    sweep,
    target,
    to_bytes,
)
from renyi.marginals.consistency import TOLERANCE, check_counts
from renyi.marginals.marginals import Marginals
from renyi.streaming.counter import PairCounter
from renyi.streaming.run import WHOLE, Key, Record, changed, fingerprint, time_text
from renyi.streaming.spec import TYPES, CountSpec, pack, unpack, write_packed
from renyi.streaming.stream_columns import ColumnProfile
from renyi.warnings import warn

_KIND = "checkpoint"
_SHARE = 20  # of the time between two writings to that of one, at least
_BYTE_SECONDS = 4e-9  # of a table, to count what waits and to write it
_MOST_BYTES = 2**34
_MOST_UNITS = 2**24
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("request", "spec"), (dict,)),
    **dict.fromkeys(("files", "notes", "done", "rows", "failed"), (list,)),
    **{"profiled": (bool,), "seen": (int, type(None))},
}
_FILE = {"path": (str,), "size": (int,), "time": (int,), "edges": (str,)}
# What differs between two requests is told in this order, then all else.
_FIRST = ("version", "target", "weight", "where", "class_conditional", "encoder")
# Of version 1.
_MAGIC = b"renyi 1\n"
_OLD_NAMES = {"profile": "survey", "counts": "tally"}
_OLD_FIELDS = {"plan": "spec", "roles": "columns"}
_OLD_FIELDS |= {"books": "encoders", "surveyed": "profiled"}


# ---- the file


class Checkpoint:
    """The checkpoint of one job, written every few seconds (`interval`).

    Unless the interval is 0, a writing waits 20 times as long as it may take.
    `request` is what is requested of the files, in plain values.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        request: Mapping[str, Any],
        paths: Iterable[Path],
        interval: float = 3.0,
    ) -> None:
        self.path = Path(path)
        self._interval = interval
        if any(same_file(path, each) for each in paths):
            raise ValueError(
                f"The checkpoint {str(path)!r} is one of the files to be read: name a "
                "file of its own."
            )
        try:
            place = target(path)
        except OSError as error:
            raise ValueError(f"The checkpoint cannot be written: {error}") from None
        if self.path.is_symlink():
            self.path = place  # else the link would be deleted
        # As it will come back from a file, in the order given.
        self._request = {
            name: json.loads(to_bytes({name: value}))[name]
            for name, value in request.items()
        }
        self.files = [fingerprint(each) for each in paths]
        self._last = time.monotonic()
        self._took = 0.0
        self._warned = self._loaded = False
        self._worth = False  # whether there is anything to go on from

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs from using the checkpoint; delete it when all is done.

        What fails before anything was counted leaves none.
        """
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            stream = _locked(lock)
        except BlockingIOError:
            raise ValueError(
                f"The checkpoint {str(self.path)!r} is in use by another job: wait for "
                "it, or name another file."
            ) from None
        with stream:
            old = self.path.exists()
            try:
                yield
                self.remove()
            except Exception:  # but an interrupt, after which the job goes on
                if not old and not self._worth:
                    self.remove()
                raise
            finally:
                with contextlib.suppress(OSError):
                    lock.unlink()

    # ---- reading

    def load(self, spec: CountSpec) -> Record:
        """Return what an earlier run has done; if there was none, write so.

        Another request, or a file that has changed since it was read, is an error.
        """
        if not self.path.exists():
            self._save(Record())
            return Record()
        try:
            if self.path.stat().st_size > _MOST_BYTES:
                raise ValueError("it is larger than any checkpoint")
            header, arrays = unpack(_KIND, _present(_KIND, self.path.read_bytes()))
            check_fields(header, _FIELDS, "description")
            for each in header["files"]:
                check_fields(each, _FILE, "list of files")
                if abs(each["time"]) >= 2**63:
                    raise ValueError("the time of a file is not valid")
            what = difference(header["request"], self._request)
            record = Record() if what else _record(spec, header, arrays)
        except (KeyError, TypeError, ValueError) as error:
            reason = str(error).rstrip(".")
            raise ValueError(
                f"{self.path} is not a valid checkpoint ({reason}): name another "
                "file, or delete this one if it was a checkpoint, to count from the "
                "beginning."
            ) from None
        if what:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another job ({what}): delete "
                "it to count from the beginning."
            )
        self._compare_files(header["files"], record)
        self._loaded = True
        return record

    def check(self, m: Marginals) -> None:
        """Refuse counts that do not add up: those of a checkpoint may be forged."""
        if not self._loaded:
            return
        try:
            check_counts(m, TOLERANCE)
        except ValueError as error:
            raise ValueError(
                f"The checkpoint {self.path} held counts that no rows can have "
                f"({str(error).rstrip('.')}): it was deleted; run the job again to "
                "count from the beginning."
            ) from None

    def _compare_files(self, before: list[dict[str, Any]], record: Record) -> None:
        """Refuse files that are others; those not read yet may have changed.

        So may one that could not be read, if its counts are kept apart: it is counted
        from its beginning.
        """
        names = [each["path"] for each in before]
        now = [each["path"] for each in self.files]
        if names != now:
            odd = sorted(set(names) ^ set(now))
            odd_one = f"only one has {odd[0]}" if odd else "in another order"
            raise ValueError(
                f"The checkpoint {self.path} belongs to other files ({odd_one}): "
                "delete it to count from the beginning."
            )
        counted = {file for file, _ in record.done}
        for file in sorted(counted) if record.spec is None else range(len(before)):
            what = changed(before[file], self.files[file])
            apart = file in record.parts or file not in counted
            if what and file in record.failed and apart:
                record.parts.pop(file, None)
                record.done = {key for key in record.done if key[0] != file}
                record.failed.remove(file)
                record.replaced.add(file)
            elif what:
                raise ValueError(
                    f"{now[file]} has changed since the checkpoint {self.path} was "
                    f"written: {what}; {_remedy(before[file], self.files[file])}, or "
                    "delete the checkpoint to count from the beginning."
                )

    # ---- writing

    def due(self, record: Record) -> bool:
        """Whether it is time to write: that may take a small share of all time."""
        size = sum(part.table_bytes for part, _ in record.parts.values())
        takes = max(self._took, size * _BYTE_SECONDS)
        wait = max(self._interval, _SHARE * takes) if self._interval else 0.0
        return time.monotonic() >= self._last + wait

    def keep(self, record: Record) -> None:
        """Write what has been done so far; a full disk need not end a long job."""
        try:
            self._save(record)
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn(
                    f"The checkpoint {error.filename!r} cannot be written "
                    f"({error.strerror}): counting continues, but what is counted from "
                    "now on is lost if the job stops.",
                    "checkpoint",
                )

    def _save(self, record: Record) -> None:
        start = time.monotonic()
        header = {
            "request": self._request,
            "files": self.files,
            "spec": {} if record.spec is None else record.spec.to_dict(),
            "profiled": record.spec is not None,
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
                write_packed(stream, _KIND, header, arrays)
            self._worth = bool(record.done or record.spec)
        finally:
            self._last = time.monotonic()
            self._took = self._last - start

    def remove(self) -> None:
        """Delete the checkpoint, and what a killed run left half-written."""
        self.path.unlink(missing_ok=True)
        sweep(self.path)


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


def _record(spec: CountSpec, header: dict[str, Any], arrays: dict[str, Any]) -> Record:
    """Return what a checkpoint of a job of this spec holds, checked."""
    count = len(header["files"])
    ranges = header["done"]
    good = all(0 <= file < count and 0 <= a < b for file, a, b in _rows(ranges, 3))
    if not good or sum(b - a for _, a, b in ranges) > _MOST_UNITS:
        raise ValueError("its list of units is not valid")
    if not all(type(file) is int and 0 <= file < count for file in header["failed"]):
        raise ValueError("its list of failures is not valid")
    kind: type[PairCounter | ColumnProfile] = PairCounter
    decided = None
    if header["profiled"]:
        spec = decided = CountSpec.from_dict(header["spec"])
    elif spec.undecided:
        kind = ColumnProfile
        spec = spec.only(spec.undecided)
    parts = {}
    for file, rows in _rows(header["rows"], 2):
        if str(file) not in arrays or not (WHOLE <= file < count and rows >= 0):
            raise ValueError("its counts are not valid")
        data = _present(kind.kind, arrays[str(file)].tobytes())
        parts[file] = (kind.from_bytes(spec, data), rows)
    return Record(
        parts=parts,
        done={(file, k) for file, a, b in ranges for k in range(a, b)},
        failed={*header["failed"]},
        spec=decided,
        notes=header["notes"],
        seen=header["seen"],
    )


def _rows(entries: list[Any], width: int) -> list[list[int]]:
    """Return a list of lists of so many integers, checked."""
    for each in entries:
        good = isinstance(each, list) and len(each) == width
        if not good or not all(type(k) is int for k in each):
            raise ValueError("one of its lists is not valid")
    return entries


def _locked(path: Path) -> IO[bytes]:
    """Return an empty file that is open and locked."""
    while True:
        stream = path.open("ab")
        try:
            if os.fstat(stream.fileno()).st_size:
                raise ValueError(
                    f"{path} is needed as a lock file but is not empty: move it."
                )
            if hold(stream, path):
                return stream
        except (OSError, ValueError):
            stream.close()
            raise
        stream.close()  # the job before has deleted it meanwhile


# ---- version 1


def _present(kind: str, data: bytes) -> bytes:
    """Return bytes of version 1 as those of the present one, others as they are."""
    if not data.startswith(_MAGIC):
        return data
    # A checksum, the length of a JSON text, the text, the arrays it lists.
    view = memoryview(data)[len(_MAGIC) :]
    start = 32 + 8
    if hashlib.sha256(view[32:]).digest() != view[:32]:
        raise ValueError("it is damaged")
    at = start + int.from_bytes(view[32:start], "little")
    found = _renamed(parse(bytes(view[start:at])))
    if found["kind"] != _OLD_NAMES.get(kind, kind):
        raise ValueError("it is a checkpoint of another kind")
    arrays = {}
    for name, dtype, shape in found["arrays"]:
        if dtype not in TYPES or not all(0 <= k < 2**40 for k in shape):
            raise ValueError("its list of arrays is not valid")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        arrays[name] = np.frombuffer(view[at : at + size], dtype).reshape(shape)
        at += size
    if at != len(view):
        raise ValueError("it holds more than it declares")
    return pack(kind, found["header"], arrays)


def _renamed(data: Any) -> Any:
    """Return a header with the field names of the present version."""
    if isinstance(data, list):
        return [_renamed(each) for each in data]
    if not isinstance(data, dict):
        return data
    if {"columns", "roles"} <= set(data):  # a request
        data = {**data, "names": data["columns"], "columns": data["roles"]}
        del data["roles"]
    return {_OLD_FIELDS.get(name, name): _renamed(each) for name, each in data.items()}


# ---- what differs between two requests


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say what differs between two requests; None if nothing does."""
    return _difference(_by_column(before), _by_column(now))


def _by_column(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request in the order in which differences are told."""
    names = request.get("names")
    columns = request.get("columns")
    if isinstance(names, list) and isinstance(columns, list):
        pairs = zip(map(repr, names), columns, strict=False)
        request = {**request, "columns": dict(pairs)}
    first = {name: request.get(name) for name in (*_FIRST, "columns")}
    return {**first, **request}


def _difference(
    before: dict[str, Any], now: dict[str, Any], where: str = ""
) -> str | None:
    for name in {**now, **before}:
        old = before.get(name)
        new = now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found = _difference(old, new, f" of {name}{where}")
            if found is not None:
                return found
        elif old != new:
            return f"{name}{where}: {_shown(old)} before, {_shown(new)} now"
    return None


def _shown(value: Any) -> str:
    """Return a value as the user gave it, cut if it is long."""
    if isinstance(value, dict) or value is None or value == []:
        return "given" if value else "not given" if value is None else "empty"
    text = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
