"""DiscreteChebyshevClassifier: its bound, its trees, and manners of an estimator."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from renyi import Encoder, Marginals
from renyi.baselines import DiscreteChebyshevClassifier, TreeAugmentedNaiveBayes
from renyi.baselines.dcc import (
    Witnesses,
    greedy_tree,
    least_sums,
    margins,
    second_opinion,
    solve_tree,
)
from renyi.baselines.tan import conditional_information, spanning_tree
from renyi.datasets import load, random_joint
from renyi.robust.ambiguity_set import shortfall
from support.counted import class_tables, random_table
from support.joints import minimax_error, outcomes, worst_case
from support.manners import all_checks, by_any_road, refuses
from support.repeats import few

TOL = 1e-6


def constraints(table: np.ndarray, groups: list[tuple[int, ...]]):
    """(A, b) with A p = b for the p that share the tables of features with Y."""
    codes = outcomes(table.shape)
    rows = []
    for group in groups:
        shape = [table.shape[i] for i in (*group, -1)]
        cell = np.ravel_multi_index(codes[:, [*group, -1]].T, shape)
        where = (cell, np.arange(len(codes)))
        size = (int(np.prod(shape)), len(codes))
        rows.append(sp.csr_array((np.ones(len(codes)), where), shape=size))
    A = sp.vstack(rows, format="csr")
    return A, A @ table.ravel()


def groups_of(edges: list[tuple[int, int]], d: int) -> list[tuple[int, ...]]:
    hung = {i for edge in edges for i in edge}
    return [*edges, *((i,) for i in range(d) if i not in hung)]


# ---- the program


@pytest.mark.parametrize("block", few(4, range(10)))
def test_bound_is_that_of_the_full_table(block: int) -> None:
    """On 100 random tables, trees and forests, two to four classes."""
    for seed in range(10 * block, 10 * block + 10):
        table = random_table(seed)
        d, K = table.ndim - 1, table.shape[-1]
        rng = np.random.default_rng(seed)
        edges = spanning_tree(rng.random((d, d)))
        if seed % 5 == 4:
            del edges[rng.integers(len(edges))]
        A, b = constraints(table, groups_of(edges, d))
        truth = minimax_error(A, b, K)
        ambiguity = class_tables(table).ambiguity(edges)
        middle = solve_tree(ambiguity)
        corner = solve_tree(ambiguity, interior=False)
        assert middle.value == pytest.approx(truth, abs=TOL)
        assert corner.value == pytest.approx(truth, abs=TOL)
        for found in (middle, corner):
            values = ambiguity.functions(found.multiplier, outcomes(table.shape[:-1]))
            assert shortfall(values) < 1e-9  # proven at every outcome
            assert ambiguity.b @ found.multiplier == pytest.approx(found.value)


def test_two_classes_of_a_forest_are_as_hard_as_its_easiest_part() -> None:
    table = random_joint((2, 3, 2, 3), 2, random_state=3)
    tables = class_tables(table)
    parts = [
        solve_tree(tables.ambiguity([edge], alone=False)).value
        for edge in [(0, 1), (2, 3)]
    ]
    both = solve_tree(tables.ambiguity([(0, 1), (2, 3)])).value
    assert both == pytest.approx(min(parts), abs=1e-8)
    pair = table.sum(axis=(2, 3))
    assert parts[0] == pytest.approx(1 - pair.max(axis=-1).sum(), abs=1e-8)


def test_errors_of_the_worst_distribution_add_up_to_the_bound() -> None:
    for seed in (1, 2, 3, 7):
        table = random_table(seed)
        edges = [(0, 1), (1, 2)]
        ambiguity = class_tables(table).ambiguity(edges, alone=False)
        found = solve_tree(ambiguity, interior=False)
        first, second = found.errors
        assert first.sum() == pytest.approx(found.value, abs=1e-8)
        np.testing.assert_allclose(first.sum(axis=0), second.sum(axis=1), atol=1e-8)


def test_messages_find_the_minimum() -> None:
    rng = np.random.default_rng(0)
    table = random_joint((3, 2, 3, 2), 3, random_state=0)
    ambiguity = class_tables(table).ambiguity([(2, 0), (2, 3)])
    multiplier = rng.normal(size=len(ambiguity.b))
    sets = [(0,), (1, 2), (0, 1, 2)]
    values = ambiguity.functions(multiplier, outcomes(table.shape[:-1]))
    truth = [values[:, list(S)].sum(axis=1).min() for S in sets]
    np.testing.assert_allclose(least_sums(ambiguity, multiplier, sets), truth)


# ---- the trees


@pytest.mark.parametrize("seed", range(6))
def test_greedy_takes_the_best_edge(seed: int) -> None:
    """Two classes: the bound after each edge is the best of all candidates."""
    table = random_joint((2, 3, 2, 3), 2, random_state=seed)
    tables = class_tables(table)
    tree, bounds = greedy_tree(tables)
    pairs = combinations(range(4), 2)
    first = min(solve_tree(tables.ambiguity([p], alone=False)).value for p in pairs)
    assert bounds[0] == pytest.approx(first, abs=1e-8)
    for step in (1, 2):
        edges = tree[:step]
        inside = {i for edge in edges for i in edge}
        trials = [
            solve_tree(tables.ambiguity([*edges, (i, j)], alone=False)).value
            for i in inside
            for j in set(range(4)) - inside
        ]
        assert bounds[step] == pytest.approx(min(trials), abs=1e-8)


@pytest.mark.parametrize(("name", "fall"), [("votes", 0.0), ("kr-vs-kp", 0.09)])
def test_greedy_bound_never_rises_and_beats_the_tree(name: str, fall: float) -> None:
    X, y = load(name)
    greedy = DiscreteChebyshevClassifier("greedy").fit(X, y)
    tree = DiscreteChebyshevClassifier().fit(X, y)
    assert len(greedy.edges_) == len(tree.edges_) == X.shape[1] - 1
    assert (np.diff(greedy.bounds_) <= 0).all()
    assert greedy.bounds_[0] - greedy.bounds_[-1] >= fall
    assert greedy.guarantee_ == pytest.approx(greedy.bounds_[-1], abs=TOL)
    assert greedy.guarantee_ < tree.guarantee_ - 1e-3
    assert tree.bounds_ == []


@pytest.mark.parametrize("K", [2, 3])
def test_an_edge_never_raises_the_bound(K: int) -> None:
    tables = class_tables(random_joint((2, 3, 2, 2), K, random_state=K))
    sizes = tables.columns.sizes
    edges = spanning_tree(conditional_information(tables.pairs, sizes))
    bounds = [solve_tree(tables.ambiguity(edges[:k])).value for k in range(4)]
    assert (np.diff(bounds) <= 1e-8).all()
    assert bounds[-1] < bounds[0] - 1e-4


def test_smoothing_keeps_single_features() -> None:
    tables = class_tables(random_table(6))
    sizes = tables.columns.sizes
    other = tables.smoothed(np.array([0.3, 0.1, 0.2]))
    for i, j in combinations(range(len(sizes)), 2):
        p, q = tables.table(i, j).probabilities, other.table(i, j).probabilities
        np.testing.assert_allclose(p.sum(axis=0), q.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), q.sum(axis=1), atol=1e-12)
        apart = p[:, :, 0].sum(axis=1)[:, None] * p[:, :, 0].sum(axis=0)
        expected = 0.7 * p[:, :, 0] + 0.3 * apart / p[:, :, 0].sum()
        np.testing.assert_allclose(q[:, :, 0], expected, atol=1e-12)


# ---- witnesses


@pytest.mark.parametrize("seed", range(6))
def test_a_proven_bound_is_reached(seed: int) -> None:
    """Two classes: no program finds less than a witness proves, edge after edge."""
    rng = np.random.default_rng(seed)
    tables = class_tables(random_joint((3, 2, 3, 2, 2), 2, random_state=seed))
    seen = Witnesses(tables.pairs.min(axis=0), tables.spans)
    edges, outside = [(0, 1)], [2, 3, 4]

    def bound(edges: list[tuple[int, int]]) -> float:
        found = solve_tree(tables.ambiguity(edges, alone=False), interior=False)
        seen.add(margins(edges, found.errors, tables.spans), found.value)
        return found.value

    now = bound(edges)
    proven = 0
    while outside:
        for edge in product(sorted({i for e in edges for i in e}), outside):
            levels = np.linspace(0.5, 1.0, 11) * now
            claims = [least for least in levels if seen.prove(edge, float(least))]
            truth = bound([*edges, edge])
            assert not claims or max(claims) <= truth + 1e-9
            assert seen.prove(edge, truth - 1e-9)  # by the program just solved
            proven += len(claims)
        edges.append((edges[rng.integers(len(edges))][0], outside.pop()))
        seen.extend(edges[-1])
        now = bound(edges)
    assert proven > 0


@pytest.mark.parametrize("name", ["votes", "kr-vs-kp"])
def test_no_tree_changes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees with and without witnesses, which spare most programs."""
    X, y = load(name)
    programs = []

    def counted(*args, **kwargs):
        programs.append(1)
        return solve_tree(*args, **kwargs)

    monkeypatch.setattr("renyi.baselines.dcc.solve_tree", counted)
    with_them = DiscreteChebyshevClassifier("greedy", smoothing=1.0).fit(X, y)
    few = len(programs)
    monkeypatch.setattr(Witnesses, "prove", lambda self, edge, least: False)
    without = DiscreteChebyshevClassifier("greedy", smoothing=1.0).fit(X, y)
    assert with_them.edges_ == without.edges_
    np.testing.assert_allclose(with_them.bounds_, without.bounds_, rtol=0, atol=1e-9)
    assert few < len(programs) - few


