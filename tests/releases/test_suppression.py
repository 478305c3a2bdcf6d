"""Hidden and rounded counts: no raw count leaves, and no hidden one follows."""

import dataclasses
import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, milp

import renyi
from renyi.cli.messages import with_options
from renyi.releases import protection
from renyi.releases.protection import narrow, protected
from renyi.releases.suppression import (
    RULES,
    Level,
    Rule,
    hidden_counts,
    interval,
    levels,
    published,
)

SMALL = st.tuples(
    st.lists(st.integers(2, 4), min_size=2, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from([30, 80, 300]),
)
ONS = Rule(10, 5)


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
    for rule in (*RULES.values(), Rule(10, 4), Rule(10, 10), Rule(3, 2)):
        ends = {count: interval(count, rule) for count in range(200)}
        for count, (low, high) in ends.items():
            assert low <= count <= high
            if high < 150:
                alike = [c for c in ends if ends[c] == (low, high)]
                assert alike == list(range(low, high + 1))
            if count < rule.threshold:
                assert (low, high) == (0, rule.threshold - 1)


@given(table=SMALL, rule=st.sampled_from([ONS, Rule(8, 5), Rule(4, 2)]))
@settings(max_examples=15, deadline=None)
def test_what_is_called_narrow_is_what_explicit_programs_find(table, rule):
    sizes, seed, n = table
    tables = counted(sizes, seed, n)
    # With so low a limit of small categories, hidden counts often follow.
    level = Level(rule.rounding, rule.threshold)
    counts = hidden_counts(tables, n, sizes, rule, level)
    widths = narrow(counts, sizes, rule.threshold, most=10**6)
    widths = {(w.first, w.second): w for w in widths}
    for cell in hidden_cells(counts):
        least, most = possible_values(counts, sizes, *cell)
        values = int(np.floor(min(most, rule.threshold - 1) + 1e-6))
        values -= int(np.ceil(least - 1e-6)) - 1
        assert (cell in widths) == (values < rule.threshold)
        if cell in widths:
            assert widths[cell].values == values


def hidden_cells(counts):
    return [*zip(*np.nonzero(np.triu(counts.hidden)), strict=True)]


def run_releases(seeds):
    """Every hidden count of a release keeps its values, by explicit programs."""
    hidden = 0
    refused = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 4, rng.integers(2, 4)).tolist()
        n = int(rng.choice([80, 300]))
        rule = list(RULES.values())[seed % 3]
        tables = counted(sizes, seed, n)
        occurs = (tables.diagonal() > 0) & (seed % 2 > 0)
        counts, widths = protected(tables, n, sizes, rule, occurs)
        if widths:
            refused += 1
            continue
        known = published(counts, sizes)
        assert (known.low <= tables).all()
        assert (tables <= known.high).all()
        assert known.n_low <= n <= known.n_high
        for a, b in hidden_cells(counts):
            hidden += 1
            least, most = possible_values(known, sizes, a, b)
            assert least <= (a == b and occurs[a]) + 1e-6
            assert most >= rule.threshold - 1 - 1e-6
    assert hidden > 2 * len(seeds)
    assert refused < 0.2 * len(seeds)


def test_hidden_counts_of_releases_keep_their_values():
    run_releases(range(40))


@pytest.mark.long
def test_hidden_counts_of_releases_keep_their_values_at_full_count():
    run_releases(range(1000, 2000))


def other_rows(known, sizes, rng):
    """Pair counts of some rows within published intervals, by an integer program."""
    outcomes = np.array([*itertools.product(*map(range, sizes))])
    W = np.hstack([outcomes[:, [j]] == np.arange(s) for j, s in enumerate(sizes)])
    W = W.astype(np.int64)
    column = np.repeat(np.arange(len(sizes)), sizes)
    a, b = np.nonzero((column[:, None] < column) | np.eye(len(column), dtype=bool))
    rows = np.vstack([(W[:, a] * W[:, b]).T, np.ones(len(W))])
    low = np.append(known.low[a, b], known.n_low)
    high = np.append(known.high[a, b], known.n_high)
    answer = milp(
        rng.standard_normal(len(W)),
        constraints=LinearConstraint(rows, low, high),
        integrality=np.ones(len(W)),
        options={"time_limit": 5},
    )
    weights = np.round(answer.x).astype(np.int64)
    return (W.T * weights) @ W, int(weights.sum())


