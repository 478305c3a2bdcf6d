"""Log loss on held-out rows: calibrated scores and one-hot logistic regression.

The data are the bundled sets of two classes, generated tables of three to six classes
with additive logits, and the age of adult in five bins. The peer is LogisticRegression
on one-hot columns, with C chosen by threefold cross-validation of the log loss.

A rare class is generated, or made by leaving out most rows of one class of a bundled
set. Its calibration curve matters most in the bins of the largest probabilities.
"""

from __future__ import annotations

from timing import Section, run  # isort: skip

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from accuracy import SPLITS, splits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi

LIMITS = {"votes": 0.12, "credit": 0.36, "kr-vs-kp": 0.16, "promoters": 0.32}
PENALTIES = (0.1, 1.0, 10.0)
WITHIN = 1.1
PEER_SPLITS = 5  # which take longer than all else
TITLES = ("calibration=None", "default", "logistic regression")
SHARES = (0.005, 0.01, 0.05, 0.2)
RARE_SPLITS = 8
RARE_WITHIN = 1.25
RARE_ROWS = 12  # at least, of the rare class
ENDS = (0.02, 0.1, 0.3)  # between the bins of a calibration curve
CURVE = 0.05  # by which a mean probability may differ from the share


def benchmark() -> list[Section]:
    two = [_two_classes(name, limit) for name, limit in LIMITS.items()]
    note = (
        f"{SPLITS} random splits, seeds 0 to {SPLITS - 1}, 70 % of the rows to train "
        "on; mean log loss, a probability of 0 counting as 1e-15. Logistic regression "
        f"on the first {PEER_SPLITS} of these splits."
    )
    many = [_row(name, X, y, n) for name, X, y, n in tables()]
    return [
        Section("Two classes", table=two, notes=[note]),
        Section(
            "Three classes and more",
            table=many,
            notes=[
                "rows: those trained on; the same split for all. generated: 8 columns "
                "of 4 categories, the logit of each class a sum over the columns. "
                "ordered: the same for one sum, whose multiples are the logits. 10,000 "
                "other rows are predicted."
            ],
        ),
        *_rare_classes(),
    ]


def tuned() -> GridSearchCV:
    """Return one-hot logistic regression with the C of least log loss."""
    peer = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=500)
    )
    grid = {"logisticregression__C": PENALTIES}
    return GridSearchCV(peer, grid, scoring="neg_log_loss", cv=3)


