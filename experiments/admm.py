"""ADMM for the l1,∞ problem, as the paper suggests: an independent second solver.

    min_z  zᵀQz − dvecᵀz + λ Σ_i max_k |w_i(k)|    subject to  z = w

(With K columns the first terms are ``½ tr ZᵀQZ − tr FᵀZ``.) Three steps alternate. z
solves a ridge system; w is z + v minus its projection on an l1 ball, by feature; v
accumulates the differences. One eigendecomposition is enough for all step sizes. The
step size is doubled or halved until the two residuals are of the same order.

As a script it compares both solvers on a bundled data set:

    python -m experiments.admm votes
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST = 50_000
CHECK = 20  # iterations between two looks at the residuals
BALANCE = 10.0


def project(v: Floats, radius: float) -> Floats:
    """Return the nearest point of the l1 ball: soft thresholding at the right level."""
    size = np.abs(v)
    if size.sum() <= radius:
        return v.copy()
    falling = np.sort(size.ravel())[::-1]
    levels = (np.cumsum(falling) - radius) / np.arange(1, falling.size + 1)
    level = levels[np.flatnonzero(falling > levels)[-1]]
    return np.asarray(np.sign(v) * np.maximum(size - level, 0))


def shrink(x: Floats, sizes: Sequence[int], threshold: float) -> Floats:
    """Return the proximal step of threshold · Σ max|x_i|, by Moreau's identity."""
    blocks = np.split(x, np.cumsum(sizes)[:-1])
    return np.concatenate([block - project(block, threshold) for block in blocks])


def objective(
    Q: Floats, target: Floats, sizes: Sequence[int], penalty: float, z: Floats
) -> float:
    """Return the value of the problem, without the constant of γ."""
    weight = 1.0 if target.ndim == 1 else 0.5
    largest = [np.abs(block).max() for block in np.split(z, np.cumsum(sizes)[:-1])]
    smooth = weight * (z * (Q @ z)).sum() - 2 * weight * (_half(target) * z).sum()
    return float(smooth + penalty * sum(largest))


def _half(target: Floats) -> Floats:
    """Return R of ``w(tr ZᵀQZ − 2 tr RᵀZ)``: dvec/2, or F itself."""
    return target / 2 if target.ndim == 1 else target


def solve(
    Q: Floats,
    target: Floats,
    sizes: Sequence[int],
    penalty: float,
    tol: float = 1e-9,
) -> Floats:
    """Return the solution w; for an intercept, Q and target must be centred."""
    weight = 1.0 if target.ndim == 1 else 0.5
    values, vectors = np.linalg.eigh(2 * weight * Q)
    linear = 2 * weight * _half(target)
    rho = max(float(values.mean()), 1e-3)
    w, v = np.zeros_like(linear), np.zeros_like(linear)
    for step in range(MOST):
        right = vectors.T @ (linear + rho * (w - v))
        shape = (len(values),) + (1,) * (linear.ndim - 1)
        z = vectors @ (right / (values + rho).reshape(shape))
        before, w = w, shrink(z + v, sizes, penalty / rho)
        v = v + z - w
        primal = np.abs(z - w).max()
        dual = rho * np.abs(w - before).max()
        if primal <= tol and dual <= tol:
            break
        if step % CHECK == CHECK - 1 and step < MOST // 2:
            factor = 2.0 if primal > BALANCE * dual else 1.0
            factor = 0.5 if dual > BALANCE * primal else factor
            rho, v = rho * factor, v / factor
    return w


def main(name: str = "votes") -> None:
    """Print the objectives of both solvers along a path."""
    import renyi
    from renyi.solvers.l1inf import CountsProblem
    from renyi.solvers.l1inf_path import penalty_grid, solve_path

    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y)
    sizes = [len(m.categories[feature]) for feature in m.feature_names]
    lengths = np.array(sizes)
    problem = CountsProblem(m.Q, m.F, m.class_probabilities, lengths, m.n, False)
    found = solve_path(problem, penalty_grid(problem, 10, 0.01), tol=1e-8)
    print(f"{'lambda':>10} {'features':>8} {'descent':>12} {'ADMM':>12}")
    for lam, value, active in zip(
        found.lambdas, found.objectives, found.active, strict=True
    ):
        z = solve(m.Q, m.dvec, sizes, lam)
        second = objective(m.Q, m.dvec, sizes, lam, z) + 0.25
        print(f"{lam:10.6f} {active.sum():8d} {value:12.9f} {second:12.9f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
