"""Train from private releases: error and guarantee against the privacy budget.

The data are random splits of three bundled sets, 70 % of the rows for training. Pair
counts of the training rows are released with noise (`renyi.private_release`), once for
each budget, and a classifier is trained from the release alone. Categories and edges of
bins are declared beforehand: those of the set's description. DP-EBM of the package
interpret is trained on the rows with the same budget and the same declared categories,
at its other default settings.

Every release also predicts each of the 16 columns of votes; the error is their mean. A
guarantee holds if it is not below the risk under the exact pair counts of the training
rows.

The extra ``privacy`` and the package ``interpret-core`` are needed. Finished pieces are
in ``results/private_release.jsonl``. The same command continues after an interruption,
and ``--write`` writes the finished pieces.
"""

from __future__ import annotations

from timing import RESULTS, Section, write  # isort: skip  # before numpy

import json
import sys
import time
import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import renyi

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
SETS = ("votes", "kr-vs-kp", "adult")
SPLITS = 20
PIECES = RESULTS / "private_release.jsonl"
# Edges that anyone would choose without looking at the rows.
EDGES = {
    "age": [25, 35, 45, 55, 65],
    "education-num": [9, 10, 13, 14],
    "capital-gain": [1, 5_000],
    "capital-loss": [1, 1_500],
    "hours-per-week": [35, 40, 41, 50],
}
DROPPED = {"adult": ["fnlwgt"]}  # a sampling weight


def table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    X, y = renyi.datasets.load(name)
    return X.drop(columns=DROPPED.get(name, [])), y


def declared(X: pd.DataFrame) -> pd.DataFrame:
    """Return the columns as categories; numbers are cut at the declared edges."""
    out = X.copy()
    for name in X.columns.intersection(list(EDGES)):
        place = np.searchsorted(EDGES[name], X[name], side="right")
        out[name] = place.astype(str)
    return out.astype(object).where(out.notna(), "not stated")


def split(name: str, number: int) -> tuple[Any, ...]:
    X, y = table(name)
    return train_test_split(X, y, test_size=0.3, random_state=number)


def released(name: str, number: int, epsilon: float) -> dict[str, Any]:
    """Train from one release, and from the exact counts if epsilon is infinite."""
    X, X_test, y, y_test = split(name, number)
    whole, classes = table(name)
    target = str(classes.name)
    public = renyi.Encoder().fit(declared(whole).assign(**{target: classes}))
    rows = declared(X).assign(**{target: y})
    begun = time.process_time()
    exact = renyi.Marginals.from_data(rows, target=target)
    m = exact
    if np.isfinite(epsilon):
        m = renyi.private_release(m, encoder=public, epsilon=epsilon, delta=DELTA)
    clf = renyi.RenyiClassifier(rule="sharp").fit_marginals(m)
    seconds = time.process_time() - begun
    bound = clf.certificate_.bounds.get("sharp")
    truth = renyi.certify(clf.scorecard_, exact).bounds["sharp"]
    answers = clf.set_params(rule="map").predict(declared(X_test))
    piece = {"error": float((answers != y_test).mean()), "bound": bound, "risk": truth}
    if name == "votes":
        piece["every_target"] = _every_target(m, declared(X_test), y_test, target)
    return {**piece, "seconds": seconds}


def _every_target(m: Any, X: Any, y: Any, target: str) -> float:
    """Return the mean error over all columns but the target, each predicted."""
    rows = X.assign(**{target: y})
    errors = []
    for name in m.feature_names:
        turned = m.with_target(name)
        clf = renyi.RenyiClassifier().fit_marginals(turned)
        answers = clf.predict(rows[list(turned.feature_names)])
        errors.append(float((answers != rows[name]).mean()))
    return float(np.mean(errors))


def boosted(name: str, number: int, epsilon: float) -> dict[str, Any]:
    """Train DP-EBM on the rows, with the same declared categories."""
    from interpret.privacy import DPExplainableBoostingClassifier

    X, X_test, y, y_test = split(name, number)
    begun = time.process_time()
    clf = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=DELTA,
        feature_types=["nominal"] * X.shape[1],
        random_state=number,
        n_jobs=1,
    )
    answers = clf.fit(declared(X), y).predict(declared(X_test))
    seconds = time.process_time() - begun
    return {"error": float((answers != y_test).mean()), "seconds": seconds}


METHODS = {"renyi": released, "DP-EBM": boosted}


def measure() -> None:
    done = {(p["set"], p["split"], p["epsilon"], p["method"]) for p in pieces()}
    for number, name in product(range(SPLITS), SETS):
        for method, epsilon in [("renyi", np.inf), *product(METHODS, EPSILONS)]:
            key = (name, number, epsilon, method)
            if key in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                piece = METHODS[method](name, number, epsilon)
            named = dict(zip(("set", "split", "epsilon", "method"), key, strict=True))
            with PIECES.open("a") as stream:
                stream.write(json.dumps({**named, **piece}) + "\n")


def pieces() -> list[dict[str, Any]]:
    if not PIECES.exists():
        return []
    return [json.loads(line) for line in PIECES.read_text().splitlines()]


def percent(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return "–"
    error = f" ± {100 * known.sem():.1f}" if len(known) > 1 else ""
    return f"{100 * known.mean():.1f}{error}"


def sections() -> list[Section]:
    frame = pd.DataFrame(pieces())
    out = []
    for name, own in frame.groupby("set", sort=False):
        rows = []
        for epsilon, part in own.groupby("epsilon"):
            ours = part[part["method"] == "renyi"]
            theirs = part[part["method"] == "DP-EBM"]
            useful = ours["bound"] < 1
            row = {
                "epsilon": "no noise" if np.isinf(epsilon) else f"{epsilon:g}",
                "splits": len(ours),
                "error, renyi": percent(ours["error"]),
                "error, DP-EBM": percent(theirs["error"]),
                "guarantee (sharp)": percent(ours["bound"]),
                "guarantee holds": f"{int((ours['bound'] >= ours['risk']).sum())} of "
                f"{int(ours['bound'].notna().sum())}",
                "guarantee below 100 %": f"{int(useful.sum())} of {len(ours)}",
                "CPU seconds": f"{ours['seconds'].mean():.2f}, "
                f"{theirs['seconds'].mean():.2f}",
            }
            if name == "votes":
                row["error over all 16 columns"] = percent(ours["every_target"])
            rows.append(row)
        majority = 1 - table(str(name))[1].value_counts(normalize=True).max()
        notes = [f"Always answering the more frequent class: {100 * majority:.1f} %."]
        out.append(Section(f"{name}, delta {DELTA:g}", table=rows, notes=notes))
    return out


if __name__ == "__main__":
    if "--write" not in sys.argv:
        measure()
    write("private_release", "Training from private releases", sections())
