"""Small tables, released in several ways, and explicit programs over their joint."""

from __future__ import annotations

import dataclasses
from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog

import renyi
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.uncertainty import Intervals
from renyi.scorecard import Scorecard

KINDS = ("suppressed", "rounded", "both", "perturbed", "absent", "absent and rounded")


def random_marginals(rng, n_classes=None):
    """Return marginals of few rows of two or three columns, with some dependence."""
    K = n_classes or int(rng.integers(2, 4))
    d = int(rng.integers(2, 4))
    n = int(rng.integers(20, 120))
    y = rng.permutation(np.arange(n) % K)
    columns = []
    for _ in range(d):
        size = int(rng.integers(2, 4))
        own = rng.integers(0, size, n)
        like = y if rng.random() < 0.7 or not columns else columns[-1]
        own = np.where(rng.random(n) < rng.random(), like % size, own)
        own[:size] = np.arange(size)
        columns.append(own)
    X = np.column_stack(columns).astype(str)
    return renyi.Marginals.from_data(X, y.astype(str))


def own_blocks(m):
    which = np.repeat(np.arange(len(m.columns)), m.columns.sizes)
    return which[:, None] == which


def released(m, kind, rng, threshold=10, base=5):
    """Return what a release of some kind leaves known."""
    known = without_pairs(m, rng) if kind.startswith("absent") else m
    if kind == "absent":
        return known
    counts = np.asarray(known.counts)
    half = base // 2
    if kind == "perturbed":
        noise = np.triu(rng.integers(-half, half + 1, counts.shape))
        printed = np.maximum(counts + noise + np.triu(noise, 1).T, 0)
        low = np.maximum(printed - half, 0)
        high = printed + half
        rows = (m.n - half, m.n + half)
    else:
        printed = base * np.floor(counts / base + 0.5).astype(int)
        if kind == "suppressed":
            printed, half = counts, 0
        low = np.maximum(printed - half, 0)
        high = printed + half
        if kind != "rounded" and kind != "absent and rounded":
            small = counts < threshold
            low = np.where(small, 0, np.maximum(low, threshold))
            high = np.where(small, threshold - 1, high)
        rows = (int(base * np.floor(m.n / base + 0.5)),) * 2
        rows = (rows[0] - half, rows[1] + half) if half else (int(m.n),) * 2
    empty = own_blocks(m) & ~np.eye(len(counts), dtype=bool)
    for first, second in known.absent_places():
        a, b = known.columns.names[first], known.columns.names[second]
        empty[np.ix_(known.columns.spans([a]), known.columns.spans([b]))] = True
    low = np.where(empty, 0, low)
    high = np.where(empty, 0, high)
    return with_uncertainty(known, Intervals(low, high, int(rows[0]), int(rows[1])))


def without_pairs(m, rng, share=0.5):
    """Return the marginals without the tables of some pairs of features."""
    pairs = [*combinations(m.feature_names, 2)]
    count = max(1, round(share * len(pairs)))
    gone = [pairs[k] for k in rng.permutation(len(pairs))[:count]]
    counts = np.array(m.counts)
    for a, b in gone:
        first, second = m.columns.spans([a]), m.columns.spans([b])
        counts[np.ix_(first, second)] = 0
        counts[np.ix_(second, first)] = 0
    absent = frozenset(frozenset(pair) for pair in gone)
    return dataclasses.replace(m, counts=counts, absent=absent)


def random_card(m, rng, scale=0.4):
    """Return a scorecard of random points."""
    K = len(m.classes)
    D = int(m.encoder.columns.sizes.sum())
    shape = () if K == 2 else (K,)
    z = scale * rng.standard_normal((D, *shape))
    intercept = 0.2 * rng.standard_normal(shape)
    counts = np.ones(D)
    return Scorecard(m.encoder, m.classes, z, np.asarray(intercept), counts, m.target)


class Joint:
    """All distributions of rows whose tables are in known intervals."""

    def __init__(self, m):
        features = m.feature_names
        record = m.uncertainty
        if record is None:
            record = Intervals.exact(m.counts, m.n)
        self.sizes = m.encoder.columns.sizes
        self.K = len(m.classes)
        ranges = [range(size) for size in (*self.sizes, self.K)]
        self.cells = np.array([*product(*ranges)])
        names = [*features, m.target]
        rows = []
        low = []
        high = []
        for a, b in [*combinations(names, 2), *((name, name) for name in names)]:
            if frozenset((a, b)) in m.absent:
                continue
            first, second = m.columns.spans([a]), m.columns.spans([b])
            i, j = names.index(a), names.index(b)
            for k, place in enumerate(first):
                for h, other in enumerate(second):
                    if a == b and k != h:
                        continue
                    rows.append((self.cells[:, i] == k) & (self.cells[:, j] == h))
                    low.append(record.low[place, other])
                    high.append(record.high[place, other])
        A = np.array(rows, float)
        low = np.array(low, float)[:, None]
        high = np.array(high, float)[:, None]
        self.A = np.vstack([np.hstack([A, -high]), np.hstack([-A, low])])
        total = np.append(np.ones(len(self.cells)), 0.0)
        self.total = total[None]
        tau = (1 / record.n_high, 1 / max(record.n_low, 1))
        self.limits = [(0, 1)] * len(self.cells) + [tau]

    def largest(self, values):
        """Return the largest mean of a function of outcome and class; None if none."""
        answer = linprog(
            -np.append(values, 0.0),
            A_ub=self.A,
            b_ub=np.zeros(len(self.A)),
            A_eq=self.total,
            b_eq=[1.0],
            bounds=self.limits,
            method="highs",
        )
        return -answer.fun if answer.status == 0 else None

    @property
    def X(self):
        return self.cells[:, :-1]

    @property
    def y(self):
        return self.cells[:, -1]
