r"""The path of Algorithm 1 as a result: which features enter, and what they are worth.

From the largest penalty downwards (`renyi.group_lasso`) features get points one after
the other. Penalties are few, so that several may enter between two of them: a first,
coarse walk finds these steps, and the walk that counts takes smaller ones there. What
still enters together is ordered by its largest point.

A feature that is a function of another one, such as a copy, needs no points: added to
the points of the other they give the same scores, and ``max|z_i + z_j|`` is at most
``max|z_i| + max|z_j|``. Solvers may give it some all the same. It comes last.

For the first k features, refitted by ridge with next to no penalty (`renyi.nested`):

* ``γ_S = min γ(z)`` over points of these features;
* ``√(1 − γ_S/(q(1−q)))``, a lower bound on the maximal correlation of X_S and Y in
  every distribution with these marginals (for K classes the first canonical one);
* the worst error of the refitted model, rules map and sharp.

γ_S falls with every feature. That is no promise about new rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.evidence import refuse_impossible
from renyi.group_lasso import N_LAMBDAS, RATIO, TOL, LassoPath
from renyi.indicators import offsets
from renyi.marginals import Marginals
from renyi.materials import FromCounts, Material, columns_of
from renyi.nested import nested_fits
from renyi.ridge import Moments
from renyi.screening import places_of
from renyi.subsets import ALPHA
from renyi.targets import need_two_classes, refuse_missing_class

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_SCOUT = 1e-2  # relative gap of the first walk
_EXTRA = 30  # penalties added where several features enter at once
_LEAST_RATIO = 1e-3  # how far down to look for more features
_SHOWN = 40  # lines of a text
_ROUNDING = 1e-12  # of a probability


@dataclass(frozen=True, eq=False)
class PathResult:
    """Features in order of entry, and what the first k of them are worth.

    Parameters
    ----------
    entries : tuple of str
        The features, in order of entry.
    lambdas : ndarray of shape (k,)
        Penalty at which each has points for the first time; NaN for those that need
        none at any penalty.
    gamma : ndarray of shape (k,)
        γ_S of the first 1, 2, … features.
    hgr : ndarray of shape (k,)
        Lower bound on their maximal correlation with the class.
    bounds : dict
        Worst error of the refitted model by rule, ``"map"`` and ``"sharp"``, over all
        distributions with these marginals.
    gaps : ndarray of shape (k,)
        Duality gap of the solution at each of `lambdas`.
    n_features : int
        Number of features to choose from.
    places : ndarray of shape (k,)
        Places of the entries among all features.
    lasso : LassoPath
        The solutions themselves, at all penalties.
    n : float
        Number of rows.
    n_indicators : ndarray of shape (k,)
        Number of categories of the first 1, 2, … features.

    Examples
    --------
    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> path = renyi.selection_path(m)
    >>> path.features(2)
    ('physician-fee-freeze', 'adoption-of-the-budget-resolution')
    >>> path.gamma[:2].round(4)
    array([0.0392, 0.0364])
    """

    entries: tuple[str, ...]
    lambdas: Floats
    gamma: Floats
    hgr: Floats
    bounds: dict[str, Floats]
    gaps: Floats
    n_features: int
    places: Places
    lasso: LassoPath
    n: float
    n_indicators: Places

    def features(self, k: int) -> tuple[str, ...]:
        """Return the first k features.

        Parameters
        ----------
        k : int
            How many; at most as many as entered.
        """
        if not 0 <= k <= len(self.entries):
            raise ValueError(
                f"{len(self.entries)} of {self.n_features} features entered the path, "
                f"so there is no set of {k}: choose fewer, or a smaller ratio."
            )
        return self.entries[:k]

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per number of features.

        >>> import renyi
        >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
        >>> table = renyi.selection_path(m).frame()
        >>> table["feature"].tolist()[0], round(table["map"].tolist()[0], 4)
        ('physician-fee-freeze', 0.1569)
        """
        import pandas as pd

        columns = {
            "feature": self.entries,
            "lambda": self.lambdas,
            "gamma": self.gamma,
            "hgr": self.hgr,
            "map": self.bounds["map"],
            "sharp": self.bounds["sharp"],
            "gap": self.gaps,
        }
        index = pd.RangeIndex(1, len(self.entries) + 1, name="n_features")
        return pd.DataFrame(columns, index=index)

    def plot(self, ax: Any = None) -> Any:
        """Draw worst error and correlation against the number of features.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default on a figure of its own.

        Returns
        -------
        matplotlib axes
        """
        ax = axes() if ax is None else ax
        k = np.arange(1, len(self.entries) + 1)
        ax.plot(k, self.bounds["map"], "o-", ms=3, label="worst error, rule map")
        ax.plot(k, self.bounds["sharp"], "s-", ms=3, label="worst error, rule sharp")
        ax.plot(k, self.gamma, "-", label="γ")
        ax.plot(k, self.hgr, "--", color="grey", label="maximal correlation, at least")
        ax.set_xlabel("number of features")
        ax.set_ylim(0, 1)
        ax.legend()
        return ax

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """Whether γ and bounds say little about new rows: categories are too many."""
        return np.asarray(self.n_indicators >= self.n / 2)

    def __str__(self) -> str:
        """Return one line per feature, in order of entry."""
        return self.text()

    def text(self, selected: Iterable[str] = ()) -> str:
        """Return one line per feature, with a mark at some of them.

        Bounds that say little about new rows are not printed.
        """
        marked, shown = set(selected), min(len(self.entries), _SHOWN)
        width = min(max([7, *(len(name) for name in self.entries[:shown])]), 40)
        head = ("lambda", "gamma", "hgr >=", "map", "sharp")
        cells = [" ".join(f"{name:>7}" for name in head)]
        cells += [self._cells(k) for k in range(shown)]
        names = ["feature", *(name[:width] for name in self.entries[:shown])]
        marks = [" ", *("*" if n in marked else " " for n in self.entries[:shown])]
        lines = [
            f"{k or 'k':>4}{mark} {name:<{width}} {cell}"
            for k, (mark, name, cell) in enumerate(
                zip(marks, names, cells, strict=True)
            )
        ]
        if shown < len(self.entries):
            lines.append(f"      and {len(self.entries) - shown} more")
        return "\n".join(lines)

    def _cells(self, k: int) -> str:
        lam = "-" if np.isnan(self.lambdas[k]) else f"{self.lambdas[k]:.4f}"
        values = (self.gamma[k], self.hgr[k], *(b[k] for b in self.bounds.values()))
        texts = ["-"] * 4 if self.doubtful[k] else [f"{v:.4f}" for v in values]
        return " ".join(f"{text:>7}" for text in (lam, *texts))


