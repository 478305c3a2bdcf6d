"""Numbers of very many different values in a database, and statements of many pairs."""

from __future__ import annotations

import decimal
import sqlite3
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renyi.encoding import bins
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.progress import Progress
from renyi.sources import sql_counts
from renyi.sources.databases import Database
from renyi.sources.dialects import DIALECTS, PORTABLE
from support import warehouses
from support.warehouses import engine_of, load, visits

connection = warehouses.connection
lite = warehouses.lite
postgres = warehouses.postgres

MOST = 2**13  # different values that are told apart here, in place of 2**16
ROWS = 12_000  # with more than that


@pytest.fixture
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "MOST", MOST)


def money(kind: pa.DataType, n: int = ROWS) -> pa.Table:
    """A table whose cents are of this type."""
    rng = np.random.default_rng(11)
    paid = np.round(rng.lognormal(6, 3, n), 4)
    paid[rng.random(n) < 0.02] = -9
    worth = np.where(rng.random(n) < 0.05, 0.0, rng.normal(size=n))
    account = rng.integers(-(10**12), 10**12, n)
    cents = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(0, 10**8, n)]
    if kind == pa.float64():
        cents = [float(v) for v in cents]  # the nearest float, as engines have it
    return pa.table(
        {
            "paid": pa.array(paid, mask=rng.random(n) < 0.02),
            "worth": worth,
            "account": account,
            "cents": pa.array(cents, kind),
            "ward": rng.choice(["a", "b", "c"], n),
            "y": rng.choice(["n", "p"], n),
        }
    )


# ---- bins of more values than are told apart


@pytest.mark.usefixtures("few_cells")
def test_bins_are_those_of_rows_and_files(connection: Any, tmp_path: Path) -> None:
    table = money(pa.float64())
    counts = [len(table[name].unique()) for name in table.column_names[:4]]
    assert min(counts) > MOST
    load(connection, "money", money(pa.decimal128(12, 2)))
    encoder = Encoder(missing=("?", "", -9), bins=7)
    m = Marginals.from_sql(connection, "money", "y", encoder=encoder)
    assert m == Marginals.from_data(table, target="y", encoder=encoder)
    pq.write_table(table, tmp_path / "money.parquet")
    path = tmp_path / "money.parquet"
    assert m == Marginals.from_file(path, target="y", encoder=encoder)


@pytest.mark.usefixtures("few_cells")
def test_weighted_bins(connection: Any) -> None:
    table = money(pa.float64())
    weights = np.random.default_rng(2).integers(0, 9, ROWS) / 4  # exact in any order
    load(connection, "money", table.append_column("w", pa.array(weights)))
    m = Marginals.from_sql(connection, "money", "y", weight="w")
    assert m == Marginals.from_data(table, target="y", sample_weight=weights)


@pytest.mark.usefixtures("few_cells")
def test_truths_that_are_to_be_numbers(postgres: Any) -> None:
    table = pa.table({"a": [True, False, None] * 20, "y": ["n", "p"] * 30})
    load(postgres, "t", table)
    encoder = Encoder(numeric=("a",))
    want = Marginals.from_data(table, target="y", encoder=encoder)
    for known in (encoder, encoder.fit(table.select(["a"]))):
        assert Marginals.from_sql(postgres, "t", "y", encoder=known) == want


def test_sqlite_has_missing_codes_after_all_numbers(lite: sqlite3.Connection) -> None:
    numbers = np.random.default_rng(4).normal(size=ROWS).tolist()
    cells = [*numbers, *["?"] * 900, *[None] * 100]
    lite.execute("CREATE TABLE t (x, z, y)")
    rows = [(cell, "uvw"[k % 3], k % 2) for k, cell in enumerate(cells)]
    lite.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    lite.commit()
    frame = pd.DataFrame(rows, columns=["x", "z", "y"])
    m = Marginals.from_sql(lite, "t", "y")
    assert m == Marginals.from_data(frame, target="y")
    assert m.categories["x"][-1] is None


@pytest.mark.usefixtures("few_cells")
def test_sqlite_has_a_word_after_all_numbers(lite: sqlite3.Connection) -> None:
    numbers = np.random.default_rng(4).normal(size=ROWS).tolist()
    lite.execute("CREATE TABLE t (x, y)")
    rows = [(cell, k % 2) for k, cell in enumerate([*numbers, "?", "word"])]
    lite.executemany("INSERT INTO t VALUES (?, ?)", rows)
    lite.commit()
    assert "'x'" in refusal(lambda: Marginals.from_sql(lite, "t", "y"))
    named = Encoder(numeric=("x",))
    message = refusal(lambda: Marginals.from_sql(lite, "t", "y", encoder=named))
    assert "'x'" in message
    assert "'word'" in message


