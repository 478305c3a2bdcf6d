r"""Compute the losses of a rule at outcomes, and functions above them.

The rule of a scorecard answers class y at x with probability r_y(x); its loss there is
ℓ_y(x) = 1 − r_y(x). A function λ_y ≥ ℓ_y made of functions of pairs of columns bounds
the error under every distribution with the same pairs. The closed forms are such
choices, since they are quadratic in the estimates t(x): ``‖t − e_y‖²`` for the rules
renyi and sharp, ``2‖τ(t − t̄) − (e_y − 1/K)‖²`` with the best τ for map.

For two classes the loss depends only on the margin g = t_y − t_other. For map it is 1
or 0 by the sign of g, for renyi ``½ − g/(1 + g²)``. For sharp it is ``(1 − g)²/2`` for
g < 0, until it reaches 1, and ``½ − g − g²/2`` for g > 0, until it reaches 0.

*Rounding.* Adding a number to all points of one feature and subtracting it from another
changes no score, but large numbers hide the small ones. Each feature's mean is
therefore moved to the base, in sums that are rounded once. `predict` adds the original
points, and its margins are off by up to ε, a few units in the last place of
Σ_i max|points_i|. A margin of at most ε may have any sign there, so it is a tie. The
losses of the randomised rules are those of the exact scores. They change at most by a
factor times the change of the scores, so bounds on them are widened by `drift`.

*Pieces.* Programs need lines and quadratics. Mixed-integer programs
(`renyi.robust.pairwise_min`) use slices of the margin's range, with a line above the
loss on each. The program of polynomial size (`renyi.robust.pairwise_program`) uses
regions. A region of class y is a set of outcomes with some additive functions h ≥ 0,
and with quadratics of the estimates that are above ℓ_y there. For two classes, map has
two slices and sharp three, on which the loss is the least of one or two quadratics. The
loss of renyi is interpolated on each slice and raised by the most that it may lack. For
more classes there is one region for each class that may be answered, with ‖t − e_y‖²
and 1 above the losses of the randomised rules. Regions of an error include the tie.

An additive function f(x) = constant + Σ_i points_i(x_i) is an array here: its points,
then its constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi import rules
from renyi.counting.onehot import centred, offsets
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity, Classes, Floats, Layout, Outcomes
from renyi.scorecard import Scorecard
from renyi.solvers.map_bound import MapBound, map_bound

KINK = float(np.sqrt(2) - 1)  # margin at which sharp becomes deterministic
_TIE = 1e-12
_EDGES = (-0.5, 0.0, 0.4, 0.75)  # ends of renyi's slices with quadratics above the loss
# Centres c of the squares (g − c)², in units of `Losses.target`.
_CENTRES = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
_REACH = 1e-6  # room beyond the least and the largest margin
_NARROW = 1e-4  # narrower slices are not split


class ScoreLoss(NamedTuple):
    """A loss ``value(base + Σ_i points_i(x_i))``; `value` may overwrite the scores."""

    points: Floats
    base: Floats
    value: Callable[[Floats], Floats]


class Slice(NamedTuple):
    """On low ≤ g ≤ high the loss is at most height + slope·g."""

    low: float
    high: float
    height: float
    slope: float


SlicedScore = tuple[Floats, list[Slice]]  # an additive function, slices of its range


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses ℓ_y(x) = 1 − r_y(x) of a scorecard's rule, and the set C."""

    ambiguity: Ambiguity
    points: Floats  # (categories, the model's classes), each feature's of mean 0
    base: Floats  # estimates before any points
    own: NDArray[np.intp]  # place of each class of C among the model's
    rule: str
    rounding: float = 0.0  # rounding error of a margin of `predict`

    @classmethod
    def of(cls, card: Scorecard, m: Marginals, rule: str) -> Losses:
        """Return the losses of a scorecard, matched to marginals by name."""
        card = card.of_rule(rule)
        match = card.match(m)
        ambiguity = Ambiguity.of(match.marginals)
        start = match.intercept + 1 / card.n_classes
        F = match.marginals.F
        points, base = centred(match.points, start, F.sum(axis=1), ambiguity.sizes)
        return cls(ambiguity, points, base, match.classes, rule, 2 * card.score_error)

    @property
    def binary(self) -> bool:
        """Whether the model has two classes, so that one margin is enough."""
        return len(self.base) == 2

    @cached_property
    def tie(self) -> float:
        """Largest margin that counts as a tie, as rounding may change its sign."""
        starts = offsets(self.ambiguity.sizes)[:-1]
        reach = np.maximum.reduceat(np.abs(self.points), starts).sum(axis=0)
        return max(_TIE * (1 + float(reach.max())), self.rounding)

    @property
    def drift(self) -> float:
        """Largest change of a loss by rounding; for map, `tie` accounts for it.

        If estimates are off by ε in each of K classes, they are off by K^½ε on the
        simplex. A probability of renyi changes at most 4K^½ times as fast, of sharp 4K.
        """
        return 0.0 if self.rule == "map" else 8 * len(self.base) ** 2 * self.rounding

    def margin(self, y: int, rival: int) -> Floats:
        """Return the margin t_y − t_rival: its points, then its constant."""
        points = self.points[:, y] - self.points[:, rival]
        return np.append(points, self.base[y] - self.base[rival])

    def of_margin(self, g: Floats) -> Floats:
        """Return the losses of a class with margin g of two; overwrite g."""
        if self.rule == "map":
            return np.asarray(g <= self.tie, np.float64)
        np.clip(g, -1, 1, out=g)  # t on the simplex: t_y = (1 + g)/2
        if self.rule == "renyi":
            return (1 - g) ** 2 / (2 + 2 * g * g)
        rarer = np.maximum(0, 0.5 - np.abs(g) - g * g / 2)
        return np.where(g > 0, rarer, 1 - rarer)

    def of_estimates(self, t: Floats, y: int) -> Floats:
        """Return the losses of class y of C at t (outcomes, the model's classes)."""
        k = self.own[y]
        if self.binary:
            return self.of_margin(t[:, k] - t[:, 1 - k])
        rivals = np.delete(t, k, axis=1).max(axis=1)
        leads = t[:, k] - rivals > self.tie
        if self.rule == "map":
            return np.asarray(~leads, np.float64)
        t = rules.project(t)
        q = (t**2).sum(axis=1)
        if self.rule == "renyi":
            return np.asarray(1 - t[:, k] ** 2 / q)
        sure = np.maximum(0, 2 * t - q[:, None])
        # The rest of sharp goes to the largest estimate; in a tie, to none.
        return np.asarray(1 - sure[:, k] - leads * (1 - sure.sum(axis=1)))

    def at(self, X: Outcomes) -> Floats:
        """Return the losses at outcomes: (outcomes, classes of C)."""
        t = self.base + self.points[self.ambiguity.places(X)].sum(axis=1)
        classes = range(self.ambiguity.n_classes)
        return np.stack([self.of_estimates(t, y) for y in classes], axis=1)

    @property
    def sets(self) -> list[Classes]:
        """Each class by itself."""
        return [(y,) for y in range(self.ambiguity.n_classes)]

    def right(self, X: Outcomes, S: Classes) -> Floats:
        """Return the losses of a class at outcomes."""
        return np.asarray(self.at(X)[:, S[0]])

    def score_loss(self, S: Classes) -> ScoreLoss:
        """Return the loss of a class as a function of scores, or of the margin."""
        y = S[0]
        k = int(self.own[S[0]])
        if self.binary:
            g = self.margin(k, 1 - k)
            return ScoreLoss(g[:-1, None], g[-1:], lambda s: self.of_margin(s[..., 0]))

        def of_scores(t: Floats) -> Floats:
            flat = self.of_estimates(t.reshape(-1, t.shape[-1]), y)
            return flat.reshape(t.shape[:-1])

        return ScoreLoss(self.points, self.base, of_scores)

    def sliced_scores(self, S: Classes) -> list[SlicedScore]:
        """Return the margins over every rival, with slices and lines above the loss."""
        k = int(self.own[S[0]])
        rivals = np.delete(np.arange(len(self.base)), k).tolist()
        margins = (self.margin(k, rival) for rival in rivals)
        return [(g, self.slices(*self.reach(g), self._edges[S])) for g in margins]

    @cached_property
    def _edges(self) -> dict[Classes, Floats]:
        """Ends of the slices of each class, which `refine` splits."""
        first = np.unique([*np.linspace(-1, 1, 9), -KINK, KINK])
        return dict.fromkeys(self.sets, first)

    def reach(self, g: Floats) -> tuple[float, float]:
        """Return the least and largest value of an additive function, with room."""
        starts = offsets(self.ambiguity.sizes)[:-1]
        least = np.minimum.reduceat(g[:-1], starts).sum() + g[-1]
        most = np.maximum.reduceat(g[:-1], starts).sum() + g[-1]
        return float(least) - _REACH, float(most) + _REACH

    def slices(self, low: float, high: float, edges: Floats) -> list[Slice]:
        """Return slices of the margin's range, with a line above the loss on each."""
        if self.rule == "map":
            error = Slice(min(low, self.tie), self.tie, 1.0, 0.0)
            return [error, Slice(self.tie, max(high, self.tie), 0.0, 0.0)]
        if not self.binary:  # 1 is above every loss
            return [Slice(low, high, 1.0, 0.0)]
        ends = [low, *edges[(edges > low) & (edges < high)], high]
        return [self._line(a, b) for a, b in pairwise(ends)]

    def _line(self, low: float, high: float) -> Slice:
        """Return a line above the loss: the chord, raised according to a fine grid.

        The second derivative is at most 2 inside a slice. So between two neighbours of
        the grid, δ apart, the loss exceeds its values at both by at most 2δ²/8. Beyond
        ±1 the loss is constant.
        """
        if low >= 1 or high <= -1:
            return Slice(low, high, float(self.of_margin(np.array([low]))[0]), 0.0)
        fine = np.linspace(low, high, 2001)
        loss = self.of_margin(fine.copy())
        slope = float(loss[-1] - loss[0]) / (high - low)
        height = float((loss - slope * fine).max()) + (fine[1] - fine[0]) ** 2 / 4
        return Slice(low, high, height, slope)

    def refine(self, X: Outcomes, S: Classes) -> bool:
        """Split slices whose line is too high at outcomes; return whether any was."""
        if self.rule == "map" or not self.binary or not len(X):
            return False
        k = int(self.own[S[0]])
        g = self.margin(k, 1 - k)
        at = np.clip(g[self.ambiguity.places(X)].sum(axis=1) + g[-1], -1, 1)
        edges = self._edges[S]
        middles = (edges[1:] + edges[:-1]) / 2
        halves = np.diff(edges) / 2
        inside = np.abs(at[:, None] - middles) <= halves + _NARROW
        split = inside.any(axis=0) & (halves > _NARROW)
        self._edges[S] = np.union1d(edges, middles[split])
        return bool(split.any())

    def mended(
        self, multiplier: Floats, bounds: dict[Classes, float]
    ) -> tuple[float, Floats]:
        """Lower each λ_y by its excess: ``λ_y − v_y``."""
        priors = self.ambiguity.priors
        lows = np.array([bounds[S] for S in self.sets])
        if not np.isfinite(lows).all():
            return np.inf, multiplier
        lows = np.where(priors > 0, lows, np.minimum(lows, 0.0))
        value = float(self.ambiguity.b @ multiplier - priors @ lows)
        return value, self.ambiguity.shifted(multiplier, -lows)

    def error(self, p: Floats, X: Outcomes) -> float:
        """Return the error of the rule under a distribution."""
        return float((p * self.at(X)).sum()) if len(X) else 0.0

    def closed_form(self) -> Floats:
        """Return the multiplier of the closed form's quadratic functions, or of 1.

        ``‖t‖² − 2t_y + 1`` for renyi and sharp, ``2‖βu − σ_y(e_y − 1/K)‖²`` with
        u = t − t̄ for map, or 1 more if σ_y is 0 (`renyi.solvers.map_bound`). If class
        y leads by at most a tie δ, the latter is at least (σ_y − βδ)², so it is raised
        by 2βσ_yδ; the former by 4δ.
        """
        scores = self.centred if self.rule == "map" else (self.points, self.base)
        square, lead, one = self.ambiguity.quadratics(*scores, self.own)
        if self.rule != "map":
            multiplier = square - 2 * lead + (1 + 4 * self.tie) * one
        else:
            beta = self.scales.beta
            sigma = self.scales.sigma[self.own]
            for _, leads in self.ambiguity.by_class(lead):
                leads *= sigma
            multiplier = 2 * beta**2 * square - 4 * beta * lead
            kappa = 1 - 1 / len(self.base)
            constants = 2 * sigma**2 * kappa + 2 * beta * sigma * self.tie
            constants += sigma == 0
            multiplier = self.ambiguity.shifted(multiplier, constants)
        return multiplier if self.ambiguity.b @ multiplier < 1 else one

    def target(self, k: int) -> float:
        """Return the margin at which the closed form of the k-th class is least."""
        if self.rule != "map" or self.scales.beta <= 0:
            return 1.0
        return float(self.scales.sigma[k] or 1.0) / self.scales.beta

    @property
    def centred(self) -> tuple[Floats, Floats]:
        """Points and constants of u = t − t̄."""
        mean = self.points.mean(axis=1, keepdims=True)
        return self.points - mean, self.base - self.base.mean()

    @cached_property
    def scales(self) -> MapBound:
        """β and σ of map's closed form."""
        square, lead, _ = self.ambiguity.quadratics(*self.centred, self.own)
        leads = np.zeros(len(self.base))
        for p, part in self.ambiguity.by_class(lead):
            leads[self.own] += (p * part).sum(axis=0)
        priors = np.zeros(len(self.base))
        priors[self.own] = self.ambiguity.priors
        return map_bound(float(self.ambiguity.b @ square), leads, priors)


