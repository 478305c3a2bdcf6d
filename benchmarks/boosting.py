"""Compare every kind of model of renyi with boosted trees, on ten tables.

Five tables are bundled, five are generated. The splits are random, 70 % of the rows for
training, at most 6,000 of them. All methods have their default settings, one thread and
the same rows. They are told which columns are categories, if they need to know. The row
"renyi, chosen" is the model of ours with the smallest left-out risk, which is known
from the training rows alone; its time is that of all models it was chosen from.

The peers are not in the extra `bench`: install ``catboost interpret-core``. A method
whose package is absent is named and left out. Finished pieces are in
``results/boosting.jsonl``, one for each table, split and method. The same command
continues after an interruption.

    python benchmarks/boosting.py [--write] [METHOD ...]

measures the missing pieces of the methods named, or of all; ``--write`` only writes the
finished pieces.
"""

from __future__ import annotations

from timing import RESULTS, Section, write  # isort: skip  # before numpy

import argparse
import importlib.util
import json
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from accuracy import SPLITS, splits
from peer_classifiers import table as bundled
from sklearn.ensemble import HistGradientBoostingClassifier

import renyi
from renyi.solvers.metrics import log_losses

MOST_ROWS = 6_000  # of the training rows of a split
ROWS = 3_000  # of a generated table
PIECES = RESULTS / "boosting.jsonl"
CHOSEN = "renyi, chosen"
LEAST = 5  # splits of each table that all methods have finished
WITHIN = 2.0  # standard errors of a paired difference

Piece = dict[str, Any]
Finished = dict[tuple[str, int, str], Piece]

# ---- generated tables

SIZES = (2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4, 6)  # categories of the columns
LogOdds = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _points(rng: np.random.Generator, codes: np.ndarray, scale: float) -> np.ndarray:
    """Return the sum over columns of random points per category."""
    total = np.zeros(len(codes))
    for column in codes.T:
        total += rng.normal(0, scale, max(SIZES))[column]
    return total


def _pair(rng: np.random.Generator, codes: np.ndarray, scale: float) -> np.ndarray:
    """Return random points per cell of two columns, centred in rows and columns."""
    sizes = codes.max(axis=0) + 1
    cells = rng.normal(0, 1, sizes)
    cells -= cells.mean(axis=0)
    cells -= cells.mean(axis=1, keepdims=True)
    cells *= scale / cells.std()
    return cells[codes[:, 0], codes[:, 1]]


