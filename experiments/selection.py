"""Error and certificate against the number of features, by four selection methods.

A piece is one random split of a data set. On the training rows features are ordered by
forward selection and by Algorithm 1 (`renyi.RenyiSelector`), by mutual information with
the class, and by mRMR. A Rényi classifier is trained on the first k of them, with its
ridge penalty chosen by leave-one-out, and tested on the other rows.

The criterion that the paper quotes of other methods is the joint information I(X_S; Y)
of the chosen features. It is computed from the training rows for up to three features:
with more, most of their outcomes occur once, and the figure says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments import command, rankings, table1
from experiments.contenders import FIVE_BINS, Split, expected_error
from experiments.reports import Report, standard_error
from renyi.estimators.classifier import RenyiClassifier
from renyi.estimators.selector import RenyiSelector
from renyi.marginals.marginals import Marginals

EXTRAS = ("matplotlib",)
OPTIONS = {
    "splits": command.Option(20, "random 70/30 splits of each data set"),
    "datasets": command.Option(table1.DATASETS, "bundled data sets"),
}
_ALL = 16  # up to so many features every number of them is tried
_NUMBERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 30, 40, 50)
Row = dict[str, Any]
METHODS = ("forward", "Algorithm 1", "mutual information", "mRMR")
# Strokes and open markers distinguish lines that cover each other.
_STYLES = ("C3d-.", "C0o-", "C1s--", "C2^:")
_LINE = {"markersize": 3, "markerfacecolor": "none", "linewidth": 1.2}
_SHOWN = (1, 2, 3, 5, 8, 12)  # numbers of features in the table for people
_COMPARED = (3, 4, 5, 6, 8, 12, 16, 25)
_ENUMERATED = 3  # features whose joint outcomes are counted


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: every data set in turn, split after split.

    >>> keys({"splits": 2, "datasets": ["votes", "credit"]})
    ['credit 0 all', 'votes 0 all', 'credit 1 all', 'votes 1 all']
    """
    every = table1.keys(settings)
    return [key for key in every if key.endswith(table1.ALL)]


def numbers(d: int) -> list[int]:
    """Return the numbers of features that are tried among d.

    >>> numbers(4), numbers(36)[-3:]
    ([1, 2, 3, 4], [25, 30, 36])
    """
    if d <= _ALL:
        return list(range(1, d + 1))
    return [*(k for k in _NUMBERS if k < d), d]


def work(key: str, settings: Mapping[str, Any]) -> list[Row]:
    """Select, train and test on one split, for every way and number of features."""
    split = table1.split_of(key, settings["seed"])
    m = Marginals.from_data(split.X, split.y, encoder=FIVE_BINS)
    codes = m.encoder.transform(split.X)
    labels = split.y.to_numpy()
    rows = []
    for method, names in orders(m).items():
        places = [m.feature_names.index(name) for name in names]
        for k in numbers(len(names)):
            joint = None
            if k <= _ENUMERATED:
                joint = rankings.joint_information(codes[places[:k]], labels)
            row = {"method": method, "k": k, "information": joint}
            rows.append({**row, **_tested(split, names[:k])})
    return rows


def orders(m: Marginals) -> dict[str, list[str]]:
    """Return the names of the features in the order of every way to select.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> {names[0] for names in orders(Marginals.from_data(X, y)).values()}
    {'physician-fee-freeze'}
    """
    # All features: on the path those that never enter come last.
    every = len(m.feature_names)
    selectors = [
        RenyiSelector(n_features=every, method=method).fit_marginals(m)
        for method in ("forward", "path")
    ]
    selected = [selector.features_.tolist() for selector in selectors]
    ranked = [rankings.by_information(m), rankings.by_mrmr(m)]
    return dict(zip(METHODS, [*selected, *ranked], strict=True))


def _tested(split: Split, names: list[str]) -> Row:
    clf = RenyiClassifier(calibration=None, encoder=FIVE_BINS)
    clf.fit(split.X[names], split.y)
    X, classes = split.X_test[names], clf.classes_
    proba = {rule: clf.rule_proba(X, rule) for rule in ("map", "sharp")}
    return {
        "error": expected_error(proba["map"], classes, split.y_test),
        "sharp": expected_error(proba["sharp"], classes, split.y_test),
        "bound": clf.certificate_.bounds["sharp"],
    }


# ---- from pieces to tables


def tidy(results: Mapping[str, list[Row]]) -> pd.DataFrame:
    """Return one row for every data set, split, way and number of features."""
    return pd.DataFrame(
        [
            {"dataset": name, "split": int(number), **row}
            for key, rows in results.items()
            for name, number, _ in [key.split()]
            for row in rows
        ]
    )


