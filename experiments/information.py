r"""The minimum mutual information principle, next to the minimum HGR principle.

Globerson and Tishby (2004) choose the member of C whose features say least about the
label; Farnia and Tse (2016) show that its conditional is the minimax rule of log loss:

.. math:: \max_{p \in C} H(Y | X) = \min_r \max_{p \in C} E[-\log r_Y(X)].

The paper sets its own principle against this one. Over all outcomes of a small table it
is an exponential cone program,

.. math:: \max \sum_{x, y} u(x, y), \quad
    p(x, y) \exp\frac{u(x, y)}{p(x, y)} \le \sum_{y'} p(x, y'), \quad A p = b.

The multipliers of ``A p = b`` give functions λ_y with ``Σ_y exp(−λ_y(x)) ≤ 1`` at every
x and E[λ_Y] = max H(Y|X). The rule is ``r_y(x) ∝ exp(−λ_y(x))``; where the chosen
distribution has mass, it is its conditional. The likelier class is wrong only where
r_y(x) ≤ ½, that is where −log₂ r_y(x) ≥ 1. So its worst error is at most max H(Y|X) in
bits, and that of an answer drawn by r at most max H(Y|X) in nats.

* A. Globerson, N. Tishby: The minimum information principle for discriminative
  learning. UAI 2004.
* F. Farnia, D. Tse: A minimax approach to supervised learning. NIPS 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import softmax, xlogy

from experiments import command
from experiments.reports import Report
from experiments.theorems import KINDS, marginals_of
from renyi.datasets import random_joint
from renyi.robust.ambiguity_set import Ambiguity, Floats, Outcomes, worst_member
from renyi.robust.brier_risk import theta
from renyi.robust.minimax_problem import minimax
from renyi.solvers.programs import (
    SOLVED,
    clarabel,
    clarabel_settings,
    interior_points,
)

EXTRAS = ("matplotlib", "highspy", "clarabel")
OPTIONS = {"tables": command.Option(300, "random joint tables of each kind")}
_GROUP = 10
_SLACK = 1e-6  # of the programs' answers
RULES = {
    "information": "likeliest class, minimum information",
    "drawn": "drawn, minimum information",
    "squares": "drawn by squares, minimum information",
    "map": "likeliest class, minimum HGR (δ̃map)",
    "renyi": "drawn by squares, minimum HGR (δ̃)",
}


class LeastInformed(NamedTuple):
    """The member of C of largest H(Y|X), that entropy in nats, and its rule."""

    outcomes: Outcomes
    p: Floats
    entropy: float
    rule: Floats  # answers of each class at each outcome


def least_informed(ambiguity: Ambiguity) -> LeastInformed:
    """Maximise H(Y|X) over all members of C.

    >>> from experiments.theorems import marginals_of
    >>> joint = np.array([[0.3, 0.2], [0.1, 0.4]])  # one feature: C has one member
    >>> result = least_informed(Ambiguity.of(marginals_of(joint)))
    >>> round(result.entropy, 5), result.rule.round(4).tolist()
    (0.58671, [[0.6, 0.4], [0.2, 0.8]])
    """
    module = clarabel()
    X = ambiguity.outcomes()
    K = ambiguity.n_classes
    where = np.flatnonzero(ambiguity.possible(X).ravel())
    n = len(where)
    # Cells that follow from others would make the equations dependent.
    rows = np.flatnonzero(~ambiguity.reference_cells & (ambiguity.b > 0))
    equations = ambiguity.constraint_matrix(X).tocsr()[rows][:, where]
    matrix = sparse.vstack(
        [
            sparse.hstack([equations, sparse.csr_array((len(rows), n))]),
            -_cone_rows(where // K),
        ],
        format="csc",
    )
    right = np.zeros(matrix.shape[0])
    right[: len(rows)] = ambiguity.b[rows]
    cones = [module.ZeroConeT(len(rows)), *[module.ExponentialConeT()] * n]
    cost = np.concatenate([np.zeros(n), -np.ones(n)])
    answer = interior_points(cost, matrix, right, cones, clarabel_settings())
    if str(answer.status) not in SOLVED:
        raise ValueError(f"The cone solver returned {answer.status}.")
    mass = np.zeros(len(X) * K)
    mass[where] = np.maximum(np.array(answer.x[:n]), 0)
    p = mass.reshape(len(X), K)
    multiplier = np.zeros(len(ambiguity.b))
    multiplier[rows] = np.array(answer.z[: len(rows)])
    values = ambiguity.functions(multiplier, X)
    values[~ambiguity.possible(X)] = np.inf
    return LeastInformed(X, p, entropy(p), softmax(-values, axis=1))


def _cone_rows(outcome: Any) -> sparse.csc_array:
    """Rows (u, p, Σ p) of each possible cell, over the variables (p, u)."""
    n = len(outcome)
    cell = np.arange(n)
    same = sparse.csr_array((np.ones(n), (outcome, cell)))
    total = same.T @ same
    empty = sparse.csr_array((n, n))
    eye = sparse.eye_array(n, format="csr")
    u, p, sums = [empty, eye], [eye, empty], [total, empty]
    stacked = sparse.vstack([sparse.hstack(each) for each in (u, p, sums)]).tocsr()
    order = (np.arange(3)[None, :] * n + cell[:, None]).ravel()
    return sparse.csc_array(stacked[order])


def entropy(p: Floats) -> float:
    """H(Y|X) of a distribution (outcomes × classes), in nats.

    >>> bool(np.isclose(entropy(np.array([[0.25, 0.25], [0.5, 0.0]])), np.log(2) / 2))
    True
    """
    return float(xlogy(p.sum(axis=1), p.sum(axis=1)).sum() - xlogy(p, p).sum())


def likeliest(rule: Floats) -> Floats:
    """Return the rule that answers the likeliest class; ties count as wrong.

    >>> likeliest(np.array([[0.4, 0.6], [0.5, 0.5]])).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    most = rule.max(axis=1, keepdims=True)
    tied = (rule >= most - _SLACK).sum(axis=1, keepdims=True) > 1
    return np.where((rule == most) & ~tied, 1.0, 0.0)


