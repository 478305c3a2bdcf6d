"""Hidden and rounded counts: no raw count leaves, and no hidden one follows."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import renyi
from renyi.releases.protection import narrow
from renyi.releases.suppression import RULES, Rule, hidden_counts, interval, wider_at

SMALL = st.tuples(
    st.lists(st.integers(2, 4), min_size=2, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from([30, 80, 300]),
)


def counted(sizes, seed, n):
    """Pair counts of random rows with skewed categories."""
    random = np.random.default_rng(seed)
    shares = [random.dirichlet(np.full(size, 0.7)) for size in sizes]
    codes = np.array([random.choice(len(p), n, p=p) for p in shares])
    onehot = np.concatenate(
        [codes[j] == np.arange(s)[:, None] for j, s in enumerate(sizes)]
    )
    return onehot.astype(np.int64) @ onehot.T.astype(np.int64)


def possible_values(counts, sizes, a, b):
    """The range of one count by an explicit linear program over all tables."""
    column = np.repeat(np.arange(len(sizes)), sizes)
    D = len(column)
    cells = [(i, j) for i in range(D) for j in range(D) if column[i] < column[j]]
    place = {cell: k for k, cell in enumerate(cells)}
    place |= {(i, i): len(cells) + i for i in range(D)}
    total = len(place)
    rows = []
    for i, j in itertools.product(range(D), range(len(sizes))):
        row = np.zeros(total + 1)
        if j == column[i]:
            continue
        for other in np.flatnonzero(column == j):
            row[place[min(i, other), max(i, other)]] = 1
        row[place[i, i]] = -1
        rows.append(row)
    for j in range(len(sizes)):
        row = np.zeros(total + 1)
        row[[place[i, i] for i in np.flatnonzero(column == j)]] = 1
        row[total] = -1
        rows.append(row)
    bounds = [(counts.low[cell], counts.high[cell]) for cell in place]
    bounds.append((counts.n_low, counts.n_high))
    cost = np.zeros(total + 1)
    cost[place[a, b]] = 1
    ends = []
    for sign in (1, -1):
        answer = linprog(
            sign * cost, A_eq=np.array(rows), b_eq=np.zeros(len(rows)), bounds=bounds
        )
        assert answer.status == 0
        ends.append(sign * answer.fun)
    return ends


def test_intervals_contain_exactly_the_counts_that_are_printed_alike():
    for rule in (*RULES.values(), Rule(10, 4), Rule(5, 10), Rule(3, 1)):
        ends = {count: interval(count, rule) for count in range(200)}
        for count, (low, high) in ends.items():
            assert low <= count <= high
            if high < 150:
                alike = [c for c in ends if ends[c] == (low, high)]
                assert alike == list(range(low, high + 1))
            if count < rule.threshold:
                assert (low, high) == (0, rule.threshold - 1)


@given(table=SMALL, rule=st.sampled_from([Rule(10, 5), Rule(8, 5), Rule(4, 1)]))
@settings(max_examples=15, deadline=None)
def test_what_is_called_narrow_is_what_explicit_programs_find(table, rule):
    sizes, seed, n = table
    tables = counted(sizes, seed, n)
    counts = hidden_counts(tables, n, sizes, rule)
    assert (counts.low <= tables).all()
    assert (tables <= counts.high).all()
    widths = {(w.first, w.second): w for w in narrow(counts, sizes, rule.threshold)}
    column = np.repeat(np.arange(len(sizes)), sizes)
    hidden = [
        (a, b)
        for a, b in zip(*np.nonzero(np.triu(counts.hidden)), strict=True)
        if a == b or column[a] != column[b]
    ]
    for cell in hidden:
        least, most = possible_values(counts, sizes, *cell)
        values = int(np.floor(min(most, rule.threshold - 1) + 1e-6))
        values -= int(np.ceil(least - 1e-6)) - 1
        assert (cell in widths) == (values < rule.threshold)
        if cell in widths:
            assert widths[cell].values == values


@given(table=SMALL)
@settings(max_examples=20, deadline=None)
def test_widening_only_widens(table):
    sizes, seed, n = table
    rule = Rule(10, 5)
    counts = hidden_counts(counted(sizes, seed, n), n, sizes, rule)
    wider = wider_at(counts, [(0, 0), (0, sizes[0])], sizes, rule)
    assert (wider.low <= counts.low).all()
    assert (wider.high >= counts.high).all()


@pytest.mark.parametrize("name", ["votes", "kr-vs-kp"])
@pytest.mark.parametrize("rule", list(RULES))
def test_bundled_tables_can_be_released(name, rule):
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y)
    out = renyi.release(m, rule=rule)
    known = out.uncertainty
    assert (known.low <= m.counts).all()
    assert (m.counts <= known.high).all()
    assert known.n_low <= m.n <= known.n_high
    hidden = m.counts < RULES[rule].threshold
    column = np.repeat(np.arange(len(m.columns)), m.columns.sizes)
    hidden &= (column[:, None] != column) | np.eye(len(column), dtype=bool)
    assert (known.low[hidden] == 0).all()
    assert (known.high[hidden] >= RULES[rule].threshold - 1).all()


def test_no_raw_count_is_in_the_file(tmp_path):
    """Two tables whose releases are equal write the same bytes."""
    X, y = renyi.datasets.load("votes")
    first = renyi.Marginals.from_data(X, y)
    counts = first.counts.copy()
    column = np.repeat(np.arange(len(first.columns)), first.columns.sizes)
    a = int(np.argmax((counts.diagonal() > 200) & (column == 1)))
    paths = []
    base = renyi.release(first, rule="ons").uncertainty
    for k, other in enumerate((first, _moved(first, a))):
        assert k == 0 or not np.array_equal(other.counts, first.counts)
        out = renyi.release(other, rule="ons")
        assert out.uncertainty == base
        out.save(tmp_path / f"{k}.renyi")
        paths.append(tmp_path / f"{k}.renyi")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with np.load(paths[0], allow_pickle=False) as archive:
        assert set(archive.files) == {"header", "low", "high"}


def _moved(m, a):
    """Change some counts within what their release says, keeping margins."""
    import dataclasses

    rule = RULES["ons"]
    sizes = m.columns.sizes
    column = np.repeat(np.arange(len(sizes)), sizes)
    before = hidden_counts(m.counts, m.n, sizes, rule)
    for b, c, d in itertools.product(range(len(column)), repeat=3):
        if column[b] != column[a] or b == a or column[c] == column[a]:
            continue
        if column[c] != column[d] or c == d:
            continue
        counts = m.counts.copy()
        for x, z, sign in ((a, c, 1), (a, d, -1), (b, c, -1), (b, d, 1)):
            counts[x, z] += sign
            counts[z, x] += sign
        after = hidden_counts(counts, m.n, sizes, rule)
        if all(np.array_equal(*pair) for pair in zip(before, after, strict=True)):
            return dataclasses.replace(m, counts=counts)
    raise AssertionError("no table nearby has the same release")


def test_merged_categories_leave_no_small_count():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": random.choice(list("vwxyz"), 400, p=[0.5, 0.4, 0.05, 0.03, 0.02]),
            "b": random.choice(list("pqr"), 400, p=[0.6, 0.38, 0.02]),
            "y": random.choice(["no", "yes"], 400),
        }
    )
    m = renyi.Marginals.from_data(frame, target="y")
    merged = renyi.release(m, merge_below=10)
    assert not ((merged.counts > 0) & (merged.counts < 10)).any()
    rare = [label for c in merged.columns for label in c.levels.rare]
    by_hand = frame.replace(dict.fromkeys(rare, "(rare)"))
    assert (
        renyi.Marginals.from_data(by_hand, target="y").counts.sum()
        == merged.counts.sum()
    )
    fitted = renyi.RenyiClassifier(alpha=0.01).fit_marginals(merged)
    own = renyi.RenyiClassifier(alpha=0.01).fit(by_hand.drop(columns="y"), by_hand["y"])
    kept = list(merged.feature_names)
    if kept == list(frame.columns[:-1]):
        ours = fitted.decision_function(frame[kept])
        assert ours == pytest.approx(own.decision_function(by_hand[kept]))


def test_a_column_whose_categories_cannot_be_merged_is_left_out():
    frame = pd.DataFrame({"a": ["x"] * 50 + ["z"] * 3, "b": ["p", "q"] * 26 + ["p"]})
    frame["y"] = ["no", "yes", "no"] * 17 + ["yes", "no"]
    m = renyi.Marginals.from_data(frame, target="y")
    with pytest.warns(renyi.warnings.DataWarning, match="Left out 'a'"):
        merged = renyi.release(m, merge_below=5)
    assert merged.feature_names == ("b",)


def test_declared_categories_are_released_with_or_without_rows():
    frame = pd.DataFrame({"a": ["x", "z"] * 30, "y": ["n", "p", "p"] * 20})
    public = renyi.Encoder().fit(
        pd.DataFrame({"a": ["w", "x", "z"], "y": ["n", "p", "p"]})
    )
    m = renyi.Marginals.from_data(frame, target="y")
    out = renyi.release(m, rule="ons", encoder=public)
    assert out.categories["a"] == ("w", "x", "z")
    assert out.uncertainty.high[0, 0] >= 9
    narrower = renyi.Encoder().fit(pd.DataFrame({"a": ["x", "x"], "y": ["n", "p"]}))
    with pytest.raises(ValueError, match="a = z has rows, but it is not among"):
        renyi.release(m, rule="ons", encoder=narrower)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "Say how to protect"),
        ({"rounding": 5}, "give a threshold"),
        ({"threshold": 1}, "at least 2"),
        ({"threshold": 10, "rounding": 0}, "at least 1"),
        ({"threshold": 4, "rounding": 50}, "does not fit the threshold"),
        ({"rule": "ons", "threshold": 10}, "leave these out"),
        ({"rule": "strict"}, "must be 'opensafely'"),
        ({"merge_below": 1}, "at least 2"),
    ],
)
def test_options_that_protect_nothing_are_refused(options, problem):
    m = renyi.Marginals.from_data([["a"], ["b"]] * 30, ["n", "p", "p"] * 20)
    with pytest.raises(ValueError, match=problem):
        renyi.release(m, **options)


def test_only_exact_unweighted_counts_are_released():
    X = [["a"], ["b"]] * 30
    y = ["n", "p", "p"] * 20
    m = renyi.Marginals.from_data(X, y)
    out = renyi.release(m, rule="ons")
    with pytest.raises(ValueError, match="a release already"):
        renyi.release(out, rule="ons")
    weighted = renyi.Marginals.from_data(X, y, sample_weight=[0.5] * 60)
    with pytest.raises(ValueError, match="unweighted rows"):
        renyi.release(weighted, rule="ons")
