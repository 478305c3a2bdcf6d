"""Many columns: what a column costs does not grow with their number."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from renyi import Encoder
from support.commandline import Run

RNG = np.random.default_rng(0)
WORDS = np.array(["a", "b", "c"], object)


def _codes(d: int) -> Any:
    return RNG.integers(0, 3, (4, d))


def _categoricals(d: int) -> pd.DataFrame:
    kind = pd.CategoricalDtype(list(WORDS))
    columns = {f"c{j}": pd.Categorical.from_codes(c, dtype=kind) for j, c in _each(d)}
    return pd.DataFrame(columns)


def _each(d: int) -> Any:
    return enumerate(_codes(d).T)


def _alternating(d: int) -> pd.DataFrame:
    return pd.DataFrame({f"c{j}": WORDS[c] if j % 2 else c for j, c in _each(d)})


def _own_labels(d: int) -> pa.Table:
    return pa.table({f"c{j}": [f"{j} {v}" for v in c] for j, c in _each(d)})


def _own_objects(d: int) -> Any:
    cells = [[f"{j} {v}" for v in c] for j, c in _each(d)]
    return np.array(cells, object).T


def _integers(d: int) -> pa.Table:
    return pa.table({f"c{j}": c for j, c in _each(d)})


def _integers_with_gaps(d: int) -> pa.Table:
    return pa.table({f"c{j}": pa.array(c, mask=c == 0) for j, c in _each(d)})


TABLES = (
    _categoricals,
    _alternating,
    _own_labels,
    _own_objects,
    _integers,
    _integers_with_gaps,
)


@pytest.mark.long
@pytest.mark.parametrize("made", TABLES)
def test_encoding_is_linear_in_the_columns(made: Callable[[int], Any]) -> None:
    seconds = []
    for d in (500, 4000):
        table = made(d)
        start = time.process_time()
        encoder = Encoder().fit(table)
        encoder.transform(table)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 24 * seconds[0] + 0.5


@pytest.mark.parametrize("made", TABLES)
def test_a_column_is_encoded_alike_alone_and_among_many(
    made: Callable[[int], Any],
) -> None:
    table = made(400)
    encoder, codes = Encoder().fit_transform(table)
    for j in range(0, 400, 57):
        one = table[:, [j]] if isinstance(table, np.ndarray) else None
        if isinstance(table, pd.DataFrame):
            one = table.iloc[:, [j]]
        elif isinstance(table, pa.Table):
            one = table.select([j])
        alone, (row,) = Encoder().fit_transform(one)
        assert alone.columns[0].levels == encoder.columns[j].levels
        np.testing.assert_array_equal(row, codes[j])


@pytest.mark.parametrize("made", [_own_labels, _own_objects])
def test_labels_of_other_columns_take_no_memory(made: Callable[[int], Any]) -> None:
    table = made(2500)
    tracemalloc.start()
    Encoder().fit(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # a count of each label in each column would be 150 MB


@pytest.mark.long
def test_a_hundred_thousand_columns_cost_ten_times_ten_thousand(
    run: Run, tmp_path: Path
) -> None:
    """From a file to answers. A cost of all pairs of columns would be 100 times."""
    seconds = []
    for d in (10_000, 100_000):
        path = tmp_path / f"{d}.csv"
        with path.open("w") as out:
            print(*(f"c{j}" for j in range(d)), "y", sep=",", file=out)
            for k, row in enumerate(_codes(d)):
                print(*row, "no" if k % 2 else "yes", sep=",", file=out)
        start = time.process_time()
        model = str(tmp_path / f"{d}.json")
        for command in (
            ("fit", str(path), "--target", "y", "--out", model),
            ("predict", model, str(path)),
        ):
            done = run(*command)
            assert done.code == 0, done.err
        seconds.append(time.process_time() - start)
    assert seconds[1] < 30 * seconds[0]
