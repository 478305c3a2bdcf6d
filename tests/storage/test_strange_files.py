"""Strangers' files: what is false in them is refused by name."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest

from renyi import Marginals, RenyiClassifier, files
from renyi.scorecard import Scorecard
from support.forgeries import (
    MARGINALS,
    MODEL,
    archive,
    forged,
    golden_members,
    member,
    signed,
)

HEADERS = {
    "n": (lambda h: h.update(n=0), "number of rows is 0"),
    "n of text": (lambda h: h.update(n="8"), "number of rows is '8'"),
    "n too large": (lambda h: h.update(n=10**400), "not valid"),
    "target": (lambda h: h.update(target="z"), "target 'z' is not a column"),
    "target of list": (lambda h: h.update(target=["a"]), "is not a column"),
    "order": (lambda h: h.update(order=2), "order is 2"),
    "no columns": (lambda h: h.pop("columns"), "it lacks 'columns'"),
    "columns": (lambda h: h.update(columns=[]), "not valid"),
    "twins": (lambda h: h["columns"].update(names=["a"] * 4), "not valid"),
    "encoder": (lambda h: h.update(encoder=3), "not valid"),
    "bins": (lambda h: h["encoder"].update(bins=0), "bins must be"),
    "absent": (lambda h: h.update(absent=[["vote", "z"]]), "no column 'z'"),
    "absent 3": (lambda h: h.update(absent=[["vote", "age", "town"]]), "not valid"),
    "absent list": (lambda h: h.update(absent=[[[]]]), "not valid"),
    "tolerance": (lambda h: h.update(tolerance=0.5), "tolerance is 0.5, not from 0"),
    "tolerance 1": (lambda h: h.update(tolerance=[1]), "its tolerance is"),
    "provenance": (lambda h: h.update(provenance=[1]), "not valid"),
    "fewer columns": (
        lambda h: h["columns"].update(
            names=["vote", "party"], which=h["columns"]["which"][::3]
        ),
        r"'counts.npy' has 1,280 bytes, but its columns need .* shape \(5, 5\)",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_lying_headers_are_refused(tmp_path, case):
    change, words = HEADERS[case]
    files.write_arrays(tmp_path / "m", *forged(change))
    with pytest.raises(ValueError, match=words) as caught:
        Marginals.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def class_cell(value):
    return lambda a: a["class_counts"].__setitem__((0, 1, 1), value)


ARRAYS = {
    "none": (lambda a: a.pop("counts"), "not valid: it lacks 'counts'"),
    "flat": (
        lambda a: a.update(counts=a["counts"].ravel()),
        r"'counts.npy' has the shape \(144,\), not \(12, 12\)",
    ),
    "small": (
        lambda a: a.update(counts=a["counts"][:5, :5]),
        r"'counts.npy' has 328 bytes, but its columns need .* shape \(12, 12\)",
    ),
    "type": (
        lambda a: a.update(counts=a["counts"].astype("<M8[s]")),
        "'counts.npy' is not a plain array of numbers",
    ),
    "one sided": (lambda a: a["counts"].__setitem__((0, 1), 7), "symmetric"),
    "nan": (
        lambda a: a.update(
            counts=a["counts"] * np.nan, class_counts=a["class_counts"] * 1.0
        ),
        "not finite",
    ),
    "unknown": (lambda a: a.update(more=np.zeros(3)), "unknown part 'more.npy'"),
    "classes": (
        lambda a: a.update(class_counts=a["class_counts"][:1]),
        "'class_counts.npy' has 928 bytes",
    ),
    "class type": (
        lambda a: a.update(class_counts=a["class_counts"] * 1.0),
        "of another type",
    ),
    "negative": (
        lambda a: a["counts"].__setitem__((0, 0), -3),
        r"not valid: The count of vote = n with vote = n is -3 in the marginals",
    ),
    "margins": (
        lambda a: a.update(
            counts=a["counts"]
            + np.eye(12, k=3, dtype=int) * 2
            + np.eye(12, k=-3, dtype=int) * 2
        ),
        r"margins disagree: age = up to 0 .* with 'vote' \(off by 2\)",
    ),
    "totals": (
        lambda a: a["counts"].__setitem__((0, 0), 5),
        "The counts of 'vote' add up to 10, not to the 8 rows",
    ),
    "overflow": (
        lambda a: np.fill_diagonal(a["counts"], [2**62] * 3 + [2**62 + 8] + [0] * 8),
        "The counts of 'vote' add up to",
    ),
    "within": (class_cell(9), "classes disagree with those of all rows: vote = y is"),
    "within nan": (
        lambda a: a.update(
            counts=a["counts"] * 1.0, class_counts=a["class_counts"] * np.nan
        ),
        "A count within party = 0 is nan",
    ),
    "within negative": (class_cell(-1), "A count within party = 0 is -1"),
    "swapped": (
        lambda a: a.update(class_counts=a["class_counts"][::-1]),
        "classes disagree with those of the target: vote = n is off by 3",
    ),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_lying_arrays_are_refused(tmp_path, case):
    change, words = ARRAYS[case]
    files.write_arrays(tmp_path / "m", *forged(None, change))
    with pytest.raises(ValueError, match=words) as caught:
        Marginals.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


@pytest.mark.parametrize("n", [7, 8.5, 80])
def test_another_number_of_rows_is_refused(tmp_path, n):
    files.write_arrays(tmp_path / "m", *forged(lambda h: h.update(n=n)))
    with pytest.raises(ValueError, match=f"'vote' add up to 8, not to the {n} rows"):
        Marginals.load(tmp_path / "m")


def test_absent_pairs_must_be_absent(tmp_path):
    pair = ["town", "vote"]
    files.write_arrays(tmp_path / "m", *forged(lambda h: h["absent"].append(pair)))
    with pytest.raises(ValueError, match="'vote' and 'town' are declared absent"):
        Marginals.load(tmp_path / "m")


HUGE = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
PARTS = {
    "huge": ("counts.npy", member(b"", HUGE)),
    "huge times nothing": ("counts.npy", member(b"", {**HUGE, "shape": (0, 10**30)})),
    "negative": ("counts.npy", member(bytes(64), {**HUGE, "shape": (-1, -8)})),
    "column order": (
        "counts.npy",
        member(bytes(32), {**HUGE, "fortran_order": True, "shape": (2, 2)}),
    ),
    "objects": ("counts.npy", member(np.array([{"a": 1}], object))),
    "texts": ("counts.npy", member(np.array(["a"]))),
    "structures": ("counts.npy", member(np.zeros(2, "i8,i8"))),
    "no array": ("counts.npy", b"not an array"),
    "no header": ("counts.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"(((((((((((((((("),
    "not npy": ("readme.txt", b"hello"),
    "unknown": ("more.npy", member(np.zeros(3))),
    "header of objects": ("header.npy", member(np.array([{}], object))),
    "header no JSON": ("header.npy", member(np.frombuffer(b"{'a'", np.uint8))),
    "header no object": ("header.npy", member(np.frombuffer(b"[1]", np.uint8))),
    "header deep": ("header.npy", member(np.frombuffer(b"[" * 10**6, np.uint8))),
    "header nan": ("header.npy", member(np.frombuffer(b'{"n": NaN}', np.uint8))),
}


@pytest.mark.parametrize("case", PARTS)
def test_strange_members_are_refused(tmp_path, case):
    name, raw = PARTS[case]
    archive(tmp_path / "m", golden_members(**{name: raw}))
    with pytest.raises(ValueError, match="is not a renyi-marginals file") as caught:
        Marginals.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def test_other_archives_are_refused(tmp_path):
    place = tmp_path / "m"
    archive(place, [("a.npy", member(np.zeros(2)))])
    with pytest.raises(ValueError, match="it has no header"):
        Marginals.load(place)
    archive(place, [*golden_members(), *((f"{k}.npy", b"") for k in range(50))])
    with pytest.raises(ValueError, match=r"unknown part '0\.npy'"):
        Marginals.load(place)
    place.write_bytes(MODEL.read_bytes())
    with pytest.raises(ValueError, match="is not a renyi-marginals file"):
        Marginals.load(place)
    with pytest.raises(ValueError, match="is not a renyi-model file"):
        RenyiClassifier.load(MARGINALS)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(tmp_path, method):
    archive(tmp_path / "m", golden_members(), method)
    with pytest.raises(ValueError, match=r"'header\.npy' has an unknown compression"):
        Marginals.load(tmp_path / "m")


def test_other_formats_and_versions_are_named(tmp_path):
    place = tmp_path / "m"
    files.write_arrays(place, *forged(lambda h: h.update(version=3)))
    with pytest.raises(ValueError, match=r"version 3 .* Install a newer renyi"):
        Marginals.load(place)
    for version in (True, 1.0, "1", None):
        files.write_arrays(place, *forged(lambda h, v=version: h.update(version=v)))
        with pytest.raises(ValueError, match=r"Install a newer renyi"):
            Marginals.load(place)
    files.write_arrays(place, *forged(lambda h: h.update(format="other")))
    with pytest.raises(ValueError, match="its format is 'other'"):
        Marginals.load(place)
    place.write_text(json.dumps(signed(lambda d: d.update(version=4))))
    with pytest.raises(ValueError, match=r"version 4 .* Install a newer renyi"):
        Scorecard.load(place)
    place.write_text(json.dumps(signed(lambda d: d.update(format=["x"] * 99))))
    with pytest.raises(ValueError, match="its format is"):
        Scorecard.load(place)


TEXTS = {
    "empty": "",
    "deep": "[" * 10**6,
    "deep object": '{"a":' * 10**5,
    "closed and deep": '{"a":' + "[" * 500 + "]" * 500 + "}",
    "nan": '{"format": NaN}',
    "infinity": '{"format": -Infinity}',
    "long integer": '{"format": ' + "9" * 5000 + "}",
    "twice": '{"format": "renyi-model", "format": "renyi-model"}',
    "list": "[]",
    "latin": b'{"format": "\xe9"}',
}


@pytest.mark.parametrize("case", TEXTS)
def test_strange_json_is_refused(tmp_path, case):
    raw = TEXTS[case]
    place = tmp_path / "m.json"
    place.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    for load in (RenyiClassifier.load, Scorecard.load):
        with pytest.raises(ValueError, match=r"m\.json is not a renyi-model file"):
            load(place)


def test_json_of_any_depth_is_refused(tmp_path):
    place = tmp_path / "m.json"
    for depth in range(100, 1100, 50):
        nest = "[" * depth + "]" * depth
        text = '{"format": "renyi-model", "version": 1, "x": ' + nest + "}"
        place.write_text(text)
        with pytest.raises(ValueError, match=r"m\.json"):
            Scorecard.load(place)


MODELS = {
    "no card": lambda d: d.update(scorecard=None),
    "huge number": lambda d: d["scorecard"].update(intercept=10**400),
    "short": lambda d: d["scorecard"]["z"].pop(),
    "text": lambda d: d["scorecard"]["z"].__setitem__(0, "1"),
    "ragged": lambda d: d["scorecard"]["z"].__setitem__(0, [1]),
    "classes": lambda d: d["scorecard"].update(classes=["a", "a"]),
    "one class": lambda d: d["scorecard"].update(classes=["a"]),
    "categories": lambda d: d["scorecard"]["encoder"]["columns"]["levels"][0].update(
        categories=["a"]
    ),
    "which": lambda d: d["scorecard"]["encoder"]["columns"].update(which=[10**9] * 3),
    "bins": lambda d: d["scorecard"]["encoder"].update(bins=-1),
}


@pytest.mark.parametrize("case", MODELS)
def test_lying_models_are_refused(tmp_path, case):
    place = tmp_path / "m.json"
    place.write_text(json.dumps(signed(MODELS[case])))
    for load in (RenyiClassifier.load, Scorecard.load):
        with pytest.raises(ValueError, match=r"m\.json is not valid"):
            load(place)


SETTINGS = {
    "target": (lambda d: d.update(target="vote"), "target 'vote' is a feature, too"),
    "seed": (
        lambda d: d["classifier"].update(random_state=-1),
        "random_state must be from 0 .* not -1",
    ),
    "large seed": (
        lambda d: d["classifier"].update(random_state=2**32),
        "random_state must be from 0",
    ),
    "true seed": (lambda d: d["classifier"].update(random_state=True), "wrong type"),
    "weights": (lambda d: d["classifier"].update(class_weight="heavy"), "'heavy'"),
    "unknown class": (
        lambda d: d["classifier"].update(class_weight=[[7, 1.0]]),
        "names 7, which is not a class",
    ),
    "no weight": (
        lambda d: d["classifier"].update(class_weight=[[0, 0.0]]),
        "the weight 0.0",
    ),
    "class twice": (
        lambda d: d["classifier"].update(class_weight=[[0, 1.0], [0, 2.0]]),
        "a class twice",
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_lying_settings_are_refused(tmp_path, case):
    change, words = SETTINGS[case]
    place = tmp_path / "m.json"
    place.write_text(json.dumps(signed(change)))
    with pytest.raises(ValueError, match=rf"m\.json is not valid: .*{words}"):
        RenyiClassifier.load(place)


def test_a_seed_that_could_not_be_read_is_not_written(tmp_path):
    clf = RenyiClassifier().fit([["a"], ["b"]] * 3, [0, 1] * 3)
    clf.set_params(random_state=-1)
    with pytest.raises(ValueError, match="random_state must be from 0"):
        clf.save(tmp_path / "m.json")
    assert os.listdir(tmp_path) == []
