"""The minimax problem of given tables, and of tables that no distribution has."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import renyi.robust.minimax_problem
from renyi import Marginals
from renyi.datasets import load, random_joint
from renyi.robust.minimax_problem import minimax
from support.counted import draw, marginals
from support.joints import outcomes

TOL = 1e-6


# ---- contingency tables


def long_table(table: np.ndarray, names: list[str], keep: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(outcomes(table.shape).astype(str), columns=names)
    frame["count"] = table.ravel()
    return frame.groupby(keep, as_index=False)["count"].sum()


def test_tables_of_pairs_are_the_marginals() -> None:
    table = draw(9)
    names = [f"x{i}" for i in range(table.ndim - 1)] + ["y"]
    pairs = [[a, b] for i, a in enumerate(names) for b in names[i + 1 :]]
    tables = [long_table(table, names, pair) for pair in pairs]
    expected = minimax(marginals(table))
    for m in ("y", marginals(table)):
        result = minimax(m, tables=tables)
        assert result.note == ""  # how many rows there were is not known
        assert result.upper == pytest.approx(expected.upper, abs=TOL)
        assert result.gap < TOL


def test_tables_of_three_columns_against_a_program_of_their_own() -> None:
    from scipy.optimize import linprog

    table = random_joint((2, 3, 2, 2), 2, concentration=0.3, random_state=3)
    names = ["a", "b", "c", "d", "y"]
    keeps = [["a", "b", "c"], ["b", "c", "y"], ["c", "d", "y"], ["y"], ["d"]]
    tables = [long_table(table, names, keep) for keep in keeps]
    result = minimax("y", tables=tables)
    codes = outcomes(table.shape)
    rows, b = [], []
    for keep in keeps:
        places = [names.index(name) for name in keep]
        for cell in outcomes([table.shape[i] for i in places]):
            inside = (codes[:, places] == cell).all(axis=1)
            rows.append(inside)
            b.append(table.ravel()[inside].sum())
    n = table.size // 2
    above = np.kron(np.eye(n), np.ones((2, 1)))
    answer = linprog(
        np.append(np.zeros(2 * n), np.ones(n)),
        A_ub=np.hstack([np.eye(2 * n), -above]),
        b_ub=np.zeros(2 * n),
        A_eq=np.hstack([np.array(rows, float), np.zeros((len(rows), n))]),
        b_eq=b,
        options={"presolve": False},
    )
    assert result.upper == pytest.approx(1 - answer.fun, abs=TOL)
    assert result.gap < TOL
    assert result.worst_distribution.marginal_error < 1e-9
    proba = result.rule.rule_proba(
        pd.DataFrame([["0", "1", "0", "1"]], columns=names[:4])
    )
    assert proba.shape == (1, 2)


def test_cross_tables_with_missing_cells() -> None:
    X, y = load("votes")
    X = X[["crime", "immigration"]]
    m = Marginals.from_data(X, y)
    blocks = [m.block(a, b) for a, b in (("crime", "party"), ("immigration", "party"))]
    loose = minimax(m, tables=blocks)
    tight = minimax(m, tables=[*blocks, m.block("crime", "immigration")])
    assert tight.upper == pytest.approx(minimax(m).upper, abs=TOL)
    assert loose.upper >= tight.upper - TOL
    np.testing.assert_array_equal(
        tight.rule.decide(X), minimax(m, tables=blocks[:1]).rule.decide(X)
    )


def test_tables_that_make_no_sense_are_refused() -> None:
    one = pd.DataFrame({"a": ["0", "1"], "y": ["n", "p"], "count": [1, 1]})
    with pytest.raises(ValueError, match="'z'"):
        minimax("z", tables=[one.assign(z=["0", "1"]).drop(columns="z")])
    with pytest.raises(ValueError, match="'b'"):
        m = Marginals.from_tables([one], target="y")
        minimax(m, tables=[one.rename(columns={"a": "b"})])
    with pytest.raises(ValueError, match="'7' of 'a'"):
        minimax(m, tables=[one.assign(a=["0", "7"])])
    with pytest.raises(ValueError, match="tables="):
        minimax("y")
    with pytest.raises(ValueError, match="no tables"):
        minimax("y", tables=[])
    with pytest.raises(ValueError, match="only one class"):
        minimax("y", tables=[one.assign(y="n")])
    with pytest.raises(ValueError, match="method"):
        minimax(m, method="fast")
    for name in ("time_limit", "tolerance"):
        for value in (0, -1.0, np.nan, "5"):
            with pytest.raises(ValueError, match=name):
                minimax(m, **{name: value})


def test_marginals_of_no_classes_are_refused() -> None:
    frame = pd.DataFrame({"a": ["0", "1", "1", "0"], "y": ["n", "p", None, "p"]})
    with pytest.raises(ValueError, match="'y' is missing in some of the rows"):
        minimax(Marginals.from_data(frame, target="a").with_target("y"))
    with pytest.raises(ValueError, match="'b' has only one class, 7:"):
        minimax(Marginals.from_data(frame.assign(b=7), target="a").with_target("b"))


def test_too_many_outcomes_for_general_tables() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 4, (900, 9)).astype(str)).add_prefix("c")
    y = pd.Series(rng.integers(0, 2, 900).astype(str), name="y")
    every = X.assign(y=y)
    tables = [every.value_counts([c, "y"]) for c in X]
    three = every.value_counts(["c0", "c1", "c2"])
    with pytest.raises(ValueError, match="too many to list"):
        minimax("y", tables=[*tables, three], method="exact")
    with pytest.raises(ValueError, match="too many to list"):  # no c8 with the target
        pair = every.value_counts(["c0", "c8"])
        minimax("y", tables=[*tables[:-1], pair], method="exact")
    bound = minimax("y", tables=tables, method="lp").upper
    ones = [
        1 - every.value_counts([c, "y"]).unstack().max(axis=1).sum() / 900 for c in X
    ]
    assert bound <= min(ones) + TOL
    few = minimax("y", tables=tables[:5])
    assert few.status == "solved"
    loose = minimax("y", tables=tables[:5], method="lp")
    assert few.upper <= loose.upper + TOL
    assert bound <= loose.upper + TOL


# ---- empty C


def unequal(first: str, second: str) -> pd.DataFrame:
    return pd.DataFrame({first: ["0", "1"], second: ["1", "0"], "count": [5, 5]})


def test_tables_that_no_distribution_has_are_refused() -> None:
    label = pd.DataFrame({"a": ["0", "1"], "y": ["n", "p"], "count": [5, 5]})
    tables = [unequal("a", "b"), unequal("a", "c"), unequal("b", "c"), label]
    with pytest.raises(ValueError, match="margins agree: leave out columns"):
        minimax("y", tables=tables)


def test_margins_that_disagree_are_named() -> None:
    label = pd.DataFrame({"a": ["0", "1"], "y": ["n", "p"], "count": [4, 6]})
    with pytest.raises(ValueError, match="a = 0 .* 'a' × 'y'"):
        minimax("y", tables=[unequal("a", "b"), label])


def test_marginals_without_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trap of consistent margins, as marginals, by every exact method."""
    good = pd.DataFrame(outcomes((2, 2, 2)).astype(str), columns=["a", "b", "c"])
    m = Marginals.from_data(good, pd.Series(["n", "p"] * 4, name="y"))
    counts = m.counts.copy()
    for i in range(3):
        for j in range(i):
            block = np.array([[1, 3], [3, 1]])  # P(X_i = X_j) = 1/4
            counts[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = block
            counts[2 * j : 2 * j + 2, 2 * i : 2 * i + 2] = block
    bad = Marginals(counts, m.n, m.columns, m.target, m.settings)
    with pytest.raises(ValueError, match="margins agree"):
        minimax(bad)
    monkeypatch.setattr(renyi.robust.minimax_problem, "_QUICK", 0)
    with pytest.raises(ValueError, match="margins agree"):
        minimax(bad, method="exact")
