"""What the commands read: models, marginals, and tables.

The rows of a table are held in memory (`Rows`), or counted as they are read from files,
queries and databases (`streamed_marginals`). Options mean the same for both, and the
counts are the same. What has to be seen of all rows together, such as a target with a
single class, is checked of the counts (`renyi.encoding.column_rules`).
"""

from __future__ import annotations

import dataclasses
import glob
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi import datasets, endings
from renyi.checks import check_memory, memory_budget
from renyi.cli.output import Args, Meter, Recorded, print_json, print_notes
from renyi.encoding.arrow_cells import (
    check_type,
    coded,
    labels,
    number_text,
    plain_type,
    requested_floats,
    storage,
    without_views,
)
from renyi.encoding.column_rules import (
    MISSING_CODES,
    check_classes,
    check_sample_weight,
    check_target,
    constant_columns,
    may_identify_rows,
    missing_texts,
)
from renyi.encoding.columns import Column, Columns, Label, Levels, label_text
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.endings import MARGINALS
from renyi.estimators.classifier import RenyiClassifier
from renyi.figures import number_of
from renyi.marginals.marginals import Marginals
from renyi.sources import databases, files, sql
from renyi.sources.frames import TrainingRows, encoded_target
from renyi.warnings import warn

LARGE = 50_000_000  # bytes of a file whose reading is announced on a terminal
_FOR_TABLES = ("numeric", "categorical", "missing", "weight", "bins", "min_count")


def list_datasets(args: Args, recorded: Recorded) -> None:
    """Print the bundled data sets."""
    table = datasets.describe()
    if args.json:
        print_json(table.to_dict("records"))
        return
    print(f"{'name':<10} {'rows':>6} {'features':>8} {'numeric':>8}  target  classes")
    for row in table.itertuples():
        print(
            f"{row.name:<10} {row.rows:>6} {row.features:>8} {row.numeric:>8}  "
            f"{row.target:<7} {row.class_counts}"
        )
    print("\nNext: renyi fit votes --out votes")


# ---- models and marginals


def load_model(path: str) -> RenyiClassifier:
    """Read a model; of another file, the error says what is to be named."""
    place = files.existing(path)
    try:
        return RenyiClassifier.load(place)
    except ValueError as error:
        if place.suffix == ".json":
            raise
        what = "MODEL is to be a model that fit wrote (.json)"
        raise ValueError(f"{str(error).rstrip('.')}; {what}.") from None


def load_marginals(path: str) -> Marginals:
    """Read marginals; a path without a file is an error that suggests another."""
    return Marginals.load(files.existing(path))


def chosen_marginals(args: Args) -> Marginals:
    """Read marginals, and take the target and the columns that were requested."""
    for option in _FOR_TABLES:
        if getattr(args, option):
            raise ValueError(
                f"--{option.replace('_', '-')} is for tables; {args.file} holds "
                "marginals, whose columns are settled: leave the option out."
            )
    m = load_marginals(args.file)
    if args.target is not None:
        files.require(args.file, m.columns.names, [args.target])
        m = m.with_target(args.target)
    aside = {*args.id, *args.drop}
    files.require(args.file, m.columns.names, aside)
    if m.target in aside:
        raise ValueError(f"Column {m.target!r} is the target: it cannot be dropped.")
    if aside:
        m = m.select(name for name in m.feature_names if name not in aside)
    return m


def check_missing_class(m: Marginals, source: str) -> None:
    """Refuse marginals with rows whose class is missing."""
    if None in m.classes:
        raise ValueError(
            f"The target {m.target!r} is missing in some rows of {source}, which "
            "marginals cannot leave out: count again without these rows."
        )


def with_source(m: Marginals, names: list[str]) -> Marginals:
    """Return the marginals with the files they came from."""
    # Names only: folders of one machine are nobody else's business.
    source = {"files": [Path(name).name for name in names]}
    return dataclasses.replace(m, provenance=source)


def counted(args: Args) -> Marginals:
    """Return the marginals of a file, or those of a table, counted."""
    if not args.file.endswith(MARGINALS):
        encoder = encoder_of(args)
        if is_too_large(args):
            return streamed_marginals(args, encoder, args.class_conditional, False)
        return usable_rows(args, encoder).marginals(encoder, args.class_conditional)
    m = chosen_marginals(args)
    if args.class_conditional and m.class_counts is None:
        raise ValueError(
            f"{args.file} has no pairs within each class: count them with 'renyi "
            "marginals build --class-conditional'."
        )
    return m


# ---- tables and their columns


