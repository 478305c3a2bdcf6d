"""The polynomial program: its value and time, and the error of its rule on new rows.

The first table is on all rows. It shows the value of `minimax(m, method="lp")`, an
upper bound on the minimax error e* and the guarantee of its rule. It is the least of
the polynomial program and two simple rules; the table says which attained it. It also
shows the CPU time, and 2γ, the closed form of `RenyiClassifier` with the rules sharp
and renyi.

The second table is the error on held-out rows, with the same splits for all.
`MinimaxClassifier` answers the class of its smallest function; map and sharp are rules
of `RenyiClassifier`. The error of sharp, which answers at random, is its expectation.
"""

from __future__ import annotations

from timing import Section, run  # isort: skip

import time
from typing import Any

import numpy as np
import pandas as pd
from accuracy import splits

import renyi
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.pairwise_program import quadratic_rule, solve_local, table_rule

NAMES = ("votes", "credit", "kr-vs-kp", "promoters")
MARGINS = (0.0, 1.0)


def benchmark() -> list[Section]:
    values = Section(
        "Value and time, all rows",
        table=[_value(name) for name in NAMES],
        notes=[
            "numeric columns in five bins, missing cells as a category of their own; "
            "seconds are CPU seconds of `minimax(m, method='lp')`, the least of three.",
            "the value is the least of three: the polynomial program, the best rule "
            "that looks at one feature only, and the rule of least squares, whose "
            "value is 2γ without penalty; *by* names those within 1e-6 of it.",
            "2γ is at the penalty that `RenyiClassifier()` chooses.",
            "least squares may win: the program asks of its tables that they agree on "
            "single columns, not that they are positive semidefinite, which is what 2γ "
            "rests on.",
            "with more categories than rows (promoters) least squares promises 0: that "
            "is true of the marginals of these very rows, and only of them. It says "
            "nothing about new rows; see the errors below.",
        ],
    )
    rows = [_errors(name) for name in NAMES]
    errors = Section(
        "Error on held-out rows",
        table=[row for row, _ in rows],
        notes=[
            "20 random splits, seeds 0 to 19, 70 % of the rows to train on; percent, "
            "mean and standard error of the mean over the splits.",
            "margin 1: every marginal may be off by one standard error.",
            "a guarantee is about the marginals of the training rows (with margin 1 "
            "and those near them), for the rule that may answer at random; it may be "
            "below the error on new rows, and on promoters, with 228 categories and 74 "
            "rows, it is no guide to it at all. `MinimaxClassifier.note_` says so.",
            "margin 0 takes the least of the three values on its training rows, margin "
            "1 the polynomial program.",
        ],
    )
    against = Section(
        "Difference to map on the same splits",
        table=[row for _, row in rows],
        notes=["percentage points; mean and standard error over the splits."],
    )
    return [values, errors, against]


def _value(name: str) -> dict[str, Any]:
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        result = renyi.minimax(m, method="lp")
        seconds.append(time.process_time() - start)
    chosen = renyi.RenyiClassifier().fit_marginals(m).certificate_
    ambiguity = Ambiguity.of(m)
    values = {
        "program": solve_local(ambiguity).value,
        "one feature": table_rule(ambiguity)[0],
        "least squares": max(0.0, quadratic_rule(ambiguity)[0]),
    }
    won = [title for title, value in values.items() if value < result.upper + 1e-6]
    return {
        "data": name,
        "rows": m.n,
        "features": len(m.feature_names),
        "categories": len(m.F),
        "value": f"{result.upper:.5f}",
        "CPU s": f"{min(seconds):.2f}",
        "by": ", ".join(won),
        **{title: f"{value:.5f}" for title, value in values.items()},
        "2γ": f"{2 * chosen.gamma:.5f}",
    }


def _errors(name: str) -> tuple[dict[str, str], dict[str, str]]:
    X, y = renyi.datasets.load(name)
    found: dict[str, list[float]] = {}
    promised: dict[str, list[float]] = {}
    for train, test in splits(len(y)):
        for title, error in _rules(X, y, train, test).items():
            found.setdefault(title, []).append(error)
        for margin in MARGINS:
            clf = renyi.MinimaxClassifier(margin=margin)
            clf.fit(X.iloc[train], y.iloc[train])
            wrong = clf.predict(X.iloc[test]) != y.iloc[test]
            title = f"minimax, margin {margin:g}"
            found.setdefault(title, []).append(float(wrong.mean()))
            promised.setdefault(title, []).append(clf.guarantee_)
    row = {title: _percent(errors) for title, errors in found.items()}
    bounds = {
        f"guarantee, margin {margin:g}": f"{100 * np.mean(values):.2f}"
        for margin, values in zip(MARGINS, promised.values(), strict=True)
    }
    base = np.array(found["map"])
    differences = {
        title: _percent(np.array(errors) - base)
        for title, errors in found.items()
        if title != "map"
    }
    return {"data": name, **row, **bounds}, {"data": name, **differences}


def _rules(
    X: pd.DataFrame, y: pd.Series, train: np.ndarray, test: np.ndarray
) -> dict[str, float]:
    clf = renyi.RenyiClassifier().fit(X.iloc[train], y.iloc[train])
    truth = np.searchsorted(clf.classes_, y.iloc[test])
    places = np.arange(len(test))
    return {
        rule: float(1 - clf.rule_proba(X.iloc[test], rule)[places, truth].mean())
        for rule in ("map", "sharp")
    }


def _percent(errors: Any) -> str:
    deviation = np.std(errors, ddof=1) / np.sqrt(len(errors))
    return f"{100 * np.mean(errors):.2f} ± {100 * deviation:.2f}"


if __name__ == "__main__":
    run("minimax_lp", "The polynomial program as a classifier", benchmark, both=False)
