"""adult at five sites, by command line only: exact counts, and releases of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import renyi
from renyi.marginals.uncertainty import Intervals
from support.commandline import Done

SITES = range(5)
Run = Callable[..., Done]


def answers(good: Run, model: str, name: str) -> pd.Series:
    """Return the answers of a model to the test rows, by `renyi predict`."""
    good("predict", model, "test.csv", "--out", name)
    return pd.read_csv(name).iloc[:, -1]


@pytest.mark.long
def test_adult_at_five_sites(
    good: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = renyi.datasets.load("adult")
    rows = X.drop(columns="fnlwgt").assign(income=y)
    rows = rows.sample(frac=1, random_state=0)
    rows[:36_000].to_csv("train.csv", index=False)
    rows[36_000:].to_csv("test.csv", index=False)
    truth = rows["income"][36_000:].to_numpy()
    target = ("--target", "income")
    good("encoder", "build", "train.csv", *target, "--out", "bins.json")
    built = ("--encoder", "bins.json")
    files = [f"site{k}" for k in SITES]
    for k, name in zip(SITES, files, strict=True):
        rows[k * 7_200 : (k + 1) * 7_200].to_csv(f"{name}.csv", index=False)
        exact = f"{name}.renyi"
        good("marginals", "build", f"{name}.csv", *target, *built, "--out", exact)
        release = ("--rule", "ons", *built, "--out", f"{name}-out.renyi")
        good("marginals", "release", exact, *release)
    good("marginals", "build", "train.csv", *target, *built, "--out", "all.renyi")
    exact = [f"{name}.renyi" for name in files]
    good("marginals", "merge", *exact, "--out", "pooled.renyi")
    pooled = renyi.Marginals.load("pooled.renyi")
    assert (pooled.counts == renyi.Marginals.load("all.renyi").counts).all()
    released = [f"{name}-out.renyi" for name in files]
    good("marginals", "merge", *released, "--out", "hidden.renyi")
    hidden = renyi.Marginals.load("hidden.renyi")
    assert isinstance(hidden.uncertainty, Intervals)
    assert (hidden.uncertainty.low <= pooled.counts).all()
    assert (pooled.counts <= hidden.uncertainty.high).all()
    good("fit", "pooled.renyi", "--out", "pooled")
    good("fit", "hidden.renyi", "--out", "hidden")
    errors = [
        (answers(good, f"{name}.json", f"{name}.csv").to_numpy() != truth).mean()
        for name in ("pooled", "hidden")
    ]
    assert errors[1] <= errors[0] + 0.005
    model = renyi.RenyiClassifier.load("hidden.json")
    true = renyi.certify(model, pooled)
    assert true.gamma <= model.certificate_.gamma
    assert true.bounds["map"] <= model.certificate_.bounds["map"]
