"""The input paths ("roads") from rows to `Marginals`, and tables to compare them.

A `Case` is a small table with one property. A road counts a case. `CANNOT` lists what a
road cannot express, with the table that its users have instead. Each road imports its
own engine.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from renyi import Encoder, Marginals
from support import warehouses
from support.commandline import Run
from support.engines import psycopg
from support.postgres import address_of

N = 60


@dataclass(frozen=True)
class Case:
    """A table with one property, and what every road must make of it.

    `categories` spells out some of the columns; `mentions` is the name in the error
    that is due instead; `dropped` says that rows without a target are left out.
    """

    table: pa.Table
    encoder: Encoder = field(default_factory=Encoder)
    weight: str | None = None
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    mentions: str | None = None
    dropped: bool = False


class Place(NamedTuple):
    """Where a road may write, and the engines it may ask for."""

    folder: Path
    run: Run
    request: pytest.FixtureRequest


# ---- the tables


def _cycle(*values: Any, n: int = N) -> list[Any]:
    return [values[k % len(values)] for k in range(n)]


def _table(columns: Mapping[str, Any], y: Sequence[Any] | None = None) -> pa.Table:
    """Return a table of some columns, a plain one and the target."""
    n = len(next(iter(columns.values())))
    plain = {"plain": _cycle("u", "v", "v", n=n)}
    target = y if y is not None else _cycle("no", "yes", "yes", "no", "no", n=n)
    return pa.table({**columns, **plain, "y": target})


def _days(count: int, n: int = N) -> list[datetime.datetime]:
    first = datetime.datetime(2020, 1, 1, 9, 30)
    days = [first + datetime.timedelta(days=k) for k in range(count)]
    return _cycle(*days, n=n)


def _wide(cells: Sequence[int]) -> pa.Array:
    """Return integers that 64 bits need not hold."""
    return pa.array(map(decimal.Decimal, cells), pa.decimal128(38, 0))


_SIZES = [decimal.Decimal(k) / 4 for k in range(40)]
_SQUARES = [k * k % 97 for k in range(N - 1)]
_RNG = np.random.default_rng(0)

CASES: dict[str, Case] = {
    "kinds": Case(
        _table(
            {
                "word": _cycle("red", "green", "blue"),
                "few": _cycle(3, 1, 20),
                "many": [k * k % 97 for k in range(N)],
                "real": [k / 7 for k in range(N)],
            }
        ),
        categories={"word": ("blue", "green", "red"), "few": (1, 3, 20)},
    ),
    "labels of numbers": Case(
        _table({"code": _cycle("007", "08", "1"), "mix": _cycle("a", "1", "2.5")}),
        categories={"code": ("007", "08", "1"), "mix": ("1", "2.5", "a")},
    ),
    "missing codes": Case(
        _table(
            {
                "word": _cycle("a", "?", None, "b", ""),
                "few": _cycle(1, None, -9, 2),
                "many": pa.array([None if k % 7 == 0 else k - 9 for k in range(N)]),
                "real": pa.array([np.nan if k % 5 == 0 else k / 3 for k in range(N)]),
            }
        ),
        Encoder(missing=("?", "", -9)),
        categories={"word": ("a", "b", None), "few": (1, 2, None)},
    ),
    "rare labels": Case(
        _table({"word": ["x", "z", "z", *_cycle("a", "b", n=N - 3)]}),
        Encoder(min_count=3),
        categories={"word": ("(rare)", "a", "b")},
    ),
    "rare labels by weight": Case(
        _table(
            {
                "word": ["x", "z", *_cycle("a", "b", n=N - 2)],
                "w": [2.5, 1.5, *_cycle(0.25, 0.5, n=N - 2)],
            }
        ),
        Encoder(min_count=2),
        "w",
        categories={"word": ("(rare)", "a", "b", "x")},
    ),
    "identifiers": Case(
        _table({"person": [f"p{k}" for k in range(N)]}), mentions="person"
    ),
    "row numbers": Case(_table({"line": list(range(N))}), mentions="line"),
    "constant columns": Case(
        _table({"one": _cycle("same"), "none": pa.array([None] * N, pa.string())}),
        categories={"one": ("same",), "none": (None,)},
    ),
    "booleans": Case(
        _table({"flag": _cycle(True, False, None, True)}),
        categories={"flag": (False, True, None)},
    ),
    "boolean target": Case(
        _table({"word": _cycle("a", "b")}, _cycle(True, True, False)),
        categories={"y": (False, True)},
    ),
    "rare booleans": Case(
        _table({"flag": [True, True, *_cycle(False, n=N - 2)]}),
        Encoder(min_count=3),
        categories={"flag": ("(rare)", False)},
    ),
    "integers above 2**53": Case(
        _table({"large": [2**53 + k % 30 for k in range(N)]}),
        categories={
            "large": (
                f"up to {2**53 + 4}",
                f"{2**53 + 6} to {2**53 + 12}",
                f"{2**53 + 14} to {2**53 + 16}",
                f"{2**53 + 18} to {2**53 + 24}",
                f"{2**53 + 26} and more",
            )
        },
    ),
    "integers above 2**63": Case(
        _table(
            {
                "few": pa.array(_cycle(2**63 + 1, 5, None, 2**64 - 1), pa.uint64()),
                "many": pa.array([2**63 + k % 30 for k in range(N)], pa.uint64()),
                "one": pa.array([2**63 + 1, *_SQUARES], pa.uint64()),
            }
        ),
        categories={"few": (5, 2**63 + 1, 2**64 - 1, None)},
    ),
    "integers above 2**64": Case(
        _table(
            {
                "few": _wide(_cycle(10**25, -(10**25) - 1, 3)),
                "many": _wide([10**25 + k % 30 for k in range(N)]),
                "one": _wide([10**25, *_SQUARES]),
            }
        ),
        categories={"few": (-(10**25) - 1, 3, 10**25)},
    ),
    "dates": Case(
        _table(
            {
                "day": [moment.date() for moment in _days(3)],
                "clock": pa.array([m.time() for m in _days(2)], pa.time64("us")),
            }
        ),
        categories={
            "day": ("2020-01-01", "2020-01-02", "2020-01-03"),
            "clock": ("09:30:00",),
        },
    ),
    "moments": Case(
        _table({"moment": pa.array(_days(2), pa.timestamp("us"))}),
        categories={"moment": ("2020-01-01 09:30:00", "2020-01-02 09:30:00")},
    ),
    "decimals": Case(
        _table(
            {
                "price": pa.array(_cycle(*_SIZES), pa.decimal128(10, 2)),
                "count": pa.array(_cycle(1, 2, 7), pa.decimal128(9, 0)),
            }
        ),
        categories={"count": (1, 2, 7)},
    ),
    "continuous weights": Case(
        _table(
            {
                "word": _cycle("a", "b", "b", n=4000),
                "w": [(k * 37 % 1024) / 2**24 for k in range(4000)],
            }
        ),
        weight="w",
        categories={"word": ("a", "b"), "y": ("no", "yes")},
    ),
    "weights that round": Case(
        _table({"word": _cycle("a", "b", "b"), "w": _RNG.random(N)}), weight="w"
    ),
    "weights of zero": Case(
        _table({"word": ["gone", *_cycle("a", "b", n=N - 1)], "w": _cycle(0, 1, 2)}),
        weight="w",
        categories={"word": ("a", "b")},
    ),
    "boolean weights": Case(
        _table({"word": _cycle("a", "b", "b"), "w": _cycle(True, False, True, True)}),
        weight="w",
        categories={"word": ("a", "b")},
    ),
    "weights above 1e300": Case(
        _table({"word": _cycle("a", "b"), "w": _cycle(1e300)}),
        weight="w",
        mentions=r"The weights add up to \d.*e\+301",
    ),
    "weights below 1e-300": Case(
        _table({"word": _cycle("a", "b"), "w": _cycle(1e-300)}),
        weight="w",
        mentions=r"The weights add up to .*e-299, less than 1e-150: scale them up",
    ),
    "negative weight": Case(
        _table({"word": _cycle("a", "b"), "w": [-1.0, *_cycle(1.0, n=N - 1)]}),
        weight="w",
        mentions="weight",
    ),
    "missing weight": Case(
        _table({"word": _cycle("a", "b"), "w": [None, *_cycle(1.0, n=N - 1)]}),
        weight="w",
        mentions="(?i)weight.* is missing",
    ),
    "weight that is a missing code": Case(
        _table({"word": _cycle("a", "b", "b"), "w": _cycle(1, 2)}),
        Encoder(missing=("?", "", "1")),
        weight="w",
        categories={"word": ("a", "b")},
    ),
    "missing target": Case(
        _table({"word": _cycle("a", "b", "c")}, _cycle("no", None, "yes", "?", "no")),
        categories={"y": ("no", "yes")},
        dropped=True,
    ),
    "no target at all": Case(
        _table({"word": _cycle("a", "b")}, pa.array([None] * N, pa.string())),
        mentions="y",
    ),
    "too many target labels": Case(
        _table(
            {"word": _cycle("a", "b", n=200)},
            [f"c{min(k, 120)}" for k in range(200)],
        ),
        mentions="y",
    ),
    "target of fractions": Case(
        _table({"word": _cycle("a", "b")}, _cycle(*[k + 0.5 for k in range(21)])),
        mentions="y",
    ),
    "two targets of fractions": Case(
        _table({"word": _cycle("a", "b", "b")}, _cycle(9.5, 10.5)),
    ),
    "null character in a name": Case(
        _table({"word\0": _cycle("a", "b")}), mentions=r"word\\x00"
    ),
    "duplicate names": Case(
        pa.Table.from_arrays(
            [
                pa.array(_cycle("a", "b")),
                pa.array(_cycle(1, 2)),
                pa.array(_cycle(0, 1)),
            ],
            names=["twin", "twin", "y"],
        ),
        mentions="twin",
    ),
}


# ---- roads in memory


def _halves(case: Case) -> tuple[pa.Table, Any]:
    """Return the columns that are counted, and the weights."""
    if case.weight is None:
        return case.table, None
    weights = case.table[case.weight].to_numpy()
    return case.table.drop_columns([case.weight]), weights


def _from_data(case: Case, convert: Callable[[pa.Table], Any]) -> Marginals:
    table, weights = _halves(case)
    return Marginals.from_data(
        convert(table), target="y", encoder=case.encoder, sample_weight=weights
    )


def in_memory(case: Case) -> Marginals:
    """Count an Arrow table: what all roads are compared with."""
    return _from_data(case, lambda table: table)


def _frame(case: Case, place: Place) -> Marginals:
    def typed(table: pa.Table) -> pd.DataFrame:
        frame = _numbered(table).to_pandas(types_mapper=pd.ArrowDtype)
        return frame.set_axis(table.column_names, axis=1)

    return _from_data(case, typed)


def _numbered(table: pa.Table) -> pa.Table:
    """Return a table under names that are all different."""
    return table.rename_columns([str(j) for j in range(table.num_columns)])


def _array(case: Case, place: Place) -> Marginals:
    table, weights = _halves(case)
    *features, y = (column.to_pylist() for column in table.columns)
    X = np.empty((len(y), len(features)), object)
    for j, cells in enumerate(features):
        X[:, j] = cells
    settings = {"encoder": case.encoder, "sample_weight": weights}
    return Marginals.from_data(X, y, **settings)


# ---- streams, files, engines


def _reader(case: Case, place: Place) -> Marginals:
    given = {"target": "y", "encoder": case.encoder, "weight": case.weight}
    batches = case.table.to_batches(max_chunksize=17)
    reader = pa.RecordBatchReader.from_batches(case.table.schema, batches)
    return Marginals.from_arrow(reader, **given)


def _text(cell: Any) -> str:
    if isinstance(cell, datetime.datetime):
        return str(cell)
    return "" if cell is None or cell != cell else str(cell)


def write(table: pa.Table, path: Path) -> str:
    """Write a file of the format that its name tells."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        stream = (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="")
        with stream as out:
            delimiter = "\t" if ".tsv" in path.name else ","
            writer = csv.writer(out, delimiter=delimiter)
            writer.writerow(table.column_names)
            columns = (column.to_pylist() for column in table.columns)
            writer.writerows([map(_text, row) for row in zip(*columns, strict=True)])
    return str(path)


