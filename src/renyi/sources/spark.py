"""Marginals of a Spark DataFrame, counted where the rows are.

A worker counts a partition and sends its counts, never rows. Workers merge what
`FAN_IN` partitions sent, then `FAN_IN` of these, then once more; the driver merges what
is left, one message for every ``FAN_IN ** 3`` partitions. Where columns are still to be
binned, a `ColumnProfile` of each goes the same way first. Spark uses the result of
one attempt of a task only, and counts are integers: an executor that dies changes
nothing.

Only the DataFrame API is used, so that classic sessions and Spark Connect run the same
code. A worker that meets bad data sends the error as a row like any other. If it
raised it, Spark would try three times more, and then wrap it in a traceback.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

import renyi
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources.counter import PairCounter
from renyi.sources.profile import ColumnProfile
from renyi.sources.spec import CountSpec

State = TypeVar("State", ColumnProfile, PairCounter)

# What a worker sends: the number of its partition, which of the specs it followed, and
# what it found or why it could not.
_MESSAGE = "part long, which long, state binary, error string"
FAN_IN = 8  # partitions whose counts are merged at a time
_LEVELS = 3
_INSTALL = (
    "install renyi {renyi}, pyarrow {pyarrow} and numpy {numpy} for Python {Python} on "
    "every worker, or set PYSPARK_PYTHON, before the session starts, to a Python there "
    "that has them"
)


def marginals(
    df: Any,
    target: str,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    weight: str | None = None,
) -> Marginals:
    """Count the pairs of a DataFrame's columns; see `Marginals.from_spark`."""
    if not hasattr(df, "mapInArrow"):
        raise TypeError(
            f"from_spark takes a DataFrame of Spark 4, not {type(df).__name__!r}."
        )
    with _spark_errors("read the columns of this frame"):
        schema = df.limit(0).toArrow().schema
    spec = CountSpec.of(schema, target, encoder, class_conditional, weight)
    _check_workers(df.sparkSession)
    if spec.undecided:  # each column travels in a separate message
        alone = [spec.only([name]) for name in spec.undecided]
        profiles = _reduced(df, schema.names, ColumnProfile, alone)
        spec = ColumnProfile.of_columns(spec, profiles).decided(spec)
    (counter,) = _reduced(df, schema.names, PairCounter, [spec])
    return counter.finish()


def _reduced(
    df: Any, names: list[str], kind: type[State], specs: list[CountSpec]
) -> list[State]:
    """Return what all partitions hold together, spec by spec."""
    texts = [json.dumps(spec.to_dict()) for spec in specs]
    wanted = list(dict.fromkeys(name for spec in specs for name in spec.read_columns))
    expected = versions()

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (batch.rename_columns(wanted) for batch in batches)
        yield from counted(kind, texts, expected, named)

    def merge(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches([merged(kind, texts, FAN_IN, table)])

    with _spark_errors("count this frame"):
        # By position: names may hold dots, or differ by case only.
        aliases = {name: f"c{j}" for j, name in enumerate(names)}
        chosen = (aliases[name] for name in wanted)
        sent = df.toDF(*aliases.values()).select(*chosen).mapInArrow(count, _MESSAGE)
        for _ in range(_LEVELS):
            group = (sent["part"] / FAN_IN).cast("long")
            sent = sent.groupBy("which", group).applyInArrow(merge, _MESSAGE)
        rows = sent.collect()
    totals = [kind(spec) for spec in specs]
    for row in sorted(rows, key=lambda row: row["part"]):
        if row["error"] is not None:
            raise ValueError(row["error"])
        which = row["which"]
        totals[which].merge(kind.from_bytes(specs[which], bytes(row["state"])))
    return totals


# ---- what workers do; they find these functions in their own renyi


def counted(
    kind: type[State],
    specs: list[str],
    expected: dict[str, str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield what the batches of a partition hold; nothing if there are none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = context.partitionId() if context else 0
    states: list[State] = []
    try:
        check_versions(expected, versions())
        made = [CountSpec.from_dict(json.loads(each)) for each in specs]
        for batch in batches:
            states = states or [kind(spec) for spec in made]
            for spec, state in zip(made, states, strict=True):
                state.add(batch.select(list(spec.read_columns)))
        for which, state in enumerate(states):
            yield _message(part, which, state.to_bytes())
    except ValueError as error:
        yield _message(part, 0, None, str(error))


def merged(
    kind: type[State], specs: list[str], fan_in: int, table: pa.Table
) -> pa.RecordBatch:
    """Merge what the partitions of one group sent; the first error wins."""
    table = table.sort_by("part")  # weights add up in one order, whatever comes first
    part = table["part"][0].as_py() // fan_in
    which = table["which"][0].as_py()
    for error in table["error"].drop_null():
        return _message(part, which, None, error.as_py())
    if len(table) == 1:
        return _message(part, which, table["state"][0].as_py())
    spec = CountSpec.from_dict(json.loads(specs[which]))
    total = kind(spec)
    try:
        for state in table["state"]:
            total.merge(kind.from_bytes(spec, state.as_py()))
        return _message(part, which, total.to_bytes())
    except ValueError as error:
        return _message(part, which, None, str(error))


def _message(
    part: int, which: int, state: bytes | None, error: str | None = None
) -> pa.RecordBatch:
    """Return the row of what was found, or of what was wrong."""
    row = {"part": [part], "which": [which], "state": [state], "error": [error]}
    types = (pa.int64(), pa.int64(), pa.binary(), pa.string())
    return pa.RecordBatch.from_pydict(row, pa.schema(zip(row, types, strict=True)))


# ---- which Python workers have


def _check_workers(session: Any) -> None:
    """Check that a worker's Python is like this one; an error says what to set."""
    with _spark_errors("run renyi on a worker", _INSTALL):
        answer = session.range(0, 1, 1, 1).mapInArrow(reported, "versions string")
        (row,) = answer.collect()
    check_versions(versions(), json.loads(row["versions"]))


def reported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say which versions a worker has."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"versions": [json.dumps(versions())]})


def versions() -> dict[str, str]:
    """Return what must be the same everywhere: renyi to the last digit."""
    return {
        "Python": "{}.{}".format(*sys.version_info),
        "renyi": renyi.__version__,
        "pyarrow": ".".join(pa.__version__.split(".")[:2]),
        "numpy": ".".join(np.__version__.split(".")[:2]),
    }


def check_versions(expected: dict[str, str], theirs: dict[str, str]) -> None:
    """Raise an error that names the first version which differs."""
    for name, version in expected.items():
        if theirs.get(name) != version:
            raise ValueError(
                f"A Spark worker has {name} {theirs.get(name)} where this Python has "
                f"{version}: {_INSTALL.format(**expected)}."
            )


# ---- errors of Spark


@contextmanager
def _spark_errors(task: str, advice: str = "see the log of Spark") -> Iterator[None]:
    """Turn Spark's errors into one sentence."""
    try:
        yield
    except Exception as error:
        family = type(error).__module__.partition(".")[0]
        if family not in ("pyspark", "py4j", "grpc"):
            raise
        remedy = advice.format(**versions())
        raise RuntimeError(
            f"Spark could not {task} ({reason_in(str(error))}): {remedy}."
        ) from None


def reason_in(message: str) -> str:
    """Return the line of Spark's message that says what happened."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    python = "Traceback (most recent call last)" in message
    reason = raised[-1] if raised and python else (lines or ["no reason was given"])[0]
    return reason[:200].rstrip(".")
