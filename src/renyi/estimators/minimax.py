"""MinimaxClassifier: the rule with the smallest provable worst error, as an estimator.

Trained on marginals, it minimises the worst error itself, over all distributions with
those marginals, where `RenyiClassifier` minimises a quadratic bound on it. The
marginals of a sample are not those of the population; with `margin` = η the rule is
trained, and its guarantee holds, for all marginals that are within η standard errors of
the sample's, which adds ``Σ η |coefficient|`` to what is minimised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from renyi.certificates.text import few_rows
from renyi.encoding.encoder import Encoder
from renyi.estimators.classifier import CountsClassifier
from renyi.marginals.consistency import n_indicators
from renyi.marginals.marginals import Marginals
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.minimax_problem import MinimaxResult, MinimaxRule, minimax
from renyi.robust.pairwise_program import solve_local
from renyi.validation import check_amount, check_time_limit

Floats = NDArray[np.float64]


class RuleClassifier(CountsClassifier):
    """Base of the classifiers that answer by a `MinimaxRule`."""

    rule_: MinimaxRule

    @property
    def guarantee_(self) -> float:
        """Proven worst error of `rule_proba`; that of `predict` is at most twice it."""
        check_is_fitted(self)
        return self.rule_.guarantee

    def rule_proba(self, X: Any) -> Floats:
        """Probability with which the rule answers each class at each row."""
        codes = self._codes(X)  # first: it tells whether there is a rule
        return self.rule_.of_codes(codes)

    def predict_proba(self, X: Any) -> Floats:
        """Return `rule_proba`: how the rule answers, not how likely each class is."""
        return self.rule_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable answer of the rule at each row; nothing is drawn."""
        codes = self._codes(X)
        best = self.rule_.functions(codes).argmin(axis=1)
        return np.asarray(self.classes_[best])


class MinimaxClassifier(RuleClassifier):
    """Classifier with the smallest worst error that the marginals allow to prove.

    Parameters
    ----------
    method : {"lp", "exact", "auto"}, default="lp"
        How the minimax problem is solved; see `minimax`. "lp" scales to hundreds of
        categories.
    margin : float, default=0.0
        Standard errors by which every marginal probability may be off. Regularises,
        and widens the guarantee to all those marginals; with method="lp" only.
    class_conditional : bool, default=False
        Use the pairs of features within each class: a stronger guarantee, from more
        counts.
    encoder : Encoder, optional
        How cells become categories.
    time_limit : float, optional
        Seconds for the solver.
    random_state : int or None, default=None
        Seed of the search for cuts of method="exact".

    Attributes
    ----------
    guarantee_ : float
        Proven worst error of `rule_proba` over all distributions with the marginals
        (and, with `margin`, all marginals near them). That of `predict` is at most
        twice as large. It is about the marginals of the training rows, see `note_`;
        and marginals that are not of rows may be those of no distribution, of which
        any error is true: method="lp" may not notice, "exact" does.
    note_ : str
        Why the guarantee says little about the population, where the rows are few: with
        more categories than rows it tends to 0, and the error on new rows does not.
        Empty if the rows are many.
    rule_ : MinimaxRule
        The rule.
    result_ : MinimaxResult or None
        The interval around the minimax error; None with a margin.
    classes_, encoder_, marginals_, n_features_in_, feature_names_in_
        As in every classifier trained from counts.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = MinimaxClassifier().fit(X, y)
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
        # The polynomial program, with room for noise; an empty cell as if of one row.
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
        """Why the guarantee says little about the population, where rows are few."""
        check_is_fitted(self)
        assert self.marginals_ is not None
        return few_rows(self.marginals_.n, n_indicators(self.marginals_))
