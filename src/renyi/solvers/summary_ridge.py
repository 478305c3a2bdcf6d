r"""Ridge regression where the pairs are of other people than the classes.

Cases and controls are known by their counts, one variant at a time; how variants go
together is taken from a panel of n other people. With p₁ and p₀ the shares of genotypes
among N₁ cases and N₀ controls, π the share of cases in the population and Σ the
covariance of the indicators, ::

    (Σ + alpha·I) z = f,     f = π(1−π)(p₁ − p₀),     Σ ≈ W̃ᵀW̃/n.

The panel has fewer people than there are variants, so with K = W̃W̃ᵀ and u = W̃f ::

    z = (f − W̃ᵀβ)/alpha,     (K + n·alpha·I) β = u.

*alpha.* Within the panel's own people the part of f that they do not span seems to cost
nothing, and grows as 1/alpha: scores without end. So z is made from one half of the
panel, and its scores s_b are those of the other half. That f has the noise of its
counts, of covariance Σ π²(1−π)²(1/N₁ + 1/N₀), makes fᵀz too large by
``π²(1−π)²(1/N₁ + 1/N₀)·tr Σ(Σ_A + alpha)⁻¹``, and the trace again is a mean over the
other half: ``(K_bb − k_bᵀ(K_AA + n_A·alpha)⁻¹k_b)/alpha``. What is left estimates
``γ(z) = Var s − 2fᵀz + π(1−π)`` for people of neither; the least of both halves' mean
decides.

*Certificate* (noisy marginals). For every z, the intercept in it, whatever it was
trained on: ``γ(z) ≤ γ̂(z) + λ‖z‖² + ε‖z‖`` where λ and ε bound the errors of the pairs
and of twice the means with the class. A mean of n independent vectors no longer than R
is off by less than ``R(1 + √(2 log 1/δ))/√n`` but with probability δ, so that with d
variants, R² = d + 1 of a person and confidence 1 − 3δ ::

    λ = (d+1)·t/√n,     ε = √(d+1)·t·(π/√N₁ + (1−π)/√N₀),     t = 1 + √(2 log 1/δ).

It holds if the panel is a random sample of the population and misses no call, and cases
and controls are samples of theirs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.solvers.ridge import eigen

Floats = NDArray[np.float64]

ALPHAS = 10.0 ** np.arange(-4, 4.01, 0.25)
"""Penalties that are tried, in units of the mean eigenvalue of K/n."""


class Summary(NamedTuple):
    """What is known of a study: π, N₁ and N₀, ‖f‖²."""

    share: float
    cases: int
    controls: int
    square: float

    @property
    def variance(self) -> float:
        """π(1−π): the risk of the best constant."""
        return self.share * (1 - self.share)

    @property
    def noise(self) -> float:
        """The noise of f in units of Σ."""
        return self.variance**2 * (1 / self.cases + 1 / self.controls)


class SummaryFit(NamedTuple):
    """The penalty, β of the panel's people, and the risk that is expected of z."""

    alpha: float
    beta: Floats
    risk: float


def fit_summary(
    K: Floats, u: Floats, study: Summary, alpha: float | None = None, seed: int = 0
) -> SummaryFit:
    """Fit from the panel's kernel and the scores of f, both of columns of mean 0."""
    n = len(u)
    order = np.random.default_rng(seed).permutation(n)
    halves = order[: n // 2], order[n // 2 :]
    unit = float(np.trace(K)) / n
    tried = ALPHAS * unit if alpha is None else np.array([alpha])
    pairs = (halves, halves[::-1])
    risks = np.mean([_risks(K, u, study, tried, *pair) for pair in pairs], axis=0)
    best = int(np.argmin(risks))
    values, vectors = eigen(K)
    beta = vectors @ ((vectors.T @ u) / (values + n * tried[best]))
    return SummaryFit(float(tried[best]), beta, float(risks[best]))


def _risks(
    K: Floats, u: Floats, study: Summary, alphas: Floats, a: Any, b: Any
) -> Floats:
    """Return γ(z) for every alpha: z of the people a, its variance in the people b."""
    # The mean of a stands for that of the population, in both halves.
    centre = K[a].mean(axis=0)
    Kc = K - centre - centre[:, None] + K[np.ix_(a, a)].mean()
    v = u - u[a].mean()
    values, vectors = eigen(Kc[np.ix_(a, a)])
    own = vectors.T @ v[a]
    cross = Kc[np.ix_(b, a)] @ vectors
    found = []
    for alpha in alphas:
        weights = 1 / (values + len(a) * alpha)
        s = (v[b] - cross @ (weights * own)) / alpha
        gain = (study.square - own @ (weights * own)) / alpha
        trace = (np.diag(Kc)[b] - (cross**2) @ weights).mean() / alpha
        gain -= study.noise * trace
        found.append((s**2).mean() - 2 * gain + study.variance)
    return np.array(found)


class Certified(NamedTuple):
    """γ̂ of counts and panel, by how much it may be too small, and with what chance."""

    estimate: float
    pairs: float  # λ‖z‖²
    means: float  # ε‖z‖
    confidence: float

    @property
    def gamma(self) -> float:
        """The bound on γ(z)."""
        return self.estimate + self.pairs + self.means


def certify_summary(
    scores: Floats,
    means: tuple[float, float],
    square: float,
    d: int,
    study: Summary,
    confidence: float = 0.95,
) -> Certified:
    """Bound γ of a model by its scores s in the panel, intercept included.

    `means` are those of cases and of controls by the counts, `square` is ‖z‖² with the
    intercept.
    """
    t = 1 + math.sqrt(2 * math.log(3 / (1 - confidence)))
    pi = study.share
    (one, none) = means
    estimate = float((scores**2).mean()) - (pi * one - (1 - pi) * none) + 0.25
    spread = pi / math.sqrt(study.cases) + (1 - pi) / math.sqrt(study.controls)
    return Certified(
        estimate,
        (d + 1) * t / math.sqrt(len(scores)) * square,
        math.sqrt((d + 1) * square) * t * spread,
        confidence,
    )
