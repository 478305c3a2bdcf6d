r"""Ridge regression of the classes on the one-hot vector W: from (Q, F, alpha) to z.

Mean form, in probability units; `alpha` is the paper's lambda for ridge regression.
With the centred moments ``Q_c = Q − μμᵀ``, ``F_c = F − μpᵀ``::

    (Q_c + alpha·I) Z = F_c,        s(x) = p − 1/K + Zᵀ(W − μ)

s_y(x) is how far the estimate t_y(x) of P(y|x) lies above 1/K. For two classes one
column is enough: s = s_1 = −s_0 solves ``(Q_c + alpha·I) z = dvec_c/2``. Without
intercept nothing is centred and the classes are coded e_Y − 1/K, which at K = 2 is the
paper's literal ``(Q + alpha·I) z = dvec/2``. The risk is ``γ = E‖t − e_Y‖²/2``.

*Leave-one-out.* residual/(1 − h), h the leverage of one unit copy of the row: that
equals refitting without it at an unchanged total penalty, and weights count as
repetition does. Here ``h = (1 + ‖(Q_c + alpha)^{-½}(W − μ)‖²)/N``.

*Generalised cross-validation* needs no rows: ``γ̂/(1 − df/n)²`` with
df = 1 + Σ e/(e + alpha), e the eigenvalues of Q_c.

Where there are more categories than rows, `renyi.solvers.ridge_dual` solves the same
problem.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import comb

from renyi.counting.onehot import agreement, dense
from renyi.encoding.tuples import Factors
from renyi.solvers.contrasts import Contrasts
from renyi.solvers.tridiagonal import INDEFINITE, Tridiagonal, refuse_indefinite

Floats = NDArray[np.float64]

GRID_SIZE = 50
# Beyond this many rows per indicator, leave-one-out and its approximation by
# generalised cross-validation agree to three digits and more.
ROWS_PER_INDICATOR = 100
# Multiplications that leave-one-out may cost before it counts as too dear.
AFFORDABLE = 1e10
METHODS = ("given", "loo", "gcv")
_ROW_BLOCK = 4096


@dataclass(frozen=True)
class AlphaChoice:
    """How `alpha` was chosen.

    Parameters
    ----------
    method : {"given", "loo", "gcv"}
        By the user, by leave-one-out, or by generalised cross-validation.
    alpha : float
        The value chosen.
    risk : float or None
        Estimated risk at that value: leave-one-out with rows, else generalised
        cross-validation; None where neither can be trusted.
    error : float or None
        Share of rows that the map rule gets wrong in leave-one-out.
    alphas, risks : tuple of float
        The values tried and the estimated risk of each.
    """

    method: str
    alpha: float
    risk: float | None
    error: float | None = None
    alphas: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that no fit gives: a choice may come from a file."""
        if self.method not in METHODS:
            raise ValueError(f"alpha was chosen by {self.method!r:.60}, no known way")
        check_alpha(self.alpha)
        if self.risk is not None and not 0 <= self.risk <= sys.float_info.max:
            raise ValueError(f"the estimated risk cannot be {self.risk!r}")
        if self.error is not None and not 0 <= self.error <= 1 + 1e-9:
            raise ValueError(f"the estimated error cannot be {self.error!r}")


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


def alpha_grid(n_features: int) -> Floats:
    """Values of alpha to try: the trace of Q is the number of features.

    >>> alpha_grid(10)[[0, -1]]
    array([1.e-07, 1.e+02])
    """
    return n_features * np.logspace(-8, 1, GRID_SIZE)


def check_alpha(alpha: float | str) -> float | str:
    """Return a valid `alpha`; anything else is an error."""
    if isinstance(alpha, str):
        if alpha not in ("auto", "loo"):
            raise ValueError(f"alpha must be a number, 'auto' or 'loo', not {alpha!r}.")
        return alpha
    if isinstance(alpha, bool) or not 0 <= alpha <= sys.float_info.max:
        raise ValueError(f"alpha must be finite and not negative, not {alpha!r}.")
    return float(alpha)


def weight_of(n_classes: int) -> float:
    """Return w of ``γ = w·E‖T − s‖²``: for two classes one column stands for both.

    >>> weight_of(2), weight_of(3)
    (1.0, 0.5)
    """
    return 1.0 if n_classes == 2 else 0.5


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


def cholesky(A: Floats, alpha: float) -> Floats:
    """Return the lower factor L of ``A + alpha·I``."""
    M = A.copy(order="F")
    M.flat[:: len(M) + 1] += alpha
    L, info = lapack.dpotrf(M, lower=1, overwrite_a=1)
    if info:
        raise ValueError(INDEFINITE)
    return np.asarray(L)


