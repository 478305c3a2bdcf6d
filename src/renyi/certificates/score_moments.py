"""Evidence: the moments of a model's estimates that the closed form needs.

They come from marginals (which may be of other rows than the model's: categories are
matched as `predict` matches them) or from the estimates at all rows. Each feature's
mean is moved to the intercept first, so that points of any size keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT, RARE, Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import Label, label_text
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard

Floats = NDArray[np.float64]

# Up to this many categories it costs little to see whether marginals are possible.
_CHECKED_SIZE = 2_000
# What rounded counts may be off by, as in Marginals.validate.
_TOLERANCE = 1e-6
_EPS = float(np.finfo(np.float64).eps)


class Evidence(NamedTuple):
    """All that the closed form needs to know of a model under some marginals."""

    n: float
    n_indicators: int  # categories that have rows
    priors: Floats
    risk: float  # B = E‖t − e_Y‖²
    rounding: float  # what it may be off by
    spread: float  # E‖t − t̄·1‖²
    lead: float  # E[t_Y − t̄]
    off_rounding: float  # what these two may be off by
    F: NDArray[Any]  # P(category, class), or its counts
    columns: Columns


@np.errstate(over="ignore", invalid="ignore")
def evidence_of_marginals(card: Scorecard, m: Marginals) -> Evidence:
    """Return the moments of a scorecard's estimates under some marginals."""
    m = aligned(card, m)
    F, priors = _by_class(card, m)
    Q, K = m.Q, card.n_classes
    mu, columns = np.diag(Q), m.encoder.columns
    points = card.per_class(card.tables[0][places(card, m)])
    b = card.per_class(np.atleast_2d(card.intercept))[0]
    P, b = _centred(points, b, mu, columns)
    off, shift = P - P.mean(axis=1, keepdims=True), b - b.mean()
    lead = float((F * off).sum() + priors @ shift)  # E[s_Y − s̄]
    square = float(_squares(Q, mu, P, b).sum())  # E‖s‖²
    return Evidence(
        m.n,
        int((mu > 0).sum()),
        priors,
        square - 2 * lead + 1 - 1 / K,
        len(mu) * _EPS * _magnitude(mu, P, b, columns),
        max(0.0, float(_squares(Q, mu, off, shift).sum())),
        lead,
        len(mu) * _EPS * _magnitude(mu, off, shift, columns),
        F,
        columns,
    )


def _centred(
    P: Floats, b: Floats, mu: Floats, columns: Columns
) -> tuple[Floats, Floats]:
    """Move each feature's mean to the intercept, which changes no score."""
    starts = offsets(columns.sizes)[:-1]
    totals = np.add.reduceat(mu, starts)[:, None]
    means = np.add.reduceat(mu[:, None] * P, starts) / totals
    return P - np.repeat(means, columns.sizes, axis=0), b + means.sum(axis=0)


def _squares(Q: Floats, mu: Floats, P: Floats, b: Floats) -> Floats:
    """Return E s² of the scores s = b + PᵀW, class by class."""
    return np.asarray((P * (Q @ P)).sum(axis=0) + 2 * b * (mu @ P) + b**2)


def _magnitude(mu: Floats, P: Floats, b: Floats, columns: Columns) -> float:
    """Bound the second moment of the sums of absolute values behind the moments."""
    starts = offsets(columns.sizes)[:-1]
    norms = np.sqrt(np.add.reduceat(mu[:, None] * P**2, starts)).sum(axis=0)
    return float(((norms + np.abs(b) + 1) ** 2).sum())


def evidence_of_rows(
    t: Floats, y: NDArray[Any], mass: Floats | None, F: NDArray[Any], columns: Columns
) -> Evidence:
    """Return the same from the rows, where the pairs would be too many to count."""
    n, K = t.shape
    share = np.full(n, 1 / n) if mass is None else mass / mass.sum()
    own = t[np.arange(n), y]
    middle = t.mean(axis=1)
    rounding = n * _EPS * (1 + float(share @ (t**2).sum(axis=1)))
    return Evidence(
        float(n if mass is None else mass.sum()),
        int((F.sum(axis=1) > 0).sum()),
        np.bincount(y, share, minlength=K).astype(np.float64),
        float(share @ ((t - np.eye(K)[y]) ** 2).sum(axis=1)),
        rounding,
        float(share @ ((t - middle[:, None]) ** 2).sum(axis=1)),
        float(share @ (own - middle)),
        rounding,
        F,
        columns,
    )


def best_feature(F: NDArray[Any], columns: Columns) -> tuple[str, float]:
    """Return the feature that errs least when it answers alone, and its error."""
    starts = offsets(columns.sizes)
    total = F[: starts[1]].sum()  # 1, or the number of rows
    errors = (total - np.add.reduceat(F.max(axis=1), starts[:-1])) / total
    best = int(errors.argmin())
    return columns.names[best], max(0.0, float(errors[best]))


