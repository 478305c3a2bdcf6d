"""Marginals of a table in a database, over any DB-API 2 connection.

From a server (PostgreSQL and others) only counts leave. It is asked, in plain SQL,

1. how many rows there are to count;
2. for the values of each column with their counts (`renyi.sources.sql_columns`);
3. for the counts of each pair of columns (`renyi.sources.pair_queries`), by GROUP BY.
   Numbers are binned inside the statement.

SQLite and DuckDB run inside this process, where reading rows is cheaper than counting
them in SQL: their tables are read as Arrow batches (`renyi.sources.sql_rows`) and
counted as every other stream is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import check_table_size
from renyi.encoding.column_rules import missing_texts, no_target, no_weight
from renyi.encoding.columns import Column, Columns, label_text
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.progress import Progress, ProgressCallback
from renyi.sources.databases import Database, QueryError
from renyi.sources.files import require
from renyi.sources.pair_queries import (
    FilteredTable,
    Group,
    batches,
    check_unchanged,
    decoded,
    described,
    statement,
)
from renyi.sources.sql_columns import ColumnReader, SqlColumn
from renyi.sources.sql_rows import TableRows
from renyi.storage import first_line
from renyi.streaming.run import Job
from renyi.streaming.spec import CountSpec
from renyi.warnings import warn_dropped

_RUN_NOW = """\
-- Run now, since what follows depends on the answers: how many rows there are, and the
-- {} of each single column.
"""
_NOT_RUN = "-- Not run now, but when the table is counted: {}.\n"

_T = TypeVar("_T")


class _Request(NamedTuple):
    """What is to be counted, as the user asked for it."""

    table: str | Sequence[str]
    target: str
    columns: Sequence[str] | None
    encoder: Encoder
    class_conditional: bool
    where: str | None
    weight: str | None


def marginals(
    connection: Any,
    table: str | Sequence[str],
    target: str,
    columns: Sequence[str] | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    where: str | None = None,
    weight: str | None = None,
    progress: ProgressCallback | None = None,
) -> Marginals:
    """Count the pairs of columns of a table in a database; see `Marginals.from_sql`.

    Parameters
    ----------
    connection : DB-API 2 connection
        To DuckDB, SQLite, PostgreSQL or any other engine. It stays open, and these
        three are left in the transaction they were in; a driver of another engine may
        have begun one. DuckDB forgets what is not yet fetched of an answer before, and
        there and in PostgreSQL a transaction of yours is aborted by a statement that
        fails, such as one with a wrong `where`.
    table : str or sequence of str
        A table or a view: ``"visits"``, ``"clinic.visits"``, or a tuple of the parts
        of a name that holds dots itself, such as ``("clinic", "visits.2024")``. Names
        are quoted, so that capital letters count.
    target : str
        The column to predict. Rows without it are left out, with a warning.
    columns : sequence of str, optional
        The features; by default all columns but the target and the weight.
    encoder : Encoder, optional
        How cells become categories. A fitted one gives the bins to use.
    class_conditional : bool, default=False
        Count the pairs of features within each class too.
    where : str, optional
        A condition of SQL for the rows to count, sent as it is: yours to write.
    weight : str, optional
        A column of weights; a row of weight 2 counts as two rows.
    progress : callable, optional
        Is given a `renyi.progress.Progress` now and then; ``print`` will do.
    """
    request = _Request(
        table, target, columns, encoder or Encoder(), class_conditional, where, weight
    )
    database = Database(connection)
    with database.snapshot():
        request, rows, total = _checked(database, request)
        if database.dialect.embedded:
            with closing(_rows_of(database, request, rows, total)) as table_rows:
                source = table_rows.source()
                spec = CountSpec.of(
                    source.schema, target, request.encoder, class_conditional, weight
                )
                return Job(source, spec, progress=progress).count().finish()
        rows, found = _columns(database, request, rows, progress)
        blocks: dict[Group, NDArray[Any]] = {}
        pairs = batches(database.dialect, len(found), class_conditional)
        for batch in _watched("counting pairs", pairs, progress):
            sql = statement(rows, found, batch)
            answer = database.fetch(sql, described(found, batch))
            blocks.update(decoded(answer, found, batch, table))
    return _assembled(request, found, blocks)


def statements(
    connection: Any,
    table: str | Sequence[str],
    target: str,
    columns: Sequence[str] | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    where: str | None = None,
    weight: str | None = None,
    explained: bool = False,
) -> list[str]:
    """Return every statement that `marginals` would send, in order.

    On servers, those about the number of rows and about single columns are run now,
    since bins and missing codes depend on the answers; those about pairs are not. Of
    SQLite and DuckDB, the types of the columns are asked for, and the statement that
    reads the rows is not run; where numbers must be binned, it is sent for these
    columns first, which is not listed. Left out is what is not about a table: in
    DuckDB, ``SELECT txid_current()``, sent twice to learn whether a transaction is
    under way.

    Parameters
    ----------
    connection, table, target, columns, encoder, class_conditional, where, weight
        As in `marginals`.
    explained : bool, default=False
        Say in comments of SQL which statements are run now, and which are not.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE t (a TEXT, y INTEGER)")
    >>> _ = connection.execute("INSERT INTO t VALUES ('n', 0), ('y', 1)")
    >>> connection.commit()
    >>> print(*statements(connection, "t", "y", where="y < 5")[-2:], sep="; ")
    SELECT +"a" AS "a", +"y" AS "y" FROM "t" WHERE (y < 5); ROLLBACK
    """
    request = _Request(
        table, target, columns, encoder or Encoder(), class_conditional, where, weight
    )
    database = Database(connection)
    with database.snapshot():
        request, rows, total = _checked(database, request)
        if database.dialect.embedded:
            later = [_rows_of(database, request, rows, total).statement()]
            now_about, later_about = "types", "reading the rows"
        else:
            rows, found = _columns(database, request, rows)
            pairs = batches(database.dialect, len(found), class_conditional)
            later = [statement(rows, found, batch) for batch in pairs]
            now_about, later_about = "values and counts", "counting the pairs"
        if explained:
            database.sent[0] = _RUN_NOW.format(now_about) + database.sent[0]
            later[0] = _NOT_RUN.format(later_about) + later[0]
        database.sent += later
    return database.sent


def _checked(
    database: Database, request: _Request
) -> tuple[_Request, FilteredTable, int]:
    """Return the request with its columns, the rows to count, and their number."""
    table, target, columns, encoder, _, _, weight = request
    if encoder.order > 1:
        raise ValueError(
            f"A database is counted by single columns, not by {encoder.order}: give "
            "an encoder of order 1."
        )
    there = database.columns(table)
    if columns is None and encoder.columns:
        columns = encoder.feature_names
    elif columns is None:
        columns = [name for name in there if name not in (target, weight)]
    elif encoder.columns:
        encoder = encoder.select(columns)
    wanted = [*columns, target] + ([weight] if weight else [])
    shown = table if isinstance(table, str) else ".".join(table)
    require(f"The table {shown!r}", there, wanted)
    for name in wanted:
        if wanted.count(name) > 1:
            raise ValueError(f"Column {name!r} is named twice: name it once.")
    if not columns:
        raise ValueError(f"The table has no column beside the target {target!r}.")
    if not encoder.columns:
        encoder.numeric_names(columns)
    request = request._replace(columns=columns, encoder=encoder)
    return request, *_filtered(database, request)


def _filtered(database: Database, request: _Request) -> tuple[FilteredTable, int]:
    """Return the rows that meet the user's condition, if there are some."""
    rows = FilteredTable(database.dialect, database.dialect.table(request.table))
    where = request.where
    if where:
        end = "\n" if "--" in where else ""  # a comment would swallow the bracket
        rows = rows.where(f"({where}{end})")
    sql = f"SELECT COUNT(*) FROM {rows.source()}"
    try:
        ((total,),) = database.fetch(sql, "the number of rows")
    except ValueError as error:
        if not where:
            raise
        reason = first_line(error.__cause__ or error)
        raise ValueError(f"Invalid filter {where!r:.160}: {reason}.") from None
    if not total:
        which = "no rows" if not where else f"no rows where {where!r:.160}"
        raise ValueError(f"The table {request.table!r} has {which}: nothing to count.")
    return rows, int(total)


