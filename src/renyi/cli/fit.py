"""The command fit: train, certify, and say what was learned, as text or as JSON.

A bound that says little about new rows is not printed at all; the leave-one-out
estimate stands in its place.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from renyi import __version__
from renyi.certificates.record import Certificate
from renyi.certificates.text import rule_lines
from renyi.cli import streamed
from renyi.cli.inputs import (
    Rows,
    check_missing_class,
    chosen_marginals,
    class_shares,
    encoder_of,
    order_of,
    usable_marginals,
    usable_rows,
    with_source,
)
from renyi.cli.output import (
    MARGINALS,
    SMALL,
    Recorded,
    log_text,
    model_files,
    next_step,
    notes_of,
    prefix_of,
    print_json,
    write_model,
)
from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT, label_text
from renyi.estimators.classifier import RenyiClassifier
from renyi.figures import at_most, percent, wrapped
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard
from renyi.selection import short
from renyi.warnings import warn

_MEMORY = 1_000_000_000  # bytes of rows that are held in memory
_WIDTH = 80
_TOP = 10
_NAME = 26  # of a feature: leaves room for two classes with their points
_METHODS = {
    "given": "as given",
    "loo": "chosen by leave-one-out",
    "gcv": "chosen by generalised cross-validation",
}

Facts = dict[str, Any]


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Train a classifier and certify it."""
    from_counts = args.file.endswith(MARGINALS)
    may_write = args.marginals or (args.marginals is None and not from_counts)
    prefix = prefix_of(args, may_write)
    clf = RenyiClassifier(
        order=args.order or 1,
        alpha=args.alpha,
        rule=args.rule,
        fit_intercept=not args.no_intercept,
        class_weight=args.class_weight,
        random_state=args.seed,
    )
    if streamed.requested(args, clf.order, _MEMORY):
        facts, m = _fit_stream(args, clf)
    elif from_counts:
        facts, m = _fit_marginals(args, clf)
    else:
        facts, m = _fit_rows(args, clf)
    if prefix is not None:
        facts["written"] = model_files(prefix, m)
        if m is None:
            _warn_of_others(args.file, Path(prefix + MARGINALS))
    facts["next"] = next_step(args, prefix)
    facts["notes"] = notes_of(recorded)
    text = fit_text(facts, clf.certificate_)
    if prefix is not None:
        write_model(prefix, clf, m, log_text(args, clf, text, recorded))
    if args.json:
        source = args.file if len(args.files) == 1 else args.files
        print_json({"source": source, **facts})
    else:
        print(text)


def _warn_of_others(source: str, place: Path) -> None:
    """Warn of marginals that lie where those of the model would, but are of another."""
    if place.is_file() and not (Path(source).exists() and place.samefile(source)):
        warn(
            f"{place} was left as it is: its marginals are not those of this model. "
            "--marginals replaces them."
        )


