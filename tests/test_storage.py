"""Files: round trips, damage of every kind, strangers' files, golden files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import renyi
from renyi import Encoder, Marginals, RenyiClassifier, archives, storage
from renyi.scorecard import Scorecard

GOLDEN = Path(__file__).parent / "golden"
MARGINALS, MODEL = GOLDEN / "marginals-v1.renyi", GOLDEN / "model-v1.json"


# ---- golden files


def test_golden_marginals_are_read():
    m = Marginals.load(MARGINALS)
    assert (m.n, m.target, m.classes) == (8, "party", (0, 1))
    assert m.categories == {
        "vote": ("n", "y", None),
        "age": ("up to 0", "above 0 below 41", "from 41 below 55.25", "from 55.25"),
        "town": ("(rare)", "Oslo", "Åbo"),
        "party": (0, 1),
    }
    assert m.columns[1].levels.edges == (5e-324, 41.0, 55.25)
    assert m.columns[2].levels.rare == ("Rome",)
    assert m.settings == Encoder(missing=("?", -9), min_count=2, bins=3)
    assert m.counts.dtype == np.int64
    assert m.counts.tolist() == [
        [3, 0, 0, 2, 0, 1, 0, 0, 1, 2, 0, 3],
        [0, 4, 0, 2, 2, 0, 0, 1, 1, 2, 3, 1],
        [0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1],
        [2, 2, 0, 4, 0, 0, 0, 1, 2, 1, 1, 3],
        [0, 2, 0, 0, 2, 0, 0, 0, 0, 2, 2, 0],
        [1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1],
        [0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1],
        [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0],
        [1, 1, 1, 2, 0, 0, 1, 0, 3, 0, 0, 3],
        [2, 2, 0, 1, 2, 1, 0, 0, 0, 4, 2, 2],
        [0, 3, 0, 1, 2, 0, 0, 1, 0, 2, 3, 0],
        [3, 1, 1, 3, 0, 1, 1, 0, 3, 2, 0, 5],
    ]
    assert np.array_equal(m.class_counts.sum(axis=0), m.feature_counts)
    assert np.array_equal(m.class_counts.diagonal(axis1=1, axis2=2).T, m.target_counts)
    assert m.provenance["renyi"] == "0.1.0"


def test_golden_model_predicts_the_same_bits():
    clf = RenyiClassifier.load(MODEL)
    rows = pd.DataFrame(
        {
            "vote": ["y", "?", "z"],
            "age": [0.0, 50, None],
            "town": ["Rome", "Oslo", "Paris"],
        }
    )
    expected = [-0.26080750407830344, 0.5116231647634585, 0.125]
    assert clf.decision_function(rows).tolist() == expected
    assert clf.predict(rows).tolist() == [0, 1, 1]
    assert clf.alpha_ == 0.125 and clf.classes_.tolist() == [0, 1]
    card = Scorecard.load(MODEL)
    assert card.z.tolist() == clf.z_.tolist()
    assert card.counts.tolist() == [3, 4, 1, 4, 2, 1, 1, 1, 3, 4]


# ---- round trips

label = st.one_of(
    st.none(),
    st.text(max_size=4),
    st.sampled_from(["None", "(rare)", "(missing)", "\ud800", "🙂"]),
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.floats(),
)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            label, st.floats(), st.sampled_from(["ja", "nein"]), st.floats(0.1, 9)
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
    st.booleans(),
)
def test_marginals_survive_a_file(tmp_path_factory, table, weighted, inner):
    labels, numbers, y, weights = zip(*table, strict=True)
    X = pd.DataFrame({"c": pd.Series(labels, dtype=object), "x": numbers})
    m = Marginals.from_data(
        X,
        np.array(y),
        encoder=Encoder(min_count=2, numeric=["x"]),
        sample_weight=weights if weighted else None,
        class_conditional=inner,
    )
    place = tmp_path_factory.getbasetemp() / "round-trip.renyi"
    m.save(place)
    again = Marginals.load(place)
    assert again == m
    assert again.settings == m.settings
    assert again.counts.dtype == m.counts.dtype
    assert again.columns.to_dict() == m.columns.to_dict()
    assert np.array_equal(again.encoder.transform(X), m.encoder.transform(X))


def test_a_file_is_the_same_bytes_when_written_again(tmp_path):
    m = Marginals.load(MARGINALS)
    for name in ("a", "b"):
        m.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_are_plain_npz(tmp_path):
    with np.load(MARGINALS, allow_pickle=False) as archive:
        assert sorted(archive) == ["class_counts", "counts", "header"]
        header = json.loads(archive["header"].tobytes())
    assert header["format"] == "renyi-marginals" and header["version"] == 1


def test_scaled_marginals_survive_a_file(tmp_path):
    m = Marginals.load(MARGINALS) * np.int64(3)
    m.save(tmp_path / "m")
    assert Marginals.load(tmp_path / "m") == m


# ---- damage


def refused_or_equal(load, place, raw, expected):
    place.write_bytes(raw)
    try:
        found = load(place)
    except ValueError as error:
        assert str(place) in str(error)
        return 1
    assert expected(found)
    return 0


def test_truncated_marginals_are_refused(tmp_path):
    raw, m = MARGINALS.read_bytes(), Marginals.load(MARGINALS)
    for length in [*range(0, len(raw), 7), len(raw) - 1]:
        refused = refused_or_equal(
            Marginals.load, tmp_path / "m", raw[:length], m.__eq__
        )
        assert refused, length


def test_truncated_models_are_refused(tmp_path):
    raw = MODEL.read_bytes()
    for length in [*range(0, len(raw) - 2, 13), len(raw) - 2]:
        for load in (RenyiClassifier.load, Scorecard.load):
            assert refused_or_equal(load, tmp_path / "m", raw[:length], bool), length


def test_flipped_bytes_are_refused_or_harmless(tmp_path):
    raw, m = MARGINALS.read_bytes(), Marginals.load(MARGINALS)
    refused = 0
    for place in range(len(raw)):
        for bit in (1 << place % 8, 0xFF):
            bad = bytearray(raw)
            bad[place] ^= bit
            refused += refused_or_equal(
                Marginals.load, tmp_path / "m", bytes(bad), m.__eq__
            )
    assert refused > len(raw)


def test_flipped_bytes_of_a_model_are_refused_or_harmless(tmp_path):
    raw, card = MODEL.read_bytes(), Scorecard.load(MODEL)
    refused = 0
    for place in range(0, len(raw), 2):
        bad = bytearray(raw)
        bad[place] ^= 1 << place % 7
        refused += refused_or_equal(
            Scorecard.load,
            tmp_path / "m",
            bytes(bad),
            lambda found: found.to_dict() == card.to_dict(),
        )
    assert refused > len(raw) / 4


# ---- strangers' files


def signed(change, source=MODEL):
    """Return the golden model with a change and a checksum that agrees."""
    data = json.loads(source.read_text(encoding="utf-8"))
    change(data)
    del data["checksum"]
    return {**data, "checksum": storage.digest(data, {})}


def forged(header_change=None, arrays_change=None):
    """Return the parts of the golden marginals with changes, checksum included."""
    header = archives.read_header(MARGINALS, "renyi-marginals")
    shapes = {"counts": (12, 12), "class_counts": (2, 10, 10)}
    arrays = archives.read_arrays(MARGINALS, "renyi-marginals", header, shapes)
    if header_change:
        header_change(header)
    if arrays_change:
        arrays_change(arrays)
    return header, arrays


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
        "'counts.npy' has 1,280 bytes, but its columns ask for 5 × 5 numbers",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_lying_headers_are_refused(tmp_path, case):
    change, words = HEADERS[case]
    archives.write_arrays(tmp_path / "m", *forged(change))
    with pytest.raises(ValueError, match=words) as caught:
        Marginals.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def class_cell(value):
    return lambda a: a["class_counts"].__setitem__((0, 1, 1), value)


ARRAYS = {
    "none": (lambda a: a.pop("counts"), "not valid: it lacks 'counts'"),
    "flat": (
        lambda a: a.update(counts=a["counts"].ravel()),
        r"'counts.npy' has the shape 144, not 12 × 12",
    ),
    "small": (
        lambda a: a.update(counts=a["counts"][:5, :5]),
        "'counts.npy' has 328 bytes, but its columns ask for 12 × 12 numbers",
    ),
    "type": (
        lambda a: a.update(counts=a["counts"].astype("<M8[s]")),
        "'counts.npy' is no plain array of numbers",
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
    archives.write_arrays(tmp_path / "m", *forged(None, change))
    with pytest.raises(ValueError, match=words) as caught:
        Marginals.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


@pytest.mark.parametrize("n", [7, 8.5, 80])
def test_another_number_of_rows_is_refused(tmp_path, n):
    archives.write_arrays(tmp_path / "m", *forged(lambda h: h.update(n=n)))
    with pytest.raises(ValueError, match=f"'vote' add up to 8, not to the {n} rows"):
        Marginals.load(tmp_path / "m")


def test_absent_pairs_must_be_absent(tmp_path):
    pair = ["town", "vote"]
    archives.write_arrays(tmp_path / "m", *forged(lambda h: h["absent"].append(pair)))
    with pytest.raises(ValueError, match="'vote' and 'town' are said to be absent"):
        Marginals.load(tmp_path / "m")


def member(array_or_bytes, declared=None):
    """Return the bytes of an npy file, perhaps with another declared header."""
    stream = io.BytesIO()
    if declared is not None:
        np.lib.format.write_array_header_1_0(stream, declared)
        return stream.getvalue() + array_or_bytes
    np.save(stream, array_or_bytes, allow_pickle=True)
    return stream.getvalue()


def archive(place, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(place, "w", compression) as out:
        for name, raw in members:
            out.writestr(name, raw)


def golden_members(**changes):
    with zipfile.ZipFile(MARGINALS) as golden:
        found = {name: golden.read(name) for name in golden.namelist()}
    return list({**found, **changes}.items())


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
    with pytest.raises(ValueError, match=r"'header\.npy' is packed in an unknown way"):
        Marginals.load(tmp_path / "m")


def test_other_formats_and_versions_are_named(tmp_path):
    place = tmp_path / "m"
    archives.write_arrays(place, *forged(lambda h: h.update(version=2)))
    with pytest.raises(ValueError, match=r"version 2 .* Install a newer renyi"):
        Marginals.load(place)
    for version in (True, 1.0, "1", None):
        archives.write_arrays(place, *forged(lambda h, v=version: h.update(version=v)))
        with pytest.raises(ValueError, match=r"Install a newer renyi"):
            Marginals.load(place)
    archives.write_arrays(place, *forged(lambda h: h.update(format="other")))
    with pytest.raises(ValueError, match="its format is 'other'"):
        Marginals.load(place)
    place.write_text(json.dumps(signed(lambda d: d.update(version=2))))
    with pytest.raises(ValueError, match=r"version 2 .* Install a newer renyi"):
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


MEASURE = """
import resource, sys, tracemalloc, renyi
from renyi import Marginals, RenyiClassifier
load = Marginals.load if sys.argv[1] == "marginals" else RenyiClassifier.load
import renyi.storage, zipfile
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tracemalloc.start()
try:
    load(sys.argv[2])
