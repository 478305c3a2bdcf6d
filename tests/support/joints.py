"""Small joint tables and the linear programs that are the tests' ground truth.

A table is an array ``P[x_1, ..., x_d, y]``. Outcomes x are numbered in C order, so
that ``table.reshape(N, K)`` has one row per outcome and ``table.ravel()`` is the
vector p of the programs below. With ``A p = b`` the pairwise marginals P(X_i, X_j) and
P(X_i, Y):

* worst case of a rule r:  max E_p[1 - r_Y(X)]   over  p >= 0, A p = b
* minimax error e*:        max 1 - sum_x max_y p(x, y)   over the same p
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.optimize import linprog


def outcomes(sizes: Sequence[int]) -> np.ndarray:
    """All feature vectors, one per row, in C order: shape (N, d)."""
    return np.indices(sizes).reshape(len(sizes), -1).T


def one_hot(X: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """One-hot rows W of integer codes X: shape (n, D), D the sum of sizes."""
    return np.hstack([np.eye(m)[X[:, i]] for i, m in enumerate(sizes)])


def one_hot_outcomes(sizes: Sequence[int]) -> np.ndarray:
    """One-hot rows W of all outcomes: shape (N, D)."""
    return one_hot(outcomes(sizes), sizes)


def moments(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q = E[W W'] (D x D) and F = E[W e_Y'] (D x K) of a joint table."""
    W = one_hot_outcomes(table.shape[:-1])
    P = table.reshape(len(W), -1)
    return W.T @ (P.sum(axis=1)[:, None] * W), W.T @ P