# ---- regions on which quadratics lie above the loss


class Region(NamedTuple):
    """Outcomes of a class on which additive functions are not negative.

    The fields are weights of the cells of pairs and columns. In the region `majorants`
    are above the loss, and `products` of the inequalities are not negative. `squares`
    are not negative anywhere.
    """

    y: int
    inequalities: list[Floats]
    majorants: list[Floats]
    products: list[Floats]
    squares: list[Floats]


class Moments:
    """Expectations of products of additive functions, from tables of pairs."""

    def __init__(self, layout: Layout) -> None:
        starts = offsets(layout.sizes)
        nothing = np.empty(0, np.int64)
        first = [nothing]  # places of each pair cell's categories
        second = [nothing]
        for i, j in layout.pairs:
            a, b = np.indices((layout.sizes[i], layout.sizes[j]))
            first.append(starts[i] + a.ravel())
            second.append(starts[j] + b.ravel())
        self.layout = layout
        self.first = np.concatenate(first)
        self.second = np.concatenate(second)
        self.one = np.append(np.zeros(int(starts[-1])), 1.0)

    def product(self, f: Floats, h: Floats) -> Floats:
        """Return the weights of the cells whose sum is E[f h]."""
        u = f[:-1]
        v = h[:-1]
        pairs = u[self.first] * v[self.second] + u[self.second] * v[self.first]
        singles = f[-1] * v + h[-1] * u + u * v
        singles[: self.layout.sizes[0]] += f[-1] * h[-1]
        return np.concatenate([pairs, singles])

    def square(self, f: Floats, c: float = 0.0) -> Floats:
        """Return the weights of (f − c)²."""
        return self.product(f - c * self.one, f - c * self.one)

    def polynomial(self, g: Floats, coefficients: Floats) -> Floats:
        """Return the weights of a + b g + c g²."""
        a, b, c = coefficients
        line = self.product(self.one, b * g + a * self.one)
        return np.asarray(line + c * self.square(g))

    def with_indicators(self, h: Floats) -> sparse.csr_array:
        """Return the weights of E[h 1(X_i = k)], one row for each category."""
        points = h[:-1]
        D = len(h) - 1
        P = len(self.first)
        cells = np.arange(P)
        rows = np.concatenate([self.first, self.second, np.arange(D)])
        columns = np.concatenate([cells, cells, P + np.arange(D)])
        values = [points[self.second], points[self.first], h[-1] + points]
        entries = np.concatenate(values), (rows, columns)
        return sparse.csr_array(entries, shape=(D, P + D))


