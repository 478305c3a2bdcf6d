"""Jobs: the pieces of some files, each counted for itself by one of several threads.

A *unit* is what is read and counted at once: a row group, a record batch, a piece of
a CSV file. Each is counted into a table of its own, which is added to the whole under a
lock when the unit is done: a unit that fails halfway leaves no trace, and what has been
counted so far can be written down at any time, together with the units it is of.

Sums of weights are rounded: on request, units are added in the order of the rows, so
that the sums are the same in every run. Counts are the same in any order.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from renyi.compiled import cores
from renyi.warnings import DataWarning

_MOST_THREADS = 8
_MOST_BYTES = 2**30  # of tables that threads count for themselves
_PAUSE = 0.2  # seconds between two looks at the threads

Key = tuple[int, int]


class Unit(NamedTuple):
    """What is read at once: part `number` of the file `file`, `share` of its rows."""

    file: int
    number: int
    share: float
    read: Callable[[], Iterator[pa.RecordBatch]]


class FileError(ValueError):
    """What is wrong with the file of this number."""

    def __init__(self, file: int, message: str) -> None:
        super().__init__(message)
        self.file = file


@dataclass(frozen=True)
class Source:
    """Some files with the same columns.

    `units` yields what is to be read of some columns; `schema` has all of them.
    """

    paths: tuple[Path, ...]
    schema: pa.Schema
    units: Callable[[list[str]], Iterator[Unit]]


@dataclass(frozen=True)
class Pace:
    """How far a job has got.

    Parameters
    ----------
    step : str
        What is being done.
    rows : int
        Rows read so far, in this step.
    share : float
        Share of the step that is done.
    seconds : float
        How long this step has taken, in this run.
    before : tuple of int and float
        Rows and share that an earlier run had done.

    Examples
    --------
    >>> print(Pace("counting", rows=3_000_000, share=0.25, seconds=2.0))
    counting: 3,000,000 rows, 25 %, 1,500,000 rows a second, 6 s left
    """

    step: str
    rows: int
    share: float
    seconds: float
    before: tuple[int, float] = (0, 0.0)

    @property
    def rows_per_second(self) -> float:
        """Rows that this run read in a second."""
        return (self.rows - self.before[0]) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Seconds that this step will still take at this pace; None if unknown."""
        made = self.share - self.before[1]
        if made <= 0:
            return None
        return max(0.0, (1 - self.share) / made * self.seconds)

    def __str__(self) -> str:
        """Return one line for a terminal."""
        text = (
            f"{self.step}: {self.rows:,} rows, {100 * self.share:.0f} %, "
            f"{self.rows_per_second:,.0f} rows a second"
        )
        left = self.seconds_left
        return text if left is None else f"{text}, {time_text(left)} left"


def time_text(seconds: float) -> str:
    """Return a readable time: seconds up to two minutes, then minutes, then hours.

    >>> time_text(119), time_text(240)
    ('119 s', '4 min')
    """
    for length, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"


WHOLE = -1
"""In place of a file: all files that are done."""


@dataclass
class Record:
    """What a job has done so far.

    `parts` holds the counts of all files that are done, and of each that is not, with
    their rows: a file that turns out to be damaged can be left out and counted anew.

    Parameters
    ----------
    make : callable
        Returns an empty profile or tally.
    apart : bool
        Whether files that are not done are kept apart; else all go to `WHOLE` at once.
    parts : dict of file to (counts, rows)
        What has been counted, `WHOLE` being the files that are done.
    done : set of (file, number)
        The units that were counted.
    failed : set of int
        The files that could not be read.
    """

    make: Callable[[], Any]
    apart: bool = True
    parts: dict[int, tuple[Any, int]] = field(default_factory=dict)
    done: set[Key] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """Number of rows counted."""
        return sum(rows for _, rows in self.parts.values())

    def add(self, file: int, counts: Any, rows: int) -> None:
        """Add the counts of some rows, which are given away, to those of a file."""
        place = file if self.apart else WHOLE
        if place in self.parts:
            mine, before = self.parts[place]
            mine.merge(counts)
            self.parts[place] = (mine, before + rows)
        else:
            self.parts[place] = (counts, rows)

    def close(self, files: Iterable[int]) -> None:
        """Add files that are done to the whole."""
        for file in sorted(files):
            self.add(WHOLE, *self.parts[file])
            del self.parts[file]


