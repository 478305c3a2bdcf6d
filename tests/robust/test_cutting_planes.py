"""Cutting planes: the interval, its evidence, and the parts of the search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from renyi import Marginals
from renyi.datasets import load, random_joint
from renyi.limits import Deadline
from renyi.robust import pairwise_min
from renyi.robust.ambiguity_set import Ambiguity, of_tables, shortfall
from renyi.robust.cutting_planes import AnyRule, Oracle, search, tree_draws
from renyi.robust.master_program import Box, Master, corrected, solve
from renyi.robust.minimax_problem import MinimaxResult, minimax
from renyi.robust.pairwise_program import Bound, solve_local, table_rule
from support.counted import marginals
from support.joints import marginal_constraints, minimax_error, outcomes

TOL = 1e-6


def make(sizes: tuple[int, ...], K: int, seed: int, conditional: bool = False):
    """A table, and the set of the distributions with its marginals."""
    table = random_joint(sizes, K, concentration=0.3, random_state=seed)
    codes = outcomes(table.shape).astype(str)
    m = Marginals.from_data(
        pd.DataFrame(codes[:, :-1]).add_prefix("c"),
        codes[:, -1],
        sample_weight=table.ravel(),
        class_conditional=conditional,
    )
    return table, Ambiguity.of(m)


@pytest.mark.parametrize(("K", "conditional"), [(2, False), (3, False), (3, True)])
def test_normalised_multipliers_have_the_same_functions(K, conditional) -> None:
    _, amb = make((2, 3, 3), K, 0, conditional)
    a = np.random.default_rng(1).normal(size=len(amb.b))
    found = amb.normalised(a)
    X = outcomes(amb.sizes)
    np.testing.assert_allclose(amb.functions(found, X), amb.functions(a, X), atol=1e-12)
    np.testing.assert_allclose(found[amb.reference_cells], 0, atol=1e-12)
    assert amb.b @ found == pytest.approx(amb.b @ a)


@pytest.mark.parametrize("conditional", [False, True])
def test_the_oracle_minimises_the_functions(conditional: bool) -> None:
    _, amb = make((2, 3, 4), 3, 2, conditional)
    a = np.random.default_rng(3).normal(size=len(amb.b))
    oracle, forever = Oracle(AnyRule(amb)), Deadline(None)
    assert len(oracle.problem.sets) == 7
    values = amb.functions(a, outcomes(amb.sizes))
    for S in oracle.problem.sets:
        least = values[:, list(S)].sum(axis=1).min()
        assert oracle.exact(a, S, forever).bound == pytest.approx(least)
        quick = oracle.quick(a, S, np.empty((0, 3), np.int64))
        assert quick.values[0] == pytest.approx(least)  # 500 starts for 24 outcomes


@pytest.mark.parametrize("seed", range(6))
def test_mended_functions_are_feasible(seed: int) -> None:
    K = 2 + seed % 3
    table, amb = make((2, 3, 2), K, seed)
    rng = np.random.default_rng(seed)
    a = solve_local(amb).multiplier + 0.05 * rng.normal(size=len(amb.b))
    X = outcomes(amb.sizes)
    values = amb.functions(a, X)
    bounds = {S: float(values[:, list(S)].sum(axis=1).min()) for S in AnyRule(amb).sets}
    value, multiplier = AnyRule(amb).mended(a, bounds)
    assert shortfall(amb.functions(multiplier, X)) < 1e-9
    assert amb.b @ multiplier == pytest.approx(value)
    A, b = marginal_constraints(table)
    assert value >= minimax_error(A, b, K) - TOL
    assert value <= 1 - amb.priors.max() + TOL  # w = 0 is always open
    shift = shortfall(values)
    assert value <= amb.b @ a + shift + TOL  # better than the plain shift
    wild = dict.fromkeys(bounds, -np.inf)
    assert AnyRule(amb).mended(a, wild)[0] == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_search_with_proofs_by_whole_numbers(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where outcomes are too many to list, the mixed-integer program takes over."""
    K = 2 + seed % 2
    table, amb = make((2, 3, 2, 2), K, seed)
    A, b = marginal_constraints(table)
    e_star = minimax_error(A, b, K)
    first = solve_local(amb)
    monkeypatch.setattr(pairwise_min, "MAX_OUTCOMES", 0)
    found = search(AnyRule(amb), first.multiplier, first.value)
    assert found.lower == pytest.approx(e_star, abs=2e-6)
    assert found.upper == pytest.approx(e_star, abs=2e-6)
    assert found.lower <= e_star + 1e-8
    assert found.upper >= e_star - 1e-8
    assert found.status == "optimal"


