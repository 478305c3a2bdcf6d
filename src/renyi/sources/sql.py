"""Marginals of a table in a database: only counts leave it.

Plain SQL over any DB-API 2 connection (SQLite, DuckDB, PostgreSQL, …):

1. how many rows there are to count;
2. the values of each column with their counts (`renyi.sources.sql_columns`);
3. for each pair of columns the counts of their categories
   (`renyi.sources.pair_queries`), by GROUP BY. Numbers are binned inside the statement.
   Where an engine does so cheaply, one statement counts many pairs
   (`renyi.sources.filtered_table`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import check_table_size
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import label_text
from renyi.marginals.marginals import Marginals
from renyi.sources.complaints import first_line
from renyi.sources.databases import Database
from renyi.sources.dialects import Dialect
from renyi.sources.filtered_table import Counted
from renyi.sources.formats import require
from renyi.sources.pair_queries import (
    Cube,
    batches,
    decoded,
    described,
    refuse_change,
    statement,
)
from renyi.sources.sql_columns import (
    ColumnError,
    Field,
    check_texts,
    field_of,
    labels_of,
)
from renyi.streaming.run import time_text
from renyi.warnings import warn_dropped

_ASKED = """\
-- Asked now, since bins and missing codes depend on the answers: how many rows there
-- are, and the values of each single column with their counts.
"""
_PRINTED = "-- Printed only; asked when the table is counted: the counts of pairs.\n"

_T = TypeVar("_T")


class _Job(NamedTuple):
    """What is to be counted."""

    table: str | Sequence[str]
    target: str
    columns: list[str]
    encoder: Encoder
    class_conditional: bool
    weight: str | None


class Turn(NamedTuple):
    """How far a count inside a database has got.

    Parameters
    ----------
    step : str
        What is being asked for: a ``"column"``, or a ``"pair"`` of columns.
    number, total : int
        The number of the one that is asked for now, and of all.
    seconds : float
        How long the ones before have taken.

    Examples
    --------
    >>> print(Turn("pair", 7, 45, seconds=42.0))
    pair 7 of 45, about 5 min left
    """

    step: str
    number: int
    total: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """Seconds that this step will still take at this pace; None if unknown."""
        done = self.number - 1
        return (self.total - done) / done * self.seconds if done else None

    def __str__(self) -> str:
        """Return one line for a terminal."""
        text = f"{self.step} {self.number:,} of {self.total:,}"
        left = self.seconds_left
        return text if left is None else f"{text}, about {time_text(left)} left"


Progress = Callable[[Turn], None] | None


def marginals(
    connection: Any,
    table: str | Sequence[str],
    target: str,
    columns: Sequence[str] | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    where: str | None = None,
    weight: str | None = None,
    progress: Progress = None,
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
        Is given a `Turn` before each question; ``print`` will do.

    Examples
    --------
    >>> import sqlite3
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = X.assign(party=y).to_sql("votes", connection, index=False)
    >>> marginals(connection, "votes", "party") == renyi.Marginals.from_data(X, y)
    True
    """
    database = Database(connection)
    with database.snapshot():
        job = _checked(
            database, table, target, columns, encoder, class_conditional, weight
        )
        rows, fields = _surveyed(database, job, where, progress)
        blocks: dict[Cube, NDArray[Any]] = {}
        pairs = _batches(job, rows, fields)
        for batch in _watched("pair", pairs, list(map(len, pairs)), progress):
            sql = statement(rows, fields, batch)
            answer = database.ask(sql, described(fields, batch))
            blocks.update(decoded(answer, fields, batch, job.table))
    return _assembled(job, fields, blocks)


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

    Those about the number of rows and about single columns are asked now, since bins
    and missing codes depend on the answers; those about pairs are not asked. Left out
    is what asks nothing about a table: in DuckDB, ``SELECT txid_current()``, sent twice
    to learn whether a transaction is under way.

    Parameters
    ----------
    connection, table, target, columns, encoder, class_conditional, where, weight
        As in `marginals`.
    explained : bool, default=False
        Say in comments of SQL which statements are asked now, and which are not.

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
    >>> print(*statements(connection, "t", "y")[-2:], sep="; ")
    SELECT "a", "y", COUNT(*)
    FROM (SELECT "a" COLLATE BINARY AS "a", "y" COLLATE BINARY AS "y"
    FROM "t") AS "counted"
    GROUP BY "a", "y"; ROLLBACK
    """
    database = Database(connection)
    with database.snapshot():
        job = _checked(
            database, table, target, columns, encoder, class_conditional, weight
        )
        rows, fields = _surveyed(database, job, where)
        held = _batches(job, rows, fields)
        pairs = [statement(rows, fields, batch) for batch in held]
        if explained:
            database.sent[0] = _ASKED + database.sent[0]
            pairs[0] = _PRINTED + pairs[0]
        database.sent += pairs
    return database.sent


def _batches(job: _Job, rows: Counted, fields: list[Field]) -> list[list[Cube]]:
    sizes = [len(field.codes) for field in fields]
    return batches(rows.dialect, sizes, job.class_conditional)


def _watched(
    step: str, items: Sequence[_T], sizes: Sequence[int], progress: Progress
) -> Iterator[_T]:
    """Yield items that count for so many, and tell how far it is before each."""
    begun, done = time.monotonic(), 0
    for item, size in zip(items, sizes, strict=True):
        if progress is not None:
            progress(Turn(step, done + 1, sum(sizes), time.monotonic() - begun))
        yield item
        done += size


# ---- the columns


def _checked(
    database: Database,
    table: str | Sequence[str],
    target: str,
    columns: Sequence[str] | None,
    encoder: Encoder | None,
    class_conditional: bool,
    weight: str | None,
) -> _Job:
    """Return the job, if the table has all its columns."""
    encoder = encoder or Encoder()
    if encoder.order > 1:
        raise ValueError(
            "A database is counted by single columns: give an encoder of order 1."
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
            raise ValueError(f"Column {name!r} is asked for twice: name it once.")
    if not columns:
        raise ValueError(f"The table has no column beside the target {target!r}.")
    if not encoder.columns and not isinstance(encoder.numeric, str):
        for name in encoder.numeric:
            if name not in columns:
                raise ValueError(f"numeric names {name!r}, which is not a column.")
    return _Job(table, target, list(columns), encoder, class_conditional, weight)


def _surveyed(
    database: Database, job: _Job, where: str | None, progress: Progress = None
) -> tuple[Counted, list[Field]]:
    """Return the rows to count and the columns as they are counted, target last."""
    rows = _found(database, job, where)
    if job.weight is not None:
        rows = _weighted(database, rows, job.weight)
    classes = Encoder(missing=job.encoder.missing, numeric=())
    answer = labels_of(database, rows, job.target, classes)
    if None in answer.levels.categories:
        rows = _with_target(database, rows, answer, job)
        answer = labels_of(database, rows, job.target, classes)
        _refuse_missing(answer)
    fields, refused = [], []
    ones = [1] * len(job.columns)
    for name in _watched("column", job.columns, ones, progress):
        try:
            fields.append(field_of(database, rows, name, job.encoder))
        except ColumnError as error:  # all of them are told at once
            refused.append(str(error))
    if refused:
        raise ValueError(" ".join(refused))
    for field in fields:
        refuse_change(field.counts.sum(), answer.counts.sum(), job.table)
    fields.append(answer)
    check_table_size(
        sum(len(field.counts) for field in fields),
        len(answer.counts) if job.class_conditional else 1,
    )
    return rows, fields


def _found(database: Database, job: _Job, where: str | None) -> Counted:
    """Return the rows of the condition, if there are some."""
    rows = Counted(database.dialect, database.dialect.table(job.table))
    if where:
        end = "\n" if "--" in where else ""  # a comment would swallow the bracket
        rows = rows._replace(conditions=(f"({where}{end})",))
    sql = f"SELECT COUNT(*) FROM {rows.source()}"
    try:
        ((total,),) = database.ask(sql, "the number of rows")
    except ValueError as error:
        if not where:
            raise
        reason = first_line(error.__cause__ or error)
        raise ValueError(
            f"The condition {where!r:.160} cannot be asked: {reason}."
        ) from None
    if not total:
        which = "no rows" if not where else f"no rows that fulfil {where!r:.160}"
        raise ValueError(f"The table {job.table!r} has {which}: nothing to count.")
    return rows


def _weighted(database: Database, rows: Counted, weight: str) -> Counted:
    """Return the rows that weigh something; what cannot be a weight is an error."""
    name = rows.dialect.identifier(weight)
    value = rows.dialect.as_double(name)
    sql = (
        f"SELECT COUNT(*), COUNT({name}), MIN({value}), MAX({value}) "
        f"FROM {rows.source()}"
    )
    ((total, known, low, high),) = database.ask(sql, f"the weights {weight!r}")
    if rows.dialect.name == "sqlite":
        check_texts(database, rows, weight, frozenset())
    if total and known < total:
        raise ValueError(
            f"The weight {weight!r} is missing in {total - known:,} rows: give every "
            "row a weight, or leave these out with `where`."
        )
    if total and not (low >= 0 and high < np.inf):
        wrong = low if low < 0 else high
        raise ValueError(
            f"The weight {weight!r} is {wrong} in a row: weights must be finite and "
            "not negative."
        )
    if total and not high:
        raise ValueError("All weights are zero: at least one row must count.")
    held = (*rows.conditions, f"{value} > 0")
    return rows._replace(conditions=held, weight=name)


def _with_target(
    database: Database, rows: Counted, answer: Field, job: _Job
) -> Counted:
    """Return the rows whose target is known; warn of those left out."""
    dialect, column = rows.dialect, answer.expression
    if len(answer.levels.categories) == 1:
        raise ValueError(f"The target {job.target!r} is missing in every row.")
    gone = len(answer.levels.categories) - 1
    cells = [cell for (_, cell), code in answer.codes.items() if code == gone]
    tests = [f"{column} IS NOT NULL"]
    codes = [_literal(dialect, cell) for cell in cells if cell is not None]
    if codes:
        tests.append(f"{column} NOT IN ({', '.join(sorted(codes))})")
    real = any(isinstance(cell, float) for _, cell in answer.codes)
    if real and dialect.is_nan(column):
        tests.append(f"NOT ({dialect.is_nan(column)})")
    lost = rows._replace(conditions=(*rows.conditions, f"NOT ({' AND '.join(tests)})"))
    sql = f"SELECT COUNT(*) FROM {lost.source()}"
    ((count,),) = database.ask(sql, "the number of rows without a target")
    warn_dropped(count, job.target)
    return rows._replace(conditions=(*rows.conditions, *tests))


def _refuse_missing(answer: Field) -> None:
    """Refuse a target whose missing codes the engine could not compare."""
    if None in answer.levels.categories:
        raise ValueError(
            f"The target {answer.name!r} holds missing codes that the database cannot "
            "leave out: leave these rows out with `where`."
        )


def _literal(dialect: Dialect, cell: Any) -> str:
    """Return the literal of a missing code of the target."""
    if isinstance(cell, bytes):
        return dialect.binary_string(cell)
    if isinstance(cell, float):
        return dialect.number(cell)
    return str(cell) if isinstance(cell, int) else dialect.string(label_text(cell))


# ---- the marginals


def _assembled(
    job: _Job, fields: list[Field], blocks: dict[Cube, NDArray[Any]]
) -> Marginals:
    columns = Columns.of(Column(field.name, field.levels) for field in fields)
    starts = offsets(columns.sizes)
    size, last = int(starts[-1]), len(fields) - 1
    counts = np.zeros((size, size), fields[0].counts.dtype)
    D, K = int(starts[last]), len(fields[last].counts)
    inner = np.zeros((K, D, D), counts.dtype) if job.class_conditional else None
    for i, field in enumerate(fields):
        span = slice(starts[i], starts[i + 1])
        counts[span, span] = np.diag(field.counts)
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
    total = fields[last].counts.sum().item()
    return Marginals(counts, total, columns, job.target, job.encoder.settings(), inner)
