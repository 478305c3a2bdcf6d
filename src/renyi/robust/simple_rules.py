r"""Simple rules: multipliers that need no program, where minimax problems begin.

One table with the target tells the best rule that looks at its columns only. All pairs
tell the rule of least squares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.robust.ambiguity_set import Ambiguity

Floats = NDArray[np.float64]


class Promise(NamedTuple):
    """A rule by its multiplier, the worst error it promises, and where it is from."""

    upper: float
    multiplier: Floats
    origin: str


def table_rule(ambiguity: Ambiguity) -> tuple[float, Floats]:
    """Error and multiplier of the best rule that looks at one table only.

    With Y and one feature, it is the one-feature rule: exact, and no worse than always
    answering the most frequent class.
    """
    best, where = np.inf, -1
    for t, table in enumerate(ambiguity.tables):
        if table.with_target:
            error = 1 - float(table.probabilities.max(axis=-1).sum())
            best, where = min((best, where), (error, t))
    cells = ambiguity.tables[where].probabilities
    answers = np.eye(ambiguity.n_classes)[cells.argmax(axis=-1)]
    multiplier = np.zeros(len(ambiguity.b))
    span = slice(int(ambiguity.starts[where]), int(ambiguity.starts[where + 1]))
    multiplier[span] = 1 - answers.ravel()
    return float(ambiguity.b @ multiplier), multiplier


def quadratic_rule(ambiguity: Ambiguity) -> tuple[float, Floats]:
    r"""Error and multiplier of the rule of least squares, where all pairs are known.

    For any additive estimates ``t = Z^T W`` the functions ``λ_y = ‖t − e_y‖²`` will do,
    and the least of their expectations, ``B = E‖t − e_Y‖²``, is 2γ of the classifier
    without penalty. Where pairs are missing it is inf.
    """
    sizes, K, starts = ambiguity.sizes, ambiguity.n_classes, offsets(ambiguity.sizes)
    spans = [slice(*starts[i : i + 2]) for i in range(len(sizes))]
    Q, F = np.full((starts[-1], starts[-1]), np.nan), np.zeros((starts[-1], K))
    for table in ambiguity.tables:
        p = table.probabilities
        if table.with_target and len(table.features) == 1:
            (i,) = table.features
            F[spans[i]], Q[spans[i], spans[i]] = p, np.diag(p.sum(axis=1))
        elif len(table.features) == 2:
            i, j = table.features
            Q[spans[i], spans[j]] = p.sum(axis=-1) if table.with_target else p
            Q[spans[j], spans[i]] = Q[spans[i], spans[j]].T
    if not np.isfinite(Q).all():
        return np.inf, np.zeros(len(ambiguity.b))
    Z = np.linalg.lstsq(Q, F, rcond=1e-12)[0]
    pieces = [np.zeros(table.probabilities.shape) for table in ambiguity.tables]
    for table, piece in zip(ambiguity.tables, pieces, strict=True):
        parts = [Z[spans[i]] for i in table.features]
        if len(parts) == 2:
            value = 2 * parts[0] @ parts[1].T
            piece += value[..., None] if table.with_target else value
        elif table.with_target:
            piece += (parts[0] ** 2).sum(axis=1, keepdims=True) - 2 * parts[0]
    multiplier = ambiguity.shifted(np.concatenate([p.ravel() for p in pieces]), 1.0)
    return float(ambiguity.b @ multiplier), multiplier
