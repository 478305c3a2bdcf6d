"""The commands on marginals, and what they say of files that do not fit."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.files import read_header
from support.commandline import Done, save, table, votes


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


def test_rows_are_not_counted_twice(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    good("marginals", "build", "votes", "--out", "a.renyi")
    Path("soft.renyi").symlink_to("a.renyi")
    Path("hard.renyi").hardlink_to("a.renyi")
    for name in ("a.renyi", "./a.renyi", "soft.renyi", "hard.renyi"):
        message = bad("marginals", "merge", "a.renyi", name, "--out", "b.renyi")
        assert "would count twice" in message and Path(name).name in message
    Path("copy.renyi").write_bytes(Path("a.renyi").read_bytes())
    done = good("marginals", "merge", "a.renyi", "copy.renyi", "--out", "b.renyi")
    assert "note: copy.renyi contains the same counts as a.renyi" in done.err
    save(votes(), "v.csv")
    Path("w.csv").hardlink_to("v.csv")
    made = ("marginals", "build", "v.csv", "w.csv", "--target", "party")
    assert "w.csv is the same file as v.csv" in bad(*made, "--out", "c.renyi")


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
    said, cells = good("marginals", "show", "v.renyi").out, np.triu(m.counts)
    assert said.startswith(f"{m}\nOf {(cells > 0).sum():,} counts")
    assert f"{((cells > 0) & (cells < 10)).sum():,} are below 10" in said
    assert f"{(cells == 1).sum():,} of these are 1." in said
    pair = ("--pair", "crime", "party")
    block = m.block("crime", "party")
    assert good("marginals", "show", "v.renyi", *pair).out.strip() == block.to_string()
    told = good("marginals", "show", "v.renyi", *pair, "--json").json
    assert told["counts"] == block.to_numpy().tolist()
    told = good("marginals", "show", "v.renyi", "--json").json
    assert told["rows"] == 435 and told["cells"]["nonzero"] == (cells > 0).sum()
    assert told["columns"][-1]["counts"] == {"democrat": 267, "republican": 168}


# ---- bad input


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
    assert "b.renyi cannot be subtracted from a.renyi" in message
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
    golden = Path(__file__).parents[1] / "golden" / "marginals-v1.renyi"
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
    assert "'counts.npy' has 128 bytes, but its columns need" in message
    assert peak < 50e6


def test_options_that_do_not_apply(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    good("fit", "votes", "--out", "m")
    assert "--bins is for tables" in bad("fit", "m.renyi", "--bins", "3")
    assert "no column 'nope'" in bad("fit", "m.renyi", "--target", "nope")
    assert "missing in some rows" in bad("fit", "m.renyi", "--target", "crime")
    made = ("--out", "x.renyi", "--encoder", "m.json", "--bins", "3")
    assert "--bins cannot be used" in bad("marginals", "build", "votes", *made)
    assert "holds marginals" in bad("predict", "m.json", "m.renyi")
    assert "no column 'x'" in bad(
        "marginals", "show", "m.renyi", "--pair", "x", "crime"
    )


@pytest.mark.parametrize("encoder", ["m.renyi", "m.json"])
def test_a_target_that_a_borrowed_encoder_predicts_from(
    encoder: str, good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    save(table())
    good("fit", "t.csv", "--target", "y", "--id", "id", "--out", "m")
    build = ("marginals", "build", "t.csv", "--target", "colour", "--out", "q.renyi")
    assert bad(*build, "--encoder", encoder) == (
        f"renyi: error: {encoder} has 'colour' as a column to predict from: pass the "
        "target that it has, --target y."
    )


def test_an_encoder_that_is_no_model(bad: Callable[..., str]) -> None:
    save(table())
    build = ("marginals", "build", "t.csv", "--target", "y", "--out", "q.renyi")
    message = bad(*build, "--encoder", "t.csv")
    assert "--encoder must be a model written by fit, an encoder (.json) or" in message
    assert "MODEL" not in message