except ValueError as error:
    print(tracemalloc.get_traced_memory()[1])
    print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
    print(error)
"""


def cost(kind, place):
    """Return traced bytes, resident bytes and the message of a refusal."""
    path = os.pathsep.join([str(Path(renyi.__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, kind, str(place)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    traced, resident, message = done.stdout.splitlines()
    return int(traced), int(resident), message


def test_a_small_file_that_declares_a_billion_categories_costs_little(tmp_path):
    place = tmp_path / "m"
    wide = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
    archive(place, golden_members(**{"counts.npy": member(b"", wide)}))
    assert place.stat().st_size < 2000
    traced, resident, message = cost("marginals", place)
    assert "'counts.npy' has 128 bytes, but its columns ask for 12 × 12" in message
    assert traced < 5e7 and resident < 5e7


def test_headers_that_unfold_are_refused_at_once(tmp_path):
    place = tmp_path / "m"
    raw = member(np.frombuffer(b"[" + b"[]," * 20_000_000, np.uint8))
    archive(place, golden_members(**{"header.npy": raw}))
    assert place.stat().st_size < 70_000
    traced, resident, message = cost("marginals", place)
    assert "its header is too large" in message
    assert traced < 5e7 and resident < 5e7


@pytest.mark.parametrize(
    ("filler", "words"),
    [
        (b"[],", "too many lists or objects"),
        (b'{"a":0},', "too many lists or objects"),
        (b"[[[[", "too many lists or objects"),
        (b"[0,0,0,0],", "its format is None"),
        (b"0.1,", "its format is None"),
        (b'"ab",', "its format is None"),
    ],
)
def test_headers_that_are_crowded_cost_little(tmp_path, filler, words):
    place = tmp_path / "m"
    text = b'{"n": [' + filler * (5_000_000 // len(filler)) + b"0]}"
    raw = member(np.frombuffer(text, "u1"))
    archive(place, golden_members(**{"header.npy": raw}), zipfile.ZIP_STORED)
    traced, _, message = cost("marginals", place)
    assert words in message
    assert traced < 20 * len(text)


def test_brackets_in_labels_are_no_lists(tmp_path):
    labels = [f"{'[{' * 9}{k}" for k in range(20_000)]
    data = {"format": "x", "version": 1, "labels": labels}
    assert json.dumps(data).count("{") > 2 * storage._ROOM_ALLOWANCE * 0.9
    storage.write_json(tmp_path / "m", data)
    assert storage.read_json(tmp_path / "m", "x")["labels"] == labels


def test_arrays_of_zeros_are_refused_at_once(tmp_path):
    zeros = member(np.zeros((5000, 2000)))
    for name in ("more.npy", "counts.npy"):
        place = tmp_path / name
        archive(place, golden_members(**{name: zeros}))
        assert place.stat().st_size < 100_000
        traced, resident, message = cost("marginals", place)
        assert name in message
        assert traced < 2e7 and resident < 2e7


def test_headers_of_many_columns_pass(tmp_path):
    names = [f"rs{k * 7919}" for k in range(100_000)]
    levels = [{"kind": "label", "categories": [0, 1, 2, None]}]
    columns = {"names": names, "levels": levels, "which": [0] * len(names)}
    header = {"format": "x", "version": 1, "columns": columns}
    archives.write_arrays(tmp_path / "m", header, {})
    found = archives.read_header(tmp_path / "m", "x")
    assert found["columns"] == columns
    # Packed, as older files are.
    with zipfile.ZipFile(tmp_path / "m") as whole:
        raw = whole.read("header.npy")
    archive(tmp_path / "packed", [("header.npy", raw)])
    assert archives.read_header(tmp_path / "packed", "x") == found


def test_headers_that_could_not_be_read_are_not_written(tmp_path):
    header = {"format": "x", "version": 1, "text": "a" * 17 * 2**20}
    with pytest.raises(ValueError, match="select fewer columns"):
        archives.write_arrays(tmp_path / "m", header, {})
    assert os.listdir(tmp_path) == []
    header["text"] = "a" * 15 * 2**20  # which packs a thousandfold
    archives.write_arrays(tmp_path / "m", header, {})
    assert archives.read_header(tmp_path / "m", "x")["text"] == header["text"]


def test_models_of_gigabytes_are_refused_unread(tmp_path):
    place = tmp_path / "m.json"
    with place.open("wb") as stream:
        stream.truncate(2 * 10**9)  # takes no room on the disk
    traced, resident, message = cost("model", place)
    assert "larger than 10⁹ bytes" in message
    assert traced < 2e7 and resident < 2e7


def test_a_small_model_that_declares_a_billion_categories_costs_little(tmp_path):
    def widen(data):
        card = data["scorecard"]
        columns = card["encoder"]["columns"]
        columns.update(names=["a"], which=[10**9], levels=columns["levels"][:1])
        card["encoder"]["bins"] = 10**9
        card.update(z=[0.0], counts=[10**9])
        data["certificate"]["warnings"] = []

    place = tmp_path / "m.json"
    place.write_text(json.dumps(signed(widen)))
    assert place.stat().st_size < 2000
    traced, resident, message = cost("model", place)
    assert message.endswith("is not valid: the list of columns is not valid.")
    assert traced < 5e7 and resident < 5e7


def test_columns_that_share_wide_levels_cost_little(tmp_path):
    # 2,000 columns of 2,000 shared categories: a table of 128 terabytes is declared.
    def widen(header):
        levels = [{"kind": "label", "categories": list(range(2000))}]
        names = [f"c{k}" for k in range(2000)]
        header["columns"] = {"names": names, "levels": levels, "which": [0] * 2000}
        header["target"] = "c0"

    place = tmp_path / "m"
    archives.write_arrays(place, *forged(widen))
    traced, _, message = cost("marginals", place)
    assert "ask for 4000000 × 4000000 numbers" in message
    assert traced < 5e7


# ---- writing


def test_nothing_is_half_written(tmp_path, monkeypatch):
    place = tmp_path / "m.renyi"
    place.write_bytes(b"old")
    m = Marginals.load(MARGINALS)
    real = np.lib.format.write_array
    calls = []

    def fail_later(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise OSError("No space left on device")
        real(*arguments, **options)

    monkeypatch.setattr(np.lib.format, "write_array", fail_later)
    with pytest.raises(OSError, match="No space left"):
        m.save(place)
    assert len(calls) == 2
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.renyi"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_at_any_step_leaves_the_old_file(tmp_path, monkeypatch, step):
    place = tmp_path / "m.json"
    place.write_bytes(b"old")

    def fail(*_):
        raise OSError("failed")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="failed"):
        storage.write_json(place, {"a": 1})
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.json"]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    place = tmp_path / "m"
    place.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), storage.replacing(place) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path):
    place = tmp_path / "m"
    place.write_bytes(b"old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.write_json(place, {"a": float("nan")})
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_places_that_are_no_files_are_named(tmp_path):
    m = Marginals.load(MARGINALS)
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        m.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder .*nowhere"):
        m.save(tmp_path / "nowhere" / "m.renyi")
    for load in (Marginals.load, RenyiClassifier.load, Scorecard.load):
        with pytest.raises(FileNotFoundError, match="absent"):
            load(tmp_path / "absent")
        with pytest.raises(IsADirectoryError):
            load(tmp_path)


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    storage.write_json(tmp_path / "m", {"a": 1})
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "m")}
    assert len(modes) == 1


def test_permissions_of_an_old_file_are_kept(tmp_path):
    place = tmp_path / "m"
    for mode in (0o600, 0o664):
        place.write_bytes(b"old")
        place.chmod(mode)
        storage.write_json(place, {"a": 1})
        assert place.stat().st_mode & 0o777 == mode


def test_the_process_keeps_its_umask(tmp_path, monkeypatch):
    # Between two calls, other threads would make files that anyone may write to.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("umask was changed"))
    storage.write_json(tmp_path / "m", {"a": 1})
    assert (tmp_path / "m").exists()


def test_errors_of_the_system_name_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left .*m\.json'") as caught:
        storage.write_json(tmp_path / "m.json", {"a": 1})
    assert caught.value.filename == str(tmp_path / "m.json")
