"""Closings: what becomes of a column's codes when all rows have been seen.

In a stream, categories are numbered as they come. In the end labels are sorted, those
of too few rows merged, and numbers binned, by the rules of `renyi.encoding` and
`renyi.binning`. A `Closing` is the result: the levels, and where each code goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.binning import bin_cells, bin_codes
from renyi.columns import Levels
from renyi.encoding import Encoder
from renyi.factoring import MAX_INTEGER_LABELS, Label, label_order, label_text
from renyi.streams.sketches import Cells

Places = NDArray[np.intp]
Floats = NDArray[np.float64]

_UNUSED = -1


class Closing(NamedTuple):
    """What becomes of the codes: the levels of the column, and each code's new one.

    A code that no row has becomes -1.
    """

    levels: Levels
    places: Places


def close_labels(
    found: Sequence[Label],
    mass: NDArray[Any],
    encoder: Encoder,
    rare: tuple[Label, ...] | None,
) -> Closing:
    """Sort labels and merge rare ones, as `Encoder.fit` does.

    The first entry of `mass` is of missing cells. Labels may repeat, or be None.

    >>> close_labels(["b", "a"], np.array([0, 2, 3]), Encoder(), None).places
    array([-1,  1,  0])
    """
    first: dict[str, Label] = {}
    for label in found:
        if label is not None:
            first.setdefault(label_text(label), label)
    ordered = sorted(first.values(), key=label_order)
    rank = {label_text(label): k for k, label in enumerate(ordered)}
    codes = [len(ordered) if v is None else rank[label_text(v)] for v in found]
    codes = [len(ordered), *codes]
    held = np.bincount(codes, mass, len(ordered) + 1)
    levels = encoder._levels(ordered, held, rare)
    places = encoder.code_table(levels, ordered)[codes]
    places[mass <= 0] = _UNUSED
    return Closing(levels, places)


def close_numbers(
    low: Floats, high: Floats, mass: NDArray[Any], bins: int, whole: bool
) -> Closing:
    """Bin cells of numbers; the first entry of `mass` is of missing cells.

    >>> values = np.array([3.0, 1.0, np.nan])
    >>> close_numbers(values, values, np.array([0, 5, 5, 1]), 2, True).places
    array([-1,  1,  0,  2])
    """
    held = (mass[1:] > 0) & ~np.isnan(low)
    order = np.flatnonzero(held)[np.argsort(low[held])]
    # Texts such as 2 and 2.0 are one value.
    first = np.flatnonzero(np.diff(low[order], prepend=np.nan) != 0)
    most, total = high[order], mass[1:][order]
    if len(first) < len(order):
        most = np.maximum.reduceat(most, first)
        total = np.add.reduceat(total, first)
    edges, texts = bin_cells(Cells(low[order][first], most, total), bins, whole)
    codes = np.append(len(edges) + 1, bin_codes(low, edges))
    codes[mass <= 0] = _UNUSED
    missing = (None,) if len(edges) + 1 in codes else ()
    levels = Levels("number", (*texts, *missing), tuple(edges.tolist()))
    return Closing(levels, codes)


def are_many(values: Floats) -> bool:
    """Whether integers are too many for labels.

    >>> are_many(np.arange(20.0)), are_many(np.arange(21.0))
    (False, True)
    """
    return len(np.unique(values[~np.isnan(values)])) > MAX_INTEGER_LABELS
