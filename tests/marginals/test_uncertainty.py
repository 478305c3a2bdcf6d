"""Counts that are not exact: their record, estimate, sums and file."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import renyi
from renyi import files
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.uncertainty import Budget, Intervals, Noise
from support.releases import own_blocks

SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=4)


def random_marginals(seed, sizes, n=60):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, m, n) for m in sizes]).astype(str)
    codes[:, -1] = np.where(codes[:, 0] == codes[:, -1], codes[:, -1], "0")
    return renyi.Marginals.from_data(codes[:, :-1], codes[:, -1])


def around(m, width, seed=0):
    """Return intervals of random widths that contain the counts."""
    rng = np.random.default_rng(seed)
    below, above = (
        np.triu(rng.integers(0, width + 1, m.counts.shape)) for _ in range(2)
    )
    below = below + np.triu(below, 1).T
    above = above + np.triu(above, 1).T
    off_diagonal = own_blocks(m) & ~np.eye(len(m.counts), dtype=bool)
    below[off_diagonal] = 0
    above[off_diagonal] = 0
    low = np.maximum(m.counts - below, 0)
    return Intervals(low, m.counts + above, int(m.n) - 2, int(m.n) + 2)


def noisy(m, scale=3.0, seed=0, **budget):
    rng = np.random.default_rng(seed)
    noise = np.triu(np.rint(rng.normal(0, scale, m.counts.shape)).astype(int), 1)
    table = np.where(own_blocks(m), 0, m.counts + noise + noise.T)
    return Noise(table, (scale,), None, Budget(rho=0.1, **budget))


def assert_agree(m):
    """The estimate has equal margins, and a distribution may have it."""
    assert m.counts.min() >= 0
    m.validate(1e-7)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.integers(0, 12))
def test_the_estimate_of_intervals_agrees_with_itself(seed, sizes, width):
    m = random_marginals(seed, sizes)
    known = with_uncertainty(m, around(m, width, seed))
    assert_agree(known)
    assert m.n - 2 <= known.n <= m.n + 2
    assert not known.weighted


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.floats(0.5, 30))
def test_the_estimate_of_noisy_tables_agrees_with_itself(seed, sizes, scale):
    m = random_marginals(seed, sizes)
    assert_agree(with_uncertainty(m, noisy(m, scale, seed)))


def test_exact_intervals_give_the_counts_back():
    m = random_marginals(1, [3, 2, 3])
    known = with_uncertainty(m, Intervals.exact(m.counts, m.n))
    np.testing.assert_allclose(known.counts, m.counts, atol=1e-3)


def test_noise_is_reduced_by_what_the_tables_share():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    noise = noisy(m, 10.0)
    apart = ~own_blocks(m)
    before = np.linalg.norm((noise.noisy - m.counts)[apart])
    after = np.linalg.norm((with_uncertainty(m, noise).counts - m.counts)[apart])
    assert after < before / 2


def test_no_exact_count_stands_next_to_a_record():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"), class_conditional=True)
    known = with_uncertainty(m, around(m, 5))
    assert known.class_counts is None
    other = with_uncertainty(m * 2, known.uncertainty)
    np.testing.assert_array_equal(known.counts, other.counts)
    assert known == other


# ---- arithmetic


def test_intervals_add_and_contain_the_sum():
    a = random_marginals(1, [3, 3, 2])
    b = random_marginals(2, [4, 2, 3])  # other labels
    for exact in (False, True):
        first = with_uncertainty(a, around(a, 4, 1))
        second = b if exact else with_uncertainty(b, around(b, 4, 2))
        known = (first + second).uncertainty
        true = a + b
        assert (known.low <= true.counts).all()
        assert (true.counts <= known.high).all()
        assert known.n_low <= true.n <= known.n_high
        assert second + first != true
    assert sum([first, first]) == first + first


def test_intervals_subtract_and_contain_the_difference():
    a = random_marginals(1, [3, 3, 2])
    b = random_marginals(2, [3, 3, 2])
    total = with_uncertainty(a + b, around(a + b, 4, 1))
    for part in (b, with_uncertainty(b, around(b, 4, 2))):
        known = (total - part).uncertainty
        assert (known.low <= a.counts).all()
        assert (a.counts <= known.high).all()


def test_noise_adds_and_budgets_compose_in_parallel():
    a = random_marginals(1, [3, 3, 2])
    b = random_marginals(2, [3, 3, 2])
    known = with_uncertainty(a, noisy(a, 3.0)) + with_uncertainty(b, noisy(b, 4.0))
    record = known.uncertainty
    assert record.scale == 5.0
    assert record.budget == Budget(rho=0.1, releases=2)
    other = Noise(noisy(b).noisy, (4.0,), None, Budget(rho=0.3, epsilon=1.0))
    both = (with_uncertainty(a, noisy(a)) + with_uncertainty(b, other)).uncertainty
    assert (both.budget.rho, both.budget.epsilon) == (0.3, None)


def test_noise_and_exact_counts_are_added_only_if_asked():
    a = random_marginals(1, [3, 3, 2])
    private = with_uncertainty(a, noisy(a))
    for one, other in ((private, a), (a, private)):
        with pytest.raises(ValueError, match="allow_mixed=True"):
            one + other
        record = one.merged(other, allow_mixed=True).uncertainty
        assert record.budget.exact_rows == a.n
        np.testing.assert_array_equal(
            record.noisy - private.uncertainty.noisy,
            np.where(own_blocks(a), 0, a.counts),
        )


def test_what_makes_no_sense_is_refused():
    a = random_marginals(1, [3, 3, 2])
    private = with_uncertainty(a, noisy(a))
    known = with_uncertainty(a, around(a, 3))
    with pytest.raises(ValueError, match="intervals are certain, the noise is not"):
        private.merged(known, allow_mixed=True)
    with pytest.raises(ValueError, match="noise cannot be subtracted"):
        private - a
    with pytest.raises(ValueError, match="noise cannot be subtracted"):
        a - private
    for m in (private, known):
        with pytest.raises(ValueError, match="Only exact counts can be scaled"):
            m * 2
    with pytest.raises(ValueError, match="Weighted counts cannot be added"):
        known + a * 0.5
    other = with_uncertainty(a, noisy(a, neighbours="replace-one"))
    with pytest.raises(ValueError, match="protects neighbours by"):
        private + other
    more = random_marginals(3, [4, 3, 2])
    with pytest.raises(ValueError, match="declared before counting"):
        private + with_uncertainty(more, noisy(more))


@pytest.mark.parametrize("kind", ["intervals", "noise"])
def test_parts_keep_their_record(kind):
    m = random_marginals(5, [3, 2, 4, 2])
    record = around(m, 3) if kind == "intervals" else noisy(m)
    known = with_uncertainty(m, record)
    part = known.select([m.feature_names[2], m.feature_names[0]])
    exact = m.select([m.feature_names[2], m.feature_names[0]])
    assert part.columns == exact.columns
    if kind == "intervals":
        assert (part.uncertainty.low <= exact.counts).all()
        assert (exact.counts <= part.uncertainty.high).all()
    turned = known.with_target(m.feature_names[0])
    assert turned.uncertainty == record
    assert turned.with_target(m.target) == known


# ---- records that are wrong


def test_intervals_are_checked():
    m = random_marginals(1, [3, 3, 2])
    good = around(m, 3)
    with pytest.raises(ValueError, match="at most its high end"):
        Intervals(good.high + 1, good.high, 60, 60)
    with pytest.raises(ValueError, match="whole numbers, not float64"):
        Intervals(good.low / 2, good.high, 60, 60)
    with pytest.raises(ValueError, match="symmetric"):
        Intervals(good.low, np.triu(good.high) + 9, 60, 60)
    with pytest.raises(ValueError, match="number of rows must be an interval"):
        Intervals(good.low, good.high, 61, 60)
    with pytest.raises(ValueError, match=r"tables of \d+ by \d+ categories"):
        with_uncertainty(m, Intervals(good.low[1:, 1:], good.high[1:, 1:], 60, 60))


def test_contradictory_intervals_are_refused():
    m = random_marginals(1, [3, 3, 2])
    for change, sentence in ((20, "rows by itself, but"), (0, "add up to")):
        low = m.counts.copy()
        low[0, 0] += change
        n = m.n if change else m.n + 1
        high = np.maximum(low, m.counts)
        with pytest.raises(ValueError, match=sentence):
            with_uncertainty(m, Intervals(low, high, n, n))


@pytest.mark.parametrize(
    ("field", "value"),
    [("rho", 0.0), ("epsilon", -1.0), ("delta", 1.0), ("neighbours", "all")],
)
def test_budgets_are_checked(field, value):
    with pytest.raises(ValueError, match=field):
        Budget(**{field: value})


# ---- files


@pytest.mark.parametrize("kind", ["intervals", "noise"])
def test_a_file_has_the_record_and_nothing_else(kind, tmp_path):
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    record = around(m, 5) if kind == "intervals" else noisy(m)
    known = with_uncertainty(m, record)
    known.save(tmp_path / "a.renyi")
    again = renyi.Marginals.load(tmp_path / "a.renyi")
    assert again == known
    assert again.digest == known.digest
    assert again.digest != m.digest
    np.testing.assert_array_equal(again.counts, known.counts)
    with zipfile.ZipFile(tmp_path / "a.renyi") as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
    assert names == {"header", *record.arrays}


def forged(path, change):
    """Rewrite a marginals file with a header and arrays that were changed."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    files.write_arrays(path, header, arrays)


