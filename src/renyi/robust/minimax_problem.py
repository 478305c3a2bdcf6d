r"""Solve the minimax problem: the smallest error that any rule can guarantee.

.. math:: e^* = \min_\delta \max_{P \in C} P(\delta(X) \ne Y)
        = \max_{P \in C} \min_\delta P(\delta(X) \ne Y).

The left side is a rule, the right side a distribution: a saddle point. The rule follows
from functions λ_y(x) with ``Σ_{y∈S} λ_y(x) ≥ |S| − 1`` for every x and nonempty S. It
answers y with probability ``r_y = max(0, 1 − λ_y)``; the remaining mass goes to the
smallest λ_y. Its error is at most E[λ_Y], the same number for every P in C. The most
probable answer alone, the smallest λ_y, has at most twice that error.

There are three methods, from cheap to exact. The first two are the polynomial program
(`renyi.robust.pairwise_program`) and cutting planes (`renyi.robust.cutting_planes`).
The third is the direct program over all outcomes of a small table and all nonempty sets
S of classes,

.. math:: e^* = \max \sum_{x, S} (|S| - 1)\, w_S(x), \quad
    p(x, y) = \sum_{S \ni y} w_S(x), \quad A p = b, \; w \ge 0:

w spreads p(x, ·) over sets of equally likely classes, of which all but one are errors.
With one row for each cell of the tables, it is about twenty times faster than the form
with ``v(x) ≥ p(x, y)``, which is used for more than four classes. The multipliers of
``A p = b`` give the functions λ_y, and p is the worst distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.certificates import text
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import has_few_rows
from renyi.encoding.rules import check_classes, class_array
from renyi.formatting import at_least, at_most, rounded_down, rounded_up
from renyi.limits import Deadline, MemoryBudgetError
from renyi.marginals.consistency import n_indicators
from renyi.marginals.marginals import Marginals
from renyi.progress import ProgressCallback
from renyi.robust import cutting_planes
from renyi.robust.ambiguity_set import (
    Ambiguity,
    Floats,
    Outcomes,
    Table,
    Tables,
    class_sets,
    contradiction_error,
    disagreement,
    members,
    of_tables,
    shortfall,
)
from renyi.robust.distribution import WorstDistribution, exhibited
from renyi.robust.pairwise_program import (
    Bound,
    first_bound,
    table_rule,
    warn_too_large,
)
from renyi.solvers.programs import IMPOSSIBLE, Program, solve
from renyi.validation import check_choice, check_positive, check_time_limit

METHODS = ("auto", "lp", "exact")
Method = Literal["lp", "direct", "cutting planes"]
Status = Literal["solved", "bounded", "stopped"]
# Outcomes times classes of a direct program that takes a second or two. With more,
# cutting planes are faster; other tables than pairs need the direct program.
_QUICK = 10_000
_MOST = 60_000
_MAX_CLASSES = 4  # with more, the program has too many sets of classes
_ABSURD = 1e-7  # most that rounding lifts the lower bound above the upper one


@dataclass(frozen=True, eq=False)
class MinimaxRule:
    """A rule with a proven guarantee: r_y(x) = max(0, 1 − λ_y(x)).

    It answers at random where a row is unclear. `rule_proba` returns the probability of
    each answer; the guarantee is about the expected error.

    Parameters
    ----------
    ambiguity : Ambiguity
        The tables that the guarantee is about.
    multiplier : ndarray
        A number for every cell of every table, whose sums are the functions λ_y(x).
    guarantee : float
        Upper bound on its error under every distribution with those tables.
    encoder : Encoder
        Turns rows into codes.

    See Also
    --------
    minimax : Compute the rule.
    MinimaxClassifier : Use the rule as an estimator.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> rule = minimax(m, method="lp").rule
    >>> round(rule.guarantee, 5)
    0.04368
    >>> rule.rule_proba(X[:2]).round(2)
    array([[0., 1.],
           [0., 1.]])
    >>> rule.decide(X[:2]).tolist()
    ['republican', 'republican']
    """

    ambiguity: Ambiguity = field(repr=False)
    multiplier: Floats = field(repr=False)
    guarantee: float
    encoder: Encoder = field(repr=False)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes, in the order of the columns of `rule_proba`."""
        return self.ambiguity.target.categories

    @cached_property
    def _tables(self) -> list[Floats]:
        """Multipliers by table, with a place for unseen labels on every axis."""
        return [_extended(*part) for part in self.ambiguity.split(self.multiplier)]

    def functions(self, codes: NDArray[Any]) -> Floats:
        """Return the values of λ_y at rows given as codes (d, n): an array (n, K)."""
        total = np.zeros((codes.shape[1], self.ambiguity.n_classes))
        for table, cells in zip(self.ambiguity.tables, self._tables, strict=True):
            total += cells[tuple(codes[i] for i in table.features)]
        return total

    def of_codes(self, codes: NDArray[Any]) -> Floats:
        """Return the probability of each answer at rows given as codes (d, n)."""
        return answer_proba(self.functions(codes))

    def rule_proba(self, X: object) -> Floats:
        """Return the probability of each answer at each row of a frame."""
        return self.of_codes(self.encoder.transform(X))

    def decide(self, X: object) -> NDArray[Any]:
        """Return the class of the smallest λ_y, which at most doubles the error."""
        best = self.functions(self.encoder.transform(X)).argmin(axis=1)
        return np.asarray(class_array(self.classes)[best])