def axes() -> Any:
    """Return axes to draw on, or say how to get what is needed for that."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib: install the extra, pip install 'renyi[plot]'."
        ) from error
    return Figure(figsize=(7, 4.5), layout="constrained").subplots()


def selection_path(
    m: Marginals,
    *,
    n_lambdas: int = N_LAMBDAS,
    ratio: float = RATIO,
    tol: float = TOL,
    alpha: float = ALPHA,
) -> PathResult:
    """Features in order of entry along a path of penalties, from marginals alone.

    Parameters
    ----------
    m : Marginals
        Of any order: at order 2 the features are pairs of columns.
    n_lambdas : int, default=30
        Number of penalties, evenly spaced on a logarithmic scale; some more are added
        where several features enter at once.
    ratio : float, default=0.01
        Smallest penalty, as a share of the largest that matters.
    tol : float, default=1e-4
        Duality gap to be reached at every penalty, relative to the objective.
    alpha : float, default=1e-6
        Ridge penalty of the refits; next to none by default, so that `gamma` is γ_S.

    Returns
    -------
    PathResult

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
            f"selection_path takes marginals, not a {type(m).__name__}: count them "
            "with Marginals.from_data, or use RenyiSelector for rows."
        )
    if not alpha > 0:
        raise ValueError(f"alpha must be positive, not {alpha!r}: 1e-6 is almost none.")
    refuse_missing_class(m)
    need_two_classes(np.asarray(m.classes))
    refuse_impossible(m)
    material = FromCounts.of(m)
    grid = penalties(material, n_lambdas, ratio)
    return entry_path(material, m.feature_names, grid, tol=tol, alpha=alpha)


def penalties(material: Material, n_lambdas: int, ratio: float) -> Floats:
    """Return the penalties of a path, falling from the largest that matters."""
    one = material.path(n_lambdas=1, ratio=ratio, tol=1.0)
    return np.asarray(one.lambdas[0] * np.geomspace(1, ratio, n_lambdas))


def entry_path(
    material: Material,
    names: tuple[str, ...],
    grid: Floats,
    *,
    tol: float = TOL,
    alpha: float = ALPHA,
    at_least: int = 0,
) -> PathResult:
    """Return the path over some penalties, and over more where features enter together.

    Parameters
    ----------
    material : Material
        Counts or rows.
    names : tuple of str
        Names of the features.
    grid : ndarray of shape (L,)
        The penalties, falling.
    tol, alpha
        As for `selection_path`.
    at_least : int
        Number of features to go on for, to smaller penalties; features that never get
        points come last, in order of how much is left for them to explain.
    """
    found = material.path(_refined(material, grid, at_least), tol=tol)
    order, first = _entries(found, material.sizes)
    candidates = np.concatenate([order, _latecomers(material, found, order, at_least)])
    equations, priors = material.moments(candidates)
    last = _functions_of_earlier(equations, material.sizes[candidates])
    kept = np.argsort(last, kind="stable")[: max(len(order), at_least, 1)]
    places = candidates[kept]
    equations = _reordered(equations, places_of(kept, material.sizes[candidates]))
    fits = nested_fits(equations, material.sizes[places], priors, alpha)
    entered = np.concatenate([first, np.full(len(candidates) - len(order), -1)])[kept]
    needed = (entered >= 0) & ~last[kept]
    return PathResult(
        tuple(names[i] for i in places.tolist()),
        np.where(needed, found.lambdas[entered], np.nan),
        fits.gamma,
        fits.hgr,
        {"map": fits.map, "sharp": fits.sharp},
        np.where(needed, found.gaps[entered], np.nan),
        len(names),
        places,
        found,
        material.n,
        np.cumsum(material.sizes[places]),
    )


