"""A study read in Python is the one that the command learns from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import renyi
from renyi.genotypes.files import Filters
from support.studies import save_study


@pytest.fixture
def files(run) -> dict[str, str]:
    """A study with covariates, of which two are missing, and groups."""
    path = save_study()
    rng = np.random.default_rng(1)
    ages = [*rng.integers(20, 60, 58).tolist(), "NA", "-9"]
    rows = [f"F{k // 2} I{k} {age}" for k, age in enumerate(ages)]
    Path("ages.txt").write_text("FID IID AGE\n" + "\n".join(rows) + "\n")
    return {"path": str(path), "covar": "ages.txt", "groups": "FID"}


def test_a_study_has_the_samples_that_have_everything(files):
    study = renyi.read_study(**files)
    assert study.genotypes.samples["iid"].tolist() == [f"I{k}" for k in range(58)]
    assert study.y.tolist() == [0] * 30 + [1] * 28
    assert study.classes == ("1", "2")
    assert study.covariates.columns.tolist() == ["AGE"]
    assert study.groups.tolist() == [f"F{k // 2}" for k in range(58)]
    assert "2 samples without all covariates left out." in study.log


def test_a_fit_to_a_study_is_that_of_the_command(good, files):
    study = renyi.read_study(**files, filters=Filters(maf=0.2))
    clf = renyi.GenotypeClassifier()
    clf.fit(study.genotypes, study.y, study.covariates, study.groups)
    words = ("--covar", "ages.txt", "--groups", "FID", "--maf", 0.2, "--json")
    facts = good("genotypes", "fit", files["path"], *words).json
    assert facts["alpha"] == clf.alpha_
    assert facts["loo_error"] == clf.loo_error_
    assert facts["auc"] == clf.metrics_.auc
    assert facts["log"] == study.log


def test_filters_that_leave_one_class_are_named(files):
    Path("some.txt").write_text("F0 I0\nF1 I2\n")
    with pytest.raises(ValueError, match="no sample of the class '2'"):
        renyi.read_study(**files, filters=Filters(keep="some.txt"))
