"""Compare other classifiers with renyi: error, log loss, time, memory, guarantee.

The data are random splits of the bundled sets, 70 % of the rows for training, default
settings, one thread. Each method has a separate process for each set, so that memory is
measured separately. Methods that bin numbers get the table itself. Others get the bins
of `renyi.Encoder`, fitted to the training rows; this counts as part of the fit.

The peers need a separate environment: ``pip install -e ".[fast]" MRCpy cvxpy gurobipy
clarabel interpret-core optbinning catboost mapie``. A package that is not installed is
named and left out. Finished pieces are in ``results/peer_classifiers.jsonl``. The same
command continues after an interruption, and ``--write`` writes the finished pieces.
"""

from __future__ import annotations

from timing import MB, RESULTS, Section, _peak, write  # isort: skip  # before numpy

import importlib.util
import json
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from accuracy import splits
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import CategoricalNB

import renyi
from renyi.counting.onehot import dense

SPLITS = {"votes": 5, "credit": 5, "kr-vs-kp": 5, "promoters": 5, "adult": 2}
ENOUGH = 12.0  # CPU seconds of a method on a set, after which no split is begun
TOO_LONG = 900  # CPU seconds after which a method is given up on a set
PIECES = RESULTS / "peer_classifiers.jsonl"

Answers = Callable[[pd.DataFrame], np.ndarray]  # probabilities of the second class


class Coded:
    """Columns as codes, or one-hot, by the bins of the training rows."""

    def __init__(self, X: pd.DataFrame) -> None:
        self.encoder, codes = renyi.Encoder().fit_transform(X)
        self.sizes = [len(c.levels.texts) for c in self.encoder.columns]
        self.codes = codes.astype(np.intp).T

    def later(self, X: pd.DataFrame) -> np.ndarray:
        """Return codes; a label unseen in training has one more than the others."""
        return self.encoder.transform(X).astype(np.intp).T

    def onehot(self, codes: np.ndarray) -> np.ndarray:
        """Return W, in which an unseen label is a row of zeros."""
        W = dense(codes.T, [size + 1 for size in self.sizes])
        return np.delete(W, np.cumsum(np.array(self.sizes) + 1) - 1, axis=1)


def _renyi(X: Any, y: Any, **settings: Any) -> tuple[Answers, float]:
    clf = renyi.RenyiClassifier(**settings).fit(X, y)
    return lambda Z: clf.predict_proba(Z)[:, 1], clf.certificate_.bounds["map"]


def _pairs(X: Any, y: Any) -> tuple[Answers, float]:
    return _renyi(X, y, order=2)


def _crossfit(X: Any, y: Any) -> tuple[Answers, float]:
    clf = renyi.CrossFitClassifier(random_state=0).fit(X, y)
    bound = clf.certificate_.sampled_error
    return lambda Z: clf.predict_proba(Z)[:, 1], bound


def _tan(X: Any, y: Any) -> tuple[Answers, None]:
    clf = renyi.baselines.TreeAugmentedNaiveBayes().fit(X, y)
    return lambda Z: clf.predict_proba(Z)[:, 1], None


def _naive_bayes(X: Any, y: Any) -> tuple[Answers, None]:
    coded = Coded(X)
    clf = CategoricalNB(min_categories=np.array(coded.sizes) + 1).fit(coded.codes, y)
    return lambda Z: clf.predict_proba(coded.later(Z))[:, 1], None


def _logistic(X: Any, y: Any) -> tuple[Answers, None]:
    coded = Coded(X)
    clf = LogisticRegression(max_iter=1000).fit(coded.onehot(coded.codes), y)
    return lambda Z: clf.predict_proba(coded.onehot(coded.later(Z)))[:, 1], None


def _mrc(X: Any, y: Any) -> tuple[Answers, float]:
    from MRCpy import MRC
    from MRCpy.phi import BasePhi

    class Phi(BasePhi, BaseEstimator):
        """Their linear map, which today's scikit-learn takes for an estimator."""

    coded, classes = Coded(X), np.unique(y)
    W = coded.onehot(coded.codes)
    clf = MRC(solver="cvx", phi=Phi(n_classes=2), random_state=0)
    clf.cvx_solvers = ["CLARABEL"]
    clf.fit(W, np.searchsorted(classes, y))
    bound = min(1.0, max(0.0, float(clf.get_upper_bound())))
    return lambda Z: clf.predict_proba(coded.onehot(coded.later(Z)))[:, 1], bound


