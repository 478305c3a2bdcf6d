r"""The dual road of ridge regression, for tables with more categories than rows.

The problem is that of `renyi.solvers.ridge`, ``(Q_c + alpha·I) Z = F_c``. With rows W
of shape (n, D), their probabilities π, W̃ = W − 1μᵀ and the indicators Y of the
classes, ``Q_c = W̃ᵀπW̃`` and ``F_c = W̃ᵀπ(Y − p)``. Since ``(BᵀB + alpha·I)⁻¹Bᵀ =
Bᵀ(BBᵀ + alpha·I)⁻¹``, here with B = π^½ W̃::

    (G + alpha·I) a = π^½ (Y − p),     G = π^½ Ã π^½,     Z = Wᵀ π^½ a,

where ``Ã = W̃W̃ᵀ`` is the centred ``A = W Wᵀ``: in how many columns two rows agree. The
system has n unknowns instead of D, and the one-hot vectors are never written out. (W̃
may be W in the last equation, because a is orthogonal to π^½: G maps π^½ to zero, and
the right-hand side is orthogonal to it.)

*Rounding.* The scores of the rows are Ãπ^½a, and so are those of the points Z, but the
smaller alpha is, the larger are the terms that cancel in Z. With β = π^½a a point is a
sum of at most n terms, each row adds d points, and the intercept is such a difference:
the two differ by at most 4·eps·(n + d)·d·Σ|β|. Where that may show, or the table is
small, the scores are computed from the points, as `predict` does.

*Leave-one-out.* The leverage of a row, in `renyi.solvers.ridge` a norm of its centred
one-hot vector, is ``h = π_i + 1 − alpha·[(G + alpha)⁻¹]_ii`` for unit weights; its
residual is ``alpha·a_i/π_i^½``. At alpha = 0 both come from the projector on the range
of G; a row that the fit interpolates by itself (h = 1) has no left-out residual.

*A given A.* `fit_kernel` takes any A = W Wᵀ and covariates X beside it, without penalty
as the intercept is: these then are projected out instead of the mean, P = I − UUᵀ with
U an orthonormal basis of X and the ones. For two classes with y in {0, 1}::

    (PAP/n + alpha·I) nβ = P y,     s = X b + A β,     y − s = n·alpha·β,

and the rows of a group g without the group: ``y_g − (I − H_gg)⁻¹ (y_g − s_g)`` with
``I − H = alpha·(PAP/n + UUᵀ + alpha)⁻¹ − UUᵀ·alpha/(1 + alpha)``. Those are the scores
of a fit to all others at an unchanged total penalty n·alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.counting.onehot import (
    agreement,
    class_label_counts,
    label_sums,
    lookup_sum,
    offsets,
)
from renyi.solvers.krylov import Product, conjugate_gradients, spectrum
from renyi.solvers.ridge import (
    AlphaChoice,
    HeldOut,
    RidgeFit,
    Rows,
    alpha_grid,
    choose,
    corrected,
    eigen,
    inverse_factor,
    left_out,
    pseudo_inverse,
)

Floats = NDArray[np.float64]

ROUNDING = 1e-8
"""By how much scores may differ from those of the points without a second look."""
_FEW_CELLS = 200_000  # which take well under a millisecond to score
EIGEN_ROWS = 1_000
"""Up to here all alphas are tried by one decomposition; beyond, some by factors."""
_STRIDE = 2  # steps of the grid by which those are sought
_FLAT = 1e-3  # a step that improves by no larger share is the last
_DETERMINED = 1e-10  # of I − H: below, the others do not determine a fit
_SMALLEST = 1e-4  # alpha worth trying, as a share of the mean eigenvalue


class DualFit(NamedTuple):
    """Fit of the dual road, with what would else take another pass over the rows.

    The scores are those of the points at the training rows, but for `score_error`,
    which is at most `ROUNDING`.
    """

    fit: RidgeFit
    scores: Floats
    score_error: float
    target_counts: NDArray[Any]  # rows (or weight) of every category with every class


class _Kernel(NamedTuple):
    """The dual problem ``(G + alpha·I) a = target``."""

    rows: Rows
    fit_intercept: bool
    G: Floats
    target: Floats
    root: Floats
    base: Floats


def fit_dual(
    rows: Rows, n_features: int, alpha: float | str, fit_intercept: bool
) -> DualFit:
    """Fit from agreement counts of rows."""
    kernel = _kernel(rows, fit_intercept)
    if isinstance(alpha, str):
        a, choice, leverage = _path(kernel, alpha_grid(n_features))
    else:
        a, choice, leverage = _given(kernel, alpha)
    beta = kernel.root[:, None] * a
    Z = label_sums(rows.codes, rows.sizes, beta)
    scores = kernel.G @ a / kernel.root[:, None] + kernel.base - 1 / rows.n_classes
    # s(x) = intercept + Zᵀ W at every x, hence at the first row.
    starts = offsets(rows.sizes)[:-1]
    n = len(beta)
    d = len(starts)
    intercept = scores[0] - Z.take(starts + rows.codes[:, 0], axis=0).sum(axis=0)
    error = float(4 * np.finfo(float).eps * (n + d) * d * np.abs(beta).sum())
    if error > ROUNDING or rows.codes.size <= _FEW_CELLS:
        scores = lookup_sum(rows.codes, Z, starts) + intercept
        error = 0.0
    counts: NDArray[Any]
    if rows.sample_weight is None:
        counts = class_label_counts(rows.codes, rows.sizes, rows.y, rows.n_classes)
    else:
        classes = rows.y[:, None] == np.arange(rows.n_classes)
        counts = label_sums(
            rows.codes, rows.sizes, classes * rows.sample_weight[:, None]
        )
    fit = RidgeFit(Z, intercept, choice, leverage)
    return DualFit(fit, scores, error, counts)


def _kernel(rows: Rows, fit_intercept: bool) -> _Kernel:
    Y = rows.indicators()
    if rows.weights is None:
        share = np.full(rows.n, 1 / rows.n)
    else:
        share = rows.weights / rows.weights.sum()
    root = np.sqrt(share)
    if rows.factors is None:
        G = agreement(rows.codes, int(rows.sizes.max()))
    else:  # rows that agree in c columns agree in so many tuples of them
        codes, order = rows.factors
        same = agreement(codes, int(codes.max()) + 1).astype(np.intp)
        G = np.asarray(
            scipy.special.comb(np.arange(len(codes) + 1), order)[same], np.float64
        )
    base = np.full(Y.shape[1], 1 / rows.n_classes)
    if fit_intercept:
        base = share @ Y
        means = G @ share
        G -= means[:, None]
        G -= means
        # A step of 1 along the weights, to which everything else is orthogonal: it
        # changes no solution, and leverages no longer end in a cancellation.
        G += share @ means + 1
    G *= root
    G *= root[:, None]
    return _Kernel(rows, fit_intercept, G, root[:, None] * (Y - base), root, base)


def _given(kernel: _Kernel, alpha: float) -> tuple[Floats, AlphaChoice, Floats]:
    if alpha == 0:
        values, vectors = eigen(kernel.G)
        inverse = pseudo_inverse(values)
        C = vectors.T @ kernel.target
        a = vectors @ (inverse[:, None] * C)
        held = inverse > 0
        basis = vectors[:, held]  # of the range of G: basis @ basis.T projects on it
        residual = (kernel.target - basis @ C[held])[:, None, :]
        held_out = _held_out(kernel, residual, (basis**2).sum(axis=1)[:, None])
    else:
        lower = inverse_factor(kernel.G, alpha)
        a = lower.T @ (lower @ kernel.target)
        diagonal = np.einsum("ij,ij->j", lower, lower)[:, None]
        held_out = _leave_one_out(kernel, a[:, None, :], diagonal, np.array([alpha]))
    choice = AlphaChoice("given", alpha, *held_out.at(0))
    return a, choice, held_out.leverage[:, 0]


def _path(kernel: _Kernel, alphas: Floats) -> tuple[Floats, AlphaChoice, Floats]:
    values, vectors = eigen(kernel.G)
    shrink = 1 / (values[:, None] + alphas)
    C = vectors.T @ kernel.target
    a = np.einsum("ij,ja,jk->iak", vectors, shrink, C, optimize=True)
    held_out = _leave_one_out(kernel, a, vectors**2 @ shrink, alphas)
    D = int(kernel.rows.sizes.sum())
    choice = choose("loo", alphas, held_out, kernel.rows.effective_n, D)
    best = choice.alphas.index(choice.alpha)
    return a[:, best], choice, held_out.leverage[:, best]


def _leave_one_out(
    kernel: _Kernel, a: Floats, diagonal: Floats, alphas: Floats
) -> HeldOut:
    """Leave-one-out from the solutions and the diagonals of the inverses."""
    constant = kernel.fit_intercept * kernel.root[:, None] ** 2 / (1 + alphas)
    hat = 1 - alphas * (diagonal - constant)
    return _held_out(kernel, alphas[:, None] * a, hat)


def _held_out(kernel: _Kernel, residual: Floats, hat: Floats) -> HeldOut:
    """Leave-one-out from residuals times π^½ and the diagonals of hat matrices."""
    rows = kernel.rows
    if rows.weights is not None:
        unit = 1.0 if rows.unit is None else rows.unit
        hat = hat * (unit / rows.weights)[:, None]
    return left_out(rows, [(slice(None), residual / kernel.root[:, None, None], hat)])


# ---- a given matrix


class KernelFit(NamedTuple):
    """Weights of the rows, and the scores of each without itself or its group."""

    beta: Floats  # (n,)
    coefficients: Floats  # of the ones and of the covariates
    choice: AlphaChoice
    left_out: Floats  # (n,): estimates of P(1)
    together: NDArray[Any] | None  # numbers the rows that were left out together
    rounds: int = 0
    residual: float = 0.0  # of conjugate gradients, the largest


class _Projected(NamedTuple):
    """The problem ``(G + alpha) n^½ β = target``, with UUᵀ added to G."""

    G: Floats
    U: Floats
    target: Floats
    y: Floats


def unpenalised(
    n: int, covariates: Floats | None, names: Sequence[object] = ()
) -> Floats:
    """Return the ones and the covariates, if none is a combination of the others."""
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
    y: NDArray[Any],
    alpha: float | str,
    n_features: int,
    covariates: Floats | None = None,
    groups: NDArray[Any] | None = None,
) -> KernelFit:
    """Fit two classes, 0 and 1, from what every two rows have in common.

    `A` is overwritten. Scores are left out by row, or by group where `groups` numbers
    them. The coefficients are those of ``y − n·alpha·β − Aβ``, which the caller has by
    products that are cheaper than another copy of A; here they are empty.
    """
    n = len(A)
    X = unpenalised(n, covariates)
    U = np.linalg.qr(X)[0]
    T = A @ U
    T -= U @ (U.T @ T) / 2
    for low in range(0, n, 256):
        block = A[low : low + 256]
        block -= T[low : low + 256] @ U.T + U[low : low + 256] @ T.T
        block /= n
        block += U[low : low + 256] @ U.T
    target = np.asarray(y, np.float64)
    problem = _Projected(A, U, (target - U @ (U.T @ target)) / np.sqrt(n), target)
    if isinstance(alpha, str):
        choice, beta, left = _choose(problem, alpha_grid(n_features), groups)
    else:
        beta, left = _leave_groups_out(problem, alpha, groups)
        choice = AlphaChoice("given", alpha, *_judged(left, target))
    return KernelFit(beta, np.zeros(0), choice, left, groups)


def _judged(left: Floats, y: Floats) -> tuple[float | None, float | None]:
    """Risk and error of left-out scores; none where a fit is undefined."""
    if not np.isfinite(left).all():
        return None, None
    return float(((y - left) ** 2).mean()), float(((left > 0.5) != (y > 0.5)).mean())


def _leave_groups_out(
    problem: _Projected, alpha: float, groups: NDArray[Any] | None
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
    residual: Floats, factor: Floats | None, U: Floats, groups: NDArray[Any] | None
) -> Floats:
    """Return residuals of rows that are left out, alone or with their group.

    From those of the fit, ``(I − H)_gg⁻¹ r_g``, with ``I − H = factorᵀfactor − UUᵀ``,
    the factor I if it is None; infinite where the others do not determine a fit.
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


