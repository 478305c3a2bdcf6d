r"""Interior points for the master program of cutting planes.

.. math:: \min_a \; b^T a \quad \text{with} \quad G a \ge g, \quad |a - c| \le r,

a row of G for each cut, and its dual program, in which w weighs the cuts and u, v what
the box around c takes up:

.. math:: \max \; g^T w - (c + r)^T u + (c - r)^T v, \quad G^T w - u + v = b, \quad
    w, u, v \ge 0.

Both have an inside, known beforehand: a little above a feasible multiplier, and any w,
as u and v make up for what is missing. So every step of the predictor–corrector method
(Mehrotra 1992) has feasible points on both sides, and it may stop at any gap. That is
what cutting planes want: a point in the middle of what the cuts leave open is a better
place to look for the next ones than a corner, and takes fewer steps.

The matrix of the normal equations is dense whatever the cuts, so G is too.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Floats = NDArray[np.float64]

_MOST_STEPS = 60
_MOST_CORRECTIONS = 10
_BACK = 0.99  # of the way to where a variable turns 0
_AGAIN = 0.7  # of the way from the inside to the last point, towards the cuts since
_ROUNDING = 1e-13


class Box(NamedTuple):
    """Where multipliers may be: within a radius of a centre; `inside` meets all cuts.

    It does so with room to spare, and lies strictly within the box.
    """

    centre: Floats
    radius: float
    inside: Floats


class Point(NamedTuple):
    """A multiplier, the weights of the cuts and of the box, and the duality gap."""

    a: Floats
    w: Floats
    u: Floats
    v: Floats
    gap: float

    @property
    def off(self) -> float:
        """How far the weights of the cuts are from b."""
        return float(self.u.sum() + self.v.sum())


class _State:
    """The point of the method, with the slacks of the cuts and of the box."""

    def __init__(self, G: Floats, g: Floats, b: Floats, box: Box) -> None:
        self.G, self.g, self.b, self.box = G, g, b, box
        self.size = len(g) + 2 * len(b)
        self.x = np.zeros(self.size)  # w, u and v
        self.s = np.zeros(self.size)  # slacks of the cuts, of above and of below

    def place(self, a: Floats, w: Floats, least: float) -> None:
        """Begin at a multiplier and weights; the box takes up what is missing."""
        c, r = self.box.centre, self.box.radius
        rest = self.G.T @ w - self.b
        self.a = a
        self.x = np.concatenate(
            [w, np.maximum(rest, 0) + least, np.maximum(-rest, 0) + least]
        )
        self.s = np.concatenate([self.G @ a - self.g, c + r - a, a - c + r])

    def parts(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        n, R = len(self.g), len(self.b)
        return x[:n], x[n : n + R], x[n + R :]

    @property
    def gap(self) -> float:
        return float(self.x @ self.s)

    def step(self) -> bool:
        """Take a step; return whether there was one."""
        factor = self._factor()
        if factor is None:
            return False
        mu = self.gap / self.size
        dx, ds, _ = self._direction(factor, -self.x)
        far = (self.x + _length(self.x, dx) * dx) @ (self.s + _length(self.s, ds) * ds)
        aim = mu * (far / self.gap) ** 3
        dx, ds, da = self._direction(factor, (aim - dx * ds) / self.s - self.x)
        primal, dual = (_BACK * _length(*p) for p in ((self.x, dx), (self.s, ds)))
        if not (np.isfinite(dx).all() and np.isfinite(ds).all()):
            return False
        self.x += primal * dx
        self.s += dual * ds
        self.a = self.a + dual * da
        return max(primal, dual) > 1e-6

    def _factor(self) -> tuple[Floats, bool] | None:
        w, u, v = self.parts(self.x / self.s)
        H = self.G * np.sqrt(w)[:, None]
        K = H.T @ H
        K[np.diag_indices(len(K))] += u + v
        return factored(K)

    def _direction(
        self, factor: tuple[Floats, bool], aim: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Solve for the change of x, s and a that makes x·s what is aimed at."""
        w, u, v = self.parts(aim)
        here, above, below = self.parts(self.x)
        missing = self.b - self.G.T @ here + above - below  # rounding only
        da = linalg.cho_solve(factor, self.G.T @ w - u + v - missing)
        ds = np.concatenate([self.G @ da, -da, da])
        return aim - self.x / self.s * ds, ds, da


