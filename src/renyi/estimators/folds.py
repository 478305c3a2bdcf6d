r"""Cross-validation of penalties: the risk of each on rows held out.

Rows are assigned to folds at random, class by class. From counts, no fold is trained on
rows: counts add up, so that those of the training part are a difference,
``Q_train = (n Q − n_f Q_f)/(n − n_f)``, and the held-out risk of any points needs only
the counts of the fold.

A row of weight 2 is two rows, which may fall into different folds. The folds depend on
the rows and the seed, not on their order, nor on whether a row is weighted or repeated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from renyi.rules import row_keys
from renyi.solvers.l1inf import CountsProblem, Problem, RowsProblem
from renyi.solvers.l1inf_path import solve_path

Floats = NDArray[np.float64]

# Beyond this many copies of rows, rows are assigned whole whatever they weigh.
_MOST_COPIES = 10_000_000
_DUST = 1e-9


class CrossValidation(NamedTuple):
    """Held-out risk of each penalty.

    Parameters
    ----------
    lambdas : ndarray of shape (L,)
        The penalties, falling.
    risks : ndarray of shape (L,)
        Mean held-out γ.
    standard_errors : ndarray of shape (L,)
        Standard errors of these means, over the folds.
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
        room = 1e-9 * abs(self.risks[least])
        if one_error:
            room = self.standard_errors[least]
        return int(np.flatnonzero(self.risks <= self.risks[least] + room)[0])


def assign_folds(rows: RowsProblem, n_folds: int, random_state: Any = 0) -> Floats:
    """Return the weight of every row in every fold: (n_folds, n).

    There are fewer folds than asked for if there are not as many rows.
    """
    n = len(rows.y)
    sample_weight = np.ones(n) if rows.sample_weight is None else rows.sample_weight
    copies = np.ceil(np.maximum(sample_weight, 1)).astype(np.int64)
    if copies.sum() > _MOST_COPIES:
        copies = np.ones(n, np.int64)
    row = np.repeat(np.arange(n), copies)
    weight, label = (sample_weight / copies)[row], rows.y[row]
    known = np.lexsort((weight, row_keys(rows.codes)[row], label))
    shuffled = known[check_random_state(random_state).permutation(len(row))]
    by_class = shuffled[np.argsort(label[shuffled], kind="stable")]
    n_folds = min(n_folds, len(row))
    fold = np.empty(len(row), np.int64)
    fold[by_class] = np.arange(len(row)) % n_folds
    flat = np.bincount(fold * n + row, weight, minlength=n_folds * n)
    return np.asarray(flat.reshape(n_folds, n), np.float64)


def cross_validate(
    rows: RowsProblem, whole: Problem, lambdas: Floats, folds: Floats, tol: float
) -> CrossValidation:
    """Return the held-out risk of each penalty."""
    found = [_held_out(rows, whole, lambdas, fold, tol) for fold in folds]
    share = folds.sum(axis=1) / folds.sum()
    risks, wrong = (np.stack(each) for each in zip(*found, strict=True))
    mean = share @ risks
    spread = np.sqrt(share @ (risks - mean) ** 2 / max(len(folds) - 1, 1))
    return CrossValidation(lambdas, mean, spread, share @ wrong, len(folds))


def _held_out(
    rows: RowsProblem, whole: Problem, lambdas: Floats, fold: Floats, tol: float
) -> tuple[Floats, Floats]:
    """Train without a fold; return risks and shares of mistakes on it."""
    inside = rows.part(fold)
    if isinstance(whole, CountsProblem):
        held = inside.counted()
        found = solve_path(whole.without(held), lambdas, tol)
        return held.risks(found), inside.errors(found)
    weight = np.ones(len(fold)) if rows.sample_weight is None else rows.sample_weight
    rest = weight - fold
    rest[rest < _DUST * weight] = 0
    found = solve_path(rows.part(rest), lambdas, tol)
    return inside.risks(found), inside.errors(found)
