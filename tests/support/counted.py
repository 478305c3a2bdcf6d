"""Random joint tables, and what is counted of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from renyi import Marginals, RenyiClassifier, Scorecard
from renyi.baselines.dcc import ClassTables
from renyi.datasets import random_joint
from support.joints import outcomes

MODELS = ("minimiser", "ridge", "random", "rounded", "zero", "huge", "wrong")


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


def marginals(
    table: np.ndarray, class_conditional: bool = False, n: float = 1.0
) -> Marginals:
    """Marginals of a joint table, as of n rows that are weighted by it."""
    codes = outcomes(table.shape).astype(str)
    names = [f"x{i}" for i in range(table.ndim - 1)]
    X = pd.DataFrame(codes[:, :-1], columns=names)
    return Marginals.from_data(
        X,
        pd.Series(codes[:, -1], name="y"),
        sample_weight=n * table.ravel(),
        class_conditional=class_conditional,
    )


def marginals_of(table: np.ndarray) -> Marginals:
    """Marginals of a joint table, by the road for counts in long format."""
    names = [f"x{i}" for i in range(table.ndim - 1)]
    frame = pd.DataFrame(outcomes(table.shape), columns=[*names, "y"])
    return Marginals.from_tables([frame.assign(count=table.ravel())], target="y")


def make_card(m: Marginals, model: str, seed: int = 0) -> Scorecard:
    """A scorecard of the wanted sort, good or bad, with the marginals' encoder."""
    alpha = {"minimiser": 0.0, "ridge": 0.05}.get(model, 0.01)
    card = RenyiClassifier(alpha=alpha).fit_marginals(m).scorecard_
    rng = np.random.default_rng(seed)
    if model == "random":
        z, b = rng.normal(size=card.z.shape), rng.normal(size=card.intercept.shape)
        return replace(card, z=0.3 * z, intercept=np.asarray(0.3 * b))
    if model == "rounded":
        return replace(card, z=card.z.round(1), intercept=card.intercept.round(1))
    factor = {"zero": 0.0, "huge": 1e3, "wrong": -1.0}.get(model, 1.0)
    return replace(card, z=factor * card.z, intercept=factor * card.intercept)


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
    return ClassTables(
        m.class_counts / m.n, m.encoder.columns, m.columns.named(m.target)
    )
