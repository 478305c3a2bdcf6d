"""From a .bed file to a classifier, compared with plink1.9's n × n distances.

    python benchmarks/genotypes.py --folder /tmp/studies             # three sizes
    python benchmarks/genotypes.py --folder /tmp/studies --cases large   # 7.5 GB

Files are simulated, and stay in the folder. Every fit is a separate process. It reports
CPU seconds, seconds, peak memory, and their shares by stage. Without plink1.9 on the
PATH its row is left out. The peaks are measured on this machine in the same process.
The peak of counting is the speed of the same loop on planes in the nearest cache; the
peak of memory is a sum over an array of 1 GB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
CASES = {  # samples, variants, threads, alpha
    "plink": (2_000, 200_000, 1, 20_000.0),
    "auto": (2_000, 200_000, 1, "auto"),
    "medium": (5_000, 500_000, 2, 50_000.0),
    "wide": (503, 2_026_855, 2, "auto"),
    "large": (10_000, 3_000_000, 2, 300_000.0),
}
PROMISED = {
    "plink": "8 times faster than plink1.9 (CPU seconds)",
    "auto": "-",
    "medium": "in the order of 7 s",
    "wide": "under 10 s and 1 GB",
    "large": "130 s projected",
}
STAGES = {
    "read": "read tables",
    "agreement": "agreement",
    "fit_kernel": "factors",
    "sums": "back-projection",
    "scores": "scores",
}


def simulate(prefix: Path, n: int, d: int) -> None:
    """Write independent variants, of which a few differ between cases and controls."""
    import numpy as np

    if prefix.with_suffix(".fam").exists():
        return
    rng = np.random.default_rng(1)
    y, length = rng.integers(0, 2, n), -(-n // 4)
    with open(prefix.with_suffix(".bed"), "wb") as stream:
        stream.write(b"\x6c\x1b\x01")
        step = max(1, 8_000_000 // n)
        for low in range(0, d, step):
            m = min(step, d - low)
            p = rng.integers(13, 128, (m, 1))
            shift = (rng.random((m, 1)) < 0.02) * rng.integers(-12, 13, (m, 1))
            p = np.where(y == 1, p + shift, p).astype(np.uint8)
            copies = np.zeros((m, 4 * length), np.uint8)
            for _ in range(2):
                copies[:, :n] += rng.integers(0, 256, (m, n), np.uint8) < p
            codes = np.array([3, 2, 0], np.uint8)[copies]
            codes[:, :n][rng.integers(0, 256, (m, n), np.uint8) < 3] = 1
            codes[:, n:] = 0
            parts = [codes[:, k::4] << np.uint8(2 * k) for k in range(4)]
            stream.write((parts[0] | parts[1] | parts[2] | parts[3]).tobytes())
    with open(prefix.with_suffix(".bim"), "w") as text:
        text.writelines(f"1\tv{j}\t0\t{j + 1}\tA\tG\n" for j in range(d))
    with open(prefix.with_suffix(".fam"), "w") as text:
        text.writelines(f"f{i}\ti{i}\t0\t0\t1\t{y[i] + 1}\n" for i in range(n))


# ---- in the process that is measured


def measured(prefix: str, alpha: str) -> dict[str, object]:
    begun = time.perf_counter(), time.process_time()
    from renyi.genotypes import files as genotypes
    from renyi.genotypes import fit, packed
    from renyi.genotypes import model as genotype_model

    stages: dict[str, list[float]] = {}

    def watch(home: object, name: str, as_name: str) -> None:
        function = getattr(home, name)

        def watched(*given: object, **named: object) -> object:
            wall, cpu = time.perf_counter(), time.process_time()
            found = function(*given, **named)
            spent = stages.setdefault(as_name, [0.0, 0.0])
            spent[0] += time.perf_counter() - wall
            spent[1] += time.process_time() - cpu
            return found

        setattr(home, name, watched)

    watch(genotypes, "read_genotypes", "read")
    watch(fit, "agreement", "agreement")
    watch(genotype_model, "fit_kernel", "fit_kernel")
    watch(fit, "sums", "sums")
    watch(packed, "scores", "scores")
    loaded = time.perf_counter() - begun[0], time.process_time() - begun[1]
    G = genotypes.read_genotypes(prefix)
    given = alpha if alpha == "auto" else float(alpha)
    clf = genotype_model.GenotypeModel(given).fit(G, G.samples["phenotype"])
    wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "wall": wall,
        "cpu": cpu,
        "memory_mb": peak,
        "imports": loaded,
        "stages": stages,
        "alpha": clf.alpha_,
        "error": clf.metrics_.error,
        "auc": clf.metrics_.auc,
        "load": os.getloadavg()[0],
        "peaks": peaks(),
    }


def peaks() -> dict[str, float]:
    """Return pairs of genotypes compared, and bytes read, per second of one core."""
    import numpy as np

    from renyi.genotypes import kernels

    n = 4 * kernels.STRIP
    sides = (range(0, n, kernels.TALL), range(0, n, kernels.WIDE))
    tiles = sum(b + kernels.WIDE > a for a in sides[0] for b in sides[1])
    pairs = tiles * kernels.TALL * kernels.WIDE
    planes, variants, _ = kernels.layout(n, 1)
    given = planes, 0, False, 1, np.zeros((n, n))
    compare = kernels.subtract_differences
    best = np.inf
    for _ in range(30):
        begun = time.thread_time()
        for _ in range(100):
            compare(*given)
        best = min(best, (time.thread_time() - begun) / 100)
    array = np.ones(2**27)
    rate = 0.0
    for _ in range(3):
        begun = time.thread_time()
        array.sum()
        rate = max(rate, array.nbytes / (time.thread_time() - begun))
    return {"compared": pairs * variants / best, "read": rate}


# ---- results


def run(prefix: Path, alpha: float | str, threads: int) -> dict[str, object]:
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    here = {**os.environ, **dict.fromkeys(pools, str(threads))}
    command = [sys.executable, __file__, "--measured", f"{prefix}.bed", str(alpha)]
    found = subprocess.run(command, env=here, stdout=subprocess.PIPE, check=True)
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def plink(prefix: Path) -> float | None:
    """Return CPU seconds of plink1.9 for the distances of every two samples."""
    program = shutil.which("plink1.9") or shutil.which("plink")
    if program is None:
        return None
    out = prefix.parent / "distances"
    what = ("--distance", "ibs", "square", "bin", "--out", str(out))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [program, "--threads", "1", "--bfile", str(prefix), *what],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processor() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def table(cases: dict[str, dict]) -> str:
    lines = [
        "# Genotypes: from a .bed file to a classifier",
        "",
        f"{os.cpu_count()} cores. Seconds of a process of its own, imports and reading "
        "the tables included; the "
        "stages in seconds (CPU seconds). *load* is how many processes wanted to run: "
        "where it is above the number of cores, seconds say little, and CPU seconds "
        "are too many. The peaks are of one core: of counting, pairs of genotypes per "
        "second; of reading, bytes of the file per second of back-projection and of "
        "scores, which look genotypes up and are bound by that, not by memory.",
        "",
        "| samples × variants | threads | alpha | seconds | CPU | peak memory | "
        + " | ".join(STAGES.values())
        + " | of counting peak | of reading peak | load | promised | processor | "
        "samples compared by |",
        "|" + "---|" * (12 + len(STAGES)),
    ]
    for name, case in cases.items():
        stages = [case["stages"].get(stage, [0, 0]) for stage in STAGES]
        n, d = case["n"], case["d"]
        speed = n * (n + 1) / 2 * d / max(case["stages"]["agreement"][1], 1e-9)
        read = [
            100 * -(-n // 4) * d / case["stages"][stage][1] / case["peaks"]["read"]
            for stage in ("sums", "scores")
        ]
        lines.append(
            f"| {n:,} × {d:,} | {case['threads']} | {case['asked']} | "
            f"{case['wall']:.1f} | {case['cpu']:.1f} | {case['memory_mb']:,.0f} MB | "
            + " | ".join(f"{wall:.2f} ({cpu:.2f})" for wall, cpu in stages)
            + f" | {100 * speed / case['peaks']['compared']:.0f} % "
            f"| {read[0]:.0f} and {read[1]:.0f} % | {case['load']:.1f} "
            f"| {PROMISED[name]} | {case['processor']} | {case.get('way', 'planes')} |"
        )
    for case in cases.values():
        if case.get("plink") is not None:
            fit = case["cpu"] - case["imports"][1]
            lines += [
                "",
                f"plink1.9 --distance ibs, one thread, {case['n']:,} × {case['d']:,}: "
                f"{case['plink']:.1f} CPU seconds, {case['plink'] / case['cpu']:.1f} "
                f"times as many as here (alpha {case['asked']}) for everything, "
                f"{case['plink'] / fit:.1f} times without imports.",
            ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the files are made")
    default = ["plink", "auto", "medium", "wide"]
    parser.add_argument("--cases", nargs="+", choices=CASES, default=default)
    parser.add_argument("--name", default="genotypes", help="of the results")
    parser.add_argument("--measured", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measured:
        print(json.dumps(measured(*args.measured)))
        return
    if args.folder is None:
        parser.error("--folder names where the simulated files go, some gigabytes")
    args.folder.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / f"{args.name}.json"
    cases = json.loads(kept.read_text()) if kept.exists() else {}
    for name in args.cases:
        n, d, threads, alpha = CASES[name]
        prefix = args.folder / f"study_{n}_{d}"
        simulate(prefix, n, d)
        case = run(prefix, alpha, threads)
        if name in ("plink", "auto"):
            case["plink"] = plink(prefix)
        case["processor"] = processor()
        cases[name] = {**case, "n": n, "d": d, "threads": threads, "asked": alpha}
        print(table({name: cases[name]}).splitlines()[6:], flush=True)
    cases = {name: cases[name] for name in CASES if name in cases}
    kept.write_text(json.dumps(cases, indent=1) + "\n")
    kept.with_suffix(".md").write_text(table(cases))


if __name__ == "__main__":
    main()
