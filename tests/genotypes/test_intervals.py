"""The interval of a genotype fit's AUC covers, by simulation, with and without signal.

The truth is one half where classes are drawn at random, and the AUC on 2,000 new
samples where variants differ between the classes.
"""

from __future__ import annotations

import numpy as np
import pytest

from renyi import GenotypeClassifier
from renyi.genotypes.packed import PackedGenotypes
from renyi.solvers.metrics import auc, left_out_auc

NEW = 2_000


def genotypes(rng, y, d, effect):
    frequencies = rng.uniform(0.1, 0.5, (d, 1))
    shift = effect * rng.normal(size=(d, 1))
    shares = np.clip(frequencies + np.where(y == 1, shift, -shift), 0.01, 0.99)
    return np.array([3, 2, 0])[rng.binomial(2, shares)]


def covered(rng, n, d, effect, **settings):
    """Whether the interval of one fit holds the AUC of this fit on new samples."""
    y = rng.integers(0, 2, n + (NEW if effect else 0))
    codes = genotypes(rng, y, d, effect)
    model = GenotypeClassifier(**settings)
    model.fit(PackedGenotypes.from_codes(codes[:, :n]), y[:n])
    truth = 0.5
    if effect:
        new = PackedGenotypes.from_codes(codes[:, n:])
        truth = auc(model.decision_function(new), y[n:])[0]
    low, high = model.metrics_.auc_interval
    return low <= truth <= high


def coverage(fits, *case, seed=0, **settings):
    rng = np.random.default_rng(seed)
    return np.mean([covered(rng, *case, **settings) for _ in range(fits)])


@pytest.mark.parametrize("case", [(40, 100, 0.0), (40, 100, 0.03)])
def test_the_interval_of_left_out_scores_covers(case):
    # Of 300 fits with coverage 0.95, fewer than 0.92 are covered once in 100 times.
    assert coverage(300, *case) >= 0.92


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [
        (20, 100, 0.0),
        (40, 1000, 0.0),
        (100, 300, 0.0),
        (200, 50, 0.0),
        (40, 100, 0.05),
        (100, 30, 0.05),
        (100, 300, 0.02),
        (100, 300, 0.04),
    ],
)
def test_the_interval_covers_in_many_studies(case):
    assert coverage(1_500, *case, seed=1) >= 0.945


@pytest.mark.long
@pytest.mark.parametrize("families, size", [(20, 4), (60, 3)])
def test_the_interval_covers_in_many_studies_of_families(families, size):
    rng = np.random.default_rng(5)
    intervals = [family_interval(rng, families, size, 60) for _ in range(600)]
    assert np.mean([low <= 0.5 <= high for low, high in intervals]) >= 0.94


@pytest.mark.long
def test_the_interval_of_folds_covers():
    assert coverage(600, 60, 100, 0.0, solver="cg", random_state=0) >= 0.94


def family_interval(rng, families, size, d):
    """Return the interval of a fit to families whose class is drawn at random."""
    family = np.repeat(np.arange(families), size)
    y = rng.permutation(families)[family] % 2
    frequencies = rng.uniform(0.1, 0.5, (d, 1)) * np.ones((1, len(y)))
    shared = rng.binomial(1, frequencies[:, :families])[:, family]
    codes = np.array([3, 2, 0])[shared + rng.binomial(1, frequencies)]
    model = GenotypeClassifier()
    model.fit(PackedGenotypes.from_codes(codes), y, groups=family)
    return model.metrics_.auc_interval


def test_the_interval_covers_where_families_are_left_out():
    rng = np.random.default_rng(4)
    intervals = [family_interval(rng, 20, 4, 60) for _ in range(200)]
    assert np.mean([low <= 0.5 <= high for low, high in intervals]) >= 0.91


def test_perfect_ranking_of_left_out_scores_counts_fewer_pairs():
    y = np.repeat([0, 1], 9)
    assert left_out_auc(np.arange(18), y)[1] == pytest.approx(0.025 ** (2.25 / 9))
