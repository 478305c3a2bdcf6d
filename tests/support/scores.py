"""Small studies in memory, models of random points for them, and plain scores."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from renyi.genotypes.packed import PackedGenotypes, code_counts
from renyi.genotypes.scores import GenotypeScores

COLUMNS = ["chromosome", "id", "position", "a1", "a2"]


def variants_of(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def study(codes, variants, path="study.bed"):
    codes = np.asarray(codes, np.uint8)
    packed = PackedGenotypes.from_codes(codes)
    return SimpleNamespace(packed=packed, variants=variants, path=path, codes=codes)


def random_study(n=37, d=60, seed=0, alleles=("A", "G")):
    """Genotypes with missing ones, on two chromosomes."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, (d, n), p=[0.2, 0.1, 0.4, 0.3])
    rows = [(str(1 + 2 * k // d), f"rs{k}", 1000 + k, *alleles) for k in range(d)]
    return study(codes, variants_of(*rows))


def model_of(data, seed=1, **others):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(len(data.variants), 4))
    counts = code_counts(data.packed)
    return GenotypeScores.from_counts(data.variants, points, counts, **others)


def plain_scores(model, codes):
    rows = np.arange(len(codes))[:, None]
    return model.points[rows, codes].sum(axis=0) + model.intercept


def check_scores(found, model, codes):
    np.testing.assert_allclose(found.scores, plain_scores(model, codes), atol=1e-12)
