"""`renyi verify`, and `--proof` of certify and minimax."""

from __future__ import annotations

import json
import zipfile

import pytest

import renyi
from renyi.formatting import at_most
from support.commandline import table


@pytest.fixture
def fitted(run, tmp_path):
    table().to_csv("t.csv", index=False)
    assert run("fit", "t.csv", "--target", "y", "--id", "id", "--out", "m").code == 0


def test_a_model_is_proved(run, fitted):
    done = run("verify", "m.json", "m.renyi")
    assert (done.code, done.err) == (0, "")
    bound = at_most(renyi.RenyiClassifier.load("m.json").certificate_.bounds["map"], 1)
    assert " ".join(done.out.split()).endswith(
        "proved: in any population with the counts of m.renyi the model is wrong on at "
        f"most {bound} (rule map)."
    )
    found = run("verify", "m.json", "m.renyi", "--json").json
    assert found["answer"] == "proved"
    assert {claim["claim"] for claim in found["claims"]} == {
        "gamma",
        "map",
        "renyi",
        "sharp",
    }
    first = found["claims"][0]
    top, bottom = (int(part, 16) for part in first["fraction"].split("/"))
    assert top / bottom == pytest.approx(float(first["exact"]), abs=1e-15)


@pytest.mark.parametrize(
    "options", [("--objective", "ranking"), ("--class-weight", "balanced")]
)
def test_fit_writes_the_counts_that_prove_its_certificate(run, options):
    """These models count pairs within the classes, and their bounds rest on them."""
    table().to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "y", "--id", "id", *options]
    assert run(*fit, "--out", "m").code == 0
    assert run("verify", "m.json", "m.renyi").code == 0


def test_other_answers_have_other_codes(run, fitted, tmp_path):
    assert run("verify", "m.json", "m.json").code == 2
    assert run("verify", "none.json", "m.renyi").code == 2
    table(seed=1).to_csv("u.csv", index=False)
    build = ["marginals", "build", "u.csv", "--target", "y", "--id", "id"]
    assert run(*build, "--encoder", "m.json", "--out", "u.renyi").code == 0
    done = run("verify", "m.json", "u.renyi", "--json")
    assert (done.code, done.json["answer"]) == (2, "wrong file")


def test_forgotten_and_swapped_files_are_named(run, fitted):
    model = "m.json"
    alone = run("verify", model)
    assert alone.code == 2
    assert "give a model (.json) or a --proof, then counts (.renyi)" in alone.out
    other = run("verify", model, model)
    assert other.code == 2
    assert "does not contain counts (.renyi)" in other.out


def test_counts_that_are_in_a_file_twice_prove_nothing(run, fitted):
    with zipfile.ZipFile("m.renyi") as archive:
        parts = [(part, archive.read(part)) for part in archive.infolist()]
    with zipfile.ZipFile("twice.renyi", "w") as archive, pytest.warns(UserWarning):
        for part, data in [*parts, *parts]:
            archive.writestr(part.filename, data)
    done = run("verify", "m.json", "twice.renyi")
    assert done.code == 2 and "wrong file" in done.out + done.err


def test_proofs_are_written_and_checked(run, fitted):
    done = run("certify", "m.json", "m.renyi", "--level", "lp", "--proof", "p.json")
    assert done.code == 0 and "renyi verify m.json m.renyi --proof p.json" in done.out
    assert run("verify", "m.json", "m.renyi", "--proof", "p.json").code == 0
    assert run("verify", "m.renyi", "--proof", "p.json").code == 1  # of a model
    done = run("certify", "m.json", "m.renyi", "--proof", "c.json", "--json")
    assert set(done.json["proof"]["proves"]) == {"gamma", "map", "renyi", "sharp"}
    assert run("verify", "m.json", "m.renyi", "--proof", "c.json").code == 0
    done = run("minimax", "m.renyi", "--level", "exact", "--proof", "x.json", "--json")
    proved = done.json["proof"]["proves"]
    assert proved["upper"] == pytest.approx(done.json["upper"], abs=1e-6)
    done = run("verify", "m.renyi", "--proof", "x.json")
    assert done.code == 0 and "upper, any rule" in done.out


def test_what_a_proof_proves_is_told(run, fitted):
    words = ("minimax", "m.renyi", "--level", "lp", "--proof", "x.json")
    upper = run(*words, "--json").json["proof"]["proves"]["upper"]
    said = " ".join(run(*words).out.split())
    assert f"which proves: some rule is wrong on at most {at_most(upper)}" in said


def test_places_and_options_of_proofs_are_checked(run, fitted):
    certify = ["certify", "m.json", "m.renyi", "--proof"]
    assert "m.json" in run(*certify, "m.json").err
    assert run(*certify, "p.txt").code == 2
    assert run("certify", "m.json", "--rows", "t.csv", "--proof", "p.json").code == 2
    with open("m.json", encoding="utf-8") as stream:
        assert json.load(stream)["format"] == "renyi-model"
