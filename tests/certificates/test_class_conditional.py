"""The class-conditional bound against linear programs and the closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals, RenyiClassifier, certify
from renyi.certificates import closed_form
from renyi.datasets import random_joint
from support.scorings import (
    CASES,
    MODELS,
    SLACK,
    estimates,
    inner_of,
    losing_ties,
    make_points,
    make_table,
    map_bound,
    scaled_bound,
    worst_given_classes,
)


def bound(table, P, b):
    sizes = np.array(table.shape[:-1])
    return closed_form.cantelli(closed_form.class_moments(P, b, inner_of(table), sizes))


# ---- Cantelli


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_no_distribution_breaks_the_class_conditional_bound(K, seed):
    table = make_table(K, seed)
    for model in MODELS:
        P, b = make_points(table, model, seed)
        worst = worst_given_classes(table, losing_ties(estimates(table, P, b)))
        assert worst <= bound(table, P, b) + SLACK, model


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_never_worse_than_the_closed_form(K, seed):
    table = make_table(K, seed)
    for model in MODELS:
        P, b = make_points(table, model, seed)
        found = bound(table, P, b)
        closed = map_bound(estimates(table, P, b), table.reshape(-1, K))
        assert found <= closed + 1e-9 <= scaled_bound(table, P, b) + 2e-9, model


@pytest.mark.parametrize("seed", range(4))
def test_two_classes_give_cantelli(seed):
    table = make_table(2, seed)
    P, b = make_points(table, "minimiser")
    s = estimates(table, P, b)[:, 1] - 0.5
    expected = 0
    for p, sign in zip(table.reshape(-1, 2).T, (-1, 1), strict=True):
        mean = sign * (p @ s) / p.sum()
        variance = p @ (s - p @ s / p.sum()) ** 2 / p.sum()
        share = variance / (variance + mean**2) if mean > 0 else 1
        expected += p.sum() * share
    assert bound(table, P, b) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("K", "seed"), [(K, seed) for K in (3, 4) for seed in (0, 2)])
def test_more_classes_are_never_worse_than_a_union_of_cantelli(K, seed):
    table = make_table(K, seed)
    P, b = make_points(table, "minimiser")
    t, total = estimates(table, P, b), 0.0
    for y, p in enumerate(table.reshape(-1, K).T):
        u = t[:, [y]] - np.delete(t, y, axis=1)
        mean = p @ u / p.sum()
        variance = p @ (u - mean) ** 2 / p.sum()
        missed = np.where(mean > 0, variance / (variance + mean**2), 1).sum()
        total += p.sum() * min(1, missed)
    assert bound(table, P, b) <= total + 1e-9


def test_one_class_is_never_worse_than_the_closed_form_of_it():
    """Moments of all sorts; the closed form of a class is the module's R and a = 1."""
    rng = np.random.default_rng(0)
    informative = 0
    for _ in range(300):
        K = int(rng.integers(3, 7))
        root = rng.uniform(0.05, 0.5) * rng.normal(size=(K, K))
        mean, cov = np.append(1, rng.uniform(0, 0.4, K - 1)), root @ root.T
        off, centre = mean - mean.mean(), np.eye(K) - 1 / K
        closed = off[0] ** 2 / (off @ off + np.trace(centre @ cov @ centre))
        contrast = np.eye(K)[0] - np.eye(K)[1:]
        found = closed_form._missed(contrast @ mean, contrast @ cov @ contrast.T)
        assert found <= min(1, 2 * (1 - 1 / K - closed)) + 1e-12
        informative += found < 1
    assert informative > 50


def test_correlated_competitors_beat_the_union():
    """Two other classes that always score alike are one competitor, not two."""
    mean, covariance = np.ones(2), 0.1 * (np.ones((2, 2)) + 1e-3 * np.eye(2))
    assert closed_form._missed(mean, covariance) < 0.7 * (0.2 / 1.1)
    assert closed_form._missed(mean, covariance) >= 0.1 / 1.1  # either of the two alone


@pytest.mark.parametrize("seed", range(5))
def test_lemma_holds_for_the_worst_points(seed):
    """The bound exceeds the share of any cloud of points that is not all positive."""
    rng = np.random.default_rng(seed)
    u = 1 + rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) * 0.3
    covariance = np.cov(u.T, bias=True)
    share = (u <= 0).any(axis=1).mean()
    assert share <= closed_form._missed(u.mean(axis=0), covariance)


def test_bound_is_attained():
    """A score of two values, one of them 0, is the worst case of Cantelli."""
    table = np.array([[0.1, 0.1], [0.4, 0.0], [0.0, 0.4]])
    z = np.array([0.0, -0.7, 0.7])
    P = np.stack([-z, z], axis=1)
    assert losing_ties(P + 0.5).tolist() == [[1, 1], [0, 1], [1, 0]]
    assert bound(table, P, np.zeros(2)) == pytest.approx(0.2, abs=1e-9)


def test_equal_scores_promise_nothing():
    """Rounding must not make certainty of scores that are all the same."""
    table = random_joint((3, 3), 2, random_state=0)
    third = np.full((6, 2), 1 / 3)
    assert bound(table, third, np.array([-2 / 3, -2 / 3])) == 1
    tiny = 1e-18 * np.array([[-1.0, 1.0]] * 6)  # lost when 1/K is added
    assert bound(table, tiny, np.zeros(2)) == 1
    assert bound(table, np.full((6, 2), 1e200), np.zeros(2)) == 1


def test_perfect_scores_promise_everything():
    table = np.array([[0.5, 0.0], [0.0, 0.5]])
    P = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert bound(table, P, np.zeros(2)) < 1e-12


def test_class_that_does_not_occur_still_competes():
    """Marginals without one of the model's classes: `own` says which are there."""
    table = make_table(3, 0)
    P, b = make_points(table, "minimiser")
    inner, sizes = inner_of(table), np.array(table.shape[:-1])
    inner[1] = 0
    full = closed_form.cantelli(closed_form.class_moments(P, b, inner, sizes))
    some = closed_form.class_moments(P, b, inner[[0, 2]], sizes)
    assert closed_form.cantelli(some, own=[0, 2]) == pytest.approx(full, abs=1e-12)


def test_marginals_give_the_moments_of_the_rows():
    """Counts of `class_conditional=True`, as certify() uses them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (300, 4)), columns=list("abcd")).astype(str)
    y = (X["a"].astype(int) + rng.integers(0, 2, 300)).astype(str).rename("y")
    m = Marginals.from_data(X, y, class_conditional=True)
    clf = RenyiClassifier(alpha=0.01, calibration=None)
    card = clf.fit_marginals(m).scorecard_
    t = card.estimates(card.encoder.transform(X))
    found = closed_form.class_moments(
        card.z, card.intercept, m.class_counts, m.encoder.columns.sizes
    )
    for k, label in enumerate(m.classes):
        inside = t[(y == label).to_numpy()]
        assert found.priors[k] == pytest.approx(len(inside) / 300)
        assert found.means[k] + 1 / 4 == pytest.approx(inside.mean(axis=0))
        expected = np.cov(inside.T, bias=True)
        assert found.covariances[k] == pytest.approx(expected, abs=1e-12)
    closed, conditional = certify(card, m).steps
    assert closed_form.cantelli(found) <= closed.upper + 1e-9
    assert closed_form.cantelli(found) == pytest.approx(conditional.upper)
    errors = np.array(m.classes)[t.argmax(axis=1)] != y.to_numpy()
    assert errors.mean() <= closed_form.cantelli(found)