@pytest.mark.usefixtures("few_cells")
def test_texts_of_very_many_numbers(connection: Any) -> None:
    texts = [repr(v) for v in np.random.default_rng(5).normal(size=ROWS).tolist()]
    table = pa.table({"x": texts, "y": ["a", "b"] * (ROWS // 2)})
    encoder = Encoder(numeric=("x",))
    load(connection, "t", table)
    m = Marginals.from_sql(connection, "t", "y", encoder=encoder)
    assert m == Marginals.from_data(table, target="y", encoder=encoder)


def refusal(make: Any) -> str:
    with pytest.raises(ValueError) as caught:
        make()
    return str(caught.value)


def test_identifiers_are_named(connection: Any) -> None:
    n = 24_000
    order = np.random.default_rng(6).permutation(n)
    table = pa.table(
        {
            "id": np.arange(n),
            "visit": order + 5,
            "name": [f"p{k}" for k in order],
            "ward": ["a", "b"] * (n // 2),
            "y": ["n", "n", "p", "p"] * (n // 4),
        }
    )
    load(connection, "visits", table)
    told = refusal(lambda: Marginals.from_sql(connection, "visits", "y"))
    assert "'id'" in told
    assert "'ward'" not in told
    if engine_of(connection) == "postgres":  # which is asked for all columns first
        assert "'visit'" in told
        assert "'name'" in told
    named = Encoder(numeric=("id",))
    m = Marginals.from_sql(
        connection, "visits", "y", columns=["id", "ward"], encoder=named
    )
    chosen = table.select(["id", "ward", "y"])
    assert m == Marginals.from_data(chosen, target="y", encoder=named)


@pytest.mark.filterwarnings("ignore:The target 'y' has:renyi.warnings.DataWarning")
def test_a_target_of_too_many_labels(connection: Any) -> None:
    load(connection, "t", pa.table({"x": ["a"] * 24_000, "y": np.arange(24_000)}))
    assert "'y'" in refusal(lambda: Marginals.from_sql(connection, "t", "y"))


# ---- an answer in blocks


def test_postgres_sends_blocks_and_keeps_no_cursor(postgres: Any) -> None:
    database = Database(postgres)
    numbers = "SELECT generate_series(1, 25000)"
    with database.snapshot():
        blocks = list(database.fetch_blocks(numbers, "a test"))
        assert [len(block) for block in blocks] == [10_000, 10_000, 5_000]
        assert [row[0] for block in blocks for row in block] == [*range(1, 25_001)]
        started = database.fetch_blocks(numbers, "a test")
        assert next(started)[0] == (1,)
        assert database.fetch("SELECT COUNT(*) FROM pg_cursors", "cursors") == [(1,)]
        started.close()
        assert database.fetch("SELECT COUNT(*) FROM pg_cursors", "cursors") == [(0,)]
    assert any("DECLARE" in each and numbers in each for each in database.sent)


def test_postgres_without_a_transaction(postgres: Any) -> None:
    with psycopg.connect(postgres.info.dsn, autocommit=True) as connection:
        blocks = Database(connection).fetch_blocks(
            "SELECT generate_series(1, 3)", "a test"
        )
        assert list(blocks) == [[(1,), (2,), (3,)]]
        assert connection.execute("SELECT COUNT(*) FROM pg_cursors").fetchone() == (0,)


def test_an_error_in_a_stream_is_a_sentence(connection: Any) -> None:
    stream = Database(connection).fetch_blocks(
        "SELECT nothing FROM nowhere", "the values"
    )
    with pytest.raises(ValueError, match="the values"):
        next(stream)


# ---- many pairs in one statement


@given(width=st.integers(2, 60), inner=st.booleans())
def test_every_pair_is_counted_once(width: int, inner: bool) -> None:
    dialect = DIALECTS["postgres"]
    batches = sql_counts.batches(dialect, width, inner)
    found = [group for batch in batches for group in batch]
    pairs = sorted(group[:2] for group in found)
    assert pairs == list(combinations(range(width), 2))
    for batch in batches:
        assert len({i for group in batch for i in group}) < dialect.grouping
    plain = sql_counts.batches(PORTABLE, width, inner)
    assert sorted(batch[0] for batch in plain) == sorted(found)
    assert all(len(batch) == 1 for batch in plain)


@pytest.mark.parametrize("inner", [False, True])
def test_columns_named_as_the_statement_names_things(
    connection: Any, inner: bool
) -> None:
    rng = np.random.default_rng(8)
    names = ["Mass", "mass_", "groups", "counted", "renyi_values", "SUM", "y"]
    cells = np.array(["a", "b", None], object)
    table = pa.table({name: pa.array(rng.choice(cells[:2], 90)) for name in names})
    table = table.set_column(0, "Mass", pa.array(rng.choice(cells, 90)))
    weights = rng.integers(1, 5, 90) / 2
    load(connection, "groups", table.append_column("w", pa.array(weights)))
    m = Marginals.from_sql(
        connection, "groups", "y", columns=names[:-1], class_conditional=inner
    )
    assert m == Marginals.from_data(table, target="y", class_conditional=inner)
    m = Marginals.from_sql(
        connection, "groups", "y", weight="w", class_conditional=inner
    )
    assert m == Marginals.from_data(
        table, target="y", sample_weight=weights, class_conditional=inner
    )


# ---- progress


def test_progress(connection: Any) -> None:
    load(connection, "visits", visits(100))
    told: list[Progress] = []
    m = Marginals.from_sql(connection, "visits", "class", progress=told.append)
    assert m == Marginals.from_sql(connection, "visits", "class")
    steps = [*dict.fromkeys(each.step for each in told)]
    if engine_of(connection) == "postgres":
        assert steps == ["reading columns", "counting pairs"]
        assert [each.share for each in told[:6]] == [k / 6 for k in range(6)]
    else:
        assert steps == ["looking at numbers", "counting"]
        assert told[-1].share == 1
        assert "100 rows" in told[-1].facts
    assert all(each.seconds >= 0 for each in told)
