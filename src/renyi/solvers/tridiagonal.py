"""Tridiagonal form of a symmetric matrix: many shifted systems for one reduction.

``A = U T Uᵀ`` with U orthogonal and T tridiagonal. Then ``(A + alpha·I) Z = R`` is
``(T + alpha·I) (UᵀZ) = UᵀR``, which takes time linear in the size, and T has the
eigenvalues of A. U stays a product of reflections.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal, lapack

Floats = NDArray[np.float64]

INDEFINITE = (
    "The marginals are not positive semidefinite, so no rows can have them, or alpha "
    "is too small for their rounding errors: call validate() on them, or give a larger "
    "alpha."
)
_BLOCK = 64


def refuse_indefinite(values: Floats) -> Floats:
    """Return eigenvalues with none below 0; clearly negative ones are an error."""
    if values[0] < -1e-6 * max(1.0, values[-1]):
        raise ValueError(INDEFINITE)
    return np.maximum(values, 0)


class Tridiagonal(NamedTuple):
    """A positive semidefinite matrix in tridiagonal form.

    Examples
    --------
    >>> A = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, 1.0, 4.0]])
    >>> reduced, R = Tridiagonal.of(A), np.ones((3, 1))
    >>> Z = reduced.rotate_back(reduced.solve(reduced.rotate(R), 0.1))
    >>> np.allclose((A + 0.1 * np.eye(3)) @ Z, R)
    True
    """

    diagonal: Floats
    off: Floats
    reflections: Floats
    scales: Floats

    @classmethod
    def of(cls, A: Floats) -> Tridiagonal:
        """Reduce a symmetric matrix."""
        if len(A) == 1:
            return cls(A[0].copy(), np.empty(0), np.empty((0, 0)), np.empty(0))
        packed, diagonal, off, scales, info = lapack.dsytrd(
            A, lower=1, lwork=_BLOCK * len(A)
        )
        assert info == 0
        return cls(diagonal, off, packed[1:, :-1], scales)

    def rotate(self, R: Floats) -> Floats:
        """Return UᵀR."""
        return self._reflected(R, "T")

    def rotate_back(self, R: Floats) -> Floats:
        """Return U R."""
        return self._reflected(R, "N")

    def _reflected(self, R: Floats, transpose: str) -> Floats:
        out = np.array(R, np.float64, order="F")
        if len(self.off):  # the first row stays as it is
            out[1:], _, info = lapack.dormqr(
                "L",
                transpose,
                self.reflections,
                self.scales,
                out[1:],
                _BLOCK * out.shape[1] + _BLOCK * _BLOCK,
            )
            assert info == 0
        return out

    def __matmul__(self, u: Floats) -> Floats:
        """Return T u."""
        out = self.diagonal[:, None] * u
        out[1:] += self.off[:, None] * u[:-1]
        out[:-1] += self.off[:, None] * u[1:]
        return out

    def eigenvalues(self) -> Floats:
        """Return the eigenvalues, ascending; clearly negative ones are an error."""
        if not len(self.off):
            return refuse_indefinite(self.diagonal)
        return refuse_indefinite(eigvalsh_tridiagonal(self.diagonal, self.off))

    def solve(self, C: Floats, alpha: float) -> Floats:
        """Solve (T + alpha·I) u = C; zeros where rounding leaves no positive pivots."""
        if not len(self.off):
            return np.asarray(C / (self.diagonal[:, None] + alpha))
        _, _, u, info = lapack.dptsv(self.diagonal + alpha, self.off, C)
        return np.asarray(u) if info == 0 else np.zeros_like(C)
