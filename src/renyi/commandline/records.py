"""The log beside a model: what was done, when, with which settings, and the outcome."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from datetime import datetime

from renyi import __version__
from renyi.classifier import RenyiClassifier
from renyi.commandline.delivery import Recorded
from renyi.sources.cells import DataWarning


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
