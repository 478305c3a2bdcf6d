"""How often Algorithm 1 and forward selection find the best k features, by γ_S.

A piece is a data set (numbers binned). For every k up to 10, the first k features of
the path (`renyi.selection_path`), of `RenyiSelector` as it is, and of forward selection
without its ridge penalty are compared with

* the proved optimum (branch and bound) if there are at most 20 features;
* otherwise forward selection, which is not proved to be optimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import renyi
from experiments import command
from experiments.branch_and_bound import MOST_FEATURES, best_subset
from experiments.reports import Report
from renyi.solvers.forward_selection import forward, subset_value
from renyi.solvers.ridge import moments

EXTRAS = ()
SETS = ("votes", "credit", "adult", "kr-vs-kp", "promoters")
MOST = 10
EQUAL = 1e-7  # of γ: sets as good as the best count as the best
OPTIONS = {
    "most": command.Option(MOST, "largest number of features"),
    "datasets": command.Option(SETS, "bundled data sets"),
}
_FORMS = ("Algorithm 1", "forward selection", "without its penalty")
Result = dict[str, Any]


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces, which are the data sets.

    >>> keys({"datasets": ["credit", "votes"]})
    ['votes', 'credit']
    """
    return [name for name in SETS if name in settings["datasets"]]


def work(key: str, settings: Mapping[str, Any]) -> Result:
    """Compare the sets of one data set."""
    rows, d = compare(key, settings["most"])
    return {"features": d, "rows": rows.tolist()}


def compare(name: str, most: int = MOST) -> tuple[NDArray[Any], int]:
    """Return one row per k: γ of four sets.

    They are the path's, the selector's, that of forward selection without its penalty,
    and the best.
    """
    encoder = renyi.Encoder(bins=5)
    m = renyi.Marginals.from_data(*renyi.datasets.load(name), encoder=encoder)
    equations = moments(m.Q, m.F, m.class_probabilities, fit_intercept=True)
    sizes = m.encoder.columns.sizes
    path = renyi.selection_path(m)
    most = min(most, len(path.entries))
    greedy = forward(equations, sizes, most)
    default = renyi.RenyiSelector(n_features=most).fit_marginals(m).path_.places
    rows = []
    for k in range(1, most + 1):
        own = subset_value(equations, sizes, path.places[:k])
        usual = subset_value(equations, sizes, default[:k])
        best = greedy[k].value
        if len(sizes) <= MOST_FEATURES:
            best = best_subset(equations, sizes, k).value
        rows.append((k, own, usual, greedy[k].value, best))
    return np.array(rows), len(sizes)


# ---- from pieces to tables


def report(results: Mapping[str, Result], settings: Mapping[str, Any]) -> Report:
    """Return how often each selection is as good as the best, and every γ_S."""
    counts = [_counted(name, result) for name, result in results.items()]
    sets = [_values(name, result) for name, result in results.items()]
    table = pd.concat(sets, ignore_index=True)
    shown = table.astype(object).where(table.notna(), "-")
    for column in (*_FORMS, "best"):
        shown[column] = shown[column].map(lambda v: v if v == "-" else f"{v:.5f}")
    tables = {
        "How often a selection is as good as the best": pd.DataFrame(counts),
        "γ_S of each set": shown,
    }
    notes = [f"A set counts as good as another if its γ_S is at most {EQUAL:g} larger."]
    title = "How often each selection finds the best k features"
    return Report(title, tables, notes, data=table)


def _is_exact(result: Result) -> bool:
    return bool(result["features"] <= MOST_FEATURES)


def _counted(name: str, result: Result) -> dict[str, Any]:
    """Return how often each selection of a data set is as good as the best."""
    rows = np.array(result["rows"])
    best, count = rows[:, -1], len(rows)
    good = [f"{int((v <= best + EQUAL).sum())} of {count}" for v in rows.T[1:4]]
    excess = [f"{100 * (v / best - 1).max():.1f} %" for v in rows.T[1:3]]
    exact = _is_exact(result)
    against = "proven optimum" if exact else f"forward selection {_FORMS[2]}"
    return {
        "data set": name,
        "features": result["features"],
        "compared with": against,
        "k": f"1–{count}",
        "Algorithm 1 as good": good[0],
        "forward selection as good": good[1],
        "without its penalty": good[2] if exact else "-",
        "largest excess of γ, Algorithm 1": excess[0],
        "forward selection": excess[1],
    }


def _values(name: str, result: Result) -> pd.DataFrame:
    """Return γ of the sets of one data set; the best is known if it is proved."""
    table = pd.DataFrame(result["rows"], columns=["k", *_FORMS, "best"])
    table["k"] = table["k"].astype(int)
    table.insert(0, "data set", name)
    if not _is_exact(result):
        table["best"] = np.nan
    return table


if __name__ == "__main__":
    raise SystemExit(command.main("best_subset"))
