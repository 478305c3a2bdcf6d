"""(g) Any source, any size: every input path to the marginals of 5,000,000 x 15 cells.

``bench_sources.py [--rows N] [--parts parquet csv …] [--largest N] [--folder DIR]``.
Each measurement is the first call in a separate process, on both cores. It is made
twice, because others may use the machine. The smaller CPU time and the larger memory
peak count. Programs that are compared take turns. The results of parts that are not
named stay as they were.
"""

from __future__ import annotations

from timing import RESULTS, machine, markdown_table  # isort: skip

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import rows

import renyi

PLAIN = "from_data, Arrow table in memory"
PARQUET, CSV = "from_file, Parquet", "from_file, CSV"
KINDS = ("CSV", "CSV, every cell quoted", "CSV, gzip")
READING = "DuckDB, count of every column, "
FRAMES = {"polars": "polars", "DuckDB": "duckdb", "where": "duckdb", "sql": "duckdb"}
NEEDS = {**FRAMES, "spark": "pyspark"}
ROADS = (
    PLAIN,
    PARQUET,
    CSV,
    "from_file, CSV, gzip",
    "from_file, Arrow IPC",
    "from_file, Parquet, where",
    "from_file, Parquet, sql",
    "from_arrow, pyarrow reader of Parquet",
    "from_arrow, polars frame in memory",
    "from_arrow, DuckDB relation on Parquet",
    "from_arrow, generated",
    "from_file, DuckDB table",
    "from_spark, local[2], Parquet",
)
GROWTH = tuple(k * 10**6 for k in (1, 3, 10, 30, 100))
PACKAGES = ("duckdb", "polars", "pyspark")


@dataclass
class Measured:
    """The runs of an input path, and whether its marginals were right."""

    road: str
    runs: list[dict[str, float]]
    equal: bool | None

    @property
    def best(self) -> dict[str, float]:
        return min(self.runs, key=lambda run: run["cpu"])

    @property
    def cpu(self) -> float:
        return self.best["cpu"]

    @property
    def memory_mb(self) -> float:
        return max(run["memory_mb"] for run in self.runs)

    def row(self, **more: Any) -> dict[str, Any]:
        others = [run["cpu"] for run in self.runs if run is not self.best]
        told = {None: "–", True: "yes", False: "**no**"}
        return {
            "road": self.road,
            "CPU s": f"{self.cpu:.2f}",
            "other run": f"{others[0]:.2f}" if others else "–",
            "peak memory, MB": f"{self.memory_mb:.0f}",
            "counts equal": told[self.equal],
            **more,
        }


class Bench:
    """A folder with the rows in all formats, and the marginals to expect."""

    def __init__(self, folder: Path, n: int, largest: int) -> None:
        self.folder, self.n, self.largest = folder, n, largest

    def prepare(self) -> None:
        """Write the files and count the rows in memory, unless this was done before."""
        if not (self.folder / "expected.renyi").exists():
            rows.write(self.folder, self.n)
            self._run(PLAIN, self.n)
            (self.folder / "found.renyi").rename(self.folder / "expected.renyi")

    def measure(self, *roads: str, repeats: int = 2) -> list[Measured]:
        """Measure some input paths in turn."""
        self.prepare()
        made = [Measured(road, [], None) for road in roads]
        for _ in range(repeats):
            for each in made:
                each.runs.append(self._run(each.road, self.n))
                equal = self._is_expected()
                each.equal = equal if each.equal in (None, True) else False
        return made

    def grow(self, n: int, repeats: int) -> Measured:
        """Measure a stream of `n` rows."""
        runs = [self._run("from_arrow, generated", n) for _ in range(repeats)]
        found = renyi.Marginals.load(self.folder / "found.renyi")
        return Measured(f"{n:,}", runs, found.n == n)

    def _run(self, road: str, n: int) -> dict[str, float]:
        (self.folder / "found.renyi").unlink(missing_ok=True)
        command = [sys.executable, str(Path(__file__).with_name("roads.py")), road]
        done = subprocess.run(
            [*command, str(self.folder), str(n)],
            stdout=subprocess.PIPE,
            env=_environment(),
            text=True,
        )
        if not done.stdout or (done.returncode and "killed" not in road):
            raise SystemExit(f"{road} failed.")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        print(road, {k: round(v, 2) for k, v in found.items()}, file=sys.stderr)
        return found

    def _is_expected(self) -> bool | None:
        found = self.folder / "found.renyi"
        if not found.exists():
            return None
        expected = renyi.Marginals.load(self.folder / "expected.renyi")
        return renyi.Marginals.load(found) == expected


def _environment() -> dict[str, str]:
    """Return the environment of a user, because `timing` has limited the threads."""
    gone = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {name: text for name, text in os.environ.items() if name not in gone}


def goal(what: str, measured: float, most: float, unit: str) -> str:
    verdict = "met" if measured <= most else "**not met**"
    return f"{what}: {measured:.2f}{unit}, goal at most {most:g}{unit}, {verdict}."


# ---- the parts


def parquet(bench: Bench) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure Parquet to marginals."""
    (found,) = bench.measure(PARQUET)
    gigabytes = found.memory_mb / 1024
    notes = [
        goal("CPU time", found.cpu, 2.5, " s"),
        goal("Peak memory", gigabytes, 0.6, " GB"),
    ]
    return [found.row()], notes


def csv(bench: Bench) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure CSV to marginals, and DuckDB, which only reads the file."""
    table, notes = [], []
    for kind in KINDS:
        ours, peer = bench.measure(f"from_file, {kind}", READING + kind)
        ratio = ours.cpu / peer.cpu
        table += [ours.row(**{"to DuckDB": f"{ratio:.2f}×"}), peer.row(**_BLANK)]
        if kind == "CSV":
            notes.append(goal("CSV, CPU time to DuckDB's", ratio, 1.5, "×"))
    (least,) = bench.measure("DuckDB, count(*), CSV")
    notes.append("count(*) finds the ends of rows, and makes no cell of any.")
    return [*table, least.row(**_BLANK)], notes


