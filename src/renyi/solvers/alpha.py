r"""The choice of alpha: by leave-one-out, or by generalised cross-validation.

*Leave-one-out.* residual/(1 − h), h the leverage of one unit copy of the row: that
equals refitting without it at an unchanged total penalty, and weights count as
repetition does.

*Generalised cross-validation* needs no rows: ``γ̂/(1 − df/n)²`` with
df = 1 + Σ e/(e + alpha), e the eigenvalues of Q_c.

*The floor.* ``n·alpha`` is the penalty in rows: a category of a single row is given the
share ``1/(1 + n·alpha)`` of the points that would fit it. Where the features determine
the class and rows outnumber the categories, both estimates fall with alpha down to
their rounding errors, and whatever alpha wins there, points and estimates are made of
these. So alpha is not chosen below `FLOOR_ROWS`/n: the bias that this leaves, of the
order of (n·alpha/n)², is far above rounding and far below 1/n, what n rows can tell
from zero. Tables with errors choose n·alpha of 0.1 to 100. With more categories than
rows there is no floor: the fit of least norm, to which alpha → 0 leads, is a regular
candidate there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GRID_SIZE = 50
FLOOR_ROWS = 0.01
METHODS = ("given", "loo", "gcv")


@dataclass(frozen=True)
class AlphaChoice:
    """How `alpha` was chosen.

    Parameters
    ----------
    method : {"given", "loo", "gcv"}
        By the user, by leave-one-out, or by generalised cross-validation.
    alpha : float
        The value chosen.
    risk : float or None
        Estimated risk at that value: leave-one-out with rows, else generalised
        cross-validation; None where neither can be trusted.
    error : float or None
        Share of rows that the map rule gets wrong in leave-one-out.
    alphas, risks : tuple of float
        The values tried and the estimated risk of each.
    """

    method: str
    alpha: float
    risk: float | None
    error: float | None = None
    alphas: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers: a choice may come from a file."""
        if self.method not in METHODS:
            raise ValueError(f"alpha was chosen by {self.method!r:.60}, no known way")
        check_alpha(self.alpha)
        if self.risk is not None and not 0 <= self.risk <= sys.float_info.max:
            raise ValueError(f"the estimated risk cannot be {self.risk!r}")
        if self.error is not None and not 0 <= self.error <= 1 + 1e-9:
            raise ValueError(f"the estimated error cannot be {self.error!r}")


class HeldOut(NamedTuple):
    """Estimates for each alpha: by fit weights, by report weights, and the error."""

    weighted: Floats
    risk: Floats
    error: Floats | None

    @classmethod
    def of_risk(cls, risk: Floats) -> HeldOut:
        """Risk alone, without an estimate of the error."""
        return cls(risk, risk, None)


def check_alpha(alpha: float | str) -> float | str:
    """Return a valid `alpha`; anything else is an error."""
    if isinstance(alpha, str):
        if alpha not in ("auto", "loo"):
            raise ValueError(f"alpha must be a number, 'auto' or 'loo', not {alpha!r}.")
        return alpha
    if isinstance(alpha, bool) or not 0 <= alpha <= sys.float_info.max:
        raise ValueError(f"alpha must be finite and not negative, not {alpha!r}.")
    return float(alpha)


def weight_of(n_classes: int) -> float:
    """Return w of ``γ = w·E‖T − s‖²``: for two classes one column stands for both."""
    return 1.0 if n_classes == 2 else 0.5


def alpha_grid(n_features: int) -> Floats:
    """Return the values of alpha to try: the trace of Q is the number of features."""
    return n_features * np.logspace(-8, 1, GRID_SIZE)


def alpha_floor(n: float, n_indicators: int) -> float:
    """Return the smallest alpha that may be chosen from n rows of D categories."""
    return FLOOR_ROWS / n if n > n_indicators else 0.0


def choose(
    method: str, alphas: Floats, held_out: HeldOut, floor: float = 0.0
) -> AlphaChoice:
    """Take the alpha of smallest risk from the floor up, the largest among equals."""
    risks = np.where(alphas >= floor, held_out.weighted, np.inf)
    # Equal but for rounding counts as equal: the choice must not hang on it.
    best = int(np.flatnonzero(risks <= risks.min() * (1 + 1e-9))[-1])
    return AlphaChoice(
        method,
        float(alphas[best]),
        *_trusted(held_out, best),
        tuple(alphas.tolist()),
        tuple(held_out.weighted.tolist()),
    )


def given(alpha: float, held_out: HeldOut) -> AlphaChoice:
    """Return the record of an alpha that the user chose."""
    return AlphaChoice("given", alpha, *_trusted(held_out, 0))


def _trusted(held_out: HeldOut, place: int) -> tuple[float | None, float | None]:
    """Risk and error; none where the fit without some row is undefined."""
    risk, error = held_out.risk[place], held_out.error
    if not np.isfinite(risk):
        return None, None
    return float(risk), None if error is None else float(error[place])


def corrected(risk: Any, df: Any, n: float) -> Floats:
    """Return risk/(1 − df/n)², infinite where no degree of freedom is left."""
    left = np.maximum(1 - df / n, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where(left > 1e-9, np.maximum(risk, 0) / left**2, np.inf), np.float64
        )
