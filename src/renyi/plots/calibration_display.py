"""CalibrationDisplay: whether events foretold at 30 % happen in 30 % of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.heldout import share_interval
from renyi.drawing import GREY, axes, literal, look
from renyi.encoding.column_rules import check_labels, class_array, distinct
from renyi.encoding.columns import label_text
from renyi.formatting import chosen_percent
from renyi.plots import owner_of, place_of, shown
from renyi.validation import check_choice, check_share, check_whole

Floats = NDArray[np.float64]

STRATEGIES = ("quantile", "uniform")
_WIDTH = 28  # of a name


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Rows in bins of the probability that a class was given.

    `lower` and `upper` are Clopper and Pearson's interval of `prob_true`, each bin by
    itself; None of weighted rows, of which nothing is proven.
    """

    label: Any
    prob_pred: Floats  # mean probability in each bin
    prob_true: Floats  # share of rows that have the class
    counts: NDArray[np.intp]  # rows
    lower: Floats | None
    upper: Floats | None


def calibration_curve(
    label: Any,
    hit: NDArray[np.bool_],
    p: Floats,
    *,
    n_bins: int = 10,
    strategy: str = "quantile",
    confidence: float = 0.95,
    weights: Floats | None = None,
) -> CalibrationCurve:
    """Put rows into bins by their probability of a class; empty bins are left out.

    Which bin a row is in does not depend on its class, so that the rows of a bin are
    as independent as they were.
    """
    edges = np.linspace(0, 1, n_bins + 1)
    if strategy == "quantile":
        edges = np.unique(np.quantile(p, edges))
    bins = np.searchsorted(edges[1:-1], p, side="left")
    counts = np.bincount(bins, minlength=max(len(edges) - 1, 1))
    full = counts > 0
    w = np.ones(len(p)) if weights is None else weights
    total = np.bincount(bins, w, len(counts))[full]
    n = counts[full]
    pred = np.bincount(bins, w * p, len(counts))[full] / total
    true = np.bincount(bins, w * hit, len(counts))[full] / total
    lower = upper = None
    if weights is None or np.ptp(weights) <= 1e-9 * weights.max():
        hits = np.bincount(bins, hit, len(counts))[full].astype(int).tolist()
        pairs = [share_interval(*kn, confidence) for kn in zip(hits, n, strict=True)]
        lower, upper = np.array(pairs).T
    return CalibrationCurve(label, pred, true, n, lower, upper)


