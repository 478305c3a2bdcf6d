"""The command fit: train and certify a classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from renyi import __version__, rules
from renyi.certificates.record import Certificate
from renyi.cli import inputs, output, streams
from renyi.cli.fit_text import fit_text
from renyi.cli.inputs import Rows
from renyi.cli.output import Args, Facts, Recorded
from renyi.cli.parser import SMALL
from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import table_bytes
from renyi.encoding.columns import label_text
from renyi.encoding.rows import TrainingRows
from renyi.endings import MARGINALS
from renyi.estimators.model import RenyiModel
from renyi.files import same_file
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard, by_importance
from renyi.streaming.counted_rows import CountedRows
from renyi.warnings import warn

_UNKNOWN = "The rows were counted as they were read, so the error on them is not known."
_BY_COUNTS = "alpha was chosen by generalised cross-validation, not leave-one-out."
_NO_ROOM = (
    "The codes of the rows need more room than there is for temporary files: name a "
    "folder with more in TMPDIR."
)
_TOP = 10


def run(args: Args, recorded: Recorded) -> None:
    """Train a classifier and certify it."""
    from_counts = args.file.endswith(MARGINALS)
    may_write = args.marginals or (args.marginals is None and not from_counts)
    prefix = output.prefix_of(args, may_write)
    settings = {
        "order": args.order or 1,
        "alpha": args.alpha,
        "rule": args.rule,
        "fit_intercept": not args.no_intercept,
        "class_weight": args.class_weight,
        "random_state": args.seed,
        "calibration": None if args.calibration == "none" else args.calibration,
        "objective": args.objective,
    }
    if args.confidence is not None:
        found = _cross_fit(args, settings, recorded)
        if found is None:
            return
        clf, facts, source = found
    elif args.method is not None:
        raise ValueError("--method is for --confidence: add it, or leave both out.")
    else:
        clf = RenyiModel(**settings)
        clf._class_conditional = args.class_conditional
        streamed = streams.is_streamed(args, clf.order)
        facts, source = (_train_on_stream if streamed else train)(args, clf)
    m = _marginals_to_write(args, clf, source)
    if prefix is not None and m is None:
        place = Path(prefix + MARGINALS)
        other = Path(args.file)
        if place.is_file() and not same_file(place, other):
            warn(
                f"{place} was not overwritten: its marginals are not those of this "
                "model. Pass --marginals to replace them."
            )
    text = partial(fit_text, c=clf.certificate_)
    output.keep_model(args, clf, m, facts, text, recorded)


def train(args: Args, estimator: Any) -> tuple[Facts, Rows | Marginals]:
    """Train a classifier or a selector; return the facts, and what it learned from."""
    if args.file.endswith(MARGINALS):
        m = inputs.chosen_marginals(args)
        inputs.check_missing_class(m, args.file)
        if args.order not in (None, m.order):
            raise ValueError(
                f"--order {args.order} does not fit {args.file}, which has marginals "
                f"of order {m.order}: leave it out, or count again with 'renyi "
                f"marginals build TABLE --order {args.order}'."
            )
        if args.unseen is not None:
            settings = dataclasses.replace(m.settings, unseen=args.unseen)
            m = dataclasses.replace(m, settings=settings)
        estimator.order = m.order
        return _train_on_counts(estimator, m), m
    if streams.is_too_large(args, estimator.order):
        return _train_on_stream(args, estimator)
    encoder = inputs.encoder_of(args)
    rows = inputs.usable_rows(args, encoder)
    estimator.encoder = encoder
    estimator.fit(rows.X, rows.y, rows.weights)
    inputs.warn_of_labels(estimator.encoder_.single.columns)
    error = rows.error(estimator)
    return _fit_facts(estimator, rows.target, rows.shares(), error), rows


def _cross_fit(
    args: Args, settings: dict[str, Any], recorded: Recorded
) -> tuple[RenyiModel, Facts, Rows | Marginals] | None:
    """Train on halves of the rows that certify each other; a mixture is told at once.

    All that is learned from rows is learned inside the halves: no column is dropped.
    """
    from renyi.estimators.classifier import RenyiClassifier
    from renyi.estimators.crossfit_classifier import CrossFitClassifier

    _check_rows_in_memory(args, settings["order"])
    encoder = inputs.encoder_of(args)
    rows = inputs.read_rows(args, encoder)
    inputs.warn_of_identifiers(rows.X)
    method = args.method or "average"
    safe = CrossFitClassifier(
        RenyiClassifier(**settings, encoder=encoder),
        method=method,
        confidence=args.confidence,
        random_state=args.seed or 0,
    ).fit(rows.X, rows.y)
    inputs.warn_of_labels(safe.halves_[0].encoder_.single.columns)
    error = rows.error(safe)
    if method == "average":
        clf = safe.classifier_
        return clf, _fit_facts(clf, rows.target, rows.shares(), error), rows
    c = safe.certificate_
    first = safe.halves_[0]
    facts = _fit_facts(first, rows.target, rows.shares(), error)
    facts |= {"method": method, "certificate": certificate_facts(c), "rows": c.n}
    facts |= dict.fromkeys(("loo_error", "risk")) | {"important": None}
    pairs = zip(["", *args.argv], args.argv, strict=False)
    argv = ["average" if before == "--method" else text for before, text in pairs]
    argv = [text.replace("--method=mixture", "--method=average") for text in argv]
    again = output.command(argv)
    facts["next"] = f"{again} --out PREFIX   (one scorecard, which can be saved)"
    output.show(args, facts, partial(fit_text, c=c), recorded)
    return None


def _check_rows_in_memory(args: Args, order: int) -> None:
    """Refuse what has no rows to split, or of which nothing is proven."""
    if args.weight is not None:
        raise ValueError(
            "--weight cannot be used with --confidence: the certificate is proven for "
            "rows that were drawn independently and have equal weights. Leave one of "
            "them out."
        )
    if args.method == "mixture" and args.out is not None:
        raise ValueError(
            "--method mixture has two scorecards, but a model file holds one: leave "
            "out --out, or use --method average."
        )
    if args.file.endswith(MARGINALS):
        raise ValueError(
            f"--confidence needs rows to split, but {args.file} holds marginals: "
            "'renyi certify --halves A.renyi B.renyi' takes those of two halves."
        )
    if streams.is_streamed(args, order) or streams.is_too_large(args, order):
        raise ValueError(
            "--confidence needs the rows in memory: name one file that fits into it, "
            "without --where, --sql and --table, or count two halves and use 'renyi "
            "certify --halves'."
        )


def _train_on_stream(args: Args, estimator: Any) -> tuple[Facts, Marginals]:
    """Train on rows that are not held in memory, as on rows that are."""
    within = estimator._class_pairs_for() is not None
    encoder = inputs.encoder_of(args)
    with CountedRows() as rows:
        m = streams.streamed_marginals(args, encoder, within, False, rows)
        inputs.warn_of_labels(m.encoder.columns)
        in_database = streams.in_database(args)
        alpha, kind = (getattr(estimator, n, None) for n in ("alpha", "calibration"))
        needed = alpha == "loo" or kind in ("temperature", "affine")
        if rows.lost and needed and not in_database:
            raise ValueError(_NO_ROOM)
        if rows.lost or in_database:
            texts = [_UNKNOWN, *[_BY_COUNTS] * (alpha == "auto")]
            if not in_database:
                texts += ["Probabilities are not calibrated.", _NO_ROOM]
            warn(" ".join(texts))
            return _train_on_counts(estimator, m), m
        kept = streams.KeptRows(m, rows)
        block = estimator._fit_counted(m, kept.joined)
        error = _error(estimator, kept.blocks() if block is None else [block])
    return _fit_facts(estimator, m.target, _shares(m), error), m


def _error(estimator: Any, blocks: Iterable[TrainingRows]) -> float:
    """Return the share of rows that a model of single columns answers wrongly."""
    clf = getattr(estimator, "classifier_", estimator)
    wrong = 0.0
    total = 0.0
    card = clf.scorecard_.of_rule(clf.rule)
    for block in blocks:
        codes = block.codes[block.encoder.columns.places(clf.encoder_.feature_names)]
        t = card.estimates(codes)
        answers = rules.answers(t, codes, clf.rule, clf.random_state)
        wrong += float(block.weights @ (answers != block.y))
        total += float(block.weights.sum())
    return wrong / total


def _train_on_counts(estimator: Any, m: Marginals) -> Facts:
    estimator.fit_marginals(m)
    return _fit_facts(estimator, m.target, _shares(m))


def _shares(m: Marginals) -> dict[str, float]:
    """Return the share of each class."""
    pairs = zip(m.classes, m.class_probabilities, strict=True)
    return {label_text(label): float(p) for label, p in pairs}


def _marginals_to_write(
    args: Args, clf: RenyiModel, source: Rows | Marginals
) -> Marginals | None:
    """Return the marginals to write, if any; a warning says if they are too large."""
    if args.file.endswith(MARGINALS):  # written again only if asked for
        return source if args.marginals and isinstance(source, Marginals) else None
    if args.out is None or args.marginals is False:
        return None
    sizes = [*clf.encoder_.columns.sizes.tolist(), len(clf.classes_)]
    size = table_bytes(sizes, 0, clf.certificate_.n * len(sizes) ** 2)
    # What the certificate rests on is written, too: else they would not prove it.
    within = args.class_conditional or clf._class_pairs_for() is not None
    size += table_bytes(sizes, len(clf.classes_)) * within
    if args.marginals is None and size >= SMALL:
        warn(
            f"The marginals were not written: their counts take {size / 1e6:,.0f} MB. "
            "Pass --marginals to write them anyway."
        )
        return None
    m = clf.marginals_
    if isinstance(source, Marginals):
        kept = source.class_counts if within else None
        m = dataclasses.replace(source, class_counts=kept)
    elif m is None or (m.class_counts is not None) != within:
        m = source.marginals(clf.encoder_, within, clf.order)
    return inputs.with_source(m, args.files)


# ---- facts


def _fit_facts(
    estimator: Any, target: str, shares: dict[str, float], error: float | None = None
) -> Facts:
    """Return what was learned, as plain values."""
    clf: RenyiModel = getattr(estimator, "classifier_", estimator)
    choice = clf.alpha_choice_
    certificate = clf.certificate_
    card = clf.scorecard_
    return {
        "renyi": __version__,
        "target": target,
        "rows": certificate.n,
        "features": len(clf.encoder_.columns),
        "categories": certificate.n_indicators,
        "classes": shares,
        "rule": clf.rule,
        "objective": clf.objective,
        "alpha": float(choice.alpha),
        "alpha_method": choice.method,
        "calibration": None if card.calibration is None else card.calibration.kind,
        "loo_error": choice.error,
        "risk": choice.risk,
        "training_error": error,
        "certificate": certificate_facts(certificate),
        "important": _important(card.mapped),
    }


def certificate_facts(certificate: Certificate) -> Facts:
    """Return a certificate as plain values, with whether it is doubtful."""
    ranking = {"auc": certificate.auc, "any_prevalence": certificate.any_prevalence}
    return {**certificate.to_dict(), **ranking, "doubtful": certificate.doubtful}


def _important(card: Scorecard) -> list[Facts]:
    """Return the features that matter most, and what in them speaks for each class.

    A feature's importance is the standard deviation of its points. Of its categories
    the one that moves a class's score most counts, rare ones less: points above the
    feature's mean times the root of the share of rows.
    """
    sizes = card.encoder.columns.sizes
    starts = offsets(card.encoder.columns.sizes)
    order = by_importance(card)
    matter = order[(sizes[order] > 1) & (card.importance[order] > 0)][:_TOP]
    return [
        {
            "feature": str(card.encoder.columns.names[j]),
            "importance": float(card.importance[j]),
            "speaks_for": _speaks_for(card, j, slice(starts[j], starts[j + 1])),
        }
        for j in matter.tolist()
    ]


def _speaks_for(card: Scorecard, j: int, span: slice) -> list[Facts]:
    points = card.per_class(card.z.reshape(len(card.z), -1)[span])
    above = points - card.per_class(card.mean_points[[j]])
    weight = np.sqrt(card.counts[span] / max(card.counts[span].sum(), 1))
    strongest = (above * weight[:, None]).argmax(axis=0)
    texts = card.encoder.columns[j].levels.texts
    labels = map(label_text, card.classes)
    entries = [
        {"class": label, "category": texts[k], "points": float(points[k, y])}
        for y, (label, k) in enumerate(zip(labels, strongest, strict=True))
        if above[k, y] > 0
    ]
    return sorted(entries, key=lambda entry: -entry["points"])
