r"""What a path of penalties is computed from: counts, or rows.

Both answer the same questions and give the same solutions. With D categories and n rows
of d features, a pass over all features costs D² from counts, and some n·d of slower
steps from rows: the shape decides. The steps of all that is solved from the same rows,
or from parts of them, are counted together (`renyi.solvers.l1inf_descent.Gear`).

The risk of any points on any rows, the ones they were learned from or others, is

.. math:: \gamma(z) = w \, E \lVert T - b - z^T W \rVert^2

with T and w of `renyi.solvers.class_coding`. From counts it takes the second moments of
W and T alone.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import label_sums, offsets
from renyi.counting.pair_counts import pair_counts
from renyi.marginals.marginals import Marginals
from renyi.solvers import l1inf
from renyi.solvers.class_coding import Coding, coded_moments, coded_rows
from renyi.solvers.l1inf import LassoPath
from renyi.solvers.l1inf_descent import Gear, feature_norms
from renyi.solvers.ridge import Moments, moments, weight_of
from renyi.solvers.screening import places_of

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# How many entries of Q are looked through in the time of one cell of a row. Measured:
# adult (D = 7,587, d = 91, n = 34,189) takes 25 s from rows and 104 s from counts,
# kr-vs-kp (3,066, 630, 2,237) 1.0 s and 0.3 s.
_ROW_STEP = 12
_DUST = 1e-12


class Material(Protocol):
    """What a path can be computed from."""

    sizes: Places
    n_classes: int
    n: float

    def path(self, lambdas: ArrayLike | None = None, **options: Any) -> LassoPath:
        """Solve for a sequence of penalties."""

    def moments(self, features: Places) -> tuple[Moments, Floats]:
        """Return the normal equations of some features, and the class probabilities."""

    def probabilities(self) -> Floats:
        """Return the probability of every category."""

    def norms(self, z: Floats, intercept: Floats) -> Floats:
        """Return ‖E[W_i (T − s)]‖₁ of every feature, for one solution."""

    def risks(self, found: LassoPath) -> Floats:
        """Return γ of every solution of a path, which may be of other rows."""


def columns_of(found: LassoPath) -> tuple[Floats, Floats]:
    """Return points (L, D, C) and intercepts (L, C), C = 1 for two classes.

    >>> found = l1inf.path(np.diag([0.5, 0.5]), [0.2, -0.2], [2], [0.1])
    >>> columns_of(found)[0].shape
    (1, 2, 1)
    """
    L, D = found.z.shape[:2]
    return found.z.reshape(L, D, -1), found.intercepts.reshape(L, -1)


class FromCounts:
    """Counts of pairs.

    Parameters
    ----------
    Q : ndarray of shape (D, D)
        Probabilities of pairs of categories.
    F : ndarray of shape (D, K)
        Probabilities of category and class.
    priors : ndarray of shape (K,)
        Class probabilities.
    sizes : ndarray of d ints
        Number of categories of each feature.
    n : float
        Number of rows.
    gear : Gear, optional
        Of the task that this is a part of.

    Examples
    --------
    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> found = FromCounts.of(m).path([0.3])
    >>> points = 0.3 * np.abs(found.z).max()  # of the only feature
    >>> np.allclose(FromCounts.of(m).risks(found) + points, found.objectives)
    True
    """

    def __init__(
        self,
        Q: Floats,
        F: Floats,
        priors: Floats,
        sizes: Places,
        n: float,
        gear: Gear | None = None,
    ) -> None:
        self.Q, self.F, self.priors, self.n = Q, F, priors, n
        self.sizes, self.n_classes = np.asarray(sizes, np.int64), F.shape[1]
        self.gear = gear or Gear()

    @classmethod
    def of(cls, m: Marginals) -> FromCounts:
        """Return the material of marginals."""
        return cls(m.Q, m.F, m.class_probabilities, m.encoder.columns.sizes, m.n)

    def without(self, other: FromCounts) -> FromCounts:
        """Return the counts of the other rows: counts add up."""
        left = self.n - other.n
        pairs = ((self.Q, other.Q), (self.F, other.F), (self.priors, other.priors))
        Q, F, priors = ((self.n * a - other.n * b) / left for a, b in pairs)
        # What is left of categories without rows is rounding.
        Q[np.abs(Q) < _DUST] = 0
        return FromCounts(Q, F, priors, self.sizes, left, self.gear)

    def path(self, lambdas: ArrayLike | None = None, **options: Any) -> LassoPath:
        """Solve for a sequence of penalties."""
        target, gear = self._target(), self.gear
        return l1inf.path(self.Q, target, self.sizes, lambdas, gear=gear, **options)

    def _target(self) -> Floats:
        F = self.F
        return F[:, 1] - F[:, 0] if self.n_classes == 2 else F

    def moments(self, features: Places) -> tuple[Moments, Floats]:
        """Return the normal equations of some features, and the class probabilities."""
        own = places_of(features, self.sizes)
        Q, F = self.Q[np.ix_(own, own)], self.F[own]
        return moments(Q, F, self.priors, True), self.priors

    def probabilities(self) -> Floats:
        """Return the probability of every category."""
        return np.diag(self.Q)

    def _coding(self) -> Coding:
        return coded_moments(np.diag(self.Q), self._target(), self.sizes)

    def norms(self, z: Floats, intercept: Floats) -> Floats:
        """Return ‖E[W_i (T − s)]‖₁ of every feature, for one solution."""
        held = np.flatnonzero(z.any(axis=1))
        fitted = self.Q[:, held] @ z[held] + np.outer(np.diag(self.Q), intercept)
        return feature_norms(self._coding().R - fitted.T, offsets(self.sizes))

    def risks(self, found: LassoPath) -> Floats:
        """Return γ of every solution of a path, which may be of other rows."""
        R, mean, square, weight = self._coding()
        mu, total = np.diag(self.Q), []
        for z, b in zip(*columns_of(found), strict=True):
            held = np.flatnonzero(z.any(axis=1))
            z, Q = z[held], self.Q[np.ix_(held, held)]
            own = np.vdot(z, Q @ z) + 2 * b @ (mu[held] @ z) + b @ b
            total.append(square - 2 * (np.vdot(R[:, held].T, z) + b @ mean) + own)
        return weight * np.array(total)


class FromRows:
    """Encoded rows.

    Parameters
    ----------
    codes : ndarray of shape (d, n)
        Codes of the features.
    sizes : ndarray of d ints
        Number of categories of each feature.
    y : ndarray of shape (n,)
        Codes of the classes.
    n_classes : int
        Number of classes.
    mass : ndarray of shape (n,), optional
        Weights of the rows, positive.
    gear : Gear, optional
        Of the task that this is a part of.

    Examples
    --------
    >>> codes, y = np.array([[0, 0, 1, 1]]), np.array([0, 0, 0, 1])
    >>> rows = FromRows(codes, np.array([2]), y, 2)
    >>> rows.risks(rows.path([0.01])).round(4)
    array([0.125])
    """

    def __init__(
        self,
        codes: NDArray[Any],
        sizes: NDArray[Any],
        y: NDArray[Any],
        n_classes: int,
        mass: Floats | None = None,
        gear: Gear | None = None,
    ) -> None:
        self.gear = gear or Gear()
        self.codes, self.y, self.n_classes = codes, y, n_classes
        self.sizes = np.asarray(sizes, np.int64)
        self.mass = mass
        self.n = float(len(y) if mass is None else mass.sum())

    def path(self, lambdas: ArrayLike | None = None, **options: Any) -> LassoPath:
        """Solve for a sequence of penalties."""
        return l1inf.path_rows(
            self.codes, self.sizes, self.y, lambdas, n_classes=self.n_classes,
            weights=self.mass, gear=self.gear, **options,
        )  # fmt: skip

    def part(self, mass: Floats) -> FromRows:
        """Return the rows whose weight is not zero, with these weights."""
        held = np.flatnonzero(mass)
        left = mass[held]
        weights = None if (left == 1).all() else left
        codes, y = self.codes[:, held], self.y[held]
        return FromRows(codes, self.sizes, y, self.n_classes, weights, self.gear)

    def counted(self, features: Places | None = None) -> FromCounts:
        """Return the counts of some features, by default of all."""
        own = slice(None) if features is None else features
        codes, sizes = self.codes[own], self.sizes[own]
        Q = pair_counts(codes, sizes, self.mass) / self.n
        share = self._shares()[:, None]
        classes = (self.y[:, None] == np.arange(self.n_classes)) * share
        F = label_sums(codes, sizes, classes)
        return FromCounts(Q, F, classes.sum(axis=0), sizes, self.n, self.gear)

    def moments(self, features: Places) -> tuple[Moments, Floats]:
        """Return the normal equations of some features, and the class probabilities."""
        return self.counted(features).moments(np.arange(len(features)))

    def probabilities(self) -> Floats:
        """Return the probability of every category."""
        return label_sums(self.codes, self.sizes, self._shares()[:, None])[:, 0]

    def _scores(self, z: Floats, intercept: Floats) -> Floats:
        """Return s at every row, shape (n, C)."""
        scores = np.tile(intercept, (len(self.y), 1))
        starts = offsets(self.sizes)
        for i in np.flatnonzero(self._with_points(z)).tolist():
            scores += z[starts[i] : starts[i + 1]][self.codes[i]]
        return scores

    def _with_points(self, z: Floats) -> NDArray[np.bool_]:
        return np.logical_or.reduceat(z.any(axis=1), offsets(self.sizes)[:-1])

    def _shares(self) -> Floats:
        mass = np.ones(len(self.y)) if self.mass is None else self.mass
        return mass / self.n

    def norms(self, z: Floats, intercept: Floats) -> Floats:
        """Return ‖E[W_i (T − s)]‖₁ of every feature, for one solution."""
        T = coded_rows(self.y, self.n_classes).T
        V = self._shares()[:, None] * (T - self._scores(z, intercept))
        G = label_sums(self.codes, self.sizes, V)
        return feature_norms(G.T, offsets(self.sizes))

    def risks(self, found: LassoPath) -> Floats:
        """Return γ of every solution of a path, which may be of other rows."""
        share, T = self._shares(), coded_rows(self.y, self.n_classes).T
        squares = [
            share @ ((T - self._scores(z, b)) ** 2).sum(axis=1)
            for z, b in zip(*columns_of(found), strict=True)
        ]
        return weight_of(self.n_classes) * np.array(squares)

    def mistakes(self, found: LassoPath) -> Floats:
        """Return the share of rows that the rule map gets wrong, by penalty."""
        share, wrong = self._shares(), []
        for z, b in zip(*columns_of(found), strict=True):
            scores = self._scores(z, b)
            if self.n_classes == 2:
                answer = (scores[:, 0] > 0).astype(np.intp)
            else:
                answer = scores.argmax(axis=1)
            wrong.append(share @ (answer != self.y))
        return np.array(wrong)


def cheaper(rows: FromRows) -> Material:
    """Return the counts of the rows, if that makes paths faster.

    >>> rows = FromRows(np.zeros((2, 900), int), np.array([2, 2]), np.zeros(900), 2)
    >>> type(cheaper(rows)).__name__
    'FromCounts'
    """
    return rows.counted() if counts_pay(rows) else rows


def counts_pay(rows: FromRows) -> bool:
    """Whether paths are faster from counts.

    >>> counts_pay(FromRows(np.zeros((2, 9), int), np.array([50, 50]), np.zeros(9), 2))
    False
    """
    D, (d, n) = int(rows.sizes.sum()), rows.codes.shape
    return bool(n >= D and _ROW_STEP * n * d >= D**2)
