"""What is known of counts that are not exact: intervals, or noisy tables.

`Marginals.uncertainty` is None for exact counts. Otherwise it is one of two records,
and each is all that is known:

* `Intervals`: every count lies between two whole numbers, with certainty. Suppressed
  and rounded tables are such. The number of rows may also be an interval.
* `Noise`: the noisy tables as released, and the distribution of the noise in each cell.

Neither contains an exact count. The `counts` of such marginals are *an estimate,
computed from the record alone* by `renyi.marginals.repair`: the middles of the
intervals, or the noisy tables, moved to agree with each other. So two files with the
same record have the same counts, and a file needs only the record. The estimate may lie
outside some intervals. Training starts from it; certificates never rest on it, and read
the record.

**Adding** marginals of disjoint rows adds intervals, end by end, and exact counts are
intervals of width zero. Noisy tables add, and so do the variances of their noise; with
disjoint people, the budgets compose in parallel: the sum is as private as the least
private part. Exact and noisy counts are added only if asked, since the exact part has
no privacy. Intervals and noise are never added: the one is certain, the other is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.files import NUMBER, check_fields
from renyi.validation import InputError

Table = NDArray[np.int64]
Neighbours = Literal["add-remove", "replace-one"]

MOST = 2**53  # ends of intervals and noisy counts are exact as floats, too
_MANY = 10_000  # most releases that one record may be the sum of


def _symmetric(table: NDArray[Any], what: str) -> Table:
    """Return a table of whole numbers, checked and read-only."""
    table = np.asarray(table)
    if table.dtype.kind != "i":
        raise ValueError(f"{what} must be whole numbers, not {table.dtype}.")
    if table.ndim != 2 or not np.array_equal(table, table.T):
        raise ValueError(f"{what} must be a symmetric table.")
    if table.size and not -MOST < int(table.min()) <= int(table.max()) < MOST:
        raise ValueError(f"{what} must be below 2**53.")
    table = table.astype(np.int64)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, eq=False)
class Intervals:
    """Every count lies between two whole numbers, with certainty.

    Parameters
    ----------
    low, high : ndarray of int64, shape (D, D)
        Ends of the intervals of all pair counts, laid out as `Marginals.counts`. The
        diagonal has those of single categories. Absent pairs have zeros.
    n_low, n_high : int
        Ends of the interval of the number of rows.
    """

    low: Table
    high: Table
    n_low: int
    n_high: int

    def __post_init__(self) -> None:
        """Raise ValueError unless the ends are ordered, symmetric counts."""
        low = _symmetric(self.low, "The low ends of the intervals")
        high = _symmetric(self.high, "The high ends of the intervals")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if low.shape != high.shape:
            raise ValueError("The low and high ends must have the same shape.")
        if not 0 <= self.n_low <= self.n_high < MOST or self.n_high < 1:
            raise ValueError(
                "The number of rows must be an interval of whole numbers above zero, "
                f"not {self.n_low} to {self.n_high}."
            )
        if low.size and (int(low.min()) < 0 or not (low <= high).all()):
            raise ValueError(
                "The low end of every interval must be at least zero, and at most its "
                "high end."
            )

    @classmethod
    def exact(cls, counts: sparse_counts.Table, n: float) -> Intervals:
        """Return exact counts as intervals of width zero."""
        table = sparse_counts.dense(counts)
        return cls(table, table, int(n), int(n))

    @property
    def middles(self) -> NDArray[np.float64]:
        """The middles of the intervals."""
        return (self.low + self.high) / 2

    def mapped(self, change: Callable[[Table], Table]) -> Intervals:
        """Return the intervals with both tables changed, such as to a part of them."""
        return replace(self, low=change(self.low), high=change(self.high))

    def __add__(self, other: Intervals) -> Intervals:
        """Return the intervals of the sums of disjoint rows."""
        return Intervals(
            self.low + other.low,
            self.high + other.high,
            self.n_low + other.n_low,
            self.n_high + other.n_high,
        )

    def __sub__(self, other: Intervals) -> Intervals:
        """Return the intervals of the differences, if the others' rows are included."""
        high = self.high - other.low
        if high.size and (high.min() < 0 or self.n_high <= other.n_low):
            raise ValueError(
                "A count would be below zero after the subtraction: the rows to "
                "subtract are not among these."
            )
        return Intervals(
            np.maximum(self.low - other.high, 0),
            high,
            max(self.n_low - other.n_high, 0),
            self.n_high - other.n_low,
        )

    def __eq__(self, other: object) -> bool:
        """Return whether all ends are equal."""
        if not isinstance(other, Intervals):
            return NotImplemented
        rows = (self.n_low, self.n_high) == (other.n_low, other.n_high)
        both = np.array_equal(self.low, other.low)
        return rows and both and np.array_equal(self.high, other.high)

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return what is not an array, for a file's header."""
        return {"kind": "intervals", "n_low": self.n_low, "n_high": self.n_high}

    @property
    def arrays(self) -> dict[str, Table]:
        """The arrays, for a file."""
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Budget:
    """What a noisy release spends of each person's privacy.

    Parameters
    ----------
    rho : float or None
        Of zero-concentrated differential privacy; None if it is not stated so.
    epsilon, delta : float or None
        Of approximate differential privacy; None if it is not stated so.
    neighbours : {"add-remove", "replace-one"}
        Which data sets count as neighbours.
    rows_per_person : int
        Most rows of one person.
    releases : int
        Number of releases of disjoint people that were added. The budgets compose in
        parallel: each figure is the largest of theirs.
    exact_rows : float
        Rows that were added without noise, on request; no budget protects them.
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    neighbours: Neighbours = "add-remove"
    rows_per_person: int = 1
    releases: int = 1
    exact_rows: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError if a figure is not valid."""
        for name in ("rho", "epsilon"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive, not {value!r}.")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise ValueError(f"delta must be from 0 to below 1, not {self.delta!r}.")
        if self.neighbours not in get_args(Neighbours):
            raise ValueError(f"neighbours cannot be {self.neighbours!r:.40}.")
        if self.rows_per_person < 1 or not 1 <= self.releases <= _MANY:
            raise ValueError("a budget is of one row and one release at least.")
        if not 0 <= self.exact_rows < math.inf:
            raise ValueError("the number of exact rows cannot be negative.")

    @property
    def spent(self) -> str:
        """The budget as text, in the terms in which it was given."""
        if self.epsilon is not None and self.delta is not None:
            return f"epsilon {self.epsilon:g} at delta {self.delta:g}"
        return "not known" if self.rho is None else f"rho {self.rho:.4g}"

    def in_parallel(self, other: Budget) -> Budget:
        """Return the budget of both releases, whose people are disjoint."""
        if self.neighbours != other.neighbours:
            raise ValueError(
                f"One release protects neighbours by {self.neighbours}, the other by "
                f"{other.neighbours}: release both alike."
            )
        largest = {
            name: _largest(getattr(self, name), getattr(other, name))
            for name in ("rho", "epsilon", "delta")
        }
        return Budget(
            **largest,
            neighbours=self.neighbours,
            rows_per_person=max(self.rows_per_person, other.rows_per_person),
            releases=self.releases + other.releases,
            exact_rows=self.exact_rows + other.exact_rows,
        )


def _largest(first: float | None, second: float | None) -> float | None:
    """Return the larger figure; None unless both are known."""
    return None if first is None or second is None else max(first, second)


@dataclass(frozen=True, eq=False)
class Noise:
    """Tables of all pairs with independent noise in each cell, as released.

    The noise of each cell above the diagonal is a sum of independent discrete
    Gaussians, one for each of the `scales`: ``P(k) ∝ exp(−k² / 2σ²)`` on the integers.

    Parameters
    ----------
    noisy : ndarray of int64, shape (D, D)
        The noisy counts of all pairs of two columns; the blocks of a column with itself
        are zero, since single columns are not released.
    scales : tuple of float
        Parameter σ of the discrete Gaussian of each release that was added.
    n : int or None
        Number of rows if it is public; None if it is to be estimated.
    budget : Budget
        What the release spends of each person's privacy.
    """

    noisy: Table
    scales: tuple[float, ...]
    n: int | None
    budget: Budget

    def __post_init__(self) -> None:
        """Raise ValueError if a field is not valid."""
        object.__setattr__(self, "noisy", _symmetric(self.noisy, "The noisy counts"))
        if not self.scales or len(self.scales) > _MANY:
            raise ValueError("Noise needs the scale of each release.")
        if not all(0 < scale < MOST for scale in self.scales):
            raise ValueError("The scales of the noise must be positive.")
        if self.n is not None and not 0 < self.n < MOST:
            raise ValueError("The number of rows must be positive.")

    @property
    def scale(self) -> float:
        """Standard deviation of the noise in a cell, or slightly above it."""
        return math.hypot(*self.scales)

    def mapped(self, change: Callable[[Table], Table]) -> Noise:
        """Return the record of a part of the tables."""
        return replace(self, noisy=change(self.noisy))

    def __add__(self, other: Noise) -> Noise:
        """Return the sum of releases of disjoint people."""
        n = None
        if self.n is not None and other.n is not None:
            n = self.n + other.n
        noisy = self.noisy + other.noisy
        budget = self.budget.in_parallel(other.budget)
        return Noise(noisy, self.scales + other.scales, n, budget)

    def with_exact(self, counts: Table, n: float) -> Noise:
        """Return the sum with exact counts, whose own blocks are zero."""
        exact = self.budget.exact_rows + n
        return replace(
            self,
            noisy=self.noisy + counts,
            n=None if self.n is None else self.n + int(n),
            budget=replace(self.budget, exact_rows=exact),
        )

    def __eq__(self, other: object) -> bool:
        """Return whether tables, noise and budget are equal."""
        if not isinstance(other, Noise):
            return NotImplemented
        same = self.to_dict() == other.to_dict()
        return same and np.array_equal(self.noisy, other.noisy)

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return what is not an array, for a file's header."""
        budget = {name: getattr(self.budget, name) for name in _BUDGET}
        scales = list(self.scales)
        return {"kind": "noise", "scales": scales, "n": self.n, "budget": budget}

    @property
    def arrays(self) -> dict[str, Table]:
        """The arrays, for a file."""
        return {"noisy": self.noisy}


Uncertainty: TypeAlias = Intervals | Noise

_BUDGET: dict[str, tuple[type, ...]] = {
    "rho": (*NUMBER, type(None)),
    "epsilon": (*NUMBER, type(None)),
    "delta": (*NUMBER, type(None)),
    "neighbours": (str,),
    "rows_per_person": (int,),
    "releases": (int,),
    "exact_rows": NUMBER,
}
_HEADERS: dict[str, dict[str, tuple[type, ...]]] = {
    "intervals": {"kind": (str,), "n_low": (int,), "n_high": (int,)},
    "noise": {
        "kind": (str,),
        "scales": (list,),
        "n": (int, type(None)),
        "budget": (dict,),
    },
}
ARRAYS = {"intervals": ("low", "high"), "noise": ("noisy",)}


def from_header(header: object, arrays: Mapping[str, NDArray[Any]]) -> Uncertainty:
    """Return the record of a file, from its part of the header and its arrays."""
    kind = kind_of_header(header)
    assert isinstance(header, dict)
    check_fields(header, _HEADERS[kind], "uncertainty")
    if kind == "intervals":
        ends = header["n_low"], header["n_high"]
        return Intervals(arrays["low"], arrays["high"], *ends)
    check_fields(header["budget"], _BUDGET, "budget")
    scales = header["scales"]
    if not all(type(scale) in NUMBER for scale in scales):
        raise ValueError("its scales of noise are not numbers")
    budget = Budget(**header["budget"])
    return Noise(arrays["noisy"], tuple(map(float, scales)), header["n"], budget)


def kind_of_header(header: object) -> str:
    """Return which record a header describes."""
    kind = header.get("kind") if isinstance(header, dict) else None
    if kind not in _HEADERS:
        raise ValueError(f"its uncertainty is {kind!r:.40}")
    return str(kind)


def check_joined(
    first: Uncertainty | None, second: Uncertainty | None, allow_mixed: bool
) -> None:
    """Raise an error if two kinds of counts must not be added.

    This is the one place of that rule.
    """
    kinds = {type(record) for record in (first, second)}
    if kinds == {Intervals, Noise}:
        raise ValueError(
            "Counts known to intervals and counts with noise cannot be added: the "
            "intervals are certain, the noise is not. Release all of them alike."
        )
    if kinds == {Noise, type(None)} and not allow_mixed:
        raise InputError(
            "One of the pair counts is a private release, the other is exact: their "
            "sum would protect only some of the rows. Release both, or ask for the "
            "sum.",
            "allow_mixed",
            python="allow_mixed=True",
        )
