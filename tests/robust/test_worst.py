"""Worst case of a given rule, checked by linear programs over all outcomes."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from renyi import Certificate, Marginals, RenyiClassifier, certify, rules
from renyi.datasets import load, random_joint, sample_joint
from renyi.robust import ambiguity_set, master_program, pairwise_min, worst
from renyi.robust.brier_risk import ThetaResult
from renyi.robust.cutting_planes import search
from renyi.robust.pairwise_program import Bound
from renyi.robust.piecewise_loss import Losses
from renyi.solvers.programs import IMPOSSIBLE
from support.counted import MODELS, make_card, marginals_of
from support.joints import cells_of, error, marginal_constraints, outcomes, worst_case
from support.repeats import covering, few

pytest.importorskip("highspy")

SLACK = 1e-7
KINDS = ("dirichlet", "additive", "logistic")


def make_table(sizes, K, kind, seed, holes=0.0):
    """Return a random joint table; a share of its cells is emptied, or nearly so."""
    rng = np.random.default_rng([seed, K, len(kind)])
    table = random_joint(sizes, K, kind=kind, random_state=rng)
    if holes:
        drawn = rng.random(table.shape)
        table[drawn < holes] = 0.0
        table[(drawn > holes) & (drawn < 1.2 * holes)] = 1e-9
    return table / table.sum()


def rule_losing_ties(t, rule):
    """The rule's answers; where the largest estimates tie, none of them wins."""
    r = rules.rule_proba(t, rule)
    near = 1e-12 * (1 + np.abs(t).max())
    ties = (t >= t.max(axis=1, keepdims=True) - near).sum(axis=1) > 1
    if rule == "map":
        r[ties] = 0
    if rule == "sharp":
        p = rules.project(t[ties])
        r[ties] = np.maximum(0, 2 * p - (p**2).sum(axis=1, keepdims=True))
    return r


def truth(card, table, rule):
    t = card.estimates(outcomes(table.shape[:-1]).T)
    return worst_case(rule_losing_ties(t, rule), *marginal_constraints(table))


@pytest.mark.parametrize(("K", "rule", "kind"), covering((2, 3), rules.RULES, KINDS))
def test_small_tables_equal_the_linear_program(K, rule, kind):
    seed = KINDS.index(kind)
    table = make_table((2, 3, 2), K, kind, seed)
    m = marginals_of(table)
    for model in MODELS:
        card = make_card(m, model, seed)
        found = worst.worst_case(card, m, rule=rule)
        assert found.upper == pytest.approx(truth(card, table, rule), abs=SLACK)
        assert found.gap <= SLACK
        assert found.upper <= certify(card, m).bounds[rule]
        assert found.closed_form == certify(card, m).bounds[rule]


SHAPES = ((2, (3, 3, 2, 3)), (3, (2, 3, 3)), (2, (4,)))  # classes and categories


@pytest.mark.parametrize(
    ("shape", "rule", "kind"), covering(SHAPES, rules.RULES, KINDS)
)
def test_cutting_planes_equal_the_linear_program(monkeypatch, shape, rule, kind):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    (K, sizes), seed = shape, KINDS.index(kind)
    table = make_table(sizes, K, kind, seed, holes=0.3 * (seed != 1))
    m = marginals_of(table)
    model = ("ridge", "rounded")[(seed + len(sizes)) % 2]
    card = make_card(m, model, seed)
    found = worst.worst_case(card, m, rule=rule)
    exact = truth(card, embedded(table), rule)
    assert found.lower == pytest.approx(exact, abs=2e-6), model
    assert found.upper == pytest.approx(exact, abs=2e-6), model
    assert found.lower <= found.upper


@pytest.mark.parametrize(("rule", "kind"), covering(rules.RULES, KINDS, together=1))
def test_many_cells_go_by_simplex(monkeypatch, rule, kind):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    monkeypatch.setattr(master_program, "_MOST_CELLS", 3)
    seed = KINDS.index(kind)
    table = make_table((3, 3, 2, 3), 2, kind, seed)
    m = marginals_of(table)
    card = make_card(m, "ridge", seed)
    found = worst.worst_case(card, m, rule=rule)
    exact = truth(card, table, rule)
    assert found.lower == pytest.approx(exact, abs=2e-6)
    assert found.upper == pytest.approx(exact, abs=2e-6)


