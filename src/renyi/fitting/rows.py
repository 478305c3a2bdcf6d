"""Rows for a fit: encoded, with their target and their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.certificates import text
from renyi.certification import Warned
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import Column, Levels, numbered_names
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import TrainingRows
from renyi.fitting.settings import Settings
from renyi.marginals.marginals import Marginals
from renyi.solvers import ridge

Floats = NDArray[np.float64]


def encoded_rows(
    table: object,
    labels: NDArray[Any],
    weights: Floats | None,
    encoder: Encoder,
    y: object,
) -> TrainingRows:
    """Return a table as codes of an encoder that learned from it.

    `labels` are the classes as an array, of which `y` may know the name.
    """
    classes, y_codes = column_rules.distinct(labels)
    column_rules.check_class_labels(classes, encoder.missing)
    encoder, codes = encoder.fit_transform(table, weights)
    check_usable(encoder)
    target = target_column(y, encoder, classes)
    return TrainingRows(encoder, target, codes, y_codes, weights)


def target_column(y: object, encoder: Encoder, classes: NDArray[Any]) -> Column:
    """Return the target as a column, with a name that no feature has."""
    name = column_rules.target_name(y, encoder.input_names)
    return Column(name, Levels("label", tuple(classes.tolist())))


def has_names(encoder: Encoder) -> bool:
    """Whether the columns have names, and not the numbers of an array's columns."""
    names = tuple(encoder.input_names)
    return names != numbered_names(len(names))


def uses_rows(
    n: float, effective_n: float, n_indicators: int, n_classes: int, settings: Settings
) -> bool:
    """Whether n rows contain more than their counts do, for this training."""
    few = n < n_indicators
    return few or ridge.worthwhile(effective_n, n_indicators, n_classes, settings.alpha)


def weight_notes(rows: TrainingRows) -> tuple[Warned, ...]:
    """Return the warning about weights that count as many more rows, if they do."""
    n = len(rows.y)
    total = float(rows.weights.sum())
    return (("sample-weight", text.sample_weight(n, total)),) if total > 2 * n else ()


def weighed_rows(
    rows: TrainingRows,
    settings: Settings,
    classes: NDArray[Any],
    m: Marginals | None = None,
) -> ridge.Rows:
    """Return rows, or a sample of those with the marginals m, with their weights."""
    sizes = rows.encoder.columns.sizes
    K = len(classes)
    factors = rows.encoder.factors(rows.codes) if m is None else None
    if settings.weighting is None and rows.sample_weight is None:
        return ridge.Rows(rows.codes, sizes, rows.y, K, factors=factors)
    mass = rows.weights
    if m is None:
        counts = np.bincount(rows.y, mass, minlength=K).astype(np.float64)
    else:
        counts = m.class_probabilities * m.n
    factor = settings.class_factors(classes, counts)[rows.y]
    # A weight below 1 is a row by itself, a larger one several copies of a row.
    unit = np.minimum(mass, 1.0) * factor
    return ridge.Rows(rows.codes, sizes, rows.y, K, mass * factor, mass, unit, factors)
