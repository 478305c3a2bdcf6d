"""Training: ``fit_rows(rows, settings)`` and ``fit_counts(m, settings)``.

They solve the ridge problem from moments, or from rows where categories outnumber them.
"""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.certificates import text
from renyi.certificates.intervals import KnownTables
from renyi.certificates.noise import NoisyTables, noisy_tables
from renyi.certification import Warned
from renyi.counting import sparse_counts
from renyi.counting.onehot import label_sums, lookup_sum, offsets
from renyi.counting.sparse_counts import Table
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder, check_usable
from renyi.encoding.rows import (
    SAMPLE,
    Pieces,
    RowSample,
    TrainingRows,
    has_names,
    in_tuples,
    merged_rows,
)
from renyi.encoding.tuples import (
    MAX_TUPLES,
    check_pairs_to_choose,
    count_tuples,
    features_text,
    same_pairs,
)
from renyi.fitting.record import Fit, FoldScores, ScoredRows
from renyi.fitting.settings import WEIGHING, Settings, check_calibration
from renyi.formatting import number_of
from renyi.limits import memory_budget
from renyi.marginals.arithmetic import merged_by_classes
from renyi.marginals.consistency import check_possible, class_pairs
from renyi.marginals.marginals import Marginals, count_rows
from renyi.marginals.uncertainty import Noise
from renyi.scorecard import Scorecard
from renyi.solvers import calibration as maps
from renyi.solvers import ridge
from renyi.solvers.ridge import LeftOut
from renyi.solvers.ridge_dual import DualFit, fit_dual
from renyi.solvers.ridge_sparse import beats_dual, fit_sparse
from renyi.validation import InputError

Floats = NDArray[np.float64]

# Numbers of pairs to try if their number is to be chosen, and the share of the pairs to
# try that may seem to matter by chance.
_COUNTS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60)
_FALSE_PAIRS = 0.1
# Orders to choose from, and what trying one may take: about a minute.
ORDERS = (1, 2, 3)
_MOST_CELLS = 1e8  # of rows and features
_MOST_TUPLES = 300_000
_MOST_OPERATIONS = 4e11
_TABLES = 3  # of a number for every two tuples, or rows, that a fit holds in memory
FOLD_ROWS = 400  # by K² coefficients of a calibration: with more, no folds
_EPS = float(np.finfo(np.float64).eps)


def fit_rows(rows: TrainingRows, settings: Settings) -> Fit:
    """Train on encoded rows, directly or by their counts, whichever costs less.

    Pairs of columns that the settings ask for are made of rows of single columns.
    """
    if rows.encoder.is_fine:
        return _fit_merged_bins(rows, settings)
    if settings.chooses_order:
        return _fit_chosen_order(rows, settings)
    if rows.encoder.order == 1 and settings.chooses_pairs:
        return _fit_chosen_pairs(rows, settings)
    if rows.encoder.order == 1 and settings.pairs is not None:
        rows = in_tuples(rows, 1, settings.pairs)
    classes = column_rules.class_array(rows.target.categories)
    weighed = weighed_rows(rows, settings, classes)
    dual = rows.n_indicators > weighed.n
    if dual and settings.weighting is None:
        dual = not beats_dual(rows.encoder.columns.sizes, weighed.n, settings.alpha)
    notes = weight_notes(rows)
    if settings.objective == "logistic":
        return _fit_logistic(rows, weighed, settings, dual, notes)
    if dual:
        return _fit_dual(rows, weighed, settings, notes)
    sample = RowSample.of(rows).rows
    m = count_rows(rows, settings.class_pairs_reason is not None)
    return _fit_primal(m, settings, weighed, rows.effective_n, sample, notes)


def _fit_chosen_order(rows: TrainingRows, settings: Settings) -> Fit:
    """Train with the order of the least left-out risk among those that are affordable.

    Of risks that so many rows cannot tell apart, the lower order wins. Notes name the
    orders that were not tried.
    """
    if rows.encoder.order > 1:
        raise InputError(
            f"{{order}} forms tuples by itself, and the encoder makes "
            f"{features_text(rows.encoder)}: give an encoder of single columns.",
            order=settings.order,
        )
    best = fit_rows(rows, replace(settings, order=ORDERS[0]))
    notes: list[Warned] = []
    for order in ORDERS[1:]:
        reason = _too_expensive(rows, order)
        if reason is not None:
            notes.append(("order", text.order_skipped(order, reason)))
            continue
        fit = fit_rows(in_tuples(rows, order), replace(settings, order=order))
        if fit.left_out_risk < best.left_out_risk - ridge.FLOOR_ROWS / len(rows.y):
            best = fit
    return replace(best, notes=(*best.notes, *notes))