def embedded(table):
    """Check that all categories and classes occur, so that codes are unchanged."""
    for axis in range(table.ndim):
        others = tuple(k for k in range(table.ndim) if k != axis)
        assert (table.sum(axis=others) > 0).all()
    return table


@pytest.mark.parametrize(("K", "kind"), covering((2, 3), KINDS, together=1))
def test_mixed_integer_programs_equal_the_linear_program(monkeypatch, K, kind):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    monkeypatch.setattr(pairwise_min, "MAX_OUTCOMES", 0)
    seed = KINDS.index(kind)
    table = make_table((2, 3, 2), K, kind, seed, holes=0.25 * (seed == 0))
    m = marginals_of(table)
    for model in ("ridge", "rounded"):
        card = make_card(m, model, seed)
        found = worst.worst_case(card, m, rule="map", tolerance=1e-6)
        assert found.upper == pytest.approx(truth(card, table, "map"), abs=2e-6)
        assert found.gap <= 2e-6


@pytest.mark.parametrize("rule", ["renyi", "sharp"])
def test_slices_close_in_on_the_randomised_rules(monkeypatch, rule):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    monkeypatch.setattr(pairwise_min, "MAX_OUTCOMES", 0)
    table = make_table((2, 3, 2), 2, "logistic", 0)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    exact = truth(card, table, rule)
    found = worst.worst_case(card, m, rule=rule, tolerance=1e-3, time_limit=20)
    assert found.gap <= 1e-3
    assert found.lower - SLACK <= exact <= found.upper + SLACK
    # More classes: no slices, but never more than the closed form.
    table = make_table((2, 2, 2), 3, "logistic", 0)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    found = worst.worst_case(card, m, rule=rule, time_limit=5)
    exact = truth(card, table, rule)
    assert found.lower - SLACK <= exact <= found.upper + SLACK
    assert found.upper <= found.closed_form


@pytest.mark.parametrize("rule", rules.RULES)
def test_majorants_lie_above_the_loss_on_every_slice(rule):
    m = marginals_of(make_table((2, 3, 2), 2, "logistic", 0))
    losses = Losses.of(make_card(m, "ridge"), m, rule)
    edges = losses._edges[0,]
    pieces = losses.slices(-1.9, 1.7, edges)
    for piece in pieces:
        inside = np.random.default_rng(0).uniform(piece.low, piece.high, 5000)
        above = piece.height + piece.slope * inside
        assert (above >= losses.of_margin(inside.copy()) - 1e-12).all()
        assert (above <= losses.of_margin(inside.copy()) + 0.05).all()
    for left, right in zip(pieces[:-1], pieces[1:], strict=True):
        assert left.high == right.low
    # However far they reach, the outer slices lie on the loss.
    wide = losses.slices(-1e4, 1e4, edges)
    assert wide[0].low < -100 < 100 < wide[-1].high
    assert wide[0][2:] == (1.0, 0.0)
    assert wide[-1][2:] == (0.0, 0.0)


@pytest.mark.parametrize("rule", rules.RULES)
def test_losses_are_those_of_the_rules(rule):
    s = np.linspace(-0.8, 0.8, 321)[:, None]
    rows = np.random.default_rng(0).normal(0.33, 0.4, (500, 3)).round(1)
    for t in (np.hstack([0.5 - s, 0.5 + s]), rows):
        K = t.shape[1]
        m = marginals_of(make_table((2, 3, 2), K, "logistic", 0))
        losses = Losses.of(make_card(m, "ridge"), m, rule)
        expected = 1 - rule_losing_ties(t, rule)
        for y in range(K):
            assert np.allclose(losses.of_estimates(t, y), expected[:, y], atol=1e-12)


