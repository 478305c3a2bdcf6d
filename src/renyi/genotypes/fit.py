r"""Fit genotypes under a coding: the kernel of samples, and points of variants.

A coding gives variant j a matrix B_j of four rows, one per code. The kernel of two
samples is ``A[a, b] = Σ_j B_j[code of a] · B_j[code of b]``. Weights β of samples give
the points ``B_j B_jᵀ s_j`` of the four codes, where s_j are the sums of β by code.

* Categories: B_j is the identity; A counts agreements.
* Missing as the mean: the row of a missing genotype is the variant's observed
  frequencies μ_j of the codes 0, 2, 3.
* Additive: one column, the copies of A2. If missing, their mean; or 0, with a second
  column that marks missing genotypes.

Only missing genotypes make A differ from whole numbers, which are counted exactly. If a
is missing, the term is B_j[missing]·B_j[code of b], or half of it if b is also missing.
The count of that variant is subtracted. Then a and b are exchanged.

*The fit.* `fit_kernel` takes any A = W Wᵀ, and covariates X. Like the intercept, these
have no penalty. They are projected out instead of the mean: P = I − UUᵀ, where U is an
orthonormal basis of X and the ones. For two classes with y in {0, 1}::

    (PAP/n + alpha·I) nβ = P y,     s = X b + A β,     y − s = n·alpha·β,

and the rows of a group g without the group: ``y_g − (I − H_gg)⁻¹ (y_g − s_g)`` with
``I − H = alpha·(PAP/n + UUᵀ + alpha)⁻¹ − UUᵀ·alpha/(1 + alpha)``. These are the scores
of a fit to all others at an unchanged total penalty n·alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.genotypes.gpu import DeviceGenotypes
from renyi.genotypes.packed import (
    CODES,
    COPIES,
    MISSING,
    NONE,
    OBSERVED,
    ONE,
    PackedGenotypes,
    agreement,
    code_counts,
    copy_products,
    missing_products,
    scores,
    sums,
)
from renyi.solvers.krylov import Product, conjugate_gradients, spectrum
from renyi.solvers.ridge import (
    AlphaChoice,
    HeldOut,
    alpha_grid,
    choose,
    corrected,
    eigen,
    inverse_factor,
)

Floats = NDArray[np.float64]

MISSING_AS = ("category", "mean")
"""How a missing genotype counts."""
EIGEN_ROWS = 1_000
"""With at most these rows, one decomposition tries all alphas."""
_STRIDE = 2  # steps of the grid in the search for more rows
_FLAT = 1e-3  # the search ends when a step improves by less than this share
_DETERMINED = 1e-10  # below this value of I − H, the others determine no fit
_SMALLEST = 1e-4  # smallest alpha, as a share of the mean eigenvalue


@dataclass(frozen=True, eq=False)
class GenotypeKernel:
    """Genotypes under a coding, with means for missing ones.

    `means` are the frequencies of the codes 0, 2, 3 among those observed, (d, 3), or
    None if missing is a category. Products are computed `on_gpu` if there is one.
    """

    G: PackedGenotypes
    dominance: bool
    means: Floats | None
    on_gpu: DeviceGenotypes | None = None

    @classmethod
    def of(
        cls, G: PackedGenotypes, dominance: bool, missing: str, device: str = "cpu"
    ) -> GenotypeKernel:
        """Return the kernel of these samples, with their means if needed."""
        on_gpu = DeviceGenotypes(G) if device == "cuda" else None
        if missing == "category":
            return cls(G, dominance, None, on_gpu)
        seen = code_counts(G)[:, OBSERVED].astype(np.float64)
        means = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        return cls(G, dominance, means, on_gpu)

    def matrix(self) -> Floats:
        """Return A."""
        if not self.dominance:
            A = copy_products(self.G)
        elif self.on_gpu is None:
            A = agreement(self.G)
        else:
            A = self.on_gpu.agreement()
        table = self._of_missing()
        if table is not None:
            A += missing_products(self.G, table)
        return A

    def multiply(self, V: Floats) -> Floats:
        """Return A V of V (n, k)."""
        if self.on_gpu is None:
            return scores(self.G, self.points(V))
        if self.dominance and self.means is None:
            return self.on_gpu.gram(V)
        return self.on_gpu.scores(self.points(V))

    def points(self, beta: Floats) -> Floats:
        """Return the points of the codes, (d, 4) or (d, 4, k), from weights β."""
        by_code = sums(self.G, beta) if self.on_gpu is None else self.on_gpu.sums(beta)
        return self._coded(by_code)

    def _of_missing(self) -> Floats | None:
        """Return the terms of missing genotypes, by the code of the other sample."""
        table = np.zeros((self.G.d, CODES))
        if self.means is None:
            if self.dominance:
                return None
            table[:, MISSING] = 0.5
            return table
        if self.dominance:
            table[:, OBSERVED] = self.means
            table[:, MISSING] = ((self.means**2).sum(axis=1) - 1) / 2
        else:
            mean = self._mean_copies()
            table[:, OBSERVED] = mean[:, None] * COPIES[OBSERVED]
            table[:, MISSING] = mean**2 / 2
        return table

    def _mean_copies(self) -> Floats:
        assert self.means is not None
        return np.asarray(self.means @ COPIES[OBSERVED])

    def _coded(self, sums: Floats) -> Floats:
        """Return the points of the codes from sums of weights by code."""
        if self.dominance and self.means is None:
            return sums
        S = sums[:, :, None] if sums.ndim == 2 else sums
        out = S.copy()
        if self.dominance:
            assert self.means is not None
            out[:, OBSERVED] += self.means[:, :, None] * S[:, [MISSING]]
            out[:, MISSING] = (self.means[:, :, None] * out[:, OBSERVED]).sum(axis=1)
        else:
            per_copy = S[:, ONE] + 2 * S[:, NONE]
            if self.means is not None:
                mean = self._mean_copies()[:, None]
                per_copy += mean * S[:, MISSING]
                out[:, MISSING] = mean * per_copy
            out[:, OBSERVED] = COPIES[OBSERVED, None] * per_copy[:, None]
        return out[:, :, 0] if sums.ndim == 2 else out


# ---- a given matrix


class Samples(NamedTuple):
    """Classes, covariates and groups of the samples."""

    y: NDArray[np.int64]  # 0 or 1
    covariates: Floats | None
    groups: NDArray[np.int64] | None  # equal for samples that are left out together

    def take(self, some: NDArray[np.intp]) -> Samples:
        """Return some of the samples."""
        C = None if self.covariates is None else self.covariates[some]
        groups = None if self.groups is None else self.groups[some]
        return Samples(self.y[some], C, groups)


class KernelFit(NamedTuple):
    """Weights of the rows, and the score of each by a fit without its group."""

    beta: Floats  # (n,)
    coefficients: Floats  # of the ones and of the covariates
    choice: AlphaChoice
    left_out: Floats  # (n,): estimates of P(1)
    together: NDArray[np.int64] | None  # equal for rows that were left out together
    rounds: int = 0
    residual: float = 0.0  # largest residual of conjugate gradients


class _Projected(NamedTuple):
    """The problem ``(G + alpha) n^½ β = target``, with UUᵀ added to G."""

    G: Floats
    U: Floats
    target: Floats
    y: Floats


def unpenalised(
    n: int, covariates: Floats | None, names: Sequence[object] = ()
) -> Floats:
    """Return the ones and the covariates; check that they are independent."""
    X = np.ones((n, 1))
    if covariates is not None:
        X = np.concatenate([X, covariates], axis=1)
    scale = np.linalg.norm(X, axis=0)
    _, R = np.linalg.qr(X / np.where(scale > 0, scale, 1))
    idle = np.flatnonzero(np.abs(np.diag(R)) < 1e-10)
    if len(R) < X.shape[1] or idle.size:
        which = int(idle[0]) if idle.size else len(R)
        name = repr(names[which - 1]) if names else which
        raise ValueError(
            f"covariate {name} is constant, or a combination of those before it: "
            "leave it out."
        )
    return X


def fit_kernel(
    A: Floats,
    samples: Samples,
    alpha: float | str,
    n_features: int,
) -> KernelFit:
    """Fit two classes, 0 and 1, from a kernel of the rows.

    `A` is overwritten. Rows are left out one by one, or by group if there are groups.
    The coefficients are empty here. The caller computes them from
    ``y − n·alpha·β − Aβ`` by cheaper products than another copy of A.
    """
    n = len(A)
    groups = samples.groups
    X = unpenalised(n, samples.covariates)
    U = np.linalg.qr(X)[0]
    T = A @ U
    T -= U @ (U.T @ T) / 2
    for low in range(0, n, 256):
        block = A[low : low + 256]
        block -= T[low : low + 256] @ U.T + U[low : low + 256] @ T.T
        block /= n
        block += U[low : low + 256] @ U.T
    target = np.asarray(samples.y, np.float64)
    problem = _Projected(A, U, (target - U @ (U.T @ target)) / np.sqrt(n), target)
    if isinstance(alpha, str):
        choice, beta, left = _choose(problem, alpha_grid(n_features), groups)
    else:
        beta, left = _leave_groups_out(problem, alpha, groups)
        choice = AlphaChoice("given", alpha, *_judged(left, target))
    return KernelFit(beta, np.zeros(0), choice, left, groups)


def _judged(left: Floats, y: Floats) -> tuple[float | None, float | None]:
    """Return the risk and error of left-out scores; None if a fit is undefined."""
    if not np.isfinite(left).all():
        return None, None
    return float(((y - left) ** 2).mean()), float(((left > 0.5) != (y > 0.5)).mean())


def _leave_groups_out(
    problem: _Projected, alpha: float, groups: NDArray[np.int64] | None
) -> tuple[Floats, Floats]:
    """Return β and the scores of every row by a fit without its group."""
    G, U, target, y = problem
    lower = inverse_factor(G, alpha)
    a = lower.T @ (lower @ target)
    root = np.sqrt(len(y))
    residual = alpha * root * a
    off = U / np.sqrt(1 + alpha)
    left = _without(residual, np.sqrt(alpha) * lower, np.sqrt(alpha) * off, groups)
    return a / root, y - left


def _without(
    residual: Floats, factor: Floats | None, U: Floats, groups: NDArray[np.int64] | None
) -> Floats:
    """Return the residuals of left-out rows, alone or with their group.

    They are ``(I − H)_gg⁻¹ r_g``, with ``I − H = factorᵀfactor − UUᵀ``; None stands for
    the factor I. They are infinite if the others do not determine a fit.
    """
    if groups is None:
        own = 1.0 if factor is None else np.einsum("ij,ij->j", factor, factor)
        return _each_alone(residual, own - (U**2).sum(axis=1))
    out = np.full(len(residual), np.inf)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    for rows in np.split(order, starts):
        r = residual[rows]
        u = U[rows]
        if factor is None:  # (I − UUᵀ)⁻¹ = I + U(I − UᵀU)⁻¹Uᵀ, however many rows
            values, vectors = np.linalg.eigh(np.eye(u.shape[1]) - u.T @ u)
            part = u @ vectors
            left = r + part @ ((part.T @ r) / np.maximum(values, _DETERMINED))
        else:
            part = factor[:, rows]
            values, vectors = np.linalg.eigh(part.T @ part - u @ u.T)
            left = vectors @ ((vectors.T @ r) / np.maximum(values, _DETERMINED))
        if values[0] > _DETERMINED:
            out[rows] = left
    return out


def _each_alone(residual: Floats, diagonal: Floats) -> Floats:
    """Return the residuals of rows left out singly, from the diagonal of I − H."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(diagonal > _DETERMINED, residual / diagonal, np.inf)