def binned(X: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of strings, numbers in five bins."""
    encoder, codes = renyi.Encoder(bins=5).fit_transform(X)
    names = encoder.feature_names
    return pd.DataFrame(codes.T.astype(str), columns=list(names))


def log_loss(model: Any, X: Any, y: Any) -> tuple[float, float, float]:
    """Return log loss, error and least probability on rows."""
    p, truth = model.predict_proba(X), np.searchsorted(model.classes_, y)
    own = p[np.arange(len(p)), truth]
    wrong = float((model.predict(X) != np.asarray(y)).mean())
    return float(-np.log(np.maximum(own, 1e-15)).mean()), wrong, float(p.min())


def _models() -> dict[str, Any]:
    plain = renyi.RenyiClassifier(calibration=None)
    return dict(zip(TITLES, (plain, renyi.RenyiClassifier(), tuned()), strict=True))


def _two_classes(name: str, limit: float) -> dict[str, str]:
    X, y = renyi.datasets.load(name)
    cells = binned(X)
    found: dict[str, list[tuple[float, float, float]]] = {t: [] for t in TITLES}
    for k, (train, test) in enumerate(splits(len(y))):
        for title, model in _models().items():
            if title == TITLES[-1] and k >= PEER_SPLITS:
                continue
            table = cells if title == TITLES[-1] else X
            model.fit(table.iloc[train], y.iloc[train])
            found[title].append(log_loss(model, table.iloc[test], y.iloc[test]))
    means = {title: np.mean(rows, axis=0) for title, rows in found.items()}
    least = min(row[2] for row in found["default"])
    good = means["default"][0] <= limit and least > 0
    return {
        "data": name,
        **{title: f"{means[title][0]:.3f}" for title in TITLES},
        "least probability": f"{least:.1e}",
        "limit": f"{limit:g}",
        "within": "yes" if good else "**no**",
    }


def tables() -> Iterator[tuple[str, pd.DataFrame, np.ndarray, int]]:
    """Yield names, cells, classes and the number of rows to train on."""
    for K in (3, 4, 5, 6):
        for n in (300, 3000):
            yield f"generated, {K} classes", *generated(K, n + 10_000, K), n
    for K in (3, 5):
        yield f"ordered, {K} classes", *generated(K, 12_000, K, ordered=True), 2000
    X, _ = renyi.datasets.load("adult")
    order = np.random.default_rng(0).permutation(len(X))
    ages = pd.qcut(X["age"], 5, labels=False).to_numpy()
    cells = binned(X.drop(columns="age")).iloc[order]
    yield "adult, age in five bins", cells, ages[order], 4000


def generated(
    K: int, n: int, seed: int, ordered: bool = False
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table whose classes have logits that add up over the columns."""
    random = np.random.default_rng(seed)
    cells = random.integers(0, 4, (n, 8))
    points = random.normal(size=(8, 4, 1 if ordered else K))
    g = sum(points[j][cells[:, j]] for j in range(8))
    if ordered:
        places = np.arange(K) - (K - 1) / 2
        g = 3 * places * g / g.std() - 1.2 * places**2
    y = (g + random.gumbel(size=(n, K))).argmax(axis=1)
    names = [f"q{j}" for j in range(8)]
    return pd.DataFrame(cells.astype(str), columns=names), y


def _rare_classes() -> list[Section]:
    """Return log losses and calibration curves of tables with a rare class."""
    losses = []
    curves = []
    for name, share, parts in rare_tables():
        by_title: dict[str, list[np.ndarray]] = {}
        counts = []
        for train, test in parts:
            counts.append(int(train[1].sum()))
            for title, model in _rare_models().items():
                p = model.fit(*train).predict_proba(test[0])[:, 1]
                by_title.setdefault(title, []).append(np.stack([p, test[1]]))
        losses.append(_rare_row(name, share, counts, by_title))
        curves += _curves(name, share, by_title)
    return [
        Section(
            "A rare class",
            table=losses,
            notes=[
                "Mean log loss on other rows, and its ratio to that of logistic "
                f"regression. {RARE_SPLITS} random tables or splits, 70 % of a bundled "
                "set to train on; rare: rows of the rare class among those trained on, "
                f"on average. A bundled set is left out with fewer than {RARE_ROWS} of "
                "them. average: CrossFitClassifier(). within: the ratio is at most "
                f"{RARE_WITHIN}."
            ],
        ),
        Section(
            "A rare class: calibration curves",
            table=curves,
            notes=[
                "Rows by their probability of the rare class, in per cent: mean "
                "probability / share of the rare class, of all splits together. "
                "likeliest: as many rows as there are of the rare class. holds: the "
                "two differ there by at most 3 standard errors of a share, or by at "
                f"most {100 * CURVE:g} points."
            ],
        ),
    ]


def _rare_models() -> dict[str, Any]:
    return {
        "default": renyi.RenyiClassifier(),
        "average": renyi.CrossFitClassifier(),
        "objective='logistic'": renyi.RenyiClassifier(objective="logistic"),
        TITLES[-1]: tuned(),
    }


Table = tuple[pd.DataFrame, np.ndarray]


def rare_tables() -> Iterator[tuple[str, float, Iterator[tuple[Table, Table]]]]:
    """Yield names, shares of a class, and pairs of tables: to train on, and others."""
    for n in (1500, 6000):
        for share in SHARES:
            yield f"generated, {n:,} rows", share, _generated_rare(n, share)
    for name in ("votes", "credit", "kr-vs-kp", "adult"):
        for share in SHARES:
            y = renyi.datasets.load(name)[1]
            common = int(y.value_counts().max())
            if 0.7 * share / (1 - share) * common >= RARE_ROWS:
                yield name, share, _bundled_rare(name, share)


def _generated_rare(n: int, share: float) -> Iterator[tuple[Table, Table]]:
    """Yield tables of two classes whose log-odds add up over six columns."""
    for seed in range(RARE_SPLITS):
        random = np.random.default_rng(seed)
        cells = random.integers(0, 4, (n + 20_000, 6))
        points = random.normal(size=(6, 4))
        g = sum(points[j][cells[:, j]] for j in range(6)) * 2.5 / np.sqrt(6)
        g += random.logistic(size=len(g))
        y = (g > np.quantile(g, 1 - share)).astype(int)
        frame = pd.DataFrame(cells.astype(str), columns=[f"q{j}" for j in range(6)])
        yield (frame[:n], y[:n]), (frame[n:], y[n:])


def _bundled_rare(name: str, share: float) -> Iterator[tuple[Table, Table]]:
    """Yield splits of a set of which most rows of the rarer class are left out."""
    X, labels = renyi.datasets.load(name)
    y = (labels != labels.mode()[0]).to_numpy().astype(int)
    cells = binned(X)
    for seed in range(RARE_SPLITS):
        random = np.random.default_rng(seed)
        common = random.permutation(np.flatnonzero(y == 0))[:10_000]
        n_rare = round(share / (1 - share) * len(common))
        others = random.permutation(np.flatnonzero(y == 1))[:n_rare]
        order = random.permutation(np.concatenate([common, others]))
        cut = round(0.7 * len(order))
        parts = [(cells.iloc[rows], y[rows]) for rows in (order[:cut], order[cut:])]
        yield parts[0], parts[1]


def _rare_row(
    name: str, share: float, counts: list[int], by_title: dict[str, list[np.ndarray]]
) -> dict[str, str]:
    mean = {
        title: np.mean([_mean_loss(*split) for split in answers])
        for title, answers in by_title.items()
    }
    peer = mean[TITLES[-1]]
    ratios = {title: loss / peer for title, loss in mean.items()}
    shown = [title for title in mean if title != TITLES[-1]]
    good = {title: ratios[title] <= RARE_WITHIN for title in shown}
    return {
        "data": name,
        "share": f"{100 * share:g} %",
        "rare": f"{np.mean(counts):.0f}",
        TITLES[-1]: f"{peer:.4f}",
        **{title: f"{mean[title]:.4f}, {ratios[title]:.2f}" for title in shown},
        **{f"within, {title}": "yes" if good[title] else "**no**" for title in shown},
    }


def _mean_loss(p: np.ndarray, y: np.ndarray) -> float:
    own = np.where(y == 1, p, 1 - p)
    return float(-np.log(np.maximum(own, 1e-15)).mean())


def _curves(
    name: str, share: float, by_title: dict[str, list[np.ndarray]]
) -> Iterator[dict[str, str]]:
    """Yield the calibration curve of each of our models."""
    edges = [0.0, *ENDS, 1.0]
    heads = [f"to {100 * end:g}" for end in edges[1:]]
    for title, answers in by_title.items():
        if title == TITLES[-1]:
            continue
        p, y = np.hstack(answers)
        bins = np.digitize(p, ENDS)
        likeliest = np.hstack([_likeliest(*split) for split in answers])
        mean, seen = likeliest.mean(axis=1)
        error = np.sqrt(mean * (1 - mean) / likeliest.shape[1])
        yield {
            "data": name,
            "share": f"{100 * share:g} %",
            "model": title,
            **{
                head: _percent(p[bins == k], y[bins == k])
                for k, head in enumerate(heads)
            },
            "likeliest": _percent(*likeliest),
            "holds": "yes" if abs(mean - seen) <= max(3 * error, CURVE) else "**no**",
        }


def _likeliest(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the likeliest rows, as many as there are of the rare class."""
    top = np.argsort(-p, kind="stable")[: max(1, int(y.sum()))]
    return np.stack([p[top], y[top]])


def _percent(p: np.ndarray, y: np.ndarray) -> str:
    return f"{100 * p.mean():.1f} / {100 * y.mean():.1f}" if len(p) else "-"


def _row(name: str, X: pd.DataFrame, y: np.ndarray, n: int) -> dict[str, str]:
    found = {}
    for title, model in _models().items():
        model.fit(X.iloc[:n], y[:n])
        found[title] = log_loss(model, X.iloc[n : n + 10_000], y[n : n + 10_000])
    losses, errors, _ = zip(*found.values(), strict=True)
    good = losses[1] <= WITHIN * losses[2] and errors[1] <= WITHIN * errors[2]
    return {
        "data": name,
        "rows": f"{n:,}",
        **{f"{title}, log loss": f"{found[title][0]:.3f}" for title in TITLES},
        **{f"{title}, error %": f"{100 * found[title][1]:.1f}" for title in TITLES},
        "within 10 %": "yes" if good else "**no**",
    }


if __name__ == "__main__":
    run(
        "calibration", "Probabilities: log loss on held-out rows", benchmark, both=False
    )