@pytest.mark.parametrize("rule", rules.RULES)
@pytest.mark.parametrize("K", [2, 3])
def test_quadratic_functions_prove_the_closed_form(K, rule):
    """The start of the search is feasible, and its value is the closed form."""
    for seed, kind in enumerate(KINDS):
        m = marginals_of(make_table((2, 3, 3), K, kind, seed))
        for model in MODELS:
            card = make_card(m, model, seed)
            losses = Losses.of(card, m, rule)
            multiplier = losses.closed_form()
            X = losses.ambiguity.outcomes()
            above = losses.ambiguity.functions(multiplier, X)
            assert (above >= losses.at(X) - 1e-9).all(), model
            value = losses.ambiguity.b @ multiplier
            assert value == pytest.approx(certify(card, m).bounds[rule], abs=1e-9)


def test_distribution_has_the_marginals_and_attains_the_lower_end(monkeypatch):
    table = make_table((3, 2, 3, 2), 2, "dirichlet", 3, holes=0.3)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    A, b = marginal_constraints(table)
    for limit in (10**6, 0):  # direct, cutting planes
        monkeypatch.setattr(worst, "MAX_DIRECT", limit)
        for rule in rules.RULES:
            found = worst.worst_case(card, m, rule=rule)
            p = cells_of(found.distribution.frame(), table)
            assert found.distribution.marginal_error < 1e-9
            assert found.distribution.sample(7, random_state=0).shape == (7, 5)
            assert np.abs(A @ p.ravel() - b).max() < 1e-9
            assert p.min() >= 0
            t = card.estimates(outcomes(table.shape[:-1]).T)
            err = error(rule_losing_ties(t, rule), p)
            assert err == pytest.approx(found.lower, abs=1e-9)


def test_class_conditional_pairs_shrink_the_set():
    table = make_table((2, 3, 2), 2, "dirichlet", 5)
    X, y = sample_joint(table, 300, random_state=0)
    few = Marginals.from_data(X, y)
    more = Marginals.from_data(X, y, class_conditional=True)
    model = RenyiClassifier().fit_marginals(few)
    for rule in rules.RULES:
        loose = worst.worst_case(model, few, rule=rule)
        tight = worst.worst_case(model, more, rule=rule)
        seen = 1 - model.rule_proba(X, rule)[np.arange(len(y)), y]
        assert seen.mean() - SLACK <= tight.upper <= loose.upper + SLACK
    assert tight.upper < loose.upper - 1e-3


def test_stopped_early_the_interval_still_holds(monkeypatch):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    table = make_table((3,) * 5, 2, "logistic", 1)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    for rule in rules.RULES:
        exact = truth(card, table, rule)
        for limit in (1e-6, 0.05, 0.2):
            found = worst.worst_case(card, m, rule=rule, time_limit=limit)
            assert found.lower - SLACK <= exact <= found.upper + SLACK
            assert found.upper <= found.closed_form


def test_interruption_returns_the_interval(monkeypatch):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    table = make_table((3,) * 5, 2, "logistic", 1)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    seen = []

    def stop(progress):
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    found = worst.worst_case(card, m, progress=stop)
    assert len(seen) == 3
    assert seen[-1].rounds == 3
    assert found.lower <= truth(card, table, "map") <= found.upper
    assert all(p.lower <= p.upper for p in seen)