def _fit_rows(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[Facts, Marginals | None]:
    """Train on a table; return the facts, and the marginals to write."""
    encoder = encoder_of(args)
    clf.set_params(encoder=encoder)
    rows = usable_rows(args, encoder)
    clf.fit(rows.X, rows.y, rows.weights)
    facts = fit_facts(clf, rows.target, rows.shares(), rows.error(clf))
    if not _to_write(args, clf):
        return facts, None
    return facts, with_source(_counts(args, clf, rows), [args.file])


def _counts(args: argparse.Namespace, clf: RenyiClassifier, rows: Rows) -> Marginals:
    m = clf.marginals_
    if m is None or (m.class_counts is not None) != args.class_conditional:
        return rows.marginals(clf.encoder_, args.class_conditional, clf.order)
    return m


def _fit_stream(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[Facts, Marginals | None]:
    """Train on the counts of rows that are not held in memory."""
    within = args.class_conditional or args.class_weight is not None
    m = streamed.marginals(args, encoder_of(args), within)
    m = usable_marginals(m, args.file or "the query")
    chosen = " alpha was chosen by generalised cross-validation, not leave-one-out."
    warn(
        "The rows were counted as they were read, so the error on them is not known."
        + chosen * (args.alpha == "auto")
    )
    facts = _train(clf, m)
    if not _to_write(args, clf):
        return facts, None
    if not args.class_conditional:
        m = dataclasses.replace(m, class_counts=None)
    return facts, with_source(m, args.files)


def _fit_marginals(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[Facts, Marginals | None]:
    """Train on marginals alone; they are written again only if asked for."""
    m = chosen_marginals(args)
    check_missing_class(m, args.file)
    if args.unseen is not None:
        settings = dataclasses.replace(m.settings, unseen=args.unseen)
        m = dataclasses.replace(m, settings=settings)
    clf.set_params(order=order_of(args, m))
    return _train(clf, m), m if args.marginals else None


def _train(clf: RenyiClassifier, m: Marginals) -> Facts:
    clf.fit_marginals(m)
    return fit_facts(clf, m.target, class_shares(m))


def _to_write(args: argparse.Namespace, clf: RenyiClassifier) -> bool:
    """Whether the marginals are to be written; a warning says if they are too large."""
    if args.out is None or args.marginals is False:
        return False
    K = len(clf.classes_)
    width = int(clf.encoder_.columns.sizes.sum()) + K
    size = 8 * width**2 * (1 + K * args.class_conditional)
    if args.marginals is None and size >= SMALL:
        warn(
            f"The marginals were not written: their counts take {size / 1e6:,.0f} MB. "
            "--marginals writes them all the same."
        )
        return False
    return True


# ---- facts


def fit_facts(
    clf: RenyiClassifier,
    target: str,
    shares: dict[str, float],
    training_error: float | None = None,
) -> Facts:
    """Return what was learned, as plain values."""
    choice, certificate = clf.alpha_choice_, clf.certificate_
    return {
        "renyi": __version__,
        "target": target,
        "rows": certificate.n,
        "features": len(clf.encoder_.columns),
        "categories": certificate.n_indicators,
        "classes": shares,
        "rule": clf.rule,
        "alpha": float(choice.alpha),
        "alpha_method": choice.method,
        "loo_error": choice.error,
        "risk": choice.risk,
        "training_error": training_error,
        "certificate": certificate_facts(certificate),
        "important": important(clf.scorecard_),
    }


def certificate_facts(certificate: Certificate) -> Facts:
    """Return a certificate as plain values, with whether it is doubtful."""
    return {**certificate.to_dict(), "doubtful": certificate.doubtful}


def important(card: Scorecard, top: int = _TOP) -> list[Facts]:
    """Return the features that matter most, and what in them speaks for each class.

    A feature's importance is the standard deviation of its points. Of its categories
    the one that moves a class's score most counts, rare ones less: points above the
    feature's mean times the root of the share of rows.
    """
    sizes, starts = card.encoder.columns.sizes, offsets(card.encoder.columns.sizes)
    order = np.argsort(-card.importance, kind="stable")
    matter = order[(sizes[order] > 1) & (card.importance[order] > 0)][:top]
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
    found = [
        {
            "class": label_text(label),
            "category": texts[k],
            "points": float(points[k, y]),
        }
        for y, (label, k) in enumerate(zip(card.classes, strongest, strict=True))
        if above[k, y] > 0
    ]
    return sorted(found, key=lambda entry: -entry["points"])


# ---- as text


def fit_text(facts: Facts, certificate: Certificate) -> str:
    """Return the facts of a fit as plain text."""
    blocks = [
        _learned(facts),
        _errors(facts, certificate),
        certificate_text(certificate),
        _features(facts["important"]),
    ]
    if facts.get("notes"):
        blocks.append(["Notes", *_bullets(facts["notes"])])
    written = facts.get("written") or {}
    end = [f"Wrote {place} ({what})" for what, place in written.items()]
    end += [f"Next: {facts['next']}"] if facts.get("next") else []
    return "\n\n".join("\n".join(lines) for lines in [*blocks, end] if lines)


def _learned(facts: Facts) -> list[str]:
    what = "rows" if float(facts["rows"]).is_integer() else "units of weight"
    shares = sorted(facts["classes"].items(), key=lambda pair: -pair[1])
    classes = [f"{_short(label, 30)} {percent(share)}" for label, share in shares]
    if len(classes) > 6:
        classes = [*classes[:6], f"and {len(classes) - 6} more"]
    size = f"{facts['features']:,} with {facts['categories']:,} categories"
    alpha = f"{facts['alpha']:.4g}, {_METHODS.get(facts['alpha_method'], '')}"
    return [
        f"Learned to predict {facts['target']!r} from {facts['rows']:,.10g} {what}.",
        wrapped(", ".join(classes), "  classes   ", " " * 12),
        f"  features  {size}",
        f"  alpha     {alpha}",
        f"  rule      {facts['rule']}",
    ]


def _errors(facts: Facts, certificate: Certificate) -> list[str]:
    assert certificate.majority is not None  # as in every certificate of marginals
    assert certificate.one_feature is not None
    label, always = certificate.majority
    feature, alone = certificate.one_feature
    lines = ["Errors to expect"]
    if facts["loo_error"] is not None:
        lines.append(_row("on new rows (leave-one-out, rule map)", facts["loo_error"]))
    if facts["training_error"] is not None:
        where = f"on these very rows (rule {certificate.rule})"
        lines.append(_row(where, facts["training_error"]))
    lines.append(_row(f"on these, by {_short(feature, 25)!r} alone", alone))
    lines.append(_row(f"on these, always {_short(label_text(label), 24)!r}", always))
    if facts["loo_error"] is None:
        lines.append(_indented(_estimate_without_rows(facts)))
    return lines


def _estimate_without_rows(facts: Facts) -> str:
    if facts["risk"] is None:
        return (
            "There is no estimate for new rows: try the model on rows it has not seen."
        )
    gamma = facts["certificate"]["gamma"]
    text = (
        f"The risk (half the squared error of the scores) is {gamma:.4f} on these rows "
        f"and {facts['risk']:.4f} on new ones, by generalised cross-validation"
    )
    close = facts["risk"] < 1.05 * gamma
    return text + (": expect about the same errors." if close else ".")


def certificate_text(certificate: Certificate) -> list[str]:
    """Return the lines of a certificate and what it means; no bare bound."""
    if certificate.basis == "heldout":
        return [_refolded(line) for line in str(certificate).splitlines()]
    if certificate.doubtful:
        return _doubtful(certificate)
    lines = [f"Certificate: on every population with {_counts_text(certificate)}"]
    lines += rule_lines(certificate)
    if len(certificate.steps) > 1:
        steps = (f"{step.name} {at_most(step.upper, 1)}" for step in certificate.steps)
        lines.append(_indented(f"Rule {certificate.rule}: {', '.join(steps)}."))
    notes = (f"Note: {text}" for text in certificate.warnings)
    return [*lines, _indented(_meaning(certificate)), *map(_indented, notes)]


def _counts_text(certificate: Certificate) -> str:
    """Name what was counted, so that bounds of two orders are not taken for alike."""
    if certificate.order == 1:
        return "these pair counts"
    return f"these counts of pairs of {_features_of(certificate.order)}"


def _features_of(order: int) -> str:
    return "pairs of columns" if order == 2 else f"features of {order} columns"


def _meaning(certificate: Certificate) -> str:
    assert certificate.majority is not None
    label, always = certificate.majority
    bound = certificate.bounds[certificate.rule]
    sharp = certificate.bounds["sharp"]
    if bound >= always:
        text = (
            "Meaning: the closed form proves no more of this rule than always "
            f"answering {label_text(label)!r} promises ({percent(always)})."
        )
        if certificate.order == 1:  # exact worst cases are known of single columns
            text += " The exact worst case may be far lower: certify with --exact."
        if sharp < always:
            text += f" The closed form of --rule sharp is {at_most(sharp, 1)}."
        return text
    order = certificate.order
    beyond = "pairs" if order == 1 else f"pairs of {_features_of(order)}"
    text = (
        f"Meaning: however the columns depend on each other beyond {beyond}, this "
        f"model is wrong on at most {at_most(bound, 1)} of a population with these "
        "counts."
    )
    if certificate.rule == "map" and sharp < bound:
        text += (
            " The closed form of --rule sharp, which answers at random where it is "
            f"unsure, is {at_most(sharp, 1)}."
        )
    return f"{text} If the counts themselves change, certify the model again."


def _doubtful(certificate: Certificate) -> list[str]:
    head = "No bound is shown, because"
    if certificate.loo_error is not None:
        head = (
            f"Leave-one-out estimate for new rows: {percent(certificate.loo_error)} "
            f"errors. {certificate.trust} {head}"
        )
    advice = (
        "More rows, fewer columns or merged labels (--min-count) would make the bound "
        "speak of new rows."
    )
    reasons = _bullets(certificate.warnings)
    return ["Certificate", _indented(head), *reasons, _indented(advice)]


def _features(found: list[Facts]) -> list[str]:
    if not found:
        return ["No feature matters: every row gets the same score."]
    width = min(_NAME, max(len(entry["feature"]) for entry in found))
    width = max(width, len("feature"))
    lines = [
        "Features that matter most (importance: how far the score swings)",
        f"  {'feature':<{width}}  importance  speaks for",
    ]
    for entry in found:
        name = _short(entry["feature"], width)
        head = f"  {name:<{width}}  {entry['importance']:10.3f}  "
        lines.append(head + _arrows(entry["speaks_for"], _WIDTH - len(head)))
    return lines


def _arrows(entries: list[Facts], room: int) -> str:
    """Name as many classes as fit in a line, the strongest first, with their points."""
    text = ""
    for entry in entries:
        points = f" {entry['points']:+.2f}"
        more = f"{_short(entry['class'], 20)}: {_short(entry['category'], 20)}"
        more = _short(more, room - len(points)) + points
        longer = f"{text}, {more}" if text else more
        if text and len(longer) > room:
            break
        text = longer
    return text


def _row(text: str, share: float) -> str:
    return f"  {text:<46} {percent(share):>8}"


def _short(text: str, width: int) -> str:
    text = " ".join(text.split()) if text != MISSING_TEXT else text
    return short(text, width)


def _indented(text: str) -> str:
    return wrapped(text, "  ", "  ")


def _refolded(line: str) -> str:
    """Break a line that is too long, keeping its indentation."""
    room = " " * (len(line) - len(line.lstrip()))
    return wrapped(line.lstrip(), room, room)


def _bullets(texts: Iterable[str]) -> list[str]:
    return [wrapped(text, "  - ", "    ") for text in texts]
