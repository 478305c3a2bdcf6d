"""Rows for the benchmarks of sources: 15 columns of text, any number of rows.

A hidden kind of four drives all columns, so that they depend on each other and on the
class, the last column. The other 14 have 2 to 20 labels, a few of them frequent and
most of them rare; five have missing cells. A batch depends on the seed and its number
only: the same rows come back, in memory, on the fly or in a file.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

BATCH = 2**18
TARGET = "outcome"
SIZES = (2, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 20)
_MISSING = {1: 0.01, 4: 0.05, 7: 0.002, 10: 0.1, 13: 0.03}  # share of the cells
_KINDS = np.array([0.4, 0.3, 0.2, 0.1])
_YES = np.array([0.05, 0.2, 0.5, 0.85])
_DRAWS = 2**16  # a column is drawn by looking up integers of 16 bits
_WORDS = ("low", "high", "none", "north", "other", "single", "part-time", "unemployed")
FORMATS = ("parquet", "csv", "quoted.csv", "csv.gz", "arrow")


def batches(n: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield `n` rows."""
    for k, start in enumerate(range(0, n, BATCH)):
        yield batch(min(BATCH, n - start), seed, k)


def batch(n: int, seed: int, number: int) -> pa.RecordBatch:
    """Return the first `n` rows of a batch."""
    rng = np.random.default_rng((seed, number))
    kind = _looked_up(_KINDS)[rng.integers(0, _DRAWS, BATCH, np.uint16)]
    start = kind.astype(np.intp) * _DRAWS
    columns = []
    for labels, table in _columns(seed):
        places = start + rng.integers(0, _DRAWS, BATCH, np.uint16)
        codes = np.take(table, places[:n])
        columns.append(labels.take(pa.array(codes)))
    return pa.RecordBatch.from_arrays(columns, names=names())


def names() -> list[str]:
    """Return the names of the columns."""
    return [*(f"field{j}" for j in range(len(SIZES))), TARGET]


def schema() -> pa.Schema:
    """Return names and types of the columns."""
    return pa.schema([(name, pa.string()) for name in names()])


@cache
def _columns(seed: int) -> list[tuple[pa.Array, np.ndarray]]:
    """Return the labels of each column, and its codes by kind of row."""
    rng = np.random.default_rng((seed, 2**32))
    made = []
    for j, size in enumerate(SIZES):
        texts = [f"{_WORDS[(j + k) % len(_WORDS)]} {k}" for k in range(size)]
        missing = _MISSING.get(j, 0.0)
        shares = _skewed(rng, size, missing)
        made.append((pa.array([*texts, None]), _tables(shares)))
    shares = np.stack([1 - _YES, _YES], axis=1)
    made.append((pa.array(["no", "yes"]), _tables(shares)))
    return made


def _skewed(rng: np.random.Generator, size: int, missing: float) -> np.ndarray:
    """Return shares of the labels and of missing cells for each kind of row."""
    common = 1 / np.arange(1, size + 1) ** 1.2
    shares = common * rng.gamma(2.0, 0.5, (len(_KINDS), size))
    shares *= (1 - missing) / shares.sum(axis=1, keepdims=True)
    return np.hstack([shares, np.full((len(_KINDS), 1), missing)])


def _tables(shares: np.ndarray) -> np.ndarray:
    return np.concatenate([_looked_up(row) for row in shares])


def _looked_up(shares: np.ndarray) -> np.ndarray:
    """Return the code of each integer of 16 bits."""
    ends = np.cumsum(shares) / np.sum(shares) * _DRAWS
    return np.searchsorted(ends[:-1], np.arange(_DRAWS), "right").astype(np.uint8)


# ---- files


def write(folder: Path, n: int, seed: int = 0) -> dict[str, Path]:
    """Write the rows in every format, chunk by chunk; return the files."""
    files = {ending: folder / f"rows.{ending}" for ending in FORMATS}
    with (
        pa.parquet.ParquetWriter(files["parquet"], schema()) as parquet,
        _csv(files["csv"], "none") as csv,
        _csv(files["quoted.csv"], "all_valid") as quoted,
        pa.ipc.new_file(files["arrow"], schema()) as ipc,
    ):
        for table in _groups(n, seed):
            parquet.write_table(table)
            csv.write_table(table)
            quoted.write_table(table)
            ipc.write_table(table, max_chunksize=BATCH)
    with (
        files["csv"].open("rb") as plain,
        gzip.open(files["csv.gz"], "wb", compresslevel=1) as packed,
    ):
        shutil.copyfileobj(plain, packed, 2**22)
    return files


def _csv(path: Path, quoting: str) -> pa.csv.CSVWriter:
    options = pa.csv.WriteOptions(quoting_style=quoting)
    return pa.csv.CSVWriter(path, schema(), write_options=options)


def _groups(n: int, seed: int) -> Iterator[pa.Table]:
    """Yield tables of about a million rows, the usual size of a row group."""
    waiting = []
    for each in batches(n, seed):
        waiting.append(each)
        if len(waiting) == 4:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
