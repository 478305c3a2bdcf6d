"""Bins of numbers: what each holds, how weights count, and what they are called."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import renyi
from renyi.encoding.bins import Cells, bin_cells, bin_codes

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
