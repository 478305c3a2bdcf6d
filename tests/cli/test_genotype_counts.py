"""renyi fit --genotype-counts: a model of counts, with pairs from a panel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from renyi.exports.score_files import GenotypeScores
from support.studies import codes, save_study


def save_counts(path="counts.tsv", swapped=False, n=400, **changes):
    """Counts of other people than the panel's; the first half of them are controls."""
    table = codes(n=n, seed=0)
    bim = pd.read_csv("panel.bim", sep=r"\s+", header=None, dtype=str)
    rows = {"ID": bim[1], "A1": bim[4], "A2": bim[5]}
    order = [("A1A1", 0), ("A1A2", 2), ("A2A2", 3)]
    for group, some in (("CASE", table[:, n // 2 :]), ("CONTROL", table[:, : n // 2])):
        for name, code in order:
            rows[f"{group}_{name}"] = (some == code).sum(axis=1)
    frame = pd.DataFrame(rows).assign(**changes)
    if swapped:
        names = {"A1": "A2", "A2": "A1"}
        for group in ("CASE", "CONTROL"):
            names |= {
                f"{group}_A1A1": f"{group}_A2A2",
                f"{group}_A2A2": f"{group}_A1A1",
            }
        frame = frame.rename(columns=names)
    frame.to_csv(path, sep="\t", index=False)
    return path


@pytest.fixture
def panel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = codes(n=400, seed=0)  # the same shares of genotypes
    return save_study("panel", table[:, ::2])


def fit(run, *argv):
    return run(
        "fit", "--genotype-counts", "counts.tsv", "--ld-panel", "panel.bed", *argv
    )


def test_a_model_of_counts_tells_cases(good, panel):
    save_counts()
    facts = fit(good, "--out", "run1", "--json").json
    assert facts["cases"] > 150
    assert facts["variants"] == 40
    assert facts["risk"] < 0.23  # of 0.25 without
    assert facts["gamma"] > facts["certificate"]["estimate"]
    found = good("predict", "run1.json", "panel.bed", "--json").json
    answers = pd.DataFrame(found["answers"])
    truth = np.repeat(["control", "case"], 100)
    assert (answers["prediction"] == truth).mean() > 0.7
    text = fit(good).out
    assert "panel" in text
    assert "confidence 95 %" in text


def test_a_panel_without_variation_or_with_missing_calls(good, bad, panel):
    save_counts()
    assert "missing calls; the bound holds if" in " ".join(fit(good).out.split())
    save_study("panel", np.full((40, 60), 3))
    none = {f"{g}_{k}": 0 for g in ("CASE", "CONTROL") for k in ("A1A1", "A1A2")}
    save_counts(**none, CASE_A2A2=50, CONTROL_A2A2=50)
    assert "panel.bed differs" in fit(bad)


def test_haploid_calls_of_a_panel_are_left_out(good, panel):
    save_counts()
    save_study("panel", codes(n=400)[:, ::2], chromosomes=["1"] * 38 + ["Y", "MT"])
    facts = fit(good, "--json").json
    assert facts["variants"] == 38
    assert "2 variants of Y and MT" in facts["notes"][0]


def test_the_header_of_counts_may_begin_as_that_of_a_pvar_file(good, panel):
    save_counts()
    frame = pd.read_csv("counts.tsv", sep="\t", dtype=str)
    bim = pd.read_csv("panel.bim", sep="\t", header=None, dtype=str)
    frame.insert(0, "#CHROM", bim[0])
    frame["POS"], frame["ID"] = bim[3], "."
    frame.to_csv("counts.tsv", sep="\t", index=False)
    assert fit(good, "--json").json["variants"] == 40


def test_swapped_alleles_give_the_same_model(good, panel):
    save_counts()
    fit(good, "--out", "a")
    save_counts(swapped=True)
    fit(good, "--out", "b")
    one, other = (GenotypeScores.load(f"{name}.json") for name in "ab")
    np.testing.assert_allclose(one.points, other.points, rtol=1e-9, atol=1e-12)


def test_cases_that_were_sampled_more_often_do_not_contradict_the_panel(
    good, bad, panel
):
    """The panel is of the population, in which cases are as rare as is stated."""
    table = codes(n=400, seed=0)
    cases, controls = table[:, 200:].copy(), table[:, :200].copy()
    cases[0], controls[0] = np.repeat([0, 2, 3], [130, 60, 10]), controls[1]
    save_study("panel", np.hstack([controls] * 19 + [cases])[:, ::10])
    names = [f"{g}_{a}" for g in ("CASE", "CONTROL") for a in ("A1A1", "A1A2", "A2A2")]
    both = [(g == c).sum(axis=1) for g in (cases, controls) for c in (0, 2, 3)]
    save_counts(**dict(zip(names, both, strict=True)))
    assert fit(good, "--prevalence", 0.05, "--json").json["variants"] == 40
    assert "contradict each other at" in fit(bad)  # as many cases as controls


def test_a_panel_that_contradicts_the_counts_is_refused_by_its_variants(bad, panel):
    names = [f"{g}_{k}" for g in ("CASE", "CONTROL") for k in ("A1A1", "A1A2", "A2A2")]
    changes = {name: 200 if name.endswith("A1A1") else 1 for name in names}
    save_counts(**changes)
    message = fit(bad)
    assert "contradict" in message
    ids = pd.read_csv("panel.bim", sep=r"\s+", header=None)[1].astype(str)
    assert sum(name in message for name in ids) >= 2


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"CASE_A1A1": -1}, "negative"),
        ({"CASE_A1A1": 0, "CASE_A1A2": 0, "CASE_A2A2": 0}, "no counts"),
        ({"CASE_A1A1": "many"}, "many"),
        ({"CASE_A1A1": 5 * 10**18, "CASE_A1A2": 5 * 10**18}, "a count above"),
        ({"ID": [f"x{k}" for k in range(40)]}, "No variant"),
    ],
)
def test_bad_counts_are_refused_in_words(bad, panel, changes, word):
    save_counts(**changes)
    assert word in fit(bad)


def test_options_that_do_not_go_with_counts(bad, panel):
    save_counts()
    assert "--ld-panel" in bad("fit", "--genotype-counts", "counts.tsv")
    assert "--target" in fit(bad, "--target", "x")
    assert "--pheno" in fit(bad, "--pheno", "x")
    assert "panel.bed" in fit(bad, "panel.bed")
    assert "--missing" in fit(bad, "--missing", "category")
    assert "--alpha 1e-300" in fit(bad, "--alpha", "1e-300")
    Path("counts.tsv").write_text("ID\tA1\n")
    assert "A2" in fit(bad)
    Path("counts.tsv").write_bytes(b"ID\tA1\xff\nr\tA\n")
    assert "UTF-8" in fit(bad)
