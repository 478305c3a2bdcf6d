"""Noise on all pair tables: sensitivity, scale and accounting."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.releases import privacy
from renyi.releases.privacy import Cost, epsilon_of, noisy_tables, scale_of, sensitivity

FRAME = pd.DataFrame(
    {"a": ["x", "z"] * 60, "b": ["p", "q", "r"] * 40, "y": ["n", "p", "p"] * 40}
)
PUBLIC = renyi.Encoder().fit(FRAME)


def tables_of(codes, sizes):
    onehot = np.concatenate(
        [codes[:, j] == np.arange(s)[:, None] for j, s in enumerate(sizes)]
    ).astype(float)
    column = np.repeat(np.arange(len(sizes)), sizes)
    return (onehot @ onehot.T)[column[:, None] < column]


@pytest.mark.parametrize("neighbours", privacy.NEIGHBOURS)
@pytest.mark.parametrize("rows", [1, 2])
def test_sensitivity_is_the_largest_distance_of_neighbours(neighbours, rows):
    sizes = [2, 2, 3]
    outcomes = [np.array(o) for o in itertools.product(*map(range, sizes))]
    persons = list(itertools.combinations_with_replacement(range(len(outcomes)), rows))
    own = [tables_of(np.array([outcomes[k] for k in p]), sizes) for p in persons]
    if neighbours == privacy.ADD_REMOVE:
        largest = max(np.linalg.norm(one) for one in own)
    else:
        largest = max(np.linalg.norm(a - b) for a in own for b in own)
    assert sensitivity(3, rows, neighbours) == pytest.approx(largest)


@pytest.mark.parametrize("rho", [0.01, 0.1, 1.0])
def test_scale_is_the_formula_of_the_budget(rho):
    distance = sensitivity(17, 1, privacy.ADD_REMOVE)
    assert scale_of(Cost(rho), distance) == pytest.approx(distance / math.sqrt(2 * rho))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_epsilon_is_spent_and_not_exceeded(epsilon):
    distance = sensitivity(17, 2, privacy.REPLACE)
    scale = scale_of(Cost(None, epsilon, 1e-5), distance)
    spent = epsilon_of(distance**2 / (2 * scale**2), 1e-5)
    assert spent == pytest.approx(epsilon, rel=1e-6)
    # The conversion is never worse than the textbook's rho + 2 sqrt(rho log(1/delta)).
    rho = distance**2 / (2 * scale**2)
    assert spent <= rho + 2 * math.sqrt(rho * math.log(1e5))


def test_noise_has_the_stated_scale_in_every_cell_and_is_symmetric():
    sizes = np.array([30, 30, 40])
    counts = np.zeros((100, 100), np.int64)
    noisy = noisy_tables(counts, sizes, Cost(0.5), 10.0)
    column = np.repeat(np.arange(3), sizes)
    apart = column[:, None] < column
    assert np.array_equal(noisy.table, noisy.table.T)
    assert not noisy.table[column[:, None] == column].any()
    assert noisy.scale == pytest.approx(10.0)
    assert noisy.rho == pytest.approx(0.5)
    values = noisy.table[apart]
    # 3,300 draws: five standard errors of the mean square.
    assert np.mean(values**2) == pytest.approx(100, rel=5 * math.sqrt(2 / len(values)))


def test_a_release_contains_the_budget_and_consistent_counts(tmp_path):
    m = renyi.Marginals.from_data(FRAME, target="y")
    out = renyi.private_release(m, encoder=PUBLIC, rho=1.0, rows_per_person=2)
    known = out.uncertainty
    assert known.budget.rho == pytest.approx(1.0)
    assert known.budget.rows_per_person == 2
    assert known.n is None
    assert known.scale == pytest.approx(2 * math.sqrt(3) / math.sqrt(2))
    out.validate(1e-6)
    out.save(tmp_path / "out.renyi")
    assert renyi.Marginals.load(tmp_path / "out.renyi") == out
    replaced = renyi.private_release(
        m, encoder=PUBLIC, epsilon=4.0, delta=1e-6, neighbours="replace-one"
    )
    assert replaced.uncertainty.n == 120
    assert replaced.uncertainty.budget.epsilon == 4.0


def test_the_bytes_of_a_header_are_the_same_whatever_the_data(tmp_path):
    headers = set()
    for seed in range(3):
        random = np.random.default_rng(seed)
        rows = {
            "b": random.choice(list("pqr"), 150),
            "y": random.choice(["n", "p"], 150),
            "a": random.choice(list("xz" + "uvw"[seed]), 150),
        }
        encoder = renyi.Encoder(missing=(f"code{seed}",), min_count=1 + seed)
        m = renyi.Marginals.from_data(pd.DataFrame(rows), target="y", encoder=encoder)
        options = {"rho": 1.0, "undeclared": "merge"}
        out = renyi.private_release(m, encoder=PUBLIC, **options)
        out.save(tmp_path / "out.renyi")
        with np.load(tmp_path / "out.renyi", allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
        header.pop("checksum", None)
        headers.add(json.dumps(header))
    assert len(headers) == 1
    assert out.columns.names == PUBLIC.columns.names
    assert out.categories["a"] == ("(rare)", "x", "z")


def test_categories_must_be_declared():
    m = renyi.Marginals.from_data(FRAME, target="y")
    features = renyi.Encoder().fit(FRAME[["a", "b"]])
    with pytest.raises(ValueError, match="encoder lacks 'y'"):
        renyi.private_release(m, encoder=features, rho=1.0)
    narrow = renyi.Encoder().fit(FRAME.assign(a="x"))
    with pytest.raises(ValueError, match="a = z has rows"):
        renyi.private_release(m, encoder=narrow, rho=1.0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "Give one budget"),
        ({"rho": 1.0, "epsilon": 1.0}, "Give one budget"),
        ({"epsilon": 1.0}, "Give one budget"),
        ({"rho": 0.0}, "rho must be positive"),
        ({"rho": "1"}, "rho must be positive"),
        ({"rho": 1e-30}, "not a useful budget"),
        ({"rho": 1e300}, "not a useful budget"),
        ({"epsilon": -1.0, "delta": 1e-5}, "epsilon must be positive"),
        ({"epsilon": 1e5, "delta": 1e-5}, "not a useful budget"),
        ({"epsilon": 1e-9, "delta": 1e-5, "rows_per_person": 10**9}, "no noise for"),
        ({"rho": 1.0, "rows_per_person": 10**15}, "no noise for"),
        ({"epsilon": 1.0, "delta": 1.0}, "between 0 and 1"),
        ({"rho": 1.0, "rows_per_person": 0}, "at least 1"),
        ({"rho": 1.0, "neighbours": "any"}, "must be 'add-remove'"),
    ],
)
def test_budgets_that_say_nothing_are_refused(options, problem):
    m = renyi.Marginals.from_data(FRAME, target="y")
    with pytest.raises(ValueError, match=problem):
        renyi.private_release(m, encoder=PUBLIC, **options)


def test_releases_of_disjoint_people_add_up_and_exact_counts_only_on_request():
    m = renyi.Marginals.from_data(FRAME, target="y")
    out = renyi.private_release(m, encoder=PUBLIC, rho=1.0)
    both = out + renyi.private_release(m, encoder=PUBLIC, rho=0.5)
    assert both.uncertainty.budget.rho == pytest.approx(1.0)
    assert both.uncertainty.budget.releases == 2
    with pytest.raises(ValueError, match="private release"):
        out + m
    with pytest.raises(ValueError, match="a release already"):
        renyi.private_release(out, encoder=PUBLIC, rho=1.0)
