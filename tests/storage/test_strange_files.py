"""Untrusted files: each error names what is wrong."""

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
    "target": (lambda h: h.update(target="z"), "target 'z' is not a column"),
    "order": (lambda h: h.update(order=2), "order is 2"),
    "no columns": (lambda h: h.pop("columns"), "it lacks 'columns'"),
    "twins": (lambda h: h["columns"].update(names=["a"] * 4), "not valid"),
    "bins": (lambda h: h["encoder"].update(bins=0), "bins must be"),
    "absent": (lambda h: h.update(absent=[["vote", "z"]]), "no column 'z'"),
    "tolerance": (lambda h: h.update(tolerance=0.5), "tolerance is 0.5, not from 0"),
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
        r"not valid: The count of vote = n with vote = n is -3 in the pair counts",
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
    "column order": (
        "counts.npy",
        member(bytes(32), {**HUGE, "fortran_order": True, "shape": (2, 2)}),
    ),
    "objects": ("counts.npy", member(np.array([{"a": 1}], object))),
    "no header": ("counts.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"(((((((((((((((("),
    "header of objects": ("header.npy", member(np.array([{}], object))),
    "header no JSON": ("header.npy", member(np.frombuffer(b"{'a'", np.uint8))),
    "header deep": ("header.npy", member(np.frombuffer(b"[" * 10**6, np.uint8))),
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
    files.write_arrays(place, *forged(lambda h: h.update(version=4)))
    with pytest.raises(ValueError, match=r"version 4 .* Install a newer renyi"):
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


def test_a_seed_that_could_not_be_read_is_not_written(tmp_path):
    clf = RenyiClassifier().fit([["a"], ["b"]] * 3, [0, 1] * 3)
    clf.set_params(random_state=-1)
    with pytest.raises(ValueError, match="random_state must be from 0"):
        clf.save(tmp_path / "m.json")
    assert os.listdir(tmp_path) == []