def cell_entries(losses: Losses) -> int:
    """Return the most entries of the program for each cell, over all regions.

    Each has: consistency, tables, inequalities with indicators, and single rows.
    """
    K = losses.ambiguity.n_classes
    rivals = len(losses.base) - 1
    if losses.binary:
        return K * len(pieces(losses)) * (3 + 4 + 3 + len(_CENTRES) + 3)
    rows = 2 * rivals + rivals * (rivals - 1) // 2 + 3 + 2 * rivals
    return K * (rivals + 1) * (3 + rows)


def regions(losses: Losses, moments: Moments) -> list[Region]:
    """Return regions that together cover all outcomes of every class."""
    of_class = _slices if losses.binary else _answers
    classes = range(losses.ambiguity.n_classes)
    return [region for y in classes for region in of_class(losses, moments, y)]


class Piece(NamedTuple):
    """On low ≤ g ≤ high the loss is at most each of some a + b g + c g²."""

    low: float
    high: float
    majorants: list[Floats]


def pieces(losses: Losses) -> list[Piece]:
    """Return the quadratics of the margin above the loss, from the lowest margin on."""
    one = np.array([1.0, 0, 0])  # half: (1 − g)²/2
    half = np.array([0.5, -1.0, 0.5])
    if losses.rule == "map":
        tie = losses.tie
        return [Piece(-np.inf, tie, [one]), Piece(tie, np.inf, [0 * one])]
    if losses.rule == "sharp":
        small = np.array([0.5, -1.0, -0.5])
        return [
            Piece(-np.inf, 0.0, [one, half]),
            Piece(0.0, KINK, [small, half]),
            Piece(KINK, np.inf, [0 * one]),
        ]
    ends = [-np.inf, *_EDGES, np.inf]
    return [Piece(*span, _above_renyi(losses, *span)) for span in pairwise(ends)]


