r"""Ridge regression of the classes on the one-hot vector W: from (Q, F, alpha) to z.

Mean form, in probability units; `alpha` is the paper's lambda for ridge regression.
With the centred moments ``Q_c = Q − μμᵀ``, ``F_c = F − μpᵀ``::

    (Q_c + alpha·I) Z = F_c,        s(x) = p − 1/K + Zᵀ(W − μ)

s_y(x) is how far the estimate t_y(x) of P(y|x) lies above 1/K. For two classes one
column is enough: s = s_1 = −s_0 solves ``(Q_c + alpha·I) z = dvec_c/2``. Without
intercept nothing is centred and the classes are coded e_Y − 1/K, which at K = 2 is the
paper's literal ``(Q + alpha·I) z = dvec/2``. The risk is ``γ = E‖t − e_Y‖²/2``.

`renyi.solvers.alpha` tells how alpha is chosen; the leverage of a row in it is
``h = (1 + ‖(Q_c + alpha)^{-½}(W − μ)‖²)/N``. Where there are more categories than rows,
`renyi.solvers.ridge_dual` solves the same problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import comb

from renyi.counting.onehot import agreement, dense
from renyi.encoding.tuples import Factors
from renyi.solvers.alpha import (
    GRID_SIZE,
    AlphaChoice,
    HeldOut,
    alpha_floor,
    alpha_grid,
    choose,
    corrected,
    given,
    weight_of,
)
from renyi.solvers.decompositions import (
    Contrasts,
    Tridiagonal,
    cholesky,
    eigen,
    pseudo_inverse,
    shrinkage,
)

Floats = NDArray[np.float64]

# Beyond this many rows per indicator, leave-one-out and its approximation by
# generalised cross-validation agree to three digits and more.
ROWS_PER_INDICATOR = 100
# Multiplications that leave-one-out may cost before it counts as too dear.
AFFORDABLE = 1e10
_ROW_BLOCK = 4096


class RidgeFit(NamedTuple):
    """Solution: points z (D, k), intercept (k,), and how alpha was chosen."""

    z: Floats
    intercept: Floats
    choice: AlphaChoice


@dataclass(frozen=True)
class Rows:
    """Rows to train on.

    `weights` is what a row weighs in the fit and in the choice of alpha, `mass` what it
    weighs in the reported risk, `unit` what one copy of it weighs in the fit; None
    means 1 throughout. `factors` are the columns that the features are tuples of.
    """

    codes: NDArray[Any]
    sizes: NDArray[Any]
    y: NDArray[Any]
    n_classes: int
    weights: Floats | None = None
    mass: Floats | None = None
    unit: Floats | None = None
    factors: Factors | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @property
    def copies(self) -> float:
        """Number of rows, a row of weight 2 counting twice."""
        if self.weights is None:
            return float(self.n)
        unit = 1.0 if self.unit is None else self.unit
        return float((self.weights / unit).sum())

    def agreement(self) -> Floats:
        """In how many features each two rows agree."""
        if self.factors is None:
            return agreement(self.codes, self.sizes)
        codes, sizes, order = self.factors
        ways = comb(np.arange(len(codes) + 1), order)
        same = agreement(codes, sizes)
        return np.asarray(ways[same.astype(np.intp)], np.float64)

    def indicators(self) -> Floats:
        """Class indicators, the second one alone for two classes."""
        if self.n_classes == 2:
            return np.asarray(self.y == 1, np.float64)[:, None]
        return np.asarray(self.y[:, None] == np.arange(self.n_classes), np.float64)


class Moments(NamedTuple):
    """The normal equations ``(A + alpha·I) Z = R`` and what undoes their centring."""

    A: Floats
    R: Floats
    centre: Floats
    base: Floats
    variance: float
    n_classes: int
    fit_intercept: bool


def moments(Q: Floats, F: Floats, priors: Floats, fit_intercept: bool) -> Moments:
    """Centre the moments, or code the classes around 1/K."""
    mu, n_classes = np.diag(Q).copy(), F.shape[1]
    keep = slice(1, 2) if n_classes == 2 else slice(None)
    priors = priors[keep]
    if fit_intercept:
        A = Q - np.outer(mu, mu)
        base, centre = priors, mu
        variance = float((priors * (1 - priors)).sum())
    else:
        A = Q.copy()
        base, centre = np.full(len(priors), 1 / n_classes), np.zeros_like(mu)
        spread = priors * (1 - 2 / n_classes) + 1 / n_classes**2
        variance = float(spread.sum())
    R = F[:, keep] - np.outer(mu, base)
    return Moments(A, R, centre, base, variance, n_classes, fit_intercept)


def fit_primal(
    equations: Moments,
    n: float,
    n_features: int,
    alpha: float | str,
    rows: Rows | None = None,
) -> RidgeFit:
    """Fit from moments; `rows`, where they are at hand, serve leave-one-out.

    `n` is the number of rows, a row of weight 2 counting twice.
    """
    by_rows = rows is not None and worthwhile(rows, len(equations.A), alpha)
    if alpha == "loo" and rows is None:
        raise ValueError(
            "alpha='loo' needs the rows, and only marginals are given: use 'auto' "
            "(generalised cross-validation) or a number."
        )
    chosen: Rows | None = rows if by_rows else None
    if isinstance(alpha, str):
        return _fit_path(equations, n, alpha_grid(n_features), chosen)
    return _fit_given(equations, n, alpha, chosen)


def worthwhile(rows: Rows, D: int, alpha: float | str) -> bool:
    """Whether rows are few enough for leave-one-out to matter and to be affordable."""
    if alpha == "loo":
        return True
    # Copies, not rows: weights must lead to the same choice as repetition.
    cost = rows.copies * D * (D + GRID_SIZE * rows.n_classes)
    return rows.copies <= ROWS_PER_INDICATOR * D and cost <= AFFORDABLE


def _fit_path(
    equations: Moments, n: float, alphas: Floats, rows: Rows | None
) -> RidgeFit:
    """Try all alphas with one decomposition: of eigenvectors, if rows are left out."""
    if rows is None:
        return _fit_gcv(equations, n, alphas)
    values, vectors = _eigenvectors(equations, rows)
    C = vectors.T @ equations.R
    shrink = shrinkage(values, alphas)
    held_out = leave_one_out(rows, equations, vectors, C, shrink)
    choice = choose("loo", alphas, held_out, alpha_floor(n, len(equations.A)))
    Z = vectors @ (shrink[:, [choice.alphas.index(choice.alpha)]] * C)
    return RidgeFit(Z, _intercept(equations, Z), choice)


def _eigenvectors(equations: Moments, rows: Rows) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors, without the directions known to be idle."""
    if not equations.fit_intercept:
        return eigen(equations.A)
    parts = Contrasts.of(rows.sizes)
    values, vectors = eigen(parts.reduce(equations.A))
    return values, parts.expand(vectors)


