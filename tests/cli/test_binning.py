"""Bins by the classes and edges of one's own, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import renyi
from renyi.certificates.text import OF_MERGED, SLIGHTLY_MORE
from renyi.cli import fit as command
from support.commandline import Done

MERGE = ("--binning", "supervised")


def people(n: int = 900) -> pd.DataFrame:
    r = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": r.integers(18, 80, n),
            "few": r.integers(0, 9, n),
            "dose": r.exponential(1, n).round(2),
            "sex": r.choice(["f", "m"], n),
        }
    )
    p = 0.1 + 0.6 * frame["age"].between(40, 59) + 0.2 * (frame["few"] > 4)
    return frame.assign(y=np.where(r.random(n) < p, "yes", "no"))


def categories(model: str, column: str) -> tuple[object, ...]:
    return renyi.RenyiClassifier.load(model).encoder_.categories[column]


def test_own_edges(good: Callable[..., Done]) -> None:
    people().to_csv("p.csv", index=False)
    own = ("--bins", "age=30,60", "--bins", "few=4,", "--bins", "dose=3")
    good("fit", "p.csv", "--target", "y", *own, "--out", "m")
    assert categories("m.json", "age") == ("up to 29", "30 to 59", "60 and more")
    assert categories("m.json", "few") == ("up to 3", "4 and more")
    assert len(categories("m.json", "dose")) == 3
    frame = people()
    bins = {"age": [30, 60], "few": [4], "dose": 3}
    clf = renyi.RenyiClassifier(encoder=renyi.Encoder(bins=bins))
    clf.fit(frame.drop(columns="y"), frame["y"])
    loaded = renyi.RenyiClassifier.load("m.json")
    assert loaded.encoder_.columns == clf.encoder_.columns
    np.testing.assert_allclose(loaded.z_, clf.z_, atol=1e-12)
    good("encoder", "build", "p.csv", "--target", "y", *own, "-o", "e.json")
    assert renyi.Encoder.load("e.json").categories["few"] == ("up to 3", "4 and more")


def test_the_classes_choose_the_bins(good: Callable[..., Done]) -> None:
    frame = people()
    frame.to_csv("p.csv", index=False)
    more = ("--monotone", "dose", "few=increasing", "--bins", "age=4")
    fit = good("fit", "p.csv", "--target", "y", *MERGE, *more, "--out", "m")
    assert "by ten-fold cross-validation" in fit.out
    monotone = {"dose": "auto", "few": "increasing"}
    encoder = renyi.Encoder(binning="supervised", bins={"age": 4}, monotone=monotone)
    clf = renyi.RenyiClassifier(encoder=encoder)
    clf.fit(frame.drop(columns="y"), frame["y"])
    loaded = renyi.RenyiClassifier.load("m.json")
    assert loaded.encoder_.columns == clf.encoder_.columns
    np.testing.assert_allclose(loaded.z_, clf.z_, atol=1e-12)
    assert renyi.Marginals.load("m.renyi") == clf.marginals_
    # Counts of fine bins are merged by the classes as rows are.
    how = ("--target", "y", "--out")
    good("marginals", "build", "p.csv", *how, "a.renyi", *MERGE, *more)
    good(
        "marginals",
        "build",
        "p.csv",
        *how,
        "b.renyi",
        "--bins",
        "64",
        "--numeric",
        "few",
    )
    good("fit", "a.renyi", "--out", "a")
    good("fit", "b.renyi", *MERGE, *more, "--out", "b")
    for name in ("age", "few", "dose"):
        edges = clf.encoder_.columns.named(name).levels.edges
        for model in ("a.json", "b.json"):
            other = renyi.RenyiClassifier.load(model).encoder_.columns.named(name)
            assert other.levels.edges == edges
    text = " ".join(good("fit", "a.renyi").out.split())
    assert f"merged the bins. {OF_MERGED}" in text  # no estimate to speak of
    every = " ".join(
        good("fit", "p.csv", *how[:2], "--order", "all", *MERGE).out.split()
    )
    assert f"merged the bins, {SLIGHTLY_MORE}" in every
    assert OF_MERGED not in every
    good("certify", "m.json", "a.renyi")
    good("predict", "m.json", "p.csv", "--out", "answers.csv")
    good("encoder", "build", "p.csv", "--target", "y", *MERGE, *more, "-o", "e.json")
    shared = renyi.Encoder.load("e.json")
    assert shared.categories["age"] == clf.encoder_.categories["age"]


def test_what_fit_says_to_verify_is_verified(good: Callable[..., Done]) -> None:
    X, y = renyi.datasets.load("credit")
    X.assign(y=y).to_csv("p.csv", index=False)
    good("marginals", "build", "p.csv", "--target", "y", *MERGE, "--out", "sup.renyi")
    fine = Path("sup.renyi").read_bytes()
    fit = good("fit", "sup.renyi", "--out", "m")
    assert "renyi verify m.json m.renyi" in " ".join(fit.out.split())
    good("verify", "m.json", "m.renyi")
    assert sum(renyi.Marginals.load("m.renyi").columns.sizes) < 100
    again = good("fit", "sup.renyi", "--out", "sup")
    assert "merged counts were not written" in " ".join(
        again.out.split() + again.err.split()
    )
    assert Path("sup.renyi").read_bytes() == fine
    good("fit", "sup.renyi", "--out", "n", "--no-marginals")
    assert not Path("n.renyi").exists()


def test_streams_and_rows_have_the_same_bins(tmp_path: Path) -> None:
    frame = people()
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_parquet(tmp_path / "p.parquet")
    X, y = frame.drop(columns="y"), frame["y"]
    for encoder in (
        renyi.Encoder(bins={"age": [30, 60], "few": [4], "dose": [0.5, 1]}),
        renyi.Encoder(binning="supervised", bins={"few": 3}, monotone=["dose"]),
        renyi.RenyiClassifier(encoder=renyi.Encoder(binning="supervised"))
        .fit(X, y)
        .encoder_.settings(),
    ):
        rows = renyi.Marginals.from_data(X, y, encoder=encoder)
        for name in ("p.csv", "p.parquet"):
            m = renyi.Marginals.from_file(tmp_path / name, target="y", encoder=encoder)
            assert m == rows and m.settings == rows.settings
        m = renyi.Marginals.from_arrow(frame, target="y", encoder=encoder)
        assert m == rows and m.settings == rows.settings


def test_of_many_rows_the_counts_are_of_merged_bins(
    good: Callable[..., Done], monkeypatch: object
) -> None:
    people().to_csv("p.csv", index=False)
    whole = good("fit", "p.csv", "--target", "y", *MERGE, "--out", "m", "--json").json
    monkeypatch.setattr(command, "SAMPLE", 100)
    counts = good("fit", "p.csv", "--target", "y", *MERGE, "--out", "c", "--json").json
    for name in ("age", "dose", "sex"):
        assert categories("c.json", name) == categories("m.json", name)
    assert counts["alpha"] == whole["alpha"]
    assert "merged-bins" in counts["certificate"]["warning_codes"]
    assert renyi.Marginals.load("c.renyi") == renyi.Marginals.load("m.renyi")
    pairs = ("--order", "2", "--out", "o")
    good("fit", "p.csv", "--target", "y", *MERGE, *pairs)
    assert renyi.RenyiClassifier.load("o.json").order == 2


def test_held_out_rows_do_not_choose_bins(good: Callable[..., Done]) -> None:
    frame = people()
    frame.to_csv("p.csv", index=False)
    how = ("--target", "y", *MERGE, "--confidence", "0.9", "--out")
    good("fit", "p.csv", *how, "m")
    from renyi.sources.run import Split

    heldout = Split(0.3, 0).heldout(0, 0, len(frame))
    frame.loc[heldout, "age"] = 18
    frame.to_csv("p.csv", index=False)
    good("fit", "p.csv", *how, "n")
    assert categories("m.json", "age") == categories("n.json", "age")


def test_options_that_are_wrong(bad: Callable[..., str]) -> None:
    people().to_csv("p.csv", index=False)
    fit = ("fit", "p.csv", "--target", "y")
    for options, words in [
        (("--bins", "age=x,3"), "a column with edges such as age=18,30,65"),
        (("--bins", "age=60,30"), "--bins gives column 'age' the edges"),
        (("--bins", "old=30,60"), "--bins names 'old', which is not a column"),
        (("--bins", "sex=1,2"), "Column 'sex' is numeric but holds 'f'"),
        (("--bins", "4", "--bins", "age=3"), "leave one of them out"),
        (("--monotone", "age"), "use --binning supervised with a monotone column"),
        ((*MERGE, "--monotone", "old"), "--monotone names 'old'"),
    ]:
        assert words in bad(*fit, *options), options
    Path("p.csv").unlink()
