r"""Order features, and compute figures of the first 1, 2, … of them.

Forward selection adds one feature at a time, the one that lowers γ most
(`renyi.solvers.forward_selection`). On the path of Algorithm 1 features get points one
after the other as the penalty falls. The solver `renyi.solvers.l1inf_path` determines
their order as reliably as possible.

A feature that is a function of another one, such as a copy, needs no points. Added to
the points of the other they give the same scores, and ``max|z_i + z_j|`` is at most
``max|z_i| + max|z_j|``. A solver may give it points anyway. It comes last.

For the first k features, refitted by ridge with next to no penalty:

* ``γ_S = min γ(z)`` over points of these features;
* ``√(1 − γ_S/(q(1−q)))``, a lower bound on the maximal correlation of X_S and Y in
  every distribution with these marginals (for K classes the first canonical one);
* the guarantees of the refitted model for the rules map and sharp.

γ_S falls with every feature. The error to expect need not fall.

*All refits from one factorisation.* Let ``A + alpha·I = L Lᵀ`` and ``Y = L⁻¹ R``. The
factor and the right-hand side of the first features are the top rows of L
and Y. With p categories among the first k features::

    fit_k = ‖Y[:p]‖²                     = tr Z_kᵀ R,     Z_k = (L⁻¹[:p])ᵀ Y[:p]
    df_k  = 1 + p − alpha·‖L⁻¹[:p]‖²
    γ(z_k) = w (variance − fit_k − alpha·‖Z_k‖²)

with w = 1 for two classes, ½ for more. An intercept is part of every fit; without one
γ_S is the same, because the indicators of a feature add up to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import short
from renyi.encoding.rows import has_few_rows
from renyi.encoding.rules import check_classes
from renyi.formatting import at_most, printable, rounded_down
from renyi.marginals.consistency import check_possible
from renyi.marginals.marginals import Marginals
from renyi.solvers.forward_selection import ALPHA, forward
from renyi.solvers.l1inf import CountsProblem, Problem
from renyi.solvers.l1inf_path import (
    MAX_PASSES,
    N_LAMBDAS,
    RATIO,
    TOL,
    LassoPath,
    entries,
    functions,
    functions_of_earlier,
    penalty_grid,
    solve_entries,
    unentered,
)
from renyi.solvers.map_bound import map_bound
from renyi.solvers.ridge import (
    corrected,
    inverse_factor,
    moments,
    weight_of,
)
from renyi.validation import InputError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

WIDTH = 40  # characters of a name
_SHOWN = 40  # features that are printed
# Of each category. Eight penalties were tried on splits of four bundled sets; this one
# lowers the test error on promoters and hardly changes the others.
_EXTRA_ROWS = 5
_MOST_CATEGORIES = 10_000  # all their pairs take 0.8 GB


@dataclass(frozen=True, eq=False)
class PathResult:
    """Features in order of entry, with figures for the first k of them.

    `frame` returns the path as a table, `plot` as a figure, ``print`` as text. The
    guarantees in `bounds` cover every population with the same pair counts; they do not
    account for the selection.

    Parameters
    ----------
    entries : tuple of str
        The features, in order of entry.
    lambdas, gaps : ndarray of shape (k,)
        Largest penalty at which each feature has points, and the duality gap of the
        solution there. NaN for features that never need points, and for a forward
        selection.
    gamma, hgr : ndarray of shape (k,)
        γ_S of the first 1, 2, … features, and a lower bound on their maximal
        correlation with the class.
    bounds : dict
        Guarantee of the refitted model by rule, ``"map"`` and ``"sharp"``, over every
        distribution with these marginals.
    n_features : int
        Number of features to choose from.
    places : ndarray of shape (k,)
        Places of the entries among all features.
    lasso : LassoPath or None
        The solutions themselves, at all penalties; None for a forward selection.
    n : float
        Number of rows.
    n_indicators : ndarray of shape (k,)
        Number of categories of the first 1, 2, … features that have rows.

    Notes
    -----
    `gamma`, `hgr` and `bounds` come from refits on all pairs of categories. They are
    NaN if the features have more than 10,000 categories.

    See Also
    --------
    selection_path : Compute a path.

    Examples
    --------
    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> path = renyi.selection_path(m)
    >>> path.features(2)
    ('physician-fee-freeze', 'adoption-of-the-budget-resolution')
    >>> path.gamma[:2].round(4)
    array([0.0392, 0.0364])
    >>> path.frame()["map"].round(4).tolist()[:2]
    [0.1569, 0.1458]
    """

    entries: tuple[str, ...]
    lambdas: Floats
    gamma: Floats
    hgr: Floats
    bounds: dict[str, Floats]
    gaps: Floats
    n_features: int
    places: Places
    lasso: LassoPath | None
    n: float
    n_indicators: Places

    def features(self, k: int) -> tuple[str, ...]:
        """Return the first k features, at most as many as entered."""
        if not 0 <= k <= len(self.entries):
            raise ValueError(
                f"k={k} is not between 0 and {len(self.entries)}, the number of "
                f"features that entered the path (of {self.n_features}). Choose fewer "
                "features or a smaller ratio."
            )
        return self.entries[:k]

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per number of features."""
        import pandas as pd

        columns = {"feature": self.entries, "lambda": self.lambdas, "gamma": self.gamma}
        columns |= {"hgr": self.hgr, **self.bounds, "gap": self.gaps}
        index = pd.RangeIndex(1, len(self.entries) + 1, name="n_features")
        return pd.DataFrame(columns, index=index)

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """Whether γ and bounds say little about new rows: categories are too many."""
        return np.asarray(has_few_rows(self.n, self.n_indicators))

    def __str__(self) -> str:
        """Return one line per feature, in order of entry."""
        return self.text()

    def text(self, selected: Iterable[str] = ()) -> str:
        """Return one line per feature, and mark some of them.

        Bounds that say little about new rows are not printed.
        """
        marked = set(selected)
        shown = self.entries[:_SHOWN]
        width = min(max([7, *(len(printable(name)) for name in shown)]), WIDTH)
        heads = ["gamma", "hgr >=", "map", "sharp"]
        if self.lasso is not None:  # a forward selection has no penalties
            heads.insert(0, "lambda")
        rows = [("k", " ", "feature", heads)]
        for k, name in enumerate(shown):
            mark = "*" if name in marked else " "
            fitting = short(printable(name), width)
            rows.append((str(k + 1), mark, fitting, self._figures(k)))
        lines = [
            f"{k:>4}{mark} {name:<{width}} " + " ".join(f"{f:>7}" for f in figures)
            for k, mark, name, figures in rows
        ]
        if len(shown) < len(self.entries):
            lines.append(f"      and {len(self.entries) - len(shown)} more")
        return "\n".join(lines)

    def _figures(self, k: int) -> list[str]:
        """Return the figures of a line, with bounds rounded outwards."""
        lam = []
        if self.lasso is not None:
            penalty = self.lambdas[k]
            lam = ["-" if np.isnan(penalty) else f"{penalty:.4f}"]
        if self.doubtful[k] or np.isnan(self.gamma[k]):
            return [*lam, *"----"]
        worst = [at_most(float(b[k])) for b in self.bounds.values()]
        values = (self.gamma[k], rounded_down(float(self.hgr[k])))
        return [*lam, *(f"{v:.4f}" for v in values), *worst]


