"""Scorers: what gives rows a score for every class, by a scorecard or by a kernel.

``t_y = 1/K + s_y`` estimates P(y|x) from the score s_y of class y. For two classes
s_0 = −s_1, so one score is enough. A calibration turns scores into probabilities. It
may change decisions. Then the rule map uses the scores of the model `mapped`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.rules import logistic, project
from renyi.solvers.calibration import Calibration

Floats = NDArray[np.float64]
Model = TypeVar("Model", bound="Scorer")


class Scorer:
    """What scores rows: how its scores become estimates and probabilities."""

    encoder: Encoder
    classes: tuple[Label, ...]
    intercept: Floats
    counts: NDArray[Any]
    target: str | None
    calibration: Calibration | None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def order(self) -> int:
        """Number of columns in a feature."""
        return self.encoder.order

    @property
    def mapped(self) -> Self:
        """The model whose largest score decides, which may be this one."""
        raise NotImplementedError

    def scores(self, codes: NDArray[Any]) -> Floats:
        """Return the scores (rows × 1 or K) of codes made by the encoder."""
        raise NotImplementedError

    def per_class(self, values: Floats) -> Floats:
        """Return one column per class; for two classes, x becomes [−x, x]."""
        return np.hstack([-values, values]) if self.n_classes == 2 else values

    def estimates(self, codes: NDArray[Any]) -> Floats:
        """Return the estimates t of class probabilities, which may leave [0, 1]."""
        return self.per_class(self.scores(codes)) + 1 / self.n_classes

    def of_rule(self, rule: str) -> Self:
        """Return the model whose estimates a rule uses."""
        return self.mapped if rule == "map" else self

    def probabilities(self, codes: NDArray[Any]) -> Floats:
        """Return the class probabilities of codes: calibrated, or the nearest to t."""
        return self.probabilities_at(self.mapped.estimates(codes))

    def probabilities_at(self, t: Floats) -> Floats:
        """Return the class probabilities for the estimates t of the rule map."""
        c = self.calibration
        return project(t) if c is None else logistic(t, c.factor(self.n_classes))


def threshold_at(model: Scorer, odds: float) -> float:
    """Return the score above which the second class is likelier at changed odds.

    The score is that of the model `mapped`; `odds` is the factor on the odds of the
    second class.
    """
    if model.calibration is None:
        return 1 / (1 + odds) - 0.5
    return -math.log(odds) / float(model.calibration.slope)


def moved_to(model: Model, odds: float) -> Model:
    """Return the model whose threshold at these odds is 0."""
    start = model.intercept - threshold_at(model, odds)
    return replace(model, intercept=start)  # type: ignore[type-var]
