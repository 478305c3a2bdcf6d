"""The command predict: answers of a model to the rows of files.

A model knows what its columns are, so each row is read for itself, whatever batch it
comes in; memory is bounded. Columns that are copied next to the answers keep every
space.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.certificates.heldout import UNKNOWN
from renyi.certificates.left_out import error_interval
from renyi.certification import are_counts_of
from renyi.cli import inputs, messages, notes, output, streams
from renyi.cli.output import Facts, Meter, Recorded, Write
from renyi.cli.parser import WRITTEN, Args
from renyi.counting.onehot import class_label_counts
from renyi.encoding.arrow import typed
from renyi.encoding.columns import Column, Columns, factorized, label_text
from renyi.encoding.rows import encoded_target
from renyi.encoding.rules import missing_texts
from renyi.estimators.model_file import AnyFit
from renyi.exports.points import has_weights
from renyi.formatting import (
    chosen_percent,
    four_digits,
    interval_text,
    listed,
    number_of,
    percent,
)
from renyi.progress import Progress
from renyi.scorecard import Scorecard, scorer_of
from renyi.sources import files
from renyi.sources.csv import CsvFile
from renyi.warnings import warn

PREDICTION = "prediction"
_ROWS = 2**16  # of a batch
_INTEGERS = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
_NULLABLE = {pa.type_for_alias(t.lower()): pd.Series(dtype=t).dtype for t in _INTEGERS}


def run(args: Args, recorded: Recorded) -> None:
    """Answer the rows of a table with a model."""
    place = output.check_out(args, args.out, WRITTEN)
    clf = inputs.load_any_model(args.model)
    with streams.opened_rows(args, clf.encoder_) as opened:
        rows = requested_rows(args, clf, opened)
        _print_answers(args, recorded, rows, place)


def _print_answers(
    args: Args, recorded: Recorded, rows: RowsToAnswer, place: Path | None
) -> None:
    types = {**rows.id_types, PREDICTION: pa.array(rows.clf.classes_).type}
    facts: Facts = {}
    with (
        output.answering(args, place, facts, types) as write,
        Meter(place is not None) as meter,
    ):
        count, error = _answer_all(args, rows, write, meter)
        texts = messages.notes_of(recorded)
        facts |= {"rows": count, "error": error, "notes": texts}
    if args.json:
        return
    messages.print_notes(texts)
    if args.prevalence is not None:
        second = label_text(rows.clf.classes_.tolist()[1])
        share = chosen_percent(args.prevalence)
        print(f"Answers for rows of which {share} are {second!r}", file=sys.stderr)
    if error is not None:
        print(_error_text(error, args.prevalence), file=sys.stderr)
    if place is not None:
        print(f"Wrote {place} ({number_of(count, 'row')})", file=sys.stderr)


def _error_text(error: Facts, prevalence: float | None) -> str:
    """Return the error rate, and of which rows it is."""
    low, high = error_interval(error["error"], error["rows"])
    rows = f"{error['wrong']:,} of {number_of(error['rows'], 'row')}"
    if error["unknown"]:
        have = "has" if error["unknown"] == 1 else "have"
        rows += f"; {error['unknown']:,} of these {have} a class unknown to the model"
    if error["unjudged"]:
        rows += f"; {error['unjudged']:,} more have no class"
    if error["training_rows"]:
        rows += "; these are the training rows, so the error is too low"
    if prevalence is not None:
        rows += f"; at their own shares of classes, not at {prevalence:g}"
    rows += f"; 95 % interval {interval_text(low, high)}"
    rate = "0 %" if error["wrong"] == 0 else percent(error["error"])
    always = f"always answering {error['always']!r}: {percent(error['baseline'])}"
    return f"error rate {rate} ({rows}); {always}"


# ---- the rows to answer


# Some rows: the model's columns, those to copy, and the target if it is there.
Batch = tuple[pa.Table, pa.Table, pa.ChunkedArray | None]


class RowsToAnswer:
    """The rows of some files that a model is to answer, batch by batch."""

    def __init__(
        self,
        clf: AnyFit,
        tables: Sequence[files.AnyPath],
        ids: list[str],
        target: str | None = None,
        where: str | None = None,
    ) -> None:
        self.clf = clf
        self.ids = ids
        self.target = target
        self.where = where
        self.tables = files.open_tables(tables)
        self.features = list(clf.encoder_.input_names)
        self.of_csv = isinstance(self.tables[0], CsvFile)
        # What the columns of a CSV file are, whatever their cells look like.
        self._kinds = files.column_kinds(clf.encoder_.single)
        if target is not None:
            texts = any(isinstance(label, str) for label in clf.classes_.tolist())
            self._kinds[target] = "label" if texts else "figure"

    @cached_property
    def id_types(self) -> dict[str, pa.DataType]:
        """Types of the columns to copy."""
        if self.of_csv:
            return dict.fromkeys(self.ids, pa.string())
        parts = [pa.schema([t.schema.field(n) for n in self.ids]) for t in self.tables]
        whole = pa.unify_schemas(parts, promote_options="permissive")
        return dict(zip(whole.names, whole.types, strict=True))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order, a bounded number at a time."""
        target = [] if self.target is None else [self.target]
        for table in files.batches(
            self.tables,
            list(dict.fromkeys([*self.features, *target, *self.ids])),
            missing=self.clf.encoder_.missing,
            kinds={**self._kinds, **dict.fromkeys(self.ids, "verbatim")},
            where=self.where,
        ):
            for start in range(0, table.num_rows, _ROWS):
                yield self._batch(table.slice(start, _ROWS))
            del table  # before the next one is read

    def _batch(self, table: pa.Table) -> Batch:
        copied = {name: table[name].cast(kind) for name, kind in self.id_types.items()}
        if self.of_csv:  # columns that are copied and interpreted too
            missing = missing_texts(self.clf.encoder_.missing)
            for name in self._kinds.keys() & {*self.ids}:
                column = typed(name, table[name], missing, self._kinds[name])
                place = table.column_names.index(name)
                table = table.set_column(place, name, column)
        truth = None if self.target is None else table[self.target]
        return table.select(self.features), pa.table(copied), truth


