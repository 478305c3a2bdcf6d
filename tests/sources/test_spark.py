"""Counting on Spark: classic, Connect, and a real cluster that loses an executor."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import renyi
import renyi.sources.spark
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.warnings import DataWarning
from support.spark import (
    CLUSTER,
    connect_address,
    finished,
    run_client,
    spark_session,
    start_client,
    stopped,
    waited,
)
from support.versions import older

pytestmark = pytest.mark.xdist_group("spark")


def rows(n: int, seed: int = 0) -> pa.Table:
    """Columns of every kind, with nulls where they can be."""
    rng = np.random.default_rng(seed)
    words = np.array(["oak", "elm", "?", "", "ash tree", "ö"])
    price = rng.normal(size=n).round(4)
    return pa.table(
        {
            "a": pa.array(words[rng.integers(0, 6, n)], mask=rng.random(n) < 0.1),
            "b.c`d": pa.array(rng.integers(0, 7, n), mask=rng.random(n) < 0.05),
            "age": pa.array(rng.integers(0, 90, n).astype(np.int32)),
            "price": pa.array(np.where(rng.random(n) < 0.02, np.nan, price)),
            "B.c`d": pa.array(rng.random(n) < 0.3, mask=rng.random(n) < 0.1),
            "y": pa.array(np.where(rng.random(n) < 0.4, "no", "yes")),
        }
    )


def plain(n: int) -> pa.Table:
    """Rows under names that pyspark's own functions can bear."""
    return rows(n).rename_columns(["a", "b", "age", "price", "c", "y"])


def saved(folder: Path, n: int) -> pa.Table:
    """Rows in a file of a folder, where a driver in another process finds them."""
    table = plain(n)
    pq.write_table(table, folder / "rows.parquet")
    return table


@pytest.fixture(scope="module")
def spark() -> Any:
    return spark_session()


def test_equals_rows_in_memory(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renyi.sources.spark, "FAN_IN", 2)
    large = rows(20_000)
    df = spark.createDataFrame(large).repartition(7)
    m = Marginals.from_spark(df, "y", class_conditional=True)
    assert m == Marginals.from_data(large, target="y", class_conditional=True)
    assert m.n == 20_000


def test_empty_partitions_and_a_fitted_encoder(spark: Any) -> None:
    table = rows(3_000)
    encoder = Encoder(bins=3, min_count=200).fit(table.select(["price", "a"]))
    # Two classes in sixteen partitions: most are empty.
    df = spark.createDataFrame(table).repartition(16, "y")
    m = Marginals.from_spark(df, "y", encoder=encoder)
    assert m == Marginals.from_data(table, target="y", encoder=encoder)
    assert m.feature_names == ("price", "a")


def test_weights_of_rows(spark: Any) -> None:
    table = rows(2_000)
    weights = np.random.default_rng(1).integers(0, 4, 2_000)
    df = spark.createDataFrame(table.append_column("w", pa.array(weights)))
    m = Marginals.from_spark(df.repartition(3), "y", weight="w")
    assert m == Marginals.from_data(table, target="y", sample_weight=weights)


def test_rows_without_a_target_are_left_out(spark: Any) -> None:
    table = rows(2_000)
    lost = pa.array(np.arange(2_000) % 100 == 0)
    table = table.set_column(5, "y", pc.if_else(lost, None, table["y"]))
    with pytest.warns(DataWarning, match="Dropped 20 row"):
        m = Marginals.from_spark(spark.createDataFrame(table).repartition(3), "y")
    assert m == Marginals.from_data(table.filter(pc.invert(lost)), target="y")


def test_other_types(spark: Any) -> None:
    days = [datetime.date(2024, 1, 1 + k % 5) for k in range(300)]
    sums = [decimal.Decimal(k % 50) / 4 for k in range(300)]
    short = pa.array([k % 3 for k in range(300)], pa.int8())
    types = pa.decimal128(8, 2), pa.float32()
    table = pa.table(
        {
            "day": days,
            "sum": pa.array(sums, types[0]),
            "small": pa.array([k % 7 / 7 for k in range(300)], types[1]),
            "short": short,
            "y": [k % 2 == 0 for k in range(300)],
        }
    )
    m = Marginals.from_spark(spark.createDataFrame(table).repartition(2), "y")
    assert m == Marginals.from_data(table, target="y")


def test_arrow_stream_of_a_frame(spark: Any) -> None:
    import pyspark

    table = plain(5_000).drop_columns(["price"])
    if older(pyspark, "4.2"):
        with pytest.raises(TypeError, match="not a stream of Arrow"):
            Marginals.from_arrow(spark.createDataFrame(table), target="y")
        return
    m = Marginals.from_arrow(spark.createDataFrame(table), target="y")
    assert m == Marginals.from_data(table, target="y")


