"""The command ``renyi reproduce``: run an experiment, write its table and figure."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from renyi import datasets
from renyi.cli.output import Recorded, show, tell


class _Experiment(NamedTuple):
    """Module of an experiment, options that say what is asked for, and its extras."""

    module: str
    options: tuple[str, ...]
    extras: tuple[str, ...] = ("matplotlib",)


_EXPERIMENTS = {
    "table1": _Experiment("table1", ("splits", "datasets"), ("matplotlib", "highspy")),
    "runtime": _Experiment("runtime", ("repetitions", "columns", "rows")),
    "theorems": _Experiment(
        "theorems", ("tables",), ("matplotlib", "highspy", "clarabel")
    ),
    "selection": _Experiment("selected", ("splits", "datasets")),
}
# What an experiment may need, and the extra that brings it.
_INSTALL = {"matplotlib": "plot", "highspy": "exact", "clarabel": "exact"}


def reproduce(args: argparse.Namespace, seen: Recorded) -> None:
    """Run an experiment, or what is left of it; print what came of it."""
    from experiments import pieces

    folder = Path("results", args.experiment) if args.out is None else Path(args.out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder: choose another --out.")
    chosen = _EXPERIMENTS[args.experiment]
    _need(chosen.extras)  # now rather than after hours of work
    experiment = import_module(f"experiments.{chosen.module}")
    settings = settings_of(args, chosen.options, experiment)
    keys = experiment.keys(settings)
    held = pieces.begin(folder, settings)
    if held:
        tell([f"{_count(held, keys)} were found in {folder} and are not done again."])
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
        held = pieces.begin(folder, settings)
        tell([f"{_count(held, keys)} are kept in {folder}; the same command goes on."])
        raise
    report = experiment.report(results, settings)
    report.notes.extend(_mixture(pieces.sources(folder, keys)))
    written = [*report.write(folder, settings), folder / pieces.SETTINGS]
    files = [str(place) for place in written]
    if args.json:
        tables = {title: _records(table) for title, table in report.tables.items()}
        show({**settings, "tables": tables, "notes": report.notes, "written": files})
        return
    print(report.markdown(settings))
    print("\n".join(f"wrote {name}" for name in files))


def _need(extras: tuple[str, ...]) -> None:
    """Load extras; name all that are missing in one sentence."""
    missing: dict[str, str] = {}
    for extra in extras:
        try:
            import_module(extra)
        except ImportError:
            missing[extra] = _INSTALL[extra]
    if missing:
        names = ",".join(dict.fromkeys(missing.values()))
        raise ImportError(
            f"The experiment needs {' and '.join(missing)}: install the extras, "
            f"pip install 'renyi[{names}]'."
        )


def _mixture(sources: set[str]) -> list[str]:
    """Return a note if pieces were made by more than one state of the code.

    >>> _mixture({"a"}), len(_mixture({"a", "b"}))
    ([], 1)
    """
    if len(sources) < 2:
        return []
    return [
        f"The pieces were made by {len(sources)} states of the code; pieces.jsonl has "
        "the digest of each where it was told."
    ]


def _count(held: Collection[str], keys: Collection[str]) -> str:
    """Return how many pieces are finished, in words.

    >>> _count({"a"}, ["a", "b"])
    '1 of 2 pieces'
    """
    return f"{len(set(held) & set(keys))} of {len(keys)} pieces"


def settings_of(
    args: argparse.Namespace, options: tuple[str, ...], experiment: Any
) -> dict[str, Any]:
    """Return what was asked for, in plain values, and the command that asks for it.

    Where results go and how many processes work on them make no difference to them,
    and are no part of it.

    >>> from experiments import theorems
    >>> args = argparse.Namespace(experiment="theorems", tables=None, seed=0)
    >>> settings_of(args, ("tables",), theorems)["command"]
    ['renyi', 'reproduce', 'theorems', '--tables', '300', '--seed', '0']
    """
    settings: dict[str, Any] = {}
    for name in options:
        # The default stands in the experiment's module: SPLITS, TABLES, …
        value = getattr(args, name) or getattr(experiment, name.upper())
        settings[name] = value if isinstance(value, int) else list(value)
    if "datasets" in settings:
        settings["datasets"] = _known(settings["datasets"])
    settings["seed"] = args.seed
    command = ["renyi", "reproduce", args.experiment]
    for name, value in settings.items():
        values = value if isinstance(value, list) else [value]
        command += [f"--{name}", *map(str, values)]
    return {"experiment": args.experiment, "command": command, **settings}


def _known(names: list[str]) -> list[str]:
    """Return names of data sets in one order, each once; refuse others."""
    for name in names:
        datasets.path(name)
    return [name for name in datasets.names() if name in names]


def _records(table: Any) -> Any:
    """Return the rows of a table, with None for what is not a number."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