def covariates_alone(samples: Samples, together: NDArray[np.int64] | None) -> Floats:
    """Return the least squares scores of left-out rows, by covariates alone."""
    target = np.asarray(samples.y, np.float64)
    U = np.linalg.qr(unpenalised(len(target), samples.covariates))[0]
    return target - _without(target - U @ (U.T @ target), None, U, together)


def _choose(
    problem: _Projected, alphas: Floats, groups: NDArray[np.int64] | None
) -> tuple[AlphaChoice, Floats, Floats]:
    """Choose alpha by left-out rows; also return β and the left-out scores.

    For few rows, one decomposition tries all alphas. For many, generalised
    cross-validation by the Lanczos process finds a start, and factors improve it.
    """
    G, U, target, y = problem
    n = len(y)
    D = n + 1  # more indicators than rows: no lower limit
    if groups is None and n <= EIGEN_ROWS:
        values, vectors = eigen(G)
        shrink = 1 / (values[:, None] + alphas)
        a = vectors @ (shrink * (vectors.T @ target)[:, None])
        off = (U**2).sum(axis=1)[:, None] / (1 + alphas)
        diagonal = alphas * (vectors**2 @ shrink - off)
        residual = _each_alone(alphas * np.sqrt(n) * a, diagonal)
        wrong = ((y[:, None] - residual) > 0.5) != (y[:, None] > 0.5)
        risks = (residual**2).mean(axis=0)
        held_out = HeldOut(risks, risks, wrong.mean(axis=0))
        choice = choose("loo", alphas, held_out, n, D)
        return choice, *_leave_groups_out(problem, choice.alpha, groups)
    alphas = alphas[alphas >= _SMALLEST * max(G.trace() - U.shape[1], 0) / n]
    _, norm, df = spectrum(lambda V: G @ V, target[:, None], alphas)
    df = df + U.shape[1] * (1 - 1 / (1 + alphas))
    risks = corrected(alphas**2 * norm, df, n)
    tried: dict[int, tuple[Floats, Floats]] = {}

    def risk(place: int) -> float:
        if not 0 <= place < len(alphas):
            return np.inf
        if place not in tried:
            tried[place] = _leave_groups_out(problem, float(alphas[place]), groups)
        return float(((y - tried[place][1]) ** 2).mean())

    best = int(np.argmin(risks))
    while True:
        near = min((best - _STRIDE, best + _STRIDE), key=risk)
        if not risk(near) < (1 - _FLAT) * risk(best):
            break
        best = near
    places = sorted(tried)
    judged = [_judged(tried[place][1], y) for place in places]
    estimates = np.array([risk(place) for place in places])
    errors = np.array([np.nan if error is None else error for _, error in judged])
    held_out = HeldOut(estimates, estimates, errors)
    choice = choose("loo", alphas[places], held_out, n, D)
    return choice, *tried[places[choice.alphas.index(choice.alpha)]]


