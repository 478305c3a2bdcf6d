"""Record the numbers that a change of the code must not change.

    python scripts/record_digits.py digits.json             write them down
    python scripts/record_digits.py --compare digits.json   compute and compare

The script records:

* for every bundled data set, the closed-form certificate and all points;
* the minimax error of votes, and the worst case of its model by linear programs;
* one 70/30 split of three data sets;
* a genotype model of a small generated study.

It uses only public names, so that it runs on older and newer code.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import renyi

DATASETS = ("votes", "credit", "kr-vs-kp", "promoters", "adult")
# The order in which the experiment of Table 1 numbers the data sets, for its seeds.
TABLE1 = ("adult", "kr-vs-kp", "promoters", "credit", "votes")
SPLITS = ("votes", "promoters", "credit")
RULES = ("map", "renyi", "sharp")


def certificate(name: str) -> dict:
    """Return certificate and points of a model of all rows of a data set."""
    X, y = renyi.datasets.load(name)
    model = renyi.RenyiClassifier().fit(X, y)
    certificate = model.certificate_
    return {
        "alpha": model.alpha_,
        "gamma": certificate.gamma,
        "bounds": dict(certificate.bounds),
        "loo_risk": certificate.loo_risk,
        "loo_error": certificate.loo_error,
        "intercept": model.intercept_,
        "points": model.z_,
    }


def minimax() -> dict:
    """Return minimax error and worst case of votes, by linear programs."""
    X, y = renyi.datasets.load("votes")
    model = renyi.RenyiClassifier().fit(X, y)
    solution = renyi.minimax(model.marginals_, method="lp")
    few = renyi.Marginals.from_data(X.iloc[:, 2:8], y)
    exact = renyi.minimax(few, method="exact")
    worst = renyi.worst_case(model, model.marginals_, method="lp")
    return {
        "upper": solution.upper,
        "lower": solution.lower,
        "worst case": worst.upper,
        "exact, six columns": [exact.lower, exact.upper],
    }


def split(name: str) -> dict:
    """Return errors and bounds of split 0 of the experiment of Table 1."""
    X, y = renyi.datasets.load(name)
    order = np.random.default_rng([0, TABLE1.index(name), 0]).permutation(len(X))
    cut = round(0.7 * len(X))
    train = order[:cut]
    test = order[cut:]
    results = {}
    for rule in RULES:
        model = renyi.RenyiClassifier(rule=rule, random_state=0)
        model.fit(X.iloc[train], y.iloc[train])
        own = np.searchsorted(model.classes_, y.iloc[test])
        right = model.rule_proba(X.iloc[test])[np.arange(len(test)), own]
        bound = model.certificate_.bounds[rule]
        results[rule] = {"error": 1 - right.mean(), "bound": bound}
    selector = renyi.RenyiSelector().fit(X.iloc[train], y.iloc[train])
    wrong = selector.predict(X.iloc[test]) != y.iloc[test].to_numpy()
    results["selector"] = {"error": wrong.mean()}
    return results


def genotypes() -> dict:
    """Return points and left-out scores of a generated study of 60 samples."""
    rng = np.random.default_rng(0)
    samples = 60
    case = np.arange(samples) >= samples // 2
    shares = np.where(case, 0.45, 0.3) * np.ones((40, 1))
    codes = np.array([3, 2, 0])[rng.binomial(2, shares)]
    codes[rng.random(codes.shape) < 0.05] = 1
    with tempfile.TemporaryDirectory() as folder:
        study = write_study(Path(folder), codes)
        table = renyi.read_genotypes(study)
        model = renyi.GenotypeClassifier().fit(table, case.astype(int))
        return {
            "alpha": model.alpha_,
            "points": model.points_,
            "left out": model.left_out_,
            "loo_error": model.loo_error_,
            "scores": model.decision_function(table),
        }


def write_study(folder: Path, codes: np.ndarray) -> Path:
    """Write codes of genotypes as .bed, .bim and .fam."""
    variants, samples = codes.shape
    quads = codes.reshape(variants, samples // 4, 4) << np.array([0, 2, 4, 6])
    packed = quads.sum(axis=2).astype(np.uint8)
    study = folder / "study.bed"
    study.write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    bim = [f"1\trs{k}\t0\t{1000 * k + 1}\tA\tG\n" for k in range(variants)]
    study.with_suffix(".bim").write_text("".join(bim))
    fam = [f"F{k} I{k} 0 0 1 1\n" for k in range(samples)]
    study.with_suffix(".fam").write_text("".join(fam))
    return study


def record() -> dict:
    """Compute everything, as plain values."""
    numbers = {
        "certificates": {name: certificate(name) for name in DATASETS},
        "minimax": minimax(),
        "table1": {name: split(name) for name in SPLITS},
        "genotypes": genotypes(),
    }
    return json.loads(json.dumps(numbers, default=lambda value: value.tolist()))


def differences(old: object, new: object, at: str = "") -> Iterator[str]:
    """Yield a line for every number that is not the same to 12 digits."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{at}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for k, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{at}/{k}")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-14):
            yield f"{at}: {old!r} became {new!r}"
    elif old != new:
        yield f"{at}: {old!r} became {new!r}"


def main() -> int:
    """Write the numbers, or compare them; return 1 when some differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--compare", action="store_true", help="FILE contains the old numbers"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    numbers = record()
    if not options.compare:
        options.file.write_text(json.dumps(numbers, indent=1) + "\n")
        return 0
    changed = list(differences(json.loads(options.file.read_text()), numbers))
    print("\n".join(changed) if changed else "All digits are the same.")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
