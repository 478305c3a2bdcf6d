"""CPU seconds and memory as tables grow: in rows, in columns, in categories.

Every job runs once, in a separate process, with one thread. The figures are its CPU
time and the memory peak of the whole process. The table has one column of many labels
and some of eight values; every job ends with a certificate. The exponent of a series is
the slope of a line through the logarithms: 1 is linear, 2 quadratic. The seconds of a
job do not include imports; those of the command include its whole process. ``growth.py
--only TEXT`` repeats the series with this text in their titles; the others stay.
"""

from __future__ import annotations

from timing import RESULTS, Section, write  # isort: skip

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LIMIT = 300  # seconds of one job
LABELS = (2_250, 4_500, 9_000, 19_000, 38_000)
ROWS = (50_000, 200_000, 400_000)
COLUMNS = (5, 15, 40)
WIDTHS = (25_000, 100_000)
TARGETS = {9_000: (2.0, 500), 19_000: (5.0, 1_000)}


def table(
    rows: int = 200_000, labels: int = 9_000, columns: int = 5, second: int = 0
) -> pd.DataFrame:
    """Return a table whose class depends on all columns, and on chance."""
    rng = np.random.default_rng(0)
    found, score = {}, rng.logistic(size=rows)
    sizes = {"label": labels, **({"second": second} if second else {})}
    for name, size in {**sizes, **{f"x{j}": 8 for j in range(columns)}}.items():
        code = np.where(np.arange(rows) < size, np.arange(rows), 0)
        code[size:] = rng.integers(size, size=max(0, rows - size))
        found[name] = np.array([f"{name} {k}" for k in range(size)], object)[code]
        score += rng.normal(size=size)[code] / (1 if size > 8 else 2)
    return pd.DataFrame({**found, "y": np.where(score > 0, "yes", "no")})


def wide(columns: int) -> pd.DataFrame:
    """Return four rows of many columns."""
    codes = np.random.default_rng(0).integers(3, size=(4, columns))
    frame = pd.DataFrame(codes, columns=[f"column {j}" for j in range(columns)])
    return frame.assign(y=["yes", "no", "no", "yes"])


def broad(rows: int, columns: int = 3_000) -> pd.DataFrame:
    """Return some rows of many columns of two labels."""
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=(rows, columns))
    score = codes[:, :20].sum(axis=1) + rng.normal(size=rows)
    cells = np.array(["low", "high"], object)[codes]
    frame = pd.DataFrame(cells, columns=[f"column {j}" for j in range(columns)])
    return frame.assign(y=np.where(score > 10, "yes", "no"))


OTHER = {"columns of 4 rows": wide, "rows of 3,000 columns": broad}


# ---- jobs, each in a separate process


def fit(path: str) -> None:
    """Train on a frame in memory."""
    import renyi

    frame, clf = pd.read_parquet(path), renyi.RenyiClassifier()
    X, y = frame.drop(columns="y"), frame["y"]
    timed(lambda: clf.fit(X, y).certificate_)


def marginals(path: str) -> None:
    """Count a file batch by batch; save, load, and train."""
    import renyi

    place, clf = f"{path}.renyi", renyi.RenyiClassifier()

    def job() -> None:
        renyi.Marginals.from_file(path, target="y").save(place)
        assert clf.fit_marginals(renyi.Marginals.load(place)).certificate_.gamma > 0

    timed(job)


def memory(path: str) -> None:
    """Read a CSV file into memory, and count it."""
    import renyi
    from renyi.sources.files import read_table

    timed(lambda: renyi.Marginals.from_data(read_table(path), target="y"))


def streamed(path: str) -> None:
    """Count a CSV file piece by piece."""
    import renyi

    timed(lambda: renyi.Marginals.from_file(path, target="y"))


def command(path: str) -> None:
    """Run ``renyi fit`` with all that it writes."""
    from renyi.cli import main

    assert main(["fit", path, "--target", "y", "--out", f"{path}.out"]) == 0
    print(json.dumps({"seconds": time.process_time(), "mb": peak()}))


def timed(job: Any) -> None:
    start = time.process_time()
    job()
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "mb": peak()}))