def _above_renyi(losses: Losses, low: float, high: float) -> list[Floats]:
    """Return quadratics above ``(1 − g)²/(2 + 2g²)``, by bounds on 1/(2 + 2g²).

    Between finite ends, the raised interpolation is one more. Between points of the
    fine grid, δ apart, a function with a second derivative of at most 5 exceeds its
    values there by at most 5δ²/8.
    """
    least = max(low, -high, 0.0) if low * high > 0 else 0.0
    majorants = [np.array([1.0, -2.0, 1.0]) / (2 + 2 * least**2)]
    if low == -np.inf:
        majorants.append(np.array([1.0, 0, 0]))
    if np.isfinite(low) and np.isfinite(high):
        turns = np.cos(np.pi * (np.arange(3) + 0.5) / 3)
        nodes = (low + high) / 2 + (high - low) / 2 * turns
        values = losses.of_margin(nodes.copy())
        own = np.array(np.linalg.solve(np.vander(nodes, 3, True), values), np.float64)
        fine = np.linspace(low, high, 2001)
        lack = losses.of_margin(fine.copy()) - np.vander(fine, 3, True) @ own
        own[0] += lack.max() + 5 * (fine[1] - fine[0]) ** 2 / 8
        majorants.append(own)
    return majorants


def _slices(losses: Losses, moments: Moments, y: int) -> list[Region]:
    """Return regions by the margin; squares have centres in them and at margin 1."""
    k = int(losses.own[y])
    regions = []
    g = losses.margin(k, 1 - k)
    least, most = losses.reach(g)
    unit = losses.target(k)
    for low, high, coefficients in pieces(losses):
        if low > most or high < least:
            continue
        ends = [g - low * moments.one] if np.isfinite(low) else []
        ends += [high * moments.one - g] if np.isfinite(high) else []
        centres = np.union1d(unit * np.array(_CENTRES), [low, high, 1.0])
        near = (centres >= low) & (centres <= high) & np.isfinite(centres)
        majorants = [moments.polynomial(g, each) for each in coefficients]
        products = [moments.product(*ends)] if len(ends) == 2 else []
        squares = [moments.square(g, c) for c in centres[near | (centres == 1.0)]]
        regions.append(Region(y, ends, majorants, products, squares))
    return regions