def _too_expensive(rows: TrainingRows, order: int) -> str | None:
    """Return why an order cannot be tried, or would take too long, else None."""
    columns = rows.encoder.columns
    d = len(columns)
    if d < order:
        return f"the table has only {number_of(d, 'column')}"
    n = len(rows.y)
    features = math.comb(d, order)
    if features * n <= _MOST_CELLS:
        with suppress(InputError):  # one feature has too many tuples
            tuples = count_tuples(columns, rows.codes, order)
            equations = min(n, tuples)
            size = _TABLES * 8 * equations**2
            quick = equations**3 <= _MOST_OPERATIONS and tuples <= _MOST_TUPLES
            if quick and size <= memory_budget():
                return None
    return (
        f"{features:,} features of {order} columns in {n:,} rows would take minutes or "
        "too much memory"
    )


def _fit_merged_bins(rows: TrainingRows, settings: Settings) -> Fit:
    """Train on bins that are merged by the classes.

    Folds merge them anew, so that the error to expect is not of bins that saw it.
    """
    merged = merged_rows(rows)
    merges = text.merged_bins(rows.encoder.columns, merged.encoder.columns)
    if settings.tuple_order > 1:
        merged = in_tuples(merged, settings.tuple_order)
    fit = fit_rows(merged, settings)
    if not merges:
        return fit
    if rows.effective_n > SAMPLE:
        return replace(fit, notes=(*fit.notes, *merges), fold_scores=None)
    notes = (*fit.notes, ("folds", text.FOLDS_OF_BINS))
    return replace(fit, notes=notes, fold_scores=partial(_fold_scores, rows))


def _fit_chosen_pairs(rows: TrainingRows, settings: Settings) -> Fit:
    """Train on single columns and the pairs of them that add most, by left-out risk."""
    last = replace(settings, interactions=None)
    plain = last
    if settings.objective == "logistic":  # least squares choose its pairs
        plain = replace(last, objective="error", alpha="auto")
    main = fit_rows(rows, plain)
    wanted = settings.interactions
    best = main
    if isinstance(wanted, numbers.Integral):
        chosen = _ranked_pairs(rows, main)[: int(wanted)]
        best = fit_rows(in_tuples(rows, 1, chosen), plain)
    else:
        pairs = _ranked_pairs(rows, main, _FALSE_PAIRS)
        for count in sorted({min(count, len(pairs)) for count in _COUNTS} - {0}):
            fit = fit_rows(in_tuples(rows, 1, pairs[:count]), plain)
            if _risk(fit) < _risk(best):
                best = fit
    pairs_chosen = best.encoder_.interactions
    if last is not plain:
        best = fit_rows(
            in_tuples(rows, 1, pairs_chosen) if pairs_chosen else rows, last
        )
    if not pairs_chosen:
        return replace(best, settings=settings)
    if rows.effective_n <= SAMPLE:
        return replace(best, settings=settings, fold_scores=partial(_fold_scores, rows))
    notes = (*best.notes, ("selected-features", text.SELECTED))
    return replace(best, settings=settings, notes=notes, fold_scores=None)


def _risk(fit: Fit) -> float:
    """Return the left-out risk of a model; infinite where it is not defined."""
    return np.inf if fit.choice.risk is None else fit.choice.risk


def _ranked_pairs(
    rows: TrainingRows, main: Fit, false_share: float | None = None
) -> list[tuple[str, str]]:
    """Return the pairs of columns, those first that add most to the single columns.

    With `false_share`, they are those whose gain is beyond chance.
    """
    from renyi.solvers.pair_gains import beyond_chance, pair_gains

    columns = rows.encoder.columns
    check_pairs_to_choose(columns)
    left_out = main.left_out
    assert left_out is not None
    gains = pair_gains(
        RowSample.of(rows).rows.codes[:, left_out.places],
        columns.sizes,
        left_out.residuals,
        left_out.weights,
        MAX_TUPLES,
    )
    pairs = [*gains] if false_share is None else beyond_chance(gains, false_share)
    ranked = sorted(sorted(pairs), key=lambda pair: -gains[pair].gain)
    return [(columns.names[i], columns.names[j]) for i, j in ranked]


