"""A solver of one's own: a function of arrays that makes a certified scorecard."""

from __future__ import annotations

import numpy as np
import pytest

import renyi
from renyi.scorecard import Scorecard
from renyi.solvers import Solver


def mean_of_features(Q, F):
    """Estimate P(y|x) by the mean over the features i of P(y|x_i).

    Every feature's block of F sums to the class probabilities, so that the number of
    features is the sum of F.
    """
    d, K = F.sum(), F.shape[1]
    conditional = F / np.maximum(np.diag(Q), 1e-300)[:, None]
    return conditional / d, np.full(K, -1 / K)


SOLVER: Solver = mean_of_features


@pytest.mark.parametrize("name", ["votes", "adult"])
def test_a_solver_of_ones_own_is_certified(name):
    X, y = (part[:3_000] for part in renyi.datasets.load(name))
    m = renyi.Marginals.from_data(X, y)
    card = Scorecard.solve(m, SOLVER)
    certificate = renyi.certify(card, m)
    t = card.estimates(m.encoder.transform(X))
    expected = np.eye(2)[np.searchsorted(m.classes, y)]
    assert certificate.gamma == pytest.approx(
        ((t - expected) ** 2).sum(axis=1).mean() / 2, abs=1e-12
    )
    wrong = (t.argmax(axis=1) != expected.argmax(axis=1)).mean()
    assert wrong <= certificate.bounds["map"] + 1e-12
    assert certificate.bounds["sharp"] <= 1.0


def test_three_classes():
    X, y = renyi.datasets.load("votes")
    y = np.where(X["crime"] == "y", "tough", y)
    m = renyi.Marginals.from_data(X, y)
    card = Scorecard.solve(m, SOLVER)
    assert card.z.shape == (len(m.Q), 3)
    t = card.estimates(m.encoder.transform(X))
    np.testing.assert_allclose(t.sum(axis=1), 1)
    assert renyi.certify(card, m).gamma <= 0.5
