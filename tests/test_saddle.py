"""The minimax problem, with the linear programs of joints.py as judge."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest

import renyi.saddle
from joints import error, marginal_constraints, minimax_error, outcomes, worst_case
from renyi import Marginals, programs
from renyi.ambiguity import Ambiguity, of_tables, shortfall
from renyi.datasets import load, random_joint
from renyi.distributions import WorstDistribution, polished
from renyi.saddle import (
    MinimaxResult,
    answer_proba,
    minimax,
    quadratic_rule,
    table_rule,
)

TOL = 1e-6


def draw(seed: int, largest: int = 300) -> np.ndarray:
    """A table of up to six columns: dense, with empty cells, or with nearly empty."""
    rng = np.random.default_rng(seed)
    K, kind = int(rng.integers(2, 4)), seed % 3
    sizes = rng.integers(2, 5, rng.integers(1, 7))
    while np.prod(sizes) > largest:
        sizes = sizes[:-1]
    while True:
        table = random_joint(tuple(sizes), K, random_state=rng)
        if kind == 1:
            table = rng.multinomial(40, table.ravel()).reshape(table.shape) / 40
        elif kind == 2:
            table = np.where(rng.random(table.shape) < 0.5, 1e-9 * table, table)
            table = table / table.sum()
        axes = range(table.ndim)
        margins = [table.sum(axis=tuple(set(axes) - {i})) for i in axes]
        if min(margin.min() for margin in margins) > 0:
            return table


def marginals(table: np.ndarray, class_conditional: bool = False) -> Marginals:
    codes = outcomes(table.shape).astype(str)
    names = [f"x{i}" for i in range(table.ndim - 1)]
    X = pd.DataFrame(codes[:, :-1], columns=names)
    return Marginals.from_data(
        X,
        pd.Series(codes[:, -1], name="y"),
        sample_weight=table.ravel(),
        class_conditional=class_conditional,
    )


def grid(table: np.ndarray) -> np.ndarray:
    return outcomes(table.shape[:-1])


def check_saddle(table: np.ndarray, result: MinimaxResult) -> None:
    """Both sides of the saddle point, and the evidence for each."""
    A, b = marginal_constraints(table)
    e_star = minimax_error(A, b, table.shape[-1])
    assert result.lower <= result.upper
    assert result.upper == pytest.approx(e_star, abs=TOL)
    assert result.lower == pytest.approx(e_star, abs=TOL)
    assert result.status == "solved"
    # The functions are feasible at all outcomes, and the rule attains its guarantee.
    rule, X = result.rule, grid(table)
    assert shortfall(rule.functions(X.T)) < 1e-7
    proba = rule.of_codes(X.T)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.min() >= 0
    assert worst_case(proba, A, b) == pytest.approx(e_star, abs=TOL)
    # The distribution has the marginals, and no rule does better under it.
    worst = result.worst_distribution
    assert worst is not None
    assert worst.p.min() >= 0
    assert worst.marginal_error <= 1e-9
    assert worst.error(rule) == pytest.approx(e_star, abs=TOL)
    assert 1 - worst.p.max(axis=1).sum() == pytest.approx(e_star, abs=TOL)
    # The rule answers only what is most likely under the worst distribution.
    loss = worst.p.max(axis=1, keepdims=True) - worst.p
    assert (rule.of_codes(worst.outcomes.T) * loss).max() < TOL
    # The deterministic rule is within twice the guarantee.
    best = np.eye(table.shape[-1])[rule.functions(X.T).argmin(axis=1)]
    assert worst_case(best, A, b) <= 2 * e_star + TOL


@pytest.mark.parametrize("seed", range(40))
def test_direct_program(seed: int) -> None:
    table = draw(seed)
    result = minimax(marginals(table))
    assert result.method == "direct"
    check_saddle(table, result)


@pytest.mark.parametrize("seed", range(100, 118))
def test_cutting_planes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)
    table = draw(seed, largest=120)
    result = minimax(marginals(table), method="exact", tolerance=1e-7)
    assert result.method == "cutting planes"
    check_saddle(table, result)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_three_hundred_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = draw(seed, largest=1500)
    check_saddle(table, minimax(marginals(table)))
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)
    check_saddle(table, minimax(marginals(table), "exact", tolerance=1e-7))


@pytest.mark.parametrize("seed", range(20))
def test_polynomial_program_is_an_upper_bound_that_its_rule_keeps(seed: int) -> None:
    table = draw(seed)
    A, b = marginal_constraints(table)
    K = table.shape[-1]
    m = marginals(table)
    result = minimax(m, method="lp")
    assert result.lower == 0
    assert result.worst_distribution is None
    assert result.upper >= minimax_error(A, b, K) - TOL
    X = grid(table)
    assert shortfall(result.rule.functions(X.T)) < 1e-9
    assert worst_case(result.rule.of_codes(X.T), A, b) <= result.upper + TOL
    # Never worse than looking at one feature, or at none.
    ones = [1 - m.block(f, "y").max(axis=1).sum() / m.n for f in m.feature_names]
    assert result.upper <= min([*ones, 1 - m.class_probabilities.max()]) + 1e-8


def test_polynomial_program_on_real_tables() -> None:
    for name, value in (("votes", 0.04368), ("kr-vs-kp", 0.13204), ("credit", 0.13623)):
        result = minimax(Marginals.from_data(*load(name)), method="lp")
        assert result.upper == pytest.approx(value, abs=1e-5)
        assert result.status == "bounded"


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_class_conditional_pairs_leave_fewer_distributions(seed: int) -> None:
    table = draw(seed)
    m = marginals(table, class_conditional=True)
    wide = minimax(m, class_conditional=False)
    narrow = minimax(m)
    assert narrow.upper <= wide.upper + TOL
    assert narrow.gap <= TOL
    assert narrow.worst_distribution is not None
    # Its pairs within each class are those of the table.
    worst = narrow.worst_distribution
    for i in range(table.ndim - 1):
        for j in range(i):
            found = np.zeros((table.shape[j], table.shape[i], table.shape[-1]))
            np.add.at(found, (worst.outcomes[:, j], worst.outcomes[:, i]), worst.p)
            rest = tuple(set(range(table.ndim - 1)) - {i, j})
            np.testing.assert_allclose(found, table.sum(axis=rest), atol=1e-9)


def test_two_columns_with_class_conditional_pairs_are_known_exactly() -> None:
    table = random_joint((3, 4), 3, random_state=5)
    result = minimax(marginals(table, class_conditional=True))
    bayes = 1 - table.max(axis=-1).sum()
    assert result.lower == pytest.approx(bayes, abs=1e-9)
    assert result.upper == pytest.approx(bayes, abs=1e-9)


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
    with pytest.raises(ValueError, match="No table has the target 'z'"):
        minimax("z", tables=[one.assign(z=["0", "1"]).drop(columns="z")])
    with pytest.raises(ValueError, match="no column 'b'"):
        m = Marginals.from_tables([one], target="y")
        minimax(m, tables=[one.rename(columns={"a": "b"})])
    with pytest.raises(ValueError, match="the category '7' of 'a'"):
        minimax(m, tables=[one.assign(a=["0", "7"])])
    with pytest.raises(ValueError, match="give tables= or marginals"):
        minimax("y")
    with pytest.raises(ValueError, match="no tables"):
        minimax("y", tables=[])
    with pytest.raises(ValueError, match="only one class"):
        minimax("y", tables=[one.assign(y="n")])
    with pytest.raises(ValueError, match="method must be"):
        minimax(m, method="fast")
    for name in ("time_limit", "tolerance"):
        for value in (0, -1.0, np.nan, "5"):
            with pytest.raises(ValueError, match=f"{name} must be a number above 0"):
                minimax(m, **{name: value})


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


def test_a_contradiction_is_told_in_words() -> None:
    label = pd.DataFrame({"a": ["0", "1"], "y": ["n", "p"], "count": [5, 5]})
    tables = [unequal("a", "b"), unequal("a", "c"), unequal("b", "c"), label]
    with pytest.raises(ValueError, match="although their margins agree") as caught:
        minimax("y", tables=tables)
    text = str(caught.value)
    assert text.count("P(") <= 6
    # Check the sentence: the sum it names, under every outcome and by the tables.
    said, most, told = text.split(" agree: ")[1].partition(" is at most "), 0, 0
    most, told = (float(v.rstrip(".")) for v in _numbers(said[2]))
    terms = said[0].replace("− ", "+ -").split("+ ")
    sums = np.zeros(8)
    by_tables = 0.0
    for term in filter(None, terms):
        sign = -1.0 if term.startswith("-") else 1.0
        cell = term[term.index("(") + 1 : term.index(")")]
        wanted = dict(part.split(" = ") for part in cell.split(", "))
        assert set(wanted) <= {"a", "b", "c"}
        for k, x in enumerate(outcomes((2, 2, 2))):
            values = dict(zip("abc", x.astype(str), strict=True))
            sums[k] += sign * all(values[c] == v for c, v in wanted.items())
        by_tables += sign * (0.5 if len(set(wanted.values())) == 2 else 0)
    assert sums.max() == most
    assert by_tables == told > most


def _numbers(text: str) -> tuple[str, str]:
    most, _, rest = text.partition(" under any distribution, yet the tables say ")
    return most, rest


def test_margins_that_disagree_are_named() -> None:
    label = pd.DataFrame({"a": ["0", "1"], "y": ["n", "p"], "count": [4, 6]})
    with pytest.raises(ValueError, match="margins disagree: a = 0 .* 'a' × 'y'"):
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
    with pytest.raises(ValueError, match="although their margins agree"):
        minimax(bad)
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)
    with pytest.raises(ValueError, match="although their margins agree"):
        minimax(bad, method="exact")


# ---- stopping early


@pytest.fixture(scope="module")
def wide() -> tuple[Marginals, float]:
    """Twelve binary columns, and e* of their pairs by the direct program."""
    rng = np.random.default_rng(1)
    hidden, y = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    p = rng.dirichlet(np.ones(2), (12, 3, 2))[:, hidden, y, 0]
    X = pd.DataFrame((rng.random(p.shape) < p).T.astype(int).astype(str)).add_prefix(
        "c"
    )
    m = Marginals.from_data(X, pd.Series(y.astype(str), name="y"))
    return m, minimax(m).upper


def test_the_interval_holds_whenever_it_stops(wide: tuple[Marginals, float]) -> None:
    m, e_star = wide
    for limit in (1e-6, 0.05, 0.3, 0.6):
        for method in ("lp", "exact", "auto"):
            result = minimax(m, method=method, time_limit=limit)
            assert result.lower <= e_star + TOL
            assert result.upper >= e_star - TOL
            assert 0 <= result.lower <= result.upper <= 0.5 + TOL
            X = m.encoder.transform(pd.DataFrame([["0"] * 12], columns=m.feature_names))
            assert result.rule.of_codes(X).sum() == pytest.approx(1)


def test_cutting_planes_tell_their_progress(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)
    seen = []
    result = minimax(m, method="exact", progress=seen.append)
    assert result.status == "solved"
    assert result.upper == pytest.approx(e_star, abs=TOL)
    assert len(seen) > 2
    for before, after in zip(seen[:-1], seen[1:], strict=True):
        assert before.lower <= after.lower <= e_star + TOL
        assert before.upper >= after.upper >= e_star - TOL
        assert before.cuts <= after.cuts


def test_interrupt_returns_the_interval_reached(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)
    seen = []

    def interrupt(progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    result = minimax(m, method="exact", progress=interrupt)
    assert len(seen) == 3
    assert result.status == "stopped"
    assert result.lower <= e_star + TOL <= result.upper + 2 * TOL


@pytest.mark.parametrize("limit", [1e-6, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4])
def test_cutting_planes_stopped_at_any_moment(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)
    check_interval(minimax(m, method="exact", time_limit=limit), e_star)


def check_interval(result: MinimaxResult, e_star: float) -> None:
    """Both ends are proven, the lower by a distribution with these marginals."""
    assert 0 <= result.lower <= result.upper
    assert result.lower <= e_star + TOL
    assert result.upper >= e_star - TOL
    worst = result.worst_distribution
    if worst is None:
        assert result.lower == 0
    else:
        assert worst.marginal_error <= 1e-9
        assert worst.p.min() >= 0
        assert 1 - worst.p.max(axis=1).sum() >= result.lower - 1e-12


@pytest.mark.parametrize("rounds", [1, 2, 4, 6])
def test_interrupt_in_any_round(
    wide: tuple[Marginals, float], monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    m, e_star = wide
    monkeypatch.setattr(renyi.saddle, "_QUICK", 0)

    def interrupt(progress) -> None:
        if progress.rounds == rounds:
            raise KeyboardInterrupt

    result = minimax(m, method="exact", progress=interrupt, tolerance=1e-12)
    assert result.status == "stopped"
    check_interval(result, e_star)


def test_control_c_during_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.integers(0, 2, (400, 13)).astype(str)).add_prefix("c")
    m = Marginals.from_data(X, pd.Series(rng.integers(0, 3, 400).astype(str), name="y"))
    pairs = [(a, b) for i, a in enumerate(m.columns.names) for b in m.columns.names[:i]]
    tables = [m.block(a, b) for a, b in pairs]
    tables.append(X.value_counts(["c0", "c1", "c2"]))  # for the direct program
    run = programs.run

    def interrupted(highs) -> None:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        run(highs)

    monkeypatch.setattr(programs, "run", interrupted)
    result = minimax(m, tables=tables, method="exact", time_limit=100)
    assert result.seconds < 30
    assert result.status == "stopped"
    assert result.lower <= result.upper <= 1 - m.class_probabilities.max() + TOL


# ---- rules, distributions, texts


def test_one_table_rule() -> None:
    table = draw(7)
    m = marginals(table)
    value, multiplier = table_rule(Ambiguity.of(m))
    best = min(1 - m.block(f, "y").max(axis=1).sum() / m.n for f in m.feature_names)
    assert value == pytest.approx(best)
    assert shortfall(Ambiguity.of(m).functions(multiplier, grid(table))) == 0


@pytest.mark.parametrize(("seed", "conditional"), [(0, False), (5, False), (6, True)])
def test_rule_of_least_squares(seed: int, conditional: bool) -> None:
    table = draw(seed)
    m = marginals(table, class_conditional=conditional)
    value, multiplier = quadratic_rule(Ambiguity.of(m))
    clf = renyi.RenyiClassifier(alpha=0.0).fit_marginals(m)
    assert value == pytest.approx(2 * clf.certificate_.gamma, abs=1e-9)
    functions = Ambiguity.of(m).functions(multiplier, grid(table))
    assert shortfall(functions) < 1e-9
    A, b = marginal_constraints(table)
    assert worst_case(answer_proba(functions), A, b) <= value + TOL
    assert minimax(m, method="lp").upper <= value + 1e-9


def test_least_squares_needs_all_pairs() -> None:
    X, y = load("votes")
    m = Marginals.from_data(X[["crime", "immigration"]], y)
    tables = [m.block("crime", "party"), m.block("immigration", "party")]
    assert quadratic_rule(of_tables(tables, m))[0] == np.inf


def test_unseen_labels_count_as_the_mean() -> None:
    table = random_joint((3, 2, 4), 3, random_state=8)
    rule = minimax(marginals(table)).rule
    shares = [table.sum(axis=tuple(set(range(4)) - {i})) for i in range(3)]
    one = rule.functions(np.array([[3], [1], [2]]))
    known = [rule.functions(np.array([[k], [1], [2]])) for k in range(3)]
    np.testing.assert_allclose(
        one, sum(s * v for s, v in zip(shares[0], known, strict=True))
    )
    both = rule.functions(np.array([[3], [2], [2]]))
    mean = sum(
        shares[0][k] * shares[1][j] * rule.functions(np.array([[k], [j], [2]]))
        for k in range(3)
        for j in range(2)
    )
    np.testing.assert_allclose(both, mean)
    frame = pd.DataFrame([["new", "1", "2"]], columns=["x0", "x1", "x2"])
    np.testing.assert_allclose(rule.rule_proba(frame), answer_proba(one))


def test_distribution_as_frame_and_sample() -> None:
    X, y = load("votes")
    few = X[["crime", "immigration", "education-spending"]]
    m = Marginals.from_data(few, y)
    worst = minimax(m).worst_distribution
    frame = worst.frame()
    assert frame["probability"].sum() == pytest.approx(1, abs=1e-12)
    assert frame["probability"].is_monotonic_decreasing
    assert len(frame) == len(worst)
    again = Marginals.from_data(
        frame.drop(columns="probability"),
        target="party",
        sample_weight=frame["probability"],
    )
    np.testing.assert_allclose(again.Q, m.Q, atol=1e-9)
    np.testing.assert_allclose(again.F, m.F, atol=1e-9)
    drawn = worst.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, 4)
    shares = Marginals.from_data(drawn, target="party")
    np.testing.assert_allclose(shares.Q, m.Q, atol=0.02)
    pd.testing.assert_frame_equal(drawn, worst.sample(20_000, random_state=0))
    assert "distribution on" in str(worst)


def test_error_of_a_fitted_model_under_a_distribution() -> None:
    X, y = load("votes")
    few = X[["crime", "immigration", "education-spending"]]
    worst = minimax(Marginals.from_data(few, y)).worst_distribution
    clf = renyi.RenyiClassifier(rule="sharp").fit(few, y)
    frame = worst.frame()
    proba = clf.rule_proba(frame[few.columns])
    right = proba[np.arange(len(frame)), (frame["party"] == "republican").astype(int)]
    expected = (frame["probability"] * (1 - right)).sum()
    assert worst.error(clf) == pytest.approx(expected)
    assert expected >= worst.bayes_error - 1e-12
    table = np.full((len(worst.outcomes), 2), 0.5)
    assert worst.error(table) == pytest.approx(error(table, worst.p))


@pytest.mark.parametrize("seed", range(6))
def test_polishing_restores_what_noise_took(seed: int) -> None:
    table = draw(seed)
    rng = np.random.default_rng(seed)
    ambiguity = Ambiguity.of(marginals(table))
    p = table.reshape(-1, table.shape[-1])
    noisy = np.maximum(p + 1e-7 * (p > 0) * rng.normal(size=p.shape), 0)
    fixed = polished(ambiguity, grid(table), noisy)
    A, b = marginal_constraints(table)
    assert np.abs(A @ fixed.ravel() - b).max() < 1e-10
    assert fixed.min() >= 0
    assert np.abs(fixed - p).max() < 1e-4


def test_polishing_may_need_outcomes_that_were_dropped() -> None:
    table = random_joint((3, 3), 2, random_state=0)
    ambiguity = Ambiguity.of(marginals(table))
    p = table.reshape(-1, 2).copy()
    p[3:6] = 0  # a whole category
    p += 1e-9
    p[3:6] = 0
    worst = WorstDistribution.of(ambiguity, grid(table), p)
    assert worst.marginal_error < 1e-9


def test_result_as_text() -> None:
    table = draw(3)
    exact, bound = minimax(marginals(table)), minimax(marginals(table), method="lp")
    assert "no rule can promise less than" in str(exact)
    assert f"{100 * exact.upper:.3g} %" in str(exact)
    assert "no rule" not in str(bound)
    assert bound.gap == bound.upper


def test_a_column_named_probability_is_kept() -> None:
    X = pd.DataFrame({"probability": list("ppqq") * 5, "b": list("uvuv") * 5})
    y = pd.Series(list("nnpp") * 5, name="probability_")
    shown = minimax(Marginals.from_data(X, y)).worst_distribution
    assert shown is not None
    frame = shown.frame()
    assert list(frame.columns) == ["probability", "b", "probability_", "probability__"]
    assert set(frame["probability"]) == {"p", "q"}
    assert frame["probability__"].sum() == pytest.approx(1)
    assert (frame["probability__"].diff().dropna() <= 0).all()
