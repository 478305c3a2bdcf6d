"""Every order at once, against regressions on all tuples, refits and brute force."""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renyi.solvers import ridge, ridge_kernel
from renyi.solvers.ridge_kernel import PLAIN, SIGNED, KernelModel

EXACT = {"rtol": 0, "atol": 1e-9}
ALPHAS = np.array([0.01, 0.3])


class Case(NamedTuple):
    """Rows with whole weights, and a kernel."""

    codes: Any
    sizes: Any
    y: Any
    weights: Any
    K: int
    form: str
    rho: float
    alpha: float

    @property
    def rows(self):
        w = self.weights
        return ridge.Rows(self.codes, self.sizes, self.y, self.K, w, w, np.ones(len(w)))

    @property
    def repeated(self):
        return np.repeat(np.arange(len(self.y)), self.weights.astype(int))

    @property
    def kernel(self):
        seen = ridge_kernel.categories_seen(self.codes)
        return ridge_kernel.kernel_of(self.form, self.rho, seen)

    def gram(self, a, b):
        """Return the kernel as the theory writes it."""
        same = a[:, :, None] == b[:, None, :]
        if self.rho == 0:
            return same.sum(axis=0).astype(float)
        unlike = np.ones(len(a))
        if self.form == SIGNED:
            unlike = 1 - self.rho / (ridge_kernel.categories_seen(self.codes) - 1)
        return np.where(same, 1 + self.rho, unlike[:, None, None]).prod(axis=0)

    @property
    def targets(self):
        Y = (self.y[self.repeated][:, None] == np.arange(self.K)).astype(float)
        return Y[:, 1:] if self.K == 2 else Y


@st.composite
def cases(draw, fewest=6, most=14):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.integers(2, 4))
    sizes = np.array(draw(st.lists(st.integers(2, 4), min_size=2, max_size=3)))
    n = draw(st.integers(max(fewest, K), most))
    codes = np.stack([rng.integers(0, m, n) for m in sizes]).astype(np.uint8)
    codes[:, 0] = 0
    codes[:, 1] = 1  # so that every column has two categories
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    form, rho = draw(
        st.sampled_from(
            [(PLAIN, 0.0), (PLAIN, 0.4), (PLAIN, 5.0), (SIGNED, 0.3), (SIGNED, 3.0)]
        )
    )
    weights = rng.integers(1, 4, n).astype(float)
    return Case(codes, sizes, y, weights, K, form, rho, draw(st.sampled_from(ALPHAS)))


class Brute(NamedTuple):
    """The kernel between repeated rows, in the units of the solver."""

    K: Any
    Y: Any
    penalty: float

    def fit(self, rows, other):
        """Train on some repeated rows; return estimates for others."""
        n = len(rows)
        top = np.hstack([self.K[np.ix_(rows, rows)], np.ones((n, 1))])
        top[:, :n] += self.penalty * np.eye(n)
        system = np.vstack([top, np.append(np.ones(n), 0)])
        right = np.vstack([self.Y[rows], np.zeros((1, self.Y.shape[1]))])
        solution = np.linalg.solve(system, right)
        return self.K[np.ix_(other, rows)] @ solution[:-1] + solution[-1]


def brute(case):
    codes = case.codes[:, case.repeated]
    gram = case.gram(codes, codes)
    n = codes.shape[1]
    H = np.eye(n) - 1 / n
    scale = np.trace(H @ gram @ H) / n
    return Brute(gram / scale, case.targets, case.alpha * n), scale


def solved(case):
    groups, place = ridge_kernel.grouped(case.rows)
    system = ridge_kernel.system_of(np, groups, case.kernel)
    return system, ridge_kernel.solve(np, system, case.alpha), place


def model_of(case, solution):
    counts = [
        np.bincount(column, case.weights, m)
        for column, m in zip(case.codes, case.sizes, strict=True)
    ]
    shares = np.concatenate([each / case.weights.sum() for each in counts])
    return KernelModel(
        case.kernel,
        case.sizes,
        solution.codes,
        solution.coef,
        solution.start,
        shares,
    )


# ---- the solution


@given(cases())
@settings(max_examples=40, deadline=None)
def test_solution_is_that_of_repeated_rows(case):
    _, solution, place = solved(case)
    own, _ = brute(case)
    every = np.arange(len(case.repeated))
    expected = own.fit(every, every)
    np.testing.assert_allclose(solution.t[place[case.repeated]], expected, **EXACT)
    scores = ridge_kernel.scores(np, model_of(case, solution), case.codes)
    t = scores[case.repeated] + 1 / case.K
    np.testing.assert_allclose(t, expected, **EXACT)