def _file(name: str) -> Callable[[Case, Place], Marginals]:
    def road(case: Case, place: Place) -> Marginals:
        path = write(case.table, place.folder / name)
        given = {"target": "y", "encoder": case.encoder, "weight": case.weight}
        return Marginals.from_file(path, **given)

    return road


def _of_table(path: str | Path, case: Case) -> Marginals:
    given = {"encoder": case.encoder, "weight": case.weight}
    return Marginals.from_file(path, table="t", target="y", **given)


def _sqlite(case: Case, place: Place) -> Marginals:
    path = place.folder / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        warehouses.load(connection, "t", case.table)
    return _of_table(path, case)


def _duckdb(case: Case, place: Place) -> Marginals:
    import duckdb

    path = place.folder / "t.duckdb"
    with duckdb.connect(path) as connection:
        warehouses.load(connection, "t", case.table)
    return _of_table(path, case)


def _postgres(case: Case, place: Place) -> Marginals:
    connection = place.request.getfixturevalue("postgres")
    try:
        warehouses.load(connection, "t", case.table)
    finally:
        connection.rollback()
    return _of_table(address_of(connection), case)


def _spark(case: Case, place: Place) -> Marginals:
    from support.spark import spark_session

    df = spark_session().createDataFrame(case.table).coalesce(2)
    given = {"encoder": case.encoder, "weight": case.weight}
    return Marginals.from_spark(df, "y", **given)


