r"""Which features a penalty can need: screening for `renyi.solvers.l1inf_descent`.

At a penalty, features with ``‖G_i‖₁ < penalty`` have no points. Only few others need
descent: those that had points before, and those with ``‖G_i‖₁ ≥ penalty`` at the last
solution. Afterwards the norms of all features are checked; any above the penalty join.
(The sequential strong rule lowers the threshold to 2·penalty − previous, so that fewer
come late; but it lets in several times as many, and all of them after a step to less
than half of the previous penalty.)

*Norms that need no look.* The categories of a feature exclude each other, so for any
two residuals r and r' and every feature::

    | ‖G_i‖₁ − ‖G'_i‖₁ |  ≤  Σ_k |E[W_k (r − r')]|  ≤  E|r − r'|

summed over the columns of the target. From rows, where a norm costs a pass over a
column, the norms of most features are therefore known to be too small without
computing them. This is exact: no feature is ever missed by it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import label_sums, offsets
from renyi.solvers.l1inf_descent import Block, Gear, GramBlock, RowBlock, feature_norms

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


class Problem(Protocol):
    """The problem over all features; features at rest have points 0."""

    z: Floats
    sizes: Places

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁, or for those below the threshold something between."""

    def energies(self) -> tuple[float, float]:
        """Return E[r²] and E[rT]."""

    def restricted(self, working: Places) -> Block:
        """Return the problem over some features, all others at rest."""

    def absorb(self, block: Block, working: Places) -> None:
        """Take over the points of a restricted problem."""

    def change(self, working: Places) -> tuple[Floats, Floats]:
        """Return how points and state of some features changed since `remember`."""

    def remember(self) -> None:
        """Keep points and state, for the next `change`."""

    def intercept(self) -> Floats:
        """Return the intercept of every column."""


def places_of(features: Places, sizes: Places) -> Places:
    """Return the places of the categories of some features.

    >>> places_of(np.array([0, 2]), np.array([2, 3, 1]))
    array([0, 1, 5])
    """
    starts = offsets(sizes)
    kept = sizes[features]
    shift = np.repeat(starts[features] - offsets(kept)[:-1], kept)
    return np.asarray(np.arange(kept.sum()) + shift, np.int64)


