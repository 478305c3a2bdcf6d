"""The scorecard as SQL gives the scores of Python inside real engines."""

from __future__ import annotations

import dataclasses
import datetime
import sqlite3
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import renyi
from postgres import connected
from renyi.encoding import Encoder
from renyi.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.tuples import TupleEncoder
from spark import spark_session
from warehouses import ENGINES, engine_of, load, opened

WORDS = [
    *("a", "b", "it's", 'so "it" is', "back\\slash", "\\'", "two\nlines", "ünï→cøde"),
    *("${a}", "%s", "?", "", " a", "A", "(rare)", "(missing)", "NULL", "a\tb"),
    *("1", "1.0", "01", "2.5", "2.50", "-9", "1e3", "1000", "True", "true", "nan"),
    *("NaN", "inf", "Infinity", "9007199254740993", "1e+22"),
]
REALS = [
    *(0.0, -0.0, 1.0, 2.5, -9.0, 0.1, 1000.0, 1e22, 1e-5, 1234567890123456.5),
    *(float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308),
]
WHOLES = [0, 1, 2, -9, 1000, 2**53, 2**53 + 1, -(2**62)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[psycopg.Connection[Any]]:
    yield from connected()


@pytest.fixture(params=ENGINES)
def connection(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield from opened(request)


def card_of(
    train: pa.Table, encoder: Encoder, classes: int = 2, seed: int = 0
) -> Scorecard:
    """A scorecard of random points over the categories of a table."""
    rng = np.random.default_rng(seed)
    fitted, codes = encoder.fit_transform(train, refuse_identifiers=False)
    sizes = fitted.columns.sizes
    counts = np.concatenate(
        [
            np.bincount(row, minlength=size)
            for row, size in zip(codes, sizes, strict=True)
        ]
    )
    shape = (sizes.sum(),) if classes == 2 else (sizes.sum(), classes)
    labels = ("no", "it's", "may\\be", "yes")[:classes]
    return Scorecard(
        fitted,
        labels,
        rng.normal(size=shape),
        rng.normal(size=shape[1:]),
        np.maximum(counts, fitted.order > 1),
    )


def scores_in(connection: Any, card: Scorecard, rows: pa.Table) -> NDArray[Any]:
    """Scores that the engine computes, one column per class if there are many."""
    engine = engine_of(connection)
    load(connection, "cells", rows.append_column("k", pa.array(range(len(rows)))))
    labels = [None] if card.n_classes == 2 else list(card.classes)
    made = ", ".join(card.to_sql(engine, label) for label in labels)
    answer = connection.execute(f"SELECT {made} FROM cells ORDER BY k").fetchall()
    return np.array(answer, np.float64)


def assert_same(found: NDArray[Any], card: Scorecard, rows: pa.Table) -> None:
    expected = card.scores(card.encoder.transform(rows))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def every_cell() -> tuple[pa.Table, Encoder]:
    """Rows with all odd cells, and an encoder that met some of them."""
    n = 4 * len(WORDS)
    rng = np.random.default_rng(7)

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        filled = [*values, None]
        return pa.array([filled[k % len(filled)] for k in rng.permutation(n)], kind)

    days = [datetime.date(2024, 2, k) for k in (1, 28)]
    table = pa.table(
        {
            "word": column(WORDS, pa.string()),
            "whole": column(WHOLES, pa.int64()),
            "label": column([0.0, 1.0, 2.5, 0.1, float("nan")], pa.float64()),
            "real": column(REALS, pa.float64()),
            "many": column(list(range(-30, 30)), pa.int64()),
            "truth": column([True, False], pa.bool_()),
            "day": column(days, pa.date32()),
        }
    )
    return table, Encoder(missing=("?", "", "-9"), numeric=("real", "many"), bins=4)


def as_sqlite_has_it(table: pa.Table) -> pa.Table:
    """The rows as SQLite returns them: no NaN, no booleans, no dates."""
    out = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name == "truth":
            column = column.cast(pa.int64())
        elif name == "day":
            column = column.cast(pa.string())
        out[name] = column
    return pa.table(out)


# ---- the same scores


@pytest.mark.parametrize("classes", [2, 4])
def test_every_odd_cell(connection: Any, classes: int) -> None:
    rows, encoder = every_cell()
    if engine_of(connection) == "sqlite":
        rows = as_sqlite_has_it(rows)
    card = card_of(rows[::3], encoder, classes)
    found = scores_in(connection, card, rows)
    assert_same(found, card, rows)


@pytest.mark.parametrize("min_count", [1, 3])
def test_rare_and_unseen_labels(connection: Any, min_count: int) -> None:
    train = pa.table({"w": ["a"] * 5 + ["b"] * 2 + ["c", "d", None]})
    card = card_of(train, Encoder(min_count=min_count))
    rows = pa.table({"w": ["a", "b", "c", "d", "e", "(rare)", "?", "", None, "A"]})
    found = scores_in(connection, card, rows)
    assert_same(found, card, rows)
    mean = float(card.tables[0][-1, 0] + card.intercept)
    assert found[4, 0] == pytest.approx(mean, abs=1e-12)


def test_labels_are_compared_by_text_whatever_the_type(connection: Any) -> None:
    card = card_of(pa.table({"w": [1, 1, 2, 3, None]}), Encoder())
    for cells in (
        pa.array([1, 2, 3, 4, None]),
        pa.array([1.0, 2.0, 3.0, 2.5, None]),
        pa.array(["1", "2", "3", "1.0", None]),
    ):
        rows = pa.table({"w": cells})
        assert_same(scores_in(connection, card, rows), card, rows)


def test_words_of_truth_in_texts(connection: Any) -> None:
    card = card_of(pa.table({"w": ["True", "true", "False", None]}), Encoder())
    rows = pa.table({"w": ["true", "True", "TRUE", "False", "false", None]})
    assert_same(scores_in(connection, card, rows), card, rows)
    if engine_of(connection) != "sqlite":
        rows = pa.table({"w": [True, False, None]})
        assert_same(scores_in(connection, card, rows), card, rows)


def test_a_model_without_a_missing_level(connection: Any) -> None:
    train = pa.table({"w": ["a", "b"], "x": [1.5, 2.5], "t": ["1", "nan"]})
    card = card_of(train, Encoder())
    rows = pa.table(
        {
            "w": ["a", None, "?", "b"],
            "x": [float("nan"), 2.0, None, 9.0],
            "t": ["nan", "NaN", "1.0", "1"],
        }
    )
    assert_same(scores_in(connection, card, rows), card, rows)


def test_numbers_at_and_beyond_the_edges(connection: Any) -> None:
    rng = np.random.default_rng(3)
    train = pa.table({"x": np.append(rng.normal(size=200).round(3), [0.1] * 90)})
    card = card_of(train, Encoder(bins=7, missing=("?", "-9", "0.5")))
    edges = np.array(card.encoder.columns[0].levels.edges)
    around = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
    beyond = [np.inf, -np.inf, np.nan, 1e308, -1e308, 0.5, -9.0, 0.0, 5e-324]
    rows = pa.table({"x": np.concatenate([*around, beyond])})
    assert_same(scores_in(connection, card, rows), card, rows)


def test_texts_of_numbers_and_integers_are_binned(connection: Any) -> None:
    train = pa.table({"x": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, None]})
    card = card_of(train, Encoder(bins=3))
    whole = pa.table({"x": [0, 1, 2, 3, 4, 5, None]})
    assert_same(scores_in(connection, card, whole), card, whole)
    texts = pa.table({"x": ["0.5", "2.5", "?", "", "1e3", None]})
    if engine_of(connection) == "sqlite":
        # It would read any text as a number, hence answers with none.
        found = scores_in(connection, card, texts)[:, 0]
        assert np.isnan(found).tolist() == [True, True, False, False, True, False]
    else:
        assert_same(scores_in(connection, card, texts), card, texts)


def test_single_precision_and_decimals() -> None:
    kinds = {"f": pa.float32(), "d": pa.decimal128(9, 3)}
    cells = {
        name: pa.array([0.125, 2.5, 7.0, None]).cast(k) for name, k in kinds.items()
    }
    rows = pa.table({**cells, "g": cells["f"], "e": cells["d"]})
    card = card_of(rows, Encoder(numeric=("g", "e")))
    with duckdb.connect() as connection:
        assert_same(scores_in(connection, card, rows), card, rows)


def test_times_with_a_zone(connection: Any) -> None:
    engine = engine_of(connection)
    if engine == "sqlite":  # which has no such type: its users have the texts
        zone = pa.string()
    else:
        connection.execute("SET TIME ZONE 'America/New_York'")
        zone = pa.timestamp("us", "UTC")
    texts = [
        *("2024-11-03 05:30:00.0006Z", "2024-11-03 06:30:00.0006Z", None),
        *("2024-07-01 00:00:00Z", "1999-12-31 23:59:59.999999Z"),
    ]
    rows = pa.table({"t": pa.array(texts).cast(zone)})
    for encoder in (Encoder(), TupleEncoder(order=2)):
        cells = rows.append_column("w", pa.array(["a", "b", "a", "b", "a"]))
        card = card_of(cells[:4], encoder)
        assert_same(scores_in(connection, card, cells), card, cells)
    card = card_of(pa.table({"t": texts[:4]}), Encoder())  # fitted on texts of them
    assert_same(scores_in(connection, card, rows), card, rows)


def test_single_precision_labels(postgres: Any) -> None:
    cells = pa.array([0.1, 0.2, 1e30, 7.0, None], pa.float32())
    rows = pa.table({"f": cells})
    card = card_of(rows[:4], Encoder(numeric=()))
    assert_same(scores_in(postgres, card, rows), card, rows)
    with duckdb.connect() as connection:
        assert_same(scores_in(connection, card, rows), card, rows)


def test_bytes_have_the_score_of_their_text_or_none(connection: Any) -> None:
    cells = [b"a", b"it's", b"\xff", b"\xfe", "é".encode(), b"new", None]
    rows = pa.table({"b": pa.array(cells, pa.binary())})
    plain = card_of(pa.table({"b": ["a", "b", None]}), Encoder())
    strange = card_of(rows[:2], Encoder())
    broken = card_of(rows[:3], Encoder())
    pairs = card_of(
        pa.table({"b": ["é", "\ufffd"], "w": ["a", "b"]}), TupleEncoder(order=2)
    )
    for card in (plain, strange, broken, pairs):
        given = rows.append_column("w", pa.array(["a"] * len(rows)))
        found = scores_in(connection, card, given)
        expected = card.scores(card.encoder.transform(given))
        told = ~np.isnan(found)
        np.testing.assert_allclose(found[told], expected[told], rtol=0, atol=1e-12)
        engine = engine_of(connection)
        bare = engine != "postgres" and (card is plain or card is strange)
        assert told[:-1].all() == (bare and (engine, card) != ("duckdb", strange))
        assert told[:-1].all() or not told[:-1].any()


def test_columns_blind_to_capital_letters() -> None:
    card = card_of(pa.table({"w": ["a", "b", "B"], "x": [1.0, 2.0, 3.0]}), Encoder())
    for connection in (sqlite3.connect(":memory:"), duckdb.connect()):
        connection.execute("CREATE TABLE t (k INT, w VARCHAR COLLATE NOCASE, x FLOAT)")
        connection.execute("INSERT INTO t VALUES (1, 'A', 1), (2, 'a', 1), (3, 'B', 1)")
        sql = f"SELECT {card.to_sql(engine_of(connection))} FROM t ORDER BY k"
        found = np.array(connection.execute(sql).fetchall())
        connection.close()
        rows = pa.table({"w": ["A", "a", "B"], "x": [1.0, 1.0, 1.0]})
        assert_same(found, card, rows)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("order", [2, 3])
def test_tuples_of_columns(connection: Any, order: int, classes: int) -> None:
    train = pa.table(
        {
            "a": ["n", "y", "y", None, "n", "it's"],
            "b": [1, 1, 2, 2, 1, 3],
            "x": [0.5, 1.5, 2.5, None, 4.5, 5.5],
        }
    )
    card = card_of(train, TupleEncoder(order=order, bins=2), classes)
    rows = pa.table(
        {
            "a": ["n", "y", "new", None, "?", "it's", "y"],
            "b": [1, 2, 1, 7, None, 3, 1],
            "x": [0.5, float("nan"), 9.0, None, -9.0, 2.5, 2.4],
        }
    )
    assert_same(scores_in(connection, card, rows), card, rows)


columns = {
    "word": (st.sampled_from([*WORDS, None]), pa.string()),
    "text": (
        st.one_of(
            st.none(),
            st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")),
        ),
        pa.string(),
    ),
    "whole": (st.sampled_from([*WHOLES, None]), pa.int64()),
    "label": (st.sampled_from([*REALS, None]), pa.float64()),
    "real": (st.one_of(st.none(), st.sampled_from(REALS), st.floats()), pa.float64()),
}


@st.composite
def models(draw: st.DrawFn) -> tuple[Scorecard, pa.Table]:
    n = draw(st.integers(2, 25))
    made = {
        name: pa.array(draw(st.lists(cells, min_size=n, max_size=n)), kind)
        for name, (cells, kind) in columns.items()
    }
    rows = pa.table(made)
    encoder = Encoder(
        missing=draw(st.sampled_from([(), ("?", ""), ("-9", "1", "inf", "True")])),
        min_count=draw(st.integers(1, 3)),
        numeric=("real",),
        bins=draw(st.integers(2, 5)),
    )
    seen = draw(st.integers(1, n))
    classes = draw(st.sampled_from([2, 3]))
    return card_of(rows[:seen], encoder, classes, draw(st.integers(0, 99))), rows


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=models())
def test_any_model_and_rows(connection: Any, model: tuple[Scorecard, pa.Table]) -> None:
    card, rows = model
    assert_same(scores_in(connection, card, rows), card, rows)


