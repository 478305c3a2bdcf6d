"""(f) The counting kernel: all pairwise tables of integer codes, and nothing else.

Every side starts from codes in memory. `pair_counts` starts from an array of bytes,
which it checks, tabmat from its categorical matrices, and DuckDB from a table of small
integers. The benchmark checks that all counts are equal.
"""

from __future__ import annotations

from timing import WITHOUT_FAST, Section, extra, faster, measure, run  # isort: skip

import time
from functools import partial
from importlib.metadata import version
from itertools import combinations
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from renyi.counting import compiled
from renyi.counting.histograms import histograms
from renyi.counting.pair_counts import (
    KERNELS,
    class_pair_counts,
    joint_values,
    pair_counts,
    plane_table,
)

OURS = "pair_counts"
SHAPES = [
    (1_000_000, 20, 10),
    (1_000_000, 20, 2),
    (1_000_000, 50, 4),
    (100_000, 200, 3),
    (61_440, 15, 8),
]


def benchmark() -> list[Section]:
    sections = [_peers(*SHAPES[0])]
    if WITHOUT_FAST:
        return sections
    sections += [_engines(*shape) for shape in SHAPES[1:]]
    return [*sections, _classes(*SHAPES[0]), _threads()]


def _codes(n: int, d: int, m: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, m, (d, n)).astype(np.uint8)


def _title(n: int, d: int, m: int) -> str:
    return f"{n:,} x {d} x {m} categories, {extra()}"


def _peers(n: int, d: int, m: int) -> Section:
    codes, sizes = _codes(n, d, m), [m] * d
    matrix, connection = _tabmat(codes, m), _duckdb(codes)
    tasks = {
        OURS: partial(pair_counts, codes, sizes, threads=1),
        **_forced(codes, sizes),
        "tabmat, sandwich": partial(matrix.sandwich, np.ones(n)),
        "DuckDB, GROUP BY per pair": partial(_group_by, connection, d, m),
    }
    counts = tasks[OURS]()
    assert np.array_equal(counts, tasks["tabmat, sandwich"]())
    _check_tables(counts, tasks["DuckDB, GROUP BY per pair"](), m)
    timings = measure(tasks, 5)
    note = f"DuckDB {version('duckdb')}, threads=1."
    claims = [
        faster("faster than " + peer, target, OURS, [peer], timings)
        for peer, target in zip(list(tasks)[-2:], (10, 30), strict=True)
    ]
    # The targets apply to the extra only.
    claims = [] if WITHOUT_FAST else claims
    return Section(_title(n, d, m), timings, claims, notes=[note])


def _engines(n: int, d: int, m: int) -> Section:
    codes, sizes = _codes(n, d, m), [m] * d
    tasks = {
        OURS: partial(pair_counts, codes, sizes, threads=1),
        **_forced(codes, sizes),
        "tabmat, sandwich": partial(_tabmat(codes, m).sandwich, np.ones(n)),
    }
    first, *others = [task() for task in tasks.values()]
    assert all(np.array_equal(first, other) for other in others)
    return Section(_title(n, d, m), measure(tasks, 3, calls=1 + 65_536 // n * 9))


def _forced(codes: np.ndarray, sizes: list[int]) -> dict[str, partial[Any]]:
    lengths = np.array(sizes)
    every = np.arange(len(sizes))
    limit = joint_values(codes.shape[1])
    by_numpy = partial(histograms, codes, lengths, limit, None, None)
    plain = {"numpy's histograms": by_numpy}
    if WITHOUT_FAST:
        return plain
    loops = compiled.load(KERNELS)
    return {
        "planes": partial(plane_table, codes, lengths, every, loops),
        "compiled histograms": partial(histograms, codes, lengths, limit, None, loops),
        **plain,
    }


def _classes(n: int, d: int, m: int) -> Section:
    codes, sizes = _codes(n, d, m), [m] * d
    y = np.random.default_rng(1).integers(0, 2, n).astype(codes.dtype)
    count = partial(class_pair_counts, np.vstack([codes, y]), [*sizes, 2], threads=1)
    tasks = {"class_pair_counts": count}
    assert np.array_equal(count().sum(0), pair_counts(codes, sizes))
    return Section("Within two classes, " + _title(n, d, m), measure(tasks, 5))


def _threads() -> Section:
    rows = []
    for n, d, m in SHAPES[:-1]:
        codes, sizes = _codes(n, d, m), [m] * d
        rows += [_shared(codes, sizes, threads) for threads in (1, 2)]
    note = (
        "`busiest` is the CPU time of the thread that works longest, what the elapsed "
        "time would be on an idle machine; all are the best of 15."
    )
    return Section("Both cores", table=rows, notes=[note])


def _shared(codes: np.ndarray, sizes: list[int], threads: int) -> dict[str, str]:
    """Time a count: elapsed seconds, CPU seconds of all threads and of the busiest."""
    spent: list[float] = []

    def clocked(task: Any) -> None:
        start = time.thread_time()
        task()
        spent.append(time.thread_time() - start)

    def run_all(tasks: list[Any]) -> None:
        real([partial(clocked, task) for task in tasks])

    real = compiled.run_all
    elapsed, total, busiest = [], [], []
    with mock.patch.object(compiled, "run_all", run_all):
        for _ in range(15):
            spent.clear()
            wall, cpu = time.perf_counter(), time.process_time()
            pair_counts(codes, sizes, threads=threads)
            elapsed.append(time.perf_counter() - wall)
            total.append(time.process_time() - cpu)
            busiest.append(total[-1] - sum(spent) + max(spent))
    d, n = codes.shape
    seconds = {"elapsed s": elapsed, "CPU s": total, "busiest": busiest}
    return {
        "shape": f"{n:,} x {d} x {sizes[0]}",
        "threads": str(threads),
        **{name: f"{min(values):.4f}" for name, values in seconds.items()},
    }


def _tabmat(codes: np.ndarray, m: int) -> Any:
    import tabmat

    columns = [
        pd.Categorical.from_codes(column.astype(np.int32), categories=range(m))
        for column in codes
    ]
    return tabmat.SplitMatrix([tabmat.CategoricalMatrix(each) for each in columns])


def _duckdb(codes: np.ndarray) -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    frame = pd.DataFrame({f"c{j}": column for j, column in enumerate(codes)})
    connection.register("frame", frame)
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    return connection


def _group_by(connection: Any, d: int, m: int) -> dict[tuple[int, int], np.ndarray]:
    tables = {}
    for i, j in combinations(range(d), 2):
        query = f"SELECT c{i} a, c{j} b, count(*) n FROM t GROUP BY ALL"
        found = connection.execute(query).fetchnumpy()
        tables[i, j] = np.zeros((m, m), np.int64)
        tables[i, j][found["a"], found["b"]] = found["n"]
    return tables


def _check_tables(
    counts: np.ndarray, tables: dict[tuple[int, int], np.ndarray], m: int
) -> None:
    for (i, j), table in tables.items():
        block = counts[i * m : (i + 1) * m, j * m : (j + 1) * m]
        assert np.array_equal(block, table)


if __name__ == "__main__":
    run("kernel", "(f) The counting kernel", benchmark)
