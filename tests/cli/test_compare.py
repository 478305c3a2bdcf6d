"""The command compare: what it prints and writes, and what it rejects."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from renyi.cli import compare, main
from renyi.datasets import load
from renyi.formatting import at_most
from support.commandline import save, save_databases, table

FEW = ("compare", "votes", "--methods", "map", "majority", "--folds", "3")


def test_text_json_and_page_tell_the_same(good, tmp_path):
    text = good(*FEW, "--out", "page.html").out
    facts = json.loads(good(*FEW, "--json").out)
    assert [e["name"] for e in facts["entries"]] == ["map", "majority"]
    error = facts["entries"][0]["error"]
    shown = f"{100 * error['value']:.1f}"
    (line,) = (line for line in text.splitlines() if line.startswith("* map"))
    assert line.split()[2] == shown
    assert f"{100 * error['low']:.1f} – {100 * error['high']:.1f}" in line
    assert max(map(len, text.splitlines())) <= 80
    page = (tmp_path / "page.html").read_text("utf-8")
    assert (
        f"{shown}\N{NO-BREAK SPACE}%" in page
        and "renyi compare votes --methods map" in page
    )
    assert "Wrote page.html" in text
    assert facts["folds"] == 3 and facts["rows"] == 435 and facts["seed"] == 0


def test_a_guarantee_is_shown_only_below_the_baseline(good, tmp_path):
    text = good(*FEW, "--out", "page.html").out
    facts = json.loads(good(*FEW, "--json").out)
    _, y = load("votes")
    assert facts["always"] == "democrat"
    assert facts["baseline"] == pytest.approx((y != "democrat").mean())
    (mine,) = (e for e in facts["entries"] if e["name"] == "map")
    assert mine["worst_case"] < facts["baseline"]  # of map on votes
    assert f"≤ {at_most(mine['worst_case'], 1)}".removesuffix(" %") in text
    assert "pair counts of the training rows" in " ".join(text.split())
    for head in ("Guarantee", "Log loss"):
        assert head in (tmp_path / "page.html").read_text("utf-8")
    noisy = load("adult")[0][:1500]
    noisy.assign(coin=np.random.default_rng(0).random(1500) < 0.4).to_csv(
        "n.csv", index=False
    )
    columns = ["--target", "coin", "--drop", "fnlwgt"]
    text = good("compare", "n.csv", *columns, "--methods", "map", "--folds", "3").out
    assert "≤" not in text and "not below the baseline" in text
    assert "Always answering 'False' is wrong on" in text


def test_saved_models_on_rows_they_never_saw(good, tmp_path):
    X, y = load("votes")
    X.assign(party=y)[:300].to_csv("train.csv", index=False)
    X.assign(party=y)[300:].to_csv("test.csv", index=False)
    good("fit", "train.csv", "--target", "party", "--out", "a")
    good("fit", "train.csv", "--target", "party", "--rule", "sharp", "--out", "b")
    done = good("compare", "test.csv", "--models", "a.json", "b.json", "--json")
    facts = json.loads(done.out)
    assert facts["rows"] == 135 and facts["folds"] is None
    (one,) = (e for e in facts["entries"] if e["name"] == "a.json")
    error = json.loads(good("predict", "a.json", "test.csv", "--json").out)["error"]
    assert one["error"]["value"] == error["error"] and one["note"] == ""
    both = good("compare", "train.csv", "--target", "party", "--models", "a.json",
                "--methods", "map", "--folds", "3")  # fmt: skip
    assert "counts of its training rows" in " ".join(both.out.split())


def test_rows_of_classes_that_a_model_does_not_know_are_told_of(good):
    X, y = load("votes")
    X.assign(party=y)[:300].to_csv("train.csv", index=False)
    later = y[300:].astype(object)
    later[:12] = "whig"
    X[300:].assign(party=later).to_csv("test.csv", index=False)
    good("fit", "train.csv", "--target", "party", "--out", "a")
    asked = ("compare", "test.csv", "--models", "a.json")
    (one,) = good(*asked, "--json").json["entries"]
    told = json.loads(good("predict", "a.json", "test.csv", "--json").out)["error"]
    assert told["unknown"] == 12 and one["error"]["value"] == told["error"]
    text = " ".join(good(*asked).out.split())
    assert (
        "Note on a.json: 12 of the 135 rows have a class that the model does not know "
        "('whig'): they count as errors."
    ) in text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--methods", "magic"), "magic"),
        (("--methods", "map,tan"), "did you mean --methods map tan?"),
        (("--models", "none.json"), "none.json"),
        (("--weight", "crime"), "--weight"),
        (
            ("--methods", "map", "--folds", "400"),
            "use at most 217",
        ),
        (("--out", "page.txt"), "page.txt"),
    ],
)
def test_what_does_not_go_is_refused(bad, argv, message):
    assert message in bad("compare", "votes", *argv)


def test_needs_rows_and_leaves_models_alone(good, bad):
    good("fit", "votes", "--out", "m")
    assert "m.renyi" in bad("compare", "m.renyi")
    assert "--folds" in bad("compare", "votes", "--models", "m.json", "--folds", "3")
    assert "whig.csv" in bad("compare", "whig.csv", "--target", "y")


def test_a_model_with_the_name_of_a_method_is_not_taken_for_it(good, bad, tmp_path):
    good("fit", "votes", "--out", "m")
    (tmp_path / "m.json").rename("map")
    asked = ("compare", "votes", "--methods", "map", "--models", "map", "--folds", "3")
    found = json.loads(good(*asked, "--json").out)["entries"]
    assert {each["name"] for each in found} == {"map", "./map"}
    asked = ("compare", "votes", "--models", "map", "--target", "crime")
    assert "'crime' as a feature, so it cannot be the class" in bad(*asked)


def test_help_does_not_list_what_is_refused(capsys, bad):
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    assert "--weight" not in capsys.readouterr().out
    assert "equal weight" in bad(*FEW, "--weight", "crime")


def test_an_identifier_is_told_of_as_by_fit(bad):
    save(table())
    fit = bad("fit", "t.csv", "--target", "y")
    assert "200 rows" in fit and "(--id id, --drop id, --min-count)" in fit
    assert bad("compare", "t.csv", "--target", "y", "--methods", "map") == fit


def figures(facts):
    """All figures but seconds, by name."""
    return {e["name"]: {**e, "seconds": None} for e in facts["entries"]}


def test_every_source_of_rows_is_compared_alike(good):
    frame = table(300)
    save(frame)
    save(frame[:170], "part-1.csv")
    save(frame[170:], "part-2.csv")
    save(frame.assign(more=1), "more.csv")
    pd.concat([frame, frame.assign(size=9)]).to_csv("both.csv", index=False)
    save_databases(frame)
    frame.to_parquet("t.parquet")
    good("fit", save(table(200, seed=5), "other.csv"), "--target", "y", "--id", "id",
         "--out", "m")  # fmt: skip
    asked = ("--target", "y", "--id", "id", "--methods", "map", "tan", "--folds", "3",
             "--models", "m.json", "--json")  # fmt: skip
    expected = good("compare", "t.csv", *asked).json
    assert expected["rows"] == 300 and len(expected["entries"]) == 3
    for names in (
        ("part-1.csv", "part-2.csv"),
        ("part-*.csv",),
        ("t.parquet",),
        ("shop.db", "--table", "visits"),
        ("shop.duckdb", "--table", "visits"),
        ("more.csv", "--sql", "SELECT * EXCLUDE (more) FROM data"),
        ("--sql", "FROM 't.parquet'"),
        ("both.csv", "--where", "size < 9"),
    ):
        assert figures(good("compare", *names, *asked).json) == figures(expected), names


def test_rows_that_do_not_fit_into_memory_are_told_of(bad):
    save(table(3_000))
    asked = ("compare", "t.csv", "--target", "y", "--id", "id", "--methods", "map")
    assert "Holding the rows of t.csv" in bad(*asked, "--memory", "200K")


def test_pairs_of_columns_are_compared_where_that_is_quick(good, monkeypatch):
    save(table(80))
    asked = ("compare", "t.csv", "--target", "y", "--id", "id", "--folds", "2")
    facts = good(*asked, "--json").json
    assert "order2" in figures(facts) and not facts["notes"]
    assert not {"average", "mixture"} & figures(facts).keys()
    monkeypatch.setattr(compare, "_MOST_OPERATIONS", 1e4)
    done = good(*asked)
    assert "order2" not in done.out
    (note,) = (line for line in done.err.splitlines() if "order2" in line)
    assert "3 pairs with" in note and "--methods map sharp" in note
    assert "order2" in figures(good(*asked, "--methods", "order2", "--json").json)
