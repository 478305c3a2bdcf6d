r"""Block coordinate descent on some of the features, to a given duality gap.

The problem, in the mean form of least squares with the rows' targets T and Z the points
(`renyi.solvers.l1inf` says how the paper's problem becomes this one)::

    min_Z  ½ E‖T − WᵀZ‖²  +  penalty · Σ_i max |Z_i|

*Step.* With the residual r = T − WᵀZ and the gradient ``G = E[W r]``, feature i alone
is the problem of `renyi.solvers.linfball` with ``b = G_i + q Z_i``, q its
probabilities. With an intercept the targets and W are centred, and so is the change of
r after every step: the step is exact for the feature, then the intercept is exact.

*Gap.* ``a·r`` is feasible for the dual if ``|a| ≤ penalty/max_i ‖G_i‖₁``, and best at
``a = E[rT]/E[r²]`` within these limits; its value is ``a E[rT] − ½a² E[r²]``.

*Extrapolation.* Passes converge linearly. Every few of them the combination of the last
points whose combined change is smallest (Anderson) is tried, and kept if its objective
is smaller.

Two forms hold the same state in different coordinates: `GramBlock` keeps G and updates
it by columns of Q, `RowBlock` keeps the residuals of the rows and never sees Q. Arrays
of points, gradients and residuals have one row per column of the target.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.solvers.linfball import block_step

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

PASSES = 5  # between two looks at the gap
ROUNDING = 1e-14  # error of a gap; targets have variance 1 at most
# Steps that numpy takes in 0.4 s; to load the compiled passes takes 0.6 s.
FEW_STEPS = 10_000
_ROWS = 4_000  # so many take as long as all that is done once in a step


class Gap(NamedTuple):
    """Value of the problem, and how far at most it is above the optimum."""

    objective: float
    gap: float

    def within(self, tol: float) -> bool:
        """Whether the gap is at most `tol` times the objective, but for rounding."""
        return self.gap <= tol * self.objective + ROUNDING


class Block(Protocol):
    """A problem over some features, with its current points."""

    z: Floats
    state: Floats  # linear in the points: the gradient or the residuals
    starts: Places

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁, or for those below the threshold something between."""

    def energies(self, z: Floats, state: Floats) -> tuple[float, float]:
        """Return E[r²] and E[rT]."""

    def passes(
        self, active: Places, penalty: float, points: Floats, states: Floats
    ) -> None:
        """Pass over the active features; write points and state after each pass."""


@cache
def kernels() -> ModuleType | None:
    """Import the compiled passes; None if numba is absent or too old for numpy."""
    try:
        from renyi.solvers import l1inf_kernels
    except ImportError:
        return None
    return l1inf_kernels


class Gear:
    """Which passes to take: those of numpy for few steps, the compiled ones for many.

    How many there will be is not known beforehand. So they are counted, and whoever
    knows more says how many to expect. Only the steps of one problem are, or of those
    that are solved together: the compiled passes add in another order, and no result
    may depend on what else was solved before it.

    Examples
    --------
    >>> gear = Gear()
    >>> gear.after(10) is None, gear.after(100_000) is kernels()
    (True, True)
    """

    def __init__(self) -> None:
        self._expected = self._taken = 0.0

    def expect(self, steps: float) -> Gear:
        """Say how many steps there will be; return itself."""
        self._expected = max(self._expected, steps)
        return self

    def after(self, steps: float) -> ModuleType | None:
        """Return the compiled passes if so many more steps are too many for numpy."""
        self._taken += steps
        many = max(self._expected, self._taken) > FEW_STEPS
        return kernels() if many else None


def feature_norms(G: Floats, starts: Places) -> Floats:
    """Return ‖G_i‖₁ of every feature, over categories and columns.

    >>> feature_norms(np.array([[1.0, -2.0, 0.5]]), np.array([0, 2, 3]))
    array([3. , 0.5])
    """
    return np.add.reduceat(np.abs(G).sum(axis=0), starts[:-1])


def largest_points(z: Floats, starts: Places) -> Floats:
    """Return max|Z_i| of every feature, over categories and columns.

    >>> largest_points(np.array([[1.0, -2.0, 0.5]]), np.array([0, 2, 3]))
    array([2. , 0.5])
    """
    return np.maximum.reduceat(np.abs(z).max(axis=0), starts[:-1])


def duality_gap(
    energies: tuple[float, float], penalty: float, points: float, steepest: float
) -> Gap:
    """Return objective and gap.

    Parameters
    ----------
    energies : pair of float
        E[r²] and E[rT].
    penalty : float
        The positive penalty.
    points : float
        Sum of the features' largest points.
    steepest : float
        The largest ‖G_i‖₁, or something larger.

    Examples
    --------
    >>> duality_gap((0.25, 0.25), penalty=0.1, points=0.0, steepest=0.1)
    Gap(objective=0.125, gap=0.0)
    """
    residual, fit = energies
    objective = residual / 2 + penalty * points
    limit = penalty / steepest if steepest > 0 else np.inf
    best = fit / residual if residual > 0 else 0.0
    a = min(max(best, -limit), limit)
    return Gap(objective, objective - (a * fit - a * a * residual / 2))