def summary(results: Mapping[str, list[Row]]) -> pd.DataFrame:
    """Return means over splits for every data set, way and number of features."""
    frame = tidy(results)
    frame["exceeded"] = (frame["sharp"] > frame["bound"]).astype(np.float64)
    frame["information"] = frame["information"].astype(np.float64)
    grouped = frame.groupby(["dataset", "method", "k"], sort=False)
    table = grouped[["error", "sharp", "bound", "exceeded", "information"]].mean()
    table.insert(0, "splits", grouped.size())
    table.insert(2, "standard error", grouped["error"].sem())
    return table.reset_index()


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return errors and certificates against the number of features."""
    table = summary(results)
    splits = settings["splits"]
    title = f"Test error of δ̃map, percent, on the first k features, {splits} splits"
    tables = {
        title: _wide(table, "error"),
        "Test error of forward selection less that of Algorithm 1, points": ahead(
            tidy(results)
        ),
        "Certified error of δ̃sharp, percent": _wide(table, "bound"),
        "Joint information I(X_S; Y) of the first k, nats, training rows": _information(
            table
        ),
    }
    notes = [
        "Features are ordered on the training rows by forward selection of γ, by "
        "Algorithm 1, by mutual information with the class, and by mRMR. All four have "
        "the same classifier, δ̃map trained on the first k with its ridge penalty by "
        "leave-one-out.",
        "The certificate is that of δ̃sharp, 2γ, at the training marginals; table.csv "
        "has every k, the expected test error of δ̃sharp, and how often it exceeded "
        "the certificate.",
        "Bands in the figure are one standard error of the mean over the splits.",
    ]
    return Report(
        "Feature selection", tables, notes, lambda figure: _draw(figure, table), table
    )


def ahead(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the difference of two ways, split by split, with its standard error."""
    errors = 100 * frame.pivot(
        index=["dataset", "k", "split"], columns="method", values="error"
    )
    difference = errors["forward"] - errors["Algorithm 1"]
    rows = []
    for name in dict.fromkeys(frame["dataset"]):
        by_number = dict(list(difference[name].groupby("k")))
        cells = {f"k = {k}": _difference(by_number.get(k)) for k in _COMPARED}
        rows.append({"data set": name, **cells})
    return pd.DataFrame(rows)


def _difference(values: pd.Series | None) -> str:
    if values is None:
        return ""
    return table1.plus_minus(float(values.mean()), standard_error(values), 1)


def _wide(table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return a row for every data set and way, a column for some numbers."""
    rows = []
    for (name, method), part in table.groupby(["dataset", "method"], sort=False):
        values = 100 * part.set_index("k")[what]
        row = {"data set": name, "selection": method}
        row |= {f"k = {k}": values.get(k, np.nan) for k in _SHOWN}
        rows.append({**row, "all": values.iloc[-1]})
    wide = pd.DataFrame(rows)
    figures = wide.columns[2:]
    wide[figures] = wide[figures].map(lambda v: "" if np.isnan(v) else f"{v:.1f}")
    return wide


def _information(table: pd.DataFrame) -> pd.DataFrame:
    """Return the joint information of the first features, by data set and way."""
    counted = table[table["information"].notna()]
    rows = []
    for (name, method), part in counted.groupby(["dataset", "method"], sort=False):
        values = part.set_index("k")["information"]
        figures = {f"k = {k}": f"{value:.3f}" for k, value in values.items()}
        rows.append({"data set": name, "selection": method, **figures})
    return pd.DataFrame(rows)


def _draw(figure: Any, table: pd.DataFrame) -> None:
    """Plot two panels for every data set: error above, certificate below."""
    names = list(dict.fromkeys(table["dataset"]))
    figure.set_size_inches(2 + 2.2 * len(names), 5.4)
    panels = figure.subplots(2, len(names), sharex="col", squeeze=False)
    for column, name in zip(panels.T, names, strict=True):
        _draw_set(column, table[table["dataset"] == name])
        column[0].set_title(name)
        column[1].set_xlabel("features")
    panels[0][0].set_ylabel("test error of δ̃map, %")
    panels[1][0].set_ylabel("certified error, %")
    lines, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=len(METHODS))


def _draw_set(column: Any, table: pd.DataFrame) -> None:
    """Plot the two panels of a data set; lines that meet stay visible."""
    from matplotlib.ticker import MaxNLocator

    for method, style in zip(METHODS, _STYLES, strict=True):
        part = table[table["method"] == method]
        error = 100 * part["error"]
        spread = 100 * part["standard error"].fillna(0.0)
        column[0].plot(part["k"], error, style, label=method, **_LINE)
        column[0].fill_between(
            part["k"], error - spread, error + spread, color=style[:2], alpha=0.15
        )
        column[1].plot(part["k"], 100 * part["bound"], style, **_LINE)
    for axes in column:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(0, 1.05 * axes.dataLim.ymax)


if __name__ == "__main__":
    raise SystemExit(command.main("selection"))
