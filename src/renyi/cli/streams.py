"""Rows that are counted as they are read, from files, queries and databases.

Options mean the same as for rows in memory (`renyi.cli.inputs`), and the counts are the
same. What has to be seen of all rows together, such as a target with a single class, is
checked of the counts (`renyi.encoding.rules`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa

from renyi.cli import inputs
from renyi.cli.output import Args, Meter
from renyi.encoding.arrow import weight_floats, without_views
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.encoding.rows import RowSample, TrainingRows
from renyi.encoding.rules import (
    check_classes,
    check_names,
    counted_rows,
    missing_texts,
)
from renyi.files import MARGINALS
from renyi.limits import check_memory, memory_budget
from renyi.marginals.marginals import Marginals
from renyi.sources import databases, files, suffixes
from renyi.sources.kept_rows import CountedRows


def is_streamed(args: Args, order: int) -> bool:
    """Whether the options are those of rows that are counted as they are read.

    Features of several columns (`order`) need the rows in memory.
    """
    options = (args.where, args.sql, args.table)
    given = len(args.files) != 1 or any(options)
    given = given or databases.is_database(args.file) or files.is_searched(args.file)
    if given and order > 1:
        raise ValueError(
            f"Features of {order} columns need the rows in memory: name one file, "
            "without --where, --sql and --table."
        )
    return given


def is_too_large(args: Args, order: int = 1, most: float = math.inf) -> bool:
    """Whether the rows of a file would take more memory than a job may, or `most`."""
    if args.file.endswith(MARGINALS):
        return False
    (file,), budget = inputs.opened_tables(args), memory_budget()
    needed = files.memory(file, min(budget, most))
    if order > 1:
        what = f"Features of {order} columns cannot be counted as rows are read, and"
        check_memory(needed, f"{what} holding the rows of {file.path}")
        return False
    return needed > min(budget, most)


def counted(args: Args) -> Marginals:
    """Return the marginals of a file, or those of a table, counted."""
    if args.file.endswith(MARGINALS):
        return inputs.chosen_marginals(args)
    encoder = inputs.encoder_of(args)
    within = args.class_conditional
    if is_too_large(args):
        m = streamed_marginals(args, encoder, within, False)
    else:
        m = inputs.usable_rows(args, encoder).marginals(encoder, within)
    inputs.warn_of_labels(m.encoder.columns)
    return m


def streamed_marginals(
    args: Args,
    encoder: Encoder,
    class_conditional: bool = False,
    constants: bool = True,
    rows: CountedRows | None = None,
) -> Marginals:
    """Count the rows that the command line names; `rows` keeps those of files."""
    if any(name.endswith(MARGINALS) for name in args.files):
        raise ValueError(
            f"{_named(args)} cannot be read as rows: add marginals with 'renyi "
            "marginals merge'."
        )
    with opened_rows(args, encoder) as tables:
        m = _count(args, tables, encoder, class_conditional, rows)
    check_classes(m.classes, m.target)
    m = _with_text_classes(m)
    return m if constants else _without_constants(args, m)


def _without_constants(args: Args, m: Marginals) -> Marginals:
    """Return marginals without columns that do not tell rows apart."""
    features = [column for column in m.columns if column.name != m.target]
    source = args.file or "the query"
    constant = {*inputs.constant_names(source, features, len(features))}
    if not constant:
        return m
    return m.select(name for name in m.feature_names if name not in constant)


@dataclasses.dataclass
class KeptRows:
    """The rows that were counted, to train on."""

    marginals: Marginals
    rows: CountedRows

    def joined(self, codes: bool = True, n: int | None = None) -> TrainingRows:
        """Join all rows, or their weights alone; of n rows in all the sample.

        Where leave-one-out makes use of rows, their codes are small beside the counts.
        """
        m = self.marginals
        seen = 0
        blocks = []
        if codes and n is None:
            n_rows = self.rows.n
            size = n_rows * len(m.encoder.columns)
            check_memory(size, f"Holding the codes of {n_rows:,} rows")
        for block in self.blocks(codes):
            blocks.append(block if n is None else RowSample.of(block, seen, n).rows)
            seen += len(block.y)
        return TrainingRows(
            m.encoder,
            m.columns.named(m.target),
            np.concatenate([block.codes for block in blocks], axis=1),
            np.concatenate([block.y for block in blocks]),
            np.concatenate([block.weights for block in blocks]) if m.weighted else None,
        )

    def blocks(self, codes: bool = True) -> Iterator[TrainingRows]:
        """Yield the rows, block by block, or their weights alone."""
        m = self.marginals
        columns = self.rows.columns
        places = columns.places(m.encoder.feature_names if codes else [])
        labels = inputs.class_labels(columns[-1].categories).tolist()
        y = np.array([m.classes.index(label) for label in labels])
        target = m.columns.named(m.target)
        for block, weights in self.rows.blocks([*places, -1]):
            classes = y[block[-1]]
            yield TrainingRows(m.encoder, target, block[:-1], classes, weights)


def _named(args: Args) -> str:
    """Return what a sentence calls the rows."""
    if args.table is not None:
        return f"Table {args.table!r}"
    if not args.files:
        return "The query"
    more = f" and {len(args.files) - 1} more" if len(args.files) > 1 else ""
    return f"{args.files[0]}{more}"


def _count(
    args: Args,
    tables: list[files.TableFile],
    encoder: Encoder,
    class_conditional: bool,
    rows: CountedRows | None,
) -> Marginals:
    missing = missing_texts(encoder.missing)
    source = tables[0] if args.sql is None else files.query(args.sql, missing, tables)
    names = source.schema.names
    target, columns, kinds = inputs.chosen_columns(args, _named(args), names, encoder)
    columns = [name for name in columns if name not in (target, args.weight)]
    if not encoder.columns and args.sql is None:  # of the first rows with a target
        suspects = [name for name in columns if name not in kinds]
        weight = [] if args.weight is None else [args.weight]
        read = [*suspects, target, *weight]
        as_text = dict.fromkeys(weight, "verbatim")
        first, whole = files.first_rows(tables[0], read, encoder.missing, as_text)
        if first.num_rows:
            counted = None
            with suppress(ValueError, TypeError):  # told when such rows are counted
                answer, (codes,) = target_encoder(encoder).fit_transform(
                    first.select([target]), refuse_identifiers=False
                )
                labels = np.array(answer.columns[0].categories, object)
                counted = labels[codes] != None  # noqa: E711, cell by cell
                for name in weight:
                    counted = counted_rows(counted, weight_floats(name, first[name]))
            if counted is not None:
                some = without_views(first).filter(pa.array(counted)).select(suspects)
                inputs.warn_of_identifiers(some, "" if whole else "the first ")
    with Meter() as meter:
        return files.marginals(
            tables or None,
            target,
            encoder,
            class_conditional,
            columns,
            None if isinstance(source, databases.DatabaseTable) else args.where,
            args.sql,
            args.weight,
            meter,
            kinds=kinds,
            rows=rows,
        )


def in_database(args: Args) -> bool:
    """Whether the rows are in a database; reject options that do not go with it."""
    names = [name for name in args.files if databases.is_database(name)]
    if args.table is None and not names:
        return False
    if len(args.files) != 1 or not names:
        raise ValueError(
            f"--table is a table of one database ({', '.join(suffixes.DATABASE)}, or "
            "postgresql://…): name that database, and no other file."
        )
    how = "whose rows are chosen by --table and --where: make a view of what you need"
    why = f"is for files; {names[0]} is a database, {how}"
    inputs.check_not_given(args, ["sql"], why)
    return True


@contextmanager
def opened_rows(args: Args, encoder: Encoder) -> Iterator[list[files.TableFile]]:
    """Open the files of a command, or the table of its database."""
    if not in_database(args):
        yield inputs.opened_tables(args)
        return
    with opened_table(args, args.files[0], encoder, args.where) as table:
        yield [table]


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
    """Return marginals whose classes are texts if some are fractions, as in `Rows`."""
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