def answer_proba(values: Floats) -> Floats:
    """Return r_y of values of λ_y (n, K): rows of probabilities.

    >>> answer_proba(np.array([[0.25, 0.75], [0.5, 1.5], [-1.0, 0.0]]))
    array([[0.75      , 0.25      ],
           [1.        , 0.        ],
           [0.66666667, 0.33333333]])
    """
    r = np.maximum(0, 1 - values)
    r /= np.maximum(r.sum(axis=1, keepdims=True), 1.0)  # where nothing is guaranteed
    r[np.arange(len(r)), values.argmin(axis=1)] += 1 - r.sum(axis=1)
    return np.asarray(np.maximum(r, 0))


def _extended(table: Table, cells: Floats) -> Floats:
    """Append the mean to every feature's axis of a table's multiplier.

    An unseen label counts as the mean over the labels of the column, weighted by their
    probability. Empty cells are left out, since nothing is guaranteed there. The
    weights are the same at all cells, so the split of λ into tables does not matter.
    """
    p = table.probabilities if table.with_target else table.probabilities[..., None]
    a = cells.reshape(p.shape)
    weights = (p > 0).astype(np.float64)
    sums = a * weights
    for axis in range(len(table.features)):
        others = tuple(k for k in range(p.ndim) if k != axis)
        share = p.sum(axis=others)
        sums, weights = (
            np.concatenate(
                [v, np.expand_dims(np.tensordot(share, v, (0, axis)), axis)], axis
            )
            for v in (sums, weights)
        )
    extended = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
    own = tuple(slice(0, size) for size in p.shape)
    extended[own] = a
    return extended


