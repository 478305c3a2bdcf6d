"""What a server is asked of a table, and the marginals that its answers make.

First each column is asked for its values and their counts. What `Encoder.fit` would
make of the rows is read off these, since a count weighs as much as repetition does:
kinds, bins, and labels. From then on labels are grouped by as they are, and numbers by
the bin that a CASE expression finds. The values of a number are read in blocks, and
beyond 2**16 of them neighbours share a cell, as on every other road. They must be those
that the expression compares: floats of an unknown driver are asked for once more, as
the engine makes doubles of them.

Then tables are counted: of a pair of columns, or of two features and the target. With
GROUPING SETS one statement counts all pairs of two dozen columns; GROUPING() tells the
sets apart, since a NULL may be a missing cell or a column that is not in the set. The
margins of every table must be the counts of its columns: a table that changes while it
is counted is noticed, unless a snapshot kept the changes out.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import check_table_size
from renyi.counting.sparse_counts import Blocks
from renyi.encoding import bins
from renyi.encoding.arrays import NumberColumn, parts, split_by_kind
from renyi.encoding.bins import Sketch, bin_codes
from renyi.encoding.columns import Column, Columns, Levels, label_text
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.encoding.rules import (
    NO_WEIGHT,
    bin_levels,
    check_identifiers,
    check_row_numbers,
    check_target,
    missing_texts,
    no_target,
)
from renyi.marginals.marginals import Marginals
from renyi.progress import Progress, ProgressCallback
from renyi.sources.databases import Database, QueryError, Row, cell_of, key_of
from renyi.sources.dialects import Dialect, binned
from renyi.warnings import warn_dropped

MAX_LABELS = 20_000
_TILE = 12  # columns along one side of a tile of pairs that one statement counts

Group = tuple[int, ...]  # places of the columns that are counted together
_Rows = NDArray[np.int64]
_T = TypeVar("_T")


class Request(NamedTuple):
    """What is to be counted, as `Marginals.from_sql` has it."""

    table: str | Sequence[str]
    target: str
    columns: Any  # their names; None for all others
    encoder: Encoder
    class_conditional: bool
    where: str | None
    weight: str | None
    progress: ProgressCallback | None = None

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        weight = [] if self.weight is None else [self.weight]
        return [*self.columns, self.target, *weight]


class FilteredTable(NamedTuple):
    """The rows that are counted: those of a table that meet some conditions."""

    dialect: Dialect
    table: str  # in quotes
    conditions: tuple[str, ...] = ()
    weight: tuple[str, str] | None = None  # the name, and the expression as a float

    def where(self, *conditions: str) -> FilteredTable:
        """Return the rows that meet further conditions."""
        return self._replace(conditions=(*self.conditions, *conditions))

    def source(self) -> str:
        """Return the table and its conditions, as they stand after FROM."""
        conditions = " AND ".join(self.conditions)
        return self.table + (f" WHERE {conditions}" if conditions else "")

    def select(self, expressions: Mapping[str, str]) -> str:
        """Return the statement that reads some columns, given by their expressions."""
        quoted = {self.dialect.identifier(name): e for name, e in expressions.items()}
        columns = [e if e == name else f"{e} AS {name}" for name, e in quoted.items()]
        return f"SELECT {', '.join(columns)} FROM {self.source()}"

    def count_by(
        self,
        expressions: Mapping[str, str],
        sets: Sequence[Sequence[str]] = (),
        rows: bool = False,
    ) -> str:
        """Return the statement that counts by some columns, or by sets of them."""

        def listed(names: Iterable[str]) -> str:
            return ", ".join(map(self.dialect.identifier, names))

        names = grouped = listed(expressions)
        columns = [names]
        weights = {} if self.weight is None else dict([self.weight])
        if sets:  # of columns, the last has the lowest bit: set if it is not in the set
            columns.insert(0, f"GROUPING({names})")
            grouped = f"GROUPING SETS ({', '.join(f'({listed(s)})' for s in sets)})"
        if rows or not weights:
            columns.append("COUNT(*)")
        columns += [f"SUM({listed([name])})" for name in weights]
        return (
            f"SELECT {', '.join(columns)}\n"
            f'FROM ({self.select({**expressions, **weights})}) AS "counted"\n'
            f"GROUP BY {grouped}"
        )


# ---- columns


class SqlColumn(NamedTuple):
    """A column as it is counted."""

    name: str
    expression: str  # that SQL groups by
    levels: Levels
    codes: Mapping[Any, int]  # of each of its values
    counts: NDArray[Any]  # rows, or weight, of each category

    @classmethod
    def of(
        cls,
        name: str,
        expression: str,
        levels: Levels,
        cells: Iterable[Any],
        codes: NDArray[Any],
        weights: NDArray[Any],
    ) -> SqlColumn:
        """Return a column whose cells have some codes and weights."""
        counts = np.zeros(len(levels.categories), weights.dtype)
        np.add.at(counts, codes, weights)
        places = dict(zip(map(key_of, cells), codes.tolist(), strict=True))
        return cls(name, expression, levels, places, counts)


def _split(answer: Sequence[Row], name: str) -> tuple[list[Any], _Rows, NDArray[Any]]:
    """Return the values in an answer to `count_by`, the rows of each, their weight."""
    cells = [cell_of(row[0], name) for row in answer]
    rows = np.array([int(row[1]) for row in answer], np.int64)
    if answer and len(answer[0]) > 2:
        return cells, rows, np.array([float(row[2]) for row in answer])
    return cells, rows, rows


class ColumnReader:
    """Reads the columns of some rows of a table, as an encoder takes them."""

    def __init__(
        self, database: Database, table: FilteredTable, encoder: Encoder
    ) -> None:
        self._database = database
        self._table = table
        self._encoder = encoder
        self._missing = missing_texts(encoder.missing)
        self._known = {column.name: column.levels for column in encoder.columns}

    def column(self, name: str, target: bool = False) -> SqlColumn:
        """Return a column; a fitted encoder has decided already what a feature is."""
        known = None if target else self._known.get(name)
        if known is not None and known.kind == "number":
            return self._fitted_number(name, known)
        settings = target_encoder(self._encoder) if target else self._settings(name)
        column = self._database.expression(name)
        with closing(self._values(name, column)) as blocks:
            first: list[Row] = []
            for block in blocks:  # all, or enough to know that these are no labels
                first += block
                if len(first) > bins.MOST:
                    break
            cells, rows, weights = _split(first, name)
            fitted, (codes,) = settings.fit_transform(
                self._as_table(name, cells),
                weights.astype(np.float64),
                refuse_identifiers=False,
            )
            levels = fitted.columns[0].levels
            if levels.kind == "label":
                if len(cells) > MAX_LABELS:
                    raise ValueError(
                        f"Column {name!r} has more than {MAX_LABELS:,} different "
                        "labels: drop it (on the command line, --id or --drop), or "
                        "make fewer of them in a view."
                    )
                if target:
                    classes = levels.with_missing(False)
                    known_rows = int(rows[codes < len(classes.categories)].sum())
                    check_target(Column(name, classes), known_rows)
                elif not settings.columns:
                    check_identifiers(fitted.columns, int(rows.sum()))
                return SqlColumn.of(name, column, levels, cells, codes, weights)
            # Floats of an unknown driver may not be the doubles that SQL compares.
            floats = any(isinstance(cell, float) for cell in cells)
            if not floats or self._table.dialect.name == "postgres":
                return self._number(name, settings, chain([first], blocks))
        as_double = self._table.dialect.as_double(column)
        with closing(self._values(name, as_double)) as doubles:
            return self._number(name, settings, doubles)

    def _values(self, name: str, column: str) -> Generator[list[Row]]:
        """Return the different values of a column with their counts, block by block."""
        sql = self._table.count_by({name: column}, rows=True)
        return self._database.fetch_blocks(sql, f"the values of {name!r}")

    def _settings(self, name: str) -> Encoder:
        """Return the encoder of one column."""
        if self._encoder.columns:
            return self._encoder.select([name])
        if isinstance(self._encoder.numeric, str):
            return self._encoder
        numeric = (name,) if name in self._encoder.numeric else ()
        return dataclasses.replace(self._encoder, numeric=numeric)

    def _as_table(self, name: str, cells: list[Any]) -> Any:
        """Return a table of one column, typed if all its cells are of one type."""
        kinds = {type(cell) for cell in cells if cell is not None}
        if len(kinds) < 2:
            # Of a column without a value, the engine alone knows the type.
            real = name in self._database.reals and not kinds
            try:
                return pa.table({name: pa.array(cells, pa.float64() if real else None)})
            except (pa.ArrowException, OverflowError):
                pass  # integers of more than 64 bits
        return pd.DataFrame({name: pd.Series(cells, dtype=object)})

    def _number(
        self, name: str, settings: Encoder, answer: Iterable[list[Row]]
    ) -> SqlColumn:
        """Return a number whose bins are those of all its values."""
        sketch = Sketch()
        whole = True
        texts = False
        n = 0
        gaps = 0.0
        for block in answer:
            cells, rows, weights = _split(block, name)
            weights = weights.astype(np.float64)
            part = next(parts(self._as_table(name, cells), [name]))
            (numbers,) = split_by_kind(part, frozenset([name]), self._missing)
            assert isinstance(numbers, NumberColumn)
            sketch.add(numbers.values, weights)
            whole &= numbers.integer
            texts |= any(isinstance(cell, (str, bytes)) for cell in cells)
            n += int(rows.sum())
            gaps += float(weights[np.isnan(numbers.values)].sum())
        if settings.numeric == "auto" and whole and not gaps:
            check_row_numbers(name, sketch, n)
        levels = bin_levels(sketch.cells, settings.bins, whole, gaps > 0)
        codes = bin_codes(sketch.cells.low, np.array(levels.edges))
        places = np.arange(len(levels.categories))
        counts = np.bincount(codes, sketch.cells.weight, len(places))
        if gaps:
            counts[-1] = gaps
        if self._table.weight is None:
            counts = counts.astype(np.int64)
        made = self._bin_expression(name, levels.edges, texts)
        return SqlColumn.of(name, made, levels, places.tolist(), places, counts)

    def _fitted_number(self, name: str, known: Levels) -> SqlColumn:
        """Return a number whose bins are known: only their counts are asked for."""
        made = self._bin_expression(name, known.edges, name not in self._database.reals)
        sql = self._table.count_by({name: made}, rows=True)
        answer = self._database.fetch(sql, f"the bins of {name!r}")
        cells, _, weights = _split(answer, name)
        codes = np.array([int(cell) for cell in cells], np.intp)
        levels = known.with_missing(len(known.edges) + 1 in codes)
        return SqlColumn.of(name, made, levels, codes.tolist(), codes, weights)

    def _bin_expression(self, name: str, edges: Sequence[float], texts: bool) -> str:
        dialect = self._table.dialect
        answers = map(str, range(len(edges) + 2))
        column = self._database.number(name)
        return binned(dialect, column, edges, self._missing, [*answers], texts=texts)


# ---- rows that are left out


def _weighted(database: Database, rows: FilteredTable, weight: str) -> FilteredTable:
    """Return the rows that weigh something; what cannot be a weight is an error."""
    name = rows.dialect.identifier(weight)
    value = rows.dialect.as_double(database.number(weight))
    asked = f"COUNT(*), COUNT({name}), MIN({value}), MAX({value})"
    sql = f"SELECT {asked} FROM {rows.source()}"
    ((total, known, low, high),) = database.fetch(sql, f"the weights {weight!r}")
    if known < total:
        raise ValueError(
            f"The weight {weight!r} is missing in {total - known:,} rows: give every "
            "row a weight, or leave these out by a condition (in Python, where=; on "
            "the command line, --where)."
        )
    if not (low >= 0 and high < np.inf):
        raise ValueError(
            f"The weight {weight!r} is {low if low < 0 else high} in a row: weights "
            "must be finite and not negative."
        )
    if not high:
        raise ValueError(NO_WEIGHT)
    return rows.where(f"{value} > 0")._replace(weight=(weight, value))


def _with_target(
    database: Database, rows: FilteredTable, target: SqlColumn
) -> FilteredTable:
    """Return the rows whose target is known; warn of those left out."""
    dialect = rows.dialect
    column = target.expression
    missing = len(target.levels.categories) - 1
    if not missing:
        raise no_target(target.name)
    tests = [f"{column} IS NOT NULL"]
    plain = (bytes, bool, int, float)
    codes = [
        dialect.literal(cell if isinstance(cell, plain) else label_text(cell))
        for (_, cell), code in target.codes.items()
        if code == missing and cell is not None
    ]
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


# ---- pairs


def batches(dialect: Dialect, width: int, class_conditional: bool) -> list[list[Group]]:
    """Return what each statement counts, of `width` columns with the target last."""
    features = width - 1 if class_conditional else width
    wanted: list[Group] = list(combinations(range(features), 2))
    if class_conditional:
        pairs = [(i, features) for i in range(features)]
        wanted = [*pairs, *((*pair, features) for pair in wanted)]
    if not dialect.grouping:
        return [[group] for group in wanted]
    # Columns are dealt to parts, and a statement has the pairs of two parts; the target
    # of class-conditional counts is in all of them.
    size = min(_TILE, (dialect.grouping - 1) // 2)
    last = (features - 1) // size
    tiles: dict[tuple[int, int], list[Group]] = {}
    for group in wanted:
        inside = [i // size for i in group[:2] if i < features]
        first = inside[0]
        second = inside[-1]
        if first == second:  # those within one part go with its neighbour
            first = min(first, last - 1)
            second = first + 1
        tiles.setdefault((first, second), []).append(group)
    return list(tiles.values())


class TableCounts:
    """A table on a server: its columns, which are read first, and their pairs."""

    run_now = "values and counts"
    run_later = "counting the pairs"

    def __init__(
        self,
        database: Database,
        request: Request,
        rows: FilteredTable,
    ) -> None:
        self._database = database
        self._request = request
        if request.weight is not None:
            rows = _weighted(database, rows, request.weight)
        reader = ColumnReader(database, rows, request.encoder)
        target = reader.column(request.target, target=True)
        if None in target.levels.categories:
            rows = _with_target(database, rows, target)
            reader = ColumnReader(database, rows, request.encoder)
            target = reader.column(request.target, target=True)
            if None in target.levels.categories:
                raise ValueError(
                    f"The target {target.name!r} holds missing codes that the database "
                    "cannot leave out: leave these rows out by a condition (in Python, "
                    "where=; on the command line, --where)."
                )
        found = []
        errors = []
        for name in self._watched("reading columns", request.columns):
            try:
                found.append(reader.column(name))
            except QueryError:
                raise
            except ValueError as error:  # all of them are reported at once
                errors.append(str(error))
        if errors:
            raise ValueError(" ".join(errors))
        self._rows = rows
        self._columns = [*found, target]
        for column in self._columns:
            self._check_unchanged(column.counts.sum(), target.counts.sum())
        most = np.inf if request.weight else float(target.counts.sum())
        check_table_size(
            [len(column.counts) for column in self._columns],
            len(target.counts) if request.class_conditional else 0,
            most * len(self._columns) ** 2,
        )
        given = len(self._columns), request.class_conditional
        self._batches = batches(database.dialect, *given)

    def statements(self) -> list[str]:
        """Return the statements that count the pairs."""
        return [self._statement(batch) for batch in self._batches]

    def count(self) -> Marginals:
        """Count the pairs, and put their tables into one."""
        request = self._request
        found = self._columns
        columns = Columns.of(Column(column.name, column.levels) for column in found)
        starts = offsets(columns.sizes)
        spans = [slice(*ends) for ends in zip(starts, starts[1:], strict=False)]
        target = found[-1].counts
        counts = Blocks(columns.sizes, target.dtype)
        D = starts[-2]
        inner = None
        if request.class_conditional:
            inner = np.zeros((len(target), D, D), target.dtype)
        for i, column in enumerate(found):
            counts.put(i, i, column.counts)
        for batch in self._watched("counting pairs", self._batches):
            first = " and ".join(repr(found[i].name) for i in batch[0])
            more = f" and {len(batch) - 1} more tables" if len(batch) > 1 else ""
            sql = self._statement(batch)
            answer = self._database.fetch(sql, f"the counts of {first}{more}")
            for (i, j, *rest), block in self._decoded(answer, batch):
                counts.put(i, j, block.sum(axis=2) if rest else block)
                if inner is not None and rest:
                    inner[:, spans[i], spans[j]] = np.moveaxis(block, 2, 0)
                    inner[:, spans[j], spans[i]] = block.T
                elif inner is not None:
                    places = np.arange(starts[i], starts[i + 1])
                    inner[:, places, places] = block.T
        n = target.sum().item()
        settings = request.encoder.settings()
        return Marginals(counts.table(), n, columns, request.target, settings, inner)

    def _watched(self, step: str, items: Sequence[_T]) -> Iterator[_T]:
        """Yield items, and tell how many are done before each."""
        begun = time.monotonic()
        for done, item in enumerate(items):
            if self._request.progress is not None:
                seconds = time.monotonic() - begun
                share = done / len(items)
                facts = f"statement {done + 1} of {len(items)}"
                self._request.progress(Progress(step, seconds, share, facts))
            yield item

    def _statement(self, batch: list[Group]) -> str:
        columns = self._columns
        expressions = {columns[i].name: columns[i].expression for i in _members(batch)}
        sets = [[columns[i].name for i in group] for group in batch]
        return self._rows.count_by(expressions, sets if len(sets) > 1 else ())

    def _decoded(
        self, answer: list[Row], batch: list[Group]
    ) -> Iterator[tuple[Group, NDArray[Any]]]:
        """Yield the table of each group of a batch, its margins checked."""
        members = _members(batch)
        found: dict[int, list[Row]] = {}
        if len(batch) == 1:
            found[0] = answer
        else:
            for row in answer:
                found.setdefault(int(row[0]), []).append(row[1:])
        dtype = self._columns[-1].counts.dtype
        number = int if dtype.kind == "i" else float
        for group in batch:
            absent = int("".join("0" if i in group else "1" for i in members), 2)
            rows = found.get(absent, [])
            codes = []
            columns = [self._columns[i] for i in group]
            for column, place in zip(columns, map(members.index, group), strict=True):
                cells = (cell_of(row[place], column.name) for row in rows)
                try:
                    codes.append([column.codes[key_of(cell)] for cell in cells])
                except KeyError:
                    raise self._changed() from None
            block = np.zeros([len(column.counts) for column in columns], dtype)
            np.add.at(block, tuple(codes), [number(row[-1]) for row in rows])
            for axis, column in enumerate(columns):
                others = tuple(a for a in range(len(group)) if a != axis)
                self._check_unchanged(block.sum(axis=others), column.counts)
            yield group, block

    def _check_unchanged(self, found: Any, expected: Any) -> None:
        """Check that counts are those of before."""
        if np.asarray(expected).dtype.kind == "i":
            same = np.array_equal(found, expected)
        else:  # weights are added up in another order
            scale = np.abs(expected).max(initial=0)
            same = np.allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)
        if not same:
            raise self._changed()

    def _changed(self) -> ValueError:
        return ValueError(
            f"The table {self._request.table!r} changed while it was counted: count "
            "again when nobody writes to it, or inside a transaction that keeps a "
            "snapshot; if nobody did, the database treats different texts as equal, "
            "such as 'A' and 'a', or reads a text as another number: correct that in a "
            "view."
        )


def _members(batch: list[Group]) -> list[int]:
    return sorted({i for group in batch for i in group})
