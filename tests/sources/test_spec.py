"""Plans: what is decided of a table by its schema alone."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

from renyi import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.sources.spec import CountSpec, family

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


@pytest.mark.parametrize(
    ("schema", "given", "told"),
    [
        (SCHEMA, {"target": "z"}, "There is no column 'z' to predict"),
        (SCHEMA, {"target": "y", "weight": "z"}, "no column 'z' of weights"),
        (SCHEMA, {"target": "y", "weight": "y"}, "cannot be the weight too"),
        (SCHEMA, {"target": "y", "encoder": Encoder(numeric=["z"])}, "numeric names"),
        (pa.schema({"y": pa.string()}), {"target": "y"}, "no column but the target"),
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
    with pytest.raises(TypeError, match="Column 'a' has the type list.*Cast it"):
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
