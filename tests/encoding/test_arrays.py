"""From any table to codes and labels: every type a column may arrive in."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from renyi.encoding.arrays import (
    LabelBlock,
    NumberColumn,
    as_table,
    column_names,
    parts,
)
from renyi.encoding.columns import label_order, label_text
from renyi.encoding.encoder import Encoder
from support.engines import polars as pl


def cells(table):
    """Cells of a one-column table as labels or numbers, None where missing."""
    table = as_table(table)
    (part,) = parts(table, column_names(table) or ["x0"])
    if isinstance(part, NumberColumn):
        return [None if np.isnan(v) else v for v in part.values.tolist()]
    assert isinstance(part, LabelBlock)
    return [[*part.labels, None][k] for k in part.codes[0]]


STRINGS = ["b", None, "a", "b"]
DICTIONARY = pa.array(["b", None, "a", "b"]).dictionary_encode()


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(STRINGS, dtype="str"),
        pd.Series(STRINGS, dtype=object),
        pd.Series(["b", np.nan, "a", "b"], dtype=object),
        pd.Series(["b", pd.NA, "a", "b"], dtype="string"),
        pd.Series(STRINGS, dtype=pd.StringDtype("python")),
        pd.Series(STRINGS, dtype=pd.ArrowDtype(pa.large_string())),
        pd.Series(pd.Categorical(STRINGS, categories=["z", "b", "a"])),
        pa.array(STRINGS),
        pa.array(STRINGS, pa.large_string()),
        pa.array(STRINGS, pa.string_view()),
        pa.chunked_array([["b", None], [], ["a", "b"]], pa.string()),
        pa.chunked_array([["b", None], ["a", "b"]], pa.string_view()),
        DICTIONARY,
        pa.chunked_array([DICTIONARY[:2], DICTIONARY[2:]]),
        pa.DictionaryArray.from_arrays([0, 1, 2, 0], ["b", None, "a"]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_columns_of_strings(column):
    check_strings(column, pd.DataFrame if isinstance(column, pd.Series) else pa.table)


def check_strings(column, frame):
    assert cells(frame({"c": column})) == STRINGS
    # Beside a column of another type the road is another one.
    two = as_table(frame({"c": column, "d": [1.5, 2.5, 3.5, 4.5]}))
    first = next(iter(parts(two, ["c", "d"])))
    assert [[*first.labels, None][k] for k in first.codes[0]] == STRINGS


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (np.array([["b"], ["a"]]), ["b", "a"]),
        (np.array([[b"b"], ["é".encode()]]), ["b", "é"]),
        (np.array([["b"], ["a"]], np.dtypes.StringDType()), ["b", "a"]),
        (np.array([["b"], [None]], object), ["b", None]),
        (np.array([[3], [-1]], np.int8), [3, -1]),
        (np.array([[127], [-128]], np.int8), [127, -128]),
        (np.array([[2**64 - 1], [2**64 - 3]], np.uint64), [2**64 - 1, 2**64 - 3]),
        (np.array([[-(2**63)], [2**63 - 1]]), [-(2**63), 2**63 - 1]),
        (np.array([[10**400], [2]], object), [10**400, 2]),
        (np.array([[True], [False]]), [True, False]),
        (np.array([[1.5], [np.nan]], np.float32), [1.5, None]),
        (np.array([["2020-01-02"], ["NaT"]], "M8[D]"), ["2020-01-02", None]),
        ([["b"], [None]], ["b", None]),
        ([["b"], [float("nan")]], ["b", None]),
        ([[1], [pd.NA]], [1, None]),
        ((("b",), ("a",)), ["b", "a"]),
        (pd.DataFrame({"c": pd.array([1, None, 3], "Int64")}), [1, None, 3]),
        (pd.DataFrame({"c": pd.array([True, None], "boolean")}), [True, None]),
        (pd.DataFrame({"c": pd.array([1.5, None], "Float64")}), [1.5, None]),
        (
            pd.DataFrame({"c": pd.period_range("2020-01", periods=1, freq="M")}),
            ["2020-01"],
        ),
        (pa.table({"c": pa.nulls(2)}), [None, None]),
        (pa.table({"c": pa.array([1.5, None]).cast(pa.float16())}), [1.5, None]),
        (pa.table({"c": [decimal.Decimal("1.25"), None]}), [1.25, None]),
        (pa.RecordBatch.from_pydict({"c": ["x", None]}), ["x", None]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_columns_of_other_types(table, expected):
    values = cells(table)
    assert values == expected
    assert [type(v) for v in values] == [type(v) for v in expected]


def test_frames_of_polars():
    for dtype in (pl.String, pl.Categorical, pl.Enum(["z", "b", "a"])):
        check_strings(pl.Series(STRINGS, dtype=dtype), pl.DataFrame)
    test_columns_of_other_types(pl.DataFrame({"c": [1, None, 3]}), [1, None, 3])
    test_columns_of_other_types(pl.DataFrame({"c": [True, None]}), [True, None])
    test_one_dimension_is_refused(pl.Series([1, 2]))
    with pytest.raises(TypeError, match=r"Column 'c' has the type .*Cast it"):
        cells(pl.DataFrame({"c": [{"a": 1}]}))


def test_numbers_lend_texts_of_other_columns_no_type():
    texts = ["1.5", "2.5", "4", None]
    both = np.array([[1.5, True, 2.5, 4], texts], object).T
    numbers, words = (
        next(part for part in parts(both, ["a", "b"]) if name in part.names)
        for name in ("a", "b")
    )
    assert words.labels[:3] == ["1.5", "2.5", "4"]
    assert words.codes[0].tolist() == next(parts(both[:, 1:], ["b"])).codes[0].tolist()
    assert 1.5 in numbers.labels


def test_true_and_one_stay_apart_in_an_array_of_objects():
    X = np.array([[True, 1, 1.0, "1"], [False, 0, 0.0, "0"]], object)
    found = {}
    for part in parts(X, ["truth", "whole", "real", "text"]):
        for name, codes in zip(part.names, part.codes, strict=True):
            found[name] = [part.labels[k] for k in codes]
    assert {k: [type(v) for v in vs] for k, vs in found.items()} == {
        "truth": [bool, bool],
        "whole": [int, int],
        "real": [float, float],
        "text": [str, str],
    }
    mixed = np.array([[True], [1], ["1"], [np.nan]], object)
    assert [label_text(v) for v in cells(mixed) if v is not None] == ["True", "1", "1"]


def test_large_integers_do_not_merge():
    for values in (list(range(2**53, 2**53 + 30)), [*range(2**60, 2**60 + 300)]):
        for table in (
            np.array(values)[:, None],
            pl.DataFrame({"c": values}),
            pl.DataFrame({"c": [*values, None]}),
            np.array(values, object)[:, None],
        ):
            whole = {v for v in cells(table) if v is not None}
            assert len(whole) == len(values)


@pytest.mark.parametrize(
    "table",
    [
        sp.csr_array(np.eye(3)),
        sp.coo_matrix(np.eye(3)),
        pd.DataFrame.sparse.from_spmatrix(sp.eye_array(3).tocsr()),
        pd.DataFrame({"c": pd.arrays.SparseArray([0, 1, 0]), "d": ["a", "b", "c"]}),
    ],
    ids=["csr", "coo", "frame", "column"],
)
def test_sparse_tables_are_refused(table):
    with pytest.raises(TypeError, match=r"[Ss]parse.*(toarray|to_dense)\(\)"):
        cells(table)


@pytest.mark.parametrize(
    "table",
    [pd.Series([1, 2]), np.array([1, 2]), ["a", "b"]],
    ids=["pandas", "numpy", "list"],
)
def test_one_dimension_is_refused(table):
    with pytest.raises(ValueError, match="Reshape your data"):
        as_table(table)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (np.zeros((0, 2)), ValueError, "0 sample"),
        (np.zeros((2, 0)), ValueError, "0 feature"),
        (np.zeros((2, 2, 2)), ValueError, "two-dimensional"),
        (np.zeros((2, 2), complex), ValueError, "Complex data not supported"),
        (np.zeros((2, 1), "i4,i4"), TypeError, "Structured arrays"),
        (np.array([[{"a": 1}], [2]], object), TypeError, "string or a number"),
        (np.array([[[1], 2]], object), TypeError, "string or a number"),
        (pa.table({"c": [[1], [2]]}), TypeError, "'c' has the type .*Cast it"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_other_shapes_and_cells_are_refused(table, error, words):
    with pytest.raises(error, match=words):
        cells(table)


def test_order_of_labels_is_numbers_then_texts_then_missing():
    labels = ["b", None, 10**400, 2, -1.5, "a"]
    ordered = sorted(labels, key=label_order)
    assert ordered == [-1.5, 2, 10**400, "a", "b", None]


def test_categories_in_another_order() -> None:
    # pandas takes two such types, of neighbours, for equal.
    cells = ["x", "y", "x", "x"]
    frame = pd.DataFrame(
        {
            "a": pd.Categorical(cells, categories=["x", "y"]),
            "b": pd.Categorical(cells, categories=["y", "x"]),
        }
    )
    assert frame.dtypes["a"] == frame.dtypes["b"]
    first, second = Encoder().fit_transform(frame)[1].tolist()
    assert first == second == [0, 1, 0, 0]


@pytest.mark.filterwarnings("error")
def test_names_of_a_lazy_frame_are_not_asked_for() -> None:
    assert column_names(pl.LazyFrame({"a": [1]})) is None
