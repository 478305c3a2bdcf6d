r"""Selecting: choose features, then refit a model on them.

*In which order.* Forward selection adds the feature that lowers γ most. Algorithm 1 of
the paper orders the features by the penalty λ at which they get points.

*How many features.* The user may give a number of features, a cap on the certified
error, or the λ of Algorithm 1. Otherwise cross-validation chooses the number of
features, or λ. If there are no rows to leave out, the number of features is chosen by
generalised cross-validation of the refits of the first 1, 2, … features.

*Folds.* Rows are assigned to folds at random, class by class. With pair counts, a fold
needs no rows for training. The counts of the training part are a difference,
``Q_train = (n Q − n_f Q_f)/(n − n_f)``. The held-out risk of any points needs only the
counts of the fold. A row of weight 2 is two rows, which may be in different folds. The
folds depend on the rows and the seed. They depend neither on the order of rows, nor on
whether a row is weighted or repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.text import SELECTED, merged_bins
from renyi.certification import Warned
from renyi.correlation import hgr_lower_bound
from renyi.counting.sparse_counts import dense
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import TrainingRows, has_names, in_tuples, merged_rows
from renyi.encoding.rules import class_array
from renyi.encoding.tuples import TupleEncoder, features_text
from renyi.fitting.record import Fit
from renyi.fitting.settings import ClassWeight, Seed, Settings
from renyi.fitting.training import (
    check_counts,
    fit_counts,
    fit_rows,
    weighed_pairs,
    weighed_rows,
)
from renyi.formatting import rounded_up
from renyi.marginals.arithmetic import merged_by_classes
from renyi.marginals.marginals import Marginals
from renyi.robust.brier_risk import theta
from renyi.rules import check_rule, random_of, row_keys
from renyi.selection import (
    PathResult,
    counts_problem,
    entry_path,
    first_grid,
    forward_counts,
    forward_order,
    forward_path,
    nested_fits,
    nested_solutions,
)
from renyi.solvers.calibration import CALIBRATIONS
from renyi.solvers.l1inf import (
    CountsProblem,
    Problem,
    RowsProblem,
    cheaper_form,
    places_of,
)
from renyi.solvers.l1inf_path import (
    LassoPath,
    grid_down_to,
    solve_path,
)
from renyi.solvers.ridge import check_alpha
from renyi.validation import (
    InputError,
    check_choice,
    check_positive,
    check_share,
    check_whole,
)

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_FOLDS = 5
_FOLD_TOL = 1e-3  # only the risk of folds matters
_GCV_GRID = np.logspace(-8, 1, 10)
# Beyond this many copies of rows, each row is in one fold, whatever its weight.
_MOST_COPIES = 10_000_000
_EXACT_CORRELATION = 4_000  # outcomes times classes: about a second
_DUST = 1e-9


@dataclass(frozen=True)
class SelectionSettings:
    """The parameters of a selection; see `RenyiSelector` for their meaning."""

    n_features: int | None = None
    method: str = "forward"
    penalty: float | str = "cv"
    fit_intercept: bool = True
    refit_alpha: float | str = "auto"
    max_error: float | None = None
    order: int = 1
    rule: str = "map"
    calibration: str | None = "auto"
    random_state: Seed = 0
    class_weight: ClassWeight = None

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_choice("method", self.method, METHODS)
        check_rule(self.rule)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        check_whole("order", self.order, 1)
        check_alpha(self.refit_alpha)
        if isinstance(self.penalty, str):
            if self.penalty != "cv":
                raise ValueError(
                    f"penalty must be 'cv' or a positive number, not {self.penalty!r}."
                )
        else:
            advice = ". Without a penalty, use RenyiClassifier"
            check_positive("penalty", self.penalty, advice)
            if self.method != "path":
                raise InputError(
                    "{penalty} is the λ of Algorithm 1: choose {method} as well.",
                    penalty=self.penalty,
                    method="path",
                )
        if self.n_features is not None:
            check_whole("n_features", self.n_features, 1)
        if self.max_error is not None:
            check_share("max_error", self.max_error)
        given = {
            "n_features": self.n_features is not None,
            "max_error": self.max_error is not None,
            "penalty": not isinstance(self.penalty, str),
        }
        named = [name for name, is_given in given.items() if is_given]
        if len(named) > 1:
            raise ValueError(
                f"{named[0]} and {named[1]} cannot be combined: each of them says how "
                "many features to select."
            )
        if self.class_weight is not None and self.max_error is not None:
            raise InputError(
                "{max_error} is certified for the classes as they are, and "
                "{class_weight} selects for others: leave one of them out.",
                max_error=self.max_error,
                class_weight=self.class_weight,
            )

    def refit_settings(self, n_classes: int, has_rows: bool) -> Settings:
        """Return the settings of the refit."""
        calibration = self.calibration
        if calibration == "auto" and self.max_error is not None:
            # A moved decision would raise the guarantee.
            calibration = "temperature" if has_rows and n_classes == 2 else None
        return Settings(
            order=self.order,
            alpha=self.refit_alpha,
            rule=self.rule,
            fit_intercept=self.fit_intercept,
            class_weight=self.class_weight,
            random_state=self.random_state,
            calibration=calibration,
        )


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected features, and the model that was refitted on them.

    Parameters
    ----------
    features : tuple of str
        The features, in order of entry.
    columns : ndarray
        Places of the table's columns that occur in them, ascending.
    penalty : float
        The penalty at which they were selected, NaN for a forward selection; see
        `RenyiSelector`.
    path : PathResult
        The whole path.
    cv : CrossValidation or None
        Held-out risks, if they decided.
    fit : Fit
        The refitted model.
    encoder : Encoder
        The encoder of all columns.
    """

    features: tuple[str, ...]
    columns: Places
    penalty: float
    path: PathResult
    cv: CrossValidation | None
    fit: Fit
    encoder: Encoder


