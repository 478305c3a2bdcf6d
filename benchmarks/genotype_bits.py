"""The gain of the compiled loops on packed genotypes over plain loops and numpy.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/genotype_bits.py

Products of 2,000 samples and 20,000 variants on one core, the best of five CPU times.
The plain loops are straightforward code, also compiled by numba.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np

from renyi.counting.compiled import load
from renyi.genotypes import packed

SAMPLES = 2_000
VARIANTS = 20_000


@numba.njit
def plain_sums(data, values, out):
    for j in range(data.shape[0]):
        for byte in range(data.shape[1]):
            x = data[j, byte]
            for k in range(4):
                out[j, (x >> (2 * k)) & 3] += values[4 * byte + k]


@numba.njit
def plain_scores(data, points, out):
    for j in range(data.shape[0]):
        for byte in range(data.shape[1]):
            x = data[j, byte]
            for k in range(4):
                out[4 * byte + k] += points[j, (x >> (2 * k)) & 3]


@numba.njit
def plain_counts(data, out):
    for j in range(data.shape[0]):
        for byte in range(data.shape[1]):
            x = data[j, byte]
            for k in range(4):
                out[j, (x >> (2 * k)) & 3] += 1


def best(job: Callable[[], object]) -> float:
    job()
    times = []
    for _ in range(5):
        begun = time.process_time()
        job()
        times.append(time.process_time() - begun)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (VARIANTS, SAMPLES // 4), np.uint8)
    G = packed.PackedGenotypes(data, SAMPLES)
    values = rng.normal(size=SAMPLES)
    points = rng.normal(size=(VARIANTS, 4))
    shape = (VARIANTS, 4)
    jobs = {
        "agreement": (lambda: packed.agreement(G), None),
        "sums": (
            lambda: packed.sums(G, values),
            lambda: plain_sums(data, values, np.zeros(shape)),
        ),
        "scores": (
            lambda: packed.scores(G, points),
            lambda: plain_scores(data, points, np.zeros(SAMPLES)),
        ),
        "code_counts": (
            lambda: packed.code_counts(G),
            lambda: plain_counts(data, np.zeros(shape, np.int64)),
        ),
    }
    print("| product | compiled | plain loop | numpy |\n|---|---|---|---|")
    kernels = load(packed.KERNELS)
    for name, (job, plain) in jobs.items():
        seconds = []
        for loops in (kernels, None):
            packed.kernels_for = lambda *_, loops=loops: loops
            seconds.append(best(job))
        other = "–" if plain is None else f"{1e3 * best(plain):.1f} ms"
        print(f"| {name} | {1e3 * seconds[0]:.1f} ms | {other} | {seconds[1]:.2f} s |")


if __name__ == "__main__":
    main()