def squares(rule: Floats) -> Floats:
    """Return the rule that answers a class with the square of its chance, as δ̃ does.

    >>> squares(np.array([[0.75, 0.25], [1.0, 0.0]])).round(2).tolist()
    [[0.9, 0.1], [1.0, 0.0]]
    """
    chances = rule**2
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: groups of tables of each kind."""
    groups = range(0, settings["tables"], _GROUP)
    return [f"{kind} {first}" for kind in KINDS for first in groups]


def work(key: str, settings: Mapping[str, Any]) -> list[dict[str, float]]:
    """Compare the two principles on some tables."""
    kind, first = key.split()
    last = min(int(first) + _GROUP, settings["tables"])
    seed = settings["seed"]
    return [
        compared(drawn(kind, repetition, seed))
        for repetition in range(int(first), last)
    ]


def drawn(kind: str, repetition: int, seed: int) -> Floats:
    """Return a random joint table of a kind."""
    random = np.random.default_rng([seed, repetition, KINDS.index(kind)])
    sizes = random.integers(2, 4, random.integers(2, 5)).tolist()
    return random_joint(sizes, kind=kind, random_state=random)  # type: ignore[arg-type]


def compared(joint: Floats) -> dict[str, float]:
    """Return the bounds of both principles, e*, and the worst errors of their rules."""
    m = marginals_of(joint)
    ambiguity = Ambiguity.of(m)
    least = least_informed(ambiguity)
    brier = theta(m)
    assert brier.theta is not None
    assert brier.rule is not None
    answers = {
        "information": likeliest(least.rule),
        "drawn": least.rule,
        "squares": squares(least.rule),
        "map": brier.rule.rule_proba(least.outcomes, "map"),
        "renyi": brier.rule.rule_proba(least.outcomes, "renyi"),
    }
    worst = {
        name: -worst_member(ambiguity, 1 - rule, least.outcomes)[1].value
        for name, rule in answers.items()
    }
    return {
        "bits": least.entropy / np.log(2),
        "nats": least.entropy,
        "theta": brier.theta,
        "minimax": minimax(m, "exact").upper,
        **worst,
    }


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return the worst errors of both principles next to e*, and their bounds."""
    frame = pd.concat(
        [pd.DataFrame(v).assign(kind=key.split()[0]) for key, v in results.items()]
    )
    some = frame[frame["minimax"] > _SLACK]
    errors = pd.DataFrame(
        [
            {
                "rule": text,
                "mean worst error": 100 * frame[name].mean(),
                "median worst / e*": (some[name] / some["minimax"]).median(),
                "largest worst / e*": (some[name] / some["minimax"]).max(),
                "smaller than the other principle": _ahead(frame, name),
            }
            for name, text in RULES.items()
        ]
    )
    bounds = pd.DataFrame(
        [
            _inequality(
                frame, "worst ≤ largest entropy, bits", "information", "bits", 1
            ),
            _inequality(
                frame, "worst of a draw ≤ largest entropy, nats", "drawn", "nats", 1
            ),
            _inequality(frame, "worst(δ̃) ≤ 2θ", "renyi", "theta", 2),
            _inequality(frame, "worst(δ̃map) ≤ 4θ", "map", "theta", 4),
        ]
    )
    notes = [
        "Mean worst errors are in percent; e* is the smallest worst error of any rule, "
        f"{100 * frame['minimax'].mean():.2f} % on average.",
        "Smaller than the other principle: share of the tables on which the worst "
        "error is smaller by more than 1e-6, for the same way of answering, the "
        "likelier class or a draw by squares.",
        "By squares: a class is answered with the square of its chance, divided by the "
        "sum of the squares. δ̃ is of this form.",
        "Largest entropy: the maximum of H(Y given X) over all members of C.",
        "Every worst error is exact, by a linear program over all outcomes. Ties of "
        "the likeliest class count as errors.",
        "Both principles rest on programs over all outcomes of a table. Only the HGR "
        "principle has a closed form from pair counts.",
    ]
    tables = {"Worst errors": errors, "Bounds": bounds}
    return Report(
        "Minimum mutual information and minimum HGR correlation",
        tables,
        notes,
        lambda figure: _draw(figure, some),
    )


