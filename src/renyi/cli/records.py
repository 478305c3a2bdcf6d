"""Models that are kept: where their files go, and the log beside them.

The log says what was done, when, with which settings, and the outcome.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from datetime import datetime

from renyi import __version__
from renyi.cli.output import MARGINALS, Recorded, check_place
from renyi.estimators.classifier import RenyiClassifier
from renyi.warnings import DataWarning


def prefix_of(args: argparse.Namespace, counts: bool = True) -> str | None:
    """Return how the names of the files begin, if the model is to be kept.

    A place that cannot be written to is refused; `counts` says whether marginals may be
    written too.

    >>> prefix_of(argparse.Namespace(out="model.json"))
    'model'
    """
    if args.out is None:
        return None
    prefix: str = args.out.removesuffix(".json")
    if os.path.basename(prefix) in ("", ".", ".."):
        raise ValueError(f"{args.out} is a folder: add a name for the model.")
    for ending in (".json", ".log", *([MARGINALS] if counts else [])):
        check_place(prefix + ending)
    return prefix


def next_step(args: argparse.Namespace, prefix: str | None) -> str:
    """Return the command that comes next: keep the model, or use it.

    >>> next_step(argparse.Namespace(), "model")
    'renyi predict model.json NEW.csv --out answers.csv'
    """
    if prefix is None:
        return shlex.join(["renyi", *args.argv]) + " --out PREFIX   (keeps the model)"
    return f"renyi predict {shlex.quote(f'{prefix}.json')} NEW.csv --out answers.csv"


def log_text(
    args: argparse.Namespace, clf: RenyiClassifier, text: str, seen: Recorded
) -> str:
    """Return the log of a command that trained a model.

    >>> import renyi
    >>> clf = RenyiClassifier(alpha=0.1).fit(*renyi.datasets.load("votes"))
    >>> args = argparse.Namespace(argv=["fit", "votes"])
    >>> log_text(args, clf, "Learned.", []).splitlines()[2]
    'command   renyi fit votes'
    """
    settings = {k: v for k, v in sorted(vars(args).items()) if k != "argv"}
    encoder = clf.encoder_.settings()
    fields = [f for f in dataclasses.fields(encoder) if f.name not in _FITTED]
    used = {f.name: getattr(encoder, f.name) for f in fields}
    others = [w for w in seen if not issubclass(w.category, DataWarning)]
    lines = [
        f"date      {datetime.now().astimezone().isoformat(timespec='seconds')}",
        f"renyi     {__version__}",
        f"command   {shlex.join(['renyi', *args.argv])}",
        *(f"option    {key} = {value!r}" for key, value in settings.items()),
        *(f"encoder   {key} = {value!r}" for key, value in used.items()),
        *(f"warning   {w.category.__name__}: {w.message}" for w in others),
        "",
        text,
    ]
    return "\n".join(lines) + "\n"


_FITTED = ("columns", "base")  # what an encoder learned, as opposed to its settings
