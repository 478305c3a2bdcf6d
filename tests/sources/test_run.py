"""Jobs in trouble: damaged files, rows that move."""

from __future__ import annotations

import os
import random
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import renyi
from renyi.limits import memory_budget, memory_limit
from renyi.progress import Progress
from renyi.sources import arrow, counter, files, run
from renyi.sources.counter import PairCounter
from renyi.sources.spec import CountSpec
from support.interruptions import table_of, write
from support.streams import decided

Marginals = renyi.Marginals


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_THREADS", 2)


Before = Callable[[run.Unit, list[str]], None]


@pytest.fixture
def before_units(monkeypatch: pytest.MonkeyPatch) -> Callable[[Before], None]:
    """Let something happen before each row group is read."""
    units = arrow.ParquetFile.units

    def set_up(before: Before) -> None:
        def changed(table: Any, file: int, columns: Any) -> Iterator[run.Unit]:
            for unit in units(table, file, columns):

                def read(unit: run.Unit = unit) -> Iterator[pa.RecordBatch]:
                    before(unit, list(columns))
                    yield from unit.read()

                yield unit._replace(read=read)

        monkeypatch.setattr(arrow.ParquetFile, "units", changed)

    return set_up


# ---- damaged files


def test_first_of_several_damaged_pieces_is_told(
    before_units: Callable[[Before], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_THREADS", 1)
    path = write(table_of(600), tmp_path / "rows.parquet", 10)

    def before(unit: run.Unit, columns: list[str]) -> None:
        raise ValueError(f"piece {unit.number} is damaged")

    before_units(before)
    for _ in range(20):
        with pytest.raises(ValueError, match="piece 0 is damaged"):
            files.marginals(path, "y", columns=["a"])


# ---- rows that move


@pytest.mark.parametrize(
    ("asked", "all_rows"),
    [
        ({"where": "random() < 0.5"}, False),
        ({"sql": "SELECT * FROM data WHERE random() < 0.5"}, False),
        ({"sql": "SELECT random() AS r, y FROM data"}, True),
    ],
)
def test_a_condition_or_a_query_is_answered_once(
    asked: dict[str, str], all_rows: bool, tmp_path: Path
) -> None:
    path = write(table_of(3_000), tmp_path / "rows.parquet", 3_000)
    m = files.marginals(path, "y", **asked)
    assert (m.n == 3_000) if all_rows else (1_000 < m.n < 2_000)
    for name in m.feature_names:
        assert m.block(name, "y").to_numpy().sum() == m.n


def test_sample_that_can_be_repeated(tmp_path: Path) -> None:
    path = write(table_of(3_000), tmp_path / "rows.parquet")
    m = files.marginals(path, "y", sql="FROM data WHERE hash(b) % 2 = 0")
    assert 1_000 < m.n < 2_000


@pytest.mark.parametrize("columns", [["a"], ["b"]])
def test_file_that_changes_meanwhile(columns: list[str], tmp_path: Path) -> None:
    path = write(table_of(900), tmp_path / "rows.parquet")

    def progress(pace: Progress) -> None:
        if pace.step == "counting":
            os.utime(path, ns=(1, 1))

    with pytest.raises(ValueError, match=r"rows\.parquet changed while it was"):
        files.marginals(path, "y", columns=columns, progress=progress)


# ---- memory, time and rounding


@pytest.mark.parametrize(("labels", "few"), [(4_000, 10**9), (9_000, 2_000)])
def test_memory_is_that_of_a_few_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: int, few: int
) -> None:
    monkeypatch.setattr("renyi.counting.sparse_counts.FEW", few)
    rng = np.random.default_rng(0)
    rows = 30_000
    table = pa.table(
        {
            "a": np.char.mod("label %d", rng.permutation(rows) % labels),
            "y": np.array(["n", "p"])[rng.integers(0, 2, rows)],
        }
    )
    path = write(table, tmp_path / "rows.parquet", 5_000)
    Marginals.from_file(path, target="y")  # so that every module is loaded
    tracemalloc.start()
    m = Marginals.from_file(path, target="y")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert m == Marginals.from_data(table, target="y")
    table_bytes = 8 * 4_002**2 if labels == 4_000 else 10 * 2**20
    assert peak < 3 * table_bytes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("room", [2**18, 100])
def test_rows_for_a_large_table_wait_for_a_merge(
    weighted: bool, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "_LARGE_TABLE", 0)
    monkeypatch.setattr(counter, "_MOST_ROWS", room)
    monkeypatch.setattr(counter, "_LEAST_ROWS", room)
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "a": np.char.mod("a%d", rng.integers(0, 60, 900)),
            "b": rng.integers(0, 300, 900).astype(float),
            "y": np.array(["n", "p"])[rng.integers(0, 2, 900)],
            "w": rng.integers(0, 5, 900) / 2,
        }
    )
    weight = "w" if weighted else None
    if not weighted:
        table = table.drop_columns("w")
    spec = decided([table], CountSpec.of(table.schema, "y", None, True, weight))
    whole = PairCounter(spec)
    for low in range(0, 900, 90):
        part = PairCounter(spec)
        part.add(table[low : low + 90])
        part.settle()
        assert part._table.size == 0
        whole.merge(part)
    monkeypatch.undo()
    at_once = PairCounter(spec)
    at_once.add(table)
    assert whole.n == at_once.n
    assert whole.finish() == at_once.finish()