def test_more_classes_have_no_witnesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three classes more may be asked than a witness knows."""
    tables = class_tables(random_joint((2, 3, 2, 3), 3, random_state=1))
    added = []
    monkeypatch.setattr(Witnesses, "add", lambda self, *what: added.append(what))
    assert len(greedy_tree(tables)[0]) == 3
    assert added == []


# ---- the estimator


@pytest.mark.parametrize(
    ("estimator", "check"),
    all_checks(
        [
            DiscreteChebyshevClassifier(),
            DiscreteChebyshevClassifier("greedy", smoothing=2, encoder=Encoder(bins=3)),
        ]
    ),
)
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("structure", ["tree", "greedy"])
def test_guarantee_is_the_worst_case_of_the_rule(structure, smoothing) -> None:
    for seed in range(4):
        K = 2 + seed % 2
        table = random_joint((3, 2, 2, 3), K, random_state=seed)
        codes = outcomes(table.shape).astype(str)
        clf = DiscreteChebyshevClassifier(structure, smoothing)
        clf.fit(codes[:, :-1], codes[:, -1], sample_weight=table.ravel())
        edges = [(int(a[1:]), int(b[1:])) for a, b in clf.edges_]
        A, b = constraints(table, edges)
        X = outcomes(table.shape[:-1]).astype(str)
        worst = worst_case(clf.rule_proba(X), A, b)
        best = minimax_error(A, b, K)
        assert worst <= clf.guarantee_ + TOL
        assert clf.guarantee_ >= best - TOL
        if not smoothing:
            assert clf.guarantee_ == pytest.approx(best, abs=TOL)
            assert worst == pytest.approx(best, abs=TOL)
        picked = np.eye(K)[np.searchsorted(clf.classes_, clf.predict(X))]
        assert worst_case(picked, A, b) <= 2 * clf.guarantee_ + TOL
        np.testing.assert_array_equal(clf.rule_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("structure", ["tree", "greedy"])
def test_any_road_to_the_same_model(votes, structure) -> None:
    X, y = votes

    def same(a, b) -> None:
        assert a.guarantee_ == pytest.approx(b.guarantee_, abs=1e-9)

    a, b = by_any_road(DiscreteChebyshevClassifier(structure), X, y, same)
    assert a.edges_ == b.edges_
    assert a.guarantee_ == pytest.approx(b.guarantee_, abs=1e-10)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    wrong = a.rule_proba(X)[np.arange(len(y)), (y != "republican").astype(int)]
    assert wrong.mean() <= a.guarantee_ + 1e-9  # the rows are a member of C


def test_ties_are_decided_by_bayes_rule(votes) -> None:
    """The surprise of the tree's Bayes network, too small to be felt in the bound."""
    X, y = votes
    clf = DiscreteChebyshevClassifier().fit(X, y)
    bayes = TreeAugmentedNaiveBayes(smoothing=5.0).fit(X, y)
    assert clf.edges_ == bayes.edges_
    edges = [(X.columns.get_loc(i), X.columns.get_loc(j)) for i, j in clf.edges_]
    codes = clf.encoder_.transform(X).T
    ambiguity = clf.rule_.ambiguity
    surprise = ambiguity.functions(second_opinion(clf.marginals_, edges), codes)
    np.testing.assert_allclose(surprise, -bayes.tree_.log_joint(codes.T), atol=1e-9)
    bound = solve_tree(ambiguity).value
    assert bound <= clf.guarantee_ <= bound + 1.001e-7
    tied = clf.rule_.functions(codes.T)
    near = np.ptp(tied, axis=1) < 1e-6
    assert near.any()
    np.testing.assert_array_equal(clf.predict(X[near]), bayes.predict(X[near]))


