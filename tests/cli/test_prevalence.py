"""Rankings and other shares of two classes on the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals, RenyiClassifier, certify
from renyi.cli import main
from support.commandline import votes


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(place, capsys):
    votes().to_csv("v.csv", index=False)
    words = ["--target", "party", "--class-conditional", "--objective", "ranking"]
    assert main(["fit", "v.csv", *words, "--out", "v"]) == 0
    capsys.readouterr()
    return RenyiClassifier.load("v.json")


def test_fit_keeps_a_ranking(model):
    m = Marginals.load("v.renyi")
    again = RenyiClassifier(objective="ranking", alpha=model.alpha_).fit_marginals(m)
    assert model.objective == "ranking"
    assert np.allclose(model.z_, again.z_)


def test_a_streamed_ranking_is_that_of_rows(model):
    words = ["--target", "party", "--objective", "ranking", "--where", "party <> ''"]
    assert main(["fit", "v.csv", *words, "--out", "w"]) == 0
    assert np.allclose(RenyiClassifier.load("w.json").z_, model.z_)


@pytest.mark.parametrize("level", [(), ("--level", "lp")])
def test_certify_tells_of_a_prevalence(model, capsys, level):
    words = ["certify", "v.json", "v.renyi", *level, "--prevalence", "0.01"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["prevalence"]
    c = certify(model, Marginals.load("v.renyi"))
    assert found["class"] == "republican"
    assert found["error"] == c.error_at(0.01)
    assert found["error_if_moved"] == c.error_at(0.01, model.threshold(0.01))
    if level:  # seconds
        return
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "If 1 % of a population are 'republican', rule map is wrong on" in said


def test_predict_moves_its_answers(model, capsys):
    words = ["--prevalence", "0.01", "--proba", "--out", "a.parquet"]
    assert main(["predict", "v.json", "v.csv", *words]) == 0
    X, found = votes().drop(columns="party"), pd.read_parquet("a.parquet")
    proba = found[["proba_democrat", "proba_republican"]]
    assert np.allclose(proba, model.predict_proba(X, 0.01))
    assert (found["prediction"] == model.predict(X, 0.01)).all()
    said = capsys.readouterr().err
    assert "their own shares of classes, not at 0.01" in said
    assert "1 % are 'republican'" in said  # which class it is of


@pytest.mark.parametrize(
    "words",
    [
        ["certify", "v.json", "v.renyi", "--prevalence", "1"],
        ["certify", "v.json", "--rows", "v.csv", "--prevalence", "0.1"],
        ["certify", "--halves", "v.renyi", "v.renyi", "--prevalence", "0.1"],
        ["certify", "three.json", "three.renyi", "--prevalence", "0.1"],
        ["predict", "v.json", "v.csv", "--prevalence", "0"],
        ["predict", "three.json", "three.csv", "--prevalence", "0.1"],
        ["fit", "three.csv", "--target", "party", "--objective", "ranking"],
        ["fit", "v.csv", "--target", "party", "--objective", "ranking"]
        + ["--class-weight", "balanced"],
    ],
)
def test_what_has_no_meaning_is_refused(model, capsys, words):
    if "three" in "".join(words):
        frame = votes().assign(party=np.arange(435) % 3)
        frame.to_csv("three.csv", index=False)
        assert main(["fit", "three.csv", "--target", "party", "--out", "three"]) == 0
        capsys.readouterr()
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    assert code == 2
    error = capsys.readouterr().err
    assert "--prevalence" in error or "--objective" in error


def test_models_of_more_classes_are_named(capsys):
    frame = pd.DataFrame({"a": list("xyz") * 20, "k": list("pqrp") * 15})
    frame.to_csv("k.csv", index=False)
    assert main(["fit", "k.csv", "--target", "k", "--out", "k"]) == 0
    assert main(["certify", "k.json", "k.renyi", "--prevalence", "0.1"]) == 2
    assert "k.json has 3" in capsys.readouterr().err
