"""Run the command export: write a model as SQL, as points or as a function."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd

from renyi.certificates.error_table import error_table
from renyi.cli import inputs, messages, output
from renyi.cli.output import Recorded
from renyi.cli.parser import EXPORTS, Args
from renyi.encoding.columns import label_text
from renyi.exports import formats, integer_card, points
from renyi.files import encoded, replacing
from renyi.fitting.record import Fit

_TABLES = ("csv", "md")  # of points, without a rule
# Options of only one kind of export.
_SQL = ("table", "label")
_CARD = ("file", "spreadsheet")
_OTHERS = {
    "sql": ("format", "prevalence", *_CARD),
    "points": (*_SQL, "prevalence"),
    "format": (*_SQL, "file"),
}


def run(args: Args, recorded: Recorded) -> None:
    """Write a model for another program."""
    given = [name for name in ("sql", "points") if getattr(args, name)]
    name = given[0] if given else "format"
    why = f"cannot be used with --{name}: leave it out"
    inputs.check_not_given(args, _OTHERS[name], why, file="MARGINALS")
    if name == "sql":
        _sql(args)
    elif name == "points":
        _points(args, recorded)
    else:
        _format(args)


def _sql(args: Args) -> None:
    """Write the score of a model as SQL."""
    place = output.check_out(args, args.out, (".sql",))
    clf = inputs.load_model(args.model)
    known = {label_text(label): label for label in clf.classes_.tolist()}
    if args.label not in (None, *known):
        raise ValueError(
            f"{args.model} has no class {args.label!r}: its classes are "
            f"{', '.join(map(repr, known))}."
        )
    text = clf.scorecard_.to_sql(args.sql, known.get(args.label), table=args.table)
    if args.table is not None:
        messages.print_notes(_other_rule(args, clf))
    _send(place, f"{text}\n")


def _format(args: Args) -> None:
    """Write a model as a table of points or as a function."""
    form, place = _chosen(args, tuple(f for f in EXPORTS if f != "html"), None)
    clf = inputs.load_model(args.model)
    if form not in _TABLES and clf.rule != "map":
        raise ValueError(
            f"{args.model} answers at random, by rule {clf.rule}, but --format {form} "
            "writes rule map: train it with --rule map."
        )
    odds = 1.0 if args.prevalence is None else clf.odds(args.prevalence)
    card = clf.scorecard_
    if form == "csv":
        _send_table(args, place, points.table(card, odds))
    else:
        _send(place, formats.written(card, form, odds))


def _points(args: Args, recorded: Recorded) -> None:
    """Write a card of integer points, certified by pair counts."""
    form, place = _chosen(args, integer_card.FORMATS, "md")
    clf = inputs.load_model(args.model)
    m = inputs.own_marginals(args, clf)
    if m is None and len(clf.classes_) == 2:
        lacking = f"{args.model} is a scorecard alone, and --points needs pair counts"
        if not clf.made_elsewhere:
            lacking = (
                f"--points needs the pair counts that {args.model} was trained on, and "
                f"{inputs.beside(args.model)} is missing or has others"
            )
        raise ValueError(
            f"{lacking}. Name them ('renyi "
            f"export {args.model} COUNTS.renyi --points {args.points}'), or count the "
            f"rows first ('renyi marginals build FILE --target COL --encoder "
            f"{args.model} --out COUNTS.renyi')."
        )
    with inputs.naming(args.model):
        card = clf.scorecard_.rounded(args.points, marginals=m)
        errors = error_table(clf.certificate_, heldout=clf.heldout)
        card = replace(card, errors=errors)
    notes = [*messages.notes_of(recorded), *_other_rule(args, clf)]
    if clf.settings.class_weight is not None:
        notes.append("The threshold has the smallest bound: class weights are ignored.")
    messages.print_notes(notes)
    if form == "csv":
        _send_table(args, place, card.table())
    else:
        _send(place, card.to_text(form))


def _other_rule(args: Args, clf: Fit) -> list[str]:
    """Return a note if the model answers at random, which is not exported."""
    if clf.rule == "map":
        return []
    return [f"The export answers by rule map; {args.model} uses {clf.rule}."]


def _chosen(
    args: Args, among: tuple[str, ...], usual: str | None
) -> tuple[str, Path | None]:
    """Return the format, by --format or the ending of --out, and the output path."""
    form = args.format
    place = None
    endings = {EXPORTS[f]: f for f in among}
    if args.out is not None:
        wanted = (EXPORTS[form],) if form in among else tuple(endings)
        place = output.check_place(args, args.out, wanted)
        form = form or endings[place.suffix]
    form = form or usual
    if form is None:
        raise ValueError("Choose an output: --format, --sql or --points.")
    if form not in among:
        advice = "is for --points" if form == "html" else "cannot be used with --points"
        raise ValueError(f"--format {form} {advice}.")
    if place is None and form in formats.BINARY:
        raise ValueError(f"--format {form} needs --out: a file ({EXPORTS[form]}).")
    if args.spreadsheet and form != "csv":
        raise ValueError("--spreadsheet is for --format csv: leave it out.")
    return form, place


def _send_table(args: Args, place: Path | None, table: pd.DataFrame) -> None:
    """Write a table to a file, or print it."""
    if place is None:
        output.csv_writer(output.print_data, args.spreadsheet)(table)
        return
    with output.writing(place, {}, args.spreadsheet) as write:
        write(table)
    print(f"Wrote {place}", file=sys.stderr)


def _send(place: Path | None, data: str | bytes) -> None:
    """Write text or bytes to a file, or print the text."""
    if place is None:
        output.print_data(str(data))
        return
    with replacing(place) as stream:
        stream.write(encoded(data) if isinstance(data, str) else data)
    print(f"Wrote {place}", file=sys.stderr)
