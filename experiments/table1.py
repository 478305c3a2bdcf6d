"""The paper's table: test errors of the classifiers on five data sets.

A piece is one random split of one data set, 70 % of the rows for training, on which
every classifier of `experiments.contenders` is trained and tested. The splits
depend on the seed, the data set and their number alone, so that all columns are
compared on the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments import command, contenders
from experiments.contenders import BASELINES, COLUMNS, RENYI
from experiments.reports import Report, machine, standard_error
from renyi import datasets

TRAIN = 0.7
# The longest piece of a split first: the others fill what time is left.
DATASETS = ("adult", "kr-vs-kp", "promoters", "credit", "votes")
EXTRAS = ("matplotlib", "highspy")
OPTIONS = {
    "splits": command.Option(100, "random 70/30 splits of each data set"),
    "datasets": command.Option(DATASETS, "bundled data sets"),
}
_QUOTED = (
    *("δ̃map", "δ̃", "δ̃map₂", "δ̃₂", "δ̃map_FS2", "δ̃_FS2"),
    *("DCC", "gDCC", "MPM", "TAN", "SVM"),
)
# Percent, as printed in the paper.
_PAPER = {
    "adult": (17, 21, 16, 20, 16, 20, 18, 18, 22, 18, 22),
    "credit": (13, 16, 16, 17, 16, 17, 14, 13, 13, 17, 16),
    "kr-vs-kp": (5, 10, 5, 14, 5, 14, 10, 10, 5, 7, 3),
    "promoters": (6, 16, 3, 4, 3, 4, 5, 3, 6, 44, 9),
    "votes": (3, 4, 3, 4, 2, 4, 3, 3, 4, 8, 5),
}
PAPER = {name: dict(zip(_QUOTED, row, strict=True)) for name, row in _PAPER.items()}
_AS_GOOD = 2  # standard errors of the mean difference


def _listed(grid: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in grid)


NOTES = (
    "δ̃, δ̃map and δ̃sharp are RenyiClassifier with the rules renyi, map and sharp; ₂ "
    "stands for order=2, features of two columns; FS1 and FS2 for RenyiSelector at "
    "order 1 and 2; minimax for MinimaxClassifier, majority for always answering the "
    "more frequent class. DCC, gDCC, MPM and TAN are those of renyi.baselines, SVM is "
    "scikit-learn's LinearSVC on the one-hot columns, SVM₂ the same on all pairs of "
    "columns, those that δ̃map₂ has.",
    "Errors are in percent: mean over the splits ± standard error. The splits overlap, "
    "so the standard error tells how well the mean over splits is known, not how "
    "another sample of rows would come out. Of δ̃, δ̃sharp, δ̃₂ and δ̃_FS2, which answer "
    "at random, it is the expected error.",
    "DCC, gDCC and minimax are judged by their deterministic answer; their bound is "
    "that of the randomised rule, and it is the expected error of this rule which is "
    "compared with the bound.",
    "A bound holds for every distribution with the marginals of the training rows. "
    "Test rows have others: where categories outnumber the rows{wide}, it says little "
    "about them.",
    "Parameters are chosen inside the training rows: the ridge by leave-one-out"
    "{adult}; the penalty of FS by 5-fold cross-validation; the smoothing of DCC "
    f"({_listed(contenders.DCC_SMOOTHING)} rows), of gDCC "
    f"({_listed(contenders.GDCC_SMOOTHING)}) and of TAN "
    f"({_listed(contenders.TAN_SMOOTHING)}), the regularisation of MPM "
    f"({_listed(contenders.REGULARISATION)}) and C of the SVMs "
    f"({_listed(contenders.C)}) by the error in 3-fold cross-validation.",
    "CPU seconds are those of choosing the parameter, training, and answering.",
)


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: every data set in turn, split after split.

    >>> keys({"splits": 2, "datasets": ["votes", "credit"]})
    ['credit 0', 'votes 0', 'credit 1', 'votes 1']
    """
    names = [name for name in DATASETS if name in settings["datasets"]]
    return [f"{name} {k}" for k in range(settings["splits"]) for name in names]


def work(key: str, settings: Mapping[str, Any]) -> contenders.Outcomes:
    """Train and test every classifier on one split."""
    columns = settings.get("classifiers", COLUMNS)
    return contenders.outcomes(split_of(key, settings["seed"]), columns)


