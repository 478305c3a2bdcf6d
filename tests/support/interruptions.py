"""Jobs that are ended on purpose, and the files they count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq


def table_of(rows: int, seed: int = 0) -> pa.Table:
    """Return labels, numbers and integers of which all tell something of y."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    return pa.table(
        {
            "a": np.array(["u", "v", "w"])[(y + rng.integers(0, 2, rows)) % 3],
            "b": rng.normal(y, 1.0, rows).round(3),
            "c": rng.integers(0, 60, rows),
            "y": np.array(["no", "yes"])[y],
        }
    )


def write(table: pa.Table, path: Path, batch: int = 100) -> Path:
    """Write a table by the ending of its file."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=batch)
    else:
        pyarrow.csv.write_csv(table, path)
    return path
