"""Every type of Arrow on every road, as feature and as target: the same labels."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from renyi import Marginals
from support.commandline import Run
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
    for name, kind in (
        ("binary", pa.binary()),
        ("large_binary", pa.large_binary()),
        ("binary_view", pa.binary_view()),
        ("fixed binary", pa.binary(1)),
    ):
        cells = _cycle([b"a", b"\xff", b"\xfe", None], kind)
        found[name] = (cells, ("\\xfe", "\\xff", "a"))
    found["boolean"] = (_cycle([True, False, None], pa.bool_()), ("False", "True"))
    far = [2932896, 2932897, 11_248_737, None]
    early = [-719162, -719163, -719529, -12_687_428]
    for name, kind in (("date32", pa.date32()), ("date64", pa.date64())):
        near = ("1970-01-01", "2020-01-01")
        found[name] = (_moments([0, 18262, None], kind), near)
        after = ("10000-01-01", "32767-12-31", "9999-12-31")
        found[f"{name} after 9999"] = (_moments(far, kind), after)
        before = ("-0001-12-31", "-32767-01-01", "0000-12-31", "0001-01-01")
        found[f"{name} before 1"] = (_moments(early, kind), before)
    for unit, ticks in TICKS.items():
        digits = f".{1 / ticks:.9f}".replace("0.", "").rstrip("0") if ticks > 1 else ""
        second = "00" if ticks > 1 else "01"
        for zone, end in ((None, ""), ("UTC", "Z"), ("Asia/Tokyo", "Z")):
            kind, name = pa.timestamp(unit, zone), f"timestamp {unit} {zone or ''}"
            texts = [f"{d} 00:00:{second}{digits}{end}" for d in near]
            found[name] = (_moments([0, 18262, None], kind, 1), tuple(texts))
            if unit != "ns":
                texts = [f"{d} 00:00:{second}{digits}{end}" for d in after]
                found[f"{name} after 9999"] = (_moments(far, kind, 1), tuple(texts))
                texts = [f"{d} 00:00:{second}{digits}{end}" for d in before]
                found[f"{name} before 1"] = (_moments(early, kind, 1), tuple(texts))
        cells = _cycle([90 * ticks, -1, None], pa.int64()).cast(pa.duration(unit))
        least = f"-0{digits}" if ticks > 1 else "-1"
        found[f"duration {unit}"] = (cells, (least, "90"))
    intervals = [pa.MonthDayNano([1, 2, 3_000]), pa.MonthDayNano([0, 0, 9 * 10**10])]
    cells = _cycle([*intervals, None], pa.month_day_nano_interval())
    found["interval"] = (cells, ("2764800.000003", "90"))
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        ticks = TICKS[kind.unit]
        cells = _cycle([0, 86_399 * ticks, None], pa.int64())
        cells = cells.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        found[f"time {kind.unit}"] = (cells.cast(kind), ("00:00:00", "23:59:59"))
    for name in (
        *("int8", "uint64 above 2**63", "string", "string_view", "large_string"),
        *("binary", "binary_view", "fixed binary", "boolean", "date32", "duration us"),
        *("date32 after 9999", "timestamp us ", "timestamp ns Asia/Tokyo", "time us"),
    ):
        cells, labels = found[name]
        found[f"dictionary of {name}"] = (cells.dictionary_encode(), labels)
    runs = pa.array(["a"] * 20 + ["b"] * 40)
    found["run-end encoded"] = (pc.run_end_encode(runs), ("a", "b"))
    bytes_ = [bytes([k]) * 16 for k in (200, 255)]
    uuids = tuple(f"{v * 4}-{v * 2}-{v * 2}-{v * 2}-{v * 6}" for v in ("c8", "ff"))
    found["uuid"] = (_extension(pa.uuid(), _cycle(bytes_, pa.binary(16))), uuids)
    if hasattr(pa, "json_"):  # from pyarrow 19 on
        cells = _cycle(['{"a":1}', "{}"], pa.string())
        found["json"] = (_extension(pa.json_(pa.string()), cells), ('{"a":1}', "{}"))
    cells = _cycle([0, 1, None], pa.int8())
    found["bool8"] = (_extension(pa.bool8(), cells), ("False", "True"))
    cells = _cycle([1, 2], pa.int32())
    found["opaque"] = (_extension(pa.opaque(pa.int32(), "x", "v"), cells), ("1", "2"))
    return found


TYPES = _types()


# ---- roads: first the engine's own conversion, then renyi


def _polars(table: pa.Table, folder: Path) -> Any:
    frame = pl.from_arrow(table)
    return lambda: Marginals.from_data(frame, target="y")


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    """Return a database in memory, the same for all."""
    return duckdb.connect()


def _duckdb(table: pa.Table, folder: Path) -> Any:
    connection = _connection()
    connection.register("v", table)
    connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM v")
    return lambda: Marginals.from_sql(connection, "t", "y")


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
    "polars": ("decimal256", "run-end encoded", "interval"),
    "duckdb": ("decimal256",),
    "relation": ("decimal256",),
    "parquet": (
        *("run-end encoded", "dictionary of string_view", "dictionary of binary_view"),
        "interval",
    ),
}
CHANGED = {
    "polars": ("date64", "uuid"),  # moments; bytes
    "duckdb": ("duration ns",),  # microseconds
    "parquet": ("dictionary of duration",),  # integers
}
if older(pd, "3"):
    CHANGED["frame"] = ("interval",)  # no frame at all
if older(pl, "2"):
    CHANGED["polars"] += ("bool8",)  # integers
if older(duckdb, "2"):  # microseconds
    zoned = tuple(f"timestamp ns {zone}" for zone in ("UTC", "Asia/Tokyo"))
    CHANGED["duckdb"] += (*zoned, *(f"dictionary of {name}" for name in zoned))
CHANGED["relation"] = CHANGED["duckdb"]


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


NESTED = {
    "list": pa.array([[1], [2, 3]] * 30),
    "list_view": pa.array([[1], [2, 3]] * 30, pa.list_view(pa.int64())),
    "struct": pa.array([{"a": 1}, {"a": 2}] * 30),
    "map": pa.array([[("a", 1)], [("b", 2)]] * 30, pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_sparse(
        pa.array([0, 1] * 30, pa.int8()), [pa.array(range(60)), pa.array(["x"] * 60)]
    ),
}


@pytest.mark.parametrize("role", ["feature", "target"])
@pytest.mark.parametrize("name", NESTED)
def test_refusal_names_the_column(name: str, role: str, tmp_path: Path) -> None:
    table = _in_table(NESTED[name], role)
    for road, convert in ROADS.items():
        try:
            count = convert(table, tmp_path)
        except (Exception, pl.exceptions.PanicException):
            old = {("parquet", "list_view")} if older(pa, "25") else set()
            assert (road, name) in old | {
                ("polars", "list_view"),
                ("polars", "union"),
                ("parquet", "union"),
            }
            continue
        with pytest.raises(TypeError, match="'x'" if role == "feature" else "'y'"):
            count()


@pytest.mark.parametrize("role", ["feature", "target"])
@pytest.mark.parametrize("road", ["table", "frame", "stream", "reader", "ipc"])
@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms", "UTC")])
def test_moments_without_a_text(
    kind: pa.DataType, road: str, role: str, tmp_path: Path
) -> None:
    cells = _cycle([2**63 - 1, 0], pa.int64()).cast(kind)
    count = ROADS[road](_in_table(cells, role), tmp_path)
    with pytest.raises(ValueError, match="'x'" if role == "feature" else "'y'"):
        count()


def test_objects_of_nanoseconds_and_long_times_keep_their_digits() -> None:
    nanosecond = pd.Timestamp("2020-01-01 00:00:00.000000001")
    ages = datetime.timedelta(days=999_999_999)
    frame = pd.DataFrame(
        {"t": [nanosecond, nanosecond.floor("s")] * 9, "age": [ages, -ages] * 9},
        dtype=object,
    )
    columns = Marginals.from_data(frame, [0, 1] * 9).columns
    texts = ("2020-01-01 00:00:00", "2020-01-01 00:00:00.000000001")
    assert columns[0].levels.texts == texts
    assert columns[1].levels.texts == ("-86399999913600", "86399999913600")


def test_cells_of_lists_are_refused_with_their_column() -> None:
    frame = pd.DataFrame({"a": ["u", "v"] * 9, "tags": [["x"], []] * 9}, dtype=object)
    with pytest.raises(TypeError, match="'tags'"):
        Marginals.from_data(frame, [0, 1] * 9)


@pytest.mark.parametrize("name", ["string_view", "binary_view", "uint64 above 2**63"])
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
    pq.write_table(_in_table(NESTED["list"], "target"), tmp_path / "t.parquet")
    done = run("fit", str(tmp_path / "t*.parquet"), "--target", "y")
    assert done.code == 2
    assert "'y'" in done.err
