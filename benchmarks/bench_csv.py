"""What the compiled loop over CSV cells buys: the same file with and without it."""

from __future__ import annotations

from timing import WITHOUT_FAST, Section, extra, faster, measure, run  # isort: skip

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import renyi
from renyi.sources import csv

ROWS, COLUMNS = 2_000_000, 15


def benchmark() -> list[Section]:
    with tempfile.TemporaryDirectory() as folder:
        table = csv.CsvFile(_write(Path(folder) / "rows.csv"))
        pieces = [piece.data for piece in csv.pieces(table.path, table.header)]
        cells = partial(_parse, table, pieces)
        counts = partial(renyi.Marginals.from_file, table.path, target="y")
        assert counts() == _without(counts)()
        return [
            _compare("cells of all pieces, read", cells),
            _compare("Marginals.from_file", counts),
        ]


def _compare(what: str, task: Callable[[], Any]) -> Section:
    tasks = {"compiled loop": task, "Arrow's reader": _without(task)}
    timings = measure(tasks, 5)
    claims = []
    if not WITHOUT_FAST:  # else both are Arrow's reader
        ours, peer = tasks
        claims = [faster("faster than Arrow's reader", 1.3, ours, [peer], timings)]
    return Section(f"{what}, {extra()}", timings, claims)


def _without(task: Callable[[], Any]) -> Callable[[], Any]:
    """Return the same task with the loop switched off."""

    def patched() -> Any:
        with mock.patch.object(csv, "_read_by_loop", lambda *_: None):
            return task()

    return patched


def _parse(table: csv.CsvFile, pieces: list[bytearray]) -> None:
    for data in pieces:
        table.parse(data, table.header.names)


def _write(path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = {}
    for j in range(COLUMNS - 1):
        labels = np.array([f"label{k}" for k in range(3 + j % 7)], object)
        frame[f"c{j}"] = labels[rng.integers(0, len(labels), ROWS)]
    frame["y"] = np.where(rng.random(ROWS) < 0.5, "yes", "no")
    pd.DataFrame(frame).to_csv(path, index=False)
    return path


if __name__ == "__main__":
    title = f"CSV: {ROWS:,} rows, {COLUMNS} columns of strings"
    run("csv", title, benchmark)