def test_the_evidence_is_a_distribution_with_these_marginals() -> None:
    table, amb = make((3, 3, 3), 2, 4)
    first = solve_local(amb)
    X = outcomes(amb.sizes)
    found = search(AnyRule(amb), first.multiplier, first.value)
    A, b = marginal_constraints(table)
    assert found.upper == pytest.approx(minimax_error(A, b, 2), abs=TOL)
    p = np.zeros((len(X), 2))
    codes = {tuple(x): k for k, x in enumerate(X.tolist())}
    for x, mass in zip(found.outcomes.tolist(), found.p, strict=True):
        p[codes[tuple(x)]] += mass
    assert np.abs(A @ p.ravel() - b).max() < 1e-8
    assert 1 - p.max(axis=1).sum() == pytest.approx(found.lower, abs=TOL)


def test_the_master_knows_a_cut_once() -> None:
    _, amb = make((2, 2), 2, 0)
    master = Master(amb)
    X = outcomes(amb.sizes)
    assert master.add(X, (0,), np.zeros(4)) == 4
    assert master.add(X, (0,), np.zeros(4)) == 0
    assert master.add(X[:2], (0, 1), np.ones(2)) == 2
    assert len(master.keys) == master.G.shape[0] == len(master.outcomes) == 6


def test_no_time_leaves_the_start() -> None:
    _, amb = make((3, 3, 3), 2, 4)
    first = solve_local(amb)
    found = search(AnyRule(amb), first.multiplier, first.value, time_limit=0.0)
    assert (found.lower, found.upper) == (0.0, first.value)
    X = outcomes(amb.sizes)
    values = amb.functions(found.best, X)
    np.testing.assert_allclose(values, amb.functions(first.multiplier, X), atol=1e-9)


# ---- the parts of the master program


def draw_program(seed: int) -> tuple[csr_array, np.ndarray, np.ndarray, Box]:
    """Cuts that a known multiplier meets, and a box around it."""
    rng = np.random.default_rng(seed)
    R, N = int(rng.integers(2, 8)), int(rng.integers(1, 30))
    G = rng.integers(0, 3, (N, R)).astype(float)
    G[:, 0] = 1
    centre = rng.normal(size=R)
    g = G @ centre - rng.exponential(size=N) * (rng.random(N) < 0.7)
    up = np.zeros(R)
    up[0] = 0.1
    box = Box(centre, 0.5 + seed % 3, centre + up)
    return csr_array(G), g, rng.dirichlet(np.ones(R)), box


