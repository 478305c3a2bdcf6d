"""(b) A million rows of 20 columns of 10 categories, as integer codes.

All solve the same ridge regression, which the benchmark checks. The peer from
scikit-learn is the pipeline with the faster solver. The peer from tabmat finds the
categories itself, as OneHotEncoder and RenyiClassifier do.
"""

from __future__ import annotations

from timing import WITHOUT_FAST, Section, extra, faster, measure, run  # isort: skip

from functools import partial

import numpy as np
from peers import fit_task, one_hot_ridge, tabmat_ridge, tall

import renyi

ALPHA = 1e-3
CATEGORIES = 10


def benchmark() -> list[Section]:
    X, y = tall()
    return [_compare(X, y), _compare(X.astype(np.uint8), y)]


def _compare(X: np.ndarray, y: np.ndarray) -> Section:
    n = len(X)
    ours = renyi.RenyiClassifier(alpha=ALPHA)
    tasks = {
        "RenyiClassifier": fit_task(ours, X, y),
        "RenyiClassifier, alpha='auto'": fit_task(renyi.RenyiClassifier(), X, y),
        "tabmat": partial(tabmat_ridge, X, y, ALPHA),
        "tabmat, codes trusted": partial(tabmat_ridge, X, y, ALPHA, CATEGORIES),
        "OneHotEncoder + RidgeClassifier": fit_task(one_hot_ridge(n * ALPHA), X, y),
        "the same, solver='lsqr'": fit_task(one_hot_ridge(n * ALPHA, "lsqr"), X, y),
    }
    timings = measure(tasks, 3)
    _check_same_model(tasks)
    targets = (2.5, 6) if WITHOUT_FAST else (8, 20)
    name = "RenyiClassifier"
    claims = [
        faster("faster than tabmat", targets[0], name, ["tabmat"], timings),
        faster(
            "faster than OneHotEncoder + RidgeClassifier, the faster solver",
            targets[1],
            name,
            list(tasks)[4:],
            timings,
        ),
    ]
    title = f"1,000,000 x 20 x 10 categories, {X.dtype}, {extra()}"
    return Section(title, timings, claims)


def _check_same_model(tasks: dict[str, partial]) -> None:
    z = tasks["RenyiClassifier"]().z_
    by_tabmat, _ = tasks["tabmat"]()
    by_pipeline = tasks["OneHotEncoder + RidgeClassifier"]()[-1].coef_.ravel() / 2
    assert np.allclose(z, by_tabmat, atol=1e-9)
    assert np.allclose(z, by_pipeline, atol=1e-3)  # iterative, hence less exact


if __name__ == "__main__":
    run("tall", "(b) Tall: a million rows, 20 columns", benchmark)
