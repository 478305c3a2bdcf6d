r"""Represent a worst distribution: a short list of (x, y, probability).

A distribution proves a lower bound on an error. The programs find one to within their
tolerance. `polished` then makes its tables equal to the given ones to rounding, by
steps of least squares on its outcomes. If this is not enough, a linear program finds
the correction, scaled so that its tolerance is negligible. With more outcomes than
cells, as from interior points, the steps s minimise ``Σ s²/p`` and so keep p positive:

.. math:: s = D A^T (A D A^T)^+ (b - A p), \quad D = \mathrm{diag}(p).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg, sparse

from renyi.robust.ambiguity_set import Ambiguity, Flags, Floats, Outcomes
from renyi.rules import Seed, random_of
from renyi.solvers.programs import TOLERANCE, Program, solve

if TYPE_CHECKING:
    import pandas as pd

_DENSE = 5e7  # cells of a matrix that may be decomposed as a dense one
_ROUNDING = 1e-14  # differences of probabilities by rounding
# Nearly dependent columns would make very large steps.
_RANK = 1e-10
_NEAR = 1e-4
# Tables further off are not polished, and those nearer need not be.
_NEARLY = 1e-6
_EXACT = 1e-12


@dataclass(frozen=True, eq=False)
class WorstDistribution:
    """A distribution with the given tables, under which every rule has a large error.

    It shows that a guarantee cannot be smaller. `frame` lists its outcomes, and
    `sample` draws rows from it.

    Parameters
    ----------
    ambiguity : Ambiguity
        The tables and their columns.
    outcomes : ndarray of shape (N, d)
        Codes of the outcomes with positive probability.
    p : ndarray of shape (N, K)
        Probability of each outcome with each class.

    See Also
    --------
    minimax : Compute the smallest guarantee, with such a distribution.
    worst_case : Compute the worst case of one model.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X[["crime", "immigration"]], y)
    >>> worst = renyi.minimax(m).worst_distribution
    >>> worst.marginal_error < 1e-9
    True
    >>> worst.frame().columns.tolist()
    ['crime', 'immigration', 'party', 'probability']
    >>> worst.sample(100, random_state=0).shape
    (100, 3)
    """

    ambiguity: Ambiguity = field(repr=False)
    outcomes: Outcomes = field(repr=False)
    p: Floats = field(repr=False)

    @classmethod
    def of(cls, ambiguity: Ambiguity, outcomes: Outcomes, p: Floats) -> Self:
        """Return the distribution found by a program, polished."""
        p = polished(ambiguity, outcomes, p)
        used = p.sum(axis=1) > 0
        return cls(ambiguity, outcomes[used], p[used])

    def __len__(self) -> int:
        """Return the number of pairs (x, y) that have mass."""
        return int((self.p > 0).sum())

    def __str__(self) -> str:
        """Return a line on its size and error."""
        return (
            f"distribution on {len(self)} outcomes with a Bayes error of "
            f"{self.bayes_error:.4g}; its tables are the given ones to "
            f"{self.marginal_error:.1e}"
        )

    @cached_property
    def bayes_error(self) -> float:
        """Error of the best rule under this distribution."""
        return max(0.0, float(self.p.sum() - self.p.max(axis=1, initial=0.0).sum()))

    @cached_property
    def marginal_error(self) -> float:
        """Largest difference between its tables and the given ones."""
        A = self.ambiguity.constraint_matrix(self.outcomes)
        return float(np.abs(A @ self.p.ravel() - self.ambiguity.b).max())

    def error(self, rule: Any) -> float:
        """Return the error of a rule under this distribution.

        Parameters
        ----------
        rule : array of shape (N, K), or object with ``rule_proba``
            Probability of each answer at each of `outcomes`. An object that computes it
            is a `MinimaxRule` of these columns, or a model fitted to columns of labels.
        """
        if hasattr(rule, "of_codes"):
            proba = rule.of_codes(self.outcomes.T)
        elif hasattr(rule, "rule_proba"):
            proba = rule.rule_proba(self._rows(np.arange(len(self.p))))
        else:
            proba = np.asarray(rule, np.float64)
        return float((self.p * (1 - proba)).sum())

    def frame(self) -> pd.DataFrame:
        """Return the outcomes with mass: features, class and ``probability``.

        Underscores are appended to the last name if a column has the same name.
        """
        rows, classes = np.nonzero(self.p > 0)
        mass = self.p[rows, classes]
        order = np.argsort(-mass, kind="stable")
        frame = self._rows(rows[order], classes[order])
        name = "probability"
        while name in frame:
            name += "_"
        frame[name] = mass[order]
        return frame

    def sample(self, n: int, random_state: Seed = None) -> pd.DataFrame:
        """Draw n rows: the features and the class."""
        rows, classes = np.nonzero(self.p > 0)
        weights = self.p[rows, classes]
        random = random_of(random_state)
        drawn = random.choice(len(weights), n, p=weights / weights.sum())
        return self._rows(rows[drawn], classes[drawn])

    def _rows(self, rows: Outcomes, classes: Outcomes | None = None) -> pd.DataFrame:
        """Return outcomes as a table, with their classes if these are given."""
        import pandas as pd

        columns = [*self.ambiguity.columns]
        cells = [*self.outcomes[rows].T]
        if self.ambiguity.tuples is not None:
            behind = self.ambiguity.tuples.columns_behind(self.outcomes[rows].T)
            columns = [self.ambiguity.tuples.base[i] for i in behind]
            cells = [*behind.values()]
        if classes is not None:
            columns = [*columns, self.ambiguity.target]
            cells = [*cells, classes]
        labels = (np.array(column.categories, object) for column in columns)
        names = (column.name for column in columns)
        parts = zip(names, labels, cells, strict=True)
        return pd.DataFrame({name: own[codes] for name, own, codes in parts})


# ---- polishing


def exhibited(
    ambiguity: Ambiguity, outcomes: Outcomes, p: Floats
) -> WorstDistribution | None:
    """Return the distribution of a program, polished, if it is a member of C."""
    used = p.sum(axis=1) > 0
    if not used.any():
        return None
    shown = WorstDistribution(ambiguity, outcomes[used], p[used])
    if shown.marginal_error > _NEARLY:  # the program was stopped early
        return None
    if shown.marginal_error > _EXACT:
        shown = WorstDistribution.of(ambiguity, outcomes, p)
    return shown if shown.marginal_error <= TOLERANCE else None


def polished(ambiguity: Ambiguity, outcomes: Outcomes, p: Floats) -> Floats:
    """Return a distribution near p whose tables are the given ones to rounding."""
    A = ambiguity.constraint_matrix(outcomes)
    b = ambiguity.b
    allowed = ambiguity.possible(outcomes).ravel()
    nearest = _least_squares(A, b, np.where(allowed, np.maximum(p.ravel(), 0), 0.0))
    for _ in range(3):
        if _residual(A, b, nearest) <= TOLERANCE / 10:
            break
        nearest = _corrected(A, b, nearest, allowed)
    return nearest.reshape(p.shape)


def _residual(A: sparse.csc_array, b: Floats, p: Floats) -> float:
    return float(np.abs(A @ p - b).max())


def _least_squares(A: sparse.csc_array, b: Floats, p: Floats) -> Floats:
    """Take steps on the support; remove outcomes that become negative."""
    best = p
    least = _residual(A, b, p)
    for _ in range(10):
        support = np.flatnonzero(p > 0)
        size = float(A.shape[0]) * min(A.shape[0], len(support))
        if least <= _ROUNDING or not len(support) or size > _DENSE:
            break
        step = _step(A[:, support], p[support], b - A @ p)
        if np.abs(step).max() > _NEAR:
            break
        p = p.copy()
        p[support] = np.maximum(p[support] + step, 0)
        now = _residual(A, b, p)
        if now < least:
            best = p
            least = now
        elif (p[support] > 0).all():
            break
    return best


def _step(A: sparse.csc_array, p: Floats, rest: Floats) -> Floats:
    """Return s with ``A s ≈ rest``."""
    least_squares = partial(linalg.lstsq, cond=_RANK, lapack_driver="gelsy")
    if A.shape[1] <= A.shape[0]:
        return np.asarray(least_squares(A.toarray(), rest)[0])
    scaled = A * p
    used = np.flatnonzero(scaled.sum(axis=1) > 0)
    size = np.sqrt(scaled.sum(axis=1)[used])  # so that the diagonal is 1
    gram = (scaled @ A.T).toarray()[np.ix_(used, used)] / np.outer(size, size)
    multiplier = np.zeros(A.shape[0])
    multiplier[used] = least_squares(gram, rest[used] / size)[0] / size
    return np.asarray(scaled.T @ multiplier)


def _corrected(A: sparse.csc_array, b: Floats, p: Floats, allowed: Flags) -> Floats:
    """Return p plus the smallest correction, in units of the residual."""
    unit = _residual(A, b, p)
    rest = (b - A @ p) / unit
    size = len(p)
    up = np.where(allowed, np.inf, 0.0)
    both = sparse.hstack([A, -A])
    most = np.concatenate([up, p / unit])
    answer = solve(Program(np.ones(2 * size), both, rest, rest, upper=most))
    if answer.status != "optimal":
        return p
    moved = np.maximum(p + unit * (answer.x[:size] - answer.x[size:]), 0)
    return moved if _residual(A, b, moved) < unit else p