def test_interrupted_before_the_search_the_closed_form_is_kept(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    m = marginals_of(make_table((3,) * 4, 2, "logistic", 1))
    card = make_card(m, "ridge")
    monkeypatch.setattr(worst.Losses, "closed_form", interrupt)
    found = worst.worst_case(card, m)
    assert found.interrupted
    assert (found.lower, found.upper) == (0.0, found.closed_form)


def test_labels_and_columns_are_matched_by_name():
    table = make_table((2, 3, 2), 3, "logistic", 2)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    names = [f"x{i}" for i in range(3)]
    frame = pd.DataFrame(outcomes(table.shape), columns=[*names, "y"])
    shuffled = frame.assign(count=table.ravel())[["y", "x2", "x0", "x1", "count"]]
    wide = shuffled.assign(more=frame["x0"] % 2)
    same = Marginals.from_tables([wide], target="y")
    for rule in rules.RULES:
        one, two = (worst.worst_case(card, k, rule=rule) for k in (m, same))
        assert one.upper == pytest.approx(two.upper, abs=SLACK)
    # Marginals that lack a class of the model.
    two_classes = table[..., [0, 2]] / table[..., [0, 2]].sum()
    part = frame[frame["y"] != 1].assign(count=two_classes.ravel())
    found = worst.worst_case(card, Marginals.from_tables([part], target="y"))
    padded = np.stack(
        [two_classes[..., 0], 0 * two_classes[..., 0], two_classes[..., 1]], -1
    )
    assert found.upper == pytest.approx(truth(card, padded, "map"), abs=SLACK)


def test_ties_count_as_errors():
    table = make_table((2, 2), 2, "logistic", 0)
    m = marginals_of(table)
    assert worst.worst_case(make_card(m, "zero"), m).upper == pytest.approx(1)


def test_impossible_marginals_are_refused(monkeypatch):
    """Of three binary columns two are equal: 3 × 0.28 < 1, though Q is semidefinite."""
    cells = np.array([0.14, 0.36, 0.36, 0.14])
    pairs = [("x0", "x1"), ("x0", "x2"), ("x1", "x2")]
    labels = [(f"x{i}", "y") for i in range(3)]
    tables = [
        pd.DataFrame({a: [0, 0, 1, 1], b: [0, 1, 0, 1], "count": c})
        for names, c in ((pairs, cells), (labels, np.full(4, 0.25)))
        for a, b in names
    ]
    m = Marginals.from_tables(tables, target="y")
    card = make_card(m, "random")
    for limit in (5_000, 0):  # direct, cutting planes
        monkeypatch.setattr(worst, "MAX_DIRECT", limit)
        with pytest.raises(ValueError, match="No distribution"):
            worst.worst_case(card, m, rule="sharp", time_limit=10)


def test_rule_is_the_models_own_by_default():
    X, y = load("votes")
    clf = RenyiClassifier(rule="renyi").fit(X[["crime", "immigration"]], y)
    found = worst.worst_case(clf, clf.marginals_)
    assert found.rule == "renyi"
    assert "rule renyi is wrong on" in str(found)
    assert worst.worst_case(clf, clf.marginals_, rule="map").rule == "map"
    with pytest.raises(ValueError, match="rule"):
        worst.worst_case(clf, clf.marginals_, rule="best")
    with pytest.raises(TypeError, match="Scorecard"):
        worst.worst_case(clf.marginals_, clf)


def test_texts_of_worst_cases_and_theta_round_outwards():
    told = str(worst.WorstCase(0.137931, 0.137931, None, "map", 0.3, 1.0))
    assert "at most 13.80 %" in told
    told = str(ThetaResult(0.0894630, 0.0894630, 0.0894630, None, None))
    assert "below 0.0894," in told and "guarantees 0.1790." in told


def test_text_gives_the_interval_if_it_is_wide():
    told = str(worst.WorstCase(0.1, 0.2, None, "map", 0.3, 1.0))
    assert "between 10.00 % and 20.00 %" in told
    assert "closed form 30.00 %" in told
    # No lower end was looked for.
    told = str(worst.WorstCase(0.0, 0.2, None, "map", 0.3, 1.0))
    assert "rule map is wrong on at most 20.00 % of a population" in told


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "5", True])
@pytest.mark.parametrize("name", ["time_limit", "tolerance"])
def test_time_limit_and_tolerance_are_positive(name, value):
    m = marginals_of(make_table((2, 2), 2, "logistic", 0))
    with pytest.raises(ValueError, match=name):
        worst.worst_case(make_card(m, "ridge"), m, **{name: value})


def test_no_error_is_a_bound_of_zero():
    X = pd.DataFrame({"a": list("0011") * 10, "b": list("0101") * 10})
    clf = RenyiClassifier().fit(X, X["a"].rename("y"))
    for method in worst.METHODS:
        found = worst.worst_case(clf, clf.marginals_, method=method)
        assert found.lower == 0.0 <= found.upper <= 1e-9
    for level in ("lp", "exact"):
        c = certify(clf, clf.marginals_, level=level)
        assert Certificate.from_dict(c.to_dict()) == c


# ---- points that rounding drowns


def moved(card, shift):
    """The same scores: the first feature's points plus a number, the second's less."""
    sizes = card.encoder.columns.sizes
    by = np.repeat([shift, -shift, *np.zeros(len(sizes) - 2)], sizes)
    return replace(card, z=card.z + by.reshape(-1, *[1] * (card.z.ndim - 1)))


