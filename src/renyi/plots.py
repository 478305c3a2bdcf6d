"""Plots of results, as displays in the style of scikit-learn.

A display stores the data of a plot. ``from_…`` computes the data and plots them,
``plot(ax=…)`` plots them again. Afterwards ``ax_`` and ``figure_`` are set.

Only this module loads matplotlib, and only when it plots. If pyplot is loaded, it makes
the figure, so that notebooks and ``plt.show()`` display it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.certificates.error_table import (
    ALWAYS,
    HALVES,
    HELDOUT,
    LEAVE_ONE_OUT,
    SINGLE,
    ErrorRow,
    error_table,
)
from renyi.certificates.record import Certificate
from renyi.certificates.text import ALONE
from renyi.correlation import hgr_matrix, ranking
from renyi.encoding.columns import Label, label_text, short
from renyi.formatting import at_most, percent, printable, wrapped
from renyi.marginals.marginals import Marginals
from renyi.scorecard import scorecard_of
from renyi.selection import PathResult
from renyi.validation import check_whole, import_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# By Okabe and Ito: distinct for colour-blind readers, and in grey print by lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
GREY = "#595959"

_WIDTH = 34  # characters of a name
_NARROW = 28  # characters of a name next to a map or below an axis
_SCORE_LINE = 0.21  # inches
_ERROR_LINE = 0.3
_WRITTEN = 14  # most columns for which the cells of a map show figures
_NAMED = 15  # most features that are named below a path


class _Line(NamedTuple):
    """A line of a plot: a heading, or a name with its row of the table."""

    text: str
    row: Any = None  # None for a heading


def axes(ax: Axes | None = None, width: float = 7, height: float = 4.5) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise TypeError(
                f"ax must be matplotlib axes, not a {type(ax).__name__}. To write a "
                "file, call savefig(file) of the display's figure_."
            )
        return ax
    library = import_extra("matplotlib.figure", "plot", "Plots need matplotlib")
    pyplot = sys.modules.get("matplotlib.pyplot")
    figure = library.Figure if pyplot is None else pyplot.figure
    return figure(figsize=(width, height), layout="constrained").subplots()


def literal(text: object) -> str:
    r"""Return a name in one line, with escapes so that matplotlib sees no formula.

    >>> print(literal("costs $5\nor $6\ud800"))
    costs \$5 or \$6\ud800
    """
    line = printable(" ".join(str(text).split()))
    return line.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")


def _shown(label: Label, width: int) -> str:
    """Return a name for a plot, of at most `width` characters."""
    return literal(short(label_text(label), width))


def _owner(attribute: str, estimator: object) -> Any:
    """Return the estimator if it has the attribute, otherwise its `classifier_`."""
    if hasattr(estimator, attribute):
        return estimator
    return getattr(estimator, "classifier_", estimator)


class _Display:
    """Base class for displays: the axes, line names and the legend."""

    def _begin(self, ax: Axes | None, width: float, height: float) -> Any:
        self.ax_ = axes(ax, width, height)
        self.figure_ = self.ax_.figure
        return self.ax_

    def _name_lines(self, lines: Sequence[_Line]) -> None:
        """Write the names of the lines, from the top, without a frame."""
        ax = self.ax_
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.set_yticks(range(len(lines)), [line.text for line in lines], fontsize=8)
        ax.tick_params(axis="y", length=0)
        for text, line in zip(ax.get_yticklabels(), lines, strict=True):
            if line.row is None:
                text.set_fontweight("bold")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)

    def _explain(self, columns: int) -> None:
        """Add a legend above the plot, each mark once."""
        marks, labels = self.ax_.get_legend_handles_labels()
        unique = dict(zip(labels, marks, strict=True))
        self.ax_.legend(
            unique.values(),
            unique.keys(),
            ncols=columns,
            fontsize=8,
            frameon=False,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
        )


# ---- points


class ScorecardDisplay(_Display):
    """Plot the points of a scorecard, the most important features first.

    For two classes each category has a bar: to the right for the second class, to the
    left for the first. For more classes it has a mark for each class. Create the
    display with `from_estimator`.

    Parameters
    ----------
    frame : DataFrame
        The result of `Scorecard.frame`: feature, category, share and points by class.
    classes : sequence of labels
        The classes, in the order of the last columns.

    Attributes
    ----------
    bars_ : BarContainer or None
        For two classes, one bar per category.
    lines_ : list of Line2D
        For more, one per class.
    ax_, figure_
        The axes and the figure of the plot.

    See Also
    --------
    Scorecard : The points as a table.

    Notes
    -----
    Guide: :doc:`/plots`.

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
        cls,
        estimator: object,
        *,
        ax: Axes | None = None,
        n_features: int = 10,
        n_categories: int = 12,
    ) -> Self:
        """Plot the points of a scorecard, or of a fitted classifier or selector.

        The parameters are those of `plot`.
        """
        card = scorecard_of(_owner("scorecard_", estimator))
        display = cls(card.frame(), classes=card.classes)
        return display.plot(ax, n_features=n_features, n_categories=n_categories)

    def plot(
        self, ax: Axes | None = None, *, n_features: int = 10, n_categories: int = 12
    ) -> Self:
        """Plot the points on the given axes, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use.
        n_features : int, default=10
            Most features to show.
        n_categories : int, default=12
            Most categories of a feature to show: the most frequent ones.
        """
        check_whole("n_features", n_features, 1)
        check_whole("n_categories", n_categories, 1)
        lines = [*self._lines(n_features, n_categories)]
        if not lines:
            raise ValueError(
                "The scorecard has no feature of two categories or more: there is "
                "nothing to plot."
            )
        ax = self._begin(ax, 7, 1.3 + _SCORE_LINE * len(lines))
        places = [y for y, line in enumerate(lines) if line.row is not None]
        points = self.frame.iloc[[lines[y].row for y in places], -len(self.classes) :]
        self.bars_ = None
        self.lines_: list[Any] = []
        if len(self.classes) == 2:
            self._draw_bars(points.iloc[:, 1].to_numpy(np.float64), places)
        else:
            self._draw_marks(points, places)
        reach = 1.08 * max(map(abs, ax.dataLim.intervalx)) or 1.0
        ax.set_xlim(-reach, reach)
        ax.axvline(0, color=GREY, lw=0.8)
        self._name_lines(lines)
        self._write_shares(lines)
        return self

    def _lines(self, n_features: int, n_categories: int) -> Iterator[_Line]:
        """Yield the lines from the top: a feature, then its categories."""
        features: Any = self.frame.groupby("feature", sort=False).indices
        for name in list(features)[:n_features]:
            rows = features[name].tolist()
            shares = self.frame["share"].iloc[rows]
            largest = set(shares.nlargest(n_categories, keep="first").index)
            few = [k for k in rows if self.frame.index[k] in largest]
            more = f"  ({len(few)} of {len(rows):,})" if len(few) < len(rows) else ""
            yield _Line(_shown(str(name), _WIDTH) + more)
            for k in few:
                text = str(self.frame["category"].iloc[k])
                yield _Line(_shown(text, _WIDTH), k)

    def _draw_bars(self, points: NDArray[np.float64], places: list[int]) -> None:
        colours = [COLOURS[1] if x > 0 else COLOURS[0] for x in points]
        self.bars_ = self.ax_.barh(places, points, 0.72, color=colours)
        first, second = (_shown(label, _WIDTH) for label in self.classes)
        self.ax_.set_xlabel(f"← {first}     points     {second} →")

    def _draw_marks(self, points: pd.DataFrame, places: list[int]) -> None:
        ax = self.ax_
        for k, label in enumerate(self.classes):
            style: dict[str, Any] = {
                "color": COLOURS[k % len(COLOURS)],
                "marker": MARKERS[k % len(MARKERS)],
                "label": _shown(label, _WIDTH),
            }
            if k >= len(COLOURS):  # colours repeat, so these marks are hollow
                style["markerfacecolor"] = "none"
            self.lines_ += ax.plot(points.iloc[:, k], places, ls="", ms=5, **style)
        ax.hlines(places, *ax.get_xlim(), color="0.9", lw=0.7, zorder=0)
        ax.set_xlabel("points; the class with the highest total wins")
        self._explain(4)

    def _write_shares(self, lines: Sequence[_Line]) -> None:
        """Write the share of rows next to each category."""
        ax = self.ax_
        style: dict[str, Any] = {"va": "center", "fontsize": 7, "color": GREY}
        style["transform"] = ax.get_yaxis_transform()
        ax.text(1.01, 0, "rows", **style)
        for y, line in enumerate(lines):
            if line.row is not None:
                share = float(self.frame["share"].iloc[line.row])
                ax.text(1.01, y, percent(share, 0), **style)


