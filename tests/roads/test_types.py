"""Every Arrow type by every input path, as feature and as target: the same labels."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from renyi import Marginals
from support.commandline import Run
from support.engines import duckdb
from support.engines import polars as pl
from support.versions import older

N = 60
DAY = 86_400
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _cycle(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([values[k % len(values)] for k in range(N)], kind)


def _moments(days: list[int | None], kind: pa.DataType, odd: int = 0) -> pa.Array:
    """Return moments some days after 1970; `odd` ticks are added."""
    if pa.types.is_date32(kind):
        return _cycle(days, pa.int32()).cast(kind)
    day = DAY * TICKS[getattr(kind, "unit", "ms")]
    ticks = [each if each is None else each * day + odd for each in days]
    return _cycle(ticks, pa.int64()).cast(kind)


def _extension(kind: Any, cells: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, cells)


def _types() -> dict[str, tuple[pa.Array, tuple[str, ...]]]:
    """Return a column of every type, and its labels."""
    found: dict[str, tuple[pa.Array, tuple[str, ...]]] = {}
    for bits in (8, 16, 32, 64):
        for name in (f"int{bits}", f"uint{bits}"):
            cells = _cycle([3, 1, None, 2], getattr(pa, name)())
            found[name] = (cells, ("1", "2", "3"))
    large = [2**63, 2**63 + 1, 2**64 - 1, 5, None]
    found["uint64 above 2**63"] = (
        _cycle(large, pa.uint64()),
        ("5", str(2**63), str(2**63 + 1), str(2**64 - 1)),
    )
    for name in ("decimal32", "decimal64", "decimal128", "decimal256"):
        if hasattr(pa, name):  # the small ones are of Arrow 19
            kind = getattr(pa, name)(8, 0)
            cells = _cycle([Decimal(1), Decimal(-2), None], kind)
            found[name] = (cells, ("-2", "1"))
    wide = [Decimal("1" + "0" * 30), Decimal("1" + "0" * 29 + "1")]
    labels = (str(wide[0]), str(wide[1]))
    found["decimal128 of 31 digits"] = (_cycle(wide, pa.decimal128(38, 0)), labels)
    for name, kind in (
        ("string", pa.string()),
        ("large_string", pa.large_string()),
        ("string_view", pa.string_view()),
    ):
        cells = _cycle(["a", "b ", None, "", "é", "?"], kind)
        found[name] = (cells, ("a", "b ", "é"))
    found["boolean"] = (_cycle([True, False, None], pa.bool_()), ("False", "True"))
    near = ("1970-01-01", "2020-01-01")
    ends = ("0001-01-01", "9999-12-31")
    for name, kind in (("date32", pa.date32()), ("date64", pa.date64())):
        found[name] = (_moments([0, 18262, None], kind), near)
        found[f"{name} at the ends"] = (_moments([-719162, 2932896], kind), ends)
    for unit, ticks in TICKS.items():
        digits = f".{1 / ticks:.9f}".replace("0.", "").rstrip("0") if ticks > 1 else ""
        second = "00" if ticks > 1 else "01"
        kind, name = pa.timestamp(unit), f"timestamp {unit}"
        texts = [f"{d} 00:00:{second}{digits}" for d in near]
        found[name] = (_moments([0, 18262, None], kind, 1), tuple(texts))
        if unit != "ns":
            texts = [f"{d} 00:00:{second}{digits}" for d in ends]
            cells = _moments([-719162, 2932896], kind, 1)
            found[f"{name} at the ends"] = (cells, tuple(texts))
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        ticks = TICKS[kind.unit]
        cells = _cycle([0, 86_399 * ticks, None], pa.int64())
        cells = cells.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        found[f"time {kind.unit}"] = (cells.cast(kind), ("00:00:00", "23:59:59"))
    for name in (
        *("int8", "uint64 above 2**63", "string", "string_view", "large_string"),
        *("boolean", "date32", "timestamp us", "time us"),
    ):
        cells, labels = found[name]
        found[f"dictionary of {name}"] = (cells.dictionary_encode(), labels)
    return found


TYPES = _types()


# ---- roads: first the engine's own conversion, then renyi


def _polars(table: pa.Table, folder: Path) -> Any:
    frame = pl.from_arrow(table)
    return lambda: Marginals.from_data(frame, target="y")


@functools.cache
def _connection() -> Any:
    """Return a database in memory, the same for all."""
    return duckdb.connect()


def _duckdb(table: pa.Table, folder: Path) -> Any:
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        connection.register("v", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM v")
    return lambda: Marginals.from_file(path, table="t", target="y")


def _relation(table: pa.Table, folder: Path) -> Any:
    connection = _connection()
    connection.register("v", table)
    relation = connection.sql("FROM v")
    return lambda: Marginals.from_arrow(relation, target="y")


def _parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "t.parquet")
    return lambda: Marginals.from_file(folder / "t.parquet", target="y")


def _ipc(table: pa.Table, folder: Path) -> Any:
    feather.write_feather(table, folder / "t.arrow", compression="uncompressed")
    return lambda: Marginals.from_file(folder / "t.arrow", target="y")


def _frame(table: pa.Table, folder: Path) -> Any:
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return lambda: Marginals.from_data(frame, target="y")


def _reader(table: pa.Table, folder: Path) -> Any:
    batches = table.to_batches(max_chunksize=17)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    return lambda: Marginals.from_arrow(reader, target="y")


ROADS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda table, _: lambda: Marginals.from_data(table, target="y"),
    "frame": _frame,
    "stream": lambda table, _: lambda: Marginals.from_arrow(table, target="y"),
    "reader": _reader,
    "parquet": _parquet,
    "ipc": _ipc,
    "polars": _polars,
    "duckdb": _duckdb,
    "relation": _relation,
}

# What an engine refuses, or holds as other values, before renyi sees it.
REFUSED = {
    "polars": ("decimal256",),
    "duckdb": ("decimal256",),
    "relation": ("decimal256",),
    "parquet": ("dictionary of string_view",),
}
CHANGED = {"polars": ("date64",)}  # moments


def _in_table(cells: pa.Array, role: str) -> pa.Table:
    other = _cycle(["no", "yes", "yes", "no", "no"], pa.string())
    x, y = (cells, other) if role == "feature" else (other, cells)
    return pa.table({"x": x, "plain": _cycle(["u", "v", "v"], pa.string()), "y": y})


@pytest.mark.parametrize("role", ["feature", "target"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.filterwarnings("ignore::renyi.warnings.DataWarning")
def test_labels(name: str, role: str, tmp_path: Path) -> None:
    cells, labels = TYPES[name]
    table = _in_table(cells, role)
    for road, convert in ROADS.items():
        if name.startswith(CHANGED.get(road, ("-",))):
            continue
        if name in REFUSED.get(road, ()):
            with pytest.raises(BaseException, match=r"."):  # as polars panics
                convert(table, tmp_path)
            continue
        column = convert(table, tmp_path)().columns[0 if role == "feature" else -1]
        missing = ("(missing)",) * (role == "feature" and cells.null_count > 0)
        assert column.levels.texts == (*labels, *missing), road


def _rejected() -> dict[str, pa.Array]:
    """Return a column of each type that renyi does not read."""
    found = {
        "list": pa.array([[1], [2, 3]] * 30),
        "list_view": pa.array([[1], [2, 3]] * 30, pa.list_view(pa.int64())),
        "struct": pa.array([{"a": 1}, {"a": 2}] * 30),
        "map": pa.array(
            [[("a", 1)], [("b", 2)]] * 30, pa.map_(pa.string(), pa.int64())
        ),
        "union": pa.UnionArray.from_sparse(
            pa.array([0, 1] * 30, pa.int8()),
            [pa.array(range(60)), pa.array(["x"] * 60)],
        ),
        "binary": _cycle([b"a", b"\xff", None], pa.binary()),
        "large_binary": _cycle([b"a", b"\xff", None], pa.large_binary()),
        "binary_view": _cycle([b"a", b"\xff", None], pa.binary_view()),
        "fixed binary": _cycle([b"a", b"\xff", None], pa.binary(1)),
        "zoned": _moments([0, 18262, None], pa.timestamp("us", "UTC")),
        "other zone": _moments([0, 18262, None], pa.timestamp("ns", "Asia/Tokyo")),
        "duration": _cycle([90, -1, None], pa.int64()).cast(pa.duration("us")),
        "interval": _cycle(
            [pa.MonthDayNano([1, 2, 3_000]), None], pa.month_day_nano_interval()
        ),
        "run-end encoded": pc.run_end_encode(pa.array(["a"] * 20 + ["b"] * 40)),
        "uuid": _extension(pa.uuid(), _cycle([b"a" * 16, b"b" * 16], pa.binary(16))),
        "bool8": _extension(pa.bool8(), _cycle([0, 1, None], pa.int8())),
        "opaque": _extension(
            pa.opaque(pa.int32(), "x", "v"), _cycle([1, 2], pa.int32())
        ),
    }
    for name in ("binary", "duration", "zoned"):
        found[f"dictionary of {name}"] = found[name].dictionary_encode()
    return found


REJECTED = _rejected()
# What an engine refuses, or turns into a type that renyi reads, before renyi sees it.
LOST = {
    "polars": ("list_view", "union", "run-end encoded", "interval", "bool8", "opaque"),
    "parquet": ("union", "run-end encoded", "interval", "dictionary of duration"),
    "duckdb": ("bool8", "uuid", "opaque", "run-end encoded"),
    "ipc": (),
}
LOST["relation"] = LOST["duckdb"]
LOST["duckdb"] += ("zoned", "dictionary of zoned")  # texts in UTC
if older(pa, "25"):
    LOST["parquet"] += ("list_view",)
if older(pd, "3"):
    LOST["frame"] = ("interval",)


@pytest.mark.parametrize("role", ["feature", "target"])
@pytest.mark.parametrize("name", REJECTED)
def test_refusal_names_the_column(name: str, role: str, tmp_path: Path) -> None:
    table = _in_table(REJECTED[name], role)
    wanted = "Column 'x'" if role == "feature" else "Column 'y'"
    for road, convert in ROADS.items():
        if name not in LOST.get(road, ()):
            with pytest.raises(TypeError, match=f"{wanted} has the type .*Cast it"):
                convert(table, tmp_path)()


@pytest.mark.parametrize("role", ["feature", "target"])
@pytest.mark.parametrize("road", ["table", "frame", "stream", "reader", "ipc"])
@pytest.mark.parametrize("days", [[-719163, 0], [2932897, 0], [2**40, 0]])
def test_years_that_are_not_of_four_digits(
    days: list[int], road: str, role: str, tmp_path: Path
) -> None:
    cells = _moments(days, pa.timestamp("s"))
    count = ROADS[road](_in_table(cells, role), tmp_path)
    with pytest.raises(ValueError, match="'x'" if role == "feature" else "'y'"):
        count()


def test_objects_of_nanoseconds_keep_their_digits() -> None:
    nanosecond = pd.Timestamp("2020-01-01 00:00:00.000000001")
    frame = pd.DataFrame({"t": [nanosecond, nanosecond.floor("s")] * 9}, dtype=object)
    columns = Marginals.from_data(frame, [0, 1] * 9).columns
    texts = ("2020-01-01 00:00:00", "2020-01-01 00:00:00.000000001")
    assert columns[0].levels.texts == texts


@pytest.mark.parametrize(
    "cell",
    [
        datetime.timedelta(1),
        pd.Timedelta(1, "D"),
        b"a",
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        pd.Timestamp("2020-01-01", tz="Asia/Tokyo"),
        {"a": 1},
        (1, 2),
    ],
)
def test_objects_of_rejected_types_name_their_column(cell: Any) -> None:
    frame = pd.DataFrame({"a": ["u", "v"] * 9, "b": "w", "odd": None}, dtype=object)
    frame["odd"] = pd.Series([cell] * 18, dtype=object)
    with pytest.raises(TypeError, match="'odd'"):
        Marginals.from_data(frame, [0, 1] * 9)


def test_cells_of_lists_are_refused_with_their_column() -> None:
    frame = pd.DataFrame({"a": ["u", "v"] * 9, "tags": [["x"], []] * 9}, dtype=object)
    with pytest.raises(TypeError, match="'tags'"):
        Marginals.from_data(frame, [0, 1] * 9)


@pytest.mark.parametrize("name", ["string_view", "uint64 above 2**63"])
@pytest.mark.parametrize("streamed", [False, True])
def test_command_reads_rare_types(
    name: str, streamed: bool, run: Run, tmp_path: Path
) -> None:
    cells, labels = TYPES[name]
    path = tmp_path / "t.parquet"
    for role in ("feature", "target"):
        table = _in_table(cells, role)
        table = table.append_column("z", table["x"])
        pq.write_table(table, path)
        source = tmp_path / "t*.parquet" if streamed else path
        out = str(tmp_path / "m.renyi")
        done = run("marginals", "build", str(source), "--target", "y", "--out", out)
        assert done.code == 0, done.err
        column = Marginals.load(out).columns[0 if role == "feature" else -1]
        assert column.levels.texts[: len(labels)] == labels


def test_command_names_a_nested_target(run: Run, tmp_path: Path) -> None:
    pq.write_table(_in_table(REJECTED["list"], "target"), tmp_path / "t.parquet")
    done = run("fit", str(tmp_path / "t*.parquet"), "--target", "y")
    assert done.code == 2
    assert "'y'" in done.err