def split_of(key: str, seed: int) -> contenders.Split:
    """Return the split of a piece.

    >>> split_of("votes 3", 0).X.shape
    (304, 16)
    """
    name, number = key.split()
    X, y = datasets.load(name)
    seeds = [seed, DATASETS.index(name), int(number)]
    return contenders.random_split(X, y, TRAIN, seeds)


# ---- from pieces to tables


def tidy(results: Mapping[str, contenders.Outcomes]) -> pd.DataFrame:
    """Return one row for every data set, split and column."""
    rows = [
        {"dataset": name, "split": int(number), "column": column, **outcome}
        for key, found in results.items()
        for name, number in [key.split()]
        for column, outcome in found.items()
    ]
    frame = pd.DataFrame(rows)
    numeric = ["error", "rule", "bound", "parameter", "features", "seconds"]
    return frame.astype(dict.fromkeys(numeric, np.float64))


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return means over splits, one row for every data set and column."""
    frame = frame.assign(exceeded=frame["rule"] > frame["bound"])
    grouped = frame.groupby(["dataset", "column"])
    table = pd.DataFrame(
        {
            "splits": grouped["error"].size(),
            "error": grouped["error"].mean(),
            "standard error": grouped["error"].sem(),
            "error of the bounded rule": grouped["rule"].mean(),
            "bound": grouped["bound"].mean(),
            "exceeded": grouped["exceeded"].mean(),
            "parameter": grouped["parameter"].median(),
            "features": grouped["features"].median(),
            "seconds": grouped["seconds"].mean(),
        }
    )
    table.loc[table["bound"].isna(), "exceeded"] = np.nan
    table = table.reset_index()
    pairs = zip(table["dataset"], table["column"], strict=True)
    quoted = [PAPER[name].get(column) for name, column in pairs]
    table.insert(5, "paper", pd.Series(quoted, dtype="Int64"))
    names, columns = list(DATASETS), list(COLUMNS)
    order = table["dataset"].map(names.index), table["column"].map(columns.index)
    places = np.lexsort((order[1], order[0]))
    return table.iloc[places].reset_index(drop=True)


def best(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the best Rényi variant and the best baseline of each data set.

    The difference is taken split by split, and so is its standard error.
    """
    rows = []
    for name, part in frame.groupby("dataset", sort=False):
        errors = 100 * part.pivot(index="split", columns="column", values="error")
        errors = errors.dropna(axis="columns")  # a column that only some splits have
        ours, theirs = _least(errors, RENYI), _least(errors, BASELINES)
        if ours is None or theirs is None:
            continue
        difference = errors[ours] - errors[theirs]
        mean, sem = float(difference.mean()), standard_error(difference)
        rows.append(
            {
                "data set": name,
                "best Rényi": f"{ours} {errors[ours].mean():.2f}",
                "best of the others": f"{theirs} {errors[theirs].mean():.2f}",
                "difference": _plus_minus(mean, sem, 2),
                "as good": "yes" if mean <= _AS_GOOD * np.nan_to_num(sem) else "no",
            }
        )
    return pd.DataFrame(rows)


def _least(errors: pd.DataFrame, columns: Sequence[str]) -> str | None:
    means = errors[[c for c in columns if c in errors]].mean()
    return None if means.empty else str(means.idxmin())


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return the errors and the paper's, the bounds, and the chosen parameters."""
    frame = tidy(results)
    table = summary(frame)
    rivals = best(frame)
    tables = {f"Test error, percent, {settings['splits']} splits": _errors(table)}
    if not rivals.empty:
        tables["The best Rényi variant beside the best of the others"] = rivals
    tables["Mean bound, percent, and how often the error exceeded it"] = _by_set(
        table[table["bound"].notna()], _bound
    )
    tables["Chosen parameter, selected features, CPU seconds"] = _by_set(table, _choice)
    notes = _notes(set(table["dataset"]))
    if not rivals.empty:
        notes.append(_AS_GOOD_NOTE)
    notes += _partial(table)
    return Report(
        "Test errors on five data sets",
        tables,
        [*notes, machine()],
        lambda figure: _draw(figure, table),
        table,
    )


