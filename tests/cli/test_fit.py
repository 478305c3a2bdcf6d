"""The command fit: what it prints and writes, and what it says of bad input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import renyi
from renyi.certificates.left_out import error_interval
from renyi.formatting import at_most, percent
from support.commandline import FIT, Done, Run, save, table


def test_summary_is_something_to_act_on(good: Callable[..., Done]) -> None:
    text = good("fit", "votes", "--out", "demo").out
    clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes"))
    c = clf.certificate_
    assert text.startswith("Model of 'party' from votes: 435 rows, 16 columns.\n")
    low, high = error_interval(c.loo_error, 435)
    assert (
        f"  Error to expect on new rows     {100 * c.loo_error:.1f} %   "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %)\n"
    ) in text
    assert "    always answering 'democrat'  38.6 %\n" in text
    assert "    best single column            4.4 %   'physician-fee-freeze'\n" in text
    flat = " ".join(text.split())
    bound = at_most(c.bounds["map"], 1)
    assert f"Guarantee: wrong on at most {bound} of any population" in flat
    sharp = at_most(c.bounds["sharp"], 1)
    assert f"{sharp} with --rule sharp, which answers at random where unsure" in flat
    assert "renyi certify demo.json demo.renyi --exact" in text
    assert "training" not in text
    card = clf.scorecard_
    (j,) = card.encoder.columns.places(["physician-fee-freeze"])
    points = dict(
        zip(card.encoder.columns[j].levels.texts, card.z[3 * j :], strict=False)
    )
    assert "importance   points for 'republican'" in text
    assert f"y {points['y']:+.2f}   n {points['n']:+.2f}\n" in text
    assert "Saved   demo.json (model), demo.renyi (pair counts), demo.log\n" in text
    assert "        renyi predict demo.json NEW.csv " in text
    assert max(map(len, text.splitlines())) <= 80


def test_features_that_do_not_help_are_told(good: Callable[..., Done]) -> None:
    frame = table()
    frame["y"] = np.where(np.arange(len(frame)) % 10, "no", "yes")
    one = good("fit", save(frame), "--target", "y", "--id", "id")
    assert "  No better than always answering 'no'.\n" in one.out
    assert "--objective ranking" in one.out
    assert "Guarantee: none useful." in one.out
    assert "--exact" not in one.out  # no rule is known to be better than guessing
    other = good("fit", save(table()), "--target", "y", "--id", "id")
    assert "better than always" not in other.out


def test_long_names_do_not_widen_the_summary(good: Callable[..., Done]) -> None:
    long = table().drop(columns="id").rename(columns={"colour": "colour of the " * 4})
    long["y"] = "the class of those that say " + long["y"]
    long.iloc[:, 0] = "a colour that is rather like " + long.iloc[:, 0]
    long.to_csv("long.csv", index=False)
    text = good("fit", "long.csv", "--target", "y").out
    (line,) = [line for line in text.splitlines() if line.startswith("  colour of")]
    assert len(line) <= 80
    card = renyi.RenyiClassifier().fit(long.drop(columns="y"), long["y"]).scorecard_
    assert f"… {card.z[:2].max():+.2f}" in line


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
    monkeypatch.setattr("renyi.cli.fit.SMALL", 10_000)
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


def test_calibration_is_chosen_and_told(good: Callable[..., Done]) -> None:
    told = {}
    for kind in ("auto", "temperature", "none"):
        words = ("fit", "votes", "--out", kind, "--calibration", kind, "--json")
        told[kind] = good(*words).json
        clf = renyi.RenyiClassifier.load(f"{kind}.json")
        assert clf.calibration == (None if kind == "none" else kind)
    assert told["auto"]["calibration"] == "temperature"
    assert told["none"]["calibration"] is None
    assert told["auto"]["certificate"] == told["none"]["certificate"]
    assert "one temperature" in good("fit", "votes", "--details").out


def test_details_are_printed_on_request(good: Callable[..., Done]) -> None:
    text = good("fit", "votes", "--details").out
    told = good("fit", "votes", "--json").json
    for bound in told["certificate"]["bounds"].values():
        assert f"wrong on at most {at_most(bound, 1):>6}" in text
    assert f"training rows  wrong on {percent(told['training_error'])}" in text
    assert f"AUC {told['left_out']['auc']:.3f}" in text
    assert f"log loss {told['left_out']['log_loss']:.3f}" in text
    for entry in told["left_out"]["by_class"]:
        assert f"{entry['class']:<24} {percent(entry['error']):>7} of" in text
    estimate = told["errors"][0]
    assert estimate["value"] == told["loo_error"]
    assert estimate["low"] < estimate["value"] < estimate["high"]
    short = good("fit", "votes").out
    assert not {"Details", "alpha", "gamma", "AUC"} & {*short.split()}


def test_counts_alone_have_no_estimate(good: Callable[..., Done]) -> None:
    good("marginals", "build", "votes", "--out", "v.renyi")
    text = good("fit", "v.renyi", "--out", "pooled").out
    assert "unknown: pair counts do not contain it\n" in text
    command = "renyi certify pooled.json --rows ITS_ROWS.csv"
    assert f"  Ask one site to run: {command}\n" in text


def test_estimate_is_that_of_the_rule(good: Callable[..., Done]) -> None:
    for rule in ("map", "sharp", "renyi"):
        told = good("fit", "votes", "--rule", rule, "--json").json
        clf = renyi.RenyiClassifier(rule=rule).fit(*renyi.datasets.load("votes"))
        assert told["errors"][0]["about"] == rule
        assert told["loo_error"] == clf.certificate_.loo_error


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


def test_older_marginals_beside_a_new_model_are_noted(
    good: Callable[..., Done],
) -> None:
    good("fit", "votes", "--out", "m")
    before = Path("m.renyi").read_bytes()
    done = good("fit", "votes", "--out", "m", "--no-marginals", "--drop", "crime")
    text = " ".join(done.out.split())
    assert (
        "m.renyi was not overwritten: its marginals are not those of this model" in text
    )
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
    frame["amount"] = rng.choice(10**5, n, replace=False)
    frame["opened"] = 10**9 + 7919 * np.arange(n)
    name = save(frame)
    note = (
        "Columns 'patient no' (980 different values), 'opened' (1,000 different "
        "values) may identify rows, going by 1,000 rows: pass --id 'patient no' opened "
        "if they identify them."
    )
    text = " ".join(good("fit", name, "--target", "y").out.split())
    assert note in text
    assert "'income'" not in text.split("Notes")[1]
    assert "'amount'" not in text.split("Notes")[1]
    made = ("--target", "y", "--out", "v.renyi")
    assert f"note: {note}" in good("marginals", "build", name, *made).err
    for option in ("--id", "--numeric"):
        named = (option, "patient no", "opened")
        assert "different values" not in good("fit", name, "--target", "y", *named).out


def test_all_identifiers_are_named_in_one_message(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    frame = table().assign(row=range(200), mail=[f"{k}@x.org" for k in range(200)])
    name = save(frame.assign(amount=np.arange(200) ** 2 % 9973))
    message = bad("fit", name, "--target", "y")
    assert "Columns 'id' (200 different labels), 'row' (200 different " in message
    assert "--id id row mail, --drop id row mail, --numeric row, --min-count" in message
    good("fit", name, "--target", "y", "--id", "id", "row", "mail")


# ---- bad input


def test_missing_target_column(bad: Callable[..., str]) -> None:
    name = save(table())
    assert "t.csv has no column 'z'" in bad("fit", name, "--target", "z", "--out", "m")
    assert "--target is required" in bad("fit", name, "--out", "m")
    assert "did you mean 'party'" in bad("fit", "votes", "--target", "Party")


def test_target_of_one_class(bad: Callable[..., str]) -> None:
    message = bad("fit", save(table().assign(y="yes")), *FIT)
    assert "'y' has only one class, 'yes'" in message


def test_target_that_is_no_class(bad: Callable[..., str]) -> None:
    name = save(table())
    message = bad("fit", name, "--target", "length", "--out", "m")
    assert "'length'" in message
    assert "not a class" in message
    assert "'id'" in bad("fit", name, "--target", "id", "--out", "m")
    assert "missing in every row" in bad("fit", save(table().assign(y="?")), *FIT)


def test_no_usable_column(bad: Callable[..., str]) -> None:
    frame = table()[["y"]]
    assert "no column but the target 'y'" in bad("fit", save(frame), *FIT)
    message = bad("fit", save(frame.assign(same=1, gone="?")), *FIT)
    assert "No usable column is left in t.csv" in message
    assert "'same', 'gone'" in message


def test_column_of_nearly_all_distinct_values(bad: Callable[..., str]) -> None:
    message = bad("fit", save(table()), *FIT)
    assert "'id'" in message
    assert "--id id, --drop id" in message
    numbered = table().assign(id=range(1000, 1200))
    assert "'id'" in bad("fit", save(numbered), *FIT)


def test_columns_asked_for_that_are_not_there(bad: Callable[..., str]) -> None:
    name = save(table())
    for option in ("--id", "--drop", "--numeric", "--categorical", "--weight"):
        assert "no column 'nope'" in bad("fit", name, *FIT, option, "nope")
    assert "'y' is the target" in bad("fit", name, *FIT, "--drop", "y")
    both = ("--numeric", "size", "--categorical", "size")
    assert "Column 'size' cannot be both" in bad("fit", name, *FIT, *both)
    assert "'colour' is numeric but holds" in bad(
        "fit", name, *FIT, "--numeric", "colour"
    )


def test_unknown_names(bad: Callable[..., str]) -> None:
    message = bad("fit", "votess", "--out", "m")
    assert "Unknown dataset 'votess'" in message
    assert "did you mean 'votes'" in message
    assert "no file 'a/votes.csv'" in bad("fit", "a/votes.csv", *FIT)


# ---- places and files


def test_places_that_cannot_be_written_to(bad: Callable[..., str]) -> None:
    assert "no folder 'no'" in bad("fit", "votes", "--out", "no/m")
    assert "is a folder" in bad("fit", "votes", "--out", ".")
    Path("votes").mkdir()  # the bundled name still means the data set
    assert "is a folder" in bad("fit", "votes", "--out", "votes/")
    made = ("marginals", "build", "votes", "--out")
    assert "v.npz must end in .renyi" in bad(*made, "v.npz")


@pytest.mark.parametrize("name", ["m.json", "m.log", "m.renyi"])
def test_folder_in_the_place_of_a_file(name: str, bad: Callable[..., str]) -> None:
    Path(name).mkdir()
    assert f"{name} is a folder" in bad("fit", "votes", "--out", "m")
    assert [p.name for p in Path().iterdir()] == [name]


def test_errors_name_the_file_that_was_asked_for(
    bad: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = bad("fit", "votes", "--out", "m", code=1)
    assert message == "renyi: error: m.json: no space left on device."


@pytest.mark.parametrize("streamed", [False, True])
def test_decimal_commas_and_integer_targets_are_noted(
    streamed: bool, run: Run, tmp_path: Path
) -> None:
    rows = [f"{k % 7},5;{'ab'[k % 2]};{k % 30}" for k in range(300)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["price;word;age", *rows]) + "\n")
    name = tmp_path / ("t*.csv" if streamed else "t.csv")
    done = run("fit", str(name), "--target", "age", "--json")
    assert done.code == 0, done.err
    notes = json.loads(done.out)["notes"]
    assert sum("'price'" in note and "comma" in note for note in notes) == 1
    assert sum("'age'" in note and "30 different" in note for note in notes) == 1
    assert not any("'word'" in note for note in notes)


def test_a_calibration_of_three_classes_is_refused(bad: Callable[..., str]) -> None:
    save(table(60), "t.csv")
    words = ("fit", "t.csv", "--target", "y", "--calibration", "affine", "--id", "id")
    assert "--calibration affine" in bad(*words)


def test_an_option_is_named_once(bad: Callable[..., str]) -> None:
    save(table(60), "t.csv")
    assert bad("fit", "t.csv", "--target", "y").count("--min-count") == 1


def test_logistic_regression_needs_rows(good: Callable[..., Done], run: Run) -> None:
    words = ("--objective", "logistic")
    text = good("fit", "votes", "--out", "m", "--details", *words).out
    assert "probabilities  the logistic function of the scores" in text
    assert "objective      logistic" in text
    X, y = renyi.datasets.load("votes")
    clf = renyi.RenyiClassifier(objective="logistic").fit(X, y)
    stored = json.loads(Path("m.json").read_text())
    assert stored["certificate"]["bounds"] == clf.certificate_.bounds
    assert good("verify", "m.json", "m.renyi").out.count("proved") == 1
    failed = run("fit", "m.renyi", *words)
    assert failed.code == 2
    assert failed.err == (
        "renyi: error: --objective logistic needs the rows, but only marginals are "
        "given: use 'error', or train on rows.\n"
    )
