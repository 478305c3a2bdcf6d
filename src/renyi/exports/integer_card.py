"""Make integer scorecards: points to add up by hand, and what the total means.

`rounded` turns a scorecard of two classes into small whole points, with the smallest
closed-form bound that it finds (`renyi.solvers.integer_points`). The bound also chooses
scale and threshold. The total T becomes the score ``τ(T − θ)``, a scorecard like any
other, which `certify` accepts. θ is between two whole numbers, so that no total is a
tie.

The probability of a total is that of this scorecard. It uses the model's calibration,
with the slope by which T follows the model's scores. Without a calibration it is
½ + τ(T − θ), limited to 0 and 1. Both grow with the total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.certificates.error_table import ErrorTable, counted_text, error_table
from renyi.certificates.record import Certificate
from renyi.certificates.three_lines import NONE_USEFUL, no_guarantee_reason, quoted
from renyi.certification import certify
from renyi.counting.onehot import offsets
from renyi.counting.sparse_counts import is_sparse, moved
from renyi.encoding.columns import OTHER, TableLike, label_text
from renyi.encoding.rows import has_few_rows
from renyi.encoding.rules import class_array
from renyi.exports.points import (
    category_places,
    markdown_table,
    markdown_text,
    merged_labels,
)
from renyi.formatting import (
    at_most,
    capitalised,
    chosen_percent,
    csv_text,
    number_of_rows,
    percent,
    printable,
    wrapped,
)
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard, by_importance
from renyi.solvers import integer_points
from renyi.solvers.calibration import of_slope
from renyi.validation import InputError, check_choice, check_whole

if TYPE_CHECKING:
    import pandas as pd


Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FORMATS = ("csv", "md", "html")
_HEAD = ("feature", "category", "points")
_MOST = 1_000
_REASONS = ("few-rows", "optimistic")  # why there is no useful guarantee
_NEAR = 0.02  # least distance of the threshold from a whole number
_STYLE = (
    "body{font-family:sans-serif;max-width:52em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}"
    ".tables{display:flex;flex-wrap:wrap;gap:0 2em;align-items:start}"
    "td,th{border:1px solid #999;padding:.2em .6em;text-align:left}"
    "td:last-child{text-align:right}tr{break-inside:avoid}"
    "@media(max-width:30em){.tables{overflow-x:auto;font-size:.9em}"
    "td,th{padding:.2em .3em}}"
    "@media print{body{font-size:9pt;margin:0}td,th{padding:.1em .4em}}"
)


@dataclass(frozen=True, eq=False)
class IntegerScorecard:
    """Whole points per category of a model of two classes; see `Scorecard.rounded`.

    A person adds up the points of a row; the answer is the second class if the total
    reaches `threshold`. `frame` and ``print`` show the card, and `certificate` its
    guarantee.

    Attributes
    ----------
    scorecard : Scorecard
        The same as a model: its score is ``scale`` times the total plus an intercept.
    points : ndarray of shape (D,)
        Points of every category; the least of each feature is 0.
    other_points : ndarray of shape (features,)
        Points of unseen labels.
    scale : float
        What a point adds to the score.
    threshold : int
        The least total at which the answer is the second class.
    before, certificate : Certificate
        Guarantees before and after rounding, for the same pair counts.
    errors : ErrorTable or None
        What is known about the error of the model before rounding, to be printed.

    See Also
    --------
    Scorecard.rounded : Make a card.
    Scorecard : The model before rounding.

    Notes
    -----
    Guide: :doc:`/exports`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> card = clf.scorecard_.rounded(3, marginals=clf.marginals_)
    >>> card.total(X[:3]).tolist(), card.threshold
    ([5, 5, 1], 3)
    """

    scorecard: Scorecard
    points: Whole
    other_points: Whole
    scale: float
    threshold: int
    before: Certificate
    certificate: Certificate
    errors: ErrorTable | None = None

    @property
    def cost(self) -> float:
        """What rounding adds to the bound of the rule map; below 0 if it gains."""
        return self.certificate.bounds["map"] - self.before.bounds["map"]

    def total(self, X: TableLike) -> Whole:
        """Return the points of each row, added up."""
        encoder = self.scorecard.encoder
        sizes = encoder.columns.sizes
        table = np.insert(self.points, offsets(sizes)[1:], self.other_points)
        starts = offsets(sizes + 1)[:-1]
        return np.asarray(table[encoder.transform(X).T + starts].sum(axis=1))

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Return the class of each row: the second from the threshold upwards."""
        classes = class_array(self.scorecard.classes)
        return np.asarray(classes[(self.total(X) >= self.threshold).astype(np.intp)])

    def frame(self) -> pd.DataFrame:
        """Return the table of the points, without features whose points are all 0."""
        return _frame(self._listed(merged=True))

    def _listed(self, merged: bool) -> list[list[tuple[str, str, int]]]:
        """Return the features that have points, by importance, with their rows."""
        columns = self.scorecard.encoder.columns
        listed = []
        each = np.split(self.points, np.cumsum(columns.sizes)[:-1])
        for j in by_importance(self.scorecard).tolist():
            points = [*each[j].tolist(), int(self.other_points[j])]
            rows = [
                (columns.names[j], text, points[place])
                for text, place in category_places(columns[j], merged)
                if points[place] or place < len(each[j])
            ]
            if any(points for _, _, points in rows):
                listed.append(rows)
        return listed

    def _printed(self) -> list[list[tuple[str, str, int]]]:
        """Return what the printed card lists: a sentence has the unseen labels."""
        return [
            [row for row in rows if row[1] != OTHER]
            for rows in self._listed(merged=False)
        ]

    def _unseen_labels(self) -> str:
        """Say which points a label has that the printed card does not list."""
        columns: dict[int, list[str]] = {}
        for rows in self._listed(merged=False):
            for name, text, n in rows:
                if text == OTHER:
                    columns.setdefault(n, []).append(repr(name))
        points = [f"{n} in {', '.join(columns[n])}" for n in sorted(columns)]
        return "; ".join(["A label that is not listed has 0 points", *points]) + "."

    def totals(self) -> pd.DataFrame:
        """Return the table of totals: probability of the second class, and answer."""
        import pandas as pd

        card = self.scorecard
        features = self._listed(merged=False)
        most = sum(max(points for _, _, points in rows) for rows in features)
        totals = np.arange(most + 1)
        scores = self.scale * totals[:, None] + card.intercept
        p = card.probabilities_at(card.per_class(scores) + 0.5)[:, 1]
        answers = np.array(card.classes, object)[(totals >= self.threshold) * 1]
        return pd.DataFrame({"total": totals, "probability": p, "answer": answers})

    def sentences(self) -> list[str]:
        """Return how the points are used, and what is certified of them."""
        first, second = map(label_text, self.scorecard.classes)
        shown = {rows[0][0] for rows in self._listed(merged=False)}
        how = "estimates from the training rows: the model's calibrated score"
        if self.scorecard.calibration is None:
            how = "rough, not calibrated: the linear score, cut off at 0 and 1"
        elif self.before.gamma is None:
            how = "those of the model before rounding, as if its scores were log-odds"
        return [
            f"Add up the points of a row: {second!r} from {self.threshold} on, else "
            f"{first!r}. {self._unseen_labels()}",
            *merged_labels(self.scorecard.encoder, shown),
            *self._unused(shown),
            f"Probabilities are {how}.",
            *self._error_sentences(),
            *self._warnings(),
            self._guarantee_sentence(),
        ]

    def _unused(self, shown: set[str]) -> list[str]:
        """Name the columns that are not listed because all their points are 0."""
        names = self.scorecard.encoder.columns.names
        unused = [name for name in names if name not in shown]
        if not unused:
            return []
        return [f"Not listed, because all points are 0: {', '.join(unused)}."]

    def _error_sentences(self) -> list[str]:
        """Say how wrong the model before rounding is, and the baseline."""
        texts = []
        table = self.errors
        if table is not None and table.bound is not None and table.bound.high:
            bound = at_most(table.bound.high, 1)
            sure = chosen_percent(table.bound.confidence or 0)
            rows = number_of_rows(table.bound.n or 0)
            texts.append(
                f"The model before rounding is wrong on at most {bound} of the "
                f"population, with {sure} confidence, by {rows} not used in training."
            )
        elif table is not None and table.estimate is not None:
            estimate = table.estimate
            texts.append(
                f"Error to expect of the model before rounding: {estimate.shown} "
                f"({estimate.interval}, an estimate)."
            )
        always = error_table(self.certificate).always
        if always is not None:
            answer = quoted(always.about)
            texts.append(f"Always answering {answer} is wrong on {always.shown}.")
        return [" ".join(texts)] if texts else []

    def _warnings(self) -> list[str]:
        """Return the warnings that the sentence on the guarantee does not contain."""
        c = self.certificate
        pairs = zip(c.warning_codes, c.warnings, strict=True)
        return [capitalised(text) for code, text in pairs if code not in _REASONS]

    def _guarantee_sentence(self) -> str:
        c = self.certificate
        table = error_table(c)
        if table.guarantee is None:
            reason = no_guarantee_reason(table, c).replace("this model", "this card")
            return f"{NONE_USEFUL} {reason}"
        after = at_most(c.bounds["map"], 1)
        before = at_most(self.before.bounds["map"], 1)
        return (
            f"Guarantee: the card is wrong on at most {after} of any population with "
            f"the {counted_text(c)} of these {number_of_rows(c.n)}. Before rounding, "
            f"the model is wrong on at most {before}."
        )

    def __str__(self) -> str:
        """Return the points, what totals mean, and what rounding costs."""
        import pandas as pd

        head = ["total", label_text(self.scorecard.classes[1]), "answer"]
        totals = pd.DataFrame(_grouped(self), columns=head)
        tables = [_frame(self._printed()), totals]
        parts = [printable(table.to_string(index=False)) for table in tables]
        return "\n\n".join([*parts, *(wrapped(each) for each in self.sentences())])

    def _repr_html_(self) -> str:
        return _html(self)

    def to_text(self, format: str = "md") -> str:
        """Return the card in Markdown, as a page of HTML to print, or as CSV.

        In CSV the rows of points come first, then those of totals.
        """
        check_choice("format", format, FORMATS)
        if format == "csv":
            return csv_text(self.table())
        return _page(self) if format == "html" else _markdown(self)

    def table(self) -> pd.DataFrame:
        """Return points and totals in one table, with missing cells."""
        import pandas as pd

        both = pd.concat([self.frame(), self.totals()], ignore_index=True)
        return both.astype({"points": "Int64", "total": "Int64"})


