"""The commands that prove something: certify, minimax and hgr."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from renyi.certification import certify
from renyi.cli import answers, minimax_text, predict_output, summary
from renyi.cli.inputs import encoder_of, note, table_path, usable_rows
from renyi.cli.output import (
    MARGINALS,
    Meter,
    Recorded,
    check_place,
    chosen_marginals,
    load_marginals,
    load_model,
    notes_of,
    refuse_missing_class,
    show,
    tell,
)
from renyi.estimators.classifier import RenyiClassifier
from renyi.ladder import MINIMAX, climb
from renyi.marginals.marginals import Marginals
from renyi.sources import files

if TYPE_CHECKING:
    import pyarrow as pa

    from renyi.certification import Certificate
    from renyi.robust.minimax_problem import MinimaxResult

_CONFIDENCE = 0.95
_EXACTLY = ("--method", "exact")


# ---- certify


def certify_model(args: argparse.Namespace, seen: Recorded) -> None:
    """Print the worst error of a model, by marginals or by held-out rows."""
    _check_basis(args)
    clf = load_model(args.model)
    if args.rows is not None:
        X, y = _heldout_rows(args, clf)
        confidence = _CONFIDENCE if args.confidence is None else args.confidence
        _show_certificate(args, certify(clf, X, y, confidence=confidence), seen)
        return
    m = load_marginals(args.file)
    if args.level in (None, "closed"):
        _show_certificate(args, certify(clf, m), seen)
        return
    with Meter() as meter:
        ladder = climb(
            clf, m, level=args.level, time_limit=args.time_limit, progress=meter
        )
    if args.json:
        show({"source": args.file, **ladder.to_dict()})
    else:
        print(ladder)


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


def _show_certificate(
    args: argparse.Namespace, certificate: Certificate, seen: Recorded
) -> None:
    if args.json:
        told = summary.certificate_facts(certificate)
        show({**told, "notes": notes_of(seen)} if args.rows else told)
        return
    tell(notes_of(seen))
    print("\n".join(summary.certificate_text(certificate)))
    # Exact worst cases are known of single columns only.
    if args.rows is None and certificate.order == 1 and not certificate.doubtful:
        again = shlex.join(["renyi", "certify", args.model, args.file, "--exact"])
        print(f"\nNext: {again}   (the exact worst case)")


def _heldout_rows(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[pa.Table, Any]:
    """Read the rows of a table whose class is known, as the model takes them."""
    path = table_path(args.rows)
    names = files.column_names(path)
    target = clf._target if args.target is None else args.target
    if target is None:
        raise ValueError(
            f"The model does not say what it predicts: name the class in {path} with "
            "--target."
        )
    files.require(path, names, [target])
    features = list(clf.encoder_.input_names)
    answers.require_features(path, names, features)
    labels = clf.classes_.tolist()
    kinds = files.column_kinds(clf.encoder_.single)
    if any(isinstance(label, str) for label in labels):
        kinds[target] = "label"
    missing = clf.encoder_.missing
    table = files.read_table(path, [*features, target], missing=missing, kinds=kinds)
    table = files.labelled(table, target, missing)
    X = table.drop_columns([target])
    answers.note_unseen(clf, X)
    cells = table[target].to_pylist()
    pairs = zip(cells, answers.known_classes(cells, labels), strict=True)
    return X, [cell if known is None else known for cell, known in pairs]


# ---- minimax


def find_minimax(args: argparse.Namespace, seen: Recorded) -> None:
    """Print the smallest worst error of any rule, and what the rule looks at."""
    from renyi.robust.minimax_problem import minimax

    place = None
    if args.worst is not None:
        place = check_place(args.worst, predict_output.ENDINGS)
        if place.exists() and Path(args.file).exists() and place.samefile(args.file):
            raise ValueError(f"--worst would write over {args.file}: name another.")
        if args.method == "lp":
            raise ValueError(
                "--method lp exhibits no distribution for --worst: use --method exact."
            )
    m = _counted(args)
    refuse_missing_class(m, args.file)
    method = "exact" if place is not None else args.method
    with Meter() as meter:
        meter(MINIMAX)
        result = minimax(
            m,
            method=method,
            time_limit=args.time_limit,
            progress=partial(meter, MINIMAX),
            random_state=args.seed,
        )
    told = minimax_text.minimax_facts(m, result)
    if place is not None:
        told["written"] = _write_worst(place, result)
    if result.method == "lp" and result.status == "bounded":
        told["next"] = shlex.join(["renyi", *_without_method(args.argv), *_EXACTLY])
    told["notes"] = notes_of(seen)
    if args.json:
        show({"source": args.file, **told})
    else:
        tell(told["notes"])
        print(minimax_text.minimax_text(told))


def _without_method(argv: list[str]) -> list[str]:
    """Return the arguments without the option --method and its value."""
    kept = [text for text in argv if not text.startswith("--method=")]
    while "--method" in kept:
        place = kept.index("--method")
        del kept[place : place + 2]
    return kept


def _write_worst(place: Path, result: MinimaxResult) -> str | None:
    """Write the worst distribution; note that there is none if it was not found."""
    if result.worst_distribution is None:
        note(
            f"{place} was not written: no distribution was exhibited before the search "
            "was stopped. Allow it more time."
        )
        return None
    with predict_output.writing(place, {}) as write:
        write(result.worst_distribution.frame())
    return str(place)


def _counted(args: argparse.Namespace) -> Marginals:
    """Return the marginals of a file, or those of a table, counted."""
    if args.file.endswith(MARGINALS):
        m = chosen_marginals(args)
        if args.class_conditional and m.class_counts is None:
            raise ValueError(
                f"{args.file} has no pairs within each class: count them with 'renyi "
                "marginals build --class-conditional'."
            )
        return m
    encoder = encoder_of(args)
    return usable_rows(args, encoder).marginals(encoder, args.class_conditional)


# ---- hgr


def rank_columns(args: argparse.Namespace, seen: Recorded) -> None:
    """Print the maximal correlation of columns with the target, or of all pairs."""
    m = _counted(args)
    told = (
        minimax_text.matrix_facts(m) if args.matrix else minimax_text.ranking_facts(m)
    )
    told["notes"] = notes_of(seen)
    if args.json:
        show({"source": args.file, **told})
        return
    tell(told["notes"])
    print(
        minimax_text.matrix_text(told)
        if args.matrix
        else minimax_text.ranking_text(told)
    )
