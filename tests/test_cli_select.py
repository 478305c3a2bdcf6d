"""The command select."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from commandline import Done, save, table, votes


def flat(text: str) -> str:
    return " ".join(text.split())


def test_path_selection_and_model(good: Callable[..., Done]) -> None:
    done = good("select", "votes", "--n-features", "3", "--out", "few")
    X, y = renyi.datasets.load("votes")
    known = renyi.RenyiSelector(n_features=3).fit(X, y)
    lines = done.out.splitlines()
    for k, row in known.path_.frame().iterrows():
        line = next(one for one in lines if f" {row['feature']} " in one)
        assert line.split()[0] == (f"{k}*" if k <= 3 else f"{k}")
        assert line.split()[-2:] == [f"{row['map']:.4f}", f"{row['sharp']:.4f}"]
    assert "Selected 3 of 16 features: the first 3 of the path, as asked" in done.out
    error = known.classifier_.alpha_choice_.error
    estimate = next(one for one in lines if "(leave-one-out" in one)
    assert estimate.endswith(f" {100 * error:.1f} %")
    assert "the features were selected on the same rows" in flat(done.out)
    again = renyi.RenyiClassifier.load("few.json")
    columns = again.feature_names_in_.tolist()
    assert set(columns) == set(known.features_)
    np.testing.assert_array_equal(again.predict(X[columns]), known.predict(X))
    assert renyi.Marginals.load("few.renyi").feature_names == tuple(columns)
    assert "command   renyi select votes" in Path("few.log").read_text()
    answers = good("predict", "few.json", "votes", "--json").json
    assert answers["rows"] == 435
    assert good("certify", "few.json", "few.renyi").code == 0


def test_cross_validation_is_told(good: Callable[..., Done]) -> None:
    done = good("select", "votes", "--json").json
    known = renyi.RenyiSelector().fit(*renyi.datasets.load("votes"))
    assert done["selected"] == known.features_.tolist()
    assert done["penalty"] == pytest.approx(known.penalty_)
    tried = done["cross_validation"]
    np.testing.assert_allclose(tried["risks"], known.cv_.risks, rtol=1e-6)
    assert len(done["path"]) == len(known.path_.entries)
    assert done["path"][0]["feature"] == "physician-fee-freeze"
    text = flat(good("select", "votes").out)
    assert f"5-fold cross-validation, {known.cv_.risks.min():.4f}, is the least" in text
    best = known.cv_.mistakes[known.cv_.risks.argmin()]
    assert f"{100 * best:.1f} % of the held-out rows" in text


def test_marginals_alone(good: Callable[..., Done]) -> None:
    good("marginals", "build", "votes", "--out", "v.renyi")
    done = good("select", "v.renyi", "--json").json
    known = renyi.RenyiSelector().fit_marginals(renyi.Marginals.load("v.renyi"))
    assert done["selected"] == known.features_.tolist()
    assert done["cross_validation"] is None and done["loo_error"] is None
    assert "by generalised cross-validation of the refit" in done["why"]


def test_penalty_and_certified_error(good: Callable[..., Done]) -> None:
    done = good("select", "votes", "--penalty", "0.3", "--json").json
    assert done["selected"] == ["physician-fee-freeze"]
    done = good("select", "votes", "--max-error", "0.14", "--json").json
    assert done["certificate"]["bounds"]["map"] <= 0.14
    assert "certified to err at most 14 %" in done["why"]


def test_pairs_of_columns(good: Callable[..., Done]) -> None:
    few = votes().iloc[:, [2, 3, 8, 10, 16]]
    place = save(few, "few.csv")
    options = ("--target", "party", "--order", "2", "--n-features", "2")
    done = good("select", place, *options, "--out", "pairs")
    X, y = renyi.datasets.load("votes")
    known = renyi.RenyiSelector(order=2, n_features=2).fit(X.iloc[:, [2, 3, 8, 10]], y)
    for name in known.features_:
        assert f"* {name[:40]}" in done.out
    columns = known.get_feature_names_out().tolist()
    assert f"They are made of {len(columns)} columns." in done.out
    answers = good("predict", "pairs.json", place, "--json").json
    expected = known.predict(X.iloc[:, [2, 3, 8, 10]]).tolist()
    assert [row["prediction"] for row in answers["answers"]] == expected


def test_encoder_options_as_in_fit(good: Callable[..., Done]) -> None:
    place = save(table(), "t.csv")
    options = ("--target", "y", "--id", "id", "--bins", "3", "--n-features", "1")
    done = good("select", place, *options, "--out", "m", "--json").json
    assert done["selected"] == ["colour"]
    assert {entry["feature"] for entry in done["path"]} <= {"colour", "size", "length"}
    assert renyi.RenyiClassifier.load("m.json").encoder_.bins == 3


def test_wide_tables_print_no_bare_bound(good: Callable[..., Done]) -> None:
    done = good("select", "promoters", "--n-features", "20", "--out", "p")
    row = next(one for one in done.out.splitlines() if one.startswith("  20*"))
    assert row.split()[-4:] == ["-"] * 4
    assert "errs at most" not in done.out


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib"
)
def test_plot(good: Callable[..., Done], bad: Callable[..., str]) -> None:
    good("select", "votes", "--n-features", "2", "--plot", "path.svg")
    first = Path("path.svg").read_bytes()
    assert first.startswith(b"<?xml") and b"number of features" in first
    good("select", "votes", "--n-features", "2", "--plot", "path.svg")
    assert Path("path.svg").read_bytes() == first
    assert "must end in .svg" in bad("select", "votes", "--plot", "path.txt")


def test_bad_input(good: Callable[..., Done], bad: Callable[..., str]) -> None:
    err = bad("select", "votes", "--n-features", "17")
    assert "n_features=17 is more than the 16 features there are" in err
    assert "number above 0, not '0'" in bad("select", "votes", "--penalty", "0")
    assert "not allowed with" in bad(
        "select", "votes", "--penalty", "1", "--n-features", "2"
    )
    err = bad("select", "votes", "--max-error", "0.001")
    assert "cannot be certified" in err
    good("marginals", "build", "votes", "--out", "v.renyi")
    assert "count with order=2" in bad("select", "v.renyi", "--order", "2")
    assert "is for tables" in bad("select", "v.renyi", "--bins", "3")
    lacking = pd.DataFrame({"x": ["a"] * 20, "y": ["p", "q"] * 10})
    place = save(lacking, "c.csv")
    assert "No usable column is left" in bad("select", place, "--target", "y")