def peak() -> float:
    """Return the memory peak of this process in MB, without that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if "VmHWM" in line)


JOBS = {job.__name__: job for job in (fit, marginals, command)}
JOBS |= {job.__name__: job for job in (memory, streamed)}
CSV = {"command", "memory", "streamed"}


# ---- series


def measured(job: str, path: Path) -> dict[str, float] | None:
    """Return seconds and memory of a job; None if it did not end in time."""
    call = [sys.executable, __file__, job, str(path)]
    options = {"capture_output": True, "text": True, "timeout": LIMIT}
    try:
        done = subprocess.run(call, check=True, **options)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def series(
    title: str, name: str, frames: dict[int, dict[str, Any]], jobs: tuple[str, ...]
) -> Section:
    """Measure some jobs on tables that differ in one number."""
    rows, seconds = [], {job: {} for job in jobs}
    for size, made in frames.items():
        row: dict[str, Any] = {name: f"{size:,}"}
        with tempfile.TemporaryDirectory() as folder:
            frame = table(**made) if name not in OTHER else OTHER[name](size)
            for job in jobs:
                path = Path(folder) / ("t.csv" if job in CSV else "t.parquet")
                if not path.exists():
                    write_table(frame, path)
                took = measured(job, path)
                if took is None:
                    row |= {f"{job}, CPU s": f"> {LIMIT}", f"{job}, MB": ""}
                    continue
                seconds[job][size] = took["seconds"]
                row[f"{job}, CPU s"] = f"{took['seconds']:.2f}"
                row[f"{job}, MB"] = f"{took['mb']:.0f}"
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    notes = [f"exponent of {job}: {exponent(found)}." for job, found in seconds.items()]
    if name == "labels":
        notes += [
            verdict(size, job, rows) for size in TARGETS for job in ("fit", "command")
        ]
    return Section(title, table=rows, notes=notes)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as its name says."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)


def exponent(found: dict[int, float]) -> str:
    """Return the slope of the seconds in logarithms."""
    if len(found) < 2:
        return "unknown"
    sizes, seconds = np.log(list(found)), np.log(list(found.values()))
    return f"{np.polyfit(sizes, seconds, 1)[0]:.2f}"


def verdict(size: int, job: str, rows: list[dict[str, Any]]) -> str:
    """Return whether a job meets a target; the command includes its start-up."""
    limit, most = TARGETS[size]
    row = next(row for row in rows if row["labels"] == f"{size:,}")
    seconds, mb = row[f"{job}, CPU s"], row[f"{job}, MB"]
    met = bool(mb) and float(seconds) < limit and float(mb) < most
    return (
        f"{size:,} labels in {limit:g} CPU s and {most} MB, {job}: "
        f"{'met' if met else '**not met**'}."
    )


SERIES = (
    (
        "categories: one column of many labels, 200,000 rows, 5 more columns",
        "labels",
        {n: {"labels": n} for n in LABELS},
        ("fit", "marginals", "command"),
    ),
    (
        "two columns of many labels each, 200,000 rows, 5 more columns",
        "labels of each",
        {n: {"labels": n, "second": n} for n in (2_500, 5_000, 10_000)},
        ("fit", "marginals"),
    ),
    (
        "rows: 9,000 labels, 5 more columns",
        "rows",
        {n: {"rows": n} for n in ROWS},
        ("fit", "marginals"),
    ),
    (
        "columns: 9,000 labels, 200,000 rows, more and more columns of 8 values",
        "columns",
        {n: {"columns": n} for n in COLUMNS},
        ("fit", "marginals"),
    ),
    (
        "columns: four rows",
        "columns of 4 rows",
        {n: {} for n in WIDTHS},
        ("command",),
    ),
    (
        "wide CSV files, read and counted in memory, piece by piece",
        "rows of 3,000 columns",
        {n: {} for n in (2_500, 5_000)},
        ("memory", "streamed"),
    ),
)


def benchmark(only: str) -> list[Section]:
    """Measure the series with this text in their titles; the others stay."""
    place = RESULTS / "growth.json"
    before = json.loads(place.read_text())["sections"] if only else []
    kept = {each["title"]: Section(**each) for each in before}
    return [
        series(*each) if only in each[0] or each[0] not in kept else kept[each[0]]
        for each in SERIES
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] != "--only":
        JOBS[sys.argv[1]](sys.argv[2])
    else:
        RESULTS.mkdir(exist_ok=True)
        only = sys.argv[2] if len(sys.argv) > 1 else ""
        write("growth", "CPU seconds and memory as tables grow", benchmark(only))