Refit = Callable[[Places], Fit]


def select_rows(rows: TrainingRows, settings: SelectionSettings) -> Selection:
    """Select features by encoded rows, and refit on them."""
    if rows.encoder.is_fine:
        merged = merged_rows(rows)
        merges = merged_bins(rows.encoder.columns, merged.encoder.columns)
        if settings.order > 1:
            merged = in_tuples(merged, settings.order)
        return _noted(select_rows(merged, settings), merges)
    sizes = rows.encoder.columns.sizes
    K = len(rows.target.categories)
    model = settings.refit_settings(K, has_rows=True)
    classes = class_array(rows.target.categories)
    weighed = weighed_rows(rows, model, classes)
    problem = RowsProblem(
        rows.codes, sizes, rows.y, K, weighed.weights, settings.fit_intercept
    )

    def refit(places: Places) -> Fit:
        encoder = _part_of(rows.encoder, places)
        return fit_rows(replace(rows, encoder=encoder, codes=rows.codes[places]), model)

    form = _FORMS[settings.method]
    chooser = form(cheaper_form(problem), problem, rows.encoder, refit, settings)
    chooser.sample_weight = rows.sample_weight
    return chooser.selection()


def select_counts(m: Marginals, settings: SelectionSettings) -> Selection:
    """Select features by pair counts, and refit on them."""
    if m.settings.is_fine:
        part = merged_by_classes(m)
        merges = merged_bins(m.encoder.columns, part.encoder.columns, False)
        return _noted(select_counts(part, settings), merges)
    model = settings.refit_settings(len(m.classes), has_rows=False)
    if m.interactions is not None:
        raise ValueError(
            "Features are selected among single columns, or among tuples of one "
            f"length, but the marginals have {features_text(m.settings)}: count again "
            "without pairs."
        )
    check_counts(m, model)

    def refit(places: Places) -> Fit:
        encoder = _part_of(m.encoder, places)
        part = m.select(encoder.feature_names)
        encoder = replace(encoder, columns=part.settings.columns)
        fit = fit_counts(replace(part, settings=encoder), model)
        return replace(fit, named=has_names(m.encoder))

    problem = _problem_of_counts(m, model)
    chooser = _FORMS[settings.method](problem, None, m.encoder, refit, settings)
    return chooser.selection()


