r"""Ridge regression of the classes on the one-hot vector W: from (Q, F, alpha) to z.

Mean form, in probability units; `alpha` is the paper's lambda for ridge regression.
With the centred moments ``Q_c = Q − μμᵀ``, ``F_c = F − μpᵀ``::

    (Q_c + alpha·I) Z = F_c,        s(x) = p − 1/K + Zᵀ(W − μ)

s_y(x) is the estimate t_y(x) of P(y|x), minus 1/K. For two classes one column is
enough: s = s_1 = −s_0 solves ``(Q_c + alpha·I) z = dvec_c/2``. Without intercept
nothing is centred, and the classes are coded e_Y − 1/K. At K = 2 this is the paper's
``(Q + alpha·I) z = dvec/2``. The risk is ``γ = E‖t − e_Y‖²/2``. If there are more
categories than rows, `renyi.solvers.ridge_dual` solves the same problem.

*Choice of alpha.* The leave-one-out residual is residual/(1 − h), where h is the
leverage of one unit copy of the row, ``h = (1 + ‖(Q_c + alpha)^{-½}(W − μ)‖²)/N``. It
equals the residual of a fit without the row at an unchanged total penalty. Weights have
the same effect as repetition. Generalised cross-validation needs no rows:
``γ̂/(1 − df/n)²`` with df = 1 + Σ e/(e + alpha), e the eigenvalues of Q_c.

*Floor of alpha.* ``n·alpha`` is the penalty in rows; noisy tables choose 0.1 to 100. If
the features determine the class and rows outnumber the categories, both estimates fall
with alpha down to rounding errors, and the points would consist of these. So alpha is
at least `FLOOR_ROWS`/n. This leaves a bias of the order of alpha². It is far above
rounding and far below 1/n, the smallest risk that n rows can distinguish from zero.
With more categories than rows there is no floor: the limit alpha → 0, the fit of least
norm, is a regular candidate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.counting.onehot import dense, offsets
from renyi.counting.sparse_counts import Table, is_sparse
from renyi.encoding.rows import Pieces, dealt, in_sample
from renyi.encoding.tuples import Factors
from renyi.validation import InputError, ParameterError

Floats = NDArray[np.float64]

METHODS = ("given", "loo", "folds", "gcv", "certificate", "noise")
GRID_SIZE = 50
FLOOR_ROWS = 0.01
# Beyond this many rows per indicator, leave-one-out and its approximation by
# generalised cross-validation agree to three digits or more.
ROWS_PER_INDICATOR = 100
# Most multiplications that leave-one-out may take.
AFFORDABLE = 1e10
# Most pairs of categories to look up for the leverages of a sample.
_LOOKUPS = 2e8
_ROW_BLOCK = 4096
_BLOCK = 64  # block size of LAPACK's reflections
INDEFINITE = (
    "The marginals are not positive semidefinite, so no rows can have them, or alpha "
    "is too small for their rounding errors. Count again "
    "(Marginals.validate() names the counts that disagree), or give a larger alpha."
)


@dataclass(frozen=True)
class AlphaChoice:
    """The choice of `alpha`, with the error to expect on new rows.

    Parameters
    ----------
    method : {"given", "loo", "folds", "gcv", "certificate", "noise"}
        By the user, by leave-one-out, by ten folds, by generalised cross-validation, by
        the smallest guarantee (counts known to intervals), or by the noise of the
        counts.
    alpha : float
        The chosen value.
    risk : float or None
        Estimated risk at that value, by leave-one-out if there are rows, otherwise by
        generalised cross-validation. None if neither is reliable. Of logistic
        regression it is the log loss.
    error : float or None
        Error rate of the rule map by leave-one-out. With three or more classes it is
        too low, as the calibration was fitted to the same rows: the error to expect on
        new rows is `Certificate.loo_error`.
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
        """Check the numbers: a choice may come from a file."""
        if self.method not in METHODS:
            raise ValueError(
                f"the method that chose alpha, {self.method!r:.60}, is unknown"
            )
        check_alpha(self.alpha)
        if self.risk is not None and not 0 <= self.risk <= sys.float_info.max:
            raise ValueError(f"the estimated risk cannot be {self.risk!r}")
        if self.error is not None and not 0 <= self.error <= 1 + 1e-9:
            raise ValueError(f"the estimated error cannot be {self.error!r}")