def _rows_of(
    database: Database,
    request: _Request,
    rows: FilteredTable,
    total: int,
) -> TableRows:
    """Return the rows of an embedded engine, with the columns that are counted."""
    names = [*(request.columns or ()), request.target]
    missing = missing_texts(request.encoder.missing)
    return TableRows(database, rows, names, request.weight, total, missing)


# ---- servers


def _watched(
    step: str, items: Sequence[_T], progress: ProgressCallback | None
) -> Iterator[_T]:
    """Yield items, and tell how many are done before each."""
    begun = time.monotonic()
    for done, item in enumerate(items):
        if progress is not None:
            seconds, share = time.monotonic() - begun, done / len(items)
            facts = f"statement {done + 1} of {len(items)}"
            progress(Progress(step, seconds, share, facts))
        yield item


def _columns(
    database: Database,
    request: _Request,
    rows: FilteredTable,
    progress: ProgressCallback | None = None,
) -> tuple[FilteredTable, list[SqlColumn]]:
    """Return the rows to count and the columns as they are counted, target last."""
    if request.weight is not None:
        rows = _weighted(database, rows, request.weight)
    reader = ColumnReader(database, rows, request.encoder)
    target = reader.labels(request.target)
    if None in target.levels.categories:
        rows = _with_target(database, rows, target)
        reader = ColumnReader(database, rows, request.encoder)
        target = reader.labels(request.target)
        if None in target.levels.categories:
            raise ValueError(
                f"The target {target.name!r} holds missing codes that the database "
                "cannot leave out: leave these rows out with `where`."
            )
    found, errors = [], []
    for name in _watched("reading columns", request.columns or (), progress):
        try:
            found.append(reader.column(name))
        except QueryError:
            raise
        except ValueError as error:  # all of them are reported at once
            errors.append(str(error))
    if errors:
        raise ValueError(" ".join(errors))
    for column in found:
        check_unchanged(column.counts.sum(), target.counts.sum(), request.table)
    found.append(target)
    check_table_size(
        sum(len(column.counts) for column in found),
        len(target.counts) if request.class_conditional else 1,
    )
    return rows, found


