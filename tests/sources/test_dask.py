"""Dask: the recipe of the documentation, run as a test.

Which columns are numbers, and their bins, are decided once, from a sample; after that
every partition is counted by itself, and counts add up in a tree.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources.counter import PairCounter
from renyi.sources.profile import ColumnProfile
from renyi.sources.spec import CountSpec
from support.engines import dask
from support.engines import dask_dataframe as dd


def frame(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    tree = rng.choice(["oak", "elm", "ash", None], n)
    # A label that only the last rows have.
    tree[-5:] = "yew"
    return pd.DataFrame(
        {
            "tree": pd.Series(tree, dtype="string"),
            "height": rng.gamma(2.0, 5.0, n).round(2),
            "rings": rng.integers(3, 200, n),
            "felled": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
        }
    )


def test_sum_of_partitions_by_a_common_encoder() -> None:
    rows = frame(50_000)
    df = dd.from_pandas(rows, npartitions=7)
    encoder = Encoder().fit(rows.drop(columns="felled").head(10_000))

    # ---- the recipe
    count = dask.delayed(Marginals.from_data)
    add = dask.delayed(sum)
    parts = [count(p, target="felled", encoder=encoder) for p in df.to_delayed()]
    while len(parts) > 1:
        parts = [add(parts[k : k + 4]) for k in range(0, len(parts), 4)]
    (m,) = dask.compute(*parts, scheduler="threads", num_workers=2)
    # ----

    assert m == Marginals.from_data(rows, target="felled", encoder=encoder)
    assert "yew" in m.categories["tree"]


def test_bins_of_all_rows_by_tallies() -> None:
    rows = frame(20_000)
    df = dd.from_pandas(rows, npartitions=5)
    spec = CountSpec.of(pa.Schema.from_pandas(rows, preserve_index=False), "felled")

    def part(kind: type, spec: CountSpec, rows: pd.DataFrame) -> bytes:
        state = kind(spec)
        state.add(pa.RecordBatch.from_pandas(rows, preserve_index=False))
        return state.to_bytes()

    def together(kind: type, spec: CountSpec) -> ColumnProfile | PairCounter:
        total = kind(spec)
        pieces = [dask.delayed(part)(kind, spec, rows) for rows in df.to_delayed()]
        for data in dask.compute(*pieces, scheduler="threads", num_workers=2):
            total.merge(kind.from_bytes(spec, data))
        return total

    decided = together(ColumnProfile, spec).decided(spec)
    m = together(PairCounter, decided).finish()
    assert m == Marginals.from_data(rows, target="felled")
