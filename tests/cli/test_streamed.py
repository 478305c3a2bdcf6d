"""Build and fit with rows that are counted as they are read."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import renyi
from renyi.cli import output, streams
from renyi.encoding.columns import Columns
from renyi.sources import files, kept_rows
from support.commandline import Done, save, save_databases, table

Good = Callable[..., Done]


def rows(n: int = 400) -> pd.DataFrame:
    """Rows of every kind of column, some without a target."""
    frame = table(n)
    rng = np.random.default_rng(5)
    frame["code"] = rng.integers(0, 30, n)
    frame["number"] = rng.permutation(50 * n)[:n]  # like an identifier, but sparse
    frame["mass"] = rng.integers(0, 4, n) / 2
    frame.loc[3:7, "y"] = "?"
    frame.loc[9, "colour"] = ""
    return frame


def built(name: str) -> renyi.Marginals:
    return renyi.Marginals.load(name)


def notes(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("note: ")]


def in_memory(frame: pd.DataFrame, **given: Any) -> renyi.Marginals:
    """Count the rows of a frame that have a target, but for the column of ids."""
    counted = frame[frame["y"] != "?"].drop(columns="id")
    weight = given.pop("weight", None)
    mass = None if weight is None else counted.pop(weight)
    y = counted.pop("y")
    return renyi.Marginals.from_data(counted, y, sample_weight=mass, **given)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow"])
@pytest.mark.parametrize("case", ["plain", "encoder", "kinds", "weight"])
def test_streams_count_as_rows_in_memory_do(ending: str, case: str, good: Good) -> None:
    frame, name = rows(), f"t.{ending}"
    if ending.startswith("csv"):
        frame.to_csv(name, index=False)
    elif ending == "parquet":
        frame.to_parquet(name, row_group_size=41)
    else:
        frame.to_feather(name, chunksize=41)
    encoder = renyi.Encoder(bins=3, min_count=120, missing=("?", "", "red"))
    kind = "str" if ending.startswith("csv") else "category"
    typed = frame.astype({"size": float, "code": kind})
    options, m = {
        "plain": ((), in_memory(frame)),
        "encoder": (
            ("--bins", "3", "--min-count", "120", "--missing", "red"),
            in_memory(frame, encoder=encoder),
        ),
        "kinds": (
            ("--numeric", "size", "--categorical", "code", "--class-conditional"),
            in_memory(typed, class_conditional=True),
        ),
        "weight": (
            ("--weight", "mass", "--drop", "size"),
            in_memory(frame.drop(columns="size"), weight="mass"),
        ),
    }[case]
    done = good(
        *("marginals", "build", name, "--target", "y", "--id", "id", *options),
        *("--out", "m.renyi"),
    )
    assert built("m.renyi") == m
    assert "Dropped 5 rows" in done.err
    assert re.search(r"'number' .(395|284) different values. may identify", done.err)


def test_a_note_on_the_first_rows_says_so(
    good: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows().to_parquet("t.parquet", row_group_size=41)
    monkeypatch.setattr(files, "_FIRST", 100)
    words = ("t.parquet", "--target", "y", "--id", "id", "--out", "m.renyi")
    told = good("marginals", "build", *words).err
    assert (
        "'number' (95 different values) may identify rows, going by the first" in told
    )


TARGETS: dict[str, tuple[Any, Any]] = {
    "whole floats": (0.0, 1.0),
    "fractions": (9.5, 10.5),
    "truths": (False, True),
    "integers": (11, 7),
    "texts of numbers": ("0.50", "1e-7"),
    "dates": (pd.Timestamp(2024, 2, 1), pd.Timestamp(2024, 1, 1, 12)),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("kind", TARGETS)
def test_classes_of_any_kind(kind: str, ending: str, good: Good) -> None:
    frame = table().drop(columns="id")
    first, second = TARGETS[kind]
    frame["y"] = [first if label == "yes" else second for label in frame["y"]]
    if ending == "csv":
        frame.to_csv("t.csv", index=False)
    else:
        frame.to_parquet("t.parquet")
    good("marginals", "build", f"t.{ending}", "--target", "y", "--out", "read.renyi")
    assert built("read.renyi").n == len(frame)
    assert len(built("read.renyi").classes) == 2
    good("fit", f"t.{ending}", "--target", "y", "--out", "m")
    told = good("predict", "m.json", f"t.{ending}", "--json").json["error"]
    assert told["unjudged"] == 0
    assert told["error"] < 0.5


@pytest.mark.parametrize("given", [(), ("--where", "size < 9")])
def test_targets_that_are_no_classes(
    given: tuple[str, ...], bad: Callable[..., str]
) -> None:
    frame = table().drop(columns="id")
    save(frame.assign(y="a"))
    argv = ("marginals", "build", "t.csv", "--target", "y", "--out", "x.renyi", *given)
    assert "has only one class, 'a'" in bad(*argv)
    save(frame.assign(y=frame["length"].round(1)))
    message = bad(*argv)
    assert "is a number with" in message
    assert "cut it into classes first" in message
    save(frame.assign(y=frame["y"].replace("no", "a"), w=1 * (frame["y"] == "no")))
    assert "has only one class, 'a'" in bad(*argv, "--weight", "w")
    assert not Path("x.renyi").exists()


@pytest.mark.parametrize("name", ["t.csv", "t*.csv"])
def test_columns_that_cannot_be_what_they_are_asked_for(
    name: str, good: Good, bad: Callable[..., str]
) -> None:
    frame = table()[["colour", "y"]]
    argv = ("marginals", "build", name, "--target", "y", "--out", "x.renyi")
    save(frame.assign(w=["1", "x"] * 100))
    message = bad(*argv, "--weight", "w")
    assert "t.csv: The weight of row 1 (counted from 0) in column 'w' is 'x'" in message
    assert "--missing" not in message
    assert "'y' is the target: it cannot be the weight too" in bad(
        *argv, "--weight", "y"
    )
    message = bad(*argv, "--weight", "w", "--drop", "colour")
    assert "no column but the target 'y'" in message
    assert not Path("x.renyi").exists()


def test_text_in_parquet_that_is_to_be_numbers(
    good: Good, bad: Callable[..., str]
) -> None:
    frame = table().astype({"length": str})
    frame.to_parquet("t.parquet")
    common = ("--target", "y", "--id", "id", "--numeric", "length")
    good("marginals", "build", "t.parquet", *common, "--out", "read.renyi")
    assert built("read.renyi") == in_memory(table())
    frame.assign(length="long").to_parquet("t.parquet")
    given = (*common, "--out", "x.renyi")
    message = bad("marginals", "build", "t.parquet", *given)
    assert "'length' is numeric but holds" in message


def test_streams_take_the_bins_of_a_model(good: Good) -> None:
    save(rows(300), "a.csv")
    save(rows(500), "b.csv")
    given = ("--target", "y", "--drop", "id", "number", "mass")
    good("fit", "a.csv", *given, "--out", "m")
    common = ("marginals", "build", "b.csv", "--target", "y", "--encoder", "m.json")
    good(*common, "--out", "read.renyi")
    frame = rows(500).drop(columns=["number", "mass"])
    encoder = renyi.RenyiClassifier.load("m.json").encoder_
    assert built("read.renyi") == in_memory(frame, encoder=encoder)


@pytest.fixture
def parts(tmp_path: Path) -> pd.DataFrame:
    """The same rows whole, in parts, and in two databases."""
    frame = rows()
    frame.to_csv("whole.csv", index=False)
    Path("parts").mkdir()
    for k, start in enumerate(range(0, 400, 150)):
        part = frame[start : start + 150]
        part.to_csv(f"part-{k}.csv", index=False)
        part.to_parquet(f"parts/{k}.parquet")
    save_databases(frame)
    return frame


@pytest.mark.parametrize(
    "source",
    [
        ("part-0.csv", "part-1.csv", "part-2.csv"),
        ("part-*.csv",),
        ("parts",),
        ("shop.db", "--table", "visits"),
        ("shop.duckdb", "--table", "visits"),
        ("--sql", "FROM 'parts/*.parquet'"),
        ("parts", "--sql", "SELECT * FROM data"),
    ],
)
def test_every_source_gives_the_same(
    source: tuple[str, ...], good: Good, parts: pd.DataFrame
) -> None:
    given = ("--target", "y", "--id", "id", "number")
    good("marginals", "build", "whole.csv", *given, "--out", "a.renyi")
    done = good("marginals", "build", *source, *given, "--out", "b.renyi")
    assert built("b.renyi") == built("a.renyi")
    assert "note: Dropped 5 rows with a missing target 'y'." in notes(done)
    names = [name for name in source[:3] if name[0] != "-" and "*" not in name]
    if "--sql" not in source and "*" not in source[0] and "--table" not in source:
        assert built("b.renyi").provenance["files"] == names


@pytest.mark.parametrize(
    "source", [("whole.csv",), ("parts",), ("shop.db", "--table", "visits")]
)
def test_conditions(source: tuple[str, ...], good: Good, parts: pd.DataFrame) -> None:
    given = ("--target", "y", "--id", "id", "number", "mass")
    where = ("--where", "size >= 3 AND y <> '?'")
    good("marginals", "build", *source, *given, *where, "--out", "b.renyi")
    kept = parts[(parts["size"] >= 3) & (parts["y"] != "?")]
    names = ["colour", "size", "length", "code"]
    assert built("b.renyi") == renyi.Marginals.from_data(kept[names], kept["y"])


def test_progress_tells_rows_and_time(
    good: Good, parts: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        output.Meter, "__call__", lambda _, state: said.append(str(state))
    )
    given = ("--target", "y", "--id", "id", "number", "--out", "b.renyi")
    good("marginals", "build", "part-*.csv", *given)
    assert said[-1].startswith("counting: 100 %, 400 rows, ")
    assert said[-1].endswith(" rows a second")


# ---- fit


@pytest.mark.parametrize(
    "source",
    [
        ("part-*.csv",),
        ("shop.duckdb", "--table", "visits"),
        ("--sql", "FROM 'parts/*.parquet'"),
    ],
)
def test_fit_on_a_stream(
    source: tuple[str, ...], good: Good, parts: pd.DataFrame
) -> None:
    given = ("--target", "y", "--id", "id", "number", "mass")
    done = good("fit", *source, *given, "--out", "m")
    names = ["colour", "size", "length", "code"]
    kept = parts[parts["y"] != "?"]
    m = renyi.Marginals.from_data(kept[names], kept["y"])
    clf = renyi.RenyiClassifier()
    clf = clf.fit(kept[names], kept["y"])
    again = renyi.RenyiClassifier.load("m.json")
    assert again.alpha_ == clf.alpha_
    assert np.array_equal(again.z_, clf.z_)
    assert built("m.renyi") == m
    text = " ".join(done.out.split())
    assert "Dropped 5 rows" in text


@pytest.mark.parametrize("n", [60, 3000])
def test_pairs_within_classes_certify_on_every_road(n: int, good: Good) -> None:
    frame = table(n)[["colour", "size", "y"]]
    frame["code"] = np.random.default_rng(0).integers(0, 20, n)
    save(frame)
    common = ("fit", "t.csv", "--target", "y", "--class-conditional", "--json")
    told = good(*common, "--out", "held").json
    assert [step["name"] for step in told["certificate"]["steps"]] == [
        "closed form",
        "class-conditional",
    ]
    files = [Path(f"held{ending}").read_bytes() for ending in (".json", ".renyi")]
    for more in (("--memory", "150K"), ("--where", "true")):
        read = good(*common, "--out", "held", *more).json
        assert read["certificate"] == told["certificate"]
        again = [Path(f"held{ending}").read_bytes() for ending in (".json", ".renyi")]
        assert again == files


@pytest.mark.parametrize("more", [(), ("--where", "true")])
def test_a_weight_may_be_a_missing_code(more: tuple[str, ...], good: Good) -> None:
    """Rows of weight 1 count; those of weight 0, of a class of their own, do not."""
    frame = table()[["colour", "size", "y"]].assign(w=[1, 2, 0, 3] * 50)
    frame.loc[frame["w"] == 0, "y"] = "none"
    fit = ("fit", save(frame), "--target", "y", "--weight", "w", "--missing", "1")
    told = good(*fit, "--numeric", "w", "--out", "m", "--json", *more).json
    assert told["rows"] == 300
    assert sorted(told["classes"]) == ["no", "yes"]
    kept = frame[frame["w"] > 0]
    encoder = renyi.Encoder(missing=("?", "", "1"))
    clf = renyi.RenyiClassifier(encoder=encoder)
    clf.fit(kept[["colour", "size"]], kept["y"], kept["w"])
    assert np.array_equal(renyi.RenyiClassifier.load("m.json").z_, clf.z_)


@pytest.mark.parametrize("command", [("predict",), ("marginals", "build")])
def test_help_names_every_format(command: tuple[str, ...], good: Good) -> None:
    text = good(*command, "--help").out
    endings = [".csv", ".tsv", ".txt", ".gz", ".parquet", ".arrow"]
    assert [each for each in endings if each not in text] == []
    assert "a database (file, or postgresql://" in " ".join(text.split())


def test_a_moderate_file_is_fitted_on_rows(good: Good) -> None:
    save(table().drop(columns="id"))
    told = good("fit", "t.csv", "--target", "y", "--json").json
    assert told["training_error"] is not None
    assert told["alpha_method"] == "loo"


def test_integers_of_any_width_are_copied_as_they_are(good: Good) -> None:
    frame = table(100)
    good("fit", save(frame), "--target", "y", "--id", "id", "--out", "m")
    keys = pa.array([None, *range(1, 100)], pa.int32())
    new = pa.Table.from_pandas(frame).append_column("key", keys)
    pa.parquet.write_table(new, "n.parquet")
    lines = good("predict", "m.json", "n.parquet", "--id", "key").out.splitlines()
    assert [line.split(",")[0] for line in lines[:4]] == ["key", "", "1", "2"]


@pytest.mark.parametrize("weight", [(), ("--weight", "mass")])
def test_a_query_that_gives_other_rows_again_is_asked_once(
    weight: tuple[str, ...], good: Good
) -> None:
    """Else the model would be of other rows than the marginals beside it."""
    frame = rows(600)[["colour", "y"]].assign(mass=np.arange(600) % 3 + 1.0)
    frame["code"] = [f"c{k % 30}" for k in range(600)]
    frame.to_parquet("t.parquet")
    fit = ("fit", "--target", "y", *weight, "--out", "m", "--sql")
    if not weight:
        fit = (*fit[:3], "--drop", "mass", *fit[3:])
    good(*fit, "FROM 't.parquet' USING SAMPLE 300 ROWS")
    m, clf = built("m.renyi"), renyi.RenyiClassifier.load("m.json")
    assert clf.data_digest_ is not None
    assert clf.data_digest_.matches(m.digest)


@pytest.mark.parametrize("how", ["room", "folder"])
def test_without_room_for_codes_the_folder_is_named(
    how: str,
    good: Good,
    bad: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = table()[["colour", "size", "y"]]
    fit = ("fit", save(frame), "--target", "y", "--out", "m")
    if how == "room":
        usage = shutil.disk_usage(".")._replace(free=1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(Path("absent").resolve()))
    good(*fit)  # few rows stay in memory
    Path("m.json").unlink()
    monkeypatch.setattr(kept_rows, "_IN_MEMORY", 100)
    assert "TMPDIR" in bad(*fit)
    assert not Path("m.json").exists()


def test_rows_in_a_temporary_file_give_the_same_model(
    good: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ("fit", save(rows(2000)), "--target", "y", "--id", "id", "--weight", "mass")
    good(*fit, "--out", "few")
    monkeypatch.setattr(kept_rows, "_IN_MEMORY", 100)
    good(*fit, "--out", "many")
    first, second = (json.loads(Path(n).read_text()) for n in ("few.json", "many.json"))
    assert first == second


def test_memory_of_kept_rows_is_that_of_rows_not_of_weights(good: Good) -> None:
    frame = table(60)[["colour", "size", "y"]].assign(w=np.arange(1, 61) * 1e10)
    fit = ("fit", save(frame), "--target", "y", "--weight", "w", "--alpha", "loo")
    assert good(*fit, "--json", "--where", "true").json["alpha_method"] == "loo"


@pytest.mark.parametrize("weight", [None, "w"])
def test_rows_are_held_in_the_memory_that_was_asked_for(
    weight: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 1_000_000
    frame = pd.DataFrame({"a": np.arange(n) % 3, "y": np.arange(n) % 2, "w": 0.5})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    asked: list[float] = []
    monkeypatch.setattr(streams, "check_memory", lambda size, what: asked.append(size))
    encoder = renyi.Encoder()
    request = files.CountRequest("y", encoder, columns=["a"], weight=weight)
    with kept_rows.KeptRows() as store:
        files.code_rows(files.open_tables(path), request, store)
        fitted = replace(encoder, columns=Columns.of(store.columns[:-1]))
        coded = streams.CodedRows(fitted, store.columns[-1], store)
        tracemalloc.start()
        try:
            joined = coded.joined()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert np.array_equal(joined.codes[0], frame["a"])
    assert np.array_equal(joined.y, frame["y"])
    assert peak < 1.3 * asked[0] + 2.5e6  # and a block


def test_note_of_a_nearly_numeric_column_is_given_once(good: Good) -> None:
    ages = [str(age % 30) for age in range(400)]
    ages[-1] = "many"
    frame = pd.DataFrame({"age": ages, "y": ["no", "yes"] * 200})
    frame.to_csv("t.csv", index=False)
    said = json.loads(good("fit", "t.csv", "--target", "y", "--json").out)["notes"]
    about = [text for text in said if "would be numeric" in text]
    assert len(about) == 1
    assert about[0].endswith("(--missing many).")
