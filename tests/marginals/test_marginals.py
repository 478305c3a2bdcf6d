"""Marginals: counts against brute force, and the algebra of adding and subtracting."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import renyi
from renyi import Encoder, Marginals, RenyiClassifier

LABELS = ["a", "b", "?", None, "ß"]
rows = st.tuples(
    st.sampled_from(LABELS),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
    st.sampled_from(["no", "yes", "maybe"]),
)
weights = st.integers(1, 5)
tables = st.lists(rows, min_size=1, max_size=20)
NAMES = ["text", "whole", "truth", "y"]


def frame(table):
    columns = zip(*table, strict=True)
    series = {
        name: pd.Series(list(values), dtype=object)
        for name, values in zip(NAMES, columns, strict=True)
    }
    return pd.DataFrame(series)


def count(table, weight=None, **options):
    w = None if weight is None else np.array(weight, float)
    return Marginals.from_data(frame(table), target="y", sample_weight=w, **options)


def one_hot(m, table):
    """Indicators of the categories of m, by comparing cells one by one."""
    found = []
    for j, column in enumerate(m.columns):
        for label in column.categories:
            cells = [None if r[j] in ("?", None) else r[j] for r in table]
            found.append([type(c) is type(label) and c == label for c in cells])
    return np.array(found, float).T


# ---- counts


@given(tables)
def test_counts_against_one_hot(table):
    m = count(table, class_conditional=True)
    W = one_hot(m, table)
    assert m.n == len(table) and not m.weighted and m.counts.dtype == np.int64
    assert np.array_equal(m.counts, W.T @ W)
    features, classes = W[:, : -len(m.classes)], W[:, -len(m.classes) :]
    assert np.allclose(m.Q, features.T @ features / len(table), rtol=0, atol=1e-15)
    assert np.allclose(m.F, features.T @ classes / len(table), rtol=0, atol=1e-15)
    assert np.allclose(m.class_probabilities, classes.mean(axis=0), rtol=0, atol=1e-15)
    assert np.array_equal(np.diag(m.counts) > 0, np.ones(len(m.counts), bool))
    if len(m.classes) == 2:
        sign = classes[:, 1] - classes[:, 0]
        assert np.allclose(m.dvec, features.T @ sign / len(table), rtol=0, atol=1e-15)
    for k, inner in enumerate(m.class_counts):
        here = features[classes[:, k] == 1]
        assert np.array_equal(inner, here.T @ here)


@given(st.lists(st.tuples(rows, st.integers(0, 4)), min_size=1, max_size=15))
def test_weights_equal_repetition_and_rows_of_no_weight_vanish(pairs):
    table, weight = zip(*pairs, strict=True)
    assume(sum(weight) > 0)
    repeated = [row for row, w in pairs for _ in range(w)]
    m = count(table, weight, class_conditional=True)
    plain = count(repeated, class_conditional=True)
    assert m.weighted and m == plain


def test_weights_whose_sum_overflows_are_refused():
    X, y = [["a", "b"], ["c", "d"]] * 5, [0, 1] * 5
    heavy = np.full(10, 1e308)
    for fit in (Marginals.from_data, RenyiClassifier().fit):
        with pytest.raises(ValueError, match="weights add up"):
            fit(X, y, sample_weight=heavy)
    m = Marginals.from_data(X, y, sample_weight=heavy / 1.2e9)
    assert RenyiClassifier(alpha=0.01).fit_marginals(m).certificate_.gamma < 0.01
    for change in (lambda: m * 10.0, lambda: m + m):
        with pytest.raises(ValueError, match="weights add up"):
            change()


def test_two_classes_are_needed_for_dvec():
    m = count([("a", 0, True, c) for c in ("no", "yes", "maybe")])
    with pytest.raises(ValueError, match="'y' has 3. Use F"):
        m.dvec  # noqa: B018


def test_block_is_a_contingency_table():
    X, y = renyi.datasets.load("votes")
    m = Marginals.from_data(X, y)
    filled = X.fillna("(missing)").replace("?", "(missing)")
    names = ["crime", "immigration"]
    expected = pd.crosstab(*(filled[name] for name in names))
    block = m.block(*names)
    assert (block.index.name, block.columns.name) == tuple(names)
    assert {(a, b): block.loc[a, b] for a in block.index for b in block.columns} == {
        (a, b): expected.loc[a, b] for a in expected.index for b in expected.columns
    }
    assert m.block("crime", "party").equals(m.block("party", "crime").T)
    with pytest.raises(ValueError, match="There is no column 'crimes'"):
        m.block("crimes", "party")


# ---- adding and subtracting


def parts_of(table, weight, class_conditional):
    half = len(table) // 2
    cut = [slice(0, half), slice(half, None)]
    return [
        count(
            table[part],
            None if weight is None else weight[part],
            class_conditional=class_conditional,
        )
        for part in cut
    ]


@given(
    st.lists(st.tuples(rows, weights), min_size=2, max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_merging_counts_all_rows_and_subtracting_forgets_some(pairs, weighted, inner):
    table = [row for row, _ in pairs]
    weight = [w for _, w in pairs] if weighted else None
    first, second = parts_of(table, weight, inner)
    whole = count(table, weight, class_conditional=inner)
    assert first + second == whole
    assert second + first == whole
    assert sum([first, second]) == whole
    assert np.array_equal((second + first).counts, whole.counts)
    assert (whole.class_counts is not None) is inner
    assert whole - second == first
    assert whole - first == second


@given(st.lists(st.tuples(rows, st.floats(1e-3, 1e3)), min_size=2, max_size=20))
def test_subtracting_weights_leaves_no_dust(pairs):
    table, weight = zip(*pairs, strict=True)
    first, second = parts_of(table, weight, True)
    rest = count(table, weight, class_conditional=True) - second
    assert rest.columns == first.columns
    assert np.allclose(rest.counts, first.counts, rtol=1e-6, atol=1e-9 * sum(weight))
    assert rest.counts.min() >= 0 and rest.class_counts.min() >= 0


@given(st.lists(rows, min_size=1, max_size=25), st.integers(1, 7))
def test_blocks_give_what_all_rows_give(table, size):
    blocks = [frame(table[s : s + size]) for s in range(0, len(table), size)]
    m = Marginals.from_blocks(blocks, target="y", class_conditional=True)
    assert m == count(table, class_conditional=True)


def test_blocks_use_the_bins_of_the_first_or_of_the_encoder():
    rng = np.random.default_rng(1)
    X, y = pd.DataFrame({"x": rng.normal(size=90)}), rng.integers(0, 2, 90)
    blocks = [(X[s : s + 30], y[s : s + 30]) for s in (0, 30, 60)]
    m = Marginals.from_blocks(blocks)
    edges = Encoder().fit(X[:30]).columns[0].levels.edges
    assert m.columns[0].levels.edges == edges and m.n == 90
    fitted = Encoder().fit(X)
    assert Marginals.from_blocks(blocks, encoder=fitted) == Marginals.from_data(X, y)
    with pytest.raises(ValueError, match="no blocks"):
        Marginals.from_blocks([])


def test_blocks_are_too_small_to_show_identifiers():
    k = np.arange(1000)
    y = pd.Series(
        [f"c{v}" for v in k * 7 % 40], name="class"
    )  # 25 classes in the first block
    X = pd.DataFrame({"town": [f"t{v}" for v in k * 7 % 200], "half": k % 2})
    blocks = [(X[s : s + 25], y[s : s + 25]) for s in range(0, 1000, 25)]
    m = Marginals.from_blocks(blocks)
    assert m == Marginals.from_data(X, y)
    assert len(m.categories["town"]) == 200
    with pytest.raises(ValueError, match=r"Column 'town' \(25 different labels"):
        Marginals.from_data(*blocks[0])


def test_blocks_may_be_numbered_by_a_column_that_does_not_number_all_rows():
    k = np.arange(1000)
    X, y = pd.DataFrame({"day": k % 200, "half": k % 2}), k // 500
    blocks = [(X[s : s + 25], y[s : s + 25]) for s in range(0, 1000, 25)]
    m = Marginals.from_blocks(blocks)
    bins = Encoder().fit_transform(X[:25], refuse_identifiers=False)[0]
    assert m == Marginals.from_data(X, y, encoder=bins)
    assert m.block("day", "y").to_numpy().sum() == 1000
    with pytest.raises(ValueError, match="Column 'day' .* looks like an identifier"):
        Marginals.from_data(*blocks[0])


def test_later_blocks_may_be_small():
    names = [f"town {k}" for k in range(30)]
    first = pd.DataFrame({"town": names * 3, "y": [0, 1, 0] * 30})
    last = pd.DataFrame({"town": names, "y": [0, 1] * 15})
    m = Marginals.from_blocks([first, last], target="y")
    assert m == Marginals.from_data(pd.concat([first, last]), target="y")


def test_negative_result_names_the_cell():
    a = count([("a", 0, True, "no"), ("b", 0, True, "yes")])
    b = count([("a", 0, True, "no")] * 3)
    with pytest.raises(
        ValueError, match=r"The count of \w+ = \w+ with .* is -\d after"
    ):
        a - b
    other = count([("b", 0, True, "no")])
    with pytest.raises(ValueError, match=r"text = b with y = no is -1 after"):
        a - other
    with pytest.raises(ValueError, match=r"Nothing is left .* 2 rows less 2"):
        a - a


def test_negative_counts_within_a_class_are_seen():
    def xor(flip):
        bits = [(i, j, i ^ j ^ flip) for i in (0, 1) for j in (0, 1)]
        X = pd.DataFrame([b[:2] for b in bits], columns=["a", "b"])
        return Marginals.from_data(X, [b[2] for b in bits], class_conditional=True)

    # The pairs of both are the same; their tables of three columns are not.
    whole, other = xor(0) * 2, xor(1)
    assert np.array_equal(xor(0).counts, other.counts)
    with pytest.raises(ValueError, match="A count within y = 0 is -1 after"):
        whole - other


BASE = [("a", 0, True, "no"), ("b", 1, False, "yes")]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: count(BASE).select(["text"]), "column 'truth' is in the first only"),
        (lambda: count(BASE).with_target("text"), "different targets, 'y' and 'text'"),
        (
            lambda: count(BASE, encoder=Encoder(missing=("NA",))),
            r"different encoders \(missing is \('\?', ''\) and \('NA',\)\)",
        ),
        (
            lambda: count(BASE, encoder=Encoder(numeric=["whole"])),
            "numeric is 'auto' and",
        ),
    ],
    ids=["columns", "target", "settings", "numeric"],
)
def test_what_does_not_fit_together_is_named(other, words):
    for operation in ("__add__", "__sub__"):
        with pytest.raises(ValueError, match=words):
            getattr(count(BASE), operation)(other())


def test_different_bins_and_rare_labels_are_named():
    y = [0, 1] * 3
    x = [pd.DataFrame({"age": np.arange(6) * s + 0.5}) for s in (1, 2)]
    with pytest.raises(ValueError, match="Column 'age' is binned.*--encoder"):
        Marginals.from_data(x[0], y) + Marginals.from_data(x[1], y)
    settings = Encoder(min_count=2)
    c = [pd.DataFrame({"c": list(text)}) for text in ("aaaaab", "aabbbb")]
    made = [Marginals.from_data(X, y, encoder=settings) for X in c]
    with pytest.raises(ValueError, match="Column 'c' merges the rare label 'b'"):
        made[0] + made[1]


def test_truth_values_do_not_merge_with_numbers():
    truth = count([("a", True, True, "no")])
    number = count([("a", 1, True, "no")])
    for total in (truth + number, number + truth):
        assert [str(c) for c in total.categories["whole"]] == ["1", "True"]


def test_other_operands_are_not_taken():
    m = count(BASE)
    for operation in (lambda: m + 1, lambda: m - 1, lambda: m * "2", lambda: m * True):
        with pytest.raises(TypeError):
            operation()
    assert (m == 1) is False


@given(tables, st.integers(1, 9))
def test_scaling(table, factor):
    m = count(table, class_conditional=True)
    assert m * factor == sum([m] * factor)
    assert np.int64(factor) * m == m * factor
    assert type((m * np.int64(factor)).n) is int
    half = m * 0.5
    assert half.weighted and np.array_equal(half.Q, m.Q) and half.n == m.n / 2


@pytest.mark.parametrize("factor", [0, -1, float("inf"), float("nan"), 10**19])
def test_scaling_by_nonsense(factor):
    with pytest.raises(ValueError, match=r"must be positive and finite|64 bits"):
        count(BASE) * factor


# ---- features and target


@given(tables, st.permutations(NAMES[:3]), st.integers(0, 3))
def test_selection_is_counting_fewer_columns(table, names, length):
    chosen = names[:length]
    m = count(table, class_conditional=True).select(chosen)
    assert m.feature_names == tuple(chosen)
    if chosen:
        fewer = frame(table)[[*chosen, "y"]]
        assert m == Marginals.from_data(fewer, target="y", class_conditional=True)
        assert m.encoder.feature_names == tuple(chosen)
    else:
        assert m.Q.shape == (0, 0) and m.F.shape == (0, len(m.classes))


@given(tables)
def test_another_target_and_back(table):
    m = count(table)
    other = m.with_target("text")
    assert other.with_target("y") == m
    assert other.classes == m.categories["text"]
    assert other.feature_names == ("whole", "truth", "y")
    W = one_hot(m, table)
    size = len(m.classes), len(m.categories["text"])
    assert np.allclose(other.F[-size[0] :], W[:, -size[0] :].T @ W[:, : size[1]] / m.n)
    again = frame(table)[["whole", "truth", "y", "text"]].fillna("missing")
    if None not in other.classes:
        fresh = Marginals.from_data(again, target="text")
        assert np.array_equal(fresh.Q, other.Q) and np.array_equal(fresh.F, other.F)
    else:
        assert other.class_probabilities[-1] == W[:, size[1] - 1].mean()


def test_selection_of_nonsense():
    m = count(BASE)
    with pytest.raises(ValueError, match="'y' is the target"):
        m.select(["text", "y"])
    with pytest.raises(ValueError, match="There is no column 'texts'"):
        m.select(["texts"])
    with pytest.raises(ValueError, match="column 0"):
        m.select([0])
    with pytest.raises(ValueError, match="two columns named 'text'"):
        m.select(["text", "text"])
    with pytest.raises(ValueError, match="There is no column 'z'"):
        m.with_target("z")


# ---- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": None}, "Give the classes y"),
        ({"y": None, "target": "z"}, "no column 'z' to predict; the columns are 'a'"),
        ({"target": "a"}, "The target is named 'a' like a column of X"),
        ({"y": [0, 1]}, "X has 3 rows, but y has 2"),
        ({"y": [None, None, float("nan")]}, "'y' is missing in every row"),
        ({"y": np.zeros((3, 2))}, "y must be one column of classes"),
        ({"y": pd.DataFrame({"y": [0, 1, 0]})}, "y must be one column of classes"),
        ({"sample_weight": [1, 1]}, r"shape \(2,\), expected \(3,\)"),
        ({"sample_weight": [1, -1, 1]}, "The weight of row 1 .*is -1"),
        ({"sample_weight": [1, 1, np.inf]}, "The weight of row 2 .*is inf"),
        ({"sample_weight": [np.nan, 1, 1]}, "The weight of row 0 .*is missing"),
        ({"sample_weight": ["1", "x", "1"]}, "The weight of row 1 .*is 'x'"),
        ({"sample_weight": [1, -1, "x"]}, "The weight of row 1 .*is -1"),
        ({"sample_weight": ["1", "1", " "]}, "The weight of row 2 .*is missing"),
        ({"sample_weight": [1, pd.NA, 1]}, "The weight of row 1 .*is missing"),
        ({"X": np.zeros((3, 0))}, "no column but the target 'y'"),
        ({"X": [[], [], []]}, "no column but the target 'y'"),
        ({"X": pd.DataFrame(index=range(3))}, "no column but the target 'y'"),
        ({"X": np.zeros((0, 2)), "y": []}, "no rows to count"),
        ({"X": [], "y": []}, "no rows to count"),
        ({"sample_weight": [0, 0, 0]}, "All weights are zero"),
    ],
)
def test_bad_rows_are_refused(arguments, words):
    given = {"X": pd.DataFrame({"a": [0, 1, 2]}), "y": [0, 1, 0], **arguments}
    with pytest.raises(ValueError, match=words):
        Marginals.from_data(**given)


def test_target_alone_and_twins_are_refused():
    with pytest.raises(ValueError, match="no column but the target 'y'"):
        Marginals.from_data(pd.DataFrame({"y": [0, 1]}), target="y")
    twins = pa.table([[0], [1], [2]], names=["y", "a", "a"])
    for table in (twins, twins.to_pandas()):
        with pytest.raises(ValueError, match="two columns named 'a'"):
            Marginals.from_data(table, target="y")
    with pytest.raises(ValueError, match="columns have no names"):
        Marginals.from_data(np.zeros((2, 2)), target="y")


# ---- validation and texts


@given(tables)
def test_counts_of_rows_are_valid(table):
    m = count(table)
    assert m.validate() is m


def changed(m, cells, value):
    counts = m.counts.astype(float)
    for a, b in cells:
        counts[a, b] = counts[b, a] = value
    return Marginals(counts, m.n, m.columns, m.target)


def test_validation_names_what_is_wrong():
    m = count([("a", 0, True, "no"), ("b", 1, True, "yes")] * 5)
    with pytest.raises(ValueError, match=r"text = a with whole = 0 is -2 in the pair"):
        changed(m, [(0, 2)], -2).validate()
    with pytest.raises(ValueError, match="'truth' add up to 11, not to the 10 rows"):
        changed(m, [(4, 4)], 11).validate()
    with pytest.raises(ValueError, match=r"disagree: .* in its table with .*off by 3"):
        changed(m, [(0, 3)], 3).validate()


def test_contradicting_pairs_are_not_semidefinite():
    # P(X_i = X_j) = 0 for all pairs of three bits: margins agree, no joint exists.
    opposite = np.array([[0, 5], [5, 0]])
    blocks = [
        [5 * np.eye(2) if i == j else opposite for j in range(3)] for i in range(3)
    ]
    m = count([(0, 0, 0, 0), (1, 1, 1, 1)] * 5).select(["text", "whole"])
    bad = Marginals(np.block(blocks), 10, m.columns, "y")
    assert np.linalg.eigvalsh(bad.counts)[0] < 0
    with pytest.raises(ValueError, match=r"eigenvalue -0\.5.* '\w+', '\w+', '\w+' con"):
        bad.validate()


def test_texts_are_readable():
    m = count([("<a>", 0, True, "no"), ("b", 1, True, "yes"), (None, 1, True, "no")])
    assert str(m).startswith(
        "Marginals of 3 rows: 3 features (6 categories), target 'y' (no: 2; yes: 1)"
    )
    assert "(missing): 1" in str(m) and "\n" not in repr(m)
    assert "&lt;a&gt;" in m._repr_html_() and "<a>" not in m._repr_html_()
    wide = Marginals.from_data(np.arange(40).reshape(2, 20) % 3, [0, 1])
    assert str(wide).endswith("… and 8 more features")
    assert "total weight" in str(m * 0.5)


def test_marginals_hold_every_pair_of_a_bundled_table():
    X, y = renyi.datasets.load("promoters")
    m = Marginals.from_data(X, y)
    for a, b in combinations([X.columns[0], X.columns[3], X.columns[-1]], 2):
        expected = pd.crosstab(X[a], X[b])
        block = m.block(a, b)
        assert int(block.to_numpy().sum()) == m.n
        assert (block.loc[expected.index, expected.columns] == expected).all(axis=None)


def test_a_rest_that_is_lost_in_rounding_is_refused() -> None:
    X = pd.DataFrame({"a": list("uvw" * 4), "b": list("xxyy" * 3)})
    y = list("pq" * 6)
    small = Marginals.from_data(X, y, sample_weight=np.full(12, 1.5))
    large = Marginals.from_data(X[:6], y[:6], sample_weight=np.full(6, 5e11))
    with pytest.raises(ValueError, match="distinguished from rounding"):
        (small + large) - large
    large = Marginals.from_data(X[:6], y[:6], sample_weight=np.full(6, 5e5))
    assert ((small + large) - large).n == pytest.approx(18)
