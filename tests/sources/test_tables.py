"""Marginals of tables the user has: cross tables, long counts, and what is wrong."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import renyi
from renyi import Encoder, Marginals
from support.engines import polars as pl


def votes():
    X, y = renyi.datasets.load("votes")
    return X.fillna("?").assign(party=y)


def crosstabs(table):
    return [pd.crosstab(table[a], table[b]) for a, b in combinations(table.columns, 2)]


def test_all_cross_tables_of_votes_give_what_its_rows_give():
    table = votes()
    m = Marginals.from_tables(crosstabs(table), target="party")
    assert m == Marginals.from_data(table, target="party")
    assert m.counts.dtype == np.int64 and type(m.n) is int
    assert m.classes == ("democrat", "republican")


rows = st.tuples(st.sampled_from("ab?"), st.integers(0, 2), st.booleans())


def long(table, *names):
    return table.groupby(list(names), dropna=False).size().reset_index(name="count")


FORMS = {
    "cross": lambda t, a, b: pd.crosstab(t[a], t[b]),
    "long": long,
    "value_counts": lambda t, a, b: t[[a, b]].value_counts(),
    "polars": lambda t, a, b: pl.from_pandas(long(t, a, b)),
    "arrow": lambda t, a, b: pa.Table.from_pandas(long(t, a, b)),
    "small": lambda t, a, b: long(t, a, b).astype({"count": "uint8"}),
    "nullable": lambda t, a, b: long(t, a, b).astype({"count": "Int64"}),
    "text": lambda t, a, b: long(t, a, b).astype({"count": "str"}),
}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10)
@given(st.lists(rows, min_size=1, max_size=300))
def test_every_form_of_table(form, cells):
    table = pd.DataFrame(cells, columns=["c", "k", "y"])
    pairs = combinations(table.columns, 2)
    made = [FORMS[form](table, a, b) for a, b in pairs]
    m = Marginals.from_tables(made, target="y")
    assert m == Marginals.from_data(table, target="y")
    assert not m.weighted


def test_small_counts_do_not_overflow():
    table = pd.DataFrame({"c": ["a", "a"], "y": [0, 1], "count": [200, 200]})
    m = Marginals.from_tables([table.astype({"count": "uint8"})], target="y")
    assert m.n == 400 and m.block("c", "c").loc["a", "a"] == 400


def test_one_long_table_over_all_columns():
    table = votes().iloc[:, [0, 1, 2, -1]]
    m = Marginals.from_tables([long(table, *table.columns)], target="party")
    assert m == Marginals.from_data(table, target="party")
    three = [long(table, *names) for names in combinations(table.columns, 3)]
    assert Marginals.from_tables(three, target="party") == m


def test_tables_named_by_a_dict():
    table = votes().iloc[:, [0, 1, -1]]
    pairs = list(combinations(table.columns, 2))
    bare = {
        (a, b): pd.crosstab(table[a], table[b]).rename_axis(index=None, columns=None)
        for a, b in pairs
    }
    m = Marginals.from_tables(bare, target="party")
    assert m == Marginals.from_data(table, target="party")


def test_another_name_for_the_counts_and_a_label_named_count():
    frame = pd.DataFrame({"c": ["count", "b"], "y": [0, 1], "people": [3, 4]})
    m = Marginals.from_tables([frame], target="y", count="people")
    assert m.n == 7
    y, c = pd.Series([0, 0, 1], name="y"), pd.Series(["count", "b", "b"], name="c")
    crossed = Marginals.from_tables([pd.crosstab(y, c)], target="y")
    assert crossed.categories["c"] == ("b", "count")


def test_more_than_twenty_categories():
    k = np.arange(300)
    table = pd.DataFrame({"town": k % 50, "y": k % 2})
    m = Marginals.from_tables([pd.crosstab(table["town"], table["y"])], target="y")
    expected = Marginals.from_data(table, target="y", encoder=Encoder(numeric=()))
    assert np.array_equal(m.counts, expected.counts)
    assert m.categories == expected.categories


def test_cells_of_zero_are_no_categories():
    table = pd.DataFrame({"c": ["a", "b", "z"], "y": [0, 1, 1], "count": [1, 2, 0]})
    m = Marginals.from_tables([table], target="y")
    assert m.categories == {"c": ("a", "b"), "y": (0, 1)}


def test_fractions_are_weights():
    table = pd.DataFrame({"c": ["a", "b"], "y": [0, 1], "count": [0.25, 0.75]})
    m = Marginals.from_tables([table], target="y")
    assert m.weighted and m.n == 1.0 and m.F.tolist() == [[0.25, 0], [0, 0.75]]


# ---- pairs that nobody counted


def test_absent_pairs():
    table = votes()[["crime", "immigration", "party"]]
    tables = crosstabs(table)[1:]
    m = Marginals.from_tables(tables, target="party")
    whole = Marginals.from_data(
        table[["crime", "party", "immigration"]], target="party"
    )
    assert np.array_equal(m.F, whole.F)
    for need in (lambda: m.Q, lambda: m.block("immigration", "crime")):
        with pytest.raises(
            ValueError, match=r"counts of '(crime|immig\w+)' and '\w+' are not among"
        ):
            need()
    assert m.select(["crime"]) == whole.select(["crime"])
    with pytest.raises(ValueError, match="'crime' and 'immigration'|'immigration' and"):
        m.with_target("crime").F  # noqa: B018
    assert (m + m).absent == m.absent


def test_absent_pairs_survive_a_file(tmp_path):
    tables = crosstabs(votes()[["crime", "immigration", "party"]])[1:]
    m = Marginals.from_tables(tables, target="party")
    m.save(tmp_path / "m.renyi")
    assert Marginals.load(tmp_path / "m.renyi") == m


def test_pairs_that_one_side_lacks_are_absent_from_sums_and_differences(tmp_path):
    table = votes()[["crime", "immigration", "party"]]
    whole = Marginals.from_tables(crosstabs(table), target="party")
    fewer = Marginals.from_tables(crosstabs(table[:100])[1:], target="party")
    for mixed, n in ((whole + fewer, 535), (fewer + whole, 535), (whole - fewer, 335)):
        assert mixed.absent == {frozenset(["crime", "immigration"])}
        names = "crime", "immigration"
        first, second = (mixed.columns.spans([name]) for name in names)
        assert not mixed.counts[np.ix_(first, second)].any()
        assert not mixed.counts[np.ix_(second, first)].any()
        assert mixed.block("crime", "party").to_numpy().sum() == mixed.n == n
        mixed.save(tmp_path / "m.renyi")
        assert Marginals.load(tmp_path / "m.renyi") == mixed
    assert whole.block("crime", "immigration").to_numpy().sum() == 435  # as before


# ---- what is wrong


def bits(p, names):
    index = pd.Index([0, 1], name=names[0])
    return pd.DataFrame(p, index=index, columns=pd.Index([0, 1], name=names[1]))


OPPOSITE = [[0, 5], [5, 0]]
EVEN = [[5, 0], [0, 5]]


def test_three_bits_that_all_differ_are_refused():
    pairs = combinations(["a", "b", "c"], 2)
    tables = [bits(OPPOSITE, names) for names in pairs]
    with pytest.raises(ValueError, match=r"No distribution .* eigenvalue -0\.5"):
        Marginals.from_tables(tables, target="c")


def test_contradictions_are_found_beside_absent_pairs():
    tables = [bits(OPPOSITE, names) for names in combinations(["a", "b", "c"], 2)]
    tables.append(bits(EVEN, ("d", "c")))  # d with a and b is absent
    with pytest.raises(ValueError, match="No distribution"):
        Marginals.from_tables(tables, target="c")
    fine = [bits(EVEN, names) for names in combinations(["a", "b", "c"], 2)]
    assert Marginals.from_tables([*fine, tables[-1]], target="c").n == 10


def test_margins_that_disagree_are_named_with_the_amount():
    tables = [bits(EVEN, ("a", "b")), bits([[4, 0], [0, 6]], ("a", "c"))]
    with pytest.raises(
        ValueError, match=r"a = 0 has 5 rows .* 4 in another \(off by 1"
    ):
        Marginals.from_tables(tables, target="c")
    twice = [bits([[3, 2], [2, 3]], ("a", "b")), bits(EVEN, ("a", "b"))]
    with pytest.raises(ValueError, match=r"a = \d, b = \d has \d .*off by 2"):
        Marginals.from_tables(twice, target="b")


def test_totals_that_disagree_are_named():
    tables = [bits(EVEN, ("a", "b")), bits([[5, 0], [0, 6]], ("a", "c"))]
    with pytest.raises(ValueError, match=r"\['a', 'c'\] counts 11 .* 10 \(off by 1\)"):
        Marginals.from_tables(tables, target="c")


def test_tolerance_lets_rounded_tables_through(tmp_path):
    tables = [bits(EVEN, ("a", "b")), bits([[5.01, 0], [0, 5]], ("a", "c"))]
    with pytest.raises(ValueError, match="off by 0.01"):
        Marginals.from_tables(tables, target="c")
    m = Marginals.from_tables(tables, target="c", tolerance=0.01)
    assert m.n == 10
    m.save(tmp_path / "m.renyi")
    assert Marginals.load(tmp_path / "m.renyi") == m
    wild = dataclasses.replace(m, n=20)
    with pytest.raises(ValueError, match=r"by 50\.0% of all rows, too much for a file"):
        wild.save(tmp_path / "m.renyi")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1, r"The count of c = b, y = 1 is .*-1.*not negative"),
        (np.nan, r"The count of c = b, y = 1 is .*nan"),
        (np.inf, r"The count of c = b, y = 1 is .*inf"),
        ("many", r"The count of c = b, y = 1 is 'many'"),
        (None, r"The count of c = b, y = 1 is"),
    ],
)
def test_counts_that_are_none(value, words):
    counts = pd.Series([1, value], dtype=object)
    table = pd.DataFrame({"c": ["a", "b"], "y": [0, 1], "count": counts})
    with pytest.raises(ValueError, match=words):
        Marginals.from_tables([table], target="y")


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([], "no tables"),
        ([bits(EVEN, ("a", "b"))], "No table has the target 'z'; .* 'a', 'b'"),
        ([bits(EVEN, (None, "b"))], r"name the index and the columns"),
        ([bits(EVEN, ("b", "b"))], r"name the index and the columns"),
        ([pd.DataFrame({"a": [1]})], "neither a cross table .* a column 'count'"),
        ([pd.Series([1, 2], [[0, 1], [0, 1]])], "name the index and the columns"),
        ([bits([[0, 0], [0, 0]], ("a", "b"))], "The table of 'a' counts no row"),
    ],
)
def test_tables_that_are_none(tables, words):
    with pytest.raises(ValueError, match=words):
        Marginals.from_tables(tables, target="z")
