"""From a model of a table to its report, with counts of pairs.

No row goes in, and of held-out rows sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.certificates.heldout import read_rows
from renyi.certificates.record import BoundReport, Certificate
from renyi.certificates.text import ALONE, ranking_lines
from renyi.certification import certify
from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT, label_text
from renyi.encoding.tuples import NEW
from renyi.exports.integer_card import IntegerScorecard, tables
from renyi.exports.points import has_weights, unseen_text
from renyi.formatting import at_least, capitalised
from renyi.marginals.marginals import Marginals
from renyi.report import error_rates
from renyi.report.page import name
from renyi.report.record import (
    Bin,
    Card,
    Column,
    Data,
    Feature,
    Heldout,
    PathStep,
    Report,
    Scale,
    Worst,
)
from renyi.rules import decide
from renyi.scorecard import Scorecard, by_importance
from renyi.selection import PathResult
from renyi.solvers.metrics import auc, log_losses

Floats = NDArray[np.float64]

MOST_CATEGORIES = 60_000
"""Of features beyond, the least important are left to the model file."""
_CARD_CATEGORIES = 1_000  # up to which an integer card is searched for unasked
_POINTS = 10
_BIN_ROWS = 20
_BINS = 10
_ROC = 50
_OUTCOMES = 20
_DIGITS = 10  # of points; scores of thousands of them then are right to 1e-8


def report(
    model: Any,
    marginals: Marginals | None = None,
    *,
    heldout: tuple[Any, Any] | None = None,
    path: PathResult | None = None,
    bounds: BoundReport | None = None,
    card: IntegerScorecard | None = None,
    made: dict[str, str] | None = None,
) -> Report:
    """Return the report of a fitted classifier; see `RenyiClassifier.report`."""
    model = getattr(model, "fit_", model)
    own: Certificate = model.certificate_
    m = model.marginals_ if marginals is None else marginals
    scorecard: Scorecard = model.scorecard_
    counted = own if own.basis == "marginals" else None
    if bounds is not None:
        counted = bounds.certificate
    elif m is not None:
        counted = certify(model, m)
    trained = model.data_digest_
    same = marginals is None or (trained is not None and trained.matches(m.digest))
    whose = "it learned from" if same else "of the marginals given here"
    seen = None if heldout is None else certify(model, *heldout)
    # Rows that it may have learned from show nothing.
    tried = None if seen is None or "training-rows" in seen.warning_codes else seen
    few = scorecard.n_classes == 2 and len(scorecard.z) <= _CARD_CATEGORIES
    if card is None and m is not None and few and m.n > 0:
        card = scorecard.rounded(_POINTS, marginals=m)
    columns, features, left_out, scale = _of_scorecard(scorecard, model.rule)
    shares = _shares(scorecard, own, m if same else None)
    told = () if counted is None or counted.doubtful else ranking_lines(counted)
    return Report(
        title=f"Report of a model for {name(model.target)}",
        verdict=error_rates.verdict(model.target, own, counted, tried, whose),
        warnings=error_rates.warnings(own, counted, seen),
        tiles=tuple(error_rates.tiles(own, counted, tried, shares, whose)),
        target=model.target,
        classes=tuple(map(label_text, scorecard.classes)),
        rule=model.rule,
        data=_data(scorecard, own, m, shares, same),
        certificate=(counted or own).to_dict(),
        ladder=tuple(error_rates.ladder(own, counted, tried, bounds)),
        ranking=tuple(told),
        columns=columns,
        features=features,
        left_out=left_out,
        scale=scale,
        made={**_made(model, own), **(made or {})},
        card=None if card is None else _card(card, counted),
        path=() if path is None else tuple(_path(path)),
        heldout=_heldout(model, seen, *heldout) if seen and heldout else None,
        worst=None if bounds is None else _worst(bounds),
    )


# ---- points and columns


def _of_scorecard(
    card: Scorecard, rule: str
) -> tuple[tuple[Column, ...], tuple[Feature, ...], int, Scale]:
    """Return columns and features that go together, and how points are used."""
    shown = card.mapped
    ruled = card.of_rule(rule)
    encoder: Any = card.encoder
    sizes = encoder.columns.sizes
    starts = offsets(sizes)
    counts = card.counts
    base = encoder.single.columns
    refused = encoder.unseen == "error"
    members: Sequence[tuple[int, ...]] = [(j,) for j in range(len(base))]
    if encoder.order > 1:
        members = encoder.members
    totals = _column_counts(encoder, members, counts, starts)
    columns = tuple(
        Column(
            name=column.name,
            kind="number" if column.kind == "number" else "label",
            categories=column.levels.texts,
            counts=tuple(total.tolist()),
            other=None if refused and column.kind == "label" else unseen_text(column),
            start=int(np.argmax(total)),
        )
        for column, total in zip(base, totals, strict=True)
    )
    order = by_importance(shown)
    fits = np.cumsum(sizes[order]) <= MOST_CATEGORIES
    fits[:1] = True
    begin = np.array([[c.start] for c in columns])
    points = shown.tables[0]
    own = ruled.tables[0] if ruled is not shown else None
    codes = encoder.of_codes(begin) if encoder.order > 1 else begin
    left = np.sort(order[~fits])
    at = shown.tables[1][left] + codes[left, 0]

    def feature(j: int) -> Feature:
        span = slice(shown.tables[1][j], shown.tables[1][j] + sizes[j])
        texts = encoder.columns[j].levels.texts
        keys = None
        new = None
        if encoder.order > 1:
            new = texts.index(NEW) if NEW in texts else None
            keys = _keys(encoder.tables[j], len(texts), new)
        return Feature(
            name=encoder.columns.names[j],
            members=tuple(members[j]),
            importance=float(shown.importance[j]),
            categories=texts,
            counts=tuple(counts[starts[j] : starts[j + 1]].tolist()),
            points=_rows_of(points[span]),
            unseen=_row_of(points[span.stop]),
            keys=keys,
            new=new,
            rule_points=None if own is None else _rows_of(own[span]),
            rule_unseen=None if own is None else _row_of(own[span.stop]),
        )

    c = card.calibration
    slope = None if c is None else c.factor(card.n_classes)
    rest = points[at].sum(axis=0) + np.atleast_1d(shown.intercept)
    ruled_rest = None
    if own is not None:
        ruled_rest = _row_of(own[at].sum(axis=0) + np.atleast_1d(ruled.intercept))
    scale = Scale(_row_of(rest), slope, None if c is None else c.kind, ruled_rest)
    return columns, tuple(map(feature, order[fits].tolist())), len(left), scale


def _column_counts(
    encoder: Any, members: Sequence[tuple[int, ...]], counts: Any, starts: Any
) -> list[Any]:
    """Return the rows of every category of every column, from those of features."""
    if encoder.order == 1:
        return np.split(counts, starts[1:-1])
    found: dict[int, Any] = {}
    for f, S in enumerate(members):
        table = encoder.tables[f]
        own = counts[starts[f] : starts[f + 1]]
        cells = np.append(own, 0)[table]  # (new) has no rows
        for axis, j in enumerate(S):
            if j not in found:
                others = tuple(a for a in range(len(S)) if a != axis)
                found[j] = cells.sum(axis=others)[:-1]
    sizes = encoder.single.columns.sizes
    return [found.get(j, np.zeros(n, np.int64)) for j, n in enumerate(sizes)]


def _keys(table: Any, size: int, new: int | None) -> tuple[int | None, ...]:
    """Return the one combination of codes that each category of a tuple stands for."""
    inner = table[tuple(slice(-1) for _ in table.shape)].ravel()
    first = np.full(size + 1, -1)
    first[inner] = np.arange(len(inner))
    return tuple(
        None if k == new or i < 0 else i for k, i in enumerate(first[:size].tolist())
    )


def _row_of(points: Iterable[float]) -> tuple[float, ...]:
    """Return points as plain numbers, with as many digits as matter."""
    return tuple(float(f"{x:.{_DIGITS}g}") for x in points)


def _rows_of(points: NDArray[Any]) -> tuple[tuple[float, ...], ...]:
    """Return rows of points as plain numbers."""
    return tuple(map(_row_of, points.tolist()))


# ---- data, and how it was made


def _shares(
    card: Scorecard, own: Certificate, m: Marginals | None
) -> dict[str, float] | None:
    """Return the shares of the classes, as far as counts tell them."""
    if m is not None:
        found = zip(m.classes, m.class_probabilities.tolist(), strict=True)
        return {label_text(label): share for label, share in found}
    if card.n_classes == 2 and own.majority is not None:
        top = label_text(own.majority[0])
        off = own.majority[1]
        first, second = map(label_text, card.classes)
        if top in (first, second):  # a stranger's certificate may name another
            share = {top: 1 - off, (second if top == first else first): off}
            return {label: share[label] for label in (first, second)}
    return None


def _data(
    card: Scorecard,
    own: Certificate,
    m: Marginals | None,
    shares: dict[str, float] | None,
    same: bool,
) -> Data:
    provenance = {} if m is None else dict(m.provenance)
    return Data(
        rows=own.n,
        unit="row",
        weighted=has_weights(card),
        columns=len(card.encoder.input_names),
        features=len(card.encoder.columns),
        categories=len(card.z),
        order=card.encoder.order,
        shares=shares,
        source=tuple(map(str, provenance.get("files", ()))),
        uncertainty=provenance.get("uncertainty"),
        certified=None if same or m is None else m.n,
    )


def _made(model: Any, own: Certificate) -> dict[str, str]:
    """Return the settings of a model, as texts."""
    choice = model.alpha_choice_
    c = model.scorecard_.calibration
    found = {
        "renyi": __version__,
        "rule": model.rule,
        "alpha": f"{choice.alpha:.6g} ({choice.method})",
        "order": str(model.settings.order),
        "calibration": "none" if c is None else c.kind,
        "objective": model.settings.objective,
        "class weight": str(model.settings.class_weight or "none"),
        "intercept": "yes" if model.settings.fit_intercept else "no",
        "seed": "none" if model.random_state is None else str(model.random_state),
        "certificate": own.basis,
    }
    digest = model.data_digest_
    if digest is not None:
        found["digest of the data"] = digest.pairs or digest.classes
    return found


# ---- what may be there


def _card(card: IntegerScorecard, counted: Certificate | None) -> Card:
    (_, *points), totals = tables(card)
    *told, bound = card.sentences()
    if counted is not None and counted.doubtful:
        told += map(capitalised, counted.warnings)
        bound = f"{ALONE} {bound[0].lower()}{bound[1:]}"
    sentences = tuple(dict.fromkeys([*told, bound]))
    return Card(sentences, tuple(points), tuple(totals))


def _path(path: PathResult) -> list[PathStep]:
    figures = path.gamma, path.bounds["map"], path.hgr
    every = zip(path.entries, path.doubtful, *figures, strict=True)
    return [
        PathStep(name, *(None if few or np.isnan(x) else float(x) for x in row))
        for name, few, *row in every
    ]


def _heldout(model: Any, c: Certificate, X: Any, y: Any) -> Heldout:
    """Return sums over held-out rows."""
    card: Scorecard = model.scorecard_
    rows = read_rows(card, X, y)
    p = card.probabilities(rows.codes)
    K = card.n_classes
    answers = decide(card.mapped.estimates(rows.codes))
    confusion = np.zeros((K, K), np.int64)
    np.add.at(confusion, (rows.y, answers), 1)
    right = p[np.arange(len(rows.y)), rows.y]
    area: tuple[float, ...] | None = None
    curve: tuple[tuple[float, float], ...] = ()
    if K == 2:
        sure = p[:, 1]
        hit = rows.y == 1
        if 0 < hit.sum() < len(hit):
            area = auc(sure, hit)
            curve = tuple(_roc(sure, hit))
    else:
        sure = p.max(axis=1)
        hit = p.argmax(axis=1) == rows.y
    return Heldout(
        rows=len(rows.y),
        certificate=c.to_dict(),
        confusion=tuple(map(tuple, confusion.tolist())),
        bins=tuple(_bins(sure, hit)),
        log_loss=float(log_losses(right).mean()),
        auc=area,
        roc=curve,
    )


def calibration_curve(
    p: Floats, hit: NDArray[np.bool_], n_bins: int
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return rows, mean probability and share of hits in bins between quantiles of p.

    Empty bins are left out. Which bin a row is in does not depend on `hit`.
    """
    edges = np.unique(np.quantile(p, np.linspace(0, 1, n_bins + 1)))
    bins = np.searchsorted(edges[1:-1], p, side="left")
    counts = np.bincount(bins, minlength=max(len(edges) - 1, 1))
    full = counts > 0
    rows = counts[full]
    predicted = np.bincount(bins, p, len(counts))[full] / rows
    observed = np.bincount(bins, hit, len(counts))[full] / rows
    return rows, predicted, observed


