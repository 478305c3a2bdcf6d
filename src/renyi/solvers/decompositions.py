r"""Decompositions of the matrix A of the normal equations ``(A + alpha·I) Z = R``.

*Contrasts.* The indicators of a feature add up to one, so that ``Q_c``, their
covariance, maps the vector of ones of each feature to zero: of D directions d are idle
whatever the rows. A reflection of each feature's indicators turns these into its first
place. What is left are the contrasts, D − d orthonormal columns H, and
``Q_c = H (Hᵀ Q_c H) Hᵀ``. The eigenvectors of the smaller matrix are found sooner:
eight times where all features are binary.

*Tridiagonal form.* ``A = U T Uᵀ`` with U orthogonal and T tridiagonal. Then the system
is ``(T + alpha·I) (UᵀZ) = UᵀR``, which takes time linear in the size, and T has the
eigenvalues of A. U stays a product of reflections.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal, lapack

from renyi.counting.onehot import offsets

Floats = NDArray[np.float64]

INDEFINITE = (
    "The marginals are not positive semidefinite, so no rows can have them, or alpha "
    "is too small for their rounding errors: call validate() on them, or give a larger "
    "alpha."
)
_BLOCK = 64


def cholesky(A: Floats, alpha: float) -> Floats:
    """Return the lower factor L of ``A + alpha·I``."""
    M = A.copy(order="F")
    M.flat[:: len(M) + 1] += alpha
    L, info = lapack.dpotrf(M, lower=1, overwrite_a=1)
    if info:
        raise ValueError(INDEFINITE)
    return np.asarray(L)


def eigen(A: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, none below 0, and eigenvectors."""
    values, vectors = np.linalg.eigh(A)
    return _check_semidefinite(values), vectors


def _check_semidefinite(values: Floats) -> Floats:
    """Return eigenvalues with none below 0; clearly negative ones are an error."""
    if len(values) and values[0] < -1e-6 * max(1.0, values[-1]):
        raise ValueError(INDEFINITE)
    return np.maximum(values, 0)


def pseudo_inverse(values: Floats) -> Floats:
    """Return 1/values, and 0 for what is 0 but for rounding."""
    cutoff = values[-1] * len(values) * np.finfo(float).eps * 8
    positive = values > max(cutoff, 1e-14)
    return np.where(positive, 1 / np.where(positive, values, 1), 0)


def shrinkage(values: Floats, alphas: Floats) -> Floats:
    """Return 1/(values + alpha) with one column per alpha."""
    columns = [
        1 / (values + alpha) if alpha > 0 else pseudo_inverse(values)
        for alpha in alphas
    ]
    return np.stack(columns, axis=1)


class Contrasts(NamedTuple):
    """Orthonormal contrasts of features."""

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


class Tridiagonal(NamedTuple):
    """A positive semidefinite matrix in tridiagonal form."""

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
            return _check_semidefinite(self.diagonal)
        return _check_semidefinite(eigvalsh_tridiagonal(self.diagonal, self.off))

    def solve(self, C: Floats, alpha: float) -> Floats:
        """Solve (T + alpha·I) u = C; zeros where rounding leaves no positive pivots."""
        if not len(self.off):
            return np.asarray(C / (self.diagonal[:, None] + alpha))
        _, _, u, info = lapack.dptsv(self.diagonal + alpha, self.off, C)
        return np.asarray(u) if info == 0 else np.zeros_like(C)
