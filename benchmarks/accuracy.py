"""Error on held-out rows: 20 random splits of every bundled set, default settings.

The error of a randomised rule is its expectation, 1 minus the probability of the true
class, so nothing is drawn. For kr-vs-kp there are three more tables: error against
alpha, error on the training rows, and scikit-learn's ridge regression on the same
splits.
"""

from __future__ import annotations

from timing import Section, run  # isort: skip

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from peers import one_hot_ridge

import renyi

SPLITS = 20
LIMITS = {
    "votes": 4.5,
    "credit": 13.5,
    "kr-vs-kp": 5.5,
    "promoters": 12.0,
    "adult": 15.5,
}
RULES = ("map", "sharp", "renyi")
ALPHAS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


def benchmark() -> list[Section]:
    rows = [_row(name, limit) for name, limit in LIMITS.items()]
    notes = [
        f"{SPLITS} random splits, seeds 0 to {SPLITS - 1}, 70 % of the rows to train "
        "on; percent, mean and standard error of the mean over the splits.",
    ]
    errors = Section("Error on held-out rows", table=rows, notes=notes)
    return [errors, *_closer_look("kr-vs-kp")]


def splits(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows to train on and rows to test on."""
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(n)
        cut = round(0.7 * n)
        yield order[:cut], order[cut:]


def _row(name: str, limit: float) -> dict[str, str]:
    X, y = renyi.datasets.load(name)
    errors: dict[str, list[float]] = {rule: [] for rule in RULES}
    majority = []
    for train, test in splits(len(y)):
        clf = renyi.RenyiClassifier().fit(X.iloc[train], y.iloc[train])
        truth = np.searchsorted(clf.classes_, y.iloc[test])
        for rule in RULES:
            proba = clf.rule_proba(X.iloc[test], rule)
            errors[rule].append(1 - proba[np.arange(len(test)), truth].mean())
        majority.append((y.iloc[test] != y.iloc[train].mode()[0]).mean())
    means = [np.mean(errors[rule]) for rule in RULES]
    return {
        "data": name,
        **{rule: _percent(errors[rule]) for rule in RULES},
        "majority": _percent(majority),
        "limit for map": limit,
        "within": "yes" if 100 * means[0] <= limit else "**no**",
        "map ≤ sharp ≤ renyi": "yes" if means == sorted(means) else "**no**",
    }


def _percent(errors: list[float]) -> str:
    deviation = np.std(errors, ddof=1) / np.sqrt(len(errors))
    return f"{100 * np.mean(errors):.2f} ± {100 * deviation:.2f}"


def _closer_look(name: str) -> list[Section]:
    X, y = renyi.datasets.load(name)
    models = {"RenyiClassifier()": renyi.RenyiClassifier()}
    for alpha in ALPHAS:
        models[f"RenyiClassifier(alpha={alpha:g})"] = renyi.RenyiClassifier(alpha=alpha)
    models["OneHotEncoder + RidgeClassifier(1)"] = one_hot_ridge(1.0)
    rows = [
        {
            "model": title,
            "held-out error, %": _percent(_errors(model, X, y)),
            "error of a fit on all rows, on these, %": _in_sample(model, X, y),
        }
        for title, model in models.items()
    ]
    notes = [
        "all rows of the table fit the same additive score by least squares, with more "
        "or less penalty; the last column is the error where nothing is held out."
    ]
    return [Section(f"A closer look at {name}", table=rows, notes=notes)]


def _errors(model: Any, X: pd.DataFrame, y: pd.Series) -> list[float]:
    errors = []
    for train, test in splits(len(y)):
        model.fit(X.iloc[train], y.iloc[train])
        errors.append(float((model.predict(X.iloc[test]) != y.iloc[test]).mean()))
    return errors


def _in_sample(model: Any, X: pd.DataFrame, y: pd.Series) -> str:
    return f"{100 * (model.fit(X, y).predict(X) != y).mean():.2f}"


if __name__ == "__main__":
    run("accuracy", "Accuracy on the bundled data sets", benchmark, both=False)
