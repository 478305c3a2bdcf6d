"""The minimax problem by cutting planes: votes, latent classes, kr-vs-kp, growth.

    python benchmarks/minimax_exact.py [--seeds 20] [--only PART] [--limit 120]

PART is votes, latent, kr-vs-kp or growth. Each part is written to the results as soon
as it is done; those of other parts stay.

Tables of latent classes have 2,000 rows, seed 0. The class y is 0 or 1 and the group is
one of four, all equally likely. Given both, the binary features are independent. The
probability of a feature for each class and group is uniform on [0, 1].
"""

from __future__ import annotations

from timing import RESULTS, Section, _section, write  # isort: skip

import argparse
import json
import resource
import statistics
import time
from typing import Any

import numpy as np
import pandas as pd

import renyi
from renyi.certificates.closed_form import closed_form
from renyi.progress import Progress

STEM, TITLE = "minimax_exact", "The minimax problem by cutting planes"
SIZES = (20, 30, 40)
GROWTH = (8, 12, 16, 20, 24, 30, 40)
NARROW = 0.005


def latent(d: int, n: int = 2000, groups: int = 4, seed: int = 0) -> renyi.Marginals:
    """Return marginals of a table of latent classes, with pairs within classes."""
    rng = np.random.default_rng(seed)
    y, group = rng.integers(0, 2, n), rng.integers(0, groups, n)
    p = rng.random((2, groups, d))[y, group]
    X = pd.DataFrame((rng.random((n, d)) < p).astype(int).astype(str)).add_prefix("x")
    label = pd.Series(y.astype(str), name="y")
    return renyi.Marginals.from_data(X, label, class_conditional=True)


def solve(m: renyi.Marginals, limit: float | None, seed: int = 0) -> dict[str, Any]:
    """Solve; return the result, its time, and a check of the exhibited distribution."""
    seen: list[tuple[Progress, float]] = []
    begun = time.process_time()
    result = renyi.minimax(
        m,
        method="exact",
        time_limit=limit,
        class_conditional=False,
        random_state=seed,
        progress=lambda p: seen.append((p, time.process_time() - begun)),
    )
    cpu = time.process_time() - begun
    narrow = [s for p, s in seen if (p.upper or 1.0) - (p.lower or 0.0) <= NARROW]
    last = seen[-1][0] if seen else Progress("none")
    return {
        "lower": f"{result.lower:.7f}",
        "upper": f"{result.upper:.7f}",
        "gap": f"{result.gap:.1e}",
        "status": f"{result.status}, {result.method}",
        "rounds": last.rounds,
        "cuts": last.cuts,
        f"CPU s to a gap of {NARROW}": f"{narrow[0]:.1f}" if narrow else "–",
        "CPU s": f"{cpu:.1f}",
        "wall s": f"{result.seconds:.1f}",
        "outcomes": len(result.worst_distribution or ()),
        "marginals off by": recheck(m, result),
    }


def recheck(
    m: renyi.Marginals, result: renyi.robust.minimax_problem.MinimaxResult
) -> str:
    """Return the distance of the exhibited distribution from the marginals."""
    if result.worst_distribution is None:
        return "–"
    frame = result.worst_distribution.frame()
    weights = frame.pop("probability").to_numpy()
    off = abs(weights.sum() - 1)
    names = [*m.feature_names, m.target]
    for i, first in enumerate(names):
        for second in names[:i]:
            given = m.block(first, second) / m.n
            levels = [texts(axis) for axis in (given.index, given.columns)]
            pair = [texts(frame[name]) for name in (first, second)]
            found = pd.Series(weights).groupby(pair).sum().unstack(fill_value=0.0)
            found = found.reindex(levels[0], columns=levels[1], fill_value=0.0)
            off = max(off, np.abs(found.to_numpy() - given.to_numpy()).max())
    return f"{off:.0e}"


def texts(labels: Any) -> np.ndarray:
    """Return labels as texts, including the missing one."""
    return np.array(["(missing)" if pd.isna(v) else str(v) for v in labels], object)


def promises(m: renyi.Marginals) -> dict[str, str]:
    """Return the guarantees of cheaper certificates."""
    clf = renyi.RenyiClassifier().fit_marginals(m)
    cantelli = closed_form(clf.scorecard_, clf.scorecard_.match(m)).conditional
    shown = {"2γ of the classifier": 2 * clf.certificate_.gamma}
    if cantelli is not None:
        shown["Cantelli of its map"] = cantelli
    return {name: f"{value:.7f}" for name, value in shown.items()}


def votes(seeds: int) -> Section:
    """Solve votes: 16 features, missing as a category, 86 million outcomes."""
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    rows = [{"seed": seed, **solve(m, None, seed)} for seed in range(seeds)]
    seconds = [float(row["CPU s"]) for row in rows]
    median, slowest = statistics.median(seconds), max(seconds)
    worst = max(float(row["gap"]) for row in rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    notes = [
        f"{seeds} seeds: largest gap {worst:.1e}; median {median:.1f} CPU s, slowest "
        f"{slowest:.1f}, {slowest / median:.2f} times the median.",
        f"Peak memory of the whole process {peak:.2f} GiB. {stamp()}",
    ]
    return Section("votes", table=rows, notes=notes)


def latent_classes(limit: float) -> Section:
    """Solve 20, 30 and 40 binary features, two minutes each."""
    rows = []
    for d in SIZES:
        m = latent(d)
        rows.append({"d": d, **promises(m), **solve(m, limit)})
    note = f"Time limit {limit:g} s each, by the wall. {stamp()}"
    return Section("latent", table=rows, notes=[note])


def kr_vs_kp(limit: float) -> Section:
    """Solve kr-vs-kp: 36 features, ten minutes."""
    X, y = renyi.datasets.load("kr-vs-kp")
    m = renyi.Marginals.from_data(X, y, class_conditional=True)
    bound = renyi.minimax(m, method="lp", class_conditional=False).upper
    row = {**promises(m), "polynomial program": f"{bound:.7f}", **solve(m, limit)}
    note = f"Time limit {limit:g} s, by the wall. {stamp()}"
    return Section("kr-vs-kp", table=[row], notes=[note])


def growth(limit: float) -> Section:
    """Solve latent classes with increasing numbers of features."""
    rows = [{"d": d, **solve(latent(d), limit)} for d in GROWTH]
    note = f"Time limit {limit:g} s each, by the wall. {stamp()}"
    return Section("growth", table=rows, notes=[note])


def stamp() -> str:
    """Return the date of a part; parts may be run on different days."""
    return f"Run on {time.strftime('%Y-%m-%d')}."


def known() -> dict[str, Section]:
    """Return the parts that were run before."""
    path = RESULTS / f"{STEM}.json"
    if not path.exists():
        return {}
    parts = [_section(data) for data in json.loads(path.read_text())["sections"]]
    return {part.title: part for part in parts}


def main() -> None:
    """Run the requested parts, and write each when it is done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="of votes")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for latent")
    parts = {
        "votes": lambda: votes(args.seeds),
        "latent": lambda: latent_classes(args.limit),
        "kr-vs-kp": lambda: kr_vs_kp(5 * args.limit),
        "growth": lambda: growth(args.limit),
    }
    parser.add_argument("--only", choices=list(parts), help="run one part")
    args = parser.parse_args()
    for name in [args.only] if args.only else list(parts):
        done = {**known(), name: parts[name]()}
        write(STEM, TITLE, [done[part] for part in parts if part in done])


if __name__ == "__main__":
    main()