def _answers(losses: Losses, moments: Moments, y: int) -> list[Region]:
    """Return regions by the answered class; for y, only where it is certain."""
    k = int(losses.own[y])
    one = moments.one
    regions = []
    t = list(np.vstack([losses.points, losses.base]).T)
    for j, f in enumerate(t):
        least = losses.tie if j == k else -losses.tie
        leads = [f - h - least * one for h in t if h is not f]
        products = [moments.product(a, b) for a, b in combinations(leads, 2)]
        if losses.rule == "map":
            above = [moments.square(float(j != k) * one)]
            squares = [_closed(losses, moments, k, j)]
        else:
            away = [moments.square(h, float(h is t[k])) for h in t]
            tie = 4 * losses.tie * moments.square(one)  # as in the closed form
            above = [moments.square(one), np.sum([*away, tie], axis=0)]
            squares = []
        squares += [moments.square(lead, c) for lead in leads for c in (0.0, 1.0)]
        regions.append(Region(y, leads, above, products, squares))
    return regions


def _closed(losses: Losses, moments: Moments, k: int, j: int) -> Floats:
    """Return weights of ‖βu − σv‖²; map's closed form is least in the region at σv.

    ``2‖βu − σ(e_k − 1/K)‖²`` is the closed form; where j is answered, it is σ² plus
    twice this plus 2βσ(u_j − u_k).
    """
    U, beta = losses.centred
    v = np.full(len(beta), -1 / len(beta))
    v[k] += 0.5
    v[j] += 0.5
    u = losses.scales.beta * np.vstack([U, beta])
    v *= losses.scales.sigma[k]
    each = (moments.square(f, c) for f, c in zip(u.T, v, strict=True))
    return np.asarray(sum(each))