@given(cases())
@settings(max_examples=30, deadline=None)
def test_plain_kernel_is_ridge_regression_on_all_tuples(case):
    rho = case.rho or 1.0
    case = case._replace(form=PLAIN, rho=rho)
    _, solution, place = solved(case)
    _, scale = brute(case)
    codes = case.codes[:, case.repeated]
    d, n = codes.shape
    blocks = []
    subsets = chain.from_iterable(combinations(range(d), r) for r in range(1, d + 1))
    for S in subsets:
        # Penalty λ ρ^(−|S|) on a tuple is the penalty λ on its indicator times ρ^½|S|.
        levels = product(*(range(m) for m in case.sizes[list(S)]))
        for values in levels:
            indicator = np.all(codes[list(S)] == np.array(values)[:, None], axis=0)
            blocks.append(rho ** (len(S) / 2) * indicator)
    W = np.array(blocks).T
    centred = W - W.mean(axis=0)
    Y = case.targets
    gram = centred.T @ centred + case.alpha * n * scale * np.eye(W.shape[1])
    z = np.linalg.solve(gram, centred.T @ (Y - Y.mean(axis=0)))
    expected = Y.mean(axis=0) + centred @ z
    np.testing.assert_allclose(solution.t[place[case.repeated]], expected, **EXACT)


@given(cases(most=9))
@settings(max_examples=25, deadline=None)
def test_left_out_scores_are_refits_at_the_same_total_penalty(case):
    system, solution, place = solved(case)
    own, _ = brute(case)
    every = np.arange(len(case.repeated))
    refits = np.array([own.fit(np.delete(every, i), [i])[0] for i in every])
    group = place[case.repeated]
    left = 1 - solution.leverage[group][:, None]
    scores = own.Y - (own.Y - solution.t[group]) / left
    np.testing.assert_allclose(scores, refits, **EXACT)
    weight = 1.0 if case.K == 2 else 0.5
    risk = weight * ((own.Y - refits) ** 2).sum() / len(every)
    path = ridge_kernel.path(np, system, ALPHAS)
    at = int(np.flatnonzero(case.alpha == ALPHAS)[0])
    for held_out, k in ((solution.held_out, 0), (path, at)):
        assert held_out.weighted[k] == pytest.approx(risk, abs=1e-9)
        assert held_out.risk[k] == pytest.approx(risk, abs=1e-9)


@given(cases(most=9), st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_folds_are_refits_with_left_out_scores_of_their_own(case, folds):
    system, solution, place = solved(case)
    fold = np.arange(len(case.y)) % folds == 1
    scores, others = ridge_kernel.without_fold(
        np, system, solution, case.rows, place, fold
    )
    own, _ = brute(case)
    first = np.searchsorted(case.repeated, np.arange(len(case.y)))
    rest = np.flatnonzero(~fold[case.repeated])
    expected = own.fit(rest, first[fold]) - 1 / case.K
    np.testing.assert_allclose(scores, expected, **EXACT)
    refits = [
        own.fit(rest[rest != first[i]], [first[i]])[0] for i in np.where(~fold)[0]
    ]
    np.testing.assert_allclose(others.scores, np.array(refits) - 1 / case.K, **EXACT)


def test_landmarks_are_exact_if_they_are_all_rows():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (5, 90)).astype(np.uint8)
    y = rng.integers(0, 3, 90)
    rows = ridge.Rows(codes, np.full(5, 3), y, 3)
    groups, _ = ridge_kernel.grouped(rows)
    kernel = ridge_kernel.kernel_of(SIGNED, 0.6, np.full(5, 3))
    system = ridge_kernel.system_of(np, groups, kernel)
    part = ridge_kernel.landmark_solution(groups, kernel, np.arange(groups.n), 0.5)
    whole = ridge_kernel.solve(np, system, part.alpha)
    np.testing.assert_allclose(part.t, whole.t, **EXACT)
    np.testing.assert_allclose(part.leverage, whole.leverage, **EXACT)
    assert part.held_out.at(0) == pytest.approx(whole.held_out.at(0), abs=1e-9)


def test_neither_order_nor_repetition_of_rows_matters():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 300, (3, 40)).astype(np.uint16)
    y = rng.integers(0, 2, 40)
    sizes = np.full(3, 300)
    groups, _ = ridge_kernel.grouped(ridge.Rows(codes, sizes, y, 2))
    order = np.concatenate([rng.permutation(40), [3]])
    w = np.ones(41)
    w[[-1, int(np.flatnonzero(order == 3)[0])]] = 0.5
    unit = np.ones(41)
    again = ridge.Rows(codes[:, order], sizes, y[order], 2, w, w, unit)
    others, _ = ridge_kernel.grouped(again)
    np.testing.assert_array_equal(groups.codes, others.codes)
    np.testing.assert_array_equal(groups.weights, others.weights)
    np.testing.assert_array_equal(groups.means, others.means)
    np.testing.assert_array_equal(groups.cells.y, others.cells.y)


# ---- what it looks at


def averaged(scores, shares, keep):
    """Average over the columns that are not kept, as if they were independent."""
    for i, p in enumerate(shares):
        if i not in keep:
            mean = np.tensordot(p, np.moveaxis(scores, i, 0), 1)
            scores = np.moveaxis(mean[None], 0, i)
    return scores


