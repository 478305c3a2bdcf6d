"""The command predict: answers to the rows of files of any size, in bounded memory.

A model knows what its columns are, so each row is read for itself, whatever batch it
comes in. Columns that are copied beside the answers keep every space.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from renyi.cli.inputs import columns_text, listed, load_model, table_paths
from renyi.cli.output import (
    TABLES,
    Meter,
    Recorded,
    Write,
    check_place,
    notes_of,
    print_json,
    print_notes,
    printing,
    records,
    writing,
)
from renyi.encoding.arrow_cells import number_text, typed
from renyi.encoding.columns import label_text
from renyi.estimators.classifier import RenyiClassifier
from renyi.progress import Progress
from renyi.sources import files
from renyi.sources.csv import CsvFile
from renyi.sources.databases import is_database
from renyi.warnings import warn

PREDICTION = "prediction"
_ROWS = 2**16  # of a batch
_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Answer the rows of a table with a model."""
    place = None if args.out is None else check_place(args.out, TABLES)
    clf = load_model(args.model)
    rows = _requested_rows(args, clf)
    kept: list[pd.DataFrame] = []
    with _destination(args, rows, place, kept) as write:
        count, error = _answer_all(args, rows, write, Meter(place is not None))
    facts = {"rows": count, "error": error, "notes": notes_of(recorded)}
    if not args.json:
        _print_end(facts, place)
    elif place is not None:
        print_json({**facts, "written": str(place)})
    else:
        table = pd.concat(kept, ignore_index=True)
        print_json({**facts, "answers": records(table)})


def _print_end(facts: dict[str, Any], place: Path | None) -> None:
    print_notes(facts["notes"])
    error = facts["error"]
    if error is not None:
        count = f"{error['wrong']:,} of {error['rows']:,} rows"
        if error["unjudged"]:
            count += f"; {error['unjudged']:,} more have no class of the model"
        print(f"error rate {100 * error['error']:.1f} % ({count})", file=sys.stderr)
    if place is not None:
        print(f"wrote {place} ({facts['rows']:,} rows)", file=sys.stderr)


# ---- the rows to answer


class Batch(NamedTuple):
    """Some rows: the model's columns, those to copy, and the target if it is there."""

    X: pa.Table
    ids: pa.Table
    truth: pa.ChunkedArray | None


