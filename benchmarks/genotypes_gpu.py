"""Packed genotypes on a GPU: products, training by conjugate gradients, the transfer.

    python benchmarks/genotypes_gpu.py                # an H200: 75 GB of genotypes
    python benchmarks/genotypes_gpu.py --scale 0.1    # a smaller one

First the numbers are compared with the CPU's on small tables. Then genotypes are
generated on the GPU, *independent* or with *linkage*. With linkage, a haplotype stays
at one position of a circle for 200 variants on average, and a variant's second allele
is an arc of the circle. Neighbouring variants are correlated because arcs overlap. The
phenotype is a noisy score of 1 % of the variants, cut at its mean. Training is the dual
problem ``(HAH/d + ratio) a = H y`` to a residual of 1e-5, and the points of all
variants.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import date
from functools import partial
from pathlib import Path

import cupy as cp
import numpy as np

from renyi.genotypes import gpu, packed
from renyi.solvers.krylov import conjugate_gradients

RESULTS = Path(__file__).parent / "results"
PEAK = 4.8e12  # bytes per second of an H200, by its maker
SIMULATE = r"""
typedef unsigned int u32;
__device__ u32 mix(u32 x) {
  x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; return x ^ x >> 16;
}
extern "C" __global__ void simulate(u32 *G, long long d, int words, int n, int kept,
                                    u32 seed) {
  int w = blockIdx.x * blockDim.x + threadIdx.x;
  if (w >= words) return;
  for (long long j = blockIdx.y; j < d; j += gridDim.y) {
    u32 at = mix((u32)j + seed), begin = mix(at), out = 0;
    u32 arc = 0x0ccccccdU + __umulhi(mix(at ^ 1), 0x73333333U);
    for (int k = 0; k < 16 && 16 * w + k < n; k++) {
      u32 copies = 0;
      for (u32 side = 0; side < 2; side++) {
        u32 h = mix(2u * (16u * w + k) + side + seed);
        u32 piece = kept ? (u32)((j + h % kept) / kept) : (u32)j;
        copies += mix(h + piece * 0x9e3779b9U) - begin < arc;
      }
      out |= (copies == 0 ? 0u : copies + 1) << 2 * k;
    }
    G[j * words + w] = out;
  }
}
"""


def simulated(n, d, kept, seed=1):
    """Return genotypes on the GPU; `kept` variants stay linked, 0 for none."""
    data = cp.zeros((d, gpu.row_bytes(n)), cp.uint8)
    words = data.shape[1] // 4
    kernel = cp.RawKernel(SIMULATE, "simulate")
    arguments = (data, np.int64(d), np.int32(words), np.int32(n))
    kernel(
        (-(-words // 128), 4_096), (128,), (*arguments, np.int32(kept), np.uint32(seed))
    )
    cp.cuda.Device().synchronize()
    return on_device(data, n)


def on_device(data, n):
    """Wrap genotypes of n samples, a CuPy array (variants, `gpu.row_bytes(n)`)."""
    G = gpu.DeviceGenotypes.__new__(gpu.DeviceGenotypes)
    G.n = n
    G.d = len(data)
    G._pitch = gpu.row_bytes(n)
    G._data = data
    return G


def phenotype(G, rng):
    """Return a centred phenotype of two classes, from 1 % of the variants and noise."""
    points = np.zeros((G.d, 4))
    chosen = rng.choice(G.d, max(1, G.d // 100), replace=False)
    points[chosen] = rng.normal(size=(len(chosen), 4))
    s = G.scores(points)
    y = (s + rng.normal(size=G.n) * s.std() > s.mean()).astype(float)
    return y - y.mean()


def seconds(function, repeats=5):
    """Return the median seconds of some calls, by the clock of the GPU."""
    function()
    taken = []
    for _ in range(repeats):
        begun, ended = cp.cuda.Event(), cp.cuda.Event()
        begun.record()
        function()
        ended.record()
        ended.synchronize()
        taken.append(cp.cuda.get_elapsed_time(begun, ended) / 1e3)
    return float(np.median(taken))


def train(G, y, ratio):
    """Return points, rounds and residual of the dual problem."""

    def multiply(V):
        V = V - V.mean(axis=0)
        U = G.gram(V) / G.d
        return U - U.mean(axis=0)

    found = conjugate_gradients(multiply, y[:, None], ratio, np.zeros(G.n), 1e-5)
    return G.sums(found.Z[:, 0] / G.d), found.rounds, found.residual


def equality():
    """Return the largest differences from the CPU, relative to the largest number."""
    rng, worst = np.random.default_rng(0), dict.fromkeys(("sums", "scores"), 0.0)
    exact = True
    for d, n in ((1, 1), (3, 5), (17, 33), (100, 257), (1_000, 300), (333, 4_099)):
        whole = packed.PackedGenotypes.from_codes(rng.integers(0, 4, (d, n)))
        some = whole.take(rng.random(n) < 0.7, rng.random(d) < 0.7)
        for G in (whole, some):
            if not G.n or not G.d:
                continue
            D = gpu.DeviceGenotypes(G)
            z, V = rng.normal(size=(G.d, 4, 3)), rng.normal(size=(G.n, 3))
            for name, given in (("scores", z), ("sums", V)):
                right = getattr(packed, name)(G, given)
                off = np.abs(getattr(D, name)(given) - right).max()
                worst[name] = max(worst[name], float(off / np.abs(right).max()))
            exact &= np.array_equal(D.agreement(), packed.agreement(G))
    assert exact, "agreement counts differ from the CPU's"
    assert max(worst.values()) < 1e-8, worst
    n, d = 400, 5_000
    G = packed.PackedGenotypes.from_codes(rng.integers(0, 4, (d, n)))
    D = gpu.DeviceGenotypes(G)
    y = phenotype(D, rng)
    A = packed.agreement(G) / d
    H = np.eye(n) - 1 / n
    a = np.linalg.solve(H @ A @ H + np.eye(n), y)
    right = packed.sums(G, a / d)
    off = np.abs(train(D, y, 1.0)[0] - right).max() / np.abs(right).max()
    assert off < 1e-4, off
    return {**worst, "agreement": 0.0, "points": float(off)}


def products(n, d):
    """Measure bytes per second of a pass over the genotypes, by number of vectors."""
    G, out = simulated(n, d, 0), []
    size = d * gpu.row_bytes(n)
    for k in (1, 2):
        v, z = cp.random.standard_normal((k, n)), cp.random.standard_normal((k, d, 4))
        for name, call, given in (("sums", G._sums, v), ("scores", G._scores, z)):
            taken = seconds(partial(call, given))
            rate = size / taken
            out.append({"product": name, "vectors": k, "seconds": taken, "rate": rate})
    half = cp.empty(2**33, cp.uint8)
    other = cp.empty_like(half)
    taken = seconds(lambda: cp.copyto(other, half))
    out.append({"product": "copy", "seconds": taken, "rate": 2 * half.nbytes / taken})
    return out


def training(n, d):
    """Measure rounds and seconds to a residual of 1e-5."""
    rng, out = np.random.default_rng(0), []
    for name, kept in (("independent", 0), ("linkage", 200)):
        G = simulated(n, d, kept)
        y = phenotype(G, rng)
        for ratio in (1.0, 0.1):
            begun = time.perf_counter()
            points, rounds, residual = train(G, y, ratio)
            taken = time.perf_counter() - begun
            s = G.scores(points)
            right = float(((s > s.mean()) == (y > 0)).mean())
            out.append(
                {
                    "variants": name,
                    "ratio": ratio,
                    "rounds": rounds,
                    "residual": residual,
                    "seconds": taken,
                    "right": right,
                }
            )
            print(out[-1], flush=True)
        del G
        cp.get_default_memory_pool().free_all_blocks()
    return out


def transfer(n, d):
    """Measure seconds from genotypes in the machine's memory to points."""
    made = simulated(n, d, 200)
    y = phenotype(made, np.random.default_rng(0))
    data = np.empty((d, -(-n // 4)), np.uint8)
    for low in range(0, d, 10_000):
        data[low : low + 10_000] = made._data[low : low + 10_000, : data.shape[1]].get()
    del made
    cp.get_default_memory_pool().free_all_blocks()
    begun = time.perf_counter()
    G = gpu.DeviceGenotypes(packed.PackedGenotypes(data, n))
    cp.cuda.Device().synchronize()
    there = time.perf_counter()
    _, rounds, residual = train(G, y, 1.0)
    ended = time.perf_counter()
    return {
        "transfer": there - begun,
        "training": ended - there,
        "rounds": rounds,
        "residual": residual,
        "seconds": ended - begun,
    }


def agreement(n, d):
    """Measure seconds for the exact agreement of all samples."""
    G = simulated(n, d, 200)
    G.agreement()
    begun = time.perf_counter()
    G.agreement()
    return {"seconds": time.perf_counter() - begun}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the variants")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()

    def size(n, d):
        return n, max(64, int(d * args.scale))

    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found = {
        "date": str(date.today()),
        "machine": f"{name}, CuPy {cp.__version__}, Python {platform.python_version()}",
        "sizes": {
            "large": size(100_000, 3_000_000),
            "long": size(340_000, 500_000),
            "exact": size(10_000, 3_000_000),
        },
    }
    found["equality"] = equality()
    print(found["equality"], flush=True)
    for key, function, which in (
        ("products", products, "large"),
        ("training", training, "large"),
        ("transfer", transfer, "long"),
        ("agreement", agreement, "exact"),
    ):
        found[key] = function(*found["sizes"][which])
        cp.get_default_memory_pool().free_all_blocks()
        print(key, found[key], flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "genotypes_gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    (args.out / "genotypes_gpu.md").write_text(report(found))


def report(found):
    n, d = found["sizes"]["large"]
    lines = [
        "# Packed genotypes on a GPU",
        "",
        f"{found['date']}, {found['machine']}; written by "
        "`benchmarks/genotypes_gpu.py`.",
        "",
        "Largest differences from the CPU on small tables, as a share of the largest "
        + "number: "
        + ", ".join(f"{k} {v:.0e}" for k, v in found["equality"].items())
        + " (points: trained to a residual of 1e-5, against a direct solution).",
        "",
        f"One pass over {n:,} samples × {d:,} variants, "
        f"{d * gpu.row_bytes(n) / 1e9:.1f} GB packed:",
        "",
        "| product | vectors | seconds | GB/s | of 4.8 TB/s |",
        "|---|---|---|---|---|",
    ]
    for row in found["products"]:
        lines.append(
            f"| {row['product']} | {row.get('vectors', '')} | {row['seconds']:.4f} | "
            f"{row['rate'] / 1e9:,.0f} | {row['rate'] / PEAK:.0%} |"
        )
    lines += [
        "",
        "Copy: device to device, bytes read and written. Training to a residual of "
        "1e-5, by alpha·n/d (ratio):",
        "",
        "| variants | ratio | rounds | residual | seconds | right on these samples |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["training"]:
        lines.append(
            f"| {row['variants']} | {row['ratio']} | {row['rounds']} | "
            f"{row['residual']:.1e} | {row['seconds']:.2f} | {row['right']:.1%} |"
        )
    row, (n, d) = found["transfer"], found["sizes"]["long"]
    lines += [
        "",
        f"{n:,} × {d:,} with linkage, from the memory of the machine: transfer "
        f"{row['transfer']:.1f} s, training {row['training']:.1f} s "
        f"({row['rounds']} rounds, residual {row['residual']:.1e}), "
        f"{row['seconds']:.1f} s in all.",
    ]
    (n, d), row = found["sizes"]["exact"], found["agreement"]
    lines += [
        "",
        f"Exact agreement counts of {n:,} × {d:,}: {row['seconds']:.2f} s.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
