"""Measure one input path from the rows of `rows.py` to marginals, in this process.

``roads.py PATH FOLDER ROWS`` prints CPU seconds and peak memory as JSON. *CPU* is the
first call, of all threads. It excludes the start of Python and the imports at the top
of a user's script, among them the engine of the path. *Peak memory* is that of the
whole process, with all imports. Both are read from ``/proc``, so that Java and its
workers also count.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import rows

import renyi

Task = Callable[[], Any]


# ---- what a user has


def in_memory(folder: Path, n: int) -> Task:
    table = pa.Table.from_batches(rows.batches(n))
    return lambda: renyi.Marginals.from_data(table, target=rows.TARGET)


def _file(ending: str, **options: Any) -> Callable[[Path, int], Task]:
    def road(folder: Path, n: int) -> Task:
        if options:
            import duckdb  # noqa: F401
        path = folder / f"rows.{ending}"
        return lambda: renyi.Marginals.from_file(path, target=rows.TARGET, **options)

    return road


def pyarrow_reader(folder: Path, n: int) -> Task:
    import pyarrow.dataset

    data = pyarrow.dataset.dataset(folder / "rows.parquet")
    return lambda: _from_arrow(data.scanner().to_reader())


def polars_frame(folder: Path, n: int) -> Task:
    import polars

    frame = polars.read_parquet(folder / "rows.parquet")
    return lambda: _from_arrow(frame)


def duckdb_relation(folder: Path, n: int) -> Task:
    connection = _duckdb()
    relation = connection.sql(f"FROM '{folder}/rows.parquet'")
    return lambda: _from_arrow(relation)


def generated(folder: Path, n: int) -> Task:
    return lambda: _from_arrow(_clocked(rows.batches(n)))


def duckdb_file(folder: Path, n: int) -> Task:
    import duckdb

    path = folder / "rows.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE visits AS FROM '{folder}/rows.parquet'")
    given = {"target": rows.TARGET, "table": "visits"}
    return lambda: renyi.Marginals.from_file(path, **given)


def from_spark(folder: Path, n: int) -> Task:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.spark import spark_session  # which brings a Java

    df = spark_session().read.parquet(str(folder / "rows.parquet"))
    return lambda: renyi.Marginals.from_spark(df, rows.TARGET)


def _from_arrow(stream: Any) -> renyi.Marginals:
    return renyi.Marginals.from_arrow(stream, target=rows.TARGET)


def _duckdb() -> Any:
    import duckdb

    return duckdb.connect()


# ---- reading, and nothing else


def _reading(ending: str, what: str) -> Callable[[Path, int], Task]:
    def road(folder: Path, n: int) -> Task:
        connection = _duckdb()
        counted = ", ".join(f"count({name})" for name in rows.names())
        source = f"read_csv('{folder}/rows.{ending}', all_varchar = true)"
        sql = f"SELECT {counted if what == 'cells' else 'count(*)'} FROM {source}"
        return lambda: connection.sql(sql).fetchall()

    return road


ROADS: dict[str, Callable[[Path, int], Task]] = {
    "from_data, Arrow table in memory": in_memory,
    "from_file, Parquet": _file("parquet"),
    "from_file, CSV": _file("csv"),
    "from_file, CSV, every cell quoted": _file("quoted.csv"),
    "from_file, CSV, gzip": _file("csv.gz"),
    "from_file, Arrow IPC": _file("arrow"),
    "from_file, Parquet, where": _file("parquet", where="outcome IN ('no', 'yes')"),
    "from_file, Parquet, sql": _file("parquet", sql="SELECT * FROM data"),
    "from_arrow, pyarrow reader of Parquet": pyarrow_reader,
    "from_arrow, polars frame in memory": polars_frame,
    "from_arrow, DuckDB relation on Parquet": duckdb_relation,
    "from_arrow, generated": generated,
    "from_file, DuckDB table": duckdb_file,
    "from_spark, local[2], Parquet": from_spark,
    "DuckDB, count(*), CSV": _reading("csv", "rows"),
    "DuckDB, count of every column, CSV": _reading("csv", "cells"),
    "DuckDB, count of every column, CSV, every cell quoted": _reading(
        "quoted.csv", "cells"
    ),
    "DuckDB, count of every column, CSV, gzip": _reading("csv.gz", "cells"),
}


# ---- measuring


_made_rows = 0.0


def _clocked(source: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches of a source; record the CPU seconds that it takes."""
    global _made_rows
    while True:
        begun = time.thread_time()
        item = next(source, None)
        _made_rows += time.thread_time() - begun
        if item is None:
            return
        yield item


def _cpu() -> float:
    """Return CPU seconds of this process and of its child processes."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = [own.ru_utime, own.ru_stime, ended.ru_utime, ended.ru_stime]
    tick = os.sysconf("SC_CLK_TCK")
    return sum(used) + sum(sum(each.ticks) for each in _living()) / tick


def _peak_mb() -> float:
    """Return the peak of the resident set, plus those of the child processes.

    ``getrusage`` may report the peak of the parent process instead.
    """
    return sum(_high_water(pid) for pid in (os.getpid(), *(e.pid for e in _living())))


def _high_water(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) / 1024


class Process(NamedTuple):
    """A process, and the time that it and its ended child processes used."""

    pid: int
    parent: int
    ticks: list[int]


def _living() -> list[Process]:
    """Return the child processes of this one, and theirs."""
    everyone = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            cells = place.read_text().rpartition(")")[2].split()
            ticks = [int(cell) for cell in cells[11:15]]
            everyone.append(Process(int(place.parent.name), int(cells[1]), ticks))
    family = [os.getpid()]
    found: list[Process] = []
    while more := [e for e in everyone if e.parent in family]:
        found, family = [*found, *more], [e.pid for e in more]
    return found


def _spent(begun: float) -> dict[str, float]:
    return {"cpu": _cpu() - begun, "memory_mb": _peak_mb(), "making_rows": _made_rows}


def main() -> None:
    road, folder, n = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    task = ROADS[road](folder, n)
    begun, clock = _cpu(), time.perf_counter()
    found = task()
    seconds = time.perf_counter() - clock
    print(json.dumps({**_spent(begun), "seconds": seconds}), flush=True)
    if isinstance(found, renyi.Marginals):
        found.save(folder / "found.renyi")
    else:
        assert found[0][0] == n or len(found[0]) > 1


if __name__ == "__main__":
    main()
