"""Random joint tables, and what is counted of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from renyi import Marginals
from renyi.baselines.trees import ClassTables
from renyi.datasets import random_joint
from support.joints import outcomes


def draw(seed: int, largest: int = 300) -> np.ndarray:
    """A table of up to six columns: dense, with empty cells, or with nearly empty."""
    rng = np.random.default_rng(seed)
    K, kind = int(rng.integers(2, 4)), seed % 3
    sizes = rng.integers(2, 5, rng.integers(1, 7))
    while np.prod(sizes) > largest:
        sizes = sizes[:-1]
    while True:
        table = random_joint(tuple(sizes), K, random_state=rng)
        if kind == 1:
            table = rng.multinomial(40, table.ravel()).reshape(table.shape) / 40
        elif kind == 2:
            table = np.where(rng.random(table.shape) < 0.5, 1e-9 * table, table)
            table = table / table.sum()
        axes = range(table.ndim)
        margins = [table.sum(axis=tuple(set(axes) - {i})) for i in axes]
        if min(margin.min() for margin in margins) > 0:
            return table


def marginals(table: np.ndarray, class_conditional: bool = False) -> Marginals:
    codes = outcomes(table.shape).astype(str)
    names = [f"x{i}" for i in range(table.ndim - 1)]
    X = pd.DataFrame(codes[:, :-1], columns=names)
    return Marginals.from_data(
        X,
        pd.Series(codes[:, -1], name="y"),
        sample_weight=table.ravel(),
        class_conditional=class_conditional,
    )


def grid(table: np.ndarray) -> np.ndarray:
    return outcomes(table.shape[:-1])


def random_table(seed: int) -> np.ndarray:
    """A joint table of 3 or 4 features and 2 to 4 classes; some have empty cells."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 4, size=3 + seed % 2).tolist())
    table = random_joint(sizes, (2, 2, 3, 4)[seed % 4], random_state=rng)
    if seed % 3 == 0:
        table = table * (rng.random(table.shape) < 0.6)
        table[(0,) * len(sizes)] += 0.01  # every class remains
        table /= table.sum()
    return table


def class_tables(table: np.ndarray) -> ClassTables:
    """Return the class-conditional pairs that trees of features are made of."""
    codes = outcomes(table.shape).astype(str)
    m = Marginals.from_data(
        np.vstack([codes[:, :-1]] * 2),
        np.tile(codes[:, -1], 2),
        # Every category is known, also those without mass.
        sample_weight=np.concatenate([table.ravel(), np.full(table.size, 1e-300)]),
        class_conditional=True,
    )
    return ClassTables(m.class_counts / m.n, m.encoder.columns, m._column(m.target))
