"""Tallies: every input path equals counting all rows in memory, exactly."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi import Encoder, Marginals
from renyi.sources import counter
from renyi.sources.counter import PairCounter
from renyi.sources.kept_rows import KeptRows, RowCoder
from renyi.sources.spec import CountSpec, pack
from support.streams import counted, decided, every_type, pieces, reference

TABLE = every_type(900)
BARE = TABLE.drop_columns(["view"])  # Arrow cannot take rows of string views
ENCODERS = {
    "plain": None,
    "missing code": Encoder(missing=("?", "", -9)),
    "rare": Encoder(min_count=100),
    "named": Encoder(numeric=("many", "small", "boolean", "int dictionary")),
    "no numbers": Encoder(numeric=()),
    "fitted": Encoder(missing=("?", "", -9)).fit(TABLE.drop_columns(["y"])[:200]),
    "fitted rare": Encoder(min_count=40).fit(TABLE.drop_columns(["y"])[:200]),
}


@pytest.mark.parametrize("class_conditional", [False, True])
@pytest.mark.parametrize("name", ENCODERS)
def test_every_type_equals_rows_in_memory(name: str, class_conditional: bool) -> None:
    encoder = ENCODERS[name]
    want = reference(TABLE, "y", encoder, class_conditional)
    spec = CountSpec.of(TABLE.schema, "y", encoder, class_conditional)
    assert counted([TABLE], spec) == want
    assert counted(pieces(TABLE, [1, 400, 33]), spec, ways=3) == want


@given(data=st.data())
def test_small_random_tables(data) -> None:
    n = data.draw(st.integers(1, 40))
    cell = st.sampled_from(["a", "b", "?", "", None, "c"])
    number = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, 1.0]))
    columns = {
        "word": pa.array(data.draw(_column(cell, n)), pa.string()),
        "int": pa.array(data.draw(_column(st.integers(-3, 30), n))),
        "float": pa.array(data.draw(_column(number, n)), pa.float64()),
        "y": pa.array(data.draw(_column(st.sampled_from("np"), n))),
    }
    table = pa.table(columns)
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    spec = CountSpec.of(table.schema, "y", class_conditional=True)
    try:
        want = reference(table, "y", class_conditional=True)
    except ValueError as error:
        with pytest.raises(ValueError) as told:
            counted(pieces(table, sizes), spec, 2)
        assert str(told.value) == str(error)
        return
    assert counted(pieces(table, sizes), spec, 2) == want


def _column(cell, n: int):
    return st.lists(cell, min_size=n, max_size=n)


def test_weights_are_summed() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, size=len(BARE)).astype(float)
    weighted = BARE.append_column("w", pa.array(weights))
    spec = CountSpec.of(weighted.schema, "y", class_conditional=True, weight="w")
    want = reference(weighted, "y", class_conditional=True, weight="w")
    for ways in (1, 3):
        got = counted(pieces(weighted, [211]), spec, ways)
        assert got.columns == want.columns and got.n == want.n
        assert got.counts.dtype == np.float64
        np.testing.assert_allclose(got.counts, want.counts, rtol=1e-12)
        np.testing.assert_allclose(got.class_counts, want.class_counts, rtol=1e-12)


def test_weights_that_are_none_are_named() -> None:
    gone = "is missing"
    for wrong, told in ((-1.0, "is -1"), (float("nan"), gone), (None, gone)):
        batch = pa.record_batch({"a": ["x"] * 3, "y": ["n"] * 3, "w": [1.0, wrong, 1]})
        spec = CountSpec.of(batch.schema, "y", weight="w")
        for start, row in (
            (None, "A weight"),
            (7, "The weight of row 8 .counted from 0."),
        ):
            tally = PairCounter(spec)
            tally.start = start
            tally.add(batch[:1])
            with pytest.raises(ValueError, match=f"{row} ?.*in column 'w' {told}"):
                tally.add(batch[1:])
    batch = pa.record_batch({"a": ["x"], "y": ["n"], "w": ["heavy"]})
    with pytest.raises(ValueError, match="column 'w' is 'heavy'"):
        PairCounter(CountSpec.of(batch.schema, "y", weight="w")).add(batch)


def test_weights_of_zero_leave_rows_out() -> None:
    batch = pa.record_batch({"a": ["x", "z"], "y": ["n", "p"], "w": [0.0, 0.0]})
    tally = PairCounter(CountSpec.of(batch.schema, "y", weight="w"))
    tally.add(batch)
    with pytest.raises(ValueError, match="All weights are zero"):
        tally.finish()


def test_rows_without_a_target_or_a_weight_alone_are_refused() -> None:
    table = pa.table({"a": ["p", "q"], "y": ["v", None], "w": [0.0, 1.0]})
    with pytest.raises(ValueError, match="'y' is missing or the weight is zero"):
        counted([table], CountSpec.of(table.schema, "y", weight="w"))


def test_no_rows_and_no_targets_are_refused() -> None:
    batch = pa.record_batch({"a": ["x", "z"], "y": pa.array([None, None], pa.string())})
    tally = PairCounter(CountSpec.of(batch.schema, "y"))
    with pytest.raises(ValueError, match="There are no rows"):
        tally.finish()
    tally.add(batch[:0])
    with pytest.raises(ValueError, match="There are no rows"):
        tally.finish()
    tally.add(batch)
    assert (tally.n, tally.left_out, tally.seen) == (0, 2, 2)
    with pytest.raises(ValueError, match="target 'y' is missing in every row"):
        tally.finish()


@pytest.mark.parametrize("code", ["2.0", "-0.0", "2e0", "2", 2.0, "nan", "-3.50"])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("size", [4, 20, 21, 22, 400])
def test_missing_codes_of_numbers(code: str | float, named: bool, size: int) -> None:
    cells = np.resize(np.arange(size), 1200)
    table = pa.table(
        {
            "int": cells,
            "wide": 1000 * (cells - 2) + 2,
            "float": cells - 5.5,
            "text": [f"{k}.0" for k in cells],
            "y": ["n", "p", "p"] * 400,
        }
    )
    numeric = ("int", "wide", "float", "text") if named else "auto"
    encoder = Encoder(missing=(code,), numeric=numeric, bins=3)
    spec = CountSpec.of(table.schema, "y", encoder)
    found = counted(pieces(table, [70, 301]), spec)
    assert found == reference(table, encoder=encoder)
    if named:
        gone = None in found.categories["text"]
        assert gone == (code not in ("nan", "-3.50"))


def test_dictionaries_may_change_or_be_shared() -> None:
    words = pa.array(["b", "a", None, "b"] * 20)
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 20), ["b", "a", "c"])
    large = pa.DictionaryArray.from_arrays(
        pa.array([5_000, 1, 5_000], pa.int32()), [f"w{k}" for k in range(9_000)]
    )
    batches = [
        pa.record_batch({"a": cells, "y": ["n"] * len(cells)})
        for cells in (first[:30], first[30:], words.dictionary_encode(), large, large)
    ]
    cells = [label for batch in batches for label in batch["a"].to_pylist()]
    table = pa.table({"a": cells, "y": ["n"] * len(cells)})
    tally = PairCounter(CountSpec.of(batches[0].schema, "y"))
    for batch in batches:
        tally.add(batch)
    assert tally.finish() == reference(table)


def test_the_limit_of_categories_is_that_of_memory(monkeypatch) -> None:
    words = [f"word {k}" for k in range(150)] * 2
    table = pa.table({"a": words, "b": ["x"] * 300, "y": ["n", "p"] * 150})
    assert Marginals.from_arrow(table, target="y") == reference(table)
    monkeypatch.setattr("renyi.counting.pair_counts.MAX_TABLE_BYTES", 8 * 100**2)
    with pytest.raises(ValueError, match="categories would take"):
        reference(table)
    with pytest.raises(ValueError, match="categories would take .*'a' alone has 150"):
        counted([table], CountSpec.of(table.schema, "y"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"a": pa.array([1.5])}, "'a' holds integer in the first rows and float"),
        ({"a": pa.array(["x"])}, r"integer in the first rows and text \(string\)"),
        ({"more": pa.array([1])}, "Column 'more' is in some of the rows only"),
        ({"a": None}, "Column 'a' is missing from some of the rows"),
    ],
)
def test_a_schema_that_changes_names_the_column(change: dict, told: str) -> None:
    first = {"a": pa.array([1]), "y": pa.array(["n"])}
    second = {k: v for k, v in {**first, **change}.items() if v is not None}
    batches = [pa.record_batch(first), pa.record_batch(second)]
    with pytest.raises(ValueError, match=told):
        Marginals.from_arrow(iter(batches), target="y")


def test_columns_may_come_in_another_order_width_or_all_null() -> None:
    first = pa.table(
        {"a": pa.array([1, 2], pa.int8()), "b": ["x", "z"], "y": ["n", "p"]}
    )
    second = pa.table({"y": ["n"], "b": pa.array(["x"], pa.large_string()), "a": [1]})
    third = pa.table({"a": pa.nulls(1), "b": pa.nulls(1), "y": ["n"]})
    whole = pa.table(
        {"a": [1, 2, 1, None], "b": ["x", "z", "x", None], "y": ["n", "p", "n", "n"]}
    )
    got = counted([first, second, third], CountSpec.of(first.schema, "y"))
    assert got == reference(whole)


def test_an_undecided_plan_is_not_counted() -> None:
    spec = CountSpec.of(TABLE.schema, "y")
    with pytest.raises(ValueError, match="not decided about column 'small'"):
        PairCounter(spec)


def test_tallies_of_different_plans_are_not_merged() -> None:
    schema = pa.schema({"a": pa.string(), "y": pa.string()})
    first, second = CountSpec.of(schema, "y"), CountSpec.of(schema, "a")
    with pytest.raises(ValueError, match="different specs"):
        PairCounter(first).merge(PairCounter(second))
    with pytest.raises(ValueError, match="of another spec"):
        PairCounter.from_bytes(first, PairCounter(second).to_bytes())


# ---- bytes


def _tally() -> PairCounter:
    spec = decided([TABLE], CountSpec.of(TABLE.schema, "y", class_conditional=True))
    tally = PairCounter(spec)
    tally.add(TABLE[:200])
    return tally


def test_bytes_bring_a_tally_back() -> None:
    tally = _tally()
    again = PairCounter.from_bytes(tally.spec, tally.to_bytes())
    assert (again.n, again.seen) == (200, 200)
    assert again.to_bytes() == tally.to_bytes()
    tally.add(TABLE[200:])
    again.add(TABLE[200:])
    assert again.finish() == tally.finish() == reference(TABLE, class_conditional=True)


def test_infinite_labels_travel_as_bytes() -> None:
    batch = pa.record_batch({"a": [np.inf, -np.inf, 1.5], "y": ["n", "p", "n"]})
    spec = CountSpec.of(batch.schema, "y", Encoder(numeric=()))
    tally = PairCounter(spec)
    tally.add(batch)
    again = PairCounter.from_bytes(spec, tally.to_bytes())
    want = reference(pa.table([batch["a"], batch["y"]], ["a", "y"]), "y", spec.encoder)
    assert again.finish() == want


@given(st.data())
def test_damaged_bytes_are_one_sentence(data) -> None:
    tally = _tally()
    raw = bytearray(tally.to_bytes())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:  # a few bits of a zip archive, such as its dates, mean nothing
        again = PairCounter.from_bytes(tally.spec, bytes(raw))
    except ValueError as error:
        assert str(error).startswith("What was received") and str(error)[-1] == "."
    else:
        assert again.to_bytes() == tally.to_bytes()


def test_bytes_of_something_else_are_refused() -> None:
    tally = _tally()
    with pytest.raises(ValueError, match="format is"):
        PairCounter.from_bytes(tally.spec, pack("profile", {}, {}))
    for raw in (b"", b"renyi 1\n", b"\x80\x04K\x01."):
        with pytest.raises(ValueError, match="not (a renyi-counts file|valid)"):
            PairCounter.from_bytes(tally.spec, raw)


def test_rows_with_a_refused_cell_are_not_counted() -> None:
    good = pa.record_batch(
        {"a": [1.5, 2.5] * 10, "b": ["x", "z"] * 10, "y": ["n"] * 20}
    )
    encoder = Encoder(numeric=("a", "b")).fit(
        pa.table({"a": [1.0, 2.0, 3.0], "b": ["1", "2", "3"]})
    )
    bad = good.set_column(1, "b", pa.array(["1"] * 19 + ["word"]))
    fine = good.set_column(1, "b", pa.array(["1", "2"] * 10))
    tally = PairCounter(CountSpec.of(good.schema, "y", encoder))
    tally.add(fine)
    with pytest.raises(ValueError, match="Column 'b' is numeric but holds 'word'"):
        tally.add(bad)
    assert (tally.n, tally.seen) == (20, 20)
    tally.add(fine)
    want = reference(pa.Table.from_batches([fine, fine]), "y", encoder)
    assert tally.finish() == want


def test_wide_tables_are_counted_once_and_only_what_occurs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    cells = {f"x{j}": rng.choice(["no", "yes"], 120) for j in range(60)}
    table = pa.table({**cells, "y": rng.choice(["a", "b"], 120)})
    made, count = [], counter.pair_counts

    def noted(codes, sizes, *args, **how):
        made.append((codes.shape[1], sum(sizes)))
        return count(codes, sizes, *args, **how)

    monkeypatch.setattr(counter, "pair_counts", noted)
    monkeypatch.setattr(counter, "_FEW_CELLS", 1)
    monkeypatch.setattr(counter, "_LEAST_ROWS", 64)
    got = counted(pieces(table, [30, 30, 30, 30]), CountSpec.of(table.schema, "y"))
    assert made == [(120, 2 * 61)]  # not two tables, nor one of missing cells
    assert got == reference(table, "y")


@pytest.mark.parametrize("class_conditional", [False, True])
def test_missing_cells_get_a_place_when_one_occurs(
    class_conditional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "_MOST_ROWS", 40)
    rng = np.random.default_rng(1)
    cells = {f"x{j}": rng.choice(["no", "yes"], 200).astype(object) for j in range(5)}
    cells["x1"][100:] = np.where(rng.random(100) < 0.3, None, cells["x1"][100:])
    table = pa.table({**cells, "y": rng.choice(["a", "b"], 200)})
    spec = CountSpec.of(table.schema, "y", class_conditional=class_conditional)
    first, second = PairCounter(spec), PairCounter(spec)
    first.add(table[:90])
    assert first._table.size == 2 * 6
    first = PairCounter.from_bytes(spec, first.to_bytes())
    second.add(table[90:])
    first.merge(PairCounter.from_bytes(spec, second.to_bytes()))
    assert first._table.size == 2 * 6 + 1
    assert first.finish() == reference(table, "y", class_conditional=class_conditional)


@pytest.mark.parametrize("weight", [None, "mass"])
@pytest.mark.parametrize("name", ENCODERS)
def test_kept_rows_have_the_codes_that_they_have_in_memory(
    name: str, weight: str | None
) -> None:
    y = TABLE["y"].to_pylist()
    y[7::50] = [None] * len(y[7::50])
    mass = np.arange(len(y)) % 4 / 2
    table = TABLE.set_column(TABLE.column_names.index("y"), "y", pa.array(y))
    table = table.append_column("mass", pa.array(mass))
    if weight is None:
        table = table.drop_columns(["mass"])
    batches = pieces(table, [1, 300, 33])
    spec = CountSpec.of(table.schema, "y", ENCODERS[name], False, weight)
    spec, files = decided(batches, spec), []
    with KeptRows() as rows, warnings.catch_warnings(action="ignore"):
        m = counted(batches, spec)
        for k in (0, 4):  # two files of some units each, which are merged twice
            made = []
            for batch in batches[k:][: None if k else 4]:
                made.append(RowCoder(spec, rows))
                made[-1].add(batch)
            for unit in made[1:]:
                made[0].merge(unit)
            files.append(made[0])
        files[0].merge(files[1])
        files[0].finish()
        assert rows.columns == m.columns
        blocks = list(rows.blocks(range(len(m.columns))))
        some = [block for block, _ in rows.blocks([2, -1])]
    assert rows.n == sum(len(block.T) for block in some)
    assert all(
        np.array_equal(a, b[[2, -1]]) for a, (b, _) in zip(some, blocks, strict=True)
    )
    assert len(blocks) > 5
    counts = np.array([label is not None for label in y])
    counts &= (mass > 0) | (weight is None)
    *codes, last = np.concatenate([block for block, _ in blocks], axis=1)
    assert [m.classes[k] for k in last] == np.array(y)[counts].tolist()
    whole = m.encoder.transform(table.select(list(m.feature_names)))
    assert np.array_equal(np.array(codes), whole[:, counts])
    weights = [w for _, w in blocks]
    if weight is None:
        assert weights == [None] * len(blocks)
    else:
        assert np.array_equal(np.concatenate(weights), mass[counts])
