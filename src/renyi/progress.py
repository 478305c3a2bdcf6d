"""Progress of long work, as one record for a callback.

A function that may take long has a parameter ``progress``. It calls this function with
a `Progress` now and then; the caller decides how to display it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far some work has come.

    >>> half = Progress("counting", 30.0, 0.5, "2,000 rows")
    >>> half.seconds_left
    30.0
    >>> print(half)
    counting: 50 %, 2,000 rows, 30 s left
    >>> print(Progress("minimax error", 4.0, lower=0.01, upper=0.02, cuts=300))
    minimax error: 1.000 % to 2.000 %, 300 cuts, 4 s
    """

    step: str  # the current step, in the user's words
    seconds: float = 0.0  # since the work began
    share: float | None = None  # completed share of the work, if it is known
    facts: str = ""  # current figures
    lower: float | None = None  # ends of the interval that a search has reached
    upper: float | None = None
    rounds: int = 0  # programs that the search has solved
    cuts: int = 0  # constraints that the search has added
    rows: int | None = None  # rows read so far in this step, if it reads rows

    @property
    def seconds_left(self) -> float | None:
        """Remaining time at this pace; None if it is unknown."""
        if self.share is None or self.share <= 0:
            return None
        return max(0.0, self.seconds * (1 - self.share) / self.share)

    def __str__(self) -> str:
        """Return the record as one line."""
        parts = [f"{self.share:.0%}".replace("%", " %")] if self.share else []
        parts += [self.facts] if self.facts else []
        if self.lower is not None and self.upper is not None:
            parts += [f"{100 * self.lower:.3f} % to {100 * self.upper:.3f} %"]
            parts += [f"{self.cuts:,} cuts", duration(self.seconds)]
        left = self.seconds_left
        parts += [f"{duration(left)} left"] if left and left >= 1 else []
        return f"{self.step}: {', '.join(parts)}" if parts else self.step


ProgressCallback = Callable[[Progress], object]


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
