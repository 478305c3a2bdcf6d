r"""Scorers and rules: from the scores of a row to estimates, and to a decision.

A scorecard or a kernel gives every class y a score s_y (`Scorer`), and ``t_y = 1/K +
s_y`` estimates P(y|x). For two classes s_0 = −s_1, so one score is enough. A
calibration turns scores into probabilities. It may change decisions. Then the rule map
uses the scores of the model `mapped`.

For K classes and any t, with q = ‖t‖² (K = 2 is the paper's case):

* **map**: the largest t_y.
* **renyi** (the paper's δ̃): class y with probability t_y²/q.
* **sharp**: class y with probability max(0, 2t_y − q), the mass left over to the
  largest. Less random than renyi at every x, and with the same guarantee.

Guarantees of the randomised rules are about their expected error over the draws. These
rules first project t on the probability simplex. The projection moves no estimate away
from any class indicator, so it never weakens a guarantee.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.solvers.calibration import Calibration, of_slope, softmax
from renyi.validation import check_choice

Floats = NDArray[np.float64]
Seed = int | np.random.RandomState | None
Keys = NDArray[np.uint64]
Places = NDArray[np.intp]
Model = TypeVar("Model", bound="Scorer")

RULES = ("map", "renyi", "sharp")
_LARGE = 1e6


def check_rule(rule: str) -> str:
    """Return the rule's name; raise ParameterError if it is unknown."""
    check_choice("rule", rule, RULES)
    return rule


def answers(t: Floats, codes: NDArray[Any], rule: str, random_state: Seed) -> Places:
    """Return the position of the class that a rule answers at each row."""
    if check_rule(rule) == "map":
        return decide(t)
    return draw(rule_proba(t, rule), row_keys(codes), random_state)


def project(t: Floats) -> Floats:
    """Return the nearest point of the probability simplex to each row of t."""
    K = t.shape[1]
    largest = max(t.max(initial=0), -t.min(initial=0))
    if not largest <= _LARGE:  # 1 would be lost in rounding; true for NaN, too
        _check_finite(largest)
        t = t - t.max(axis=1, keepdims=True)  # changes no projection
    descending = -np.sort(-t, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, K + 1)
    support = (descending > excess).sum(axis=1)
    shift = excess[np.arange(len(t)), support - 1]
    return np.asarray(np.maximum(t - shift[:, None], 0))


def _check_finite(t: Any) -> None:
    if not np.isfinite(t).all():
        raise ValueError("Scores are not finite: the model's points are too large.")


def logistic(t: Floats, slope: float) -> Floats:
    """Return probabilities ∝ exp(slope·t), none 0, the largest that of `decide`."""
    _check_finite(t)
    p = np.maximum(softmax(slope * t), np.finfo(np.float64).tiny)
    return _agreeing(p, decide(t))


def reweighted(p: Floats, odds: float, best: Places) -> Floats:
    """Return the probabilities of two classes after multiplying the second's odds.

    The class in `best` gets the larger probability, whatever rounding does.
    """
    q = p * [min(1.0, 1 / odds), min(1.0, odds)]
    return _agreeing(q / q.sum(axis=1, keepdims=True), best)


def _agreeing(p: Floats, best: Places) -> Floats:
    """Make the best class the most probable one, whatever rounding did."""
    rows = np.arange(len(p))
    tied = p.argmax(axis=1) != best
    p[rows[tied], best[tied]] = np.nextafter(p[tied].max(axis=1), 1)
    return p


def rule_proba(t: Floats, rule: str) -> Floats:
    """Return the probability with which a rule answers each class."""
    if check_rule(rule) == "map":
        return np.eye(t.shape[1])[decide(t)]
    t = project(t)
    q = (t**2).sum(axis=1, keepdims=True)
    if rule == "renyi":
        return np.asarray(t**2 / q)
    r = np.asarray(np.maximum(0, 2 * t - q))
    r[np.arange(len(r)), t.argmax(axis=1)] += 1 - r.sum(axis=1)
    return r


def decide(t: Floats) -> Places:
    """Return the class of the largest t; the first of equals."""
    if t.shape[1] == 2:  # three times as fast as argmax
        return (t[:, 1] > t[:, 0]).astype(np.intp)
    return np.asarray(t.argmax(axis=1))


def random_of(random_state: Seed) -> np.random.RandomState:
    """Return the generator of a seed, as scikit-learn does."""
    if isinstance(random_state, numbers.Integral):
        return np.random.RandomState(int(random_state))
    from sklearn.utils import check_random_state  # a second to load

    random: np.random.RandomState = check_random_state(random_state)
    return random


def draw(proba: Floats, keys: Keys, random_state: Seed) -> Places:
    """Draw a class for each row with the given probabilities.

    With an integer seed the draw depends only on the seed and the row's key. Equal rows
    then get equal answers, in any batch and any order. Otherwise every row is drawn
    independently of all others.
    """
    random = random_of(random_state)
    if isinstance(random_state, numbers.Integral):
        high, low = random.randint(0, 2**32, 2, dtype=np.uint64)
        seed = np.uint64((int(high) << 32) | int(low))
        u = (_mix(keys ^ seed) >> np.uint64(11)) * 2.0**-53
    else:
        u = random.random_sample(len(proba))
    return np.asarray((np.cumsum(proba[:, :-1], axis=1) <= u[:, None]).sum(axis=1))


def row_keys(codes: NDArray[Any]) -> Keys:
    """Return a 64-bit key of each row of codes (columns × rows)."""
    keys = np.zeros(codes.shape[1], np.uint64)
    for column in codes:
        keys = _mix(keys + column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return keys


def _mix(x: Keys) -> Keys:
    """Scramble 64-bit integers (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# ---- what scores rows


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

    @cached_property
    def mapped(self) -> Self:
        """The model whose largest score decides, which may be this one."""
        c = self.calibration
        if c is None or not c.moves_decisions:
            return self
        model = self._multiplied(c.slope) if c.by_class else self
        start = np.asarray(c.of(self.intercept))
        left = None if c.by_class else of_slope(float(c.slope))
        return _changed(model, intercept=start, calibration=left)

    def _multiplied(self, slope: Floats) -> Self:
        """Return the model of K classes with its points times a matrix (K × K)."""
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
    return _changed(model, intercept=model.intercept - threshold_at(model, odds))


def moved_probabilities(model: Scorer, codes: NDArray[Any], odds: float) -> Floats:
    """Return the class probabilities of codes at changed odds of the second class."""
    moved = moved_to(model, odds)
    if model.calibration is not None:
        return moved.probabilities(codes)
    best = decide(moved.estimates(codes))
    return reweighted(model.probabilities(codes), odds, best)


def _changed(model: Model, **fields: Any) -> Model:
    """Return the model with other fields: every scorer is a frozen record."""
    return replace(model, **fields)  # type: ignore[type-var]
