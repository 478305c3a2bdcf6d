"""The rows that a command line names: files, queries and tables of databases.

There is one way from any of them to a model. The rows are read as a stream and become
codes (`CodedRows`), in memory while they are few and in a temporary file beyond. A
target with a single class or a constant column is found in the codes
(`renyi.encoding.rules`). A command that needs no rows counts pairs as it reads.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.certificates.heldout import UNKNOWN, HeldoutRows, shuffled_rows
from renyi.cli import inputs, notes
from renyi.cli.output import Meter
from renyi.cli.parser import Args
from renyi.encoding.arrow import (
    coded,
    filled,
    requested_floats,
    weight_floats,
    without_views,
)
from renyi.encoding.arrow import labels as cell_labels
from renyi.encoding.columns import (
    Column,
    Columns,
    Label,
    Levels,
    label_text,
)
from renyi.encoding.encoder import Encoder, check_usable, target_encoder
from renyi.encoding.merging import merged_encoder
from renyi.encoding.rows import (
    RowSample,
    TrainingRows,
    counted_target,
    in_tuples,
)
from renyi.encoding.rules import (
    check_classes,
    check_names,
    check_target,
    counted_rows,
    missing_texts,
)
from renyi.encoding.tuples import Interactions
from renyi.estimators.model_file import AnyFit
from renyi.limits import check_memory
from renyi.marginals.marginals import Marginals, count_rows
from renyi.scorecard import scorer_of
from renyi.sources import databases, files, suffixes
from renyi.sources.csv import CsvFile
from renyi.sources.databases import DatabaseTable
from renyi.sources.files import CountRequest
from renyi.sources.kept_rows import KeptRows
from renyi.sources.layouts import OPTIONS
from renyi.sources.run import Split

_NUMBER = 8  # bytes of a row's class, and of its weight
_WITHOUT_DATABASES = ("hgr", "minimax", "select")


def counted(args: Args) -> Marginals:
    """Return the marginals of a file, or of its rows without constant columns."""
    if inputs.names_counts(args):
        return inputs.chosen_marginals(args)
    encoder = inputs.encoder_of(args)
    m = counted_rows_of(args, encoder, args.class_conditional)
    features = [column for column in m.columns if column.name != m.target]
    constant = {*inputs.constant_names(_named(args), features, len(features))}
    if constant:
        m = m.select(name for name in m.feature_names if name not in constant)
    notes.warn_of_labels(m.encoder.columns)
    return m


def counted_rows_of(
    args: Args, encoder: Encoder, class_conditional: bool = False
) -> Marginals:
    """Count the pairs of the rows that the command line names."""
    with opened_rows(args, encoder) as rows, Meter() as meter:
        request = _request(args, rows, encoder, class_conditional)
        m = files.count(rows.tables or None, request, meter)
    check_classes(m.classes, m.target)
    return _with_text_classes(m)


class CodedRows(NamedTuple):
    """The rows of a command as codes of single columns."""

    encoder: Encoder
    target: Column
    store: KeptRows

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.store.n

    @property
    def n_indicators(self) -> int:
        """Number of categories of all columns."""
        return int(self.encoder.columns.sizes.sum())

    def merged(self) -> CodedRows:
        """Return the rows with bins merged by the classes, if the encoder asks for it.

        The codes stay as they are stored, and change as they are read.
        """
        if not self.encoder.is_fine:
            return self
        blocks = [block.class_tables() for block in self.blocks()]
        tables = [
            None if parts[0] is None else np.sum(parts, axis=0)
            for parts in zip(*blocks, strict=True)
        ]
        return self._replace(encoder=merged_encoder(self.encoder, tables))

    def blocks(self, codes: bool = True) -> Iterator[TrainingRows]:
        """Yield the rows, block by block; without codes, their classes and weights."""
        columns = self.store.columns
        places = columns.places(self.encoder.feature_names if codes else [])
        own = self.encoder
        stored = own.with_columns(columns.take(places), own.binning) if codes else own
        labels = inputs.class_labels(columns[-1].categories).tolist()
        classes = np.array([self.target.categories.index(label) for label in labels])
        for block, weights in self.store.blocks([*places, -1]):
            y = classes[block[-1]]
            rows = TrainingRows(stored, self.target, block[:-1], y, weights)
            yield rows.in_features(own) if codes else rows

    def joined(self) -> TrainingRows:
        """Return all rows in memory."""
        return self._in_memory(len(self.encoder.columns), "codes")

    def sample(self) -> TrainingRows:
        """Return the rows that calibrate probabilities."""
        start = 0
        samples = []
        for block in self.blocks():
            samples.append(RowSample.of(block, start, self.n).rows)
            start += len(block.y)
        weights = None
        if self.store.weighted:
            weights = np.concatenate([block.weights for block in samples])
        return TrainingRows(
            self.encoder,
            self.target,
            np.concatenate([block.codes for block in samples], axis=1),
            np.concatenate([block.y for block in samples]),
            weights,
        )

    def weights(self) -> TrainingRows:
        """Return the classes and weights of all rows, without codes."""
        return self._in_memory(0, "weights")

    def _in_memory(self, n_columns: int, what: str) -> TrainingRows:
        """Return all rows, of which no block is in memory twice."""
        n = self.n
        kind = self.store.code_type
        numbers = 1 + self.store.weighted
        size = n * (n_columns * kind.itemsize + numbers * _NUMBER)
        check_memory(size, f"Holding the {what} of {n:,} rows")
        codes = np.empty((n_columns, n), kind)
        y = np.empty(n, np.intp)
        weights = np.empty(n) if self.store.weighted else None
        start = 0
        for block in self.blocks(codes=n_columns > 0):
            span = slice(start, start + len(block.y))
            codes[:, span] = block.codes
            y[span] = block.y
            if weights is not None:
                weights[span] = block.weights
            start = span.stop
        return TrainingRows(self.encoder, self.target, codes, y, weights)

    def in_tuples(
        self, order: int, interactions: Interactions | None = None
    ) -> TrainingRows:
        """Return all rows in memory, as codes of tuples of columns."""
        return in_tuples(self.joined(), order, interactions)

    def marginals(
        self,
        class_conditional: bool,
        order: int = 1,
        interactions: Interactions | None = None,
    ) -> Marginals:
        """Count the pairs of the rows, block by block."""
        if order > 1 or interactions is not None:
            return count_rows(self.in_tuples(order, interactions), class_conditional)
        parts = (count_rows(block, class_conditional) for block in self.blocks())
        return reduce(operator.add, parts)

    def shares(self) -> dict[str, float]:
        """Return the share of each class."""
        totals = np.zeros(len(self.target.categories))
        for block in self.blocks(codes=False):
            np.add.at(totals, block.y, block.weights)  # rounded as in a single block
        labels = map(label_text, self.target.categories)
        return dict(zip(labels, (totals / totals.sum()).tolist(), strict=True))


def coded_rows(
    args: Args, encoder: Encoder, store: KeptRows, constants: bool = False
) -> CodedRows:
    """Read the rows that the command line names; drop `constants` unless wanted."""
    with opened_rows(args, encoder) as rows:
        request = _request(args, rows, encoder.single)
        return _coded(rows, request, store, constants)


def _coded(
    rows: OpenedRows, request: CountRequest, store: KeptRows, constants: bool = False
) -> CodedRows:
    """Read the rows of a request; drop `constants` unless wanted."""
    with Meter() as meter:
        files.code_rows(rows.tables, request, store, meter)
    *features, target = store.columns
    labels = inputs.class_labels(target.categories).tolist()
    answer = Column(target.name, Levels("label", tuple(sorted(labels))))
    if not constants:
        names = {*inputs.constant_names(rows.name, features, len(features))}
        features = [column for column in features if column.name not in names]
    settings = request.encoder.settings()
    fitted = dataclasses.replace(settings, columns=Columns.of(features))
    check_usable(fitted)
    return CodedRows(fitted, answer, store)


# ---- rows that are held out


@contextmanager
def split_rows(
    args: Args, encoder: Encoder, store: KeptRows, split: Split
) -> Iterator[tuple[CodedRows, HeldOut]]:
    """Read the rows to train on, which alone say what the columns are; keep others.

    The rows are read again for those held out.
    """
    with repeatable_rows(args, encoder) as rows:
        request = _request(args, rows, encoder.single)
        training = _coded(rows, request._replace(choose=split.training), store)
        yield training, HeldOut(rows.tables, request._replace(choose=split.heldout))


class HeldOut(NamedTuple):
    """The rows of some files that no model has seen."""

    tables: list[files.TableFile]
    request: CountRequest

    def rows(self, fit: AnyFit) -> HeldoutRows:
        """Return the rows whose class is known, as a model sees them."""
        encoder = fit.encoder_
        target = self.request.target
        classes = TargetClasses(fit)
        codes = [np.zeros((len(encoder.columns), 0), np.uint8)]
        places = [np.zeros(0, np.intp)]
        size = 0
        for table in files.batches(
            self.tables,
            [*encoder.input_names, target],
            missing=encoder.missing,
            kinds=files.column_kinds(encoder.single) | {target: classes.kind},
            where=self.request.where,
            choose=self.request.choose,
        ):
            present, own = classes.places(table[target])
            codes.append(encoder.transform(table.drop_columns([target]))[:, present])
            places.append(own)
            size += codes[-1].nbytes + own.nbytes
            check_memory(2 * size, "Holding the codes of the rows held out")
        y = np.concatenate(places)
        if len(y) < 2:
            raise ValueError(
                f"Of the rows held out, {len(y)} has a class: hold out more "
                "(--holdout), or give more rows."
            )
        every = np.concatenate(codes, axis=1)
        return shuffled_rows(scorer_of(fit), every, y, tuple(sorted(classes.unknown)))


class TargetClasses:
    """The classes of a model, and how cells of its target are read."""

    def __init__(self, fit: AnyFit) -> None:
        self._labels = fit.classes_.tolist()
        self._missing = missing_texts(fit.encoder_.missing)
        self.texts = [label_text(label) for label in self._labels]
        self._place = {text: k for k, text in enumerate(self.texts)}
        has_texts = any(isinstance(label, str) for label in self._labels)
        self.kind = "label" if has_texts else "figure"
        self.unknown: set[str] = set()  # texts of other classes that rows have

    def places(
        self, column: pa.ChunkedArray
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Return which rows have a class, and its place among the model's."""
        indices, dictionary = coded(column.combine_chunks())
        cells = cell_labels(dictionary, "", self._missing)
        present = np.array([*(cell is not None for cell in cells), False])
        known: list[Label] = [cell for cell in cells if cell is not None]
        texts = dict(zip(known, inputs.known_classes(known, self._labels), strict=True))
        self.unknown |= {label_text(each) for each in known if texts[each] is None}
        place = [self._place.get(texts.get(cell) or "", UNKNOWN) for cell in cells]
        rows = filled(indices)
        of_row = np.array([*place, UNKNOWN], np.intp)[rows]
        return present[rows], of_row[present[rows]]


