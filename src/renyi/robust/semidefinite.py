r"""Semidefinite programs: a linear program whose variables also fill some matrices.

``minimise cᵀx`` over a `Program` with, for each cone, a symmetric matrix S of entries
that are sums of variables, ``S ⪰ 0``. Solved by the interior points of Clarabel (the
extra ``exact``), which Ctrl-C ends after the step under way. Matrices travel as their
upper triangles, column by column, entries off the diagonal times √2, so that products
of matrices are products of vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.solvers import programs
from renyi.solvers.programs import Program

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Cone(NamedTuple):
    """A matrix that must be semidefinite: its triangle is ``entries @ x``."""

    order: int
    entries: sparse.csc_array

    @classmethod
    def of(
        cls, order: int, rows: Places, columns: Places, places: Places, size: int
    ) -> Cone:
        """Matrix in which x[places] are added to the entries (rows, columns).

        Rows are never beyond columns; `size` is the number of variables.

        >>> rows, columns = np.array([0, 0, 1]), np.array([0, 1, 1])
        >>> Cone.of(2, rows, columns, np.arange(3), 3).entries.toarray().round(3)
        array([[1.   , 0.   , 0.   ],
               [0.   , 1.414, 0.   ],
               [0.   , 0.   , 1.   ]])
        """
        triangle = columns * (columns + 1) // 2 + rows
        values = np.where(rows == columns, 1.0, np.sqrt(2))
        shape = (order * (order + 1) // 2, size)
        return cls(order, sparse.csc_array((values, (triangle, places)), shape=shape))


def nearest(triangle: Floats, order: int) -> Floats:
    """Triangle of the nearest semidefinite matrix.

    >>> nearest(np.array([1.0, 0.0, -1.0]), 2)
    array([1., 0., 0.])
    """
    b, a = np.tril_indices(order)  # the upper triangle, column by column
    factor = np.where(a == b, 1.0, np.sqrt(2))
    matrix = np.zeros((order, order))
    matrix[a, b] = matrix[b, a] = triangle / factor
    values, vectors = np.linalg.eigh(matrix)
    found = (vectors * np.maximum(values, 0)) @ vectors.T
    return np.asarray(found[a, b] * factor)


def solve_semidefinite(
    program: Program, cones: list[Cone], time_limit: float | None = None
) -> tuple[str, Floats, list[Floats]]:
    """Return status, multipliers of the rows, and the matrices' multipliers.

    The program has rows of equality and rows that are at least 0; its variables are
    free or not negative. Without Clarabel nothing is solved: the status is "missing".

    >>> entries = (np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 1, 2]))
    >>> fixed = sparse.csc_array(np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    >>> free, values = np.full(3, np.inf), np.array([4.0, 2.0])
    >>> least = Program(np.array([0, 0, 1.0]), fixed, values, values, -free, free)
    >>> status, duals, _ = solve_semidefinite(least, [Cone.of(2, *entries, 3)])
    >>> status, (duals @ values).round(5)  # x[2] ≥ 2²/4
    ('optimal', np.float64(1.0))
    """
    try:
        clarabel = programs.clarabel()
    except ImportError:
        return "missing", np.empty(0), []
    settings = programs.clarabel_settings(1e-9, time_limit, dependent=True)
    settings.max_threads = 1
    same = program.low == program.high
    rows = sparse.csr_array(program.A)
    signs = -sparse.eye_array(len(program.cost), format="csr")[program.lower == 0]
    triangles = [-cone.entries for cone in cones]
    A = sparse.csc_matrix(sparse.vstack([rows[same], -rows[~same], signs, *triangles]))
    b = np.zeros(A.shape[0])
    b[: same.sum()] = program.low[same]
    kinds = [
        clarabel.ZeroConeT(int(same.sum())),
        clarabel.NonnegativeConeT(int((~same).sum()) + signs.shape[0]),
        *(clarabel.PSDTriangleConeT(cone.order) for cone in cones),
    ]
    nothing = sparse.csc_matrix((len(program.cost), len(program.cost)))
    found = programs.interruptible(
        clarabel.DefaultSolver(nothing, program.cost, A, b, kinds, settings)
    )
    z = np.array(found.z)
    duals = np.zeros(len(program.low))
    duals[same] = -z[: same.sum()]
    duals[~same] = z[same.sum() : len(same)]
    first = len(same) + signs.shape[0]
    sizes = np.cumsum([part.shape[0] for part in triangles])
    names = {"Solved": "optimal", "AlmostSolved": "optimal"}
    status = names.get(str(found.status), "stopped")
    return status, duals, np.split(z[first:], sizes[:-1])
