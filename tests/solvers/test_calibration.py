"""Maps from scores to probabilities, against scikit-learn and independent optima."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
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


def loss_of_platts_targets(rows):
    """Minus the logarithm of the likelihood of slope and intercept."""
    n0, n1 = np.bincount(rows.y, rows.weights)
    target = np.where(rows.y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(beta):
        g = beta[0] * rows.scores[:, 0] + beta[1]
        logs = target * log_expit(g) + (1 - target) * log_expit(-g)
        return -rows.weights @ logs

    return loss


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("shift", [-0.9, 0.0, 0.2])
def test_a_sigmoid_has_the_largest_likelihood_of_platts_targets(noise, shift):
    rows = rows_of(80, 2, noise=noise)
    rows = rows._replace(scores=rows.scores + shift)
    loss = loss_of_platts_targets(rows)
    best = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8})
    found = calibration.fitted(rows, 2, "sigmoid")
    mine = [float(found.slope), float(found.intercept)]
    assert loss(mine) <= best.fun + 1e-9
    assert mine == pytest.approx(best.x.tolist(), rel=1e-3, abs=1e-3)
    assert found.kind == "sigmoid" and found.moves_decisions
    assert found.shift == pytest.approx(mine[1] / mine[0])
    times = rows.weights.astype(int)
    ones = np.ones(times.sum())
    scores, y = (np.repeat(part, times, axis=0) for part in rows[:2])
    again = calibration.fitted(LeftOut(scores, y, ones, ones, 0.0), 2, "sigmoid")
    assert [float(again.slope), float(again.intercept)] == pytest.approx(mine)


def test_an_intercept_is_taken_where_it_is_clearly_likelier():
    rows = rows_of(200, 2)
    slope = calibration.temperature(rows, 2)
    found = calibration.fitted(rows, 2)
    assert found.to_dict() == slope.to_dict()
    for shift, kind in ((0.01, "temperature"), (0.5, "sigmoid")):
        moved = rows._replace(scores=rows.scores + shift)
        assert calibration.fitted(moved, 2).kind == kind
    # The class of a third of the rows or less needs 2, a larger one ½ log n.
    shifts = np.linspace(0.0, 0.2, 41)
    for least, y in ((math.log(rows.weights.sum()) / 2, rows.y), (2.0, None)):
        if y is None:
            keep = np.flatnonzero((rows.y == 0) | (np.arange(200) % 4 == 0))
            rows = LeftOut(*(part[keep] for part in rows[:4]), 0.0)
        for shift in shifts:
            moved = rows._replace(scores=rows.scores + shift)
            loss = loss_of_platts_targets(moved)
            one = loss([float(calibration.temperature(moved, 2).slope), 0.0])
            both = calibration.fitted(moved, 2, "sigmoid")
            gain = one - loss([float(both.slope), float(both.intercept)])
            kind = calibration.fitted(moved, 2).kind
            assert (kind == "sigmoid") == (gain > least)


def test_a_sigmoid_never_reverses_the_scores():
    rows = rows_of(60, 2)
    wrong = calibration.fitted(rows._replace(scores=-rows.scores), 2, "sigmoid")
    assert wrong.kind == "temperature" and 0 < wrong.slope < 0.01
    equal = rows._replace(scores=0 * rows.scores + 0.3)
    assert calibration.fitted(equal, 2, "sigmoid").kind == "temperature"
    small = rows._replace(scores=(rows.scores + 0.3) * 1e-12)
    large = rows._replace(scores=rows.scores + 0.3)
    pair = [calibration.fitted(each, 2, "sigmoid") for each in (small, large)]
    assert pair[0].slope == pytest.approx(float(pair[1].slope) * 1e12)
    assert pair[0].intercept == pytest.approx(float(pair[1].intercept))
    none = LeftOut(*(part[:0] for part in rows[:4]), 1.0)
    assert calibration.fitted(none, 2) is None


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
    for kind in calibration.TWO_CLASSES:
        plain = {"kind": kind, "slope": 4.0, "intercept": 0.0}
        assert Calibration.from_dict(plain, 2).to_dict() == plain
        with pytest.raises(ValueError, match="its calibration"):
            Calibration.from_dict({**plain, **changes}, 2)
    slope = {**plain, "kind": "temperature"}
    assert Calibration.from_dict(slope, 3).slope == 4
    with pytest.raises(ValueError, match="a temperature, with an intercept"):
        Calibration.from_dict({**slope, "intercept": 1e-9}, 3)
    with pytest.raises(ValueError, match=r"its calibration 'sigmoid' does not fit"):
        Calibration.from_dict(plain, 3)
    with pytest.raises(ValueError, match="intercept is too large"):
        Calibration.from_dict({**plain, "slope": 1e-300, "intercept": 1e300}, 2)
    if changes.get("kind") == "affine":
        for slope, b in (([[1.0]], [0.0]), ([[1.0] * 3] * 3, [0.0, 0.0, None])):
            with pytest.raises(ValueError, match="its calibration"):
                wrong = {"kind": "affine", "slope": slope, "intercept": b}
                Calibration.from_dict(wrong, 3)