def table_path(name: str, announce: bool = True) -> Path:
    """Return the file of a table, which may be the name of a bundled one."""
    if name in datasets.names() and not Path(name).is_file():
        return datasets.path(name)
    if not Path(name).suffix and not Path(name).exists() and os.sep not in name:
        try:
            datasets.path(name)
        except ValueError as error:
            raise ValueError(f"There is no file {name!r}. {error}") from None
    path = files.existing(name, datasets.names())
    if path.suffix == MARGINALS:
        raise ValueError(f"{path} holds marginals, which have no rows: name a table.")
    if announce and path.stat().st_size > LARGE and sys.stderr.isatty():
        print(f"reading {path} …", file=sys.stderr)
    return path


def table_paths(names: Sequence[str]) -> list[Path]:
    """Return the files of a table in several: patterns and folders are searched."""
    return files.matching(
        [name if _is_searched(name) else table_path(name, False) for name in names]
    )


def opened_tables(args: Args) -> list[files.TableFile]:
    """Return the files of a command, each of which is opened once."""
    if "tables" not in args:
        args.tables = files.open_tables(table_paths(args.files)) if args.files else []
    found: list[files.TableFile] = args.tables
    return found


def _is_searched(name: str) -> bool:
    """Whether a name stands for the files of a folder, or those that match it."""
    return Path(name).is_dir() or (glob.has_magic(name) and not Path(name).is_file())


def encoder_of(args: Args) -> Encoder:
    """Return the encoder that the options describe."""
    given = {key: getattr(args, key) for key in ("bins", "min_count", "unseen")}
    known = {key: value for key, value in given.items() if value is not None}
    return Encoder(missing=(*MISSING_CODES, *args.missing), **known)


def _chosen_columns(
    args: Args, source: Any, names: Sequence[str], encoder: Encoder
) -> tuple[str, list[str], dict[str, str]]:
    """Return the target, the columns to read and what some are, as requested."""
    target = args.target
    alone = len(getattr(args, "files", [args.file])) == 1
    if target is None and alone and args.file in datasets.names():
        target = opened_tables(args)[0].schema.names[-1]  # as in every bundled one
    if target is None:
        raise ValueError(
            f"--target is required: name the column of {source} to predict, such as "
            f"one of {', '.join(map(repr, names[:8]))}."
        )
    weight = [] if args.weight is None else [args.weight]
    requested = [*args.id, *args.drop, *args.numeric, *args.categorical, *weight]
    files.require(source, names, [target, *requested])
    if target in requested:
        raise ValueError(
            f"Column {target!r} is the target: leave it out of --id, --drop, "
            "--numeric, --categorical and --weight."
        )
    for name in sorted({*args.numeric} & {*args.categorical}):
        raise ValueError(f"Column {name!r} cannot be both --numeric and --categorical.")
    aside = {*args.id, *args.drop}.difference(weight)
    columns = [name for name in names if name not in aside]
    if encoder.columns:
        files.require(source, columns, encoder.input_names)
        columns = [*encoder.input_names, *weight, target]
    kinds = dict.fromkeys(args.numeric, "number")
    return target, columns, kinds | dict.fromkeys(args.categorical, "label")


def constant_names(source: str, columns: Iterable[Column], total: int) -> list[str]:
    """Return the columns of `total` that do not tell rows apart; warn of them."""
    constant, empty = constant_columns(columns)
    if len(empty) + len(constant) == total:
        why = "it has the target only"
        if total:
            why = f"one value or none in {listed([*constant, *empty])}"
        raise ValueError(f"No usable column is left in {source}: {why}.")
    for names, what in ((constant, "one value only"), (empty, "no value")):
        if names:
            many = number_of(len(names), "column")
            warn(f"Dropped {many} with {what}: {listed(names)}.")
    return [*constant, *empty]