@given(cases())
@settings(max_examples=40, deadline=None)
def test_parts_and_variances_are_those_of_the_product_distribution(case):
    _, solution, _ = solved(case)
    model = model_of(case, solution)
    shares = np.split(model.shares, np.cumsum(case.sizes)[:-1])
    d = len(case.sizes)
    every = np.array([*product(*(range(m) for m in case.sizes))], np.uint8).T
    scores = ridge_kernel.scores(np, model, every)
    table = scores.reshape(*case.sizes, -1)
    probability = np.ones(tuple(case.sizes))
    for i, p in enumerate(shares):
        shape = [1] * d
        shape[i] = -1
        probability = probability * p.reshape(shape)
    parts = {}
    for r in range(d + 1):
        for S in combinations(range(d), r):
            smaller = [part for T, part in parts.items() if {*T} < {*S}]
            parts[S] = averaged(table, shares, S) - sum(smaller)
    start = ridge_kernel.constant(model)
    np.testing.assert_allclose(start, parts[()].ravel(), **EXACT)
    effects = ridge_kernel.main_effects(model)
    expected = [parts[i,].reshape(case.sizes[i], -1) for i in range(d)]
    np.testing.assert_allclose(effects, np.concatenate(expected), **EXACT)
    for i, j in combinations(range(d), 2):
        pair = ridge_kernel.interaction(model, i, j)
        np.testing.assert_allclose(pair, parts[i, j].reshape(pair.shape), **EXACT)
    # All parts together are the score.
    np.testing.assert_allclose(sum(parts.values()), table, **EXACT)
    variances = np.zeros(4)
    for S, part in parts.items():
        square = (
            probability[..., None] * np.broadcast_to(part, table.shape) ** 2
        ).sum()
        variances[min(len(S), 4) - 1] += square if S else 0
    by_order = ridge_kernel.variance_by_order(model)
    np.testing.assert_allclose(by_order, variances, **EXACT)


def test_orders_beyond_three_are_the_remainder():
    # Parity of four columns: all variance is of order four.
    codes = np.array([*product(range(2), repeat=4)], np.uint8).T
    y = codes.sum(axis=0) % 2
    rows = ridge.Rows(codes, np.full(4, 2), y, 2)
    groups, _ = ridge_kernel.grouped(rows)
    kernel = ridge_kernel.kernel_of(SIGNED, 50.0, np.full(4, 2))
    system = ridge_kernel.system_of(np, groups, kernel)
    solution = ridge_kernel.solve(np, system, 0.01)
    model = KernelModel(
        kernel,
        np.full(4, 2),
        solution.codes,
        solution.coef,
        solution.start,
        np.full(8, 0.5),
    )
    by_order = ridge_kernel.variance_by_order(model)
    np.testing.assert_allclose(by_order[:3], 0, **EXACT)
    scores = ridge_kernel.scores(np, model, codes)
    assert by_order[3] == pytest.approx(float((scores**2).mean()), abs=1e-9)


@given(cases())
@settings(max_examples=25, deadline=None)
def test_an_unseen_label_counts_as_the_mean_of_its_column(case):
    _, solution, _ = solved(case)
    model = model_of(case, solution)
    shares = np.split(model.shares, np.cumsum(case.sizes)[:-1])
    every = np.array([*product(*(range(m) for m in case.sizes))], np.uint8).T
    table = ridge_kernel.scores(np, model, every).reshape(*case.sizes, -1)
    unseen = case.codes.copy()
    unseen[1] = case.sizes[1]
    keep = [i for i in range(len(case.sizes)) if i != 1]
    places = [case.codes[i] if i != 1 else 0 for i in range(len(case.sizes))]
    expected = averaged(table, shares, keep)[tuple(places)]
    scores = ridge_kernel.scores(np, model, unseen)
    np.testing.assert_allclose(scores, expected, **EXACT)


# ---- the choice


def test_the_kernel_fits_the_target():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (4, 150)).astype(np.uint8)
    rows = ridge.Rows(codes, np.full(4, 2), codes[:3].sum(axis=0) % 2, 2)
    groups, _ = ridge_kernel.grouped(rows)
    seen = ridge_kernel.categories_seen(codes)
    kernels = ridge_kernel.candidates(seen, ridge_kernel.rho_grid(4, 2.0))
    choices = ridge_kernel.search(np, groups, kernels)
    assert len(choices) == len(kernels)
    assert choices[0].kernel.form == SIGNED  # parity
    assert choices[0].risk < 0.01
    easy = ridge.Rows(codes, np.full(4, 2), (codes.sum(axis=0) > 1) * 1, 2)
    first = ridge_kernel.search(np, ridge_kernel.grouped(easy)[0], kernels)[0]
    assert first.risk < 0.05


def test_small_rho_loses_no_digits():
    # As ρ falls to 0 the kernel becomes that of order 1.
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (6, 60)).astype(np.uint8)
    rows = ridge.Rows(codes, np.full(6, 3), rng.integers(0, 2, 60), 2)
    groups, _ = ridge_kernel.grouped(rows)
    seen = np.full(6, 3)
    fits = []
    for rho in (0.0, 1e-12):
        kernel = ridge_kernel.kernel_of(PLAIN, rho, seen)
        system = ridge_kernel.system_of(np, groups, kernel)
        fits.append(ridge_kernel.solve(np, system, 0.01).t)
    np.testing.assert_allclose(fits[0], fits[1], **EXACT)