def test_a_wide_model_does_not_nest_too_deep(connection: Any) -> None:
    rng = np.random.default_rng(0)
    wide = 1200 if engine_of(connection) != "sqlite" else 900
    train = pa.table({f"c{j}": rng.choice(["n", "y"], 20) for j in range(wide)})
    card = card_of(train, Encoder())
    assert_same(scores_in(connection, card, train), card, train)


# ---- real models


def scored(clf: Any, X: Any, connection: Any) -> None:
    """Compare scores and answers of a whole query with those of a classifier."""
    engine = engine_of(connection)
    table = pa.Table.from_pandas(X, preserve_index=False)
    load(connection, "people", table.append_column("k", pa.array(range(len(X)))))
    sql = clf.scorecard_.to_sql(engine, table="people")
    cursor = connection.execute(f"SELECT * FROM ({sql}) AS q ORDER BY k")
    names = [entry[0] for entry in cursor.description]
    answer = list(zip(*cursor.fetchall(), strict=True))
    assert names[: len(table.column_names)] == table.column_names
    found = np.array(
        [answer[j] for j, name in enumerate(names) if name.startswith("renyi_score")]
    ).T
    expected = clf.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert list(answer[names.index("renyi_prediction")]) == clf.predict(X).tolist()


def test_a_real_classifier(connection: Any) -> None:
    X, y = renyi.datasets.load("adult")
    X, y = X[:1500].astype({c: object for c in X if X[c].dtype == "category"}), y[:1500]
    clf = renyi.RenyiClassifier().fit(X[:500], y[:500])
    scored(clf, X, connection)


