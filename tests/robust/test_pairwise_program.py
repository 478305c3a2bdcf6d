"""Worst-case bounds of polynomial size, checked on all outcomes of small tables."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse

from renyi import Marginals, RenyiClassifier, rules
from renyi.datasets import load, sample_joint
from renyi.robust import pairwise_program, worst
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.piecewise_loss import Losses, Moments, pieces, regions
from renyi.solvers.programs import Cone, nearest
from robust.test_worst import (
    KINDS,
    make_card,
    make_table,
    marginals_of,
    rule_losing_ties,
    truth,
)
from support.joints import marginal_constraints, one_hot, outcomes, worst_case
from support.repeats import covering

pytest.importorskip("highspy")

SLACK = 1e-6  # what the solvers' tolerances may add to a bound
METHODS = ("lp", "sdp")


def above_everywhere(losses, multiplier):
    """How far the functions are above the losses at the worst possible outcome."""
    ambiguity = losses.ambiguity
    X = outcomes(ambiguity.sizes)
    excess = ambiguity.functions(multiplier, X) - losses.at(X)
    return excess[ambiguity.possible(X)].min(initial=np.inf)


@pytest.mark.parametrize(("K", "rule", "kind"), covering((2, 3), rules.RULES, KINDS))
def test_between_the_linear_program_and_the_closed_form(K, rule, kind):
    if rule != "map" and K == 3:
        models = ("ridge", "random")
    else:
        models = ("ridge", "rounded", "random", "huge", "zero")
    seed = KINDS.index(kind)
    table = make_table((2, 3, 3), K, kind, seed, holes=0.3 * (seed != 1))
    m = marginals_of(table)
    for model in models:
        card = make_card(m, model, seed)
        exact = truth(card, table, rule)
        lp, sdp = (worst.worst_case(card, m, rule=rule, method=k) for k in METHODS)
        assert exact - SLACK <= sdp.upper <= lp.upper + SLACK, model
        assert lp.upper <= lp.closed_form
        assert (lp.lower, lp.distribution) == (0.0, None)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("K", [2, 3])
def test_programs_alone_reach_the_closed_form(K, method):
    """Not because the smaller of both is taken."""
    for rule in rules.RULES:
        m = marginals_of(make_table((2, 3, 2), K, "logistic", K))
        for model in ("ridge", "random", "wrong"):
            losses = Losses.of(make_card(m, model), m, rule)
            found = pairwise_program.solve_worst(losses, semidefinite=method == "sdp")
            closed = losses.ambiguity.b @ losses.closed_form()
            assert found.value <= closed + SLACK, (rule, model)


@pytest.mark.parametrize(("K", "method", "kind"), covering((2, 3), METHODS, KINDS))
def test_multiplier_proves_the_bound(K, method, kind):
    seed = KINDS.index(kind)
    table = make_table((3, 2, 3), K, kind, seed, holes=0.3)
    m = marginals_of(table)
    for rule in rules.RULES:
        losses = Losses.of(make_card(m, "ridge", seed), m, rule)
        found = pairwise_program.solve_worst(losses, semidefinite=method == "sdp")
        assert losses.ambiguity.b @ found.multiplier == pytest.approx(found.value)
        assert above_everywhere(losses, found.multiplier) >= -1e-9
        full = losses.ambiguity.completed(found.multiplier)
        X = outcomes(losses.ambiguity.sizes)
        excess = losses.ambiguity.functions(full, X) - losses.at(X)
        assert excess.min() >= -1e-9


@pytest.mark.parametrize("method", METHODS)
def test_stopped_early_the_bound_is_proven(method):
    m = marginals_of(make_table((3, 3, 3, 2), 2, "logistic", 1))
    for rule in rules.RULES:
        losses = Losses.of(make_card(m, "ridge"), m, rule)
        for limit in (0.0, 0.02, 0.05):
            found = pairwise_program.solve_worst(
                losses, semidefinite=method == "sdp", time_limit=limit
            )
            if np.isfinite(found.value):
                assert above_everywhere(losses, found.multiplier) >= -1e-9


@pytest.mark.parametrize("method", METHODS)
def test_class_conditional_pairs_tighten(method):
    table = make_table((2, 3, 2), 2, "dirichlet", 5)
    X, y = sample_joint(table, 300, random_state=0)
    few = Marginals.from_data(X, y)
    more = Marginals.from_data(X, y, class_conditional=True)
    model = RenyiClassifier().fit_marginals(few)
    gains = []
    for rule in rules.RULES:
        loose, tight = (
            worst.worst_case(model, m, rule=rule, method=method) for m in (few, more)
        )
        exact = worst.worst_case(model, more, rule=rule)
        assert exact.upper - SLACK <= tight.upper <= loose.upper + SLACK
        gains.append(loose.upper - tight.upper)
    assert max(gains) > 1e-3


def test_one_column_and_marginals_that_lack_a_class():
    table = make_table((4,), 3, "dirichlet", 1)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    for method in METHODS:
        found = worst.worst_case(card, m, method=method)
        assert truth(card, table, "map") - SLACK <= found.upper <= found.closed_form
    two = marginals_of(table[..., :2] / table[..., :2].sum())
    exact = worst.worst_case(card, two)
    for method in METHODS:
        found = worst.worst_case(card, two, method=method)
        assert exact.upper - SLACK <= found.upper <= found.closed_form


@pytest.mark.parametrize("rule", rules.RULES)
def test_pieces_cover_all_margins_and_lie_above_the_loss(rule):
    m = marginals_of(make_table((2, 3, 2), 2, "logistic", 0))
    losses = Losses.of(make_card(m, "ridge"), m, rule)
    found = pieces(losses)
    assert (found[0].low, found[-1].high) == (-np.inf, np.inf)
    for left, right in zip(found[:-1], found[1:], strict=True):
        assert left.high == right.low
    for piece in found:
        low, high = max(piece.low, -1.2), min(piece.high, 1.2)
        g = np.random.default_rng(0).uniform(low, high, 20_000)
        loss = losses.of_margin(g.copy())
        above = [np.vander(g, 3, True) @ majorant for majorant in piece.majorants]
        assert all((line >= loss - 1e-12).all() for line in above)
        assert (np.min(above, axis=0) <= loss + 0.11).all()


@pytest.mark.parametrize("rule", rules.RULES)
@pytest.mark.parametrize("K", [2, 3])
def test_regions_cover_all_outcomes_and_what_they_claim_holds_there(K, rule):
    table = make_table((2, 3, 2), K, "logistic", 3)
    m = marginals_of(table)
    for model in ("ridge", "rounded", "zero", "huge"):
        losses = Losses.of(make_card(m, model), m, rule)
        moments = Moments(losses.ambiguity.layout)
        X = outcomes(losses.ambiguity.sizes)
        W, cells = one_hot(X, losses.ambiguity.sizes), cells_at(moments, X)
        covered = np.zeros((len(X), K), bool)
        for part in regions(losses, moments):
            values = [W @ h[:-1] + h[-1] for h in part.inequalities]
            inside = np.all([v >= 0 for v in values], axis=0)
            assert all(((cells @ row)[inside] >= -1e-9).all() for row in part.products)
            assert all((cells @ row >= -1e-9).all() for row in part.squares)
            loss = losses.at(X)[:, part.y]
            for majorant in part.majorants:
                assert ((cells @ majorant - loss)[inside] >= -1e-9).all(), model
            covered[inside, part.y] = True
        assert covered.all()


def cells_at(moments, X):
    """Which cells of pairs and columns each outcome falls in."""
    W = one_hot(X, moments.layout.sizes)
    return np.hstack([W[:, moments.first] * W[:, moments.second], W])


def test_moments_are_expectations():
    rng = np.random.default_rng(0)
    sizes = (2, 3, 4)
    m = marginals_of(make_table(sizes, 2, "dirichlet", 0))
    moments = Moments(Ambiguity.of(m).layout)
    X = outcomes(sizes)
    W, p = one_hot(X, sizes), rng.dirichlet(np.ones(len(X)))
    tables = p @ cells_at(moments, X)
    f, h = rng.normal(size=(2, 10))
    fx, hx = (W @ each[:-1] + each[-1] for each in (f, h))
    assert moments.product(f, h) @ tables == pytest.approx(p @ (fx * hx))
    assert moments.square(f - h) @ tables == pytest.approx(p @ (fx - hx) ** 2)
    cubic = moments.polynomial(f, np.array([1.0, -2.0, 3.0])) @ tables
    assert cubic == pytest.approx(p @ (1 - 2 * fx + 3 * fx**2))
    assert np.allclose(moments.with_indicators(h) @ tables, W.T @ (p * hx))


def test_nearest_semidefinite_matrix():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(4, 4))
    matrix = matrix + matrix.T
    b, a = np.tril_indices(4)
    places = sparse.eye_array(10, format="csc")
    cone = Cone.of(4, a, b, np.arange(10), 10)
    triangle = cone.entries @ places @ matrix[a, b]
    found = np.zeros((4, 4))
    found[a, b] = found[b, a] = nearest(triangle, 4) / np.where(a == b, 1, np.sqrt(2))
    assert np.linalg.eigvalsh(found).min() >= -1e-12
    # The projection: what is taken away is semidefinite too, and orthogonal to it.
    assert np.linalg.eigvalsh(found - matrix).min() >= -1e-12
    assert np.sum(found * (found - matrix)) == pytest.approx(0, abs=1e-12)


def test_without_the_cone_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    table = make_table((2, 3, 2), 2, "logistic", 2)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    losses = Losses.of(card, m, "map")
    assert pairwise_program.solve_worst(losses, semidefinite=True).status == "declined"
    found = worst.worst_case(card, m, method="lp")
    assert worst.worst_case(card, m, method="sdp").upper == found.upper
    assert truth(card, table, "map") - SLACK <= found.upper <= found.closed_form
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    exact = worst.worst_case(card, m)
    assert exact.upper == pytest.approx(truth(card, table, "map"), abs=1e-5)


def test_large_matrices_are_left_to_the_linear_program(monkeypatch):
    monkeypatch.setattr(pairwise_program, "MAX_ORDER", 3)
    m = marginals_of(make_table((2, 3, 2), 2, "logistic", 2))
    card = make_card(m, "ridge")
    losses = Losses.of(card, m, "map")
    assert pairwise_program.solve_worst(losses, semidefinite=True).status == "declined"
    lp, sdp = (worst.worst_case(card, m, method=method).upper for method in METHODS)
    assert lp == sdp < losses.ambiguity.b @ losses.closed_form()


def test_unknown_method_is_an_error():
    m = marginals_of(make_table((2, 2), 2, "logistic", 0))
    with pytest.raises(ValueError, match="method"):
        worst.worst_case(make_card(m, "ridge"), m, method="best")


def test_votes_by_linear_program():
    """The bound is below the closed form by more than a fifth."""
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    found = worst.worst_case(clf, clf.marginals_, method="lp")
    # The rule errs on the rows themselves, which are a member of the set.
    seen = 1 - rule_losing_ties(clf.scorecard_.estimates(codes(clf, X)), "map")
    own = np.searchsorted(clf.classes_, y)
    assert seen[np.arange(len(y)), own].mean() <= found.upper < 0.8 * found.closed_form


def codes(clf, X):
    return clf.marginals_.encoder.transform(X)


@pytest.mark.long
def test_votes_by_semidefinite_program():
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    found = worst.worst_case(clf, clf.marginals_, method="sdp")
    assert 0.085741 <= found.upper <= 0.0876  # the exact worst case is 0.085742


@pytest.mark.long
def test_many_tables():
    for seed in range(60):
        K = 2 + seed % 2
        table = make_table((2, 3, 2, 2), K, KINDS[seed % 3], seed, holes=0.2)
        A, b = marginal_constraints(table)
        m = marginals_of(table)
        card = make_card(m, ("ridge", "random", "rounded")[seed % 3], seed)
        t = card.estimates(outcomes(table.shape[:-1]).T)
        for rule in rules.RULES:
            exact = worst_case(rule_losing_ties(t, rule), A, b)
            lp, sdp = (worst.worst_case(card, m, rule=rule, method=k) for k in METHODS)
            assert exact - SLACK <= sdp.upper <= lp.upper + SLACK, (seed, rule)
