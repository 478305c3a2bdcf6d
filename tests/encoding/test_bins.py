"""Bins of numbers, and the sketches that bins of a stream are made of."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import renyi
from renyi.encoding.bins import (
    MOST,
    Cells,
    Sample,
    Sketch,
    bin_cells,
    bin_codes,
    joined,
    keys,
)

whole = st.integers(-50, 50)
numbers = st.one_of(whole.map(float), st.floats(allow_nan=False))


@given(st.lists(numbers, min_size=1, max_size=60), st.integers(2, 6), st.booleans())
@example([0.0] * 9 + [5e-324], 2, False)
@example([np.inf, -np.inf, 1.0], 2, False)
@example([np.finfo(float).max, np.inf, 0.0, 1.0, 2.0], 3, False)
@example([2.0**60] * 5 + [2.0**60 + 2**10, 1, 2, 3, 4, 5], 2, True)
def test_every_bin_holds_a_point_and_a_frequent_value_has_its_own(values, bins, whole):
    x = np.array(values)
    if whole:
        x = np.floor(np.clip(x, -(2.0**70), 2.0**70))
    edges, texts = bin_cells(Cells.of(x), bins, whole)
    assert np.isfinite(edges).all() and (np.diff(edges) > 0).all()
    codes = bin_codes(x, edges)
    assert len(texts) == len(edges) + 1
    assert set(codes.tolist()) == set(range(len(texts)))
    # Infinity is allowed to share its bin with the largest float.
    shown = np.clip(x, -np.finfo(float).max, np.finfo(float).max)
    points, counts = np.unique(shown, return_counts=True)
    for point in points[counts * bins >= len(x)]:
        alone = set(shown[codes == codes[shown == point][0]].tolist())
        assert alone == {point}


@given(
    st.lists(st.tuples(numbers, st.integers(0, 5)), min_size=1, max_size=40),
    st.integers(2, 6),
    st.booleans(),
)
def test_weights_count_as_repetition(rows, bins, whole):
    x = np.array([value for value, _ in rows])
    w = np.array([weight for _, weight in rows], float)
    if w.sum() == 0:
        return
    if whole:
        x = np.floor(np.clip(x, -1e9, 1e9))
    kept = w > 0
    weighted, texts = bin_cells(Cells.of(x[kept], w[kept]), bins, whole)
    repeated, again = bin_cells(Cells.of(np.repeat(x, w.astype(int))), bins, whole)
    assert np.array_equal(weighted, repeated)
    assert texts == again


def test_bins_of_distinct_values_are_the_quantiles():
    x = np.random.default_rng(3).permutation(1000).astype(float)
    edges, _ = bin_cells(Cells.of(x), 5, False)
    assert np.bincount(bin_codes(x, edges)).tolist() == [200] * 5


def test_values_at_and_beyond_the_edges():
    edges = np.array([0.0, 10.0])
    values = [-np.inf, -1, np.nextafter(0, -1), 0, 9.99, 10, 1e308, np.inf, np.nan]
    codes = bin_codes(np.array(values), edges)
    assert codes.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    ("values", "whole", "expected"),
    [
        ([7.0] * 4, False, ("any number",)),
        ([], False, ("any number",)),
        ([0, 1, 1], True, ("up to 0", "1 and more")),
        ([0.5, 1.5], False, ("below 1.5", "from 1.5")),
        ([0] * 6 + [1, 2, 3, 4], True, ("up to 0", "1 to 2", "3 and more")),
        ([0.0] * 6 + [1, 2, 3, 4], False, ("up to 0", "above 0 below 3", "from 3")),
        ([5] * 6 + [1, 2, 8, 9], True, ("up to 4", "5", "6 and more")),
        ([1, 2**60], True, (f"up to {2**60 - 128}", f"{2**60} and more")),
        ([1, 1e30], True, ("up to 9.999999999999999e+29", "1e+30 and more")),
        ([1, np.inf, np.inf], False, ("below infinity", "from infinity")),
        ([-np.inf, 1], False, ("below 1", "from 1")),
    ],
)
def test_names_of_bins(values, whole, expected):
    assert bin_cells(Cells.of(np.array(values, float)), 2, whole)[1] == expected


def test_infinite_values_leave_edges_that_json_can_hold():
    X = np.array([[1.0], [np.inf], [np.inf], [-np.inf], [2.0]])
    encoder, codes = renyi.Encoder().fit_transform(X)
    text = json.dumps(encoder.to_dict(), allow_nan=False)
    again = renyi.Encoder.from_dict(json.loads(text))
    assert np.array_equal(again.transform(X), codes)
    assert codes[0].tolist() == [1, 3, 3, 0, 2]


def test_capital_gain_of_adult_has_a_bin_for_zero():
    X, _ = renyi.datasets.load("adult")
    gain = X[["capital-gain"]]
    encoder, codes = renyi.Encoder().fit_transform(gain)
    zero = codes[0][(gain["capital-gain"] == 0).to_numpy()]
    assert set(zero.tolist()) == {0}
    assert (codes[0] == 0).sum() == (gain["capital-gain"] == 0).sum()
    assert encoder.categories["capital-gain"][0] == "up to 0"


# ---- sketches

floats = st.floats(width=64, allow_nan=True, allow_infinity=True)
arrays = st.lists(floats, max_size=60).map(np.array)


def _limited(most: int):
    """Let sketches have so many cells."""
    return patch("renyi.encoding.bins.MOST", most)


def _same(first: Sketch, second: Sketch) -> bool:
    return (
        first.to_parts()[0] == second.to_parts()[0]
        and first.distinct == second.distinct
        and all(map(np.array_equal, first.cells, second.cells))
    )


@given(st.lists(floats.filter(lambda x: x == x), min_size=2, max_size=2))
def test_keys_are_in_the_order_of_the_floats(pair: list[float]) -> None:
    first, second = keys(np.array(pair))
    assert (first < second) == (pair[0] < pair[1])
    assert (first == second) == (pair[0] == pair[1])


@given(arrays)
def test_exact_sketch_has_every_value_with_its_rows(values: np.ndarray) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(np.array([value], float))
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    largest = np.finfo(float).max
    points, counts = np.unique(np.clip(known, -largest, largest), return_counts=True)
    assert sketch.exact
    assert np.array_equal(sketch.cells.low, points)
    assert np.array_equal(sketch.cells.high, points)
    assert np.array_equal(sketch.cells.weight, counts)
    assert sketch.distinct == len(points)


@given(arrays, st.integers(2, 9), st.randoms(use_true_random=False))
def test_order_batches_and_merging_make_no_difference(values, most, random) -> None:
    whole, parts = Sketch(), [Sketch() for _ in range(3)]
    shuffled = list(np.asarray(values, float))
    random.shuffle(shuffled)
    with _limited(most):
        whole.add(np.asarray(values, float))
        for value in shuffled:
            random.choice(parts).add(np.array([value]))
        random.shuffle(parts)
        for part in parts[1:]:
            parts[0].merge(part)
        assert _same(parts[0], whole)


@given(arrays, st.integers(2, 9))
def test_cells_hold_their_values_and_no_bit_too_many_is_lost(values, most) -> None:
    sketch = Sketch()
    sketch.add(np.asarray(values, float))
    with _limited(most):
        low, high, mass = sketch.cells
    largest = np.finfo(float).max
    points = np.asarray(values, float)
    points = np.unique(np.clip(points[~np.isnan(points)], -largest, largest))
    shift = next(s for s in itertools.count() if _cells(points, s) <= most)
    assert sketch.to_parts()[0]["shift"] == shift
    assert set(low) <= set(points) and set(high) <= set(points)
    for point in points:
        assert ((low <= point) & (point <= high)).sum() == 1
    assert mass.sum() == (~np.isnan(np.asarray(values, float))).sum()


def _cells(points: np.ndarray, shift: int) -> int:
    return len(np.unique(keys(points) >> shift))


def test_weights_are_summed() -> None:
    sketch = Sketch()
    sketch.add(np.array([2.0, 1.0, 2.0]), np.array([0.5, 1.0, 0.25]))
    sketch.add(np.array([1.0, np.nan]), np.array([3.0, 9.0]))
    assert sketch.cells.weight.tolist() == [4.0, 0.75]


def test_sample_estimates_the_number_of_different_values() -> None:
    sample, other = Sample(), Sample()
    numbers = np.random.default_rng(0).permutation(300_000).astype(float)
    for part in np.array_split(np.concatenate([numbers, numbers]), 7):
        sample.add(part)
    other.add(numbers)
    assert abs(sample.count / 300_000 - 1) < 0.04
    assert sample.count == other.count
    other.merge(sample)
    assert other.count == sample.count


@pytest.mark.parametrize("most", [20, 2000])
def test_parts_bring_a_sketch_back(most: int, monkeypatch) -> None:
    monkeypatch.setattr("renyi.encoding.bins.MOST", most)
    values = np.random.default_rng(0).normal(size=1000)
    sketch = Sketch()
    sketch.add(values)
    again = Sketch.from_parts(*sketch.to_parts())
    assert _same(sketch, again)
    more = np.random.default_rng(1).normal(size=1000)
    sketch.add(more)
    again.add(more)
    assert _same(sketch, again)


def test_bins_of_cells_keep_a_frequent_value_apart(monkeypatch) -> None:
    monkeypatch.setattr("renyi.encoding.bins.MOST", 200)
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=5000), np.full(4000, -7.25)])
    sketch = Sketch()
    sketch.add(values)
    assert not sketch.exact
    edges, texts = bin_cells(sketch.cells, 5, False)
    assert "-7.25" in "".join(texts)
    codes = np.searchsorted(edges, values, side="right")
    share = np.bincount(codes) / len(values)
    assert share[0] == pytest.approx(4000 / 9000)
    assert np.abs(share[1:] - share[1:].mean()).max() < 0.02


def test_bins_of_cells_never_split_a_cell(monkeypatch) -> None:
    monkeypatch.setattr("renyi.encoding.bins.MOST", 64)
    rng = np.random.default_rng(0)
    values = rng.normal(size=3000).round(3) * 1e3
    sketch = Sketch()
    sketch.add(values)
    low, high, _ = sketch.cells
    for bins, integer in itertools.product((2, 5, 9), (False, True)):
        edges, _ = bin_cells(sketch.cells, bins, integer)
        first = np.searchsorted(edges, low, side="right")
        assert np.array_equal(first, np.searchsorted(edges, high, side="right"))


def test_bins_in_memory_follow_the_cells_beyond_the_limit() -> None:
    values = np.random.default_rng(0).normal(size=MOST + 300_000)
    sketch = Sketch()
    for part in np.array_split(values, 11):
        sketch.add(part)
    assert not sketch.exact
    edges, texts = bin_cells(Cells.of(values), 5, False)
    streamed, names = bin_cells(sketch.cells, 5, False)
    assert np.array_equal(edges, streamed) and texts == names
    share = np.bincount(np.searchsorted(edges, values, side="right")) / len(values)
    assert np.abs(share - 0.2).max() < 1e-4


def test_a_sketch_takes_little_memory() -> None:
    rng = np.random.default_rng(0)
    sketch = Sketch()
    tracemalloc.start()
    for _ in range(40):
        sketch.add(rng.normal(size=61_440))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 8e6
    assert peak < 25e6
    parts = sketch.to_parts()[1]
    assert sum(array.nbytes for array in parts.values()) < 2e6


def test_bins_in_memory_are_made_of_cells_when_there_are_too_many(monkeypatch) -> None:
    monkeypatch.setattr("renyi.encoding.bins.MOST", 50)
    values = np.random.default_rng(0).normal(size=400)
    sketch = Sketch()
    sketch.add(values)
    assert not sketch.exact
    edges, texts = bin_cells(Cells.of(values), 5, False)
    assert (edges.tolist(), texts) == (
        bin_cells(sketch.cells, 5, False)[0].tolist(),
        bin_cells(sketch.cells, 5, False)[1],
    )
    assert set(edges) <= set(sketch.cells.low)


def test_joined_never_loses_the_sign() -> None:
    values = np.array([-1.0, 1.0, 5.0])
    with _limited(1):
        cells, shift = joined(Cells(values, values, np.ones(3, int)))
    assert (cells.low.tolist(), cells.weight.tolist(), shift) == ([-1, 1], [1, 2], 63)
