"""Drawings of results, in the manner of scikit-learn's displays.

A display has what is drawn; ``from_…`` computes and draws it, ``plot(ax=…)`` draws it
again. Afterwards ``ax_`` and ``figure_`` are what it was drawn on.

matplotlib is loaded here and nowhere else, when something is drawn. A figure is one of
pyplot's where that is in use, so that notebooks and ``plt.show()`` show it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy  # its parts are loaded when they are used

from renyi.certificates.error_table import (
    ALWAYS,
    ANY_RULE,
    COUNTED,
    HALVES,
    HELDOUT,
    LEAVE_ONE_OUT,
    PROVED,
    SINGLE,
    TRAINING_ROWS,
    ErrorRow,
    ErrorTable,
    error_table,
)
from renyi.certificates.record import BoundReport, Certificate
from renyi.certificates.text import ALONE
from renyi.certification import bound_report, simple_rules
from renyi.correlation import hgr_matrix, ranking
from renyi.encoding.columns import Label, label_text, short
from renyi.formatting import at_most, percent, printable, wrapped
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard, scorecard_of
from renyi.selection import PathResult, selection_path
from renyi.validation import check_whole, import_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# By Okabe and Ito: distinct without seeing red or green, and on paper by lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
GREY = "#595959"

_WIDTH = 34  # of a name
_NARROW = 28  # of a name beside a map or below an axis
_SCORE_LINE = 0.21  # inches
_ERROR_LINE = 0.3
_WRITTEN = 14  # columns at most whose figures are written into the cells
_TREE = 0.12  # of the height, for the tree
_NAMED = 15  # features at most that are named below a path


def class_style(k: int) -> dict[str, Any]:
    """Return colour and mark of the k-th class: after seven of them they are hollow."""
    colour = COLOURS[k % len(COLOURS)]
    inside = colour if k < len(COLOURS) else "none"
    marker = MARKERS[k % len(MARKERS)]
    return {"color": colour, "marker": marker, "markerfacecolor": inside}


def axes(ax: Axes | None = None, width: float = 7, height: float = 4.5) -> Any:
    """Return the axes that were given, or those of a figure of their own."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise TypeError(
                f"ax must be matplotlib axes, not a {type(ax).__name__}. To write a "
                "file, call savefig(file) of the figure that is drawn."
            )
        return ax
    library = import_extra("matplotlib.figure", "plot", "Plots need matplotlib")
    pyplot = sys.modules.get("matplotlib.pyplot")
    figure = library.Figure if pyplot is None else pyplot.figure
    return figure(figsize=(width, height), layout="constrained").subplots()


def literal(text: object) -> str:
    r"""Return a name in one line, of which matplotlib makes no formula.

    >>> print(literal("costs $5\nor $6\ud800"))
    costs \$5 or \$6\ud800
    """
    line = printable(" ".join(str(text).split()))
    return line.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")


def _shown(label: Label, width: int) -> str:
    """Return a name as drawings have it, no longer than `width`."""
    return literal(short(label_text(label), width))


def _owner(attribute: str, estimator: object) -> Any:
    """Return what has an attribute: the estimator, or the classifier inside of it."""
    if hasattr(estimator, attribute):
        return estimator
    return getattr(estimator, "classifier_", estimator)


# ---- points