def test_a_real_classifier_of_many_classes(connection: Any) -> None:
    X, _ = renyi.datasets.load("votes")
    y = X.iloc[:, :2].isna().sum(axis=1) + 2 * (X["crime"] == "y")
    X = X.astype(object).where(X.notna(), None)
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    assert len(clf.classes_) > 2
    scored(clf, X, connection)


@pytest.mark.xdist_group("spark")
def test_spark() -> None:
    spark = spark_session()
    rows, encoder = every_cell()
    ids = pa.array(range(len(rows)))
    frame = spark.createDataFrame(rows.append_column("k", ids))
    frame.createOrReplaceTempView("cells")
    wide = pa.table({f"c{j}": ["n", "y", None] for j in range(5)})
    for card in (card_of(rows[::3], encoder), card_of(rows[::3], encoder, 3)):
        labels = [None] if card.n_classes == 2 else list(card.classes)
        made = ", ".join(card.to_sql("spark", label) for label in labels)
        answer = spark.sql(f"SELECT {made} FROM cells ORDER BY k").collect()
        assert_same(np.array(answer, np.float64), card, rows)
    card = card_of(wide, TupleEncoder(order=2))
    spark.createDataFrame(wide).createOrReplaceTempView("wide")
    query = card.to_sql("spark", table="wide")
    answer = spark.sql(query).select("renyi_score").collect()
    found = np.sort(np.array(answer, np.float64)[:, 0])
    expected = np.sort(card.scores(card.encoder.transform(wide))[:, 0])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    spark.catalog.dropTempView("cells")
    spark.catalog.dropTempView("wide")


