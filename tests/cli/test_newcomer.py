"""What a newcomer meets: typing errors, names of options, notes on what was done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from renyi.formatting import percent
from support.commandline import Run, save, table
from support.studies import codes, save_study

TARGET = ("--target", "y", "--id", "id")


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("fit t.csv --targt y", "--target"),
        ("fit t.csv --target y --min_count=3", "--min-count"),
        ("fit t.csv -target y", "--target"),
        ("marginals merge a.renyi b.renyi --ouput c.renyi", "--out"),
        ("marginals build t.csv --target y --wieght w", "--weight"),
    ],
)
def test_the_option_that_was_meant_is_named(run: Run, command: str, meant: str) -> None:
    done = run(*command.split())
    assert done.code == 2
    assert f"did you mean {meant}?" in done.err
    assert " ".join(command.split()[: 1 + command.startswith("m")]) in done.err


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ([f"c{k}" for k in range(12)], "'c11', 'c0', 'c1'"),
        (["a", "Class", "b", "c"], "'Class', 'c', 'a', 'b'"),
    ],
)
def test_likely_targets_are_suggested_first(
    run: Run, names: list[str], first: str
) -> None:
    save(pd.DataFrame([["u"] * len(names), ["v"] * len(names)], columns=names))
    done = run("fit", "t.csv")
    assert done.code == 2
    assert f"such as {first}" in done.err


def test_columns_that_a_borrowed_encoder_ignores_are_named(run: Run) -> None:
    frame = table()
    save(frame)
    run("fit", "t.csv", *TARGET, "--drop", "size", "--out", "m")
    build = ("marginals", "build", "t.csv", "--target", "y", "--encoder", "m.json")
    done = run(*build, "--out", "e.renyi", "--id", "id")
    assert done.code == 0
    assert "Ignored 1 column that --encoder does not have: 'size'." in done.err
    assert "'size'" not in run(*build, "--out", "e.renyi", "--id", "size", "id").err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--n-features 30", "--n-features 30 is more than"),
        ("--max-error 0.0001", "--max-error 0.0001 cannot be certified"),
        ("--penalty 1000", "--penalty 1000 selects no feature"),
    ],
)
def test_errors_name_options_not_parameters(run: Run, options: str, told: str) -> None:
    save(table())
    done = run("select", "t.csv", *TARGET, *options.split())
    assert done.code == 2
    assert told in done.err
    assert not re.search(r"[a-z]_[a-z]+|\w=", done.err)


def test_names_of_columns_are_left_as_they_are(run: Run) -> None:
    save(table().rename(columns={"size": "min_count"}))
    done = run("fit", "t.csv", "--target", "n_features")
    assert done.code == 2
    assert "'n_features'" in done.err


@pytest.mark.parametrize("level", ["closed", "lp"])
def test_marginals_that_lack_a_column_are_named(run: Run, level: str) -> None:
    save(table())
    run("fit", "t.csv", *TARGET, "--out", "m")
    run("marginals", "build", "t.csv", *TARGET, "--drop", "size", "--out", "less.renyi")
    done = run("certify", "m.json", "less.renyi", "--level", level)
    assert done.code == 2
    assert "less.renyi" in done.err
    assert "'size'" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "t.csv"),
        ("fit", "t.csv", "--memory", "20K"),
        ("hgr", "t.csv"),
        ("marginals", "build", "t.csv", "--out", "m.renyi"),
    ],
    ids=" ".join,
)
def test_words_for_missing_cells_are_noted(run: Run, command: tuple[str, ...]) -> None:
    frame = table()
    frame["state"] = np.resize(["NA", "n/a", "TX"], len(frame))
    save(frame)
    done = run(*command, *TARGET)
    assert done.code == 0, done.err
    told = " ".join((done.out + done.err).split())
    assert "'state' counts as a label" in told
    assert "--missing NA n/a" in told
    declared = run(*command, *TARGET, "--missing", "NA", "n/a")
    assert "counts as a label" not in declared.out + declared.err


def test_little_memory_is_refused_with_what_would_do(run: Run) -> None:
    save(table())
    done = run("fit", "t.csv", *TARGET, "--memory", "1K")
    assert done.code == 2
    assert "more than the 1 kB that a job may use" in done.err
    enough = re.search(r"--memory ([\d.]+[KM])\)", done.err)
    assert enough
    assert run("fit", "t.csv", *TARGET, "--memory", enough[1]).code == 0


def test_escaped_names_are_as_wide_as_they_are_shown(run: Run) -> None:
    save(table(400).rename(columns={"colour": "co\x1b\x1blour"}))
    line = re.compile(r" +(\d+[* ] )?(?:co.*lour|length|size)  *(?=\d\.\d{3})")
    for command in ("fit", "hgr", "select"):
        more = ("--details",) if command == "select" else ()
        out = run(command, "t.csv", *TARGET, *more).out
        found = [line.match(text) for text in out.splitlines()]
        ends = {(each[1] is None, each.end()) for each in found if each}
        assert len(ends) == 1 + (command == "select"), out  # which has two tables
        assert r" 'co\x1b\x1blour'" in out or command == "hgr"


def test_minimax_states_its_promise_once(run: Run) -> None:
    save(table()[["colour", "size", "y"]])
    done = run("minimax", "t.csv", "--target", "y", "--level", "exact")
    assert done.code == 0
    end = done.out[done.out.index("This rule is wrong") :]
    assert end.count("at most") == 1


def test_a_column_of_many_rare_labels_is_no_surprise_in_a_selection(run: Run) -> None:
    frame, rng = table(1000), np.random.default_rng(0)
    frame["city"] = [f"city{k}" for k in rng.integers(0, 346, len(frame))]
    save(frame)
    select = ("select", "t.csv", *TARGET, "--n-features", "1")
    told = " ".join(run(*select).out.split())
    assert re.search(r"'city' has \d+ labels in 1,000 rows", told)
    assert "--drop city" in told
    without = run(*select, "--drop", "city")
    assert "many rare labels" not in without.out


def test_many_dates_are_told_of(run: Run) -> None:
    frame = table(200)
    days = pd.date_range("2024-01-01", periods=20).strftime("%Y-%m-%d")
    frame["seen"], frame["year"] = np.resize(days, 200), "2024-01-01"
    save(frame)
    for more in ((), ("--confidence", "0.9")):
        told = " ".join(run("fit", "t.csv", *TARGET, *more).out.split())
        assert "Column 'seen' has 20 dates" in told
        assert "--drop seen" in told
        assert "'year' has" not in told


def test_halves_are_told_to_be_of_one_population(run: Run) -> None:
    save(table(), "a.csv")
    save(table(seed=1), "b.csv")
    build = ("marginals", "build", *TARGET, "--out")
    run(*build, "a.renyi", "a.csv")
    run(*build, "b.renyi", "b.csv", "--encoder", "a.renyi")
    told = " ".join(run("certify", "--halves", "a.renyi", "b.renyi").out.split())
    assert "drawn from one population" in told
    assert "split at random" not in told
    assert "with its encoder" in told


def test_tables_and_genotypes_are_told_apart(run: Run) -> None:
    study = save_study("study", codes(30, seed=1))
    save(table())
    run("genotypes", "fit", study, "--out", "g")
    run("fit", "t.csv", *TARGET, "--out", "m")
    assert "a genotype model" in run("certify", "g.json", "m.renyi").err
    scores = ("genotypes", "export", "m.json", "--scores", "plink2", "--out", "s")
    assert "a model of tables" in run(*scores).err
    build = ("marginals", "build", study, "--target", "y", "--out", "c.renyi")
    assert "study.bed contains genotypes" in run(*build).err
    both = run("certify", "m.json", "m.renyi", "--confidence", "0.9").err
    assert "--rows and --halves" in both


def test_weights_are_told_from_rows(run: Run) -> None:
    frame = table()
    frame["w"] = np.random.default_rng(0).random(len(frame)) + 0.5
    frame.to_csv("w.csv", index=False)
    fit = ("fit", "w.csv", "--target", "y", "--id", "id", "--out")
    assert run(*fit, "weighted", "--weight", "w").code == 0
    assert run(*fit, "plain", "--drop", "w").code == 0
    table(seed=1).to_csv("new.csv", index=False)
    for command in (("certify",), ("report", "-o", "r.html")):
        done = run(*command, "weighted.json", "--rows", "new.csv")
        assert done.code == 0 and "trained on weighted rows" in done.err
        assert "weighted" not in run(*command, "plain.json", "--rows", "new.csv").err
    assert "of these are below 2." in run("marginals", "show", "weighted.renyi").out
    assert "of these are 1." in run("marginals", "show", "plain.renyi").out


def test_points_of_three_classes_are_refused_before_counts_are_asked_for(
    run: Run,
) -> None:
    frame = table()
    frame["y"] = np.random.default_rng(0).choice(["a", "b", "c"], len(frame))
    frame.to_csv("t.csv", index=False)
    fit = ("fit", "t.csv", "--target", "y", "--id", "id", "--confidence", "0.9")
    run(*fit, "--out", "m")
    done = run("export", "m.json", "--points", "5")
    assert done.code == 2 and "two classes" in done.err and "--format csv" in done.err


def test_halves_of_different_bins_are_named(bad: Callable[..., str], run: Run) -> None:
    build = ("marginals", "build", *TARGET, "--out")
    for seed, name in enumerate(("a", "b")):
        run(*build, f"{name}.renyi", save(table(seed=seed), f"{name}.csv"))
    told = bad("certify", "--halves", "a.renyi", "b.renyi")
    merged = bad("marginals", "merge", "a.renyi", "b.renyi", "--out", "c.renyi")
    assert "b.renyi does not fit a.renyi: Column 'length' is binned" in told
    assert told == merged and "model" not in told


# ---- notes of fit


def notes_of(run: Run, frame: pd.DataFrame, *options: str) -> str:
    done = run("fit", save(frame), "--target", "y", "--id", "id", *options, "--json")
    assert done.code == 0, done.err
    return "\n".join(done.json["notes"])


def test_strange_classes_are_named(run: Run) -> None:
    frame = table()
    assert "class" not in notes_of(run, frame)
    frame.loc[[3, 8], "y"] = ["d", "class"]
    told = notes_of(run, frame)
    assert "The classes 'class', 'd' of 'y' have a single row each: check" in told
    frame.loc[3:20, "y"] = "NA"
    told = notes_of(run, frame)
    assert "The target 'y' has 'NA' as a class: pass --missing NA if" in told
    told = notes_of(run, frame, "--missing", "NA")
    assert "--missing NA" not in told
    assert "Dropped 18 rows with a missing target 'y'." in told


def test_free_text_is_named_and_dates_only_once(run: Run) -> None:
    rng = np.random.default_rng(0)
    days = pd.date_range("2020-01-01", periods=150).strftime("%Y-%m-%d")
    frame = table().assign(
        comment=[f"word {k}" for k in rng.integers(0, 300, 200)],
        day=rng.permutation(np.resize(days, 200)),
        town=rng.choice(list("abcdefgh"), 200),
    )
    told = notes_of(run, frame)
    assert told.count("'comment'") == 1
    assert told.count("'day'") == 1
    assert "looks like free text in 200 rows" in told
    assert "--drop comment." in told
    assert "'town'" not in told


def test_a_column_that_is_nearly_always_right_is_named(run: Run) -> None:
    frame = table(400)
    assert "alone predicts" not in notes_of(run, frame)
    frame["later"] = np.where(frame["y"] == "yes", "paid", "open")
    frame.loc[0, "later"] = "open" if frame.loc[0, "y"] == "yes" else "paid"
    told = notes_of(run, frame)
    assert "Column 'later' alone predicts 'y' with an error of 0.2 %" in told
    assert "pass --drop later." in told
    days = pd.date_range("2020-01-01", periods=400).strftime("%Y-%m-%d").to_numpy()
    frame["later"] = np.where(frame["y"] == "yes", days, "")
    told = notes_of(run, frame)
    assert (
        "Whether column 'later' is empty alone predicts 'y' with an error of 0.0 %"
        in told
    )
    rare = frame.drop(columns="later").assign(y=["yes", *["no"] * 399])
    assert "alone predicts" not in notes_of(run, pd.concat([rare, rare[:2]]))


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        ("5.1,1.4,setosa", True),
        ("setosa,b,x", True),
        ("5.1,1.4,7", True),
        ("0,1,2", False),
        ("2019,2020,kind", False),
        ("length,width,setosa", False),
        ("length,width,kind", False),
    ],
)
def test_a_header_that_is_data_is_refused(run: Run, header: str, refused: bool) -> None:
    rng = np.random.default_rng(0)
    n = 60
    kinds = rng.choice(["setosa", "virginica"], n)
    if header.startswith("setosa"):
        cells = np.array([kinds, rng.choice(list("abc"), n), rng.choice(list("xy"), n)])
    else:
        numbers = [rng.choice(["5.1", "4.9"], n), rng.choice(["1.4", "1.3"], n)]
        cells = np.array([*numbers, kinds])
    text = "\n".join([header, *map(",".join, cells.T)])
    Path("h.csv").write_text(f"{text}\n")
    done = run("fit", "h.csv", "--target", header.split(",")[-1])
    assert done.code == (2 if refused else 0), done.err
    assert ("first row looks like data" in done.err) == refused
    assert "first row looks like data" not in done.out


def test_a_header_that_may_be_data_is_noted(run: Run) -> None:
    rows = ["b,o,size,kind,x", *["b,o,1,p,x", "x,x,2,q,o", "o,b,1,q,b"] * 20]
    Path("h.csv").write_text("\n".join(rows))
    done = run("fit", "h.csv", "--target", "kind")
    assert done.code == 2
    rows = ["b,o,size,kind", *["b,o,1,p", "x,x,2,q", "o,b,1,q"] * 20]
    Path("h.csv").write_text("\n".join(rows))
    done = run("fit", "h.csv", "--target", "kind", "--json")
    assert done.code == 0
    (told,) = [note for note in done.json["notes"] if "first row" in note]
    assert "looks like data, not like names of columns ('b', 'o'). It was" in told
    Path("h.csv").write_text("b,b,y\nb,o,p\no,b,q\n")
    assert (
        "add a row of names if the first row is data"
        in run("fit", "h.csv", "--target", "y").err
    )


def test_a_class_that_is_mostly_missed_is_named(run: Run) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 600)
    y = rng.random(600) < np.where(a, 0.4, 0.05)
    frame = pd.DataFrame({"a": a, "b": rng.integers(0, 3, 600), "y": y}).astype(str)
    argv = ("fit", save(frame), "--target", "y")
    told = json.loads(run(*argv, "--json").out)["left_out"]["by_class"]
    (missed,) = (each["error"] for each in told if each["class"] == "True")
    assert missed > 0.6
    text = " ".join(run(*argv).out.split())
    assert f"'True' is missed on {percent(missed)} of its rows." in text
    assert "see --objective ranking and --class-weight balanced" in text
    balanced = " ".join(run(*argv, "--class-weight", "balanced").out.split())
    assert "No better than always" in balanced and "see --" not in balanced
    assert "is missed on" not in run("fit", "votes").out
