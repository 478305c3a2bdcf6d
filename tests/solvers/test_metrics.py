"""AUC and its interval, against brute force and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from renyi.solvers import metrics as risk
from support.scorings import drawn_scores


def test_auc_and_delongs_interval_are_those_of_all_pairs():
    scores, y, _ = drawn_scores(150)
    area, low, high = risk.auc(scores, y, 0.9)
    case, control = scores[y == 1], scores[y == 0]
    kernel = (case[:, None] > control) + 0.5 * (case[:, None] == control)
    variance = kernel.mean(1).var(ddof=1) / len(case)
    variance += kernel.mean(0).var(ddof=1) / len(control)
    assert area == pytest.approx(roc_auc_score(y, scores), abs=1e-14)
    half = norm.ppf(0.95) * np.sqrt(variance) / (area * (1 - area))
    wanted = expit(logit(area) + np.array([-half, half]))
    np.testing.assert_allclose((low, high), wanted, rtol=1e-12)


def test_the_interval_covers_the_auc_as_often_as_it_says():
    rng, true = np.random.default_rng(3), norm.cdf(1 / np.sqrt(2))
    hits = 0
    for _ in range(400):
        y = np.repeat([0, 1], 40)
        _, low, high = risk.auc(rng.normal(size=80) + y, y)
        hits += low <= true <= high
    assert 0.92 <= hits / 400 <= 0.98


def test_perfect_ranking_still_has_an_interval():
    area, low, high = risk.auc([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1])
    assert (area, high) == (1, 1)
    assert low == pytest.approx(0.025 ** (1 / 3))  # three disjoint pairs
    assert risk.auc([4, 5, 1, 2], [0, 0, 1, 1])[:2] == (0, 0)


@pytest.mark.parametrize(
    ("scores", "y", "word"),
    [
        ([1, 2], [1, 1], "controls"),
        ([1, np.nan], [0, 1], "missing"),
        ([1, 2, 3], [0, 1], "length"),
        ([1, 2], [1, 2], "cases"),
    ],
)
def test_what_cannot_be_measured_is_refused(scores, y, word):
    with pytest.raises(ValueError, match=word):
        risk.auc(scores, y)


def test_pairs_of_one_cell_are_ties_whatever_their_scores():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(4, 30))
        y, cells = rng.integers(0, 2, n), rng.integers(0, n // 2, n)
        y[:2] = 0, 1
        scores = rng.integers(0, 5, n) / 2
        case, control = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        apart = np.sign(scores[case][:, None] - scores[control])
        apart[cells[case][:, None] == cells[control]] = 0
        found = risk.auc(scores, y, cells=cells)
        assert found[0] == pytest.approx((apart.mean() + 1) / 2)
        none = risk.auc(scores, y, cells=np.arange(n))
        assert none == risk.auc(scores, y)