def descend(block: Block, penalty: float, tol: float, most: int) -> int:
    """Descend until the gap is at most `tol` times the objective.

    Parameters
    ----------
    block : Block
        The problem; its points and state are changed in place.
    penalty : float
        The positive penalty.
    tol : float
        Relative gap to reach.
    most : int
        Number of passes after which to give up.

    Returns
    -------
    int
        Number of passes made.

    Examples
    --------
    >>> Q = np.diag([0.5, 0.5])
    >>> R = np.array([[0.2, -0.1]])
    >>> block = GramBlock(Q, R, 0.25, np.array([2]), np.zeros((1, 2)), R.copy())
    >>> descend(block, penalty=0.1, tol=1e-9, most=100)
    5
    >>> block.z
    array([[ 0.2, -0.2]])
    """
    used = 0
    points = np.empty((PASSES + 1, *block.z.shape))
    states = np.empty((PASSES + 1, *block.state.shape))
    while True:
        norms = block.norms(penalty)
        largest = largest_points(block.z, block.starts)
        energies = block.energies(block.z, block.state)
        now = duality_gap(energies, penalty, float(largest.sum()), float(norms.max()))
        if now.within(tol) or used >= most:
            return used
        if used:
            # Not after the last pass: a combination may revive features at rest.
            _extrapolate(block, penalty, points, states)
            largest = largest_points(block.z, block.starts)
        active = np.flatnonzero((largest > 0) | (norms > penalty))
        points[0], states[0] = block.z, block.state
        block.passes(active, penalty, points[1:], states[1:])
        used += PASSES


def _extrapolate(block: Block, penalty: float, points: Floats, states: Floats) -> None:
    """Replace the points by a combination of the last ones if that is better."""
    changes = np.diff(points.reshape(len(points), -1), axis=0)
    products = changes @ changes.T
    # A little of the identity keeps the system solvable once changes are parallel.
    products.flat[:: len(products) + 1] += 1e-12 * products.trace() + 1e-300
    weights = np.linalg.solve(products, np.ones(len(products)))
    weights /= weights.sum()
    z = (weights @ points[1:].reshape(len(weights), -1)).reshape(block.z.shape)
    state = weights @ states[1:].reshape(len(weights), -1)
    adopt(block, penalty, z, state.reshape(block.state.shape))


def adopt(block: Block, penalty: float, z: Floats, state: Floats) -> bool:
    """Take over other points, with their state, if their objective is smaller.

    Examples
    --------
    >>> Q = np.diag([0.5, 0.5])
    >>> R = np.array([[0.2, -0.1]])
    >>> block = GramBlock(Q, R, 0.25, np.array([2]), np.zeros((1, 2)), R.copy())
    >>> z = np.array([[0.1, -0.1]])
    >>> adopt(block, 0.1, z, R - z @ Q), adopt(block, 0.1, -z, R + z @ Q)
    (True, False)
    >>> block.z
    array([[ 0.1, -0.1]])
    """
    now = _objective(block, penalty, block.z, block.state)
    better = _objective(block, penalty, z, state) < now
    if better:
        block.z[...] = z
        block.state[...] = state
    return better


def _objective(block: Block, penalty: float, z: Floats, state: Floats) -> float:
    residual, _ = block.energies(z, state)
    return residual / 2 + penalty * float(largest_points(z, block.starts).sum())


def _cycle(
    z: Floats,
    state: Floats,
    step: Callable[[int], None],
    active: Places,
    points: Floats,
    states: Floats,
) -> None:
    """Take steps over the active features until `points` are full."""
    for p in range(len(points)):
        for i in active:
            step(int(i))
        points[p], states[p] = z, state


