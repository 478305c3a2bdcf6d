"""Log loss on held-out rows: calibrated scores and one-hot logistic regression.

The data are the bundled sets of two classes, generated tables of three to six classes
with additive logits, and the age of adult in five bins. The peer is LogisticRegression
on one-hot columns, with C chosen by threefold cross-validation of the log loss.
"""

from __future__ import annotations

from timing import Section, run  # isort: skip

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from accuracy import SPLITS, splits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi

LIMITS = {"votes": 0.12, "credit": 0.36, "kr-vs-kp": 0.16, "promoters": 0.32}
PENALTIES = (0.1, 1.0, 10.0)
WITHIN = 1.1
PEER_SPLITS = 5  # which take longer than all else
TITLES = ("calibration=None", "default", "logistic regression")


def benchmark() -> list[Section]:
    two = [_two_classes(name, limit) for name, limit in LIMITS.items()]
    note = (
        f"{SPLITS} random splits, seeds 0 to {SPLITS - 1}, 70 % of the rows to train "
        "on; mean log loss, a probability of 0 counting as 1e-15. Logistic regression "
        f"on the first {PEER_SPLITS} of these splits."
    )
    many = [_row(name, X, y, n) for name, X, y, n in tables()]
    return [
        Section("Two classes", table=two, notes=[note]),
        Section(
            "Three classes and more",
            table=many,
            notes=[
                "rows: those trained on; the same split for all. generated: 8 columns "
                "of 4 categories, the logit of each class a sum over the columns. "
                "ordered: the same for one sum, whose multiples are the logits. 10,000 "
                "other rows are predicted."
            ],
        ),
    ]


def tuned() -> GridSearchCV:
    """Return one-hot logistic regression with the C of least log loss."""
    peer = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=500)
    )
    grid = {"logisticregression__C": PENALTIES}
    return GridSearchCV(peer, grid, scoring="neg_log_loss", cv=3)


def binned(X: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of strings, numbers in five bins."""
    encoder, codes = renyi.Encoder(bins=5).fit_transform(X)
    names = encoder.feature_names
    return pd.DataFrame(codes.T.astype(str), columns=list(names))


def log_loss(model: Any, X: Any, y: Any) -> tuple[float, float, float]:
    """Return log loss, error and least probability on rows."""
    p, truth = model.predict_proba(X), np.searchsorted(model.classes_, y)
    own = p[np.arange(len(p)), truth]
    wrong = float((model.predict(X) != np.asarray(y)).mean())
    return float(-np.log(np.maximum(own, 1e-15)).mean()), wrong, float(p.min())


def _models() -> dict[str, Any]:
    plain = renyi.RenyiClassifier(calibration=None)
    return dict(zip(TITLES, (plain, renyi.RenyiClassifier(), tuned()), strict=True))


def _two_classes(name: str, limit: float) -> dict[str, str]:
    X, y = renyi.datasets.load(name)
    cells = binned(X)
    found: dict[str, list[tuple[float, float, float]]] = {t: [] for t in TITLES}
    for k, (train, test) in enumerate(splits(len(y))):
        for title, model in _models().items():
            if title == TITLES[-1] and k >= PEER_SPLITS:
                continue
            table = cells if title == TITLES[-1] else X
            model.fit(table.iloc[train], y.iloc[train])
            found[title].append(log_loss(model, table.iloc[test], y.iloc[test]))
    means = {title: np.mean(rows, axis=0) for title, rows in found.items()}
    least = min(row[2] for row in found["default"])
    good = means["default"][0] <= limit and least > 0
    return {
        "data": name,
        **{title: f"{means[title][0]:.3f}" for title in TITLES},
        "least probability": f"{least:.1e}",
        "limit": f"{limit:g}",
        "within": "yes" if good else "**no**",
    }


def tables() -> Iterator[tuple[str, pd.DataFrame, np.ndarray, int]]:
    """Yield names, cells, classes and the number of rows to train on."""
    for K in (3, 4, 5, 6):
        for n in (300, 3000):
            yield f"generated, {K} classes", *generated(K, n + 10_000, K), n
    for K in (3, 5):
        yield f"ordered, {K} classes", *generated(K, 12_000, K, ordered=True), 2000
    X, _ = renyi.datasets.load("adult")
    order = np.random.default_rng(0).permutation(len(X))
    ages = pd.qcut(X["age"], 5, labels=False).to_numpy()
    cells = binned(X.drop(columns="age")).iloc[order]
    yield "adult, age in five bins", cells, ages[order], 4000


def generated(
    K: int, n: int, seed: int, ordered: bool = False
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table whose classes have logits that add up over the columns."""
    random = np.random.default_rng(seed)
    cells = random.integers(0, 4, (n, 8))
    points = random.normal(size=(8, 4, 1 if ordered else K))
    g = sum(points[j][cells[:, j]] for j in range(8))
    if ordered:
        places = np.arange(K) - (K - 1) / 2
        g = 3 * places * g / g.std() - 1.2 * places**2
    y = (g + random.gumbel(size=(n, K))).argmax(axis=1)
    names = [f"q{j}" for j in range(8)]
    return pd.DataFrame(cells.astype(str), columns=names), y


def _row(name: str, X: pd.DataFrame, y: np.ndarray, n: int) -> dict[str, str]:
    found = {}
    for title, model in _models().items():
        model.fit(X.iloc[:n], y[:n])
        found[title] = log_loss(model, X.iloc[n : n + 10_000], y[n : n + 10_000])
    losses, errors, _ = zip(*found.values(), strict=True)
    good = losses[1] <= WITHIN * losses[2] and errors[1] <= WITHIN * errors[2]
    return {
        "data": name,
        "rows": f"{n:,}",
        **{f"{title}, log loss": f"{found[title][0]:.3f}" for title in TITLES},
        **{f"{title}, error %": f"{100 * found[title][1]:.1f}" for title in TITLES},
        "within 10 %": "yes" if good else "**no**",
    }


if __name__ == "__main__":
    run(
        "calibration", "Probabilities: log loss on held-out rows", benchmark, both=False
    )
