"""Parameters that are what they should be, the extras, the limits of a job.

Comparisons of text or lists with numbers would end in errors of Python's own, which
name neither the parameter nor what to give instead.

A job may take half the memory of the machine, or what it is given. What would take more
is streamed or refused before it begins; which of the two never changes a result.
"""

from __future__ import annotations

import contextlib
import functools
import math
import numbers
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

# What ends a job: Ctrl-C, its supervisor, the end of the terminal's session.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)
CLOSED_GAP = 1.1e-6  # an interval no wider than the tolerance of searches is closed


def signal_message(code: int) -> str:
    """Return what a command says that a signal ended, by its exit code; else ''."""
    if code - 128 not in SIGNALS:
        return ""
    return f"renyi: {'interrupted' if code - 128 == signal.SIGINT else 'terminated'}\n"


class MissingExtraError(ImportError):
    """A package is not installed that an extra brings."""


def install_advice(*extras: str) -> str:
    """Return how to get extras: there is no package index to ask for them.

    >>> print(install_advice("plot", "exact"))
    install the extras with pip install '.[plot,exact]' in a checkout of renyi
    """
    many, names = "s" * (len(extras) > 1), ",".join(extras)
    return (
        f"install the extra{many} with pip install '.[{names}]' in a checkout of renyi"
    )


def import_extra(name: str, extra: str, need: str, otherwise: str = "") -> Any:
    """Return a module that an extra brings; an error says how to get it, and why."""
    try:
        return import_module(name)
    except ImportError:
        text = f"{need}: {install_advice(extra)}{otherwise}."
        raise MissingExtraError(text) from None


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; truth values are none."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        return real and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}, not {value!r}."
        )


def check_choice(name: str, value: Any, choices: Sequence[str | None]) -> None:
    """Refuse what is not one of some words, of which None may be one."""
    if not isinstance(value, str | None) or value not in choices:
        *most, last = map(repr, choices)
        known = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{name} must be {known}, not {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Refuse what does not lie between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not be {value!r}.")


def check_positive(name: str, value: Any, advice: str = "") -> None:
    """Refuse what is not a positive number."""
    if not is_number(value) or not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}{advice}.")


def check_amount(name: str, value: Any, what: str) -> None:
    """Refuse what is not a number of something, zero or more."""
    if not is_number(value) or not value >= 0:
        raise ValueError(f"{name} must be {what}, zero or more; it is {value!r}.")


def check_time_limit(value: Any) -> None:
    """Refuse a time limit that is not a positive number of seconds, or None."""
    if value is not None:
        check_positive("time_limit", value, ": seconds, or None for no limit")


def has_few_rows(n: float, n_indicators: Any) -> Any:
    """Whether rows are too few for a bound to say much about their population."""
    return n <= 2 * n_indicators


class Deadline:
    """A moment by which work has to end, or none: the one clock of every search.

    >>> Deadline(None).left, Deadline(100).part(0.5).left <= 50, Deadline(0).passed
    (inf, True, True)
    """

    def __init__(self, seconds: float | None) -> None:
        self.begun = time.monotonic()
        self._end = math.inf if seconds is None else self.begun + seconds

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds until the end, never negative; infinite without a limit."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self.left == 0

    @property
    def limit(self) -> float | None:
        """Seconds left as solvers want them: None without a limit."""
        return None if math.isinf(self._end) else self.left

    def part(self, share: float, most: float = math.inf) -> Deadline:
        """Return a deadline after a share of the time left, or some seconds."""
        seconds = min(share * self.left, most)
        return Deadline(None if math.isinf(seconds) else seconds)


# ---- memory

_GIVEN: ContextVar[int | None] = ContextVar("memory", default=None)
# Where Linux tells the limit of a container, in both versions of its control groups.
_CONTAINER = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


class MemoryBudgetError(MemoryError):
    """A job would take more memory than it may; nothing was begun."""


@contextlib.contextmanager
def memory_limit(size: int | None) -> Iterator[None]:
    """Let a job take so many bytes, instead of half the memory of the machine."""
    token = _GIVEN.set(size)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def memory_budget() -> int:
    """Return the bytes that a job may take."""
    given = _GIVEN.get()
    return _machine_memory() // 2 if given is None else given


def _machine_memory() -> int:
    """Return the memory of the machine, container or process, used or not."""
    found = [_container_memory(_CONTAINER)]
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)


@functools.cache
def _container_memory(places: tuple[str, ...]) -> int:
    """Return the memory of the machine, or of its part that this container has."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for place in places:
        with contextlib.suppress(OSError, ValueError):  # "max" if there is no limit
            found.append(int(Path(place).read_text()))
    return min(found)


def check_memory(needed: float, what: str, advice: str = "") -> None:
    """Refuse what would take more memory than a job may, before any is taken."""
    budget = memory_budget()
    if needed > budget:
        given = _GIVEN.get() is not None
        whose = "--memory allows" if given else "a job may use (half of the memory)"
        enough = _size(1.2 * needed).replace(" ", "")[:-1].upper()
        raise MemoryBudgetError(
            f"{what} would take about {_size(needed)} of memory, more than the "
            f"{_size(budget)} that {whose}: "
            f"{advice or f'allow more (on the command line, --memory {enough})'}."
        )


def _size(count: float) -> str:
    """Return bytes in words.

    >>> _size(31_800), _size(1.29e6), _size(4e9)
    ('31.8 kB', '1.29 MB', '4.0 GB')
    """
    if count < 1e6:
        return f"{count / 1e3:,.3g} kB"
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.1f} GB"
