"""Jobs: two passes over a source, in which some threads count one unit each.

A first pass decides what the columns are, where that is open. The second pass counts.
Both must see the same rows, so files may not change meanwhile. If rows can be read only
once, such as the answer to a query, the first pass writes them to a temporary file.

A *unit* is what is read and counted at once: a row group, a record batch, a piece of
a CSV file. Each is counted into a separate table, which is added to the total when
the unit is done.

Sums of weights are rounded. Units are added in the order of the rows, so that the sums
are the same in every run.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from renyi.counting.compiled import cores
from renyi.encoding.arrow import without_views
from renyi.files import first_line
from renyi.progress import Progress, ProgressCallback
from renyi.sources.counter import PairCounter
from renyi.sources.kept_rows import KeptRows, RowCoder
from renyi.sources.profile import ColumnProfile
from renyi.sources.spec import CountSpec, Summary

AnySummary = TypeVar("AnySummary", bound=Summary)
_THREADS = min(8, cores())
_STRATUM = 20  # rows of which the same share is held out
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

    A source without `paths` is read in the caller's own thread. One that is not
    repeatable is read once.
    """

    schema: pa.Schema
    units: Callable[[list[str]], Iterator[Unit]]
    paths: tuple[Path, ...] = ()
    is_repeatable: bool = True

    def mapped(
        self, change: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
    ) -> Source:
        """Return the source with each batch changed."""

        def units(columns: list[str]) -> Iterator[Unit]:
            for unit in self.units(columns):
                yield unit._replace(read=partial(_changed, unit, change))

        return dataclasses.replace(self, schema=schema, units=units)

    def chosen(self, choose: RowChoice) -> Source:
        """Return the source of some rows, whose numbers are then not known."""

        def units(columns: list[str]) -> Iterator[Unit]:
            for unit in self.units(columns):
                read = partial(_chosen, unit, choose)
                yield unit._replace(read=read, start=None)

        return dataclasses.replace(self, units=units)


