"""The experiment genome: simulated people are what they should be, real ones known."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import genome
from renyi.genotypes.classifier import GenotypeClassifier
from renyi.genotypes.metrics import risk_measures


def copies_of(G):
    return np.array([2, 0, 1, 0])[G.codes()]


def test_mosaics_have_two_populations_and_linkage():
    G, y = genome.simulated("mosaic", 400, 3000, np.random.default_rng(0))
    x = copies_of(G) / 2
    shares = np.array([x[:, y == k].mean(axis=1) for k in range(2)])
    mean = shares.mean(axis=0)
    # Hudson's F_ST, of which 60 founding haplotypes add about 1/60 to what was asked.
    fst = ((shares[0] - shares[1]) ** 2).mean() / (2 * mean * (1 - mean)).mean()
    assert 0.5 * (0.007 + 1 / 60) < fst < 1.5 * (0.007 + 1 / 60)
    near = np.mean([np.corrcoef(x[j], x[j + 1])[0, 1] ** 2 for j in range(300)])
    far = np.mean([np.corrcoef(x[j], x[j + 1000])[0, 1] ** 2 for j in range(300)])
    assert near > 2 * far


def test_the_liability_has_its_heritability():
    rng = np.random.default_rng(1)
    G, population = genome.simulated("mosaic", 3000, 1500, rng)
    y, g, traits = genome._phenotype(G, population, rng)
    assert y.mean() == pytest.approx(0.5, abs=0.01)
    assert traits.shape == (3000, 2)
    found = risk_measures(g, y, prevalence=0.5).liability_r2
    assert found == pytest.approx(genome.HERITABILITY, abs=0.06)  # 3 standard errors


@pytest.mark.genotypes
@pytest.mark.parametrize(
    ("what", "variants", "wrong"), [("chromosome-1", 6_762, 2), ("all", 83_534, 1)]
)
def test_chinese_and_japanese_people_are_told_apart(what, variants, wrong):
    G, y, _ = genome._hapmap1(what)
    assert (G.n, G.d, y.sum()) == (89, variants, 44)
    assert GenotypeClassifier().fit(G, y).loo_error_ == pytest.approx(wrong / 89)


@pytest.mark.genotypes
def test_families_of_hapmap_3_stay_together():
    G, y, families = genome._hapmap3("LWK", "YRI")
    assert G.n == len(y) == len(families)
    assert len(np.unique(families)) < G.n
    assert all(len(set(y[families == f])) == 1 for f in np.unique(families))


def test_where_no_files_are_only_simulations_are_run(monkeypatch):
    monkeypatch.setattr(genome, "folder", lambda: None)
    monkeypatch.setattr(genome, "_PEOPLE", 12)
    settings = {"repetitions": 1, "samples": 60, "variants": 200, "seed": 0}
    results = {key: genome.work(key, settings) for key in genome.keys(settings)}
    assert {key for key, found in results.items() if found is not None} == {
        "simulated populations 0",
        "simulated case-control 0",
    }
    report = genome.report(results, settings)
    assert genome.FOLDER in report.notes[0]
    assert len(report.tables["Two populations"]) == 1
