"""Solvers: functions of arrays, without knowledge of tables or models.

Write a function with the signature of `Solver` to add a solver. `Scorecard.solve` turns
its result into a scorecard, which `certify` accepts.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Solver(Protocol):
    """Compute points (D, K) and intercept (K,) from ``Q = E[W Wᵀ]``, ``F = E[W e_Yᵀ]``.

    The estimate of P(y|x) at a row is ``1/K`` plus the intercept plus its points.
    """

    def __call__(
        self, Q: NDArray[np.float64], F: NDArray[np.float64], /
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Solve."""
        ...
