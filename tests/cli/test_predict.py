"""The command predict: its answers, and what it says of bad input."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import renyi
from renyi import RenyiClassifier
from renyi.cli.predict import unseen_cells, warn_of_unseen
from support.commandline import FIT, Done, save, save_databases, table


@pytest.mark.parametrize("name", renyi.datasets.names())
def test_fit_and_predict_agree_with_the_library(
    name: str, good: Callable[..., Done]
) -> None:
    X, y = renyi.datasets.load(name)
    clf = renyi.RenyiClassifier().fit(X, y)
    told = good("fit", name, "--out", "m", "--json").json
    done = good("predict", "m.json", name, "--out", "answers.csv", "--json")
    answers = pd.read_csv("answers.csv", dtype=str)["prediction"]
    assert (answers.to_numpy() == clf.predict(X)).all()
    assert told["training_error"] == done.json["error"]["error"]
    assert told["training_error"] == pytest.approx(1 - clf.score(X, y), abs=1e-12)
    assert told["alpha"] == clf.alpha_
    assert told["rows"] == len(X)
    assert sorted(p.name for p in Path().iterdir()) == [
        "answers.csv",
        "m.json",
        "m.log",
        "m.renyi",
    ]
    assert renyi.Marginals.load("m.renyi") == renyi.Marginals.from_data(X, y)


def test_numbers_as_labels_on_request(good: Callable[..., Done]) -> None:
    frame = table().assign(code=lambda t: t["length"].round())
    frame.drop(columns=["id", "length"]).to_parquet("t.parquet")
    given = ("--target", "y", "--categorical", "code", "--out", "m")
    good("fit", "t.parquet", *given)
    labels = renyi.RenyiClassifier.load("m.json").encoder_.categories["code"]
    assert set(labels) == {int(v) for v in frame["code"]}
    note = good("predict", "m.json", "t.parquet").err
    assert "unseen in training" not in note


def test_predict_keeps_order_and_copies_ids(good: Callable[..., Done]) -> None:
    frame = table()
    frame.to_csv("t.csv", index=False)
    good("fit", "t.csv", "--target", "y", "--id", "id", "--out", "m")
    mixed = frame.sample(frac=1, random_state=1)
    mixed = mixed[["length", "y", "colour", "id", "size"]]
    mixed.insert(0, "code", [f" 0{k}.50" for k in range(len(mixed))])
    mixed.to_csv("new.csv", index=False)
    ids = ("--id", "id", "code")
    done = good("predict", "m.json", "new.csv", *ids, "--proba", "--score")
    got = pd.read_csv(io.StringIO(done.out), dtype={"code": str})
    clf = renyi.RenyiClassifier.load("m.json")
    X = mixed[["colour", "size", "length"]]
    assert got.columns.tolist() == [
        *("id", "code", "prediction", "proba_no", "proba_yes", "score")
    ]
    assert got["id"].tolist() == mixed["id"].tolist()
    assert got["code"].tolist() == mixed["code"].tolist()
    assert got["prediction"].tolist() == clf.predict(X).tolist()
    shown = [[float(f"{p:.4g}") for p in row] for row in clf.predict_proba(X)]
    assert got[["proba_no", "proba_yes"]].to_numpy().tolist() == shown
    assert np.allclose(got["score"], clf.decision_function(X), atol=1e-12)
    wrong = int((clf.predict(X) != mixed["y"]).sum())
    training = "these are the training rows, so the error is too low"
    assert f"({wrong} of 200 rows; {training};" in done.err
    mixed[1:].to_csv("fewer.csv", index=False)
    assert " of 199 rows; 95 %" in good("predict", "m.json", "fewer.csv", *ids).err
    pd.concat([mixed, mixed]).to_csv("twice.csv", index=False)
    assert " of 400 rows; 95 %" in good("predict", "m.json", "twice.csv", *ids).err
    other = mixed.assign(y=mixed["y"].to_numpy()[::-1])
    other.to_csv("other.csv", index=False)
    assert " of 200 rows; 95 %" in good("predict", "m.json", "other.csv", *ids).err


def test_predict_ignores_extra_columns_with_one_note(
    good: Callable[..., Done],
) -> None:
    frame = table().drop(columns="id")
    frame.to_csv("t.csv", index=False)
    good("fit", "t.csv", "--target", "y", "--out", "m")
    frame.assign(more=1, colour="green").drop(columns="y").to_csv("n.csv", index=False)
    done = good("predict", "m.json", "n.csv")
    notes = [line for line in done.err.splitlines() if line.startswith("note")]
    assert notes == [
        "note: Ignored 1 column that the model does not use: 'more'.",
        "note: 200 cells have labels unseen in training, in "
        "'colour'; they count as the mean of their column.",
    ]
    assert "error rate" not in done.err


def test_unseen_labels_are_counted_as_cells_whatever_the_order() -> None:
    X = pd.DataFrame({"a": list("xyxy"), "b": list("ppqq"), "c": list("uvvu")})
    clf = RenyiClassifier(order=2, alpha=0.1).fit(X, [0, 1, 0, 1])
    new = pa.table({"a": ["x", "z"], "b": ["r", "s"], "c": ["u", "u"]})
    with pytest.warns(UserWarning, match="^3 cells have .* most of them in 'b'; they"):
        warn_of_unseen(clf, unseen_cells(clf, new))
    with pytest.warns(UserWarning, match="^1 cell has a label .* in 'b'; it counts"):
        one = pa.table({"a": ["x"], "b": ["r"], "c": ["u"]})
        warn_of_unseen(clf, unseen_cells(clf, one))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # x & q & v is new, and its labels are not
        none = pa.table({"a": ["x"], "b": ["q"], "c": ["u"]})
        warn_of_unseen(clf, unseen_cells(clf, none))


def test_empty_cells_are_told_apart_from_unseen_labels(
    good: Callable[..., Done],
) -> None:
    frame = table().drop(columns="id").assign(gap=["u", "?", "v", "u"] * 50)
    good("fit", save(frame), *FIT)
    new = frame.astype({"length": object})
    new.loc[:80, "length"] = ""
    new.loc[:9, "gap"] = "?"  # of which training had some
    new.loc[[3, 5], "colour"] = "green"
    notes = good("predict", "m.json", save(new, "n.csv"), "--json").json["notes"]
    assert notes == [
        "81 empty cells in 'length', where training had none; they count as the mean "
        "of the column.",
        "2 cells have labels unseen in training, in 'colour'; they count as the mean "
        "of their column.",
    ]
    new.loc[:0, "colour"] = "?"
    told = good("certify", "m.json", "--rows", save(new, "n.csv"), "--json").json
    where = "82 empty cells in 2 columns, most of them in 'length', where training had"
    assert where in told["notes"][0]


def test_rows_of_an_unknown_class_are_errors(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id")
    good("fit", save(frame), *FIT)
    frame.loc[:49, "y"] = "maybe"
    frame.loc[60:62, "y"] = "?"
    done = good("predict", "m.json", save(frame, "n.csv"))
    said = RenyiClassifier.load("m.json").predict(frame.drop(columns="y"))
    judged = frame["y"] != "?"
    wrong = int((said != frame["y"])[judged].sum())
    assert wrong > 50
    told = f"({wrong} of 197 rows; 50 of these have a class unknown to the model; 3 "
    assert f"{told}more have no class;" in done.err
    found = good("certify", "m.json", "--rows", "n.csv", "--json").json
    assert found["observed_error"] == wrong / 197
    text = " ".join(good("certify", "m.json", "--rows", "n.csv").out.split())
    assert "50 of the 197 rows have a class that the model does not know" in text
    good("report", "m.json", "--rows", "n.csv", "-o", "r.html")
    record = json.loads(Path("r.report.json").read_text())["heldout"]
    assert record["unknown"] == 50
    assert record["rows"] == 197
    assert np.sum(record["confusion"][:2]) == 147
    assert record["certificate"]["observed_error"] == wrong / 197


def test_probabilities_of_csv_have_four_digits(good: Callable[..., Done]) -> None:
    good("fit", save(table().drop(columns="id")), *FIT)
    given = ("predict", "m.json", "t.csv", "--proba")
    cells = pd.read_csv(io.StringIO(good(*given).out), dtype=str)["proba_yes"]
    assert cells.str.fullmatch(r"0\.0*[1-9]?\d{0,3}|1\.0").all()
    exact = RenyiClassifier.load("m.json").predict_proba(
        table().drop(columns=["id", "y"])
    )[:, 1]
    assert cells.astype(float).to_numpy() == pytest.approx(exact, rel=5.1e-4)
    good(*given, "--out", "p.parquet")
    assert (pd.read_parquet("p.parquet")["proba_yes"] == exact).all()
    rows = good(*given, "--json").json["answers"]
    assert [row["proba_yes"] for row in rows] == exact.tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_parquet_in_and_out(ending: str, good: Callable[..., Done]) -> None:
    frame = table()
    frame["colour"] = frame["colour"].astype("category")
    frame["number"] = pd.array([None, *range(1, len(frame))], "Int64")
    frame.to_parquet("t.parquet")
    aside = ("--id", "id", "number")
    good("fit", "t.parquet", "--target", "y", *aside, "--out", "m")
    good("predict", "m.json", "t.parquet", *aside, "--out", f"a.{ending}")
    read = pd.read_parquet if ending == "parquet" else pd.read_csv
    got = read(f"a.{ending}")
    clf = renyi.RenyiClassifier.load("m.json")
    X = frame[["colour", "size", "length"]]
    assert got["prediction"].tolist() == clf.predict(X).tolist()
    assert got["id"].tolist() == frame["id"].tolist()
    assert got["number"].iloc[1:].astype(int).tolist() == list(range(1, len(frame)))
    frame.to_csv("t.csv", index=False)  # the same rows in another format
    good("predict", "m.json", "t.csv", *aside, "--out", f"b.{ending}")
    assert read(f"b.{ending}")["prediction"].equals(got["prediction"])


def test_label_columns_are_compared_as_text(good: Callable[..., Done]) -> None:
    # In the new file alone, the codes would pass for the numbers 1.5 and 2.
    codes = ["1.50", "2.00", "x"] * 20
    frame = pd.DataFrame({"code": codes, "y": [c == "1.50" for c in codes]})
    frame.to_csv("t.csv", index=False)
    good("fit", "t.csv", "--target", "y", "--out", "m")
    frame[frame["code"] != "x"].to_csv("n.csv", index=False)
    done = good("predict", "m.json", "n.csv")
    # 1 - 0.025 ** (1 / 40) is 8.8 %; half of the rows are of each class
    assert "error rate 0 % (0 of 40 rows; 95 % interval 0 to 8.8 %)" in done.err
    assert "always answering 'False': 50.0 %" in done.err
    assert "note" not in done.err


def test_three_classes(good: Callable[..., Done]) -> None:
    frame = pd.DataFrame({"a": ["x", "y", "z"] * 30, "b": ["u", "v"] * 45})
    frame.assign(y=frame["a"].str.upper()).to_csv("t.csv", index=False)
    text = good("fit", "t.csv", "--target", "y", "--out", "m").out
    assert "X: x" in text
    assert "Z: z" in text
    header = good("predict", "m.json", "t.csv", "--score").out.splitlines()[0]
    assert header == "prediction,score_X,score_Y,score_Z"


def test_names_of_any_kind(good: Callable[..., Done]) -> None:
    odd = ['a, "b"', "größe in m", "été\n2", "日本", "x=%s{}"]
    frame = pd.DataFrame({name: list("uvw") * 30 for name in odd})
    frame["ziel 'y'"] = ["nö" if cell == "u" else "ja" for cell in frame[odd[0]]]
    frame.to_csv("dä ta.csv", index=False)
    done = good("fit", "dä ta.csv", "--target", "ziel 'y'", "--out", "mo del")
    assert "größe in m" in done.out
    assert "renyi predict 'mo del.json'" in done.out
    table = good("predict", "mo del.json", "dä ta.csv", "--id", odd[0], "日本")
    got = pd.read_csv(io.StringIO(table.out))
    assert got.columns.tolist() == [odd[0], "日本", "prediction"]
    assert got["prediction"].tolist() == frame["ziel 'y'"].tolist()


def test_rows_without_target_and_useless_columns(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id").assign(same="s", gone="?", void="")
    frame.loc[:4, "y"] = ["?", "", "?", "?", ""]
    frame.to_csv("t.csv", index=False)
    done = good("fit", "t.csv", "--target", "y", "--out", "m")
    text = " ".join(done.out.split())
    assert "Dropped 5 rows with a missing target 'y'." in text
    assert "Dropped 1 column with one value only: 'same'." in text
    assert "Dropped 2 columns with no value: 'gone', 'void'." in text
    clf = renyi.RenyiClassifier.load("m.json")
    assert clf.encoder_.feature_names == ("colour", "size", "length")
    done = good("predict", "m.json", "t.csv")
    assert len(done.out.splitlines()) == 201
    assert "of 195 rows; 5 more have no class; these are the training" in done.err
    assert good("predict", "m.json", "t.csv", "--json").json["error"]["unjudged"] == 5


def test_blank_lines_of_one_column_are_rows(good: Callable[..., Done]) -> None:
    frame = pd.DataFrame({"a": ["x", "y", ""] * 10, "t": [0, 1, 1] * 10})
    good("fit", save(frame), "--target", "t", "--out", "m")
    Path("n.csv").write_text("a\nx\n\ny\n\n")
    got = good("predict", "m.json", "n.csv").out.split()
    assert got == ["prediction", "0", "1", "1", "1"]


def test_classes_that_are_small_numbers(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id")
    frame["y"] = np.where(frame["y"] == "yes", "1e-7", "0.50")
    told = good("fit", save(frame), "--target", "y", "--out", "m", "--json").json
    assert set(told["classes"]) == {"1e-07", "0.5"}
    frame.loc[:9, "y"] = "0.25"
    done = good("predict", "m.json", save(frame, "n.csv"), "--json").json
    clf = renyi.RenyiClassifier.load("m.json")
    said = clf.predict(frame.drop(columns="y"))[10:]
    truth = frame["y"][10:].map({"1e-7": "1e-07", "0.50": "0.5"})
    wrong = 10 + int((said != truth).sum())
    assert 10 < wrong < 100
    assert done["error"] == {
        "rows": 200,
        "wrong": wrong,
        "error": wrong / 200,
        "unknown": 10,
        "unjudged": 0,
        "training_rows": False,
        "always": str(truth.value_counts().index[0]),
        "baseline": pytest.approx(1 - truth.value_counts().iloc[0] / 200),
    }


def test_classes_that_differ_as_text_only(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id")
    frame["y"] = np.where(frame["y"] == "yes", "0.5", "x0")
    frame.loc[frame.index % 5 == 0, "y"] = "0.50"
    good("fit", save(frame), "--target", "y", "--out", "m")
    done = good("predict", "m.json", "t.csv", "--json").json
    clf = renyi.RenyiClassifier.load("m.json")
    said = clf.predict(frame.drop(columns="y"))
    assert done["error"]["wrong"] == int((said != frame["y"]).sum())


# ---- bad input


def test_predict_with_a_missing_column(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table().drop(columns="id")
    good("fit", save(frame), *FIT)
    save(frame.drop(columns="size"), "n.csv")
    message = bad("predict", "m.json", "n.csv", "--out", "a.csv")
    assert "n.csv has no column 'size'" in message
    save(frame[["colour", "y"]], "two.csv")
    message = bad("predict", "m.json", "two.csv")
    assert "two.csv lacks 2 columns that the model needs: 'size', 'length'." in message
    assert "no column 'pid'" in bad("predict", "m.json", "t.csv", "--id", "pid")
    message = bad("predict", "m.json", "t.csv", "--out", "a.txt")
    assert "a.txt must end in .csv, .csv.gz or .parquet" in message
    save(frame.assign(length="long"), "n.csv")
    assert "'length' is numeric but holds 'long'" in bad("predict", "m.json", "n.csv")


def test_unseen_label_as_an_error(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table().drop(columns="id")
    good("fit", save(frame), *FIT, "--unseen", "error")
    save(frame.assign(colour="green"), "n.csv")
    message = bad("predict", "m.json", "n.csv")
    assert "'colour'" in message
    assert "'green'" in message


@pytest.mark.parametrize("name", ["shop.db", "shop.duckdb"])
def test_rows_of_a_database_are_answered(
    name: str, bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table()
    good("fit", save(frame.drop(columns="id")), *FIT)
    save_databases(frame)
    given = ("--table", "visits", "--where", "size > 2", "--id", "id", "--proba")
    good("predict", "m.json", name, *given, "--out", "answers.csv")
    good(
        "predict",
        "m.json",
        save(frame[frame["size"] > 2]),
        *given[4:],
        "--out",
        "b.csv",
    )
    assert Path("answers.csv").read_text() == Path("b.csv").read_text()
    message = bad("predict", "m.json", name)
    assert f"{name} is a database: name one of its tables with --table" in message
    assert "There is no file 'shops.db'" in bad("predict", "m.json", "shops.db")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_with_spaces_around_are_told_of_where_no_cell_has_them(
    good: Callable[..., Done], ending: str
) -> None:
    table = pd.DataFrame({"a": [" u", "u", "v"] * 10, "y": list("pqq") * 10})
    table.to_parquet("rows.parquet")
    good("fit", "rows.parquet", "--target", "y", "--out", "m")
    getattr(table, f"to_{ending}")(f"new.{ending}", index=False)
    notes = good("predict", "m.json", f"new.{ending}", "--json").json["notes"]
    assert any("' u' in column 'a'" in note for note in notes) == (ending == "csv")
    judged = good("certify", "m.json", "--rows", f"new.{ending}", "--json").json
    told = any("' u' in column 'a'" in note for note in judged["notes"])
    assert told == (ending == "csv")