def _bins(p: Floats, hit: NDArray[np.bool_]) -> list[Bin]:
    """Return rows of similar probability together, some in each."""
    count = min(max(len(p) // _BIN_ROWS, 1), _BINS)
    curve = zip(*calibration_curve(p, hit, count), strict=True)
    return [Bin(int(n), round(float(a), 6), round(float(b), 6)) for n, a, b in curve]


def _roc(p: Floats, hit: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return some points of the curve, its ends among them, no step of few rows."""
    order = np.argsort(-p, kind="stable")
    last = np.append(np.flatnonzero(np.diff(p[order])), len(p) - 1)
    true = np.cumsum(hit[order])[last]
    false = np.cumsum(~hit[order])[last]
    few = Report.few
    count = min(_ROC, max(len(p) // few, 1))
    some = np.unique(np.searchsorted(last, np.linspace(len(p) - 1, few - 1, count)))
    pairs = zip((false / (~hit).sum())[some], (true / hit.sum())[some], strict=True)
    return [(0.0, 0.0), *((round(float(a), 5), round(float(b), 5)) for a, b in pairs)]


def _worst(bounds: BoundReport) -> Worst | None:
    """Return the likeliest outcomes of the distribution that e* was shown by.

    None that stands for few rows: counts may settle the very rows of a small table.
    """
    found = getattr(bounds.minimax, "worst_distribution", None)
    if found is None:
        return None
    frame = found.frame()
    rows = [
        (
            *(MISSING_TEXT if v is None or v != v else label_text(v) for v in cells),
            at_least(mass),
        )
        for *cells, mass in frame[:_OUTCOMES].itertuples(index=False)
        if mass * bounds.certificate.n > Report.few - 1e-6
    ]
    head = tuple(map(str, frame.columns))
    return Worst(found.bayes_error, len(frame), head, tuple(rows))
