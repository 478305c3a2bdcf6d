"""Witnesses: what they prove is true, and they change no tree."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from renyi.baselines import DiscreteChebyshevClassifier
from renyi.baselines.forests import solve_forest
from renyi.baselines.structures import greedy_tree
from renyi.baselines.witnesses import Witnesses, margins
from renyi.datasets import load, random_joint
from support.counted import class_tables


@pytest.mark.parametrize("seed", range(6))
def test_a_proven_bound_is_reached(seed: int) -> None:
    """Two classes: no program finds less than a witness proves, edge after edge."""
    rng = np.random.default_rng(seed)
    tables = class_tables(random_joint((3, 2, 3, 2, 2), 2, random_state=seed))
    sizes = tables.columns.sizes
    seen = Witnesses(tables.pairs.min(axis=0), sizes)
    edges, outside = [(0, 1)], [2, 3, 4]

    def bound(edges: list[tuple[int, int]]) -> float:
        found = solve_forest(tables.ambiguity(edges, alone=False), interior=False)
        seen.add(margins(edges, found.errors, sizes), found.value)
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
        return solve_forest(*args, **kwargs)

    monkeypatch.setattr("renyi.baselines.structures.solve_forest", counted)
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
    assert len(greedy_tree(tables).edges) == 3
    assert added == []
