"""`renyi fit --confidence`: rows that are held out, and what they prove."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from scipy.stats import beta

import renyi
from renyi.cli import fit as fit_command
from renyi.sources import arrow, csv
from renyi.sources.run import Split
from support import warehouses
from support.commandline import FIT, Done, save, save_databases, table
from support.postgres import address_of

postgres = warehouses.postgres

CONFIDENCE = ("--id", "id", "--confidence", "0.9")
COLUMNS = ["colour", "size", "length"]
Good = Callable[..., Done]


def heldout_rows(n: int, share: float = 0.3, seed: int = 0) -> Any:
    return Split(share, seed).heldout(0, 0, n)


def document(name: str = "m.json") -> Any:
    return json.loads(Path(name).read_text())


def model_of(name: str = "m.json") -> Any:
    """All of a model file but what held-out rows prove."""
    known = document(name)
    return {k: v for k, v in known.items() if k not in ("heldout", "checksum")}


# ---- which rows


@pytest.mark.parametrize("share", [0.05, 0.3, 0.31, 0.9])
def test_a_share_of_the_rows_is_held_out_whatever_is_read_at_once(share: float) -> None:
    split = Split(share, 7)
    whole = split.heldout(0, 0, 5_003)
    assert abs(whole.sum() - share * 5_003) < 20
    parts = [split.heldout(0, k, min(37, 5_003 - k)) for k in range(0, 5_003, 37)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(~split.training(0, 0, 5_003), whole)
    for other in (split._replace(seed=8).heldout(0, 0, 5_003),
                  split.heldout(1, 0, 5_003)):  # fmt: skip
        assert (other != whole).any()


def test_every_row_of_a_stratum_is_held_out_equally_often() -> None:
    counts = sum(Split(0.3, seed).heldout(0, 0, 40).astype(int) for seed in range(2000))
    expected = 0.3 * 2000
    assert np.abs(counts - expected).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


# ---- the model and its bound


def test_the_model_is_that_of_the_other_rows(good: Good) -> None:
    frame = table(300)
    place = save(frame)
    done = good("fit", place, *FIT, *CONFIDENCE, "--json").json
    held = heldout_rows(300)
    X, y = frame[COLUMNS], frame["y"]
    clf = renyi.RenyiClassifier().fit(X[~held], y[~held])
    loaded = renyi.RenyiClassifier.load("m.json")
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))
    assert done["rows"] == (~held).sum()
    assert done["certificate"]["basis"] == "marginals"
    expected = renyi.certify(clf, X[held], y[held], confidence=0.9)
    assert done["heldout"]["bounds"] == expected.bounds
    wrong = int((clf.predict(X[held]) != y[held]).sum())
    n = int(held.sum())
    assert done["heldout"]["n"] == n
    assert done["heldout"]["observed_error"] == wrong / n
    upper = beta.ppf(0.9, wrong + 1, n - wrong)
    assert done["heldout"]["sampled_error"] == pytest.approx(upper, rel=1e-9)
    m = renyi.Marginals.load("m.renyi")
    assert m.n == (~held).sum()
    assert m == renyi.Marginals.from_data(X[~held], y[~held])


def test_share_and_seed(good: Good) -> None:
    place = save(table(300))
    n = {}
    for more in ((), ("--seed", "0"), ("--seed", "1"), ("--holdout", "0.5")):
        told = good("fit", place, *FIT, *CONFIDENCE, *more, "--json").json
        n[more] = (told["heldout"]["n"], document()["scorecard"])
    assert n[()] == n["--seed", "0"]
    assert n[()][1] != n["--seed", "1"][1]
    assert n[()][0] == 90
    assert n["--holdout", "0.5"][0] == 150


def test_no_cell_of_a_row_held_out_changes_the_model(good: Good) -> None:
    frame = table(400)
    # Rare labels, a column that is constant in training, numbers with few values.
    frame["rare"] = np.where(np.arange(400) % 40 == 0, "rare", "often")
    frame["same"] = "s"
    frame["few"] = np.arange(400) % 7
    held = heldout_rows(400)
    words = (*FIT, *CONFIDENCE, "--min-count", "8")
    good("fit", save(frame), *words)
    before = model_of()
    bound = document()["heldout"]
    other = frame.copy()
    changed = {"colour": "green", "size": 77, "length": 1e6, "rare": "rare",
               "same": "t", "y": "yes"}  # fmt: skip
    for name, value in changed.items():
        other.loc[held, name] = value
    other.loc[held, "few"] = np.arange(held.sum()) + 100
    good("fit", save(other), *words)
    assert model_of() == before
    assert document()["heldout"] != bound


def test_a_word_among_numbers_that_is_held_out_is_named(
    bad: Callable[..., str],
) -> None:
    """Training sees numbers, and the model could not answer such a row either."""
    frame = table(300).astype({"length": object})
    frame.loc[np.flatnonzero(heldout_rows(300))[3], "length"] = "tall"
    told = bad("fit", save(frame), *FIT, *CONFIDENCE)
    assert "'length'" in told and "'tall'" in told


@pytest.mark.parametrize("piece", [200, 10**6])
def test_every_source_gives_the_same_model(
    piece: int, good: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "PIECE", piece)
    monkeypatch.setattr(csv, "BLOCK", piece)
    monkeypatch.setattr(arrow, "_PIECE", piece)
    frame = table(600)
    good("fit", save(frame), *FIT, *CONFIDENCE)
    expected = document()
    frame.to_parquet("t.parquet", row_group_size=50)
    pyarrow.feather.write_feather(pa.table(frame), "t.arrow", chunksize=50)
    save_databases(frame)
    for names in (
        ("t.parquet",),
        ("t.arrow",),
        ("shop.db", "--table", "visits"),
        ("shop.duckdb", "--table", "visits"),
        ("--sql", "FROM 't.parquet'"),
        ("t.csv", "--sql", "FROM data"),
        ("t.csv", "--where", "true"),
        ("t.parquet", "--where", "length IS NOT NULL"),
    ):
        good("fit", *names, *FIT, *CONFIDENCE)
        found = document()
        assert found["scorecard"] == expected["scorecard"], names
        assert found["heldout"] == expected["heldout"], names


def test_rows_of_a_server_are_read_once(postgres: Any, good: Good) -> None:
    """In the order of the first reading, which a second one need not have."""
    frame = table(400)
    postgres.execute(
        "CREATE TABLE visits "
        "(id text, colour text, size integer, length float8, y text)"
    )
    with postgres.cursor() as cursor:
        rows = frame.astype(object).to_numpy().tolist()
        cursor.executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", rows)
    postgres.commit()
    where = ("--table", "visits", "--where", "size < 5")
    told = good("fit", address_of(postgres), *where, *FIT, *CONFIDENCE, "--json").json
    some = frame[frame["size"] < 5]
    held = heldout_rows(len(some))
    X, y = some[COLUMNS], some["y"]
    clf = renyi.RenyiClassifier().fit(X[~held], y[~held])
    expected = renyi.certify(clf, X[held], y[held], confidence=0.9)
    assert told["heldout"]["bounds"] == expected.bounds
    assert told["rows"] == (~held).sum()


def test_a_condition_and_several_files(good: Good) -> None:
    frame = table(600)
    save(frame[:350], "part-1.csv")
    save(frame[350:], "part-2.csv")
    told = good("fit", "part-*.csv", "--where", "size < 4", *FIT, *CONFIDENCE,
                "--json").json  # fmt: skip
    split = Split(0.3, 0)
    held = np.concatenate([split.heldout(0, 0, 350), split.heldout(1, 0, 250)])
    some = (frame["size"] < 4).to_numpy()
    X, y = frame[COLUMNS], frame["y"]
    clf = renyi.RenyiClassifier().fit(X[some & ~held], y[some & ~held])
    expected = renyi.certify(clf, X[some & held], y[some & held], confidence=0.9)
    assert told["heldout"]["bounds"] == expected.bounds
    assert told["rows"] == (some & ~held).sum()


def test_large_files_take_the_same_way(
    good: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where counts are enough, rows are coded block by block."""
    frame = table(4_000)
    place = save(frame)
    monkeypatch.setattr(csv, "PIECE", 5_000)
    monkeypatch.setattr(csv, "BLOCK", 5_000)
    monkeypatch.setattr(fit_command, "uses_rows", lambda *_: False)
    told = good("fit", place, *FIT, *CONFIDENCE, "--json").json
    held = heldout_rows(4_000)
    X, y = frame[COLUMNS], frame["y"]
    m = renyi.Marginals.from_data(X[~held], y[~held])
    assert renyi.Marginals.load("m.renyi") == m
    loaded = renyi.RenyiClassifier.load("m.json")
    wrong = (loaded.predict(X[held]) != y[held]).mean()
    assert told["heldout"]["observed_error"] == wrong


