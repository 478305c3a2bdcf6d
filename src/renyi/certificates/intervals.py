r"""Guarantees from counts that are known to intervals, with probability 1.

For scores s = Σ_i U_i(x_i), whose intercept is folded into U, the risk is linear in the
tables:

.. math:: E\|t - e_Y\|^2 = \sum_{i \ne j} \langle Q_{ij}, U_i U_j^T \rangle
    + \sum_i \sum_{k, y} F_i(k, y) (\|u\|^2 - 2 (u_y - \bar u)) + 1 - 1/K,
    \qquad u = U_i(k).

So are the bounds of rule map, ``2 E‖β(s − s̄) − s_Y (e_Y − 1/K)‖²`` for any β ≥ 0 and
any s_y ≥ 1. A class may also have s_y = 0 and count 1 more. Whatever β and s_y are, the
largest value over all tables in their intervals is a guarantee. Good ones are those of
the estimated tables.

**The box**, in closed form, takes the worst end of every interval by itself:

.. math:: \frac 1 n \sum_c \max(a_c l_c, a_c h_c).

Cells of single columns have one interval for each class, and ``‖u‖² − 2(u_y − ū)`` as
their coefficient. Adding numbers to the points of one column and subtracting them from
another changes no score. But it moves the box, which ignores that margins agree. The
smallest of a few such choices is used. `renyi.robust.interval_program` is never larger,
as it takes the worst of the tables that agree with each other.

A pair without a table is one whose interval is that of Fréchet within each class,

.. math:: \sum_y \max(0, N_i(k, y) + N_j(l, y) - n_y) \le N_{ij}(k, l)
    \le \sum_y \min(N_i(k, y), N_j(l, y)).

A known pair is in the intersection of that interval and its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.record import Step
from renyi.counting import sparse_counts
from renyi.counting.onehot import centred, offsets
from renyi.marginals.consistency import absent_pairs, check_counted
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Intervals
from renyi.scorecard import Match, Scorecard

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Bounds a function, which points define, for the points and the intercept of scores.
Largest = Callable[[Callable[[Floats], "Functional"], Floats, Floats], float]

_WIDER = 1e-9  # sums of weights may disagree by this share of their total
_MOST_FOLDS = 64  # columns to which an intercept is added by itself
_UP = 1e-12  # added to a bound, for rounding


class Tables(NamedTuple):
    """Tables of proportions: pairs of categories, category and class, classes."""

    Q: Floats
    F: Floats
    priors: Floats


def is_interval(m: Marginals) -> bool:
    """Whether some counts are known to intervals only; absent pairs are."""
    return isinstance(m.uncertainty, Intervals) or (
        m.uncertainty is None and bool(m.absent)
    )


@dataclass(frozen=True, eq=False)
class KnownTables:
    """Intervals of all counts of the features and the target, and an estimate.

    Parameters
    ----------
    sizes : ndarray of int
        Categories of each feature; D in all.
    absent : ndarray of bool
        Pairs of features without a table.
    n : tuple of two floats
        Ends of the interval of the number of rows; so of the others.
    pairs, classes, singles, priors : tuple of two ndarrays
        Of pairs of categories (D, D), of category and class (D, K), of categories (D,),
        and of classes (K,).
    start : Tables
        Estimated tables, where training begins.
    """

    sizes: NDArray[np.intp]
    absent: Flags
    n: tuple[float, float]
    pairs: tuple[Floats, Floats]
    classes: tuple[Floats, Floats]
    singles: tuple[Floats, Floats]
    priors: tuple[Floats, Floats]
    start: Tables

    @classmethod
    def of(
        cls,
        m: Marginals,
        places: NDArray[np.intp] | None = None,
        n_classes: int | None = None,
    ) -> KnownTables:
        """Return what is known of marginals.

        `places` are those of their classes among `n_classes`, of which no row has the
        others; by default all classes in their order.
        """
        known = cls._of_own_classes(m)
        if places is None or n_classes is None:
            return known

        def spread(values: Floats) -> Floats:
            out = np.zeros((*values.shape[:-1], n_classes))
            out[..., places] = values
            return out

        classes = known.classes
        priors = known.priors
        start = known.start
        return replace(
            known,
            classes=(spread(classes[0]), spread(classes[1])),
            priors=(spread(priors[0]), spread(priors[1])),
            start=Tables(start.Q, spread(start.F), spread(start.priors)),
        )

    @classmethod
    def _of_own_classes(cls, m: Marginals) -> KnownTables:
        names = m.feature_names
        check_counted(m, ((name, m.target) for name in names))
        sizes = m.encoder.columns.sizes
        places = m.columns.places(names)
        absent = absent_pairs(m)[np.ix_(places, places)]
        rows = m.columns.spans(names)
        classes = m.columns.spans([m.target])
        low, high, n = _ends(m)
        inner = np.ix_(rows, rows)
        across = np.ix_(rows, classes)
        own = low[classes, classes], high[classes, classes]
        by_class = _narrowed(
            (low[across], high[across]), (low[rows, rows], high[rows, rows]), own
        )
        pairs = _with_frechet((low[inner], high[inner]), by_class, own, absent, sizes)
        return cls(
            sizes,
            absent,
            n,
            pairs,
            by_class,
            (low[rows, rows], high[rows, rows]),
            own,
            _start(m, rows, classes, absent, sizes),
        )

    @property
    def which(self) -> NDArray[np.intp]:
        """The feature of each category."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def _ends(m: Marginals) -> tuple[Floats, Floats, tuple[float, float]]:
    """Return both ends of all counts, and of the number of rows."""
    record = m.uncertainty
    if isinstance(record, Intervals):
        low = record.low.astype(np.float64)
        high = record.high.astype(np.float64)
        return low, high, (float(max(record.n_low, 1)), float(record.n_high))
    counts = sparse_counts.dense(m.counts).astype(np.float64)
    wider = _WIDER * m.n if m.weighted else 0.0
    low = np.maximum(counts - wider, 0.0)
    return low, counts + wider * (counts > 0), (float(m.n), float(m.n))


