r"""The paper's run time: many columns, few rows, three training methods.

10,000 binary features, 200 rows, a noisy linear label; 85 % of the rows train. The
paper reports an error of 19.9 % after 0.2 s for its classifier by gradient descent and
of 19.7 % after 1.25 s for a linear support vector machine, at λ = 10⁴. It does not say
whether λ is relative to a mean over rows or to a sum; both are run. Labels are
unbalanced, so the table also has the error of always answering the more frequent class.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from experiments import command
from experiments.reports import Report, standard_error
from renyi.counting.compiled import load
from renyi.datasets import make_linear
from renyi.estimators.classifier import RenyiClassifier

Floats = NDArray[np.float64]
Fitted = Callable[[Any], NDArray[Any]]

LAMBDA = 1e4
_GROUP = 20  # repetitions in a piece
_TRAIN = 0.85
_COLUMNS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_ROWS = (100, 200, 400, 800, 1600, 3200)
EXTRAS = ("matplotlib",)
OPTIONS = {
    "repetitions": command.Option(1000, "draws of 200 rows, 10,000 columns"),
    "columns": command.Option(
        _COLUMNS,
        "numbers of columns to time, whatever the repetitions; the largest take "
        "minutes, --columns 1000 takes none",
        20,
    ),
    "rows": command.Option(_ROWS, "numbers of rows to time", 20),
}
_DRAWS = 3  # of each width and length
_STEPS, _SHRUNK = 10_000, 1e-4  # of gradient descent
_POWERS = 8
_FORMS = ("mean form", "sum form")
_METHODS = (
    *(f"renyi, {form}" for form in _FORMS),
    *(f"gradient descent, {form}" for form in _FORMS),
    "linear SVM",
)


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: groups of repetitions, then growth in columns and in rows."""
    groups = range(0, settings["repetitions"], _GROUP)
    growth = [f"columns {d}" for d in settings["columns"]]
    growth += [f"rows {n}" for n in settings["rows"]]
    return [f"repetitions {first}" for first in groups] + growth


def work(key: str, settings: Mapping[str, Any]) -> list[dict[str, float]]:
    """Train and time every method on some draws of the data."""
    _warm()
    what, number = key.split()
    if what == "repetitions":
        last = min(int(number) + _GROUP, settings["repetitions"])
        draws = [(200, 10_000, k) for k in range(int(number), last)]
    elif what == "columns":
        draws = [(200, int(number), k) for k in range(_DRAWS)]
    else:
        draws = [(int(number), 10_000, k) for k in range(_DRAWS)]
    return [_compared(*draw, settings["seed"]) for draw in draws]


def cost(key: str) -> float:
    """Return how many cells a piece trains on.

    >>> cost("columns 1000000") > cost("repetitions 0")
    True
    """
    what, number = key.split()
    if what == "repetitions":
        return float(_GROUP * 200 * 10_000)
    if what == "columns":
        return float(_DRAWS * 200 * int(number))
    return float(_DRAWS * int(number) * 10_000)


@cache
def _warm() -> None:
    """Load the modules that the first call of each method would load."""
    load("renyi.counting.kernels")
    X, y = make_linear(200, 10_000, random_state=1)
    for name in _METHODS:
        _train(name, X, y)(X)


def _compared(n: int, d: int, repetition: int, seed: int) -> dict[str, float]:
    """Return errors and CPU seconds of all methods on one draw with both classes."""
    random = np.random.default_rng([seed, repetition, n, d])
    cut = round(_TRAIN * n)
    while True:
        X, y = make_linear(n, d, random_state=random)
        if len(np.unique(y[:cut])) == 2:
            break
    majority = float(y[:cut].mean() > 0.5)
    found = {"majority": float((y[cut:] != majority).mean())}
    for name in _METHODS:
        began = time.process_time()
        predict = _train(name, X[:cut], y[:cut])
        found[f"{name}, seconds"] = time.process_time() - began
        found[f"{name}, error"] = float((predict(X[cut:]) != y[cut:]).mean())
    return found


def _train(name: str, X: NDArray[Any], y: NDArray[Any]) -> Fitted:
    if name == "linear SVM":
        return LinearSVC(random_state=0).fit(X, y).predict  # type: ignore[no-any-return]
    alpha = LAMBDA if name.endswith("mean form") else LAMBDA / len(y)
    if name.startswith("gradient descent"):
        return _descended(X, y, alpha)
    return RenyiClassifier(alpha=alpha, calibration=None).fit(X, y).predict


