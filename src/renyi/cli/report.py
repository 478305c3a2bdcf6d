"""A model to look at (report): a page of one file, and the same as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from renyi.cli import inputs, output
from renyi.cli.certify import bounds
from renyi.cli.output import Facts, Recorded
from renyi.cli.parser import Args
from renyi.cli.predict import heldout_rows
from renyi.fitting.kernel import KernelFit
from renyi.report.build import report
from renyi.report.page import ENDINGS, Report, page_place, record_place
from renyi.selection import selection_path
from renyi.sources.files import existing
from renyi.sources.layouts import OPTIONS

_MADE = ("date", "command")  # lines of a log about the training of a model


def run(args: Args, recorded: Recorded) -> None:
    """Write the page of a model, and the record behind it."""
    places = report_places(args)
    inputs.check_time_limit(args)
    if args.rows is None:
        names = ("target", *OPTIONS)
        inputs.check_not_given(args, names, "is for --rows: leave it out")
    made = {**_log_of(args.model), "report": output.command(args.argv)}
    show_report(args, _report(args, made), places, recorded)


def report_places(args: Args) -> tuple[Path, Path]:
    """Return where the page and its record go, checked."""
    page = args.out or str(page_place(existing(args.model)))
    place = output.check_place(args, page, ENDINGS)
    return place, output.check_place(args, str(record_place(place)))


def show_report(
    args: Args, made: Report, places: tuple[Path, Path], recorded: Recorded
) -> None:
    """Write the page and its record, and print a summary."""
    page, record = places
    made.save(page)
    written = {"page": str(page), "record": str(record)}
    facts: Facts = {"summary": str(made), "written": written}
    output.show(args, facts, _text, recorded)


def _text(facts: Facts) -> str:
    written = facts["written"]
    page = f"Wrote {written['page']} (open it in a browser) and {written['record']}"
    return "\n".join([facts["summary"], "", page])


def _report(args: Args, made: dict[str, str]) -> Report:
    clf = inputs.load_any_model(args.model)
    if isinstance(clf, KernelFit):
        return _report_of_rows(args, clf, made)
    m: Any = inputs.own_marginals(args, clf)
    if m is None and clf.made_elsewhere:
        raise ValueError(
            f"{args.model} is a scorecard alone, and its report needs pair counts: "
            f"name them ('renyi report {args.model} COUNTS.renyi')."
        )
    if m is None and (args.path or args.level in ("lp", "exact")):
        option = "--path" if args.path else "--level"
        raise ValueError(
            f"{option} needs the pair counts that {args.model} was trained on, and "
            f"{inputs.beside(args.model)} is missing or has others: name them after "
            "MODEL."
        )
    more: dict[str, Any] = {}
    if args.level in ("lp", "exact"):
        more["bounds"] = bounds(args, clf, m)
    if args.path:
        more["path"] = selection_path(m)
    if args.rows is not None:
        file = inputs.opened_rows_file(args)
        more["heldout"] = heldout_rows(clf, args.model, file, args.target)
    return report(clf, m, title=args.title, made=made, **more)


def _report_of_rows(args: Args, fit: KernelFit, made: dict[str, str]) -> Report:
    """Return the report of a model of every order, which has no pair counts."""
    why = f"is for scorecards, and {args.model} is a model of every order: leave it out"
    names = ["file", "level", "path", "time_limit"]
    inputs.check_not_given(args, names, why, file="MARGINALS")
    heldout = None
    if args.rows is not None:
        file = inputs.opened_rows_file(args)
        heldout = heldout_rows(fit, args.model, file, args.target)
    return report(fit, title=args.title, made=made, heldout=heldout)


def _log_of(model: str) -> dict[str, str]:
    """Return date and command from the log of a model."""
    place = Path(model).with_suffix(".log")
    if not place.is_file():
        return {}
    with place.open(encoding="utf-8", errors="replace") as stream:
        head = [stream.readline(10_000).split(None, 1) for _ in range(len(_MADE) + 1)]
    return {line[0]: line[1].strip() for line in head if line and line[0] in _MADE}
