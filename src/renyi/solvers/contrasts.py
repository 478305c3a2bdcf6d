r"""Contrasts: the directions in which the indicators of features vary.

The indicators of a feature add up to one, so that ``Q_c``, their covariance, maps the
vector of ones of each feature to zero: of D directions d are idle whatever the rows. A
reflection of each feature's indicators turns these into its first place. What is left
are the contrasts, D − d orthonormal columns H, and

.. math:: Q_c = H (H^T Q_c H) H^T.

The eigenvectors of the smaller matrix are found sooner: eight times where all features
are binary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets

Floats = NDArray[np.float64]


class Contrasts(NamedTuple):
    """Orthonormal contrasts of features.

    Examples
    --------
    >>> parts = Contrasts.of(np.array([2, 3]))
    >>> H = parts.expand(np.eye(3))
    >>> np.allclose(H.T @ H, np.eye(3)), np.allclose(np.ones(5) @ H, 0)
    (True, True)
    >>> A = H @ np.diag([1.0, 2.0, 3.0]) @ H.T
    >>> np.allclose(parts.reduce(A), np.diag([1.0, 2.0, 3.0]))
    True
    """

    mirror: Floats  # of each feature a vector of length √2, orthogonal to the mirror
    starts: NDArray[np.int64]
    sizes: NDArray[Any]

    @classmethod
    def of(cls, sizes: NDArray[Any]) -> Contrasts:
        """Contrasts of features with these numbers of categories."""
        starts = offsets(sizes)[:-1]
        mirror = np.repeat(1 / np.sqrt(sizes), sizes)
        mirror[starts] -= 1
        norms = np.sqrt(np.add.reduceat(mirror**2, starts) / 2)
        norms[norms == 0] = 1  # a single category has nothing to vary
        return cls(mirror / np.repeat(norms, sizes), starts, np.asarray(sizes))

    def reduce(self, A: Floats) -> Floats:
        """Return HᵀAH."""
        half = np.delete(self._reflected(A), self.starts, axis=0)
        return np.delete(self._reflected(half.T), self.starts, axis=0).T

    def expand(self, V: Floats) -> Floats:
        """Return H V."""
        whole = np.zeros((len(self.mirror), V.shape[1]))
        kept = np.ones(len(whole), bool)
        kept[self.starts] = False
        whole[kept] = V
        return self._reflected(whole)

    def _reflected(self, M: Floats) -> Floats:
        sums = np.add.reduceat(self.mirror[:, None] * M, self.starts, axis=0)
        return np.asarray(
            M - self.mirror[:, None] * np.repeat(sums, self.sizes, axis=0)
        )