def fit_counts(
    m: Marginals,
    settings: Settings,
    *,
    effective_n: float | None = None,
    sample: TrainingRows | None = None,
    notes: tuple[Warned, ...] = (),
) -> Fit:
    """Train on pair counts.

    Parameters
    ----------
    m : Marginals
        The pair counts.
    settings : Settings
        The parameters.
    effective_n : float, optional
        Number of rows, if it is known; `m.n` by default. Weights may sum to 1.
    sample : TrainingRows, optional
        A sample of the rows that were counted. It calibrates probabilities, and each
        of its rows is left out to estimate the error.
    notes : tuple of (code, sentence)
        Warnings for the certificate.
    """
    if settings.objective == "logistic":
        raise InputError(
            "{objective} needs the rows, but only marginals are given: use 'error', or "
            "train on rows.",
            objective="logistic",
        )
    check_counts(m, settings)
    if m.settings.is_fine:
        before = m.encoder.columns
        m = merged_by_classes(m)
        merges = text.merged_bins(before, m.encoder.columns, sample is not None)
        notes = (*notes, *merges)
    fit = _fit_primal(m, settings, None, effective_n, sample, notes)
    return replace(fit, named=has_names(m.encoder))


def check_counts(m: Marginals, settings: Settings) -> None:
    """Raise an error unless a model with these settings can learn from the counts."""
    if not isinstance(m, Marginals):
        raise TypeError(
            f"fit_marginals takes Marginals, not a {type(m).__name__}: count rows "
            "with Marginals.from_data, or use fit."
        )
    _check_features(m, settings)
    column_rules.check_classes(m.classes, m.target)
    check_usable(m.encoder)
    reason = settings.class_pairs_reason
    if reason is not None:
        class_pairs(m, reason)
    check_possible(m)


def _check_features(m: Marginals, settings: Settings) -> None:
    """Raise an error unless the counts have the features of the settings."""
    order = settings.order
    pairs = settings.pairs
    if settings.chooses_order:
        raise InputError(
            "{order} chooses an order by rows, but only marginals are given, which "
            f"have order {m.order}: give that order.",
            order=order,
        )
    if settings.chooses_pairs:
        raise InputError(
            "{interactions} chooses pairs of columns by rows, but only marginals are "
            "given: count the pairs, and name them.",
            interactions=settings.interactions,
            python="Marginals.from_data(X, y, interactions=[...])",
        )
    if pairs is None and m.interactions is None:
        if order != m.order:
            raise ValueError(
                f"The marginals have order {m.order}, but the model has order {order}: "
                f"count with order={order}, as in "
                f"Marginals.from_data(X, y, order={order})."
            )
    elif not same_pairs(pairs, m.interactions):
        raise InputError(
            f"The marginals have {features_text(m.encoder)}, and not the pairs of the "
            "model: name those that were counted.",
            python=f"interactions={[*(m.interactions or ())]}",
        )


def _fit_primal(
    m: Marginals,
    settings: Settings,
    rows: ridge.Rows | None,
    effective_n: float | None,
    sample: TrainingRows | None,
    notes: tuple[Warned, ...],
) -> Fit:
    """Fit from marginals; `rows` serve to leave out, a sample to calibrate."""
    K = len(m.classes)
    check_calibration(settings, K, sample is not None)
    if not m.is_exact:
        return _fit_uncertain(m, settings, notes)
    classes = column_rules.class_array(m.classes)
    # Weights that sum to 1 leave m.n = 1: rows are counted, where there are any.
    n = float(m.n) if effective_n is None else effective_n
    factor = None
    if settings.weighting is not None:
        factor = settings.class_factors(classes, m.class_probabilities * m.n)
    Q, F, priors = weighed_pairs(m, factor)
    equations = ridge.moments(Q, F, priors, settings.fit_intercept)
    alpha = ridge.check_alpha(settings.alpha)
    sizes = m.encoder.columns.sizes
    if sparse_counts.is_sparse(Q):
        solution = fit_sparse(equations, sizes, n, alpha, rows)
    else:
        solution = ridge.fit_primal(equations, n, len(sizes), alpha, rows)
    if settings.class_weight is not None and solution.choice.error is None:
        # Cross-validated on the weighted classes: no estimate for real rows.
        choice = replace(solution.choice, risk=None)
        solution = solution._replace(choice=choice)
    left_out = None
    if sample is not None:
        codes = sample.over(m.encoder.columns)
        sample = replace(sample, encoder=m.encoder, codes=codes)
        chosen = weighed_rows(sample, settings, classes, m)
        starts = offsets(sizes)[:-1]
        s = lookup_sum(chosen.codes, solution.z, starts) + solution.intercept
        leverage = solution.leverage
        if not leverage.ndim:  # the mean of all rows
            total = float(
                m.n if factor is None else m.n * m.class_probabilities @ factor
            )
            own = ridge.row_leverages(chosen, equations, solution.choice.alpha, total)
            leverage = leverage if own is None else own
        left_out = ridge.leave_out(chosen, s, leverage)
    pairs = None
    if settings.calibration_for(K, left_out) == "discriminant":
        pairs = maps.moments_of_pairs(Q, F, priors, solution.z, solution.intercept)
    if settings.objective == "ranking":
        plain = weighed_pairs(m, None)
        moments = maps.moments_of_pairs(*plain, solution.z, solution.intercept)
        slope, start = maps.label_map(moments)
        solution, left_out = maps.rescaled(solution, left_out, slope, start)
    totals = m.feature_counts.diagonal()
    return Fit(
        settings,
        m.target,
        _scorecard(solution, m.encoder, m.classes, m.target, totals),
        solution.choice,
        m,
        n,
        notes=notes,
        left_out=left_out,
        leverage=float(np.mean(solution.leverage)),
        pairs=pairs,
        fold_scores=None if sample is None else _scores_for_folds(sample, n),
    )


