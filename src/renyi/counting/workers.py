"""Threads for compiled loops, which release the interpreter lock.

Plain Python threads: numba's own thread layers may abort a process which calls them
from several threads, and a pool that lives on would not survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

WORTH_SECONDS = 0.004
"""Work of less than this is not given a thread of its own."""


def processors() -> int:
    """Return how many processors this process may run on.

    Examples
    --------
    >>> from renyi.counting.workers import processors
    >>> processors() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores() -> int:
    """Return how many threads this process may keep busy.

    The processors it is allowed to run on, but no more than ``OMP_NUM_THREADS``, by
    which users and process pools ask for less.

    Examples
    --------
    >>> from renyi.counting.workers import cores
    >>> cores() >= 1
    True
    """
    allowed = processors()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(allowed, int(wanted))) if wanted.isdecimal() else allowed


def thread_count(seconds: float, threads: int | None = None) -> int:
    """Return how many threads to give to work of some seconds.

    Parameters
    ----------
    seconds : float
        What one thread would need.
    threads : int, optional
        The user's wish, which is followed; by default no thread gets less work than
        `WORTH_SECONDS`, and there are no more than `cores`.

    Examples
    --------
    >>> from renyi.counting.workers import thread_count
    >>> thread_count(0.001), thread_count(0.001, threads=3)
    (1, 3)
    """
    if threads is None:
        return max(1, min(cores(), int(seconds / WORTH_SECONDS)))
    if threads < 1:
        raise ValueError(f"threads is {threads}: use 1 or more, or None.")
    return threads


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Run the tasks side by side, the first in the calling thread.

    Parameters
    ----------
    tasks : sequence of callables
        The first error of any of them is raised when all have ended.

    Examples
    --------
    >>> from renyi.counting.workers import run_all
    >>> seen = []
    >>> run_all([lambda: seen.append(1), lambda: seen.append(2)])
    >>> sorted(seen)
    [1, 2]
    """
    if len(tasks) == 1:
        tasks[0]()
        return
    with ThreadPoolExecutor(len(tasks) - 1) as pool:
        others = [pool.submit(task) for task in tasks[1:]]
        tasks[0]()
    for other in others:
        other.result()
