r"""Every order at once: ridge regression with a product kernel over the columns.

The kernel is a product with one factor per column, 1 where two rows agree in column i
and r_i where they do not. With A(x, x') agreements, d columns and m_i categories::

    plain    r_i = 1/(1 + ρ)                   k = (1 + ρ)^(A − d)
    signed   r_i = (1 − ρ/(m_i − 1))/(1 + ρ)   disagreement may count against

Up to a factor, the plain kernel is ``Σ_S ρ^|S| 1[x_S = x'_S]``. It is ridge regression
on the indicators of every tuple of every set S of columns, with penalty
``λ·ρ^(−|S|)·‖z_S‖²``. At ρ = 0 it is A, order 1. The mean order of a pair of rows,
``ν = Σ_i (1 − Σ p_i²)·ρ/(1 + ρ)``, makes tables of any width comparable.

*Solution.* Equal rows are one row a with weight w_a, probability π_a and mean class
ȳ_a. The kernel is centred by π and divided by its mean diagonal. With v = π^½ and B
= v K̃ v (entry by entry) the equations are those of `renyi.solvers.ridge_dual`::

    (B + vvᵀ + λ·I) a = v (ȳ − base),     t = base + K̃ (v a) = ȳ − λ·a/v

vvᵀ changes no solution, because B and the right-hand side are orthogonal to v. One copy
of a row with weight u has leverage ``u/w·(1 − λ·(D − v²/(1 + λ)))``, D the diagonal of
the inverse. Its left-out residual is ``(e_y − t)/(1 − h)``, that of a fit without this
copy at an unchanged total penalty.

*Folds.* Let C be the inverse without the intercept, ``v (inverse − vvᵀ/(1 + λ)) v``.
Rows taken away from the groups S lower their weights to w'. This adds ``δ = Λ(1/w' −
1/w)`` to the diagonal, Λ = nλ, infinite for a group without other rows. So the inverse
without them is ``C' = C − C_S (diag(1/δ) + C_SS)⁻¹ C_Sᵀ``: ten folds cost less than one
more fit, and every fold has its own left-out scores.

*What it looks at.* With p_i the frequencies of column i, a factor is a mean and a rest
that has mean 0: ``M_i(b) = r_i + (1 − r_i) p_i(b)`` and ``(1 − r_i)(1[x_i = b_i] −
p_i(b_i))``. So the score is a constant plus ``Σ_S f_S(x_S)``, with
``f_S = Σ_b α_b Π_{i∈S} rest_i(x_i, b) Π_{i∉S} M_i(b)``. The f_S are orthogonal if
columns are independent. The variance of order r is then the coefficient of t^r in
``Σ_{b,b'} α_b α_b' Π_i [M_i(b) M_i(b') + t (1 − r_i)² (p_i(b_i) 1[b_i = b'_i] −
p_i(b_i) p_i(b'_i))]``.

Arrays are numpy's, or CuPy's: `xp` is the module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.counting.onehot import label_sums, mirror, offsets
from renyi.encoding.rows import different_rows
from renyi.limits import check_memory
from renyi.solvers.ridge import HeldOut, LeftOut, Rows, cholesky, leave_out, left_out

Floats = NDArray[np.float64]
Codes = NDArray[Any]
Module = Any  # numpy or cupy

PLAIN = "plain"
SIGNED = "signed"
FORMS = (PLAIN, SIGNED)

MEAN_ORDERS = (0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 4.0, 8.0)
FEW_COLUMNS = 10  # up to which large ρ are candidates
LARGE_RHO = (10.0, 50.0)
ALPHAS = np.logspace(-7, 1, 33)

LEAST_ALPHA = 1e-9  # with less, solutions would consist of rounding errors
_AROUND = 10.0 ** np.arange(-1, 1.5, 0.5)  # factors of a penalty, for landmarks
_STEP = math.sqrt(10.0)  # between the penalties tried on all rows
_ROWS = 16  # fewest rows of a block of the kernel
_CELLS = 2**20  # of a block


# ---- the kernel


class Kernel(NamedTuple):
    """A form and its ρ, with the factor of disagreement in each column."""

    form: str
    rho: float
    ratios: Floats  # (d,); unused at ρ = 0

    @property
    def additive(self) -> bool:
        """Whether it counts agreements: order 1."""
        return self.rho == 0


def kernel_of(form: str, rho: float, seen: NDArray[Any]) -> Kernel:
    """Return the kernel for columns of so many categories seen."""
    unlike = np.ones(len(seen))
    if form == SIGNED:
        unlike = 1 - rho / np.maximum(seen - 1, 1)
    return Kernel(form, rho, unlike / (1 + rho))


def categories_seen(codes: Codes) -> NDArray[np.int64]:
    """Return how many categories the rows have in each column."""
    return np.array([len(np.unique(column)) for column in codes], np.int64)


def rho_grid(n_columns: int, diversity: float) -> list[float]:
    """Return the ρ to try; `diversity` is Σ_i (1 − Σ p_i²)."""
    rhos = [nu / (diversity - nu) for nu in MEAN_ORDERS if nu < 0.99 * diversity]
    if n_columns <= FEW_COLUMNS:
        rhos += [rho for rho in LARGE_RHO if rho > max(rhos, default=0)]
    return [0.0, *rhos]


def candidates(seen: NDArray[Any], rhos: Sequence[float]) -> list[Kernel]:
    """Return the kernels to try, of both forms.

    If all columns have m categories, a signed kernel with ρ < m − 1 is a plain one with
    another ρ.
    """
    varied = seen[seen > 1]
    alike = varied.min(initial=2) == varied.max(initial=2)
    least = varied.min(initial=2) - 1 if alike else 0
    kernels = [kernel_of(PLAIN, rho, seen) for rho in rhos]
    return kernels + [kernel_of(SIGNED, rho, seen) for rho in rhos if rho > least]


def kernel_blocks(
    xp: Module, kernel: Kernel, rows: Any, others: Any
) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of k − 1 (at ρ = 0 of A − d) between rows and others, as codes."""
    ratios, which = np.unique(kernel.ratios, return_inverse=True)
    if kernel.additive:
        ratios = np.zeros(1)
        which = np.zeros(len(kernel.ratios), np.intp)
    members = [np.flatnonzero(which == g).tolist() for g in range(len(ratios))]
    tables = [
        xp.asarray(_powers(kernel, float(ratio), len(own)))
        for ratio, own in zip(ratios, members, strict=True)
    ]
    step = max(_ROWS, _CELLS // max(1, others.shape[1]))
    for start in range(0, rows.shape[1], step):
        block = slice(start, start + step)
        value = xp.zeros((min(step, rows.shape[1] - start), others.shape[1]))
        for table, own in zip(tables, members, strict=True):
            part = table[differences(xp, rows[:, block], others, own)]
            value += part + value * part  # (1 + x)(1 + y) − 1, without cancellation
        yield block, value


def _powers(kernel: Kernel, ratio: float, size: int) -> Floats:
    """Return r^j − 1 for j disagreements (at ρ = 0 −j)."""
    j = np.arange(size + 1.0)
    if kernel.additive:
        return -j
    if ratio > 0:
        return np.asarray(np.expm1(j * math.log(ratio)))
    return np.asarray(ratio**j - 1)


def differences(xp: Module, rows: Any, others: Any, columns: list[int]) -> Any:
    """Count the columns in which rows differ from others.

    `onehot.agreement` counts agreements of rows with each other, on the CPU.
    """
    dtype = xp.uint8 if len(columns) < 2**8 else xp.uint16
    out = xp.zeros((rows.shape[1], others.shape[1]), dtype)
    for i in columns:
        out += rows[i][:, None] != others[i][None]
    return out


def host(array: Any) -> NDArray[Any]:
    """Return an array of the device as one of numpy."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


# ---- different rows, with their weights


class Groups(NamedTuple):
    """Different rows, and their cells: equal rows of equal class and unit."""

    codes: Codes  # (d, groups)
    cells: Rows  # sorted by group
    group: NDArray[np.intp]  # of each cell
    weights: Floats  # of each group
    means: Floats  # ȳ of each group

    @property
    def n(self) -> int:
        """Number of different rows."""
        return len(self.weights)

    @property
    def total(self) -> float:
        """Total weight."""
        return float(self.weights.sum())

    @property
    def share(self) -> Floats:
        """Probability of each group."""
        return np.asarray(self.weights / self.weights.sum())

    @property
    def base(self) -> Floats:
        """Mean class."""
        return np.asarray(self.share @ self.means)

    def part(self, chosen: NDArray[Any]) -> Groups:
        """Return some of the groups, by their places in rising order."""
        new = np.full(self.n, -1)
        new[chosen] = np.arange(len(chosen))
        own = new[self.group] >= 0
        return Groups(
            self.codes[:, chosen],
            self.cells.part(own),
            new[self.group[own]],
            self.weights[chosen],
            self.means[chosen],
        )


def grouped(rows: Rows) -> tuple[Groups, NDArray[np.intp]]:
    """Return different rows, in an order that only they decide, and which each row is.

    Neither weights nor the order of the rows matter: weights are as repetition.
    """
    weights, sample_weight = rows.both_weights()
    unit = np.ones(rows.n) if rows.unit is None else rows.unit
    first, group = different_rows(rows.codes)
    order = np.lexsort((unit, rows.y, group))
    begins = np.ones(rows.n, bool)
    for key in (group, rows.y, unit):
        begins[1:] &= key[order][1:] == key[order][:-1]
    begins[1:] = ~begins[1:]
    cell = np.empty(rows.n, np.intp)
    cell[order] = np.cumsum(begins) - 1
    place = order[begins]
    of_cells = _sums(cell, weights)
    cells = Rows(
        rows.codes[:, place],
        rows.sizes,
        rows.y[place],
        rows.n_classes,
        of_cells,
        _sums(cell, sample_weight),
        unit[place],
    )
    of_groups = _sums(group, weights)
    means = np.zeros((len(first), rows.indicators().shape[1]))
    np.add.at(means, group[place], cells.indicators() * of_cells[:, None])
    means /= of_groups[:, None]
    groups = Groups(rows.codes[:, first], cells, group[place], of_groups, means)
    return groups, group


def _sums(places: NDArray[Any], values: Floats) -> Floats:
    return np.bincount(places, values).astype(np.float64)


def left_out_of_groups(
    groups: Groups, blocks: Iterable[tuple[int, Floats, Floats]]
) -> HeldOut:
    """Return left-out estimates from blocks of groups: first, estimates, leverages.

    Estimates have the shape (groups, alphas, k); leverages, (groups, alphas), are those
    of one copy of weight 1.
    """
    cells = groups.cells
    unit = np.ones(cells.n) if cells.unit is None else cells.unit
    Y = cells.indicators()

    def parts() -> Iterator[tuple[slice, Floats, Floats]]:
        for first, t, leverage in blocks:
            ends = np.searchsorted(groups.group, [first, first + len(t)])
            own = slice(int(ends[0]), int(ends[1]))
            place = groups.group[own] - first
            h = leverage[place] * unit[own, None]
            yield own, Y[own, None] - t[place], h

    return left_out(cells, parts())


# ---- the equations, and their exact solution


class System(NamedTuple):
    """The equations ``(B + λ·I) a = target`` of groups and a kernel."""

    groups: Groups
    kernel: Kernel
    B: Any  # on the device, with vvᵀ
    root: Floats  # v
    scale: float  # mean diagonal of the centred kernel
    means: Floats  # of k − 1, for every group

    @property
    def target(self) -> Floats:
        """The right-hand side."""
        return np.asarray(self.root[:, None] * (self.groups.means - self.groups.base))


class Solution(NamedTuple):
    """Estimates at one λ, and what they are made of."""

    alpha: float
    t: Floats  # of each group
    leverage: Floats  # of one copy of weight 1 of each group
    held_out: HeldOut
    codes: Codes  # rows of the model
    coef: Floats  # (rows of the model, k)
    start: Floats  # score without them
    inverse: Any = None  # of B + λ·I, on the device


def system_of(xp: Module, groups: Groups, kernel: Kernel) -> System:
    """Return the centred kernel, with mean diagonal 1, between the groups."""
    check_memory(3 * 8 * groups.n**2, f"The kernel of {groups.n:,} different rows")
    codes = xp.asarray(groups.codes)
    share = xp.asarray(groups.share)
    B = xp.empty((groups.n, groups.n))
    for block, value in kernel_blocks(xp, kernel, codes, codes):
        B[block] = value
    means = B @ share
    B -= means[:, None]
    B -= means - means @ share
    scale = float(share @ B.diagonal())
    if not scale > 0:  # one group alone
        scale = 1.0
    root = xp.sqrt(share)
    B *= root / scale
    B *= root[:, None]
    B += xp.outer(root, root)
    return System(groups, kernel, B, np.sqrt(groups.share), scale, host(means))


def path(xp: Module, system: System, alphas: Floats) -> HeldOut:
    """Return left-out estimates at all λ, by one eigendecomposition."""
    values, vectors = xp.linalg.eigh(system.B)
    shrink = 1 / (xp.maximum(values, 0)[:, None] + xp.asarray(alphas))
    C = vectors.T @ xp.asarray(system.target)
    a = xp.stack([vectors @ (shrink[:, [k]] * C) for k in range(len(alphas))], axis=1)
    return _held_out(system, host(a), host(vectors**2 @ shrink), alphas)


def solve(xp: Module, system: System, alpha: float) -> Solution:
    """Solve at one λ > 0."""
    inverse = _inverse(xp, system.B, alpha)
    a = host(inverse @ xp.asarray(system.target))
    diagonal = host(inverse.diagonal())
    groups = system.groups
    held_out = _held_out(system, a[:, None], diagonal[:, None], np.array([alpha]))
    coef = system.root[:, None] * a / system.scale
    return Solution(
        alpha,
        groups.means - alpha * a / system.root[:, None],
        _leverage(system, diagonal, alpha),
        held_out,
        groups.codes,
        coef,
        groups.base - 1 / groups.cells.n_classes - system.means @ coef,
        inverse,
    )


def _inverse(xp: Module, B: Any, alpha: float) -> Any:
    """Return the inverse of a symmetric ``B + alpha·I``."""
    if xp is not np:
        return xp.linalg.inv(B + alpha * xp.eye(len(B)))
    lower, info = scipy.linalg.lapack.dpotri(cholesky(B, alpha), lower=1, overwrite_c=1)
    assert info == 0
    mirror(lower.T)
    return lower


def _leverage(system: System, diagonal: Floats, alpha: Any) -> Floats:
    """Return the leverage of one copy of weight 1 of each group."""
    shape = (-1, *[1] * (diagonal.ndim - 1))
    share = (system.root**2).reshape(shape)
    whole = 1 - alpha * (diagonal - share / (1 + alpha))
    return np.asarray(whole / system.groups.weights.reshape(shape))


def _held_out(system: System, a: Floats, diagonal: Floats, alphas: Floats) -> HeldOut:
    groups = system.groups
    residual = alphas[:, None] * a / system.root[:, None, None]
    t = groups.means[:, None] - residual
    leverage = _leverage(system, diagonal, alphas)
    return left_out_of_groups(groups, [(0, t, leverage)])


# ---- landmarks: the exact solution among kernels of a few rows


def landmark_solution(
    groups: Groups, kernel: Kernel, chosen: NDArray[Any], penalty: float
) -> Solution:
    """Solve among the functions ``Σ_l c_l k(x, l)`` of some rows l, with Σ c = 0.

    The penalty is that of the whole kernel, ``cᵀ k c``. With the kernel k of landmarks,
    centred, ``k = V e Vᵀ``, this is ridge regression on ``Φ = k(x, ·) V e^(−½)``. It is
    solved at some penalties around the one given, of which left-out rows choose.
    """
    landmarks = groups.codes[:, chosen]
    m = len(chosen)
    check_memory(5 * 8 * m**2, f"A kernel of {m:,} landmarks")
    inner = np.vstack([v for _, v in kernel_blocks(np, kernel, landmarks, landmarks)])
    inner -= inner.mean(axis=0)
    inner -= inner.mean(axis=1, keepdims=True)
    values, V = np.linalg.eigh(inner)
    positive = values > 1e-10 * values[-1]
    basis = V[:, positive] / np.sqrt(values[positive])
    basis -= basis.mean(axis=0)
    share = groups.share
    size = basis.shape[1]
    moment = np.zeros((size, size))
    centre = np.zeros(size)
    R = np.zeros((size, groups.means.shape[1]))
    for block, value in kernel_blocks(np, kernel, groups.codes, landmarks):
        G = value @ basis
        weighted = G * share[block, None]
        moment += weighted.T @ G
        centre += weighted.sum(axis=0)
        R += weighted.T @ (groups.means[block] - groups.base)
    moment -= np.outer(centre, centre)
    scale = float(np.trace(moment))
    values, U = np.linalg.eigh(moment / scale)
    U /= math.sqrt(scale)
    basis = basis @ U
    centre = centre @ U
    C = U.T @ R
    alphas = penalty / groups.total * _AROUND
    shrink = 1 / (np.maximum(values, 0)[:, None] + alphas)
    t = np.empty((groups.n, len(alphas), R.shape[1]))
    leverage = np.empty((groups.n, len(alphas)))
    for block, value in kernel_blocks(np, kernel, groups.codes, landmarks):
        G = value @ basis - centre
        for k in range(len(alphas)):
            t[block, k] = groups.base + G @ (shrink[:, [k]] * C)
        leverage[block] = (1 + G**2 @ shrink) / groups.total
    held_out = left_out_of_groups(groups, [(0, t, leverage)])
    best = int(held_out.weighted.argmin())
    z = shrink[:, [best]] * C
    return Solution(
        float(alphas[best]),
        t[:, best],
        leverage[:, best],
        HeldOut(*(each[[best]] for each in held_out[:3] if each is not None)),
        landmarks,
        basis @ z,
        groups.base - 1 / groups.cells.n_classes - centre @ z,
    )


# ---- the choice of form, ρ and λ


class Choice(NamedTuple):
    """A kernel and its penalty Λ = nλ, with the left-out risk where it was chosen."""

    kernel: Kernel
    penalty: float
    risk: float
    error: float | None


def search(
    xp: Module, groups: Groups, kernels: Sequence[Kernel], penalty: float | None = None
) -> list[Choice]:
    """Return the best Λ of each kernel by left-out risk, the best kernel first.

    A total penalty Λ suits a sample of the rows as well as all of them; one may be
    given. Of equal risks, up to rounding, the earlier kernel and the larger Λ win.
    """
    choices = []
    alphas = ALPHAS if penalty is None else np.array([penalty / groups.total])
    for kernel in kernels:
        held_out = path(xp, system_of(xp, groups, kernel), alphas)
        risks = held_out.weighted
        best = int(np.flatnonzero(risks <= risks.min() * (1 + 1e-9))[-1])
        own = float(alphas[best]) * groups.total
        error = held_out.at(best)[1]
        choices.append(Choice(kernel, own, float(risks[best]), error))
    equal = min(choice.risk for choice in choices) * (1 + 1e-9)
    return sorted(choices, key=lambda choice: max(choice.risk, equal))


def refined(xp: Module, system: System, penalty: float) -> Solution:
    """Return the solution at a penalty, or at a smaller one of less left-out risk."""
    best = solve(xp, system, penalty / system.groups.total)
    while best.alpha > LEAST_ALPHA:
        other = solve(xp, system, best.alpha / _STEP)
        if not other.held_out.weighted[0] < best.held_out.weighted[0]:
            break
        best = other
    return best


# ---- models without some of the rows


def without_fold(
    xp: Module,
    system: System,
    solution: Solution,
    rows: Rows,
    group: NDArray[np.intp],
    own: NDArray[np.bool_],
) -> tuple[Floats, LeftOut]:
    """Return the scores of some rows by a model of the others at the same Λ.

    The second is how the others are scored without each of them. `group` is the place
    of each row among the groups.
    """
    groups = system.groups
    penalty = solution.alpha * groups.total
    Y = rows.indicators()
    w = rows.both_weights()[0]
    removed = np.bincount(group[own], w[own], minlength=groups.n)
    S = np.flatnonzero(removed)
    left = groups.weights - removed
    left[left < 1e-12 * groups.weights] = 0
    remaining = left > 0
    sums = groups.weights[:, None] * groups.means
    np.subtract.at(sums, group[own], w[own, None] * Y[own])
    means = (
        np.where(remaining[:, None], sums, 0) / np.where(remaining, left, 1)[:, None]
    )
    slack = groups.weights[S] * left[S] / (penalty * removed[S])  # 1/δ

    root = xp.asarray(system.root)
    centre = root / (1 + solution.alpha)
    inverse = solution.inverse
    v = root[:, None] * xp.asarray(means)
    u = root[:, None] * (inverse @ v - xp.outer(centre, root @ v))  # C ȳ'
    C_S = (inverse[:, S] - xp.outer(centre, root[S])) * root[:, None] * root[S]
    M = xp.linalg.inv(C_S[S] + xp.diag(xp.asarray(slack)))
    Mu = M @ u[S]
    coef = host(u - C_S @ Mu)
    diagonal = (inverse.diagonal() - centre * root) * root**2 - ((C_S @ M) * C_S).sum(1)
    safe = np.where(remaining, left, 1)
    t = means - penalty * coef / safe[:, None]
    coef_S = slack[:, None] * host(Mu)
    t[S] = means[S] - penalty * coef_S / groups.weights[S, None] - host(Mu)
    leverage = 1 / safe - penalty * host(diagonal) / safe**2
    others = rows.part(~own)
    unit = 1.0 if others.unit is None else others.unit
    K = rows.n_classes
    place = group[~own]
    left_out = leave_out(others, t[place] - 1 / K, leverage[place] * unit)
    return t[group[own]] - 1 / K, left_out


# ---- the model: scores, and what it looks at


class KernelModel(NamedTuple):
    """A score ``start + Σ_b coef_b (k(x, b) − 1)``."""

    kernel: Kernel
    sizes: NDArray[np.int64]  # categories of each column
    codes: Codes  # (d, rows)
    coef: Floats  # (rows, 1), or (rows, K) for K > 2 classes
    start: Floats
    shares: Floats  # frequencies of the categories of all columns

    def own_shares(self) -> list[Floats]:
        """Return p_i(b_i): of each column, the frequency of each row's category."""
        ends = offsets(self.sizes)
        return [
            self.shares[slice(*span)][column]
            for span, column in zip(pairwise(ends), self.codes, strict=True)
        ]


def scores(xp: Module, model: KernelModel, codes: Codes) -> Floats:
    """Return the scores of rows; an unseen label counts as its column's mean."""
    out = np.empty((codes.shape[1], model.coef.shape[1]))
    coef = xp.asarray(model.coef)
    unseen = (codes >= model.sizes[:, None]).T
    patterns, which = np.unique(unseen, axis=0, return_inverse=True)
    for place, pattern in enumerate(patterns):
        chosen = np.flatnonzero(which.ravel() == place)
        known = ~pattern
        kernel = model.kernel._replace(ratios=model.kernel.ratios[known])
        factor = xp.asarray(_mean_factor(model, np.flatnonzero(pattern)))
        rows = xp.asarray(codes[np.ix_(known, chosen)])
        others = xp.asarray(model.codes[known])
        for block, value in kernel_blocks(xp, kernel, rows, others):
            if model.kernel.additive:
                value += factor
            else:
                value += factor + value * factor
            out[chosen[block]] = host(value @ coef)
    return out + model.start


def _mean_factor(model: KernelModel, columns: NDArray[Any]) -> Floats:
    """Return the mean of ``k − 1`` over some columns, for each row of the model."""
    shares = model.own_shares()
    if model.kernel.additive:
        return sum((shares[i] - 1 for i in columns), np.zeros(model.codes.shape[1]))
    product = np.ones(model.codes.shape[1])
    for i in columns:
        ratio = model.kernel.ratios[i]
        product *= ratio + (1 - ratio) * shares[i]
    return product - 1


def constant(model: KernelModel) -> Floats:
    """Return the mean score of independent columns."""
    every = np.arange(len(model.codes))
    return np.asarray(model.start + _mean_factor(model, every) @ model.coef)


def main_effects(model: KernelModel) -> Floats:
    """Return the points f_i of all categories of all columns, (D, 1) or (D, K)."""
    ratios = model.kernel.ratios
    products = _products_of_others(model)
    parts = []
    for i, shares in enumerate(_by_column(model)):
        weight = 1.0 if model.kernel.additive else 1 - ratios[i]
        coef = weight * products[i][:, None] * model.coef
        points = label_sums(model.codes[[i]], model.sizes[[i]], coef)
        parts.append(points - shares @ points)
    return np.concatenate(parts)


def interaction(model: KernelModel, i: int, j: int) -> Floats:
    """Return the table f_ij of two columns: (m_i, m_j, 1) or (m_i, m_j, K)."""
    shape = (int(model.sizes[i]), int(model.sizes[j]))
    table = np.zeros((*shape, model.coef.shape[1]))
    if model.kernel.additive:
        return table
    ratios = model.kernel.ratios
    others = [k for k in range(len(ratios)) if k not in (i, j)]
    coef = (_mean_factor(model, np.array(others, np.intp)) + 1)[:, None] * model.coef
    np.add.at(table, (model.codes[i], model.codes[j]), coef)
    shares = _by_column(model)
    table -= np.tensordot(shares[i], table, 1)
    table -= np.einsum("l,klc->kc", shares[j], table)[:, None]
    return np.asarray((1 - ratios[i]) * (1 - ratios[j]) * table)


def _by_column(model: KernelModel) -> list[Floats]:
    return np.split(model.shares, offsets(model.sizes)[1:-1])


def _products_of_others(model: KernelModel) -> Floats:
    """Return ``Π_{j≠i} M_j(b)``, (d, rows), without division: a mean may be 0."""
    d, n = model.codes.shape
    if model.kernel.additive:
        return np.ones((d, n))
    ratios = model.kernel.ratios[:, None]
    means = ratios + (1 - ratios) * np.array(model.own_shares())
    ones = np.ones((1, n))
    before = np.cumprod(np.concatenate([ones, means[:-1]]), axis=0)
    after = np.cumprod(np.concatenate([ones, means[:0:-1]]), axis=0)[::-1]
    return np.asarray(before * after)


def variance_by_order(model: KernelModel) -> Floats:
    """Return the variance of orders 1, 2, 3 and above, if columns are independent."""
    if model.kernel.additive:
        points = main_effects(model)
        return np.array([float(model.shares @ (points**2).sum(axis=1)), 0, 0, 0])
    shares = model.own_shares()
    n = len(model.coef)
    sums = np.zeros(5)  # orders 0 to 3, and all of them
    step = max(_ROWS, _CELLS // (8 * n))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        pairs = np.zeros((5, len(model.coef[rows]), n - first))
        pairs[[0, 4]] = 1
        for ratio, codes, share in zip(
            model.kernel.ratios, model.codes, shares, strict=True
        ):
            mean = ratio + (1 - ratio) * share
            product = np.outer(mean[rows], mean[first:])
            same = codes[rows, None] == codes[None, first:]
            rest = same * share[first:] - np.outer(share[rows], share[first:])
            rest *= (1 - ratio) ** 2
            for order in (3, 2, 1):
                pairs[order] *= product
                pairs[order] += pairs[order - 1] * rest
            pairs[0] *= product
            pairs[4] *= product + rest
        weight = model.coef[rows] @ model.coef[first:].T
        own = weight.shape[0]
        weight[:, own:] *= 2  # for the pairs below the diagonal
        sums += np.einsum("obc,bc->o", pairs, weight)
    variances = np.append(sums[1:4], sums[4] - sums[:4].sum())
    return np.asarray(np.maximum(variances, 0))
