"""The command line: what it prints and writes, and what it says of bad input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.archives import read_header
from renyi.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*argv: object) -> Done:
        capsys.readouterr()
        try:
            code = main([str(word) for word in argv])
        except SystemExit as stop:  # argparse's way out
            code = int(stop.code or 0)
        return Done(code, *capsys.readouterr())

    return command


@pytest.fixture
def good(run: Run) -> Callable[..., Done]:
    """Run a command that must succeed."""

    def command(*argv: object) -> Done:
        done = run(*argv)
        assert done.code == 0, done.err
        return done

    return command


@pytest.fixture
def bad(run: Run) -> Callable[..., str]:
    """Run a command that must fail, in one sentence, and leave no trace."""

    def command(*argv: object) -> str:
        before = contents(Path.cwd())
        done = run(*argv)
        assert done.code == 2
        assert done.out == ""
        assert "Traceback" not in done.err
        *notes, last = done.err.splitlines()
        assert all(line.startswith("note: ") for line in notes)
        assert last.startswith("renyi: error: ")
        assert contents(Path.cwd()) == before
        return last

    return command


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def votes() -> pd.DataFrame:
    X, y = renyi.datasets.load("votes")
    return X.assign(party=y)


def table(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Rows of labels and numbers with two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    flip = rng.random(n) < 0.2
    return pd.DataFrame(
        {
            "id": [f"p{k:04}" for k in range(n)],
            "colour": np.where(flip ^ (y == 1), "red", "blue"),
            "size": rng.integers(1, 6, n),
            "length": rng.normal(y, 1).round(3),
            "y": np.where(y == 1, "yes", "no"),
        }
    )


# ---- fit and predict


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


def test_summary_is_something_to_act_on(good: Callable[..., Done]) -> None:
    text = good("fit", "votes", "--out", "demo").out
    clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes"))
    c = clf.certificate_
    assert "'party' from 435 rows" in text
    assert "16 with 48 categories" in text
    assert f"{100 * c.loo_error:.1f} %" in text
    for bound in c.bounds.values():
        assert f"errs at most {100 * bound:6.1f} %" in text
    assert "physician-fee-freeze" in text
    card = clf.scorecard_
    (j,) = card.encoder.columns.places(["physician-fee-freeze"])
    points = dict(
        zip(card.encoder.columns[j].levels.texts, card.z[3 * j :], strict=False)
    )
    assert f"republican: y {points['y']:+.2f}, " in text
    assert f", democrat: n {-points['n']:+.2f}\n" in text
    assert "renyi predict demo.json" in text
    assert max(map(len, text.splitlines())) <= 80


def test_long_names_do_not_widen_the_summary(good: Callable[..., Done]) -> None:
    long = table().drop(columns="id").rename(columns={"colour": "colour of the " * 4})
    long["y"] = "the class of those that say " + long["y"]
    long.iloc[:, 0] = "a colour that is rather like " + long.iloc[:, 0]
    long.to_csv("long.csv", index=False)
    text = good("fit", "long.csv", "--target", "y").out
    (line,) = [line for line in text.splitlines() if "  colour of" in line]
    assert len(line) == 80
    card = renyi.RenyiClassifier().fit(long.drop(columns="y"), long["y"]).scorecard_
    above = np.abs(card.z[:2])
    assert line.endswith(f"… {above.max():+.2f}")


def test_doubtful_certificate_shows_no_bound(good: Callable[..., Done]) -> None:
    done = good("fit", "promoters", "--out", "m")
    clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("promoters"))
    assert clf.certificate_.doubtful
    for text in (done.out, good("certify", "m.json", "m.renyi").out):
        assert "at most" not in text
        estimate = f"new rows: {100 * clf.certificate_.loo_error:.1f} % errors"
        assert estimate in text
        assert "228 categories and only 106 rows" in " ".join(text.split())
    assert good("certify", "m.json", "m.renyi", "--json").json["doubtful"] is True


def test_log_holds_command_settings_and_summary(good: Callable[..., Done]) -> None:
    done = good("fit", "votes", "--out", "m", "--alpha", "0.25")
    log = Path("m.log").read_text()
    assert "command   renyi fit votes --out m --alpha 0.25" in log
    assert f"renyi     {renyi.__version__}" in log
    assert "option    alpha = 0.25" in log
    assert log.endswith(done.out)


def test_nothing_is_written_without_out(good: Callable[..., Done]) -> None:
    assert "--out PREFIX" in good("fit", "votes").out
    assert list(Path().iterdir()) == []


def test_marginals_on_request(good: Callable[..., Done]) -> None:
    good("fit", "votes", "--out", "a", "--no-marginals")
    assert not Path("a.renyi").exists()
    good("fit", "votes", "--out", "b", "--marginals", "--class-conditional")
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y, class_conditional=True)
    assert renyi.Marginals.load("b.renyi") == m


def test_large_marginals_only_on_request(
    good: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("renyi.commands._SMALL", 10_000)
    done = good("fit", "votes", "--out", "a")
    assert "marginals were not written" in " ".join(done.out.split())
    assert not Path("a.renyi").exists()
    good("fit", "votes", "--out", "b", "--marginals")
    assert renyi.Marginals.load("b.renyi").n == 435


def test_options_reach_the_classifier(good: Callable[..., Done]) -> None:
    table().to_csv("t.csv", index=False)
    good(
        *("fit", "t.csv", "--target", "y", "--id", "id", "--out", "m"),
        *("--alpha", "0.5", "--rule", "sharp", "--class-weight", "balanced"),
        *("--no-intercept", "--seed", "7", "--bins", "3", "--unseen", "error"),
        *("--missing", "blue", "--min-count", "2", "--numeric", "size"),
    )
    clf = renyi.RenyiClassifier.load("m.json")
    assert (clf.alpha_, clf.rule, clf.class_weight) == (0.5, "sharp", "balanced")
    assert (clf.fit_intercept, clf.random_state) == (False, 7)
    encoder = clf.encoder_
    assert (encoder.bins, encoder.unseen, encoder.min_count) == (3, "error", 2)
    assert encoder.missing == ("?", "", "blue")
    assert encoder.categories["colour"] == ("red", None)
    kinds = {column.name: column.kind for column in encoder.columns}
    assert kinds == {"colour": "label", "size": "number", "length": "number"}


def test_numbers_as_labels_on_request(good: Callable[..., Done]) -> None:
    frame = table().assign(code=lambda t: t["length"].round())
    frame.drop(columns=["id", "length"]).to_parquet("t.parquet")
    given = ("--target", "y", "--categorical", "code", "--out", "m")
    good("fit", "t.parquet", *given)
    labels = renyi.RenyiClassifier.load("m.json").encoder_.categories["code"]
    assert set(labels) == {int(v) for v in frame["code"]}
    note = good("predict", "m.json", "t.parquet").err
    assert "training never saw" not in note


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
    assert np.allclose(got[["proba_no", "proba_yes"]], clf.predict_proba(X), atol=1e-12)
    assert np.allclose(got["score"], clf.decision_function(X), atol=1e-12)
    wrong = int((clf.predict(X) != mixed["y"]).sum())
    assert f"({wrong} of 200 rows)" in done.err


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
        "note: 200 cells hold labels that training never saw, most of them in "
        "'colour'; they count as the mean of their column.",
    ]
    assert "error rate" not in done.err


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
    assert "error rate 0.0 %" in done.err
    assert "note" not in done.err


def test_weights_count_as_repetition(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id")
    weights = np.arange(len(frame)) % 3
    frame.assign(w=weights).to_csv("w.csv", index=False)
    repeated = frame.loc[frame.index.repeat(weights)]
    repeated.to_csv("r.csv", index=False)
    common = ("--target", "y", "--alpha", "loo", "--json")
    one = good("fit", "w.csv", "--weight", "w", *common, "--out", "w").json
    two = good("fit", "r.csv", *common, "--out", "r").json
    assert one["rows"] == two["rows"] == weights.sum()
    for key in ("alpha", "loo_error", "training_error"):
        assert one[key] == pytest.approx(two[key])
    assert one["certificate"]["gamma"] == pytest.approx(two["certificate"]["gamma"])
    m = renyi.Marginals.load("w.renyi")
    assert (m.counts == renyi.Marginals.load("r.renyi").counts).all()


@pytest.mark.parametrize("values", [(0, 1), (False, True), ("7", "11"), (2.0, 3.0)])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_kinds_of_targets(
    values: tuple[Any, Any], ending: str, good: Callable[..., Done]
) -> None:
    frame = table().drop(columns="id")
    frame["y"] = [values[label == "yes"] for label in frame["y"]]
    if ending == "csv":
        frame.to_csv("t.csv", index=False)
    else:
        frame.to_parquet("t.parquet")
    told = good("fit", f"t.{ending}", "--target", "y", "--out", "m", "--json").json
    assert len(told["classes"]) == 2
    assert told["training_error"] < 0.3
    done = good("predict", "m.json", f"t.{ending}", "--json").json
    assert done["error"]["error"] == told["training_error"]
    assert renyi.Marginals.load("m.renyi").n == 200


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


def test_byte_order_mark_and_windows_lines(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id")
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("excel.csv", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    common = ("--target", "y", "--json")
    plain, excel = (good("fit", f"{f}.csv", *common).json for f in ("plain", "excel"))
    assert plain["important"] == excel["important"]


def test_rows_without_target_and_useless_columns(good: Callable[..., Done]) -> None:
    frame = table().drop(columns="id").assign(same="s", gone="?", void="")
    frame.loc[:4, "y"] = ["?", "", "?", "?", ""]
    frame.to_csv("t.csv", index=False)
    done = good("fit", "t.csv", "--target", "y", "--out", "m")
    text = " ".join(done.out.split())
    assert "5 rows were left out: their target 'y' is missing." in text
    assert "Dropped 1 column with one value only: 'same'." in text
    assert "Dropped 2 columns with no value: 'gone', 'void'." in text
    clf = renyi.RenyiClassifier.load("m.json")
    assert clf.encoder_.feature_names == ("colour", "size", "length")
    done = good("predict", "m.json", "t.csv")
    assert len(done.out.splitlines()) == 201
    assert "of 195 rows; 5 more have no class of the model)" in done.err
    assert good("predict", "m.json", "t.csv", "--json").json["error"]["unjudged"] == 5


# ---- marginals


def test_fit_from_marginals_alone(good: Callable[..., Done]) -> None:
    good("marginals", "build", "votes", "--out", "v.renyi")
    told = good("fit", "v.renyi", "--alpha", "0.02", "--out", "m", "--json").json
    rows = good("fit", "votes", "--alpha", "0.02", "--json").json
    assert told["certificate"]["gamma"] == pytest.approx(rows["certificate"]["gamma"])
    assert told["classes"] == pytest.approx(rows["classes"])
    assert "marginals" not in told["written"]
    assert told["training_error"] is None
    error = good("predict", "m.json", "votes", "--json").json["error"]
    assert error["error"] == rows["training_error"]


def test_other_target_and_fewer_features(good: Callable[..., Done]) -> None:
    X, y = renyi.datasets.load("kr-vs-kp")
    good("marginals", "build", "kr-vs-kp", "--out", "k.renyi")
    first, second = X.columns[:2]
    asked = ("--target", first, "--drop", second, "--out", "m", "--json")
    told = good("fit", "k.renyi", *asked).json
    assert told["target"] == first
    clf = renyi.RenyiClassifier.load("m.json")
    assert set(clf.encoder_.feature_names) == {*X.columns[2:], y.name}


def test_merge_of_halves_and_subtraction(good: Callable[..., Done]) -> None:
    frame = votes()
    for name, rows in (("all", frame), ("a", frame[:200]), ("b", frame[200:])):
        rows.to_csv(f"{name}.csv", index=False)
        made = ("--target", "party", "--out", f"{name}.renyi")
        good("marginals", "build", f"{name}.csv", *made)
    good("marginals", "merge", "a.renyi", "b.renyi", "--out", "sum.renyi")
    good("marginals", "subtract", "all.renyi", "a.renyi", "--out", "rest.renyi")
    load = renyi.Marginals.load
    assert load("sum.renyi") == load("all.renyi")
    assert load("rest.renyi") == load("b.renyi")
    assert load("sum.renyi").provenance["files"] == ["a.renyi", "b.renyi"]


def test_build_with_the_bins_of_another(good: Callable[..., Done]) -> None:
    table(seed=1).to_csv("a.csv", index=False)
    table(seed=2).to_csv("b.csv", index=False)
    common = ("--target", "y", "--id", "id")
    good("fit", "a.csv", *common, "--out", "m")
    for source in ("m.json", "m.renyi"):
        built = ("--encoder", source, "--out", "b.renyi", "--target", "y")
        good("marginals", "build", "b.csv", *built)
        good("marginals", "merge", "m.renyi", "b.renyi", "--out", "ab.renyi")
        assert renyi.Marginals.load("ab.renyi").n == 400
    clf, m = renyi.RenyiClassifier.load("m.json"), renyi.Marginals.load("b.renyi")
    told = good("certify", "m.json", "b.renyi", "--json").json
    assert told["gamma"] == renyi.certify(clf, m).gamma


def test_show(good: Callable[..., Done]) -> None:
    good("marginals", "build", "votes", "--out", "v.renyi")
    m = renyi.Marginals.load("v.renyi")
    assert good("marginals", "show", "v.renyi").out.strip() == str(m)
    pair = ("--pair", "crime", "party")
    block = m.block("crime", "party")
    assert good("marginals", "show", "v.renyi", *pair).out.strip() == block.to_string()
    told = good("marginals", "show", "v.renyi", *pair, "--json").json
    assert told["counts"] == block.to_numpy().tolist()
    told = good("marginals", "show", "v.renyi", "--json").json
    assert told["rows"] == 435
    assert told["columns"][-1]["counts"] == {"democrat": 267, "republican": 168}


def test_datasets(good: Callable[..., Done]) -> None:
    text = good("datasets").out
    told = good("datasets", "--json").json
    assert [entry["name"] for entry in told] == list(renyi.datasets.names())
    assert all(name in text for name in renyi.datasets.names())
    assert max(map(len, text.splitlines())) <= 80


# ---- bad input


def save(frame: pd.DataFrame, name: str = "t.csv") -> str:
    frame.to_csv(name, index=False)
    return name


FIT = ("--target", "y", "--out", "m")


def test_missing_target_column(bad: Callable[..., str]) -> None:
    name = save(table())
    assert "t.csv has no column 'z'" in bad("fit", name, "--target", "z", "--out", "m")
    assert "--target is missing" in bad("fit", name, "--out", "m")
    assert "did you mean 'party'" in bad("fit", "votes", "--target", "Party")


def test_target_of_one_class(bad: Callable[..., str]) -> None:
    message = bad("fit", save(table().assign(y="yes")), *FIT)
    assert "'y' of t.csv has only one class, 'yes'" in message


def test_target_that_is_no_class(bad: Callable[..., str]) -> None:
    name = save(table())
    message = bad("fit", name, "--target", "length", "--out", "m")
    assert "'length'" in message
    assert "not a class" in message
    assert "'id'" in bad("fit", name, "--target", "id", "--out", "m")
    assert "missing in every row" in bad("fit", save(table().assign(y="?")), *FIT)


def test_empty_files(bad: Callable[..., str]) -> None:
    Path("e.csv").touch()
    assert "e.csv is empty" in bad("fit", "e.csv", *FIT)
    Path("h.csv").write_text("a,y\n")
    assert "h.csv has a header but no rows" in bad("fit", "h.csv", *FIT)


def test_header_without_names(bad: Callable[..., str]) -> None:
    Path("d.csv").write_text(",,\n,,\n")
    assert "d.csv is empty" in bad("fit", "d.csv", "--target", "a")


def test_no_usable_column(bad: Callable[..., str]) -> None:
    frame = table()[["y"]]
    assert "No usable column is left in t.csv" in bad("fit", save(frame), *FIT)
    message = bad("fit", save(frame.assign(same=1, gone="?")), *FIT)
    assert "No usable column is left in t.csv: 'same', 'gone'" in message


def test_column_of_nearly_all_distinct_values(bad: Callable[..., str]) -> None:
    message = bad("fit", save(table()), *FIT)
    assert "'id'" in message
    assert "--id or --drop" in message
    numbered = table().assign(id=range(1000, 1200))
    assert "'id'" in bad("fit", save(numbered), *FIT)


@pytest.mark.parametrize(
    ("weight", "named"), [("inf", "inf"), (-2, "-2"), ("heavy", "heavy"), ("?", "nan")]
)
def test_weights_that_are_none(
    weight: object, named: str, bad: Callable[..., str]
) -> None:
    frame = table().drop(columns="id").assign(w=1).astype({"w": object})
    frame.loc[3, "w"] = weight
    message = bad("fit", save(frame), "--weight", "w", *FIT)
    assert "'w'" in message
    assert named in message


def test_columns_asked_for_that_are_not_there(bad: Callable[..., str]) -> None:
    name = save(table())
    for option in ("--id", "--drop", "--numeric", "--categorical", "--weight"):
        assert "no column 'nope'" in bad("fit", name, *FIT, option, "nope")
    assert "'y' is the target" in bad("fit", name, *FIT, "--drop", "y")
    both = ("--numeric", "size", "--categorical", "size")
    assert "'size' cannot be numeric and categorical" in bad("fit", name, *FIT, *both)
    assert "'colour' is numeric but holds" in bad(
        "fit", name, *FIT, "--numeric", "colour"
    )


def test_unknown_names(bad: Callable[..., str]) -> None:
    message = bad("fit", "votess", "--out", "m")
    assert "Unknown dataset 'votess'" in message
    assert "did you mean 'votes'" in message
    assert "no file 'a/votes.csv'" in bad("fit", "a/votes.csv", *FIT)


def test_places_that_cannot_be_written_to(bad: Callable[..., str]) -> None:
    assert "no folder 'no'" in bad("fit", "votes", "--out", "no/m")
    assert "is a folder" in bad("fit", "votes", "--out", ".")
    Path("votes").mkdir()  # the bundled name still means the data set
    assert "is a folder" in bad("fit", "votes", "--out", "votes/")
    made = ("marginals", "build", "votes", "--out")
    assert "v.npz must end in .renyi" in bad(*made, "v.npz")


def test_nothing_appears_when_writing_fails(
    bad: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: renyi.Marginals, path: Path) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(renyi.Marginals, "save", full)
    assert "no space left" in bad("fit", "votes", "--out", "m")


@pytest.mark.parametrize("name", ["m.json", "m.log", "m.renyi"])
def test_folder_in_the_place_of_a_file(name: str, bad: Callable[..., str]) -> None:
    Path(name).mkdir()
    assert f"{name} is a folder" in bad("fit", "votes", "--out", "m")
    assert [p.name for p in Path().iterdir()] == [name]


def test_folder_in_the_place_of_what_is_not_written(good: Callable[..., Done]) -> None:
    Path("m.renyi").mkdir()
    good("fit", "votes", "--out", "m", "--no-marginals")
    assert Path("m.json").is_file()


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("links", [True, False])
def test_moves_are_undone_when_one_fails(
    old: bytes | None,
    links: bool,
    bad: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if old is not None:
        for name in ("m.json", "m.renyi"):
            Path(name).write_bytes(old)
            Path(name).chmod(0o640)
    move = os.replace

    def fail_at_the_log(source: Any, place: Any) -> None:
        if Path(place) == Path("m.log"):
            raise OSError(5, "Input/output error", str(source))
        move(source, place)

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "replace", fail_at_the_log)
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    assert "m.log: input/output error" in bad("fit", "votes", "--out", "m")
    left = {p.name: p.stat().st_mode & 0o777 for p in Path().iterdir()}
    assert left == ({} if old is None else dict.fromkeys(("m.json", "m.renyi"), 0o640))


def test_errors_name_the_file_that_was_asked_for(
    bad: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = bad("fit", "votes", "--out", "m")
    assert message == "renyi: error: m.json: no space left on device."


def test_older_marginals_beside_a_new_model_are_noted(
    good: Callable[..., Done],
) -> None:
    good("fit", "votes", "--out", "m")
    before = Path("m.renyi").read_bytes()
    done = good("fit", "votes", "--out", "m", "--no-marginals", "--drop", "crime")
    text = " ".join(done.out.split())
    assert "m.renyi was there before and stays: its marginals are not those of" in text
    assert Path("m.renyi").read_bytes() == before
    done = good("fit", "m.renyi", "--out", "m")  # these are its marginals
    assert "was there before" not in done.out
    assert "was there before" not in good("fit", "votes", "--out", "m").out


def test_integers_that_may_identify_rows_are_noted(good: Callable[..., Done]) -> None:
    rng = np.random.default_rng(0)
    n = 1000
    patient = rng.choice(10**9, n, replace=False)
    patient[:20] = patient[20:40]  # seen twice
    frame = table(n).drop(columns="id").assign(**{"patient no": patient})
    frame["income"] = rng.integers(0, 500, n)
    name = save(frame)
    note = (
        "'patient no' has 980 different values in 1,000 rows; if it identifies rows, "
        "pass --id 'patient no'."
    )
    text = " ".join(good("fit", name, "--target", "y").out.split())
    assert note in text
    assert "'income'" not in text.split("Notes")[1]
    made = ("--target", "y", "--out", "v.renyi")
    assert f"note: {note}" in good("marginals", "build", name, *made).err
    for option in ("--id", "--numeric"):
        text = good("fit", name, "--target", "y", option, "patient no").out
        assert "different values" not in text


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
    wrong = int((said != truth).sum())
    assert 0 < wrong < 100
    assert done["error"] == {
        "rows": 190,
        "wrong": wrong,
        "error": wrong / 190,
        "unjudged": 10,
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


def test_predict_with_a_missing_column(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table().drop(columns="id")
    good("fit", save(frame), *FIT)
    save(frame.drop(columns="size"), "n.csv")
    message = bad("predict", "m.json", "n.csv", "--out", "a.csv")
    assert "n.csv has no column 'size'" in message
    assert "no column 'pid'" in bad("predict", "m.json", "t.csv", "--id", "pid")
    assert "a.txt must end in" in bad("predict", "m.json", "t.csv", "--out", "a.txt")
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


def test_incompatible_marginals(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table().drop(columns="id")
    save(frame, "a.csv")
    save(frame.assign(length=frame["length"] * 2), "b.csv")
    save(frame.drop(columns="size"), "c.csv")
    for name in "abc":
        made = ("--target", "y", "--out", f"{name}.renyi")
        good("marginals", "build", f"{name}.csv", *made)
    for other, culprit in (("b", "'length'"), ("c", "'size'")):
        message = bad(
            "marginals", "merge", "a.renyi", f"{other}.renyi", "--out", "x.renyi"
        )
        assert f"{other}.renyi does not fit a.renyi" in message
        assert culprit in message


def test_negative_subtraction(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table().drop(columns=["id", "length"])
    save(frame, "a.csv")
    save(pd.concat([frame[:120], frame[:120]]), "b.csv")
    for name in "ab":
        made = ("--target", "y", "--out", f"{name}.renyi")
        good("marginals", "build", f"{name}.csv", *made)
    less = ("marginals", "subtract")
    message = bad(*less, "a.renyi", "b.renyi", "--out", "x.renyi")
    assert "b.renyi cannot be taken out of a.renyi" in message
    assert "negative" in message
    message = bad(*less, "a.renyi", "a.renyi", "--out", "x.renyi")
    assert "Nothing is left" in message


@pytest.mark.parametrize("name", ["m.json", "m.renyi"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "emptied"])
def test_damaged_files(
    name: str, damage: str, bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    good("fit", "votes", "--out", "m")
    raw = Path(name).read_bytes()
    if damage == "truncated":
        changed = raw[: len(raw) // 2]
    elif damage == "emptied":
        changed = b""
    elif name == "m.json":
        changed = raw.replace(b'"count', b'"kount').replace(b"democrat", b"demokrat")
    else:
        middle = len(raw) // 2
        changed = raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]
    assert changed != raw
    Path(name).write_bytes(changed)
    assert name in bad("certify", "m.json", "m.renyi")
    if name == "m.json":
        assert name in bad("predict", name, "votes", "--out", "a.csv")
    else:
        assert name in bad("fit", name, "--out", "x")
        assert name in bad("marginals", "merge", name, name, "--out", "x.renyi")


def test_small_file_that_declares_many_categories(bad: Callable[..., str]) -> None:
    golden = Path(__file__).parent / "golden" / "marginals-v1.renyi"
    told = read_header(golden, "renyi-marginals")
    text = json.dumps({**told, "encoder": renyi.Encoder().to_dict()}).encode()
    header, counts = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array(header, np.frombuffer(text, np.uint8))
    shape = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
    np.lib.format.write_array_header_1_0(counts, shape)
    with zipfile.ZipFile("big.renyi", "w", zipfile.ZIP_DEFLATED) as big:
        big.writestr("header.npy", header.getvalue())
        big.writestr("counts.npy", counts.getvalue())
    assert Path("big.renyi").stat().st_size < 1024
    bad("marginals", "show", "v.csv")  # pays for the imports
    tracemalloc.start()
    message = bad("marginals", "show", "big.renyi")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "big.renyi" in message
    assert "'counts.npy' has 128 bytes, but its columns ask for 12 × 12" in message
    assert peak < 50e6


def test_options_that_do_not_apply(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    good("fit", "votes", "--out", "m")
    assert "--bins is for tables" in bad("fit", "m.renyi", "--bins", "3")
    assert "no column 'nope'" in bad("fit", "m.renyi", "--target", "nope")
    assert "missing in some rows" in bad("fit", "m.renyi", "--target", "crime")
    made = ("--out", "x.renyi", "--encoder", "m.json", "--bins", "3")
    assert "--bins cannot be set" in bad("marginals", "build", "votes", *made)
    assert "holds marginals" in bad("predict", "m.json", "m.renyi")
    assert "no column 'x'" in bad(
        "marginals", "show", "m.renyi", "--pair", "x", "crime"
    )


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ((), "COMMAND"),
        (("fit",), "FILE"),
        (("fit", "--drop", "a", "votes"), "put it before options"),
        (("fly",), "fly"),
        (("fit", "votes", "--alpha", "-1"), "'-1'"),
        (("fit", "votes", "--alpha", "much"), "'much'"),
        (("fit", "votes", "--rule", "best"), "best"),
        (("fit", "votes", "--bins", "1"), "--bins: it takes a whole number from 2"),
        (("fit", "votes", "--bins", "10000000000"), "--bins"),
        (("fit", "votes", "--bins", "2.5"), "'2.5'"),
        (("fit", "votes", "--min-count", "0"), "--min-count"),
        (("fit", "votes", "--seed", "-1"), "--seed: it takes a whole number from 0"),
        (("fit", "votes", "--seed", "4294967296"), "--seed"),
        (("marginals", "build", "votes", "--out", "v.renyi", "--bins", "0"), "--bins"),
    ],
)
def test_wrong_arguments(
    argv: tuple[str, ...], named: str, bad: Callable[..., str]
) -> None:
    assert named in bad(*argv)


def test_warnings_of_libraries_stay_out_of_sight(
    good: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    fit = renyi.RenyiClassifier.fit

    def noisy(self: Any, *args: Any) -> Any:
        warnings.warn("something deep inside", RuntimeWarning, stacklevel=1)
        return fit(self, *args)

    monkeypatch.setattr(renyi.RenyiClassifier, "fit", noisy)
    done = good("fit", "votes", "--out", "m")
    assert "deep inside" not in done.out + done.err
    assert "something deep inside" in Path("m.log").read_text()


def test_wrong_numbers_are_told_before_any_work(
    bad: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("renyi.commands.run", lambda _: pytest.fail("work was done"))
    assert "--seed" in bad("fit", "votes", "--seed", "-1", "--rule", "sharp")
    assert "--bins" in bad("fit", "votes", "--bins", "1")


@pytest.mark.parametrize(
    "error", [StopIteration(), RecursionError("deep"), AssertionError(), KeyError("k")]
)
def test_surprises_are_told_in_a_sentence(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("renyi.commands.run", fail)
    done = run("datasets")
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert line.startswith("renyi: error: this should not have happened: ")
    assert type(error).__name__ in line
    assert "RENYI_DEBUG=1" in line
    monkeypatch.setenv("RENYI_DEBUG", "1")
    with pytest.raises(type(error)):
        main(["datasets"])


def test_interruption_and_lack_of_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr("renyi.commands.run", stop)
    error: BaseException = KeyboardInterrupt()
    assert run("datasets").code == 130
    error = MemoryError("Unable to allocate 3 TiB")
    done = run("datasets")
    assert done.code == 2
    assert "memory ran out: Unable to allocate 3 TiB." in done.err


# ---- in a process of its own


# The commands run in other folders, where a relative PYTHONPATH would be lost.
HERE = os.environ | {"PYTHONPATH": str(Path(renyi.__file__).parents[1])}


def process(
    *argv: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "renyi", *argv],
        capture_output=True,
        cwd=cwd,
        encoding="utf-8",
        env=HERE | variables,
    )


def test_as_a_module(tmp_path: Path) -> None:
    done = process("fit", "votes", "--out", "m", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Certificate" in done.stdout
    done = process("predict", "m.json", "nope.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("renyi: error: There is no file 'nope.csv'")


def test_terminal_without_the_letters(tmp_path: Path) -> None:
    frame = pd.DataFrame({"größe": ["ä", "ö"] * 30, "y": ["é", "o"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    argv = ("fit", "t.csv", "--target", "y", "--out", "m")
    done = process(*argv, cwd=tmp_path, **ascii_only)
    assert done.returncode == 0
    assert "gr\\xf6\\xdfe" in done.stdout
    done = process("predict", "m.json", "t.csv", cwd=tmp_path, **ascii_only)
    assert done.stdout.splitlines()[:3] == ["prediction", "é", "o"]


def test_reader_that_goes_away(tmp_path: Path) -> None:
    assert process("fit", "kr-vs-kp", "--out", "m", cwd=tmp_path).returncode == 0
    child = subprocess.Popen(
        [sys.executable, "-m", "renyi", "predict", "m.json", "kr-vs-kp", "--proba"],
        cwd=tmp_path,
        env=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    noise = child.stderr.read().decode()
    child.stderr.close()
    assert child.wait(timeout=60) == 0
    assert noise == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux alone")
def test_output_that_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "renyi", "datasets"],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=HERE,
        )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("renyi: error: ")
    assert "no space left on device" in line.lower()
