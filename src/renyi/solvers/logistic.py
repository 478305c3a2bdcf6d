r"""Logistic regression of the classes on the one-hot vector W, from rows.

.. math:: \min_{Z, b} \frac1n \sum_r w_r \Bigl(\log \sum_k e^{g_k(x_r)} - g_{y_r}(x_r)
   \Bigr) + \frac\alpha2 \|Z\|^2, \qquad g(x) = b + Z^T W, \quad n = \sum_r w_r

scikit-learn's C is 1/(n·alpha). Two classes have one column of points z, those of the
log-odds g_1 − g_0. In the form above they are Z_1 = −Z_0 = z/2, with twice the penalty.
Equal rows are merged. The rank of W is often far below the number of its columns: an
orthonormal basis replaces them, which changes no score and no norm.

*Choice of alpha*: the least log loss of left-out rows, from strong penalties to weak
ones, until two in turn are worse than the best. Left-out scores are one step of
Newton's method away (Rad & Maleki 2020). With ``A = diag(p) − ppᵀ``, the Hessian H of
all rows, and ``h = u·X H⁻¹ Xᵀ`` of a row whose copies weigh u, they are

.. math:: g + (1 - h A)^{-1} h (p - e_y)

in an orthonormal basis of the vectors that add up to 0. If H is too large, folds are
left out instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.counting.onehot import agreement, label_sums, offsets
from renyi.solvers.calibration import multinomial, softmax
from renyi.solvers.metrics import log_losses
from renyi.solvers.ridge import AlphaChoice, LeftOut, RidgeFit, Rows, inverse_factor
from renyi.solvers.ridge_kernel import Groups, grouped

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

PENALTIES = np.geomspace(100, 0.01, 9)  # n·alpha
FOLDS = 10
_LARGEST = 4_000  # most coefficients with a Hessian
_PRODUCTS = 5e10  # most multiplications that it may take
_GRAM = 6_000  # most rows or columns of which a basis is found
_DENSE = 5e7  # most elements of a dense array
SEARCHED = 3_000  # rows on which a penalty is chosen by folds, if there are more
_CELLS = 2**21  # elements of a block
_TINY = 1e-9  # square of a distance that is 0


class LogisticFit(NamedTuple):
    """A solution, and a sample of the rows with their left-out scores."""

    fit: RidgeFit
    left_out: LeftOut
    by_folds: bool


def fit_logistic(rows: Rows, alpha: float | str, fit_intercept: bool) -> LogisticFit:
    """Fit with a given alpha, or with that of the least left-out log loss."""
    groups, place = grouped(rows)
    problem = _problem(groups, fit_intercept)
    by_folds = problem.is_large and alpha != "loo"
    sample = _Sample(rows.part(rows.sampled), place[rows.sampled])
    method = "folds" if by_folds else "loo"
    penalties = PENALTIES * groups.total / rows.effective_n
    if not isinstance(alpha, str):
        method = "given"
        penalties = np.array([alpha * groups.total])
    elif by_folds and rows.n > SEARCHED:
        some = np.random.default_rng(0).permutation(rows.n) < SEARCHED
        part = rows.part(some)
        chosen = fit_logistic(part, alpha, fit_intercept).fit.choice
        penalties = np.array([chosen.alpha * part.total])
    B = np.zeros(problem.shape)
    tried: list[_Candidate] = []
    for penalty in penalties.tolist():
        B = problem.solved(penalty, B)
        if by_folds:
            g = _scores_of_folds(problem, rows, place, penalty, B)[rows.sampled]
        else:
            g = _scores_one_by_one(problem, sample, penalty, B)
        tried.append(_Candidate(penalty, B, g, _log_loss(g, sample.rows)))
        losses = [each.loss for each in tried]
        if len(tried) > 2 and min(losses[-2:]) > min(losses):
            break
    best = min(tried, key=lambda each: each.loss)
    z, intercept = _points(problem, best.B)
    left_out = _left_out(best.scores, sample.rows)
    choice = AlphaChoice(
        method,
        best.penalty / groups.total,
        float(best.loss) if left_out.complete else None,
        _error(left_out) if left_out.complete else None,
        tuple(each.penalty / groups.total for each in tried),
        tuple(float(each.loss) for each in tried),
    )
    fit = RidgeFit(z, intercept, choice, np.array(0.0))
    return LogisticFit(fit, left_out, by_folds)


class _Sample(NamedTuple):
    """A sample of the rows, and the group of each."""

    rows: Rows
    place: Places


class _Candidate(NamedTuple):
    """A penalty, its coefficients, left-out scores (rows, K) and their log loss."""

    penalty: float
    B: Floats
    scores: Floats
    loss: float


# ---- the solution


class _Problem(NamedTuple):
    """Different rows in some basis, and how often each has a class."""

    X: Any  # (groups, p), perhaps sparse; with an intercept the last column is 1
    counts: Floats  # (groups, K)
    penalized: Floats  # (p,): factors of the penalty
    points: Callable[[Floats], Floats]  # of every category, from coefficients

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients."""
        return self.X.shape[1], self.counts.shape[1]

    @property
    def is_large(self) -> bool:
        """Whether a Hessian would take too long."""
        p, K = self.shape
        size = p * (K - 1)
        return size > _LARGEST or len(self.counts) * size**2 > _PRODUCTS

    def solved(
        self, penalty: float, start: Floats, counts: Floats | None = None
    ) -> Floats:
        """Return the coefficients (p, K), perhaps of other counts."""
        own = self.counts if counts is None else counts
        each = penalty * self.penalized
        return multinomial(self.X, own, each, self.moments, start)

    def moments(self, weights: Floats) -> Floats:
        """Return ``Xᵀ diag(weights) X``, or its diagonal if that is large."""
        X = self.X
        if not scipy.sparse.issparse(X):
            return np.asarray(X.T @ (weights[:, None] * X))
        if X.shape[1] > _GRAM:
            return np.asarray((X * X).T @ weights)
        return np.asarray((X.T @ scipy.sparse.diags_array(weights) @ X).toarray())

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of the rows as dense arrays."""
        p, K = self.shape
        step = max(64, _CELLS // (p * K * K))
        for low in range(0, len(self.counts), step):
            block = slice(low, low + step)
            part = self.X[block]
            yield block, part.toarray() if scipy.sparse.issparse(part) else part


def _problem(groups: Groups, fit_intercept: bool) -> _Problem:
    cells = groups.cells
    K = cells.n_classes
    counts = np.zeros((groups.n, K))
    np.add.at(counts, (groups.group, cells.y), cells.both_weights()[0])
    X, points = _in_basis(groups)
    penalized = np.full(X.shape[1], 2.0 if K == 2 else 1.0)
    if fit_intercept:
        penalized = np.append(penalized, 0.0)
        both = [X, np.ones((groups.n, 1))]
        sparse = scipy.sparse.issparse(X)
        X = scipy.sparse.hstack(both, "csr") if sparse else np.hstack(both)
    return _Problem(X, counts, penalized, points)


def _in_basis(groups: Groups) -> tuple[Any, Callable[[Floats], Floats]]:
    """Return the rows in a basis, and what makes points of coefficients.

    The basis has as many vectors as the rank of W, unless W itself takes less memory.
    """
    codes = groups.codes
    sizes = groups.cells.sizes
    D = int(sizes.sum())
    if min(groups.n, D) > _GRAM:
        return _one_hot(codes, sizes), lambda B: B
    if groups.n < D:
        L, first = _pivoted(agreement(codes, int(sizes.max())))
        if L.size <= _DENSE:
            return L, lambda B: label_sums(codes, sizes, _of_rows(L, first, B))
        return _one_hot(codes, sizes), lambda B: B
    W = _one_hot(codes, sizes)
    L, _ = _pivoted((W.T @ W).toarray())
    if L.shape[1] * groups.n > _DENSE:
        return W, lambda B: B
    basis = np.linalg.qr(L)[0]
    return np.asarray(W @ basis), lambda B: basis @ B


def _pivoted(gram: Floats) -> tuple[Floats, Places]:
    """Return L of full column rank with ``L Lᵀ = gram``, and its pivots."""
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(gram, tol=_TINY, lower=1)
    first = pivots[:rank] - 1
    L = np.empty((len(gram), rank))
    L[pivots - 1] = np.tril(factor)[:, :rank]
    return L, first


def _of_rows(L: Floats, first: Places, B: Floats) -> Floats:
    """Return weights of the rows whose sum of one-hot vectors has coefficients B."""
    weights = np.zeros((len(L), B.shape[1]))
    weights[first] = scipy.linalg.solve_triangular(L[first], B, trans=1, lower=True)
    return weights


def _one_hot(codes: NDArray[Any], sizes: NDArray[Any]) -> Any:
    """Return W as a sparse array."""
    d, n = codes.shape
    places = offsets(sizes)[:-1] + codes.T
    ends = np.arange(0, n * d + 1, d)
    values = np.ones(n * d)
    return scipy.sparse.csr_array((values, places.ravel(), ends), (n, int(sizes.sum())))


def _points(problem: _Problem, B: Floats) -> tuple[Floats, Floats]:
    """Return points (D, k) and intercept (k,) of the log-odds, or of every class."""
    own = problem.penalized > 0
    Z = problem.points(B[own])
    b = B[~own].sum(axis=0)
    if problem.shape[1] == 2:
        return Z[:, 1:] - Z[:, :1], b[1:] - b[:1]
    return Z - Z.mean(axis=1, keepdims=True), b - b.mean()


# ---- left-out rows


def _scores_one_by_one(
    problem: _Problem, sample: _Sample, penalty: float, B: Floats
) -> Floats:
    """Return the scores without one copy of each row; NaN where they are not defined.

    In the basis U of the vectors of K numbers that add up to 0, scores are independent.
    """
    K = problem.shape[1]
    U = np.linalg.svd(np.eye(K) - 1 / K)[0][:, :-1]
    g = np.asarray(problem.X @ B)
    p = softmax(g)
    inner = p @ U
    A = np.einsum("ak,ki,kj->aij", p, U, U) - inner[:, :, None] * inner[:, None, :]
    rows, place = sample
    try:
        h = _leverages(problem, penalty, A)[place]
    except ValueError:  # too small a penalty for the rounding errors of H
        return np.full((rows.n, K), np.nan)
    if rows.unit is not None:
        h = h * rows.unit[:, None, None]
    residual = inner[place] - U[rows.y]
    left = np.eye(K - 1) - h @ A[place]
    step = np.linalg.solve(left, h @ residual[:, :, None])
    return np.asarray(g[place] + step[:, :, 0] @ U.T)


def _leverages(problem: _Problem, penalty: float, A: Floats) -> Floats:
    """Return ``X H⁻¹ Xᵀ`` of each group, (groups, K − 1, K − 1)."""
    p, K = problem.shape
    M = K - 1
    H = np.zeros((M, p, M, p))
    weighted = A * problem.counts.sum(axis=1)[:, None, None]
    for block, X in problem.blocks():
        for i in range(M):
            for j in range(i + 1):
                H[i, :, j] += X.T @ (weighted[block, i, j, None] * X)
    for i in range(M):
        H[i, :, i].flat[:: p + 1] += penalty * problem.penalized
        for j in range(i):
            H[j, :, i] = H[i, :, j]
    factor = inverse_factor(H.reshape(M * p, M * p), 0.0).reshape(M * p, M, p)
    h = np.empty_like(A)
    for block, X in problem.blocks():
        S = np.stack([X @ factor[:, i].T for i in range(M)], axis=1)
        h[block] = S @ S.transpose(0, 2, 1)
    return h


def _scores_of_folds(
    problem: _Problem, rows: Rows, place: Places, penalty: float, B: Floats
) -> Floats:
    """Return the scores of each row by a model of the other folds."""
    fold = np.random.default_rng(0).permutation(rows.n) % FOLDS
    weights = rows.both_weights()[0]
    scores = np.zeros((rows.n, problem.shape[1]))
    for k in range(FOLDS):
        own = fold == k
        rest = problem.counts.copy()
        np.subtract.at(rest, (place[own], rows.y[own]), weights[own])
        rest = np.maximum(rest, 0)
        share = rest.sum() / problem.counts.sum()
        others = problem.solved(share * penalty, B, rest)
        scores[own] = problem.X[place[own]] @ others
    return scores


def _log_loss(scores: Floats, rows: Rows) -> float:
    """Return the mean log loss of scores; infinite where one is not defined."""
    if not np.isfinite(scores).all():
        return np.inf
    own = softmax(scores)[np.arange(rows.n), rows.y]
    return float(np.average(log_losses(own), weights=rows.both_weights()[0]))


def _left_out(scores: Floats, rows: Rows) -> LeftOut:
    """Return left-out rows with the scores of a card: for two classes the log-odds."""
    weights, sample_weight = rows.both_weights()
    weights = weights * (rows.effective_n / weights.sum())
    defined = np.isfinite(scores).all(axis=1)
    if rows.n_classes == 2:
        scores = scores[:, 1:] - scores[:, :1]
    return LeftOut(
        scores[defined],
        rows.y[defined],
        weights[defined],
        sample_weight[defined],
        0.0,
        bool(defined.all()),
        np.flatnonzero(defined),
    )


def _error(rows: LeftOut) -> float:
    """Return the error rate of the largest scores."""
    two = rows.scores.shape[1] == 1
    answers = rows.scores[:, 0] > 0 if two else rows.scores.argmax(axis=1)
    return float(np.average(answers != rows.y, weights=rows.sample_weight))