def test_tables_do_not_pile_up_behind_a_slow_one(
    before_units: Callable[[Before], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = table_of(600).append_column("w", pa.array(np.full(600, 0.5)))
    path = write(table, tmp_path / "rows.parquet", 10)
    done, added, ahead = list[int](), list[int](), list[int]()
    count, add = run.Run._count, run.Run._add

    def counted(self: run.Run, unit: run.Unit) -> Any:
        found = count(self, unit)
        done.append(unit.number)
        ahead.append(len(done) - len(added))
        return found

    def adding(self: run.Run, unit: run.Unit, *what: Any) -> None:
        added.append(unit.number)
        add(self, unit, *what)

    monkeypatch.setattr(run.Run, "_count", counted)
    monkeypatch.setattr(run.Run, "_add", adding)
    before_units(lambda unit, _: time.sleep(0.5 if unit.number == 0 else 0))
    m = files.marginals(path, "y", columns=["a"], weight="w")
    assert m.n == 300
    assert added == list(range(60))
    assert max(ahead) <= 3  # one for each thread, and one that waits


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_weights_add_up_to_the_same_in_every_run(
    columns: list[str],
    before_units: Callable[[Before], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = np.random.default_rng(0).random(2_000)
    table = table_of(2_000).append_column("w", pa.array(weights))
    parts = [
        write(table[:1_200], tmp_path / "p0.parquet", 60),
        write(table[1_200:], tmp_path / "p1.parquet", 60),
    ]
    asked: dict[str, Any] = {"columns": columns, "weight": "w"}
    monkeypatch.setattr(run, "_THREADS", 1)
    first = files.marginals(parts, "y", **asked)
    before_units(lambda unit, columns: time.sleep(random.random() / 300))
    for threads in (2, 3, 5):
        monkeypatch.setattr(run, "_THREADS", threads)
        assert files.marginals(parts, "y", **asked) == first
    assert first.n == pytest.approx(weights.sum(), rel=1e-12)


def test_threads_know_the_memory_of_the_job(
    tmp_path: Path, before_units: Callable[[Before], None]
) -> None:
    """Else they would refuse what was allowed, or take more."""
    seen = set()
    before_units(lambda *_: seen.add((threading.get_ident(), memory_budget())))
    path = write(table_of(300), tmp_path / "t.parquet")
    with memory_limit(12_345_678):
        Marginals.from_file(path, target="y")
    assert {budget for _, budget in seen} == {12_345_678}
    assert {thread for thread, _ in seen} != {threading.get_ident()}
