"""The scorecard as SQL gives the scores of Python inside real engines."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import renyi
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from support import warehouses
from support.postgres import address_of
from support.sqlcards import (
    REALS,
    WHOLES,
    WORDS,
    assert_same,
    card_of,
    every_cell,
    scores_in,
)
from support.warehouses import engine_of, load

connection = warehouses.connection
duck = warehouses.duck
lite = warehouses.lite
postgres = warehouses.postgres


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
        rows = pa.table({"w": [False, None, True]})
        found = scores_in(connection, card, rows)
        assert_same(found[:2], card, rows[:2])
        assert np.isnan(found[2])  # which of two labels it is cannot be told


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


@pytest.mark.parametrize("gap", [None, "c"])
def test_a_label_named_nan_is_no_number(connection: Any, gap: str | None) -> None:
    card = card_of(pa.table({"w": ["nan", "a", "a", "b", gap]}), Encoder())
    rows = pa.table({"w": [float("-inf"), float("inf"), 1.5, float("nan"), None]})
    if engine_of(connection) == "sqlite":  # which has no NaN
        rows = rows[:3]
    found = scores_in(connection, card, rows)
    told = rows.filter(pa.array([True, True, True, False, True][: len(rows)]))
    assert_same(np.delete(found, slice(3, 4), axis=0), card, told)
    assert np.isnan(found[3:4]).all()  # it may be missing, or the label


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
    texts = pa.table({"x": ["0.5", "2.5", "?", "", "1e3", " 4.5 ", None]})
    assert_same(scores_in(connection, card, texts), card, texts)
    if engine_of(connection) == "sqlite":  # which would read any text as a number
        stray = pa.table({"x": ["abc", "1-2", "4.5 kg"]})
        assert np.isnan(scores_in(connection, card, stray)).all()


def test_single_precision_and_decimals(duck: Any) -> None:
    kinds = {"f": pa.float32(), "d": pa.decimal128(9, 3)}
    cells = {
        name: pa.array([0.125, 2.5, 7.0, None]).cast(k) for name, k in kinds.items()
    }
    rows = pa.table({**cells, "g": cells["f"], "e": cells["d"]})
    card = card_of(rows, Encoder(numeric=("g", "e")))
    assert_same(scores_in(duck, card, rows), card, rows)


def test_types_that_predict_rejects_have_no_score(postgres: Any, duck: Any) -> None:
    kinds = {
        "duckdb": {
            "INTEGER[]": "[1]",
            "INTEGER[1]": "[1]",
            "STRUCT(a INTEGER)": "{'a': 1}",
            "STRUCT(a INTEGER)[]": "[{'a': 1}]",
            "MAP(VARCHAR, INTEGER)": "map {'a': 1}",
            "UNION(a INTEGER)": "1",
            "BLOB": "'a'",
            "UUID": "uuid()",
            "INTERVAL": "interval 1 day",
            "TIMESTAMPTZ": "'2024-01-02'",
        },
        "postgres": {
            "integer[]": "'{1}'",
            "pair": "'(1,2)'",
            "numbers": "'{1}'",
            "bytea": "'a'",
            "uuid": "'00000000-0000-0000-0000-000000000000'",
            "interval": "'1 day'",
            "timestamptz": "'2024-01-02'",
            "int4range": "'[1,2)'",
        },
    }
    words = card_of(pa.table({"w": ["a", "b", "1", "[1]", "{1}", None]}), Encoder())
    tuples = {"w": ["a", "b", None], "v": ["c", "d", "c"]}
    pairs = card_of(pa.table(tuples), TupleEncoder(order=2))
    postgres.execute("CREATE TYPE pair AS (a integer, b integer)")
    postgres.execute("CREATE DOMAIN numbers AS integer[]")
    for engine, connection in (("duckdb", duck), ("postgres", postgres)):
        for kind, cell in kinds[engine].items():
            connection.execute("DROP TABLE IF EXISTS odd")
            row = f"CAST({cell} AS {kind}) AS w, CAST('c' AS VARCHAR) AS v"
            connection.execute(f"CREATE TABLE odd AS SELECT {row}")
            for card in (words, pairs):
                sql = f"SELECT {card.to_sql(engine)} FROM odd"
                assert connection.execute(sql).fetchall() == [(None,)], kind
    postgres.rollback()


def test_columns_of_a_domain_are_those_of_its_base(postgres: Any) -> None:
    rows = pa.table(
        {
            "truth": [True, False, True, None],
            "real": [1.5, 2.0, 1e22, None],
            "day": [datetime.date(2024, 2, k) for k in (1, 2, 3)] + [None],
            "word": ["a", "b ", "é", None],
            "mood": ["fine", "bad", "fine", None],
            "whole": [1, 2, 3, None],
            "number": [0.5, 1.5, float("nan"), None],
            "text of number": ["0.5", "?", "2.5", None],
        }
    )
    encoder = Encoder(numeric=("number", "text of number"))
    card = card_of(rows, encoder)
    postgres.execute("CREATE TYPE moods AS ENUM ('fine', 'bad')")
    kinds = ["boolean", "double precision", "date", "text", "moods", "bigint"]
    kinds += ["double precision", "text"]
    for j, kind in enumerate(kinds):
        postgres.execute(f"CREATE DOMAIN base{j} AS {kind}")
        postgres.execute(f"CREATE DOMAIN outer{j} AS base{j}")
    for form in ("base", "outer"):
        names = zip(range(len(kinds)), rows.column_names, strict=True)
        columns = ", ".join(f'"{name}" {form}{j}' for j, name in names)
        postgres.execute("DROP TABLE IF EXISTS domains")
        postgres.execute(f"CREATE TABLE domains (k integer, {columns})")
        with postgres.cursor().copy("COPY domains FROM STDIN") as copy:
            for k, row in enumerate(rows.to_pylist()):
                copy.write_row([k, *row.values()])
        sql = f"SELECT {card.to_sql('postgres')} FROM domains ORDER BY k"
        found = np.array(postgres.execute(sql).fetchall(), np.float64)
        assert_same(found, card, rows)
    postgres.rollback()


def test_single_precision_labels(postgres: Any, duck: Any) -> None:
    cells = pa.array([0.1, 0.2, 1e30, 7.0, None], pa.float32())
    rows = pa.table({"f": cells})
    card = card_of(rows[:4], Encoder(numeric=()))
    assert_same(scores_in(postgres, card, rows), card, rows)
    assert_same(scores_in(duck, card, rows), card, rows)


def test_columns_blind_to_capital_letters(lite: Any, duck: Any) -> None:
    card = card_of(pa.table({"w": ["a", "b", "B"], "x": [1.0, 2.0, 3.0]}), Encoder())
    for connection in (lite, duck):
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_which_class(duck: Any) -> None:
    train = pa.table({"w": ["a", "b"]})
    two, three = card_of(train, Encoder()), card_of(train, Encoder(), 3)
    assert two.to_sql() == two.to_sql("duckdb", "it's")
    sql = f"SELECT {two.to_sql()} + {two.to_sql('duckdb', 'no')} FROM (SELECT 'a' w)"
    assert duck.execute(sql).fetchone() == (0.0,)
    with pytest.raises(ValueError, match="Name a class: the classes are no, it's"):
        three.to_sql()
    with pytest.raises(ValueError, match="There is no class 'never'"):
        two.to_sql("sqlite", "never")
    with pytest.raises(ValueError, match="dialect must be one of 'duckdb', "):
        two.to_sql("oracle")
    with pytest.raises(ValueError, match="give no label"):
        two.to_sql("duckdb", "no", table="t")
    with pytest.raises(ValueError, match="has an empty part"):
        two.to_sql("duckdb", table=())


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
    with pytest.raises(ValueError, match="'renyi_score_A' and 'renyi_score_a'"):
        card.to_sql(table="t")
    assert 'AS "renyi_score_a"' in card.to_sql("postgres", table="t")
    card = card_of(pa.table({"Renyi_Score": ["a", "b"]}), Encoder())
    with pytest.raises(ValueError, match="'Renyi_Score' and 'renyi_score'"):
        card.to_sql("sqlite", table="t")


def test_names_are_quoted(connection: Any) -> None:
    hostile = 'x"; drop table cells; --'
    card = card_of(pa.table({hostile: ["a", "b"], "a`b": [1.5, 2.5]}), Encoder())
    rows = pa.table({hostile: ["b", "a"], "a`b": [2.0, 3.0]})
    assert_same(scores_in(connection, card, rows), card, rows)
    assert "`a``b`" in card.to_sql("spark")


def test_scores_inside_the_database_that_was_learned_from(postgres: Any) -> None:
    X, y = renyi.datasets.load("votes")
    table = pa.Table.from_pandas(X.assign(party=y), preserve_index=False)
    load(postgres, "votes", table)
    clf = renyi.RenyiClassifier()
    address = address_of(postgres)
    m = Marginals.from_file(address, table="votes", target="party")
    clf.fit_marginals(m)
    sql = clf.scorecard_.to_sql("postgres", table="votes")
    wrong = f"SELECT COUNT(*) FROM ({sql}) AS q WHERE renyi_prediction <> party"
    ((count,),) = postgres.execute(wrong).fetchall()
    assert count == (clf.predict(X) != y.to_numpy()).sum()