@dataclass(frozen=True, eq=False)
class MinimaxResult:
    """An interval around e*, a rule that attains its upper end, and evidence.

    `minimax` returns it. Quote `upper`, which `rule` guarantees. If `lower` is close to
    it, no other rule can guarantee much less.

    Parameters
    ----------
    lower, upper : float
        No rule can guarantee less than `lower`; `rule` guarantees `upper`.
    rule : MinimaxRule
        The rule.
    worst_distribution : WorstDistribution or None
        A distribution with the given tables under which every rule has an error of at
        least `lower`; None if none was found (`lower` is 0 then).
    method : {"lp", "direct", "cutting planes"}
        The method that found it.
    seconds : float
        Time taken.
    status : {"solved", "bounded", "stopped"}
        "solved": the gap is within the tolerance and a distribution was found.
        "bounded": the method cannot improve the bounds. "stopped": by the time limit,
        by Ctrl-C, or because a program does not fit into memory. Unless it is
        "solved", perhaps no distribution has the tables; the bounds then mean nothing.
    note : str
        Why the bounds say little about the population if rows are few; else "".
    origin : str
        What the rule comes from: "linear program", "least squares", "one table",
        "all outcomes" or "cutting planes".
    interrupted : bool
        Whether Ctrl-C ended the search.
    messages : ndarray or None
        Messages by which a proof shows that the functions are feasible.

    See Also
    --------
    minimax : Compute it.

    Notes
    -----
    Guide: :doc:`/minimax`.
    """

    lower: float
    upper: float
    rule: MinimaxRule = field(repr=False)
    worst_distribution: WorstDistribution | None = field(repr=False)
    method: Method
    seconds: float
    status: Status
    note: str = ""
    origin: str = ""
    interrupted: bool = False
    messages: Floats | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return self.upper - self.lower

    def __str__(self) -> str:
        """Return the interval, and what it means."""
        whose = "exactly the tables of these few rows" if self.note else "these tables"
        lines = [
            *([f"Warning: {self.note}"] if self.note else []),
            f"minimax error: between {rounded_down(self.lower, 6):.6f} and "
            f"{rounded_up(self.upper, 6):.6f} ({self.status}, {self.method}, "
            f"{self.seconds:.1f} s)",
            f"  the rule is wrong on at most {at_most(self.upper)} of any population "
            f"with {whose}",
        ]
        if self.worst_distribution is not None:
            lines.append(
                f"  no rule can guarantee less than {at_least(self.lower)}, by a "
                f"distribution on {len(self.worst_distribution)} outcomes"
            )
        return "\n".join(lines)


def minimax(
    m: Marginals | str,
    method: str = "auto",
    tables: Tables | None = None,
    *,
    time_limit: float | None = None,
    tolerance: float = 1e-6,
    class_conditional: bool = True,
    progress: ProgressCallback | None = None,
    random_state: int = 0,
) -> MinimaxResult:
    """Compute the smallest error that any rule can guarantee, given some tables.

    The result says how good a guarantee from these counts can be, whatever the model.
    Compare it with the guarantee of your model. It needs the extra ``exact``.

    Parameters
    ----------
    m : Marginals or str
        The pair counts. With `tables`: pair counts of their columns, or the target.
    method : {"auto", "lp", "exact"}, default="auto"
        "lp" solves one program of polynomial size, which gives an upper bound and a
        rule that attains it. "exact" closes the interval: by a program over all
        outcomes if they are few, otherwise by cutting planes. "auto" is "exact" if that
        takes a few seconds, otherwise "lp".
    tables : iterable of frames, optional
        Contingency tables over any columns, as in `Marginals.from_tables`, in place of
        the counts of m. Cutting planes and "lp" take tables of at most two features
        (and the target); cutting planes need one with the target for every feature.
    time_limit : float, optional
        Seconds after which the interval so far is returned, as after Ctrl-C.
    tolerance : float, default=1e-6
        Gap, above 0, at which the interval counts as closed.
    class_conditional : bool, default=True
        Use the pairs within each class if m has them, which allows fewer distributions.
    progress : callable, optional
        Called after every round of cutting planes with a `renyi.progress.Progress`.
    random_state : int, default=0
        Seed of the search for cuts.

    Returns
    -------
    MinimaxResult

    Raises
    ------
    ValueError
        If no distribution has the tables, with the reason; "lp" may not notice.
    MemoryError
        If the tables of all pairs exceed the memory limit. A program that does so is
        left out, with a `DataWarning` of the code "too-large".

    See Also
    --------
    worst_case : Compute the worst case of one model.
    MinimaxClassifier : Use the minimax rule as an estimator.

    Notes
    -----
    Guide: :doc:`/minimax`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "education-spending", "crime"]]
    >>> result = minimax(renyi.Marginals.from_data(few, y))
    >>> round(result.lower, 4), round(result.upper, 4), result.method
    (0.0437, 0.0437, 'direct')
    >>> round(result.worst_distribution.error(result.rule), 4)
    0.0437
    """
    check_choice("method", method, METHODS)
    check_time_limit(time_limit)
    check_positive("tolerance", tolerance)
    deadline = Deadline(time_limit)
    ambiguity, encoder = _given(m, tables, class_conditional)
    options = {"progress": progress, "random_state": random_state}
    result = solve_minimax(
        ambiguity, encoder, method, deadline=deadline, tolerance=tolerance, **options
    )
    if tables is None and not isinstance(m, str):
        D = n_indicators(m)
        if has_few_rows(m.n, D):
            result = replace(result, note=text.few_rows(m.n, D))
    return result


