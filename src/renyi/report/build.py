"""From a model and pair counts to the plain values that its report shows.

The page and ``report.json`` are two readers of the same values (`renyi.report.page`),
and compute nothing more. No row goes in; of held-out rows there are sums: bins, and a
table of classes.

The score of a row is ``intercept + Σ points`` over the features, each at its category.
The category of a feature of one column is that column's code. A feature of several
columns has `keys`: the codes of its columns counted as one number. A key that is not
listed has the category `new`; a label that training did not have has `unseen`.
With t = 1/K + score (of two classes [1/2 − s, 1/2 + s]), probabilities are
∝ exp(slope·t), or nearest to t without a slope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi import __version__
from renyi.certificates import three_lines
from renyi.certificates.error_table import ErrorTable, error_table
from renyi.certificates.heldout import UNKNOWN, read_rows
from renyi.certificates.record import BoundReport, Certificate
from renyi.certificates.text import ranking_lines
from renyi.certificates.three_lines import basis_sentences, guarantee_text
from renyi.certification import certify
from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT, Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import NEW, TupleEncoder
from renyi.exports.integer_card import IntegerScorecard, tables
from renyi.exports.points import has_weights, unseen_text
from renyi.fitting.kernel import KernelFit, contains_rows
from renyi.fitting.record import Fit, of_scorecard
from renyi.formatting import at_least, capitalised, number_of, number_of_rows
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Intervals, Uncertainty
from renyi.report import summary
from renyi.report.page import FEW, FORMAT, VERSION, Report
from renyi.report.summary import Entry, quoted
from renyi.rules import Scorer, decide
from renyi.scorecard import Scorecard, by_importance, scorer_of
from renyi.selection import PathResult
from renyi.solvers.calibration import MARGIN
from renyi.solvers.metrics import auc, log_losses
from renyi.validation import InputError

Floats = NDArray[np.float64]

MOST_CATEGORIES = 60_000
"""Of features beyond, the least important are left to the model file."""
_CARD_CATEGORIES = 1_000  # up to which an integer card is searched for unasked
_POINTS = 10
_BIN_ROWS = 20
_BINS = 10
_OUTCOMES = 20
_OTHER_COUNTS = (
    "The guarantee is for the pair counts given, not for those of the training rows."
)
_DIGITS = 10  # of points; scores of thousands of them then are right to 1e-8


class FittedModel(Protocol):
    """An estimator that was fitted."""

    fit_: Fit


def report(
    model: Fit | KernelFit | FittedModel | Scorecard,
    marginals: Marginals | None = None,
    *,
    title: str | None = None,
    heldout: tuple[object, ArrayLike] | None = None,
    path: PathResult | None = None,
    bounds: BoundReport | None = None,
    card: IntegerScorecard | None = None,
    made: dict[str, str] | None = None,
) -> Report:
    """Return the report of a fitted classifier; see `RenyiClassifier.report`.

    That of a scorecard, such as one of a model made elsewhere, needs marginals.
    """
    fit = _fit_of(model, marginals)
    own: Certificate = fit.certificate_
    scorer = scorer_of(fit)
    if isinstance(fit, KernelFit):
        m = marginals
        scorecard = fit.kernel_.main_effects  # single columns only
    else:
        m = fit.marginals_ if marginals is None else marginals
        scorecard = fit.scorecard_
    counted = _counted(fit, own, m, bounds)
    trained = fit.data_digest_
    same = marginals is None or (
        trained is not None and trained.matches(marginals.digest)
    )
    tested = None if heldout is None else certify(fit, *heldout)
    unseen = tested
    if unseen is not None and "training-rows" in unseen.warning_codes:
        unseen = None  # rows that it may have learned from show nothing
    shares = _shares(scorecard, own, m if same else None)
    errors = error_table(
        own, counted=counted, unseen=unseen, heldout=fit.heldout, bounds=bounds
    )
    by_rows = None
    left_out = fit.left_out_details
    if heldout is not None and tested is not None:
        by_rows = _heldout(scorer, tested, *heldout)
        left_out = None
    if card is None and m is not None:
        card = _integer_card(scorecard, m)
    if card is not None and card.errors is None:
        card = replace(card, errors=errors)
    ranking: list[str] = []
    if counted is not None and not counted.doubtful and _beats_a_coin(counted):
        ranking = ranking_lines(counted)
    target = fit.target
    others = [] if same else [_OTHER_COUNTS]
    data = _data(scorecard, own, m, shares, same)
    unknown = three_lines.UNDEFINED if errors.undefined else three_lines.UNKNOWN
    figures = summary.headline(errors, unknown.removeprefix("unknown: "))
    line = summary.guarantee(errors, counted or own)
    classes = (by_rows or left_out or {"by_class": []})["by_class"]
    facts: Entry = {
        "format": FORMAT,
        "version": VERSION,
        "title": title or f"Model of {quoted(target)}",
        "about": about(None if title is None else f"Model of {quoted(target)}", data),
        "summary": summary.summary(
            errors, _sentences(errors, counted or own), own.order
        ),
        "headline": figures,
        "guarantee": line,
        "findings": summary.findings(errors, tested, classes),
        "notes": [
            *_contents(fit),
            *summary.notes(own, counted, fit.heldout, tested),
            *_note_on_margins(scorecard),
            *others,
        ],
        "target": target,
        "classes": [label_text(label) for label in scorecard.classes],
        "rule": fit.rule,
        "data": data,
        "certificate": (counted or own).to_dict(),
        "errors": summary.error_entries(errors, own),
        "ranking": ranking,
        **_points(scorecard, fit.rule),
        "made": {**_made(fit, own), **(made or {})},
        "card": None if card is None else _card(card, counted),
        "path": [] if path is None else _path(path),
        "heldout": by_rows,
        "left_out_rows": left_out,
        "worst": None if bounds is None else _worst(bounds),
    }
    if isinstance(fit, KernelFit):
        facts["whatif"] = False  # the page does not contain the rows to compare with
        facts["every_order"] = {"order_shares": fit.order_shares}
    return Report(facts)


def _fit_of(
    model: Fit | KernelFit | FittedModel | Scorecard, m: Marginals | None
) -> Fit | KernelFit:
    """Return the record of a model; of a scorecard alone, one with a certificate."""
    if isinstance(model, Scorecard):
        model = of_scorecard(model)
    fit = model if isinstance(model, (Fit, KernelFit)) else model.fit_
    if isinstance(fit, KernelFit) or not fit.made_elsewhere:
        return fit
    if m is None:
        raise InputError(
            "The report of a scorecard needs pair counts, which it does not have: give "
            "them.",
            python="marginals=",
        )
    return of_scorecard(fit.scorecard_, m)


def _note_on_margins(card: Scorecard) -> list[str]:
    """Say that probabilities only keep the order of margins, if they are these."""
    if card.calibration is None or card.calibration.kind != MARGIN.kind:
        return []
    return ["The scores are margins: the probabilities shown only keep their order."]


def _contents(fit: Fit | KernelFit) -> list[str]:
    """Return what to know of a model file that contains rows."""
    return [contains_rows(fit)] if isinstance(fit, KernelFit) else []


def _beats_a_coin(c: Certificate) -> bool:
    """Whether the guarantee at any prevalence is below one half."""
    return c.any_prevalence is not None and c.any_prevalence < 0.5


def _sentences(table: ErrorTable, c: Certificate) -> list[str]:
    """Return where the figures come from, and the guarantee."""
    return [*basis_sentences(table, c), guarantee_text(table, c)]


def about(model: str | None, data: Entry) -> str:
    """Return the line below the title: the model, its rows and its columns."""
    unit = "column" if data["unit"] == "row" else "variant"
    parts = [model, data["size"], number_of(data["columns"], unit)]
    return " · ".join(part for part in parts if part)


def _counted(
    model: Fit | KernelFit,
    own: Certificate,
    m: Marginals | None,
    bounds: BoundReport | None,
) -> Certificate | None:
    """Return the certificate of pair counts, if there are any."""
    if bounds is not None:
        return bounds.certificate
    if m is not None:
        return certify(model, m)
    return None if own.from_rows else own


def _integer_card(card: Scorecard, m: Marginals) -> IntegerScorecard | None:
    """Return whole points of a model of two classes that is not too large."""
    if card.n_classes != 2 or len(card.z) > _CARD_CATEGORIES or m.n <= 0:
        return None
    return card.rounded(_POINTS, marginals=m)


# ---- points and columns


def _points(card: Scorecard, rule: str) -> Entry:
    """Return columns, features and how points are used."""
    encoder = card.encoder
    mapped = card.mapped
    ruled = card.of_rule(rule)
    sizes = encoder.columns.sizes
    members = _members(encoder)
    columns = _columns(encoder, members, card.counts)
    order = by_importance(mapped)
    fits = np.cumsum(sizes[order]) <= MOST_CATEGORIES
    fits[:1] = True
    own = None if ruled is mapped else ruled
    starts = offsets(sizes)
    features = [
        _feature(card, own, j, members[j], starts[j]) for j in order[fits].tolist()
    ]
    left = np.sort(order[~fits])
    begin = np.array([[column["start"]] for column in columns])
    codes = encoder.of_codes(begin) if isinstance(encoder, TupleEncoder) else begin
    at = mapped.tables[1][left] + codes[left, 0]
    c = card.calibration
    scale: Entry = {
        "intercept": _start(mapped, at),
        "slope": None if c is None else c.factor(card.n_classes),
        "calibration": None if c is None else c.kind,
        "rule_intercept": None if own is None else _start(own, at),
        "covariates": {},
    }
    return {
        "columns": columns,
        "features": features,
        "left_out": len(left),
        "scale": scale,
    }


def _start(card: Scorecard, at: NDArray[np.int64]) -> list[float]:
    """Return the intercept, with the points of features that are left out."""
    total = card.tables[0][at].sum(axis=0) + np.atleast_1d(card.intercept)
    return rounded_points(total)


def _members(encoder: Encoder) -> Sequence[tuple[int, ...]]:
    """Return the columns of each feature."""
    if isinstance(encoder, TupleEncoder):
        return encoder.members
    return [(j,) for j in range(len(encoder.single.columns))]


def _columns(
    encoder: Encoder, members: Sequence[tuple[int, ...]], counts: NDArray[Any]
) -> list[Entry]:
    """Return what can be chosen of each column."""
    starts = offsets(encoder.columns.sizes)
    totals = _column_counts(encoder, members, counts, starts)
    refused = encoder.unseen == "error"
    return [
        {
            "name": column.name,
            "kind": "number" if column.kind == "number" else "label",
            "categories": [*column.levels.texts],
            "counts": total.tolist(),
            "other": (
                None if refused and column.kind == "label" else unseen_text(column)
            ),
            "start": int(np.argmax(total)),
        }
        for column, total in zip(encoder.single.columns, totals, strict=True)
    ]


def _feature(
    card: Scorecard, ruled: Scorecard | None, j: int, members: Sequence[int], start: int
) -> Entry:
    """Return the points of feature j; of a tuple also which codes its categories are.

    `ruled` has the points that the rule uses, where these are others; the counts of
    the feature begin at `start`.
    """
    encoder = card.encoder
    mapped = card.mapped
    size = encoder.columns.sizes[j]
    first = mapped.tables[1][j]
    span = slice(first, first + size)
    texts = encoder.columns[j].levels.texts
    new = None
    keys = None
    if isinstance(encoder, TupleEncoder):
        new = texts.index(NEW) if NEW in texts else None
        keys = _keys(encoder.tables[j], len(texts), new)
    points = mapped.tables[0]
    own = None if ruled is None else ruled.tables[0]
    return {
        "name": encoder.columns.names[j],
        "members": [*members],
        "importance": float(mapped.importance[j]),
        "categories": [*texts],
        "counts": card.counts[start : start + size].tolist(),
        "points": [rounded_points(row) for row in points[span].tolist()],
        "unseen": rounded_points(points[span.stop]),
        "keys": keys,
        "new": new,
        "rule_points": (
            None if own is None else [rounded_points(row) for row in own[span].tolist()]
        ),
        "rule_unseen": None if own is None else rounded_points(own[span.stop]),
    }


def _column_counts(
    encoder: Encoder,
    members: Sequence[tuple[int, ...]],
    counts: NDArray[Any],
    starts: NDArray[Any],
) -> list[NDArray[Any]]:
    """Return the rows of every category of every column, from those of features."""
    if not isinstance(encoder, TupleEncoder):
        return np.split(counts, starts[1:-1])
    totals: dict[int, NDArray[Any]] = {}
    for f, columns in enumerate(members):
        table = encoder.tables[f]
        own = counts[starts[f] : starts[f + 1]]
        cells = np.append(own, 0)[table]  # (new) has no rows
        for axis, j in enumerate(columns):
            if j not in totals:
                others = tuple(a for a in range(len(columns)) if a != axis)
                totals[j] = cells.sum(axis=others)[:-1]
    sizes = encoder.single.columns.sizes
    return [totals.get(j, np.zeros(n, np.int64)) for j, n in enumerate(sizes)]


def _keys(table: NDArray[Any], size: int, new: int | None) -> list[int | None]:
    """Return the one combination of codes that each category of a tuple stands for."""
    inner = table[tuple(slice(-1) for _ in table.shape)].ravel()
    first = np.full(size + 1, -1)
    first[inner] = np.arange(len(inner))
    return [
        None if k == new or i < 0 else i for k, i in enumerate(first[:size].tolist())
    ]


def rounded_points(points: Iterable[float]) -> list[float]:
    """Return points as plain numbers, with as many digits as matter."""
    return [float(f"{x:.{_DIGITS}g}") for x in points]


# ---- data, and how it was made


def _shares(
    card: Scorecard, own: Certificate, m: Marginals | None
) -> dict[str, float] | None:
    """Return the shares of the classes, if the counts contain them."""
    if m is not None:
        pairs = zip(m.classes, m.class_probabilities.tolist(), strict=True)
        return {label_text(label): share for label, share in pairs}
    if card.n_classes != 2 or own.majority is None:
        return None
    top, error = own.majority
    first, second = map(label_text, card.classes)
    if label_text(top) not in (first, second):
        return None  # an untrusted certificate may name another
    of_first = 1 - error if label_text(top) == first else error
    return {first: of_first, second: 1 - of_first}


def _data(
    card: Scorecard,
    own: Certificate,
    m: Marginals | None,
    shares: dict[str, float] | None,
    same: bool,
) -> Entry:
    """Return what the model was trained on, from the counts."""
    provenance = {} if m is None else dict(m.provenance)
    return {
        "rows": own.n,
        "size": number_of_rows(own.n),
        "unit": "row",
        "weighted": has_weights(card),
        "columns": len(card.encoder.input_names),
        "features": len(card.encoder.columns),
        "categories": len(card.z),
        "order": card.encoder.order,
        "interactions": own.interactions,
        "shares": shares,
        "source": [*map(str, provenance.get("files", ()))],
        "uncertainty": None if m is None else _uncertainty(m.uncertainty),
        "certified": None if same or m is None else m.n,
    }


def _uncertainty(known: Uncertainty | None) -> dict[str, str] | None:
    """Return how well the counts are known, and the privacy they spent, as texts."""
    if known is None:
        return None
    if isinstance(known, Intervals):
        widest = int((known.high - known.low).max())
        return {
            "Counts": f"each is an interval, at most {widest:,} wide",
            "Rows": f"{known.n_low:,} to {known.n_high:,}",
        }
    budget = known.budget
    rows = number_of(budget.rows_per_person, "row")
    facts = {
        "Counts": f"discrete Gaussian noise of scale {known.scale:.3g} in each cell",
        "Privacy budget": f"{budget.spent}, for {rows} a person ({budget.neighbours})",
    }
    if budget.exact_rows:
        facts["Without protection"] = number_of_rows(budget.exact_rows)
    return facts


def _made(model: Fit | KernelFit, own: Certificate) -> dict[str, str]:
    """Return the settings of a model, as texts."""
    choice = model.alpha_choice_
    c = scorer_of(model).calibration
    if isinstance(model, Fit) and model.made_elsewhere:
        return {
            "renyi": __version__,
            "model": "made elsewhere",
            "calibration": "none" if c is None else c.kind,
            "certificate": own.basis,
        }
    seed = model.settings.random_state
    order = str(model.settings.order)
    if isinstance(model, KernelFit):
        kernel = model.kernel_.kernel
        order = f"every order ({kernel.form} kernel, rho {kernel.rho:.4g})"
    settings = {
        "renyi": __version__,
        "rule": model.rule,
        "alpha": f"{choice.alpha:.6g} ({choice.method})",
        "order": order,
        "calibration": "none" if c is None else c.kind,
        "objective": model.settings.objective,
        "class weight": str(model.settings.class_weight or "none"),
        "intercept": "yes" if model.settings.fit_intercept else "no",
        "seed": "none" if seed is None else str(seed),
        "certificate": own.basis,
    }
    digest = model.data_digest_
    if digest is not None:
        settings["digest of the data"] = digest.pairs or digest.classes
    return settings


# ---- what may be there


def _card(card: IntegerScorecard, counted: Certificate | None) -> Entry:
    """Return whole points to add up by hand; texts as the export writes them."""
    (_, *points), totals = tables(card)
    *sentences, bound = card.sentences()
    if counted is not None and counted.doubtful:
        reasons = {capitalised(text) for text in card.certificate.warnings}
        sentences = [text for text in sentences if text not in reasons]
        bound = "No useful guarantee follows from pair counts for this card."
    return {
        "sentences": [*sentences, bound],
        "points": [[*row] for row in points],
        "totals": [[*row] for row in totals],
    }


def _path(path: PathResult) -> list[Entry]:
    """Return the features in the order of entry, with the guarantee up to each."""
    steps = []
    for k, (feature, doubtful) in enumerate(
        zip(path.entries, path.doubtful, strict=True)
    ):
        figures = {
            "gamma": path.gamma[k],
            "bound": path.bounds["map"][k],
            "hgr": path.hgr[k],
        }
        plain = {
            key: None if doubtful or np.isnan(value) else float(value)
            for key, value in figures.items()
        }
        steps.append({"feature": feature, **plain})
    return steps


def _heldout(card: Scorer, c: Certificate, X: object, y: ArrayLike) -> Entry:
    """Return sums over held-out rows; an unknown class has no probability."""
    rows = read_rows(card, X, y)
    K = card.n_classes
    known = rows.y != UNKNOWN
    truth = rows.y[known]
    p = card.probabilities(rows.codes[:, known])
    answers = decide(card.mapped.estimates(rows.codes))
    confusion = np.zeros((K + 1, K), np.int64)
    np.add.at(confusion, (np.where(known, rows.y, K), answers), 1)
    probability = p.max(axis=1)
    hit = p.argmax(axis=1) == truth
    if K == 2:
        probability = p[:, 1]
        hit = truth == 1
    both = K == 2 and 0 < hit.sum() < len(hit)
    return {
        "rows": len(rows.y),
        "unknown": int((~known).sum()),
        "certificate": c.to_dict(),
        "confusion": confusion[: K + int(not known.all())].tolist(),
        "by_class": _by_class(card, confusion),
        "bins": _bins(probability, hit),
        "log_loss": float(log_losses(p[np.arange(len(truth)), truth]).mean()),
        "auc": [*auc(probability, hit)] if both else None,
    }


def _by_class(card: Scorer, confusion: NDArray[np.int64]) -> list[Entry]:
    """Return the share of the rows of each class that were wrong."""
    totals = confusion.sum(axis=1)
    return [
        {
            "class": label_text(label),
            "rows": int(totals[k]),
            "error": float(1 - confusion[k, k] / totals[k]) if totals[k] else None,
        }
        for k, label in enumerate(card.classes)
    ]


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


def _bins(p: Floats, hit: NDArray[np.bool_]) -> list[Entry]:
    """Return rows of similar probability together, some in each."""
    count = min(max(len(p) // _BIN_ROWS, 1), _BINS)
    curve = zip(*calibration_curve(p, hit, count), strict=True)
    return [
        {
            "rows": int(rows),
            "probability": round(float(predicted), 6),
            "share": round(float(observed), 6),
        }
        for rows, predicted, observed in curve
    ]


def _worst(bounds: BoundReport) -> Entry | None:
    """Return the likeliest outcomes of the distribution that e* was shown by.

    None that stands for few rows: counts may settle the very rows of a small table.
    """
    worst = getattr(bounds.minimax, "worst_distribution", None)
    if worst is None:
        return None
    frame = worst.frame()
    rows = [
        [*map(_cell_text, cells), at_least(mass)]
        for *cells, mass in frame[:_OUTCOMES].itertuples(index=False)
        if mass * bounds.certificate.n > FEW - 1e-6
    ]
    return {
        "error": worst.bayes_error,
        "outcomes": len(frame),
        "head": [*map(str, frame.columns)],
        "rows": rows,
    }


def _cell_text(cell: Label) -> str:
    missing = cell is None or cell != cell
    return MISSING_TEXT if missing else label_text(cell)