class GramBlock:
    """The problem in terms of moments: the state is the gradient.

    Parameters
    ----------
    A : ndarray of shape (D, D)
        E[W Wᵀ], centred if there is an intercept.
    R : ndarray of shape (C, D)
        E[T W], centred likewise.
    variance : float
        E‖T‖², centred likewise.
    sizes : ndarray of ints
        Number of categories of each feature.
    z, G : ndarrays of shape (C, D)
        Points and gradient ``R − zA``, changed in place.
    q : ndarray of shape (D,), optional
        E[W]; by default the diagonal of A.
    gear : Gear, optional
        Which passes to take.
    """

    def __init__(
        self,
        A: Floats,
        R: Floats,
        variance: float,
        sizes: Places,
        z: Floats,
        G: Floats,
        q: Floats | None = None,
        gear: Gear | None = None,
    ) -> None:
        self.A, self.R, self.variance = A, R, variance
        self.z, self.state, self.starts = z, G, offsets(sizes)
        self.q = np.diag(A).copy() if q is None else q
        self._gear = gear or Gear()

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁ of every feature."""
        return feature_norms(self.state, self.starts)

    def energies(self, z: Floats, state: Floats) -> tuple[float, float]:
        """Return E[r²] and E[rT], by ``zA = R − G``."""
        fit = self.variance - float(np.vdot(self.R, z))
        return fit - float(np.vdot(state, z)), fit

    def passes(
        self, active: Places, penalty: float, points: Floats, states: Floats
    ) -> None:
        """Pass over the active features; write points and state after each pass."""
        compiled = self._gear.after(len(points) * len(active))
        if compiled is None:
            _cycle(self.z, self.state, self._step(penalty), active, points, states)
            return
        compiled.gram_passes(
            self.A, self.q, self.starts, active, penalty, self.z, self.state, points,
            states,
        )  # fmt: skip

    def _step(self, penalty: float) -> Callable[[int], None]:
        z, G, starts, columns = self.z, self.state, self.starts, len(self.z)

        def step(i: int) -> None:
            own = slice(starts[i], starts[i + 1])
            mass = np.broadcast_to(self.q[own], (columns, own.stop - own.start))
            b = G[:, own] + mass * z[:, own]
            new = block_step(b.ravel(), mass.ravel(), penalty).reshape(b.shape)
            change = new - z[:, own]
            if change.any():
                z[:, own] = new
                np.subtract(G, change @ self.A[own], out=G)

        return step


class RowBlock:
    """The problem in terms of rows: the state is their weighted residuals.

    Parameters
    ----------
    codes : ndarray of shape (d, n)
        Codes of the features; none unseen.
    weights : ndarray of shape (n,)
        Weights of the rows, positive and with sum 1.
    target : ndarray of shape (C, n)
        T, centred if there is an intercept.
    q : ndarray of shape (D,)
        E[W]: probabilities of the categories.
    sizes : ndarray of ints
        Number of categories of each feature.
    z : ndarray of shape (C, D)
        Points, changed in place.
    u : ndarray of shape (C, n)
        Weighted residuals ``weights·(T − zW)``, changed in place.
    centred : bool
        Whether there is an intercept.
    norms : callable
        Gives the norms of the features at a threshold.
    gear : Gear, optional
        Which passes to take.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        weights: Floats,
        target: Floats,
        q: Floats,
        sizes: Places,
        z: Floats,
        u: Floats,
        centred: bool,
        norms: Callable[[float], Floats],
        gear: Gear | None = None,
    ) -> None:
        self.codes, self.weights, self.target = codes, weights, target
        self.q, self.centred, self._norms = q, centred, norms
        self.z, self.state, self.starts = z, u, offsets(sizes)
        self._gear = gear or Gear()

    def norms(self, threshold: float) -> Floats:
        """Return ‖G_i‖₁, or for those below the threshold something between."""
        return self._norms(threshold)

    def energies(self, z: Floats, state: Floats) -> tuple[float, float]:
        """Return E[r²] and E[rT]."""
        residual = float(np.vdot(state, state / self.weights))
        return residual, float(np.vdot(state, self.target))

    def passes(
        self, active: Places, penalty: float, points: Floats, states: Floats
    ) -> None:
        """Pass over the active features; write points and state after each pass."""
        length = 1 + self.state.size / _ROWS
        compiled = self._gear.after(len(points) * len(active) * length)
        if compiled is None:
            _cycle(self.z, self.state, self._step(penalty), active, points, states)
            return
        # Equal weights are one number, which spares the compiled loop a stream.
        equal = bool((self.weights == self.weights[0]).all())
        weights = self.weights[:1] if equal else self.weights
        compiled.row_passes(
            self.codes, weights, self.q, self.starts, active, penalty,
            self.centred, self.z, self.state, points, states,
        )  # fmt: skip

    def _step(self, penalty: float) -> Callable[[int], None]:
        z, u, starts, columns = self.z, self.state, self.starts, len(self.z)

        def step(i: int) -> None:
            own = slice(starts[i], starts[i + 1])
            q, code = self.q[own], self.codes[i]
            sums = np.stack([np.bincount(code, row, len(q)) for row in u])
            b = sums.astype(np.float64) + q * z[:, own]
            new = block_step(b.ravel(), np.tile(q, columns), penalty).reshape(b.shape)
            change = new - z[:, own]
            if change.any():
                z[:, own] = new
                if self.centred:
                    # The intercept follows at once.
                    change -= (change @ q)[:, None]
                np.subtract(u, self.weights * change[:, code], out=u)

        return step
