"""Cross-fitting: train two models on halves of the rows, evaluate each on the other.

Bins, rare labels and the penalty of a model are learned from its own half alone. The
deployed model is the scorecard of the mean scores (an average), or a fair coin that
chooses which of the two models answers (a mixture). The proofs are in
`renyi.certificates.heldout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates import text
from renyi.certificates.closed_form import closed_form, moments_of_marginals
from renyi.certificates.heldout import (
    EQUAL,
    METHODS,
    HeldoutBounds,
    JudgedHalf,
    Residuals,
    average,
    average_of_rows,
    bounds_of_marginals,
    crossfit_bounds,
    largest_residual,
)
from renyi.certificates.intervals import KnownTables, is_interval
from renyi.certificates.record import Certificate
from renyi.certification import Warned, majority_of, of_unseen_rows
from renyi.counting.sparse_counts import is_sparse
from renyi.encoding import rules as column_rules
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import TrainingRows, take_rows, target_column
from renyi.fitting.record import Fit, restored
from renyi.fitting.settings import Seed, Settings
from renyi.fitting.training import fit_counts, fit_rows
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Noise
from renyi.robust.interval_bounds import interval_bounds
from renyi.scorecard import Scorecard
from renyi.solvers.calibration import of_slope
from renyi.solvers.ridge import AlphaChoice
from renyi.validation import InputError, check_choice, check_share

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

WEIGHTED = (
    "Halves that certify each other have no weights, no sample_weight: the "
    "certificate is proven for rows that were drawn independently and have equal "
    "weights. Leave the weights out, or train one model on all rows, which certifies "
    "the weighted marginals."
)
_LEAST_ROWS = 4  # two to train each model, two to evaluate it


@dataclass(frozen=True)
class CrossFitSettings:
    """The parameters of cross-fitting; see `CrossFitClassifier`."""

    method: str = "average"
    confidence: float = 0.95
    random_state: Seed = 0

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_choice("method", self.method, METHODS)
        check_share("confidence", self.confidence)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Two models, each evaluated on the rows of the other.

    Parameters
    ----------
    halves : tuple of two Fit
        The model of each half.
    certificate : Certificate
        What the halves prove of the deployed model.
    average : Fit or None
        The model of the mean scores; None of a mixture.
    """

    halves: tuple[Fit, Fit]
    certificate: Certificate
    average: Fit | None


def coins(codes: Sequence[NDArray[Any]], random_state: Seed) -> NDArray[np.bool_]:
    """Return whether the first of two models answers each row, by a fair coin."""
    both = np.concatenate(codes)
    shares = np.full((both.shape[1], 2), 0.5)
    return np.asarray(rules.draw(shares, rules.row_keys(both), random_state) == 0)


# ---- from rows


class Half(NamedTuple):
    """Half of the rows: the table, and the positions of the classes."""

    table: Any
    y: Places