def _changed(
    unit: Unit, change: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return map(change, unit.read())


def _chosen(unit: Unit, choose: RowChoice) -> Iterator[pa.RecordBatch]:
    start = unit.start
    assert start is not None  # files number their rows
    for batch in unit.read():
        mask = choose(unit.file, start, batch.num_rows)
        start += batch.num_rows
        yield batch if mask.all() else without_views(batch).filter(pa.array(mask))


# Returns which rows of a file to read. Arguments: its number, the first row, how many.
RowChoice = Callable[[int, int, int], NDArray[np.bool_]]


class Split(NamedTuple):
    """Rows that are held out at random: a `share` of every few rows, by a seed.

    A generator of the seed and of the file's number draws one number for each row, in
    the order of the rows. Of every 20 rows, those with the least numbers are held out,
    6 if the share is 0.3. So whether a row is held out depends on its place alone: not
    on its cells, nor on how many rows are read at once. Rows without a class
    also have places.
    """

    share: float
    seed: int

    def heldout(self, file: int, start: int, rows: int) -> NDArray[np.bool_]:
        """Return which rows of a file are held out, from the row `start` on."""
        first = start // _STRATUM
        last = -(-(start + rows) // _STRATUM)
        bits = np.random.PCG64([self.seed, file]).advance(first * _STRATUM)
        drawn = np.random.Generator(bits).random((last - first, _STRATUM))
        ranks = drawn.argsort(axis=1).argsort(axis=1)
        totals = np.floor(np.arange(first, last + 1) * (_STRATUM * self.share))
        mask: NDArray[np.bool_] = ranks < np.diff(totals)[:, None]
        offset = start - first * _STRATUM
        return mask.ravel()[offset : offset + rows]

    def training(self, file: int, start: int, rows: int) -> NDArray[np.bool_]:
        """Return which rows of a file are not held out."""
        return ~self.heldout(file, start, rows)


# ---- two passes


class FileState(NamedTuple):
    """The size of a file, and when it was last written."""

    size: int
    time: int


def file_state(path: Path) -> FileState:
    """Return what changes when a file is written."""
    status = path.stat()
    return FileState(status.st_size, status.st_mtime_ns)


def check_unchanged(path: Path, before: FileState) -> None:
    """Raise an error if a file was written since."""
    if file_state(path) != before:
        raise ValueError(f"{path} changed while it was read: read it again.")


@dataclass
class Job:
    """The passes over a source: one that decides what is open, one over all rows."""

    source: Source
    spec: CountSpec
    progress: ProgressCallback | None = None

    def count(self) -> PairCounter:
        """Return everything counted."""
        return self._summary(PairCounter)

    def code(self, store: KeptRows) -> RowCoder:
        """Return the coder of all rows, which writes their codes to `store`."""
        return self._summary(partial(RowCoder, store=store))

    def _summary(self, summary: Callable[[CountSpec], AnySummary]) -> AnySummary:
        """Return the summary of all rows, by a spec that is decided."""
        source = self.source
        states = {path: file_state(path) for path in source.paths}
        if not self.spec.undecided:
            total = Run(source, summary, self.spec, self.progress).count_pass()
        elif source.is_repeatable:
            total = self._two_passes(source, summary)
        else:
            with tempfile.TemporaryFile() as file:
                stored = _stored(source, list(self.spec.read_columns), file)
                total = self._two_passes(stored, summary)
        for path, state in states.items():
            check_unchanged(path, state)
        return total

    def _two_passes(
        self, source: Source, summary: Callable[[CountSpec], AnySummary]
    ) -> AnySummary:
        """Decide what the spec leaves open by a first pass over these columns."""
        first = self.spec.only(self.spec.undecided)
        profile = Run(source, ColumnProfile, first, self.progress).count_pass()
        spec = profile.decided(self.spec)
        total = Run(source, summary, spec, self.progress).count_pass()
        if total.seen != profile.seen:
            raise ValueError(
                f"The source gave {profile.seen:,} rows the first time and "
                f"{total.seen:,} the second: write the rows to a file first, or give a "
                "source that yields the same rows again."
            )
        return total


# ---- rows that can be read only once


def chosen_columns(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return some columns of a batch; all if one of them is absent, or there twice.

    Such a batch is rejected where it is counted.
    """
    counts = Counter(batch.schema.names)
    if any(counts[name] != 1 for name in columns):
        return batch
    return batch.select(list(columns))


def _stored(source: Source, columns: list[str], file: IO[bytes]) -> Source:
    """Return a source whose second pass reads what the first one wrote to a file."""
    batches = (batch for unit in source.units(columns) for batch in unit.read())
    passes = [_read_back(file), written(batches, file)]

    def read(every_column: Iterator[pa.RecordBatch], some: list[str]) -> Any:
        if {*some} == {*columns}:
            return every_column  # a surplus column is rejected where rows are counted
        return (chosen_columns(batch, some) for batch in every_column)

    def units(columns: list[str]) -> Iterator[Unit]:
        yield Unit(0, 0, 1.0, partial(read, passes.pop(), columns), 0)

    return dataclasses.replace(source, units=units)


def written(
    batches: Iterator[pa.RecordBatch], file: IO[bytes]
) -> Iterator[pa.RecordBatch]:
    """Yield batches, and write them to a file: those of one schema as one stream."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    try:
        for schema, run in groupby(batches, lambda batch: batch.schema):
            sink = pa.PythonFile(file, "w")
            writer = pa.ipc.new_stream(sink, schema, options=options)
            for batch in run:
                writer.write(batch)
                yield batch
            writer.close()
        file.flush()
    except OSError as error:
        with suppress(OSError):  # what waits to be written
            file.close()
        raise ValueError(
            "The rows, which can be read only once, do not fit into the temporary "
            f"folder {tempfile.gettempdir()!r} ({first_line(error)}). Name another one "
            "in TMPDIR, write the rows to a file, or give a fitted encoder."
        ) from None


def _read_back(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of all streams in a file."""
    end = file.tell()
    file.seek(0)
    while file.tell() < end:
        yield from pa.ipc.open_stream(pa.PythonFile(file, "r"))


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