class CalibrationDisplay:
    """Share of rows that have a class, by the probability that they were given.

    Every class of more than two has a curve; intervals are Clopper and Pearson's. A
    classifier that was fitted to rows is shown by leave-one-out, without other rows.

    Parameters
    ----------
    curves : sequence of CalibrationCurve
        One for each class that is drawn.
    confidence : float, default=0.95
        Of each interval by itself.
    source : str, optional
        What rows these are, for the title.

    Attributes
    ----------
    lines_ : list of Line2D
        The curves.
    intervals_ : list of LineCollection or None
        Their intervals.
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> display = renyi.CalibrationDisplay.from_estimator(clf, n_bins=5)
    >>> display.curves[0].counts.tolist()
    [87, 87, 87, 87, 87]
    """

    def __init__(
        self,
        curves: Sequence[CalibrationCurve],
        *,
        confidence: float = 0.95,
        source: str = "",
    ) -> None:
        self.curves = tuple(curves)
        self.confidence = confidence
        self.source = source

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        n_bins: int = 10,
        strategy: str = "quantile",
        confidence: float = 0.95,
        label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw how a fitted classifier is calibrated.

        Parameters
        ----------
        estimator : classifier
            With `predict_proba`.
        X, y : frame or array, and labels, optional
            Rows that it was not trained on. By default those of the training, each as
            if it had been left out; only `RenyiClassifier` and `RenyiSelector` have
            them, until they are saved.
        n_bins : int, default=10
            Bins of the probability, at most.
        strategy : {"quantile", "uniform"}, default="quantile"
            Bins of as many rows each, or of the same width.
        confidence : float, default=0.95
            Of the interval of each bin by itself.
        label : label, optional
            The class to draw; by default the second of two, or all of more.
        ax : matplotlib axes, optional
            Where to draw.
        """
        how: Any = {"n_bins": n_bins, "strategy": strategy, "confidence": confidence}
        how |= {"label": label, "ax": ax}
        if X is not None:
            p = np.asarray(estimator.predict_proba(X), np.float64)
            how |= {"classes": estimator.classes_, "source": "rows given"}
            return cls.from_predictions(y, p, **how)
        model = owner_of("_model", estimator)
        left_out = getattr(getattr(model, "_model", None), "left_out", None)
        found = None if left_out is None else left_out()
        if found is None:
            raise ValueError(
                f"This {type(estimator).__name__} has no rows of its own to leave out: "
                "give rows that it was not trained on, X and y."
            )
        p, places, weights = found
        labels = np.asarray(model.classes_)[places]
        how |= {"classes": model.classes_, "source": "leave-one-out"}
        return cls.from_predictions(labels, p, sample_weight=weights, **how)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        classes: Sequence[Any] | None = None,
        sample_weight: Any = None,
        n_bins: int = 10,
        strategy: str = "quantile",
        confidence: float = 0.95,
        label: Any = None,
        source: str = "",
        ax: Any = None,
    ) -> Self:
        """Draw probabilities that were computed elsewhere.

        Parameters
        ----------
        y_true : sequence of n labels
            The classes of the rows.
        y_prob : array of shape (n,) or (n, K)
            Probabilities of the second of two classes, or of every class.
        classes : sequence of labels, optional
            The classes in the order of the columns; by default sorted.
        sample_weight : sequence of n floats, optional
            Weights; unless they are equal, no interval is drawn.
        n_bins, strategy, confidence, label, ax
            As in `from_estimator`.
        source : str, optional
            What rows these are, for the title.
        """
        check_whole("n_bins", n_bins, 1)
        check_choice("strategy", strategy, STRATEGIES)
        check_share("confidence", confidence)
        p = np.asarray(y_prob, np.float64)
        for bad in p[~((p >= 0) & (p <= 1))][:1]:
            raise ValueError(f"y_prob must hold probabilities; {bad:g} is not one.")
        p = np.column_stack([1 - p, p]) if p.ndim == 1 else p
        if y_true is None:
            raise ValueError("y is missing: give the classes of the rows X.")
        labels = check_labels(y_true, len(p))
        y = np.array([label_text(each) for each in labels.tolist()], object)
        given = distinct(labels)[0] if classes is None else class_array(classes)
        known = [label_text(each) for each in given.tolist()]
        if classes is None and len(known) == 1:
            raise ValueError(
                f"y has only one class, {known[0]!r}: name all classes with classes=."
            )
        if p.shape[1:] != (len(known),):
            raise ValueError(
                f"y_prob must hold probabilities of {len(known)} classes, in as many "
                f"columns; its shape is {p.shape}."
            )
        for each in sorted({*y.tolist()} - {*known}):
            raise ValueError(f"y has the class {each!r}, which is not among {known}.")
        drawn = [1] if len(known) == 2 else [*range(len(known))]
        if label is not None:
            drawn = [place_of(label, known)]
        weights = None if sample_weight is None else np.asarray(sample_weight, float)
        how: Any = {"n_bins": n_bins, "strategy": strategy, "confidence": confidence}
        curves = [
            calibration_curve(known[k], y == known[k], p[:, k], weights=weights, **how)
            for k in drawn
        ]
        return cls(curves, confidence=confidence, source=source).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        self.ax_ = ax = axes(ax, 5.6, 5.4)
        self.figure_ = ax.figure
        self.lines_ = []
        self.intervals_ = []
        ax.plot([0, 1], [0, 1], ls=":", color=GREY, label="perfectly calibrated")
        many = len(self.curves)
        for k, curve in enumerate(self.curves):
            style = look(k)
            x = curve.prob_pred
            # Intervals of several classes would hide each other at the same place.
            x_bar = x + 0.004 * (k - (many - 1) / 2)
            drawn = None
            if curve.lower is not None:
                pale = {"colors": style["color"], "alpha": 1 if many == 1 else 0.5}
                drawn = ax.vlines(x_bar, curve.lower, curve.upper, lw=1.2, **pale)
            self.intervals_.append(drawn)
            style |= {"label": shown(curve.label, _WIDTH)}
            self.lines_ += ax.plot(x, curve.prob_true, ms=5, lw=1.2, **style)
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_aspect("equal")
        ax.set_xlabel("probability given, mean of the bin")
        ax.set_ylabel("share of rows that have the class")
        n = int(self.curves[0].counts.sum())
        source = f"{literal(self.source)}, " if self.source else ""
        sure = f"intervals of {chosen_percent(self.confidence)} for each bin"
        known = any(drawn is not None for drawn in self.intervals_)
        title = f"{source}{n:,} rows{'; ' + sure if known else ''}"
        ax.set_title(title, fontsize=9, color=GREY)
        ax.legend(loc="upper left", fontsize=8, frameon=False)
        return self