@pytest.mark.parametrize("structure", ["tree", "greedy"])
def test_one_feature_and_constant_features(structure, votes) -> None:
    X, y = votes
    one = DiscreteChebyshevClassifier(structure).fit(X[["crime"]], y)
    counts = pd.crosstab(X["crime"].fillna("?"), y)
    truth = 1 - counts.max(axis=1).sum() / len(y)
    assert one.edges_ == []
    assert one.guarantee_ == pytest.approx(truth, abs=TOL)
    two = DiscreteChebyshevClassifier(structure)
    two.fit(X[["crime"]].assign(same="a"), y)
    assert two.guarantee_ == pytest.approx(truth, abs=TOL)
    np.testing.assert_array_equal(two.predict(X.assign(same="a")[["crime", "same"]]),
                                  one.predict(X[["crime"]]))  # fmt: skip


def test_bounds_are_those_of_the_smoothed_tables() -> None:
    """With smoothing: the bounds of rows that are mixed with independent ones."""
    rng = np.random.default_rng(23)
    X = pd.DataFrame(rng.integers(0, 2, (25, 3)).astype(str), columns=list("abc"))
    y = np.where(rng.random(25) < 0.4, "p", "q")
    clf = DiscreteChebyshevClassifier("greedy", smoothing=3.0).fit(X, y)
    parts, labels, weights = [], [], []
    for label in ("p", "q"):
        own = X[y == label]
        share = 3 / (3 + len(own))
        cells = pd.DataFrame(list(product("01", repeat=3)), columns=X.columns)
        odds = [cells[c].map(own[c].value_counts(normalize=True)).fillna(0) for c in X]
        mixed = share * len(own) * np.prod(odds, axis=0)
        parts += [own, cells[mixed > 0]]
        weights += [np.full(len(own), 1 - share), mixed[mixed > 0]]
        labels += [label] * (len(own) + int((mixed > 0).sum()))
    rows, weight = pd.concat(parts), np.concatenate(weights)
    plain = DiscreteChebyshevClassifier("greedy").fit(rows, labels, weight)
    assert clf.edges_ == plain.edges_
    np.testing.assert_allclose(clf.bounds_, plain.bounds_, atol=TOL)
    assert abs(clf.guarantee_ - clf.bounds_[-1]) > 1e-3  # that of the counted tables


