r"""Selection of features by the l1,∞ penalty: Algorithm 1 of the paper.

For every λ of a path, from the largest that matters downwards,

.. math:: \min_z \; \gamma(z) + \lambda \sum_i \max_k |z_i(k)|,
          \qquad \gamma(z) = z^T Q z - d^T z + \tfrac14 .

A feature whose largest point is 0 is left out, all its categories at once. With K
classes the points of a feature are those of all its categories and classes,
``γ = E‖t − e_Y‖²/2`` with ``t_y(x) = 1/K + s_y(x)`` as in `renyi.solvers.ridge`, and at
K = 2 one column stands for both. An intercept, if there is one, is not penalised.

Above ``λ_max = max_i ‖dvec_i‖₁`` (of the centred vector, if there is an intercept) all
points are 0. Each λ starts from the solution before it: `renyi.solvers.screening` picks
the features that may have points, `renyi.solvers.l1inf_descent` moves them, feature by
feature and each exactly (`renyi.solvers.linfball`), and the duality gap over *all*
features says when to stop.

In the mean form of `renyi.solvers.l1inf_descent`, with w = 1 for one column and ½ for K
columns, ``γ = w·E‖T − s‖²``: its penalty is ``λ/(2w)``, and its values are to be
multiplied by ``2w``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.checks import check_positive, check_share, check_whole
from renyi.solvers.class_coding import coded_moments, coded_rows
from renyi.solvers.l1inf_descent import ROUNDING, Gear
from renyi.solvers.l1inf_path import indefinite, walk
from renyi.solvers.ridge import weight_of
from renyi.solvers.screening import FromMoments, FromRows, Problem

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

N_LAMBDAS = 30
RATIO = 0.01
TOL = 1e-4
MAX_PASSES = 30_000
# Steps to expect for each feature and penalty. With fewer rows than categories the
# points of many features add up to the same, and descent is slow.
_STEPS, _STEPS_WIDE = 10, 50
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Solutions for a decreasing sequence of penalties.

    Parameters
    ----------
    lambdas : ndarray of shape (L,)
        The penalties.
    z : ndarray of shape (L, D) or (L, D, K)
        Points of all categories; with K columns if F was given.
    intercepts : ndarray of shape (L,) or (L, K)
        Intercepts; 0 if none was asked for.
    objectives : ndarray of shape (L,)
        γ(z) + λ Σ max|z_i|.
    gaps : ndarray of shape (L,)
        How far the objective is from the optimum at most.
    active : ndarray of shape (L, d)
        Whether a feature has points.
    iterations : ndarray of shape (L,)
        Passes over the active features.
    tol : float
        The gap asked for, relative to the objective.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> found = path(m.Q, m.dvec, [3] * 16, n_lambdas=5)
    >>> found.active.sum(axis=1)
    array([ 0,  1,  4,  8, 12])
    >>> m.feature_names[found.active[1].argmax()]
    'physician-fee-freeze'
    >>> found.converged
    True
    """

    lambdas: Floats
    z: Floats
    intercepts: Floats
    objectives: Floats
    gaps: Floats
    active: NDArray[np.bool_]
    iterations: Places
    tol: float

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Whether the gap was reached, for every penalty."""
        return np.asarray(self.gaps <= self.tol * self.objectives + 2 * ROUNDING)

    @property
    def converged(self) -> bool:
        """Whether the gap was reached at every penalty."""
        return bool(self.reached.all())

    def __str__(self) -> str:
        """Return one line per penalty."""
        head = f"{'lambda':>12} {'features':>8} {'objective':>11} {'gap':>8} passes"
        columns = zip(
            self.lambdas, self.active.sum(axis=1), self.objectives, self.gaps,
            self.iterations, strict=True,
        )  # fmt: skip
        lines = [
            f"{lam:12.6g} {count:8d} {value:11.6f} {gap:8.1e} {passes:6d}"
            for lam, count, value, gap, passes in columns
        ]
        return "\n".join([head, *lines])


def lambda_max(
    Q: ArrayLike,
    dvec: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    *,
    fit_intercept: bool = True,
) -> float:
    """Return the smallest penalty that leaves no feature.

    Parameters
    ----------
    Q, dvec, sizes, fit_intercept
        As for `path`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> round(lambda_max(m.Q, m.dvec, [3] * 16), 6)
    0.870266
    """
    problem, weight = _from_moments(Q, dvec, sizes, fit_intercept, None)
    return 2 * weight * float(problem.norms(0.0).max())


def path(
    Q: ArrayLike,
    dvec: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    lambdas: ArrayLike | None = None,
    *,
    n_lambdas: int = N_LAMBDAS,
    ratio: float = RATIO,
    tol: float = TOL,
    fit_intercept: bool = True,
    max_passes: int = MAX_PASSES,
    gear: Gear | None = None,
) -> LassoPath:
    """Solve the l1,∞ problem from marginals for a sequence of penalties.

    Parameters
    ----------
    Q : array of shape (D, D)
        ``E[W Wᵀ]``, the pairwise marginals; not centred.
    dvec : array of shape (D,) or (D, K)
        The paper's vector d for two classes, or ``F = E[W e_Yᵀ]`` for K.
    sizes : sequence of d ints
        Number of categories of each feature.
    lambdas : sequence of float, optional
        The penalties, solved from the largest to the smallest. By default `n_lambdas`
        values, evenly spaced on a logarithmic scale, from `lambda_max` down to `ratio`
        times that.
    n_lambdas, ratio : optional
        See `lambdas`.
    tol : float, default=1e-4
        Duality gap to be reached, relative to the objective.
    fit_intercept : bool, default=True
        Add an intercept that is not penalised. Without it, this is the paper's problem
        to the letter.
    max_passes : int, default=30,000
        Passes over the active features after which a penalty is given up, with a
        `sklearn.exceptions.ConvergenceWarning`.
    gear : Gear, optional
        Which passes to take, if other problems are solved with it; see
        `renyi.solvers.l1inf_descent`.

    Returns
    -------
    LassoPath

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> found = path(m.Q, m.dvec, [3] * 16, [0.5, 0.3])
    >>> print(found)
          lambda features   objective      gap passes
             0.5        1    0.201498  2.1e-08      5
             0.3        1    0.152405  2.2e-10      5
    """
    count = _checked_count(lambdas, n_lambdas)
    gear = (gear or Gear()).expect(_STEPS * len(sizes) * count)
    problem, weight = _from_moments(Q, dvec, sizes, fit_intercept, gear)
    penalties = _penalties(problem, weight, lambdas, n_lambdas, ratio)
    found = _solve(problem, penalties, weight, tol, max_passes)
    return _plain(found) if np.ndim(dvec) == 1 else found


def path_rows(
    codes: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    y: ArrayLike,
    lambdas: ArrayLike | None = None,
    *,
    n_classes: int = 2,
    weights: ArrayLike | None = None,
    n_lambdas: int = N_LAMBDAS,
    ratio: float = RATIO,
    tol: float = TOL,
    fit_intercept: bool = True,
    max_passes: int = MAX_PASSES,
    gear: Gear | None = None,
) -> LassoPath:
    """Solve the same problem from rows, where indicators are many: Q is not formed.

    Parameters
    ----------
    codes : array of shape (d, n)
        Codes of the features.
    sizes : sequence of d ints
        Number of categories of each feature.
    y : array of shape (n,)
        Codes of the classes.
    n_classes : int, default=2
        Number of classes. With two, the result has the shape that `path` gives for
        dvec, else the one it gives for F.
    weights : array of shape (n,), optional
        Weights of the rows.
    lambdas, n_lambdas, ratio, tol, fit_intercept, max_passes, gear
        As for `path`.

    Returns
    -------
    LassoPath

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> encoder, codes = renyi.Encoder().fit_transform(X)
    >>> sizes = encoder.columns.sizes
    >>> found = path_rows(codes, sizes, y == "republican", [0.5, 0.3])
    >>> found.objectives.round(6)
    array([0.201498, 0.152405])
    """
    table, lengths = np.asarray(codes), _checked_sizes(sizes)
    labels, share = _checked_rows(table, lengths, y, n_classes, weights)
    table, labels, share = _without_weightless(table, labels, share)
    dtype = np.uint8 if lengths.max() <= 256 else np.uint32
    target = coded_rows(labels, n_classes)
    each = _STEPS_WIDE if lengths.sum() > len(labels) else _STEPS
    count = _checked_count(lambdas, n_lambdas)
    gear = (gear or Gear()).expect(each * len(lengths) * count)
    problem = FromRows(
        np.ascontiguousarray(table, dtype), share, target, lengths, fit_intercept, gear
    )
    weight = weight_of(n_classes)
    penalties = _penalties(problem, weight, lambdas, n_lambdas, ratio)
    found = _solve(problem, penalties, weight, tol, max_passes)
    return _plain(found) if n_classes == 2 else found


def _plain(found: LassoPath) -> LassoPath:
    """Leave out the axis of columns, of which there is one."""
    return replace(found, z=found.z[:, :, 0], intercepts=found.intercepts[:, 0])


# ---- from input to a problem


def _checked_sizes(sizes: Sequence[int] | NDArray[Any]) -> Places:
    lengths = np.asarray(sizes)
    if lengths.ndim != 1 or not lengths.size or lengths.dtype.kind not in "iu":
        raise ValueError("sizes must be whole numbers, one for each feature.")
    if lengths.min() < 1:
        raise ValueError(
            f"feature {int(lengths.argmin())} has no category: leave it out of sizes."
        )
    return lengths.astype(np.int64)


def _from_moments(
    Q: ArrayLike,
    dvec: ArrayLike,
    sizes: Sequence[int] | NDArray[Any],
    fit_intercept: bool,
    gear: Gear | None,
) -> tuple[Problem, float]:
    pairs, target = np.asarray(Q, np.float64), np.asarray(dvec, np.float64)
    lengths = _checked_sizes(sizes)
    D = int(lengths.sum())
    if pairs.shape != (D, D) or target.shape[:1] != (D,) or target.ndim > 2:
        raise ValueError(
            f"sizes add up to {D} categories, but Q has shape {pairs.shape} and dvec "
            f"{target.shape}: give the sizes of the same features."
        )
    if not (np.isfinite(pairs).all() and np.isfinite(target).all()):
        raise ValueError("Q and dvec must be finite: look for missing counts.")
    _need_exclusive(pairs, lengths)
    q = np.diag(pairs)
    coding = coded_moments(q, target, lengths)
    if (q < 0).any() or np.abs(coding.R[:, q <= 0]).max(initial=0) > _ROUNDING:
        raise ValueError(indefinite())
    problem = FromMoments(
        pairs, coding.R, coding.mean, coding.variance, lengths, fit_intercept, gear
    )
    return problem, coding.weight


def _need_exclusive(Q: Floats, sizes: Places) -> None:
    """Refuse a Q in which categories of one feature occur together."""
    feature = np.repeat(np.arange(len(sizes)), sizes)
    for shift in range(1, int(sizes.max())):
        same = feature[shift:] == feature[:-shift]
        wrong = same & (np.diagonal(Q, shift) != 0)
        if wrong.any():
            raise ValueError(
                f"two categories of feature {int(feature[wrong.argmax()])} occur "
                "together in Q: give Q without centring, and its sizes in order."
            )


def _checked_rows(
    codes: NDArray[Any],
    sizes: Places,
    y: ArrayLike,
    n_classes: int,
    weights: ArrayLike | None,
) -> tuple[Places, Floats]:
    """Return the codes of the classes, and weights that sum to 1."""
    given = np.asarray(y)
    if given.dtype.kind not in "biuf" or not np.array_equal(given, np.trunc(given)):
        raise ValueError("y must hold whole numbers, the codes of the classes.")
    labels = given.astype(np.int64)
    if codes.ndim != 2 or len(codes) != len(sizes) or labels.shape != codes.shape[1:]:
        raise ValueError(
            f"codes of shape {codes.shape} do not match {len(sizes)} sizes and "
            f"{labels.size} classes: give codes as (features, rows)."
        )
    if not labels.size:
        raise ValueError("there are no rows: give at least one.")
    wrong = (codes.max(axis=1) >= sizes) | (codes.min(axis=1) < 0)
    if wrong.any():
        raise ValueError(
            f"feature {int(wrong.argmax())} holds a code outside of its "
            f"{int(sizes[wrong.argmax()])} categories: encode the rows anew."
        )
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"y must hold codes of {n_classes} classes, from 0 on.")
    if weights is None:
        return labels, np.full(labels.size, 1 / labels.size)
    share = np.asarray(weights, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(share.sum())
    if share.shape != labels.shape or not (share >= 0).all() or not total > 0:
        raise ValueError("weights must not be negative, one per row, some positive.")
    if not np.isfinite(total):
        raise ValueError("weights must have a finite sum: give smaller ones.")
    return labels, share / total


def _without_weightless(
    codes: NDArray[Any], labels: Places, share: Floats
) -> tuple[NDArray[Any], Places, Floats]:
    held = share > 0
    if held.all():
        return codes, labels, share
    return codes[:, held], labels[held], share[held]


def _checked_count(lambdas: ArrayLike | None, n_lambdas: int) -> int:
    """Return how many penalties there are."""
    if lambdas is not None:
        return np.size(lambdas)
    check_whole("n_lambdas", n_lambdas, 1)
    return n_lambdas


def _penalties(
    problem: Problem,
    weight: float,
    lambdas: ArrayLike | None,
    count: int,
    ratio: float,
) -> Floats:
    """Return the λ in descending order."""
    if lambdas is None:
        check_share("ratio", ratio)
        # Where no feature says anything, any penalty will do.
        top = 2 * weight * float(problem.norms(0.0).max())
        return (top if top > _ROUNDING else 1.0) * np.geomspace(1, ratio, count)
    given = np.atleast_1d(np.asarray(lambdas, np.float64))
    if given.ndim != 1 or not given.size or not np.isfinite(given).all():
        raise ValueError("lambdas must be a sequence of finite numbers.")
    if given.min() <= 0:
        raise ValueError(
            f"a penalty must be positive, not {given.min():g}: for no penalty at all "
            "fit by ridge."
        )
    return np.sort(given)[::-1]


def _solve(
    problem: Problem, lambdas: Floats, weight: float, tol: float, most: int
) -> LassoPath:
    """Walk along the penalties, and bring the results to the units of γ."""
    check_positive("tol", tol)
    check_whole("max_passes", most, 1)
    L, (columns, D) = len(lambdas), problem.z.shape
    z, intercepts = np.zeros((L, D, columns)), np.zeros((L, columns))
    active = np.zeros((L, len(problem.sizes)), bool)
    values, passes = np.zeros((L, 2)), np.zeros(L, np.int64)
    for place, step in enumerate(walk(problem, lambdas / (2 * weight), tol, most)):
        z[place], intercepts[place] = step.z.T, step.intercept
        active[place, step.held] = True
        values[place], passes[place] = (step.objective, step.gap), step.passes
    objectives, gaps = 2 * weight * values.T
    found = LassoPath(lambdas, z, intercepts, objectives, gaps, active, passes, tol)
    _warn(found, most)
    return found


def _warn(found: LassoPath, most: int) -> None:
    """Tell of penalties whose gap was not reached."""
    missed = ~found.reached
    if missed.any():
        from sklearn.exceptions import ConvergenceWarning

        worst = float((found.gaps / found.objectives)[missed].max())
        warnings.warn(
            f"{int(missed.sum())} of {len(missed)} penalties missed the relative gap "
            f"{found.tol:g} within {most} passes (worst: {worst:.1e}): raise "
            "max_passes, or ask for a larger tol or ratio.",
            ConvergenceWarning,
            stacklevel=4,
        )