def selection_path(m: Marginals, *, fit_intercept: bool = True) -> PathResult:
    """Compute the path of features over falling penalties, from marginals alone.

    The path ranks the features: the larger the penalty at which a feature enters, the
    earlier it comes. For the first k features it also has the guarantee of a refitted
    model, so that you can see how many features are worthwhile.

    Parameters
    ----------
    m : Marginals
        Pair counts of any order; at order 2 the features are pairs of columns.
    fit_intercept : bool, default=True
        Whether scores have an intercept without a penalty. The paper has none, so that
        False is its Algorithm 1 to the letter.

    Returns
    -------
    PathResult

    See Also
    --------
    RenyiSelector : Select features, and train on them.
    PathDisplay : Plot the path.

    Notes
    -----
    Guide: :doc:`/selection`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X.iloc[:, :4], y)
    >>> print(renyi.selection_path(m))
       k  feature                            lambda   gamma  hgr >=     map   sharp
       1  physician-fee-freeze ...
    """
    if not isinstance(m, Marginals):
        raise TypeError(
            f"m must be Marginals, not a {type(m).__name__}. Count them with "
            "Marginals.from_data, or use RenyiSelector for rows."
        )
    check_classes(m.classes, m.target)
    check_possible(m)
    problem = counts_problem(m, fit_intercept)
    return entry_path(problem, m.feature_names, first_grid(problem))