@pytest.mark.parametrize("K", [2, 3])
def test_bounds_do_not_depend_on_how_points_are_spread(K):
    table = make_table((2, 3, 2), K, "logistic", 1)
    m = marginals_of(table)
    card = make_card(m, "rounded")
    for rule in rules.RULES:
        for method in worst.METHODS:
            plain, other = (
                worst.worst_case(each, m, rule=rule, method=method).upper
                for each in (card, moved(card, 1e3))
            )
            assert other == pytest.approx(plain, abs=1e-6), (rule, method)
    ridge = make_card(m, "ridge")
    found = worst.worst_case(moved(ridge, 1e8), m)
    assert found.upper == pytest.approx(truth(ridge, table, "map"), abs=SLACK)


def test_margins_that_predict_cannot_tell_from_none_are_ties():
    m = marginals_of(make_table((2, 3, 2), 2, "logistic", 1))
    card = make_card(m, "random")
    small = replace(card, z=1e-7 * card.z, intercept=0 * card.intercept)
    assert worst.worst_case(small, m).upper < 1 - 1e-3
    assert worst.worst_case(moved(small, 1e10), m).upper == 1.0


@pytest.mark.parametrize("rule", ["renyi", "sharp"])
@pytest.mark.parametrize("K", [2, 3])
def test_rounding_of_large_points_moves_no_answer_beyond_the_bound(K, rule):
    """What `predict` makes of points in the billions is not what they add up to."""
    table = make_table((3, 3), K, "dirichlet", 1)
    m, rng = marginals_of(table), np.random.default_rng(0)
    card, A = make_card(m, "ridge"), marginal_constraints(table)
    for scale in (1e9, 1e12, 1e15, 1e16) * 3:
        z = scale * rng.integers(-2, 3, card.z.shape)
        large = replace(card, z=z, intercept=0 * card.intercept)
        t = large.estimates(outcomes(table.shape[:-1]).T)
        found = worst.worst_case(large, m, rule=rule)
        assert found.upper >= worst_case(rules.rule_proba(t, rule), *A) - 1e-9


# ---- solvers that stop early, or are off


def test_direct_program_is_mended(monkeypatch):
    """Multipliers that are off prove less, but nothing that is false."""
    table = make_table((2, 3, 2), 2, "dirichlet", 2)
    m = marginals_of(table)
    card, limits = make_card(m, "ridge"), []
    solve, rng = ambiguity_set.solve, np.random.default_rng(0)

    def careless(program, time_limit):
        limits.append(time_limit)
        answer = solve(program)
        off = rng.normal(0, 1e-4, len(answer.duals))
        return replace(answer, value=0.0, duals=answer.duals + off, status="stopped")

    monkeypatch.setattr(ambiguity_set, "solve", careless)
    exact = truth(card, table, "map")
    found = worst.worst_case(card, m, time_limit=7)
    assert 6 < limits[0] <= 7
    assert exact < found.upper < exact + 0.01
    assert found.lower == pytest.approx(exact, abs=SLACK)
    X = outcomes(table.shape[:-1])
    losses = Losses.of(card, m, "map")
    above = losses.ambiguity.functions(found.multiplier, X)
    assert (above >= losses.at(X) - 1e-12).all()


def stop(*_, **__):
    raise KeyboardInterrupt


def test_interruption_of_the_first_programs_ends_the_search(monkeypatch):
    m = marginals_of(make_table((2, 3, 2), 2, "logistic", 0))
    card = make_card(m, "ridge")
    monkeypatch.setattr(ambiguity_set, "solve", stop)
    direct = worst.worst_case(card, m)
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    monkeypatch.setattr(worst, "solve_worst", stop)
    monkeypatch.setattr(worst, "search", None)
    for found in (direct, worst.worst_case(card, m)):
        assert found.interrupted
        assert found.upper == pytest.approx(found.closed_form, abs=1e-12)
        assert (found.lower, found.distribution) == (0.0, None)


