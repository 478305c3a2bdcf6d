"""Descriptions of columns: equality, union, and untrusted plain forms."""

from __future__ import annotations

import numpy as np
import pytest

from renyi.encoding.columns import Column, Columns, Levels

YES_NO = Levels("label", ("n", "y"))


def test_true_is_not_one():
    truth, number = Levels("label", (False, True)), Levels("label", (0, 1))
    assert truth != number
    assert truth == Levels("label", (False, True))
    columns = Columns.of([Column("a", truth), Column("b", number)])
    assert [type(c) for c in columns[1].categories] == [int, int]
    assert Columns.of([Column("a", truth)]) != Columns.of([Column("a", number)])


def test_equal_levels_are_stored_once():
    columns = Columns.of([Column(f"c{j}", YES_NO) for j in range(100)])
    assert len(columns.levels) == 1
    assert columns.sizes.tolist() == [2] * 100


def test_taking_columns_drops_levels_no_column_uses():
    other = Levels("label", ("a", "b", "c"))
    columns = Columns.of([Column("x", YES_NO), Column("y", other)])
    taken = columns.take([1])
    assert taken.levels == (other,)
    assert taken.names == ("y",) and taken.sizes.tolist() == [3]
    assert columns[0:1] == columns.take([0])


def test_union_of_labels_is_sorted_and_keeps_missing_last():
    a = Column("c", Levels("label", ("b", None)))
    b = Column("c", Levels("label", (2, "a")))
    union = a.union(b)
    assert union.categories == (2, "a", "b", None)
    assert a.places(union).tolist() == [2, 3]
    assert b.places(a).tolist() == [2, 2]  # absent: the size


def test_union_takes_one_and_its_text_for_the_same_label():
    union = Column("c", Levels("label", (1, 2))).union(
        Column("c", Levels("label", ("1", "3")))
    )
    assert union.categories == (1, 2, "3")


def test_truths_are_sorted_as_their_texts():
    truths = Column("c", Levels("label", (False, True)))
    other = Column("c", Levels("label", (3, "(rare)", "Z")))
    assert truths.union(other).categories == (3, "(rare)", False, True, "Z")


def test_union_of_numbers_needs_the_same_edges():
    a = Column("age", Levels("number", ("below 3", "from 3"), (3.0,)))
    b = Column("age", Levels("number", ("below 3", "from 3", None), (3.0,)))
    assert a.union(b) == b
    for other in (Levels("number", ("any number",)), Levels("label", ("x",))):
        with pytest.raises(ValueError, match="Column 'age' is binned differently"):
            a.union(Column("age", other))


def test_union_refuses_a_label_that_is_rare_in_one_only():
    a = Column("c", Levels("label", ("(rare)", "x"), (), ("y",)))
    b = Column("c", Levels("label", ("x", "y")))
    for first, second in ((a, b), (b, a)):
        with pytest.raises(ValueError, match="Column 'c' merges the rare label 'y'"):
            first.union(second)


def test_union_of_rare_labels_and_a_label_called_rare():
    merged = Column("c", Levels("label", ("(rare)", "x"), (), ("y",)))
    named = Column("c", Levels("label", ("(rare)", "x")))
    both = Column("c", Levels("label", ("(rare)", "x"), (), ("(rare)", "y")))
    assert merged.union(named) == named.union(merged) == both
    assert both.union(merged) == both.union(named) == both


def test_unknown_name_is_named():
    columns = Columns.of([Column("x", YES_NO)])
    with pytest.raises(ValueError, match="There is no column 'z'; the columns are 'x'"):
        columns.places(["x", "z"])


def test_representation_is_short():
    columns = Columns.of([Column(f"c{j}", YES_NO) for j in range(9)])
    assert repr(columns).endswith("c5 (2), … 3 more>")


GOOD = {"kind": "label", "categories": ["a", 1, None]}


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {**GOOD, "extra": 1},
        {**GOOD, "kind": "other"},
        {**GOOD, "categories": []},
        {**GOOD, "categories": [None, "a"]},
        {**GOOD, "categories": ["a", "a"]},
        {**GOOD, "categories": [1, "1"]},
        {**GOOD, "rare": [None]},
        {**GOOD, "edges": [1.0]},
        {"kind": "number", "categories": ["a", "b"]},
        {"kind": "number", "categories": ["a", "b"], "edges": ["1"]},
        {"kind": "number", "categories": ["a", "b"], "edges": [float("inf")]},
        {"kind": "number", "categories": ["a", "b", "c"], "edges": [2.0, 1.0]},
    ],
)
def test_levels_from_a_stranger_are_checked(bad):
    with pytest.raises(ValueError, match="not valid"):
        Levels.from_dict(bad)


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["a", "a"]},
        {"names": ["a"]},
        {"which": [0, 1]},
        {"which": [0, -1]},
        {"levels": []},
        {"more": 1},
    ],
)
def test_columns_from_a_stranger_are_checked(change):
    good = {"names": ["a", "b"], "levels": [GOOD], "which": [0, 0]}
    assert len(Columns.from_dict(good)) == 2
    with pytest.raises(ValueError, match="not valid"):
        Columns.from_dict({**good, **change})


def test_hash_agrees_with_equality():
    one = Columns(["a"], [YES_NO], np.array([0]))
    two = Columns(("a",), [Levels("label", ("x",)), YES_NO], np.array([1]))
    assert one == two and hash(one) == hash(two)
    assert one != "a"
