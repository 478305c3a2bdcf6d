"""A Spark driver in a separate process.

    python spark_client.py connect ADDRESS FOLDER
    python spark_client.py cluster ADDRESS FOLDER

counts FOLDER/rows.parquet and saves what came out beside it. On the cluster the frame
waits: see `watched`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession

import renyi
import renyi.sources.spark
from support.spark import SETTINGS

PARTS = 8
renyi.sources.spark.FAN_IN = 3


def connect(address: str, folder: Path) -> None:
    """Count over Spark Connect, and note the sentence that bad data gives."""
    spark = SparkSession.builder.remote(address).getOrCreate()
    df = frame(spark, folder, 3)
    m = renyi.Marginals.from_spark(df, "y", class_conditional=True)
    m.save(folder / "counted.renyi")
    try:
        renyi.Marginals.from_spark(df, "y", weight="a")
    except ValueError as error:
        (folder / "sentence.txt").write_text(str(error))
    (folder / "session.txt").write_text(type(spark).__module__)
    spark.stop()


def cluster(address: str, folder: Path) -> None:
    """Count on a cluster, slowly enough for an accident."""
    more = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        # Both executors take part from the beginning.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }
    builder = SparkSession.builder.master(address).config(map=SETTINGS | more)
    spark = builder.getOrCreate()
    df = frame(spark, folder, PARTS)
    slow = df.mapInArrow(watched(str(folder)), df.schema)
    renyi.Marginals.from_spark(slow, "y").save(folder / "counted.renyi")
    spark.stop()


def frame(spark: Any, folder: Path, parts: int) -> Any:
    """Return the rows in some partitions."""
    rows = pq.read_table(folder / "rows.parquet")
    return spark.createDataFrame(rows).repartition(parts)


def watched(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    """Return a stage that notes who works, and waits once in the counting pass.

    Every task leaves a file: its partition, its attempt, the pid of its executor. The
    last partition, met for the second time, waits until somebody writes "go".
    """

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        part, place = context.partitionId(), Path(folder)
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        executor = int(daemon.rpartition(")")[2].split()[1])
        note = {"part": part, "executor": executor, "attempt": context.attemptNumber()}
        met = len(list(place.glob(f"begun-{part}-*")))
        name = f"{part}-{context.taskAttemptId()}"
        (place / f"begun-{name}").write_text(json.dumps(note))
        if part == PARTS - 1 and met == 1:
            (place / "written").write_text(json.dumps(note))
            (place / "written").rename(place / "waiting")
            while not (place / "go").exists():
                time.sleep(0.02)
        yield from batches
        (place / f"done-{name}").write_text(json.dumps(note))

    return stage


if __name__ == "__main__":
    job, address, folder = sys.argv[1:]
    {"connect": connect, "cluster": cluster}[job](address, Path(folder))
