"""Arrow streams: whatever hands over its rows gives the marginals of these rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import dataset

from renyi import Encoder, Marginals
from support.engines import datafusion
from support.engines import polars as pl
from support.streams import every_type, reference

TABLE = every_type(700).drop_columns(["null", "decimal", "view", "foreign"])


def _frames(table: pa.Table) -> Iterator[pl.DataFrame]:
    for batch in table.to_batches(150):
        yield pl.from_arrow(batch)


SOURCES = {
    "table": lambda table: table,
    "reader": lambda table: table.to_reader(100),
    "list of batches": lambda table: table.to_batches(150),
    "tuple of tables": lambda table: (table[:100], table[100:]),
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "generator": lambda table: (batch for batch in table.to_batches(150)),
    "generator of frames": _frames,
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(),
    "pandas with an index": lambda table: table.to_pandas().set_axis(range(5, 705)),
    "datafusion": lambda table: datafusion.SessionContext().from_arrow(table),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_counts(name: str) -> None:
    table = TABLE
    if name.startswith("pandas"):  # to which decimals are objects
        table = TABLE.drop_columns(["whole decimal", "many decimals"])
        want = Marginals.from_data(table.to_pandas(), target="y")
    else:
        want = reference(table)
    assert Marginals.from_arrow(SOURCES[name](table), target="y") == want


def test_settings_are_passed_on() -> None:
    weighted = TABLE.append_column("w", pa.array(np.arange(1.0, 701)))
    encoder = Encoder(bins=3, min_count=20)
    got = Marginals.from_arrow(
        weighted, target="y", encoder=encoder, class_conditional=True, weight="w"
    )
    want = reference(weighted, "y", encoder, True, "w")
    assert got.columns == want.columns and got.n == want.n
    np.testing.assert_allclose(got.counts, want.counts)
    np.testing.assert_allclose(got.class_counts, want.class_counts)


def test_what_passes_by_once_is_counted_as_what_can_be_read_again() -> None:
    rng = np.random.default_rng(0)
    words = pa.array(["u", "v", None] * 1000).dictionary_encode()
    columns = {"x": rng.normal(size=3000), "w": words, "y": ["n", "p"] * 1500}
    table = pa.table({"big": [2**60 + k % 9 for k in range(3000)], **columns})
    want = reference(table)

    def changing() -> Iterator[pa.Table]:
        yield table[:5].set_column(2, "w", table["w"][:5].cast(pa.string()))
        yield table[5:5]
        yield table[5:]

    for source in (table, table.to_batches(500), table.to_reader(500), changing()):
        assert Marginals.from_arrow(source, target="y") == want


def test_what_is_kept_of_a_stream_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the process ends, nothing is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = pa.table(
        {"x": np.random.default_rng(0).random(90_000), "y": ["n"] * 90_000}
    )
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(30_000):
            yield batch
            seen.append([*tmp_path.iterdir()])

    assert Marginals.from_arrow(batches(), target="y").n == 90_000
    assert seen == [[], [], []]


def test_a_full_temporary_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"x": np.arange(200.0), "y": ["n", "p"] * 100})
    full = partial(open, "/dev/full", "r+b")
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(ValueError, match=r"temporary folder '.*No space left .*TMPDIR"):
        Marginals.from_arrow(table.to_reader(50), target="y")
    encoder = Encoder().fit(table.select(["x"]))
    assert Marginals.from_arrow(table.to_reader(50), target="y", encoder=encoder).n


def test_a_large_batch_is_read_in_slices() -> None:
    n = 150_000
    words = np.array(["a", "b", "c"])[np.arange(n) % 3]
    table = pa.table(
        {"a": words, "b": words[::-1], "y": np.where(words == "a", "n", "p")}
    )
    assert Marginals.from_arrow(table, target="y") == reference(table)


class Once:
    """A stream that can be asked for but once."""

    def __init__(self, table: pa.Table) -> None:
        self.reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self.reader is None:
            raise RuntimeError("the stream was released")
        reader, self.reader = self.reader, None
        return reader.__arrow_c_stream__(requested_schema)


def test_what_turns_out_to_be_spent_is_one_sentence() -> None:
    table = pa.table({"x": [0.5, 1.5, 2.5, 3.5], "y": ["n", "p"] * 2})
    with pytest.raises(ValueError, match="only once .*from_stream[.]$"):
        Marginals.from_arrow(Once(table), target="y")
    reader = pa.RecordBatchReader.from_stream(Once(table))
    assert Marginals.from_arrow(reader, target="y") == reference(table)


class Shrinking(list):
    """A list that yields less every time."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        found = list(super().__iter__())
        self.pop()
        return iter(found)