def test_rows_of_a_class_that_training_lacks_are_errors(good: Good) -> None:
    frame = table(300)
    held = heldout_rows(300)
    rows = np.flatnonzero(held)[:5]
    frame.loc[rows, "y"] = "maybe"
    frame.loc[np.flatnonzero(held)[5:8], "y"] = "?"  # missing, so they do not count
    told = good("fit", save(frame), *FIT, *CONFIDENCE, "--json").json
    assert [*told["classes"]] == ["no", "yes"]
    clf = renyi.RenyiClassifier.load("m.json")
    known = frame[held & ~frame["y"].isin(["maybe", "?"])]
    wrong = int((clf.predict(known[COLUMNS]) != known["y"]).sum()) + 5
    assert told["heldout"]["n"] == len(known) + 5
    assert told["heldout"]["observed_error"] == wrong / (len(known) + 5)


@pytest.mark.parametrize("classes", [("1", "2"), ("0.5", "1.5"), ("01", "1")])
def test_classes_that_look_like_numbers(classes: tuple[str, str], good: Good) -> None:
    frame = table(300)
    frame["y"] = np.where(frame["y"] == "yes", *classes)
    told = good("fit", save(frame), *FIT, *CONFIDENCE, "--json").json
    assert told["heldout"]["n"] == 90
    assert told["heldout"]["observed_error"] < 0.4