def _problem_of_counts(m: Marginals, model: Settings) -> CountsProblem:
    """Return the l1,∞ problem of marginals, with the classes weighted as in a model."""
    if model.class_weight is None:
        return counts_problem(m, model.fit_intercept)
    counts = m.class_probabilities * m.n
    factor = model.class_factors(class_array(m.classes), counts)
    Q, F, priors = weighed_pairs(m, factor)
    sizes = m.encoder.columns.sizes
    return CountsProblem(dense(Q), F, priors, sizes, m.n, model.fit_intercept)


def _noted(selection: Selection, more: tuple[Warned, ...]) -> Selection:
    """Return a selection with more notes."""
    notes = (*selection.fit.notes, *more)
    return replace(selection, fit=replace(selection.fit, notes=notes))


class _Chooser(ABC):
    """The choice of features of one problem; `path` is extended if necessary."""

    path: PathResult
    sample_weight: Floats | None = None  # of the rows, without weights of classes

    def __init__(
        self,
        problem: Problem,
        rows: RowsProblem | None,
        encoder: Encoder,
        refit: Refit,
        settings: SelectionSettings,
    ) -> None:
        self.problem = problem
        self.rows = rows
        self.encoder = encoder
        self.refit = refit
        self.settings = settings
        self.names = encoder.feature_names
        self.cv: CrossValidation | None = None

    def selection(self) -> Selection:
        """Choose the features, refit on them, and return the selection."""
        n_features = self.settings.n_features
        if n_features is not None and n_features > len(self.names):
            raise InputError(
                f"{{n_features}} is more than the {len(self.names)} features that "
                "there are.",
                n_features=n_features,
            )
        self._follow(n_features or 0)
        places, penalty = self._choice()
        fit = self.refit(np.sort(places))
        if len(places) < len(self.names):
            fit = replace(fit, notes=(*fit.notes, ("selected-features", SELECTED)))
        return Selection(
            tuple(self.names[i] for i in places.tolist()),
            _columns_in(self.encoder, places),
            penalty,
            self.path,
            self.cv,
            fit,
            self.encoder,
        )

    @abstractmethod
    def _follow(self, at_least: int) -> None:
        """Order the features, at least the given number of them; 0 for all."""

    @abstractmethod
    def _by_folds(self, folds: Floats) -> tuple[Places, float]:
        """Return the features that cross-validation chooses, and the penalty."""

    def _choice(self) -> tuple[Places, float]:
        """Return the places of the features, and the penalty."""
        settings = self.settings
        if settings.max_error is not None:
            return self._first(self._fewest(settings.max_error))
        if settings.n_features is not None:
            return self._first(settings.n_features)
        if self.rows is None:
            return self._first(self._by_gcv())
        return self._by_folds(self._folds(self.rows))

    def _folds(self, rows: RowsProblem) -> Floats:
        """Return the weight of every row in every fold, the class's weight included."""
        settings = self.settings
        if settings.class_weight is None:
            return assign_folds(rows, _FOLDS, settings.random_state)
        own = self.sample_weight
        plain = RowsProblem(rows.codes, rows.sizes, rows.y, rows.n_classes, own)
        folds = assign_folds(plain, _FOLDS, settings.random_state)
        ones = 1.0 if own is None else own
        assert rows.sample_weight is not None
        return folds * (rows.sample_weight / ones)

    def _first(self, k: int) -> tuple[Places, float]:
        """Return the first features in order of entry, and the penalty."""
        return self.path.places[:k], float(self.path.lambdas[k - 1])

    def _fewest(self, cap: float) -> int:
        """Return the smallest number of features with a guarantee of at most `cap`."""
        own = self.settings.rule
        rule = "map" if own == "map" else "sharp"
        while True:
            # No refit on these features is better than the one of the path.
            for k in (np.flatnonzero(self.path.bounds[rule] <= cap) + 1).tolist():
                fit = self.refit(np.sort(self.path.places[:k]))
                if fit.certificate_.bounds[own] <= cap:
                    return int(k)
            if len(self.path.entries) == self.path.n_features:
                break
            self._follow(self.path.n_features)
        bounds = self.refit(np.sort(self.path.places)).certificate_.bounds
        advice = "Allow more"
        if bounds["sharp"] <= cap:
            sharp = rounded_up(bounds["sharp"])
            advice += f", or choose {{rule}}, which reaches {sharp:.4f}"
        raise InputError(
            f"{{max_error}} cannot be certified: a model of all "
            f"{len(self.path.entries)} features reaches "
            f"{rounded_up(bounds[own]):.4f} with rule {own!r}. {advice}.",
            max_error=cap,
            rule="sharp",
        )

    def _by_gcv(self) -> int:
        """Return the number of features of least generalised cross-validation."""
        n = self.problem.n
        counts = self.problem.counted(self.path.places)
        tried = [
            nested_fits(counts, alpha).gcv(n) for alpha in len(counts.sizes) * _GCV_GRID
        ]
        risks = np.min(tried, axis=0)
        if not np.isfinite(risks).any():
            raise InputError(
                f"The total weight {n:g} of the marginals is too small to choose "
                "features: it stands for the number of rows. Scale the marginals to "
                "counts, or set their number.",
                "n_features",
                python="n_features",
            )
        return int(np.flatnonzero(risks <= risks.min() * (1 + 1e-9))[0]) + 1


