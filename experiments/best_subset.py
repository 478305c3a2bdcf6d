"""How often each selection finds the best k features, by γ_S and by I(X_S; Y).

A piece is a data set (numbers binned). For every k up to 10, the first k features of
the path (`renyi.selection_path`), of `RenyiSelector` as it is, of forward selection
without its ridge penalty, and of the rankings by mutual information and by mRMR are
compared with

* the proved optimum (branch and bound) if there are at most 20 features;
* otherwise forward selection, which is not proved to be optimal.

For k up to 3 all sets are listed, and the same features are compared with the set of
the largest mutual information I(X_S; Y) in the rows. On votes the pair of the largest
max-min correlation is known as well: a cone program for each of the 120 pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import renyi
from experiments import command, rankings
from experiments.branch_and_bound import MOST_FEATURES, best_subset
from experiments.reports import Report
from renyi.selecting import least_correlation
from renyi.solvers.forward_selection import forward, subset_value
from renyi.solvers.ridge import Moments, moments

EXTRAS = ("clarabel",)
SETS = ("votes", "credit", "adult", "kr-vs-kp", "promoters")
MOST = 10
EQUAL = 1e-7  # of γ: sets as good as the best count as the best
OPTIONS = {
    "most": command.Option(MOST, "largest number of features"),
    "datasets": command.Option(SETS, "bundled data sets"),
}
_ALL_LISTED = 3  # features of the sets of which all are listed
_CORRELATED = "votes"
_LEAST = "least γ"
_LARGEST = "largest of all"
_FORMS = (
    "Algorithm 1",
    "forward selection",
    "without its penalty",
    "mutual information",
    "mRMR",
)
Result = dict[str, Any]
Places = tuple[int, ...]


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces, which are the data sets.

    >>> keys({"datasets": ["credit", "votes"]})
    ['votes', 'credit']
    """
    return [name for name in SETS if name in settings["datasets"]]


def work(key: str, settings: Mapping[str, Any]) -> Result:
    """Compare the sets of one data set."""
    data = Data.load(key)
    orders = data.orders(settings["most"])
    result = {
        "features": len(data.sizes),
        "rows": risks(data, orders),
        "informed": informations(data, orders),
    }
    if key == _CORRELATED and settings["most"] > 1:
        result["correlated"] = correlations(data, orders)
    return result


class Data(NamedTuple):
    """A data set: pair counts, moments, and the codes of its rows."""

    marginals: renyi.Marginals
    equations: Moments
    sizes: NDArray[np.int64]
    codes: NDArray[Any]  # one row for each feature
    labels: NDArray[np.int64]

    @classmethod
    def load(cls, name: str) -> Data:
        X, y = renyi.datasets.load(name)
        m = renyi.Marginals.from_data(X, y, encoder=renyi.Encoder(bins=5))
        equations = moments(m.Q, m.F, m.class_probabilities, fit_intercept=True)
        _, labels = np.unique(np.asarray(y), return_inverse=True)
        codes = m.encoder.transform(X)
        return cls(m, equations, m.encoder.columns.sizes, codes, labels)

    def orders(self, most: int) -> list[Places]:
        """Return the features as each of `_FORMS` takes them."""
        m = self.marginals
        path = renyi.selection_path(m)
        most = min(most, len(path.entries))
        default = renyi.RenyiSelector(n_features=most).fit_marginals(m).path_
        greedy = forward(self.equations, self.sizes, most)[-1].features
        names = m.feature_names
        ranked = [
            [names.index(name) for name in ranking(m)]
            for ranking in (rankings.by_information, rankings.by_mrmr)
        ]
        taken = [path.places.tolist(), default.places.tolist(), list(greedy), *ranked]
        return [tuple(order[:most]) for order in taken]

    def risk(self, features: Places) -> float:
        """Return γ of a set of features."""
        return subset_value(self.equations, self.sizes, features)

    def best(self, k: int) -> Places | None:
        """Return the k features of the least γ, None if there are too many to prove."""
        if len(self.sizes) > MOST_FEATURES:
            return None
        return best_subset(self.equations, self.sizes, k).features

    def information(self, features: Places) -> float:
        """Return I(X_S; Y) of the rows, in nats."""
        K = len(self.marginals.classes)
        cell = self.labels
        for i in features:
            cell = cell * self.sizes[i] + self.codes[i]
        counts = np.bincount(cell, minlength=K * self.sizes[list(features)].prod())
        return rankings.information(counts.reshape(K, -1).astype(np.float64))

    def correlation(self, features: Places) -> float:
        """Return the max-min correlation of a set of features."""
        names = [self.marginals.feature_names[i] for i in features]
        least = least_correlation(self.marginals.select(names))
        assert least.exact
        return least.rho


def risks(data: Data, orders: list[Places]) -> list[list[float]]:
    """Return k, γ of the first k features of every selection, and the least γ."""
    rows = []
    for k in range(1, len(orders[0]) + 1):
        own = [data.risk(order[:k]) for order in orders]
        best = data.best(k)
        least = own[_FORMS.index("without its penalty")]
        rows.append([k, *own, least if best is None else data.risk(best)])
    return rows