_BLANK = {"to DuckDB": ""}


def roads(bench: Bench) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure every input path, and check that all marginals are equal."""
    there = [road for road in ROADS if _installed(road)]
    found = [each for road in there for each in bench.measure(road)]
    table = [
        each.row(**{"seconds": f"{min(run['seconds'] for run in each.runs):.1f}"})
        for each in found
    ]
    same = sum(bool(each.equal) for each in found)
    absent = [road for road in ROADS if road not in there]
    notes = [
        f"{same} of {len(found)} roads give the marginals of the rows in memory, "
        "count for count.",
        "from_spark: Java and its workers count too, the start of the session does "
        "not; memory is the sum of the peaks of all processes. Java runs as in the "
        "tests, with its first compiler only.",
        f"from_arrow, generated: {found_making(found):.1f} s of it made the rows.",
    ]
    return table, notes + [f"Not installed here: {'; '.join(absent)}."] * bool(absent)


def found_making(found: list[Measured]) -> float:
    return max(each.best["making_rows"] for each in found)


def _installed(road: str) -> bool:
    needs = [package for word, package in NEEDS.items() if word in road]
    return all(find_spec(package) for package in needs)


def growth(bench: Bench) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure from_arrow on one to a hundred million rows, generated on the fly."""
    table = []
    for n in (n for n in GROWTH if n <= bench.largest):
        each = bench.grow(n, 1 if n > 10**7 else 2)
        counting = each.cpu - each.best["making_rows"]
        table.append(
            {
                "rows": each.road,
                "CPU s": f"{each.cpu:.1f}",
                "of these, counting": f"{counting:.2f}",
                RATE: f"{counting / n * 1e6:.3f}",
                MEMORY: f"{each.memory_mb:.0f}",
            }
        )
    return table, growth_notes(table)


def growth_notes(table: list[dict[str, Any]]) -> list[str]:
    last = table[-1]
    notes = []
    for first in table[:2]:
        memory, rate = (float(last[key]) / float(first[key]) for key in (MEMORY, RATE))
        notes.append(
            f"From {first['rows']} to {last['rows']} rows peak memory is "
            f"{memory:.2f}×, the time for a row {rate:.2f}×."
        )
    return [*notes, "Between the first two, numba is loaded: about 100 MB."]


RATE, MEMORY = "counting, CPU s per million rows", "peak memory, MB"


Part = Callable[[Bench], tuple[list[dict[str, Any]], list[str]]]
PARTS: dict[str, Part] = {each.__name__: each for each in (parquet, csv, roads, growth)}


# ---- results


def write(parts: dict[str, dict[str, Any]]) -> None:
    """Write ``results/sources.json`` and ``.md``; parts not run stay as they were."""
    place = RESULTS / "sources.json"
    before = json.loads(place.read_text()) if place.exists() else {"parts": {}}
    found = {**before["parts"], **parts}
    document = {"title": TITLE, "parts": {k: found[k] for k in PARTS if k in found}}
    place.write_text(json.dumps(document, indent=1) + "\n")
    lines = [f"# {TITLE}", "", *_INTRODUCTION, ""]
    for part in document["parts"].values():
        lines += [f"## {part['title']}", "", *markdown_table(part["table"]), ""]
        lines += [*(f"* {note}" for note in part["notes"]), ""]
        where = part["machine"]
        told = f"{where['cpu']}, {where['cores']} cores; {where['versions']}"
        lines += [f"{told}; {where['date']}.", ""]
    place.with_suffix(".md").write_text("\n".join(lines[:-1]) + "\n")
    print("\n".join(lines))


TITLE = "(g) Any source, any size"
_INTRODUCTION = [
    "CPU seconds of the first call in a fresh process, both cores; the better of two",
    "runs, the other beside it. Peak memory is that of the whole process, about 110 MB",
    "of which are there before the call. Other programs used the machine at the same",
    "time: seconds of the clock say little, and CPU times of one program vary by a",
    "fifth between runs.",
]


def _versions() -> dict[str, str]:
    where = machine()
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            where["versions"] += f", {name} {version(name)}"
    return where


@contextlib.contextmanager
def _place(given: str | None, n: int) -> Iterator[Path]:
    """Yield the folder of the files; a folder that the user named is not deleted."""
    if given is not None:
        kept = Path(given) / str(n)
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    made = Path(tempfile.mkdtemp(prefix="renyi-bench-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--largest", type=int, default=10**7, help="rows of growth")
    parser.add_argument("--folder", help="keep the files here, for other parts")
    args = parser.parse_args()
    done = {}
    with _place(args.folder, args.rows) as folder:
        bench = Bench(folder, args.rows, args.largest)
        for name in args.parts:
            table, notes = PARTS[name](bench)
            summary = (PARTS[name].__doc__ or "").rstrip(".")
            title = summary if name == "growth" else f"{args.rows:,} rows: {summary}"
            done[name] = {"title": title, "table": table, "notes": notes}
            done[name]["machine"] = _versions()
    write(done)


if __name__ == "__main__":
    main()
