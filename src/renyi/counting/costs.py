"""Which way of counting is the fastest for a table: a cost model of its shape.

The constants are seconds on one core of a 2.6 GHz x86-64 server (3.5 GHz when one core
works, AVX-512).

* A histogram costs `HISTOGRAM_SECONDS` per row and pair of super-columns (1.1 ns
  ``bincount``, 0.3 ns to form the joint code; compiled `COMPILED_SECONDS`), and its
  cells `CELL_SECONDS` each to clear and fold.
* The product costs `PRODUCT_SECONDS` per row and squared indicator.
* Bit planes cost a little per row and pair of indicators: how little depends on the
  processor (`PLANE_SECONDS`).

Many rows of columns with several categories call for histograms or planes, few rows of
many binary columns for the product or planes. A table may be both: then the columns of
few categories are counted by planes with each other, and those of many by histograms
with all (`plane_columns`).
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from renyi import compiled
from renyi.counting.histograms import joint_values, super_columns

Engine = Literal["histogram", "product", "numba", "planes"]

HISTOGRAM_SECONDS = 1.5e-9
COMPILED_SECONDS = 0.6e-9
PAIR_SECONDS = 30e-6
CELL_SECONDS = 3e-9
PRODUCT_SECONDS = 1.4e-11
ONE_HOT_SECONDS = 0.4e-9
PLANE_SECONDS = {"avx512vpopcntdq": 0.9e-12, "avx2": 3e-12, "": 9e-12}
"""Per row and pair of planes: with the first of these instructions there is."""

MAKING_SECONDS = 1.5e-11
COMPLETING_SECONDS = 2e-9
CALL_SECONDS = 50e-6


def histogram_seconds(n: int, sizes: NDArray[np.int64], per_row: float) -> float:
    """Estimate the time of histograms which cost `per_row` per row.

    Nothing is packed for it. It decides on weighted sums, so a change of it changes
    their last bits.

    Parameters
    ----------
    n : int
        Number of rows.
    sizes : int64 array
        Number of categories of each column.
    per_row : float
        `HISTOGRAM_SECONDS` or `COMPILED_SECONDS`.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.costs import COMPILED_SECONDS, histogram_seconds
    >>> histogram_seconds(10**6, np.full(20, 10), COMPILED_SECONDS) < 0.1
    True
    """
    limit = joint_values(n)
    large = sizes > limit  # a super-column each
    logs = np.log(np.maximum(sizes[~large], 1))
    packed = math.ceil(float(logs.sum()) / math.log(limit))
    groups = max(2, int(large.sum()) + packed)
    values = float(sizes[large].sum()) + packed * limit
    pairs = groups * (groups - 1) / 2
    return pairs * (PAIR_SECONDS + n * per_row) + CELL_SECONDS * values**2 / 2


def product_seconds(n: int, sizes: NDArray[np.int64], weighted: bool) -> float:
    """Estimate the time of counting by a matrix product.

    Parameters
    ----------
    n, sizes
        As for `histogram_seconds`.
    weighted : bool
        Whether rows have weights.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.costs import product_seconds
    >>> binary = np.full(100, 2)
    >>> product_seconds(1000, binary, False) < product_seconds(1000, binary, True)
    True
    """
    total = float(sizes.sum())
    kept = total if weighted else total - sizes.size
    # In float64 an operation takes twice as long, and symmetry is not made use of.
    per_cell = 4 * PRODUCT_SECONDS if weighted else PRODUCT_SECONDS
    return n * kept * (kept * per_cell + ONE_HOT_SECONDS) + CELL_SECONDS * total**2


def plane_seconds(n: int, sizes: NDArray[np.int64]) -> float:
    """Estimate the time of counting by bit planes.

    Parameters
    ----------
    n, sizes
        As for `histogram_seconds`.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.costs import plane_seconds
    >>> plane_seconds(10**6, np.full(20, 2)) < plane_seconds(10**6, np.full(20, 10))
    True
    """
    kept = (sizes - 1).astype(float)
    total = float(kept.sum())
    pairs = (total**2 - float(kept @ kept)) / 2
    # Adding the lanes of a sum up takes as long as 1,000 rows, in every block of rows.
    rows = n + 1000 * math.ceil(n / 16_384)
    making = n * (total + 3 * sizes.size) * MAKING_SECONDS
    completing = COMPLETING_SECONDS * float(sizes.sum()) ** 2
    return CALL_SECONDS + rows * pairs * _per_pair() + making + completing


@cache
def _per_pair() -> float:
    """Return what this processor takes for a row of two planes."""
    import llvmlite.binding

    try:
        features = dict(llvmlite.binding.get_host_cpu_features())
    except RuntimeError:  # LLVM does not know the processor
        features = {}
    return next(
        seconds
        for name, seconds in PLANE_SECONDS.items()
        if not name or features.get(name)
    )


@lru_cache(256)
def plane_columns(n: int, sizes: tuple[int, ...]) -> tuple[float, tuple[bool, ...]]:
    """Return the least time with compiled loops, and which columns get bit planes.

    The columns of fewest categories get them. Pairs with one of the others are left to
    histograms.

    Parameters
    ----------
    n, sizes
        As for `histogram_seconds`.

    Examples
    --------
    >>> from renyi.counting.costs import plane_columns
    >>> seconds, few = plane_columns(1_000_000, (2,) * 60)
    >>> all(few)
    True
    """
    lengths = np.array(sizes, np.int64)
    best = (math.inf, (False,) * len(sizes))
    for limit in [0, *np.unique(lengths).tolist()]:
        few = lengths <= limit
        seconds = _packed_seconds(n, lengths, ~few)
        if few.any():
            seconds += plane_seconds(n, lengths[few])
        best = min(best, (seconds, tuple(few.tolist())))
    return best


def _packed_seconds(
    n: int, sizes: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> float:
    """Estimate the time of compiled histograms of the wanted columns with all."""
    if not wanted.any():
        return 0.0
    groups, first = super_columns(sizes, joint_values(n), wanted)
    pairs = first * (first - 1) / 2 + first * (len(groups) - first)
    inner = sum(group.size for group in groups[:first])
    cells = inner * (inner / 2 + sum(group.size for group in groups[first:]))
    return pairs * (PAIR_SECONDS + n * COMPILED_SECONDS) + CELL_SECONDS * cells


def numpy_seconds(n: int, sizes: NDArray[np.int64]) -> tuple[float, Engine]:
    """Return the least time with numpy alone, and the engine that takes it.

    Parameters
    ----------
    n, sizes
        As for `histogram_seconds`.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.costs import numpy_seconds
    >>> numpy_seconds(2_000, np.full(500, 2))[1]
    'product'
    """
    by_histogram = histogram_seconds(n, sizes, HISTOGRAM_SECONDS)
    by_product = product_seconds(n, sizes, False)
    if by_product < by_histogram:
        return by_product, "product"
    return by_histogram, "histogram"


def weighted_engine(n: int, sizes: NDArray[np.int64]) -> tuple[float, Engine]:
    """Return numpy's time for weighted histograms, and "histogram" or "product".

    Histograms agree in every bit, compiled or not. The product sums weights in another
    order, so the choice depends on the shape and on what is installed, never on what
    happens to be loaded.

    Parameters
    ----------
    n, sizes
        As for `histogram_seconds`.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.costs import weighted_engine
    >>> weighted_engine(1_000_000, np.full(5, 10))[1]
    'histogram'
    """
    seconds = histogram_seconds(n, sizes, HISTOGRAM_SECONDS)
    by_product = product_seconds(n, sizes, True)
    by_histogram = seconds
    if min(seconds, by_product) >= compiled.WORTH_SECONDS and compiled.load():
        by_histogram = histogram_seconds(n, sizes, COMPILED_SECONDS)
    return seconds, "product" if by_product < by_histogram else "histogram"
