"""What reports are made of in tests: tables of labels, and a model of genotypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import renyi
from renyi.genotypes.packed import PackedGenotypes, code_counts
from renyi.genotypes.scores import GenotypeScores


def frame(n: int, d: int, labels: int = 4, seed: int = 0) -> pd.DataFrame:
    """Return rows whose cells tell of which column they are."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, labels, (n, d))
    return pd.DataFrame({f"c{j}": [f"c{j}v{k}" for k in codes[:, j]] for j in range(d)})


def genotypes(d: int = 300) -> tuple[GenotypeScores, Any]:
    """Return a model of genotypes and a covariate, and the genotypes."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 60)
    copies = random.binomial(2, np.where(y == 1, 0.5, 0.3), (d, 60))
    G = PackedGenotypes.from_codes(np.array([3, 2, 0])[copies])
    clf = renyi.GenotypeClassifier().fit(
        G, y, covariates=random.normal(size=60)[:, None]
    )
    where = {"chromosome": "1", "position": range(d), "a1": "A", "a2": "G"}
    variants = pd.DataFrame({"id": [f"rs{j}" for j in range(d)], **where})
    more: dict[str, Any] = {"classes": ("control", "case"), "share": float(y.mean())}
    more |= {"covariates": {"age": float(clf.covariate_coef_[0])}}
    more |= {"intercept": clf.intercept_, "calibration": clf.calibration_}
    more |= {"meta": {"samples": 60, "loo_error": clf.loo_error_}}
    return GenotypeScores.from_counts(variants, clf.points_, code_counts(G), **more), G
