"""(d) Once pairs are counted, rows no longer matter.

Choosing alpha among 50 values from the marginals of (b) costs less than counting them
did; training after counting takes the same time whatever the number of rows.
"""

from __future__ import annotations

from timing import Section, extra, faster, measure, run  # isort: skip

from functools import partial

import numpy as np
from peers import tall

import renyi
from renyi.counting.pair_counts import pair_counts


def benchmark() -> list[Section]:
    X, y = tall()
    auto = renyi.RenyiClassifier()
    m = renyi.Marginals.from_data(X, y)
    codes = np.vstack([X.T, y]).astype(np.uint8)
    sizes = [10] * 20 + [2]
    assert len(auto.fit_marginals(m).alpha_choice_.alphas) == 50
    choosing = "fit_marginals, alpha among 50 values"
    reading = "Marginals.from_data, int64"
    counting = "pair_counts alone, codes given"
    tasks = {
        choosing: partial(auto.fit_marginals, m),
        reading: partial(renyi.Marginals.from_data, X, y),
        counting: partial(pair_counts, codes, sizes),
    }
    timings = measure(tasks, 7)
    claims = [
        faster("choosing alpha is faster than counting", 1, choosing, [peer], timings)
        for peer in (reading, counting)
    ]
    claims[1].claim += ", the bare loop over encoded rows"
    title = f"1,000,000 x 20 x 10 categories, {extra()}"
    return [Section(title, timings, claims), _by_rows(X, y)]


def _by_rows(X: np.ndarray, y: np.ndarray) -> Section:
    sizes = (10_000, 100_000, 1_000_000)
    given, auto = renyi.RenyiClassifier(alpha=1e-3), renyi.RenyiClassifier()
    tables = {n: renyi.Marginals.from_data(X[:n], y[:n]) for n in sizes}
    timings = measure(
        {
            f"{how}, n = {n:,}": partial(model.fit_marginals, m)
            for how, model in (("alpha given", given), ("alpha='auto'", auto))
            for n, m in tables.items()
        },
        15,
    )
    best = [each.best for each in timings]
    notes = [
        f"a hundred times the rows take {best[2] / best[0]:.2f} times as long with "
        f"alpha given, {best[5] / best[3]:.2f} times with alpha='auto'."
    ]
    return Section(f"training after counting, {extra()}", timings, notes=notes)


if __name__ == "__main__":
    run("alpha", "(d) Choosing alpha, and training after counting", benchmark)
