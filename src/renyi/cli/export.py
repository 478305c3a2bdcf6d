"""The command export: a model in a language that other programs understand."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from renyi.cli.inputs import load_model
from renyi.cli.output import Recorded, check_place, print_notes
from renyi.encoding.columns import label_text
from renyi.estimators.classifier import RenyiClassifier
from renyi.storage import replacing


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Write a model as SQL."""
    place = None if args.out is None else check_place(args.out, (".sql",))
    clf = load_model(args.model)
    label = None if args.label is None else _class_of(clf, args)
    text = clf.scorecard_.to_sql(args.sql, label, table=args.table)
    if args.table is not None and clf.rule != "map":  # SQL draws nothing at random
        print_notes([f"The answers are of rule map; {args.model} uses {clf.rule}."])
    if place is None:
        print(text)
        return
    with replacing(place) as stream:
        stream.write(f"{text}\n".encode())
    print(f"wrote {place}", file=sys.stderr)


def _class_of(clf: RenyiClassifier, args: argparse.Namespace) -> Any:
    """Return the class that was named, as the model has it."""
    known = {label_text(label): label for label in clf.classes_.tolist()}
    if args.label not in known:
        raise ValueError(
            f"{args.model} has no class {args.label!r}: its classes are "
            f"{', '.join(map(repr, known))}."
        )
    return known[args.label]
