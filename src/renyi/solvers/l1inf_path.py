r"""From penalty to penalty: each solution starts from the ones before it.

The solution is a piecewise linear function of the penalty, so that the line through the
last two solutions foretells the next one well, as long as no feature enters or leaves.
Descent starts there if that is better than the last solution itself.

For each penalty, in turn: choose features (`renyi.solvers.screening`), descend on them
(`renyi.solvers.l1inf_descent`), look at all others. Any feature whose norm is above the
penalty joins and descent goes on; the gap over all features says when to stop. Passes
are counted, and there is an end to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.solvers.l1inf_descent import (
    Block,
    adopt,
    descend,
    duality_gap,
    largest_points,
)
from renyi.solvers.screening import Problem

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# A mean square below this is no rounding: no rows have these marginals.
_NEGATIVE = -1e-9


class Solution(NamedTuple):
    """Solution for one penalty: points, intercepts, and what is known about it.

    The points are those of the problem, good until the next step.
    """

    z: Floats
    intercept: Floats
    held: Places
    objective: float
    gap: float
    passes: int


def indefinite() -> str:
    """Return what to say of marginals that no rows can have."""
    return (
        "The marginals are not positive semidefinite, so no rows can have them: call "
        "validate() on them."
    )


def walk(
    problem: Problem, penalties: Floats, tol: float, most: int
) -> Iterator[Solution]:
    """Solve for each of the penalties, which fall.

    Parameters
    ----------
    problem : Problem
        The problem, all features at rest.
    penalties : ndarray of shape (L,)
        In the form of `renyi.solvers.l1inf_descent`.
    tol : float
        Gap to be reached, relative to the objective.
    most : int
        Passes after which to give up, for each penalty.

    Examples
    --------
    >>> from renyi.solvers.screening import FromMoments
    >>> Q, R = np.diag([0.5, 0.5]), np.array([[0.2, -0.1]])
    >>> sizes, mean = np.array([2]), np.zeros(1)
    >>> problem = FromMoments(Q, R, mean, 0.25, sizes, centred=False)
    >>> for step in walk(problem, np.array([0.3, 0.1]), 1e-6, 100):
    ...     print(step.held, step.z.round(6))
    [] [[0. 0.]]
    [0] [[ 0.2 -0.2]]
    """
    # Where the path starts, all norms are below this.
    before = last = max(float(problem.norms(0.0).max()), float(penalties[0]))
    held = past = np.empty(0, np.int64)
    for penalty in penalties.tolist():
        working = _working(problem, penalty, held, past)
        step = (last - penalty) / (before - last) if before > last else 0.0
        one = _solve_one(problem, working, penalty, step, tol, most)
        yield one
        before, last, held, past = last, penalty, one.held, held


def _working(
    problem: Problem, penalty: float, held: Places, past: Places
) -> NDArray[np.bool_]:
    """Choose features by their norms; those of the last two solutions stay."""
    working = np.asarray(problem.norms(penalty) >= penalty)
    working[held] = working[past] = True
    return working


def _solve_one(
    problem: Problem,
    working: NDArray[np.bool_],
    penalty: float,
    step: float,
    tol: float,
    most: int,
) -> Solution:
    """Solve for one penalty; `working` grows by the features that turn out to matter.

    `step` is how far to follow the line through the last two solutions.
    """
    used, inner, ahead = 0, tol, step
    points, held = 0.0, np.empty(0, np.int64)
    while True:
        chosen = np.flatnonzero(working)
        if chosen.size:
            block = problem.restricted(chosen)
            _follow(problem, block, chosen, penalty, ahead)
            ahead = 0.0
            used += descend(block, penalty, inner, most - used)
            problem.absorb(block, chosen)
            largest = largest_points(block.z, block.starts)
            points, held = float(largest.sum()), chosen[largest > 0]
        norms, energies = problem.norms(penalty), problem.energies()
        if energies[0] < _NEGATIVE:
            raise ValueError(indefinite())
        now = duality_gap(energies, penalty, points, float(norms.max()))
        if now.within(tol) or used >= most:
            return Solution(problem.z, problem.intercept(), held, *now, used)
        late = (norms > penalty) & ~working
        working |= late
        if not late.any():
            inner /= 10


def _follow(
    problem: Problem, block: Block, chosen: Places, penalty: float, step: float
) -> None:
    """Go on along the line through the last two solutions, if that is better."""
    if step > 0:
        z, state = problem.change(chosen)
        problem.remember()
        adopt(block, penalty, block.z + step * z, block.state + step * state)
