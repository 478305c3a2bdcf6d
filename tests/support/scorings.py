"""Small joint tables, points that score them, and closed forms by brute force."""

from __future__ import annotations

import itertools
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog, minimize_scalar

from renyi.datasets import random_joint
from support.joints import moments, one_hot_outcomes, outcomes

SLACK = 1e-7  # of the linear programs
CASES = [(K, seed) for K in (2, 3, 4) for seed in range(4)]
SIZES = ((2, 3, 2), (3, 3, 2), (2, 2, 2, 2), (4, 2))


def make_table(K, seed):
    kind = ("logistic", "dirichlet", "additive", "logistic")[seed]
    table = random_joint(SIZES[seed], K, kind=kind, random_state=[K, seed])
    if seed == 1:  # empty and nearly empty cells
        table[0, 0] = 0
        table[1, 1] *= 1e-9
    return table / table.sum()


def inner_of(table):
    """P(X_i, X_j, Y) by brute force over the outcomes."""
    W = one_hot_outcomes(table.shape[:-1])
    P = table.reshape(len(W), -1)
    return np.stack([W.T @ (column[:, None] * W) for column in P.T])


def make_points(table, model, seed=0):
    """Points (D, K) and intercepts: least squares, or anything at all."""
    *sizes, K = table.shape
    Q, F = moments(table)
    rng = np.random.default_rng(seed)
    if model == "random":
        return rng.normal(size=F.shape), rng.normal(size=K)
    P = np.linalg.pinv(Q, rcond=1e-10) @ F - 1 / (K * len(sizes))
    factor = {"huge": 1e6, "wrong": -1.0, "zero": 0.0}.get(model, 1.0)
    return factor * P.round(1 if model == "rounded" else 12), np.zeros(K)


MODELS = ("minimiser", "rounded", "random", "huge", "wrong", "zero")


def estimates(table, P, b):
    return 1 / len(b) + one_hot_outcomes(table.shape[:-1]) @ P + b


def scaled_bound(table, P, b):
    """The bound of map by one multiple of the scores, by brute force over the table."""
    t = estimates(table, P, b)
    K = len(b)
    off, p = t - t.mean(axis=1, keepdims=True), table.reshape(-1, K)
    spread = (p.sum(axis=1) * (off**2).sum(axis=1)).sum()
    gain = max(0, (p * off).sum()) ** 2 / spread if spread > 1e-20 else 0
    return min(1, 2 * (1 - 1 / K - gain))


def map_bound(t, p):
    """The closed form of map for scores t (N, K) under p: the best multiple of them.

    Each class takes the majorant of its errors that has the smaller mean.
    """
    K = t.shape[1]
    T = t - t.mean(axis=1, keepdims=True)
    size = np.sqrt((p.sum(axis=1) * (T**2).sum(axis=1)).sum())
    if not size > 1e-10:
        return 1.0
    T = T / size
    kappa = 1 - 1 / K
    means = (p * T).sum(axis=0) / np.maximum(p.sum(axis=0), 1e-300)

    def value(beta):
        total = 0.0
        for y in range(K):
            sigma = max(1.0, beta * means[y] / kappa)
            off = beta * T - sigma * (np.eye(K)[y] - 1 / K)
            near = p[:, y] @ (2 * (off**2).sum(axis=1))
            far = p[:, y] @ (2 * beta**2 * (T**2).sum(axis=1) + 1)
            total += min(near, far)
        return total

    ahead = means[means > 1e-9]
    ends = np.unique([0.0, *(kappa / ahead), *((2 * kappa - 1) / 4 / ahead)])
    options = {"xatol": 1e-12}
    least = [value(beta) for beta in ends]
    for pair in [*itertools.pairwise(ends), (ends[-1], 2 * ends[-1] + 1)]:
        least.append(minimize_scalar(value, bounds=pair, options=options).fun)
    return min(1.0, *least)


def drawn_scores(n):
    """Scores with ties, classes, and two covariates that know something of them."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.4
    scores = rng.normal(size=n) + y
    covariates = rng.normal(size=(n, 2)) + 0.5 * y[:, None]
    return scores.round(1), y.astype(int), covariates


def losing_ties(t):
    """Loss of the map rule at (x, y), where equal estimates are lost."""
    others = np.where(np.eye(t.shape[1], dtype=bool), -np.inf, t[:, None, :])
    return (others.max(axis=2) >= t - 1e-12 * np.abs(t).max()).astype(float)


def worst_given_classes(table, loss):
    """Worst expected loss over the distributions with the same P(X_i, X_j, Y)."""
    codes = outcomes(table.shape)
    rows = []
    for i, j in combinations(range(table.ndim - 1), 2):
        cells = codes[:, [i, j, -1]]
        _, cell = np.unique(cells, axis=0, return_inverse=True)
        rows.append(sp.csr_array((np.ones(len(codes)), (cell, np.arange(len(codes))))))
    A = sp.vstack(rows, format="csr")
    options = {
        "presolve": False,
        "primal_feasibility_tolerance": 1e-9,
        "dual_feasibility_tolerance": 1e-9,
    }
    result = linprog(-loss.ravel(), A_eq=A, b_eq=A @ table.ravel(), options=options)
    assert result.status == 0, result.message
    return -result.fun


def risk_at_rows(clf, X, y):
    """Gamma of a classifier and the bound of map, row by row."""
    card, codes, K = clf.scorecard_, clf._codes(X), len(clf.classes_)
    t, mapped = card.estimates(codes), card.mapped.estimates(codes)
    own = np.eye(K)[[clf.classes_.tolist().index(label) for label in y]]
    gamma = ((t - own) ** 2).sum(axis=1).mean() / 2
    return gamma, map_bound(mapped, own / len(own))
