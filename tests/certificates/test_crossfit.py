"""Bounds of cross-fit models: exact on enumerated samples, simulated on larger ones."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.crossfit import simulate
from renyi import Certificate, CrossFitClassifier, Marginals, RenyiClassifier, rules
from renyi.certificates import heldout
from renyi.datasets import load, random_joint
from support.joints import marginal_constraints, outcomes, worst_case
from support.repeats import in_full
from support.scorings import SLACK

# ---- every sample there is


# Outcomes (x, y) of one column and their probabilities.
CELLS = [(0, 0), (0, 1), (1, 1)]
SHARES = [0.5, 0.2, 0.3]
ROWS = 4


def points_of(rows):
    """Smoothed shares of class 1 at both values, as scores t_1 − ½."""
    counts = Counter(rows)
    ones = np.array([counts[1], counts[2]]) + 0.5
    return ones / (np.array([counts[0] + counts[1], counts[2]]) + 1) - 0.5


@pytest.fixture(scope="module")
def halves():
    """Every half with its probability, its model, and its verdict on every other."""
    samples = list(product(range(3), repeat=ROWS))
    share = np.array([np.prod([SHARES[k] for k in rows]) for rows in samples])
    cards = {key: points_of(key) for key in {tuple(sorted(rows)) for rows in samples}}
    models = [cards[tuple(sorted(rows))] for rows in samples]
    return samples, share, cards, models


def judged(s, rows, rule):
    x, y = np.array([CELLS[k] for k in rows]).T
    t = 0.5 + np.stack([-s[x], s[x]], axis=1)
    wrong = 1 - rules.rule_proba(t, rule)[np.arange(len(y)), y]
    return heldout.JudgedHalf(t, y, wrong, float((0.5 + np.abs(s).max()) ** 2))


@pytest.mark.parametrize("rule", ["map", "sharp"])
@pytest.mark.parametrize("method", heldout.METHODS)
def test_exact_share_of_failures(halves, method, rule, confidence=0.5):
    """All pairs of halves with 4 rows each, weighed by their probability."""
    samples, share, cards, models = halves
    each = 1 - (1 - confidence) / 2
    place = {key: k for k, key in enumerate(cards)}
    shape = (len(cards), len(samples))
    gamma, sampled = np.empty(shape), np.empty(shape)
    for (key, s), (j, rows) in product(cards.items(), enumerate(samples)):
        half = judged(s, rows, rule)
        gamma[place[key], j] = heldout.heldout_gamma(half.t, half.y, half.upper, each)
        if method == "average" and rule == "sharp":
            sampled[place[key], j] = 2 * heldout._one_sided(half, each)
        elif method == "average":
            sampled[place[key], j] = 2 * heldout._error(
                heldout._in_doubt(half), rule, each
            )
        else:
            sampled[place[key], j] = heldout._error(half.wrong, rule, each)
    own = np.array([place[tuple(sorted(rows))] for rows in samples])
    P = np.zeros((2, 2))
    P[tuple(np.array(CELLS).T)] = SHARES
    risk, error = np.empty((2, len(cards), len(cards)))
    for (i, a), (j, b) in product(enumerate(cards.values()), repeat=2):
        t = [0.5 + np.outer(s, [-1, 1]) for s in (a, b)]
        risk[i, j] = (P * (1 - np.mean(t, axis=0)) ** 2).sum()
        deployed = t if method == "mixture" else [np.mean(t, axis=0)]
        right = [(P * rules.rule_proba(each, rule)).sum() for each in deployed]
        error[i, j] = 1 - np.mean(right)
    failed = []
    pairs = np.ix_(own, own)
    for bounds, truth in ((gamma, risk), (sampled, error)):
        bound = (bounds[own] + bounds[own].T) / 2
        failed.append(share @ (bound < truth[pairs] - 1e-12) @ share)
    assert max(failed) <= 1 - confidence
    assert gamma.min() < 0.5  # the bounds are not the trivial ones
    assert sampled.min() < 0.6
    pair = [judged(models[3], samples[7], rule), judged(models[7], samples[3], rule)]
    found = heldout.crossfit_bounds(pair, rule, method, confidence)
    assert found.gamma == (gamma[own[3], 7] + gamma[own[7], 3]) / 2
    expected = (sampled[own[3], 7] + sampled[own[7], 3]) / 2
    assert found.sampled_error == pytest.approx(min(1, expected))


# ---- simulated


# At most 77 of 1,000 runs may fail. A failure rate of 10 %, which a level of 5 % in
# each half (instead of 2.5 %) would allow, is detected with probability 0.99.
FULL = [
    (n, K, order, 1000, 0.95)
    for n, order in [(50, 1), (1000, 1), (5000, 1), (200, 2)]
    for K in (2, 4)
]


@pytest.mark.parametrize(
    ("n", "K", "order", "runs", "confidence"), in_full([(50, 2, 1, 15, 0.5)], FULL)
)
def test_coverage(n, K, order, runs, confidence):
    found = simulate(n, K, order, runs, confidence)
    most = binom.ppf(0.9999, runs, 1 - confidence)
    assert all(count <= most for count in found.values()), found


# ---- what the bounds cover


@pytest.mark.parametrize("K", [2, 3])
def test_no_joint_breaks_the_certificate(K):
    """The linear program over all populations with the pairs of the one sampled."""
    import pandas as pd

    rng = np.random.default_rng(K)
    table = random_joint((2, 3, 2), K, kind="logistic", random_state=rng)
    codes = outcomes(table.shape[:-1])
    names = [f"f{j}" for j in range(codes.shape[1])]
    everything = pd.DataFrame(codes, columns=names).astype(str)
    x, y = np.divmod(rng.choice(table.size, 6000, p=table.ravel()), K)
    A, target = marginal_constraints(table)
    for method in heldout.METHODS:
        safe = CrossFitClassifier(method=method, confidence=0.99)
        safe.fit(everything.iloc[x], y)
        for rule in rules.RULES:
            worst = worst_case(safe.rule_proba(everything, rule), A, target)
            assert worst <= safe.certificate_.bounds[rule] + SLACK, (method, rule)


@pytest.mark.parametrize("K", [2, 3])
def test_largest_residual_is_that_of_some_row(K):
    """By brute force over all rows, labels never seen among them."""
    rng = np.random.default_rng(K)
    X = [[f"{a}", f"{b}"] for a, b in rng.integers(0, 3, (40, 2))]
    y = np.arange(40) % K
    card = RenyiClassifier().fit(X, y).scorecard_
    rows = list(product(["0", "1", "2", "unseen"], repeat=2))
    t = card.estimates(card.encoder.transform(rows))
    squares = ((t[:, None, :] - np.eye(K)) ** 2).sum(axis=2) / 2
    found = heldout.largest_residual(card)
    assert squares.max() <= found * (1 + 1e-12)
    if K == 2:
        assert found == pytest.approx(squares.max(), rel=1e-12)


def test_marginals_of_halves_know_the_mean_alone():
    X, y = load("votes")
    order = np.random.default_rng(0).permutation(len(y))
    parts = [(X.iloc[p], y.iloc[p]) for p in np.split(order, [217])]
    halves = [Marginals.from_data(*part) for part in parts]
    safe = CrossFitClassifier(RenyiClassifier(rule="sharp")).fit_halves(*halves)
    expected = []
    for clf, (A, a) in zip(safe.halves_, parts[::-1], strict=True):
        s = clf.decision_function(A)
        c = np.where(a == clf.classes_[1], 0.5, -0.5)
        upper = heldout.largest_residual(clf.scorecard_)
        mean = float(((s - c) ** 2).mean())
        expected.append(heldout.kl_bound(mean, len(a), upper, 0.975))
    c = safe.certificate_
    assert c.gamma == pytest.approx(np.mean(expected), rel=1e-6)
    assert c.sampled_error == c.bounds["sharp"] == 2 * c.gamma
    assert (c.basis, c.n, c.observed_error) == ("crossfit", 435, None)
    assert Certificate.from_dict(c.to_dict()) == c
    rows = CrossFitClassifier(RenyiClassifier(rule="sharp")).fit(X, y).certificate_
    assert rows.gamma < c.gamma  # which know more than the mean