def _partial(table: pd.DataFrame) -> list[str]:
    """Name the columns that were added after some of the splits had been run."""
    most = table.groupby("dataset")["splits"].transform("max")
    columns = dict.fromkeys(table.loc[table["splits"] < most, "column"])
    text = "is of fewer splits than the others: table.csv has their number."
    return [f"{column} {text}" for column in columns]


def _notes(names: set[str]) -> list[str]:
    """Return the notes for some data sets.

    >>> [note for note in _notes({"votes"}) if "outnumber" in note][0][-80:]
    'where categories outnumber the rows (order 2: votes), it says little about them.'
    """
    pairs = [name for name in DATASETS if name in names and name != "adult"]
    wide = [f"order 2: {', '.join(pairs)}"] if pairs else []
    if "promoters" in names:
        wide.insert(0, "promoters")
    adult = (
        ", on adult by generalised cross-validation, at order 2 from one factorisation"
    )
    values = {
        "wide": f" ({'; '.join(wide)})" if wide else "",
        "adult": adult if "adult" in names else "",
    }
    return [note.format(**values) for note in NOTES]


_AS_GOOD_NOTE = (
    "As good: the mean difference over the same splits is at most two standard errors "
    "above zero. Either side is the best of several, chosen by the same errors."
)


def _errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for every classifier, two columns for every data set."""
    wide = _by_set(table, lambda row: _plus_minus(100 * row.error, 100 * row.sem, 1))
    out = wide[["classifier"]].copy()
    for name in wide.columns[1:]:
        out[name] = wide[name]
        quoted = [PAPER[name].get(column, "") for column in wide["classifier"]]
        out[f"{name}, paper"] = list(map(str, quoted))
    return out


def _by_set(table: pd.DataFrame, cell: Any) -> pd.DataFrame:
    """Return a row for every classifier and a column for every data set."""
    renamed = table.rename(columns={"standard error": "sem"})
    cells = {(r.dataset, r.column): cell(r) for r in renamed.itertuples()}
    names = dict.fromkeys(table["dataset"])
    columns = [c for c in COLUMNS if c in set(table["column"])]
    out = pd.DataFrame({"classifier": columns})
    for name in names:
        out[name] = [cells.get((name, column), "") for column in columns]
    return out


def _plus_minus(mean: float, sem: float, digits: int) -> str:
    """Return a mean with its standard error, which one split does not have.

    >>> _plus_minus(4.26, 0.11, 1), _plus_minus(4.26, float("nan"), 1)
    ('4.3 ± 0.1', '4.3')
    """
    text = f"{mean:.{digits}f}"
    return text if np.isnan(sem) else f"{text} ± {sem:.{digits}f}"


def _bound(row: Any) -> str:
    return f"{100 * row.bound:.1f} ({100 * row.exceeded:.0f} % of splits)"


def _choice(row: Any) -> str:
    parts = []
    if not np.isnan(row.parameter):
        parts.append(f"{row.parameter:.3g}")
    if not np.isnan(row.features):
        parts.append(f"{row.features:.0f} features")
    return ", ".join([*parts, f"{row.seconds:.2g} s"])


def _draw(figure: Any, table: pd.DataFrame) -> None:
    """Plot a panel for every data set: our errors as dots, the paper's as crosses."""
    names = list(dict.fromkeys(table["dataset"]))
    figure.set_size_inches(3 + 1.8 * len(names), 5)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    # The majority's error would press all others to one side.
    table = table[table["column"] != "majority"]
    columns = [c for c in COLUMNS if c in set(table["column"])]
    for axes, name in zip(panels, names, strict=True):
        part = table[table["dataset"] == name].set_index("column")
        places = [columns.index(c) for c in part.index]
        spread = 100 * part["standard error"].fillna(0.0)
        axes.errorbar(100 * part["error"], places, xerr=spread, fmt="o", label="here")
        quoted = [c for c in part.index if c in PAPER[name]]
        percent = [PAPER[name][c] for c in quoted]
        where = [columns.index(c) for c in quoted]
        axes.plot(percent, where, "x", color="C1", label="the paper")
        axes.set_title(name)
        axes.set_xlabel("test error, %")
        axes.set_xlim(left=0)
        axes.grid(axis="y", linewidth=0.3)
    panels[0].set_yticks(range(len(columns)), columns)
    panels[0].invert_yaxis()
    panels[-1].legend()


if __name__ == "__main__":
    raise SystemExit(command.main("table1"))
