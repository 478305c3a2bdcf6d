"""ScorecardDisplay: the points of every category, feature by feature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from renyi.drawing import COLOURS, GREY, axes, look
from renyi.plots import owner_of, place_of, shown
from renyi.scorecard import Scorecard, scorecard_of
from renyi.validation import check_whole

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 34  # of a name
_LINE = 0.21  # inches


class _Line(NamedTuple):
    """A line of the drawing: a feature's name, or one of its categories."""

    text: str
    row: int | None  # of the table; None for a feature's name


class ScorecardDisplay:
    """Points of the categories, the features that matter most first.

    For two classes a bar shows how far a category pushes towards the second, or if it
    goes to the left, the first. For more, every class has a mark of its own; `label`
    of `plot` asks for the bars of one class.

    Parameters
    ----------
    frame : DataFrame
        As `Scorecard.frame` gives it: feature, category, share and points by class.
    classes : sequence of labels
        The classes, in the order of the last columns.

    Attributes
    ----------
    bars_ : BarContainer or None
        One bar per category that is drawn.
    lines_ : list of Line2D
        One per class, of more than two.
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> display = renyi.ScorecardDisplay.from_estimator(clf, n_features=2)
    >>> [round(float(bar.get_width()), 3) for bar in display.bars_][:3]
    [-0.291, 0.332, -0.041]
    """

    def __init__(self, frame: pd.DataFrame, *, classes: Sequence[Any]) -> None:
        self.frame = frame
        self.classes = tuple(classes)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **how: Any) -> Self:
        """Draw the scorecard of a fitted classifier or selector; `how` as in `plot`."""
        card = scorecard_of(owner_of("scorecard_", estimator))
        return cls.from_scorecard(card, ax=ax, **how)

    @classmethod
    def from_scorecard(cls, card: Scorecard, *, ax: Any = None, **how: Any) -> Self:
        """Draw a scorecard; `how` as in `plot`."""
        card = scorecard_of(card)
        return cls(card.frame(), classes=card.classes).plot(ax, **how)

    def plot(
        self,
        ax: Any = None,
        *,
        n_features: int = 10,
        n_categories: int = 12,
        label: Any = None,
    ) -> Self:
        """Draw it on some axes, or on a figure of its own.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw.
        n_features : int, default=10
            Most features to show.
        n_categories : int, default=12
            Most categories of a feature to show: those of most rows.
        label : label, optional
            The class whose points are drawn as bars; of two, the second by default.
        """
        check_whole("n_features", n_features, 1)
        check_whole("n_categories", n_categories, 1)
        column = 1 if len(self.classes) == 2 else None  # of more, all have marks
        if label is not None:
            column = place_of(label, self.classes)
        lines = [*self._lines(n_features, n_categories)]
        rows = [line.row for line in lines if line.row is not None]
        if not rows:
            raise ValueError(
                "The scorecard has no feature of two categories or more: there is "
                "nothing to draw."
            )
        places = [y for y, line in enumerate(lines) if line.row is not None]
        self.ax_ = axes(ax, 7, 1.3 + _LINE * len(lines))
        self.figure_ = self.ax_.figure
        self.bars_ = None
        self.lines_: list[Any] = []
        if column is None:
            self._draw_marks(rows, places)
        else:
            self._draw_bars(rows, places, column)
        self._name(lines)
        return self

    def _lines(self, n_features: int, n_categories: int) -> Iterator[_Line]:
        """Yield the lines from above: a name, then its categories."""
        features: Any = self.frame.groupby("feature", sort=False).indices
        for name in list(features)[:n_features]:
            rows = features[name].tolist()
            shares = self.frame["share"].iloc[rows]
            kept = set(shares.nlargest(n_categories, keep="first").index)
            few = [k for k in rows if self.frame.index[k] in kept]
            more = f"  ({len(few)} of {len(rows):,})" if len(few) < len(rows) else ""
            yield _Line(shown(str(name), _WIDTH) + more, None)
            for k in few:
                text = str(self.frame["category"].iloc[k])
                yield _Line(shown(text, _WIDTH), k)

    def _points(self, rows: list[int], k: int) -> list[float]:
        first = self.frame.shape[1] - len(self.classes)
        return [float(x) for x in self.frame.iloc[rows, first + k]]

    def _draw_bars(self, rows: list[int], places: list[int], k: int) -> None:
        ax = self.ax_
        points = self._points(rows, k)
        colours = [COLOURS[1] if x > 0 else COLOURS[0] for x in points]
        self.bars_ = ax.barh(places, points, 0.72, color=colours)
        name = shown(self.classes[k], _WIDTH)
        against = "against it"
        if len(self.classes) == 2:
            against = shown(self.classes[1 - k], _WIDTH)
        ax.set_xlabel(f"← {against}     points     {name} →")

    def _draw_marks(self, rows: list[int], places: list[int]) -> None:
        ax = self.ax_
        for k, each in enumerate(self.classes):
            name = shown(each, _WIDTH)
            points = self._points(rows, k)
            self.lines_ += ax.plot(points, places, ls="", ms=5, label=name, **look(k))
        ax.hlines(places, *ax.get_xlim(), color="0.9", lw=0.7, zorder=0)
        ax.set_xlabel("points; the class with the highest total wins")
        lines = -(-len(self.classes) // 4)
        where = (0.5, 1.0)
        style: Any = {"loc": "lower center", "frameon": False, "fontsize": 8}
        ax.legend(bbox_to_anchor=where, ncols=-(-len(self.classes) // lines), **style)

    def _name(self, lines: list[_Line]) -> None:
        """Name the lines, and write the share of rows beside each category."""
        ax = self.ax_
        last = len(lines) - 0.4
        reach = 1.08 * max(map(abs, ax.dataLim.intervalx)) or 1.0
        ax.set_xlim(-reach, reach)
        ax.set_ylim(last, -0.6)
        ax.axvline(0, color=GREY, lw=0.8)
        ax.set_yticks(range(len(lines)), [line.text for line in lines], fontsize=8)
        ax.tick_params(axis="y", length=0)
        for text, line in zip(ax.get_yticklabels(), lines, strict=True):
            if line.row is None:
                text.set_fontweight("bold")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        beside: Any = {"transform": ax.get_yaxis_transform(), "va": "center"}
        beside |= {"fontsize": 7, "color": GREY}
        ax.text(1.01, 0, "rows", **beside)
        for y, line in enumerate(lines):
            if line.row is not None:
                share = f"{100 * float(self.frame['share'].iloc[line.row]):.0f} %"
                ax.text(1.01, y, share, **beside)