def counts_problem(m: Marginals, fit_intercept: bool = True) -> CountsProblem:
    """Return the l1,∞ problem of marginals."""
    sizes = m.encoder.columns.sizes
    return CountsProblem(m.Q, m.F, m.class_probabilities, sizes, m.n, fit_intercept)


def first_grid(problem: Problem) -> Floats:
    """Return the penalties of a path; more are added where several features enter."""
    return penalty_grid(problem, N_LAMBDAS, RATIO)


def entry_path(
    problem: Problem, names: tuple[str, ...], grid: Floats, at_least: int = 0
) -> PathResult:
    """Return the path over falling penalties, with figures for each prefix.

    With `at_least`, the path continues to smaller penalties until it has that many
    features. Features that never get points come last, the most explanatory first.
    """
    lasso = solve_entries(problem, grid, TOL, at_least, MAX_PASSES)
    sizes = problem.sizes
    order, first = entries(lasso, sizes)
    candidates = np.concatenate([order, unentered(problem, lasso, order, at_least)])
    # Too many categories: refit on the first feature only.
    affordable = int((np.cumsum(sizes[candidates]) <= _MOST_CATEGORIES).sum())
    counts = problem.counted(candidates[: max(affordable, 1)])
    last = np.zeros(len(candidates), bool)
    last[: len(counts.sizes)] = functions_of_earlier(counts.Q, counts.sizes)
    chosen = np.argsort(last, kind="stable")[: max(len(order), at_least, 1)]
    places = candidates[chosen]
    fitted = chosen[np.logical_and.accumulate(chosen < len(counts.sizes))]
    fits = nested_fits(counts.counted(fitted), ALPHA)
    entered = np.concatenate([first, np.full(len(candidates) - len(order), -1)])[chosen]
    needed = (entered >= 0) & ~last[chosen]
    return _path_result(
        problem,
        names,
        places,
        fits,
        np.where(needed, lasso.lambdas[entered], np.nan),
        np.where(needed, lasso.gaps[entered], np.nan),
        lasso,
    )


def forward_path(
    problem: Problem, names: tuple[str, ...], k: int | None = None
) -> PathResult:
    """Return the features in the order of forward selection, by default all."""
    counts = forward_counts(problem)
    places = forward_order(counts, k)
    fits = nested_fits(counts.counted(places), ALPHA)
    none = np.full(len(places), np.nan)
    return _path_result(problem, names, places, fits, none, none, None)


def forward_counts(problem: Problem) -> CountsProblem:
    """Return the counts of all features, which forward selection needs."""
    D = int(problem.sizes.sum())
    if D > _MOST_CATEGORIES:
        raise InputError(
            f"Forward selection keeps the counts of all pairs of {D:,} categories, "
            f"and takes at most {_MOST_CATEGORIES:,}: choose {{method}}, or leave out "
            "columns with many categories.",
            method="path",
        )
    return problem.counted(np.arange(len(problem.sizes)))


def forward_order(counts: CountsProblem, k: int | None = None) -> Places:
    """Return the places of the first k features of forward selection.

    The ridge penalty is that of `_EXTRA_ROWS` more rows of the mean class in every
    category. Without it, features with many rare categories would enter first.
    """
    equations = moments(counts.Q, counts.F, counts.priors, fit_intercept=True)
    alpha = max(ALPHA, _EXTRA_ROWS / counts.n)
    dependent = functions(counts.Q, counts.sizes)
    subsets = forward(equations, counts.sizes, k, alpha, dependent)
    return np.array(subsets[-1].features, np.int64)


