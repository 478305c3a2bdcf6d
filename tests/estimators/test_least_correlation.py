"""The least maximal correlation of a set of columns, by other programs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

import renyi
from experiments.theorems import marginals_of
from renyi.datasets import random_joint
from renyi.selecting import least_correlation
from support.joints import marginal_constraints

pytest.importorskip("clarabel")

GAP = 5e-6  # linear programs are solved to 1e-7 in every constraint


def squared_correlation(p):
    """Return ρ² of outcomes and two classes: the second singular value of a table."""
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    seen = rows > 1e-14
    scaled = p[seen] / np.sqrt(np.outer(rows[seen], columns))
    return np.linalg.svd(scaled, compute_uv=False)[1] ** 2


def least_by_cuts(table):
    """Minimise ρ² over all members by linear programs: bounds from below and above.

    With two classes ρ² = (Σ_x p(x, 1)²/p(x) − q²)/(q(1 − q)). Each summand is convex,
    and at least 2a·p(x, 1) − a²·p(x) for every slope a: a cut. A program of cuts bounds
    the minimum from below, and any member from above.
    """
    A, b = marginal_constraints(table)
    N = table.size // 2
    q = table[..., 1].sum()
    cell = np.arange(N)

    def cuts(slopes):
        rows = np.zeros((N, 3 * N))
        rows[cell, 2 * cell] = -(slopes**2)
        rows[cell, 2 * cell + 1] = 2 * slopes - slopes**2
        rows[cell, 2 * N + cell] = -1
        return rows

    limits = [cuts(np.full(N, a)) for a in np.linspace(0, 1, 11)]
    equations = np.hstack([A.toarray(), np.zeros((len(b), N))])
    cost = np.concatenate([np.zeros(2 * N), np.ones(N)])
    above = np.inf
    for _ in range(60):
        rows = np.vstack(limits)
        answer = linprog(cost, rows, np.zeros(len(rows)), equations, b)
        assert answer.status == 0
        p = np.maximum(answer.x[: 2 * N].reshape(N, 2), 0)
        below = (answer.fun - q**2) / (q * (1 - q))
        above = min(above, squared_correlation(p))
        if above - below < GAP:
            break
        limits.append(cuts(p[:, 1] / np.maximum(p.sum(axis=1), 1e-12)))
    return below, above


def tables():
    for k in range(12):
        random = np.random.default_rng([18, k])
        kind = ("dirichlet", "additive", "logistic")[k % 3]
        sizes = random.integers(2, 4, 2 + k % 2).tolist()
        yield random_joint(sizes, 2, kind=kind, concentration=1.0, random_state=random)


def test_the_exact_value_by_linear_programs():
    strict = 0
    for table in tables():
        result = least_correlation(marginals_of(table))
        below, above = least_by_cuts(table)
        assert above - below < GAP
        assert result.exact
        assert below - GAP < result.rho**2 < above + 1e-6
        # No member has less: not the table itself, and none is below the formula.
        assert result.rho**2 <= squared_correlation(table.reshape(-1, 2)) + 1e-7
        assert result.bound <= result.rho + 1e-9
        strict += result.rho - result.bound > 1e-4
    assert strict > 0  # the formula is not the exact value on every table


def test_one_column_has_the_correlation_of_its_table():
    for k in range(5):
        random = np.random.default_rng([19, k])
        table = random_joint([4], 2, kind="dirichlet", random_state=random)
        result = least_correlation(marginals_of(table))
        expected = squared_correlation(table) ** 0.5
        assert result.rho == pytest.approx(expected, abs=1e-6)
        assert result.bound == pytest.approx(expected, abs=1e-9)


def test_the_bound_of_a_selector_is_that_of_its_columns():
    X, y = renyi.datasets.load("votes")
    selector = renyi.RenyiSelector(n_features=3).fit(X, y)
    chosen = selector.features_.tolist()
    m = renyi.Marginals.from_data(X[chosen], y)
    share = m.class_probabilities[1]
    # γ of the chosen columns by least squares on their rows.
    W = np.column_stack([X[c].fillna("?") == v for c in chosen for v in ("y", "n")])
    W = np.column_stack([np.ones(len(y)), W])
    c = (y == m.classes[1]).to_numpy() - 0.5
    z = np.linalg.lstsq(W.astype(float), c)[0]
    gamma = ((W @ z - c) ** 2).mean()
    expected = np.sqrt(1 - gamma / (share * (1 - share)))
    assert selector.correlation_bound_ == pytest.approx(expected)
    assert selector.correlation_bound_ == pytest.approx(selector.path_.hgr[2])
    pairs = [renyi.hgr(X[i].fillna("?"), y).rho for i in chosen]
    assert selector.correlation_bound_ >= max(pairs) - 1e-9
    by_counts = renyi.RenyiSelector(n_features=3).fit_marginals(
        renyi.Marginals.from_data(X, y)
    )
    assert by_counts.correlation_bound_ == pytest.approx(expected)


def test_no_bound_where_pairs_were_not_counted():
    X, y = renyi.datasets.load("promoters")
    wide = renyi.RenyiSelector(n_features=40).fit(X, y)
    assert wide.classifier_.marginals_ is None
    assert np.isnan(wide.correlation_bound_)
    with pytest.raises(AttributeError):
        renyi.RenyiSelector().correlation_bound_  # noqa: B018


def test_the_best_set_by_the_bound_is_that_of_least_gamma():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X.iloc[:, :5], y)
    names = m.feature_names
    bounds = {S: renyi.hgr_lower_bound(m, S) for S in combinations(names, 2)}
    plain = renyi.RenyiClassifier(alpha=0.0)
    gammas = {S: plain.fit_marginals(m.select(S)).certificate_.gamma for S in bounds}
    assert max(bounds, key=bounds.get) == min(gammas, key=gammas.get)
