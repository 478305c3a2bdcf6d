"""Maximal correlation: of tables, of columns, and the least over all joints."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from renyi import Marginals, RenyiClassifier, certify
from renyi.correlation import (
    HGR,
    canonical_correlation,
    hgr,
    hgr_lower_bound,
    hgr_matrix,
    hgr_table,
    ranking,
)
from renyi.datasets import random_joint
from support.engines import polars as pl
from support.joints import (
    marginal_constraints,
    moments,
    outcomes,
    second_singular_value,
    worst_distribution,
)


def random_table(seed, shape=(5, 4)):
    return np.random.default_rng(seed).dirichlet(np.full(shape[0] * shape[1], 0.5))


def marginals_of(table):
    """Marginals of a joint table, by the road for counts in long format."""
    names = [f"x{i}" for i in range(table.ndim - 1)]
    frame = pd.DataFrame(outcomes(table.shape), columns=[*names, "y"]).astype(str)
    return Marginals.from_tables([frame.assign(count=table.ravel())], target="y")


# ---- tables


SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))


@given(arrays(np.int64, SHAPES, elements=st.integers(0, 50)))
def test_table_is_the_second_singular_value(counts):
    assume(counts.any())
    found = hgr_table(counts)
    assert float(found) == pytest.approx(second_singular_value(counts), abs=1e-7)
    assert 0 <= found.rho <= 1


@pytest.mark.parametrize("shape", [(2, 2), (5, 4), (4, 7), (9, 2), (2, 9)])
@pytest.mark.parametrize("seed", range(4))
def test_functions_attain_the_correlation(shape, seed):
    P = random_table(seed, shape).reshape(shape)
    found = hgr_table(P)
    f, g = found.f.to_numpy(), found.g.to_numpy()
    px, py = P.sum(axis=1), P.sum(axis=0)
    assert [px @ f, py @ g] == pytest.approx([0, 0], abs=1e-10)
    assert [px @ f**2, py @ g**2] == pytest.approx([1, 1])
    assert f @ P @ g == pytest.approx(found.rho)


@pytest.mark.parametrize("seed", range(5))
def test_no_other_functions_do_better(seed):
    P = random_table(seed).reshape(5, 4)
    px, py = P.sum(axis=1), P.sum(axis=0)
    rng = np.random.default_rng(seed)
    F, G = rng.normal(size=(500, 5)), rng.normal(size=(500, 4))
    F, G = F - (F @ px)[:, None], G - (G @ py)[:, None]
    reached = np.einsum("ni,ij,nj->n", F, P, G) / np.sqrt((F**2 @ px) * (G**2 @ py))
    assert np.abs(reached).max() <= hgr_table(P).rho + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_binary_lemma(seed):
    p = random_table(seed, (8, 2)).reshape(8, 2)
    q = p[:, 0].sum()
    harmonic = (p[:, 0] * p[:, 1] / p.sum(axis=1)).sum()
    assert hgr_table(p).rho ** 2 == pytest.approx(1 - harmonic / (q * (1 - q)))


def test_zero_iff_independent():
    rng = np.random.default_rng(0)
    for shape in ((2, 2), (3, 5), (6, 2)):
        P = np.outer(rng.dirichlet(np.ones(shape[0])), rng.dirichlet(np.ones(shape[1])))
        assert hgr_table(P).rho < 1e-12
        P[0, 0] += 0.01
        assert hgr_table(P).rho > 1e-3


def test_independent_functions_are_still_standardised():
    P = np.outer([0.2, 0.3, 0.5], [0.6, 0.4])
    found = hgr_table(P)
    assert [0.2, 0.3, 0.5] @ found.f**2 == pytest.approx(1)
    assert [0.2, 0.3, 0.5] @ found.f == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "counts",
    [
        np.diag([1, 2, 3]),  # either column says the other
        np.array([[1, 0], [0, 2], [0, 3]]),  # y is a function of x
        np.array([[1, 2, 0, 0], [0, 0, 3, 1], [0, 0, 1, 4]]),  # a part of it is
    ],
)
def test_one_under_strict_dependence(counts):
    found = hgr_table(counts)
    assert found.rho == pytest.approx(1)
    f, g = found.f.to_numpy(), found.g.to_numpy()
    x, y = np.nonzero(counts)
    assert f[x] == pytest.approx(g[y])  # the functions agree wherever there are rows


def test_nearly_dependent_is_below_one():
    assert hgr_table([[100, 1], [0, 100]]).rho < 0.995


def test_empty_rows_and_columns_say_nothing():
    P = random_table(3).reshape(5, 4)
    wide = np.zeros((7, 5))
    wide[np.ix_([0, 2, 3, 4, 6], [0, 1, 3, 4])] = P
    found = hgr_table(wide)
    assert found.rho == pytest.approx(hgr_table(P).rho)
    assert found.f.isna().tolist() == [False, True, False, False, False, True, False]
    assert found.g.isna().tolist() == [False, False, True, False, False]


def test_nearly_empty_rows_do_no_harm():
    P = random_table(3).reshape(5, 4)
    more = np.vstack([P, np.full(4, 1e-14)])
    assert hgr_table(more).rho == pytest.approx(hgr_table(P).rho, abs=1e-6)


def test_single_category_correlates_with_nothing():
    for table in ([[1, 2, 3]], [[1], [2]], [[5]], [[0, 0], [1, 4]]):
        found = hgr_table(table)
        assert found.rho == 0
        assert found.f.dropna().eq(0).all()


@given(st.permutations(range(5)), st.permutations(range(4)), st.floats(1e-3, 1e3))
def test_order_and_scale_do_not_matter(rows, columns, factor):
    P = random_table(0).reshape(5, 4)
    other = hgr_table(factor * P[np.ix_(rows, columns)])
    assert other.rho == pytest.approx(hgr_table(P).rho)
    assert np.abs(other.f.to_numpy()) == pytest.approx(
        np.abs(hgr_table(P).f.to_numpy())[rows], abs=1e-6
    )


def test_transposed_is_the_same():
    P = random_table(1).reshape(5, 4)
    assert hgr_table(P.T).rho == pytest.approx(hgr_table(P).rho)


@pytest.mark.parametrize("seed", range(6))
def test_merging_categories_loses(seed):
    P = random_table(seed).reshape(5, 4)
    merged = np.vstack([P[0] + P[1], P[2:]])
    assert hgr_table(merged).rho <= hgr_table(P).rho + 1e-12


def test_splitting_at_random_changes_nothing():
    P = random_table(2).reshape(5, 4)
    split = np.vstack([0.3 * P[0], 0.7 * P[0], P[1:]])
    assert hgr_table(split).rho == pytest.approx(hgr_table(P).rho)


def test_huge_counts_do_not_overflow():
    P = random_table(2).reshape(5, 4)
    assert hgr_table(1e308 * P / P.max()).rho == pytest.approx(hgr_table(P).rho)


def test_frame_names_the_functions():
    frame = pd.crosstab(pd.Series(list("aabb"), name="u"), pd.Series(list("cdcc")))
    found = hgr_table(frame)
    assert found.f.index.tolist() == ["a", "b"]
    assert found.g.index.tolist() == ["c", "d"]
    assert str(found).splitlines()[0] == f"maximal correlation {found.rho:.4f}"
    assert "u: a" in str(found)


def test_text_is_short_for_many_categories():
    assert "… 4 more" in str(hgr_table(np.eye(12)))


@pytest.mark.parametrize(
    "table", [[1, 2], 3, np.ones((2, 2, 2)), [["a", 1]], [[1, 2], [3]], None]
)
def test_what_is_no_table_is_refused(table):
    with pytest.raises(ValueError, match="P must be a table"):
        hgr_table(table)


@pytest.mark.parametrize(
    "table",
    [[[1, -1]], [[1, np.nan]], [[np.inf, 1]], [[0, 0], [0, 0]], np.ones((0, 2))],
)
def test_what_is_no_count_is_refused(table):
    with pytest.raises(ValueError, match="P must contain finite counts"):
        hgr_table(table)


# ---- columns


LABELS = ["a", None, "b", "a", "c", "b", None, "a"]
CLASSES = [0, 1, 1, 0, 1, 0, 1, 1]


def expected_correlation():
    cross = pd.crosstab(pd.Series(LABELS).fillna("none"), pd.Series(CLASSES))
    return second_singular_value(cross.to_numpy(float))


def polars_series(values):
    return pl.Series(values)


@pytest.mark.parametrize(
    "kind", [list, np.array, pd.Series, polars_series, pd.Categorical, pd.Index, tuple]
)
def test_columns_of_every_kind(kind):
    found = hgr(kind(LABELS), CLASSES)
    assert isinstance(found, HGR)
    assert float(found) == pytest.approx(expected_correlation())
    assert found.f.index.tolist() == ["a", "b", "c", "(missing)"]


def test_missing_cells_of_a_list_are_not_the_text_nan():
    x = [np.nan if v is None else v for v in LABELS]
    found = hgr(x, CLASSES)
    assert found.f.index.tolist()[-1] == "(missing)"
    assert found.rho == pytest.approx(expected_correlation())


def test_order_of_rows_counts_and_not_their_index():
    x = pd.Series(LABELS, index=range(20, 28))
    y = pd.Series(CLASSES, index=range(7, -1, -1))
    assert hgr(x, y).rho == pytest.approx(expected_correlation())


def test_names_come_from_the_columns():
    found = hgr(pd.Series(LABELS, name="colour"), pl.Series("size", CLASSES))
    assert found.f.index.name == "colour"
    assert found.g.index.name == "size"
    assert hgr(LABELS, CLASSES).f.index.name == "x"


def test_numbers_are_binned():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = x + 0.1 * rng.normal(size=2000)
    x[:50] = np.nan
    found = hgr(x, y)
    assert 0.8 < found.rho < 1
    assert len(found.f) == 6  # five bins, and the missing cells
    assert hgr(x, rng.normal(size=2000)).rho < 0.15


def test_a_column_and_its_copy():
    x = np.random.default_rng(0).choice(list("abcd"), 100)
    assert hgr(x, x).rho == pytest.approx(1)


def test_constant_columns():
    assert hgr(["a"] * 4, [0, 1, 0, 1]).rho == 0
    assert hgr([None] * 4, ["a"] * 4).rho == 0


def test_columns_must_be_of_equal_length():
    with pytest.raises(ValueError, match="2 and 3 rows"):
        hgr(["a", "b"], [1, 2, 3])


@pytest.mark.parametrize("x", [[], np.array([]), pd.Series([], dtype=str)])
def test_columns_must_have_rows(x):
    with pytest.raises(ValueError, match="x has no rows"):
        hgr(x, [])


@pytest.mark.parametrize(
    "x", ["abc", None, np.zeros((3, 2)), pd.DataFrame({"a": [1, 2, 3]})]
)
def test_what_is_no_column_is_refused(x):
    with pytest.raises(ValueError, match="x must be one column"):
        hgr(x, [1, 2, 3])


def test_identifiers_are_named():
    with pytest.raises(ValueError, match=r"Column 'key' \(40 different labels"):
        hgr(pd.Series([f"id{i}" for i in range(40)], name="key"), [0, 1] * 20)


# ---- matrices


def make_frame(n=200):
    rng = np.random.default_rng(0)
    a = rng.choice(list("uvw"), n)
    return pd.DataFrame(
        {
            "a": a,
            "b": np.where(rng.random(n) < 0.7, a, "u"),
            "c": rng.normal(size=n),
            "d": np.where(rng.random(n) < 0.2, None, rng.choice(list("pq"), n)),
            "e": "same",
        }
    )


def test_matrix_of_a_frame():
    frame = make_frame()
    matrix = hgr_matrix(frame)
    assert matrix.index.tolist() == matrix.columns.tolist() == list("abcde")
    assert matrix.to_numpy() == pytest.approx(matrix.to_numpy().T)
    for i, j in ("ab", "ac", "cd", "bd", "ae", "ee", "aa"):
        assert matrix.loc[i, j] == pytest.approx(float(hgr(frame[i], frame[j])))


def test_matrix_of_polars_and_of_arrays():
    frame = make_frame()[["a", "b", "d"]]
    expected = hgr_matrix(frame)
    pd.testing.assert_frame_equal(hgr_matrix(pl.from_pandas(frame)), expected)
    found = hgr_matrix(frame.to_numpy())
    assert found.to_numpy() == pytest.approx(expected.to_numpy())


def test_matrix_of_marginals():
    frame = make_frame()
    m = Marginals.from_data(frame, target="b")
    matrix = hgr_matrix(m)
    expected = hgr_matrix(frame).loc[matrix.index, matrix.columns]
    pd.testing.assert_frame_equal(matrix, expected)
    pd.testing.assert_frame_equal(hgr_matrix(m.with_target("d")), expected)


def test_matrix_leaves_unknown_pairs_open():
    frame = make_frame()
    tables = [pd.crosstab(frame["a"], frame["b"]), pd.crosstab(frame["e"], frame["b"])]
    matrix = hgr_matrix(Marginals.from_tables(tables, target="b"))
    assert np.isnan(matrix.loc["a", "e"])
    assert matrix.loc["a", "b"] == pytest.approx(float(hgr(frame["a"], frame["b"])))


def test_weights_are_repetitions():
    frame = make_frame(60)
    w = np.random.default_rng(1).integers(1, 4, 60)
    weighted = Marginals.from_data(frame[["a", "b", "d"]], target="b", sample_weight=w)
    repeated = frame[["a", "b", "d"]].loc[frame.index.repeat(w)]
    expected = hgr_matrix(repeated)
    found = hgr_matrix(weighted).loc[expected.index, expected.columns]
    assert found.to_numpy() == pytest.approx(expected.to_numpy())
    same = Marginals.from_data(repeated, target="b")
    assert hgr_lower_bound(weighted) == pytest.approx(hgr_lower_bound(same))


def test_ranking_puts_the_best_first():
    frame = make_frame()
    found = ranking(Marginals.from_data(frame, target="b"))
    assert found.index[0] == "a"
    assert found.is_monotonic_decreasing
    for name in found.index:
        assert found[name] == pytest.approx(float(hgr(frame[name], frame["b"])))


def test_ranking_reads_the_counts_once(monkeypatch):
    m, read = Marginals.from_data(make_frame(), target="b"), []
    counts, expected = m.target_counts, ranking(m)

    def cut_out(_):
        read.append(1)  # out of all counts, each time
        return counts

    monkeypatch.setattr(Marginals, "target_counts", property(cut_out))
    pd.testing.assert_series_equal(ranking(m), expected)
    assert len(read) == 1


# ---- the least correlation over all joints


CASES = [(K, kind) for K in (2, 3, 4) for kind in ("dirichlet", "additive", "logistic")]


@pytest.mark.parametrize(("K", "kind"), CASES)
@pytest.mark.parametrize("sizes", [(2, 3, 2), (2, 2, 2, 2)])
def test_no_member_has_a_smaller_correlation(K, kind, sizes):
    """Random objectives lead to random vertices of C, mixtures to its inside."""
    table = random_joint(sizes, K, kind=kind, random_state=[K, len(sizes)])
    bound = hgr_lower_bound(marginals_of(table))
    A, b = marginal_constraints(table)
    rng = np.random.default_rng(K)
    members = [table.reshape(-1, K)]
    for _ in range(6):
        members.append(worst_distribution(rng.normal(size=members[0].shape), A, b))
    members.append(np.mean(members, axis=0))
    for member in members:
        assert A @ member.ravel() == pytest.approx(b, abs=1e-7)
        assert second_singular_value(member.clip(0)) >= bound - 1e-6


@pytest.mark.parametrize("K", [2, 3])
def test_empty_and_nearly_empty_cells(K):
    table = random_joint((2, 3, 2), K, random_state=K)
    table[0, 0] = 0
    table[1, 2] *= 1e-10
    table /= table.sum()
    bound = hgr_lower_bound(marginals_of(table))
    A, b = marginal_constraints(table)
    member = worst_distribution(np.random.default_rng(0).random((12, K)), A, b)
    for p in (table.reshape(-1, K), member):
        assert second_singular_value(p.clip(0)) >= bound - 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_two_classes_are_gamma(seed):
    table = random_joint((2, 3, 3), 2, kind="logistic", random_state=seed)
    m = marginals_of(table)
    q = table[..., 0].sum()
    Q, F = moments(table)
    dvec = F[:, 1] - F[:, 0]
    gamma = 0.25 - dvec @ np.linalg.pinv(Q, rcond=1e-10) @ dvec / 4
    expected = np.sqrt(1 - gamma / (q * (1 - q)))
    assert hgr_lower_bound(m) == pytest.approx(expected, abs=1e-8)
    card = RenyiClassifier(alpha=0).fit_marginals(m).scorecard_
    assert certify(card, m).gamma == pytest.approx(gamma, abs=1e-9)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_attained_where_the_conditional_is_additive(K):
    """Additive P(y|x): t = P(y|x) is the minimiser, and its table the least."""
    table = random_joint((3, 2, 2), K, kind="additive", random_state=K)
    bound = hgr_lower_bound(marginals_of(table))
    exact = second_singular_value(table.reshape(-1, K))
    assert bound == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_more_features_and_finer_categories_never_lower_the_bound(K):
    table = random_joint((2, 3, 2), K, random_state=K)
    m = marginals_of(table)
    alone = ranking(m)
    for name, rho in alone.items():
        assert hgr_lower_bound(m, [name]) == pytest.approx(rho, abs=1e-8)
        assert hgr_lower_bound(m, name) == pytest.approx(rho, abs=1e-8)
    assert hgr_lower_bound(m) >= hgr_lower_bound(m, ["x0", "x1"]) - 1e-9
    assert hgr_lower_bound(m, ["x0", "x1"]) >= alone[["x0", "x1"]].max() - 1e-9
    merged = np.concatenate([table[:, :1], table[:, 1:].sum(1, keepdims=True)], axis=1)
    assert hgr_lower_bound(marginals_of(merged)) <= hgr_lower_bound(m) + 1e-9


@pytest.mark.parametrize("K", [2, 3])
def test_order_of_categories_and_features_does_not_matter(K):
    table = random_joint((2, 3, 4), K, random_state=K)
    other = table[::-1, [2, 0, 1]][..., ::-1].transpose(2, 0, 1, 3)
    assert hgr_lower_bound(marginals_of(other)) == pytest.approx(
        hgr_lower_bound(marginals_of(table))
    )


def test_bound_of_constants_and_of_nothing_is_zero():
    table = random_joint((1, 1), 3, random_state=0)
    m = marginals_of(table)
    assert hgr_lower_bound(m) == 0
    assert hgr_lower_bound(m, []) == 0


def test_class_that_does_not_occur():
    table = random_joint((2, 3), 2, random_state=0)
    Q, F = moments(table)
    wider = np.hstack([F, np.zeros((5, 1))])
    priors = table.sum(axis=(0, 1))
    found = canonical_correlation(Q, wider, np.append(priors, 0))
    assert found == pytest.approx(canonical_correlation(Q, F, priors))


def test_unknown_pairs_are_named():
    frame = make_frame()
    tables = [pd.crosstab(frame["a"], frame["b"]), pd.crosstab(frame["e"], frame["b"])]
    m = Marginals.from_tables(tables, target="b")
    with pytest.raises(ValueError, match="'a' and 'e' are not among the tables"):
        hgr_lower_bound(m)
    assert hgr_lower_bound(m, "a") == pytest.approx(float(hgr(frame["a"], frame["b"])))


def test_marginals_are_needed():
    for function in (hgr_lower_bound, ranking):
        with pytest.raises(TypeError, match="m must be Marginals, not a DataFrame"):
            function(make_frame())


def test_unknown_feature_is_named():
    with pytest.raises(ValueError, match="no column 'z'"):
        hgr_lower_bound(Marginals.from_data(make_frame(), target="b"), ["z"])


def test_a_column_of_many_labels_takes_no_square_of_them() -> None:
    label = np.arange(60_000) % 20_000
    y = label % 2
    tracemalloc.start()
    found = hgr(label.astype(str), y)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.rho == pytest.approx(1)
    assert most < 2**28  # 20,000 x 20,000 numbers would take 3.2 GB


def test_columns_with_the_same_information_stay_in_order():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 500)
    x = (y + 3 * rng.integers(0, 5, 500)) % 7
    columns = {name: (k * x + k) % 7 for k, name in enumerate("abcdef", 1)}
    X = pd.DataFrame(columns).astype(str)
    rho = ranking(Marginals.from_data(X, y))
    assert list(rho.index) == list("abcdef")
    assert rho.to_numpy() == pytest.approx(rho["a"], abs=1e-12)