def _descended(X: NDArray[Any], y: NDArray[Any], alpha: float) -> Fitted:
    """Gradient descent with a fixed step, as plain as can be.

    The step is the inverse of the curvature, found by a few power iterations. It ends
    when the gradient has shrunk to a ten-thousandth. Single precision is enough.
    """
    W = np.hstack([X == 0, X == 1]).astype(np.float32)
    mean = W.mean(axis=0)
    W -= mean
    c = (y - y.mean()).astype(np.float32)
    step = 1 / (_curvature(W, c) + alpha)
    z = np.zeros(W.shape[1], np.float32)
    first = None
    for _ in range(_STEPS):
        gradient = (W @ z - c) @ W / np.float32(len(c)) + np.float32(alpha) * z
        size = float(np.linalg.norm(gradient))
        first = size if first is None else first
        if size <= _SHRUNK * first:
            break
        z -= np.float32(step) * gradient
    base = float(y.mean()) - float(mean @ z)

    def predict(later: NDArray[Any]) -> NDArray[Any]:
        scores = np.hstack([later == 0, later == 1]) @ z + base
        return np.asarray(scores > 0.5, np.int64)

    return predict


def _curvature(W: NDArray[Any], start: NDArray[Any]) -> float:
    """Return an upper estimate of the largest eigenvalue of WᵀW/n."""
    v, value = start, 0.0
    for _ in range(_POWERS):
        v = v / np.linalg.norm(v)
        v = W @ (v @ W) / np.float32(len(start))
        value = float(np.linalg.norm(v))
    return 1.2 * value


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return errors and times, and how they grow."""
    paper = [d for key, v in results.items() if key.startswith("rep") for d in v]
    tables = {
        f"{len(paper)} draws of 10,000 columns and 200 rows": _summary(paper),
        "CPU seconds to train, 200 rows": _growth(results, "columns"),
        "CPU seconds to train, 10,000 columns": _growth(results, "rows"),
    }
    notes = [
        "Of all rows 85 % train and the others test: of 200 rows, 170 train.",
        "The paper: 19.9 % in 0.2 s for its classifier, 19.7 % in 1.25 s for the SVM.",
        "Seconds are CPU seconds of one thread, the median of the draws; the majority "
        "error is that of always answering the class that is more frequent in "
        "training.",
        _faster(paper, _growth(results, "columns")),
        f"Growth is told by the median of {_DRAWS} draws. Gradient descent "
        "ends when the gradient has shrunk to a ten-thousandth.",
    ]
    if _like_majority(paper):
        notes.insert(
            1,
            "No method is better than always answering the majority, by two standard "
            "errors of the difference: these data tell about time, not about errors.",
        )
    grown = _growth(results, "columns")
    return Report("Run time", tables, notes, lambda figure: _draw(figure, grown))


def _summary(draws: list[dict[str, float]]) -> pd.DataFrame:
    rows = [
        {
            "method": name,
            **_error([draw[f"{name}, error"] for draw in draws]),
            "seconds": float(np.median([draw[f"{name}, seconds"] for draw in draws])),
        }
        for name in _METHODS
    ]
    always = _error([draw["majority"] for draw in draws])
    nothing = {"method": "always the majority", **always, "seconds": float("nan")}
    return pd.DataFrame([*rows, nothing])


def _faster(draws: list[dict[str, float]], grown: pd.DataFrame) -> str:
    """Return a sentence on the time of the support vector machine over ours."""
    table = _summary(draws).set_index("method")["seconds"]
    at_first = table["linear SVM"] / table[_METHODS[0]]
    last = grown.iloc[-1]
    at_last = last["linear SVM"] / last[_METHODS[0]]
    return (
        f"The linear SVM takes {at_first:.0f} times as long as {_METHODS[0]}, and "
        f"{at_last:.0f} times at {int(last['columns']):,} columns."
    )


def _like_majority(draws: list[dict[str, float]]) -> bool:
    """Return whether no method is clearly better than the majority class."""
    for name in _METHODS:
        less = [draw["majority"] - draw[f"{name}, error"] for draw in draws]
        if np.mean(less) > 2 * np.nan_to_num(standard_error(less)):
            return False
    return True


def _error(values: list[float]) -> dict[str, float]:
    return {
        "error %": 100 * float(np.mean(values)),
        "standard error": 100 * standard_error(values),
    }


def _growth(results: Mapping[str, Any], what: str) -> pd.DataFrame:
    rows = []
    for key, draws in results.items():
        if key.startswith(what):
            frame = pd.DataFrame(draws)
            times = {name: frame[f"{name}, seconds"].median() for name in _METHODS}
            rows.append({what: int(key.split()[1]), **times})
    return pd.DataFrame(rows)


def _draw(figure: Any, grown: pd.DataFrame) -> None:
    axes = figure.add_subplot()
    for name in _METHODS:
        axes.loglog(grown["columns"], grown[name], marker="o", label=name)
    axes.set_xlabel("columns")
    axes.set_ylabel("CPU seconds to train (170 of 200 rows)")
    axes.legend()


if __name__ == "__main__":
    raise SystemExit(command.main("runtime"))