class _ForwardChooser(_Chooser):
    """The choice by forward selection."""

    def _follow(self, at_least: int) -> None:
        self.path = forward_path(self.problem, self.names, at_least or None)

    def _by_folds(self, folds: Floats) -> tuple[Places, float]:
        assert self.rows is not None
        self.cv = cross_validate_forward(self.rows, forward_counts(self.problem), folds)
        best = int(self.cv.n_features[self.cv.best()])
        return self._first(max(best, 1))


class _PathChooser(_Chooser):
    """The choice by Algorithm 1."""

    @cached_property
    def grid(self) -> Floats:
        """The penalties to try, down to the one given."""
        settings = self.settings
        grid = first_grid(self.problem)
        if isinstance(settings.penalty, str):
            return grid
        least = float(settings.penalty)
        if least >= grid[0]:
            raise InputError(
                f"{{penalty}} selects no feature. Choose one below {grid[0]:.4g}.",
                penalty=settings.penalty,
            )
        # Above it the penalties stay the same, so that the order of entry does as well.
        return grid_down_to(grid, least)

    def _follow(self, at_least: int) -> None:
        self.path = entry_path(self.problem, self.names, self.grid, at_least)

    def _choice(self) -> tuple[Places, float]:
        if isinstance(self.settings.penalty, str):
            return super()._choice()
        return self._active(float(self.grid[-1]))

    def _by_folds(self, folds: Floats) -> tuple[Places, float]:
        assert self.rows is not None
        self.cv = cross_validate(self.rows, self.problem, self.grid, folds, _FOLD_TOL)
        return self._active(float(self.grid[self.cv.best()]))

    def _active(self, penalty: float) -> tuple[Places, float]:
        """Return the features with points (or the first), and the penalty."""
        path = self.path
        assert path.lasso is not None
        where = int(np.abs(path.lasso.lambdas - penalty).argmin())
        active = path.lasso.active[where, path.places] & ~np.isnan(path.lambdas)
        return (path.places[active], penalty) if active.any() else self._first(1)


_FORMS = {"forward": _ForwardChooser, "path": _PathChooser}
METHODS = tuple(_FORMS)


