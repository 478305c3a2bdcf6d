"""A cheap look: whether pairs of columns would clearly lower the error to expect.

A model of single columns and one of all pairs of columns are trained on the same rows,
a sample where all of them would take long. Each row is left out of both. The
difference of two errors is the mean of the paired differences, and clear if it exceeds
`CLEAR` of its standard errors.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from renyi.encoding.rows import TrainingRows, in_tuples
from renyi.fitting.record import Fit
from renyi.fitting.training import fit_rows

LOOKED_AT = 1_000
"""Rows of the sample, if all rows would take long."""
CLEAR = 3.0
_MOST_TUPLES = 30_000
_FEW_TUPLES = 1_000
_MOST_OPERATIONS = 1e9  # of the rows and the square of their tuples


class Look(NamedTuple):
    """Errors to expect on new rows, by single columns and by pairs of columns."""

    rows: int  # that both were trained on
    sampled: bool  # whether these are not all
    single: float
    pairs: float
    spread: float  # standard error of the difference

    @property
    def is_clear(self) -> bool:
        """Whether pairs lower the error by more than chance would."""
        return self.single - self.pairs > CLEAR * self.spread


def look_at_pairs(fit: Fit, rows: TrainingRows, n: int) -> Look | None:
    """Return the errors on the n rows of a fit, or on a sample of them.

    `rows` are those of the fit, or a sample of them where n is large. None if a look
    would take long, or if the fit has settings of which it would say little.
    """
    settings = fit.settings
    plain = settings.order == 1 and settings.interactions is None
    plain &= settings.rule == "map" and settings.objective == "error"
    weighed = settings.class_weight is not None or rows.sample_weight is not None
    if not plain or weighed:
        return None
    tuples = _most_tuples(rows)
    cheap = tuples <= _FEW_TUPLES and len(rows.y) * tuples**2 <= _MOST_OPERATIONS
    if not 0 < tuples <= _MOST_TUPLES:
        return None
    single = fit
    if len(rows.y) > LOOKED_AT and not cheap:
        some = np.random.default_rng(0).permutation(len(rows.y)) < LOOKED_AT
        rows = rows.part(some)
    if len(rows.y) < n:
        single = fit_rows(rows, settings)
    pairs = fit_rows(in_tuples(rows, 2), replace(settings, order=2))
    before = single.left_out_losses
    after = pairs.left_out_losses
    if before is None or after is None:
        return None
    off = before - after
    return Look(
        len(rows.y),
        len(rows.y) < n,
        float(before.mean()),
        float(after.mean()),
        float(off.std()) / math.sqrt(len(off)),
    )


def _most_tuples(rows: TrainingRows) -> int:
    """Return how many pairs of categories the rows of a sample have at most."""
    n = min(len(rows.y), LOOKED_AT)
    sizes = rows.encoder.columns.sizes
    pairs = math.comb(len(sizes), 2)
    if pairs > _MOST_TUPLES:  # each has at least one
        return pairs
    return int(np.triu(np.minimum(n, np.outer(sizes, sizes)), 1).sum())
