"""The parameters of a fit, checked before it starts."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import Label
from renyi.encoding.tuples import Interactions, check_interactions
from renyi.marginals.marginals import Marginals
from renyi.solvers import calibration as maps
from renyi.solvers import ridge
from renyi.solvers.ridge import LeftOut
from renyi.validation import InputError, check_choice, check_whole

Floats = NDArray[np.float64]
ClassWeight: TypeAlias = Mapping[Label, float] | str | None
Seed: TypeAlias = int | np.random.RandomState | None
WEIGHING = "Weighing the classes"

AUTO = "auto"
OBJECTIVES = ("error", "ranking", "logistic")


@dataclass(frozen=True)
class Settings:
    """The parameters of a fit; see `RenyiClassifier` for their meaning.

    With `class_conditional`, pairs within each class are counted and certified, even if
    no other setting needs them.
    """

    order: int | str = 1
    interactions: int | str | Interactions | None = None
    alpha: float | str = "auto"
    rule: str = "map"
    fit_intercept: bool = True
    class_weight: ClassWeight = None
    random_state: Seed = None
    calibration: str | None = "auto"
    objective: str = "error"
    class_conditional: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_choice("rule", self.rule, rules.RULES)
        if self.order != AUTO:
            check_whole("order", self.order, 1)
        if self.interactions is not None:
            check_interactions(self.interactions, self.order)
        ridge.check_alpha(self.alpha)
        check_choice("objective", self.objective, OBJECTIVES)
        plain = self.class_weight is None and self.fit_intercept
        if self.objective == "ranking" and not plain:
            name = "fit_intercept" if self.class_weight is None else "class_weight"
            raise InputError(
                f"{{objective}} cannot be used with {{{name}}}: a ranking depends "
                "neither on the classes' shares nor on an intercept.",
                objective="ranking",
                **{name: getattr(self, name)},
            )
        check_choice("calibration", self.calibration, maps.CALIBRATIONS)
        if self.objective == "logistic":
            self._check_logistic()
        seed = self.random_state
        if isinstance(seed, numbers.Integral) and not 0 <= int(seed) < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}.")

    def _check_logistic(self) -> None:
        """Raise InputError if a parameter does not suit log-odds."""
        if self.rule != "map":
            raise InputError(
                "{objective} gives log-odds, but {rule} needs scores that estimate "
                "probabilities: use rule 'map', or objective 'error'.",
                objective="logistic",
                rule=self.rule,
            )
        if self.calibration != "auto":
            raise InputError(
                "{objective} gives probabilities as it is: leave {calibration} out.",
                objective="logistic",
                calibration=self.calibration or "none",
            )
        if self.alpha == 0:
            raise InputError(
                "{objective} has no solution with {alpha} where points separate the "
                "classes: use 'auto', or a positive number.",
                objective="logistic",
                alpha=self.alpha,
            )

    @property
    def chooses_order(self) -> bool:
        """Whether the number of columns in a feature is to be chosen by rows."""
        return self.order == AUTO

    @property
    def tuple_order(self) -> int:
        """The number of columns in a feature; 1 if it is still to be chosen."""
        return self.order if isinstance(self.order, (int, np.integer)) else 1

    @property
    def chooses_pairs(self) -> bool:
        """Whether pairs of columns are to be chosen, which takes rows."""
        return self.interactions is not None and self.pairs is None

    @property
    def pairs(self) -> Interactions | None:
        """The pairs of columns that are given."""
        wanted = self.interactions
        if wanted is None or isinstance(wanted, (str, int, numbers.Integral)):
            return None
        return wanted

    def of_counts(self, m: Marginals) -> Settings:
        """Return the settings for the features that marginals have."""
        if m.interactions is not None:
            return replace(self, order=1, interactions=m.interactions)
        return replace(self, order=m.order, interactions=None)

    @property
    def class_pairs_reason(self) -> str | None:
        """Name what needs the pairs within each class; None if nothing does."""
        if self.objective == "ranking":
            return "The objective 'ranking'"
        if self.class_weight is not None:
            return WEIGHING
        return "Counting by class" if self.class_conditional else None

    @property
    def weighting(self) -> ClassWeight:
        """Weights of the classes in the fit; equal ones give the best ranking."""
        return "balanced" if self.objective == "ranking" else self.class_weight

    def class_factors(self, classes: NDArray[Any], counts: Floats) -> Floats:
        """Return the weight of each class, given the rows of each."""
        return column_rules.class_factors(self.weighting, classes, counts)

    def calibration_for(self, K: int, rows: LeftOut | None) -> str | None:
        """Return the calibration that "auto" stands for, or the one requested."""
        kind = self.calibration
        if self.objective == "logistic":
            return None  # the scores are log-odds
        if kind != "auto":
            return kind
        if K == 2:
            return "auto"  # not from pairs alone, which would be overconfident
        few = rows is None or rows.weights.sum() < maps.ROWS_PER_COEFFICIENT * K * K
        return "discriminant" if few else "affine"


def check_calibration(settings: Settings, K: int, has_rows: bool) -> None:
    """Raise an error if objective or calibration need other classes, or rows."""
    kind = settings.calibration
    if settings.objective == "ranking" and K > 2:
        raise InputError(
            f"{{objective}} is for two classes, but there are {K}: use 'error', or "
            "one class against the rest.",
            objective="ranking",
        )
    if K == 2 and kind in ("affine", "discriminant"):
        raise InputError(
            "{calibration} is for three classes or more, but there are two: use "
            "'sigmoid', or 'temperature', which changes no decision.",
            calibration=kind,
        )
    if K > 2 and kind == "sigmoid":
        raise InputError(
            f"{{calibration}} is for two classes, but there are {K}: use 'affine', or "
            "'temperature', which changes no decision.",
            calibration=kind,
        )
    if not has_rows and kind in ("temperature", "sigmoid", "affine"):
        raise InputError(
            "{calibration} needs the rows, but only marginals are given: use 'auto', "
            "or for three classes or more 'discriminant'.",
            calibration=kind,
        )