@pytest.mark.xdist_group("spark")
def test_spark_compares_labels_of_other_types_by_text() -> None:
    spark = spark_session()
    card = card_of(pa.table({"w": ["1", "2.5", "True", "x", None]}), Encoder())
    for k, cells in enumerate(
        (
            pa.array([1, 2, None]),
            pa.array([1.0, 2.5, float("nan"), None]),
            pa.array(["1.0", "true", "True", "x"]),
            pa.array([True, False]),
        )
    ):
        rows = pa.table({"w": cells, "k": range(len(cells))})
        spark.createDataFrame(rows).createOrReplaceTempView(f"cells{k}")
        made = card.to_sql("spark")
        answer = spark.sql(f"SELECT {made} FROM cells{k} ORDER BY k").collect()
        assert_same(np.array(answer, np.float64), card, rows.select(["w"]))


@pytest.mark.xdist_group("spark")
def test_spark_tells_times_bytes_and_singles() -> None:
    spark = spark_session()
    zone = "spark.sql.session.timeZone"
    clock = ["2024-11-03 05:30:00.0006Z", "2024-11-03 06:30:00.0006Z", None] * 2
    rows = pa.table(
        {
            "t": pa.array(clock).cast(pa.timestamp("us", "UTC")),
            "f": pa.array([0.1, 0.2, 7.0, None, 0.1, 0.3], pa.float32()),
            "b": pa.array([b"a", b"\xff", None, "é".encode(), b"c", b"a"], pa.binary()),
            "w": ["a", "b", "b", "a", None, "c"],
        }
    )
    known = card_of(rows.drop_columns("b")[:3], Encoder(numeric=()))
    texts = card_of(pa.table({"b": ["a", "é", "x", None]}), Encoder())
    broken = card_of(rows.select(["b"]), Encoder())
    old = spark.conf.get(zone)
    try:
        frame = spark.createDataFrame(rows.append_column("k", pa.array(range(6))))
        frame.createOrReplaceTempView("odd")
        spark.conf.set(zone, "America/New_York")
        for card in (known, texts):
            sql = f"SELECT {card.to_sql('spark')} FROM odd ORDER BY k"
            found = np.array(spark.sql(sql).collect(), np.float64)
            assert_same(found, card, rows)
        sql = f"SELECT {broken.to_sql('spark')} AS s FROM odd ORDER BY k"
        found = [row.s is None for row in spark.sql(sql).collect()]
        assert found == [True, True, False, True, True, True]
        scored = frame.withColumn("renyi_prediction", frame.w)
        scored.createOrReplaceTempView("odd")
        with pytest.raises(Exception, match=r"(?s)AMBIGUOUS.*renyi_prediction"):
            spark.sql(known.to_sql("spark", table="odd")).collect()
    finally:
        spark.conf.set(zone, old)
        spark.catalog.dropTempView("odd")


