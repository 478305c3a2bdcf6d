"""What a fit has to say: the same facts as plain text and as JSON.

The certificate is told as `renyi.certification` means it: a bound that says little
about new rows is not printed at all; the leave-one-out estimate stands in its place.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from renyi import __version__
from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT
from renyi.encoding.frame_columns import label_text
from renyi.figures import at_most
from renyi.selection import short

if TYPE_CHECKING:
    from renyi.certification import Certificate
    from renyi.estimators.classifier import RenyiClassifier
    from renyi.scorecard import Scorecard

_WIDTH = 80
_TOP = 10
_NAME = 26  # of a feature: leaves room for two classes with their points
_METHODS = {
    "given": "as given",
    "loo": "chosen by leave-one-out",
    "gcv": "chosen by generalised cross-validation",
}


def facts(
    clf: RenyiClassifier,
    target: str,
    shares: dict[str, float],
    training_error: float | None = None,
) -> dict[str, Any]:
    """Return what was learned, as plain values.

    Parameters
    ----------
    clf : RenyiClassifier
        A fitted classifier.
    target : str
        Name of the target.
    shares : dict
        Share of each class among the rows.
    training_error : float, optional
        Share of errors on the rows it learned from, if they are at hand.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> facts(clf, "party", {"democrat": 0.614, "republican": 0.386})["features"]
    16
    """
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


def certificate_facts(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values, with whether it is doubtful.

    >>> import renyi
    >>> X, y = renyi.datasets.load("promoters")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> certificate_facts(clf.certificate_)["doubtful"]
    True
    """
    return {**certificate.to_dict(), "doubtful": certificate.doubtful}


def important(card: Scorecard, top: int = _TOP) -> list[dict[str, Any]]:
    """Return the features that matter most, and what in them speaks for each class.

    A feature's importance is the standard deviation of its points. Of its categories
    the one that moves a class's score most counts, rare ones less: points above the
    feature's mean times the root of the share of rows.

    >>> import renyi
    >>> card = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes")).scorecard_
    >>> important(card, 1)[0]["feature"]
    'physician-fee-freeze'
    """
    sizes, starts = card.encoder.columns.sizes, offsets(card.encoder.columns.sizes)
    order = np.argsort(-card.importance, kind="stable")
    found = []
    for j in order[(sizes[order] > 1) & (card.importance[order] > 0)][:top].tolist():
        found.append(
            {
                "feature": str(card.encoder.columns.names[j]),
                "importance": float(card.importance[j]),
                "speaks_for": _speaks_for(card, j, slice(starts[j], starts[j + 1])),
            }
        )
    return found


def _speaks_for(card: Scorecard, j: int, span: slice) -> list[dict[str, Any]]:
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


def fit_text(told: dict[str, Any], certificate: Certificate) -> str:
    """Return the summary of a fit as plain text.

    >>> import renyi
    >>> clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes"))
    >>> told = facts(clf, "party", {"democrat": 0.614, "republican": 0.386})
    >>> print(fit_text(told, clf.certificate_).splitlines()[0])
    Learned to predict 'party' from 435 rows.
    """
    blocks = [
        _learned(told),
        _expected(told, certificate),
        certificate_text(certificate),
        _features(told["important"]),
    ]
    if told.get("notes"):
        blocks.append(["Notes", *_bullets(told["notes"])])
    blocks.append(_afterwards(told))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _learned(told: dict[str, Any]) -> list[str]:
    what = "rows" if float(told["rows"]).is_integer() else "units of weight"
    shares = sorted(told["classes"].items(), key=lambda pair: -pair[1])
    classes = [f"{_short(label, 30)} {_percent(share)}" for label, share in shares]
    if len(classes) > 6:
        classes = [*classes[:6], f"and {len(classes) - 6} more"]
    alpha = f"{told['alpha']:.4g}, {_METHODS.get(told['alpha_method'], '')}"
    return [
        f"Learned to predict {told['target']!r} from {told['rows']:,.10g} {what}.",
        *_field("classes", ", ".join(classes)),
        *_field(
            "features", f"{told['features']:,} with {told['categories']:,} categories"
        ),
        *_field("alpha", alpha),
        *_field("rule", told["rule"]),
    ]


def _field(name: str, text: str) -> list[str]:
    return _fold(text, f"  {name:<10}", " " * 12)


def _expected(told: dict[str, Any], certificate: Certificate) -> list[str]:
    assert certificate.majority is not None  # as in every certificate of marginals
    assert certificate.one_feature is not None
    label, always = certificate.majority
    feature, alone = certificate.one_feature
    lines = ["Errors to expect"]
    if told["loo_error"] is not None:
        lines.append(_row("on new rows (leave-one-out, rule map)", told["loo_error"]))
    if told["training_error"] is not None:
        where = f"on these very rows (rule {certificate.rule})"
        lines.append(_row(where, told["training_error"]))
    lines.append(_row(f"on these, by {_short(feature, 25)!r} alone", alone))
    lines.append(_row(f"on these, always {_short(label_text(label), 24)!r}", always))
    if told["loo_error"] is None:
        lines += _estimate_without_rows(told)
    return lines