class _ScoreLine(NamedTuple):
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

    def __init__(self, frame: pd.DataFrame, *, classes: Sequence[Label]) -> None:
        self.frame = frame
        self.classes = tuple(classes)

    @classmethod
    def from_estimator(
        cls, estimator: object, *, ax: Axes | None = None, **how: Any
    ) -> Self:
        """Draw the scorecard of a fitted classifier or selector; `how` as in `plot`."""
        card = scorecard_of(_owner("scorecard_", estimator))
        return cls.from_scorecard(card, ax=ax, **how)

    @classmethod
    def from_scorecard(
        cls, card: Scorecard, *, ax: Axes | None = None, **how: Any
    ) -> Self:
        """Draw a scorecard; `how` as in `plot`."""
        card = scorecard_of(card)
        return cls(card.frame(), classes=card.classes).plot(ax, **how)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        n_features: int = 10,
        n_categories: int = 12,
        label: Label | None = None,
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
            column = self._place(label)
        lines = [*self._lines(n_features, n_categories)]
        rows = [line.row for line in lines if line.row is not None]
        if not rows:
            raise ValueError(
                "The scorecard has no feature of two categories or more: there is "
                "nothing to draw."
            )
        places = [y for y, line in enumerate(lines) if line.row is not None]
        self.ax_ = axes(ax, 7, 1.3 + _SCORE_LINE * len(lines))
        self.figure_ = self.ax_.figure
        self.bars_ = None
        self.lines_: list[Any] = []
        if column is None:
            self._draw_marks(rows, places)
        else:
            self._draw_bars(rows, places, column)
        self._name(lines)
        return self

    def _place(self, label: Label) -> int:
        """Return the place of a class among all; an unknown one is an error."""
        known = [label_text(each) for each in self.classes]
        if label_text(label) not in known:
            raise ValueError(
                f"label must be one of the classes {known!r:.200}, not {label!r:.60}."
            )
        return known.index(label_text(label))

    def _lines(self, n_features: int, n_categories: int) -> Iterator[_ScoreLine]:
        """Yield the lines from above: a name, then its categories."""
        features: Any = self.frame.groupby("feature", sort=False).indices
        for name in list(features)[:n_features]:
            rows = features[name].tolist()
            shares = self.frame["share"].iloc[rows]
            largest = set(shares.nlargest(n_categories, keep="first").index)
            few = [k for k in rows if self.frame.index[k] in largest]
            more = f"  ({len(few)} of {len(rows):,})" if len(few) < len(rows) else ""
            yield _ScoreLine(_shown(str(name), _WIDTH) + more, None)
            for k in few:
                text = str(self.frame["category"].iloc[k])
                yield _ScoreLine(_shown(text, _WIDTH), k)

    def _points(self, rows: list[int], k: int) -> list[float]:
        first = self.frame.shape[1] - len(self.classes)
        return [float(x) for x in self.frame.iloc[rows, first + k]]

    def _draw_bars(self, rows: list[int], places: list[int], k: int) -> None:
        ax = self.ax_
        points = self._points(rows, k)
        colours = [COLOURS[1] if x > 0 else COLOURS[0] for x in points]
        self.bars_ = ax.barh(places, points, 0.72, color=colours)
        name = _shown(self.classes[k], _WIDTH)
        against = "against it"
        if len(self.classes) == 2:
            against = _shown(self.classes[1 - k], _WIDTH)
        ax.set_xlabel(f"← {against}     points     {name} →")

    def _draw_marks(self, rows: list[int], places: list[int]) -> None:
        ax = self.ax_
        for k, each in enumerate(self.classes):
            name = _shown(each, _WIDTH)
            points = self._points(rows, k)
            self.lines_ += ax.plot(
                points, places, ls="", ms=5, label=name, **class_style(k)
            )
        ax.hlines(places, *ax.get_xlim(), color="0.9", lw=0.7, zorder=0)
        ax.set_xlabel("points; the class with the highest total wins")
        lines = -(-len(self.classes) // 4)
        ax.legend(
            bbox_to_anchor=(0.5, 1.0),
            ncols=-(-len(self.classes) // lines),
            loc="lower center",
            frameon=False,
            fontsize=8,
        )

    def _name(self, lines: list[_ScoreLine]) -> None:
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


# ---- errors


class _ErrorLine(NamedTuple):
    """A line of the drawing: the name of a group, or one of its rows."""

    text: str
    row: ErrorRow | None


class CertificateDisplay:
    """What is known of the error of a model.

    A dot is an error that is known or estimated. A bar ends where the error is proven
    to end; a diamond is an error that some distribution attains.

    Parameters
    ----------
    rows : sequence of ErrorRow
        The rows of an error table, from above.
    notes : sequence of str
        Why the bounds may say little about new rows; they are drawn paler then.

    Attributes
    ----------
    bars_ : list of BarContainer
        One for every row with an upper bound, in order.
    dots_ : Line2D or None
        The errors that are known or estimated.
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> display = renyi.CertificateDisplay.from_estimator(clf)
    >>> [(row.name, row.high) for row in display.rows][1]
    ('closed form', 0.121...)
    """

    def __init__(self, rows: Sequence[ErrorRow], *, notes: Sequence[str] = ()) -> None:
        self.rows = tuple(rows)
        self.notes = tuple(notes)

    @classmethod
    def from_estimator(cls, estimator: object, *, ax: Axes | None = None) -> Self:
        """Draw the certificate of a fitted classifier, or what its rule guarantees."""
        model = _owner("certificate_", estimator)
        certificate = getattr(model, "certificate_", None)
        if certificate is not None:
            return cls.from_certificate(certificate, ax=ax)
        guarantee = getattr(model, "guarantee_", None)
        if guarantee is None:
            raise TypeError(
                f"A {type(estimator).__name__} has no certificate: give a fitted "
                "RenyiClassifier, CrossFitClassifier or MinimaxClassifier."
            )
        result = getattr(model, "result_", None)
        attained = getattr(result, "worst_distribution", None) is not None
        row = ErrorRow(
            "guarantee",
            "guarantee",
            "every population with the same pairs",
            PROVED,
            low=result.lower if result is not None and attained else None,
            high=guarantee,
        )
        rows = [row]
        if model.marginals_ is not None:
            rows += [
                ErrorRow(
                    step.name, "baseline", TRAINING_ROWS, COUNTED, value=step.upper
                )
                for step in simple_rules(model.marginals_)
            ]
        note = getattr(model, "note_", "")
        return cls(rows, notes=[note] if note else []).plot(ax)

    @classmethod
    def from_certificate(
        cls, certificate: Certificate, *, ax: Axes | None = None
    ) -> Self:
        """Draw a certificate, whatever it rests on."""
        if not isinstance(certificate, Certificate):
            raise TypeError(
                f"certificate must be a Certificate, not a "
                f"{type(certificate).__name__}: `certify` makes one."
            )
        return cls._of(error_table(certificate), certificate, ax)

    @classmethod
    def from_marginals(
        cls,
        model: object,
        m: Marginals,
        *,
        level: str = "lp",
        time_limit: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Bound the worst error by marginals, and what any rule could promise.

        Parameters
        ----------
        model : RenyiClassifier or Scorecard
            Whose bounds are looked for.
        m : Marginals
            Of the training rows, or of any others.
        level : {"lp", "exact"}
            How far to go, as in `certify`.
        time_limit : float, optional
            Seconds for the programs together.
        ax : matplotlib axes, optional
            Where to draw.
        """
        report = bound_report(model, m, level=level, time_limit=time_limit)
        return cls.from_report(report, ax=ax)

    @classmethod
    def from_report(cls, report: BoundReport, *, ax: Axes | None = None) -> Self:
        """Draw the bounds of a model beside what any rule could promise."""
        c = report.certificate
        return cls._of(error_table(c, bounds=report), c, ax)

    @classmethod
    def _of(cls, table: ErrorTable, c: Certificate, ax: Axes | None) -> Self:
        notes = c.warnings if c.doubtful else ()
        return cls(table.rows, notes=notes).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        lines = [*self._lines()]
        height = 1.1 + _ERROR_LINE * len(lines) + 0.4 * bool(self.notes)
        self.ax_ = axes(ax, 7, height)
        self.figure_ = self.ax_.figure
        self.bars_: list[Any] = []
        dots = []
        for y, line in enumerate(lines):
            row = line.row
            if row is not None and row.high is not None:
                self._draw_bound(y, row)
            if row is not None and row.value is not None:
                dots.append((row.value, y))
                self._write(percent(row.value, 2), row.value, y)
        self.dots_ = None
        if dots:
            x, at = zip(*dots, strict=True)
            style: Any = {"color": COLOURS[1], "ms": 6, "clip_on": False}
            (self.dots_,) = self.ax_.plot(x, at, "o", **style)
        self._name(lines)
        self._explain()
        return self

    def _lines(self) -> Iterator[_ErrorLine]:
        """Yield the lines from above: the name of a group, then its rows."""
        groups = [_group(row, self.rows) for row in self.rows]
        for group in dict.fromkeys(groups):
            yield _ErrorLine(literal(group), None)
            for own, row in zip(groups, self.rows, strict=True):
                if own == group:
                    yield _ErrorLine(_shown(_row_name(row), _WIDTH), row)

    def _write(self, text: str, x: float, y: int) -> None:
        """Write figures beside a mark."""
        self.ax_.annotate(
            text,
            (x, y),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )

    def _draw_bound(self, y: int, row: ErrorRow) -> None:
        """Draw what an error can be at most, and from where on it is not known."""
        ax = self.ax_
        pale = 0.45 if self.notes else 1.0
        upper = row.high
        assert upper is not None
        self.bars_.append(
            ax.barh([y], [upper], 0.5, color=COLOURS[0], alpha=0.35 * pale)
        )
        ax.plot([upper, upper], [y - 0.25, y + 0.25], color=COLOURS[0], lw=2)
        if row.low is not None:
            ax.plot([row.low, upper], [y, y], color="black", lw=2)
            ax.plot([row.low], [y], "D", color="black", ms=5)
        self._write(f"≤ {at_most(upper)}", upper, y)

    def _explain(self) -> None:
        """Say what bars, diamonds and dots are."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = []
        if self.bars_:
            handles += [Patch(color=COLOURS[0], alpha=0.35, label="proven: at most")]
        if any(row.low is not None for row in self.rows):
            text = "some distribution attains it"
            handles += [Line2D([], [], color="black", marker="D", ms=5, label=text)]
        if self.dots_ is not None:
            style: Any = {"marker": "o", "color": COLOURS[1], "ls": ""}
            handles += [Line2D([], [], label="known or estimated", **style)]
        self.ax_.legend(
            handles=handles,
            ncols=3,
            fontsize=8,
            frameon=False,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
        )

    def _name(self, lines: Sequence[_ErrorLine]) -> None:
        """Name the lines and the scale."""
        ax = self.ax_
        ends = [x for r in self.rows for x in (r.value, r.high) if x is not None]
        reach = 1.2 * max([*ends, 1e-3])
        ax.set_xlim(0, reach)
        ax.set_xticks([x for x in ax.get_xticks() if 0 <= x <= 1])
        ax.set_xlim(0, reach)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
        names = [line.text if line.row else "" for line in lines]
        ax.set_yticks(range(len(lines)), names, fontsize=8)
        ax.tick_params(axis="y", length=0)
        head: Any = {"fontsize": 8, "fontweight": "bold", "va": "center"}
        head["transform"] = ax.get_yaxis_transform()
        for y, line in enumerate(lines):
            if line.row is None:
                ax.text(0.005, y, line.text, **head)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        about = "share of wrong answers"
        if self.notes:
            about += "\n" + wrapped(literal(f"{ALONE} {self.notes[0]}"))
        ax.set_xlabel(about)


def _group(row: ErrorRow, rows: Sequence[ErrorRow]) -> str:
    """Return the heading that a row stands under."""
    if row.kind == "baseline" or row.about == ANY_RULE:
        any_rule = any(each.about == ANY_RULE for each in rows)
        return "What any rule could promise" if any_rule else "For comparison"
    if row.name == LEAVE_ONE_OUT:
        return "New rows, estimated"
    guarantees = [each for each in rows if each.kind == "guarantee"]
    if row.kind == "guarantee" and row.about != guarantees[0].about:
        return "The same points, other rules"
    if row.kind != "guarantee":
        return f"The sampled population, {guarantees[0].certainty}"
    if row.name in (HALVES, HELDOUT):
        return f"{row.covers[0].upper()}{row.covers[1:]}, rule {row.about}"
    if not row.about:
        return "Worst case of this rule"
    return f"Worst case of this model, rule {row.about}"


def _row_name(row: ErrorRow) -> str:
    """Return what a row is called within its group."""
    if row.name == LEAVE_ONE_OUT:
        return f"{row.name}, rule {row.about}"
    if row.name == ALWAYS:
        return f"always {row.about!r}"
    if row.name == SINGLE:
        return f"by {row.about!r} alone"
    if row.name not in (HALVES, HELDOUT):
        return row.name
    if row.kind == "estimate":
        return "error on rows not used in training"
    return "at most" if row.kind == "bound" else f"rule {row.about}"


# ---- paths


class PathDisplay:
    """Worst error and correlation against the number of features.

    Parameters
    ----------
    path : PathResult
        What is drawn.
    selected : iterable of str, optional
        Features to mark.

    Attributes
    ----------
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> selector = renyi.RenyiSelector(n_features=3).fit(X, y)
    >>> display = renyi.PathDisplay.from_estimator(selector)
    >>> display.ax_.get_xlabel()
    'features in order of entry'
    """

    def __init__(self, path: PathResult, *, selected: Iterable[str] = ()) -> None:
        self.path = path
        self.selected = tuple(selected)

    @classmethod
    def from_estimator(cls, estimator: object, *, ax: Axes | None = None) -> Self:
        """Draw the path of a fitted `RenyiSelector`, and mark what it selected."""
        path = getattr(estimator, "path_", None)
        if not isinstance(path, PathResult):
            raise TypeError(
                f"A {type(estimator).__name__} has no path: give a fitted "
                "RenyiSelector, or a path to from_path()."
            )
        return cls(
            path, selected=_owner("features_", estimator).features_.tolist()
        ).plot(ax)

    @classmethod
    def from_path(
        cls, path: PathResult, *, selected: Iterable[str] = (), ax: Axes | None = None
    ) -> Self:
        """Draw a path that `selection_path` found."""
        if not isinstance(path, PathResult):
            raise TypeError(f"path must be a PathResult, not a {type(path).__name__}.")
        return cls(path, selected=selected).plot(ax)

    @classmethod
    def from_marginals(cls, m: Marginals, *, ax: Axes | None = None) -> Self:
        """Find the path of marginals with the settings of `selection_path`, draw it."""
        return cls(selection_path(m)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        path = self.path
        count = len(path.entries)
        many = count > _NAMED
        self.ax_ = axes(ax, 7, 4.5 if many else 5.8)  # names need room
        self.figure_ = self.ax_.figure
        k = np.arange(1, count + 1)
        if path.doubtful.any():
            shade = (k[path.doubtful][0] - 0.5, count + 0.5)
            self.ax_.axvspan(
                *shade, color="0.92", label="too many categories for the rows"
            )
        lines = (
            ("worst error, rule map", path.bounds["map"], "o-", COLOURS[0]),
            ("worst error, rule sharp", path.bounds["sharp"], "s-", COLOURS[1]),
            ("γ", path.gamma, "-", COLOURS[2]),
            ("maximal correlation, at least", path.hgr, "--", GREY),
        )
        for label, values, form, colour in lines:
            self.ax_.plot(k, values, form, ms=3, color=colour, label=label)
        chosen = [i for i, name in enumerate(path.entries, 1) if name in self.selected]
        if chosen:
            style = {"ms": 6, "clip_on": False, "label": "selected"}
            self.ax_.plot(chosen, [0] * len(chosen), "k^", **style)
        self._name(many)
        return self

    def _name(self, many: bool) -> None:
        """Name the features, if they are few, and the axes."""
        ax = self.ax_
        entries = self.path.entries
        if many:
            # Whatever ticks the axes had: those of few features have fixed places.
            from matplotlib.ticker import MaxNLocator

            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            names = [
                f"{i} {literal(short(entry, _NARROW))}"
                for i, entry in enumerate(entries, 1)
            ]
            places = range(1, len(entries) + 1)
            ax.set_xticks(places, names, rotation=30, ha="right")
        ax.set_xlabel("number of features" if many else "features in order of entry")
        ax.set_ylabel("share of rows; correlation")
        ax.set_xlim(0.5, len(entries) + 0.5)
        ax.set_ylim(0, 1.02)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)


# ---- correlations


class HGRDisplay:
    """Maximal correlation of every pair of columns, as a clustered map.

    Columns are ordered by average linkage of ``1 − rho``; the tree above shows at
    which distance groups join. An unknown pair counts as independent there.

    Parameters
    ----------
    matrix : DataFrame
        As `hgr_matrix` gives it; NaN where a pair is unknown.
    target : str, optional
        A column to write in bold.

    Attributes
    ----------
    order : list of str
        The columns in the order of the map.
    linkage : ndarray of shape (columns − 1, 4)
        The tree, as in `scipy.cluster.hierarchy`.
    im_ : AxesImage
        The map.
    tree_ : LineCollection or None
        The tree; None of a single column.
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> display = renyi.HGRDisplay.from_data(X.iloc[:, :4].assign(party=y))
    >>> sorted(display.order[2:])
    ['adoption-of-the-budget-resolution', 'party', 'physician-fee-freeze']
    """

    def __init__(self, matrix: pd.DataFrame, *, target: str | None = None) -> None:
        self.matrix = matrix
        self.target = target
        rho = matrix.to_numpy(np.float64)
        off = 1 - np.where(np.isnan(rho), 0, rho)
        hierarchy = scipy.cluster.hierarchy
        names = list(map(str, matrix.columns))
        self.linkage = np.empty((0, 4))
        self._places = np.arange(len(names))
        if len(names) > 1:
            pairs = off[np.triu_indices(len(names), 1)].clip(0, 1)
            self.linkage = hierarchy.linkage(pairs, "average", optimal_ordering=True)
            self._places = hierarchy.leaves_list(self.linkage)
        self.order = [names[k] for k in self._places]

    @classmethod
    def from_estimator(
        cls, estimator: object, *, ax: Axes | None = None, **how: Any
    ) -> Self:
        """Draw the columns that a classifier was trained on, from its marginals."""
        m = getattr(_owner("marginals_", estimator), "marginals_", None)
        if m is None:
            raise ValueError(
                f"This {type(estimator).__name__} keeps no counts of pairs: it was "
                "read from a file, or has more categories than rows. Give the rows to "
                "from_data(), or marginals to from_marginals()."
            )
        return cls.from_marginals(m, ax=ax, **how)

    @classmethod
    def from_marginals(
        cls, m: Marginals, *, n_columns: int = 60, ax: Axes | None = None
    ) -> Self:
        """Draw the columns of marginals, the target among them.

        Of more than `n_columns` features, those most correlated with the target.
        """
        check_whole("n_columns", n_columns, 1)
        best = ranking(m)  # checks m, too
        if len(best) > n_columns:
            m = m.select(map(str, best.index[:n_columns]))
        return cls(hgr_matrix(m), target=m.target).plot(ax)

    @classmethod
    def from_data(cls, data: object, *, ax: Axes | None = None) -> Self:
        """Draw the columns of a frame, all of them alike."""
        return cls(hgr_matrix(data)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        count = len(self.order)
        side = min(3.2 + 0.26 * count, 14)
        self.ax_ = axes(ax, side + 1, side)
        self.figure_ = self.ax_.figure
        rho = self.matrix.to_numpy(np.float64)[np.ix_(self._places, self._places)]
        look = {"vmin": 0, "vmax": 1, "cmap": "cividis", "aspect": "equal"}
        self.im_ = self.ax_.imshow(np.ma.masked_invalid(rho), **look)
        self.ax_.set_facecolor("0.85")  # of unknown pairs
        names = [_shown(name, _NARROW) for name in self.order]
        size = 8 if count <= 30 else 6 if count <= 60 else 4
        self.ax_.set_xticks(range(count), names, rotation=90, fontsize=size)
        self.ax_.set_yticks(range(count), names, fontsize=size)
        for axis in (self.ax_.get_xticklabels(), self.ax_.get_yticklabels()):
            for text, name in zip(axis, self.order, strict=True):
                if name == self.target:
                    text.set_fontweight("bold")
        if count <= _WRITTEN:
            for (i, j), value in np.ndenumerate(rho):
                known = not np.isnan(value)
                text = f"{value:.2f}" if known else "?"
                colour = "black" if not known or value > 0.5 else "white"
                self.ax_.text(
                    j, i, text, ha="center", va="center", fontsize=7, color=colour
                )
        self._draw_tree()
        bar = self.figure_.colorbar(self.im_, ax=self.ax_, shrink=0.7)
        bar.set_label("maximal correlation")
        return self

    def _draw_tree(self) -> None:
        """Draw above the map how the columns join."""
        self.tree_ = None
        if not len(self.linkage):
            return
        from matplotlib.collections import LineCollection

        tree = scipy.cluster.hierarchy.dendrogram(self.linkage, no_plot=True)
        # scipy has the leaves at 5, 15, 25 …
        lines = [
            np.column_stack([(np.array(x) - 5) / 10, y])
            for x, y in zip(tree["icoord"], tree["dcoord"], strict=True)
        ]
        above = self.ax_.inset_axes([0, 1.01, 1, _TREE])
        self.tree_ = LineCollection(lines, colors=GREY, linewidths=0.9)
        above.add_collection(self.tree_)
        above.set_xlim(self.ax_.get_xlim())
        above.set_ylim(0, max(1e-9, 1.03 * float(self.linkage[:, 2].max())))
        above.axis("off")