# ---- manners


def test_unseen_labels_have_no_score_if_they_are_errors(connection: Any) -> None:
    card = card_of(pa.table({"w": ["a", "b"]}), Encoder(unseen="error"))
    found = scores_in(connection, card, pa.table({"w": ["a", "c", None]}))[:, 0]
    assert np.isnan(found).tolist() == [False, True, True]
    sql = card.to_sql(engine_of(connection), table="cells")
    answer = connection.execute(
        f"SELECT renyi_prediction FROM ({sql}) AS q ORDER BY k"
    ).fetchall()
    assert answer[1:] == [(None,), (None,)]
    assert answer[0][0] in card.classes


def test_which_class() -> None:
    train = pa.table({"w": ["a", "b"]})
    two, three = card_of(train, Encoder()), card_of(train, Encoder(), 3)
    assert two.to_sql() == two.to_sql("duckdb", "it's")
    with duckdb.connect() as connection:
        sql = (
            f"SELECT {two.to_sql()} + {two.to_sql('duckdb', 'no')} FROM (SELECT 'a' w)"
        )
        assert connection.execute(sql).fetchone() == (0.0,)
    with pytest.raises(ValueError, match="Name a class: the classes are no, it's"):
        three.to_sql()
    with pytest.raises(ValueError, match="There is no class 'never'"):
        two.to_sql("sqlite", "never")
    with pytest.raises(ValueError, match="dialect must be one of 'duckdb', "):
        two.to_sql("oracle")
    with pytest.raises(ValueError, match="give no label"):
        two.to_sql("duckdb", "no", table="t")