def _each_alone(residual: Floats, kept: Floats) -> Floats:
    """Return residuals of rows left out one by one, from the diagonal of I − H."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(kept > _DETERMINED, residual / kept, np.inf)


def covariates_alone(
    y: NDArray[Any], covariates: Floats | None, groups: NDArray[Any] | None
) -> Floats:
    """Return the scores of rows by least squares without them or their groups."""
    target = np.asarray(y, np.float64)
    U = np.linalg.qr(unpenalised(len(target), covariates))[0]
    return target - _without(target - U @ (U.T @ target), None, U, groups)


def _choose(
    problem: _Projected, alphas: Floats, groups: NDArray[Any] | None
) -> tuple[AlphaChoice, Floats, Floats]:
    """Choose alpha by what is left out; return β and the scores left out as well.

    Few rows, all alphas by one decomposition. Many: generalised cross-validation by the
    Lanczos process finds where to begin, and from there factors go downhill.
    """
    G, U, target, y = problem
    n = len(y)
    D = n + 1  # more indicators than rows: no floor
    if groups is None and n <= EIGEN_ROWS:
        values, vectors = eigen(G)
        shrink = 1 / (values[:, None] + alphas)
        a = vectors @ (shrink * (vectors.T @ target)[:, None])
        off = (U**2).sum(axis=1)[:, None] / (1 + alphas)
        kept = alphas * (vectors**2 @ shrink - off)
        residual = _each_alone(alphas * np.sqrt(n) * a, kept)
        wrong = ((y[:, None] - residual) > 0.5) != (y[:, None] > 0.5)
        risks = (residual**2).mean(axis=0)
        found = HeldOut(risks, risks, wrong.mean(axis=0))
        choice = choose("loo", alphas, found, n, D)
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
    found = HeldOut(estimates, estimates, errors)
    choice = choose("loo", alphas[places], found, n, D)
    return choice, *tried[places[choice.alphas.index(choice.alpha)]]


def _basis(X: Floats) -> Floats:
    """Return an orthonormal basis of what the rows of some folds determine."""
    Q, R = np.linalg.qr(X)
    if (np.abs(np.diag(R)) <= 1e-10 * np.linalg.norm(X, axis=0)).any():
        raise ValueError(
            "without a fifth of the samples the covariates do not determine a fit: "
            "leave out those that few samples differ in."
        )
    return np.asarray(Q)


def fit_products(
    multiply: Product,
    y: NDArray[Any],
    alpha: float,
    folds: NDArray[Any],
    diagonal: float,
    covariates: Floats | None = None,
    tolerance: float = 1e-6,
) -> KernelFit:
    """Fit from products with A alone, by conjugate gradients, all folds at once.

    `folds` numbers the rows that are left out together; `diagonal` is about that of A.
    The fits without a fold keep the total penalty n·alpha. Scores are those of the
    solutions as they are, however far the residual.
    """
    target = np.asarray(y, np.float64)
    n = len(target)
    K = int(folds.max()) + 1
    X = unpenalised(n, covariates)
    used = np.ones((n, K + 1), bool)
    used[np.arange(n), folds] = False
    bases = [_basis(X * kept[:, None]) for kept in used.T]

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
            np.linalg.lstsq(X[kept], (rest - n * alpha * beta)[kept, column])[0]
            for column, kept in enumerate(used.T)
        ],
        axis=1,
    )
    without = target - rest[np.arange(n), folds] + (X * b.T[folds]).sum(axis=1)
    choice = AlphaChoice("given", alpha, *_judged(without, target))
    return KernelFit(
        beta[:, K], b[:, K], choice, without, folds, solved.rounds, solved.residual
    )
