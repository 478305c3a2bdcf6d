"""(c) adult, 48,842 rows: the same binned frame of strings or categoricals for all."""

from __future__ import annotations

from timing import Section, extra, faster, measure, run  # isort: skip

import pandas as pd
from peers import binned_adult, fit_task, one_hot_ridge

import renyi

ALPHA = 1e-3


def benchmark() -> list[Section]:
    X, y = binned_adult()
    frames = {
        "str columns": X,
        "object columns": X.astype(object),
        "categorical columns": X.astype("category"),
    }
    return [_compare(kind, frame, y) for kind, frame in frames.items()]


def _compare(kind: str, X: pd.DataFrame, y: pd.Series) -> Section:
    penalty = len(X) * ALPHA
    tasks = {
        "RenyiClassifier": fit_task(renyi.RenyiClassifier(alpha=ALPHA), X, y),
        "RenyiClassifier, alpha='auto'": fit_task(renyi.RenyiClassifier(), X, y),
        "OneHotEncoder + RidgeClassifier(solver='lsqr')": fit_task(
            one_hot_ridge(penalty, "lsqr"), X, y
        ),
        "the same, default solver": fit_task(one_hot_ridge(penalty), X, y),
    }
    timings = measure(tasks, 7)
    claim = "faster than OneHotEncoder + RidgeClassifier(solver='lsqr')"
    ours, auto, peer, _ = tasks
    claims = [
        faster(claim, 3, ours, [peer], timings),
        faster(f"alpha='auto' {claim}", 3, auto, [peer], timings),
    ]
    agree = (tasks[ours]().predict(X) == tasks[peer]().predict(X)).mean()
    assert agree > 0.995
    notes = [f"the two agree on {100 * agree:.2f} % of the rows."]
    return Section(f"{kind}, {extra()}", timings, claims, notes=notes)


if __name__ == "__main__":
    run("adult", "(c) adult: 48,842 rows, 14 binned columns", benchmark)