def informations(data: Data, orders: list[Places]) -> list[list[float]]:
    """Return k, I(X_S; Y) of the first k features, of the least γ, and the largest."""
    rows = []
    for k in range(1, min(_ALL_LISTED, len(orders[0])) + 1):
        sets = [order[:k] for order in orders]
        best = data.best(k)
        everything = combinations(range(len(data.sizes)), k)
        largest = max(map(data.information, everything))
        of_best = float("nan") if best is None else data.information(best)
        rows.append([k, *map(data.information, sets), of_best, largest])
    return rows


def correlations(data: Data, orders: list[Places]) -> list[dict[str, Any]]:
    """Return the max-min correlation of the first pairs, and of the best of all."""
    pairs = list(combinations(range(len(data.sizes)), 2))
    largest = max(pairs, key=data.correlation)
    chosen = {form: order[:2] for form, order in zip(_FORMS, orders, strict=True)}
    least = min(pairs, key=data.risk)
    return [
        {
            "pair": form,
            "features": [data.marginals.feature_names[i] for i in pair],
            "correlation": data.correlation(pair),
        }
        for form, pair in {**chosen, _LEAST: least, _LARGEST: largest}.items()
    ]


# ---- from pieces to tables


def report(results: Mapping[str, Result], settings: Mapping[str, Any]) -> Report:
    """Return how often each selection is as good as the best, and every γ_S."""
    counts = [_counted(name, result) for name, result in results.items()]
    sets = [_values(name, result) for name, result in results.items()]
    table = pd.concat(sets, ignore_index=True)
    shown = table.astype(object).where(table.notna(), "-")
    for column in (*_FORMS, "best"):
        shown[column] = shown[column].map(lambda v: v if v == "-" else f"{v:.5f}")
    informed = [_informed(name, result) for name, result in results.items()]
    tables = {
        "How often a selection is as good as the best": pd.DataFrame(counts),
        "How often a selection has the largest I(X_S; Y)": pd.DataFrame(informed),
    }
    if "correlated" in results.get(_CORRELATED, {}):
        title = f"Max-min correlation of two columns of {_CORRELATED}"
        tables[title] = _correlated(results[_CORRELATED])
    tables["γ_S of each set"] = shown
    notes = [
        f"A set counts as good as another if its γ_S is at most {EQUAL:g} larger. It "
        f"has the largest I(X_S; Y) if none has {EQUAL:g} nats more.",
        "I(X_S; Y) is that of the frequencies of the rows, and all sets are listed. "
        "With many outcomes and few rows it is larger than in the population. "
        "promoters has 106 rows.",
    ]
    title = "How often each selection finds the best k features"
    return Report(title, tables, notes, data=table)


def _is_exact(result: Result) -> bool:
    return bool(result["features"] <= MOST_FEATURES)


def _counted(name: str, result: Result) -> dict[str, Any]:
    """Return how often each selection of a data set is as good as the best."""
    rows = np.array(result["rows"])
    best, count = rows[:, -1], len(rows)
    own = dict(zip(_FORMS, rows.T[1:-1], strict=True))
    good = {form: _share(v <= best + EQUAL) for form, v in own.items()}
    excess = {form: f"{100 * (v / best - 1).max():.1f} %" for form, v in own.items()}
    exact = _is_exact(result)
    against = "proven optimum" if exact else f"forward selection {_FORMS[2]}"
    return {
        "data set": name,
        "features": result["features"],
        "compared with": against,
        "k": f"1–{count}",
        "Algorithm 1 as good": good["Algorithm 1"],
        "forward selection as good": good["forward selection"],
        "without its penalty": good["without its penalty"] if exact else "-",
        "mutual information": good["mutual information"],
        "mRMR": good["mRMR"],
        "largest excess of γ, Algorithm 1": excess["Algorithm 1"],
        "of forward selection": excess["forward selection"],
        "of mutual information": excess["mutual information"],
        "of mRMR": excess["mRMR"],
    }


def _share(good: NDArray[np.bool_]) -> str:
    return f"{good.sum()} of {len(good)}"


def _informed(name: str, result: Result) -> dict[str, Any]:
    """Return how often the sets of a data set have the largest information."""
    rows = np.array(result["informed"])
    largest = rows[:, -1]
    own = dict(zip((*_FORMS, _LEAST), rows.T[1:-1], strict=True))
    good = {form: _share(v >= largest - EQUAL) for form, v in own.items()}
    if not _is_exact(result):
        good[_LEAST] = "-"
    return {"data set": name, "k": f"1–{len(rows)}", **good}


def _correlated(result: Result) -> pd.DataFrame:
    """Return the max-min correlations of pairs."""
    return pd.DataFrame(
        {
            "pair of": each["pair"],
            "columns": ", ".join(each["features"]),
            "max-min correlation": f"{each['correlation']:.5f}",
        }
        for each in result["correlated"]
    )


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