def _part_of(encoder: Encoder, places: Places) -> Encoder:
    """Return the encoder of some features, with only the columns that they use."""
    columns = encoder.columns.take(places.tolist())
    if not isinstance(encoder, TupleEncoder):
        return replace(encoder, columns=columns)
    base = encoder.base.take(_columns_in(encoder, places).tolist())
    return replace(encoder, columns=columns, base=base)


def _columns_in(encoder: Encoder, places: Places) -> Places:
    """Return the columns of the table that occur in some features, ascending."""
    if not isinstance(encoder, TupleEncoder):
        return np.sort(places)
    members = [encoder.members[i] for i in places.tolist()]
    return np.unique(np.array(members, np.int64))


# ---- the value of a set of features


class LeastCorrelation(NamedTuple):
    """The least maximal correlation of features and target, and its closed-form bound.

    `rho` is exact, or the bound from below.
    """

    rho: float
    exact: bool
    bound: float


def least_correlation(m: Marginals) -> LeastCorrelation:
    """Return the least maximal correlation over all populations with the pair counts.

    It is at least ``√(1 − γ_S/(q(1−q)))``. For two classes ``√(1 − θ/(q(1−q)))`` is
    exact, and is computed if the table is small and Clarabel is installed.
    """
    bound = hgr_lower_bound(m)
    outcomes = np.prod(m.encoder.columns.sizes, dtype=np.float64) * len(m.classes)
    of_columns = m.order == 1 and len(m.classes) == 2
    small = of_columns and outcomes <= _EXACT_CORRELATION
    only_bound = LeastCorrelation(bound, exact=False, bound=bound)
    if not small or find_spec("clarabel") is None:
        return only_bound
    result = theta(m, class_conditional=False)
    variance = float(np.prod(m.class_probabilities))
    if result.theta is None or variance <= 0:
        return only_bound
    rho = float(np.sqrt(np.clip(1 - result.theta / variance, 0, 1)))
    return LeastCorrelation(max(rho, bound), exact=True, bound=bound)


# ---- cross-validation


class CrossValidation(NamedTuple):
    """Held-out risk of each penalty, or of each number of features.

    Parameters
    ----------
    lambdas : ndarray of shape (L,)
        The penalties, falling; NaN for a forward selection.
    n_features : ndarray of shape (L,)
        The numbers of features, rising from 0, of a forward selection; all 0 for
        penalties.
    risks, standard_errors : ndarray of shape (L,)
        Mean held-out γ, and the standard errors of these means, over the folds.
    error_rates : ndarray of shape (L,)
        Error rate of the rule map on held-out rows; for penalties without any refit.
    n_folds : int
        Number of folds: five, or as many as there are rows.
    """

    lambdas: Floats
    n_features: Places
    risks: Floats
    standard_errors: Floats
    error_rates: Floats
    n_folds: int

    @property
    def forward(self) -> bool:
        """Whether numbers of features were compared, and not penalties."""
        return bool(np.isnan(self.lambdas).any())

    def best(self) -> int:
        """Return the index of least risk: largest penalty, or fewest features."""
        least = float(self.risks.min())
        return int(np.flatnonzero(self.risks <= least + 1e-9 * abs(least))[0])


def assign_folds(rows: RowsProblem, n_folds: int, random_state: Seed = 0) -> Floats:
    """Return the weight of every row in every fold; at most one fold per row."""
    n = len(rows.y)
    sample_weight = np.ones(n) if rows.sample_weight is None else rows.sample_weight
    copies = np.ceil(np.maximum(sample_weight, 1)).astype(np.int64)
    if copies.sum() > _MOST_COPIES:
        copies = np.ones(n, np.int64)
    row = np.repeat(np.arange(n), copies)
    weight = (sample_weight / copies)[row]
    label = rows.y[row]
    known = np.lexsort((weight, row_keys(rows.codes)[row], label))
    shuffled = known[random_of(random_state).permutation(len(row))]
    by_class = shuffled[np.argsort(label[shuffled], kind="stable")]
    n_folds = min(n_folds, len(row))
    fold = np.empty(len(row), np.int64)
    fold[by_class] = np.arange(len(row)) % n_folds
    flat = np.bincount(fold * n + row, weight, minlength=n_folds * n)
    return np.asarray(flat.reshape(n_folds, n), np.float64)