def cross_fit_table(
    table: Any,
    labels: NDArray[Any],
    y: object,
    encoder: Encoder,
    settings: Settings,
    how: CrossFitSettings,
) -> CrossFit:
    """Split a table at random, train on each half, and evaluate on the other.

    Parameters
    ----------
    table : frame or array
        The rows.
    labels : ndarray
        Their classes.
    y : object
        The classes as they were given, which may have a name.
    encoder : Encoder
        How cells become categories.
    settings : Settings
        The parameters of both models.
    how : CrossFitSettings
        How the rows are split, and what is deployed.
    """
    classes, codes = column_rules.distinct(labels)
    column_rules.check_class_labels(classes, encoder.missing)
    if how.method == "average" and settings.chooses_pairs:
        raise InputError(
            "{interactions} chooses other pairs in each half, and an average needs the "
            "same in both: name the pairs, or use {method}.",
            interactions=settings.interactions,
            method="mixture",
        )
    if how.method == "average" and settings.chooses_order:
        raise InputError(
            "{order} may choose another order in each half, and an average needs the "
            "same in both: give the order, or use {method}.",
            order=settings.order,
            method="mixture",
        )
    if how.method == "average":
        settings = _average_settings(settings, "temperature")
    if len(codes) < _LEAST_ROWS:
        raise InputError(
            f"Two halves that certify each other need at least {_LEAST_ROWS} rows, "
            f"but there are only {len(codes)}.",
            python=f"n_samples={len(codes)}",
        )
    parts = split_rows(table, codes, how.random_state)
    encoded = _encoded(encoder, table, parts)
    if all(own.single.columns.sizes.max() < 2 for own, _ in encoded):
        check_usable(encoded[0][0])
    target = target_column(y, encoded[0][0], classes)
    first, second = (
        fit_rows(TrainingRows(own, target, half_codes, part.y, None), settings)
        for (own, half_codes), part in zip(encoded, parts, strict=True)
    )
    weights = EQUAL
    if how.method == "average":
        (first, second), weights = _to_average(first, second)
    judged = [judged_half(first, parts[1]), judged_half(second, parts[0])]
    bounds = crossfit_bounds(judged, settings.rule, how.method, how.confidence, weights)
    card = None
    if how.method == "average":
        card = average_of_rows(first.scorecard_, second.scorecard_, table, weights)
    shares = np.bincount(codes, minlength=len(classes)) / len(codes)
    return _cross_fit((first, second), bounds, len(codes), shares, card, how)


