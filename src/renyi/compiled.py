"""Compiled kernels: loaded when the extra ``fast`` is installed and they pay.

Importing numba takes half a second, so :mod:`renyi.counting.kernels` is loaded once
numpy has been asked for more work than `WORTH_SECONDS` in this process: one large job,
or many small ones. Kernels chosen this way give the same bits as numpy does; a sum
whose order differs must be chosen by its shape alone (`load`), or results would depend
on history.
"""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType

WORTH_SECONDS = 0.05
_asked = [0.0]  # seconds of numpy's time, by all calls of this process so far


def kernels(seconds: float) -> ModuleType | None:
    """Return :mod:`renyi.counting.kernels`, or None if numpy may as well do the job.

    Parameters
    ----------
    seconds : float
        What the job would take with numpy alone.

    Examples
    --------
    >>> module = kernels(seconds=0.001)
    >>> module is None or module.__name__ == "renyi.counting.kernels"
    True
    """
    _asked[0] += seconds
    if _asked[0] < WORTH_SECONDS and "renyi.counting.kernels" not in sys.modules:
        return None
    return load()


@cache
def load() -> ModuleType | None:
    """Import the kernels; None if numba is absent or too old for numpy."""
    try:
        from renyi.counting import kernels as module
    except ImportError:
        return None
    return module