# ---- rounding


def rounded(card: Scorecard, most: int, m: Marginals | None) -> IntegerScorecard:
    """Return the integer scorecard with the least bound; see `Scorecard.rounded`."""
    check_whole("max_points", most, 1)
    if most > _MOST:
        raise ValueError(f"max_points is at most {_MOST:,}, not {most:,}.")
    if card.n_classes != 2:
        raise InputError(
            "Integer points are for two classes, separated by one threshold; this "
            f"model has {card.n_classes}: take the points of all classes, which are "
            "not rounded.",
            "format=csv",
            python="Scorecard.frame()",
        )
    if m is None:
        raise ValueError(
            "Rounding by the certificate needs pair counts, which a scorecard does not "
            "have: give rounded(marginals=clf.marginals_), or if that is None "
            "rounded(marginals=Marginals.from_data(X, y))."
        )
    if not isinstance(m, Marginals):
        raise TypeError(f"marginals must be Marginals, not a {type(m).__name__}.")
    before = certify(card, m)
    sizes = card.encoder.columns.sizes + 1
    pairs, prior = _moments(card, m)
    z = card.tables[0][:, 0]
    few = bool(has_few_rows(before.n, before.n_indicators))
    k = integer_points.search(z, pairs, int(most), improve=not few)
    k = _with_others(k, pairs, card)
    last = offsets(sizes)[1:] - 1
    own = np.delete(k, last)
    other = k[last]
    calibration = card.calibration
    shift = float(card.mapped.intercept - card.intercept)
    scale, theta, slope = _line(k, z, pairs, prior, shift)
    if calibration is not None:  # log-odds in proportion to the model's
        ratio = slope / scale if slope > 0 else 1.0
        calibration = of_slope(float(calibration.slope) * ratio)
    model = replace(
        card,
        z=scale * own.astype(np.float64),
        intercept=np.array(-scale * theta),
        unseen=scale * other[:, None].astype(np.float64),
        calibration=calibration,
    )
    after = certify(model, m)
    threshold = int(np.floor(theta)) + 1
    return IntegerScorecard(model, own, other, scale, threshold, before, after)


