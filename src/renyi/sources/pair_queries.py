"""Cubes: the tables of counts that a database is asked for, and what it answers.

A cube is a pair of columns, or two features and the target. How many of them one
statement counts is the engine's affair: with GROUPING SETS, all pairs of two dozen
columns; in SQLite, those of so many columns that the groups they make together stay
few; elsewhere one.

The margins of every table must be the counts of its columns: a table that changes
while it is counted is noticed, unless a snapshot kept the changes out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.sources.databases import Row
from renyi.sources.dialects import Dialect
from renyi.sources.filtered_table import Counted
from renyi.sources.sql_columns import Field, cell_of, key_of

Cube = tuple[int, ...]  # places of the columns that are counted together

_TILE = 12  # columns along one side of a tile of pairs that one statement counts
_GROUPS = 2**16  # that the columns of a tile may make where these are added up


def cubes(width: int, class_conditional: bool) -> Iterator[Cube]:
    """Yield the columns to count together; the target is the last of `width`.

    >>> list(cubes(3, class_conditional=True))
    [(0, 2), (1, 2), (0, 1, 2)]
    """
    if not class_conditional:
        yield from combinations(range(width), 2)
        return
    for i in range(width - 1):
        yield (i, width - 1)
    for i, j in combinations(range(width - 1), 2):
        yield (i, j, width - 1)


def batches(
    dialect: Dialect, sizes: Sequence[int], class_conditional: bool
) -> list[list[Cube]]:
    """Return what each statement counts, for columns of so many values.

    >>> from renyi.sources.dialects import DIALECTS
    >>> batches(DIALECTS["sqlite"], [2, 2, 2], class_conditional=False)
    [[(0, 1), (0, 2), (1, 2)]]
    >>> batches(DIALECTS["sqlite"], [2, 90_000, 2], class_conditional=False)
    [[(0, 1)], [(0, 2)], [(1, 2)]]
    """
    wanted = cubes(len(sizes), class_conditional)
    if not (dialect.grouping or dialect.adds_up):
        return [[cube] for cube in wanted]
    tiles = _tiles(wanted, _sides(dialect, sizes, class_conditional))
    if dialect.grouping:
        return tiles
    return [part for tile in tiles for part in _affordable(tile, sizes)]


def _sides(
    dialect: Dialect, sizes: Sequence[int], class_conditional: bool
) -> list[int]:
    """Return to which part of the columns each belongs; the target may be in all."""
    if dialect.grouping:
        width = min(_TILE, (dialect.grouping - 1) // 2)
        return [j // width for j in range(len(sizes) - class_conditional)]
    most = math.isqrt(_GROUPS // (sizes[-1] if class_conditional else 1))
    found, groups, width = [0], sizes[0], 1
    for size in sizes[1 : len(sizes) - class_conditional]:
        fits = groups * size <= most and width < _TILE
        groups, width = (groups * size, width + 1) if fits else (size, 1)
        found.append(found[-1] + (not fits))
    return found


def _tiles(wanted: Iterable[Cube], sides: list[int]) -> list[list[Cube]]:
    """Gather the cubes of each two parts; those within one go with its neighbour."""
    tiles: dict[tuple[int, int], list[Cube]] = {}
    for cube in wanted:
        first, *rest = (sides[i] for i in cube[:2] if i < len(sides))
        second = rest[0] if rest else first
        if first == second:
            first = min(first, sides[-1] - 1)
            second = first + 1
        tiles.setdefault((first, second), []).append(cube)
    return list(tiles.values())


def _affordable(tile: list[Cube], sizes: Sequence[int]) -> list[list[Cube]]:
    """Return a tile, or its cubes one by one where they would make many groups."""
    if math.prod(sizes[i] for i in _held(tile)) <= _GROUPS:
        return [tile]
    return [[cube] for cube in tile]


def statement(rows: Counted, fields: list[Field], batch: list[Cube]) -> str:
    """Return the statement that counts a batch."""
    names = [field.name for field in fields]
    expressions = {names[i]: fields[i].expression for i in _held(batch)}
    if len(batch) == 1:
        return rows.by(expressions)
    return rows.by_sets(expressions, [[names[i] for i in cube] for cube in batch])


def _held(batch: list[Cube]) -> list[int]:
    return sorted({i for cube in batch for i in cube})


def described(fields: list[Field], batch: list[Cube]) -> str:
    """Return what a batch is, in words."""
    first = " and ".join(repr(fields[i].name) for i in batch[0])
    more = len(batch) - 1
    return f"the counts of {first}" + (f" and {more} more tables" if more else "")


def decoded(
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
        absent = ["0" if i in cube else "1" for i in held]
        mask = int("".join(absent), 2) if len(batch) > 1 else 0
        places = [held.index(i) for i in cube]
        block = _block(found.get(mask, []), [fields[i] for i in cube], places, table)
        for axis, i in enumerate(cube):
            others = tuple(a for a in range(len(cube)) if a != axis)
            refuse_change(block.sum(axis=others), fields[i].counts, table)
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


def refuse_change(found: Any, expected: Any, table: Any) -> None:
    """Refuse counts that are not those of before."""
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
