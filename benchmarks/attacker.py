"""How much more an ideal attacker learns of hidden counts than arithmetic does.

Small random tables are released with hidden and rounded counts (`renyi.release`). For
each hidden count, an integer program over all data sets finds the values that some data
set with this release has. Arithmetic protection says that all values below the
threshold remain possible.
"""

from __future__ import annotations

from timing import Section, write  # isort: skip  # before numpy

import argparse
import itertools

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from renyi.releases.protection import narrow
from renyi.releases.suppression import HiddenCounts, Rule, hidden_counts, wider_at

SIZES = ((2, 2, 2), (2, 3, 2), (3, 3, 2), (2, 2, 2, 2), (2, 2, 3, 2))
ROWS = (40, 80, 200, 500)
RULES = {"below 10 hidden, rounded to 5": Rule(10, 5), "below 5 hidden": Rule(5, 1)}


def outcomes(sizes: tuple[int, ...]) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, sizes))))


def onehot(codes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    parts = [codes[:, [j]] == np.arange(size) for j, size in enumerate(sizes)]
    return np.hstack(parts).astype(np.int64)


def release(
    sizes: tuple[int, ...], n: int, seed: int, rule: Rule
) -> HiddenCounts | None:
    """Return a release as `renyi.release` makes it; None if it is refused."""
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(int(np.prod(sizes)), 0.5))
    W = onehot(outcomes(sizes), sizes)
    rows = random.multinomial(n, shares)
    counts = hidden_counts(W.T @ (rows[:, None] * W), n, sizes, rule)
    for _ in range(6):
        widths = narrow(counts, sizes, rule.threshold)
        if not widths:
            return counts
        places = [(width.first, width.second) for width in widths]
        counts = wider_at(counts, places, sizes, rule)
    return None


def values_left(counts: HiddenCounts, sizes: tuple[int, ...], rule: Rule) -> list[int]:
    """Return for each hidden count how many values below the threshold are possible."""
    W = onehot(outcomes(sizes), sizes)
    column = np.repeat(np.arange(len(sizes)), sizes)
    D = len(column)
    cells = [(a, b) for a in range(D) for b in range(a, D)]
    cells = [(a, b) for a, b in cells if a == b or column[a] != column[b]]
    rows = np.array([W[:, a] * W[:, b] for a, b in cells] + [np.ones(len(W))])
    low = [counts.low[cell] for cell in cells] + [counts.n_low]
    high = [counts.high[cell] for cell in cells] + [counts.n_high]
    constraints = LinearConstraint(rows, low, high)
    out = []
    for (a, b), row in zip(cells, rows[:-1], strict=True):
        if not counts.hidden[a, b]:
            continue
        ends = []
        for sign in (1, -1):
            answer = milp(
                sign * row,
                constraints=constraints,
                integrality=np.ones(len(W)),
                bounds=Bounds(0, np.inf),
            )
            assert answer.status == 0
            ends.append(round(float(sign * answer.fun)))
        out.append(min(ends[1], rule.threshold - 1) - ends[0] + 1)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    tables = parser.parse_args().tables
    rows = []
    for name, rule in RULES.items():
        left: list[int] = []
        refused = 0
        for seed in range(tables):
            sizes = SIZES[seed % len(SIZES)]
            n = ROWS[seed // len(SIZES) % len(ROWS)]
            counts = release(sizes, n, seed, rule)
            if counts is None:
                refused += 1
                continue
            left += values_left(counts, sizes, rule)
        fewer = [v for v in left if v < rule.threshold]
        rows.append(
            {
                "release": name,
                "tables": tables,
                "refused": refused,
                "hidden counts": len(left),
                "values by arithmetic": rule.threshold,
                "fewer by integer programs": f"{len(fewer)} "
                f"({100 * len(fewer) / max(1, len(left)):.1f} %)",
                "fewest values": min(left, default=rule.threshold),
            }
        )
    notes = ["Tables of 3 or 4 columns with 40 to 500 rows; seeds from 0."]
    section = Section("Values of hidden counts that remain possible", table=rows)
    section.notes.extend(notes)
    write("attacker", "What an ideal attacker learns of hidden counts", [section])


if __name__ == "__main__":
    main()
