"""Certified AUC and error at other shares of two classes, checked by programs.

No member of the ambiguity set that linear programs find may rank worse than `auc` says,
or err more at another prevalence than `error_at` says.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from renyi import Certificate, Marginals, RenyiClassifier, certify
from renyi.certificates.text import detail_lines
from renyi.datasets import load, random_joint
from support.counted import make_card, marginals
from support.joints import (
    constraint_matrix,
    marginal_constraints,
    outcomes,
    worst_distribution,
)

SLACK = 1e-7  # of the linear programs
SEEDS = range(3)
SHARES = (0.01, 0.3, 0.9)


def make_table(seed):
    sizes = ((2, 3, 2), (3, 3, 2), (2, 2, 2))[seed % 3]
    kind = ("dirichlet", "additive", "logistic")[seed % 3]
    return random_joint(sizes, 2, kind=kind, random_state=[7, seed])


def scores_at_all_outcomes(card, table):
    return card.scores(outcomes(table.shape[:-1]).T)[:, 0]


def area(p, above):
    """AUC of a member, ties counting nothing."""
    return p[:, 1] @ above @ p[:, 0] / (p[:, 0].sum() * p[:, 1].sum())


def members_within_classes(table, s):
    """Members with the pairs within each class, each worse at ranking than the last."""
    A = constraint_matrix(table.shape[:-1], 1)
    p = table.reshape(-1, 2).copy()
    b, above = A @ p, s[:, None] > s + 1e-9
    yield p
    for _ in range(3):
        p[:, 1] = worst_distribution((above @ p[:, 0])[:, None], A, b[:, 1])[:, 0]
        p[:, 0] = worst_distribution((p[:, 1] @ above)[:, None], A, b[:, 0])[:, 0]
        yield p


def members_of_pairs(table, s):
    """Members with the pairs alone, down the gradient of the AUC."""
    A, b = marginal_constraints(table)
    p, above = table.reshape(-1, 2), s[:, None] > s + 1e-9
    yield p
    for _ in range(4):
        p = worst_distribution(
            np.column_stack([p[:, 1] @ above, above @ p[:, 0]]), A, b
        )
        yield p


def certified(table, within):
    """Scorecards good and bad, their scores at all outcomes and their certificates."""
    m = marginals(table, class_conditional=within)
    cards = [make_card(m, model) for model in ("ridge", "random", "wrong")]
    if within:
        clf = RenyiClassifier(objective="ranking", alpha=1e-4)
        cards.append(clf.fit_marginals(m).scorecard_)
    for card in cards:
        yield scores_at_all_outcomes(card, table), certify(card, m)


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_member_ranks_worse_than_certified(seed, within):
    table = make_table(seed)
    members = members_within_classes if within else members_of_pairs
    for s, c in certified(table, within):
        worst = min(area(p, s[:, None] > s + 1e-9) for p in members(table, s))
        assert c.auc <= worst + SLACK


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_member_errs_more_at_another_prevalence(seed, within):
    """The worst member for the errors at each prevalence, ties being errors."""
    table = make_table(seed)
    A, b = marginal_constraints(table)
    first = constraint_matrix(table.shape[:-1], 1)
    p = table.reshape(-1, 2)
    totals = p.sum(axis=0)
    for s, c in certified(table, within):
        for share, threshold in [(x, 0.0) for x in SHARES] + [(0.1, 0.05)]:
            right = np.column_stack([s < threshold - 1e-9, s > threshold + 1e-9])
            weights = np.array([1 - share, share]) / totals
            if within:
                q = [
                    worst_distribution(right[:, [y]], first, first @ p[:, y])
                    for y in (0, 1)
                ]
                q = np.hstack(q)
            else:
                q = worst_distribution(right * weights, A, b)
            error = float((q * ~right * weights).sum())
            assert error <= c.error_at(share, threshold) + SLACK
            if threshold == 0:
                assert c.error_at(share) <= c.any_prevalence


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_within_classes_say_more(seed):
    table = make_table(seed)
    pairs = zip(certified(table, True), certified(table, False), strict=False)
    for (_, inner), (_, outer) in pairs:
        assert inner.auc >= outer.auc - 1e-9
        assert inner.any_prevalence <= outer.any_prevalence + 1e-9


def test_error_at_the_shares_of_the_marginals_is_cantelli():
    X, y = load("votes")
    m = Marginals.from_data(X, y, class_conditional=True)
    c = certify(RenyiClassifier().fit(X, y), m)
    assert c.error_at(m.class_probabilities[1]) == pytest.approx(c.steps[1].upper)
    ends = [c.error_at(1e-12), c.error_at(1 - 1e-12)]
    assert c.any_prevalence == pytest.approx(max(ends))


# ---- the best ranking


def within_moments(m):
    inner, D = m.class_counts, m.class_counts.shape[1]
    n = [block.diagonal()[: m.encoder.columns.sizes[0]].sum() for block in inner]
    means = [block.diagonal() / k for block, k in zip(inner, n, strict=True)]
    covariance = sum(
        block / k - np.outer(mu, mu)
        for block, k, mu in zip(inner, n, means, strict=True)
    )
    return means[1] - means[0], covariance, np.eye(D)


@pytest.mark.parametrize("seed", SEEDS)
def test_ranking_is_the_closed_form(seed):
    """The points are (S0 + S1 + 2 alpha I)^-1 (mu1 - mu0), but for their scale."""
    m = marginals(make_table(seed), class_conditional=True)
    z = RenyiClassifier(objective="ranking", alpha=0.01).fit_marginals(m).z_
    delta, covariance, eye = within_moments(m)
    expected = np.linalg.solve(covariance + 0.02 * eye, delta)
    assert np.allclose(z / np.linalg.norm(z), expected / np.linalg.norm(expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_scorecard_has_a_better_certified_ranking(seed):
    m = marginals(make_table(seed), class_conditional=True)
    best = RenyiClassifier(objective="ranking", alpha=0).fit_marginals(m)
    top, rng = best.certificate_.auc, np.random.default_rng(seed)
    other = RenyiClassifier(alpha=0).fit_marginals(m)
    assert other.certificate_.auc <= top + 1e-9
    for _ in range(20):
        z = best.z_ + 0.1 * rng.normal(size=best.z_.shape)
        assert certify(replace(best.scorecard_, z=z), m).auc <= top + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ranking_is_scaled_to_estimate_the_class(seed):
    """No other scale or intercept of the same score has a smaller gamma."""
    m = marginals(make_table(seed), class_conditional=True)
    card = RenyiClassifier(objective="ranking", alpha=0.01).fit_marginals(m).scorecard_
    least = certify(card, m).gamma
    for scale, start in [(1.1, 0), (0.9, 0), (1, 0.05), (1, -0.05)]:
        moved = replace(
            card, z=scale * card.z, intercept=card.intercept * scale + start
        )
        assert certify(moved, m).gamma > least - 1e-12


def test_rows_and_counts_rank_alike():
    """Primal, dual and marginals; with weights, too."""
    X, y = load("votes")
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    clf = RenyiClassifier(objective="ranking", alpha=0.01)
    m = Marginals.from_data(X, y, sample_weight=weights, class_conditional=True)
    few = Marginals.from_data(X[:40], y[:40], class_conditional=True)
    primal, counted = (
        clf.fit(X, y, weights),
        RenyiClassifier(**clf.get_params(deep=False)),
    )
    counted.fit_marginals(m)
    assert np.allclose(primal.z_, counted.z_, atol=1e-10)
    assert primal.intercept_ == pytest.approx(counted.intercept_)
    assert primal.certificate_.auc == pytest.approx(counted.certificate_.auc)
    assert primal.certificate_.loo_error is not None
    assert counted.certificate_.loo_error is None
    dual = RenyiClassifier(**clf.get_params(deep=False)).fit(X[:40], y[:40])
    assert dual.marginals_ is None
    counted.fit_marginals(few)
    assert np.allclose(dual.decision_function(X), counted.decision_function(X))
    for name in ("auc", "any_prevalence", "gamma"):
        a, b = (getattr(each.certificate_, name) for each in (dual, counted))
        assert a == pytest.approx(b, rel=1e-6), name


@pytest.mark.parametrize("classes", ["nnppppp", "nnpppqq"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"class_weight": "balanced"}, {"class_weight": {"n": 2, "p": 1, "q": 1}}],
)
@pytest.mark.parametrize("seed", range(6))
def test_rows_prove_no_more_than_the_pairs_that_are_told(seed, settings, classes):
    """Pairs that are not counted: those of the rows prove nothing of a class.

    With weights of classes, pairs within them are what the certificate rests on.
    """
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.choice(list("ab"), (7, 4)), columns=list("abcd"))
    y, weights = np.array(list(classes)), np.full(7, 20.0)
    if len(set(classes)) == 2 and isinstance(settings.get("class_weight"), dict):
        settings = {"class_weight": {"n": 2, "p": 1}}
    clf = RenyiClassifier(alpha=0.1, **settings).fit(X, y, weights)
    assert clf.marginals_ is None
    within = bool(settings)
    m = Marginals.from_data(X, y, sample_weight=weights, class_conditional=within)
    c, counted = clf.certificate_, certify(clf, m)
    assert [step.name for step in c.steps] == [step.name for step in counted.steps]
    assert dict(c.bounds) == pytest.approx(dict(counted.bounds), rel=1e-7)
    if len(set(classes)) > 2:
        assert c.auc is None
        return
    for a, b in (
        (c.auc, counted.auc),
        (c.any_prevalence, counted.any_prevalence),
        (c.error_at(0.01), counted.error_at(0.01)),
    ):
        assert a == pytest.approx(b, rel=1e-7)


def test_no_population_with_the_same_pairs_errs_more_at_another_prevalence():
    def table(rows):
        return pd.DataFrame([[*row] for row in rows.split()], columns=list("abcd"))

    X = table("baab aaba bbab bbba bbaa abaa abbb")
    Z = table("aabb abaa abba baaa bbab bbab bbba")
    y, t = np.array(list("npppppn")), np.array(list("npppnpp"))
    weights = np.full(7, 20.0)
    m = Marginals.from_data(X, y, sample_weight=weights)
    n = Marginals.from_data(Z, t, sample_weight=weights)
    assert m.digest == n.digest
    c = (clf := RenyiClassifier(alpha=0.1).fit(X, y, weights)).certificate_
    wrong = clf.predict(Z) != t
    error = 0.99 * wrong[t == "n"].mean() + 0.01 * wrong[t == "p"].mean()
    assert 0.4 < error <= c.error_at(0.01) <= c.any_prevalence


def test_the_left_out_error_is_that_of_refits():
    X, y = load("votes")
    X, y = X[:40], y[:40]
    clf = RenyiClassifier(objective="ranking", alpha=0.02).fit(X, y)
    wrong = 0
    for i in range(40):
        rest = np.arange(40) != i
        again = RenyiClassifier(objective="ranking", alpha=0.02)
        again.fit(X[rest], y[rest])
        wrong += again.predict(X[i : i + 1])[0] != y[i]
    assert clf.certificate_.loo_error == pytest.approx(wrong / 40, abs=0.03)


def test_figures_of_the_bundled_sets():
    found = {}
    for name in ("votes", "kr-vs-kp"):
        X, y = load(name)
        clf = RenyiClassifier(objective="ranking", alpha=1e-6).fit(X, y)
        found[name] = round(clf.certificate_.auc, 3)
    assert found == {"votes": 0.941, "kr-vs-kp": 0.781}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"class_weight": "balanced"}, "class_weight"),
        ({"fit_intercept": False}, "fit_intercept"),
        ({"objective": "rank"}, "objective"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings, named):
    X, y = load("votes")
    with pytest.raises(ValueError, match=named):
        RenyiClassifier(**{"objective": "ranking", **settings}).fit(X, y)


def test_a_ranking_needs_two_classes_and_pairs_within_them():
    X, y = load("votes")
    clf = RenyiClassifier(objective="ranking")
    with pytest.raises(ValueError, match="objective"):
        clf.fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match=r"objective.*class_conditional"):
        clf.fit_marginals(Marginals.from_data(X, y))


# ---- certificates


def test_more_classes_and_unseen_rows_have_none():
    X, y = load("votes")
    three = RenyiClassifier().fit(X, np.arange(len(y)) % 3).certificate_
    unseen = certify(RenyiClassifier().fit(X[:300], y[:300]), X[300:], y[300:])
    for c in (three, unseen):
        assert c.auc is c.any_prevalence is c.error_at(0.2) is None
        assert "prevalence" not in str(c)


def test_marginals_with_one_class_prove_nothing_of_a_ranking():
    X, y = load("votes")
    clf, one = RenyiClassifier().fit(X, y), (y == "democrat").to_numpy()
    for within in (False, True):
        m = Marginals.from_data(X[one], y[one], class_conditional=within)
        assert certify(clf, m).auc is None


def test_foreign_marginals_are_matched_by_class():
    """Marginals whose classes come in another order, or with other columns beside."""
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    m = Marginals.from_data(X[::-1].assign(more="a"), y[::-1], class_conditional=True)
    assert set(m.classes) == set(clf.classes_)
    same = certify(clf, Marginals.from_data(X, y, class_conditional=True))
    assert certify(clf, m).auc == pytest.approx(same.auc)
    assert certify(clf, m).class_scores == pytest.approx(same.class_scores)


def test_equal_scores_rank_nothing():
    m = marginals(make_table(0), class_conditional=True)
    c = certify(make_card(m, "zero"), m)
    assert c.auc == 0
    assert c.any_prevalence == 1


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), "0.1", None, True])
def test_shares_outside_are_refused(share):
    X, y = load("votes")
    clf = RenyiClassifier().fit(X[:60], y[:60])
    for ask in (clf.certificate_.error_at, clf.threshold):
        with pytest.raises(ValueError, match="prevalence"):
            ask(share)
    if share is not None:
        for predict in (clf.predict, clf.predict_proba):
            with pytest.raises(ValueError, match="prevalence"):
                predict(X[:3], share)


def test_text_is_rounded_outwards():
    X, y = load("votes")
    c = RenyiClassifier().fit(X, y).certificate_
    line = "At any prevalence: AUC at least 0.123, rule map wrong on at most 20.1 %."
    assert line.replace("0.123", "0.612") in detail_lines(
        replace(c, auc=0.61299, class_scores=(-0.5, 0.0628, 0.9, 0.0))
    )
    assert "prevalence" not in "".join(detail_lines(replace(c, auc=0.5)))


# ---- plain forms


def test_a_plain_form_comes_back():
    X, y = load("votes")
    c = RenyiClassifier().fit(X, y).certificate_
    again = Certificate.from_dict(json.loads(json.dumps(c.to_dict())))
    assert again == c
    assert again.error_at(0.01) == c.error_at(0.01)


@pytest.mark.parametrize(
    "change",
    [
        {"auc": 1.1},
        {"auc": float("nan")},
        {"auc": True},
        {"class_scores": [0.0, 1.0, 0.0]},
        {"class_scores": [0.0, 1.0, float("inf"), 1.0]},
        {"class_scores": [10**400, 1.0, 0.0, 1.0]},
    ],
)
def test_forged_numbers_are_refused(change):
    X, y = load("votes")
    c = RenyiClassifier().fit(X, y).certificate_
    with pytest.raises(ValueError, match="certificate"):
        Certificate.from_dict({**json.loads(json.dumps(c.to_dict())), **change})
