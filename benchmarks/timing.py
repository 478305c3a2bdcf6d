"""Fair timing: one thread, CPU seconds, all sides in turn in one process.

Import this before numpy: it limits every thread pool to one thread. A script measures
in its own process, then starts itself once more with ``--without-fast``, where numba
cannot be imported, and writes both outcomes to ``results/``.

The tasks of a comparison take turns, so that other load on the machine affects all of
them. The columns of a table are:

* *best*: the least CPU time of the repeats; ratios are computed from it.
* *median* and *worst*: the spread.
* *first*: the first call. Compiled code is loaded in this call, or in the worst one if
  loading is worthwhile only after some use.
* *memory*: growth of the resident set during a call, in a forked copy of the process.
"""

from __future__ import annotations

import os
import sys

POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
os.environ.update(dict.fromkeys((*POOLS, "NUMBA_NUM_THREADS"), "1"))
WITHOUT_FAST = "--without-fast" in sys.argv
if WITHOUT_FAST:
    sys.modules["numba"] = None  # type: ignore[assignment]  # its import now fails

import json  # noqa: E402
import platform  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from dataclasses import asdict, dataclass, field  # noqa: E402
from importlib.metadata import PackageNotFoundError, version  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "numba", "tabmat"),
    *("highspy", "clarabel"),
)
MB = 2**20


@dataclass
class Timing:
    """CPU seconds of one task, and the memory it took."""

    task: str
    best: float
    median: float
    worst: float
    first: float
    memory_mb: float


@dataclass
class Claim:
    """A target ratio, and the measured one."""

    claim: str
    target: float
    measured: float

    @property
    def met(self) -> bool:
        return self.measured >= self.target


@dataclass
class Section:
    """One comparison; `table` contains the rows that are not timings."""

    title: str
    timings: list[Timing] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    table: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def cpu_seconds(task: Callable[[], Any]) -> float:
    """Return CPU seconds of one call, of all threads together."""
    start = time.process_time()
    task()
    return time.process_time() - start


def measure(
    tasks: Mapping[str, Callable[[], Any]], repeats: int, calls: int = 1
) -> list[Timing]:
    """Time the tasks in turn; short tasks by the mean of several `calls`.

    With several calls each task first gets one that is not timed, so that the caches
    are in the same state for all.
    """
    first = {name: cpu_seconds(task) for name, task in tasks.items()}
    memory = {name: memory_mb(task) for name, task in tasks.items()}
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            seconds[name].append(_mean_seconds(task, calls))
    return [
        Timing(name, min(s), statistics.median(s), max(s), first[name], memory[name])
        for name, s in seconds.items()
    ]


def _mean_seconds(task: Callable[[], Any], calls: int) -> float:
    if calls == 1:
        return cpu_seconds(task)
    task()
    return cpu_seconds(lambda: [task() for _ in range(calls)]) / calls


def memory_mb(task: Callable[[], Any]) -> float:
    """Return the growth of the resident set during a call, in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = _peak()
        task()
        os.write(writing, f"{(_peak() - before) / MB}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return float(text or "nan")


def _peak() -> int:
    """Return bytes; the system counts in kilobytes everywhere but on a Mac."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def faster(claim: str, target: float, ours: str, peers: list[str], of: list[Timing]):
    """Return the comparison of `ours` with the fastest of `peers`."""
    best = {timing.task: timing.best for timing in of}
    return Claim(claim, target, min(best[peer] for peer in peers) / best[ours])


def extra() -> str:
    """Return the words that distinguish the two runs of a script."""
    return "without numba" if WITHOUT_FAST else "with the extra `fast`"


def machine() -> dict[str, str]:
    """Describe the machine and the versions in use."""
    versions = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {text}" for name, text in versions.items()),
        "date": time.strftime("%Y-%m-%d"),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return models[0] if models else platform.processor() or "unknown"


def run(
    stem: str, title: str, benchmark: Callable[[], list[Section]], both: bool = True
) -> None:
    """Run a benchmark, with and without numba if `both`, and write its results."""
    if "--profile" in sys.argv:
        _profile(benchmark)
    elif WITHOUT_FAST:
        json.dump([asdict(section) for section in benchmark()], sys.stdout)
    else:
        sections = benchmark()
        if both:
            sections += _without_fast()
        write(stem, title, sections)


def _profile(benchmark: Callable[[], Any]) -> None:
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.runcall(benchmark)
    pstats.Stats(profile).sort_stats("tottime").print_stats("renyi", 25)


def _without_fast() -> list[Section]:
    command = [sys.executable, sys.argv[0], "--without-fast"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [_section(data) for data in json.loads(answer.stdout)]


def _section(data: dict[str, Any]) -> Section:
    timings = [Timing(**row) for row in data.pop("timings")]
    claims = [Claim(**row) for row in data.pop("claims")]
    return Section(timings=timings, claims=claims, **data)


def write(stem: str, title: str, sections: list[Section]) -> None:
    """Write ``results/<stem>.json`` and ``.md``; print the latter."""
    RESULTS.mkdir(exist_ok=True)
    where = machine()
    document = {
        "title": title,
        "machine": where,
        "sections": [asdict(section) for section in sections],
    }
    text = json.dumps(document, indent=1)
    (RESULTS / f"{stem}.json").write_text(text + "\n")
    lines = [f"# {title}", ""]
    for section in sections:
        lines += [f"## {section.title}", "", *_markdown(section)]
    lines += [
        f"{where['cpu']}, {where['cores']} cores, {where['system']}, one thread; "
        f"{where['versions']}; {where['date']}.",
    ]
    (RESULTS / f"{stem}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), end="\n\n", flush=True)


def _markdown(section: Section) -> list[str]:
    lines: list[str] = []
    if section.timings:
        ours = section.timings[0].best
        rows = [_timing_row(timing, ours) for timing in section.timings]
        lines += [*markdown_table(rows), ""]
    if section.table:
        lines += [*markdown_table(section.table), ""]
    for claim in section.claims:
        verdict = "met" if claim.met else "**not met**"
        lines += [
            f"* {claim.claim}: {claim.measured:.3g}×, target {claim.target:g}×, "
            f"{verdict}."
        ]
    lines += [f"* {note}" for note in section.notes]
    return [*lines, ""] if section.claims or section.notes else lines


def _timing_row(timing: Timing, ours: float) -> dict[str, str]:
    return {
        "task": timing.task,
        "best, CPU s": f"{timing.best:.4f}",
        "median": f"{timing.median:.4f}",
        "worst": f"{timing.worst:.4f}",
        "first": f"{timing.first:.4f}",
        "memory, MB": f"{timing.memory_mb:.0f}",
        "best / first row's": f"{timing.best / ours:.2f}",
    }


def markdown_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(str(r[h]) for h in heads) + " |" for r in rows]