def _given(
    m: Marginals | str, tables: Tables | None, class_conditional: bool
) -> tuple[Ambiguity, Encoder]:
    """Return the set C, by tables of pairs if it can be, and the encoder."""
    if tables is not None:
        ambiguity = of_tables(tables, m)
        plain = ambiguity.pairwise()
        if plain is not None and (text := disagreement(ambiguity)):
            raise ValueError(text)
        ambiguity = plain or ambiguity
        if isinstance(m, str):
            encoder = Encoder(numeric=(), columns=ambiguity.columns)
        else:
            places = m.columns.places(ambiguity.columns.names)
            encoder = replace(m.settings, columns=m.columns.take(places))
    elif isinstance(m, str):
        raise ValueError(
            f"The target {m!r} alone is not enough: also give tables=, or pass "
            "marginals."
        )
    else:
        check_classes(m.classes, m.target)  # a missing one has a text as well
        ambiguity = Ambiguity.of(m, class_conditional)
        encoder = m.encoder
    check_classes(ambiguity.target.levels.texts, ambiguity.target.name)
    return ambiguity, encoder


# A bound and its rule, a distribution if any, and the way it was found.
_Found = tuple[Bound, WorstDistribution | None, Method]


def solve_minimax(
    ambiguity: Ambiguity,
    encoder: Encoder,
    method: str = "exact",
    *,
    deadline: Deadline,
    tolerance: float = 1e-6,
    **options: Any,
) -> MinimaxResult:
    """Solve the minimax problem of a set C; `options` are those of cutting planes."""
    outcomes = None
    pairwise = ambiguity.pairwise() is not None
    if method != "lp":
        most = _QUICK if pairwise or method == "auto" else _MOST
        outcomes = ambiguity.few_outcomes(most / ambiguity.n_classes)
    if outcomes is not None:
        best, shown, way = _direct(ambiguity, outcomes, deadline)
    elif method != "exact":
        best = first_bound(ambiguity, deadline)
        shown = None
        way = "lp"
    elif pairwise:
        best, shown, way = _planes(ambiguity, deadline, tolerance, **options)
    else:
        raise ValueError(
            f"The tables allow more than {_MOST:,} joint outcomes and classes, too "
            "many to list. Give tables over fewer columns, or tables of at most two "
            "features, with one for every feature and the target."
        )
    upper = best.value
    lower = 0.0 if shown is None else shown.bayes_error
    if shown is not None and lower > upper + _ABSURD:
        raise RuntimeError(
            "The solver's bounds contradict each other: every rule has an error of at "
            f"least {lower:g}, but one guarantees {upper:g}. Merge rare categories, or "
            "use method='lp'."
        )
    if best.status == "infeasible" or upper < IMPOSSIBLE:  # λ ≥ 0 of negative mean
        raise contradiction_error(ambiguity)
    upper = max(upper, 0.0)
    lower = min(lower, upper)
    status: Status = "bounded" if best.status == "optimal" else "stopped"
    if shown is not None and upper - lower <= tolerance:
        status = "solved"
    rule = MinimaxRule(ambiguity, best.multiplier, upper, encoder)
    return MinimaxResult(
        lower=lower,
        upper=upper,
        rule=rule,
        worst_distribution=shown,
        method=way,
        seconds=deadline.spent,
        status=status,
        origin=best.origin,
        interrupted=best.status == "interrupted",
        messages=best.messages,
    )


