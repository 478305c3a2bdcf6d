r"""Why a figure differs from the paper's: oracles that see the test rows, fewer rows.

A piece is a split of `table1` at one order. Both rules are tested

* with λ, or the number of selected features, chosen inside the training rows, as in
  `table1`;
* at every λ of a grid, and at every number of features of a grid in the order of
  Algorithm 1. So two oracles are known: the best single value for all splits, and the
  best of each split. Where even they do not reach a printed figure, no choice of that
  parameter does;
* with fewer and more training rows, on the same 10 % of the rows: the learning curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments import command, contenders, table1
from experiments.contenders import FIVE_BINS, Split, expected_error, random_split
from experiments.reports import Report, standard_error
from renyi.estimators.classifier import RenyiClassifier
from renyi.estimators.selector import RenyiSelector

Floats = NDArray[np.float64]
Result = dict[str, Any]

EXTRAS = ("matplotlib",)
# Without adult, which the recipe explains, and of which a split takes minutes.
SETS = ("kr-vs-kp", "promoters", "credit", "votes")
OPTIONS = {
    "splits": command.Option(20, "random 70/30 splits of each data set"),
    "large": command.Option(10, "of them, splits of adult and kr-vs-kp"),
    "pairs": command.Option(5, "of them, at order 2", 0),
    "datasets": command.Option(SETS, "bundled data sets"),
}
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LAMBDAS = np.logspace(-9, 3, 25)
NUMBERS = 2 ** np.arange(9)
RULES = ("map", "renyi")
_ROUNDING = 0.5  # the paper prints whole percents
_SURE = 2  # standard errors


class Variant(NamedTuple):
    """A column of the paper's table: its rule, its order, and what is chosen."""

    rule: str
    order: int
    parameter: str


LAMBDA = "λ"
FEATURES = "features"
VARIANTS = {
    "δ̃map": Variant("map", 1, LAMBDA),
    "δ̃": Variant("renyi", 1, LAMBDA),
    "δ̃map₂": Variant("map", 2, LAMBDA),
    "δ̃₂": Variant("renyi", 2, LAMBDA),
    "δ̃map_FS2": Variant("map", 2, FEATURES),
    "δ̃_FS2": Variant("renyi", 2, FEATURES),
}


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: those of `table1`, at both orders.

    >>> keys({"splits": 1, "datasets": ["votes"]})[:3]
    ['votes 0 all 1', 'votes 0 all 2', 'votes 0 complete 1']
    >>> keys({"splits": 2, "large": 2, "pairs": 1, "datasets": ["kr-vs-kp"]})
    ['kr-vs-kp 0 all 1', 'kr-vs-kp 0 all 2', 'kr-vs-kp 1 all 1']
    """
    pairs = settings.get("pairs", settings["splits"])
    return [
        f"{key} {order}"
        for key in table1.keys(settings)
        for name, number, _ in [key.split()]
        for order in (1, 2)
        if order == 1 or name not in table1.LARGE or int(number) < pairs
    ]


def work(key: str, settings: Mapping[str, Any]) -> Result:
    """Test on one split at one order, whatever the parameter."""
    piece, _, last = key.rpartition(" ")
    order, seed = int(last), settings["seed"]
    split = table1.split_of(piece, seed)
    names = [name for name, variant in VARIANTS.items() if variant.order == order]
    result: Result = {
        "chosen": contenders.outcomes(split, names),
        LAMBDA: [_trained(split, order, float(alpha)) for alpha in LAMBDAS],
        "curve": _learning_curve(piece, order, seed),
    }
    if order == 2:
        features = len(split.X.columns) * (len(split.X.columns) - 1) // 2
        tried = NUMBERS[features >= NUMBERS].tolist()
        result[FEATURES] = [_selected(split, order, k) for k in tried]
    return result


def _errors(clf: RenyiClassifier, X: Any, split: Split) -> list[float]:
    """Return the expected error of each rule on the test rows."""
    return [
        expected_error(clf.rule_proba(X, rule), clf.classes_, split.y_test)
        for rule in RULES
    ]


def _trained(split: Split, order: int, alpha: float | str) -> list[float]:
    clf = RenyiClassifier(
        order=order, alpha=alpha, calibration=None, encoder=FIVE_BINS
    ).fit(split.X, split.y)
    return _errors(clf, split.X_test, split)


def _selected(split: Split, order: int, k: int) -> list[float]:
    selector = RenyiSelector(
        order=order, n_features=k, method="path", calibration=None, encoder=FIVE_BINS
    ).fit(split.X, split.y)
    X = split.X_test.loc[:, selector.get_support()]
    return _errors(selector.classifier_, X, split)


def _learning_curve(piece: str, order: int, seed: int) -> list[list[float]]:
    """Return the errors for every share of the rows that train."""
    name, number, recipe = piece.split()
    X, y = table1.load(name, recipe)
    whole = random_split(X, y, max(SHARES), [seed, int(number)])
    counts = [round(share * len(X)) for share in SHARES]
    parts = [whole._replace(X=whole.X.iloc[:n], y=whole.y.iloc[:n]) for n in counts]
    return [_trained(part, order, "auto") for part in parts]


# ---- from pieces to tables


def report(results: Mapping[str, Result], settings: Mapping[str, Any]) -> Report:
    """Return what the oracles reach, next to the paper's figures; learning curves."""
    groups: dict[tuple[str, str, int], list[Result]] = {}
    for key, result in results.items():
        name, _, recipe, last = key.split()
        groups.setdefault((name, recipe, int(last)), []).append(result)
    oracles, curves = [], []
    for (name, recipe, order), found in groups.items():
        place = {"data set": name, "recipe": table1.recipe_text(name, recipe)}
        for column, variant in VARIANTS.items():
            if variant.order != order:
                continue
            row = {**place, "classifier": column, "splits": len(found)}
            printed = table1.PAPER[name][column]
            oracles.append(row | _oracles(found, column, printed))
            if variant.parameter == LAMBDA:
                curves.append(row | _curve(found, variant) | {"paper": printed})
    table = pd.DataFrame(oracles)
    tables = {
        "Error in percent with the parameter chosen in training, and by oracles": table,
        "Error in percent against the share of rows that train": pd.DataFrame(curves),
    }
    return Report(
        "Diagnosis",
        tables,
        [*NOTES],
        lambda figure: _draw(figure, groups),
        table,
    )


