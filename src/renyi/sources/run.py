"""Jobs: two passes over a source, in which some threads count one unit each.

A first pass decides what the columns are, where that is open. The second pass counts.
Both must see the same rows. Files must look at the end as they did at the beginning.
The answer to a query is profiled again while it is counted, and must lead to the same
spec.

A *unit* is what is read and counted at once: a row group, a record batch, a piece of
a CSV file. Each is counted into a table of its own, which is added to the total when
the unit is done.

Sums of weights are rounded. Units are added in the order of the rows, so that the sums
are the same in every run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from renyi.counting.compiled import cores
from renyi.progress import Progress, ProgressCallback
from renyi.sources.counter import PairCounter
from renyi.sources.kept_rows import KeptRows, RowCoder
from renyi.sources.profile import ColumnProfile
from renyi.sources.spec import CountSpec, Summary

_EDGE = 2**16  # bytes at either end of a file that are looked at
AnySummary = TypeVar("AnySummary", bound=Summary)
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


@dataclass(frozen=True)
class Source:
    """Rows that can be read again; `units` yields the units of some columns.

    A source without `paths` is read in the caller's own thread. Unless the same rows
    come out each time (`fixed`), the second pass checks that they do.
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
    """Say what differs between two looks at a file; None if nothing does."""
    if before["size"] != now["size"]:
        return f"its size was {before['size']:,} bytes and is {now['size']:,}"
    if before["edges"] != now["edges"]:
        return "its contents are different"
    if before["time"] != now["time"]:
        return (
            "its size and both its ends are the same, but its time was "
            f"{_time_text(before['time'])} and is {_time_text(now['time'])}"
        )
    return None


def _time_text(nanoseconds: int) -> str:
    return f"{np.datetime64(nanoseconds, 'ns')}Z"


# ---- two passes


class Decision(NamedTuple):
    """What a first pass has decided, and the rows that it saw; None without one."""

    spec: CountSpec
    seen: int | None = None


@dataclass
class Job:
    """The passes over a source: one that decides what is open, one over all rows."""

    source: Source
    spec: CountSpec
    progress: ProgressCallback | None = None

    def count(self) -> PairCounter:
        """Return everything counted."""
        return self._pass(PairCounter)

    def code(self, store: KeptRows) -> RowCoder:
        """Return the coder of all rows, which writes their codes to `store`."""
        return self._pass(partial(RowCoder, store=store))

    def _pass(self, summary: Callable[[CountSpec], AnySummary]) -> AnySummary:
        """Return the summary of all rows, by a spec that is decided."""
        files = [fingerprint(path) for path in self.source.paths]
        decision = self._profile() if self.spec.undecided else Decision(self.spec)
        counts = self._read(decision, summary)
        for before in files:
            what = changed(before, fingerprint(Path(before["path"])))
            if what:
                raise ValueError(
                    f"{before['path']} changed while it was counted: {what}; count "
                    "again."
                )
        if decision.seen is not None and counts.seen != decision.seen:
            raise _moved_error(f"{decision.seen:,} rows", f"{counts.seen:,}")
        return counts

    def _profile(self) -> Decision:
        """Decide what the spec leaves open, by a pass over these columns."""
        first = self.spec.only(self.spec.undecided)
        profile = Run(self.source, ColumnProfile, first, self.progress).count_pass()
        return Decision(profile.decided(self.spec), profile.seen)

    def _read(
        self, decision: Decision, summary: Callable[[CountSpec], AnySummary]
    ) -> AnySummary:
        """Read all rows; a source that is not fixed must lead to the same spec."""
        source = self.source
        twice = decision.seen is not None and not source.fixed
        again = ColumnProfile(self.spec) if twice else None
        if again is not None:  # a query is one unit, so that there is one thread

            def look_at(batch: pa.RecordBatch) -> pa.RecordBatch:
                again.add(batch)
                return batch

            source = source.mapped(look_at)
        counts = Run(source, summary, decision.spec, self.progress).count_pass()
        same_rows = again is not None and again.seen == decision.seen
        if again and same_rows and again.decided(self.spec) != decision.spec:
            raise _moved_error("some rows", "others")
        return counts