def test_a_source_that_changes_is_refused() -> None:
    table = pa.table({"x": [0.5, 1.5, 2.5, 3.5], "y": ["n", "p"] * 2})
    with pytest.raises(ValueError, match="gave 4 rows the first time and 3 the second"):
        Marginals.from_arrow(Shrinking(table.to_batches(1)), target="y")


def test_a_stream_that_breaks_off_says_after_how_many_rows() -> None:
    table = pa.table({"a": ["x", "z"], "y": ["n", "p"]})

    def broken() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()
        raise OSError("connection reset by peer")

    reader = pa.RecordBatchReader.from_batches(table.schema, broken())
    for source in (broken(), reader):
        with pytest.raises(ValueError, match="ended early, after 2 rows .*reset"):
            Marginals.from_arrow(source, target="y")


def test_what_is_no_stream_is_one_sentence() -> None:
    frame = pl.DataFrame({"a": ["x"], "y": ["n"]})
    for source, told in (
        (frame.lazy(), "lazy frame has no rows yet"),
        (3, "int is not a stream of Arrow batches"),
        ({"a": [1]}, "yields str, which is not an Arrow batch"),
        (iter([1]), "yields int, which is not an Arrow batch"),
    ):
        with pytest.raises(TypeError, match=told):
            Marginals.from_arrow(source, target="y")
    for source in ([], iter([]), frame[:0], frame[:0].to_arrow().to_reader()):
        with pytest.raises(ValueError, match="There are no rows to count"):
            Marginals.from_arrow(source, target="y")


def test_a_frame_that_arrow_cannot_hold_is_one_sentence() -> None:
    frame = pd.DataFrame({"a": ["x", 1, 2.5], "y": ["n", "p", "n"]})
    with pytest.raises(
        ValueError, match="cannot be converted to Arrow .*use from_data"
    ):
        Marginals.from_arrow(frame, target="y")


@pytest.mark.parametrize("again", [list, iter])
def test_a_column_may_show_its_type_late(again: Any) -> None:
    empty = pa.record_batch({"a": pa.nulls(20), "y": ["n", "p"] * 10})
    typed = pa.record_batch({"a": list(range(10)) * 2, "y": ["n", "p"] * 10})
    cells = [None] * 40 + list(range(10)) * 2 + [None] * 20
    table = pa.table({"a": cells, "y": ["n", "p"] * 40})
    for encoder in (None, Encoder(numeric=("a",))):
        found = again([empty, empty, typed, empty])
        m = Marginals.from_arrow(found, target="y", encoder=encoder)
        assert m == reference(table, encoder=encoder)
    m = Marginals.from_arrow(again([empty, empty]), target="y")
    assert m == reference(pa.table({"a": pa.nulls(40), "y": ["n", "p"] * 20}))


def test_a_stream_that_breaks_off_before_a_type_is_known() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": pa.nulls(2), "y": ["n", "p"]})
        raise OSError("the cable is out")

    with pytest.raises(
        ValueError, match=r"ended early, after 2 rows \(the cable is out"
    ):
        Marginals.from_arrow(broken(), target="y")


def test_a_dataset_of_pyarrow_is_read_twice(tmp_path):
    values = [k * 7.5 for k in range(50)] * 2
    table = pa.table(
        {"a": ["x", "z"] * 50, "v": values, "y": ["n", "p", "p", "n"] * 25}
    )
    pq.write_table(table[:60], tmp_path / "a.parquet")
    pq.write_table(table[60:], tmp_path / "b.parquet")
    found = Marginals.from_arrow(dataset(tmp_path), target="y")
    assert found == Marginals.from_data(table, target="y")


def test_a_name_is_no_stream():
    with pytest.raises(TypeError, match=r"'a\.csv' is a name, not a stream"):
        Marginals.from_arrow("a.csv", target="y")


def test_null_characters_in_names_are_refused_before_polars_ends_the_process() -> None:
    frame = pl.DataFrame({"b\0": ["u", "v"] * 30, "y": ["n", "p", "p"] * 20})
    features = frame.drop("y")
    for count in (
        partial(Marginals.from_arrow, frame, target="y"),
        partial(Marginals.from_arrow, iter([frame]), target="y"),
        partial(Marginals.from_data, frame, target="y"),
        partial(Marginals.from_data, features, frame["y"], target="y"),
        partial(Encoder().fit, features),
    ):
        with pytest.raises(ValueError, match=r"'b\\x00': rename it"):
            count()
