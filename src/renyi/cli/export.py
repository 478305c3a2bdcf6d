"""The command export: a model in a language that other programs understand."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from renyi.cli.output import Recorded, check_place, load_model, tell
from renyi.encoding.frame_columns import label_text
from renyi.estimators.classifier import RenyiClassifier
from renyi.storage import replacing

_DETERMINISTIC = "map"


def export(args: argparse.Namespace, seen: Recorded) -> None:
    """Write a model as SQL."""
    place = None if args.out is None else check_place(args.out, (".sql",))
    clf = load_model(args.model)
    label = None if args.label is None else _class_of(clf, args)
    text = clf.scorecard_.to_sql(args.sql, label, table=args.table)
    _note_rule(clf, args)
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
            + ", ".join(map(repr, known))
        )
    return known[args.label]


def _note_rule(clf: RenyiClassifier, args: argparse.Namespace) -> None:
    if args.table is not None and clf.rule != _DETERMINISTIC:
        tell([f"The answers are those of the rule map; {args.model} uses {clf.rule}."])