def refuse_impossible(m: Marginals) -> None:
    """Refuse marginals that no rows can have, where it costs little to find out.

    The whole table of pairs must be positive semidefinite: it has a Cholesky factor
    once it is shifted by what is tolerated.
    """
    if len(m.counts) > _CHECKED_SIZE:
        return
    shifted = m.counts / m.n + _TOLERANCE * np.eye(len(m.counts))
    if lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)[1]:
        m.validate(_TOLERANCE)


def aligned(card: Scorecard, m: Marginals) -> Marginals:
    """Return the marginals of the card's features; what is missing is named."""
    if m.order != card.encoder.order:
        raise ValueError(
            f"The marginals are of order {m.order}, the model of {card.encoder.order}: "
            f"count with order={card.encoder.order}."
        )
    for name in card.encoder.feature_names:
        if name not in m.feature_names:
            raise ValueError(
                f"The marginals have no column {name!r}, a model's feature."
            )
    known = {label_text(label) for label in card.classes}
    for label in m.classes:
        if label is None or label_text(label) not in known:
            raise ValueError(
                f"The target {m.target!r} of the marginals has the class {label!r}, "
                "which the model does not know."
            )
    if m.feature_names == card.encoder.feature_names:
        return m
    return m.select(card.encoder.feature_names)


def places(card: Scorecard, m: Marginals) -> NDArray[np.intp]:
    """Row of `card.tables` that `predict` uses for each category of the marginals."""
    _, starts = card.tables
    pairs = zip(card.encoder.columns, m.encoder.columns, strict=True)
    pieces = [
        start + _codes(card.encoder, mine, theirs, m.settings)
        for start, (mine, theirs) in zip(starts, pairs, strict=True)
    ]
    return np.concatenate(pieces)


def _codes(
    encoder: Encoder, mine: Column, theirs: Column, settings: Encoder
) -> NDArray[np.intp]:
    """Code that the model's encoder gives each category of the marginals' column."""
    if (
        mine.kind != theirs.kind
        or mine.levels.edges != theirs.levels.edges
        or (mine.kind == "number" and _numbers(encoder) != _numbers(settings))
    ):
        raise ValueError(
            f"Column {mine.name!r} is binned differently in the marginals and in "
            "the model: build the marginals with the model's encoder."
        )
    labels = [label for label in theirs.categories if label is not None]
    if mine.kind == "number":
        codes = [*range(len(labels)), *encoder.code_table(mine.levels, ())]
        return np.array(codes[: len(theirs.categories)], np.intp)
    codes = encoder.code_table(mine.levels, labels).tolist()
    if RARE in labels and theirs.levels.rare:
        codes[labels.index(RARE)] = _one_code(encoder, mine, theirs.levels.rare)
    if None in theirs.categories:
        _one_code(encoder, mine, (*settings.missing, None))
    return np.array(codes[: len(theirs.categories)], np.intp)


def _numbers(encoder: Encoder) -> set[float]:
    """Return the missing codes that are numbers, such as -9."""
    found = set()
    for code in encoder.missing:
        try:
            found.add(float(label_text(code)))
        except ValueError:
            continue
    return {code for code in found if math.isfinite(code)}


def _one_code(encoder: Encoder, mine: Column, merged: Sequence[Label]) -> int:
    """Return the model's one code of labels that are one category of the marginals."""
    labels = [label for label in merged if label is not None]
    codes = encoder.code_table(mine.levels, labels).tolist()
    if None not in merged:
        codes = codes[:-1]
    for label, code in zip(merged, codes, strict=True):
        if code != codes[0]:
            first, second = (
                MISSING_TEXT if v is None else label_text(v) for v in (merged[0], label)
            )
            raise ValueError(
                f"Column {mine.name!r} merges {first!r} and {second!r} in the "
                "marginals, and the model tells them apart: build the marginals with "
                "the model's encoder."
            )
    return int(codes[0])


def _by_class(card: Scorecard, m: Marginals) -> tuple[Floats, Floats]:
    """F and the class probabilities in the order of the model's classes."""
    order = {label_text(label): k for k, label in enumerate(card.classes)}
    places = [order[label_text(label)] for label in m.classes]
    F = np.zeros((int(m.encoder.columns.sizes.sum()), card.n_classes))
    priors = np.zeros(card.n_classes)
    F[:, places], priors[places] = m.F, m.class_probabilities
    return F, priors


def same_counts(card: Scorecard, m: Marginals) -> bool:
    """Whether the marginals have as many rows in each category as training had."""
    sizes = card.encoder.columns.sizes
    own = np.insert(card.counts.astype(np.float64), offsets(sizes)[1:], 0)
    totals = np.diag(m.feature_counts)
    found = np.bincount(places(card, m), totals, minlength=len(own))
    return bool(np.allclose(found, own, rtol=1e-9, atol=1e-9 * m.n))
