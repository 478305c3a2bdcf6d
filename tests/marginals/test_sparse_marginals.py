"""Marginals of tables with thousands of labels: sparse, and in all else the same."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from renyi import Marginals, files
from renyi.correlation import hgr, hgr_lower_bound, hgr_matrix
from renyi.counting import pair_counts, sparse_counts
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.rows import coded_rows
from renyi.limits import MemoryBudgetError, memory_limit
from renyi.marginals import consistency
from renyi.marginals.marginals import count_rows
from renyi.sources.spec import CountSpec
from support.streams import counted, every_type, pieces


def table(n: int, labels: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    code = rng.integers(labels, size=n)
    return pd.DataFrame(
        {
            "x": rng.choice(["a", "b", None], n),
            "label": [f"label {k}" for k in code],
            "size": rng.normal(size=n),
            "y": rng.choice(["n", "p"], n),
        }
    )


@pytest.fixture
def sparse(monkeypatch):
    """Store every table sparse."""
    monkeypatch.setattr(sparse_counts, "FEW", 0)
    monkeypatch.setattr(sparse_counts, "OWN_SHARE", 0.0)


def as_dense(m: Marginals) -> np.ndarray:
    assert sparse_counts.is_sparse(m.counts)
    return m.counts.toarray()


def test_every_view_is_that_of_the_dense_table(monkeypatch) -> None:
    rows = table(200, 30)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], 200)
    want = Marginals.from_data(rows, target="y", sample_weight=weights)
    monkeypatch.setattr(sparse_counts, "FEW", 0)
    m = Marginals.from_data(rows, target="y", sample_weight=weights)
    np.testing.assert_array_equal(as_dense(m), want.counts)
    for name in ("Q", "F", "dvec", "class_probabilities", "target_counts"):
        np.testing.assert_array_equal(getattr(m, name), getattr(want, name))
    pd.testing.assert_frame_equal(m.block("label", "x"), want.block("label", "x"))
    assert str(m) == str(want) and m.digest.classes == want.digest.classes
    assert m.with_target("x").F.shape == want.with_target("x").F.shape
    np.testing.assert_array_equal(
        m.select(["size", "label"]).Q, want.select(["size", "label"]).Q
    )
    pd.testing.assert_frame_equal(hgr_matrix(m), hgr_matrix(want))
    assert hgr_lower_bound(m) == pytest.approx(hgr_lower_bound(want))
    assert m.validate() is m


def test_sums_and_differences(sparse) -> None:
    rows = table(300, 40).drop(columns="size")
    first, second, whole = (
        Marginals.from_data(rows[low:high], target="y")
        for low, high in ((0, 90), (90, 300), (0, 300))
    )
    assert first + second == whole
    assert whole - second == first and whole - first == second
    assert (2 * whole) - whole == whole
    rest = 0.1 * whole - 0.1 * first  # dust of the subtraction is not stored
    assert rest.counts.nnz == second.counts.nnz
    other = Marginals.from_data(rows.assign(label="label 3"), target="y")
    with pytest.raises(ValueError, match="label 3"):
        whole - other


def test_a_sum_of_sparse_tables_may_be_dense(monkeypatch) -> None:
    rows = table(300, 20).drop(columns="size").fillna("c")
    other = rows.assign(x=np.random.default_rng(1).integers(20, size=300).astype(str))
    want = Marginals.from_data(pd.concat([rows, other]), target="y")
    monkeypatch.setattr(sparse_counts, "FEW", 0)
    monkeypatch.setattr(sparse_counts, "OWN_SHARE", 0.5)
    first, second = (Marginals.from_data(each, target="y") for each in (rows, other))
    assert sparse_counts.is_sparse(first.counts)
    assert not sparse_counts.is_sparse((first + second).counts)
    assert first + second == want
    assert (first + second) - second == first


@pytest.mark.parametrize("few", [0, 10**9])
def test_contradictions_are_found(monkeypatch, few) -> None:
    monkeypatch.setattr(sparse_counts, "FEW", few)
    names, sizes = ["a", "b", "c", "label", "y"], [2, 2, 2, 10, 2]
    cells = np.indices(sizes).reshape(5, -1).T.astype(str)
    m = Marginals.from_data(pd.DataFrame(cells, columns=names), target="y")
    counts = sparse_counts.dense(m.counts).copy()
    for i, j, block in ((0, 1, [0, 1]), (1, 2, [0, 1]), (0, 2, [1, 0])):
        own = 80 * np.eye(2)[block]  # a = b = c, but a is not c
        counts[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = own
        counts[2 * j : 2 * j + 2, 2 * i : 2 * i + 2] = own
    assert m.validate() is m
    wrong = Marginals(counts, m.n, m.columns, m.target, m.settings)
    with pytest.raises(ValueError, match=r"eigenvalue -0\.\d+ or below.*'a'"):
        wrong.validate()


def test_thousands_of_labels_are_validated_at_once() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers([2_300, *8 * [60], 2], size=(4_000, 10)).astype(str)
    m = Marginals.from_data(pd.DataFrame(cells).rename(columns=str), target="9")
    assert sparse_counts.is_sparse(m.counts) and m.validate() is m


def test_no_table_is_made_dense_beyond_the_limit(sparse, monkeypatch, tmp_path) -> None:
    m = Marginals.from_data(table(200, 30), target="y")
    place = tmp_path / "m.renyi"
    m.save(place)
    monkeypatch.setattr(pair_counts, "MAX_TABLE_BYTES", 10_000)
    with pytest.raises(ValueError, match="limit"):
        print(m.Q)
    monkeypatch.setattr(sparse_counts, "OWN_SHARE", 2.0)  # a stranger's sparse file
    with pytest.raises(ValueError, match=r"m\.renyi.*limit"):
        Marginals.load(place)


def test_pairs_absent_in_one_part_are_absent_in_the_sum(sparse) -> None:
    rows = table(80, 9).fillna("c")
    crossed = [pd.crosstab(rows[a], rows[b]) for a, b in (("x", "y"), ("label", "y"))]
    some = Marginals.from_tables(crossed, target="y")
    whole = Marginals.from_tables(
        [*crossed, pd.crosstab(rows["x"], rows["label"])], target="y"
    )
    total = some + whole
    assert total.absent == some.absent
    assert total.counts.nnz == (some + some).counts.nnz


def test_files(sparse, tmp_path) -> None:
    m = Marginals.from_data(table(200, 30), target="y", class_conditional=True)
    place = tmp_path / "m.renyi"
    m.save(place)
    assert Marginals.load(place) == m
    assert Marginals.load(place).digest == m.digest
    header = files.read_header(place, "renyi-marginals", 2)
    assert (
        header["version"] == 2
        and header["entries"] == (m.counts.nnz + m.counts.shape[0]) / 2
    )


def test_a_file_of_the_dense_format_is_read_as_ever(monkeypatch, tmp_path) -> None:
    place = tmp_path / "m.renyi"
    Marginals.from_data(table(200, 30), target="y").save(place)
    monkeypatch.setattr(sparse_counts, "FEW", 0)
    assert Marginals.load(place) == Marginals.from_data(table(200, 30), target="y")


def _reversed(header, arrays):
    arrays["places"] = arrays["places"][::-1].copy()


def _outside(header, arrays):
    arrays["places"][-1] = 10**9


def _negative(header, arrays):
    arrays["counts"][3] = -1


def _too_many(header, arrays):
    header["entries"] = 10**12


@pytest.mark.parametrize("change", [_reversed, _outside, _negative, _too_many])
def test_forged_places_are_refused(sparse, tmp_path, change) -> None:
    m = Marginals.from_data(table(200, 30), target="y")
    place = tmp_path / "m.renyi"
    m.save(place)
    header = files.read_header(place, "renyi-marginals", 2)
    number = (header["entries"],)
    arrays = files.read_arrays(
        place, "renyi-marginals", header, {"counts": number, "places": number}
    )
    change(header, arrays)
    files.write_arrays(place, header, arrays)
    with pytest.raises(ValueError, match="m.renyi"):
        Marginals.load(place)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_streams_count_as_memory_does(sparse, weight) -> None:
    rows = every_type(700)
    if weight:
        whole = np.random.default_rng(0).choice([0.5, 1.0, 4.0], len(rows))
        rows = rows.append_column("weight", pa.array(whole))
    frame = rows.drop_columns(["weight"]) if weight else rows
    spec = CountSpec.of(rows.schema, "y", weight=weight)
    features = frame.drop_columns(["y"])
    weights = whole if weight else None
    m = count_rows(
        coded_rows(features, frame["y"], "y", None, weights, refuse_identifiers=False)
    )
    for sizes, ways in (([700], 1), ([1, 60, 33], 3)):
        assert counted(pieces(rows, sizes), spec, ways) == m


def test_margins_are_checked_some_columns_at_a_time(sparse, monkeypatch) -> None:
    m = Marginals.from_data(table(200, 30), target="y")
    (whole,) = consistency._margins(m)
    monkeypatch.setattr(consistency, "_CELLS", 1)
    parts = list(consistency._margins(m))
    assert [part.first for part in parts] == list(range(len(m.columns)))
    sums = np.concatenate([part.sums for part in parts])
    np.testing.assert_array_equal(sums, whole.sums)
    assert m.validate() is m


def test_a_hostile_file_of_many_columns_is_refused_in_little_memory(tmp_path) -> None:
    sizes = [2] * 5_000 + [50_000, 2]
    starts, n = np.cumsum([0, *sizes]), 100_000
    columns = [
        Column(f"c{j}", Levels("label", tuple(f"k{k}" for k in range(size))))
        for j, size in enumerate(sizes)
    ]
    total = int(starts[-1])
    alone = np.zeros(total, np.int64)
    alone[starts[:-1]] = n
    places = np.arange(total), np.arange(total)
    counts = sparse_counts.from_entries([(*places, alone)], total, np.int64)
    m = Marginals(counts, n, Columns.of(columns), "c5001")
    tracemalloc.start()
    with pytest.raises(ValueError, match="margins disagree"):
        m.validate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e8  # the margins of all columns take 2.4 GB


def test_blocks_that_do_not_fit_are_refused(sparse) -> None:
    m = Marginals.from_data(table(200, 30), target="y")
    with memory_limit(100), pytest.raises(MemoryBudgetError, match="30 by 3"):
        m.block("label", "x")
    with memory_limit(1_000), pytest.raises(MemoryBudgetError, match="'label'"):
        hgr_matrix(m)
    with memory_limit(1_000), pytest.raises(MemoryBudgetError, match="'label'"):
        hgr(table(200, 30)["label"], table(200, 30)["y"])
