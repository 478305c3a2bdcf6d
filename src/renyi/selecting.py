r"""Selecting: choose features by Algorithm 1, then refit a model on them.

*How many features.* That depends on one number, the penalty λ. The user may give a
number of features, a cap on the certified error, or λ itself. Otherwise λ is chosen by
cross-validation. If there are no rows to leave out, the number of features is chosen
instead, by generalised cross-validation of the refits of the first 1, 2, … features.

*Folds.* Rows are assigned to folds at random, class by class. With pair counts, a fold
needs no rows for training. The counts of the training part are a difference,
``Q_train = (n Q − n_f Q_f)/(n − n_f)``. The held-out risk of any points needs only the
counts of the fold. A row of weight 2 is two rows, which may be in different folds. The
folds depend on the rows and the seed. They depend neither on the order of rows, nor on
whether a row is weighted or repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.text import SELECTED
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import TrainingRows
from renyi.encoding.tuples import TupleEncoder
from renyi.fitting import (
    Fit,
    Seed,
    Settings,
    check_counts,
    fit_counts,
    fit_rows,
    has_names,
)
from renyi.formatting import rounded_up
from renyi.marginals.marginals import Marginals
from renyi.rules import check_rule, random_of, row_keys
from renyi.selection import (
    PathResult,
    check_path_settings,
    counts_problem,
    entry_path,
    nested_fits,
)
from renyi.solvers.l1inf import CountsProblem, Problem, RowsProblem, cheaper_form
from renyi.solvers.l1inf_path import (
    MAX_PASSES,
    N_LAMBDAS,
    RATIO,
    TOL,
    grid_down_to,
    penalty_grid,
    solve_path,
)
from renyi.solvers.ridge import check_alpha
from renyi.validation import InputError, check_positive, check_share, check_whole

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_FOLD_TOL = 1e-3
_GCV_GRID = np.logspace(-8, 1, 10)
# Beyond this many copies of rows, each row is in one fold, whatever its weight.
_MOST_COPIES = 10_000_000
_DUST = 1e-9


@dataclass(frozen=True)
class SelectionSettings:
    """The parameters of a selection; see `RenyiSelector` for their meaning."""

    n_features: int | None = None
    penalty: float | str = "cv"
    refit_alpha: float | str = "auto"
    max_error: float | None = None
    order: int = 1
    rule: str = "map"
    n_folds: int = 5
    n_lambdas: int = N_LAMBDAS
    ratio: float = RATIO
    tol: float = TOL
    max_passes: int = MAX_PASSES
    random_state: Seed = 0

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_rule(self.rule)
        check_whole("order", self.order, 1)
        check_alpha(self.refit_alpha)
        if isinstance(self.penalty, str):
            if self.penalty not in ("cv", "cv-1se"):
                raise ValueError(
                    "penalty must be 'cv', 'cv-1se' or a positive number, not "
                    f"{self.penalty!r}."
                )
        else:
            advice = ". Without a penalty, use RenyiClassifier"
            check_positive("penalty", self.penalty, advice)
        if self.n_features is not None:
            check_whole("n_features", self.n_features, 1)
        if self.max_error is not None:
            check_share("max_error", self.max_error)
        check_whole("n_folds", self.n_folds, 2)
        check_path_settings(self.n_lambdas, self.ratio, self.tol, self.max_passes)
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

    def refit_settings(self, n_classes: int) -> Settings:
        """Return the settings of the refit."""
        # With more than two classes, calibration would raise the guarantee.
        plain = self.max_error is not None and n_classes > 2
        return Settings(
            order=self.order,
            alpha=self.refit_alpha,
            rule=self.rule,
            random_state=self.random_state,
            calibration=None if plain else "auto",
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
        The penalty at which they were selected; see `RenyiSelector`.
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
    sizes = rows.encoder.columns.sizes
    K = len(rows.target.categories)
    problem = RowsProblem(rows.codes, sizes, rows.y, K, rows.sample_weight)
    model = settings.refit_settings(K)

    def refit(places: Places) -> Fit:
        encoder = _part_of(rows.encoder, places)
        return fit_rows(replace(rows, encoder=encoder, codes=rows.codes[places]), model)

    chooser = _Chooser(cheaper_form(problem), problem, rows.encoder, refit, settings)
    return chooser.selection()


def select_counts(m: Marginals, settings: SelectionSettings) -> Selection:
    """Select features by pair counts, and refit on them."""
    model = settings.refit_settings(len(m.classes))
    check_counts(m, model)

    def refit(places: Places) -> Fit:
        encoder = _part_of(m.encoder, places)
        part = m.select(encoder.feature_names)
        encoder = replace(encoder, columns=part.settings.columns)
        fit = fit_counts(replace(part, settings=encoder), model)
        return replace(fit, named=has_names(m.encoder))

    return _Chooser(counts_problem(m), None, m.encoder, refit, settings).selection()


class _Chooser:
    """The choice of features of one problem; `path` is extended if necessary."""

    path: PathResult

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
        self.grid = self._grid()
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

    def _follow(self, at_least: int) -> None:
        """Compute the path, down to the given number of features."""
        self.path = entry_path(
            self.problem,
            self.names,
            self.grid,
            tol=self.settings.tol,
            at_least=at_least,
            max_passes=self.settings.max_passes,
        )

    def _choice(self) -> tuple[Places, float]:
        """Return the places of the features, and the penalty."""
        settings = self.settings
        if settings.max_error is not None:
            return self._first(self._fewest(settings.max_error))
        if settings.n_features is not None:
            return self._first(settings.n_features)
        if not isinstance(settings.penalty, str):
            return self._active(float(self.grid[-1]))
        if self.rows is None:
            return self._first(self._by_gcv())
        folds = assign_folds(self.rows, settings.n_folds, settings.random_state)
        tol = max(settings.tol, _FOLD_TOL)
        self.cv = cross_validate(self.rows, self.problem, self.grid, folds, tol)
        best = self.cv.best(one_error=settings.penalty == "cv-1se")
        return self._active(float(self.grid[best]))

    def _grid(self) -> Floats:
        """Return the penalties to try, down to the one given."""
        settings = self.settings
        grid = penalty_grid(self.problem, settings.n_lambdas, settings.ratio)
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

    def _first(self, k: int) -> tuple[Places, float]:
        """Return the first features in order of entry, and the penalty."""
        return self.path.places[:k], float(self.path.lambdas[k - 1])

    def _active(self, penalty: float) -> tuple[Places, float]:
        """Return the features with points (or the first), and the penalty."""
        path = self.path
        where = int(np.abs(path.lasso.lambdas - penalty).argmin())
        active = path.lasso.active[where, path.places] & ~np.isnan(path.lambdas)
        return (path.places[active], penalty) if active.any() else self._first(1)

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


# ---- cross-validation


class CrossValidation(NamedTuple):
    """Held-out risk of each penalty.

    Parameters
    ----------
    lambdas : ndarray of shape (L,)
        The penalties, falling.
    risks, standard_errors : ndarray of shape (L,)
        Mean held-out γ, and the standard errors of these means, over the folds.
    error_rates : ndarray of shape (L,)
        Error rate of the rule map on held-out rows, without any refit.
    n_folds : int
        Number of folds; fewer than requested if there are not as many rows.
    """

    lambdas: Floats
    risks: Floats
    standard_errors: Floats
    error_rates: Floats
    n_folds: int

    def best(self, one_error: bool = False) -> int:
        """Return the index of the penalty of least risk, the largest among equals.

        With `one_error`, it is the largest penalty with a risk within one standard
        error of the least.
        """
        least = int(self.risks.argmin())
        room = self.standard_errors if one_error else 1e-9 * np.abs(self.risks)
        return int(np.flatnonzero(self.risks <= self.risks[least] + room[least])[0])


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
    share = folds.sum(axis=1) / folds.sum()
    mean = share @ risks
    spread = np.sqrt(share @ (risks - mean) ** 2 / max(len(folds) - 1, 1))
    return CrossValidation(lambdas, mean, spread, share @ wrong, len(folds))
