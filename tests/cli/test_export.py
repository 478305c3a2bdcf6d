"""The command export: SQL that gives the model's own scores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import renyi
from renyi.certificates.error_table import error_table
from renyi.cli.parser import EXPORTS
from support.commandline import Done, save, table
from support.engines import duckdb
from support.exported import in_python

FIT = ("--target", "y", "--id", "id", "--out", "m")


def test_expression_and_query_score_as_the_model_does(
    good: Callable[..., Done],
) -> None:
    good("fit", save(table()), *FIT)
    clf, frame = renyi.RenyiClassifier.load("m.json"), table(seed=4)
    X = frame[["colour", "size", "length"]]
    with duckdb.connect() as connection:
        connection.register("visits", frame)
        text = good("export", "m.json", "--sql", "duckdb").out
        found = connection.sql(f"SELECT {text} FROM visits").fetchall()
    assert [row[0] for row in found] == pytest.approx(
        clf.decision_function(X), abs=1e-12
    )
    given = ("--sql", "sqlite", "--table", "visits", "--out", "score.sql")
    assert good("export", "m.json", *given).err == "Wrote score.sql\n"
    with closing(sqlite3.connect(":memory:")) as database:
        frame.to_sql("visits", database, index=False)
        rows = database.execute(Path("score.sql").read_text()).fetchall()
    assert [row[-1] for row in rows] == clf.predict(X).tolist()


def test_the_class_may_be_named(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    good("fit", save(table()), *FIT)
    card = renyi.RenyiClassifier.load("m.json").scorecard_
    told = good("export", "m.json", "--sql", "postgres", "--label", "no").out
    assert told == card.to_sql("postgres", "no") + "\n"
    message = bad("export", "m.json", "--sql", "postgres", "--label", "maybe")
    assert "m.json has no class 'maybe': its classes are 'no', 'yes'" in message
    given = ("--sql", "spark", "--table", "visits", "--label", "no")
    assert "give no label" in bad("export", "m.json", *given)


def test_a_random_rule_is_noted(good: Callable[..., Done]) -> None:
    good("fit", save(table()), *FIT, "--rule", "sharp")
    done = good("export", "m.json", "--sql", "duckdb", "--table", "visits")
    assert "rule map; m.json uses sharp" in done.err
    assert good("export", "m.json", "--sql", "duckdb").err == ""


def test_points_are_those_of_the_rounded_scorecard(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    good("fit", save(table()), *FIT)
    clf, m = renyi.RenyiClassifier.load("m.json"), renyi.Marginals.load("m.renyi")
    card = clf.scorecard_.rounded(4, marginals=m)
    card = replace(card, errors=error_table(clf.certificate_))
    given = ("export", "m.json", "--points", "4")
    assert good(*given).out == card.to_text("md")
    assert good(*given, "--format", "csv").out == card.to_text("csv")
    assert good(*given, "--out", "card.html").err == "Wrote card.html\n"
    assert Path("card.html").read_text() == card.to_text("html")
    good(*given, "--out", "card.csv")
    assert Path("card.csv").read_text() == card.to_text("csv")
    assert good(*given[:2], "m.renyi", *given[2:]).out == card.to_text("md")
    for wrong, word in (
        (("--points", "0"), "--points"),
        (("--points", "4", "--sql", "duckdb"), "--sql"),
        (("--points", "4", "--label", "no"), "--label"),
        (("--sql", "duckdb", "--format", "md"), "--format"),
        (("--points", "4", "--spreadsheet"), "--spreadsheet"),
        (("--points", "4", "--format", "python"), "--points"),
        (("--points", "4", "--format", "md", "--out", "c.html"), "c.html"),
        (("--points", "4", "--out", "m.renyi"), "m.renyi"),
        (("none.renyi", "--points", "4"), "none.renyi"),
        (("m.renyi", "--format", "md"), "MARGINALS"),
        (("--points", "4", "m.renyi"), "put it before the options"),
    ):
        assert word in bad("export", "m.json", *wrong)
    # Marginals of other rows beside the model are not taken by themselves.
    good("marginals", "build", save(table(seed=5)), *FIT[:4], "--out", "m.renyi")
    assert "COUNTS.renyi" in bad(*given)
    Path("m.renyi").unlink()
    assert "COUNTS.renyi" in bad(*given)


def test_points_of_rules_and_weights_that_a_card_cannot_keep_are_noted(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    more = ("--rule", "sharp", "--class-weight", "balanced", "--class-conditional")
    good("fit", save(table()), *FIT, *more)
    err = good("export", "m.json", "--points", "3").err
    assert "rule map" in err and "class weights" in err
    frame = table()
    frame["y"] = [("no", "yes", "maybe")[k % 3] for k in range(len(frame))]
    good("fit", save(frame), *FIT)
    assert "two classes" in bad("export", "m.json", "--points", "3")


def test_bad_input(good: Callable[..., Done], bad: Callable[..., str]) -> None:
    good("fit", save(table()), *FIT)
    assert "--sql" in bad("export", "m.json")
    assert "'oracle'" in bad("export", "m.json", "--sql", "oracle")
    assert "no file 'n.json'" in bad("export", "n.json", "--sql", "duckdb")
    for name in ("", "clinic.", ".visits"):
        told = bad("export", "m.json", "--sql", "duckdb", "--table", name)
        assert f"name of a table, {name!r}, has an empty part" in told
    given = ("--sql", "duckdb", "--out", "score.txt")
    assert "score.txt must end in .sql" in bad("export", "m.json", *given)


def test_functions_and_tables(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    good("fit", save(table()), *FIT)
    clf = renyi.RenyiClassifier.load("m.json")
    card, given = clf.scorecard_, ("export", "m.json", "--format")
    for form in ("csv", "md", "python", "javascript"):
        assert good(*given, form).out == card.to_text(form)
    for name, form in (("m.py", "python"), ("m.js", "javascript"), ("m.csv", "csv")):
        assert good("export", "m.json", "--out", name).err == f"Wrote {name}\n"
        assert Path(name).read_text() == card.to_text(form)
    good("export", "m.json", "--out", "m.onnx")
    assert Path("m.onnx").read_bytes() == card.to_onnx()
    X = table(seed=4)[["colour", "size", "length"]]
    moved = good(*given, "python", "--prevalence", "0.01").out
    found = in_python(moved, X)
    assert found[1] == pytest.approx(clf.predict_proba(X, 0.01), abs=1e-12)
    for wrong, word in (
        ((), "--format"),
        (("--format", "html"), "--points"),
        (("--format", "onnx"), "--out"),
        (("--format", "python", "--table", "t"), "--table"),
        (("--sql", "duckdb", "--prevalence", "0.1"), "--prevalence"),
        (("--format", "python", "--out", "m.js"), "m.js"),
        (("--out", "m.txt"), "m.txt"),
    ):
        assert word in bad("export", "m.json", *wrong)
    Path("g.json").write_text('{"format": "renyi-genotype-scores", "version": 1}')
    for kind in (("--format", "python"), ("--sql", "duckdb")):
        assert "'renyi genotypes" in bad("export", "g.json", *kind)
    good("fit", save(table()), *FIT, "--rule", "renyi")
    assert "--rule map" in bad(*given, "python")
    assert good(*given, "csv").out.startswith("feature,category")


def test_a_lone_surrogate_is_written_as_an_escape(good: Callable[..., Done]) -> None:
    X = pd.DataFrame({"a": pd.Series(["\ud800", "v"] * 20, dtype=object)})
    clf = renyi.RenyiClassifier().fit(X, [0, 1] * 20)
    clf.save("m.json")
    card = replace(clf.scorecard_, classes=("\ud801", "b"))
    for form in ("csv", "md", "python", "javascript"):
        name = f"m{EXPORTS[form]}"
        good("export", "m.json", "--out", name)
        assert "\\ud800" in Path(name).read_text("utf-8")
        assert "\ud801" in card.to_text(form) or "\\ud801" in card.to_text(form)