class Run:
    """One pass over the units of a source.

    Parameters
    ----------
    source : Source
        The files.
    step : str
        What the pass is for, as progress tells it.
    record : Record
        What an earlier run has done, or nothing; it grows.
    progress : callable, optional
        Called with a `Pace` after every unit.
    save : callable, optional
        Called with the record after every unit; told by a flag to save in any case.
    ordered : bool, default=False
        Whether units are added in the order of the rows.
    """

    def __init__(
        self,
        source: Source,
        step: str,
        record: Record,
        progress: Callable[[Pace], object] | None = None,
        save: Callable[[Record, bool], object] | None = None,
        ordered: bool = False,
    ) -> None:
        self._source, self._step, self._record = source, step, record
        self._progress, self._save, self._ordered = progress, save, ordered
        self._feeding, self._merging = threading.Lock(), threading.Condition()
        self._given = 0  # units handed out
        self._under_way: dict[int, int] = {}  # the file of each that is being read
        self._lost = False  # whether one was not counted
        self._halfway = False  # whether an addition has begun and not ended
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._unsaved: OSError | None = None  # why nothing could be kept
        self._told = False  # whether the user was warned of it
        sizes = [path.stat().st_size for path in source.paths] or [1]
        self._sizes = [size / max(sum(sizes), 1) for size in sizes]
        self._share, self._begun = 0.0, time.monotonic()
        self._before = (record.rows, 0.0)
        self._workers = min(_MOST_THREADS, cores())

    def count(self, columns: list[str]) -> Any:
        """Count all units that are not done yet; return the counts of all that are."""
        units = self._source.units(columns)
        workers = [
            threading.Thread(target=self._work, args=(units,), daemon=True)
            for _ in range(self._workers)
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():  # so that Ctrl-C is heard
                    worker.join(_PAUSE)
                    self._warn_if_unsaved()
            self._warn_if_unsaved()
        except BaseException as error:
            self._failure = error
        self._stop.set()
        for worker in workers:
            if worker.ident is not None:
                worker.join()
        if self._failure is not None:
            if self._save is not None and not self._halfway:
                # The failure is what the user must hear of.
                with contextlib.suppress(OSError, ValueError):
                    self._save(self._record, True)
            raise self._failure
        self._record.close([file for file in self._record.parts if file != WHOLE])
        return self._record.parts.get(WHOLE, (self._record.make(), 0))[0]

    def _warn_if_unsaved(self) -> None:
        """Tell once that nothing can be kept: a full disk need not end a long job."""
        if self._unsaved is not None and not self._told:
            self._told = True
            warnings.warn(unsaved(self._unsaved), DataWarning, stacklevel=4)

    def _work(self, units: Iterator[Unit]) -> None:
        try:
            while not self._stop.is_set() and not self._is_too_many():
                found = self._next(units)
                if found is None:
                    return
                place, unit = found
                try:
                    self._take(place, unit)
                finally:
                    with self._merging:
                        self._lost |= unit[:2] not in self._record.done
                        del self._under_way[place]
                        self._merging.notify_all()
        except BaseException as error:
            if self._failure is None:
                self._failure = error
            self._stop.set()

    def _is_too_many(self) -> bool:
        """Whether this thread should end: each may need two tables of its own."""
        with self._merging:
            tables = [part.table_bytes for part, _ in self._record.parts.values()]
            room = _MOST_BYTES // (2 * max(tables, default=0) + 1)
            if self._workers <= max(1, room):
                return False
            self._workers -= 1
            return True

    def _next(self, units: Iterator[Unit]) -> tuple[int, Unit] | None:
        """Return the next unit, with its place in the order of all."""
        with self._feeding:
            try:
                unit = next(units, None)
            except FileError as error:
                with self._merging:
                    self._record.failed.add(error.file)
                    self._lost = True
                raise
            if unit is None:
                return None
            with self._merging:
                self._given += 1
                self._under_way[self._given] = unit.file
                return self._given, unit

    def _take(self, place: int, unit: Unit) -> None:
        """Count a unit for itself, and add it to the whole."""
        key, share = unit[:2], unit.share * self._sizes[unit.file]
        with self._merging:
            if key in self._record.done:
                self._share += share
                self._before = (self._before[0], self._before[1] + share)
                return
        try:
            counts, rows = self._counted(unit)
        except ValueError:
            with self._merging:
                self._record.failed.add(unit.file)
            raise
        with self._merging:
            if self._ordered:
                self._merging.wait_for(lambda: min(self._under_way) == place)
                if self._lost:  # a unit before this one, which must come first
                    return
            self._add(unit, counts, rows)
            self._share += share
            self._tell()
            self._keep()

    def _add(self, unit: Unit, counts: Any, rows: int) -> None:
        """Add the counts of a unit; close the files of which no unit is left."""
        self._halfway = True
        self._record.add(unit.file, counts, rows)
        self._record.done.add(unit[:2])
        if not self._lost:
            # Files come one after the other: the units of those before are all out.
            # When one was lost, nobody knows of which file it was.
            open_files = {*self._under_way.values()}
            files = {*self._record.parts} - {WHOLE} - open_files - self._record.failed
            self._record.close(f for f in files if f < max(open_files))
        self._halfway = False

    def _keep(self) -> None:
        if self._save is not None:
            try:
                self._save(self._record, False)
            except OSError as error:
                self._unsaved = error

    def _counted(self, unit: Unit) -> tuple[Any, int]:
        part, rows = self._record.make(), 0
        for batch in unit.read():
            rows += batch.num_rows
            with blaming(self._source, unit):
                part.add(batch)
        part.settle()  # so that little is left to be done under the lock
        return part, rows

    def _tell(self) -> None:
        if self._progress is not None:
            seconds = time.monotonic() - self._begun
            share = min(self._share, 1.0)
            rows = self._record.rows
            self._progress(Pace(self._step, rows, share, seconds, self._before))


@contextlib.contextmanager
def blaming(source: Source, unit: Unit) -> Iterator[None]:
    """Let an error about the cells name the file they are in."""
    try:
        yield
    except ValueError as error:
        if not source.paths:
            raise
        raise ValueError(f"{source.paths[unit.file]}: {error}") from None


def unsaved(error: OSError) -> str:
    """Return what is said of a checkpoint that cannot be written any more.

    >>> unsaved(OSError(28, "No space left on device", "job"))
    "The checkpoint 'job' cannot be written (No space left on device): counting ..."
    """
    return (
        f"The checkpoint {error.filename!r} cannot be written ({error.strerror}): "
        "counting goes on, but what is counted from now on is lost if it is ended."
    )