def test_perfect_feature_needs_no_more(votes) -> None:
    X, y = votes
    told = X.assign(answer=y.to_numpy())
    clf = DiscreteChebyshevClassifier("greedy").fit(told, y)
    assert clf.guarantee_ == pytest.approx(0.0, abs=TOL)
    assert len(clf.bounds_) == 1  # no program was needed beyond the first pair
    assert len(clf.edges_) == X.shape[1]
    assert clf.score(told, y) == 1.0


def test_unseen_labels(votes) -> None:
    X, y = votes
    clf = DiscreteChebyshevClassifier().fit(X, y)
    other = X[:5].copy()
    other["crime"] = "abstained"
    assert clf.predict_proba(other).sum(axis=1) == pytest.approx(np.ones(5))
    strict = DiscreteChebyshevClassifier(encoder=Encoder(unseen="error")).fit(X, y)
    with pytest.raises(ValueError, match="abstained"):
        strict.predict(other)


def test_bad_input_is_refused_in_a_sentence(votes) -> None:
    X, y = votes
    with pytest.raises(ValueError, match="structure"):
        DiscreteChebyshevClassifier("chain").fit(X, y)
    with pytest.raises(ValueError, match="structure"):
        DiscreteChebyshevClassifier(["tree"]).fit(X, y)
    with pytest.raises(ValueError, match="smoothing"):
        DiscreteChebyshevClassifier(smoothing=-1).fit(X, y)
    with pytest.raises(ValueError, match="smoothing"):
        DiscreteChebyshevClassifier(smoothing="1").fit(X, y)
    with pytest.raises(ValueError, match="10 classes"):
        DiscreteChebyshevClassifier().fit(X, np.arange(len(y)) % 10)
    refuses(DiscreteChebyshevClassifier(), X, y)


def test_impossible_tables_are_refused(votes) -> None:
    X, y = votes
    m = Marginals.from_data(X, y, class_conditional=True)
    counts = m.class_counts.copy()
    counts[0, 0, 3:6] -= [1000, -500, -500]
    with pytest.raises(ValueError, match="class-conditional tables"):
        DiscreteChebyshevClassifier().fit_marginals(replace(m, class_counts=counts))


def test_greedy_on_57_features() -> None:
    X, y = load("promoters")
    clf = DiscreteChebyshevClassifier("greedy").fit(X, y)
    assert (np.diff(clf.bounds_) <= 0).all()
    tree = DiscreteChebyshevClassifier().fit(X, y)
    assert clf.guarantee_ < tree.guarantee_ - 0.02
