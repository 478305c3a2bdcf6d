"""How often Algorithm 1 and forward selection find the best k features, by γ_S.

For every k up to 10, on the five data sets (numbers binned), the first k features of
the path (`renyi.selection_path`), of `RenyiSelector` as it is, and of forward selection
without its ridge penalty are compared with

* the proved optimum (branch and bound) if there are at most 20 features;
* otherwise forward selection, which is not proved to be optimal.

    python -m experiments.best_subset                writes results/best_subset.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import renyi
from experiments.branch_and_bound import MOST_FEATURES, best_subset
from experiments.pieces import made
from renyi.solvers.forward_selection import forward, subset_value
from renyi.solvers.ridge import moments

HERE = Path(__file__).parent
SETS = ("votes", "credit", "adult", "kr-vs-kp", "promoters")
MOST = 10
EQUAL = 1e-7  # of γ: sets as good as the best count as the best


def compare(name: str, most: int = MOST) -> tuple[NDArray[Any], int]:
    """Return one row per k: γ of four sets.

    They are the path's, the selector's, that of forward selection without its penalty,
    and the best.
    """
    encoder = renyi.Encoder(bins=5)
    m = renyi.Marginals.from_data(*renyi.datasets.load(name), encoder=encoder)
    equations = moments(m.Q, m.F, m.class_probabilities, fit_intercept=True)
    sizes = m.encoder.columns.sizes
    path = renyi.selection_path(m)
    most = min(most, len(path.entries))
    greedy = forward(equations, sizes, most)
    default = renyi.RenyiSelector(n_features=most).fit_marginals(m).path_.places
    rows = []
    for k in range(1, most + 1):
        own = subset_value(equations, sizes, path.places[:k])
        usual = subset_value(equations, sizes, default[:k])
        best = greedy[k].value
        if len(sizes) <= MOST_FEATURES:
            best = best_subset(equations, sizes, k).value
        rows.append((k, own, usual, greedy[k].value, best))
    return np.array(rows), len(sizes)


def table(most: int = MOST, names: Sequence[str] = SETS) -> str:
    """Return the comparison of all sets as Markdown."""
    lines = [
        "| data set | features | compared with | k | Algorithm 1 as good | forward "
        "selection as good | without its penalty | largest excess of γ, Algorithm 1 "
        "| forward selection |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    details = []
    for name in names:
        rows, d = compare(name, most)
        exact = d <= MOST_FEATURES
        best = rows[:, -1]
        count = len(rows)
        path, usual, greedy = (
            f"{int((value <= best + EQUAL).sum())} of {count}" for value in rows.T[1:4]
        )
        excess, other = (f"{100 * (v / best - 1).max():.1f} %" for v in rows.T[1:3])
        against = "proven optimum" if exact else "forward selection without penalty"
        lines.append(
            f"| {name} | {d} | {against} | 1–{count} | {path} | {usual} "
            f"| {greedy if exact else '-'} | {excess} | {other} |"
        )
        details += [
            f"| {name} | {int(k)} | {a:.5f} | {u:.5f} | {g:.5f} | "
            + (f"{b:.5f} |" if exact else "- |")
            for k, a, u, g, b in rows
        ]
    head = [
        "| data set | k | Algorithm 1 | forward selection | without its penalty "
        "| best |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, "", "γ_S of each set:", "", *head, *details])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--datasets", nargs="+", default=SETS)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "best_subset.md")
    args = parser.parse_args()
    begun = time.process_time()
    text = table(args.most, args.datasets)
    took = time.process_time() - begun
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(
        "# How often each selection finds the best k features\n\n"
        "Made by `python -m experiments.best_subset`, in "
        f"{took:.0f} CPU seconds. A set counts as good as another if its γ_S is at "
        f"most {EQUAL:g} larger.\n\n{text}\n\n{made()}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
