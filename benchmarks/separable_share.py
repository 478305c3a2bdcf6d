"""The share of random joint tables that are separable, against d and m.

Separable marginals lose nothing by additive scores: gamma equals theta. The worst-case
error of the resulting rules is at most twice that of any rule. The paper says that such
tables have positive measure. This benchmark counts them, for d features of m categories
each and two classes. Tables are drawn uniformly from all joint tables, more sparsely,
with conditionals of strong additive log-odds, and from 100 rows. `renyi.separable` says
which of its three tests decided.
"""

from __future__ import annotations

from timing import Section, cpu_seconds, run  # isort: skip

from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import beta

import renyi
from renyi.datasets import random_joint, sample_joint

TABLES = 200
ROWS = 100
FEATURES = range(2, 7)
CATEGORIES = range(2, 5)
Draw = Callable[[tuple[int, ...], np.random.Generator], renyi.Separability]


def benchmark() -> list[Section]:
    uniform = _section(
        "All joint tables alike (Dirichlet, concentration 1)", _tables(1)
    )
    uniform.notes.append(_positive_measure(uniform))
    sparser = _section("Sparser tables (Dirichlet, concentration 0.1)", _tables(0.1))
    sparser.notes.append(
        "with d and m the cells behind each pair grow in number and their sums even "
        "out: scores come near 0, and C grows."
    )
    return [
        uniform,
        sparser,
        _section("Sparsest tables (Dirichlet, concentration 0.01)", _tables(0.01)),
        _section("Additive log-odds of deviation 2", _logistic),
        _section(
            f"Marginals of {ROWS} rows drawn from tables of concentration 1", _rows
        ),
    ]


def _tables(concentration: float) -> Draw:
    def decide(sizes: tuple[int, ...], rng: np.random.Generator) -> renyi.Separability:
        table = random_joint(sizes, concentration=concentration, random_state=rng)
        return renyi.separable(_marginals(table))

    return decide


def _logistic(sizes: tuple[int, ...], rng: np.random.Generator) -> renyi.Separability:
    return renyi.separable(
        _marginals(random_joint(sizes, kind="logistic", random_state=rng))
    )


def _rows(sizes: tuple[int, ...], rng: np.random.Generator) -> renyi.Separability:
    X, y = sample_joint(
        random_joint(sizes, concentration=1, random_state=rng), ROWS, random_state=rng
    )
    return renyi.separable(renyi.Marginals.from_data(X, y), X)


def _marginals(table: np.ndarray) -> renyi.Marginals:
    """Return marginals of a table: its outcomes as rows, weighted by probability."""
    *X, y = np.indices(table.shape).reshape(table.ndim, -1).astype(str)
    frame = pd.DataFrame({f"x{i}": column for i, column in enumerate(X)})
    return renyi.Marginals.from_data(frame, y, sample_weight=table.ravel())


def _section(title: str, decide: Draw) -> Section:
    section = Section(title)
    seconds = cpu_seconds(
        lambda: section.table.extend(
            _share(decide, d, m) for m in CATEGORIES for d in FEATURES
        )
    )
    section.notes.append(
        f"percent of {TABLES} tables in each row, two classes; {seconds:.0f} CPU s for "
        "all. Test (iii) decides whatever is left, since no table here has more than "
        "10,000 outcomes and classes; its answers stand up to 1e-7 in the estimates "
        "and in the probability outside."
    )
    return section


def _share(decide: Draw, d: int, m: int) -> dict[str, object]:
    seen: Counter[tuple[bool | None, str]] = Counter()
    for seed in range(TABLES):
        found = decide((m,) * d, np.random.default_rng([d, m, seed]))
        seen[found.answer, found.test] += 1
    good = sum(seen[True, test] for test in ("scores", "rows", "outcomes"))
    low, high = _interval(good)
    return {
        "m": m,
        "d": d,
        "separable": _percent(good),
        "95 % interval": f"{100 * low:.1f} to {100 * high:.1f}",
        "said by scores (i)": _percent(seen[True, "scores"]),
        "by rows (ii)": _percent(seen[True, "rows"]),
        "by outcomes (iii)": _percent(seen[True, "outcomes"]),
        "not separable": _percent(seen[False, "outcomes"]),
        "undecided": _percent(seen[None, "none"]),
    }


def _percent(count: int) -> str:
    return f"{100 * count / TABLES:.1f}"


def _interval(count: int) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson around the share of `count`."""
    low, high = beta.ppf(
        [0.025, 0.975], [count, count + 1], [TABLES - count + 1, TABLES - count]
    )
    return float(np.nan_to_num(low, nan=0.0)), float(np.nan_to_num(high, nan=1.0))


def _positive_measure(section: Section) -> str:
    """Return what the shares of uniform tables mean for the paper's remark."""
    least = min(section.table, key=lambda row: float(str(row["separable"])))
    return (
        "these tables are uniform on the simplex of all joint tables, so the share is "
        "the very measure of which the paper says that it is positive; the smallest is "
        f"{least['separable']} % (d = {least['d']}, m = {least['m']}; 95 % interval "
        f"{least['95 % interval']})."
    )


if __name__ == "__main__":
    title = "The share of random joint tables that are separable"
    run("separable_share", title, benchmark, both=False)
