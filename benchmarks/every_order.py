"""Every order at once: time and memory against rows, on a CPU and on a GPU.

    python benchmarks/every_order.py          # CPU, and a GPU if there is CuPy

Tables are generated: columns of 8 categories, of which every pair adds to a score, and
18 classes that cut this score; one more is 20 columns of 5 categories and two classes.
All rows are different. CPU and GPU are first compared on small random tables.
"""

from __future__ import annotations

from timing import Section, memory_mb, write  # isort: skip  # before numpy

import time
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd

from renyi import KernelRenyiClassifier

TITLE = "Every order at once: time and memory"
SMALL = 60  # tables on which CPU and GPU are compared
UNSEEN = 4_000  # rows to predict
CPU_ROWS = (1_000, 2_000, 5_000)
GPU_ROWS = (5_000, 10_000, 20_000, 40_000)

Table = tuple[pd.DataFrame, np.ndarray]


def endgame(n: int, n_classes: int = 18) -> Table:
    """Return different rows of six columns; the class depends on all pairs of them."""
    rng = np.random.default_rng(0)
    cells = rng.permutation(8**6)[:n]
    codes = np.stack(np.unravel_index(cells, (8,) * 6), axis=1)
    score = rng.normal(0, 0.3, n)
    for i in range(6):
        for j in range(i):
            score += rng.normal(0, 1, (8, 8))[codes[:, i], codes[:, j]]
    edges = np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1])
    X = pd.DataFrame(codes, columns=[*"abcdef"]).astype(str)
    return X, np.searchsorted(edges, score)


def wide(n: int) -> Table:
    """Return rows of 20 columns and two classes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (n, 20))
    score = 1.0 * (codes[:, 0] == codes[:, 1]) + (codes[:, 2] > 2) + rng.normal(size=n)
    X = pd.DataFrame(codes).add_prefix("x").astype(str)
    return X, (score > 1).astype(int)


def classifier(device: str) -> KernelRenyiClassifier:
    return KernelRenyiClassifier(device=device, random_state=0)


def cpu_row(title: str, table: Table) -> dict[str, str]:
    """Return CPU seconds and memory of a fit."""
    X, y = table
    begun = time.process_time()
    clf = classifier("cpu").fit(X, y)
    seconds = time.process_time() - begun
    return {
        "table": title,
        "fit, CPU s": f"{seconds:.1f}",
        "memory, MB": f"{memory_mb(lambda: classifier('cpu').fit(X, y)):,.0f}",
        "left-out error, %": f"{100 * clf.loo_error_:.1f}",
    }


def gpu_row(n: int) -> dict[str, str]:
    """Return seconds of a fit and of predictions, and memory of the GPU."""
    import cupy

    X, y = endgame(n + UNSEEN)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    begun = time.perf_counter()
    clf = classifier("cuda").fit(X[:n], y[:n])
    fitted = time.perf_counter()
    error = 1 - clf.score(X[n:], y[n:])
    ended = time.perf_counter()
    return {
        "rows": f"{n:,}",
        "fit, s": f"{fitted - begun:.2f}",
        f"predict {UNSEEN:,} rows, s": f"{ended - fitted:.2f}",
        "GPU memory, GB": f"{pool.total_bytes() / 1e9:.1f}",
        "left-out error, %": f"{100 * clf.loo_error_:.1f}",
        "error on unseen rows, %": f"{100 * error:.1f}",
    }


def small_table(rng: np.random.Generator) -> Table:
    """Return a random table in which every column has two categories or more."""
    n = int(rng.integers(20, 400))
    K = int(rng.choice([2, 3, 6]))
    sizes = rng.integers(2, 6, int(rng.integers(1, 9)))
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    codes[:2] = [[0], [1]]
    y = rng.integers(0, K, n)
    y[:K] = np.arange(K)
    return pd.DataFrame(codes).add_prefix("x").astype(str), y


def largest_difference() -> float:
    """Compare scores, probabilities and left-out errors of CPU and GPU."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(SMALL):
        X, y = small_table(rng)
        weights = rng.integers(1, 4, len(y))
        one = classifier("cpu").fit(X, y, weights)
        other = classifier("cuda").fit(X, y, weights)
        choices = [(clf.form_, clf.rho_, clf.alpha_) for clf in (one, other)]
        assert choices[0] == choices[1], choices
        new = X.where(rng.random(X.shape) < 0.9, "unseen")
        pairs = [
            (one.decision_function(new), other.decision_function(new)),
            (one.predict_proba(new), other.predict_proba(new)),
            (one.loo_error_ or 0.0, other.loo_error_ or 0.0),
        ]
        off = max(float(np.abs(np.subtract(a, b)).max()) for a, b in pairs)
        largest = max(largest, off)
    return largest


def sections() -> list[Section]:
    rows = [cpu_row("5,000 × 20, 2 classes", wide(5_000))]
    for n in CPU_ROWS:
        rows.append(cpu_row(f"{n:,} × 6, 18 classes", endgame(n)))
    notes = ["Memory: growth of the process during a fit."]
    parts = [Section("CPU, one thread", table=rows, notes=notes)]
    write("every_order", TITLE, parts)
    if find_spec("cupy") is None:
        print("no CuPy: the GPU is left out")
        return parts
    import cupy

    largest = largest_difference()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    gpu_row(1_000)  # compiles the kernels
    rows = [gpu_row(n) for n in GPU_ROWS]
    notes = [
        f"{name}, CuPy {cupy.__version__}; all different rows are solved for exactly.",
        f"Largest difference between CPU and GPU on {SMALL} small random tables, in "
        f"scores, probabilities and left-out errors: {largest:.0e}.",
    ]
    title = "GPU: six columns, 18 classes"
    return [*parts, Section(title, table=rows, notes=notes)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write("every_order", TITLE, sections())