def _fit_uncertain(m: Marginals, settings: Settings, notes: tuple[Warned, ...]) -> Fit:
    """Fit from counts that are not exact: the points of the smallest guarantee.

    With a given alpha it is the ridge solution of the estimated counts.
    """
    from renyi.robust.saddle import certified_points, definite, ridge_at

    if settings.weighting is not None:
        class_pairs(m, WEIGHING)
    alpha = ridge.check_alpha(settings.alpha)
    ridge.check_rows(alpha, None)
    private = isinstance(m.uncertainty, Noise)
    known: KnownTables | NoisyTables
    known = noisy_tables(m) if private else KnownTables.of(m)
    if isinstance(alpha, str):
        solution = certified_points(known, settings.fit_intercept)
    else:
        start = definite(known.start, known.sizes, alpha, settings.fit_intercept)
        solution = ridge_at(start, alpha, m.n, settings.fit_intercept)
    choice = replace(solution.choice, risk=None)
    pairs = None
    if settings.calibration_for(len(m.classes), None) == "discriminant":
        pairs = maps.moments_of_pairs(*known.start, solution.z, solution.intercept)
    # They weigh the mean effects; fractions would look like weighted rows.
    totals = np.rint(m.counts.diagonal()[m.columns.spans(m.feature_names)])
    totals = np.maximum(totals, 1.0)
    return Fit(
        settings,
        m.target,
        _scorecard(solution, m.encoder, m.classes, m.target, totals),
        choice,
        m,
        float(m.n),
        notes=notes,
        leverage=float(np.mean(solution.leverage)),
        pairs=pairs,
    )


def weighed_pairs(m: Marginals, factor: Floats | None) -> tuple[Table, Floats, Floats]:
    """Return Q, F and the probabilities of classes, each weighted by a factor."""
    F = m.F
    priors = m.class_probabilities
    if factor is None:
        return m.feature_counts / m.n, F, priors
    priors = priors * factor
    total = priors.sum()
    within = np.tensordot(factor, class_pairs(m, WEIGHING), 1)
    Q = sparse_counts.stored(within / (m.n * total), m.columns.sizes)
    return Q, F * factor / total, priors / total


def _fit_dual(
    rows: TrainingRows,
    weighed: ridge.Rows,
    settings: Settings,
    notes: tuple[Warned, ...],
) -> Fit:
    """Fit from rows where categories outnumber them."""
    classes = rows.target.categories
    K = len(classes)
    check_calibration(settings, K, has_rows=True)
    alpha = ridge.check_alpha(settings.alpha)
    columns = rows.encoder.columns
    dual = fit_dual(weighed, len(columns), alpha, settings.fit_intercept)
    counts = dual.target_counts
    chosen = weighed.sampled
    scores = dual.scores[chosen]
    left_out: LeftOut | None = ridge.leave_out(
        weighed.part(chosen), scores, dual.fit.leverage
    )
    pairs = None
    if settings.calibration_for(K, left_out) == "discriminant":
        share = np.ones(weighed.n) if weighed.weights is None else weighed.weights
        pairs = maps.moments_of_scores(dual.scores, rows.y, share)
    if settings.objective == "ranking":
        dual, left_out = _ranking_dual(dual, left_out, rows)
    totals = sum(counts.T, np.zeros((), counts.dtype))  # of short rows: 10 x faster
    target = rows.target.name
    weights = None if rows.sample_weight is None else rows.weights.copy()
    return Fit(
        settings,
        target,
        _scorecard(dual.fit, rows.encoder, classes, target, totals),
        dual.fit.choice,
        effective_n=rows.effective_n,
        notes=notes,
        left_out=left_out,
        leverage=float(np.mean(dual.fit.leverage)),
        pairs=pairs,
        rows=ScoredRows(dual.scores, rows.y, weights, counts, dual.score_error),
        fold_scores=_scores_for_folds(rows, rows.effective_n),
    )