NOTES = (
    "The splits are those of `table1`, the first of them. The parameter is λ, or of "
    "the classifiers FS2 the number of selected pairs. Chosen: inside the training "
    "rows, with the median of the choices. The oracles see the test rows. Best: the "
    f"value with the least mean error of {len(LAMBDAS)} λ from {LAMBDAS[0]:g} to "
    f"{LAMBDAS[-1]:g}, or of the numbers 1, 2, 4, 8, … of pairs in the order of "
    "Algorithm 1, with an intercept as in `table1`.",
    "Reached by: the first of the three whose mean error is at most the printed figure "
    "with half a percent for its rounding, by two standard errors. If it is none, no "
    "choice of this parameter explains the printed figure.",
    "The learning curve has a test set of its own: the same 10 % of the rows for every "
    "share. λ is chosen inside the training rows.",
)


def _oracles(found: list[Result], column: str, printed: int) -> dict[str, Any]:
    """Return the errors of a classifier as chosen, and by both oracles."""
    variant = VARIANTS[column]
    place = RULES.index(variant.rule)
    chosen = [result["chosen"][column] for result in found]
    own = 100 * np.array([outcome["error"] for outcome in chosen])
    which = FEATURES if variant.parameter == FEATURES else "parameter"
    value = float(np.median([outcome[which] for outcome in chosen]))
    grid = 100 * np.array([result[variant.parameter] for result in found])[:, :, place]
    best = int(grid.mean(axis=0).argmin())
    values = NUMBERS if variant.parameter == FEATURES else LAMBDAS
    errors = {
        "chosen": own,
        "best": grid[:, best],
        "best of each split": grid.min(axis=1),
    }
    reached = [name for name, each in errors.items() if _reaches(each, printed)]
    return {
        "parameter": variant.parameter,
        "chosen": f"{value:.2g}" if which == "parameter" else f"{value:.0f}",
        "error": _shown(own),
        "best": f"{values[best]:.2g}" if which == "parameter" else f"{values[best]}",
        "its error": _shown(errors["best"]),
        "best of each split": _shown(errors["best of each split"]),
        "paper": printed,
        "reached by": reached[0] if reached else "none",
    }


def _reaches(errors: Floats, printed: int) -> bool:
    """Return whether a mean error may be as small as a printed one.

    >>> _reaches(np.array([4.0, 6.0]), 3), _reaches(np.array([5.0, 5.2]), 3)
    (True, False)
    """
    spread = float(np.nan_to_num(standard_error(errors)))
    return bool(errors.mean() - _SURE * spread <= printed + _ROUNDING)


def _curve(found: list[Result], variant: Variant) -> dict[str, Any]:
    curve = 100 * np.array([result["curve"] for result in found])
    errors = curve[:, :, RULES.index(variant.rule)]
    heads = [f"{100 * share:.0f} %" for share in SHARES]
    return dict(zip(heads, map(_shown, errors.T), strict=True))


def _shown(percent: Floats) -> str:
    """Return a mean with its standard error."""
    return table1.plus_minus(float(percent.mean()), standard_error(percent), 1)


def _draw(figure: Any, groups: Mapping[tuple[str, str, int], list[Result]]) -> None:
    """Plot the mean errors against λ, a panel for every data set and recipe."""
    places = list(dict.fromkeys((name, recipe) for name, recipe, _ in groups))
    figure.set_size_inches(2 + 2.4 * len(places), 4)
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for axes, (name, recipe) in zip(panels, places, strict=True):
        for column, variant in VARIANTS.items():
            found = groups.get((name, recipe, variant.order))
            if found is None or variant.parameter != LAMBDA:
                continue
            errors = 100 * np.array([result[LAMBDA] for result in found])
            mean = errors[:, :, RULES.index(variant.rule)].mean(axis=0)
            (line,) = axes.semilogx(LAMBDAS, mean, label=column)
            printed = table1.PAPER[name][column]
            axes.axhline(printed, color=line.get_color(), linestyle=":", linewidth=0.8)
        axes.set_title(f"{name} {table1.recipe_text(name, recipe)}")
        axes.set_xlabel("λ (dotted: the paper)")
        axes.set_ylim(0, 30)
    panels[0].set_ylabel("test error, %")
    panels[-1].legend()


if __name__ == "__main__":
    raise SystemExit(command.main("diagnose"))
