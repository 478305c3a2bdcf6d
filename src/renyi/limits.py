"""Limits of a job: its memory, its deadline, the signals that end it.

A job may take half the memory of the machine, or what it is given. What would take more
is streamed or refused before it begins; which of the two never changes a result.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

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
    """A job would take more memory than it may; nothing was begun.

    `options` are as in `renyi.validation.InputError`.
    """

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


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
    sizes = [_container_memory(_CONTAINER)]
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        sizes += [limit] if limit != resource.RLIM_INFINITY else []
    return min(sizes)


@functools.cache
def _container_memory(places: tuple[str, ...]) -> int:
    """Return the memory of the machine, or of its part that this container has."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for place in places:
        with contextlib.suppress(OSError, ValueError):  # "max" if there is no limit
            sizes.append(int(Path(place).read_text()))
    return min(sizes)


def check_memory(needed: float, what: str, advice: str = "") -> None:
    """Refuse what would take more memory than a job may, before any is taken."""
    budget = memory_budget()
    if needed > budget:
        half = " (half of the memory)" if _GIVEN.get() is None else ""
        enough = _size(1.2 * needed).replace(" ", "")[:-1].upper()
        raise MemoryBudgetError(
            f"{what} would take about {_size(needed)} of memory, more than the "
            f"{_size(budget)} that a job may use{half}: {advice or 'allow more'}.",
            f"memory={enough}",
        )


def _size(count: float) -> str:
    """Return bytes in words.

    >>> _size(31_800), _size(1.29e6), _size(4e9)
    ('31.8 kB', '1.29 MB', '4.0 GB')
    """
    if count < 1e6:
        return f"{count / 1e3:,.3g} kB"
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.1f} GB"
