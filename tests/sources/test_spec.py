"""Plans: what is decided of a table by its schema alone."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

from renyi import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.sources.spec import ColumnSpec, CountSpec, family

SCHEMA = pa.schema(
    {
        "word": pa.string(),
        "count": pa.int32(),
        "size": pa.float64(),
        "flag": pa.bool_(),
        "w": pa.float64(),
        "y": pa.string(),
    }
)


def test_types_decide_what_is_undecided() -> None:
    spec = CountSpec.of(SCHEMA, "y", weight="w")
    assert spec.names == ("word", "count", "size", "flag", "y")
    assert spec.read_columns == (*spec.names, "w")
    assert spec.undecided == ("count", "size")
    assert spec.by_name["count"] == ColumnSpec("integer", "auto")
    assert spec.by_name["size"] == ColumnSpec("float", "number")


def test_named_numbers_replace_types() -> None:
    spec = CountSpec.of(SCHEMA, "y", Encoder(numeric=("word",)))
    assert spec.undecided == ("word",)
    assert spec.by_name["size"].kind == "label"


def test_texts_are_undecided_the_target_too() -> None:
    spec = CountSpec.of(SCHEMA, "y", weight="w", texts=["word", "y"])
    assert spec.undecided == ("word", "count", "size", "y")
    assert spec.by_name["y"] == ColumnSpec("text", "label", "guess")


def test_a_fitted_encoder_decides_everything() -> None:
    frame = pd.DataFrame({"size": [0.5, 1.5, 2.5], "word": ["a", "b", "a"]})
    spec = CountSpec.of(SCHEMA, "y", Encoder().fit(frame), texts=["word", "size"])
    assert spec.undecided == ()
    assert spec.names == ("size", "word", "y")
    assert spec.ignored == {"count", "flag", "w"}
    assert spec.by_name["word"].text == "words"
    assert spec.by_name["size"].text == "numbers"
    assert spec.by_name["size"].levels is not None


def test_integer_labels_of_a_fitted_encoder_are_figures() -> None:
    encoder = Encoder().fit(pd.DataFrame({"word": [1, 2, 1]}))
    spec = CountSpec.of(SCHEMA, "y", encoder, texts=["word"])
    assert spec.by_name["word"].text == "figures"
    assert spec.undecided == ()
    assert CountSpec.of(SCHEMA, "y", encoder).undecided == ()


@pytest.mark.parametrize(
    ("schema", "given", "told"),
    [
        (SCHEMA, {"target": "z"}, "There is no column 'z' to predict"),
        (SCHEMA, {"target": "y", "weight": "z"}, "no column 'z' of weights"),
        (SCHEMA, {"target": "y", "weight": "y"}, "cannot be the weight too"),
        (SCHEMA, {"target": "y", "encoder": Encoder(numeric=["z"])}, "numeric names"),
        (pa.schema({"y": pa.string()}), {"target": "y"}, "no column beside the target"),
        (
            pa.schema([("a", pa.int8()), ("a", pa.int8()), ("y", pa.int8())]),
            {"target": "y"},
            "two columns named 'a'",
        ),
        (SCHEMA, {"target": "y", "encoder": TupleEncoder(order=2)}, "of 2 columns"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(schema, given, told) -> None:
    with pytest.raises(ValueError, match=told):
        CountSpec.of(schema, **given)


def test_lacking_columns_of_a_fitted_encoder_are_named() -> None:
    encoder = Encoder().fit(pd.DataFrame({"other": ["a", "b"]}))
    with pytest.raises(ValueError, match="Column 'other' is missing"):
        CountSpec.of(SCHEMA, "y", encoder)


def test_nested_columns_are_named() -> None:
    schema = pa.schema({"a": pa.list_(pa.int8()), "y": pa.string()})
    with pytest.raises(TypeError, match="Column 'a' has the type list.*cast it"):
        CountSpec.of(schema, "y")


def test_dictionaries_are_of_the_family_of_their_texts() -> None:
    assert family("a", pa.dictionary(pa.int8(), pa.large_string())) == "text"
    assert family("a", pa.dictionary(pa.int8(), pa.int64())) == "other"
    assert family("a", pa.decimal128(5, 2)) == family("a", pa.float16()) == "float"
    assert family("a", pa.decimal128(5)) == family("a", pa.uint8()) == "integer"
    moments = [pa.timestamp("s"), pa.timestamp("ns")]
    assert {family("a", moment) for moment in moments} == {"timestamp"}


def test_plain_form_goes_through_json() -> None:
    frame = pd.DataFrame({"size": [0.5, 1.5, 2.5], "word": ["a", "b", "a"]})
    for encoder in (
        None,
        Encoder(missing=("?", -9), min_count=2),
        Encoder().fit(frame),
    ):
        spec = CountSpec.of(
            SCHEMA, "y", encoder, True, "w" if encoder is None else None
        )
        again = CountSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
        assert again == spec


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["a"]},
        {"names": "word"},
        {"names": ["word"] * 6},
        {"columns": []},
        {"cells": 7},
        {"weight": 3},
        {"fitted": 1},
        {"ignored": [3]},
        {"encoder": {}},
        {"extra": 1},
    ],
)
def test_damaged_plain_forms_are_refused(change: dict) -> None:
    data = {**CountSpec.of(SCHEMA, "y").to_dict(), **change}
    with pytest.raises(ValueError, match="not valid"):
        CountSpec.from_dict(data)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "word"},
        {"text": "prose"},
        {"family": []},
        {"levels": {"kind": "label", "categories": ["a"]}},
        {"more": 1},
    ],
)
def test_damaged_roles_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match="not valid"):
        ColumnSpec.from_dict({**ColumnSpec("float", "number").to_dict(), **change})
