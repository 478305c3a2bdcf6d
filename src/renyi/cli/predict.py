"""The command predict: answers to the rows of files of any size, in bounded memory."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from renyi.cli import answers, database_files, predict_output
from renyi.cli.inputs import columns_text, listed, note, table_paths
from renyi.cli.output import (
    Meter,
    Recorded,
    check_place,
    load_model,
    notes_of,
    show,
    tell,
)
from renyi.cli.predict_input import Questions
from renyi.cli.predict_output import Write
from renyi.estimators.classifier import RenyiClassifier
from renyi.sources import files


def predict(args: argparse.Namespace, seen: Recorded) -> None:
    """Answer the rows of a table with a model."""
    place = None
    if args.out is not None:
        place = check_place(args.out, predict_output.ENDINGS)
    clf = load_model(args.model)
    asked = _questions(args, clf)
    kept: list[pd.DataFrame] = []
    with _destination(args, clf, asked, place, kept) as write:
        rows, error = _answer_all(args, asked, write, Meter(place is not None))
    _deliver(args, place, (rows, error), kept, notes_of(seen))


def _questions(args: argparse.Namespace, clf: RenyiClassifier) -> Questions:
    """Return the rows to answer; the columns that are not used are noted."""
    _refuse_databases(args)
    paths = table_paths(args.files)
    names = [files.column_names(path) for path in paths]
    features = list(clf.encoder_.input_names)
    for path, found in zip(paths, names, strict=True):
        files.require(path, found, args.id)
        answers.require_features(path, found, features)
    target = clf._target if all(clf._target in found for found in names) else None
    extra = [n for n in names[0] if n not in {*features, *args.id, target}]
    if extra:
        count = columns_text(len(extra))
        note(f"Ignored {count} that the model does not use: {listed(extra)}.")
    return Questions(clf, paths, list(dict.fromkeys(args.id)), target, args.where)


def _refuse_databases(args: argparse.Namespace) -> None:
    """Say how the rows of a database are answered: inside it."""
    for name in filter(database_files.is_database, args.files):
        path = files.existing(name)
        with path.open("rb") as stream:
            dialect = "sqlite" if stream.read(6) == b"SQLite" else "duckdb"
        raise ValueError(
            f"{path} is a database, whose rows are answered inside it: run there what "
            f"'renyi export {args.model} --sql {dialect} --table NAME' writes."
        )


@contextlib.contextmanager
def _destination(
    args: argparse.Namespace,
    clf: RenyiClassifier,
    asked: Questions,
    place: Path | None,
    kept: list[pd.DataFrame],
) -> Iterator[Write]:
    """Yield what takes the answers: a file, stdout, or a list to print as JSON."""
    if place is not None:
        labels = pa.array(clf.classes_.tolist()).type
        with predict_output.writing(
            place, {**asked.id_types(), answers.PREDICTION: labels}
        ) as write:
            yield write
    elif args.json:
        yield kept.append
    else:
        with predict_output.printing() as write:
            yield write


def _answer_all(
    args: argparse.Namespace, asked: Questions, write: Write, meter: Meter
) -> tuple[int, dict[str, Any] | None]:
    """Answer batch after batch; return the number of rows, and of errors if known."""
    clf, rows, begun = asked.clf, 0, time.monotonic()
    unseen = answers.Unseen(clf)
    errors = None if asked.target is None else answers.Errors(clf, asked.target)
    with meter:
        for X, ids, truth in asked.batches():
            unseen.add(X)
            table = answers.answer(clf, X, ids, args.proba, args.score)
            if errors is not None:
                errors.add(truth, table[answers.PREDICTION])
            write(table)
            rows += len(table)
            pace = rows / max(time.monotonic() - begun, 1e-9)
            text = f"answering: {rows:,} rows, {pace:,.0f} rows a second"
            meter.say("answering", text)
    if not rows:
        raise ValueError(_nothing(asked))
    unseen.note()
    return rows, None if errors is None else errors.told()


def _nothing(asked: Questions) -> str:
    names = ", ".join(map(str, asked.paths[:3])) + ", …" * (len(asked.paths) > 3)
    if asked.where is not None:
        return f"No row of {names} fulfils {asked.where!r}: there is nothing to answer."
    return f"{names} has no rows: there is nothing to answer."


def _deliver(
    args: argparse.Namespace,
    place: Path | None,
    found: tuple[int, dict[str, Any] | None],
    kept: list[pd.DataFrame],
    notes: list[str],
) -> None:
    rows, error = found
    if args.json:
        told = {"rows": rows, "error": error, "notes": notes}
        if place is not None:
            show({**told, "written": str(place)})
        else:
            table = pd.concat(kept, ignore_index=True)
            plain = table.astype(object).where(table.notna(), None)
            show({**told, "answers": plain.to_dict("records")})
        return
    tell(notes)
    if error is not None:
        share = f"{100 * error['error']:.1f} %"
        count = f"{error['wrong']:,} of {error['rows']:,} rows"
        if error["unjudged"]:
            count += f"; {error['unjudged']:,} more have no class of the model"
        print(f"error rate {share} ({count})", file=sys.stderr)
    if place is not None:
        print(f"wrote {place} ({rows:,} rows)", file=sys.stderr)
