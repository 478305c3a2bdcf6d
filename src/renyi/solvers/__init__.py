"""Solvers: arrays to numbers. They know neither tables nor models.

`Solver` is what a new one must be to make a `Scorecard`, which anyone can certify.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Solver(Protocol):
    """From ``Q = E[W Wᵀ]`` and ``F = E[W e_Yᵀ]`` to points (D, K) and intercept (K,).

    A row's estimate of P(y|x) is ``1/K`` plus the intercept plus its points.
    """

    def __call__(
        self, Q: NDArray[np.float64], F: NDArray[np.float64], /
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Solve."""
        ...
