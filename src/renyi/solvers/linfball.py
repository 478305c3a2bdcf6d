r"""The exact step of one feature under the penalty λ·max|z|.

The indicators of one feature exclude each other, so that its block of Q is diagonal and
its part of the problem falls apart but for the largest point::

    min_z  Σ_k ½ q_k z_k² − b_k z_k  +  λ·max_k |z_k|

*Solution.* With the largest point t given, each z_k is ``b_k/q_k`` cut to [−t, t]. What
the cuts take away, ``φ(t) = Σ_k (|b_k| − q_k t)₊``, falls from ``Σ|b_k|`` to 0, is
piecewise linear and convex, and t is where it equals λ. If ``Σ|b_k| ≤ λ``, z = 0.

The corners of φ lie at ``|b_k|/q_k``: after sorting them, the sums of |b| and q over
the points that are cut give t in closed form. (What the cuts take away is the
projection of b on the ball of radius λ of the l1 norm, in the metric of q.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def largest_point(b: Floats, q: Floats, penalty: float) -> float:
    """Return t with ``Σ (|b_k| − q_k t)₊ = penalty``; 0 if there is none.

    Parameters
    ----------
    b : ndarray of shape (m,)
        Linear terms.
    q : ndarray of shape (m,)
        Quadratic terms, none negative. Where it is 0, b must be 0.
    penalty : float
        The positive λ.

    Examples
    --------
    >>> largest_point(np.array([3.0, -1.0]), np.array([1.0, 1.0]), 1.0)
    2.0
    >>> largest_point(np.array([3.0, -1.0]), np.array([1.0, 1.0]), 5.0)
    0.0
    """
    size = np.abs(b)
    if size.sum() <= penalty:
        return 0.0
    used = np.flatnonzero(q > 0)
    used = used[np.argsort(-size[used] / q[used], kind="stable")]
    # With the first j points cut, t solves Σ|b| − t·Σq = penalty; the right j gives the
    # largest of these t, because φ is convex.
    cut = (np.cumsum(size[used]) - penalty) / np.cumsum(q[used])
    return float(cut.max())


def block_step(b: Floats, q: Floats, penalty: float) -> Floats:
    """Return the minimiser of ``Σ ½ q_k z_k² − b_k z_k + penalty·max|z_k|``.

    Parameters
    ----------
    b, q, penalty
        As for `largest_point`.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> block_step(np.array([3.0, -1.0]), np.array([1.0, 1.0]), 1.0)
    array([ 2., -1.])
    """
    t = largest_point(b, q, penalty)
    free = np.divide(b, q, out=np.zeros_like(b), where=q > 0)
    return np.clip(free, -t, t)
