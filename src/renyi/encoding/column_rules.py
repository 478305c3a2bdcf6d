"""Kinds of columns: which are numbers to bin, and which are labels.

By type, floats are numbers, and so are integers of more than `MAX_INTEGER_LABELS`
values; strings and categoricals are labels. Or the user names the numbers, and then
text must be readable as such. Cells that mean "missing" have no say in it: where
numbers are looked at, a code is compared by value, so that "2.0" is the number 2.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi.encoding.frame_columns import (
    MAX_INTEGER_LABELS,
    Labels,
    Numbers,
    Part,
    as_labels,
    label_text,
)


def resolve(
    part: Part, numeric: frozenset[str] | None, missing: frozenset[str]
) -> list[Part]:
    """Make each column a number or labels, as `numeric` names them.

    None decides by type: numbers are floats and integers of more than
    `MAX_INTEGER_LABELS` values. `missing` holds the texts that mean a missing cell.
    """
    if isinstance(part, Numbers):
        if numeric is None or part.name in numeric:
            values = _without(part.values, missing)
            if numeric is not None or not part.integer or _many(part.values, values):
                return [part._replace(values=values)]
        codes, found = pd.factorize(part.values)
        return [as_labels([part.name], codes[None, :], found.tolist())]
    if numeric is None:
        if part.categorical:
            return [part]
        chosen = _looks_numeric(part, missing)
    else:
        chosen = np.array([name in numeric for name in part.names])
    if not chosen.any():
        return [part]
    taken = np.flatnonzero(chosen).tolist()
    pieces: list[Part] = [_as_numbers(part, j, missing) for j in taken]
    if not chosen.all():
        kept = np.flatnonzero(~chosen).tolist()
        names = [part.names[j] for j in kept]
        kept_codes = part.codes[kept]
        pieces.append(part._replace(names=names, codes=kept_codes, extremes=None))
    return pieces


def _many(raw: NDArray[Any], values: NDArray[np.float64]) -> bool:
    """Whether integers are too many for labels once missing codes are left out."""
    if np.isnan(values).sum() == np.isnan(raw).sum():
        return True  # none left out, and they were counted before
    return are_many(values)


def are_many(values: NDArray[np.float64]) -> bool:
    """Whether integers are too many for labels, NaN left out.

    >>> are_many(np.arange(20.0)), are_many(np.arange(21.0))
    (False, True)
    """
    return len(np.unique(values[~np.isnan(values)])) > MAX_INTEGER_LABELS


def _looks_numeric(part: Labels, missing: frozenset[str]) -> NDArray[np.bool_]:
    number = np.array(
        [isinstance(v, (int, float)) and not isinstance(v, bool) for v in part.labels],
        np.bool_,
    )
    whole = np.array([isinstance(v, int) for v in part.labels], np.bool_)
    few = number.sum() <= MAX_INTEGER_LABELS and (whole | ~number).all()
    if few:
        return np.zeros(len(part.names), np.bool_)
    codes = _numbers_of(missing)
    real = np.array(
        [
            label_text(v) not in missing and not (is_number and v in codes)
            for v, is_number in zip(part.labels, number, strict=True)
        ],
        np.bool_,
    )
    present = label_counts(part)[:, :-1].astype(bool) & real
    fractions = (present & ~whole).any(axis=1)
    many = present.sum(axis=1) > MAX_INTEGER_LABELS
    numeric: NDArray[np.bool_] = ~(present & ~number).any(axis=1) & (fractions | many)
    return numeric


def _as_numbers(part: Labels, j: int, missing: frozenset[str]) -> Numbers:
    name, codes = part.names[j], part.codes[j]
    values = np.full(len(part.labels) + 1, np.nan)
    whole = True
    for k in np.unique(codes[codes < len(part.labels)]):
        label = part.labels[k]
        whole &= not isinstance(label, float)
        if label_text(label) not in missing:
            try:
                values[k] = np.nan if label is None else float(label)
            except (ValueError, OverflowError):
                raise ValueError(
                    f"Column {name!r} is to be numeric but holds {label!r:.60}: "
                    "correct it, name it as a missing code, or leave the column as "
                    "labels."
                ) from None
    values = _without(values, missing)
    seen = values[np.unique(codes)]
    seen = seen[~np.isnan(seen)]
    whole &= bool((np.isfinite(seen) & (np.floor(seen) == seen)).all())
    return Numbers(name, values[codes], whole)


def _without(values: NDArray[Any], missing: frozenset[str]) -> NDArray[np.float64]:
    """Return floats, with NaN for the user's missing codes, such as -9."""
    values = values.astype(np.float64, copy=False)
    for code in _numbers_of(missing):
        values = np.where(values == code, np.nan, values)
    return values


def _numbers_of(missing: frozenset[str]) -> set[float]:
    """Return the missing codes that are numbers."""
    found = set()
    for text in missing:
        with suppress(ValueError):
            found.add(float(text))
    return found


def label_counts(part: Labels, weights: Any = None) -> NDArray[Any]:
    """Rows (or weight) of each label in each column; the last column counts missing.

    Without weights and with few labels, only whether a label occurs: a comparison per
    label is far cheaper than a histogram.
    """
    d, n = part.codes.shape
    width = len(part.labels) + 1
    if weights is None and width <= 12:
        found = np.zeros((width, d), bool)
        if n > 4096:  # most tables show all their labels early
            for k in range(width):
                found[k] = (part.codes[:, :2048] == k).any(axis=1)
            if found[:-1].all() and int(part.codes.max()) < width - 1:
                return found.T
        lowest, highest = part.extremes or (
            part.codes.min(axis=1),
            part.codes.max(axis=1),
        )
        for k in range(width):
            # Only labels between the extremes need a look at all cells.
            between = (lowest < k) & (k < highest)
            found[k] |= (lowest == k) | (highest == k)
            if (between & ~found[k]).any():
                found[k] |= (part.codes == k).any(axis=1)
        return found.T
    counts = np.empty((d, width))
    step = max(1, 1_000_000 // max(n, width))
    for s in range(0, d, step):
        block = part.codes[s : s + step].astype(np.intp)
        flat = (block + width * np.arange(len(block))[:, None]).ravel()
        mass = None if weights is None else np.tile(weights, len(block))
        total = np.bincount(flat, mass, minlength=width * len(block))
        counts[s : s + step] = total.reshape(len(block), width)
    return counts