@dataclass(frozen=True)
class RowsToAnswer:
    """The rows of some files that a model is to answer, batch by batch."""

    clf: RenyiClassifier
    paths: list[Path]
    ids: list[str]
    target: str | None = None
    where: str | None = None

    @property
    def features(self) -> list[str]:
        """Names of the model's columns."""
        return list(self.clf.encoder_.input_names)

    @cached_property
    def _tables(self) -> list[files.TableFile]:
        return files.open_tables(self.paths)

    @property
    def _csv(self) -> bool:
        return isinstance(self._tables[0], CsvFile)

    @property
    def _interpreted(self) -> list[str]:
        """Names of the columns whose cells are interpreted, not just copied."""
        return self.features + ([] if self.target is None else [self.target])

    def id_types(self) -> dict[str, pa.DataType]:
        """Return the types of the columns to copy."""
        schemas = [table.schema for table in self._tables]
        if self._csv:
            return dict.fromkeys(self.ids, pa.string())
        parts = [pa.schema([schema.field(n) for n in self.ids]) for schema in schemas]
        whole = pa.unify_schemas(parts, promote_options="permissive")
        return dict(zip(whole.names, whole.types, strict=True))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order, a bounded number at a time."""
        kinds, types = self._kinds(), self.id_types()
        for table in files.batches(
            self._tables,
            list(dict.fromkeys([*self._interpreted, *self.ids])),
            missing=self.clf.encoder_.missing,
            kinds={**kinds, **dict.fromkeys(self.ids, "verbatim")},
            where=self.where,
        ):
            for start in range(0, table.num_rows, _ROWS):
                yield self._batch(table.slice(start, _ROWS), kinds, types)
            del table  # before the next one is read

    def _batch(
        self, table: pa.Table, kinds: dict[str, str], types: dict[str, pa.DataType]
    ) -> Batch:
        copied = {name: table[name].cast(kind) for name, kind in types.items()}
        if self._csv:
            missing = frozenset(map(label_text, self.clf.encoder_.missing))
            for name in {*self._interpreted} & {*self.ids}:
                column = typed(name, table[name], missing, kinds.get(name))
                place = table.column_names.index(name)
                table = table.set_column(place, name, column)
        truth = None if self.target is None else table[self.target]
        return Batch(table.select(self.features), pa.table(copied), truth)

    def _kinds(self) -> dict[str, str]:
        """Return what the columns of a CSV file are, whatever their cells look like."""
        kinds = files.column_kinds(self.clf.encoder_.single)
        if self.target is not None:
            texts = any(isinstance(label, str) for label in self.clf.classes_.tolist())
            kinds[self.target] = "label" if texts else "figure"
        return kinds


def _requested_rows(args: argparse.Namespace, clf: RenyiClassifier) -> RowsToAnswer:
    """Return the rows to answer; warn of the columns that are not used."""
    _check_databases(args)
    paths = table_paths(args.files)
    names = [files.column_names(path) for path in paths]
    features = list(clf.encoder_.input_names)
    for path, found in zip(paths, names, strict=True):
        files.require(path, found, args.id)
        check_features(path, found, features)
    target = clf._target if all(clf._target in found for found in names) else None
    extra = [n for n in names[0] if n not in {*features, *args.id, target}]
    if extra:
        warn(
            f"Ignored {columns_text(len(extra))} that the model does not use: "
            f"{listed(extra)}.",
            "ignored-column",
        )
    return RowsToAnswer(clf, paths, list(dict.fromkeys(args.id)), target, args.where)


def _check_databases(args: argparse.Namespace) -> None:
    """Refuse databases: their rows are answered inside them."""
    for name in filter(is_database, args.files):
        path = files.existing(name)
        with path.open("rb") as stream:
            dialect = "sqlite" if stream.read(6) == b"SQLite" else "duckdb"
        raise ValueError(
            f"{path} is a database: answer its rows inside it, with the statement that "
            f"'renyi export {args.model} --sql {dialect} --table NAME' writes."
        )


def check_features(path: Path, names: list[str], features: list[str]) -> None:
    """Refuse a file that lacks a column of the model."""
    try:
        files.require(path, names, features)
    except ValueError as error:
        lacking = len(set(features) - set(names))
        more = f" ({lacking} columns of the model are missing)" if lacking > 1 else ""
        text = str(error).rstrip(".")
        raise ValueError(f"{text}. The model needs this column{more}.") from None


# ---- answers


def _answer_all(
    args: argparse.Namespace, rows: RowsToAnswer, write: Write, meter: Meter
) -> tuple[int, dict[str, Any] | None]:
    """Answer batch after batch; return the number of rows, and the errors if known."""
    clf, count, begun = rows.clf, 0, time.monotonic()
    unseen = UnseenLabels(clf)
    errors = None if rows.target is None else Errors(clf, rows.target)
    with meter:
        for X, ids, truth in rows.batches():
            unseen.add(X)
            table = answer(clf, X, ids, args.proba, args.score)
            if errors is not None:
                errors.add(truth, table[PREDICTION])
            write(table)
            count += len(table)
            seconds = max(time.monotonic() - begun, 1e-9)
            pace = f"{count:,} rows, {count / seconds:,.0f} rows a second"
            meter(Progress("answering", seconds, facts=pace))
    if not count:
        raise ValueError(_no_rows(rows))
    unseen.warn()
    return count, None if errors is None else errors.facts()


def _no_rows(rows: RowsToAnswer) -> str:
    names = ", ".join(map(str, rows.paths[:3])) + ", …" * (len(rows.paths) > 3)
    if rows.where is not None:
        return f"No row of {names} meets the condition {rows.where!r}."
    return f"{names} has no rows."


@contextlib.contextmanager
def _destination(
    args: argparse.Namespace,
    rows: RowsToAnswer,
    place: Path | None,
    kept: list[pd.DataFrame],
) -> Iterator[Write]:
    """Yield what takes the answers: a file, stdout, or a list to print as JSON."""
    if place is not None:
        labels = pa.array(rows.clf.classes_.tolist()).type
        with writing(place, {**rows.id_types(), PREDICTION: labels}) as write:
            yield write
    else:
        yield kept.append if args.json else printing()


def answer(
    clf: RenyiClassifier,
    X: pa.Table,
    ids: pa.Table | None = None,
    proba: bool = False,
    score: bool = False,
) -> pd.DataFrame:
    """Return ids, predictions and what was asked for beside them, in row order."""
    kept: dict[str, Any] = {}
    if ids is not None:
        kept = {name: _series(ids[name]) for name in ids.column_names}
    found: dict[str, Any] = {PREDICTION: clf.predict(X)}
    texts = [label_text(label) for label in clf.classes_.tolist()]
    if proba:
        shares = clf.predict_proba(X).T
        found |= {f"proba_{t}": p for t, p in zip(texts, shares, strict=True)}
    if score:
        scores = clf.decision_function(X)
        if scores.ndim == 1:
            found["score"] = scores
        else:
            found |= {f"score_{t}": s for t, s in zip(texts, scores.T, strict=True)}
    for name in kept.keys() & found.keys():
        raise ValueError(
            f"The --id column {name!r} has the name of a column of answers: rename "
            "it in the file."
        )
    return pd.DataFrame({**kept, **found})


def _series(column: pa.ChunkedArray) -> pd.Series:
    """Return a column as it is, integers with missing cells included."""
    return pd.Series(column.to_pandas(types_mapper=_NULLABLE.get))


# ---- what is found out about the rows


class UnseenLabels:
    """Cells whose labels training never saw, counted batch by batch."""

    def __init__(self, clf: RenyiClassifier) -> None:
        self._encoder, self._order = clf.encoder_.single, clf.encoder_.order
        self._counts = np.zeros(len(self._encoder.columns), np.int64)

    def add(self, X: pa.Table) -> None:
        """Look at some rows."""
        codes = self._encoder.transform(X)
        self._counts += (codes >= self._encoder.columns.sizes[:, None]).sum(axis=1)

    def warn(self) -> None:
        """Warn of what was found, if anything."""
        if not self._counts.any():
            return
        worst = self._encoder.feature_names[int(self._counts.argmax())]
        whose = "their column" if self._order == 1 else "each of their features"
        warn(
            f"{self._counts.sum():,} cells hold labels that training never saw, most "
            f"of them in {worst!r}; they count as the mean of {whose}."
        )


class Errors:
    """Wrong answers on the rows whose class is known, counted batch by batch."""

    def __init__(self, clf: RenyiClassifier, target: str) -> None:
        self._labels, self._target = clf.classes_.tolist(), target
        self._rows = self._judged = self._wrong = 0

    def add(self, truth: pa.ChunkedArray, predictions: Any) -> None:
        """Compare some cells of the target with the answers."""
        cells = truth.combine_chunks().dictionary_encode()
        values = [_plain(v) for v in cells.dictionary.to_pylist()]
        meant = np.array([*known_classes(values, self._labels), None], object)
        classes = meant[cells.indices.fill_null(len(values)).to_numpy()]
        codes, different = pd.factorize(np.asarray(predictions))
        said = np.array([label_text(v) for v in different.tolist()], object)[codes]
        judged = classes != None  # noqa: E711, cell by cell
        self._rows += len(classes)
        self._judged += int(judged.sum())
        self._wrong += int((said != classes)[judged].sum())

    def facts(self) -> dict[str, Any] | None:
        """Return the share of errors; None, and a warning, if no class is known."""
        if not self._judged:
            warn(
                f"The column {self._target!r} has none of the model's classes, so the "
                "error is not known."
            )
            return None
        return {
            "rows": self._judged,
            "wrong": self._wrong,
            "error": self._wrong / self._judged,
            "unjudged": self._rows - self._judged,
        }


def known_classes(cells: list[Any], labels: list[Any]) -> list[str | None]:
    """Return the text of the class that each cell means; None where it means none.

    A number may be written in other ways than the class that training made of it.
    """
    exact = {label_text(label): label_text(label) for label in labels}
    loose = {number_text(text): text for text in exact}
    meant = {cell: exact.get(label_text(cell)) for cell in set(cells)}
    if len(loose) == len(exact):  # not so if "0.5" and "0.50" are two classes
        for cell, text in meant.items():
            if text is None:
                meant[cell] = loose.get(number_text(label_text(cell)))
    return [meant[cell] for cell in cells]


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else str(value)
