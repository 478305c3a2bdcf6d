"""Run an experiment from the command line: ``python -m experiments.table1``.

An experiment is a module with ``OPTIONS``, ``EXTRAS`` (the packages that it needs),
``keys``, ``work``, ``report`` and, if pieces take different times, ``cost``. If it can
run without some packages, ``missing`` names them, and ``possible`` says which pieces
can run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import renyi
from experiments import pieces
from experiments.reports import Report
from renyi.validation import MissingExtraError, install_advice

# What an experiment may need, and the extra that brings it.
_INSTALL = {"matplotlib": "plot", "highspy": "exact", "clarabel": "exact"}


class Option(NamedTuple):
    """An option of an experiment: its default, its help text, the smallest value."""

    default: int | tuple[int, ...] | tuple[str, ...]
    text: str
    least: int = 1


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Run the experiment of that name; return the exit code, 2 for bad input."""
    experiment = import_module(f"experiments.{name}")
    args = _parser(name, experiment).parse_args(argv)
    try:
        _run(name, experiment, args)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(name: str, experiment: Any, args: argparse.Namespace) -> None:
    """Run the missing pieces of an experiment; write and print the results."""
    folder = Path("results", name) if args.out is None else args.out
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder: choose another --out.")
    _check_extras(experiment.EXTRAS)  # now rather than after hours of work
    settings = settings_of(name, experiment, args)
    keys = experiment.keys(settings)
    held = pieces.begin(folder, settings)
    if hasattr(experiment, "possible"):
        keys = [key for key in keys if key in held or experiment.possible(key)]
        for text in experiment.missing():
            _note(text)
    if held:
        _note(f"{_count(held, keys)} were found in {folder} and are not done again.")
    try:
        results = pieces.run(
            folder,
            settings,
            keys,
            experiment.work,
            workers=args.workers,
            cost=getattr(experiment, "cost", None),
        )
    except KeyboardInterrupt:
        finished = pieces.begin(folder, settings)
        count = _count(finished, keys)
        _note(f"{count} are saved in {folder}; run the same command to continue.")
        raise
    report: Report = experiment.report(results, settings)
    report.notes.extend(pieces.made(folder, keys))
    written = [*report.write(folder, settings), folder / pieces.SETTINGS]
    _print(report, settings, [str(place) for place in written], args.json)


def _print(
    report: Report, settings: Mapping[str, Any], written: list[str], as_json: bool
) -> None:
    if not as_json:
        print(report.markdown(settings))
        print("\n".join(f"wrote {name}" for name in written))
        return
    tables = {title: _records(table) for title, table in report.tables.items()}
    found = {**settings, "tables": tables, "notes": report.notes, "written": written}
    print(json.dumps(found, ensure_ascii=False, indent=1))


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _parser(name: str, experiment: Any) -> argparse.ArgumentParser:
    extras = dict.fromkeys(_INSTALL[extra] for extra in experiment.EXTRAS)
    needs = "Needs no extra."
    if extras:
        needs = f"Needs {', '.join(experiment.EXTRAS)}: {install_advice(*extras)}."
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}",
        description=experiment.__doc__.splitlines()[0],
        epilog=f"{needs} Finished pieces are saved: after Ctrl-C, run the same command "
        "to continue. A terminal shows the time left.",
        allow_abbrev=False,
    )
    for option, (default, text, least) in experiment.OPTIONS.items():
        several = isinstance(default, tuple)
        names = several and isinstance(default[0], str)
        shown = f"{default:,}" if isinstance(default, int) else _listed(default)
        parser.add_argument(
            f"--{option}",
            type=_data_set if names else _whole_number(least),
            nargs="+" if several else None,
            default=default,
            metavar="NAME" if names else "N",
            help=f"{text} (default: {shown})",
        )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"folder of the results (default results/{name}); pieces of work that are "
        "finished there are not done again",
    )
    parser.add_argument("--seed", type=_whole_number(0), default=0, metavar="N")
    parser.add_argument(
        "--workers",
        type=_whole_number(1),
        metavar="N",
        help="processes (default: one for each core)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _listed(values: tuple[Any, ...]) -> str:
    """Write defaults in few words.

    >>> _listed((1000, 3000, 10_000))
    '3 from 1,000 to 10,000'
    """
    if isinstance(values[0], str):
        return " ".join(values)
    return f"{len(values)} from {min(values):,} to {max(values):,}"


def _whole_number(least: int) -> Any:
    def read(text: str) -> int:
        value = int(text) if text.lstrip("-").isdigit() else least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number of at least {least}"
            )
        return value

    return read


def _data_set(name: str) -> str:
    try:
        renyi.datasets.path(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _check_extras(extras: Sequence[str]) -> None:
    """Import the extras; name all missing ones in one sentence."""
    missing: dict[str, str] = {}
    for extra in extras:
        try:
            import_module(extra)
        except ImportError:
            missing[extra] = _INSTALL[extra]
    if missing:
        names = dict.fromkeys(missing.values())
        needed = f"The experiment needs {' and '.join(missing)}"
        raise MissingExtraError(f"{needed}: {install_advice(*names)}.")


def _count(held: Collection[str], keys: Collection[str]) -> str:
    """Return how many pieces are finished, in words.

    >>> _count({"a"}, ["a", "b"])
    '1 of 2 pieces'
    """
    return f"{len(set(held) & set(keys))} of {len(keys)} pieces"


def settings_of(name: str, experiment: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked for, in plain values, and the command that asks for it.

    Where results go and how many processes work on them make no difference to them,
    and are no part of it.

    >>> from experiments import theorems
    >>> args = _parser("theorems", theorems).parse_args([])
    >>> settings_of("theorems", theorems, args)["command"][1:]
    ['-m', 'experiments.theorems', '--tables', '300', '--seed', '0']
    """
    settings: dict[str, Any] = {}
    for option in experiment.OPTIONS:
        value = getattr(args, option)
        settings[option] = value if isinstance(value, int) else list(value)
    if "datasets" in settings:  # in one order, each once
        known, asked = renyi.datasets.names(), settings["datasets"]
        settings["datasets"] = [each for each in known if each in asked]
    settings["seed"] = args.seed
    command = ["python", "-m", f"experiments.{name}"]
    for option, value in settings.items():
        values = value if isinstance(value, list) else [value]
        command += [f"--{option}", *map(str, values)]
    return {"experiment": name, "command": command, **settings}


def _records(table: Any) -> Any:
    """Return the rows of a table, with None in place of NaN."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