class RidgeFit(NamedTuple):
    """A solution: points z (D, k), intercept (k,), and the choice of alpha.

    `leverage` has one value for each row of the sample (`Rows.sampled`), or the mean.
    """

    z: Floats
    intercept: Floats
    choice: AlphaChoice
    leverage: Floats


@dataclass(frozen=True)
class Rows:
    """Rows to train on.

    `weights` are the weights in the fit and in the choice of alpha, `sample_weight`
    those in the reported risk. `unit` is the weight of one copy of a row in the fit.
    None means 1 throughout. `factors` are the columns of which the features are tuples.
    """

    codes: NDArray[Any]
    sizes: NDArray[Any]
    y: NDArray[Any]
    n_classes: int
    weights: Floats | None = None
    sample_weight: Floats | None = None
    unit: Floats | None = None
    factors: Factors | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @property
    def effective_n(self) -> float:
        """Number of rows, a row of weight 2 counting twice."""
        if self.weights is None:
            return float(self.n)
        unit = 1.0 if self.unit is None else self.unit
        return float((self.weights / unit).sum())

    @property
    def total(self) -> float:
        """Total weight of the rows in the fit."""
        return float(self.n if self.weights is None else self.weights.sum())

    def both_weights(self) -> tuple[Floats, Floats]:
        """Return weights and sample weight of every row, ones if there are none."""
        ones = np.ones(self.n)
        weights = ones if self.weights is None else self.weights
        return weights, ones if self.sample_weight is None else self.sample_weight

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any], Any]]:
        """Yield blocks of rows: their slice, codes, and the weight of one copy."""
        for start in range(0, self.n, _ROW_BLOCK):
            block = slice(start, start + _ROW_BLOCK)
            unit = 1.0 if self.unit is None else self.unit[block]
            yield block, self.codes[:, block], unit

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Which rows are used to calibrate probabilities."""
        return in_sample(np.arange(self.n), self.n)

    def part(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        if chosen.all():
            return self

        def of_chosen(values: Floats | None) -> Floats | None:
            return None if values is None else values[chosen]

        return Rows(
            self.codes[:, chosen],
            self.sizes,
            self.y[chosen],
            self.n_classes,
            of_chosen(self.weights),
            of_chosen(self.sample_weight),
            of_chosen(self.unit),
        )

    def dealt(self) -> tuple[Rows, Pieces]:
        """Return copies of the rows, and how they are dealt to folds."""
        weights, sample_weight = self.both_weights()
        unit = np.ones(self.n) if self.unit is None else self.unit
        pieces = dealt(self.codes, self.y, self.sample_weight)
        places = pieces.places
        part = weights[places] * pieces.share
        rows = Rows(
            self.codes[:, places],
            self.sizes,
            self.y[places],
            self.n_classes,
            part,
            sample_weight[places] * pieces.share,
            np.minimum(unit[places], part),
        )
        return rows, pieces

    def indicators(self) -> Floats:
        """Return the class indicators; for two classes only the second."""
        if self.n_classes == 2:
            return np.asarray(self.y == 1, np.float64)[:, None]
        return np.asarray(self.y[:, None] == np.arange(self.n_classes), np.float64)


class LeftOut(NamedTuple):
    """Leave-one-out scores of rows, to calibrate probabilities.

    Weights add up to the number of rows, a row of weight 2 counting twice.
    `sample_weight` are the weights in the reported error.
    """

    scores: Floats  # (n, K), or (n, 1) for the second of two classes
    y: NDArray[Any]
    weights: Floats
    sample_weight: Floats
    leverage: float  # the mean
    complete: bool = True  # no row was dropped because the fit interpolates it alone
    places: NDArray[np.intp] | None = None  # of these rows among all of the sample

    @property
    def residuals(self) -> Floats:
        """Indicators of the classes minus 1/K and the left-out scores."""
        two = self.scores.shape[1] == 1
        classes = np.array([1]) if two else np.arange(self.scores.shape[1])
        centre = 1 / 2 if two else 1 / len(classes)
        return np.asarray((self.y[:, None] == classes) - centre - self.scores)

    mapped: Floats | None = None  # calibrated scores, by models of other folds

    def of_folds(self, pieces: Pieces, plain: Floats | None, mapped: Floats) -> LeftOut:
        """Return the rows in pieces, with the scores of models of the other folds.

        `plain` are the scores before calibration, if these replace those of the rows.
        """
        assert self.places is not None
        own = np.full(int(max(pieces.places.max(), self.places.max())) + 1, -1)
        own[self.places] = np.arange(len(self.places))
        known = own[pieces.places] >= 0
        row = own[pieces.places[known]]
        share = pieces.share[known]
        return LeftOut(
            self.scores[row] if plain is None else plain[known],
            self.y[row],
            self.weights[row] * share,
            self.sample_weight[row] * share,
            self.leverage,
            self.complete,
            pieces.places[known],
            mapped[known],
        )


def leave_out(rows: Rows, scores: Floats, leverage: Floats) -> LeftOut:
    """Return ``e − (e − s)/(1 − h)``, without rows of leverage h = 1."""
    h = np.broadcast_to(leverage, rows.n)
    (weights, sample_weight) = rows.both_weights()
    weights = weights * (rows.effective_n / weights.sum())
    defined = 1 - h > 1e-10
    target = rows.indicators()[defined] - 1 / rows.n_classes
    left_out = target - (target - scores[defined]) / (1 - h[defined, None])
    mean = float(np.average(h, weights=weights) if np.ndim(leverage) else leverage)
    return LeftOut(
        left_out,
        rows.y[defined],
        weights[defined],
        sample_weight[defined],
        mean,
        bool(defined.all()),
        np.flatnonzero(defined),
    )


def row_leverages(
    rows: Rows, equations: Moments, alpha: float, total: float
) -> Floats | None:
    """Return the leverage of each row of a sample; all rows together weigh `total`.

    The sum over pairs of a row's categories uses the inverse of A + alpha. The result
    is None if that costs too much, or if A is sparse; use the mean leverage then.
    """
    A = equations.A
    d, n = rows.codes.shape
    if is_sparse(A) or len(A) ** 3 > AFFORDABLE or n * d * d > _LOOKUPS:
        return None
    inverse = _inverse(A, alpha)
    if inverse is None:
        return None
    D = len(inverse)
    from_centre = inverse @ equations.centre
    constant = float(equations.centre @ from_centre) + equations.fit_intercept
    flat = inverse.ravel()
    places = rows.codes.astype(np.int64) + offsets(rows.sizes)[:-1][:, None]
    squares = np.full(n, constant)
    for i in range(d):
        start = places[i] * D
        squares += flat[start + places[i]] - 2 * from_centre[places[i]]
        for j in range(i):
            squares += 2 * flat[start + places[j]]
    unit = 1.0 if rows.unit is None else rows.unit
    return np.asarray(unit * np.maximum(squares, 0) / total)


def _inverse(A: Floats, alpha: float) -> Floats | None:
    """Return the inverse of ``A + alpha·I``; None if it is not positive definite."""
    if alpha == 0:
        values, vectors = eigen(A)
        return np.asarray((vectors * pseudo_inverse(values)) @ vectors.T)
    try:
        L = cholesky(A, alpha)
    except ValueError:
        return None
    lower, info = scipy.linalg.lapack.dpotri(L, lower=1, overwrite_c=1)
    assert info == 0
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


class Moments(NamedTuple):
    """The normal equations ``(A + alpha·I) Z = R``, and the means that centred them.

    If Q is sparse, A is Q itself, because centring would fill it.
    """

    A: Table
    R: Floats
    centre: Floats
    base: Floats
    variance: float
    n_classes: int
    fit_intercept: bool


def moments(Q: Table, F: Floats, priors: Floats, fit_intercept: bool) -> Moments:
    """Centre the moments, or code the classes around 1/K."""
    mu = Q.diagonal().copy()
    n_classes = F.shape[1]
    keep = slice(1, 2) if n_classes == 2 else slice(None)
    priors = priors[keep]
    if fit_intercept:
        A = Q if is_sparse(Q) else Q - np.outer(mu, mu)
        base = priors
        centre = mu
        variance = float((priors * (1 - priors)).sum())
    else:
        A = Q.copy()
        base = np.full(len(priors), 1 / n_classes)
        centre = np.zeros_like(mu)
        variance = float((priors * (1 - 2 / n_classes) + 1 / n_classes**2).sum())
    R = F[:, keep] - np.outer(mu, base)
    return Moments(A, R, centre, base, variance, n_classes, fit_intercept)


# ---- fits


def fit_primal(
    equations: Moments,
    n: float,
    n_features: int,
    alpha: float | str,
    rows: Rows | None = None,
) -> RidgeFit:
    """Fit from moments; with `rows`, leave-one-out is possible.

    `n` is the number of rows, a row of weight 2 counting twice.
    """
    check_rows(alpha, rows)
    D = len(equations.A)
    K = equations.n_classes
    if rows is not None and not worthwhile(rows.effective_n, D, K, alpha):
        rows = None
    if not isinstance(alpha, str):
        return _fit_given(equations, n, alpha, rows)
    if rows is None:
        return _fit_gcv(equations, n, alpha_grid(n_features))
    return _fit_loo(equations, n, alpha_grid(n_features), rows)


def check_rows(alpha: float | str, rows: Rows | None) -> None:
    """Raise InputError if alpha is "loo" and there are no rows."""
    if alpha == "loo" and rows is None:
        raise InputError(
            "{alpha} needs the rows, but only marginals are given: use 'auto' "
            "(generalised cross-validation) or a number.",
            alpha="loo",
        )


def worthwhile(effective_n: float, D: int, n_classes: int, alpha: float | str) -> bool:
    """Return whether leave-one-out is affordable and differs from its approximation.

    `effective_n` counts a row of weight 2 twice, so that weights and repetition lead to
    the same choice. The answer depends on the data only, not on how they were read.
    """
    cost = effective_n * D * (D + GRID_SIZE * n_classes)
    few = effective_n <= ROWS_PER_INDICATOR * D and cost <= AFFORDABLE
    return alpha == "loo" or few


def _fit_loo(equations: Moments, n: float, alphas: Floats, rows: Rows) -> RidgeFit:
    """Choose alpha by leave-one-out, with one decomposition for all alphas."""
    if equations.fit_intercept:
        values, vectors = contrast_eigen(equations.A, rows.sizes)
    else:
        values, vectors = eigen(equations.A)
    C = vectors.T @ equations.R
    shrink = 1 / (values[:, None] + alphas)
    held_out = _leave_one_out(rows, equations, vectors, C, shrink)
    choice = choose("loo", alphas, held_out, n, len(equations.A))
    best = choice.alphas.index(choice.alpha)
    Z = vectors @ (shrink[:, [best]] * C)
    return solution(equations, Z, choice, held_out.leverage[..., best])


def _fit_gcv(equations: Moments, n: float, alphas: Floats) -> RidgeFit:
    """Choose alpha by generalised cross-validation, without eigenvectors.

    With A = U T Uᵀ, T tridiagonal, the risk at each alpha needs a tridiagonal system,
    and the degrees of freedom need the eigenvalues of T. U is never formed. This takes
    a quarter of the time of eigenvectors.
    """
    reduced = Tridiagonal.of(equations.A)
    C = reduced.rotate(equations.R, "T")
    solutions = [reduced.solve(C, alpha) for alpha in alphas]
    risks = np.array([fitted_risk(equations, C, reduced @ u, u) for u in solutions])
    values = reduced.eigenvalues()
    df = equations.fit_intercept + (values[:, None] / (values[:, None] + alphas)).sum(0)
    risks = corrected(risks, df, n)
    choice = choose("gcv", alphas, HeldOut(risks, risks), n, len(values))
    best = choice.alphas.index(choice.alpha)
    Z = reduced.rotate(solutions[best], "N")
    return solution(equations, Z, choice, df[best] / n)


def _fit_given(
    equations: Moments, n: float, alpha: float, rows: Rows | None
) -> RidgeFit:
    A = equations.A
    R = equations.R
    if alpha == 0:
        values, vectors = eigen(A)
        shrink = np.sqrt(pseudo_inverse(values))
        basis = vectors * shrink
        df: Any = np.count_nonzero(shrink)
    else:
        basis = inverse_factor(A, alpha).T
        df = len(A) - alpha * np.vdot(basis, basis)  # the trace of A·(A + alpha)⁻¹
    C = basis.T @ R
    Z = basis @ C
    if rows is None:
        risk = fitted_risk(equations, R, A @ Z, Z)
        df = df + equations.fit_intercept
        risks = np.atleast_1d(corrected(risk, df, n))
        held_out = HeldOut(risks, risks, leverage=np.array([df / n]))
    else:
        ones = np.ones((basis.shape[1], 1))
        held_out = _leave_one_out(rows, equations, basis, C, ones)
    choice = AlphaChoice("given", alpha, *held_out.at(0))
    return solution(equations, Z, choice, held_out.leverage[..., 0])


def solution(
    equations: Moments, Z: Floats, choice: AlphaChoice, leverage: Any
) -> RidgeFit:
    """Return the fit of points Z; the intercept undoes the centring."""
    intercept = equations.base - 1 / equations.n_classes - equations.centre @ Z
    return RidgeFit(Z, np.asarray(intercept, np.float64), choice, np.array(leverage))


# ---- the choice of alpha


class HeldOut(NamedTuple):
    """Estimates for each alpha: risk by fit weights, risk by sample weights, error.

    Leverages are those of the sampled rows, (rows, alphas), or means, (alphas,).
    """

    weighted: Floats
    risk: Floats
    error: Floats | None = None
    leverage: Floats = np.zeros(1)

    def at(self, place: int) -> tuple[float | None, float | None]:
        """Return risk and error at one alpha; None if a left-out fit is undefined."""
        if not np.isfinite(self.risk[place]):
            return None, None
        error = None if self.error is None else float(self.error[place])
        return float(self.risk[place]), error


def check_alpha(alpha: float | str) -> float | str:
    """Return `alpha`; raise ParameterError unless it is valid."""
    if isinstance(alpha, str):
        if alpha not in ("auto", "loo"):
            raise ParameterError(
                "alpha", f"must be a number, 'auto' or 'loo', not {alpha!r}."
            )
        return alpha
    if isinstance(alpha, bool) or not 0 <= alpha <= sys.float_info.max:
        raise ParameterError(
            "alpha", f"must be finite and not negative, not {alpha!r}."
        )
    return float(alpha)


def alpha_grid(n_features: int) -> Floats:
    """Return the values of alpha to try: the trace of Q is the number of features."""
    return n_features * np.logspace(-8, 1, GRID_SIZE)


def alpha_floor(n: float, n_indicators: int) -> float:
    """Return the smallest alpha that may be chosen from n rows of D categories."""
    return FLOOR_ROWS / n if n > n_indicators else 0.0


def choose(
    method: str, alphas: Floats, held_out: HeldOut, n: float, n_indicators: int
) -> AlphaChoice:
    """Choose the alpha of smallest risk above the floor, the largest of equals."""
    if method == "gcv" and not np.isfinite(held_out.weighted).any():
        raise ValueError(
            f"The total weight, {n:g}, is too small to choose alpha from, since it "
            "stands for the number of rows. Scale the weights to counts "
            "(marginals m as m * number_of_rows / m.n), or give alpha as a number."
        )
    floor = alpha_floor(n, n_indicators)
    risks = np.where(alphas >= floor, held_out.weighted, np.inf)
    # The choice must not depend on rounding errors of the risks.
    best = int(np.flatnonzero(risks <= risks.min() * (1 + 1e-9))[-1])
    risk, error = held_out.at(best)
    return AlphaChoice(
        method,
        float(alphas[best]),
        risk,
        error,
        tuple(alphas.tolist()),
        tuple(held_out.weighted.tolist()),
    )


def weight_of(n_classes: int) -> float:
    """Return w of ``γ = w·E‖T − s‖²``: for two classes one column stands for both."""
    return 1.0 if n_classes == 2 else 0.5


def fitted_risk(equations: Moments, R: Floats, AZ: Floats, Z: Floats) -> float:
    """Return the risk on the rows themselves, from A·Z in any basis."""
    fit = 2 * (R * Z).sum() - (Z * AZ).sum()
    return float(weight_of(equations.n_classes) * (equations.variance - fit))


def corrected(risk: Any, df: Any, n: float) -> Floats:
    """Return risk/(1 − df/n)², infinite if no degree of freedom is left."""
    left = np.maximum(1 - df / n, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where(left > 1e-9, np.maximum(risk, 0) / left**2, np.inf), np.float64
        )


def _leave_one_out(
    rows: Rows, equations: Moments, basis: Floats, C: Floats, shrink: Floats
) -> HeldOut:
    """Return leave-one-out estimates of ``Z_a = basis · diag(shrink[:, a]) · C``.

    The inverse of A + alpha_a is ``basis · diag(shrink[:, a]) · basisᵀ``.
    """
    Y = rows.indicators()
    shift = equations.centre @ basis
    total = rows.total

    def parts() -> Iterator[tuple[slice, Floats, Floats]]:
        for block, codes, unit in rows.blocks():
            G = dense(codes, rows.sizes) @ basis - shift
            each = np.reshape(unit, (-1, 1))
            leverage = each * (equations.fit_intercept + G**2 @ shrink) / total
            fitted = np.einsum("nj,ja,jk->nak", G, shrink, C, optimize=True)
            yield block, (Y[block] - equations.base)[:, None, :] - fitted, leverage

    return left_out(rows, parts())


def left_out(rows: Rows, parts: Iterable[tuple[slice, Floats, Floats]]) -> HeldOut:
    """Return leave-one-out estimates from residuals and leverages, by blocks of rows.

    Residuals have the shape (rows, alphas, k), leverages (rows, alphas).
    """
    weights, sample_weight = rows.both_weights()
    indicators = rows.indicators()
    weighted = risk = error = 0.0
    sampled = rows.sampled
    leverages = []
    for block, residual, leverage in parts:
        leverages.append(leverage[sampled[block]])
        Y = indicators[block]
        left = (1 - leverage)[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = np.where(left > 1e-10, residual / left, np.inf)
        scores = np.where(np.isfinite(residual), Y[:, None, :] - residual, 0)
        if rows.n_classes == 2:
            wrong = (scores[:, :, 0] > 0.5) != (Y > 0.5)
        else:
            wrong = scores.argmax(axis=2) != rows.y[block, None]
        squares = weight_of(rows.n_classes) * (residual**2).sum(axis=2)
        weighted += weights[block] @ squares
        risk += sample_weight[block] @ squares
        error += sample_weight[block] @ wrong
    total = sample_weight.sum()
    return HeldOut(
        weighted / weights.sum(),
        risk / total,
        error / total,
        np.concatenate(leverages),
    )


# ---- decompositions of A


def cholesky(A: Floats, alpha: float) -> Floats:
    """Return the lower factor L of ``A + alpha·I``."""
    M = A.copy(order="F")
    M.flat[:: len(M) + 1] += alpha
    L, info = scipy.linalg.lapack.dpotrf(M, lower=1, overwrite_a=1)
    if info:
        raise ValueError(INDEFINITE)
    return np.asarray(L)


def inverse_factor(A: Floats, alpha: float) -> Floats:
    """Return L⁻¹, lower triangular, with L⁻ᵀL⁻¹ the inverse of ``A + alpha·I``."""
    if not len(A):  # LAPACK does not accept an empty matrix
        return A
    inverse, info = scipy.linalg.lapack.dtrtri(
        cholesky(A, alpha), lower=1, overwrite_c=1
    )
    assert info == 0
    return np.asarray(inverse)


def eigen(A: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, none below 0, and eigenvectors."""
    values, vectors = np.linalg.eigh(A)
    return _semidefinite(values), vectors