# ---- cells in memory, for methods that learn what the columns are themselves


class Table(NamedTuple):
    """The cells of the rows that count, and their classes, in memory."""

    target: str
    encoder: Encoder
    X: pa.Table
    y: pd.Series


def read_table(args: Args, rows: OpenedRows, encoder: Encoder) -> Table:
    """Read the cells of rows that can be read repeatedly."""
    names = rows.tables[0].schema.names
    target, columns, kinds = inputs.chosen_columns(args, rows.name, names, encoder)
    read_as = kinds | files.column_kinds(encoder.single)
    table = files.read_table(
        rows.tables, columns, missing=encoder.missing, kinds=read_as, where=rows.where
    )
    for k, (name, column) in enumerate(zip(columns, table.columns, strict=True)):
        if kinds.get(name) == "number":
            table = table.set_column(k, name, requested_floats(name, column))
        elif kinds.get(name) == "label" and not pa.types.is_string(column.type):
            table = table.set_column(k, name, column.dictionary_encode())
    answer, codes, known = counted_target(table[target], target, encoder, None)
    if not known.all():
        table = without_views(table).filter(pa.array(known))
    check_target(answer, len(codes))
    check_classes(answer.categories, target)
    labels = inputs.class_labels(answer.categories)[codes]
    y = pd.Series(labels, name=target, dtype=labels.dtype)
    X = table.drop_columns([target])
    notes.warn_of_identifiers(X)
    return Table(target, encoder, X, y)


