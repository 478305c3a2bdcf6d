r"""Differential privacy: noise on the tables of all pairs of columns, by OpenDP.

A row is in one cell of each of the T tables of two columns. A person with k rows
therefore moves each table by at most k in the Euclidean norm. All tables together move
by Δ = k√T if the neighbouring data lack the person. They move by Δ = k√(2T) if someone
else takes the person's place. Discrete Gaussian noise of scale σ on every cell then has

.. math:: \rho = \Delta^2 / (2 \sigma^2)

in zero-concentrated differential privacy (Bun and Steinke, 2016). OpenDP computes the
scale of a budget, draws the noise, and converts ρ to (ε, δ). Margins and total are sums
of the noisy tables, so they cost nothing more. The noise comes from the operating
system: no seed repeats it.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import Sizes
from renyi.marginals.uncertainty import Neighbours
from renyi.validation import InputError, check_positive, check_share, import_extra

ADD_REMOVE: Neighbours = "add-remove"
REPLACE: Neighbours = "replace-one"
_LEAST = 1e-9  # budget
_MOST = 10_000
_LARGEST = 2.0**40  # scale of noise
_ABOVE = 1 + 1e-12  # for rounding
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)


class Cost(NamedTuple):
    """What a release may cost: ρ, or ε at δ."""

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    def checked(self) -> Cost:
        """Return the cost if it is one valid budget; raise an error otherwise."""
        given = (self.rho is not None, self.epsilon is not None, self.delta is not None)
        if given not in ((True, False, False), (False, True, True)):
            raise InputError(
                "Give one budget: rho, or epsilon and delta together.",
                *("rho", "epsilon", "delta"),
            )
        for name in ("rho", "epsilon"):
            value = getattr(self, name)
            if value is None:
                continue
            check_positive(name, value)
            if not _LEAST <= value <= _MOST:
                raise InputError(
                    f"{{{name}}} is not a useful budget: give a number from "
                    f"{_LEAST:g}, below which noise hides everything, to {_MOST:,}, "
                    "above which nobody is protected.",
                    **{name: value},
                )
        if self.delta is not None:
            check_share("delta", self.delta)
        return self


class NoisyTables(NamedTuple):
    """Pair counts with noise, as they were drawn, and what they cost."""

    table: NDArray[np.int64]  # (D, D); zero in the blocks on the diagonal
    scale: float  # σ of the discrete Gaussian
    rho: float


def sensitivity(n_columns: int, rows_per_person: int, neighbours: Neighbours) -> float:
    """Return the largest distance between the tables of neighbouring data.

    >>> round(sensitivity(4, 1, "add-remove") ** 2)
    6
    >>> round(sensitivity(3, 2, "replace-one") ** 2)
    24
    """
    n_tables = n_columns * (n_columns - 1) // 2
    rows = 2 * n_tables if neighbours == REPLACE else n_tables
    return rows_per_person * math.sqrt(rows)


def noisy_tables(
    counts: NDArray[np.int64], sizes: Sizes, cost: Cost, distance: float
) -> NoisyTables:
    """Add discrete Gaussian noise to every cell of every table of two columns.

    Parameters
    ----------
    counts : ndarray of shape (D, D)
        Pair counts.
    sizes : sequence of int
        Number of categories of each column.
    cost : Cost
        The budget of all tables together.
    distance : float
        The `sensitivity` of all tables together.
    """
    column = np.repeat(np.arange(len(sizes)), sizes)
    cells = np.nonzero(column[:, None] < column)
    scale = scale_of(cost, distance)
    mechanism = _mechanism(_opendp(), scale)
    noisy = np.zeros_like(counts)
    noisy[cells] = mechanism(counts[cells].tolist())
    rho = float(mechanism.map(distance))
    return NoisyTables(noisy + noisy.T, scale, rho)


def scale_of(cost: Cost, distance: float) -> float:
    """Return the least scale of the noise that OpenDP grants for a cost."""
    dp = _opendp()

    def granted(scale: float) -> Any:
        mechanism = _mechanism(dp, scale)
        if cost.rho is not None:
            return mechanism
        approximate = dp.c.make_zCDP_to_approxDP(mechanism)
        return dp.c.make_fix_delta(approximate, cost.delta)

    most: object = cost.rho
    if cost.rho is None:
        most = (cost.epsilon, cost.delta)
    try:
        scale = dp.binary_search_param(granted, d_in=1.0, d_out=most, T=float)
        scale *= distance * _ABOVE  # the cost depends on their ratio alone
    except _opendp_error():
        scale = math.inf
    if not scale <= _LARGEST:
        raise InputError(
            "OpenDP has no noise for this budget and so many tables and rows of a "
            "person: give a larger budget.",
            *("rho", "epsilon", "delta"),
        )
    return float(scale)


def epsilon_of(rho: float, delta: float) -> float:
    """Return ε of a release of budget ρ, at δ."""
    dp = _opendp()
    mechanism = _mechanism(dp, 1 / math.sqrt(2 * rho))
    return float(dp.c.make_zCDP_to_approxDP(mechanism).map(1.0).epsilon(delta))


def _mechanism(dp: Any, scale: float) -> Any:
    """Return OpenDP's discrete Gaussian on a vector of counts."""
    domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
    return dp.m.make_gaussian(domain, dp.l2_distance(T=dp.f64), scale=scale)


def _opendp() -> Any:
    dp = import_extra("opendp.prelude", "privacy", "Differential privacy needs OpenDP")
    dp.enable_features("contrib")
    return dp


def _opendp_error() -> type[Exception]:
    error: type[Exception] = import_module("opendp.mod").OpenDPException
    return error
