"""Points written as tables add up to the model's scores."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest

import renyi


@pytest.mark.parametrize(("K", "order"), [(2, 1), (3, 2)])
def test_points_of_a_table_add_up_to_the_scores(K: int, order: int) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.choice(["u", "v", "=1|2"], (80, 3)), columns=list("abc"))
    X["b"] = np.where(rng.random(80) < 0.1, None, X["b"])
    clf = renyi.RenyiClassifier(order=order).fit(X, rng.integers(0, K, 80))
    card = clf.scorecard_
    text = card.to_text("csv")
    read = pd.read_csv(io.StringIO(text), keep_default_na=False)
    assert read.columns.tolist() == [
        *("feature", "category", "count", "share"),
        *map(str, card.classes),
    ]
    points = {
        (name, category): np.array(each, float)
        for name, category, _, _, *each in read.itertuples(index=False)
    }
    encoder = card.encoder
    codes = encoder.transform(X.assign(c="unheard").head(9))
    scores = np.zeros((9, K)) + points["", "(start)"]
    for column, row in zip(encoder.columns, codes, strict=True):
        texts = [*column.levels.texts, "(any other)"]
        scores += [points[column.name, texts[k]] for k in row]
    wanted = clf.decision_function(X.assign(c="unheard").head(9))
    found = scores[:, 1] if K == 2 else scores
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    shown = card.to_text("md")
    assert shown.count("\n| ") == len(read) + 2 and "=1\\|2" in shown


def test_a_lone_carriage_return_does_not_end_a_row() -> None:
    X = pd.DataFrame({"a\rb": ["u", "v\r=1+1", "w"] * 20})
    clf = renyi.RenyiClassifier().fit(X, [0, 1, 1] * 20)
    for card in (clf.scorecard_, clf.scorecard_.rounded(5, marginals=clf.marginals_)):
        text = card.to_text("csv")
        head, *records = csv.reader(io.StringIO(text, newline=""))
        assert {len(record) for record in records} == {len(head)}
        assert ["a\rb", "v\r=1+1"] in [record[:2] for record in records]


@pytest.mark.parametrize("format", ["csv", "md", "python", "javascript"])
@pytest.mark.parametrize(
    ("K", "odds", "calibration"), [(3, 2.0, None), (3, 2.0, "affine"), (2, -1.0, None)]
)
def test_odds_that_a_model_cannot_have_are_refused(
    format: str, K: int, odds: float, calibration: str | None
) -> None:
    X = pd.DataFrame({"a": [*"uvw"] * 20})
    clf = renyi.RenyiClassifier(calibration=calibration).fit(X, [*range(K)] * (60 // K))
    with pytest.raises(ValueError, match="odds"):
        clf.scorecard_.to_text(format, odds=odds)


def test_labels_that_were_merged_as_rare_are_named() -> None:
    X = pd.DataFrame({"a": [*"uvwx", *("common",) * 16]})
    encoder = renyi.Encoder(min_count=2)
    card = renyi.RenyiClassifier(encoder=encoder).fit(X, [1, 1, 1, 0] * 5).scorecard_
    read = pd.read_csv(io.StringIO(card.to_text("csv"))).set_index("category")
    for label in "uvwx":
        assert read.loc[label, ["0", "1"]].equals(read.loc["(rare)", ["0", "1"]])
    assert read["count"].sum() == 20 and np.isnan(read.loc["u", "count"])
    shown = card.to_text("md")
    assert "(rare) of 'a' is any of 'u', 'v', 'w', 'x'." in shown
    assert "| u |" not in shown


def test_labels_that_were_rare_elsewhere_count_as_any_other() -> None:
    first = pd.DataFrame({"a": [*"uvwx", *("common", "other") * 8]})
    encoder = renyi.Encoder(min_count=2).fit(first)
    y = [0, 1, 1, 1] * 5
    clf = renyi.RenyiClassifier(encoder=encoder).fit(first[4:], y[4:])
    card, small = clf.scorecard_, clf.scorecard_.rounded(3, marginals=clf.marginals_)
    assert card.encoder.columns[0].levels.rare
    for text in (card.to_text("csv"), small.to_text("csv")):
        assert "common" in text and "\na,u," not in text
    for text in (card.to_text("md"), small.to_text("md")):
        assert "(rare)" not in text


def test_the_csv_is_promised_only_where_it_names_the_labels() -> None:
    X = pd.DataFrame(
        {"a": [*(f"r{k}" for k in range(30)), *"uv" * 20], "b": [*"xy" * 35]}
    )
    y = [*"ny" * 15, *"ny" * 20]
    encoder = renyi.Encoder(min_count=2)
    card = renyi.RenyiClassifier(encoder=encoder, order=2).fit(X, y).scorecard_
    shown = card.to_text("md")
    assert "(rare) of 'a' is any of 'r0', " in shown and "'r29'" in shown
    assert "which the CSV names" not in shown
    clf = renyi.RenyiClassifier(encoder=encoder).fit(X[["b", "a"]], y)
    small = clf.scorecard_.rounded(1, marginals=clf.marginals_)
    named = "(rare) of 'a'" in small.to_text("md")
    assert named == ("a" in set(small.frame()["feature"]))


def test_small_points_are_shown_with_digits_enough(votes) -> None:
    card = renyi.RenyiClassifier(alpha=3e3).fit(*votes).scorecard_
    for shown in (card.to_text("md"), str(card)):
        digits = {float(text) for text in re.findall(r"[+-]0\.\d{5,}", shown)}
        assert len(digits - {0.0}) > 10
