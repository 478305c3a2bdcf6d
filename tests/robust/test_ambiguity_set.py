"""The set C: its tables, multipliers and outcomes, by brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals
from renyi.datasets import random_joint
from renyi.robust.ambiguity_set import (
    Ambiguity,
    Table,
    contradiction_error,
    of_tables,
    shortfall,
    worst_member,
)
from renyi.robust.minimax_problem import solve_direct
from support.joints import marginal_constraints, moments, outcomes


def make(table: np.ndarray, conditional: bool = False) -> Ambiguity:
    codes = outcomes(table.shape).astype(str)
    X = pd.DataFrame(codes[:, :-1]).add_prefix("c")
    y = pd.Series(codes[:, -1], name="y")
    mass = table.ravel()
    return Ambiguity.of(
        Marginals.from_data(X, y, sample_weight=mass, class_conditional=conditional)
    )


@pytest.fixture
def table() -> np.ndarray:
    return random_joint((2, 3, 2), 3, random_state=0)


@pytest.mark.parametrize("conditional", [False, True])
def test_tables_multipliers_and_matrix(table: np.ndarray, conditional: bool) -> None:
    amb = make(table, conditional)
    X = outcomes(amb.sizes)
    A = amb.constraint_matrix(X)
    np.testing.assert_allclose(A @ table.ravel(), amb.b, atol=1e-15)
    a = np.random.default_rng(0).normal(size=len(amb.b))
    np.testing.assert_allclose(amb.functions(a, X).ravel(), A.T @ a)
    # The expectation is that of any member.
    assert (table.reshape(-1, 3) * amb.functions(a, X)).sum() == pytest.approx(
        amb.b @ a
    )
    np.testing.assert_allclose(amb.priors, table.sum(axis=(0, 1, 2)))
    assert amb.n_table == 36
    if not conditional:
        F = np.concatenate([t.probabilities for t in amb.tables if t.with_target])
        np.testing.assert_allclose(F, moments(table)[1])


def test_the_set_is_that_of_the_ground_truth(table: np.ndarray) -> None:
    A, _ = marginal_constraints(table)
    mine = make(table).constraint_matrix(outcomes((2, 3, 2))).toarray()
    rows = {tuple(row) for row in A.toarray()}
    assert {tuple(row) for row in mine} == rows


def test_outcomes_avoid_empty_cells() -> None:
    rng = np.random.default_rng(3)
    for seed in range(10):
        full = random_joint((3, 3, 2), 2, random_state=seed)
        table = rng.multinomial(15, full.ravel()).reshape(full.shape) / 15
        kept = [i for i in range(3) if table.sum(axis=tuple({0, 1, 2, 3} - {i})).all()]
        if kept != [0, 1, 2] or not table.sum(axis=(0, 1, 2)).all():
            continue
        amb = make(table)
        everything = outcomes(amb.sizes)
        A = amb.constraint_matrix(everything)
        open_pairs = (A.T @ (amb.b <= 0)).reshape(-1, 2) == 0
        np.testing.assert_array_equal(amb.possible(everything), open_pairs)
        found = amb.outcomes()
        # All that may have mass are there, and what has some surely is.
        wanted = {tuple(x) for x in everything[open_pairs.any(axis=1)]}
        assert wanted <= {tuple(x) for x in found}
        assert amb.few_outcomes(len(found)) is not None
        assert amb.few_outcomes(len(found) - 1) is None


def test_shifts_and_completion() -> None:
    table = random_joint((3, 2), 2, random_state=1)
    table[0, :, 1] = 0  # class 1 never goes with the first category
    table /= table.sum()
    amb = make(table)
    X = outcomes(amb.sizes)
    a = np.random.default_rng(0).normal(size=len(amb.b))
    moved = amb.functions(amb.shifted(a, np.array([0.5, -1.0])), X)
    np.testing.assert_allclose(moved, amb.functions(a, X) + [0.5, -1.0])
    full = amb.completed(a)
    values, before = amb.functions(full, X), amb.functions(a, X)
    possible = amb.possible(X)
    assert not possible.all()
    np.testing.assert_allclose(values[possible], before[possible])
    assert values[~possible].min() >= 1
    assert amb.b @ full == pytest.approx(amb.b @ a)


def test_shortfall_is_the_worst_set_of_classes() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.7, 0.5, (50, 3))
    sets = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    lacks = [len(S) - 1 - values[:, S].sum(axis=1) for S in sets]
    assert shortfall(values) == pytest.approx(np.max(lacks))
    assert shortfall(np.full((4, 3), 5.0)) == 0


def test_general_tables(table: np.ndarray) -> None:
    codes = outcomes(table.shape).astype(str)
    rows = pd.DataFrame(codes, columns=["a", "b", "c", "y"]).assign(count=table.ravel())
    series = rows.set_index(["c", "a", "y"])["count"].groupby(level=[0, 1, 2]).sum()
    frame = rows.groupby(["b", "a"], as_index=False)["count"].sum()
    amb = of_tables([series, frame], "y")
    assert list(amb.columns.names) == ["c", "a", "b"]  # as they come
    first, second = amb.tables
    assert (first.features, first.with_target) == ((0, 1), True)
    assert (second.features, second.with_target) == ((1, 2), False)
    np.testing.assert_allclose(
        first.probabilities, table.sum(axis=1).transpose(1, 0, 2), atol=1e-15
    )
    np.testing.assert_allclose(second.probabilities, table.sum(axis=(2, 3)))
    np.testing.assert_allclose(amb.priors, table.sum(axis=(0, 1, 2)))
    crossed = {("a", "y"): rows.pivot_table("count", "a", "y", aggfunc="sum")}
    np.testing.assert_allclose(
        of_tables(crossed, "y").tables[0].probabilities, table.sum(axis=(1, 2))
    )


def test_tables_of_binned_columns_and_missing_cells() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 9, 90), "sex": ["f", "m", None] * 30})
    X.loc[:4, "age"] = np.nan
    m = Marginals.from_data(X, pd.Series(rng.integers(0, 2, 90), name="y"))
    amb = of_tables([m.block("age", "y"), m.block("sex", "age")], m)
    np.testing.assert_allclose(amb.tables[0].probabilities * 90, m.block("age", "y"))
    np.testing.assert_allclose(
        amb.tables[1].probabilities.T * 90, m.block("sex", "age")
    )


def test_pairwise_is_the_same_set(table: np.ndarray) -> None:
    """Tables of every kind: those of single columns with Y and of pairs say it all."""
    amb = make(table, conditional=True)
    label = Table((), True, amb.priors)
    loose = Table((0, 2), False, amb.tables[4].probabilities.sum(axis=-1))
    column = Table((1,), False, table.sum(axis=(0, 2, 3)))
    given = (amb.tables[3], loose, label, column, amb.tables[5], amb.tables[4])
    found = Ambiguity(amb.columns, amb.target, given).pairwise()
    assert found is not None
    for mine, theirs in zip(found.tables, amb.tables, strict=True):
        assert (mine.features, mine.with_target) == (theirs.features, True)
        np.testing.assert_allclose(mine.probabilities, theirs.probabilities)
    # Without Y for some column, or with a table of three, there is no such form.
    untied = (amb.tables[0], amb.tables[1], loose)
    assert Ambiguity(amb.columns, amb.target, untied).pairwise() is None
    three = Table((0, 1, 2), False, table.sum(axis=-1))
    assert Ambiguity(amb.columns, amb.target, (*given, three)).pairwise() is None
    assert Ambiguity(amb.columns.take([]), amb.target, (label,)).pairwise() is None


def test_no_table_with_the_target() -> None:
    table = pd.DataFrame({"a": ["0", "1"], "b": ["1", "0"], "count": [1, 1]})
    with pytest.raises(ValueError, match="target 'y'"):
        of_tables([table], "y")


@pytest.mark.parametrize("K", [2, 3, 5])
def test_both_direct_programs_agree(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = random_joint((2, 3, 2), K, concentration=0.3, random_state=K)
    amb = make(table)
    values = []
    for most in (1, 9):
        monkeypatch.setattr("renyi.robust.minimax_problem._MAX_CLASSES", most)
        found, p = solve_direct(amb, amb.outcomes())
        assert found.status == "optimal"
        values.append(found.value)
        X = outcomes(amb.sizes)
        assert shortfall(amb.functions(found.multiplier, X)) < 1e-12
        np.testing.assert_allclose(
            amb.constraint_matrix(amb.outcomes()) @ p.ravel(), amb.b, atol=1e-8
        )
        assert 1 - p.max(axis=1).sum() == pytest.approx(found.value, abs=1e-7)
    assert values[0] == pytest.approx(values[1], abs=1e-8)


def test_worst_member_is_at_least_any_member(table: np.ndarray) -> None:
    amb = make(table)
    X = outcomes(amb.sizes)
    loss = np.random.default_rng(0).random((len(X), 3))
    p, answer = worst_member(amb, loss, X)
    value = -answer.value
    assert value >= (loss * table.reshape(-1, 3)).sum()
    assert (loss * p).sum() == pytest.approx(value)
    np.testing.assert_allclose(amb.constraint_matrix(X) @ p.ravel(), amb.b, atol=1e-8)


def test_totals_that_disagree_are_named() -> None:
    table = random_joint((2, 2), 2, random_state=0)
    amb = make(table)
    odd = Table((0,), False, 0.9 * table.sum(axis=(1, 2)))
    more = Ambiguity(amb.columns, amb.target, (*amb.tables, odd))
    text = str(contradiction_error(more))
    assert "The margins disagree: everything together" in text