def _weighted(database: Database, rows: FilteredTable, weight: str) -> FilteredTable:
    """Return the rows that weigh something; what cannot be a weight is an error."""
    name = rows.dialect.identifier(weight)
    value = rows.dialect.as_double(name)
    sql = (
        f"SELECT COUNT(*), COUNT({name}), MIN({value}), MAX({value}) "
        f"FROM {rows.source()}"
    )
    ((total, known, low, high),) = database.fetch(sql, f"the weights {weight!r}")
    if known < total:
        raise ValueError(
            f"The weight {weight!r} is missing in {total - known:,} rows: give every "
            "row a weight, or leave these out with `where`."
        )
    if not (low >= 0 and high < np.inf):
        wrong = low if low < 0 else high
        raise ValueError(
            f"The weight {weight!r} is {wrong} in a row: weights must be finite and "
            "not negative."
        )
    if not high:
        raise no_weight()
    return rows.where(f"{value} > 0")._replace(weight=name)


def _with_target(
    database: Database, rows: FilteredTable, target: SqlColumn
) -> FilteredTable:
    """Return the rows whose target is known; warn of those left out."""
    dialect, column = rows.dialect, target.expression
    if len(target.levels.categories) == 1:
        raise no_target(target.name)
    missing = len(target.levels.categories) - 1
    cells = [cell for (_, cell), code in target.codes.items() if code == missing]
    tests = [f"{column} IS NOT NULL"]
    codes = [_literal(dialect, cell) for cell in cells if cell is not None]
    if codes:
        tests.append(f"{column} NOT IN ({', '.join(sorted(codes))})")
    real = any(isinstance(cell, float) for _, cell in target.codes)
    if real and dialect.is_nan(column):
        tests.append(f"NOT ({dialect.is_nan(column)})")
    dropped = rows.where(f"NOT ({' AND '.join(tests)})")
    sql = f"SELECT COUNT(*) FROM {dropped.source()}"
    ((count,),) = database.fetch(sql, "the number of rows without a target")
    warn_dropped(count, target.name)
    return rows.where(*tests)


def _literal(dialect: Any, cell: Any) -> str:
    """Return the literal of a missing code of the target."""
    plain = isinstance(cell, (bytes, bool, int, float))
    return str(dialect.literal(cell if plain else label_text(cell)))


def _assembled(
    request: _Request, found: list[SqlColumn], blocks: dict[Group, NDArray[Any]]
) -> Marginals:
    """Put the tables of pairs into one."""
    columns = Columns.of(Column(column.name, column.levels) for column in found)
    starts = offsets(columns.sizes)
    size, last = int(starts[-1]), len(found) - 1
    counts = np.zeros((size, size), found[0].counts.dtype)
    D, K = int(starts[last]), len(found[last].counts)
    inner = np.zeros((K, D, D), counts.dtype) if request.class_conditional else None
    for i, column in enumerate(found):
        span = slice(starts[i], starts[i + 1])
        counts[span, span] = np.diag(column.counts)
    for (i, j, *rest), block in blocks.items():
        first, second = (slice(starts[k], starts[k + 1]) for k in (i, j))
        pair = block.sum(axis=2) if rest else block
        counts[first, second], counts[second, first] = pair, pair.T
        if inner is not None and rest:
            inner[:, first, second] = np.moveaxis(block, 2, 0)
            inner[:, second, first] = np.moveaxis(block, 2, 0).swapaxes(1, 2)
        elif inner is not None:
            places = np.arange(starts[i], starts[i + 1])
            inner[:, places, places] = block.T
    n = found[last].counts.sum().item()
    settings = request.encoder.settings()
    return Marginals(counts, n, columns, request.target, settings, inner)