# ---- what a road cannot express


class Instead(NamedTuple):
    """What a road's users have instead of a property: another table, or an error."""

    reason: str
    table: Callable[[pa.Table], pa.Table] | None = None
    error: Callable[[], type[Exception]] | None = None


def _duckdb_error() -> type[Exception]:
    """Return the error of a statement that DuckDB does not take."""
    import duckdb

    error: type[Exception] = duckdb.Error
    return error


def _postgres_error() -> type[Exception]:
    """Return the error of a statement that PostgreSQL does not take."""
    return psycopg.Error


def _cast(kinds: Mapping[Callable[[Any], bool], pa.DataType]) -> Any:
    """Return what replaces columns of some types by others."""

    def replaced(table: pa.Table) -> pa.Table:
        for j, column in enumerate(table.schema):
            for holds, kind in kinds.items():
                if holds(column.type):
                    table = table.set_column(
                        j, column.name, table[j].cast(kind, safe=False)
                    )
        return table

    return replaced


def _offset_texts(table: pa.Table) -> pa.Table:
    """Return moments as Python writes them."""
    for j, column in enumerate(table.schema):
        if pa.types.is_temporal(column.type):
            texts = [str(cell) for cell in table[j].to_pylist()]
            table = table.set_column(j, column.name, pa.array(texts))
    return table


