"""The path over packed genotypes is that over all variants."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from renyi.counting.packed import PackedGenotypes
from renyi.solvers import l1inf_genotypes
from renyi.solvers.l1inf import RowsProblem
from renyi.solvers.l1inf_genotypes import genotype_path
from renyi.solvers.l1inf_path import solve_path
from renyi.warnings import DataWarning


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(4)
    n, d = 60, 400
    y = rng.integers(0, 2, n)
    shift = np.where(np.arange(d)[:, None] % 40 == 0, 0.25 * y, 0)
    codes = np.array([3, 2, 0])[rng.binomial(2, 0.3 + shift, (d, n))]
    codes[rng.random((d, n)) < 0.05] = 1
    return codes, y, PackedGenotypes.from_codes(codes)


def test_few_variants_lead_to_the_solution_over_all(study, monkeypatch):
    codes, y, G = study
    monkeypatch.setattr(l1inf_genotypes, "START", 8)
    path = genotype_path(G, y, n_lambdas=5, ratio=0.5)
    whole = solve_path(RowsProblem(codes, np.full(len(codes), 4), y, 2), path.lambdas)
    assert 8 < path.looked_at < 100
    assert (path.gaps <= 1e-4 * path.objectives).all()
    # Both are above the optimum, each by at most its gap.
    assert (path.objectives <= whole.objectives + 1e-12 + path.gaps).all()
    assert (whole.objectives <= path.objectives + whole.gaps + 1e-12).all()
    assert path.points.shape == (5, len(path.variants), 4)
    assert not path.points[0].any() or path.variants[0] % 40 == 0


def test_a_path_that_is_given_up_is_told_of(study, monkeypatch):
    monkeypatch.setattr(l1inf_genotypes, "START", 2)
    monkeypatch.setattr(l1inf_genotypes, "_ROUNDS", 1)
    with pytest.warns(DataWarning, match="were still to be added"):
        path = genotype_path(study[2], study[1], n_lambdas=5, ratio=0.3)
    assert (path.gaps > 1e-4 * path.objectives).any()


def test_values_are_those_of_the_points(study):
    codes, y, G = study
    path = genotype_path(G, y, n_lambdas=4)
    for lam, z, b, value in zip(
        path.lambdas, path.points, path.intercepts, path.objectives, strict=True
    ):
        scores = b + sum(
            (points[codes[j]] for j, points in zip(path.variants, z, strict=True)),
            np.zeros(len(y)),
        )
        gamma = np.mean((y - 0.5 - scores) ** 2)
        assert_allclose(gamma + lam * np.abs(z).max(axis=1).sum(), value, rtol=1e-9)


def test_what_cannot_be_chosen_from_is_named(study):
    _, y, G = study
    with pytest.raises(ValueError, match="two classes"):
        genotype_path(G, np.arange(G.n) % 3)
    with pytest.raises(ValueError, match="ratio"):
        genotype_path(G, y, ratio=2)
