"""Queries for pairs: the statements that count a table by its columns, and the answers.

A table of counts is of a pair of columns, or of two features and the target. With
GROUPING SETS one statement counts all pairs of two dozen columns; GROUPING() tells the
sets apart, since a NULL may be a missing cell or a column that is not in the set.
Without them, each table has a statement of its own.

The margins of every table must be the counts of its columns: a table that changes while
it is counted is noticed, unless a snapshot kept the changes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.sources.databases import Row, cell_of, key_of
from renyi.sources.dialects import Dialect

if TYPE_CHECKING:
    from renyi.sources.sql_columns import SqlColumn

Group = tuple[int, ...]  # places of the columns that are counted together

_TILE = 12  # columns along one side of a tile of pairs that one statement counts


class FilteredTable(NamedTuple):
    """The rows that are counted: those of a quoted table that meet some conditions.

    `weight` is the quoted column of weights, if any.
    """

    dialect: Dialect
    table: str
    conditions: tuple[str, ...] = ()
    weight: str | None = None

    def where(self, *conditions: str) -> FilteredTable:
        """Return the rows that meet further conditions."""
        return self._replace(conditions=(*self.conditions, *conditions))

    def source(self) -> str:
        """Return the table and its conditions, as they stand after FROM."""
        conditions = " AND ".join(self.conditions)
        return self.table + (f" WHERE {conditions}" if conditions else "")

    def select(self, expressions: Mapping[str, str]) -> str:
        """Return the statement that reads some columns, given by their expressions."""
        return f"SELECT {', '.join(self._selected(expressions))} FROM {self.source()}"

    def count_by(self, expressions: Mapping[str, str], rows: bool = False) -> str:
        """Return the statement that counts by some columns.

        With `rows`, rows are counted before their weights are added up.
        """
        names = ", ".join(self._quoted(expressions))
        counts = ["COUNT(*)"] if rows and self.weight is not None else []
        return (
            f"SELECT {', '.join([names, *counts, self._weight_sum()])}\n"
            f"{self._from(expressions)}\nGROUP BY {names}"
        )

    def count_by_sets(
        self, expressions: Mapping[str, str], sets: Sequence[Sequence[str]]
    ) -> str:
        """Return the statement that counts by several sets of columns.

        Its rows begin with a number for the set: a bit for each column, the last one
        lowest, which is set if the column is not in it.
        """
        names = ", ".join(self._quoted(expressions))
        listed = ", ".join(f"({', '.join(self._quoted(each))})" for each in sets)
        return (
            f"SELECT GROUPING({names}), {names}, {self._weight_sum()}\n"
            f"{self._from(expressions)}\nGROUP BY GROUPING SETS ({listed})"
        )

    def _quoted(self, names: Iterable[str]) -> list[str]:
        return [self.dialect.identifier(name) for name in names]

    def _weight_sum(self) -> str:
        if self.weight is None:
            return "COUNT(*)"
        return f"SUM({self.dialect.as_double(self.weight)})"

    def _selected(self, expressions: Mapping[str, str]) -> list[str]:
        pairs = zip(expressions.values(), self._quoted(expressions), strict=True)
        return [
            made if made == quoted else f"{made} AS {quoted}" for made, quoted in pairs
        ]

    def _from(self, expressions: Mapping[str, str]) -> str:
        inner = self._selected(expressions)
        if self.weight is not None:
            inner.append(self.weight)
        return f'FROM (SELECT {", ".join(inner)} FROM {self.source()}) AS "counted"'


def groups(width: int, class_conditional: bool) -> Iterator[Group]:
    """Yield the columns to count together; the target is the last of `width`."""
    if not class_conditional:
        yield from combinations(range(width), 2)
        return
    for i in range(width - 1):
        yield (i, width - 1)
    for i, j in combinations(range(width - 1), 2):
        yield (i, j, width - 1)


def batches(dialect: Dialect, width: int, class_conditional: bool) -> list[list[Group]]:
    """Return what each statement counts, of `width` columns with the target last."""
    wanted = groups(width, class_conditional)
    if not dialect.grouping:
        return [[group] for group in wanted]
    # Columns are dealt to parts, and a statement has the pairs of two parts; the target
    # of class-conditional counts is in all of them.
    size = min(_TILE, (dialect.grouping - 1) // 2)
    last = (width - class_conditional - 1) // size
    tiles: dict[tuple[int, int], list[Group]] = {}
    for group in wanted:
        first, *rest = (i // size for i in group[:2] if i < width - class_conditional)
        second = rest[0] if rest else first
        if first == second:  # those within one part go with its neighbour
            first = min(first, last - 1)
            second = first + 1
        tiles.setdefault((first, second), []).append(group)
    return list(tiles.values())


def statement(
    table: FilteredTable, columns: list[SqlColumn], batch: list[Group]
) -> str:
    """Return the statement that counts a batch."""
    names = [column.name for column in columns]
    expressions = {names[i]: columns[i].expression for i in _members(batch)}
    if len(batch) == 1:
        return table.count_by(expressions)
    sets = [[names[i] for i in group] for group in batch]
    return table.count_by_sets(expressions, sets)


def _members(batch: list[Group]) -> list[int]:
    return sorted({i for group in batch for i in group})


def described(columns: list[SqlColumn], batch: list[Group]) -> str:
    """Return what a batch is, in words."""
    first = " and ".join(repr(columns[i].name) for i in batch[0])
    more = len(batch) - 1
    return f"the counts of {first}" + (f" and {more} more tables" if more else "")


def decoded(
    answer: Sequence[Row], columns: list[SqlColumn], batch: list[Group], table: Any
) -> Iterator[tuple[Group, NDArray[Any]]]:
    """Yield the table of each group of a batch, its margins checked."""
    members = _members(batch)
    found: dict[int, list[Row]] = {}
    if len(batch) == 1:
        found[0] = list(answer)
    else:
        for row in answer:
            found.setdefault(int(row[0]), []).append(row[1:])
    for group in batch:
        absent = ["0" if i in group else "1" for i in members]
        mask = int("".join(absent), 2) if len(batch) > 1 else 0
        places = [members.index(i) for i in group]
        block = _block(found.get(mask, []), [columns[i] for i in group], places, table)
        for axis, i in enumerate(group):
            others = tuple(a for a in range(len(group)) if a != axis)
            check_unchanged(block.sum(axis=others), columns[i].counts, table)
        yield group, block


def _block(
    rows: list[Row], columns: list[SqlColumn], places: list[int], table: Any
) -> NDArray[Any]:
    counts = columns[0].counts
    block = np.zeros([len(column.counts) for column in columns], counts.dtype)
    try:
        codes = [
            [column.codes[key_of(cell_of(row[p], column.name))] for row in rows]
            for column, p in zip(columns, places, strict=True)
        ]
    except KeyError:
        raise ValueError(_changed(table)) from None
    number = int if counts.dtype.kind == "i" else float
    np.add.at(block, tuple(codes), [number(row[-1]) for row in rows])
    return block


def check_unchanged(found: Any, expected: Any, table: Any) -> None:
    """Check that counts are those of before."""
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
        "write, the database takes different texts for equal, such as 'A' and 'a', or "
        "reads a text as another number: correct that in a view."
    )
