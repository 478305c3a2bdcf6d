"""Jobs: two passes over a source, each piece counted for itself by one of some threads.

A first pass decides what the columns are, where that is open; the second counts. Both
must see the same rows: files must look at the end as they did at the beginning; the
answer to a query is looked at again as it is counted, and must lead to the same spec.

A *unit* is what is read and counted at once: a row group, a record batch, a piece of
a CSV file. Each is counted into a table of its own, which is added to the whole when
the unit is done: a unit that fails halfway leaves no trace, and what has been counted
so far can be written down at any time, together with the units it is of.

Sums of weights are rounded: units are added in the order of the rows, so that the sums
are the same in every run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from renyi.compiled import cores
from renyi.progress import Progress, ProgressCallback
from renyi.streaming.counted_rows import CountedRows
from renyi.streaming.counter import PairCounter
from renyi.streaming.spec import CountSpec
from renyi.streaming.stream_columns import ColumnProfile
from renyi.warnings import warn

if TYPE_CHECKING:
    from renyi.streaming.checkpoint import Checkpoint

Key = tuple[int, int]  # the number of a file and of a unit in it
WHOLE = -1  # in place of a file: all files that are done

_EDGE = 2**16  # bytes at either end of a file that are looked at
GOING_ON = "going on"  # the step of a job that is resumed
_THREADS = min(8, cores())
_MOST_BYTES = 2**30  # of tables that threads count for themselves


class Unit(NamedTuple):
    """What is read at once: part `number` of the file `file`, `share` of its rows.

    `start` is the number of its first row in the file, None if that is not known.
    """

    file: int
    number: int
    share: float
    read: Callable[[], Iterator[pa.RecordBatch]]
    start: int | None = None


class FileError(ValueError):
    """What is wrong with the file of this number."""

    def __init__(self, file: int, message: str) -> None:
        super().__init__(message)
        self.file = file


@dataclass(frozen=True)
class Source:
    """Rows that can be read again; `units` yields what is to be read of some columns.

    What has no `paths` is read in the caller's own thread. Unless the same rows come
    out each time (`fixed`), that is checked.
    """

    schema: pa.Schema
    units: Callable[[list[str]], Iterator[Unit]]
    paths: tuple[Path, ...] = ()
    fixed: bool = True

    def mapped(
        self,
        change: Callable[[pa.RecordBatch], pa.RecordBatch],
        schema: pa.Schema | None = None,
        needed: Iterable[str] = (),
        some_rows: bool = False,
    ) -> Source:
        """Return the source with each batch changed; `needed` columns are read too.

        Where only `some_rows` of a batch are left, their numbers are not known.
        """

        def read(unit: Unit, columns: list[str]) -> Iterator[pa.RecordBatch]:
            for batch in unit.read():
                yield change(batch).select(columns)

        def units(columns: list[str]) -> Iterator[Unit]:
            for unit in self.units(list(dict.fromkeys([*columns, *needed]))):
                start = None if some_rows else unit.start
                yield unit._replace(read=partial(read, unit, columns), start=start)

        return dataclasses.replace(self, schema=schema or self.schema, units=units)


@dataclass
class Record:
    """What a pass over files has done so far.

    `parts` are the profile or counter, and the rows, of each file that is not done, so
    that one that turns out to be damaged can be left out, and of `WHOLE`. `done` are
    the units that were counted, `failed` the files that could not be read, `replaced`
    those of them that are others since. `spec` is what a first pass has decided,
    `notes` are its warnings, `seen` the rows that it saw.
    """

    parts: dict[int, tuple[Any, int]] = field(default_factory=dict)
    done: set[Key] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    replaced: set[int] = field(default_factory=set)
    spec: CountSpec | None = None
    notes: list[str] = field(default_factory=list)
    seen: int | None = None

    @property
    def rows(self) -> int:
        """Number of rows counted."""
        return sum(rows for _, rows in self.parts.values())

    def add(self, place: int, counts: Any, rows: int) -> None:
        """Add the counts of some rows, which are given away, to those of a file."""
        if place in self.parts:
            mine, before = self.parts[place]
            mine.merge(counts)
            counts = mine
            rows = before + rows
        self.parts[place] = (counts, rows)

    def close(self, files: Iterable[int]) -> None:
        """Add files that are done to the whole."""
        for file in sorted(files):
            self.add(WHOLE, *self.parts[file])
            del self.parts[file]


# ---- what files look like


def fingerprint(path: Path) -> dict[str, Any]:
    """Return what a file looks like: size, time, and a checksum of both its ends.

    The last bytes of a Parquet file are its footer, which describes all of it.
    """
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        edges = hashlib.sha256(stream.read(_EDGE))
        stream.seek(max(0, status.st_size - _EDGE))
        edges.update(stream.read(_EDGE))
    return {
        "path": str(path),
        "size": status.st_size,
        "time": status.st_mtime_ns,
        "edges": edges.hexdigest(),
    }


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say what of a file is not as it was; None if all is."""
    if before["size"] != now["size"]:
        return f"its size was {before['size']:,} bytes and is {now['size']:,}"
    if before["edges"] != now["edges"]:
        return "its contents are different"
    if before["time"] != now["time"]:
        return (
            "its size and both its ends are the same, but its time was "
            f"{time_text(before['time'])} and is {time_text(now['time'])}"
        )
    return None