def cross_validate(
    rows: RowsProblem, whole: Problem, lambdas: Floats, folds: Floats, tol: float
) -> CrossValidation:
    """Train without each fold; return the held-out risk of each penalty."""
    weight = np.ones(len(rows.y)) if rows.sample_weight is None else rows.sample_weight
    risks = np.zeros((len(folds), len(lambdas)))
    wrong = np.zeros((len(folds), len(lambdas)))
    for k, fold in enumerate(folds):
        inside = rows.part(fold)
        if isinstance(whole, CountsProblem):
            counts = inside.counted()
            path = solve_path(whole.without(counts), lambdas, tol)
            risks[k] = counts.risks(path)
        else:
            rest = weight - fold
            rest[rest < _DUST * weight] = 0
            path = solve_path(rows.part(rest), lambdas, tol)
            risks[k] = inside.risks(path)
        wrong[k] = inside.errors(path)
    return _averaged(folds, risks, wrong, lambdas=lambdas)


def cross_validate_forward(
    rows: RowsProblem, whole: CountsProblem, folds: Floats
) -> CrossValidation:
    """Select without each fold; return the held-out risk of 0, 1, 2, … features.

    The ridge penalty of each number is that of least generalised cross-validation in
    the training part.
    """
    numbers = np.arange(len(whole.sizes) + 1)
    risks = np.zeros((len(folds), len(numbers)))
    wrong = np.zeros((len(folds), len(numbers)))
    for k, fold in enumerate(folds):
        inside = rows.part(fold)
        train = whole.without(inside.counted())
        solutions = _nested_path(train, forward_order(train))
        risks[k] = inside.risks(solutions)
        wrong[k] = inside.errors(solutions)
    return _averaged(folds, risks, wrong, n_features=numbers)


def _nested_path(train: CountsProblem, order: Places) -> LassoPath:
    """Return refits of the first 0, 1, 2, … features, each at its own ridge penalty."""
    d = len(order)
    counts = train.counted(order)
    alphas = d * _GCV_GRID
    scores = np.array([nested_fits(counts, alpha).gcv(train.n) for alpha in alphas])
    best = np.where(np.isfinite(scores), scores, np.inf).argmin(axis=0)
    columns = 1 if train.n_classes == 2 else train.n_classes
    points = np.zeros((d + 1, len(train.q), columns))
    intercepts = np.zeros((d + 1, columns))
    intercepts[0] = train.plain_mean
    places = places_of(order, train.sizes)
    for j in np.unique(best).tolist():
        z, shifts = nested_solutions(counts, float(alphas[j]))
        own = np.flatnonzero(best == j)
        points[np.ix_(own + 1, places)] = z[own]
        intercepts[own + 1] = shifts[own]
    none = np.full(d + 1, np.nan)
    active = np.tri(d + 1, d, -1, dtype=bool)[:, np.argsort(order)]
    passes = np.zeros(d + 1, np.int64)
    return LassoPath(none, points, intercepts, none, none, active, passes, 0.0)


def _averaged(
    folds: Floats,
    risks: Floats,
    wrong: Floats,
    *,
    lambdas: Floats | None = None,
    n_features: Places | None = None,
) -> CrossValidation:
    """Return means over the folds, each weighted by its rows."""
    length = risks.shape[1]
    share = folds.sum(axis=1) / folds.sum()
    mean = share @ risks
    spread = np.sqrt(share @ (risks - mean) ** 2 / max(len(folds) - 1, 1))
    return CrossValidation(
        np.full(length, np.nan) if lambdas is None else lambdas,
        np.zeros(length, np.int64) if n_features is None else n_features,
        mean,
        spread,
        share @ wrong,
        len(folds),
    )
