"""(f) Leave-one-out for 50 values of alpha, in Cholesky factorisations.

Both start from the rows as codes, and from the same matrix: D x D for tables with more
rows than categories, otherwise n x n. Training at a single given alpha takes at least
one factorisation. With more rows than categories, each row is multiplied by the
eigenvectors. That takes 2nD² multiplications and additions, where the factorisation
takes D³/3. So the cost in factorisations grows with the number of rows, for any method
that visits every row.
"""

from __future__ import annotations

from timing import Claim, Section, Timing, measure, run  # isort: skip

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import renyi
from renyi.counting.onehot import dense
from renyi.encoding.tuples import TupleEncoder
from renyi.solvers import ridge, ridge_dual
from renyi.solvers.ridge import Rows, alpha_grid, cholesky

MOST = 20
LOO, ONE, EIGEN = "leave-one-out, 50 values", "one Cholesky", "eigenvectors alone"


def made(n: int, d: int, m: int, n_classes: int = 2) -> Rows:
    """Return rows of d columns with m categories each."""
    random = np.random.default_rng(0)
    codes = random.integers(0, m, (d, n)).astype(np.uint8)
    return Rows(codes, np.full(d, m), random.integers(0, n_classes, n), n_classes)


def pairs_of(name: str, share: float = 0.7) -> Rows:
    """Return rows of a bundled set with its pairs of columns as features."""
    X, y = renyi.datasets.load(name)
    chosen = np.random.default_rng(0).permutation(len(y))[: int(share * len(y))]
    encoder, codes = TupleEncoder(order=2).fit_transform(X.iloc[chosen])
    classes, labels = np.unique(y.iloc[chosen], return_inverse=True)
    sizes = encoder.columns.sizes
    factors = encoder.factors(codes)
    return Rows(codes, sizes, labels, len(classes), factors=factors)


def tasks(rows: Rows) -> dict[str, Any]:
    """Return leave-one-out and a factorisation, both of the smaller matrix."""
    n, D, d = rows.n, int(rows.sizes.sum()), len(rows.sizes)
    grid = alpha_grid(d)
    assert len(grid) == 50
    if n < D:
        kernel = ridge_dual._kernel(rows, True)
        matrix, path = kernel.G, partial(ridge_dual._path, kernel, grid)
    else:
        W, Y = dense(rows.codes, rows.sizes), np.eye(rows.n_classes)[rows.y]
        equations = ridge.moments(W.T @ W / n, W.T @ Y / n, Y.mean(axis=0), True)
        matrix, path = equations.A, partial(ridge._fit_loo, equations, n, grid, rows)
    compared = {
        ONE: partial(cholesky, matrix, float(grid[25])),
        LOO: path,
        EIGEN: partial(np.linalg.eigh, matrix),
    }
    return {name: partial(forget, task) for name, task in compared.items()}


def forget(task: Callable[[], Any]) -> None:
    """Run a task and drop its result, so that the next call reuses its memory."""
    task()


def ratio(timings: list[Timing]) -> float:
    """Return the time of leave-one-out, in factorisations."""
    best = {timing.task: timing.best for timing in timings}
    return best[LOO] / best[ONE]


def section(name: str, rows: Rows) -> Section:
    side = min(rows.n, int(rows.sizes.sum()))
    timings = measure(tasks(rows), 5, calls=1 if side > 800 else 4)
    taken = ratio(timings)
    claim = f"{MOST} factorisations take as long as leave-one-out, or longer"
    return Section(
        f"{name}: {rows.n:,} rows, {int(rows.sizes.sum()):,} categories",
        timings,
        [Claim(claim, 1, MOST / taken)],
        notes=[f"leave-one-out for 50 values takes {taken:.1f} factorisations."],
    )


def by_height() -> Section:
    """Measure tables of 600 categories with increasing numbers of rows."""
    found = []
    for n in (700, 1200, 2400, 4800):
        for m in (2, 3, 10):
            rows = made(n, 600 // m, m)
            taken = ratio(measure(tasks(rows), 4, calls=2))
            found.append(
                {"rows": n, "categories": f"600 of {600 // m} columns", "x": taken}
            )
    table = [
        {**row, "x": f"{row['x']:.1f}", "rows / categories": f"{row['rows'] / 600:.1f}"}
        for row in found
    ]
    note = "x: factorisations that leave-one-out for 50 values takes."
    return Section("taller tables", table=table, notes=[note])


def benchmark() -> list[Section]:
    return [
        section("more categories than rows", made(500, 1000, 3)),
        section("more categories than rows", made(1500, 1000, 3)),
        section("more categories than rows, 4 classes", made(1000, 1000, 3, 4)),
        section("more rows than categories, binary columns", made(1500, 500, 2)),
        section("more rows than categories", made(1500, 300, 3)),
        section("more rows than categories, 10 labels", made(1500, 90, 10)),
        section("kr-vs-kp, pairs of columns", pairs_of("kr-vs-kp")),
        section("credit, pairs of columns", pairs_of("credit")),
        section("votes, pairs of columns", pairs_of("votes")),
        by_height(),
    ]


if __name__ == "__main__":
    title = "(f) Leave-one-out for 50 values of alpha, in Cholesky factorisations"
    run("loo", title, benchmark, both=False)
