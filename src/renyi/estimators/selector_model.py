r"""Feature selection: choose features by Algorithm 1, then refit by ridge.

Which features have points depends on one number, the penalty λ. It follows from what
the user knows: a number of features, a cap on the certified error, λ itself, or nothing
at all. Then it is chosen by cross-validation, or, where there are no rows to hold out,
the number of features is, by generalised cross-validation of the ridge fits on the
first 1, 2, … features of the path.

*Folds.* Rows are assigned to folds at random, class by class. From counts, no fold is
trained on rows: counts add up, so that those of the training part are a difference,
``Q_train = (n Q − n_f Q_f)/(n − n_f)``, and the held-out risk of any points needs only
the counts of the fold. A row of weight 2 is two rows, which may fall into different
folds. The folds depend on the rows and the seed, not on their order, nor on whether a
row is weighted or repeated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.text import SELECTED
from renyi.encoding.arrays import as_table
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import TrainingRows
from renyi.encoding.tuples import TupleEncoder
from renyi.estimators.model import CountsModel, RenyiModel
from renyi.formatting import rounded_up
from renyi.marginals.marginals import Marginals
from renyi.rules import RULES, random_of, row_keys
from renyi.selection import check_path_settings, entry_path, nested_fits
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
from renyi.validation import check_choice, check_positive, check_share, check_whole

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Refit = Callable[[Places], RenyiModel]

_FOLD_TOL = 1e-3
_GCV_GRID = np.logspace(-8, 1, 10)
# Beyond this many copies of rows, rows are assigned whole whatever they weigh.
_MOST_COPIES = 10_000_000
_DUST = 1e-9


class SelectorModel(CountsModel):
    """What `RenyiSelector` selects, learns and answers."""

    _kind: type[RenyiModel] = RenyiModel  # of the refit

    def __init__(
        self,
        n_features: int | None = None,
        penalty: float | str = "cv",
        refit_alpha: float | str = "auto",
        max_error: float | None = None,
        order: int = 1,
        rule: str = "map",
        n_folds: int = 5,
        n_lambdas: int = N_LAMBDAS,
        ratio: float = RATIO,
        tol: float = TOL,
        max_passes: int = MAX_PASSES,
        encoder: Encoder | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.penalty = penalty
        self.refit_alpha = refit_alpha
        self.max_error = max_error
        self.order = order
        self.rule = rule
        self.n_folds = n_folds
        self.n_lambdas = n_lambdas
        self.ratio = ratio
        self.tol = tol
        self.max_passes = max_passes
        self.encoder = encoder
        self.random_state = random_state

    # ---- training

    def _train_on_rows(self, block: TrainingRows) -> None:
        sizes = block.encoder.columns.sizes
        K = len(self.classes_)
        rows = RowsProblem(block.codes, sizes, block.y, K, block.sample_weight)

        def refit(places: Places) -> RenyiModel:
            part = _part_of(block.encoder, places)
            codes = block.codes[places]
            chosen = TrainingRows(part, codes, block.y, block.sample_weight)
            return self._model()._fit_block(chosen, self)

        self._select(cheaper_form(rows), rows, block.encoder, refit)
        self.marginals_: Marginals | None = None

    def fit_marginals(self, m: Marginals) -> Self:
        """Select features by marginals of the selector's order, and refit on them."""
        return super().fit_marginals(m)

    def _train(self, m: Marginals) -> None:
        def refit(places: Places) -> RenyiModel:
            part = _part_of(m.encoder, places)
            chosen = m.select(part.feature_names)
            settings = dataclasses.replace(part, columns=chosen.settings.columns)
            chosen = dataclasses.replace(chosen, settings=settings)
            clf = self._model().fit_marginals(chosen)
            if not hasattr(self, "feature_names_in_"):
                clf.__dict__.pop("feature_names_in_", None)
            return clf

        self._select(CountsProblem.of(m), None, m.encoder, refit)

    def _model(self) -> RenyiModel:
        # With more than two classes, scores that were not mapped promise more.
        kept = self.max_error is not None and len(self.classes_) > 2
        return self._kind(
            calibration=None if kept else "auto",
            order=self.order,
            alpha=self.refit_alpha,
            rule=self.rule,
            random_state=self.random_state,
        )

    def _select(
        self, problem: Problem, rows: RowsProblem | None, encoder: Encoder, refit: Refit
    ) -> None:
        """Choose the features, refit on them, and store what came of it."""
        names = encoder.feature_names
        if self.n_features is not None and self.n_features > len(names):
            raise ValueError(
                f"n_features={self.n_features} is more than the {len(names)} features "
                "there are."
            )
        grid = self._grid(problem)

        def follow(at_least: int) -> None:
            self.path_ = entry_path(
                problem, names, grid, tol=self.tol, at_least=at_least,
                max_passes=self.max_passes,
            )  # fmt: skip

        follow(self.n_features or 0)
        self.cv_: CrossValidation | None = None
        if self.max_error is not None:
            places, self.penalty_ = self._first(self._fewest(refit, follow))
        elif self.n_features is not None:
            places, self.penalty_ = self._first(self.n_features)
        elif not self._by_cv:
            places, self.penalty_ = self._active(float(grid[-1]))
        elif rows is None:
            places, self.penalty_ = self._first(self._by_gcv(problem))
        else:
            folds = assign_folds(rows, self.n_folds, self.random_state)
            tol = max(self.tol, _FOLD_TOL)
            self.cv_ = cross_validate(rows, problem, grid, folds, tol)
            best = self.cv_.best(one_error=self.penalty == "cv-1se")
            places, self.penalty_ = self._active(float(grid[best]))
        self.classifier_ = refit(np.sort(places))
        if len(places) < len(names):
            notes = self.classifier_._notes
            self.classifier_._notes = (*notes, ("selected-features", SELECTED))
        self.features_ = np.array([names[i] for i in places.tolist()], object)
        used = _columns_in(encoder, places)
        self._support = np.isin(np.arange(len(encoder.input_names)), used)
        self.encoder_ = encoder

    # ---- how many

    def _grid(self, problem: Problem) -> Floats:
        """Return the penalties to try, down to the one given."""
        grid = penalty_grid(problem, self.n_lambdas, self.ratio)
        if self._by_cv or self.n_features or self.max_error is not None:
            return grid
        top = grid[0]
        least = float(self.penalty)
        if least >= top:
            raise ValueError(
                f"penalty={least:g} selects no feature. Choose one below {top:.4g}."
            )
        # The same penalties as ever above it, so that features enter where they do.
        return grid_down_to(grid, least)

    @property
    def _by_cv(self) -> bool:
        return isinstance(self.penalty, str)

    def _first(self, k: int) -> tuple[Places, float]:
        """Return the first features in order of entry, and the penalty."""
        return self.path_.places[:k], float(self.path_.lambdas[k - 1])

    def _active(self, penalty: float) -> tuple[Places, float]:
        """Return the features with points at a penalty, or the first, and it."""
        path = self.path_
        where = int(np.abs(path.lasso.lambdas - penalty).argmin())
        held = path.lasso.active[where, path.places] & ~np.isnan(path.lambdas)
        return (path.places[held], penalty) if held.any() else self._first(1)

    def _fewest(self, refit: Refit, follow: Callable[[int], None]) -> int:
        """Return the least number of features that are certified to err that little."""
        assert self.max_error is not None
        cap = self.max_error
        rule = "map" if self.rule == "map" else "sharp"
        while True:
            # No refit on these features does better than the one of the path.
            for k in (np.flatnonzero(self.path_.bounds[rule] <= cap) + 1).tolist():
                clf = refit(np.sort(self.path_.places[:k]))
                if clf.certificate_.bounds[self.rule] <= cap:
                    return int(k)
            if len(self.path_.entries) == self.path_.n_features:
                break
            follow(self.path_.n_features)
        bounds = refit(np.sort(self.path_.places)).certificate_.bounds
        advice = "Increase max_error"
        if bounds["sharp"] <= cap:
            sharp = rounded_up(bounds["sharp"])
            advice += f", or choose rule='sharp', which reaches {sharp:.4f}"
        raise ValueError(
            f"max_error={cap:g} cannot be certified: a model of all "
            f"{len(self.path_.entries)} features reaches "
            f"{rounded_up(bounds[self.rule]):.4f} with rule {self.rule!r}. {advice}."
        )

    def _by_gcv(self, problem: Problem) -> int:
        """Return the number of features of least generalised cross-validation."""
        counts = problem.counted(self.path_.places)
        tried = [
            nested_fits(counts, alpha).gcv(problem.n)
            for alpha in len(counts.sizes) * _GCV_GRID
        ]
        risks = np.min(tried, axis=0)
        if not np.isfinite(risks).any():
            raise ValueError(
                f"The total weight {problem.n:g} of the marginals is too small to "
                "choose features: it stands for the number of rows. Scale the "
                "marginals to counts, or set n_features."
            )
        return int(np.flatnonzero(risks <= risks.min() * (1 + 1e-9))[0]) + 1

    # ---- checks

    def _check_parameters(self) -> None:
        check_choice("rule", self.rule, RULES)
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
            "penalty": not self._by_cv,
        }
        named = [name for name, there in given.items() if there]
        if len(named) > 1:
            raise ValueError(
                f"{named[0]} and {named[1]} cannot be combined: each of them says how "
                "many features to select."
            )

    # ---- answers

    def _reduced(self, X: Any) -> Any:
        """Return the selected columns of a table, as it came, if there is a model."""
        self._check_fitted()
        table = as_table(X)
        self._check_columns(X, reset=False)
        places = np.flatnonzero(self._support)
        if hasattr(table, "iloc"):
            return table.iloc[:, places]
        if hasattr(table, "select"):
            return table.select(places.tolist())
        return table[:, places]

    def predict(self, X: Any) -> NDArray[Any]:
        """Answer of the refitted model at each row; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.predict(table)

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities by the refitted model; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.predict_proba(table)

    def decision_function(self, X: Any) -> Floats:
        """Scores of the refitted model; X has all columns."""
        table = self._reduced(X)
        return self.classifier_.decision_function(table)


def _part_of(encoder: Encoder, places: Places) -> Encoder:
    """Return the encoder of some features, and of no columns but theirs."""
    columns = encoder.columns.take(places.tolist())
    if not isinstance(encoder, TupleEncoder):
        return dataclasses.replace(encoder, columns=columns)
    base = encoder.base.take(_columns_in(encoder, places).tolist())
    return dataclasses.replace(encoder, columns=columns, base=base)


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
    mistakes : ndarray of shape (L,)
        Share of held-out rows that the rule map gets wrong, without any refit.
    n_folds : int
        Number of folds; fewer than were asked for if there are not as many rows.
    """

    lambdas: Floats
    risks: Floats
    standard_errors: Floats
    mistakes: Floats
    n_folds: int

    def best(self, one_error: bool = False) -> int:
        """Return the place of the penalty of least risk, the largest among equals.

        With `one_error`, the largest whose risk is within a standard error of that.
        """
        least = int(self.risks.argmin())
        room = self.standard_errors if one_error else 1e-9 * np.abs(self.risks)
        return int(np.flatnonzero(self.risks <= self.risks[least] + room[least])[0])


def assign_folds(rows: RowsProblem, n_folds: int, random_state: Any = 0) -> Floats:
    """Return the weight of every row in every fold, as many as rows at most."""
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
    risks, wrong = np.zeros((2, len(folds), len(lambdas)))
    for k, fold in enumerate(folds):
        inside = rows.part(fold)
        held: Problem = inside
        if isinstance(whole, CountsProblem):
            held = counts = inside.counted()
            found = solve_path(whole.without(counts), lambdas, tol)
        else:
            rest = weight - fold
            rest[rest < _DUST * weight] = 0
            found = solve_path(rows.part(rest), lambdas, tol)
        risks[k] = held.risks(found)
        wrong[k] = inside.errors(found)
    share = folds.sum(axis=1) / folds.sum()
    mean = share @ risks
    spread = np.sqrt(share @ (risks - mean) ** 2 / max(len(folds) - 1, 1))
    return CrossValidation(lambdas, mean, spread, share @ wrong, len(folds))