def requested_rows(args: Args, clf: AnyFit, opened: streams.OpenedRows) -> RowsToAnswer:
    """Return the rows to answer; warn of the columns that are not used."""
    tables = opened.tables
    features = list(clf.encoder_.input_names)
    for table in tables:
        names = table.schema.names
        inputs.check_separate(args, ["id"], names)
        files.require(table.path, names, args.id)
        check_features(table.path, names, features)
    everywhere = all(clf.target in table.schema.names for table in tables)
    target = clf.target if everywhere else None
    used = {*features, *args.id, target}
    extra = [name for name in tables[0].schema.names if name not in used]
    if extra:
        what = f"Ignored {number_of(len(extra), 'column')} that the model does not use"
        warn(f"{what}: {listed(extra)}.", "ignored-column")
    ids = list(dict.fromkeys(args.id))
    rows = RowsToAnswer(clf, tables, ids, target, opened.where)
    if rows.of_csv:
        notes.warn_of_spaces(clf.encoder_.single.columns)
    return rows


def check_features(path: object, names: list[str], features: list[str]) -> None:
    """Reject a file that lacks columns of the model."""
    known = set(names)
    lacking = [name for name in features if name not in known]
    if len(lacking) > 1:
        raise ValueError(
            f"{path} lacks {len(lacking):,} columns that the model needs: "
            f"{listed(lacking)}. It has {listed(names)}."
        )
    try:
        files.require(path, names, lacking)
    except ValueError as error:
        text = str(error).rstrip(".")
        raise ValueError(f"{text}. The model needs this column.") from None


