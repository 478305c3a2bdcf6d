"""Marginals of a table in a database: only counts leave it.

Plain SQL over any DB-API 2 connection (SQLite, DuckDB, PostgreSQL, …):

1. how many different values each column has, so that nothing large is asked for;
2. the values of each column with their counts (`renyi.sources.fields`);
3. for each pair of columns the counts of their categories, by GROUP BY. Numbers are
   binned inside the statement. Where the engine has GROUPING SETS, one statement
   counts many pairs, told apart by GROUPING(): a NULL may be a missing cell or a column
   that is not in the set.

The margins of every table must be the counts of its two columns: a table that changes
while it is counted is noticed, unless a snapshot kept the changes out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.columns import Column, Columns
from renyi.encoding import Encoder
from renyi.factoring import label_text
from renyi.indicators import offsets
from renyi.marginals import Marginals
from renyi.sources.cells import DataWarning
from renyi.sources.databases import Database, Row
from renyi.sources.dialects import Dialect
from renyi.sources.fields import (
    MOST_LABELS,
    MOST_NUMBERS,
    Counted,
    Field,
    cell_of,
    field_of,
    key_of,
    labels_of,
)
from renyi.sources.formats import require

# Columns along one side of a tile of pairs which one statement counts.
_TILE = 12

Cube = tuple[int, ...]  # places of the columns that are counted together


class _Job(NamedTuple):
    """What is to be counted."""

    table: str | Sequence[str]
    target: str
    columns: list[str]
    encoder: Encoder
    class_conditional: bool
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
) -> Marginals:
    """Count the pairs of columns of a table in a database; see `Marginals.from_sql`.

    Parameters
    ----------
    connection : DB-API 2 connection
        To DuckDB, SQLite, PostgreSQL or any other engine. It stays open, and is left
        in the transaction it was in.
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
        rows, fields = _surveyed(database, job, where)
        blocks: dict[Cube, NDArray[Any]] = {}
        for batch in _batches(job, rows.dialect):
            sql = _statement(rows, fields, batch)
            answer = database.ask(sql, _described(fields, batch))
            blocks.update(_decoded(answer, fields, batch, job.table))
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
) -> list[str]:
    """Return every statement that `marginals` would send, in order.

    Those about single columns are sent, since bins and missing codes depend on the
    answers; those about pairs are not.

    Parameters
    ----------
    connection, table, target, columns, encoder, class_conditional, where, weight
        As in `marginals`.

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
        for batch in _batches(job, rows.dialect):
            database.sent.append(_statement(rows, fields, batch))
    return database.sent


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
    database: Database, job: _Job, where: str | None
) -> tuple[Counted, list[Field]]:
    """Return the rows to count and the columns as they are counted, target last."""
    dialect = database.dialect
    rows = Counted(dialect, dialect.table(job.table))
    if where:
        end = "\n" if "--" in where else ""  # a comment would swallow the bracket
        rows = rows._replace(conditions=(f"({where}{end})",))
    if job.weight is not None:
        rows = _weighted(database, rows, job.weight)
    _refuse_large(database, rows, job)
    classes = Encoder(missing=job.encoder.missing, numeric=())
    answer = labels_of(database, rows, job.target, classes)
    if None in answer.levels.categories:
        rows = _with_target(database, rows, answer, job)
        answer = labels_of(database, rows, job.target, classes)
    fields = [field_of(database, rows, name, job.encoder) for name in job.columns]
    for field in fields:
        _refuse_change(field.counts.sum(), answer.counts.sum(), job.table)
    return rows, [*fields, answer]


def _weighted(database: Database, rows: Counted, weight: str) -> Counted:
    """Return the rows that weigh something; what cannot be a weight is an error."""
    name = rows.dialect.identifier(weight)
    value = rows.dialect.as_double(name)
    sql = (
        f"SELECT COUNT(*), COUNT({name}), MIN({value}), MAX({value}) "
        f"FROM {rows.source()}"
    )
    ((total, known, low, high),) = database.ask(sql, f"the weights {weight!r}")
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
    held = (*rows.conditions, f"{name} > 0")
    return rows._replace(conditions=held, weight=name)


def _refuse_large(database: Database, rows: Counted, job: _Job) -> None:
    """Refuse a table without rows, and columns of too many values to ask for."""
    bins = job.encoder.columns.numeric_names if job.encoder.columns else frozenset()
    names = [name for name in (*job.columns, job.target) if name not in bins]
    quoted = map(rows.dialect.identifier, names)
    sizes = [f"COUNT(DISTINCT {name})" for name in quoted]
    sql = f"SELECT {', '.join(['COUNT(*)', *sizes])} FROM {rows.source()}"
    ((total, *found),) = database.ask(sql, "the numbers of different values")
    if not total:
        which = "no rows" if not rows.conditions else "no rows of this condition"
        raise ValueError(f"The table {job.table!r} has {which}: nothing to count.")
    for name, count in zip(names, found, strict=True):
        most = MOST_LABELS if job.encoder.columns else MOST_NUMBERS
        if count > most:
            raise ValueError(
                f"Column {name!r} has {count:,} different values, more than {most:,}: "
                "leave it out with `columns`, give an encoder fitted on a sample, or "
                "round it in a view."
            )


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
    warnings.warn(
        f"{count:,} row{'s were' if count > 1 else ' was'} left out: their target "
        f"{job.target!r} is missing.",
        DataWarning,
        stacklevel=5,
    )
    return rows._replace(conditions=(*rows.conditions, *tests))


def _literal(dialect: Dialect, cell: Any) -> str:
    """Return the literal of a missing code of the target."""
    if isinstance(cell, float):
        return dialect.number(cell)
    return str(cell) if isinstance(cell, int) else dialect.string(label_text(cell))


# ---- the pairs


def _cubes(job: _Job) -> Iterator[Cube]:
    """Yield the columns to count together: pairs, or pairs within each class."""
    d = len(job.columns)
    if not job.class_conditional:
        yield from combinations(range(d + 1), 2)
        return
    for i in range(d):
        yield (i, d)
    for i, j in combinations(range(d), 2):
        yield (i, j, d)


def _batches(job: _Job, dialect: Dialect) -> list[list[Cube]]:
    """Gather what one statement counts."""
    if not dialect.grouping:
        return [[cube] for cube in _cubes(job)]
    tile = min(_TILE, (dialect.grouping - 1) // 2)
    tiles: dict[tuple[int, int], list[Cube]] = {}
    for cube in _cubes(job):
        tiles.setdefault((cube[0] // tile, cube[1] // tile), []).append(cube)
    return list(tiles.values())


def _statement(rows: Counted, fields: list[Field], batch: list[Cube]) -> str:
    names = [field.name for field in fields]
    expressions = {names[i]: fields[i].expression for i in _held(batch)}
    if len(batch) == 1:
        return rows.by(expressions)
    return rows.by(expressions, [[names[i] for i in cube] for cube in batch])


def _held(batch: list[Cube]) -> list[int]:
    return sorted({i for cube in batch for i in cube})


def _described(fields: list[Field], batch: list[Cube]) -> str:
    first = " and ".join(repr(fields[i].name) for i in batch[0])
    more = len(batch) - 1
    return f"the counts of {first}" + (f" and {more} more tables" if more else "")


def _decoded(
    answer: Sequence[Row], fields: list[Field], batch: list[Cube], table: Any
) -> Iterator[tuple[Cube, NDArray[Any]]]:
    """Yield the table of each cube of a batch, its margins checked."""
    held = _held(batch)
    found: dict[int, list[Row]] = {}
    if len(batch) == 1:
        found[0] = list(answer)
    else:
        for row in answer:
            found.setdefault(int(row[0]), []).append(row[1:])
    for cube in batch:
        # A bit of GROUPING() is set where a column is not in the set.
        absent = ["0" if i in cube else "1" for i in held]
        mask = int("".join(absent), 2) if len(batch) > 1 else 0
        places = [held.index(i) for i in cube]
        block = _block(found.get(mask, []), [fields[i] for i in cube], places, table)
        for axis, i in enumerate(cube):
            others = tuple(a for a in range(len(cube)) if a != axis)
            _refuse_change(block.sum(axis=others), fields[i].counts, table)
        yield cube, block


def _block(
    rows: list[Row], fields: list[Field], places: list[int], table: Any
) -> NDArray[Any]:
    counts = fields[0].counts
    block = np.zeros([len(field.counts) for field in fields], counts.dtype)
    try:
        codes = [
            [field.codes[key_of(cell_of(row[p], field.name))] for row in rows]
            for field, p in zip(fields, places, strict=True)
        ]
    except KeyError:
        raise ValueError(_changed(table)) from None
    number = int if counts.dtype.kind == "i" else float
    np.add.at(block, tuple(codes), [number(row[-1]) for row in rows])
    return block


def _refuse_change(found: Any, expected: Any, table: Any) -> None:
    if np.asarray(expected).dtype.kind == "i":
        same = np.array_equal(found, expected)
    else:  # weights are added up in another order
        scale = np.abs(expected).max(initial=0)
        same = np.allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)
    if not same:
        raise ValueError(_changed(table))


def _changed(table: Any) -> str:
    return (
        f"The table {table!r} changed while it was counted: count again when nobody "
        "writes to it, or inside a transaction that keeps a snapshot; if nobody did "
        "write, a column takes different texts for equal, such as 'A' and 'a', which a "
        "view can tell apart."
    )


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
