"""The encoder: missing values, unseen and rare labels, numbers, and plain forms."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import renyi
from renyi.encoding.encoder import Encoder
from support.engines import polars as pl

# ---- missing values


@pytest.mark.parametrize(
    ("missing", "column"),
    [
        (("?", ""), np.array(["a", "?", "", None, np.nan, pd.NA, "a"], object)),
        ((-9,), np.array([1, -9, -9, None, np.nan, -9.0, 1], object)),
        ((-9,), np.array([1, -9, -9, -9, -9, -9, 1])),
        ((np.int64(-9),), np.array([1, -9, -9, -9, -9, -9, 1], np.int8)),
        (("-9",), np.array([1.5, -9, np.nan, -9, -9, np.nan, 1.5])),
        (("NA",), np.array(["a", "NA", "NA", "NA", "NA", "NA", "a"])),
        ((None, np.nan, "?"), np.array(["a", "?", None, "?", "?", "?", "a"], object)),
    ],
)
def test_all_kinds_of_missing_are_one_level(missing, column):
    encoder, codes = Encoder(missing=missing).fit_transform(column[:, None])
    assert codes[0].tolist() == [0, 1, 1, 1, 1, 1, 0]
    assert encoder.categories["x0"][1] is None
    assert encoder.columns[0].levels.texts[1] == "(missing)"


def test_missing_code_leaves_few_integers_as_labels():
    values = [*range(0, 20_000, 1_000), -9]  # 20 values and the code, far apart
    values = 2 * values
    for X in (np.array(values)[:, None], np.array(values, object)[:, None]):
        encoder = Encoder(missing=(-9,)).fit(X)
        assert encoder.columns[0].kind == "label"
        assert len(encoder.categories["x0"]) == 21


def test_texts_none_and_nan_are_labels():
    X = np.array([["None"], ["nan"], [None]], object)
    encoder = Encoder(missing=(None, float("nan"))).fit(X)
    assert encoder.categories["x0"] == ("None", "nan", None)


def test_missing_unseen_in_training_is_unseen():
    encoder = Encoder().fit([["a", 1.5], ["b", 2.5]])
    assert encoder.transform([[None, None]])[:, 0].tolist() == [2, 2]
    strict = Encoder(unseen="error").fit([["a", 1.5], ["b", 2.5]])
    with pytest.raises(ValueError, match=r"Column 'x0' has the label \(missing\)"):
        strict.transform([[None, 1.5]])
    with pytest.raises(ValueError, match=r"Column 'x1' has the label \(missing\)"):
        strict.transform([["a", np.nan]])


@pytest.mark.parametrize(
    "column",
    [
        np.full((4, 1), np.nan),
        np.full((4, 1), None, object),
        np.full((4, 1), "?"),
        pd.DataFrame({"x0": pd.array([pd.NA] * 4, "Int64")}),
        pa.table({"x0": pa.nulls(4)}),
        lambda: pl.DataFrame({"x0": [None] * 4}),
    ],
    ids=["float", "object", "text", "Int64", "arrow", "polars"],
)
def test_column_without_any_value(column):
    table = column() if callable(column) else column
    encoder, codes = Encoder().fit_transform(table)
    assert encoder.categories["x0"][-1] is None
    assert (codes == len(encoder.categories["x0"]) - 1).all()


# ---- unseen and rare labels


def test_unseen_labels_have_the_code_after_the_last():
    encoder = Encoder().fit([["a", 1], ["b", 2], [None, 3]])
    assert encoder.transform([["z", 2], ["b", 9]]).T.tolist() == [[3, 1], [1, 3]]


def test_unseen_label_as_an_error_names_column_and_label():
    X = pd.DataFrame({"party": ["a", "b"], "vote": [True, False]})
    encoder = Encoder(unseen="error").fit(X)
    assert encoder.transform(X).tolist() == [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match="Column 'party' has the label 'z'"):
        encoder.transform(X.assign(party=["a", "z"]))
    with pytest.raises(ValueError, match="Column 'vote' has the label 7"):
        encoder.transform(X.assign(vote=[True, 7]))


def test_rare_labels_merge_and_unseen_ones_do_not():
    X = pd.DataFrame({"c": list("aaaabbbcd"), "d": list("xxxxxyyyy")})
    encoder, codes = Encoder(min_count=3).fit_transform(X)
    assert encoder.categories == {"c": ("(rare)", "a", "b"), "d": ("x", "y")}
    assert encoder.columns[0].levels.rare == ("c", "d")
    assert codes[0].tolist() == [1] * 4 + [2] * 3 + [0, 0]
    new = pd.DataFrame({"c": ["d", "e", "a"], "d": ["x", "c", "y"]})
    assert encoder.transform(new).tolist() == [[0, 3, 1], [0, 2, 1]]


def test_a_label_called_rare_is_where_rare_ones_go():
    X = pd.DataFrame({"c": ["(rare)"] * 3 + ["a"] * 3 + ["b"]})
    encoder, codes = Encoder(min_count=2).fit_transform(X)
    assert encoder.categories["c"] == ("(rare)", "a")
    assert codes[0].tolist() == [0] * 3 + [1] * 3 + [0]


def test_missing_is_never_merged_as_rare():
    X = pd.DataFrame({"c": ["a"] * 5 + [None]})
    assert Encoder(min_count=3).fit(X).categories["c"] == ("a", None)


def test_fitting_again_keeps_bins_and_rare_labels_and_learns_the_rest():
    first = pd.DataFrame({"c": list("aaab"), "x": [1.0, 2.0, 3.0, 4.0]})
    later = pd.DataFrame({"c": list("bbbz"), "x": [9.0, 0.0, np.nan, 2.0]})
    fitted = Encoder(min_count=2, bins=2).fit(first)
    again = fitted.fit(later)
    assert again.categories["c"] == ("(rare)", "z")
    assert again.columns[1].levels.edges == fitted.columns[1].levels.edges
    assert again.categories["x"] == (*fitted.categories["x"], None)


# ---- which columns are numbers


def kinds(X, **settings):
    return {c.name: c.kind for c in Encoder(**settings).fit(X).columns}


def test_numbers_by_type():
    n = 60
    k = np.arange(n)
    X = pd.DataFrame(
        {
            "float": k % 3 / 1.0,
            "few": k % 20,
            "many": k % 21,
            "far": k % 21 * 1000,
            "far few": k % 20 * 1000,
            "bool": k % 2 == 0,
            "text": (k % 30).astype(str),
            "category": pd.Categorical(k % 30),
            "fractions": pd.Categorical(k % 30 / 2),
            "nullable": pd.array(k % 25, "Int64"),
        }
    )
    number = {"float", "many", "far", "nullable"}
    expected = {c: "number" if c in number else "label" for c in X.columns}
    assert kinds(X) == expected
    assert kinds(pa.Table.from_pandas(X)) == expected
    plain = X.drop(columns=["category", "fractions"])
    expected = {name: expected[name] for name in plain.columns}
    assert kinds(pl.from_pandas(plain)) == expected
    objects = pd.DataFrame({c: plain[c].astype(object) for c in plain})
    assert kinds(objects) == expected


def test_a_list_overrides_the_types_both_ways():
    X = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": [1, 2, 3], "c": ["4", "5", "?"]})
    assert kinds(X, numeric=["b", "c"]) == {"a": "label", "b": "number", "c": "number"}
    encoder, codes = Encoder(numeric=["b", "c"], bins=2).fit_transform(X)
    assert encoder.categories["a"] == (1.5, 2.5, 3.5)
    assert codes.tolist() == [[0, 1, 2], [0, 0, 1], [0, 1, 2]]
    assert encoder.categories["c"] == ("up to 4", "5 and more", None)


def test_text_in_a_numeric_column_is_named():
    X = pd.DataFrame({"age": ["31", "old"]})
    with pytest.raises(ValueError, match="Column 'age' is numeric but holds 'old"):
        Encoder(numeric=["age"]).fit(X)
    with pytest.raises(ValueError, match="numeric names 'agee', which is not a column"):
        Encoder(numeric=["agee"]).fit(X)
    empty = np.array([[""], ["1"]], object)
    with pytest.raises(ValueError, match="holds ''"):
        Encoder(numeric=["x0"], missing=()).fit(empty)


def test_numbers_arrive_as_text_at_prediction():
    encoder = Encoder(bins=2).fit(pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0]}))
    later = pd.DataFrame({"age": ["3.5", "1", None]})
    assert encoder.transform(later).tolist() == [[1, 0, 2]]


def test_labels_arrive_as_floats_at_prediction():
    encoder = Encoder().fit(pd.DataFrame({"c": [1, 2, 3]}))
    later = pd.DataFrame({"c": [3.0, np.nan, 1.0]})
    assert encoder.transform(later).tolist() == [[2, 3, 0]]


def test_true_and_one_are_different_labels_of_different_columns():
    X = pd.DataFrame({"a": [True, False, True], "b": [1, 0, 1]})
    encoder, codes = Encoder().fit_transform(X)
    assert [list(map(str, c)) for c in encoder.categories.values()] == [
        ["False", "True"],
        ["0", "1"],
    ]
    assert np.array_equal(encoder.transform(X), codes)
    swapped = X.rename(columns={"a": "b", "b": "a"})
    assert (encoder.transform(swapped) == 2).all()


# ---- columns of a table


def test_columns_are_found_by_name():
    X = pd.DataFrame({"a": ["x", "y"], "b": [1.5, 2.5], "c": ["u", "v"]})
    encoder, codes = Encoder().fit_transform(X)
    wider = X.assign(more="?")[["more", "c", "b", "a"]]
    for table in (wider, pl.from_pandas(wider), pa.Table.from_pandas(wider)):
        assert np.array_equal(encoder.transform(table), codes)
    assert np.array_equal(encoder.transform(X.to_numpy(object)), codes)
    with pytest.raises(ValueError, match="Columns 'b', 'c' are missing from"):
        encoder.transform(X[["a"]])
    with pytest.raises(ValueError, match="X has 2 features, but 3 are expected"):
        encoder.transform(X.to_numpy(object)[:, :2])


def test_selected_columns_give_the_same_codes():
    X = pd.DataFrame({"a": ["x", "y"], "b": [1.5, 2.5], "c": ["u", "v"]})
    encoder, codes = Encoder().fit_transform(X)
    assert np.array_equal(encoder.select(["c", "a"]).transform(X), codes[[2, 0]])
    with pytest.raises(ValueError, match="There is no column 'z'"):
        encoder.select(["z"])


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([["a", "b"]], columns=["c", "c"])
    table = pa.table([["a"], ["b"]], names=["c", "c"])
    for X in (frame, table, pd.DataFrame([["a", "b"]], columns=["1", 1])):
        with pytest.raises(ValueError, match=r"two columns named '(c|1)' .*: rename"):
            Encoder().fit(X)


def test_identifiers_are_refused_and_may_be_forced():
    ids = pd.DataFrame({"id": [f"p{k}" for k in range(40)], "c": ["a", "b"] * 20})
    with pytest.raises(ValueError, match=r"Column 'id' \(40 different labels\) looks"):
        Encoder().fit(ids)
    assert Encoder(min_count=2).fit(ids).categories["id"] == ("(rare)",)
    numbers = pd.DataFrame({"row": np.arange(40)})
    with pytest.raises(ValueError, match=r"'row' \(40 different whole numbers\) look"):
        Encoder().fit(numbers)
    both = ids.assign(row=np.arange(40), key=[f"k{k}" for k in range(40)])
    with pytest.raises(ValueError, match=r"'id' .*, 'row' .*, 'key' .* identifiers"):
        Encoder().fit(both)
    amounts = pd.DataFrame({"amount": 97 * np.random.default_rng(0).permutation(40)})
    assert len(Encoder().fit(amounts).categories["amount"]) == 5
    assert len(Encoder(numeric=["row"]).fit(numbers).categories["row"]) == 5
    few = ids[:19]  # too few rows to tell
    assert len(Encoder().fit(few).categories["id"]) == 19


def test_a_block_of_a_larger_table_may_look_like_identifiers():
    X = pd.DataFrame({"town": [f"t{k}" for k in range(40)], "row": np.arange(40)})
    encoder, codes = Encoder().fit_transform(X, refuse_identifiers=False)
    assert encoder.categories["town"] == tuple(sorted(X["town"]))
    assert [encoder.categories["town"][k] for k in codes[0]] == X["town"].tolist()
    assert np.bincount(codes[1]).tolist() == [8] * 5


# ---- settings and plain forms


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"unseen": "ignore"}, "unseen must be"),
        ({"min_count": 0}, "min_count must be at least 1"),
        ({"min_count": float("nan")}, "min_count must be at least 1"),
        ({"bins": 1}, "bins must be .auto. or a whole number of at least 2"),
        ({"bins": 2.5}, "bins must be .auto. or a whole number"),
        ({"bins": float("inf")}, "bins must be .auto. or a whole number"),
        ({"bins": True}, "bins must be .auto. or a whole number"),
        ({"bins": [3]}, "bins must be a dict of columns"),
        ({"bins": {"age": 1}}, "bins gives column 'age' 1: give a number of bins"),
        ({"bins": {"age": "few"}}, "bins gives column 'age' 'few': give a number"),
        ({"bins": {"age": []}}, "each must be a finite number, and there must be"),
        ({"bins": {"age": [1, float("nan")]}}, "'age' the edges .1, nan.: each must"),
        ({"bins": {"age": [1, 10**400]}}, "each must be a finite number"),
        ({"bins": {"age": ["x"]}}, "each must be a finite number"),
        ({"bins": {"age": [30, 18]}}, "'age' the edges .30, 18., which do not rise"),
        ({"bins": {"age": [18, 18]}}, "which do not rise: sort them, each once"),
        ({"binning": "tree"}, "binning must be 'quantile' or 'supervised', not 'tree'"),
        ({"monotone": ["age"]}, "use binning='supervised' with a monotone column"),
        ({"binning": "supervised", "monotone": "age"}, "must be a list or a dict"),
        ({"binning": "supervised", "monotone": 5}, "must be a list or a dict"),
        ({"binning": "supervised", "monotone": [1]}, "must be a dict of columns"),
        (
            {"binning": "supervised", "monotone": {"age": "up"}},
            "monotone gives column 'age' the direction 'up': it must be 'increasing'",
        ),
        ({"missing": "NA"}, "missing must be a sequence"),
        ({"numeric": "age"}, "numeric must be 'auto' or a sequence"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        Encoder(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"bins": {"age": [18, 30.5]}},
        {"bins": {"b": 4, "age": np.array([18, 30])}},
        {"bins": {"age": "auto"}, "binning": "supervised"},
        {"binning": "supervised", "monotone": ["b", "age"]},
        {"binning": "supervised", "monotone": {"age": "decreasing"}},
    ],
)
def test_settings_of_single_columns_have_a_plain_form(settings):
    encoder = Encoder(**settings)
    text = json.dumps(encoder.to_dict())
    again = Encoder.from_dict(json.loads(text))
    assert again == encoder and hash(again) == hash(encoder)


def test_edges_of_a_column():
    X = pd.DataFrame(
        {"age": [17, 18, 30, 65], "few": [1, 2, 1, 2], "v": [0.5, 1, 2, 3]}
    )
    encoder = Encoder(bins={"age": [18, 30], "few": [2], "v": [1, 2.5]}).fit(X)
    assert encoder.categories == {
        "age": ("up to 17", "18 to 29", "30 and more"),
        "few": ("up to 1", "2 and more"),
        "v": ("below 1", "from 1 below 2.5", "from 2.5"),
    }
    assert encoder.transform(X).tolist() == [[0, 1, 2, 2], [0, 1, 0, 1], [0, 1, 1, 2]]
    new = pd.DataFrame({"age": [None, 1000], "few": [-1, 9], "v": [np.nan, np.inf]})
    assert encoder.transform(new).tolist() == [[3, 2], [0, 1], [3, 2]]
    halves = Encoder(bins={"age": [18.5]}).fit(X).categories["age"]
    assert halves == ("below 18.5", "from 18.5")
    with pytest.raises(ValueError, match="bins names 'old', which is not a column"):
        Encoder(bins={"old": [1]}).fit(X)
    text = X.assign(age=["a", "b", "a", "b"])
    with pytest.raises(ValueError, match="'age' is numeric but holds 'a'"):
        Encoder(bins={"age": [18]}).fit(text)
    # Texts of numbers, and columns that would be labels.
    figures = X.assign(age=["17", "18", "30", "65"])
    own = Encoder(bins={"age": [18, 30]}, numeric=["v"])
    assert own.fit(figures).categories["age"] == encoder.categories["age"]


@pytest.mark.parametrize(
    "change",
    [
        {"bins": "5"},
        {"min_count": "1"},
        {"missing": 5},
        {"numeric": 5},
        {"columns": None},
        {"more": 1},
    ],
)
def test_plain_form_from_a_stranger_is_checked(change):
    good = Encoder().fit([["a"], ["b"]]).to_dict()
    assert Encoder.from_dict(good).to_dict() == good
    with pytest.raises(ValueError, match=r"not valid|must be"):
        Encoder.from_dict({**good, **change})


def test_settings_of_numpy_types_become_plain():
    settings = Encoder(bins=np.int64(3), min_count=np.int64(2), missing=(np.int8(-9),))
    assert json.loads(json.dumps(settings.to_dict()))["missing"] == [-9]


label = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    st.sampled_from(["None", "(rare)", "(missing)", "nan", "?", "1", "ß", "🙂"]),
    st.integers(-3, 3),
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.floats(),
)


@given(
    st.lists(st.tuples(label, label), min_size=1, max_size=15),
    st.integers(1, 3),
    st.booleans(),
)
@example([("\ud800", float("inf"))], 1, False)
@example([(10**400, "a"), (1, "b")], 1, False)
def test_plain_form_round_trip(rows, min_count, auto):
    numeric = "auto" if auto else ()
    X = np.array(rows, object).reshape(-1, 2)
    encoder, codes = Encoder(min_count=min_count, numeric=numeric).fit_transform(X)
    again = Encoder.from_dict(
        json.loads(json.dumps(encoder.to_dict(), allow_nan=False))
    )
    assert again == encoder
    assert np.array_equal(again.transform(X), codes)
    sizes = encoder.columns.sizes
    assert (codes < sizes[:, None]).all()
    for j, size in enumerate(sizes):
        if encoder.columns[j].kind == "label":
            assert set(codes[j].tolist()) == set(range(size))


# A column without any value has no type in an array of objects.
FIRST = {"text": "a", "whole": 7, "real": 0.5, "truth": True}
columns = st.sampled_from(["text", "whole", "real", "truth"]).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.lists(
            st.one_of(
                st.none(),
                {
                    "text": st.sampled_from(["a", "b", "?", "", "None", "é", "1"]),
                    "whole": st.integers(-200, 200),
                    "real": st.sampled_from([0.0, 1.0, 0.5, 2.25, -9.0, 1e300]),
                    "truth": st.booleans(),
                }[kind],
            ),
            min_size=30,
            max_size=30,
        ).map(lambda values: [FIRST[kind], *values]),
    )
)
PANDAS = {"text": "str", "whole": "Int64", "real": "float64", "truth": "boolean"}
ARROW = {
    "text": pa.string(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "truth": pa.bool_(),
}


@given(st.lists(columns, min_size=1, max_size=4))
def test_the_same_table_gives_the_same_codes_from_every_frame(table):
    names = [f"x{j}" for j in range(len(table))]
    arrow = pa.table(
        {
            name: pa.array(values, ARROW[kind])
            for name, (kind, values) in zip(names, table, strict=True)
        }
    )
    pandas = pd.DataFrame(
        {
            name: pd.Series(values, dtype=PANDAS[kind])
            for name, (kind, values) in zip(names, table, strict=True)
        }
    )
    objects = np.array([values for _, values in table], object).T
    encoder, codes = Encoder(missing=("?", "", -9)).fit_transform(arrow)
    for X in (pandas, pl.from_arrow(arrow), objects, objects.tolist()):
        other, same = Encoder(missing=("?", "", -9)).fit_transform(X)
        assert np.array_equal(same, codes)
        assert np.array_equal(encoder.transform(X), codes)
        assert [c.levels.texts for c in other.columns] == [
            c.levels.texts for c in encoder.columns
        ]


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False), st.sampled_from("abc"), st.integers(0, 4)
        ),
        min_size=1,
        max_size=25,
    )
)
def test_weights_equal_repetition(rows):
    weights = np.array([w for *_, w in rows], float)
    X = pd.DataFrame([(x, c) for x, c, _ in rows], columns=["x", "c"])
    kept = weights > 0
    if not kept.any():
        return
    settings = Encoder(min_count=3, bins=3)
    weighted = settings.fit(X[kept], weights[kept])
    repeated = settings.fit(X.loc[np.repeat(X.index, weights.astype(int))])
    assert weighted == repeated


@pytest.mark.parametrize("cut", [False, True])
def test_texts_that_differ_behind_a_null_are_told_apart(cut, monkeypatch, tmp_path):
    """pandas 2 takes them for one, numpy cuts them, Arrow does neither."""
    if cut:
        monkeypatch.setattr("renyi.encoding.columns._CUT_AT_NULL", True)
    cells = ["u", "u\0", "w", None] * 9
    y = ["k", "k\0", "l", "k"] * 9
    X = pd.DataFrame({"a": cells}, dtype=object)
    frame = renyi.Marginals.from_data(X, y)
    assert frame == renyi.Marginals.from_data(pa.table({"a": cells}), y)
    assert frame.columns[0].levels.texts == ("u", "u\0", "w", "(missing)")
    assert frame.classes == ("k", "k\0", "l")
    models = [
        renyi.RenyiClassifier().fit(X, pd.Series(y, dtype=object)),
        renyi.RenyiClassifier().fit(X, y),
        renyi.RenyiClassifier().fit_marginals(frame),
        renyi.RenyiClassifier().partial_fit(X, y, classes=["l", "k\0", "k"]),
    ]
    models[0].save(tmp_path / "m.json")
    for clf in (*models, renyi.RenyiClassifier.load(tmp_path / "m.json")):
        assert clf.classes_.tolist() == ["k", "k\0", "l"]
        assert clf.predict(X).tolist() == y
