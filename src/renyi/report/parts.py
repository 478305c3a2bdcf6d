"""The parts of a report's record: tiles, bounds, features and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from renyi.figures import at_least, at_most, percent, point_digits

Texts = tuple[str, ...]
Numbers = tuple[float, ...]

FEW = 5  # rows; a figure of fewer may tell of a person


Kind = Literal["estimate", "bound", "interval", "reference"]
_IMPORTANT = 20  # features that are shown as such


@dataclass(frozen=True)
class Tile:
    """A figure that the page begins with."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class Rung:
    """A number about errors: an estimate, a bound, an interval, or a comparison."""

    name: str
    kind: Kind
    value: float | None = None
    low: float | None = None
    high: float | None = None
    meaning: str = ""
    stopped: bool = False  # before it had said all it could

    @property
    def shown(self) -> str:
        """The numbers as text; bounds are rounded outwards."""
        if self.value is not None:
            return percent(self.value)
        assert self.high is not None
        upper = at_most(self.high)
        if self.low is None:
            return f"at most {upper}"
        return f"{at_least(self.low)} to {upper}"


@dataclass(frozen=True)
class Column:
    """A column of the table: what can be chosen of it."""

    name: str
    kind: Literal["label", "number", "variant"]
    categories: Texts
    counts: Numbers | None  # rows of each
    other: str | None  # what a label that was never seen is called; None if refused
    start: int  # the most frequent category


@dataclass(frozen=True)
class Feature:
    """What has points: a column, or a tuple of them."""

    name: str
    members: tuple[int, ...]  # places of its columns
    importance: float
    categories: Texts
    counts: Numbers | None
    points: tuple[Numbers, ...]  # of each category, of the second class or of all
    unseen: Numbers
    keys: tuple[int | None, ...] | None = None  # of tuples; None that of `new`
    new: int | None = None
    rule_points: tuple[Numbers, ...] | None = None  # where the rule goes by others
    rule_unseen: Numbers | None = None


def most_important(features: Sequence[Feature]) -> list[tuple[Feature, str]]:
    """Return the first features, and their importance as text."""
    some = features[:_IMPORTANT]
    digits = point_digits(max((f.importance for f in some), default=0.0))
    return [(f, f"{f.importance:.{digits}f}") for f in some]


@dataclass(frozen=True)
class Scale:
    """How points become an answer and probabilities."""

    intercept: Numbers
    slope: float | None
    calibration: str | None
    rule_intercept: Numbers | None = None
    covariates: dict[str, float] = field(default_factory=dict)  # points per unit


@dataclass(frozen=True)
class Data:
    """What the model was trained on, as counts tell it."""

    rows: float | None
    unit: str
    weighted: bool
    columns: int
    features: int
    categories: int
    order: int
    shares: dict[str, float] | None  # of the classes
    source: Texts = ()
    uncertainty: dict[str, Any] | None = None  # of noisy or uncertain counts
    certified: float | None = None  # rows of other marginals that it was certified on


@dataclass(frozen=True)
class Card:
    """Whole points to add up by hand; texts as they are written elsewhere."""

    sentences: Texts
    points: tuple[Texts, ...]
    totals: tuple[Texts, ...]  # the head first


@dataclass(frozen=True)
class PathStep:
    """A feature that enters the selection path, and what those up to it promise."""

    feature: str
    gamma: float | None
    bound: float | None  # worst error of the rule map
    hgr: float | None


@dataclass(frozen=True)
class Bin:
    """Held-out rows of similar probability, and how many were of the class."""

    rows: int
    probability: float
    share: float


@dataclass(frozen=True)
class Heldout:
    """What held-out rows show, as sums over them."""

    rows: int
    certificate: dict[str, Any]
    confusion: tuple[tuple[int, ...], ...]  # a row per true class
    bins: tuple[Bin, ...]
    log_loss: float
    auc: Numbers | None  # and its interval; of two classes
    roc: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Worst:
    """A distribution with the same pairs under which every rule errs much."""

    error: float
    outcomes: int
    head: Texts
    rows: tuple[Texts, ...]
