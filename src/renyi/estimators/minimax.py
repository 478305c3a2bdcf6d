"""MinimaxClassifier: the rule with the smallest guarantee, as an estimator.

It minimises the worst-case error itself, over all distributions with the marginals,
where `RenyiClassifier` minimises a quadratic bound on it.

A sample does not have the marginals of its population. With `margin` = η the guarantee
holds for all marginals within η standard errors of the sample's. This adds
``Σ η |coefficient|`` to the objective.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from renyi.certificates.text import few_rows
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import has_few_rows
from renyi.estimators.classifier import CountsClassifier
from renyi.marginals.consistency import n_indicators
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.minimax_problem import MinimaxResult, MinimaxRule, minimax
from renyi.robust.pairwise_program import solve_local
from renyi.validation import check_amount, check_time_limit

Floats = NDArray[np.float64]


class RuleClassifier(CountsClassifier):
    """Base class for the classifiers that answer by a `MinimaxRule`."""

    rule_: MinimaxRule

    @property
    def guarantee_(self) -> float:
        """Guarantee of `rule_proba`; the guarantee of `predict` is twice as large."""
        check_is_fitted(self)
        return self.rule_.guarantee

    def rule_proba(self, X: Any) -> Floats:
        """Return the probability with which the rule answers each class, by row."""
        codes = self._codes(X)  # first, because it checks that there is a rule
        return self.rule_.of_codes(codes)

    def predict_proba(self, X: Any) -> Floats:
        """Return `rule_proba`: how often the rule answers each class.

        These figures do not estimate how likely each class is.
        """
        return self.rule_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable answer of the rule at each row, without a draw."""
        codes = self._codes(X)
        best = self.rule_.functions(codes).argmin(axis=1)
        return np.asarray(self.classes_[best])


class MinimaxClassifier(RuleClassifier):
    """Classify by the rule with the smallest guarantee that pair counts can prove.

    Use it when the guarantee itself matters, on tables of up to some hundred
    categories. It needs a solver (the extra ``exact``) and takes longer than
    `RenyiClassifier`. Read `guarantee_` together with `note_`: with few rows the
    guarantee says little about new rows.

    Parameters
    ----------
    method : {"lp", "exact", "auto"}, default="lp"
        How to solve the minimax problem; see `minimax`. "lp" scales to hundreds of
        categories.
    margin : float, default=0.0
        Standard errors by which every marginal probability may be wrong. It
        regularises, and extends the guarantee to all those marginals. It needs
        method="lp".
    class_conditional : bool, default=False
        Use the pair counts within each class: a smaller guarantee, from more counts.
    encoder : Encoder, optional
        How cells become categories.
    time_limit : float, optional
        Seconds for the solver.
    random_state : int or None, default=None
        Seed of the search for cuts of method="exact".

    Attributes
    ----------
    guarantee_ : float
        Upper bound on the error rate of `rule_proba` over all populations with the same
        pair counts (with `margin`, also with similar ones). For `predict` it is twice
        as large. Counts that were edited or rounded may belong to no population. Then
        the guarantee is meaningless; method="exact" detects this, "lp" may not.
    note_ : str
        Why the guarantee says little about new rows, if there are few training rows.
        With more categories than rows the guarantee tends to 0, unlike the error to
        expect. Empty if there are enough rows.
    rule_ : MinimaxRule
        The rule.
    result_ : MinimaxResult or None
        The interval around the minimax error; None with a margin.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As in `RenyiClassifier`.

    See Also
    --------
    minimax : Compute the smallest possible guarantee, and the rule that attains it.
    RenyiClassifier : Train in closed form, without a solver.

    Notes
    -----
    Guide: :doc:`/minimax`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.MinimaxClassifier().fit(X, y)
    >>> round(clf.guarantee_, 5)
    0.04368
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    """

    def __init__(
        self,
        method: str = "lp",
        margin: float = 0.0,
        class_conditional: bool = False,
        encoder: Encoder | None = None,
        time_limit: float | None = None,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.margin = margin
        self.class_conditional = class_conditional
        self.encoder = encoder
        self.time_limit = time_limit
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_time_limit(self.time_limit)
        check_amount("margin", self.margin, "a finite number of standard errors")
        if self.margin and self.method != "lp":
            raise ValueError(
                f"margin needs method='lp', not {self.method!r}: set margin to 0."
            )

    def _class_pairs_reason(self) -> str | None:
        return "class_conditional=True" if self.class_conditional else None

    def _train(self, m: Marginals) -> None:
        self.result_: MinimaxResult | None = None
        if not self.margin:
            self.result_ = minimax(
                m,
                self.method,
                time_limit=self.time_limit,
                class_conditional=self.class_conditional,
                random_state=self.random_state or 0,
            )
            self.rule_ = self.result_.rule
            return
        # The polynomial program, with room for noise. The standard error of an empty
        # cell is taken as if it had one row.
        ambiguity = Ambiguity.of(m, self.class_conditional)
        b = ambiguity.b
        room = self.margin * np.sqrt(np.maximum(b * (1 - b), 1 / m.n) / m.n)
        solution = solve_local(ambiguity, room, self.time_limit)
        if not np.isfinite(solution.value):
            raise ValueError(
                "No rule was found within the time limit: allow more time, or use "
                "fewer columns."
            )
        self.rule_ = MinimaxRule(
            ambiguity, solution.multiplier, solution.value, m.encoder
        )

    @property
    def note_(self) -> str:
        """Why the guarantee says little about new rows, if there are few rows."""
        check_is_fitted(self)
        assert self.marginals_ is not None
        n = self.marginals_.n
        D = n_indicators(self.marginals_)
        return few_rows(n, D) if has_few_rows(n, D) else ""