def _fit_gcv(equations: Moments, n: float, alphas: Floats) -> RidgeFit:
    """Choose alpha by generalised cross-validation, without eigenvectors.

    With A = U T Uᵀ, T tridiagonal, the risk at each alpha takes a tridiagonal system,
    and the degrees of freedom the eigenvalues of T. U is never formed: this costs a
    quarter of what eigenvectors do.
    """
    reduced = Tridiagonal.of(equations.A)
    C = reduced.rotate(equations.R)
    solutions = [reduced.solve(C, alpha) for alpha in alphas]
    risks = np.array([_fitted_risk(equations, C, reduced @ u, u) for u in solutions])
    values = reduced.eigenvalues()
    df = equations.fit_intercept + (values[:, None] / (values[:, None] + alphas)).sum(0)
    held_out = HeldOut.of_risk(corrected(risks, df, n))
    _check_finite(held_out.risk, n)
    choice = choose("gcv", alphas, held_out, alpha_floor(n, len(values)))
    Z = reduced.rotate_back(solutions[choice.alphas.index(choice.alpha)])
    return RidgeFit(Z, _intercept(equations, Z), choice)


def _fitted_risk(equations: Moments, R: Floats, AZ: Floats, Z: Floats) -> float:
    """Return the risk on the rows themselves, from A·Z in any basis."""
    fit = 2 * (R * Z).sum() - (Z * AZ).sum()
    return float(weight_of(equations.n_classes) * (equations.variance - fit))


def _check_finite(risks: Floats, n: float) -> None:
    if not np.isfinite(risks).any():
        raise ValueError(
            f"The total weight, {n:g}, is too small to choose alpha from, since it "
            "stands for the number of rows: scale the weights to counts (marginals m "
            "as m * number_of_rows / m.n), or give alpha as a number."
        )


