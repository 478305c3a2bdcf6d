"""What the command fit prints: what was learned, the errors, and the certificate.

A bound that says little about new rows is not printed; the leave-one-out estimate is
printed in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from renyi.certificates.error_table import (
    ALWAYS,
    LEAVE_ONE_OUT,
    SINGLE,
    ErrorRow,
    baseline,
    error_table,
    pairs_text,
)
from renyi.certificates.record import Certificate
from renyi.certificates.text import ranking_lines, rule_lines
from renyi.cli import output
from renyi.cli.output import Facts, bullets, indented
from renyi.encoding.columns import short
from renyi.formatting import WIDTH, at_most, number_of_rows, percent, printable, wrapped

_NAME = 26  # of a feature: leaves room for two classes with their points
_PROBABILITIES = {
    None: "the nearest ones to the scores",
    "temperature": "one temperature, fitted to leave-one-out scores",
    "affine": "an affine map of the scores, fitted to leave-one-out scores",
    "discriminant": "linear discriminant of the scores, from pair counts alone",
}
_METHODS = {
    "given": "as given",
    "loo": "chosen by leave-one-out",
    "gcv": "chosen by generalised cross-validation",
}


def fit_text(
    facts: Facts,
    c: Certificate,
    more: Sequence[str] = (),
    heldout: Certificate | None = None,
) -> str:
    """Return the facts of a fit as plain text; `more` are paragraphs of a selection."""
    blocks = [_learned(facts), _errors(facts, c)]
    if heldout is not None:
        blocks.append(certificate_text(heldout))
    blocks += [certificate_text(c), _features(facts["important"])]
    blocks += [[text] for text in more]
    return output.joined(blocks, facts)


def _learned(facts: Facts) -> list[str]:
    shares = sorted(facts["classes"].items(), key=lambda pair: -pair[1])
    classes = [f"{one_line(label, 30)} {percent(share)}" for label, share in shares]
    if len(classes) > 6:
        classes = [*classes[:6], f"and {len(classes) - 6} more"]
    size = f"{facts['features']:,} with {facts['categories']:,} categories"
    alpha = f"{facts['alpha']:.4g}, {_METHODS.get(facts['alpha_method'], '')}"
    return [
        f"Learned to predict {facts['target']!r} from {number_of_rows(facts['rows'])}.",
        wrapped(", ".join(classes), "  classes   ", " " * 12),
        f"  features  {size}",
        f"  alpha     {alpha}",
        f"  rule      {facts['rule']}",
        *(["  objective ranking"] if facts["objective"] == "ranking" else []),
        f"  proba     {_PROBABILITIES[facts['calibration']]}",
    ]


def _errors(facts: Facts, c: Certificate) -> list[str]:
    """Return the estimate, the error on the training rows, and the baselines."""
    table = error_table(c)
    baselines = table.of_kind("baseline") or [_most_frequent(facts)]
    shares = {_estimate_text(row): row.value for row in table.of_kind("estimate")}
    shares[f"on these rows (rule {c.rule})"] = facts["training_error"]
    shares |= {_baseline_text(row): row.value for row in reversed(baselines)}
    lines = [
        f"  {text:<46} {percent(share):>8}"
        for text, share in shares.items()
        if share is not None
    ]
    if c.basis == "marginals":
        lines += _no_help(facts, c, baselines[0])
        lines += _no_estimate(facts, c)
    return ["Errors to expect", *lines]


def _most_frequent(facts: Facts) -> ErrorRow:
    """Return the baseline of a certificate that has none: the most frequent class."""
    label, share = max(facts["classes"].items(), key=lambda pair: pair[1])
    return baseline(ALWAYS, label, 1 - share)


def _estimate_text(row: ErrorRow) -> str:
    if row.name == LEAVE_ONE_OUT:
        return "on new rows (leave-one-out, rule map)"
    return "on new rows (each half by the other's model)"


def _baseline_text(row: ErrorRow) -> str:
    if row.name == SINGLE:
        return f"on these, by {_quoted(row.about, 25)} alone"
    return f"on these, always {_quoted(row.about, 24)}"


def _no_help(facts: Facts, c: Certificate, always: ErrorRow) -> list[str]:
    """Say so if always answering one class is as good on the training rows."""
    error = facts["training_error"]
    assert always.value is not None
    if c.rule != "map" or error is None or error <= always.value - 1e-9:  # rounding
        return []
    text = (
        "The features do not help this rule: always answering "
        f"{_quoted(always.about, 24)} errs no more often on these rows. To rank the "
        "rows, or to find those of rare classes, see --objective ranking and "
        "--class-weight balanced."
    )
    return [indented(text)]


def _no_estimate(facts: Facts, c: Certificate) -> list[str]:
    """Say what is known of new rows where no error was estimated."""
    if facts["loo_error"] is not None:
        return []
    text = "There is no estimate for new rows: test the model on unseen rows."
    if facts["risk"] is not None:
        close = facts["risk"] < 1.05 * c.gamma
        text = (
            f"The risk (half the squared error of the scores) is {c.gamma:.4f} on "
            f"these rows and {facts['risk']:.4f} on new ones, by generalised "
            f"cross-validation{': expect about the same errors' * close}."
        )
    return [indented(text)]


def certificate_text(c: Certificate) -> list[str]:
    """Return the lines of a certificate and what it means; no bare bound."""
    if c.basis != "marginals":
        # Lines that are too long are broken, and keep their indentation.
        lines = str(c).splitlines()
        return [wrapped(line, "", line[: -len(line.lstrip())]) for line in lines]
    if c.doubtful:
        return _doubtful(c)
    counts = pairs_text(c, "pair counts")
    counts = counts if c.order == 1 else f"counts of {counts}"
    lines = [f"Certificate: on every population with these {counts}", *rule_lines(c)]
    if len(c.steps) > 1:
        steps = ", ".join(f"{step.name} {at_most(step.upper, 1)}" for step in c.steps)
        lines.append(indented(f"Rule {c.rule}: {steps}."))
    lines += map(indented, ranking_lines(c))
    meaning = _meaning(c, pairs_text(c))
    texts = [f"Meaning: {meaning}", *(f"Note: {text}" for text in c.warnings)]
    return [*lines, *map(indented, texts)]


def _meaning(c: Certificate, beyond: str) -> str:
    """Say what the guarantee is worth next to the baseline."""
    always = error_table(c).always
    assert always is not None
    assert always.value is not None
    bound = c.bounds[c.rule]
    sharp = c.bounds["sharp"]
    if bound >= always.value:
        text = (
            "the closed form of this rule is no better than always answering "
            f"{always.about!r} ({percent(always.value)})."
        )
        if c.order == 1:  # exact worst cases are known of single columns
            text += " The exact worst case may be far lower: certify with --exact."
        if sharp < always.value:
            text += f" The closed form of --rule sharp is {at_most(sharp, 1)}."
        return text
    text = (
        f"however the columns depend on each other beyond {beyond}, this model is "
        f"wrong on at most {at_most(bound, 1)} of a population with these counts."
    )
    if c.rule == "map" and sharp < bound:
        text += (
            " The closed form of --rule sharp, which answers at random where it is "
            f"unsure, is {at_most(sharp, 1)}."
        )
    return f"{text} If the counts themselves change, certify the model again."


def _doubtful(c: Certificate) -> list[str]:
    head = "No bound is shown, because"
    if c.loo_error is not None:
        estimate = f"Leave-one-out estimate for new rows: {percent(c.loo_error)}"
        head = f"{estimate} errors. {c.trust} {head}"
    advice = (
        "More rows, fewer columns or merged labels (--min-count) would make the bound "
        "informative about new rows."
    )
    return ["Certificate", indented(head), *bullets(c.warnings), indented(advice)]


def _features(entries: list[Facts]) -> list[str]:
    if not entries:
        return ["No feature matters: every row gets the same score."]
    width = max(len(one_line(entry["feature"], _NAME)) for entry in entries)
    width = max(width, len("feature"))
    lines = [
        "Features that matter most (importance: how far they move the score)",
        f"  {'feature':<{width}}  importance  favours",
    ]
    for entry in entries:
        name = one_line(entry["feature"], width)
        head = f"  {name:<{width}}  {entry['importance']:10.3f}  "
        lines.append(head + _arrows(entry["speaks_for"], WIDTH - len(head)))
    return lines


def _arrows(entries: list[Facts], room: int) -> str:
    """Name as many classes as fit in a line, the strongest first, with their points."""
    text = ""
    for entry in entries:
        points = f" {entry['points']:+.2f}"
        more = f"{one_line(entry['class'], 20)}: {one_line(entry['category'], 20)}"
        more = one_line(more, room - len(points)) + points
        longer = f"{text}, {more}" if text else more
        if text and len(longer) > room:
            break
        text = longer
    return text


def _quoted(text: str, width: int) -> str:
    return repr(short(" ".join(text.split()), width))


def one_line(text: str, width: int) -> str:
    """Return a name or label as it is shown, cut where it is too long."""
    return short(printable(" ".join(text.split())), width)
