"""Releases and encoders from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from support.commandline import Done, save, votes


@pytest.fixture
def counts(good: Callable[..., Done]) -> renyi.Marginals:
    good("encoder", "build", "votes", "--out", "bins.json")
    good("marginals", "build", "votes", "--encoder", "bins.json", "--out", "v.renyi")
    return renyi.Marginals.load("v.renyi")


def test_an_encoder_file_has_columns_and_no_counts(
    good: Callable[..., Done], counts: renyi.Marginals
) -> None:
    document = json.loads(Path("bins.json").read_text())
    assert set(document) == {"format", "version", "checksum", "encoder"}
    encoder = renyi.Encoder.load("bins.json")
    assert encoder.columns == counts.columns
    assert counts == renyi.Marginals.from_file(
        renyi.datasets.path("votes"), target="party"
    )


def test_sites_share_an_encoder_whatever_the_order_of_their_columns(
    good: Callable[..., Done], bad: Callable[..., str], counts: renyi.Marginals
) -> None:
    frame = votes()
    save(frame[:200], "a.csv")
    save(frame[frame.columns[::-1]][200:], "b.csv")
    save(frame.drop(columns="crime"), "c.csv")
    for name in "ab":
        options = ("--target", "party", "--encoder", "bins.json")
        good("marginals", "build", f"{name}.csv", *options, "--out", f"{name}.renyi")
    good("marginals", "merge", "a.renyi", "b.renyi", "--out", "both.renyi")
    merged = renyi.Marginals.load("both.renyi")
    assert merged.select(counts.feature_names) == counts
    said = bad("marginals", "build", "c.csv", *options, "--out", "c.renyi")
    assert "'crime'" in said


def test_a_release_has_intervals_and_says_what_it_protects(
    good: Callable[..., Done], counts: renyi.Marginals
) -> None:
    made = ("--threshold", "10", "--round", "5", "--out", "out.renyi")
    undeclared = good("marginals", "release", "v.renyi", *made)
    assert "declare the categories (--encoder)" in undeclared.err
    kept = "Each of 475 hidden counts keeps every value from 0 to 9 (1 of them from 1"
    assert kept in " ".join(undeclared.out.split())
    made = (*made, "--encoder", "bins.json")
    done = good("marginals", "release", "v.renyi", *made)
    assert "note" not in done.err
    said = " ".join(done.out.split())
    assert "arithmetic protection" in said
    assert "Each of 475 hidden counts keeps every value from 0 to 9." in said
    assert (
        "fewer than 30 rows count as small, not only those with fewer than 20" in said
    )
    assert "from out.renyi: 433 to 437 rows" in good("fit", "out.renyi").out
    out = renyi.Marginals.load("out.renyi")
    assert (out.uncertainty.low <= counts.counts).all()
    assert (counts.counts <= out.uncertainty.high).all()
    public = renyi.Encoder.load("bins.json")
    assert out == renyi.release(counts, threshold=10, rounding=5, encoder=public)
    assert dict(out.provenance).keys() <= {"renyi"}
    hiding = ("--merge-below", "10", "--encoder", "bins.json")
    done = good("marginals", "release", "v.renyi", *hiding, *made[:2], *made[4:6])
    assert "None is small, so nothing is hidden." in done.out
    assert "What was merged or left out depends on the rows." in done.out


def test_a_coarser_release_than_was_asked_for_says_so(
    good: Callable[..., Done],
) -> None:
    random = np.random.default_rng(105)
    n = int(random.choice([80, 150, 300]))
    frame = pd.DataFrame(
        {
            name: random.choice(list("pqr"[:size]), n, p=random.dirichlet([0.7] * size))
            for name, size in (("a", 3), ("b", 3), ("y", 2))
        }
    )
    save(frame, "v.csv")
    options = ("--target", "y", "--out")
    good("encoder", "build", "v.csv", *options, "bins.json")
    good("marginals", "build", "v.csv", *options, "v.renyi")
    made = ("--encoder", "bins.json", "--threshold", "10", "--rounding", "2")
    done = good("marginals", "release", "v.renyi", *made, "--out", "out.renyi")
    assert "To protect them, the base is 4, not 2." in " ".join(done.out.split())
    known = renyi.Marginals.load("out.renyi").uncertainty
    assert known.n_high - known.n_low == 3  # four numbers of rows round alike


def test_a_private_release_says_what_it_spent(
    good: Callable[..., Done], bad: Callable[..., str], counts: renyi.Marginals
) -> None:
    cost = ("--epsilon", "1", "--delta", "1e-5", "--rows-per-person", "2")
    made = ("marginals", "release", "v.renyi", *cost, "--out", "out.renyi")
    said = good(*made, "--encoder", "bins.json").out
    assert "epsilon 1 at delta 1e-05, for 2 rows a person" in said
    budget = renyi.Marginals.load("out.renyi").uncertainty.budget
    assert (budget.epsilon, budget.delta, budget.rows_per_person) == (1.0, 1e-5, 2)
    assert "pass an encoder" in bad(*made)
    rows = f"about {renyi.Marginals.load('out.renyi').n:.0f} rows"
    assert f"from out.renyi: {rows}" in good("fit", "out.renyi").out
    both = ("marginals", "merge", "out.renyi", "v.renyi", "--out", "both.renyi")
    assert "or ask for the sum (--allow-mixed)" in bad(*both)
    done = good(*both, "--allow-mixed")
    assert "valid only if no person is in two of the files" in done.err
    assert renyi.Marginals.load("both.renyi").uncertainty.budget.exact_rows == 435


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--rule", "ons"), "--out is required"),
        (("--out", "o.renyi"), "--rule, --merge-below, --epsilon, --rho)"),
        (("--rounding", "5", "--out", "o.renyi"), "as well (--threshold)"),
        (("--rule", "ons", "--rho", "1", "--out", "o.renyi"), "--rule hides counts"),
        (("--rule", "ons", "--rows", "v.csv", "--out", "o.renyi"), "goes with --plan"),
        (("--rule", "ons", "--out", "o.csv"), "must end in .renyi"),
        (("--epsilon", "-1", "--out", "o.renyi"), "above 0"),
        (("--epsilon", "0", "--delta", "1e-5", "--out", "o.renyi"), "above 0"),
        (("--epsilon", "1", "--out", "o.renyi", "--encoder", "bins.json"), "Give one"),
        (("--rho", "1e-30", "--out", "o.renyi", "--encoder", "bins.json"), "not a use"),
        (("--rho", "1e300", "--out", "o.renyi", "--encoder", "bins.json"), "not a use"),
        (("--threshold", "4", "--rounding", "9", "--out", "o.renyi"), "above the thr"),
        (("--threshold", "4", "--rounding", "1", "--out", "o.renyi"), "exact counts"),
        (
            ("--rule", "ons", "--undeclared", "merge", "--out", "o.renyi"),
            "an encoder (--encoder)",
        ),
        (("--delta", "1", "--out", "o.renyi"), "between 0 and 1"),
        (("--threshold", "1", "--out", "o.renyi"), "at least 2"),
        (("--rule", "ons", "--encoder", "v.renyi", "--out", "o.renyi"), "v.renyi"),
    ],
)
def test_releases_that_cannot_be_made_write_nothing(
    bad: Callable[..., str],
    counts: renyi.Marginals,
    options: tuple[str, ...],
    problem: str,
) -> None:
    assert problem in bad("marginals", "release", "v.renyi", *options)
    assert not Path("o.renyi").exists()


def test_a_plan_compares_releases_and_writes_nothing(
    good: Callable[..., Done],
) -> None:
    frame = votes()
    save(frame[[*frame.columns[:4], "party"]], "v.csv")
    good("marginals", "build", "v.csv", "--target", "party", "--out", "v.renyi")
    before = sorted(Path().iterdir())
    plan = ("marginals", "release", "v.renyi", "--plan", "--rows", "v.csv")
    rows = json.loads(good(*plan, "--json").out)
    assert sorted(Path().iterdir()) == before
    names = [row["name"] for row in rows]
    assert names[0] == "exact counts"
    assert "below 10 hidden, rounded to 5" in names
    guarantees = [row["guarantee"] for row in rows]
    assert np.all(np.array(guarantees[1:], float) >= guarantees[0])
    assert all(row["error"] < 0.2 for row in rows)
    assert "do not publish it" in good(*plan).out


@pytest.mark.parametrize("how", [("--rule", "ons"), ("--rho", "1")])
def test_sites_with_labels_of_their_own_release_the_declared_ones(
    good: Callable[..., Done], bad: Callable[..., str], how: tuple[str, ...]
) -> None:
    frame = votes()[["crime", "immigration", "party"]]
    save(frame[:100].fillna("n"), "pilot.csv")
    options = ("--target", "party", "--encoder", "bins.json")
    good("encoder", "build", "pilot.csv", "--target", "party", "--out", "bins.json")
    names = []
    for k in range(2):
        own = frame[k::2].copy()
        own.iloc[:30, 0] = f"own-label-{k}"
        save(own, f"{k}.csv")
        good("marginals", "build", f"{k}.csv", *options, "--out", f"{k}.renyi")
        made = ("marginals", "release", f"{k}.renyi", *how, "--encoder", "bins.json")
        names.append(f"{k}-out.renyi")
        assert "is not declared" in bad(*made, "--out", names[-1])
        good(*made, "--undeclared", "merge", "--out", names[-1])
    good("marginals", "merge", *names, "--out", "both.renyi")
    both = renyi.Marginals.load("both.renyi")
    assert both.categories["crime"] == ("(rare)", "n", "y")
    assert not any(column.levels.rare for column in both.columns)
    assert both.n == pytest.approx(435, abs=60)  # noise of scale 1.2 on 48 cells
    good("fit", "both.renyi")


def test_five_sites_pool_their_releases(good: Callable[..., Done]) -> None:
    X, y = renyi.datasets.load("kr-vs-kp")
    columns = ["rimmx", "bxqsq", "wknck", "katri", "bkxbq", "wkpos"]
    frame = X[columns].assign(won=y).sample(frac=1, random_state=0)
    save(frame, "all.csv")
    good("encoder", "build", "all.csv", "--target", "won", "--out", "bins.json")
    names = []
    for k in range(5):
        save(frame[k::5], f"{k}.csv")
        options = ("--target", "won", "--encoder", "bins.json")
        good("marginals", "build", f"{k}.csv", *options, "--out", f"{k}.renyi")
        made = ("--rule", "ons", "--out", f"{k}-out.renyi")
        good("marginals", "release", f"{k}.renyi", *made)
        names.append(f"{k}-out.renyi")
    good("marginals", "build", "all.csv", *options, "--out", "all.renyi")
    exact = [name.replace("-out", "") for name in names]
    good("marginals", "merge", *exact, "--out", "exact.renyi")
    assert renyi.Marginals.load("exact.renyi") == renyi.Marginals.load("all.renyi")
    good("marginals", "merge", *names, "--out", "pooled.renyi")
    pooled = renyi.Marginals.load("pooled.renyi")
    truth = renyi.Marginals.load("all.renyi")
    assert (pooled.uncertainty.low <= truth.counts).all()
    assert (truth.counts <= pooled.uncertainty.high).all()
    good("fit", "pooled.renyi", "--rule", "sharp", "--out", "pooled")
    model = renyi.RenyiClassifier.load("pooled.json")
    bound = model.certificate_.bounds["sharp"]
    assert model.certificate_.basis == "intervals"
    assert renyi.certify(model.scorecard_, truth).bounds["sharp"] <= bound < 0.3