class FromMoments:
    """The problem from ``Q = E[W Wᵀ]``.

    Parameters
    ----------
    Q : ndarray of shape (D, D)
        Not centred.
    R : ndarray of shape (C, D)
        E[T W], not centred.
    mean : ndarray of shape (C,)
        E[T]; 0 without intercept.
    variance : float
        E‖T‖², not centred.
    sizes : ndarray of ints
        Number of categories of each feature.
    centred : bool
        Whether there is an intercept.
    gear : Gear, optional
        Which passes to take.
    """

    def __init__(
        self,
        Q: Floats,
        R: Floats,
        mean: Floats,
        variance: float,
        sizes: Places,
        centred: bool,
        gear: Gear | None = None,
    ) -> None:
        self._Q, self._q, self.sizes = Q, np.diag(Q).copy(), sizes
        self._centre = self._q if centred else np.zeros_like(self._q)
        self._mean = mean if centred else np.zeros_like(mean)
        self._R = R - np.outer(self._mean, self._centre)
        self._variance = variance - float(self._mean @ self._mean)
        self._gear = gear or Gear()
        self.z, self._G = np.zeros_like(R), self._R
        self.remember()

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁ of every feature."""
        return feature_norms(self._G, offsets(self.sizes))

    def energies(self) -> tuple[float, float]:
        """Return E[r²] and E[rT]."""
        fit = self._variance - float(np.vdot(self._R, self.z))
        return fit - float(np.vdot(self._G, self.z)), fit

    def restricted(self, working: Places) -> GramBlock:
        """Return the problem over some features, all others at rest."""
        places = places_of(working, self.sizes)
        centre, z = self._centre[places], self.z[:, places]
        A = self._Q[np.ix_(places, places)] - np.outer(centre, centre)
        R, q, sizes = self._R[:, places], self._q[places], self.sizes[working]
        G = self._G[:, places]
        return GramBlock(A, R, self._variance, sizes, z, G, q, self._gear)

    def absorb(self, block: Block, working: Places) -> None:
        """Take over the points of a restricted problem; compute the gradient anew."""
        self.z[:, places_of(working, self.sizes)] = block.z
        held = np.flatnonzero(self.z.any(axis=0))
        z = self.z[:, held]
        back = np.outer(z @ self._centre[held], self._centre)
        self._G = np.asarray(self._R - z @ self._Q[held] + back)

    def change(self, working: Places) -> tuple[Floats, Floats]:
        """Return how points and state of some features changed since `remember`."""
        places = places_of(working, self.sizes)
        z, G = self._past
        return self.z[:, places] - z[:, places], self._G[:, places] - G[:, places]

    def remember(self) -> None:
        """Keep points and state, for the next `change`."""
        self._past = self.z.copy(), self._G.copy()

    def intercept(self) -> Floats:
        """Return the intercept of every column."""
        return np.asarray(self._mean - self.z @ self._centre)


class FromRows:
    """The problem from rows; Q is never formed.

    Parameters
    ----------
    codes : ndarray of shape (d, n)
        Codes of the features, each below the feature's size.
    weights : ndarray of shape (n,)
        Weights of the rows, positive and with sum 1.
    target : ndarray of shape (C, n)
        T, not centred.
    sizes : ndarray of ints
        Number of categories of each feature.
    centred : bool
        Whether there is an intercept.
    gear : Gear, optional
        Which passes to take.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        weights: Floats,
        target: Floats,
        sizes: Places,
        centred: bool,
        gear: Gear | None = None,
    ) -> None:
        self.sizes, self._codes, self._weights = sizes, codes, weights
        self._centred, self._gear = centred, gear or Gear()
        self._mean = target @ weights if centred else np.zeros(len(target))
        self._target = target - self._mean[:, None]
        self._q = self._probabilities()
        self.z = np.zeros((len(target), len(self._q)))
        self._u = weights * self._target
        self._bounds = np.full(len(codes), np.inf)
        self._exact = np.zeros(len(codes), bool)
        self._seen = self._u.copy()
        self.remember()

    def _probabilities(self) -> Floats:
        compiled = self._gear.after(0)
        if compiled is None:
            weights = self._weights[:, None]
            return label_sums(self._codes, self.sizes, weights)[:, 0]
        out = np.empty(int(self.sizes.sum()))
        compiled.row_sums(self._codes, offsets(self.sizes), self._weights, out)
        return out

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁, or for those below the threshold something between."""
        return self._norms_of(slice(None), threshold).copy()

    def _norms_of(self, features: Places | slice, threshold: float) -> Floats:
        self._loosen()
        wanted = (self._bounds[features] >= threshold) & ~self._exact[features]
        stale = np.flatnonzero(wanted)
        if stale.size:
            if not isinstance(features, slice):
                stale = features[stale]
            self._bounds[stale] = self._exact_norms(stale)
            self._exact[stale] = True
        return self._bounds[features]

    def _loosen(self) -> None:
        """Turn norms at the residuals last seen into bounds at those of now."""
        size = float(np.vdot(self._seen, self._seen))
        # Nothing is left to explain, or never was, if all rows are of one class.
        scale = float(np.vdot(self._u, self._seen)) / size if size > 0 else 1.0
        moved = float(np.abs(self._u - scale * self._seen).sum())
        if moved > 0 or scale != 1:
            self._bounds *= abs(scale)
            self._bounds += moved
            self._exact[:] = False
            self._seen[...] = self._u

    def _exact_norms(self, features: Places) -> Floats:
        out = np.empty(len(features))
        compiled = self._gear.after(0)
        if compiled is not None:
            compiled.row_norms(self._codes, self.sizes, features, self._u, out)
        elif features.size:
            sums = label_sums(self._codes[features], self.sizes[features], self._u.T)
            out[:] = feature_norms(sums.T, offsets(self.sizes[features]))
        return out

    def energies(self) -> tuple[float, float]:
        """Return E[r²] and E[rT]."""
        residual = float(np.vdot(self._u, self._u / self._weights))
        return residual, float(np.vdot(self._u, self._target))

    def restricted(self, working: Places) -> RowBlock:
        """Return the problem over some features, all others at rest."""
        places = places_of(working, self.sizes)
        # Residuals and norms are shared: a step of the block is a step of the whole.
        return RowBlock(
            self._codes[working], self._weights, self._target, self._q[places],
            self.sizes[working], self.z[:, places], self._u, self._centred,
            partial(self._norms_of, working), self._gear,
        )  # fmt: skip

    def absorb(self, block: Block, working: Places) -> None:
        """Take over the points of a restricted problem."""
        self.z[:, places_of(working, self.sizes)] = block.z

    def change(self, working: Places) -> tuple[Floats, Floats]:
        """Return how points and state of some features changed since `remember`."""
        places = places_of(working, self.sizes)
        z, u = self._past
        return self.z[:, places] - z[:, places], self._u - u

    def remember(self) -> None:
        """Keep points and state, for the next `change`."""
        self._past = self.z.copy(), self._u.copy()

    def intercept(self) -> Floats:
        """Return the intercept of every column."""
        if not self._centred:
            return self._mean
        return np.asarray(self._mean - self.z @ self._q)
