"""What the tests of the command line share: a result, tables, a process."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import renyi

FIT = ("--target", "y", "--out", "m")
# The commands run in other folders, where a relative PYTHONPATH would be lost.
SRC = Path(renyi.__file__).parents[1]
HERE = os.environ | {"PYTHONPATH": os.pathsep.join([str(SRC), str(SRC.parent)])}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def votes() -> pd.DataFrame:
    X, y = renyi.datasets.load("votes")
    return X.assign(party=y)


def table(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Rows of labels and numbers with two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    flip = rng.random(n) < 0.2
    return pd.DataFrame(
        {
            "id": [f"p{k:04}" for k in range(n)],
            "colour": np.where(flip ^ (y == 1), "red", "blue"),
            "size": rng.integers(1, 6, n),
            "length": rng.normal(y, 1).round(3),
            "y": np.where(y == 1, "yes", "no"),
        }
    )


def save_databases(frame: pd.DataFrame) -> None:
    """Write the rows as the table visits of shop.db (SQLite) and shop.duckdb."""
    import duckdb

    with closing(sqlite3.connect("shop.db")) as database:
        frame.to_sql("visits", database, index=False)
    with duckdb.connect("shop.duckdb") as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE visits AS FROM frame")


def save(frame: pd.DataFrame, name: str = "t.csv") -> str:
    frame.to_csv(name, index=False)
    return name


def process(
    *argv: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "renyi", *argv],
        capture_output=True,
        cwd=cwd,
        encoding="utf-8",
        env=HERE | variables,
    )
