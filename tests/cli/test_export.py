"""The command export: SQL that gives the model's own scores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import renyi
from support.commandline import Done, save, table

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


def test_bad_input(good: Callable[..., Done], bad: Callable[..., str]) -> None:
    good("fit", save(table()), *FIT)
    assert "--sql" in bad("export", "m.json")
    assert "'oracle'" in bad("export", "m.json", "--sql", "oracle")
    assert "no file 'n.json'" in bad("export", "n.json", "--sql", "duckdb")
    given = ("--sql", "duckdb", "--out", "score.txt")
    assert "score.txt must end in .sql" in bad("export", "m.json", *given)
