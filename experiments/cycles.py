r"""Pairs that form a cycle: the Rényi bound next to the best tree of DCC.

The bound of the discrete Chebyshev classifier needs pairs along a tree, with the class;
2γ uses all pairs of columns. The paper says that this is an advantage where the columns
depend on each other along cycles. Which of the two is smaller is computed here on small
tables:

* *2γ* of the minimiser, without penalty, from the pair tables P(X_i, X_j), P(X_i, Y);
* the smallest worst error given P(X_i, X_j, Y) along a spanning tree, exactly, for
  every spanning tree (three of three columns, sixteen of four). The best of them is
  the smallest bound that any DCC on a tree can have;
* whether the table is separable (γ = θ). Both bounds hold on all tables, so that all
  are counted, those that are not separable in a row of their own.

A tree's tables hold pairs within each class, of which 2γ knows nothing: neither bound
is below the other in general.

Kinds of tables: ``"ring"`` is built so that only the sum of the columns tells the
class. Of d binary columns exactly k or k + 1 are 1, the class says which, and a
share of the rows has a class drawn at random; the weights of the outcomes are random.
``"additive"``, ``"logistic"`` and ``"dirichlet"`` are random joint tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments import command
from experiments.reports import Report
from experiments.theorems import marginals_of
from renyi.baselines.dcc import solve_tree
from renyi.datasets import random_joint
from renyi.estimators.classifier import RenyiClassifier
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity, Floats, Table
from renyi.robust.brier_risk import theta

EXTRAS = ("matplotlib", "highspy", "clarabel")
OPTIONS = {"tables": command.Option(1000, "tables of each kind")}
KINDS = ("ring", "additive", "logistic", "dirichlet")
_GROUP = 50
_SLACK = 1e-6  # of the programs' answers
_NOISE = (0.0, 0.05, 0.1, 0.2)

Edges = tuple[tuple[int, int], ...]


def spanning_trees(d: int) -> Iterator[Edges]:
    """Yield every tree over d columns, each edge away from column 0.

    >>> [len(list(spanning_trees(d))) for d in (2, 3, 4, 5)]
    [1, 3, 16, 125]
    >>> list(spanning_trees(3))
    [((0, 1), (0, 2)), ((0, 1), (1, 2)), ((0, 2), (2, 1))]
    """
    for chosen in itertools.combinations(itertools.combinations(range(d), 2), d - 1):
        edges = _directed(chosen)
        if len(edges) == d - 1:
            yield edges


def _directed(chosen: Edges) -> Edges:
    """Return the edges that can be reached from column 0, each away from it."""
    reached = [0]
    edges = []
    for i in reached:  # grows while it is read
        for edge in chosen:
            (j,) = {*edge} - {i} if i in edge else (None,)
            if j is not None and j not in reached:
                reached.append(j)
                edges.append((i, j))
    return tuple(edges)


def best_tree(joint: Floats, m: Marginals) -> float:
    """Return the smallest bound of DCC over all spanning trees."""
    trees = spanning_trees(joint.ndim - 1)
    return min(tree_bound(joint, m, edges) for edges in trees)


def tree_bound(joint: Floats, m: Marginals, edges: Edges) -> float:
    """Return the smallest worst error, given P(X_i, X_j, Y) along a tree."""
    tables = tuple(Table(edge, True, _margin(joint, edge)) for edge in edges)
    ambiguity = Ambiguity(m.encoder.columns, m.columns.named(m.target), tables)
    return solve_tree(ambiguity, interior=False).value


def _margin(joint: Floats, edge: tuple[int, int]) -> Floats:
    """Return P(X_i, X_j, Y), the axes in this order."""
    i, j = edge
    others = tuple(k for k in range(joint.ndim - 1) if k not in edge)
    margin: Floats = joint.sum(axis=others)
    return margin if i < j else margin.swapaxes(0, 1)


def ring(d: int, k: int, noise: float, random: np.random.Generator) -> Floats:
    """Return a joint table in which the sum of d binary columns tells the class.

    >>> joint = ring(3, 1, 0.0, np.random.default_rng(0))
    >>> joint.shape, round(float(joint.sum()), 12), float(joint[1, 0, 0, 1])
    ((2, 2, 2, 2), 1.0, 0.0)
    """
    joint = np.zeros((2,) * d + (2,))
    for x in itertools.product((0, 1), repeat=d):
        if sum(x) in (k, k + 1):
            weight = random.gamma(2.0)
            joint[(*x, sum(x) - k)] = weight * (1 - noise / 2)
            joint[(*x, 1 - sum(x) + k)] = weight * noise / 2
    return np.asarray(joint / joint.sum())


def drawn(kind: str, repetition: int, seed: int) -> Floats:
    """Return a random joint table of a kind."""
    random = np.random.default_rng([seed, repetition, KINDS.index(kind)])
    d = int(random.integers(3, 5))
    if kind == "ring":
        k = int(random.integers(1, d - 1)) if d > 3 else 1
        return ring(d, k, float(random.choice(_NOISE)), random)
    return random_joint([2] * d, kind=kind, random_state=random)  # type: ignore[arg-type]


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: groups of tables of each kind."""
    groups = range(0, settings["tables"], _GROUP)
    return [f"{kind} {first}" for kind in KINDS for first in groups]