def without_constants(name: str, table: Table) -> Table:
    """Return a table without the columns that do not tell its rows apart."""
    X = table.X
    # Few columns are suspect, and a look at their cells costs less than their codes.
    most = 2 + len(table.encoder.missing)
    every_column = table.encoder.min_count > 1 or X.num_rows <= most
    suspects = [
        name
        for name, column in zip(X.column_names, X.columns, strict=True)
        if pa.types.is_dictionary(column.type) or not pa.types.is_nested(column.type)
        if every_column or len(pc.unique(column)) <= most
    ]
    columns: Sequence[Column] = ()
    if suspects:
        fitted, _ = table.encoder.fit_transform(
            X.select(suspects), refuse_identifiers=False
        )
        columns = fitted.columns
    constant = frozenset(inputs.constant_names(name, columns, X.num_columns))
    names = [name for name in X.column_names if name not in constant]
    return table._replace(X=X.select(names))


# ---- what is read


def _named(args: Args) -> str:
    """Return what a sentence calls the rows."""
    if args.table is not None:
        return f"Table {args.table!r}"
    if not args.files:
        return "The query"
    more = f" and {len(args.files) - 1} more" if len(args.files) > 1 else ""
    return f"{args.files[0]}{more}"


def _request(
    args: Args,
    rows: OpenedRows,
    encoder: Encoder,
    class_conditional: bool = False,
) -> CountRequest:
    """Return what the command line asks for; warn of columns that number the rows."""
    if rows.sql is None:
        names = rows.tables[0].schema.names
    else:
        missing = missing_texts(encoder.missing)
        names = files.query(rows.sql, missing, rows.tables).schema.names
    target, columns, kinds = inputs.chosen_columns(args, rows.name, names, encoder)
    features = [name for name in columns if name not in (target, args.weight)]
    if not encoder.columns and rows.sql is None:
        suspects = [name for name in features if name not in kinds]
        _warn_of_identifiers(args, rows.tables[0], suspects, target, encoder)
    return CountRequest(
        target,
        encoder,
        class_conditional,
        features,
        rows.where,
        rows.sql,
        args.weight,
        kinds,
    )