def _additive(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    return _points(rng, codes, 0.7)


def _one_pair(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    return _points(rng, codes, 0.3) + _pair(rng, codes[:, [3, 7]], 3.0)


def _three_pairs(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    total = _points(rng, codes, 0.3)
    for pair in ([1, 2], [3, 6], [5, 7]):
        total += _pair(rng, codes[:, pair], 1.5)
    return total


def _parity(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    odd = codes[:, [0, 4, 8]].sum(axis=1) % 2  # of three columns of two categories
    return np.log(9) * (2 * odd - 1)  # wrong on one row of ten


def _noise(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    return np.full(len(codes), np.log(0.4 / 0.6))


GENERATED: dict[str, LogOdds] = {
    "additive": _additive,
    "one strong pair": _one_pair,
    "three pairs": _three_pairs,
    "parity of three": _parity,
    "noise": _noise,
}
BUNDLED = ("votes", "credit", "kr-vs-kp", "promoters", "adult")
TABLES = (*BUNDLED, *GENERATED)


def generated(name: str) -> tuple[pd.DataFrame, pd.Series, float]:
    """Return a table, its classes and the least error that any rule has."""
    rng = np.random.default_rng([28, list(GENERATED).index(name)])
    codes = np.stack([rng.integers(0, size, ROWS) for size in SIZES], axis=1)
    p = 1 / (1 + np.exp(-GENERATED[name](rng, codes)))
    y = np.where(rng.random(ROWS) < p, "yes", "no")
    names = [f"x{i}" for i in range(len(SIZES))]
    X = pd.DataFrame(codes, columns=names).astype(str).add_prefix("")
    return "c" + X, pd.Series(y, name="y"), float(np.minimum(p, 1 - p).mean())


def table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return a table by its name."""
    return generated(name)[:2] if name in GENERATED else bundled(name)


# ---- methods

Answers = Callable[[pd.DataFrame], np.ndarray]  # probabilities of the classes, sorted


class Trained(NamedTuple):
    """A trained model, and its left-out risk (of ours)."""

    answers: Answers
    risk: float | None = None


def _texts(X: pd.DataFrame) -> list[str]:
    return [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]


def _renyi(X: pd.DataFrame, y: pd.Series, **settings: Any) -> Trained:
    clf = renyi.RenyiClassifier(**settings).fit(X, y)
    return Trained(clf.predict_proba, clf.certificate_.loo_risk)


def _order_1(X: pd.DataFrame, y: pd.Series) -> Trained:
    return _renyi(X, y)


def _order_2(X: pd.DataFrame, y: pd.Series) -> Trained:
    return _renyi(X, y, order=2)


def _pairs(X: pd.DataFrame, y: pd.Series) -> Trained:
    return _renyi(X, y, interactions="auto")


def _every_order(X: pd.DataFrame, y: pd.Series) -> Trained:
    clf = renyi.KernelRenyiClassifier().fit(X, y)
    return Trained(clf.predict_proba, clf.certificate_.loo_risk)


def _trees(X: pd.DataFrame, y: pd.Series) -> Trained:
    texts = _texts(X)
    known = {name: pd.CategoricalDtype(sorted(X[name].unique())) for name in texts}
    clf = HistGradientBoostingClassifier(
        categorical_features="from_dtype", random_state=0
    )
    clf.fit(X.astype(known), y)

    def answers(Z: pd.DataFrame) -> np.ndarray:
        new = {
            name: Z[name].where(Z[name].isin(known[name].categories)) for name in texts
        }
        return clf.predict_proba(Z.assign(**new).astype(known))

    return Trained(answers)


def _catboost(X: pd.DataFrame, y: pd.Series) -> Trained:
    from catboost import CatBoostClassifier

    clf = CatBoostClassifier(
        thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
    )
    clf.fit(X, y, cat_features=_texts(X))
    return Trained(clf.predict_proba)


def _ebm(X: pd.DataFrame, y: pd.Series) -> Trained:
    from interpret.glassbox import ExplainableBoostingClassifier

    texts = _texts(X)
    kinds = ["nominal" if name in texts else "continuous" for name in X]
    clf = ExplainableBoostingClassifier(feature_types=kinds, n_jobs=1, random_state=0)
    clf.fit(X, y)
    return Trained(clf.predict_proba)


class Method(NamedTuple):
    """A method, and the package it needs (none: it is ours)."""

    fit: Callable[[pd.DataFrame, pd.Series], Trained]
    package: str = ""
    module: str = ""


OURS = {
    "renyi, order 1": Method(_order_1),
    "renyi, order 2": Method(_order_2),
    "renyi, chosen pairs": Method(_pairs),
    "renyi, every order": Method(_every_order),
}
PEERS = {
    "HistGradientBoosting": Method(_trees, "scikit-learn", "sklearn"),
    "CatBoost": Method(_catboost, "catboost", "catboost"),
    "EBM": Method(_ebm, "interpret-core", "interpret"),
}
METHODS = OURS | PEERS

# ---- pieces


def measured(name: str, split: int, method: str) -> Piece:
    """Return error, log loss and CPU seconds of a method on a split of a table."""
    X, y = table(name)
    train, test = list(splits(len(y)))[split]
    train = train[:MOST_ROWS]
    start = time.process_time()
    trained = METHODS[method].fit(X.iloc[train], y.iloc[train])
    fitted = time.process_time()
    p = np.asarray(trained.answers(X.iloc[test]), float)
    end = time.process_time()
    truth = np.searchsorted(np.unique(y), y.iloc[test])
    own = p[np.arange(len(truth)), truth]
    return {
        "error": float((p.argmax(axis=1) != truth).mean()),
        "log_loss": float(log_losses(own).mean()),
        "fit": fitted - start,
        "predict": end - fitted,
        "risk": trained.risk,
    }


def warm_up(method: str) -> None:
    """Fit 100 rows, so that imports and compiled code are loaded."""
    X, y, _ = generated("additive")
    METHODS[method].fit(X.iloc[:100], y.iloc[:100]).answers(X.iloc[:100])


def finished() -> Finished:
    """Return the finished pieces by table, split and method."""
    lines = PIECES.read_text().splitlines() if PIECES.exists() else []
    pieces = map(json.loads, lines)
    return {(p["data"], p["split"], p["method"]): p for p in pieces}


def code_of(method: str) -> str:
    """Return the version of a method's package, or the commit of ours."""
    package = METHODS[method].package
    if package:
        return f"{package} {version(package)}"
    commit = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    here = Path(__file__).parent
    return subprocess.run(
        commit, cwd=here, capture_output=True, text=True
    ).stdout.strip()


def run(methods: Sequence[str]) -> None:
    """Measure the missing pieces: all tables of a split before the next."""
    warnings.simplefilter("ignore")
    for method in methods:
        warm_up(method)
    codes = {method: code_of(method) for method in methods}
    done = finished()
    for split, name, method in product(range(SPLITS), TABLES, methods):
        if (name, split, method) in done:
            continue
        key = {"data": name, "split": split, "method": method, "code": codes[method]}
        piece = key | measured(name, split, method)
        with PIECES.open("a") as file:
            file.write(json.dumps(piece) + "\n")


# ---- results


def common(done: Finished, name: str) -> list[int]:
    """Return the splits of a table that all methods have finished."""
    return [
        split
        for split in range(SPLITS)
        if all((name, split, method) in done for method in METHODS)
    ]


def chosen(done: Finished, name: str, split: int) -> Piece:
    """Return the piece of ours with the smallest left-out risk, for the time of all."""
    pieces = [done[name, split, method] for method in OURS]
    best = min(pieces, key=lambda p: p["risk"])
    return best | {"fit": sum(p["fit"] for p in pieces)}


def figures(done: Finished, name: str, method: str, what: str) -> np.ndarray:
    """Return a figure of a method on every split of a table that all have finished."""
    of = common(done, name)
    if method == CHOSEN:
        return np.array([chosen(done, name, k)[what] for k in of], float)
    return np.array([done[name, k, method][what] for k in of], float)


def mean_and_spread(values: np.ndarray) -> tuple[float, float]:
    """Return the mean over the splits, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def difference(done: Finished, name: str, peer: str, what: str) -> tuple[float, float]:
    """Return how much more ours has than a peer, paired, and the standard error."""
    ours = figures(done, name, CHOSEN, what)
    return mean_and_spread(ours - figures(done, name, peer, what))


def best_peer(done: Finished, name: str, what: str) -> str:
    """Return the peer with the smallest mean of a figure."""
    return min(PEERS, key=lambda peer: figures(done, name, peer, what).mean())


def is_within(mean: float, spread: float) -> bool:
    """Whether ours is at most two standard errors behind."""
    return mean <= WITHIN * spread + 1e-12


def _row(done: Finished, name: str, method: str) -> dict[str, str]:
    error, error_spread = mean_and_spread(figures(done, name, method, "error"))
    loss, loss_spread = mean_and_spread(figures(done, name, method, "log_loss"))
    row = {
        "method": method,
        "error, %": f"{100 * error:.2f} ± {100 * error_spread:.2f}",
        "log loss": f"{loss:.4f} ± {loss_spread:.4f}",
        "fit, CPU s": f"{np.median(figures(done, name, method, 'fit')):.3g}",
        "predict, CPU s": f"{np.median(figures(done, name, method, 'predict')):.3g}",
        "chosen − this, error": "",
        "chosen − this, log loss": "",
    }
    if method in PEERS:
        mean, spread = difference(done, name, method, "error")
        row["chosen − this, error"] = f"{100 * mean:+.2f} ± {100 * spread:.2f}"
        mean, spread = difference(done, name, method, "log_loss")
        row["chosen − this, log loss"] = f"{mean:+.4f} ± {spread:.4f}"
    return row


def _summary(done: Finished, name: str) -> dict[str, str]:
    row = {"table": name, "splits": str(len(common(done, name)))}
    for what, unit, digits in (("error", 100, 2), ("log_loss", 1, 4)):
        peer = best_peer(done, name, what)
        mean, spread = difference(done, name, peer, what)
        ours = figures(done, name, CHOSEN, what).mean()
        title = "error, %" if what == "error" else "log loss"
        row |= {
            title: f"{unit * ours:.{digits}f}",
            f"best peer, {what.replace('_', ' ')}": f"{peer} "
            f"{unit * figures(done, name, peer, what).mean():.{digits}f}",
            f"difference, {what.replace('_', ' ')}": f"{unit * mean:+.{digits}f} "
            f"± {unit * spread:.{digits}f}",
            f"within, {what.replace('_', ' ')}": (
                "yes" if is_within(mean, spread) else "**no**"
            ),
        }
    return row


def _losses(done: Finished, what: str) -> list[str]:
    """Return the tables on which ours is more than two standard errors behind."""
    lost = []
    for name in TABLES:
        peer = best_peer(done, name, what)
        if not is_within(*difference(done, name, peer, what)):
            lost.append(f"{name} ({peer})")
    return lost


def _choices(done: Finished, name: str) -> str:
    """Return how often each of ours was chosen."""
    methods = [chosen(done, name, k)["method"] for k in common(done, name)]
    counts = {method: methods.count(method) for method in OURS}
    return ", ".join(
        f"{method.removeprefix('renyi, ')} {count}"
        for method, count in counts.items()
        if count
    )


def _notes(done: Finished, name: str) -> list[str]:
    splits_done = len(common(done, name))
    notes = [f"Chosen: {_choices(done, name)} of {splits_done} times."]
    train = round(0.7 * len(table(name)[1]))
    if train > MOST_ROWS:
        notes.append(
            f"{MOST_ROWS:,} of the {train:,} training rows of a split, for all methods."
        )
    if name in GENERATED:
        least = generated(name)[2]
        notes.append(f"No rule has an error below {least:.1%} on these rows.")
    return notes


def _seconds(done: Finished) -> list[dict[str, str]]:
    """Return the CPU seconds of each method, summed over the tables."""
    rows = []
    for method in (*OURS, CHOSEN, *PEERS):
        fit = sum(np.median(figures(done, name, method, "fit")) for name in TABLES)
        predict = sum(
            np.median(figures(done, name, method, "predict")) for name in TABLES
        )
        rows.append(
            {
                "method": method,
                "fits of the ten tables, CPU s": f"{fit:.1f}",
                "predictions, CPU s": f"{predict:.2f}",
            }
        )
    return rows


def sections(done: Finished) -> list[Section]:
    """Return the results as tables."""
    counts: Mapping[str, list[str]] = {
        what: _losses(done, what) for what in ("error", "log_loss")
    }
    notes = [
        "Random splits, seeds from 0, the same for all. ±: standard error of the mean, "
        "or of the mean of the paired differences. The splits share rows, so the true "
        "spread is larger.",
        "Within: the chosen model of ours is at most two standard errors of the paired "
        "difference behind the peer that is best on this table.",
    ]
    for what, lost in counts.items():
        title = what.replace("_", " ")
        notes.append(
            f"{title.capitalize()}: within on {len(TABLES) - len(lost)} of "
            f"{len(TABLES)} tables; behind on {', '.join(lost) or 'none'}."
        )
    code = sorted({p["code"] for p in done.values()})
    notes.append(f"Versions; commits of renyi: {', '.join(code)}.")
    head = [_summary(done, name) for name in TABLES]
    parts = [
        Section(
            "Ours, chosen by the left-out risk, beside the best peer",
            table=head,
            notes=notes,
        )
    ]
    times = [
        "Medians over the splits, summed over the tables; loaded code is not counted."
    ]
    parts.append(Section("Time", table=_seconds(done), notes=times))
    for name in TABLES:
        rows = [_row(done, name, method) for method in (*OURS, CHOSEN, *PEERS)]
        parts.append(Section(name, table=rows, notes=_notes(done, name)))
    return parts


def main() -> None:
    """Measure missing pieces, and write the results of the splits that are finished."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("method", nargs="*", help=", ".join(METHODS))
    args = parser.parse_args()
    wanted = args.method or list(METHODS)
    here = [
        m for m in wanted if m in OURS or importlib.util.find_spec(METHODS[m].module)
    ]
    for absent in sorted({*wanted} - {*here}):
        print(f"not installed: {absent}")
    if not args.write:
        run(here)
    done = finished()
    few = [name for name in TABLES if len(common(done, name)) < LEAST]
    if few:
        print(f"fewer than {LEAST} splits are finished of: {', '.join(few)}")
        return
    write("boosting", "Every kind of model, beside boosted trees", sections(done))


if __name__ == "__main__":
    main()
