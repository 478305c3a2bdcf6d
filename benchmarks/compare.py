"""Compare two checkouts: is any job slower, or does it use more memory?

``compare.py OLD NEW [--jobs wide tall …] [--repeats 7]``. Every job runs in a separate
process, the two checkouts in turn. Jobs use only public names and commands, so that old
and new code can run them. A process makes its data, and calls the job once untimed if
users would not notice the loading of compiled code. Then it reports the CPU seconds of
the next calls and its memory peak. For a command, both figures are of its process. The
table shows medians. Both checkouts are compiled to bytecode first.
"""

from __future__ import annotations

from timing import RESULTS, machine, markdown_table  # isort: skip

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Job = Callable[[], Any]
LIMIT = 1.10


def wide() -> Job:
    import renyi

    X, y = renyi.datasets.make_linear(200, 10_000, random_state=10)
    return lambda: renyi.RenyiClassifier(alpha=10.0).fit(X[:170], y[:170])


def wide_auto() -> Job:
    import renyi

    X, y = renyi.datasets.make_linear(200, 10_000, random_state=10)
    return lambda: renyi.RenyiClassifier().fit(X[:170], y[:170])


def _tall() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, (1_000_000, 20))
    return X, (X[:, 0] + X[:, 1] + rng.integers(0, 10, len(X)) > 13).astype(int)


def tall() -> Job:
    import renyi

    X, y = _tall()
    return lambda: renyi.RenyiClassifier(alpha=1e-4).fit(X, y)


def predict() -> Job:
    import renyi

    X, y = _tall()
    clf = renyi.RenyiClassifier(alpha=1e-4).fit(X[:100_000], y[:100_000])
    return lambda: clf.predict(X)


def adult() -> Job:
    import renyi

    X, y = renyi.datasets.load("adult")
    return lambda: renyi.RenyiClassifier().fit(X, y)


def votes() -> Job:
    import renyi

    X, y = renyi.datasets.load("votes")
    return lambda: renyi.RenyiClassifier().fit(X, y).certificate_


def order_two() -> Job:
    import renyi

    X, y = renyi.datasets.load("credit")
    return lambda: renyi.RenyiClassifier(order=2).fit(X, y).certificate_


def marginals_conditional() -> Job:
    import renyi

    X, y = renyi.datasets.load("adult")
    return lambda: renyi.Marginals.from_data(X, y, class_conditional=True)


def selector() -> Job:
    import renyi

    X, y = renyi.datasets.load("kr-vs-kp")
    return lambda: renyi.RenyiSelector(n_features=6).fit(X, y)


def selection() -> Job:
    import renyi

    X, y = renyi.datasets.load("adult")
    m = renyi.Marginals.from_data(X, y)
    return lambda: renyi.selection_path(m)


def minimax_lp() -> Job:
    import renyi

    X, y = renyi.datasets.load("kr-vs-kp")
    m = renyi.Marginals.from_data(X, y)
    return lambda: renyi.minimax(m, method="lp")


def minimax_exact() -> Job:
    import renyi

    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    return lambda: renyi.minimax(m, method="exact")


def certify_lp() -> Job:
    import renyi

    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    clf = renyi.RenyiClassifier(alpha=0.01).fit_marginals(m)
    return lambda: renyi.certify(clf, m, level="lp")


def theta() -> Job:
    import renyi

    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X.iloc[:, :8], y)
    return lambda: renyi.theta(m)


def dcc() -> Job:
    import renyi

    X, y = renyi.datasets.load("votes")
    return lambda: renyi.baselines.DiscreteChebyshevClassifier().fit(X, y)


def gdcc() -> Job:
    import renyi

    X, y = renyi.datasets.load("votes")
    model = renyi.baselines.DiscreteChebyshevClassifier(structure="greedy")
    return lambda: model.fit(X, y)


def tan() -> Job:
    import renyi

    X, y = renyi.datasets.load("adult")
    return lambda: renyi.baselines.TreeAugmentedNaiveBayes().fit(X, y)


def mpm() -> Job:
    import renyi

    X, y = renyi.datasets.load("kr-vs-kp")
    return lambda: renyi.baselines.MinimaxProbabilityMachine().fit(X, y)


def _file(kind: str, n: int = 1_000_000) -> Path:
    import rows

    folder = Path(tempfile.gettempdir()) / f"renyi-compare-{n}"
    if not folder.exists():
        folder.mkdir()
        rows.write(folder, n)
    return folder / f"rows.{kind}"


def _of_file(kind: str) -> Job:
    import renyi

    place = _file(kind)
    return lambda: renyi.Marginals.from_file(place, target="outcome")


def parquet() -> Job:
    return _of_file("parquet")


def csv() -> Job:
    return _of_file("csv")


def csv_gz() -> Job:
    return _of_file("csv.gz")


def _command(*words: str | Path) -> Job:
    call = [sys.executable, "-m", "renyi", *map(str, words)]
    return lambda: subprocess.run(call, check=True, capture_output=True)


def _fit(file: str | Path, *options: str) -> Job:
    out = Path(tempfile.mkdtemp()) / "model"
    return _command("fit", file, *options, "--out", out)


def fit_votes() -> Job:
    return _fit("votes")


def fit_csv() -> Job:
    return _fit(_file("csv"), "--target", "outcome")


def fit_parquet() -> Job:
    return _fit(_file("parquet"), "--target", "outcome")


def fit_halves() -> Job:
    return _fit("adult", "--confidence", "0.95")