def factored(K: Floats) -> tuple[Floats, bool] | None:
    """Return the Cholesky factor, with the least ridge that lets there be one."""
    size = float(np.diagonal(K).max(initial=0.0))
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        K[np.diag_indices(len(K))] += ridge * size
        try:
            factor: tuple[Floats, bool] = linalg.cho_factor(K, check_finite=False)
            return factor
        except linalg.LinAlgError:
            continue
    return None


def _length(x: Floats, dx: Floats) -> float:
    """Longest step, at most 1, that keeps x nonnegative."""
    down = dx < 0
    return min(1.0, float((x[down] / -dx[down]).min(initial=1.0)))


def solve(
    G: Floats,
    g: Floats,
    b: Floats,
    box: Box,
    target: float,
    last: Point | None = None,
    deadline: float = np.inf,
) -> Point:
    """Solve to a gap; `last` is the point before the last rows of G came.

    >>> G, g, b = np.array([[1.0, 0.0], [1.0, 2.0]]), np.ones(2), np.array([1.0, 0.5])
    >>> box = Box(np.array([1.0, 1.0]), 5.0, np.array([2.0, 2.0]))
    >>> found = solve(G, g, b, box, 1e-9)
    >>> found.a.round(6), found.w.round(6)
    (array([1., 0.]), array([0.75, 0.25]))
    """
    state = _State(G, g, b, box)
    if last is None:
        w = np.full(len(g), 1.0 / max(len(g), 1))
        rest = np.abs(G.T @ w - b)
        state.place(box.inside, w, 0.1 * float(rest.mean()) + 1e-3 / len(b))
    else:
        _resume(state, last, target)
    for _ in range(_MOST_STEPS):
        if state.gap <= target or time.monotonic() > deadline or not state.step():
            break
    w, u, v = state.parts(state.x)
    return Point(state.a, w, u, v, state.gap)


def _resume(state: _State, last: Point, target: float) -> None:
    """Begin between the inside and the last point; new cuts get a little weight."""
    inside, c, r = state.box.inside, state.box.centre, state.box.radius
    room = np.concatenate([state.G @ inside - state.g, c + r - inside, inside - c + r])
    way = last.a - inside
    change = np.concatenate([state.G @ way, -way, way])
    a = inside + _AGAIN * _length(room, change) * way
    mu = max(30 * target, last.gap) / state.size
    w = np.zeros(len(state.g))
    w[: len(last.w)] = last.w
    slack = state.G @ a - state.g
    w = np.maximum(w, np.minimum(mu / slack, 10 * mu))
    state.place(a, w, mu / r)


def corrected(G: Floats, b: Floats, w: Floats) -> Floats | None:
    """Return weights near w with ``Gᵀw = b`` to rounding; None if there are none near.

    Least squares weighted by w, so that small weights move little; what turns negative
    becomes 0, and so on.

    >>> corrected(np.eye(2), np.array([0.5, 0.5]), np.array([0.4, 0.6]))
    array([0.5, 0.5])
    """
    for _ in range(_MOST_CORRECTIONS):
        rest = b - G.T @ w
        if np.abs(rest).max(initial=0.0) <= _ROUNDING:
            return w
        H = G * np.sqrt(w)[:, None]
        factor = factored(H.T @ H)
        if factor is None:
            return None
        w = np.maximum(w + w * (G @ linalg.cho_solve(factor, rest)), 0)
        if not np.isfinite(w).all():
            return None
    return w if np.abs(b - G.T @ w).max(initial=0.0) <= 10 * _ROUNDING else None
