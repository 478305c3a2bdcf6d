"""Marginals of contingency tables: cross tables and counts in long format.

Statistics offices publish tables, not rows. Each table here becomes long first: the
categories of two or more columns and a count. Every pair of columns in it gives a block
of the marginals; every column gives its own margin. Where two tables speak of the same
margin they must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.marginals.arithmetic import occurring
from renyi.marginals.marginals import Marginals


def marginals(
    tables: Iterable[Any] | Mapping[Any, Any],
    target: str,
    count: str = "count",
    encoder: Encoder | None = None,
    tolerance: float = 1e-6,
) -> Marginals:
    """Assemble contingency tables; see `Marginals.from_tables`."""
    settings = (encoder or Encoder()).settings()
    if isinstance(tables, Mapping):
        tables = [named(table, names) for names, table in tables.items()]
    long = [in_long_format(table, count) for table in tables]
    if not long:
        raise ValueError("There are no tables to assemble.")
    columns = columns_of(long, settings, count)
    if target not in columns.names:
        raise ValueError(
            f"No table has the target {target!r}; the columns are "
            + ", ".join(map(repr, columns.names))
        )
    m = _assemble(long, columns, target, settings, count, tolerance)
    return occurring(m).validate(tolerance)


def named(table: Any, names: Any) -> pd.DataFrame:
    """Name the two sides of a cross table given as ``{(first, second): table}``."""
    first, second = names
    frame = pd.DataFrame(table)
    return frame.rename_axis(index=str(first), columns=str(second))


def in_long_format(table: Any, count: str) -> pd.DataFrame:
    """Return a table in long format, its counts checked."""
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
    return frame.assign(**{count: _checked_counts(frame, names, count)})


def _checked_counts(frame: pd.DataFrame, names: list[str], count: str) -> NDArray[Any]:
    numbers = pd.to_numeric(frame[count], errors="coerce")
    values = numbers.to_numpy(np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        cell = ", ".join(f"{name} = {frame[name].iloc[row]}" for name in names)
        raise ValueError(
            f"The count of {cell} is {frame[count].iloc[row]!r}: counts must be finite "
            "and not negative."
        )
    return numbers.to_numpy(np.int64) if numbers.dtype.kind in "iub" else values


def columns_of(long: list[pd.DataFrame], settings: Encoder, count: str) -> Columns:
    """Return all columns of all tables, with all their categories."""
    found: dict[str, Column] = {}
    labels = Encoder(missing=settings.missing, numeric=())
    for frame in long:
        for name in (c for c in frame.columns if c != count):
            held = frame.loc[frame[count] > 0, [name]]
            if not len(held):
                raise ValueError(f"The table of {name!r} counts no row at all.")
            values = held.drop_duplicates().astype(object)
            # Each label is there once, which is no sign of an identifier.
            fitted, _ = labels.fit_transform(values, refuse_identifiers=False)
            column = fitted.columns[0]
            found[name] = found[name].union(column) if name in found else column
    return Columns.of(found.values())


def _assemble(
    long: list[pd.DataFrame],
    columns: Columns,
    target: str,
    settings: Encoder,
    count: str,
    tolerance: float,
) -> Marginals:
    whole = all(frame[count].dtype.kind in "iu" for frame in long)
    starts, sizes = offsets(columns.sizes), columns.sizes
    counts = np.zeros((int(sizes.sum()),) * 2, np.int64 if whole else np.float64)
    known: set[tuple[int, int]] = set()
    n = long[0][count].sum()
    for frame in long:
        check_total(frame, count, n, tolerance)
        names = [c for c in frame.columns if c != count]
        places = columns.places(names)
        encoder = Encoder(
            missing=settings.missing, numeric=(), columns=columns.take(places)
        )
        codes = encoder.transform(frame[names].astype(object)).astype(np.intp)
        weight = frame[count].to_numpy()
        for a, b in [
            *((k, k) for k in range(len(names))),
            *combinations(range(len(names)), 2),
        ]:
            i, j = places[a], places[b]
            block = _cross(codes[a], codes[b], weight, int(sizes[i]), int(sizes[j]))
            rows = slice(starts[i], starts[i + 1])
            cols = slice(starts[j], starts[j + 1])
            if (i, j) in known:
                _check_same(
                    counts[rows, cols], block, columns[i], columns[j], n, tolerance
                )
            known |= {(i, j), (j, i)}
            counts[rows, cols] = block
            counts[cols, rows] = block.T
    absent = frozenset(
        frozenset((columns.names[i], columns.names[j]))
        for i, j in combinations(range(len(columns)), 2)
        if (i, j) not in known
    )
    total = int(n) if whole else float(n)
    return Marginals(counts, total, columns, target, settings, None, absent)


def _cross(
    a: NDArray[Any], b: NDArray[Any], weight: NDArray[Any], rows: int, cols: int
) -> NDArray[Any]:
    """Contingency table of codes; rows of no count may hold codes of no category."""
    counted = weight > 0
    table = np.zeros((rows, cols), weight.dtype)
    np.add.at(table, (a[counted], b[counted]), weight[counted])
    return table


def check_total(frame: pd.DataFrame, count: str, n: Any, tolerance: float) -> None:
    """Refuse a table that counts another number of rows than the first one."""
    total = frame[count].sum()
    if abs(total - n) > tolerance * n:
        names = [c for c in frame.columns if c != count]
        raise ValueError(
            f"The table of {names} counts {total:g} rows, the first table {n:g} "
            f"(off by {abs(total - n):g}): all tables must be of the same rows."
        )


def _check_same(
    old: NDArray[Any],
    new: NDArray[Any],
    first: Column,
    second: Column,
    n: Any,
    tolerance: float,
) -> None:
    off = np.abs(old - new)
    k, j = np.unravel_index(int(off.argmax()), off.shape)
    if off[k, j] > tolerance * n:
        cell = f"{first.name} = {first.levels.texts[k]}"
        if first.name != second.name:
            cell += f", {second.name} = {second.levels.texts[j]}"
        raise ValueError(
            f"The margins disagree: {cell} has {old[k, j]:g} rows in one table and "
            f"{new[k, j]:g} in another (off by {off[k, j]:g})."
        )
