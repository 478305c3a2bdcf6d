"""Marginals of rows that are counted as they are read: files, queries, databases.

The options mean what they mean for rows in memory (`renyi.cli.inputs`), and the
counts are the same. What has to be seen of all rows together, such as a target with a
single class, is checked of the counts (`renyi.encoding.column_rules`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from renyi.cli.inputs import (
    chosen_columns,
    is_searched,
    listed,
    table_paths,
    target_of,
    warn_of_identifiers,
    with_text_classes,
)
from renyi.cli.output import MARGINALS, Meter, print_notes
from renyi.encoding.arrow_cells import coded, labels, storage
from renyi.encoding.column_rules import check_classes, missing_texts
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources import databases, files, sql

# Packed files take several times their size in memory.
_PACKED = {".gz": 5, ".parquet": 5, ".pq": 5}


def requested(args: argparse.Namespace, order: int, limit: int) -> bool:
    """Whether the rows are to be counted as they are read, not held in memory.

    Features of several columns (`order`) need the rows in memory. `limit` is the number
    of bytes beyond which the rows of a file are not held.
    """
    one = len(args.files) == 1
    options = ("where", "sql", "table", "checkpoint")
    given = [f"--{name}" for name in options if getattr(args, name, None)]
    if one and (databases.is_database(args.file) or is_searched(args.file)):
        given.append(args.file)
    if order > 1:
        if not one or given:
            raise ValueError(
                f"Features of {order} columns need the rows in memory: name one file, "
                "without --where, --sql, --table and --checkpoint."
            )
        return False
    return not one or bool(given) or _size(Path(args.file)) > limit


def _size(path: Path) -> int:
    """Return about how many bytes the rows of a file take."""
    if not path.is_file() or path.suffix == MARGINALS:
        return 0
    return path.stat().st_size * _PACKED.get(path.suffix.lower(), 1)


def marginals(
    args: argparse.Namespace, encoder: Encoder, class_conditional: bool = False
) -> Marginals:
    """Count the rows that the command line names."""
    if any(name.endswith(MARGINALS) for name in args.files):
        raise ValueError(
            f"{_named(args)} cannot be read as rows: add marginals with 'renyi "
            "marginals merge'."
        )
    if _in_database(args):
        with _table(args, encoder) as table, Meter() as meter:
            m = sql.marginals(
                *table,
                encoder,
                class_conditional,
                args.where,
                args.weight,
                progress=meter,
            )
    else:
        m = _of_files(args, encoder, class_conditional)
    check_classes(m.classes, m.target)
    return with_text_classes(m)


def statements(args: argparse.Namespace, encoder: Encoder) -> list[str]:
    """Return the statements that count a table of a database; some are asked now."""
    if not _in_database(args):
        raise ValueError(
            "--print-sql is for tables of databases: name a database and a --table."
        )
    with _table(args, encoder) as table:
        options = (encoder, args.class_conditional, args.where, args.weight)
        return sql.statements(*table, *options, explained=True)


def _named(args: argparse.Namespace) -> str:
    """Return what a sentence calls the rows."""
    if args.table is not None:
        return f"the table {args.table!r}"
    if not args.files:
        return "the query"
    more = f" and {len(args.files) - 1} more" if len(args.files) > 1 else ""
    return f"{args.files[0]}{more}"


# ---- files


def _of_files(
    args: argparse.Namespace, encoder: Encoder, class_conditional: bool
) -> Marginals:
    tables = files.open_tables(table_paths(args.files)) if args.files else []
    names = _names(args, tables, encoder)
    target = target_of(args, _named(args), names)
    columns = chosen_columns(args, _named(args), names, target, encoder)
    aside = {target, args.weight}
    columns = [name for name in columns if name not in aside]
    if not encoder.columns and args.sql is None:
        _warn_of_identifiers(args, tables[0], [*columns, target], encoder)
    checkpoint = getattr(args, "checkpoint", None)
    kinds = {
        **dict.fromkeys(args.numeric, "number"),
        **dict.fromkeys(args.categorical, "label"),
    }
    with _interruptible(checkpoint), Meter() as meter:
        return files.marginals(
            tables or None,
            target,
            encoder,
            class_conditional,
            columns=columns,
            where=args.where,
            sql=args.sql,
            weight=args.weight,
            checkpoint=checkpoint,
            progress=meter,
            kinds=kinds,
        )


def _names(
    args: argparse.Namespace, tables: list[files.TableFile], encoder: Encoder
) -> list[str]:
    """Return the names of all columns."""
    if args.sql is None:
        return files.column_names(tables[0])
    missing = missing_texts(encoder.missing)
    names: list[str] = files.query(args.sql, missing, tables).schema.names
    return names


def _warn_of_identifiers(
    args: argparse.Namespace,
    table: files.TableFile,
    columns: list[str],
    encoder: Encoder,
) -> None:
    """Warn of identifiers among the first rows that have a target (the last column)."""
    suspects = [n for n in columns if n not in {*args.numeric, *args.categorical}]
    missing = missing_texts(encoder.missing)
    first, whole = files.first_rows(table, suspects, encoder.missing)
    if first.num_rows:
        indices, found = coded(storage(first[columns[-1]].combine_chunks()))
        known = [label is not None for label in labels(found, "", missing)]
        rows = pa.array(known, pa.bool_()).take(indices)
        suspicious = first.filter(rows).drop_columns([columns[-1]])
        warn_of_identifiers(suspicious, "" if whole else "the first ")


@contextmanager
def _interruptible(checkpoint: str | None) -> Iterator[None]:
    """Say after Ctrl-C what was kept."""
    try:
        yield
    except KeyboardInterrupt:
        text = "Nothing was kept; --checkpoint FILE keeps what has been counted."
        if checkpoint is not None:
            text = f"{checkpoint} keeps what was counted: the same command goes on."
        if checkpoint is None or Path(checkpoint).exists():
            print_notes([text])
        raise


# ---- databases


def _in_database(args: argparse.Namespace) -> bool:
    """Whether the rows are in a database; what does not go with it is refused."""
    found = [name for name in args.files if databases.is_database(name)]
    if args.table is None and not found:
        return False
    if len(args.files) != 1 or not found:
        raise ValueError(
            "--table is a table of one database (.duckdb, .db, .sqlite): name that "
            "file, and no other."
        )
    for option in ("sql", "numeric", "categorical", "checkpoint"):
        if getattr(args, option, None):
            raise ValueError(
                f"--{option} is for files; {found[0]} is a database, which is counted "
                "by --table and --where: make a view of what you need."
            )
    return True


@contextmanager
def _table(
    args: argparse.Namespace, encoder: Encoder
) -> Iterator[tuple[Any, str, str, list[str]]]:
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
        target = target_of(args, _named(args), names)
        source = f"The table {args.table!r}"
        columns = chosen_columns(args, source, names, target, encoder)
        features = [n for n in columns if n not in (target, args.weight)]
        yield connection, args.table, target, features
