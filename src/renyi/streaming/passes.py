"""Passes over files: one to decide what columns are, if need be, and one to count.

Both are runs over the same units. A checkpoint holds the counts of the pass that is
under way, and the spec that the first one made.

Both must see the same rows. Files must look at the end as they did at the beginning;
the answer to a query is looked at again as it is counted, and must lead to the same
spec.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from renyi.streaming.checkpoint import Checkpoint, State, fingerprint, refuse_changed
from renyi.streaming.counter import Tally
from renyi.streaming.profile import ColumnProfile
from renyi.streaming.run import Pace, Record, Run, Source, Unit, unsaved
from renyi.streaming.spec import CountSpec
from renyi.warnings import DataWarning

Progress = Callable[[Pace], object]


@dataclass
class Passes:
    """The passes over a source, in order.

    Parameters
    ----------
    source : Source
        The files.
    spec : CountSpec
        What is to be counted.
    checkpoint : Checkpoint, optional
        Where to keep what has been counted.
    progress : callable, optional
        Called with a `Pace` after every unit.
    """

    source: Source
    spec: CountSpec
    checkpoint: Checkpoint | None = None
    progress: Progress | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the checkpoint from other jobs, if there is one."""
        with contextlib.ExitStack() as stack:
            if self.checkpoint is not None:
                stack.enter_context(self.checkpoint.held())
            yield

    def tally(self) -> Tally:
        """Return everything counted."""
        looks = [fingerprint(path) for path in self.source.paths]
        if self.checkpoint is not None:
            looks = self.checkpoint.files
        state = self._resumed()
        if self.spec.undecided and not state.profiled:
            state = self._profile(state)
            self._keep(state)
        elif state.profiled and state.replaced:
            state = self._profiled_again(state)
        spec = self.spec
        if state.profiled:
            spec = self._trusted(CountSpec.from_dict, state.spec)
        for text in state.notes:
            warnings.warn(text, DataWarning, stacklevel=2)
        tally = self._count(spec, state)
        refuse_changed(looks)
        if state.seen is not None and tally.seen != state.seen:
            raise ValueError(_moved(f"{state.seen:,} rows", f"{tally.seen:,}"))
        return tally

    def _resumed(self) -> State:
        """Return what an earlier run has done."""
        if self.checkpoint is None:
            return State()
        found = self.checkpoint.load()
        if found is None:
            self.checkpoint.begin()
        return found or State()

    def _profile(self, state: State, kept: bool = True) -> State:
        """Look at what is undecided; return where the counting starts from."""
        first = _only_undecided(self.spec)
        record = self._record(ColumnProfile, first, state)
        run = self._run("looking at numbers", self.source, record, State(), kept)
        profile = run.count(list(first.read_columns))
        with warnings.catch_warnings(record=True, action="always") as seen:
            found = profile.spec()
        spec = self.spec.decided(dict(zip(found.names, found.columns, strict=True)))
        notes = [str(w.message) for w in seen]
        return State(spec.to_dict(), True, notes, seen=profile.seen)

    def _profiled_again(self, state: State) -> State:
        """Look at all files once more, since one of them is another.

        What was counted of the others stays if the spec does. The checkpoint is left
        as it is meanwhile.
        """
        found = self._profile(State(), kept=False)
        if found.spec == state.spec:
            return dataclasses.replace(state, notes=found.notes, seen=found.seen)
        name = self.source.paths[min(state.replaced)]
        text = f"With the new {name} numbers have other bins: all files are counted."
        found.notes.append(text)
        self._keep(found)
        return found

    def _keep(self, state: State) -> None:
        if self.checkpoint is not None:
            try:
                self.checkpoint.save(state)
            except OSError as error:
                warnings.warn(unsaved(error), DataWarning, stacklevel=3)

    def _count(self, spec: CountSpec, state: State) -> Tally:
        """Count all rows by a spec that is decided."""
        record = self._record(Tally, spec, state)
        told = dataclasses.replace(state, spec=spec.to_dict())
        source, again = self.source, None
        if state.profiled and not source.paths:
            again = ColumnProfile(self.spec)
            source = _watched(source, again)
        tally: Tally = self._run("counting", source, record, told).count(
            list(spec.read_columns)
        )
        if again is not None and again.seen == state.seen and again.spec() != spec:
            raise ValueError(_moved("some rows", "others"))
        return tally

    def _record(self, kind: Any, spec: CountSpec, state: State) -> Record:
        """Return what an earlier run has counted, if anything."""
        # Sums of weights are to be the same with and without a checkpoint.
        apart = self.checkpoint is not None or spec.weight is not None
        record = Record(partial(kind, spec), apart)
        record.done, record.failed = state.done, state.failed
        for file, (counts, rows) in state.parts.items():
            read = self._trusted(kind.from_bytes, spec, counts)
            record.parts[file] = (read, rows)
        return record

    def _run(
        self, step: str, source: Source, record: Record, told: State, kept: bool = True
    ) -> Run:
        place, ordered = self.checkpoint, self.spec.weight is not None
        if place is None or not kept:
            return Run(source, step, record, self.progress, ordered=ordered)

        def save(record: Record, now: bool) -> None:
            if now or place.due():
                told.parts = {
                    file: (counts.to_bytes(), rows)
                    for file, (counts, rows) in record.parts.items()
                }
                told.done, told.failed = record.done, record.failed
                place.save(told)

        return Run(source, step, record, self.progress, save, ordered)

    def _trusted(self, read: Callable[..., Any], *args: Any) -> Any:
        """Read a part of the checkpoint, which may be damaged."""
        try:
            return read(*args)
        except ValueError as error:
            if self.checkpoint is None:
                raise
            raise self.checkpoint.damaged(error) from None


def _only_undecided(spec: CountSpec) -> CountSpec:
    """Return the spec of the columns that a first pass reads."""
    names = [name for name in spec.undecided if name != spec.target]
    names.append(spec.target)
    columns = tuple(spec.column(name) for name in names)
    return dataclasses.replace(spec, names=tuple(names), columns=columns)


def _watched(source: Source, profile: ColumnProfile) -> Source:
    """Return the source of a query, whose rows a profile looks at as they pass by."""

    def read(unit: Unit) -> Iterator[pa.RecordBatch]:
        for batch in unit.read():
            profile.add(batch)
            yield batch

    def units(columns: list[str]) -> Iterator[Unit]:
        for unit in source.units(columns):  # one: a profile is not for several threads
            yield unit._replace(read=partial(read, unit))

    return dataclasses.replace(source, units=units)


def _moved(first: str, second: str) -> str:
    """Return what is said of a query or condition that is not the same twice."""
    return (
        f"The source gave {first} the first time and {second} the second: write the "
        "rows to a file first, or ask for them so that they come out the same."
    )
