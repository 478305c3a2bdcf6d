"""The l1,∞ problem: optimality, ADMM, a cone solver, rows against counts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import renyi
from renyi.counting import pair_counts, sparse_counts
from renyi.counting.compiled import load
from renyi.selection import counts_problem
from renyi.solvers import l1inf, l1inf_path
from renyi.solvers.l1inf import (
    CountsProblem,
    RowsProblem,
    StepCounter,
    begin,
    block_step,
    cheaper_form,
)
from renyi.solvers.l1inf_path import descend, penalty_grid, solve_path
from support.joints import one_hot
from support.noisyrows import noisy
from support.repeats import covering

KERNELS = "renyi.solvers.l1inf_kernels"
ADMM = Path(__file__).parents[2] / "experiments" / "admm.py"


@pytest.fixture(scope="module")
def admm():
    """The second way, which is a script and no part of the package."""
    spec = importlib.util.spec_from_file_location("admm", ADMM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["numpy", "compiled", "both"])
def passes(request, monkeypatch):
    """Run a test with the passes of numpy, the compiled ones, one after the other."""
    few = {"numpy": np.inf, "compiled": -1, "both": 20}[request.param]
    monkeypatch.setattr(l1inf, "FEW_STEPS", few)
    if request.param == "both":  # whatever the shape lets expect
        monkeypatch.setattr(l1inf, "_STEPS", 0)
        monkeypatch.setattr(l1inf, "_STEPS_WIDE", 0)
    assert load(KERNELS) is not None
    return request.param


class Sample:
    """Random rows whose classes depend on some features, and their moments."""

    def __init__(self, seed, n=60, d=8, K=2, most=5, weighted=False):
        rng = np.random.default_rng([seed, n, d, K])
        self.sizes = rng.integers(1, most + 1, d)
        X = np.stack([rng.integers(0, m, n) for m in self.sizes], axis=1)
        score = sum(
            rng.normal(size=(m, K))[X[:, j]]
            for j, m in enumerate(self.sizes[: d // 2 + 1])
        )
        self.y = (score + rng.normal(size=(n, K))).argmax(axis=1)
        self.y[:K] = np.arange(K)
        self.codes, self.K = X.T.astype(np.uint8), K
        self.weights = rng.integers(1, 5, n).astype(float) if weighted else None
        share = np.ones(n) if self.weights is None else self.weights
        self.share = share / share.sum()
        self.W = one_hot(X, self.sizes)
        Y = (self.y[:, None] == np.arange(K)).astype(float)
        self.Q = self.W.T @ (self.share[:, None] * self.W)
        self.F = self.W.T @ (self.share[:, None] * Y)
        self.priors = self.share @ Y
        # What the rows are to be explained by: one column for two classes.
        T = Y - 1 / K
        self.T = T[:, 1:] if K == 2 else T
        self.weight = 1.0 if K == 2 else 0.5

    def counts(self, fit_intercept=True, steps=None):
        sizes, n = self.sizes, len(self.y)
        return CountsProblem(
            self.Q, self.F, self.priors, sizes, n, fit_intercept, steps
        )

    def rows(self, fit_intercept=True, steps=None):
        return RowsProblem(
            self.codes, self.sizes, self.y, self.K, self.weights, fit_intercept, steps
        )

    def blocks(self, z):
        return np.split(z, np.cumsum(self.sizes)[:-1])

    def residual(self, z, intercept):
        scores = self.W @ z.reshape(len(z), -1) + intercept
        return self.T - scores

    def objective(self, lam, z, intercept):
        """γ + λ Σ max|z_i|, row by row."""
        squares = (self.residual(z, intercept) ** 2).sum(axis=1)
        largest = [np.abs(block).max() for block in self.blocks(z)]
        return self.weight * self.share @ squares + lam * sum(largest)

    def centred(self):
        """Q and target of the problem from which the intercept is eliminated."""
        mu, T = self.share @ self.W, self.T - self.share @ self.T
        R = self.W.T @ (self.share[:, None] * T)
        variance = self.weight * self.share @ (T**2).sum(axis=1)
        target = 2 * R[:, 0] if self.K == 2 else R
        return self.Q - np.outer(mu, mu), target, variance

    def literal(self):
        """Q and target as they are."""
        R = self.W.T @ (self.share[:, None] * self.T)
        variance = self.weight * self.share @ (self.T**2).sum(axis=1)
        return self.Q, 2 * R[:, 0] if self.K == 2 else R, variance


def path(problem, n_lambdas=30, ratio=0.01, **options):
    """The path from the largest penalty down to a share of it."""
    return solve_path(problem, penalty_grid(problem, n_lambdas, ratio), **options)


def assert_optimal(sample, lam, z, intercept, fit_intercept, tolerance=1e-6):
    """KKT conditions, from the rows."""
    r = sample.residual(z, intercept)
    G = 2 * sample.weight * sample.W.T @ (sample.share[:, None] * r)
    if fit_intercept:
        assert np.abs(sample.share @ r).max() < tolerance
    for g, own in zip(sample.blocks(G), sample.blocks(z), strict=True):
        own = own.reshape(g.shape)
        assert np.abs(g).sum() <= lam + tolerance
        largest = np.abs(own).max()
        if largest > 1e-4:
            # g is λ times a subgradient of max|z|: it has norm λ, lives on the
            # largest points alone and has their signs.
            assert np.abs(g).sum() == pytest.approx(lam, abs=tolerance)
            assert (g * own).sum() == pytest.approx(lam * largest, abs=tolerance)


# ---- one feature


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_a_block_step_beats_every_other_point(m, seed):
    rng = np.random.default_rng(seed)
    b, q = rng.normal(size=m), rng.uniform(0.01, 1, m)
    if seed % 3 == 0:
        b[0] = q[0] = 0
    penalty = rng.uniform(0.01, 1.2) * np.abs(b).sum() + 1e-9

    def value(z):
        return (q * z**2 / 2 - b * z).sum(axis=-1) + penalty * np.abs(z).max(axis=-1)

    z = block_step(b, q, penalty)
    others = z + rng.normal(size=(200, m)) * rng.choice([1e-3, 0.1, 1], (200, 1))
    assert value(z) <= value(others).min() + 1e-12
    assert value(z) <= 0
    t = np.abs(z).max()
    taken = np.maximum(np.abs(b) - q * t, 0).sum()
    assert taken == pytest.approx(min(penalty, np.abs(b).sum()), abs=1e-12)


def test_compiled_block_step_is_the_same():
    kernels = load(KERNELS)
    rng = np.random.default_rng(0)
    for _ in range(200):
        columns, m = rng.integers(1, 4), rng.integers(1, 7)
        b, q = rng.normal(size=(columns, m)), rng.uniform(0.01, 1, m)
        penalty = float(rng.uniform(0.01, 1.2) * np.abs(b).sum())
        z, change = np.zeros_like(b), np.empty_like(b)
        moved = kernels.block_step(b, q, penalty, z, change)
        expected = block_step(b.ravel(), np.tile(q, columns), penalty)
        np.testing.assert_allclose(z.ravel(), expected, atol=1e-13)
        assert moved == expected.any()


# ---- optimality


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("K", [2, 3])
def test_conditions_and_gap_hold_along_the_path(K, fit_intercept, passes):
    sample = Sample(1, n=80, d=7, K=K)
    found = path(sample.counts(fit_intercept), n_lambdas=8, tol=1e-10)
    assert found.converged
    assert (found.gaps <= 1e-10 * found.objectives).all()
    assert (found.gaps >= -1e-12).all()
    for lam, z, intercept, value in zip(
        found.lambdas, found.z, found.intercepts, found.objectives, strict=True
    ):
        assert_optimal(sample, lam, z, intercept, fit_intercept)
        own = sample.objective(lam, z, intercept)
        assert value == pytest.approx(own, abs=1e-12)
        assert fit_intercept or not np.any(intercept)
    assert found.active[-1].sum() > 1


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("K", [2, 3])
def test_the_path_is_empty_from_lambda_max_on(K, fit_intercept):
    sample = Sample(2, K=K)
    problem = sample.counts(fit_intercept)
    top = penalty_grid(problem, 2, 0.5)[0]
    _, target, _ = sample.centred() if fit_intercept else sample.literal()
    expected = max(np.abs(block).sum() for block in sample.blocks(target))
    assert top == pytest.approx(expected, rel=1e-12)
    lambdas = top * np.array([2, 1 + 1e-9, 0.999])
    found = solve_path(problem, lambdas, tol=1e-12)
    assert not found.z[:2].any()
    assert not found.active[:2].any()
    # Several features enter together where their norms are the same.
    norms = np.array([np.abs(block).sum() for block in sample.blocks(target)])
    assert found.active[2].any()
    assert (norms[found.active[2]] >= 0.999 * top).all()


def problems(count):
    """Random problems, every other one with more indicators than rows."""
    for seed in range(count):
        wide = seed % 2 == 1
        K = 3 if seed % 5 == 4 else 2
        sample = Sample(seed, n=15 if wide else 70, d=9, K=K, weighted=seed % 3 == 0)
        assert not wide or len(sample.Q) > 15
        yield sample, seed % 4 < 2, 0.05 + 0.9 * (seed % 7) / 7


def test_agreement_with_admm_on_fifty_problems(admm, monkeypatch):
    monkeypatch.setattr(l1inf, "FEW_STEPS", -1)
    seen = 0
    for sample, fit_intercept, share in problems(50):
        Q, target, variance = sample.centred() if fit_intercept else sample.literal()
        problem = sample.counts(fit_intercept)
        lam = share * penalty_grid(problem, 2, 0.5)[0]
        found = solve_path(problem, np.array([lam]), tol=1e-9)
        z = admm.solve(Q, target, sample.sizes, lam, tol=1e-7)
        value = admm.objective(Q, target, sample.sizes, lam, z) + variance
        assert found.objectives[0] == pytest.approx(value, abs=1e-5)
        # The proven bound lies below what the other way reached.
        assert found.objectives[0] - found.gaps[0] <= value + 1e-10
        seen += 1
    assert seen == 50


def cone_program(Q, target, sizes, lam, weight):
    """Solve by an interior point method: min over z, t with |z_i(k)| ≤ t_i."""
    D, d = len(Q), len(sizes)
    columns = 1 if target.ndim == 1 else target.shape[1]
    P = sp.block_diag([2 * weight * Q] * columns + [sp.csc_matrix((d, d))])
    linear = target if target.ndim == 1 else target.T.ravel()
    c = np.concatenate([-linear, np.full(d, lam)])
    owner = np.repeat(np.arange(d), sizes)
    bound = sp.csc_matrix((np.ones(D), (np.arange(D), owner)), (D, d))
    bounds = sp.vstack([bound] * columns)
    one = sp.identity(D * columns)
    A = sp.vstack([sp.hstack([one, -bounds]), sp.hstack([-one, -bounds])]).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(A.shape[0])]
    P = sp.triu(P).tocsc()
    solver = clarabel.DefaultSolver(P, c, A, np.zeros(A.shape[0]), cones, settings)
    return solver.solve().obj_val


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("K", [2, 3])
def test_agreement_with_a_cone_solver(seed, K, passes):
    sample = Sample(seed + 100, n=[12, 100][seed % 2], d=6, K=K)
    fit_intercept = seed < 2
    Q, target, variance = sample.centred() if fit_intercept else sample.literal()
    found = path(sample.counts(fit_intercept), n_lambdas=4, tol=1e-9)
    for lam, value in zip(found.lambdas, found.objectives, strict=True):
        optimum = cone_program(Q, target, sample.sizes, lam, sample.weight)
        assert value == pytest.approx(optimum + variance, abs=1e-7)


# ---- rows and moments, numpy and compiled, two classes and K


@pytest.mark.parametrize(
    ("n", "K", "weighted", "fit_intercept"),
    covering((12, 90), (2, 3), (True, False), (True, False)),
)
def test_rows_give_what_their_moments_give(n, K, weighted, fit_intercept, passes):
    sample = Sample(3, n=n, d=8, K=K, most=11, weighted=weighted)
    options = {"n_lambdas": 4, "ratio": 0.1, "tol": 1e-10}
    found = path(sample.counts(fit_intercept), **options)
    rows = path(sample.rows(fit_intercept), **options)
    np.testing.assert_allclose(rows.lambdas, found.lambdas, rtol=1e-12)
    np.testing.assert_allclose(rows.objectives, found.objectives, atol=1e-9)
    assert rows.z.shape == found.z.shape
    if n == 90:
        # Few rows leave several solutions of the same value.
        np.testing.assert_allclose(rows.intercepts, found.intercepts, atol=1e-4)
    for lam, z, intercept in zip(rows.lambdas, rows.z, rows.intercepts, strict=True):
        assert_optimal(sample, lam, z, intercept, fit_intercept)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("by_rows", [True, False])
def test_compiled_passes_take_the_steps_of_numpy(K, by_rows):
    sample = Sample(4, n=50, d=6, K=K, most=10)
    ends = []
    for expected in (0, np.inf):
        steps = StepCounter()
        steps.expected = expected
        problem = sample.rows(True, steps) if by_rows else sample.counts(True, steps)
        begin(problem)
        part = problem.restricted(np.arange(6))
        points = np.empty((3, *part.z.shape))
        states = np.empty((3, *part.state.shape))
        l1inf.passes(part, np.arange(6), 0.01, points, states)
        ends.append((points, states))
    for numpy_part, compiled_part in zip(*ends, strict=True):
        np.testing.assert_allclose(compiled_part, numpy_part, atol=1e-13)
    assert ends[0][0].any()


@pytest.fixture
def loaded(monkeypatch):
    """Count how often the compiled passes are asked for."""
    seen = []
    monkeypatch.setattr(l1inf, "load", seen.append)
    return seen


def test_small_tables_do_without_the_compiled_passes(loaded):
    votes = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    path(counts_problem(votes))
    renyi.RenyiSelector().fit(*renyi.datasets.load("votes"))
    assert not loaded


def test_wide_tables_take_them_at_once(loaded):
    sample = Sample(20, n=20, d=20)
    assert sample.sizes.sum() > 20
    path(sample.rows(), n_lambdas=11, ratio=0.9)
    assert loaded


def test_many_steps_take_them_whatever_the_shape(loaded, monkeypatch):
    sample = Sample(21, n=200, d=6)
    found = path(sample.counts(), n_lambdas=5, tol=1e-9)
    assert not loaded
    steps = int((found.iterations * found.active.sum(axis=1)).sum())
    monkeypatch.setattr(l1inf, "_STEPS", 0)
    monkeypatch.setattr(l1inf, "FEW_STEPS", 2 * steps)
    # Steps of problems solved together are added up, those of others are not.
    together, needed = StepCounter(), []
    for own in (None, None, None, together, together, together):
        loaded.clear()
        path(sample.counts(True, own), n_lambdas=5, tol=1e-9)
        needed.append(bool(loaded))
    assert not any(needed[:4]) and needed[-1]
    # A row costs as well.
    sample = Sample(22, n=3000, d=3)
    loaded.clear()
    path(sample.rows(), n_lambdas=3, ratio=0.5)
    assert not loaded
    monkeypatch.setattr(l1inf, "_STEP_ROWS", 1)
    path(sample.rows(), n_lambdas=3, ratio=0.5)
    assert loaded


# ---- screening


def test_bounds_on_norms_hold_and_spare_work():
    sample = Sample(6, n=40, d=60)
    problem = sample.rows()
    begin(problem)
    first = problem.norms(0.0)
    penalty = float(np.sort(first)[-10])
    working = np.flatnonzero(first >= penalty)
    part = problem.restricted(working)
    descend(part, penalty, 1e-6, 100)
    problem.absorb(part)
    bounds = problem.norms(penalty)
    r = sample.residual(problem.z.T, problem.intercept())
    G = sample.W.T @ (sample.share[:, None] * r)
    true = np.array([np.abs(g).sum() for g in sample.blocks(G)])
    looked_at = np.isclose(bounds, true, atol=1e-12)
    assert (bounds >= true - 1e-12).all()
    assert looked_at[true >= penalty].all()
    assert not looked_at.all()


def test_features_that_screening_missed_come_back(monkeypatch):
    sample = Sample(7, n=60, d=20)
    expected = path(sample.counts(), n_lambdas=4, tol=1e-9)
    monkeypatch.setattr(l1inf_path, "screened", lambda *_: np.zeros(20, bool))
    found = path(sample.counts(), n_lambdas=1, tol=1e-9)
    assert not found.z.any()
    # From nothing to the last penalty: every feature must come by the check.
    last = expected.lambdas[-1:]
    found = solve_path(sample.counts(), last, tol=1e-9)
    np.testing.assert_allclose(found.objectives, expected.objectives[-1:], atol=1e-8)
    assert found.active.sum() > 3


# ---- hard cases


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_duplicated_columns(fit_intercept, passes):
    sample = Sample(8, n=80, d=5)
    twice = np.vstack([sample.codes, sample.codes])
    sizes, priors = np.tile(sample.sizes, 2), sample.priors
    Q, F = np.tile(sample.Q, (2, 2)), np.tile(sample.F, (2, 1))
    options = {"n_lambdas": 6, "tol": 1e-9}
    once = path(sample.counts(fit_intercept), **options)
    found = path(CountsProblem(Q, F, priors, sizes, 80, fit_intercept), **options)
    rows = RowsProblem(twice, sizes, sample.y, 2, None, fit_intercept)
    rows = path(rows, **options)
    # A copy adds nothing: the optimum is the same, shared in any proportion.
    np.testing.assert_allclose(found.objectives, once.objectives, atol=1e-8)
    np.testing.assert_allclose(rows.objectives, once.objectives, atol=1e-8)
    d = len(sample.sizes)
    either = found.active[:, :d] | found.active[:, d:]
    assert (either == once.active).all()


@pytest.mark.parametrize("K", [2, 3])
def test_rows_of_one_class_leave_nothing_to_explain(K, passes):
    sample = Sample(10, n=15, d=9, K=K)
    problem = RowsProblem(sample.codes, sample.sizes, np.zeros(15, int), K)
    found = path(problem, n_lambdas=3)
    assert not found.z.any() and not found.active.any()
    np.testing.assert_allclose(found.objectives, 0, atol=1e-15)
    expected = -0.5 if K == 2 else np.eye(3)[0] - 1 / 3
    np.testing.assert_allclose(found.intercepts[0], expected)


def test_small_penalties_of_a_wide_table():
    """A table on which descent is slow: 14,000 passes at one of the penalties."""
    rng = np.random.default_rng(0)
    for rep in range(19):
        K, d, n = (int(rng.integers(*ends)) for ends in ((2, 5), (1, 25), (5, 60)))
        sizes = rng.integers(1, 6, d)
        codes = np.stack([rng.integers(0, m, n) for m in sizes])
        if rep % 3 == 0 and d > 3 and sizes[1] <= sizes[0]:
            codes[1] = codes[0] % sizes[1]
        y, weights = rng.integers(0, K, n), rng.exponential(size=n)
        weights[rng.random(n) < 0.1] = 0
    assert (K, d, n, sizes.sum()) == (2, 15, 42, 56)
    held = weights > 0
    problem = RowsProblem(codes[:, held], sizes, y[held], 2, weights[held], False)
    found = path(problem, ratio=1e-3, n_lambdas=45)
    assert found.converged
    assert found.iterations.max() > 10_000


def test_missed_gaps_are_told():
    sample = Sample(9, n=200, d=12)
    with pytest.warns(ConvergenceWarning, match="1e-13 within 5 passes"):
        found = path(sample.counts(), n_lambdas=5, max_passes=5, tol=1e-13)
    assert not found.converged
    assert found.reached[0]
    assert (found.iterations <= 5).all()
    # The bound is still one: the optimum lies in between.
    best = path(sample.counts(), n_lambdas=5, tol=1e-9)
    assert (found.objectives >= best.objectives - best.gaps - 1e-12).all()
    assert (found.objectives - found.gaps <= best.objectives + 1e-12).all()


def test_a_target_without_relation_leaves_every_feature():
    Q = np.full((4, 4), 0.25)
    Q[:2, :2] = Q[2:, 2:] = np.diag([0.5, 0.5])
    F = np.full((4, 2), 0.25)
    problem = CountsProblem(Q, F, np.full(2, 0.5), np.array([2, 2]), 4)
    found = path(problem, n_lambdas=3)
    assert not found.z.any()
    assert found.objectives == pytest.approx([0.25] * 3)


def test_a_path_on_real_marginals_from_both_ends():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    encoder, codes = renyi.Encoder().fit_transform(X)
    sizes, labels = encoder.columns.sizes, (y == "republican").to_numpy(int)
    found = path(counts_problem(m), tol=1e-7)
    rows = path(RowsProblem(codes, sizes, labels, 2), tol=1e-7)
    np.testing.assert_allclose(rows.objectives, found.objectives, atol=1e-7)
    assert found.active.sum(axis=1)[0] == 0
    # γ falls and the points grow with every smaller penalty.
    largest = [
        np.abs(np.split(z, np.cumsum(sizes)[:-1])).max(axis=1).sum() for z in found.z
    ]
    assert (np.diff(largest) > -1e-6).all()
    gamma = found.objectives - found.lambdas * largest
    assert (np.diff(gamma) < 1e-6).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_and_their_counts_agree(n_classes):
    X, y = noisy(n=60, n_classes=n_classes)
    encoder, codes = renyi.Encoder().fit_transform(X)
    weights = np.random.default_rng(1).uniform(0.5, 2, 60)
    rows = RowsProblem(codes, encoder.columns.sizes, y, n_classes, weights)
    counts = rows.counted()
    found, other = path(rows, tol=1e-8), path(counts, tol=1e-8)
    np.testing.assert_allclose(found.objectives, other.objectives, rtol=1e-6)
    np.testing.assert_allclose(rows.risks(found), counts.risks(found), atol=1e-12)
    z = np.ascontiguousarray(found.solutions()[-1][0].T)
    for problem in (rows, counts):
        problem.move_to(z.copy())
    norms = rows.norms(0.0)
    np.testing.assert_allclose(norms, counts.norms(0.0), atol=1e-12)
    penalty = [
        lam * np.abs(step.reshape(6, -1)).max(axis=1).sum()
        for lam, step in zip(found.lambdas, found.z, strict=True)
    ]
    np.testing.assert_allclose(rows.risks(found) + penalty, found.objectives)
    # KKT: features without points have a gradient within the penalty.
    assert (2 * rows.weight * norms <= found.lambdas[-1] + 1e-4).all()


def test_the_shape_decides_between_rows_and_counts():
    sizes = np.full(5, 4)
    wide = RowsProblem(np.zeros((5, 10), int), sizes, np.zeros(10, int), 2)
    long = RowsProblem(np.zeros((5, 100), int), sizes, np.zeros(100, int), 2)
    assert cheaper_form(wide) is wide
    assert isinstance(cheaper_form(long), CountsProblem)


# ---- marginals that no rows have


def test_categories_without_rows_are_of_no_class():
    F = np.array([[0.2, 0.3], [0.3, 0.2]])
    with pytest.raises(ValueError, match="not positive semidefinite"):
        CountsProblem(np.diag([0.5, 0.0]), F, np.full(2, 0.5), np.array([2]), 10)


def test_pairs_that_no_rows_have():
    # Three binary features, any two of which always differ.
    apart = np.array([[0, 0.5], [0.5, 0]])
    Q = np.block(
        [[np.eye(2) / 2 if i == j else apart for j in range(3)] for i in range(3)]
    )
    F = np.tile([[0.1, 0.4], [0.4, 0.1]], (3, 1))
    assert np.linalg.eigvalsh(Q)[0] < -0.1
    problem = CountsProblem(Q, F, np.full(2, 0.5), np.array([2, 2, 2]), 10, False)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        solve_path(problem, np.array([0.01]))


def test_counts_beyond_the_limit_are_not_made(monkeypatch) -> None:
    monkeypatch.setattr(pair_counts, "MAX_TABLE_BYTES", 5_000)
    monkeypatch.setattr(sparse_counts, "FEW", 0)  # which is less than a table takes
    codes = np.array([np.arange(10), np.arange(10) % 2])
    problem = RowsProblem(codes, np.array([40, 2]), codes[1], 2)
    with pytest.raises(ValueError, match="limit"):
        problem.counted()