@pytest.mark.parametrize("old", ["renyi_score", "renyi_prediction"])
def test_a_table_that_was_scored_before_is_an_error(connection: Any, old: str) -> None:
    card = card_of(pa.table({"w": ["a", "b"]}), Encoder())
    load(connection, "scored", pa.table({"w": ["a", "b"], old: [-5.0, -5.0]}))
    sql = card.to_sql(engine_of(connection), table="scored")
    with pytest.raises(Exception, match=f"(?i)ambiguous.*{old}|{old}.*ambiguous"):
        connection.execute(sql).fetchall()
    if engine_of(connection) == "postgres":
        connection.rollback()


def test_columns_of_one_name_are_not_made() -> None:
    rows, classes = pa.table({"w": ["a", "b", "c"]}), ("A", "a", "b")
    card = dataclasses.replace(card_of(rows, Encoder(), 3), classes=classes)
    with pytest.raises(ValueError, match="would make a column 'renyi_score_a' beside"):
        card.to_sql(table="t")
    assert 'AS "renyi_score_a"' in card.to_sql("postgres", table="t")
    card = card_of(pa.table({"Renyi_Score": ["a", "b"]}), Encoder())
    with pytest.raises(ValueError, match="would make a column 'renyi_score' beside"):
        card.to_sql("sqlite", table="t")


def test_names_are_quoted(connection: Any) -> None:
    hostile = 'x"; drop table cells; --'
    card = card_of(pa.table({hostile: ["a", "b"], "a`b": [1.5, 2.5]}), Encoder())
    rows = pa.table({hostile: ["b", "a"], "a`b": [2.0, 3.0]})
    assert_same(scores_in(connection, card, rows), card, rows)
    assert "`a``b`" in card.to_sql("spark")


def test_marginals_and_scores_without_a_row_leaving(postgres: Any) -> None:
    X, y = renyi.datasets.load("votes")
    table = pa.Table.from_pandas(X.assign(party=y), preserve_index=False)
    load(postgres, "votes", table)
    clf = renyi.RenyiClassifier()
    clf.fit_marginals(Marginals.from_sql(postgres, "votes", "party"))
    sql = clf.scorecard_.to_sql("postgres", table="votes")
    wrong = f"SELECT COUNT(*) FROM ({sql}) AS q WHERE renyi_prediction <> party"
    ((count,),) = postgres.execute(wrong).fetchall()
    assert count == (clf.predict(X) != y.to_numpy()).sum()
