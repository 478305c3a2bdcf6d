r"""Ridge regression from products with Q alone, if Q is too large to factor.

*Risk.* The Lanczos process reduces A, from a vector v, to a tridiagonal T. After enough
steps for conjugate gradients to converge, ``vᵀ(A + alpha)⁻¹v = ‖v‖² g(alpha)``, where
``g = [(T + alpha)⁻¹]_11``. This holds for *every* alpha, so one run is enough for all.
With the columns of R for v it gives the risk: ``RᵀZ = ‖R‖² g``, ``‖Z‖² = −‖R‖² g'``.

*Degrees of freedom.* With random signs for v, the expectation of ``‖v‖²(1 − alpha·g)``
is ``tr A(A + alpha)⁻¹``. A mean over a few such v estimates it (Girard 1989, Hutchinson
1990). Its variance is twice the sum of the squared off-diagonal entries of that matrix,
which is small compared with its diagonal. The seed is fixed, and so is the answer.

g and its derivative are continued fractions in the entries a, b of T::

    f_i = 1/(a_i + alpha − b_i² f_{i+1}),    f_i' = −f_i² (1 − b_i² f_{i+1}').
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.warnings import warn

Floats = NDArray[np.float64]
Product = Callable[[Floats], Floats]

PROBES = 16
_CHECK = 20  # steps between two checks of convergence
_STEPS = 2_000
_ROUNDS = 5_000
_SAME = 1e-8  # relative change at which estimates have converged
_SOLVED = 1e-13  # relative residual at which a solution has converged
_WARN_RESIDUAL = 1e-8  # relative residual above which a warning is issued


def spectrum(
    multiply: Product, R: Floats, alphas: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return ``tr RᵀZ``, ``‖Z‖²`` and the degrees of freedom at every alpha > 0."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(R), PROBES))
    V = np.concatenate([R, signs], axis=1)
    norms = np.linalg.norm(V, axis=0)
    V /= np.where(norms > 0, norms, 1)
    before = np.zeros_like(V)
    beta = np.zeros(V.shape[1])
    diagonal: list[Floats] = []
    off: list[Floats] = []
    estimates: tuple[Floats, ...] | None = None
    for step in range(1, _STEPS + 1):
        new = multiply(V) - beta * before
        diagonal.append((V * new).sum(axis=0))
        new -= diagonal[-1] * V
        beta = np.linalg.norm(new, axis=0)
        beta[beta < 1e-14] = 0  # smaller values are rounding
        off.append(beta)
        before = V
        V = new / np.where(beta > 0, beta, 1)
        if step % _CHECK == 0 or not beta.any():
            last = estimates
            estimates = _estimates(diagonal, off, norms, R.shape[1], alphas)
            same = last is not None and np.allclose(
                last, estimates, rtol=_SAME, atol=0, equal_nan=True
            )
            if same or not beta.any():
                break
    else:
        warn(
            "The estimates by which alpha is chosen still changed after "
            f"{_STEPS:,} steps of the Lanczos process: another alpha may do better. "
            "The points are those of the chosen alpha, and their certificate is valid.",
            "not-converged",
        )
    return _estimates(diagonal, off, norms, R.shape[1], alphas)


def _estimates(
    diagonal: list[Floats], off: list[Floats], norms: Floats, k: int, alphas: Floats
) -> tuple[Floats, Floats, Floats]:
    """Evaluate the continued fractions; the first k columns belong to R.

    If the matrix has negative eigenvalues, the results at smaller alphas are NaN.
    """
    shift = alphas[:, None]
    f = slope = np.zeros((len(alphas), len(norms)))
    for a, b in zip(diagonal[::-1], off[::-1], strict=True):
        pivot = a + shift - b**2 * f
        f = np.divide(1, pivot, out=np.full_like(pivot, np.nan), where=pivot > 0)
        slope = -(f**2) * (1 - b**2 * slope)
    squares = norms**2
    fit = (squares * f)[:, :k]
    norm = (squares * -slope)[:, :k]
    degrees = (squares * (1 - shift * f))[:, k:].mean(axis=1)
    return fit.sum(axis=1), norm.sum(axis=1), degrees


def solve(multiply: Product, R: Floats, alpha: float, scale: Floats) -> Floats:
    """Solve ``(A + alpha) Z = R`` by conjugate gradients, scaled by the diagonal of A.

    If it has not converged after many rounds, warn and return the last solution. Its
    certificate is still valid, because it is computed from the points themselves.
    """
    solution = conjugate_gradients(multiply, R, alpha, scale, rounds=_ROUNDS)
    residual = solution.residual
    if residual > _WARN_RESIDUAL:
        warn(
            f"Training stopped at a relative residual of {residual:.1g} after at "
            f"most {_ROUNDS:,} rounds of conjugate gradients: the points are not quite "
            "those of alpha. Their certificate is valid; a larger alpha converges "
            "sooner.",
            "not-converged",
        )
    return solution.Z


class Solution(NamedTuple):
    """An approximate solution, with its residual relative to the right-hand side."""

    Z: Floats
    rounds: int
    residual: float


def conjugate_gradients(
    multiply: Product,
    R: Floats,
    alpha: float,
    scale: Floats,
    tolerance: float = _SOLVED,
    rounds: int = _ROUNDS,
) -> Solution:
    """Solve ``(A + alpha) Z = R`` for each column, scaled by the diagonal of A.

    A column has converged when its relative residual is at most `tolerance`.
    """
    inverse = 1 / (scale + alpha)[:, None]
    Z = np.zeros_like(R)
    residual = R.copy()
    norms = np.linalg.norm(R, axis=0)
    scaled = inverse * residual
    direction = scaled
    rho = (residual * scaled).sum(axis=0)
    for done in range(rounds + 1):
        left = _ratio(np.linalg.norm(residual, axis=0), norms)
        largest = float(left.max(initial=0.0))
        active = left > tolerance
        if done == rounds or not active.any():
            break
        image = multiply(direction) + alpha * direction
        curvature = (direction * image).sum(axis=0)
        step = np.where(active, _ratio(rho, curvature), 0)
        if not step.any():
            break
        Z = Z + step * direction
        residual = residual - step * image
        scaled = inverse * residual
        last = rho
        rho = (residual * scaled).sum(axis=0)
        direction = scaled + _ratio(rho, last) * direction
    return Solution(Z, done, largest)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return a quotient, with 0 where the divisor is not positive."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