def _ebm(X: Any, y: Any) -> tuple[Answers, None]:
    from interpret.glassbox import ExplainableBoostingClassifier

    clf = ExplainableBoostingClassifier(n_jobs=1, random_state=0).fit(X, y)
    return lambda Z: clf.predict_proba(Z)[:, 1], None


def _optbinning(X: Any, y: Any) -> tuple[Answers, None]:
    from optbinning import BinningProcess, Scorecard

    names = list(X.columns)
    texts = [name for name in names if not pd.api.types.is_numeric_dtype(X[name])]
    process = BinningProcess(names, categorical_variables=texts)
    clf = Scorecard(binning_process=process, estimator=LogisticRegression())
    clf.fit(X, y == np.unique(y)[1])
    return lambda Z: clf.predict_proba(Z)[:, 1], None


def _catboost(X: Any, y: Any) -> tuple[Answers, None]:
    from catboost import CatBoostClassifier

    texts = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    clf = CatBoostClassifier(
        thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
    )
    clf.fit(X, y, cat_features=texts)
    return lambda Z: clf.predict_proba(Z)[:, 1], None


def _mapie(X: Any, y: Any) -> tuple[Answers, None]:
    from mapie.classification import SplitConformalClassifier

    coded, classes = Coded(X), np.unique(y)
    W, codes = coded.onehot(coded.codes), np.searchsorted(classes, y)
    train, rest = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)
    inner = LogisticRegression(max_iter=1000).fit(W[train], codes[train])
    conformal = SplitConformalClassifier(inner, confidence_level=0.95, prefit=True)
    conformal.conformalize(W[rest], codes[rest])

    def answers(Z: pd.DataFrame) -> np.ndarray:
        _, sets = conformal.predict_set(coded.onehot(coded.later(Z)))
        answers.alone = float((sets.sum(axis=1) == 1).mean())  # type: ignore[attr-defined]
        return inner.predict_proba(coded.onehot(coded.later(Z)))[:, 1]

    return answers, None


class Method(NamedTuple):
    """A method: how it is fitted, the packages it needs, and what it guarantees."""

    fit: Callable[[Any, Any], tuple[Answers, float | None]]
    packages: tuple[str, ...]
    promise: str


ROWS = "for every population with the pair counts of the rows"
METHODS = {
    "renyi": Method(_renyi, (), ROWS),
    "renyi, cross-fit": Method(_crossfit, (), "for the population, at 95 %"),
    "renyi, pairs of columns": Method(_pairs, (), f"{ROWS}, pairs of pairs"),
    "TAN (ours)": Method(_tan, (), "none"),
    "CategoricalNB": Method(_naive_bayes, (), "none"),
    "LogisticRegression": Method(_logistic, (), "none"),
    "MRCpy, MRC": Method(
        _mrc, ("MRCpy", "cvxpy"), "for distributions with nearly the means of the rows"
    ),
    "EBM": Method(_ebm, ("interpret.glassbox",), "none"),
    "optbinning, Scorecard": Method(_optbinning, ("optbinning",), "none"),
    "CatBoost": Method(_catboost, ("catboost",), "none"),
    "MAPIE, LogisticRegression": Method(
        _mapie, ("mapie.classification",), "sets that hold the class, at 95 %"
    ),
}