def _path_result(
    problem: Problem,
    names: tuple[str, ...],
    places: Places,
    fits: NestedFits,
    lambdas: Floats,
    gaps: Floats,
    lasso: LassoPath | None,
) -> PathResult:
    """Return features in order of entry; those beyond the fits have no figures."""
    unknown = np.full(len(places) - len(fits.gamma), np.nan)
    gamma, hgr, by_map, sharp = (np.append(values, unknown) for values in fits[:4])
    there = problem.probabilities() > 0
    with_rows = np.add.reduceat(there, problem.starts[:-1], 0, int)
    return PathResult(
        tuple(names[i] for i in places.tolist()),
        lambdas,
        gamma,
        hgr,
        {"map": by_map, "sharp": sharp},
        gaps,
        len(names),
        places,
        lasso,
        problem.n,
        np.cumsum(with_rows[places]),
    )


# ---- refits of the first 1, 2, … features


class NestedFits(NamedTuple):
    """Figures of the fits on the first 1, 2, …, d features."""

    gamma: Floats
    hgr: Floats
    map: Floats
    sharp: Floats
    df: Floats

    def gcv(self, n: float) -> Floats:
        """Return the estimates of generalised cross-validation."""
        return corrected(self.gamma, self.df, n)


def nested_fits(counts: CountsProblem, alpha: float) -> NestedFits:
    """Fit the first feature, the first two, and so on."""
    ends = counts.starts[1:]
    priors = counts.priors
    K = counts.n_classes
    equations = moments(counts.Q, counts.F, priors, True)
    inverse = inverse_factor(equations.A, alpha)
    Y = inverse @ equations.R
    fits = np.cumsum(Y**2, axis=0)[ends - 1]  # by class
    fit = fits.sum(axis=1)
    trace = np.cumsum(np.einsum("ij,ij->i", inverse, inverse))[ends - 1]
    present = priors > 0
    scaled = Y[:, present] / np.sqrt(priors[present]) if K > 2 else Y
    # Points and canonical correlations of each fit come from those of the last fit.
    total = np.zeros((scaled.shape[1],) * 2)
    squares, canonical = np.zeros((2, len(ends)))
    for k, Z in enumerate(_growing_points(inverse, Y, counts.starts)):
        squares[k] = np.vdot(Z, Z)
        if K > 2:
            part = scaled[counts.starts[k] : ends[k]]
            total += part.T @ part
            canonical[k] = np.linalg.eigvalsh(total)[-1]
    penalty = alpha * squares
    variance = equations.variance
    gamma = weight_of(K) * np.maximum(variance - fit - penalty, 0)
    if K == 2 and variance > 0:
        canonical = 1 - gamma / variance
    by_map = np.minimum(_map_bounds(priors, fits, penalty), 4 * gamma)
    return NestedFits(
        gamma,
        np.sqrt(np.clip(canonical, 0, 1)),
        np.minimum(by_map, 1.0),
        np.minimum(2 * gamma, 1.0),
        1 + ends - alpha * trace,
    )


def _growing_points(inverse: Floats, Y: Floats, starts: Places) -> Iterator[Floats]:
    """Yield the points of the first 1, 2, … features, always in the same array."""
    Z = np.zeros_like(Y)
    for begin, end in pairwise(starts.tolist()):
        Z[:end] += inverse[begin:end, :end].T @ Y[begin:end]
        yield Z


def nested_solutions(counts: CountsProblem, alpha: float) -> tuple[Floats, Floats]:
    """Return points (d, D, C) and intercepts (d, C) of the same fits.

    Intercepts are of classes coded as in `renyi.solvers.l1inf`: around 1/K.
    """
    equations = moments(counts.Q, counts.F, counts.priors, True)
    inverse = inverse_factor(equations.A, alpha)
    growing = _growing_points(inverse, inverse @ equations.R, counts.starts)
    points = np.stack([Z.copy() for Z in growing])
    mean = equations.base - 1 / counts.n_classes
    return points, mean - equations.centre @ points


def _map_bounds(priors: Floats, fits: Floats, penalty: Floats) -> Floats:
    """Return the guarantee of the rule map after 1, 2, … features.

    Points of all classes sum to 0, so that t̄ = 1/K; those of two are one column.
    """
    off = priors - 1 / len(priors)
    squares = 2 * weight_of(len(priors)) * (fits.sum(axis=1) - penalty)
    spreads = np.maximum(off @ off + squares, 0)
    leads = priors * off + fits
    pairs = zip(spreads.tolist(), leads, strict=True)
    return np.array([map_bound(spread, lead, priors).bound for spread, lead in pairs])