def _semidefinite(values: Floats) -> Floats:
    """Return eigenvalues with none below 0; raise ValueError if one clearly is."""
    if len(values) and values[0] < -1e-6 * max(1.0, values[-1]):
        raise ValueError(INDEFINITE)
    return np.maximum(values, 0)


def pseudo_inverse(values: Floats) -> Floats:
    """Return 1/values, and 0 for values that are 0 up to rounding."""
    cutoff = values.max(initial=0) * len(values) * np.finfo(float).eps * 8
    positive = values > max(cutoff, 1e-14)
    return np.where(positive, 1 / np.where(positive, values, 1), 0)


def contrast_eigen(A: Floats, sizes: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return D − d eigenvalues and eigenvectors of a covariance of indicators.

    The indicators of a feature add up to one, so A maps its vector of ones to zero.
    Reflections turn these d idle directions into first coordinates. The others are the
    contrasts, orthonormal columns H with ``A = H (HᵀAH) Hᵀ``. Eigenvectors of the
    smaller matrix take less time: an eighth if all features are binary.
    """
    starts = offsets(sizes)[:-1]
    mirror = np.repeat(1 / np.sqrt(sizes), sizes)
    mirror[starts] -= 1
    norms = np.sqrt(np.add.reduceat(mirror**2, starts) / 2)
    norms[norms == 0] = 1  # a single category does not vary
    mirror = (mirror / np.repeat(norms, sizes))[:, None]

    def reflected(M: Floats) -> Floats:
        sums = np.add.reduceat(mirror * M, starts, axis=0)
        return np.asarray(M - mirror * np.repeat(sums, sizes, axis=0))

    half = np.delete(reflected(A), starts, axis=0)
    values, vectors = eigen(np.delete(reflected(half.T), starts, axis=0).T)
    whole = np.zeros((len(A), vectors.shape[1]))
    whole[np.delete(np.arange(len(A)), starts)] = vectors
    return values, reflected(whole)


class Tridiagonal(NamedTuple):
    """A positive semidefinite matrix as U T Uᵀ, U a product of reflections."""

    diagonal: Floats
    off: Floats
    reflections: Floats
    scales: Floats

    @classmethod
    def of(cls, A: Floats) -> Tridiagonal:
        """Reduce a symmetric matrix."""
        packed, diagonal, off, scales, info = scipy.linalg.lapack.dsytrd(
            A, lower=1, lwork=_BLOCK * len(A)
        )
        assert info == 0
        return cls(diagonal, off, packed[1:, :-1], scales)

    def rotate(self, R: Floats, transpose: str) -> Floats:
        """Return UᵀR for "T", U R for "N"."""
        out = np.array(R, np.float64, order="F")
        if len(self.off):  # the first row stays the same
            space = _BLOCK * out.shape[1] + _BLOCK * _BLOCK
            out[1:], _, info = scipy.linalg.lapack.dormqr(
                "L", transpose, self.reflections, self.scales, out[1:], space
            )
            assert info == 0
        return out

    def __matmul__(self, u: Floats) -> Floats:
        """Return T u."""
        out = self.diagonal[:, None] * u
        out[1:] += self.off[:, None] * u[:-1]
        out[:-1] += self.off[:, None] * u[1:]
        return out

    def eigenvalues(self) -> Floats:
        """Return ascending eigenvalues; raise ValueError if one is clearly negative."""
        return _semidefinite(scipy.linalg.eigvalsh_tridiagonal(self.diagonal, self.off))

    def solve(self, C: Floats, alpha: float) -> Floats:
        """Solve (T + alpha·I) u = C; return zeros if a pivot is not positive."""
        off = self.off if len(self.off) else np.zeros(1)  # LAPACK needs one entry
        _, _, u, info = scipy.linalg.lapack.dptsv(self.diagonal + alpha, off, C)
        return np.asarray(u) if info == 0 else np.zeros_like(C)
