"""What the command fit prints: three figures of the error, then what matters most.

All else that is known of the model is printed with ``--details``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from renyi.certificates.error_table import ErrorTable, error_table
from renyi.certificates.left_out import error_interval
from renyi.certificates.record import Certificate
from renyi.certificates.text import detail_lines
from renyi.certificates.three_lines import Advice, quoted, three_lines
from renyi.cli import output
from renyi.cli.output import Facts, indented
from renyi.encoding.columns import short
from renyi.formatting import (
    WIDTH,
    number_of,
    number_of_rows,
    percent,
    printable,
    wrapped,
)

_NAME = 26  # of a feature: leaves room for two classes with their points
_IMPORTANCE = "importance"
_SHOWN = 5e-4  # an importance that is not shown as 0.000
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
    details: bool = False,
) -> str:
    """Return the facts of a fit as plain text; `more` are paragraphs of a selection."""
    table = error_table(c, heldout=heldout)
    blocks = [[_title(facts, c)], _errors(facts, c, table)]
    blocks += [[text] for text in more]
    blocks.append(_features(facts, c))
    if details:
        blocks.append(["Details", *map(detail, details_of(facts, c))])
    if facts["notes"]:
        blocks.append(["Notes", *output.bullets(facts["notes"])])
    blocks.append(output.saved_lines(facts))
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _title(facts: Facts, c: Certificate) -> str:
    size = number_of(facts["features"], "column")
    if "candidates" in facts:
        size = f"{facts['features']:,} of {number_of(facts['candidates'], 'column')}"
    if c.order > 1:
        size = f"{size.replace('column', 'feature')} of {c.order} columns each"
    where = "" if "source" not in facts else f" from {_source(facts['source'])}"
    rows = number_of_rows(facts["rows"])
    return wrapped(f"Model of {facts['target']!r}{where}: {rows}, {size}.")


def _source(source: str | list[str]) -> str:
    """Return where the rows came from, without the password of a database."""
    if not isinstance(source, str):
        return number_of(len(source), "file")
    return "a database" if "://" in source else one_line(source, 40)


def _errors(facts: Facts, c: Certificate, table: ErrorTable) -> list[str]:
    """Return the three figures, with the commands that would improve on them."""
    advice = advice_of(facts.get("advice", {}))
    remarks = []
    unknown = table.estimate is None and table.bound is None
    if unknown and not table.undefined and advice.quote:
        remarks.append(f"  Ask one site to run: {advice.quote}")
        advice = advice._replace(quote="")  # it is advised once
    missed = _missed(facts)
    if "class-weight" not in c.warning_codes and facts["objective"] != "ranking":
        if table.verdict == "no better":
            missed += (
                " To rank the rows, or to find those of rare classes, see --objective "
                "ranking and --class-weight balanced."
            )
        elif missed:
            missed += " To find more of them, see --class-weight balanced."
    if missed:
        remarks.append(indented(missed.strip()))
    return three_lines(table, c, advice, remarks)


def _missed(facts: Facts) -> str:
    """Name the class that is missed most, if clearly on more than half of its rows."""
    figures = facts.get("left_out") or {"by_class": []}
    known = [each for each in figures["by_class"] if each["error"] is not None]
    most = max(known, key=itemgetter("error"), default=None)
    if most is None or error_interval(most["error"], most["rows"])[0] <= 0.5:
        return ""
    name = quoted(most["class"])
    return f"{name} is missed on {percent(most['error'])} of its rows."


def advice_of(commands: dict[str, str]) -> Advice:
    """Return what the command line advises, of which some commands may be missing."""
    return Advice(
        sharp="--rule sharp",
        exact=commands.get("exact", ""),
        quote=commands.get("quote", ""),
        verify="Proved; check it with 'renyi verify'.",
    )


# ---- details


def details_of(facts: Facts, c: Certificate) -> list[str]:
    """Return how the model was trained, all its bounds, and left-out errors."""
    return [*_training(facts), "", *detail_lines(c), *_left_out(facts)]


def _training(facts: Facts) -> list[str]:
    shares = sorted(facts["classes"].items(), key=lambda pair: -pair[1])
    classes = [f"{one_line(label, 30)} {percent(share)}" for label, share in shares]
    if len(classes) > 6:
        classes = [*classes[:6], f"and {len(classes) - 6} more"]
    alpha = f"{facts['alpha']:.4g}, {_METHODS.get(facts['alpha_method'], '')}"
    lines = [
        f"classes        {', '.join(classes)}",
        f"categories     {facts['categories']:,}",
        f"alpha          {alpha}",
        f"rule           {facts['rule']}",
        f"probabilities  {_PROBABILITIES[facts['calibration']]}",
    ]
    if facts["objective"] == "ranking":
        lines.append("objective      ranking")
    if facts["training_error"] is not None:
        wrong = percent(facts["training_error"])
        lines.append(f"training rows  wrong on {wrong}; expect more on new rows")
    return lines


def _left_out(facts: Facts) -> list[str]:
    """Return errors by class, AUC and log loss of left-out rows."""
    figures = facts.get("left_out")
    if not figures:
        return []
    lines = ["", "left-out rows, errors by class"]
    for entry in figures["by_class"]:
        error = "no rows" if entry["error"] is None else percent(entry["error"])
        rows = f"of {round(entry['rows']):,} rows"
        lines.append(f"  {one_line(entry['class'], 24):<24} {error:>7} {rows}")
    area = "" if figures["auc"] is None else f"AUC {figures['auc']:.3f}, "
    return [*lines, f"left-out rows: {area}log loss {figures['log_loss']:.3f}"]


def detail(line: str) -> str:
    """Return a line of the details, indented; continuation lines are indented more."""
    inner = line[: len(line) - len(line.lstrip())]
    return wrapped(line.strip(), f"  {inner}", f"  {inner}  ") if line else ""


# ---- columns


def _features(facts: Facts, c: Certificate) -> list[str]:
    entries = [each for each in facts["important"] if each["importance"] >= _SHOWN]
    what = "Columns" if c.order == 1 else "Features"
    if not entries:
        return [f"No {what.lower()[:-1]} matters: all rows get nearly the same score."]
    one = what.lower()[:-1]
    width = max(len(one_line(entry["feature"], _NAME)) for entry in entries)
    width = max(width, len(one))
    labels = [*facts["classes"]]
    two = len(labels) == 2
    about = f"points for {one_line(labels[1], 24)!r}" if two else "points by class"
    lines = [
        f"{what} that matter most",
        f"  {one:<{width}}  {_IMPORTANCE}   {about}",
    ]
    for entry in entries:
        name = one_line(entry["feature"], width)
        head = f"  {name:<{width}}  {entry['importance']:{len(_IMPORTANCE)}.3f}   "
        room = WIDTH - len(head)
        speaks = entry["speaks_for"]
        if two:
            # Those in favour of the second class come first.
            speaks = sorted(speaks, key=lambda each: each["class"] != labels[1])
            parts = [_signed(each, labels[1]) for each in speaks]
        else:
            parts = [_of_class(each, room) for each in speaks]
        lines.append(head + _fitting(parts, room))
    return lines


def _signed(entry: Facts, second: str) -> str:
    """Return a category with its points for the second of two classes."""
    points = entry["points"] if entry["class"] == second else -entry["points"]
    return f"{one_line(entry['category'], 24)} {points:+.2f}"


def _of_class(entry: Facts, room: int) -> str:
    """Return a class with the category that is most in its favour."""
    points = f" {entry['points']:+.2f}"
    text = f"{one_line(entry['class'], 20)}: {one_line(entry['category'], 20)}"
    return one_line(text, room - len(points)) + points


def _fitting(parts: Sequence[str], room: int) -> str:
    """Return as many parts as fit in a line, the first in any case."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        longer = f"{text}   {part}"
        if len(longer) > room:
            break
        text = longer
    return text


def one_line(text: str, width: int) -> str:
    """Return a name or label as it is shown, cut where it is too long."""
    return short(printable(" ".join(text.split())), width)