def _moments(card: Scorecard, m: Marginals) -> tuple[integer_points.Pairs, float]:
    """Return the moments of the model's categories, and P(1) − P(0).

    The last category of a feature is the one for all other labels.
    """
    sizes = card.encoder.columns.sizes
    last = offsets(sizes + 1)[1:] - 1
    every = np.arange(last[-1] + 1)
    # Points that number the categories show how m's categories are matched.
    places = replace(
        card,
        z=np.delete(every, last).astype(np.float64),
        unseen=last[:, None].astype(np.float64),
        intercept=np.array(0.0),
        calibration=None,
    )
    match = places.match(m)
    m = match.marginals
    place = match.points[:, 1].astype(np.intp)
    Q = m.feature_counts / m.n
    sign = 2.0 * match.classes - 1
    prior = float(m.class_probabilities @ sign)
    if is_sparse(Q):
        Q = moved(Q, place, len(every))
    else:
        dense = np.zeros((len(every), len(every)))
        np.add.at(dense, np.ix_(place, place), Q)
        Q = dense
    mean = np.asarray(Q.diagonal(), np.float64)
    dvec = np.bincount(place, m.F @ sign, len(every)) - prior * mean
    return integer_points.Pairs(Q, mean, dvec, sizes + 1), prior


def _with_others(k: Whole, pairs: integer_points.Pairs, card: Scorecard) -> Whole:
    """Return the points, with the feature's mean for labels that never occur."""
    sizes = card.encoder.columns.sizes
    k = k.copy()
    starts = offsets(sizes)[:-1]
    last = offsets(sizes + 1)[1:] - 1
    weights = card.counts.astype(np.float64)
    own = np.delete(k, last)
    mean = np.add.reduceat(weights * own, starts) / np.add.reduceat(weights, starts)
    k[last] = np.where(pairs.mean[last] > 0, k[last], np.rint(mean))
    return integer_points.from_zero(k, sizes + 1)


