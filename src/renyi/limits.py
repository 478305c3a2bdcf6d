"""Limits of a job: its memory, its deadline, the signals that end it.

By default a job may use half the memory of the machine. A job that would use more is
streamed, or rejected before it begins. The limit never changes a result.
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

# Signals that end a job: Ctrl-C, the process supervisor, the terminal's hang-up.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)
CLOSED_GAP = 1.1e-6  # an interval no wider than the tolerance of searches is closed


def signal_message(code: int) -> str:
    """Return the last message of a command with this exit code, '' if no signal did it.

    The exit code of a command that a signal ended is 128 plus the signal's number.
    """
    if code - 128 not in SIGNALS:
        return ""
    return f"renyi: {'interrupted' if code - 128 == signal.SIGINT else 'terminated'}\n"


class Deadline:
    """The time by which a search must end, or no limit at all.

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
        """Seconds left in the form that solvers expect: None without a limit."""
        return None if math.isinf(self._end) else self.left

    def part(self, share: float, most: float = math.inf) -> Deadline:
        """Return a deadline after a share of the time left, or some seconds."""
        seconds = min(share * self.left, most)
        return Deadline(None if math.isinf(seconds) else seconds)


# ---- memory

_GIVEN: ContextVar[int | None] = ContextVar("memory", default=None)
# Where Linux reports the limit of a container, in both versions of control groups.
_CONTAINER = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


class MemoryBudgetError(MemoryError):
    """A job would use more memory than it may; it was not started.

    `options` are as in `renyi.validation.InputError`.
    """

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


@contextlib.contextmanager
def memory_limit(size: int | None) -> Iterator[None]:
    """Limit a job to `size` bytes, instead of half the memory of the machine."""
    token = _GIVEN.set(size)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def memory_budget() -> int:
    """Return the bytes that a job may use."""
    given = _GIVEN.get()
    return _machine_memory() // 2 if given is None else given


def _machine_memory() -> int:
    """Return the total memory of the machine, container or process."""
    sizes = [_container_memory(_CONTAINER)]
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        sizes += [limit] if limit != resource.RLIM_INFINITY else []
    return min(sizes)


@functools.cache
def _container_memory(places: tuple[str, ...]) -> int:
    """Return the total memory of the machine or, if smaller, of the container."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for place in places:
        with (
            contextlib.suppress(OSError, ValueError),  # "max" if there is no limit
            open(place, encoding="ascii") as stream,  # pathlib would load slowly
        ):
            sizes.append(int(stream.read()))
    return min(sizes)


def check_memory(needed: float, what: str, advice: str = "") -> None:
    """Raise MemoryBudgetError if a job would need more memory than it may use."""
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
    """Return a number of bytes with a unit.

    >>> _size(31_800), _size(1.29e6), _size(4e9)
    ('31.8 kB', '1.29 MB', '4.0 GB')
    """
    if count < 1e6:
        return f"{count / 1e3:,.3g} kB"
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.1f} GB"
