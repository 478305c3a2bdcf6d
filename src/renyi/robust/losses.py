r"""Losses: how often a rule errs at an outcome, and the quadratics above them.

The rule of a scorecard answers class y at x with probability r_y(x); its loss there is
ℓ_y(x) = 1 − r_y(x). A function λ_y ≥ ℓ_y made of functions of pairs of columns bounds
the error under every distribution with the same pairs. The closed forms are such
choices, since they are quadratic in the estimates t(x): ``‖t − e_y‖²`` for the rules
renyi and sharp, ``2‖τ(t − t̄) − (e_y − 1/K)‖²`` with the best τ for map.

Of two classes the loss depends on the margin g = t_y − t_other alone: 1 or 0 by its
sign for map, ``½ − g/(1 + g²)`` for renyi, and for sharp the quadratics ``(1 − g)²/2``
and ``½ − g − g²/2`` on either side of 0 until they reach 1 and 0.

*Rounding.* Adding a number to all points of one feature and taking it from another's
changes no score, but large numbers drown the small ones in them. Each feature's mean is
therefore moved to the base, in sums that are rounded once. `predict` adds the points as
they stand, and its margins are off by up to ε, a few units in the last place of
Σ_i max|points_i|. A margin of no more than ε may have any sign there, so it is a tie.
The losses of the randomised rules are those of the exact scores; they move no faster
than the scores, but for a small factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.counting.onehot import offsets
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity
from renyi.scorecard import Scorecard, centred

Floats = NDArray[np.float64]
Outcomes = NDArray[np.int64]

# Margin at which sharp turns deterministic.
KINK = float(np.sqrt(2) - 1)
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses ℓ_y(x) = 1 − r_y(x) of a scorecard's rule, and the set C.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X[["crime", "immigration"]], y)
    >>> losses = Losses.of(clf.scorecard_, clf.marginals_, "map")
    >>> losses.at(np.array([[0, 0], [1, 1]]))
    array([[0., 1.],
           [1., 0.]])
    """

    ambiguity: Ambiguity
    points: Floats  # (categories, the model's classes), each feature's of mean 0
    base: Floats  # estimates before any points
    own: NDArray[np.intp]  # place of each class of C among the model's
    rule: str
    rounding: float = 0.0  # what a margin of `predict` may be off by

    @classmethod
    def of(cls, card: Scorecard, m: Marginals, rule: str) -> Losses:
        """Match the scorecard with the marginals, by names and labels."""
        match = card.match(m)
        ambiguity = Ambiguity.of(match.marginals)
        points, base = centred(
            match.points,
            match.intercept + 1 / card.n_classes,
            match.marginals.F.sum(axis=1),
            ambiguity.sizes,
        )
        return cls(ambiguity, points, base, match.classes, rule, 2 * card.score_error)

    @property
    def binary(self) -> bool:
        """Whether the model has two classes, so that one margin says it all."""
        return len(self.base) == 2

    @property
    def tie(self) -> float:
        """Margin that counts as a tie: rounding may have made it of 0."""
        reach = float(_largest(self.points, self.ambiguity).max())
        return max(_TIE * (1 + reach), self.rounding)

    def margin(self, y: int, rival: int) -> tuple[Floats, float]:
        """Points and constant of the margin t_y − t_rival, the model's classes."""
        return (
            self.points[:, y] - self.points[:, rival],
            float(self.base[y] - self.base[rival]),
        )

    def of_margin(self, g: Floats) -> Floats:
        """Losses of a class that leads the only other one by g; g is overwritten."""
        if self.rule == "map":
            return np.asarray(g <= self.tie, np.float64)
        np.clip(g, -1, 1, out=g)  # t on the simplex: t_y = (1 + g)/2
        if self.rule == "renyi":
            return (1 - g) ** 2 / (2 + 2 * g * g)
        rarer = np.maximum(0, 0.5 - np.abs(g) - g * g / 2)
        return np.where(g > 0, rarer, 1 - rarer)

    def of_estimates(self, t: Floats, y: int) -> Floats:
        """Losses of class y of C at estimates t: (outcomes, the model's classes)."""
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
        # What sharp leaves over goes to the largest, hence to nobody in a tie.
        return np.asarray(1 - sure[:, k] - leads * (1 - sure.sum(axis=1)))

    def at(self, X: Outcomes) -> Floats:
        """Losses at outcomes: (outcomes, classes of C)."""
        t = self.base + self.points[X + offsets(self.ambiguity.sizes)[:-1]].sum(axis=1)
        classes = range(self.ambiguity.n_classes)
        return np.stack([self.of_estimates(t, y) for y in classes], axis=1)

    def closed_form(self) -> Floats:
        """Multiplier of the quadratic functions behind the closed form, or of 1.

        ``‖t‖² − 2t_y + 1`` for renyi and sharp, ``2(τ²‖u‖² − 2τu_y + 1 − 1/K)`` with
        u = t − t̄ and the best τ for map. Where class y leads by no more than a tie δ,
        the latter is at least (1 − τδ)², so it is raised by 2τδ; the former by 4δ.
        """
        b = self.ambiguity.b
        if self.rule != "map":
            square, lead, one = self._moments(self.points, self.base)
            found = square - 2 * lead + (1 + 4 * self.tie) * one
        else:
            square, lead, one = self._moments(*self.centred)
            tau = self.scale
            found = 2 * (tau**2 * square - 2 * tau * lead)
            found += (2 * (1 - 1 / len(self.base)) + 2 * tau * self.tie) * one
        return found if b @ found < 1 else one

    @property
    def centred(self) -> tuple[Floats, Floats]:
        """Points and constants of u = t − t̄."""
        mean = self.points.mean(axis=1, keepdims=True)
        return self.points - mean, self.base - self.base.mean()

    @cached_property
    def scale(self) -> float:
        """The best τ of map's closed form, ``E[u_Y]₊ / E‖u‖²``."""
        square, lead, _ = self._moments(*self.centred)
        b = self.ambiguity.b
        spread = float(b @ square)
        return max(0.0, float(b @ lead)) / spread if spread > 0 else 0.0

    def _moments(self, U: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
        """Multipliers of ‖u‖², u_y and 1 for u = beta + Σ_i U_i(x_i)."""
        amb, starts = self.ambiguity, offsets(self.ambiguity.sizes)
        spans = [U[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
        square, lead, one = (np.zeros(len(amb.b)) for _ in range(3))
        for t, table in enumerate(amb.tables):
            cells = slice(int(amb.starts[t]), int(amb.starts[t + 1]))
            parts = [spans[i] for i in table.features]
            if len(parts) == 2:
                value = 2 * parts[0] @ parts[1].T
                shown = value[..., None] if table.with_target else value
                square[cells] = np.broadcast_to(
                    shown, table.probabilities.shape
                ).ravel()
                continue
            first = float(t == 0)  # the constants go to the first table
            value = (parts[0] ** 2).sum(axis=1) + 2 * parts[0] @ beta
            value = np.repeat(value + first * (beta @ beta), amb.n_classes)
            square[cells], one[cells] = value, first
            lead[cells] = (parts[0] + first * beta)[:, self.own].ravel()
        return square, lead, one


def _largest(points: Floats, ambiguity: Ambiguity) -> Floats:
    """Sum over the features of their largest absolute points, class by class."""
    starts = offsets(ambiguity.sizes)[:-1]
    return np.asarray(np.maximum.reduceat(np.abs(points), starts).sum(axis=0))