def heldout_rows(
    clf: AnyFit,
    model: str,
    rows: files.TableFile | streams.OpenedRows,
    target: str | None,
) -> tuple[pa.Table, list[str]]:
    """Read the rows of a table that have a class, as the model takes them.

    The classes are texts: those of the model, whatever the writing of a number, and
    others that it does not know.
    """
    if not isinstance(rows, streams.OpenedRows):
        rows = streams.OpenedRows(str(rows.path), [rows])
    path = rows.name
    names = rows.tables[0].schema.names
    if target is None and clf.made_elsewhere and clf.target not in names:
        raise ValueError(
            f"{path} has no column {clf.target!r}: name the column that {model} "
            "predicts with --target."
        )
    target = clf.target if target is None else target
    files.require(path, names, [target])
    features = list(clf.encoder_.input_names)
    if target in features:
        raise ValueError(
            f"{model} uses the column {target!r} as a feature, so it cannot be "
            "the class: name another column with --target."
        )
    check_features(path, names, features)
    if has_weights(scorer_of(clf)):
        warn(
            f"{model} was trained on weighted rows; those of {path} all count the same."
        )
    if isinstance(rows.tables[0], CsvFile):
        notes.warn_of_spaces(clf.encoder_.single.columns)
    labels = clf.classes_.tolist()
    kinds = files.column_kinds(clf.encoder_.single)
    if any(isinstance(label, str) for label in labels):
        kinds[target] = "label"
    missing = clf.encoder_.missing
    table = files.read_table(
        rows.tables,
        [*features, target],
        missing=missing,
        kinds=kinds,
        where=rows.where,
    )
    answer, codes = encoded_target(table[target], target, clf.encoder_)
    known = codes >= 0
    X = table.filter(pa.array(known)).drop_columns([target])
    warn_of_unseen(clf, unseen_cells(clf, X))
    cells = [answer.categories[k] for k in codes[known]]
    pairs = zip(cells, inputs.known_classes(cells, labels), strict=True)
    return X, [label_text(cell) if text is None else text for cell, text in pairs]


# ---- answers


def _answer_all(
    args: Args, rows: RowsToAnswer, write: Write, meter: Meter
) -> tuple[int, Facts | None]:
    """Answer batch after batch; return the number of rows, and the errors if known."""
    begun = time.monotonic()
    unseen = np.zeros((2, len(rows.clf.encoder_.single.columns)), np.int64)
    classes = streams.TargetClasses(rows.clf)
    texts = np.array([*classes.texts, None], object)  # the last of an unknown class
    of_class = np.zeros(len(classes.texts), np.int64)
    count = judged = unknown = wrong = 0
    seen = _TrainingRows(rows.clf)
    for X, ids, truth in rows.batches():
        unseen += unseen_cells(rows.clf, X)
        codes = rows.clf.encoder_.transform(X)
        table = _answers(args, rows.clf, codes, ids)
        if truth is not None:
            present, places = classes.places(truth)
            judged += len(places)
            seen.add(codes[:, present], places)
            unknown += int((places == UNKNOWN).sum())
            known = places[places != UNKNOWN]
            of_class += np.bincount(known, minlength=len(of_class))
            wrong += int((_texts(table[PREDICTION])[present] != texts[places]).sum())
        write(table)
        count += len(table)
        seconds = max(time.monotonic() - begun, 1e-9)
        pace = f"{count:,} rows, {count / seconds:,.0f} rows a second"
        meter(Progress("answering", seconds, facts=pace))
    if not count:
        raise files.no_rows(rows.tables, rows.where)
    warn_of_unseen(rows.clf, unseen)
    if rows.target is not None and judged == unknown:
        warn(
            f"The column {rows.target!r} has none of the model's classes, so the error "
            "is not known."
        )
    if judged == unknown:
        return count, None
    told: Facts = {"rows": judged, "wrong": wrong, "error": wrong / judged}
    told |= {"unknown": unknown, "unjudged": count - judged}
    told |= {
        "always": classes.texts[of_class.argmax()],
        "baseline": 1 - float(of_class.max() / judged),
        "training_rows": seen.are_all,
    }
    return count, told


class _TrainingRows:
    """Whether the rows answered are those of the training, by the digest of counts."""

    def __init__(self, clf: AnyFit) -> None:
        self._clf = clf
        self._n = 0
        self._counts: NDArray[np.int64] | None = None
        self._possible = clf.data_digest_ is not None

    def add(self, codes: NDArray[np.intp], places: NDArray[np.intp]) -> None:
        """Count some rows, as long as they may all be from the training."""
        card = scorer_of(self._clf)
        sizes = card.encoder.columns.sizes
        self._n += len(places)
        self._possible &= self._n <= self._clf.certificate_.n
        self._possible &= UNKNOWN not in places
        self._possible &= not (codes >= sizes[:, None]).any()
        if self._possible and len(places):
            counts = class_label_counts(codes, sizes, places, card.n_classes)
            self._counts = counts if self._counts is None else self._counts + counts

    @property
    def are_all(self) -> bool:
        """Whether the rows have the counts of all training rows."""
        trained = self._clf.data_digest_
        if trained is None or self._counts is None or not self._possible:
            return False
        return are_counts_of(trained, scorer_of(self._clf), self._counts, self._n)


