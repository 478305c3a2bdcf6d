"""Marginals of contingency tables: cross tables and counts in long format.

Statistics offices publish tables, not rows. Each table here becomes long first: the
categories of two or more columns and a count. Every pair of columns in it gives a block
of the marginals; every column gives its own margin. Where two tables give the same
margin, they must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.sparse_counts import Blocks
from renyi.encoding.columns import Column, Columns, TableLike
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.marginals.arithmetic import occurring
from renyi.marginals.consistency import TOLERANCE
from renyi.marginals.marginals import Marginals
from renyi.validation import InputError

FEW = 30  # rows of a category that may be a sum of others by chance


def marginals(
    tables: Iterable[TableLike] | Mapping[Any, TableLike],
    target: str,
    count: str = "count",
    encoder: Encoder | None = None,
    tolerance: float = TOLERANCE,
) -> Marginals:
    """Assemble contingency tables; see `Marginals.from_tables`."""
    settings = (encoder or Encoder()).settings()
    long = long_tables(tables, count, tolerance)
    for frame in long:
        check_no_total(frame, [c for c in frame.columns if c != count], count, count)
    columns = columns_of(long, settings, count)
    check_target(columns, target)
    m = _assemble(long, columns, target, settings, count, tolerance)
    return occurring(m).validate(tolerance)


def check_target(columns: Columns, target: str) -> None:
    """Raise ValueError unless some table has the target."""
    if target not in columns.names:
        names = ", ".join(map(repr, columns.names))
        raise ValueError(
            f"No table has the target {target!r}; the columns are {names}."
        )


def long_tables(
    tables: Iterable[TableLike] | Mapping[Any, TableLike],
    count: str,
    tolerance: float = TOLERANCE,
) -> list[pd.DataFrame]:
    """Return tables in long format, all counting the same number of rows.

    A mapping names the two sides of cross tables: ``{(first, second): table}``.
    """
    long = [_counted(long_format(table, count), count) for table in framed(tables)]
    if not long:
        raise ValueError("There are no tables to assemble: give at least one.")
    n = long[0][count].sum()
    for frame in long:
        total = frame[count].sum()
        if abs(total - n) > tolerance * n:
            names = [c for c in frame.columns if c != count]
            raise ValueError(
                f"The table of {names} counts {total:g} rows, the first table {n:g} "
                f"(off by {abs(total - n):g}): all tables must be of the same rows."
            )
    return long


def check_no_total(
    frame: pd.DataFrame, names: Sequence[str], low: str, high: str
) -> None:
    """Raise an error if a category has the sum of the others in every cell.

    Counts are between the columns `low` and `high`, which may be the same.
    """
    for name in names if len(names) > 1 else ():
        others = [other for other in names if other != name]
        least, most = (
            frame.pivot_table(end, others, name, "sum", 0) for end in (low, high)
        )
        if len(least) < 2 or len(least.columns) < 3:
            continue
        for label in least.columns:
            rest_least = least.sum(axis=1) - least[label]
            rest_most = most.sum(axis=1) - most[label]
            may_be = (least[label] <= rest_most) & (rest_least <= most[label])
            known = (rest_most - rest_least < least[label]).all()
            if may_be.all() and known and least[label].sum() >= FEW:
                raise InputError(
                    f"{name} = {label} has the sum of the other categories everywhere, "
                    "as a total has: leave it out, or state the label of totals with "
                    "{total}.",
                    total=str(label),
                )


def framed(
    tables: Iterable[TableLike] | Mapping[Any, TableLike],
) -> Iterable[TableLike]:
    """Return tables; a mapping names the two sides of cross tables."""
    if not isinstance(tables, Mapping):
        return tables
    return [
        pd.DataFrame(table).rename_axis(index=str(first), columns=str(second))
        for (first, second), table in tables.items()
    ]


def long_format(table: TableLike, count: str) -> pd.DataFrame:
    """Return a table in long format: columns of categories, and a column of counts."""
    if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "iloc"):
        table = pa.table(table).to_pandas()
    if isinstance(table, pd.Series):
        frame = table.rename(count).reset_index()
    elif isinstance(table, pd.DataFrame) and table.columns.name is not None:
        stacked: Any = table.stack(future_stack=True)
        frame = stacked.rename(count).reset_index(allow_duplicates=True)
    elif isinstance(table, pd.DataFrame) and count in table.columns:
        frame = table.reset_index(drop=True)
    else:
        raise ValueError(
            "A table is neither a cross table whose index and columns are named, nor "
            f"counts in long format with a column {count!r}."
        )
    frame.columns = [str(c) for c in frame.columns]
    names = [c for c in frame.columns if c != count]
    nameless = {"index", *(f"level_{k}" for k in range(len(names)))} & set(names)
    if nameless or len(set(names)) < len(names) or not names:
        raise ValueError(
            f"A table's columns are {names}: name the index and the columns of a cross "
            "table after the two columns it crosses."
        )
    return frame


def _counted(frame: pd.DataFrame, count: str) -> pd.DataFrame:
    """Return a table in long format with its counts as numbers, checked."""
    names = [c for c in frame.columns if c != count]
    numbers = pd.to_numeric(frame[count], errors="coerce")
    values = numbers.to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if len(wrong):
        cell = ", ".join(f"{name} = {frame[name].iloc[wrong[0]]}" for name in names)
        raise ValueError(
            f"The count of {cell} is {frame[count].iloc[wrong[0]]!r}: counts must be "
            "finite and not negative."
        )
    if numbers.dtype.kind in "iub":
        values = numbers.to_numpy(np.int64)
    return frame.assign(**{count: values})


def columns_of(long: list[pd.DataFrame], settings: Encoder, count: str) -> Columns:
    """Return all columns of all tables, with all their categories."""
    columns: dict[str, Column] = {}
    labels = target_encoder(settings)
    for frame in long:
        for name in (c for c in frame.columns if c != count):
            counted = frame.loc[frame[count] > 0, [name]]
            if not len(counted):
                raise ValueError(f"The table of {name!r} counts no row at all.")
            values = counted.drop_duplicates().astype(object)
            # Each label is there once. This does not make it an identifier.
            fitted, _ = labels.fit_transform(values, refuse_identifiers=False)
            column = fitted.columns[0]
            columns[name] = columns[name].union(column) if name in columns else column
    return Columns.of(columns.values())


def _assemble(
    long: list[pd.DataFrame],
    columns: Columns,
    target: str,
    settings: Encoder,
    count: str,
    tolerance: float,
) -> Marginals:
    whole = all(frame[count].dtype.kind in "iu" for frame in long)
    sizes = columns.sizes
    known: dict[tuple[int, int], NDArray[Any]] = {}
    n = long[0][count].sum()
    for frame in long:
        names = [c for c in frame.columns if c != count]
        places = columns.places(names)
        encoder = replace(target_encoder(settings), columns=columns.take(places))
        # Rows of no count may hold labels of no category.
        frame = frame[frame[count] > 0]
        codes = encoder.transform(frame[names].astype(object)).astype(np.intp)
        weight = frame[count].to_numpy()
        alone = [(k, k) for k in range(len(names))]
        for a, b in [*alone, *combinations(range(len(names)), 2)]:
            if places[a] > places[b]:
                a, b = b, a
            axes = [a] if a == b else [a, b]
            pair = places[a], places[b]
            block = np.zeros([sizes[places[k]] for k in axes], weight.dtype)
            np.add.at(block, tuple(codes[axes]), weight)
            if pair in known:
                both = [columns[places[k]] for k in axes]
                _check_same(known[pair], block, both, n, tolerance)
            known[pair] = block
    absent = frozenset(
        frozenset((columns.names[i], columns.names[j]))
        for i, j in combinations(range(len(columns)), 2)
        if (i, j) not in known
    )
    total = int(n) if whole else float(n)
    counts = Blocks(sizes, np.int64 if whole else np.float64)
    for (i, j), block in known.items():
        counts.put(i, j, block)
    return Marginals(counts.table(), total, columns, target, settings, None, absent)


def _check_same(
    old: NDArray[Any],
    new: NDArray[Any],
    columns: list[Column],
    n: float,
    tolerance: float,
) -> None:
    off = np.abs(old - new)
    place = np.unravel_index(int(off.argmax()), off.shape)
    if off[place] > tolerance * n:
        pairs = zip(columns, place, strict=True)
        cell = ", ".join(f"{c.name} = {c.levels.texts[k]}" for c, k in pairs)
        raise ValueError(
            f"The margins disagree: {cell} has {old[place]:g} rows in one table and "
            f"{new[place]:g} in another (off by {off[place]:g})."
        )
