"""(a) Few rows of 10,000 binary columns: the paper's synthetic set.

RenyiClassifier penalises both indicators x and 1 - x of a column. Their centred forms
differ in sign alone, so the points are +-beta/2 and cost alpha·beta²/2. This is ridge
regression on the raw column with half the penalty, n·alpha/2 in the units of
scikit-learn. The benchmark checks that the two agree on every row.
"""

from __future__ import annotations

from timing import Section, extra, faster, measure, run  # isort: skip

import numpy as np
from peers import fit_task
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import SVC

import renyi

SEED = 10  # both classes, the smaller one on about a sixth of the rows, as on average
ALPHA = 10.0
TRAIN = 170
PEERS = ("RenyiClassifier", "RidgeClassifier", "SVC(kernel='linear')")


def benchmark() -> list[Section]:
    X, y = renyi.datasets.make_linear(200, 10_000, random_state=SEED)
    train, test = slice(TRAIN), slice(TRAIN, None)
    ours = renyi.RenyiClassifier(alpha=ALPHA)
    ridge = RidgeClassifier(alpha=TRAIN * ALPHA / 2)
    models = {
        "RenyiClassifier": (ours, X),
        "RidgeClassifier": (ridge, X),
        "RidgeClassifier, float64 given": (ridge, X.astype(np.float64)),
        "RidgeClassifier, float32 given": (ridge, X.astype(np.float32)),
        "SVC(kernel='linear')": (SVC(kernel="linear"), X),
        "SVC, float64 given": (SVC(kernel="linear"), X.astype(np.float64)),
    }
    tasks = {name: fit_task(m, Z[train], y[train]) for name, (m, Z) in models.items()}
    timings = measure(tasks, 9, calls=10)
    fitted = {name: task() for name, task in tasks.items()}
    scores, by_ridge = (fitted[name].decision_function(X) for name in PEERS[:2])
    assert np.allclose(2 * scores, by_ridge, atol=1e-6)
    wrong = {name: (fitted[name].predict(X) != y)[test] for name in PEERS}
    wrong["always the majority"] = y[test] != (y[train].mean() > 0.5)
    errors = [
        {"model": name, "test error, %": f"{100 * rows.mean():.1f}"}
        for name, rows in wrong.items()
    ]
    ours_name, *others = PEERS
    claims = [
        faster(f"faster than {peer}", target, ours_name, [peer], timings)
        for peer, target in zip(others, (5, 25), strict=True)
    ]
    notes = [
        f"seed {SEED}, {y.sum()} of 200 rows of class 1; alpha = {ALPHA:g}; the "
        "scores of RenyiClassifier and RidgeClassifier agree to 1e-6 on all rows."
    ]
    title = f"170 x 10,000 binary int8, {extra()}"
    return [Section(title, timings, claims, errors, notes)]


if __name__ == "__main__":
    run("wide", "(a) Wide: 170 rows, 10,000 binary columns", benchmark)
