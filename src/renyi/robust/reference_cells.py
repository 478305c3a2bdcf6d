r"""Gauge: one multiplier for each set of functions.

Many multipliers define the same functions λ_y: what a pair of columns has too much, a
single column may have too little. Functions of a pair contain functions of each of its
columns, and these contain constants. Taking the likeliest category of every column as
the zero of its functions leaves one multiplier for each λ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from renyi.robust.ambiguity_set import Ambiguity

Floats = NDArray[np.float64]


def _likeliest(ambiguity: Ambiguity) -> NDArray[np.intp]:
    """Most probable category of each feature: the zero of its functions."""
    found = np.zeros(len(ambiguity.sizes), np.intp)
    for table in ambiguity.tables:
        if len(table.features) == 1 and table.with_target:
            found[table.features[0]] = table.probabilities.sum(axis=1).argmax()
    return found


def gauge(ambiguity: Ambiguity) -> NDArray[np.bool_]:
    """Mark the cells whose multiplier is 0 by convention.

    Functions of a pair contain functions of one column, and these constants; taking a
    reference category as their zero leaves one multiplier for each set of functions.
    """
    zero = _likeliest(ambiguity)
    marks = []
    for table in ambiguity.tables:
        mark = np.zeros(table.probabilities.shape, bool)
        if len(table.features) == 1 and table.features[0] > 0:
            mark[zero[table.features[0]]] = True
        elif len(table.features) == 2:
            mark[zero[table.features[0]]] = True
            mark[:, zero[table.features[1]]] = True
        marks.append(mark.ravel())
    return np.concatenate(marks)


def normalised(ambiguity: Ambiguity, multiplier: Floats) -> Floats:
    """Return the multiplier of the same functions that obeys the gauge."""
    zero, K = _likeliest(ambiguity), ambiguity.n_classes
    unary: dict[int, Floats] = {}
    pieces: list[Floats] = []
    for table, low, high in zip(
        ambiguity.tables, ambiguity.starts[:-1], ambiguity.starts[1:], strict=True
    ):
        cells = multiplier[low:high].reshape(table.probabilities.shape).copy()
        if len(table.features) == 1:
            i = table.features[0]
            unary[i] = unary.get(i, 0) + cells
        else:
            i, j = table.features
            along_i, along_j = cells[:, zero[j]].copy(), cells[zero[i]].copy()
            corner = cells[zero[i], zero[j]].copy()
            cells -= along_i[:, None] + along_j[None] - corner
            along_j = along_j - corner
            if not table.with_target:
                along_i, along_j = along_i[:, None], along_j[:, None]
            unary[i] = unary.get(i, 0) + along_i
            unary[j] = unary.get(j, 0) + along_j
        pieces.append(cells)
    constant = np.zeros(K)
    for i in unary:
        if i > 0:
            constant = constant + unary[i][zero[i]]
            unary[i] = unary[i] - unary[i][zero[i]]
    unary[0] = unary[0] + constant
    for t, table in enumerate(ambiguity.tables):
        if len(table.features) == 1:
            pieces[t] = np.broadcast_to(unary[table.features[0]], pieces[t].shape)
    return np.concatenate([piece.ravel() for piece in pieces])