def _warn_of_identifiers(
    args: Args,
    table: files.TableFile,
    suspects: list[str],
    target: str,
    encoder: Encoder,
) -> None:
    """Warn of columns whose first countable cells are nearly all different."""
    weight = [] if args.weight is None else [args.weight]
    read = [*suspects, target, *weight]
    as_text = dict.fromkeys(weight, "verbatim")
    first, whole = files.first_rows(table, read, encoder.missing, as_text)
    if not first.num_rows:
        return
    if isinstance(table, CsvFile):
        looked_at = first.select([*suspects, target])
        notes.check_header(table.path, looked_at, table.header.has_names)
    with suppress(ValueError, TypeError):  # reported when such rows are read
        answer, (codes,) = target_encoder(encoder).fit_transform(
            first.select([target]), refuse_identifiers=False
        )
        labels = np.array(answer.columns[0].categories, object)
        known = labels[codes] != None  # noqa: E711, cell by cell
        for name in weight:
            known = counted_rows(known, weight_floats(name, first[name]))
        some = without_views(first).filter(pa.array(known)).select(suspects)
        notes.warn_of_identifiers(some, "" if whole else "the first ")


def in_database(args: Args) -> bool:
    """Whether the rows are in a database; reject options that do not go with it."""
    names = [name for name in args.files if databases.is_database(name)]
    if args.table is None and not names:
        return False
    check_command_reads_databases(args)
    if len(args.files) != 1 or not names:
        raise ValueError(
            f"--table is a table of one database ({', '.join(suffixes.DATABASE)}, or "
            "postgresql://…): name that database, and no other file."
        )
    how = "whose rows are chosen by --table and --where: make a view of what you need"
    why = f"is for files; {names[0]} is a database, {how}"
    inputs.check_not_given(args, ["sql", *OPTIONS], why)
    return True


