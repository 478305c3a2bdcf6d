"""Rows for tests of selection: two columns that matter, and noise."""

from __future__ import annotations

import numpy as np
import pandas as pd


def noisy(n=300, d=6, levels=3, seed=0, n_classes=2):
    """Rows whose class follows from the first two columns, the others being noise."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, (n, d))
    score = codes[:, 0] + 0.7 * codes[:, 1] + rng.normal(0, 0.6, n)
    cuts = np.quantile(score, np.arange(1, n_classes) / n_classes)
    y = np.searchsorted(cuts, score)
    X = pd.DataFrame(codes.astype(str), columns=[f"c{j}" for j in range(d)])
    return X, y