def _basis(X: Floats) -> Floats:
    """Return an orthonormal basis of covariates; check that all folds determine it."""
    Q, R = np.linalg.qr(X)
    if (np.abs(np.diag(R)) <= 1e-10 * np.linalg.norm(X, axis=0)).any():
        raise ValueError(
            "without a fifth of the samples the covariates do not determine a fit: "
            "leave out those that few samples differ in."
        )
    return np.asarray(Q)


def fit_products(
    multiply: Product,
    samples: Samples,
    alpha: float,
    folds: NDArray[np.int64],
    diagonal: float,
    tolerance: float,
) -> KernelFit:
    """Fit from products with A alone, by conjugate gradients, all folds at once.

    Rows with the same number in `folds` are left out together; `diagonal` approximates
    that of A. The fits without a fold keep the total penalty n·alpha. Scores are those
    of the solutions, whatever the residual.
    """
    target = np.asarray(samples.y, np.float64)
    n = len(target)
    K = int(folds.max()) + 1
    X = unpenalised(n, samples.covariates)
    used = np.ones((n, K + 1), bool)
    used[np.arange(n), folds] = False
    bases = [_basis(X * rows[:, None]) for rows in used.T]

    def project(V: Floats) -> Floats:
        V = np.where(used, V, 0.0)
        for column, U in enumerate(bases):
            V[:, column] -= U @ (U.T @ V[:, column])
        return V

    right = project(np.repeat(target[:, None], K + 1, axis=1))
    solved = conjugate_gradients(
        lambda V: project(multiply(project(V))) / n,
        right,
        alpha,
        np.full(n, diagonal / n),
        tolerance,
    )
    beta = project(solved.Z) / n
    rest = target[:, None] - multiply(beta)
    b = np.stack(
        [
            np.linalg.lstsq(X[rows], (rest - n * alpha * beta)[rows, column])[0]
            for column, rows in enumerate(used.T)
        ],
        axis=1,
    )
    without = target - rest[np.arange(n), folds] + (X * b.T[folds]).sum(axis=1)
    choice = AlphaChoice("given", alpha, *_judged(without, target))
    return KernelFit(
        beta[:, K], b[:, K], choice, without, folds, solved.rounds, solved.residual
    )
