"""(e) Prediction on the table of (b)."""

from __future__ import annotations

from timing import Section, extra, faster, measure, run  # isort: skip

from functools import partial

import numpy as np
from peers import one_hot_ridge, tall

import renyi

ALPHA = 1e-3


def benchmark() -> list[Section]:
    X, y = tall()
    return [_compare(X, y), _compare(X.astype(np.uint8), y)]


def _compare(X: np.ndarray, y: np.ndarray) -> Section:
    ours = renyi.RenyiClassifier(alpha=ALPHA).fit(X, y)
    pipeline = one_hot_ridge(len(X) * ALPHA).fit(X, y)
    tasks = {
        "RenyiClassifier.predict": partial(ours.predict, X),
        "RenyiClassifier.predict_proba": partial(ours.predict_proba, X),
        "OneHotEncoder + RidgeClassifier, predict": partial(pipeline.predict, X),
    }
    timings = measure(tasks, 3)
    agree = (ours.predict(X) == pipeline.predict(X)).mean()
    assert agree > 0.999
    mine, _, peer = tasks
    claims = [
        faster("faster than OneHotEncoder + RidgeClassifier", 5, mine, [peer], timings)
    ]
    notes = [f"the two agree on {100 * agree:.3f} % of the rows."]
    title = f"1,000,000 x 20 x 10 categories, {X.dtype}, {extra()}"
    return Section(title, timings, claims, notes=notes)


if __name__ == "__main__":
    run("predict", "(e) Prediction on a million rows", benchmark)