def split_rows(table: Any, y: Places, random_state: Seed) -> list[Half]:
    """Return two halves of the rows, drawn at random and in random order."""
    order = rules.random_of(random_state).permutation(len(y))
    parts = np.split(order, [len(y) // 2])
    return [Half(take_rows(table, places), y[places]) for places in parts]


def _encoded(
    settings: Encoder, table: Any, halves: list[Half]
) -> list[tuple[Encoder, NDArray[Any]]]:
    """Return the encoder and the codes of each half, learned from it alone."""
    try:
        return [settings.fit_transform(half.table) for half in halves]
    except ValueError:
        # Reject identifiers of the whole table: a half may have one by chance.
        settings.fit_transform(table)
        return [
            settings.fit_transform(half.table, refuse_identifiers=False)
            for half in halves
        ]


def judged_half(fit: Fit, rows: Half) -> JudgedHalf:
    """Return the results of a model on rows that it has not seen."""
    card = fit.scorecard_
    # An unseen label gets the mean points, even if `predict` would reject it.
    encoder = replace(card.encoder, unseen="mean")
    codes = encoder.transform(rows.table)
    n = len(rows.y)
    t = card.estimates(codes)
    deciding = card.of_rule(fit.rule)
    moved = t if deciding is card else deciding.estimates(codes)
    right = rules.rule_proba(moved, fit.rule)[np.arange(n), rows.y]
    largest = largest_residual(card)
    decisions = None
    scaled = deciding_card(fit)
    if scaled is not card:
        decisions = Residuals(
            scaled.estimates(codes), largest_residual(scaled), scaled.score_error
        )
    return JudgedHalf(t, rows.y, 1 - right, largest, card.score_error, decisions)


def deciding_card(fit: Fit) -> Scorecard:
    """Return the scorecard whose estimates decide, at a scale that suits a bound.

    It is the model's own unless a calibration decides, or its scores are log-odds. They
    then are multiplied
    by the factor at which left-out ones, or those of the pair counts, estimate the
    class best: 4γ bounds the errors of any multiple. The factor is learned from the
    same half as the model.
    """
    card = fit.scorecard_
    if fit.rule != "map" or (card.mapped is card and card.of_estimates):
        return card
    mapped = card.mapped
    if card.n_classes == 2 and card.of_estimates:  # a shift, at the same scale
        return mapped
    fit = getattr(fit, "fit_", fit)  # of a classifier
    lead = 0.0
    spread = 0.0
    if fit.left_out is not None:
        rows = fit.left_out
        assert card.calibration is not None
        scores = card.per_class(card.calibration.of(rows.scores))
        lead = float(rows.weights @ scores[np.arange(len(scores)), rows.y])
        spread = float(rows.weights @ (scores**2).sum(axis=1))
    elif fit.marginals_ is not None:
        moments = moments_of_marginals(mapped.match(fit.marginals_))
        lead = float(moments.leads.sum())
        spread = moments.spread
    scale = lead / spread if lead > 0 < spread else 1.0
    return replace(
        mapped,
        z=scale * mapped.z,
        intercept=scale * mapped.intercept,
        unseen=None if mapped.unseen is None else scale * mapped.unseen,
        calibration=of_slope(1 / scale),
    )


def _to_average(first: Fit, second: Fit) -> tuple[tuple[Fit, Fit], tuple[float, float]]:
    """Return the models with the scores that decide, and the weights of these.

    The weights are equal, unless one of two classes is so rare that an intercept
    decides. Then they are the slopes from scores to log-odds, and the average has the
    mean of the log-odds: a half that learned nothing does not drown the other.
    """
    mine = _of_decisions(first)
    other = _of_decisions(second)
    maps = [fit.scorecard_.calibration for fit in (mine, other)]
    shifted = mine is not first or other is not second
    if first.points.n_classes > 2 or not shifted or None in maps:
        return (mine, other), EQUAL
    slopes = [float(c.slope) for c in maps if c is not None]
    return (mine, other), (slopes[0] / sum(slopes), slopes[1] / sum(slopes))


def _of_decisions(fit: Fit) -> Fit:
    """Return the model with the scorecard that decides as its own."""
    card = deciding_card(fit)
    if card is fit.scorecard_:
        return fit
    return replace(fit, points=card, left_out=None, pairs=None, fold_scores=None)


# ---- from counts


def cross_fit_counts(
    first: Marginals, second: Marginals, settings: Settings, how: CrossFitSettings
) -> CrossFit:
    """Train on the marginals of each of two halves, and evaluate on the other."""
    if how.method != "average":
        raise InputError(
            "A mixture needs rows to count errors on: use {method}, or fit rows.",
            method="average",
        )
    for m in (first, second):
        _check_half(m)
    _check_halves(first, second)
    settings = settings.of_counts(first)
    settings = _average_settings(settings, None)
    if settings.calibration == "auto" and (is_interval(first) or is_interval(second)):
        settings = replace(settings, calibration=None)
    halves, weights = _to_average(
        fit_counts(first, settings), fit_counts(second, settings)
    )
    cards = (halves[0].scorecard_, halves[1].scorecard_)
    judges = [_judged(card, m) for card, m in zip(cards, (second, first), strict=True)]
    bounds = bounds_of_marginals(cards, judges, settings.rule, how.confidence, weights)
    names = first.encoder.single.columns.numeric_names
    notes: tuple[Warned, ...] = tuple(
        ("shared-bins", text.shared_bins(name)) for name in sorted(names)[:1]
    )
    part, whole = sorted((first, second), key=lambda m: m.n)
    if _may_contain(part, whole):
        notes = (("training-rows", text.CONTAINED), *notes)
    n = first.n + second.n
    shares = (
        first.n * first.class_probabilities + second.n * second.class_probabilities
    ) / n
    card = average(*cards, weights=weights)
    return _cross_fit(halves, bounds, n, shares, card, how, notes)


def _judged(card: Scorecard, m: Marginals) -> tuple[float, float]:
    """Return the risk of a model on a half, at most, and its rows, at least."""
    match = card.match(m)
    if not is_interval(m):
        return closed_form(card, match).gamma, m.n
    n = KnownTables.of(m).n[0]
    return interval_bounds(card, match, "sharp").gamma, n


def _check_half(m: object) -> None:
    """Raise an error if marginals cannot be one of two halves."""
    if not isinstance(m, Marginals):
        raise TypeError(f"fit_halves takes Marginals, not a {type(m).__name__}.")
    if m.weighted:
        raise ValueError(WEIGHTED)
    if isinstance(m.uncertainty, Noise):
        raise ValueError(
            "Halves with noise cannot certify each other: what one shows of its rows "
            "is not exact, nor in an interval. Add the releases, and certify the model "
            "of the sum by its noise."
        )
    if m.uncertainty is not None:
        return
    if (times := _repetitions(m)) > 1:
        raise ValueError(
            f"All counts of a half are multiples of {times:,}, as if rows were "
            "counted several times: such counts prove nothing. Give the "
            "marginals as they were counted, not scaled and not added twice."
        )


def _check_halves(first: Marginals, second: Marginals) -> None:
    """Raise an error if two marginals are not halves of one table."""
    first.settings.joined(second.settings)
    if first.digest.matches(second.digest):
        raise ValueError(
            "The two halves are the same marginals: give those of two disjoint "
            "halves of the rows."
        )
    if list(first.classes) != list(second.classes):
        raise ValueError(
            f"The halves have different classes, {list(first.classes)} and "
            f"{list(second.classes)}: nothing can be proven about a class that "
            "only one half has. Leave its rows out of both."
        )
    check_bins(first, second)


def check_bins(first: Marginals, second: Marginals) -> None:
    """Raise an error if two marginals have different bins of a column."""
    theirs = {column.name: column for column in second.encoder.single.columns}
    for column in first.encoder.single.columns:
        column.check_bins(theirs.get(column.name, column))


def _repetitions(m: Marginals) -> int:
    """Return the largest number that divides all counts."""
    pairs = m.feature_counts
    values = pairs.data if is_sparse(pairs) else np.asarray(pairs).ravel()
    both = [values.astype(np.int64), m.target_counts.ravel().astype(np.int64)]
    return int(np.gcd.reduce(np.concatenate(both)))


def _may_contain(part: Marginals, whole: Marginals) -> bool:
    """Return whether one may contain the rows of the other, by their counts."""
    try:
        return (whole - part).n > 0
    except ValueError:
        return False


# ---- shared by rows and counts


def _average_settings(settings: Settings, instead: str | None) -> Settings:
    """Return settings for an average; rules that answer at random use the scores."""
    if settings.rule == "map":
        return settings
    if settings.calibration in ("sigmoid", "affine", "discriminant"):
        raise InputError(
            "{calibration} changes the decisions of rule 'map', but this average has "
            f"rule {settings.rule!r}: use 'auto' or 'temperature'.",
            calibration=settings.calibration,
        )
    if settings.calibration == "auto":
        return replace(settings, calibration=instead)
    return settings


def _cross_fit(
    halves: tuple[Fit, Fit],
    bounds: HeldoutBounds,
    n: float,
    shares: Floats,
    card: Scorecard | None,
    how: CrossFitSettings,
    notes: tuple[Warned, ...] = (),
) -> CrossFit:
    """Return two models with their certificate, and with a card their average.

    `shares` are those of the classes in both halves.
    """
    settings = halves[0].settings
    if settings.class_weight is not None:
        notes = (("class-weight", text.CLASS_WEIGHT), *notes)
    shown = halves[0].scorecard_ if card is None else card
    certificate = of_unseen_rows(
        bounds,
        shown,
        settings.rule,
        n,
        "crossfit",
        how.confidence,
        majority_of(halves[0].points.classes, shares),
        notes,
    )
    if card is None:
        return CrossFit(halves, certificate, None)
    alpha = float(np.mean([fit.choice.alpha for fit in halves]))
    choice = AlphaChoice(halves[0].choice.method, alpha, None)
    named = halves[0].named
    deployed = restored(settings, card, choice, certificate, None, named)
    return CrossFit(halves, certificate, deployed)
