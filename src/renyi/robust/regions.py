r"""Regions of outcomes: where a rule's loss is a quadratic function of the estimates.

An *additive* function is f(x) = f_0 + Σ_i f_i(x_i): an estimate, a margin. The product
of two is a function of pairs of columns, so its expectation on part of the
distribution is linear in the tables of that part.

A region of class y is a set of outcomes with some additive functions h ≥ 0, and
quadratics that lie above the loss ℓ_y there. Two classes: slices of the margin
g = t_y − t_other. map has two slices, and sharp three, on which its loss is the least
of one or two quadratics. That of renyi, ``½ − g/(1 + g²)``, is interpolated on each of
some slices and raised by what it may lack. More classes: one region for each class that
may be answered, with ‖t − e_y‖² and 1 above the losses of the randomised rules.

Ties count as errors: regions of an error reach over the tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.robust.losses import KINK, Losses
from renyi.robust.pairwise_program import Layout

Floats = NDArray[np.float64]

# Ends of the slices for renyi.
_EDGES = (-0.5, 0.0, 0.4, 0.75)
# Centres c of the squares (g − c)², in units of the margin that is aimed at.
_CENTRES = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
_NODES = np.arange(3)  # of an interpolation
_SLACK = 1e-6  # of the reach of the margin


class Additive(NamedTuple):
    """A function f(x) = constant + Σ_i points_i(x_i)."""

    points: Floats
    constant: float

    def minus(self, c: float) -> Additive:
        """Return f − c."""
        return Additive(self.points, self.constant - c)

    def less(self, other: Additive) -> Additive:
        """Return f − h."""
        return Additive(self.points - other.points, self.constant - other.constant)

    def times(self, a: float) -> Additive:
        """Return a f."""
        return Additive(a * self.points, a * self.constant)


class Region(NamedTuple):
    """Outcomes of a class on which additive functions are not negative.

    `majorants` lie above the loss there. `products` of the inequalities are not
    negative there, and `squares` nowhere. These three are weights of the cells of pairs
    and columns.
    """

    y: int
    inequalities: list[Additive]
    majorants: list[Floats]
    products: list[Floats]
    squares: list[Floats]


@dataclass(frozen=True, eq=False)
class Moments:
    """Expectations of products of additive functions, from tables of pairs."""

    layout: Layout
    first: NDArray[np.int64]  # place of each pair cell's first category
    second: NDArray[np.int64]

    @classmethod
    def of(cls, layout: Layout) -> Moments:
        """Weights of the cells of a layout."""
        starts, nothing = layout.single_starts, np.empty(0, np.int64)
        first, second = [nothing], [nothing]
        for i, j in layout.pairs:
            a, b = np.indices((layout.sizes[i], layout.sizes[j]))
            first.append(starts[i] + a.ravel())
            second.append(starts[j] + b.ravel())
        return cls(layout, np.concatenate(first), np.concatenate(second))

    def product(self, f: Additive, h: Additive) -> Floats:
        """Weights of the cells whose sum is E[f h]."""
        u, v = f.points, h.points
        pairs = u[self.first] * v[self.second] + u[self.second] * v[self.first]
        singles = f.constant * v + h.constant * u + u * v
        singles[: self.layout.sizes[0]] += f.constant * h.constant
        return np.concatenate([pairs, singles])

    def square(self, f: Additive) -> Floats:
        """Weights of f²."""
        return self.product(f, f)

    def polynomial(self, g: Additive, coefficients: Floats) -> Floats:
        """Weights of a + b g + c g²."""
        a, b, c = coefficients
        one = Additive(np.zeros_like(g.points), 1.0)
        line = Additive(b * g.points, a + b * g.constant)
        return np.asarray(self.product(one, line) + c * self.square(g))

    def with_indicators(self, h: Additive) -> sparse.csr_array:
        """Weights of E[h 1(X_i = k)], one row for each category."""
        D, P = len(h.points), len(self.first)
        cells = np.arange(P)
        rows = np.concatenate([self.first, self.second, np.arange(D)])
        columns = np.concatenate([cells, cells, P + np.arange(D)])
        values = np.concatenate(
            [h.points[self.second], h.points[self.first], h.constant + h.points]
        )
        return sparse.csr_array((values, (rows, columns)), shape=(D, P + D))


def regions(losses: Losses, moments: Moments) -> list[Region]:
    """Regions that together cover all outcomes of every class."""
    found: list[Region] = []
    for y in range(losses.ambiguity.n_classes):
        found += (_slices if losses.binary else _answers)(losses, moments, y)
    return found


# ---- two classes


class Piece(NamedTuple):
    """On low ≤ g ≤ high the loss is at most each of some a + b g + c g²."""

    low: float
    high: float
    majorants: list[Floats]


def pieces(losses: Losses) -> list[Piece]:
    """Quadratics of the margin above the loss, from the lowest margin to the highest.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X[["crime", "immigration"]], y)
    >>> losses = Losses.of(clf.scorecard_, clf.marginals_, "map")
    >>> [piece.majorants[0].tolist() for piece in pieces(losses)]
    [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    one, half = np.array([1.0, 0, 0]), np.array([0.5, -1.0, 0.5])  # half: (1 − g)²/2
    if losses.rule == "map":
        spans = [(-np.inf, losses.tie), (losses.tie, np.inf)]
        return [Piece(*spans[0], [one]), Piece(*spans[1], [0 * one])]
    if losses.rule == "sharp":
        small = np.array([0.5, -1.0, -0.5])
        return [
            Piece(-np.inf, 0.0, [one, half]),
            Piece(0.0, KINK, [small, half]),
            Piece(KINK, np.inf, [0 * one]),
        ]
    ends = [-np.inf, *_EDGES, np.inf]
    spans = list(zip(ends[:-1], ends[1:], strict=True))
    return [Piece(low, high, _above_renyi(losses, low, high)) for low, high in spans]


def _above_renyi(losses: Losses, low: float, high: float) -> list[Floats]:
    """Quadratics above ``(1 − g)²/(2 + 2g²)``: with 1/(2 + 2g²) at most a number.

    Between finite ends also its interpolation, raised. Between points of the fine grid,
    δ apart, a function whose second derivative is at most 5 exceeds its values there by
    at most 5δ²/8.
    """
    least = max(low, -high, 0.0) if low * high > 0 else 0.0
    found = [np.array([1.0, -2.0, 1.0]) / (2 + 2 * least**2)]
    if low == -np.inf:
        found.append(np.array([1.0, 0, 0]))
    if np.isfinite(low) and np.isfinite(high):
        nodes = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (_NODES + 0.5) / 3)
        values = losses.of_margin(nodes.copy())
        own = np.array(np.linalg.solve(np.vander(nodes, 3, True), values), np.float64)
        fine = np.linspace(low, high, 2001)
        lack = losses.of_margin(fine.copy()) - np.vander(fine, 3, True) @ own
        own[0] += lack.max() + 5 * (fine[1] - fine[0]) ** 2 / 8
        found.append(own)
    return found