def _fit_given(
    equations: Moments, n: float, alpha: float, rows: Rows | None
) -> RidgeFit:
    A, R = equations.A, equations.R
    if alpha == 0:
        values, vectors = eigen(A)
        shrink = np.sqrt(pseudo_inverse(values))
        basis = vectors * shrink
        df = np.count_nonzero(shrink)
    else:
        inverse, info = lapack.dtrtri(cholesky(A, alpha), lower=1, overwrite_c=1)
        assert info == 0
        basis = inverse.T  # basis @ basis.T is the inverse of A + alpha
        df = len(A) - alpha * np.vdot(basis, basis)  # the trace of A·(A + alpha)⁻¹
    C = basis.T @ R
    Z = basis @ C
    if rows is None:
        risk = _fitted_risk(equations, R, A @ Z, Z)
        df += equations.fit_intercept
        held_out = HeldOut.of_risk(np.atleast_1d(corrected(risk, df, n)))
    else:
        ones = np.ones((basis.shape[1], 1))
        held_out = leave_one_out(rows, equations, basis, C, ones)
    return RidgeFit(Z, _intercept(equations, Z), given(alpha, held_out))


def _intercept(equations: Moments, Z: Floats) -> Floats:
    return np.asarray(
        equations.base - 1 / equations.n_classes - equations.centre @ Z, np.float64
    )


def leave_one_out(
    rows: Rows, equations: Moments, basis: Floats, C: Floats, shrink: Floats
) -> HeldOut:
    """Leave-one-out of ``Z_a = basis · diag(shrink[:, a]) · C`` for every a.

    The inverse of A + alpha_a is ``basis · diag(shrink[:, a]) · basisᵀ``.
    """
    total = float(rows.n if rows.weights is None else rows.weights.sum())
    sums = np.zeros((3, shrink.shape[1]))
    for block, G, Y in _projected(rows, equations.centre, basis):
        unit = 1.0 if rows.unit is None else rows.unit[block, None]
        leverage = unit * (equations.fit_intercept + G**2 @ shrink) / total
        fitted = np.einsum("nj,ja,jk->nak", G, shrink, C, optimize=True)
        residual = (Y - equations.base)[:, None, :] - fitted
        sums += left_out(residual, leverage, Y, rows, block)
    return held_out_of_sums(sums, rows)


def _projected(
    rows: Rows, centre: Floats, basis: Floats
) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield blocks of rows as (W − centre)·basis, with their class indicators."""
    Y = rows.indicators()
    shift = centre @ basis
    for start in range(0, rows.n, _ROW_BLOCK):
        block = slice(start, start + _ROW_BLOCK)
        yield block, dense(rows.codes[:, block], rows.sizes) @ basis - shift, Y[block]


def left_out(
    residual: Floats, leverage: Floats, Y: Floats, rows: Rows, block: slice
) -> Floats:
    """Sum over rows: squared left-out residuals (two weightings), and errors.

    `residual` has shape (rows, alphas, k), `leverage` (rows, alphas).
    """
    left = 1 - leverage
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = np.where(
            (left > 1e-10)[:, :, None], residual / left[:, :, None], np.inf
        )
    scores = np.where(np.isfinite(residual), Y[:, None, :] - residual, 0)
    if rows.n_classes == 2:
        wrong = (scores[:, :, 0] > 0.5) != (Y > 0.5)
    else:
        wrong = scores.argmax(axis=2) != rows.y[block, None]
    squares = (residual**2).sum(axis=2)
    ones = np.ones(len(squares))
    weights = ones if rows.weights is None else rows.weights[block]
    mass = ones if rows.mass is None else rows.mass[block]
    return np.stack([weights @ squares, mass @ squares, mass @ wrong])


def held_out_of_sums(sums: Floats, rows: Rows) -> HeldOut:
    """Return the means of the sums over rows that `left_out` returns."""
    total = float(rows.n if rows.weights is None else rows.weights.sum())
    mass = float(rows.n if rows.mass is None else rows.mass.sum())
    half = weight_of(rows.n_classes)
    return HeldOut(half * sums[0] / total, half * sums[1] / mass, sums[2] / mass)
