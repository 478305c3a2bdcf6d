r"""The dual form of ridge regression, for tables with more categories than rows.

The problem is that of `renyi.solvers.ridge`, ``(Q_c + alpha·I) Z = F_c``. With rows W
of shape (n, D), their probabilities π, W̃ = W − 1μᵀ and the indicators Y of the
classes, ``Q_c = W̃ᵀπW̃`` and ``F_c = W̃ᵀπ(Y − p)``. Since ``(BᵀB + alpha·I)⁻¹Bᵀ =
Bᵀ(BBᵀ + alpha·I)⁻¹``, here with B = π^½ W̃::

    (G + alpha·I) a = π^½ (Y − p),     G = π^½ Ã π^½,     Z = Wᵀ π^½ a,

where ``Ã = W̃W̃ᵀ`` is the centred ``A = W Wᵀ``, the number of columns in which two rows
agree. The system has n unknowns instead of D, and the one-hot vectors are never formed.
(W̃ may be W in the last equation, because a is orthogonal to π^½: G maps π^½ to zero,
and the right-hand side is orthogonal to it.)

*Rounding.* The scores of the rows are Ãπ^½a. The points Z give the same scores, but
with small alpha large terms cancel in Z. Let β = π^½a. A point is a sum of at most n
terms, each row adds d points, and the intercept is such a difference. So the two differ
by at most 4·eps·(n + d)·d·Σ|β|. If that is too large, or the table is small, the scores
are computed from the points, as in `predict`.

*Leave-one-out.* In `renyi.solvers.ridge` the leverage of a row is a norm of its centred
one-hot vector. Here it is ``h = π_i + 1 − alpha·[(G + alpha)⁻¹]_ii`` for unit weights,
and the residual is ``alpha·a_i/π_i^½``. At alpha = 0 both come from the projector on
the range of G. A row of leverage 1 has no left-out residual.
"""

from __future__ import annotations

from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import (
    agreement,
    class_label_counts,
    label_sums,
    lookup_sum,
    offsets,
)
from renyi.solvers.ridge import (
    AlphaChoice,
    HeldOut,
    RidgeFit,
    Rows,
    alpha_grid,
    choose,
    eigen,
    inverse_factor,
    left_out,
    pseudo_inverse,
)

Floats = NDArray[np.float64]

ROUNDING = 1e-8
"""Largest difference between these scores and those of the points that is ignored."""
_FEW_CELLS = 200_000  # scoring so many cells takes well under a millisecond


class DualFit(NamedTuple):
    """Fit by the dual form, with results that would need another pass over the rows.

    The scores are those of the points at the training rows, up to `score_error`, which
    is at most `ROUNDING`.
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
    """Fit from the number of columns in which each two rows agree."""
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
    else:  # two rows that agree in c columns agree in (c choose order) tuples
        codes, order = rows.factors
        same = agreement(codes, int(codes.max()) + 1).astype(np.intp)
        G = np.array([float(comb(c, order)) for c in range(len(codes) + 1)])[same]
    base = np.full(Y.shape[1], 1 / rows.n_classes)
    if fit_intercept:
        base = share @ Y
        means = G @ share
        G -= means[:, None]
        G -= means
        # Add 1 along the weights. Everything else is orthogonal to them, so that no
        # solution changes, and leverages are computed without cancellation.
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
        positive = inverse > 0
        basis = vectors[:, positive]  # basis @ basis.T projects on the range of G
        residual = (kernel.target - basis @ C[positive])[:, None, :]
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
    """Return leave-one-out estimates from solutions and diagonals of inverses."""
    constant = kernel.fit_intercept * kernel.root[:, None] ** 2 / (1 + alphas)
    hat = 1 - alphas * (diagonal - constant)
    return _held_out(kernel, alphas[:, None] * a, hat)


def _held_out(kernel: _Kernel, residual: Floats, hat: Floats) -> HeldOut:
    """Return leave-one-out estimates from residuals times π^½ and hat diagonals."""
    rows = kernel.rows
    if rows.weights is not None:
        unit = 1.0 if rows.unit is None else rows.unit
        hat = hat * (unit / rows.weights)[:, None]
    return left_out(rows, [(slice(None), residual / kernel.root[:, None, None], hat)])