def eigen(A: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, none below 0, and eigenvectors."""
    values, vectors = np.linalg.eigh(A)
    return refuse_indefinite(values), vectors


def pseudo_inverse(values: Floats) -> Floats:
    """Return 1/values, and 0 for what is 0 but for rounding."""
    cutoff = values[-1] * len(values) * np.finfo(float).eps * 8
    positive = values > max(cutoff, 1e-14)
    return np.where(positive, 1 / np.where(positive, values, 1), 0)


def shrinkage(values: Floats, alphas: Floats) -> Floats:
    """Return 1/(values + alpha) with one column per alpha."""
    columns = [
        1 / (values + alpha) if alpha > 0 else pseudo_inverse(values)
        for alpha in alphas
    ]
    return np.stack(columns, axis=1)


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
    choice = choose("loo", alphas, leave_one_out(rows, equations, vectors, C, shrink))
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
    held_out = HeldOut.of_risk(_corrected(risks, df, n))
    _need_finite(held_out.risk, n)
    choice = choose("gcv", alphas, held_out)
    Z = reduced.rotate_back(solutions[choice.alphas.index(choice.alpha)])
    return RidgeFit(Z, _intercept(equations, Z), choice)


def _fitted_risk(equations: Moments, R: Floats, AZ: Floats, Z: Floats) -> float:
    """Return the risk on the rows themselves, from A·Z in any basis."""
    fit = 2 * (R * Z).sum() - (Z * AZ).sum()
    return float(weight_of(equations.n_classes) * (equations.variance - fit))


def _need_finite(risks: Floats, n: float) -> None:
    if not np.isfinite(risks).any():
        raise ValueError(
            f"The total weight, {n:g}, is too small to choose alpha from, since it "
            "stands for the number of rows: scale the weights to counts (marginals m "
            "as m * number_of_rows / m.n), or give alpha as a number."
        )


class HeldOut(NamedTuple):
    """Estimates for each alpha: by fit weights, by report weights, and the error."""

    weighted: Floats
    risk: Floats
    error: Floats | None

    @classmethod
    def of_risk(cls, risk: Floats) -> HeldOut:
        """Risk alone, without an estimate of the error."""
        return cls(risk, risk, None)

    @classmethod
    def of_sums(cls, sums: Floats, rows: Rows) -> HeldOut:
        """Means of the sums over rows that `left_out` returns."""
        total = float(rows.n if rows.weights is None else rows.weights.sum())
        mass = float(rows.n if rows.mass is None else rows.mass.sum())
        half = weight_of(rows.n_classes)
        return cls(half * sums[0] / total, half * sums[1] / mass, sums[2] / mass)


def choose(method: str, alphas: Floats, held_out: HeldOut) -> AlphaChoice:
    """Take the alpha of smallest risk, the largest among equals."""
    risks = held_out.weighted
    # Equal but for rounding counts as equal: the choice must not hang on it.
    best = int(np.flatnonzero(risks <= risks.min() * (1 + 1e-9))[-1])
    return AlphaChoice(
        method,
        float(alphas[best]),
        *_trusted(held_out, best),
        tuple(alphas.tolist()),
        tuple(held_out.weighted.tolist()),
    )


def _trusted(held_out: HeldOut, place: int) -> tuple[float | None, float | None]:
    """Risk and error; none where the fit without some row is undefined."""
    risk, error = held_out.risk[place], held_out.error
    if not np.isfinite(risk):
        return None, None
    return float(risk), None if error is None else float(error[place])


def _corrected(risk: Any, df: Any, n: float) -> Floats:
    """Return risk/(1 − df/n)², infinite where no degree of freedom is left."""
    left = np.maximum(1 - df / n, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where(left > 1e-9, np.maximum(risk, 0) / left**2, np.inf), np.float64
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
        held_out = HeldOut.of_risk(np.atleast_1d(_corrected(risk, df, n)))
    else:
        ones = np.ones((basis.shape[1], 1))
        held_out = leave_one_out(rows, equations, basis, C, ones)
    return RidgeFit(Z, _intercept(equations, Z), given(alpha, held_out))


def given(alpha: float, held_out: HeldOut) -> AlphaChoice:
    """Return the record of an alpha that the user chose."""
    return AlphaChoice("given", alpha, *_trusted(held_out, 0))


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
    return HeldOut.of_sums(sums, rows)


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