def table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return a bundled set with a label for empty text cells, as some methods need."""
    X, y = renyi.datasets.load(name)
    texts = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    return X.assign(**{c: X[c].astype(object).fillna("?") for c in texts}), y


def _measured(title: str, name: str, pipe: Any) -> None:
    """Send the figures of every split; this runs in a separate process."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (TOO_LONG, TOO_LONG))
    method, (X, y) = METHODS[title], table(name)
    for package in method.packages:
        importlib.import_module(package)
    if not method.packages:  # ours load compiled code when they are first used
        method.fit(*(part.iloc[:: max(1, len(y) // 100)] for part in (X, y)))
    spent = time.process_time()
    for k, (train, test) in enumerate(splits(len(y))):
        if k == SPLITS[name] or (k and time.process_time() - spent > ENOUGH):
            break
        before, start = _peak(), time.process_time()
        answers, bound = method.fit(X.iloc[train], y.iloc[train])
        seconds, memory = time.process_time() - start, (_peak() - before) / MB
        second = (y.iloc[test] == np.unique(y)[1]).to_numpy()
        p = np.clip(answers(X.iloc[test]), 1e-15, 1 - 1e-15)
        loss = -np.log(np.where(second, p, 1 - p)).mean()
        wrong = ((p > 0.5) != second).mean()
        alone = getattr(answers, "alone", None)
        pipe.send((wrong, loss, seconds, memory, bound, alone))
    pipe.send(None)


def measured(title: str, name: str) -> list[tuple[Any, ...]]:
    """Return the figures of the splits that finished in time."""
    there, here = multiprocessing.Pipe()
    # Not forked: what another method has loaded would count as its memory.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_measured, args=(title, name, here))
    process.start()
    here.close()
    found = []
    try:
        while (figures := there.recv()) is not None:
            found.append(figures)
    except EOFError:  # the limit of CPU time, or an error that it has printed
        pass
    process.join()
    return found


def finished() -> dict[tuple[str, str], list[Any]]:
    """Return the finished pieces, by method and set."""
    lines = PIECES.read_text().splitlines() if PIECES.exists() else []
    return {(p["method"], p["data"]): p["splits"] for p in map(json.loads, lines)}


def _row(
    title: str, found: list[tuple[Any, ...]], first: Sequence[float]
) -> dict[str, str]:
    if not found:
        nothing = "no result"
        return {"method": title, "splits": "0", "error, %": nothing} | dict.fromkeys(
            ("of the first row", "log loss", "fit, CPU s", "memory, MB", "bound, %"), ""
        )
    wrong, loss, seconds, memory, bounds, alone = zip(*found, strict=True)
    bound = "" if bounds[0] is None else f"{100 * np.mean(bounds):.1f}"
    if alone[0] is not None:
        bound = f"one class alone for {100 * np.mean(alone):.0f} % of the rows"
    error = f"{100 * np.mean(wrong):.1f}"
    if len(wrong) > 1:
        error += f" ± {100 * np.std(wrong, ddof=1) / len(wrong) ** 0.5:.1f}"
    return {
        "method": title,
        "splits": str(len(found)),
        "error, %": error,
        "of the first row": f"{100 * np.mean(first[: len(found)]):.1f}",
        "log loss": f"{np.mean(loss):.3f}",
        "fit, CPU s": f"{np.median(seconds):.3g}",
        "memory, MB": f"{max(memory):.0f}",
        "bound, %": bound,
    }


def main() -> None:
    """Measure the missing pieces, the slowest methods last, and write all."""
    here = {
        title: method
        for title, method in METHODS.items()
        if all(importlib.util.find_spec(p.partition(".")[0]) for p in method.packages)
    }
    slow = ("CatBoost", "EBM", "renyi, pairs of columns")
    pieces = sorted(product(SPLITS, here), key=lambda piece: piece[1] in slow)
    for name, title in [] if "--write" in sys.argv else pieces:
        if (title, name) not in (found := finished()):
            piece = {"method": title, "data": name, "splits": measured(title, name)}
            with PIECES.open("a") as file:
                file.write(json.dumps(piece) + "\n")
    found = finished()
    sections = []
    for name in SPLITS:
        first = [figures[0] for figures in found["renyi", name]]
        rows = [_row(t, found[t, name], first) for t in here if (t, name) in found]
        sections.append(Section(name, table=rows))
    promises = [{"method": t, "bound": m.promise} for t, m in METHODS.items()]
    absent = [f"{t} on {n}" for t, n in product(METHODS, SPLITS) if (t, n) not in found]
    loaded = sorted({p.partition(".")[0] for m in here.values() for p in m.packages})
    names = {"interpret": "interpret-core"}
    versions = [f"{p} {version(names.get(p, p))}" for p in loaded]
    notes = [
        "The same splits for all, seeds from 0; error: mean and standard error of the "
        "mean, then that of the first row on the splits that this row has; a "
        "probability of 0 counts as 1e-15 in the log loss.",
        "CPU seconds of a fit, median of the splits; ours after one on 100 rows, "
        "which loads compiled code; memory: how far the largest fit raised the peak of "
        "the process.",
        f"Slow methods have fewer splits: after {ENOUGH:.0f} CPU seconds, or before, "
        f"none is begun. No result: over {TOO_LONG} CPU seconds, or an error.",
        f"Versions: {', '.join(versions)}. Not yet run: {', '.join(absent) or 'none'}.",
    ]
    sections.append(Section("What comes with it", table=promises, notes=notes))
    write("peer_classifiers", "Other classifiers on the bundled sets", sections)


if __name__ == "__main__":
    main()