def work(key: str, settings: Mapping[str, Any]) -> list[dict[str, float]]:
    """Compute both bounds on some tables."""
    kind, first = key.split()
    last = min(int(first) + _GROUP, settings["tables"])
    return [
        compared(drawn(kind, repetition, settings["seed"]))
        for repetition in range(int(first), last)
    ]


def compared(joint: Floats) -> dict[str, float]:
    """Return 2γ, the best tree's bound, and whether the table is separable."""
    m = marginals_of(joint)
    clf = RenyiClassifier(alpha=0.0, rule="sharp").fit_marginals(m)
    gamma = clf.certificate_.gamma
    brier = theta(m, class_conditional=False)
    assert brier.theta is not None
    assert gamma is not None
    return {
        "columns": joint.ndim - 1,
        "renyi": 2 * gamma,
        "tree": best_tree(joint, m),
        "separable": bool(gamma - brier.theta < _SLACK),
    }


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return how often 2γ is below the bound of the best tree."""
    frame = pd.concat(
        [pd.DataFrame(v).assign(kind=key.split()[0]) for key, v in results.items()]
    )
    frame["below"] = frame["renyi"] < frame["tree"] - _SLACK
    rows = [
        _counted(str(kind), bool(separable), part)
        for kind, of_kind in frame.groupby("kind", sort=False)
        for separable, part in of_kind.groupby("separable")
    ]
    notes = [
        "2γ below: number of tables of a row on which 2γ is smaller than the bound of "
        "every spanning tree by more than 1e-6. The largest gain is the largest "
        "difference on these. 2γ is a bound of δ̃ and δ̃sharp on every table.",
        "Separable: γ = θ, by a cone program. Means are over all tables of a row.",
        "Every bound of a tree is exact, by a linear program, and the best of all "
        "spanning trees is taken: no DCC on a tree promises less.",
        "A ring is built for this comparison: given the tables along a tree, a member "
        "can break the sum of the columns, which all pairs together fix.",
    ]
    return Report(
        "Pairs that form a cycle",
        {"2γ and the best tree": pd.DataFrame(rows)},
        notes,
        lambda figure: _draw(figure, frame),
    )


def _counted(kind: str, separable: bool, part: pd.DataFrame) -> dict[str, Any]:
    below = part[part["below"]]
    return {
        "kind": kind,
        "separable": "yes" if separable else "no",
        "tables": len(part),
        "2γ below": len(below),
        "share": f"{100 * part['below'].mean():.1f} %",
        "mean 2γ %": 100 * part["renyi"].mean(),
        "mean best tree %": 100 * part["tree"].mean(),
        "largest gain, points": 100 * (below["tree"] - below["renyi"]).max(),
    }


def _draw(figure: Any, frame: pd.DataFrame) -> None:
    axes = figure.add_subplot()
    for colour, (kind, of_kind) in enumerate(frame.groupby("kind", sort=False)):
        for separable, part in of_kind.groupby("separable"):
            style = f"C{colour}{'o' if separable else 'x'}"
            label = f"{kind}, {'separable' if separable else 'not separable'}"
            axes.plot(100 * part["tree"], 100 * part["renyi"], style, ms=3, label=label)
    top = 100 * frame[["tree", "renyi"]].to_numpy().max()
    axes.plot([0, top], [0, top], color="black", linewidth=0.8)
    axes.set_xlabel("bound of the best tree, %")
    axes.set_ylabel("2γ, %")
    axes.legend()


if __name__ == "__main__":
    raise SystemExit(command.main("cycles"))
