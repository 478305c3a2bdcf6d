"""Report: everything that is shown of a model, as one record of plain values.

The page and ``report.json`` are readers of it, and compute nothing of their own. It is
built (`renyi.report.build`) from a model and from counts, never from rows; of held-out
rows it holds sums: bins, points of a curve, a table of classes.

What a row scores is ``intercept + Σ points`` over the features, at the category that
its columns give it: column j's code itself where a feature is of one column, else the
place in `keys` of the columns' codes counted as one number; `new` where it is not
there, and `unseen` where a label was never seen. With t = 1/K + score (of two classes
[1/2 − s, 1/2 + s]), probabilities are ∝ exp(slope·t), or nearest to t without a slope.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from renyi.files import encoded, replace_together, to_bytes
from renyi.formatting import (
    at_least,
    at_most,
    number_of,
    number_of_rows,
    percent,
    point_digits,
)
from renyi.report.charts import Kind

if TYPE_CHECKING:
    import os

FORMAT = "renyi-report"
VERSION = 1
ENDINGS = (".html", ".htm")
THESE_ROWS_ONLY = ", for these rows only"
_IMPORTANT = 20  # features that are shown as such

Texts = tuple[str, ...]
Numbers = tuple[float, ...]


def page_place(model: Path) -> Path:
    """Return where the page of a model goes that has no other place: beside it.

    >>> page_place(Path("votes.json")).name, page_place(Path("report.json")).name
    ('votes.report.html', 'report.report.html')
    """
    return model.with_suffix(".report.html")


def record_place(page: Path) -> Path:
    """Return where the record of a page goes: never where its model may be.

    >>> str(record_place(Path("report.html"))), str(record_place(Path("votes.html")))
    ('report.json', 'votes.report.json')
    """
    ours = page.stem.endswith("report")
    return page.with_suffix(".json" if ours else ".report.json")


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
    these_rows_only: bool = False  # says nothing about other rows

    @property
    def shown(self) -> str:
        """The numbers as text; bounds are rounded outwards."""
        if self.value is not None:
            return percent(self.value)
        assert self.high is not None
        upper = at_most(self.high, 1)
        if self.low is None:
            return f"at most {upper}"
        return f"{at_least(self.low, 1)} to {upper}"


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

    @property
    def size(self) -> str | None:
        """How many rows or samples there were, or how much rows weighed."""
        if self.rows is None:
            return None
        if self.unit == "row":
            return number_of_rows(self.rows)
        return number_of(self.rows, self.unit)


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


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that is shown of a model; `RenyiClassifier.report` makes one.

    In a notebook it shows itself; `save` writes it as a page of one file.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> report = renyi.RenyiClassifier().fit(X, y).report()
    >>> report.tiles[0].value, report.features[0].name
    ('4.6 %', 'physician-fee-freeze')
    """

    title: str
    verdict: str
    warnings: Texts
    tiles: tuple[Tile, ...]
    target: str | None
    classes: Texts
    rule: str
    data: Data
    certificate: dict[str, Any] | None
    ladder: tuple[Rung, ...]
    columns: tuple[Column, ...]
    features: tuple[Feature, ...]  # the most important first
    left_out: int  # features that are only in the model file
    scale: Scale
    made: dict[str, str]
    ranking: Texts = ()  # what holds at any prevalence
    card: Card | None = None
    path: tuple[PathStep, ...] = ()
    heldout: Heldout | None = None
    worst: Worst | None = None
    few: ClassVar[int] = 5  # rows; a figure of fewer may tell of a person

    def most_important(self) -> list[tuple[Feature, str]]:
        """Return the first features, and their importance as text."""
        some = self.features[:_IMPORTANT]
        digits = point_digits(max((f.importance for f in some), default=0.0))
        return [(f, f"{f.importance:.{digits}f}") for f in some]

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    def to_html(self) -> str:
        """Return the page."""
        from renyi.report.sections import report_page

        return report_page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, and the same as JSON beside it (`record_place`)."""
        place = Path(path)
        if place.suffix not in ENDINGS:
            raise ValueError(f"{place} must end in .html: a report is a page.")
        _write(place, self.to_html(), record_place(place), self.to_dict())

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for a notebook."""
        inside = escape(encoded(self.to_html()).decode(), quote=True)
        return (
            f'<iframe title="{escape(self.title, quote=True)}" srcdoc="{inside}" '
            'width="100%" height="720" style="border:0" '
            'sandbox="allow-scripts"></iframe>'
        )


def _write(page: Path, text: str, beside: Path, plain: dict[str, Any]) -> None:
    """Write a text, and plain values beside it, both or none."""
    whole = encoded(text)
    data = to_bytes(plain, indent=1) + b"\n"
    replace_together(
        {
            page: lambda stream: stream.write(whole),
            beside: lambda stream: stream.write(data),
        }
    )
