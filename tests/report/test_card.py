"""The model card: a README whose header hubs read, and a valid bill of CycloneDX."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import renyi
from renyi.report.card import UNKNOWN
from support.commandline import Done
from support.forgeries import MODEL

NASTY = "a: |\n<script>'\"\\#*_[x](y)\u202e\ufeff😀"


def checked(folder: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The text, the header and the bill, which is valid."""
    raw = (folder / "modelcard.cdx.json").read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(raw) is None
    text = (folder / "README.md").read_text("utf-8")
    _, header, body = text.split("---\n", 2)
    return body, yaml.safe_load(header), json.loads(raw)


def test_what_is_known_is_told_and_the_rest_is_not_known(tmp_path: Path) -> None:
    X, y = renyi.datasets.load("votes")
    X = X.iloc[:, 2:6]
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    clf.save(tmp_path / "votes.json")
    report = clf.report(X=X[300:], y=y[300:])
    report.save_card(tmp_path, tmp_path / "votes.json")
    body, header, bill = checked(tmp_path)
    assert header["library_name"] == "renyi" and header["model_file"] == "votes.json"
    assert header["pipeline_tag"] == "tabular-classification"
    metrics = header["model-index"][0]["results"][0]["metrics"]
    named = {metric["name"]: metric["value"] for metric in metrics}
    bound = report.certificate["bounds"]["map"]
    assert bound <= named["at most, Closed form"] < bound + 2e-6
    assert named["Leave-one-out"] == pytest.approx(clf.certificate_.loo_error, abs=1e-6)
    items = {
        line.split(" | ")[0][2:]: line for line in body.splitlines() if "|" in line
    }
    assert len([key for key in items if key[:1].isdigit()]) == 52
    assert "300 rows" in items["21"] and "republican" in items["8a"]
    for number in ("3b", "14", "17", "18a"):
        assert UNKNOWN in items[number]
    (model,) = bill["components"]
    assert model["type"] == "machine-learning-model"
    digest = hashlib.sha256((tmp_path / "votes.json").read_bytes()).hexdigest()
    assert model["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert model["modelCard"]["considerations"]["users"] == [UNKNOWN]
    assert X.iloc[0].astype(str).str.cat(sep="") not in body
    report.save_card(tmp_path)  # over a card of ours
    place = tmp_path / "README.md"
    for text in ("mine", place.read_text("utf-8").replace(UNKNOWN, "for wards", 1)):
        place.write_text(text, "utf-8")
        with pytest.raises(
            ValueError, match=r"README.md is not a model card, or was fil"
        ):
            report.save_card(tmp_path)
        assert place.read_text("utf-8") == text


def test_nasty_names_stay_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({NASTY: rng.choice(["u", NASTY], 60)})
    X["n"] = rng.normal(size=60)
    y = pd.Series(np.where(rng.random(60) < 0.5, "</script>", "x" * 500), name="t: -")
    renyi.RenyiClassifier(calibration=None).fit(X, y).report().save_card(tmp_path)
    body, header, bill = checked(tmp_path)
    assert header["model-index"][0]["name"] == "A model for t: -"
    assert "<script>" not in body.replace("\\<script\\>", "")
    assert "A model for t: -" in bill["components"][0]["name"]
    assert not any(len(line) > 4000 for line in body.splitlines())


def test_the_command_writes_it_beside_the_page(
    good: Callable[..., Done], bad: Callable[..., str], tmp_path: Path
) -> None:
    rows = pd.DataFrame({"a": ["u", "v", "w"] * 20, "y": ["no", "yes"] * 30})
    rows.to_csv("rows.csv", index=False)
    good("fit", "rows.csv", "--target", "y", "--out", "m")
    place = tmp_path / "card"
    place.mkdir()
    out = good("report", "m.json", "--card", "-o", str(place / "m.html")).out
    assert "README.md" in out and "modelcard.cdx.json" in out
    _, header, bill = checked(place)
    assert header["model_file"] == "m.json"
    assert "rows.csv" in json.dumps(bill["components"][0])
    Path("README.md").write_text("mine")
    message = bad("report", "m.json", "--card")
    assert "README.md" in message and not Path("m.report.html").exists()


def test_bounds_of_few_rows_are_named_as_such(tmp_path: Path) -> None:
    report = renyi.RenyiClassifier.load(MODEL).report()
    report.save_card(tmp_path)
    _, header, bill = checked(tmp_path)
    (metric,) = header["model-index"][0]["results"][0]["metrics"]
    assert metric["name"] == "at most, Closed form, for these rows only"
    card = bill["components"][0]["modelCard"]["quantitativeAnalysis"]
    assert card["performanceMetrics"][0]["type"].endswith("for these rows only")