# ---- errors


class CertificateDisplay(_Display):
    """Plot all error figures of a model on one axis.

    A dot is an estimate or a baseline. The right end of a bar is a bound or a
    guarantee. A diamond is an error rate that some population attains. Create it with
    `from_estimator` or `from_certificate`.

    Parameters
    ----------
    rows : sequence of ErrorRow
        The rows of an error table, from the top.
    notes : sequence of str
        Reasons why the bounds may say little about new rows. With notes, the bars are
        paler.

    Attributes
    ----------
    bars_ : list of BarContainer
        One for every row with an upper bound, in order.
    dots_ : Line2D or None
        The errors that are known or estimated.
    ax_, figure_
        The axes and the figure of the plot.

    See Also
    --------
    Certificate : The same figures as numbers and text.

    Notes
    -----
    Guide: :doc:`/which-number`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> display = renyi.CertificateDisplay.from_estimator(clf)
    >>> row = display.rows[1]
    >>> row.name, round(row.high, 3)
    ('closed form', 0.122)
    """

    def __init__(self, rows: Sequence[ErrorRow], *, notes: Sequence[str] = ()) -> None:
        self.rows = tuple(rows)
        self.notes = tuple(notes)

    @classmethod
    def from_estimator(cls, estimator: object, *, ax: Axes | None = None) -> Self:
        """Plot the certificate of a fitted classifier."""
        model = _owner("certificate_", estimator)
        certificate = getattr(model, "certificate_", None)
        if certificate is None:
            raise TypeError(
                f"A {type(estimator).__name__} has no certificate: give a fitted "
                "RenyiClassifier or CrossFitClassifier."
            )
        return cls.from_certificate(certificate, ax=ax)

    @classmethod
    def from_certificate(
        cls, certificate: Certificate, *, ax: Axes | None = None
    ) -> Self:
        """Plot a certificate of any kind."""
        if not isinstance(certificate, Certificate):
            raise TypeError(
                f"certificate must be a Certificate, not a "
                f"{type(certificate).__name__}: `certify` makes one."
            )
        notes = certificate.warnings if certificate.doubtful else ()
        return cls(error_table(certificate).rows, notes=notes).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot the figures on the given axes, or on a new figure."""
        lines = [*self._lines()]
        height = 1.1 + _ERROR_LINE * len(lines) + 0.4 * bool(self.notes)
        ax = self._begin(ax, 7, height)
        self.bars_: list[Any] = []
        dots = []
        for y, line in enumerate(lines):
            row = line.row
            if row is not None and row.value is None:
                self._draw_bound(y, row)
            if row is not None and row.value is not None:
                if row.low is not None:
                    ends = [row.low, row.high]
                    ax.plot(ends, [y, y], color=COLOURS[1], lw=1, label="95 % interval")
                dots.append((row.value, y))
                self._write(percent(row.value, 2), row.value, y)
        self.dots_ = None
        if dots:
            x, at = zip(*dots, strict=True)
            style: Any = {"color": COLOURS[1], "ms": 6, "clip_on": False}
            style["label"] = "known or estimated"
            (self.dots_,) = ax.plot(x, at, "o", **style)
        self._draw_scale()
        self._name_lines([line if line.row else _Line("") for line in lines])
        self._write_headings(lines)
        self._explain(3)
        return self

    def _lines(self) -> Iterator[_Line]:
        """Yield the lines from the top: the name of a group, then its rows."""
        groups = [_group(row, self.rows) for row in self.rows]
        for group in dict.fromkeys(groups):
            yield _Line(literal(group))
            for own, row in zip(groups, self.rows, strict=True):
                if own == group:
                    yield _Line(_shown(_row_name(row), _WIDTH), row)

    def _write(self, text: str, x: float, y: int) -> None:
        """Write a figure next to a mark."""
        place: Any = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        self.ax_.annotate(text, (x, y), fontsize=8, **place)

    def _draw_bound(self, y: int, row: ErrorRow) -> None:
        """Plot a bar up to the upper bound, and the interval from the lower bound."""
        ax = self.ax_
        alpha = 0.16 if self.notes else 0.35
        upper = row.high
        assert upper is not None
        style = {"color": COLOURS[0], "alpha": alpha, "label": "at most"}
        self.bars_.append(ax.barh([y], [upper], 0.5, **style))
        ax.plot([upper, upper], [y - 0.25, y + 0.25], color=COLOURS[0], lw=2)
        if row.low is not None:
            text = "some population attains it"
            ax.plot([row.low, upper], [y, y], color="black", lw=2)
            ax.plot([row.low], [y], "D", color="black", ms=5, label=text)
        self._write(f"≤ {at_most(upper)}", upper, y)

    def _draw_scale(self) -> None:
        """Set up a scale of percentages without a tick above 100."""
        ax = self.ax_
        values = [row.value for row in self.rows if row.value is not None]
        bounds = [row.high for row in self.rows if row.high is not None]
        reach = 1.2 * max([*values, *bounds, 1e-3])
        ax.set_xlim(0, reach)
        ax.set_xticks([x for x in ax.get_xticks() if 0 <= x <= 1])
        ax.set_xlim(0, reach)
        ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
        label = "error rate"
        if self.notes:
            label += "\n" + wrapped(literal(f"{ALONE} {self.notes[0]}"))
        ax.set_xlabel(label)

    def _write_headings(self, lines: Sequence[_Line]) -> None:
        """Write the names of groups inside the axes, because they are long."""
        style: Any = {"fontsize": 8, "fontweight": "bold", "va": "center"}
        style["transform"] = self.ax_.get_yaxis_transform()
        for y, line in enumerate(lines):
            if line.row is None:
                self.ax_.text(0.005, y, line.text, **style)


def _group(row: ErrorRow, rows: Sequence[ErrorRow]) -> str:
    """Return the heading above a row."""
    if row.kind == "baseline":
        return "Baselines"
    if row.name == LEAVE_ONE_OUT:
        return "Error to expect"
    guarantees = [each for each in rows if each.kind == "guarantee"]
    if row.kind == "guarantee" and row.about != guarantees[0].about:
        return "The same points, other rules"
    if row.kind != "guarantee":
        return f"This population, {guarantees[0].certainty}"
    if row.name in (HALVES, HELDOUT):
        return f"{row.covers[0].upper()}{row.covers[1:]}, rule {row.about}"
    return f"Guarantee of this model, rule {row.about}"


def _row_name(row: ErrorRow) -> str:
    """Return the name of a row within its group."""
    if row.name == LEAVE_ONE_OUT:
        return f"{row.name}, rule {row.about}"
    if row.name == ALWAYS:
        return f"always answering {row.about!r}"
    if row.name == SINGLE:
        return f"{row.about!r} alone"
    if row.name not in (HALVES, HELDOUT):
        return row.name
    if row.kind == "estimate":
        return "error on rows not used in training"
    return "at most" if row.kind == "bound" else f"rule {row.about}"


# ---- paths


class PathDisplay(_Display):
    """Plot guarantee and correlation against the number of features.

    Use it to choose how many features a scorecard needs: the curves flatten where more
    features add little. Create it with `from_estimator` or `from_path`.

    Parameters
    ----------
    path : PathResult
        The path to plot.
    selected : iterable of str, optional
        Features to mark.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the plot.

    See Also
    --------
    RenyiSelector : Select features, and train on them.
    selection_path : Compute the path.

    Notes
    -----
    Guide: :doc:`/selection`.

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
        """Plot the path of a fitted `RenyiSelector`, and mark the selected features."""
        path = getattr(estimator, "path_", None)
        if not isinstance(path, PathResult):
            raise TypeError(
                f"A {type(estimator).__name__} has no path: give a fitted "
                "RenyiSelector, or a path to from_path()."
            )
        selected = _owner("features_", estimator).features_.tolist()
        return cls(path, selected=selected).plot(ax)

    @classmethod
    def from_path(
        cls, path: PathResult, *, selected: Iterable[str] = (), ax: Axes | None = None
    ) -> Self:
        """Plot the result of `selection_path`."""
        return cls(path, selected=selected).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot the path on the given axes, or on a new figure."""
        path = self.path
        count = len(path.entries)
        ax = self._begin(ax, 7, 4.5 if count > _NAMED else 5.8)  # names need room
        k = np.arange(1, count + 1)
        if path.doubtful.any():
            start = k[path.doubtful][0] - 0.5
            label = "too many categories for the rows"
            ax.axvspan(start, count + 0.5, color="0.92", label=label)
        lines = (
            ("guarantee, rule map", path.bounds["map"], "o-", COLOURS[0]),
            ("guarantee, rule sharp", path.bounds["sharp"], "s-", COLOURS[1]),
            ("γ", path.gamma, "-", COLOURS[2]),
            ("maximal correlation, at least", path.hgr, "--", GREY),
        )
        for label, values, form, colour in lines:
            ax.plot(k, values, form, ms=3, color=colour, label=label)
        chosen = [i for i, name in enumerate(path.entries, 1) if name in self.selected]
        if chosen:
            style: Any = {"ms": 6, "clip_on": False, "label": "selected"}
            ax.plot(chosen, [0] * len(chosen), "k^", **style)
        self._name_features()
        ax.set_ylabel("share of rows; correlation")
        ax.set_xlim(0.5, count + 0.5)
        ax.set_ylim(0, 1.02)
        self._explain(2)
        return self

    def _name_features(self) -> None:
        """Name the features below the axis, if they are few."""
        ax = self.ax_
        entries = self.path.entries
        if len(entries) > _NAMED:
            # The axes may have the fixed ticks of an earlier plot of few features.
            from matplotlib.ticker import MaxNLocator

            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.set_xlabel("number of features")
            return
        places = range(1, len(entries) + 1)
        names = [f"{i} {_shown(entries[i - 1], _NARROW)}" for i in places]
        ax.set_xticks(places, names, rotation=30, ha="right")
        ax.set_xlabel("features in order of entry")


# ---- correlations


class HGRDisplay(_Display):
    """Plot the maximal correlation of every pair of columns, as a clustered map.

    Use it to find groups of columns that say the same. Columns are ordered by average
    linkage of ``1 − rho``, where an unknown pair counts as independent.

    Parameters
    ----------
    matrix : DataFrame
        The result of `hgr_matrix`; NaN where a pair is unknown.
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
    ax_, figure_
        The axes and the figure of the plot.

    See Also
    --------
    hgr_matrix : Compute the correlations.

    Notes
    -----
    Guide: :doc:`/plots`.

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
        cls, estimator: object, *, n_columns: int = 60, ax: Axes | None = None
    ) -> Self:
        """Plot the columns that a classifier was trained on, from its marginals."""
        m = getattr(_owner("marginals_", estimator), "marginals_", None)
        if m is None:
            raise ValueError(
                f"This {type(estimator).__name__} has no pair counts: it was "
                "read from a file, or has more categories than rows. Give the rows to "
                "from_data(), or marginals to from_marginals()."
            )
        return cls.from_marginals(m, n_columns=n_columns, ax=ax)

    @classmethod
    def from_marginals(
        cls, m: Marginals, *, n_columns: int = 60, ax: Axes | None = None
    ) -> Self:
        """Plot the columns of marginals, including the target.

        If there are more than `n_columns` features, the plot shows those with the
        largest correlation with the target.
        """
        check_whole("n_columns", n_columns, 1)
        best = ranking(m)  # also checks m
        if len(best) > n_columns:
            m = m.select(map(str, best.index[:n_columns]))
        return cls(hgr_matrix(m), target=m.target).plot(ax)

    @classmethod
    def from_data(cls, data: object, *, ax: Axes | None = None) -> Self:
        """Plot the columns of a frame, without a target."""
        return cls(hgr_matrix(data)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot the map on the given axes, or on a new figure."""
        count = len(self.order)
        side = min(3.2 + 0.26 * count, 14)
        ax = self._begin(ax, side + 1, side)
        rho = self.matrix.to_numpy(np.float64)[np.ix_(self._places, self._places)]
        look: Any = {"vmin": 0, "vmax": 1, "cmap": "cividis", "aspect": "equal"}
        self.im_ = ax.imshow(np.ma.masked_invalid(rho), **look)
        ax.set_facecolor("0.85")  # the colour of unknown pairs
        names = [_shown(name, _NARROW) for name in self.order]
        size = 8
        if count > 30:
            size = 6 if count <= 60 else 4
        ax.set_xticks(range(count), names, rotation=90, fontsize=size)
        ax.set_yticks(range(count), names, fontsize=size)
        if self.target in self.order:
            place = self.order.index(self.target)
            ax.get_xticklabels()[place].set_fontweight("bold")
            ax.get_yticklabels()[place].set_fontweight("bold")
        if count <= _WRITTEN:
            self._write_cells(rho)
        bar = self.figure_.colorbar(self.im_, ax=ax, shrink=0.7)
        bar.set_label("maximal correlation")
        return self

    def _write_cells(self, rho: NDArray[np.float64]) -> None:
        style: Any = {"ha": "center", "va": "center", "fontsize": 7}
        for (i, j), value in np.ndenumerate(rho):
            known = not np.isnan(value)
            text = f"{value:.2f}" if known else "?"
            colour = "black" if not known or value > 0.5 else "white"
            self.ax_.text(j, i, text, color=colour, **style)
