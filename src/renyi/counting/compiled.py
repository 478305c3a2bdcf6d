"""Load compiled loops if numba (extra ``fast``) is installed and they are worth it.

Importing numba takes half a second. A module of compiled loops is therefore loaded only
after much work of numpy in this process (`renyi.counting.onehot.kernels_for`): one
large job, or many small ones. Loops chosen this way give the same bits as numpy. A sum
whose order differs must be chosen by its shape alone (`load`), or results would depend
on history.

The loops run in the calling thread and release the interpreter lock; large jobs are
split among plain Python threads. Numba's thread layers may abort a process that calls
them from several threads, and a permanent pool would not survive a fork.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_loading = Lock()  # two threads that import numba at once may see it half loaded


@cache
def load(module: str) -> ModuleType | None:
    """Load a module of loops; None if numba is absent or too old for numpy."""
    with _loading:
        try:
            return import_module(module)
        except ImportError:
            return None


def compile_loop(function: Callable[..., Any], **options: Any) -> Any:
    """Compile on first use and keep the machine code on disk where that is allowed."""
    import numba

    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # neither the package folder nor the home folder is writable
        return numba.njit(nogil=True, **options)(function)


def processors() -> int:
    """Return how many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores() -> int:
    """Return how many threads to keep busy: at most ``OMP_NUM_THREADS``."""
    allowed = processors()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(allowed, int(wanted))) if wanted.isdecimal() else allowed


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Run the tasks in parallel, the first in this thread; raise the first error."""
    if len(tasks) == 1:
        tasks[0]()
        return
    with ThreadPoolExecutor(len(tasks) - 1) as pool:
        others = [pool.submit(task) for task in tasks[1:]]
        tasks[0]()
    for other in others:
        other.result()


def in_threads(
    function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[_Result]:
    """Yield the results of all items in order; compute a few at a time in threads."""
    most = cores()
    waiting = deque[Future[_Result]]()
    with ThreadPoolExecutor(most) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