def _moved_error(first: str, second: str) -> ValueError:
    """Return the error of a source that does not yield the same rows twice."""
    return ValueError(
        f"The source gave {first} the first time and {second} the second: write the "
        "rows to a file first, or give a source that yields the same rows again."
    )


# ---- one pass


@dataclass
class PassState:
    """The counts of the units that are done, their rows, and their share of all."""

    counts: Any = None
    rows: int = 0
    share: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    def add(self, counts: Any, rows: int, share: float) -> None:
        """Add the counts of a unit, which are given away."""
        if self.counts is None:
            self.counts = counts
        else:
            self.counts.merge(counts)
        self.rows += rows
        self.share += share

    def progress(self, step: str) -> Progress:
        """Return how far the pass is."""
        seconds = time.monotonic() - self.begun
        rate = self.rows / max(seconds, 1e-9)
        facts = f"{self.rows:,} rows, {rate:,.0f} rows a second"
        return Progress(step, seconds, min(self.share, 1.0), facts, rows=self.rows)


class Run(Generic[AnySummary]):
    """One pass over the units of a source, into summaries of some kind.

    Threads count the units. The caller's own thread reads ahead, and adds the counts
    up in the order of the rows.
    """

    def __init__(
        self,
        source: Source,
        summary: Callable[[CountSpec], AnySummary],
        spec: CountSpec,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._source = source
        self._summary = summary
        self._spec = spec
        self._progress = progress
        self._state = PassState()
        self._unread: ValueError | None = None  # why the units ended early
        sizes = [path.stat().st_size for path in source.paths] or [1]
        self._sizes = [size / max(sum(sizes), 1) for size in sizes]

    def count_pass(self) -> AnySummary:
        """Count all units; return the sum of their counts."""
        if self._source.paths:
            with ThreadPoolExecutor(_THREADS) as pool:
                self._count_in_threads(pool)
        else:  # a query may know one thread only
            for unit in self._units():
                self._add(unit, *self._count(unit))
        if self._unread is not None:
            raise self._unread
        counts = self._state.counts
        return self._summary(self._spec) if counts is None else counts

    def _count_in_threads(self, pool: ThreadPoolExecutor) -> None:
        units = self._units()
        pending = deque[tuple[Unit, Future[tuple[Any, int]]]]()
        try:
            while True:
                room = self._room()
                while len(pending) < room and (fresh := next(units, None)):
                    here = copy_context()  # the memory that the job may take
                    future = pool.submit(here.run, self._count, fresh)
                    pending.append((fresh, future))
                if not pending:
                    return
                unit, future = pending.popleft()
                self._add(unit, *future.result())
        finally:
            for _, future in pending:
                future.cancel()

    def _room(self) -> int:
        """Return how many units may be under way, each with two tables at most.

        One waits, so that no thread does.
        """
        counts = self._state.counts
        largest = 0 if counts is None else counts.table_bytes
        return int(min(_THREADS + 1, max(1, _MOST_BYTES // (2 * largest + 1))))

    def _units(self) -> Iterator[Unit]:
        """Yield the units; an error is raised when all before it is counted."""
        try:
            yield from self._source.units(list(self._spec.read_columns))
        except ValueError as error:
            self._unread = error

    def _count(self, unit: Unit) -> tuple[Any, int]:
        """Count a unit for itself; return its counts and its rows."""
        part = self._summary(self._spec)
        rows = 0
        part.start = unit.start
        for batch in unit.read():
            rows += batch.num_rows
            try:
                part.add(batch)
            except ValueError as error:
                if not self._source.paths:
                    raise
                path = self._source.paths[unit.file]
                raise ValueError(f"{path}: {error}") from None
        part.settle()  # so that little is left to be done by one thread
        return part, rows

    def _add(self, unit: Unit, counts: Any, rows: int) -> None:
        """Add the counts of a unit to the total, and report it."""
        self._state.add(counts, rows, unit.share * self._sizes[unit.file])
        if self._progress is not None:
            self._progress(self._state.progress(counts.step))