def _direct(ambiguity: Ambiguity, X: Outcomes, deadline: Deadline) -> _Found:
    """Solve the program over all outcomes."""
    best = table_rule(ambiguity)
    try:
        answer, p = solve_direct(ambiguity, X, deadline.limit)
    except KeyboardInterrupt:
        return best._replace(status="interrupted"), None, "direct"
    if answer.status != "optimal" and not answer.value < best.value:
        answer = best._replace(status=answer.status)
    empty = answer.status == "infeasible"
    return answer, None if empty else exhibited(ambiguity, X, p), "direct"


def solve_direct(
    ambiguity: Ambiguity, X: Outcomes, time_limit: float | None = None
) -> tuple[Bound, Floats]:
    """Return the minimax error over C, and the worst member (outcomes, classes).

    X are all possible outcomes. The bound is proven even if the program was stopped.
    """
    N = len(X)
    K = ambiguity.n_classes
    b = ambiguity.b
    multiplier = np.zeros(len(b))
    p = np.zeros(N * K)
    if not N:
        return Bound(np.inf, multiplier, "infeasible"), p.reshape(N, K)
    possible = ambiguity.possible(X)
    A = ambiguity.constraint_matrix(X)
    few = K <= _MAX_CLASSES
    if few:
        member = members(class_sets(K), K)
        kept = np.flatnonzero(((~possible).astype(np.float64) @ member).ravel() == 0)
        spread = sparse.kron(sparse.eye_array(N), member, format="csc")[:, kept]
        gain = np.tile(member.sum(axis=0) - 1, N)[kept]
        program = Program(-gain, A @ spread, b, b)
    else:  # p, then v
        spread = sparse.eye_array(N * K, N * K + N, format="csc")
        above = sparse.kron(sparse.eye_array(N), np.ones((K, 1)))
        rows = [[A, None], [-sparse.eye_array(N * K), above]]
        cost = np.append(p, np.ones(N))
        low = np.append(b, p)
        high = np.append(b, np.full(N * K, np.inf))
        most = np.append(np.where(possible, np.inf, 0.0), np.full(N, np.inf))
        program = Program(cost, sparse.block_array(rows), low, high, upper=most)
    answer = solve(program, time_limit=time_limit)
    if len(answer.x) == len(program.cost):
        p = spread @ np.maximum(answer.x, 0)
    a = -answer.duals[: len(b)]
    if len(a) == len(b) and np.isfinite(a).all():  # it was not stopped early
        multiplier = a if few else ambiguity.shifted(a, 1.0)
    values = np.where(possible, ambiguity.functions(multiplier, X), np.inf)
    multiplier = ambiguity.shifted(multiplier, shortfall(values))
    value = float(b @ multiplier)
    multiplier = ambiguity.completed(multiplier)
    bound = Bound(value, multiplier, answer.status, "all outcomes")
    return bound, p.reshape(N, K)


def _planes(
    ambiguity: Ambiguity, deadline: Deadline, tolerance: float, **options: Any
) -> _Found:
    """Start with the polynomial program, then add cuts.

    If its solver fails, start with the best simple rule. Continue at a bound of 0, as
    C may be empty: only a member of C shows that it is not.
    """
    best = first_bound(ambiguity, deadline)
    if best.status in ("infeasible", "interrupted"):
        return best, None, "lp"
    if deadline.passed:
        return best._replace(status="stopped"), None, "lp"
    options |= {"tolerance": tolerance / 2, "step": "minimax error"}
    options["time_limit"] = deadline.limit
    start = (best.multiplier, best.value)
    try:
        problem = cutting_planes.AnyRule(ambiguity)
        state = cutting_planes.search(problem, *start, **options)
    except MemoryBudgetError as error:
        warn_too_large(error)
        return best._replace(status="declined"), None, "lp"
    if state.upper < best.value:
        cut = ambiguity.completed(state.best)
        best = Bound(state.upper, cut, origin="cutting planes")
    late = state.status == "optimal" and deadline.passed
    best = best._replace(status="stopped" if late else state.status)
    return best, exhibited(ambiguity, state.outcomes, state.p), "cutting planes"