def time_text(nanoseconds: int) -> str:
    """Return the time of a file as `touch -d` takes it."""
    return f"{np.datetime64(nanoseconds, 'ns')}Z"


# ---- two passes


@dataclass
class Job:
    """The passes over a source."""

    source: Source
    spec: CountSpec
    checkpoint: Checkpoint | None = None
    progress: ProgressCallback | None = None
    kept: CountedRows | None = None

    def count(self) -> PairCounter:
        """Return everything counted."""
        files = [fingerprint(path) for path in self.source.paths]
        record = Record()
        if self.checkpoint is not None:
            files = self.checkpoint.files
            record = self.checkpoint.load(self.spec)
            if self.progress is not None and (record.done or record.spec is not None):
                kept = f"from {record.rows:,} rows that {self.checkpoint.path} keeps"
                self.progress(Progress(GOING_ON, facts=kept, rows=record.rows))
        if self.spec.undecided and record.spec is None:
            record = self._profile(record, self.checkpoint)
            if self.checkpoint is not None:
                self.checkpoint.keep(record)
        elif record.replaced and record.spec is not None:
            record = self._profiled_again(record)
        for text in record.notes:
            warn(text)
        # Of rows that a checkpoint has counted none was kept: then all are read again.
        again = self.kept is not None and record.rows > 0
        fresh = Record(spec=record.spec, seen=record.seen)
        counter = self._count(record, self.checkpoint, None if again else self.kept)
        if again:
            counter = self._count(fresh, None, self.kept)
        for before in files:
            what = changed(before, fingerprint(Path(before["path"])))
            if what:
                raise ValueError(
                    f"{before['path']} changed while it was counted: {what}; count "
                    "again."
                )
        if record.seen is not None and counter.seen != record.seen:
            raise _moved(f"{record.seen:,} rows", f"{counter.seen:,}")
        return counter

    def _profile(self, record: Record, checkpoint: Checkpoint | None) -> Record:
        """Look at what is undecided; return where the counting starts from."""
        first = self.spec.only(self.spec.undecided)
        profile = Run(self, self.source, ColumnProfile, first, record, checkpoint)()
        with warnings.catch_warnings(record=True, action="always") as caught:
            spec = profile.decided(self.spec)
        notes = [str(w.message) for w in caught]
        return Record(spec=spec, notes=notes, seen=profile.seen)

    def _profiled_again(self, record: Record) -> Record:
        """Look at all files once more, since one of them is another.

        What was counted of the others stays if the spec does. The checkpoint is left
        as it is meanwhile.
        """
        found = self._profile(Record(), None)
        if found.spec == record.spec:
            return dataclasses.replace(record, notes=found.notes, seen=found.seen)
        name = self.source.paths[min(record.replaced)]
        found.notes.append(
            f"The new {name} changes the bins of numbers: all files are counted again."
        )
        if self.checkpoint is not None:
            self.checkpoint.keep(found)
        return found

    def _count(
        self, record: Record, checkpoint: Checkpoint | None, kept: CountedRows | None
    ) -> PairCounter:
        """Count all rows by a spec that is decided."""
        source = self.source
        spec = record.spec or self.spec
        twice = record.spec is not None and not source.fixed
        again = ColumnProfile(self.spec) if twice else None
        if again is not None:  # a query is one unit, so that there is one thread

            def look_at(batch: pa.RecordBatch) -> pa.RecordBatch:
                again.add(batch)
                return batch

            source = source.mapped(look_at)
        run = Run(self, source, PairCounter, spec, record, checkpoint, kept)
        counter: PairCounter = run()
        if again and again.seen == record.seen and again.decided(self.spec) != spec:
            raise _moved("some rows", "others")
        return counter


def _moved(first: str, second: str) -> ValueError:
    """Return what is said of a source that is not the same twice."""
    return ValueError(
        f"The source gave {first} the first time and {second} the second: write the "
        "rows to a file first, or give a source that yields the same rows again."
    )


# ---- one pass


