"""Certificates of models of any setting, on their own rows and on others'.

Linear programs find the worst member of all distributions with the pairs; no bound may
be below its error.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import Encoder, Marginals, RenyiClassifier, certify
from support.joints import marginal_constraints, outcomes, worst_case

SLACK = 1e-6  # of the programs
LETTERS, CLASSES = np.array(list("abcd")), np.array(list("pqrs"))


def drawn(rng, sizes, K, n):
    """Rows with a constant column, and classes that depend on their sum."""
    X = np.column_stack([rng.integers(0, size, n) for size in sizes])
    y = np.where(rng.random(n) < 0.8, X.sum(axis=1), rng.integers(0, K, n)) % K
    y[:K] = np.arange(K)
    return X, y


def frame(X):
    return pd.DataFrame(LETTERS[X], columns=[f"c{j}" for j in range(X.shape[1])])


def settings(rng, K):
    """Parameters of a classifier."""
    calibrations = ["auto", None, "temperature"]
    calibrations += ["affine", "discriminant"] if K > 2 else []
    found = {
        "alpha": rng.choice(["auto", 0.0, 0.01, 3.0]).item(),
        "calibration": calibrations[rng.integers(len(calibrations))],
        "fit_intercept": bool(rng.integers(2)),
        "class_weight": [None, "balanced"][rng.integers(2)],
        "encoder": Encoder(min_count=int(rng.integers(1, 3))),
    }
    if found["alpha"] != "auto":
        found["alpha"] = float(found["alpha"])
    if K == 2 and rng.integers(2):
        found |= {"objective": "ranking", "fit_intercept": True, "class_weight": None}
    return found


def check_certificates(seed):
    rng = np.random.default_rng([3, seed])
    K, sizes = 2 + seed % 3, rng.permutation([1, 2, 3])
    X, y = drawn(rng, sizes, K, int(rng.choice([20, 40, 100])))
    weights = None if rng.integers(2) else rng.choice([0.0, 0.5, 1, 3], len(y))
    if weights is not None:
        weights[:K] = 1
    clf = RenyiClassifier(**settings(rng, K))
    clf.fit(frame(X), CLASSES[y], sample_weight=weights)
    for extra in (0, 1):  # labels that are new
        Z, z = (X, y) if not extra else drawn(rng, sizes + 1, K, 30)
        m = Marginals.from_data(frame(Z), pd.Series(CLASSES[z], name="y"))
        table = np.zeros((*(sizes + extra), K))
        np.add.at(table, (*Z.T, z), 1 / len(z))
        A, b = marginal_constraints(table)
        rows = frame(outcomes(sizes + extra))
        c = certify(clf, m)
        for rule, bound in c.bounds.items():
            worst = worst_case(clf.rule_proba(rows, rule), A, b)
            assert bound >= worst - SLACK, (seed, extra, rule)
        if K == 2:
            card = clf.scorecard_.rounded(1 + seed % 9, marginals=m)
            answers = (card.predict(rows) == CLASSES[1]).astype(int)
            worst = worst_case(np.eye(2)[answers], A, b)
            assert card.certificate.bounds["map"] >= worst - SLACK, (seed, extra)


@pytest.mark.parametrize("seed", range(9))
def test_no_bound_is_below_the_worst_case(seed):
    check_certificates(seed)


@pytest.mark.long
def test_no_bound_is_below_the_worst_case_of_many_settings():
    for seed in range(9, 1_000):
        check_certificates(seed)
