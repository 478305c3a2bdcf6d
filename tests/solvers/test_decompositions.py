"""Decompositions: contrasts of features, and the tridiagonal form."""

from __future__ import annotations

import numpy as np
import pytest

from renyi.solvers.decompositions import Contrasts, Tridiagonal
from support.joints import one_hot


@pytest.mark.parametrize("sizes", [(2,), (2, 2, 2), (1, 3, 2), (5, 1, 1, 4)])
def test_all_of_a_covariance_is_in_the_contrasts(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(sizes))
    codes = np.stack([rng.integers(0, m, 50) for m in sizes], axis=1)
    weights = rng.random(50)
    A = np.cov(one_hot(codes, sizes).T, aweights=weights, ddof=0)
    parts = Contrasts.of(np.array(sizes))
    small = parts.reduce(A)
    H = parts.expand(np.eye(len(small)))
    assert H.shape == (sum(sizes), sum(sizes) - len(sizes))
    np.testing.assert_allclose(H.T @ H, np.eye(H.shape[1]), atol=1e-14)
    np.testing.assert_allclose(H.T @ A @ H, small, atol=1e-14)
    np.testing.assert_allclose(H @ small @ H.T, A, atol=1e-14)
    idle = np.repeat(np.eye(len(sizes)), sizes, axis=0)  # ones of each feature
    np.testing.assert_allclose(idle.T @ H, 0, atol=1e-14)
    values = np.linalg.eigvalsh(A)[len(sizes) :]
    np.testing.assert_allclose(values, np.linalg.eigvalsh(small), atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_tridiagonal_systems_are_those_of_the_matrix(size: int) -> None:
    rng = np.random.default_rng(size)
    half, R = rng.normal(size=(size, size)), rng.normal(size=(size, 2))
    A = half @ half.T
    reduced = Tridiagonal.of(A)
    u = reduced.solve(reduced.rotate(R), 0.1)
    Z = reduced.rotate_back(u)
    np.testing.assert_allclose(A @ Z + 0.1 * Z, R, atol=1e-11)
    np.testing.assert_allclose(reduced @ u, reduced.rotate(A @ Z), atol=1e-11)
    values = np.linalg.eigvalsh(A)
    np.testing.assert_allclose(reduced.eigenvalues(), values, atol=1e-11)