class Run:
    """One pass over the units of a source, into profiles or counters (`kind`).

    Units are counted by some threads, and read ahead and added up, in the order of the
    rows, by the caller's own.
    """

    def __init__(
        self,
        job: Job,
        source: Source,
        kind: Any,
        spec: CountSpec,
        record: Record,
        checkpoint: Checkpoint | None,
        kept: CountedRows | None = None,
    ) -> None:
        self._source = source
        self._kind = kind
        self._spec = spec
        self._record = record
        self._progress = job.progress
        self._checkpoint = checkpoint
        self._kept = kept
        # With weights, files that are not done are kept apart even without a
        # checkpoint, so that sums are the same with one.
        self._apart = spec.weight is not None or job.checkpoint is not None
        self._pending = deque[tuple[Unit, Future[tuple[Any, int]]]]()
        self._halfway = False  # whether an addition has begun and not ended
        self._unopened: FileError | None = None  # the file after which none is read
        sizes = [path.stat().st_size for path in source.paths] or [1]
        self._sizes = [size / max(sum(sizes), 1) for size in sizes]
        self._share = 0.0
        self._begun = time.monotonic()
        self._rows_before = record.rows
        self._share_before = 0.0

    def __call__(self) -> Any:
        """Count all units that are not done yet; return the counts of all that are."""
        try:
            with ThreadPoolExecutor(_THREADS) as pool:
                try:
                    self._work(pool)
                except BaseException:
                    self._rescue()
                    raise
        except BaseException:
            if self._checkpoint is not None and not self._halfway:
                with contextlib.suppress(Exception):  # the failure must be heard of
                    self._checkpoint.keep(self._record)
            raise
        self._record.close([file for file in self._record.parts if file != WHOLE])
        return self._record.parts.get(WHOLE, (self._kind(self._spec), 0))[0]

    def _work(self, pool: ThreadPoolExecutor) -> None:
        units = self._fresh()
        if not self._source.paths:  # a query may know one thread only
            for unit in units:
                self._take(unit, *self._count(unit))
        while True:
            # One waits, so that no thread does. Each may need two tables.
            parts = self._record.parts.values()
            largest = max((part.table_bytes for part, _ in parts), default=0)
            room = min(_THREADS + 1, max(1, _MOST_BYTES // (2 * largest + 1)))
            while len(self._pending) < room and (fresh := next(units, None)):
                here = copy_context()  # the memory that the job may take
                future = pool.submit(here.run, self._count, fresh)
                self._pending.append((fresh, future))
            if not self._pending:
                break
            unit, future = self._pending[0]
            self._take(unit, *future.result())
            self._pending.popleft()
        if self._unopened is not None:
            raise self._unopened

    def _rescue(self) -> None:
        """Add what is counted after a failure; with weights, none after a lost one."""
        for unit, future in self._pending:
            if future.cancel() or future.exception() is not None:
                if self._spec.weight is not None:
                    break
            elif not self._halfway and unit[:2] not in self._record.done:
                self._add(unit, *future.result())

    def _fresh(self) -> Iterator[Unit]:
        """Yield the units that are not done yet."""
        try:
            for unit in self._source.units(list(self._spec.read_columns)):
                if unit[:2] in self._record.done:
                    self._share_before += unit.share * self._sizes[unit.file]
                else:
                    yield unit
        except FileError as error:  # told when all before it is counted
            self._record.failed.add(error.file)
            self._unopened = error

    def _count(self, unit: Unit) -> tuple[Any, int]:
        """Count a unit for itself."""
        part = self._kind(self._spec)
        rows = 0
        part.start = unit.start
        part.kept = self._kept
        try:
            for batch in unit.read():
                rows += batch.num_rows
                try:
                    part.add(batch)
                except ValueError as error:
                    if not self._source.paths:
                        raise
                    path = self._source.paths[unit.file]
                    raise ValueError(f"{path}: {error}") from None
        except ValueError:
            self._record.failed.add(unit.file)
            raise
        part.settle()  # so that little is left to be done by one thread
        return part, rows

    def _take(self, unit: Unit, counts: Any, rows: int) -> None:
        """Add a unit, and the files before its own, which are done, to the whole."""
        self._add(unit, counts, rows)
        before = {f for f in self._record.parts if WHOLE < f < unit.file}
        self._halfway = True
        self._record.close(before - self._record.failed)
        self._halfway = False
        self._share += unit.share * self._sizes[unit.file]
        self._report()
        if self._checkpoint is not None and self._checkpoint.due(self._record):
            self._checkpoint.keep(self._record)

    def _add(self, unit: Unit, counts: Any, rows: int) -> None:
        """Add the counts of a unit to those of its file."""
        self._halfway = True
        self._record.add(unit.file if self._apart else WHOLE, counts, rows)
        self._record.done.add(unit[:2])
        self._halfway = False

    def _report(self) -> None:
        if self._progress is not None:
            seconds = time.monotonic() - self._begun
            rows = self._record.rows
            rate = (rows - self._rows_before) / max(seconds, 1e-9)
            self._progress(
                Progress(
                    self._kind.step,
                    seconds,
                    min(self._share_before + self._share, 1.0),
                    f"{rows:,} rows, {rate:,.0f} rows a second",
                    rows=rows,
                    share_before=self._share_before,
                )
            )
