"""How much more an ideal attacker learns of hidden counts than arithmetic does.

Small random tables are released with hidden and rounded counts (`renyi.release`). For
each hidden count, an integer program over all data sets finds the values that some data
set within the published intervals has. Arithmetic protection says that all values below
the threshold remain possible.

The attacker knows the method. Data within the intervals have the same release at the
same level, but another level may be fine enough for them. So the data sets at both ends
of a hidden count are released again, and some others with the same value if that gives
another release. A value counts as confirmed if one of them has the same release.
"""

from __future__ import annotations

from timing import Section, write  # isort: skip  # before numpy

import argparse
import itertools

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from renyi.releases.protection import protected
from renyi.releases.suppression import HiddenCounts, Rule, published

SIZES = ((2, 2, 2), (2, 3, 2), (3, 3, 2), (2, 2, 2, 2), (2, 2, 3, 2))
ROWS = (40, 80, 200, 500)
RULES = {
    "below 10 hidden, rounded to 5": Rule(10, 5),
    "below 5 hidden, rounded to 5": Rule(5, 5),
}
TRIES = 100  # data sets with one value of a hidden count


def outcomes(sizes: tuple[int, ...]) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, sizes))))


def onehot(codes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    parts = [codes[:, [j]] == np.arange(size) for j, size in enumerate(sizes)]
    return np.hstack(parts).astype(np.int64)


class Attacker:
    """All data sets within the published intervals of one release."""

    def __init__(self, sizes: tuple[int, ...], known: HiddenCounts, rule: Rule) -> None:
        self.sizes = sizes
        self.rule = rule
        self.known = known
        self.W = onehot(outcomes(sizes), sizes)
        column = np.repeat(np.arange(len(sizes)), sizes)
        a, b = np.nonzero((column[:, None] < column) | np.eye(len(column), dtype=bool))
        self.cells = list(zip(a.tolist(), b.tolist(), strict=True))
        self.rows = np.vstack([(self.W[:, a] * self.W[:, b]).T, np.ones(len(self.W))])
        self.low = np.append(known.low[a, b], known.n_low).astype(float)
        self.high = np.append(known.high[a, b], known.n_high).astype(float)

    def rows_with(self, cost: np.ndarray, cell: int = -1, value: int = 0) -> np.ndarray:
        """Return the cheapest rows, of which a cell has a value if one is named."""
        low = self.low.copy()
        high = self.high.copy()
        if cell >= 0:
            low[cell] = high[cell] = value
        answer = milp(
            cost,
            constraints=LinearConstraint(self.rows, low, high),
            integrality=np.ones(len(self.W)),
            bounds=Bounds(0, np.inf),
        )
        assert answer.status == 0
        return np.round(answer.x).astype(np.int64)

    def same_release(self, rows: np.ndarray) -> bool:
        counts = (self.W.T * rows) @ self.W
        release, widths = protected(counts, int(rows.sum()), self.sizes, self.rule)
        if widths:
            return False
        again = published(release, self.sizes)
        same = np.array_equal(again.low, self.known.low)
        return same and np.array_equal(again.high, self.known.high)

    def confirmed(self, cell: int, rows: np.ndarray, seed: int) -> bool:
        """Return whether some rows with a value of a cell have the same release."""
        if self.same_release(rows):
            return True
        random = np.random.default_rng(seed)
        value = int(self.rows[cell] @ rows)
        costs = random.standard_normal((TRIES, len(rows)))
        return any(self.same_release(self.rows_with(c, cell, value)) for c in costs)

    def ends(self, cell: int, seed: int) -> tuple[int, int, bool]:
        """Return the ends of a hidden count, and whether both are confirmed."""
        most = self.rule.threshold - 1
        low = self.rows_with(self.rows[cell])
        high = self.rows_with(-self.rows[cell])
        least, largest = (int(self.rows[cell] @ rows) for rows in (low, high))
        if largest > most:
            largest = most
            high = self.rows_with(np.zeros(len(high)), cell, most)
        sure = self.confirmed(cell, low, seed) and self.confirmed(cell, high, seed)
        return least, largest, sure


def released(
    sizes: tuple[int, ...], n: int, seed: int, rule: Rule
) -> HiddenCounts | None:
    """Return a release as `renyi.release` makes it; None if it is refused."""
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(int(np.prod(sizes)), 0.5))
    W = onehot(outcomes(sizes), sizes)
    rows = random.multinomial(n, shares)
    release, widths = protected(W.T @ (rows[:, None] * W), n, sizes, rule)
    return None if widths else published(release, sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    tables = parser.parse_args().tables
    rows = []
    for name, rule in RULES.items():
        left: list[int] = []
        unsure = 0
        refused = 0
        for seed in range(tables):
            sizes = SIZES[seed % len(SIZES)]
            n = ROWS[seed // len(SIZES) % len(ROWS)]
            known = released(sizes, n, seed, rule)
            if known is None:
                refused += 1
                continue
            attacker = Attacker(sizes, known, rule)
            for k, cell in enumerate(attacker.cells):
                if known.hidden[cell]:
                    least, largest, sure = attacker.ends(k, seed)
                    left.append(largest - least + 1)
                    unsure += not sure
        fewer = [v for v in left if v < rule.threshold]
        many = max(1, len(left))
        rows.append(
            {
                "release": name,
                "tables": tables,
                "refused": refused,
                "hidden counts": len(left),
                "values by arithmetic": rule.threshold,
                "fewer by integer programs": f"{len(fewer)} "
                f"({100 * len(fewer) / many:.1f} %)",
                "fewest values": min(left, default=rule.threshold),
                "ends not confirmed": f"{unsure} ({100 * unsure / many:.1f} %)",
            }
        )
    notes = [
        "Tables of 3 or 4 columns with 40 to 500 rows; seeds from 0.",
        "An end is confirmed if data with this value were found whose release is the "
        "same, level included.",
    ]
    section = Section("Values of hidden counts that remain possible", table=rows)
    section.notes.extend(notes)
    write("attacker", "What an ideal attacker learns of hidden counts", [section])


if __name__ == "__main__":
    main()