def _line(
    k: Whole, z: Floats, pairs: integer_points.Pairs, prior: float, shift: float
) -> tuple[float, float, float]:
    """Return scale, threshold, and the slope at which the total follows the model.

    The scale is that of the least risk, given a threshold between whole numbers. A
    calibration may have added a `shift` to the model's score.
    """
    product = pairs.product(k)
    mean = float(pairs.mean @ k)
    lead = float(pairs.dvec @ k) / 2
    spread = float(k @ product)
    if not lead > 0 < spread:  # uninformative points: always the likelier class
        return max(abs(prior), _NEAR), -0.5 if prior > 0 else 0.5, 0.0
    slope = float(z @ product) / spread
    theta = mean - prior * spread / (2 * lead)
    if slope > 0:
        theta -= shift / slope
    theta = float(np.clip(theta, np.floor(theta) + _NEAR, np.floor(theta) + 1 - _NEAR))
    off = mean - theta
    scale = (lead + prior / 2 * off) / (spread + off**2)
    return scale if scale > 0 else lead / spread, theta, slope


# ---- as text


def _frame(features: list[list[tuple[str, str, int]]]) -> pd.DataFrame:
    """Return points as a table."""
    import pandas as pd

    rows = [row for each in features for row in each]
    return pd.DataFrame(rows, columns=_HEAD, dtype=object).astype({"points": np.int64})


def _grouped(card: IntegerScorecard) -> list[tuple[str, str, str]]:
    """Return totals, probabilities and answers as texts, equal ones in one row."""
    groups = []
    rows = [(n, _share(p), a) for n, p, a in card.totals().itertuples(index=False)]
    for (share, answer), same in groupby(rows, key=lambda row: row[1:]):
        totals = [n for n, _, _ in same]
        span = f"{totals[0]}–{totals[-1]}" if len(totals) > 1 else f"{totals[0]}"
        groups.append((span, share, label_text(answer)))
    return groups


def _share(p: float) -> str:
    """Return a probability in whole percent; only certain ones are 0 or 100."""
    if 0 < p < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 < p < 1 else percent(p, 0)


def tables(card: IntegerScorecard) -> list[list[tuple[str, ...]]]:
    """Return head and rows of the points, then of the totals."""
    second = label_text(card.scorecard.classes[1])
    points = [(a, b, str(n)) for rows in card._printed() for a, b, n in rows]
    totals = [(a, c, b) for a, b, c in _grouped(card)]
    head = ("total", "answer", f"probability of {second}")
    return [[_HEAD, *points], [head, *totals]]


def _title(card: IntegerScorecard) -> str:
    target = card.scorecard.target
    second = label_text(card.scorecard.classes[1])
    return f"Points for {'' if target is None else f'{target} = '}{second}"


def _markdown(card: IntegerScorecard) -> str:
    title = f"# {markdown_text(_title(card))}"
    shown = [markdown_table(head, rows, 2) for head, *rows in tables(card)]
    how, *others = map(markdown_text, card.sentences())
    return "\n\n".join([title, how, *shown, *others]) + "\n"


def _html(card: IntegerScorecard) -> str:
    """Return how to use the card, its tables, and the other sentences in HTML."""

    def row(cells: tuple[str, ...], tag: str) -> str:
        shown = (f"<{tag}>{escape(printable(each))}</{tag}>" for each in cells)
        return f"<tr>{''.join(shown)}</tr>"

    how, *others = (f"<p>{escape(printable(each))}</p>" for each in card.sentences())
    parts = []
    for head, *rows in tables(card):
        body = "\n".join(row(each, "td") for each in rows)
        parts.append(
            f"<table>\n<thead>{row(head, 'th')}</thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table>"
        )
    return "\n".join([how, '<div class="tables">', *parts, "</div>", *others])


def _page(card: IntegerScorecard) -> str:
    title = escape(printable(_title(card)))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{_html(card)}\n</body>\n</html>\n"
    )