def warn_of_identifiers(X: pa.Table, which: str = "") -> None:
    """Warn of integers that are nearly all different and will be binned as numbers.

    `which` says which rows they are, if these are not all.
    """
    if not may_identify_rows(X.num_rows, X.num_rows):
        return
    for name, column in zip(X.column_names, X.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        count, n = pc.count_distinct(column).as_py(), len(column)
        if may_identify_rows(count, n):
            warn(
                f"Column {name!r} has {count:,} different values in {which}{n:,} rows: "
                f"pass --id {shlex.quote(name)} if it identifies rows."
            )


def listed(names: list[str]) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


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


# ---- rows in memory


class Rows(NamedTuple):
    """Rows to learn from."""

    target: str
    X: pa.Table
    y: pd.Series
    weights: NDArray[np.float64] | None

    def shares(self) -> dict[str, float]:
        """Return the share of each class."""
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        total = pd.Series(weights).groupby(self.y.to_numpy()).sum() / weights.sum()
        return {label_text(k): float(v) for k, v in total.items()}

    def marginals(
        self, encoder: Encoder, class_conditional: bool, order: int = 1
    ) -> Marginals:
        """Return the counts of their pairs."""
        how: Any = {"class_conditional": class_conditional, "order": order}
        how |= {"target": self.target, "sample_weight": self.weights}
        return Marginals.from_data(self.X, self.y, encoder=encoder, **how)

    def error(self, model: Any) -> float:
        """Return the share of rows that a model answers wrongly."""
        wrong = model.predict(self.X) != self.y.to_numpy()
        return float(np.average(wrong, weights=self.weights))


def read_rows(args: Args, encoder: Encoder) -> Rows:
    """Read the rows of a table, without those whose target is missing."""
    (file,) = opened_tables(args)
    table_path(args.file)  # says that it is read, if that takes long
    names = file.schema.names
    target, columns, kinds = _chosen_columns(args, file.path, names, encoder)
    aside = [target] if args.weight is None else [target, args.weight]
    kinds |= dict.fromkeys(aside[1:], "number") | files.column_kinds(encoder.single)
    table = files.read_table(file, columns, missing=encoder.missing, kinds=kinds)
    for k, (name, column) in enumerate(zip(columns, table.columns, strict=True)):
        if name in args.numeric:
            table = table.set_column(k, name, requested_floats(name, column))
        elif name in args.categorical and not pa.types.is_string(column.type):
            table = table.set_column(k, name, column.dictionary_encode())
    weights = None
    if args.weight is not None:
        try:
            values = requested_floats(args.weight, table[args.weight]).to_numpy()
            weights = check_sample_weight(values, len(values))
        except ValueError as error:
            what = f"{file.path}, column of weights {args.weight!r}"
            raise ValueError(f"{what}: {error}") from None
    answer, codes = encoded_target(table[target], target, encoder)
    kept = codes >= 0
    if not kept.all():
        table = without_views(table).filter(pa.array(kept))
        codes = codes[kept]
        weights = None if weights is None else weights[kept]
    check_target(answer, len(codes))
    check_classes(answer.categories, target)
    y = pd.Series(_class_labels(answer.categories)[codes], name=target)
    return Rows(target, table.drop_columns(aside), y, weights)


def usable_rows(args: Args, encoder: Encoder) -> Rows:
    """Read the rows of a table, without columns that do not tell them apart."""
    rows = read_rows(args, encoder)
    X, weights = rows.X, rows.weights
    # The encoder costs more than a look; it says what is wrong with nested columns.
    most = 2 + len(encoder.missing)
    all_of_them = encoder.min_count > 1 or X.num_rows <= most
    suspects = [
        name
        for name, column in zip(X.column_names, X.columns, strict=True)
        if pa.types.is_dictionary(column.type) or not pa.types.is_nested(column.type)
        if all_of_them or len(pc.unique(column)) <= most
    ]
    columns: Iterable[Column] = ()
    if suspects:
        some = X.select(suspects)
        if weights is not None and not weights.all():
            some = without_views(some).filter(pa.array(weights > 0))
            weights = weights[weights > 0]
        fitted, _ = encoder.fit_transform(some, weights, refuse_identifiers=False)
        columns = fitted.columns
    gone = frozenset(constant_names(args.file, columns, X.num_columns))
    X = X.select([name for name in X.column_names if name not in gone])
    warn_of_identifiers(X)
    return rows._replace(X=X)


def _class_labels(labels: Sequence[Label]) -> NDArray[Any]:
    """Return labels as classes: texts if some are fractions, which no classifier takes.

    >>> _class_labels((9.5, 10)).tolist()
    ['9.5', '10']
    """
    if any(isinstance(label, float) for label in labels):
        labels = [label_text(label) for label in labels]
    texts = any(isinstance(label, str) for label in labels)
    made = np.array(labels, object if texts else None)
    # Integers of which some need 64 bits without a sign would become floats.
    return np.array(labels, object) if made.dtype.kind == "f" else made


# ---- rows that are counted as they are read


def is_streamed(args: Args, order: int) -> bool:
    """Whether the options are those of rows that are counted as they are read.

    Features of several columns (`order`) need the rows in memory.
    """
    options = (args.where, args.sql, args.table, args.checkpoint)
    given = len(args.files) != 1 or any(options)
    given = given or databases.is_database(args.file) or _is_searched(args.file)
    if given and order > 1:
        raise ValueError(
            f"Features of {order} columns need the rows in memory: name one file, "
            "without --where, --sql, --table and --checkpoint."
        )
    return given


def is_too_large(args: Args, order: int = 1, most: float = math.inf) -> bool:
    """Whether the rows of a file would take more memory than a job may, or `most`.

    They are then counted as they are read, which leads to the same model.
    """
    if args.file.endswith(MARGINALS):
        return False
    (file,), budget = opened_tables(args), memory_budget()
    needed = files.memory(file, min(budget, most))
    if order > 1:
        what = f"Features of {order} columns cannot be counted as rows are read, and"
        check_memory(needed, f"{what} holding the rows of {file.path}")
        return False
    return needed > min(budget, most)


def streamed_marginals(
    args: Args,
    encoder: Encoder,
    class_conditional: bool = False,
    constants: bool = True,
) -> Marginals:
    """Count the rows that the command line names, perhaps without constant columns."""

    def usable(m: Marginals) -> Marginals:
        check_classes(m.classes, m.target)
        m = _with_text_classes(m)
        if constants:
            return m
        features = [column for column in m.columns if column.name != m.target]
        source = args.file or "the query"
        gone = {*constant_names(source, features, len(features))}
        kept = (name for name in m.feature_names if name not in gone)
        return m.select(kept) if gone else m

    if any(name.endswith(MARGINALS) for name in args.files):
        raise ValueError(
            f"{_named(args)} cannot be read as rows: add marginals with 'renyi "
            "marginals merge'."
        )
    if in_database(args):
        given = (encoder, class_conditional, args.where, args.weight)
        with _table(args, encoder) as table, Meter() as meter:
            return usable(sql.marginals(*table, *given, progress=meter))
    return _of_files(args, encoder, class_conditional, usable)


def coded_rows(args: Args, m: Marginals, codes: bool = True) -> TrainingRows:
    """Read the rows that were counted once more, as codes or for their weights alone.

    Where leave-one-out makes use of rows, their codes are small beside the counts.
    """
    if codes:
        size = m.n * len(m.encoder.columns)
        check_memory(size, f"Holding the codes of {m.n:,.10g} rows")
    blocks = list(coded_blocks(args, m, codes))
    if not m.weighted and sum(len(block.y) for block in blocks) != m.n:
        raise ValueError(f"{_named(args)} has changed while it was read: try again.")
    return TrainingRows(
        m.encoder,
        np.concatenate([block.codes for block in blocks], axis=1),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.weights for block in blocks]) if m.weighted else None,
    )


