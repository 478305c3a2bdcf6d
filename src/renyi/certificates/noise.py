r"""Guarantees from tables with noise of a known distribution, with a confidence.

Let T̂ be the nearest tables that agree with each other to the noisy ones. This
projection is linear, and exact counts agree already. So the error of T̂ is the
projection of the noise, whatever the counts are. Let G be that of the pairs of features
(with their margins on the diagonal), and H that of category and class. With the
functions of `renyi.certificates.intervals`, for *every* U, trained on these tables or
not,

.. math:: n E\|t - e_Y\|^2 \le \hat L(U) + λ \|U\|^2 + 2 ε \|U - \bar U\|
    + n (1 - 1/K), \qquad λ ≥ λ_{max}(-G), \quad ε ≥ \|H - \bar H\|_F,

where the means are over classes and L̂ is the sum over cells of T̂. The number n of
rows is within r of its estimate, or is public. For two classes this is
``γ ≤ γ̂ + λ‖z‖² + ε‖z‖`` in counts: the ridge objective is itself a certificate.

λ, ε and r are quantiles of simulated noise. The noise of the release and that of the
simulations are independent and have one distribution. So the k-th largest of the
simulated figures is exceeded with a probability of at most ``k / (draws + 1)``,
exactly. The confidence is shared equally among the figures.

All columns of a release count, whatever columns a model has. If you select columns of
the release first, do not choose them by what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.error_table import NOISE
from renyi.certificates.intervals import (
    Functional,
    Proved,
    Scores,
    Tables,
    rule_bounds,
    squared_error,
)
from renyi.certificates.record import Step
from renyi.counting.onehot import centred, spans
from renyi.marginals.marginals import Marginals
from renyi.marginals.repair import Projection
from renyi.marginals.uncertainty import Noise
from renyi.scorecard import Match, Scorecard

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_LARGEST = 4  # of the simulated figures, the quantile is the fourth largest
_MANY = 400  # categories from which on it is the largest
_EXACT_SCALE = 50.0  # from here on, a rounded Gaussian is used: its tails are wider
_REACH = 12.0  # standard deviations of the discrete Gaussian that are tabulated
_UP = 1e-12  # added to a bound, for rounding


class NoisyTables(NamedTuple):
    """Nearest tables that agree, in counts, and what may be wrong with them."""

    sizes: NDArray[np.intp]
    tables: Tables  # counts
    n: float
    n_error: float  # r
    pair_error: float  # λ
    class_error: float  # ε
    spread: float  # operator norm to expect of the noise, 2σ√D
    confidence: float
    start: Tables  # estimated proportions, without negative cells or eigenvalues


def noisy_tables(m: Marginals, confidence: float = CONFIDENCE) -> NoisyTables:
    """Return what is known of marginals with noise, with a confidence."""
    record = m.uncertainty
    assert isinstance(record, Noise)
    names = [*m.feature_names, m.target]
    places = m.columns.spans(names)
    sizes = m.columns.sizes[m.columns.places(names)]
    noisy = record.noisy[np.ix_(places, places)].astype(np.float64)
    n = None if record.n is None else float(record.n)
    counts, total = Projection(sizes).of(noisy, n)
    share = (1 - confidence) / (2 if n is not None else 3)
    largest = 1 if len(noisy) > _MANY else _LARGEST
    draws = math.ceil(largest / share) - 1
    errors = _simulated(record, sizes, draws)
    quantiles = np.sort(errors, axis=0)[-largest]
    K = int(sizes[-1])
    estimate = np.asarray(m.counts)[np.ix_(places, places)] / m.n
    return NoisyTables(
        sizes[:-1],
        _parts(counts, K),
        total,
        float(quantiles[0]),
        float(quantiles[1]),
        float(quantiles[2]),
        2 * record.scale * math.sqrt(len(noisy)),
        confidence,
        _parts(estimate, K),
    )


def _parts(table: Floats, K: int) -> Tables:
    """Return the tables of features and classes, which are the last K places."""
    priors = table.diagonal()[-K:].copy()
    return Tables(table[:-K, :-K], table[:-K, -K:], priors)


def _simulated(record: Noise, sizes: NDArray[np.intp], draws: int) -> Floats:
    """Return errors of total, pairs and classes in simulated releases: (draws, 3).

    The seed is fixed. It must not depend on the data.
    """
    rng = np.random.default_rng(0)
    which = np.repeat(np.arange(len(sizes)), sizes)
    rows, columns = np.nonzero(which[:, None] < which)
    K = int(sizes[-1])
    total = None if record.n is None else 0.0
    projection = Projection(sizes)
    errors = np.empty((draws, 3))
    for k in range(draws):
        noise = np.zeros((len(which), len(which)))
        noise[rows, columns] = discrete_gaussian(record.scales, len(rows), rng)
        table, n = projection.of(noise + noise.T, total)
        G, H, _ = _parts(table, K)
        off = H - H.mean(axis=1, keepdims=True)
        errors[k] = abs(n), np.linalg.eigvalsh(G)[-1], np.linalg.norm(off)
    return errors


def discrete_gaussian(
    scales: tuple[float, ...], size: int, rng: np.random.Generator
) -> Floats:
    """Return sums of independent discrete Gaussians, ``P(k) ∝ exp(−k² / 2σ²)``."""
    total = np.zeros(size)
    for scale in scales:
        if scale >= _EXACT_SCALE:
            total += np.rint(rng.normal(0.0, scale, size))
            continue
        reach = math.ceil(_REACH * scale) + 1
        k = np.arange(-reach, reach + 1)
        weights = np.cumsum(np.exp(-(k**2) / (2 * scale**2)))
        total += k[np.searchsorted(weights, rng.random(size) * weights[-1])]
    return np.asarray(total)


def shortest(points: Floats, intercept: Floats, sizes: NDArray[np.intp]) -> Floats:
    """Return the points of least norm whose sums are the scores."""
    which = np.repeat(np.arange(len(sizes)), sizes)
    P, b = centred(points, intercept, np.ones(len(points)), sizes)
    shares = (1 / sizes) / (1 / sizes).sum()
    return np.asarray(P + shares[which][:, None] * b)


def noise_bounds(
    card: Scorecard, match: Match, whole: Marginals, rule: str, confidence: float
) -> Proved:
    """Return what is proved of a scorecard, with a confidence for all of it.

    The noise is that of the `whole` release, whatever columns the scorecard has: these
    may have been chosen by what the release shows.
    """
    if len(match.classes) < card.n_classes:
        raise ValueError(
            "The private release lacks a class that the model has, so nothing is known "
            "of its counts: release the counts with all classes."
        )
    known = noisy_tables(whole, confidence)
    order = np.argsort(match.classes)
    tables = (known.tables, known.start)
    ordered = [Tables(T.Q, T.F[:, order], T.priors[order]) for T in tables]
    known = known._replace(tables=ordered[0], start=ordered[1])
    names = [*whole.feature_names]
    chosen = [names.index(name) for name in match.marginals.feature_names]
    own = spans(known.sizes)
    rows = np.concatenate([np.arange(own[j].start, own[j].stop) for j in chosen])
    scores = Scores.of(card, match)

    def points(P: Floats, b: Floats) -> Floats:
        U = np.zeros((int(known.sizes.sum()), P.shape[1]))
        U[rows] = shortest(P, b, known.sizes[chosen])
        return U

    def largest(make: Callable[[Floats], Functional], P: Floats, b: Floats) -> float:
        return noise_bound(make(points(P, b)), known)

    beta = best_noisy_scale(points(*scores.deciding), known)
    bounds = rule_bounds(scores, (beta,), largest)
    gamma = bounds.pop("gamma")
    steps = (Step(NOISE, bounds[rule]),)
    start = Tables(known.start.Q, known.start.F[rows], known.start.priors)
    return Proved(gamma, bounds, steps, start, len(rows), confidence)


def noise_bound(function: Functional, known: NoisyTables) -> float:
    """Bound a function of the true tables, for all its points at once."""
    U = function.U
    linear = function.cells - (U**2).sum(axis=1, keepdims=True)
    total = function.at(known.tables, known.sizes) - function.constant
    total += known.pair_error * float((U**2).sum())
    total += known.class_error * float(np.linalg.norm(linear))
    low = known.n - known.n_error
    if low <= 0:
        return math.inf
    return max(total / low, total / (known.n + known.n_error)) + function.constant + _UP


def best_noisy_scale(U: Floats, known: NoisyTables) -> float:
    """Return β of the smallest bound of rule map."""
    T = U - U.mean(axis=1, keepdims=True)
    square = float((T**2).sum())
    lead = float((known.tables.F * T).sum()) - known.class_error * math.sqrt(square)
    off = squared_error(T)
    spread = off.at(known.tables, known.sizes) - off.constant
    spread += 2 * float((known.tables.F * T).sum()) + known.pair_error * square
    return max(lead, 0.0) / spread if spread > 0 else 0.0
