"""Rows that are counted as they are read, from files, queries and databases.

Options mean the same as for rows in memory (`renyi.cli.inputs`), and the counts are the
same. What has to be seen of all rows together, such as a target with a single class, is
checked of the counts (`renyi.encoding.column_rules`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi import endings
from renyi.checks import check_memory, memory_budget
from renyi.cli.inputs import (
    check_not_given,
    chosen_columns,
    chosen_marginals,
    class_labels,
    coded_classes,
    constant_names,
    encoder_of,
    listed,
    opened_tables,
    usable_rows,
    warn_of_identifiers,
    warn_of_labels,
)
from renyi.cli.output import Args, Meter, print_notes
from renyi.counting.onehot import label_sums
from renyi.encoding.arrow_cells import (
    check_type,
    coded,
    labels,
    plain_type,
    requested_floats,
    storage,
    weight_floats,
    without_views,
)
from renyi.encoding.column_rules import check_classes, counted_rows, missing_texts
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.endings import MARGINALS
from renyi.marginals.marginals import Marginals
from renyi.progress import Progress
from renyi.sources import databases, files, sql
from renyi.sources.frames import RowSample, TrainingRows
from renyi.streaming.run import GOING_ON


def is_streamed(args: Args, order: int) -> bool:
    """Whether the options are those of rows that are counted as they are read.

    Features of several columns (`order`) need the rows in memory.
    """
    options = (args.where, args.sql, args.table, args.checkpoint)
    given = len(args.files) != 1 or any(options)
    given = given or databases.is_database(args.file) or files.is_searched(args.file)
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


def counted(args: Args) -> Marginals:
    """Return the marginals of a file, or those of a table, counted."""
    if not args.file.endswith(MARGINALS):
        encoder = encoder_of(args)
        if is_too_large(args):
            return streamed_marginals(args, encoder, args.class_conditional, False)
        m = usable_rows(args, encoder).marginals(encoder, args.class_conditional)
        warn_of_labels(m.encoder.columns)
        return m
    return chosen_marginals(args)


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


def coded_rows(
    args: Args,
    m: Marginals,
    read: Iterable[TrainingRows],
    codes: bool = True,
    n: int | None = None,
) -> TrainingRows:
    """Join blocks of the rows that were counted, of their codes or weights alone.

    Where leave-one-out makes use of rows, their codes are small beside the counts. Of n
    rows in all the sample is returned.
    """
    if codes and n is None:
        size = m.n * len(m.encoder.columns)
        check_memory(size, f"Holding the codes of {m.n:,.10g} rows")
    counts = m.target_counts if codes else m.class_probabilities[None] * m.n
    left, seen, blocks = np.array(counts, np.float64), 0, []
    for block in read:
        left -= _counts(block, m, codes)
        blocks.append(block if n is None else RowSample.of(block, seen, n).rows)
        seen += len(block.y)
    if not np.allclose(left, 0, rtol=0, atol=1e-9 * m.n):
        raise ValueError(
            f"{_named(args)} returned different rows when it was read again: try "
            "again, or write the rows of a query that changes to a file first."
        )
    return TrainingRows(
        m.encoder,
        np.concatenate([block.codes for block in blocks], axis=1),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.weights for block in blocks]) if m.weighted else None,
    )


def _counts(block: TrainingRows, m: Marginals, codes: bool) -> NDArray[np.float64]:
    """Return the counts of each category with each class, or but of each class."""
    sizes = m.encoder.columns.sizes if codes else [1]
    places = block.codes if codes else np.zeros((1, len(block.y)), np.uint8)
    classes = block.y[:, None] == np.arange(len(m.classes))
    return label_sums(places, sizes, classes * block.weights[:, None])


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
        kinds=kinds | dict.fromkeys(weight, "verbatim"),
        where=args.where,
        sql=args.sql,
    ):
        for name in {*args.numeric} & {*names}:
            cells = requested_floats(name, table[name])
            table = table.set_column(table.column_names.index(name), name, cells)
        y = _class_codes(table[m.target], answer)
        weights = (
            weight_floats(args.weight, table[args.weight], None) if weight else None
        )
        kept = counted_rows(y >= 0, weights)
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
    different, meant, indices = coded_classes(cells, list(column.categories))
    others = {text: k for k, text in enumerate(column.levels.texts)} | {None: -1}
    (codes,) = answer.transform(pa.table([different], names=[column.name]))
    size = len(column.categories)
    pairs = zip(codes, meant, strict=True)
    places = [k if k < size else others.get(t, -1) for k, t in pairs]
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
    target, columns, kinds = chosen_columns(args, _named(args), names, encoder)
    columns = [name for name in columns if name not in (target, args.weight)]
    if not encoder.columns and args.sql is None:  # of the first rows with a target
        suspects = [name for name in columns if name not in kinds]
        weight = [] if args.weight is None else [args.weight]
        read = [*suspects, target, *weight]
        as_text = dict.fromkeys(weight, "verbatim")
        first, whole = files.first_rows(tables[0], read, encoder.missing, as_text)
        if first.num_rows:
            first = without_views(first)
            check_type(target, plain_type(first.schema.field(target).type))
            indices, found = coded(storage(first[target].combine_chunks()))
            known = [label is not None for label in labels(found, "", missing)]
            held = pa.array(known, pa.bool_()).take(indices).fill_null(False)
            kept = held.to_numpy(zero_copy_only=False)
            if args.weight is not None:
                with suppress(ValueError, TypeError):  # told when such rows are counted
                    masses = weight_floats(args.weight, first[args.weight])
                    kept = counted_rows(kept, masses)
            rows = first.filter(pa.array(kept))
            warn_of_identifiers(rows.select(suspects), "" if whole else "the first ")
    kept, how = args.checkpoint, (target, encoder, class_conditional)
    which: Any = {"where": args.where, "sql": args.sql, "weight": args.weight}
    which |= {"columns": columns, "kinds": kinds, "checkpoint": kept}
    which |= {"accepted": accepted, "until": args.until}

    def tell(error: type[BaseException] | None, *_: object) -> None:
        text = "Nothing was kept; --checkpoint FILE keeps what has been counted."
        if kept is not None:
            text = (
                f"{kept} keeps what was counted: run the same command again to "
                "continue."
            )
        stopped = error is KeyboardInterrupt or (error and begun and kept is not None)
        if stopped and (kept is None or Path(kept).exists()):
            print_notes([text])

    begun = False

    def follow(state: Progress) -> None:
        nonlocal begun
        begun = True
        if state.step == GOING_ON:
            print_notes([f"{state.step} {state.facts}"])
        meter(state)

    args.until.push(tell)  # at the end, when it is clear what was kept
    with Meter() as meter:
        return files.marginals(tables or None, *how, progress=follow, **which)


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
    how = "which is counted by --table and --where: make a view of what you need"
    why = f"is for files; {found[0]} is a database, {how}"
    check_not_given(args, ("sql", "numeric", "categorical", "checkpoint"), why)
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
        target, columns, _ = chosen_columns(args, _named(args), names, encoder)
        features = [n for n in columns if n not in (target, args.weight)]
        yield connection, args.table, target, features


def _with_text_classes(m: Marginals) -> Marginals:
    """Return marginals whose classes are texts if some are fractions, as in `Rows`."""
    if not any(isinstance(label, float) for label in m.classes):
        return m
    texts = class_labels(m.classes).tolist()
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
