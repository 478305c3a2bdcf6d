"""Profiles: the first pass decides as if all rows were in memory."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi import Encoder
from renyi.encoding.arrow import typed
from renyi.sources.counter import PairCounter
from renyi.sources.files import column_kinds
from renyi.sources.profile import ColumnProfile
from renyi.sources.spec import CountSpec
from support.streams import decided, pieces, reference


def as_read(table: pa.Table, encoder: Encoder) -> pa.Table:
    """Return a table of text as a reader of whole CSV files would."""
    missing = frozenset(map(str, encoder.missing))
    kinds = column_kinds(encoder)
    made = [
        typed(name, table[name], missing, kinds.get(name))
        for name in table.schema.names
    ]
    return pa.table(made, names=table.schema.names)


def told(found: list[warnings.WarningMessage]) -> set[frozenset[str]]:
    """Return the words of warnings; of two stray words, any may come first."""
    sentences = (str(each.message).split("(--missing")[0] for each in found)
    return {frozenset(sentence.split()) for sentence in sentences}


def texts_equal(table: pa.Table, encoder: Encoder, sizes: list[int]) -> None:
    """Check that text counted in pieces equals text read whole, warnings included."""
    names = table.schema.names
    with warnings.catch_warnings(record=True, action="always") as wanted:
        want = reference(as_read(table, encoder), "y", encoder)
    spec = CountSpec.of(table.schema, "y", encoder, texts=names)
    encoded = pa.table([table[n].dictionary_encode() for n in names], names)
    for source in (table, encoded):
        with warnings.catch_warnings(record=True, action="always") as got:
            found = decided(pieces(source, sizes), spec, 2)
        assert told(got) == told(wanted)
        tally = PairCounter(found)
        for batch in pieces(source, sizes[::-1]):
            tally.add(batch)
        assert tally.finish() == want


def texts(n: int = 400) -> pa.Table:
    """Return a table of text with columns of every look."""
    rng = np.random.default_rng(0)

    def some(values: list[str]) -> list[str]:
        return [values[k] for k in rng.integers(len(values), size=n)]

    few = [str(k) for k in range(15)]
    many = [str(k) for k in range(-40, 40)]
    numbers = [f"{x:.2f}" for x in rng.normal(size=60)]
    return pa.table(
        {
            "words": some(["red", " red", "blue ", "?", ""]),
            "few": some([*few, " 3", "?", "-0"]),
            "many": some([*many, "", "?"]),
            "coded": some(["007", "12", "15"]),
            "numbers": some([*numbers, "1", "?", "nan", "1e3", ".5"]),
            "few numbers": some(["1.0", "2.50", "?"]),
            "stray": some([*many, *many, *numbers, "NA"]),
            "two strays": some([*many, *many, *numbers, "x"]),
            "few with a word": some([*few, "NA"]),
            "large": some(["99999999999999999999", "1"]),
            "above 2**53": some([str(2**53 + k) for k in range(30)]),
            "few above 2**53": some([f" {2**53 + k}" for k in range(20)]),
            "plus": some(["+5", "5", "-5"]),
            "empty": some(["", "?"]),
            "nothing": some(["nan", "NaN"]),
            "y": some(["0", "1"]),
        }
    )


def test_text_is_decided_as_if_read_whole() -> None:
    texts_equal(texts(), Encoder(), [37, 1, 100])


@pytest.mark.parametrize(
    "encoder",
    [
        Encoder(missing=("?", "", "NA", "x", "nan")),
        Encoder(numeric=("coded", "few", "numbers", "few numbers")),
        Encoder(numeric=()),
        Encoder(min_count=20),
    ],
    ids=["missing", "named", "no numbers", "rare"],
)
def test_settings_have_their_say_in_text(encoder: Encoder) -> None:
    texts_equal(texts(), encoder, [90])


@pytest.mark.parametrize("odd", ["1_000", "٣", "+2", str(2**63), "2.0", "2.5", "1e3"])
@pytest.mark.parametrize("size", [1, 40])
def test_named_numbers_are_whole_wherever_odd_ones_stand(odd: str, size: int) -> None:
    column = ["1", "2", odd, "4", "5"] * 4 + ["1", "2", "3", "4"] * 5
    table = pa.table({"a": column, "y": ["n", "p"] * 20})
    texts_equal(table, Encoder(numeric=("a",)), [size])


def test_a_fitted_encoder_reads_text_as_it_was_taught() -> None:
    table = texts()
    with warnings.catch_warnings(record=True, action="always"):
        before = as_read(table[:100], Encoder()).drop_columns(["y"])
    encoder = Encoder().fit(before)
    texts_equal(table, encoder, [70])


cells = st.sampled_from(
    ["1", "2", " 3", "0.5", "1e2", "007", "a", "b", "?", "nan", "-4"]
)


@given(st.lists(cells, min_size=4, max_size=40), st.integers(1, 10))
def test_small_random_columns_of_text(column: list[str], size: int) -> None:
    table = pa.table(
        {"a": column, "y": ["n", "p"] * (len(column) // 2) + ["n"] * (len(column) % 2)}
    )
    texts_equal(table, Encoder(), [size])


def test_a_word_where_numbers_were_decided_is_named() -> None:
    table = pa.table({"a": [f"{k}.5" for k in range(40)], "y": ["n", "p"] * 20})
    spec = decided([table], CountSpec.of(table.schema, "y", texts=["a"]))
    tally = PairCounter(spec)
    tally.add(table)
    late = pa.table({"a": ["2.5", "?", "broken"], "y": ["n", "n", "p"]})
    with pytest.raises(ValueError, match="Column 'a' is numeric but holds 'broken'"):
        tally.add(late)


def test_edges_are_those_of_the_rows_with_a_target() -> None:
    x = np.arange(100.0)
    y = np.where(x < 50, "n", "?")
    table = pa.table({"x": x, "y": y})
    levels = decided([table], CountSpec.of(table.schema, "y")).by_name["x"].levels
    want = Encoder().fit(pa.table({"x": x[:50]}))
    assert levels is not None
    assert levels.edges == want.columns[0].levels.edges


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("below", [0, 1, 10, 18, 19, 20])
@pytest.mark.parametrize("count", [20, 21])
@pytest.mark.parametrize("more", [(), (-9,), (-9, None)])
def test_integers_on_both_sides_of_the_exact_floats(
    more: tuple[int | None, ...], count: int, below: int, gap: bool
) -> None:
    low = 2**53 - below
    values = [v for v in range(low, low + 22) if not gap or v != 2**53][:count]
    encoder = Encoder(missing=(-9, ""))
    for sign in (1, -1):
        cells = [*(sign * v for v in values), *more] * 8
        y = pa.array([f"{k % 2}" for k in range(len(cells))])
        texts = ["" if v is None else str(v) for v in cells]
        rows = pa.table({"x": cells, "y": y})
        whole = Encoder(missing=encoder.missing).fit(rows.drop_columns("y"))
        assert whole.columns[0].kind == ("label" if count == 20 else "number")
        for table, read in ((rows, []), (pa.table({"x": texts, "y": y}), ["x"])):
            spec = CountSpec.of(table.schema, "y", encoder, texts=read)
            spec = decided(pieces(table, [7]), spec, 2)
            assert spec.by_name["x"].kind == whole.columns[0].kind


def test_numbers_of_rows_are_refused_beyond_the_exact_sketch(monkeypatch) -> None:
    monkeypatch.setattr("renyi.encoding.bins.MOST", 1000)
    n = 30_000
    y = ["n", "p"] * (n // 2)
    numbered = pa.table({"a": np.random.default_rng(0).permutation(n), "y": y})
    spec = decided(pieces(numbered, [5000]), CountSpec.of(numbered.schema, "y"), 2)
    assert re.fullmatch(r"about [23]\d,\d{3}", spec.by_name["a"].row_numbers)
    drawn = numbered.set_column(0, "a", pa.array(np.arange(n) // 2))
    spec = decided(pieces(drawn, [5000]), CountSpec.of(drawn.schema, "y"))
    assert spec.by_name["a"].kind == "number"


@pytest.mark.parametrize("share", [0.88, 0.89, 0.895, 0.9, 0.905, 0.91, 0.92])
def test_numbers_of_rows_are_the_same_in_memory(share: float) -> None:
    n = 80_000
    values = np.random.default_rng(1).permutation(n) % int(share * n)
    table = pa.table({"a": values, "y": ["n", "p"] * (n // 2)})

    spec = decided(pieces(table, [9000]), CountSpec.of(table.schema, "y"))
    count = spec.by_name["a"].row_numbers
    told = f"'a' ({count} different whole numbers)" if count else ""
    try:
        Encoder().fit(table.drop_columns(["y"]))
        error = ""
    except ValueError as refused:
        error = str(refused)
    assert bool(error) == bool(count)
    assert told in error
    assert bool(count) == (share > 0.9) or 0.88 < share < 0.92


def test_surveys_of_different_plans_are_not_merged() -> None:
    first = pa.schema({"a": pa.int8(), "y": pa.string()})
    second = pa.schema({"a": pa.float64(), "y": pa.string()})
    one, two = CountSpec.of(first, "y"), CountSpec.of(second, "y")
    with pytest.raises(ValueError, match="different specs"):
        ColumnProfile(one).merge(ColumnProfile(two))
    with pytest.raises(ValueError, match="of another spec"):
        ColumnProfile.from_bytes(one, ColumnProfile(two).to_bytes())
