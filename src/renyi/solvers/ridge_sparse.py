r"""Ridge regression where a feature has thousands of categories: Q is sparse.

The problem is that of `renyi.solvers.ridge`, ``(Q_c + alpha·I) Z = R``. With the
intercept as one more coordinate, c = −μᵀZ, nothing need be centred::

    M (Z, c) = (R, 0),        M = [[Q + alpha·I, μ], [μᵀ, 1]].

Each feature has a diagonal block with itself, so the largest one, L, is eliminated.
With the off-diagonal blocks ``B = M_SL``, the Schur complement on the others, S, is::

    S(alpha) = M_SS − B Δ Bᵀ,     Δ = 1/(μ_L + alpha),
    Z_S = S⁻¹ (R_S − B Δ R_L),    Z_L = Δ (R_L − Bᵀ Z_S).

The degrees of freedom need the trace of the inverse without the intercept. It is
``tr(S⁻¹ S') + Σ Δ``, where S' is the derivative of S by alpha. The leverage of a row
with the category l of L is ``w̃ᵀM⁻¹w̃ = Δ_l + uᵀS⁻¹u``, ``u = w̃_S − Δ_l B_l``. Categories
with the same number of rows have the same Δ. If there are many of them, the sum of
their ``B_l B_lᵀ`` is formed once for all alphas. This costs s²(s + |L|), s = |S|, where
a decomposition of Q_c costs (s + |L|)³.

At alpha = 0 generalised inverses replace the inverses. A null vector v of S gives the
null vector ``(v, −Δ Bᵀ v)`` of M. The projection of the solution on these is
subtracted, which leaves the solution of least norm.

If S is large as well, as with two features of thousands of categories, see
`renyi.solvers.krylov`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import dense as one_hot
from renyi.counting.onehot import lookup_sum, offsets, spans
from renyi.counting.pair_counts import check_table_size
from renyi.counting.sparse_counts import dense, is_large
from renyi.solvers.krylov import solve, spectrum
from renyi.solvers.ridge import (
    GRID_SIZE,
    INDEFINITE,
    AlphaChoice,
    HeldOut,
    Moments,
    RidgeFit,
    Rows,
    alpha_grid,
    check_rows,
    choose,
    corrected,
    eigen,
    fit_primal,
    fitted_risk,
    inverse_factor,
    left_out,
    pseudo_inverse,
    solution,
    weight_of,
    worthwhile,
)

Floats = NDArray[np.float64]

AFFORDABLE = 3e10
"""Most multiplications for factoring S at every alpha, which take some seconds."""
# Cost of a decomposition, as a multiple of the cube of the number of rows.
_DECOMPOSITION = 4
# Rounded tables may have eigenvalues this far below zero, for each feature.
_TOLERATED = 1e-6
# The shared sums may take at most this multiple of the memory of B.
_SHARED = 4


def fit_sparse(
    equations: Moments,
    sizes: NDArray[Any],
    n: float,
    alpha: float | str,
    rows: Rows | None = None,
) -> RidgeFit:
    """Fit as `renyi.solvers.ridge.fit_primal` does, from a sparse Q."""
    check_rows(alpha, rows)
    D = len(equations.R)
    K = equations.n_classes
    few = rows is not None and rows.n < D  # then leave-one-out is always used
    if rows is not None and not (few or worthwhile(rows.effective_n, D, K, alpha)):
        rows = None
    given = not isinstance(alpha, str)
    alphas = np.array([alpha]) if given else alpha_grid(len(sizes))
    eliminates = few or elimination_cost(equations, sizes, len(alphas)) <= AFFORDABLE
    needs_decomposition = rows is not None or alpha == 0
    if not eliminates and needs_decomposition:
        check_table_size(sizes, 1, 0)
        centred = dense(equations.A) - np.outer(equations.centre, equations.centre)
        return fit_primal(equations._replace(A=centred), n, len(sizes), alpha, rows)
    problem: Elimination | Products = Products(equations)
    if eliminates:
        problem = Elimination(equations, np.asarray(sizes))
    held_out = problem.held_out(alphas, n, rows)
    if given:
        choice = AlphaChoice("given", float(alpha), *held_out.at(0))
    else:
        method = "gcv" if rows is None else "loo"
        choice = choose(method, alphas, held_out, n, len(equations.R))
    best = int(np.flatnonzero(alphas == choice.alpha)[0])
    leverage = held_out.leverage[..., best]
    return solution(equations, problem.solve(choice.alpha), choice, leverage)


def beats_dual(sizes: NDArray[Any], n: int, alpha: float | str) -> bool:
    """Return whether counts are faster than rows, for fewer rows than categories.

    Counts cost s²(n + D) for each alpha; rows are solved by `renyi.solvers.ridge_dual`.
    """
    if alpha == 0 or not is_large(sizes):
        return False
    s = float(sizes.sum() - sizes.max() + 1)
    D = float(sizes.sum())
    n_alphas = GRID_SIZE if isinstance(alpha, str) else 1
    return n_alphas * s**2 * (n + D) <= _DECOMPOSITION * float(n) ** 3


def solve_sparse(equations: Moments, sizes: NDArray[Any], alpha: float) -> Floats:
    """Return the points Z at an alpha > 0."""
    problem: Elimination | Products = Products(equations)
    if elimination_cost(equations, sizes, 1) <= AFFORDABLE:
        problem = Elimination(equations, np.asarray(sizes))
    return problem.solve(alpha)


def product(equations: Moments, Z: Floats) -> Floats:
    """Return Q_c Z, or Q Z without intercept, for a sparse Q."""
    centre = equations.centre
    return np.asarray(equations.A @ Z - np.outer(centre, centre @ Z))


class Products:
    """Solve the equations by products with Q alone; see `renyi.solvers.krylov`."""

    def __init__(self, equations: Moments) -> None:
        self.equations = equations
        self.multiply = partial(product, equations)

    def held_out(self, alphas: Floats, n: float, rows: Rows | None) -> HeldOut:
        """Return the estimates of generalised cross-validation; there are no rows."""
        equations = self.equations
        fit, norm, df = spectrum(self.multiply, equations.R, alphas)
        if np.isnan(fit[alphas > _TOLERATED]).any() or np.isnan(fit[-1]):
            raise ValueError(INDEFINITE)
        risk = equations.variance - fit - alphas * norm
        df = df + equations.fit_intercept
        risks = corrected(weight_of(equations.n_classes) * risk, df, n)
        risks = np.where(np.isnan(risks), np.inf, risks)
        return HeldOut(risks, risks, leverage=df / n)

    def solve(self, alpha: float) -> Floats:
        """Return the points Z."""
        equations = self.equations
        scale = equations.A.diagonal() - equations.centre**2
        return solve(self.multiply, equations.R, alpha, scale)


def elimination_cost(equations: Moments, sizes: NDArray[Any], n_alphas: int) -> float:
    """Estimate the multiplications of eliminating the largest feature."""
    j = int(sizes.argmax())
    s = int(sizes.sum() - sizes[j]) + 1
    _, number = np.unique(equations.A.diagonal()[spans(sizes)[j]], return_counts=True)
    alone = number < s // _SHARED
    each = s + number[alone].sum() + np.count_nonzero(~alone)
    return float(s**2 * (2 * n_alphas * each + sizes[j]))


class Elimination:
    """Solve the equations by eliminating the largest feature."""

    def __init__(self, equations: Moments, sizes: NDArray[Any]) -> None:
        self.equations = equations
        self.sizes = sizes
        Q = equations.A
        starts = offsets(sizes)
        self.feature = int(sizes.argmax())
        self.large = np.arange(*starts[self.feature :][:2])
        self.small = np.delete(np.arange(starts[-1]), self.large)
        mu = Q.diagonal()
        self.border = int(equations.fit_intercept)
        self.mu = mu[self.large]
        self.B = np.ones((len(self.small) + self.border, len(self.large)))
        self.B[: len(self.small)] = dense(Q[np.ix_(self.small, self.large)])
        self.C = np.ones((len(self.B), len(self.B)))
        self.C[: len(self.small), : len(self.small)] = dense(
            Q[np.ix_(self.small, self.small)]
        )
        if self.border:
            self.B[-1] = self.mu
            self.C[-1, :-1] = self.C[:-1, -1] = mu[self.small]
        self.penalised = np.arange(len(self.B)) < len(self.small)
        self._collect()

    def _collect(self) -> None:
        """Form ``Σ B_l B_lᵀ`` over categories with equally many rows."""
        values, which, number = np.unique(
            self.mu, return_inverse=True, return_counts=True
        )
        is_shared = number >= len(self.B) // _SHARED
        shared = np.flatnonzero(is_shared)
        parts = [self.B[:, which == k] for k in shared]
        shape = (len(shared), len(self.B), len(self.B))  # there may be none
        self._sums = np.array([part @ part.T for part in parts]).reshape(shape)
        self._shared_mu = values[shared]
        rest = np.flatnonzero(~is_shared[which])
        self._rest = self.B[:, rest]
        self._rest_mu = self.mu[rest]

    def gram(self, alpha: float, power: int) -> Floats:
        """Return ``B Δ^power Bᵀ``."""
        shared = _reciprocal(self._shared_mu, alpha) ** power
        own = _reciprocal(self._rest_mu, alpha) ** power
        return np.tensordot(shared, self._sums, 1) + (self._rest * own) @ self._rest.T

    def solve(self, alpha: float) -> Floats:
        """Return the points Z."""
        return self.at(alpha).solve(self.equations.R)

    def at(self, alpha: float) -> Reduced:
        """Factor S at some alpha."""
        S = self.C - self.gram(alpha, 1)
        S.flat[:: len(S) + 1] += alpha * self.penalised
        inverse = _reciprocal(self.mu, alpha)
        if alpha > 0:
            return Reduced(self, alpha, inverse, inverse_factor(S, 0.0), None)
        values, vectors = eigen(S)
        shrink = np.sqrt(pseudo_inverse(values))
        idle = vectors[:, shrink == 0]
        null = np.linalg.qr(self._whole(idle, -inverse[:, None] * (self.B.T @ idle)))[0]
        return Reduced(self, alpha, inverse, (vectors * shrink).T, null)

    def _whole(self, small: Floats, large: Floats) -> Floats:
        out = np.empty((len(self.large) + len(self.small), small.shape[1]))
        out[self.large] = large
        out[self.small] = small[: len(self.small)]
        return out

    # ---- the choice of alpha

    def held_out(self, alphas: Floats, n: float, rows: Rows | None) -> HeldOut:
        """Return the estimates of leave-one-out, or without rows of `corrected`."""
        estimates: list[HeldOut] = []
        for alpha in alphas[::-1].tolist():
            try:
                estimates.append(self._estimate(alpha, n, rows))
            except ValueError:  # rounded tables may not be positive definite
                if len(alphas) == 1 or alpha > _TOLERATED * len(self.sizes):
                    raise
                none = np.array([np.inf])
                estimates.append(HeldOut(none, none, none, estimates[-1].leverage))
        parts = zip(*estimates[::-1], strict=True)
        weighted, risk, error, leverage = (np.concatenate(p, axis=-1) for p in parts)
        return HeldOut(weighted, risk, None if rows is None else error, leverage)

    def _estimate(self, alpha: float, n: float, rows: Rows | None) -> HeldOut:
        equations = self.equations
        system = self.at(alpha)
        Z = system.solve(equations.R)
        if rows is None:
            risk = fitted_risk(equations, equations.R, product(equations, Z), Z)
            df = system.degrees() + self.border
            risks = np.atleast_1d(corrected(risk, df, n))
            return HeldOut(risks, risks, risks, np.array([df / n]))
        return left_out(rows, system.parts(rows, Z))


class Reduced(NamedTuple):
    """The equations at one alpha: ``S⁻¹ = rootᵀ root``, Δ, and null vectors of Q_c."""

    of: Elimination
    alpha: float
    inverse: Floats
    root: Floats
    null: Floats | None

    def solve(self, R: Floats) -> Floats:
        """Return the points Z, of least norm."""
        of = self.of
        inverse = self.inverse[:, None]
        right = np.zeros((len(of.B), R.shape[1]))
        right[: len(of.small)] = R[of.small]
        right -= of.B @ (inverse * R[of.large])
        small = self.root.T @ (self.root @ right)
        Z = of._whole(small, inverse * (R[of.large] - of.B.T @ small))
        return Z if self.null is None else Z - self.null @ (self.null.T @ Z)

    def degrees(self) -> float:
        """Return the trace of ``A (A + alpha)⁻¹``, or the rank of A at alpha = 0."""
        of = self.of
        if self.null is not None:
            used = np.count_nonzero(self.inverse) + np.count_nonzero(self.root.any(1))
            return float(used - of.border)
        slope = of.gram(self.alpha, 2)
        slope.flat[:: len(slope) + 1] += of.penalised
        trace = np.vdot(self.root @ slope, self.root) + self.inverse.sum()
        return float(len(of.large) + len(of.small) - self.alpha * trace)

    def parts(self, rows: Rows, Z: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield residuals and leverages for leave-one-out, by blocks of rows."""
        of = self.of
        equations = self.of.equations
        Y = rows.indicators()
        starts = offsets(of.sizes)[:-1]
        shift = equations.centre @ Z
        others = np.delete(rows.codes, of.feature, axis=0)
        sizes = np.delete(of.sizes, of.feature)
        for block, codes, unit in rows.blocks():
            label = codes[of.feature]
            U = np.ones((codes.shape[1], len(of.B)))
            U[:, : len(of.small)] = one_hot(others[:, block], sizes)
            U -= (self.inverse * of.B).T[label]
            norm = self.inverse[label] + ((U @ self.root.T) ** 2).sum(axis=1)
            fitted = lookup_sum(codes, Z, starts) - shift
            residual = Y[block] - equations.base - fitted
            yield block, residual[:, None, :], (unit * norm / rows.total)[:, None]


def _reciprocal(mu: Floats, alpha: float) -> Floats:
    """Return 1/(μ + alpha); at alpha = 0, return 0 for categories without rows."""
    total = mu + alpha
    return np.divide(1, total, out=np.zeros_like(total), where=total > 0)
