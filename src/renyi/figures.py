"""Verdicts: proven bounds as percentages, tables and one sentence to act on.

Percentages are rounded outwards: up where they are bounds from above, down where they
are bounds from below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from renyi.ladder import Rung

CLOSED = 1.1e-6  # an interval no wider than the searches' tolerance

_ROUNDING = 1e-9  # of a share; what is less is not rounded outwards
_LEAST = 1e-4  # a lower bound that is shown as 0.01 %
_WIDTH = 80


def verdict(
    subject: str,
    where: str,
    upper: float,
    lower: float,
    promise: float,
    whose: str = "no model",
) -> str:
    """Return what bounds come to: what is promised, and what cannot be.

    Parameters
    ----------
    subject : str
        Whose error it is.
    where : str
        The marginals it is about, in words.
    upper : float
        Bound on its error.
    lower : float
        What no rule can promise to stay below.
    promise : float
        What some rule is known to promise.
    whose : str
        How the rules are called that cannot promise less.

    Examples
    --------
    >>> print(verdict("this model", "these marginals", 0.0857, 0.0436, 0.0437))
    This model errs at most 8.57 % on any population with these marginals; no model can
    promise less than 4.36 %.
    """
    text = (
        f"{subject[0].upper()}{subject[1:]} errs at most {at_most(upper)} on any "
        f"population with {where}"
    )
    if lower >= _LEAST:
        text = f"{text}; {whose} can promise less than {at_least(lower)}."
        if promise - lower <= CLOSED:
            text += f" The best possible promise is {100 * lower:.4f} %."
        return text
    if promise <= CLOSED:
        return f"{text}; some rule can promise to err hardly ever."
    if promise < upper - CLOSED:
        text += f"; another rule promises {at_most(promise)}"
    return f"{text}. The least that any rule can promise is not known yet."


def at_most(share: float, digits: int = 2) -> str:
    """Return a bound from above as a percentage, rounded up.

    >>> at_most(0.04361), at_most(0.05), at_most(0.94011, 1)
    ('4.37 %', '5.00 %', '94.1 %')
    """
    return f"{100 * rounded_up(share, digits + 2):.{digits}f} %"


def at_least(share: float) -> str:
    """Return a bound from below as a percentage, rounded down.

    >>> at_least(0.04369), at_least(0.05)
    ('4.36 %', '5.00 %')
    """
    return f"{100 * rounded_down(share):.2f} %"


def rounded_up(share: float, digits: int = 4) -> float:
    """Return a bound from above with few digits.

    >>> rounded_up(0.143049), rounded_up(0.1430)
    (0.1431, 0.143)
    """
    unit = 10.0**digits
    return math.ceil(unit * (share - _ROUNDING)) / unit


def rounded_down(share: float, digits: int = 4) -> float:
    """Return a bound from below with few digits.

    >>> rounded_down(0.14309), rounded_down(0.1431)
    (0.143, 0.1431)
    """
    unit = 10.0**digits
    return math.floor(unit * (share + _ROUNDING)) / unit


def table(title: str, rungs: Iterable[Rung]) -> list[str]:
    """Return bounds as lines of a table.

    >>> from renyi.ladder import Rung
    >>> print(*table("Worst", [Rung("exact", 0.1, 0.1, 2.0, "solved")]), sep=chr(10))
    Worst                                    at most   at least        time
      exact                                  10.00 %    10.00 %       2.0 s
    """
    lines = [f"{title:<39} {'at most':>8} {'at least':>10} {'time':>11}"]
    for rung in rungs:
        name = rung.name if len(rung.name) <= 37 else rung.name[:36] + "…"
        lower = "" if rung.lower is None else at_least(rung.lower)
        line = f"  {name:<37} {at_most(rung.upper):>8} {lower:>10} "
        mark = "  stopped" if rung.status == "stopped" else ""
        lines.append(f"{line}{rung.seconds:>9.1f} s{mark}")
    return lines


def wrapped(text: str, first: str = "", then: str = "") -> str:
    """Return a text in lines, never broken between a number and its percent sign.

    >>> wrapped("5 %")
    '5 %'
    """
    kept = text.replace(" %", "\N{NO-BREAK SPACE}%")
    broken = fill(
        kept,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return broken.replace("\N{NO-BREAK SPACE}%", " %")
