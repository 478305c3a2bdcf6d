"""Cross-fit certificates: how often they fail, and how wide they are.

    python benchmarks/crossfit.py coverage    # 2,000 runs a setting, an hour or more
    python benchmarks/crossfit.py widths      # and of a 50/50 hold-out, minutes

Populations are known outcome by outcome: two columns of labels, one of them with rare
ones, and a float that is binned inside the halves. A bound fails if the true error, a
sum over all outcomes, is larger. The widths are from 70/30 splits of the bundled sets.
They compare a bound from the training rows with that of the same classifier, trained on
half of them and bounded by the other half.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from renyi import CrossFitClassifier, RenyiClassifier, certify
from renyi.certificates.heldout import METHODS, clopper_pearson
from renyi.datasets import load

RESULTS = Path(__file__).parent / "results"
TITLES = {
    "coverage": "Share of runs in which a statement at 95 % failed, by rows, classes "
    "and order.",
    "widths": "Certificates at 95 % from the rows of 70/30 splits, in percent: "
    "of cross-fit models, and of one trained on half of the rows (hold-out). 2γ holds "
    "on every population with the pairs, map on the sampled one.",
}


class Population:
    """A distribution over outcomes of three columns and K classes."""

    def __init__(self, K, seed):
        rng = np.random.default_rng(seed)
        sizes = (6, 20, 3)
        cells = list(product(*map(range, sizes)))
        labels = np.array([f"l{k}" for k in range(6)], object)
        numbers = np.sort(rng.normal(size=20))
        self.X = pa.table(
            {
                "label": labels[[a for a, _, _ in cells]],
                "number": numbers[[b for _, b, _ in cells]],
                "other": [str(c) for _, _, c in cells],
            }
        )
        parts = [rng.dirichlet(np.full(k, 0.7)) for k in sizes]
        p = np.array([parts[0][a] * parts[1][b] * parts[2][c] for a, b, c in cells])
        effects = [rng.normal(size=(k, K)) * 1.2 for k in sizes]
        effects[1] = np.outer(numbers, rng.normal(size=K)) * 1.5
        logits = sum(
            effect[[cell[i] for cell in cells]] for i, effect in enumerate(effects)
        )
        logits += 0.6 * rng.normal(size=logits.shape)  # not additive
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.P = p[:, None] * shares / shares.sum(axis=1, keepdims=True)

    def sample(self, n, rng):
        """Draw rows that have at least two classes."""
        while True:
            cell = rng.choice(self.P.size, n, p=self.P.ravel())
            x, y = np.divmod(cell, self.P.shape[1])
            if len(np.unique(y)) > 1:
                return self.X.take(x), y

    def gamma(self, card, classes):
        """Return E‖t − e_Y‖²/2; a class that no row had has the estimate 0."""
        t = card.estimates(card.encoder.transform(self.X))
        squares = ((t[:, None, :] - np.eye(t.shape[1])) ** 2).sum(axis=2) / 2
        other = np.full(self.P.shape, ((t**2).sum(axis=1) / 2 + 0.5)[:, None])
        other[:, classes] = squares
        return (self.P * other).sum()


def simulate(n, K, order, runs, confidence=0.95, seed=0):
    """Count the failures of each statement in so many runs."""
    rng = np.random.default_rng([n, K, order, seed])
    names = [f"{method} {rule}" for method in METHODS for rule in ("map", "sharp")]
    failures = dict.fromkeys(["gamma", *names], 0)
    for run in range(runs):
        if run % 20 == 0:
            population = Population(K, rng.integers(2**32))
        X, y = population.sample(n, rng)
        known = np.unique(y)
        for name in names:
            method, rule = name.split()
            clf = RenyiClassifier(order=order, rule=rule)
            safe = CrossFitClassifier(clf, method, confidence, random_state=run)
            c = safe.fit(X, y).certificate_
            right = population.P[:, known] * safe.rule_proba(population.X)
            failures[name] += int(c.sampled_error < 1 - right.sum() - 1e-12)
            if name == "average map":
                gamma = population.gamma(safe.scorecard_, known)
                failures["gamma"] += int(c.gamma < gamma - 1e-12)
    return failures


def coverage(runs):
    settings = [
        *((n, K, 1) for n in (50, 200, 1000, 5000) for K in (2, 4)),
        *((n, K, 2) for n in (50, 500) for K in (2, 4)),
    ]
    place = RESULTS / "crossfit_coverage.json"
    held = json.loads(place.read_text()) if place.exists() else []
    done = {(row["n"], row["K"], row["order"]): row for row in held}
    done = {key: row for key, row in done.items() if row["runs"] == runs}
    for n, K, order in settings:
        if (n, K, order) in done:
            continue
        found = simulate(n, K, order, runs)
        shares = {name: count / runs for name, count in found.items()}
        row = {"n": n, "K": K, "order": order, "runs": runs, **shares}
        print(row, flush=True)
        done[n, K, order] = row
        write("coverage", [done[key] for key in settings if key in done])
    return [done[key] for key in settings]


def widths(splits):
    rows = []
    for name in ("votes", "credit", "kr-vs-kp", "promoters", "adult"):
        X, y = load(name)
        found = []
        for seed in range(splits if name != "adult" else max(1, splits // 4)):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = np.split(order, [int(0.7 * len(y))])
            A, a, B, b = X.iloc[train], y.iloc[train], X.iloc[test], y.iloc[test]
            found.append(_split(A, a, B, b, seed))
        mean = pd.DataFrame(found).mean().to_dict()
        rows.append({"data": name, "rows": int(0.7 * len(y)), **mean})
        print(
            {k: v if isinstance(v, str) else round(v, 4) for k, v in rows[-1].items()}
        )
    return rows


def _split(A, a, B, b, seed):
    """Return the bounds after training on A, and the errors on B, in percent."""
    whole = RenyiClassifier().fit(A, a)
    average = CrossFitClassifier(random_state=seed).fit(A, a)
    mixture = CrossFitClassifier(method="mixture", random_state=seed).fit(A, a)
    half = len(a) // 2
    part = RenyiClassifier().fit(A[:half], a[:half])
    held = certify(part, A[half:], a[half:])
    wrong = int((part.predict(A[half:]) != a[half:]).sum())
    errors = {"all rows": whole, "average": average, "half": part}
    shares = {
        f"error, {name}": np.mean(clf.predict(B) != b) for name, clf in errors.items()
    }
    mixed = mixture.rule_proba(B)[np.arange(len(b)), mixture.classes_.searchsorted(b)]
    return {
        **{name: 100 * share for name, share in shares.items()},
        "error, mixture": 100 * (1 - mixed.mean()),
        "in-sample 2γ": 100 * whole.certificate_.bounds["sharp"],
        "2γ, average": 100 * average.certificate_.bounds["sharp"],
        "2γ, hold-out": 100 * held.bounds["sharp"],
        "map, average": 100 * average.certificate_.sampled_error,
        "map, mixture": 100 * mixture.certificate_.sampled_error,
        "map, hold-out": 100 * clopper_pearson(wrong, len(a) - half, 0.95),
    }


def table(rows):
    """Return rows as a table of Markdown."""
    names = list(rows[0])

    def text(value):
        if isinstance(value, float):
            return f"{value:.1f}" if value > 1 else f"{value:.4f}"
        return str(value)

    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    lines += [" | ".join(text(row[name]) for name in names) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def write(what, rows):
    """Write the finished rows; a setting that was written is not run again."""
    place = RESULTS / f"crossfit_{what}.json"
    place.write_text(json.dumps(rows, indent=1) + "\n")
    place.with_suffix(".md").write_text(f"{TITLES[what]}\n\n{table(rows)}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("coverage", "widths"))
    parser.add_argument("--runs", type=int)
    args = parser.parse_args()
    rows = (
        coverage(args.runs or 2000)
        if args.what == "coverage"
        else widths(args.runs or 20)
    )
    write(args.what, rows)


if __name__ == "__main__":
    main()
