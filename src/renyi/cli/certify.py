"""The command certify: the worst error of a model, by marginals or held-out rows."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pyarrow as pa

from renyi.certification import bound_report, certify
from renyi.cli.fit import certificate_facts, certificate_text
from renyi.cli.inputs import load_marginals, load_model, table_path
from renyi.cli.output import Meter, Recorded, notes_of, print_json, print_notes
from renyi.cli.predict import UnseenLabels, check_features, known_classes
from renyi.estimators.classifier import RenyiClassifier
from renyi.sources import files
from renyi.sources.frames import encoded_target


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Print the worst error of a model, by marginals or by held-out rows."""
    _check_basis(args)
    clf = load_model(args.model)
    if args.level in ("lp", "exact"):
        limits: Any = {"level": args.level, "time_limit": args.time_limit}
        m = load_marginals(args.file)
        with Meter() as meter:
            report = bound_report(clf, m, progress=meter.search, **limits)
        if args.json:
            print_json({"source": args.file, **report.to_dict()})
        else:
            print(report)
        return
    if args.rows is not None:
        c = certify(clf, *_heldout_rows(args, clf), confidence=args.confidence)
    else:
        c = certify(clf, load_marginals(args.file))
    notes = notes_of(recorded)
    if args.json:
        print_json(certificate_facts(c) | ({"notes": notes} if args.rows else {}))
        return
    print_notes(notes)
    print("\n".join(certificate_text(c)))
    # Exact worst cases are known of single columns only.
    if args.rows is None and c.order == 1 and not c.doubtful:
        again = shlex.join(["renyi", "certify", args.model, args.file, "--exact"])
        print(f"\nNext: {again}   (the exact worst case)")


def _check_basis(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if (args.file is None) == (args.rows is None):
        raise ValueError("certify takes either MARGINALS or --rows FILE: name one.")
    if args.rows is not None:
        if args.level is not None or args.time_limit is not None:
            raise ValueError(
                "--exact, --level and --time-limit are for marginals: leave them out "
                "beside --rows, or count the rows with 'renyi marginals build' first."
            )
        return
    for option in ("target", "confidence"):
        if getattr(args, option) is not None:
            raise ValueError(f"--{option} is for --rows: leave it out for marginals.")
    if args.time_limit is not None and args.level in (None, "closed"):
        raise ValueError("--time-limit is for --exact and --level lp: add one of them.")


def _heldout_rows(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[pa.Table, list[Any]]:
    """Read the rows of a table whose class is known, as the model takes them."""
    path = table_path(args.rows)
    names = files.opened(path).schema.names
    target = clf._target if args.target is None else args.target
    if target is None:
        raise ValueError(
            f"{args.model} does not say what it predicts: name the column of classes "
            f"in {path} with --target."
        )
    files.require(path, names, [target])
    features = list(clf.encoder_.input_names)
    check_features(path, names, features)
    labels = clf.classes_.tolist()
    kinds = files.column_kinds(clf.encoder_.single)
    if any(isinstance(label, str) for label in labels):
        kinds[target] = "label"
    missing = clf.encoder_.missing
    table = files.read_table(path, [*features, target], missing=missing, kinds=kinds)
    answer, codes = encoded_target(table[target], target, clf.encoder_)
    known = codes >= 0
    X = table.filter(pa.array(known)).drop_columns([target])
    unseen = UnseenLabels(clf)
    unseen.add(X)
    unseen.warn()
    cells = [answer.categories[k] for k in codes[known]]
    pairs = zip(cells, known_classes(cells, labels), strict=True)
    return X, [cell if known is None else known for cell, known in pairs]