def _renamed(table: pa.Table) -> pa.Table:
    names = [f"{n}_1" if n in table.column_names[:j] else n for j, n in _names(table)]
    return table.rename_columns(names)


def _cut(table: pa.Table) -> pa.Table:
    return table.rename_columns([n.partition("\0")[0] for n in table.column_names])


def _names(table: pa.Table) -> Any:
    return enumerate(table.column_names)


_AS_INTEGERS = _cast({pa.types.is_boolean: pa.int64()})
_ENGINE = "the engine has no such table"
_AS_REALS = _cast({pa.types.is_decimal: pa.float64(), pa.types.is_uint64: pa.float64()})
_NO_LONG_INTEGERS = Instead("numeric is read as floats", _AS_REALS)
_NO_MOMENTS = Instead("SQLite has no moments: texts", _offset_texts)

CANNOT: dict[tuple[str, str], Instead] = {
    ("array", "duplicate names"): Instead("an array has no names", _renamed),
    ("array", "null character in a name"): Instead("an array has no names", _cut),
    ("duckdb", "null character in a name"): Instead("DuckDB cuts the name", _cut),
    ("sqlite", "null character in a name"): Instead(
        _ENGINE, error=lambda: sqlite3.Error
    ),
    ("postgres", "null character in a name"): Instead(_ENGINE, error=_postgres_error),
    ("sqlite", "duplicate names"): Instead(
        _ENGINE, error=lambda: sqlite3.OperationalError
    ),
    ("postgres", "duplicate names"): Instead(_ENGINE, error=_postgres_error),
    ("duckdb", "duplicate names"): (
        Instead(_ENGINE, error=_duckdb_error)
        if version("duckdb") < "2"
        else Instead("DuckDB renames them", _renamed)
    ),
    ("sqlite", "booleans"): Instead("SQLite has no booleans: 0 and 1", _AS_INTEGERS),
    ("sqlite", "rare booleans"): Instead("SQLite has no booleans", _AS_INTEGERS),
    ("csv", "boolean weights"): Instead(
        "True is not a number in a file of text", error=lambda: ValueError
    ),
    ("sqlite", "boolean target"): Instead("SQLite has no booleans", _AS_INTEGERS),
    ("sqlite", "dates"): _NO_MOMENTS,
    ("sqlite", "moments"): _NO_MOMENTS,
    ("sqlite", "integers above 2**63"): Instead(_ENGINE, error=lambda: OverflowError),
    ("sqlite", "integers above 2**64"): Instead("reals in SQLite", _AS_REALS),
    ("postgres", "integers above 2**63"): _NO_LONG_INTEGERS,
    ("postgres", "integers above 2**64"): _NO_LONG_INTEGERS,
    ("sqlite", "decimals"): Instead(
        "SQLite has no decimals: reals", _cast({pa.types.is_decimal: pa.float64()})
    ),
    ("spark", "integers above 2**63"): Instead(_ENGINE, error=lambda: TypeError),
    ("spark", "moments"): Instead(
        "Spark's moments have a zone", error=lambda: TypeError
    ),
}


Road = Callable[[Case, Place], Marginals]

ROADS: dict[str, Road] = {
    "frame": _frame,
    "array": _array,
    "reader": _reader,
    "csv": _file("t.csv"),
    "parquet": _file("t.parquet"),
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "postgres": _postgres,
    "spark": _spark,
}