@pytest.mark.parametrize("seed", range(30))
def test_all_rows_within_the_intervals_have_the_same_release(seed):
    """Nobody learns more from the method than from the intervals."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, rng.integers(2, 4)).tolist()
    n = int(rng.choice([60, 150, 600]))
    tables = counted(sizes, seed, n)
    level = [*levels(ONS)][seed % 5]
    raw = hidden_counts(tables, n, sizes, ONS, level)
    known = published(raw, sizes)
    other, m = other_rows(known, sizes, rng)
    again = hidden_counts(other, m, sizes, ONS, level)
    assert not np.array_equal(other, tables)
    assert (again.n_low, again.n_high) == (raw.n_low, raw.n_high)
    for mine, theirs in ((raw, again), (known, published(again, sizes))):
        assert np.array_equal(mine.low, theirs.low)
        assert np.array_equal(mine.high, theirs.high)


@pytest.mark.parametrize(
    ("name", "rule"), [*(("votes", rule) for rule in RULES), ("credit", "ons")]
)
def test_plain_intervals_do_not_follow_from_published_ones(name, rule):
    """The middle of a wide interval is often not in the plain interval of the count.

    The plain intervals would give hidden counts away.
    """
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y)
    rule = RULES[rule]
    sizes = m.columns.sizes
    release, widths = protected(m.counts, int(m.n), sizes, rule)
    assert not widths
    known = published(release, sizes)
    assert not narrow(known, sizes, rule.threshold)
    low, high = interval_ends(m, rule)
    plain = release._replace(low=low, high=high)
    assert narrow(plain, sizes, rule.threshold)
    wider = (known.high - known.low > plain.high - plain.low) & ~release.hidden
    middles = (known.low + known.high) // 2
    wrong = (middles < plain.low) | (middles > plain.high)
    assert wrong[wider].mean() > 0.2


def interval_ends(m, rule):
    ends = np.array([interval(int(count), rule) for count in m.counts.flat])
    column = np.repeat(np.arange(len(m.columns)), m.columns.sizes)
    never = (column[:, None] == column) & ~np.eye(len(column), dtype=bool)
    return [np.where(never, 0, end.reshape(never.shape)) for end in ends.T]


def public_of(m):
    """An encoder that declares the columns of m."""
    return dataclasses.replace(m.settings, columns=m.columns)


@pytest.mark.parametrize("name", ["votes", "kr-vs-kp"])
@pytest.mark.parametrize("rule", RULES)
def test_bundled_tables_can_be_released(name, rule):
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y)
    known = renyi.release(m, rule=rule, encoder=public_of(m)).uncertainty
    assert (known.low <= m.counts).all()
    assert (m.counts <= known.high).all()
    assert known.n_low <= m.n <= known.n_high
    column = np.repeat(np.arange(len(m.columns)), m.columns.sizes)
    cells = (column[:, None] != column) | np.eye(len(column), dtype=bool)
    assert (known.low < known.high)[cells].all()  # no count is exact
    hidden = (m.counts < RULES[rule].threshold) & cells
    assert (known.low[hidden] == 0).all()
    assert (known.high[hidden] >= RULES[rule].threshold - 1).all()


@pytest.mark.parametrize("options", [{"rule": r} for r in RULES] + [{"threshold": 10}])
def test_no_raw_count_is_in_the_file(tmp_path, options):
    """Other rows with the same release write the same bytes."""
    X, y = renyi.datasets.load("votes")
    frame = X[list(X.columns[:4])].assign(party=y)
    first = renyi.Marginals.from_data(frame, target="party")
    public = public_of(first)
    known = renyi.release(first, encoder=public, **options).uncertainty
    rng = np.random.default_rng(0)
    counts, n = other_rows(known, first.columns.sizes, rng)
    assert (counts != first.counts).mean() > 0.2
    other = dataclasses.replace(first, counts=counts, n=n)
    for k, m in enumerate((first, other)):
        out = renyi.release(m, encoder=public, **options)
        out.save(tmp_path / f"{k}.renyi")
    first_bytes, second_bytes = (
        (tmp_path / f"{k}.renyi").read_bytes() for k in range(2)
    )
    assert first_bytes == second_bytes
    with np.load(tmp_path / "0.renyi", allow_pickle=False) as archive:
        assert set(archive.files) == {"header", "low", "high"}


def test_a_lone_hidden_count_does_not_follow():
    rows = [("x", "p")] * 300 + [("x", "q")] * 200 + [("z", "p")] * 3
    frame = pd.DataFrame([*rows, *[("z", "q")] * 200], columns=["a", "y"])
    m = renyi.Marginals.from_data(frame, target="y")
    for options in ({"rule": "cms"}, {"rule": "ons"}, {"threshold": 10}):
        known = renyi.release(m, encoder=public_of(m), **options).uncertainty
        for hidden in (0, 9):  # the other counts allow both
            counts = np.array(m.counts)
            for a, b, sign in ((1, 2, 1), (0, 2, -1), (1, 3, -1), (0, 3, 1)):
                counts[a, b] += sign * (hidden - 3)
                counts[b, a] += sign * (hidden - 3)
            assert counts[1, 2] == hidden
            assert (known.low <= counts).all()
            assert (counts <= known.high).all()


def header_of(m, path):
    m.save(path)
    with np.load(path, allow_pickle=False) as archive:
        return json.loads(archive["header"].tobytes())


def test_headers_reveal_no_rare_label_and_no_least_count(tmp_path):
    random = np.random.default_rng(0)
    town = [*random.choice(["A", "B"], 300), "Secret-Surname", "O'Hara", "O'Hara"]
    frame = pd.DataFrame({"town": town, "y": random.choice(["no", "yes"], 303)})
    encoder = renyi.Encoder(min_count=5)
    m = renyi.Marginals.from_data(frame, target="y", encoder=encoder)
    assert m.categories["town"] == ("(rare)", "A", "B")
    for options in ({"merge_below": 3}, {"rule": "ons"}):
        with pytest.warns(renyi.warnings.DataWarning, match="declare the categories"):
            out = renyi.release(m, **options)
        header = header_of(out, tmp_path / "out.renyi")
        assert "Hara" not in json.dumps(header)
        assert "Secret" not in json.dumps(header)
        assert header["encoder"]["min_count"] == 1
    # A category that is listed has a row, unless it was declared.
    assert out.uncertainty.low[0, 0] == 1
    declared = renyi.release(m, rule="ons", encoder=public_of(out))
    assert declared.uncertainty.low[0, 0] == 0


@pytest.mark.parametrize("undeclared", ["error", "merge"])
def test_declared_releases_have_one_header_whatever_the_data(tmp_path, undeclared):
    declared = pd.DataFrame(
        {"a": list("zyx"), "b": list("srq"), "y": ["yes", "no", "yes"]}
    )
    public = renyi.Encoder().fit(declared)
    headers = set()
    for seed in range(3):
        random = np.random.default_rng(seed)
        own = "" if undeclared == "error" else "uvw"[seed]
        frame = pd.DataFrame(
            {
                "b": random.choice(list("qrs"[: seed + 1]), 300),
                "y": random.choice(["no", "yes"], 300),
                "a": random.choice(list("xyz" + own), 300),
            }
        )
        encoder = renyi.Encoder(missing=(f"code{seed}",), min_count=seed + 1)
        m = renyi.Marginals.from_data(frame, target="y", encoder=encoder)
        out = renyi.release(m, rule="ons", encoder=public, undeclared=undeclared)
        header = header_of(out, tmp_path / "out.renyi")
        del header["uncertainty"]  # the interval of the number of rows
        header.pop("checksum", None)
        headers.add(json.dumps(header))
    assert len(headers) == 1
    rare = [] if undeclared == "error" else ["(rare)"]
    assert list(out.categories) == ["a", "b", "y"]
    assert list(out.categories["a"]) == [*rare, "x", "y", "z"]
    assert list(out.categories["b"]) == [*rare, "q", "r", "s"]


def test_undeclared_labels_are_merged_on_request_only():
    frame = pd.DataFrame({"a": ["x", "z", "w"] * 20, "y": ["n", "p", "p"] * 20})
    public = renyi.Encoder().fit(pd.DataFrame({"a": ["x", "z"], "y": ["n", "p"]}))
    m = renyi.Marginals.from_data(frame, target="y")
    with pytest.raises(ValueError, match=r"a = w has rows, .*undeclared='merge'"):
        renyi.release(m, merge_below=2, encoder=public)
    out = renyi.release(m, merge_below=2, encoder=public, undeclared="merge")
    by_hand = renyi.Marginals.from_data(frame.replace("w", "(rare)"), target="y")
    assert np.array_equal(out.counts, by_hand.counts)
    with pytest.raises(ValueError, match="declare the class"):
        classes = public.columns.named("y").levels._replace(categories=("n",))
        columns = [public.columns[0], public.columns[1]._replace(levels=classes)]
        few = renyi.Encoder(columns=type(m.columns).of(columns))
        renyi.release(m, merge_below=2, encoder=few, undeclared="merge")
    with pytest.raises(ValueError, match="encoder lacks 'a'"):
        renyi.release(m, rule="ons", encoder=public.select(["y"]))
    wider = renyi.Encoder().fit(frame.assign(b="x"))
    with pytest.raises(ValueError, match="encoder declares 'b'"):
        renyi.release(m, rule="ons", encoder=wider)
    with pytest.raises(ValueError, match="needs an encoder"):
        renyi.release(m, rule="ons", undeclared="merge")


def test_numbers_of_other_bins_are_refused_and_missing_ones_merged():
    values = np.arange(60) / 7
    frame = pd.DataFrame({"a": values, "y": ["n", "p", "p"] * 20})
    public = renyi.Encoder().fit(frame)
    gaps = frame.assign(a=np.where(np.arange(60) < 6, np.nan, values))
    m = renyi.Marginals.from_data(gaps, target="y", encoder=public.select(["a"]))
    with pytest.raises(ValueError, match=r"a = \(missing\) has rows"):
        renyi.release(m, rule="ons", encoder=public)
    out = renyi.release(m, merge_below=2, encoder=public, undeclared="merge")
    assert out.categories["a"] == (*public.categories["a"], None)
    m = renyi.Marginals.from_data(frame.assign(a=values**2), target="y")
    with pytest.raises(ValueError, match="'a' is binned differently"):
        renyi.release(m, rule="ons", encoder=public)


def test_merged_categories_leave_no_small_count():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": random.choice(list("vwxyz"), 400, p=[0.5, 0.4, 0.05, 0.03, 0.02]),
            "b": random.choice(list("pqr"), 400, p=[0.6, 0.34, 0.06]),
            "y": random.choice(["no", "yes"], 400),
        }
    )
    m = renyi.Marginals.from_data(frame, target="y")
    merged = renyi.release(m, merge_below=10, encoder=public_of(m))
    assert not ((merged.counts > 0) & (merged.counts < 10)).any()
    assert merged.feature_names == ("a", "b")
    for name in merged.feature_names:
        gone = {*m.categories[name]} - {*merged.categories[name]}
        frame[name] = frame[name].replace(dict.fromkeys(gone, "(rare)"))
    by_hand = renyi.Marginals.from_data(frame, target="y")
    assert merged.categories == by_hand.categories
    assert np.array_equal(merged.counts, by_hand.counts)
    assert "(rare)" in merged.categories["a"]


def test_a_column_whose_categories_cannot_be_merged_is_left_out():
    frame = pd.DataFrame({"a": ["x"] * 50 + ["z"] * 3, "b": ["p", "q"] * 26 + ["p"]})
    frame["y"] = ["no", "yes", "no"] * 17 + ["yes", "no"]
    m = renyi.Marginals.from_data(frame, target="y")
    with pytest.warns(renyi.warnings.DataWarning, match="Left out 'a'"):
        merged = renyi.release(m, merge_below=5, encoder=public_of(m))
    assert merged.feature_names == ("b",)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "rule or merge_below; or add noise"),
        ({"rounding": 5}, "give a threshold"),
        ({"threshold": 1}, "at least 2"),
        ({"threshold": 10, "rounding": 0}, "at least 1"),
        ({"threshold": 10, "rounding": 1}, "exact counts"),
        ({"threshold": 10, "rounding": 11}, "above the threshold 10"),
        ({"rule": "ons", "threshold": 10}, "leave these out"),
        ({"rule": "strict"}, "must be 'opensafely'"),
        ({"merge_below": 1}, "at least 2"),
    ],
)
def test_options_that_protect_nothing_are_refused(options, problem):
    m = renyi.Marginals.from_data([["a"], ["b"]] * 30, ["n", "p", "p"] * 20)
    with pytest.raises(ValueError, match=problem):
        renyi.release(m, encoder=public_of(m), **options)


def test_only_exact_unweighted_counts_are_released():
    X = [["a"], ["b"]] * 30
    y = ["n", "p", "p"] * 20
    m = renyi.Marginals.from_data(X, y)
    public = public_of(m)
    for options in ({"rule": "ons"}, {"merge_below": 5}):
        out = renyi.release(m, encoder=public, **options)
        with pytest.raises(ValueError, match="a release already"):
            renyi.release(out, rule="ons", encoder=public)
    both = renyi.release(m, merge_below=5, rule="ons", encoder=public)
    assert both.uncertainty.n_low == 58
    weighted = renyi.Marginals.from_data(X, y, sample_weight=[0.5] * 60)
    with pytest.raises(ValueError, match="unweighted rows"):
        renyi.release(weighted, rule="ons", encoder=public)


def test_counts_that_follow_are_named_with_advice_for_python_and_commands(monkeypatch):
    m = renyi.Marginals.from_data([["a"], ["b"]] * 30, ["n", "p", "p"] * 20)
    widths = [protection.Width(0, 2, 3, 9)]
    monkeypatch.setattr(protection, "narrow", lambda *args: widths)
    with pytest.raises(ValueError, match="leaves 7 of the 10 values") as problem:
        renyi.release(m, threshold=10, encoder=public_of(m))
    assert "(merge_below, Marginals.select())" in str(problem.value)
    said = with_options(problem.value)
    assert said.endswith("some of these columns (--merge-below, --drop).")
    assert "Marginals" not in said