def _slices(losses: Losses, moments: Moments, y: int) -> list[Region]:
    k = int(losses.own[y])
    g = Additive(*losses.margin(k, 1 - k))
    starts = moments.layout.single_starts[:-1]
    least = float(np.minimum.reduceat(g.points, starts).sum()) + g.constant - _SLACK
    most = float(np.maximum.reduceat(g.points, starts).sum()) + g.constant + _SLACK
    reached = [p for p in pieces(losses) if p.low <= most and p.high >= least]
    return [_slice(losses, moments, y, g, piece) for piece in reached]


def _slice(
    losses: Losses, moments: Moments, y: int, g: Additive, piece: Piece
) -> Region:
    low, high, coefficients = piece
    inequalities = []
    if np.isfinite(low):
        inequalities.append(g.minus(low))
    if np.isfinite(high):
        inequalities.append(g.minus(high).times(-1))
    both = len(inequalities) == 2
    return Region(
        y,
        inequalities,
        [moments.polynomial(g, each) for each in coefficients],
        [moments.product(*inequalities)] if both else [],
        [moments.square(g.minus(c)) for c in _centres(losses, low, high)],
    )


def _centres(losses: Losses, low: float, high: float) -> Floats:
    """Where squares help: near the slice, and where the closed form has its zero."""
    unit = 1.0
    if losses.rule == "map" and losses.scale > 0:
        unit = 1 / losses.scale
    every = np.union1d(unit * np.array(_CENTRES), [low, high, 1.0])
    near = (every >= low) & (every <= high) & np.isfinite(every)
    return np.asarray(every[near | (every == 1.0)])


# ---- more classes


def _answers(losses: Losses, moments: Moments, y: int) -> list[Region]:
    """Regions by the class that is answered; of y's own, only where it surely is."""
    k = int(losses.own[y])
    t = [Additive(losses.points[:, j], losses.base[j]) for j in range(len(losses.base))]
    found = []
    for j, f in enumerate(t):
        least = losses.tie if j == k else -losses.tie
        leads = [f.less(h).minus(least) for h in t if h is not f]
        products = [moments.product(a, b) for a, b in combinations(leads, 2)]
        if losses.rule == "map":
            one = Additive(np.zeros_like(t[0].points), float(j != k))
            above, squares = [moments.square(one)], [_closed(losses, moments, k, j)]
        else:
            one = Additive(np.zeros_like(t[0].points), 1.0)
            away = [moments.square(h.minus(float(h is t[k]))) for h in t]
            tie = 4 * losses.tie * moments.square(one)  # as in the closed form
            above, squares = [moments.square(one), np.sum([*away, tie], axis=0)], []
        squares += [moments.square(lead.minus(c)) for lead in leads for c in (0.0, 1.0)]
        found.append(Region(y, leads, above, products, squares))
    return found


def _closed(losses: Losses, moments: Moments, k: int, j: int) -> Floats:
    """Weights of ‖τu − v‖², v being where map's closed form is least in the region.

    ``2‖τu − (e_k − 1/K)‖²`` is itself, or where j is answered, 1 plus twice this plus
    2τ(u_j − u_k).
    """
    U, beta = losses.centred
    v = np.full(len(beta), -1 / len(beta))
    v[k] += 0.5
    v[j] += 0.5
    u = [
        Additive(losses.scale * U[:, c], losses.scale * beta[c]) for c in range(len(v))
    ]
    return np.asarray(
        sum(moments.square(f.minus(c)) for f, c in zip(u, v, strict=True))
    )