def predict_csv() -> Job:
    model = Path(tempfile.mkdtemp()) / "model"
    _command("fit", _file("csv"), "--target", "outcome", "--out", model)()
    answers = model.with_suffix(".csv")
    return _command("predict", f"{model}.json", _file("csv"), "--out", answers)


def _count_table(path: Path) -> Job:
    out = Path(tempfile.mkdtemp()) / "counts.renyi"
    options = ("--table", "t", "--target", "outcome", "--out", out)
    return _command("marginals", "build", path, *options)


def genotypes() -> Job:
    import renyi

    n_samples = 1_000
    n_variants = 50_000
    stem = Path(tempfile.mkdtemp()) / "study"
    rng = np.random.default_rng(0)
    calls = rng.integers(0, 256, (n_variants, n_samples // 4), np.uint8)
    stem.with_suffix(".bed").write_bytes(b"\x6c\x1b\x01" + calls.tobytes())
    variants = (f"1\trs{i}\t0\t{i + 1}\tA\tG\n" for i in range(n_variants))
    stem.with_suffix(".bim").write_text("".join(variants))
    samples = (f"{i} {i} 0 0 1 {1 + i % 2}\n" for i in range(n_samples))
    stem.with_suffix(".fam").write_text("".join(samples))
    G = renyi.read_genotypes(stem.with_suffix(".bed"))
    return lambda: renyi.GenotypeClassifier().fit(G, G.samples["phenotype"])


def duckdb() -> Job:
    import duckdb

    place = _file("parquet")
    path = place.with_suffix(".duckdb")
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{place}'")
    return _count_table(path)


def sqlite() -> Job:
    import sqlite3

    import pyarrow.parquet

    table = pyarrow.parquet.read_table(_file("parquet")).slice(0, 300_000)
    path = _file("parquet").with_suffix(".db")
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    names = ", ".join(f'"{name}"' for name in table.column_names)
    marks = ", ".join("?" * table.num_columns)
    connection.execute(f"CREATE TABLE t ({names})")
    cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
    connection.executemany(f"INSERT INTO t VALUES ({marks})", cells)
    connection.commit()
    connection.close()
    return _count_table(path)


# Milliseconds: several calls after one that warms up. Seconds: the first call counts.
FAST = {wide: 20, wide_auto: 5, votes: 10, predict: 3, marginals_conditional: 3}
ONCE = (
    *(tall, adult, order_two, selector, selection, minimax_lp, minimax_exact),
    *(certify_lp, theta, dcc, gdcc, tan, mpm, parquet, csv, csv_gz, genotypes),
)
COMMANDS = (fit_votes, fit_csv, fit_parquet, fit_halves, predict_csv, duckdb, sqlite)
JOBS = {job.__name__: job for job in (*FAST, *ONCE, *COMMANDS)}


def child(name: str) -> None:
    """Run one job in this process; print its CPU seconds and its peak of memory."""
    job = JOBS[name]
    call = job()
    calls = FAST.get(job, 1)
    if job in FAST:
        call()
    who = resource.RUSAGE_CHILDREN if job in COMMANDS else resource.RUSAGE_SELF
    before = resource.getrusage(who)
    for _ in range(calls):
        call()
    after = resource.getrusage(who)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu": seconds / calls, "memory_mb": after.ru_maxrss / 1024}))


def measured(checkout: Path, name: str) -> dict[str, float]:
    """Run one job of a checkout in a separate process."""
    paths = [str(checkout / "src"), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, __file__, "--child", name],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{checkout}, {name}: {done.stderr.strip().splitlines()[-1]}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def compared(old: Path, new: Path, name: str, repeats: int) -> dict[str, Any]:
    """Time a job in turn on both sides."""
    runs: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for _ in range(repeats):
        runs["old"].append(measured(old, name))
        runs["new"].append(measured(new, name))
    middle = {
        side: {key: statistics.median(r[key] for r in of) for key in of[0]}
        for side, of in runs.items()
    }
    ratio = middle["new"]["cpu"] / middle["old"]["cpu"]
    memory = middle["new"]["memory_mb"] / middle["old"]["memory_mb"]
    return {
        "job": name,
        "old, CPU s": f"{middle['old']['cpu']:.4f}",
        "new, CPU s": f"{middle['new']['cpu']:.4f}",
        "new / old": f"{ratio:.2f}",
        "old, MB": f"{middle['old']['memory_mb']:.0f}",
        "new, MB": f"{middle['new']['memory_mb']:.0f}",
        "memory": f"{memory:.2f}",
        "within 10 %": "yes" if max(ratio, memory) <= LIMIT else "**no**",
    }


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("old", type=Path, nargs="?")
    words.add_argument("new", type=Path, nargs="?")
    words.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    words.add_argument("--repeats", type=int, default=7)
    words.add_argument("--child", choices=JOBS)
    args = words.parse_args()
    if args.child:
        child(args.child)
        return
    for checkout in (args.old, args.new):  # else each process compiles its imports
        compileall.compile_dir(checkout / "src", quiet=2)
    kept = RESULTS / "compare.json"
    measurements = {}  # only those of this run: others may be of another machine
    for name in args.jobs:
        measurements[name] = compared(args.old, args.new, name, args.repeats)
        print(measurements[name], flush=True)
        rows = [measurements[job] for job in JOBS if job in measurements]
        kept.write_text(
            json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n"
        )
        where = machine()
        lines = [
            "# Before and after, job by job",
            "",
            f"Medians of {args.repeats} processes each, in turn; CPU seconds.",
            "",
            *markdown_table(rows),
            "",
            f"{where['cpu']}, {where['cores']} cores; {where['versions']}; "
            f"{where['date']}.",
        ]
        (RESULTS / "compare.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