def marginal_constraints(table: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
    """(A, b) with A p = b for exactly the p that share the table's pair marginals."""
    A = constraint_matrix(table.shape[:-1], table.shape[-1])
    return A, A @ table.ravel()


def constraint_matrix(sizes: Sequence[int], n_classes: int) -> sp.csr_array:
    """Rows: cells of every P(X_i, X_j), then of every P(X_i, Y); columns: (x, y)."""
    codes = outcomes((*sizes, n_classes))
    label = len(sizes)
    pairs = [*combinations(range(label), 2), *((i, label) for i in range(label))]
    return sp.vstack(list(_pair_indicators(codes, pairs)), format="csr")


def within_class_constraints(table: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
    """(A, b) with A p = b for exactly the p that share every P(X_i, X_j, Y)."""
    sizes = table.shape[:-1]
    K = table.shape[-1]
    codes = outcomes(table.shape)
    label = codes[:, -1]
    parts = [sp.csr_array(np.eye(K)[:, label])]
    for i, j in combinations(range(len(sizes)), 2):
        cell = (codes[:, i] * sizes[j] + codes[:, j]) * K + label
        shape = (sizes[i] * sizes[j] * K, len(codes))
        ones = np.ones(len(codes))
        parts.append(sp.csr_array((ones, (cell, np.arange(len(codes)))), shape=shape))
    A = sp.vstack(parts, format="csr")
    return A, A @ table.ravel()


def _pair_indicators(
    codes: np.ndarray, pairs: Sequence[tuple[int, int]]
) -> Iterator[sp.csr_array]:
    counts = codes.max(axis=0) + 1
    columns = np.arange(len(codes))
    for i, j in pairs:
        cell = codes[:, i] * counts[j] + codes[:, j]
        shape = (counts[i] * counts[j], len(codes))
        yield sp.csr_array((np.ones(len(codes)), (cell, columns)), shape=shape)


def cells_of(frame: pd.DataFrame, table: np.ndarray) -> np.ndarray:
    """Probabilities of a result's frame as a table of all outcomes."""
    cells = np.zeros(table.shape)
    codes = frame.drop(columns="probability").astype(int).to_numpy()
    np.add.at(cells, tuple(codes.T), frame["probability"].to_numpy())
    return cells


def second_singular_value(P: np.ndarray) -> float:
    """The maximal correlation by its definition, without any change of basis."""
    P = P[P.sum(axis=1) > 0][:, P.sum(axis=0) > 0] / P.sum()
    scaled = P / np.sqrt(np.outer(P.sum(axis=1), P.sum(axis=0)))
    values = np.linalg.svd(scaled, compute_uv=False)
    return values[1] if len(values) > 1 else 0.0


def worst_distribution(
    rule_proba: np.ndarray, A: sp.csr_array, b: np.ndarray
) -> np.ndarray:
    """A distribution (N, K) with marginals b under which the rule errs most."""
    loss = 1.0 - rule_proba
    solution = _solve(-loss.ravel(), A_eq=A, b_eq=b)
    return solution.reshape(loss.shape)


def worst_case(rule_proba: np.ndarray, A: sp.csr_array, b: np.ndarray) -> float:
    """Largest error E[1 - r_Y(X)] of a rule (N, K) given the marginals."""
    return error(rule_proba, worst_distribution(rule_proba, A, b))


def error(rule_proba: np.ndarray, table: np.ndarray) -> float:
    """Error of a rule (N, K) under one joint table."""
    return float(np.sum((1.0 - rule_proba) * table.reshape(rule_proba.shape)))


def minimax_error(A: sp.csr_array, b: np.ndarray, n_classes: int) -> float:
    """e*: the smallest worst case any rule can have, given the marginals."""
    n_cells = A.shape[1]
    n_outcomes = n_cells // n_classes
    # Variables (p, v) with v(x) >= p(x, y) for all y; sum_x v(x) is minimised.
    spread = sp.kron(sp.eye_array(n_outcomes), np.ones((n_classes, 1)))
    cost = np.concatenate([np.zeros(n_cells), np.ones(n_outcomes)])
    solution = _solve(
        cost,
        method="highs-ipm",  # twice as fast as the simplex method here
        A_ub=sp.hstack([sp.eye_array(n_cells), -spread], format="csr"),
        b_ub=np.zeros(n_cells),
        A_eq=sp.hstack([A, sp.csr_array((len(b), n_outcomes))], format="csr"),
        b_eq=b,
    )
    return float(1.0 - solution @ cost)


# Presolve calls up to a tenth of the tables with nearly empty cells infeasible, by
# rounding; and the default tolerances of 1e-7 are felt in the values.
_OPTIONS = {
    "presolve": False,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


def largest_brier_risk(A: sp.csr_array, b: np.ndarray) -> float:
    """θ for two classes, max sum_x min_t (p(x, 0) (1 - t)² + p(x, 1) t²), by cuts.

    Every t gives a linear bound of one term. The best t of the last answer is added
    until bound and value agree to 1e-6.
    """
    N = A.shape[1] // 2
    equations = sp.hstack([A, sp.csr_array((A.shape[0], N))])
    cost = np.concatenate([np.zeros(2 * N), -np.ones(N)])
    cuts = np.vstack([_cuts(np.full(N, t)) for t in np.linspace(0, 1, 9)])
    for _ in range(100):
        answer = linprog(cost, cuts, np.zeros(len(cuts)), equations, b)
        assert answer.status == 0
        p = np.maximum(answer.x[: 2 * N], 0).reshape(N, 2)
        total = np.maximum(p.sum(axis=1), 1e-15)
        value = float((p.prod(axis=1) / total).sum())
        if -answer.fun - value < 1e-6:
            return value
        cuts = np.vstack([cuts, _cuts(p[:, 0] / total)])
    raise AssertionError("The cuts do not meet the value.")


def _cuts(t: np.ndarray) -> np.ndarray:
    """Return the rows of v(x) - p(x, 0) (1 - t(x))² - p(x, 1) t(x)² <= 0."""
    classes = np.stack([(1 - t) ** 2, t**2], axis=1)
    own = np.eye(len(t))
    left = -(own[:, :, None] * classes).reshape(len(t), -1)
    return np.hstack([left, own])


def _solve(
    cost: np.ndarray, method: str = "highs-ds", **constraints: object
) -> np.ndarray:
    result = linprog(
        cost, bounds=(0, None), method=method, options=_OPTIONS, **constraints
    )
    assert result.status == 0, result.message
    return result.x