def check_command_reads_databases(args: Args) -> None:
    """Reject a database of a command without --table; say what to name instead."""
    if args.command not in _WITHOUT_DATABASES:
        return
    for given in filter(databases.is_database, args.files):
        if not databases.is_address(given):
            files.existing(given)
        name = databases.shown_address(given)
        build = f"renyi marginals build {name} --table NAME"
        how = f"count it first with '{build} …' and name its marginals"
        raise ValueError(
            f"{name} is a database, which {args.command} cannot read: {how}."
        )


class OpenedRows(NamedTuple):
    """Rows of opened files, or of a query on them, and what messages call them."""

    name: str
    tables: list[files.TableFile]
    where: str | None = None  # a condition that a database has not applied yet
    sql: str | None = None


@contextmanager
def opened_rows(args: Args, encoder: Encoder) -> Iterator[OpenedRows]:
    """Open the files of a command, or the table of its database."""
    name = _named(args)
    if not in_database(args):
        sql = getattr(args, "sql", None)  # predict has no such option
        yield OpenedRows(name, inputs.opened_tables(args), args.where, sql)
        return
    with opened_table(args, args.files[0], encoder, args.where) as table:
        yield OpenedRows(name, [table])


@contextmanager
def repeatable_rows(args: Args, encoder: Encoder) -> Iterator[OpenedRows]:
    """Open the rows of a command so that each reading gives the same, in one order.

    A query and a database may give their rows in another order the second time. They
    are read once, into a temporary file.
    """
    with TemporaryDirectory() as folder:
        with opened_rows(args, encoder) as rows:
            files.check_one_choice(rows.where, rows.sql)
            if rows.sql is not None or isinstance(rows.tables[0], DatabaseTable):
                missing = missing_texts(encoder.missing)
                place = Path(folder) / "rows.arrow"
                saved = files.save_rows(rows.tables, rows.sql, missing, place)
                check_names(saved.schema.names, rows.name)
                rows = OpenedRows(rows.name, [saved])
        yield rows


@contextmanager
def opened_table(
    args: Args, name: str, encoder: Encoder, where: str | None = None
) -> Iterator[databases.DatabaseTable]:
    """Open a table of a database file or a server."""
    if not databases.is_address(name):
        files.existing(name)
    missing = missing_texts(encoder.missing)
    with databases.open_table(
        args.addresses.get(name, name), args.table, where, missing, args.trust_views
    ) as table:
        check_names(table.schema.names, table.path)
        yield table


def _with_text_classes(m: Marginals) -> Marginals:
    """Return marginals whose classes are texts if some are fractions."""
    if not any(isinstance(label, float) for label in m.classes):
        return m
    texts = inputs.class_labels(m.classes).tolist()
    order = np.argsort(np.array(texts, object), kind="stable")
    answer = Column(m.target, Levels("label", tuple(sorted(texts))))
    where = np.arange(m.counts.shape[0])
    where[-len(texts) :] = where[-len(texts) :][order]
    return dataclasses.replace(
        m,
        counts=m.counts[np.ix_(where, where)],
        columns=Columns.of([*m.columns[:-1], answer]),
        class_counts=None if m.class_counts is None else m.class_counts[order],
    )