def coded_blocks(
    args: Args, m: Marginals, codes: bool = True
) -> Iterator[TrainingRows]:
    """Read the rows that were counted once more, block by block."""
    encoder, names = m.encoder, list(m.encoder.input_names) if codes else []
    target = Columns.of([m._column(m.target)])
    answer = dataclasses.replace(target_encoder(encoder), columns=target)
    kinds = files.column_kinds(encoder) | files.column_kinds(answer)
    weight = [] if args.weight is None else [args.weight]
    for table in files.batches(
        opened_tables(args),
        [*names, m.target, *weight],
        missing=encoder.missing,
        kinds=kinds | dict.fromkeys(weight, "number"),
        where=args.where,
        sql=args.sql,
    ):
        for name in {*args.numeric, *weight} & {*table.column_names}:
            cells = requested_floats(name, table[name])
            table = table.set_column(table.column_names.index(name), name, cells)
        y = _class_codes(table[m.target], answer)
        weights = table[args.weight].to_numpy() if weight else None
        kept = y >= 0 if weights is None else (y >= 0) & (weights > 0)
        if not kept.all():
            table, y = table.filter(pa.array(kept)), y[kept]
            weights = None if weights is None else weights[kept]
        found = np.empty((0, len(y)), np.uint8)
        if names and len(y):
            found = encoder.transform(table.select(names))
        if len(y):
            yield TrainingRows(encoder, found, y, weights)


def _class_codes(cells: pa.ChunkedArray, answer: Encoder) -> NDArray[np.intp]:
    """Return the places of cells among the classes; -1 for a missing one.

    Classes that are fractions have become texts: cells are compared as numbers, too.
    """
    (column,) = answer.columns
    found = cells.combine_chunks().dictionary_encode()
    values = found.dictionary.to_pylist()
    values = [v if isinstance(v, (str, int, float)) else str(v) for v in values]
    meant = known_classes(values, list(column.categories))
    others = {text: k for k, text in enumerate(column.levels.texts)} | {None: -1}
    (codes,) = answer.transform(pa.table([found.dictionary], names=[column.name]))
    size = len(column.categories)
    places = [k if k < size else others[t] for k, t in zip(codes, meant, strict=True)]
    indices: NDArray[Any] = found.indices.fill_null(len(values)).to_numpy()
    return np.asarray(np.array([*places, -1], np.intp)[indices])