HOSTILE = {
    "crossed": lambda h, a: a.update(low=a["high"] + 1),
    "negative": lambda h, a: a.update(low=a["low"] - 9),
    "asymmetric": lambda h, a: a.update(high=np.triu(a["high"])),
    "small": lambda h, a: a.update(high=a["high"][:-1, :-1]),
    "fractional": lambda h, a: a.update(high=a["high"] + 0.5),
    "huge": lambda h, a: a.update(high=a["high"] + 2**60),
    "missing": lambda h, a: a.pop("high"),
    "raw": lambda h, a: a.update(counts=a["high"]),
    "kind": lambda h, a: h["uncertainty"].update(kind="guess"),
    "extra": lambda h, a: h["uncertainty"].update(more=1),
    "rows": lambda h, a: h["uncertainty"].update(n_low=-1),
    "rows of text": lambda h, a: h["uncertainty"].update(n_high="9"),
    "none": lambda h, a: h.pop("uncertainty"),
    "list": lambda h, a: h.update(uncertainty=[]),
    "contradiction": lambda h, a: h["uncertainty"].update(n_low=1, n_high=2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_sentence(name, tmp_path):
    m = random_marginals(1, [3, 3, 2])
    path = tmp_path / "a.renyi"
    with_uncertainty(m, around(m, 3)).save(path)
    forged(path, HOSTILE[name])
    with pytest.raises(ValueError, match="a.renyi") as error:
        renyi.Marginals.load(path)
    assert "\n" not in str(error.value)


HOSTILE_NOISE = {
    "scales": lambda h: h["uncertainty"].update(scales=["1"]),
    "no scale": lambda h: h["uncertainty"].update(scales=[]),
    "zero": lambda h: h["uncertainty"].update(scales=[0.0]),
    "budget": lambda h: h["uncertainty"].update(budget={}),
    "neighbours": lambda h: h["uncertainty"]["budget"].update(neighbours="x"),
    "epsilon": lambda h: h["uncertainty"]["budget"].update(epsilon=-1.0),
    "n": lambda h: h["uncertainty"].update(n=0),
}


@pytest.mark.parametrize("name", HOSTILE_NOISE)
def test_hostile_noise_is_refused(name, tmp_path):
    m = random_marginals(1, [3, 3, 2])
    path = tmp_path / "a.renyi"
    with_uncertainty(m, noisy(m)).save(path)
    forged(path, lambda header, arrays: HOSTILE_NOISE[name](header))
    with pytest.raises(ValueError, match="a.renyi"):
        renyi.Marginals.load(path)


def test_the_headline_says_how_counts_are_known():
    m = random_marginals(1, [3, 3, 2])
    assert "58 to 62 rows, each count known to an interval" in repr(
        with_uncertainty(m, around(m, 3))
    )
    assert "with noise of scale 3" in repr(with_uncertainty(m, noisy(m)))