def _fit_logistic(
    rows: TrainingRows,
    weighed: ridge.Rows,
    settings: Settings,
    dual: bool,
    notes: tuple[Warned, ...],
) -> Fit:
    """Fit log-odds from rows; count pairs unless categories outnumber the rows."""
    from renyi.solvers.logistic import fit_logistic

    solution, left_out, by_folds = fit_logistic(
        weighed, settings.alpha, settings.fit_intercept
    )
    classes = rows.target.categories
    m = None
    scored = None
    if dual:
        starts = offsets(weighed.sizes)[:-1]
        scores = lookup_sum(rows.codes, solution.z, starts) + solution.intercept
        own = rows.weights[:, None] * (rows.y[:, None] == np.arange(len(classes)))
        counts = label_sums(rows.codes, weighed.sizes, own)
        scored = ScoredRows(scores, rows.y, rows.sample_weight, counts, 0.0)
        totals = counts.sum(axis=1)
    else:
        m = count_rows(rows, settings.class_pairs_reason is not None)
        totals = m.feature_counts.diagonal()
    if by_folds:
        notes = (*notes, ("folds", text.FOLDS_OF_ROWS))
    target = rows.target.name
    card = _scorecard(solution, rows.encoder, classes, target, totals)
    return Fit(
        settings,
        target,
        replace(card, calibration=maps.LOG_ODDS),
        solution.choice,
        m,
        rows.effective_n,
        notes=notes,
        left_out=left_out,
        rows=scored,
    )


def _scores_for_folds(rows: TrainingRows, n: float) -> FoldScores | None:
    """Return what scores rows by folds; None for a sample, two classes, many rows.

    Many rows fit the few coefficients of a calibration nearly without optimism. Of two
    classes one coefficient decides, the shift: leave-one-out is as honest as folds.
    """
    K = len(rows.target.categories)
    whole = rows.effective_n >= (1 - 1e-9) * n
    few = rows.effective_n <= min(SAMPLE, FOLD_ROWS * K * K)
    return partial(_fold_scores, rows) if K > 2 and whole and few else None


def _fold_scores(
    rows: TrainingRows, settings: Settings
) -> tuple[Pieces, Floats, Floats]:
    """Return scores of rows in pieces by models of other folds, and calibrated."""
    rows, pieces = rows.dealt()
    K = len(rows.target.categories)
    plain = np.zeros((len(rows.y), K if K > 2 else 1))
    mapped = np.zeros_like(plain)
    for k in np.unique(pieces.fold):
        own = pieces.fold == k
        card = fit_rows(rows.part(~own), settings).scorecard_
        codes = rows.part(own).codes
        if rows.encoder.order == 1:
            codes = rows.part(own).in_features(card.encoder).codes
        plain[own] = card.scores(codes)
        calibration = card.calibration
        slope = 1.0
        if calibration is not None and not calibration.moves_decisions:
            slope = float(calibration.slope)
        mapped[own] = slope * card.mapped.scores(codes)
    return pieces, plain, mapped


def _ranking_dual(
    dual: DualFit, left_out: LeftOut | None, rows: TrainingRows
) -> tuple[DualFit, LeftOut | None]:
    """Scale and centre scores that rank, so that they estimate the class."""
    both = np.hstack([-dual.scores, dual.scores])
    moments = maps.moments_of_scores(both, rows.y, rows.weights)
    slope, start = maps.label_map(moments)
    solution, left_out = maps.rescaled(dual.fit, left_out, slope, start)
    scores = slope * dual.scores + start
    rounding = 4 * _EPS * float(np.abs(scores).max() + 1)
    error = slope * dual.score_error + rounding
    return dual._replace(fit=solution, scores=scores, score_error=error), left_out


def _scorecard(
    solution: ridge.RidgeFit,
    encoder: Encoder,
    classes: tuple[Label, ...],
    target: str,
    counts: NDArray[Any],
) -> Scorecard:
    z = solution.z
    intercept = solution.intercept
    if len(classes) == 2:
        z = z[:, 0]
        intercept = intercept[0]
    return Scorecard(encoder, classes, z, np.asarray(intercept), counts, target)


# ---- rows, weighed


def uses_rows(
    n: float, effective_n: float, n_indicators: int, n_classes: int, settings: Settings
) -> bool:
    """Whether n rows contain more than their counts do, for this training."""
    few = n < n_indicators or settings.objective == "logistic"
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