def _answers(
    args: Args, clf: AnyFit, codes: NDArray[np.intp], ids: pa.Table
) -> pd.DataFrame:
    """Return ids, predictions and the other columns asked for, in row order.

    Probabilities have four digits in CSV, and all of them in Parquet and JSON.
    """
    full = args.out.endswith(".parquet") if args.out else args.json
    kept = copied_columns(ids)
    answers = clf.classes_[clf.answers(codes, args.prevalence)]
    columns: dict[str, Any] = {PREDICTION: answers}
    texts = [label_text(label) for label in clf.classes_.tolist()]
    if args.proba:
        shares = clf.probabilities(codes, args.prevalence).T
        if not full:
            shares = four_digits(shares)
        columns |= {f"proba_{t}": p for t, p in zip(texts, shares, strict=True)}
    if args.score:
        scores = clf.scores(codes)
        if scores.ndim == 1:
            columns["score"] = scores
        else:
            columns |= {f"score_{t}": s for t, s in zip(texts, scores.T, strict=True)}
    check_output_names(kept, columns)
    return pd.DataFrame({**kept, **columns})


def copied_columns(ids: pa.Table) -> dict[str, pd.Series]:
    """Return the columns to copy; integers with missing cells stay integers."""
    return {n: ids[n].to_pandas(types_mapper=_NULLABLE.get) for n in ids.column_names}


def check_output_names(ids: Collection[str], names: Collection[str]) -> None:
    """Reject a column to copy that has the name of another output column."""
    for name in {*ids} & {*names}:
        raise ValueError(
            f"The --id column {name!r} has the same name as an output column: rename "
            "it in the file."
        )


# ---- labels of the rows


def unseen_cells(clf: AnyFit, X: pa.Table) -> NDArray[np.int64]:
    """Return the number of cells of each column that training never saw.

    The first row counts empty cells where training had none, the second labels.
    """
    encoder = clf.encoder_.single
    # With a level for missing cells in every column, they differ from unseen labels.
    columns = [Column(c.name, c.levels.with_missing(True)) for c in encoder.columns]
    wide = replace(encoder, columns=Columns.of(columns), unseen="mean")
    codes = wide.transform(X)
    sizes = wide.columns.sizes
    had_none = encoder.columns.sizes < sizes
    empty = had_none * np.sum(codes == sizes[:, None] - 1, axis=1)
    return np.stack([empty, np.sum(codes >= sizes[:, None], axis=1)]).astype(np.int64)


def warn_of_unseen(clf: AnyFit, counts: NDArray[np.int64]) -> None:
    """Warn of empty cells and of labels that training never saw, if there are any."""
    names = clf.encoder_.single.feature_names
    of_one = "the mean of {} " + ("column" if clf.encoder_.order == 1 else "features")
    card = scorer_of(clf)
    if isinstance(card, Scorecard) and card.unseen is not None:
        of_one = "the model takes unknown labels"
    empty, labels = counts
    if empty.any():
        cells = number_of(int(empty.sum()), "empty cell")
        where = _where(names, empty)
        count = "it counts" if empty.sum() == 1 else "they count"
        whose = of_one.format("the" if np.count_nonzero(empty) == 1 else "their")
        warn(f"{cells} {where}, where training had none; {count} as {whose}.")
    if labels.any():
        one = labels.sum() == 1
        cells = "1 cell has a label" if one else f"{labels.sum():,} cells have labels"
        where = _where(names, labels)
        count = "it counts" if one else "they count"
        whose = of_one.format("its" if one else "their")
        warn(f"{cells} unseen in training, {where}; {count} as {whose}.")


def _where(names: Sequence[str], counts: NDArray[np.int64]) -> str:
    """Say in which columns some cells are."""
    most = f"in {names[int(counts.argmax())]!r}"
    columns = np.count_nonzero(counts)
    return most if columns == 1 else f"in {columns:,} columns, most of them {most}"


def _texts(predictions: pd.Series) -> NDArray[Any]:
    """Return predictions as texts, of which each is made once."""
    codes, different = factorized(np.asarray(predictions))
    return np.array([label_text(v) for v in different.tolist()], object)[codes]