@pytest.mark.parametrize("seed", range(12))
def test_interior_points_against_simplex(seed: int) -> None:
    G, g, b, box = draw_program(seed)
    ends = np.stack([box.centre - box.radius, box.centre + box.radius], axis=1)
    best = linprog(b, A_ub=-G, b_ub=-g, bounds=ends).fun
    for target in (1e-1, 1e-4, 1e-9):
        found = solve(G, g, b, box, target)
        assert found.gap <= target
        # Feasible on both sides, so that each value is a bound.
        assert (G @ found.a - g).min() > 0
        assert np.abs(found.a - box.centre).max() < box.radius
        assert min(found.w.min(), found.u.min(), found.v.min()) > 0
        np.testing.assert_allclose(G.T @ found.w - found.u + found.v, b, atol=1e-9)
        dual = g @ found.w - (box.centre + box.radius) @ found.u
        dual += (box.centre - box.radius) @ found.v
        assert dual - 1e-9 <= best <= b @ found.a + 1e-9
        assert b @ found.a - dual == pytest.approx(found.gap, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_interior_points_go_on_after_new_cuts(seed: int) -> None:
    G, g, b, box = draw_program(seed)
    few = max(1, len(g) // 2)
    first = solve(G[:few], g[:few], b, box, 1e-3)
    cold, warm = solve(G, g, b, box, 1e-9), solve(G, g, b, box, 1e-9, first)
    assert b @ warm.a == pytest.approx(b @ cold.a, abs=1e-8)
    assert warm.gap <= 1e-9


def test_no_time_leaves_interior_points_where_they_began() -> None:
    G, g, b, box = draw_program(3)
    found = solve(G, g, b, box, 1e-9, deadline=Deadline(0))
    np.testing.assert_array_equal(found.a, box.inside)
    np.testing.assert_allclose(G.T @ found.w - found.u + found.v, b, atol=1e-12)


def test_corrected_weights() -> None:
    rng = np.random.default_rng(0)
    G = csr_array(rng.integers(0, 2, (40, 8)).astype(float))
    w = rng.dirichlet(np.ones(40))
    b = G.T @ w
    found = corrected(G, b, w * rng.uniform(0.9, 1.1, 40))
    assert found is not None
    assert found.min() >= 0
    np.testing.assert_allclose(G.T @ found, b, atol=1e-12)
    assert corrected(G[:1], b, np.ones(1)) is None  # one column cannot do
    assert corrected(csr_array(np.eye(2)), np.array([1.0, -1.0]), np.ones(2)) is None


def test_draws_follow_the_pairs_that_tell_most() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 3, 500)
    X = pd.DataFrame({"a": x, "b": (x + 1) % 3, "c": rng.integers(0, 2, 500), "d": x})
    m = Marginals.from_data(X.astype(str), pd.Series(x == 0).astype(str))
    amb = Ambiguity.of(m)
    drawn = tree_draws(amb, 300, rng)
    assert amb.possible(drawn).any(axis=1).all()  # b and d follow from a
    assert len(drawn) == 6
    assert len(np.unique(drawn, axis=0)) == len(drawn)


def add_all(master: Master, X: np.ndarray) -> None:
    problem = AnyRule(master.ambiguity)
    for S in problem.sets:
        master.add(X, S, problem.right(X, S))


def test_forgetting_keeps_the_value() -> None:
    _, amb = make((3, 3, 3), 2, 1)
    first = solve_local(amb)
    master, X = Master(amb), outcomes(amb.sizes)
    centre = amb.normalised(first.multiplier)
    add_all(master, X)
    before = amb.b @ master.solve(centre, 5.0, 1e-9, Deadline(None))
    master.kept = 50
    master.forget()
    assert len(master.g) == len(master.keys) == len(master.outcomes) == 50
    after = amb.b @ master.solve(centre, 5.0, 1e-9, Deadline(None))
    assert after == pytest.approx(before, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_members_are_exhibited(seed: int) -> None:
    table, amb = make((3, 3, 2), 2, seed)
    master, X = Master(amb), outcomes(amb.sizes)
    centre = amb.normalised(solve_local(amb).multiplier)
    assert master.member() is None
    add_all(master, X)
    master.solve(centre, 5.0, 1e-6, Deadline(None))
    A, b = marginal_constraints(table)
    e_star = minimax_error(A, b, 2)
    for found in (master.member(), master.sparse_member(10.0)):
        assert found is not None
        p = np.zeros((len(X), 2))
        for x, mass in zip(*found, strict=True):
            p[(x == X).all(axis=1)] += mass
        assert np.abs(A @ p.ravel() - b).max() < 1e-8
        assert 1 - p.max(axis=1).sum() == pytest.approx(e_star, abs=1e-5)
    assert len(found[0]) <= len(master.cells)


@pytest.mark.parametrize("seed", range(3))
def test_many_cells_go_by_simplex(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interior points and simplex close the same interval."""
    monkeypatch.setattr("renyi.robust.master_program._MOST_CELLS", 3)
    table, amb = make((3, 3, 3), 2 + seed % 2, seed)
    first = solve_local(amb)
    found = search(AnyRule(amb), first.multiplier, first.value)
    e_star = minimax_error(*marginal_constraints(table), amb.n_classes)
    assert found.lower - TOL <= e_star <= found.upper + TOL
    assert found.gap <= 1e-6 < found.lower


# ---- which sets may be empty


def counted(blocks: dict[tuple[str, str], np.ndarray]) -> list[pd.DataFrame]:
    """Cross tables of binary columns."""
    return [
        pd.DataFrame(
            cells,
            index=pd.Index(["0", "1"], name=first),
            columns=pd.Index(["0", "1"], name=second),
        )
        for (first, second), cells in blocks.items()
    ]


@pytest.fixture
def nobody() -> Marginals:
    """Margins that agree and a Q that is positive semidefinite, yet C is empty."""
    rare, label = np.array([[14, 36], [36, 14]]), np.array([[30, 20], [20, 30]])
    blocks = dict.fromkeys((("a", "b"), ("a", "c"), ("b", "c")), rare)
    blocks |= {(name, "y"): label for name in "abc"}
    return Marginals.from_tables(counted(blocks), target="y")


def test_a_bound_of_zero_does_not_hide_an_empty_set(
    nobody: Marginals, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert np.linalg.eigvalsh(nobody.Q).min() > -1e-12
    bound = minimax(nobody, method="lp")
    assert bound.upper < 1e-9
    assert (bound.status, bound.worst_distribution) == ("bounded", None)
    monkeypatch.setattr("renyi.robust.minimax_problem._QUICK", 0)
    with pytest.raises(ValueError, match="No distribution has these tables"):
        minimax(nobody, method="exact")


@pytest.mark.parametrize("seed", range(4))
def test_an_error_of_zero_has_a_witness(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first column tells the class."""
    monkeypatch.setattr("renyi.robust.minimax_problem._QUICK", 0)
    table = random_joint((3, 2, 3, 2), 2, concentration=0.3, random_state=seed)
    table[0, ..., 1] = table[1:, ..., 0] = 0
    codes = outcomes(table.shape).astype(str)
    X, y = pd.DataFrame(codes[:, :-1]).add_prefix("c"), codes[:, -1]
    m = Marginals.from_data(X, y, sample_weight=table.ravel())
    result = minimax(m, method="exact")
    assert (result.status, result.method) == ("solved", "cutting planes")
    assert result.upper < TOL
    assert result.worst_distribution is not None
    assert result.worst_distribution.marginal_error < 1e-9


def test_bounds_that_contradict_each_other_are_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("renyi.robust.minimax_problem._QUICK", 0)
    table, amb = make((3, 3, 3), 2, 4)
    m = marginals(table)

    def too_low(*args, **options):
        found = search(*args, **options)
        found.upper -= 1e-3
        return found

    assert minimax(m, method="exact").lower > 0.01
    monkeypatch.setattr("renyi.robust.cutting_planes.search", too_low)
    with pytest.raises(RuntimeError, match="contradict"):
        minimax(m, method="exact")


def test_a_program_that_fails_leaves_the_simple_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("renyi.robust.minimax_problem._QUICK", 0)
    table, amb = make((3, 3, 3), 2, 4)
    m = marginals(table)
    failed = Bound(np.inf, np.zeros(len(amb.b)), "stopped")
    monkeypatch.setattr(
        "renyi.robust.pairwise_program.solve_local", lambda *a, **o: failed
    )
    assert minimax(m, method="lp").status == "stopped"
    result = minimax(m, method="exact")
    assert result.status == "solved"
    A, b = marginal_constraints(table)
    assert result.upper == pytest.approx(minimax_error(A, b, 2), abs=TOL)


def test_the_clock_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left of what was kept for finding a member of C."""
    _, amb = make((3, 3, 3), 2, 4)
    first = solve_local(amb)
    start = (AnyRule(amb), first.multiplier, first.value)
    assert search(*start, time_limit=100.0).status == "optimal"
    monkeypatch.setattr("renyi.robust.cutting_planes._KEPT", 1.1)
    assert search(*start, time_limit=100.0).status == "stopped"


# ---- categories of next to no weight


@pytest.mark.parametrize(
    ("seed", "weight"),
    [(15, 1e-6), (18, 1e-7), (28, 1e-7), (28, 1e-8), (29, 1e-8), (3, 1e-12)],
)
def test_rare_categories_leave_no_vacuous_interval(
    seed: int, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A category of next to no weight: the bounds hardly feel it, a member must."""
    rng = np.random.default_rng(seed)
    table = random_joint(
        (3, 3, 2, 2), 2 + seed % 2, concentration=0.3, random_state=seed
    )
    table[0] *= weight * (rng.random(table[0].shape) < 0.4)
    if seed % 3:
        table = table.transpose(1, 2, 3, 0, 4)
    codes = outcomes(table.shape).astype(str)
    m = Marginals.from_data(
        pd.DataFrame(codes[:, :-1]).add_prefix("c"),
        codes[:, -1],
        sample_weight=table.ravel(),
    )
    direct = minimax(m, method="exact")
    assert (direct.method, direct.status) == ("direct", "solved")
    monkeypatch.setattr("renyi.robust.minimax_problem._QUICK", 0)
    cut = minimax(m, method="exact")
    assert (cut.method, cut.status) == ("cutting planes", "solved")
    assert cut.lower - 1e-9 <= direct.upper
    assert direct.lower <= cut.upper + 1e-9


# ---- tables of people who have no rows


@pytest.mark.parametrize("seed", range(4))
def test_tables_of_pairs_go_by_cutting_planes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some pairs absent, some within each class, the target also by itself."""
    table = random_joint((2, 3, 2, 3), 2 + seed % 2, random_state=seed)
    names = ["a", "b", "c", "d", "y"]
    rows = pd.DataFrame(outcomes(table.shape).astype(str), columns=names)
    rows["count"] = table.ravel()
    keeps = [["a", "y"], ["b", "d", "y"], ["c", "y"], ["a", "b"], ["y"], ["c"]]
    keeps += [["c", "d"]] if seed > 1 else []
    tables = [rows.groupby(keep, as_index=False)["count"].sum() for keep in keeps]
    direct = minimax("y", tables=tables, method="exact")
    assert direct.method == "direct"
    bound = minimax("y", tables=tables, method="lp")
    assert bound.upper >= direct.upper - TOL
    monkeypatch.setattr("renyi.robust.minimax_problem._QUICK", 0)
    result = minimax("y", tables=tables, method="exact")
    assert (result.status, result.method) == ("solved", "cutting planes")
    assert result.upper == pytest.approx(direct.upper, abs=TOL)
    worst = result.worst_distribution
    found = of_tables(tables, "y").constraint_matrix(worst.outcomes) @ worst.p.ravel()
    np.testing.assert_allclose(found, of_tables(tables, "y").b, atol=1e-9)


def test_a_table_of_the_target_must_agree() -> None:
    label = np.array([[30, 20], [20, 30]])
    tables = counted({("a", "y"): label, ("b", "y"): label})
    alone = pd.DataFrame({"y": ["0", "1"], "count": [50, 50]})
    for method in ("lp", "exact"):
        with_it = minimax("y", method, tables=[*tables, alone])
        assert with_it.upper == pytest.approx(minimax("y", method, tables).upper)
        assert minimax("y", method, tables=[alone]).upper == pytest.approx(0.5)
        untied = pd.DataFrame({"a": ["0", "1"], "count": [60, 40]})
        only = minimax("y", method, tables=[untied, alone.assign(count=[30, 70])])
        assert only.upper == pytest.approx(0.3)
        with pytest.raises(ValueError, match="y = 0"):
            minimax("y", method, tables=[*tables, alone.assign(count=[49, 51])])


# ---- tables as large as people have


def check_solved(m: Marginals, result: MinimaxResult) -> None:
    """The rule keeps what it promises under the distribution, and no rule does more."""
    assert result.status == "solved"
    assert 0 <= result.gap <= 1e-6
    worst = result.worst_distribution
    frame = worst.frame()
    again = Marginals.from_data(
        frame.drop(columns="probability"),
        target=m.target,
        sample_weight=frame["probability"],
    )
    np.testing.assert_allclose(again.F.sum(axis=0), m.F.sum(axis=0), atol=1e-9)
    assert worst.marginal_error <= 1e-9
    assert worst.error(result.rule) == pytest.approx(result.upper, abs=TOL)
    assert 1 - worst.p.max(axis=1).sum() == pytest.approx(result.lower, abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_votes_is_solved(seed: int) -> None:
    X, y = load("votes")
    m = Marginals.from_data(X, y)
    result = minimax(m, method="exact", random_state=seed)
    check_solved(m, result)
    assert result.upper <= table_rule(Ambiguity.of(m))[0] + 1e-9


@pytest.mark.long
def test_kr_vs_kp_is_solved() -> None:
    """36 columns: categories that never meet leave few enough outcomes to prove."""
    X, y = load("kr-vs-kp")
    m = Marginals.from_data(X, y)
    result = minimax(m, method="exact")
    check_solved(m, result)
    assert result.upper < minimax(m, method="lp").upper - 0.02
    proba = result.rule.rule_proba(X)
    truth = np.searchsorted(np.asarray(m.classes), y)
    assert 1 - proba[np.arange(len(y)), truth].mean() <= result.upper + TOL