def test_bad_data_is_one_sentence(spark: Any) -> None:
    df = spark.createDataFrame(rows(500)).repartition(2)
    with pytest.raises(ValueError, match="^[^\n]*'a'[^\n]*$"):
        Marginals.from_spark(df, "y", weight="a")
    with pytest.raises(ValueError, match="There is no column 'z' to predict"):
        Marginals.from_spark(df, "z")
    with pytest.raises(ValueError, match="There are no rows"):
        Marginals.from_spark(df.limit(0), "y", encoder=Encoder(numeric=()))
    with pytest.raises(TypeError, match="takes a DataFrame of Spark 4, not 'Table'"):
        Marginals.from_spark(rows(5), "y")


def test_all_row_numbers_are_named_at_once(spark: Any) -> None:
    numbers = {name: list(range(100)) for name in ("a", "b")}
    df = spark.createDataFrame(pa.table({**numbers, "y": 50 * ["n", "p"]}))
    with pytest.raises(ValueError, match="'a' .*, 'b' .* look like identifiers"):
        Marginals.from_spark(df, "y")


def test_trouble_in_one_partition(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renyi.sources.spark, "FAN_IN", 2)
    table = rows(400)
    weights = np.ones(400)
    weights[399] = -1.0
    df = spark.createDataFrame(table.append_column("w", pa.array(weights)))
    with pytest.raises(ValueError, match="'w'"):
        Marginals.from_spark(df.repartition(5), "y", weight="w")


def test_an_error_of_the_frame_itself_is_short(spark: Any) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ZeroDivisionError("somebody else's")

    df = spark.createDataFrame(plain(50))
    with pytest.raises(RuntimeError) as caught:
        Marginals.from_spark(df.mapInArrow(broken, df.schema), "y")
    text = str(caught.value)
    assert "ZeroDivisionError: somebody else's" in text
    assert "\n" not in text
    assert caught.value.__suppress_context__


def test_workers_without_renyi(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without `site`, Python does not see packages that are installed as links.
    python = tmp_path / "python"
    packages = Path(pa.__file__).parents[1]
    python.write_text(
        f"#!/bin/sh\nPYTHONPATH='{packages}' exec '{sys.executable}' -S \"$@\"\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    df = spark.createDataFrame(rows(50))
    with pytest.raises(RuntimeError) as caught:
        Marginals.from_spark(df, "y")
    text = str(caught.value)
    assert "No module named 'renyi'" in text
    assert f"install renyi {renyi.__version__}" in text
    assert "PYSPARK_PYTHON" in text
    assert "\n" not in text


def test_workers_with_another_version(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.createDataFrame(rows(50))
    true = renyi.__version__
    monkeypatch.setattr(renyi, "__version__", "99.0")
    with pytest.raises(ValueError, match=f"renyi {true} where this Python has 99.0"):
        Marginals.from_spark(df, "y")


def test_connect(tmp_path: Path) -> None:
    table = saved(tmp_path, 5_000)
    run_client("connect", connect_address(), tmp_path)
    m = Marginals.load(tmp_path / "counted.renyi")
    assert m == Marginals.from_data(table, target="y", class_conditional=True)
    assert "connect" in (tmp_path / "session.txt").read_text()
    sentence = (tmp_path / "sentence.txt").read_text()
    assert "'a'" in sentence
    assert "\n" not in sentence


@pytest.mark.long
def test_exact_after_a_worker_is_killed(spark: Any, tmp_path: Path) -> None:
    """A task that is lost while it counts is run again, and counted once."""
    folder = str(tmp_path)

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
        met = len(list(Path(folder).glob(f"{part}-*")))
        Path(folder, f"{part}-{met}").touch()
        yield from batches
        if (part, met) == (1, 1):
            os.kill(os.getpid(), signal.SIGKILL)

    table = plain(3_000)
    df = spark.createDataFrame(table).repartition(3)
    m = Marginals.from_spark(df.mapInArrow(dying, df.schema), "y")
    assert m == Marginals.from_data(table, target="y")
    # Profiled, counted in vain, counted again.
    assert [len(list(tmp_path.glob(f"{part}-*"))) for part in range(3)] == [2, 3, 2]


@pytest.mark.long
def test_exact_after_an_executor_is_killed(tmp_path: Path) -> None:
    table = saved(tmp_path, 40_000)
    client = start_client("cluster", CLUSTER, tmp_path)
    with stopped(client):
        waiting = tmp_path / "waiting"
        waited(lambda: waiting.exists() or client.poll() is not None)
        assert client.poll() is None, client.communicate()[0]
        killed = json.loads(waiting.read_text())["executor"]
        command = Path(f"/proc/{killed}/cmdline").read_text()
        assert "CoarseGrainedExecutorBackend" in command
        os.kill(killed, signal.SIGKILL)
        (tmp_path / "go").touch()
        finished(client)
    notes = [json.loads(path.read_text()) for path in tmp_path.glob("begun-*")]
    # The last partition was profiled, counted in vain, and counted again elsewhere;
    # so was what the lost executor had already finished.
    last = [note["executor"] for note in notes if note["part"] == 7]
    assert len(last) >= 3
    assert killed in last
    assert {*last} != {killed}
    assert len(notes) > 8 + 8 + 1
    m = Marginals.load(tmp_path / "counted.renyi")
    assert m == Marginals.from_data(table, target="y")
