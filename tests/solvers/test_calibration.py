"""Maps from scores to probabilities, against scikit-learn and independent optima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax, softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from renyi.solvers import calibration
from renyi.solvers.calibration import Calibration
from renyi.solvers.ridge import LeftOut


def rows_of(n, K, seed=0, noise=0.3):
    """Scores of K classes that add up to 0, classes and weights."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    s = np.eye(K)[y] + noise * rng.normal(size=(n, K))
    s -= s.mean(axis=1, keepdims=True)
    s = s[:, 1:] - s[:, :1] if K == 2 else s
    weights = rng.integers(1, 4, n).astype(float)
    return LeftOut(s, y, weights, weights, 0.0)


def test_one_temperature_has_the_largest_likelihood_of_platts_targets():
    rows = rows_of(60, 2)
    n1 = rows.weights[rows.y == 1].sum()
    n0 = rows.weights.sum() - n1
    target = np.where(rows.y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(a):
        g = a * rows.scores[:, 0]
        logs = target * log_expit(g) + (1 - target) * log_expit(-g)
        return -rows.weights @ logs

    best = minimize_scalar(loss, bounds=(0.01, 100), options={"xatol": 1e-9}).x
    found = calibration.temperature(rows, 2)
    assert float(found.slope) == pytest.approx(best, rel=1e-6)
    assert not found.moves_decisions


def test_one_temperature_of_three_classes():
    rows = rows_of(80, 3)
    counts = np.bincount(rows.y, rows.weights)[rows.y, None] + 3
    target = np.where(np.eye(3)[rows.y] > 0, (counts - 2) / counts, 1 / counts)

    def loss(a):
        logs = log_softmax(a * rows.scores, axis=1)
        return -rows.weights @ (target * logs).sum(axis=1)

    best = minimize_scalar(loss, bounds=(0.01, 100), options={"xatol": 1e-9}).x
    found = calibration.temperature(rows, 3)
    assert float(found.slope) == pytest.approx(best, rel=1e-6)


def test_temperatures_are_positive_and_finite_whatever_the_scores():
    rows = rows_of(40, 2, noise=0.0)  # separable
    assert 0 < calibration.temperature(rows, 2).slope < 100
    wrong = rows._replace(scores=-rows.scores)
    assert 0 < calibration.temperature(wrong, 2).slope < 0.01
    small = rows._replace(scores=rows.scores * 1e-12)
    ratio = calibration.temperature(small, 2).slope / 1e12
    assert ratio == pytest.approx(float(calibration.temperature(rows, 2).slope))
    nothing = rows._replace(scores=0 * rows.scores)
    assert calibration.temperature(nothing, 2).slope > 0
    none = LeftOut(*(part[:0] for part in rows[:4]), 1.0)
    assert calibration.temperature(none, 2) is None
    assert calibration.affine(none, 3) is None


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_affine_map_is_logistic_regression(K, noise):
    rows = rows_of(120, K, noise=noise)
    X = np.column_stack([rows.scores, np.ones(120)])
    X[:, :K] -= rows.weights @ rows.scores / rows.weights.sum()
    peer = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(X, rows.y, rows.weights)
    found = calibration.affine(rows, K)
    mine = softmax(rows.scores @ found.slope + found.intercept, axis=1)
    np.testing.assert_allclose(mine, peer.predict_proba(X), atol=2e-6)
    np.testing.assert_allclose(found.slope.sum(axis=1), 0, atol=1e-9)
    again = rows._replace(**{"weights": np.ones(rows.weights.sum().astype(int))})
    times = rows.weights.astype(int)
    again = again._replace(
        scores=np.repeat(rows.scores, times, axis=0), y=np.repeat(rows.y, times)
    )
    np.testing.assert_allclose(calibration.affine(again, K).slope, found.slope, 1e-5)


def test_a_class_without_rows_is_improbable_but_possible():
    rows = rows_of(200, 3)
    some = rows._replace(y=np.minimum(rows.y, 1))
    moments = calibration.moments_of_scores(some.scores, some.y, some.weights)
    for found in (
        calibration.affine(some, 3),
        calibration.discriminant(moments, 0.1),
    ):
        p = softmax(some.scores @ found.slope + found.intercept, axis=1)
        assert np.isfinite(p).all()
        assert p[:, 2].mean() < 0.3


def test_the_discriminant_is_that_of_the_scores(monkeypatch):
    monkeypatch.setattr(calibration, "_EPSILON", 1e-12)
    rows = rows_of(300, 4)
    moments = calibration.moments_of_scores(rows.scores, rows.y, np.ones(300))
    found = calibration.discriminant(moments, 0.0)
    peer = LinearDiscriminantAnalysis(solver="lsqr").fit(rows.scores[:, :3], rows.y)
    mine = softmax(rows.scores @ found.slope + found.intercept, axis=1)
    theirs = peer.predict_proba(rows.scores[:, :3])
    np.testing.assert_allclose(mine, theirs, atol=1e-6)
    assert calibration.discriminant(moments, 1.0) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "isotonic"},
        {"slope": float("nan")},
        {"slope": float("inf")},
        {"slope": 10**400},
        {"slope": -1.0},
        {"slope": 0},
        {"slope": [1.0]},
        {"slope": True},
        {"intercept": [0.0]},
        {"more": 1},
        {"kind": "affine", "slope": [[1.0, 0.0], [0.0, 1.0]], "intercept": [0.0, 0.0]},
    ],
)
def test_strange_calibrations_are_refused(changes):
    plain = {"kind": "temperature", "slope": 4.0, "intercept": 0.0}
    assert Calibration.from_dict(plain, 2).to_dict() == plain
    with pytest.raises(ValueError, match=r"its (calibration|temperature)"):
        Calibration.from_dict({**plain, **changes}, 2)
    if changes.get("kind") == "affine":
        for slope, b in (([[1.0]], [0.0]), ([[1.0] * 3] * 3, [0.0, 0.0, None])):
            with pytest.raises(ValueError, match="its calibration"):
                wrong = {"kind": "affine", "slope": slope, "intercept": b}
                Calibration.from_dict(wrong, 3)