@pytest.mark.parametrize("rule", rules.RULES)
def test_linear_program_gets_the_time_that_the_other_declines(monkeypatch, rule):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    m = marginals_of(make_table((2, 3, 2), 2, "logistic", 0))
    limits = {}

    def declined(losses, semidefinite, time_limit):
        limits[semidefinite] = time_limit
        nothing = np.zeros(len(losses.ambiguity.b))
        return Bound(np.inf, nothing, "declined")

    monkeypatch.setattr(worst, "solve_worst", declined)
    worst.worst_case(make_card(m, "ridge"), m, rule=rule, time_limit=30)
    assert limits[False] > 20 > limits[True] > 8


def test_search_goes_on_from_an_earlier_result(monkeypatch):
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    table = make_table((3,) * 4, 2, "logistic", 1)
    m = marginals_of(table)
    card = make_card(m, "ridge")
    first = worst.worst_case(card, m, method="lp")
    assert first.upper < first.closed_form
    stopped = worst.worst_case(card, m, progress=stop, start=first)
    assert stopped.interrupted
    assert stopped.upper <= first.upper
    last = worst.worst_case(card, m, start=stopped)
    assert last.upper == pytest.approx(truth(card, table, "map"), abs=2e-6)
    for other, rule in ((make_card(m, "random"), "map"), (card, "sharp")):
        with pytest.raises(ValueError, match="start"):
            worst.worst_case(other, m, rule=rule, start=first)


@pytest.mark.parametrize("kind", few(1, KINDS))
def test_member_is_found_after_the_search(monkeypatch, kind):
    """A search that ends at once knows hardly any outcome."""
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    table = make_table((3,) * 6, 2, kind, KINDS.index(kind))
    m = marginals_of(table)
    card = make_card(m, "ridge")
    found = worst.worst_case(card, m, tolerance=2.0, rule="sharp")
    assert found.distribution.marginal_error < 1e-9
    p = cells_of(found.distribution.frame(), table)
    t = card.estimates(outcomes(table.shape[:-1]).T)
    err = error(rule_losing_ties(t, "sharp"), p)
    assert err == pytest.approx(found.lower, abs=1e-9)


def test_class_that_cannot_occur_is_impossible():
    """Class 1 needs x0 = 1 and x2 = 1, which never meet: half of the columns."""
    m = marginals_of(make_table((2, 2, 2, 2), 2, "logistic", 0))
    losses = Losses.of(make_card(m, "ridge"), m, "map")
    tables = list(losses.ambiguity.tables)
    for t, table in enumerate(tables):
        p = table.probabilities.copy()
        if table.features in ((0,), (2,)):
            p[0, 1] = 0.0
        if table.features == (0, 2):
            p[1, 1] = 0.0
        tables[t] = table._replace(probabilities=p)
    amb = replace(losses.ambiguity, tables=tuple(tables))
    losses = replace(losses, ambiguity=amb)
    found = search(losses, losses.closed_form(), 1.0, time_limit=10)
    assert found.upper < IMPOSSIBLE


@pytest.mark.long
def test_time_limit_is_kept_on_votes():
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    begun = time.process_time()  # other work on the machine does not count
    found = worst.worst_case(clf, clf.marginals_, rule="sharp", time_limit=3)
    assert time.process_time() - begun < 20
    assert 0 <= found.lower <= 0.058583 <= found.upper <= found.closed_form


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "value"), [("map", 0.085742), ("renyi", 0.056587), ("sharp", 0.058582)]
)
def test_votes_exactly(rule, value):
    """All 16 features, 43 million outcomes: below the closed form, from both sides."""
    X, y = load("votes")
    clf = RenyiClassifier().fit(X, y)
    found = worst.worst_case(clf, clf.marginals_, rule=rule, time_limit=600)
    assert found.gap <= 1e-5
    assert found.upper == pytest.approx(value, abs=1e-4)
    assert found.upper < found.closed_form - 1e-3
    assert found.distribution.marginal_error < 1e-9
    frame = found.distribution.frame().rename(columns={"probability": "count"})
    again = Marginals.from_tables([frame], target="party")
    again = again.select(clf.marginals_.feature_names)
    for first in clf.marginals_.feature_names:
        expected = clf.marginals_.block(first, "party") / 435
        assert np.allclose(
            again.block(first, "party").reindex(expected.index), expected, atol=1e-8
        )