def _functions_of_earlier(equations: Moments, sizes: Places) -> NDArray[np.bool_]:
    """Return which features are functions of one before them.

    Each category of the one before occurs with a single category of such a feature.
    """
    centre, starts = equations.centre, offsets(sizes)[:-1]
    there = (equations.A + np.outer(centre, centre) > _ROUNDING).astype(np.int32)
    cells = np.add.reduceat(np.add.reduceat(there, starts, axis=0), starts, axis=1)
    functions = cells == np.diag(cells)[:, None]
    return np.asarray(np.triu(functions, 1).any(axis=0))


def _reordered(equations: Moments, own: Places) -> Moments:
    """Return the normal equations of some categories, in this order."""
    if np.array_equal(own, np.arange(len(equations.R))):
        return equations
    A, R, centre = equations.A[np.ix_(own, own)], equations.R[own], equations.centre
    return equations._replace(A=A, R=R, centre=centre[own])


def _refined(material: Material, grid: Floats, at_least: int) -> Floats:
    """Add penalties where a first walk sees several features enter at once."""
    first_walk = material.path(grid, tol=_SCOUT)
    if first_walk.active.any(axis=0).sum() < at_least:
        grid = _longer(grid)
        first_walk = material.path(grid, tol=_SCOUT)
    entering = _counts_of_entries(first_walk)
    return _split(grid[: _enough(entering, at_least)], entering)


def _longer(grid: Floats) -> Floats:
    """Go on to smaller penalties, in steps as before.

    >>> _longer(np.array([1.0, 0.1]))
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    step, least = grid[1] / grid[0], _LEAST_RATIO * grid[0]
    count = max(int(np.ceil(np.log(least / grid[-1]) / np.log(step) - 1e-9)), 0)
    return np.concatenate([grid, grid[-1] * step ** np.arange(1, count + 1)])


def _enough(entering: Places, at_least: int) -> int | None:
    """Return after how many penalties enough features have entered; None for all."""
    if not at_least:
        return None
    reached = np.flatnonzero(np.cumsum(entering) >= at_least)
    # A step more, since the first walk is a coarse one.
    return int(reached[0]) + 2 if reached.size else None


def _counts_of_entries(found: LassoPath) -> Places:
    """Return how many features have points for the first time, at each penalty."""
    seen = np.logical_or.accumulate(found.active, axis=0).sum(axis=1)
    return np.asarray(np.diff(seen, prepend=0), np.int64)


def _split(grid: Floats, entering: Places) -> Floats:
    """Split the steps in which several features enter, the largest penalties first.

    >>> _split(np.array([8.0, 4.0, 2.0]), np.array([0, 2, 1]))
    array([8.        , 5.65685425, 4.        , 2.        ])
    """
    pieces, left = [grid[:1]], _EXTRA
    for k in range(1, len(grid)):
        extra = min(max(int(entering[k]) - 1, 0), left)
        left -= extra
        pieces.append(np.geomspace(grid[k - 1], grid[k], extra + 2)[1:])
    return np.concatenate(pieces)


def _entries(found: LassoPath, sizes: Places) -> tuple[Places, Places]:
    """Return the features that enter, in order, and at which penalty each does."""
    ever = np.flatnonzero(found.active.any(axis=0))
    first = found.active[:, ever].argmax(axis=0)
    z, _ = columns_of(found)
    largest = np.maximum.reduceat(np.abs(z).max(axis=2), offsets(sizes)[:-1], axis=1)
    order = np.lexsort((ever, -largest[first, ever], first))
    return ever[order].astype(np.int64), first[order].astype(np.int64)


def _latecomers(
    material: Material, found: LassoPath, order: Places, at_least: int
) -> Places:
    """Return features without points that may be needed to make up the number."""
    if at_least <= 0 and len(order):
        return np.empty(0, np.int64)
    z, b = columns_of(found)
    norms = material.norms(z[-1], b[-1])
    norms[order] = -1
    # Equal but for rounding is equal: duplicated columns come in their order.
    places, sizes = np.arange(len(norms)), material.sizes
    ranked = np.lexsort((places, sizes == 1, -norms.round(12)))
    # As many as are asked for, should all that entered be copies of one feature.
    count = min(max(at_least, 1), len(norms) - len(order))
    return np.asarray(ranked[:count], np.int64)
