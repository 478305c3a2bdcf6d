r"""Why a figure differs from the paper's: learning curve, λ, oracle λ.

For a data set, on the random splits of the committed `table1`:

* the learning curve: error of δ̃map against the share of rows that train, tested on the
  same 10 % of the rows at every share;
* the λ chosen inside the training rows of each split, and two oracles from the test
  rows: the best single λ for all splits, and the best λ of each.

    python -m experiments.diagnose votes:20 credit:20 promoters:20 kr-vs-kp:10:5

(10 splits of kr-vs-kp at order 1, 5 at order 2, which takes longer; 10 if none are
named) writes ``experiments/results/diagnosis.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import renyi
from experiments import table1
from experiments.contenders import FIVE_BINS, Split, random_split
from experiments.pieces import made

RESULTS = Path(__file__).parent / "results"
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPLITS = 10
SEED = 1  # of the committed table 1
GRID = np.logspace(-5, 1, 13)


def error(split: Split, order: int, alpha: float | str = "auto") -> tuple[float, float]:
    """Return the test error of δ̃map and the λ it was trained with."""
    paper = renyi.RenyiClassifier(
        order=order, alpha=alpha, calibration=None, encoder=FIVE_BINS
    )
    clf = paper.fit(split.X, split.y)
    return float((clf.predict(split.X_test) != split.y_test).mean()), clf.alpha_


def learning_curve(name: str, order: int, splits: int) -> list[str]:
    """Return a row: mean error against the share of rows that train."""
    X, y = renyi.datasets.load(name)
    errors = np.empty((splits, len(SHARES)))
    for k in range(splits):
        whole = random_split(X, y, max(SHARES), [SEED, k])
        for j, share in enumerate(SHARES):
            n = round(share * len(X))
            part = whole._replace(X=whole.X.iloc[:n], y=whole.y.iloc[:n])
            errors[k, j] = error(part, order)[0]
    return [f"δ̃map, order {order}", str(splits), *map(shown, errors.T)]


def oracle(name: str, order: int, splits: int) -> list[str]:
    """Return a row: error at the chosen λ and at those of two oracles."""
    rows = [table1.split_of(f"{name} {k} all", SEED) for k in range(splits)]
    auto = np.array([error(split, order) for split in rows])
    table = np.array([[error(s, order, alpha)[0] for alpha in GRID] for s in rows])
    best = int(table.mean(axis=0).argmin())
    low, middle, high = np.quantile(auto[:, 1], [0, 0.5, 1])
    return [
        f"δ̃map, order {order}",
        str(splits),
        f"{middle:.2g} ({low:.2g} to {high:.2g})",
        shown(auto[:, 0]),
        f"{GRID[best]:.2g}",
        shown(table[:, best]),
        shown(table.min(axis=1)),
    ]


def shown(errors: NDArray[np.float64]) -> str:
    """Return the mean in percent, with its standard error."""
    percent = 100 * errors
    if len(percent) == 1:
        return f"{percent[0]:.1f}"
    spread = percent.std(ddof=1) / len(percent) ** 0.5
    return f"{percent.mean():.1f} ± {spread:.1f}"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def diagnosis(name: str, splits: dict[int, int]) -> str:
    """Return the section on a data set, with so many splits at each order."""
    shares, each = [f"{100 * share:.0f} %" for share in SHARES], [*splits.items()]
    heads = ["chosen λ", "error", "best λ", "its error", "best λ of each split"]
    parts = [
        f"## {name}",
        "Error in percent against the share of rows that train, tested on the same "
        "10 % of the rows:",
        table(
            ["", "splits", *shares], [learning_curve(name, *s) for s in splits.items()]
        ),
        "Error in percent on the splits of `table1`, with λ chosen inside the training "
        "rows and by two oracles that see the test rows: the λ of "
        f"{len(GRID)} from {GRID[0]:g} to {GRID[-1]:g} with the least mean error, and "
        "the best of each split:",
        table(["", "splits", *heads], [oracle(name, *s) for s in each]),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="+", metavar="NAME[:SPLITS[:SPLITS]]")
    parser.add_argument("--out", type=Path, default=RESULTS / "diagnosis.md")
    args = parser.parse_args()
    code = made()  # of the sources as they are now
    parts = [
        f"# Diagnosis\n\n`python -m experiments.diagnose {' '.join(args.datasets)}`"
    ]
    for word in args.datasets:
        name, *counts = word.split(":")
        first, *second = [int(count) for count in counts] or [SPLITS]
        parts.append(diagnosis(name, {1: first, 2: second[0] if second else first}))
    parts.append(f"Seed {SEED}. {code}")
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