_OTHER = {
    "information": "map",
    "squares": "renyi",
    "map": "information",
    "renyi": "squares",
}


def _ahead(frame: pd.DataFrame, name: str) -> str:
    """Return how often a rule is better than its counterpart, "" if it has none."""
    if name not in _OTHER:
        return ""
    share = (frame[name] < frame[_OTHER[name]] - _SLACK).mean()
    return f"{100 * share:.0f} %"


def _inequality(
    frame: pd.DataFrame, text: str, left: str, right: str, factor: int
) -> dict[str, Any]:
    limit = factor * frame[right]
    ratio = (frame[left] / limit)[limit > _SLACK]
    return {
        "inequality": text,
        "tables": len(frame),
        "violated": int((frame[left] > limit + _SLACK).sum()),
        "median ratio": ratio.median(),
        "largest ratio": ratio.max(),
    }


def _draw(figure: Any, frame: pd.DataFrame) -> None:
    axes = figure.add_subplot()
    axes.plot(frame["map"], frame["information"], "o", markersize=3)
    top = frame[["map", "information"]].to_numpy().max()
    axes.plot([0, top], [0, top], color="black", linewidth=0.8)
    axes.set_xlabel("worst error, likeliest class by minimum HGR correlation")
    axes.set_ylabel("worst error, likeliest class by minimum information")


if __name__ == "__main__":
    raise SystemExit(command.main("information"))