def statements(args: Args, encoder: Encoder) -> list[str]:
    """Return the statements that count a table of a database; some are asked now."""
    if not in_database(args):
        what = "tables of databases: name a database and a --table"
        raise ValueError(f"--print-sql is for {what}.")
    given = (encoder, args.class_conditional, args.where, args.weight)
    with _table(args, encoder) as table:
        return sql.statements(*table, *given, explained=True)


def _named(args: Args) -> str:
    """Return what a sentence calls the rows."""
    if args.table is not None:
        return f"Table {args.table!r}"
    if not args.files:
        return "The query"
    more = f" and {len(args.files) - 1} more" if len(args.files) > 1 else ""
    return f"{args.files[0]}{more}"


def _of_files(
    args: Args,
    encoder: Encoder,
    class_conditional: bool,
    accepted: Callable[[Marginals], Marginals],
) -> Marginals:
    tables = opened_tables(args)
    missing = missing_texts(encoder.missing)
    source = tables[0] if args.sql is None else files.query(args.sql, missing, tables)
    names = source.schema.names
    target, columns, kinds = _chosen_columns(args, _named(args), names, encoder)
    columns = [name for name in columns if name not in (target, args.weight)]
    if not encoder.columns and args.sql is None:  # of the first rows with a target
        suspects = [name for name in columns if name not in kinds]
        first, whole = files.first_rows(tables[0], [*suspects, target], encoder.missing)
        if first.num_rows:
            first = without_views(first)
            check_type(target, plain_type(first.schema.field(target).type))
            indices, found = coded(storage(first[target].combine_chunks()))
            known = [label is not None for label in labels(found, "", missing)]
            rows = first.filter(pa.array(known, pa.bool_()).take(indices))
            warn_of_identifiers(rows.select(suspects), "" if whole else "the first ")
    kept, how = args.checkpoint, (target, encoder, class_conditional)
    which: Any = {"where": args.where, "sql": args.sql, "weight": args.weight}
    which |= {"columns": columns, "kinds": kinds, "checkpoint": kept}
    which |= {"accepted": accepted, "until": args.until}

    def tell(error: type[BaseException] | None, *_: object) -> None:
        text = "Nothing was kept; --checkpoint FILE keeps what has been counted."
        if kept is not None:
            text = f"{kept} keeps what was counted: the same command goes on."
        if error is KeyboardInterrupt and (kept is None or Path(kept).exists()):
            print_notes([text])

    args.until.push(tell)  # at the end, when it is clear what was kept
    with Meter() as meter:
        return files.marginals(tables or None, *how, progress=meter, **which)


def in_database(args: Args) -> bool:
    """Whether the rows are in a database; what does not go with it is refused."""
    found = [name for name in args.files if databases.is_database(name)]
    if args.table is None and not found:
        return False
    if len(args.files) != 1 or not found:
        raise ValueError(
            f"--table is a table of one database ({', '.join(endings.DATABASE)}): name "
            "that file, and no other."
        )
    for option in ("sql", "numeric", "categorical", "checkpoint"):
        if getattr(args, option):
            raise ValueError(
                f"--{option} is for files; {found[0]} is a database, which is counted "
                "by --table and --where: make a view of what you need."
            )
    return True


@contextmanager
def _table(args: Args, encoder: Encoder) -> Iterator[tuple[Any, str, str, list[str]]]:
    """Yield what `renyi.sources.sql` takes first: connection, table and columns."""
    path = files.existing(args.files[0])
    with databases.opened(path) as connection:
        database = databases.Database(connection)
        if args.table is None:
            tables = listed(database.tables()) or "it has none"
            raise ValueError(
                f"{path} is a database: name one of its tables with --table ({tables})."
            )
        names = database.columns(args.table)
        target, columns, _ = _chosen_columns(args, _named(args), names, encoder)
        features = [n for n in columns if n not in (target, args.weight)]
        yield connection, args.table, target, features


def _with_text_classes(m: Marginals) -> Marginals:
    """Return marginals whose classes are texts if some are fractions, as in `Rows`."""
    if not any(isinstance(label, float) for label in m.classes):
        return m
    texts = _class_labels(m.classes).tolist()
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
