"""Times and decimals of Arrow: one label, whatever the type that holds it."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi import Marginals
from renyi.encoding.arrow import from_decimals, typed, weight_floats
from renyi.sources.counter import PairCounter
from renyi.sources.spec import CountSpec
from renyi.warnings import DataWarning
from support.streams import reference

DAY = ("1970-01-01 00:00:00", "1970-01-01 00:00:10.5", "1970-01-01 01:00:00.05")


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (pa.timestamp("ms"), pa.timestamp("ns"), DAY),
        (pa.time32("ms"), pa.time64("ns"), ("00:00:00", "00:00:10.5", "01:00:00.05")),
    ],
)
def test_times_read_the_same_in_every_unit(
    first: pa.DataType, second: pa.DataType, shown: tuple[str, ...]
) -> None:
    cells = pa.array([0, 10_500, 3_600_050, 0] * 15, pa.int32())
    ticks = cells if pa.types.is_time(first) else cells.cast(pa.int64())
    table = pa.table({"t": ticks.cast(first), "y": ["n", "p"] * 30})
    finer = table.set_column(0, "t", table["t"].cast(second))
    m = Marginals.from_arrow([table[:30], finer[30:]], target="y")
    assert m == reference(table) == reference(finer)
    assert m.categories["t"] == shown
    assert m.block("t", "y").to_numpy().sum(axis=1).tolist() == [30, 15, 15]


def test_other_kinds_of_time_are_another_type() -> None:
    kinds = (pa.date32(), pa.timestamp("us"), pa.time64("us"))
    cells = [pa.array([0], pa.timestamp("us")).cast(kind) for kind in kinds]
    for first, second in permutations(cells, 2):
        one, two = (
            pa.record_batch({"t": each, "y": ["n"]}) for each in (first, second)
        )
        tally = PairCounter(CountSpec.of(one.schema, "y"))
        tally.add(one)
        with pytest.raises(ValueError, match="'t' holds .* in the first rows and .* "):
            tally.add(two)


@given(
    st.lists(
        st.decimals(places=4, allow_nan=False, min_value=-(10**9), max_value=10**9)
    )
)
def test_decimals_are_the_nearest_floats(values: list[Decimal]) -> None:
    column = pa.array([*values, None], pa.decimal128(38, 4))
    assert from_decimals(column).to_pylist() == [*map(float, values), None]


# ---- weights


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["1", " 2.5 ", "0"]),
        pa.array(["1", "2.5", "0"]).dictionary_encode(),
        pa.array([Decimal("1.0"), Decimal("2.5"), Decimal("0.0")]),
        pa.chunked_array([[1.0], [], [2.5, 0.0]]),
    ],
)
def test_weights_of_any_type(cells: pa.Array) -> None:
    assert weight_floats("w", cells).tolist() == [1, 2.5, 0]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (pa.array(["1", "1", "x", "1", "?"]), "row 12 .*in column 'w' is 'x'"),
        (pa.array(["1", "-1", "x"]), "row 11 .*in column 'w' is -1"),
        (pa.array(["1", "1", " "]), "row 12 .*in column 'w' is missing"),
        (pa.chunked_array([["1"], ["1", "x"]]), "row 12 .*in column 'w' is 'x'"),
        (pa.array([1, None]), "row 11 .*in column 'w' is missing"),
        (pa.nulls(2), "row 10 .*in column 'w' is missing"),
        (pa.array([0], pa.date32()), "row 10 .*in column 'w' is datetime.date"),
    ],
)
def test_the_first_cell_that_is_no_weight_is_named(cells: pa.Array, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        weight_floats("w", cells, start=10)


def test_a_comma_may_be_one_of_thousands() -> None:
    for cells in (["1,101", "2,500"], ["1,5", "2,25"], ["1,234,567", "12"]):
        column = pa.chunked_array([cells * 20])
        with pytest.warns(DataWarning, match="point.*groups thousands") as warned:
            assert typed("price", column, frozenset()) is column
        (warning,) = warned
        assert repr(min(c for c in cells if "," in c)) in str(warning.message)