# ---- the model is one like any other


def test_every_command_takes_the_model(good: Good) -> None:
    frame = table(300)
    place = save(frame)
    done = good("fit", place, *FIT, *CONFIDENCE)
    assert "90 rows" in " ".join(done.out.split())
    learned = "from 90 rows held out at random; the model learned from the other 210"
    assert learned in " ".join(done.out.split())
    observed = done.out[done.out.index("Observed on 90 held-out rows") :].split()[5]
    model = renyi.RenyiClassifier.load("m.json").fit_
    assert observed == f"{100 * model.heldout.observed_error:.1f}"
    assert "\nproved: " in good("verify", "m.json", "m.renyi").out
    answers = good("predict", "m.json", place, "--prevalence", "0.1").out
    assert answers.count("\n") == 301
    assert "points" in good("export", "m.json", "--points", "5").out
    new = save(table(200, seed=3), "new.csv")
    told = good("certify", "m.json", "--rows", new, "--json").json
    assert told["n"] == 200
    good("certify", "m.json", "m.renyi", "--prevalence", "0.1")
    text = " ".join(good("report", "m.json").out.split())
    bound = document()["heldout"]["sampled_error"]
    record = json.loads(Path("m.report.json").read_text())
    bounds = [row["high"] for row in record["errors"] if row["kind"] == "bound"]
    assert bounds == [bound]
    assert "The bound has 90 % confidence" in text


def test_the_bound_survives_pickle_and_file(good: Good, tmp_path: Path) -> None:
    import pickle

    good("fit", save(table(300)), *FIT, *CONFIDENCE)
    clf = renyi.RenyiClassifier.load("m.json")
    assert clf.fit_.heldout.sampled_error == document()["heldout"]["sampled_error"]
    again = pickle.loads(pickle.dumps(clf))
    assert again.fit_.heldout == clf.fit_.heldout
    clf.save("again.json")
    assert document("again.json") == document()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("t.csv", "--confidence", "0.9", "--weight", "size"), "--weight"),
        (("t.csv", "--confidence", "95"), "95"),
        (("t.csv", "--confidence", "0.9", "--holdout", "1"), "'1'"),
        (("t.csv", "--holdout", "0.3"), "--holdout is for --confidence"),
        (("m.renyi", "--confidence", "0.9"), "--confidence needs rows to hold out"),
        (("t.csv", "--confidence", "0.9", "--method", "average"), "--method"),
        (("few.csv", "--confidence", "0.9", "--holdout", "0.01"), "--holdout"),
        (("t.csv", "--confidence", "0.9", "--where", "size > 9"), "'size > 9'"),
        (("--confidence", "0.9", "--sql", "FROM 't.csv' WHERE id IS NULL"), "no rows"),
    ],
)
def test_what_cannot_be_held_out_is_told(
    options: tuple[str, ...], named: str, good: Good, bad: Callable[..., str]
) -> None:
    save(table(60))
    save(table(8), "few.csv")
    columns = ("--target", "y", "--id", "id")
    good("marginals", "build", "t.csv", *columns, "--out", "m.renyi")
    assert named in bad("fit", *options, *columns)


def test_coverage_of_the_bound(good: Good) -> None:
    """At 80 % confidence, the true error is above the bound at most that often."""
    big = table(20_000, seed=99)
    misses = 0
    for seed in range(40):
        frame = table(120, seed=seed)
        held = heldout_rows(120)
        X, y = frame[COLUMNS], frame["y"]
        clf = renyi.RenyiClassifier().fit(X[~held], y[~held])
        c = renyi.certify(clf, X[held], y[held], confidence=0.8)
        misses += (clf.predict(big[COLUMNS]) != big["y"]).mean() > c.sampled_error
    assert misses <= 15
