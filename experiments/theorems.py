r"""The paper's theorems on random joint tables: how tight each inequality is.

For the rules made of p̃, the distribution of least maximal correlation,

.. math:: \theta \le worst(\tilde\delta) \le 2\theta \le 2e^*, \qquad
    worst(\tilde\delta^{map}) \le 4e^*,

and for the rule sharp of any scores, ``worst ≤ 2γ``. Each side is computed exactly, by
a cone program or a linear program over all outcomes of a small table. A table is
separable if γ = θ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments import command
from experiments.reports import Report
from renyi.datasets import random_joint
from renyi.estimators.classifier import RenyiClassifier
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity, worst_member
from renyi.robust.brier_risk import theta
from renyi.robust.minimax_problem import minimax
from renyi.robust.worst import worst_case

EXTRAS = ("matplotlib", "highspy", "clarabel")
OPTIONS = {"tables": command.Option(300, "random joint tables of each kind")}
_GROUP = 10
KINDS = ("dirichlet", "additive", "logistic")
_SEPARABLE = 1e-6  # of γ − θ, both of them exact to 1e-8
_SLACK = 1e-6  # of the programs' answers
INEQUALITIES = {
    "θ ≤ worst(δ̃)": ("theta", "renyi", 1),
    "worst(δ̃) ≤ 2θ": ("renyi", "theta", 2),
    "2θ ≤ 2e*": ("theta", "minimax", 1),
    "worst(δ̃map) ≤ 4e*": ("map", "minimax", 4),
    "worst(δ̃sharp) ≤ 2γ": ("sharp", "gamma", 2),
}


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: groups of tables of each kind."""
    groups = range(0, settings["tables"], _GROUP)
    return [f"{kind} {first}" for kind in KINDS for first in groups]


def work(key: str, settings: Mapping[str, Any]) -> list[dict[str, float]]:
    """Compute both sides of every inequality on some tables."""
    kind, first = key.split()
    last = min(int(first) + _GROUP, settings["tables"])
    seed = settings["seed"]
    return [_sides(kind, repetition, seed) for repetition in range(int(first), last)]


def _sides(kind: str, repetition: int, seed: int) -> dict[str, float]:
    random = np.random.default_rng([seed, repetition, KINDS.index(kind)])
    sizes = random.integers(2, 4, random.integers(2, 5)).tolist()
    joint = random_joint(sizes, kind=kind, random_state=random)  # type: ignore[arg-type]
    m = marginals_of(joint)
    found, clf = theta(m), RenyiClassifier(alpha=0.0, rule="sharp").fit_marginals(m)
    assert found.theta is not None
    assert found.rule is not None
    ambiguity = Ambiguity.of(m)
    X = ambiguity.outcomes()
    worst = {
        rule: -worst_member(ambiguity, 1 - found.rule.rule_proba(X, rule), X)[1].value
        for rule in ("renyi", "map")
    }
    gamma = clf.certificate_.gamma
    assert gamma is not None
    return {
        "theta": found.theta,
        "gamma": gamma,
        "minimax": minimax(m, "exact").upper,
        "sharp": worst_case(clf, m).upper,
        **worst,
    }


def marginals_of(joint: Any) -> Marginals:
    """Marginals of a joint table whose last axis is the target ``y``.

    >>> marginals_of(np.full((2, 3, 2), 1 / 12)).feature_names
    ('x0', 'x1')
    """
    names = [f"x{i}" for i in range(joint.ndim - 1)]
    index = pd.MultiIndex.from_product(
        [range(k) for k in joint.shape], names=[*names, "y"]
    )
    cells = pd.Series(joint.ravel(), index, name="count")
    return Marginals.from_tables([cells], target="y")


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return the ratio of the left to the right side of each inequality."""
    frame = pd.concat(
        [pd.DataFrame(v).assign(kind=key.split()[0]) for key, v in results.items()]
    )
    frame["separable"] = frame["gamma"] - frame["theta"] < _SEPARABLE
    rows = [
        {
            "inequality": name,
            "tables": label,
            "number": len(part),
            "violated": int((_left(part, name) > _right(part, name) + _SLACK).sum()),
            "median ratio": _ratio(part, name).median(),
            "largest ratio": _ratio(part, name).max(),
        }
        for name in INEQUALITIES
        for label, part in (
            ("separable", frame[frame["separable"]]),
            ("not separable", frame[~frame["separable"]]),
        )
        if len(part)
    ]
    shares = frame.groupby("kind")["separable"].mean().mul(100).reset_index()
    shares.columns = ["kind of table", "separable %"]
    notes = [
        "A ratio is the left side over the right side: 1 means that the inequality is "
        "attained. Tables with a right side of 0 have none.",
        "Every side is exact: a cone program for θ, linear programs over all outcomes "
        "for the others. A table counts as separable if γ − θ < 1e-6.",
    ]
    tables = {"Inequalities": pd.DataFrame(rows), "Separable tables": shares}
    return Report("Theorems", tables, notes, lambda figure: _draw(figure, frame))


def _left(frame: pd.DataFrame, name: str) -> Any:
    return frame[INEQUALITIES[name][0]]


def _right(frame: pd.DataFrame, name: str) -> Any:
    _, right, factor = INEQUALITIES[name]
    return factor * frame[right]


def _ratio(frame: pd.DataFrame, name: str) -> Any:
    right = _right(frame, name)
    return (_left(frame, name) / right)[right > _SLACK]


def _draw(figure: Any, frame: pd.DataFrame) -> None:
    axes = figure.add_subplot()
    parts = {"separable": frame["separable"], "not separable": ~frame["separable"]}
    for shift, (label, chosen) in zip((-0.17, 0.17), parts.items(), strict=True):
        data = [_ratio(frame[chosen], name).to_numpy() for name in INEQUALITIES]
        places = np.arange(len(data)) + shift
        drawn = axes.boxplot(
            data,
            positions=places,
            widths=0.3,
            whis=(0, 100),
            patch_artist=True,
            medianprops={"color": "black"},
        )
        for box in drawn["boxes"]:
            box.set_facecolor("C0" if label == "separable" else "C1")
        drawn["boxes"][0].set_label(label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(INEQUALITIES)), INEQUALITIES, rotation=15)
    axes.set_ylabel("left side / right side")
    axes.set_ylim(bottom=0)
    axes.legend()


if __name__ == "__main__":
    raise SystemExit(command.main("theorems"))
