"""Tables of every type for the tests of streams, and what counting must give."""

from __future__ import annotations

import decimal
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from renyi import Encoder, Marginals
from renyi.sources.counter import PairCounter
from renyi.sources.profile import ColumnProfile
from renyi.sources.spec import CountSpec


def every_type(n: int, seed: int = 0) -> pa.Table:
    """Return a table with a column of every type, nulls and odd values in them."""
    rng = np.random.default_rng(seed)

    def some(values: list, share: float = 0.1) -> list:
        chosen = rng.integers(len(values), size=n)
        gone = rng.random(n) < share
        return [None if g else values[k] for k, g in zip(chosen, gone, strict=True)]

    words = ["red", "green", "blue", "?", "", " red", "é", "nan"]
    floats = rng.normal(size=n).round(2)
    floats[rng.random(n) < 0.3] = 0.0
    floats[rng.random(n) < 0.02] = np.inf
    floats[rng.random(n) < 0.02] = -np.inf
    floats[rng.random(n) < 0.02] = np.nan
    foreign = pa.DictionaryArray.from_arrays(
        pa.array(some([0, 1, 2, 3, 4]), pa.int16()),
        pa.array(["a", "b", "a", None, "never"]),
    )
    ints = rng.integers(-30, 60, size=n)
    ints[rng.random(n) < 0.1] = -9
    return pa.table(
        {
            "string": pa.array(some(words), pa.string()),
            "large": pa.array(some(words), pa.large_string()),
            "view": pa.array(some(words), pa.string_view()),
            "dictionary": pa.array(some(words), pa.string()).dictionary_encode(),
            "foreign": foreign,
            "int dictionary": pa.array(
                some([3, 1, 20]), pa.int64()
            ).dictionary_encode(),
            "null": pa.nulls(n),
            "boolean": pa.array(some([True, False]), pa.bool_()),
            "small": pa.array(some([1, 2, 7, -9]), pa.int8()),
            "many": pa.array(ints),
            "gappy": pa.array(some(list(range(50))), pa.uint16()),
            "float": pa.array(floats),
            "single": pa.array(some([1.5, 2.0, float("nan")]), pa.float32()),
            "decimal": pa.array(
                some([decimal.Decimal(k) / 4 for k in range(40)]),
                pa.decimal128(10, 2),
            ),
            "whole decimal": pa.array(some([1, 2, 7, -9]), pa.decimal128(38, 0)),
            "many decimals": pa.array(some(list(range(-9, 40))), pa.decimal128(9, 0)),
            "moment": pa.array(some([0, 5_000_600]), pa.timestamp("us")),
            "date": pa.array(some([date(2020, 1, d) for d in range(1, 9)])),
            "y": pa.array([f"class {k}" for k in rng.integers(3, size=n)]),
        }
    )


def reference(
    table: pa.Table,
    target: str = "y",
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    weight: str | None = None,
) -> Marginals:
    """Return the marginals of all rows in memory."""
    weights = None
    if weight is not None:
        weights = table[weight].to_numpy()
        table = table.drop_columns([weight])
    return Marginals.from_data(
        table,
        target=target,
        encoder=encoder,
        class_conditional=class_conditional,
        sample_weight=weights,
    )


def pieces(table: pa.Table, sizes: list[int]) -> list[pa.RecordBatch]:
    """Return the rows as batches of these sizes, over and over."""
    found, low, k = [], 0, 0
    while low < table.num_rows:
        size = sizes[k % len(sizes)]
        part = table.slice(low, size).combine_chunks()
        found.extend(part.to_batches())
        low, k = low + size, k + 1
    return found


def merged(kind: type[Any], spec: CountSpec, batches: list[Any], ways: int) -> Any:
    """Share rows among some profiles or tallies; return one of all rows.

    They are sent as bytes, and merged from the last to the first.
    """
    made = [kind(spec) for _ in range(ways)]
    for k, batch in enumerate(batches):
        made[k % ways].add(batch)
    while len(made) > 1:
        last = kind.from_bytes(spec, made.pop().to_bytes())
        last.merge(made.pop())
        made.append(last)
    return made[0]


def decided(batches: list[Any], spec: CountSpec, ways: int = 1) -> CountSpec:
    """Return the spec after a first pass in `ways` parts."""
    found: CountSpec = merged(ColumnProfile, spec, batches, ways).decided(spec)
    return found


def counted(batches: list[Any], spec: CountSpec, ways: int = 1) -> Marginals:
    """Count by `ways` tallies, after a first pass if the spec needs one."""
    if spec.undecided:
        spec = decided(batches, spec, ways)
    found: Marginals = merged(PairCounter, spec, batches, ways).finish()
    return found