def _estimate_without_rows(told: dict[str, Any]) -> list[str]:
    if told["risk"] is None:
        return ["  No estimate for new rows: try the model on rows it has not seen."]
    gamma = told["certificate"]["gamma"]
    text = (
        f"The risk (half the squared error of the scores) is {gamma:.4f} on these rows "
        f"and {told['risk']:.4f} on new ones, by generalised cross-validation"
    )
    close = told["risk"] < 1.05 * gamma
    return _wrapped(text + (": expect about the same errors." if close else "."))


def certificate_text(certificate: Certificate) -> list[str]:
    """Return the lines of a certificate and what it means; no bare bound.

    >>> import renyi
    >>> clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes"))
    >>> print(certificate_text(clf.certificate_)[0])
    Certificate: on every population with these pair counts
    """
    if certificate.basis == "heldout":
        return [line for text in str(certificate).splitlines() for line in _plain(text)]
    if certificate.doubtful:
        return _doubtful(certificate)
    lines = [f"Certificate: on every population with {_counts(certificate)}"]
    for rule, bound in certificate.bounds.items():
        mark = "  <- this model" if rule == certificate.rule else ""
        lines.append(f"  rule {rule:<6} errs at most {at_most(bound, 1):>8}{mark}")
    if len(certificate.steps) > 1:
        steps = (f"{step.name} {at_most(step.upper, 1)}" for step in certificate.steps)
        lines += _wrapped(f"Rule {certificate.rule} in steps: {', '.join(steps)}.")
    lines += _wrapped(_meaning(certificate))
    notes = [f"Note: {text}" for text in certificate.warnings]
    return lines + [line for text in notes for line in _wrapped(text)]


def _counts(certificate: Certificate) -> str:
    """Name what was counted, so that bounds of two orders are not taken for alike."""
    if certificate.order == 1:
        return "these pair counts"
    return f"these counts of pairs of {_features_of(certificate.order)}"


def _features_of(order: int) -> str:
    return "pairs of columns" if order == 2 else f"features of {order} columns"


def _plain(text: str) -> list[str]:
    """Break a line that is too long, keeping its indentation."""
    room = " " * (len(text) - len(text.lstrip()))
    return _fold(text.lstrip(), room, room)


def _meaning(certificate: Certificate) -> str:
    assert certificate.majority is not None
    label, always = certificate.majority
    bound = certificate.bounds[certificate.rule]
    sharp = certificate.bounds["sharp"]
    if bound >= always:
        text = (
            "Meaning: the closed form proves no more of this rule than always "
            f"answering {label_text(label)!r} promises ({_percent(always)})."
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
            f" The closed form of --rule sharp, which answers at random where it is "
            f"unsure, is {at_most(sharp, 1)}."
        )
    return f"{text} If the counts themselves change, certify the model again."


def _doubtful(certificate: Certificate) -> list[str]:
    if certificate.loo_error is not None:
        head = (
            f"Leave-one-out estimate for new rows: {_percent(certificate.loo_error)} "
            f"errors. {certificate.trust} No bound is shown, because"
        )
    else:
        head = "No bound is shown, because"
    lines = ["Certificate", *_wrapped(head)]
    lines += _bullets(certificate.warnings)
    advice = (
        "More rows, fewer columns or merged labels (--min-count) would make the bound "
        "speak of new rows."
    )
    return [*lines, *_wrapped(advice)]


def _features(found: list[dict[str, Any]]) -> list[str]:
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


def _arrows(entries: list[dict[str, Any]], room: int) -> str:
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


def _afterwards(told: dict[str, Any]) -> list[str]:
    lines = []
    written = told.get("written") or {}
    for what, place in written.items():
        lines.append(f"Wrote {place} ({what})")
    if told.get("next"):
        lines.append(f"Next: {told['next']}")
    return lines


def _row(text: str, share: float) -> str:
    return f"  {text:<46} {_percent(share):>8}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _short(text: str, width: int) -> str:
    text = " ".join(text.split()) if text != MISSING_TEXT else text
    return short(text, width)


def _wrapped(text: str) -> list[str]:
    return _fold(text, "  ", "  ")


def _bullets(texts: Any) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines += _fold(text, "  - ", "    ")
    return lines


def _fold(text: str, first: str, then: str) -> list[str]:
    """Break a text into lines, never between a number and its percent sign."""
    lines = wrap(
        text.replace(" %", "\N{NO-BREAK SPACE}%"),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]