def _narrowed(
    cells: tuple[Floats, Floats],
    rows: tuple[Floats, Floats],
    columns: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """Return intervals of cells, which are at most their row and their column."""
    high = np.minimum(cells[1], np.minimum(rows[1][:, None], columns[1]))
    return cells[0], np.maximum(high, cells[0])


def _with_frechet(
    pairs: tuple[Floats, Floats],
    classes: tuple[Floats, Floats],
    priors: tuple[Floats, Floats],
    absent: Flags,
    sizes: NDArray[np.intp],
) -> tuple[Floats, Floats]:
    """Return the intervals of pairs, narrowed by those of Fréchet within each class."""
    D = len(classes[0])
    low = np.zeros((D, D))
    high = np.zeros((D, D))
    for y in range(len(priors[0])):
        below = classes[0][:, y]
        above = classes[1][:, y]
        low += np.maximum(0.0, below[:, None] + below - priors[1][y])
        high += np.minimum(above[:, None], above)
    which = np.repeat(np.arange(len(sizes)), sizes)
    known = ~absent[np.ix_(which, which)]
    low = np.where(known, np.maximum(low, pairs[0]), low)
    high = np.where(known, np.minimum(high, pairs[1]), high)
    own = which[:, None] == which
    low[own] = 0.0
    high[own] = 0.0
    return low, np.maximum(low, high)


def _start(
    m: Marginals,
    rows: NDArray[np.intp],
    classes: NDArray[np.intp],
    absent: Flags,
    sizes: NDArray[np.intp],
) -> Tables:
    """Return estimated tables; absent pairs are independent within each class."""
    counts = sparse_counts.dense(m.counts) / m.n
    F = counts[np.ix_(rows, classes)]
    priors = counts[classes, classes]
    Q = counts[np.ix_(rows, rows)]
    if absent.any():
        which = np.repeat(np.arange(len(sizes)), sizes)
        cells = absent[np.ix_(which, which)]
        Q = np.where(cells, independent_within(F, priors, sizes), Q)
    return Tables(Q, F, priors)


def independent_within(F: Floats, priors: Floats, sizes: NDArray[np.intp]) -> Floats:
    """Return the pair tables of columns that are independent within each class."""
    present = priors > 0
    shares = F[:, present] / priors[present]
    Q = shares @ F[:, present].T
    which = np.repeat(np.arange(len(sizes)), sizes)
    Q[which[:, None] == which] = 0.0
    np.fill_diagonal(Q, F.sum(axis=1))
    return np.asarray(Q)


# ---- a scorecard


class Proved(NamedTuple):
    """What is proved of a model: γ at most, guarantees, and the estimated tables."""

    gamma: float
    bounds: dict[str, float]  # by rule
    steps: tuple[Step, ...]  # of one rule
    start: Tables
    n_indicators: int
    confidence: float | None = None


class Scores(NamedTuple):
    """Points of a scorecard, those that decide, and what rounding does to scores."""

    own: tuple[Floats, Floats]  # points and intercept
    deciding: tuple[Floats, Floats]
    own_error: float
    deciding_error: float
    decides: bool  # whether both are the same

    @classmethod
    def of(cls, card: Scorecard, match: Match) -> Scores:
        """Return the scores under marginals that a scorecard matches."""
        mapped = card.mapped
        moved = match if mapped is card else mapped.match(match.marginals)
        return cls(
            (match.points, match.intercept),
            (moved.points, moved.intercept),
            card.score_error,
            mapped.score_error,
            mapped is card,
        )


def rule_bounds(
    scores: Scores, scales: Sequence[float], largest: Largest
) -> dict[str, float]:
    """Return γ and the guarantees of all rules, by one way to bound functions.

    Each bound is a mean of squares. If scores are off by rounding, its root grows by at
    most the root of the mean of the squared change. `scales` are the β to try.
    """
    K = len(scores.own[1])
    B = _with_rounding(
        largest(squared_error, *scores.own), scores.own_error * math.sqrt(K)
    )
    errors = [1.0]
    for beta in scales:
        make = partial(map_error, beta=beta, scales=np.ones(K))
        rounding = beta * scores.deciding_error * math.sqrt(2 * K)
        errors.append(_with_rounding(largest(make, *scores.deciding), rounding))
    if scores.decides:
        errors.append(2 * B)
    return {
        "gamma": B / 2,
        "map": min(errors),
        "renyi": min(1.0, B),
        "sharp": min(1.0, B),
    }


def _with_rounding(bound: float, error: float) -> float:
    if not math.isfinite(bound):
        return math.inf
    root = math.sqrt(max(bound, 0.0)) + error
    return root * root


# ---- functionals of the tables


class Functional(NamedTuple):
    """A linear function of tables: ``Σ_{i≠j} ⟨Q_ij, U_i U_jᵀ⟩ + ⟨F, C⟩ + pᵀc + d``."""

    U: Floats  # (D, classes)
    cells: Floats  # (D, K)
    priors: Floats  # (K,)
    constant: float

    def at(self, tables: Tables, sizes: NDArray[np.intp]) -> float:
        """Return the value at some tables of proportions."""
        which = np.repeat(np.arange(len(sizes)), sizes)
        apart = which[:, None] != which
        pairs = float((tables.Q * (self.U @ self.U.T))[apart].sum())
        cells = float((tables.F * self.cells).sum())
        return pairs + cells + float(tables.priors @ self.priors) + self.constant


def squared_error(U: Floats) -> Functional:
    """Return ``E‖s − (e_Y − 1/K)‖²`` of scores ``s = Σ_i U_i(x_i)``."""
    K = U.shape[1]
    cells = (U**2).sum(axis=1)[:, None] - 2 * (U - U.mean(axis=1, keepdims=True))
    return Functional(U, cells, np.zeros(K), 1 - 1 / K)


def map_error(U: Floats, beta: float, scales: Floats) -> Functional:
    """Return the bound of rule map at β and s_y; see the module."""
    K = U.shape[1]
    kappa = 1 - 1 / K
    T = beta * (U - U.mean(axis=1, keepdims=True))
    cells = 2 * (T**2).sum(axis=1)[:, None] - 4 * scales * T
    priors = np.where(scales > 0, 2 * kappa * scales**2, 1.0)
    least = float(priors.min())  # shares of the classes add up to 1
    return Functional(np.sqrt(2) * T, cells, priors - least, least)


def best_scale(U: Floats, known: KnownTables) -> float:
    """Return β of the smallest bound of rule map at the estimated tables."""
    T = U - U.mean(axis=1, keepdims=True)
    lead = float((known.start.F * T).sum())
    off = squared_error(T)
    spread = off.at(known.start, known.sizes) - off.constant + 2 * lead
    return max(lead, 0.0) / spread if spread > 0 else 0.0


def folded(points: Floats, intercept: Floats, known: KnownTables) -> Iterator[Floats]:
    """Yield points whose sums are the scores, for several choices of the gauge.

    Each column's weighted mean or median is moved to the intercept. This is then shared
    by all columns, or added to one of them.
    """
    sizes = known.sizes
    which = known.which
    weights = known.start.F.sum(axis=1)
    mean, base = centred(points, intercept, weights, sizes)
    starts = offsets(sizes)
    columns = [slice(*starts[i:][:2]) for i in range(len(sizes))]
    middles = np.array([np.median(mean[own], axis=0) for own in columns])
    for moved in (np.zeros_like(middles), middles):
        P = mean - moved[which]
        b = base + moved.sum(axis=0)
        yield P + b / len(sizes)
        for own in columns[:_MOST_FOLDS]:
            U = P.copy()
            U[own] += b
            yield U


def box_bound(functional: Functional, known: KnownTables) -> float:
    """Return the largest value over all tables in their intervals, agreeing or not."""
    M = functional.U @ functional.U.T
    which = known.which
    M[which[:, None] == which] = 0.0
    total = _largest(M, known.pairs) + _largest(functional.cells, known.classes)
    total += _largest(functional.priors, known.priors)
    low, high = known.n
    return max(total / low, total / high) + functional.constant + _UP


def _largest(coefficients: Floats, ends: tuple[Floats, Floats]) -> float:
    """Return the largest sum of products with numbers in their intervals."""
    low, high = ends
    return float(
        np.where(coefficients > 0, coefficients * high, coefficients * low).sum()
    )
