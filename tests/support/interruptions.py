"""Jobs that are ended on purpose, and the files they count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from renyi import Marginals
from renyi.progress import Progress
from renyi.sources import files


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


class StopError(Exception):
    """The user's own way to end a job."""


def stopping(step: str, units: int) -> Callable[[Progress], None]:
    """Return a progress that ends the job after some units of a step."""
    seen = 0

    def progress(pace: Progress) -> None:
        nonlocal seen
        seen += pace.step == step
        if seen == units:
            raise StopError

    return progress


def expected(paths: list[Path]) -> Marginals:
    """Return what files hold, counted in memory."""
    tables = [files.read_table(path) for path in paths]
    return Marginals.from_data(pa.concat_tables(tables), target="y")


def interrupted(
    paths: Any, checkpoint: Path, step: str = "counting", units: int = 3, **more: Any
) -> None:
    """Let a job come to its end after some units of a step, and leave a checkpoint."""
    with pytest.raises(StopError):
        files.marginals(
            paths, "y", checkpoint=checkpoint, progress=stopping(step, units), **more
        )
    assert checkpoint.exists()
