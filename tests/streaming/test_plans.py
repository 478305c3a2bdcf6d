"""Plans: what is decided of a table by its schema alone."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

from renyi import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.streaming.spec import Plan, Role, family

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
    plan = Plan.of(SCHEMA, "y", weight="w")
    assert plan.names == ("word", "count", "size", "flag", "y")
    assert plan.columns == (*plan.names, "w")
    assert plan.undecided == ("count", "size")
    assert plan.role("count") == Role("integer", "auto")
    assert plan.role("size") == Role("float", "number")


def test_named_numbers_replace_types() -> None:
    plan = Plan.of(SCHEMA, "y", Encoder(numeric=("word",)))
    assert plan.undecided == ("word",)
    assert plan.role("size").kind == "label"


def test_texts_are_undecided_the_target_too() -> None:
    plan = Plan.of(SCHEMA, "y", weight="w", texts=["word", "y"])
    assert plan.undecided == ("word", "count", "size", "y")
    assert plan.role("y") == Role("text", "label", "guess")


def test_a_fitted_encoder_decides_everything() -> None:
    frame = pd.DataFrame({"size": [0.5, 1.5, 2.5], "word": ["a", "b", "a"]})
    plan = Plan.of(SCHEMA, "y", Encoder().fit(frame), texts=["word", "size"])
    assert plan.undecided == ()
    assert plan.names == ("size", "word", "y")
    assert plan.ignored == {"count", "flag", "w"}
    assert plan.role("word").text == "words"
    assert plan.role("size").text == "numbers"
    assert plan.role("size").levels is not None


def test_integer_labels_of_a_fitted_encoder_are_figures() -> None:
    encoder = Encoder().fit(pd.DataFrame({"word": [1, 2, 1]}))
    plan = Plan.of(SCHEMA, "y", encoder, texts=["word"])
    assert plan.role("word").text == "figures"
    assert plan.undecided == ()
    assert Plan.of(SCHEMA, "y", encoder).undecided == ()


def test_one_pass_shares_its_cells() -> None:
    wide = pa.schema({**{f"x{j}": pa.float64() for j in range(40)}, "y": pa.string()})
    assert Plan.of(SCHEMA, "y").one_pass().cells == 512
    assert Plan.of(wide, "y").one_pass().cells == 4096 // 40
    assert Plan.of(wide, "y").one_pass().undecided == ()


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
            "Two columns are named 'a'",
        ),
        (SCHEMA, {"target": "y", "encoder": TupleEncoder(order=2)}, "of 2 columns"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(schema, given, told) -> None:
    with pytest.raises(ValueError, match=told):
        Plan.of(schema, **given)


def test_lacking_columns_of_a_fitted_encoder_are_named() -> None:
    encoder = Encoder().fit(pd.DataFrame({"other": ["a", "b"]}))
    with pytest.raises(ValueError, match="Column 'other' is missing"):
        Plan.of(SCHEMA, "y", encoder)


def test_nested_columns_are_named() -> None:
    schema = pa.schema({"a": pa.list_(pa.int8()), "y": pa.string()})
    with pytest.raises(TypeError, match="Column 'a' holds nested values"):
        Plan.of(schema, "y")


def test_dictionaries_are_of_the_family_of_their_texts() -> None:
    assert family("a", pa.dictionary(pa.int8(), pa.large_string())) == "text"
    assert family("a", pa.dictionary(pa.int8(), pa.int64())) == "other"
    assert family("a", pa.decimal128(5, 2)) == family("a", pa.float16()) == "float"
    assert family("a", pa.decimal128(5)) == family("a", pa.uint8()) == "integer"
    zones = [pa.timestamp("s", "UTC"), pa.timestamp("ns", "Asia/Tokyo")]
    assert {family("a", zone) for zone in zones} == {"zoned timestamp"}


def test_plain_form_goes_through_json() -> None:
    frame = pd.DataFrame({"size": [0.5, 1.5, 2.5], "word": ["a", "b", "a"]})
    for encoder in (
        None,
        Encoder(missing=("?", -9), min_count=2),
        Encoder().fit(frame),
    ):
        plan = Plan.of(SCHEMA, "y", encoder, True, "w" if encoder is None else None)
        again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
        assert again == plan


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["a"]},
        {"names": "word"},
        {"names": ["word"] * 6},
        {"roles": []},
        {"cells": -1},
        {"cells": 10**9},
        {"weight": 3},
        {"fitted": 1},
        {"ignored": [3]},
        {"encoder": {}},
        {"extra": 1},
    ],
)
def test_damaged_plain_forms_are_refused(change: dict) -> None:
    data = {**Plan.of(SCHEMA, "y").to_dict(), **change}
    with pytest.raises(ValueError, match="not valid"):
        Plan.from_dict(data)


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
        Role.from_dict({**Role("float", "number").to_dict(), **change})
