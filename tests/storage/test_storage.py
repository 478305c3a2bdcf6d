"""Files: golden files, round trips, damage of every kind."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi import Encoder, Marginals, RenyiClassifier, datasets
from renyi.scorecard import Scorecard
from support.forgeries import MARGINALS, MODEL

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
    expected = [-0.26080750407830344, 0.5116231647634585, 0.125]
    rows = pd.DataFrame(
        {
            "vote": ["y", "?", "z"],
            "age": [0.0, 50, None],
            "town": ["Rome", "Oslo", "Paris"],
        }
    )
    assert clf.decision_function(rows).tolist() == expected
    assert clf.predict(rows).tolist() == [0, 1, 1]
    assert clf.alpha_ == 0.125 and clf.classes_.tolist() == [0, 1]
    card = Scorecard.load(MODEL)
    assert card.z.tolist() == clf.z_.tolist()
    assert card.counts.tolist() == [3, 4, 1, 4, 2, 1, 1, 1, 3, 4]


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("model-v1.json", "temperature", [0.7550873664045499, 0.2449126335954501]),
        ("model-v1-halves.json", "temperature", [0.497390107658102, 0.502609892341898]),
        (
            "model-v1-classes.json",
            "affine",
            [0.3987828226306696, 0.2991086394926063, 0.302108537876724],
        ),
    ],
)
def test_golden_calibrated_models_are_read(name, kind, expected, tmp_path):
    clf = RenyiClassifier.load(MODEL.parent / name)
    assert clf.scorecard_.calibration.kind == kind
    rows = pd.DataFrame({"vote": ["y"], "age": [30.5], "town": ["Åbo"]})
    assert clf.predict_proba(rows)[0].tolist() == pytest.approx(expected, rel=1e-12)
    place = tmp_path / "m.json"
    clf.save(place)
    assert place.read_text() == (MODEL.parent / name).read_text()


def test_golden_models_tell_their_data():
    digest = RenyiClassifier.load(MODEL).data_digest_
    assert digest.matches(Marginals.load(MARGINALS).digest)


def test_figures_of_left_out_rows_are_kept_and_checked(tmp_path):
    X, y = datasets.load("votes")
    clf = RenyiClassifier().fit(X, y)
    place = tmp_path / "m.json"
    clf.save(place)
    known = clf.fit_.left_out_details
    assert RenyiClassifier.load(place).fit_.left_out_details == known
    assert [entry["class"] for entry in known["by_class"]] == ["democrat", "republican"]
    wrong = place.read_text().replace('"class": "democrat"', '"class": "x"')
    place.write_text(wrong)
    with pytest.raises(ValueError, match=r"m\.json"):
        RenyiClassifier.load(place)


# ---- round trips

label = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.sampled_from(["None", "(rare)", "(missing)", "\ud800", "🙂"]),
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.floats(),
)


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
        bad = bytearray(raw)
        bad[place] ^= 1 << place // 2 % 8 if place % 2 else 0xFF
        refused += refused_or_equal(
            Marginals.load, tmp_path / "m", bytes(bad), m.__eq__
        )
    assert refused > len(raw) / 2


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
